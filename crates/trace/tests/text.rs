//! Text traces, read and compared with what `grep` and `awk` count in the same files.
//!
//! The fixtures are ranges of lines that perf 6.1 (`perf script --ns`) and trace-cmd 3.1.6 (`trace-cmd report -t`)
//! print of traces in `corpus/`; each fixture's name begins with its trace's.

use exitscope_model::{CodeList, Event, EventKind, ExitCode, LedgerLine, Subject, SubjectKind, ThreadName};
use exitscope_trace::{Input, TraceError, open};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeMap;
use std::path::Path;

mod common;

use common::{Said, corpus, drain, fixture, said};

fn read(path: &Path) -> Said {
    drain(open(path).unwrap()).unwrap()
}

fn try_text(text: &[u8]) -> Result<Said, TraceError> {
    said(text)
}

fn text(text: &str) -> Said {
    try_text(text.as_bytes()).unwrap()
}

impl Said {
    /// How many events there are of each name, without the system.
    fn names(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for event in self.events.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })) {
            let name = self.info.names.get(event.name);
            *counts.entry(name.split_once(':').map_or(name, |pair| pair.1)).or_default() += 1;
        }
        counts
    }

    /// How many exits there are of each reason.
    fn reasons(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            if let EventKind::Exit { code, .. } = event.kind {
                *counts.entry(code.name()).or_default() += 1;
            }
        }
        counts
    }

    fn details(&self, kind: SubjectKind) -> impl Iterator<Item = Subject> + '_ {
        self.events.iter().filter_map(move |event| match event.kind {
            EventKind::Detail(detail) if detail.kind == kind => Some(detail),
            _ => None,
        })
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }

    /// All lines but that it would not say what was lost, as most texts.
    fn losses(&self) -> Vec<(LedgerLine, u64, Option<u64>)> {
        let lines = self.ledger.lines().filter(|row| row.0 != LedgerLine::LossUnknown);
        lines.map(|(line, count)| (line, count, self.ledger.first(line))).collect()
    }

    fn says_losses(&self) -> bool {
        self.ledger.get(LedgerLine::LossUnknown) == 0
    }
}

fn counts<'a>(rows: &[(&'a str, u64)]) -> BTreeMap<&'a str, u64> {
    rows.iter().copied().collect()
}

fn assert_reasons(said: &Said, rows: &[(&str, u64)]) {
    let rows: BTreeMap<String, u64> = rows.iter().map(|row| (row.0.to_string(), row.1)).collect();
    assert_eq!(said.reasons(), rows);
}

fn first_and_last(said: &Said) -> (String, String) {
    (said.events[0].at.to_string(), said.events[said.events.len() - 1].at.to_string())
}

#[test]
fn an_ftrace_text_has_the_events_that_grep_counts() {
    let said = read(&corpus("x86-svm/t4-ftrace.txt.gz"));
    assert_eq!(said.info.format, "ftrace text");
    // As its header says: 117600 of 180437 are in the buffers. CPU 0's begin at line 1822. The text has only a part of them.
    let part = (LedgerLine::MissingLines, 117_600 - 39_987, None);
    assert_eq!(said.losses(), [part, (LedgerLine::LostRecords, 62_837, None)]);
    let lost = said.events.iter().position(|event| matches!(event.kind, EventKind::Lost { .. })).unwrap();
    assert_eq!((said.events[lost].cpu, said.events[lost + 1].cpu, lost), (PcpuId(0), PcpuId(0), 1822 - 12 - 1));
    assert_eq!((said.ledger.events, said.events.len()), (39_987, 39_988));
    let expected = counts(&[
        ("kvm_apic", 4020),
        ("kvm_apic_accept_irq", 2006),
        ("kvm_apic_ipi", 2006),
        ("kvm_cpuid", 4),
        ("kvm_emulate_insn", 6085),
        ("kvm_entry", 8196),
        ("kvm_eoi", 2008),
        ("kvm_exit", 8196),
        ("kvm_fpu", 148),
        ("kvm_hv_stimer_cleanup", 32),
        ("kvm_hv_stimer_set_config", 16),
        ("kvm_hv_stimer_set_count", 16),
        ("kvm_hv_syndbg_get_msr", 2),
        ("kvm_inj_virq", 2008),
        ("kvm_ioapic_set_irq", 168),
        ("kvm_mmio", 3),
        ("kvm_msr", 4059),
        ("kvm_page_fault", 3),
        ("kvm_pic_set_irq", 168),
        ("kvm_pio", 72),
        ("kvm_pvclock_update", 5),
        ("kvm_set_irq", 168),
        ("kvm_track_tsc", 6),
        ("kvm_unmap_hva_range", 219),
        ("kvm_update_master_clock", 1),
        ("kvm_userspace_exit", 74),
        ("kvm_vcpu_wakeup", 5),
        ("kvm_write_tsc_offset", 293),
    ]);
    assert_eq!(said.names(), expected);
    assert_reasons(
        &said,
        &[
            ("cpuid", 4),
            ("cr0_sel_write", 3),
            ("hlt", 2010),
            ("interrupt", 34),
            ("io", 72),
            ("msr", 4059),
            ("npf", 3),
            ("read_cr0", 1),
            ("read_cr4", 1),
            ("vintr", 2005),
            ("write_cr0", 1),
            ("write_cr4", 3),
        ],
    );
    assert_eq!(first_and_last(&said), ("87.531905000".to_string(), "88.912069000".to_string()));
    let port =
        |port, write| said.details(SubjectKind::Port).filter(|pio| (pio.key, pio.write) == (port, write)).count();
    assert_eq!((port(0x3f8, true), port(0x3fd, false)), (36, 36));
    let msr = |msr, write| said.details(SubjectKind::Msr).filter(|row| (row.key, row.write) == (msr, write)).count();
    assert_eq!((msr(0x80b, true), msr(0x830, true), msr(0x1b, false), msr(0x802, false)), (2008, 2006, 4, 3));
    let apic = |register| said.details(SubjectKind::Apic).filter(|row| row.key == register).count();
    assert_eq!((apic(0x20), apic(0xb0), apic(0x300), apic(0xf0)), (4, 2008, 2006, 2));
    assert_eq!(said.count(|event| event.kind == EventKind::Inject { vector: 0xb0 }), 2005);
    assert_eq!(said.count(|event| event.kind == EventKind::UserspaceExit { reason: 2, errno: 0 }), 72);
    assert_eq!(said.count(|event| event.kind == EventKind::UserspaceExit { reason: 0, errno: -4 }), 1);
    assert_eq!(said.count(|event| event.kind == EventKind::UserspaceExit { reason: 0, errno: -11 }), 1);
    assert_eq!(said.count(|event| event.kind == EventKind::Fpu { load: true }), 74);
    assert_eq!(said.count(|event| event.kind == EventKind::Enter && event.vcpu == VcpuId(1)), 146);
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Exit { .. }) && event.vcpu == VcpuId(0)), 8050);
    assert_eq!(said.info.comms[&231], "kvm-pit/223");
    assert_eq!(said.info.comms.len(), 5);
}

