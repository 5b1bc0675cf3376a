//! The run as a trace: the same events that a recording of such a host would have.

use crate::entities::{NONE, SimYieldCall, TaskKind, TaskState};
use crate::exits::SimExitReason;
use crate::world::SimWorld;
use exitscope_model::{
    CodeList, Event, EventKind, EventNames, ExitCode, NameId, PortAccessForm, Subject, SubjectKind, SubjectWord,
};
use exitscope_policy::host_halt_poll::PollAdjustment as PollChange;
use exitscope_policy::vcore::{H_DOORBELL, ThreadExit};
use exitscope_policy::yielding::PleChange;
use exitscope_scenario::{Arch, Scenario};
use exitscope_units::{Nanos, PcpuId, Tid, VcpuId, VmId};

/// Who wants to see a run's events.
pub trait Observer {
    /// Whether it wants them at all.
    const WANTED: bool;

    /// One event; they come in the order of their moments.
    fn event(&mut self, event: Event);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unseen;

impl Observer for Unseen {
    const WANTED: bool = false;

    fn event(&mut self, _: Event) {}
}

impl Observer for Vec<Event> {
    const WANTED: bool = true;

    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

/// The tracepoints of simulated runs; an event's name is the position in this list.
const TRACEPOINTS: [&str; 13] = [
    "kvm:kvm_exit",
    "kvm:kvm_entry",
    "kvm:kvm_userspace_exit",
    "kvm:kvm_fpu",
    "kvm:kvm_vcpu_wakeup",
    "kvm:kvm_pio",
    "kvm:kvm_mmio",
    "kvm:kvm_hypercall",
    "kvm:kvm_cpuid",
    "kvm_hv:kvm_guest_exit",
    "kvm_hv:kvm_guest_enter",
    "kvm_hv:kvmppc_run_core",
    "sched:sched_switch",
];
const WAKEUP: &str = "sched:sched_wakeup";
const S390: [&str; 3] = ["kvm:kvm_s390_sie_exit", "kvm:kvm_s390_sie_enter", "kvm:kvm_s390_handle_diag"];
const PPC_HCALL: &str = "kvm_hv:kvm_hcall_enter";
const LATER: [&str; 3] = ["kvm:kvm_ple_window_update", "kvm:kvm_msr", "kvm:kvm_halt_poll_ns"];

/// The names of a simulated run's tracepoints.
pub fn event_names() -> EventNames {
    let mut names = EventNames::default();
    for name in TRACEPOINTS.into_iter().chain([WAKEUP]).chain(S390).chain([PPC_HCALL]).chain(LATER) {
        names.intern(name);
    }
    names
}

const EXIT: NameId = NameId(0);
const ENTRY: NameId = NameId(1);
const USER_EXIT: NameId = NameId(2);
const FPU: NameId = NameId(3);
const VCPU_WAKEUP: NameId = NameId(4);
const PIO: NameId = NameId(5);
const MMIO: NameId = NameId(6);
const HYPERCALL: NameId = NameId(7);
const CPUID: NameId = NameId(8);
const GUEST_EXIT: NameId = NameId(9);
const GUEST_ENTER: NameId = NameId(10);
const RUN_CORE: NameId = NameId(11);
const SWITCH: NameId = NameId(12);
const SCHED_WAKEUP: NameId = NameId(13);
const SIE_EXIT: NameId = NameId(14);
const SIE_ENTER: NameId = NameId(15);
const DIAG: NameId = NameId(16);
const HCALL: NameId = NameId(17);
const PLE_WINDOW: NameId = NameId(18);
const MSR: NameId = NameId(19);
const HALT_POLL: NameId = NameId(20);

/// The registers of the local APIC that arm its timer and send an interrupt: MSR_IA32_TSC_DEADLINE and x2APIC's ICR.
const TSC_DEADLINE: u64 = 0x6e0;
const X2APIC_ICR: u64 = 0x830;

/// Where the doorbell of the first channel is, in guests on x86; the others follow, a page each.
const FIRST_DOORBELL: u64 = 0xfe00_0000;

/// The first process number.
const FIRST_PID: u32 = 1_000;

/// The process of every VM, and what it is called; copies of a VM are numbered.
pub fn processes(scenario: &Scenario) -> Vec<(VmId, String)> {
    let mut pid = FIRST_PID;
    let mut list = Vec::new();
    for vm in &scenario.vms {
        for copy in 0..vm.copies {
            let name = if vm.copies > 1 { format!("{}-{copy}", vm.name) } else { vm.name.clone() };
            list.push((VmId(pid), name));
            // Its vCPUs' threads come next.
            pid += 1 + vm.vcpus;
        }
    }
    list
}

impl<O: Observer> SimWorld<'_, O> {
    /// The process of a VM.
    fn process_of(&self, vm: u32) -> VmId {
        match self.vms.get(vm as usize) {
            Some(state) => VmId(FIRST_PID + state.first_strand + vm),
            None => VmId::UNKNOWN,
        }
    }

