//! What can be done about a port, an address or an MSR that a guest asks for too often: a table.
//!
//! Where devices are: QEMU's machines pc and q35. Elements and options: libvirt's formatdomain, QEMU's documentation of
//! machine and CPU properties and of its Hyper-V enlightenments.

use super::judgement::Setting;
use super::msr_cures::MSRS;
use exitscope_model::DetailKind;
use std::borrow::Cow;

/// A device, or a group of registers, that guests ask for.
#[derive(Debug)]
pub(super) struct Source {
    pub kind: DetailKind,
    /// First and last port, address, MSR or leaf.
    pub range: (u64, u64),
    /// Rows of the same name are one source.
    pub name: &'static str,
    pub answer: Answer,
}

/// What to do about it.
#[derive(Debug)]
pub(super) enum Answer {
    /// A change.
    Cure(&'static Cure),
    /// Nothing, for this reason.
    Leave(&'static str),
}

/// When a change helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helps {
    /// Whoever answers.
    Always,
    /// Whoever answers, if the processor can do it.
    WithHardware,
    /// Where user space answers: the exits go away.
    Outside,
    /// Where user space answers: the kernel then does.
    ByMovingIn,
}

/// A change that makes a guest ask less often, or less dearly.
#[derive(Debug)]
pub(super) struct Cure {
    pub change: &'static str,
    pub settings: &'static [Setting],
    /// The same for a guest of Xen's.
    pub xen: &'static str,
    /// When it helps.
    pub helps: Helps,
    pub risk: &'static str,
    pub payer: &'static str,
}

/// Undoing, and when it acts, of everything that a VM is started with.
pub(super) const UNDO: &str = "take the lines out again and restart the VM";
pub(super) const ACTS: &str = "when the VM is started anew";

pub(super) const NOBODY: &str = "nobody";

pub(super) const fn libvirt(within: &'static str, xml: &'static str) -> Setting {
    Setting::Libvirt { within, xml: Cow::Borrowed(xml) }
}

pub(super) const fn qemu(option: &'static str) -> Setting {
    Setting::Qemu(Cow::Borrowed(option))
}

pub(super) const fn by_hand(text: &'static str) -> Setting {
    Setting::ByHand(Cow::Borrowed(text))
}

const fn port(first: u64, last: u64, name: &'static str, answer: Answer) -> Source {
    Source { kind: DetailKind::Port, range: (first, last), name, answer }
}

const fn memory(first: u64, last: u64, name: &'static str, answer: Answer) -> Source {
    Source { kind: DetailKind::Mmio, range: (first, last), name, answer }
}

use Answer::{Cure as C, Leave};

/// The source of a detail, on a machine that `uname -m` calls `arch`; what does not say (Xen, text) is x86.
pub(super) fn source(arch: &str, kind: DetailKind, key: u64) -> Option<&'static Source> {
    let rows: &[&[Source]] = match arch {
        "aarch64" => &[VIRT],
        _ if arch.is_empty() || arch.starts_with("x86") || arch.starts_with("i") => &[DEVICES, MSRS],
        _ => &[],
    };
    rows.iter().copied().flatten().find(|row| row.kind == kind && (row.range.0..=row.range.1).contains(&key))
}

/// QEMU's machine virt on Arm.
static VIRT: &[Source] = &[memory(0x900_0000, 0x900_0fff, "serial port", C(&SERIAL))];

