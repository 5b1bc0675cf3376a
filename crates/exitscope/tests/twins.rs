//! Of each cause with a cure, and of each rule, three made recordings: one that has it, a healthy one of the same guest, of which
//! nothing is to be advised, and one that looks alike, where that advice would do harm or nothing. What is said of each is held as a
//! whole.

mod common;
#[path = "twins/exit_bound.rs"]
mod exit_bound;
#[path = "twins/rules.rs"]
mod rules;

use common::{run, stderr};
use exit_bound::{Ran, SLOW_BY_MEMORY};
use exitscope_advice::{KnownAnswer, advised_rules, known_causes};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Exits of one vCPU, one like the other.
#[derive(Clone, Copy)]
struct Made {
    /// What `kvm_exit` prints after the vCPU.
    exit: &'static str,
    /// Events from the exit to the entry; `{n}` is a number that differs from exit to exit.
    events: &'static [&'static str],
    /// Microseconds from one exit to the next, and those that each takes.
    apart: u64,
    takes: u64,
    vmm: &'static str,
    arch: Arch,
}

#[derive(Clone, Copy, PartialEq)]
enum Arch {
    X86,
    Arm64,
    Powerpc,
}

/// A cause, and what is like it.
struct Twins {
    cause: &'static str,
    has_it: Made,
    healthy: Made,
    /// What looks alike, and why the cure is none for it.
    alike: Made,
    because: &'static str,
}

const EXITS: u64 = 2_000;

/// What is said of them, in the order of [`all`], with an empty line between each.
const SAID: &str = include_str!("twins.txt");

/// The same of [`rules::all`].
const SAID_BY_RULES: &str = include_str!("twins/rules.txt");

/// What there is to read.
enum Trace {
    Text(String),
    /// What the simulator records of this scenario.
    Scenario(String),
}

