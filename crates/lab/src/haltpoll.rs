//! `lab haltpoll`: two vCPUs play ping-pong and halt between: who polls before the halt, how long, and what that wins and
//! burns.
//!
//! ```text
//! vCPU 0: compute ─► ball ─► (poll) halt ───────────────────────► woken ─► compute ─► …
//! vCPU 1:              └► (poll) woken ─► compute ─► ball ─► halt   ▲
//!                                                      └────────────┘
//! ```
//!
//! Nobody polls; the guest (its governor); KVM, capped for each VM; or the lab's own run loop, as KVM would (the same
//! policy), for halts that are doorbells.

use crate::abi::{self, ProgramStep, op};
use crate::events::Events;
use crate::exit_account::ExitAccount;
use crate::exits::unsupported_as_row;
use crate::loaded_vm::{ComputeGauge, LoadedVm, repeat, thread_usage};
use crate::machine::pin_to;
use crate::measure::{MeasurePlan, Noise, machine_warnings, manifest, take_turns};
use crate::run_loop::{Setup, VcpuRun, parkers, serve};
use crate::stats::vcpu_counters;
use crate::{LabError, LabMachine, LabVcpu, Parker, PrivilegeRing, VmConfig, Watch, step};
use exitscope_model::Event;
use exitscope_policy::Policies;
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, Measured, Unit, counted, noise,
};
use exitscope_units::Nanos;
use std::time::{Duration, Instant};

/// How long each vCPU computes before it gives the ball back, about as long as the other one is idle: once within the
/// reach of most polls, once beyond that of the defaults.
const GAPS: [(u64, &str); 2] =
    [(20_000, "Ping-pong, 20 us of work between balls"), (300_000, "Ping-pong, 300 us of work between balls")];

/// The longest polls that are tried.
const KNOBS: [u64; 3] = [50_000, 200_000, 800_000];

/// A turn that takes longer has gone astray.
const TURN_LIMIT: Duration = Duration::from_secs(20);

/// Round trips of the first turn, which tells how long one takes.
const FIRST_TURN: u64 = 20;

/// Who polls before a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Nobody; halts block in KVM.
    Nobody,
    /// KVM, at most so many nanoseconds.
    Kvm(u64),
    /// The guest.
    Guest(u64),
    /// The lab's run loop, as KVM would; 0: nobody, but halts block in the run loop.
    RunLoop(u64),
}

impl PollMode {
    fn labels(self) -> Vec<String> {
        let (who, knob) = match self {
            PollMode::Nobody => ("nobody", "halts in KVM".to_string()),
            PollMode::Kvm(ns) => ("KVM", format!("halt_poll_ns={}", Nanos(ns))),
            PollMode::Guest(ns) => ("the guest", format!("guest_halt_poll_ns={}", Nanos(ns))),
            PollMode::RunLoop(0) => ("nobody", "halts in the run loop".to_string()),
            PollMode::RunLoop(ns) => ("the run loop", format!("halt_poll_ns={}", Nanos(ns))),
        };
        vec![who.to_string(), knob]
    }
}

/// A VM of two vCPUs that play.
#[derive(Debug)]
pub struct PingPong {
    polls: PollMode,
    policies: Policies,
    guests: LoadedVm,
    parkers: Vec<Parker>,
    /// What each vCPU computes before it gives the ball back, in turn.
    work: Vec<ProgramStep>,
}

/// What a turn gave.
#[derive(Debug, Default)]
pub struct PingPongTurn {
    /// Round trips.
    pub rounds: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// Halts of both vCPUs, each an exit.
    pub halts: u64,
    /// Wake-ups of a vCPU that polled, which needed none.
    pub spared: u64,
    /// Wake-ups that needed an exit or an interrupt; the other one polled in the guest, or was not yet idle, otherwise.
    pub wakes: u64,
    /// Polls before a halt, and those that paid. `None`: this KVM does not count its own.
    pub polls: Option<[u64; 2]>,
    /// How often a vCPU's thread really slept.
    pub sleeps: u64,
    /// CPU time of both threads.
    pub cpu: Duration,
    /// Passes of both vCPUs' compute loops, one after the other.
    pub passes: u64,
    /// Exits to user space.
    pub account: ExitAccount,
    /// The events of each vCPU, if they are kept.
    pub events: Vec<Events>,
}

impl PingPong {
    /// Makes the VM. An error says what KVM cannot do here.
    pub fn new(machine: &LabMachine, polls: PollMode, work: ProgramStep) -> Result<PingPong, LabError> {
        PingPong::tuned(machine, polls, Policies::default(), vec![work])
    }

