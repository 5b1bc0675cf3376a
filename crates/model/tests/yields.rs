//! Yields, and where others were meanwhile, as the events of three hypervisors tell it.

use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use proptest::prelude::*;

const PAUSE: ExitCode = ExitCode::new(CodeList::Vmx, 40);
const VMCALL: ExitCode = ExitCode::new(CodeList::Vmx, 18);
const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);

/// Of vCPU `n` of VM 1, whose thread is 10 + n, on CPU `n`.
fn of(at: u64, vcpu: u32, kind: EventKind) -> Event {
    Event {
        at: Moment::from_nanos(at),
        tid: Tid(10 + vcpu),
        vm: VmId(1),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(vcpu),
        name: NameId(0),
        kind,
    }
}

fn exit(at: u64, vcpu: u32, code: ExitCode) -> Event {
    of(at, vcpu, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 })
}

fn enter(at: u64, vcpu: u32) -> Event {
    of(at, vcpu, EventKind::Enter)
}

fn switch(at: u64, cpu: u32, prev: u32, sleeps: bool, next: u32) -> Event {
    let kind = EventKind::switch(Tid(prev), sleeps, Tid(next));
    Event { tid: Tid(prev), ..Event::nameless(Moment::from_nanos(at), PcpuId(cpu), kind) }
}

fn call(at: u64, vcpu: u32, kind: SubjectKind, key: u64, value: u64) -> Event {
    of(at, vcpu, EventKind::Detail(Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key, value }))
}

#[derive(Debug, Default, PartialEq)]
struct Found {
    yields: Vec<Yield>,
    preemptions: Vec<Preemption>,
    stays: Vec<RunQueueInterval>,
}

impl Found {
    /// Stays of the run queue: from when, to when, how many waited.
    fn stays(&self) -> Vec<(u64, u64, u32)> {
        self.stays.iter().map(|stay| (stay.from.as_nanos(), stay.to.as_nanos(), stay.waiting)).collect()
    }
}

fn assemble_in(mut assembler: Assembler, events: &[Event], batch: usize) -> Found {
    let (mut rows, mut ledger, mut found) = (Vec::new(), Ledger::default(), Found::default());
    let mut take = |assembler: &Assembler| {
        found.yields.extend(assembler.yields());
        found.preemptions.extend(assembler.preemptions());
        found.stays.extend(assembler.queue_stays());
    };
    for events in events.chunks(batch.max(1)) {
        assembler.push(events, &mut rows, &mut ledger);
        take(&assembler);
    }
    assembler.finish(&mut rows, &mut ledger);
    take(&assembler);
    found
}

fn assemble(events: &[Event]) -> Found {
    assemble_in(Assembler::default(), events, usize::MAX)
}

#[test]
fn a_pause_exit_while_a_sibling_is_preempted_is_one_that_could_help() {
    let found = assemble(&[
        // Both are known, and vCPU 1 loses its CPU.
        exit(0, 0, IO),
        enter(10, 0),
        exit(0, 1, IO),
        enter(20, 1),
        switch(100, 1, 11, false, 99),
        // vCPU 0 spins, yields, spins, yields; KVM gives its CPU to vCPU 1.
        exit(1_000, 0, PAUSE),
        enter(1_300, 0),
        exit(2_300, 0, PAUSE),
        of(2_350, 0, EventKind::PleWindow { new: 8_192, old: 4_096 }),
        switch(2_400, 0, 10, false, 11),
        switch(2_900, 0, 11, true, 10),
        enter(3_000, 0),
    ]);
    let [first, second] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!(
        (first.call, first.guest, first.again, first.recipient),
        (YieldCall::Pause, Nanos(990), false, YieldRecipient::Nobody)
    );
    assert_eq!(first.found, Some(RunnableSiblings { preempted: 1, woken: 0 }));
    assert_eq!(
        (second.guest, second.again, second.recipient, second.waited),
        (Nanos(1_000), true, YieldRecipient::Sibling, Nanos(500))
    );
    assert_eq!((second.window, second.entered), (Some(4_096), Some(Moment::from_nanos(3_000))));
    let [preempted, given] = found.preemptions[..] else { panic!("{found:?}") };
    assert_eq!((preempted.who.vcpu, preempted.yields), (VcpuId(1), 2));
    assert_eq!((preempted.first, preempted.ran), (Some(Moment::from_nanos(1_000)), Some(Moment::from_nanos(2_400))));
    assert_eq!((given.who.vcpu, given.yields, given.first), (VcpuId(0), 0, None), "the one that gave its CPU away");
    assert_eq!((preempted.by, given.by), (Some(Tid(99)), Some(Tid(11))));
    // From the scheduler's first word to the last event, both CPUs.
    let time = |waiting| -> u64 {
        let of = found.stays.iter().filter(|stay| stay.waiting == waiting);
        of.map(|stay| stay.to.as_nanos() - stay.from.as_nanos()).sum()
    };
    assert_eq!((time(1), time(0)), (2_300 + 500, 2 * 2_900 - 2_800));
}

