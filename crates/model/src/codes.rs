//! Exit codes: a reason's number together with whose list it is from, and the names of both.

mod subject_names;
pub mod tables;
mod unlisted;

use crate::Architecture;
pub(crate) use subject_names::DEVICE_VECTORS;
pub use subject_names::{
    HostVectorKind, REGION_BITS, detail_name, has_known_vectors, host_vector_kind, is_of_pcs, vector_name,
};
use tables as t;

/// Whose list of exit reasons a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CodeList {
    /// Intel VMX basic exit reasons (`kvm_exit.isa` 1).
    Vmx,
    /// AMD SVM exit codes (`kvm_exit.isa` 2).
    Svm,
    /// arm64 `kvm_exit.ret` other than TRAP.
    Arm64Exit,
    /// arm64 exception class (`kvm_exit.esr_ec`).
    Arm64Ec,
    /// s390 interception code.
    S390,
    /// powerpc Book 3S interrupt vector (`trap`, and `exit_nr` of kvm_pr).
    PpcTrap,
    /// powerpc Book E exit number.
    PpcBooke,
    /// riscv scause.
    Riscv,
    /// loongarch exception code.
    Loongarch,
    /// KVM's own `KVM_EXIT_*`: used where the back end never fires `kvm_exit`.
    KvmExit,
    /// A name that no table knows, from a text trace.
    Text,
}

impl CodeList {
    /// The architecture of a host that has these, as far as they tell it.
    pub const fn architecture(self) -> Option<Architecture> {
        match self {
            CodeList::Vmx | CodeList::Svm => Some(Architecture::X86),
            CodeList::Arm64Exit | CodeList::Arm64Ec => Some(Architecture::Arm64),
            CodeList::S390 => Some(Architecture::S390),
            CodeList::PpcTrap | CodeList::PpcBooke => Some(Architecture::Powerpc),
            CodeList::Riscv => Some(Architecture::Riscv),
            CodeList::Loongarch => Some(Architecture::Loongarch),
            CodeList::KvmExit | CodeList::Text => None,
        }
    }

    /// Numbers and names of its codes; those of KVM's own without `KVM_EXIT_`.
    const fn table(self) -> Option<&'static [(u64, &'static str)]> {
        Some(match self {
            CodeList::Vmx => t::VMX,
            CodeList::Svm => t::SVM,
            CodeList::Arm64Exit => t::ARM64_EXIT,
            CodeList::Arm64Ec => t::ARM64_EC,
            CodeList::S390 => t::S390_ICPT,
            CodeList::PpcTrap => t::PPC_TRAP,
            CodeList::PpcBooke => t::PPC_BOOKE,
            CodeList::Riscv => t::RISCV,
            CodeList::Loongarch => t::LOONGARCH,
            CodeList::KvmExit => t::KVM_EXIT,
            CodeList::Text => return None,
        })
    }

    /// The lists that have names, for people: all but [`CodeList::Text`], which is the last.
    pub const NAMES: [(&str, CodeList); CodeList::Text as usize] = [
        ("vmx", CodeList::Vmx),
        ("svm", CodeList::Svm),
        ("arm64", CodeList::Arm64Exit),
        ("arm64_ec", CodeList::Arm64Ec),
        ("s390", CodeList::S390),
        ("book3s", CodeList::PpcTrap),
        ("booke", CodeList::PpcBooke),
        ("riscv", CodeList::Riscv),
        ("loongarch", CodeList::Loongarch),
        ("kvm", CodeList::KvmExit),
    ];
}

/// Why a virtual CPU left its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitCode {
    /// Whose number it is.
    pub list: CodeList,
    /// The number, as the event has it. VMX's holds bits beside the basic reason; see [`ExitCode::basic`].
    pub number: u64,
    /// Whether it is a nested guest, L2, that it left, and not the guest that the recorded hypervisor runs, L1.
    pub nested: bool,
}

/// What follows a reason's name where a nested guest was left.
const NESTED: &str = " (L2)";

/// The bits of a VMX exit reason that are the basic reason: `kvm_print_exit_reason` of `arch/x86/kvm/trace.h`.
const VMX_BASIC: u64 = 0xffff;

