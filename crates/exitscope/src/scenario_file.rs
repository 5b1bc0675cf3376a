//! The scenario that a command line names: read, with what --set and --seed say; and how much a run of it may take.

use crate::cli::{LimitArgs, ScenarioArgs, ScenarioCheckArgs};
use anyhow::{Context, bail};
use exitscope_policy::all_knobs;
use exitscope_scenario::text::MAX_TEXT;
use exitscope_scenario::{Scenario, ScenarioDocument, nearest_name};
use exitscope_sim::Limits;
use exitscope_view::ScenarioRow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Settings as they were given: `KEY=VALUE`.
pub fn as_given(set: &[(String, String)]) -> Vec<String> {
    set.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The files that are read: nothing is written to them.
pub fn inputs(args: &ScenarioArgs, check: &ScenarioCheckArgs) -> Vec<PathBuf> {
    check.recording.iter().chain([&args.scenario]).cloned().collect()
}

/// The scenario as reports show it.
pub fn row(args: &ScenarioArgs, scenario: &Scenario) -> ScenarioRow {
    ScenarioRow::of(scenario, args.scenario.display().to_string(), as_given(&args.set))
}
