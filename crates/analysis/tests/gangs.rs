//! Ganged exits: who joins a run, whose runs overlap, who shares a core.

use exitscope_analysis::{CoreRunPairing, ForcedOutExit, GangFacts, GangMember, GangStats, SubjectKey};
use exitscope_model::{
    CodeList, Event, EventKind, ExitCode, NameId, PortAccessForm, Subject, SubjectKind, SubjectWord,
};
use exitscope_policy::vcore::{H_DOORBELL, ThreadExit};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeSet;

/// An event of a runner's thread, about a vCPU of a VM.
fn event(at: u64, (vm, tid, cpu): (u32, u32, u32), vcpu: u32, kind: EventKind) -> Event {
    Event {
        at: Moment::from_nanos(at),
        tid: Tid(tid),
        vm: VmId(vm),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(cpu),
        name: NameId::NONE,
        kind,
    }
}

fn exit(trap: u64, idle: bool) -> EventKind {
    EventKind::Exit { code: ExitCode::new(CodeList::PpcTrap, trap), idle, words: SubjectWord::NONE, rip: 0 }
}

fn run_core(exit: bool, runnable: u32) -> EventKind {
    EventKind::RunCore { exit, runnable }
}

fn gangs(events: &[Event]) -> GangFacts {
    let mut gangs = GangFacts::default();
    events.iter().for_each(|event| gangs.absorb(event, |_| true));
    gangs.end();
    gangs
}

const SYSCALL: u64 = 0xc00;
const FORCED: u64 = H_DOORBELL as u64;

#[test]
fn a_vcpu_that_joins_a_run_under_way_belongs_to_it() {
    let runner = (5, 7, 0);
    let late = (5, 9, 3);
    let gangs = gangs(&[
        event(1, runner, 0, run_core(false, 2)),
        // It enters by its own thread, on another CPU, after the run began.
        event(5, late, 2, EventKind::Enter),
        event(10, runner, 0, exit(SYSCALL, false)),
        event(10, runner, 1, exit(FORCED, false)),
        event(10, runner, 2, exit(FORCED, false)),
        event(11, runner, 0, run_core(true, 3)),
        event(30, late, 2, EventKind::Enter),
    ]);
    let [vcore] = &gangs.vcores(None)[..] else { panic!("{:?}", gangs.vcores(None)) };
    assert_eq!(vcore.vcpus, [VcpuId(0), VcpuId(1), VcpuId(2)]);
    let cell = &vcore.stats;
    assert_eq!((cell.runs, cell.joined, cell.ganged, cell.forced), (1, 1, 1, 2));
    // One of the two that were forced out is back, 20 ns later.
    assert_eq!((cell.lost.count, cell.lost.sum, gangs.unpaired), (1, 20, 0));
}

#[test]
fn runs_of_several_cores_overlap_and_vcpus_of_several_vms_have_the_same_numbers() {
    let (a, b) = ((5, 7, 0), (6, 8, 4));
    let gangs = gangs(&[
        event(1, a, 0, run_core(false, 2)),
        event(2, b, 0, run_core(false, 2)),
        event(10, b, 0, exit(FORCED, false)),
        event(10, a, 0, exit(SYSCALL, false)),
        event(10, b, 1, exit(SYSCALL, false)),
        event(10, a, 1, exit(FORCED, false)),
        event(11, a, 0, run_core(true, 2)),
        event(12, b, 0, run_core(true, 2)),
        // The one of VM 6 that was forced out, not the one of VM 5 with the same number.
        event(20, b, 0, EventKind::Enter),
    ]);
    let vms = gangs.vms();
    assert_eq!((vms[&VmId(5)].ganged, vms[&VmId(5)].forced, vms[&VmId(5)].lost.count), (1, 1, 0));
    assert_eq!((vms[&VmId(6)].ganged, vms[&VmId(6)].forced, vms[&VmId(6)].lost.sum), (1, 1, 10));
    let causes: Vec<_> = gangs.causes().into_iter().map(|row| row.0).collect();
    assert_eq!(causes, [(VmId(5), VcpuId(0), 0xc00), (VmId(6), VcpuId(1), 0xc00)]);
    assert_eq!(gangs.vcores(None).len(), 2);
}