#[test]
fn a_perf_script_text_of_svm_has_the_events_that_grep_counts() {
    let said = read(&fixture("t2.perf-script-ns.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("perf script text", vec![]));
    assert_eq!(first_and_last(&said), ("32.489907764".to_string(), "32.743580774".to_string()));
    let expected = counts(&[
        ("kvm_ack_irq", 24),
        ("kvm_apic", 105),
        ("kvm_apic_accept_irq", 88),
        ("kvm_apic_ipi", 22),
        ("kvm_async_pf_ready", 1),
        ("kvm_cpuid", 76),
        ("kvm_emulate_insn", 374),
        ("kvm_entry", 487),
        ("kvm_eoi", 80),
        ("kvm_exit", 488),
        ("kvm_fpu", 24),
        ("kvm_halt_poll_ns", 2),
        ("kvm_hv_syndbg_get_msr", 2),
        ("kvm_hv_timer_state", 39),
        ("kvm_inj_exception", 1),
        ("kvm_inj_virq", 80),
        ("kvm_ioapic_set_irq", 110),
        ("kvm_mmio", 6),
        ("kvm_msr", 245),
        ("kvm_page_fault", 5),
        ("kvm_pic_set_irq", 110),
        ("kvm_pio", 8),
        ("kvm_pv_eoi", 51),
        ("kvm_pv_tlb_flush", 37),
        ("kvm_pvclock_update", 43),
        ("kvm_set_irq", 110),
        ("kvm_userspace_exit", 12),
        ("kvm_vcpu_wakeup", 24),
        ("kvm_wait_lapic_expire", 37),
        ("kvm_write_tsc_offset", 125),
        ("sched_switch", 125),
        ("sched_wakeup", 55),
        ("vcpu_match_mmio", 4),
    ]);
    assert_eq!(said.names(), expected);
    assert_eq!(said.events.len() as u64, said.ledger.events);
    assert_reasons(
        &said,
        &[
            ("cpuid", 76),
            ("cr0_sel_write", 4),
            ("hlt", 23),
            ("interrupt", 75),
            ("io", 8),
            ("msr", 246),
            ("npf", 5),
            ("read_cr0", 2),
            ("read_cr4", 4),
            ("vintr", 27),
            ("wbinvd", 5),
            ("write_cr0", 2),
            ("write_cr4", 10),
            ("write_dr0", 1),
        ],
    );
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Switch { sleeps: true, .. })), 62);
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Switch { sleeps: false, .. })), 63);
    let eoi = said.details(SubjectKind::Apic).filter(|row| row.key == 0xb0 && row.write).count();
    assert_eq!(eoi, 29);
    assert_eq!(said.info.comms[&0], "swapper");
}

