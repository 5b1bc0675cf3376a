//! Names of what a detail is about: well-known ports and address regions, MSRs, calls.

use super::lookup;
use super::tables as t;
use crate::{Architecture, ExitCode, SubjectKind};
use std::ops::RangeInclusive;

/// Bits of an address that a region of guest-physical memory spans: accesses are told apart by 4 KiB page.
pub const REGION_BITS: u32 = 12;

/// Ports that PC platforms keep at fixed places: first, last, what is there. Sorted. Sources: QEMU's `hw/i386`,
/// `hw/isa`, `hw/nvram/fw_cfg.c`, `hw/char/debugcon.c` and Xen's `hvm_print_line` (0xe9); the x86 platform's conventions.
const PORTS: &[(u64, u64, &str)] = &[
    (0x00, 0x0f, "DMA"),
    (0x20, 0x21, "PIC"),
    (0x40, 0x43, "PIT"),
    (0x60, 0x60, "i8042"),
    (0x61, 0x61, "NMI status"),
    (0x64, 0x64, "i8042"),
    (0x70, 0x71, "RTC"),
    (0x80, 0x80, "POST/delay"),
    (0x81, 0x8f, "DMA page"),
    (0x92, 0x92, "port 92"),
    (0xa0, 0xa1, "PIC"),
    (0xb2, 0xb3, "APM"),
    (0xc0, 0xdf, "DMA"),
    (0xe9, 0xe9, "debug console"),
    (0x170, 0x177, "IDE"),
    (0x1f0, 0x1f7, "IDE"),
    (0x2e8, 0x2ef, "COM4"),
    (0x2f8, 0x2ff, "COM2"),
    (0x376, 0x376, "IDE"),
    (0x378, 0x37f, "LPT1"),
    (0x3b0, 0x3df, "VGA"),
    (0x3e8, 0x3ef, "COM3"),
    (0x3f0, 0x3f5, "floppy"),
    (0x3f6, 0x3f6, "IDE"),
    (0x3f7, 0x3f7, "floppy"),
    (0x3f8, 0x3ff, "COM1"),
    (0x402, 0x402, "debug console"),
    (0x4d0, 0x4d1, "PIC ELCR"),
    (0x510, 0x51b, "fw_cfg"),
    (0x608, 0x60b, "ACPI PM timer"),
    (0xae00, 0xae13, "ACPI PCI hotplug"),
    (0xb008, 0xb00b, "ACPI PM timer"),
    (0xcf8, 0xcf8, "PCI config address"),
    (0xcfc, 0xcff, "PCI config data"),
    (0x5658, 0x5659, "VMware backdoor"),
];

/// Regions that PC platforms keep at fixed places, by page.
const PAGES: &[(u64, &str)] =
    &[(0xa0, "VGA"), (0xfec00, "IOAPIC"), (0xfed00, "HPET"), (0xfed40, "TPM"), (0xfee00, "local APIC")];

/// x86's exceptions, and the NMI (Intel's SDM, volume 3, "Exceptions and Interrupts").
const EXCEPTIONS: &[(u64, &str)] = &[
    (0, "#DE"),
    (1, "#DB"),
    (2, "NMI"),
    (3, "#BP"),
    (4, "#OF"),
    (5, "#BR"),
    (6, "#UD"),
    (7, "#NM"),
    (8, "#DF"),
    (10, "#TS"),
    (11, "#NP"),
    (12, "#SS"),
    (13, "#GP"),
    (14, "#PF"),
    (16, "#MF"),
    (17, "#AC"),
    (18, "#MC"),
    (19, "#XM"),
    (20, "#VE"),
    (21, "#CP"),
    (29, "#VC"),
];

/// Vectors of a host's Linux whose version nothing says (`arch/x86/include/asm/irq_vectors.h`). Those below 0xf0 have moved:
/// the local timer's was 0xef. Of one that is known, see [`vector_name`].
const HOST_VECTORS: &[(u64, &str)] = &[
    (0xec, "LOCAL_TIMER, of recent Linux"),
    (0xef, "LOCAL_TIMER, of older Linux"),
    (0xf0, "POSTED_INTR_NESTED"),
    (0xf1, "POSTED_INTR_WAKEUP"),
    (0xf2, "POSTED_INTR"),
    (0xf3, "HYPERVISOR_CALLBACK"),
    (0xf4, "DEFERRED_ERROR"),
    (0xf6, "IRQ_WORK"),
    (0xf7, "X86_PLATFORM_IPI"),
    (0xf8, "REBOOT"),
    (0xf9, "THRESHOLD_APIC"),
    (0xfa, "THERMAL_APIC"),
    (0xfb, "CALL_FUNCTION_SINGLE"),
    (0xfc, "CALL_FUNCTION"),
    (0xfd, "RESCHEDULE"),
    (0xfe, "ERROR_APIC"),
    (0xff, "SPURIOUS_APIC"),
];

