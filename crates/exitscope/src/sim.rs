//! `exitscope sim`.

use crate::cli::{LimitArgs, ScenarioArgs, SimArgs, SimFormat};
use crate::output_file::replace;
use crate::terminal::terminal_style;
use crate::{Outcome, predictions, sim_predictions, write_json};
use anyhow::{Context, bail};
use exitscope_pipeline::SimTraceWriter;
use exitscope_policy::all_knobs;
use exitscope_scenario::text::MAX_TEXT;
use exitscope_scenario::{Scenario, ScenarioDocument, nearest_name};
use exitscope_signals::{catch_signals, signalled};
use exitscope_sim::{Limits, Unseen};
use exitscope_trace::WrittenTrace;
use exitscope_view::{ScenarioRow, SimReport, simulated_page, write_metrics_csv, write_page};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub fn run(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let document = read(&args.scenario)?;
    let scenario = document.scenario()?;
    warn_of_knobs(&document, &scenario);
    if let Some(to) = &args.predictions {
        predictions::can_add(to)?;
        sim_predictions::add(args, to)?;
    }
    let limits = limits(&args.limits);
    let outcome = match &args.trace {
        None => exitscope_sim::run(&scenario, Unseen, limits)?.0,
        Some(path) => {
            let same =
                |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| b.canonicalize().is_ok_and(|b| a == b));
            if same(path, &args.scenario.scenario) {
                bail!("--trace would overwrite the scenario {}", path.display());
            }
            catch_signals()?;
            let limits = Limits { stop: || signalled().is_some(), ..limits };
            replace(path, |to| {
                let (outcome, recorder) = exitscope_sim::run(&scenario, SimTraceWriter::new(to, &scenario)?, limits)?;
                say_left_out(recorder.finish()?);
                Ok(outcome)
            })?
        }
    };
    let run = SimReport::of(&outcome, &scenario, row(&args.scenario, &scenario));
    match args.format {
        SimFormat::Json => write_json(&run, out)?,
        SimFormat::Csv => write_metrics_csv(&run.metrics, &mut *out)?,
        SimFormat::Text => write_page(&simulated_page(&run), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
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
