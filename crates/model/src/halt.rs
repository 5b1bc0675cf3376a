//! Halts: a vCPU has nothing to do, and waits for what wakes it.
//!
//! ```text
//!  exit (hlt)        sched_switch        sched_wakeup       sched_switch   kvm_halt_poll_ns    kvm_entry
//!     │   KVM polls       │     asleep        │  waits for CPU    │        kvm_vcpu_wakeup         │
//!   begin ───────────── asleep ───────────── woken ───────────────┴────────────── end ──────── entered
//! ```
//!
//! On powerpc, where a ceded vCPU goes on entering with its virtual core, the halts are the virtual cores'. A wake-up
//! that comes while KVM still polls leaves out what is between `asleep` and `woken`. An exit may hold several halts: one
//! that nothing came of is followed by the next.

use crate::Who;
use exitscope_units::{Moment, Nanos};

/// One halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt {
    /// Whose.
    pub who: Who,
    /// When the vCPU left its guest with nothing to do; of further halts in one exit, when KVM began them.
    pub begin: Moment,
    /// When its thread gave its CPU away, from scheduler events.
    pub asleep: Option<Moment>,
    /// When its thread was made runnable again, from scheduler events.
    pub woken: Option<Moment>,
    /// What KVM said at its end (`kvm_vcpu_wakeup`).
    pub told: Option<Told>,
    /// The change of the poll that KVM made of it (`kvm_halt_poll_ns`).
    pub change: Option<PollChange>,
    /// Whether a sibling ended it by `KVM_HC_KICK_CPU`: the vCPU waited for a paravirtual spinlock.
    pub kicked: bool,
    /// When it was over: KVM's wake-up event, or the entry where there is none.
    pub end: Moment,
    /// The entry into the guest, unless another halt came before.
    pub entered: Option<Moment>,
}

/// What `kvm_vcpu_wakeup` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// How long the halt lasted, polling included.
    pub length: Nanos,
    /// Whether the thread slept.
    pub waited: bool,
    /// Whether the wake-up was for something.
    pub valid: bool,
}

/// What `kvm_halt_poll_ns` says: the poll length before and after, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollChange {
    /// Grown, else shrunk.
    pub grow: bool,
    /// From now on.
    pub new: u32,
    /// Of the halt that ended.
    pub old: u32,
}

/// A lane's halt so far.
#[derive(Clone, Debug, Default)]
pub struct Halting {
    /// The exit that says that there is nothing to do.
    idle_since: Option<Moment>,
    asleep: Option<Moment>,
    woken: Option<Moment>,
    pub change: Option<PollChange>,
    kicked: bool,
    /// A halt that is over, before the entry.
    ended: Option<Halt>,
}

impl Halting {
    /// The vCPU leaves its guest; `idle`: with nothing to do.
    #[inline(always)]
    pub fn exit(&mut self, at: Moment, idle: bool, halts: &mut Vec<Halt>) {
        if idle || self.is_open() {
            halts.extend(self.ended);
            *self = Halting { idle_since: idle.then_some(at), ..Halting::default() };
        }
    }

    /// The thread gives its CPU away and sleeps.
    pub fn sleep(&mut self, at: Moment) {
        self.asleep.get_or_insert(at);
    }

    /// The thread is made runnable. What counts is the last wake-up: earlier ones came to nothing.
    pub fn wake(&mut self, at: Moment) {
        self.woken = Some(at);
    }

    /// KVM says that a halt is over.
    pub fn told(&mut self, at: Moment, who: Who, told: Told, halts: &mut Vec<Halt>) {
        let begun = Moment::from_nanos(at.as_nanos().saturating_sub(told.length.0));
        let begin = self.idle_since.take().unwrap_or(begun);
        let within = |moment: Option<Moment>| moment.filter(|moment| *moment >= begin && told.waited);
        let (asleep, woken) = (within(self.asleep.take()), within(self.woken.take()));
        let change = self.change.take();
        halts.extend(self.ended.take());
        let kicked = std::mem::take(&mut self.kicked);
        self.ended = Some(Halt { who, begin, asleep, woken, told: Some(told), change, kicked, end: at, entered: None });
    }

    /// The vCPU enters its guest; `idle`: from an exit with nothing to do.
    #[inline(always)]
    pub fn enter(&mut self, at: Moment, who: Who, idle: bool, halts: &mut Vec<Halt>) {
        if self.is_open() {
            self.close(at, who, idle, halts);
        }
    }

    /// The recording ends.
    pub fn finish(&mut self, halts: &mut Vec<Halt>) {
        halts.extend(self.ended.take());
    }

    /// The change of the poll that KVM made of the halt that ended last.
    pub fn ended_change(&self) -> Option<PollChange> {
        self.ended.and_then(|halt| halt.change)
    }

    /// A sibling kicks the vCPU (`KVM_HC_KICK_CPU`): if it halts, it waited for a paravirtual spinlock.
    pub fn kick(&mut self) {
        self.kicked |= self.is_open();
    }

    fn is_open(&self) -> bool {
        self.idle_since.is_some() || self.ended.is_some()
    }

    fn close(&mut self, at: Moment, who: Who, idle: bool, halts: &mut Vec<Halt>) {
        let Halting { idle_since, asleep, woken, kicked, ended, .. } = std::mem::take(self);
        match (ended, idle_since) {
            (Some(halt), _) => halts.push(Halt { who, entered: Some(at), kicked: halt.kicked || kicked, ..halt }),
            (None, Some(begin)) if idle => {
                let (told, change) = (None, None);
                halts.push(Halt { who, begin, asleep, woken, told, change, kicked, end: at, entered: Some(at) });
            }
            _ => {}
        }
    }
}
