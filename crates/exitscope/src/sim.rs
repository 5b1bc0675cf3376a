//! `exitscope sim`.

use crate::assumed_runs::uncertainty;
use crate::cli::{ClockArgs, LimitArgs, ScenarioArgs, SimArgs, SimFormat};
use crate::output_file::{is_none_of, replace};
use crate::read::RecordingAccess;
use crate::select::SelectedExits;
use crate::terminal::terminal_style;
use crate::{Outcome, predictions, sim_predictions, write_json};
use anyhow::{Context, bail};
use exitscope_analysis::{Dimension, Facts, FactsOptions};
use exitscope_pipeline::{SimTraceWriter, read_alone, vms_named};
use exitscope_policy::all_knobs;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_scenario::text::MAX_TEXT;
use exitscope_scenario::{Scenario, ScenarioDocument, nearest_name};
use exitscope_signals::{catch_signals, signalled};
use exitscope_sim::{Limits, Unseen};
use exitscope_trace::WrittenTrace;
use exitscope_view::{ScenarioRow, SimCheck, SimReport, simulated_page, write_metrics_csv, write_page};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub fn run(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.uncertainty && args.format == SimFormat::Csv {
        bail!("--uncertainty goes with text and JSON: CSV has a row for each figure of one run");
    }
    let (name, text) = read_text(&args.scenario)?;
    let document = parse(&name, &text, &args.scenario.set, args.scenario.seed)?;
    let scenario = document.scenario()?;
    warn_of_knobs(&document, &scenario);
    args.predictions.as_deref().map_or(Ok(()), predictions::can_add)?;
    let as_it_is = || parse(&name, &text, &[], args.scenario.seed)?.scenario().map_err(anyhow::Error::from);
    let checked = args.check.as_deref().map(|recording| checked(args, &as_it_is()?, recording)).transpose()?;
    let mut run = match checked {
        Some(baseline) if baseline.check.as_ref().is_some_and(|check| !check.agrees) => baseline,
        checked => {
            let outcome = simulate(args, &scenario)?;
            let run = SimReport::of(&outcome, &scenario, row(&args.scenario, &scenario));
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
    let limits = limits(&args.limits);
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
    let (outcome, _) = exitscope_sim::run(scenario, Unseen, limits(&args.limits))?;
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

/// The scenario file, with what --set and --seed say.
pub fn read(args: &ScenarioArgs) -> anyhow::Result<ScenarioDocument> {
    let (name, text) = read_text(args)?;
    parse(&name, &text, &args.set, args.seed)
}

/// The same, of a text.
pub fn parse(
    name: &str,
    text: &str,
    settings: &[(String, String)],
    seed: Option<u64>,
) -> anyhow::Result<ScenarioDocument> {
    let mut document = ScenarioDocument::parse(name, text)?;
    for (key, value) in settings {
        set(&mut document, key, value)?;
    }
    if let Some(seed) = seed {
        document.set("seed", &seed.to_string())?;
    }
    Ok(document)
}

/// What a scenario file is called in messages, and what is in it.
pub fn read_text(args: &ScenarioArgs) -> anyhow::Result<(String, String)> {
    let path = &args.scenario;
    let name = path.display().to_string();
    let mut text = Vec::new();
    let more = MAX_TEXT as u64 + 1;
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(more).read_to_end(&mut text),
        false => File::open(path).and_then(|file| file.take(more).read_to_end(&mut text)),
    };
    read.with_context(|| format!("cannot read {name}"))?;
    let text = String::from_utf8(text).with_context(|| format!("{name} is not text"))?;
    Ok((if name == "-" { "standard input".to_string() } else { name }, text))
}

/// Says which knobs are set and change nothing.
pub fn warn_of_knobs(document: &ScenarioDocument, scenario: &Scenario) {
    for (knob, why) in document.idle_knobs(scenario) {
        say!("warning: {knob} changes nothing in this scenario: {why}");
    }
}

/// Sets a value. What is no key at all is most likely a misspelt knob.
pub fn set(document: &mut ScenarioDocument, key: &str, value: &str) -> anyhow::Result<()> {
    document.set(key, value)?;
    let last = key.rsplit('.').next().unwrap_or(key);
    if let Err(error) = document.scenario()
        && error.origin.starts_with("--set")
        && error.what.starts_with("there is no key")
        && error.path.ends_with(last)
        && let Some(near) = nearest_name(last, all_knobs().map(|knob| knob.name))
    {
        bail!("{}: there is no key or knob {last:?}; did you mean {near:?}?", error.origin);
    }
    Ok(())
}

/// How much a run may take that begins now.
pub fn limits(args: &LimitArgs) -> Limits {
    let mut limits = Limits::default();
    limits.events = args.limit_events.unwrap_or(limits.events);
    limits.deadline = args.wall_limit.and_then(|length| Instant::now().checked_add(Duration::from_nanos(length.0)));
    limits
}

/// The scenario as reports show it.
pub fn row(args: &ScenarioArgs, scenario: &Scenario) -> ScenarioRow {
    let set = args.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    ScenarioRow::of(scenario, args.scenario.display().to_string(), set)
}
