//! Events: what a hypervisor said, in our words. Everything left of here speaks a vendor's language.

use crate::codes::SCHED_OP;
use crate::given_names::GivenByVm;
use crate::subject::EPT_SUBJECT;
use crate::{
    ApicvChange, ExitCode, ExitInfo, IdleEvent, IrqName, KvmActivity, PortAccessForm, SubjectWord, ThreadName,
};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Index of a tracepoint's name in [`EventNames`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u16);

impl NameId {
    /// No name: the trace does not tell the tracepoint.
    pub const NONE: NameId = NameId(u16::MAX);
}

/// One thing that a hypervisor said: a moment, who recorded it, what happened.
// A line of cache: none is fetched for the sake of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Event {
    /// When, on the trace's one clock.
    pub at: Moment,
    /// The thread that recorded it.
    pub tid: Tid,
    /// The process of that thread, or Xen's domain, if the trace says.
    pub vm: VmId,
    /// The virtual CPU that the event is about, if the event says.
    pub vcpu: VcpuId,
    /// The physical CPU that recorded it.
    pub cpu: PcpuId,
    /// The tracepoint's name.
    pub name: NameId,
    /// What happened.
    pub kind: EventKind,
}

const _: () = assert!(size_of::<Event>() == 64);

impl Event {
    /// An event of no tracepoint that the trace names, of no known thread: a loss, or a record that cannot be read.
    pub const fn nameless(at: Moment, cpu: PcpuId, kind: EventKind) -> Event {
        Event { at, tid: Tid(0), vm: VmId::UNKNOWN, vcpu: VcpuId::UNKNOWN, cpu, name: NameId::NONE, kind }
    }

    /// `count` records were lost before `at`.
    pub const fn lost(at: Moment, cpu: PcpuId, count: u64) -> Event {
        Event::nameless(at, cpu, EventKind::Lost { count })
    }
}

