//! The parts of a vCPU's time: disjoint, and together its whole span. docs/accounting.md says which event's time goes where.
//!
//! ```text
//!          ┌ guest ┬ kernel, user space (these two are cost), polling, halted, halt not divided, waiting for memory,
//! span ────┤       │ steal, stopped, unknown: of an exit ([`ExitParts`])
//!          └ excluded: what a loss hides
//! ```

use crate::VcpuIdentity;
use exitscope_units::{Moment, Nanos};

/// A part of a vCPU's time. Those of an exit come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TimePart {
    /// In an exit, in the hypervisor.
    Kernel,
    /// In an exit, outside `KVM_RUN`.
    User,
    /// In a halt, before the block.
    Polling,
    /// Blocked by a halt.
    Halted,
    /// In a halt of which too little was recorded.
    Undivided,
    /// Blocked until a page is there.
    Memory,
    /// Runnable, without a CPU.
    Steal,
    /// Kept from running by the VMM.
    Stopped,
    /// Nothing says.
    Unknown,
    /// In the guest.
    Guest,
    /// Hidden by a loss.
    Excluded,
}

/// How many parts an exit may have: all but guest and excluded.
pub const EXIT_PARTS: usize = 9;

/// How many parts a vCPU's time has.
pub const ALL_PARTS: usize = 11;

impl TimePart {
    /// All, in the order in which they are shown.
    pub const ALL: [TimePart; ALL_PARTS] = [
        TimePart::Guest,
        TimePart::Kernel,
        TimePart::User,
        TimePart::Polling,
        TimePart::Halted,
        TimePart::Undivided,
        TimePart::Memory,
        TimePart::Steal,
        TimePart::Stopped,
        TimePart::Unknown,
        TimePart::Excluded,
    ];

    /// Those of an exit, in that order.
    pub const OF_EXITS: [TimePart; EXIT_PARTS] = {
        let [TimePart::Guest, of_exits @ .., TimePart::Excluded] = TimePart::ALL else {
            panic!("guest first, excluded last")
        };
        of_exits
    };

    /// Those of an exit that are no cost.
    pub const BESIDE_COST: [TimePart; EXIT_PARTS - 2] = {
        let [TimePart::Kernel, TimePart::User, beside_cost @ ..] = TimePart::OF_EXITS else {
            panic!("the cost comes first")
        };
        beside_cost
    };

    /// Its column in CSV, JSON, SQL and stores, for people, and what it means.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            TimePart::Guest => (
                "guest_ns",
                "guest",
                "In the guest, on a CPU; what the host cannot see is in it: guest halt polling, idleness where HLT does not exit, time hidden around entry and exit.",
            ),
            TimePart::Kernel => ("kernel_ns", "kernel", "In an exit, in the hypervisor."),
            TimePart::User => {
                ("user_space_ns", "user space", "In an exit, outside KVM_RUN; on Xen, waiting for the device model.")
            }
            TimePart::Polling => {
                ("polling_ns", "polling", "The host polled for a wake-up before it blocked the halted vCPU.")
            }
            TimePart::Halted => {
                ("halted_ns", "halted", "Blocked because the guest halted: from the block to the wake-up.")
            }
            TimePart::Undivided => (
                "halt_not_divided_ns",
                "halt, not divided",
                "In a halt of which the recording tells too little: cost, polling, halted and steal are together here.",
            ),
            TimePart::Memory => (
                "waiting_for_memory_ns",
                "waiting for memory",
                "Blocked by the host until a page is there, in an exit for a page fault.",
            ),
            TimePart::Steal => ("steal_ns", "steal", "Runnable, without a CPU."),
            TimePart::Stopped => (
                "stopped_ns",
                "stopped",
                "Kept from running by the VMM: paused, last stage of a migration, a debugger.",
            ),
            TimePart::Unknown => ("unknown_ns", "unknown", "What nothing in the recording explains."),
            TimePart::Excluded => ("excluded_ns", "excluded", "Hidden by a loss: in no other figure."),
        }
    }

    /// Its column in CSV, JSON, SQL and stores.
    pub const fn column(self) -> &'static str {
        self.words().0
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        self.words().1
    }

    /// What it means.
    pub const fn prose(self) -> &'static str {
        self.words().2
    }
}

/// The first `N` parts, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<const N: usize>([u64; N]);

/// The parts of an exit, from exit to entry.
pub type ExitParts = Parts<EXIT_PARTS>;

/// The parts of a vCPU's time.
pub type AllParts = Parts<ALL_PARTS>;

impl<const N: usize> Default for Parts<N> {
    fn default() -> Parts<N> {
        Parts([0; N])
    }
}

impl<const N: usize> Parts<N> {
    /// All parts 0.
    pub const ZERO: Parts<N> = Parts([0; N]);

