//! One thing to measure: a VM made for it, whose vCPUs run the same program again and again.
//!
//! ```text
//! Spec (what the guest does, and who answers) ─► Bench::new ─► turn(samples) ─► BenchTurn (ticks, the loop's own cost)
//! ```
//!
//! The VM is made once and its programs restarted for every turn, so that turns of many benches interleave.

use crate::abi::{self, ProgramStep, op};
use crate::device_model::{Device, DeviceThread};
use crate::events::Events;
use crate::exit_account::ExitAccount;
use crate::placement::Placement;
use crate::run_loop::{Setup, VcpuRun, parkers, serve};
use crate::{
    IoAddress, LabError, LabMachine, LabVcpu, LabVm, Parker, Payload, PrivilegeRing, VmConfig, Watch, sampled, step,
};
use exitscope_policy::Policies;
use exitscope_policy::exit_path::{DeviceLock, RegisterSync};
use std::time::Duration;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// A turn that takes longer has gone astray.
const TURN_LIMIT: Duration = Duration::from_secs(20);

/// What the vCPUs do.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// Every vCPU does this step again and again; each is a sample. vCPU n adds n times the second number to the step's
    /// place, so that each has a device of its own.
    Step(ProgramStep, u64),
    /// vCPU 0 does the step, while vCPU 1 spins.
    BesideSpinner(ProgramStep),
    /// vCPU 0 does the step, while vCPU 1 halts with HLT again and again.
    BesideHalter(ProgramStep),
    /// vCPU 0 and vCPU 1 exchange messages of a byte, without ever halting: each writes a port (a device's doorbell), then
    /// the message. From one request to its response is a sample, with two exits in it.
    RequestResponse,
    /// vCPU 0 wakes vCPU 1, which wakes vCPU 0, which halted meanwhile: two wake-ups are a sample.
    PingPong,
    /// Each of so many vCPUs spins with PAUSE until the one before it had its turn: from one turn to the next is a sample.
    RoundRobin(u32),
}

/// A thing to measure.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What the vCPUs do.
    pub job: Job,
    /// How the VM is made.
    pub config: VmConfig,
    /// Devices in user space.
    pub devices: Vec<(IoAddress, IoAddress)>,
    /// Nanoseconds that an access takes them.
    pub work_ns: u64,
    /// Whether they are a thread of their own.
    pub thread: bool,
    /// What they lock.
    pub lock: Option<DeviceLock>,
    /// How they get at registers.
    pub registers: Option<RegisterSync>,
    /// Nanoseconds that every exit to user space takes longer.
    pub delay_ns: u64,
    /// Only every second exit of a vCPU does, not the first.
    pub delay_alternates: bool,
    /// Places with an ioeventfd, and the size that it asks for (0: any).
    pub ioeventfds: Vec<(IoAddress, u8)>,
    /// Places whose writes are coalesced.
    pub coalesced: Vec<IoAddress>,
    /// MSRs that KVM does not know come out to user space.
    pub msrs_come_out: bool,
    /// Halts block inside KVM although the guest has only a doorbell for them.
    pub halts_in_kernel: bool,
    /// The knobs.
    pub policies: Policies,
    /// Flags of [`abi::machine`].
    pub flags: u32,
}

impl Spec {
    /// One vCPU that does a step, with nobody who answers but KVM and zeros.
    pub fn new(ring: PrivilegeRing, step: ProgramStep) -> Spec {
        Spec {
            job: Job::Step(step, 0),
            config: VmConfig::new(1, ring),
            devices: Vec::new(),
            work_ns: 0,
            thread: false,
            lock: None,
            registers: None,
            delay_ns: 0,
            delay_alternates: false,
            ioeventfds: Vec::new(),
            coalesced: Vec::new(),
            msrs_come_out: false,
            halts_in_kernel: false,
            policies: Policies::default(),
            flags: 0,
        }
    }
}

/// What a turn gave.
#[derive(Clone, Debug, Default)]
pub struct BenchTurn {
    /// Ticks of each sample, of one vCPU after the other.
    pub samples: Vec<u32>,
    /// vCPUs that took some.
    pub samplers: usize,
    /// Ticks that taking a sample costs by itself: the median of samples of nothing.
    pub base: f64,
    /// Ticks from the first vCPU's beginning to the last one's end.
    pub ticks: u64,
    /// Exits to user space.
    pub account: ExitAccount,
    /// The events of each vCPU, if they are kept.
    pub events: Vec<Events>,
    /// Median ticks from an exit to the device thread's first instruction; `None` without one.
    pub to_thread: Option<f64>,
    /// Writes that came through the ring.
    pub coalesced: u64,
    /// Signals of ioeventfds.
    pub signals: u64,
}

