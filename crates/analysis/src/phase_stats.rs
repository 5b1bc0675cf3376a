//! How the cost of exits divides into steps, by reason and by whether they left the kernel.
//!
//! ```text
//! Exit{io, to user space, way: reaching 1 us, handling 3 us, leaving 2 us, user 9 us, entering 2 us} ─► sums of each step
//! ```

use crate::{ExitStats, StatsByKey, Tally};
use exitscope_model::{Exit, ExitCode, ExitPhase, PhaseBoundary};
use exitscope_units::Nanos;

/// Exits of one reason that went the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseKey {
    /// The reason.
    pub code: ExitCode,
    /// Whether they left the kernel, or Xen.
    pub outside: bool,
}

impl PhaseKey {
    /// The key of an exit.
    #[inline]
    pub fn of(exit: &Exit) -> PhaseKey {
        PhaseKey { code: exit.code, outside: exit.has_left_kernel() }
    }
}

/// The figures of exits, and sums over their ways; all lengths in nanoseconds, of exits of which both ends were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseStats {
    /// Their figures.
    pub stats: ExitStats,
    /// All steps but handling, which is what they leave of the cost.
    times: [u64; ExitPhase::ALL.len()],
    marks: [u64; PhaseBoundary::ALL.len()],
    /// System calls that user space made.
    pub calls: u64,
    /// Time in these.
    pub in_calls: u64,
    /// Of these, calls that read or write registers.
    pub register_calls: u64,
    /// Time in those.
    pub in_register_calls: u64,
}

impl PhaseStats {
    /// Time in this step.
    pub fn time(&self, step: ExitPhase) -> Nanos {
        match step {
            ExitPhase::Handling => {
                Nanos(self.times.iter().fold(self.stats.cost().0, |left, time| left.saturating_sub(*time)))
            }
            _ => Nanos(self.times[step as usize]),
        }
    }

    /// Exits of which this was seen.
    pub fn marked(&self, mark: PhaseBoundary) -> u64 {
        self.marks[mark as usize]
    }

    #[inline]
    fn add(&mut self, step: ExitPhase, time: Nanos) {
        let sum = &mut self.times[step as usize];
        *sum = sum.saturating_add(time.0);
    }
}

impl Tally for PhaseStats {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.stats.absorb(exit);
        let phases = &exit.phases;
        // Most exits are handled in the kernel, with no more than an event of their handler.
        if !exit.timed || phases.is_unmarked() {
            return;
        }
        self.add(ExitPhase::ToHandler, phases.time(ExitPhase::ToHandler));
        self.marks[PhaseBoundary::HandlerEvent as usize] += u64::from(phases.has(PhaseBoundary::HandlerEvent));
        if !phases.is_more_than_reached() {
            return;
        }
        for step in [ExitPhase::ToUserSpace, ExitPhase::UserSpace, ExitPhase::UserSpaceAsleep, ExitPhase::Reentry] {
            self.add(step, phases.time(step));
        }
        for mark in [
            PhaseBoundary::FpuPut,
            PhaseBoundary::KvmRunReturned,
            PhaseBoundary::KvmRunEntered,
            PhaseBoundary::Emulated,
        ] {
            self.marks[mark as usize] += u64::from(phases.has(mark));
        }
        self.calls += u64::from(phases.calls);
        self.register_calls += u64::from(phases.register_calls);
        self.in_calls = self.in_calls.saturating_add(phases.in_calls.0);
        self.in_register_calls = self.in_register_calls.saturating_add(phases.in_register_calls.0);
    }

    fn merge(&mut self, other: &PhaseStats) {
        let PhaseStats { stats, times, marks, calls, in_calls, register_calls, in_register_calls } = other;
        self.stats.merge(stats);
        for (sum, more) in self.times.iter_mut().zip(times) {
            *sum = sum.saturating_add(*more);
        }
        for (sum, more) in self.marks.iter_mut().zip(marks) {
            *sum += more;
        }
        self.calls += calls;
        self.in_calls = self.in_calls.saturating_add(*in_calls);
        self.register_calls += register_calls;
        self.in_register_calls = self.in_register_calls.saturating_add(*in_register_calls);
    }
}

/// The ways of a recording.
pub type PhasesByReason = StatsByKey<PhaseKey, PhaseStats>;

impl PhasesByReason {
    /// All exits together that left the kernel, or that did not.
    pub fn all(&self, outside: bool) -> PhaseStats {
        let mut all = PhaseStats::default();
        self.cells().iter().filter(|(key, _)| key.outside == outside).for_each(|(_, cell)| all.merge(cell));
        all
    }
}
