//! A simulated run as plain data.

use crate::metric_row::MetricRow;
use crate::{SimCheck, UncertaintyReport};
use exitscope_scenario::outcome::{PollCounts, SimDurations, SimOutcome, VmOutcome, Work};
use exitscope_scenario::{Arch, CostModel, CostOrigin, HostSpec, Scenario, VmSpec};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What a simulated run measured, from the end of the warm-up on. All lengths are in nanoseconds of simulated time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// What ran.
    pub scenario: ScenarioRow,
    /// Whether the scenario is what a recording shows (`--check`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<SimCheck>,
    /// What of the figures hangs on the seed, and on assumed numbers (`--uncertainty`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<UncertaintyReport>,
    /// Events that the simulated machine went through, warm-up included.
    pub events: u64,
    /// Every figure by its name, as `exitscope sweep --metric` takes it.
    pub metrics: Vec<MetricRow>,
    /// The VMs, by description; copies together.
    pub vms: Vec<SimulatedVm>,
    /// Threads of the host that run programs, by description.
    pub threads: Vec<WorkRow>,
    /// Load from outside the host, as the clients see it.
    pub loads: Vec<WorkRow>,
    /// CPUs of the host that have something to run, on average; a halted vCPU for which the host polls is something.
    pub busy_cpus: f64,
    /// Share of time in which a CPU's queue of waiting tasks is empty, 0 to 1.
    pub queue_empty_share: f64,
    /// Mean number of tasks that wait for a CPU.
    pub queue_depth: f64,
    /// Polls of the host for a halted vCPU.
    pub host_polls: PollsRow,
    /// Polls of guests before they halt.
    pub guest_polls: PollsRow,
    /// Wake-ups of vCPUs that polled in their guests: their wakers sent no interrupt.
    pub ipis_spared: u64,
    /// Yields, by what became of them.
    pub yields: YieldsRow,
    /// Spinlocks of all VMs; absent if none was taken.
    pub locks: Option<LocksRow>,
    /// How often a vCPU waited for the lock of all devices in user space.
    pub big_lock_waits: u64,
    /// Instructions that were emulated for port accesses.
    pub emulations: u64,
}

/// A scenario, as far as it says what ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScenarioRow {
    /// Its file; `-` is standard input.
    pub file: String,
    /// The name that the file gives it.
    pub name: String,
    /// What the file says that it stands for.
    pub description: String,
    /// Values set on the command line, as they were given.
    pub set: Vec<String>,
    /// The seed of all random numbers: with the same one, a run is the same.
    pub seed: u64,
    /// Simulated time before measuring began.
    pub warmup_ns: u64,
    /// Simulated time that was measured.
    pub duration_ns: u64,
    /// `vmx`, `svm`, `powerpc` or `s390`.
    pub arch: &'static str,
    /// Sockets of the host.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores: u32,
    /// Hardware threads of each core.
    pub threads: u32,
    /// Number of VMs.
    pub vms: u64,
    /// Number of vCPUs of all VMs together.
    pub vcpus: u64,
    /// The cost model that the run took its costs from.
    pub costs: CostsRow,
}

/// A cost model, and how its numbers are known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CostsRow {
    /// The name that the file gives it.
    pub name: String,
    /// Numbers printed in a publication.
    pub published: usize,
    /// Numbers fitted to published figures.
    pub calibrated: usize,
    /// Numbers of the right size only.
    pub assumed: usize,
}

