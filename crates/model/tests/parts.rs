//! Where each event's time goes: the cases of docs/accounting.md, and the small inputs that were read wrongly.

use exitscope_model::*;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeMap;

const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
const CPUID: ExitCode = ExitCode::new(CodeList::Vmx, 10);
const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);
const APIC_WRITE: ExitCode = ExitCode::new(CodeList::Vmx, 56);
const EPT_VIOLATION: ExitCode = ExitCode::new(CodeList::Vmx, 48);
const MWAIT: ExitCode = ExitCode::new(CodeList::Vmx, 36);
const VMRESUME: ExitCode = ExitCode::new(CodeList::Vmx, 24);
const VMGEXIT: ExitCode = ExitCode::new(CodeList::Svm, 0x403);
const ASKS_FOR_HLT: EventKind = EventKind::Detail(Subject {
    kind: SubjectKind::Vmgexit,
    write: false,
    form: PortAccessForm::Unknown,
    size: 0,
    key: 0x78,
    value: 0,
});
const EINTR: i32 = -4;
const KVM_EXIT_IO: u32 = 2;
const KVM_EXIT_HLT: u32 = 5;

fn event(at: u64, kind: EventKind) -> Event {
    let (at, tid, vcpu) = (Moment::from_nanos(at), Tid(10), VcpuId::UNKNOWN);
    Event { at, tid, vm: VmId(1), vcpu, cpu: PcpuId(0), name: NameId(0), kind }
}

fn exit(at: u64, code: ExitCode) -> Event {
    event(at, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 })
}

fn enter(at: u64) -> Event {
    event(at, EventKind::Enter)
}

fn woken(at: u64, ns: u64, waited: bool) -> Event {
    event(at, EventKind::HaltEnd { ns, waited, valid: true })
}

fn polled(at: u64, old: u32) -> Event {
    event(at, EventKind::HaltPoll { grow: true, new: old * 2, old })
}

/// The thread goes to sleep, or loses its CPU.
fn out(at: u64, sleeps: bool) -> Event {
    event(at, EventKind::switch(Tid(10), sleeps, Tid(0)))
}

/// It has a CPU again.
fn back(at: u64) -> Event {
    event(at, EventKind::switch(Tid(0), false, Tid(10)))
}

fn wakeup(at: u64) -> Event {
    event(at, EventKind::Wakeup { tid: Tid(10) })
}

fn returns(at: u64, reason: u32, errno: i32) -> Event {
    event(at, EventKind::UserspaceExit { reason, errno })
}

fn run(at: u64) -> Event {
    event(at, EventKind::RunEnter)
}

/// What is made of a recording.
struct Account {
    rows: Vec<Exit>,
    ledger: Ledger,
    halts: Vec<Halt>,
    /// The parts that are not zero, of all vCPUs together.
    parts: BTreeMap<&'static str, u64>,
}

/// The account of events, of which the recording says this of itself.
fn account_of(info: &TraceInfo, events: &[Event]) -> Account {
    let mut assembler = Assembler::default();
    assembler.know(info);
    account_in(assembler, events)
}

fn account_in(mut assembler: Assembler, events: &[Event]) -> Account {
    let (mut rows, mut ledger) = (Vec::new(), Ledger::default());
    assembler.push(events, &mut rows, &mut ledger);
    let (mut stretches, mut halts) = (assembler.cpu_intervals().to_vec(), assembler.halts().to_vec());
    let spans = assembler.finish(&mut rows, &mut ledger);
    stretches.extend_from_slice(assembler.cpu_intervals());
    halts.extend_from_slice(assembler.halts());
    let mut sums = AllParts::ZERO;
    for row in &rows {
        sums.add(TimePart::Guest, row.guest);
        if row.timed {
            sums.merge(&row.parts);
        }
    }
    stretches.iter().for_each(|stretch| sums.merge(&stretch.parts));
    let whole: u64 = spans.iter().map(|span| span.last.since(span.first).unwrap().0).sum();
    assert_eq!(sums.sum().0, whole, "the parts are the span");
    let parts = TimePart::ALL.map(|part| (part.name(), sums.get(part).0)).into_iter().filter(|row| row.1 > 0).collect();
    Account { rows, ledger, halts, parts }
}

fn account(events: &[Event]) -> Account {
    account_of(&TraceInfo::default(), events)
}

/// A recording by perf of these tracepoints.
fn perf(tracepoints: &[&str]) -> TraceInfo {
    let mut info = TraceInfo { format: "perf.data".to_string(), ..TraceInfo::default() };
    tracepoints.iter().for_each(|name| _ = info.names.intern(name));
    info
}