    /// How long one is; zero if it is none of these.
    #[inline(always)]
    pub const fn get(&self, part: TimePart) -> Nanos {
        if (part as usize) < N { Nanos(self.0[part as usize]) } else { Nanos::ZERO }
    }

    /// Adds to one.
    #[inline(always)]
    pub fn add(&mut self, part: TimePart, time: Nanos) {
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(time.0);
    }

    /// With `time` more of one.
    pub fn with(mut self, part: TimePart, time: Nanos) -> Parts<N> {
        self.add(part, time);
        self
    }

    /// Moves `time`, as far as there is so much, from one to another; how much that was.
    pub fn shift(&mut self, from: TimePart, to: TimePart, time: Nanos) -> Nanos {
        let moved = time.0.min(self.0[from as usize]);
        self.0[from as usize] -= moved;
        self.add(to, Nanos(moved));
        Nanos(moved)
    }

    /// Adds as much of each as `other` has, of those that both know.
    #[inline]
    pub fn merge<const M: usize>(&mut self, other: &Parts<M>) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Adds an exit's parts; most have no more than a cost.
    #[inline(always)]
    pub fn merge_exit(&mut self, exit: &ExitParts) {
        self.add(TimePart::Kernel, exit.get(TimePart::Kernel));
        self.add(TimePart::User, exit.get(TimePart::User));
        if !exit.is_cost() {
            self.merge_beside_cost(exit);
        }
    }

    #[inline(never)]
    fn merge_beside_cost(&mut self, exit: &ExitParts) {
        TimePart::BESIDE_COST.iter().for_each(|&part| self.add(part, exit.get(part)));
    }

    /// Kernel and user space.
    #[inline(always)]
    pub fn cost(&self) -> Nanos {
        self.get(TimePart::Kernel).plus(self.get(TimePart::User))
    }

    /// Whether there is nothing but cost.
    #[inline(always)]
    pub fn is_cost(&self) -> bool {
        self.0[2..].iter().fold(0, |any, time| any | time) == 0
    }

    /// Whether there is no time at all. Comparing with [`Parts::ZERO`] would be a call.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |any, time| any | time) == 0
    }

    /// All together.
    #[inline]
    pub fn sum(&self) -> Nanos {
        Nanos(self.0.iter().fold(0, |sum: u64, time| sum.saturating_add(*time)))
    }

    /// Time in halts: the guest had nothing to do. Polling, halted, and what cannot be divided.
    pub fn in_halts(&self) -> Nanos {
        [TimePart::Halted, TimePart::Undivided]
            .iter()
            .fold(self.get(TimePart::Polling), |sum, part| sum.plus(self.get(*part)))
    }

    /// As much of each as `held` is of them all, so that these are `held` together: of what rounding leaves, each has at most one.
    pub fn in_proportion(&self, held: Nanos) -> Parts<N> {
        let sum = self.0.iter().fold(0, |sum: u128, time| sum + u128::from(*time));
        if u128::from(held.0) >= sum {
            return *self;
        }
        let mut parts = Parts(self.0.map(|time| (u128::from(time) * u128::from(held.0) / sum) as u64));
        let mut left = held.0 - parts.sum().0;
        for (share, whole) in parts.0.iter_mut().zip(&self.0) {
            let more = u64::from(*share < *whole).min(left);
            *share += more;
            left -= more;
        }
        parts
    }
}

/// A stretch of a vCPU's time that is of no exit: guest time that no exit ended, an exit of which only one end was seen, what
/// a loss hides, and on hosts whose KVM fires no `kvm_exit` all but what user space has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInterval {
    /// The vCPU.
    pub who: VcpuIdentity,
    /// When it begins. It is as long as its parts are together.
    pub from: Moment,
    /// What it holds.
    pub parts: AllParts,
}

