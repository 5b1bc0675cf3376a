//! `lab run`: a scenario's guests for real, as far as real KVM guests can be what it says.
//!
//! ```text
//! Scenario ─► a LabVm for each copy of each VM (their channels in memory that all share) ─► a thread for each vCPU
//!          ├► Placement: on which CPUs each of these threads is kept
//!          └► LoadGenerator: clients outside, disks ────────────────────────────────────────┘
//! what the guests did, what came out, how long it took ─► Findings; what is not as in the scenario ─► warnings
//! ```
//!
//! Counts are exact: guests count their own steps, and the run loops what comes out to user space, also what was still being
//! answered when the run ended; only a step in which that stops a guest may not have come out yet. Costs of the scenario's cost
//! model are not imitated (but for `delay`): the machine has its own.

use crate::abi::{self, op};
use crate::compile::{Compiler, doorbell_port, generator};
use crate::compute_speed::{ComputeSpeed, Computed};
use crate::device_model::{Device, DeviceThread};
use crate::events::Events;
use crate::exit_account::{ExitAccount, LabExitReason, LabHandler};
use crate::exits::KERNEL_PORT;
use crate::followed::not_followed;
use crate::load_generator::{ClientResults, LoadGenerator};
use crate::machine::probe;
use crate::measure::MeasurePlan;
use crate::placement::{Placement, cpus_in_words};
use crate::run_loop::{ChangedExits, CpuSharers, Setup, VcpuRun, parkers, serve_into};
use crate::session::LabSession;
use crate::thread_use::ThreadUse;
use crate::virtual_speedup::VirtualSpeedup;
use crate::{
    GuestMemory, IoAddress, LabError, LabMachine, LabVcpu, LabVm, Payload, PrivilegeRing, Span, VmConfig, Watch, step,
    ticks,
};
use exitscope_model::Event;
use exitscope_policy::port_path::DeviceModel;
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit, counted};
use exitscope_scenario::{Disk, Doorbell, Op, Program, RegistrationKind, Scenario, SpinWait, VmSpec};
use exitscope_stats::Histogram;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// How much longer than asked for a run may take before it counts as hung.
const HANG_GRACE: Duration = Duration::from_secs(20);

/// Ports of a device that KVM has inside itself, one of each of its interrupt controllers.
const KERNEL_PORTS: RangeInclusive<u64> = KERNEL_PORT as u64..=KERNEL_PORT as u64 + 1;

/// One VM of the run.
struct Guest {
    spec: usize,
    // Its descriptor keeps what is registered with it.
    _vm: LabVm,
    vcpus: Vec<LabVcpu>,
    payload: Payload,
    devices: Vec<Device>,
    thread: Option<DeviceThread>,
    // KVM signals it as long as the VM lives.
    _eventfd: EventFd,
}

/// How to run a scenario.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// For how long; `None`: as the scenario has it.
    pub duration: Option<Duration>,
    /// Whether vCPUs are kept on CPUs as the scenario has it, and otherwise on one each where there are enough.
    pub pin: bool,
    /// Whether its events are kept.
    pub events: bool,
    /// How often it is run again at most, as compute steps were not as long as they should be.
    pub retries: u32,
}

impl RunOptions {
    /// For one turn of a plan, in which others take turns.
    pub(crate) fn of_turn(plan: &MeasurePlan) -> RunOptions {
        RunOptions { duration: Some(plan.turn()), pin: plan.pin, events: false, retries: 5 }
    }
}

/// How the guests of a scenario are run once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScenarioTurn<'a> {
    /// What compute steps are set by.
    pub(crate) speed: ComputeSpeed,
    /// When the programs are told to stop.
    pub(crate) length: Duration,
    /// Whether events are kept.
    pub(crate) keep_events: bool,
    /// Which exits are not as long as they are.
    pub(crate) changed: ChangedExits<'a>,
}

/// What one run of a scenario gave.
pub(crate) struct ScenarioRun {
    guests: Vec<Guest>,
    /// vCPUs of all guests.
    number: u32,
    /// What each vCPU's thread gave and used.
    served: Vec<(VcpuRun, ThreadUse)>,
    /// What clients saw, by load.
    seen: Vec<ClientResults>,
    /// Until the programs were told to stop, or were over.
    pub(crate) span: Span,
    /// What each guest had counted at that moment.
    counted: Vec<u64>,
    /// Ticks that a [`VirtualSpeedup`] had inserted at that moment.
    pub(crate) inserted: u64,
}

