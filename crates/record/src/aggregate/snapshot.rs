//! What has been counted up to a moment.
//!
//! ```text
//! Snapshot ─┬─ lanes:  CountedVcpu (process, thread) ─► vCPU, poll, the exit that is open
//!           ├─ counts: CountKey (lane, cause, subject) ─► CountAndTime: how many, how long, a histogram
//!           └─ lost
//! ```

use exitscope_model::{ExitCode, ExitParts, SubjectKind, TimePart};
use exitscope_stats::CoarseBuckets;
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// Everything that was counted since the beginning. Numbers only grow, until [`Aggregation::forget_ended`] drops what has
/// ended.
///
/// [`Aggregation::forget_ended`]: super::Aggregation::forget_ended
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When counting began: CLOCK_MONOTONIC, nanoseconds.
    pub began: u64,
    /// Up to when it counts.
    pub at: u64,
    /// What runs virtual CPUs.
    pub lanes: BTreeMap<CountedVcpu, CountedVcpuState>,
    /// What they did.
    pub counts: BTreeMap<CountKey, CountAndTime>,
    /// Exits, halts or events that are in no count: there was no room for them.
    pub lost: u64,
    /// Events of the scheduler that its programs were not run for: a thread's time without a CPU, up to its next such event, is
    /// counted as what it did before.
    pub missed: u64,
    /// What counting costs where exits happen, if it was measured ([`measure_programs`](crate::measure_programs)):
    /// only BPF programs can be.
    pub cost: Option<CountingCost>,
}

/// What runs one virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedVcpu {
    /// The process, which is the VM.
    pub process: u32,
    /// Who runs the virtual CPU.
    pub runner: VcpuRunner,
}

/// Who runs a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VcpuRunner {
    /// This thread.
    Thread(u32),
    /// Any thread: events name the virtual CPU (powerpc, where one thread records for a whole virtual core).
    Vcpu(u32),
}

/// What is known of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedVcpuState {
    /// The virtual CPU's number, if an event said so. Most VMMs also have it in the thread's name.
    pub vcpu: Option<u32>,
    /// How long KVM polls when it halts, in nanoseconds, if KVM has changed that since.
    pub poll: Option<u32>,
    /// Since when it is known, in nanoseconds (CLOCK_MONOTONIC): its first event.
    pub first: u64,
    /// Up to when it counts: the reading; of a thread that is gone, when it left its last CPU, if the scheduler said so.
    pub until: u64,
    /// The exit that it is in, or was in when it ended.
    pub open: Option<OpenExit>,
    /// Time since counting began that is of no exit, and not in the guest. Where `kvm_exit` never fires: in `KVM_RUN`, of which
    /// nothing says what else is the guest's and what the kernel's.
    pub outside: ExitParts,
    /// What came of its halts since counting began.
    pub wake_ups: HaltWakeUps,
    /// Events that were looked at for it.
    pub events: u64,
    /// It is gone. Its counts are final.
    pub ended: bool,
}

impl CountedVcpuState {
    /// What it has spent in no exit since it was as in `earlier`.
    pub fn outside_since(&self, earlier: &CountedVcpuState) -> ExitParts {
        each_part(self.outside, earlier.outside, u64::saturating_sub)
    }
}

/// How long vCPUs took to be back in their guests once something had woken them.
///
/// Of a halt whose thread slept, from `sched_wakeup`; of one that a poll caught, from `kvm_vcpu_wakeup`, which comes at once. Up to
/// the entry; where `kvm_entry` never fires, to `kvm_vcpu_wakeup`, so that halts that were caught take no time. All zero where the
/// scheduler does not tell of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HaltWakeUps {
    /// Halts of which that is known.
    pub seen: u64,
    /// How long they took together, in nanoseconds.
    pub latency: u64,
    /// Halts whose thread slept, and was not seen to be woken.
    pub unseen: u64,
}

impl HaltWakeUps {
    /// Adds others.
    pub fn add(&mut self, other: &HaltWakeUps) {
        let HaltWakeUps { seen, latency, unseen } = other;
        self.seen += seen;
        self.latency += latency;
        self.unseen += unseen;
    }

