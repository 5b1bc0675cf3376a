//! Each cause that docs/causes.md lists, from each format: an exit of it is written, and read as perf.data, as trace.dat, and as the
//! text that libtraceevent makes of both.

mod common;
#[path = "../../trace/tests/common/trace_dat.rs"]
#[allow(dead_code)]
mod trace_dat;

use common::{run, stderr};
use exitscope_advice::{known_and_unjudged, known_causes};
use exitscope_model::codes::system_register;
use exitscope_model::{
    CodeList, Event, EventKind, EventNames, ExitCode, ExitWord, PortAccessForm, Subject, SubjectKind, SubjectWord,
};
use exitscope_skips::{Part, Skipped, skip};
use exitscope_trace::{PerfHead, PerfWriter};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

/// An exit for `reason`, what its event says of it, and the events that follow it.
struct Case {
    cause: &'static str,
    list: CodeList,
    reason: u64,
    word: Option<(ExitWord, u64)>,
    events: Vec<(&'static str, EventKind)>,
}

impl Case {
    fn new(cause: &'static str, (list, reason): (CodeList, u64)) -> Case {
        Case { cause, list, reason, word: None, events: Vec::new() }
    }

    fn with(mut self, word: ExitWord, value: u64) -> Case {
        self.word = Some((word, value));
        self
    }

    fn then(mut self, name: &'static str, kind: EventKind) -> Case {
        self.events.push((name, kind));
        self
    }

    fn about(self, name: &'static str, kind: SubjectKind, key: u64, value: u64) -> Case {
        let (write, form) = (WITH_DIRECTION.contains(&kind), PortAccessForm::Unknown);
        let size = if matches!(kind, SubjectKind::Port | SubjectKind::Mmio) { 4 } else { 0 };
        self.then(name, EventKind::Detail(Subject { kind, write, form, size, key, value }))
    }

    /// What is found in trace-cmd's text: libtraceevent's plugin of KVM prints `info1` and `info2`, without `intr_info`.
    fn printed_by_trace_cmd(&self) -> &'static str {
        match (self.word, self.reason) {
            (Some((ExitWord::IntrInfo, _)), 0) if self.events.is_empty() => UNTOLD_EXCEPTION,
            (Some((ExitWord::IntrInfo, _)), 0) => self.cause,
            (Some((ExitWord::IntrInfo, _)), _) => "interrupts of the host",
            _ => self.cause,
        }
    }

    /// As `uname -m` has it, and the CPU as perf spells it.
    fn machine(&self) -> (&'static str, &'static str) {
        match self.list {
            CodeList::Vmx | CodeList::KvmExit => ("x86_64", "GenuineIntel,6,85,7"),
            CodeList::Svm => ("x86_64", "AuthenticAMD,25,1,1"),
            CodeList::PpcTrap => ("ppc64le", "pvr 004d0200"),
            CodeList::Riscv => ("riscv64", ""),
            _ => ("aarch64", "0x00000000410fd0c0"),
        }
    }
}

const IO: (CodeList, u64) = (CodeList::Vmx, 30);
const MISCONFIG: (CodeList, u64) = (CodeList::Vmx, 49);
const VIOLATION: (CodeList, u64) = (CodeList::Vmx, 48);
const WRMSR: (CodeList, u64) = (CodeList::Vmx, 32);
const VMCALL: (CodeList, u64) = (CodeList::Vmx, 18);
const VMGEXIT: (CodeList, u64) = (CodeList::Svm, 0x403);
const PPC_HCALL: (CodeList, u64) = (CodeList::PpcTrap, 0xc00);
const SYS64: (CodeList, u64) = (CodeList::Arm64Ec, 0x18);
const HVC64: (CodeList, u64) = (CodeList::Arm64Ec, 0x16);
const ABORT: (CodeList, u64) = (CodeList::Arm64Ec, 0x24);

/// Of which the events say that they are written.
const WITH_DIRECTION: [SubjectKind; 5] =
    [SubjectKind::Port, SubjectKind::Mmio, SubjectKind::Msr, SubjectKind::Apic, SubjectKind::SystemRegister];