impl ScenarioRun {
    /// What each vCPU's thread gave.
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = &VcpuRun> {
        self.served.iter().map(|(run, _)| run)
    }

    /// The part of the time in which the vCPU that lacked a CPU for longest could run and had none, 0 to 1.
    pub(crate) fn lacked(&self) -> f64 {
        let waited = self.served.iter().map(|(_, thread)| thread.waited).max().unwrap_or_default();
        waited.as_secs_f64() / self.span.seconds()
    }

    /// What all guests of a VM had counted when their programs were told to stop.
    pub(crate) fn counted_by(&self, spec: usize) -> u64 {
        let own = self.guests.iter().zip(&self.counted).filter(|(guest, _)| guest.spec == spec);
        own.map(|(_, counted)| counted).sum()
    }
}

/// Runs a scenario. With [`RunOptions::events`], its events come with it.
pub fn run(machine: &LabMachine, scenario: &Scenario, options: RunOptions) -> Result<(Findings, Vec<Event>), LabError> {
    let placement = place(machine, scenario, options.pin);
    let length = options.duration.unwrap_or(Duration::from_nanos(scenario.duration.as_nanos()));
    let plan = MeasurePlan { rounds: 1, duration: length, pin: options.pin, ..MeasurePlan::default() };
    let mut session = LabSession::new(machine, &plan, true)?.with_retries(options.retries);
    let sample = sample_cost(machine)?;
    let (mut run, slower) = session.settled(|session| {
        session.possible(&scenario.name, |speed| {
            let (keep_events, changed) = (options.events, ChangedExits::default());
            one_run(machine, scenario, &placement, &ScenarioTurn { speed, length, keep_events, changed })
        })
    })?;
    let mut findings =
        session.findings("run", "A scenario's programs on real guests: counts are exact, times are this machine's")?;
    findings.warnings.extend(differences(machine, scenario));
    findings.warnings.extend(placement.notes.iter().cloned());
    let threads: Vec<ThreadUse> = run.served.iter().map(|(_, thread)| thread.clone()).collect();
    findings.warnings.extend(refused_warning(&threads));
    // Some may have CPUs of their own, and others not.
    findings.manifest.pinned &= findings.manifest.kept_on.len() == threads.len();
    let (accounts, events) = accounts_of(scenario, &run.guests, std::mem::take(&mut run.served));
    findings.tables = vec![
        work(machine, scenario, &run, sample),
        exits(scenario, &run.guests, &accounts, run.span),
        yields(scenario, &run.guests),
        threads_table(machine, scenario, &run.guests, &threads),
    ];
    findings.tables.retain(|table| !table.rows.is_empty());
    findings.summary = vec![format!(
        "{}: ran for {:.2} s, {}, {}",
        scenario.name,
        run.span.seconds(),
        counted(run.guests.len() as u64, "VM"),
        counted(run.number.into(), "vCPU")
    )];
    findings.summary.push(format!("A compute step of 1 us took 1.00 us before the run, and {slower:.2} us after it."));
    Ok((findings, Events::merge(events)))
}

/// Makes the guests and runs them.
pub(crate) fn one_run(
    machine: &LabMachine,
    scenario: &Scenario,
    placement: &Placement,
    turn: &ScenarioTurn,
) -> Result<(ScenarioRun, Computed), LabError> {
    let (guests, number) = all_guests(machine, scenario, turn.speed)?;
    let mut run = ScenarioRun {
        guests,
        number,
        served: Vec::new(),
        seen: Vec::new(),
        span: Span::default(),
        counted: Vec::new(),
        inserted: 0,
    };
    play(machine, scenario, &mut run, placement, turn)?;
    let chains = run.guests.iter().map(|guest| guest.payload.chain(0..scenario.vms[guest.spec].vcpus));
    let computed = Computed { chain: chains.max().unwrap_or(0), span: run.span };
    Ok((run, computed))
}

/// Ticks that a guest's `Start` and `Stop` take by themselves, as the median of some.
fn sample_cost(machine: &LabMachine) -> Result<u64, LabError> {
    let pairs = [step(op::START), step(op::STOP)].repeat(11);
    let mut samples = probe(machine, VmConfig { irqchip: false, ..VmConfig::new(1, machine.ring()) }, &pairs)?;
    samples.sort_unstable();
    Ok(samples.get(samples.len() / 2).copied().unwrap_or(0).into())
}

