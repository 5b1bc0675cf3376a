//! Rows that are made beside exits, and events that go on as they are: whatever takes rows takes each of these kinds, or names it among
//! those that it leaves.

use crate::steal_pieces::StealPiece;
use crate::yields::{PleUpdate, Preemption, RunQueueInterval, ThreadWakeUp, Yield};
use crate::{ApicvChangeEvent, CpuInterval, Event, Halt, IdleCpuEvent, KvmActivityEvent};

/// Something that a trace gives beside exits.
#[derive(Clone, Copy, Debug)]
pub enum BesideRow<'a> {
    /// A stretch of a vCPU's time that is of no exit.
    CpuInterval(&'a CpuInterval),
    /// A halt that ended.
    Halt(&'a Halt),
    /// A yield that ended.
    Yield(&'a Yield),
    /// A vCPU that was preempted.
    Preemption(&'a Preemption),
    /// A vCPU that was woken, and ran.
    WakeUp(&'a ThreadWakeUp),
    /// A stretch of a wait for a CPU, and who had that.
    StealPiece(&'a StealPiece),
    /// A change of a window of PAUSE loops.
    PleUpdate(&'a PleUpdate),
    /// An activity of KVM.
    KvmActivity(&'a KvmActivityEvent),
    /// A change of what inhibits APICv or AVIC, which is an activity of KVM besides.
    ApicvChange(&'a ApicvChangeEvent),
    /// What a kernel tells of an idle CPU of its own.
    Idle(&'a IdleCpuEvent),
    /// How many vCPUs waited for a CPU, and how long.
    QueueStay(&'a RunQueueInterval),
    /// An event of a trace in which the scheduler speaks of virtual CPUs (Xen).
    SchedulerEvent(&'a Event),
    /// An event of a recording in which a virtual core's runner records for all its vCPUs (powerpc).
    RunnerEvent(&'a Event),
}

/// The rows that were made since they were taken last.
#[derive(Clone, Debug, Default)]
pub(crate) struct BesideRows {
    pub halts: Vec<Halt>,
    pub cpu_intervals: Vec<CpuInterval>,
    pub yields: Vec<Yield>,
    pub ple_updates: Vec<PleUpdate>,
    pub activities: Vec<KvmActivityEvent>,
    pub apicv_changes: Vec<ApicvChangeEvent>,
    pub idle: Vec<IdleCpuEvent>,
}

impl BesideRows {
    /// All of them; those of the run queue come between others.
    pub fn iter<'a>(&'a self, queue: &'a QueueRows) -> impl Iterator<Item = BesideRow<'a>> {
        let BesideRows { halts, cpu_intervals, yields, ple_updates, activities, apicv_changes, idle } = self;
        let QueueRows { stays, preemptions, wake_ups, steal } = queue;
        let intervals = cpu_intervals.iter().map(BesideRow::CpuInterval);
        let spinning = yields.iter().map(BesideRow::Yield).chain(preemptions.iter().map(BesideRow::Preemption));
        let kvms = ple_updates.iter().map(BesideRow::PleUpdate).chain(activities.iter().map(BesideRow::KvmActivity));
        let kvms = kvms.chain(apicv_changes.iter().map(BesideRow::ApicvChange)).chain(idle.iter().map(BesideRow::Idle));
        let rows = intervals.chain(halts.iter().map(BesideRow::Halt)).chain(spinning);
        let waits = wake_ups.iter().map(BesideRow::WakeUp).chain(steal.iter().map(BesideRow::StealPiece));
        rows.chain(waits).chain(kvms).chain(stays.iter().map(BesideRow::QueueStay))
    }

    /// They were taken.
    pub fn clear(&mut self) {
        let BesideRows { halts, cpu_intervals, yields, ple_updates, activities, apicv_changes, idle } = self;
        halts.clear();
        cpu_intervals.clear();
        yields.clear();
        ple_updates.clear();
        activities.clear();
        apicv_changes.clear();
        idle.clear();
    }
}

/// The same of run queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueRows {
    pub stays: Vec<RunQueueInterval>,
    pub preemptions: Vec<Preemption>,
    pub wake_ups: Vec<ThreadWakeUp>,
    pub steal: Vec<StealPiece>,
}

impl QueueRows {
    /// They were taken.
    pub fn clear(&mut self) {
        let QueueRows { stays, preemptions, wake_ups, steal } = self;
        stays.clear();
        preemptions.clear();
        wake_ups.clear();
        steal.clear();
    }
}