/// `KVM_EXIT_UNKNOWN` of `include/uapi/linux/kvm.h`, with which `KVM_RUN` begins.
pub const KVM_EXIT_UNKNOWN: u32 = 0;
/// `KVM_EXIT_HLT` of the same: the guest halts, and its local APIC is in user space.
pub const KVM_EXIT_HLT: u32 = 5;
/// `KVM_EXIT_INTR`: a signal ended `KVM_RUN`.
pub const KVM_EXIT_INTR: u32 = 10;
/// `KVM_EXIT_MEMORY_FAULT`, alone of all reasons, comes with an error: -EFAULT or -EHWPOISON (Documentation/virt/kvm/api.rst).
pub const KVM_EXIT_MEMORY_FAULT: u32 = 39;
/// `KVM_EXIT_SHUTDOWN`, `KVM_EXIT_S390_RESET` and `KVM_EXIT_SYSTEM_EVENT`: the guest has failed, or wants its VM powered off or
/// begun anew; the VMM then stops all vCPUs (`qemu_system_shutdown_request`, `qemu_system_reset_request`).
pub const ENDS: [u32; 3] = [8, 14, 24];
/// `__HYPERVISOR_sched_op` of `xen/include/public/xen.h`.
pub const SCHED_OP: u64 = 29;

/// `KVM_HC_KICK_CPU` of `include/uapi/linux/kvm_para.h`: its arguments are flags and the number of the local APIC that is woken
/// (`____kvm_emulate_hypercall` of `arch/x86/kvm/x86.c`).
pub const KICK_CPU: u64 = 5;

/// Of `errno`, where a signal has ended `KVM_RUN`, and where user space had asked it to end (`immediate_exit`).
pub const EINTR: i32 = -4;
/// See [`EINTR`].
pub const EAGAIN: i32 = -11;
/// A memory fault that KVM could not resolve.
pub const EFAULT: i32 = -14;
/// The same, of memory that has failed.
pub const EHWPOISON: i32 = -133;

/// Set in the number of a code of [`CodeList::KvmExit`] that is no reason but the error with which `KVM_RUN` failed.
const FAILED: u64 = 1 << 16;

/// What comes before the error's name in that of the code.
const FAILED_WITH: &str = "KVM_RUN ";

/// Errors that `KVM_RUN` is known to return, but for those of signals: `errno.h`.
const ERRORS: &[(u64, &str)] = &[
    (1, "EPERM"),
    (5, "EIO"),
    (6, "ENXIO"),
    (8, "ENOEXEC"),
    (12, "ENOMEM"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (22, "EINVAL"),
    (38, "ENOSYS"),
    (95, "EOPNOTSUPP"),
    (133, "EHWPOISON"),
];

/// What user space has a vCPU for, which says what a sleep there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserStay {
    /// The VMM wants it for itself: a signal has ended `KVM_RUN`, or user space had asked it to end (`immediate_exit`).
    Kicked,
    /// The guest has halted.
    Halted,
    /// The guest has asked for something, or something went wrong.
    Served,
}

impl UserStay {
    /// By the fields of `kvm_userspace_exit`.
    pub const fn of(reason: u32, errno: i32) -> UserStay {
        match (errno, reason) {
            (EINTR | EAGAIN, _) | (0.., KVM_EXIT_INTR) => UserStay::Kicked,
            (0.., KVM_EXIT_HLT) => UserStay::Halted,
            _ => UserStay::Served,
        }
    }
}

/// Reasons of Intel's and AMD's for the same, where their names are not: who writes one for a recording of the other means it.
const SAME: &[(&str, &str)] = &[
    ("IO_INSTRUCTION", "io"),
    ("MSR_READ", "msr"),
    ("MSR_WRITE", "msr"),
    ("EXTERNAL_INTERRUPT", "interrupt"),
    ("INTERRUPT_WINDOW", "vintr"),
    ("EPT_VIOLATION", "npf"),
    ("EPT_MISCONFIG", "npf"),
    ("VMCALL", "hypercall"),
    ("PAUSE_INSTRUCTION", "pause"),
];

/// Whether a reason of this name is meant by `wanted`: without regard to case, and by either vendor's word.
pub fn is_called(name: &str, wanted: &str) -> bool {
    let are = |one: &str, other: &str| name.eq_ignore_ascii_case(one) && wanted.eq_ignore_ascii_case(other);
    name.eq_ignore_ascii_case(wanted) || SAME.iter().any(|(vmx, svm)| are(vmx, svm) || are(svm, vmx))
}

