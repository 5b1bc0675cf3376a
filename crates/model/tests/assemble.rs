//! Events in, exits out: the cases that every hypervisor's trace is made of, and the law that no event disappears.

use exitscope_model::codes::{EAGAIN, EINTR, KVM_EXIT_INTR};
use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use proptest::prelude::*;

const HLT: ExitCode = ExitCode::new(CodeList::Svm, 0x78);
const IO: ExitCode = ExitCode::new(CodeList::Svm, 0x7b);
const NPF: ExitCode = ExitCode::new(CodeList::Svm, 0x400);
const CPUID: ExitCode = ExitCode::new(CodeList::Svm, 0x72);
const KVM_EXIT_IO: u32 = 2;

fn event(at: u64, tid: u32, kind: EventKind) -> Event {
    Event {
        at: Moment::from_nanos(at),
        tid: Tid(tid),
        vm: VmId(1),
        vcpu: VcpuId::UNKNOWN,
        cpu: PcpuId(0),
        name: NameId(0),
        kind,
    }
}

fn exit(at: u64, code: ExitCode) -> Event {
    event(at, 10, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 })
}

fn enter(at: u64) -> Event {
    event(at, 10, EventKind::Enter)
}

fn port(at: u64, write: bool, value: u64) -> Event {
    let detail = Subject { kind: SubjectKind::Port, write, form: PortAccessForm::Unknown, size: 1, key: 0x3f8, value };
    event(at, 10, EventKind::Detail(detail))
}

/// An exit for a byte in (SVM): port, whether it is INS.
fn exit_in(at: u64, port: u64, string: bool) -> Event {
    let info1 = port << 16 | 1 | u64::from(string) << 2 | 1 << 4;
    event(
        at,
        10,
        EventKind::Exit {
            code: IO,
            idle: false,
            words: SubjectWord::new(IO, |word| (word == ExitWord::Info1).then_some(info1)),
            rip: 0,
        },
    )
}

fn assemble(events: &[Event]) -> (Vec<Exit>, Ledger, Vec<LaneSpan>) {
    let (rows, ledger, spans, _) = assemble_all(events);
    (rows, ledger, spans)
}

fn assemble_all(events: &[Event]) -> (Vec<Exit>, Ledger, Vec<LaneSpan>, Vec<CpuInterval>) {
    let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
    ledger.events = events.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })).count() as u64;
    assembler.push(events, &mut rows, &mut ledger);
    let mut stretches = assembler.cpu_intervals().to_vec();
    let spans = assembler.finish(&mut rows, &mut ledger);
    stretches.extend_from_slice(assembler.cpu_intervals());
    (rows, ledger, spans, stretches)
}

/// The parts of an exit that are not zero.
fn parts(exit: &Exit) -> Vec<(TimePart, u64)> {
    TimePart::OF_EXITS.map(|part| (part, exit.part(part).0)).into_iter().filter(|part| part.1 > 0).collect()
}

#[test]
fn an_exit_to_user_space_is_divided_at_the_return_and_at_the_next_run() {
    let (rows, ledger, spans) = assemble(&[
        enter(100),
        exit(1_000, IO),
        event(1_300, 10, EventKind::UserspaceExit { reason: KVM_EXIT_IO, errno: 0 }),
        event(5_300, 10, EventKind::Fpu { load: true }),
        port(5_400, false, 7),
        enter(5_800),
        exit(6_000, IO),
    ]);
    let row = rows[0];
    assert_eq!((row.guest, parts(&row)), (Nanos(900), vec![(TimePart::Kernel, 800), (TimePart::User, 4_000)]));
    assert_eq!((row.total(), row.handler), (Nanos(4_800), Handler::Userspace(KVM_EXIT_IO)));
    assert_eq!(
        row.subject.map(|detail| (detail.key, detail.value)),
        Some((0x3f8, 7)),
        "an IN's port comes after the trip"
    );
    assert_eq!((rows[1].timed, ledger.get(LedgerLine::UnfinishedExit)), (false, 1));
    assert_eq!(spans[0].first.as_nanos()..spans[0].last.as_nanos(), 100..6_000);
}

/// KVM looks for signals between two entries (`vcpu_run` of arch/x86/kvm/x86.c): by then it has answered the exit itself, or has
/// completed what user space answered.
#[test]
fn a_signal_answers_no_exit() {
    let returns = |at, reason, errno| event(at, 10, EventKind::UserspaceExit { reason, errno });
    let run = |at| event(at, 10, EventKind::Fpu { load: true });
    let answered = [returns(1_300, KVM_EXIT_IO, 0), run(1_500)];
    for (reason, errno) in [(KVM_EXIT_IO, EINTR), (KVM_EXIT_IO, EAGAIN), (KVM_EXIT_INTR, 0), (KVM_EXIT_INTR, EINTR)] {
        let signal = [returns(2_000, reason, errno), run(2_500), enter(3_000)];
        for (before, handler) in [(&[][..], Handler::Kernel), (&answered, Handler::Userspace(KVM_EXIT_IO))] {
            let begin = [enter(100), exit(1_000, IO), port(1_100, true, 7)];
            let (rows, ..) = assemble(&[&begin, before, &signal].concat());
            assert_eq!((rows.len(), rows[0].handler), (1, handler), "{reason} {errno}");
            assert!(rows[0].part(TimePart::Unknown).0 >= 500, "how long the VMM keeps the thread is no cost");
            assert!(rows[0].phases.has(PhaseBoundary::HandedOver), "it was in user space nevertheless");
        }
    }
}

#[test]
fn the_way_of_an_exit_divides_at_each_event_that_marks_a_step() {
    let switch = |at, prev: u32, sleeps, next: u32| event(at, prev, EventKind::switch(Tid(prev), sleeps, Tid(next)));
    let user = EventKind::UserspaceExit { reason: KVM_EXIT_IO, errno: 0 };
    let mut events = vec![
        exit(1_000, IO),
        event(1_010, 10, EventKind::Emulate),
        port(1_030, true, 7),
        event(1_100, 10, EventKind::Fpu { load: false }),
        event(1_150, 10, user),
        event(1_250, 10, EventKind::SyscallExit),
        event(1_300, 10, EventKind::Syscall { registers: true }),
        event(1_340, 10, EventKind::SyscallExit),
        event(1_400, 10, EventKind::Syscall { registers: false }),
        switch(1_410, 10, true, 99),
        event(1_810, 99, EventKind::Wakeup { tid: Tid(10) }),
        switch(1_830, 99, true, 10),
        event(1_840, 10, EventKind::SyscallExit),
        event(1_900, 10, EventKind::RunEnter),
        event(1_950, 10, EventKind::Fpu { load: true }),
        enter(2_000),
    ];
    let (rows, ..) = assemble(&events);
    let (row, way) = (rows[0], rows[0].phases);
    // Reaching, handling, leaving, user, asleep, entering; woken and not yet running is no step.
    assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [30, 70, 50 + 100, 50 + 110 + 70, 400, 100]);
    assert_eq!(parts(&row), [(TimePart::Kernel, 250), (TimePart::User, 730), (TimePart::Steal, 20)]);
    assert_eq!((way.handed, way.answered), (Nanos(150), Nanos(900)));
    assert_eq!((way.calls, way.in_calls), (2, Nanos(40 + 440)));
    assert_eq!((way.register_calls, way.in_register_calls), (1, Nanos(40)));
    assert!(PhaseBoundary::ALL.iter().all(|mark| way.has(*mark)));
    // Without system calls, the return to user space is part of user space; without kvm_fpu too, all of it is handling.
    events.retain(|event| {
        !matches!(event.kind, EventKind::Syscall { .. } | EventKind::SyscallExit | EventKind::RunEnter)
    });
    let way = assemble(&events).0[0].phases;
    assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [30, 70, 50, 380, 400, 50]);
    events.retain(|event| !matches!(event.kind, EventKind::Fpu { .. } | EventKind::Emulate | EventKind::Detail(_)));
    let way = assemble(&events).0[0].phases;
    assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [0, 150, 0, 430, 400, 0]);
    assert_eq!((way.handed, way.answered), (Nanos(150), Nanos(0)), "nothing says when it was answered");
}