/// Vectors of Linux on x86 by its version: vector, first and last version of which the file was looked up and says so, name
/// (`arch/x86/include/asm/irq_vectors.h` of 3.10, 4.14, 4.19, 5.0, 5.10 and after 6.10; 4.15 to 4.18 moved those below 0xf0, and are
/// not among them). What only some configurations have is among them: a vector that another has is of devices there, and
/// those are below 0xec.
const LINUX_VECTORS: &[(u64, RangeInclusive<Version>, &str)] = &[
    (0xec, (4, 19)..=NEWEST, "LOCAL_TIMER"),
    (0xed, (4, 19)..=NEWEST, "HYPERV_STIMER0"),
    (0xee, (4, 19)..=NEWEST, "HYPERV_REENLIGHTENMENT"),
    (0xef, OLDEST..=(4, 14), "LOCAL_TIMER"),
    (0xef, (4, 19)..=NEWEST, "MANAGED_IRQ_SHUTDOWN"),
    (0xf0, (4, 14)..=NEWEST, "POSTED_INTR_NESTED"),
    (0xf1, (4, 14)..=NEWEST, "POSTED_INTR_WAKEUP"),
    (0xf2, OLDEST..=NEWEST, "POSTED_INTR"),
    (0xf3, OLDEST..=NEWEST, "HYPERVISOR_CALLBACK"),
    (0xf4, (4, 14)..=NEWEST, "DEFERRED_ERROR"),
    (0xf5, OLDEST..=(5, 10), "UV_BAU_MESSAGE"),
    (0xf6, OLDEST..=NEWEST, "IRQ_WORK"),
    (0xf7, OLDEST..=NEWEST, "X86_PLATFORM_IPI"),
    (0xf8, OLDEST..=NEWEST, "REBOOT"),
    (0xf9, OLDEST..=NEWEST, "THRESHOLD_APIC"),
    (0xfa, OLDEST..=NEWEST, "THERMAL_APIC"),
    (0xfb, OLDEST..=NEWEST, "CALL_FUNCTION_SINGLE"),
    (0xfc, OLDEST..=NEWEST, "CALL_FUNCTION"),
    (0xfd, OLDEST..=NEWEST, "RESCHEDULE"),
    (0xfe, OLDEST..=NEWEST, "ERROR_APIC"),
    (0xff, OLDEST..=NEWEST, "SPURIOUS_APIC"),
];

/// The first two numbers of a release.
type Version = (u32, u32);

const OLDEST: Version = (3, 10);
const NEWEST: Version = (u32::MAX, u32::MAX);

/// What a vector is called by Linux of this version on x86, where that is known.
pub fn vector_name(version: (u32, u32), vector: u64) -> Option<&'static str> {
    LINUX_VECTORS.iter().find(|row| row.0 == vector && row.1.contains(&version)).map(|row| row.2)
}

/// What interrupts a host's CPU, as its vector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostVectorKind {
    /// The CPU's own timer: the tick, and whatever else has armed one.
    Timer,
    /// Another CPU asks this one to look at its run queue, or to leave its guest.
    Reschedule,
    /// Another CPU has this one call a function.
    FunctionCall,
    /// Interrupts were posted for a vCPU that runs.
    Posted,
    /// Interrupts were posted for a vCPU that is blocked.
    PostedWakeup,
    /// A device.
    Device,
}

/// What a vector is for, by its name.
const VECTOR_KINDS: &[(&str, HostVectorKind)] = &[
    ("LOCAL_TIMER", HostVectorKind::Timer),
    ("RESCHEDULE", HostVectorKind::Reschedule),
    ("CALL_FUNCTION", HostVectorKind::FunctionCall),
    ("CALL_FUNCTION_SINGLE", HostVectorKind::FunctionCall),
    ("POSTED_INTR", HostVectorKind::Posted),
    ("POSTED_INTR_NESTED", HostVectorKind::Posted),
    ("POSTED_INTR_WAKEUP", HostVectorKind::PostedWakeup),
];