#[test]
fn perf_scripts_header_period_and_process_are_read() {
    let said = read(&fixture("t2.perf-script-header-period.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("perf script text", vec![]));
    assert_eq!((said.info.arch.as_str(), said.info.release.as_str()), ("x86_64", "6.1.0-56-cloud-amd64"));
    assert_eq!(said.info.hostname, "(none)");
    assert_eq!(said.events.len(), 1000);
    assert_reasons(&said, &[("hlt", 10), ("interrupt", 14), ("io", 11), ("msr", 31), ("npf", 15), ("vintr", 7)]);
    // vCPU threads 127 and 128 are of process 121.
    assert!(said.events.iter().all(|event| !matches!(event.kind, EventKind::Exit { .. }) || event.vm == VmId(121)));
}

#[test]
fn a_trace_cmd_report_of_svm_has_the_events_that_grep_counts() {
    let said = read(&fixture("t4-none.trace-cmd-report-t.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("trace-cmd report text", vec![]));
    assert_eq!(first_and_last(&said), ("76.680836946".to_string(), "77.370235324".to_string()));
    let expected = counts(&[
        ("kvm_apicv_inhibit_changed", 2),
        ("kvm_cpuid", 61),
        ("kvm_emulate_insn", 62),
        ("kvm_entry", 200),
        ("kvm_exit", 200),
        ("kvm_fpu", 252),
        ("kvm_hv_stimer_cleanup", 32),
        ("kvm_hv_stimer_set_config", 16),
        ("kvm_hv_stimer_set_count", 16),
        ("kvm_hv_syndbg_get_msr", 2),
        ("kvm_ioapic_set_irq", 18),
        ("kvm_page_fault", 12),
        ("kvm_pic_set_irq", 18),
        ("kvm_pio", 124),
        ("kvm_set_irq", 18),
        ("kvm_set_spte_hva", 8),
        ("kvm_track_tsc", 6),
        ("kvm_unmap_hva_range", 147),
        ("kvm_update_master_clock", 2),
        ("kvm_userspace_exit", 125),
        ("kvm_write_tsc_offset", 343),
        ("sched_migrate_task", 10),
        ("sched_process_exec", 2),
        ("sched_process_exit", 1),
        ("sched_process_fork", 7),
        ("sched_process_free", 1),
        ("sched_process_wait", 1),
        ("sched_stat_runtime", 517),
        ("sched_switch", 396),
        ("sched_wakeup", 197),
        ("sched_wakeup_new", 7),
        ("sched_waking", 197),
    ]);
    assert_eq!(said.names(), expected);
    // trace-cmd's plugin prints EXIT_CPUID, EXIT_INTR, EXIT_IOIO, EXIT_NPF, EXIT_READ_CR0, EXIT_WRITE_CR0.
    let expected = [("cpuid", 61), ("interrupt", 1), ("io", 124), ("npf", 12), ("read_cr0", 1), ("write_cr0", 1)];
    assert_reasons(&said, &expected);
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Switch { sleeps: true, .. })), 206);
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Switch { sleeps: false, .. })), 190);
    let switch = said.events.iter().find(|event| matches!(event.kind, EventKind::Switch { .. })).unwrap();
    let (prev, next, prev_name) = (Tid(199), Tid(17), ThreadName::new(b"trace-cmd"));
    assert_eq!(switch.kind, EventKind::Switch { prev, sleeps: false, next, prev_name });
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Wakeup { .. })), 204);
}

#[test]
fn a_trace_cmd_report_of_arm64_has_the_events_that_grep_counts() {
    let said = read(&fixture("arm.trace-cmd-report-t.txt.gz"));
    // This trace-cmd cannot print the letter of `wfi`, so 33 events say nothing; the first is in line 241.
    assert_eq!(said.losses(), [(LedgerLine::UnreadFields, 33, Some(241))]);
    assert_eq!(said.info.format, "trace-cmd report text");
    assert_eq!(said.events.len(), 2500);
    let names = said.names();
    let named = |name| names[name];
    assert_eq!((named("kvm_entry"), named("kvm_exit"), named("kvm_userspace_exit")), (184, 184, 69));
    assert_eq!((named("kvm_hvc_arm64"), named("kvm_wfx_arm64"), named("kvm_sys_access")), (34, 33, 34));
    assert_reasons(&said, &[("IRQ", 2), ("DABT_LOW", 79), ("HVC64", 34), ("IABT_LOW", 2), ("SYS64", 34), ("WFx", 33)]);
    let mmio = |key, write| said.details(SubjectKind::Mmio).filter(|row| (row.key, row.write) == (key, write)).count();
    assert_eq!((mmio(0x900_0000, false), mmio(0x900_0004, true), mmio(0x800_0000, true)), (70, 34, 2));
    assert!(said.details(SubjectKind::Hvc).all(|hvc| (hvc.key, hvc.value) == (0x8400_0000, 0)));
    let fault = |hsr| said.details(SubjectKind::PageFault).filter(|row| row.key == hsr).count();
    assert_eq!((fault(0x9380_0005), fault(0x9380_0045), fault(0x8200_0005)), (35, 34, 2));
    let halts: Vec<(u64, bool)> = said
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::HaltEnd { ns, waited, .. } => Some((ns, waited)),
            _ => None,
        })
        .collect();
    assert_eq!(halts.iter().filter(|halt| halt.1).count(), 14);
    assert_eq!(halts.iter().map(|halt| halt.0).sum::<u64>(), 8_907_104);
}