static DEVICES: &[Source] = &[
    memory(0xfed0_0000, 0xfed0_0fff, "HPET", C(&HPET)),
    port(0x608, 0x60b, "ACPI PM timer", C(&PM_TIMER)),
    port(0xb008, 0xb00b, "ACPI PM timer", C(&PM_TIMER)),
    port(0x70, 0x71, "RTC", C(&RTC)),
    port(0x40, 0x43, "PIT", C(&PIT)),
    port(0x61, 0x61, "PIT", C(&PIT)),
    port(0x20, 0x21, "interrupt controller", C(&IRQCHIP)),
    port(0xa0, 0xa1, "interrupt controller", C(&IRQCHIP)),
    port(0x4d0, 0x4d1, "interrupt controller", C(&IRQCHIP)),
    memory(0xfec0_0000, 0xfec0_0fff, "interrupt controller", C(&IRQCHIP)),
    memory(0xfee0_0000, 0xfee0_0fff, "local APIC", C(&LOCAL_APIC)),
    port(0x2e8, 0x2ef, "serial port", C(&SERIAL)),
    port(0x2f8, 0x2ff, "serial port", C(&SERIAL)),
    port(0x3e8, 0x3ef, "serial port", C(&SERIAL)),
    port(0x3f8, 0x3ff, "serial port", C(&SERIAL)),
    port(0x60, 0x60, "keyboard controller", C(&KEYBOARD)),
    port(0x64, 0x64, "keyboard controller", C(&KEYBOARD)),
    port(0x80, 0x80, "delay port 0x80", C(&DELAY)),
    port(0x170, 0x177, "IDE disk", C(&IDE)),
    port(0x1f0, 0x1f7, "IDE disk", C(&IDE)),
    port(0x376, 0x376, "IDE disk", C(&IDE)),
    port(0x3f6, 0x3f6, "IDE disk", C(&IDE)),
    port(0x3f0, 0x3f5, "floppy controller", C(&FLOPPY)),
    port(0x3f7, 0x3f7, "floppy controller", C(&FLOPPY)),
    port(0x3b0, 0x3df, "VGA", C(&VGA)),
    memory(0xa_0000, 0xb_ffff, "VGA", C(&VGA)),
    port(0x402, 0x402, "firmware's debug console", C(&DEBUG_CONSOLE)),
    port(0x5658, 0x5659, "VMware backdoor", C(&VMPORT)),
    port(0x510, 0x51b, "fw_cfg", Leave("firmware and kernels read it while they boot; nothing to set")),
    port(0xcf8, 0xcff, "PCI configuration", Leave("enumeration at boot, and drivers that start; nothing to set")),
    memory(0xfed4_0000, 0xfed4_4fff, "TPM", Leave("a TPM that is in use; nothing to set but to take it away")),
];

static HPET: Cure = Cure {
    change: "take the HPET away: the guest then keeps time with the TSC, kvm-clock or Hyper-V's timers, without exits \
        to user space",
    settings: &[libvirt("clock", "<timer name='hpet' present='no'/>"), qemu("-machine hpet=off")],
    xen: "hpet=0 in the domain's xl.cfg",
    helps: Helps::Outside,
    risk: "a guest without any other good clock (old, without kvm-clock and Hyper-V's timers) falls back to the PIT \
        or the PM timer; for Windows offer hypervclock at the same time",
    payer: NOBODY,
};

static PM_TIMER: Cure = Cure {
    change: "offer the guest a clock that it reads without an exit (kvm-clock for Linux, Hyper-V's reference TSC for \
        Windows): it reads the ACPI PM timer as its clock",
    settings: &[
        libvirt("clock", "<timer name='kvmclock' present='yes'/>"),
        libvirt("clock", "<timer name='hypervclock' present='yes'/>"),
        qemu("-cpu host,kvmclock=on,hv-time=on"),
        by_hand(
            "in a Linux guest: echo kvm-clock > /sys/devices/system/clocksource/clocksource0/current_clocksource (or \
                tsc); dmesg says why it left the TSC",
        ),
    ],
    xen: "in a Linux guest: echo xen (or tsc) > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    helps: Helps::Always,
    risk: "a guest left the TSC because it found it unstable: see to that first (constant TSC, no migration between \
        hosts of other frequencies)",
    payer: NOBODY,
};

static RTC: Cure = Cure {
    change: "offer Hyper-V's timers: a Windows guest without them runs on the periodic interrupt of the RTC and reads \
        its registers each time",
    settings: &[
        libvirt("clock", "<timer name='hypervclock' present='yes'/>"),
        libvirt("features/hyperv", "<vpindex state='on'/>"),
        libvirt("features/hyperv", "<synic state='on'/>"),
        libvirt("features/hyperv", "<stimer state='on'/>"),
        qemu("-cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer"),
        by_hand("a Linux guest has no use for the RTC while it runs: look for a program that reads /dev/rtc0"),
    ],
    xen: "viridian=1 in the domain's xl.cfg, for Windows guests",
    helps: Helps::Outside,
    risk: "Windows may have to be started once more before it uses them",
    payer: NOBODY,
};