/// Vectors that any version gives to devices: `FIRST_EXTERNAL_VECTOR` of `arch/x86/include/asm/irq_vectors.h` is 0x20, which
/// `IRQ_MOVE_CLEANUP_VECTOR` was up to 6.5, and its `FIRST_SYSTEM_VECTOR` is above 0xe9.
pub(crate) const DEVICE_VECTORS: RangeInclusive<u64> = 0x21..=0xe9;

/// What a host's vector of this name and number is for; none where no table says, as of rare ones.
pub fn host_vector_kind(name: Option<&str>, vector: u64) -> Option<HostVectorKind> {
    match name {
        // Without the versions that have it, where nothing says which this is.
        Some(name) => VECTOR_KINDS.iter().find(|row| name.split(',').next() == Some(row.0)).map(|row| row.1),
        None => DEVICE_VECTORS.contains(&vector).then_some(HostVectorKind::Device),
    }
}

/// Whether it was looked up where Linux of this version has its vectors.
pub fn has_known_vectors(version: (u32, u32)) -> bool {
    version >= OLDEST && !((4, 15)..=(4, 18)).contains(&version)
}

/// Whether machines of this architecture have a PC's ports and addresses; one of which nothing says which it is (text) may.
pub fn is_of_pcs(arch: &str) -> bool {
    arch.is_empty() || Architecture::of(arch) == Some(Architecture::X86)
}

/// What leads to a task switch: bits 30 and 31 of the exit qualification (`TASK_SWITCH_*` of
/// `arch/x86/include/asm/kvm_host.h`).
const TASK_SWITCHES: &[(u64, &str)] = &[(0, "CALL"), (1, "IRET"), (2, "JMP"), (3, "task gate")];

/// Requests of the GHCB's MSR protocol (`GHCB_MSR_*_REQ` of `arch/x86/include/asm/sev-common.h`).
const GHCB_REQUESTS: &[(u64, &str)] = &[
    (0x002, "SEV_INFO"),
    (0x004, "CPUID"),
    (0x006, "AP_RESET_HOLD"),
    (0x010, "PREF_GPA"),
    (0x012, "REG_GPA"),
    (0x014, "PSC"),
    (0x016, "VMPL"),
    (0x080, "HV_FT"),
    (0x100, "TERM"),
];

/// Debug registers of x86.
const DEBUG_REGISTERS: &[(u64, &str)] =
    &[(0, "DR0"), (1, "DR1"), (2, "DR2"), (3, "DR3"), (4, "DR4"), (5, "DR5"), (6, "DR6"), (7, "DR7")];

/// Control registers of x86.
const CONTROL_REGISTERS: &[(u64, &str)] = &[(0, "CR0"), (2, "CR2"), (3, "CR3"), (4, "CR4"), (8, "CR8")];

/// What leaves of CPUID tell: Intel's SDM, volume 2, AMD's APM, volume 3, and `Documentation/virt/kvm/x86/cpuid.rst`.
const CPUID_LEAVES: &[(u64, &str)] = &[
    (0x0, "vendor"),
    (0x1, "features"),
    (0x2, "caches and TLBs"),
    (0x4, "caches"),
    (0x5, "MONITOR/MWAIT"),
    (0x6, "power management"),
    (0x7, "features"),
    (0xa, "performance monitoring"),
    (0xb, "topology"),
    (0xd, "XSAVE"),
    (0xf, "cache monitoring"),
    (0x10, "cache allocation"),
    (0x12, "SGX"),
    (0x14, "processor trace"),
    (0x15, "TSC frequency"),
    (0x16, "frequencies"),
    (0x18, "TLBs"),
    (0x19, "key locker"),
    (0x1a, "hybrid cores"),
    (0x1d, "AMX tiles"),
    (0x1e, "AMX"),
    (0x1f, "topology"),
    (0x4000_0000, "hypervisor"),
    (0x4000_0001, "hypervisor's features"),
    (0x8000_0000, "last extended leaf"),
    (0x8000_0001, "features"),
    (0x8000_0002, "brand"),
    (0x8000_0003, "brand"),
    (0x8000_0004, "brand"),
    (0x8000_0005, "L1 caches and TLBs"),
    (0x8000_0006, "L2 and L3 caches"),
    (0x8000_0007, "power management"),
    (0x8000_0008, "address sizes"),
    (0x8000_000a, "SVM"),
    (0x8000_0019, "TLBs of 1 GiB pages"),
    (0x8000_001a, "performance hints"),
    (0x8000_001b, "instruction-based sampling"),
    (0x8000_001d, "caches"),
    (0x8000_001e, "topology"),
    (0x8000_001f, "memory encryption"),
    (0x8000_0020, "cache allocation"),
    (0x8000_0021, "features"),
    (0x8000_0022, "performance monitoring"),
    (0x8000_0026, "topology"),
];

