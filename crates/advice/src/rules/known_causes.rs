//! Exits of which it is known what they are, and no rule judges them: what they are, and what tells more.
//!
//! ```text
//! DR_ACCESS ─► "debug registers and traps" ─► not judged: what it is; which command tells
//! ```

use crate::cause::{Covered, CureLookup, NamedExits, RuleAnswer, is_about, is_for};
use crate::evidence::faults::is_of_reverse_map;
use crate::evidence::input::AdviceInput;
use crate::judgement::Judgement;
use exitscope_analysis::{ExitCause, SubjectKey};
use exitscope_model::{CodeList, SubjectKind};

/// Exits that are known and not judged.
pub(crate) struct UnjudgedExits {
    pub exits: NamedExits,
    /// What they are.
    pub what: &'static str,
    /// What tells more.
    pub tells: &'static str,
}

const fn row(
    name: &'static str,
    exits: &'static str,
    has: fn(&ExitCause) -> bool,
    what: &'static str,
    tells: &'static str,
) -> UnjudgedExits {
    UnjudgedExits { exits: NamedExits { name, exits, has }, what, tells }
}

/// In the order in which they are looked for, after what rules judge.
pub(crate) static KNOWN: &[UnjudgedExits] = &[
    // `handle_exception_nmi_irqoff` of arch/x86/kvm/vmx/vmx.c runs the host's handler; SVM's is `nmi_interception`.
    row(
        "NMIs of the host",
        "EXCEPTION_NMI with an NMI, nmi",
        |of| is_exception(of, NMI) || is_for(of, CodeList::Svm, &[0x61]),
        "the host's CPU gets an NMI while the guest runs: perf's counters on the host, its watchdog, other CPUs that ask for a \
            backtrace, or its firmware",
        "`grep -E 'NMI|PMI' /proc/interrupts` on the host, twice, some seconds apart; /proc/sys/kernel/nmi_watchdog",
    ),
    // `handle_dr` and `vmx_sync_dirty_debug_regs` of arch/x86/kvm/vmx/vmx.c, `dr_interception` and `svm_sync_dirty_debug_regs` of
    // arch/x86/kvm/svm/svm.c: KVM lets a guest have its debug registers at the first access, and takes them back at the next exit.
    row(
        "debug registers and traps",
        "DR_ACCESS, read_dr0 to write_dr7, EXCEPTION_NMI with #DB or #BP, DB excp, BP excp, icebp, MONITOR_TRAP_FLAG",
        |of| {
            is_exception(of, DB)
                || is_exception(of, BP)
                || is_for(of, CodeList::Vmx, &[29, 37])
                || is_for(of, CodeList::Svm, DEBUG_REGISTERS)
                || is_for(of, CodeList::Svm, &[0x41, 0x43, 0x88])
        },
        "a debugger in the guest, or the VMM's (gdbstub), sets breakpoints or steps: KVM lets the guest have its debug registers from \
            its first access on until it leaves for anything else",
        "KVM_EXIT_DEBUG among the exits to user space is the VMM's debugger; otherwise the rip of the exits shows \
            whose code it is (`report --by rip`)",
    ),
    // KVM_SET_GUEST_DEBUG of Documentation/virt/kvm/api.rst; without `kvm_exit` the trap that it comes of is not recorded.
    row(
        "stops for the VMM's debugger",
        "KVM_EXIT_DEBUG, where there is no kvm_exit",
        |of| is_for(of, CodeList::KvmExit, &[4]),
        "the VMM debugs the guest (QEMU: gdbstub, -s or -gdb), and the vCPU stops at a breakpoint or after a step",
        "who is connected: `info chardev` in QEMU's monitor, `ss -tp` on the host",
    ),
    // `sev_handle_rmp_fault` of arch/x86/kvm/svm/sev.c.
    row(
        "faults of SEV-SNP's reverse map",
        "npf with bit 31 of its error code",
        is_of_reverse_map,
        "the guest accesses a page as private that is shared, or the other way round, or by 4 KiB where the reverse map has 2 MiB: KVM \
            converts the page or splits it",
        "`perf record -e kvm:kvm_rmp_fault -e kvm:kvm_exit` has the page, and whether it is private",
    ),
    // `handle_ud` of arch/x86/kvm/x86.c emulates what it can, as the other vendor's hypercall, and hands the rest back.
    row(
        "instructions that KVM emulates, or the guest does not have",
        "EXCEPTION_NMI with #UD, UD excp",
        |of| is_exception(of, UD) || is_for(of, CodeList::Svm, &[0x46]),
        "the guest runs instructions that its processor does not have, or has only with KVM's help (the other vendor's hypercall, RSM)",
        "`perf record -e kvm:kvm_emulate_insn -e kvm:kvm_exit` has the instruction's bytes",
    ),
    // `vmx_update_exception_bitmap`, `gp_interception` and `svm_set_efer`: #GP exits for nothing else.
    row(
        "general protection faults",
        "EXCEPTION_NMI with #GP, GP excp",
        |of| is_exception(of, GP) || is_for(of, CodeList::Svm, &[0x4d]),
        "the guest's general protection faults exit where KVM emulates VMware's backdoor, on AMD's processors where the guest has \
            guests of its own (an erratum of VMRUN), and on old ones of Intel's in real mode",
        "`cat /sys/module/kvm/parameters/enable_vmware_backdoor` on the host, and the rip of the exits (`report --by rip`)",
    ),
    // `handle_machine_check` of arch/x86/kvm/vmx/vmx.c, `mc_interception` of arch/x86/kvm/svm/svm.c.
    row(
        "machine checks of the host",
        "EXCEPTION_NMI with #MC, MC excp, MCE_DURING_VMENTRY",
        |of| is_exception(of, MC) || is_for(of, CodeList::Vmx, &[41]) || is_for(of, CodeList::Svm, &[0x52]),
        "the host's hardware reports errors while the guest runs",
        "`dmesg | grep -iE 'mce|edac'` on the host, or rasdaemon (`ras-mc-ctl --errors`)",
    ),
    // `handle_notify` of arch/x86/kvm/vmx/vmx.c, KVM_EXIT_NOTIFY where the VMM asks for it; KVM_CAP_X86_NOTIFY_VMEXIT of Documentation/virt/kvm/api.rst.
    row(
        "no window for interrupts",
        "NOTIFY; KVM_EXIT_NOTIFY, where there is no kvm_exit",
        |of| is_for(of, CodeList::Vmx, &[75]) || is_for(of, CodeList::KvmExit, &[37]),
        "the guest took no interrupt for as long as the VMM allows (QEMU: -accel kvm,notify-vmexit=run,notify-window=N): one \
            instruction that does not end, or a window that is too short",
        "the rip of the exits shows which code (`report --by rip` of a recording with kvm_exit)",
    ),
    // `handle_nmi_window` of arch/x86/kvm/vmx/vmx.c, `svm_enable_nmi_window` and `iret_interception` of arch/x86/kvm/svm/svm.c.
    row(
        "NMIs of the guest",
        "NMI_WINDOW, iret",
        |of| is_for(of, CodeList::Vmx, &[8]) || is_for(of, CodeList::Svm, &[0x74]),
        "the guest is to get an NMI and cannot take it yet: its perf, or its watchdog",
        "`grep -E 'NMI|PMI' /proc/interrupts` in the guest, twice, some seconds apart",
    ),
    // `vmx_exec_control` of arch/x86/kvm/vmx/vmx.c clears CPU_BASED_RDTSC_EXITING, SVM's `init_vmcb` asks for RDTSCP alone where
    // the guest's CPUID has none; Xen: `tsc_mode` of docs/man/xen-tscmode.7.pod.
    row(
        "reads of the TSC",
        "RDTSC, RDTSCP, rdtsc, rdtscp",
        |of| is_for(of, CodeList::Vmx, &[16, 51]) || is_for(of, CodeList::Svm, &[0x6e, 0x87]),
        "KVM lets a guest read its TSC without an exit (RDTSCP, where its CPUID has that); Xen emulates it where the VM's tsc_mode \
            says so, or the host's clock is another than the VM's",
        "on Xen, `xl debug-keys s; xl dmesg | tail` lists the VMs whose TSC is emulated; on KVM, the VM's own CPUID (`cpuid -1` in the \
            guest)",
    ),
    // `kvm_emulate_monitor_mwait` of arch/x86/kvm/x86.c: they do nothing; KVM_X86_DISABLE_EXITS_MWAIT.
    row(
        "MONITOR and MWAIT",
        "MONITOR_INSTRUCTION, MWAIT_INSTRUCTION, monitor, mwait, mwait_cond",
        |of| is_for(of, CodeList::Vmx, &[36, 39]) || is_for(of, CodeList::Svm, &[0x8a, 0x8b, 0x8c]),
        "the guest waits by MWAIT, which KVM lets do nothing, so the guest's idle loop spins: QEMU offers MWAIT by \
            CPUID only with -overcommit cpu-pm=on, where it does not exit",
        "the rip of the exits shows whose code it is (`report --by rip`); `cat \
            /sys/devices/system/cpu/cpuidle/current_driver` in a Linux guest",
    ),
    // `cr4_guest_owned_bits` of arch/x86/kvm/vmx/vmx.c (CR4's PGE is the guest's own with EPT), `init_vmcb` of arch/x86/kvm/svm/svm.c
    // (writes of CR4 always exit).
    row(
        "control registers CR0 and CR4",
        "CR_ACCESS of CR0 or CR4, read_cr0, read_cr4, write_cr0, write_cr4, cr0_sel_write, their traps",
        |of| {
            (is_for(of, CodeList::Vmx, &[28]) && is_about(of, SubjectKind::ControlRegister, &[0, 4]))
                || is_for(of, CodeList::Svm, &[0x00, 0x04, 0x10, 0x14, 0x65, 0x90, 0x94])
        },
        "the guest changes bits of CR0 or CR4 that are not its own: kernels do while CPUs come up; what goes on may be flushes of the \
            TLB by CR4.PGE, as of a guest without INVPCID on AMD's processors, or changes of mode",
        "on KVM, `perf record -e kvm:kvm_cr` has the register and the value; on KVM and Xen the rip of the exits shows whose code it is \
         (`report --by rip`)",
    ),
    // `kvm_emulate_wbinvd_noskip` of arch/x86/kvm/x86.c: nothing, but for a VM with devices whose DMA caches do not see.
    row(
        "WBINVD and INVD",
        "WBINVD, INVD, wbinvd, invd",
        |of| is_for(of, CodeList::Vmx, &[13, 54]) || is_for(of, CodeList::Svm, &[0x76, 0x89]),
        "the guest flushes its caches: KVM does nothing, unless the VM has devices that do not keep to them, and then flushes the \
            caches of each CPU that the vCPU was on",
        "the rip of the exits shows whose code it is (`report --by rip`): a graphics driver, suspending, or a change \
         of memory types",
    ),
    // `kvm_emulate_xsetbv` of arch/x86/kvm/x86.c; Intel's SDM, volume 3, "Instructions That Cause VM Exits Unconditionally".
    row(
        "XSETBV",
        "XSETBV, xsetbv",
        |of| is_for(of, CodeList::Vmx, &[55]) || is_for(of, CodeList::Svm, &[0x8d]),
        "the guest writes XCR0, which always exits: kernels do once for each CPU, hypervisors in the guest at each entry of a guest of \
            theirs whose XCR0 is another",
        "the rip of the exits shows whose code it is (`report --by rip`)",
    ),
    // `handle_encls` of arch/x86/kvm/vmx/sgx.c.
    row(
        "ENCLS",
        "ENCLS",
        |of| is_for(of, CodeList::Vmx, &[60]),
        "the guest's kernel sets up enclaves (SGX): KVM runs ECREATE and EINIT for it, and refuses the rest where the VM has no SGX",
        "the rip of the exits (`report --by rip`), and `dmesg | grep -i sgx` in the guest",
    ),
    // `vmx_set_cr4` of arch/x86/kvm/vmx/vmx.c: SECONDARY_EXEC_DESC where the guest sets CR4.UMIP and the processor has none.
    row(
        "descriptor tables",
        "GDTR_IDTR, LDTR_TR",
        |of| is_for(of, CodeList::Vmx, &[46, 47]),
        "KVM emulates UMIP on a processor that has none, so that each load and store of a descriptor table's register exits",
        "`grep -c umip /proc/cpuinfo` on the host and in the guest",
    ),
    // `kvm_sev_es_mmio_read` and `kvm_sev_es_mmio_write` of arch/x86/kvm/svm/sev.c.
    row(
        "device accesses of a confidential guest",
        "VMGEXIT for mmio_read or mmio_write (kvm_vmgexit_enter), without kvm_mmio",
        |of| is_about(of, SubjectKind::Vmgexit, &[0x8000_0001, 0x8000_0002]),
        "a confidential guest asks for an access to a device's memory, and the recording does not show which",
        "`perf record -e kvm:kvm_vmgexit_enter -e kvm:kvm_mmio -e kvm:kvm_exit` has the address",
    ),
    // `kvm_emulate_ap_reset_hold` of arch/x86/kvm/x86.c; SVM_VMGEXIT_AP_CREATION of arch/x86/include/uapi/asm/svm.h.
    row(
        "starts of a confidential guest's vCPUs",
        "VMGEXIT for ap_hlt_loop, ap_jump_table or ap_creation (kvm_vmgexit_enter)",
        |of| is_about(of, SubjectKind::Vmgexit, &[0x8000_0004, 0x8000_0005, 0x8000_0013]),
        "a confidential guest starts its vCPUs, or parks them until it does",
        "`perf record -e kvm:kvm_vmgexit_enter` and the guest's log say whether it is its boot",
    ),
    // SVM_VMGEXIT_GUEST_REQUEST and SVM_VMGEXIT_EXT_GUEST_REQUEST of arch/x86/include/uapi/asm/svm.h.
    row(
        "attestation of a confidential guest",
        "VMGEXIT for guest_request or ext_guest_request (kvm_vmgexit_enter)",
        |of| is_about(of, SubjectKind::Vmgexit, &[0x8000_0011, 0x8000_0012]),
        "a confidential guest asks the platform's secure processor for a report, a key or certificates",
        "who opens /dev/sev-guest in the guest (`fuser -v /dev/sev-guest`)",
    ),
    // `sev_handle_vmgexit` and `sev_handle_vmgexit_msr_protocol` of arch/x86/kvm/svm/sev.c.
    row(
        "other requests of a confidential guest",
        "VMGEXIT for anything else, or without kvm_vmgexit_enter",
        |of| of.subject().is_none_or(of_ghcb) && is_for(of, CodeList::Svm, &[0x403]),
        "a confidential guest asks for something by its communication block (GHCB), as for what is an exit of other guests",
        "`perf record -e kvm:kvm_vmgexit_enter -e kvm:kvm_vmgexit_msr_protocol_enter -e kvm:kvm_exit` has the reason of each",
    ),
    // `avic_unaccelerated_access_interception` of arch/x86/kvm/svm/avic.c, `handle_apic_write` and `handle_apic_access` of
    // arch/x86/kvm/vmx/vmx.c.
    row(
        "other registers of the local APIC",
        "avic_unaccelerated_access, APIC_WRITE and APIC_ACCESS of a register that no row of the table above has",
        |of| {
            let exits = is_for(of, CodeList::Vmx, &[44, 56]) || is_for(of, CodeList::Svm, &[0x402]);
            exits && of.subject().is_none_or(|key| key.kind == SubjectKind::Apic)
        },
        "the guest reads or writes registers of its local APIC that the processor leaves to KVM: kernels do while CPUs come up; \
            others than those of timers, ends of interrupts, priorities and IPIs are seldom needed after that",
        "`perf record -e kvm:kvm_apic -e kvm:kvm_avic_unaccelerated_access -e kvm:kvm_exit` has the register, and the \
         rip of the exits shows whose code it is (`report --by rip`)",
    ),
    // libtraceevent's plugin_kvm prints two words of an exit, of which neither is VM_EXIT_INTR_INFO.
    row(
        UNTOLD_EXCEPTION,
        "EXCEPTION_NMI without its vector",
        |of| of.subject().is_none() && is_for(of, CodeList::Vmx, &[0]),
        "an exception of the guest's, or an NMI of the host's, and the recording does not show which",
        "perf.data and trace.dat have the vector, `perf script` prints it (intr_info), and `trace-cmd report` leaves it out",
    ),
];

