//! Yields: who waits for whom, who was preempted meanwhile, and how many vCPUs wait for CPUs.
//!
//! ```text
//! Yield{call, target, found, gave} ───► by vCPU and call, by target
//! Preemption{yields, first, ran} ─────► by vCPU: how long siblings spun for one that had lost its CPU
//! RunQueueInterval{waiting, from, to} ► time by depth of the run queue, depth over time
//! ```
//!
//! That siblings yield while a vCPU is preempted is what the preemption of a lock's holder looks like; which of several it
//! was, and whether it held anything, no trace says.

use crate::{DurationStats, MAX_KEYS, Timeline};
use exitscope_model::{PleUpdate, Preemption, RunQueueInterval, VcpuIdentity, Yield, YieldCall};
use exitscope_units::{Nanos, VcpuId, VmId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Depths of the run queue that are told apart; the last is also of all that are deeper.
pub const DEPTHS: usize = 9;

/// Buckets of the depth over time at most.
const BUCKETS: u64 = 56;

/// Preemptions that are kept one by one.
const LONGEST: usize = 8;

/// Yields of one vCPU by one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct YieldStats {
    /// Number of yields.
    pub count: u64,
    /// Those whose exit before was a yield as well; none of calls that wake.
    pub again: u64,
    /// Time in the guest between them.
    pub between: DurationStats,
    /// Those at which a sibling had lost its CPU and waited for one.
    pub preempted: u64,
    /// Those at which no sibling had, but one was woken and waited for a CPU.
    pub woken: u64,
    /// Those at which no sibling waited for a CPU: whoever was waited for ran, or slept.
    pub nobody: u64,
    /// To whom the CPU went, in the order of [`YieldRecipient`](exitscope_model::YieldRecipient).
    pub gave: [u64; 5],
    /// From exit to entry.
    pub lasted: DurationStats,
    /// Steal within it, in ns.
    pub waited: u64,
}

/// Yields to one vCPU, by where it was, in the order of [`TargetState`](exitscope_model::TargetState).
pub type TargetCell = [u64; 5];

/// How one vCPU lost its CPU though it wanted to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreemptionStats {
    /// From there until it ran again.
    pub waits: DurationStats,
    /// Those that nobody saw the end of.
    pub cut: u64,
    /// Those during which siblings yielded.
    pub yielded_for: u64,
    /// Yields of siblings meanwhile.
    pub yields: u64,
    /// From the first of them until the vCPU ran.
    pub blocked: DurationStats,
}

/// How windows of PAUSE loops changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleCell {
    /// How often one grew.
    pub grown: u64,
    /// How often one shrank.
    pub shrunk: u64,
    /// The smallest: cycles on VMX, PAUSEs on SVM.
    pub least: u32,
    /// The largest.
    pub most: u32,
}

/// How many vCPUs wait for each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunQueueStats {
    /// Time by how many waited, summed over CPUs; the last is of as many and more.
    pub time: [u64; DEPTHS],
    /// The sum of waiting times: nanoseconds times vCPUs.
    pub waited: u64,
    /// Most at a time, for one CPU.
    pub most: u32,
    /// Of each bucket: nanoseconds (count), nanoseconds times vCPUs (cost).
    pub timeline: Timeline,
}

impl Default for RunQueueStats {
    fn default() -> RunQueueStats {
        RunQueueStats { time: [0; DEPTHS], waited: 0, most: 0, timeline: Timeline::of_at_most(BUCKETS) }
    }
}

/// The yields of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct YieldFacts {
    /// By vCPU and call.
    pub vcpus: BTreeMap<(VcpuIdentity, YieldCall), YieldStats>,
    /// By the vCPU that was named, and call.
    pub targets: BTreeMap<(VmId, VcpuId, YieldCall), TargetCell>,
    /// Yields to further vCPUs than are kept.
    pub other_targets: u64,
    /// vCPUs that lost their CPU.
    pub preempted: BTreeMap<VcpuIdentity, PreemptionStats>,
    /// Those during which siblings waited longest, longest first.
    longest: Vec<Preemption>,
    /// Windows of PAUSE loops, by VM.
    pub windows: BTreeMap<VmId, PleCell>,
    /// The run queue.
    pub queue: RunQueueStats,
}

/// From the first yield of a sibling until a vCPU that was preempted ran.
fn blocked(of: &Preemption) -> Option<Nanos> {
    of.ran?.since(of.first?)
}

impl YieldFacts {
    /// Adds one yield.
    pub fn absorb(&mut self, of: &Yield) {
        self.vcpus.entry((of.who, of.call)).or_default().absorb(of);
        let Some(target) = of.target else { return };
        let key = (of.who.vm, target, of.call);
        if self.targets.len() >= MAX_KEYS && !self.targets.contains_key(&key) {
            self.other_targets += 1;
            return;
        }
        self.targets.entry(key).or_default()[of.target_state as usize] += 1;
    }

    /// Adds one preemption.
    pub fn absorb_preemption(&mut self, of: &Preemption) {
        let cell = self.preempted.entry(of.who).or_default();
        match of.waited() {
            Some(waited) => cell.waits.record(waited),
            None => cell.cut += 1,
        }
        cell.yields += u64::from(of.yields);
        cell.yielded_for += u64::from(of.yields > 0);
        if let Some(blocked) = blocked(of) {
            cell.blocked.record(blocked);
            self.keep(*of);
        }
    }

    fn keep(&mut self, of: Preemption) {
        let key = |of: &Preemption| (Reverse(blocked(of)), of.at, of.who);
        let place = self.longest.partition_point(|known| key(known) < key(&of));
        if place < LONGEST {
            self.longest.insert(place, of);
            self.longest.truncate(LONGEST);
        }
    }

