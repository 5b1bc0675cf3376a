//! Virtual cores of other widths.

use super::{ReplayError, ReplayInput};
use crate::{ReadTrace, read_alone};
use exitscope_analysis::replay::GangReplay;
use exitscope_analysis::{Selection, TraceSink, record_commands};
use exitscope_model::{BesideRow, Exit};
use exitscope_policy::vcore::Params;
use exitscope_units::Moment;

/// What is run over the events.
struct CoreRuns<'a> {
    selection: &'a Selection,
    window: (Moment, Moment),
    replay: GangReplay,
}

impl TraceSink for CoreRuns<'_> {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        let CoreRuns { selection, window, replay } = self;
        if let BesideRow::RunnerEvent(event) = row
            && (window.0..=window.1).contains(&event.at)
        {
            replay.absorb(event, |vm, _| selection.vms.is_empty() || selection.vms.contains(&vm));
        }
    }
}

/// Replays core runs of the selected VMs with each of these topologies.
pub fn replay_vcores(of: &ReplayInput<'_>, topologies: &[Params]) -> Result<(ReadTrace, GangReplay), ReplayError> {
    let window = (Moment::default(), Moment::MAX);
    let fresh = || CoreRuns { selection: &of.selection, window, replay: GangReplay::new(topologies) };
    let (trace, CoreRuns { replay, .. }) = read_alone(of.input, of.options, fresh)?;
    match replay.core_runs {
        0 => Err(trace.has_nothing(format!(
            "no core run to replay. They are of POWER7 and POWER8; record there with {}",
            record_commands::CORE_RUNS
        ))),
        _ => Ok((trace, replay)),
    }
}