#[test]
fn a_holder_that_runs_and_one_that_sleeps_are_no_preempted_ones() {
    for (sleeps, place) in
        [(None, TargetState::Running), (Some(true), TargetState::Halted), (Some(false), TargetState::Preempted)]
    {
        let mut events = vec![exit(0, 0, IO), enter(1, 0), exit(2, 1, IO), enter(3, 1), switch(4, 5, 77, true, 78)];
        events.extend(sleeps.map(|sleeps| switch(100, 1, 11, sleeps, 99)));
        events.extend([exit(200, 0, VMCALL), call(210, 0, SubjectKind::Hypercall, 11, 1), enter(300, 0)]);
        let found = assemble(&events);
        let [of] = found.yields[..] else { panic!("{found:?}") };
        assert_eq!((of.call, of.target, of.target_state), (YieldCall::SchedYield, Some(VcpuId(1)), place));
        let waiters = RunnableSiblings { preempted: u32::from(place == TargetState::Preempted), woken: 0 };
        assert_eq!((of.found, of.recipient), (Some(waiters), YieldRecipient::Nobody));
    }
}

#[test]
fn without_the_schedulers_events_nothing_is_said_of_others() {
    let found = assemble(&[exit(0, 1, IO), enter(5, 1), exit(10, 0, PAUSE), enter(20, 0)]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.found, of.target_state, of.recipient), (None, TargetState::Unknown, YieldRecipient::Unknown));
    assert_eq!((found.preemptions.len(), found.stays.len()), (0, 0));
}

#[test]
fn every_call_is_told_and_one_exit_is_one_yield() {
    for (kind, key, value, expected) in [
        (SubjectKind::Hypercall, 11, 3, Some((YieldCall::SchedYield, Some(3)))),
        (SubjectKind::Hypercall, 5, 0, Some((YieldCall::KickCpu, None))),
        (SubjectKind::Hypercall, 9, 0, None),
        (SubjectKind::HypervHypercall, 8, 0, Some((YieldCall::LongSpinWait, None))),
        (SubjectKind::Diag, 0x44, 0, Some((YieldCall::Diag44, None))),
        (SubjectKind::Diag, 0x9c, 0, Some((YieldCall::Diag9c, None))),
        (SubjectKind::Diag, 0x500, 0, None),
        (SubjectKind::PpcHcall, 0xe4, 2, Some((YieldCall::Confer, Some(2)))),
        (SubjectKind::PpcHcall, 0xe4, u64::MAX, Some((YieldCall::Confer, None))),
        (SubjectKind::PpcHcall, 0xe8, 1, Some((YieldCall::Prod, Some(1)))),
        (SubjectKind::XenHypercall, 29, 0, Some((YieldCall::SchedOp, None))),
        (SubjectKind::XenHypercall, 29, 3, None),
        (SubjectKind::Port, 11, 0, None),
    ] {
        let twice = [call(1, 0, kind, key, value), call(2, 0, kind, key, value)];
        let found = assemble(&[&[exit(0, 0, VMCALL)], &twice[..], &[enter(9, 0)]].concat());
        let seen = found.yields.iter().map(|of| (of.call, of.target.map(|target| target.0)));
        assert_eq!(seen.collect::<Vec<_>>(), Vec::from_iter(expected), "{kind:?} {key:#x}");
    }
    let wfx = ExitCode::new(CodeList::Arm64Ec, 1);
    let of = |wfe| assemble(&[exit(0, 0, wfx), of(1, 0, EventKind::Wfx { wfe }), enter(9, 0)]).yields.len();
    assert_eq!((of(true), of(false)), (1, 0), "a WFI has nothing to do");
}