impl Trace {
    fn write(&self, folder: &Path) -> PathBuf {
        let (text, trace) = (folder.join("scenario.toml"), folder.join("trace"));
        match self {
            Trace::Text(lines) => std::fs::write(&trace, lines).unwrap(),
            Trace::Scenario(scenario) => {
                std::fs::write(&text, format!("name = 'test'\n{scenario}")).unwrap();
                let output = run(&["sim", text.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);
                assert!(output.status.success(), "{}: {scenario}", stderr(&output));
            }
        }
        trace
    }
}

const fn made(exit: &'static str, events: &'static [&'static str]) -> Made {
    Made { exit, events, apart: 20, takes: 10, vmm: "CPU 0/KVM", arch: Arch::X86 }
}

impl Made {
    /// As seldom as a guest that is well does it.
    const fn seldom(self) -> Made {
        Made { apart: 2_000, takes: 10, ..self }
    }

    const fn by(self, vmm: &'static str) -> Made {
        Made { vmm, ..self }
    }

    const fn on(self, arch: Arch) -> Made {
        Made { arch, ..self }
    }

    fn trace(&self) -> Trace {
        Trace::Text(self.text())
    }

    /// As `trace-cmd report` prints it.
    fn text(&self) -> String {
        let mut text = String::from("cpus=4\n");
        let mut line = |thread: &str, cpu: u32, at: u64, event: &str| {
            let (seconds, micros) = (at / 1_000_000, at % 1_000_000);
            writeln!(text, "{thread:>16}-4100  [{cpu:03}] {:>5}.{micros:06}: {event}", 100 + seconds).unwrap();
        };
        // What the scheduler does was recorded: the vCPU keeps its CPU.
        line("rcu_sched", 3, 1, "sched_switch: rcu_sched:900 [120] S ==> swapper/3:0 [120]");
        // Who answers is recorded, too.
        let is_vmx = self.arch == Arch::X86 && self.exit.starts_with(|first: char| first.is_ascii_uppercase());
        if is_vmx {
            line("CPU 9/KVM", 2, 2, "kvm_exit: vcpu 9 reason IO_INSTRUCTION rip 0x1000 info1 0x0 info2 0x0");
            line("CPU 9/KVM", 2, 3, USER_IO);
            line("CPU 9/KVM", 2, 4, "kvm_entry: vcpu 9, rip 0x1000");
        }
        let (exit, enter) = match self.arch {
            Arch::X86 => ("kvm_exit: vcpu 0 reason ", "kvm_entry: vcpu 0, rip 0xffffffff81000000"),
            Arch::Arm64 => ("kvm_exit: ", "kvm_entry: PC: 0xffff800010000000"),
            Arch::Powerpc => {
                ("kvm_guest_exit: VCPU 0: ", "kvm_guest_enter: VCPU 0: pc=0xc000000000010000 exit=0x500 shared=0x0")
            }
        };
        for number in 1..=EXITS {
            let at = number * self.apart;
            line(self.vmm, 1, at, &format!("{exit}{}", self.exit));
            for (step, event) in (1..).zip(self.events) {
                line(self.vmm, 1, at + step, &event.replace("{n}", &format!("{:x}", 0x1000 + number * 0x1358)));
            }
            line(self.vmm, 1, at + self.takes, enter);
        }
        text
    }
}

/// What `advise` says: of each cause, what it would change, and what that wins.
fn said(file: &Path) -> String {
    let output = run(&["advise", "--format", "json", &file.display().to_string()]);
    let advised: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {}", file.display(), stderr(&output)));
    let rows = |name: &str| advised[name].as_array().unwrap().clone();
    let word = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let mut text = String::new();
    for cause in rows("causes") {
        let name = word(&cause["subject"]["text"]);
        writeln!(text, "  {} {name}: {}", word(&cause["reason"]), word(&cause["text"])).unwrap();
    }
    for advice in rows("advice") {
        writeln!(text, "  advice {}: {}", advice["number"], word(&advice["change"])).unwrap();
        for setting in advice["settings"].as_array().unwrap() {
            writeln!(text, "    - {}", word(&setting["text"])).unwrap();
        }
        writeln!(text, "    gain: {} ({})", word(&advice["gain"]["text"]), word(&advice["gain"]["method"])).unwrap();
        writeln!(text, "    risk: {}", word(&advice["risk"])).unwrap();
    }
    for cost in rows("accepted_costs") {
        writeln!(text, "  left alone: {}", word(&cost["why"])).unwrap();
    }
    if text.is_empty() { "  nothing\n".to_string() } else { text }
}

const USER_IO: &str = "kvm_userspace_exit: reason KVM_EXIT_IO (2)";
const USER_MMIO: &str = "kvm_userspace_exit: reason KVM_EXIT_MMIO (6)";

const IO: &str = "IO_INSTRUCTION rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
const MISCONFIG: &str =
    "EPT_MISCONFIG rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
const WRMSR: &str = "MSR_WRITE rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
const RDMSR: &str = "MSR_READ rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
const DABT: &str = "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800010000000";

const fn port(events: &'static [&'static str]) -> Made {
    made(IO, events)
}

const fn page(events: &'static [&'static str]) -> Made {
    made(MISCONFIG, events)
}

const fn wrmsr(events: &'static [&'static str]) -> Made {
    made(WRMSR, events)
}

const fn rdmsr(events: &'static [&'static str]) -> Made {
    made(RDMSR, events)
}

/// An exit that nothing more is printed of.
const fn bare(exit: &'static str) -> Made {
    made(exit, &[])
}

const fn twins(cause: &'static str, has_it: Made, alike: Made, because: &'static str) -> Twins {
    Twins { cause, has_it, healthy: has_it.seldom(), alike, because }
}