/// Devices of PCs by their port.
const PORTS: &[(&str, u64)] = &[
    ("ACPI PM timer", 0x608),
    ("RTC", 0x70),
    ("PIT", 0x40),
    ("PC speaker's port", 0x61),
    ("registers of the chipset", 0x92),
    ("ACPI registers", 0x604),
    ("serial port", 0x3f8),
    ("keyboard controller", 0x60),
    ("delay port 0x80", 0x80),
    ("system management interrupts", 0xb2),
    ("IDE disk", 0x1f0),
    ("floppy controller", 0x3f0),
    ("firmware's debug console", 0x402),
    ("VMware backdoor", 0x5658),
    ("fw_cfg", 0x510),
];

/// By their address.
const PAGES: &[(&str, u64)] = &[
    ("HPET", 0xfed0_00f0),
    ("interrupt controller", 0xfec0_0010),
    ("local APIC", 0xfee0_0300),
    ("VGA", 0xa_0000),
    ("PCI configuration", 0xb000_0000),
    ("TPM", 0xfed4_0000),
];

/// Those of arm64's virt.
const VIRT: &[(&str, u64)] = &[("RTC", 0x901_0000), ("virtio-mmio", 0xa00_0000)];

const MSRS: &[(&str, u64)] = &[
    ("timer", 0x6e0),
    ("Hyper-V messages' end", 0x4000_0084),
    ("Hyper-V synthetic timers", 0x4000_00b0),
    ("Hyper-V reference counter", 0x4000_0020),
    ("IPIs", 0x830),
    ("Hyper-V IPIs", 0x4000_0071),
    ("APIC's EOI and TPR", 0x80b),
    ("Hyper-V's EOI and TPR", 0x4000_0070),
    ("speculation control", 0x48),
    ("branch predictor barriers", 0x49),
    ("flushes of the L1 data cache", 0x10b),
    ("entry points of SYSENTER", 0x174),
    ("XFD", 0x1c4),
    ("XFD's error", 0x1c5),
    ("residencies of a package's C-states", 0x3f8),
    ("residencies of C-states", 0x3fc),
    ("entry points of SYSCALL", 0xc000_0082),
    ("bases of FS and GS", 0xc000_0101),
    ("TSC", 0x10),
    ("TSC_ADJUST", 0x3b),
    ("asynchronous page faults", 0x4b56_4d07),
    ("APERF and MPERF", 0xe7),
    ("performance counters", 0x38f),
];

/// Calls of KVM's, and of Hyper-V's.
const CALLS: &[(&str, u64)] = &[
    ("wake-ups of those who wait for locks", 5),
    ("IPIs by hypercall", 10),
    ("yields to vCPUs that are asked for something", 11),
];
const HYPERV_CALLS: &[(&str, u64)] =
    &[("TLB flushes by hypercall", 2), ("long waits for locks", 8), ("IPIs by hypercall", 0xb), ("VMBus", 0x5c)];
const PSERIES_CALLS: &[(&str, u64)] = &[("serial console", 0x58), ("wake-ups of vCPUs that have ceded", 0xe8)];

const REGISTERS: &[(&str, [u64; 5])] = &[
    ("ID registers", [3, 0, 0, 4, 0]),
    ("IPIs (SGIs)", [3, 0, 12, 11, 5]),
    ("physical timer", [3, 3, 14, 2, 1]),
    ("performance counters", [3, 3, 9, 13, 0]),
    ("virtual timer", [3, 3, 14, 3, 1]),
    ("physical counter", [3, 3, 14, 0, 1]),
    ("debug registers", [2, 0, 0, 2, 2]),
    ("cache maintenance by set and way", [1, 0, 7, 14, 2]),
    ("memory registers, caches off", [3, 0, 1, 0, 0]),
    ("GIC's system registers' switch", [3, 0, 12, 12, 5]),
];
const FIRMWARE_CALLS: &[(&str, u64)] = &[("PSCI's version", 0x8400_0000), ("random numbers by a call", 0x8400_0053)];

