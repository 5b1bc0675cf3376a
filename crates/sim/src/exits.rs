//! Exits: what each makes a CPU do, step by step, until the strands may enter the guest again.
//!
//! ```text
//!  Exit ─► handler, by reason ─► looks ─► (to user space and back) ─► Entry
//!          port: the way that `port_path` says          as `exit_path` says
//! ```

use crate::Observer;
use crate::entities::{Effect, HostWork, NONE, SimYieldCall, StrandActivity, StrandStatus, TaskKind, TaskState};
use crate::exit_costs::part;
use crate::run::FULL_LOAD;
use crate::world::SimWorld;
use exitscope_policy::exit_path::{self, ExitNeeds};
use exitscope_policy::port_path::{self, Direction, PortAccess, PortHandler};
use exitscope_policy::vcore;
use exitscope_policy::yielding::{Diag44, diag44};
use exitscope_scenario::{CostFigure, CostModel, Doorbell, RegistrationKind, VmSpec, YieldRules};

/// Why a strand leaves the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimExitReason {
    Port {
        port: u16,
        size: u8,
        write: bool,
        string: bool,
    },
    Mmio {
        address: u64,
        size: u8,
        write: bool,
        value: u64,
    },
    Hypercall(u32),
    Cpuid,
    /// Tells a device of a message.
    Doorbell {
        channel: u32,
        message: u32,
    },
    Ipi {
        to: u32,
    },
    /// Sets its timer.
    Timer,
    Halt,
    /// An interrupt of the host, to be handled there.
    Interrupt,
    /// The host's timer.
    Tick,
    Yield(SimYieldCall),
    Sense {
        of: u32,
    },
}

/// How a CPU goes on with a plan after one of its effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// With the next step.
    GoOn,
    /// With another task: this one sleeps in the middle of its plan.
    Block,
    /// Later, when somebody else has planned it.
    Stay,
}

/// How many kinds of reasons there are.
pub(crate) const REASONS: usize = 15;

impl SimExitReason {
    /// A number below [`REASONS`].
    pub(crate) const fn number(self) -> usize {
        match self {
            SimExitReason::Port { .. } => 0,
            SimExitReason::Mmio { .. } => 1,
            SimExitReason::Hypercall(_) => 2,
            SimExitReason::Cpuid => 3,
            SimExitReason::Doorbell { .. } => 4,
            SimExitReason::Ipi { .. } => 5,
            SimExitReason::Halt => 6,
            SimExitReason::Interrupt => 7,
            SimExitReason::Tick => 8,
            SimExitReason::Yield(SimYieldCall::Pause) => 9,
            SimExitReason::Yield(SimYieldCall::Diag44) => 10,
            SimExitReason::Yield(SimYieldCall::Diag9c { .. }) => 11,
            SimExitReason::Sense { .. } => 12,
            SimExitReason::Timer => 13,
            SimExitReason::Yield(SimYieldCall::Confer { .. }) => 14,
        }
    }

    /// What a report calls them.
    pub(crate) const NAMES: [&'static str; REASONS] = [
        "port access",
        "MMIO access",
        "hypercall",
        "CPUID",
        "doorbell",
        "IPI",
        "halt",
        "interrupt",
        "timer tick",
        "PAUSE loop",
        "diagnose X'44'",
        "diagnose X'9C'",
        "sense running",
        "timer set",
        "H_CONFER",
    ];

    /// The trap that a powerpc thread leaves with.
    pub(crate) const fn trap(self) -> u16 {
        match self {
            SimExitReason::Tick => vcore::HV_DECREMENTER,
            SimExitReason::Interrupt => vcore::EXTERNAL,
            _ => 0xc00,
        }
    }
}

/// The ways of a VM's exits: what `exit_path` says under its policies, with costs. They are the same at every exit.
#[derive(Debug)]
pub(crate) struct ExitPaths {
    /// The time from the exit to its handler, all of it in the kernel.
    out: u64,
    /// From the handler to the entry.
    in_kernel: Vec<Stage>,
    through_user: Vec<Stage>,
}

/// What an exit does after its handler; what depends on the exit itself is put in for each one.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Spend { time: u64, user: bool },
    LeaveKernel,
    TakeLock,
    DropLock,
    EnterKernel,
    CompleteIo,
}

