//! What exit codes are, over whole lists: each question is answered for every reason of every vendor, not for a few.

use exitscope_model::codes::tables;
use exitscope_model::codes::{
    EAGAIN, EFAULT, EHWPOISON, EINTR, KVM_EXIT_HLT, KVM_EXIT_INTR, KVM_EXIT_MEMORY_FAULT, UserStay, is_called,
};
use exitscope_model::*;
use std::collections::BTreeMap;

/// Every code for which this holds, with the name of its list.
fn all(holds: impl Fn(ExitCode) -> bool) -> Vec<String> {
    let codes = |(of, list)| (0..0x1000).map(move |number| (of, ExitCode::new(list, number)));
    let found = CodeList::NAMES.into_iter().flat_map(codes).filter(|(_, code)| holds(*code));
    found.map(|(of, code)| format!("{of} {}", code.name())).collect()
}

#[test]
fn a_guest_halts_by_these_and_no_others() {
    let halts = [
        "vmx HLT",
        "svm hlt",
        "svm idle-halt",
        "arm64_ec WFx",
        "s390 Wait state",
        "loongarch IDLE",
        "kvm KVM_EXIT_HLT",
    ];
    assert_eq!(all(ExitCode::is_halt), halts);
    assert_eq!(all(ExitCode::halts_if_it_sleeps), ["riscv EXC_VIRTUAL_INST_FAULT"]);
}

/// Codes of which nothing of the kind is so, by their lists.
const PLAIN: &str = include_str!("codes/plain.txt");

/// Whoever adds a code answers the questions, or adds it to those that are plain: then advice may still have to know what it is about
/// (`ABOUT` of `crates/advice/src/rules/device_rules.rs`).
#[test]
fn each_code_is_something_or_is_listed_as_plain() {
    let is_something = |code: ExitCode| {
        let of_time = code.is_halt() || code.halts_if_it_sleeps() || code.may_reenter_unsaid();
        let of_subject = code.has_subject() || code.is_access() || code.is_page_fault();
        of_time || of_subject || YieldCall::of_exit(code).is_some()
    };
    let listed: Vec<&str> = PLAIN.lines().collect();
    let plain = all(|code| !is_something(code));
    // A code without a name is a number.
    let plain: Vec<String> = plain.into_iter().filter(|code| !code.contains(" 0x")).collect();
    let unlisted: Vec<&String> = plain.iter().filter(|code| !listed.contains(&code.as_str())).collect();
    let gone: Vec<&&str> = listed.iter().filter(|code| !plain.iter().any(|of| of == *code)).collect();
    assert!(unlisted.is_empty(), "neither answered for nor plain: {unlisted:?}");
    assert!(gone.is_empty(), "plain no more: {gone:?}");
}

/// Lists of exit codes as the kernel has them, each line's source above it; of loongarch there is none, as KVM has it since Linux 6.7.
const KERNEL: &str = include_str!("codes/kernel.txt");

#[test]
fn tables_have_the_kernels_codes_and_the_kernels_names() {
    let mut kernel: BTreeMap<&str, BTreeMap<u64, &str>> = BTreeMap::new();
    for line in KERNEL.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [list, number, name] = words[..] else { panic!("{line}") };
        let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
        assert_eq!(kernel.entry(list).or_default().insert(number, name), None, "{line}: twice");
    }
    let tables = [
        ("vmx", tables::VMX),
        ("svm", tables::SVM),
        ("arm64", tables::ARM64_EXIT),
        ("arm64_ec", tables::ARM64_EC),
        ("s390", tables::S390_ICPT),
        ("book3s", tables::PPC_TRAP),
        ("booke", tables::PPC_BOOKE),
        ("riscv", tables::RISCV),
        ("kvm", tables::KVM_EXIT),
    ];
    for (name, table) in tables {
        let list = CodeList::NAMES.into_iter().find(|of| of.0 == name).unwrap().1;
        let ours: BTreeMap<u64, String> =
            table.iter().map(|&(number, _)| (number, ExitCode::new(list, number).name())).collect();
        let theirs = kernel.remove(name).unwrap_or_default();
        for number in ours.keys().chain(theirs.keys()) {
            let names = (ours.get(number).map(String::as_str), theirs.get(number).copied());
            assert_eq!(names.0, names.1, "{name} {number:#x}: ours, the kernel's");
        }
    }
    assert_eq!(kernel, BTreeMap::new(), "lists of no table");
}