#[test]
fn what_an_exit_says_of_a_port_completes_what_events_say() {
    let about = |events: &[Event]| assemble(events).0[0].subject.map(|of| (of.key, of.write, of.form, of.value));
    // Nobody recorded kvm_pio.
    assert_eq!(about(&[exit_in(0, 0x71, false), enter(10)]), Some((0x71, false, PortAccessForm::NonString, 0)));
    assert_eq!(about(&[exit_in(0, 0x1f0, true)]), Some((0x1f0, false, PortAccessForm::String, 0)), "nor its end");
    // The event has the value, the exit the form.
    assert_eq!(
        about(&[exit_in(0, 0x3f8, true), port(5, false, 9), enter(10)]),
        Some((0x3f8, false, PortAccessForm::String, 9))
    );
    // They contradict one another: the event is of the access that was made.
    let contradicted = [exit_in(0, 0x71, false), port(5, true, 9), enter(10)];
    assert_eq!(about(&contradicted), Some((0x3f8, true, PortAccessForm::Unknown, 9)));
    // The words of one exit are not the next one's.
    let (rows, ..) = assemble(&[exit_in(0, 0x71, false), enter(10), exit(20, IO), enter(30)]);
    assert_eq!(rows[1].subject, None);
}

#[test]
fn an_exit_of_a_nested_guest_is_told_from_the_guests_own() {
    let (rows, ledger, _) = assemble(&[
        event(0, 10, EventKind::Nested),
        exit(10, HLT),
        event(20, 10, EventKind::Nested),
        event(50, 10, EventKind::Reflect),
        enter(100),
        exit(200, HLT),
        enter(300),
    ]);
    assert_eq!(rows.iter().map(|row| row.code).collect::<Vec<_>>(), [HLT.of_nested(), HLT]);
    assert_eq!((rows[0].events, rows[0].is_halt, rows[1].is_halt), (4, false, true));
    assert_eq!(ledger.get(LedgerLine::OutsideExit), 1);
}

#[test]
fn signs_are_of_the_vcpu_in_whose_thread_they_are_or_of_another_thread_of_its_process() {
    let mut assembler = Assembler::default();
    let named = Event { vcpu: VcpuId(5), ..exit(10, HLT) };
    let events = [
        named,
        event(20, 10, EventKind::KvmActivity(KvmActivity::PmlFull)),
        event(30, 77, EventKind::KvmActivity(KvmActivity::NARROW)),
        enter(40),
    ];
    let (mut rows, mut ledger) = (Vec::new(), Ledger::default());
    assembler.push(&events, &mut rows, &mut ledger);
    let signs: Vec<_> = assembler.kvm_activity().iter().map(|of| (of.who.vcpu, of.who.tid, of.activity)).collect();
    assert_eq!(signs, [(VcpuId(5), Tid(10), KvmActivity::PmlFull), (VcpuId::UNKNOWN, Tid(77), KvmActivity::NARROW)]);
    assert_eq!((rows[0].events, ledger.get(LedgerLine::OutsideExit)), (3, 1));
}

#[test]
fn a_change_of_what_inhibits_apicv_is_an_activity_of_its_thread_and_says_all_that_is_in_force() {
    let mut assembler = Assembler::default();
    let change = ApicvChange { reason: 8, set: true, inhibits: 0x300 };
    let events = [
        Event { vcpu: VcpuId(5), ..exit(10, HLT) },
        event(20, 10, EventKind::ApicvChange(change)),
        event(30, 77, EventKind::ApicvChange(ApicvChange { set: false, inhibits: 0x200, ..change })),
    ];
    let (mut rows, mut ledger) = (Vec::new(), Ledger::default());
    assembler.push(&events, &mut rows, &mut ledger);
    let signs: Vec<_> = assembler.kvm_activity().iter().map(|of| (of.who.vcpu, of.activity)).collect();
    let expected = [(VcpuId(5), KvmActivity::ApicvInhibited(8)), (VcpuId::UNKNOWN, KvmActivity::ApicvAllowed(8))];
    assert_eq!(signs, expected);
    let changes: Vec<_> = assembler
        .beside_rows()
        .filter_map(|row| if let BesideRow::ApicvChange(of) = row { Some((of.at, of.change.inhibits)) } else { None })
        .collect();
    assert_eq!(changes, [(Moment::from_nanos(20), 0x300), (Moment::from_nanos(30), 0x200)]);
}

#[test]
fn an_exit_for_an_interrupt_of_the_hosts_is_for_the_first_that_is_served() {
    let interrupt = ExitCode::new(CodeList::Svm, 0x60);
    let external = ExitCode::new(CodeList::Vmx, 1);
    let served = |at, tid, kind, key| {
        let form = PortAccessForm::Unknown;
        event(at, tid, EventKind::Detail(Subject { kind, write: false, form, size: 0, key, value: 0 }))
    };
    let (irq, vector) = (SubjectKind::HostIrq, SubjectKind::HostVector);
    let served = |at, tid, kind, key: u64| match kind {
        SubjectKind::HostIrq => event(at, tid, EventKind::HostIrq { irq: key as u32, name: IrqName::new(b"nvme0q3") }),
        _ => served(at, tid, kind, key),
    };
    let with_vector = |at, vector: u64| {
        let words = SubjectWord::new(external, |word| (word == ExitWord::IntrInfo).then_some(1 << 31 | vector));
        event(at, 10, EventKind::Exit { code: external, idle: false, words, rip: 0 })
    };
    let (rows, ledger, _) = assemble(&[
        exit(100, interrupt),
        served(110, 10, irq, 131),
        served(120, 10, irq, 9),
        enter(200),
        // Before KVM tells of the exit, of which it is.
        served(290, 10, vector, 236),
        exit(300, interrupt),
        served(310, 10, irq, 9),
        enter(400),
        // Another thread's, and one while KVM handles something else.
        served(450, 77, irq, 7),
        exit(500, CPUID),
        served(510, 10, irq, 9),
        enter(600),
        with_vector(700, 0xec),
        served(710, 10, irq, 9),
        enter(800),
        with_vector(900, 0x31),
        served(910, 10, irq, 131),
        enter(1_000),
    ]);
    let subjects: Vec<_> = rows.iter().map(|row| row.subject.map(|of| (of.kind, of.key))).collect();
    assert_eq!(subjects, [Some((irq, 131)), Some((vector, 236)), None, Some((vector, 0xec)), Some((irq, 131))]);
    assert_eq!(ledger.get(LedgerLine::OutsideExit), 2);
}

#[test]
fn a_reason_that_is_told_again_is_that_of_the_same_exit() {
    let [privilege, idle] = [22, 64].map(|number| ExitCode::new(CodeList::Loongarch, number));
    let (rows, ledger, _) = assemble(&[
        exit(1_000, privilege),
        event(1_200, 10, EventKind::Refine { code: idle }),
        event(1_300, 10, EventKind::Refine { code: idle }),
        event(9_000, 10, EventKind::HaltEnd { ns: 7_500, waited: true, valid: true }),
        enter(9_400),
        event(9_500, 10, EventKind::Refine { code: idle }),
    ]);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].code, rows[0].is_halt, rows[0].events), (idle, true, 5));
    assert_eq!(parts(&rows[0]), [(TimePart::Kernel, 900), (TimePart::Undivided, 7_500)]);
    assert_eq!(ledger.get(LedgerLine::OutsideExit), 1);
}

