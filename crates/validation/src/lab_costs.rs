//! What this machine's lab needs for each step, by experiments of their own, as costs of the simulator: `validate --lab`.
//!
//! ```text
//! EXPERIMENTS: a scenario each ─► lab, rounds ─► LabCost: value, and bounds from round to round
//!                                                  └─► a draw within the bounds ─► CostModel, scheduler, speed of two busy CPUs
//! ```
//!
//! What no experiment measures costs nothing: the lab's guests have no kernel of their own. No cell is measured for it.

use crate::lab_cells::{PortAnswer, host_of, yield_when_spinning};
use exitscope_scenario::findings::{FindingRow, FindingsTable};
use exitscope_scenario::{Op, Program, Scenario, TimeDistribution, VmSpec};
use exitscope_sim::{Limits, SimError, Unseen, run};
use exitscope_stats::Estimate;
use exitscope_units::Picos;
use serde::{Deserialize, Serialize};

/// What is read off an experiment's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabReading {
    /// Nanoseconds for each unit of work that the VM of this name did, over a number of things in each.
    PerWork(&'static str, u32),
    /// Nanoseconds of the run for each diagnose X'44'.
    PerYield,
    /// Nanoseconds of the run for each preemption of any thread.
    PerPreemption,
}

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct LabExperiment {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// What is read off it.
    pub reading: LabReading,
    vms: fn() -> Vec<VmSpec>,
}

/// One figure of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabCost {
    /// The experiment.
    pub name: String,
    /// Nanoseconds.
    pub ns: f64,
    /// Within what the rounds' mean is, with 95 % probability.
    pub bounds: [f64; 2],
}

const CHUNK_NS: u64 = 100_000;
const SLEEP_NS: u64 = 5_000_000;
const RETRIES: [u32; 2] = [1_000, 4_000];

/// All experiments. The figures of the first three are of an access; of the next three, of a ball one way.
///
/// An idle CPU's way back to work is no task's time, so that what a switch takes is measured where no CPU is ever idle.
pub const LAB_EXPERIMENTS: [LabExperiment; 12] = [
    experiment("port: kernel", "a port write that KVM answers", LabReading::PerWork("port", 1), || {
        port(PortAnswer::Kernel)
    }),
    experiment("port: ioeventfd", "a port write to an ioeventfd", LabReading::PerWork("port", 1), || {
        port(PortAnswer::Ioeventfd)
    }),
    experiment("port: user space", "a port write that user space answers", LabReading::PerWork("port", 1), || {
        port(PortAnswer::User)
    }),
    experiment("wake-up", "a wake-up of a vCPU that has halted", LabReading::PerWork("balls", 2), || balls(0, &[0, 1])),
    experiment("wake-up: same CPU", "the same where both share a CPU", LabReading::PerWork("balls", 2), || {
        balls(0, &[0, 0])
    }),
    experiment(
        "wake-up: polled",
        "a wake-up of a vCPU that the host polls for",
        LabReading::PerWork("balls", 2),
        || balls(10_000_000, &[0, 1]),
    ),
    experiment("yield: 1000", "spinning 1,000 times and yielding", LabReading::PerYield, || yields(RETRIES[0])),
    experiment("yield: 4000", "spinning 4,000 times and yielding", LabReading::PerYield, || yields(RETRIES[1])),
    experiment("slice", "until a thread loses the CPU to another", LabReading::PerPreemption, || {
        vec![computing("one", 0), computing("other", 0)]
    }),
    experiment("sleep: alone", "a sleep of 5 ms on an idle CPU", LabReading::PerWork("sleeper", 1), || vec![sleeper()]),
    experiment("sleep: beside", "the same beside a vCPU that computes", LabReading::PerWork("sleeper", 1), || {
        vec![sleeper(), computing("other", 0)]
    }),
    experiment(
        "compute: beside",
        "100 us of computing while the other CPU computes",
        LabReading::PerWork("one", 1),
        || vec![computing("one", 0), computing("other", 1)],
    ),
];

const fn experiment(
    name: &'static str,
    about: &'static str,
    reading: LabReading,
    vms: fn() -> Vec<VmSpec>,
) -> LabExperiment {
    LabExperiment { name, about, reading, vms }
}

