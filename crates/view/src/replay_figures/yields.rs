//! Replays of yields.

use super::{NoSuchFigure, ReplayFigure, ReplayTable, Start, fill};
use crate::FigureUnit::{Count, Ns};
use crate::{KnobValueRow, Replay, thousands};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_analysis::replay::{SpinModel, SpinOutcome, SpinReplay, SpinSurvey};
use exitscope_model::YieldCall;
use exitscope_policy::Knob;

/// What a figure needs besides the yields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Who waited for a CPU.
    Waiters,
    /// That, and lock code that asks whether the owner runs.
    Senses,
}

const FIGURES: [(Needs, ReplayFigure<SpinOutcome>); 7] = [
    (Needs::Nothing, ReplayFigure::new(0, "yields", Count, false, "yields", |of, _| Some(of.yields as f64))),
    (
        Needs::Waiters,
        ReplayFigure::new(
            3,
            "without_preempted_sibling",
            Count,
            false,
            "yields at which no sibling was preempted: no gain",
            |of, _| Some(of.in_vain as f64),
        ),
    ),
    (
        Needs::Senses,
        ReplayFigure::new(
            4,
            "yields_skipped",
            Count,
            true,
            "yields not made, because sense-running said that the owner runs",
            |of, _| Some(of.not_made as f64),
        ),
    ),
    (Needs::Nothing, ReplayFigure::new(2, "cost", Ns, false, "CPU time of yields", |of, _| Some(of.cost as f64))),
    (
        Needs::Waiters,
        ReplayFigure::new(0, "gain_low", Ns, true, "time that waiters gain, at least", |of, _| Some(of.least as f64)),
    ),
    (
        Needs::Waiters,
        ReplayFigure::new(0, "gain_high", Ns, true, "time that waiters gain, at most", |of, _| Some(of.most as f64)),
    ),
    (
        Needs::Waiters,
        ReplayFigure::new(0, "gain", Ns, true, "the middle between gain_low and gain_high", |of, _| {
            Some((of.least as f64 + of.most as f64) / 2.0)
        }),
    ),
];

/// The figures of a recording that tells, or does not tell, who waited for a CPU, replayed with lock code that asks, or does
/// not, whether the owner runs.
fn figures(told: bool, senses: bool) -> Vec<&'static ReplayFigure<SpinOutcome>> {
    let is_met = |needs| match needs {
        Needs::Nothing => true,
        Needs::Waiters => told,
        Needs::Senses => told && senses,
    };
    FIGURES.iter().filter(|row| is_met(row.0)).map(|row| &row.1).collect()
}

impl ReplayTable<'_> {
    /// Fills it with waits replayed with other ways to ask, of which one may sense whether the owner runs.
    pub fn yields(
        self,
        survey: &SpinSurvey,
        (call, in_force): (YieldCall, &SpinModel),
        senses: bool,
        done: &SpinReplay,
    ) -> Result<Replay, NoSuchFigure> {
        let ReplayTable { mut replay, length, labels, best, record } = self;
        replay.over = format!(
            "{} waits with {} yields by {}, {length} long",
            thousands(done.waits),
            thousands(done.recorded.yields),
            call.name()
        );
        let told = survey.known > 0;
        replay.in_force = settings(in_force);
        let best = best.or(told.then_some("gain"));
        let outcomes = labels.into_iter().zip(done.outcomes());
        fill(&mut replay, &figures(told, senses), best, Start::Recorded(&done.recorded), outcomes)?;
        replay.notes = notes(survey, call, told, &record);
        Ok(replay)
    }
}

/// The settings that were in force.
fn settings(asks: &SpinModel) -> Vec<KnobValueRow> {
    let (SpinModel::Vmx(params) | SpinModel::Svm(params) | SpinModel::Code(params, _)) = asks else {
        return Vec::new();
    };
    let row = |knob: &'static Knob| KnobValueRow {
        knob: knob.name,
        value: knob.text(params.get(knob.name).unwrap_or(knob.default)).to_string(),
    };
    asks.knobs().map(row).collect()
}

fn notes(survey: &SpinSurvey, call: YieldCall, told: bool, record: &HowToRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if !told {
        notes.push(format!(
            "The trace does not show which vCPUs waited for a CPU, so the gain of a yield is unknown. {}",
            record.sentence(&[Missed::Scheduler], "")
        ));
    }
    notes.push(match (call, survey.least_window) {
        (YieldCall::Pause | YieldCall::PauseFilter, Some(_)) => {
            "the smallest window in the trace is taken for the base; for the other settings the defaults are assumed"
                .to_string()
        }
        (YieldCall::Pause | YieldCall::PauseFilter, None) if survey.is_static() => {
            "the trace has no change of a window, and the time between yields is always the same: windows are assumed \
             not to grow, and that time to be the default window"
                .to_string()
        }
        _ => "the settings in force are not in the trace: the defaults are assumed, and the recorded time between \
            yields is taken for what they make"
            .to_string(),
    });
    notes.push(
        "gain low, gain high: the trace does not show which vCPU held the lock. A preempted sibling may have held it, \
         and a yield may then have ended the wait, or changed nothing. Both include the CPU time of yields that are \
         not made"
            .to_string(),
    );
    notes.push(
        "waits are replayed unchanged. Waits that ended before a yield are not in the trace, so a vCPU that yields \
         sooner yields more often than shown; a guest whose locks are free sooner has fewer waits"
            .to_string(),
    );
    if matches!(call, YieldCall::Diag44 | YieldCall::Diag9c) {
        notes.push(
            "sense-running is an exit of its own under KVM, which is not counted; X'9C' is taken to name a preempted \
             vCPU, if there was one"
                .to_string(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_yields_is_its_own() {
        let outcome = SpinOutcome { yields: 3, in_vain: 5, not_made: 7, cost: 11, least: -13, most: 17 };
        let [yields, cost] = [("yields", 3.0), ("cost", 11.0)];
        let [in_vain, not_made] = [("without_preempted_sibling", 5.0), ("yields_skipped", 7.0)];
        let won = [("gain_low", -13.0), ("gain_high", 17.0), ("gain", 2.0)];
        for (told, senses, wanted) in [
            (false, true, vec![yields, cost]),
            (true, false, [&[yields, in_vain, cost], &won[..]].concat()),
            (true, true, [&[yields, in_vain, not_made, cost], &won[..]].concat()),
        ] {
            super::super::tests::check(&figures(told, senses), &outcome, &SpinOutcome::default(), &wanted);
        }
    }
}
