//! The table holds together: what a row prints and what it records are read as one and the same.

use super::printed::{Reasons, read_fields};
use super::*;
use crate::bytes::ByteOrder;
use crate::tracefs::{Decoder, Format};
use crate::{Input, PerfHead, PerfWriter, SourceOptions, open_input};
use exitscope_model::{CodeList, Event, EventNames, ExitWord, IrqName, Ledger, NameId};
use exitscope_units::{Moment, PcpuId, Tid, VmId};
use std::io::Cursor;

/// What each row prints: architecture, tracepoint, text.
const PRINTED: &[(&str, &str, &str)] = &[
    ("x86", "kvm:kvm_exit", "vcpu 2 reason npf rip 0xfff0 info1 0x0000000100000014 info2 0x00000000fffffff0"),
    ("x86", "kvm:kvm_exit", "vcpu 2 reason io rip 0xfff0 info1 0x0000000000700011 info2 0x000000000000fff2"),
    ("x86", "kvm:kvm_exit", "vcpu 2 reason EPT_VIOLATION FAILED_VMENTRY rip 0xfff0 info1 0x0 info2 0x0"),
    ("x86", "kvm:kvm_entry", "vcpu 3, rip 0xfff0"),
    ("x86", "kvm:kvm_pio", "pio_write at 0x70 size 1 count 1 val 0x8f "),
    ("x86", "kvm:kvm_pio", "pio_read at 0x1f0 size 2 count 256 val 0x0 (...)"),
    ("x86", "kvm:kvm_fast_mmio", "fast mmio at gpa 0xfe003000"),
    ("x86", "kvm:kvm_msr", "msr_write 4b564d01 = 0xe8c21"),
    ("x86", "kvm:kvm_cr", "cr_write 0 = 0x80050033"),
    ("x86", "kvm:kvm_apic", "apic_write APIC_SPIV = 0x1ff"),
    ("x86", "kvm:kvm_cpuid", "func 1 idx 3fd rax 0 rbx 0 rcx 0 rdx 0, cpuid entry found"),
    ("x86", "kvm:kvm_hypercall", "nr 0x5 a0 0x7 a1 0x0 a2 0x0 a3 0x0"),
    ("x86", "kvm:kvm_hv_hypercall", "code 0x5c fast var_cnt 0x0 rep_cnt 0x0 idx 0x0 in 0x0 out 0x0"),
    ("x86", "kvm:kvm_xen_hypercall", "cpl 0 nr 0x14 a0 0x2 a1 0x0 a2 0x0 a3 0x0 a4 0x0 a5 0"),
    ("x86", "kvm:kvm_page_fault", "vcpu 1 rip 0xe05b address 0x00000000000f61c8 error_code 0x100000004"),
    ("x86", "kvm:kvm_inj_virq", "IRQ 0x8"),
    ("x86", "kvm:kvm_ple_window_update", "vcpu 1 old 4096 new 8192 (growed)"),
    ("x86", "kvm:kvm_ple_window", "vcpu 1: ple_window 4096 (shrink 8192)"),
    (
        "x86",
        "kvm:kvm_nested_vmexit",
        "vcpu 1 reason HLT rip 0xfff0 info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x00000000 \
        error_code 0x00000000",
    ),
    (
        "x86",
        "kvm:kvm_nested_vmexit_inject",
        "reason: HLT ext_inf1: 0x0000000000000000 ext_inf2: 0x0000000000000000 ext_int: 0x00000000 ext_int_err: 0x00000000",
    ),
    ("x86", "kvm:kvm_vmgexit_enter", "vcpu 2, exit_reason 78, exit_info1 0, exit_info2 0"),
    ("x86", "kvm:kvm_vmgexit_enter", "vcpu 2, exit_reason 80000001, exit_info1 fe003000, exit_info2 4"),
    ("x86", "kvm:kvm_vmgexit_msr_protocol_enter", "vcpu 2, ghcb_gpa 0000000012345014"),
    ("x86", "kvm:kvm_pml_full", "vcpu 3: PML full"),
    ("x86", "kvm:kvm_avic_incomplete_ipi", "vcpu=1, icrh:icrl=0x01000000:000008fd, id=1, index=255"),
    ("x86", "kvm:kvm_smm_transition", "vcpu 1: entering SMM, smbase 0x30000"),
    ("", "kvm:kvm_async_pf_not_present", "token 0x1000 gva 0x7f0012345000"),
    ("x86", "kvm:kvm_avic_kick_vcpu_slowpath", "icrh:icrl=0x000001:000008fd, index=1"),
    ("x86", "kvm:kvm_avic_ga_log", "vmid=3, vcpuid=1"),
    ("x86", "kvm:kvm_hv_stimer_expiration", "vcpu_id 1 timer 0 direct 0 send result 0"),
    (
        "x86",
        "kvm:kvm_rmp_fault",
        "vcpu 0 gpa 0000000000005000 pfn 0x1234 error_code 0x80000007 rmp_level 1 psmash_ret 0",
    ),
    ("aarch64", "kvm:kvm_timer_emulate", "arch_timer_ctx_index: 1 (should_fire: 1)"),
    ("x86", "kvm:kvm_apicv_inhibit_changed", "set reason=2, inhibits=0x4"),
    ("x86", "kvm:kvm_apicv_inhibit_changed", "cleared reason=8, inhibits=0x0"),
    ("x86", "kvm:kvm_apicv_inhibit_changed", "set reason=8, inhibits=0x300 IRQWIN|PIT_REINJ"),
    ("", "kvm:kvm_dirty_ring_exit", "vcpu 3"),
    ("x86", "irq_vectors:local_timer_entry", "vector=236"),
    ("x86", "irq_vectors:reschedule_entry", "vector=253"),
    ("x86", "irq_vectors:call_function_entry", "vector=252"),
    ("x86", "irq_vectors:call_function_single_entry", "vector=251"),
    ("", "irq:irq_handler_entry", "irq=131"),
    ("", "sched:sched_wake_idle_without_ipi", "cpu=3"),
    ("", "power:guest_halt_poll_ns", "halt_poll_ns 100000 (grow 50000)"),
    ("", "power:guest_halt_poll_ns", "halt_poll_ns 0 (shrink 50000)"),
    ("", "kvm:kvm_unmap_hva_range", "mmu notifier unmap range: 0x00007f0000000000 -- 0x00007f0000200000"),
    ("", "kvm:kvm_unmap_hva_range", "mmu notifier unmap range: 0x00007f0000000000 -- 0x00007f0010000000"),
    ("", "kvm:kvm_age_hva", "mmu notifier age hva: 0x00007f0000000000 -- 0x00007f0000001000"),
    ("x86", "kvm:kvm_emulate_insn", "0:fffffff0:ea 5b e0 00 f0 (real)"),
    ("", "kvm:kvm_userspace_exit", "reason KVM_EXIT_IO (2)"),
    ("", "kvm:kvm_userspace_exit", "reason restart (4)"),
    ("", "kvm:kvm_fpu", "load"),
    ("", "kvm:kvm_mmio", "mmio write len 4 gpa 0xfee000b0 val 0x7"),
    ("", "kvm:kvm_mmio", "mmio read len 4 gpa 0xfee000b0 val 0x7"),
    ("", "kvm:kvm_vcpu_wakeup", "wait time 592688 ns, polling valid"),
    ("", "kvm:kvm_vcpu_wakeup", "poll time 592 ns, polling invalid"),
    ("", "kvm:kvm_halt_poll_ns", "vcpu 1: halt_poll_ns 10000 (grow 0)"),
    ("aarch64", "kvm:kvm_exit", "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000000040000020"),
    ("aarch64", "kvm:kvm_exit", "IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x0000000040000020"),
    ("aarch64", "kvm:kvm_entry", "PC: 0x0000000040000020"),
    ("aarch64", "kvm:kvm_guest_fault", "ipa 0x80a0000, hsr 0x938b0005, hxfar 0x80a0014, pc 0x00000040000020"),
    ("aarch64", "kvm:kvm_forward_sysreg_trap", "40000020 R (3,0,1,0,1)"),
    ("aarch64", "kvm:kvm_wfx_arm64", "guest executed wfe at: 0x0000000040000020"),
    ("aarch64", "kvm:kvm_hvc_arm64", "HVC at 0x000000004000007c (r0: 0x0000000084000000, imm: 0x1)"),
    ("aarch64", "kvm:kvm_handle_sys_reg", "HSR 0x623a3016"),
    ("aarch64", "kvm:kvm_sys_access", "PC: 4000007c ID_AA64PFR0_EL1 (3,0,0,4,0) read"),
    ("ppc", "kvm_hv:kvm_guest_exit", "VCPU 3: trap=SYSCALL pc=0x2120 msr=0x8000000000009000, ceded=1"),
    ("ppc", "kvm_hv:kvm_guest_enter", "VCPU 3: pc=0x2120 pexcp=0x0 ceded=0"),
    ("ppc", "kvm_hv:kvm_hcall_enter", "VCPU 3: hcall=H_PUT_TERM_CHAR GPR4-7=0x9,0x1,0x41000000,0x0"),
    ("ppc", "kvm_hv:kvm_page_fault_enter", "VCPU 3: hpte=0x1:0x2 guest=0x3 ea=0xc000,40000000 slot=0x0,0x0"),
    ("ppc", "kvm_hv:kvmppc_run_core", "Exit runner_vcpu==3 runnable=4 tgid=229"),
    ("ppc", "kvm_hv:kvmppc_run_vcpu_enter", "VCPU 3: tgid=229"),
    ("ppc", "kvm_hv:kvmppc_run_vcpu_exit", "VCPU 3: exit=19, ret=2"),
    ("ppc", "kvm_hv:kvmppc_vcore_wakeup", "wait time 81920 ns, tgid=229"),
    ("ppc", "kvm:kvm_exit", "exit=SYSCALL | pc=0x1 | msr=0x2 | dar=0x0 | srr1=0x0 | last_inst=0x0"),
    ("ppc", "kvm_pr:kvm_exit", "exit=0xf60 | pc=0x1 | msr=0x2 | dar=0x0 | srr1=0x0 | last_inst=0x0"),
    ("ppc", "kvm_pr:kvm_book3s_reenter", "reentry r=1 | pc=0x1"),
    ("ppc", "kvm_booke:kvm_exit", "exit=DTLB_MISS | pc=0x1 | msr=0x2 | dar=0x0 | last_inst=0x0"),
    ("s390", "kvm:kvm_s390_sie_exit", "03[0706c00180000000-000000000011d0f2]: exit sie icptcode 4 (Instruction)"),
    ("s390", "kvm:kvm_s390_sie_enter", "03[0706c00180000000-000000000011d0f2]: entering sie flags 0"),
    ("s390", "kvm:kvm_s390_handle_diag", "03[0706c00180000000-000000000011d0f2]: handle diagnose call 009c (yield)"),
    (
        "s390",
        "kvm:kvm_s390_intercept_instruction",
        "03[0706c00180000000-000000000011d0f2]: intercepted instruction b27d000000000000 (stsi)",
    ),
    (
        "s390",
        "kvm:kvm_s390_intercept_prog",
        "03[0706c00180000000-000000000011d0f2]: intercepted program interruption 0011 (Page translation)",
    ),
    (
        "s390",
        "kvm:kvm_s390_handle_sigp",
        "03[0706c00180000000-000000000011d0f2]: handle sigp order 02 (external call), cpu address 0001, parameter 00000000",
    ),
    (
        "s390",
        "kvm:kvm_s390_handle_sigp_pei",
        "03[0706c00180000000-000000000011d0f2]: handle sigp pei order 02 (external call), cpu address 0001",
    ),
    ("riscv", "kvm:kvm_exit", "SEPC:0x80200000, SCAUSE:0x15, STVAL:0x0, HTVAL:0x0, HTINST:0x0"),
    ("riscv", "kvm:kvm_entry", "PC: 0x01680200000"),
    ("loongarch", "kvm:kvm_exit", "vcpu 1 [0x16] PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit", "[Hypercall]PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit_gspr", "vcpu 1 Inst word: 0x06488000"),
    ("loongarch", "kvm:kvm_exit_gspr", "Inst word: 0x04000000"),
    ("loongarch", "kvm:kvm_exit_idle", "vcpu 1 [IDLE] PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit_idle", "[IDLE]PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit_cache", "vcpu 1 [CACHE] PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit_cpucfg", "vcpu 1 [CPUCFG] PC: 0x90000000"),
    ("loongarch", "kvm:kvm_exit_csr", "vcpu 1 [CSR] PC: 0x90000000"),
    ("loongarch", "kvm:kvm_enter", "vcpu 1 PC: 0x90000000"),
    ("loongarch", "kvm:kvm_reenter", "PC: 0x90000000"),
    ("loongarch", "kvm:kvm_out", "vcpu 1 PC: 0x90000000"),
    ("loongarch", "kvm:kvm_iocsr", "iocsr write len 4 gpa 0x1008 val 0x1"),
    (
        "",
        "sched:sched_switch",
        "prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=1",
    ),
    (
        "",
        "sched:sched_switch",
        "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=1",
    ),
    ("", "sched:sched_wakeup", "comm=a pid=1 prio=120 target_cpu=000"),
    ("", "sched:sched_wakeup_new", "comm=a pid=1 prio=120 target_cpu=000"),
    ("", "syscalls:sys_enter_ioctl", "fd: 0x0000000c, cmd: 0x0000ae80, arg: 0x00000000"),
    ("", "syscalls:sys_enter_ioctl", "fd: 0x0000000c, cmd: 0x00005401, arg: 0x00000000"),
    ("", "syscalls:sys_exit_ioctl", "0x0"),
    ("", "raw_syscalls:sys_enter", "NR 16 (c, ae80, 0, 7f11, 0, 0)"),
    ("", "raw_syscalls:sys_enter", "NR 16 (c, 8090ae81, 7ffd, 7f11, 0, 0)"),
    ("", "raw_syscalls:sys_exit", "NR 16 = 0"),
];