/// The vCPUs of a VM that have a program.
pub(crate) fn running(spec: &VmSpec) -> impl Iterator<Item = (u32, &Program)> {
    let of = |vcpu| spec.programs.iter().find(|(vcpus, _)| vcpus.contains(&vcpu)).map(|(_, program)| (vcpu, program));
    (0..spec.vcpus).filter_map(of)
}

/// The guests of a scenario, and the number of their vCPUs.
fn all_guests(machine: &LabMachine, scenario: &Scenario, speed: ComputeSpeed) -> Result<(Vec<Guest>, u32), LabError> {
    let shared = LabVm::shared_memory()?;
    let mut guests = Vec::new();
    let mut number = 0;
    for (at, spec) in scenario.vms.iter().enumerate() {
        for _ in 0..spec.copies {
            let guest = guest(machine, scenario, at, number, &shared, speed)?;
            number += spec.vcpus;
            guests.push(guest);
        }
    }
    if number == 0 {
        return Err(LabError::CannotDo("the scenario has no VM to run".into()));
    }
    Ok((guests, number))
}

/// Where the vCPUs are kept. Of ganged threads, the CPUs of a scenario are whole cores, which the lab has none of.
pub(crate) fn place(machine: &LabMachine, scenario: &Scenario, pin: bool) -> Placement {
    let vcpus_of = |spec: &VmSpec| running(spec).map(|(vcpu, _)| vcpu).collect();
    Placement::of_vms(machine.places(), &scenario.vms, vcpus_of, pin && !scenario.host.ganged)
}

/// The disks of all guests, and for each vCPU the number of its VM's first one.
fn disks_of(scenario: &Scenario, guests: &[Guest]) -> (Vec<Disk>, Vec<usize>) {
    let disks: Vec<Disk> = guests.iter().flat_map(|guest| scenario.vms[guest.spec].disks.clone()).collect();
    let mut first_disk = Vec::new();
    let mut before = 0;
    for guest in guests {
        let spec = &scenario.vms[guest.spec];
        first_disk.extend((0..spec.vcpus).map(|_| before));
        before += spec.disks.len();
    }
    (disks, first_disk)
}

/// The exits of each VM's guests, and the events of all.
fn accounts_of(
    scenario: &Scenario,
    guests: &[Guest],
    served: Vec<(VcpuRun, ThreadUse)>,
) -> (Vec<ExitAccount>, Vec<Events>) {
    let mut accounts = vec![ExitAccount::default(); scenario.vms.len()];
    let mut events = Vec::new();
    let mut served = served.into_iter();
    for guest in guests {
        for (part, _) in served.by_ref().take(running(&scenario.vms[guest.spec]).count()) {
            accounts[guest.spec].merge(&part.account);
            // It came out like the others. Of these accounts only counts are looked at.
            part.cut_off.inspect(|&reason| accounts[guest.spec].record(reason, LabHandler::Doorbell, 0));
            events.push(part.events);
        }
    }
    (accounts, events)
}

fn refused_warning(threads: &[ThreadUse]) -> Option<String> {
    let refused = threads.iter().filter(|thread| thread.refused).count() as u64;
    let text = || format!("{} could not be kept on their CPUs: that is not permitted here", counted(refused, "vCPU"));
    (refused > 0).then(text)
}

/// Where the vCPUs' threads were kept, and what they used.
fn threads_table(machine: &LabMachine, scenario: &Scenario, guests: &[Guest], threads: &[ThreadUse]) -> FindingsTable {
    let mut copies = vec![0; scenario.vms.len()];
    let mut rows = Vec::new();
    let mut threads = threads.iter();
    for guest in guests {
        let spec = &scenario.vms[guest.spec];
        let name = if spec.copies > 1 { format!("{}-{}", spec.name, copies[guest.spec]) } else { spec.name.clone() };
        copies[guest.spec] += 1;
        for ((vcpu, _), thread) in running(spec).zip(threads.by_ref()) {
            let anywhere = thread.cpus == machine.cpus && machine.cpus.len() > 1;
            let cpus = cpus_in_words(if anywhere { &[] } else { &thread.cpus });
            let figures = vec![
                FindingFigure::plain("CPU time", Unit::Nanos, thread.cpu.as_nanos() as f64),
                FindingFigure::plain("sleeps", Unit::Count, thread.sleeps as f64),
                FindingFigure::plain("preemptions", Unit::Count, thread.preempted as f64),
            ];
            rows.push(FindingRow {
                labels: vec![name.clone(), vcpu.to_string(), cpus],
                figures,
                ..FindingRow::default()
            });
        }
    }
    FindingsTable { title: "Threads of vCPUs", labels: vec!["VM", "vCPU", "kept on CPU"], rows }
}

