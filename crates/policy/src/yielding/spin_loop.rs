//! The guest's side: the out-of-line wait for a spin lock, by generations of Linux on s390.
//!
//! ```text
//!   lock is held ──► enter ─┬─► Spin ───────────────► look again ──► free: done
//!                     ▲     ├─► Sense(owner) ► sensed ─┐    │
//!                     │     └─► Yield(call) ◄──────────┘    │ held
//!                   failed ◄────────────────────────────────┘
//! ```
//!
//! The caller tries the lock; if it is held, [`SpinLoop::enter`], and after each further look that finds it held,
//! [`SpinLoop::failed`]. Each gives one step to take before the next look.
//!
//! | generation | asks |
//! | --- | --- |
//! | `L0` before spin_retry | X'44' on every pass |
//! | `L1` 2005 | X'44' on every pass number spin_retry + 1 |
//! | `L1b` 2006 | the same; compares and swaps only a lock that looks free |
//! | `L2` 2006 | X'9C' to the owner then, nothing if there is none just now |
//! | `L3` about 2010 | senses first: an owner that does not run is yielded to at once, over and over; otherwise after spin_retry looks, under z/VM only |
//! | `L4` 2015 | senses first, but a full round of looks lies between two calls |
//! | `Classic` today | senses once on entry; then on every failed look number spin_retry + 2, unless directly in an LPAR with a running owner |
//!
//! Source: Linux arch/s390/lib/spinlock.c and arch/s390/kernel/smp.c, and their history.

use super::Params;
use crate::knob::choice;
use exitscope_units::VcpuId;

choice! {
    /// A generation of the lock code.
    Generation {
        /// Before spin_retry was there: a call on every pass.
        L0 = "L0",
        /// 2005: spins spin_retry times between calls.
        L1 = "L1",
        /// Early 2006: as L1; looks before it compares and swaps.
        L1b = "L1b",
        /// Late 2006: names the owner.
        L2 = "L2",
        /// About 2010: senses whether the owner runs.
        L3 = "L3",
        /// 2015: does not repeat a call at once.
        L4 = "L4",
        /// Today's, for CPUs that are not dedicated.
        Classic = "classic",
    }
}

impl Generation {
    /// Whether each pass tries to compare and swap, even if the lock looks held: that costs more than a look.
    pub const fn swaps_blindly(self) -> bool {
        matches!(self, Generation::L0 | Generation::L1)
    }
}

/// What the guest's machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnoseSupport {
    /// Diagnose X'44': yield to anybody.
    pub diag44: bool,
    /// Diagnose X'9C': yield to this one. With neither, a waiter says nothing.
    pub diag9c: bool,
    /// SIGP SENSE RUNNING STATUS. Without it every CPU counts as running.
    pub sense_running: bool,
    /// The guest runs directly in a logical partition, not under z/VM or KVM.
    pub lpar: bool,
}

/// A call to the hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnoseCall {
    /// X'44': run somebody else.
    Diag44,
    /// X'9C': run this one.
    Diag9c(VcpuId),
}

/// What to do before the next look at the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinAction {
    /// Nothing: look again.
    Spin,
    /// Ask the machine whether this one runs, and go on with [`SpinLoop::sensed`].
    Sense(VcpuId),
    /// Ask the hypervisor.
    Yield(DiagnoseCall),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next failed look begins a round.
    Top,
    /// This many more looks may fail without a word.
    Spinning(u32),
    /// The answer about this owner decides whether it is yielded to; if it runs, a round of looks begins.
    SensingFirst(VcpuId),
    /// As before, at the end of a round.
    SensingLast(VcpuId),
}

/// One wait for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinLoop {
    machine: DiagnoseSupport,
    generation: Generation,
    spin_retry: u32,
    phase: Phase,
    has_yielded: bool,
}

impl SpinLoop {
    /// A wait that is about to begin.
    pub const fn new(params: &Params, machine: DiagnoseSupport) -> SpinLoop {
        let (generation, spin_retry) = (params.spin_generation, params.spin_retry);
        SpinLoop { machine, generation, spin_retry, phase: Phase::Top, has_yielded: false }
    }

    /// The lock could not be taken at once. `owner` is who holds it now, as its word says; `None` if it is free again
    /// or does not say.
    pub fn enter(&mut self, owner: Option<VcpuId>) -> SpinAction {
        match self.generation {
            Generation::L0 => self.yield_to_anybody(),
            Generation::L1 | Generation::L1b | Generation::L2 => {
                self.phase = Phase::Spinning(self.spin_retry);
                self.failed(owner)
            }
            Generation::L3 | Generation::L4 => self.top(owner),
            Generation::Classic => match self.sense(owner) {
                Some(owner) => self.ask(Phase::SensingFirst(owner), owner),
                None => self.spin(self.round()),
            },
        }
    }