    /// The same with other knobs than the defaults, and more than one work in turn.
    pub fn tuned(
        machine: &LabMachine,
        polls: PollMode,
        mut policies: Policies,
        work: Vec<ProgramStep>,
    ) -> Result<PingPong, LabError> {
        let in_run_loop = matches!(polls, PollMode::RunLoop(_));
        let ring = if in_run_loop { PrivilegeRing::Three } else { machine.ring() };
        let cap = match polls {
            PollMode::Kvm(ns) => ns as u32,
            PollMode::Nobody | PollMode::Guest(_) | PollMode::RunLoop(_) => 0,
        };
        let halt_poll_ns = (!in_run_loop).then_some(cap);
        let config = VmConfig { irqchip: !in_run_loop, halt_poll_ns, ..VmConfig::new(2, ring) };
        match polls {
            PollMode::Guest(ns) => policies.guest_halt_poll.guest_halt_poll_ns = Nanos(ns),
            PollMode::RunLoop(ns) => policies.host_halt_poll.halt_poll_ns = Nanos(ns),
            PollMode::Nobody | PollMode::Kvm(_) => {}
        }
        Ok(PingPong { polls, policies, guests: LoadedVm::new(machine, config)?, parkers: parkers(2), work })
    }

    /// Plays `rounds` round trips.
    pub fn turn(
        &mut self,
        machine: &LabMachine,
        rounds: u64,
        pin: bool,
        events: bool,
    ) -> Result<PingPongTurn, LabError> {
        let flags = if matches!(self.polls, PollMode::Guest(_)) { abi::machine::HALTPOLL } else { 0 };
        let programs = [0, 1].map(|vcpu| {
            let receive = ProgramStep { a: abi::ipi_box(vcpu), ..step(op::RECEIVE) };
            let send = ProgramStep { a: abi::ipi_box(1 - vcpu), ..step(op::SEND) };
            let turn = |&work: &ProgramStep| match vcpu {
                0 => [work, send, receive],
                _ => [receive, work, send],
            };
            repeat(rounds, &self.work.iter().flat_map(turn).collect::<Vec<_>>())
        });
        self.parkers = parkers(2);
        self.guests.load(machine, &self.policies, flags, &programs)?;
        let halts_by_bell = self.guests.vm.config().ring == PrivilegeRing::Three;
        let in_run_loop = matches!(self.polls, PollMode::RunLoop(_));
        let setup = Setup {
            halts_in: (halts_by_bell && !in_run_loop).then_some(&self.guests.vm),
            halt_poll: in_run_loop.then_some(self.policies.host_halt_poll),
            events,
            ..Setup::new(machine, &self.parkers)
        };
        let cpus = (pin && machine.cpus.len() >= 2).then_some(&machine.cpus);
        let before = kvm_polls(&mut self.guests.vcpus);
        let served = Watch::new(TURN_LIMIT).run(&mut self.guests.vcpus, |vcpu, watch| {
            if let Some(cpus) = cpus {
                pin_to(cpus[vcpu.index() as usize]);
            }
            let before = thread_usage();
            let served = serve(vcpu, &setup, watch)?;
            let after = thread_usage();
            Ok((served, after.0.saturating_sub(before.0), after.1 - before.1))
        })?;
        let by_kvm =
            kvm_polls(&mut self.guests.vcpus).zip(before).map(|(now, then)| [now[0] - then[0], now[1] - then[1]]);
        Ok(self.take(machine, rounds, served, by_kvm))
    }

    fn take(
        &self,
        machine: &LabMachine,
        rounds: u64,
        served: Vec<(VcpuRun, Duration, u64)>,
        by_kvm: Option<[u64; 2]>,
    ) -> PingPongTurn {
        let pages = [0, 1].map(|vcpu| self.guests.payload.page(vcpu));
        let sum = |of: fn(&abi::VcpuPage) -> u64| pages.iter().map(of).sum::<u64>();
        let begin = pages.iter().map(|page| page.begin_tsc).min().unwrap_or(0);
        let end = pages.iter().map(|page| page.end_tsc).max().unwrap_or(0);
        let mut turn = PingPongTurn {
            rounds,
            elapsed: Duration::from_nanos(machine.ns_in(end.saturating_sub(begin) as f64) as u64),
            halts: sum(|page| page.halts),
            wakes: sum(|page| page.wakes_sent),
            spared: sum(|page| page.ipis_spared),
            passes: sum(|page| page.passes),
            ..PingPongTurn::default()
        };
        let mut by_run_loop = [0; 2];
        for (part, cpu, sleeps) in served {
            turn.account.merge(&part.account);
            turn.events.push(part.events);
            turn.cpu += cpu;
            turn.sleeps += sleeps;
            (0..2).for_each(|at| by_run_loop[at] += part.polls[at]);
        }
        turn.polls = match self.polls {
            PollMode::Guest(_) => Some([sum(|page| page.polls), sum(|page| page.polls_paid)]),
            PollMode::RunLoop(_) => Some(by_run_loop),
            PollMode::Nobody | PollMode::Kvm(_) => by_kvm,
        };
        turn
    }