fn guest(
    machine: &LabMachine,
    scenario: &Scenario,
    at: usize,
    first: u32,
    shared: &Arc<GuestMemory>,
    speed: ComputeSpeed,
) -> Result<Guest, LabError> {
    let spec = &scenario.vms[at];
    let too_many = first + spec.vcpus > abi::MAX_VCPUS as u32;
    if too_many || scenario.channels.len() > abi::CHANNELS || (first as usize + 1) * spec.locks.len() > abi::MAX_LOCKS {
        return Err(LabError::CannotDo(format!(
            "the lab runs at most {} vCPUs, {} channels and {} locks; make the scenario smaller, like --set vm.{}.copies=1",
            abi::MAX_VCPUS,
            abi::CHANNELS,
            abi::MAX_LOCKS,
            spec.name
        )));
    }
    let config = config_of(machine, spec);
    let (vm, vcpus) = LabVm::sharing(&machine.kvm, config, shared, first)?;
    let eventfd = EventFd::new(EFD_NONBLOCK).map_err(|error| LabError::io("eventfd", error))?;
    for registration in &spec.registrations {
        let place = |at: u64| if registration.port { IoAddress::Port(at as u16) } else { IoAddress::Address(at) };
        match registration.kind {
            RegistrationKind::Kernel => {}
            RegistrationKind::Ioeventfd { size, datamatch } => {
                for at in registration.first..=registration.last {
                    vm.ioeventfd(&eventfd, place(at), size, datamatch)?;
                }
            }
            RegistrationKind::Coalesced => {
                vm.coalesce(place(registration.first), (registration.last - registration.first + 1) as u32)?;
            }
        }
    }
    for (channel, spec) in scenario.channels.iter().enumerate() {
        if spec.doorbell == Doorbell::Eventfd {
            vm.ioeventfd(&eventfd, IoAddress::Port(doorbell_port(channel as u32)), 2, None)?;
        }
    }
    let mut flags = if spec.cpuidle_haltpoll { abi::machine::HALTPOLL } else { 0 };
    if let SpinWait::Diagnose(has) = spec.spin {
        for (there, flag) in [
            (has.diag44, abi::machine::DIAG44),
            (has.diag9c, abi::machine::DIAG9C),
            (has.sense_running, abi::machine::SENSE_RUNNING),
            (has.lpar, abi::machine::LPAR),
        ] {
            flags |= if there { flag } else { 0 };
        }
    }
    let mut payload = Payload::new(&vm, machine, &spec.policies, flags);
    for (vcpu, program) in running(spec) {
        let number = first + vcpu;
        let mut compiler = Compiler {
            speed,
            channels: &scenario.channels,
            first_lock: first * spec.locks.len() as u32,
            first_vcpu: first,
            number,
            random: generator(scenario.seed, number.into()),
        };
        let steps = compiler.program(program, &mut payload)?;
        payload.load(vcpu, &steps, scenario.seed.wrapping_add(number.into()))?;
    }
    let everything = [
        Device::new(IoAddress::Port(0), IoAddress::Port(u16::MAX), 0),
        Device::new(IoAddress::Address(0), IoAddress::Address(u64::MAX), 0),
    ];
    let scheduled = spec.policies.port_path.device_model == DeviceModel::Scheduled;
    let mut vcpus = vcpus;
    if spec.registrations.iter().any(|registration| registration.kind == RegistrationKind::Coalesced) {
        vcpus[0].map_ring()?;
    }
    Ok(Guest {
        spec: at,
        _vm: vm,
        vcpus,
        payload,
        devices: everything.into(),
        thread: scheduled.then(DeviceThread::default),
        _eventfd: eventfd,
    })
}