impl BenchTurn {
    /// The mean sample, less what taking it costs, of the vCPU of which it is largest. All vCPUs took as many.
    pub(crate) fn longest_mean(&self) -> Option<f64> {
        let each = (self.samples.len() / self.samplers.max(1)).max(1);
        let means = self
            .samples
            .chunks(each)
            .map(|own| own.iter().map(|&ticks| f64::from(ticks)).sum::<f64>() / own.len() as f64);
        means.max_by(f64::total_cmp).map(|mean| mean - self.base)
    }
}

/// A VM that is measured.
#[derive(Debug)]
pub struct Bench {
    spec: Spec,
    vcpus: Vec<LabVcpu>,
    payload: Payload,
    parkers: Vec<Parker>,
    devices: Vec<Device>,
    eventfd: EventFd,
    vm: LabVm,
}

impl Bench {
    /// Makes the VM. An error says what KVM cannot do here.
    pub fn new(machine: &LabMachine, spec: Spec) -> Result<Bench, LabError> {
        let (vm, mut vcpus) = LabVm::new(&machine.kvm, spec.config)?;
        let eventfd = EventFd::new(EFD_NONBLOCK).map_err(|error| LabError::io("eventfd", error))?;
        for &(place, size) in &spec.ioeventfds {
            vm.ioeventfd(&eventfd, place, size, None)?;
        }
        for &place in &spec.coalesced {
            vm.coalesce(place, 4)?;
        }
        if !spec.coalesced.is_empty() {
            vcpus[0].map_ring()?;
        }
        if spec.msrs_come_out {
            vm.exit_on_unknown_msrs()?;
        }
        let work = machine.ticks_in(spec.work_ns);
        let devices = spec.devices.iter().map(|&(first, last)| Device::new(first, last, work));
        let payload = Payload::new(&vm, machine, &spec.policies, spec.flags);
        let parkers = parkers(spec.config.vcpus);
        Ok(Bench { devices: devices.collect(), vcpus, payload, parkers, eventfd, vm, spec })
    }

    /// What is measured.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// From now on, every exit to user space takes so many nanoseconds longer.
    pub fn set_delay(&mut self, delay_ns: u64) {
        self.spec.delay_ns = delay_ns;
    }

    /// The programs, after a turn: their counts.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Runs the programs for so many samples of each vCPU that takes some.
    pub fn turn(&mut self, machine: &LabMachine, samples: u64, pin: bool, events: bool) -> Result<BenchTurn, LabError> {
        self.payload.reset();
        self.payload.unload();
        for vcpu in &mut self.vcpus {
            self.vm.restart(vcpu)?;
            let steps = program(self.spec.job, vcpu.index(), samples);
            self.payload.load(vcpu.index(), &steps, u64::from(vcpu.index()) + 1)?;
        }
        if matches!(self.spec.job, Job::Step(ProgramStep { op: op::TOUCH, .. }, _)) {
            self.vm.memory().forget(abi::ARENA, abi::ARENA_SIZE)?;
        }
        let thread = self.spec.thread.then(DeviceThread::default);
        let setup = Setup {
            devices: &self.devices,
            thread: thread.as_ref(),
            lock: self.spec.lock,
            registers: self.spec.registers,
            delay_ns: self.spec.delay_ns,
            delay_alternates: self.spec.delay_alternates,
            coalesces: !self.spec.coalesced.is_empty(),
            halts_in: self.spec.halts_in_kernel.then_some(&self.vm),
            events,
            ..Setup::new(machine, &self.parkers)
        };
        let watch = Watch::new(TURN_LIMIT);
        let placement = Placement::of_threads(machine.places(), self.vcpus.len(), pin);
        let (payload, job) = (&self.payload, self.spec.job);
        let served = std::thread::scope(|scope| {
            let device_model = thread.as_ref().map(|thread| scope.spawn(|| thread.serve(&self.devices, &watch)));
            let served = watch.run(&mut self.vcpus, |vcpu, watch| {
                placement.keep(vcpu.index() as usize);
                let served = serve(vcpu, &setup, watch);
                if vcpu.index() == 0 && matches!(job, Job::BesideSpinner(_) | Job::BesideHalter(_)) {
                    payload.stop();
                    let _ = self.vm.interrupt(1, abi::WAKE_VECTOR);
                }
                served
            });
            watch.stop();
            drop(device_model.map(|thread| thread.join()));
            served
        })?;
        let to_thread = thread.and_then(|thread| thread.to_thread());
        let mut turn = self.take(samples, served, to_thread);
        if !self.spec.coalesced.is_empty() {
            turn.coalesced += self.vcpus[0].drain()?;
        }
        Ok(turn)
    }