    fn thread_id(&self, strand: u32) -> Tid {
        let st = &self.strands[strand as usize];
        match self.vms.get(st.vm as usize) {
            Some(vm) => Tid(FIRST_PID + vm.first_strand + st.vm + 1 + st.vcpu),
            None => Tid(FIRST_PID + strand + self.vms.len() as u32),
        }
    }

    fn task_id(&self, task: u32) -> Tid {
        match self.tasks.get(task as usize).map(|task| &task.kind) {
            Some(TaskKind::Strands { first, .. }) => self.thread_id(*first),
            Some(TaskKind::Device { .. }) => Tid(FIRST_PID + (self.strands.len() + self.vms.len()) as u32 + task),
            None => Tid(0),
        }
    }

    /// An event of a strand, on the CPU that runs its task.
    fn tell(&mut self, strand: u32, name: NameId, kind: EventKind) {
        let cpu = self.tasks[self.strands[strand as usize].task as usize].cpu;
        let st = &self.strands[strand as usize];
        let event = Event {
            at: self.moment(),
            tid: self.thread_id(strand),
            vm: self.process_of(st.vm),
            vcpu: VcpuId(st.vcpu),
            cpu: PcpuId(cpu),
            name,
            kind,
        };
        self.observer.event(event);
    }

    pub(crate) fn observe_exit(&mut self, strand: u32, reason: SimExitReason) {
        if !O::WANTED || self.s.host.ganged {
            return;
        }
        let (list, number) = match self.s.host.arch {
            Arch::Vmx => (CodeList::Vmx, vmx(reason)),
            Arch::Svm => (CodeList::Svm, svm(reason)),
            Arch::Powerpc => (CodeList::PpcTrap, u64::from(reason.trap())),
            Arch::S390 => (CodeList::S390, s390(reason)),
        };
        let name = match self.s.host.arch {
            Arch::Vmx | Arch::Svm => EXIT,
            Arch::Powerpc => GUEST_EXIT,
            Arch::S390 => SIE_EXIT,
        };
        let idle = self.s.host.arch == Arch::Powerpc && reason == SimExitReason::Halt;
        let first = self.first_strand_of(strand);
        let (code, about) = (ExitCode::new(list, number), detail(self.s.host.arch, reason, first));
        let words = about.map_or(SubjectWord::NONE, |(_, detail)| SubjectWord::of_port(code, &detail));
        self.tell(strand, name, EventKind::Exit { code, idle, words, rip: 0 });
        if let Some((name, detail)) = about {
            self.tell(strand, name, EventKind::Detail(detail));
        }
    }

    pub(crate) fn observe_enter(&mut self, strand: u32) {
        if !O::WANTED {
            return;
        }
        let name = match self.s.host.arch {
            Arch::Vmx | Arch::Svm => ENTRY,
            Arch::Powerpc => GUEST_ENTER,
            Arch::S390 => SIE_ENTER,
        };
        self.tell(strand, name, EventKind::Enter);
    }

    /// A virtual core enters: its runner tells of every thread, then of the core.
    pub(crate) fn observe_core_enter(&mut self, task: u32, strands: &[u32]) {
        if !O::WANTED {
            return;
        }
        let runnable = strands.len() as u32;
        for strand in strands {
            self.tell_by_runner(task, *strand, GUEST_ENTER, EventKind::Enter);
        }
        if let Some(first) = strands.first() {
            self.tell_by_runner(task, *first, RUN_CORE, EventKind::RunCore { exit: false, runnable });
        }
    }