impl ExitCode {
    /// A signal ended `KVM_RUN`.
    pub const INTR: ExitCode = ExitCode::new(CodeList::KvmExit, KVM_EXIT_INTR as u64);

    /// The code `number` of `list`.
    pub const fn new(list: CodeList, number: u64) -> ExitCode {
        ExitCode { list, number, nested: false }
    }

    /// The same, of a nested guest.
    pub const fn of_nested(self) -> ExitCode {
        ExitCode { nested: true, ..self }
    }

    /// Why `KVM_RUN` returned, by the fields of `kvm_userspace_exit`. A signal ends it with -EINTR, a failure with another error;
    /// `reason` is then left over from an earlier exit, but for a memory fault.
    pub const fn of_userspace(reason: u32, errno: i32) -> ExitCode {
        let number = match (errno, reason) {
            (0.., _) | (EFAULT | EHWPOISON, KVM_EXIT_MEMORY_FAULT) => reason as u64,
            (EINTR | EAGAIN, _) => KVM_EXIT_INTR as u64,
            _ => FAILED | (errno.unsigned_abs() as u64 & (FAILED - 1)),
        };
        ExitCode::new(CodeList::KvmExit, number)
    }

    /// Whether `KVM_RUN` returned for a memory fault that KVM could not resolve: the reason says so, or the error does, where text
    /// prints no reason beside it.
    pub const fn is_unresolved_fault(self) -> bool {
        const REASON: u64 = KVM_EXIT_MEMORY_FAULT as u64;
        const FAULT: u64 = FAILED | EFAULT.unsigned_abs() as u64;
        const POISON: u64 = FAILED | EHWPOISON.unsigned_abs() as u64;
        matches!(self.list, CodeList::KvmExit) && matches!(self.number, REASON | FAULT | POISON)
    }

    /// The same of a return after a fault of the guest's. `KVM_RUN` begins with the reason KVM_EXIT_UNKNOWN (`vcpu_run` of
    /// arch/x86/kvm/x86.c, `kvm_arch_vcpu_ioctl_run` of arch/arm64/kvm/arm.c), which no fault sets: it failed, and libtraceevent's
    /// text has the reason in place of the error.
    pub(crate) const fn leaves_fault_unresolved(self) -> bool {
        const UNKNOWN: ExitCode = ExitCode::new(CodeList::KvmExit, 0);
        self.is_unresolved_fault() || matches!(self, UNKNOWN)
    }