    /// The programs, after a turn: their counts.
    pub fn payload(&self) -> &crate::Payload {
        &self.guests.payload
    }
}

/// How often KVM has polled for these vCPUs, and how often that paid.
pub(crate) fn kvm_polls(vcpus: &mut [LabVcpu]) -> Option<[u64; 2]> {
    vcpus.iter_mut().try_fold([0; 2], |sum, vcpu| {
        let [polled, paid] = vcpu_counters(vcpu, ["halt_attempted_poll", "halt_successful_poll"])?;
        Some([sum[0] + polled, sum[1] + paid])
    })
}

/// A game and what its rounds gave.
struct Played {
    game: PingPong,
    /// Round trips that fit into a turn.
    fit: u64,
    rounds: Vec<PingPongTurn>,
    events: Vec<Events>,
}

const ROUND_TRIPS: Measured<PingPongTurn> = Measured::new("round trips", Unit::PerSecond, |turn| {
    Some(turn.rounds as f64 / turn.elapsed.as_secs_f64().max(1e-9))
});

const FIGURES: [Measured<PingPongTurn>; 6] = [
    Measured::new("CPU each", Unit::Nanos, |turn| Some(each(turn, turn.cpu.as_nanos() as f64))),
    Measured::new("halts each", Unit::Count, |turn| Some(each(turn, turn.halts as f64))),
    Measured::new("wake-ups each", Unit::Count, |turn| Some(each(turn, turn.wakes as f64))),
    Measured::new("sleeps each", Unit::Count, |turn| Some(each(turn, turn.sleeps as f64))),
    Measured::new("polls each", Unit::Count, |turn| turn.polls.map(|polls| each(turn, polls[0] as f64))),
    Measured::new("polls that paid", Unit::Share, |turn| {
        turn.polls.filter(|polls| polls[0] > 0).map(|polls| polls[1] as f64 / polls[0] as f64)
    }),
];

/// For each round trip.
fn each(turn: &PingPongTurn, count: f64) -> f64 {
    count / turn.rounds as f64
}

impl Played {
    fn new(
        machine: &LabMachine,
        plan: &MeasurePlan,
        polls: PollMode,
        work: ProgramStep,
    ) -> Result<Result<Played, String>, LabError> {
        let made = PingPong::new(machine, polls, work).and_then(|mut game| {
            let turn = game.turn(machine, FIRST_TURN, plan.pin, false)?;
            let each = turn.elapsed.as_secs_f64() / FIRST_TURN as f64;
            let fit = ((plan.turn().as_secs_f64() / each.max(1e-6)) as u64).max(FIRST_TURN);
            Ok(Played { game, fit, rounds: Vec::new(), events: Vec::new() })
        });
        made.map_or_else(|error| unsupported_as_row(error).map(Err), |played| Ok(Ok(played)))
    }

    fn turn(
        &mut self,
        machine: &LabMachine,
        plan: &MeasurePlan,
        round: Option<u32>,
        events: bool,
    ) -> Result<(), LabError> {
        let mut turn = self.game.turn(machine, self.fit, plan.pin, events)?;
        if events {
            self.events = std::mem::take(&mut turn.events);
        }
        if round.is_some() {
            self.rounds.push(turn);
        }
        Ok(())
    }

    fn rate(&self) -> f64 {
        ROUND_TRIPS.values(&self.rounds).iter().sum::<f64>() / self.rounds.len().max(1) as f64
    }

