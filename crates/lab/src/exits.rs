//! `lab exits`: what an exit costs, by its cause and its handler; and the ways around.
//!
//! ```text
//! every kind of exit × every handler ─┐
//! registers: ioctls, shared page ─────┤
//! one big lock, split locks ──────────┼─► a Bench each ─► turns, interleaved ─► a row each, or why there is none
//! 1 … 500 ioeventfds ─────────────────┘
//! ```

use crate::abi::{ARENA, ARENA_SIZE, ProgramStep, op};
use crate::bench::{Bench, Job, MAX_TURN, Spec};
use crate::events::Events;
use crate::exit_account::LabExitReason;
use crate::measure::{MeasurePlan, Series};
use crate::session::LabSession;
use crate::tracefs::host_tracing;
use crate::{IoAddress, LabError, LabMachine, PrivilegeRing, VmConfig, host, step};
use exitscope_model::Event;
use exitscope_policy::exit_path::{DeviceLock, RegisterSync};
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, NOT_MEASURABLE, Unit, noise};
use exitscope_stats::Histogram;
use exitscope_units::Nanos;

/// A port that nothing of KVM's answers.
const PORT: u16 = 0x10;
/// An address outside memory.
const ADDRESS: u64 = 0xfeb0_0000;
/// The register of KVM's interrupt controller that chooses edge or level (`eclr` of arch/x86/kvm/i8259.c); the second one's follows.
pub(crate) const KERNEL_PORT: u16 = 0x4d0;
/// The selector of KVM's I/O interrupt controller.
const KERNEL_ADDRESS: u64 = 0xfec0_0000;
/// A model-specific register that every processor has and KVM answers, and one that nobody has.
const KERNEL_MSR: u64 = 0x277;
const UNKNOWN_MSR: u64 = 0x4b56_4dff;
/// x2APIC's end of interrupt, and its timer's initial count.
const X2APIC_EOI: u64 = 0x80b;
const X2APIC_TIMER: u64 = 0x838;
/// A hypercall that KVM does not know.
const HYPERCALL: u64 = 100;
/// What a device takes for an access where locks matter: the less of an access that is, the more CPUs it takes for accesses to
/// meet in the lock.
const LOCKED_WORK_NS: [u64; 3] = [1_000, 10_000, 100_000];
/// vCPUs that access devices at once.
const LOCKED_VCPUS: [u32; 4] = [1, 2, 4, 8];

/// What is to be measured, or cannot be.
type Wanted = (Vec<String>, Result<Spec, String>);

struct Part {
    title: &'static str,
    labels: Vec<&'static str>,
    rows: Vec<Wanted>,
}

/// The exits whose spread is told for scenarios.
const SPREAD_OF: [&str; 2] = ["port write", "user space"];

/// Measures all of it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let parts = [kinds(machine), registers(machine), locks(machine), devices(machine)];
    let mut session = LabSession::new(machine, plan, false)?;
    let mut benches: Vec<Result<Timed, String>> = Vec::new();
    for part in &parts {
        for (_, spec) in &part.rows {
            benches.push(match spec {
                Err(why) => Err(why.clone()),
                Ok(spec) => Timed::new(machine, spec.clone(), plan)?,
            });
        }
    }
    session.take_turns(benches.len(), |session, round, at| {
        let bench = &mut benches[at];
        if let Ok(timed) = bench
            && let Err(why) = timed.turn(machine, plan, round, keep_events && session.is_last(round))
        {
            *bench = Err(unsupported_as_row(why)?);
        }
        Ok(())
    })?;
    let mut findings = session.findings("exits", "What an exit costs, by its cause and its handler")?;
    if machine.emulates_ring_0 {
        findings.warnings.push(
            "IPI to a running vCPU: its time is from the sender's write until the other vCPU's handler has run; here \
             KVM emulates both vCPUs, and a vCPU that spins was seen to need ten times as long for the IPI as one that \
             had halted. Neither row is what an IPI costs where ring 0 runs natively"
                .to_string(),
        );
    }
    let mut benches = benches.into_iter();
    let mut events = Vec::new();
    for part in parts {
        let rows = part.rows.into_iter().zip(benches.by_ref()).map(|((labels, _), bench)| match bench {
            Err(why) => FindingRow { labels, cannot: Some(why), ..FindingRow::default() },
            Ok(timed) => {
                let row = timed.row(machine, labels);
                events.extend(timed.events);
                row
            }
        });
        findings.tables.push(FindingsTable { title: part.title, labels: part.labels, rows: rows.collect() });
    }
    findings.summary = summary(&findings);
    if !machine.emulates_ring_0 {
        findings.summary.extend(findings.tables.first().and_then(spread_sentence));
    }
    let unknown = || "not known".to_string();
    findings.summary.push(format!(
        "This kernel accounts for the time of guests: {}. Traced by ftrace on this host: {}.",
        host::time_accounting().unwrap_or_else(unknown),
        host_tracing().unwrap_or_else(unknown)
    ));
    Ok((findings, Events::merge(events)))
}