const fn compute(ns: u64) -> Op {
    Op::Compute(TimeDistribution::Fixed(Picos::from_nanos(ns)))
}

fn forever(body: Vec<Op>) -> Program {
    vec![Op::Repeat(None, body)]
}

/// A VM of these programs, each vCPU on a CPU of its own, from this one on.
fn vm(name: &str, first_cpu: u32, programs: Vec<Program>) -> VmSpec {
    let count = programs.len() as u32;
    let cpus = (first_cpu..first_cpu + count).collect();
    let mut vm = VmSpec { pinned: true, cpus, ..VmSpec::new(name, count) };
    vm.policies.host_halt_poll.halt_poll_ns.0 = 0;
    (0..).zip(programs).fold(vm, |vm, (vcpu, program)| vm.running_on(vcpu, program))
}

fn port(answer: PortAnswer) -> Vec<VmSpec> {
    let (write, registered) = answer.write();
    let mut vm = vm("port", 0, vec![forever(vec![write, Op::Count])]);
    vm.registrations.extend(registered);
    vec![vm]
}

fn balls(poll_ns: u64, cpus: &[u32]) -> Vec<VmSpec> {
    let first = forever(vec![Op::Ipi(1), Op::AwaitIpi, Op::Count]);
    let second = forever(vec![Op::AwaitIpi, Op::Ipi(0)]);
    let mut vm = VmSpec { cpus: cpus.to_vec(), ..vm("balls", 0, vec![first, second]) };
    vm.policies.host_halt_poll.halt_poll_ns.0 = poll_ns;
    vm.policies.host_halt_poll.halt_poll_ns_grow_start.0 = poll_ns;
    vec![vm]
}

/// One holds a lock nearly always; the other waits for it.
fn yields(spin_retry: u32) -> Vec<VmSpec> {
    let holder = forever(vec![Op::Lock(0), compute(20_000_000), Op::Unlock(0), compute(CHUNK_NS)]);
    let waiter = forever(vec![Op::Lock(0), Op::Unlock(0), compute(CHUNK_NS)]);
    let mut vm = vm("lock", 0, vec![holder, waiter]);
    vm.locks = vec!["lock".to_string()];
    yield_when_spinning(&mut vm, spin_retry);
    vec![vm]
}

fn computing(name: &str, cpu: u32) -> VmSpec {
    vm(name, cpu, vec![forever(vec![compute(CHUNK_NS), Op::Count])])
}

fn sleeper() -> VmSpec {
    let sleep = Op::Sleep(TimeDistribution::Fixed(Picos::from_nanos(SLEEP_NS)));
    vm("sleeper", 0, vec![forever(vec![sleep, compute(CHUNK_NS), Op::Count])])
}

impl LabCost {
    /// Of rounds; nothing of fewer than two.
    pub fn of(name: &str, rounds: &[f64]) -> Option<LabCost> {
        let estimate = Estimate::of(rounds)?;
        let (low, high) = estimate.interval?;
        Some(LabCost { name: name.to_string(), ns: estimate.mean, bounds: [low.max(0.0), high] })
    }
}

impl LabReading {
    /// Its figure in the tables of a run of so many nanoseconds.
    pub fn of(self, tables: &[FindingsTable], length: f64) -> Option<f64> {
        let rows = |figure: &'static str| {
            let all = tables.iter().flat_map(|table| &table.rows);
            all.filter_map(move |row| Some((row, row.figure(figure)?.value)))
        };
        let sum = |figure| rows(figure).map(|(_, value)| value).sum::<f64>();
        let a_second = |wanted: &str| {
            let of = |(row, _): &(&FindingRow, f64)| row.labels.iter().any(|label| label == wanted);
            rows("rate").find(of).map(|(_, rate)| rate)
        };
        let figure = match self {
            LabReading::PerWork(vm, things) => 1e9 / (a_second(vm)? * f64::from(things)),
            LabReading::PerYield => 1e9 / a_second("diagnose X'44'")?,
            LabReading::PerPreemption => length / sum("preemptions"),
        };
        Some(figure).filter(|figure| figure.is_finite())
    }
}

