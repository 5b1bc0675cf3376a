//! Completions, manual pages, and documents generated from the code that they describe.

use crate::Outcome;
use crate::cli::{Cli, Document};
use anyhow::Context;
use clap::CommandFactory;
use exitscope_analysis::advice::{KnownAnswer, KnownCause, known_causes};
use exitscope_exporter::FAMILIES;
use exitscope_model::{Column, Line, Severity, exit_columns, gang_columns, halt_columns, sum_columns};
use exitscope_page::PageData;
use exitscope_policy::host_halt_poll::HALT_POLL_NS_DEFAULTS;
use exitscope_policy::{Knob, POLICIES, Unit};
use exitscope_scenario::CostModel;
use exitscope_units::Nanos;
use exitscope_view::{Advised, Checkup, Comparison, EventRow, Fleet, LabReport, Report, Simulated, Sweep};
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

pub fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // The generator panics where it cannot write, so it writes into memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "exitscope", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Fine)
}

pub fn man(directory: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match directory {
        None => clap_mangen::Man::new(Cli::command()).render(out)?,
        Some(directory) => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .with_context(|| format!("cannot write manual pages into {}", directory.display()))?,
    }
    Ok(Outcome::Fine)
}

pub fn print(what: Document, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let settings = SchemaSettings::default().for_serialize();
    let schemas = settings.with_transform(RecursiveTransform(absent_is_not_null)).into_generator();
    let schema = match what {
        Document::Losses => {
            losses(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Knobs => {
            knobs(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Causes => {
            causes(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Figures => {
            figures(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Models => {
            cost_models(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Metrics => {
            metrics(out)?;
            return Ok(Outcome::Fine);
        }
        Document::Columns => {
            columns(out)?;
            return Ok(Outcome::Fine);
        }
        Document::ReportSchema => schemas.into_root_schema_for::<Report>(),
        Document::DiffSchema => schemas.into_root_schema_for::<Comparison>(),
        Document::EventsSchema => schemas.into_root_schema_for::<EventRow>(),
        Document::TopSchema => schemas.into_root_schema_for::<crate::top::Frame>(),
        Document::ReplaySchema => schemas.into_root_schema_for::<exitscope_view::Replay>(),
        Document::AdviseSchema => schemas.into_root_schema_for::<Advised>(),
        Document::SimSchema => schemas.into_root_schema_for::<Simulated>(),
        Document::SweepSchema => schemas.into_root_schema_for::<Sweep>(),
        Document::LabSchema => schemas.into_root_schema_for::<LabReport>(),
        Document::FleetSchema => schemas.into_root_schema_for::<Fleet>(),
        Document::PageSchema => schemas.into_root_schema_for::<PageData>(),
        Document::DoctorSchema => schemas.into_root_schema_for::<Checkup>(),
        Document::ValidateSchema => schemas.into_root_schema_for::<exitscope_validation::Validation>(),
    };
    serde_json::to_writer_pretty(&mut *out, &schema)?;
    writeln!(out)?;
    Ok(Outcome::Fine)
}

/// A field that is left out where it is `None` is never null.
fn absent_is_not_null(schema: &mut Schema) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let optional = properties.iter_mut().filter(|(name, _)| !required.contains(&Value::from(name.as_str())));
    for property in optional.filter_map(|(_, property)| property.as_object_mut()) {
        let list = |name: &str| property.get(name).and_then(Value::as_array).map(Vec::as_slice);
        if let Some([kind, null]) = list("type")
            && null == "null"
        {
            let kind = kind.clone();
            property.insert("type".to_string(), kind);
        } else if let Some([Value::Object(of), null]) = list("anyOf")
            && null["type"] == "null"
        {
            let of = of.clone();
            property.remove("anyOf");
            property.extend(of);
        }
    }
}

fn losses(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Coverage: lost, not understood and unused events\n")?;
    writeln!(
        out,
        "Every event of a trace is in an exit or in one of the lines below. Generated by `exitscope docs losses`.\n"
    )?;
    for (severity, heading) in [
        (Severity::Error, "Errors: the file is damaged here"),
        (Severity::Loss, "Losses: counts are too low by about this much"),
        (Severity::Notice, "Notices: worth knowing, the figures stand"),
        (Severity::Info, "Ordinary"),
    ] {
        writeln!(out, "## {heading}\n\n| line | what it is |\n| --- | --- |")?;
        for line in Line::ALL.iter().filter(|line| line.severity() == severity) {
            writeln!(out, "| `{}` | {} |", line.id(), line.prose())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn figures(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Figures of a run\n")?;
    writeln!(
        out,
        "What `exitscope sim --format csv` prints, and `sweep` takes as `--metric` and `--best`. Rates are a second, shares \
         0 to 1, times in nanoseconds; `<vm>` stands for the name of a VM, all copies of it together, and so on. A latency \
         or share of which nothing was seen is left out. `exitscope sweep … --metric help` lists those of a scenario. \
         Generated by `exitscope docs figures`.\n\n| figure | what |\n| --- | --- |"
    )?;
    for (name, about) in exitscope_scenario::outcome::FIGURES {
        writeln!(out, "| {name} | {about} |")?;
    }
    Ok(())
}

fn columns(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Columns\n")?;
    writeln!(
        out,
        "Of the tables that leave exitscope. `exits` is what [`export --format csv`](export.md#csv) writes; those columns of it \
         that are *at rest*, and the other tables, are in [stores](store.md), where each table also has `recording`, the recording's \
         id; [SQL](sql.md) asks there. A column *may lack*: empty in CSV, null in Parquet. Generated by `exitscope docs \
         columns`."
    )?;
    table(out, "exits", "A row for each exit.", &exit_columns())?;
    table(out, "reason_stats", "Sums of exits, by vCPU, reason and stretch of time.", &sum_columns())?;
    table(out, "halts", "Sums of halts, by vCPU.", &halt_columns())?;
    table(out, "gangs", "Sums of ganged exits (POWER7, POWER8), by virtual core.", &gang_columns())
}

fn table<R>(out: &mut dyn Write, name: &str, rows: &str, columns: &[Column<R>]) -> anyhow::Result<()> {
    writeln!(out, "\n## {name}\n\n{rows}\n\n| column | type | | what |\n| --- | --- | --- | --- |")?;
    for column in columns {
        let kept = (!column.at_rest).then_some("not at rest");
        let notes: Vec<&str> = column.may_lack.then_some("may lack").into_iter().chain(kept).collect();
        writeln!(out, "| `{}` | {} | {} | {} |", column.name, column.of.type_name(), notes.join(", "), column.prose)?;
    }
    Ok(())
}

fn metrics(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Metrics\n")?;
    writeln!(
        out,
        "What `exitscope exporter` serves; how to run it: [exporter.md](exporter.md). Generated by `exitscope docs \
         metrics`.\n\n| metric | kind | labels | what |\n| --- | --- | --- | --- |"
    )?;
    for family in FAMILIES {
        let names: Vec<String> = family.samples().iter().map(|name| format!("`{name}`")).collect();
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", family.kind).to_lowercase();
        writeln!(out, "| {} | {kind} | {} | {} |", names.join(", "), labels.join(", "), family.help)?;
    }
    Ok(())
}

fn cost_models(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Cost models\n")?;
    writeln!(
        out,
        "What each step costs on the machines that a scenario can name as `costs.model`. *Published* numbers were measured by \
         others, *calibrated* ones fitted to the rows named (of `crates/validation/published.csv`; how: \
         [validation.md](validation.md)), *assumed* ones are of the right size. What a model does not have is the default's, \
         see [scenario.md](scenario.md#costs). Generated by `exitscope docs models` from `crates/scenario/models`.\n"
    )?;
    let models = exitscope_scenario::models()?;
    for model in &models {
        writeln!(out, "- `{}`: {}", model.name, model.description)?;
    }
    let default = CostModel::default();
    for model in models.iter().filter(|model| model.name != default.name) {
        writeln!(
            out,
            "\n## {}\n\n{}. Cycles are of {} MHz.\n",
            model.name,
            model.description,
            model.clock_hz / 1_000_000
        )?;
        writeln!(out, "| cost | ns | | source |\n| --- | ---: | --- | --- |")?;
        for (name, _) in CostModel::ROWS {
            let Some(cost) = model.get(name).filter(|cost| Some(*cost) != default.get(name)) else { continue };
            let nanos = cost.time.0 as f64 / 1_000.0;
            writeln!(out, "| `{name}` | {nanos:.1} | {} | {} |", cost.origin.word(), cost.source)?;
        }
        let speed = &model.smt_speed;
        if *speed != default.smt_speed {
            let numbers: Vec<String> = speed.thousandths.iter().map(u32::to_string).collect();
            let numbers = numbers.join(", ");
            writeln!(out, "| `smt_speed` | {numbers} thousandths | {} | {} |", speed.origin.word(), speed.source)?;
        }
    }
    Ok(())
}

fn causes(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Causes\n")?;
    writeln!(
        out,
        "What exits are about, as `exitscope advise` tells it apart, and what it says of each where it weighs: more than 1 % of \
         the vCPUs' time. What is not in this table, nor one of the rules below it, is *not judged*; where user space answers, \
         a doorbell, a register or another device is looked for. Generated by `exitscope docs causes`.\n\n\
         | cause | exits | what is said |\n| --- | --- | --- |"
    )?;
    for KnownCause { name, exits, answers } in known_causes() {
        let said = answers.iter().map(|answer| match answer {
            KnownAnswer::Change(change) => format!("**change**: {change}"),
            KnownAnswer::Inherent(why) => format!("**inherent**: {why}"),
            KnownAnswer::NotJudged(why) => format!("**not judged**: {why}"),
        });
        writeln!(
            out,
            "| {name} | {} | {} |",
            exits.join(", "),
            said.collect::<Vec<_>>().join("; or, by what else the recording shows, ")
        )?;
    }
    writeln!(
        out,
        "\nBesides, rules look at halts (host and guest polling by replay, halts that find an event pending), steal, quotas, \
         PAUSE loops and lock holders that were preempted, yields of s390, virtual cores of POWER7 and POWER8, idle states of the \
         host's CPUs, and a Xen that emulates port accesses. What user space does in its part of exits, and what else the host's \
         CPUs do to them (frequencies, SMT, mitigations), is not judged, with the command that would tell."
    )?;
    Ok(())
}

fn knobs(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "# Knobs\n")?;
    writeln!(
        out,
        "The tunable numbers of every mechanism, under the kernel's names where it has any. Times are in nanoseconds and \
         can be given as `80us`. Generated by `exitscope docs knobs`.\n"
    )?;
    for (policy, knobs) in POLICIES {
        writeln!(out, "## {policy}\n\n| knob | default | values | where | what |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        for knob in *knobs {
            let Knob { name, unit, min, max, about, .. } = knob;
            let values = match unit {
                Unit::Bool | Unit::Choice(_) => unit.to_string(),
                _ => format!("{min} to {max} {unit}"),
            };
            let place = match (knob.file(), knob.is_writable()) {
                (None, _) => knob.place.to_string(),
                (Some(file), true) => format!("`{file}`"),
                (Some(file), false) => format!("`{file}` (cannot be written once loaded)"),
            };
            let boot = knob.boot(knob.default).map_or(String::new(), |boot| format!(", at boot `{boot}`"));
            let default = match *name {
                // Each architecture's own.
                "halt_poll_ns" => {
                    let of = |(arch, nanos): &(&str, Nanos)| format!("{} ({arch})", knob.text(nanos.0));
                    HALT_POLL_NS_DEFAULTS.iter().map(of).collect::<Vec<_>>().join(", ")
                }
                _ => knob.text(knob.default).to_string(),
            };
            writeln!(out, "| `{name}` | {default} | {values} | {place}{boot} | {about} |")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
