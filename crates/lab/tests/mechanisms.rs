//! Halt polling, yields and gangs on this machine's real KVM: what is certain whatever the machine's speed and load.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use exitscope_lab::abi::{ProgramStep, op};
use exitscope_lab::exit_account::LabExitReason;
use exitscope_lab::gang::{GangGuest, SiblingLoad};
use exitscope_lab::haltpoll::{PingPong, PollMode};
use exitscope_lab::loaded_vm::ComputeSpeed;
use exitscope_lab::yielding::{Contention, ContentionCase, VCPUS, WaiterCall};
use exitscope_lab::{LabMachine, PrivilegeRing};
use exitscope_policy::Policies;
use exitscope_skips::{Skipped, or_skip};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Guests of two tests at a time would be in each other's way.
static TURN: Mutex<()> = Mutex::new(());

/// The machine, for one test at a time.
fn machine() -> Result<(LabMachine, MutexGuard<'static, ()>), Skipped> {
    let guard = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    Ok((common::machine()?, guard))
}

#[test]
fn balls_are_never_lost_whoever_polls() {
    let (machine, _turn) = or_skip!(machine());
    let work = ComputeSpeed::measure(&machine).unwrap().step(10_000);
    for polls in [
        PollMode::Nobody,
        PollMode::Kvm(100_000),
        PollMode::Guest(100_000),
        PollMode::Guest(0),
        PollMode::RunLoop(0),
        PollMode::RunLoop(100_000),
    ] {
        let mut game = PingPong::new(&machine, polls, work).unwrap();
        let turn = game.turn(&machine, 211, false, false).unwrap();
        let pages = [0, 1].map(|vcpu| game.payload().page(vcpu));
        for page in &pages {
            assert_eq!(page.done.0[op::RECEIVE as usize], 211, "{polls:?}");
            assert_eq!(page.wakes_sent + page.wakes_saved, 211, "{polls:?}");
            assert!(page.polls_paid <= page.polls && page.ipis_spared <= page.wakes_saved, "{polls:?}");
        }
        match polls {
            // The limit is at least 50 us after the first halt, and 10 us of work end within it unless the machine is very busy:
            // some time it is not.
            PollMode::Guest(100_000) => {
                let mut spares = || game.turn(&machine, 211, false, false).unwrap().spared > 0;
                assert!(turn.spared > 0 || (0..50).any(|_| spares()), "{turn:?}");
            }
            _ => assert_eq!(turn.spared, 0, "{polls:?}"),
        }
        if machine.ring() == PrivilegeRing::Three || matches!(polls, PollMode::RunLoop(_)) {
            assert_eq!(turn.account.count(LabExitReason::Halt), turn.halts, "{polls:?}");
            assert_eq!(turn.account.count(LabExitReason::Wake), turn.wakes, "{polls:?}");
        }
        match polls {
            PollMode::RunLoop(0) | PollMode::Guest(0) => assert_eq!(turn.polls, Some([0, 0]), "{polls:?}"),
            // By KVM's own counters, if it has some: a VM whose cap is 0 is not polled for.
            PollMode::Nobody => assert_eq!(turn.polls.unwrap_or([0, 0]), [0, 0]),
            PollMode::Kvm(_) => assert!(turn.polls.is_none_or(|[polled, paid]| paid <= polled), "{:?}", turn.polls),
            PollMode::Guest(_) => {}
            PollMode::RunLoop(_) => {
                let [polled, paid] = turn.polls.unwrap();
                assert!(
                    paid <= polled && (polled < turn.halts || turn.halts == 0),
                    "the first halt of each has no poll"
                );
            }
        }
    }
}

/// Each tunable of the governor makes it decide otherwise: what its limit is at the end, of a vCPU that waits for a short time and
/// then for a long one, or for a short one alone.
#[test]
fn each_tunable_of_the_guests_governor_is_obeyed() {
    const MS: u64 = 1_000_000;
    let (machine, _turn) = or_skip!(machine());
    let speed = ComputeSpeed::measure(&machine).unwrap();
    let (short, long) = (speed.step(10_000), speed.step(200 * MS));
    let limit = |set: &[(&str, u64)], work: &[ProgramStep]| {
        let mut policies = Policies::default();
        set.iter().for_each(|(name, value)| policies.set(name, *value).unwrap());
        let polls = PollMode::Guest(policies.guest_halt_poll.guest_halt_poll_ns.0);
        let mut game = PingPong::tuned(&machine, polls, policies, work.to_vec()).unwrap();
        game.turn(&machine, 5, false, false).unwrap();
        game.payload().page(0).poll_limit_ns
    };
    // Whatever halts, it is for less than four seconds: the first halt makes the limit what growing begins with, and polls end no later.
    let wide = ("guest_halt_poll_ns", 4_000 * MS);
    assert_eq!(limit(&[wide, ("guest_halt_poll_grow_start", 900 * MS)], &[short]), 900 * MS);
    assert_eq!(limit(&[("guest_halt_poll_ns", 0)], &[short]), 0);
    // Short halts make it grow, and the last one, of 160 ms or more, makes it shrink, if it may.
    let base =
        [("guest_halt_poll_ns", 40 * MS), ("guest_halt_poll_grow_start", 20 * MS), ("guest_halt_poll_shrink", 0)];
    assert_eq!(limit(&base, &[short, long]), 0);
    for other in [("guest_halt_poll_shrink", 1), ("guest_halt_poll_allow_shrink", 0)] {
        let end = limit(&[&base[..], &[other]].concat(), &[short, long]);
        assert!([20 * MS, 40 * MS].contains(&end), "{other:?}: {end}");
    }
    // A limit that nothing ever ends in time grows by its factor: 1 us, 7 us, 49 us, …
    let grow = [wide, ("guest_halt_poll_grow_start", 1_000), ("guest_halt_poll_grow", 7)];
    let end = limit(&grow, &[short]);
    assert!((0..12).any(|times| end == 1_000 * 7u64.pow(times)), "{end}");
}