#[track_caller]
fn check(events: &[Event], expected: &[(&'static str, u64)]) {
    assert_eq!(account(events).parts, expected.iter().copied().collect());
}

#[test]
fn a_halt_divides_into_handling_poll_block_steal_and_the_way_back() {
    // 100 of handling, a poll of 300, 50 until it sleeps, 1,000 asleep, 200 woken without a CPU, 30 + 70 back.
    let events = [
        exit(1_000, HLT),
        out(1_450, true),
        wakeup(2_450),
        back(2_650),
        polled(2_660, 300),
        woken(2_680, 1_580, true),
        enter(2_750),
    ];
    check(&events, &[("kernel", 100 + 50 + 30 + 70), ("polling", 300), ("halted", 1_000), ("steal", 200)]);
}

#[test]
fn a_poll_that_succeeds_is_all_polling_and_the_rest_cost() {
    check(&[exit(0, HLT), woken(900, 800, false), enter(1_000)], &[("kernel", 200), ("polling", 800)]);
    // It is no longer than its limit: then KVM looked once more, or another thread had the CPU.
    let long = [exit(0, HLT), polled(890, 500), woken(900, 800, false), enter(1_000)];
    check(&long, &[("kernel", 500), ("polling", 500)]);
    // Where KVM does not poll, it looked once and found an event.
    let none = [exit(0, HLT), polled(890, 0), woken(900, 800, false), enter(1_000)];
    check(&none, &[("kernel", 1_000)]);
    let mut info = TraceInfo::default();
    info.settings.push(HostSetting::new("kvm", "halt_poll_ns", "0"));
    let found = account_of(&info, &[exit(0, HLT), woken(900, 800, false), enter(1_000)]);
    assert_eq!(found.parts, [("kernel", 1_000)].into());
    // A VM may have a limit of its own (KVM_CAP_HALT_POLL), or the setting was changed since: KVM tells of its polls.
    assert_eq!(account_of(&info, &long).parts, [("kernel", 500), ("polling", 500)].into());
}

#[test]
fn a_halt_without_a_wakeup_found_an_event_pending_where_wakeups_are_recorded() {
    let events = [exit(0, HLT), enter(700), exit(800, HLT), woken(1_700, 800, false), enter(1_800)];
    // The first comes before anything says that they are.
    check(&events, &[("guest", 100), ("halt, not divided", 700), ("kernel", 200), ("polling", 800)]);
    let found = account_of(&perf(&["kvm:kvm_vcpu_wakeup"]), &events);
    assert_eq!(found.parts, [("guest", 100), ("kernel", 900), ("polling", 800)].into());
    assert_eq!(account_of(&perf(&["kvm:kvm_exit"]), &events[..2]).parts, [("halt, not divided", 700)].into());
}

#[test]
fn without_wakeups_the_scheduler_says_when_a_halt_was_blocked() {
    let events = [exit(0, HLT), out(100, true), wakeup(1_100), back(1_300), enter(1_400)];
    check(&events, &[("halt, not divided", 200), ("halted", 1_000), ("steal", 200)]);
    // Then a poll is all that might be in the rest: a host without says so.
    let mut info = TraceInfo::default();
    info.settings.push(HostSetting::new("kvm", "halt_poll_ns", "0"));
    assert_eq!(account_of(&info, &events).parts, [("kernel", 200), ("halted", 1_000), ("steal", 200)].into());
}

#[test]
fn without_the_scheduler_what_a_wakeup_leaves_of_the_poll_is_not_divided() {
    let events = [exit(0, HLT), polled(5_000, 300), woken(5_010, 4_900, true), enter(5_100)];
    check(&events, &[("kernel", 110 + 90), ("polling", 300), ("halt, not divided", 4_600)]);
    let untold = [exit(0, HLT), woken(5_010, 4_900, true), enter(5_100)];
    check(&untold, &[("kernel", 110 + 90), ("halt, not divided", 4_900)]);
}

#[test]
fn a_halt_that_blocked_and_of_which_no_switch_was_recorded_is_not_divided() {
    // A recorder follows a thread from when it knows it.
    let info = perf(&["sched:sched_switch", "kvm:kvm_vcpu_wakeup", "kvm:kvm_halt_poll_ns"]);
    let found = account_of(&info, &[exit(0, HLT), woken(5_010, 4_900, true), enter(5_100)]);
    assert_eq!(found.parts, [("kernel", 110 + 90), ("halt, not divided", 4_900)].into());
}

#[test]
fn a_sleep_whose_wakeup_was_not_recorded_is_not_divided_into_halted_and_steal() {
    let events = [exit(0, HLT), out(100, true), back(1_300), woken(1_350, 1_300, true), enter(1_400)];
    check(&events, &[("kernel", 50 + 50), ("halt, not divided", 1_300)]);
}

#[test]
fn one_exit_may_hold_several_halts() {
    let events = [
        exit(0, HLT),
        out(100, true),
        wakeup(400),
        back(450),
        polled(455, 0),
        woken(460, 400, true),
        out(560, true),
        wakeup(960),
        back(970),
        polled(975, 0),
        woken(980, 500, true),
        enter(1_000),
    ];
    check(&events, &[("kernel", 240), ("halted", 700), ("steal", 60)]);
}

#[test]
fn what_is_a_halt_and_what_is_not() {
    let slept = |code, more: &[Event]| {
        let mut events = vec![exit(0, code)];
        events.extend_from_slice(more);
        events.extend([out(100, true), wakeup(900), back(900), enter(1_000)]);
        account_of(&TraceInfo::default(), &events).parts
    };
    let halted: BTreeMap<_, _> = [("halt, not divided", 200), ("halted", 800)].into();
    for code in [
        HLT,
        ExitCode::new(CodeList::Svm, 0x78),
        ExitCode::new(CodeList::Svm, 0xa6),
        ExitCode::new(CodeList::Arm64Ec, 1),
        ExitCode::new(CodeList::S390, 0x1c),
        ExitCode::new(CodeList::Loongarch, 64),
    ] {
        assert_eq!(slept(code, &[]), halted, "{}", code.name());
    }
    assert_eq!(slept(VMGEXIT, &[event(50, ASKS_FOR_HLT)]), halted, "SEV-ES asks for it by VMGEXIT");
    let vmgexit = |kind, key| {
        EventKind::Detail(Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key, value: 0 })
    };
    assert_eq!(slept(VMGEXIT, &[event(50, vmgexit(SubjectKind::Vmgexit, 0x8000_0004))]), halted, "AP_HLT_LOOP");
    assert_eq!(slept(VMGEXIT, &[event(50, vmgexit(SubjectKind::GhcbMsr, 6))]), halted, "AP_RESET_HOLD");
    assert_ne!(slept(VMGEXIT, &[event(50, vmgexit(SubjectKind::Vmgexit, 0x72))]), halted, "CPUID");
    let psci = Subject {
        kind: SubjectKind::Hvc,
        write: false,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 0xc400_0001,
        value: 0,
    };
    assert_eq!(
        slept(ExitCode::new(CodeList::Arm64Ec, 0x16), &[event(50, EventKind::Detail(psci))]),
        halted,
        "CPU_SUSPEND"
    );
    let cede = Subject { kind: SubjectKind::PpcHcall, key: 0xe0, ..psci };
    assert_eq!(slept(ExitCode::new(CodeList::PpcTrap, 0xc00), &[event(50, EventKind::Detail(cede))]), halted, "H_CEDE");
    let riscv = slept(ExitCode::new(CodeList::Riscv, 22), &[]);
    assert_eq!(riscv, [("kernel", 200), ("halted", 800)].into(), "riscv's WFI is one of several instructions");

    let cost: BTreeMap<_, _> = [("kernel", 1_000)].into();
    assert_eq!(slept(ExitCode::new(CodeList::Arm64Ec, 1), &[event(50, EventKind::Wfx { wfe: true })]), cost, "WFE");
    assert_eq!(slept(MWAIT, &[]), cost, "KVM runs MWAIT as a NOP");
    assert_eq!(slept(HLT, &[event(50, EventKind::Reflect)]), cost, "L2's HLT is L1's to handle");
    let memory: BTreeMap<_, _> = [("kernel", 200), ("waiting for memory", 800)].into();
    assert_eq!(slept(EPT_VIOLATION, &[]), memory);
    // As KVM told of such waits, too, before 5.17.
    let told = [exit(0, EPT_VIOLATION), woken(950, 900, true), enter(1_000)];
    check(&[&[polled(0, 0)], &told[..]].concat(), &[("kernel", 100), ("halt, not divided", 900)]);
}

#[test]
fn a_halt_that_the_reason_does_not_name_is_told_by_its_wakeup() {
    let events = |code| [exit(0, code), out(100, true), wakeup(900), back(900), woken(950, 900, true), enter(1_000)];
    for code in [VMRESUME, ExitCode::new(CodeList::Vmx, 18), ExitCode::new(CodeList::Vmx, 77)] {
        let found = account_of(&perf(&["kvm:kvm_halt_poll_ns"]), &events(code));
        assert_eq!(found.parts, [("kernel", 200), ("halted", 800)].into(), "{}", code.name());
    }
}

#[test]
fn a_local_apic_in_user_space_halts_there() {
    let events = [exit(0, HLT), returns(100, KVM_EXIT_HLT, 0), out(150, true), wakeup(950), back(950), run(970)];
    let events = [&events[..], &[enter(1_000)]].concat();
    let found = account_of(&perf(&["sched:sched_switch"]), &events);
    assert_eq!(found.parts, [("kernel", 130), ("user space", 70), ("halted", 800)].into());
    let bare = [exit(0, HLT), returns(100, KVM_EXIT_HLT, 0), run(970), enter(1_000)];
    check(&bare, &[("kernel", 130), ("halt, not divided", 870)]);
}

#[test]
fn a_vcpu_that_its_vmm_keeps_from_running_is_stopped() {
    let way = |reason, errno| {
        let events =
            [exit(0, CPUID), returns(100, reason, errno), out(200, true), wakeup(7_200), back(7_250), run(7_300)];
        account_of(&perf(&["sched:sched_switch"]), &[&events[..], &[enter(7_400)]].concat()).parts
    };
    let stopped: BTreeMap<_, _> = [("kernel", 200), ("user space", 150), ("stopped", 7_000), ("steal", 50)].into();
    assert_eq!(way(KVM_EXIT_IO, EINTR), stopped, "the reason is left over from an earlier exit");
    assert_eq!(way(10, 0), stopped);
    // What the guest asked for is worked on elsewhere meanwhile.
    assert_eq!(way(KVM_EXIT_IO, 0), [("kernel", 200), ("user space", 7_150), ("steal", 50)].into());
    // Where nothing says whether the thread slept, nothing says what the time was.
    let bare = [exit(0, CPUID), returns(100, KVM_EXIT_IO, EINTR), run(7_300), enter(7_400)];
    check(&bare, &[("kernel", 200), ("unknown", 7_200)]);
}

#[test]
fn a_stop_or_a_halt_in_user_space_whose_beginning_the_scheduler_did_not_show_is_no_cost() {
    for (reason, errno, part) in
        [(KVM_EXIT_IO, EINTR, "unknown"), (KVM_EXIT_HLT, 0, "halt, not divided"), (KVM_EXIT_IO, 0, "user space")]
    {
        // A recorder may follow the thread only from here on.
        let events = [wakeup(7_200), back(7_250), run(7_300), enter(7_400)];
        let events = [&[exit(0, CPUID), returns(100, reason, errno)], &events[..]].concat();
        let mut expected: BTreeMap<_, _> = [("kernel", 200), ("user space", 50)].into();
        *expected.entry(part).or_default() += 7_150;
        assert_eq!(account_of(&perf(&["sched:sched_switch"]), &events).parts, expected);
    }
}

#[test]
fn a_preemption_of_the_guest_that_no_exit_tells_of_is_steal() {
    // arm64, riscv, and x86 of before kvm_exit moved: the host's interrupt comes first.
    let events = [exit(0, CPUID), enter(100), out(300, false), back(800), exit(1_000, CPUID), enter(1_100)];
    let found = account(&events);
    assert_eq!(found.parts, [("guest", 400), ("kernel", 200), ("steal", 500)].into());
    assert_eq!(found.rows[1].guest.0, 200, "since it had its CPU again");
}

#[test]
fn a_back_end_without_kvm_exit_has_the_same_account_as_far_as_events_tell() {
    let events = [
        returns(0, KVM_EXIT_IO, 0),
        run(100),
        out(300, true),
        wakeup(900),
        back(1_000),
        polled(1_005, 50),
        woken(1_010, 760, true),
        out(1_500, false),
        back(1_700),
        returns(2_000, KVM_EXIT_IO, 0),
        run(2_100),
    ];
    // In KVM_RUN, on a CPU: guest or kernel, nobody says. The poll of 50 began at 250.
    let expected = [("user space", 200), ("polling", 50), ("halted", 600), ("steal", 300), ("unknown", 950)];
    check(&events, &expected);
}

/// `emulator_pio_in` of `arch/x86/kvm/x86.c`: a read is told of when it has its value.
#[test]
fn an_access_that_kvm_answered_is_not_what_the_exit_after_it_is_about() {
    let port = |at, write, key| {
        event(
            at,
            EventKind::Detail(Subject {
                kind: SubjectKind::Port,
                write,
                form: PortAccessForm::NonString,
                size: 1,
                key,
                value: 7,
            }),
        )
    };
    let events = [
        returns(0, KVM_EXIT_IO, 0),
        run(5),
        // KVM's interrupt controller, then a read of a serial port.
        port(6, true, 0x20),
        returns(10, KVM_EXIT_IO, 0),
        run(15),
        port(16, false, 0x3fd),
        // A read that KVM answered, a write that it did, and a signal.
        port(20, false, 0x21),
        port(21, true, 0x21),
        returns(30, 10, EINTR),
        run(31),
        // A write that user space does, then a read that KVM answers.
        port(40, true, 0x80),
        returns(41, KVM_EXIT_IO, 0),
        run(43),
        port(50, false, 0x21),
        returns(60, KVM_EXIT_IO, 0),
        run(61),
        port(62, false, 0x71),
    ];
    let found = account(&events);
    let told = found.rows.iter().map(|row| (row.at.as_nanos(), row.subject.map(|of| (of.write, of.key))));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(0, None), (10, Some((false, 0x3fd))), (30, None), (41, Some((true, 0x80))), (60, Some((false, 0x71)))]
    );
    let rows: u64 = found.rows.iter().map(|row| u64::from(row.events)).sum();
    assert_eq!(rows + found.ledger.get(LedgerLine::OutsideExit), events.len() as u64);
}