#[test]
fn who_leaves_is_in_user_space_unless_it_is_said_when_that_has_it() {
    let leaves = [exit(1_000, IO), event(1_200, 10, EventKind::KvmOut)];
    let told = event(1_500, 10, EventKind::UserspaceExit { reason: KVM_EXIT_IO, errno: 0 });
    let (rows, ..) = assemble(&[&leaves[..], &[told, enter(5_000)]].concat());
    assert_eq!(
        (rows[0].handler, parts(&rows[0])),
        (Handler::Userspace(KVM_EXIT_IO), vec![(TimePart::Kernel, 500), (TimePart::User, 3_500)])
    );
    let steps =
        [ExitPhase::Handling, ExitPhase::ToUserSpace, ExitPhase::UserSpace].map(|step| rows[0].phases.time(step));
    assert_eq!(steps, [Nanos(200), Nanos(300), Nanos(3_500)]);
    let (rows, ..) = assemble(&[&leaves[..], &[enter(5_000)]].concat());
    assert_eq!(
        (rows[0].handler, parts(&rows[0])),
        (Handler::Userspace(0), vec![(TimePart::Kernel, 200), (TimePart::User, 3_800)])
    );
    assert_eq!(rows[0].phases.time(ExitPhase::UserSpace), Nanos(3_800));
}

#[test]
fn after_a_loss_the_open_exit_is_counted_but_not_timed() {
    let (rows, ledger, _) =
        assemble(&[exit(0, IO), event(50, 0, EventKind::Lost { count: 9 }), enter(100), exit(200, IO), enter(300)]);
    assert_eq!(rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [false, true]);
    assert_eq!((ledger.get(LedgerLine::SpansLoss), ledger.get(LedgerLine::EntryWithoutExit)), (1, 1));
    assert_eq!(rows[1].guest, Nanos(100), "guest time is known again from the first entry after the loss");
}

#[test]
fn a_back_end_without_kvm_exit_gives_rows_under_kvms_own_reasons() {
    let user = |at| event(at, 10, EventKind::UserspaceExit { reason: KVM_EXIT_IO, errno: 0 });
    let run = |at| event(at, 10, EventKind::Fpu { load: true });
    let put = |at| event(at, 10, EventKind::Fpu { load: false });
    let mut events = vec![run(0)];
    for n in 0..5 {
        let at = 1_000 * (n + 1);
        // A write is said before the return to user space, a read after the next run.
        match n % 2 {
            0 => events.extend([port(at, true, 1), put(at + 10), user(at + 20), run(at + 320)]),
            _ => events.extend([put(at + 10), user(at + 20), run(at + 320), port(at + 330, false, 2)]),
        }
    }
    let (rows, ledger, _) = assemble(&events);
    assert_eq!(rows.len(), 5);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row.code.name(), "KVM_EXIT_IO");
        assert_eq!((row.part(TimePart::User), row.timed), (Nanos(300), true));
        assert_eq!(row.subject.map(|detail| detail.write), Some(n % 2 == 0), "row {n}");
    }
    let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
    assert_eq!(inside + ledger.events_outside_rows(), ledger.events);
}

#[test]
fn the_tail_of_an_exit_from_before_the_recording_is_no_exit() {
    let (rows, ledger, _) = assemble(&[
        event(0, 10, EventKind::UserspaceExit { reason: KVM_EXIT_IO, errno: 0 }),
        event(10, 10, EventKind::Fpu { load: true }),
        enter(20),
        exit(100, IO),
        enter(200),
    ]);
    assert_eq!(rows.len(), 1);
    assert_eq!(ledger.get(LedgerLine::BeforeRecording), 2);
}

#[test]
fn powerpc_lanes_are_vcpus_because_one_thread_records_for_the_vcore() {
    let of = |at, vcpu, kind| Event { vcpu: VcpuId(vcpu), ..event(at, 77, kind) };
    let leave = EventKind::Exit {
        code: ExitCode::new(CodeList::PpcTrap, 0x500),
        idle: false,
        words: SubjectWord::NONE,
        rip: 0,
    };
    let (rows, ..) =
        assemble(&[of(0, 0, leave), of(10, 1, leave), of(100, 0, EventKind::Enter), of(120, 1, EventKind::Enter)]);
    let found: Vec<_> = rows.iter().map(|row| (row.who.vcpu.0, row.total().0)).collect();
    assert_eq!(found, [(0, 100), (1, 110)]);
}

/// Of a vCPU of a VM on powerpc, on CPU 8.
fn of_vcore(vm: u32, vcpu: u32, at: u64, kind: EventKind) -> Event {
    Event { vm: VmId(vm), vcpu: VcpuId(vcpu), cpu: PcpuId(8), ..event(at, 77, kind) }
}

const fn of_powerpc(number: u64, idle: bool) -> EventKind {
    EventKind::Exit { code: ExitCode::new(CodeList::PpcTrap, number), idle, words: SubjectWord::NONE, rip: 0 }
}

/// Steal and kernel of the exits, by VM and vCPU.
fn steal_and_kernel(events: &[Event]) -> Vec<(u32, u32, u64, u64)> {
    let (mut rows, ..) = assemble(events);
    rows.retain(|row| row.timed);
    rows.sort_by_key(|row| (row.who.vm, row.who.vcpu, row.at));
    let part = |row: &Exit, part| row.part(part).0;
    rows.iter()
        .map(|row| (row.who.vm.0, row.who.vcpu.0, part(row, TimePart::Steal), part(row, TimePart::Kernel)))
        .collect()
}