/// Exits that their reason tells apart.
const REASONS: &[(&str, (CodeList, u64))] = &[
    ("memory faults or device accesses", (CodeList::PpcTrap, 0xe00)),
    ("memory faults or device accesses", (CodeList::Riscv, 21)),
    ("interrupts of the host", (CodeList::Vmx, 1)),
    ("interrupts of the host", (CodeList::Svm, 0x60)),
    ("a system register, its name not recorded", SYS64),
    ("interrupts of the host, or for the guest", (CodeList::Arm64Exit, 0)),
    ("interrupts of the host, or for the guest", (CodeList::Riscv, 1 << 63 | 5)),
    ("calls of the SBI", (CodeList::Riscv, 10)),
    ("instructions that KVM answers, WFI among them", (CodeList::Riscv, 22)),
    ("interrupt windows", (CodeList::Vmx, 7)),
    ("interrupt windows", (CodeList::Svm, 0x64)),
    ("ends of interrupts", (CodeList::Vmx, 45)),
    ("IPIs that AVIC does not deliver", (CodeList::Svm, 0x401)),
    ("nested hypervisor", (CodeList::Vmx, 24)),
    ("nested hypervisor", (CodeList::Svm, 0x80)),
    ("timers of the host", (CodeList::PpcTrap, 0x980)),
    ("forced out (doorbells)", (CodeList::PpcTrap, 0xe80)),
    ("halts by H_CEDE, and entries that came too late", (CodeList::PpcTrap, 0)),
    ("instructions that the processor does not have", (CodeList::PpcTrap, 0xe40)),
    ("logging of written pages", (CodeList::Vmx, 62)),
    ("expiries of the guest's timer", (CodeList::Vmx, 52)),
    ("CPUID, its leaf not recorded", (CodeList::Vmx, 10)),
    ("CPUID, its leaf not recorded", (CodeList::Svm, 0x72)),
    ("reads of performance counters", (CodeList::Vmx, 15)),
    ("reads of performance counters", (CodeList::Svm, 0x6f)),
    ("what TDX guests ask for", (CodeList::Vmx, 77)),
    ("page tables that KVM shadows", (CodeList::Vmx, 14)),
    ("page tables that KVM shadows", (CodeList::Svm, 0x79)),
    ("page tables that KVM shadows", (CodeList::Vmx, 58)),
    ("NMIs of the host", (CodeList::Svm, 0x61)),
    ("debug registers and traps", (CodeList::Vmx, 29)),
    ("debug registers and traps", (CodeList::Svm, 0x37)),
    ("instructions that KVM emulates, or the guest does not have", (CodeList::Svm, 0x46)),
    ("general protection faults", (CodeList::Svm, 0x4d)),
    ("machine checks of the host", (CodeList::Vmx, 41)),
    ("no window for interrupts", (CodeList::Vmx, 75)),
    ("NMIs of the guest", (CodeList::Vmx, 8)),
    ("NMIs of the guest", (CodeList::Svm, 0x74)),
    ("reads of the TSC", (CodeList::Vmx, 16)),
    ("reads of the TSC", (CodeList::Svm, 0x87)),
    ("MONITOR and MWAIT", (CodeList::Vmx, 36)),
    ("MONITOR and MWAIT", (CodeList::Svm, 0x8a)),
    ("control registers CR0 and CR4", (CodeList::Svm, 0x14)),
    ("WBINVD and INVD", (CodeList::Vmx, 54)),
    ("WBINVD and INVD", (CodeList::Svm, 0x76)),
    ("XSETBV", (CodeList::Vmx, 55)),
    ("XSETBV", (CodeList::Svm, 0x8d)),
    ("ENCLS", (CodeList::Vmx, 60)),
    ("descriptor tables", (CodeList::Vmx, 46)),
    ("other requests of a confidential guest", VMGEXIT),
    ("other registers of the local APIC", (CodeList::Svm, 0x402)),
    ("returns from system management mode", (CodeList::Svm, 0x73)),
    (UNTOLD_EXCEPTION, (CodeList::Vmx, 0)),
    ("split locks", (CodeList::Vmx, 74)),
    ("split locks", (CodeList::Svm, 0x51)),
];