#[test]
fn vms_that_share_a_core_in_turn_are_told_apart() {
    let turn = |at, vm: u32, trap| {
        let runner = (vm, vm, 0);
        [
            event(at, runner, 0, run_core(false, 2)),
            event(at + 5, runner, 0, exit(SYSCALL, false)),
            event(at + 5, runner, 1, exit(trap, false)),
            event(at + 6, runner, 0, run_core(true, 2)),
        ]
    };
    let gangs = gangs(&[turn(0, 5, FORCED), turn(10, 6, SYSCALL), turn(20, 5, FORCED)].concat());
    let vcores = gangs.vcores(None);
    let rows: Vec<_> = vcores.iter().map(|row| (row.vm.0, row.stats.runs, row.stats.forced)).collect();
    assert_eq!(rows, [(5, 2, 2), (6, 1, 0)]);
    assert!(vcores.iter().all(|row| row.stats.cpus == BTreeSet::from([PcpuId(0)])));
}

#[test]
fn threads_that_all_leave_for_the_shared_timer_or_never_entered_force_nobody() {
    let runner = (5, 7, 0);
    let gangs = gangs(&[
        event(1, runner, 0, run_core(false, 3)),
        event(10, runner, 0, exit(0x980, false)),
        event(10, runner, 1, exit(0x980, false)),
        event(10, runner, 2, exit(0x980, true)),
        event(11, runner, 0, run_core(true, 3)),
        event(21, runner, 0, run_core(false, 2)),
        event(30, runner, 0, exit(SYSCALL, false)),
        event(30, runner, 1, exit(0, false)),
        event(31, runner, 0, run_core(true, 2)),
        // One whose beginning was before the recording.
        event(40, (5, 10, 0), 0, run_core(true, 2)),
    ]);
    let cell = &gangs.vms()[&VmId(5)];
    assert_eq!((cell.runs, cell.two_active, cell.timer, cell.ganged, cell.forced), (2, 2, 1, 0, 0));
    assert_eq!((cell.too_late, gangs.unpaired), (1, 1));
}

/// Whom each event shows to be back after it was forced out.
fn forced_out_exits(events: &[Event]) -> Vec<ForcedOutExit> {
    let mut runs = CoreRunPairing::default();
    events.iter().filter_map(|event| runs.forced_out_exit(event)).collect()
}

