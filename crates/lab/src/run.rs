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
use crate::device_model::{Device, DeviceThread};
use crate::events::Events;
use crate::exit_account::{ExitAccount, LabExitReason, LabHandler};
use crate::load_generator::LoadGenerator;
use crate::loaded_vm::{ComputeGauge, thread_usage};
use crate::machine::{allowed_cpus, keep_on};
use crate::measure::{MeasurePlan, Noise, machine_warnings, manifest};
use crate::placement::{Placement, cpus_in_words};
use crate::run_loop::{Setup, VcpuRun, parkers, serve_into};
use crate::{GuestMemory, IoAddress, LabError, LabMachine, LabVcpu, LabVm, Payload, VmConfig, Watch};
use exitscope_model::Event;
use exitscope_policy::port_path::DeviceModel;
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit, counted};
use exitscope_scenario::{Disk, Doorbell, Op, Program, RegistrationKind, Scenario, SpinWait, VmSpec};
use exitscope_stats::Histogram;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// How much longer than asked for a run may take before it counts as hung.
const HANG_GRACE: Duration = Duration::from_secs(20);

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

/// Runs a scenario for its duration, or `duration` if that is given. With `pin`, vCPUs are kept on CPUs as the scenario has it, and
/// otherwise on one each where there are enough. With `keep_events`, its events come with it.
pub fn run(
    machine: &LabMachine,
    scenario: &Scenario,
    duration: Option<Duration>,
    pin: bool,
    keep_events: bool,
) -> Result<(Findings, Vec<Event>), LabError> {
    let mut warnings = machine_warnings(machine);
    warnings.extend(differences(machine, scenario));
    let placement = place(machine, scenario, pin);
    warnings.extend(placement.notes.iter().cloned());
    let mut gauge = ComputeGauge::new(machine, machine.ring())?;
    let speed_before = gauge.now().passes_per_us();
    let (mut guests, number) = all_guests(machine, scenario, speed_before)?;
    let parkers = parkers(number);
    let (disks, first_disk) = disks_of(scenario, &guests);
    let length = duration.unwrap_or(Duration::from_nanos(scenario.duration.as_nanos()));
    let (noise, began) = (Noise::now(), Instant::now());
    let (served, seen, took) =
        play(machine, scenario, &mut guests, &parkers, &placement, disks, first_disk, length, keep_events)?;
    warnings.extend(noise.warnings(began.elapsed(), machine.cpus.len()));
    let speed_after = gauge.again(machine)?.passes_per_us();
    check_possible(machine, scenario, &guests, &mut gauge, took)?;
    warnings.extend(gauge.warning());
    let threads: Vec<ThreadUse> = served.iter().map(|(_, thread)| thread.clone()).collect();
    warnings.extend(refused_warning(&threads));
    let each_has_one = each_has_one(&threads);
    let plan = MeasurePlan { rounds: 1, duration: length, pin: each_has_one, ..MeasurePlan::default() };
    let mut findings = Findings {
        experiment: "run",
        description: "A scenario's programs on real guests: counts are exact, times are this machine's",
        manifest: manifest(machine, &plan, each_has_one),
        warnings,
        ..Findings::default()
    };
    let (accounts, events) = accounts_of(scenario, &guests, served);
    let seconds = took.as_secs_f64();
    findings.tables = vec![
        work(machine, scenario, &guests, &seen, seconds),
        exits(scenario, &guests, &accounts, seconds),
        yields(scenario, &guests),
        threads_table(machine, scenario, &guests, &threads),
    ];
    findings.tables.retain(|table| !table.rows.is_empty());
    findings.summary = vec![format!(
        "{}: ran for {seconds:.2} s, {}, {}",
        scenario.name,
        counted(guests.len() as u64, "VM"),
        counted(number.into(), "vCPU")
    )];
    findings.summary.push(format!(
        "A compute step of 1 us took 1.00 us before the run, and {:.2} us after it.",
        speed_before / speed_after
    ));
    Ok((findings, Events::merge(events)))
}

/// The vCPUs of a VM that have a program.
fn running(spec: &VmSpec) -> impl Iterator<Item = (u32, &Program)> {
    let of = |vcpu| spec.programs.iter().find(|(vcpus, _)| vcpus.contains(&vcpu)).map(|(_, program)| (vcpu, program));
    (0..spec.vcpus).filter_map(of)
}