static PIT: Cure = Cure {
    change: "let KVM answer for the PIT instead of user space",
    settings: &[qemu("-machine kernel_irqchip=on"), libvirt("features", "<ioapic driver='kvm'/>")],
    xen: "keep the guest from the PIT: a Linux guest with clocksource=xen or tsc",
    helps: Helps::ByMovingIn,
    risk: "VFIO with posted interrupts and interrupt remapping for more than 255 vCPUs need the split irqchip",
    payer: NOBODY,
};

static IRQCHIP: Cure = Cure {
    change: "let KVM be the interrupt controllers instead of user space",
    settings: &[qemu("-machine kernel_irqchip=on"), libvirt("features", "<ioapic driver='kvm'/>")],
    xen: "use event channels instead of emulated interrupts: PVH, or PV drivers in an HVM guest",
    helps: Helps::ByMovingIn,
    risk: "interrupt remapping for more than 255 vCPUs needs the split irqchip",
    payer: NOBODY,
};

static LOCAL_APIC: Cure = Cure {
    change: "let the guest use x2APIC, and the processor its APIC virtualisation: it reaches its local APIC through \
        memory, with an exit each time",
    settings: &[
        qemu("-cpu host,x2apic=on"),
        libvirt("cpu", "<feature policy='require' name='x2apic'/>"),
        by_hand(
            "on the host: /sys/module/kvm_intel/parameters/enable_apicv or /sys/module/kvm_amd/parameters/avic must \
                say Y or 1",
        ),
    ],
    xen: "x2apic is offered by default: a Linux guest without nox2apic uses it",
    helps: Helps::WithHardware,
    risk: "none known for guests that boot with it",
    payer: NOBODY,
};

static SERIAL: Cure = Cure {
    change: "move the console from the emulated serial port to a paravirtual one: each byte, and each look whether \
        the port is ready, is an exit to the device model",
    settings: &[
        libvirt("devices", "<console type='pty'><target type='virtio'/></console>"),
        qemu("-device virtio-serial-pci -chardev pty,id=console0 -device virtconsole,chardev=console0"),
        Setting::GuestBoot("console=hvc0"),
        by_hand("or say less: quiet, loglevel=4, no debug output of services on the console"),
    ],
    xen: "use the PV console: console=hvc0 in the guest",
    helps: Helps::Outside,
    risk: "firmware and boot loaders go on using the serial port; messages from before the driver is up are missing \
        on hvc0",
    payer: NOBODY,
};

static KEYBOARD: Cure = Cure {
    change: "take the keyboard controller away: the guest polls it",
    settings: &[
        libvirt("features", "<ps2 state='off'/>"),
        qemu("-machine i8042=off"),
        Setting::GuestBoot("i8042.noaux i8042.nokbd"),
    ],
    xen: "i8042.noaux i8042.nokbd on the guest kernel's command line",
    helps: Helps::Outside,
    risk: "no PS/2 keyboard and mouse: use USB or virtio input where there is a display; some guests reboot through it; needs \
        QEMU 7.0 and libvirt 10.7 or later",
    payer: NOBODY,
};

static DELAY: Cure = Cure {
    change: "tell the guest's kernel not to wait by writing port 0x80",
    settings: &[Setting::GuestBoot("io_delay=none")],
    xen: "io_delay=none on the guest kernel's command line",
    helps: Helps::Always,
    risk: "none for emulated devices, which need no pauses",
    payer: NOBODY,
};