#[test]
fn a_kick_of_a_sibling_makes_a_halt_a_wait_for_a_spinlock() {
    let kick = Subject {
        kind: SubjectKind::Hypercall,
        write: false,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 5,
        value: 1,
    };
    let of = |tid, vcpu, event: Event| Event { tid: Tid(tid), vcpu: VcpuId(vcpu), ..event };
    let events = [
        of(11, 1, exit(0, HLT)),
        of(10, 0, exit(100, ExitCode::new(CodeList::Vmx, 18))),
        of(10, 0, event(110, EventKind::Detail(kick))),
        of(10, 0, enter(200)),
        of(11, 1, woken(300, 250, true)),
        of(11, 1, enter(400)),
        of(11, 1, exit(500, HLT)),
        of(11, 1, woken(900, 350, true)),
        of(11, 1, enter(1_000)),
    ];
    assert_eq!(account(&events).halts.iter().map(|halt| halt.kicked).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn an_ipi_that_a_sibling_sends_is_of_the_halt_in_which_it_comes() {
    let icr = |value| Subject {
        kind: SubjectKind::Msr,
        write: true,
        form: PortAccessForm::Unknown,
        size: 0,
        key: 0x830,
        value,
    };
    let of = |tid, vcpu, event: Event| Event { tid: Tid(tid), vcpu: VcpuId(vcpu), ..event };
    let sends = |at, value| of(10, 0, event(at, EventKind::Detail(icr(value))));
    let wrmsr = |at| of(10, 0, exit(at, ExitCode::new(CodeList::Vmx, 32)));
    let events = [
        wrmsr(0),
        // It halts after that.
        sends(5, 0x1_0000_00fb),
        of(11, 1, exit(10, HLT)),
        of(10, 0, enter(20)),
        wrmsr(100),
        sends(110, 0x1_0000_00fd),
        of(10, 0, enter(200)),
        of(11, 1, woken(300, 250, true)),
        of(11, 1, enter(400)),
        of(11, 1, exit(500, HLT)),
        wrmsr(600),
        // To another, and as an INIT.
        sends(610, 0x2_0000_00fd),
        sends(620, 0x1_0000_c500),
        of(11, 1, woken(900, 350, true)),
        // KVM tells of the write after it has sent: the halt may be over by then.
        sends(910, 0x1_0000_00f6),
        of(11, 1, enter(1_000)),
    ];
    assert_eq!(account(&events).halts.iter().map(|halt| halt.ipi).collect::<Vec<_>>(), [Some(0xfd), Some(0xf6)]);
}

#[test]
fn an_exit_that_cannot_halt_and_does_is_not_timed() {
    let events = [
        exit(0, CPUID),
        enter(100),
        exit(200, APIC_WRITE),
        woken(122_000, 900, true),
        enter(122_100),
        exit(122_200, CPUID),
        enter(122_300),
    ];
    let found = account(&events);
    assert_eq!(found.rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(found.parts, [("guest", 100 + 100), ("kernel", 200), ("excluded", 121_900)].into());
    assert_eq!(found.ledger.moments(LedgerLine::ImpossibleExit).collect::<Vec<_>>(), [Moment::from_nanos(122_000)]);
    assert_eq!(LedgerLine::ImpossibleExit.severity(), Severity::Loss);
    // User space may have had a part in it.
    let handed = [exit(0, APIC_WRITE), returns(10, KVM_EXIT_IO, 0), run(20), woken(900, 800, false), enter(1_000)];
    assert_eq!(account(&handed).ledger.get(LedgerLine::ImpossibleExit), 0);
    // A halt in the guest: the exit that it was in is missing.
    let found =
        account(&[exit(0, CPUID), enter(100), woken(900, 500, true), enter(1_000), exit(1_100, CPUID), enter(1_200)]);
    assert_eq!(found.parts, [("guest", 100), ("kernel", 200), ("excluded", 900)].into());
}

#[test]
fn a_halt_in_which_the_guest_writes_a_register_is_not_timed() {
    let written = |kind| {
        EventKind::Detail(Subject { kind, write: true, form: PortAccessForm::Unknown, size: 0, key: 0x380, value: 5 })
    };
    let with = |kind| account(&[exit(0, HLT), event(122_000, written(kind)), enter(122_100), exit(122_200, CPUID)]);
    let found = with(SubjectKind::Apic);
    assert_eq!((found.rows[0].timed, found.rows[0].subject), (false, None));
    assert_eq!(found.parts, [("excluded", 122_100), ("guest", 100)].into());
    assert_eq!(found.ledger.moments(LedgerLine::ImpossibleExit).collect::<Vec<_>>(), [Moment::from_nanos(122_000)]);
    let tells = with(SubjectKind::PageFault);
    assert_eq!((tells.rows[0].timed, tells.ledger.get(LedgerLine::ImpossibleExit)), (true, 0));
}

#[test]
fn a_halt_that_ends_where_events_were_lost_is_not_timed() {
    let on = |cpu, event: Event| Event { cpu: PcpuId(cpu), ..event };
    let told = [on(8, exit(0, HLT)), on(8, woken(90, 80, true)), on(8, enter(100))];
    let halted = |ends_on, lost_on: &[u32]| {
        let losses = lost_on.iter().map(|&cpu| on(cpu, event(900, EventKind::Lost { count: 0 })));
        let end = [on(ends_on, enter(1_000)), on(ends_on, exit(1_050, CPUID)), on(ends_on, enter(1_060))];
        let events: Vec<Event> = told.into_iter().chain([on(8, exit(200, HLT))]).chain(losses).chain(end).collect();
        let found = account(&events);
        (found.rows[1].timed, found.parts.get("excluded").copied(), found.ledger.get(LedgerLine::SpansLoss))
    };
    // Where it ends, what says that it was over may be lost: it is not the whole of it that ran.
    assert_eq!(halted(6, &[6]), (false, Some(800), 1));
    assert_eq!(halted(6, &[3, 6]), (false, Some(800), 1));
    assert_eq!(halted(6, &[3]), (true, None, 0));
    assert_eq!(halted(8, &[6]), (true, None, 0));
}

#[test]
fn a_vcpu_on_another_cpu_without_a_switch_has_lost_something() {
    let on = |cpu, event: Event| Event { cpu: PcpuId(cpu), ..event };
    let events = [
        on(0, enter(0)),
        on(0, out(0, false)),
        on(0, back(0)),
        on(0, exit(100, CPUID)),
        on(3, enter(5_000)),
        on(3, exit(5_100, CPUID)),
        on(3, enter(5_200)),
        on(3, out(5_300, false)),
        on(2, back(5_400)),
        on(2, exit(5_500, CPUID)),
        on(2, enter(5_600)),
        on(4, exit(9_000, CPUID)),
        on(4, enter(9_100)),
    ];
    let found = account(&events);
    assert_eq!(found.rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [false, true, true, true]);
    let expected = [("guest", 400), ("kernel", 300), ("steal", 100), ("excluded", 4_900 + 3_400)];
    assert_eq!(found.parts, expected.into());
    assert_eq!(found.ledger.get(LedgerLine::ImpossibleExit), 2);
    // Without the scheduler nobody knows of moves.
    let found = account(&[on(0, exit(100, CPUID)), on(3, enter(5_000))]);
    assert_eq!(found.parts, [("kernel", 4_900)].into());
}

#[test]
fn what_a_loss_hides_is_excluded() {
    let lost = |at| event(at, EventKind::Lost { count: 9 });
    check(
        &[exit(0, IO), lost(50), enter(100), exit(200, IO), enter(300)],
        &[("guest", 100), ("kernel", 100), ("excluded", 100)],
    );
    check(&[exit(0, IO), enter(100), lost(500), exit(700, IO), enter(800)], &[("kernel", 200), ("excluded", 600)]);
    // Of another CPU: only if the vCPU's own events do not fit together.
    let elsewhere = |at| Event { cpu: PcpuId(7), ..lost(at) };
    let runs = [exit(0, IO), elsewhere(50), enter(100), exit(200, IO), enter(300)];
    check(&runs, &[("guest", 100), ("kernel", 200)]);
    check(&[exit(0, IO), elsewhere(50), exit(200, IO), enter(300)], &[("kernel", 100), ("excluded", 200)]);
}

#[test]
fn what_an_exit_that_never_ends_spent_in_the_kernel_is_known_where_the_scheduler_was_recorded() {
    check(&[enter(0), exit(100, IO), returns(900, KVM_EXIT_IO, 0)], &[("guest", 100), ("unknown", 800)]);
    check(&[back(0), enter(10), exit(100, IO), returns(900, KVM_EXIT_IO, 0)], &[("guest", 90), ("kernel", 800)]);
}

#[test]
fn the_time_of_vcpus_that_enter_no_more_ends_when_their_vm_asks_for_its_end() {
    const KVM_EXIT_SYSTEM_EVENT: u32 = 24;
    let of = |vcpu: u32, event: Event| Event { vm: VmId::UNKNOWN, tid: Tid(100 + vcpu), vcpu: VcpuId(vcpu), ..event };
    let both = |vcpu, errno| {
        [
            of(0, enter(0)),
            of(1, enter(0)),
            of(0, exit(100, IO)),
            of(1, exit(100, IO)),
            of(vcpu, returns(200, KVM_EXIT_SYSTEM_EVENT, errno)),
            of(1, returns(300, codes::KVM_EXIT_INTR, 0)),
            of(0, returns(900, codes::KVM_EXIT_INTR, 0)),
        ]
    };
    // The other is there still at 900.
    check(&both(1, 0), &[("guest", 200), ("kernel", 150), ("user space", 50)]);
    // A signal, and nothing that the guest asked for.
    let found = account(&both(1, -4));
    assert_eq!(found.parts.values().sum::<u64>(), 1_200);
    // Two VMs without names: whose the other vCPU is nothing says.
    let found = account(&both(0, 0).map(|event| Event { vcpu: VcpuId(0), ..event }));
    assert_eq!(found.parts.values().sum::<u64>(), 1_200);
    // It began anew.
    let anew = [both(1, 0).as_slice(), &[of(0, enter(1_000)), of(0, exit(1_100, IO)), of(0, enter(1_200))]].concat();
    check(&anew, &[("guest", 300), ("kernel", 950), ("user space", 50), ("unknown", 100)]);
}

#[test]
fn exits_and_entries_that_do_not_alternate_leave_unknown_time() {
    check(&[exit(0, IO), exit(200, IO), enter(300)], &[("kernel", 100), ("unknown", 200)]);
    check(
        &[exit(0, IO), enter(100), enter(900), exit(1_000, IO)],
        &[("guest", 100), ("kernel", 100), ("unknown", 800)],
    );
    // But a fast path of VMX enters the guest again without an event of that.
    let msr = ExitCode::new(CodeList::Vmx, 32);
    let reenters = [enter(0), exit(0, msr), exit(200, IO), enter(300)];
    for (release, part) in [
        ("", "guest"),
        ("4.19.0-27-amd64", "unknown"),
        ("5.7.19", "unknown"),
        ("5.8.0", "guest"),
        ("5.10.0-30-amd64", "guest"),
        ("5.11.0", "unknown"),
        ("6.1.0", "unknown"),
    ] {
        let info = TraceInfo { release: release.to_string(), ..TraceInfo::default() };
        assert_eq!(account_of(&info, &reenters).parts, [(part, 200), ("kernel", 100)].into(), "{release}");
    }
    // Where no entry was recorded before, none may be recorded at all.
    check(&reenters[1..], &[("kernel", 100), ("unknown", 200)]);
    // SVM has none that goes on without one.
    let msr = ExitCode::new(CodeList::Svm, 0x7c);
    check(&[enter(0), exit(0, msr), exit(200, IO), enter(300)], &[("kernel", 100), ("unknown", 200)]);
}

#[test]
fn the_time_of_an_exit_that_the_recording_cuts_off_is_where_its_events_put_it() {
    let events = [exit(0, IO), returns(100, KVM_EXIT_IO, 0), out(150, true)];
    check(&events, &[("kernel", 100), ("user space", 50)]);
    check(&[exit(0, CPUID), enter(10), out(70, false), back(90)], &[("guest", 60), ("kernel", 10), ("steal", 20)]);
}

/// `../shared/found/min-tail-guest-beyond-span.txt`.
#[test]
fn guest_time_after_the_last_entry_is_within_the_span() {
    let port = Subject {
        kind: SubjectKind::Port,
        write: true,
        form: PortAccessForm::NonString,
        size: 1,
        key: 0x80,
        value: 0x65,
    };
    let detail = |at| event(at, EventKind::Detail(port));
    check(&[exit(0, IO), enter(10), detail(500), detail(900)], &[("guest", 890), ("kernel", 10)]);
}

/// `../shared/found/min-out-of-order-116-percent.txt`.
#[test]
fn an_exit_that_begins_before_one_that_has_ended_is_a_loss() {
    let events =
        [exit(1_000, HLT), enter(1_010), exit(1_020, IO), enter(1_030), exit(1_005, IO), enter(1_031), exit(1_040, IO)];
    let found = account(&events);
    assert_eq!(found.rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [true, true, false, false]);
    let expected = [("guest", 10 + 9), ("kernel", 10), ("halt, not divided", 10), ("excluded", 1)];
    assert_eq!(found.parts, expected.into());
    assert_eq!(found.ledger.moments(LedgerLine::ExitOutOfOrder).collect::<Vec<_>>(), [Moment::from_nanos(1_005)]);
}

/// The account of Xen's events, by part; where there are any, they name domain 6's vCPU 0 on CPU 1.
fn on_xen(events: &[(u64, EventKind)]) -> Account {
    let of = |&(at, kind): &(u64, EventKind)| Event {
        tid: Tid(0),
        vm: VmId(6),
        vcpu: VcpuId(0),
        cpu: PcpuId(1),
        ..event(at, kind)
    };
    account_in(Assembler::by_vcpu(), &events.iter().map(of).collect::<Vec<_>>())
}

fn state(from: RunState, to: RunState) -> EventKind {
    EventKind::RunState { from, to }
}

#[test]
fn on_xen_a_cpu_that_records_nothing_for_long_does_what_nothing_explains() {
    use RunState::{Runnable, Running};
    const MS: u64 = 1_000_000;
    let io =
        EventKind::Exit { code: ExitCode::new(CodeList::Svm, 0x7b), idle: false, words: SubjectWord::NONE, rip: 0 };
    let begins = [(90, state(Runnable, Running)), (100, EventKind::Enter), (200, io)];
    let with = |events: &[(u64, EventKind)]| on_xen(&[&begins, events].concat()).parts;
    let of = |kernel, unknown| -> BTreeMap<_, _> {
        let parts = [("guest", 100), ("kernel", kernel), ("unknown", unknown)];
        parts.into_iter().filter(|part| part.1 > 0).collect()
    };
    assert_eq!(with(&[(200 + 3 * MS, EventKind::Enter)]), of(0, 3 * MS));
    assert_eq!(with(&[(200 + 2 * MS, EventKind::Enter)]), of(2 * MS, 0));
    // Any event of the CPU is one.
    assert_eq!(with(&[(200 + MS, EventKind::Other), (200 + 3 * MS, EventKind::Enter)]), of(3 * MS, 0));
    assert_eq!(
        with(&[(300 + MS, EventKind::Other), (300 + 4 * MS, EventKind::Other), (400 + 4 * MS, EventKind::Enter)]),
        of(MS + 200, 3 * MS)
    );
    // In the guest it is the guest's time; without run states nothing says who ran.
    assert_eq!(on_xen(&[(100, io), (100 + 3 * MS, EventKind::Enter)]).parts, [("kernel", 3 * MS)].into());
}

#[test]
fn what_a_recording_holds_is_known_of_perfs_and_ones_own() {
    let halt = [exit(0, HLT), enter(700)];
    for (format, held) in
        [("perf.data", true), ("perf.data (pipe)", true), ("live", true), ("trace.dat v7", false), ("", false)]
    {
        let info = TraceInfo { format: format.to_string(), ..perf(&["kvm:kvm_vcpu_wakeup"]) };
        let part = if held { "kernel" } else { "halt, not divided" };
        assert_eq!(account_of(&info, &halt).parts, [(part, 700)].into(), "{format}");
        let other = TraceInfo { format: format.to_string(), ..perf(&["kvm:kvm_entry"]) };
        assert_eq!(account_of(&other, &halt).parts, [("halt, not divided", 700)].into(), "{format}");
    }
}

#[test]
fn a_halt_of_which_no_wakeup_tells_is_cost_only_where_that_is_certain() {
    let halt = [exit(0, HLT), enter(700)];
    let of = |poll: Option<&str>, tracepoints: &[&str]| {
        let mut info = perf(tracepoints);
        info.settings.extend(poll.map(|value| HostSetting::new("kvm", "halt_poll_ns", value)));
        account_of(&info, &halt).parts.into_keys().collect::<Vec<_>>()
    };
    // Without polls and with the scheduler, all that it ran is cost; with either alone, it may have slept or polled.
    let switches: &[&str] = &["sched:sched_switch"];
    assert_eq!(of(Some("0"), switches), ["kernel"]);
    assert_eq!(of(Some("0\n"), switches), ["kernel"], "as sysfs has it");
    assert_eq!(of(Some("200000"), switches), ["halt, not divided"]);
    assert_eq!(of(None, switches), ["halt, not divided"]);
    assert_eq!(of(Some("0"), &[]), ["halt, not divided"]);
    // Once one wake-up was told, the next halt that is not told of found an event pending.
    let events = [exit(0, HLT), woken(900, 800, false), enter(1_000), exit(1_100, HLT), enter(1_700)];
    check(&events, &[("guest", 100), ("kernel", 200 + 600), ("polling", 800)]);
}

#[test]
fn where_polls_are_told_of_a_halt_without_a_change_did_not_poll() {
    let second =
        [exit(1_100, HLT), out(1_200, true), wakeup(1_900), back(1_950), woken(1_960, 800, true), enter(2_000)];
    let change = |new| event(940, EventKind::HaltPoll { grow: new > 0, new, old: 1_000 });
    let first = [exit(0, HLT), change(0), woken(950, 900, false), enter(1_000)];
    // 100 + 10 + 40 of the second halt ran: 60 before KVM began it, 40 after it, the rest in it.
    check(
        &[&first[..], &second].concat(),
        &[("guest", 100), ("kernel", 100 + 150), ("polling", 900), ("halted", 700), ("steal", 50)],
    );
    // One that is shorter than the poll changes none, and polls until another thread wants the CPU.
    let longer = [exit(0, HLT), change(2_000), woken(950, 900, false), enter(1_000)];
    check(
        &[&longer[..], &second].concat(),
        &[("guest", 100), ("kernel", 100 + 100), ("polling", 900 + 50), ("halted", 700), ("steal", 50)],
    );
    let untold = [exit(0, HLT), woken(950, 900, false), enter(1_000)];
    check(
        &[&untold[..], &second].concat(),
        &[
            ("guest", 100),
            ("kernel", 100 + 60 + 40),
            ("polling", 900),
            ("halted", 700),
            ("steal", 50),
            ("halt, not divided", 50),
        ],
    );
}

#[test]
fn of_two_sleeps_the_one_whose_wakeup_is_missing_is_not_divided() {
    let info = perf(&["sched:sched_switch", "kvm:kvm_vcpu_wakeup", "kvm:kvm_halt_poll_ns"]);
    let events = [
        exit(0, HLT),
        out(100, true),
        wakeup(400),
        back(450),
        out(500, true),
        back(830),
        woken(850, 800, true),
        enter(900),
    ];
    let expected = [("kernel", 100 + 50 + 20 + 50), ("halted", 300), ("steal", 50), ("halt, not divided", 330)];
    assert_eq!(account_of(&info, &events).parts, expected.into());
    // The same where the exit's reason does not say that it halts.
    let events = [&[exit(0, VMRESUME)], &events[1..]].concat();
    assert_eq!(account_of(&info, &events).parts, expected.into());
}

#[test]
fn a_sleep_in_an_exit_that_halts_after_all_is_halted() {
    let info = perf(&["sched:sched_switch", "kvm:kvm_vcpu_wakeup"]);
    let found = account_of(
        &info,
        &[exit(0, VMGEXIT), out(100, true), wakeup(800), back(830), event(850, ASKS_FOR_HLT), enter(900)],
    );
    assert_eq!(found.parts, [("kernel", 170), ("halted", 700), ("steal", 30)].into());
    assert_eq!((found.rows[0].is_halt, found.rows[0].cost().0), (true, 170));
    let steps: u64 = ExitPhase::ALL.iter().map(|step| found.rows[0].phases.time(*step).0).sum();
    assert_eq!(steps, 170);
    // Said twice, it is one halt.
    let twice = [exit(0, VMGEXIT), event(50, ASKS_FOR_HLT), event(60, ASKS_FOR_HLT), enter(900)];
    let found = account_of(&info, &twice);
    assert_eq!((found.halts.len(), found.parts), (1, [("kernel", 900)].into()));
}

#[test]
fn in_kvm_run_a_sleep_without_a_wakeup_is_not_divided() {
    let found = account(&[
        returns(0, KVM_EXIT_IO, 0),
        run(100),
        out(300, true),
        back(1_000),
        returns(2_000, KVM_EXIT_IO, 0),
        run(2_100),
    ]);
    let expected = [("user space", 200), ("halt, not divided", 700), ("unknown", 1_200)];
    assert_eq!(found.parts, expected.into());
}

#[test]
fn a_thread_that_is_heard_of_runs_whether_or_not_the_scheduler_says_so() {
    let inject = |at| event(at, EventKind::Inject { vector: 3 });
    check(&[exit(0, CPUID), out(100, false), inject(600), enter(700)], &[("kernel", 200), ("steal", 500)]);
    check(&[exit(0, CPUID), out(100, false), enter(700)], &[("kernel", 100), ("steal", 600)]);
    // In the guest: the switch back is missing.
    let events = [exit(0, CPUID), enter(100), out(150, false), exit(400, CPUID), enter(500)];
    check(&events, &[("guest", 50), ("kernel", 200), ("steal", 250)]);
}

#[test]
fn a_sleep_outside_every_exit_is_unknown() {
    let asleep = [exit(0, CPUID), enter(10), out(110, true), wakeup(210), back(260), exit(300, CPUID), enter(310)];
    check(&asleep, &[("guest", 100 + 40), ("kernel", 20), ("unknown", 100), ("steal", 50)]);
    // Called by KVM_RUN, of which no exit was seen.
    let called = [exit(0, CPUID), enter(10), run(20), out(30, true), wakeup(70), back(75), enter(80)];
    check(&called, &[("guest", 10), ("kernel", 10), ("unknown", 10 + 40 + 5), ("steal", 5)]);
}

#[test]
fn a_vmx_fast_path_is_one_only_if_nothing_else_is_told_of_it() {
    let msr = ExitCode::new(CodeList::Vmx, 32);
    let first = |idle| event(0, EventKind::Exit { code: msr, idle, words: SubjectWord::NONE, rip: 0 });
    let on = |cpu, event: Event| Event { cpu: PcpuId(cpu), ..event };
    let then = [exit(200, IO), enter(300)];
    check(&[&[enter(0), first(false)][..], &then].concat(), &[("guest", 200), ("kernel", 100)]);
    let unknown = [("unknown", 200), ("kernel", 100)];
    check(&[&[enter(0), first(true)][..], &then].concat(), &unknown);
    check(&[&[enter(0), first(false), event(5, EventKind::Inject { vector: 3 })][..], &then].concat(), &unknown);
    check(&[&[enter(0), on(3, first(false))][..], &then].concat(), &unknown);
    check(&[&[enter(0), exit(0, IO)][..], &then].concat(), &unknown);
}

#[test]
fn what_is_out_of_order_is_excluded_whatever_comes_next() {
    // The late exit has no entry of its own: 1,010 to 1,100 is of nobody.
    let events = [exit(1_000, CPUID), enter(1_010), exit(1_005, IO), exit(1_100, IO), enter(1_130)];
    let found = account(&events);
    assert_eq!(found.rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(found.parts, [("kernel", 10 + 30), ("excluded", 90)].into());
    assert_eq!(found.ledger.get(LedgerLine::ExitOutOfOrder), 1);
    // An exit that is still open when a late entry comes.
    let found =
        account(&[exit(1_000, IO), event(1_040, EventKind::Inject { vector: 3 }), out(1_050, false), enter(1_020)]);
    assert_eq!(found.rows.iter().map(|row| row.timed).collect::<Vec<_>>(), [false]);
    assert_eq!(found.parts, [("excluded", 50)].into());
}

#[test]
fn an_event_of_no_known_cpu_shows_no_move() {
    let on = |cpu, event: Event| Event { cpu: PcpuId(cpu), ..event };
    let events = [enter(0), out(0, false), on(2, back(0)), on(u32::MAX, exit(100, CPUID)), on(2, enter(150))];
    let found = account(&events);
    assert_eq!(
        (found.ledger.get(LedgerLine::ImpossibleExit), found.parts),
        (0, [("guest", 100), ("kernel", 50)].into())
    );
}

#[test]
fn a_loss_hides_who_may_have_been_on_its_cpu_meanwhile() {
    let lost = |at, cpu| Event::lost(Moment::from_nanos(at), PcpuId(cpu), 9);
    let (any, here, other) = (u32::MAX, 0, 7);
    let on = |cpu, event: Event| Event { cpu: PcpuId(cpu), ..event };
    // In the guest: since when it was last heard of, the entry, until it is heard of again.
    let guest = |cpu| [exit(0, IO), enter(100), lost(150, cpu), exit(200, IO), enter(300)];
    check(&guest(other), &[("guest", 100), ("kernel", 200)]);
    check(&guest(here), &[("kernel", 200), ("excluded", 100)]);
    check(&guest(any), &[("kernel", 200), ("excluded", 100)]);
    // Where the vCPU is is not known.
    let nowhere =
        guest(other).map(|event| if matches!(event.kind, EventKind::Lost { .. }) { event } else { on(any, event) });
    check(&nowhere, &[("kernel", 200), ("excluded", 100)]);
    // Preempted in the guest, it may be given any CPU; preempted in an exit, it goes on with that.
    let preempted = |cpu| [exit(0, IO), enter(100), out(150, false), lost(200, cpu), back(250), exit(300, IO)];
    check(&preempted(other), &[("guest", 50), ("kernel", 100), ("excluded", 150)]);
    let in_exit = [exit(0, IO), out(150, false), lost(200, other), back(250), enter(300)];
    check(&in_exit, &[("kernel", 200), ("steal", 100)]);
    // A halt in what is hidden is no halt without an exit.
    let hidden = [exit(0, IO), enter(100), lost(150, here), woken(180, 20, true), enter(200), exit(230, IO)];
    let found = account(&hidden);
    assert_eq!(found.parts, [("guest", 30), ("kernel", 100), ("excluded", 100)].into());
    assert_eq!(found.ledger.get(LedgerLine::ImpossibleExit), 0);
    // Two entries, of which a loss elsewhere may hide what was between.
    let twice = [exit(0, IO), enter(100), lost(150, other), enter(200), exit(230, IO)];
    check(&twice, &[("guest", 30), ("kernel", 100), ("excluded", 100)]);
}

#[test]
fn a_halt_within_an_emulated_exit_is_none_that_cannot_be() {
    let events = |more: &[Event]| [&[exit(0, APIC_WRITE)], more, &[woken(900, 700, false), enter(1_000)]].concat();
    let found = account(&events(&[event(50, EventKind::Emulate)]));
    assert_eq!((found.ledger.get(LedgerLine::ImpossibleExit), found.rows[0].timed), (0, true));
    assert_eq!(found.parts, [("kernel", 300), ("polling", 700)].into());
    let found = account(&events(&[event(50, EventKind::Inject { vector: 3 })]));
    assert_eq!((found.ledger.get(LedgerLine::ImpossibleExit), found.rows[0].timed), (1, false));
}

#[test]
fn an_exit_that_goes_to_user_space_twice_keeps_when_it_first_did() {
    let events = [
        exit(1_000, IO),
        returns(1_150, KVM_EXIT_IO, 0),
        run(1_350),
        returns(1_400, 6, 0),
        run(1_900),
        event(1_910, EventKind::Fpu { load: true }),
        enter(2_000),
    ];
    let found = account(&events);
    let row = &found.rows[0];
    assert_eq!((row.handler, row.events), (Handler::Userspace(6), 7));
    assert_eq!((row.phases.handed.0, row.phases.answered.0), (150, 900), "answered when it was last called");
    assert_eq!(found.parts, [("kernel", 150 + 50 + 100), ("user space", 200 + 500)].into());
}

#[test]
fn on_xen_run_states_outside_every_exit_divide_the_time_of_a_vcpu() {
    use RunState::{Blocked, Offline, Paused, Runnable, Running};
    let leaves =
        EventKind::Exit { code: ExitCode::new(CodeList::Svm, 0x72), idle: false, words: SubjectWord::NONE, rip: 0 };
    let found = on_xen(&[
        (100, EventKind::Enter),
        (150, state(Running, Paused)),
        (250, state(Paused, Runnable)),
        (280, state(Runnable, Running)),
        (300, state(Running, Offline)),
        (310, state(Offline, Running)),
        (330, state(Running, Blocked)),
        (370, state(Blocked, Runnable)),
        (375, state(Runnable, Running)),
        (380, state(Running, Runnable)),
        (383, state(Runnable, Running)),
        (400, leaves),
        (403, EventKind::Enter),
    ]);
    let guest = 50 + 20 + 20 + 5 + 17;
    let expected = [("guest", guest), ("kernel", 3), ("halted", 40), ("steal", 30 + 5 + 3), ("stopped", 100 + 10)];
    assert_eq!(found.parts, expected.into());
    assert_eq!(found.rows[0].guest.0, 17, "since it had its CPU again");
}

#[test]
fn on_xen_an_access_that_was_answered_before_the_vcpu_lost_its_cpu_is_kernel_and_the_device_models() {
    use RunState::{Blocked, Running};
    let io =
        EventKind::Exit { code: ExitCode::new(CodeList::Svm, 0x7b), idle: false, words: SubjectWord::NONE, rip: 0 };
    let wake = |at| (at, EventKind::VcpuWake { paused: false });
    let goes_on = state(Running, Running);
    let found = on_xen(&[(90, goes_on), (100, io), wake(160), (170, goes_on), (200, EventKind::Enter)]);
    assert_eq!((found.rows[0].handler, found.parts), (Handler::DeviceModel, [("kernel", 100)].into()));
    // A wait is a wait, whether the vCPU is said to be woken before it or in it.
    for (blocked, woken) in [(130, 120), (130, 140)] {
        let mut events =
            [(90, goes_on), (100, io), wake(woken), (blocked, state(Running, Blocked)), (150, state(Blocked, Running))];
        events.sort_by_key(|event| event.0);
        let found = on_xen(&[&events[..], &[(200, EventKind::Enter)]].concat());
        let expected = [("kernel", 30 + 50), ("user space", 20)].into();
        assert_eq!((found.rows[0].handler, found.parts), (Handler::DeviceModel, expected), "{woken}");
    }
}

#[test]
fn on_xen_a_state_that_is_told_again_goes_on() {
    use RunState::{Blocked, Offline, Runnable, Running};
    let io =
        EventKind::Exit { code: ExitCode::new(CodeList::Svm, 0x7b), idle: false, words: SubjectWord::NONE, rip: 0 };
    let found = on_xen(&[
        (100, io),
        (110, state(Running, Offline)),
        (150, state(Offline, Blocked)),
        (300, state(Blocked, Runnable)),
        (320, state(Runnable, Running)),
        (330, state(Running, Offline)),
        (390, state(Offline, Running)),
        (400, EventKind::Enter),
    ]);
    let way = &found.rows[0].phases;
    assert_eq!(found.parts, [("kernel", 10 + 10 + 10), ("user space", 190 + 60), ("steal", 20)].into());
    // It was handed over once, and answered when it last waited no more.
    assert_eq!((way.handed.0, way.answered.0), (10, 290));
    assert_eq!(ExitPhase::ALL.map(|step| way.time(step).0), [0, 10, 0, 250, 0, 20]);
    assert!([PhaseBoundary::HandedOver, PhaseBoundary::KvmRunEntered].into_iter().all(|mark| way.has(mark)));
}

#[test]
fn on_powerpc_the_scheduler_says_whether_a_vcpu_that_was_kicked_sleeps() {
    let of = |event: Event| Event { vcpu: VcpuId(3), ..event };
    let events = |first: &[Event], then: &[Event]| {
        let trap = ExitCode::new(CodeList::PpcTrap, 0xc00);
        let events = [of(exit(100, trap)), of(returns(130, KVM_EXIT_IO, EINTR))];
        account(&[&events[..1], first, &events[1..], then, &[of(run(180)), of(enter(190))]].concat()).parts
    };
    assert_eq!(events(&[], &[]), [("kernel", 30 + 10), ("unknown", 50)].into());
    let preempted = [out(105, false), back(110)];
    assert_eq!(events(&preempted, &[]), [("kernel", 25 + 10), ("user space", 50), ("steal", 5)].into());
    let slept = [out(140, true), wakeup(160), back(165)];
    let expected = [("kernel", 25 + 10), ("user space", 10 + 15), ("stopped", 20), ("steal", 5 + 5)];
    assert_eq!(events(&preempted, &slept), expected.into());
}

/// Where KVM fires no `kvm_exit`, and nothing marks the entries into KVM_RUN.
#[test]
fn two_returns_to_user_space_have_a_run_between_them() {
    const KVM_EXIT_MMIO: u32 = 6;
    let port = |at, write| {
        let subject =
            Subject { kind: SubjectKind::Port, write, form: PortAccessForm::NonString, size: 1, key: 0x3f8, value: 7 };
        event(at, EventKind::Detail(subject))
    };
    let found = account(&[
        returns(0, KVM_EXIT_MMIO, 0),
        returns(100, KVM_EXIT_MMIO, 0),
        // A read, which ends when its value is told; then a write, before user space has it.
        returns(300, KVM_EXIT_IO, 0),
        port(350, false),
        port(500, true),
        returns(510, KVM_EXIT_IO, 0),
        returns(700, KVM_EXIT_IO, 0),
    ]);
    let rows: Vec<_> = found.rows.iter().map(|row| (row.at.as_nanos(), row.timed, row.total().0)).collect();
    assert_eq!(rows, [(0, false, 0), (100, false, 0), (300, true, 50), (510, false, 0), (700, false, 0)]);
    assert_eq!(found.parts, [("user space", 50), ("unknown", 300 + 350)].into());
    assert_eq!(found.ledger.get(LedgerLine::UnseenRun), 3);
    let rows: u64 = found.rows.iter().map(|row| u64::from(row.events)).sum();
    assert_eq!(rows + found.ledger.events_outside_rows(), 7);
    // What the scheduler says of it is not the guest's, nor the kernel's: but a wait for a CPU is one wherever the vCPU was.
    let events = [returns(0, KVM_EXIT_IO, 0), out(100, true), wakeup(300), back(350), returns(900, KVM_EXIT_IO, 0)];
    assert_eq!(account(&events).parts, [("steal", 50), ("unknown", 850)].into());
    // A halt tells that KVM_RUN was entered before it.
    let events = [returns(0, KVM_EXIT_IO, 0), out(200, true), wakeup(700), back(750), woken(760, 600, true)];
    let found = account(&[&events[..], &[returns(900, KVM_EXIT_IO, 0)]].concat());
    assert_eq!(found.parts, [("halted", 500), ("steal", 50), ("halt, not divided", 50), ("unknown", 300)].into());
}

/// An application processor that waits to be started sleeps in KVM_RUN, more than once.
#[test]
fn a_sleep_in_kvm_run_is_no_stop_though_nothing_says_when_that_was_entered() {
    let info = perf(&["kvm:kvm_exit", "kvm:kvm_vcpu_wakeup", "sched:sched_switch", "kvm:kvm_halt_poll_ns"]);
    let begins = [exit(0, CPUID), returns(100, codes::KVM_EXIT_INTR, 0), out(150, true), wakeup(250), back(260)];
    let waits = [out(300, true), wakeup(800), back(820), out(830, true), wakeup(930), back(940)];
    let events = |runs: &[Event]| [&begins[..], runs, &waits, &[woken(950, 670, true), enter(1_000)]].concat();
    let found = account_of(&info, &events(&[]));
    // The first sleep was in user space; what the thread ran from 280 on was KVM's.
    let expected =
        [("kernel", 100 + 20 + 10 + 10 + 50), ("user space", 50 + 20), ("halted", 600), ("steal", 10 + 20 + 10)];
    let mut expected: BTreeMap<_, _> = expected.into();
    expected.insert("stopped", 100);
    assert_eq!(found.parts, expected);
    let steps: u64 = ExitPhase::ALL.iter().map(|step| found.rows[0].phases.time(*step).0).sum();
    assert_eq!(steps, found.rows[0].cost().0, "the steps are the cost");
    // The same where KVM_RUN was entered at 280, and said so.
    assert_eq!(account_of(&info, &events(&[run(280)])).parts, expected);
    // So it is where KVM_RUN is marked only after the halt, as kernels did before the FPU's switch moved out of it.
    let late = [&begins[..], &waits, &[woken(950, 670, true), run(960), enter(1_000)]].concat();
    assert_eq!(account_of(&perf(&["kvm:kvm_exit", "kvm:kvm_fpu", "kvm:kvm_vcpu_wakeup"]), &late).parts["stopped"], 100);
    // Where nothing would tell of such a halt either, it may have been one or a stop.
    let info = perf(&["kvm:kvm_exit", "sched:sched_switch"]);
    let untold = [&begins[..], &waits, &[enter(1_000)]].concat();
    assert_eq!(account_of(&info, &untold).parts["unknown"], 100 + 500 + 100);
}

#[test]
fn without_exits_nothing_says_how_long_a_guest_ran() {
    let entered = [enter(0), enter(100), woken(400, 50, true), out(500, false), back(600), enter(700)];
    assert_eq!(account(&entered).parts, [("steal", 100), ("unknown", 600)].into());
    let found = account_of(&perf(&["kvm:kvm_entry"]), &entered);
    assert_eq!((found.ledger.get(LedgerLine::ImpossibleExit), found.parts["unknown"]), (0, 600));
}

#[test]
fn on_xen_run_states_that_do_not_follow_from_one_another_leave_unknown_time() {
    use RunState::{Blocked, Runnable, Running};
    let io =
        EventKind::Exit { code: ExitCode::new(CodeList::Svm, 0x78), idle: false, words: SubjectWord::NONE, rip: 0 };
    let wake = EventKind::VcpuWake { paused: false };
    // It was blocked from some moment after the exit on.
    let events = [(90, state(Runnable, Running)), (100, io), (400, wake), (500, state(Blocked, Runnable))];
    let then = [(550, state(Runnable, Running)), (600, EventKind::Enter)];
    assert_eq!(on_xen(&[&events[..], &then].concat()).parts, [("kernel", 50), ("steal", 50), ("unknown", 400)].into());
    // It had a CPU again before it entered its guest, and nothing said when.
    let unsaid = [(90, state(Runnable, Running)), (100, io), (150, state(Running, Runnable)), (600, EventKind::Enter)];
    assert_eq!(on_xen(&unsaid).parts, [("kernel", 50), ("unknown", 450)].into());
}

#[test]
fn a_vcpu_that_is_not_heard_of_to_the_end_is_said_to_end_early() {
    let other = |at| Event { tid: Tid(99), vcpu: VcpuId(3), ..exit(at, IO) };
    let until =
        |last| account(&[exit(0, IO), enter(100), exit(900, HLT), other(last)]).ledger.get(LedgerLine::EndsEarly);
    assert_eq!([until(940), until(1_000)], [0, 1]);
}

#[test]
fn user_space_that_is_told_twice_has_the_exit_all_the_while() {
    let events = [exit(0, IO), returns(100, KVM_EXIT_IO, 0), returns(230, KVM_EXIT_IO, 0), run(300), enter(350)];
    let found = account(&events);
    assert_eq!(found.parts, [("kernel", 150), ("user space", 200)].into());
    assert_eq!(ExitPhase::ALL.map(|step| found.rows[0].phases.time(step).0), [0, 100, 0, 200, 0, 50]);
    assert_eq!(found.rows[0].phases.handed.0, 100);
}

#[test]
fn what_was_in_hand_when_kvm_exit_fires_is_of_no_row() {
    // The tail of an exit before the recording: the vCPU is first heard of by its entry.
    let tail = [returns(0, KVM_EXIT_IO, 0), run(10), enter(20), exit(100, IO), enter(200)];
    check(&tail, &[("guest", 80), ("kernel", 100)]);
    // After rows have left, what is in hand is time that nobody knows of: here from 400 to 500, and all between returns.
    let events = [
        returns(0, KVM_EXIT_IO, 0),
        run(100),
        returns(200, KVM_EXIT_IO, 0),
        run(300),
        returns(400, KVM_EXIT_IO, 0),
        run(500),
        enter(600),
        exit(650, IO),
        enter(680),
    ];
    let found = account(&events);
    assert_eq!(found.rows.iter().map(|row| row.at.as_nanos()).collect::<Vec<_>>(), [0, 200, 650]);
    assert_eq!(found.parts, [("user space", 200), ("unknown", 400), ("guest", 50), ("kernel", 30)].into());
    assert_eq!((found.ledger.get(LedgerLine::BeforeRecording), found.ledger.get(LedgerLine::NoKvmExit)), (2, 0));
}

#[test]
fn a_poll_is_no_longer_than_what_ran_and_kvm_told() {
    let info = perf(&["sched:sched_switch", "kvm:kvm_vcpu_wakeup", "kvm:kvm_halt_poll_ns"]);
    // It ran 40 of the halt's 500; KVM says that it polled for 200.
    let events =
        [exit(0, HLT), out(130, true), wakeup(580), back(590), polled(595, 200), woken(600, 500, true), enter(650)];
    let expected = [("kernel", 100 + 50), ("polling", 40), ("halted", 450), ("steal", 10)];
    assert_eq!(account_of(&info, &events).parts, expected.into());
    // A length that is longer than the exit: nothing of it was handling.
    let longer = [exit(1_000, HLT), woken(1_090, 700, false), enter(1_100)];
    check(&longer, &[("kernel", 10), ("polling", 90)]);
}
