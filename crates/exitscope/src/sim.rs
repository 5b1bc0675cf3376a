//! `exitscope sim`.

use crate::assumed_runs::uncertainty;
use crate::cli::{ClockArgs, SimArgs, SimFormat};
use crate::output_file::{is_none_of, replace};
use crate::read::RecordingAccess;
use crate::select::SelectedExits;
use crate::terminal::terminal_style;
use crate::{Outcome, predictions, scenario_file, sim_predictions, write_json};
use anyhow::bail;
use exitscope_analysis::{Dimension, Facts, FactsOptions};
use exitscope_pipeline::{SimTraceWriter, read_alone, vms_named};
use exitscope_scenario::Scenario;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_signals::{catch_signals, signalled};
use exitscope_sim::{Limits, Unseen};
use exitscope_trace::WrittenTrace;
use exitscope_view::{ScenarioRow, SimCheck, SimReport, simulated_page, write_metrics_csv, write_page};
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
    args.predictions.as_deref().map_or(Ok(()), predictions::can_add)?;
    let as_it_is =
        || scenario_file::parse(&name, &text, &[], args.scenario.seed)?.scenario().map_err(anyhow::Error::from);
    let checked = args.check.as_deref().map(|recording| checked(args, &as_it_is()?, recording)).transpose()?;
    let mut run = match checked {
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
        sim_predictions::add(args, to)?;
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
    let read = args.check.iter().chain([&args.scenario.scenario]).cloned().collect::<Vec<_>>();
    is_none_of(path, &read, "--trace")?;
    catch_signals()?;
    let limits = Limits { stop: || signalled().is_some(), ..limits };
    replace(path, |to| {
        let (outcome, recorder) = exitscope_sim::run(scenario, SimTraceWriter::new(to, scenario)?, limits)?;
        say_left_out(recorder.finish()?);
        Ok(outcome)
    })
}

/// The run of the scenario as its file has it, beside a recording.
fn checked(args: &SimArgs, scenario: &Scenario, recording: &Path) -> anyhow::Result<SimReport> {
    if scenario.host.ganged {
        bail!(
            "--check: where a core's threads are ganged, a recording has an exit of each, a run only of the one that had a reason"
        );
    }
    let (outcome, _) = exitscope_sim::run(scenario, Unseen, scenario_file::limits(&args.limits))?;
    let own = ScenarioRow::of(scenario, args.scenario.scenario.display().to_string(), Vec::new());
    let run = SimReport::of(&outcome, scenario, own);
    let access = RecordingAccess::of(&ClockArgs::default());
    let input = access.open_one(recording)?;
    let mut exits = SelectedExits::all(access);
    if !args.check_vms.is_empty() {
        exits.selection.vms = vms_named(&args.check_vms, std::slice::from_ref(&input), exits.options)?;
    }
    let wanted = FactsOptions { by: vec![Dimension::Reason], slowest: 0, selection: exits.selection };
    let (trace, mut facts) = read_alone(&input, exits.options, || Facts::new(&wanted))?;
    trace.has_events()?;
    if let Some((first, last)) = trace.span {
        facts.end(first, last, &trace.vcpu_of);
    }
    if facts.divisions.is_empty() {
        bail!("{}: no exit to compare the scenario with", recording.display());
    }
    let changes = args.scenario.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let check = SimCheck::of(&run, &facts, trace.timed_exits, recording.display().to_string(), changes);
    Ok(SimReport { check: Some(check), ..run })
}

/// Says of how many events perf.data has no place for.
pub fn say_left_out(written: WrittenTrace) {
    if written.left_out > 0 {
        let have = if written.left_out == 1 { "event has" } else { "events have" };
        say!("{} {have} no place in perf.data", written.left_out);
    }
}