impl LabExperiment {
    /// Its guests, on a host that has no costs yet.
    pub fn scenario(&self) -> Scenario {
        let mut vms = (self.vms)().into_iter();
        let mut scenario = vms.next().map_or_else(|| host_of(VmSpec::new("none", 1)), host_of);
        scenario.vms.extend(vms.map(|vm| host_of(vm).vms.remove(0)));
        scenario
    }
}

/// What the figures of a machine come to in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct LabMachineCosts {
    costs: Vec<(&'static str, f64)>,
    slice: f64,
    granularity: f64,
    both_busy: f64,
}

/// What may be the least that a woken task must have run less than the running one, to take its CPU: at once, in between, and never.
const GRANULARITIES_NS: [f64; 4] = [0.0, 1e6, 4e6, 1e12];

/// The experiments in which a ball goes to and fro, and the cost that each gives.
const BALLS: [(&str, &str); 3] =
    [("wake-up: polled", "ipi_send"), ("wake-up", "wake_latency"), ("wake-up: same CPU", "switch")];

/// How often what is left of a ball's way is looked at.
const SETTLES: usize = 3;

/// Why figures cannot be costs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabCostError {
    /// An experiment is missing.
    #[error("there is no figure of {0:?}")]
    Missing(&'static str),
    /// A simulation failed.
    #[error("the experiment {name:?} cannot be simulated: {source}")]
    Sim {
        /// Which experiment.
        name: &'static str,
        /// What happened.
        source: SimError,
    },
}

impl LabMachineCosts {
    /// Of figures, each at this place between its bounds, 0 to 1; in the order of [`LAB_EXPERIMENTS`].
    pub fn of(figures: &[LabCost], at: &[f64]) -> Result<LabMachineCosts, LabCostError> {
        let value = |name: &'static str| -> Result<f64, LabCostError> {
            let number = LAB_EXPERIMENTS.iter().position(|of| of.name == name);
            let figure = figures.iter().find(|of| of.name == name);
            let (number, figure) = number.zip(figure).ok_or(LabCostError::Missing(name))?;
            let [low, high] = figure.bounds;
            Ok(low + (high - low) * at.get(number).copied().unwrap_or(0.5))
        };
        let kernel = value("port: kernel")?;
        let more = |of: f64| (of - kernel).max(0.0);
        let user = more(value("port: user space")?);
        let send = more(value("wake-up: polled")?);
        let both_busy = (CHUNK_NS as f64 / value("compute: beside")?).min(1.0);
        // Who holds the lock computes meanwhile.
        let [short, long] = [value("yield: 1000")?, value("yield: 4000")?].map(|ns| ns * both_busy);
        let pass = ((long - short) / f64::from(RETRIES[1] - RETRIES[0])).max(0.1);
        let yielding = more(short - pass * f64::from(RETRIES[0]));
        let mut machine = LabMachineCosts {
            costs: vec![
                ("exit", kernel / 2.0),
                ("entry", kernel / 2.0),
                ("eventfd", more(value("port: ioeventfd")?)),
                ("kernel_leave", user / 2.0),
                ("kernel_enter", user / 2.0),
                ("ipi_send", send),
                ("halt", user),
                ("switch", 0.0),
                ("wake_latency", 0.0),
                ("yielding", yielding),
                ("yield_fast", yielding),
                ("spin_pass", pass),
            ],
            slice: value("slice")?,
            granularity: 0.0,
            both_busy,
        };
        machine.settle(value)?;
        let waits = value("sleep: beside")? - value("sleep: alone")?;
        let mut best = f64::INFINITY;
        for granularity in GRANULARITIES_NS {
            let tried = LabMachineCosts { granularity, ..machine.clone() };
            let off = (tried.simulated("sleep: beside")? - tried.simulated("sleep: alone")? - waits).abs();
            if off < best {
                (best, machine.granularity) = (off, granularity);
            }
        }
        // Who is woken may take the CPU from whoever woke it, or not.
        machine.settle(value)?;
        Ok(machine)
    }

    /// Gives what is left of a ball's way to the cost that differs among the ways, with whatever the two do at the same time.
    fn settle(&mut self, value: impl Fn(&'static str) -> Result<f64, LabCostError>) -> Result<(), LabCostError> {
        for (name, cost) in BALLS.repeat(SETTLES) {
            let left = value(name)? - self.simulated(name)?;
            self.costs.iter_mut().filter(|of| of.0 == cost).for_each(|of| of.1 = (of.1 + left).max(0.0));
        }
        Ok(())
    }

    /// Gives a scenario these costs and no others.
    pub fn give(&self, scenario: &mut Scenario) {
        for (name, _) in exitscope_scenario::CostModel::ROWS {
            let ns = self.costs.iter().find(|of| of.0 == *name).map_or(0.0, |of| of.1);
            scenario.costs.get_mut(name).into_iter().for_each(|cost| cost.time = picos(ns));
        }
        scenario.host.scheduler.time_slice = picos(self.slice);
        scenario.host.scheduler.wakeup_granularity = picos(self.granularity);
        scenario.host.smt_speed = vec![1_000, (self.both_busy * 1e3).round() as u32];
    }

    /// What the simulator makes of an experiment whose figure is of work: nanoseconds.
    pub fn simulated(&self, name: &'static str) -> Result<f64, LabCostError> {
        let experiment = LAB_EXPERIMENTS.iter().find(|of| of.name == name).ok_or(LabCostError::Missing(name))?;
        let LabReading::PerWork(vm, things) = experiment.reading else { return Err(LabCostError::Missing(name)) };
        let mut scenario = experiment.scenario();
        self.give(&mut scenario);
        let (outcome, _) =
            run(&scenario, Unseen, Limits::default()).map_err(|source| LabCostError::Sim { name, source })?;
        let done: u64 = outcome.vms.iter().filter(|of| of.name == vm).map(|of| of.work.count).sum();
        Ok(scenario.duration.as_nanos() as f64 / (done.max(1) * u64::from(things)) as f64)
    }
}

