//! The machine: everything that a run changes, and how it is set up from a scenario.

use crate::cpu_set::CpuSet;
use crate::entities::{
    ChannelState, Cpu, DiskState, Message, NONE, QueuedEvent, SimLock, Strand, StrandActivity, StrandStatus,
    StrandWait, Task, TaskKind, TaskState,
};
use crate::exit_costs::ExitCosts;
use crate::exits::ExitPaths;
use crate::flat_program::{Code, Flat, flatten};
use crate::outcome::Measures;
use crate::queue::EventQueue;
use crate::random::stream;
use crate::run::FULL_LOAD;
use crate::{Limits, Observer, SimError};
use exitscope_policy::guest_halt_poll::GuestHaltPoll;
use exitscope_policy::host_halt_poll::{HostHaltPoll, PollOwner};
use exitscope_policy::port_path::{CoalescedRing, DeviceModel, PortRegistration};
use exitscope_policy::vcore::Vcore;
use exitscope_policy::yielding::{DiagnoseSupport, OnSpin, PleWindow, SpinLoop};
use exitscope_scenario::{Arch, Arrival, Program, RegistrationKind, Scenario, SpinWait, VmSpec};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// One VM of those that a scenario describes.
#[derive(Debug)]
pub(crate) struct VmState {
    /// Its description in the scenario.
    pub(crate) spec: usize,
    pub(crate) first_strand: u32,
    pub(crate) first_lock: u32,
    pub(crate) first_disk: u32,
    pub(crate) on_spin: OnSpin,
    /// The strand that holds the lock of all devices, those that wait for it on their CPUs, and those that sleep.
    pub(crate) lock_holder: u32,
    pub(crate) lock_spinners: VecDeque<u32>,
    pub(crate) lock_waiters: VecDeque<u32>,
    /// The task of its device model, or `NONE`.
    pub(crate) device_model: u32,
    /// Its device's task for each channel, or `NONE`.
    pub(crate) channel_tasks: Vec<u32>,
    pub(crate) bus: Vec<PortRegistration>,
    pub(crate) ring: CoalescedRing,
}

/// A core: the load on it (see `Cpu::load`), and which CPUs of the scheduler it has.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) load: u32,
    pub(crate) first_cpu: u32,
}

pub(crate) struct SimWorld<'s, O> {
    pub(crate) s: &'s Scenario,
    pub(crate) observer: O,
    pub(crate) limits: Limits,
    pub(crate) now: u64,
    pub(crate) end: u64,
    pub(crate) queue: EventQueue<QueuedEvent>,
    pub(crate) flats: Vec<Flat>,
    /// By description of VMs.
    pub(crate) ways: Vec<ExitPaths>,
    /// Where exits do not all take what the costs say.
    pub(crate) exit_costs: Option<ExitCosts>,
    pub(crate) cores: Vec<Core>,
    pub(crate) cpus_per_core: u32,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) idle: CpuSet,
    pub(crate) loaded: CpuSet,
    pub(crate) waiting: u32,
    pub(crate) allowed: Vec<CpuSet>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) strands: Vec<Strand>,
    pub(crate) vms: Vec<VmState>,
    pub(crate) locks: Vec<SimLock>,
    pub(crate) disks: Vec<DiskState>,
    pub(crate) channels: Vec<ChannelState>,
    pub(crate) messages: Vec<Message>,
    pub(crate) free_messages: Vec<u32>,
    pub(crate) outside: Pcg64Mcg,
    pub(crate) phases: Pcg64Mcg,
    pub(crate) sent_at: Vec<Vec<u64>>,
    pub(crate) m: Measures,
    pub(crate) trouble: Option<SimError>,
    /// The task that a trace saw last on each CPU.
    pub(crate) last_on: Vec<u32>,
}

