//! `lab gang`: what the exits of one vCPU cost its siblings when all of a virtual core leave together: a compute loop alone,
//! beside a spin loop, beside exits; virtual cores of 1, 2 and 4 vCPUs.
//!
//! ```text
//! width 1: [0: computes] [1: neighbour]      width 2: [0: computes, 1: neighbour]      width 4: [0, 1, 2: naps, 3: naps]
//! ```

use crate::abi::{ProgramStep, op};
use crate::compute_speed::{ComputeSpeed, Computed};
use crate::events::Events;
use crate::exit_account::LabExitReason;
use crate::loaded_vm::{LoadedVm, VcpuProgram, repeat, repeated};
use crate::measure::MeasurePlan;
use crate::session::LabSession;
use crate::vcores::{self, GangConfig, Ganged};
use crate::{LabError, LabMachine, PrivilegeRing, VmConfig, Watch, step};
use exitscope_model::Event;
use exitscope_policy::{Policies, vcore};
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, Measured, NOT_MEASURABLE, Unit, counted, noise,
};
use exitscope_scenario::{Op, TimeDistribution};
use exitscope_units::Picos;
use std::time::Duration;

/// vCPUs of a virtual core.
const WIDTHS: [u32; 3] = [1, 2, 4];
/// The port that the neighbours read.
const PORT: u16 = 0x10;
/// How long the neighbours compute between two exits, where they are not in a storm.
const BETWEEN_NS: u64 = 500_000;
/// How long a round of the compute loop takes undisturbed, about.
const ROUND_NS: u64 = 5_000;
/// A turn that takes longer has gone astray.
const TURN_LIMIT: Duration = Duration::from_secs(20);

/// What the neighbours of the computing vCPU do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingLoad {
    /// They halt at once.
    Idle,
    /// They spin.
    Spin,
    /// They read a port every half millisecond.
    Exits,
    /// They read a port again and again.
    Storm,
}

impl SiblingLoad {
    /// All.
    pub const ALL: [SiblingLoad; 4] = [SiblingLoad::Idle, SiblingLoad::Spin, SiblingLoad::Exits, SiblingLoad::Storm];

    /// A round of the neighbours' program, if scenarios have one for it.
    pub(crate) fn neighbour(self) -> Option<Vec<Op>> {
        match self {
            SiblingLoad::Idle | SiblingLoad::Spin => None,
            SiblingLoad::Exits => Some(reader(Some(BETWEEN_NS))),
            SiblingLoad::Storm => Some(reader(None)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            SiblingLoad::Idle => "nobody",
            SiblingLoad::Spin => "a spin loop",
            SiblingLoad::Exits => "an exit every 500 us",
            SiblingLoad::Storm => "an exit storm",
        }
    }
}

/// What a turn gave.
#[derive(Clone, Debug, Default)]
pub struct GangTurn {
    /// What the virtual cores did; it counted the rounds of vCPU 0's compute loop.
    pub ganged: Ganged,
    /// What was computed one after the other.
    pub computed: Computed,
}

/// A guest whose vCPUs are grouped.
#[derive(Debug)]
pub struct GangGuest {
    guests: LoadedVm,
    /// Neighbours that are not idle, at most.
    active: u32,
}

impl GangGuest {
    /// Makes the VM.
    pub fn new(machine: &LabMachine) -> Result<GangGuest, LabError> {
        let config = VmConfig { irqchip: false, ..VmConfig::new(WIDTHS[WIDTHS.len() - 1], PrivilegeRing::Three) };
        let active = (machine.cpus.len() as u32).saturating_sub(1).max(1);
        Ok(GangGuest { guests: LoadedVm::new(machine, config)?, active })
    }

