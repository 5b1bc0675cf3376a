//! `lab yield`: vCPUs contend for a spinlock under the lab's own dispatcher, which has fewer threads than they are: what
//! waiters win by telling the hypervisor, and by telling it whom they wait for.
//!
//! ```text
//! each vCPU: lock ─► compute ─► unlock ─► compute, or sleep ─► …
//!              └ held: spin spin_retry times ─► nothing · X'44' · X'9C' owner · X'9C' owner, if it does not run
//! ```

use crate::abi::{machine as flag, op};
use crate::compute_speed::{ComputeSpeed, Computed};
use crate::dispatcher::{Config, Dispatched, dispatch};
use crate::events::Events;
use crate::loaded_vm::{LoadedVm, VcpuProgram, repeated};
use crate::measure::MeasurePlan;
use crate::session::LabSession;
use crate::{LabError, LabMachine, PrivilegeRing, VmConfig, Watch};
use exitscope_model::Event;
use exitscope_policy::Policies;
use exitscope_policy::yielding::Generation;
use exitscope_scenario::findings::{
    FindingFigure, FindingRow, Findings, FindingsTable, Measured, NOT_MEASURABLE, Unit, counted,
};
use exitscope_scenario::{Op, TimeDistribution};
use exitscope_units::Picos;
use std::time::Duration;

/// vCPUs of the guest, over [`THREADS`] threads.
pub const VCPUS: u32 = 8;
/// Host threads, if the machine has so many CPUs.
pub(crate) const THREADS: usize = 2;
/// How long a vCPU runs while others wait.
pub(crate) const SLICE: Duration = Duration::from_millis(1);
/// In a turn that is shorter, some vCPU might not run at all.
const SHORTEST_TURN: Duration = SLICE.saturating_mul(VCPUS);
/// How long the lock is held, and how long a vCPU computes without it.
pub(crate) const HELD_NS: u64 = 20_000;
/// Values of spin_retry.
const SPIN_RETRY: [u32; 4] = [0, 100, 1_000, 10_000];
/// How long a vCPU sleeps before it wants the lock again.
const LEVELS: [(u64, &str); 3] = [
    (0, "High contention: no vCPU ever sleeps"),
    (200_000, "Medium contention: each sleeps 200 us between locks"),
    (1_000_000, "Low contention: each sleeps 1 ms between locks"),
];

/// A turn that takes longer has gone astray.
const TURN_LIMIT: Duration = Duration::from_secs(20);

/// The yield that a waiter for a lock makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaiterCall {
    /// None.
    Nothing,
    /// X'44'.
    Diag44,
    /// X'9C'.
    Diag9c,
    /// X'9C', but only if the holder does not run.
    Diag9cSensing,
}

impl WaiterCall {
    fn name(self) -> &'static str {
        match self {
            WaiterCall::Nothing => "none",
            WaiterCall::Diag44 => "X'44'",
            WaiterCall::Diag9c => "X'9C'",
            WaiterCall::Diag9cSensing => "X'9C' with sense-running",
        }
    }

    /// The lock code that says so, and the machine that it needs. Today's code asks before every call only where no z/VM is
    /// between it and the machine, so that this is what the guest is told.
    pub(crate) fn policy(self, spin_retry: u32) -> (Policies, u32) {
        let (generation, flags) = match self {
            WaiterCall::Nothing => (Generation::L1b, 0),
            WaiterCall::Diag44 => (Generation::L1b, flag::DIAG44),
            WaiterCall::Diag9c => (Generation::L2, flag::DIAG9C),
            WaiterCall::Diag9cSensing => {
                (Generation::Classic, flag::DIAG9C | flag::SENSE_RUNNING | flag::LPAR | flag::RUNNING_IN_MEMORY)
            }
        };
        let mut policies = Policies::default();
        policies.yielding.spin_retry = spin_retry;
        policies.yielding.spin_generation = generation;
        (policies, flags)
    }
}

/// One way to wait, at one level of contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentionCase {
    /// How long a vCPU sleeps before it wants the lock again, in nanoseconds; 0: it computes.
    pub sleep_ns: u64,
    /// The yield that a waiter makes.
    pub says: WaiterCall,
    /// Looks at the lock before each yield.
    pub spin_retry: u32,
}