/// The guests of a scenario, and the number of their vCPUs.
fn all_guests(machine: &LabMachine, scenario: &Scenario, passes_per_us: f64) -> Result<(Vec<Guest>, u32), LabError> {
    let shared = LabVm::shared_memory()?;
    let mut guests = Vec::new();
    let mut number = 0;
    for (at, spec) in scenario.vms.iter().enumerate() {
        for _ in 0..spec.copies {
            let guest = guest(machine, scenario, at, number, &shared, passes_per_us)?;
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
fn place(machine: &LabMachine, scenario: &Scenario, pin: bool) -> Placement {
    let vcpus_of = |spec: &VmSpec| running(spec).map(|(vcpu, _)| vcpu).collect();
    Placement::new(&scenario.vms, vcpus_of, &machine.cpus, pin && !scenario.host.ganged)
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

/// Whether every thread was kept on one CPU, which is no other's.
fn each_has_one(threads: &[ThreadUse]) -> bool {
    let single = threads.iter().map(|thread| thread.cpus.as_slice()).filter(|cpus| cpus.len() == 1);
    single.collect::<BTreeSet<_>>().len() == threads.len()
}

fn refused_warning(threads: &[ThreadUse]) -> Option<String> {
    let refused = threads.iter().filter(|thread| thread.refused).count() as u64;
    let text = || format!("{} could not be kept on their CPUs: that is not permitted here", counted(refused, "vCPU"));
    (refused > 0).then(text)
}

/// An error if a vCPU, or all of them on these CPUs, computed for longer than the run took.
fn check_possible(
    machine: &LabMachine,
    scenario: &Scenario,
    guests: &[Guest],
    gauge: &mut ComputeGauge,
    took: Duration,
) -> Result<(), LabError> {
    let mut all = 0;
    for guest in guests {
        let spec = &scenario.vms[guest.spec];
        for (vcpu, _) in running(spec) {
            let passes = guest.payload.page(vcpu).passes;
            all += passes;
            gauge.check(machine, &format!("{} vCPU {vcpu}", spec.name), passes, took)?;
        }
    }
    let cpus = machine.cpus.len().max(1) as u32;
    gauge.check(machine, "all vCPUs together", all, took.saturating_mul(cpus))
}

/// What a vCPU's thread used, and where it could.
#[derive(Clone, Debug, Default)]
struct ThreadUse {
    /// The CPUs on which it was allowed to run, as the kernel has them.
    cpus: Vec<usize>,
    /// Whether it was to be kept on CPUs and could not.
    refused: bool,
    /// CPU time.
    cpu: Duration,
    /// How often it gave the CPU up by itself.
    sleeps: u64,
}

impl ThreadUse {
    /// Runs `body` on this thread, kept on `cpus`; none: on any.
    fn of<T>(cpus: &[usize], body: impl FnOnce() -> T) -> (T, ThreadUse) {
        let refused = !cpus.is_empty() && !keep_on(cpus);
        let before = thread_usage();
        let done = body();
        let after = thread_usage();
        let (cpu, sleeps) = (after.0.saturating_sub(before.0), after.1 - before.1);
        (done, ThreadUse { cpus: allowed_cpus(), refused, cpu, sleeps })
    }
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
    passes_per_us: f64,
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
    let config = VmConfig { irqchip: false, ..VmConfig::new(spec.vcpus, machine.ring()) };
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
            passes_per_us,
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

type Played = (Vec<(VcpuRun, ThreadUse)>, Vec<crate::load_generator::ClientResults>, Duration);

#[expect(clippy::too_many_arguments, reason = "what a run consists of, once")]
fn play(
    machine: &LabMachine,
    scenario: &Scenario,
    guests: &mut [Guest],
    parkers: &[crate::Parker],
    placement: &Placement,
    disks: Vec<Disk>,
    first_disk: Vec<usize>,
    length: Duration,
    keep_events: bool,
) -> Result<Played, LabError> {
    let watch = Watch::new(length + HANG_GRACE);
    let mut seen = Vec::new();
    let began = Instant::now();
    let mut parts = Vec::new();
    for guest in guests.iter_mut() {
        let Guest { spec, vcpus, payload, devices, thread, .. } = guest;
        parts.push((*spec, vcpus, &*payload, &*devices, thread.as_ref()));
    }
    let payload = parts[0].2;
    let (mut world, handler) = LoadGenerator::new(scenario, payload, parkers, disks, first_disk);
    let setups: Vec<Setup> = parts
        .iter()
        .map(|(spec, _, _, devices, thread)| {
            let spec = &scenario.vms[*spec];
            let exit_path = &spec.policies.exit_path;
            let coalesces = spec.registrations.iter().any(|row| row.kind == RegistrationKind::Coalesced);
            Setup {
                devices,
                thread: *thread,
                lock: Some(exit_path.device_lock),
                registers: (spec.registers.read + spec.registers.written > 0).then_some(exit_path.register_sync),
                delay_ns: scenario.costs.delay.time.as_nanos(),
                coalesces,
                outside: Some(&handler),
                events: keep_events,
                ..Setup::new(machine, parkers)
            }
        })
        .collect();
    let mut jobs = Vec::new();
    let mut kicks = Vec::new();
    let mut models = Vec::new();
    let mut places = placement.cpus.iter();
    for ((spec, vcpus, _, devices, thread), setup) in parts.into_iter().zip(&setups) {
        models.extend(thread.map(|thread| (thread, devices)));
        let runs: Vec<u32> = running(&scenario.vms[spec]).map(|(vcpu, _)| vcpu).collect();
        for vcpu in vcpus.iter_mut().filter(|vcpu| runs.contains(&vcpu.index())) {
            kicks.push(vcpu.kick());
            let watch = &watch;
            let cpus = places.next().map_or(&[][..], Vec::as_slice);
            jobs.push(move || serve_on(cpus, vcpu, setup, watch));
        }
    }
    let served = std::thread::scope(|scope| {
        for (thread, devices) in models {
            let watch = &watch;
            scope.spawn(move || thread.serve(devices, watch));
        }
        let outside = scope.spawn(|| world.play(&watch, began + length));
        let served = watch.run_jobs(&kicks, jobs);
        watch.stop();
        drop(outside.join());
        served
    })?;
    seen.append(&mut world.seen);
    Ok((served, seen, began.elapsed()))
}

/// Serves a vCPU on this thread, kept on `cpus`, until its program or the run is over.
fn serve_on(
    cpus: &[usize],
    vcpu: &mut LabVcpu,
    setup: &Setup,
    watch: &Watch,
) -> Result<(VcpuRun, ThreadUse), LabError> {
    let mut served = VcpuRun::default();
    let (result, thread) = ThreadUse::of(cpus, || serve_into(vcpu, setup, watch, &mut served));
    match result {
        // The scenario's time is over.
        Err(LabError::Stopped) | Ok(()) => Ok((served, thread)),
        Err(error) => Err(error),
    }
}

/// What a real run cannot be as the scenario has it.
fn differences(machine: &LabMachine, scenario: &Scenario) -> Vec<String> {
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
    if scenario.channels.iter().any(|channel| channel.latency.mean().0 > 0) {
        said.push("messages take as long as this machine does, not the channels' latency".to_string());
    }
    if !scenario.threads.is_empty() {
        let names: Vec<&str> = scenario.threads.iter().map(|thread| thread.name.as_str()).collect();
        said.push(format!("threads of the host are left out: {}", names.join(", ")));
    }
    let kinds = scenario.vms.iter().flat_map(|vm| &vm.registrations);
    if kinds.into_iter().any(|registration| registration.kind == RegistrationKind::Kernel) {
        said.push(
            "KVM has no in-kernel device that can be put at any address: those accesses go to user space".to_string(),
        );
    }
    if scenario.vms.iter().any(|vm| matches!(vm.spin, SpinWait::Diagnose(_))) {
        let text = "yields let the kernel choose who runs, as the lab has no dispatcher here; lab yield has one";
        said.push(text.to_string());
    }
    if scenario.vms.iter().any(|vm| vm.policies.host_halt_poll.halt_poll_ns.0 > 0) && scenario.vms.iter().any(halts) {
        said.push(
            "halts wait in user space, where KVM does not poll for them; lab haltpoll has its polling".to_string(),
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

fn work(
    machine: &LabMachine,
    scenario: &Scenario,
    guests: &[Guest],
    seen: &[crate::load_generator::ClientResults],
    seconds: f64,
) -> FindingsTable {
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
                    times.record(machine.ns_in(ticks.into()) as u64);
                }
            }
        }
        let mut figures = vec![
            FindingFigure::plain("done", Unit::Count, done as f64),
            FindingFigure::plain("rate", Unit::PerSecond, done as f64 / seconds),
        ];
        figures.extend(latency(&times));
        rows.push(FindingRow { labels: vec![spec.name.clone(), "VM".to_string()], figures, ..FindingRow::default() });
    }
    for (load, seen) in scenario.loads.iter().zip(seen) {
        let name = scenario.channels.get(load.channel).map_or("?", |channel| &channel.name);
        let mut figures = vec![
            FindingFigure::plain("done", Unit::Count, seen.times.total() as f64),
            FindingFigure::plain("rate", Unit::PerSecond, seen.times.total() as f64 / seconds),
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

fn exits(scenario: &Scenario, guests: &[Guest], accounts: &[ExitAccount], seconds: f64) -> FindingsTable {
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
                FindingFigure::plain("rate", Unit::PerSecond, by_guest.max(to_user) as f64 / seconds),
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

    #[test]
    fn a_thread_that_is_kept_on_a_cpu_is_and_says_so() {
        let cpus = allowed_cpus();
        let Some(&last) = cpus.last() else { panic!("this thread runs on no CPU") };
        let on_its_own = |cpus: Vec<usize>| {
            std::thread::spawn(move || {
                let (seen, thread) = ThreadUse::of(&cpus, || {
                    // As /proc has it, without the system call that the lab asks.
                    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
                    line.trim().to_string()
                });
                (seen, thread.cpus, thread.refused)
            })
            .join()
            .unwrap()
        };
        assert_eq!(on_its_own(vec![last]), (last.to_string(), vec![last], false));
        let (_, anywhere, refused) = on_its_own(Vec::new());
        assert_eq!((anywhere, refused), (cpus.clone(), false));
        let (_, anywhere, refused) = on_its_own(vec![libc::CPU_SETSIZE as usize]);
        assert_eq!((anywhere, refused), (cpus, true), "no such CPU");
    }
}