/// What a record written for `event` on `arch` is read as.
fn written_and_read(arch: &str, name: &str, event: &Event) -> Vec<Event> {
    let mut names = EventNames::default();
    names.intern(name);
    let head = PerfHead {
        arch: if arch == "s390" { "s390x" } else { arch },
        cpuid: "",
        cpu: "",
        settings: &[],
        hostname: "",
        release: "",
        cpus: 1,
        command: &[],
        names: &names,
        compressed: false,
    };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = PerfWriter::new(&mut bytes, &head).unwrap();
    writer.event(event).unwrap();
    writer.finish().unwrap();
    let input = Input::from_bytes("written", &bytes.into_inner()).unwrap();
    let mut source = open_input(input, SourceOptions::default()).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    events
}

#[test]
fn kvm_run_has_two_numbers_and_what_shares_its_low_bits_is_another_call() {
    for (command, kind) in [
        (0xae80, EventKind::RunEnter),
        (0x2000_ae80, EventKind::RunEnter),
        (0x8090_ae81, EventKind::Syscall { registers: true }),
        (0x4004_ae80, EventKind::Syscall { registers: false }),
    ] {
        assert_eq!(call(command), kind, "{command:#x}");
    }
}

#[test]
fn every_row_is_read_alike_from_what_it_prints_and_from_its_record() {
    for row in ROWS {
        let mut examples = PRINTED.iter().filter(|of| (of.0, of.1) == (row.arch, row.event)).peekable();
        assert!(examples.peek().is_some(), "{} of {:?} has no example", row.event, row.arch);
        for (arch, name, text) in examples {
            let (kind, vcpu) = read_fields(row.text, text.as_bytes(), &mut Reasons::new()).expect(text);
            assert_ne!(kind, EventKind::Other, "{text}");
            let event = Event {
                at: Moment::from_nanos(1_000),
                tid: Tid(231),
                vm: VmId(229),
                vcpu,
                cpu: PcpuId(0),
                name: NameId(0),
                kind,
            };
            assert_eq!(written_and_read(arch, name, &event), [event], "{arch} {name}: {text}");
        }
    }
}