impl ExitPaths {
    pub(crate) fn new(costs: &CostModel, vm: &VmSpec) -> ExitPaths {
        let phases = |user| exit_path::phases(&vm.policies.exit_path, &ExitNeeds { user, ..ExitNeeds::default() });
        let (before, in_kernel) = ways(costs, &phases(None));
        let (before_user, mut through_user) = ways(costs, &phases(Some(vm.registers)));
        let (out, out_user) = (spent(&before), spent(&before_user));
        // Whether user space is needed shows in the handler only: what a shortcut leaves out before it is paid behind it.
        if let Some(time) = out_user.checked_sub(out).filter(|time| *time > 0) {
            through_user.insert(0, Stage::Spend { time, user: false });
        }
        ExitPaths { out, in_kernel, through_user }
    }
}

/// The time of all stages.
fn spent(way: &[Stage]) -> u64 {
    let times = way.iter().map(|stage| if let Stage::Spend { time, .. } = stage { *time } else { 0 });
    times.fold(0, u64::saturating_add)
}

/// The stages before the handler, and those after it.
fn ways(costs: &CostModel, phases: &[exit_path::RepeatedWork]) -> (Vec<Stage>, Vec<Stage>) {
    use exit_path::ExitPathWork as P;
    let is_handler = |step: &exit_path::RepeatedWork| matches!(step.phase, P::Handle | P::HandleFast);
    let handler = phases.iter().position(is_handler).unwrap_or(phases.len());
    let (before, after) = phases.split_at(handler);
    (way(costs, before), way(costs, after))
}

fn way(costs: &CostModel, phases: &[exit_path::RepeatedWork]) -> Vec<Stage> {
    use exit_path::ExitPathWork as P;
    let mut way = Vec::new();
    for step in phases {
        let spend =
            |cost: &CostFigure, user| Stage::Spend { time: cost.time.0.saturating_mul(step.times.into()), user };
        let kernel = |cost| spend(cost, false);
        let user = |cost| spend(cost, true);
        match step.phase {
            P::Exit => way.extend([kernel(&costs.exit), kernel(&costs.delay)]),
            P::Account => way.push(kernel(&costs.accounting)),
            P::SwitchInterrupts => way.push(kernel(&costs.irq_off_on)),
            P::SaveInterrupts => way.push(kernel(&costs.irq_save_restore)),
            P::SaveFpu => way.push(kernel(&costs.fpu_save)),
            P::LoadFpu => way.push(kernel(&costs.fpu_load)),
            P::LookForTimer | P::LookForSignal | P::LookForRequests => way.push(kernel(&costs.look)),
            P::ServeTimer | P::ServeSignal | P::ServeRequest => way.push(kernel(&costs.look_in_vain)),
            P::TestRequest => way.push(kernel(&costs.request_test)),
            P::CopyOut | P::CopyIn => way.push(kernel(&costs.register_copy)),
            P::SwitchSignalMask => way.push(kernel(&costs.signal_mask)),
            P::LeaveKernel => way.extend([kernel(&costs.kernel_leave), Stage::LeaveKernel]),
            P::UserLoop => way.push(user(&costs.user_loop)),
            P::TakeBigLock => way.extend([Stage::TakeLock, user(&costs.user_lock)]),
            P::ReleaseBigLock => way.push(Stage::DropLock),
            P::TakeDeviceLock => way.push(user(&costs.user_lock)),
            P::GetRegisters | P::SetRegisters => way.push(user(&costs.register_ioctl)),
            P::ResolveObject => way.push(user(&costs.object_lookup)),
            P::Device => way.push(user(&costs.device)),
            P::EnterKernel => way.extend([Stage::EnterKernel, kernel(&costs.kernel_enter)]),
            P::CompleteIo => way.push(Stage::CompleteIo),
            // The handler is put in for each exit, the entry together with what is pending then.
            P::Handle | P::HandleFast | P::ReleaseDeviceLock | P::Entry => {}
        }
    }
    way.dedup_by(|next, last| match (last, next) {
        (Stage::Spend { time: sum, user }, Stage::Spend { time, user: too }) if user == too => {
            *sum = sum.saturating_add(*time);
            true
        }
        _ => false,
    });
    way
}

/// What to do outside the guest, in order, times added up as long as nothing happens in between.
#[derive(Default)]
struct Plan {
    steps: Vec<HostWork>,
}

