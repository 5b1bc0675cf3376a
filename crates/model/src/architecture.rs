//! Architectures of hosts: all that code asks by their name is in their rows.
//!
//! ```text
//! "s390x" (uname -m) ─► Architecture::of ─► S390 ─► row: KVM_RUN's number, the default of halt_poll_ns, …
//! ```
//!
//! A new one does not compile until its row has every column, and each `match` over architectures has its arm.

use exitscope_units::Nanos;

/// What is known of an architecture.
#[derive(Clone, Copy, Debug)]
pub struct ArchitectureRow {
    /// How `uname -m` begins on its machines.
    pub machines: &'static [&'static str],
    /// What a host is called of which exit codes tell only the architecture.
    pub machine: &'static str,
    /// The name of its folder in the kernel's `arch/`.
    pub kernel_name: &'static str,
    /// Whether its machines are big-endian, all of them.
    pub is_big_endian: bool,
    /// The tracepoints at which exits begin: `arch/*/kvm/trace*.h`.
    pub exits: &'static [&'static str],
    /// Those at which they end.
    pub entries: &'static [&'static str],
    /// Whether some of KVM's tracepoints are of the system `kvm_hv`: `arch/powerpc/kvm/trace_hv.h`.
    pub has_kvm_hv: bool,
    /// `KVM_RUN`: `_IO(0xAE, 0x80)` of `include/uapi/linux/kvm.h`. `_IOC_NONE` is 0 in `include/uapi/asm-generic/ioctl.h`, and 1 in
    /// `arch/{powerpc,mips}/include/uapi/asm/ioctl.h`.
    pub kvm_run: u64,
    /// What `halt_poll_ns` is by default: `KVM_HALT_POLL_NS_DEFAULT` of its `kvm_host.h`.
    pub halt_poll_ns: Nanos,
    /// Whether KVM can be a module: a tristate in `arch/*/kvm/Kconfig` (of powerpc KVM_BOOK3S_64), not a bool.
    pub kvm_is_module: bool,
    /// Whether virtual cores poll instead of vCPUs: `kvmppc_vcore_blocked` of `arch/powerpc/kvm/book3s_hv.c`.
    pub vcores_poll: bool,
    /// Whether registers can be in a page that KVM shares with user space: `kvm_vm_ioctl_check_extension` of `arch/x86/kvm/x86.c`
    /// and of `arch/s390/kvm/kvm-s390.c` have KVM_CAP_SYNC_REGS.
    pub shares_registers: bool,
    /// How its vCPUs yield, as far as recordings show it.
    pub yields: &'static str,
}

/// `KVM_RUN` where `_IOC_NONE` is 0, and where it is 1.
const KVM_RUN: [u64; 2] = [0xae80, 0x2000_ae80];