/// What an event says, as far as the accounting of exits cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The virtual CPU left its guest. `idle`: it says that it had nothing to do (powerpc `ceded`).
    Exit {
        /// The exit reason.
        code: ExitCode,
        /// Whether the event itself says that the vCPU is idle.
        idle: bool,
        /// What it says of its subject.
        words: SubjectWord,
        /// Where in the guest: the instruction pointer; zero if the event does not say.
        rip: u64,
    },
    /// The open exit's reason, told again and more exactly: loongarch's `kvm_exit_idle` after its `kvm_exit`.
    Refine {
        /// The exit reason.
        code: ExitCode,
    },
    /// What the exit before says besides: of the same record, for those who ask for it.
    ExitInfo(ExitInfo),
    /// The virtual CPU enters its guest.
    Enter,
    /// loongarch `kvm_out`: the kernel has done what it can, and `KVM_RUN` returns. `kvm_userspace_exit` says why.
    KvmOut,
    /// `kvm_userspace_exit`: `KVM_RUN` returns. `reason` is of `KVM_EXIT_*`.
    UserspaceExit {
        /// `KVM_EXIT_*`.
        reason: u32,
        /// Zero or a negative errno.
        errno: i32,
    },
    /// `kvm_fpu`: guest FPU state is loaded (start of `KVM_RUN`) or put back (its end).
    Fpu {
        /// Whether it is the load.
        load: bool,
    },
    /// `sys_enter_ioctl` with `KVM_RUN`, or the same in `raw_syscalls:sys_enter`.
    RunEnter,
    /// Another system call begins (`sys_enter_ioctl`, `raw_syscalls:sys_enter`).
    Syscall {
        /// Whether it is an ioctl that reads or writes registers which kernel and user space could share.
        registers: bool,
    },
    /// A system call returns (`sys_exit_ioctl`, `raw_syscalls:sys_exit`).
    SyscallExit,
    /// `kvm_emulate_insn`: the kernel emulates an instruction.
    Emulate,
    /// What the current exit is about.
    Detail(Subject),
    /// `irq_handler_entry`: the host calls a handler of a device's interrupt.
    HostIrq {
        /// The number that Linux gives the interrupt.
        irq: u32,
        /// What the handler is called.
        name: IrqName,
    },
    /// An interrupt of this vector is injected at the next entry.
    Inject {
        /// The vector.
        vector: u32,
    },
    /// It shows what KVM does, in an exit or not.
    KvmActivity(KvmActivity),
    /// `kvm_apicv_inhibit_changed`: of the VM whose thread it is.
    ApicvChange(ApicvChange),
    /// `kvm_nested_vmexit`, and of arm64 `kvm_forward_sysreg_trap`: it is a nested guest that the open exit left.
    Nested,
    /// `kvm_nested_vmexit_inject`: the open exit is handed to the hypervisor in the guest, which handles it.
    Reflect,
    /// `kvm_vcpu_wakeup`: a halt ended after `ns` nanoseconds.
    HaltEnd {
        /// How long it lasted, polling included.
        ns: u64,
        /// Whether it slept (else polling was enough).
        waited: bool,
        /// Whether the wake-up was for something: false only on s390.
        valid: bool,
    },
    /// `kvm_halt_poll_ns`: KVM changes how long it polls for this vCPU.
    HaltPoll {
        /// Grown, else shrunk.
        grow: bool,
        /// The poll from now on, in nanoseconds.
        new: u32,
        /// The poll of the halt that just ended.
        old: u32,
    },
    /// arm64 `kvm_wfx_arm64`: the WFx was a WFE (a yield) or a WFI (idle).
    Wfx {
        /// Whether it was a WFE.
        wfe: bool,
    },
    /// `kvm_ple_window_update`: how long this vCPU may loop on PAUSE changes.
    PleWindow {
        /// From now on; cycles on VMX, PAUSEs on SVM.
        new: u32,
        /// Until now.
        old: u32,
    },
    /// A kernel tells of an idle CPU of its own.
    Idle(IdleEvent),
    /// Xen: the virtual CPU yields.
    Yield,
    /// Only says which virtual CPU runs on this thread.
    VcpuHint,
    /// powerpc `kvmppc_run_core`: the threads of a vcore enter (or have left) together. The event's vCPU is the runner.
    RunCore {
        /// False for Enter, true for Exit.
        exit: bool,
        /// Runnable threads in the vcore.
        runnable: u32,
    },
    /// `sched_switch`.
    Switch {
        /// Who stops running.
        prev: Tid,
        /// Whether it stops because it sleeps (else it was preempted and is runnable).
        sleeps: bool,
        /// Who runs now.
        next: Tid,
        /// What `prev` is called just then.
        prev_name: ThreadName,
    },
    /// Xen: the virtual CPU goes from one run state to another, or stays in it.
    RunState {
        /// Where it was.
        from: RunState,
        /// Where it is.
        to: RunState,
    },
    /// Xen: `vcpu_wake` is called for the virtual CPU, whether that runs or not.
    VcpuWake {
        /// Whether it was paused, and has not run since.
        paused: bool,
    },
    /// `sched_wakeup`: the thread is runnable.
    Wakeup {
        /// The thread that was woken.
        tid: Tid,
    },
    /// The recorder lost `count` records before this moment, on this CPU unless the CPU is unknown.
    Lost {
        /// How many; zero if it does not say.
        count: u64,
    },
    /// An event that the accounting has no use for.
    Other,
}

impl EventKind {
    /// A switch from a thread whose name is not said.
    pub const fn switch(prev: Tid, sleeps: bool, next: Tid) -> EventKind {
        EventKind::Switch { prev, sleeps, next, prev_name: ThreadName::NONE }
    }
}

/// What Xen's scheduler says of a virtual CPU: `RUNSTATE_*` of `xen/include/public/vcpu.h`, in that order; and whether it
/// is offline because someone paused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// It runs on a physical CPU.
    Running,
    /// It could run, and waits for a physical CPU.
    Runnable,
    /// It waits for an event: it is idle.
    Blocked,
    /// It must not run: it waits for the device model, or is paused and nothing says so.
    Offline,
    /// Offline, because it was paused: Xen put it to sleep before.
    Paused,
}

impl RunState {
    /// Those that Xen numbers, in that order.
    pub const NUMBERED: [RunState; 4] = [RunState::Running, RunState::Runnable, RunState::Blocked, RunState::Offline];

    /// How many there are.
    pub const COUNT: usize = 5;

    /// Xen's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Runnable => "runnable",
            RunState::Blocked => "blocked",
            RunState::Offline => "offline",
            RunState::Paused => "paused",
        }
    }
}

/// What an exit was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Kind of thing.
    pub kind: SubjectKind,
    /// Whether the guest wrote.
    pub write: bool,
    /// Where the data of an access are.
    pub form: PortAccessForm,
    /// Access size in bytes, zero where that has no meaning.
    pub size: u16,
    /// Port, guest-physical address, MSR, hypercall number, CPUID leaf, …
    pub key: u64,
    /// Value read or written, CPUID index, fault error code, …
    pub value: u64,
}

