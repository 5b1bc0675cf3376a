//! What vCPUs do when they have nothing to do: gaps, polls, sleeps, and how long waking up takes.
//!
//! ```text
//! Halt{begin, woken, entered, …} ─► Halts.absorb ─┬─► by vCPU: gaps, latencies, CPU that polls burnt
//!                                                 └─► by VM: the settings that KVM's decisions show
//! ```
//!
//! A *gap* is from the exit with which a vCPU said that it has nothing to do until something woke it: known exactly of
//! halts that a poll caught, and of those that slept only where the trace has `sched_wakeup`. The *wake-up latency* is
//! from there to the entry into the guest.

use crate::{ClockCheck, DurationStats, PollSettings};
use exitscope_model::{
    Halt, HaltRow, Subject, SubjectKind, TraceInfo, VcpuIdentity, VcpuWakeup, WhoRow, is_spared_by_polls, poll_limit,
};
use exitscope_policy::guest_halt_poll::PollControl;
use exitscope_units::{Nanos, VmId};
use std::collections::BTreeMap;

/// Halts of one way to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltEndStats {
    /// From the exit to what woke the vCPU; where that is unknown ([`HaltEndStats::inexact`]), to the halt's end.
    pub gaps: DurationStats,
    /// Halts that slept and whose wake-up was not recorded: their gaps include the way back to the CPU.
    pub inexact: u64,
    /// From what woke the vCPU to its entry.
    pub latencies: DurationStats,
}

/// The halts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltStats {
    /// Those that KVM ended without giving the CPU away.
    pub successful_polls: HaltEndStats,
    /// Those that slept.
    pub blocked: HaltEndStats,
    /// Idle exits of which KVM told no halt, in a recording in which it told of none.
    pub untold: HaltEndStats,
    /// Idle exits of which KVM told no halt, in a recording in which it told of others: something was pending at once.
    pub at_once: u64,
    /// Whether KVM told of halts, of whichever vCPU.
    has_wakeups: bool,
    /// Wake-ups that nothing came of (s390).
    pub invalid: u64,
    /// Those that a sibling ended by `KVM_HC_KICK_CPU`: waits for a paravirtual spinlock.
    pub kicked: u64,
    /// Those in which a sibling sent an IPI that Linux spares a vCPU that polls itself, as far as exits tell of IPIs.
    pub ipis: u64,
    /// Successful polls, and their CPU time.
    pub hits: u64,
    /// In nanoseconds.
    pub poll_hit: u64,
    /// Failed polls, as far as KVM traced its polls.
    pub misses: u64,
    /// Their CPU time, in nanoseconds.
    pub poll_miss: u64,
    /// From KVM's beginning of a halt until the thread slept: what polls that failed took at most.
    pub before_sleep: DurationStats,
    /// Wake-up latencies of those that slept shorter than [`SHORT_SLEEP`], and of those that slept [`LONG_SLEEP`] or longer.
    pub after_short: DurationStats,
    /// See there.
    pub after_long: DurationStats,
    /// How long after the end of its poll something woke the vCPU that was caught nevertheless, before its thread slept.
    pub late_caught: DurationStats,
    /// The same of those that slept.
    pub late_slept: DurationStats,
    /// Changes of the poll that KVM traced: up, down.
    pub changes: (u64, u64),
    /// Idle exits that the recording's end or a loss cut off.
    pub cut: u64,
    /// Halts that user space does (`KVM_EXIT_HLT`): KVM neither polls for them nor tells of them.
    pub in_user_space: u64,
}

/// In so short a sleep of a thread its CPU gets into no deep idle state: cpuidle expects more of those than they take to leave
/// (target residencies of hundreds of microseconds: drivers/idle/intel_idle.c).
pub const SHORT_SLEEP: Nanos = Nanos(100_000);

/// In so long a sleep an idle CPU gets into its deepest state, where nobody forbids that.
pub const LONG_SLEEP: Nanos = Nanos(2_000_000);

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
    pub vcpus: BTreeMap<VcpuIdentity, HaltStats>,
    /// What KVM's decisions show of its settings, by VM.
    pub settings: BTreeMap<VmId, PollSettings>,
    /// Whether a guest switched the host's polling off, because it polls itself.
    pub guest_polls: bool,
    /// Whether they are as long as KVM says.
    pub clock: ClockCheck,
}

/// When something woke the vCPU, counted from the halt's begin, and whether that is exact.
pub(crate) fn gap(halt: &Halt) -> (Nanos, bool) {
    let caught = halt.vcpu_wakeup.is_some_and(|wakeup| !wakeup.waited);
    let until = halt.woken.filter(|_| !caught).unwrap_or(halt.end);
    (until.since(halt.begin).unwrap_or_default(), caught || halt.woken.is_some())
}

