//! The hypervisor's side of s390's two calls, as z/VM's CP and as KVM answer them.
//!
//! ```text
//!   X'44' ──► anyone queued? ── no ──► fast path: back to the guest
//!                            └─ yes ─► normal path: pick_undirected, another vCPU of the guest runs
//!   X'9C' ──► the named vCPU: queued ────────► it runs
//!                             running on a CPU that the hypervisor below took away ──► forwarded to that one
//!                             anything else ─► ignored; the guest never sees an error
//! ```
//!
//! Sources: Linux arch/s390/kvm/diag.c, Documentation/virt/kvm/s390/s390-diag.rst; IBM's z/VM performance report on
//! diagnose X'9C', and the Performance Toolkit's counters (FCX102).

use exitscope_units::{VcpuId, VmId};

/// How z/VM serves X'44'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diag44 {
    /// Nobody waits for a real processor: the guest goes on at once.
    FastPath,
    /// Somebody waits: through the dispatcher.
    Normal,
}

/// z/VM's answer to X'44': the fast path if no virtual processor is queued on a real one.
pub const fn diag44(any_queued: bool) -> Diag44 {
    if any_queued { Diag44::Normal } else { Diag44::FastPath }
}

/// An entry of a dispatch vector: a vCPU that could run and waits for the real processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its guest.
    pub vm: VmId,
    /// Which of the guest's.
    pub vcpu: VcpuId,
}

/// Whom the normal path of X'44' runs: it is not told who holds the lock, and takes the first other virtual processor
/// of the caller's guest in the dispatch vector. The position in `vector`.
pub fn pick_undirected(vector: &[Waiting], caller: Waiting) -> Option<usize> {
    vector.iter().position(|waiting| waiting.vm == caller.vm && waiting.vcpu != caller.vcpu)
}

/// In which state X'9C' finds the vCPU that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It is the caller.
    Caller,
    /// There is none of that number.
    Missing,
    /// It is stopped, or not yet started.
    NotReady,
    /// It waits with interrupts enabled: idle.
    Idle,
    /// It waits for the hypervisor.
    SoftWait,
    /// It is on a real processor.
    Running {
        /// The hypervisor below us has taken that processor away.
        preempted: bool,
    },
    /// It could run, and waits for a real processor.
    Queued,
}

/// Why an X'9C' did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diag9cIgnored {
    /// The caller named itself.
    Oneself,
    /// No such vCPU.
    NoSuchVcpu,
    /// z/VM's "Not Ready".
    NotReady,
    /// z/VM's "Wait State".
    WaitState,
    /// z/VM's "Soft Wait".
    SoftWait,
    /// z/VM's "Already Dispatched".
    AlreadyDispatched,
    /// KVM may not pass on that many a second.
    RateLimited,
}

/// What becomes of an X'9C'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diag9cOutcome {
    /// The named vCPU runs next.
    Run,
    /// Nothing; the caller goes on.
    Ignored(Diag9cIgnored),
    /// Passed on to the hypervisor below, for the real processor under the named vCPU.
    Forwarded,
}

/// The answer to X'9C'. `forward` tells, when the target is on a real processor, whether the call may be passed on:
/// [`Forwarding::take`] for KVM, which takes leave before it asks whether that would help; `None` for z/VM, which never
/// does.
pub fn diag9c(target: Target, forward: impl FnOnce() -> Option<bool>) -> Diag9cOutcome {
    let ignored = match target {
        Target::Queued => return Diag9cOutcome::Run,
        Target::Caller => Diag9cIgnored::Oneself,
        Target::Missing => Diag9cIgnored::NoSuchVcpu,
        Target::NotReady => Diag9cIgnored::NotReady,
        Target::Idle => Diag9cIgnored::WaitState,
        Target::SoftWait => Diag9cIgnored::SoftWait,
        Target::Running { preempted } => match (forward(), preempted) {
            (Some(true), true) => return Diag9cOutcome::Forwarded,
            (Some(false), _) => Diag9cIgnored::RateLimited,
            (Some(true), false) | (None, _) => Diag9cIgnored::AlreadyDispatched,
        },
    };
    Diag9cOutcome::Ignored(ignored)
}

