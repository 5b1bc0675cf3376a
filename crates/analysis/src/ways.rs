//! How the cost of exits divides into steps, by reason and by whether they left the kernel.
//!
//! ```text
//! Exit{io, to user space, way: reaching 1 us, handling 3 us, leaving 2 us, user 9 us, entering 2 us} ─► sums of each step
//! ```

use crate::{Cell, Keyed, Tally};
use exitscope_model::{Door, Exit, ExitCode, Mark, Step};
use exitscope_units::Nanos;

/// Exits of one reason that went the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WayKey {
    /// The reason.
    pub code: ExitCode,
    /// Whether they left the kernel, or Xen.
    pub outside: bool,
}

impl WayKey {
    /// The key of an exit.
    #[inline]
    pub fn of(exit: &Exit) -> WayKey {
        WayKey { code: exit.code, outside: exit.handler != Door::Kernel }
    }
}

/// The figures of exits, and sums over their ways; all lengths in nanoseconds, of exits of which both ends were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayCell {
    /// Their figures.
    pub cell: Cell,
    /// All steps but handling, which is what they leave of the cost.
    times: [u64; Step::ALL.len()],
    marks: [u64; Mark::ALL.len()],
    /// System calls that user space made.
    pub calls: u64,
    /// Time in these.
    pub in_calls: u64,
    /// Of these, calls that read or write registers.
    pub register_calls: u64,
    /// Time in those.
    pub in_register_calls: u64,
}

impl WayCell {
    /// Time in this step.
    pub fn time(&self, step: Step) -> Nanos {
        match step {
            Step::Handling => {
                Nanos(self.times.iter().fold(self.cell.cost().0, |left, time| left.saturating_sub(*time)))
            }
            _ => Nanos(self.times[step as usize]),
        }
    }

    /// Exits of which this was seen.
    pub fn marked(&self, mark: Mark) -> u64 {
        self.marks[mark as usize]
    }

    #[inline]
    fn add(&mut self, step: Step, time: Nanos) {
        let sum = &mut self.times[step as usize];
        *sum = sum.saturating_add(time.0);
    }
}

impl Tally for WayCell {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.cell.absorb(exit);
        let way = &exit.way;
        // Most exits are handled in the kernel, with no more than an event of their handler.
        if !exit.timed || way.is_unmarked() {
            return;
        }
        self.add(Step::Reaching, way.time(Step::Reaching));
        self.marks[Mark::Reached as usize] += u64::from(way.has(Mark::Reached));
        if !way.is_more_than_reached() {
            return;
        }
        for step in [Step::Leaving, Step::User, Step::Asleep, Step::Entering] {
            self.add(step, way.time(step));
        }
        for mark in [Mark::Left, Mark::Returned, Mark::Called, Mark::Emulated] {
            self.marks[mark as usize] += u64::from(way.has(mark));
        }
        self.calls += u64::from(way.calls);
        self.register_calls += u64::from(way.register_calls);
        self.in_calls = self.in_calls.saturating_add(way.in_calls.0);
        self.in_register_calls = self.in_register_calls.saturating_add(way.in_register_calls.0);
    }

    fn merge(&mut self, other: &WayCell) {
        self.cell.merge(&other.cell);
        for (sum, more) in self.times.iter_mut().zip(&other.times) {
            *sum = sum.saturating_add(*more);
        }
        for (sum, more) in self.marks.iter_mut().zip(&other.marks) {
            *sum += more;
        }
        self.calls += other.calls;
        self.in_calls = self.in_calls.saturating_add(other.in_calls);
        self.register_calls += other.register_calls;
        self.in_register_calls = self.in_register_calls.saturating_add(other.in_register_calls);
    }
}

/// The ways of a recording.
pub type Ways = Keyed<WayKey, WayCell>;

impl Ways {
    /// All exits together that left the kernel, or that did not.
    pub fn all(&self, outside: bool) -> WayCell {
        let mut all = WayCell::default();
        self.cells().iter().filter(|(key, _)| key.outside == outside).for_each(|(_, cell)| all.merge(cell));
        all
    }
}