/// Functions of Arm's PSCI and SMC calling convention (DEN0022, DEN0028), 32-bit numbers; the 64-bit ones have bit 30.
const SMCCC: &[(u64, &str)] = &[
    (0x8000_0000, "SMCCC_VERSION"),
    (0x8000_0001, "SMCCC_ARCH_FEATURES"),
    (0x8000_3fff, "SMCCC_ARCH_WORKAROUND_3"),
    (0x8000_7fff, "SMCCC_ARCH_WORKAROUND_2"),
    (0x8000_8000, "SMCCC_ARCH_WORKAROUND_1"),
    (0x8400_0000, "PSCI_VERSION"),
    (0x8400_0001, "PSCI_CPU_SUSPEND"),
    (0x8400_0002, "PSCI_CPU_OFF"),
    (0x8400_0003, "PSCI_CPU_ON"),
    (0x8400_0004, "PSCI_AFFINITY_INFO"),
    (0x8400_0006, "PSCI_MIGRATE_INFO_TYPE"),
    (0x8400_0008, "PSCI_SYSTEM_OFF"),
    (0x8400_0009, "PSCI_SYSTEM_RESET"),
    (0x8400_000a, "PSCI_FEATURES"),
    (0x8400_000e, "PSCI_SYSTEM_SUSPEND"),
    (0x8400_0050, "SMCCC_TRNG_VERSION"),
    (0x8400_0051, "SMCCC_TRNG_FEATURES"),
    (0x8400_0052, "SMCCC_TRNG_GET_UUID"),
    (0x8400_0053, "SMCCC_TRNG_RND"),
    (0x8500_0020, "PV_TIME_FEATURES"),
    (0x8500_0021, "PV_TIME_ST"),
    (0x8600_0000, "KVM_FEATURES"),
    (0x8600_0001, "KVM_PTP"),
];

/// Hyper-V's hypercalls that KVM knows, by code (`HVCALL_*` of `include/hyperv/hvgdk_mini.h`).
const HYPERV_HYPERCALLS: &[(u64, &str)] = &[
    (0x02, "FLUSH_VIRTUAL_ADDRESS_SPACE"),
    (0x03, "FLUSH_VIRTUAL_ADDRESS_LIST"),
    (0x08, "NOTIFY_LONG_SPIN_WAIT"),
    (0x0b, "SEND_IPI"),
    (0x13, "FLUSH_VIRTUAL_ADDRESS_SPACE_EX"),
    (0x14, "FLUSH_VIRTUAL_ADDRESS_LIST_EX"),
    (0x15, "SEND_IPI_EX"),
    (0x5c, "POST_MESSAGE"),
    (0x5d, "SIGNAL_EVENT"),
    (0x69, "POST_DEBUG_DATA"),
    (0x6a, "RETRIEVE_DEBUG_DATA"),
    (0x6b, "RESET_DEBUG_SESSION"),
];

