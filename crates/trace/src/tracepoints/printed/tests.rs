//! What the formats of all kernels and tools print is read as the same kinds.

use super::*;

fn read(system: &str, name: &str, fields: &str) -> Option<Said> {
    let row = super::super::of_text(Some(system), name).unwrap();
    read_fields(row.text, fields.as_bytes(), &mut Reasons::new())
}

fn kvm(name: &str, fields: &str) -> Option<Said> {
    read("kvm", name, fields)
}

/// Why, and where in the guest.
fn exit_at(fields: &str) -> Option<(ExitCode, u64)> {
    match kvm("kvm_exit", fields)?.0 {
        EventKind::Exit { code, rip, .. } => Some((code, rip)),
        _ => None,
    }
}

fn exit_code(fields: &str) -> Option<ExitCode> {
    exit_at(fields).map(|(code, _)| code)
}

fn detail_of(system: &str, name: &str, fields: &str) -> (SubjectKind, bool, u16, u64, u64, VcpuId) {
    match read(system, name, fields) {
        Some((EventKind::Detail(detail), vcpu)) => {
            (detail.kind, detail.write, detail.size, detail.key, detail.value, vcpu)
        }
        said => panic!("{said:?}"),
    }
}

#[test]
fn every_name_in_the_exit_tables_is_read_back() {
    for (list, table) in [(CodeList::Vmx, tables::VMX), (CodeList::Svm, tables::SVM)] {
        for &(number, name) in table {
            let fields = format!("vcpu 1 reason {name} rip 0x1000 info1 0x0");
            assert_eq!(exit_at(&fields), Some((ExitCode::new(list, number), 0x1000)), "{name}");
        }
    }
}

#[test]
fn libtraceevents_own_names_are_known() {
    for (name, number) in [
        ("EXIT_READ_CR0", 0),
        ("EXIT_WRITE_DR7", 0x37),
        ("EXIT_EXCP_PF", 0x4e),
        ("EXIT_INTR", 0x60),
        ("EXIT_IDTR_READ", 0x66),
        ("EXIT_TR_WRITE", 0x6d),
        ("EXIT_RDTSCP", 0x87),
        ("EXIT_MWAIT_COND", 0x8c),
        ("EXIT_IOIO", 0x7b),
        ("EXIT_VMMCALL", 0x81),
        ("EXIT_NPF", 0x400),
        ("EXIT_AVIC_UNACCELERATED_ACCESS", 0x402),
        ("EXIT_ERR", 0xffff_ffff),
    ] {
        let fields = format!("reason {name} rip 0x1000 info 0 0");
        assert_eq!(exit_at(&fields), Some((ExitCode::new(CodeList::Svm, number), 0x1000)), "{name}");
    }
    assert_eq!(exit_code("reason PENDING_INTERRUPT rip 0x1"), Some(ExitCode::new(CodeList::Vmx, 7)));
}

#[test]
fn bare_numbers_are_of_the_vendor_whose_names_were_met() {
    let mut reasons = Reasons::new();
    assert_eq!(reasons.x86(b"0x53"), ExitCode::new(CodeList::Svm, 0x53));
    assert_eq!(reasons.x86(b"UNKNOWN (75)"), ExitCode::new(CodeList::Vmx, 75));
    reasons.x86(b"npf");
    assert_eq!(reasons.x86(b"UNKNOWN (75)"), ExitCode::new(CodeList::Svm, 75));
    reasons.x86(b"EPT_VIOLATION");
    assert_eq!(reasons.x86(b"0x4e"), ExitCode::new(CodeList::Vmx, 0x4e));
}

#[test]
fn bits_beside_vmx_basic_reason_are_read_as_the_kernel_and_libtraceevent_print_them() {
    let cases: [(&[u8], u64); 6] = [
        (b"UNKNOWN (2147483681)", 0x8000_0021),
        (b"INVALID_STATE FAILED_VMENTRY", 0x8000_0021),
        (b"0x4e FAILED_VMENTRY", 0x8000_004e),
        (b"EXCEPTION_NMI 0x20000", 0x2_0000),
        (b"EXTERNAL_INTERRUPT 0x8000000", 0x0800_0001),
        (b"EPT_VIOLATION FAILED_VMENTRY 0x4000000", 0x8400_0030),
    ];
    let mut reasons = Reasons::new();
    for (name, number) in cases {
        assert_eq!(reasons.x86(name), ExitCode::new(CodeList::Vmx, number), "{}", name.escape_ascii());
    }
    // What is no flag makes a name of its own.
    let unknown = reasons.x86(b"HLT FAILED_SOMEHOW");
    assert_eq!(unknown.list, CodeList::Text);
}

