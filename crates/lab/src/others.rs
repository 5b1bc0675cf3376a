//! `lab run --delay others`: what a scenario's guests would win if exits of one kind were cheaper, for each kind, without making any
//! cheaper. All other vCPUs are delayed instead ([`VirtualSpeedup`]), and the time that this takes is taken off.
//!
//! ```text
//! a run ─► kinds of exits that there are ─► turns: as it is, and for each kind as if it were cheaper ─► ratios, round by round
//! ```
//!
//! An exit is cheaper on its way back into the guest, where the run loop can delay others by as much; what it does for others (a
//! wake-up, say) comes no earlier.

use crate::compute_speed::{ComputeSpeed, Computed};
use crate::exit_account::LabExitReason;
use crate::measure::MeasurePlan;
use crate::placement::Placement;
use crate::run::{ScenarioRun, ScenarioTurn, differences, one_run, place, running};
use crate::run_loop::ChangedExits;
use crate::session::LabSession;
use crate::virtual_speedup::VirtualSpeedup;
use crate::{LabError, LabMachine, Span};
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, NOT_MEASURABLE, Unit, counted, noise,
};
use exitscope_scenario::{Channel, HostSpec, Op, Scenario, TimeDistribution, VmSpec};
use exitscope_units::{Nanos, Picos};
use std::time::Duration;

/// The name of the rows without delays.
const AS_IT_IS: &str = "as it is";

/// Which part of its delays a vCPU may owe at the end, so that its row is a figure: it counted what it did too early by that.
const OWED: f64 = 0.05;

/// Which part of a turn a vCPU may lack a CPU, so that its round counts.
const LACKED: f64 = 0.1;

/// Which exits are changed in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct OthersCase {
    /// Each of this kind is as if it were so much cheaper: other vCPUs are delayed.
    pub cheaper: Option<(LabExitReason, Nanos)>,
    /// Each of this kind takes so much longer.
    pub longer: Option<(LabExitReason, Nanos)>,
}

/// What a turn gave.
#[derive(Clone, Debug, Default)]
pub struct OthersTurn {
    /// What each VM of the scenario did, in things a second: without the time that delays took.
    pub rates: Vec<f64>,
    /// Exits of each reason, by [`LabExitReason::ALL`].
    pub exits: Vec<u64>,
    /// How long it took.
    pub span: Span,
    /// The part of the delays that the vCPU that took least of them did not take, 0 to 1.
    pub owed: f64,
    /// The part of the time in which the vCPU that lacked a CPU for longest could run and had none, 0 to 1.
    pub lacked: f64,
}

impl OthersTurn {
    /// Whether its vCPUs had their CPUs. If not, who had them was not delayed, and exits take longer than their own time.
    pub fn is_quiet(&self) -> bool {
        self.lacked <= LACKED
    }
}

/// Guests of a scenario that can be run with other vCPUs delayed.
#[derive(Debug)]
pub struct DelayedOthers<'a> {
    machine: &'a LabMachine,
    scenario: Scenario,
    placement: Placement,
}

