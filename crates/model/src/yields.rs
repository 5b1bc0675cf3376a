//! Yields: a vCPU waits for another, and says so to the hypervisor.
//!
//! ```text
//!  vCPU 1   sched_switch: preempted ─────────── waits for a CPU ──────────────────► runs again      a Preemption
//!  vCPU 0   spins ── exit (pause) ── on_spin ── sched_switch to vCPU 1 … ── entry ── spins ──►      a Yield
//!                      at, found: vCPU 1 was preempted   gave: sibling      entered
//! ```
//!
//! Where others were at that moment is known from scheduler events alone, and of vCPUs that left their guest before.

use crate::codes::KICK_CPU;
use crate::codes::SCHED_OP;
use crate::{CodeList, ExitCode, Subject, SubjectKind, VcpuIdentity};
use exitscope_units::{Moment, Nanos, Tid, VcpuId};

/// How it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum YieldCall {
    /// VMX: the processor noticed a loop of PAUSEs.
    Pause,
    /// SVM: likewise.
    PauseFilter,
    /// arm64: WFE.
    Wfe,
    /// A guest that knows Hyper-V: it spins for long.
    LongSpinWait,
    /// A KVM guest on x86: this one is to run.
    SchedYield,
    /// A KVM guest on x86 that gives a lock back: wakes the next one, and has it run.
    KickCpu,
    /// s390 X'44': somebody else is to run.
    Diag44,
    /// s390 X'9C': this one is to run. No tracepoint says which.
    Diag9c,
    /// powerpc H_CONFER: this one is to run, or with -1 anybody.
    Confer,
    /// powerpc H_PROD: wakes this one, which ceded.
    Prod,
    /// Xen: somebody else is to run.
    SchedOp,
}

/// `HVCALL_NOTIFY_LONG_SPIN_WAIT`, `include/asm-generic/hyperv-tlfs.h`.
const LONG_SPIN_WAIT: u64 = 8;

/// `SCHEDOP_yield`, `xen/include/public/sched.h`.
const SCHED_OP_YIELD: u64 = 0;

impl YieldCall {
    /// What an exit says by its code alone.
    #[inline]
    pub const fn of_exit(code: ExitCode) -> Option<YieldCall> {
        let code = code.basic();
        match (code.list, code.number) {
            (CodeList::Vmx, 40) => Some(YieldCall::Pause),
            (CodeList::Svm, 0x77) => Some(YieldCall::PauseFilter),
            _ => None,
        }
    }

    /// What a call of the guest says by its number alone.
    pub const fn of_call(kind: SubjectKind, number: u64) -> Option<YieldCall> {
        match (kind, number) {
            (SubjectKind::HypervHypercall, LONG_SPIN_WAIT) => Some(YieldCall::LongSpinWait),
            (SubjectKind::Hypercall, 11) => Some(YieldCall::SchedYield),
            (SubjectKind::Hypercall, KICK_CPU) => Some(YieldCall::KickCpu),
            (SubjectKind::Diag, 0x44) => Some(YieldCall::Diag44),
            (SubjectKind::Diag, 0x9c) => Some(YieldCall::Diag9c),
            (SubjectKind::PpcHcall, 0xe4) => Some(YieldCall::Confer),
            (SubjectKind::PpcHcall, 0xe8) => Some(YieldCall::Prod),
            _ => None,
        }
    }

    /// What a call of the guest says, and whom it names.
    pub fn of_detail(detail: &Subject) -> Option<(YieldCall, Option<VcpuId>)> {
        // A Xen guest on KVM. Xen's own records do not have the argument; another one says that it yields.
        let is_of_xen =
            detail.kind == SubjectKind::XenHypercall && (detail.key, detail.value) == (SCHED_OP, SCHED_OP_YIELD);
        let call = YieldCall::of_call(detail.kind, detail.key).or(is_of_xen.then_some(YieldCall::SchedOp))?;
        let named = match call {
            // x86: the number is of the local APIC, which is the vCPU's unless the topology leaves gaps.
            YieldCall::SchedYield | YieldCall::Confer | YieldCall::Prod => u32::try_from(detail.value).ok(),
            // Where it has one, of KVM_HC_KICK_CPU as its second argument, it is not kept.
            _ => None,
        };
        Some((call, named.filter(|number| *number < u32::MAX).map(VcpuId)))
    }