/// Runs the guests, each vCPU on a thread of its own.
fn play(
    machine: &LabMachine,
    scenario: &Scenario,
    run: &mut ScenarioRun,
    placement: &Placement,
    turn: &ScenarioTurn,
) -> Result<(), LabError> {
    let parkers = parkers(run.number);
    let (disks, first_disk) = disks_of(scenario, &run.guests);
    let watch = Watch::new(turn.length + HANG_GRACE);
    let began = ticks();
    let beside = sharers(machine, scenario, &run.guests, placement);
    let mut parts = Vec::new();
    for guest in run.guests.iter_mut() {
        let Guest { spec, vcpus, payload, devices, thread, .. } = guest;
        parts.push((*spec, vcpus, &*payload, &*devices, thread.as_ref()));
    }
    let payloads: Vec<(&Payload, u32)> = parts.iter().map(|part| (part.2, scenario.vms[part.0].vcpus)).collect();
    let inserted = || turn.changed.cheaper.map_or(0, VirtualSpeedup::inserted);
    let moment =
        || read_at_once(|| (payloads.iter().map(|(payload, vcpus)| payload.counted(0..*vcpus)).collect(), inserted()));
    let stopped: OnceLock<(u64, (Vec<u64>, u64))> = OnceLock::new();
    let (mut world, handler) = LoadGenerator::new(scenario, payloads[0].0, &parkers, disks, first_disk);
    let setups: Vec<Setup> = parts
        .iter()
        .map(|(spec, _, _, devices, thread)| Setup {
            devices,
            thread: *thread,
            outside: Some(&handler),
            events: turn.keep_events,
            changed: turn.changed,
            beside: &beside,
            ..setup_of(machine, scenario, &scenario.vms[*spec], &parkers)
        })
        .collect();
    let (mut jobs, mut kicks, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for ((spec, vcpus, _, devices, thread), setup) in parts.into_iter().zip(&setups) {
        models.extend(thread.map(|thread| (thread, devices)));
        let runs: Vec<u32> = running(&scenario.vms[spec]).map(|(vcpu, _)| vcpu).collect();
        for vcpu in vcpus.iter_mut().filter(|vcpu| runs.contains(&vcpu.index())) {
            let (watch, thread) = (&watch, kicks.len());
            kicks.push(vcpu.kick());
            jobs.push(move || serve_on(placement, thread, vcpu, setup, watch));
        }
    }
    run.served = std::thread::scope(|scope| {
        for (thread, devices) in models {
            let watch = &watch;
            scope.spawn(move || thread.serve(devices, watch));
        }
        let outside = scope.spawn(|| world.play(&watch, turn.length, || drop(stopped.set(moment()))));
        let served = watch.run_jobs(&kicks, jobs);
        watch.stop();
        drop(outside.join());
        served
    })?;
    run.seen.append(&mut world.seen);
    let (end, (counted, inserted)) = stopped.into_inner().unwrap_or_else(moment);
    (run.span, run.counted, run.inserted) = (machine.span(began, end), counted, inserted);
    Ok(())
}

/// What guests that go on are read as, and when: of a few readings the quickest, as who reads may lose its CPU in the middle.
fn read_at_once<T>(read: impl Fn() -> T) -> (u64, T) {
    const MORE_READINGS: usize = 7;
    let reading = || {
        let at = ticks();
        let value = read();
        (ticks() - at, (at, value))
    };
    let quicker = |best: (u64, _), next: (u64, _)| if next.0 < best.0 { next } else { best };
    (0..MORE_READINGS).map(|_| reading()).fold(reading(), quicker).1
}

/// What a scenario has answered inside KVM, and for each whether KVM has a device there: at ports of its interrupt controllers.
fn answered_by_kvm(spec: &VmSpec) -> impl Iterator<Item = bool> {
    let of_kernel = spec.registrations.iter().filter(|of| of.kind == RegistrationKind::Kernel);
    of_kernel.map(|of| of.port && KERNEL_PORTS.contains(&of.first) && KERNEL_PORTS.contains(&of.last))
}

/// By vCPU number: whom it shares its CPUs with.
fn sharers(machine: &LabMachine, scenario: &Scenario, guests: &[Guest], placement: &Placement) -> Vec<CpuSharers> {
    let mut threads = Vec::new();
    for guest in guests {
        let runs: Vec<u32> = running(&scenario.vms[guest.spec]).map(|(vcpu, _)| vcpu).collect();
        threads.extend(guest.vcpus.iter().filter(|vcpu| runs.contains(&vcpu.index())).map(LabVcpu::number));
    }
    let cpus = |thread: usize| match placement.cpus.get(thread) {
        Some(cpus) if !cpus.is_empty() => &cpus[..],
        _ => &machine.cpus[..],
    };
    let mut beside = vec![CpuSharers::default(); threads.last().map_or(0, |last| *last as usize + 1)];
    for (thread, &number) in threads.iter().enumerate() {
        let own = cpus(thread);
        let shares = |(other, _): &(usize, &u32)| *other != thread && cpus(*other).iter().any(|cpu| own.contains(cpu));
        let others = threads.iter().enumerate().filter(shares).map(|(_, number)| *number).collect();
        beside[number as usize] = CpuSharers { others, cpus: own.len() };
    }
    beside
}

/// What a scenario's VM is made with. With interrupt controllers, it is in a ring in which no halt depends on them.
fn config_of(machine: &LabMachine, spec: &VmSpec) -> VmConfig {
    let irqchip = answered_by_kvm(spec).any(|is_there| is_there);
    let ring = if irqchip { PrivilegeRing::Three } else { machine.ring() };
    VmConfig { irqchip, ..VmConfig::new(spec.vcpus, ring) }
}

/// How a VM's exits are served, but for whom.
fn setup_of<'a>(
    machine: &'a LabMachine,
    scenario: &Scenario,
    spec: &VmSpec,
    parkers: &'a [crate::Parker],
) -> Setup<'a> {
    let exit_path = &spec.policies.exit_path;
    Setup {
        lock: Some(exit_path.device_lock),
        registers: (spec.registers.read + spec.registers.written > 0).then_some(exit_path.register_sync),
        delay_ns: scenario.costs.delay.time.as_nanos(),
        // A guest that polls by itself tells KVM not to: kvm_arch_no_poll() of arch/x86/kvm/x86.c.
        halt_poll: (!spec.cpuidle_haltpoll).then_some(spec.policies.host_halt_poll),
        coalesces: spec.registrations.iter().any(|row| row.kind == RegistrationKind::Coalesced),
        ..Setup::new(machine, parkers)
    }
}

