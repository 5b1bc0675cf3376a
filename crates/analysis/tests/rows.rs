//! Rows of halts, core runs and yields, whole, of inputs so small that each figure can be added up by hand.

use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::collections::{BTreeMap, BTreeSet};

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(5), vcpu: VcpuId(vcpu), tid: Tid(50 + vcpu) }
}

/// How many, their sum, the longest.
fn of(lengths: &DurationStats) -> (u64, u64, u64) {
    (lengths.count, lengths.sum, lengths.max)
}

fn lengths(each: &[u64]) -> DurationStats {
    let mut lengths = DurationStats::default();
    each.iter().for_each(|length| lengths.record(Nanos(*length)));
    lengths
}

/// A halt from the exit to the entry, of which KVM told the last `length` nanoseconds before `end`.
fn halt(vcpu: u32, times: [u64; 3], wakeup: Option<(u64, bool)>, sleep: Option<(u64, u64)>) -> Halt {
    let [begin, end, entered] = times;
    Halt {
        who: who(vcpu),
        begin: at(begin),
        asleep: sleep.map(|sleep| at(sleep.0)),
        woken: sleep.map(|sleep| at(sleep.1)),
        vcpu_wakeup: wakeup.map(|(length, waited)| VcpuWakeup {
            length: Nanos(length),
            waited,
            valid: true,
            may_poll: true,
        }),
        change: None,
        kicked: false,
        ipi: None,
        end: at(end),
        entered: Some(at(entered)),
    }
}

#[test]
fn halts_of_a_vcpu_are_one_row_and_all_together_another() {
    let mut halts = Halts::default();
    let change = |grow, old, new| Some(PollChange { grow, new, old });
    // Caught before KVM said how long it polls: all of it was polled.
    halts.absorb(&halt(0, [1_000, 1_090, 1_100], Some((60, false)), None));
    // The poll of 100 failed, and becomes 200; woken 250 after KVM began, 150 too late.
    let slept = halt(0, [2_000, 2_420, 2_500], Some((400, true)), Some((2_130, 2_270)));
    halts.absorb(&Halt { change: change(true, 100, 200), ..slept });
    // Caught by the poll of 200, within it.
    halts.absorb(&halt(0, [3_000, 3_160, 3_170], Some((150, false)), None));
    // Caught 50 after it ended, which makes it 0.
    let late = halt(0, [4_000, 4_260, 4_300], Some((250, false)), None);
    halts.absorb(&Halt { change: change(false, 200, 0), ..late });
    // Of zero nothing is polled, whether it slept or not.
    halts.absorb(&halt(0, [5_000, 5_110, 5_150], Some((100, true)), None));
    halts.absorb(&halt(0, [6_000, 6_010, 6_015], Some((5, false)), None));
    // Nothing came of it; a sibling's kick ended the next, of which KVM told nothing.
    let in_vain = halt(1, [1_000, 1_300, 1_310], Some((300, true)), Some((1_000, 1_200)));
    let wakeup = in_vain.vcpu_wakeup.map(|wakeup| VcpuWakeup { valid: false, ..wakeup });
    halts.absorb(&Halt { vcpu_wakeup: wakeup, ..in_vain });
    halts.absorb(&Halt { kicked: true, ..halt(1, [2_000, 2_700, 2_700], None, Some((2_100, 2_500))) });
    halts.absorb_cut(who(1));
    halts.absorb_in_user_space(who(1));
    let before = halts.clone();
    halts.end(|who| who);
    let info = TraceInfo::default();
    let of_vcpu = |vcpu: u32| WhoRow { vm: Some(5), vcpu: Some(vcpu), tid: Some(50 + vcpu), ..WhoRow::default() };
    let first = HaltRow {
        who: of_vcpu(0),
        has_wakeup_events: true,
        halts: 6,
        pending: 0,
        not_blocked: Some(4),
        blocked: Some(2),
        invalid: 0,
        kicked: 0,
        unfinished: 0,
        in_user_space: 0,
        // 90, 270, 160, 260, 110 (to its end, as nothing says what woke it) and 10.
        gaps: (6, 900, 270),
        inexact_gaps: 1,
        // 10, 230, 10, 40 and 5.
        latency: (5, 295, 230),
        latency_not_blocked: (4, 65, 40),
        latency_blocked: (1, 230, 230),
        successful_polls: 3,
        // 60, 150 and 200: no longer than its limit.
        poll_success_ns: 410,
        poll_fail_ns: Some(100),
        failed_polls: Some(1),
        // KVM began at 2,020.
        before_block_ns: Some(110),
        grown: 1,
        shrunk: 1,
    };
    let second = HaltRow {
        who: of_vcpu(1),
        has_wakeup_events: true,
        halts: 1,
        pending: 1,
        not_blocked: Some(0),
        blocked: Some(1),
        invalid: 1,
        kicked: 1,
        unfinished: 1,
        in_user_space: 1,
        gaps: (1, 200, 200),
        inexact_gaps: 0,
        latency: (1, 110, 110),
        latency_not_blocked: (0, 0, 0),
        latency_blocked: (1, 110, 110),
        successful_polls: 0,
        poll_success_ns: 0,
        poll_fail_ns: Some(0),
        failed_polls: Some(0),
        before_block_ns: Some(0),
        grown: 0,
        shrunk: 0,
    };
    let all = HaltRow {
        who: WhoRow::default(),
        halts: 7,
        pending: 1,
        not_blocked: Some(4),
        blocked: Some(3),
        invalid: 1,
        kicked: 1,
        unfinished: 1,
        in_user_space: 1,
        gaps: (7, 1_100, 270),
        latency: (6, 405, 230),
        latency_blocked: (2, 340, 230),
        ..first.clone()
    };
    assert_eq!(halts.rows(&info, of), (vec![first, second], all));
    let cell = &halts.vcpus[&who(0)];
    assert_eq!((of(&cell.late_caught), of(&cell.late_slept)), ((2, 55, 50), (2, 250, 150)));
    // Halts of which KVM would have told are none; where it tells of no other, they are.
    assert_eq!((before.all().halts(), halts.all().halts(), halts.all().has_wakeups()), (8, 7, true));
    let mut untold = Halts::default();
    untold.absorb(&halt(0, [2_000, 2_700, 2_750], None, None));
    untold.absorb(&halt(0, [3_000, 3_700, 3_750], None, Some((3_100, 3_500))));
    untold.end(|who| who);
    let (_, row) = untold.rows(&info, of);
    let gaps =
        (row.halts, row.not_blocked, row.gaps, row.inexact_gaps, row.latency, row.poll_fail_ns, row.before_block_ns);
    assert_eq!(gaps, (2, None, (2, 1_200, 700), 1, (1, 250, 250), None, None));
    assert_eq!(of(&untold.all().gaps_not_caught()), (2, 1_200, 700));
}