/// HLT, hypercalls, nested entries, faults, and whatever the emulator may run are missing here.
#[test]
fn no_halt_can_be_within_these() {
    let vmx = "EXTERNAL_INTERRUPT INTERRUPT_WINDOW NMI_WINDOW CPUID INVD INVLPG RDPMC RDTSC DR_ACCESS MSR_READ MSR_WRITE \
               PAUSE_INSTRUCTION TPR_BELOW_THRESHOLD EOI_INDUCED PREEMPTION_TIMER WBINVD XSETBV APIC_WRITE INVPCID PML_FULL \
               MSR_READ_IMM MSR_WRITE_IMM";
    let svm = "interrupt nmi vintr rdtsc rdpmc cpuid invd pause invlpg msr wbinvd xsetbv avic_incomplete_ipi \
               avic_unaccelerated_access";
    let of =
        |list: &'static str, names: &'static str| names.split_whitespace().map(move |name| format!("{list} {name}"));
    assert_eq!(all(ExitCode::cannot_halt), of("vmx", vmx).chain(of("svm", svm)).collect::<Vec<_>>());
}

#[test]
fn these_are_about_nothing() {
    for kind in [SubjectKind::Apic, SubjectKind::Cpuid, SubjectKind::Mmio, SubjectKind::Port, SubjectKind::Msr] {
        assert_eq!(all(|code| code.cannot_be_about(kind)), ["vmx HLT", "svm hlt", "svm idle-halt"], "{kind:?}");
    }
    assert!(all(|code| code.cannot_be_about(SubjectKind::PageFault)).is_empty());
}

#[test]
fn these_are_faults_of_the_second_stage() {
    let faults = [
        "vmx EPT_VIOLATION",
        "svm npf",
        "arm64_ec IABT_LOW",
        "arm64_ec DABT_LOW",
        "book3s H_DATA_STORAGE",
        "book3s H_INST_STORAGE",
        "riscv EXC_INST_GUEST_PAGE_FAULT",
        "riscv EXC_LOAD_GUEST_PAGE_FAULT",
        "riscv EXC_STORE_GUEST_PAGE_FAULT",
    ];
    assert_eq!(all(ExitCode::is_page_fault), faults);
}

#[test]
fn these_may_wait_for_a_device_model() {
    assert_eq!(all(ExitCode::is_port_access), ["vmx IO_INSTRUCTION", "svm io"]);
    let accesses =
        ["vmx IO_INSTRUCTION", "vmx APIC_ACCESS", "vmx EPT_VIOLATION", "vmx EPT_MISCONFIG", "svm io", "svm npf"];
    assert_eq!(all(ExitCode::is_access), accesses);
    // Faults of shadow paging, and hypercalls, besides.
    let waits = [
        "vmx EXCEPTION_NMI",
        "vmx VMCALL",
        "vmx IO_INSTRUCTION",
        "vmx APIC_ACCESS",
        "vmx EPT_VIOLATION",
        "vmx EPT_MISCONFIG",
        "svm PF excp",
        "svm io",
        "svm hypercall",
        "svm npf",
    ];
    assert_eq!(all(ExitCode::may_wait_for_device_model), waits);
}

#[test]
fn fast_paths_are_those_of_vmx_that_enter_again() {
    assert_eq!(all(ExitCode::may_reenter_unsaid), ["vmx MSR_WRITE", "vmx PREEMPTION_TIMER"]);
}

#[test]
fn user_space_is_asked_for_an_access_of_its_own_kind_alone() {
    for kind in SubjectKind::ALL {
        let expected: &[&str] = match kind {
            SubjectKind::Port | SubjectKind::Diag => &["kvm KVM_EXIT_IO"],
            SubjectKind::Mmio => &["kvm KVM_EXIT_MMIO"],
            SubjectKind::Msr => &["kvm KVM_EXIT_X86_RDMSR", "kvm KVM_EXIT_X86_WRMSR"],
            SubjectKind::Hypercall => &["kvm KVM_EXIT_HYPERCALL"],
            _ => &[],
        };
        assert_eq!(all(|code| code.hands_over(kind)), expected, "{kind:?}");
    }
}

