//! What a run of a scenario measured, as plain data, and as a flat list of named figures: for tables, sweeps and comparisons.

use crate::Scenario;
use exitscope_stats::Histogram;
use exitscope_units::Nanos;

/// What a run measured, from the end of the warm-up on.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOutcome {
    /// How long was measured.
    pub time: Nanos,
    /// Events that the machine went through, warm-up included.
    pub events: u64,
    /// By description of VMs, in the scenario's order.
    pub vms: Vec<VmOutcome>,
    /// By description of the host's threads.
    pub threads: Vec<Work>,
    /// Times from request to answer as clients outside see them, in nanoseconds, by load.
    pub loads: Vec<SimDurations>,
    /// The CPUs' queues.
    pub queues: Queues,
    /// How many of the scheduler's CPUs have a task to run, on average; a vCPU for which the host polls is one.
    pub busy_cpus: f64,
    /// Host halt polls, and how many of them made sleeping unnecessary.
    pub host_polls: PollCounts,
    /// Guest halt polls, and how many of them made halting unnecessary.
    pub guest_polls: PollCounts,
    /// Wake-ups of a vCPU that polled in its guest: its waker sent no interrupt.
    pub ipis_spared: u64,
    /// Yields, by what became of them.
    pub yields: SimYields,
    /// Spinlocks.
    pub locks: Locks,
    /// How often a vCPU waited for the lock of all devices in user space.
    pub big_lock_waits: u64,
    /// Instructions that were emulated for port accesses.
    pub emulations: u64,
}

/// Lengths of time: how they are spread, and their exact mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimDurations {
    /// In nanoseconds.
    pub histogram: Histogram,
    /// Their sum, in picoseconds.
    sum: u128,
}

impl SimDurations {
    /// Records one, in picoseconds.
    pub fn record(&mut self, picos: u64) {
        self.histogram.record(picos / 1_000);
        self.sum += u128::from(picos);
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.histogram.total()
    }

    /// Their mean in nanoseconds; `None` of none.
    pub fn mean(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.sum as f64 / 1_000.0 / total as f64)
    }

    /// The length in nanoseconds at or below which `per_10_000 / 10,000` of all are.
    pub fn quantile(&self, per_10_000: u64) -> Option<u64> {
        self.histogram.quantile(per_10_000)
    }
}

/// Work done, and how long it took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// How often a program came by `Count`.
    pub count: u64,
    /// From `Start` to `Stop`, in nanoseconds.
    pub latency: SimDurations,
}

/// What was measured of the VMs of one description, all copies together.
#[derive(Clone, Debug, PartialEq)]
pub struct VmOutcome {
    /// Their name.
    pub name: String,
    /// Work done.
    pub work: Work,
    /// How often vCPUs left the guest, by reason: its name and the number.
    pub exits: Vec<(&'static str, u64)>,
    /// Runs of virtual cores that ended with at least two threads that did not want to.
    pub gang_exits: u64,
    /// The same as the script of 2015 counts them.
    pub gang_exits_by_script: u64,
    /// From an exit to the wake-up of the device model's task, in nanoseconds.
    pub to_device_model: SimDurations,
    /// Where the vCPUs' time went.
    pub time: SimVcpuTime,
}

/// Where vCPUs' time went, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimVcpuTime {
    /// In the guest, working.
    pub guest: Nanos,
    /// In the guest, spinning for a lock.
    pub spinning: Nanos,
    /// In the guest, polling before it halts.
    pub guest_polling: Nanos,
    /// Halted, and the host polls for a wake-up: CPU time.
    pub polling: Nanos,
    /// In the hypervisor.
    pub kernel: Nanos,
    /// In user space.
    pub user: Nanos,
    /// Blocked because the guest halted.
    pub halted: Nanos,
    /// Runnable, without a CPU.
    pub steal: Nanos,
    /// Waiting for a device model, or a lock in user space.
    pub blocked: Nanos,
}

impl SimVcpuTime {
    /// The time in which they have a CPU.
    pub fn cpu(&self) -> Nanos {
        let parts = [self.guest, self.spinning, self.guest_polling, self.polling, self.kernel, self.user];
        Nanos(parts.iter().map(|part| part.0).sum())
    }
}

/// Tries, and those that paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollCounts {
    /// How many there were.
    pub tried: u64,
    /// How many paid.
    pub paid: u64,
}

/// The CPUs' queues of waiting tasks (z/VM: the processor local dispatch vectors).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queues {
    /// Share of time in which a CPU's queue is empty, 0 to 1.
    pub empty: f64,
    /// Mean number of waiting tasks.
    pub depth: f64,
}

/// Yields, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimYields {
    /// Diagnose X'44' on the fast path.
    pub fast: u64,
    /// Without a target.
    pub undirected: u64,
    /// To a target that was run.
    pub directed: u64,
    /// That did nothing.
    pub ignored: u64,
    /// That named their target (X'9C', H_CONFER), whatever became of them; counted above, too.
    pub named: u64,
}

/// Spinlocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Locks {
    /// How often one was taken.
    pub taken: u64,
    /// How often somebody had it.
    pub contended: u64,
    /// How long those waited, in nanoseconds.
    pub wait: SimDurations,
}

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeUnit {
    /// Things a second.
    PerSecond,
    /// Nanoseconds.
    Nanos,
    /// A part of a whole, 0 to 1.
    Share,
    /// A number of things.
    Count,
}

/// One figure of an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name: `web.throughput`, `web.exits.halt`, `queues.empty`, …
    pub name: String,
    /// Its value.
    pub value: f64,
    /// What it is measured in.
    pub measure: OutcomeUnit,
    /// Whether more of it is better, or less; none where neither is.
    pub higher_is_better: Option<bool>,
}

/// More of it is better: work, and polls that succeed. Less is: what costs or delays. Neither: what guests do with their time,
/// what queues hold, how yields divide.
const MORE: Option<bool> = Some(true);
const LESS: Option<bool> = Some(false);
const NEITHER: Option<bool> = None;

/// The names of figures, and what they mean: rates are a second, shares 0 to 1, times in nanoseconds. `<vm>` stands for
/// the name of a VM, and so on.
pub const FIGURES: &[(&str, &str)] = &[
    ("`throughput`", "`Count`s a second, of all VMs and threads together"),
    ("`throughput_per_cpu`", "The same for each second of CPU time that anything took on the host"),
    ("`<vm>.throughput`, `<thread>.throughput`", "Of those of this name, all copies together"),
    ("`<vm>.latency_mean`, `_p50`, `_p90`, `_p99`", "From `Start` to `Stop`"),
    ("`<vm>.exits`, `<vm>.exits.<reason>`", "Exits a second"),
    ("`<vm>.gang_exits`, `<vm>.gang_exits_by_script`", "Ganged exits a second, by either rule"),
    ("`<vm>.to_device_model_mean`", "From an exit to the wake-up of the device model's task"),
    (
        "`<vm>.guest`, `.spinning`, `.guest_polling`, `.polling`, `.kernel`, `.user_space`, `.halted`, `.steal`, `.user_space_asleep`",
        "Shares of vCPU time. `polling` is the host's, for a halted vCPU; `user_space_asleep` waits for a device model's answer or a lock there",
    ),
    (
        "`<vm>.cpu`",
        "vCPUs that have a CPU, on average: `guest`, `spinning`, `guest_polling`, `polling`, `kernel` and `user_space`",
    ),
    ("`load.<channel>.latency_*`, `load.<channel>.throughput`", "As clients outside see them"),
    ("`cpus.busy`", "CPUs that have something to run, on average; the host's polling and devices' threads count"),
    ("`queues.empty`, `queues.depth`", "Share of time with an empty queue; mean waiting tasks of a CPU"),
    ("`yields`, `yields.fast`, `.undirected`, `.directed`, `.ignored`", "A second"),
    ("`yields.fast_share`, `yields.directed_share`", "Of all yields"),
    ("`yields.named_share`", "Yields that named a target, whatever became of them, of all"),
    ("`locks.contended_share`, `locks.wait_mean`", "Spinlocks"),
    ("`host_polls.success_share`, `guest_polls.success_share`", "Polls that a wake-up ended before the vCPU blocked"),
    ("`ipis_spared`", "Wake-ups of vCPUs that polled, which needed no interrupt, a second"),
    ("`big_lock_waits`", "A second"),
];