#[test]
fn while_another_virtual_core_has_the_cpu_an_exit_of_powerpc_waits() {
    const SYSCALL: EventKind = of_powerpc(0xc00, false);
    let hcall = Subject {
        kind: SubjectKind::PpcHcall,
        write: false,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 0x58,
        value: 0,
    };
    let elsewhere = |event: Event| Event { cpu: PcpuId(16), ..event };
    let core = EventKind::RunCore { exit: false, runnable: 1 };
    // Up to POWER8 the threads of a virtual core are in their guest together.
    let events = [
        of_vcore(1, 0, 0, SYSCALL),
        of_vcore(1, 0, 1, EventKind::Enter),
        of_vcore(1, 0, 2, core),
        of_vcore(1, 0, 10, EventKind::Enter),
        of_vcore(1, 0, 100, SYSCALL),
        of_vcore(1, 0, 120, EventKind::Detail(hcall)),
        of_vcore(2, 0, 200, EventKind::Enter),
        of_vcore(2, 1, 210, EventKind::Enter),
        elsewhere(of_vcore(3, 0, 200, EventKind::Enter)),
        of_vcore(2, 0, 490, SYSCALL),
        of_vcore(2, 1, 500, SYSCALL),
        elsewhere(of_vcore(3, 0, 900, SYSCALL)),
        of_vcore(1, 0, 1_000, EventKind::Enter),
        of_vcore(1, 0, 1_600, SYSCALL),
        of_vcore(2, 0, 2_000, EventKind::Enter),
        // On another CPU nothing says that it waited for this one.
        elsewhere(of_vcore(2, 1, 2_000, EventKind::Enter)),
    ];
    let expected = [(1, 0, 0, 1), (1, 0, 300, 600), (2, 0, 600, 910), (2, 1, 0, 1_500)];
    assert_eq!(steal_and_kernel(&events), expected);
    // On POWER9 each vCPU is a virtual core, and its own thread records for it.
    let events = [
        of_vcore(1, 0, 0, SYSCALL),
        of_vcore(1, 1, 50, SYSCALL),
        of_vcore(1, 1, 150, EventKind::Enter),
        of_vcore(1, 0, 160, EventKind::Detail(hcall)),
        of_vcore(1, 1, 200, SYSCALL),
        of_vcore(1, 0, 300, EventKind::Enter),
        of_vcore(1, 0, 350, of_powerpc(0xc00, true)),
        of_vcore(1, 1, 400, EventKind::Enter),
        of_vcore(1, 1, 500, SYSCALL),
        of_vcore(1, 0, 600, EventKind::Enter),
        of_vcore(1, 1, 600, EventKind::Enter),
    ];
    let found = steal_and_kernel(&events.map(|event| Event { tid: Tid(100 + event.vcpu.0), ..event }));
    assert_eq!(found[0], (1, 0, 50, 250));
    assert_eq!(found[1].2, 0, "halted: nothing says that it wanted the CPU");
    assert_eq!(found[2..], [(1, 1, 0, 100), (1, 1, 50, 150), (1, 1, 0, 100)]);
    // What a loss hides is nobody's turn.
    let lost = Event { cpu: PcpuId(u32::MAX), ..event(250, 0, EventKind::Lost { count: 1 }) };
    let events = [
        of_vcore(1, 0, 0, SYSCALL),
        of_vcore(2, 0, 200, EventKind::Enter),
        lost,
        of_vcore(1, 0, 300, SYSCALL),
        of_vcore(1, 0, 400, EventKind::Enter),
    ];
    assert_eq!(steal_and_kernel(&events).last(), Some(&(1, 0, 0, 100)));
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let detail = (0u64..3, any::<bool>()).prop_map(|(key, write)| {
        EventKind::Detail(Subject {
            kind: SubjectKind::Port,
            write,
            form: PortAccessForm::Unknown,
            size: 1,
            key,
            value: 0,
        })
    });
    prop_oneof![
        4 => prop_oneof![Just(HLT), Just(IO), Just(NPF), Just(CPUID)].prop_map(|code| EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }),
        4 => Just(EventKind::Enter),
        1 => Just(EventKind::Refine { code: HLT }),
        1 => Just(EventKind::KvmOut),
        2 => (0u32..3, -1..=0i32).prop_map(|(reason, errno)| EventKind::UserspaceExit { reason, errno }),
        2 => any::<bool>().prop_map(|load| EventKind::Fpu { load }),
        2 => detail,
        1 => Just(EventKind::RunEnter),
        1 => Just(EventKind::SyscallExit),
        1 => any::<bool>().prop_map(|registers| EventKind::Syscall { registers }),
        1 => Just(EventKind::Emulate),
        1 => Just(EventKind::Inject { vector: 3 }),
        1 => (0u64..5000, any::<bool>()).prop_map(|(ns, waited)| EventKind::HaltEnd { ns, waited, valid: true }),
        1 => (0u32..300, 0u32..300).prop_map(|(old, new)| EventKind::HaltPoll { grow: true, new, old }),
        1 => (0u32..4).prop_map(|cpu| EventKind::Idle(IdleEvent::WokenPolling { cpu: PcpuId(cpu) })),
        1 => Just(EventKind::Nested),
        1 => Just(EventKind::KvmActivity(KvmActivity::Aged)),
        1 => Just(EventKind::Reflect),
        1 => Just(EventKind::Detail(Subject {
            kind: SubjectKind::Vmgexit, write: false, form: PortAccessForm::Unknown, size: 0, key: 0x78, value: 0
        })),
        1 => any::<bool>().prop_map(|wfe| EventKind::Wfx { wfe }),
        1 => Just(EventKind::VcpuHint),
        1 => Just(EventKind::RunCore { exit: false, runnable: 2 }),
        2 => (0u32..4, any::<bool>(), 0u32..4).prop_map(|(prev, sleeps, next)| EventKind::switch(Tid(prev), sleeps, Tid(next))),
        1 => (0u32..4).prop_map(|tid| EventKind::Wakeup { tid: Tid(tid) }),
        1 => any::<bool>().prop_map(|paused| EventKind::VcpuWake { paused }),
        1 => (0u64..4).prop_map(|count| EventKind::Lost { count }),
        1 => Just(EventKind::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn rows_and_ledger_account_for_every_event(
        steps in proptest::collection::vec((-9i64..50, 0u32..4, 0u32..2, any_kind()), 0..200),
        by_vcpu in any::<bool>(),
    ) {
        let mut at = 1_000u64;
        let events: Vec<Event> = steps
            .into_iter()
            .map(|(step, tid, cpu, kind)| {
                at = at.saturating_add_signed(step);
                let vcpu = if by_vcpu { VcpuId(tid) } else { VcpuId::UNKNOWN };
                let kind = match kind {
                    EventKind::Exit { idle, .. } if by_vcpu => {
                        EventKind::Exit { code: ExitCode::new(CodeList::PpcTrap, 0x500), idle, words: SubjectWord::NONE, rip: 0 }
                    }
                    kind => kind,
                };
                Event { cpu: PcpuId(cpu), vcpu, ..event(at, tid, kind) }
            })
            .collect();
        let (rows, ledger, spans, stretches) = assemble_all(&events);
        let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
        prop_assert_eq!(inside + ledger.events_outside_rows(), ledger.events);
        let exits = events.iter().filter(|event| matches!(event.kind, EventKind::Exit { .. })).count();
        prop_assert!(rows.len() >= exits, "every kvm_exit is a row");
        for row in rows.iter().filter(|row| row.timed) {
            let steps: u64 = ExitPhase::ALL.iter().map(|step| row.phases.time(*step).0).sum();
            prop_assert_eq!(steps, row.cost().0, "the steps are the cost");
        }
        let timed = |row: &&Exit| row.timed;
        let in_rows: u64 = rows.iter().filter(timed).map(|row| row.total().0).sum();
        let in_guest: u64 = rows.iter().map(|row| row.guest.0).sum();
        let beside: u64 = stretches.iter().map(|stretch| stretch.parts.sum().0).sum();
        let all: u64 = spans.iter().map(|span| span.last.since(span.first).unwrap().0).sum();
        prop_assert_eq!(in_rows + in_guest + beside, all, "every moment is in one part");
    }
}

/// An event of Xen's: it names domain and vCPU, and no thread.
fn xen(at: u64, (vm, vcpu, cpu): (u32, u32, u32), kind: EventKind) -> Event {
    Event { vm: VmId(vm), vcpu: VcpuId(vcpu), cpu: PcpuId(cpu), ..event(at, 0, kind) }
}

fn assemble_xen(events: &[Event]) -> (Vec<Exit>, Ledger) {
    let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::by_vcpu());
    assembler.push(events, &mut rows, &mut ledger);
    assembler.finish(&mut rows, &mut ledger);
    (rows, ledger)
}

#[test]
fn on_xen_waits_for_the_device_model_idle_time_and_pauses_are_told_apart() {
    use RunState::{Blocked, Offline, Paused, Runnable, Running};
    let guest = (6, 0, 1);
    let to = |at, from, to| xen(at, guest, EventKind::RunState { from, to });
    let mut rows = Vec::new();
    let interrupt = ExitCode::new(CodeList::Svm, 0x60);
    for (code, state) in [(IO, Offline), (IO, Blocked), (HLT, Blocked), (IO, Paused), (interrupt, Offline)] {
        let (mut made, ledger) = assemble_xen(&[
            xen(100, guest, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }),
            to(110, Running, state),
            // Another vCPU's time on that CPU is its own.
            xen(120, (7, 0, 1), EventKind::Enter),
            to(1_110, state, Runnable),
            to(1_210, Runnable, Running),
            xen(1_220, guest, EventKind::Enter),
        ]);
        assert_eq!((made.len(), ledger.get(LedgerLine::EntryWithoutExit)), (1, 1));
        rows.append(&mut made);
    }
    let parts = |row: &Exit| (row.handler, parts(row));
    let expected = [
        (Handler::DeviceModel, vec![(TimePart::Kernel, 20), (TimePart::User, 1_000), (TimePart::Steal, 100)]),
        // As long as Xen blocked vCPUs for it.
        (Handler::DeviceModel, vec![(TimePart::Kernel, 20), (TimePart::User, 1_000), (TimePart::Steal, 100)]),
        (Handler::Kernel, vec![(TimePart::Kernel, 20), (TimePart::Halted, 1_000), (TimePart::Steal, 100)]),
        (Handler::Kernel, vec![(TimePart::Kernel, 20), (TimePart::Steal, 100), (TimePart::Stopped, 1_000)]),
        // An interrupt waits for no device.
        (Handler::Kernel, vec![(TimePart::Kernel, 20), (TimePart::Steal, 100), (TimePart::Stopped, 1_000)]),
    ];
    assert_eq!(rows.iter().map(parts).collect::<Vec<_>>(), expected);
    let asked: Vec<_> = rows.iter().map(|row| (row.phases.handed.0, row.phases.answered.0)).collect();
    assert_eq!(asked, [(10, 1_010), (10, 1_010), (0, 0), (0, 0), (0, 0)]);
}