    /// Runs virtual cores as `case` has them for `length`; or, with `rounds` (more than 0), until each vCPU has done as many rounds of
    /// its program.
    pub fn turn(
        &mut self,
        machine: &LabMachine,
        speed: ComputeSpeed,
        case: &GangCase,
        rounds: u64,
        length: Duration,
    ) -> Result<GangTurn, LabError> {
        let neighbour = match (case.beside.neighbour(), case.beside) {
            (Some(body), _) => VcpuProgram::Scenario(repeated(rounds, body)),
            (None, SiblingLoad::Spin) => {
                VcpuProgram::Steps(repeat(rounds, &[ProgramStep { b: 100, ..step(op::PAUSE) }]))
            }
            (None, _) => VcpuProgram::Steps(vec![step(op::HALT)]),
        };
        let vcpus = case.width.max(2);
        let programs: Vec<VcpuProgram> = (0..vcpus)
            .map(|vcpu| match vcpu {
                0 => VcpuProgram::Scenario(repeated(rounds, computer())),
                _ if vcpu <= self.active => neighbour.clone(),
                _ => VcpuProgram::Steps(vec![step(op::HALT)]),
            })
            .collect();
        self.guests.load(machine, &Policies::default(), 0, speed, &programs)?;
        let working = if case.beside == SiblingLoad::Idle { 1 } else { self.active.min(vcpus - 1) as usize + 1 };
        let config = GangConfig {
            params: vcore::Params { smt_mode: case.width, ..vcore::Params::default() },
            working,
            stop_after: (rounds == 0).then_some(length),
            pin: case.pin,
            events: case.events,
        };
        let LoadedVm { payload, vcpus: all, .. } = &mut self.guests;
        let ganged = vcores::run(machine, payload, &mut all[..vcpus as usize], &config, &Watch::new(TURN_LIMIT))?;
        // Of vCPU 0, what it had computed when it was told to stop.
        let computed = Computed { chain: ganged.counted * speed.step(ROUND_NS).b, span: ganged.span };
        Ok(GangTurn { ganged, computed })
    }
}

/// What runs in a turn.
#[derive(Clone, Copy, Debug)]
pub struct GangCase {
    /// vCPUs of a virtual core.
    pub width: u32,
    /// What the computing vCPU's neighbours do.
    pub beside: SiblingLoad,
    /// Whether vCPUs that work are kept on a CPU each.
    pub pin: bool,
    /// Whether events are kept.
    pub events: bool,
}

/// A round of the vCPU that computes.
pub(crate) fn computer() -> Vec<Op> {
    vec![compute(ROUND_NS), Op::Count]
}

/// A round of a neighbour that reads a port, after it has computed for so long.
fn reader(between_ns: Option<u64>) -> Vec<Op> {
    let read = Op::Port { port: PORT, size: 1, write: false, string: false };
    between_ns.map(compute).into_iter().chain([read]).collect()
}

fn compute(ns: u64) -> Op {
    Op::Compute(TimeDistribution::Fixed(Picos::from_nanos(ns)))
}

const ROUNDS: Measured<GangTurn> =
    Measured::new("rounds", Unit::PerSecond, |turn| Some(turn.ganged.span.rate(turn.ganged.counted)));

const FIGURES: [Measured<GangTurn>; 5] = [
    Measured::new("gang exits", Unit::PerSecond, |turn| Some(rate(turn, turn.ganged.gangs.ganged))),
    Measured::new("forced exits", Unit::PerSecond, |turn| Some(rate(turn, turn.ganged.gangs.forced))),
    Measured::new("own exits", Unit::PerSecond, |turn| {
        let reads = turn.ganged.accounts.iter().map(|account| account.count(LabExitReason::PortIn)).sum();
        Some(rate(turn, reads))
    }),
    Measured::new("forced out", Unit::Share, |turn| Some(outside(turn) / turn.ganged.span.seconds())),
    Measured::new("for each gang exit", Unit::Nanos, |turn| {
        let gangs = turn.ganged.gangs.ganged;
        (gangs > 0).then(|| outside(turn) * 1e9 / gangs as f64)
    }),
];

fn rate(turn: &GangTurn, count: u64) -> f64 {
    turn.ganged.span.rate(count)
}

/// How long the computing vCPU was not in the guest though it had no reason of its own, in seconds.
fn outside(turn: &GangTurn) -> f64 {
    turn.ganged.outside.first().map_or(0.0, Duration::as_secs_f64)
}

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut group = GangGuest::new(machine)?;
    let mut session = LabSession::new(machine, plan, true)?;
    let cases: Vec<(u32, SiblingLoad)> =
        WIDTHS.into_iter().flat_map(|width| SiblingLoad::ALL.map(|beside| (width, beside))).collect();
    let mut rounds: Vec<Vec<GangTurn>> = cases.iter().map(|_| Vec::new()).collect();
    let mut events = Vec::new();
    session.take_turns(cases.len(), |session, round, at| {
        let ((width, beside), keep) = (cases[at], keep_events && session.is_last(round));
        let case = GangCase { width, beside, pin: plan.pin, events: keep };
        let mut turn = session.possible("the compute loop", |speed| {
            let turn = group.turn(machine, speed, &case, 0, plan.turn())?;
            let computed = turn.computed;
            Ok((turn, computed))
        })?;
        if keep {
            events.append(&mut turn.ganged.events);
        }
        if round.is_some() {
            rounds[at].push(turn);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "gang",
        "vCPUs of a virtual core enter and leave the guest together: what the exits of one cost another that computes",
    )?;
    findings.warnings.push(
        "the hardware threads of the virtual cores are host threads, which share no core: how much threads of one \
         core slow each other down is not shown, and a kick is a signal, which takes longer than an interrupt between \
         hardware threads"
            .to_string(),
    );
    if group.active + 1 < WIDTHS[WIDTHS.len() - 1] {
        findings.warnings.push(format!(
            "this machine has {}: of a virtual core of 4, {} vCPUs work and the others nap, as more would only share CPUs",
            counted(machine.cpus.len() as u64, "CPU"),
            group.active + 1
        ));
    }
    let table = table(&cases, &rounds);
    findings.summary = summary(&table);
    findings.tables.push(table);
    Ok((findings, Events::merge(events)))
}

fn table(cases: &[(u32, SiblingLoad)], rounds: &[Vec<GangTurn>]) -> FindingsTable {
    let in_table = SiblingLoad::ALL.len();
    let rows = cases.iter().zip(rounds).enumerate().map(|(at, (&(width, beside), own))| {
        let alone = &rounds[at - at % in_table];
        let labels = vec![width.to_string(), beside.name().to_string()];
        let mut row = FindingRow { labels, figures: ROUNDS.figure(own).into_iter().collect(), ..FindingRow::default() };
        if beside != SiblingLoad::Idle {
            row.add_unless_open(FindingFigure::of_ratios("times alone", &ROUNDS.ratios(own, alone), 1));
        }
        FIGURES.iter().for_each(|figure| row.add_unless_open(figure.figure(own)));
        row
    });
    FindingsTable {
        title: "A compute loop, by its neighbours",
        labels: vec!["vCPUs a vcore", "beside"],
        rows: rows.collect(),
    }
}

/// The main points in words.
fn summary(table: &FindingsTable) -> Vec<String> {
    let figure = |width: u32, beside: SiblingLoad, name: &str| {
        let labels = [width.to_string(), beside.name().to_string()];
        table.rows.iter().find(|row| row.labels == labels)?.figure(name)
    };
    let of = |width, beside| match figure(width, beside, "times alone") {
        Some(times) => format!("{} times{}", times.between(), noise(times.may_be(1.0))),
        None => NOT_MEASURABLE.to_string(),
    };
    let sentence = |beside: SiblingLoad| {
        Some(format!(
            "Beside {}, the compute loop has, as 95 % intervals, {} its throughput alone where each vCPU is a virtual core of its \
             own, {} in a virtual core of 2 ({:.0} gang exits a second, {:.0} % of its time forced out), {} in one of \
             4.",
            beside.name(),
            of(1, beside),
            of(2, beside),
            figure(2, beside, "gang exits")?.value,
            figure(2, beside, "forced out")?.value * 100.0,
            of(4, beside),
        ))
    };
    let mut said: Vec<String> =
        [SiblingLoad::Spin, SiblingLoad::Exits, SiblingLoad::Storm].into_iter().filter_map(sentence).collect();
    said.push(
        "rounds: of the compute loop, about 5 us each if nothing disturbs it; forced out: the share of the time in \
         which it was not in the guest though it had no reason of its own to leave."
            .to_string(),
    );
    said
}