/// What a turn gave.
#[derive(Clone, Debug, Default)]
pub struct ContentionTurn {
    /// What the dispatcher saw.
    pub dispatched: Dispatched,
    /// Locks taken to the end of the programs.
    pub locks: u64,
    /// Locks that were held when asked for.
    pub contended: u64,
    /// Calls, as the guest counts them: X'44', X'9C', questions whether the holder runs.
    pub calls: [u64; 3],
    /// Time spent waiting for locks, of all vCPUs, whether they were on a CPU or not.
    pub waited: Duration,
    /// What was computed one after the other, by holders of the lock.
    pub computed: Computed,
}

/// A guest that contends.
#[derive(Debug)]
pub struct Contention {
    guests: LoadedVm,
    vcpus: u32,
    threads: usize,
}

/// When a turn ends, and what it keeps.
#[derive(Clone, Copy, Debug)]
pub struct ContentionRun {
    /// How often each vCPU takes the lock; 0: as often as it can within `length`.
    pub rounds: u64,
    /// How long the turn is, if `rounds` is 0.
    pub length: Duration,
    /// Whether each thread is kept on a CPU.
    pub pin: bool,
    /// Whether events are kept.
    pub events: bool,
}

impl Contention {
    /// Makes the VM.
    pub fn new(machine: &LabMachine) -> Result<Contention, LabError> {
        Contention::with(machine, VCPUS)
    }

    /// The same of so many vCPUs.
    pub(crate) fn with(machine: &LabMachine, vcpus: u32) -> Result<Contention, LabError> {
        let config = VmConfig { irqchip: false, ..VmConfig::new(vcpus, PrivilegeRing::Three) };
        let threads = THREADS.min(machine.cpus.len());
        Ok(Contention { guests: LoadedVm::new(machine, config)?, vcpus, threads })
    }

    /// Has every vCPU take the lock as `run` has it.
    pub fn turn(
        &mut self,
        machine: &LabMachine,
        speed: ComputeSpeed,
        case: ContentionCase,
        run: ContentionRun,
    ) -> Result<ContentionTurn, LabError> {
        let (policies, flags) = case.says.policy(case.spin_retry);
        let program = VcpuProgram::Scenario(repeated(run.rounds, contender(case.sleep_ns)));
        let programs = vec![program; self.vcpus as usize];
        self.guests.load(machine, &policies, flags, speed, &programs)?;
        let stop_after = (run.rounds == 0).then_some(run.length);
        let (events, pin) = (run.events, run.pin);
        let config = Config { threads: self.threads, slice: SLICE, stop_after, events, name_threads: false, pin };
        let LoadedVm { payload, vcpus, .. } = &mut self.guests;
        let dispatched = dispatch(machine, payload, vcpus, config, &Watch::new(TURN_LIMIT))?;
        let pages = (0..self.vcpus).map(|vcpu| payload.page(vcpu));
        let span = dispatched.span;
        let mut turn = ContentionTurn { dispatched, ..ContentionTurn::default() };
        for page in pages {
            turn.locks += page.done.0[op::UNLOCK as usize];
            turn.contended += page.contended;
            turn.calls = [turn.calls[0] + page.yields, turn.calls[1] + page.yields_to, turn.calls[2] + page.senses];
            turn.waited += Duration::from_nanos(machine.ns_in(page.spin_ticks as f64) as u64);
        }
        // As many as were held when the turn was over.
        turn.computed = Computed { chain: turn.dispatched.counted * speed.step(HELD_NS).b, span };
        Ok(turn)
    }
}

/// What each vCPU does again and again.
pub(crate) fn contender(sleep_ns: u64) -> Vec<Op> {
    let fixed = |ns| TimeDistribution::Fixed(Picos::from_nanos(ns));
    let compute = || Op::Compute(fixed(HELD_NS));
    let mut body = vec![Op::Lock(0), compute(), Op::Count, Op::Unlock(0), compute()];
    body.extend((sleep_ns > 0).then(|| Op::Sleep(fixed(sleep_ns))));
    body
}

const LOCKS: Measured<ContentionTurn> =
    Measured::new("locks", Unit::PerSecond, |turn| Some(rate(turn, turn.dispatched.counted)));