/// What the back end cannot do is a row; what ends the whole run is an error.
pub(crate) fn unsupported_as_row(error: LabError) -> Result<String, LabError> {
    match error {
        LabError::Signal(_) | LabError::NoKvm(_) | LabError::Impossible(_) => Err(error),
        error => Ok(format!("this back end cannot do it: {error}")),
    }
}

/// A bench and what it gave so far.
pub(crate) struct Timed {
    pub(crate) bench: Bench,
    pub(crate) series: Series,
    /// Samples a second, of all vCPUs together, round by round.
    pub(crate) rates: Vec<f64>,
    /// Of each round, in nanoseconds: the median time of an exit in user space, and that to the device thread.
    pub(crate) in_user: Vec<f64>,
    /// Of each round, the mean sample of the vCPU that took longest, in ticks.
    pub(crate) longest_mean: Vec<f64>,
    pub(crate) to_thread: Vec<f64>,
    /// Ticks that a sample takes, about, with everything around it.
    about: f64,
    pub(crate) events: Vec<Events>,
}

impl Timed {
    pub(crate) fn new(machine: &LabMachine, spec: Spec, plan: &MeasurePlan) -> Result<Result<Timed, String>, LabError> {
        let made = Bench::new(machine, spec).and_then(|mut bench| {
            let turn = bench.turn(machine, FIRST_TURN, plan.pin, false)?;
            let about = turn.ticks as f64 / FIRST_TURN as f64;
            Ok(Timed {
                bench,
                series: Series::default(),
                rates: Vec::new(),
                in_user: Vec::new(),
                longest_mean: Vec::new(),
                to_thread: Vec::new(),
                about,
                events: Vec::new(),
            })
        });
        made.map_or_else(|error| unsupported_as_row(error).map(Err), |timed| Ok(Ok(timed)))
    }

    pub(crate) fn turn(
        &mut self,
        machine: &LabMachine,
        plan: &MeasurePlan,
        round: Option<u32>,
        events: bool,
    ) -> Result<(), LabError> {
        let most = match self.bench.spec().job {
            Job::Step(ProgramStep { op: op::TOUCH, .. }, _) => ARENA_SIZE / 4096 - 1,
            _ => MAX_TURN,
        };
        let samples = plan.samples(machine, self.about, most);
        let turn = self.bench.turn(machine, samples, plan.pin, events)?;
        // As long as one really takes, with what other programs take away.
        self.about = turn.ticks as f64 * f64::from(self.bench.spec().config.vcpus) / turn.samples.len().max(1) as f64;
        if round.is_some() {
            self.series.add(&turn.samples, turn.base);
            self.longest_mean.extend(turn.longest_mean());
            let seconds = machine.ns_in(turn.ticks as f64) / 1e9;
            self.rates.push(turn.samples.len() as f64 / seconds.max(1e-9));
            let accesses =
                [LabExitReason::PortIn, LabExitReason::PortOut, LabExitReason::MmioRead, LabExitReason::MmioWrite];
            let mut times = Histogram::default();
            for (_, _, cell) in turn.account.rows().filter(|row| accesses.contains(&row.0)) {
                times.merge(&cell.times);
            }
            self.in_user.extend(times.quantile(5_000).map(|ns| ns as f64));
            self.to_thread.extend(turn.to_thread.map(|ticks| machine.ns_in(ticks)));
        }
        if events {
            self.events = turn.events;
        }
        Ok(())
    }

