//! Replays of virtual cores.

use super::{NoSuchFigure, ReplayFigure, ReplayTable, Start, fill};
use crate::FigureUnit::{Count, Ns};
use crate::{Replay, thousands};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::replay::{GangOutcome, GangReplay};

const FIGURES: &[ReplayFigure<GangOutcome>] = &[
    ReplayFigure::new(
        0,
        "ganged_runs",
        Count,
        false,
        "core runs in which one thread's exit takes others along",
        |of, _| Some(of.ganged as f64),
    ),
    ReplayFigure::new(0, "forced_exits", Count, false, "exits of threads that had no reason of their own", |of, _| {
        Some(of.forced as f64)
    }),
    ReplayFigure::new(0, "exits_avoided", Count, true, "forced exits that would not have happened", |of, _| {
        Some(of.avoided as f64)
    }),
    ReplayFigure::new(1, "forced_out", Ns, false, "from being forced out to the next entry", |of, _| {
        Some(of.lost as f64)
    }),
    ReplayFigure::new(0, "gain", Ns, true, "reduction of the time forced out against the recording", |of, recorded| {
        Some(recorded.lost.saturating_sub(of.lost) as f64)
    }),
];

/// The figures of a recording that tells, or does not tell, when those who were forced out entered again.
fn figures(timed: bool) -> Vec<&'static ReplayFigure<GangOutcome>> {
    FIGURES.iter().filter(|figure| timed || figure.row.unit != Ns).collect()
}

impl ReplayTable<'_> {
    /// Fills it with core runs replayed with virtual cores of other widths.
    pub fn vcores(self, done: &GangReplay) -> Result<Replay, NoSuchFigure> {
        let ReplayTable { mut replay, length, labels, best, record } = self;
        replay.over = format!("{} core runs, {length} long", thousands(done.core_runs));
        let timed = done.recorded.lost > 0;
        let best = best.unwrap_or(if timed { "gain" } else { "exits_avoided" });
        let outcomes = labels.into_iter().zip(done.outcomes.iter().map(|row| &row.1));
        fill(&mut replay, &figures(timed), Some(best), Start::Recorded(&done.recorded), outcomes)?;
        replay.notes = vec![
            "with fewer vCPUs in each virtual core, running as many vCPUs at a time takes more cores or subcores \
             (subcores_per_core): that cost is not replayed"
                .to_string(),
            "vCPUs of different virtual cores in the recording stay apart: wider virtual cores cannot be replayed"
                .to_string(),
        ];
        if !timed {
            replay.notes.push(format!(
                "No entry follows a forced exit in the trace, so time lost is unknown. {}",
                record.sentence(&[Missed::Entries], "")
            ));
        }
        Ok(replay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_core_runs_is_its_own() {
        let outcome = GangOutcome { ganged: 3, forced: 5, avoided: 7, lost: 11, others: 0 };
        let recorded = GangOutcome { lost: 30, ..GangOutcome::default() };
        let counts = [("ganged_runs", 3.0), ("forced_exits", 5.0), ("exits_avoided", 7.0)];
        let times = [("forced_out", 11.0), ("gain", 19.0)];
        super::super::tests::check(&figures(false), &outcome, &recorded, &counts);
        super::super::tests::check(&figures(true), &outcome, &recorded, &[&counts[..], &times[..]].concat());
    }
}
