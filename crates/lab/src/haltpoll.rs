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

use crate::abi;
use crate::compute_speed::{ComputeSpeed, Computed};
use crate::events::Events;
use crate::exit_account::ExitAccount;
use crate::exits::unsupported_as_row;
use crate::loaded_vm::{LoadedVm, VcpuProgram, repeated};
use crate::measure::MeasurePlan;
use crate::placement::Placement;
use crate::run_loop::{Setup, VcpuRun, parkers, serve};
use crate::session::LabSession;
use crate::stats::vcpu_counters;
use crate::thread_use::ThreadUse;
use crate::{LabError, LabMachine, LabVcpu, Parker, PrivilegeRing, Span, VmConfig, Watch};
use exitscope_model::Event;
use exitscope_policy::Policies;
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, Measured, NOT_MEASURABLE, Unit, counted, noise,
};
use exitscope_scenario::{Op, TimeDistribution};
use exitscope_units::{Nanos, Picos};
use std::time::Duration;

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
    /// The guest; halts block in the run loop, as those of `lab run` do.
    GuestInRunLoop(u64),
    /// The lab's run loop, as KVM would; 0: nobody, but halts block in the run loop.
    RunLoop(u64),
}

impl PollMode {
    fn labels(self) -> Vec<String> {
        let (who, knob) = match self {
            PollMode::Nobody => ("nobody", "halts in KVM".to_string()),
            PollMode::Kvm(ns) => ("KVM", format!("halt_poll_ns={}", Nanos(ns))),
            PollMode::Guest(ns) | PollMode::GuestInRunLoop(ns) => {
                ("the guest", format!("guest_halt_poll_ns={}", Nanos(ns)))
            }
            PollMode::RunLoop(0) => ("nobody", "halts in the run loop".to_string()),
            PollMode::RunLoop(ns) => ("the run loop", format!("halt_poll_ns={}", Nanos(ns))),
        };
        vec![who.to_string(), knob]
    }

    /// Whether halts block in the run loop; otherwise in KVM.
    fn is_in_run_loop(self) -> bool {
        matches!(self, PollMode::RunLoop(_) | PollMode::GuestInRunLoop(_))
    }

    fn is_guests(self) -> bool {
        matches!(self, PollMode::Guest(_) | PollMode::GuestInRunLoop(_))
    }
}

/// A VM of two vCPUs that play.
#[derive(Debug)]
pub struct PingPong {
    polls: PollMode,
    policies: Policies,
    guests: LoadedVm,
    parkers: Vec<Parker>,
    /// For how many nanoseconds each vCPU computes before it gives the ball back, in turn.
    gaps_ns: Vec<u64>,
}

/// What a turn gave.
#[derive(Debug, Default)]
pub struct PingPongTurn {
    /// Round trips.
    pub rounds: u64,
    /// How long they took.
    pub span: Span,
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
    /// What was computed one after the other.
    pub computed: Computed,
    /// Exits to user space.
    pub account: ExitAccount,
    /// The events of each vCPU, if they are kept.
    pub events: Vec<Events>,
}

impl PingPong {
    /// Makes the VM. An error says what KVM cannot do here.
    pub fn new(machine: &LabMachine, polls: PollMode, gap_ns: u64) -> Result<PingPong, LabError> {
        PingPong::tuned(machine, polls, Policies::default(), vec![gap_ns])
    }

    /// The same with other knobs than the defaults, and works of several lengths in turn.
    pub fn tuned(
        machine: &LabMachine,
        polls: PollMode,
        mut policies: Policies,
        gaps_ns: Vec<u64>,
    ) -> Result<PingPong, LabError> {
        let in_run_loop = polls.is_in_run_loop();
        let ring = if in_run_loop { PrivilegeRing::Three } else { machine.ring() };
        let cap = match polls {
            PollMode::Kvm(ns) => ns as u32,
            _ => 0,
        };
        let halt_poll_ns = (!in_run_loop).then_some(cap);
        let config = VmConfig { irqchip: !in_run_loop, halt_poll_ns, ..VmConfig::new(2, ring) };
        match polls {
            PollMode::Guest(ns) | PollMode::GuestInRunLoop(ns) => {
                policies.guest_halt_poll.guest_halt_poll_ns = Nanos(ns)
            }
            PollMode::RunLoop(ns) => policies.host_halt_poll.halt_poll_ns = Nanos(ns),
            PollMode::Nobody | PollMode::Kvm(_) => {}
        }
        Ok(PingPong { polls, policies, guests: LoadedVm::new(machine, config)?, parkers: parkers(2), gaps_ns })
    }