/// VMs of one description.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulatedVm {
    /// Work done.
    #[serde(flatten)]
    pub work: WorkRow,
    /// Number of VMs of this description.
    pub copies: u32,
    /// Number of vCPUs of each of these VMs.
    pub vcpus: u32,
    /// Whether its kernel has spinlocks.
    pub locks: bool,
    /// Exits of all its vCPUs.
    pub exits: u64,
    /// The same by reason, most first.
    pub reasons: Vec<ReasonRow>,
    /// Runs of virtual cores that ended with at least two threads that did not want to; absent where the threads of a
    /// core are not ganged.
    pub gang_exits: Option<u64>,
    /// The same as the script of 2015 counts them.
    pub gang_exits_by_script: Option<u64>,
    /// Time of all its vCPUs together, of which the following are the parts.
    pub span_ns: u64,
    /// In the guest, working. With `spinning_ns` and `guest_polling_ns` it is what a recording shows as guest.
    pub guest_ns: u64,
    /// In the guest, spinning for a lock.
    pub spinning_ns: u64,
    /// In the guest, polling before it halts.
    pub guest_polling_ns: u64,
    /// The host polls for a wake-up before it blocks the halted vCPU: CPU time.
    pub polling_ns: u64,
    /// In an exit, in the hypervisor.
    pub kernel_ns: u64,
    /// In an exit, in user space, on a CPU.
    pub user_space_ns: u64,
    /// Blocked because the guest halted: from the block to the wake-up.
    pub halted_ns: u64,
    /// Runnable, without a CPU.
    pub steal_ns: u64,
    /// In an exit, asleep for a device model's answer or a lock in user space. With `user_space_ns` it is what a recording shows
    /// as user space.
    pub user_space_asleep_ns: u64,
}

/// Work done, and how long it took.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkRow {
    /// Whose: the name of a VM, a thread or a channel.
    pub name: String,
    /// Pieces of work that were done while measuring.
    pub done: u64,
    /// The same for each second.
    pub throughput_per_s: f64,
    /// From start to end of each; absent if the program does not say where these are.
    pub latency: Option<LatencyRow>,
}

/// Lengths.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencyRow {
    /// Number of lengths.
    pub count: u64,
    /// Mean length.
    pub mean_ns: f64,
    /// Median length, in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// Exits for one reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReasonRow {
    /// What the guest did, or what happened to it.
    pub reason: &'static str,
    /// Number of exits for this reason.
    pub count: u64,
    /// Exits a second.
    pub rate_per_s: f64,
}

/// Polls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PollsRow {
    /// Number of polls.
    pub attempted: u64,
    /// How many of them ended because there was something to do.
    pub successful: u64,
}

/// Yields.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct YieldsRow {
    /// Diagnose X'44' on the fast path.
    pub fast: u64,
    /// Yields without a target.
    pub undirected: u64,
    /// Yields to a target that then ran.
    pub directed: u64,
    /// Yields that had no effect.
    pub ignored: u64,
}

/// Spinlocks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LocksRow {
    /// How often a lock was taken.
    pub taken: u64,
    /// How often another vCPU held the lock when it was wanted.
    pub contended: u64,
    /// How long vCPUs waited for contended locks; absent if none did.
    pub wait: Option<LatencyRow>,
}

impl SimReport {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.sim/1";

    /// Plain data of an outcome.
    pub fn of(outcome: &SimOutcome, scenario: &Scenario, row: ScenarioRow) -> SimReport {
        let time = outcome.time;
        let loads = outcome.loads.iter().zip(&scenario.loads).map(|(latency, load)| {
            let name = scenario.channels.get(load.channel).map_or("?", |channel| &channel.name);
            WorkRow::of(name, latency.total(), latency, time)
        });
        let work = |name: &str, work: &Work| WorkRow::of(name, work.count, &work.latency, time);
        let vms = outcome.vms.iter().zip(&scenario.vms);
        let vms = vms.map(|(vm, spec)| SimulatedVm::of(vm, spec, scenario.host.ganged, time));
        let metric = |metric: exitscope_scenario::outcome::Metric| MetricRow {
            name: metric.name,
            value: metric.value,
            unit: metric.measure.into(),
            measure: metric.measure,
        };
        let polls = |polls: PollCounts| PollsRow { attempted: polls.tried, successful: polls.paid };
        let (yields, locks) = (outcome.yields, &outcome.locks);
        SimReport {
            schema: SimReport::SCHEMA,
            scenario: row,
            check: None,
            uncertainty: None,
            events: outcome.events,
            metrics: outcome.metrics(scenario).into_iter().map(metric).collect(),
            vms: vms.collect(),
            threads: outcome.threads.iter().zip(&scenario.threads).map(|(of, spec)| work(&spec.name, of)).collect(),
            loads: loads.collect(),
            busy_cpus: outcome.busy_cpus,
            queue_empty_share: outcome.queues.empty,
            queue_depth: outcome.queues.depth,
            host_polls: polls(outcome.host_polls),
            guest_polls: polls(outcome.guest_polls),
            ipis_spared: outcome.ipis_spared,
            yields: YieldsRow {
                fast: yields.fast,
                undirected: yields.undirected,
                directed: yields.directed,
                ignored: yields.ignored,
            },
            locks: (locks.taken > 0).then(|| LocksRow {
                taken: locks.taken,
                contended: locks.contended,
                wait: LatencyRow::of(&locks.wait),
            }),
            big_lock_waits: outcome.big_lock_waits,
            emulations: outcome.emulations,
        }
    }
}