impl SimOutcome {
    /// All figures, in a fixed order. A latency or share of which nothing was seen is left out, so that no figure is
    /// made up.
    /// [`FIGURES`] says what they mean.
    pub fn metrics(&self, scenario: &Scenario) -> Vec<Metric> {
        let mut list = List { metrics: Vec::new(), seconds: self.time.0 as f64 / 1e9 };
        let done = self.vms.iter().map(|vm| &vm.work).chain(&self.threads).map(|work| work.count).sum::<u64>();
        list.rate("throughput", done, MORE);
        if self.busy_cpus > 0.0 {
            let per_s = done as f64 / list.seconds;
            list.push("throughput_per_cpu", per_s / self.busy_cpus, OutcomeUnit::PerSecond, MORE);
        }
        for (vm, spec) in self.vms.iter().zip(&scenario.vms) {
            let name = &vm.name;
            list.rate(&format!("{name}.throughput"), vm.work.count, MORE);
            list.latency(name, &vm.work.latency);
            list.rate(&format!("{name}.exits"), vm.exits.iter().map(|(_, count)| count).sum(), LESS);
            for (reason, count) in &vm.exits {
                list.rate(&format!("{name}.exits.{}", word(reason)), *count, LESS);
            }
            if scenario.host.ganged {
                list.rate(&format!("{name}.gang_exits"), vm.gang_exits, LESS);
                list.rate(&format!("{name}.gang_exits_by_script"), vm.gang_exits_by_script, LESS);
            }
            list.mean(&format!("{name}.to_device_model_mean"), &vm.to_device_model);
            let whole = self.time.0 as f64 * f64::from(spec.copies) * f64::from(spec.vcpus);
            let t = &vm.time;
            let parts = [
                ("guest", t.guest, NEITHER),
                ("spinning", t.spinning, LESS),
                ("guest_polling", t.guest_polling, LESS),
                ("polling", t.polling, LESS),
                ("kernel", t.kernel, LESS),
                ("user_space", t.user, LESS),
                ("halted", t.halted, NEITHER),
                ("steal", t.steal, LESS),
                ("user_space_asleep", t.blocked, LESS),
            ];
            for (part, time, better) in parts {
                list.share(&format!("{name}.{part}"), time.0 as f64, whole, better);
            }
            list.push(&format!("{name}.cpu"), t.cpu().0 as f64 / self.time.0 as f64, OutcomeUnit::Count, LESS);
        }
        for (thread, spec) in self.threads.iter().zip(&scenario.threads) {
            list.rate(&format!("{}.throughput", spec.name), thread.count, MORE);
            list.latency(&spec.name, &thread.latency);
        }
        for (latency, spec) in self.loads.iter().zip(&scenario.loads) {
            let name = scenario.channels.get(spec.channel).map_or("?", |channel| &channel.name);
            list.rate(&format!("load.{name}.throughput"), latency.total(), MORE);
            list.latency(&format!("load.{name}"), latency);
        }
        list.push("cpus.busy", self.busy_cpus, OutcomeUnit::Count, LESS);
        list.push("queues.empty", self.queues.empty, OutcomeUnit::Share, NEITHER);
        list.push("queues.depth", self.queues.depth, OutcomeUnit::Count, NEITHER);
        let y = &self.yields;
        let yields = y.fast + y.undirected + y.directed + y.ignored;
        list.rate("yields", yields, LESS);
        for (kind, count) in
            [("fast", y.fast), ("undirected", y.undirected), ("directed", y.directed), ("ignored", y.ignored)]
        {
            list.rate(&format!("yields.{kind}"), count, LESS);
        }
        list.share("yields.fast_share", y.fast as f64, yields as f64, NEITHER);
        list.share("yields.directed_share", y.directed as f64, yields as f64, NEITHER);
        list.share("yields.named_share", y.named as f64, yields as f64, NEITHER);
        list.share("locks.contended_share", self.locks.contended as f64, self.locks.taken as f64, LESS);
        list.mean("locks.wait_mean", &self.locks.wait);
        list.share("host_polls.success_share", self.host_polls.paid as f64, self.host_polls.tried as f64, MORE);
        list.share("guest_polls.success_share", self.guest_polls.paid as f64, self.guest_polls.tried as f64, MORE);
        list.rate("ipis_spared", self.ipis_spared, MORE);
        list.rate("big_lock_waits", self.big_lock_waits, LESS);
        list.metrics
    }
}

/// A reason's name as part of a figure's: small letters, one word.
fn word(reason: &str) -> String {
    let letters = reason.chars().filter(|c| !matches!(c, '\''));
    letters.map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

struct List {
    metrics: Vec<Metric>,
    seconds: f64,
}

impl List {
    fn push(&mut self, name: &str, value: f64, measure: OutcomeUnit, higher_is_better: Option<bool>) {
        self.metrics.push(Metric { name: name.to_string(), value, measure, higher_is_better });
    }

    fn rate(&mut self, name: &str, count: u64, higher_is_better: Option<bool>) {
        self.push(name, count as f64 / self.seconds, OutcomeUnit::PerSecond, higher_is_better);
    }

    fn share(&mut self, name: &str, part: f64, whole: f64, higher_is_better: Option<bool>) {
        if whole > 0.0 {
            self.push(name, part / whole, OutcomeUnit::Share, higher_is_better);
        }
    }

    fn mean(&mut self, name: &str, times: &SimDurations) {
        if let Some(mean) = times.mean() {
            self.push(name, mean, OutcomeUnit::Nanos, LESS);
        }
    }

    fn latency(&mut self, name: &str, times: &SimDurations) {
        self.mean(&format!("{name}.latency_mean"), times);
        for (suffix, per_10_000) in [("p50", 5_000), ("p90", 9_000), ("p99", 9_900)] {
            if let Some(value) = times.quantile(per_10_000) {
                self.push(&format!("{name}.latency_{suffix}"), value as f64, OutcomeUnit::Nanos, LESS);
            }
        }
    }
}