#[test]
fn exits_of_other_architectures() {
    let cases = [
        ("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000000040000020", CodeList::Arm64Ec, 0x24, 0x40000020),
        ("<CANT FIND FIELD exit_reason>TRAP: HSR_EC: 0x0001 (WFx), PC: 0x0", CodeList::Arm64Ec, 1, 0x0),
        ("IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x0", CodeList::Arm64Exit, 0, 0x0),
        ("SERROR: HSR_EC: 0x0000 (UNKNOWN), PC: 0x0", CodeList::Arm64Exit, 1, 0x0),
        ("HYP_GONE: HSR_EC: 0x0000 (UNKNOWN), PC: 0x0", CodeList::Arm64Exit, 0xbad_ca11, 0x0),
        ("SEPC:0x80200000, SCAUSE:0x15, STVAL:0x0, HTVAL:0x0, HTINST:0x0", CodeList::Riscv, 21, 0x80200000),
        ("SEPC:0x1, SCAUSE:0x8000000000000005, STVAL:0x0, HTVAL:0x0, HTINST:0x0", CodeList::Riscv, 1 << 63 | 5, 0x1),
        ("SEPC:0x1, SCAUSE:0x80000005, STVAL:0x0, HTVAL:0x0, HTINST:0x0", CodeList::Riscv, 1 << 63 | 5, 0x1),
        ("[IDLE]PC: 0x90000000", CodeList::Loongarch, 64, 0x90000000),
        ("[0x3f]PC: 0x90000000", CodeList::Loongarch, 0x3f, 0x90000000),
        ("exit=SYSCALL | pc=0x1 | msr=0x2 | dar=0x0 | srr1=0x0 | last_inst=0x0", CodeList::PpcTrap, 0xc00, 0x1),
        ("exit=0xf60 | pc=0x1 | msr=0x2 | dar=0x0 | srr1=0x0 | last_inst=0x0", CodeList::PpcTrap, 0xf60, 0x1),
        ("exit=DTLB_MISS | pc=0x1 | msr=0x2 | dar=0x0 | last_inst=0x0", CodeList::PpcBooke, 13, 0x1),
    ];
    for (fields, list, number, rip) in cases {
        assert_eq!(exit_at(fields), Some((ExitCode::new(list, number), rip)), "{fields}");
    }
    assert_eq!(exit_code("reason npf ri"), None);
    assert_eq!(exit_code(""), None);
}

/// `TP_printk` of `kvm_exit` in arch/x86/kvm/trace.h, from the oldest to the newest; and as people shorten it.
#[test]
fn every_form_that_x86_gave_kvm_exit_is_read() {
    let cases = [
        ("reason ept_violation rip 0x1000", VcpuId::UNKNOWN, None),
        ("reason EPT_VIOLATION rip 0x1000", VcpuId::UNKNOWN, None),
        ("reason EPT_VIOLATION rip 0x1000 info 182 0", VcpuId::UNKNOWN, Some(0x182)),
        ("vcpu 7 reason EPT_VIOLATION rip 0x1000 info 182 0", VcpuId(7), Some(0x182)),
        (
            "vcpu 7 reason EPT_VIOLATION rip 0x1000 info1 0x0000000000000182 info2 0x0000000000000000 \
             intr_info 0x00000000 error_code 0x00000000",
            VcpuId(7),
            Some(0x182),
        ),
        (
            "vcpu 7 reason EPT_VIOLATION rip 0x1000 info1 0x0000000000000182 info2 0x0000000000000000 \
             intr_info 0x00000000 error_code 0x00000000 requests 0x0000000000000004",
            VcpuId(7),
            Some(0x182),
        ),
    ];
    for (fields, vcpu, about) in cases {
        let Some((EventKind::Exit { code, words, rip, .. }, found)) = kvm("kvm_exit", fields) else {
            panic!("{fields}")
        };
        let subject = words.subject(code).map(|subject| subject.key);
        assert_eq!((code, rip, found), (ExitCode::new(CodeList::Vmx, 48), 0x1000, vcpu), "{fields}");
        assert_eq!(subject, about, "{fields}");
    }
    for fields in ["vcpu 7 reason EPT_VIOLATION info1 0x182", "reason EPT_VIOLATION info 182 0"] {
        assert_eq!(exit_at(fields), Some((ExitCode::new(CodeList::Vmx, 48), 0)), "{fields}");
    }
    assert_eq!(exit_code("vcpu 7 reason EPT_VIOLATION"), None, "a name at the end may be cut");
}

