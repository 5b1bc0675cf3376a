//! Devices by their ports and addresses, and what can be done about them.
//!
//! Where devices are: the PC's own places, and those of QEMU's machines pc and q35. Elements and options: libvirt's
//! formatdomain, QEMU's documentation of machine and CPU properties and of its Hyper-V enlightenments.

use super::apic_switches::APICV;
use super::cure::{
    Acts, Cure, CureCondition, ExitSource, IN_GUEST, LESS_OFTEN, Least, NOBODY, REPLACED, Remedy, WITH_HARDWARE,
    by_hand, libvirt, memory, of_qemu, qemu,
};
use super::msr_cures::OF_AVIC;
use crate::setting::{AdviceSetting, SettingCondition};
use exitscope_model::SubjectKind;

use Remedy::{Cure as C, Leave};

/// `get_time_ref_counter` of arch/x86/kvm/hyperv.c, which Windows reads if it does not trust the reference TSC page, is the kernel's;
/// the port has nothing but the time, and `clocksource_watchdog` of kernel/time/clocksource.c looks at it twice a second only.
const CLOCK: Least = Least::InKernel(
    "from the time by which they exceed exits that the kernel answers (a guest that does not trust its new clock reads an \
     MSR) to all their time",
);

/// `hpet_clkevt_set_next_event` of arch/x86/kernel/hpet.c reads the counter before and after it writes when the timer is to expire;
/// the local APIC's timer is one exit instead.
const HPET_READS: Least = Least::But(
    |key| if key.write { 3 } else { 0 },
    "from the time of reads beyond two for each write (those read the clock) to all their time",
);

/// `serial8250_console_putchar` and `wait_for_xmitr` of drivers/tty/serial/8250/8250_port.c look whether the port is ready; the
/// virtual console has no such register, and at worst a doorbell for each byte.
const SERIAL_LOOKS: Least = Least::But(
    |key| u64::from(key.write),
    "from the time of the reads (a paravirtual console has no status register to poll) to all their time",
);

/// The register that starts an ATA command is the eighth; a virtio disk has one doorbell for each request at most (`virtqueue_kick`
/// of drivers/virtio/virtio_ring.c).
const IDE_REGISTERS: Least = Least::But(
    |key| u64::from(key.write && matches!(key.key, 0x177 | 0x1f7)),
    "from the time of all but one exit for each command (a virtio disk needs at most one doorbell for each) to all their time",
);

/// On a condition that no recording tells.
macro_rules! when {
    ($condition:ident: $set:expr) => {
        AdviceSetting::When { condition: SettingCondition::$condition, set: &$set }
    };
}

const fn port(first: u64, last: u64, name: &'static str, answer: Remedy) -> ExitSource {
    ExitSource { kind: SubjectKind::Port, range: (first, last), name, of_qemu: false, answer }
}