const fn ports() -> [Twins; 12] {
    [
        twins(
            "ACPI PM timer",
            port(&["kvm_pio: pio_read at 0x608 size 4 count 1 val 0x{n}", USER_IO]),
            port(&["kvm_pio: pio_write at 0x604 size 2 count 1 val 0x2000", USER_IO]),
            "the PM1 control register, four ports before the timer: no clock",
        ),
        twins(
            "RTC",
            port(&["kvm_pio: pio_read at 0x71 size 1 count 1 val 0x26", USER_IO]),
            port(&["kvm_pio: pio_read at 0x73 size 1 count 1 val 0x26", USER_IO]),
            "the extended memory of chipsets' clocks: Hyper-V's timers do not replace it",
        ),
        twins(
            "PIT",
            port(&["kvm_pio: pio_read at 0x40 size 1 count 1 val 0x{n}", USER_IO]),
            port(&["kvm_pio: pio_read at 0x40 size 1 count 1 val 0x{n}"]),
            "KVM answers for the PIT already",
        ),
        twins(
            "interrupt controller",
            port(&["kvm_pio: pio_write at 0x20 size 1 count 1 val 0x20", USER_IO]),
            port(&["kvm_pio: pio_write at 0x20 size 1 count 1 val 0x20"]),
            "KVM is the interrupt controller already",
        ),
        twins(
            "serial port",
            port(&["kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41", USER_IO]),
            port(&["kvm_pio: pio_read at 0x3fd size 1 count 1 val 0x60", USER_IO]),
            "nothing is printed: somebody polls the status, and another console would not end that",
        ),
        twins(
            "keyboard controller",
            port(&["kvm_pio: pio_read at 0x64 size 1 count 1 val 0x1c", USER_IO]),
            port(&["kvm_pio: pio_read at 0x92 size 1 count 1 val 0x2", USER_IO]),
            "the fast A20 gate, which is there without a keyboard controller",
        ),
        twins(
            "delay port 0x80",
            port(&["kvm_pio: pio_write at 0x80 size 1 count 1 val 0x0", USER_IO]),
            port(&["kvm_pio: pio_write at 0x84 size 1 count 1 val 0x{n}", USER_IO]),
            "a register of the DMA controller's, not the port that kernels wait by",
        ),
        twins(
            "IDE disk",
            port(&["kvm_pio: pio_read at 0x1f7 size 1 count 1 val 0x50", USER_IO]),
            port(&["kvm_pio: pio_write at 0xc050 size 2 count 1 val 0x0", USER_IO]),
            "a legacy virtio device's doorbell, which user space answers: the disk is no IDE disk",
        ),
        twins(
            "floppy controller",
            port(&["kvm_pio: pio_read at 0x3f4 size 1 count 1 val 0x80", USER_IO]),
            port(&["kvm_pio: pio_read at 0x3f6 size 1 count 1 val 0x50", USER_IO]),
            "the control port of IDE, between two of the floppy controller's",
        ),
        twins(
            "VGA",
            port(&["kvm_pio: pio_write at 0x3d4 size 2 count 1 val 0x{n}", USER_IO]),
            port(&["kvm_pio: pio_write at 0x3e0 size 1 count 1 val 0x4", USER_IO]),
            "the port behind VGA's last",
        ),
        twins(
            "firmware's debug console",
            port(&["kvm_pio: pio_write at 0x402 size 1 count 1 val 0x41", USER_IO]),
            port(&["kvm_pio: pio_write at 0x402 size 1 count 1 val 0x41", USER_IO]).by("fc_vcpu 0"),
            "Firecracker has no debug console: only QEMU has it there",
        ),
        twins(
            "VMware backdoor",
            port(&["kvm_pio: pio_read at 0x5658 size 4 count 1 val 0x{n}", USER_IO]),
            port(&["kvm_pio: pio_read at 0x5660 size 4 count 1 val 0x{n}", USER_IO]),
            "a port beside it, of whatever has it",
        ),
    ]
}

const fn pages() -> [Twins; 4] {
    [
        twins(
            "HPET",
            page(&["kvm_mmio: mmio read len 4 gpa 0xfed000f0 val 0x{n}", USER_MMIO]),
            page(&["kvm_mmio: mmio read len 4 gpa 0xfed40018 val 0x{n}", USER_MMIO]),
            "the TPM's page, 256 KiB behind: no clock",
        ),
        twins(
            "local APIC",
            page(&["kvm_mmio: mmio write len 4 gpa 0xfee000b0 val 0x0", USER_MMIO]),
            page(&["kvm_mmio: mmio write len 4 gpa 0xfebc3818 val 0x{n}", USER_MMIO]),
            "e1000's TDT, the index of its ring: a doorbell, which must neither wait (coalescing) nor be an ioeventfd",
        ),
        twins(
            "virtio-mmio",
            made(DABT, &["kvm_mmio: mmio read len 4 gpa 0xa003e60 val 0x1", USER_MMIO]).on(Arch::Arm64),
            made(DABT, &["kvm_mmio: mmio read len 4 gpa 0xa003e60 val 0x1", USER_MMIO]).on(Arch::Arm64).by("fc_vcpu 0"),
            "Firecracker has its devices elsewhere: the address is none of virtio-mmio's there",
        ),
        twins(
            "serial port",
            made(DABT, &["kvm_mmio: mmio write len 4 gpa 0x9000000 val 0x41", USER_MMIO]).on(Arch::Arm64),
            made(DABT, &["kvm_mmio: mmio read len 4 gpa 0x9000018 val 0x90", USER_MMIO]).on(Arch::Arm64),
            "the PL011's flags: nothing is printed",
        ),
    ]
}