#[test]
fn the_names_of_linux_2_6_are_vmx_where_vmx_was_met() {
    let mut reasons = Reasons::new();
    assert_eq!(reasons.x86(b"ext_irq"), ExitCode::new(CodeList::Vmx, 1));
    for (name, number) in [("cpuid", 10), ("wbinvd", 54), ("invlpg", 14), ("task_switch", 9), ("halt", 12)] {
        assert_eq!(reasons.x86(name.as_bytes()), ExitCode::new(CodeList::Vmx, number), "{name}");
    }
    // A name that SVM alone has tells that it is SVM's.
    assert_eq!(reasons.x86(b"npf"), ExitCode::new(CodeList::Svm, 0x400));
    assert_eq!(reasons.x86(b"cpuid"), ExitCode::new(CodeList::Svm, 0x72));
}

/// 32-bit Arm's first `kvm_exit` told nothing but where the exit was (arch/arm/kvm/trace.h). A class without the kind of exit
/// may be left over from an exit before: that of an interrupt sets none.
#[test]
fn exits_of_arm_that_do_not_say_why_are_not_understood() {
    for fields in ["PC: 0xc0008000", "HSR_EC: 0x0024, PC: 0xc0008000"] {
        assert_eq!(kvm("kvm_exit", fields), None, "{fields}");
    }
    let trap = exit_at("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xc0008000");
    assert_eq!(trap, Some((ExitCode::new(CodeList::Arm64Ec, 0x24), 0xc000_8000)));
}

/// `kvm_trace_symbol_exit_types` of arch/mips/kvm/trace.h: names, which are kept as they are.
#[test]
fn exits_of_mips_keep_their_names() {
    for name in ["TLB Miss (LD)", "Interrupt", "COP0/1 Unusable", "WAIT"] {
        let (code, rip) = exit_at(&format!("[{name}]PC: 0x80001000")).unwrap();
        assert_eq!((code.name().to_string(), rip), (name.to_string(), 0x8000_1000));
    }
}

/// `perf script -F +ip,sym,dso` puts the instruction behind the fields, trace-cmd's -w the latency of a wake-up.
#[test]
fn what_programs_put_behind_the_fields_changes_nothing() {
    let behind = " ffffffffc0489211 [unknown] ([kvm])";
    for (system, name, fields) in [
        ("kvm", "kvm_fpu", "load"),
        ("kvm", "kvm_vcpu_wakeup", "wait time 5 ns, polling invalid"),
        ("kvm", "kvm_vcpu_wakeup", "poll time 5 ns, polling valid"),
        ("kvm", "kvm_entry", "vcpu 3, rip 0x1"),
        ("kvm", "kvm_exit", "vcpu 3 reason HLT rip 0x1 info1 0x0"),
        ("kvm", "kvm_sys_access", "PC: 4000007c X (3,0,0,4,0) write"),
        ("kvm", "kvm_userspace_exit", "reason KVM_EXIT_IO (2)"),
        ("sched", "sched_switch", "a b:15 [120] R ==> c [1]:17 [120]"),
        (
            "sched",
            "sched_switch",
            "prev_comm=a prev_pid=15 prev_prio=120 prev_state=S ==> next_comm=b next_pid=17 next_prio=120",
        ),
        ("sched", "sched_wakeup", "a b:15 [120] CPU:001"),
    ] {
        let plain = read(system, name, fields);
        assert!(plain.is_some(), "{fields}");
        for behind in [behind, " Latency: 97.796 usecs"] {
            assert_eq!(read(system, name, &format!("{fields}{behind}")), plain, "{fields}");
        }
    }
}