/// Serves a vCPU on this thread, the `thread`th, until its program or the run is over.
fn serve_on(
    placement: &Placement,
    thread: usize,
    vcpu: &mut LabVcpu,
    setup: &Setup,
    watch: &Watch,
) -> Result<(VcpuRun, ThreadUse), LabError> {
    let mut served = VcpuRun::default();
    let (result, used) = ThreadUse::of(placement, thread, || serve_into(vcpu, setup, watch, &mut served));
    match result {
        // The scenario's time is over.
        Err(LabError::Stopped) | Ok(()) => Ok((served, used)),
        Err(error) => Err(error),
    }
}

/// What a real run cannot be as the scenario has it.
pub(crate) fn differences(machine: &LabMachine, scenario: &Scenario) -> Vec<String> {
    let mut said = Vec::new();
    let host = &scenario.host;
    let cpus = host.cpus(scenario.policies.vcore.subcores_per_core) as usize;
    if cpus != machine.cpus.len() {
        said.push(format!("the scenario's host has {}, this one {}", counted(cpus as u64, "CPU"), machine.cpus.len()));
    }
    if host.ganged {
        said.push("threads of a core do not leave together here; lab gang shows that".to_string());
    }
    if host.ganged && scenario.vms.iter().any(|vm| vm.pinned || !vm.cpus.is_empty()) {
        said.push("virtual cores are not pinned here".to_string());
    }
    if scenario.vms.iter().any(|vm| vm.weight != 1_024) {
        said.push("vCPUs all weigh the same here".to_string());
    }
    let knobs = not_followed(scenario);
    if !knobs.is_empty() {
        said.push(format!("{}: as this host's KVM and processor have it, not as the scenario says", knobs.join(", ")));
    }
    if scenario.channels.iter().any(|channel| channel.latency.mean().0 > 0) {
        said.push("messages take as long as this machine does, not the channels' latency".to_string());
    }
    if !scenario.threads.is_empty() {
        let names: Vec<&str> = scenario.threads.iter().map(|thread| thread.name.as_str()).collect();
        said.push(format!("threads of the host are left out: {}", names.join(", ")));
    }
    if scenario.vms.iter().flat_map(answered_by_kvm).any(|is_there| !is_there) {
        said.push(format!(
            "KVM has no in-kernel device that can be put at any address, but those at ports {:#x} and {:#x}: other accesses go to \
             user space",
            KERNEL_PORTS.start(),
            KERNEL_PORTS.end()
        ));
    }
    if scenario.vms.iter().any(|vm| matches!(vm.spin, SpinWait::Diagnose(_))) {
        let text = "yields let the kernel choose who runs, as the lab has no dispatcher here; lab yield has one";
        said.push(text.to_string());
    }
    if scenario.vms.iter().any(|vm| vm.policies.host_halt_poll.halt_poll_ns.0 > 0) && scenario.vms.iter().any(halts) {
        said.push(
            "halts wait in user space, which polls as KVM would; lab haltpoll has KVM's own polling, too".to_string(),
        );
    }
    said
}