    pub(crate) fn row(&self, machine: &LabMachine, labels: Vec<String>) -> FindingRow {
        let Some(summary) = self.series.summary() else {
            return FindingRow {
                labels,
                cannot: Some("the guest gave no samples".to_string()),
                ..FindingRow::default()
            };
        };
        let parts = if matches!(self.bench.spec().job, Job::PingPong) { 2.0 } else { 1.0 };
        let mut figures = summary.divided(parts).figures(machine);
        if self.bench.spec().lock.is_some() {
            figures.extend(FindingFigure::of_rounds("accesses", Unit::PerSecond, &self.rates));
        }
        FindingRow { labels, figures, ..FindingRow::default() }
    }
}

/// Samples of the first turn, which tells how long one takes.
const FIRST_TURN: u64 = 5;

/// The handler of an exit.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Kernel,
    Ioeventfd,
    Coalesced,
    Inline,
    Thread,
}

impl By {
    const ALL: [By; 5] = [By::Kernel, By::Ioeventfd, By::Coalesced, By::Inline, By::Thread];

    fn name(self) -> &'static str {
        match self {
            By::Kernel => "kernel",
            By::Ioeventfd => "ioeventfd",
            By::Coalesced => "coalesced",
            By::Inline => "user space",
            By::Thread => "device thread",
        }
    }
}

fn kinds(machine: &LabMachine) -> Part {
    let ring = machine.ring();
    let mut rows: Vec<Wanted> = Vec::new();
    let mut kernel = |what: &str, spec: Spec| rows.push((vec![what.to_string(), "kernel".to_string()], Ok(spec)));
    kernel("hypercall", Spec::new(ring, ProgramStep { b: HYPERCALL, ..step(op::HYPERCALL) }));
    kernel("CPUID", Spec::new(ring, step(op::CPUID)));
    let msr = |op, b| Spec::new(PrivilegeRing::Zero, ProgramStep { b, c: MSR_VALUE, ..step(op) });
    kernel("MSR read", msr(op::RDMSR, KERNEL_MSR));
    kernel("MSR write", msr(op::WRMSR, KERNEL_MSR));
    for (what, op) in [("MSR read", op::RDMSR), ("MSR write", op::WRMSR)] {
        let spec = Spec { msrs_come_out: true, ..msr(op, UNKNOWN_MSR) };
        rows.push((vec![what.to_string(), "user space".to_string()], Ok(spec)));
    }
    for (what, op) in [
        ("port read", op::PORT_IN),
        ("port write", op::PORT_OUT),
        ("MMIO read", op::MMIO_READ),
        ("MMIO write", op::MMIO_WRITE),
    ] {
        rows.extend(By::ALL.map(|by| (vec![what.to_string(), by.name().to_string()], accessed(ring, op, by))));
    }
    let any_size =
        Spec { ioeventfds: vec![(IoAddress::Address(ADDRESS), 0)], ..Spec::new(ring, access(op::MMIO_WRITE)) };
    rows.push((vec!["MMIO write".into(), "ioeventfd, any size".into()], Ok(any_size)));
    let pair = |job, ring| Spec {
        job,
        config: VmConfig { irqchip: true, ..VmConfig::new(2, ring) },
        ..Spec::new(ring, step(op::NOTHING))
    };
    let in_kernel = Spec { halts_in_kernel: ring == PrivilegeRing::Three, ..pair(Job::PingPong, ring) };
    rows.push((vec!["halt and wake".into(), "kernel".into()], Ok(in_kernel)));
    let by_doorbell =
        Spec { config: VmConfig::new(2, PrivilegeRing::Three), ..pair(Job::PingPong, PrivilegeRing::Three) };
    rows.push((vec!["halt and wake".into(), "user space".into()], Ok(by_doorbell)));
    let interrupt = ProgramStep { a: 1, ..step(op::INTERRUPT) };
    let mut kernel = |what: &str, spec: Spec| rows.push((vec![what.to_string(), "kernel".to_string()], Ok(spec)));
    kernel("IPI to itself", Spec::new(PrivilegeRing::Zero, step(op::INTERRUPT)));
    kernel("IPI to a running vCPU", pair(Job::BesideSpinner(interrupt), PrivilegeRing::Zero));
    kernel("IPI to a halted vCPU", pair(Job::BesideHalter(interrupt), PrivilegeRing::Zero));
    kernel("end of interrupt", Spec::new(PrivilegeRing::Zero, ProgramStep { b: X2APIC_EOI, ..step(op::WRMSR) }));
    kernel(
        "timer",
        Spec::new(PrivilegeRing::Zero, ProgramStep { b: X2APIC_TIMER, c: u32::MAX.into(), ..step(op::WRMSR) }),
    );
    kernel("page fault", Spec::new(ring, ProgramStep { b: ARENA, c: 4096, ..step(op::TOUCH) }));
    Part { title: "Exits by what caused them and who answers", labels: vec!["exit", "handler"], rows }
}