    /// Adds a change of a window of PAUSE loops.
    pub fn absorb_window(&mut self, of: &PleUpdate) {
        let new = PleCell {
            grown: u64::from(of.new > of.old),
            shrunk: u64::from(of.new < of.old),
            least: of.new.min(of.old),
            most: of.new.max(of.old),
        };
        self.windows.entry(of.who.vm).and_modify(|cell| cell.merge(&new)).or_insert(new);
    }

    /// Adds a stay of the run queue.
    #[inline]
    pub fn absorb_stay(&mut self, stay: &RunQueueInterval) {
        let length = stay.to.since(stay.from).unwrap_or_default().0;
        let waited = length.saturating_mul(u64::from(stay.waiting));
        let queue = &mut self.queue;
        // A damaged recording may go to and fro between moments that are centuries apart.
        let time = &mut queue.time[(stay.waiting as usize).min(DEPTHS - 1)];
        *time = time.saturating_add(length);
        queue.waited = queue.waited.saturating_add(waited);
        queue.most = queue.most.max(stay.waiting);
        queue.timeline.spread(stay.from, stay.to, u64::from(stay.waiting));
    }

    /// Those preemptions during which siblings waited longest.
    pub fn longest(&self) -> &[Preemption] {
        &self.longest
    }

    /// All yields of these calls together.
    pub fn all(&self, of: impl Fn(YieldCall) -> bool) -> YieldStats {
        let mut all = YieldStats::default();
        self.vcpus.iter().filter(|((_, call), _)| of(*call)).for_each(|(_, cell)| all.merge(cell));
        all
    }

    /// Gives vCPUs the names that were found out later.
    pub(crate) fn complete(&mut self, named: impl Fn(VcpuIdentity) -> VcpuIdentity) {
        for ((who, call), cell) in std::mem::take(&mut self.vcpus) {
            self.vcpus.entry((named(who), call)).or_default().merge(&cell);
        }
        for (who, cell) in std::mem::take(&mut self.preempted) {
            self.preempted.entry(named(who)).or_default().merge(&cell);
        }
        for of in std::mem::take(&mut self.longest) {
            self.keep(Preemption { who: named(of.who), ..of });
        }
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &YieldFacts) {
        let YieldFacts { vcpus, targets, other_targets, preempted, longest, windows, queue } = other;
        for (key, cell) in vcpus {
            self.vcpus.entry(*key).or_default().merge(cell);
        }
        for (key, cell) in targets {
            add(self.targets.entry(*key).or_default(), cell);
        }
        self.other_targets += other_targets;
        for (who, cell) in preempted {
            self.preempted.entry(*who).or_default().merge(cell);
        }
        longest.iter().for_each(|of| self.keep(*of));
        for (vm, cell) in windows {
            self.windows.entry(*vm).and_modify(|known| known.merge(cell)).or_insert(*cell);
        }
        self.queue.merge(queue);
    }
}

impl YieldStats {
    fn absorb(&mut self, of: &Yield) {
        self.count += 1;
        if of.again && of.call.waits() {
            self.again += 1;
            self.between.record(of.guest);
        }
        if let Some(found) = of.found {
            let by = match (found.preempted, found.woken) {
                (0, 0) => &mut self.nobody,
                (0, _) => &mut self.woken,
                _ => &mut self.preempted,
            };
            *by += 1;
        }
        self.gave[of.recipient as usize] += 1;
        if let Some(length) = of.entered.and_then(|entered| entered.since(of.at)) {
            self.lasted.record(length);
        }
        self.waited = self.waited.saturating_add(of.waited.0);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &YieldStats) {
        let YieldStats { count, again, between, preempted, woken, nobody, gave, lasted, waited } = other;
        self.count += count;
        self.again += again;
        self.between.merge(between);
        self.preempted += preempted;
        self.woken += woken;
        self.nobody += nobody;
        add(&mut self.gave, gave);
        self.lasted.merge(lasted);
        self.waited = self.waited.saturating_add(*waited);
    }

    /// Those of which it is known whether a sibling waited for a CPU.
    pub fn known(&self) -> u64 {
        self.preempted + self.woken + self.nobody
    }
}

impl PreemptionStats {
    /// Adds what another holds.
    pub fn merge(&mut self, other: &PreemptionStats) {
        let PreemptionStats { waits, cut, yielded_for, yields, blocked } = other;
        self.waits.merge(waits);
        self.cut += cut;
        self.yielded_for += yielded_for;
        self.yields += yields;
        self.blocked.merge(blocked);
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.waits.count + self.cut
    }
}

impl PleCell {
    fn merge(&mut self, other: &PleCell) {
        let PleCell { grown, shrunk, least, most } = other;
        self.grown += grown;
        self.shrunk += shrunk;
        self.least = self.least.min(*least);
        self.most = self.most.max(*most);
    }
}

impl RunQueueStats {
    fn merge(&mut self, other: &RunQueueStats) {
        let RunQueueStats { time, waited, most, timeline } = other;
        add(&mut self.time, time);
        self.waited = self.waited.saturating_add(*waited);
        self.most = self.most.max(*most);
        self.timeline.merge(timeline);
    }

    /// Time in which it is known how many waited, in nanoseconds, summed over CPUs.
    pub fn span(&self) -> u64 {
        self.time.iter().fold(0, |sum, &time| sum.saturating_add(time))
    }
}

fn add<const N: usize>(to: &mut [u64; N], more: &[u64; N]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to = to.saturating_add(*more));
}