impl<'s, O: Observer> SimWorld<'s, O> {
    /// The machine before its first event.
    pub(crate) fn new(s: &'s Scenario, observer: O, limits: Limits) -> SimWorld<'s, O> {
        let cpus_per_core = s.host.cpus_per_core(s.policies.vcore.subcores_per_core);
        let cores = s.host.sockets * s.host.cores;
        let mut world = SimWorld {
            s,
            observer,
            limits,
            now: 0,
            end: s.warmup.0.saturating_add(s.duration.0),
            queue: EventQueue::new(),
            flats: Vec::new(),
            ways: s.vms.iter().map(|vm| ExitPaths::new(&s.costs, vm)).collect(),
            exit_costs: s.costs.exit_spread.as_ref().map(|spread| ExitCosts::new(spread, s.seed)),
            cores: (0..cores).map(|core| Core { load: 0, first_cpu: core * cpus_per_core }).collect(),
            cpus_per_core,
            cpus: (0..cores * cpus_per_core).map(|cpu| Cpu::new(cpu / cpus_per_core)).collect(),
            idle: CpuSet::all(cores * cpus_per_core),
            loaded: CpuSet::none(cores * cpus_per_core),
            waiting: 0,
            allowed: Vec::new(),
            tasks: Vec::new(),
            strands: Vec::new(),
            vms: Vec::new(),
            locks: Vec::new(),
            disks: Vec::new(),
            channels: s.channels.iter().map(|_| ChannelState::default()).collect(),
            messages: Vec::new(),
            free_messages: Vec::new(),
            outside: stream(s.seed, u64::from(NONE)),
            phases: stream(s.seed, u64::from(NONE) + 1),
            sent_at: Vec::new(),
            m: Measures::new(s),
            trouble: None,
            last_on: vec![NONE; (cores * cpus_per_core) as usize],
        };
        let slice = s.host.scheduler.time_slice.0;
        for cpu in &mut world.cpus {
            cpu.early = world.phases.random_range(0..slice.max(1)) as i64;
        }
        for (spec, vm) in s.vms.iter().enumerate() {
            let flats: Vec<u32> = vm.programs.iter().map(|(_, program)| world.add_flat(program)).collect();
            for _ in 0..vm.copies {
                world.add_vm(spec, vm, &flats);
            }
        }
        for (spec, thread) in s.threads.iter().enumerate() {
            let flat = world.add_flat(&thread.program);
            for copy in 0..thread.copies {
                let allowed = world.allow(&thread.cpus, thread.pinned.then_some(copy));
                world.add_strands(None, spec, 1, allowed, 1024, |_| flat);
            }
        }
        world.queue.plan(s.warmup.0, QueuedEvent::Measure);
        for (load, spec) in s.loads.iter().enumerate() {
            let clients = match spec.arrival {
                Arrival::Closed { clients, .. } => clients,
                Arrival::Open { .. } => 1,
            };
            world.sent_at.push(vec![0; clients as usize]);
            for client in 0..clients {
                world.plan_client(load as u32, client);
            }
        }
        for task in 0..world.tasks.len() as u32 {
            if matches!(world.tasks[task as usize].kind, TaskKind::Strands { .. }) {
                world.wake(task);
            }
        }
        world
    }

    fn add_flat(&mut self, program: &Program) -> u32 {
        self.flats.push(flatten(program));
        self.flats.len() as u32 - 1
    }

    fn add_vm(&mut self, spec: usize, vm: &VmSpec, flats: &[u32]) {
        let number = self.vms.len() as u32;
        let first_strand = self.strands.len() as u32;
        let first_lock = self.locks.len() as u32;
        self.locks.extend(vm.locks.iter().map(|_| SimLock { holder: NONE, spinners: Vec::new() }));
        let first_disk = self.disks.len() as u32;
        self.vms.push(VmState {
            spec,
            first_strand,
            first_lock,
            first_disk,
            on_spin: OnSpin::new(),
            lock_holder: NONE,
            lock_spinners: VecDeque::new(),
            lock_waiters: VecDeque::new(),
            device_model: NONE,
            channel_tasks: vec![NONE; self.s.channels.len()],
            bus: vm.registrations.iter().filter_map(port_registration).collect(),
            ring: CoalescedRing::default(),
        });
        let width = if self.s.host.ganged { vm.policies.vcore.smt_mode } else { 1 };
        for first in (0..vm.vcpus).step_by(width as usize) {
            let count = width.min(vm.vcpus - first);
            let allowed = self.allow(&vm.cpus, vm.pinned.then_some(first / width));
            self.add_strands(Some(number), spec, count, allowed, vm.weight, |vcpu| {
                let program = vm.programs.iter().position(|(vcpus, _)| vcpus.contains(&vcpu));
                program.map_or(NONE, |at| flats[at])
            });
        }
        let device_model = vm.policies.port_path.device_model == DeviceModel::Scheduled;
        if device_model {
            let allowed = self.allow(&vm.device_model_cpus, None);
            self.vms[number as usize].device_model = self.add_device(allowed);
        }
        for disk in &vm.disks {
            let task = if disk.thread.0 > 0 { self.add_device(NONE) } else { NONE };
            self.disks.push(DiskState { task, ..DiskState::default() });
        }
        for (at, channel) in self.s.channels.iter().enumerate() {
            let uses = |code: &Code| matches!(code, Code::Send(to) | Code::Receive(to) if *to == at as u32);
            let used = (first_strand..self.strands.len() as u32).any(|strand| self.does(strand, uses));
            if channel.thread.0 > 0 && used {
                self.vms[number as usize].channel_tasks[at] = self.add_device(NONE);
            }
        }
    }

    /// Whether a strand's program has such a step.
    fn does(&self, strand: u32, is_such: impl Fn(&Code) -> bool) -> bool {
        let flat = self.flats.get(self.strands[strand as usize].program as usize);
        flat.is_some_and(|flat| flat.code.iter().any(is_such))
    }

    /// The set of CPUs for those listed, or for the one at `pin`; `NONE` if all are allowed.
    fn allow(&mut self, cpus: &[u32], pin: Option<u32>) -> u32 {
        let listed: Vec<u32> = match (cpus.is_empty(), pin) {
            (true, None) => return NONE,
            (true, Some(pin)) => vec![pin],
            (false, None) => cpus.to_vec(),
            (false, Some(pin)) => cpus.get(pin as usize).copied().into_iter().collect(),
        };
        let mut set = CpuSet::none(self.cpus.len() as u32);
        listed.into_iter().for_each(|cpu| set.set(cpu, true));
        let known = self.allowed.iter().position(|other| *other == set);
        known.unwrap_or_else(|| {
            self.allowed.push(set);
            self.allowed.len() - 1
        }) as u32
    }

    fn add_device(&mut self, allowed: u32) -> u32 {
        self.add_task(TaskKind::Device { jobs: VecDeque::new() }, allowed, 1024)
    }

    fn add_task(&mut self, kind: TaskKind, allowed: u32, weight: u32) -> u32 {
        let whose = if self.s.host.ganged { PollOwner::Vcore } else { PollOwner::Vcpu };
        self.tasks.push(Task {
            kind,
            state: TaskState::Blocked,
            weight: weight.max(1),
            allowed,
            run: 0,
            run_since: 0,
            cpu: self.tasks.len() as u32 % self.cpus.len() as u32,
            slice_start: 0,
            plan: Vec::new(),
            in_guest: false,
            woken: false,
            poll: HostHaltPoll::new(whose),
            halted_at: NEVER,
            slept: false,
            vcore: Vcore::new(),
        });
        self.tasks.len() as u32 - 1
    }

    /// A task and its strands: vCPUs of a VM, or without one a thread of the host. `number` is that of their description.
    fn add_strands(
        &mut self,
        vm: Option<u32>,
        number: usize,
        count: u32,
        allowed: u32,
        weight: u32,
        program_of: impl Fn(u32) -> u32,
    ) {
        let first = self.strands.len() as u32;
        let native = vm.is_none();
        let task = self.add_task(TaskKind::Strands { first, count, native }, allowed, weight);
        for strand in first..first + count {
            let vcpu = vm.map_or(0, |vm| strand - self.vms[vm as usize].first_strand);
            let program = program_of(vcpu);
            let spec = vm.map(|_| &self.s.vms[number]);
            let machine = match spec.map(|vm| vm.spin) {
                Some(SpinWait::Diagnose(machine)) => machine,
                _ => DiagnoseSupport { diag44: false, diag9c: false, sense_running: false, lpar: false },
            };
            let policies = spec.map_or(&self.s.policies, |vm| &vm.policies);
            let slots = self.flats.get(program as usize).map_or(0, |flat| flat.slots);
            self.strands.push(Strand {
                task,
                vm: vm.unwrap_or(NONE),
                spec: number as u32,
                vcpu,
                program,
                place: 0,
                counters: vec![0; slots as usize],
                rng: stream(self.s.seed, u64::from(strand)),
                generation: 0,
                doing: StrandActivity::Program,
                left: 0,
                interrupt_left: 0,
                since: 0,
                rate: 0,
                pending: 0,
                wait: StrandWait::Nothing,
                ipis: 0,
                replies: 0,
                timer: false,
                disk_done: vec![0; spec.map_or(0, |vm| vm.disks.len())],
                message: NONE,
                latency_start: 0,
                guest_poll: GuestHaltPoll::new(),
                idle_from: 0,
                spin: SpinLoop::new(&policies.yielding, machine),
                machine,
                pause: match self.s.host.arch {
                    Arch::Svm => PleWindow::svm(&policies.yielding),
                    _ => PleWindow::vmx(&policies.yielding),
                },
                lock: NONE,
                held: 0,
                demand: FULL_LOAD,
                status: StrandStatus::Steal,
                status_since: 0,
                in_spin_loop: false,
                dy_eligible: false,
                free_steps: 0,
                lock_wait_from: 0,
                exit_at: 0,
            });
            for channel in 0..self.channels.len() as u32 {
                if self.does(strand, |code| matches!(code, Code::Receive(from) if *from == channel)) {
                    self.channels[channel as usize].receivers.push(strand);
                }
            }
        }
    }

    /// The description of a strand's VM; `None` for a thread of the host.
    pub(crate) fn spec_of(&self, strand: u32) -> Option<&'s VmSpec> {
        let st = &self.strands[strand as usize];
        (st.vm != NONE).then(|| &self.s.vms[st.spec as usize])
    }
}

/// No moment.
pub(crate) const NEVER: u64 = u64::MAX;

/// The registration of ports as the policy has it; `None` for one of addresses.
fn port_registration(registration: &exitscope_scenario::HandlerSpec) -> Option<PortRegistration> {
    if !registration.port {
        return None;
    }
    let port = u16::try_from(registration.first).ok()?;
    let len = u16::try_from(registration.last.saturating_sub(registration.first) + 1).unwrap_or(u16::MAX);
    Some(match registration.kind {
        RegistrationKind::Kernel => PortRegistration::Device { port, len },
        RegistrationKind::Coalesced => PortRegistration::Coalesced { port, len },
        RegistrationKind::Ioeventfd { size, datamatch } => {
            PortRegistration::Ioeventfd { port, len: size, datamatch: datamatch.map(|value| value as u32) }
        }
    })
}