    /// Plays `rounds` round trips.
    pub fn turn(
        &mut self,
        machine: &LabMachine,
        speed: ComputeSpeed,
        rounds: u64,
        pin: bool,
        events: bool,
    ) -> Result<PingPongTurn, LabError> {
        let flags = if self.polls.is_guests() { abi::machine::HALTPOLL } else { 0 };
        let programs = [0, 1].map(|vcpu| {
            let of = |&gap_ns: &u64| player(vcpu, gap_ns);
            VcpuProgram::Scenario(repeated(rounds, self.gaps_ns.iter().flat_map(of).collect()))
        });
        self.parkers = parkers(2);
        self.guests.load(machine, &self.policies, flags, speed, &programs)?;
        let halts_by_bell = self.guests.vm.config().ring == PrivilegeRing::Three;
        let in_run_loop = self.polls.is_in_run_loop();
        let setup = Setup {
            halts_in: (halts_by_bell && !in_run_loop).then_some(&self.guests.vm),
            halt_poll: matches!(self.polls, PollMode::RunLoop(_)).then_some(self.policies.host_halt_poll),
            events,
            ..Setup::new(machine, &self.parkers)
        };
        let placement = Placement::of_threads(machine.places(), 2, pin);
        let before = kvm_polls(&mut self.guests.vcpus);
        let served = Watch::new(TURN_LIMIT).run(&mut self.guests.vcpus, |vcpu, watch| {
            let (served, used) = ThreadUse::of(&placement, vcpu.index() as usize, || serve(vcpu, &setup, watch));
            Ok((served?, used))
        })?;
        let by_kvm =
            kvm_polls(&mut self.guests.vcpus).zip(before).map(|(now, then)| [now[0] - then[0], now[1] - then[1]]);
        Ok(self.take(machine, rounds, served, by_kvm))
    }