#[test]
fn a_spin_is_told_by_the_exit_alone_where_the_processor_notices_it() {
    let calls = [YieldCall::Pause, YieldCall::PauseFilter].map(Some);
    let of = [ExitCode::new(CodeList::Vmx, 0x0400_0028), ExitCode::new(CodeList::Svm, 0x77)].map(YieldCall::of_exit);
    assert_eq!(of, calls, "bits beside the basic reason change nothing");
    assert_eq!(all(|code| YieldCall::of_exit(code).is_some()), ["vmx PAUSE_INSTRUCTION", "svm pause"]);
}

#[test]
fn an_error_is_why_kvm_run_returned_whatever_reason_is_left_over_but_for_a_memory_fault() {
    assert_eq!((EINTR, EAGAIN, EFAULT, EHWPOISON), (-4, -11, -14, -133), "errno.h");
    let cases = [
        // The fields of kvm_userspace_exit, the code, and what user space has the vCPU for.
        (2, 0, "KVM_EXIT_IO", UserStay::Served),
        (2, 1, "KVM_EXIT_IO", UserStay::Served),
        (2, -1, "KVM_RUN EPERM", UserStay::Served),
        (2, EFAULT, "KVM_RUN EFAULT", UserStay::Served),
        (KVM_EXIT_MEMORY_FAULT, EFAULT, "KVM_EXIT_MEMORY_FAULT", UserStay::Served),
        (KVM_EXIT_MEMORY_FAULT, EHWPOISON, "KVM_EXIT_MEMORY_FAULT", UserStay::Served),
        (KVM_EXIT_MEMORY_FAULT, EINTR, "KVM_EXIT_INTR", UserStay::Kicked),
        (17, -999, "KVM_RUN errno 999", UserStay::Served),
        (2, EINTR, "KVM_EXIT_INTR", UserStay::Kicked),
        (2, EAGAIN, "KVM_EXIT_INTR", UserStay::Kicked),
        (KVM_EXIT_INTR, 0, "KVM_EXIT_INTR", UserStay::Kicked),
        (KVM_EXIT_INTR, EFAULT, "KVM_RUN EFAULT", UserStay::Served),
        (KVM_EXIT_HLT, 0, "KVM_EXIT_HLT", UserStay::Halted),
        (KVM_EXIT_HLT, 3, "KVM_EXIT_HLT", UserStay::Halted),
        (KVM_EXIT_HLT, EFAULT, "KVM_RUN EFAULT", UserStay::Served),
        (KVM_EXIT_HLT, EINTR, "KVM_EXIT_INTR", UserStay::Kicked),
        (KVM_EXIT_HLT, EAGAIN, "KVM_EXIT_INTR", UserStay::Kicked),
    ];
    for (reason, errno, name, stay) in cases {
        let code = ExitCode::of_userspace(reason, errno);
        assert_eq!((code.name(), UserStay::of(reason, errno)), (name.to_string(), stay), "{reason} {errno}");
        assert_eq!(ExitCode::from_name(CodeList::KvmExit, name), Some(code));
        assert!(ExitCode::is_known(name) && ExitCode::is_known(&name.to_ascii_lowercase()), "{name}");
    }
}

#[test]
fn a_reason_is_meant_by_either_vendors_word() {
    for (name, wanted, is_meant) in [
        ("IO_INSTRUCTION", "io", true),
        ("io", "io_instruction", true),
        ("MSR_WRITE", "msr", true),
        ("MSR_WRITE", "MSR_READ", false),
        ("npf", "EPT_MISCONFIG", true),
        ("HLT", "hlt", true),
        ("HLT", "io", false),
        ("interrupt", "External_Interrupt", true),
    ] {
        assert_eq!(is_called(name, wanted), is_meant, "{name} {wanted}");
    }
}

#[test]
fn names_are_known_of_every_list_in_any_case_and_numbers_are() {
    for (of, list) in CodeList::NAMES {
        let codes = (0..0x1000).map(|number| ExitCode::new(list, number));
        let named: Vec<_> = codes.filter(|code| !code.name().starts_with("0x")).collect();
        assert!(named.len() > 3, "{of}: {}", named.len());
        for code in named {
            let name = code.name();
            assert_eq!(ExitCode::from_name(list, &name), Some(code), "{of} {name}");
            assert!(ExitCode::is_known(&name.to_uppercase()) && ExitCode::is_known(&name.to_lowercase()), "{name}");
        }
    }
    for known in ["0x7b", "0xffffffffffffffff", "ept_violation bus_lock_detected 0x20000", "kvm_exit_MMIO"] {
        assert!(ExitCode::is_known(known), "{known}");
    }
    // A number that is none, user space's reasons without their prefix, flags of what has none, and words that are no flags.
    for unknown in
        ["0x", "0xfg", "7b", "", "MMIO", "KVM_EXIT_HLT2", "npf BUS_LOCK_DETECTED", "HLT SOON", "NONE BUS_LOCK_DETECTED"]
    {
        assert!(!ExitCode::is_known(unknown), "{unknown}");
    }
}