#[test]
fn s390_names_its_vcpu_in_every_event() {
    let psw = "03[0706c00180000000-000000000011d0f2]: ";
    let read = |name, fields: &str| kvm(name, &format!("{psw}{fields}"));
    let code = ExitCode::new(CodeList::S390, 4);
    let vcpu = VcpuId(3);
    let exit = read("kvm_s390_sie_exit", "exit sie icptcode 4 (Instruction)");
    assert_eq!(exit, Some((exited(code, 0x11_d0f2), vcpu)));
    assert_eq!(read("kvm_s390_sie_enter", "entering sie flags 0"), Some((EventKind::Enter, vcpu)));
    let detail = |name, fields: &str| detail_of("kvm", name, &format!("{psw}{fields}"));
    assert_eq!(
        detail("kvm_s390_intercept_instruction", "intercepted instruction b27d000000000000 (stsi)"),
        (SubjectKind::Instruction, false, 0, 0xb27d, 0xb27d_0000_0000_0000, vcpu)
    );
    assert_eq!(
        detail("kvm_s390_intercept_prog", "intercepted program interruption 0011 (Page translation)"),
        (SubjectKind::Program, false, 0, 0x11, 0, vcpu)
    );
    assert_eq!(
        detail("kvm_s390_handle_diag", "handle diagnose call 009c (yield)"),
        (SubjectKind::Diag, false, 0, 0x9c, 0, vcpu)
    );
    for (name, pei) in [("kvm_s390_handle_sigp", ""), ("kvm_s390_handle_sigp_pei", "pei ")] {
        let fields = format!("handle sigp {pei}order 02 (external call), cpu address 0001, parameter 00000000");
        assert_eq!(detail(name, &fields), (SubjectKind::Sigp, false, 0, 2, 1, vcpu));
    }
}