#[test]
fn on_xen_an_access_is_handed_over_when_another_domain_is_woken_for_it() {
    use RunState::{Blocked, Offline, Runnable, Running};
    let (guest, model) = ((6, 0, 1), (0, 0, 1));
    let leave = |code| xen(100, guest, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 });
    let woken = |at, whose| xen(at, whose, EventKind::RunState { from: Blocked, to: Runnable });
    let handed = |events: &[Event]| {
        let (rows, _) = assemble_xen(&[events, &[xen(900, guest, EventKind::Enter)]].concat());
        (rows[0].phases.handed.0, rows[0].handler)
    };
    let stops = xen(180, guest, EventKind::RunState { from: Running, to: Offline });
    assert_eq!(handed(&[leave(IO), woken(150, model), stops]), (50, Handler::DeviceModel));
    // On another physical CPU, another vCPU of the guest's, or an exit that waits for nobody.
    assert_eq!(handed(&[leave(IO), woken(150, (0, 0, 2)), stops]), (80, Handler::DeviceModel));
    assert_eq!(handed(&[leave(IO), woken(150, (6, 1, 1)), stops]), (80, Handler::DeviceModel));
    let cpuid = ExitCode::new(CodeList::Svm, 0x72);
    assert_eq!(handed(&[leave(cpuid), woken(150, model)]), (0, Handler::Kernel));
    // It is said before Xen's scheduler is locked and the run state changes; of a vCPU that runs, that is all there is.
    let said = |at, whose| xen(at, whose, EventKind::VcpuWake { paused: false });
    assert_eq!(handed(&[leave(IO), said(140, model), woken(150, model), stops]), (40, Handler::DeviceModel));
    assert_eq!(handed(&[leave(IO), said(140, (0, 0, 2)), said(150, model), stops]), (50, Handler::DeviceModel));
}

/// Xen: `vcpu_wake` is called for this vCPU, on this physical CPU.
fn woken(at: u64, (vm, vcpu): (u32, u32), cpu: u32) -> Event {
    xen(at, (vm, vcpu, cpu), EventKind::VcpuWake { paused: false })
}

/// Xen: domain 6's only vCPU, on CPU 1; domain 0 is on CPU 0. That one wakes up first, so that run states are known of.
fn access_on_xen(code: ExitCode, events: &[Event]) -> Exit {
    use RunState::{Blocked, Runnable};
    let (rows, ledger) = assemble_xen(
        &[
            &[
                xen(50, (0, 0, 0), EventKind::RunState { from: Blocked, to: Runnable }),
                xen(100, (6, 0, 1), EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }),
            ],
            events,
            &[xen(900, (6, 0, 1), EventKind::Enter)],
        ]
        .concat(),
    );
    let inside: u64 = rows.iter().map(|row| u64::from(row.events)).sum();
    assert_eq!(inside + ledger.events_outside_rows(), 3 + events.len() as u64);
    *rows.last().unwrap()
}

#[test]
fn on_xen_an_access_that_was_answered_before_the_vcpu_lost_its_cpu_is_the_device_models_and_cost_no_wait() {
    let goes_on = xen(700, (6, 0, 1), EventKind::RunState { from: RunState::Running, to: RunState::Running });
    for code in [IO, NPF, ExitCode::new(CodeList::Vmx, 30), ExitCode::new(CodeList::Vmx, 48)] {
        let row = access_on_xen(code, &[woken(150, (0, 0), 1), woken(600, (6, 0), 0), goes_on]);
        assert_eq!((row.handler, parts(&row)), (Handler::DeviceModel, vec![(TimePart::Kernel, 800)]));
        assert_eq!((row.phases.handed.0, row.phases.answered.0), (50, 500));
        assert!(row.phases.has(PhaseBoundary::HandedOver) && row.phases.has(PhaseBoundary::KvmRunEntered));
        assert_eq!(
            [ExitPhase::Handling, ExitPhase::UserSpace, ExitPhase::Reentry].map(|step| row.phases.time(step).0),
            [500, 0, 300]
        );
    }
    // Domain 0 ran already: when it was told is not seen.
    let row = access_on_xen(IO, &[woken(600, (6, 0), 0), goes_on]);
    assert_eq!((row.handler, row.phases.handed.0, row.phases.answered.0), (Handler::DeviceModel, 0, 500));
}

#[test]
fn on_xen_an_access_is_not_the_device_models_because_the_scheduler_looked_or_another_vcpu_was_woken() {
    use RunState::{Runnable, Running};
    let guest = (6, 0, 1);
    let to = |at, from, to| xen(at, guest, EventKind::RunState { from, to });
    let looked = [to(300, Running, Running)];
    let preempted = [to(300, Running, Runnable), to(400, Runnable, Running)];
    let others = [woken(200, (0, 0), 1), woken(300, (6, 1), 0), woken(400, (7, 0), 1)];
    let unpaused = [xen(300, (6, 0, 0), EventKind::VcpuWake { paused: true })];
    for events in [&looked[..], &preempted, &others, &unpaused] {
        assert_eq!(access_on_xen(IO, events).handler, Handler::Kernel, "{events:?}");
    }
    // Exits that wait for no device: a halt that ends before the scheduler looked, a hypercall.
    for code in [HLT, ExitCode::new(CodeList::Svm, 0x81), ExitCode::new(CodeList::Svm, 0x72)] {
        assert_eq!(access_on_xen(code, &[woken(300, (6, 0), 0)]).handler, Handler::Kernel, "{code:?}");
    }
    // Where run states were not recorded, who answers is not known of any access.
    let (rows, _) = assemble_xen(&[
        xen(100, guest, EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 }),
        woken(300, (6, 0), 0),
        xen(900, guest, EventKind::Enter),
    ]);
    assert_eq!(rows[0].handler, Handler::Kernel);
}

#[test]
fn on_xen_a_wake_up_is_one_before_and_after_its_run_state() {
    use RunState::{Offline, Runnable, Running};
    let guest = (6, 0, 1);
    let to = |at, from, to| xen(at, guest, EventKind::RunState { from, to });
    let says = |at| woken(at, (6, 0), 0);
    let leave = |at| xen(at, guest, EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 });
    let enter = |at| xen(at, guest, EventKind::Enter);
    let waits = |said_first: bool| {
        let at = if said_first { 300 } else { 415 };
        let mut events =
            vec![to(200, Running, Offline), says(at), to(310, Offline, Runnable), to(400, Runnable, Running)];
        events.extend([enter(405), leave(410)]);
        events.sort_by_key(|event| event.at);
        events
    };
    for said_first in [true, false] {
        // What is said of the first access only in the second (before Xen 4.7) is not the second's.
        let second = access_on_xen(IO, &waits(said_first));
        assert_eq!(second.handler, Handler::Kernel, "{said_first}");
        // What is said once more is.
        let answered = [waits(said_first), vec![says(500)]].concat();
        assert_eq!(access_on_xen(IO, &answered).handler, Handler::DeviceModel, "{said_first}");
    }
}

#[test]
fn on_xen_a_loss_unties_what_was_open_there_and_whoever_waited() {
    let loss = Event::lost(Moment::from_nanos(200), PcpuId(0), 3);
    let blocked = EventKind::RunState { from: RunState::Running, to: RunState::Blocked };
    let (rows, ledger) = assemble_xen(&[
        xen(100, (1, 0, 0), EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 }),
        xen(110, (2, 0, 1), EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 }),
        xen(120, (3, 0, 2), EventKind::Exit { code: HLT, idle: false, words: SubjectWord::NONE, rip: 0 }),
        xen(130, (3, 0, 2), blocked),
        loss,
        xen(300, (1, 0, 0), EventKind::Enter),
        xen(310, (2, 0, 1), EventKind::Enter),
        xen(320, (3, 0, 2), EventKind::Enter),
    ]);
    let timed: Vec<_> = rows.iter().map(|row| (row.who.vm.0, row.timed)).collect();
    assert_eq!(timed, [(1, false), (3, false), (2, true)]);
    assert_eq!((ledger.get(LedgerLine::SpansLoss), ledger.get(LedgerLine::EntryWithoutExit)), (2, 2));
}