static IDE: Cure = Cure {
    change: "move the disk to virtio: an IDE request takes many port accesses, and each is an exit to the device model",
    settings: &[
        libvirt("devices", "<disk …><target dev='vda' bus='virtio'/></disk>"),
        qemu("-drive file=…,if=none,id=disk0 -object iothread,id=io0 -device virtio-blk-pci,drive=disk0,iothread=io0"),
    ],
    xen: "use the PV disk driver (xvda)",
    helps: Helps::Outside,
    risk: "the guest needs the virtio driver before its disk moves (Windows: virtio-win), and names of disks change",
    payer: "a thread of the host for the I/O",
};

static FLOPPY: Cure = Cure {
    change: "take the floppy controller away: the guest polls it",
    settings: &[
        qemu("-nodefaults"),
        by_hand("libvirt: remove <controller type='fdc'/> and the disk with device='floppy'"),
    ],
    xen: "blacklist the module floppy in the guest",
    helps: Helps::Outside,
    risk: "no floppy drive",
    payer: NOBODY,
};

static VGA: Cure = Cure {
    change: "use a virtio display, or none: the guest draws through VGA's ports and window, an exit for each access",
    settings: &[
        libvirt("devices", "<video><model type='virtio'/></video>"),
        qemu("-vga none -device virtio-gpu-pci"),
        Setting::GuestBoot("console=hvc0"),
    ],
    xen: "a PV framebuffer, or no display: vga=\"none\" in the domain's xl.cfg",
    helps: Helps::Outside,
    risk: "the guest needs the driver; firmware without it shows nothing",
    payer: NOBODY,
};

static DEBUG_CONSOLE: Cure = Cure {
    change: "use a firmware without debug output, or take the debug console away",
    settings: &[qemu("(without) -device isa-debugcon,iobase=0x402")],
    xen: "use a release build of the firmware",
    helps: Helps::Outside,
    risk: "no debug output of the firmware",
    payer: NOBODY,
};

static VMPORT: Cure = Cure {
    change: "take VMware's backdoor away: the guest believes that it runs on VMware and polls the mouse through it",
    settings: &[libvirt("features", "<vmport state='off'/>"), qemu("-machine vmport=off")],
    xen: "take open-vm-tools and the driver vmmouse out of the guest",
    helps: Helps::Outside,
    risk: "open-vm-tools in the guest stop working; they have no use on KVM",
    payer: NOBODY,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_that_people_complain_about_are_in_the_table() {
        for (kind, key, name) in [
            (DetailKind::Mmio, 0xfed0_0000, "HPET"),
            (DetailKind::Port, 0x608, "ACPI PM timer"),
            (DetailKind::Port, 0xb008, "ACPI PM timer"),
            (DetailKind::Port, 0x71, "RTC"),
            (DetailKind::Port, 0x43, "PIT"),
            (DetailKind::Msr, 0x4000_00b0, "Hyper-V synthetic timers"),
            (DetailKind::Msr, 0x6e0, "timer"),
            (DetailKind::Cpuid, 0x8000_0008, "CPUID"),
        ] {
            assert_eq!(source("x86_64", kind, key).map(|row| row.name), Some(name), "{key:#x}");
        }
        assert!(source("x86_64", DetailKind::Port, 0x1234).is_none());
        assert!(source("aarch64", DetailKind::Mmio, 0xfed0_0000).is_none(), "no HPET on Arm");
    }

    #[test]
    fn every_setting_is_spelled_as_qemu_and_libvirt_do() {
        for row in DEVICES.iter().chain(MSRS).chain(VIRT) {
            let Answer::Cure(cure) = &row.answer else { continue };
            let wrong: Vec<String> = cure.settings.iter().flat_map(super::super::spelling::misspelt).collect();
            assert_eq!(wrong, Vec::<String>::new(), "{}", row.name);
        }
    }

    #[test]
    fn no_two_rows_claim_the_same_place() {
        let rows: Vec<&Source> = DEVICES.iter().chain(MSRS).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(row.range.0 <= row.range.1, "{}", row.name);
            for other in &rows[at + 1..] {
                let apart = row.range.1 < other.range.0 || other.range.1 < row.range.0;
                assert!(row.kind != other.kind || apart, "{} and {}", row.name, other.name);
            }
        }
    }
}