/// Xen's hypercalls, by number (`xen/include/public/xen.h`).
const XEN_HYPERCALLS: &[(u64, &str)] = &[
    (0, "set_trap_table"),
    (1, "mmu_update"),
    (2, "set_gdt"),
    (3, "stack_switch"),
    (4, "set_callbacks"),
    (5, "fpu_taskswitch"),
    (6, "sched_op_compat"),
    (7, "platform_op"),
    (8, "set_debugreg"),
    (9, "get_debugreg"),
    (10, "update_descriptor"),
    (12, "memory_op"),
    (13, "multicall"),
    (14, "update_va_mapping"),
    (15, "set_timer_op"),
    (16, "event_channel_op_compat"),
    (17, "xen_version"),
    (18, "console_io"),
    (19, "physdev_op_compat"),
    (20, "grant_table_op"),
    (21, "vm_assist"),
    (22, "update_va_mapping_otherdomain"),
    (23, "iret"),
    (24, "vcpu_op"),
    (25, "set_segment_base"),
    (26, "mmuext_op"),
    (27, "xsm_op"),
    (28, "nmi_op"),
    (29, "sched_op"),
    (30, "callback_op"),
    (31, "xenoprof_op"),
    (32, "event_channel_op"),
    (33, "physdev_op"),
    (34, "hvm_op"),
    (35, "sysctl"),
    (36, "domctl"),
    (37, "kexec_op"),
    (38, "tmem_op"),
    (39, "argo_op"),
    (40, "xenpmu_op"),
    (41, "dm_op"),
    (42, "hypfs_op"),
];

/// What `key` of `kind` is called, where it has a name.
pub fn detail_name(kind: SubjectKind, key: u64) -> Option<&'static str> {
    match kind {
        SubjectKind::Port => PORTS.iter().find(|row| (row.0..=row.1).contains(&key)).map(|row| row.2),
        SubjectKind::Mmio => PAGES.iter().find(|row| row.0 == key >> REGION_BITS).map(|row| row.1),
        SubjectKind::Msr => lookup(t::MSR, key),
        SubjectKind::Apic => lookup(t::APIC, key),
        SubjectKind::ControlRegister => lookup(CONTROL_REGISTERS, key),
        SubjectKind::DebugRegister => lookup(DEBUG_REGISTERS, key),
        SubjectKind::Exception => lookup(EXCEPTIONS, key),
        SubjectKind::HostVector => lookup(HOST_VECTORS, key),
        SubjectKind::TaskSwitch => lookup(TASK_SWITCHES, key),
        SubjectKind::EptViolation => ept_violation_name(key),
        SubjectKind::Cpuid => lookup(CPUID_LEAVES, key),
        SubjectKind::SystemRegister => lookup(t::ARM64_SYSTEM_REGISTER, key),
        SubjectKind::Hypercall => lookup(t::KVM_HYPERCALL, key),
        SubjectKind::HypervHypercall => lookup(HYPERV_HYPERCALLS, key),
        SubjectKind::XenHypercall => lookup(XEN_HYPERCALLS, key),
        SubjectKind::PpcHcall => lookup(t::PPC_HCALL, key),
        SubjectKind::Hvc => lookup(SMCCC, key & !(1 << 30)),
        SubjectKind::Diag => lookup(t::S390_DIAG, key),
        SubjectKind::Sigp => lookup(t::S390_SIGP, key),
        SubjectKind::Instruction => lookup(t::S390_INSN, key),
        SubjectKind::Program => lookup(t::S390_PROG, key),
        SubjectKind::PageFault => page_fault_name(key),
        SubjectKind::MemoryFault => ExitCode::memory_fault_name(key),
        SubjectKind::Vmgexit => lookup(t::SVM, key),
        SubjectKind::GhcbMsr => lookup(GHCB_REQUESTS, key),
        SubjectKind::HostIrq | SubjectKind::EoiVector | SubjectKind::IncompleteIpi => None,
    }
}

/// What an error code or a fault status says. x86's (PFERR_* of `arch/x86/include/asm/kvm_host.h`) have bit 32 or 33, or
/// few bits (shadow paging); arm64's ESR_EL2 has an exception class; the rest is powerpc's DSISR.
fn page_fault_name(key: u64) -> Option<&'static str> {
    const GUEST_WALK: u64 = 1 << 33;
    // Of ESR_EL2: EC of an instruction and of a data abort from a lower level, WnR, S1PTW, and the kind of fault.
    const ABORTS: [u64; 2] = [0x20, 0x24];
    // Of `arch/powerpc/include/asm/reg.h`.
    const DSISR_NOHPTE: u64 = 0x4000_0000;
    const DSISR_PROTFAULT: u64 = 0x0800_0000;
    const DSISR_ISSTORE: u64 = 0x0200_0000;
    let bit = |bit: u64| key & bit != 0;
    let (access, fault, walk) = match key {
        // Xen's where it does not say.
        0 => return None,
        _ if key >> 32 != 0 || key < 1 << 6 => (
            if bit(1 << 4) { 2 } else { usize::from(bit(1 << 1)) },
            if bit(1 << 3) { 2 } else { usize::from(bit(1)) },
            bit(GUEST_WALK),
        ),
        _ if ABORTS.contains(&(key >> 26)) => (
            if key >> 26 == ABORTS[0] { 2 } else { usize::from(bit(1 << 6)) },
            match key >> 2 & 0xf {
                1 => 0,
                3 => 1,
                _ => return None,
            },
            bit(1 << 7),
        ),
        _ if bit(DSISR_NOHPTE) || bit(DSISR_PROTFAULT) => {
            (usize::from(bit(DSISR_ISSTORE)), usize::from(bit(DSISR_PROTFAULT)), false)
        }
        _ => return None,
    };
    Some(FAULTS[access][fault][usize::from(walk)])
}