/// Every kind of exit that one step makes and that some KVM can, with its labels. An interrupt is none: its handler is the
/// guest's own time, and has exits of its own.
pub(crate) fn single(machine: &LabMachine) -> impl Iterator<Item = (Vec<String>, Spec)> {
    let is_single = |spec: &Spec| matches!(spec.job, Job::Step(ProgramStep { op, .. }, _) if op != op::INTERRUPT);
    let possible = kinds(machine).rows.into_iter().filter_map(|(labels, spec)| Some((labels, spec.ok()?)));
    possible.filter(move |(_, spec)| is_single(spec))
}

/// A value that the page attribute table takes: its own after a reset.
const MSR_VALUE: u64 = 0x0007_0406_0007_0406;

/// One access of 4 bytes (ports: 1).
fn access(op: u32) -> ProgramStep {
    let port = matches!(op, op::PORT_IN | op::PORT_OUT);
    ProgramStep { op, a: if port { 1 } else { 4 }, b: if port { PORT.into() } else { ADDRESS }, c: 1 }
}

fn accessed(ring: PrivilegeRing, op: u32, by: By) -> Result<Spec, String> {
    let is_read = matches!(op, op::PORT_IN | op::MMIO_READ);
    let step = access(op);
    let place = match op {
        op::PORT_IN | op::PORT_OUT => IoAddress::Port(PORT),
        _ => IoAddress::Address(ADDRESS),
    };
    let spec = Spec::new(ring, step);
    Ok(match by {
        By::Kernel => {
            let (b, config) = match place {
                IoAddress::Port(_) => (KERNEL_PORT.into(), spec.config),
                IoAddress::Address(_) => (KERNEL_ADDRESS, spec.config),
            };
            Spec {
                job: Job::Step(ProgramStep { b, c: 0, ..step }, 0),
                config: VmConfig { irqchip: true, ..config },
                ..spec
            }
        }
        By::Ioeventfd if is_read => return Err("no KVM can: an ioeventfd takes writes only".to_string()),
        By::Coalesced if is_read => return Err("no KVM can: only writes are coalesced".to_string()),
        By::Ioeventfd => Spec { ioeventfds: vec![(place, step.a as u8)], ..spec },
        By::Coalesced => Spec { coalesced: vec![place], ..spec },
        By::Inline => Spec { devices: vec![(place, place)], ..spec },
        By::Thread => Spec { devices: vec![(place, place)], thread: true, ..spec },
    })
}

fn registers(machine: &LabMachine) -> Part {
    let ways = [
        ("none", None),
        ("general registers, by ioctl", Some(RegisterSync::Needed)),
        ("all registers, by ioctls", Some(RegisterSync::All)),
        ("general registers, in the shared page", Some(RegisterSync::Page)),
    ];
    let rows = ways.map(|(name, registers)| {
        let spec = accessed(machine.ring(), op::PORT_IN, By::Inline);
        (vec![name.to_string()], spec.map(|spec| Spec { registers, ..spec }))
    });
    Part {
        title: "A port read in user space, by how registers are synchronised",
        labels: vec!["registers"],
        rows: rows.into(),
    }
}