/// From what woke the vCPU to its entry.
pub(crate) fn latency(halt: &Halt) -> Option<Nanos> {
    let (gap, exact) = gap(halt);
    let whole = halt.entered?.since(halt.begin)?;
    exact.then(|| Nanos(whole.0.saturating_sub(gap.0)))
}

impl HaltEndStats {
    fn absorb(&mut self, halt: &Halt) {
        let (gap, exact) = gap(halt);
        self.gaps.record(gap);
        self.inexact += u64::from(!exact);
        if let Some(latency) = latency(halt) {
            self.latencies.record(latency);
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &HaltEndStats) {
        let HaltEndStats { gaps, inexact, latencies } = other;
        self.gaps.merge(gaps);
        self.inexact += inexact;
        self.latencies.merge(latencies);
    }
}

/// How KVM polled in one halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poll {
    /// How long the poll lasted.
    pub length: Nanos,
    /// Whether it was successful.
    pub caught: bool,
}

/// How KVM polled in a halt, the one rule of views and replays; `last` is the poll after the vCPU's last change. A poll is
/// successful if the thread did not sleep, and lasts no longer than its limit, though KVM looks once more after it (Linux,
/// virt/kvm/kvm_main.c, kvm_vcpu_halt and update_halt_poll_stats). Before the first change, only those that were caught are
/// known to have been polled for.
pub(crate) fn poll(halt: &Halt, last: Option<u32>) -> Option<Poll> {
    let wakeup = halt.vcpu_wakeup?;
    let limit = poll_limit(&wakeup, halt.change, last);
    let most = match (wakeup.waited, limit) {
        (_, Some(0)) | (true, None) => return None,
        (_, Some(limit)) => Nanos(u64::from(limit)),
        (false, None) if last.is_some() => return None,
        (false, None) => wakeup.length,
    };
    // Somebody else may have wanted the CPU before the limit: then the thread slept sooner.
    let until = if wakeup.waited { before_sleep(halt, &wakeup).unwrap_or(wakeup.length) } else { wakeup.length };
    Some(Poll { length: most.min(until), caught: !wakeup.waited })
}

/// How long after the end of its poll something woke a vCPU, if it did not come in time.
pub(crate) fn late(gap: Nanos, limit: Nanos) -> Option<Nanos> {
    gap.0.checked_sub(limit.0).filter(|late| *late > 0).map(Nanos)
}

/// From KVM's beginning of a halt of which it told until something woke the vCPU.
pub(crate) fn gap_of_kvm(halt: &Halt, wakeup: &VcpuWakeup) -> Nanos {
    let whole = halt.end.since(halt.begin).unwrap_or_default();
    // What lies between the exit and KVM's beginning.
    let before = whole.0.saturating_sub(wakeup.length.0);
    Nanos(gap(halt).0.0.saturating_sub(before)).min(wakeup.length)
}

/// Whether wake-up latencies are told where `unknown` of so many halts have none: no more than one in twenty.
pub fn are_known(halts: u64, unknown: u64) -> bool {
    unknown.saturating_mul(20) <= halts
}

impl HaltStats {
    /// Adds a halt of a vCPU whose poll is `last` since its last change.
    fn absorb(&mut self, halt: &Halt, last: Option<u32>) {
        self.kicked += u64::from(halt.kicked);
        self.ipis += u64::from(halt.ipi.is_some_and(is_spared_by_polls));
        let Some(wakeup) = halt.vcpu_wakeup else {
            return self.untold.absorb(halt);
        };
        self.has_wakeups = true;
        self.invalid += u64::from(!wakeup.valid);
        if let Some(change) = halt.change {
            let way = if change.grow { &mut self.changes.0 } else { &mut self.changes.1 };
            *way += 1;
        }
        let waits = if wakeup.waited { &mut self.blocked } else { &mut self.successful_polls };
        waits.absorb(halt);
        let lateness = if wakeup.waited { &mut self.late_slept } else { &mut self.late_caught };
        let limit = poll_limit(&wakeup, halt.change, last).map(|limit| Nanos(u64::from(limit)));
        if let Some(late) = limit.and_then(|limit| late(gap_of_kvm(halt, &wakeup), limit)) {
            lateness.record(late);
        }
        if let Some(before) = before_sleep(halt, &wakeup).filter(|_| wakeup.waited) {
            self.before_sleep.record(before);
        }
        self.absorb_sleep(halt);
        let Some(Poll { length, caught }) = poll(halt, last) else { return };
        let (count, time) = match caught {
            true => (&mut self.hits, &mut self.poll_hit),
            false => (&mut self.misses, &mut self.poll_miss),
        };
        *count += 1;
        *time = time.saturating_add(length.0);
    }