#[test]
fn on_powerpc_threads_that_run_other_vcpus_say_nothing_of_them() {
    let trap = |at, vcpu| {
        of(
            at,
            vcpu,
            EventKind::Exit {
                code: ExitCode::new(CodeList::PpcTrap, 0xc00),
                idle: false,
                words: SubjectWord::NONE,
                rip: 0,
            },
        )
    };
    let found = assemble(&[
        trap(0, 0),
        enter(5, 0),
        switch(6, 0, 10, false, 11),
        trap(10, 0),
        call(11, 0, SubjectKind::PpcHcall, 0xe4, 1),
        enter(20, 0),
    ]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.target_state, of.found, of.recipient), (TargetState::Unknown, None, YieldRecipient::Unknown));
    assert!(found.preemptions.is_empty() && found.stays.is_empty());
}

#[test]
fn on_xen_the_next_record_of_the_cpu_says_who_has_it() {
    use RunState::{Blocked, Runnable, Running};
    let state = |at, vm, vcpu, from, to| Event {
        vm,
        vcpu: VcpuId(vcpu),
        ..Event::nameless(Moment::from_nanos(at), PcpuId(0), EventKind::RunState { from, to })
    };
    let xen = |at, vcpu, kind| Event { cpu: PcpuId(0), tid: Tid(0), ..of(at, vcpu, kind) };
    let (guest, other) = (VmId(1), VmId::DOMAIN_0);
    let yields = |next: VmId, vcpu| {
        let events = [
            state(0, guest, 0, Runnable, Running),
            state(1, next, vcpu, Blocked, Runnable),
            xen(
                10,
                0,
                EventKind::Exit {
                    code: ExitCode::new(CodeList::Svm, 0x81),
                    idle: false,
                    words: SubjectWord::NONE,
                    rip: 0,
                },
            ),
            // The hypercall's number alone does not say that it yields.
            xen(
                11,
                0,
                EventKind::Detail(Subject {
                    kind: SubjectKind::XenHypercall,
                    write: false,
                    form: PortAccessForm::Unknown,
                    size: 0,
                    key: 29,
                    value: 0,
                }),
            ),
            xen(12, 0, EventKind::Yield),
            state(13, guest, 0, Running, Runnable),
            state(13, next, vcpu, Runnable, Running),
            state(50, next, vcpu, Running, Runnable),
            state(50, guest, 0, Runnable, Running),
            xen(60, 0, EventKind::Enter),
        ];
        let found = assemble_in(Assembler::by_vcpu(), &events, usize::MAX);
        let [of] = found.yields[..] else { panic!("{found:?}") };
        assert_eq!((of.call, of.waited), (YieldCall::SchedOp, Nanos(37)));
        (of.recipient, of.found)
    };
    let woken = |woken| Some(RunnableSiblings { preempted: 0, woken });
    assert_eq!(yields(guest, 1), (YieldRecipient::Sibling, woken(1)));
    assert_eq!(yields(other, 0), (YieldRecipient::Other, woken(0)));
    assert_eq!(yields(VmId::IDLE_DOMAIN, 0).0, YieldRecipient::Other);
}

#[test]
fn what_a_loss_cut_is_counted_and_claims_no_length() {
    let found = assemble(&[
        exit(0, 1, IO),
        enter(1, 1),
        switch(2, 1, 11, false, 99),
        exit(5, 0, PAUSE),
        Event::lost(Moment::from_nanos(6), PcpuId(0), 3),
        enter(900, 0),
        switch(1_000, 1, 99, true, 11),
    ]);
    assert_eq!(found.yields.iter().map(|of| of.entered).collect::<Vec<_>>(), [None]);
    assert_eq!(found.preemptions.iter().map(|of| of.ran).collect::<Vec<_>>(), [None]);
}