#[test]
fn rows_of_one_tracepoint_differ_only_in_what_tells_them_apart() {
    for (at, row) in ROWS.iter().enumerate() {
        for other in ROWS[..at].iter().filter(|other| other.event == row.event) {
            assert_ne!(row.arch, other.arch, "{}", row.event);
            assert_eq!(row.record, other.record, "{}", row.event);
            assert_eq!(row.distinguishing_field.is_empty(), other.distinguishing_field.is_empty(), "{}", row.event);
            assert!(row.meaning == other.meaning || !row.distinguishing_field.is_empty(), "{}", row.event);
        }
    }
}

#[test]
fn each_form_of_a_tracepoint_is_told_by_a_field_that_no_other_form_has() {
    for row in ROWS.iter().filter(|row| !row.distinguishing_field.is_empty()) {
        let has =
            |row: &TracepointRow, name: &str| row.fields.iter().any(|field| names_of(field.0).any(|of| of == name));
        assert!(
            has(row, row.distinguishing_field),
            "{} on {} has no {}",
            row.event,
            row.arch,
            row.distinguishing_field
        );
        for other in ROWS.iter().filter(|other| other.event == row.event && other.arch != row.arch) {
            let is_alone = !has(other, row.distinguishing_field);
            assert!(is_alone, "{} on {} has {}, too", row.event, other.arch, row.distinguishing_field);
        }
    }
}