const fn registers() -> [Twins; 11] {
    [
        twins(
            "timer",
            wrmsr(&["kvm_msr: msr_write 6e0 = 0x{n}"]),
            bare("PREEMPTION_TIMER rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            "timers that expire: arming less often is another exit's cure",
        ),
        twins(
            "Hyper-V's EOI and TPR",
            wrmsr(&["kvm_msr: msr_write 40000070 = 0x0"]),
            wrmsr(&["kvm_msr: msr_write 40000073 = 0x1001"]),
            "the register of the page by which KVM avoids some of the ends",
        ),
        twins(
            "Hyper-V messages' end",
            wrmsr(&["kvm_msr: msr_write 40000084 = 0x0"]),
            wrmsr(&["kvm_msr: msr_write 40000080 = 0x1"]),
            "SCONTROL, which switches the SynIC on: no message ends by it",
        ),
        twins(
            "Hyper-V synthetic timers",
            wrmsr(&["kvm_msr: msr_write 400000b1 = 0x{n}"]),
            wrmsr(&["kvm_msr: msr_write 40000021 = 0x1001"]),
            "the reference TSC page's own register: no timer",
        ),
        twins(
            "Hyper-V reference counter",
            rdmsr(&["kvm_msr: msr_read 40000020 = 0x{n}"]),
            rdmsr(&["kvm_msr: msr_read 40000022 = 0x{n}"]),
            "the frequency of the TSC, which does not count",
        ),
        twins(
            "IPIs",
            wrmsr(&["kvm_msr: msr_write 830 = 0x1000000fd"]),
            made(VMCALL, &["kvm_hypercall: nr 0xa a0 0x3 a1 0x0 a2 0x0 a3 0xfd"]),
            "one call for many receivers: IPI virtualisation does not take it",
        ),
        twins(
            "Hyper-V IPIs",
            wrmsr(&["kvm_msr: msr_write 40000071 = 0x{n}"]),
            wrmsr(&["kvm_msr: msr_write 40000070 = 0x0"]),
            "the end of an interrupt by Hyper-V's register: hv-ipi does not spare it",
        ),
        twins(
            "APIC's EOI and TPR",
            wrmsr(&["kvm_msr: msr_write 80b = 0x0"]),
            bare("EOI_INDUCED rip 0x1000 info1 0x31 info2 0x0 intr_info 0x0 error_code 0x0"),
            "the processor virtualises the APIC: these are ends that the I/O APIC must hear of",
        ),
        twins(
            "TSC",
            made("msr rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0", &["kvm_msr: msr_read 10 = 0x{n}"]),
            rdmsr(&["kvm_msr: msr_read 10 = 0x{n}"]),
            "Intel's processors let the guest read it: the recording does not show why it leaves nevertheless",
        ),
        twins(
            "APERF and MPERF",
            rdmsr(&["kvm_msr: msr_read e8 = 0x{n}"]),
            rdmsr(&["kvm_msr: msr_read ce = 0x{n}"]),
            "PLATFORM_INFO, beside them: no governor reads it each tick",
        ),
        twins(
            "performance counters",
            wrmsr(&["kvm_msr: msr_write 38f = 0x70000000f"]),
            rdmsr(&["kvm_msr: msr_read 3fc = 0x{n}"]),
            "residencies of C-states: no counter of a PMU, and no profiler stops it",
        ),
    ]
}

const VMCALL: &str = "VMCALL rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
const CPUID: &str = "CPUID rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";

const fn by_reason() -> [Twins; 7] {
    [
        twins(
            "CPUID",
            made(CPUID, &["kvm_cpuid: func 1 idx 0 rax 306c3 rbx 800 rcx 82982203 rdx f8bfbff, cpuid entry found"]),
            bare("RDTSC rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            "RDTSC, which exits only where KVM or a nested hypervisor has it trapped: using it less is not the cure",
        ),
        twins(
            "CPUID, its leaf not recorded",
            bare(CPUID),
            made(
                CPUID,
                &["kvm_nested_vmexit: vcpu 0 reason CPUID rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"],
            ),
            "L2's, of which L1's hypervisor decides",
        ),
        twins(
            "interrupt windows",
            bare("INTERRUPT_WINDOW rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            bare("NMI_WINDOW rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            "windows for NMIs, which a virtualised APIC leaves to KVM",
        ),
        twins(
            "reads of performance counters",
            bare("RDPMC rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            bare("XSETBV rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            "XSETBV, which always exits and counts nothing",
        ),
        twins(
            "nested hypervisor",
            bare("VMRESUME rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            made(VMCALL, &["kvm_hypercall: nr 0x5 a0 0x0 a1 0x1 a2 0x0 a3 0x0"]),
            "a call of a guest that is no hypervisor",
        ),
        twins(
            "page tables that KVM shadows",
            bare("INVLPG rip 0x1000 info1 0x7f0000000000 info2 0x0 intr_info 0x0 error_code 0x0"),
            bare("EXCEPTION_NMI rip 0x1000 info1 0x0 info2 0x0 intr_info 0x80000307 error_code 0x0"),
            "#NM: no page fault, and EPT does not spare it",
        ),
        twins(
            "serial console",
            made(
                "trap=SYSCALL pc=0x2120 msr=0x8000000000009000, ceded=0",
                &["kvm_hcall_enter: VCPU 0: hcall=H_PUT_TERM_CHAR GPR4-7=0x0,0x1,0x41000000,0x0"],
            )
            .on(Arch::Powerpc),
            made(
                "trap=SYSCALL pc=0x2120 msr=0x8000000000009000, ceded=0",
                &["kvm_hcall_enter: VCPU 0: hcall=H_PROD GPR4-7=0x1,0x0,0x0,0x0"],
            )
            .on(Arch::Powerpc),
            "wake-ups of the guest's own vCPUs: printing less changes none",
        ),
    ]
}

const OF_NO_VECTOR: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x0";
const OF_AMD: &str = "interrupt rip 0x1000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x0";
const OF_DEVICE: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x80000031 error_code 0x0";
const OF_TIMER: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x800000ec error_code 0x0";
const RESCHEDULES: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x800000fd error_code 0x0";
const CALLS: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x800000fb error_code 0x0";
const POSTED: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x800000f2 error_code 0x0";
const POSTED_WAKEUP: &str = "EXTERNAL_INTERRUPT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x800000f1 error_code 0x0";

const fn interrupts() -> [Twins; 8] {
    [
        twins(
            "interrupts of the host",
            bare(OF_NO_VECTOR),
            bare(OF_DEVICE),
            "with a vector it is known that a device interrupts, and not a timer",
        ),
        twins(
            "interrupts of the host's devices",
            bare(OF_DEVICE),
            bare(OF_TIMER),
            "the host's local timer, which no affinity of a device's moves",
        ),
        twins(
            "interrupts of the host's devices",
            made(OF_AMD, &["irq_handler_entry: irq=131 name=nvme0q3"]),
            made(OF_AMD, &["local_timer_entry: vector=236"]),
            "the host's local timer, as what serves it says: no affinity moves that",
        ),
        twins(
            "the host's timer",
            bare(OF_TIMER),
            made(
                OF_TIMER,
                &[
                    "kvm_inj_virq: IRQ 0xec",
                    "kvm_entry: vcpu 0, rip 0x1000",
                    "kvm_exit: vcpu 0 reason MSR_WRITE rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0",
                    "kvm_msr: msr_write 6e0 = 0x{n}",
                ],
            ),
            "the guest's own timer, which nohz_full= on the host does not stop",
        ),
        twins(
            "reschedule interrupts of the host",
            bare(RESCHEDULES),
            made(
                RESCHEDULES,
                &[
                    "kvm_inj_virq: IRQ 0xfd",
                    "kvm_entry: vcpu 0, rip 0x1000",
                    "kvm_exit: vcpu 0 reason MSR_WRITE rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0",
                    "kvm_msr: msr_write 830 = 0x1000000fd",
                ],
            ),
            "the other half of the guest's IPIs, which go with them",
        ),
        twins(
            "function calls of the host's other CPUs",
            bare(CALLS),
            bare(RESCHEDULES),
            "somebody wakes a task, or KVM kicks the vCPU: no TLB is flushed",
        ),
        twins(
            "notifications of posted interrupts",
            bare(POSTED),
            bare(POSTED_WAKEUP),
            "they wake a vCPU that has halted on that CPU: the notification cannot spare that",
        ),
        twins(
            "wake-ups by posted interrupts",
            bare(POSTED_WAKEUP),
            bare(POSTED),
            "the interrupt is for a vCPU that runs",
        ),
    ]
}

const fn faults() -> [Twins; 4] {
    [
        twins(
            "memory faults",
            made(
                "EPT_VIOLATION rip 0x1000 info1 0x182 info2 0x0 intr_info 0x0 error_code 0x0",
                &["kvm_page_fault: vcpu 0 rip 0x1000 address 0x000000{n}000 error_code 0x182"],
            ),
            made(
                "EPT_VIOLATION rip 0x1000 info1 0x182 info2 0x0 intr_info 0x0 error_code 0x0",
                &[
                    "kvm_page_fault: vcpu 0 rip 0x1000 address 0x000000{n}000 error_code 0x182",
                    "kvm_userspace_exit: reason KVM_EXIT_MEMORY_FAULT (39)",
                ],
            ),
            "conversions of private memory: huge pages are split by them",
        ),
        twins(
            "writes to protected memory",
            made(
                "EPT_VIOLATION rip 0x1000 info1 0x18a info2 0x0 intr_info 0x0 error_code 0x0",
                &["kvm_page_fault: vcpu 0 rip 0x1000 address 0x000000{n}000 error_code 0x18a"],
            ),
            bare("PML_FULL rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"),
            "the processor's own log of writes: no page is protected",
        ),
        twins(
            "code in huge pages",
            made(
                "EPT_VIOLATION rip 0x1000 info1 0x18c info2 0x0 intr_info 0x0 error_code 0x0",
                &["kvm_page_fault: vcpu 0 rip 0x1000 address 0x000000{n}000 error_code 0x18c"],
            ),
            made(
                "npf rip 0x1000 info1 0x15 info2 0x0 intr_info 0x0 error_code 0x0",
                &["kvm_page_fault: vcpu 0 rip 0x1000 address 0x000000{n}000 error_code 0x15"],
            ),
            "AMD's processors do not have the flaw, and KVM does not split their pages",
        ),
        twins(
            "memory faults or device accesses",
            made("trap=H_DATA_STORAGE pc=0x2120 msr=0x8000000000009000, ceded=0", &[]).on(Arch::Powerpc),
            made("trap=HV_DECREMENTER pc=0x2120 msr=0x8000000000009000, ceded=0", &[]).on(Arch::Powerpc),
            "the host's timer: no access to memory",
        ),
    ]
}

fn all() -> Vec<Twins> {
    ports()
        .into_iter()
        .chain(pages())
        .chain(registers())
        .chain(by_reason())
        .chain(interrupts())
        .chain(faults())
        .collect()
}

/// Holds what is said of these, by name three traces each, against the blocks of a text; leaves what is said now in a file of this name.
fn hold(expected: &str, name: &str, all: impl Iterator<Item = (String, [(&'static str, Trace); 3])>) {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut blocks = expected.split("\n\n");
    let mut all_of_it = Vec::new();
    for (title, traces) in all {
        let mut text = format!("{title}\n");
        for (what, trace) in traces {
            write!(text, " {what}\n{}", said(&trace.write(folder.path()))).unwrap();
        }
        if blocks.next().map(str::trim_end) != Some(text.trim_end()) {
            wrong.push(text.clone());
        }
        all_of_it.push(text);
    }
    let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&now, all_of_it.join("\n")).unwrap();
    assert!(wrong.is_empty(), "not as the text has it, but as {}:\n{}", now.display(), wrong.join("\n"));
    assert_eq!(blocks.next(), None, "the text has more twins than there are");
}

#[test]
fn a_cause_is_advised_of_its_healthy_twin_is_not_and_what_looks_alike_gets_another_answer() {
    let traces = |of: Twins| {
        let made = [("has it", of.has_it), ("healthy", of.healthy), (of.because, of.alike)];
        (of.cause.to_string(), made.map(|(what, made)| (what, made.trace())))
    };
    hold(SAID, "twins.txt", all().into_iter().map(traces));
}

#[test]
fn a_rule_advises_where_its_trouble_is_and_not_where_it_only_looks_like_it() {
    let traces = |of: rules::RuleTwins| {
        let made = [("has it", of.has_it), ("healthy", of.healthy), (of.because, of.alike)];
        (format!("{}: {}", of.advises, of.what), made)
    };
    hold(SAID_BY_RULES, "rules.txt", rules::all().into_iter().map(traces));
}

/// Rows of tables have twins of their own; a Xen that decodes no port accesses is known by its version, and no text of Xen's has one.
#[test]
fn each_rule_has_twins() {
    let twins = rules::all();
    let elsewhere = ["cure", "newer_xen"];
    let without: Vec<_> = advised_rules()
        .into_iter()
        .filter(|id| !elsewhere.contains(id) && !twins.iter().any(|twins| twins.advises == *id))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn each_cause_that_can_be_changed_has_twins() {
    let twins = all();
    let can_be_changed = |answers: &[KnownAnswer]| answers.iter().any(|of| matches!(of, KnownAnswer::Change(_)));
    let changed = known_causes().into_iter().filter(|known| can_be_changed(&known.answers)).map(|known| known.name);
    let without: Vec<_> = changed.filter(|name| !twins.iter().any(|twins| twins.cause == *name)).collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Exits are ruled out where all of the time is recorded, and they and waiting take little of it, with what no tracepoint sees.
#[test]
fn it_is_not_the_exits_is_said_with_a_bound_and_of_nothing_that_looks_alike() {
    let folder = tempfile::tempdir().unwrap();
    let read = |command: &str, ran: Ran| -> Value {
        let file = ran.trace().write(folder.path());
        let output = run(&[command, "--format", "json", &file.display().to_string()]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
    };
    let bound = |ran: Ran| read("report", ran)["verdict"]["exit_bound"].clone();
    // 8 us and 1.5 us of each 4 ms.
    let found = bound(SLOW_BY_MEMORY);
    assert_eq!(
        found["text"],
        "It is not the exits: they and waiting take at most 0.2% of vCPU time (0.2% with up to 1.50us around each exit that no \
         tracepoint sees); the rest is the guest's own running"
    );
    let near = |name: &str, expected: f64| (found[name].as_f64().unwrap() - expected).abs() < 1e-5;
    assert!(near("at_most", 0.002) && near("with_hidden", 0.002_375), "{found}");
    let checks: Vec<&str> =
        found["not_judged"].as_array().unwrap().iter().filter_map(|row| row["what"].as_str()).collect();
    for what in ["mitigations in the guest", "NUMA", "huge pages of the guest", "frequency", "SMT"] {
        assert!(checks.contains(&what), "{what}: {checks:?}");
    }
    assert_eq!(read("advise", SLOW_BY_MEMORY)["exit_bound"], found);
    for (what, ran) in [
        ("many cheap exits", Ran { reason: "MSR_WRITE", apart: 20_000, takes: 500, ..SLOW_BY_MEMORY }),
        ("it waits for a CPU", Ran { waits: 60, ..SLOW_BY_MEMORY }),
        ("records are lost", Ran { lost: 5, ..SLOW_BY_MEMORY }),
        ("no sched events", Ran { has_switches: false, ..SLOW_BY_MEMORY }),
        ("shorter than a second", Ran { watched: 900_000_000, ..SLOW_BY_MEMORY }),
        ("it runs guests itself", Ran { reason: "VMRESUME", ..SLOW_BY_MEMORY }),
    ] {
        let report = read("report", ran);
        assert!(report["verdict"].get("exit_bound").is_none(), "{what}: {}", report["verdict"]);
        assert!(report["total"]["count"].as_u64().unwrap() > 200, "{what}");
    }
    // What does not hide much on its own does, many times a second: without it the twin would be said to be small, too.
    let cheap = read("report", Ran { reason: "MSR_WRITE", apart: 20_000, takes: 500, ..SLOW_BY_MEMORY });
    assert_eq!(cheap["verdict"]["state"], "healthy", "{}", cheap["verdict"]);
    let waiting = bound(Ran { waits: 20, ..SLOW_BY_MEMORY });
    assert!((waiting["at_most"].as_f64().unwrap() - 0.022).abs() < 1e-4, "{waiting}");
}