fn picos(ns: f64) -> Picos {
    Picos((ns * 1e3).round() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn figures() -> Vec<LabCost> {
        let values = [2e3, 3e3, 12e3, 40e3, 30e3, 14e3, 20e3, 50e3, 3e6, 5.2e6, 7e6, 1.1e5];
        let of = |(experiment, ns): (&LabExperiment, f64)| LabCost {
            name: experiment.name.to_string(),
            ns,
            bounds: [ns * 0.98, ns * 1.02],
        };
        LAB_EXPERIMENTS.iter().zip(values).map(of).collect()
    }

    #[test]
    fn experiments_on_work_come_out_as_measured() {
        let figures = figures();
        let machine = LabMachineCosts::of(&figures, &[]).unwrap();
        let ports = ["port: kernel", "port: ioeventfd", "port: user space"];
        for name in ports.into_iter().chain(BALLS.map(|of| of.0)).chain(["compute: beside"]) {
            let measured = figures.iter().find(|of| of.name == name).unwrap().ns;
            let simulated = machine.simulated(name).unwrap();
            assert!((simulated / measured - 1.0).abs() < 0.02, "{name}: {measured} {simulated}");
        }
        let cost = |name| machine.costs.iter().find(|of| of.0 == name).unwrap().1;
        // Both CPUs are 0.91 times as fast.
        assert!((cost("spin_pass") - 9.1).abs() < 0.1 && (cost("yielding") - 7.1e3).abs() < 100.0);
    }

    #[test]
    fn whoever_waits_for_the_lock_yields() {
        for (retries, expected) in RETRIES.into_iter().zip([50_000.0, 20_000.0]) {
            let mut scenario = host_of(yields(retries).remove(0));
            LabMachineCosts::of(&figures(), &[]).unwrap().give(&mut scenario);
            let (outcome, _) = run(&scenario, Unseen, Limits::default()).unwrap();
            let made = outcome.yields.undirected + outcome.yields.fast;
            assert!((made as f64 / expected - 1.0).abs() < 0.05, "{retries}: {made} {expected}");
        }
    }

    #[test]
    fn a_draw_moves_each_figure_by_itself_and_a_missing_one_is_told() {
        let figures = figures();
        let at = |place: f64| LabMachineCosts::of(&figures, &[place; LAB_EXPERIMENTS.len()]).unwrap();
        assert!(at(0.0).costs[0].1 < at(1.0).costs[0].1);
        let error = LabMachineCosts::of(&figures[1..], &[]).unwrap_err();
        assert!(error.to_string().contains("port: kernel"), "{error}");
    }
}