const UNTOLD_EXCEPTION: &str = "an exception or NMI, its vector not recorded";

/// VMX's exceptions, by what VM_EXIT_INTR_INFO says of them: valid, of this type (2: an NMI, 3: by hardware), with this vector.
const EXCEPTIONS: &[(&str, u64)] = &[
    ("split locks", 0x8000_0b11),
    ("first uses of AMX", 0x8000_0307),
    ("NMIs of the host", 0x8000_0202),
    ("debug registers and traps", 0x8000_0301),
    ("debug registers and traps", 0x8000_0603),
    ("instructions that KVM emulates, or the guest does not have", 0x8000_0306),
    ("general protection faults", 0x8000_0b0d),
    ("machine checks of the host", 0x8000_0312),
    ("page tables that KVM shadows", 0x8000_0b0e),
];

/// What a confidential guest asks for.
const REQUESTS: &[(&str, u64)] = &[
    ("device accesses of a confidential guest", 0x8000_0002),
    ("starts of a confidential guest's vCPUs", 0x8000_0013),
    ("attestation of a confidential guest", 0x8000_0011),
    ("other requests of a confidential guest", 0x8000_fffd),
    ("other requests of a confidential guest", 0x89),
];

/// Interrupts of the host, by their vector.
const VECTORS: &[(&str, u64)] = &[
    ("the host's timer", 0xec),
    ("reschedule interrupts of the host", 0xfd),
    ("function calls of the host's other CPUs", 0xfc),
    ("notifications of posted interrupts", 0xf2),
    ("wake-ups by posted interrupts", 0xf1),
    ("interrupts of the host's devices", 0x31),
    ("interrupts of the host", 0xf6),
];

/// EPT_VIOLATION's qualification of a read, a write and a fetch of what is not there, or not allowed.
const MISSING: u64 = 0x181;
const WRITE_TO_READABLE: u64 = 0x18a;
const FETCH_FROM_READABLE: u64 = 0x18c;

const SWITCH: &str = "sched:sched_switch";
const USERSPACE: &str = "kvm:kvm_userspace_exit";

fn fault(cause: &'static str, qualification: u64) -> Case {
    let address = 0x1_2345_6000;
    Case::new(cause, VIOLATION).with(ExitWord::Info1, qualification).about(
        "kvm:kvm_page_fault",
        SubjectKind::PageFault,
        qualification,
        address,
    )
}

/// A write to a private page of SEV-SNP's: PFERR_GUEST_ENC, _FINAL, _RMP, present, a write, by the guest.
fn rmp_fault() -> Case {
    let code = 0x5_8000_0007;
    let case = Case::new("faults of SEV-SNP's reverse map", (CodeList::Svm, 0x400)).with(ExitWord::Info1, code);
    case.about("kvm:kvm_page_fault", SubjectKind::PageFault, code, 0x1_2345_6000)
}