/// PSCI's CPU_SUSPEND, for 32 and for 64 bits: `include/uapi/linux/psci.h`.
const CPU_SUSPEND: [u64; 2] = [0x8400_0001, 0xc400_0001];
/// `SVM_EXIT_HLT` and `SVM_VMGEXIT_AP_HLT_LOOP` of `arch/x86/include/uapi/asm/svm.h`: an SEV-ES guest asks for a halt, and a
/// processor waits to be started (`sev_handle_vmgexit` of `arch/x86/kvm/svm/sev.c`).
const VMGEXIT_HALTS: [u64; 2] = [0x78, 0x8000_0004];
/// `GHCB_MSR_AP_RESET_HOLD_REQ` of `arch/x86/include/asm/sev-common.h`: the same.
const AP_RESET_HOLD: u64 = 6;
/// `H_CEDE` of `arch/powerpc/include/asm/hvcall.h`.
const H_CEDE: u64 = 0xe0;
/// Operations of Xen's `sched_op` hypercall, block and poll: `include/xen/interface/sched.h`.
const BLOCK_AND_POLL: [u64; 2] = [1, 3];

/// x86 ports that KVM's own devices answer, if a VM has them: interrupt controllers, timer, speaker (`kvm_pic_init` of
/// `arch/x86/kvm/i8259.c`, `kvm_create_pit` of `i8254.c`).
pub const PORTS_IN_KERNEL: [RangeInclusive<u64>; 5] =
    [0x20..=0x21, 0x40..=0x43, 0x61..=0x61, 0xa0..=0xa1, 0x4d0..=0x4d1];

impl Subject {
    /// A device's interrupt of the host.
    pub(crate) const fn host_irq(irq: u32) -> Subject {
        let (kind, form) = (SubjectKind::HostIrq, PortAccessForm::Unknown);
        Subject { kind, write: false, form, size: 0, key: irq as u64, value: 0 }
    }

    /// Where `kvm_exit` never fires: whether this, the first that is told of after `KVM_RUN` went on, is what user space has read
    /// in an exit of this code; of that, kind, direction and key may be `known`. A port's read is told of when it has its value
    /// (`emulator_pio_in` of `arch/x86/kvm/x86.c`), a write before anybody answers: where user space has read, KVM had answered
    /// the write. That the read is KVM's own is possible of few ports.
    pub fn completes(&self, code: ExitCode, known: Option<(SubjectKind, bool, u64)>) -> bool {
        !self.write
            && !self.kind.is_hypercall()
            && code.hands_over(self.kind)
            && match known {
                None => true,
                Some((kind, write, key)) if kind == self.kind => match (kind, write) {
                    (SubjectKind::Port, true) => !PORTS_IN_KERNEL.iter().any(|ports| ports.contains(&self.key)),
                    _ => !write && key == self.key,
                },
                Some(_) => false,
            }
    }

    /// The same as part of an exit of this code. `kvm_page_fault` has an error code, but for EPT violations, where it has the exit's
    /// qualification in its place (`handle_ept_violation` of `arch/x86/kvm/vmx/vmx.c`).
    #[inline]
    pub fn of_exit(self, code: ExitCode) -> Subject {
        match self.kind {
            SubjectKind::PageFault if code.is_ept_violation() => {
                Subject { kind: SubjectKind::EptViolation, key: self.key & EPT_SUBJECT, ..self }
            }
            _ => self,
        }
    }

    /// A fault for which `KVM_RUN` returned with this code; `fault` is what was told of it before.
    pub(crate) fn of_unresolved_fault(code: ExitCode, fault: Option<Subject>) -> Subject {
        let (form, value) = (PortAccessForm::Unknown, fault.map_or(0, |fault| fault.value));
        Subject { kind: SubjectKind::MemoryFault, write: false, form, size: 0, key: code.number, value }
    }

    /// Where `kvm_exit` never fires: whether KVM has answered it, if it completes nothing.
    pub fn is_answered(&self) -> bool {
        self.kind == SubjectKind::Port && !self.write
    }

    /// Whether an ioeventfd took the write within the kernel: of KVM, what `kvm_fast_mmio` says, and its writes alone have no size
    /// (`handle_ept_misconfig` of arch/x86/kvm/vmx/vmx.c). Xen's log has no sizes at all.
    pub fn is_by_ioeventfd(&self) -> bool {
        self.kind == SubjectKind::Mmio && self.write && self.size == 0
    }

