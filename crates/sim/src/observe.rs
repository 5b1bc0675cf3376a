//! The run as a trace: the same events that a recording of such a host would have.

use crate::exits::Reason;
use crate::state::{Kind as TaskKind, NONE, State, YieldCall};
use crate::world::World;
use exitscope_model::{CodeList, Detail, DetailKind, Event, EventNames, ExitCode, Form, Kind, NameId, SubjectWord};
use exitscope_policy::host_halt_poll::Change as PollChange;
use exitscope_policy::vcore::{H_DOORBELL, Left};
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

impl<O: Observer> World<'_, O> {
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
    fn tell(&mut self, strand: u32, name: NameId, kind: Kind) {
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

    pub(crate) fn observe_exit(&mut self, strand: u32, reason: Reason) {
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
        let idle = self.s.host.arch == Arch::Powerpc && reason == Reason::Halt;
        let first = self.first_strand_of(strand);
        let (code, about) = (ExitCode::new(list, number), detail(self.s.host.arch, reason, first));
        let words = about.map_or(SubjectWord::NONE, |(_, detail)| SubjectWord::of_port(code, &detail));
        self.tell(strand, name, Kind::Exit { code, idle, words, rip: 0 });
        if let Some((name, detail)) = about {
            self.tell(strand, name, Kind::Detail(detail));
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
        self.tell(strand, name, Kind::Enter);
    }

    /// A virtual core enters: its runner tells of every thread, then of the core.
    pub(crate) fn observe_core_enter(&mut self, task: u32, strands: &[u32]) {
        if !O::WANTED {
            return;
        }
        let runnable = strands.len() as u32;
        for strand in strands {
            self.tell_by_runner(task, *strand, GUEST_ENTER, Kind::Enter);
        }
        if let Some(first) = strands.first() {
            self.tell_by_runner(task, *first, RUN_CORE, Kind::RunCore { exit: false, runnable });
        }
    }

    /// A virtual core's threads have left.
    pub(crate) fn observe_core_exit(&mut self, task: u32, left: &[(u32, Left)]) {
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
                Kind::Exit { code, idle: left.ceded, words: SubjectWord::NONE, rip: 0 },
            );
        }
        let kind = Kind::RunCore { exit: true, runnable: left.len() as u32 };
        self.tell_by_runner(task, first, RUN_CORE, kind);
    }

    fn tell_by_runner(&mut self, task: u32, strand: u32, name: NameId, kind: Kind) {
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
            self.tell(strand, FPU, Kind::Fpu { load: false });
            self.tell(strand, USER_EXIT, Kind::UserspaceExit { reason, errno: 0 });
        }
    }

    pub(crate) fn observe_user_enter(&mut self, strand: u32) {
        if O::WANTED {
            self.tell(strand, FPU, Kind::Fpu { load: true });
        }
    }

    pub(crate) fn observe_halt_end(&mut self, strand: u32, halt: Nanos, waited: bool, change: Option<PollChange>) {
        if O::WANTED {
            if let Some(PollChange { grow, old, new }) = change.filter(|_| self.s.host.arch != Arch::Powerpc) {
                let nanos = |poll: Nanos| u32::try_from(poll.0).unwrap_or(u32::MAX);
                self.tell(strand, HALT_POLL, Kind::HaltPoll { grow, new: nanos(new), old: nanos(old) });
            }
            self.tell(strand, VCPU_WAKEUP, Kind::HaltEnd { ns: halt.0, waited, valid: true });
        }
    }

    /// A strand may loop on PAUSE for longer, or less long.
    pub(crate) fn observe_window(&mut self, strand: u32, change: PleChange) {
        let PleChange { old, new } = change;
        if O::WANTED && old != new {
            self.tell(strand, PLE_WINDOW, Kind::PleWindow { new, old });
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
        let sleeps = self.tasks.get(prev as usize).is_some_and(|task| task.state == State::Blocked);
        let prev = self.task_id(prev);
        let kind = Kind::Switch { prev, sleeps, next };
        let event = Event { tid: prev, name: SWITCH, ..Event::nameless(self.moment(), PcpuId(cpu), kind) };
        self.observer.event(event);
    }

    pub(crate) fn observe_wakeup(&mut self, task: u32) {
        if O::WANTED {
            let tid = self.task_id(task);
            let cpu = PcpuId(self.tasks[task as usize].cpu);
            let event = Event { name: SCHED_WAKEUP, ..Event::nameless(self.moment(), cpu, Kind::Wakeup { tid }) };
            self.observer.event(event);
        }
    }
}