impl SimulatedVm {
    /// Plain data of the VMs of one description.
    fn of(vm: &VmOutcome, spec: &VmSpec, ganged: bool, time: Nanos) -> SimulatedVm {
        let exit = |&(reason, count): &(&'static str, u64)| {
            let rate_per_s = per_second(count, time);
            ReasonRow { reason, count, rate_per_s }
        };
        let mut reasons: Vec<ReasonRow> = vm.exits.iter().map(exit).collect();
        reasons.sort_by_key(|row| std::cmp::Reverse(row.count));
        SimulatedVm {
            work: WorkRow::of(&vm.name, vm.work.count, &vm.work.latency, time),
            copies: spec.copies,
            vcpus: spec.vcpus,
            locks: !spec.locks.is_empty(),
            exits: reasons.iter().map(|row| row.count).sum(),
            reasons,
            gang_exits: ganged.then_some(vm.gang_exits),
            gang_exits_by_script: ganged.then_some(vm.gang_exits_by_script),
            span_ns: time.0 * u64::from(spec.copies) * u64::from(spec.vcpus),
            guest_ns: vm.time.guest.0,
            spinning_ns: vm.time.spinning.0,
            guest_polling_ns: vm.time.guest_polling.0,
            polling_ns: vm.time.polling.0,
            kernel_ns: vm.time.kernel.0,
            user_space_ns: vm.time.user.0,
            halted_ns: vm.time.halted.0,
            steal_ns: vm.time.steal.0,
            user_space_asleep_ns: vm.time.blocked.0,
        }
    }
}

impl ScenarioRow {
    /// Plain data of a scenario out of `file`, changed by `set`.
    pub fn of(scenario: &Scenario, file: String, set: Vec<String>) -> ScenarioRow {
        let HostSpec { sockets, cores, threads, arch, .. } = scenario.host;
        ScenarioRow {
            file,
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            set,
            seed: scenario.seed,
            warmup_ns: scenario.warmup.as_nanos(),
            duration_ns: scenario.duration.as_nanos(),
            arch: match arch {
                Arch::Vmx => "vmx",
                Arch::Svm => "svm",
                Arch::Powerpc => "powerpc",
                Arch::S390 => "s390",
            },
            sockets,
            cores,
            threads,
            vms: scenario.vms.iter().map(|vm| u64::from(vm.copies)).sum(),
            vcpus: scenario.vms.iter().map(|vm| u64::from(vm.copies) * u64::from(vm.vcpus)).sum(),
            costs: CostsRow::of(&scenario.costs),
        }
    }
}

impl CostsRow {
    fn of(costs: &CostModel) -> CostsRow {
        let known = |origin| {
            let costs = CostModel::ROWS.iter().filter_map(|(name, _)| costs.get(name));
            costs.filter(|cost| cost.origin == origin).count()
        };
        CostsRow {
            name: costs.name.clone(),
            published: known(CostOrigin::Published),
            calibrated: known(CostOrigin::Calibrated),
            assumed: known(CostOrigin::Assumed),
        }
    }
}

impl WorkRow {
    fn of(name: &str, done: u64, latency: &SimDurations, time: Nanos) -> WorkRow {
        let latency = LatencyRow::of(latency);
        WorkRow { name: name.to_string(), done, throughput_per_s: per_second(done, time), latency }
    }
}

impl LatencyRow {
    fn of(times: &SimDurations) -> Option<LatencyRow> {
        Some(LatencyRow {
            count: times.total(),
            mean_ns: times.mean()?,
            p50_ns: times.quantile(5_000)?,
            p90_ns: times.quantile(9_000)?,
            p99_ns: times.quantile(9_900)?,
        })
    }
}

impl YieldsRow {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.fast + self.undirected + self.directed + self.ignored
    }
}

fn per_second(count: u64, time: Nanos) -> f64 {
    count as f64 * 1e9 / time.0 as f64
}