#[test]
fn who_was_forced_out_is_told_when_it_is_back_with_who_had_to_leave() {
    let runner = (5, 7, 0);
    let member = |vcpu, trap| GangMember { vcpu: VcpuId(vcpu), left: ThreadExit { trap, ceded: false } };
    let back = |vcpu, at, lost, causes: &[GangMember]| ForcedOutExit {
        vm: VmId(5),
        vcpu: VcpuId(vcpu),
        at: Moment::from_nanos(at),
        lost: Nanos(lost),
        causes: causes.to_vec(),
    };
    let first = [
        event(1, runner, 0, run_core(false, 4)),
        event(10, runner, 0, exit(SYSCALL, false)),
        event(11, runner, 1, exit(FORCED, false)),
        event(12, runner, 2, exit(0x900, false)),
        event(13, runner, 3, exit(FORCED, false)),
        event(14, runner, 0, run_core(true, 4)),
    ];
    let causes = [member(0, 0xc00), member(2, 0x900)];
    let enter = |at, vcpu| event(at, (5, 9, 3), vcpu, EventKind::Enter);
    let entries = [enter(20, 0), enter(41, 1), enter(60, 1), enter(73, 3)];
    assert_eq!(
        forced_out_exits(&[&first[..], &entries].concat()),
        [back(1, 11, 30, &causes), back(3, 13, 60, &causes)]
    );
    // Entries of another VM's vCPUs show nothing, nor do those after a loss.
    let other = event(41, (6, 9, 3), 1, EventKind::Enter);
    assert_eq!(forced_out_exits(&[&first[..], &[other]].concat()), []);
    assert_eq!(
        forced_out_exits(&[&first[..], &[Event::lost(Moment::from_nanos(15), PcpuId(0), 1)], &entries].concat()),
        []
    );
    // One that left for a reason of its own since then was dragged by those of before.
    let second = [
        event(20, runner, 0, run_core(false, 2)),
        event(25, runner, 0, exit(FORCED, false)),
        event(25, runner, 1, exit(0xe00, false)),
        event(26, runner, 0, run_core(true, 2)),
    ];
    let seen = forced_out_exits(&[&first[..], &second, &[enter(41, 1), enter(45, 0)]].concat());
    assert_eq!(seen, [back(1, 11, 30, &causes), back(0, 25, 20, &[member(1, 0xe00)])]);
    // One that was alone was not forced by anybody.
    let alone = [
        event(1, runner, 0, run_core(false, 1)),
        event(10, runner, 0, exit(FORCED, false)),
        event(11, runner, 0, run_core(true, 1)),
        enter(30, 0),
    ];
    assert_eq!(forced_out_exits(&alone), []);
}

#[test]
fn sixteen_threads_of_a_run_are_kept_and_exits_of_others_are_none_of_it() {
    let runner = (5, 7, 0);
    let x86 = EventKind::Exit { code: ExitCode::new(CodeList::Vmx, 30), idle: false, words: SubjectWord::NONE, rip: 0 };
    for (threads, exits) in [(15, 15), (16, 16), (17, 16), (20, 16)] {
        let mut events = vec![event(1, runner, 0, run_core(false, threads)), event(2, runner, 0, x86)];
        events.extend((0..threads).map(|vcpu| event(10, runner, vcpu, exit(SYSCALL, false))));
        events.push(event(11, runner, 0, run_core(true, threads)));
        let gangs = gangs(&events);
        assert_eq!((gangs.vms()[&VmId(5)].exits, gangs.guest_exits), (exits, u64::from(threads)), "{threads}");
    }
}

#[test]
fn further_runs_than_may_be_open_are_not_paired() {
    const MOST: u32 = 1 << 16;
    let begin = |tid| event(1, (5, tid, 0), 0, run_core(false, 1));
    let mut gangs = GangFacts::default();
    (0..MOST).for_each(|tid| gangs.absorb(&begin(tid), |_| true));
    assert_eq!(gangs.unpaired, 0);
    gangs.absorb(&begin(MOST), |_| true);
    assert_eq!(gangs.unpaired, 1);
    // One that ends makes room.
    gangs.absorb(&event(2, (5, 3, 0), 0, run_core(true, 1)), |_| true);
    gangs.absorb(&begin(MOST), |_| true);
    assert_eq!(gangs.unpaired, 1);
    gangs.end();
    assert_eq!((gangs.unpaired, gangs.vms()[&VmId(5)].runs), (u64::from(MOST) + 1, 1));
}

