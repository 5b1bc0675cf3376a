//! `exitscope lab run --against FILE`: a scenario's guests for real, as they are and with what was predicted of them, in turns.
//!
//! ```text
//! scenario ─► run ─► work a second, by VM ─┬─► difference within each pair ─► PredictionsAgainst::score
//! scenario, setting ─► run ─► … ───────────┘
//! ```

use crate::cli::{LabRunArgs, ScenarioArgs};
use crate::predictions::{MeasuredFigure, PredictionsAgainst};
use crate::sim_predictions::{NamedFigures, WORK, settings_of, text_hash, values};
use crate::{Outcome, scenario_file};
use anyhow::bail;
use exitscope_apply::host_name;
use exitscope_lab::LabMachine;
use exitscope_lab::followed::followed;
use exitscope_lab::run::{RunOptions, run};
use exitscope_model::encode::message;
use exitscope_scenario::findings::FindingRow;
use exitscope_scenario::{Scenario, ScenarioDocument};
use exitscope_signals::catch_signals;
use exitscope_stats::Estimate;
use exitscope_view::FiledPrediction;
use std::io::Write;
use std::path::Path;

/// Runs the scenario in turns, and scores what the file predicts of it.
pub fn score(args: &LabRunArgs, options: RunOptions, against: &Path, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let ScenarioArgs { scenario: file, set, seed } = &args.scenario;
    if file == Path::new("-") {
        bail!("--against: predictions are of a scenario's file by its name, and standard input has none");
    }
    if !set.is_empty() || seed.is_some() {
        bail!("--against: what is predicted is of the scenario as its file has it: omit --set and --seed");
    }
    let (name, text) = scenario_file::read_text(&args.scenario)?;
    let document = scenario_file::parse(&name, &text, &[], None)?;
    let before = document.scenario()?;
    // Of the scenario that was simulated.
    let (name, hash) = (file.file_name().unwrap_or_default().to_string_lossy(), text_hash(&text));
    let is_meant = |of: &FiledPrediction| match &of.scenario_sha256 {
        _ if of.source != name => Err(""),
        Some(of) if *of != hash => Err(", when that file was another"),
        _ => Ok(()),
    };
    let predictions = PredictionsAgainst::read(against, &host_name(Path::new("/")), is_meant)?;
    let mut settings: Vec<(&str, Scenario)> = Vec::new();
    for setting in predictions.settings() {
        match with(&document, &before, setting) {
            Ok(scenario) => settings.push((setting, scenario)),
            Err(why) => writeln!(out, "{}: not tried: {why:#}", message(setting))?,
        }
    }
    if settings.is_empty() {
        bail!("{}: nothing that it predicts of {name} can be tried here", against.display());
    }
    catch_signals()?;
    let machine = LabMachine::new()?;
    let one_run = |scenario: &Scenario| work(&machine, scenario, options);
    for (setting, scenario) in settings {
        let mut pairs = Vec::new();
        for round in 0..args.repeat {
            // Which is first takes turns, too.
            pairs.push(match round % 2 {
                0 => (one_run(&before)?, one_run(&scenario)?),
                _ => {
                    let then = one_run(&scenario)?;
                    (one_run(&before)?, then)
                }
            });
        }
        let measured = measured(&pairs);
        if measured.is_empty() {
            bail!("nothing of {setting} was measured: no VM of it counts its work");
        }
        writeln!(out, "{setting}, {} runs with it and as many without:", pairs.len())?;
        predictions.score("lab run", setting, &measured, out)?;
    }
    Ok(Outcome::Fine)
}

/// The scenario with a setting; an error says why a real run of that would show nothing of it.
fn with(document: &ScenarioDocument, before: &Scenario, setting: &str) -> anyhow::Result<Scenario> {
    let mut all = document.clone();
    for (key, value) in settings_of(setting)? {
        let mut alone = document.clone();
        scenario_file::set(&mut alone, key, value)?;
        scenario_file::set(&mut all, key, value)?;
        let alone = alone.scenario()?;
        if alone != *before && followed(&alone) == followed(before) {
            bail!("real guests run on this machine as it is, whatever {key} says");
        }
    }
    Ok(all.scenario()?)
}

/// The work of each VM a second, of one run.
fn work(machine: &LabMachine, scenario: &Scenario, options: RunOptions) -> anyhow::Result<NamedFigures> {
    let (findings, _) = run(machine, scenario, options)?;
    let rows = findings
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .filter(|row| row.labels.get(1).is_some_and(|what| what == "VM"));
    let rate = |row: &FindingRow| {
        let figure = row.figures.iter().find(|figure| figure.name == "rate")?;
        Some((format!("{}{WORK}", row.labels[0]), figure.value))
    };
    Ok(rows.filter_map(rate).collect())
}

/// Each figure that all runs have: the mean without the setting, and what it is more within pairs.
fn measured(pairs: &[(NamedFigures, NamedFigures)]) -> Vec<MeasuredFigure> {
    let (before, then): (Vec<NamedFigures>, Vec<NamedFigures>) = pairs.iter().cloned().unzip();
    let names = before.first().into_iter().flatten();
    let of = |(name, _): &(String, f64)| {
        let (before, then) = (values(&before, name)?, values(&then, name)?);
        let in_force = Estimate::of(&before)?.mean;
        let more = Estimate::of(&then.iter().zip(&before).map(|(then, before)| then - before).collect::<Vec<f64>>())?;
        let interval = (more.interval.map(|of| in_force + of.0), more.interval.map(|of| in_force + of.1));
        Some(MeasuredFigure { metric: name.clone(), in_force, with: in_force + more.mean, interval })
    };
    names.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_measured_within_pairs() {
        let run = |work: f64, other: Option<f64>| -> NamedFigures {
            let other = other.map(|other| ("other.throughput".to_string(), other));
            [("pair.throughput".to_string(), work)].into_iter().chain(other).collect()
        };
        let pairs = [(run(10.0, Some(5.0)), run(12.0, Some(5.0))), (run(20.0, Some(5.0)), run(22.0, None))];
        let measured = measured(&pairs);
        assert_eq!(measured.len(), 1, "what a run lacks is not measured");
        let MeasuredFigure { metric, in_force, with, interval } = &measured[0];
        // The runs differ by far more than the setting changes.
        assert_eq!((metric.as_str(), *in_force, *with), ("pair.throughput", 15.0, 17.0));
        assert_eq!(*interval, (Some(17.0), Some(17.0)));
    }
}