/// Those that need more than a number.
fn faults_and_nested() -> Vec<Case> {
    let returns = |reason, errno| EventKind::UserspaceExit { reason, errno };
    let unmappable = "memory that KVM could not map";
    vec![
        Case::new("CPUID", (CodeList::Vmx, 10)).about("kvm:kvm_cpuid", SubjectKind::Cpuid, 1, 0),
        Case::new("nested guests", (CodeList::Vmx, 10)).then("kvm:kvm_nested_vmexit", EventKind::Nested),
        Case::new("halts of nested guests", (CodeList::Vmx, 12))
            .then("kvm:kvm_nested_vmexit", EventKind::Nested)
            .then("kvm:kvm_vcpu_wakeup", EventKind::HaltEnd { ns: 1_000, waited: false, valid: true }),
        fault("writes to protected memory", WRITE_TO_READABLE),
        fault("code in huge pages", FETCH_FROM_READABLE),
        fault("memory faults", MISSING),
        rmp_fault(),
        Case::new("page tables that KVM shadows", (CodeList::Vmx, 0)).with(ExitWord::IntrInfo, 0x8000_0b0e).about(
            "kvm:kvm_page_fault",
            SubjectKind::PageFault,
            0x6,
            0x1_2345_6000,
        ),
        Case::new("returns for a signal", (CodeList::KvmExit, ExitCode::INTR.number)).then(USERSPACE, returns(10, -4)),
        Case::new("stops for the VMM's debugger", (CodeList::KvmExit, 4)).then(USERSPACE, returns(4, 0)),
        Case::new("no window for interrupts", (CodeList::KvmExit, 37)).then(USERSPACE, returns(37, 0)),
        // libtraceevent prints the reason, and no error.
        fault("conversions of a confidential guest's memory", MISSING).then(USERSPACE, returns(39, -14)),
        fault(unmappable, MISSING).then(USERSPACE, returns(0, -14)),
        Case::new("page conversions", VMGEXIT).about("kvm:kvm_vmgexit_enter", SubjectKind::Vmgexit, 0x8000_0010, 0),
        Case::new("control registers CR0 and CR4", (CodeList::Vmx, 28)).with(ExitWord::Info1, 4),
        Case::new("other registers of the local APIC", (CodeList::Vmx, 56)).with(ExitWord::Info1, 0xd0),
        Case::new("page conversions", VMCALL).about("kvm:kvm_hypercall", SubjectKind::Hypercall, 12, 0),
    ]
}

