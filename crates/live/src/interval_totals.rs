//! What an interval was made of, for a vCPU, a VM or all of them.

use crate::{CountGroup, CountInterval};
use exitscope_model::{AllParts, DetailKind, EXIT_PARTS, ExitCode, ExitParts, TimePart};
use exitscope_record::{About, Cause, Count, Key, Lane, Open};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// What exits and halts are told apart by while they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LiveGroup {
    /// The exit reason.
    Reason(ExitCode),
    /// The kernel did it, and tells of nothing but what it was.
    InKernel(DetailKind),
    /// The subject, whatever the reason; exits are also in a group of their reason.
    Subject(About),
    /// Halts, which lie in exits or in no exit.
    Halt {
        /// The thread slept, else polling was enough.
        slept: bool,
    },
}

impl CountGroup for LiveGroup {
    fn of(key: &Key) -> [Option<LiveGroup>; 2] {
        let group = match (key.cause, key.about) {
            (Cause::Exit(code), _) => LiveGroup::Reason(code),
            (Cause::Served, Some(about)) => LiveGroup::InKernel(about.kind),
            (Cause::Served, None) => return [None; 2],
            (Cause::Halt { slept, .. }, _) => LiveGroup::Halt { slept },
        };
        let about = key.about.filter(|about| about.kind != DetailKind::PageFault);
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
#[derive(Debug, Default)]
pub struct GroupTotals {
    /// What ended in the interval.
    pub new: Count,
    /// What of exits that are open at its end lies in it, less what of those that ended lies before: whole, and what is no cost.
    open: i64,
    open_beside: [i64; EXIT_PARTS],
}

impl IntervalTotals {
    /// What each vCPU did in the interval, or since its first event in it; see [`Aggregation`] for what fires on this host.
    ///
    /// [`Aggregation`]: exitscope_record::Aggregation
    pub fn by_vcpu(
        interval: &CountInterval<LiveGroup>,
        has_kvm_exit: bool,
        switches: bool,
    ) -> BTreeMap<Lane, IntervalTotals> {
        let mut all: BTreeMap<Lane, IntervalTotals> = BTreeMap::new();
        for (&(lane, group), new) in &interval.counts {
            all.entry(lane).or_default().add(group, new);
        }
        for (&lane, vcpu) in &interval.vcpus {
            let totals = all.entry(lane).or_default();
            (totals.has_kvm_exit, totals.switches) = (has_kvm_exit, switches);
            (totals.wall, totals.outside, totals.events) = (vcpu.wall, vcpu.outside, vcpu.events);
            totals.poll = vcpu.state.poll;
            vcpu.state.open.iter().for_each(|open| totals.open(open, vcpu.state.until, 1));
            vcpu.open_before.iter().for_each(|(open, at)| totals.open(open, *at, -1));
        }
        all
    }

    /// Adds what is new of a group.
    pub fn add(&mut self, group: LiveGroup, new: &Count) {
        self.groups.entry(group).or_default().new.add(new);
    }

    /// An exit is open at `at`: the end of the interval, or, with a `sign` of -1, its beginning.
    pub fn open(&mut self, open: &Open, at: u64, sign: i64) {
        let of = self.groups.entry(LiveGroup::Reason(open.code)).or_default();
        of.open += sign * at.saturating_sub(open.since) as i64;
        for part in TimePart::OF_EXITS {
            of.open_beside[part as usize] += sign * open.beside.get(part).0 as i64;
        }
    }

    /// Adds another vCPU's.
    pub fn merge(&mut self, other: &IntervalTotals) {
        self.wall += other.wall;
        self.outside.merge(&other.outside);
        self.switches |= other.switches;
        self.has_kvm_exit |= other.has_kvm_exit;
        self.events += other.events;
        self.poll = self.poll.max(other.poll);
        for (group, theirs) in &other.groups {
            let mine = self.groups.entry(*group).or_default();
            mine.new.add(&theirs.new);
            mine.open += theirs.open;
            mine.open_beside.iter_mut().zip(theirs.open_beside).for_each(|(mine, theirs)| *mine += theirs);
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
        self.reasons().for_each(|(_, of)| beside.merge(&of.beside()));
        let in_exits: u64 = self.reasons().map(|(_, of)| of.time()).sum();
        let rest = self.wall.saturating_sub(in_exits.saturating_add(self.outside.sum().0));
        let (guest, unknown) = if self.has_kvm_exit { (rest, 0) } else { (0, rest) };
        let of_exits = TimePart::BESIDE_COST.into_iter().fold(AllParts::ZERO, |parts, part| {
            let unknown = if part == TimePart::Unknown { unknown } else { 0 };
            parts.with(part, Nanos(beside.get(part).0.saturating_add(unknown)))
        });
        let cost = self.reasons().map(|(_, of)| of.cost()).sum();
        of_exits.with(TimePart::Kernel, Nanos(cost)).with(TimePart::Guest, Nanos(guest))
    }

    /// Exits of the interval, and those of which a length is known.
    pub fn exits_and_timed(&self) -> (u64, u64) {
        let counted = |(group, of): (&LiveGroup, &GroupTotals)| match group {
            LiveGroup::Reason(_) => (of.new.count, of.new.lengths.total()),
            LiveGroup::InKernel(_) => (of.new.count, 0),
            _ => (0, 0),
        };
        self.groups.iter().map(counted).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

impl GroupTotals {
    /// Time in the interval in nanoseconds, including that of exits that are not over.
    pub fn time(&self) -> u64 {
        (self.new.total as i64).saturating_add(self.open).max(0) as u64
    }

    /// What of it is cost, in nanoseconds.
    pub fn cost(&self) -> u64 {
        self.time().saturating_sub(self.beside().sum().0)
    }

    /// What of it is no cost.
    fn beside(&self) -> ExitParts {
        TimePart::OF_EXITS.iter().fold(ExitParts::ZERO, |parts, &part| {
            let time = (self.new.beside.get(part).0 as i64).saturating_add(self.open_beside[part as usize]);
            parts.with(part, Nanos(time.max(0) as u64))
        })
    }
}
