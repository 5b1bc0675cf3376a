//! What vCPUs do when they have nothing to do: gaps, polls, sleeps, and how long waking up takes.
//!
//! ```text
//! Halt{begin, woken, entered, told, change} ─► Halts.absorb ─┬─► by vCPU: gaps, latencies, CPU that polls burnt
//!                                                            └─► by VM: the settings that KVM's decisions show
//! ```
//!
//! A *gap* is from the exit with which a vCPU said that it has nothing to do until something woke it: known exactly of
//! halts that a poll caught, and of those that slept only where the trace has `sched_wakeup`. The *wake-up latency* is
//! from there to the entry into the guest.

use crate::{Lengths, PollSettings};
use exitscope_model::{Detail, DetailKind, Halt, Told, Who};
use exitscope_policy::guest_halt_poll::PollControl;
use exitscope_units::{Nanos, VmId};
use std::collections::BTreeMap;

/// Halts of one way to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// From the exit to what woke the vCPU; where that is unknown ([`Waits::inexact`]), to the halt's end.
    pub gaps: Lengths,
    /// Halts that slept and whose wake-up was not recorded: their gaps include the way back to the CPU.
    pub inexact: u64,
    /// From what woke the vCPU to its entry.
    pub latencies: Lengths,
}

/// The halts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltCell {
    /// Those that KVM ended without giving the CPU away.
    pub caught: Waits,
    /// Those that slept.
    pub slept: Waits,
    /// Idle exits of which KVM told no halt: where it tells of others, something was pending at once.
    pub untold: Waits,
    /// Wake-ups that nothing came of (s390).
    pub invalid: u64,
    /// CPU time of polls that caught the wake-up.
    pub poll_hit: u64,
    /// CPU time of polls that did not, as far as KVM traced its polls.
    pub poll_miss: u64,
    /// Polls that did not catch the wake-up.
    pub misses: u64,
    /// From KVM's beginning of a halt until the thread slept: what polls that failed took at most.
    pub before_sleep: Lengths,
    /// Of halts that ended after their poll but before the thread slept: how long after. KVM looks once more.
    pub late: Lengths,
    /// Changes of the poll that KVM traced: up, down.
    pub changes: (u64, u64),
    /// Idle exits that the recording's end or a loss cut off.
    pub cut: u64,
}

/// How many gaps are about so long: a gap within 1/32 of a bound may be on its other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBucket {
    /// The longest gap in it; `None` for all that are longer.
    pub up_to: Option<Nanos>,
    /// Gaps of halts that were caught.
    pub caught: u64,
    /// Gaps of halts that slept, or that nothing says this of.
    pub slept: u64,
}

/// Bounds of the gaps that are told apart.
pub const GAP_BOUNDS: [Nanos; 8] = [
    Nanos(10_000),
    Nanos(20_000),
    Nanos(50_000),
    Nanos(100_000),
    Nanos(200_000),
    Nanos(500_000),
    Nanos(1_000_000),
    Nanos(10_000_000),
];

/// The halts of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Halts {
    /// By vCPU.
    pub vcpus: BTreeMap<Who, HaltCell>,
    /// What KVM's decisions show of its settings, by VM.
    pub settings: BTreeMap<VmId, PollSettings>,
    /// Whether a guest switched the host's polling off, because it polls itself.
    pub guest_polls: bool,
}

/// When something woke the vCPU, counted from the halt's begin, and whether that is exact.
pub(crate) fn gap(halt: &Halt) -> (Nanos, bool) {
    let caught = halt.told.is_some_and(|told| !told.waited);
    let until = halt.woken.filter(|_| !caught).unwrap_or(halt.end);
    (until.since(halt.begin).unwrap_or_default(), caught || halt.woken.is_some())
}

/// From what woke the vCPU to its entry.
pub(crate) fn latency(halt: &Halt) -> Option<Nanos> {
    let (gap, exact) = gap(halt);
    let whole = halt.entered?.since(halt.begin)?;
    exact.then(|| Nanos(whole.0.saturating_sub(gap.0)))
}