#[test]
fn architectures_are_called_as_their_machines_and_have_the_tracepoints_of_their_exits() {
    for row in ROWS {
        let is_known = row.arch.is_empty() || Architecture::of(row.arch).is_some();
        assert!(is_known, "no machine is called {}, which has {}", row.arch, row.event);
    }
    for of in Architecture::ALL {
        for (events, is_meant) in [(of.row().exits, is_exit as fn(_) -> bool), (of.row().entries, is_entry)] {
            let rows = ROWS.iter().filter(|row| Architecture::of(row.arch) == Some(*of) && is_meant(row.meaning));
            let found: Vec<&str> = rows.map(|row| row.event).collect();
            assert_eq!(events, found, "{of:?}");
        }
    }
}

fn is_exit(meaning: TracepointMeaning) -> bool {
    use TracepointMeaning::{ExitArm64, ExitCeded, ExitOf, ExitX86};
    matches!(meaning, ExitX86 | ExitArm64 | ExitCeded | ExitOf(_))
}

fn is_entry(meaning: TracepointMeaning) -> bool {
    meaning == TracepointMeaning::Enter
}

#[test]
fn a_format_is_read_by_the_row_whose_field_it_has() {
    let meaning =
        |fields: &'static [&str]| of_format("kvm", "kvm_exit", |field| fields.contains(&field)).map(|row| row.meaning);
    assert_eq!(meaning(&["exit_reason", "guest_rip", "isa"]), Some(TracepointMeaning::ExitX86));
    assert_eq!(meaning(&["exit_reason", "esr_ec", "vcpu_pc"]), Some(TracepointMeaning::ExitArm64));
    assert_eq!(meaning(&["exit_nr", "pc"]), Some(TracepointMeaning::ExitOf(CodeList::PpcTrap)));
    assert_eq!(meaning(&["reason", "pc"]), Some(TracepointMeaning::ExitOf(CodeList::Loongarch)));
    assert_eq!(meaning(&["of_a_later_kernel"]), None);
}

