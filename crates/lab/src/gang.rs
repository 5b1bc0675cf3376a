//! `lab gang`: what the exits of one vCPU cost its siblings when all of a virtual core leave together: a compute loop alone,
//! beside a spin loop, beside exits; virtual cores of 1, 2 and 4 vCPUs.
//!
//! ```text
//! width 1: [0: computes] [1: neighbour]      width 2: [0: computes, 1: neighbour]      width 4: [0, 1, 2: naps, 3: naps]
//! ```

use crate::abi::{ProgramStep, op};
use crate::events::Events;
use crate::exit_account::LabExitReason;
use crate::loaded_vm::{ComputeGauge, ComputeSpeed, LoadedVm, repeat};
use crate::measure::{MeasurePlan, Noise, machine_warnings, manifest, take_turns};
use crate::vcores::{self, Ganged};
use crate::{LabError, LabMachine, PrivilegeRing, VmConfig, Watch, step};
use exitscope_model::Event;
use exitscope_policy::{Policies, vcore};
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, Measured, Unit, counted, noise,
};
use std::time::{Duration, Instant};

/// vCPUs of a virtual core.
const WIDTHS: [u32; 3] = [1, 2, 4];
/// The port that the neighbours read.
const PORT: u64 = 0x10;
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

    fn name(self) -> &'static str {
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
    /// What the virtual cores did.
    pub ganged: Ganged,
    /// Rounds of vCPU 0's compute loop.
    pub rounds: u64,
}

/// A guest whose vCPUs are grouped.
#[derive(Debug)]
pub struct GangGuest {
    guests: LoadedVm,
    speed: ComputeSpeed,
    /// Neighbours that are not idle, at most.
    active: u32,
}

impl GangGuest {
    /// Makes the VM.
    pub fn new(machine: &LabMachine) -> Result<GangGuest, LabError> {
        let config = VmConfig { irqchip: false, ..VmConfig::new(WIDTHS[WIDTHS.len() - 1], PrivilegeRing::Three) };
        let active = (machine.cpus.len() as u32).saturating_sub(1).max(1);
        Ok(GangGuest { guests: LoadedVm::new(machine, config)?, speed: ComputeSpeed::measure(machine)?, active })
    }

    /// Runs virtual cores of `width` vCPUs for `length`; or, with `rounds` (more than 0), until each has done as many rounds
    /// of its program.
    pub fn turn(
        &mut self,
        machine: &LabMachine,
        width: u32,
        beside: SiblingLoad,
        rounds: u64,
        length: Duration,
        events: bool,
    ) -> Result<GangTurn, LabError> {
        let read = ProgramStep { op: op::PORT_IN, a: 1, b: PORT, c: 0 };
        let compute = repeat(rounds, &[self.speed.step(ROUND_NS)]);
        let neighbour = match beside {
            SiblingLoad::Idle => vec![step(op::HALT)],
            SiblingLoad::Spin => repeat(rounds, &[ProgramStep { b: 100, ..step(op::PAUSE) }]),
            SiblingLoad::Exits => repeat(rounds, &[self.speed.step(BETWEEN_NS), read]),
            SiblingLoad::Storm => repeat(rounds, &[read]),
        };
        let vcpus = width.max(2);
        let programs: Vec<Vec<ProgramStep>> = (0..vcpus)
            .map(|vcpu| match vcpu {
                0 => compute.clone(),
                _ if vcpu <= self.active => neighbour.clone(),
                _ => vec![step(op::HALT)],
            })
            .collect();
        self.guests.load(machine, &Policies::default(), 0, &programs)?;
        let params = vcore::Params { smt_mode: width, ..vcore::Params::default() };
        let LoadedVm { payload, vcpus: all, .. } = &mut self.guests;
        let length = (rounds == 0).then_some(length);
        let watch = Watch::new(TURN_LIMIT);
        let ganged = vcores::run(machine, payload, &mut all[..vcpus as usize], &params, length, events, &watch)?;
        Ok(GangTurn { ganged, rounds: payload.page(0).done.0[op::COMPUTE as usize] })
    }
}

const ROUNDS: Measured<GangTurn> = Measured::new("rounds", Unit::PerSecond, |turn| Some(rate(turn, turn.rounds)));