fn any_event() -> impl Strategy<Value = EventKind> {
    let code = prop_oneof![Just(PAUSE), Just(VMCALL), Just(IO)];
    let tid = || (9u32..14).prop_map(Tid);
    prop_oneof![
        code.prop_map(|code| EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }),
        Just(EventKind::Enter),
        (0u64..12, 0u64..4).prop_map(|(key, value)| EventKind::Detail(Subject {
            kind: SubjectKind::Hypercall,
            write: false,
            form: PortAccessForm::Unknown,
            size: 0,
            key,
            value
        })),
        (tid(), any::<bool>(), tid()).prop_map(|(prev, sleeps, next)| EventKind::switch(prev, sleeps, next)),
        tid().prop_map(|tid| EventKind::Wakeup { tid }),
        Just(EventKind::Yield),
        Just(EventKind::Lost { count: 1 }),
    ]
}

proptest! {
    #[test]
    fn batches_change_nothing_and_nothing_is_told_twice(
        kinds in prop::collection::vec((any_event(), 0u32..4), 0..120), batch in 1usize..40, xen: bool
    ) {
        let events: Vec<Event> =
            kinds.iter().enumerate().map(|(at, (kind, vcpu))| of(at as u64 * 10, *vcpu, *kind)).collect();
        let fresh = || if xen { Assembler::by_vcpu() } else { Assembler::default() };
        let whole = assemble_in(fresh(), &events, usize::MAX);
        prop_assert_eq!(&assemble_in(fresh(), &events, batch), &whole);
        let said = kinds.iter().filter(|(kind, _)| match kind {
            EventKind::Exit { code, .. } => *code == PAUSE,
            EventKind::Detail(detail) => matches!(detail.key, 5 | 11),
            kind => *kind == EventKind::Yield,
        });
        prop_assert!(whole.yields.len() <= said.count());
        prop_assert!(whole.stays.iter().all(|stay| stay.from < stay.to && stay.waiting <= 4));
        for of in &whole.preemptions {
            prop_assert!(of.ran.is_none_or(|ran| ran >= of.at));
            prop_assert_eq!(of.yields > 0, of.first.is_some());
        }
    }
}

#[test]
fn the_cpu_goes_to_the_one_that_was_named_to_a_sibling_or_to_others() {
    // vCPUs 0, 1 and 2 of VM 1, and a vCPU of another VM, whose thread is 50.
    let other = |at, kind| Event { tid: Tid(50), vm: VmId(9), vcpu: VcpuId(1), cpu: PcpuId(6), ..of(at, 0, kind) };
    let known = [0, 1, 2].map(|vcpu| enter(5, vcpu));
    let gave = |next: &[u32]| {
        let mut events = [&known[..], &[other(6, EventKind::Enter), switch(8, 7, 77, true, 78)]].concat();
        events.extend([exit(1_000, 0, VMCALL), call(1_010, 0, SubjectKind::Hypercall, 11, 1)]);
        let mut at = 1_020;
        for next in next {
            events.extend([switch(at, 0, 10, false, *next), switch(at + 30, 0, *next, true, 10)]);
            at += 50;
        }
        events.push(enter(1_200, 0));
        let found = assemble(&events);
        let [of] = found.yields[..] else { panic!("{found:?}") };
        assert_eq!(
            (of.at, of.target, of.waited.0),
            (Moment::from_nanos(1_000), Some(VcpuId(1)), 30 * next.len() as u64)
        );
        of.recipient
    };
    assert_eq!(gave(&[11]), YieldRecipient::Target);
    assert_eq!(gave(&[12]), YieldRecipient::Sibling);
    assert_eq!(gave(&[50]), YieldRecipient::Other, "another VM's vCPU 1");
    assert_eq!(gave(&[99]), YieldRecipient::Other, "no vCPU at all");
    assert_eq!(gave(&[]), YieldRecipient::Nobody);
    assert_eq!(gave(&[12, 11]), YieldRecipient::Sibling, "whom it went to first");
}