/// When a vCPU was first and last heard of. Its rows and its [`CpuInterval`]es hold all the time between, each moment once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan {
    /// The vCPU.
    pub who: VcpuIdentity,
    /// Its first entry or exit.
    pub first: Moment,
    /// The last event that tells of it.
    pub last: Moment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_shown_once_and_stands_where_its_number_says() {
        let mut numbers = TimePart::ALL.map(|part| part as usize);
        numbers.sort_unstable();
        assert_eq!(numbers.to_vec(), (0..ALL_PARTS).collect::<Vec<_>>());
        assert!(TimePart::OF_EXITS.iter().enumerate().all(|(at, part)| at == *part as usize));
    }

    #[test]
    fn parts_have_their_columns_and_names() {
        let expected = "guest_ns guest, kernel_ns kernel, user_space_ns user space, polling_ns polling, halted_ns halted, \
                        halt_not_divided_ns halt, not divided, waiting_for_memory_ns waiting for memory, steal_ns steal, \
                        stopped_ns stopped, unknown_ns unknown, excluded_ns excluded";
        let words = TimePart::ALL.map(|part| format!("{} {}", part.column(), part.name()));
        assert_eq!(words.join(", "), expected);
        for part in TimePart::ALL {
            assert!(part.prose().ends_with('.') && part.prose().len() > 20, "{part:?}: {}", part.prose());
        }
        assert_eq!(TimePart::Steal.prose(), "Runnable, without a CPU.");
    }

    #[test]
    fn parts_add_up_and_are_moved_as_far_as_there_is_so_much() {
        let mut parts = ExitParts::ZERO.with(TimePart::Kernel, Nanos(70)).with(TimePart::User, Nanos(30));
        assert_eq!((parts.cost(), parts.sum(), parts.is_cost()), (Nanos(100), Nanos(100), true));
        assert_eq!(parts.shift(TimePart::Kernel, TimePart::Polling, Nanos(20)), Nanos(20));
        assert_eq!((parts.get(TimePart::Kernel), parts.get(TimePart::Polling)), (Nanos(50), Nanos(20)));
        assert_eq!(parts.shift(TimePart::User, TimePart::Halted, Nanos(31)), Nanos(30));
        assert_eq!(parts.shift(TimePart::User, TimePart::Halted, Nanos(5)), Nanos(0));
        parts.add(TimePart::Undivided, Nanos(7));
        assert_eq!((parts.cost(), parts.sum(), parts.is_cost()), (Nanos(50), Nanos(107), false));
        assert_eq!(parts.in_halts(), Nanos(20 + 30 + 7));
        // An exit has neither of these.
        assert_eq!((parts.get(TimePart::Guest), parts.get(TimePart::Excluded)), (Nanos::ZERO, Nanos::ZERO));
        for part in TimePart::ALL {
            assert!(!AllParts::ZERO.with(part, Nanos(1 << 40)).is_zero(), "{part:?}");
        }
        assert!(AllParts::ZERO.is_zero());
        // Two parts of the same length do not make a cost.
        assert!(!ExitParts::ZERO.with(TimePart::Halted, Nanos(9)).with(TimePart::Steal, Nanos(9)).is_cost());
    }

    #[test]
    fn exits_parts_are_added_to_a_vcpus() {
        let cost = ExitParts::ZERO.with(TimePart::Kernel, Nanos(3)).with(TimePart::User, Nanos(5));
        let all = TimePart::OF_EXITS.iter().zip([11, 13, 17, 19, 23, 29, 31, 37, 41]);
        let all = all.fold(ExitParts::ZERO, |parts, (&part, time)| parts.with(part, Nanos(time)));
        let (mut one, mut other) = (AllParts::default().with(TimePart::Guest, Nanos(2)), AllParts::default());
        [cost, all].iter().for_each(|exit| one.merge_exit(exit));
        [cost, all].iter().for_each(|exit| other.merge(exit));
        other.add(TimePart::Guest, Nanos(2));
        let expected = [2, 14, 18, 17, 19, 23, 29, 31, 37, 41, 0];
        assert_eq!(TimePart::ALL.map(|part| one.get(part).0), expected);
        assert_eq!(one, other);
    }

    #[test]
    fn what_rounding_leaves_of_a_share_is_given_to_parts_that_have_more() {
        let parts = AllParts::ZERO
            .with(TimePart::Guest, Nanos(7))
            .with(TimePart::Kernel, Nanos(2))
            .with(TimePart::Steal, Nanos(2));
        let shares = |held| {
            let share = parts.in_proportion(Nanos(held));
            [TimePart::Kernel, TimePart::Steal, TimePart::Guest].map(|part| share.get(part).0)
        };
        // 5 of 11: 0.9, 0.9 and 3.2; 9 of 11: 1.6, 1.6 and 5.7.
        assert_eq!([5, 9, 11, 12, 900].map(shares), [[1, 1, 3], [2, 2, 5], [2, 2, 7], [2, 2, 7], [2, 2, 7]]);
    }

    #[test]
    fn a_share_of_parts_is_as_long_as_it_is_to_be() {
        let parts = AllParts::ZERO
            .with(TimePart::Guest, Nanos(7))
            .with(TimePart::Kernel, Nanos(2))
            .with(TimePart::Steal, Nanos(2));
        for held in 0..=11 {
            let share = parts.in_proportion(Nanos(held));
            assert_eq!(share.sum(), Nanos(held));
            assert!(TimePart::ALL.iter().all(|&part| share.get(part) <= parts.get(part)), "{share:?}");
        }
        let vast = AllParts::ZERO.with(TimePart::Guest, Nanos(u64::MAX)).with(TimePart::Kernel, Nanos(u64::MAX));
        assert_eq!(vast.in_proportion(Nanos(9)).get(TimePart::Kernel), Nanos(5));
    }
}