#[test]
fn powerpc_exits_name_the_vcpu_and_say_when_it_ceded() {
    let said = read(&fixture("p8_smt4.trace-cmd-report-t.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("trace-cmd report text", vec![]));
    assert_reasons(&said, &[("RETURN_TO_HOST", 174), ("0xe80", 241), ("HV_DECREMENTER", 123), ("SYSCALL", 254)]);
    assert_eq!(said.count(|event| matches!(event.kind, EventKind::Exit { idle: true, .. })), 110);
    for vcpu in 0..4 {
        let exits = said.count(|event| matches!(event.kind, EventKind::Exit { .. }) && event.vcpu == VcpuId(vcpu));
        assert_eq!(exits, 198);
    }
    // H_PROD is 0xe8, H_PUT_TERM_CHAR 0x58.
    let hcall = |number| said.details(SubjectKind::PpcHcall).filter(|row| row.key == number).count();
    assert_eq!((hcall(0xe8), hcall(0x58)), (98, 156));
    let core = |exit, runnable| said.count(|event| event.kind == EventKind::RunCore { exit, runnable });
    assert_eq!((core(false, 4), core(true, 4), core(true, 3), core(true, 2)), (198, 30, 82, 86));

    let said = read(&fixture("p8_smt4_one_vm_two_threads.perf-script-ns.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("perf script text", vec![]));
    assert_eq!(said.events.len(), 2000);
    assert_reasons(&said, &[("RETURN_TO_HOST", 9), ("0xe80", 145), ("HV_DECREMENTER", 97), ("SYSCALL", 178)]);
}

#[test]
fn call_chains_are_passed_over_in_silence() {
    let said = read(&fixture("p8_smt4_callgraph.perf-script-ns.txt.gz"));
    assert_eq!((said.info.format.as_str(), said.losses()), ("perf script text", vec![]));
    assert_eq!(said.events.len(), 191);
    assert_reasons(
        &said,
        &[("RETURN_TO_HOST", 4), ("0xe80", 17), ("HV_DECREMENTER", 11), ("H_EMUL_ASSIST", 9), ("SYSCALL", 12)],
    );
    assert_eq!(said.info.comms[&432], "CPU 2/KVM");
}

/// The events of `text` are the events of `binary` in the same span of time, as far as text can say.
fn assert_text_says_the_same(binary: &Path, text: &Path) {
    let (binary, text) = (read(binary), read(text));
    let sorted = |said: &Said| {
        let mut rows: Vec<(Event, String)> = said
            .events
            .iter()
            .filter(|event| !matches!(event.kind, EventKind::Lost { .. }))
            .map(|event| (*event, said.info.names.get(event.name).split(':').next_back().unwrap_or("").to_string()))
            .collect();
        rows.sort_by(|(a, name), (b, other)| (a.at, a.cpu, name).cmp(&(b.at, b.cpu, other)));
        rows
    };
    let text = sorted(&text);
    let span = text[0].0.at..=text[text.len() - 1].0.at;
    // perf script leaves out samples that interrupted a guest (`PERF_RECORD_MISC_GUEST_*`): here, wake-ups from
    // interrupts that came while a vCPU ran.
    let printed: std::collections::HashSet<_> = text.iter().map(|(event, _)| (event.at, event.cpu)).collect();
    let left_out = |row: &(Event, String)| row.1 == "sched_wakeup" && !printed.contains(&(row.0.at, row.0.cpu));
    let binary: Vec<_> = sorted(&binary).into_iter().filter(|row| span.contains(&row.0.at) && !left_out(row)).collect();
    assert_eq!(binary.len(), text.len());
    for ((bytes, name), (printed, printed_name)) in binary.into_iter().zip(text) {
        assert_eq!((bytes.at, bytes.cpu, &name), (printed.at, printed.cpu, &printed_name));
        let kind = match (bytes.kind, printed.kind) {
            // libtraceevent takes every errno for a positive number, and prints the reason left over from before.
            (EventKind::UserspaceExit { errno, reason }, EventKind::UserspaceExit { .. }) if errno < 0 => {
                EventKind::UserspaceExit { reason, errno: 0 }
            }
            // trace-cmd loses the letter of `wfi`.
            (EventKind::Wfx { .. }, EventKind::Other) => EventKind::Other,
            (kind, _) => kind,
        };
        assert_eq!(kind, printed.kind, "{name} at {}", bytes.at);
        if printed.vcpu != VcpuId::UNKNOWN {
            assert_eq!(bytes.vcpu, printed.vcpu, "{name} at {}", bytes.at);
        }
        if printed.tid != Tid(u32::MAX) {
            assert_eq!(bytes.tid, printed.tid, "{name} at {}", bytes.at);
        }
    }
}

#[test]
fn text_and_bytes_of_one_trace_say_the_same() {
    for (binary, text) in [
        ("x86-svm/t2.data.gz", "t2.perf-script-ns.txt.gz"),
        ("x86-svm/t2.data.gz", "t2.perf-script-header-period.txt.gz"),
        ("x86-svm/t4-none.dat.gz", "t4-none.trace-cmd-report-t.txt.gz"),
        ("arm64/arm.dat.gz", "arm.trace-cmd-report-t.txt.gz"),
        ("powerpc/p8_smt4_trace.dat.gz", "p8_smt4.trace-cmd-report-t.txt.gz"),
        ("powerpc/p8_smt4_one_vm_two_threads.data.gz", "p8_smt4_one_vm_two_threads.perf-script-ns.txt.gz"),
        ("powerpc/p8_smt4_callgraph.data.gz", "p8_smt4_callgraph.perf-script-ns.txt.gz"),
    ] {
        assert_text_says_the_same(&corpus(binary), &fixture(text));
    }
}

const ENTRY: &str = " qemu-system-x86-229     [001] d..1.    87.534187: kvm_entry: vcpu 0, rip 0xfff0\n";

#[test]
fn losses_come_before_the_next_event() {
    let said = text(&format!(
        "# tracer: nop\n#\n{ENTRY}CPU:3 [LOST 123 EVENTS]\nCPU:1 [LOST EVENTS]\n{}CPU:0 [7 EVENTS DROPPED]\n",
        ENTRY.replace("87.534187", "88.000001")
    ));
    let rows: Vec<_> = said.events.iter().map(|event| (event.at.as_nanos(), event.cpu.0, event.kind)).collect();
    assert_eq!(
        rows,
        [
            (87_534_187_000, 1, EventKind::Enter),
            (88_000_001_000, 3, EventKind::Lost { count: 123 }),
            (88_000_001_000, 1, EventKind::Lost { count: 0 }),
            (88_000_001_000, 1, EventKind::Enter),
            (88_000_001_000, 0, EventKind::Lost { count: 7 }),
        ]
    );
    assert_eq!(said.ledger.events, 2);
    assert_eq!(said.losses(), [(LedgerLine::LostRecords, 131, None)]);
}

#[test]
fn what_was_overwritten_is_lost_and_hides_what_a_cpu_did_before_its_buffer_starts() {
    let header = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/5   #P:2\n#\n";
    let later = ENTRY.replace("87.534187", "88.000001").replace("[001]", "[000]");
    let said = text(&format!("{header}{ENTRY}##### CPU 0 buffer started ####\n{later}"));
    let rows: Vec<_> = said.events.iter().map(|event| (event.at.as_nanos(), event.cpu.0, event.kind)).collect();
    let expected = [
        (87_534_187_000, 1, EventKind::Enter),
        (88_000_001_000, 0, EventKind::Lost { count: 0 }),
        (88_000_001_000, 0, EventKind::Enter),
    ];
    assert_eq!(rows, expected);
    assert_eq!(said.losses(), [(LedgerLine::LostRecords, 3, None)]);
    assert_eq!(said.info.cpus, 2, "online, as print_event_info says");
    assert_eq!(text(&format!("{}{ENTRY}", header.replace("2/5", "1/1"))).losses(), []);
    // A part of what it is of.
    let part = text(&format!("{}{ENTRY}", header.replace("2/5", "5/5")));
    assert_eq!(part.losses(), [(LedgerLine::MissingLines, 4, None)]);
}

/// As it is pasted into a mail or an issue.
#[test]
fn the_header_of_an_indented_text_is_read() {
    let text_of = |indent: &str| {
        let lines = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/5   #P:2\n#\n{ENTRY}{ENTRY}");
        lines.lines().map(|line| format!("{indent}{line}\n")).collect::<String>()
    };
    for indent in ["", "    ", "\t"] {
        let said = text(&text_of(indent));
        assert_eq!((said.losses(), said.info.cpus), (vec![(LedgerLine::LostRecords, 3, None)], 2), "{indent:?}");
    }
}

#[test]
fn each_header_of_a_text_counts_what_follows_it() {
    let of = |kept: u64, written: u64, events: usize| {
        let header = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {kept}/{written}   #P:2\n#\n");
        header + &ENTRY.repeat(events)
    };
    let losses = |parts: &[String]| text(&parts.concat()).losses();
    // As `cat per_cpu/cpu*/trace`: each header is of all CPUs, and counts once.
    assert_eq!(losses(&[of(5, 12, 3), of(5, 12, 2)]), [(LedgerLine::LostRecords, 7, None)]);
    assert_eq!(
        losses(&[of(5, 12, 3), of(5, 12, 1)]),
        [(LedgerLine::MissingLines, 1, None), (LedgerLine::LostRecords, 7, None)]
    );
    // Events that came to a buffer while it was printed are not those that another text lacks.
    assert_eq!(losses(&[of(2, 2, 6), of(4, 4, 1)]), [(LedgerLine::MissingLines, 3, None)]);
    assert_eq!(losses(&[of(4, 4, 1), of(2, 2, 6)]), [(LedgerLine::MissingLines, 3, None)]);
    assert_eq!(losses(&[of(3, 3, 3), of(2, 9, 2)]), [(LedgerLine::LostRecords, 7, None)]);
    // perf ftrace prints one while there is nothing in the buffer (`__cmd_ftrace` of tools/perf/builtin-ftrace.c).
    assert_eq!(losses(&[of(0, 0, 3)]), []);
}

#[test]
fn lines_that_are_no_tracepoints_are_of_what_a_header_counts() {
    let at = |what: &str| ENTRY.replace("kvm_entry: vcpu 0, rip 0xfff0", what);
    let lines = [
        at("<stack trace>"),
        " => kvm_vcpu_halt\n => kvm_arch_vcpu_ioctl_run\n".to_string(),
        at("mutex_unlock <-rb_simple_write"),
        at("tracing_mark_write: begins"),
        ENTRY.to_string(),
    ];
    let said = text(&format!("# entries-in-buffer/entries-written: 4/4   #P:2\n#\n{}", lines.concat()));
    assert_eq!(said.losses(), []);
}

#[test]
fn a_text_that_would_not_say_what_it_lost_is_not_without_loss() {
    let aligned = ENTRY.replace("kvm_entry: ", "kvm_entry:            ");
    let perf = "            qemu   120 [001]    30.000000001: kvm:kvm_entry: vcpu 0, rip 0x1\n";
    // Out of trace_pipe, or without its header; perf script leaves losses out unless it is asked (--show-lost-events).
    for silent in [ENTRY, &format!("# tracer: nop\n#\n{ENTRY}"), &aligned, perf] {
        assert!(!text(silent).says_losses(), "{silent}");
    }
    let report = format!("CPU 1 is empty\ncpus=2\n{aligned}CPU:1 [SUBBUFFER START]\n");
    let header = format!("# tracer: nop\n# entries-in-buffer/entries-written: 1/1   #P:2\n{ENTRY}");
    for saying in [report, header, format!("{ENTRY}CPU:3 [LOST 2 EVENTS]\n")] {
        let said = text(&saying);
        assert!(said.says_losses() && said.ledger.get(LedgerLine::BadText) == 0, "{saying}");
    }
}

#[test]
fn perfs_lost_records_are_losses() {
    let said = text(concat!(
        "            qemu   120 [001]    30.000000001: kvm:kvm_entry: vcpu 0, rip 0x1\n",
        "            qemu   120 [001]    30.000000002: PERF_RECORD_LOST lost 42\n",
        "            qemu   120 [001]    30.000000003: PERF_RECORD_COMM exec: sh:120/120\n",
        "            qemu   120 [001]    30.000000004:         99 cycles:ppp:  ffffffff9916767d do_it\n",
        "            qemu   120 [001]    30.000000005: kvm:kvm_entry: vcpu 0, rip 0x1\n",
    ));
    let kinds: Vec<_> = said.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Enter, EventKind::Lost { count: 42 }, EventKind::Enter]);
    assert_eq!(said.losses(), [(LedgerLine::NotTracepoint, 1, None), (LedgerLine::LostRecords, 42, None)]);
}

#[test]
fn a_header_alone_is_a_trace_without_events() {
    for header in ["# tracer: nop\n", "# tracer: nop\r\n#\r\n", "cpus=2\n", "CPU 1 is empty\ncpus=2\n"] {
        let said = text(header);
        assert_eq!((said.events.len(), said.losses()), (0, vec![]), "{header:?}");
    }
}

#[test]
fn other_texts_are_not_claimed() {
    let quote = format!("# A manual\n\nSome prose.\nMore of it.\nA trace looks like this:\n{ENTRY}And so on.\n");
    for other in [
        "# exitscope\n\nReads traces.\n",
        "{\"traceEvents\": [{\"ts\": 1.5, \"name\": \"kvm_exit\"}]}\n",
        "\x7fELF\x02\x01\x01\0\0\0\0\0",
        "[1] 2.5: three\n",
        "cpus=2\nname=vm\n",
        "\n\n\n",
        "1",
        "Nov 21 10:00:00 host kernel: [   12.345678] kvm: enabled\n",
        quote.as_str(),
    ] {
        let error = try_text(other.as_bytes()).err();
        assert!(matches!(error, Some(TraceError::Unknown { .. })), "{other:?}: {error:?}");
    }
}

#[test]
fn counters_for_times_are_refused_with_a_reason() {
    let raw = ENTRY.replace("   87.534187", "287416359212");
    for lines in [1, 1000] {
        let error = try_text(format!("# tracer: nop\n{}", raw.repeat(lines)).as_bytes()).err().unwrap().to_string();
        assert!(error.contains("byte 14") && error.contains("counter"), "{error}");
    }
    // Where others have times, such a line is only damaged.
    let said = text(&format!("{raw}{ENTRY}{raw}{ENTRY}"));
    assert_eq!((said.events.len(), said.losses()), (2, vec![(LedgerLine::BadText, 2, Some(1))]));
}

#[test]
fn damaged_lines_are_counted_by_number() {
    let long = "x".repeat(70_000);
    let said = text(&format!("{ENTRY}\n{ENTRY}nonsense\n{ENTRY}{long}\n\r\n{ENTRY} qemu-2 [0"));
    assert_eq!(said.events.len(), 4);
    // The last line has no end: the file was cut there.
    assert_eq!(said.losses(), [(LedgerLine::BadText, 3, Some(4)), (LedgerLine::TruncatedBytes, 10, Some(9))]);
    // A line cut within the fields is an event that says nothing.
    let said = text(&format!("{ENTRY} qemu-229 [001] d..1.    87.534190: kvm_exit: vcpu 0 reason np"));
    assert_eq!(said.events[1].kind, EventKind::Other);
    assert_eq!(said.losses(), [(LedgerLine::UnreadFields, 1, Some(2)), (LedgerLine::TruncatedBytes, 62, Some(2))]);
}

#[test]
fn line_ends_of_other_systems_change_nothing() {
    let text = read(&fixture("p8_smt4.trace-cmd-report-t.txt.gz"));
    let lines = Input::open(&fixture("p8_smt4.trace-cmd-report-t.txt.gz")).unwrap();
    let bytes = lines.read_vec(0, lines.len()).unwrap();
    let crlf = String::from_utf8(bytes).unwrap().replace('\n', "\r\n");
    let said = try_text(crlf.as_bytes()).unwrap();
    assert_eq!(said.events, text.events);
    assert_eq!(said.ledger, text.ledger);
}

#[test]
fn thread_names_may_hold_anything() {
    for comm in [
        "qemu",
        "<idle>",
        "a b",
        "a-12",
        "kworker/0:1-ev",
        "[000] 1.0: x:",
        "x-1 [0] 1.0:",
        "CPU 2/KVM",
        "(1234)",
        "ünïcödé",
        "a: b: c",
        "#1",
    ] {
        let padded = format!("{}{comm}", " ".repeat(16usize.saturating_sub(comm.len())));
        let expected = comm.trim();
        let ftrace = format!("# tracer: nop\n{padded}-1234    (   1200) [003] d..1    1.000002: kvm_fpu: load\n");
        let said = text(&ftrace);
        assert_eq!(said.losses(), [], "{ftrace}");
        let event = said.events[0];
        assert_eq!((event.tid, event.vm, event.cpu), (Tid(1234), VmId(1200), PcpuId(3)));
        assert_eq!((event.at, event.kind), (Moment::from_nanos(1_000_002_000), EventKind::Fpu { load: true }));
        assert_eq!(said.info.comms[&1234], expected);
    }
    for comm in ["qemu", "a b", "a-12", "CPU 2/KVM", "ünïcödé", "x [1] y", "1 2", ":17", "a: b: c"] {
        let perf = format!("{comm:>16}  1200/1234 [003]     1.000000002: kvm:kvm_fpu: load\n");
        let said = text(&perf);
        assert_eq!(said.losses(), [], "{perf}");
        let event = said.events[0];
        assert_eq!((event.tid, event.vm, event.cpu), (Tid(1234), VmId(1200), PcpuId(3)));
        assert_eq!((event.at.as_nanos(), event.kind), (1_000_000_002, EventKind::Fpu { load: true }));
        assert_eq!(said.info.comms[&1234], comm);
    }
    // Names that ftrace forgot, and processes that it does not remember.
    let said = text("           <...>-77      (-------) [000] ....     1.000002: kvm_fpu: unload\n");
    assert_eq!((said.events[0].tid, said.events[0].vm), (Tid(77), VmId::UNKNOWN));
    assert!(said.info.comms.is_empty());
    // perf prints -1 for a thread that has exited, and leaves out the CPU where samples do not carry it.
    let said = text(concat!(
        "             :-1    -1 [001]    40.014238816: kvm:kvm_fpu: load\n",
        "            qemu   120    40.014238817: kvm:kvm_fpu: load\n",
    ));
    assert_eq!((said.events[0].tid, said.events[0].cpu), (Tid(u32::MAX), PcpuId(1)));
    assert_eq!((said.events[1].tid, said.events[1].cpu), (Tid(120), PcpuId(u32::MAX)));
    assert_eq!(said.losses(), []);
}

#[test]
fn system_calls_are_known_in_all_three_layouts() {
    let ftrace = "# tracer: nop
            qemu-5       [000] .....     1.000001: sys_ioctl(fd: c, cmd: ae80, arg: 0)
            qemu-5       [000] .....     1.000002: sys_ioctl -> 0x0
            qemu-5       [000] .....     1.000003: sys_ioctl(fd: 0xc, cmd: 0xae01, arg: 0)
            qemu-5       [000] .....     1.000004: sys_read(fd: 3, buf: 1, count: 2)
";
    let perf =
        "            qemu     5 [000]     1.000001: syscalls:sys_enter_ioctl: fd: 0x0c, cmd: 0x0000ae80, arg: 0x00
            qemu     5 [000]     1.000002:  syscalls:sys_exit_ioctl: 0x0
            qemu     5 [000]     1.000003: syscalls:sys_enter_ioctl: fd: 0x0c, cmd: 0x0000ae01, arg: 0x00
            qemu     5 [000]     1.000004:  syscalls:sys_enter_read: fd: 0x3, buf: 0x1, count: 0x2
";
    let trace_cmd = "cpus=1
            qemu-5     [000]     1.000001: sys_enter_ioctl:      fd: 0x0000000c, cmd: 0x0000ae80, arg: 0x00000000
            qemu-5     [000]     1.000002: sys_exit_ioctl:       0x0
            qemu-5     [000]     1.000003: sys_enter_ioctl:      fd: 0x0000000c, cmd: 0x0000ae01, arg: 0x00000000
            qemu-5     [000]     1.000004: sys_enter_read:       fd: 0x00000003, buf: 0x00000001, count: 0x00000002
";
    for printed in [ftrace, perf, trace_cmd] {
        let said = text(printed);
        assert_eq!(said.losses(), []);
        let kinds: Vec<_> = said.events.iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::RunEnter, EventKind::SyscallExit, EventKind::Syscall { registers: false }, EventKind::Other],
            "{printed}"
        );
        let names: Vec<_> = said.events.iter().map(|event| said.info.names.get(event.name)).collect();
        let enter = "syscalls:sys_enter_ioctl";
        assert_eq!(names, [enter, "syscalls:sys_exit_ioctl", enter, "syscalls:sys_enter_read"]);
    }
}