    fn take(
        &self,
        machine: &LabMachine,
        rounds: u64,
        served: Vec<(VcpuRun, ThreadUse)>,
        by_kvm: Option<[u64; 2]>,
    ) -> PingPongTurn {
        let pages = [0, 1].map(|vcpu| self.guests.payload.page(vcpu));
        let sum = |of: fn(&abi::VcpuPage) -> u64| pages.iter().map(of).sum::<u64>();
        let span = self.guests.payload.span(machine, 0..2);
        let mut turn = PingPongTurn {
            rounds,
            span,
            halts: sum(|page| page.halts),
            wakes: sum(|page| page.wakes_sent),
            spared: sum(|page| page.ipis_spared),
            computed: Computed { chain: self.guests.payload.chain(0..2), span },
            ..PingPongTurn::default()
        };
        let mut by_run_loop = [0; 2];
        for (part, used) in served {
            turn.account.merge(&part.account);
            turn.events.push(part.events);
            turn.cpu += used.cpu;
            turn.sleeps += used.sleeps;
            (0..2).for_each(|at| by_run_loop[at] += part.polls[at]);
        }
        turn.polls = match self.polls {
            PollMode::Guest(_) | PollMode::GuestInRunLoop(_) => {
                Some([sum(|page| page.polls), sum(|page| page.polls_paid)])
            }
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

/// What one of the two does for a round trip.
pub(crate) fn player(vcpu: u32, gap_ns: u64) -> Vec<Op> {
    let work = Op::Compute(TimeDistribution::Fixed(Picos::from_nanos(gap_ns)));
    match vcpu {
        0 => vec![work, Op::Ipi(1), Op::AwaitIpi, Op::Count],
        _ => vec![Op::AwaitIpi, work, Op::Ipi(0)],
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
pub(crate) struct Played {
    game: PingPong,
    /// Round trips that fit into a turn.
    fit: u64,
    rounds: Vec<PingPongTurn>,
    events: Vec<Events>,
}

const ROUND_TRIPS: Measured<PingPongTurn> =
    Measured::new("round trips", Unit::PerSecond, |turn| Some(turn.span.rate(turn.rounds)));

const FIGURES: [Measured<PingPongTurn>; 5] = [
    Measured::new("CPU each", Unit::Nanos, |turn| Some(each(turn, turn.cpu.as_nanos() as f64))),
    Measured::new("halts each", Unit::Count, |turn| Some(each(turn, turn.halts as f64))),
    Measured::new("wake-ups each", Unit::Count, |turn| Some(each(turn, turn.wakes as f64))),
    Measured::new("sleeps each", Unit::Count, |turn| Some(each(turn, turn.sleeps as f64))),
    Measured::new("polls each", Unit::Count, |turn| turn.polls.map(|polls| each(turn, polls[0] as f64))),
];

/// For each round trip.
fn each(turn: &PingPongTurn, count: f64) -> f64 {
    count / turn.rounds as f64
}

impl Played {
    /// Makes the game, and finds out how long a round trip takes; or says what KVM cannot do here.
    pub fn new(session: &LabSession, polls: PollMode, gap_ns: u64) -> Result<Result<Played, String>, LabError> {
        let (machine, plan) = (session.machine(), session.plan());
        let made = PingPong::new(machine, polls, gap_ns).and_then(|mut game| {
            let turn = game.turn(machine, session.speed(), FIRST_TURN, plan.pin, false)?;
            let each = turn.span.seconds() / FIRST_TURN as f64;
            let fit = ((plan.turn().as_secs_f64() / each.max(1e-6)) as u64).max(FIRST_TURN);
            Ok(Played { game, fit, rounds: Vec::new(), events: Vec::new() })
        });
        made.map_or_else(|error| unsupported_as_row(error).map(Err), |played| Ok(Ok(played)))
    }

    /// Plays a turn; that of a round is kept.
    pub fn turn(&mut self, session: &mut LabSession, round: Option<u32>, events: bool) -> Result<(), LabError> {
        let (machine, pin) = (session.machine(), session.plan().pin);
        let mut turn = session.possible("both vCPUs", |speed| {
            let turn = self.game.turn(machine, speed, self.fit, pin, events)?;
            let computed = turn.computed;
            Ok((turn, computed))
        })?;
        if events {
            self.events = std::mem::take(&mut turn.events);
        }
        if round.is_some() {
            self.rounds.push(turn);
        }
        Ok(())
    }

    /// Round trips a second of the last turn that was kept.
    pub fn last_rate(&self) -> f64 {
        self.rounds.last().map_or(0.0, |turn| turn.span.rate(turn.rounds))
    }

    /// The row of this game, and how many times as many round trips as the first game has, where each of `choices` may be
    /// named as the best.
    fn row(&self, labels: Vec<String>, first: &Played, choices: usize) -> FindingRow {
        let figures = ROUND_TRIPS.figure(&self.rounds).into_iter().collect();
        let mut row = FindingRow { labels, figures, ..FindingRow::default() };
        if !std::ptr::eq(self, first) {
            let ratios = ROUND_TRIPS.ratios(&self.rounds, &first.rounds);
            row.add_unless_open(FindingFigure::of_ratios(TIMES, &ratios, choices));
        }
        row.figures.extend(FIGURES.iter().filter_map(|figure| figure.figure(&self.rounds)));
        let polls: Vec<(u64, u64)> =
            self.rounds.iter().filter_map(|turn| turn.polls.map(|of| (of[1], of[0]))).collect();
        row.add_unless_open(FindingFigure::of_counts("polls that paid", &polls));
        row
    }
}

/// The figure of how many times as many round trips a row has as the first, in which nobody polls.
const TIMES: &str = "times no polls";

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut session = LabSession::new(machine, plan, true)?;
    let ways: Vec<PollMode> = [PollMode::Nobody]
        .into_iter()
        .chain(KNOBS.map(PollMode::Kvm))
        .chain(KNOBS.map(PollMode::Guest))
        .chain([PollMode::RunLoop(0)])
        .chain(KNOBS.map(PollMode::RunLoop))
        .collect();
    let mut games = Vec::new();
    for (gap, _) in GAPS {
        for &polls in &ways {
            games.push(Played::new(&session, polls, gap)?);
        }
    }
    session.take_turns(games.len(), |session, round, at| {
        let keep = keep_events && session.is_last(round);
        if let Ok(played) = &mut games[at]
            && let Err(why) = played.turn(session, round, keep)
        {
            games[at] = Err(unsupported_as_row(why)?);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "haltpoll",
        "Two vCPUs play ping-pong and halt between: who polls before the halt, and how long at most",
    )?;
    findings.warnings.extend(limits(machine));
    for (games, (gap, title)) in games.chunks(ways.len()).zip(GAPS) {
        let rows = ways.iter().zip(games).map(|(polls, game)| match (game, &games[0]) {
            (Ok(played), Ok(first)) => played.row(polls.labels(), first, ways.len() - 1),
            (Err(why), _) | (_, Err(why)) => {
                FindingRow { labels: polls.labels(), cannot: Some(why.clone()), ..FindingRow::default() }
            }
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
    let said =
        format!("With {} between balls, {} round trips a second without polling", Nanos(gap), base.with_margin(1.0, 0));
    let (who, knob) = (&best.labels[0], &best.labels[1]);
    let Some(times) = best.figure(TIMES) else {
        let open = best.not_measurable.contains(&TIMES);
        return Some(match open {
            true => format!("{said}; whether any way of polling has more is {NOT_MEASURABLE}."),
            false => format!("{said}, and no way of polling has more."),
        });
    };
    if times.may_be(1.0) {
        return Some(format!(
            "{said}; no way of polling has more for certain: the most, when {who} polls ({knob}), is {} times as many, as a 95 % \
             interval that allows for the choice.",
            times.between()
        ));
    }
    let (cpu, cpu_base) = (best.figure("CPU each")?, none.figure("CPU each")?);
    let mut said = format!(
        "{said}; the most, {}, when {who} polls ({knob}): {} times as many, as a 95 % interval that allows for the choice, with \
         {:+.0} % CPU time each{} and {:.2} instead of {:.2} wake-ups that need an exit or an interrupt.",
        most.with_margin(1.0, 0),
        times.between(),
        (cpu.value / cpu_base.value.max(1.0) - 1.0) * 100.0,
        noise(cpu.may_equal(cpu_base)),
        best.figure("wake-ups each")?.value,
        none.figure("wake-ups each")?.value,
    );
    if !alike.is_empty() {
        let rows = counted(alike.len() as u64, "other row");
        said += &format!(" Within the noise of that: {rows}.");
    }
    Some(said)
}
