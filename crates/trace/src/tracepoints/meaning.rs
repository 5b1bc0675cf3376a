//! What tracepoints mean, and what the fields of their records carry of an event.

use exitscope_model::codes::{KICK_CPU, loongarch_instruction, system_register_parts, system_register_trap};
use exitscope_model::{
    Architecture, CodeList, Event, EventKind, ExitWord, IdleEvent, KvmActivity, PollChange, PortAccessForm, Subject,
    SubjectKind, ThreadName,
};
use exitscope_units::Tid;

/// `_IOR(0xAE, 0x81, struct kvm_regs)` of x86, for all calls that read or write registers.
const KVM_GET_REGS: u64 = 0x8090_ae81;

/// `TASK_INTERRUPTIBLE`, and the flag of a thread that was preempted.
const SLEEPS: u64 = 1;
const PREEMPTED: u64 = 0x100;

/// What to make of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TracepointMeaning {
    ExitX86,
    ExitArm64,
    ExitOf(CodeList),
    /// The open exit's reason, more exactly.
    Refined(CodeList),
    /// The same, by the instruction of loongarch that exited for its privilege.
    Privileged,
    KvmOut,
    ExitCeded,
    Enter,
    Userspace,
    Fpu,
    Syscall,
    SyscallExit,
    Emulate,
    /// The exit is a nested guest's.
    Nested,
    /// The exit is handed to the hypervisor in the guest.
    Reflect,
    /// It shows what KVM does.
    KvmActivity(KvmActivity),
    /// KVM changes whether it lets the processor virtualise a VM's APIC.
    ApicvChange,
    /// An IPI that AVIC did not deliver whole.
    AvicIncompleteIpi,
    /// What an SEV-ES guest asks for by the GHCB's MSR.
    GhcbMsr,
    Mmio,
    Pio,
    Written(SubjectKind),
    Plain(SubjectKind),
    /// The host calls a handler of a device's interrupt.
    HostIrq,
    /// A KVM hypercall; KVM_HC_KICK_CPU says whom by its second argument.
    Hypercall,
    FastMmio,
    S390Instruction,
    SystemRegister,
    TrappedSystemRegister,
    Inject,
    HaltEnd,
    HaltPoll,
    /// A kernel wakes an idle CPU of its own that polls.
    WokenPolling,
    /// A guest's governor changes for how long its CPU polls.
    GuestPollLimit,
    PleWindow,
    Wfx,
    VcpuHint,
    RunCore,
    Switch,
    Wakeup,
    Other,
}

/// What a field carries of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldContent {
    /// Nothing: an event does not know it.
    Ignored,
    Vcpu,
    Process,
    Code,
    /// Where in the guest it was.
    Rip,
    /// x86: whose codes they are.
    Isa,
    /// x86: what the exit says besides its reason.
    Word(ExitWord),
    /// loongarch: the instruction.
    Instruction,
    /// arm64: the code, or that it is a trap; and the class of the trap.
    Ret,
    TrapClass,
    Ceded,
    Reason,
    Errno,
    Load,
    Command,
    Write,
    /// As `kvm_mmio` counts them: read, write.
    MmioType,
    Size,
    /// 1; of a string access, whose count an event does not keep, 2.
    Count,
    Key,
    /// arm64: the trap of a system register; and a part of its name: Op0, Op1, CRn, CRm, Op2.
    Esr,
    RegisterPart(usize),
    Value,
    /// A hypercall's second argument.
    Second,
    Vector,
    Halted,
    Waited,
    /// Whether the wake-up was meant for the vCPU: always, but for some on s390.
    Valid,
    Grow,
    NewPoll,
    OldPoll,
    NewWindow,
    OldWindow,
    /// An idle CPU.
    IdleCpu,
    /// What the handler of an interrupt is called, a string at the record's end (`__data_loc`).
    IrqName,
    Wfe,
    /// Whether it is set from now on.
    Set,
    /// What inhibits APICv or AVIC from now on.
    Inhibits,
    /// Of a range of addresses, the first, and the one behind its last: an event knows about how long it is.
    Start,
    End,
    Leaves,
    Runnable,
    Prev,
    PrevState,
    Next,
    Woken,
    /// The names of these threads.
    PrevName,
    NextName,
    WokenName,
}

fn is_kick(detail: &Subject) -> bool {
    detail.kind == SubjectKind::Hypercall && detail.key == KICK_CPU
}

/// What an exit was about, of the event that says so.
fn detail(event: &Event) -> Option<Subject> {
    if let EventKind::Detail(detail) = event.kind { Some(detail) } else { None }
}

