//! Yields as plain data.

use crate::halt::DurationStatsRow;
use crate::report::TimelineRows;
use exitscope_analysis::{Facts, PleCell, PreemptionStats, RunQueueStats, TargetCell, YieldStats};
use exitscope_model::{Preemption, TraceInfo, VcpuIdentity, WhoRow, YieldCall};
use exitscope_units::{Tid, VcpuId, VmId};
use schemars::JsonSchema;
use serde::Serialize;

/// vCPUs that wait for another and say so to the hypervisor; vCPUs that lost their CPU meanwhile; and how many wait for a
/// CPU. Where others were is known from scheduler events alone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct YieldRows {
    /// All yields of vCPUs that wait for somebody (not KVM_HC_KICK_CPU and H_PROD, which wake).
    pub all: YieldRow,
    /// The same by vCPU and call, most yields first.
    pub vcpus: Vec<YieldRow>,
    /// Yields that name a vCPU, by vCPU and call.
    pub targets: Vec<TargetRow>,
    /// Yields that name further vCPUs than are kept.
    pub other_targets: u64,
    /// vCPUs that lost their CPU though they wanted to run.
    pub preempted: Vec<PreemptedRow>,
    /// The sums over all preempted vCPUs.
    pub all_preempted: PreemptedRow,
    /// Those preemptions during which siblings waited longest, longest first.
    pub longest: Vec<PreemptionRow>,
    /// How windows of PAUSE loops changed, by VM.
    pub windows: Vec<PleWindowRow>,
    /// How many vCPUs waited for a CPU; absent without scheduler events.
    pub queue: Option<QueueRow>,
}

/// Yields of one vCPU by one call, or of all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct YieldRow {
    /// The vCPU; its fields are absent in a row of all vCPUs together.
    #[serde(flatten)]
    pub who: WhoRow,
    /// What it said: `PAUSE`, `WFE`, `X'44'`, `X'9C'`, `KVM_HC_SCHED_YIELD`, `H_CONFER`, `SCHEDOP_yield`, …; absent of all.
    pub call: Option<&'static str>,
    /// Whether who calls so waits for somebody; else it wakes one that waited for it.
    pub waits: bool,
    /// Number of yields.
    pub count: u64,
    /// Yields whose exit before was a yield as well.
    pub repeated: u64,
    /// Time in the guest between these: spinning, and what was done if the vCPU got what it waited for.
    pub between_repeats: DurationStatsRow,
    /// Yields at which a sibling had lost its CPU and waited for one.
    pub sibling_preempted: u64,
    /// Yields at which no sibling had, but one was woken and waited for a CPU.
    pub sibling_runnable: u64,
    /// Yields at which no sibling waited for a CPU.
    pub no_runnable_sibling: u64,
    /// Yields that gave the CPU to the vCPU that they named.
    pub gave_target: u64,
    /// Yields that gave it to another vCPU of the VM.
    pub gave_sibling: u64,
    /// Yields that gave it to another VM, or to no vCPU.
    pub gave_other: u64,
    /// Yields that gave it to nobody: the hypervisor ignored them, passed them on, or found nobody better.
    pub kept_cpu: u64,
    /// Time from exit to entry.
    pub exit_time: DurationStatsRow,
    /// Steal within it, in ns.
    pub steal_ns: u64,
}

/// Yields to one vCPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TargetRow {
    /// The vCPU that was named.
    #[serde(flatten)]
    pub who: WhoRow,
    /// The call that named it, as in `vcpus`.
    pub call: &'static str,
    /// Number of yields.
    pub count: u64,
    /// Yields at which it was on a CPU already.
    pub running: u64,
    /// Yields at which it was preempted: runnable, without a CPU.
    pub preempted: u64,
    /// Yields at which it had been woken, and waited for a CPU.
    pub runnable: u64,
    /// Yields at which it was halted.
    pub halted: u64,
    /// Yields at which the recording does not show what it did.
    pub unknown: u64,
}

/// How one vCPU lost its CPU though it wanted to run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PreemptedRow {
    /// The vCPU; its fields are absent in a row of all vCPUs together.
    #[serde(flatten)]
    pub who: WhoRow,
    /// How often it was preempted.
    pub preemptions: u64,
    /// Time from each preemption until it ran again.
    pub steal: DurationStatsRow,
    /// Preemptions during which siblings yielded.
    pub with_sibling_yields: u64,
    /// Yields of its siblings while it was preempted.
    pub yields: u64,
    /// Time from the first of these yields of each preemption until the vCPU ran.
    pub sibling_wait: DurationStatsRow,
}

/// One preemption.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PreemptionRow {
    /// The vCPU that was preempted.
    #[serde(flatten)]
    pub who: WhoRow,
    /// When it was preempted, in nanoseconds on the trace's clock.
    pub at_ns: u64,
    /// When a sibling first yielded, in nanoseconds on the trace's clock.
    pub first_yield_ns: u64,
    /// When it ran again, in nanoseconds on the trace's clock.
    pub ran_ns: u64,
    /// Yields of its siblings while it was preempted.
    pub yields: u32,
}

/// How windows of PAUSE loops changed: cycles on VMX, PAUSEs on SVM.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PleWindowRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// How often the window of a vCPU grew.
    pub grown: u64,
    /// How often the window of a vCPU shrank.
    pub shrunk: u64,
    /// The smallest window that a change had or left: cycles on VMX, PAUSEs on SVM.
    pub min: u32,
    /// The largest window that a change had or left: cycles on VMX, PAUSEs on SVM.
    pub max: u32,
}

