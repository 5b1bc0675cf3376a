//! KVM's answer to a vCPU that spins, when nobody said for whom: which of its siblings to boost.
//!
//! ```text
//!   PAUSE exit, X'44', WFE ─► begin: candidates from the one after the last boosted, round about
//!        ready? ─► not blocked, or due to wake? ─► not preempted in user mode? ─► eligible? ─► yield_to
//!                                                                                   │            │ > 0  boosted: stop
//!                                              spinning itself: refused the first   │            │ = 0  go on
//!                                              time, accepted the second            ▼            │ < 0  three times: stop
//!                                                                                                ▼
//!   back in the guest ◄── end ◄── the spinner runs again ◄──────────────────────────────────────┘
//! ```
//!
//! Sources: Linux virt/kvm/kvm_main.c (kvm_vcpu_on_spin), kernel/sched/syscalls.c (yield_to).

/// What one vCPU's flags say, as KVM keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpinVcpu {
    /// Wants to run and does not: it was switched out while runnable, or has been woken.
    pub ready: bool,
    /// Halted, in `kvm_vcpu_block`.
    pub blocking: bool,
    /// Something is pending that will end its halt.
    pub dy_runnable: bool,
    /// Switched out while it wanted to run.
    pub preempted: bool,
    /// It was in the guest's kernel when that happened.
    pub preempted_in_kernel: bool,
    /// An interrupt waits for it.
    pub pending_interrupt: bool,
    /// It is itself in [`OnSpin`]: from `begin` to `end`, which may be long, if others were boosted.
    pub in_spin_loop: bool,
    /// It spins, and was refused the last time.
    pub dy_eligible: bool,
}

impl SpinVcpu {
    /// Whether it may be boosted. Asking changes the answer: a vCPU that spins itself is refused every other time.
    fn eligible(&mut self) -> bool {
        let eligible = !self.in_spin_loop || self.dy_eligible;
        if self.in_spin_loop {
            self.dy_eligible = !self.dy_eligible;
        }
        eligible
    }
}

/// What the host's scheduler said to a yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldTo {
    /// The target was marked to run next.
    Yielded,
    /// It made no difference; another candidate may do.
    NoEffect,
    /// Both run queues hold one task only: there is nothing to win. Counts as one of three tries.
    Refused,
}

/// What the host's scheduler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTask {
    /// The target vCPU has a thread.
    pub exists: bool,
    /// Runnable tasks on the yielder's run queue, itself included.
    pub here: u32,
    /// Runnable tasks on the target's run queue.
    pub there: u32,
    /// Both are of the same scheduling class.
    pub same_class: bool,
    /// The target is on a CPU.
    pub on_cpu: bool,
    /// The target is runnable and queued.
    pub queued: bool,
}

impl HostTask {
    /// The scheduler's answer to `yield_to`. Even if it yields, the target runs next only if the scheduler finds it
    /// eligible by its own measure.
    pub const fn yield_to(&self) -> YieldTo {
        if !self.exists {
            YieldTo::NoEffect
        } else if self.here == 1 && self.there == 1 {
            YieldTo::Refused
        } else if self.same_class && !self.on_cpu && self.queued {
            YieldTo::Yielded
        } else {
            YieldTo::NoEffect
        }
    }
}

/// One VM's memory of whom it boosted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnSpin {
    last_boosted: usize,
}

impl OnSpin {
    /// How often the scheduler may refuse before the search ends.
    pub const TRIES: u32 = 3;

    /// A VM that has boosted nobody yet.
    pub const fn new() -> OnSpin {
        OnSpin { last_boosted: 0 }
    }

    /// vCPU `me` spins: chooses whom to boost, asking the scheduler about one candidate after the other. `kernel_mode`:
    /// `me` was in the guest's kernel, so that only a holder in the kernel can be meant. What was asked for last and
    /// yielded is returned. [`end`](Self::end) must follow when `me` runs again, also if nobody was found.
    pub fn begin(
        &mut self,
        vcpus: &mut [SpinVcpu],
        me: usize,
        kernel_mode: bool,
        mut yield_to: impl FnMut(usize) -> YieldTo,
    ) -> Option<usize> {
        let count = vcpus.len();
        if count < 2 {
            return None;
        }
        if let Some(spinner) = vcpus.get_mut(me) {
            spinner.in_spin_loop = true;
        }
        let mut tries = Self::TRIES;
        for at in (1..=count).map(|step| (self.last_boosted + step) % count).filter(|at| *at != me) {
            let vcpu = &mut vcpus[at];
            let cannot_run = !vcpu.ready || (vcpu.blocking && !vcpu.dy_runnable);
            let in_user_mode = vcpu.preempted && kernel_mode && !vcpu.pending_interrupt && !vcpu.preempted_in_kernel;
            if cannot_run || in_user_mode || !vcpu.eligible() {
                continue;
            }
            match yield_to(at) {
                YieldTo::Yielded => {
                    self.last_boosted = at;
                    return Some(at);
                }
                YieldTo::NoEffect => {}
                YieldTo::Refused => tries -= 1,
            }
            if tries == 0 {
                return None;
            }
        }
        None
    }

