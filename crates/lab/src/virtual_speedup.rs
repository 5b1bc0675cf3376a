//! A kind of exit as if it were cheaper: each time that a vCPU has made one, all others owe a delay of as much as it is to be cheaper by.
//!
//! ```text
//! vCPU 0: ── exit of the kind ─► inserted += by, taken += by ──────── WAKE 1 ──► …     as if: the run took `inserted` less
//! vCPU 1: ───────────────────────────── any exit: waits inserted - taken ─► …
//! vCPU 2: ── halt (all is taken before) …  woken by vCPU 0: has taken what vCPU 0 had ─► …
//! ```
//!
//! After Coz (C. Curtsinger, E. D. Berger, "Coz: Finding Code that Counts with Causal Profiling", SOSP 2015): that all others are slower
//! by as much has the same relative effect as that one thing is faster. As there, a vCPU takes what it owes before it may unblock
//! another one, and owes nothing of what was inserted while it was blocked until another one woke it, as that one had taken it before
//! (`catch_up`, `post_block` of <https://github.com/plasma-umass/coz> libcoz/profiler.h). Other than there, nothing is sampled:
//! each exit is seen, and delays are taken at exits alone. So a vCPU that waits without an exit takes its delay after it has waited,
//! which would hide a gain. Other programs are not delayed: what is told holds of vCPUs that have their CPUs.

use crate::exit_account::LabExitReason;
use crate::{LabMachine, abi};
use exitscope_units::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run in which exits of a kind are as if they were cheaper. One for all vCPUs.
#[derive(Debug)]
pub struct VirtualSpeedup {
    reason: LabExitReason,
    /// Ticks that each is cheaper by.
    by: u64,
    /// Ticks that the run is longer by, if every vCPU takes its delays.
    inserted: AtomicU64,
    /// What whoever woke a vCPU last had taken, by the vCPU's number.
    taken_at_wake: Vec<AtomicU64>,
}

impl VirtualSpeedup {
    /// Exits of this kind are as if each were cheaper by so much.
    pub fn new(machine: &LabMachine, reason: LabExitReason, by: Nanos) -> VirtualSpeedup {
        VirtualSpeedup::of_ticks(reason, machine.ticks_in(by.0))
    }

    fn of_ticks(reason: LabExitReason, by: u64) -> VirtualSpeedup {
        let taken_at_wake = (0..abi::MAX_VCPUS).map(|_| AtomicU64::new(0)).collect();
        VirtualSpeedup { reason, by, inserted: AtomicU64::new(0), taken_at_wake }
    }

    /// Ticks that the run would have been shorter by.
    pub fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::SeqCst)
    }
}

/// What a vCPU owes of a [`VirtualSpeedup`]'s delays; nothing without one.
#[derive(Debug)]
pub(crate) struct OwedDelay<'a> {
    of: Option<&'a VirtualSpeedup>,
    number: usize,
    taken: u64,
    is_blocked: bool,
}