#[test]
fn other_lines_of_ftrace_are_events_of_no_use() {
    let said = text(concat!(
        "# tracer: function\n",
        "            qemu-5       [000] .....     1.000001: vmx_vcpu_run <-vcpu_enter_guest\n",
        "            qemu-5       [000] .....     1.000002: tracing_mark_write: hello: world\n",
        "            qemu-5       [000] .....     1.000003: <stack trace>\n",
        " => kvm_arch_vcpu_ioctl_run\n",
        " => kvm_vcpu_ioctl\n",
        "            qemu-5       [000] .....     1.000004: fast_page_fault+0x12/0x30: text\n",
    ));
    assert_eq!(said.losses(), []);
    assert!(said.events.iter().all(|event| event.kind == EventKind::Other));
    let names: Vec<_> = said.events.iter().map(|event| said.info.names.get(event.name)).collect();
    let expected = ["ftrace:function", "tracing_mark_write", "ftrace:kernel_stack", "fast_page_fault+0x12/0x30"];
    assert_eq!(names, expected);
}

#[test]
fn bytes_that_are_no_text_are_counted() {
    let mut bytes = b"# tracer: nop\n".to_vec();
    bytes.extend(ENTRY.as_bytes());
    bytes.extend([0; 5000]);
    bytes.extend(b"\n            q\xff\xfeu-5       [000] .....     1.000001: kvm_fpu: load\n");
    let said = try_text(&bytes).unwrap();
    assert_eq!(said.losses(), [(LedgerLine::BadText, 1, Some(3))]);
    assert_eq!(said.info.comms[&5], "q\u{fffd}\u{fffd}u");
}