/// Whether any program of a VM ever idles.
fn halts(vm: &VmSpec) -> bool {
    fn any(program: &[Op]) -> bool {
        program.iter().any(|op| match op {
            Op::Sleep(_) | Op::AwaitIpi | Op::Await(_) | Op::Receive(_) | Op::AwaitReply => true,
            Op::Repeat(_, inner) => any(inner),
            Op::Pick(ways) => ways.iter().any(|(_, inner)| any(inner)),
            _ => false,
        })
    }
    vm.programs.iter().any(|(_, program)| any(program))
}

/// What the vCPUs of a VM did, all copies together.
fn pages<'a>(scenario: &'a Scenario, guests: &'a [Guest], spec: usize) -> impl Iterator<Item = abi::VcpuPage> + 'a {
    let of = guests.iter().filter(move |guest| guest.spec == spec);
    of.flat_map(move |guest| running(&scenario.vms[spec]).map(|(vcpu, _)| guest.payload.page(vcpu)))
}

/// Work done, with a latency's own cost of `sample` ticks taken off.
fn work(machine: &LabMachine, scenario: &Scenario, run: &ScenarioRun, sample: u64) -> FindingsTable {
    let guests = &run.guests;
    let latency = |times: &Histogram| {
        let at = |name, part| times.quantile(part).map(|ns| FindingFigure::plain(name, Unit::Nanos, ns as f64));
        [at("p50", 5_000), at("p90", 9_000), at("p99", 9_900)].into_iter().flatten().collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for (at, spec) in scenario.vms.iter().enumerate() {
        let done: u64 = pages(scenario, guests, at).map(|page| page.done.0[op::COUNT_ONE as usize]).sum();
        let mut times = Histogram::default();
        for guest in guests.iter().filter(|guest| guest.spec == at) {
            for (vcpu, _) in running(spec) {
                for ticks in guest.payload.samples(vcpu) {
                    let ticks = u64::from(ticks).saturating_sub(sample);
                    times.record(machine.ns_in(ticks as f64) as u64);
                }
            }
        }
        // What comes after the programs are told to stop is in no rate.
        let in_time = run.counted_by(at);
        let mut figures = vec![
            FindingFigure::plain("done", Unit::Count, done as f64),
            FindingFigure::plain("rate", Unit::PerSecond, run.span.rate(in_time)),
        ];
        figures.extend(latency(&times));
        rows.push(FindingRow { labels: vec![spec.name.clone(), "VM".to_string()], figures, ..FindingRow::default() });
    }
    for (load, seen) in scenario.loads.iter().zip(&run.seen) {
        let name = scenario.channels.get(load.channel).map_or("?", |channel| &channel.name);
        let mut figures = vec![
            FindingFigure::plain("done", Unit::Count, seen.times.total() as f64),
            FindingFigure::plain("rate", Unit::PerSecond, run.span.rate(seen.times.total())),
        ];
        figures.extend(latency(&seen.times));
        if seen.refused > 0 {
            figures.push(FindingFigure::plain("not sent", Unit::Count, seen.refused as f64));
        }
        rows.push(FindingRow {
            labels: vec![name.to_string(), "clients outside".to_string()],
            figures,
            ..FindingRow::default()
        });
    }
    FindingsTable { title: "Work done, and how long each took", labels: vec!["name", "what"], rows }
}

fn exits(scenario: &Scenario, guests: &[Guest], accounts: &[ExitAccount], span: Span) -> FindingsTable {
    let mut rows = Vec::new();
    for (at, spec) in scenario.vms.iter().enumerate() {
        let mut done = [0; op::COUNT];
        let (mut halts, mut yields, mut yields_to, mut senses) = (0, 0, 0, 0);
        for page in pages(scenario, guests, at) {
            done.iter_mut().zip(page.done.0).for_each(|(sum, count)| *sum += count);
            halts += page.halts;
            yields += page.yields;
            yields_to += page.yields_to;
            senses += page.senses;
        }
        let of = |ops: &[u32]| -> u64 { ops.iter().map(|op| done[*op as usize]).sum() };
        let came =
            |reasons: &[LabExitReason]| -> u64 { reasons.iter().map(|reason| accounts[at].count(*reason)).sum() };
        // Doorbells come out as port writes, if they come out; which of them do is the channels'.
        let rung = of(&[op::DOORBELL]);
        let by_device_model = scenario.channels.iter().any(|channel| channel.doorbell == Doorbell::DeviceModel);
        let rung_out = if by_device_model { rung } else { 0 };
        let all = [
            (
                "port access",
                of(&[op::PORT_IN, op::PORT_OUT, op::PORT_STRING]),
                came(&[LabExitReason::PortIn, LabExitReason::PortOut]).saturating_sub(rung_out),
            ),
            ("doorbell", rung, rung_out),
            (
                "MMIO access",
                of(&[op::MMIO_READ, op::MMIO_WRITE]),
                came(&[LabExitReason::MmioRead, LabExitReason::MmioWrite]),
            ),
            ("hypercall", of(&[op::HYPERCALL]), 0),
            ("CPUID", of(&[op::CPUID]), 0),
            ("halt", halts + of(&[op::SLEEP, op::SLEEP_TABLE]), came(&[LabExitReason::Halt, LabExitReason::Sleep])),
            // A vCPU whose program is over says so with a doorbell of its own, and halts no more.
            ("end of program", of(&[op::END]), of(&[op::END])),
            ("diagnose X'44'", yields, came(&[LabExitReason::Yield])),
            ("diagnose X'9C'", yields_to, came(&[LabExitReason::YieldTo])),
            ("sense running", senses, came(&[LabExitReason::Sense])),
            ("wake-up, disk or answer", 0, came(&[LabExitReason::Wake, LabExitReason::Outside])),
        ];
        for (reason, by_guest, to_user) in all.into_iter().filter(|row| row.1 + row.2 > 0) {
            let figures = vec![
                FindingFigure::plain("by the guest", Unit::Count, by_guest as f64),
                FindingFigure::plain("to user space", Unit::Count, to_user as f64),
                FindingFigure::plain("rate", Unit::PerSecond, span.rate(by_guest.max(to_user))),
            ];
            rows.push(FindingRow {
                labels: vec![spec.name.clone(), reason.to_string()],
                figures,
                ..FindingRow::default()
            });
        }
    }
    FindingsTable { title: "Exits by reason", labels: vec!["VM", "reason"], rows }
}

/// Locks, yields and polls of the VMs that have any.
fn yields(scenario: &Scenario, guests: &[Guest]) -> FindingsTable {
    let mut rows = Vec::new();
    for (at, spec) in scenario.vms.iter().enumerate() {
        let sum = |of: fn(&abi::VcpuPage) -> u64| -> u64 { pages(scenario, guests, at).map(|page| of(&page)).sum() };
        let all = [
            ("locks taken", sum(|page| page.done.0[op::LOCK as usize])),
            ("locks that were held", sum(|page| page.contended)),
            ("polls before a halt", sum(|page| page.polls)),
            ("polls that paid", sum(|page| page.polls_paid)),
            ("messages that woke somebody", sum(|page| page.wakes_sent)),
            ("messages that needed no wake-up", sum(|page| page.wakes_saved)),
            ("of these, to a vCPU that polled", sum(|page| page.ipis_spared)),
        ];
        for (what, count) in all.into_iter().filter(|row| row.1 > 0) {
            let figures = vec![FindingFigure::plain("count", Unit::Count, count as f64)];
            rows.push(FindingRow {
                labels: vec![spec.name.clone(), what.to_string()],
                figures,
                ..FindingRow::default()
            });
        }
    }
    FindingsTable { title: "Locks, polls, messages", labels: vec!["VM", "what"], rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_reading_in_whose_middle_the_cpu_was_lost_is_not_taken() {
        let read = Cell::new(0);
        let before = ticks();
        let (at, value) = read_at_once(|| {
            read.set(read.get() + 1);
            if read.get() != 5 {
                std::thread::sleep(Duration::from_millis(5));
            }
            read.get()
        });
        assert_eq!((value, read.get()), (5, 8));
        assert!(before < at && at < ticks());
    }
}