    fn take(&self, samples: u64, served: Vec<VcpuRun>, to_thread: Option<f64>) -> BenchTurn {
        let mut turn = BenchTurn { to_thread, signals: self.eventfd.read().unwrap_or(0), ..BenchTurn::default() };
        let mut nothing = Vec::new();
        let (mut begin, mut end) = (u64::MAX, 0);
        for vcpu in &self.vcpus {
            let page = self.payload.page(vcpu.index());
            (begin, end) = (begin.min(page.begin_tsc), end.max(page.end_tsc));
            let all = self.payload.samples(vcpu.index());
            let (base, rest) = all.split_at(all.len().min(BASE_SAMPLES as usize));
            if samples > 0 && !rest.is_empty() {
                nothing.extend_from_slice(base);
                turn.samples.extend_from_slice(rest);
                turn.samplers += 1;
            }
        }
        nothing.sort_unstable();
        turn.base = nothing.get(nothing.len() / 2).map_or(0.0, |&base| f64::from(base));
        turn.ticks = end.saturating_sub(begin);
        for part in served {
            turn.coalesced += part.coalesced;
            turn.account.merge(&part.account);
            turn.events.push(part.events);
        }
        turn
    }
}

/// The port that [`Job::RequestResponse`] writes.
pub const MESSAGE_PORT: u16 = 0xe600;

/// Samples of nothing that begin each vCPU's program.
const BASE_SAMPLES: u64 = 11;

/// Samples that a vCPU takes in a turn at most.
pub const MAX_TURN: u64 = abi::MAX_SAMPLES - BASE_SAMPLES;

/// The program of a vCPU.
fn program(job: Job, vcpu: u32, samples: u64) -> Vec<ProgramStep> {
    let mut steps = sampled(BASE_SAMPLES, step(op::NOTHING)).to_vec();
    let forever = |inner: &[ProgramStep]| [&[step(op::REPEAT)], inner, &[step(op::AGAIN)]].concat();
    match (job, vcpu) {
        (Job::Step(step, stride), _) => {
            steps.extend(sampled(samples, ProgramStep { b: step.b + stride * u64::from(vcpu), ..step }));
        }
        (Job::BesideSpinner(step) | Job::BesideHalter(step), 0) => steps.extend(sampled(samples, step)),
        (Job::BesideSpinner(_), _) => steps = forever(&[ProgramStep { b: 100, ..step(op::PAUSE) }]),
        (Job::BesideHalter(_), _) => steps = forever(&[step(op::HLT)]),
        (Job::RoundRobin(vcpus), _) => {
            let begin = (vcpu == 0).then(|| ProgramStep { a: abi::ipi_box(0), ..step(op::SEND) });
            let receive = ProgramStep { a: abi::ipi_box(vcpu), ..step(op::RECEIVE_SPIN) };
            let send = ProgramStep { a: abi::ipi_box((vcpu + 1) % vcpus), ..step(op::SEND) };
            let repeat = ProgramStep { b: samples, ..step(op::REPEAT) };
            steps.extend(begin);
            steps.extend([repeat, step(op::START), receive, send, step(op::STOP), step(op::AGAIN)]);
        }
        (Job::PingPong | Job::RequestResponse, _) => {
            let spins = matches!(job, Job::RequestResponse);
            let (ours, theirs) = (abi::ipi_box(vcpu), abi::ipi_box(1 - vcpu));
            let receive = ProgramStep { a: ours, ..step(if spins { op::RECEIVE_SPIN } else { op::RECEIVE }) };
            let kick = ProgramStep { op: op::PORT_OUT, a: 1, b: MESSAGE_PORT.into(), c: 1 };
            let mut send = vec![ProgramStep { a: theirs, ..step(op::SEND) }];
            if spins {
                send.insert(0, kick);
            }
            let round = match vcpu {
                0 => [&[step(op::START)], &send[..], &[receive, step(op::STOP)]].concat(),
                _ => {
                    steps.clear();
                    [&[receive], &send[..]].concat()
                }
            };
            let repeat = ProgramStep { b: samples, ..step(op::REPEAT) };
            steps.extend([&[repeat], &round[..], &[step(op::AGAIN)]].concat());
        }
    }
    steps
}