#[test]
fn details_are_what_the_formats_print() {
    let none = VcpuId::UNKNOWN;
    let cases = [
        ("kvm_mmio", "mmio write len 4 gpa 0xfee000b0 val 0x7", SubjectKind::Mmio, true, 4, 0xfee0_00b0, 7),
        ("kvm_mmio", "mmio unsatisfied-read len 8 gpa 0x10 val 0x0", SubjectKind::Mmio, false, 8, 16, 0),
        ("kvm_iocsr", "iocsr write len 4 gpa 0x1008 val 0x1", SubjectKind::Mmio, true, 4, 0x1008, 1),
        ("kvm_fast_mmio", "fast mmio at gpa 0xfe003000", SubjectKind::Mmio, true, 0, 0xfe00_3000, 0),
        ("kvm_pio", "pio_write at 0x70 size 1 count 1 val 0x8f ", SubjectKind::Port, true, 1, 0x70, 0x8f),
        ("kvm_pio", "pio_read at 0x1f0 size 2 count 256", SubjectKind::Port, false, 2, 0x1f0, 0),
        ("kvm_msr", "msr_read c0000080 = 0x0 (#GP)", SubjectKind::Msr, false, 0, 0xc000_0080, 0),
        ("kvm_cr", "cr_write 4 = 0x6f0", SubjectKind::ControlRegister, true, 0, 4, 0x6f0),
        ("kvm_apic", "apic_write APIC_TMICT = 0x1000", SubjectKind::Apic, true, 0, 0x380, 0x1000),
        ("kvm_apic", "apic_read 0x500 = 0x1", SubjectKind::Apic, false, 0, 0x500, 1),
        ("kvm_cpuid", "func 1 idx 3fd rax 1 rbx 2", SubjectKind::Cpuid, false, 0, 1, 0x3fd),
        ("kvm_cpuid", "func 1 rax 1 rbx 2", SubjectKind::Cpuid, false, 0, 1, 0),
        ("kvm_hypercall", "nr 0xb a0 0x8 a1 0x0", SubjectKind::Hypercall, false, 0, 11, 8),
        // Whom it kicks.
        ("kvm_hypercall", "nr 0x5 a0 0x0 a1 0x3", SubjectKind::Hypercall, false, 0, 5, 3),
        ("kvm_xen_hypercall", "cpl 0 nr 0x14 a0 0x2 a1 0x0", SubjectKind::XenHypercall, false, 0, 0x14, 2),
        ("kvm_hv_hypercall", "code 0x5c fast cnt 0x0", SubjectKind::HypervHypercall, false, 0, 0x5c, 0),
        ("kvm_hvc_arm64", "HVC at 0x4 (r0: 0x84000000, imm: 0x1)", SubjectKind::Hvc, false, 0, 0x8400_0000, 1),
        ("kvm_page_fault", "address f61c8 error_code 4", SubjectKind::PageFault, false, 0, 4, 0xf61c8),
        ("kvm_guest_fault", "ipa 0, hsr 0x93800005, hxfar 0", SubjectKind::PageFault, false, 0, 0x9380_0005, 0),
        ("kvm_sys_access", "PC: 4000 X (3,0,0,4,0) read", SubjectKind::SystemRegister, false, 0, 0x18_0400, 0),
        (
            "kvm_sys_access",
            "[FAILED TO PARSE] vcpu_pc=0x40 is_write=1 name=0xffff Op0=3 Op1=0 CRn=12 CRm=11 Op2=5",
            SubjectKind::SystemRegister,
            true,
            0,
            0x18_cba0,
            0,
        ),
        ("kvm_handle_sys_reg", "HSR 0x62300049", SubjectKind::SystemRegister, false, 0, 0x18_0400, 0),
        ("kvm_handle_sys_reg", "HSR 0x623a3016", SubjectKind::SystemRegister, true, 0, 0x18_cba0, 0),
    ];
    for (name, fields, kind, write, size, key, value) in cases {
        assert_eq!(detail_of("kvm", name, fields), (kind, write, size, key, value, none), "{fields}");
    }
    let fault = "vcpu 2 rip 0xe05b address 0x00000000000f61c8 error_code 0x100000004";
    let expected = (SubjectKind::PageFault, false, 0, 0x1_0000_0004, 0xf61c8, VcpuId(2));
    assert_eq!(detail_of("kvm", "kvm_page_fault", fault), expected);
    let fault = "VCPU 1: hpte=0x1:0x2 guest=0x3 ea=0xc000000000001000,40000000 slot=0x0,0x0";
    let expected = (SubjectKind::PageFault, false, 0, 0x4000_0000, 0xc000_0000_0000_1000, VcpuId(1));
    assert_eq!(detail_of("kvm_hv", "kvm_page_fault_enter", fault), expected);
    let call = "VCPU 1: hcall=0x999 GPR4-7=0x2,0x0,0x0,0x0";
    assert_eq!(detail_of("kvm_hv", "kvm_hcall_enter", call), (SubjectKind::PpcHcall, false, 0, 0x999, 2, VcpuId(1)));
}

#[test]
fn the_scheduler_names_threads_in_two_ways() {
    let switch = |fields: &str| read("sched", "sched_switch", fields);
    let expected = |sleeps, comm: &str| {
        let prev_name = ThreadName::new(comm.as_bytes());
        unnamed(EventKind::Switch { prev: Tid(15), sleeps, next: Tid(0), prev_name })
    };
    let long = |comm: &str, state: &str| {
        format!(
            "prev_comm={comm} prev_pid=15 prev_prio=120 prev_state={state} ==> next_comm={comm} next_pid=0 next_prio=1"
        )
    };
    let short = |comm: &str, state: &str| format!("{comm}:15 [120] {state} ==> {comm}:0 [120]");
    for comm in ["a", "kworker/0:1", "x prev_pid=9", "a ] b", ":7 [1] S", "next_pid=1 "] {
        for (state, sleeps) in [("R", false), ("R+", false), ("S", true), ("D", true), ("I", true), ("W", true)] {
            assert_eq!(switch(&long(comm, state)), expected(sleeps, comm), "{comm} {state}");
            assert_eq!(switch(&short(comm, state)), expected(sleeps, comm), "{comm} {state}");
        }
    }
    for (name, fields) in [
        ("sched_wakeup", "comm=a pid=1 b pid=17 prio=120 target_cpu=000"),
        ("sched_wakeup", "comm=a pid=17 prio=120 success=1 target_cpu=000"),
        ("sched_wakeup_new", "kworker/0:1:17 [120] CPU:000"),
        ("sched_wakeup", "kworker/0:1:17 [120] success=1 CPU:000"),
    ] {
        assert_eq!(read("sched", name, fields), unnamed(EventKind::Wakeup { tid: Tid(17) }), "{fields}");
    }
}