/// The figures beside the locks, in their order.
fn add_figures(row: &mut FindingRow, own: &[ContentionTurn]) {
    let counts = |of: fn(&ContentionTurn) -> (u64, u64)| own.iter().map(of).collect::<Vec<_>>();
    let rates = |name, of: fn(&ContentionTurn) -> u64| {
        let rates: Vec<f64> = own.iter().map(|turn| rate(turn, of(turn))).collect();
        FindingFigure::of_rounds(name, Unit::PerSecond, &rates)
    };
    let held = counts(|turn| (turn.contended, turn.locks));
    row.add_unless_open(FindingFigure::of_counts("found held", &held));
    row.figures.extend(rates("X'44'", undirected));
    let fast = counts(|turn| (turn.dispatched.fast_path, undirected(turn)));
    row.add_unless_open(FindingFigure::of_counts("fast path", &fast));
    row.figures.extend(rates("X'9C'", directed));
    let ran = counts(|turn| (turn.dispatched.already_running, directed(turn)));
    row.add_unless_open(FindingFigure::of_counts("holder ran", &ran));
    row.figures.extend(rates("senses", |turn| turn.calls[2]));
    row.figures.extend(rates("preempted", |turn| turn.dispatched.preemptions));
    let empty: Vec<f64> = own.iter().map(|turn| turn.dispatched.queue_empty).collect();
    row.add_unless_open(FindingFigure::of_shares("queue empty", &empty));
    let depth: Vec<f64> = own.iter().map(|turn| turn.dispatched.queue_depth).collect();
    row.figures.extend(FindingFigure::of_rounds("queue depth", Unit::Count, &depth));
}

fn rate(turn: &ContentionTurn, count: u64) -> f64 {
    turn.dispatched.span.rate(count)
}

fn undirected(turn: &ContentionTurn) -> u64 {
    turn.dispatched.fast_path + turn.dispatched.normal_path
}

fn directed(turn: &ContentionTurn) -> u64 {
    turn.dispatched.directed + turn.dispatched.already_running + turn.dispatched.ignored_otherwise
}