#[test]
fn reasons_that_no_table_knows_stay_apart() {
    let line = |reason: &str| ENTRY.replace("kvm_entry: vcpu 0, rip", &format!("kvm_exit: vcpu 0 reason {reason} rip"));
    let said = text(&[line("npf"), line("new one"), line("0xabc"), line("newer"), line("new one")].concat());
    let codes: Vec<_> = said
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::Exit { code, .. } => code,
            kind => panic!("{kind:?}"),
        })
        .collect();
    let svm = |number| ExitCode::new(CodeList::Svm, number);
    assert_eq!((codes[0], codes[2], codes[1] == codes[4]), (svm(0x400), svm(0xabc), true));
    let names: Vec<String> = codes.iter().map(|code| code.name()).collect();
    assert_eq!(names, ["npf", "new one", "0xabc", "newer", "new one"]);
}

#[test]
fn times_between_events_are_refused_and_moments_that_come_a_little_late_are_not() {
    let lines = |times: &[u64]| -> String {
        times
            .iter()
            .map(|us| ENTRY.replace("87.534187", &format!("{}.{:06}", us / 1_000_000, us % 1_000_000)))
            .collect()
    };
    // As `perf script --deltatime` prints them, and from the middle of what it prints.
    let deltas: Vec<u64> = (0..200).map(|at| if at == 0 { 0 } else { at * 37 % 100 }).collect();
    for refused in [&deltas[..], &deltas[..9], &deltas[1..]] {
        let Err(error) = try_text(lines(refused).as_bytes()) else { panic!("{refused:?} pass for moments") };
        assert!(error.to_string().contains("--deltatime"), "{error}");
    }
    // CPUs whose events are merged now and then a little out of order; a text that begins at zero (--reltime).
    let late: Vec<u64> = (0..200).map(|at| if at % 10 == 9 { at * 50 - 60 } else { at * 50 }).collect();
    for read in [&late[..], &late[5..]] {
        assert_eq!(text(&lines(read)).events.len(), read.len());
    }
}

