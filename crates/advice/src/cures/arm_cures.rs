//! The same for arm64: system registers, and calls by HVC or SMC.

use super::cure::{Cure, ExitSource, REPLACED, Remedy, memory, of_qemu, qemu};
use super::device_cures::{FW_CFG, IRQCHIP, PCI, SERIAL, SERIAL_PORT, VIRTIO_CONSOLE};
use super::msr_cures::PMU;
use exitscope_model::SubjectKind;
use exitscope_model::codes::system_register;

/// From one register to another, by Op0, Op1, CRn, CRm, Op2.
const fn registers(first: [u64; 5], last: [u64; 5], name: &'static str, answer: Remedy) -> ExitSource {
    let range = (system_register(first), system_register(last));
    ExitSource { kind: SubjectKind::SystemRegister, range, name, of_qemu: false, answer }
}

const fn calls(first: u64, last: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind: SubjectKind::Hvc, range: (first, last), name, of_qemu: false, answer }
}

use Remedy::{Cure as C, Leave, Unjudged};

/// Numbers of registers: `arch/arm64/include/asm/sysreg.h`, `arch/arm64/tools/sysreg`; of functions: `include/uapi/linux/psci.h`,
/// `include/linux/arm-smccc.h`.
pub(crate) static ARM64: &[ExitSource] = &[
    registers([3, 0, 0, 1, 0], [3, 0, 0, 7, 7], "ID registers", Leave(ID)),
    registers([3, 0, 12, 11, 5], [3, 0, 12, 11, 7], "IPIs (SGIs)", Leave(SGI)),
    registers([3, 3, 14, 2, 0], [3, 3, 14, 2, 2], "physical timer", Leave(PHYSICAL_TIMER)),
    registers([3, 3, 14, 3, 0], [3, 3, 14, 3, 2], "virtual timer", Unjudged(VIRTUAL_TIMER)),
    registers([3, 3, 14, 0, 1], [3, 3, 14, 0, 1], PHYSICAL_COUNTER, Leave(COUNTER)),
    registers([3, 3, 14, 0, 5], [3, 3, 14, 0, 5], PHYSICAL_COUNTER, Leave(COUNTER)),
    registers([2, 0, 0, 0, 0], [2, 7, 15, 15, 7], "debug registers", Unjudged(DEBUG)),
    registers([1, 0, 7, 6, 2], [1, 0, 7, 6, 6], SET_AND_WAY, Leave(FLUSHES)),
    registers([1, 0, 7, 10, 2], [1, 0, 7, 10, 6], SET_AND_WAY, Leave(FLUSHES)),
    registers([1, 0, 7, 14, 2], [1, 0, 7, 14, 6], SET_AND_WAY, Leave(FLUSHES)),
    registers([3, 0, 1, 0, 0], [3, 0, 1, 0, 0], MEMORY, Leave(CACHES_OFF)),
    registers([3, 0, 2, 0, 0], [3, 0, 2, 0, 2], MEMORY, Leave(CACHES_OFF)),
    registers([3, 0, 10, 2, 0], [3, 0, 10, 3, 0], MEMORY, Leave(CACHES_OFF)),
    registers([3, 0, 13, 0, 1], [3, 0, 13, 0, 1], MEMORY, Leave(CACHES_OFF)),
    registers([3, 0, 12, 12, 5], [3, 0, 12, 12, 5], "GIC's system registers' switch", Leave(SRE)),
    registers([3, 0, 9, 14, 1], [3, 0, 9, 14, 2], COUNTERS, C(&PMU)),
    registers([3, 3, 9, 12, 0], [3, 3, 9, 14, 3], COUNTERS, C(&PMU)),
    registers([3, 3, 14, 8, 0], [3, 3, 14, 15, 7], COUNTERS, C(&PMU)),
    calls(0x8400_0000, 0x8400_0000, "PSCI's version", Leave(VERSION)),
    calls(0x8400_0050, 0x8400_0053, RANDOM, Leave(TRNG)),
    calls(0xc400_0053, 0xc400_0053, RANDOM, Leave(TRNG)),
    // Of QEMU's machine virt: base_memmap of hw/arm/virt.c.
    of_qemu(memory(0x800_0000, 0x8ff_ffff, "interrupt controller", C(&GIC))),
    of_qemu(memory(0x900_0000, 0x900_0fff, SERIAL_PORT, C(&PL011))),
    of_qemu(memory(0x901_0000, 0x901_0fff, "RTC", Leave(PL031))),
    of_qemu(memory(0x902_0000, 0x902_0fff, "fw_cfg", Leave(FW_CFG))),
    of_qemu(memory(0x904_0000, 0x904_0fff, SERIAL_PORT, C(&PL011))),
    of_qemu(memory(0xa00_0000, 0xa00_3fff, "virtio-mmio", C(&VIRTIO_MMIO))),
    of_qemu(memory(0x3f00_0000, 0x3fff_ffff, "PCI configuration", Leave(PCI))),
    // VIRT_HIGH_PCIE_ECAM of extended_memmap, with up to 255 GiB of memory.
    of_qemu(memory(0x40_1000_0000, 0x40_1fff_ffff, "PCI configuration", Leave(PCI))),
];

/// With `kernel_irqchip=off`.
static GIC: Cure = Cure { settings: &[qemu("-machine kernel_irqchip=on")], risk: "none known", xen: "", ..IRQCHIP };