#[test]
fn the_rest() {
    assert_eq!(kvm("kvm_inj_virq", "IRQ 0x8 [reinjected]"), unnamed(EventKind::Inject { vector: 8 }));
    assert_eq!(kvm("kvm_inj_virq", "Soft/INTn 0x19"), unnamed(EventKind::Inject { vector: 0x19 }));
    assert_eq!(kvm("kvm_inj_virq", "irq 236"), unnamed(EventKind::Inject { vector: 236 }));
    assert_eq!(kvm("kvm_wfx_arm64", "guest executed wfe at: 0x1"), unnamed(EventKind::Wfx { wfe: true }));
    assert_eq!(kvm("kvm_wfx_arm64", "guest executed wfi at: 0x1"), unnamed(EventKind::Wfx { wfe: false }));
    assert_eq!(kvm("kvm_wfx_arm64", "guest executed wf>c< at: 0x0"), None);
    assert_eq!(
        kvm("kvm_vcpu_wakeup", "poll time 5584 ns, polling valid"),
        unnamed(EventKind::HaltEnd { ns: 5584, waited: false, valid: true })
    );
    assert_eq!(
        kvm("kvm_halt_poll_ns", "vcpu 1: halt_poll_ns 1 (grow 0)"),
        Some((EventKind::HaltPoll { grow: true, new: 1, old: 0 }, VcpuId(1)))
    );
    for (text, old, new) in
        [("vcpu 3 old 4096 new 8192 (growed)", 4_096, 8_192), ("vcpu 3 old 8192 new 4096 (shrinked)", 8_192, 4_096)]
    {
        assert_eq!(kvm("kvm_ple_window_update", text), Some((EventKind::PleWindow { new, old }, VcpuId(3))));
    }
    assert_eq!(kvm("kvm_ple_window_update", "vcpu 3 old 4096 (growed)"), None);
    assert_eq!(kvm("kvm_entry", " vcpu 3 rip 0x1".trim_start()), Some((EventKind::Enter, VcpuId(3))));
    // From the oldest to the newest kernels.
    for entry in [
        "vcpu 3",
        "vcpu 3, rip 0x1",
        "vcpu 3, rip 0x1[immediate exit]",
        "vcpu 3, rip 0x1 intr_info 0x80000030 error_code 0x00000000[immediate exit]",
    ] {
        assert_eq!(kvm("kvm_entry", entry), Some((EventKind::Enter, VcpuId(3))), "{entry}");
    }
    // As the first kernels with this tracepoint printed it.
    assert_eq!(
        kvm("kvm_vcpu_wakeup", "wait time 9 ns"),
        unnamed(EventKind::HaltEnd { ns: 9, waited: true, valid: true })
    );
    let complaint = "CAN'T FIND FIELD \"vcpu_id\"<CANT FIND FIELD rip>PC: 0x0000000040000000";
    assert_eq!(kvm("kvm_entry", complaint), unnamed(EventKind::Enter));
    assert_eq!(
        kvm("kvm_userspace_exit", "reason 0x50 (80)"),
        unnamed(EventKind::UserspaceExit { reason: 80, errno: 0 })
    );
    let reentry = read("kvm_pr", "kvm_book3s_reenter", "reentry r=1 | pc=0x1");
    assert_eq!(reentry, unnamed(EventKind::Enter));
}

