//! A validation as a page, as CSV and as Markdown.

use crate::classes::{Predictability, row_classes};
use crate::compare::{Copied, Count, ExperimentResult, FitVerdict, RowResult, Validation};
use crate::experiment::RowRole;
use crate::lab_page::write_lab;
use crate::not_modelled::NotModelled;
use crate::tried::write_tried;
use exitscope_view::{Page, PageSection, Sentence, Table, TableColumn};
use std::cmp::Ordering;
use std::io::{self, Write};

/// Writes the rows as CSV.
pub fn write_validation_csv(validation: &Validation, out: &mut dyn Write) -> csv::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let heading =
        ["experiment", "id", "what", "published", "unit", "simulated", "low", "high", "ratio", "role", "verdict"];
    out.write_record(heading.into_iter().chain(["follows", "given", "previous"]))?;
    for experiment in &validation.experiments {
        for row in &experiment.rows {
            let figures = [row.published, row.simulated, row.range[0], row.range[1], row.ratio].map(|f| f.to_string());
            let [published, simulated, low, high, ratio] = &figures;
            out.write_record([
                experiment.name.as_str(),
                &row.id,
                &row.what,
                published,
                &row.unit,
                simulated,
                low,
                high,
                ratio,
                role(row),
                verdict(row.verdict),
                &row.follows.join(" "),
                row.given.as_deref().unwrap_or_default(),
                row.previous.as_ref().map_or("", |previous| previous.id.as_str()),
            ])?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Writes docs/validation.md.
pub fn write_validation_markdown(validation: &Validation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# The simulator against published measurements\n")?;
    writeln!(
        out,
        "Written by `exitscope validate --format markdown`. *Calibrated* rows were used to fit numbers of the cost \
         model, *predicted* ones were not. A predicted row that *follows* from other rows by arithmetic, or is *given* by \
         the configuration, is no prediction of its own. *Near*: within 25 % of the published change, or of the figure where it tells \
         of no change; of a published range, of its nearest end. The published figures are in `crates/validation/published.csv`, the scenarios beside it. Free \
         parameters were fitted to calibrated rows alone: `cargo run --release -p exitscope-validation --example refit` does \
         so anew.\n"
    )?;
    write_belief(validation, out)?;
    write_skill(validation, out)?;
    let [changes, wrong] = all_changes(validation);
    writeln!(
        out,
        "{}\n\nOf all {changes} published changes, also those of a figure from one configuration to the next, {wrong} go in the wrong \
         direction.",
        summary(validation)
    )?;
    write_classes(validation, out)?;
    write_tried(out)?;
    write_lab(out)?;
    if !validation.copied.is_empty() {
        writeln!(out, "\n## Against copying\n\n{}\n", copying(&validation.copied))?;
        writeln!(out, "| experiment | {} |", COPIED.join(" | "))?;
        writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: |")?;
        for of in validation.copied.iter().chain([&all_copied(&validation.copied)]) {
            writeln!(out, "| {} | {} |", of.experiment, copied_cells(of).join(" | "))?;
        }
    }
    for experiment in &validation.experiments {
        writeln!(out, "\n## {}\n\n{}.\n", experiment.name, experiment.description)?;
        writeln!(out, "| row | what | published | simulated | least to greatest | ratio | | |")?;
        writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |")?;
        for row in &experiment.rows {
            let [id, what, published, simulated, ratio, _, verdict] = cells(row);
            let role = match (&row.follows[..], &row.given) {
                ([], None) => role(row).to_string(),
                ([], Some(why)) => format!("given: {why}"),
                (rows, _) => format!("{}, follows from {}", word(row.role), rows.join(", ")),
            };
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
    write_not_modelled(&validation.not_modelled, out)
}

/// Root mean square of logarithms.
fn rms(of: &[f64]) -> String {
    format!("{:.2}", (of.iter().map(|log| log * log).sum::<f64>() / of.len() as f64).sqrt())
}

/// What may be believed of which question.
fn write_belief(validation: &Validation, out: &mut dyn Write) -> io::Result<()> {
    let [changes, wrong] = all_changes(validation);
    let Count { rows, near, changes: told, changes_near } = validation.independent;
    let is_better = |of: &[[f64; 2]]| square_sum(of, 0) < square_sum(of, 1);
    let names = |better: bool| -> String {
        let of: Vec<&str> =
            skill(validation).into_iter().filter(|of| is_better(&of.1) == better).map(|of| of.0).collect();
        if of.is_empty() { "none".to_string() } else { of.join(", ") }
    };
    writeln!(
        out,
        "What may be believed of it:\n\n\
         | question | answer |\n| --- | --- |\n\
         | Which way does a change go? | mostly: {} of {changes} published changes go the simulated way |\n\
         | By how much? | {changes_near} of {told} independent changes within 25 % |\n\
         | How high is the figure afterwards? | do not rely on it: {} of {} within 25 % |\n\
         | Is that better than copying the figure of the configuration before? | yes in {}; no in {} |\n\
         | How sure is one figure? | `sim --uncertainty`: its range over all numbers that are assumed, and which of them moves it most |\n\
         | Is the scenario like my host? | `sim` and `sweep --check RECORDING`: they predict no change where they are more than 10 % apart |\n\
         | What becomes of another processor, release or hypervisor? | not predicted: a cost model is one machine's |\n\
         | Which published rows can be predicted at all? | [three classes](#what-can-be-predicted), decided before the model was touched for them |\n\
         | Does it say what real guests do? | [one program in 48 cells](#the-simulator-beside-the-lab), predicted first, on one machine |\n\
         | What was predicted first and tried afterwards? | [on real guests](#predicted-then-tried), and published figures that are kept back, [at first](predictions.csv) and [at the end](predictions-2.csv) |\n\
         | Will it pay on my host? | [try](try.md) it there |\n",
        changes - wrong,
        near - changes_near,
        rows - told,
        names(true),
        names(false)
    )
}

/// The sum of squares of the simulated (0) or the copied ones (1).
fn square_sum(of: &[[f64; 2]], at: usize) -> f64 {
    of.iter().map(|row| row[at].powi(2)).sum()
}

/// By experiment, of independent rows that have a published configuration before them: the logarithms of simulated over published, and of
/// copied over published.
fn skill(validation: &Validation) -> Vec<(&str, Vec<[f64; 2]>)> {
    let of_one = |experiment: &ExperimentResult| -> Vec<[f64; 2]> {
        let independent = experiment.rows.iter().filter(|row| row.role == RowRole::Predicted && row.follows.is_empty());
        let pair = |row: &RowResult| {
            let copied = row.previous.as_ref()?.published;
            // A logarithm has no zero; no such row is a prediction of its own.
            let are = [row.published, row.simulated, copied].iter().all(|figure| *figure > 0.0) && row.given.is_none();
            are.then(|| [row.simulated, copied].map(|figure| (figure / row.published).ln()))
        };
        independent.filter_map(pair).collect()
    };
    let all = validation.experiments.iter().map(|of| (of.name.as_str(), of_one(of)));
    all.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// The first table: how far the simulation and the best prediction without a model are off.
fn write_skill(validation: &Validation, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = skill(validation);
    if lines.is_empty() {
        return Ok(());
    }
    lines.push(("all", lines.iter().flat_map(|(_, rows)| rows.clone()).collect()));
    writeln!(
        out,
        "How far predictions are off, as the root mean square of the logarithm of predicted over published, of independent rows that \
         have a published configuration before them. The null is a copy of its figure.\n\n\
         | experiment | rows | simulated | copied |\n| --- | ---: | ---: | ---: |"
    )?;
    for (name, rows) in lines {
        let [simulated, copied] = [0, 1].map(|at| rms(&rows.iter().map(|row| row[at]).collect::<Vec<_>>()));
        writeln!(out, "| {name} | {} | {simulated} | {copied} |", rows.len())?;
    }
    writeln!(out)
}

/// What can be predicted of published rows, and of those with a tolerance how many are within it.
fn write_classes(validation: &Validation, out: &mut dyn Write) -> io::Result<()> {
    if validation.not_modelled.is_empty() {
        return Ok(());
    }
    let classes = row_classes().map_err(io::Error::other)?;
    writeln!(
        out,
        "\n## What can be predicted\n\nOf each published row `crates/validation/classes.toml` says what could be predicted of it: decided \
         before the model is touched for any of them, not by how well it does. *Within*: the tolerance, in per cent of the published \
         figure. *Simulated*: how many independent predicted rows lie within it. Figures that are published and not in the table are \
         predicted in [predictions.csv](predictions.csv)."
    )?;
    for class in Predictability::ALL {
        let of_class = || classes.iter().filter(move |of| of.class == class);
        let rows: usize = of_class().map(|of| of.rows.len()).sum();
        writeln!(out, "\n### {} ({rows} rows)\n", class.word())?;
        let with_tolerance = class == Predictability::Covariates;
        let heading = if with_tolerance {
            "| rows | given | within | because | simulated |\n| --- | --- | ---: | --- | --- |"
        } else {
            "| rows | because |\n| --- | --- |"
        };
        writeln!(out, "{heading}")?;
        for of in of_class() {
            write!(out, "| {} |", of.rows.join(", "))?;
            if let (Some(given), Some(within)) = (&of.given, of.within) {
                write!(out, " {given} | {within} % |")?;
            }
            write!(out, " {} |", of.because)?;
            match of.within_tolerance(validation) {
                Some([0, _]) => write!(out, " none |")?,
                Some([rows, within]) => write!(out, " {within} of {rows} |")?,
                None => {}
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// All published changes, also those from one configuration to the next, and how many go in the wrong direction.
fn all_changes(validation: &Validation) -> [usize; 2] {
    let rows = || validation.experiments.iter().flat_map(|experiment| &experiment.rows);
    let next = || rows().filter_map(|row| row.previous.as_ref()?.direction);
    let wrong = rows().filter(|row| row.verdict == FitVerdict::Wrong).count() + next().filter(|right| !right).count();
    [rows().filter(|row| row.change).count() + next().count(), wrong]
}

fn write_not_modelled(list: &[NotModelled], out: &mut dyn Write) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Not modelled, because\n\n{NOT_MODELLED}\n")?;
    writeln!(out, "| row | what | published | because |\n| --- | --- | ---: | --- |")?;
    for row in not_modelled_cells(list) {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    Ok(())
}

const NOT_MODELLED: &str = "The published rows that no experiment stands for, each with the reason.";

fn not_modelled_cells(list: &[NotModelled]) -> impl Iterator<Item = [String; 4]> {
    list.iter().flat_map(|NotModelled { because, rows }| {
        rows.iter().map(|row| {
            let published = format!("{} {}", row.published, row.unit).trim().to_string();
            [row.id.clone(), row.what.clone(), published, because.clone()]
        })
    })
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
    let Validation { predicted, independent, .. } = validation;
    let rows = || validation.experiments.iter().flat_map(|experiment| &experiment.rows);
    let of =
        |verdict| -> Vec<&str> { rows().filter(|row| row.verdict == verdict).map(|row| row.id.as_str()).collect() };
    let far = match &of(FitVerdict::Far)[..] {
        [] => String::new(),
        far => format!(" Far: {}; the remarks of their experiments say why.", far.join(", ")),
    };
    let wrong = match &of(FitVerdict::Wrong)[..] {
        [] => "0 rows tell of a change in the wrong direction".to_string(),
        wrong => {
            format!("In the wrong direction: {} of all rows that tell of a change: {}", wrong.len(), wrong.join(", "))
        }
    };
    let given = rows().filter(|row| row.role == RowRole::Predicted && row.given.is_some()).count() as u32;
    let Count { rows, near, changes, changes_near } = independent;
    let (follow, plain, plain_near) = (predicted.rows - rows - given, rows - changes, near - changes_near);
    format!(
        "{near} of {rows} independent predicted rows lie within 25 % of what was published: {changes_near} of {changes} that \
         tell of a change, and {plain_near} of {plain} plain figures. Of {} predicted rows, {follow} follow from others by \
         arithmetic and {given} are given by the configuration: those are not counted. {wrong}.{far}",
        predicted.rows
    )
}

const COPIED: [&str; 6] = ["figure", "rows", "simulated near", "copied near", "simulated nearer", "right direction"];

fn copied_cells(of: &Copied) -> [String; 6] {
    let numbers = [of.rows, of.simulated_near, of.copied_near, of.simulated_nearer].map(|number| number.to_string());
    let [rows, simulated, copied, nearer] = numbers;
    [of.figure.clone(), rows, simulated, copied, nearer, format!("{} of {}", of.direction_right, of.moved)]
}

/// All figures together.
fn all_copied(list: &[Copied]) -> Copied {
    let sum = |of: fn(&Copied) -> u32| list.iter().map(of).sum();
    Copied {
        experiment: "all".to_string(),
        figure: String::new(),
        rows: sum(|of| of.rows),
        simulated_near: sum(|of| of.simulated_near),
        copied_near: sum(|of| of.copied_near),
        simulated_nearer: sum(|of| of.simulated_nearer),
        moved: sum(|of| of.moved),
        direction_right: sum(|of| of.direction_right),
    }
}

/// What the simplest prediction is worth, beside the simulation.
fn copying(list: &[Copied]) -> String {
    let all = all_copied(list);
    let as_well = |of: &&Copied| match of.copied_near.cmp(&of.simulated_near) {
        Ordering::Less => false,
        Ordering::Equal => 2 * of.simulated_nearer <= of.rows,
        Ordering::Greater => true,
    };
    let behind = list.iter().filter(as_well);
    let behind: Vec<String> = behind.map(|of| format!("`{}` of {}", of.figure, of.experiment)).collect();
    let behind = match behind.len() {
        0 => String::new(),
        _ => format!(" Copying does as well or better for {}.", behind.join(", ")),
    };
    format!(
        "The simplest prediction copies what was published of the configuration before. Of {} independent rows that have one, \
         the simulation is near {}, the copy {}; the simulated figure is the nearer one in {}. The simulation changes in the \
         published direction in {} of the {} in which the published figure changes.{behind}",
        all.rows, all.simulated_near, all.copied_near, all.simulated_nearer, all.direction_right, all.moved
    )
}

/// The page.
pub fn validation_page(validation: &Validation) -> Page {
    let mut sections: Vec<PageSection> = validation.experiments.iter().map(section).collect();
    let sentences = vec![Sentence { text: summary(validation), warning: validation.wrong > 0 }];
    sections.extend(against_copying(&validation.copied));
    sections.extend(not_modelled(&validation.not_modelled));
    sections.push(PageSection { title: "All in all".into(), sentences, ..PageSection::default() });
    Page { sections }
}

fn column(title: &'static str, names: bool, rank: u8) -> TableColumn {
    TableColumn { title: title.into(), names, rank }
}

fn against_copying(list: &[Copied]) -> Option<PageSection> {
    let columns = std::iter::once("experiment").chain(COPIED).enumerate();
    let columns = columns.map(|(at, title)| column(title, at < 2, 0)).collect();
    let row = |of: &Copied| [vec![of.experiment.clone()], copied_cells(of).to_vec()].concat();
    (!list.is_empty()).then(|| PageSection {
        title: "Against copying".into(),
        sentences: vec![Sentence { text: copying(list), warning: false }],
        table: Some(Table { columns, rows: list.iter().chain([&all_copied(list)]).map(row).collect() }),
        ..PageSection::default()
    })
}

fn not_modelled(list: &[NotModelled]) -> Option<PageSection> {
    let titles = ["row", "what", "published", "because"];
    let columns = titles.into_iter().enumerate().map(|(at, title)| column(title, at != 2, [0, 3, 1, 0][at])).collect();
    let rows = not_modelled_cells(list).map(Vec::from).collect();
    (!list.is_empty()).then(|| PageSection {
        title: "Not modelled, because".into(),
        sentences: vec![Sentence { text: NOT_MODELLED.to_string(), warning: false }],
        table: Some(Table { columns, rows }),
        ..PageSection::default()
    })
}

fn section(experiment: &ExperimentResult) -> PageSection {
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
    PageSection {
        title: experiment.name.clone(),
        sentences: vec![Sentence { text: experiment.description.clone(), warning: false }],
        table: Some(Table { columns, rows }),
        notes,
        ..PageSection::default()
    }
}

fn cells(row: &RowResult) -> [String; 7] {
    [
        row.id.clone(),
        row.what.clone(),
        match row.published_range {
            Some([low, high]) => format!("{} to {} {}", figure(low), figure(high), row.unit),
            None => format!("{} {}", figure(row.published), row.unit),
        },
        figure(row.simulated),
        format!("{:.2}", row.ratio),
        role(row).to_string(),
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

/// What a row is worth as evidence.
const fn role(row: &RowResult) -> &'static str {
    match row.role {
        RowRole::Predicted if !row.follows.is_empty() => "follows",
        RowRole::Predicted if row.given.is_some() => "given",
        role => word(role),
    }
}

const fn word(role: RowRole) -> &'static str {
    match role {
        RowRole::Calibrated => "calibrated",
        RowRole::Predicted => "predicted",
    }
}

const fn verdict(verdict: FitVerdict) -> &'static str {
    match verdict {
        FitVerdict::Near => "near",
        FitVerdict::Far => "far",
        FitVerdict::Wrong => "WRONG DIRECTION",
    }
}