    fn row(&self, labels: Vec<String>, best: f64) -> FindingRow {
        let of_best = FindingFigure::plain("of the best", Unit::Share, self.rate() / best.max(1e-9));
        let trips = ROUND_TRIPS.figure(&self.rounds).into_iter().chain([of_best]);
        let figures = trips.chain(FIGURES.iter().filter_map(|figure| figure.figure(&self.rounds))).collect();
        FindingRow { labels, figures, ..FindingRow::default() }
    }
}

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut gauge = ComputeGauge::new(machine, PrivilegeRing::Three)?;
    let ways: Vec<PollMode> = [PollMode::Nobody]
        .into_iter()
        .chain(KNOBS.map(PollMode::Kvm))
        .chain(KNOBS.map(PollMode::Guest))
        .chain([PollMode::RunLoop(0)])
        .chain(KNOBS.map(PollMode::RunLoop))
        .collect();
    let (began, noise) = (Instant::now(), Noise::now());
    let mut games = Vec::new();
    for (gap, _) in GAPS {
        for &polls in &ways {
            games.push(Played::new(machine, plan, polls, gauge.now().step(gap))?);
        }
    }
    let last = plan.rounds.checked_sub(1);
    let mut measured = None;
    take_turns(plan, games.len(), |round, at| {
        // Before each round anew, so that a ball takes as long in every one.
        if measured != Some(round) {
            gauge.again(machine)?;
            measured = Some(round);
        }
        if let Ok(played) = &mut games[at] {
            played.game.work = vec![gauge.now().step(GAPS[at / ways.len()].0)];
        }
        if let Ok(played) = &mut games[at]
            && let Err(why) = played.turn(machine, plan, round, keep_events && round == last)
        {
            games[at] = Err(unsupported_as_row(why)?);
        }
        Ok(())
    })?;
    gauge.again(machine)?;
    for turn in games.iter().flatten().flat_map(|played| &played.rounds) {
        gauge.check(machine, "both vCPUs, one after the other,", turn.passes, turn.elapsed)?;
    }
    let mut findings = Findings {
        experiment: "haltpoll",
        description: "Two vCPUs play ping-pong and halt between: who polls before the halt, and how long at most",
        manifest: manifest(machine, plan, plan.pin && machine.cpus.len() >= 2),
        warnings: machine_warnings(machine),
        ..Findings::default()
    };
    findings.warnings.extend(noise.warnings(began.elapsed(), machine.cpus.len()));
    findings.warnings.extend(gauge.warning());
    findings.warnings.extend(limits(machine));
    for (games, (gap, title)) in games.chunks(ways.len()).zip(GAPS) {
        let best = games.iter().flatten().map(Played::rate).fold(0.0, f64::max);
        let rows = ways.iter().zip(games).map(|(polls, game)| match game {
            Ok(played) => played.row(polls.labels(), best),
            Err(why) => FindingRow { labels: polls.labels(), cannot: Some(why.clone()), ..FindingRow::default() },
        });
        let table = FindingsTable { title, labels: vec!["polls", "knob"], rows: rows.collect() };
        findings.summary.extend(summary(gap, &table));
        findings.tables.push(table);
    }
    findings.summary.push(
        "A halt and a wake-up take an exit each (or an interrupt). A successful poll of the guest needs neither; a \
         successful poll of the host only saves its thread the sleep."
            .to_string(),
    );
    let events = games.into_iter().flatten().flat_map(|played| played.events).collect();
    Ok((findings, Events::merge(events)))
}

/// What cannot be shown here as it would be elsewhere.
fn limits(machine: &LabMachine) -> Vec<String> {
    let mut said = Vec::new();
    if machine.emulates_ring_0 {
        said.push(
            "guests run in ring 3 here, where there is no HLT: they halt by a doorbell, after which the run loop enters \
             KVM in the halted state, so that KVM's own halt and polling follow; the doorbell's exit comes on top"
                .to_string(),
        );
    }
    if machine.cpus.len() < 2 {
        said.push("with one CPU, a poll only keeps the other vCPU from running: no polling can pay here".to_string());
    }
    said
}

/// The main point of a table in words.
fn summary(gap: u64, table: &FindingsTable) -> Option<String> {
    let none = table.rows.first()?;
    let (best, alike) = table.largest("round trips")?;
    let (most, base) = (best.figure("round trips")?, none.figure("round trips")?);
    let mut said =
        format!("With {} between balls, {} round trips a second without polling", Nanos(gap), base.with_margin(1.0, 0));
    let (who, knob) = (&best.labels[0], &best.labels[1]);
    if std::ptr::eq(best, none) {
        said += ", and no way of polling has more.";
    } else if most.may_equal(base) {
        said += &format!(
            "; no way of polling has more for certain: the most, {}, when {who} polls ({knob}), is within the noise.",
            most.with_margin(1.0, 0)
        );
    } else {
        let (cpu, cpu_base) = (best.figure("CPU each")?, none.figure("CPU each")?);
        said += &format!(
            "; the most, {}, when {who} polls ({knob}): {:+.0} %, with {:+.0} % CPU time each{} and {:.2} instead of {:.2} \
             wake-ups that need an exit or an interrupt.",
            most.with_margin(1.0, 0),
            (most.value / base.value - 1.0) * 100.0,
            (cpu.value / cpu_base.value.max(1.0) - 1.0) * 100.0,
            noise(cpu.may_equal(cpu_base)),
            best.figure("wake-ups each")?.value,
            none.figure("wake-ups each")?.value,
        );
        if !alike.is_empty() {
            let rows = counted(alike.len() as u64, "other row");
            said += &format!(" Within the noise of that: {rows}.");
        }
    }
    Some(said)
}