impl<'a> OwedDelay<'a> {
    pub(crate) fn new(of: Option<&'a VirtualSpeedup>, number: u32) -> OwedDelay<'a> {
        OwedDelay { of, number: number as usize, taken: 0, is_blocked: false }
    }

    /// Ticks that it is to wait for now. It has taken them.
    pub(crate) fn take(&mut self) -> u64 {
        let owed = self.owes();
        self.taken += owed;
        owed
    }

    /// Ticks that it did not wait for: of a blocked one, those from before it was.
    pub(crate) fn owes(&self) -> u64 {
        match self.of {
            Some(of) if !self.is_blocked => of.inserted().saturating_sub(self.taken),
            _ => 0,
        }
    }

    /// It blocks from now on.
    pub(crate) fn blocks(&mut self) {
        self.is_blocked = true;
    }

    /// It does not any more. By another vCPU, or by itself: then it still owes what was inserted meanwhile.
    pub(crate) fn unblocks(&mut self) {
        self.is_blocked = false;
        if let Some(at_wake) = self.of.and_then(|of| of.taken_at_wake.get(self.number)) {
            self.taken = self.taken.max(at_wake.load(Ordering::SeqCst));
        }
    }

    /// It wakes another vCPU.
    pub(crate) fn wakes(&self, other: u32) {
        if let Some(at_wake) = self.of.and_then(|of| of.taken_at_wake.get(other as usize)) {
            at_wake.fetch_max(self.taken, Ordering::SeqCst);
        }
    }

    /// It has made an exit.
    pub(crate) fn has_made(&mut self, reason: LabExitReason) {
        if let Some(of) = self.of.filter(|of| of.reason == reason) {
            of.inserted.fetch_add(of.by, Ordering::SeqCst);
            self.taken += of.by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: LabExitReason = LabExitReason::PortIn;
    const OTHER: LabExitReason = LabExitReason::MmioWrite;

    /// Two vCPUs whose exits take what they should, without a machine: each at a moment of its own.
    struct Two<'a> {
        now: [u64; 2],
        owed: [OwedDelay<'a>; 2],
    }

    impl<'a> Two<'a> {
        fn new(speedup: Option<&'a VirtualSpeedup>) -> Two<'a> {
            Two { now: [0; 2], owed: [0, 1].map(|number| OwedDelay::new(speedup, number)) }
        }

        fn exit(&mut self, vcpu: usize, reason: LabExitReason, takes: u64) {
            self.now[vcpu] += self.owed[vcpu].take() + takes;
            self.owed[vcpu].has_made(reason);
        }

        /// One waits until the other has come as far and wakes it by an exit.
        fn waits_for(&mut self, vcpu: usize, other: usize, wake: u64) {
            self.now[vcpu] += self.owed[vcpu].take();
            self.owed[vcpu].blocks();
            self.now[other] += self.owed[other].take();
            self.owed[other].wakes(vcpu as u32);
            self.now[vcpu] = self.now[vcpu].max(self.now[other]);
            self.now[other] += wake;
            self.owed[other].has_made(LabExitReason::Wake);
            self.owed[vcpu].unblocks();
        }
    }

    /// How long 1,000 rounds take if each exit of the kind takes so long.
    fn length(round: fn(&mut Two, u64), kind: u64, speedup: Option<&VirtualSpeedup>) -> f64 {
        let mut two = Two::new(speedup);
        (0..1_000).for_each(|_| round(&mut two, kind));
        let owed = two.owed.iter().map(OwedDelay::owes).max().unwrap_or(0);
        (two.now.into_iter().max().unwrap_or(0) + owed - speedup.map_or(0, VirtualSpeedup::inserted)) as f64
    }

    /// One after the other; each exit is on the way.
    fn in_turn(two: &mut Two, kind: u64) {
        two.now[0] += 20_000;
        two.exit(0, KIND, kind);
        two.waits_for(1, 0, 3_000);
        two.now[1] += 30_000;
        two.exit(1, OTHER, 5_000);
        two.waits_for(0, 1, 3_000);
    }

    /// Both at once, until the slower one is ready: the exit is on the way as long as its vCPU is the slower one, by 4 us.
    fn with_slack(two: &mut Two, kind: u64) {
        two.now[0] += 40_000;
        two.exit(0, KIND, kind);
        two.now[1] += 41_000;
        two.exit(1, OTHER, 15_000);
        match two.now[0] - two.owed[0].taken < two.now[1] - two.owed[1].taken {
            true => two.waits_for(0, 1, 0),
            false => two.waits_for(1, 0, 0),
        }
    }

    /// Both make exits of the kind, and none waits.
    fn on_both(two: &mut Two, kind: u64) {
        [0, 1].iter().for_each(|&vcpu| {
            two.now[vcpu] += 10_000;
            two.exit(vcpu, KIND, kind);
        });
    }

    /// The exits of a vCPU that nobody waits for.
    fn beside(two: &mut Two, kind: u64) {
        two.now[0] += 50_000;
        two.exit(0, OTHER, 10_000);
        two.now[1] = two.now[1].max(two.now[0] - 30_000);
        two.exit(1, KIND, kind);
    }

    #[test]
    fn what_a_run_would_be_shorter_by_is_what_it_is_shorter_by_with_cheaper_exits() {
        for (round, gains) in [
            (in_turn as fn(&mut Two, u64), [2_000, 8_000, 20_000]),
            // From 20 us on it is the slower one by 4 us: no more than that can be won.
            (with_slack, [2_000, 4_000, 4_000]),
            (on_both, [2_000, 8_000, 20_000]),
            (beside, [0, 0, 0]),
        ] {
            let kind = 20_000;
            for (by, gain) in [2_000, 8_000, 20_000].into_iter().zip(gains) {
                let speedup = VirtualSpeedup::of_ticks(KIND, by);
                let predicted = length(round, kind, Some(&speedup));
                let cheaper = length(round, kind - by, None);
                let before = length(round, kind, None);
                assert!((before - cheaper - 1_000.0 * f64::from(gain)).abs() <= 30_000.0, "{by}: {before} {cheaper}");
                assert!((predicted - cheaper).abs() <= 30_000.0, "{by}: {predicted}, not {cheaper}");
            }
        }
    }

    #[test]
    fn who_was_woken_owes_no_more_than_who_woke_it_and_who_is_blocked_owes_nothing() {
        let speedup = VirtualSpeedup::of_ticks(KIND, 10);
        let [mut one, mut other] = [0, 1].map(|number| OwedDelay::new(Some(&speedup), number));
        other.blocks();
        one.has_made(KIND);
        one.has_made(OTHER);
        one.wakes(1);
        one.has_made(KIND);
        assert_eq!((speedup.inserted(), one.owes(), other.owes()), (20, 0, 0));
        other.unblocks();
        assert_eq!((other.owes(), other.take(), other.take()), (10, 10, 0));
        // By itself, as after a sleep.
        other.blocks();
        one.has_made(KIND);
        other.unblocks();
        assert_eq!((other.owes(), OwedDelay::new(None, 0).owes()), (10, 0));
    }
}
