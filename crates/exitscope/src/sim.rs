//! `exitscope sim`.

use crate::assumed_runs::uncertainty;
use crate::cli::{SimArgs, SimFormat};
use crate::output_file::{is_none_of, replace};
use crate::scenario_check::checked;
use crate::terminal::terminal_style;
use crate::{Outcome, predictions, scenario_file, sim_predictions, write_json};
use anyhow::bail;
use exitscope_pipeline::SimTraceWriter;
use exitscope_scenario::Scenario;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_signals::{catch_signals, signalled};
use exitscope_sim::{Limits, Unseen};
use exitscope_trace::WrittenTrace;
use exitscope_view::{SimReport, simulated_page, write_metrics_csv, write_page};
use std::io::Write;
use std::path::Path;

pub fn run(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.uncertainty && args.format == SimFormat::Csv {
        bail!("--uncertainty goes with text and JSON: CSV has a row for each figure of one run");
    }
    let (name, text) = scenario_file::read_text(&args.scenario)?;
    let document = scenario_file::parse(&name, &text, &args.scenario.set, args.scenario.seed)?;
    let scenario = document.scenario()?;
    scenario_file::warn_of_knobs(&document, &scenario);
    if let Some(to) = &args.predictions {
        if args.scenario.scenario == Path::new("-") {
            bail!("--predictions: they are of a scenario's file by its name, and standard input has none");
        }
        let others =
            [scenario_file::inputs(&args.scenario, &args.check), args.trace.iter().cloned().collect()].concat();
        predictions::can_add(to, &others)?;
    }
    let changes = scenario_file::as_given(&args.scenario.set);
    let mut run = match checked(&args.check, &args.scenario, (&name, &text), &args.limits, changes)? {
        Some(baseline) if baseline.check.as_ref().is_some_and(|check| !check.agrees) => baseline,
        checked => {
            let outcome = simulate(args, &scenario)?;
            let run = SimReport::of(&outcome, &scenario, scenario_file::row(&args.scenario, &scenario));
            SimReport { check: checked.and_then(|baseline| baseline.check), ..run }
        }
    };
    let is_declined = run.check.as_ref().is_some_and(|check| !check.agrees);
    if args.uncertainty && !is_declined {
        run.uncertainty = Some(uncertainty(&run, &scenario, args)?);
    }
    if let Some(to) = args.predictions.as_deref().filter(|_| !is_declined) {
        sim_predictions::add(args, (&name, &text), to)?;
    }
    let declined = run.check.as_ref().filter(|_| is_declined);
    match (args.format, declined) {
        (SimFormat::Json, _) => write_json(&run, out)?,
        // Rows of figures cannot say that they are not those of what was set.
        (SimFormat::Csv, Some(check)) => say!("{}", check.verdict()),
        (SimFormat::Csv, None) => write_metrics_csv(&run.metrics, &mut *out)?,
        (SimFormat::Text, _) => write_page(&simulated_page(&run), terminal_style(), out)?,
    }
    Ok(if declined.is_some() { Outcome::Findings } else { Outcome::Fine })
}

/// Runs the scenario, and records the run if that is asked for.
fn simulate(args: &SimArgs, scenario: &Scenario) -> anyhow::Result<SimOutcome> {
    let limits = scenario_file::limits(&args.limits);
    let Some(path) = &args.trace else {
        return Ok(exitscope_sim::run(scenario, Unseen, limits)?.0);
    };
    is_none_of(path, &scenario_file::inputs(&args.scenario, &args.check), "--trace")?;
    catch_signals()?;
    let limits = Limits { stop: || signalled().is_some(), ..limits };
    replace(path, |to| {
        let (outcome, recorder) = exitscope_sim::run(scenario, SimTraceWriter::new(to, scenario)?, limits)?;
        say_left_out(recorder.finish()?);
        Ok(outcome)
    })
}

/// Says of how many events perf.data has no place for.
pub fn say_left_out(written: WrittenTrace) {
    if written.left_out > 0 {
        let have = if written.left_out == 1 { "event has" } else { "events have" };
        say!("{} {have} no place in perf.data", written.left_out);
    }
}