impl Plan {
    fn spend(&mut self, time: u64, in_user: bool) {
        if let Some(HostWork::Spend { time: sum, user }) = self.steps.last_mut()
            && *user == in_user
        {
            *sum = sum.saturating_add(time);
            return;
        }
        self.steps.push(HostWork::Spend { time, user: in_user });
    }

    fn kernel(&mut self, cost: &CostFigure) {
        self.spend(cost.time.0, false);
    }

    /// Where what is added next begins: the step, and the time that is in it already.
    fn end(&self) -> (usize, u64) {
        match self.steps.last() {
            Some(HostWork::Spend { time, user: false }) => (self.steps.len() - 1, *time),
            _ => (self.steps.len(), 0),
        }
    }

    /// What was added from there on takes so many times as long, but for a delay that its first step has.
    fn spread(&mut self, (first, before): (usize, u64), delay: u64, factor: f64) {
        let mut fixed = before.saturating_add(delay);
        for step in &mut self.steps[first..] {
            if let HostWork::Spend { time, .. } = step {
                *time = fixed.saturating_add(part(time.saturating_sub(fixed), factor));
            }
            fixed = 0;
        }
    }

    fn then(&mut self, effect: Effect) {
        self.steps.push(HostWork::Then(effect));
    }
}

impl<O: Observer> SimWorld<'_, O> {
    /// A strand in the guest exits.
    pub(crate) fn exit(&mut self, strand: u32, reason: SimExitReason) {
        let task = self.strands[strand as usize].task;
        let native = self.strands[strand as usize].vm == NONE;
        self.stop(strand);
        self.strands[strand as usize].exit_at = self.now;
        self.strands[strand as usize].free_steps = 0;
        if reason == SimExitReason::Halt {
            self.strands[strand as usize].doing = StrandActivity::Halted;
        }
        let mut plan = Plan { steps: std::mem::take(&mut self.tasks[task as usize].plan) };
        if native {
            self.plan_native(&mut plan, strand, reason);
        } else {
            self.count_exit(strand, reason);
            self.observe_exit(strand, reason);
            let time = if self.is_gang(task) { self.gang_out(strand, reason) } else { 0 };
            if self.tasks[task as usize].state == TaskState::Queued {
                return self.leave_others_core(task, plan, strand, reason, time);
            }
            plan.spend(time, false);
            self.plan_exit(&mut plan, strand, reason);
        }
        plan.steps.reverse();
        let t = &mut self.tasks[task as usize];
        t.plan = plan.steps;
        t.in_guest = false;
        let cpu = t.cpu;
        self.set_load(cpu, FULL_LOAD);
        self.set_task_status(task, StrandStatus::Kernel);
        self.begin_plan(cpu, task);
    }

    /// As [`SimWorld::exit`], for a strand whose task is aboard another's core. The core's task goes on at once, and does
    /// what has to be done in the kernel; for anything else this one needs the CPU.
    fn leave_others_core(&mut self, task: u32, mut plan: Plan, strand: u32, reason: SimExitReason, time: u64) {
        self.plan_exit(&mut plan, strand, reason);
        let (cpu, mut time) = (self.tasks[task as usize].cpu, time);
        if let [HostWork::Spend { time: more, user: false }] = plan.steps[..] {
            time = time.saturating_add(more);
            plan.steps.clear();
        }
        plan.steps.reverse();
        self.tasks[task as usize].plan = plan.steps;
        let runner = self.cpus[cpu as usize].current;
        self.set_load(cpu, FULL_LOAD);
        self.set_task_status(runner, StrandStatus::Kernel);
        self.tasks[runner as usize].plan.push(HostWork::Spend { time, user: false });
        self.begin_plan(cpu, runner);
    }

    /// Begins with a new plan: what comes first takes time already, or the CPU goes on at this moment.
    fn begin_plan(&mut self, cpu: u32, task: u32) {
        let plan = &mut self.tasks[task as usize].plan;
        let time = match plan.last() {
            Some(HostWork::Spend { time, user: false }) => {
                let time = *time;
                plan.pop();
                time
            }
            _ => 0,
        };
        self.plan_work(cpu, time);
    }

    /// The way of an exit out and back, with what the reason's handler does.
    fn plan_exit(&mut self, plan: &mut Plan, strand: u32, reason: SimExitReason) {
        let spec = self.strands[strand as usize].spec as usize;
        let before = plan.end();
        plan.spend(self.ways[spec].out, false);
        let through_user = self.plan_handler(plan, strand, reason);
        let ways = &self.ways[spec];
        for stage in if through_user { &ways.through_user } else { &ways.in_kernel } {
            match *stage {
                Stage::Spend { time, user } => plan.spend(time, user),
                Stage::LeaveKernel => plan.then(Effect::UserExit { strand, reason: user_reason(reason) }),
                Stage::TakeLock => plan.then(Effect::TakeLock { strand }),
                Stage::DropLock => plan.then(Effect::DropLock { strand }),
                Stage::EnterKernel => {
                    if let SimExitReason::Doorbell { message, .. } = reason {
                        plan.then(Effect::Send { message });
                    }
                    plan.then(Effect::UserEnter { strand });
                }
                Stage::CompleteIo => plan.spend(self.completion(strand, reason), false),
            }
        }
        if let Some(costs) = &mut self.exit_costs {
            plan.spread(before, self.s.costs.delay.time.0, costs.draw(strand));
        }
    }

    /// What the kernel does for a reason. Whether user space has to go on with it.
    fn plan_handler(&mut self, plan: &mut Plan, strand: u32, reason: SimExitReason) -> bool {
        let costs = &self.s.costs;
        match reason {
            SimExitReason::Port { port, size, write, string } => {
                return self.plan_port(plan, strand, port, size, write, string);
            }
            SimExitReason::Mmio { address, size, write, value } => {
                return self.plan_mmio(plan, strand, (address, size, write, value));
            }
            SimExitReason::Hypercall(_) => plan.kernel(&costs.hypercall),
            SimExitReason::Cpuid => plan.kernel(&costs.cpuid),
            SimExitReason::Doorbell { channel, message } => {
                plan.kernel(&costs.port_decode);
                if self.s.channels[channel as usize].doorbell == Doorbell::DeviceModel {
                    return true;
                }
                plan.kernel(&costs.eventfd);
                plan.then(Effect::Send { message });
            }
            SimExitReason::Ipi { to } => {
                plan.kernel(&costs.ipi_send);
                plan.then(Effect::Ipi { to });
            }
            SimExitReason::Timer => plan.kernel(&costs.timer_set),
            SimExitReason::Halt => plan.kernel(&costs.halt),
            SimExitReason::Interrupt | SimExitReason::Tick => plan.kernel(&costs.interrupt),
            SimExitReason::Yield(SimYieldCall::Diag44)
                if self.s.host.scheduler.yields == YieldRules::Zvm
                    && diag44(self.waits_beside(strand)) == Diag44::FastPath =>
            {
                self.m.yields_fast += 1;
                plan.kernel(&costs.yield_fast);
            }
            SimExitReason::Yield(call) => {
                plan.kernel(&costs.yielding);
                plan.then(Effect::Yield { strand, call });
            }
            SimExitReason::Sense { of } => {
                plan.kernel(&costs.sense_running);
                plan.then(Effect::Sensed { strand, of });
            }
        }
        false
    }

    /// Whether any task waits for the CPU that a strand runs on. (Whether z/VM looks at this queue or at all of them, its
    /// documents do not say: see docs of the policy.)
    fn waits_beside(&self, strand: u32) -> bool {
        let cpu = self.tasks[self.strands[strand as usize].task as usize].cpu;
        !self.cpus[cpu as usize].queue.is_empty()
    }

    fn plan_port(&mut self, plan: &mut Plan, strand: u32, port: u16, size: u8, write: bool, string: bool) -> bool {
        let costs = &self.s.costs;
        let params = self.policies_of(strand).port_path;
        let direction = if write { Direction::Out } else { Direction::In };
        let access = PortAccess { port, size, direction, value: 0, string, rep: false };
        let vm = &mut self.vms[self.strands[strand as usize].vm as usize];
        let route = port_path::route(&params, &vm.bus, &access, vm.ring.has_room());
        match route.server {
            PortHandler::Coalesced => vm.ring.push(),
            PortHandler::DeviceModel => {
                vm.ring.drain();
            }
            PortHandler::Device | PortHandler::Ioeventfd => {}
        }
        let mut emulations = 0;
        let mut in_user = false;
        for phase in port_path::phases(&params, &route, direction).iter() {
            use port_path::PortPathWork as P;
            match phase {
                P::Exit | P::Entry => {}
                P::Decode => plan.kernel(&costs.port_decode),
                P::Emulate if in_user => {}
                P::Emulate => {
                    emulations += 1;
                    plan.kernel(&costs.emulate);
                }
                P::Device => plan.kernel(&costs.kernel_device),
                P::Signal => plan.kernel(&costs.eventfd),
                P::Store => plan.kernel(&costs.coalesce),
                P::LeaveToUser => in_user = true,
                P::WakeDeviceModel => plan.kernel(&costs.wake),
                P::Block => plan.then(Effect::Ask { strand }),
                P::DeviceModel | P::ReturnFromUser | P::Resume => {}
                P::Complete if !in_user => plan.kernel(&costs.complete_io),
                P::Complete => {}
            }
        }
        self.m.emulations += emulations;
        in_user
    }

    /// What it takes to put the answer of user space into the guest.
    fn completion(&self, strand: u32, reason: SimExitReason) -> u64 {
        let costs = &self.s.costs;
        match reason {
            SimExitReason::Port { write: false, string, .. } => {
                let quick = self.policies_of(strand).port_path.quick_path && !string;
                if quick { costs.complete_io.time.0 } else { costs.emulate.time.0 }
            }
            SimExitReason::Mmio { write: false, .. } => costs.complete_io.time.0,
            _ => 0,
        }
    }

    fn plan_mmio(&mut self, plan: &mut Plan, strand: u32, access: (u64, u8, bool, u64)) -> bool {
        let costs = &self.s.costs;
        let (address, size, write, value) = access;
        let vm = self.strands[strand as usize].vm as usize;
        let spec = &self.s.vms[self.vms[vm].spec];
        let room = self.vms[vm].ring.has_room();
        let hit =
            spec.registrations.iter().filter(|r| !r.port && r.first <= address && address <= r.last).find(|r| match r
                .kind
            {
                RegistrationKind::Kernel => true,
                RegistrationKind::Coalesced => write && room,
                RegistrationKind::Ioeventfd { size: len, datamatch } => {
                    write
                        && address == r.first
                        && (len == 0 || len == size)
                        && datamatch.is_none_or(|asked| asked == value)
                }
            });
        match hit.map(|hit| hit.kind) {
            // Without a size to compare, KVM needs no decoding.
            Some(RegistrationKind::Ioeventfd { size: 0, .. }) => {
                plan.kernel(&costs.port_decode);
                plan.kernel(&costs.eventfd);
            }
            Some(RegistrationKind::Ioeventfd { .. }) => {
                plan.kernel(&costs.emulate);
                plan.kernel(&costs.eventfd);
            }
            Some(RegistrationKind::Kernel) => {
                plan.kernel(&costs.emulate);
                plan.kernel(&costs.kernel_device);
            }
            Some(RegistrationKind::Coalesced) => {
                self.vms[vm].ring.push();
                plan.kernel(&costs.emulate);
                plan.kernel(&costs.coalesce);
            }
            None => {
                self.vms[vm].ring.drain();
                plan.kernel(&costs.emulate);
                if self.vms[vm].device_model == NONE {
                    return true;
                }
                plan.kernel(&costs.wake);
                plan.then(Effect::Ask { strand });
                plan.spend(if write { 0 } else { costs.complete_io.time.0 }, false);
            }
        }
        false
    }

    /// A thread of the host makes no exits: it waits, or sends.
    fn plan_native(&mut self, plan: &mut Plan, strand: u32, reason: SimExitReason) {
        match reason {
            SimExitReason::Doorbell { message, .. } => {
                plan.kernel(&self.s.costs.kernel_enter);
                plan.then(Effect::Send { message });
            }
            SimExitReason::Yield(call) => plan.then(Effect::Yield { strand, call }),
            _ => {}
        }
    }

    /// A strand's interrupts are to be injected: it leaves the guest for that, if it is in there.
    pub(crate) fn kick(&mut self, strand: u32) {
        let st = &self.strands[strand as usize];
        if st.rate > 0 && st.pending > 0 {
            self.exit(strand, SimExitReason::Interrupt);
        }
    }

    /// A task is to leave the guest: the scheduler wants its CPU.
    pub(crate) fn leave_guest(&mut self, task: u32) {
        if let Some(strand) = self.running_strand(task) {
            self.exit(strand, SimExitReason::Interrupt);
        }
    }

    /// The host's timer ticks while a task is in the guest.
    pub(crate) fn tick_in_guest(&mut self, task: u32) {
        if let (Some(strand), TaskKind::Strands { native: false, .. }) =
            (self.running_strand(task), &self.tasks[task as usize].kind)
        {
            self.exit(strand, SimExitReason::Tick);
        }
    }

    fn running_strand(&self, task: u32) -> Option<u32> {
        let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { return None };
        (first..first + count).find(|strand| self.strands[*strand as usize].rate > 0)
    }

    /// Something comes of a plan's step. What that means for the rest of the plan.
    pub(crate) fn take_effect(&mut self, cpu: u32, effect: Effect) -> After {
        match effect {
            Effect::Enter => {}
            Effect::UserExit { strand, reason } => self.observe_user_exit(strand, reason),
            Effect::UserEnter { strand } => self.observe_user_enter(strand),
            Effect::TakeLock { strand } => return self.take_big_lock(cpu, strand),
            Effect::DropLock { strand } => self.drop_big_lock(strand),
            Effect::Send { message } => self.send(message),
            Effect::Depart { message } => self.depart(message),
            Effect::Deliver { message } => self.deliver(message),
            Effect::Ask { strand } => {
                self.ask_device_model(strand);
                return After::Block;
            }
            Effect::Answer { strand } => self.wake(self.strands[strand as usize].task),
            Effect::Disk { disk, strand } => self.disk_starts(disk, strand),
            Effect::DiskSeen { disk, strand } => self.disk_seen(disk, strand),
            Effect::Ipi { to } => {
                self.strands[to as usize].ipis += 1;
                self.interrupt(to, true);
            }
            Effect::Yield { strand, call } => self.yield_cpu(cpu, strand, call),
            Effect::Sensed { strand, of } => {
                let task = self.strands[of as usize].task;
                let running = self.tasks[task as usize].state == TaskState::Running;
                self.sensed(strand, running);
            }
        }
        After::GoOn
    }

    /// Takes the lock of all devices as Linux takes a mutex: where it is held, waits on the CPU as long as the holder runs
    /// and nobody else wants that CPU; or sleeps, and tries again.
    fn take_big_lock(&mut self, cpu: u32, strand: u32) -> After {
        let vm = self.strands[strand as usize].vm as usize;
        let holder = self.vms[vm].lock_holder;
        if holder == NONE {
            self.vms[vm].lock_holder = strand;
            return After::GoOn;
        }
        self.m.big_lock_waits += 1;
        let task = self.strands[strand as usize].task;
        let holder_runs = self.tasks[self.strands[holder as usize].task as usize].state == TaskState::Running;
        if holder_runs && self.cpus[cpu as usize].queue.is_empty() {
            self.vms[vm].lock_spinners.push_back(strand);
            self.set_task_status(task, StrandStatus::UserSpace);
            return After::Stay;
        }
        self.tasks[task as usize].plan.push(HostWork::Then(Effect::TakeLock { strand }));
        self.vms[vm].lock_waiters.push_back(strand);
        After::Block
    }

    /// Gives the lock back: to the one that has waited longest on its CPU; if there is none, the one that has slept
    /// longest wakes up, and finds the lock free unless somebody was quicker.
    fn drop_big_lock(&mut self, strand: u32) {
        let vm = &mut self.vms[self.strands[strand as usize].vm as usize];
        vm.lock_holder = vm.lock_spinners.pop_front().unwrap_or(NONE);
        if vm.lock_holder != NONE {
            let task = self.strands[vm.lock_holder as usize].task;
            self.plan_cpu(self.tasks[task as usize].cpu, self.s.costs.lock_transfer.time.0);
        } else if let Some(next) = vm.lock_waiters.pop_front() {
            self.wake(self.strands[next as usize].task);
        }
    }
}

/// `KVM_EXIT_*` of a reason that goes on to user space.
fn user_reason(reason: SimExitReason) -> u32 {
    match reason {
        SimExitReason::Port { .. } => 2,
        _ => 6,
    }
}