    /// A virtual core's threads have left.
    pub(crate) fn observe_core_exit(&mut self, task: u32, left: &[(u32, ThreadExit)]) {
        let TaskKind::Strands { first, .. } = self.tasks[task as usize].kind else { return };
        if !O::WANTED {
            return;
        }
        for (thread, left) in left {
            let trap = if left.ceded { H_DOORBELL } else { left.trap };
            let code = ExitCode::new(CodeList::PpcTrap, u64::from(trap));
            self.tell_by_runner(
                task,
                first + thread,
                GUEST_EXIT,
                EventKind::Exit { code, idle: left.ceded, words: SubjectWord::NONE, rip: 0 },
            );
        }
        let kind = EventKind::RunCore { exit: true, runnable: left.len() as u32 };
        self.tell_by_runner(task, first, RUN_CORE, kind);
    }

    fn tell_by_runner(&mut self, task: u32, strand: u32, name: NameId, kind: EventKind) {
        let st = &self.strands[strand as usize];
        let cpu = self.tasks[task as usize].cpu;
        let event = Event {
            at: self.moment(),
            tid: self.task_id(self.cpus[cpu as usize].current),
            vm: self.process_of(st.vm),
            vcpu: VcpuId(st.vcpu),
            cpu: PcpuId(cpu),
            name,
            kind,
        };
        self.observer.event(event);
    }

    pub(crate) fn observe_user_exit(&mut self, strand: u32, reason: u32) {
        if O::WANTED {
            self.tell(strand, FPU, EventKind::Fpu { load: false });
            self.tell(strand, USER_EXIT, EventKind::UserspaceExit { reason, errno: 0 });
        }
    }

    pub(crate) fn observe_user_enter(&mut self, strand: u32) {
        if O::WANTED {
            self.tell(strand, FPU, EventKind::Fpu { load: true });
        }
    }

    pub(crate) fn observe_halt_end(&mut self, strand: u32, halt: Nanos, waited: bool, change: Option<PollChange>) {
        if O::WANTED {
            if let Some(PollChange { grow, old, new }) = change.filter(|_| self.s.host.arch != Arch::Powerpc) {
                let nanos = |poll: Nanos| u32::try_from(poll.0).unwrap_or(u32::MAX);
                self.tell(strand, HALT_POLL, EventKind::HaltPoll { grow, new: nanos(new), old: nanos(old) });
            }
            self.tell(strand, VCPU_WAKEUP, EventKind::HaltEnd { ns: halt.0, waited, valid: true });
        }
    }

    /// A strand may loop on PAUSE for longer, or less long.
    pub(crate) fn observe_window(&mut self, strand: u32, change: PleChange) {
        let PleChange { old, new } = change;
        if O::WANTED && old != new {
            self.tell(strand, PLE_WINDOW, EventKind::PleWindow { new, old });
        }
    }

    /// A CPU gives itself to a task.
    pub(crate) fn observe_switch(&mut self, cpu: u32, task: u32) {
        if O::WANTED {
            let next = self.task_id(task);
            let prev = self.last_on[cpu as usize];
            self.last_on[cpu as usize] = task;
            self.tell_switch(cpu, prev, next);
        }
    }

    pub(crate) fn observe_idle(&mut self, cpu: u32) {
        if O::WANTED {
            let prev = std::mem::replace(&mut self.last_on[cpu as usize], NONE);
            self.tell_switch(cpu, prev, Tid(0));
        }
    }

    fn tell_switch(&mut self, cpu: u32, prev: u32, next: Tid) {
        let sleeps = self.tasks.get(prev as usize).is_some_and(|task| task.state == TaskState::Blocked);
        let prev = self.task_id(prev);
        let kind = EventKind::switch(prev, sleeps, next);
        let event = Event { tid: prev, name: SWITCH, ..Event::nameless(self.moment(), PcpuId(cpu), kind) };
        self.observer.event(event);
    }