impl<'a> DelayedOthers<'a> {
    /// An error says why not.
    pub fn new(machine: &'a LabMachine, scenario: &Scenario, pin: bool) -> Result<DelayedOthers<'a>, LabError> {
        let placement = place(machine, scenario, pin);
        check(machine, scenario, &placement)?;
        Ok(DelayedOthers { machine, scenario: scenario.clone(), placement })
    }

    /// Runs them for so long, and what they computed with compute steps set by `speed`.
    pub fn turn(
        &self,
        speed: ComputeSpeed,
        case: OthersCase,
        length: Duration,
    ) -> Result<(OthersTurn, Computed), LabError> {
        let speedup = case.cheaper.map(|(reason, by)| VirtualSpeedup::new(self.machine, reason, by));
        let longer = case.longer.map(|(reason, by)| (reason, by.0));
        let changed = ChangedExits { cheaper: speedup.as_ref(), longer };
        let turn = ScenarioTurn { speed, length, keep_events: false, changed };
        let (run, computed) = one_run(self.machine, &self.scenario, &self.placement, &turn)?;
        Ok((self.gave(&run, case.cheaper)?, computed))
    }

    fn gave(&self, run: &ScenarioRun, cheaper: Option<(LabExitReason, Nanos)>) -> Result<OthersTurn, LabError> {
        let inserted = self.machine.ns_in(run.inserted as f64);
        let left = run.span.length().as_nanos() as f64 - inserted;
        if let Some((reason, by)) = cheaper.filter(|_| left <= 0.0) {
            return Err(LabError::CannotDo(format!(
                "{} exits ({}) that take {by} less would take less than no time: give a shorter --by",
                run.vcpus().map(|vcpu| vcpu.account.count(reason)).sum::<u64>(),
                reason.name()
            )));
        }
        let as_if = Span::of_ns(left as u64);
        let count = |reason| run.vcpus().map(|vcpu| vcpu.account.count(reason)).sum();
        let owed = run.vcpus().map(|vcpu| vcpu.owed).max().unwrap_or(0);
        Ok(OthersTurn {
            rates: (0..self.scenario.vms.len()).map(|vm| as_if.rate(run.counted_by(vm))).collect(),
            exits: LabExitReason::ALL.into_iter().map(count).collect(),
            span: run.span,
            owed: owed as f64 / run.inserted.max(1) as f64,
            lacked: run.lacked(),
        })
    }
}

/// Measures it: each turn takes a round's part of the plan's duration.
pub fn run(machine: &LabMachine, scenario: &Scenario, plan: &MeasurePlan, by: Nanos) -> Result<Findings, LabError> {
    let others = DelayedOthers::new(machine, scenario, plan.pin)?;
    let mut session = LabSession::new(machine, plan, true)?;
    let turn_of = |session: &mut LabSession, cheaper| {
        let case = OthersCase { cheaper, longer: None };
        session.possible(&scenario.name, |speed| others.turn(speed, case, plan.turn()))
    };
    let before = turn_of(&mut session, None)?;
    let kinds: Vec<LabExitReason> = LabExitReason::ALL.into_iter().filter(|kind| is_a_kind(*kind, &before)).collect();
    let vms: Vec<usize> = (0..scenario.vms.len()).filter(|vm| before.rates[*vm] > 0.0).collect();
    if vms.is_empty() {
        return Err(LabError::CannotDo(
            "the scenario counts no work, so nothing shows what it would win: add a `count` step to a program".into(),
        ));
    }
    if kinds.is_empty() {
        return Err(LabError::CannotDo("no exit of the scenario goes to user space, where the lab could delay".into()));
    }
    let mut rounds: Vec<Vec<OthersTurn>> = vec![Vec::new(); kinds.len() + 1];
    session.take_turns(kinds.len() + 1, |session, round, at| {
        let turn = turn_of(session, at.checked_sub(1).map(|at| (kinds[at], by)))?;
        if round.is_some() {
            rounds[at].push(turn);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "run --delay others",
        "What a scenario's guests would win if exits of a kind were cheaper: all other vCPUs are delayed instead",
    )?;
    findings.warnings.extend(differences(machine, scenario));
    let left_out = rounds.concat().iter().filter(|turn| !turn.is_quiet()).count();
    if left_out > 0 {
        findings.warnings.push(format!(
            "{} of {} left out, as other programs had a vCPU's CPU for more than {:.0} % of the time",
            left_out,
            counted(rounds.concat().len() as u64, "turn"),
            LACKED * 100.0
        ));
    }
    if others.placement.cpus.len() == 1 {
        findings.warnings.push("there is no vCPU beside this one to delay: its gains follow from counts".to_string());
    }
    let wins = Wins { scenario, kinds, vms, rounds, by };
    findings.summary = wins.summary();
    findings.tables = vec![wins.table()];
    Ok(findings)
}

/// Whether a kind of exits can be made cheaper, and there are any.
fn is_a_kind(kind: LabExitReason, turn: &OthersTurn) -> bool {
    !matches!(kind, LabExitReason::Kicked | LabExitReason::Other) && turn.exits[kind as usize] > 0
}

/// What cannot be delayed is not told.
fn check(machine: &LabMachine, scenario: &Scenario, placement: &Placement) -> Result<(), LabError> {
    let cannot =
        |why: String| Err(LabError::CannotDo(format!("--delay others cannot tell what this scenario wins: {why}")));
    if !scenario.loads.is_empty() {
        return cannot("its clients are outside of the host, and are not delayed as its vCPUs are".to_string());
    }
    let name = |of: fn(&&VmSpec) -> bool| scenario.vms.iter().find(of).map(|vm| vm.name.clone());
    if let Some(vm) = name(|vm| !vm.disks.is_empty()) {
        return cannot(format!("the disks of {vm} are not delayed as its vCPUs are"));
    }
    if let Some(vm) = name(|vm| !vm.locks.is_empty()) {
        return cannot(format!("vCPUs of {vm} spin for locks, and are delayed at exits alone"));
    }
    if let Some(vm) = name(|vm| vm.cpuidle_haltpoll) {
        return cannot(format!(
            "vCPUs of {vm} poll before they halt, and are delayed at exits alone; try --set vm.{vm}.cpuidle_haltpoll=false"
        ));
    }
    let vcpus: usize = scenario.vms.iter().map(|vm| running(vm).count() * vm.copies as usize).sum();
    let own = |cpus: &Vec<usize>| placement.cpus.iter().filter(|other| *other == cpus).count() == 1;
    if vcpus > machine.cpus.len() || !placement.cpus.iter().filter(|cpus| cpus.len() == 1).all(own) {
        return cannot(format!(
            "its {} share {}, and one that is delayed would keep the CPU from another",
            counted(vcpus as u64, "vCPU"),
            counted(machine.cpus.len() as u64, "CPU")
        ));
    }
    Ok(())
}

/// A scenario whose exits are known, and what is made cheaper of it.
#[derive(Clone, Debug)]
pub struct KnownGuests {
    /// What its vCPUs do, for people.
    pub about: &'static str,
    /// The scenario, of one VM.
    pub scenario: Scenario,
    /// The kind of exits.
    pub reason: LabExitReason,
}

/// Guests whose exits are known: those of the kind are all of what there is to win, a part of a way of two vCPUs, or on the way of
/// nothing that counts.
pub fn known_guests(cpus: u32) -> Vec<KnownGuests> {
    let compute = |us: u64| Op::Compute(TimeDistribution::Fixed(Picos::from_nanos(us * 1_000)));
    let read = Op::Port { port: 0x70, size: 1, write: false, string: false };
    let write = Op::Mmio { address: 0xfed0_0000, size: 4, write: true, value: 0 };
    let program = |body| vec![Op::Repeat(None, body)];
    let alone = VmSpec::new("alone", 1).running(program(vec![compute(20), read.clone(), Op::Count]));
    let there_and_back = VmSpec::new("in-turn", 2)
        .running_on(0, program(vec![compute(20), read.clone(), Op::Send(0), Op::Receive(1), Op::Count]))
        .running_on(1, program(vec![Op::Receive(0), compute(30), write.clone(), Op::Send(1)]));
    let beside = VmSpec::new("beside", 2)
        .running_on(0, program(vec![compute(50), write, Op::Count]))
        .running_on(1, program(vec![compute(20), read]));
    let known = |about, vm: VmSpec| {
        let mut scenario = Scenario::new(&vm.name.clone(), HostSpec::new(cpus));
        scenario.channels = vec![Channel::new("there"), Channel::new("back")];
        scenario.vms.push(vm);
        KnownGuests { about, scenario, reason: LabExitReason::PortIn }
    };
    vec![
        known("a vCPU that computes and reads a port", alone),
        known("two vCPUs in turn, one of which reads a port", there_and_back),
        known("a vCPU that counts beside one that reads a port", beside),
    ]
}

/// What was measured.
struct Wins<'a> {
    scenario: &'a Scenario,
    kinds: Vec<LabExitReason>,
    /// The VMs that count what they do.
    vms: Vec<usize>,
    /// Of the guests as they are, and of each kind.
    rounds: Vec<Vec<OthersTurn>>,
    by: Nanos,
}

impl Wins<'_> {
    /// The turns of a kind, each with that of its round as it is, in which vCPUs had their CPUs.
    fn quiet(&self, at: usize) -> Vec<(&OthersTurn, &OthersTurn)> {
        let pairs = self.rounds[at].iter().zip(&self.rounds[0]);
        pairs.filter(|(own, as_is)| own.is_quiet() && as_is.is_quiet()).collect()
    }

    /// How many times as much a VM does, round by round, with a kind as if it were cheaper.
    fn times(&self, at: usize, vm: usize, choices: usize) -> Option<FindingFigure> {
        let pairs = self.quiet(at);
        let ratios: Vec<f64> = pairs.iter().map(|(own, as_is)| own.rates[vm] / as_is.rates[vm]).collect();
        FindingFigure::of_ratios("times as is", &ratios, choices)
    }

    /// Why the turns of a kind tell nothing.
    fn unavailable(&self, at: usize) -> Option<String> {
        let quiet = self.quiet(at);
        let owed = quiet.iter().map(|(own, _)| own.owed).sum::<f64>() / quiet.len().max(1) as f64;
        if quiet.len() < 2 {
            let left_out = self.rounds[at].len() - quiet.len();
            return Some(format!(
                "{NOT_MEASURABLE}: in {} other programs had the vCPUs' CPUs for more than {:.0} % of the time",
                counted(left_out as u64, "round"),
                LACKED * 100.0
            ));
        }
        (owed > OWED).then(|| {
            format!("{NOT_MEASURABLE}: a vCPU had too few exits to be delayed at, and still owed {:.0} %", owed * 100.0)
        })
    }

    fn rows_of(&self, at: usize) -> impl Iterator<Item = FindingRow> {
        self.vms.iter().map(move |&vm| {
            let kind = at.checked_sub(1).map(|at| self.kinds[at]);
            let own = self.quiet(at);
            let labels =
                vec![kind.map_or(AS_IT_IS, LabExitReason::name).to_string(), self.scenario.vms[vm].name.clone()];
            let mut row = FindingRow { labels, cannot: self.unavailable(at), ..FindingRow::default() };
            if row.cannot.is_none() {
                let rates: Vec<f64> = own.iter().map(|(turn, _)| turn.rates[vm]).collect();
                row.figures.extend(FindingFigure::of_rounds("rate", Unit::PerSecond, &rates));
            }
            if let Some(kind) = kind.filter(|_| row.cannot.is_none()) {
                let exits = own.iter().map(|(_, as_is)| as_is.span.rate(as_is.exits[kind as usize]));
                let exits: Vec<f64> = exits.collect();
                row.add_unless_open(self.times(at, vm, 1));
                row.figures.extend(FindingFigure::of_rounds("exits", Unit::PerSecond, &exits));
            }
            row
        })
    }

    fn table(&self) -> FindingsTable {
        FindingsTable {
            title: "Work as if exits of a kind were cheaper",
            labels: vec!["cheaper", "VM"],
            rows: (0..self.rounds.len()).flat_map(|at| self.rows_of(at)).collect(),
        }
    }

    fn summary(&self) -> Vec<String> {
        let choices = self.kinds.len() * self.vms.len();
        let mut wins = Vec::new();
        for (at, kind) in self.kinds.iter().enumerate() {
            for &vm in &self.vms {
                let times = self.times(at + 1, vm, choices);
                let times = times.filter(|times| !times.is_open() && self.unavailable(at + 1).is_none());
                wins.push((*kind, &self.scenario.vms[vm].name, times));
            }
        }
        wins.sort_by(|a, b| {
            let least = |win: &(_, _, Option<FindingFigure>)| win.2.as_ref().map_or(0.0, |times| times.value);
            least(b).total_cmp(&least(a))
        });
        let mut said: Vec<String> = wins
            .into_iter()
            .map(|(kind, vm, times)| {
                let times = times.map_or(NOT_MEASURABLE.to_string(), |times| {
                    format!("{} times as much{}", times.between(), noise(times.may_be(1.0)))
                });
                format!("What {vm} would do if each {} were {} cheaper: {times}.", kind.name(), self.by)
            })
            .collect();
        said.push(format!(
            "95 % intervals that allow for the choice among {}; no exit was made cheaper: all other vCPUs were delayed by {} each \
             time, which was taken off.",
            counted(choices as u64, "row"),
            self.by
        ));
        said
    }
}