    /// Whether the guest halts by it.
    #[inline]
    pub fn is_halt(&self) -> bool {
        match self.kind {
            SubjectKind::Hvc => CPU_SUSPEND.contains(&self.key),
            SubjectKind::Vmgexit => VMGEXIT_HALTS.contains(&self.key),
            SubjectKind::GhcbMsr => self.key == AP_RESET_HOLD,
            SubjectKind::PpcHcall => self.key == H_CEDE,
            SubjectKind::XenHypercall => self.key == SCHED_OP && BLOCK_AND_POLL.contains(&self.value),
            _ => false,
        }
    }
}

/// Kinds of details, weakest first: a later kind replaces an earlier one on the same exit, because a port
/// access that faulted on the way is about the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SubjectKind {
    /// What an SEV-ES guest asks for by VMGEXIT; key is SVM's exit code or one of its own, value `exit_info1`.
    Vmgexit,
    /// The same by the GHCB's MSR, before there is a GHCB; key is the request (`GHCB_MSR_INFO_MASK`), value all of the MSR.
    GhcbMsr,
    /// x86 exception or NMI, by vector.
    Exception,
    /// The host's interrupt for which the guest was left, by vector.
    HostVector,
    /// The same, by the number that Linux gives a device's interrupt.
    HostIrq,
    /// Guest's interrupt of whose end hardware that virtualises the APIC tells, by vector.
    EoiVector,
    /// IPI that such hardware could not deliver whole, by the vector that it sends.
    IncompleteIpi,
    /// x86 task switch; key is what led to it, value the selector.
    TaskSwitch,
    /// Page fault in the second stage of translation, or in shadow paging; key is the error code or fault status, value the
    /// address.
    PageFault,
    /// EPT violation; key is what its qualification says of the access and of the entry, value the guest-physical address.
    EptViolation,
    /// Memory fault that KVM could not resolve, so that `KVM_RUN` returned; key is the [`crate::ExitCode`]'s number of why, value the
    /// address, where an event says it.
    MemoryFault,
    /// Debug register.
    DebugRegister,
    /// Local APIC register.
    Apic,
    /// Control register.
    ControlRegister,
    /// arm64 system register; key is the kernel's `sys_reg()`.
    SystemRegister,
    /// s390 intercepted instruction, by decode key.
    Instruction,
    /// s390 program interruption code.
    Program,
    /// s390 SIGP order.
    Sigp,
    /// CPUID leaf; value is the index.
    Cpuid,
    /// Guest-physical address outside memory.
    Mmio,
    /// I/O port.
    Port,
    /// Model-specific register.
    Msr,
    /// KVM hypercall (`KVM_HC_*`).
    Hypercall,
    /// Hyper-V hypercall code.
    HypervHypercall,
    /// Xen hypercall number.
    XenHypercall,
    /// powerpc hypercall.
    PpcHcall,
    /// arm64 HVC or SMC function (r0).
    Hvc,
    /// s390 diagnose code.
    Diag,
}

impl SubjectKind {
    /// All.
    pub const ALL: [SubjectKind; 28] = [
        SubjectKind::Vmgexit,
        SubjectKind::GhcbMsr,
        SubjectKind::Exception,
        SubjectKind::HostVector,
        SubjectKind::HostIrq,
        SubjectKind::EoiVector,
        SubjectKind::IncompleteIpi,
        SubjectKind::TaskSwitch,
        SubjectKind::PageFault,
        SubjectKind::EptViolation,
        SubjectKind::MemoryFault,
        SubjectKind::DebugRegister,
        SubjectKind::Apic,
        SubjectKind::ControlRegister,
        SubjectKind::SystemRegister,
        SubjectKind::Instruction,
        SubjectKind::Program,
        SubjectKind::Sigp,
        SubjectKind::Cpuid,
        SubjectKind::Mmio,
        SubjectKind::Port,
        SubjectKind::Msr,
        SubjectKind::Hypercall,
        SubjectKind::HypervHypercall,
        SubjectKind::XenHypercall,
        SubjectKind::PpcHcall,
        SubjectKind::Hvc,
        SubjectKind::Diag,
    ];

    /// Whether it is what the host serves, for the guest or not.
    pub const fn is_of_host(self) -> bool {
        matches!(self, SubjectKind::HostVector | SubjectKind::HostIrq)
    }

