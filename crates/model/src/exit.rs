//! The exit row: one exit, when, how long, who, why, where to and about what.

use crate::codes::{KVM_EXIT_UNKNOWN, UserStay};
use crate::{
    ApicvChange, CodeList, Event, ExitCode, ExitInfo, ExitParts, ExitPhases, KvmActivity, PhaseBoundary, Subject,
    TimePart,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// Whose exit it is. A trace that does not name the vCPU still names the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuIdentity {
    /// The VM (process), or unknown.
    pub vm: VmId,
    /// The vCPU's number, or unknown.
    pub vcpu: VcpuId,
    /// The thread; zero where the vCPU is named by the event and recorded by another's thread (powerpc).
    pub tid: Tid,
}

/// How many VMs vCPUs of these numbers are of, at least: none has a number twice. Of unknown numbers nothing is known.
pub fn least_vms(numbers: impl IntoIterator<Item = VcpuId>) -> usize {
    let mut threads: FxHashMap<VcpuId, usize> = FxHashMap::default();
    let known = numbers.into_iter().filter(|number| number.number().is_some());
    known.for_each(|number| *threads.entry(number).or_default() += 1);
    threads.into_values().max().unwrap_or(1)
}

impl VcpuIdentity {
    /// Whose an event says that it is.
    #[inline]
    pub fn of(event: &Event) -> VcpuIdentity {
        VcpuIdentity { vm: event.vm, vcpu: event.vcpu, tid: event.tid }
    }

    /// The same, with the vCPU that its thread is known to run if it does not say one itself.
    #[inline]
    pub fn completed(mut self, vcpu_of: &FxHashMap<Tid, VcpuId>) -> VcpuIdentity {
        if self.vcpu == VcpuId::UNKNOWN
            && let Some(&vcpu) = vcpu_of.get(&self.tid)
        {
            self.vcpu = vcpu;
        }
        self
    }
}

/// One activity of KVM: when, and in whose thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvmActivityEvent {
    /// A vCPU, another thread of the VMM, or one of the kernel's own (khugepaged, ksmd, kswapd), which says nothing of the VM.
    pub who: VcpuIdentity,
    /// The event's time.
    pub at: Moment,
    /// What the event shows of KVM.
    pub activity: KvmActivity,
}

/// One change of what inhibits APICv or AVIC: when, and in whose thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApicvChangeEvent {
    /// A vCPU of the VM, or another thread of the VMM.
    pub who: VcpuIdentity,
    /// The event's time.
    pub at: Moment,
    /// What changes.
    pub change: ApicvChange,
}

/// Who answered an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handler {
    /// Handled in the kernel.
    Kernel,
    /// Answered by user space, with this `KVM_EXIT_*` reason. A signal also takes a vCPU there, between two entries, and by then
    /// KVM has answered the exit (`vcpu_run` of arch/x86/kvm/x86.c): its reason stands only where the return is all that the
    /// trace has of the exit.
    Userspace(u32),
    /// Xen: answered by the device model, which runs in another domain.
    DeviceModel,
}

impl Handler {
    /// `kernel`, the kernel's name of the user-space reason, or `device model`.
    pub fn name(self) -> String {
        match self {
            Handler::Kernel => "kernel".to_string(),
            Handler::Userspace(reason) => ExitCode::new(CodeList::KvmExit, u64::from(reason)).name(),
            Handler::DeviceModel => "device model".to_string(),
        }
    }
}

/// One exit. Its parts are disjoint, and together the whole time from exit to entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When the vCPU left its guest.
    pub at: Moment,
    /// Whose exit.
    pub who: VcpuIdentity,
    /// Where it happened.
    pub cpu: PcpuId,
    /// The exit reason.
    pub code: ExitCode,
    /// Where in the guest: its instruction pointer (`guest_rip`, `vcpu_pc`, `sepc`, `pc`, the PSW's address); zero if the
    /// trace does not say.
    pub rip: u64,
    /// What it says besides.
    pub info: ExitInfo,
    /// Where to.
    pub handler: Handler,
    /// About what.
    pub subject: Option<Subject>,
    /// Interrupt vector injected at the entry that ended it.
    pub injected: Option<u32>,
    /// Time in the guest that this exit ended; where the vCPU lost its CPU meanwhile, since it had it again.
    pub guest: Nanos,
    /// Where the time from exit to entry went.
    pub parts: ExitParts,
    /// How its cost divides into steps.
    pub phases: ExitPhases,
    /// Whether both ends were seen; if not, the times mean nothing and only the count stands.
    pub timed: bool,
    /// Whether the guest halted: it asks for nothing but to be woken.
    pub is_halt: bool,
    /// Events folded into this row.
    pub events: u32,
}

impl Exit {
    /// `KVM_RUN` returns for this reason (`KVM_EXIT_*`). Where that was seen before its reason, no reason stands yet.
    pub(crate) fn note_return(&mut self, stay: UserStay, reason: u32) {
        match (stay, self.handler) {
            (UserStay::Kicked, Handler::Userspace(KVM_EXIT_UNKNOWN)) => self.handler = Handler::Kernel,
            (UserStay::Kicked, _) => {}
            (UserStay::Halted | UserStay::Served, _) => self.handler = Handler::Userspace(reason),
        }
    }

    /// Whether the vCPU was outside the kernel, or Xen, whoever answered the exit.
    #[inline]
    pub fn has_left_kernel(&self) -> bool {
        self.handler != Handler::Kernel || self.phases.has(PhaseBoundary::HandedOver)
    }

    /// From exit to entry, everything included: what `perf kvm stat` calls the exit's time on x86, s390 and powerpc.
    #[inline(always)]
    pub fn total(&self) -> Nanos {
        match self.parts.is_cost() {
            true => self.cost(),
            false => self.parts.sum(),
        }
    }

    /// What the exit cost: kernel and user space.
    #[inline(always)]
    pub fn cost(&self) -> Nanos {
        self.parts.cost()
    }

    /// What it is about, of the guest's own: a nested guest's ports, registers and pages are others.
    #[inline]
    pub fn subject(&self) -> Option<Subject> {
        self.subject.filter(|_| !self.code.nested)
    }

    /// How long one of its parts is.
    #[inline(always)]
    pub fn part(&self, part: TimePart) -> Nanos {
        self.parts.get(part)
    }
}

/// Takes rows as they are completed.
pub trait ExitSink {
    /// Takes one.
    fn take(&mut self, row: &Exit);
}

impl ExitSink for Vec<Exit> {
    fn take(&mut self, row: &Exit) {
        self.push(*row);
    }
}
