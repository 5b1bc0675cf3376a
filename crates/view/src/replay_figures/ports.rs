//! Replays of port accesses.

use super::{NoSuchFigure, ReplayFigure, ReplayTable, Start, fill};
use crate::FigureUnit::{self, Count, Ns, Share};
use crate::replay::FigureRow;
use crate::{KnobValueRow, Replay, thousands};
use exitscope_analysis::DurationStats;
use exitscope_analysis::replay::{PortLengths, PortOutcome, PortReplay, ReplayedPorts, knobs_of};
use exitscope_model::SubjectKind;
use exitscope_scenario::CostModel;

/// What is shown of accesses on one way.
#[derive(Clone, Copy, Debug, Default)]
struct ShownPorts {
    of: PortOutcome,
    /// Medians of those that a device model answers, in nanoseconds or, if its clock counts them, in cycles.
    to_device_model: Option<f64>,
    access: Option<f64>,
}

impl ShownPorts {
    fn of((of, lengths): &(PortOutcome, PortLengths), clock_hz: Option<u64>) -> ShownPorts {
        let median = |lengths: &DurationStats| {
            let median = lengths.histogram.quantile(5_000).filter(|_| of.unknown == 0)? as f64;
            Some(clock_hz.map_or(median, |hz| (median * hz as f64 / 1e9).round()))
        };
        ShownPorts { of: *of, to_device_model: median(&lengths.handed), access: median(&lengths.whole) }
    }
}

/// Figures, and whether they are only of ways that differ before or after a device model.
const FIGURES: [(bool, ReplayFigure<ShownPorts>); 9] = [
    (
        false,
        ReplayFigure::new(
            0,
            "user_space_accesses",
            Count,
            false,
            "accesses that user space or a device model handles",
            |shown, _| Some(shown.of.outside as f64),
        ),
    ),
    (
        false,
        ReplayFigure::new(
            0,
            "kept_inside",
            Count,
            true,
            "accesses that would not have left the kernel",
            |shown, base| Some(kept_inside(shown, base)),
        ),
    ),
    (
        false,
        ReplayFigure::new(
            3,
            "kept_inside_share",
            Share,
            true,
            "share of the accesses that would not have left the kernel",
            |shown, base| (shown.of.accesses > 0).then(|| kept_inside(shown, base) / shown.of.accesses as f64),
        ),
    ),
    (
        false,
        ReplayFigure::new(4, "emulations", Count, false, "times that an instruction is emulated", |shown, _| {
            Some(shown.of.emulations as f64)
        }),
    ),
    (
        false,
        ReplayFigure::new(
            5,
            "blocks",
            Count,
            false,
            "times that the vCPU gives its CPU away until a device model has answered",
            |shown, _| Some(shown.of.blocks as f64),
        ),
    ),
    (
        true,
        ReplayFigure::new(
            2,
            "to_device_model",
            Ns,
            false,
            "from the exit until the device model is woken (Xen: blocked_to_runnable) or told, median",
            |shown, _| shown.to_device_model,
        ),
    ),
    (
        true,
        ReplayFigure::new(
            2,
            "whole_access",
            Ns,
            false,
            "from exit to entry of an access that a device model handles, median",
            |shown, _| shown.access,
        ),
    ),
    (
        false,
        ReplayFigure::new(
            2,
            "cost",
            Ns,
            false,
            "what the accesses cost, in the kernel and in user space",
            |shown, _| (shown.of.unknown == 0).then_some(shown.of.time as f64),
        ),
    ),
    (
        false,
        ReplayFigure::new(0, "gain", Ns, true, "reduction of the cost against the recording", |shown, base| {
            (shown.of.unknown == 0).then_some(base.of.time as f64 - shown.of.time as f64)
        }),
    ),
];

fn kept_inside(shown: &ShownPorts, base: &ShownPorts) -> f64 {
    base.of.outside.saturating_sub(shown.of.outside) as f64
}

/// The figures, of ways that differ, or do not, in who decodes accesses; lengths of accesses in cycles where the clock counts them.
fn figures(decoded_otherwise: bool, in_cycles: bool) -> Vec<ReplayFigure<ShownPorts>> {
    let shown = FIGURES.into_iter().filter(|(of_ways, _)| decoded_otherwise || !of_ways);
    let in_unit = |(of_ways, figure): (bool, ReplayFigure<ShownPorts>)| {
        let unit = if of_ways && in_cycles { FigureUnit::Cycles } else { figure.row.unit };
        ReplayFigure { row: FigureRow { unit, ..figure.row }, ..figure }
    };
    shown.map(in_unit).collect()
}

