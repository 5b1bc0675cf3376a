//! `exitscope validate`.

use crate::Outcome;
use crate::cli::{ValidateArgs, ValidateFormat as Format};
use exitscope_validation::{ExperimentResult, Role, RowResult, Validation, Verdict, experiments, validate};
use exitscope_view::{Column, Page, Section, Sentence, Table, write_page};
use std::io::Write;

pub fn run(args: &ValidateArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let mut list = experiments()?;
    if let Some(unknown) = args.experiments.iter().find(|name| list.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = list.iter().map(|known| known.name.as_str()).collect();
        anyhow::bail!("there is no experiment {unknown:?}; there are {}", known.join(", "));
    }
    if !args.experiments.is_empty() {
        list.retain(|experiment| args.experiments.contains(&experiment.name));
    }
    let validation = validate(&list, args.replicates)?;
    match args.format {
        Format::Json => {
            serde_json::to_writer(&mut *out, &validation)?;
            writeln!(out)?;
        }
        Format::Csv => csv_rows(&validation, out)?,
        Format::Markdown => markdown(&validation, out)?,
        Format::Text => write_page(&page(&validation), crate::report::look(), out)?,
    }
    Ok(if validation.wrong > 0 { Outcome::Findings } else { Outcome::Fine })
}

fn csv_rows(validation: &Validation, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let heading =
        ["experiment", "id", "what", "published", "unit", "simulated", "low", "high", "ratio", "role", "verdict"];
    out.write_record(heading)?;
    for experiment in &validation.experiments {
        for row in &experiment.rows {
            let figures = [row.published, row.simulated, row.range[0], row.range[1], row.ratio].map(|f| f.to_string());
            let [published, simulated, low, high, ratio] = &figures;
            out.write_record([
                &experiment.name,
                &row.id,
                &row.what,
                published,
                &row.unit,
                simulated,
                low,
                high,
                ratio,
                role(row.role),
                verdict(row.verdict),
            ])?;
        }
    }
    out.flush()?;
    Ok(())
}

fn markdown(validation: &Validation, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# The simulator against published measurements\n")?;
    writeln!(
        out,
        "Written by `exitscope validate --format markdown`. *Calibrated* rows were used to fit numbers of the cost \
         model, *predicted* ones were not. *Near*: within 25 % of the published change, or of the figure where it tells \
         of no change. The published figures are in `crates/validation/published.csv`, the scenarios beside it. Free \
         parameters were fitted to calibrated rows alone: `cargo run --release -p exitscope-validation --example refit` does \
         so anew.\n"
    )?;
    writeln!(out, "{}", summary(validation))?;
    for experiment in &validation.experiments {
        writeln!(out, "\n## {}\n\n{}.\n", experiment.name, experiment.about)?;
        writeln!(out, "| row | what | published | simulated | least to greatest | ratio | | |")?;
        writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |")?;
        for row in &experiment.rows {
            let [id, what, published, simulated, ratio, role, verdict] = cells(row);
            let [low, high] = row.range.map(figure);
            writeln!(
                out,
                "| {id} | {what} | {published} | {simulated} | {low} to {high} | {ratio} | {role} | {verdict} |"
            )?;
        }
        writeln!(out, "\nCosts: {}.{}", models(experiment).join(", "), fitted(experiment))?;
        for remark in &experiment.remarks {
            writeln!(out, "\n{remark}")?;
        }
    }
    Ok(())
}

/// The cost models of an experiment, each a link.
fn models(experiment: &ExperimentResult) -> Vec<String> {
    let mut names: Vec<&str> = experiment.costs.iter().map(|cost| cost.model.as_str()).collect();
    names.dedup();
    names.into_iter().map(|name| format!("[{name}](models.md#{})", name.replace('.', ""))).collect()
}

fn fitted(experiment: &ExperimentResult) -> String {
    if experiment.fitted.is_empty() { String::new() } else { format!(" Fitted: {}.", experiment.fitted.join("; ")) }
}

fn summary(validation: &Validation) -> String {
    let Validation { predicted, predicted_near, predicted_changes, near, wrong, .. } = validation;
    let all = validation.experiments.iter().flat_map(|experiment| &experiment.rows);
    let far: Vec<&str> = all.filter(|row| row.verdict == Verdict::Far).map(|row| row.id.as_str()).collect();
    let far = match far.len() {
        0 => String::new(),
        _ => format!(" Far: {}; the remarks of their experiments say why.", far.join(", ")),
    };
    format!(
        "{predicted_near} of {predicted} predicted rows lie within 25 % of what was published: {near} of \
         {predicted_changes} that tell of a change, and {} of {} plain figures. {wrong} rows tell of a change in the \
         wrong direction.{far}",
        predicted_near - near,
        predicted - predicted_changes
    )
}

fn page(validation: &Validation) -> Page {
    let mut sections: Vec<Section> = validation.experiments.iter().map(section).collect();
    let sentences = vec![Sentence { text: summary(validation), warning: validation.wrong > 0 }];
    sections.push(Section { title: "All in all".into(), sentences, ..Section::default() });
    Page { sections }
}

fn section(experiment: &ExperimentResult) -> Section {
    let column = |title: &'static str, names, rank| Column { title: title.into(), names, rank };
    let columns = vec![
        column("row", true, 0),
        column("what", true, 3),
        column("published", false, 0),
        column("simulated", false, 0),
        column("ratio", false, 0),
        column("", true, 0),
        column("verdict", true, 1),
    ];
    let rows = experiment.rows.iter().map(|row| cells(row).to_vec()).collect();
    let mut notes = Vec::new();
    if !experiment.fitted.is_empty() {
        notes.push(format!("Fitted to the calibrated rows: {}.", experiment.fitted.join("; ")));
    }
    notes.extend(experiment.remarks.iter().cloned());
    Section {
        title: experiment.name.clone(),
        sentences: vec![Sentence { text: experiment.about.clone(), warning: false }],
        table: Some(Table { columns, rows }),
        notes,
        ..Section::default()
    }
}

fn cells(row: &RowResult) -> [String; 7] {
    [
        row.id.clone(),
        row.what.clone(),
        format!("{} {}", figure(row.published), row.unit),
        figure(row.simulated),
        format!("{:.2}", row.ratio),
        role(row.role).to_string(),
        verdict(row.verdict).to_string(),
    ]
}

/// Four digits or, of larger numbers, all before the point.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Calibrated => "calibrated",
        Role::Predicted => "predicted",
    }
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Near => "near",
        Verdict::Far => "far",
        Verdict::Wrong => "WRONG DIRECTION",
    }
}