    /// The spinner runs again and returns to its guest.
    pub fn end(spinner: &mut SpinVcpu) {
        spinner.in_spin_loop = false;
        spinner.dy_eligible = false;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const READY: SpinVcpu = SpinVcpu {
        ready: true,
        blocking: false,
        dy_runnable: false,
        preempted: true,
        preempted_in_kernel: true,
        pending_interrupt: false,
        in_spin_loop: false,
        dy_eligible: false,
    };

    /// Whom a spin of vCPU 0 asks the scheduler about, when it always gives this answer.
    fn asked(vm: &mut OnSpin, vcpus: &mut [SpinVcpu], kernel_mode: bool, answer: YieldTo) -> Vec<usize> {
        let mut asked = Vec::new();
        vm.begin(vcpus, 0, kernel_mode, |at| {
            asked.push(at);
            answer
        });
        OnSpin::end(&mut vcpus[0]);
        asked
    }

    #[test]
    fn boosting_goes_round_about() {
        let (mut vm, mut vcpus) = (OnSpin::new(), [READY; 4]);
        let boosted: Vec<_> = (0..5).map(|_| vm.begin(&mut vcpus, 0, true, |_| YieldTo::Yielded).unwrap()).collect();
        assert_eq!(boosted, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_spinning_sibling_is_refused_the_first_time_and_accepted_the_second() {
        let (mut vm, mut vcpus) = (OnSpin::new(), [READY; 3]);
        vcpus[1].in_spin_loop = true;
        assert_eq!(asked(&mut vm, &mut vcpus, true, YieldTo::NoEffect), [2]);
        assert!(vcpus[1].dy_eligible);
        assert_eq!(asked(&mut vm, &mut vcpus, true, YieldTo::NoEffect), [1, 2]);
        assert!(!vcpus[1].dy_eligible);
        OnSpin::end(&mut vcpus[1]);
        assert_eq!(asked(&mut vm, &mut vcpus, true, YieldTo::NoEffect), [1, 2]);
        assert!(!vcpus[1].dy_eligible, "one that does not spin is not toggled");
    }

    #[test]
    fn a_vcpu_that_cannot_hold_the_lock_or_cannot_run_is_passed_over() {
        for (vcpu, kernel_mode, expected) in [
            (SpinVcpu { ready: false, ..READY }, true, false),
            (SpinVcpu { blocking: true, ..READY }, true, false),
            (SpinVcpu { blocking: true, dy_runnable: true, ..READY }, true, true),
            (SpinVcpu { preempted_in_kernel: false, ..READY }, true, false),
            (SpinVcpu { preempted_in_kernel: false, ..READY }, false, true),
            (SpinVcpu { preempted_in_kernel: false, pending_interrupt: true, ..READY }, true, true),
            (SpinVcpu { preempted_in_kernel: false, preempted: false, ..READY }, true, true),
        ] {
            let was_asked = !asked(&mut OnSpin::new(), &mut [READY, vcpu], kernel_mode, YieldTo::NoEffect).is_empty();
            assert_eq!(was_asked, expected, "{vcpu:?} {kernel_mode}");
        }
    }

    #[test]
    fn a_vcpu_passed_over_for_another_reason_is_not_toggled() {
        let (mut vm, mut vcpus) = (OnSpin::new(), [READY; 2]);
        vcpus[1] = SpinVcpu { ready: false, in_spin_loop: true, ..READY };
        asked(&mut vm, &mut vcpus, true, YieldTo::NoEffect);
        assert!(!vcpus[1].dy_eligible);
    }

    #[test]
    fn three_refusals_end_the_search_and_no_effect_does_not() {
        assert_eq!(asked(&mut OnSpin::new(), &mut [READY; 8], true, YieldTo::Refused), [1, 2, 3]);
        assert_eq!(asked(&mut OnSpin::new(), &mut [READY; 8], true, YieldTo::NoEffect), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked(&mut OnSpin::new(), &mut [READY; 1], true, YieldTo::Yielded), []);
    }

    #[test]
    fn the_scheduler_yields_to_a_queued_task_unless_both_are_alone() {
        let queued = HostTask { exists: true, here: 2, there: 1, same_class: true, on_cpu: false, queued: true };
        for (task, answer) in [
            (queued, YieldTo::Yielded),
            (HostTask { here: 1, there: 1, ..queued }, YieldTo::Refused),
            (HostTask { here: 1, there: 2, ..queued }, YieldTo::Yielded),
            (HostTask { on_cpu: true, ..queued }, YieldTo::NoEffect),
            (HostTask { queued: false, ..queued }, YieldTo::NoEffect),
            (HostTask { same_class: false, ..queued }, YieldTo::NoEffect),
            (HostTask { exists: false, here: 1, ..queued }, YieldTo::NoEffect),
        ] {
            assert_eq!(task.yield_to(), answer, "{task:?}");
        }
    }

    proptest! {
        #[test]
        fn only_a_ready_sibling_is_ever_boosted(
            flags in prop::collection::vec(any::<[bool; 8]>(), 1..10), me in 0usize..10, spins in 1usize..20, kernel_mode: bool
        ) {
            let mut vcpus: Vec<_> = flags.iter().map(|f| SpinVcpu {
                ready: f[0], blocking: f[1], dy_runnable: f[2], preempted: f[3], preempted_in_kernel: f[4],
                pending_interrupt: f[5], in_spin_loop: f[6], dy_eligible: f[7],
            }).collect();
            let me = me % vcpus.len();
            let mut vm = OnSpin::new();
            for _ in 0..spins {
                if let Some(at) = vm.begin(&mut vcpus, me, kernel_mode, |_| YieldTo::Yielded) {
                    prop_assert!(at != me && vcpus[at].ready);
                }
                OnSpin::end(&mut vcpus[me]);
                prop_assert!(!vcpus[me].in_spin_loop);
            }
        }
    }
}
