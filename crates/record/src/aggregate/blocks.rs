//! Where a thread's time goes that is no cost, as far as events tell while they are counted: the rule of the assembler
//! (`lane/blocks.rs` of the model), in the few numbers that a BPF program keeps.
//!
//! ```text
//! sched_switch: out ── asleep: SLEPT, STOPPED, TOLD or USER ── sched_wakeup ── STEAL ── sched_switch: back
//! kvm_vcpu_wakeup:  POLLING += what of ns ran and was a poll, TOLD += SLEPT: it was a halt
//! kvm_entry:        the halt's wake-up latency += from sched_wakeup (of a halt that was caught: kvm_vcpu_wakeup) to here
//! ```
//!
//! What is left out: a sleep whose wake-up was not seen ends when the thread runs again, and its latency is not known. Of a vCPU that was
//! kicked and then halted in KVM_RUN, as much of its sleep as the halt was long is the halt's.

use super::snapshot::HaltWakeUps;
use exitscope_model::codes::UserStay;
use exitscope_model::{ExitCode, ExitParts, TimePart};
use exitscope_units::Nanos;

/// What is added up apart: numbers of an array.
pub const POLLING: usize = 0;
/// Asleep in a halt that KVM told of.
pub const TOLD: usize = 1;
/// Asleep in `KVM_RUN`; the exit's reason tells why, unless KVM does.
pub const SLEPT: usize = 2;
/// Asleep outside `KVM_RUN`, and the guest has asked for nothing.
pub const STOPPED: usize = 3;
pub const STEAL: usize = 4;
/// Asleep outside `KVM_RUN` on behalf of the guest, which is cost: added up and not looked at.
pub const USER: usize = 5;
pub const SUMS: usize = 6;
/// How many of them are counted.
pub const COUNTED: usize = 5;

/// Time by what it was.
pub type Spent = [u64; SUMS];

/// Which parts these are of an exit.
pub fn beside_cost(spent: &[u64], code: ExitCode) -> ExitParts {
    let asleep = if code.is_page_fault() { TimePart::Memory } else { TimePart::Halted };
    let slept = match code.is_halt() || code.halts_if_it_sleeps() || code.is_page_fault() {
        true => spent[SLEPT],
        false => 0,
    };
    parts(spent).with(asleep, Nanos(spent[TOLD].saturating_add(slept)))
}

/// Which parts these are outside exits. `is_software`: in `KVM_RUN`, else in the guest.
pub fn outside(spent: &[u64], is_software: bool) -> ExitParts {
    match is_software {
        true => parts(spent).with(TimePart::Halted, Nanos(spent[TOLD].saturating_add(spent[SLEPT]))),
        // KVM halts in exits only: one is missing.
        false => ExitParts::ZERO.with(TimePart::Steal, Nanos(spent[STEAL])),
    }
}

fn parts(spent: &[u64]) -> ExitParts {
    let named = [(TimePart::Polling, POLLING), (TimePart::Stopped, STOPPED), (TimePart::Steal, STEAL)];
    named.iter().fold(ExitParts::ZERO, |parts, &(part, at)| parts.with(part, Nanos(spent[at])))
}

/// What a thread does, and the halt in hand.
#[derive(Clone, Copy, Debug)]
pub struct ThreadBlock {
    /// From when on: the exit, `KVM_RUN`, or the halt before.
    from: u64,
    /// Time without a CPU since then.
    off: u64,
    /// How long KVM has polled, if it said so since then.
    polled: Option<u64>,
    /// Without a CPU: what that is, and since when.
    pub out: Option<(usize, u64)>,
    /// What a sleep is.
    asleep: usize,
    /// When a sleep was last seen to end.
    woken: Option<u64>,
    /// What woke the vCPU came then, of a halt that is over, and it has not entered its guest since.
    enters: Option<u64>,
    /// What came of halts.
    pub wake_ups: HaltWakeUps,
}

impl Default for ThreadBlock {
    fn default() -> ThreadBlock {
        ThreadBlock {
            from: 0,
            off: 0,
            polled: None,
            out: None,
            asleep: SLEPT,
            woken: None,
            enters: None,
            wake_ups: HaltWakeUps::default(),
        }
    }
}