/// The labels of the ways to lock devices.
const LOCKS: [(&str, DeviceLock); 2] =
    [("one big lock", DeviceLock::Big), ("a lock for each device", DeviceLock::Split)];

fn locks(machine: &LabMachine) -> Part {
    let places = LOCKED_WORK_NS.into_iter().flat_map(|work_ns| LOCKED_VCPUS.map(|vcpus| (work_ns, vcpus)));
    let rows = places.flat_map(|(work_ns, vcpus)| {
        LOCKS.map(|(name, lock)| {
            let place = |vcpu: u32| IoAddress::Port(PORT + vcpu as u16);
            let spec = Spec {
                job: Job::Step(access(op::PORT_IN), 1),
                config: VmConfig::new(vcpus, machine.ring()),
                devices: (0..vcpus).map(|vcpu| (place(vcpu), place(vcpu))).collect(),
                work_ns,
                lock: Some(lock),
                ..Spec::new(machine.ring(), access(op::PORT_IN))
            };
            (locked_labels(work_ns, name, vcpus), Ok(spec))
        })
    });
    Part {
        title: "A port read by what its device takes, by locks and vCPUs, each with a device of its own",
        labels: vec!["device takes", "locks", "vCPUs"],
        rows: rows.collect(),
    }
}

fn locked_labels(work_ns: u64, lock: &str, vcpus: u32) -> Vec<String> {
    vec![format!("{} us", work_ns / 1_000), lock.to_string(), vcpus.to_string()]
}

/// What one lock for all devices takes from as many vCPUs as there are CPUs for, with the least and the most work in it; and,
/// where the least cannot show it, why. By accesses a second and by the longest reads: few wait, and those long, so that the
/// median is of the others.
fn lock_sentences(table: &FindingsTable, cpus: usize) -> Vec<String> {
    let figure = |work_ns, lock, vcpus, name| {
        let labels = locked_labels(work_ns, lock, vcpus);
        table.rows.iter().find(|row| row.labels == labels)?.figure(name)
    };
    let ([least, .., most], [(big, _), (split, _)]) = (LOCKED_WORK_NS, LOCKS);
    let at_once = LOCKED_VCPUS.into_iter().rfind(|&vcpus| vcpus as usize <= cpus).filter(|&vcpus| vcpus > 1);
    let Some(vcpus) = at_once else {
        return vec![
            "What one lock for all devices costs takes two CPUs to show: vCPUs that never run at once never meet."
                .into(),
        ];
    };
    let mut said = Vec::new();
    for work_ns in [least, most] {
        let of = |lock| figure(work_ns, lock, vcpus, "accesses");
        let Some((locked, apart)) = of(big).zip(of(split)) else { continue };
        // Round by round: what is slow in one is so for both.
        let times = apart.rounds.iter().zip(&locked.rounds).map(|(apart, locked)| apart / locked);
        let times: Vec<f64> = times.filter(|times| times.is_finite()).collect();
        let Some(times) = FindingFigure::of_ratios("times", &times, 1) else { continue };
        let many = match times.is_open() {
            true => format!("a number of times ({NOT_MEASURABLE})"),
            false => format!("{} times", times.between()),
        };
        said.push(format!(
            "With {} us of work in the lock, {vcpus} vCPUs on {cpus} CPUs get {many} as many accesses a second with a lock for each device \
             as with one big lock{}.",
            work_ns / 1_000,
            noise(times.may_be(1.0))
        ));
        let [.., all] = LOCKED_VCPUS;
        let most_take = |lock| Some(Nanos(figure(work_ns, lock, all, "time")?.spread?.1.max(0.0) as u64));
        if let Some((locked, apart)) = most_take(big).zip(most_take(split)) {
            said.push(format!(
                "Of the reads of {all} vCPUs, 95 of 100 then take {locked} at most with one big lock, and {apart} with a lock for \
                 each device."
            ));
        }
        let Some(alone) = figure(work_ns, big, 1, "time") else { continue };
        // Each of the others that run holds it for this part of its time.
        let taken = f64::from(vcpus - 1) * work_ns as f64 / alone.value;
        if taken < 0.25 {
            said.push(format!(
                "No more can show there: {vcpus} run at once, and a read takes {}, so that whoever wants the lock finds it taken {:.0} % \
                 of the time, at most.",
                alone.micros(),
                taken * 100.0
            ));
        }
    }
    said
}

