//! Halt polling, yields and gangs on this machine's real KVM: what is certain whatever the machine's speed and load.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
mod length;

use exitscope_lab::abi::{ProgramStep, op};
use exitscope_lab::agree;
use exitscope_lab::compute_speed::{ComputeSpeed, Computed};
use exitscope_lab::exit_account::LabExitReason;
use exitscope_lab::gang::{GangCase, GangGuest, SiblingLoad};
use exitscope_lab::haltpoll::{PingPong, PollMode};
use exitscope_lab::loaded_vm::{LoadedVm, VcpuProgram, repeat};
use exitscope_lab::measure::MeasurePlan;
use exitscope_lab::run_loop::{Setup, parkers, serve};
use exitscope_lab::session::LabSession;
use exitscope_lab::yielding::{Contention, ContentionCase, ContentionRun, VCPUS, WaiterCall};
use exitscope_lab::{LabError, LabMachine, PrivilegeRing, VmConfig, Watch};
use exitscope_policy::Policies;
use exitscope_skips::{Skipped, or_skip};
use length::long_enough;
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
    let speed = ComputeSpeed::measure(&machine).unwrap();
    for polls in [
        PollMode::Nobody,
        PollMode::Kvm(100_000),
        PollMode::Guest(100_000),
        PollMode::Guest(0),
        PollMode::GuestInRunLoop(100_000),
        PollMode::RunLoop(0),
        PollMode::RunLoop(100_000),
    ] {
        let mut game = PingPong::new(&machine, polls, 10_000).unwrap();
        let turn = game.turn(&machine, speed, 211, false, false).unwrap();
        let pages = [0, 1].map(|vcpu| game.payload().page(vcpu));
        // Each ball is computed after the one before it: those of both are one chain.
        let ball = speed.step(10_000).b;
        assert_eq!((turn.computed.chain, turn.computed.span), (2 * 211 * ball, turn.span), "{polls:?}");
        for page in &pages {
            assert_eq!((page.passes, page.done.0[op::RECEIVE as usize]), (211 * ball, 211), "{polls:?}");
            assert_eq!(page.wakes_sent + page.wakes_saved, 211, "{polls:?}");
            assert!(page.polls_paid <= page.polls && page.ipis_spared <= page.wakes_saved, "{polls:?}");
        }
        match polls {
            // The limit is at least 50 us after the first halt, and 10 us of work end within it unless the machine is very busy:
            // some time it is not.
            PollMode::Guest(100_000) | PollMode::GuestInRunLoop(100_000) => {
                let mut spares = || game.turn(&machine, speed, 211, false, false).unwrap().spared > 0;
                assert!(turn.spared > 0 || (0..50).any(|_| spares()), "{turn:?}");
            }
            _ => assert_eq!(turn.spared, 0, "{polls:?}"),
        }
        if machine.ring() == PrivilegeRing::Three || matches!(polls, PollMode::RunLoop(_) | PollMode::GuestInRunLoop(_))
        {
            assert_eq!(turn.account.count(LabExitReason::Halt), turn.halts, "{polls:?}");
            assert_eq!(turn.account.count(LabExitReason::Wake), turn.wakes, "{polls:?}");
        }
        match polls {
            PollMode::RunLoop(0) | PollMode::Guest(0) => assert_eq!(turn.polls, Some([0, 0]), "{polls:?}"),
            // By KVM's own counters, if it has some: a VM whose cap is 0 is not polled for.
            PollMode::Nobody => assert_eq!(turn.polls.unwrap_or([0, 0]), [0, 0]),
            PollMode::Kvm(_) => assert!(turn.polls.is_none_or(|[polled, paid]| paid <= polled), "{:?}", turn.polls),
            PollMode::Guest(_) | PollMode::GuestInRunLoop(_) => {}
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
    let (short, long) = (10_000, 200 * MS);
    let limit = |set: &[(&str, u64)], gaps_ns: &[u64]| {
        let mut policies = Policies::default();
        set.iter().for_each(|(name, value)| policies.set(name, *value).unwrap());
        let polls = PollMode::Guest(policies.guest_halt_poll.guest_halt_poll_ns.0);
        let mut game = PingPong::tuned(&machine, polls, policies, gaps_ns.to_vec()).unwrap();
        game.turn(&machine, speed, 5, false, false).unwrap();
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
    let speed = ComputeSpeed::measure(&machine).unwrap();
    for says in [WaiterCall::Nothing, WaiterCall::Diag44, WaiterCall::Diag9c, WaiterCall::Diag9cSensing] {
        for (sleep_ns, spin_retry) in [(0, 0), (0, 1_000), (100_000, 100)] {
            let case = ContentionCase { sleep_ns, says, spin_retry };
            let run = ContentionRun { rounds: 41, length: Duration::ZERO, pin: false, events: false };
            let turn = contention.turn(&machine, speed, case, run).unwrap();
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
fn a_turn_that_cannot_be_is_done_again_or_is_an_error() {
    let (machine, _turn) = or_skip!(machine());
    let plan = MeasurePlan::default();
    let second = machine.span(0, machine.tsc_hz);
    // A second of computing in a second, and 1.3 of it.
    let of = |speed: ComputeSpeed, ns| Computed { chain: speed.step(ns).b, span: second };
    let mut session = LabSession::new(&machine, &plan, true).unwrap();
    let mut speeds = Vec::new();
    let tries = session.possible("a guest", |speed| {
        speeds.push(speed);
        // In the first two, as much as the machine was faster then than it was measured to be.
        Ok((speeds.len(), of(speeds[0], if speeds.len() < 3 { 1_300_000_000 } else { 1_000_000_000 })))
    });
    assert_eq!(tries.unwrap(), 2, "with steps set by the faster speed, as much is possible");
    assert!(speeds[0].slower_than(&speeds[1]) > 1.29);
    let warnings = session.findings("none", "").unwrap().warnings;
    assert!(
        warnings.iter().any(|said| said.starts_with("1 turn repeated with compute steps set anew")),
        "{warnings:?}"
    );
    let mut session = LabSession::new(&machine, &plan, true).unwrap().with_retries(3);
    let mut tried = 0;
    let never = session.possible("a guest", |speed| {
        tried += 1;
        Ok(((), of(speed, 1_300_000_000)))
    });
    assert!(matches!(never, Err(LabError::Impossible(_))) && tried == 4, "{never:?} {tried}");
}

#[test]
fn a_lock_and_its_computing_are_one_chain_and_what_no_one_waits_for_is_none() {
    let (machine, _turn) = or_skip!(machine());
    let step = |op, a, b| ProgramStep { op, a, b, c: 0 };
    let config = VmConfig { irqchip: false, ..VmConfig::new(2, PrivilegeRing::Three) };
    let mut guests = LoadedVm::new(&machine, config).unwrap();
    let speed = ComputeSpeed::measure(&machine).unwrap();
    for (locked, chain) in [(true, 2 * 301 * 5_000), (false, 301 * 5_000)] {
        let compute = step(op::COMPUTE, 0, 5_000);
        let (lock, unlock) = (step(op::LOCK, 7, 0), step(op::UNLOCK, 7, 0));
        let body = if locked { vec![lock, compute, unlock] } else { vec![compute] };
        let programs = vec![VcpuProgram::Steps(repeat(301, &body)); 2];
        guests.load(&machine, &Policies::default(), 0, speed, &programs).unwrap();
        let parkers = parkers(2);
        let setup = Setup::new(&machine, &parkers);
        let watch = Watch::new(Duration::from_secs(20));
        watch.run(&mut guests.vcpus, |vcpu, watch| serve(vcpu, &setup, watch)).unwrap();
        assert_eq!(guests.payload.chain(0..2), chain, "locked: {locked}");
        assert_eq!([0, 1].map(|vcpu| guests.payload.page(vcpu).passes), [301 * 5_000; 2]);
    }
}

/// Whether both sides found something in a round.
fn measured(pair: &agree::Agreement) -> bool {
    [0, 1].iter().all(|&side| pair.rounds.iter().any(|of| [of.0, of.1][side] > 0.0))
}

#[test]
fn lab_run_and_each_experiment_measure_the_same_programs() {
    let (machine, _turn) = or_skip!(machine());
    let run = |duration| agree::run(&machine, &MeasurePlan { rounds: 2, duration, ..MeasurePlan::default() }).unwrap();
    let (all, findings) = long_enough(Duration::from_millis(16), run, |(all, _)| all.iter().all(measured));
    let count = |experiment| all.iter().filter(|pair| pair.experiment == experiment).count();
    // Two gaps with and without polls, and what these gain; pio's seven ways but for KVM's own port.
    assert_eq!(["haltpoll", "yield", "gang", "pio"].map(count), [6, 2, 3, 6]);
    for pair in &all {
        assert!(pair.rounds.len() == 2 && measured(pair), "{pair:?}");
    }
    assert!(!findings.manifest.kept_on.is_empty() || machine.cpus.len() < 2, "{:?}", findings.manifest);
}

#[test]
fn programs_without_an_end_are_told_to_stop() {
    let (machine, _turn) = or_skip!(machine());
    let mut contention = Contention::new(&machine).unwrap();
    let case = ContentionCase { sleep_ns: 0, says: WaiterCall::Diag9c, spin_retry: 0 };
    let speed = ComputeSpeed::measure(&machine).unwrap();
    let run = |length| {
        let turn =
            contention.turn(&machine, speed, case, ContentionRun { rounds: 0, length, pin: true, events: false });
        (length, turn.unwrap())
    };
    let (length, turn) = long_enough(Duration::from_millis(50), run, |(_, turn)| turn.dispatched.counted > 0);
    assert!(turn.locks >= turn.dispatched.counted && turn.dispatched.counted > 0);
    assert_eq!(turn.dispatched.fast_path + turn.dispatched.normal_path, 0);
    assert!(turn.dispatched.span.length() >= length);
}

#[test]
fn exits_take_siblings_along_only_within_a_virtual_core() {
    let (machine, _turn) = or_skip!(machine());
    let mut group = GangGuest::new(&machine).unwrap();
    let speed = ComputeSpeed::measure(&machine).unwrap();
    for width in [1, 2, 4] {
        for beside in SiblingLoad::ALL {
            let case = GangCase { width, beside, pin: true, events: false };
            let run = |length| group.turn(&machine, speed, &case, 0, length).unwrap();
            let turn = long_enough(Duration::from_millis(30), run, |turn| turn.ganged.counted > 0);
            let gangs = &turn.ganged.gangs;
            let reads: u64 = turn.ganged.accounts.iter().map(|account| account.count(LabExitReason::PortIn)).sum();
            let what = format!("{width} {beside:?}: {gangs:?}, {reads} reads");
            assert!(turn.ganged.counted > 0, "{what}");
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
    let speed = ComputeSpeed::measure(&machine).unwrap();
    for width in [1, 2, 4] {
        let case = GangCase { width, beside: SiblingLoad::Storm, pin: false, events: false };
        let turn = group.turn(&machine, speed, &case, 101, Duration::ZERO).unwrap();
        assert_eq!(turn.ganged.accounts[0].count(LabExitReason::PortIn), 0, "{width}");
        assert_eq!(turn.ganged.accounts[1].count(LabExitReason::PortIn), 101, "{width}");
    }
}