    /// What such a fault is called, by the number of its code.
    pub(crate) fn memory_fault_name(number: u64) -> Option<&'static str> {
        match number {
            0 => Some("an error"),
            number if number == u64::from(KVM_EXIT_MEMORY_FAULT) => Some("private, or shared"),
            _ => lookup(ERRORS, number ^ FAILED),
        }
    }

    /// The code without the bits that VMX sets beside the basic reason: a failed entry, a bus lock, an enclave.
    #[inline(always)]
    pub const fn basic(self) -> ExitCode {
        match self.list {
            CodeList::Vmx => ExitCode { number: self.number & VMX_BASIC, ..self },
            _ => self,
        }
    }

    /// Its list and basic number.
    #[inline(always)]
    const fn key(self) -> (CodeList, u64) {
        let basic = self.basic();
        (basic.list, basic.number)
    }

    /// The kernel's name for the reason; a number, as the kernel prints it, where it has none. VMX's bits beside the basic
    /// reason follow it: `EPT_VIOLATION FAILED_VMENTRY`, `EXCEPTION_NMI 0x20000`. Then comes whether it is a nested guest's:
    /// `HLT (L2)`.
    pub fn name(self) -> String {
        let mut name = self.basic().basic_name();
        let bits = self.number & !self.basic().number;
        let mut unnamed = bits;
        for &(bit, flag) in t::VMX_FLAGS.iter().filter(|row| bits & row.0 != 0) {
            name.push(' ');
            name.push_str(flag);
            unnamed &= !bit;
        }
        if unnamed != 0 {
            name.push_str(&format!(" {unnamed:#x}"));
        }
        if self.nested {
            name.push_str(NESTED);
        }
        name
    }

    /// The code of a name that no list has, from a trace that is text.
    pub fn of_unlisted(name: &str) -> ExitCode {
        ExitCode::new(CodeList::Text, unlisted::number(name))
    }

    fn basic_name(self) -> String {
        let Some(table) = self.list.table() else { return unlisted::name(self.number) };
        if self.list == CodeList::KvmExit && self.number & FAILED != 0 {
            let errno = self.number & (FAILED - 1);
            return lookup(ERRORS, errno)
                .map_or(format!("{FAILED_WITH}errno {errno}"), |name| format!("{FAILED_WITH}{name}"));
        }
        match lookup(table, self.number) {
            Some(name) if self.list == CodeList::KvmExit => format!("KVM_EXIT_{name}"),
            Some(name) => name.to_string(),
            None => format!("{:#x}", self.number),
        }
    }

    /// Whether the virtual CPU may have to wait for Xen's device model: port and memory accesses, page faults of
    /// emulated memory, hypercalls.
    pub const fn may_wait_for_device_model(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 0 | 18 | 30 | 44 | 48 | 49) | (CodeList::Svm, 0x4e | 0x7b | 0x81 | 0x400))
    }

    /// Whether it is an access to a port.
    pub const fn is_port_access(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 30) | (CodeList::Svm, 0x7b))
    }

    /// Whether it is an access to a port or to emulated memory: the virtual CPU blocks for nothing but its device model.
    pub const fn is_access(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 30 | 44 | 48 | 49) | (CodeList::Svm, 0x7b | 0x400))
    }

    /// The code of `list` that has this name, for traces that are text: as [`ExitCode::name`] and the kernel print it.
    pub fn from_name(list: CodeList, name: &str) -> Option<ExitCode> {
        let (basic, flags) = match (list, name.split_once(' ')) {
            (CodeList::Vmx, Some((basic, flags))) => (basic, ExitCode::vmx_flags(flags)?),
            _ => (name, 0),
        };
        let basic = ExitCode::from_basic_name(list, basic)?;
        Some(ExitCode { number: basic.number | flags, ..basic })
    }

    /// The codes that are called so in any list, without regard to case or to riscv's `EXC_`: tools print names of tables of their own, as
    /// kvm_stat the `HLT` of SVM.
    pub fn called(name: &str) -> impl Iterator<Item = ExitCode> + '_ {
        let lists = CodeList::NAMES.iter().map(|row| row.1).filter(|list| *list != CodeList::KvmExit);
        lists.filter_map(move |list| {
            let is_called = |known: &str| known.trim_start_matches("EXC_").eq_ignore_ascii_case(name);
            let row = list.table()?.iter().find(|row| is_called(row.1))?;
            Some(ExitCode::new(list, row.0))
        })
    }

    /// The bits that these words name, as `__print_flags` with VMX's flags and a space between them: names, and what has none as
    /// one hexadecimal number.
    pub fn vmx_flags(words: &str) -> Option<u64> {
        let mut bits = 0;
        for word in words.split_whitespace() {
            let named = t::VMX_FLAGS.iter().find(|row| row.1 == word).map(|row| row.0);
            let number = || u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
            bits |= named.or_else(number).filter(|bits| bits & VMX_BASIC == 0 && *bits <= u64::from(u32::MAX))?;
        }
        Some(bits)
    }

    fn from_basic_name(list: CodeList, name: &str) -> Option<ExitCode> {
        let table = list.table()?;
        if let (CodeList::KvmExit, Some(error)) = (list, name.strip_prefix(FAILED_WITH)) {
            let named = ERRORS.iter().find(|row| row.1 == error).map(|row| row.0);
            let errno = named.or_else(|| error.strip_prefix("errno ")?.parse().ok().filter(|errno| *errno < FAILED))?;
            return Some(ExitCode::new(list, FAILED | errno));
        }
        let name = match list {
            CodeList::KvmExit => name.strip_prefix("KVM_EXIT_").unwrap_or(name),
            _ => name,
        };
        let number = match table.iter().find(|row| row.1 == name) {
            Some(row) => row.0,
            None => u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()?,
        };
        Some(ExitCode::new(list, number))
    }

    /// Whether any list has a reason of this name, without regard to case, or the name is a number; a nested guest's, or not.
    pub fn is_known(name: &str) -> bool {
        let level = name.len().saturating_sub(NESTED.len());
        let is_nested = name.get(level..).is_some_and(|end| end.eq_ignore_ascii_case(NESTED));
        let name = if is_nested { &name[..level] } else { name };
        let after = |start: &str| {
            name.get(..start.len()).filter(|begin| begin.eq_ignore_ascii_case(start)).map(|begin| &name[begin.len()..])
        };
        let user = after("KVM_EXIT_");
        let has = |table: &[(u64, &str)], name: &str| table.iter().any(|row| row.1.eq_ignore_ascii_case(name));
        let vmx = || {
            let (basic, flags) = name.split_once(' ')?;
            (has(t::VMX, basic) && ExitCode::vmx_flags(&flags.to_ascii_uppercase().replace("0X", "0x")).is_some())
                .then_some(())
        };
        let named = || CodeList::NAMES.iter().filter(|row| row.1 != CodeList::KvmExit).filter_map(|row| row.1.table());
        named().any(|table| has(table, name))
            || vmx().is_some()
            || user.is_some_and(|name| has(t::KVM_EXIT, name))
            || after(FAILED_WITH).is_some_and(|error| has(ERRORS, error))
            || after("KVM_RUN errno ").is_some_and(|errno| errno.parse::<u16>().is_ok())
            || name.strip_prefix("0x").is_some_and(|hex| u64::from_str_radix(hex, 16).is_ok())
    }

    /// Whether the guest halts with it: HLT, SVM's HLT with no interrupt pending (`idle-halt`), WFI, s390's wait state,
    /// LoongArch's `idle`, and where the local APIC is in user space, KVM_EXIT_HLT. Not MWAIT, which KVM runs as a NOP
    /// (`kvm_emulate_mwait` of `arch/x86/kvm/x86.c`). Of WFx the event `kvm_wfx_arm64` says which it was, and powerpc's H_CEDE
    /// leaves no code of its own: the event says `ceded`.
    pub const fn is_halt(self) -> bool {
        matches!(
            self.key(),
            (CodeList::Vmx, 12)
                | (CodeList::Svm, 0x78 | 0xa6)
                | (CodeList::Arm64Ec, 0x01)
                | (CodeList::S390, 0x1c)
                | (CodeList::Loongarch, 64)
                | (CodeList::KvmExit, 5)
        )
    }

    /// Whether no way through it leads KVM to `kvm_vcpu_halt`, as long as user space has no part in it: a halt told within it
    /// shows that events are missing. Of x86, where a halt is asked for by HLT, by a hypercall (Xen's poll), by an entry of a
    /// nested guest with an activity state, by what SEV-ES and TDX guests ask for, or by whatever the emulator runs
    /// (`kvm_emulate_halt`, `kvm_xen_schedop_poll`, `nested_vmx_run`); and faults may wait for pages.
    pub const fn cannot_halt(self) -> bool {
        matches!(
            self.key(),
            (
                CodeList::Vmx,
                1 | 7
                    | 8
                    | 10
                    | 13
                    | 14
                    | 15
                    | 16
                    | 29
                    | 31
                    | 32
                    | 40
                    | 43
                    | 45
                    | 52
                    | 54
                    | 55
                    | 56
                    | 58
                    | 62
                    | 84
                    | 85
            ) | (CodeList::Svm, 0x60 | 0x61 | 0x64 | 0x6e | 0x6f | 0x72 | 0x76 | 0x77 | 0x79 | 0x7c | 0x89 | 0x8d)
                | (CodeList::Svm, 0x401 | 0x402)
        )
    }

    /// Whether no exit for this can be about such a thing, so that one within it shows that events are missing: x86's HLT, for which
    /// `kvm_emulate_halt` does nothing but wait.
    pub const fn cannot_be_about(self, kind: crate::SubjectKind) -> bool {
        use crate::SubjectKind as D;
        matches!(self.key(), (CodeList::Vmx, 12) | (CodeList::Svm, 0x78 | 0xa6))
            && matches!(kind, D::Apic | D::ControlRegister | D::Cpuid | D::Mmio | D::Port | D::Msr | D::Hypercall)
    }

    /// Whether the guest is left for an interrupt of the host's, whose handler runs in the vCPU's thread at once: on VMX before KVM handles
    /// the exit (`vmx_handle_exit_irqoff`), on SVM where interrupts are let through (`vcpu_enter_guest` of arch/x86/kvm/x86.c).
    pub const fn is_host_interrupt(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 1) | (CodeList::Svm, 0x60))
    }

    /// Whether the second stage of translation faulted, or the host's fault is the guest's: a sleep within it waits for a page.
    pub const fn is_page_fault(self) -> bool {
        matches!(
            self.key(),
            (CodeList::Vmx, 48)
                | (CodeList::Svm, 0x400)
                | (CodeList::Arm64Ec, 0x20 | 0x24)
                | (CodeList::Riscv, 20 | 21 | 23)
                | (CodeList::PpcTrap, 0xe00 | 0xe20)
        )
    }

    /// Whether it is VMX's EPT_VIOLATION.
    pub const fn is_ept_violation(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 48))
    }

    /// Whether KVM may handle it at once and enter the guest again without `kvm_entry`: a fast path of VMX in Linux 5.8 to 5.10
    /// (`EXIT_FASTPATH_REENTER_GUEST` in `vmx_vcpu_run` of `arch/x86/kvm/vmx/vmx.c`, which fires `kvm_entry` itself since 5.11,
    /// and in the stable kernels that took "kvm: tracing: Fix unmatched kvm_entry and kvm_exit events").
    pub const fn may_reenter_unsaid(self) -> bool {
        matches!(self.key(), (CodeList::Vmx, 32 | 52))
    }

    /// Whether `KVM_RUN` returned so that user space does an access of this kind. What KVM's own device answered before is not
    /// what such an exit is about: no `kvm_userspace_exit` follows it (`emulator_pio_in_out`, `emulator_read_write` of
    /// `arch/x86/kvm/x86.c`).
    pub const fn hands_over(self, kind: crate::SubjectKind) -> bool {
        let list = matches!(self.list, CodeList::KvmExit);
        match kind {
            // The lab's guests write their diagnoses to a port.
            crate::SubjectKind::Port | crate::SubjectKind::Diag => list && self.number == 2,
            crate::SubjectKind::Mmio => list && self.number == 6,
            crate::SubjectKind::Msr => list && matches!(self.number, 29 | 30),
            crate::SubjectKind::Hypercall => list && self.number == 3,
            _ => false,
        }
    }

    /// Whether a sleep within it is a halt, though it may be about something else: riscv's WFI is one of the instructions that
    /// fault as virtual ones (`kvm_riscv_vcpu_virtual_insn`).
    pub const fn halts_if_it_sleeps(self) -> bool {
        matches!(self.key(), (CodeList::Riscv, 22))
    }
}