#[test]
fn what_an_exit_says_of_its_subject_and_how_many_accesses_are_one_instruction_is_read() {
    let subject = |fields: &str| match kvm("kvm_exit", fields) {
        Some((EventKind::Exit { code, words, .. }, _)) => words.subject(code),
        said => panic!("{said:?}"),
    };
    let of = |kind, write, key| Some(Subject { kind, write, form: PortAccessForm::Unknown, size: 0, key, value: 0 });
    let expected = Some(Subject {
        kind: SubjectKind::Port,
        write: false,
        form: PortAccessForm::String,
        size: 2,
        key: 0x1f0,
        value: 0,
    });
    for fields in [
        "vcpu 0 reason io rip 0xf1 info1 0x0000000001f00025 info2 0x00000000000000f3 intr_info 0x0 error_code 0x0",
        "reason EXIT_IOIO rip 0xf1 info 1f00025 f3",
        "reason IO_INSTRUCTION rip 0xf1 info 1f00019 0",
        "vcpu 0 reason IO_INSTRUCTION rip 0xf1 info1 0x1f00039",
    ] {
        assert_eq!(subject(fields), expected, "{fields}");
    }
    let told = "vcpu 0 reason EXTERNAL_INTERRUPT rip 0xf1 info1 0x0 info2 0x0 intr_info 0x800000ec error_code 0x0";
    assert_eq!(subject(told), of(SubjectKind::HostVector, false, 0xec));
    let newer = format!("{told} requests 0x0000000000000000");
    assert_eq!(subject(&newer), of(SubjectKind::HostVector, false, 0xec));
    // What the second word of two is, the text does not say.
    assert_eq!(subject("reason EXTERNAL_INTERRUPT rip 0xf1 info 0 800000ec"), None);
    assert_eq!(subject("reason APIC_WRITE rip 0xf1 info 380 0"), of(SubjectKind::Apic, true, 0x380));
    assert_eq!(subject("reason EPT_VIOLATION rip 0xf1 info 182 0"), of(SubjectKind::EptViolation, false, 0x182));
    assert_eq!(subject("reason npf rip 0xf1 info 100000006 f3"), of(SubjectKind::PageFault, false, 0x1_0000_0006));
    assert_eq!(subject("reason HLT rip 0xf1 info 0 0"), None);
    assert_eq!(subject("reason io rip 0xf1"), None, "nothing is said");
    let form = |fields: &str| match kvm("kvm_pio", fields) {
        Some((EventKind::Detail(detail), _)) => detail.form,
        said => panic!("{said:?}"),
    };
    assert_eq!(form("pio_read at 0x1f0 size 2 count 256 val 0x0 (...)"), PortAccessForm::String);
    assert_eq!(form("pio_write at 0x80 size 1 count 1 val 0x7"), PortAccessForm::Unknown);
    assert_eq!(kvm("kvm_pio", "pio_write at 0x80 size 1"), None);
}

#[test]
fn system_calls_are_told_apart_by_the_second_argument() {
    let called = |fields| read("raw_syscalls", "sys_enter", fields).map(|said| said.0);
    assert_eq!(called("NR 16 (c, ae80, 0, 7f11, 0, 0)"), Some(EventKind::RunEnter));
    assert_eq!(called("NR 16 (c, 8090ae81, 7ffd, 7f11, 0, 0)"), Some(EventKind::Syscall { registers: true }));
    assert_eq!(called("NR 0 (3, 7ffe8090ae81, 10, 0, 0, 0)"), Some(EventKind::Syscall { registers: false }));
    assert_eq!(called("NR 16"), None);
}

#[test]
fn only_so_many_names_that_no_list_has_are_kept() {
    let mut reasons = Reasons::new();
    let known = reasons.x86.len();
    let name = |number: u64| format!("no_reason_{number}").into_bytes();
    let codes: Vec<ExitCode> = (0..MAX_UNKNOWN + 9).map(|number| reasons.unknown(&name(number))).collect();
    assert_eq!(reasons.x86.len() - known, MAX_UNKNOWN as usize);
    // Those beyond are read anew, as the same.
    assert!((0..).zip(&codes).all(|(number, code)| reasons.unknown(&name(number)) == *code));
    assert_eq!(reasons.x86.len() - known, MAX_UNKNOWN as usize);
}
