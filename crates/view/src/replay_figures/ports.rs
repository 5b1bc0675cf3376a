//! Replays of port accesses.

use super::{NoSuchFigure, ReplayFigure, ReplayTable, Start, fill};
use crate::FigureUnit::{Count, Ns, Share};
use crate::{KnobValueRow, Replay, thousands};
use exitscope_analysis::replay::{PortOutcome, PortReplay, ReplayedPorts, knobs_of};
use exitscope_model::SubjectKind;
use exitscope_scenario::CostModel;

const FIGURES: [&ReplayFigure<PortOutcome>; 7] = [
    &ReplayFigure::new(
        0,
        "user_space_accesses",
        Count,
        false,
        "accesses that user space or a device model handles",
        |of, _| Some(of.outside as f64),
    ),
    &ReplayFigure::new(0, "exits_avoided", Count, true, "accesses that would not have left the kernel", |of, base| {
        Some(avoided(of, base))
    }),
    &ReplayFigure::new(
        3,
        "avoided_share",
        Share,
        true,
        "share of the accesses that would not have left the kernel",
        |of, base| (of.accesses > 0).then(|| avoided(of, base) / of.accesses as f64),
    ),
    &ReplayFigure::new(4, "emulations", Count, false, "times that an instruction is emulated", |of, _| {
        Some(of.emulations as f64)
    }),
    &ReplayFigure::new(
        5,
        "blocks",
        Count,
        false,
        "times that the vCPU gives its CPU away until a device model has answered",
        |of, _| Some(of.blocks as f64),
    ),
    &ReplayFigure::new(2, "cost", Ns, false, "what the accesses cost, in the kernel and in user space", |of, _| {
        (of.unknown == 0).then_some(of.time as f64)
    }),
    &ReplayFigure::new(0, "gain", Ns, true, "reduction of the cost against the recording", |of, base| {
        (of.unknown == 0).then_some(base.time as f64 - of.time as f64)
    }),
];

fn avoided(of: &PortOutcome, base: &PortOutcome) -> f64 {
    base.outside.saturating_sub(of.outside) as f64
}

impl ReplayTable<'_> {
    /// Fills it with port accesses replayed on other ways.
    pub fn ports(self, model: Option<&CostModel>, is_xen: bool, done: &ReplayedPorts) -> Result<Replay, NoSuchFigure> {
        let ReplayTable { mut replay, length, labels, best, .. } = self;
        replay.over = format!(
            "{} port accesses, {} of them handled in user space, {length} long",
            thousands(done.accesses),
            thousands(done.outside)
        );
        let timed = done.outcomes.iter().any(|outcome| outcome.unknown == 0);
        let in_force = PortReplay::recorded(is_xen);
        replay.in_force = knobs_of("port_path")
            .filter(|knob| matches!(knob.name, "quick_path" | "device_model"))
            .filter_map(|knob| {
                Some(KnobValueRow { knob: knob.name, value: knob.text(in_force.get(knob.name)?).to_string() })
            })
            .collect();
        let recorded = replay.vary.iter().map(|_| "as recorded".to_string()).collect();
        let best = best.or(timed.then_some("gain"));
        let outcomes = labels.into_iter().zip(&done.outcomes);
        fill(&mut replay, &FIGURES, best, Start::InForce(recorded, &done.in_force), outcomes)?;
        replay.notes = notes(done, model);
        Ok(replay)
    }
}

fn notes(done: &ReplayedPorts, model: Option<&CostModel>) -> Vec<String> {
    let outcomes = || done.outcomes.iter().chain([&done.in_force]);
    let unknown = outcomes().any(|outcome| outcome.unknown > 0);
    let modelled = outcomes().any(|outcome| outcome.modelled > 0);
    let in_kernel = |write| done.typical.in_kernel(SubjectKind::Port, write);
    let mut notes = vec![match (in_kernel(false), in_kernel(true)) {
        (Some(read), Some(write)) => format!(
            "an access that moves into the kernel takes the median of those that the kernel serves in this recording: \
             a read {read}, a write {write}"
        ),
        _ => "The kernel served no port access in this recording, so what serving more of them there would cost is not known"
            .to_string(),
    }];
    if unknown {
        notes.push(
            "-: the recording has no cost for that way (another device model, or an instruction that is emulated \
             instead of decoded from the exit); --costs takes it from a cost model"
                .to_string(),
        );
    }
    if let Some(model) = model.filter(|_| modelled) {
        notes.push(format!(
            "a way without a cost in the recording has the recorded cost, adjusted for the steps that differ by the \
             cost model {}: {}",
            model.name, model.description
        ));
    }
    if done.untold > 0 {
        notes.push(format!(
            "For {} accesses the trace does not show whether they are string accesses: they are taken for plain ones",
            thousands(done.untold)
        ));
    }
    notes.push(
        "ioeventfd and coalesced: all plain writes, whether or not their devices can do without the data or the \
         answer; the device's own work moves to another thread"
            .to_string(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_port_accesses_is_its_own() {
        let outcome =
            PortOutcome { accesses: 20, outside: 3, emulations: 5, blocks: 7, time: 110, ..PortOutcome::default() };
        let base = PortOutcome { outside: 13, time: 300, ..outcome };
        let wanted = [
            ("user_space_accesses", 3.0),
            ("exits_avoided", 10.0),
            ("avoided_share", 0.5),
            ("emulations", 5.0),
            ("blocks", 7.0),
            ("cost", 110.0),
            ("gain", 190.0),
        ];
        super::super::tests::check(&FIGURES, &outcome, &base, &wanted);
    }
}