/// How many vCPUs of all VMs could run and did not, for each CPU that runs vCPUs. Like a dispatch vector (PLDV) of z/VM.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QueueRow {
    /// Time in which that is known, summed over CPUs.
    pub span_ns: u64,
    /// Time in which none waited, one, two, …; the last is of as many and more.
    pub time_ns: Vec<u64>,
    /// How many waited for a CPU, on average over time and CPUs.
    pub mean: f64,
    /// Most at a time, for one CPU.
    pub max: u32,
    /// Over time, for one trace: `counts` are nanoseconds of each bucket, `cost_ns` nanoseconds times vCPUs that waited.
    pub timeline: Option<TimelineRows>,
}

impl YieldRows {
    /// The yields of these facts, if there are any, or if the scheduler's events tell at least who lost its CPU; `one`:
    /// the facts are of one trace.
    pub fn of(facts: &Facts, info: &TraceInfo, one: bool) -> Option<YieldRows> {
        let yields = &facts.yields;
        if yields.vcpus.is_empty() && yields.windows.is_empty() && yields.queue.span() == 0 {
            return None;
        }
        let mut all_preempted = PreemptionStats::default();
        yields.preempted.values().for_each(|cell| all_preempted.merge(cell));
        Some(YieldRows {
            all: YieldRow::of(WhoRow::default(), None, &yields.all(YieldCall::waits)),
            vcpus: yields
                .vcpus
                .iter()
                .map(|((who, call), cell)| YieldRow::of(WhoRow::of(*who, info), Some(*call), cell))
                .collect(),
            targets: yields
                .targets
                .iter()
                .map(|(&(vm, vcpu, call), cell)| TargetRow::of(vm, vcpu, call, cell, info))
                .collect(),
            other_targets: yields.other_targets,
            preempted: yields
                .preempted
                .iter()
                .map(|(who, cell)| PreemptedRow::of(WhoRow::of(*who, info), cell))
                .collect(),
            all_preempted: PreemptedRow::of(WhoRow::default(), &all_preempted),
            longest: yields.longest().iter().filter_map(|of| PreemptionRow::of(of, info)).collect(),
            windows: yields.windows.iter().map(|(vm, cell)| PleWindowRow::of(*vm, cell)).collect(),
            queue: (yields.queue.span() > 0).then(|| QueueRow::of(&yields.queue, one)),
        })
    }
}

impl YieldRow {
    fn of(who: WhoRow, call: Option<YieldCall>, cell: &YieldStats) -> YieldRow {
        let [gave_target, gave_sibling, gave_other, kept, _] = cell.gave;
        YieldRow {
            who,
            call: call.map(YieldCall::name),
            waits: call.is_none_or(YieldCall::waits),
            count: cell.count,
            repeated: cell.again,
            between_repeats: DurationStatsRow::of(&cell.between),
            sibling_preempted: cell.preempted,
            sibling_runnable: cell.woken,
            no_runnable_sibling: cell.nobody,
            gave_target,
            gave_sibling,
            gave_other,
            kept_cpu: kept,
            exit_time: DurationStatsRow::of(&cell.lasted),
            steal_ns: cell.waited,
        }
    }

    /// Yields of which it is known whether a sibling waited for a CPU.
    pub fn known(&self) -> u64 {
        self.sibling_preempted + self.sibling_runnable + self.no_runnable_sibling
    }
}

impl TargetRow {
    fn of(vm: VmId, vcpu: VcpuId, call: YieldCall, cell: &TargetCell, info: &TraceInfo) -> TargetRow {
        let [running, preempted, woken, asleep, unknown] = *cell;
        let who = WhoRow::of(VcpuIdentity { vm, vcpu, tid: Tid(0) }, info);
        TargetRow {
            who,
            call: call.name(),
            count: cell.iter().sum(),
            running,
            preempted,
            runnable: woken,
            halted: asleep,
            unknown,
        }
    }
}

impl PreemptedRow {
    fn of(who: WhoRow, cell: &PreemptionStats) -> PreemptedRow {
        PreemptedRow {
            who,
            preemptions: cell.count(),
            steal: DurationStatsRow::of(&cell.waits),
            with_sibling_yields: cell.yielded_for,
            yields: cell.yields,
            sibling_wait: DurationStatsRow::of(&cell.blocked),
        }
    }
}

impl PreemptionRow {
    fn of(of: &Preemption, info: &TraceInfo) -> Option<PreemptionRow> {
        Some(PreemptionRow {
            who: WhoRow::of(of.who, info),
            at_ns: of.at.as_nanos(),
            first_yield_ns: of.first?.as_nanos(),
            ran_ns: of.ran?.as_nanos(),
            yields: of.yields,
        })
    }
}

impl PleWindowRow {
    fn of(vm: VmId, cell: &PleCell) -> PleWindowRow {
        let PleCell { grown, shrunk, least, most } = *cell;
        PleWindowRow { vm: vm.number(), grown, shrunk, min: least, max: most }
    }
}

impl QueueRow {
    fn of(queue: &RunQueueStats, one: bool) -> QueueRow {
        let span = queue.span();
        QueueRow {
            span_ns: span,
            time_ns: queue.time.to_vec(),
            mean: queue.waited as f64 / span.max(1) as f64,
            max: queue.most,
            timeline: TimelineRows::of(&queue.timeline).filter(|_| one),
        }
    }
}