/// Every row of a table.
fn cases(sleep_ns: u64) -> Vec<ContentionCase> {
    let nothing = ContentionCase { sleep_ns, says: WaiterCall::Nothing, spin_retry: 0 };
    let calls = [WaiterCall::Diag44, WaiterCall::Diag9c, WaiterCall::Diag9cSensing];
    let others =
        calls.into_iter().flat_map(|says| SPIN_RETRY.map(|spin_retry| ContentionCase { sleep_ns, says, spin_retry }));
    [nothing].into_iter().chain(others).collect()
}

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    // One VM for all rows: nothing but the programs and knobs differs.
    let mut contention = Contention::new(machine)?;
    let mut session = LabSession::new(machine, plan, true)?;
    let all: Vec<ContentionCase> = LEVELS.into_iter().flat_map(|(sleep_ns, _)| cases(sleep_ns)).collect();
    let mut rounds: Vec<Vec<ContentionTurn>> = all.iter().map(|_| Vec::new()).collect();
    let mut events = Vec::new();
    session.take_turns(all.len(), |session, round, at| {
        let keep = keep_events && session.is_last(round);
        let run = ContentionRun { rounds: 0, length: plan.turn().max(SHORTEST_TURN), pin: plan.pin, events: keep };
        let mut turn = session.possible("holders of the lock", |speed| {
            let turn = contention.turn(machine, speed, all[at], run)?;
            let computed = turn.computed;
            Ok((turn, computed))
        })?;
        if keep {
            events.append(&mut turn.dispatched.events);
        }
        if round.is_some() {
            rounds[at].push(turn);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "yield",
        "vCPUs contend for a spinlock under the lab's own dispatcher: which yield waiters make, and \
            after how many looks at the lock",
    )?;
    findings.warnings.push(
        "sense-running reads a page of memory that the dispatcher keeps, so it costs no exit; neither it nor the \
         dispatcher knows when the host's own scheduler has preempted a thread"
            .to_string(),
    );
    let in_table = all.len() / LEVELS.len();
    for (at, (_, title)) in LEVELS.into_iter().enumerate() {
        let range = at * in_table..(at + 1) * in_table;
        findings.summary.extend(summary(title, &all[range.clone()], &rounds[range.clone()]));
        findings.tables.push(table(title, &all[range.clone()], &rounds[range]));
    }
    findings.summary.push(format!(
        "{VCPUS} vCPUs over {}, in slices of {} ms; the lock is held for {} us of computing.",
        counted(contention.threads as u64, "thread"),
        SLICE.as_millis(),
        HELD_NS / 1_000
    ));
    Ok((findings, Events::merge(events)))
}

fn table(title: &'static str, cases: &[ContentionCase], rounds: &[Vec<ContentionTurn>]) -> FindingsTable {
    let rows = cases.iter().zip(rounds).map(|(case, own)| {
        let retry = if case.says == WaiterCall::Nothing { "-".to_string() } else { case.spin_retry.to_string() };
        let labels = vec![case.says.name().to_string(), retry];
        let figures = LOCKS.figure(own).into_iter().collect();
        let mut row = FindingRow { labels, figures, ..FindingRow::default() };
        row.add_unless_open(FindingFigure::of_ratios("times no call", &LOCKS.ratios(own, &rounds[0]), 1));
        add_figures(&mut row, own);
        row
    });
    FindingsTable { title, labels: vec!["call", "spin_retry"], rows: rows.collect() }
}

/// The main point of a table in words. What is named was chosen as the best of its call, by whoever looks for the best of all: each
/// setting had its chance.
fn summary(title: &str, cases: &[ContentionCase], rounds: &[Vec<ContentionTurn>]) -> Option<String> {
    let none = rounds.first()?;
    let settings = cases.iter().filter(|case| case.says != WaiterCall::Nothing).count();
    let said = |says: WaiterCall| {
        let own = cases.iter().zip(rounds).filter(|(case, _)| case.says == says);
        let times = own.filter_map(|(case, own)| {
            Some((case, FindingFigure::of_ratios("times no call", &LOCKS.ratios(own, none), settings)?))
        });
        let best = times.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        match best {
            Some((case, times)) if !times.is_open() => {
                let noise = if times.may_be(1.0) { ", within the noise" } else { "" };
                format!("{} times with {} (best: spin_retry {}{noise})", times.between(), says.name(), case.spin_retry)
            }
            _ => format!("with {} {NOT_MEASURABLE}", says.name()),
        }
    };
    let rate = LOCKS.figure(none)?;
    let rate = match rate.interval {
        Some((low, _)) if low <= 0.0 => NOT_MEASURABLE.to_string(),
        _ => rate.with_margin(1.0, 0),
    };
    let calls = [WaiterCall::Diag44, WaiterCall::Diag9c, WaiterCall::Diag9cSensing].map(said);
    Some(format!(
        "{}: locks a second if waiters make no call: {rate}. As many, in 95 % intervals that allow for the choice among {settings} \
         settings: {}.",
        title.split(':').next().unwrap_or(title),
        calls.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    /// Turns of one second in which so many locks were taken.
    fn turns(locks: &[u64]) -> Vec<ContentionTurn> {
        let turn = |&counted: &u64| ContentionTurn {
            dispatched: Dispatched { counted, span: Span::of_ns(1_000_000_000), ..Dispatched::default() },
            locks: counted,
            contended: counted / 2,
            ..ContentionTurn::default()
        };
        locks.iter().map(turn).collect()
    }

    fn rounds_of(of: impl Fn(&ContentionCase) -> Vec<u64>) -> (Vec<ContentionCase>, Vec<Vec<ContentionTurn>>) {
        let cases = cases(0);
        let rounds = cases.iter().map(|case| turns(&of(case))).collect();
        (cases, rounds)
    }

    #[test]
    fn what_rounds_leave_open_is_called_not_measurable() {
        // From round to round a hundredfold: the mean of the ratios would be some times, give or take more than that.
        let (cases, rounds) = rounds_of(|case| match case.says {
            WaiterCall::Nothing => vec![1_000, 1_100, 1_050],
            _ => vec![100, 9_000, 800],
        });
        let said = summary("High: x", &cases, &rounds).unwrap();
        assert!(said.contains("with X'44' not measurable here; with X'9C' not measurable here"), "{said}");
        let row = &table("High: x", &cases, &rounds).rows[1];
        assert!(row.not_measurable.contains(&"times no call") && row.figure("times no call").is_none());
        assert!(row.figure("found held").is_some(), "half of the locks in every round");
    }

    #[test]
    fn a_gain_is_an_interval_that_allows_for_the_choice() {
        let (cases, rounds) = rounds_of(|case| match (case.says, case.spin_retry) {
            (WaiterCall::Nothing, _) => vec![1_000, 1_010, 990, 1_000],
            (WaiterCall::Diag44, 100) => vec![2_000, 2_050, 1_960, 2_010],
            (WaiterCall::Diag44, _) => vec![1_000, 1_000, 1_000, 1_000],
            _ => vec![995, 1_010, 1_000, 985],
        });
        let said = summary("High: x", &cases, &rounds).unwrap();
        assert!(said.starts_with("High: locks a second if waiters make no call: 1000 ±13."), "{said}");
        // Logarithms: mean 0.6955, standard error 0.0052; t with three degrees of freedom at 1 - 0.025 / 12 is about 7.9, not 3.18.
        assert!(said.contains("1.92 to 2.09 times with X'44' (best: spin_retry 100);"), "{said}");
        assert!(said.contains("within the noise") && said.contains("among 12 settings"), "{said}");
    }
}