    /// Adds the way back from a sleep.
    fn absorb_sleep(&mut self, halt: &Halt) {
        let slept = halt.asleep.and_then(|asleep| halt.woken?.since(asleep));
        if let (Some(slept), Some(latency)) = (slept, latency(halt)) {
            if slept < SHORT_SLEEP {
                self.after_short.record(latency);
            } else if slept >= LONG_SLEEP {
                self.after_long.record(latency);
            }
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &HaltStats) {
        let HaltStats {
            successful_polls,
            blocked,
            untold,
            at_once,
            has_wakeups,
            invalid,
            kicked,
            ipis,
            hits,
            poll_hit,
            misses,
            poll_miss,
            before_sleep,
            after_short,
            after_long,
            late_caught,
            late_slept,
            changes,
            cut,
            in_user_space,
        } = other;
        self.successful_polls.merge(successful_polls);
        self.blocked.merge(blocked);
        self.untold.merge(untold);
        self.at_once += at_once;
        self.has_wakeups |= *has_wakeups;
        self.invalid += invalid;
        self.kicked += kicked;
        self.ipis += ipis;
        self.hits += hits;
        self.poll_hit = self.poll_hit.saturating_add(*poll_hit);
        self.misses += misses;
        self.poll_miss = self.poll_miss.saturating_add(*poll_miss);
        self.before_sleep.merge(before_sleep);
        self.after_short.merge(after_short);
        self.after_long.merge(after_long);
        self.late_caught.merge(late_caught);
        self.late_slept.merge(late_slept);
        self.changes = (self.changes.0 + changes.0, self.changes.1 + changes.1);
        self.cut += cut;
        self.in_user_space += in_user_space;
    }

    /// Whether kvm_vcpu_wakeup was recorded.
    pub fn has_wakeups(&self) -> bool {
        self.has_wakeups
    }

    /// The recording is over: what KVM told of no vCPU's idle exits is known.
    fn end(&mut self, has_wakeups: bool) {
        self.has_wakeups = has_wakeups;
        if has_wakeups {
            self.at_once += std::mem::take(&mut self.untold).gaps.count;
        }
    }

    /// Its halts.
    pub fn halts(&self) -> u64 {
        self.successful_polls.gaps.count + self.blocked.gaps.count + self.untold.gaps.count
    }

    /// The gaps of all its halts.
    pub fn gaps(&self) -> DurationStats {
        self.together(|waits| &waits.gaps)
    }

    /// The wake-up latencies of all its halts.
    pub fn latencies(&self) -> DurationStats {
        self.together(|waits| &waits.latencies)
    }

    /// Halts whose gap includes the way back to the CPU.
    pub fn inexact(&self) -> u64 {
        self.successful_polls.inexact + self.blocked.inexact + self.untold.inexact
    }

    /// Whether it tells wake-up latencies.
    pub fn is_exact(&self) -> bool {
        are_known(self.halts(), self.inexact())
    }

    /// As a row; `polls_traced`: KVM traced its polls. Lengths are held as `of` makes them.
    fn row<L>(&self, who: WhoRow, polls_traced: bool, of: impl Fn(&DurationStats) -> L) -> HaltRow<L> {
        let wakeup = self.has_wakeups();
        HaltRow {
            who,
            has_wakeup_events: wakeup,
            halts: self.halts(),
            pending: self.at_once,
            not_blocked: wakeup.then_some(self.successful_polls.gaps.count),
            blocked: wakeup.then_some(self.blocked.gaps.count),
            invalid: self.invalid,
            kicked: self.kicked,
            unfinished: self.cut,
            in_user_space: self.in_user_space,
            gaps: of(&self.gaps()),
            inexact_gaps: self.inexact(),
            latency: of(&self.latencies()),
            latency_not_blocked: of(&self.successful_polls.latencies),
            latency_blocked: of(&self.blocked.latencies),
            successful_polls: self.hits,
            poll_success_ns: self.poll_hit,
            poll_fail_ns: polls_traced.then_some(self.poll_miss),
            failed_polls: polls_traced.then_some(self.misses),
            before_block_ns: (self.before_sleep.count > 0).then_some(self.before_sleep.sum),
            grown: self.changes.0,
            shrunk: self.changes.1,
        }
    }

    fn together(&self, of: impl Fn(&HaltEndStats) -> &DurationStats) -> DurationStats {
        let mut lengths = of(&self.successful_polls).clone();
        lengths.merge(of(&self.blocked));
        lengths.merge(of(&self.untold));
        lengths
    }

    /// The gaps of halts that slept, or that nothing says this of.
    pub fn gaps_not_caught(&self) -> DurationStats {
        let mut gaps = self.blocked.gaps.clone();
        gaps.merge(&self.untold.gaps);
        gaps
    }

    /// Its gaps by length.
    pub fn buckets(&self) -> Vec<GapBucket> {
        let bounds = GAP_BOUNDS.iter().map(|bound| Some(*bound)).chain([None]);
        let mut buckets: Vec<GapBucket> = bounds.map(|up_to| GapBucket { up_to, caught: 0, slept: 0 }).collect();
        for (gaps, is_caught) in [(&self.successful_polls.gaps, true), (&self.gaps_not_caught(), false)] {
            for (low, _, count) in gaps.histogram.counts().buckets() {
                let at = GAP_BOUNDS.iter().position(|bound| low <= bound.0).unwrap_or(GAP_BOUNDS.len());
                let cell = &mut buckets[at];
                *(if is_caught { &mut cell.caught } else { &mut cell.slept }) += count;
            }
        }
        buckets
    }
}

/// From KVM's beginning of the halt until the thread slept.
pub(crate) fn before_sleep(halt: &Halt, wakeup: &VcpuWakeup) -> Option<Nanos> {
    let began = halt.end.as_nanos().saturating_sub(wakeup.length.0);
    halt.asleep.map(|asleep| Nanos(asleep.as_nanos().saturating_sub(began)))
}

impl Halts {
    /// Adds one halt.
    pub fn absorb(&mut self, halt: &Halt) {
        self.clock.absorb(halt);
        let cell = self.vcpus.entry(halt.who).or_default();
        let Some(wakeup) = halt.vcpu_wakeup else { return cell.absorb(halt, None) };
        let settings = self.settings.entry(halt.who.vm).or_default();
        cell.absorb(halt, settings.poll_of(halt.who));
        settings.absorb(halt.who, &wakeup, halt.change);
    }