#[test]
fn on_xen_a_halt_sleeps_while_it_is_blocked() {
    let guest = (6, 0, 1);
    let to = |at, from, to| xen(at, guest, EventKind::RunState { from, to });
    let mut assembler = Assembler::by_vcpu();
    let events = [
        xen(100, guest, EventKind::Exit { code: HLT, idle: false, words: SubjectWord::NONE, rip: 0 }),
        to(110, RunState::Running, RunState::Blocked),
        to(900, RunState::Blocked, RunState::Runnable),
        to(950, RunState::Runnable, RunState::Running),
        xen(960, guest, EventKind::Enter),
    ];
    assembler.push(&events, &mut Vec::new(), &mut Ledger::default());
    let halts: Vec<_> = assembler.halts().iter().map(|halt| (halt.begin, halt.asleep, halt.woken, halt.end)).collect();
    let at = Moment::from_nanos;
    assert_eq!(halts, [(at(100), Some(at(110)), Some(at(900)), at(960))]);
}

#[test]
fn events_of_more_vcpus_than_are_kept_are_a_loss() {
    const KEPT: u32 = 1 << 18;
    let of = |tid: u32, at: u64| {
        [
            event(at, tid, EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 }),
            event(at + 1, tid, EventKind::Enter),
        ]
    };
    let events: Vec<Event> = (1..=KEPT + 3).flat_map(|tid| of(tid, u64::from(tid) * 10)).collect();
    let (rows, ledger, spans) = assemble(&events);
    assert_eq!((rows.len(), spans.len()), (KEPT as usize, KEPT as usize));
    assert_eq!(ledger.get(LedgerLine::TooManyVcpus), 6);
    assert_eq!(LedgerLine::TooManyVcpus.severity(), Severity::Loss);
}

/// An assembler that has these events behind it, its rows and its ledger.
fn pushed(mut assembler: Assembler, events: &[Event]) -> (Assembler, Vec<Exit>, Ledger) {
    let (mut rows, mut ledger) = (Vec::new(), Ledger::default());
    assembler.push(events, &mut rows, &mut ledger);
    (assembler, rows, ledger)
}

/// A trap of powerpc, of this vCPU, which its runner's thread records.
fn trap(at: u64, vcpu: VcpuId) -> Event {
    let code = ExitCode::new(CodeList::PpcTrap, 0xc00);
    Event { vcpu, ..event(at, 77, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }) }
}

#[test]
fn kinds_of_events_add_up_each_for_itself() {
    let only = |at: usize| EventKinds {
        switches: at == 0,
        wakeups: at == 1,
        handlers: at == 2,
        polls: at == 3,
        runs: at == 4,
        sleeps: u64::from(at == 5),
        unwoken_sleeps: u64::from(at == 6),
        reflects: at == 7,
        by_runner: at == 8,
    };
    for at in 0..9 {
        for (mut one, other) in [(only(at), EventKinds::default()), (EventKinds::default(), only(at))] {
            one.merge(other);
            assert_eq!(one, only(at));
        }
    }
}

#[test]
fn which_kinds_of_events_there_were_is_told_by_the_events() {
    let poll = EventKind::HaltPoll { grow: true, new: 20, old: 10 };
    let cases: [(&[EventKind], EventKinds); 8] = [
        (&[EventKind::Enter, EventKind::VcpuHint], EventKinds::default()),
        (&[EventKind::Nested, EventKind::Reflect], EventKinds { reflects: true, ..EventKinds::default() }),
        (&[EventKind::UserspaceExit { reason: 2, errno: 0 }], EventKinds { handlers: true, ..EventKinds::default() }),
        (&[EventKind::KvmOut], EventKinds { handlers: true, ..EventKinds::default() }),
        (&[poll, EventKind::VcpuHint], EventKinds { polls: true, ..EventKinds::default() }),
        (&[EventKind::VcpuHint, poll], EventKinds { polls: true, ..EventKinds::default() }),
        (&[EventKind::Wakeup { tid: Tid(10) }], EventKinds { wakeups: true, ..EventKinds::default() }),
        (&[EventKind::switch(Tid(10), true, Tid(11))], EventKinds { switches: true, ..EventKinds::default() }),
    ];
    for (kinds, expected) in cases {
        let events: Vec<Event> = kinds.iter().zip(100..).map(|(kind, at)| event(at, 10, *kind)).collect();
        assert_eq!(pushed(Assembler::default(), &events).0.kinds(), expected, "{kinds:?}");
    }
    let states = EventKind::RunState { from: RunState::Running, to: RunState::Blocked };
    let all = EventKinds { switches: true, wakeups: true, handlers: true, ..EventKinds::default() };
    assert_eq!(pushed(Assembler::by_vcpu(), &[xen(100, (6, 0, 1), states)]).0.kinds(), all);
    // Also of the threads that work for vCPUs of powerpc.
    let switch = event(5, 77, EventKind::switch(Tid(77), true, Tid(78)));
    let wakeup = event(6, 78, EventKind::Wakeup { tid: Tid(77) });
    let (assembler, ..) = pushed(Assembler::default(), &[switch, wakeup, trap(10, VcpuId(3))]);
    let runner = EventKinds { switches: true, wakeups: true, by_runner: true, ..EventKinds::default() };
    assert_eq!((assembler.is_by_runner(), assembler.kinds()), (true, runner));
    // Where each vCPU's thread records for it, nothing names the vCPU.
    let (assembler, ..) = pushed(Assembler::default(), &[switch, wakeup, trap(10, VcpuId::UNKNOWN)]);
    let threads = EventKinds { switches: true, wakeups: true, ..EventKinds::default() };
    assert_eq!((assembler.is_by_runner(), assembler.kinds()), (false, threads));
}

#[test]
fn only_events_older_than_the_latest_are_out_of_order() {
    let [a, b, c, d] = [10, 10, 9, 12].map(|at| event(at, 10, EventKind::Other));
    assert_eq!(assemble(&[a, b, c, d]).1.get(LedgerLine::OutOfOrder), 1);
    assert_eq!(assemble(&[d, a, b, d]).1.get(LedgerLine::OutOfOrder), 2, "the latest stays the latest");
}

#[test]
fn what_an_exit_says_besides_is_no_event_of_its_own() {
    let info = ExitInfo::from_words(|word| Some(70 + word as u64)).unwrap();
    let tells = |at| event(at, 10, EventKind::ExitInfo(info));
    let (rows, ledger, _) = assemble(&[tells(90), exit(100, NPF), tells(100), enter(150), tells(160), exit(170, NPF)]);
    assert_eq!(
        rows.iter().map(|row| (row.info, row.events)).collect::<Vec<_>>(),
        [(info, 2), (ExitInfo::default(), 1)]
    );
    assert_eq!(ledger.events_outside_rows(), 0);
}

#[test]
fn events_of_no_lane_are_counted_by_what_they_are() {
    let unknown = |kind| Event { vcpu: VcpuId::UNKNOWN, ..xen(100, (6, 0, 1), kind) };
    let words = SubjectWord::NONE;
    let cases = [
        (EventKind::Exit { code: IO, idle: false, words, rip: 0 }, LedgerLine::OutsideExit),
        (EventKind::Enter, LedgerLine::EntryWithoutExit),
        (EventKind::UserspaceExit { reason: 2, errno: 0 }, LedgerLine::OutsideExit),
        (EventKind::Inject { vector: 7 }, LedgerLine::OutsideExit),
        (EventKind::Other, LedgerLine::OtherTracepoint),
        (EventKind::RunCore { exit: true, runnable: 2 }, LedgerLine::OutsideExit),
    ];
    for (kind, line) in cases {
        let (rows, ledger) = assemble_xen(&[unknown(kind)]);
        assert_eq!((rows.len(), ledger.lines().collect::<Vec<_>>()), (0, vec![(line, 1)]), "{kind:?}");
    }
    // A core's run is of no exit, even if it is told within one.
    let run = event(110, 10, EventKind::RunCore { exit: true, runnable: 2 });
    let (rows, ledger, _) = assemble(&[exit(100, IO), run, event(120, 10, EventKind::Other), enter(150)]);
    assert_eq!((rows[0].events, ledger.lines().collect::<Vec<_>>()), (3, vec![(LedgerLine::OutsideExit, 1)]));
}