    /// All kinds that are calls from the guest to the hypervisor.
    pub const fn is_hypercall(self) -> bool {
        matches!(
            self,
            SubjectKind::Hypercall
                | SubjectKind::HypervHypercall
                | SubjectKind::XenHypercall
                | SubjectKind::PpcHcall
                | SubjectKind::Hvc
                | SubjectKind::Diag
        )
    }

    /// What it is called in JSON, CSV and SQL, and as a heading.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            SubjectKind::Vmgexit => ("vmgexit", "VMGEXITs, by what the guest asks for"),
            SubjectKind::GhcbMsr => ("ghcb_msr", "VMGEXITs by the GHCB's MSR, by request"),
            SubjectKind::Exception => ("exception", "Exceptions and NMIs, by vector"),
            SubjectKind::HostVector => ("host_vector", "Interrupts of the host, by vector"),
            SubjectKind::HostIrq => ("host_irq", "Interrupts of the host's devices, by IRQ"),
            SubjectKind::EoiVector => ("eoi_vector", "Ends of the guest's interrupts, by vector"),
            SubjectKind::IncompleteIpi => ("incomplete_ipi", "IPIs not delivered whole, by vector"),
            SubjectKind::TaskSwitch => ("task_switch", "Task switches, by what led to them"),
            SubjectKind::EptViolation => ("ept_violation", "EPT violations, by access and what the entry allowed"),
            SubjectKind::MemoryFault => ("memory_fault", "Memory faults that KVM could not resolve"),
            SubjectKind::DebugRegister => ("debug_register", "Debug registers"),
            SubjectKind::PageFault => ("page_fault", "Page faults, by error code or fault status"),
            SubjectKind::Apic => ("apic", "Local APIC registers"),
            SubjectKind::ControlRegister => ("control_register", "Control registers"),
            SubjectKind::SystemRegister => ("system_register", "System registers"),
            SubjectKind::Instruction => ("instruction", "Intercepted instructions"),
            SubjectKind::Program => ("program_interruption", "Program interruptions"),
            SubjectKind::Sigp => ("sigp", "SIGP orders"),
            SubjectKind::Cpuid => ("cpuid", "CPUID leaves"),
            SubjectKind::Mmio => ("mmio", "MMIO regions"),
            SubjectKind::Port => ("port", "I/O ports"),
            SubjectKind::Msr => ("msr", "MSRs"),
            SubjectKind::Hypercall => ("hypercall", "Hypercalls"),
            SubjectKind::HypervHypercall => ("hyperv_hypercall", "Hyper-V hypercalls"),
            SubjectKind::XenHypercall => ("xen_hypercall", "Xen hypercalls"),
            SubjectKind::PpcHcall => ("hcall", "Hypercalls"),
            SubjectKind::Hvc => ("hvc", "HVC and SMC calls, by function"),
            SubjectKind::Diag => ("diagnose", "DIAGNOSE calls"),
        }
    }

    /// What it is called in JSON, CSV and SQL.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The heading of a table of such things.
    pub const fn heading(self) -> &'static str {
        self.names().1
    }

    /// Whether devices are at such places, and may have names of their own.
    pub const fn is_place_of_devices(self) -> bool {
        matches!(self, SubjectKind::Port | SubjectKind::Mmio)
    }

    /// Which way the guest went, where that has a meaning: `out`, `in`, `write`, `read`.
    pub const fn direction(self, write: bool) -> Option<&'static str> {
        match (self, write) {
            (SubjectKind::Port, true) => Some("out"),
            (SubjectKind::Port, false) => Some("in"),
            (
                SubjectKind::Mmio
                | SubjectKind::Msr
                | SubjectKind::Apic
                | SubjectKind::ControlRegister
                | SubjectKind::DebugRegister
                | SubjectKind::SystemRegister,
                write,
            ) => Some(if write { "write" } else { "read" }),
            _ => None,
        }
    }
}

/// The names of a trace's tracepoints, `system:event`, each once.
#[derive(Clone, Debug, Default)]
pub struct EventNames {
    names: Vec<String>,
    index: FxHashMap<String, u16>,
}

impl EventNames {
    /// The id of `name`; the last id is shared by all names past 65,535.
    pub fn intern(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.index.get(name) {
            return NameId(id);
        }
        if self.names.len() >= usize::from(u16::MAX) {
            return NameId(u16::MAX - 1);
        }
        let id = self.names.len() as u16;
        self.names.push(name.to_string());
        self.index.insert(name.to_string(), id);
        NameId(id)
    }

    /// The id of `name`; none if there is no such name.
    pub fn find(&self, name: &str) -> NameId {
        self.index.get(name).map_or(NameId::NONE, |&id| NameId(id))
    }