#[test]
fn who_sleeps_after_a_yield_gives_nothing_away() {
    let found = assemble(&[
        enter(5, 0),
        enter(5, 1),
        switch(8, 7, 77, true, 78),
        exit(1_000, 0, PAUSE),
        switch(1_010, 0, 10, true, 11),
        switch(1_040, 0, 11, false, 10),
        enter(1_100, 0),
    ]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.recipient, of.waited, of.was_out), (YieldRecipient::Nobody, Nanos::ZERO, false));
    let preempted: Vec<_> = found.preemptions.iter().map(|of| (of.who.vcpu.0, of.by)).collect();
    assert_eq!(preempted, [(1, Some(Tid(10)))]);
}

#[test]
fn whether_a_vcpu_was_switched_out_since_its_last_yield_and_spins_on_is_told() {
    let found = assemble(&[
        enter(5, 0),
        exit(100, 0, PAUSE),
        enter(120, 0),
        switch(150, 0, 10, false, 99),
        switch(180, 0, 99, true, 10),
        exit(200, 0, PAUSE),
        enter(230, 0),
        exit(270, 0, IO),
        enter(280, 0),
        exit(330, 0, PAUSE),
        enter(370, 0),
    ]);
    let told = |of: &Yield| (of.at.as_nanos(), of.guest.0, of.again, of.was_out, of.entered.map(Moment::as_nanos));
    let expected =
        [(100, 95, false, false, Some(120)), (200, 20, true, true, Some(230)), (330, 50, false, false, Some(370))];
    assert_eq!(found.yields.iter().map(told).collect::<Vec<_>>(), expected);
}

#[test]
fn the_window_of_pause_loops_is_told_where_it_grew() {
    for (new, old, window) in [(8_192, 4_096, Some(4_096)), (4_096, 4_096, None), (4_096, 8_192, None)] {
        let found = assemble(&[
            enter(5, 0),
            // Of no yield.
            of(50, 0, EventKind::PleWindow { new: 99, old: 9 }),
            exit(100, 0, PAUSE),
            of(110, 0, EventKind::PleWindow { new, old }),
            enter(120, 0),
        ]);
        assert_eq!(found.yields.iter().map(|of| of.window).collect::<Vec<_>>(), [window], "{new} {old}");
    }
}

#[test]
fn a_vcpu_is_found_by_the_number_that_its_thread_is_learned_to_run() {
    let unnamed = |event: Event| Event { vcpu: VcpuId::UNKNOWN, ..event };
    for (learned, place) in [(true, TargetState::Running), (false, TargetState::Unknown)] {
        let mut events = vec![switch(1, 5, 77, true, 78), unnamed(exit(5, 1, IO)), unnamed(enter(10, 1))];
        events.extend(learned.then(|| exit(20, 1, IO)));
        events.extend([exit(200, 0, VMCALL), call(210, 0, SubjectKind::Hypercall, 11, 1), enter(300, 0)]);
        let found = assemble(&events);
        assert_eq!(found.yields.iter().map(|of| of.target_state).collect::<Vec<_>>(), [place], "{learned}");
    }
}

/// Where `kvm_exit` never fires, the call is told before the return to user space, and `KVM_RUN` is what enters.
#[test]
fn without_kvm_exit_a_yield_lasts_from_its_call_to_the_next_run() {
    let user = |at| of(at, 0, EventKind::UserspaceExit { reason: 2, errno: 0 });
    let found = assemble(&[
        user(0),
        of(10, 0, EventKind::RunEnter),
        call(50, 0, SubjectKind::Hypercall, 11, 1),
        user(80),
        switch(85, 0, 10, false, 99),
        switch(95, 0, 99, true, 10),
        of(100, 0, EventKind::RunEnter),
        user(200),
        of(230, 0, EventKind::RunEnter),
    ]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.at.as_nanos(), of.guest, of.waited), (50, Nanos(40), Nanos(10)));
    assert_eq!(of.entered, Some(Moment::from_nanos(100)));
}