    /// A look found the lock held.
    pub fn failed(&mut self, owner: Option<VcpuId>) -> SpinAction {
        match self.phase {
            Phase::Spinning(0) => self.expired(owner),
            Phase::Spinning(left) => self.spin(left - 1),
            Phase::Top | Phase::SensingFirst(_) | Phase::SensingLast(_) => match self.generation {
                Generation::L0 => self.yield_to_anybody(),
                _ => self.top(owner),
            },
        }
    }

    /// How many looks from now on may fail without a word, the owner being the same or not.
    pub fn quiet(&self) -> u32 {
        match self.phase {
            Phase::Spinning(left) => left,
            Phase::Top | Phase::SensingFirst(_) | Phase::SensingLast(_) => 0,
        }
    }

    /// `looks` looks found the lock held, at most [`quiet`](Self::quiet) of them: the same as that many calls of
    /// [`failed`](Self::failed).
    pub fn pass(&mut self, looks: u32) {
        if let Phase::Spinning(left) = &mut self.phase {
            *left = left.saturating_sub(looks);
        }
    }

    /// The answer to [`SpinAction::Sense`].
    pub fn sensed(&mut self, running: bool) -> SpinAction {
        match self.phase {
            Phase::SensingFirst(_) if running => self.spin(self.round()),
            Phase::SensingLast(_) if running => self.end_round(),
            Phase::SensingFirst(owner) | Phase::SensingLast(owner) => {
                self.end_round();
                self.yield_to(owner)
            }
            Phase::Top | Phase::Spinning(_) => SpinAction::Spin,
        }
    }

    /// How many failed looks a round lets pass before the one that ends it.
    fn round(&self) -> u32 {
        match self.generation {
            Generation::L3 => self.spin_retry.saturating_sub(1),
            Generation::Classic => self.spin_retry + 1,
            _ => self.spin_retry,
        }
    }

    /// L3 and L4 begin a round.
    fn top(&mut self, owner: Option<VcpuId>) -> SpinAction {
        let again = self.generation == Generation::L3 || !self.has_yielded;
        match self.sense(owner).filter(|_| again) {
            Some(owner) => self.ask(Phase::SensingFirst(owner), owner),
            None => self.spin(self.round()),
        }
    }

    /// A round's last look failed.
    fn expired(&mut self, owner: Option<VcpuId>) -> SpinAction {
        self.end_round();
        match (self.generation, owner) {
            (Generation::L0 | Generation::L1 | Generation::L1b, _) => self.yield_to_anybody(),
            (_, None) => SpinAction::Spin,
            (Generation::L2, Some(owner)) => self.yield_to(owner),
            (_, Some(owner)) if !self.machine.lpar => self.yield_to(owner),
            (Generation::L3, _) => self.top(owner),
            (Generation::L4 | Generation::Classic, Some(_)) => match self.sense(owner) {
                Some(owner) => self.ask(Phase::SensingLast(owner), owner),
                None => SpinAction::Spin,
            },
        }
    }

    /// The next failed look begins anew: L3 and L4 at the top, the others with a round.
    fn end_round(&mut self) -> SpinAction {
        self.phase = match self.generation {
            Generation::L0 | Generation::L3 | Generation::L4 => Phase::Top,
            _ => Phase::Spinning(self.round()),
        };
        SpinAction::Spin
    }

    /// The owner, if there is one and the machine can tell whether it runs.
    fn sense(&self, owner: Option<VcpuId>) -> Option<VcpuId> {
        owner.filter(|_| self.machine.sense_running)
    }

    fn ask(&mut self, phase: Phase, owner: VcpuId) -> SpinAction {
        self.phase = phase;
        SpinAction::Sense(owner)
    }

    fn spin(&mut self, left: u32) -> SpinAction {
        self.phase = Phase::Spinning(left);
        SpinAction::Spin
    }

    fn yield_to(&mut self, owner: VcpuId) -> SpinAction {
        self.has_yielded = true;
        match self.machine.diag9c {
            true => SpinAction::Yield(DiagnoseCall::Diag9c(owner)),
            // Today's code no longer knows X'44'.
            false if self.generation == Generation::Classic => SpinAction::Spin,
            false => self.yield_to_anybody(),
        }
    }