fn cases() -> Vec<Case> {
    let about = |rows: &[(&'static str, u64)], reason, event, kind| -> Vec<Case> {
        rows.iter().map(|&(cause, key)| Case::new(cause, reason).about(event, kind, key, 0)).collect()
    };
    let registers = REGISTERS.iter().map(|&(cause, register)| (cause, system_register(register)));
    let exceptions = EXCEPTIONS.iter();
    let exceptions =
        exceptions.map(|&(cause, word)| Case::new(cause, (CodeList::Vmx, 0)).with(ExitWord::IntrInfo, word));
    let interrupts = VECTORS.iter().map(|&(cause, vector)| {
        // VM_EXIT_INTR_INFO: valid, an external interrupt.
        Case::new(cause, (CodeList::Vmx, 1)).with(ExitWord::IntrInfo, 0x8000_0000 | vector)
    });
    let by_reason = REASONS.iter().map(|&(cause, reason)| Case::new(cause, reason)).collect();
    let cases = [
        about(PORTS, IO, "kvm:kvm_pio", SubjectKind::Port),
        about(PAGES, MISCONFIG, "kvm:kvm_mmio", SubjectKind::Mmio),
        about(VIRT, ABORT, "kvm:kvm_mmio", SubjectKind::Mmio),
        about(MSRS, WRMSR, "kvm:kvm_msr", SubjectKind::Msr),
        about(CALLS, VMCALL, "kvm:kvm_hypercall", SubjectKind::Hypercall),
        about(HYPERV_CALLS, VMCALL, "kvm:kvm_hv_hypercall", SubjectKind::HypervHypercall),
        about(PSERIES_CALLS, PPC_HCALL, "kvm_hv:kvm_hcall_enter", SubjectKind::PpcHcall),
        about(&registers.collect::<Vec<_>>(), SYS64, "kvm:kvm_sys_access", SubjectKind::SystemRegister),
        about(FIRMWARE_CALLS, HVC64, "kvm:kvm_hvc_arm64", SubjectKind::Hvc),
        about(REQUESTS, VMGEXIT, "kvm:kvm_vmgexit_enter", SubjectKind::Vmgexit),
        faults_and_nested(),
        exceptions.collect(),
        interrupts.collect(),
        by_reason,
    ];
    cases.into_iter().flatten().collect()
}

/// The process that is the VM, and the thread of its vCPU.
const VM: VmId = VmId(41);
const THREAD: Tid = Tid(42);

/// So many exits, in nanoseconds one after the other, of which each takes half.
const EXITS: u64 = 400;
const APART: u64 = 100_000;

/// A perf.data of a vCPU whose exits are all of this case.
fn perf_data(case: &Case) -> Vec<u8> {
    // Of KVM's own codes: a back end that never fires kvm_exit and kvm_entry.
    let is_told = case.list != CodeList::KvmExit;
    let (exit, (entry, entered)) = match case.list {
        CodeList::PpcTrap => ("kvm_hv:kvm_guest_exit", ("kvm_hv:kvm_guest_enter", EventKind::Enter)),
        CodeList::KvmExit => ("kvm:kvm_exit", ("kvm:kvm_fpu", EventKind::Fpu { load: true })),
        _ => ("kvm:kvm_exit", ("kvm:kvm_entry", EventKind::Enter)),
    };
    let mut names = EventNames::default();
    [exit, entry, SWITCH].into_iter().chain(case.events.iter().map(|event| event.0)).for_each(|name| {
        names.intern(name);
    });
    let (arch, cpuid) = case.machine();
    let head = PerfHead {
        arch,
        cpuid,
        cpu: "",
        settings: &[],
        hostname: "host",
        release: "6.1.0",
        cpus: 4,
        command: &[],
        names: &names,
        compressed: false,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = PerfWriter::new(&mut file, &head).unwrap();
    writer.thread(Moment::default(), VM, Tid(VM.0), "qemu-system-x86").unwrap();
    writer.thread(Moment::default(), VM, THREAD, "CPU 0/KVM").unwrap();
    let code = ExitCode::new(case.list, case.reason);
    let words = SubjectWord::new(code, |word| case.word.filter(|of| of.0 == word).map(|of| of.1));
    let left = EventKind::Exit { code, idle: false, words, rip: 0xffff_ffff_8000_0000 };
    // Another CPU goes idle: what schedulers do was recorded.
    let (at, name, other) = (Moment::from_nanos(1), names.intern(SWITCH), Tid(900));
    let kind = EventKind::switch(other, true, Tid(0));
    writer.event(&Event { at, tid: other, vm: VmId(900), vcpu: VcpuId::UNKNOWN, cpu: PcpuId(3), name, kind }).unwrap();
    for number in 1..=EXITS {
        let first = is_told.then_some((exit, left));
        let steps = first.into_iter().chain(case.events.iter().copied()).chain([(entry, entered)]);
        for (step, (name, kind)) in (0..).zip(steps) {
            let after = if name == entry { APART / 2 } else { step * 1_000 };
            let at = Moment::from_nanos(number * APART + after);
            let name = names.intern(name);
            writer.event(&Event { at, tid: THREAD, vm: VM, vcpu: VcpuId(0), cpu: PcpuId(1), name, kind }).unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap().left_out, 0, "{}", case.cause);
    file.into_inner()
}

/// The same records as a trace.dat.
fn trace_dat(perf: &[u8], arch: &'static str) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(perf[at..at + 4].try_into().unwrap()) as usize;
    let long = |at: usize| u64::from_le_bytes(perf[at..at + 8].try_into().unwrap());
    let size_at = |name: &[u8]| perf.windows(name.len()).position(|at| at == name).unwrap() + name.len();
    // Formats stand in both kinds of file alike: after header_event and the number of ftrace's own, which is none.
    let event = size_at(b"header_event\0");
    let formats = event + 8 + long(event) as usize + 4;
    let mut end = formats + 4;
    for _ in 0..word(formats) {
        end += perf[end..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let count = word(end);
        end += 4;
        (0..count).for_each(|_| end += 8 + long(end) as usize);
    }
    let machine = trace_dat::Machine { page: 4_096, arch, ..trace_dat::HOST };
    let (mut at, until) = (long(40) as usize, (long(40) + long(48)) as usize);
    let (mut pages, mut records, mut first, mut last) = (Vec::new(), Vec::new(), 0, 0);
    while at < until {
        let size = usize::from(u16::from_le_bytes(perf[at + 6..at + 8].try_into().unwrap()));
        // PERF_RECORD_SAMPLE of the writer: its time, the size of the record and the record are where they always are.
        if word(at) == 9 {
            let (time, raw) = (long(at + 32), &perf[at + 60..at + 60 + word(at + 56)]);
            if records.iter().map(Vec::len).sum::<usize>() + raw.len() + 8 > 4_000 {
                pages.push(machine.page(first, 0, &records, &[]));
                records.clear();
            }
            if records.is_empty() {
                (first, last) = (time, time);
            }
            let padded = [raw, &vec![0; raw.len().next_multiple_of(4) - raw.len()]].concat();
            let length = machine.u32(padded.len() as u32 + 4);
            records.push([machine.head(0, (time - last) as u32), length, padded].concat());
            last = time;
        }
        at += size;
    }
    pages.push(machine.page(first, 0, &records, &[]));
    let trace = trace_dat::Trace {
        machine,
        buffers: &[("", "local", &[Vec::new(), pages.concat()])],
        options: &[],
        compressor: "none",
    };
    trace.v7_with(&machine.header_info(), &perf[formats..end])
}

/// What a tool of the kernel's makes of a file, as text.
fn printed(tool: &[&str], file: &Path) -> Result<Vec<u8>, Skipped> {
    let part = if tool[0] == "perf" { Part::Perf } else { Part::TraceCmd };
    let output = Command::new(tool[0]).args(&tool[1..]).arg(file).output();
    let output = output.map_err(|error| skip(part, format!("{} cannot be run: {error}", tool[0])))?;
    assert!(output.status.success(), "{tool:?}: {}", stderr(&output));
    Ok(output.stdout)
}

/// What is wrong unless the noteworthy exits of this file are all of this cause, and a rule has looked at them.
fn flaws(format: &str, file: &Path, cause: &str) -> Vec<String> {
    let advised = advise(file);
    let rows = advised["causes"].as_array().unwrap().iter().filter(|row| row["kind"] == "exits");
    let found: Vec<_> = rows.map(|row| (row["subject"]["text"].as_str(), row["why"].as_str(), &row["exits"])).collect();
    let is_it = |name: &str| name == cause || name.starts_with(&format!("{cause} ("));
    let [(Some(name), why, exits)] = found[..] else { return vec![format!("{cause} in {format}: {found:?}")] };
    let is_fine = is_it(name) && why != Some("no rule looks at it") && exits == EXITS;
    if is_fine { vec![] } else { vec![format!("{cause} in {format}: {found:?}")] }
}

fn advise(file: &Path) -> serde_json::Value {
    let output = run(&["advise", "--format", "json", &file.display().to_string()]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {}", file.display(), stderr(&output)))
}

#[test]
fn each_documented_cause_is_found_in_each_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for case in cases() {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let bytes = perf_data(&case);
        let perf = write("perf.data", &bytes);
        wrong.extend(flaws("perf.data", &perf, case.cause));
        let dat = write("trace.dat", &trace_dat(&bytes, case.machine().0));
        wrong.extend(flaws("trace.dat", &dat, case.cause));
        let tools: [(&[&str], _, _); 2] = [
            (&["perf", "script", "--ns", "-i"], &perf, case.cause),
            (&["trace-cmd", "report", "-t", "-i"], &dat, case.printed_by_trace_cmd()),
        ];
        for (tool, file, cause) in tools {
            let text = printed(tool, file).map(|text| write("trace.txt", &text));
            wrong.extend(text.map(|text| flaws(tool[0], &text, cause)).unwrap_or_default());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_documented_cause_has_a_case() {
    let cases = cases();
    let judged = known_causes().into_iter().map(|known| known.name);
    let unjudged = known_and_unjudged().into_iter().map(|known| known.name);
    let without: Vec<_> = judged.chain(unjudged).filter(|name| !cases.iter().any(|case| case.cause == *name)).collect();
    assert!(without.is_empty(), "{without:?}");
}