    /// Its name, in its hypervisor's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            YieldCall::Pause | YieldCall::PauseFilter => "PAUSE",
            YieldCall::Wfe => "WFE",
            YieldCall::LongSpinWait => "HvCallNotifyLongSpinWait",
            YieldCall::SchedYield => "KVM_HC_SCHED_YIELD",
            YieldCall::KickCpu => "KVM_HC_KICK_CPU",
            YieldCall::Diag44 => "X'44'",
            YieldCall::Diag9c => "X'9C'",
            YieldCall::Confer => "H_CONFER",
            YieldCall::Prod => "H_PROD",
            YieldCall::SchedOp => "SCHEDOP_yield",
        }
    }

    /// Whether the caller waits for somebody; else it wakes one who waited for it.
    pub const fn waits(self) -> bool {
        !matches!(self, YieldCall::KickCpu | YieldCall::Prod)
    }

    /// Whether the call says who is to run.
    pub const fn is_directed(self) -> bool {
        matches!(
            self,
            YieldCall::SchedYield | YieldCall::KickCpu | YieldCall::Diag9c | YieldCall::Confer | YieldCall::Prod
        )
    }
}

/// Where a vCPU is when another yields to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetState {
    /// On a CPU.
    Running,
    /// Preempted: runnable, without a CPU.
    Preempted,
    /// It was woken, and waits for a CPU.
    Runnable,
    /// It has nothing to do.
    Halted,
    /// Nobody knows: no scheduler events, or none of it yet.
    Unknown,
}

/// To whom a yield gave the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum YieldRecipient {
    /// To the vCPU that it named.
    Target,
    /// To another vCPU of the same VM.
    Sibling,
    /// To another VM, or to no vCPU at all.
    Other,
    /// To nobody: the caller kept it.
    Nobody,
    /// Nobody knows: no scheduler events.
    Unknown,
}

/// Who waited for a CPU at some moment, of one VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunnableSiblings {
    /// vCPUs that had lost theirs.
    pub preempted: u32,
    /// vCPUs that were woken.
    pub woken: u32,
}

/// One yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yield {
    /// The vCPU that yielded.
    pub who: VcpuIdentity,
    /// When the vCPU left its guest.
    pub at: Moment,
    /// What it said.
    pub call: YieldCall,
    /// The vCPU that it named.
    pub target: Option<VcpuId>,
    /// Where that one was.
    pub target_state: TargetState,
    /// Which of the caller's siblings waited for a CPU; `None` without scheduler events.
    pub found: Option<RunnableSiblings>,
    /// Time in the guest that the yield ended.
    pub guest: Nanos,
    /// Whether the exit before was a yield as well: in `guest` the vCPU went on spinning, or got what it waited for and
    /// spun anew.
    pub again: bool,
    /// Whether the vCPU's thread was switched out since the yield before.
    pub was_out: bool,
    /// How long it might loop on PAUSE, if that grew by this: cycles on VMX, PAUSEs on SVM.
    pub window: Option<u32>,
    /// To whom the CPU went.
    pub recipient: YieldRecipient,
    /// Time until the entry in which the vCPU could run and did not.
    pub waited: Nanos,
    /// The entry into the guest; `None` if it was not seen.
    pub entered: Option<Moment>,
}

/// A vCPU that lost its CPU while it wanted to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// The vCPU that was preempted.
    pub who: VcpuIdentity,
    /// When it lost its CPU.
    pub at: Moment,
    /// When it ran again; `None` if that was not seen.
    pub ran: Option<Moment>,
    /// Yields of its siblings meanwhile, of those that wait for somebody.
    pub yields: u32,
    /// The first of them.
    pub first: Option<Moment>,
    /// The thread that took its CPU, if there was one and the trace names it.
    pub by: Option<Tid>,
    /// Whether it was in a yield, and gave the CPU away itself.
    pub yielded: bool,
}

impl Preemption {
    /// How long it waited for a CPU, if it was seen to run again.
    pub fn waited(&self) -> Option<Nanos> {
        self.ran?.since(self.at)
    }
}

/// A vCPU whose thread was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadWakeUp {
    /// The vCPU that was woken.
    pub who: VcpuIdentity,
    /// When it was woken.
    pub at: Moment,
    /// When it ran; `None` if that was not seen.
    pub ran: Option<Moment>,
    /// The thread that recorded the wake-up, if one did: the waker, or one that an interrupt which woke the vCPU came upon; 0 on an
    /// idle CPU.
    pub by: Option<Tid>,
}

/// So many vCPUs waited for one CPU, for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunQueueInterval {
    /// From when.
    pub from: Moment,
    /// Until when.
    pub to: Moment,
    /// vCPUs of all VMs that could run and did not.
    pub waiting: u32,
}

/// What `kvm_ple_window_update` says: how long a vCPU may loop on PAUSE before it exits, before and after. Cycles on VMX,
/// PAUSEs on SVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleUpdate {
    /// The vCPU whose window it is.
    pub who: VcpuIdentity,
    /// When the window changed.
    pub at: Moment,
    /// From now on.
    pub new: u32,
    /// Until now.
    pub old: u32,
}