fn devices(machine: &LabMachine) -> Part {
    const FIRST: u16 = 0x1000;
    let rows = [1u16, 10, 100, 200, 500].into_iter().flat_map(|count| {
        let places: Vec<IoAddress> = (0..count).map(|at| IoAddress::Port(FIRST + 4 * at)).collect();
        let write = ProgramStep { op: op::PORT_OUT, a: 2, b: (FIRST + 4 * (count - 1)).into(), c: 1 };
        let base = Spec::new(machine.ring(), write);
        let eventfds = Spec { ioeventfds: places.iter().map(|&place| (place, 2)).collect(), ..base.clone() };
        let user = Spec { devices: places.iter().map(|&place| (place, place)).collect(), ..base };
        let row = |handler: &str, spec| (vec![handler.to_string(), count.to_string()], Ok(spec));
        [row("ioeventfd", eventfds), row("user space", user)]
    });
    Part {
        title: "A port write to the last of so many devices",
        labels: vec!["handler", "devices"],
        rows: rows.collect(),
    }
}

/// How one kind of exit is spread, as the simulator takes it.
fn spread_sentence(table: &FindingsTable) -> Option<String> {
    let row = table.rows.iter().find(|row| row.labels == SPREAD_OF)?;
    let time = row.figure("time")?;
    let [p5, p95] = [time.spread?.0, time.spread?.1].map(|ns| (1_000.0 * ns / time.value).round());
    Some(format!(
        "How long {}s to {} take, as `[costs]` of a scenario has it: exit_spread = {{ p5 = {p5}, p95 = {p95}, source = \"lab exits\" }}.",
        SPREAD_OF[0], SPREAD_OF[1]
    ))
}