#[test]
fn exits_of_no_length_are_told() {
    let (rows, ledger, _) = assemble(&[exit(5, IO), enter(5), exit(5, IO), enter(7), exit(9, IO)]);
    let found: Vec<_> = rows.iter().map(|row| (row.total().0, row.timed)).collect();
    assert_eq!((found, ledger.get(LedgerLine::NoLength)), (vec![(0, true), (2, true), (0, false)], 1));
}

#[test]
fn who_is_silent_is_who_was_heard_of_last_before() {
    let of = |at, tid, kind| event(at, tid, kind);
    let hypercall = Subject {
        kind: SubjectKind::Hypercall,
        write: false,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 9,
        value: 0,
    };
    // Of the third nothing but a detail came: it may run no guest.
    let events = [
        event(90, 10, exit(90, IO).kind),
        of(100, 10, EventKind::Enter),
        of(130, 12, EventKind::Detail(hypercall)),
        of(200, 11, EventKind::Enter),
    ];
    let (assembler, ..) = pushed(Assembler::default(), &events);
    let silent = [100, 101, 200, 201].map(|moment| assembler.silent_since(Moment::from_nanos(moment)));
    assert_eq!(silent, [0, 1, 1, 2]);
}

#[test]
fn a_thread_is_that_of_the_vcpu_that_any_event_names() {
    let names = |at, tid, vcpu, kind| Event { vcpu: VcpuId(vcpu), ..event(at, tid, kind) };
    for kind in [
        EventKind::VcpuHint,
        EventKind::HaltPoll { grow: false, new: 10, old: 20 },
        EventKind::PleWindow { new: 4_096, old: 8_192 },
        EventKind::Enter,
    ] {
        let events = [exit(100, IO), names(110, 10, 3, kind), enter(150), exit(170, IO), enter(190)];
        let (assembler, rows, _) = pushed(Assembler::default(), &events);
        assert_eq!(rows.last().unwrap().who, VcpuIdentity { vm: VmId(1), vcpu: VcpuId(3), tid: Tid(10) }, "{kind:?}");
        assert_eq!(assembler.vcpus().collect::<Vec<_>>(), [rows.last().unwrap().who]);
    }
    // A hint does not take a number away, and an event that names none either.
    let events =
        [names(100, 10, 5, EventKind::Enter), names(110, 10, 3, EventKind::VcpuHint), exit(120, IO), enter(130)];
    assert_eq!(pushed(Assembler::default(), &events).1[0].who.vcpu, VcpuId(5));
    assert_eq!(pushed(Assembler::default(), &[enter(100)]).0.vcpus().count(), 0);
}

#[test]
fn a_vcpu_of_an_unknown_vm_is_not_the_thread_of_its_number() {
    let of = |at, tid, vcpu, kind| Event { vm: VmId::UNKNOWN, vcpu, ..event(at, tid, kind) };
    let leaves = EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 };
    let (rows, ..) = assemble(&[
        of(100, 11, VcpuId(10), leaves),
        of(130, 10, VcpuId::UNKNOWN, leaves),
        of(170, 11, VcpuId(10), EventKind::Enter),
        of(210, 10, VcpuId::UNKNOWN, EventKind::Enter),
    ]);
    assert_eq!(rows.iter().map(|row| (row.who.tid.0, row.total().0)).collect::<Vec<_>>(), [(11, 70), (10, 80)]);
}

#[test]
fn rows_need_no_cpu() {
    let nowhere = |event: Event| Event { cpu: PcpuId(u32::MAX), ..event };
    let switch = |at, prev, sleeps, next| nowhere(event(at, prev, EventKind::switch(Tid(prev), sleeps, Tid(next))));
    let (rows, ledger, _) =
        assemble(&[nowhere(exit(100, IO)), switch(120, 10, false, 12), switch(150, 12, true, 10), nowhere(enter(160))]);
    assert_eq!(parts(&rows[0]), [(TimePart::Kernel, 30), (TimePart::Steal, 30)]);
    assert_eq!(ledger.get(LedgerLine::ImpossibleExit), 0);
    // Xen.
    let of = |at, kind| xen(at, (6, 0, u32::MAX), kind);
    let state = |at, from, to| of(at, EventKind::RunState { from, to });
    let (rows, _) = assemble_xen(&[
        of(100, EventKind::Exit { code: IO, idle: false, words: SubjectWord::NONE, rip: 0 }),
        of(105, EventKind::Yield),
        state(110, RunState::Running, RunState::Runnable),
        state(150, RunState::Runnable, RunState::Running),
        of(170, EventKind::Enter),
    ]);
    assert_eq!(parts(&rows[0]), [(TimePart::Kernel, 30), (TimePart::Steal, 40)]);
}

#[test]
fn on_powerpc_a_virtual_core_halts_and_its_thread_is_of_the_vcpu_that_a_hint_names() {
    let of = |at, tid, vcpu, kind| Event { vcpu, ..event(at, tid, kind) };
    let events = [
        trap(1_000, VcpuId(4)),
        // Another thread runs vCPU 4 for the runner: an event that names none is of that.
        of(1_010, 78, VcpuId(4), EventKind::VcpuHint),
        of(1_020, 78, VcpuId::UNKNOWN, EventKind::Inject { vector: 9 }),
        of(1_030, 79, VcpuId::UNKNOWN, EventKind::Inject { vector: 8 }),
        of(1_100, 77, VcpuId(4), EventKind::Enter),
        of(2_500, 77, VcpuId(4), EventKind::HaltEnd { ns: 700, waited: true, valid: false }),
    ];
    let (assembler, rows, ledger) = pushed(Assembler::default(), &events);
    assert_eq!((rows.len(), rows[0].injected, rows[0].events), (1, Some(9), 4));
    assert_eq!(ledger.lines().collect::<Vec<_>>(), [(LedgerLine::OutsideExit, 2)]);
    let halt = Halt {
        who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(4), tid: Tid(77) },
        begin: Moment::from_nanos(1_800),
        asleep: None,
        woken: None,
        vcpu_wakeup: Some(VcpuWakeup { length: Nanos(700), waited: true, valid: false, may_poll: true }),
        change: None,
        kicked: false,
        ipi: None,
        end: Moment::from_nanos(2_500),
        entered: None,
    };
    assert_eq!(assembler.halts(), [halt]);
}

#[test]
fn a_halt_says_whether_its_host_polls_at_all() {
    let may_poll = |events: &[Event], value: &str| {
        let mut info = TraceInfo::default();
        info.settings.push(HostSetting::new("kvm", "halt_poll_ns", value));
        let (assembler, ..) = pushed(Assembler::of(&info), events);
        let [halt] = assembler.halts() else { panic!("{:?}", assembler.halts()) };
        halt.vcpu_wakeup.unwrap().may_poll
    };
    let halt = |code| {
        let exit = EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 };
        let woken = EventKind::HaltEnd { ns: 700, waited: false, valid: true };
        [event(1_000, 77, exit), event(1_900, 77, woken), event(2_000, 77, EventKind::Enter)]
    };
    let powerpc = [trap(1_000, VcpuId(4)), halt(HLT)[1]];
    for events in [&halt(HLT)[..], &powerpc] {
        assert_eq!(["0", "0\n", "1"].map(|value| may_poll(events, value)), [false, false, true]);
    }
}