/// What an EPT violation's qualification says (`EPT_VIOLATION_*` of `arch/x86/include/asm/vmx.h`; Intel's SDM, volume 3, "Exit
/// Qualification for EPT Violations"): the access in bits 0 to 2, what the entry allowed in bits 3 to 5, a walk of the guest's page
/// tables where bit 7 is set and bit 8 is not.
fn ept_violation_name(key: u64) -> Option<&'static str> {
    let access = match key & 0b111 {
        0 => return None,
        fetch if fetch & 0b100 != 0 => 2,
        // A walk that sets accessed and dirty bits reads and writes.
        write if write & 0b10 != 0 => 1,
        _ => 0,
    };
    Some(FAULTS[access][usize::from(key & 0b11_1000 != 0)][usize::from(key & 0x180 == 0x80)])
}

/// By access (read, write, fetch), by what was found (nothing, no right, a reserved bit), and whether a page table was accessed.
const FAULTS: [[[&str; 2]; 3]; 3] = [
    [
        ["read, not mapped", "read of a page table, not mapped"],
        ["read, not allowed", "read of a page table, not allowed"],
        ["read, reserved bit", "read of a page table, reserved bit"],
    ],
    [
        ["write, not mapped", "write to a page table, not mapped"],
        ["write, not allowed", "write to a page table, not allowed"],
        ["write, reserved bit", "write to a page table, reserved bit"],
    ],
    [
        ["fetch, not mapped", "fetch by way of a page table, not mapped"],
        ["fetch, not allowed", "fetch by way of a page table, not allowed"],
        ["fetch, reserved bit", "fetch by way of a page table, reserved bit"],
    ],
];

#[cfg(test)]
mod tests {
    use super::super::{system_register, trapped_system_register};
    use super::*;