#[test]
fn vcpus_that_were_seen_together_in_any_order_are_one_virtual_core() {
    let together = |vcpus: &[u32]| {
        let runner = (5, 7, 0);
        let mut events = vec![event(1, runner, vcpus[0], run_core(false, 2))];
        events.extend(vcpus.iter().map(|&vcpu| event(10, runner, vcpu, exit(SYSCALL, false))));
        events.push(event(11, runner, vcpus[0], run_core(true, 2)));
        events
    };
    let cores = |gangs: &GangFacts| {
        let numbers =
            |vcore: &exitscope_analysis::VcoreGangs| vcore.vcpus.iter().map(|vcpu| vcpu.0).collect::<Vec<_>>();
        gangs.vcores(None).iter().map(numbers).collect::<Vec<_>>()
    };
    // 9 comes to 4 by way of 7 and 8; 2 and 6 are apart from them.
    let pairs = [[8, 9], [7, 8], [2, 6], [4, 7]];
    let all = gangs(&pairs.iter().flat_map(|pair| together(pair)).collect::<Vec<_>>());
    assert_eq!(cores(&all), [vec![2, 6], vec![4, 7, 8, 9]]);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let mut merged = GangFacts::default();
        order.iter().for_each(|&at| merged.merge(&gangs(&together(&pairs[at as usize]))));
        assert_eq!(cores(&merged), cores(&all), "{order:?}");
        assert_eq!(merged.vms()[&VmId(5)].runs, 4);
    }
}

#[test]
fn causes_that_forced_most_come_first_then_those_of_most_runs() {
    let runner = (5, 7, 0);
    let run = |left: &[(u32, u64)]| {
        let mut events = vec![event(1, runner, 0, run_core(false, 4))];
        events.extend(left.iter().map(|&(vcpu, trap)| event(10, runner, vcpu, exit(trap, false))));
        events.push(event(11, runner, 0, run_core(true, 4)));
        events
    };
    let gangs = gangs(
        &[
            run(&[(0, 0x900), (1, FORCED)]),
            run(&[(3, SYSCALL), (1, FORCED), (2, FORCED), (0, FORCED)]),
            run(&[(0, 0xe00), (1, FORCED), (2, FORCED)]),
            run(&[(2, SYSCALL), (1, FORCED)]),
            run(&[(2, SYSCALL), (1, FORCED)]),
        ]
        .concat(),
    );
    let causes: Vec<_> = gangs
        .causes()
        .into_iter()
        .map(|((_, vcpu, trap), cause)| (vcpu.0, u64::from(trap), cause.forced, cause.runs))
        .collect();
    assert_eq!(causes, [(3, SYSCALL, 3, 1), (2, SYSCALL, 2, 2), (0, 0xe00, 2, 1), (0, 0x900, 1, 1)]);
    let GangStats { runs, ganged, exits, forced, .. } = gangs.vms()[&VmId(5)].clone();
    assert_eq!((runs, ganged, exits, forced), (5, 5, 13, 8));
}

#[test]
fn what_is_lost_to_a_call_leaves_out_what_another_virtual_core_had_of_the_cpu() {
    let (one, other) = ((5, 7, 0), (6, 8, 0));
    let call = Subject {
        kind: SubjectKind::PpcHcall,
        write: false,
        form: PortAccessForm::default(),
        size: 0,
        key: 0x58,
        value: 0,
    };
    let run = |lasts: u64| {
        [
            event(1, one, 0, run_core(false, 2)),
            event(2, one, 0, EventKind::Enter),
            event(2, one, 1, EventKind::Enter),
            event(10, one, 0, exit(SYSCALL, false)),
            event(10, one, 1, exit(FORCED, false)),
            event(11, one, 0, run_core(true, 2)),
            event(12, one, 0, EventKind::Detail(call)),
            event(20, other, 0, EventKind::Enter),
            event(20 + lasts, other, 0, exit(SYSCALL, false)),
            event(100, one, 1, EventKind::Enter),
        ]
    };
    let of_call =
        |gangs: &GangFacts| gangs.forced_by(|vm, _, about| (vm, about) == (VmId(5), Some(SubjectKey::of(call))));
    let mut some = gangs(&run(60));
    let cell = some.vms()[&VmId(5)].clone();
    assert_eq!((cell.lost.sum, cell.others, cell.cost()), (90, 60, 30));
    assert_eq!(of_call(&some), Nanos(30));
    assert_eq!(some.forced_by(|_, _, about| about.is_none()), Nanos::ZERO);
    let [(_, cause)] = some.causes()[..] else { panic!("{:?}", some.causes()) };
    assert_eq!(cause.lost, 90);
    some.merge(&gangs(&run(1)));
    assert_eq!((of_call(&some), some.vms()[&VmId(5)].cost()), (Nanos(30 + 89), 30 + 89));
}

