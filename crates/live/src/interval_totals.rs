//! What an interval was made of, for a vCPU, a VM or all of them.

use exitscope_model::{AllParts, ExitCode, ExitParts, SubjectKind, TimePart};
use exitscope_record::{CountAndTime, CountKey, CountedKind, CountedSubject, HaltWakeUps};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// What exits and halts are told apart by while they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LiveGroup {
    /// The exit reason.
    Reason(ExitCode),
    /// The kernel did it, and tells of nothing but what it was.
    InKernel(Option<SubjectKind>),
    /// Halts, which lie in exits or in no exit.
    Halt {
        /// The thread slept, else polling was enough.
        slept: bool,
        /// The wake-up was for something.
        valid: bool,
    },
    /// The subject, whatever the reason. What is in such a group is in one of the others, too.
    Subject(CountedSubject),
}

impl LiveGroup {
    /// The groups that counts under this key belong to.
    pub(crate) fn of(key: &CountKey) -> [Option<LiveGroup>; 2] {
        let group = match key.cause {
            CountedKind::Exit(code) => LiveGroup::Reason(code),
            CountedKind::InKernel => LiveGroup::InKernel(key.subject.map(|about| about.kind)),
            CountedKind::Halt { slept, valid } => LiveGroup::Halt { slept, valid },
        };
        let about = key.subject.filter(|about| about.kind != SubjectKind::PageFault);
        [Some(group), about.map(LiveGroup::Subject)]
    }
}

/// What happened in an interval to some vCPUs.
#[derive(Debug, Default)]
pub struct IntervalTotals {
    /// vCPUs' wall time in nanoseconds.
    pub wall: u64,
    /// What of it was polling, halted, steal, … in no exit.
    pub outside: ExitParts,
    /// What came of halts.
    pub wake_ups: HaltWakeUps,
    /// Whether the scheduler tells when threads have no CPU.
    pub switches: bool,
    /// `kvm_exit` fires: what is in no exit is the guest's.
    pub has_kvm_exit: bool,
    /// Events that were looked at.
    pub events: u64,
    /// How long KVM polls when a vCPU halts, in nanoseconds, of the vCPU where that is longest, if it changed.
    pub poll: Option<u32>,
    /// By group.
    pub groups: BTreeMap<LiveGroup, GroupTotals>,
}

/// What a group had of an interval.
#[derive(Clone, Debug, Default)]
pub struct GroupTotals {
    /// What ended in the interval, whole.
    pub ended: CountAndTime,
    /// What of these lies in the interval, and of exits that are open at its end.
    pub within: CountAndTime,
}

impl GroupTotals {
    /// Whether the time is known: a length of one that ended or one that is open, or that there was none.
    pub fn has_time(&self) -> bool {
        self.ended.count == 0 || self.ended.lengths.total() > 0 || self.ended.total > 0 || self.within.total > 0
    }

    /// Adds another group, or another vCPU's.
    pub fn merge(&mut self, other: &GroupTotals) {
        let GroupTotals { ended, within } = other;
        self.ended.add(ended);
        self.within.add(within);
    }
}

impl IntervalTotals {
    /// Adds another vCPU's.
    pub fn merge(&mut self, other: &IntervalTotals) {
        let IntervalTotals { wall, outside, wake_ups, switches, has_kvm_exit, events, poll, groups } = other;
        self.wall += wall;
        self.outside.merge(outside);
        self.wake_ups.add(wake_ups);
        self.switches |= *switches;
        self.has_kvm_exit |= *has_kvm_exit;
        self.events += events;
        self.poll = self.poll.max(*poll);
        for (group, theirs) in groups {
            self.groups.entry(*group).or_default().merge(theirs);
        }
    }

    /// What exits of each reason had.
    pub fn reasons(&self) -> impl Iterator<Item = (ExitCode, &GroupTotals)> {
        self.groups.iter().filter_map(|(group, of)| match group {
            LiveGroup::Reason(code) => Some((*code, of)),
            _ => None,
        })
    }

    /// Where the vCPUs' time went. Cost is one figure here: all of it counts as the kernel's.
    pub fn parts(&self) -> AllParts {
        let mut beside = self.outside;
        self.reasons().for_each(|(_, of)| beside.merge(&of.within.not_cost));
        let in_exits: u64 = self.reasons().map(|(_, of)| of.within.total).sum();
        let rest = self.wall.saturating_sub(in_exits.saturating_add(self.outside.sum().0));
        let (guest, unknown) = if self.has_kvm_exit { (rest, 0) } else { (0, rest) };
        let of_exits = TimePart::BESIDE_COST.into_iter().fold(AllParts::ZERO, |parts, part| {
            let unknown = if part == TimePart::Unknown { unknown } else { 0 };
            parts.with(part, Nanos(beside.get(part).0.saturating_add(unknown)))
        });
        let cost = self.reasons().map(|(_, of)| of.within.cost()).sum();
        of_exits.with(TimePart::Kernel, Nanos(cost)).with(TimePart::Guest, Nanos(guest))
    }

    /// Exits of the interval, and those of which a length is known.
    pub fn exits_and_timed(&self) -> (u64, u64) {
        let counted = |(group, of): (&LiveGroup, &GroupTotals)| match group {
            LiveGroup::Reason(_) => (of.ended.count, of.ended.lengths.total()),
            LiveGroup::InKernel(Some(_)) => (of.ended.count, 0),
            _ => (0, 0),
        };
        self.groups.iter().map(counted).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}