#[test]
fn with_kvm_exit_a_yield_ends_at_the_entry_and_not_when_kvm_run_is_called() {
    let found = assemble(&[
        enter(5, 0),
        exit(100, 0, PAUSE),
        of(110, 0, EventKind::UserspaceExit { reason: 10, errno: -4 }),
        of(140, 0, EventKind::RunEnter),
        of(150, 0, EventKind::Fpu { load: true }),
        enter(160, 0),
    ]);
    assert_eq!(found.yields.iter().map(|of| of.entered).collect::<Vec<_>>(), [Some(Moment::from_nanos(160))]);
}

#[test]
fn on_xen_a_vcpu_that_makes_no_exits_yields_until_it_runs_again() {
    use RunState::{Blocked, Runnable, Running};
    let on = |at, vm, kind| Event {
        vm: VmId(vm),
        vcpu: VcpuId(0),
        ..Event::nameless(Moment::from_nanos(at), PcpuId(2), kind)
    };
    let state = |at, vm, from, to| on(at, vm, EventKind::RunState { from, to });
    let yields = |then: RunState| {
        let events = [
            state(10, 1, Runnable, Running),
            state(12, 2, Blocked, Runnable),
            on(50, 1, EventKind::Yield),
            state(60, 1, Running, then),
            state(60, 2, Runnable, Running),
            state(85, 2, Running, Blocked),
            state(90, 1, then, Running),
            state(95, 1, Running, Runnable),
            state(95, 2, Runnable, Running),
        ];
        let found = assemble_in(Assembler::by_vcpu(), &events, usize::MAX);
        let [of] = found.yields[..] else { panic!("{found:?}") };
        assert_eq!((of.at.as_nanos(), of.guest, of.target_state), (50, Nanos::ZERO, TargetState::Unknown));
        assert_eq!((of.waited, of.entered), (Nanos(40), Some(Moment::from_nanos(90))));
        of.recipient
    };
    assert_eq!(yields(Runnable), YieldRecipient::Other);
    assert_eq!(yields(Blocked), YieldRecipient::Nobody, "it has nothing to do, and gives nothing away");
}

#[test]
fn a_preempted_vcpu_is_by_whoever_took_its_cpu_and_the_idle_task_is_nobody() {
    let by = |next| {
        let found = assemble(&[enter(5, 0), switch(100, 0, 10, false, next), switch(170, 3, 0, false, 10)]);
        let [of] = found.preemptions[..] else { panic!("{found:?}") };
        assert_eq!((of.at.as_nanos(), of.ran.map(Moment::as_nanos)), (100, Some(170)));
        let stays = found.stays();
        // It waited for the CPU that it had lost, and got another.
        assert_eq!(stays, [(100, 170, 1), (100, 170, 0)], "{next}");
        of.by
    };
    assert_eq!((by(99), by(0)), (Some(Tid(99)), None));
}

#[test]
fn on_xen_a_vcpu_waits_for_the_cpu_that_it_left_last() {
    use RunState::{Runnable, Running};
    let state = |at, cpu, from, to| Event {
        vm: VmId(1),
        vcpu: VcpuId(0),
        ..Event::nameless(Moment::from_nanos(at), PcpuId(cpu), EventKind::RunState { from, to })
    };
    let events = [
        state(10, 1, Runnable, Running),
        state(30, 1, Running, Runnable),
        // It gets another CPU than it waited for, and loses that.
        state(70, 4, Runnable, Running),
        state(100, 4, Running, Runnable),
        state(150, 4, Runnable, Running),
    ];
    let found = assemble_in(Assembler::by_vcpu(), &events, usize::MAX);
    let stays = found.stays();
    assert_eq!(stays, [(10, 30, 0), (30, 70, 1), (10, 100, 0), (100, 150, 1), (70, 150, 0)]);
    let preempted: Vec<_> =
        found.preemptions.iter().map(|of| (of.at.as_nanos(), of.ran.map(Moment::as_nanos))).collect();
    assert_eq!(preempted, [(30, Some(70)), (100, Some(150))]);
    // Heard of first when it was woken, it waits where that was recorded.
    let events = [state(10, 3, RunState::Blocked, Runnable), state(25, 3, Runnable, Running)];
    let found = assemble_in(Assembler::by_vcpu(), &events, usize::MAX);
    let [stay] = found.stays[..] else { panic!("{found:?}") };
    assert_eq!((stay.from.as_nanos(), stay.to.as_nanos(), stay.waiting), (10, 25, 1));
    assert!(found.preemptions.is_empty());
}