static PL011: Cure = Cure {
    settings: &[
        qemu("-device virtio-serial-pci -chardev pty,id=console0 -device virtconsole,chardev=console0"),
        VIRTIO_CONSOLE,
    ],
    xen: "",
    ..SERIAL
};

/// `hw/rtc/pl031.c` of QEMU.
const PL031: &str = "guests read the PL031 when they boot and when they sleep: there is nothing to set; the vcpu_pc \
    of the exits shows what goes on reading it";

/// `virtio_mmio_ioeventfd_enabled` of QEMU's hw/virtio/virtio-mmio.c: doorbells do not go to user space where the kernel can take
/// them; what else the page has (status, configuration, ends of interrupts) does.
static VIRTIO_MMIO: Cure = Cure {
    title: "Connect the virtio devices by PCI",
    change: "connect the virtio devices by PCI: over virtio-mmio the device model answers each access to the device's \
        page: reads and ends of interrupts, and doorbells that no ioeventfd takes; by PCI, with MSI-X, interrupts \
        need no access",
    settings: &[qemu("-device virtio-…-pci")],
    xen: "",
    least: REPLACED,
    risk: "the guest needs a PCI host bridge and drivers for it, and names of its devices change",
    ..SERIAL
};

const COUNTERS: &str = "performance counters";
const RANDOM: &str = "random numbers by a call";

/// HCR_TID3 of `arch/arm64/include/asm/kvm_arm.h`, `access_id_reg` of `arch/arm64/kvm/sys_regs.c`.
const ID: &str = "KVM emulates reads of ID registers, as it hides features of the processor from guests: each is an exit. \
    Kernels read them while CPUs come up, and emulate them for programs from a copy; the vcpu_pc of the exits shows what reads \
    them later";

/// `access_gic_sgi` of `arch/arm64/kvm/sys_regs.c`: HCR_EL2.IMO traps it, with GICv4.1 too, which spares the receiver its exit.
const SGI: &str = "each interrupt that the guest sends from one vCPU to another is an exit of its sender, whatever \
    the GIC; with fewer vCPUs, or fewer wake-ups, the guest sends fewer";

/// `access_arch_timer` of `arch/arm64/kvm/sys_regs.c`; CNTHCTL_EL2 in `arch/arm64/kvm/arch_timer.c`.
const PHYSICAL_TIMER: &str = "the guest programs the physical timer, which KVM emulates where the host has no VHE, or traps it for another \
    reason; the virtual timer (CNTV), which Linux uses in a VM, needs no exit to be armed";

/// `timer_set_traps` of arch/arm64/kvm/arch_timer.c: CNTVCT and CNTV trap where CNTVOFF_EL2 cannot be used (an erratum), and for a nested
/// guest.
const VIRTUAL_TIMER: &str = "the guest programs its virtual timer, which needs an exit only of a nested guest, or where the processor's \
    offset register has an erratum (has_broken_cntvoff): see `dmesg | grep -i cntvoff` on the host, and whether the VM has nested \
    virtualisation";

const PHYSICAL_COUNTER: &str = "physical counter";

/// `kvm_arm_timer_read_sysreg` and `timer_set_traps` of arch/arm64/kvm/arch_timer.c, since Linux 6.4.
const COUNTER: &str = "the guest reads the physical counter, which KVM emulates where the guest's counter has an offset and the processor cannot \
    add it (no ECV); the virtual counter (CNTVCT), which Linux uses in a VM, needs no exit";

/// `trap_debug_regs` and `trap_oslar_el1` of arch/arm64/kvm/sys_regs.c, `kvm_arm_setup_mdcr_el2` of arch/arm64/kvm/debug.c.
const DEBUG: &str = "the guest uses debug registers: a debugger or perf's breakpoints in it, or its kernel when a CPU \
    comes up (OSLAR, OSDLR); the vcpu_pc of the exits shows whose code it is";

const SET_AND_WAY: &str = "cache maintenance by set and way";

/// `access_dcsw` of arch/arm64/kvm/sys_regs.c, `kvm_set_way_flush` of arch/arm64/kvm/mmu.c.
const FLUSHES: &str = "the guest cleans its caches by set and way, as firmware does before it switches them: KVM flushes all memory of the VM if \
    its caches were on, and once more when they go off or on (processors with FWB need no flush); there is nothing to set";

const MEMORY: &str = "memory registers, caches off";

/// HCR_TVM of arch/arm64/include/asm/kvm_arm.h; `access_vm_reg` of arch/arm64/kvm/sys_regs.c, `kvm_toggle_cache` of arch/arm64/kvm/mmu.c.
const CACHES_OFF: &str = "KVM traps these registers from a vCPU's reset, and from a guest's cleaning by set and way on, until its caches are on \
    (not on processors with FWB); there is nothing to set";

/// `access_gic_sre` of arch/arm64/kvm/sys_regs.c.
const SRE: &str = "the guest's kernel checks whether it reaches its GIC by system registers, once for each CPU";

/// `kvm_psci_call` of `arch/arm64/kvm/psci.c`.
const VERSION: &str = "KVM itself answers PSCI_VERSION; kernels ask for it while they boot; the vcpu_pc of the exits shows what asks more often";

/// `kvm_trng_call` of `arch/arm64/kvm/trng.c`; `arch_get_random_seed_longs` of `arch/arm64/include/asm/archrandom.h`.
const TRNG: &str = "the guest's kernel asks KVM for random numbers (SMCCC TRNG), a few words each time, to seed its own generator with";