    fn yield_to_anybody(&self) -> SpinAction {
        if self.machine.diag44 { SpinAction::Yield(DiagnoseCall::Diag44) } else { SpinAction::Spin }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OWNER: VcpuId = VcpuId(3);
    const ZVM: DiagnoseSupport = DiagnoseSupport { diag44: true, diag9c: true, sense_running: true, lpar: false };
    const LPAR: DiagnoseSupport = DiagnoseSupport { lpar: true, ..ZVM };

    /// The numbers of the failed looks (the first is the one before `enter`) after which the hypervisor was called, and
    /// those after which the machine was sensed, among the first `looks`.
    fn calls(
        generation: Generation,
        spin_retry: u32,
        machine: DiagnoseSupport,
        running: bool,
        looks: usize,
    ) -> (Vec<usize>, Vec<usize>) {
        let params = Params { spin_generation: generation, spin_retry, ..Params::default() };
        let mut wait = SpinLoop::new(&params, machine);
        let (mut called, mut sensed) = (Vec::new(), Vec::new());
        for look in 1..=looks {
            let mut step = if look == 1 { wait.enter(Some(OWNER)) } else { wait.failed(Some(OWNER)) };
            while let SpinAction::Sense(owner) = step {
                assert_eq!(owner, OWNER);
                sensed.push(look);
                step = wait.sensed(running);
            }
            if let SpinAction::Yield(call) = step {
                let named = machine.diag9c && !matches!(generation, Generation::L0 | Generation::L1 | Generation::L1b);
                assert_eq!(call, if named { DiagnoseCall::Diag9c(OWNER) } else { DiagnoseCall::Diag44 });
                called.push(look);
            }
        }
        (called, sensed)
    }

    #[test]
    fn every_generation_asks_when_its_sources_say() {
        use Generation::*;
        let none: &[usize] = &[];
        for (generation, spin_retry, machine, running, called, sensed) in [
            (L0, 5, ZVM, false, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..], none),
            // First at pass spin_retry + 1, then every spin_retry + 1.
            (L1, 3, ZVM, false, &[4, 8, 12], none),
            (L1, 0, ZVM, false, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], none),
            (L1b, 5, ZVM, false, &[6, 12], none),
            (L2, 3, ZVM, false, &[4, 8, 12], none),
            // An owner that does not run is yielded to at once and again and again.
            (L3, 3, ZVM, false, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            // One that runs, after spin_retry looks, without asking twice; in an LPAR never.
            (L3, 3, ZVM, true, &[4, 8, 12], &[1, 5, 9]),
            (L3, 3, LPAR, true, none, &[1, 4, 7, 10]),
            // At once only the first time; then spin_retry + 1 looks and the one at the top lie between two calls.
            (L4, 3, ZVM, false, &[1, 6, 11], &[1]),
            (L4, 3, ZVM, true, &[5, 10], &[1]),
            (L4, 3, LPAR, false, &[1, 6, 11], &[1, 6, 11]),
            (L4, 3, LPAR, true, none, &[1, 5, 6, 10, 11]),
            // After enter's look, at failed look spin_retry + 2 and each further spin_retry + 2.
            (Classic, 3, ZVM, false, &[1, 6, 11], &[1]),
            (Classic, 3, ZVM, true, &[6, 11], &[1]),
            (Classic, 3, LPAR, false, &[1, 6, 11], &[1, 6, 11]),
            (Classic, 3, LPAR, true, none, &[1, 6, 11]),
        ] {
            let seen = calls(generation, spin_retry, machine, running, 12);
            let expected = (called.to_vec(), sensed.to_vec());
            assert_eq!(seen, expected, "{generation:?}, spin_retry {spin_retry}, {machine:?}, owner runs: {running}");
        }
    }

    #[test]
    fn the_default_asks_every_1002_looks() {
        let params = Params::default();
        let (called, _) = calls(params.spin_generation, params.spin_retry, ZVM, true, 3_010);
        assert_eq!(called, [1 + 1_002, 1 + 2 * 1_002, 1 + 3 * 1_002]);
    }

    #[test]
    fn a_machine_without_the_calls_says_nothing_and_one_without_x9c_says_x44() {
        let mute = DiagnoseSupport { diag44: false, diag9c: false, sense_running: false, lpar: false };
        for &generation in Generation::ALL {
            assert_eq!(calls(generation, 2, mute, false, 50), (Vec::new(), Vec::new()), "{generation:?}");
        }
        let old = DiagnoseSupport { diag9c: false, sense_running: false, ..ZVM };
        assert_eq!(calls(Generation::L2, 3, old, false, 12).0, [4, 8, 12]);
        assert_eq!(calls(Generation::Classic, 3, old, false, 12).0, []);
    }

    #[test]
    fn nobody_is_named_when_the_lock_just_became_free() {
        let params = Params { spin_generation: Generation::L2, spin_retry: 1, ..Params::default() };
        let mut wait = SpinLoop::new(&params, ZVM);
        assert_eq!(wait.enter(Some(OWNER)), SpinAction::Spin);
        assert_eq!(wait.failed(None), SpinAction::Spin);
        assert_eq!(wait.failed(Some(OWNER)), SpinAction::Spin);
        assert_eq!(wait.failed(Some(OWNER)), SpinAction::Yield(DiagnoseCall::Diag9c(OWNER)));
    }

    proptest! {
        #[test]
        fn a_larger_spin_retry_never_asks_more(
            generation in prop::sample::select(Generation::ALL), spin_retry in 0u32..40, running: bool, lpar: bool
        ) {
            let machine = DiagnoseSupport { lpar, ..ZVM };
            let asked = |spin_retry| calls(generation, spin_retry, machine, running, 300).0.len();
            prop_assert!(asked(spin_retry + 1) <= asked(spin_retry));
        }
    }
}