/// KVM's leave to pass X'9C' on, one for the whole host: as many a jiffy as `diag9c_forwarding_hz` divided by the
/// host's HZ, rounded down. A rate below HZ passes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    jiffy: Option<u64>,
    left: u32,
}

impl Forwarding {
    /// Whether one more may be passed on in this jiffy; takes it. `None`: none ever, `rate` is 0. `hz` is the host's
    /// jiffies a second.
    pub fn take(&mut self, rate: u32, hz: u32, jiffy: u64) -> Option<bool> {
        if rate == 0 {
            return None;
        }
        if self.jiffy != Some(jiffy) {
            *self = Forwarding { jiffy: Some(jiffy), left: rate.checked_div(hz).unwrap_or(0) };
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        Some(may)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_path_is_for_when_nobody_waits() {
        assert_eq!(diag44(false), Diag44::FastPath);
        assert_eq!(diag44(true), Diag44::Normal);
    }

    #[test]
    fn an_undirected_yield_runs_the_first_other_vcpu_of_the_same_guest() {
        let waiting = |vm, vcpu| Waiting { vm: VmId(vm), vcpu: VcpuId(vcpu) };
        let vector = [waiting(2, 0), waiting(1, 0), waiting(1, 3), waiting(1, 1)];
        assert_eq!(pick_undirected(&vector, waiting(1, 0)), Some(2));
        assert_eq!(pick_undirected(&vector, waiting(1, 2)), Some(1));
        assert_eq!(pick_undirected(&vector, waiting(2, 0)), None);
        assert_eq!(pick_undirected(&[], waiting(1, 0)), None);
    }

    #[test]
    fn a_directed_yield_runs_the_named_vcpu_or_says_why_not() {
        for (target, forward, outcome) in [
            (Target::Queued, None, Diag9cOutcome::Run),
            (Target::Caller, None, Diag9cOutcome::Ignored(Diag9cIgnored::Oneself)),
            (Target::Missing, None, Diag9cOutcome::Ignored(Diag9cIgnored::NoSuchVcpu)),
            (Target::NotReady, None, Diag9cOutcome::Ignored(Diag9cIgnored::NotReady)),
            (Target::Idle, None, Diag9cOutcome::Ignored(Diag9cIgnored::WaitState)),
            (Target::SoftWait, None, Diag9cOutcome::Ignored(Diag9cIgnored::SoftWait)),
            (Target::Running { preempted: true }, None, Diag9cOutcome::Ignored(Diag9cIgnored::AlreadyDispatched)),
            (Target::Running { preempted: true }, Some(true), Diag9cOutcome::Forwarded),
            (Target::Running { preempted: true }, Some(false), Diag9cOutcome::Ignored(Diag9cIgnored::RateLimited)),
            (Target::Running { preempted: false }, Some(false), Diag9cOutcome::Ignored(Diag9cIgnored::RateLimited)),
            (
                Target::Running { preempted: false },
                Some(true),
                Diag9cOutcome::Ignored(Diag9cIgnored::AlreadyDispatched),
            ),
        ] {
            assert_eq!(diag9c(target, || forward), outcome, "{target:?} {forward:?}");
        }
    }

    #[test]
    fn leave_to_pass_on_is_counted_by_the_jiffy_and_rounded_down() {
        let passed = |rate: u32| {
            let mut forwarding = Forwarding::default();
            [1u64, 1, 1, 2, 2, 9].map(|jiffy| forwarding.take(rate, 100, jiffy))
        };
        assert_eq!(passed(0), [None; 6]);
        assert_eq!(passed(99), [Some(false); 6]);
        assert_eq!(passed(199), [true, false, false, true, false, true].map(Some));
        assert_eq!(passed(200), [true, true, false, true, true, true].map(Some));
    }

    #[test]
    fn leave_is_used_up_even_where_passing_on_would_not_help() {
        let mut forwarding = Forwarding::default();
        let mut ask = |preempted| diag9c(Target::Running { preempted }, || forwarding.take(100, 100, 7));
        assert_eq!(ask(false), Diag9cOutcome::Ignored(Diag9cIgnored::AlreadyDispatched));
        assert_eq!(ask(true), Diag9cOutcome::Ignored(Diag9cIgnored::RateLimited));
    }
}