impl Waits {
    fn absorb(&mut self, halt: &Halt) {
        let (gap, exact) = gap(halt);
        self.gaps.record(gap);
        self.inexact += u64::from(!exact);
        if let Some(latency) = latency(halt) {
            self.latencies.record(latency);
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &Waits) {
        self.gaps.merge(&other.gaps);
        self.inexact += other.inexact;
        self.latencies.merge(&other.latencies);
    }
}

impl HaltCell {
    fn absorb(&mut self, halt: &Halt) {
        let Some(told) = halt.told else {
            return self.untold.absorb(halt);
        };
        self.invalid += u64::from(!told.valid);
        if let Some(change) = halt.change {
            let way = if change.grow { &mut self.changes.0 } else { &mut self.changes.1 };
            *way += 1;
        }
        if !told.waited {
            self.caught.absorb(halt);
            self.poll_hit = self.poll_hit.saturating_add(told.length.0);
            // A poll that caught the wake-up is not made longer.
            if let Some(change) = halt.change.filter(|change| change.grow) {
                self.late.record(Nanos(told.length.0.saturating_sub(u64::from(change.old))));
            }
            return;
        }
        self.slept.absorb(halt);
        let before_sleep = before_sleep(halt, &told);
        if let Some(before) = before_sleep {
            self.before_sleep.record(before);
        }
        // Of a poll that failed KVM always says how long it was, because it then grows or shrinks it.
        if let Some(polled) = halt.change.map(|change| Nanos(u64::from(change.old))).filter(|poll| poll.0 > 0) {
            self.misses += 1;
            let polled = polled.min(before_sleep.unwrap_or(told.length));
            self.poll_miss = self.poll_miss.saturating_add(polled.0);
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &HaltCell) {
        self.caught.merge(&other.caught);
        self.slept.merge(&other.slept);
        self.untold.merge(&other.untold);
        self.invalid += other.invalid;
        self.poll_hit = self.poll_hit.saturating_add(other.poll_hit);
        self.poll_miss = self.poll_miss.saturating_add(other.poll_miss);
        self.misses += other.misses;
        self.before_sleep.merge(&other.before_sleep);
        self.late.merge(&other.late);
        self.changes = (self.changes.0 + other.changes.0, self.changes.1 + other.changes.1);
        self.cut += other.cut;
    }

    /// Whether KVM told of this vCPU's halts.
    pub fn is_told(&self) -> bool {
        self.caught.gaps.count + self.slept.gaps.count > 0
    }

    /// Its halts.
    pub fn halts(&self) -> u64 {
        self.gaps().count
    }

    /// Idle exits that did not become a halt, because something was pending.
    pub fn at_once(&self) -> u64 {
        if self.is_told() { self.untold.gaps.count } else { 0 }
    }

    /// The gaps of all its halts.
    pub fn gaps(&self) -> Lengths {
        self.together(|waits| &waits.gaps)
    }

    /// The wake-up latencies of all its halts.
    pub fn latencies(&self) -> Lengths {
        self.together(|waits| &waits.latencies)
    }

    /// Halts whose gap includes the way back to the CPU.
    pub fn inexact(&self) -> u64 {
        if self.is_told() { self.caught.inexact + self.slept.inexact } else { self.untold.inexact }
    }

    fn together(&self, of: impl Fn(&Waits) -> &Lengths) -> Lengths {
        if !self.is_told() {
            return of(&self.untold).clone();
        }
        let mut lengths = of(&self.caught).clone();
        lengths.merge(of(&self.slept));
        lengths
    }

    /// Its gaps by length.
    pub fn buckets(&self) -> Vec<GapBucket> {
        let bounds = GAP_BOUNDS.iter().map(|bound| Some(*bound)).chain([None]);
        let mut buckets: Vec<GapBucket> = bounds.map(|up_to| GapBucket { up_to, caught: 0, slept: 0 }).collect();
        let slept = if self.is_told() { &self.slept } else { &self.untold };
        for (waits, is_caught) in [(&self.caught, true), (slept, false)] {
            for (low, _, count) in waits.gaps.histogram.counts().buckets() {
                let at = GAP_BOUNDS.iter().position(|bound| low <= bound.0).unwrap_or(GAP_BOUNDS.len());
                let cell = &mut buckets[at];
                *(if is_caught { &mut cell.caught } else { &mut cell.slept }) += count;
            }
        }
        buckets
    }
}

/// From KVM's beginning of the halt until the thread slept.
pub(crate) fn before_sleep(halt: &Halt, told: &Told) -> Option<Nanos> {
    let began = halt.end.as_nanos().saturating_sub(told.length.0);
    halt.asleep.map(|asleep| Nanos(asleep.as_nanos().saturating_sub(began)))
}

impl Halts {
    /// Adds one halt.
    pub fn absorb(&mut self, halt: &Halt) {
        self.vcpus.entry(halt.who).or_default().absorb(halt);
        if let Some(told) = halt.told {
            self.settings.entry(halt.who.vm).or_default().absorb(halt.who, &told, halt.change);
        }
    }

    /// Notes an idle exit that the recording's end or a loss cut off.
    pub fn absorb_cut(&mut self, who: Who) {
        self.vcpus.entry(who).or_default().cut += 1;
    }

    /// Looks for a guest's write to MSR_KVM_POLL_CONTROL.
    #[inline]
    pub(crate) fn absorb_detail(&mut self, detail: &Detail) {
        let control = detail.kind == DetailKind::Msr && detail.key == u64::from(PollControl::MSR) && detail.write;
        self.guest_polls |= control && detail.value & 1 == 0;
    }

    /// Gives vCPUs the names that were found out later.
    pub(crate) fn complete(&mut self, named: impl Fn(Who) -> Who) {
        for (who, cell) in std::mem::take(&mut self.vcpus) {
            self.vcpus.entry(named(who)).or_default().merge(&cell);
        }
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &Halts) {
        self.guest_polls |= other.guest_polls;
        for (who, cell) in &other.vcpus {
            self.vcpus.entry(*who).or_default().merge(cell);
        }
        for (vm, settings) in &other.settings {
            self.settings.entry(*vm).or_default().merge(settings);
        }
    }

    /// All vCPUs together.
    pub fn all(&self) -> HaltCell {
        let mut all = HaltCell::default();
        self.vcpus.values().for_each(|cell| all.merge(cell));
        all
    }
}