impl ThreadBlock {
    /// An exit or `KVM_RUN` begins.
    pub fn begin(&mut self, at: u64) {
        (self.from, self.off, self.polled, self.enters) = (at, 0, None, None);
        self.in_kernel();
    }

    /// Nobody knows when it has a CPU, nor what it does.
    pub fn lose(&mut self) {
        *self = ThreadBlock { wake_ups: self.wake_ups, ..ThreadBlock::default() };
    }

    /// A sleep is KVM's from now on.
    pub fn in_kernel(&mut self) {
        self.asleep = SLEPT;
    }

    /// User space has the vCPU: what its sleep is, the reason tells.
    pub fn in_user_space(&mut self, reason: u32, errno: i32) {
        self.asleep = match UserStay::of(reason, errno) {
            UserStay::Kicked => STOPPED,
            UserStay::Halted => TOLD,
            UserStay::Served => USER,
        };
    }

    /// The thread has no CPU from now on.
    pub fn goes_out(&mut self, at: u64, sleeps: bool, spent: &mut Spent) {
        self.comes_back(at, spent);
        self.out = Some((if sleeps { self.asleep } else { STEAL }, at));
    }

    pub fn is_woken(&mut self, at: u64, spent: &mut Spent) {
        if self.out.is_some_and(|(what, _)| what != STEAL) {
            self.comes_back(at, spent);
            self.out = Some((STEAL, at));
            self.woken = Some(at);
        }
    }

    /// The thread runs.
    pub fn comes_back(&mut self, at: u64, spent: &mut Spent) {
        if let Some((what, since)) = self.out.take() {
            let length = at.saturating_sub(since);
            spent[what] += length;
            self.off += length;
        }
    }

    /// KVM says how long it has polled.
    pub fn polled(&mut self, old: u32) {
        self.polled = Some(old.into());
    }

    /// A halt of `ns` is over. `polls`: KVM may have polled, if it said nothing since then.
    pub fn end_halt(&mut self, at: u64, ns: u64, waited: bool, polls: bool, spent: &mut Spent) {
        let ran = ns.min(at.saturating_sub(self.from)).saturating_sub(self.off);
        let poll = match (waited, self.polled) {
            (false, Some(0)) => 0,
            (false, None) if !polls => 0,
            (false, _) => ran,
            (true, old) => old.unwrap_or(0).min(ran),
        };
        spent[POLLING] += poll;
        spent[TOLD] += std::mem::take(&mut spent[SLEPT]);
        // User space had the vCPU, as far as was told: it has entered KVM_RUN since then.
        if self.asleep == STOPPED {
            let slept = if waited { spent[STOPPED].min(ns.saturating_sub(poll)) } else { 0 };
            spent[STOPPED] -= slept;
            spent[TOLD] += slept;
            self.in_kernel();
        }
        (self.from, self.off, self.polled) = (at, 0, None);
    }

    /// A halt of `ns` is over, as above: what woke the vCPU came while the thread slept, or just now.
    pub fn end_wait(&mut self, at: u64, ns: u64, waited: bool) {
        let begin = at.saturating_sub(ns);
        self.enters = if waited { self.woken.filter(|woken| *woken >= begin) } else { Some(at) };
        self.wake_ups.unseen += u64::from(self.enters.is_none());
    }

    /// The vCPU enters its guest, or nothing tells when it does and a halt is over.
    pub fn enters(&mut self, at: u64) {
        if let Some(woken) = self.enters.take() {
            self.wake_ups.seen += 1;
            self.wake_ups.latency += at.saturating_sub(woken);
        }
    }
}

/// Up to when a thread counts that has no CPU for the reason, and since when, that `out` says: until `at`, unless it is gone. The
/// last that a thread does is to leave its CPU.
pub fn end(at: u64, out: Option<(usize, u64)>, is_gone: bool) -> u64 {
    out.filter(|_| is_gone).map_or(at, |(_, since)| since)
}

/// What was spent, with what goes on at `at`.
pub fn up_to(at: u64, mut spent: Spent, out: Option<(usize, u64)>) -> Spent {
    if let Some((what, since)) = out {
        spent[what] += at.saturating_sub(since);
    }
    spent
}