#[test]
fn record_takes_what_the_accounting_needs_and_says_why_it_leaves_the_rest() {
    let always = recorded(|when| when == RecordWhen::Always);
    for event in
        ["kvm:kvm_exit", "kvm:kvm_entry", "kvm:kvm_userspace_exit", "kvm:kvm_emulate_insn", "kvm:kvm_vcpu_wakeup"]
    {
        assert_eq!(always.iter().filter(|of| **of == event).count(), 1, "{event}");
    }
    assert_eq!(recorded(|when| when == RecordWhen::CountedWithoutExits), ["kvm:kvm_fpu"]);
    assert_eq!(recorded(|when| when == RecordWhen::Calls), ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]);
    assert_eq!(recorded(|when| when == RecordWhen::Scheduler), ["sched:sched_switch", "sched:sched_wakeup"]);
    for row in ROWS {
        assert!(!matches!(row.record, RecordWhen::Never(why) if why.is_empty()), "{}", row.event);
    }
}

#[test]
fn fields_that_later_kernels_have_are_read_from_their_records_alone() {
    let field = |of: &str, offset, size| format!("\tfield:{of};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
    let format = |requests: &str| {
        let fields =
            [("unsigned short common_type", 0, 2), ("int common_pid", 4, 4), ("unsigned int exit_reason", 8, 4)];
        let fields = fields.into_iter().chain([
            ("unsigned long guest_rip", 16, 8),
            ("u32 error_code", 24, 4),
            (requests, 32, 8),
        ]);
        let fields: String = fields.map(|(of, offset, size)| field(of, offset, size)).collect();
        format!("name: kvm_exit\nID: 7\nformat:\n{fields}\nprint fmt: \"\"\n")
    };
    let record: Vec<u8> = (0..40).map(|byte| if byte < 37 { byte } else { 0 }).collect();
    for (requests, expected) in [("u64 requests", Some(0x24_2322_2120)), ("u64 something", None)] {
        let format = Format::parse(&format(requests)).unwrap();
        let decoder = Decoder::new("kvm", &format, &mut EventNames::default());
        for (length, expected) in [(40, expected), (39, None)] {
            let exit = Event::nameless(Moment::default(), PcpuId(0), exit(ExitCode::new(CodeList::Svm, 1), 0));
            let mut events = vec![exit];
            decoder.append_info(&record[..length], ByteOrder::Little, &mut events);
            let EventKind::ExitInfo(info) = events[1].kind else { panic!("{events:?}") };
            let words = [ExitWord::Info1, ExitWord::ErrorCode, ExitWord::Requests].map(|word| info.get(word));
            assert_eq!(words, [None, Some(0x1b1a_1918), expected]);
        }
    }
}

#[test]
fn each_word_of_x86s_exits_is_a_field_of_their_tracepoint() {
    for word in exitscope_model::ExitWord::ALL {
        let carries = |row: &&TracepointRow| row.field(FieldContent::Word(word)).is_some();
        assert!(ROWS.iter().any(|row| carries(&row)), "no tracepoint has {}", word.name());
    }
}

#[test]
fn the_handler_of_an_interrupt_is_named_in_text_and_by_a_string_at_the_records_end() {
    let read = |text: &str| read_fields(printed::host_irq, text.as_bytes(), &mut Reasons::new()).map(|said| said.0);
    let kind = |name: &[u8]| EventKind::HostIrq { irq: 131, name: IrqName::new(name) };
    for text in ["irq=131 name=nvme0q3", "irq=131 handler=nvme0q3"] {
        assert_eq!(read(text), Some(kind(b"nvme0q3")), "{text}");
    }
    assert_eq!(read("irq=131"), Some(kind(b"")));
    // As the kernel lays it out: offset and length of the name, and the name behind the fields.
    let format = "name: irq_handler_entry\nID: 9\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
    let format = Format::parse(format).unwrap();
    assert_eq!(format.field("name").map(|field| (field.offset, field.size)), Some((12, 4)));
    let decoder = Decoder::new("irq", &format, &mut EventNames::default());
    let record = |place: u32, text: &[u8]| {
        let head: [u32; 4] = [9, 0, 131, place];
        [&head.map(u32::to_le_bytes).concat(), text].concat()
    };
    let decoded = |record: &[u8]| decoder.decode(record, ByteOrder::Little).map(|decoded| decoded.kind);
    assert_eq!(decoded(&record(8 << 16 | 16, b"nvme0q3\0")), Some(kind(b"nvme0q3")));
    // What lies about its place or its length has no name, or less of it.
    for (place, text, name) in [
        (8 << 16 | 60_000, &b"nvme0q3\0"[..], &b""[..]),
        (60_000 << 16 | 16, b"nvme", b"nvme"),
        (4 << 16 | 16, b"nvme0q3\0", b"nvme"),
        (0, b"nvme0q3\0", b""),
    ] {
        assert_eq!(decoded(&record(place, text)), Some(kind(name)), "{place:#x}");
    }
}