const FIGURES: [Measured<GangTurn>; 5] = [
    Measured::new("gang exits", Unit::PerSecond, |turn| Some(rate(turn, turn.ganged.gangs.ganged))),
    Measured::new("forced exits", Unit::PerSecond, |turn| Some(rate(turn, turn.ganged.gangs.forced))),
    Measured::new("own exits", Unit::PerSecond, |turn| {
        let reads = turn.ganged.accounts.iter().map(|account| account.count(LabExitReason::PortIn)).sum();
        Some(rate(turn, reads))
    }),
    Measured::new("forced out", Unit::Share, |turn| Some(outside(turn) / seconds(turn))),
    Measured::new("for each gang exit", Unit::Nanos, |turn| {
        let gangs = turn.ganged.gangs.ganged;
        (gangs > 0).then(|| outside(turn) * 1e9 / gangs as f64)
    }),
];

fn seconds(turn: &GangTurn) -> f64 {
    turn.ganged.elapsed.as_secs_f64().max(1e-9)
}

fn rate(turn: &GangTurn, count: u64) -> f64 {
    count as f64 / seconds(turn)
}

/// How long the computing vCPU was not in the guest though it had no reason of its own, in seconds.
fn outside(turn: &GangTurn) -> f64 {
    turn.ganged.outside.first().map_or(0.0, Duration::as_secs_f64)
}

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut group = GangGuest::new(machine)?;
    let mut gauge = ComputeGauge::new(machine, PrivilegeRing::Three)?;
    let mut measured = None;
    let cases: Vec<(u32, SiblingLoad)> =
        WIDTHS.into_iter().flat_map(|width| SiblingLoad::ALL.map(|beside| (width, beside))).collect();
    let mut rounds: Vec<Vec<GangTurn>> = cases.iter().map(|_| Vec::new()).collect();
    let (began, noise, last) = (Instant::now(), Noise::now(), plan.rounds.checked_sub(1));
    let mut events = Vec::new();
    take_turns(plan, cases.len(), |round, at| {
        // Before each round anew, so that the loops take as long in every one.
        if measured != Some(round) {
            group.speed = gauge.again(machine)?;
            measured = Some(round);
        }
        let ((width, beside), keep) = (cases[at], keep_events && round == last);
        let mut turn = group.turn(machine, width, beside, 0, plan.turn(), keep)?;
        if keep {
            events.append(&mut turn.ganged.events);
        }
        if round.is_some() {
            rounds[at].push(turn);
        }
        Ok(())
    })?;
    gauge.again(machine)?;
    let mut findings = Findings {
        experiment: "gang",
        description: "vCPUs of a virtual core enter and leave the guest together: what the exits of one cost another that computes",
        manifest: manifest(machine, plan, false),
        warnings: machine_warnings(machine),
        ..Findings::default()
    };
    findings.warnings.extend(noise.warnings(began.elapsed(), machine.cpus.len()));
    findings.warnings.extend(gauge.warning());
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
    let in_table = SiblingLoad::ALL.len();
    let rows = cases.iter().enumerate().map(|(at, &(width, beside))| {
        let alone = &rounds[at - at % in_table];
        let of_alone = FindingFigure::of_rounds("of alone", Unit::Share, &ROUNDS.ratios(&rounds[at], alone));
        let others = FIGURES.iter().filter_map(|figure| figure.figure(&rounds[at]));
        let shown = ROUNDS.figure(&rounds[at]).into_iter().chain(of_alone).chain(others).collect();
        FindingRow {
            labels: vec![width.to_string(), beside.name().to_string()],
            figures: shown,
            ..FindingRow::default()
        }
    });
    let table = FindingsTable {
        title: "A compute loop, by its neighbours",
        labels: vec!["vCPUs a vcore", "beside"],
        rows: rows.collect(),
    };
    findings.summary = summary(&table);
    findings.tables.push(table);
    Ok((findings, Events::merge(events)))
}

/// The main points in words.
fn summary(table: &FindingsTable) -> Vec<String> {
    let figure = |width: u32, beside: SiblingLoad, name: &str| {
        let labels = [width.to_string(), beside.name().to_string()];
        table.rows.iter().find(|row| row.labels == labels)?.figure(name)
    };
    let of = |width, beside| {
        let share = figure(width, beside, "of alone")?;
        Some(format!("{} %{}", share.with_margin(0.01, 0), noise(share.may_be(1.0))))
    };
    let sentence = |beside: SiblingLoad| {
        Some(format!(
            "Beside {}, the compute loop keeps {} of its throughput alone where each vCPU is a virtual core of its \
             own, {} in a virtual core of 2 ({:.0} gang exits a second, {:.0} % of its time forced out), {} in one of \
             4.",
            beside.name(),
            of(1, beside)?,
            of(2, beside)?,
            figure(2, beside, "gang exits")?.value,
            figure(2, beside, "forced out")?.value * 100.0,
            of(4, beside)?,
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