#[test]
fn what_a_runner_recorded_before_the_first_exit_is_of_the_vcpus_that_it_names() {
    let of = |at, vcpu, kind| Event { vcpu: VcpuId(vcpu), ..event(at, 77, kind) };
    let entries = (0..4).map(|vcpu| of(100 + u64::from(vcpu), vcpu, EventKind::Enter));
    let events: Vec<Event> = entries.chain([trap(1_000, VcpuId(2)), of(1_100, 2, EventKind::Enter)]).collect();
    // Whether they come at once, or one by one.
    for at_once in [events.len(), 1] {
        let (mut assembler, mut rows, mut ledger) = (Assembler::default(), Vec::new(), Ledger::default());
        let mut stretches = Vec::new();
        for events in events.chunks(at_once) {
            assembler.push(events, &mut rows, &mut ledger);
            stretches.extend_from_slice(assembler.cpu_intervals());
        }
        let spans = assembler.finish(&mut rows, &mut ledger);
        stretches.extend_from_slice(assembler.cpu_intervals());
        let spans: Vec<_> = spans.iter().map(|span| (span.who.tid, span.who.vcpu.0, span.first.as_nanos())).collect();
        assert_eq!(spans, [(Tid(0), 0, 100), (Tid(0), 1, 101), (Tid(0), 2, 102), (Tid(0), 3, 103)], "not the thread's");
        assert!(stretches.iter().all(|stretch| stretch.who.tid == Tid(0)), "{stretches:?}");
        assert_eq!(rows[0].guest, Nanos(1_000 - 102));
    }
}

#[test]
fn an_event_may_say_itself_that_its_vcpu_is_idle() {
    let ceded = |at, idle| {
        let code = ExitCode::new(CodeList::PpcTrap, 0xc00);
        event(at, 10, EventKind::Exit { code, idle, words: SubjectWord::NONE, rip: 0 })
    };
    let (rows, ..) = assemble(&[ceded(100, true), enter(140), ceded(170, false), enter(190)]);
    assert_eq!(rows.iter().map(|row| row.is_halt).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn the_strongest_detail_of_an_exit_stays_and_a_reads_completion_has_its_value() {
    let of = |kind, write, key, value| Subject { kind, write, form: PortAccessForm::Unknown, size: 1, key, value };
    let about = |code, words, details: &[Subject]| {
        let mut events = vec![event(100, 10, EventKind::Exit { code, idle: false, words, rip: 0 })];
        events.extend(details.iter().zip(101..).map(|(detail, at)| event(at, 10, EventKind::Detail(*detail))));
        events.push(enter(150));
        let (rows, ..) = assemble(&events);
        assert_eq!(rows[0].events as usize, events.len());
        rows[0].subject
    };
    let none = SubjectWord::NONE;
    let [read, write] = [false, true].map(|write| of(SubjectKind::Port, write, 0x3f8, 7));
    let fault = of(SubjectKind::PageFault, false, 0x14, 0xfee0_0000);
    let msr = of(SubjectKind::Msr, true, 0x6e0, 9);
    // A later kind replaces an earlier one, whichever comes first.
    assert_eq!(about(NPF, none, &[fault, read]), Some(read));
    assert_eq!(about(NPF, none, &[read, fault]), Some(read));
    // Of one kind the first stays; only its own completion, which is a read, tells its value.
    assert_eq!(about(IO, none, &[read, Subject { value: 65, ..read }]), Some(Subject { value: 65, ..read }));
    assert_eq!(about(IO, none, &[read, Subject { key: 0x3f9, value: 65, ..read }]), Some(read));
    assert_eq!(about(IO, none, &[write, Subject { value: 65, ..write }]), Some(write));
    assert_eq!(about(IO, none, &[read, Subject { kind: SubjectKind::Mmio, value: 65, ..read }]), Some(read));
    // What the exit says of a port replaces what is weaker, and nothing that is stronger.
    let words = SubjectWord::of_port(IO, &Subject { form: PortAccessForm::NonString, ..write });
    let said = Some(Subject { form: PortAccessForm::NonString, value: 0, ..write });
    assert_eq!(about(IO, words, &[]), said);
    assert_eq!(about(IO, words, &[Subject { key: 0x3f8, ..fault }]), said);
    assert_eq!(about(IO, words, &[msr]), Some(msr));
    assert_eq!(about(IO, words, &[write]), Some(Subject { form: PortAccessForm::NonString, ..write }));
    for other in [Subject { key: 0x3f9, ..write }, read] {
        assert_eq!(about(IO, words, &[other]), Some(other), "the event is of the access that was made");
    }
}

#[test]
fn an_ept_violation_is_told_by_its_reason_and_has_its_address_by_kvm_page_fault() {
    let of = |kind, write, key, value| Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value };
    let ept = ExitCode::new(CodeList::Vmx, 48);
    let fault = of(SubjectKind::PageFault, false, 0x1f82, 0x7fff_f000);
    let about = |code, info1: u64, detail: Option<Subject>| {
        let words = SubjectWord::new(code, |word| (word == ExitWord::Info1 && info1 > 0).then_some(info1));
        let mut events = vec![event(100, 10, EventKind::Exit { code, idle: false, words, rip: 0 })];
        events.extend(detail.map(|detail| event(110, 10, EventKind::Detail(detail))));
        events.push(enter(150));
        assemble(&events).0[0].subject
    };
    let told = Subject { kind: SubjectKind::EptViolation, key: 0x182, ..fault };
    for info1 in [0, 0x1f82] {
        assert_eq!(about(ept, info1, Some(fault)), Some(told));
    }
    assert_eq!(about(ept, 0x1f82, None), Some(Subject { value: 0, ..told }));
    assert_eq!(about(NPF, 0, Some(fault)), Some(fault), "an error code");
    let mmio = of(SubjectKind::Mmio, true, 0xfee0_0000, 1);
    assert_eq!(about(ept, 0x182, Some(mmio)), Some(mmio));
}

#[test]
fn what_leaves_in_one_push_has_left() {
    let window = Event { vcpu: VcpuId(3), ..event(120, 10, EventKind::PleWindow { new: 4_096, old: 8_192 }) };
    let (mut assembler, mut rows, mut ledger) = pushed(Assembler::default(), &[exit(100, HLT), window, enter(150)]);
    let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(3), tid: Tid(10) };
    let update = PleUpdate { who, at: window.at, new: 4_096, old: 8_192 };
    assert_eq!((assembler.ple_updates(), assembler.halts().len()), (&[update][..], 1));
    assembler.push(&[exit(170, IO)], &mut rows, &mut ledger);
    assert_eq!((assembler.ple_updates().len(), assembler.halts().len(), assembler.cpu_intervals().len()), (0, 0, 0));
    // What was said of the first recording is not said of the next.
    let spans = assembler.finish(&mut rows, &mut ledger);
    assert_eq!((spans.len(), assembler.vcpus().count()), (1, 0));
    assembler.push(&[enter(200), exit(230, IO), enter(240)], &mut rows, &mut ledger);
    assert_eq!((rows.len(), rows[2].who.vcpu, rows[2].guest), (3, VcpuId::UNKNOWN, Nanos(30)));
}

#[test]
fn on_xen_a_blocked_vcpu_stays_blocked_whatever_else_is_told_of_it() {
    let guest = (6, 0, 1);
    let state = |at, from, to| xen(at, guest, EventKind::RunState { from, to });
    let (rows, _) = assemble_xen(&[
        xen(100, guest, EventKind::Exit { code: HLT, idle: false, words: SubjectWord::NONE, rip: 0 }),
        state(110, RunState::Running, RunState::Blocked),
        xen(150, guest, EventKind::Inject { vector: 7 }),
        state(200, RunState::Blocked, RunState::Running),
        xen(230, guest, EventKind::Enter),
    ]);
    assert_eq!((parts(&rows[0]), rows[0].injected), (vec![(TimePart::Kernel, 40), (TimePart::Halted, 90)], Some(7)));
}