/// The name of `number` in a table sorted by number.
pub fn lookup(table: &'static [(u64, &'static str)], number: u64) -> Option<&'static str> {
    table.binary_search_by_key(&number, |row| row.0).ok().map(|at| table[at].1)
}

/// Of Op0, Op1, CRn, CRm and Op2 of an arm64 system register: where each begins in the register's number (`sys_reg()` of
/// `arch/arm64/include/asm/sysreg.h`), where in the ESR of its trap (`ESR_ELx_SYS64_ISS_*` of `arch/arm64/include/asm/esr.h`),
/// and its bits.
const SYSTEM_REGISTER: [(u32, u32, u64); 5] = [(19, 20, 3), (16, 14, 7), (12, 10, 15), (8, 1, 15), (5, 17, 7)];

/// The ESR of a trapped MSR or MRS, but for its register: exception class 0x18, a 32-bit instruction.
const SYSTEM_REGISTER_ESR: u64 = 0x6200_0000;

/// The number of an arm64 system register of these Op0, Op1, CRn, CRm and Op2.
pub const fn system_register(parts: [u64; 5]) -> u64 {
    let (mut register, mut number) = (0, 0);
    while number < parts.len() {
        let (at, _, bits) = SYSTEM_REGISTER[number];
        register += (parts[number] & bits) << at;
        number += 1;
    }
    register
}

