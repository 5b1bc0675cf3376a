//! A scenario, as its file has it, beside a recording of what it stands for: `sim` and `sweep --check`.

use crate::cli::{LimitArgs, ScenarioArgs, ScenarioCheckArgs};
use crate::read::RecordingAccess;
use crate::scenario_file;
use crate::select::SelectedExits;
use anyhow::bail;
use exitscope_analysis::{Dimension, Facts, FactsOptions};
use exitscope_pipeline::{read_alone, vms_named};
use exitscope_sim::Unseen;
use exitscope_view::{ScenarioRow, SimCheck, SimReport};

/// The run of the scenario as its file has it (`text`, by its name), and how it compares, if there is a recording. `changes` is what is not
/// predicted where the two are not alike.
pub fn checked(
    args: &ScenarioCheckArgs,
    file: &ScenarioArgs,
    (name, text): (&str, &str),
    limits: &LimitArgs,
    changes: Vec<String>,
) -> anyhow::Result<Option<SimReport>> {
    let Some(recording) = &args.recording else { return Ok(None) };
    let scenario = scenario_file::parse(name, text, &[], file.seed)?.scenario()?;
    if scenario.host.ganged {
        bail!(
            "--check: where a core's threads are ganged, a recording has an exit of each, a run only of the one that had a reason"
        );
    }
    let (outcome, _) = exitscope_sim::run(&scenario, Unseen, scenario_file::limits(limits))?;
    let own = ScenarioRow::of(&scenario, file.scenario.display().to_string(), Vec::new());
    let run = SimReport::of(&outcome, &scenario, own);
    let access = RecordingAccess::of(&args.clock);
    let input = access.open_one(recording)?;
    let mut exits = SelectedExits::all(access);
    if !args.vms.is_empty() {
        exits.selection.vms = vms_named(&args.vms, std::slice::from_ref(&input), exits.options)?;
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
    let check = SimCheck::of(&run, &facts, trace.timed_exits, recording.display().to_string(), changes);
    Ok(Some(SimReport { check: Some(check), ..run }))
}