    pub(crate) fn observe_wakeup(&mut self, task: u32) {
        if O::WANTED {
            let tid = self.task_id(task);
            let cpu = PcpuId(self.tasks[task as usize].cpu);
            let event = Event { name: SCHED_WAKEUP, ..Event::nameless(self.moment(), cpu, EventKind::Wakeup { tid }) };
            self.observer.event(event);
        }
    }
}

/// VMX basic exit reasons.
const fn vmx(reason: SimExitReason) -> u64 {
    match reason {
        SimExitReason::Port { .. } => 30,
        SimExitReason::Mmio { .. } | SimExitReason::Doorbell { .. } => 49,
        SimExitReason::Hypercall(_) | SimExitReason::Sense { .. } => 18,
        SimExitReason::Cpuid => 10,
        SimExitReason::Ipi { .. } | SimExitReason::Timer => 32,
        SimExitReason::Halt => 12,
        SimExitReason::Interrupt | SimExitReason::Tick => 1,
        SimExitReason::Yield(SimYieldCall::Pause) => 40,
        SimExitReason::Yield(_) => 18,
    }
}

/// SVM exit codes.
const fn svm(reason: SimExitReason) -> u64 {
    match reason {
        SimExitReason::Port { .. } => 0x7b,
        SimExitReason::Mmio { .. } | SimExitReason::Doorbell { .. } => 0x400,
        SimExitReason::Hypercall(_) | SimExitReason::Sense { .. } => 0x81,
        SimExitReason::Cpuid => 0x72,
        SimExitReason::Ipi { .. } | SimExitReason::Timer => 0x7c,
        SimExitReason::Halt => 0x78,
        SimExitReason::Interrupt | SimExitReason::Tick => 0x60,
        SimExitReason::Yield(SimYieldCall::Pause) => 0x77,
        SimExitReason::Yield(_) => 0x81,
    }
}

/// s390 interception codes.
const fn s390(reason: SimExitReason) -> u64 {
    match reason {
        SimExitReason::Halt => 0x1c,
        SimExitReason::Interrupt | SimExitReason::Tick => 0,
        _ => 4,
    }
}

/// What the exit is about, and the tracepoint that says so; `first` is the strand of the VM's first vCPU.
fn detail(arch: Arch, reason: SimExitReason, first: u32) -> Option<(NameId, Subject)> {
    let plain =
        Subject { kind: SubjectKind::Port, write: false, form: PortAccessForm::Unknown, size: 0, key: 0, value: 0 };
    Some(match reason {
        SimExitReason::Port { port, size, write, string } => {
            let form = if string { PortAccessForm::String } else { PortAccessForm::NonString };
            (PIO, Subject { write, form, size: size.into(), key: port.into(), ..plain })
        }
        SimExitReason::Mmio { address, size, write, value } => {
            (MMIO, Subject { kind: SubjectKind::Mmio, write, size: size.into(), key: address, value, ..plain })
        }
        SimExitReason::Doorbell { channel, .. } => match arch {
            Arch::Vmx | Arch::Svm => {
                let key = FIRST_DOORBELL + (u64::from(channel) << 12);
                (MMIO, Subject { kind: SubjectKind::Mmio, write: true, size: 4, key, ..plain })
            }
            Arch::S390 => (DIAG, Subject { kind: SubjectKind::Diag, key: 0x500, ..plain }),
            Arch::Powerpc => return None,
        },
        SimExitReason::Hypercall(number) => match arch {
            Arch::Vmx | Arch::Svm => (HYPERCALL, Subject { kind: SubjectKind::Hypercall, key: number.into(), ..plain }),
            Arch::Powerpc => (HCALL, Subject { kind: SubjectKind::PpcHcall, key: number.into(), ..plain }),
            // The number of the call is in a register, which no tracepoint shows.
            Arch::S390 => (DIAG, Subject { kind: SubjectKind::Diag, key: 0x500, ..plain }),
        },
        SimExitReason::Timer if matches!(arch, Arch::Vmx | Arch::Svm) => {
            (MSR, Subject { kind: SubjectKind::Msr, write: true, key: TSC_DEADLINE, ..plain })
        }
        SimExitReason::Ipi { to } if matches!(arch, Arch::Vmx | Arch::Svm) => {
            let value = u64::from(to.saturating_sub(first)) << 32;
            (MSR, Subject { kind: SubjectKind::Msr, write: true, key: X2APIC_ICR, value, ..plain })
        }
        SimExitReason::Cpuid => (CPUID, Subject { kind: SubjectKind::Cpuid, ..plain }),
        SimExitReason::Yield(SimYieldCall::Diag44) => (DIAG, Subject { kind: SubjectKind::Diag, key: 0x44, ..plain }),
        SimExitReason::Yield(SimYieldCall::Diag9c { .. }) => {
            (DIAG, Subject { kind: SubjectKind::Diag, key: 0x9c, ..plain })
        }
        SimExitReason::Yield(SimYieldCall::Confer { to }) => {
            (HCALL, Subject { kind: SubjectKind::PpcHcall, key: 0xe4, value: to.saturating_sub(first).into(), ..plain })
        }
        _ => return None,
    })
}