#[test]
fn gaps_are_told_apart_by_bounds_that_belong_to_the_shorter() {
    let mut halts = Halts::default();
    for (gap, waited) in
        [(5_000, false), (9_000, true), (15_000, true), (99_000, false), (2_000_000, true), (20_000_000, true)]
    {
        halts.absorb(&halt(0, [0, gap, gap + 10], Some((gap, waited)), waited.then_some((1, gap))));
    }
    let found = halts.all().buckets().into_iter().map(|of| (of.up_to.map(|bound| bound.0), of.caught, of.slept));
    let expected = [
        (Some(10_000), 1, 1),
        (Some(20_000), 0, 1),
        (Some(50_000), 0, 0),
        (Some(100_000), 1, 0),
        (Some(200_000), 0, 0),
        (Some(500_000), 0, 0),
        (Some(1_000_000), 0, 0),
        (Some(10_000_000), 0, 1),
        (None, 0, 1),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn core_runs_of_a_virtual_core_are_one_row() {
    let event = |nanos, tid, cpu, vcpu, kind| Event {
        at: at(nanos),
        tid: Tid(tid),
        vm: VmId(5),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(cpu),
        name: NameId::NONE,
        kind,
    };
    let left = |nanos, vcpu, trap: u64, idle| {
        let code = ExitCode::new(CodeList::PpcTrap, trap);
        event(nanos, 7, 0, vcpu, EventKind::Exit { code, idle, words: SubjectWord::NONE, rip: 0 })
    };
    let run = |nanos, exit, runnable| event(nanos, 7, 0, 0, EventKind::RunCore { exit, runnable });
    let doorbell = u64::from(H_DOORBELL);
    let mut gangs = GangFacts::default();
    let events = [
        // 0 forces 1 and 2 out, which are back 30 and 50 later; 3 is idle.
        run(0, false, 3),
        left(10, 0, 0xc00, false),
        left(10, 1, doorbell, false),
        left(10, 2, doorbell, false),
        left(10, 3, doorbell, true),
        run(11, true, 3),
        event(40, 8, 4, 1, EventKind::Enter),
        event(60, 9, 8, 2, EventKind::Enter),
        // 0 for the decrementer and 1 for a system call force 2 out, which is never seen again; 4 does not get in.
        run(100, false, 4),
        left(110, 0, 0x900, false),
        left(110, 1, 0xc00, false),
        left(110, 2, doorbell, false),
        left(110, 4, 0, false),
        run(111, true, 4),
        event(120, 8, 4, 1, EventKind::Enter),
        // The shared timer forces nobody; on another CPU.
        run(200, false, 2),
        left(210, 0, 0x980, false),
        left(210, 1, 0x980, false),
        Event { cpu: PcpuId(8), ..run(211, true, 2) },
        // A loss ends what is open, so that an end without a beginning follows; and a beginning without an end.
        run(300, false, 1),
        Event::lost(at(301), PcpuId(0), 1),
        run(302, true, 1),
        run(400, false, 1),
    ];
    events.iter().for_each(|event| gangs.absorb(event, |_| true));
    gangs.end();
    let expected = GangRow {
        vm: Some(5),
        vm_name: None,
        vcpus: Some(vec![0, 1, 2, 3, 4]),
        runs: 3,
        ganged_script: 3,
        runs_of_several: 3,
        decrementer: 1,
        ganged: 2,
        exits: 9,
        forced_exits: 3,
        entry_refused: 1,
        joined: 1,
        cpus: vec![0, 8],
        forced_out: (2, 80, 50),
    };
    let [vcore] = &gangs.vcores(None)[..] else { panic!("{:?}", gangs.vcores(None)) };
    assert_eq!(vcore.row(&TraceInfo::default(), of), expected);
    assert_eq!((gangs.unpaired, gangs.guest_exits), (2, 10));
    let cause = |runs, forced, lost| ForcingExits { runs, forced, lost };
    let key = |vcpu, trap| (VmId(5), VcpuId(vcpu), trap);
    let causes = [(key(0, 0xc00), cause(1, 2, 80)), (key(0, 0x900), cause(1, 1, 0)), (key(1, 0xc00), cause(1, 1, 0))];
    assert_eq!(gangs.causes(), causes);
    // Two threads a core instead of as seen: whoever runs the core has the runs, everybody his own exits.
    let pairs = gangs.vcores(Some(2)).into_iter().map(|vcore| {
        let numbers: Vec<u32> = vcore.vcpus.iter().map(|vcpu| vcpu.0).collect();
        (numbers, vcore.stats.runs, vcore.stats.exits, vcore.stats.forced, vcore.stats.lost.sum)
    });
    let expected = [(vec![0, 1], 3, 6, 1, 30), (vec![2, 3], 0, 2, 2, 50), (vec![4], 0, 1, 0, 0)];
    assert_eq!(pairs.collect::<Vec<_>>(), expected);
    let mut twice = gangs.clone();
    twice.merge(&gangs);
    assert_eq!((twice.unpaired, twice.guest_exits, twice.causes()[0].1), (4, 20, cause(2, 4, 160)));
    assert_eq!(twice.vms()[&VmId(5)].cpus, BTreeSet::from([PcpuId(0), PcpuId(8)]));
    // Of VMs that are not looked at only exits are counted.
    let mut none = GangFacts::default();
    events.iter().for_each(|event| none.absorb(event, |_| false));
    assert_eq!((none.vms().len(), none.causes().len(), none.guest_exits, none.unpaired), (0, 0, 10, 1));
}

#[test]
fn yields_are_counted_by_caller_by_target_and_by_whom_they_gave_the_cpu() {
    let of_call = |call, at_nanos, found, gave, again| Yield {
        who: who(0),
        at: at(at_nanos),
        call,
        target: None,
        target_state: TargetState::Unknown,
        found,
        guest: Nanos(70),
        again,
        was_out: false,
        window: None,
        recipient: gave,
        waited: Nanos(20),
        entered: Some(at(at_nanos + 90)),
    };
    let waiters = |preempted, woken| Some(RunnableSiblings { preempted, woken });
    use YieldCall::{KickCpu, Pause, SchedYield};
    let mut yields = YieldFacts::default();
    yields.absorb(&of_call(Pause, 0, waiters(1, 1), YieldRecipient::Sibling, false));
    yields.absorb(&of_call(Pause, 200, waiters(0, 2), YieldRecipient::Other, true));
    yields.absorb(&of_call(Pause, 400, waiters(0, 0), YieldRecipient::Nobody, true));
    yields.absorb(&Yield { entered: None, ..of_call(Pause, 600, None, YieldRecipient::Unknown, true) });
    let named = of_call(SchedYield, 800, waiters(1, 0), YieldRecipient::Target, true);
    yields.absorb(&Yield { target: Some(VcpuId(3)), target_state: TargetState::Preempted, ..named });
    yields.absorb(&Yield { target: Some(VcpuId(3)), target_state: TargetState::Halted, ..named });
    // Who wakes another does not go on spinning.
    yields.absorb(&of_call(KickCpu, 900, None, YieldRecipient::Nobody, true));
    let pause = YieldStats {
        count: 4,
        again: 3,
        between: lengths(&[70, 70, 70]),
        preempted: 1,
        woken: 1,
        nobody: 1,
        gave: [0, 1, 1, 1, 1],
        lasted: lengths(&[90, 90, 90]),
        waited: 80,
    };
    let sched_yield = YieldStats {
        count: 2,
        again: 2,
        between: lengths(&[70, 70]),
        preempted: 2,
        gave: [2, 0, 0, 0, 0],
        lasted: lengths(&[90, 90]),
        waited: 40,
        ..YieldStats::default()
    };
    let kick =
        YieldStats { count: 1, gave: [0, 0, 0, 1, 0], lasted: lengths(&[90]), waited: 20, ..YieldStats::default() };
    let cells = [(Pause, pause.clone()), (SchedYield, sched_yield), (KickCpu, kick)];
    let cells: BTreeMap<_, _> = cells.into_iter().map(|(call, cell)| ((who(0), call), cell)).collect();
    assert_eq!(yields.vcpus, cells);
    assert_eq!(yields.targets, BTreeMap::from([((VmId(5), VcpuId(3), SchedYield), [0, 1, 0, 1, 0])]));
    assert_eq!((pause.known(), yields.all(|call| call != KickCpu).count, yields.other_targets), (3, 6, 0));
    let mut twice = yields.clone();
    twice.merge(&yields);
    assert_eq!(twice.targets, BTreeMap::from([((VmId(5), VcpuId(3), SchedYield), [0, 2, 0, 2, 0])]));
    assert_eq!((twice.all(|_| true).count, twice.all(|_| true).waited, twice.all(|_| true).known()), (14, 280, 10));
}

#[test]
fn preemptions_are_counted_with_what_siblings_waited_and_the_longest_are_kept() {
    let lost = |vcpu, at_nanos, ran: Option<u64>, yields, first: Option<u64>| Preemption {
        who: who(vcpu),
        at: at(at_nanos),
        ran: ran.map(at),
        yields,
        first: first.map(at),
        by: None,
        yielded: false,
    };
    let mut yields = YieldFacts::default();
    yields.absorb_preemption(&lost(0, 100, Some(160), 0, None));
    yields.absorb_preemption(&lost(0, 200, None, 3, Some(210)));
    // Siblings waited for 10, 20, … 100 ns; of the same length the earliest come first.
    for number in 1..=10 {
        yields.absorb_preemption(&lost(1, number * 1_000, Some(number * 1_011), 2, Some(number * 1_001)));
    }
    yields.absorb_preemption(&lost(0, 300, Some(450), 1, Some(350)));
    let first =
        PreemptionStats { waits: lengths(&[60, 150]), cut: 1, yielded_for: 2, yields: 4, blocked: lengths(&[100]) };
    assert_eq!((&yields.preempted[&who(0)], yields.preempted[&who(0)].count()), (&first, 3));
    let longest: Vec<_> = yields.longest().iter().map(|of| of.at.as_nanos()).collect();
    assert_eq!(longest, [300, 10_000, 9_000, 8_000, 7_000, 6_000, 5_000, 4_000]);
    let mut twice = yields.clone();
    twice.merge(&yields);
    let of_first = &twice.preempted[&who(0)];
    assert_eq!((of_first.count(), of_first.cut, of_first.yielded_for, of_first.yields), (6, 2, 4, 8));
    assert_eq!(twice.longest()[..2], [yields.longest()[0]; 2]);
}

#[test]
fn windows_of_pause_loops_and_depths_of_the_run_queue_are_those_of_each_change() {
    let mut yields = YieldFacts::default();
    for (old, new) in [(4_096, 8_192), (8_192, 8_192), (8_192, 2_048), (2_048, 9_000)] {
        yields.absorb_window(&PleUpdate { who: who(0), at: at(1), new, old });
    }
    assert_eq!(yields.windows[&VmId(5)], PleCell { grown: 2, shrunk: 1, least: 2_048, most: 9_000 });
    for (from, to, waiting) in [(0, 100, 0), (100, 150, 8), (150, 180, 40), (1_500, 2_500, 2)] {
        yields.absorb_stay(&RunQueueInterval { from: at(from), to: at(to), waiting });
    }
    let queue = &yields.queue;
    // From eight on all are one.
    assert_eq!((queue.time, queue.span()), ([100, 0, 1_000, 0, 0, 0, 0, 0, 50 + 30], 1_180));
    assert_eq!((queue.waited, queue.most), (400 + 1_200 + 2_000, 40));
    let bucket = |begin, count, cost| (at(begin), Bucket { count, cost });
    let buckets = [bucket(0, 180, 1_600), bucket(1_000, 500, 1_000), bucket(2_000, 500, 1_000)];
    assert_eq!(queue.timeline.buckets(), (1_000, buckets.to_vec()));
    let mut twice = yields.clone();
    twice.merge(&yields);
    assert_eq!(twice.windows[&VmId(5)], PleCell { grown: 4, shrunk: 2, least: 2_048, most: 9_000 });
    assert_eq!((twice.queue.waited, twice.queue.most, twice.queue.span()), (7_200, 40, 2_360));
}