/// Declares the architectures with their rows.
macro_rules! architectures {
    ($($(#[$doc:meta])* $name:ident { $($columns:tt)* })*) => {
        /// An architecture of hosts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Architecture {
            $($(#[$doc])* $name,)*
        }

        impl Architecture {
            /// All.
            pub const ALL: &'static [Architecture] = &[$(Architecture::$name),*];

            /// What is known of it.
            pub const fn row(self) -> &'static ArchitectureRow {
                match self {
                    $(Architecture::$name => &ArchitectureRow { $($columns)* },)*
                }
            }
        }
    };
}

/// The yields of x86's guests and of Xen's, which are also what is looked for where no yield is known.
const X86_YIELDS: &str = "exit of PAUSE, no KVM_HC_SCHED_YIELD and no SCHEDOP_yield";

architectures! {
    /// x86, of 64 and of 32 bits.
    X86 {
        machines: &["x86", "i"],
        machine: "x86",
        kernel_name: "x86",
        is_big_endian: false,
        exits: &["kvm:kvm_exit"],
        entries: &["kvm:kvm_entry"],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[0],
        halt_poll_ns: Nanos(200_000),
        kvm_is_module: true,
        vcores_poll: false,
        shares_registers: true,
        yields: X86_YIELDS,
    }
    /// Arm, of 64 bits.
    Arm64 {
        machines: &["aarch64", "arm64"],
        machine: "aarch64",
        kernel_name: "arm64",
        is_big_endian: false,
        exits: &["kvm:kvm_exit"],
        entries: &["kvm:kvm_entry"],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[0],
        halt_poll_ns: Nanos(500_000),
        kvm_is_module: false,
        vcores_poll: false,
        shares_registers: false,
        yields: "WFE",
    }
    /// RISC-V.
    Riscv {
        machines: &["riscv"],
        machine: "riscv",
        kernel_name: "riscv",
        is_big_endian: false,
        exits: &["kvm:kvm_exit"],
        entries: &["kvm:kvm_entry"],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[0],
        halt_poll_ns: Nanos(500_000),
        kvm_is_module: true,
        vcores_poll: false,
        shares_registers: false,
        yields: X86_YIELDS,
    }
    /// IBM Z.
    S390 {
        machines: &["s390"],
        machine: "s390x",
        kernel_name: "s390",
        is_big_endian: true,
        exits: &["kvm:kvm_s390_sie_exit"],
        entries: &["kvm:kvm_s390_sie_enter"],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[0],
        halt_poll_ns: Nanos(50_000),
        kvm_is_module: true,
        vcores_poll: false,
        shares_registers: true,
        yields: "diagnose X'44' or X'9C'",
    }
    /// POWER, and powerpc of Book E.
    Powerpc {
        machines: &["ppc"],
        machine: "ppc",
        kernel_name: "powerpc",
        is_big_endian: false,
        exits: &["kvm_hv:kvm_guest_exit", "kvm:kvm_exit", "kvm_pr:kvm_exit", "kvm_booke:kvm_exit"],
        entries: &["kvm_hv:kvm_guest_enter", "kvm_pr:kvm_book3s_reenter"],
        has_kvm_hv: true,
        kvm_run: KVM_RUN[1],
        halt_poll_ns: Nanos(10_000),
        kvm_is_module: true,
        vcores_poll: true,
        shares_registers: false,
        yields: "H_CONFER or H_PROD",
    }
    /// LoongArch.
    Loongarch {
        machines: &["loongarch"],
        machine: "loongarch",
        kernel_name: "loongarch",
        is_big_endian: false,
        exits: &["kvm:kvm_exit"],
        entries: &["kvm:kvm_enter", "kvm:kvm_reenter"],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[0],
        halt_poll_ns: Nanos(500_000),
        kvm_is_module: true,
        vcores_poll: false,
        shares_registers: false,
        yields: X86_YIELDS,
    }
    /// MIPS, whose exits nothing reads.
    Mips {
        machines: &["mips"],
        machine: "mips",
        kernel_name: "mips",
        is_big_endian: false,
        exits: &[],
        entries: &[],
        has_kvm_hv: false,
        kvm_run: KVM_RUN[1],
        halt_poll_ns: Nanos(500_000),
        kvm_is_module: true,
        vcores_poll: false,
        shares_registers: false,
        yields: X86_YIELDS,
    }
}

impl Architecture {
    /// That of a machine which `uname -m` calls so; none if it is not known, or empty.
    pub fn of(machine: &str) -> Option<Architecture> {
        let is_of = |of: &&Architecture| of.row().machines.iter().any(|name| machine.starts_with(name));
        Architecture::ALL.iter().find(is_of).copied()
    }

    /// The same; x86 where nothing says which it is.
    pub fn or_x86(machine: &str) -> Architecture {
        Architecture::of(machine).unwrap_or(Architecture::X86)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_of_their_architecture() {
        for (machine, architecture) in [
            ("x86_64", Some(Architecture::X86)),
            ("x86", Some(Architecture::X86)),
            ("i686", Some(Architecture::X86)),
            ("aarch64", Some(Architecture::Arm64)),
            ("s390x", Some(Architecture::S390)),
            ("ppc64le", Some(Architecture::Powerpc)),
            ("ppc64", Some(Architecture::Powerpc)),
            ("riscv64", Some(Architecture::Riscv)),
            ("loongarch64", Some(Architecture::Loongarch)),
            ("mips64", Some(Architecture::Mips)),
            ("alpha", None),
            ("", None),
        ] {
            assert_eq!(Architecture::of(machine), architecture, "{machine}");
        }
    }

    #[test]
    fn the_names_in_a_row_are_of_it_alone() {
        for &architecture in Architecture::ALL {
            let row = architecture.row();
            for name in row.machines.iter().chain([&row.machine, &row.kernel_name]) {
                let of = match *name {
                    // What the kernel calls its folder is no machine's name there.
                    "powerpc" => Architecture::Powerpc,
                    name => Architecture::or_x86(name),
                };
                assert_eq!(of, architecture, "{name}");
            }
        }
    }
}