#[test]
fn a_name_is_read_as_its_own_list_spells_it() {
    let cases = [
        (CodeList::Vmx, "npf", None),
        (CodeList::Svm, "npf", Some(0x400)),
        // Only VMX has flags: a space is part of SVM's names.
        (CodeList::Svm, "UD excp", Some(70)),
        (CodeList::Svm, "npf BUS_LOCK_DETECTED", None),
        (CodeList::KvmExit, "MMIO", Some(6)),
        (CodeList::KvmExit, "KVM_EXIT_MMIO", Some(6)),
        (CodeList::Riscv, "0x15", Some(0x15)),
        (CodeList::Riscv, "15", None),
        (CodeList::Text, "MMIO", None),
        // A flag that the number already has.
        (CodeList::Vmx, "0x80000021 FAILED_VMENTRY", Some(0x8000_0021)),
        (CodeList::Vmx, "HLT SMI_PENDING_MTF SMI_FROM_VMX_ROOT", Some(0x3000_000c)),
    ];
    for (list, name, number) in cases {
        assert_eq!(ExitCode::from_name(list, name), number.map(|number| ExitCode::new(list, number)), "{name}");
    }
}

#[test]
fn flags_are_bits_above_the_basic_reason_and_below_the_thirty_third() {
    let cases = [
        ("", Some(0)),
        ("0x10000", Some(0x1_0000)),
        ("0xffff0000", Some(0xffff_0000)),
        ("0xffff", None),
        ("0x8000", None),
        ("0x100000000", None),
        ("10000", None),
        ("BUS_LOCK_DETECTED", Some(1 << 26)),
        ("ENCLAVE_MODE 0x40000", Some(1 << 27 | 1 << 18)),
        ("SMI_PENDING_MTF", Some(1 << 28)),
        ("SMI_FROM_VMX_ROOT", Some(1 << 29)),
        ("FAILED_VMENTRY FAILED_VMENTRY", Some(1 << 31)),
        ("FAILED_VMENTRY SOON", None),
    ];
    for (words, bits) in cases {
        assert_eq!(ExitCode::vmx_flags(words), bits, "{words}");
    }
}

#[test]
fn a_name_that_no_list_has_is_kept_for_its_code() {
    let [some, other] = ["made up for this", "another"].map(ExitCode::of_unlisted);
    assert_eq!(
        (some.list, some.name().as_str(), other.name().as_str()),
        (CodeList::Text, "made up for this", "another")
    );
    assert_eq!(ExitCode::of_unlisted("made up for this"), some);
    assert_ne!(some, other);
    // Sixty-four characters are kept of a longer one.
    let long = "\u{e9}".repeat(70);
    assert_eq!(ExitCode::of_unlisted(&long).name(), "\u{e9}".repeat(64));
    assert_eq!(ExitCode::of_unlisted(&"\u{e9}".repeat(64)), ExitCode::of_unlisted(&long));
}

#[test]
fn doors_are_called_what_the_kernel_calls_them() {
    let handlers = [Handler::Kernel, Handler::Userspace(2), Handler::Userspace(0x99), Handler::DeviceModel];
    assert_eq!(handlers.map(Handler::name), ["kernel", "KVM_EXIT_IO", "0x99", "device model"]);
}

/// Of an exit with several subjects the last of these is kept (`lane.rs`): whoever adds a kind says which ones it is weaker than.
#[test]
fn kinds_of_subjects_are_in_this_order() {
    let weakest_first = "vmgexit ghcb_msr exception host_vector host_irq eoi_vector incomplete_ipi task_switch page_fault ept_violation \
        memory_fault debug_register apic control_register system_register instruction program_interruption sigp cpuid mmio \
        port msr hypercall hyperv_hypercall xen_hypercall hcall hvc diagnose";
    let names: Vec<&str> = SubjectKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.join(" "), weakest_first, "weakest first");
}
