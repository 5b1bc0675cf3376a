//! A LoongArch host's trace, in the order in which its kernel tells (`arch/loongarch/kvm/{vcpu,exit}.c`): from text and from
//! records the same exits, with `kvm_exit_gspr` and `kvm_exit_idle` in the exit that they are about.

use exitscope_model::{Assembler, Event, Exit, Handler, Ledger, LedgerLine, TimePart, TraceInfo};
use exitscope_trace::{Input, PerfHead, PerfWriter, SourceOptions, open_input};
use exitscope_units::VcpuId;
use std::io::Cursor;

/// An idle exit, one for CPUCFG, an IOCSR write that goes to user space, and an interrupt.
const TRACE: &str = "\
 CPU 1/KVM   229/231   [000]   100.000000000: kvm:kvm_enter: vcpu 1 PC: 0x90000000
 CPU 1/KVM   229/231   [000]   100.000010000: kvm:kvm_exit: vcpu 1 [0x16] PC: 0x90000000
 CPU 1/KVM   229/231   [000]   100.000010500: kvm:kvm_exit_gspr: vcpu 1 Inst word: 0x06488000
 CPU 1/KVM   229/231   [000]   100.000010600: kvm:kvm_exit_idle: vcpu 1 [IDLE] PC: 0x90000004
 CPU 1/KVM   229/231   [000]   100.000050000: kvm:kvm_vcpu_wakeup: wait time 39000 ns, polling valid
 CPU 1/KVM   229/231   [000]   100.000051000: kvm:kvm_reenter: vcpu 1 PC: 0x90000004
 CPU 1/KVM   229/231   [000]   100.000060000: kvm:kvm_exit: vcpu 1 [0x16] PC: 0x90000008
 CPU 1/KVM   229/231   [000]   100.000060200: kvm:kvm_exit_gspr: vcpu 1 Inst word: 0x00006ca4
 CPU 1/KVM   229/231   [000]   100.000061000: kvm:kvm_reenter: vcpu 1 PC: 0x9000000c
 CPU 1/KVM   229/231   [000]   100.000070000: kvm:kvm_exit: vcpu 1 [0x16] PC: 0x90000010
 CPU 1/KVM   229/231   [000]   100.000070200: kvm:kvm_exit_gspr: vcpu 1 Inst word: 0x064818a4
 CPU 1/KVM   229/231   [000]   100.000070300: kvm:kvm_iocsr: iocsr write len 4 gpa 0x1008 val 0x1
 CPU 1/KVM   229/231   [000]   100.000071000: kvm:kvm_out: vcpu 1 PC: 0x90000014
 CPU 1/KVM   229/231   [000]   100.000072000: kvm:kvm_userspace_exit: reason KVM_EXIT_UNKNOWN (38)
 CPU 1/KVM   229/231   [000]   100.000080000: kvm:kvm_enter: vcpu 1 PC: 0x90000014
 CPU 1/KVM   229/231   [000]   100.000090000: kvm:kvm_exit: vcpu 1 [0x0] PC: 0x90000020
 CPU 1/KVM   229/231   [000]   100.000091000: kvm:kvm_reenter: vcpu 1 PC: 0x90000020
";

fn read(bytes: &[u8]) -> (Vec<Event>, TraceInfo, Ledger) {
    let mut source = open_input(Input::from_bytes("trace", bytes).unwrap(), SourceOptions::default()).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    (events, source.info().clone(), ledger)
}

fn check(events: &[Event], mut ledger: Ledger) {
    let (mut rows, mut assembler) = (Vec::new(), Assembler::default());
    assembler.push(events, &mut rows, &mut ledger);
    assembler.finish(&mut rows, &mut ledger);
    let said = |row: &Exit| {
        (
            row.code.name(),
            row.handler,
            row.part(TimePart::Kernel).0,
            row.part(TimePart::User).0,
            row.parts.in_halts().0,
            row.rip,
        )
    };
    let expected = [
        ("IDLE", Handler::Kernel, 2_000, 0, 39_000, 0x9000_0000),
        ("CPUCFG", Handler::Kernel, 1_000, 0, 0, 0x9000_0008),
        ("IOCSR", Handler::Userspace(38), 2_000, 8_000, 0, 0x9000_0010),
        ("Interrupt", Handler::Kernel, 1_000, 0, 0, 0x9000_0020),
    ];
    let expected =
        expected.map(|(name, handler, kernel, user, idle, rip)| (name.to_string(), handler, kernel, user, idle, rip));
    assert_eq!(rows.iter().map(said).collect::<Vec<_>>(), expected);
    assert_eq!(rows.iter().map(|row| row.guest.0).sum::<u64>(), 10_000 + 9_000 + 9_000 + 10_000);
    assert!(rows.iter().all(|row| row.who.vcpu == VcpuId(1) && row.timed));
    assert_eq!(rows[2].subject.map(|detail| (detail.key, detail.write)), Some((0x1008, true)));
    assert_eq!((ledger.get(LedgerLine::UnknownFormat), ledger.get(LedgerLine::ExitWithoutEntry)), (0, 0));
}

#[test]
fn an_exit_that_is_told_in_steps_is_one_exit_from_text_and_from_records() {
    let (events, info, ledger) = read(TRACE.as_bytes());
    assert_eq!(events.len(), TRACE.lines().count());
    check(&events, ledger);

    let head = PerfHead {
        arch: "loongarch64",
        cpuid: "",
        cpu: "",
        settings: &[],
        hostname: "",
        release: "",
        cpus: 1,
        command: &[],
        names: &info.names,
        compressed: false,
    };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = PerfWriter::new(&mut bytes, &head).unwrap();
    for event in &events {
        writer.event(event).unwrap();
    }
    assert_eq!(writer.finish().unwrap().left_out, 0);
    let (written, _, ledger) = read(&bytes.into_inner());
    assert_eq!(
        written.iter().map(|event| event.kind).collect::<Vec<_>>(),
        events.iter().map(|event| event.kind).collect::<Vec<_>>()
    );
    check(&written, ledger);
}

#[test]
fn a_kernel_that_names_no_vcpu_prints_the_same_exits() {
    let older =
        TRACE.replace("vcpu 1 PC", "PC").replace("] PC", "]PC").replace("vcpu 1 [", "[").replace("vcpu 1 Inst", "Inst");
    let (events, ..) = read(older.as_bytes());
    let (newer, ..) = read(TRACE.as_bytes());
    let kinds = |events: &[Event]| events.iter().map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&events), kinds(&newer));
}