pub(crate) static DEVICES: &[ExitSource] = &[
    memory(0xfed0_0000, 0xfed0_0fff, HPET_PAGE, C(&HPET)),
    // Of q35 (hw/i386/acpi-build.c, hw/isa/lpc_ich9.c) and of pc (hw/acpi/piix4.c).
    of_qemu(port(0x608, 0x60b, "ACPI PM timer", C(&PM_TIMER))),
    of_qemu(port(0xb008, 0xb00b, "ACPI PM timer", C(&PM_TIMER))),
    port(0x70, 0x71, "RTC", C(&RTC)),
    port(0x40, 0x43, "PIT", C(&PIT)),
    port(0x61, 0x61, "PC speaker's port", Leave(SPEAKER)),
    port(0x20, 0x21, "interrupt controller", C(&IRQCHIP)),
    port(0xa0, 0xa1, "interrupt controller", C(&IRQCHIP)),
    port(0x4d0, 0x4d1, "interrupt controller", C(&IRQCHIP)),
    memory(0xfec0_0000, 0xfec0_0fff, "interrupt controller", C(&IRQCHIP)),
    memory(0xfee0_0000, 0xfee0_0fff, APIC_PAGE, C(&LOCAL_APIC)),
    port(0x2e8, 0x2ef, SERIAL_PORT, C(&SERIAL)),
    port(0x2f8, 0x2ff, SERIAL_PORT, C(&SERIAL)),
    port(0x3e8, 0x3ef, SERIAL_PORT, C(&SERIAL)),
    port(0x3f8, 0x3ff, SERIAL_PORT, C(&SERIAL)),
    port(0x60, 0x60, "keyboard controller", C(&KEYBOARD)),
    port(0x64, 0x64, "keyboard controller", C(&KEYBOARD)),
    port(0x80, 0x80, "delay port 0x80", C(&DELAY)),
    // APM_CNT_IOPORT and APM_STS_IOPORT of QEMU's hw/isa/apm.c.
    of_qemu(port(0xb2, 0xb3, "system management interrupts", Leave(SMI))),
    port(0x170, 0x177, "IDE disk", C(&IDE)),
    port(0x1f0, 0x1f7, "IDE disk", C(&IDE)),
    port(0x376, 0x376, "IDE disk", C(&IDE)),
    port(0x3f6, 0x3f6, "IDE disk", C(&IDE)),
    port(0x3f0, 0x3f5, "floppy controller", C(&FLOPPY)),
    port(0x3f7, 0x3f7, "floppy controller", C(&FLOPPY)),
    port(0x3b0, 0x3df, "VGA", C(&VGA)),
    // Bochs' extensions of QEMU's VGA (vbe_portio_list_x86 in hw/display/vga.c).
    of_qemu(port(0x1ce, 0x1d0, "VGA", C(&VGA))),
    memory(0xa_0000, 0xb_ffff, "VGA", C(&VGA)),
    of_qemu(port(0x402, 0x402, "firmware's debug console", C(&DEBUG_CONSOLE))),
    port(0x5658, 0x5659, "VMware backdoor", C(&VMPORT)),
    of_qemu(port(0x510, 0x51b, "fw_cfg", Leave(FW_CFG))),
    port(0x00, 0x0f, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    port(0x72, 0x77, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    port(0x81, 0x8f, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    port(0x92, 0x92, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    port(0xc0, 0xdf, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    // Around the timer: 128 ports of q35 (ICH9_PMIO_SIZE of include/hw/southbridge/ich9.h), 64 of pc (piix4_pm_realize in
    // hw/acpi/piix4.c), where SeaBIOS (PORT_ACPI_PM_BASE of src/config.h) and OVMF put them.
    of_qemu(port(0x600, 0x607, "ACPI registers", Remedy::Unjudged(CHIPSET))),
    of_qemu(port(0x60c, 0x67f, "ACPI registers", Remedy::Unjudged(CHIPSET))),
    of_qemu(port(0xb000, 0xb007, "ACPI registers", Remedy::Unjudged(CHIPSET))),
    of_qemu(port(0xb00c, 0xb03f, "ACPI registers", Remedy::Unjudged(CHIPSET))),
    port(0xcf8, 0xcf8, "PCI configuration", Leave(PCI)),
    port(0xcfc, 0xcff, "PCI configuration", Leave(PCI)),
    port(0xcf9, 0xcf9, "registers of the chipset", Remedy::Unjudged(CHIPSET)),
    // ECAM of q35: MCH_HOST_BRIDGE_PCIEXBAR_DEFAULT and _MAX of QEMU's include/hw/pci-host/q35.h.
    of_qemu(memory(0xb000_0000, 0xbfff_ffff, "PCI configuration", Leave(PCI))),
    memory(
        0xfed4_0000,
        0xfed4_4fff,
        "TPM",
        Leave("a TPM that is in use: there is nothing to set, unless the TPM is removed"),
    ),
];

/// QEMU makes KVM's PIT without the port (`kvm_pit_realizefn` in hw/i386/kvm/i8254.c asks for flags 0, not for
/// KVM_PIT_SPEAKER_DUMMY, with which `kvm_create_pit` in arch/x86/kvm/i8254.c would add speaker_dev) and answers for it
/// itself (`pcspk_io_read` in hw/audio/pcspk.c).
const SPEAKER: &str = "it gates the PIT's channel 2, and a Linux guest polls it at boot while it measures its TSC \
    (pit_calibrate_tsc); QEMU answers for it even if KVM has the PIT: there is nothing to set";

pub(crate) const HPET_PAGE: &str = "HPET";

/// `hpet_clkevt_set_next_event` of arch/x86/kernel/hpet.c: what arms a timer writes.
pub(crate) const HPET_TIMER: &str = "the guest writes to the HPET and reads no time from it: it uses the HPET's \
    timers, which another clock would not replace. A Linux guest does so if it has no local APIC timer that it \
    trusts: its /proc/timer_list shows which device each CPU's timer is";

const CHIPSET: &str = "these are registers of a PC's chipset, and no doorbells of a queue: firmware and drivers \
    access them now and then; if that goes on after the boot, the rip of the exits shows whose code does it (`report \
    --by rip`)";

/// `apm_ioport_writeb` of QEMU's hw/isa/apm.c raises an SMI; `kvm_smm_transition` has each stay.
const SMI: &str = "the guest calls its firmware by an SMI, as it does for each access to a UEFI variable that Secure \
    Boot protects: the rip of the exits shows the caller, and `perf record -e kvm:kvm_smm_transition` how long each \
    stay is";

pub(crate) const FW_CFG: &str = "firmware and kernels read it while they boot: there is nothing to set";
pub(crate) const PCI: &str = "guests access it when they boot and when drivers start: there is nothing to set; if \
    that goes on, the rip of the exits shows what accesses it (lspci, agents that look at devices)";

/// `synic_update_vector` of arch/x86/kvm/hyperv.c; hv-apicv of QEMU's docs/system/i386/hyperv.rst.
const WITHOUT_AUTO_EOI: &str = "on a host whose processor virtualises the APIC (APICv, AVIC), also hv-apicv (QEMU from 6.2 on; libvirt: \
    <avic state='on'/> in <features><hyperv>): with hv-synic Windows else uses AutoEOI, for which KVM switches that off";

/// `clocksource_watchdog` of kernel/time/clocksource.c has Linux leave an unstable TSC. Windows without the timers falls back to the
/// RTC or the PM timer; what `hv-stimer` needs: QEMU's docs/system/i386/hyperv.rst.
static HPET: Cure = Cure {
    title: "Replace the HPET by a clock that needs no exit",
    change: "give the guest a clock that it reads without an exit, and then remove the HPET: a Linux guest that keeps \
        time with it has fallen back from the TSC or kvm-clock, and its dmesg shows why; Windows needs all of \
        Hyper-V's timers",
    switches: &[],
    settings: &[
        when!(LinuxGuest: by_hand(
            "first, /sys/devices/system/clocksource/clocksource0/current_clocksource is hpet if the guest has fallen \
             back to it, and dmesg shows why (a TSC found unstable); echo kvm-clock (or tsc) into it",
        )),
        when!(LinuxGuest: libvirt("clock", "<timer name='kvmclock' present='yes'/>")),
        when!(LinuxGuest: qemu("-cpu …,kvmclock=on")),
        when!(WindowsGuest: libvirt("clock", "<timer name='hypervclock' present='yes'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<vpindex state='on'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<synic state='on'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<stimer state='on'/>")),
        when!(WindowsGuest: qemu("-cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer")),
        when!(WindowsGuest: by_hand(WITHOUT_AUTO_EOI)),
        when!(OtherClock: libvirt("clock", "<timer name='hpet' present='no'/>")),
        when!(OtherClock: qemu("-machine hpet=off")),
    ],
    // viridian=1 has neither timers nor the page (xl.cfg.5, "defaults").
    xen: "in a Linux guest: echo xen (or tsc) > /sys/devices/system/clocksource/clocksource0/current_clocksource; for Windows \
        viridian=[\"defaults\",\"reference_tsc\",\"stimer\"]; then hpet=0 in the domain's xl.cfg",
    helps: CureCondition::Outside,
    least: HPET_READS,
    acts: Acts::AtStart,
    risk: "without the HPET and without such a clock the guest falls back to the PM timer, the RTC or the PIT, which cost as much: the \
        clock comes first; Windows may need another restart before it uses it",
    payer: NOBODY,
};

static PM_TIMER: Cure = Cure {
    title: "Replace the ACPI PM timer as the guest's clock",
    change: "if it is the guest's clock, offer one that is read without an exit: kvm-clock for Linux, Hyper-V's reference \
        TSC for Windows",
    switches: &[],
    settings: &[
        when!(LinuxGuest: libvirt("clock", "<timer name='kvmclock' present='yes'/>")),
        when!(LinuxGuest: qemu("-cpu …,kvmclock=on")),
        when!(WindowsGuest: libvirt("clock", "<timer name='hypervclock' present='yes'/>")),
        when!(WindowsGuest: qemu("-cpu …,hv-time=on")),
        by_hand(
            "in a Linux guest /sys/devices/system/clocksource/clocksource0/current_clocksource shows the clock in \
             use; echo kvm-clock (or tsc) into it; dmesg shows why the guest left the TSC",
        ),
    ],
    xen: "in a Linux guest: echo xen (or tsc) > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    helps: CureCondition::Always,
    least: CLOCK,
    acts: Acts::AtStart,
    risk: "a guest that left the TSC because it found it unstable does so again: see to that first (constant TSC, no \
        migration between hosts of other frequencies)",
    payer: NOBODY,
};

static RTC: Cure = Cure {
    title: "If the guest is Windows, offer Hyper-V's timers instead of the RTC",
    change: "if the guest is Windows, offer Hyper-V's timers: without them it runs on the periodic interrupt of the RTC, and \
        reads its registers each time",
    switches: &[],
    settings: &[
        when!(WindowsGuest: libvirt("clock", "<timer name='hypervclock' present='yes'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<vpindex state='on'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<synic state='on'/>")),
        when!(WindowsGuest: libvirt("features/hyperv", "<stimer state='on'/>")),
        when!(WindowsGuest: qemu("-cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer")),
        when!(WindowsGuest: by_hand(WITHOUT_AUTO_EOI)),
        by_hand("a Linux guest has no use for the RTC while it runs: look for a program that reads /dev/rtc0"),
    ],
    xen: "viridian=[\"defaults\",\"reference_tsc\",\"stimer\"] in the domain's xl.cfg, for Windows guests",
    helps: CureCondition::Outside,
    least: REPLACED,
    acts: Acts::AtStart,
    risk: "Windows may need another restart before it uses them",
    payer: NOBODY,
};

static PIT: Cure = Cure {
    title: "Let KVM emulate the PIT",
    change: "let KVM answer for the PIT instead of user space",
    switches: &[],
    settings: &[qemu("-machine kernel_irqchip=on"), libvirt("features", "<ioapic driver='kvm'/>")],
    xen: "keep the guest from the PIT: a Linux guest with clocksource=xen or tsc",
    helps: CureCondition::ByMovingIn,
    least: Least::All,
    acts: Acts::AtStart,
    // Posted interrupts: `vmx_can_use_vtd_pi` in arch/x86/kvm/vmx/posted_intr.c asks for irqchip_in_kernel, which either is.
    // TDX: `tdx_kvm_init` of QEMU's target/i386/kvm/tdx.c.
    risk: "interrupt remapping in the guest, as more than 255 vCPUs need it, needs the split irqchip, and so does a TDX guest, which \
        QEMU does not start otherwise; VFIO's posted interrupts need an irqchip in the kernel, which both are",
    payer: NOBODY,
};

pub(crate) static IRQCHIP: Cure = Cure {
    title: "Let KVM emulate the interrupt controllers",
    change: "let KVM be the interrupt controllers instead of user space",
    switches: &[],
    settings: &[qemu("-machine kernel_irqchip=on"), libvirt("features", "<ioapic driver='kvm'/>")],
    xen: "use event channels instead of emulated interrupts: PVH, or PV drivers in an HVM guest",
    helps: CureCondition::ByMovingIn,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "interrupt remapping in the guest, as more than 255 vCPUs need it, needs the split irqchip, and so does a TDX guest, which \
        QEMU does not start otherwise",
    payer: NOBODY,
};

static LOCAL_APIC: Cure = Cure {
    title: "Use x2APIC and APIC virtualisation",
    change: "let the guest use x2APIC, and the processor its APIC virtualisation: the guest reaches its local APIC \
        through memory, with an exit each time",
    switches: APICV,
    settings: &[qemu("-cpu …,x2apic=on"), libvirt("cpu", "<feature policy='require' name='x2apic'/>")],
    xen: "x2apic is offered by default, and a Linux guest without nox2apic uses it; Xen then uses the processor's APIC virtualisation by \
        itself, unless apicv=0 is on its command line",
    helps: CureCondition::Always,
    least: WITH_HARDWARE,
    acts: Acts::WithModule,
    risk: "none known for guests that boot with it",
    payer: NOBODY,
};

/// AVIC takes accesses to the page; registers of x2APIC exit under it before Zen 4 (`avic_hardware_setup` of arch/x86/kvm/svm/avic.c).
pub(crate) static LOCAL_APIC_BY_AVIC: Cure = Cure {
    title: "Use APIC virtualisation (AVIC)",
    change: "have the processor virtualise the APIC (AVIC): the guest reaches its local APIC through memory, with an exit each time",
    settings: &[],
    xen: "",
    risk: OF_AVIC,
    ..LOCAL_APIC
};

/// Its page, which the guest reaches through memory.
pub(crate) const APIC_PAGE: &str = "local APIC";

/// Xen has APIC virtualisation for Intel's processors alone. An event channel's upcall ends at the local APIC as well:
/// `sysvec_xen_hvm_callback` of Linux' drivers/xen/events/events_base.c.
pub(crate) static LOCAL_APIC_ON_SVM: Cure = Cure {
    title: "Use x2APIC in the guest",
    change: "let the guest use x2APIC, which spares the emulation of an instruction: the guest reaches its local APIC through memory, with \
        an exit each time, and Xen has no APIC virtualisation on AMD's processors",
    switches: &[],
    settings: &[],
    xen: "x2apic is offered by default, and a Linux guest without nox2apic uses it",
    acts: Acts::AtStart,
    ..LOCAL_APIC
};

/// With `kernel_irqchip=off`.
pub(crate) static LOCAL_APIC_OUTSIDE: Cure = Cure {
    title: "Let KVM emulate the local APIC",
    change: "let KVM be the local APIC instead of user space: each access to it goes there",
    switches: &[],
    settings: &[qemu("-machine kernel_irqchip=on"), libvirt("features", "<ioapic driver='kvm'/>")],
    ..IRQCHIP
};

/// COM1 to COM4.
pub(crate) const SERIAL_PORT: &str = "serial port";

/// Where no byte goes through.
pub(crate) static SERIAL_STATUS: Cure = Cure {
    title: "Find out what polls the serial port's status",
    change: "the guest only looks at the port's status, and no byte goes through: find out what polls it",
    settings: &[by_hand("the rip of the exits shows whose code it is: `exitscope report FILE --by rip`")],
    xen: "the rip of the exits shows whose code it is: `exitscope report FILE --tsc-hz … --by rip`",
    least: LESS_OFTEN,
    helps: CureCondition::Outside,
    risk: "none",
    ..IN_GUEST
};

/// Where no device is at the port.
pub(crate) static NO_SERIAL_PORT: Cure = Cure {
    title: "Find out what polls the missing serial port",
    change: "no device is at this port, and Xen answers each read with ones: find out what in the guest polls it",
    helps: CureCondition::Always,
    ..SERIAL_STATUS
};

/// The guest's end of the console; a VMM without such a device has no use for it.
pub(crate) const VIRTIO_CONSOLE: AdviceSetting =
    AdviceSetting::When { condition: SettingCondition::VirtioConsole, set: &AdviceSetting::GuestBoot("console=hvc0") };

pub(crate) static SERIAL: Cure = Cure {
    title: "Use a paravirtual console instead of the serial port",
    change: "move the console from the emulated serial port to a paravirtual one: each byte, and each look whether \
        the port is ready, is an exit to the device model",
    switches: &[],
    settings: &[
        libvirt("devices", "<console type='pty'><target type='virtio'/></console>"),
        qemu("-device virtio-serial-pci -chardev pty,id=console0 -device virtconsole,chardev=console0"),
        VIRTIO_CONSOLE,
        by_hand("or print less: quiet, loglevel=4, no debug output of services on the console"),
    ],
    xen: "use the PV console: console=hvc0 in the guest",
    helps: CureCondition::Outside,
    least: SERIAL_LOOKS,
    acts: Acts::AtStart,
    risk: "firmware and boot loaders go on using the serial port; messages from before the driver is up are missing \
        on hvc0",
    payer: NOBODY,
};

static KEYBOARD: Cure = Cure {
    title: "Remove the keyboard controller",
    change: "remove the keyboard controller: the guest accesses it",
    switches: &[],
    settings: &[
        libvirt("features", "<ps2 state='off'/>"),
        qemu("-machine i8042=off"),
        AdviceSetting::GuestBoot("i8042.noaux i8042.nokbd"),
    ],
    xen: "i8042.noaux i8042.nokbd on the guest kernel's command line",
    helps: CureCondition::Outside,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "no PS/2 keyboard and mouse: use USB or virtio input where there is a display; some guests reboot through it; needs \
        QEMU 7.0 and libvirt 10.7 or later, and no vmport=on",
    payer: NOBODY,
};

static DELAY: Cure = Cure {
    title: "Tell the guest's kernel not to write port 0x80",
    change: "if it is a Linux guest's kernel that waits by writing port 0x80 (io_delay=0x80), tell it not to",
    switches: &[],
    settings: &[AdviceSetting::GuestBoot("io_delay=none")],
    xen: "io_delay=none on the guest kernel's command line",
    helps: CureCondition::Always,
    least: Least::Nothing("from 0 (if it is not the kernel that writes it) to all their time"),
    acts: Acts::AtStart,
    risk: "none for emulated devices, which need no pauses; firmware writes the same port to show its progress",
    payer: NOBODY,
};

static IDE: Cure = Cure {
    title: "Move the disk from IDE to virtio",
    change: "move the disk to virtio: an IDE request takes many port accesses, and each is an exit to the device model",
    switches: &[],
    settings: &[
        libvirt("devices", "<disk …><target dev='vda' bus='virtio'/></disk>"),
        qemu("-drive file=…,if=none,id=disk0 -object iothread,id=io0 -device virtio-blk-pci,drive=disk0,iothread=io0"),
    ],
    xen: "use the PV disk driver (xvda)",
    helps: CureCondition::Outside,
    least: IDE_REGISTERS,
    acts: Acts::AtStart,
    risk: "the guest needs the virtio driver before its disk moves (Windows: virtio-win), and names of disks change",
    payer: "a thread of the host for the I/O",
};

/// QEMU's pc has the controller always, q35 with a drive alone (`pc_superio_init` of hw/i386/pc.c, called with `true` and with
/// `!mc->no_floppy`), and -nodefaults would take other devices as well, and leave pc's controller.
static FLOPPY: Cure = Cure {
    title: "Stop the guest's use of the floppy controller",
    change: "have the guest leave the floppy controller alone",
    switches: &[],
    settings: &[
        when!(LinuxGuest: AdviceSetting::GuestBoot("modprobe.blacklist=floppy")),
        by_hand(
            "if the VM has a floppy drive: remove it (libvirt: the disk with device='floppy'; QEMU: -drive if=floppy)",
        ),
    ],
    xen: "blacklist the module floppy in the guest",
    helps: CureCondition::Outside,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "no floppy drive; if the driver is built into the guest's kernel, the line does nothing",
    payer: NOBODY,
};

static VGA: Cure = Cure {
    title: "Use a virtio display, or none",
    change: "use a virtio display, or none: the guest draws through VGA's ports and window, an exit for each access",
    switches: &[],
    settings: &[
        libvirt("devices", "<video><model type='virtio'/></video>"),
        qemu("-vga none -device virtio-gpu-pci"),
        VIRTIO_CONSOLE,
    ],
    xen: "a PV framebuffer, or no display: vga=\"none\" in the domain's xl.cfg",
    helps: CureCondition::Outside,
    least: REPLACED,
    acts: Acts::AtStart,
    risk: "the guest needs the driver; firmware without it shows nothing",
    payer: NOBODY,
};

static DEBUG_CONSOLE: Cure = Cure {
    title: "Use a firmware without debug output",
    change: "use a firmware without debug output, or remove the debug console",
    switches: &[],
    settings: &[qemu("(without) -device isa-debugcon,iobase=0x402")],
    xen: "use a release build of the firmware",
    helps: CureCondition::Outside,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "no debug output of the firmware",
    payer: NOBODY,
};

static VMPORT: Cure = Cure {
    title: "Remove VMware's backdoor port",
    change: "remove VMware's backdoor: something in the guest uses it, as its mouse driver and open-vm-tools do",
    switches: &[],
    settings: &[libvirt("features", "<vmport state='off'/>"), qemu("-machine vmport=off")],
    xen: "remove open-vm-tools and the driver vmmouse from the guest",
    helps: CureCondition::Outside,
    least: Least::All,
    acts: Acts::AtStart,
    risk: "open-vm-tools in the guest stop working; they have no use on KVM",
    payer: NOBODY,
};