/// A small generator of numbers that are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Reads bytes that may be anything: whatever they are, every line ends as an event, in the ledger, or in silence.
fn assert_survives(bytes: &[u8]) {
    let Ok(said) = try_text(bytes) else { return };
    let lost = said.count(|event| matches!(event.kind, EventKind::Lost { .. }));
    assert_eq!(said.ledger.events, (said.events.len() - lost) as u64);
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    assert!(
        said.ledger.events + said.ledger.get(LedgerLine::BadText) + said.ledger.get(LedgerLine::NotTracepoint) <= lines
    );
}

#[test]
fn damage_of_any_kind_is_survived() {
    let mut numbers = Numbers(42);
    for name in [
        "t2.perf-script-ns.txt.gz",
        "t4-none.trace-cmd-report-t.txt.gz",
        "arm.trace-cmd-report-t.txt.gz",
        "p8_smt4_callgraph.perf-script-ns.txt.gz",
    ] {
        let input = Input::open(&fixture(name)).unwrap();
        let whole = input.read_vec(0, 60_000).unwrap();
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..numbers.below(200) {
                let at = numbers.below(bytes.len());
                match numbers.below(5) {
                    0 => bytes[at] = numbers.below(256) as u8,
                    1 => bytes[at] ^= 1 << numbers.below(8),
                    2 => bytes[at] = b"[]():-/ \n\t0"[numbers.below(11)],
                    3 => drop(bytes.drain(at..(at + numbers.below(300)).min(bytes.len()))),
                    _ => bytes.truncate(at.max(whole.len() / 2)),
                }
            }
            assert_survives(&bytes);
        }
    }
}

#[test]
fn noise_is_survived() {
    let mut numbers = Numbers(7);
    let alphabet = b" [](){}:-/0123456789.abckvm_exit#=\n\r\t\0\xff";
    for round in 0..200 {
        let mut bytes = b"# tracer: nop\n".to_vec();
        if round % 2 == 0 {
            bytes = b"# captured on\n".to_vec();
        }
        for _ in 0..numbers.below(4000) {
            bytes.push(match round % 3 {
                0 => numbers.below(256) as u8,
                _ => alphabet[numbers.below(alphabet.len())],
            });
        }
        assert_survives(&bytes);
    }
}