#[test]
fn without_entries_a_thread_is_back_at_the_latest_when_its_next_run_begins_or_when_it_leaves_one_that_others_joined() {
    let runner = (5, 7, 0);
    let run = |at, runnable, left: &[(u32, u64)]| {
        let mut events = vec![event(at, runner, 0, run_core(false, runnable))];
        events.extend(left.iter().map(|&(vcpu, trap)| event(at + 10, runner, vcpu, exit(trap, false))));
        events.push(event(at + 11, runner, 0, run_core(true, runnable)));
        events
    };
    let enter = |at, vcpu| event(at, runner, vcpu, EventKind::Enter);
    let runs = [
        run(100, 2, &[(0, SYSCALL), (1, FORCED)]),
        vec![enter(198, 0), enter(199, 1)],
        run(200, 2, &[(0, SYSCALL), (1, FORCED)]),
        // The other one runs alone meanwhile; then vCPU 1 is back, and somebody joins.
        vec![enter(299, 0)],
        run(300, 1, &[(0, SYSCALL)]),
        vec![enter(399, 0), enter(399, 1), enter(404, 2)],
        run(400, 2, &[(0, SYSCALL), (1, SYSCALL), (2, SYSCALL)]),
        run(500, 2, &[(0, SYSCALL), (1, SYSCALL)]),
    ]
    .concat();
    let counts = |events: &[Event]| {
        let cell = gangs(events).vms()[&VmId(5)].clone();
        (cell.forced, cell.lost.sum, cell.lost_at_most)
    };
    assert_eq!(counts(&runs), (2, (199 - 110) + (399 - 210), 0));
    let without: Vec<Event> = runs.into_iter().filter(|event| event.kind != EventKind::Enter).collect();
    assert_eq!(counts(&without), (2, 0, (200 - 110) + (410 - 210)));
}

#[test]
fn the_script_counts_ceded_threads_by_process_whatever_core_they_are_of() {
    let (one, other) = ((5, 7, 0), (5, 8, 4));
    let begin = |at, runner| event(at, runner, 0, run_core(false, 2));
    let end = |at, runner| event(at, runner, 0, run_core(true, 2));
    let left = |at, runner, vcpu, ceded| event(at, runner, vcpu, exit(SYSCALL, ceded));
    let both = |at, runner, ceded| [left(at, runner, 0, false), left(at, runner, 1, ceded)];
    let counts = |events: &[Event]| {
        let gangs = gangs(events);
        (gangs.script.ganged()[&VmId(5)], gangs.vms()[&VmId(5)].script)
    };
    // One after the other: one that ceded in the first.
    let apart = [
        &[begin(1, one)][..],
        &both(10, one, true),
        &[end(11, one), begin(21, other)],
        &both(30, other, false),
        &[end(31, other)],
    ];
    assert_eq!(counts(&apart.concat()), (1, 1));
    // The second begins before the first ends: what ceded in the first is forgotten.
    let overlap = [
        &[begin(1, one)][..],
        &both(10, one, true),
        &[begin(11, other), end(12, one)],
        &both(30, other, false),
        &[end(31, other)],
    ];
    assert_eq!(counts(&overlap.concat()), (2, 1));
    // It begins before one of the first cedes: that one is taken off both.
    let early = [
        &[begin(1, one), begin(2, other)][..],
        &both(10, one, true),
        &[end(11, one)],
        &both(30, other, false),
        &[end(31, other)],
    ];
    assert_eq!(counts(&early.concat()), (0, 1));
    // A process of which only the end of a run was recorded.
    assert_eq!(gangs(&[end(11, one)]).script.ganged()[&VmId(5)], 1);
}