/// The system register that a trapped MSR or MRS is about, and whether it writes.
pub fn trapped_system_register(esr: u64) -> (u64, bool) {
    (system_register(SYSTEM_REGISTER.map(|(_, at, _)| esr >> at)), esr & 1 == 0)
}

/// The ESR of such a trap, but for the register that is read into or written from.
pub fn system_register_trap(register: u64, write: bool) -> u64 {
    let parts = SYSTEM_REGISTER.iter().zip(system_register_parts(register));
    parts.fold(SYSTEM_REGISTER_ESR, |esr, (&(_, at, _), part)| esr + (part << at)) + u64::from(!write)
}

/// Op0, Op1, CRn, CRm and Op2 of a system register.
pub fn system_register_parts(register: u64) -> [u64; 5] {
    SYSTEM_REGISTER.map(|(at, _, bits)| register >> at & bits)
}

/// Why a loongarch guest left for a privileged instruction; if it is none that is known, for its privilege.
pub fn loongarch_privileged(instruction: u64) -> ExitCode {
    let row = t::LOONGARCH_PRIVILEGED.iter().find(|row| instruction & row.0 == row.1);
    ExitCode::new(CodeList::Loongarch, row.map_or(22, |row| row.2))
}

/// An instruction for which a loongarch guest leaves with this code; zero if there is none.
pub fn loongarch_instruction(code: ExitCode) -> u64 {
    t::LOONGARCH_PRIVILEGED.iter().find(|row| row.2 == code.number).map_or(0, |row| row.1)
}