#[test]
fn on_xen_a_hypercalls_number_is_no_yield() {
    let xen = |at, kind| Event { cpu: PcpuId(0), tid: Tid(0), ..of(at, 0, kind) };
    let hypercall = ExitCode::new(CodeList::Svm, 0x81);
    let detail = Subject {
        kind: SubjectKind::XenHypercall,
        write: false,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 29,
        value: 0,
    };
    let events = [
        xen(10, EventKind::Exit { code: hypercall, idle: false, words: SubjectWord::NONE, rip: 0 }),
        xen(11, EventKind::Detail(detail)),
        xen(60, EventKind::Enter),
    ];
    assert_eq!(assemble_in(Assembler::by_vcpu(), &events, usize::MAX).yields, []);
    // A Xen guest on KVM says it by the same, with its argument.
    assert_eq!(assemble(&events).yields.len(), 1);
}

#[test]
fn what_another_vm_and_its_own_vcpus_do_is_told_apart() {
    let other = |at, kind| Event { tid: Tid(50), vm: VmId(9), vcpu: VcpuId(1), cpu: PcpuId(6), ..of(at, 0, kind) };
    // vCPU 1 of the other VM is preempted, that of this one runs.
    let found = assemble(&[
        enter(5, 0),
        enter(5, 1),
        other(6, EventKind::Enter),
        switch(8, 6, 50, false, 99),
        exit(100, 0, VMCALL),
        call(110, 0, SubjectKind::Hypercall, 11, 1),
        enter(130, 0),
    ]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.target_state, of.found), (TargetState::Running, Some(RunnableSiblings::default())));
    // Woken, it waits for a CPU and was not preempted.
    let found = assemble(&[
        enter(5, 0),
        enter(5, 1),
        switch(8, 1, 11, true, 99),
        wakeup(50, 11),
        exit(100, 0, VMCALL),
        call(110, 0, SubjectKind::Hypercall, 11, 1),
        enter(130, 0),
    ]);
    let [of] = found.yields[..] else { panic!("{found:?}") };
    assert_eq!((of.target_state, of.found), (TargetState::Runnable, Some(RunnableSiblings { preempted: 0, woken: 1 })));
    assert!(found.preemptions.is_empty());
}

/// The thread is woken.
fn wakeup(at: u64, tid: u32) -> Event {
    Event::nameless(Moment::from_nanos(at), PcpuId(3), EventKind::Wakeup { tid: Tid(tid) })
}

#[test]
fn on_xen_the_idle_domain_has_a_cpu_only_when_it_runs() {
    use RunState::{Blocked, Runnable, Running};
    let on = |at, vm, vcpu, kind| Event {
        vm,
        vcpu: VcpuId(vcpu),
        ..Event::nameless(Moment::from_nanos(at), PcpuId(2), kind)
    };
    let state = |at, vm, vcpu, from, to| on(at, vm, vcpu, EventKind::RunState { from, to });
    let gave = |next: Event| {
        let events = [
            state(10, VmId(1), 0, Runnable, Running),
            state(12, VmId(1), 1, Blocked, Runnable),
            on(50, VmId(1), 0, EventKind::Yield),
            state(60, VmId(1), 0, Running, Runnable),
            next,
            state(62, VmId(1), 1, Runnable, Running),
            state(90, VmId(1), 0, Runnable, Running),
        ];
        let found = assemble_in(Assembler::by_vcpu(), &events, usize::MAX);
        let [of] = found.yields[..] else { panic!("{found:?}") };
        of.recipient
    };
    assert_eq!(gave(state(61, VmId::IDLE_DOMAIN, 2, Runnable, Running)), YieldRecipient::Other);
    assert_eq!(gave(state(61, VmId::IDLE_DOMAIN, 2, Running, Runnable)), YieldRecipient::Sibling);
}
