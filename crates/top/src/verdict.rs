//! The verdict on the last intervals: that of a report, as far as counts bear it.
//!
//! ```text
//! IntervalTotals of all VMs, of up to INTERVALS intervals ─┬► Verdict (as for recordings) ─► in words; no change is advised
//!                                                          └► the costliest cause, and what may change it
//! ```

use crate::costliest_cause::costliest_cause;
use crate::frame::{Frame, LiveVerdict};
use exitscope_advice::RecordedHost;
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_analysis::{Verdict, VerdictInput, VerdictState};
use exitscope_live::IntervalTotals;
use exitscope_model::TimePart;
use exitscope_units::Nanos;
use exitscope_view::{VerdictRow, VerdictWords, share, thousands};
use std::collections::VecDeque;

/// Intervals that a verdict is of, at most: one alone says little.
const INTERVALS: usize = 10;

/// The last intervals, the latest last.
#[derive(Debug)]
pub struct RecentIntervals {
    /// CPUs of this host.
    cpus: u32,
    intervals: VecDeque<Interval>,
}

#[derive(Debug, Default)]
struct Interval {
    seconds: f64,
    vcpus: u64,
    totals: IntervalTotals,
    forced_out: f64,
    core_runs: f64,
    ganged_runs: f64,
    /// Events that are in no figure, and those of the scheduler that were missed, since watching began.
    missing: (u64, u64),
}

impl RecentIntervals {
    /// None yet, on a host with so many CPUs.
    pub fn new(cpus: u32) -> RecentIntervals {
        RecentIntervals { cpus, intervals: VecDeque::new() }
    }

    /// Adds an interval; the oldest leaves when there are more than [`INTERVALS`].
    pub fn push(&mut self, totals: IntervalTotals, frame: &Frame) {
        let mut interval = Interval {
            seconds: frame.seconds,
            vcpus: frame.vms.iter().flat_map(|vm| &vm.vcpus).filter(|vcpu| !vcpu.ended).count() as u64,
            totals,
            missing: (frame.lost, frame.missed),
            ..Interval::default()
        };
        for (vm, gangs) in frame.vms.iter().filter_map(|vm| Some((vm, vm.gangs.as_ref()?))) {
            interval.forced_out += gangs.forced_out.unwrap_or(0.0) * vm.figures.vcpu_seconds * 1e9;
            interval.core_runs += gangs.runs_per_s * frame.seconds;
            interval.ganged_runs += gangs.ganged.unwrap_or(0.0) * gangs.runs_per_s * frame.seconds;
        }
        self.intervals.push_back(interval);
        self.intervals.drain(..self.intervals.len().saturating_sub(INTERVALS));
    }

    /// The verdict on them; none where no vCPU was seen. `is_qemu`: all VMs are QEMU's.
    pub fn verdict(&self, host: &RecordedHost, is_qemu: bool) -> Option<LiveVerdict> {
        let latest = self.intervals.back()?;
        let oldest = self.intervals.front()?;
        let mut all = IntervalTotals::default();
        self.intervals.iter().for_each(|interval| all.merge(&interval.totals));
        let parts = all.parts();
        if parts.sum() == Nanos::ZERO {
            return None;
        }
        let (exits, timed_exits) = all.exits_and_timed();
        let sum = |of: fn(&Interval) -> f64| self.intervals.iter().map(of).sum::<f64>();
        let seconds = sum(|of| of.seconds);
        let duration = Nanos((seconds * 1e9) as u64);
        let forced_out = Nanos(sum(|of| of.forced_out) as u64);
        let verdict = Verdict::of(&VerdictInput { parts, exits, timed_exits, forced_out });
        let wanted = [TimePart::Guest, TimePart::Kernel, TimePart::Steal].map(|part| parts.get(part).0 as f64);
        let words = VerdictWords {
            vcpus: latest.vcpus,
            wanted: wanted.iter().sum::<f64>() / duration.0.max(1) as f64,
            cpus: self.cpus,
            seen: duration,
            has_turns: false,
            took_turns: false,
            sleeps: None,
            core_runs: (sum(|of| of.core_runs) as u64, sum(|of| of.ganged_runs) as u64),
            has_steal: all.switches,
            how: HowToRecord::default(),
        };
        let costs = all.reasons().map(|(code, of)| (code, of.within.cost()));
        let costliest = costs.max_by_key(|(_, cost)| *cost).map(|(code, cost)| (code.name(), cost));
        let mut row = VerdictRow::worded(&verdict, &words, costliest.as_ref());
        if let Some(text) = untold(&verdict, seconds, all.has_kvm_exit) {
            row.text = text;
        }
        for (missing, what) in [
            (latest.missing.0.saturating_sub(oldest.missing.0), "events are in no figure"),
            (latest.missing.1.saturating_sub(oldest.missing.1), "of the scheduler's events were missed"),
        ] {
            if missing > 0 {
                row.is_doubtful = true;
                row.doubts.push(format!("{} {what}", thousands(missing)));
            }
        }
        Some(LiveVerdict { seconds, verdict: row, costliest_cause: costliest_cause(&all, host, is_qemu) })
    }
}

/// What is said where counts bear no verdict.
fn untold(verdict: &Verdict, seconds: f64, has_kvm_exit: bool) -> Option<String> {
    let because = if has_kvm_exit { "" } else { ": kvm_exit does not fire on this host" };
    match verdict.state {
        VerdictState::NoExits => Some(format!("Doubtful: no VM exit in {seconds:.1} s")),
        VerdictState::NoLengths => Some(format!("Doubtful: no exit time was seen in {seconds:.1} s{because}")),
        VerdictState::MostlyUnknown => {
            let part = share(verdict.time.0 as f64 / verdict.wall.0.max(1) as f64);
            Some(format!("Doubtful: {part} of vCPU time is unaccounted for{because}"))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