    /// Notes an idle exit that the recording's end or a loss cut off.
    pub fn absorb_cut(&mut self, who: VcpuIdentity) {
        self.vcpus.entry(who).or_default().cut += 1;
    }

    /// Notes an exit for a halt that user space does.
    pub fn absorb_in_user_space(&mut self, who: VcpuIdentity) {
        self.vcpus.entry(who).or_default().in_user_space += 1;
    }

    /// Looks for a guest's write to MSR_KVM_POLL_CONTROL.
    #[inline]
    pub(crate) fn absorb_detail(&mut self, detail: &Subject) {
        let control = detail.kind == SubjectKind::Msr && detail.key == u64::from(PollControl::MSR) && detail.write;
        self.guest_polls |= control && detail.value & 1 == 0;
    }

    /// The recording is over: gives vCPUs the names that were found out later.
    pub fn end(&mut self, named: impl Fn(VcpuIdentity) -> VcpuIdentity) {
        let wakeup = self.vcpus.values().any(HaltStats::has_wakeups);
        for (who, mut cell) in std::mem::take(&mut self.vcpus) {
            cell.end(wakeup);
            self.vcpus.entry(named(who)).or_default().merge(&cell);
        }
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &Halts) {
        let Halts { vcpus, settings, guest_polls, clock } = other;
        self.guest_polls |= *guest_polls;
        self.clock.merge(clock);
        for (who, cell) in vcpus {
            self.vcpus.entry(*who).or_default().merge(cell);
        }
        for (vm, settings) in settings {
            self.settings.entry(*vm).or_default().merge(settings);
        }
    }

    /// All vCPUs together.
    pub fn all(&self) -> HaltStats {
        let mut all = HaltStats::default();
        self.vcpus.values().for_each(|cell| all.merge(cell));
        all
    }

    /// A row of each vCPU, and one of all together; lengths are held as `of` makes them.
    pub fn rows<L>(&self, info: &TraceInfo, of: impl Fn(&DurationStats) -> L) -> (Vec<HaltRow<L>>, HaltRow<L>) {
        let polls_traced = self.settings.values().any(|settings| settings.changes > 0);
        let vcpus = self.vcpus.iter().map(|(who, cell)| cell.row(WhoRow::of(*who, info), polls_traced, &of));
        (vcpus.collect(), self.all().row(WhoRow::default(), polls_traced, &of))
    }
}