impl FieldContent {
    /// Its number in `event`; zero if the event is not about such a thing.
    pub fn number(self, event: &Event) -> u64 {
        use FieldContent as C;
        let detail = |part: fn(Subject) -> u64| detail(event).map_or(0, part);
        match (self, event.kind) {
            (C::Vcpu, _) => event.vcpu.0.into(),
            (C::Process, _) => event.vm.0.into(),
            (C::Code, EventKind::Exit { code, .. } | EventKind::Refine { code }) => code.number,
            (C::Rip, EventKind::Exit { rip, .. }) => rip,
            (C::Isa, EventKind::Exit { code, .. }) => match code.list {
                CodeList::Vmx => 1,
                CodeList::Svm => 2,
                _ => 0,
            },
            // Of what tells no subject, the event does not know.
            (C::Word(word), EventKind::Exit { code, words, .. }) => words.word(code, word),
            (C::Instruction, EventKind::Refine { code }) => loongarch_instruction(code),
            (C::Ret, EventKind::Exit { code, .. }) if code.list == CodeList::Arm64Ec => 2,
            (C::Ret, EventKind::Exit { code, .. }) => code.number,
            (C::TrapClass, EventKind::Exit { code, .. }) if code.list == CodeList::Arm64Ec => code.number,
            (C::Ceded, EventKind::Exit { idle, .. }) => idle.into(),
            (C::Reason, EventKind::UserspaceExit { reason, .. }) => reason.into(),
            (C::Errno, EventKind::UserspaceExit { errno, .. }) => errno as u64,
            (C::Load, EventKind::Fpu { load }) => load.into(),
            (C::Command, EventKind::RunEnter) => Architecture::X86.row().kvm_run,
            (C::Command, EventKind::Syscall { registers: true }) => KVM_GET_REGS,
            (C::Write, _) => detail(|detail| detail.write.into()),
            (C::MmioType, _) => detail(|detail| if detail.write { 2 } else { 1 }),
            (C::Size, _) => detail(|detail| detail.size.into()),
            (C::Count, _) => detail(|detail| if detail.form == PortAccessForm::String { 2 } else { 1 }),
            (C::Key, EventKind::HostIrq { irq, .. }) => irq.into(),
            (C::Key, _) => detail(|detail| detail.key),
            (C::Esr, _) => detail(|detail| system_register_trap(detail.key, detail.write)),
            (C::RegisterPart(at), EventKind::Detail(detail)) => system_register_parts(detail.key)[at],
            (C::Value, _) => detail(|detail| if is_kick(&detail) { 0 } else { detail.value }),
            (C::Second, _) => detail(|detail| if is_kick(&detail) { detail.value } else { 0 }),
            (C::Vector, EventKind::Inject { vector }) => vector.into(),
            (C::Halted, EventKind::HaltEnd { ns, .. }) => ns,
            (C::Waited, EventKind::HaltEnd { waited, .. }) => waited.into(),
            (C::Valid, EventKind::HaltEnd { valid, .. }) => valid.into(),
            (C::Grow | C::NewPoll | C::OldPoll, kind) => self.of_poll(kind),
            (C::IdleCpu, EventKind::Idle(IdleEvent::WokenPolling { cpu })) => cpu.0.into(),
            (C::NewWindow, EventKind::PleWindow { new, .. }) => new.into(),
            (C::OldWindow, EventKind::PleWindow { old, .. }) => old.into(),
            (C::Wfe, EventKind::Wfx { wfe }) => wfe.into(),
            (C::Reason, EventKind::ApicvChange(change)) => change.reason.into(),
            (C::Set, EventKind::ApicvChange(change)) => change.set.into(),
            (C::Inhibits, EventKind::ApicvChange(change)) => change.inhibits,
            (C::Reason | C::End, EventKind::KvmActivity(activity)) => activity.number(),
            (C::Leaves, EventKind::RunCore { exit, .. }) => exit.into(),
            (C::Runnable, EventKind::RunCore { runnable, .. }) => runnable.into(),
            (C::PrevState, EventKind::Switch { sleeps, .. }) => {
                if sleeps {
                    SLEEPS
                } else {
                    PREEMPTED
                }
            }
            (C::Prev | C::Next | C::Woken, _) => self.thread(event).map_or(0, |tid| tid.0.into()),
            // Names are no numbers.
            (C::Ignored | C::Start | C::PrevName | C::NextName | C::WokenName | C::IrqName, _) => 0,
            // Of what another kind of event carries.
            (C::Code | C::Rip | C::Isa | C::Word(_) | C::Instruction | C::Ret | C::TrapClass | C::Ceded, _) => 0,
            (
                C::Reason | C::Errno | C::Load | C::Command | C::RegisterPart(_) | C::Vector | C::Set | C::Inhibits,
                _,
            ) => 0,
            (C::End | C::Halted | C::Waited | C::Valid, _) => 0,
            (C::NewWindow | C::OldWindow | C::IdleCpu | C::Wfe | C::Leaves | C::Runnable | C::PrevState, _) => 0,
        }
    }

    /// What a change of a poll, by KVM or by a guest, has of it.
    fn of_poll(self, kind: EventKind) -> u64 {
        let (grow, new, old) = match kind {
            EventKind::HaltPoll { grow, new, old }
            | EventKind::Idle(IdleEvent::PollLimit(PollChange { grow, new, old })) => (grow, new, old),
            _ => return 0,
        };
        match self {
            FieldContent::Grow => grow.into(),
            FieldContent::NewPoll => new.into(),
            _ => old.into(),
        }
    }

    /// The thread that it numbers or names.
    pub fn thread(self, event: &Event) -> Option<Tid> {
        match (self, event.kind) {
            (FieldContent::Prev | FieldContent::PrevName, EventKind::Switch { prev, .. }) => Some(prev),
            (FieldContent::Next | FieldContent::NextName, EventKind::Switch { next, .. }) => Some(next),
            (FieldContent::Woken | FieldContent::WokenName, EventKind::Wakeup { tid }) => Some(tid),
            _ => None,
        }
    }

    /// The name that `event` itself says.
    pub fn name(self, event: &Event) -> Option<ThreadName> {
        match (self, event.kind) {
            (FieldContent::PrevName, EventKind::Switch { prev_name, .. }) => Some(prev_name),
            _ => None,
        }
    }

    /// Whether it is a name, an array of characters.
    pub fn is_name(self) -> bool {
        matches!(self, FieldContent::PrevName | FieldContent::NextName | FieldContent::WokenName)
    }
}