    /// What came since `earlier`, which is a former value of the same.
    pub fn since(&self, earlier: &HaltWakeUps) -> HaltWakeUps {
        HaltWakeUps {
            seen: self.seen.saturating_sub(earlier.seen),
            latency: self.latency.saturating_sub(earlier.latency),
            unseen: self.unseen.saturating_sub(earlier.unseen),
        }
    }
}

/// An exit that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenExit {
    /// The exit reason.
    pub code: ExitCode,
    /// Since when: CLOCK_MONOTONIC, nanoseconds.
    pub since: u64,
    /// What of it, up to the reading, is no cost as far as is known now.
    pub not_cost: ExitParts,
}

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountKey {
    /// The vCPU.
    pub lane: CountedVcpu,
    /// What it was.
    pub cause: CountedKind,
    /// About what, if an event said so.
    pub subject: Option<CountedSubject>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedKind {
    /// Exits for this reason: those of which a recording makes rows. An exit that is still open is counted, and has no
    /// length yet.
    Exit(ExitCode),
    /// On back ends that fire no `kvm_exit`: what the kernel did for the guest without leaving for user space. It has no
    /// length, as only one event tells of it.
    InKernel,
    /// Halts that ended (`kvm_vcpu_wakeup`); their lengths are from the poll until the thread runs again. On hardware
    /// they lie in exits, on other back ends there is no exit around them.
    Halt {
        /// The thread slept, else polling was enough.
        slept: bool,
        /// The wake-up was for something.
        valid: bool,
    },
}

/// What an exit was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedSubject {
    /// Kind of thing.
    pub kind: SubjectKind,
    /// Whether the guest wrote.
    pub write: bool,
    /// Which: port, MSR, hypercall, CPUID leaf, …; of memory, the address of its page of 4 KiB.
    pub key: u64,
}

/// How many, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountAndTime {
    /// Number of exits.
    pub count: u64,
    /// How many of them user space answered.
    pub to_user: u64,
    /// How long all took together, in nanoseconds; those without an end are not in it.
    pub total: u64,
    /// What of that is no cost: polling, halted, steal, …; of halts, nothing.
    pub not_cost: ExitParts,
    /// Lengths, halts included, in nanoseconds.
    pub lengths: CoarseBuckets,
}

/// What counting costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountingCost {
    /// Runs of programs that were measured.
    pub runs: u64,
    /// Their time, in nanoseconds: that of the programs alone, without the kernel's way to them.
    pub ns: u64,
}

impl CountAndTime {
    /// Time that the exits cost: in the kernel and in user space.
    pub fn cost(&self) -> u64 {
        self.total.saturating_sub(self.not_cost.sum().0)
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &CountAndTime) {
        let CountAndTime { count, to_user, total, not_cost, lengths } = other;
        self.count += count;
        self.to_user += to_user;
        self.total += total;
        self.not_cost.merge(not_cost);
        self.lengths.merge(lengths);
    }

    /// What came since `earlier`, which is a former value of the same.
    pub fn since(&self, earlier: &CountAndTime) -> CountAndTime {
        CountAndTime {
            count: self.count.saturating_sub(earlier.count),
            to_user: self.to_user.saturating_sub(earlier.to_user),
            total: self.total.saturating_sub(earlier.total),
            not_cost: each_part(self.not_cost, earlier.not_cost, u64::saturating_sub),
            lengths: self.lengths.since(&earlier.lengths),
        }
    }

    /// At least as much as `other`, in everything.
    pub(crate) fn max_with(&mut self, other: &CountAndTime) {
        let CountAndTime { count, to_user, total, not_cost, lengths } = other;
        self.count = self.count.max(*count);
        self.to_user = self.to_user.max(*to_user);
        self.total = self.total.max(*total);
        self.not_cost = each_part(self.not_cost, *not_cost, u64::max);
        self.lengths.raise(lengths);
    }
}

/// What `of` makes of each two parts.
fn each_part(one: ExitParts, other: ExitParts, of: impl Fn(u64, u64) -> u64) -> ExitParts {
    TimePart::OF_EXITS
        .iter()
        .fold(ExitParts::ZERO, |parts, &part| parts.with(part, Nanos(of(one.get(part).0, other.get(part).0))))
}