    /// Whether there is this name.
    pub fn has(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// The name of `id`.
    pub fn get(&self, id: NameId) -> &str {
        self.names.get(usize::from(id.0)).map_or("?", String::as_str)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// What stands for host, kernel and CPU in the traces of a simulated host.
pub const SIMULATED: &str = "simulated";

impl TraceInfo {
    /// Whether a simulated host made it, which has nothing that it does not record.
    pub fn is_simulated(&self) -> bool {
        self.release == SIMULATED && self.cpu == SIMULATED
    }
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default)]
pub struct TraceInfo {
    /// The format: `perf.data`, `perf.data (pipe)`, `trace.dat v7`, `ftrace text`, `xentrace (SVM, …)`, …
    pub format: String,
    /// Machine architecture as `uname -m` says it, empty if unknown.
    pub arch: String,
    /// Host name, empty if unknown.
    pub hostname: String,
    /// Kernel release, empty if unknown.
    pub release: String,
    /// The clock's name, empty if unknown.
    pub clock: String,
    /// How many of its ticks make a second, where that was said by hand and not by the trace.
    pub given_hz: Option<u64>,
    /// Whether events name their virtual CPU and no thread (Xen).
    pub by_vcpu: bool,
    /// Whether a guest's own kernel recorded it, in step with its host: threads, CPUs and scheduling are the guest's.
    pub is_guests: bool,
    /// CPUs of the machine that are online, zero if unknown.
    pub cpus: u32,
    /// The CPU's model, empty if unknown.
    pub cpu: String,
    /// What was in force on the machine, as far as the recorder says.
    pub settings: Vec<HostSetting>,
    /// Command names of threads.
    pub comms: FxHashMap<u32, String>,
    /// What the handlers of the host's interrupts are called, by IRQ.
    pub irqs: BTreeMap<u32, String>,
    /// Names of the tracepoints that the trace holds or may hold.
    pub names: EventNames,
    /// What somebody said is at the VMs' ports and addresses.
    pub given: Arc<GivenByVm>,
}

/// Something that was in force on the recorded machine, in the kernel's words: of module `kvm`, the parameter
/// `halt_poll_ns` was `200000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// The kernel module, `host`, or `exitscope` for what the recorder says of itself.
    pub of: String,
    /// Its name.
    pub name: String,
    /// What it was.
    pub value: String,
}

impl HostSetting {
    /// The setting of these words.
    pub fn new(of: &str, name: &str, value: impl Into<String>) -> HostSetting {
        HostSetting { of: of.to_string(), name: name.to_string(), value: value.into() }
    }
}

/// The setting of `host` in a recording that says what its kernel calls this boot: clocks begin anew with each.
pub const BOOT_ID: &str = "boot_id";

/// Names of settings of `host` in a recording that say who may take a guest's memory away, as docs/settings.md has them.
pub mod host_memory {
    /// `kernel.numa_balancing`: 0 is off.
    pub const NUMA_BALANCING: &str = "numa_balancing";
    /// Whether KSM runs: 1; 0 and 2 are off.
    pub const KSM_RUN: &str = "ksm_run";
    /// When memory may be of transparent huge pages: the word in brackets of those that may be set.
    pub const THP_ENABLED: &str = "thp_enabled";
    /// All of them.
    pub const ALL: [&str; 3] = [NUMA_BALANCING, KSM_RUN, THP_ENABLED];
}

/// The settings of `exitscope` in a recording: what the recorder says of itself.
pub mod recorder {
    /// How it was recorded: `bpf` or `perf_events`.
    pub const TRACING_BACKEND: &str = "tracing_backend";
    /// Events of KVM that were recorded, and all that were lost.
    pub const EVENTS: &str = "events";
    /// What an event of KVM costs the CPU on which it happens, in nanoseconds: in the BPF programs, without the kernel's way
    /// to them.
    pub const NS_PER_EVENT: &str = "ns_per_event";
    /// What recording took of the time of virtual CPUs, in nanoseconds.
    pub const COST_NS: &str = "cost_ns";
    /// All of them.
    pub const ALL: [&str; 4] = [TRACING_BACKEND, EVENTS, NS_PER_EVENT, COST_NS];
}

impl TraceInfo {
    /// What the setting `name` of `of` was, if the recorder says.
    pub fn setting(&self, of: &str, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|setting| setting.of == of && setting.name == name);
        found.map(|setting| setting.value.as_str())
    }
}