    #[test]
    fn names_are_sorted_so_that_binary_search_finds_every_row() {
        for table in [
            XEN_HYPERCALLS,
            CPUID_LEAVES,
            CONTROL_REGISTERS,
            DEBUG_REGISTERS,
            EXCEPTIONS,
            GHCB_REQUESTS,
            HOST_VECTORS,
            HYPERV_HYPERCALLS,
            TASK_SWITCHES,
            SMCCC,
        ] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn places_have_the_names_that_people_look_for() {
        let cases = [
            (SubjectKind::Port, 0x3f8, Some("COM1")),
            (SubjectKind::Port, 0x604, None),
            (SubjectKind::Mmio, 0xfee0_00b0, Some("local APIC")),
            (SubjectKind::Msr, 0x6e0, Some("MSR_IA32_TSC_DEADLINE")),
            (SubjectKind::Msr, 0x4000_0070, Some("HV_X64_MSR_EOI")),
            (SubjectKind::SystemRegister, trapped_system_register(0x6230_0049).0, Some("ID_AA64PFR0_EL1")),
            (SubjectKind::SystemRegister, system_register([3, 0, 12, 11, 5]), Some("ICC_SGI1R_EL1")),
            (SubjectKind::SystemRegister, system_register([3, 3, 14, 2, 1]), Some("CNTP_CTL_EL0")),
            (SubjectKind::SystemRegister, system_register([3, 7, 15, 15, 7]), None),
            (SubjectKind::Hypercall, 10, Some("SEND_IPI")),
            (SubjectKind::XenHypercall, 29, Some("sched_op")),
            (SubjectKind::Hvc, 0xc400_0003, Some("PSCI_CPU_ON")),
            (SubjectKind::Cpuid, 0xd, Some("XSAVE")),
            (SubjectKind::Cpuid, 3, None),
            (SubjectKind::Apic, 0xb0, Some("APIC_EOI")),
            (SubjectKind::ControlRegister, 4, Some("CR4")),
            (SubjectKind::PageFault, 0x1_0000_0006, Some("write, not mapped")),
            (SubjectKind::PageFault, 0x1_0000_0014, Some("fetch, not mapped")),
            (SubjectKind::PageFault, 0x2_0000_0007, Some("write to a page table, not allowed")),
            (SubjectKind::PageFault, 0x1_0000_000d, Some("read, reserved bit")),
            (SubjectKind::PageFault, 0x2, Some("write, not mapped")),
            (SubjectKind::PageFault, 0, None),
            // Of MOV to memory that is not mapped, of a fetch from what may not be executed, of a write of a page table's
            // accessed bit where dirty pages are logged.
            (SubjectKind::EptViolation, 0x182, Some("write, not mapped")),
            (SubjectKind::EptViolation, 0x19c, Some("fetch, not allowed")),
            (SubjectKind::EptViolation, 0x0ab, Some("write to a page table, not allowed")),
            (SubjectKind::EptViolation, 0x181, Some("read, not mapped")),
            (SubjectKind::EptViolation, 0x184, Some("fetch, not mapped")),
            // Where no linear address is valid, nothing says that a page table was walked.
            (SubjectKind::EptViolation, 0x001, Some("read, not mapped")),
            (SubjectKind::EptViolation, 0x180, None),
            (SubjectKind::HostVector, 0xec, Some("LOCAL_TIMER, of recent Linux")),
            (SubjectKind::HostVector, 0xfd, Some("RESCHEDULE")),
            (SubjectKind::HostVector, 0x33, None),
            (SubjectKind::Exception, 14, Some("#PF")),
            (SubjectKind::Vmgexit, 0x7c, Some("msr")),
            (SubjectKind::Vmgexit, 0x8000_0010, Some("vmgexit_page_state_change")),
            (SubjectKind::GhcbMsr, 0x14, Some("PSC")),
            (SubjectKind::TaskSwitch, 3, Some("task gate")),
            (SubjectKind::DebugRegister, 7, Some("DR7")),
            (SubjectKind::PageFault, 0x8200_0005, Some("fetch, not mapped")),
            (SubjectKind::PageFault, 0x9200_004f, Some("write, not allowed")),
            (SubjectKind::PageFault, 0x9200_0021, None),
            (SubjectKind::PageFault, 0x4200_0000, Some("write, not mapped")),
            (SubjectKind::PageFault, 0x0800_0000, Some("read, not allowed")),
            (SubjectKind::Mmio, 0xfec0_0fff, Some("IOAPIC")),
            (SubjectKind::Mmio, 0xfec0_1000, None),
            (SubjectKind::Hvc, 0x8400_0003, Some("PSCI_CPU_ON")),
            (SubjectKind::PpcHcall, 4, Some("H_REMOVE")),
            (SubjectKind::Diag, 0x44, Some("DIAG (0x44) time slice end")),
            (SubjectKind::Sigp, 3, Some("SIGP emergency signal")),
            (SubjectKind::Instruction, 131, Some("DIAG")),
            (SubjectKind::Program, 2, Some("Prog Privileged Operation")),
            (SubjectKind::HypervHypercall, 8, Some("NOTIFY_LONG_SPIN_WAIT")),
            (SubjectKind::HypervHypercall, 9, None),
        ];
        for (kind, key, name) in cases {
            assert_eq!(detail_name(kind, key), name, "{kind:?} {key:#x}");
        }
    }

    #[test]
    fn vectors_are_called_as_the_version_of_linux_that_has_them_calls_them() {
        for (version, vector, name) in [
            ((3, 10), 0xef, Some("LOCAL_TIMER")),
            ((3, 10), 0xec, None),
            ((3, 10), 0xf0, None),
            ((4, 14), 0xef, Some("LOCAL_TIMER")),
            ((4, 14), 0xf0, Some("POSTED_INTR_NESTED")),
            // Looked up of neither.
            ((4, 16), 0xef, None),
            ((4, 16), 0xec, None),
            ((4, 16), 0xfd, Some("RESCHEDULE")),
            ((4, 19), 0xec, Some("LOCAL_TIMER")),
            ((6, 18), 0xec, Some("LOCAL_TIMER")),
            ((6, 18), 0xef, Some("MANAGED_IRQ_SHUTDOWN")),
            ((5, 10), 0xf5, Some("UV_BAU_MESSAGE")),
            ((6, 18), 0xf5, None),
            ((2, 6), 0xfd, None),
            ((6, 18), 0x31, None),
            ((6, 18), 0xff, Some("SPURIOUS_APIC")),
        ] {
            assert_eq!(vector_name(version, vector), name, "{version:?} {vector:#x}");
        }
        for (version, vector, kind) in [
            ((3, 10), 0xef, Some(HostVectorKind::Timer)),
            ((6, 18), 0xef, None),
            ((6, 18), 0xec, Some(HostVectorKind::Timer)),
            ((6, 18), 0xfb, Some(HostVectorKind::FunctionCall)),
            ((6, 18), 0xf1, Some(HostVectorKind::PostedWakeup)),
            ((6, 18), 0xf6, None),
            ((6, 18), 0x31, Some(HostVectorKind::Device)),
            ((6, 18), 0x20, None),
            ((6, 18), 0xeb, None),
        ] {
            assert_eq!(host_vector_kind(vector_name(version, vector), vector), kind, "{version:?} {vector:#x}");
        }
        let unknown = |vector| host_vector_kind(detail_name(SubjectKind::HostVector, vector), vector);
        assert_eq!(
            [0xec, 0xef, 0xfd].map(unknown),
            [HostVectorKind::Timer, HostVectorKind::Timer, HostVectorKind::Reschedule].map(Some)
        );
        let named = |kind: &(&str, HostVectorKind)| LINUX_VECTORS.iter().any(|row| row.2 == kind.0);
        assert!(VECTOR_KINDS.iter().all(named), "of names that Linux has");
        assert!(LINUX_VECTORS.iter().all(|row| !DEVICE_VECTORS.contains(&row.0)));
        assert_eq!(
            [(3, 9), (3, 10), (4, 14), (4, 15), (4, 18), (4, 19)].map(has_known_vectors),
            [false, true, true, false, false, true]
        );
        assert!(LINUX_VECTORS.is_sorted_by_key(|row| (row.0, *row.1.start())));
    }

    #[test]
    fn page_faults_are_told_in_each_processors_own_bits() {
        let cases = [
            // x86: PFERR_PRESENT, _WRITE, _RSVD, _FETCH; and _GUEST_FINAL or _GUEST_PAGE of the second stage.
            (0x1, "read, not allowed"),
            (0x3, "write, not allowed"),
            (0x11, "fetch, not allowed"),
            (0x12, "fetch, not mapped"),
            (0x0b, "write, reserved bit"),
            (0x3f, "fetch, reserved bit"),
            (0x40, "-"),
            (0x1_0000_0000, "read, not mapped"),
            (0x2_0000_0000, "read of a page table, not mapped"),
            (0x2_0000_000a, "write to a page table, reserved bit"),
            (0x2_0000_0015, "fetch by way of a page table, not allowed"),
            // arm64: exception class, WnR (bit 6), S1PTW (bit 7), translation (1) or permission fault (3) at a level.
            (0x8200_0007, "fetch, not mapped"),
            (0x8200_008d, "fetch by way of a page table, not allowed"),
            (0x9200_0006, "read, not mapped"),
            (0x9200_0045, "write, not mapped"),
            (0x9200_000f, "read, not allowed"),
            (0x9200_0087, "read of a page table, not mapped"),
            (0x9200_00cc, "write to a page table, not allowed"),
            // An access flag, and a synchronous external abort.
            (0x9200_000b, "-"),
            (0x9200_0050, "-"),
            // Of the guest's own, and another exception class.
            (0x9600_0006, "-"),
            // powerpc: DSISR_NOHPTE, _PROTFAULT, _ISSTORE.
            (0x4000_0000, "read, not mapped"),
            (0x0a00_0000, "write, not allowed"),
            (0x4a00_0000, "write, not allowed"),
            (0x0200_0000, "-"),
        ];
        for (key, name) in cases {
            assert_eq!(page_fault_name(key).unwrap_or("-"), name, "{key:#x}");
        }
    }
}