impl ReplayTable<'_> {
    /// Fills it with port accesses replayed on other ways. `clock_hz`: the recording's clock counts cycles, so many a second.
    pub fn ports(
        self,
        model: Option<&CostModel>,
        is_xen: bool,
        clock_hz: Option<u64>,
        done: &ReplayedPorts,
    ) -> Result<Replay, NoSuchFigure> {
        let ReplayTable { mut replay, length, labels, best, .. } = self;
        replay.over = format!(
            "{} port accesses, {} of them handled in user space, {length} long",
            thousands(done.accesses),
            thousands(done.outside)
        );
        let timed = done.outcomes.iter().any(|(outcome, _)| outcome.unknown == 0);
        let in_force = PortReplay::recorded(is_xen);
        replay.in_force = knobs_of("port_path")
            .filter(|knob| matches!(knob.name, "quick_path" | "device_model"))
            .filter_map(|knob| {
                Some(KnobValueRow { knob: knob.name, value: knob.text(in_force.get(knob.name)?).to_string() })
            })
            .collect();
        let recorded = replay.vary.iter().map(|_| "as recorded".to_string()).collect();
        let best = best.or(timed.then_some("gain"));
        let decoded_otherwise = replay.vary.iter().any(|axis| axis.key == "quick_path");
        let figures = figures(decoded_otherwise, clock_hz.is_some());
        let figures: Vec<&ReplayFigure<ShownPorts>> = figures.iter().collect();
        let shown: Vec<ShownPorts> = done.outcomes.iter().map(|of| ShownPorts::of(of, clock_hz)).collect();
        let now = ShownPorts::of(&done.in_force, clock_hz);
        fill(&mut replay, &figures, best, Start::InForce(recorded, &now), labels.into_iter().zip(&shown))?;
        replay.notes = notes(done, model);
        if decoded_otherwise {
            let unit = if clock_hz.is_some() { "(in cycles of the clock) " } else { "" };
            replay.notes.push(format!(
                "to device model, whole access: medians {unit}of accesses that a device model answers; the first is from the exit until the \
                 device model's vCPU is woken (on Xen, from VMEXIT to blocked_to_runnable), the second from the exit to the entry"
            ));
        }
        Ok(replay)
    }
}

fn notes(done: &ReplayedPorts, model: Option<&CostModel>) -> Vec<String> {
    let outcomes = || done.outcomes.iter().chain([&done.in_force]).map(|of| &of.0);
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
    let plain = done.accesses - done.string - done.untold;
    notes.push(format!(
        "{} of {} accesses qualify for the quick path: {} are string accesses (INS, OUTS), which alone can be repeated (REP), and are \
         emulated always",
        thousands(plain),
        thousands(done.accesses),
        thousands(done.string)
    ));
    if let Some(emulation) = done.typical.emulation.filter(|_| outcomes().any(|outcome| outcome.by_string > 0)) {
        notes.push(format!(
            "an access that is emulated instead takes {emulation} longer for each emulation, as in this recording string accesses are \
             handed over that much later than plain ones (by the medians; string accesses also reach memory)"
        ));
    }
    if unknown {
        notes.push(
            "- where the recording has no cost for that way (another device model, or, if it has no string access to compare with, an \
             instruction that is emulated instead of decoded from the exit); --costs takes it from a cost model"
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
        let of =
            PortOutcome { accesses: 20, outside: 3, emulations: 5, blocks: 7, time: 110, ..PortOutcome::default() };
        let shown = ShownPorts { of, to_device_model: Some(17.0), access: Some(19.0) };
        let base = ShownPorts { of: PortOutcome { outside: 13, time: 300, ..of }, ..shown };
        let wanted = [
            ("user_space_accesses", 3.0),
            ("kept_inside", 10.0),
            ("kept_inside_share", 0.5),
            ("emulations", 5.0),
            ("blocks", 7.0),
            ("to_device_model", 17.0),
            ("whole_access", 19.0),
            ("cost", 110.0),
            ("gain", 190.0),
        ];
        super::super::tests::check(&figures(true, false).iter().collect::<Vec<_>>(), &shown, &base, &wanted);
        let of_any_way = [&wanted[..5], &wanted[7..]].concat();
        super::super::tests::check(&figures(false, true).iter().collect::<Vec<_>>(), &shown, &base, &of_any_way);
    }
}