/// The decode key of an intercepted s390 instruction, as `icpt_insn_decoder` of `sie.h` makes it.
pub fn s390_instruction_key(instruction: u64) -> u64 {
    let [first, second, .., last, _, _] = instruction.to_be_bytes();
    let key = |second: u8| u64::from(u16::from_be_bytes([first, second]));
    match first {
        0x01 | 0xb2 | 0xb9 | 0xe3 | 0xe5 => key(second),
        0xaa | 0xc8 => key(second & 0xf),
        0xeb => key(last),
        _ => u64::from(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_so_that_binary_search_finds_every_row() {
        for table in [
            t::VMX,
            t::VMX_FLAGS,
            t::SVM,
            t::ARM64_EXIT,
            t::ARM64_EC,
            t::ARM64_SYSTEM_REGISTER,
            t::APIC,
            t::S390_ICPT,
            t::S390_INSN,
            t::S390_SIGP,
            t::S390_DIAG,
            t::S390_PROG,
            t::PPC_TRAP,
            t::PPC_BOOKE,
            t::PPC_HCALL,
            t::RISCV,
            t::LOONGARCH,
            t::KVM_EXIT,
            t::KVM_HYPERCALL,
            t::MSR,
        ] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn a_system_register_is_told_by_its_trap_and_tells_it() {
        // MSR ICC_SGI1R_EL1, x3, and MRS x2, ID_AA64PFR0_EL1.
        for (esr, parts, write) in [(0x623a_3076, [3, 0, 12, 11, 5], true), (0x6230_0049, [3, 0, 0, 4, 0], false)] {
            let register = system_register(parts);
            assert_eq!(trapped_system_register(esr), (register, write));
            assert_eq!(system_register_parts(register), parts);
            assert_eq!(system_register_trap(register, write), esr & !(31 << 5));
        }
    }

    #[test]
    fn privileged_instructions_of_loongarch_are_told_by_their_words() {
        // idle 0; iocsrwr.w $a0, $a1; csrrd $t0, 0x0; cpucfg $a0, $a1; cacop 0x0, $zero, 0; and one that is none of these.
        let words = [0x0648_8000, 0x0648_18a4, 0x0400_000c, 0x0000_6ca4, 0x0600_0000, 0x0649_8000];
        let names = words.map(|word| loongarch_privileged(word).name());
        assert_eq!(names, ["IDLE", "IOCSR", "CSR", "CPUCFG", "CACHE", "Privilege Error"]);
        for word in &words[..5] {
            let code = loongarch_privileged(*word);
            assert_eq!(loongarch_privileged(loongarch_instruction(code)), code);
        }
        assert!(loongarch_privileged(words[0]).is_halt());
    }

    #[test]
    fn names_are_the_kernels_own_and_read_back() {
        let cases = [
            (CodeList::Vmx, 48, "EPT_VIOLATION"),
            (CodeList::Svm, 0x7b, "io"),
            (CodeList::Svm, 0x400, "npf"),
            (CodeList::Svm, 70, "UD excp"),
            (CodeList::Arm64Ec, 0x24, "DABT_LOW"),
            (CodeList::Arm64Exit, 0, "IRQ"),
            (CodeList::PpcTrap, 0xc00, "SYSCALL"),
            (CodeList::PpcTrap, 0xe80, "0xe80"),
            (CodeList::S390, 0x1c, "Wait state"),
            (CodeList::KvmExit, 6, "KVM_EXIT_MMIO"),
        ];
        for (list, number, name) in cases {
            assert_eq!(ExitCode::new(list, number).name(), name);
            assert_eq!(ExitCode::from_name(list, name), Some(ExitCode::new(list, number)));
        }
    }

    #[test]
    fn a_nested_guests_reason_is_another_of_which_the_same_holds() {
        let halt = ExitCode::new(CodeList::Vmx, 0x0400_000c);
        let nested = halt.of_nested();
        assert_eq!((nested.name().as_str(), nested == halt), ("HLT BUS_LOCK_DETECTED (L2)", false));
        assert_eq!((nested.basic().name().as_str(), nested.is_halt()), ("HLT (L2)", true));
        assert!(["hlt (l2)", "npf (L2)", "EPT_VIOLATION (L2)"].into_iter().all(ExitCode::is_known));
        assert!(!["(L2)", " (L2)", "HLT(L2)", "HLT (L3)"].into_iter().any(ExitCode::is_known));
    }

    #[test]
    fn bits_beside_vmx_basic_reason_are_kept_and_named() {
        // Bits and their numbers: union vmx_exit_reason of arch/x86/kvm/vmx/common.h.
        let cases = [
            (0x8000_0021, "INVALID_STATE FAILED_VMENTRY"),
            (0x0800_0001, "EXTERNAL_INTERRUPT ENCLAVE_MODE"),
            (0x0400_0030, "EPT_VIOLATION BUS_LOCK_DETECTED"),
            (0x0c00_000c, "HLT BUS_LOCK_DETECTED ENCLAVE_MODE"),
            (0x0002_0000, "EXCEPTION_NMI 0x20000"),
            (0x8002_004e, "0x4e FAILED_VMENTRY 0x20000"),
        ];
        for (number, name) in cases {
            let code = ExitCode::new(CodeList::Vmx, number);
            assert_eq!(code.name(), name);
            assert_eq!(ExitCode::from_name(CodeList::Vmx, name), Some(code));
            assert_eq!(ExitCode::is_known(name), !name.starts_with("0x"));
            assert_eq!(code.basic().number, number & 0xffff);
        }
        assert!(ExitCode::new(CodeList::Vmx, 0x0400_000c).is_halt());
        assert_eq!(ExitCode::from_name(CodeList::Vmx, "HLT 0x1"), None);
        // SVM's are 32 bits of their own: SVM_EXIT_ERR is no flag.
        assert_eq!(ExitCode::new(CodeList::Svm, 0xffff_ffff).basic().number, 0xffff_ffff);
    }

    #[test]
    fn s390_instructions_are_keyed_as_the_kernel_keys_them() {
        assert_eq!(s390_instruction_key(0xb27d_0000_0000_0000), 0xb27d);
        assert_eq!(s390_instruction_key(0xae01_0000_0000_0000), 0xae);
        assert_eq!(s390_instruction_key(0xeb00_0000_0025_0000), 0xeb25);
        // Of some, four bits of the second byte are a register's number; of those of one byte, all the rest are operands.
        assert_eq!(s390_instruction_key(0xaa73_0000_0000_0000), 0xaa03);
        assert_eq!(s390_instruction_key(0xc8f4_1234_5678_0000), 0xc804);
        assert_eq!(s390_instruction_key(0x0104_0000_0000_0000), 0x0104);
        assert_eq!(s390_instruction_key(0xebff_ffff_ff8a_ffff), 0xeb8a);
        assert_eq!(s390_instruction_key(0xb7ff_ffff_ffff_0000), 0xb7);
    }
}