const UNTOLD_EXCEPTION: &str = "an exception or NMI, its vector not recorded";

/// Vectors of exceptions: `arch/x86/include/asm/trapnr.h`.
const DB: u64 = 1;
const NMI: u64 = 2;
const BP: u64 = 3;
const UD: u64 = 6;
const GP: u64 = 13;
const MC: u64 = 18;

/// SVM's exits for reads and writes of debug registers.
const DEBUG_REGISTERS: &[u64] =
    &[0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37];

/// Whether they are VMX's for this exception.
fn is_exception(cause: &ExitCause, vector: u64) -> bool {
    is_for(cause, CodeList::Vmx, &[0]) && is_about(cause, SubjectKind::Exception, &[vector])
}

/// Whether it is what a confidential guest's request is about, and nothing that its handler found.
fn of_ghcb(key: SubjectKey) -> bool {
    matches!(key.kind, SubjectKind::Vmgexit | SubjectKind::GhcbMsr)
}

/// Says of each VM what its exits are that no rule judges.
pub(crate) fn note(input: &AdviceInput, judgement: &mut Judgement) {
    for &vm in input.vms.keys() {
        for row in KNOWN.iter().filter(|row| input.causes(vm).iter().any(|(cause, _)| (row.exits.has)(cause))) {
            let said = RuleAnswer::NotJudged(format!("{}; what tells: {}", row.what, row.tells));
            judgement.say(Some(vm), Covered::Subject(CureLookup::Named(row.exits.name)), said);
        }
    }
}
