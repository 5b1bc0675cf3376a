//! `exitscope validate --lab FILE`: the simulator beside the lab, on this machine. The first time it predicts, then it tries.
//!
//! ```text
//! no FILE: LAB_EXPERIMENTS in the lab ─► costs ─► predictions of the cells ─► FILE
//! FILE: its cells in the lab, before and after their change, in turns ─► LabAgreement
//! ```

use crate::cli::{ValidateArgs, ValidateFormat as Format};
use crate::lab::{bar_cleared, progress};
use crate::output_file::{can_write, replace};
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use exitscope_apply::host_name;
use exitscope_lab::LabMachine;
use exitscope_lab::in_turns::{TurnsTaken, in_turns};
use exitscope_lab::measure::MeasurePlan;
use exitscope_scenario::Scenario;
use exitscope_scenario::findings::Findings;
use exitscope_signals::catch_signals;
use exitscope_validation::{
    LAB_EXPERIMENTS, LabAgreement, LabCost, LabExperiment, LabPrediction, LabPredictions, LabReading, PAIRS, SEED,
    TriedCell, cells_table, costs_table, predict_cells,
};
use exitscope_view::{LabReport, lab_page, write_lab_csv, write_page};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub fn run(args: &ValidateArgs, file: &Path, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.format == Format::Markdown {
        bail!("--lab has no Markdown: give --format text, json or csv");
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let predictions = text.map(|text| read(file, &text)).transpose()?;
    if predictions.is_none() {
        can_write(file)?;
    }
    catch_signals()?;
    let machine = LabMachine::new()?;
    if machine.cpus.len() < 2 {
        bail!("the cells have two vCPUs, on a CPU each: this machine lets the lab have one CPU");
    }
    let plan = MeasurePlan {
        rounds: args.repeat,
        duration: Duration::from_nanos(args.duration.0),
        pin: true,
        progress: progress(),
    };
    let (findings, outcome) = match predictions {
        None => (predict(&machine, &plan, file)?, Outcome::Fine),
        Some(predictions) => score(&machine, &plan, predictions)?,
    };
    let report = LabReport::of(&Findings { executed: machine.executed.rows(), ..findings });
    match args.format {
        Format::Json => write_json(&report, out)?,
        Format::Csv => write_lab_csv(&report, out)?,
        Format::Text | Format::Markdown => write_page(&lab_page(&report), terminal_style(), out)?,
    }
    Ok(outcome)
}

fn read(file: &Path, text: &str) -> anyhow::Result<LabPredictions> {
    let predictions: LabPredictions = serde_json::from_str(text)
        .with_context(|| format!("{} has no predictions of `validate --lab`", file.display()))?;
    let here = host_name(Path::new("/"));
    if predictions.host != here {
        bail!(
            "{} is of {}, and its costs are that machine's; give a new file to predict for {here}",
            file.display(),
            predictions.host
        );
    }
    let is_right = |of: &LabPrediction| {
        let [low, high] = of.bounds;
        [of.times, low, high].iter().all(|value| value.is_finite() && *value > 0.0) && low <= high
    };
    if let Some(number) = predictions.cells.iter().position(|of| !is_right(of)) {
        bail!(
            "{}: cell {number} has no number of times, 0 < low <= high: {:?}, {:?}",
            file.display(),
            predictions.cells[number].times,
            predictions.cells[number].bounds
        );
    }
    Ok(predictions)
}

fn in_all_turns(machine: &LabMachine, plan: &MeasurePlan, scenarios: &[Scenario]) -> anyhow::Result<TurnsTaken> {
    Ok(bar_cleared(plan, in_turns(machine, plan, scenarios))?)
}

/// Measures what the machine takes, and predicts.
fn predict(machine: &LabMachine, plan: &MeasurePlan, file: &Path) -> anyhow::Result<Findings> {
    let scenarios: Vec<Scenario> = LAB_EXPERIMENTS.iter().map(LabExperiment::scenario).collect();
    let taken = in_all_turns(machine, plan, &scenarios)?;
    let length = plan.turn().as_nanos() as f64;
    let cost = |(experiment, rounds): (&LabExperiment, &Vec<_>)| {
        let values: Vec<f64> =
            rounds.iter().filter_map(|tables: &Vec<_>| experiment.reading.of(tables, length)).collect();
        LabCost::of(experiment.name, &values)
            .with_context(|| format!("nothing was measured of {}: is this machine busy?", experiment.about))
    };
    let costs = LAB_EXPERIMENTS.iter().zip(&taken.tables).map(cost).collect::<anyhow::Result<Vec<_>>>()?;
    let written = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let predictions = LabPredictions {
        written,
        version: env!("CARGO_PKG_VERSION").to_string(),
        host: host_name(Path::new("/")),
        seed: SEED,
        cells: predict_cells(SEED, &costs)?,
        costs,
    };
    replace(file, |mut to| {
        serde_json::to_writer_pretty(to, &predictions)?;
        Ok(writeln!(to)?)
    })?;
    // All rounds and one that does not count.
    let turns = predictions.cells.len() as f64 * 2.0 * f64::from(plan.rounds + 1);
    let minutes = turns * (plan.turn() + BEFORE_A_TURN).as_secs_f64() / 60.0;
    Ok(Findings {
        description: DESCRIPTION,
        summary: vec![format!(
            "{} cells are predicted, before any of them was run, in {}. The same command once more runs them: about \
             {minutes:.0} minutes.",
            predictions.cells.len(),
            file.display()
        )],
        tables: vec![costs_table(&predictions.costs), cells_table(&predictions.cells, &[])],
        ..taken.findings
    })
}

/// What it takes before each turn to measure how fast compute steps are.
const BEFORE_A_TURN: Duration = Duration::from_millis(750);

const DESCRIPTION: &str = "The simulator beside the lab: what a change of a program's setting wins, predicted with costs of this machine, and run";

/// Runs what was predicted.
fn score(machine: &LabMachine, plan: &MeasurePlan, predictions: LabPredictions) -> anyhow::Result<(Findings, Outcome)> {
    let both = |of: &LabPrediction| [of.cell.before.scenario(), of.cell.after.scenario()];
    let scenarios: Vec<Scenario> = predictions.cells.iter().flat_map(both).collect();
    let taken = in_all_turns(machine, plan, &scenarios)?;
    let rate = LabReading::PerWork(PAIRS, 1);
    let tried = |(predicted, sides): (&LabPrediction, &[Vec<_>])| {
        let work = |tables: &Vec<_>| rate.of(tables, 0.0).map_or(0.0, |ns| 1e9 / ns);
        let rounds = sides[0].iter().zip(&sides[1]).map(|(before, after)| (work(before), work(after)));
        TriedCell { predicted: predicted.clone(), rounds: rounds.collect() }
    };
    let tried: Vec<TriedCell> = predictions.cells.iter().zip(taken.tables.chunks(2)).map(tried).collect();
    let agreement = LabAgreement::of(&tried);
    let outcome = match (agreement.is_judged(), agreement.is_right()) {
        (_, false) => Outcome::Findings,
        (true, true) => Outcome::Fine,
        (false, true) => Outcome::Failed,
    };
    let findings = Findings {
        description: DESCRIPTION,
        summary: agreement.sentences(),
        tables: vec![costs_table(&predictions.costs), cells_table(&predictions.cells, &tried)],
        ..taken.findings
    };
    Ok((findings, outcome))
}