#[test]
fn every_call_of_a_waiter_is_answered_and_the_lock_keeps_others_out() {
    let (machine, _turn) = or_skip!(machine());
    let mut contention = Contention::new(&machine).unwrap();
    for says in [WaiterCall::Nothing, WaiterCall::Diag44, WaiterCall::Diag9c, WaiterCall::Diag9cSensing] {
        for (sleep_ns, spin_retry) in [(0, 0), (0, 1_000), (100_000, 100)] {
            let case = ContentionCase { sleep_ns, says, spin_retry };
            let turn = contention.turn(&machine, case, 41, Duration::ZERO, false).unwrap();
            let out = &turn.dispatched;
            let locks = 41 * u64::from(VCPUS);
            assert_eq!((turn.locks, out.counted), (locks, locks), "{case:?}");
            assert!(turn.contended <= locks, "{case:?}");
            let [undirected, directed, senses] = turn.calls;
            assert_eq!(out.fast_path + out.normal_path, undirected, "{case:?}");
            assert_eq!(out.directed + out.already_running + out.ignored_otherwise, directed, "{case:?}");
            assert_eq!(out.account.count(LabExitReason::Yield), undirected, "{case:?}");
            assert_eq!(out.account.count(LabExitReason::YieldTo), directed, "{case:?}");
            assert_eq!(out.account.count(LabExitReason::Sense), 0, "{case:?}: sensing is by memory");
            assert_eq!(out.account.count(LabExitReason::Sleep), if sleep_ns > 0 { locks } else { 0 }, "{case:?}");
            let says_44 = says == WaiterCall::Diag44;
            let says_9c = matches!(says, WaiterCall::Diag9c | WaiterCall::Diag9cSensing);
            assert!(says_44 || undirected == 0, "{case:?}");
            assert!(says_9c || directed == 0, "{case:?}");
            assert!(says == WaiterCall::Diag9cSensing || senses == 0, "{case:?}");
            assert!((0.0..=1.0).contains(&out.queue_empty) && out.queue_depth <= f64::from(VCPUS), "{case:?}");
        }
    }
}

#[test]
fn programs_without_an_end_are_told_to_stop() {
    let (machine, _turn) = or_skip!(machine());
    let mut contention = Contention::new(&machine).unwrap();
    let case = ContentionCase { sleep_ns: 0, says: WaiterCall::Diag9c, spin_retry: 0 };
    let turn = contention.turn(&machine, case, 0, Duration::from_millis(50), false).unwrap();
    assert!(turn.locks >= turn.dispatched.counted && turn.dispatched.counted > 0);
    assert_eq!(turn.dispatched.fast_path + turn.dispatched.normal_path, 0);
    assert!(turn.dispatched.elapsed >= Duration::from_millis(50));
}

#[test]
fn exits_take_siblings_along_only_within_a_virtual_core() {
    let (machine, _turn) = or_skip!(machine());
    let mut group = GangGuest::new(&machine).unwrap();
    for width in [1, 2, 4] {
        for beside in SiblingLoad::ALL {
            let turn = group.turn(&machine, width, beside, 0, Duration::from_millis(30), false).unwrap();
            let gangs = &turn.ganged.gangs;
            let reads: u64 = turn.ganged.accounts.iter().map(|account| account.count(LabExitReason::PortIn)).sum();
            let what = format!("{width} {beside:?}: {gangs:?}, {reads} reads");
            assert!(turn.rounds > 0, "{what}");
            if width == 1 {
                assert_eq!((gangs.ganged, gangs.forced), (0, 0), "{what}");
            }
            if width == 2 && matches!(beside, SiblingLoad::Exits | SiblingLoad::Storm) {
                // vCPU 0 never leaves by itself, so that each of the other's exits takes it along. A read or two may come
                // after the stop.
                assert!(gangs.ganged == gangs.own && gangs.ganged == gangs.runs, "{what}");
                assert!(gangs.ganged <= reads && reads <= gangs.ganged + 3, "{what}");
            }
            if !matches!(beside, SiblingLoad::Exits | SiblingLoad::Storm) {
                assert_eq!((gangs.ganged, reads), (0, 0), "{what}");
            }
        }
    }
}

#[test]
fn programs_of_known_length_make_as_many_exits_whatever_the_group() {
    let (machine, _turn) = or_skip!(machine());
    let mut group = GangGuest::new(&machine).unwrap();
    for width in [1, 2, 4] {
        let turn = group.turn(&machine, width, SiblingLoad::Storm, 101, Duration::ZERO, false).unwrap();
        assert_eq!(turn.ganged.accounts[0].count(LabExitReason::PortIn), 0, "{width}");
        assert_eq!(turn.ganged.accounts[1].count(LabExitReason::PortIn), 101, "{width}");
    }
}