/// VMX basic exit reasons.
const fn vmx(reason: Reason) -> u64 {
    match reason {
        Reason::Port { .. } => 30,
        Reason::Mmio { .. } | Reason::Doorbell { .. } => 49,
        Reason::Hypercall(_) | Reason::Sense { .. } => 18,
        Reason::Cpuid => 10,
        Reason::Ipi { .. } | Reason::Timer => 32,
        Reason::Halt => 12,
        Reason::Interrupt | Reason::Tick => 1,
        Reason::Yield(YieldCall::Pause) => 40,
        Reason::Yield(_) => 18,
    }
}

/// SVM exit codes.
const fn svm(reason: Reason) -> u64 {
    match reason {
        Reason::Port { .. } => 0x7b,
        Reason::Mmio { .. } | Reason::Doorbell { .. } => 0x400,
        Reason::Hypercall(_) | Reason::Sense { .. } => 0x81,
        Reason::Cpuid => 0x72,
        Reason::Ipi { .. } | Reason::Timer => 0x7c,
        Reason::Halt => 0x78,
        Reason::Interrupt | Reason::Tick => 0x60,
        Reason::Yield(YieldCall::Pause) => 0x77,
        Reason::Yield(_) => 0x81,
    }
}

/// s390 interception codes.
const fn s390(reason: Reason) -> u64 {
    match reason {
        Reason::Halt => 0x1c,
        Reason::Interrupt | Reason::Tick => 0,
        _ => 4,
    }
}

/// What the exit is about, and the tracepoint that says so; `first` is the strand of the VM's first vCPU.
fn detail(arch: Arch, reason: Reason, first: u32) -> Option<(NameId, Detail)> {
    let plain = Detail { kind: DetailKind::Port, write: false, form: Form::Untold, size: 0, key: 0, value: 0 };
    Some(match reason {
        Reason::Port { port, size, write, string } => {
            let form = if string { Form::String } else { Form::Plain };
            (PIO, Detail { write, form, size: size.into(), key: port.into(), ..plain })
        }
        Reason::Mmio { address, size, write, value } => {
            (MMIO, Detail { kind: DetailKind::Mmio, write, size: size.into(), key: address, value, ..plain })
        }
        Reason::Doorbell { channel, .. } => match arch {
            Arch::Vmx | Arch::Svm => {
                let key = FIRST_DOORBELL + (u64::from(channel) << 12);
                (MMIO, Detail { kind: DetailKind::Mmio, write: true, size: 4, key, ..plain })
            }
            Arch::S390 => (DIAG, Detail { kind: DetailKind::Diag, key: 0x500, ..plain }),
            Arch::Powerpc => return None,
        },
        Reason::Hypercall(number) => match arch {
            Arch::Vmx | Arch::Svm => (HYPERCALL, Detail { kind: DetailKind::Hypercall, key: number.into(), ..plain }),
            Arch::Powerpc => (HCALL, Detail { kind: DetailKind::PpcHcall, key: number.into(), ..plain }),
            // The number of the call is in a register, which no tracepoint shows.
            Arch::S390 => (DIAG, Detail { kind: DetailKind::Diag, key: 0x500, ..plain }),
        },
        Reason::Timer if matches!(arch, Arch::Vmx | Arch::Svm) => {
            (MSR, Detail { kind: DetailKind::Msr, write: true, key: TSC_DEADLINE, ..plain })
        }
        Reason::Ipi { to } if matches!(arch, Arch::Vmx | Arch::Svm) => {
            let value = u64::from(to.saturating_sub(first)) << 32;
            (MSR, Detail { kind: DetailKind::Msr, write: true, key: X2APIC_ICR, value, ..plain })
        }
        Reason::Cpuid => (CPUID, Detail { kind: DetailKind::Cpuid, ..plain }),
        Reason::Yield(YieldCall::Diag44) => (DIAG, Detail { kind: DetailKind::Diag, key: 0x44, ..plain }),
        Reason::Yield(YieldCall::Diag9c { .. }) => (DIAG, Detail { kind: DetailKind::Diag, key: 0x9c, ..plain }),
        Reason::Yield(YieldCall::Confer { to }) => {
            (HCALL, Detail { kind: DetailKind::PpcHcall, key: 0xe4, value: to.saturating_sub(first).into(), ..plain })
        }
        _ => return None,
    })
}