/// The main points in words.
fn summary(findings: &Findings) -> Vec<String> {
    let time = |table: usize, labels: &[&str]| {
        let row = findings.tables.get(table)?.rows.iter().find(|row| row.labels == labels)?;
        row.figure("time")
    };
    let mut said = Vec::new();
    if let (Some(kernel), Some(user)) = (time(0, &["port read", "kernel"]), time(0, &["port read", "user space"])) {
        said.push(format!(
            "A port read that KVM answers takes {}; one that user space answers {}: {}.",
            kernel.micros(),
            user.micros(),
            match user.may_equal(kernel) {
                true => "no certain difference".to_string(),
                false => format!("{:.1} times as long", user.value / kernel.value),
            }
        ));
    }
    if let (Some(inline), Some(thread)) =
        (time(0, &["port read", "user space"]), time(0, &["port read", "device thread"]))
    {
        said.push(format!("Handing it to a device model's thread and waiting adds {}.", thread.longer_than(inline)));
    }
    if let (Some(eventfd), Some(user)) = (time(0, &["port write", "ioeventfd"]), time(0, &["port write", "user space"]))
    {
        said.push(format!(
            "A port write to an ioeventfd takes {}, to user space {}: {}.",
            eventfd.micros(),
            user.micros(),
            match user.may_equal(eventfd) {
                true => "no certain difference".to_string(),
                false => format!("an ioeventfd saves {:.0} % of it", (1.0 - eventfd.value / user.value) * 100.0),
            }
        ));
    }
    if let (Some(none), Some(ioctls), Some(page)) = (
        time(1, &["none"]),
        time(1, &["general registers, by ioctl"]),
        time(1, &["general registers, in the shared page"]),
    ) {
        said.push(format!(
            "Reading and writing the general registers by ioctl adds {} to an exit, through the shared page {}.",
            ioctls.longer_than(none),
            page.longer_than(none)
        ));
    }
    said.extend(findings.tables.get(2).map_or(Vec::new(), |table| lock_sentences(table, findings.manifest.cpus)));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in which a read takes 60 us beside its work, with one vCPU as with many, and one big lock lets so many
    /// do their work at once.
    fn table(at_once: f64) -> FindingsTable {
        let places = LOCKED_WORK_NS.into_iter().flat_map(|work_ns| LOCKED_VCPUS.map(|vcpus| (work_ns, vcpus)));
        let rows = places.flat_map(|(work_ns, vcpus)| {
            LOCKS.map(|(name, lock)| {
                let ns = 60_000.0 + work_ns as f64;
                let free = f64::from(vcpus) * 1e9 / ns;
                let rate = if lock == DeviceLock::Big { free.min(at_once * 1e9 / work_ns as f64) } else { free };
                let rounds = [0.99, 1.0, 1.01].map(|drift| drift * rate);
                let waits = ns * f64::from(vcpus) * if lock == DeviceLock::Big { 1.0 / at_once } else { 0.0 };
                let spread = Some((ns, ns + waits));
                let mut figures = vec![FindingFigure { spread, ..FindingFigure::plain("time", Unit::Nanos, ns) }];
                figures.extend(FindingFigure::of_rounds("accesses", Unit::PerSecond, &rounds));
                FindingRow { labels: locked_labels(work_ns, name, vcpus), figures, ..FindingRow::default() }
            })
        });
        FindingsTable { title: "", labels: Vec::new(), rows: rows.collect() }
    }

    #[test]
    fn the_spread_of_exits_is_said_as_a_scenario_takes_it() {
        let row = |handler: &str, spread| FindingRow {
            labels: vec!["port write".to_string(), handler.to_string()],
            figures: vec![FindingFigure { spread, ..FindingFigure::plain("time", Unit::Nanos, 2_000.0) }],
            ..FindingRow::default()
        };
        let table = |rows| FindingsTable { title: "", labels: Vec::new(), rows };
        let rows = vec![row("kernel", Some((1.0, 2.0))), row("user space", Some((1_900.0, 3_001.0)))];
        let said = spread_sentence(&table(rows)).unwrap();
        let costs = said.split_once("has it: ").and_then(|(_, costs)| costs.strip_suffix('.')).unwrap();
        let scenario =
            exitscope_scenario::Scenario::from_toml(&format!("name = \"x\"\n[costs]\n{costs}\n[[vm]]\nname = \"v\""))
                .unwrap();
        let spread = scenario.costs.exit_spread.unwrap();
        assert_eq!((spread.p5, spread.p95, spread.source.as_str()), (950, 1_501, "lab exits"));
        assert_eq!(spread_sentence(&table(vec![row("user space", None)])), None);
    }

    #[test]
    fn what_one_lock_costs_is_said_for_as_many_vcpus_as_run_at_once() {
        let two = lock_sentences(&table(1.0), 2);
        assert_eq!(two.len(), 5, "{two:?}");
        assert!(two[0].contains("With 1 us") && two[0].contains("2 vCPUs on 2 CPUs get 1.00 to 1.00 times"), "{two:?}");
        assert!(two[2].contains("a read takes 61.0 us") && two[2].contains("taken 2 % of the time"), "{two:?}");
        // 2 vCPUs need 160 us each for 100 us in the lock: 1.25 times as much as one lock lets through.
        assert!(two[3].contains("With 100 us") && two[3].contains("get 1.25 to 1.25 times"), "{two:?}");
        assert!(
            two[4].contains("8 vCPUs") && two[4].contains("1.44ms at most with one big lock, and 160us"),
            "{two:?}"
        );
        let many = lock_sentences(&table(1.0), 9);
        assert!(many[3].contains("8 vCPUs on 9 CPUs get 5.00 to 5.00 times"), "{many:?}");
        let free = lock_sentences(&table(8.0), 8);
        assert!(free[3].ends_with("as with one big lock (within the noise)."), "{free:?}");
        let [one] = &lock_sentences(&table(1.0), 1)[..] else { panic!() };
        assert!(one.contains("takes two CPUs"), "{one}");
    }
}
