//! Which vCPUs could run and do not, and what their siblings say meanwhile.
//!
//! ```text
//! vCPU 1 preempted ─► join ─┐                    ┌─► RunQueueInterval: how many waited for one CPU, for how long
//! vCPU 0 yields ────► look ─┼─► vCPUs that wait ─┤
//! vCPU 1 runs ──────► leave ┘                    ├─► Preemption: how long, and who yielded meanwhile; ThreadWakeUp: how long
//! any thread's switch ► SwitchHistory ───────────┴─► StealPiece: who had the CPU meanwhile
//! ```
//!
//! Only vCPUs count that are lanes: the threads of a host that run no guest are left out. In the queue a vCPU waits for the CPU
//! that it ran on; that it was moved meanwhile is not seen.

use crate::beside_row::QueueRows;
use crate::switch_history::{SwitchHistory, WaitSpan};
use crate::yields::{Preemption, RunQueueInterval, RunnableSiblings, ThreadWakeUp};
use crate::{Event, TargetState, ThreadName, VcpuIdentity};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// vCPUs of one VM that are known to wait, at most: KVM has no more. Further ones are only counted in the queue.
const MAX_WAITING: usize = 4096;

/// CPUs at most; vCPUs that wait for those of higher numbers are left out of the queue.
const MAX_CPUS: usize = 8192;

/// A vCPU that waits.
#[derive(Clone, Debug)]
struct Waiter {
    lane: u32,
    is_preempted: bool,
    /// Its time so far; it has not run again.
    so_far: Preemption,
}

/// How many vCPUs wait for a CPU, and since when it is so many.
#[derive(Clone, Debug)]
struct Cpu {
    waiting: u32,
    since: Moment,
}

/// The vCPUs that wait for a CPU.
#[derive(Clone, Debug, Default)]
pub struct RunQueue {
    vms: FxHashMap<VmId, Vec<Waiter>>,
    /// By number; `None` of those that ran no vCPU so far.
    cpus: Vec<Option<Cpu>>,
    /// When the scheduler first spoke.
    since: Option<Moment>,
    /// vCPUs that wait.
    waiting: usize,
    holders: SwitchHistory,
    pub rows: QueueRows,
}

impl RunQueue {
    /// Whether the scheduler has spoken.
    pub fn has_sched_events(&self) -> bool {
        self.since.is_some()
    }

    /// The scheduler speaks.
    #[inline]
    pub fn note_sched_events(&mut self, at: Moment) {
        self.since.get_or_insert(at);
    }

    /// A vCPU begins to wait for `cpu`.
    pub fn join(&mut self, at: Moment, cpu: PcpuId, who: VcpuIdentity, lane: u32, is_preempted: bool) {
        if let Some(cpu) = self.cpu(at, cpu) {
            cpu.waiting += 1;
        }
        let waiters = self.vms.entry(who.vm).or_default();
        if waiters.len() < MAX_WAITING {
            self.waiting += 1;
            let so_far = Preemption { who, at, ran: None, yields: 0, first: None, by: None, yielded: false };
            waiters.push(Waiter { lane, is_preempted, so_far });
        }
    }

    /// Which thread took the CPU of a vCPU that just began to wait, or recorded that it was woken, if one did; and whether the vCPU was
    /// in a yield.
    pub fn taken(&mut self, vm: VmId, lane: u32, by: Option<Tid>, yielded: bool) {
        let last = self.vms.get_mut(&vm).and_then(|waiters| waiters.last_mut());
        if let Some(last) = last.filter(|last| last.lane == lane) {
            (last.so_far.by, last.so_far.yielded) = (by, yielded);
        }
    }

    /// A vCPU that waited for `cpu` does so no more: it runs on the CPU that it got, or (`None`) nobody knows.
    pub fn leave(&mut self, at: Moment, cpu: PcpuId, vm: VmId, lane: u32, got: Option<PcpuId>) {
        if let Some(cpu) = self.cpu(at, cpu) {
            cpu.waiting = cpu.waiting.saturating_sub(1);
        }
        let Some(waiters) = self.vms.get_mut(&vm) else { return };
        if let Some(place) = waiters.iter().position(|waiter| waiter.lane == lane) {
            let waiter = waiters.swap_remove(place);
            self.waiting = self.waiting.saturating_sub(1);
            if let Some(got) = got {
                let Preemption { who, at: since, .. } = waiter.so_far;
                let wait = WaitSpan { who, since, until: at, lost: waiter.is_preempted.then_some(cpu), got };
                self.holders.divide(&wait, &mut self.rows.steal);
            }
            self.over(waiter, got.map(|_| at));
        }
    }

    /// The event switches a CPU from one thread, of this name, to another: any two of them.
    #[inline]
    pub fn switch(&mut self, event: &Event, prev: (Tid, ThreadName), next: Tid) {
        self.holders.switch(event, prev, next, self.waiting > 0, &mut self.rows.steal);
    }

    /// The names of threads that had a CPU for which a vCPU waited.
    pub fn take_names(&mut self) -> FxHashMap<Tid, ThreadName> {
        self.holders.take_names()
    }

    /// Events of this CPU were lost, or of all.
    pub fn lose(&mut self, cpu: PcpuId) {
        self.holders.lose(cpu);
    }

    /// A vCPU's wait is over.
    fn over(&mut self, waiter: Waiter, ran: Option<Moment>) {
        let of = Preemption { ran, ..waiter.so_far };
        match waiter.is_preempted {
            true => self.rows.preemptions.push(of),
            false => self.rows.wake_ups.push(ThreadWakeUp { who: of.who, at: of.at, ran, by: of.by }),
        }
    }

    /// A vCPU of `vm` yields: who of its siblings waits, and whether `target` does.
    pub fn runnable_siblings(
        &mut self,
        at: Moment,
        vm: VmId,
        target: Option<VcpuId>,
        counts: bool,
    ) -> (RunnableSiblings, Option<TargetState>) {
        let (mut found, mut place) = (RunnableSiblings::default(), None);
        for waiter in self.vms.get_mut(&vm).into_iter().flatten() {
            let of = &mut waiter.so_far;
            *(if waiter.is_preempted { &mut found.preempted } else { &mut found.woken }) += 1;
            if target == Some(of.who.vcpu) {
                place = Some(if waiter.is_preempted { TargetState::Preempted } else { TargetState::Runnable });
            }
            if counts {
                of.yields = of.yields.saturating_add(1);
                of.first.get_or_insert(at);
            }
        }
        (found, place)
    }

    /// The recording ends.
    pub fn finish(&mut self, at: Moment) {
        for cpu in self.cpus.iter_mut().flatten() {
            cpu.stay(at, &mut self.rows.stays);
        }
        let waiters: Vec<Waiter> = self.vms.drain().flat_map(|(_, waiters)| waiters).collect();
        waiters.into_iter().for_each(|waiter| self.over(waiter, None));
        self.rows.preemptions.sort_unstable_by_key(|of| (of.at, of.who));
        self.rows.wake_ups.sort_unstable_by_key(|of| (of.at, of.who));
        self.cpus.clear();
        self.holders.clear();
        (self.since, self.waiting) = (None, 0);
    }

    /// A CPU runs a vCPU: it has a queue, be it empty.
    #[inline]
    pub fn note_running(&mut self, at: Moment, cpu: PcpuId) {
        if self.cpus.get(cpu.0 as usize).is_none_or(Option::is_none) {
            self.add(at, cpu.0 as usize);
        }
    }

    #[cold]
    fn add(&mut self, at: Moment, cpu: usize) {
        if cpu < MAX_CPUS {
            self.cpus.resize_with(self.cpus.len().max(cpu + 1), || None);
            self.cpus[cpu] = Some(Cpu { waiting: 0, since: self.since.unwrap_or(at) });
        }
    }

    /// The queue of a CPU, which is about to change.
    #[inline]
    fn cpu(&mut self, at: Moment, cpu: PcpuId) -> Option<&mut Cpu> {
        self.note_running(at, cpu);
        let cpu = self.cpus.get_mut(cpu.0 as usize)?.as_mut()?;
        cpu.stay(at, &mut self.rows.stays);
        Some(cpu)
    }
}

impl Cpu {
    /// What the queue was up to now.
    #[inline]
    fn stay(&mut self, to: Moment, stays: &mut Vec<RunQueueInterval>) {
        if to > self.since {
            stays.push(RunQueueInterval { from: std::mem::replace(&mut self.since, to), to, waiting: self.waiting });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: PcpuId = PcpuId(3);

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    fn who(vm: u32, vcpu: u32) -> VcpuIdentity {
        VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(100 + vcpu) }
    }

    fn stays(queue: &RunQueue) -> Vec<(u64, u64, u32)> {
        queue.rows.stays.iter().map(|stay| (stay.from.as_nanos(), stay.to.as_nanos(), stay.waiting)).collect()
    }

    #[test]
    fn waits_are_told_to_those_who_yield_and_end_as_preemptions() {
        let mut queue = RunQueue::default();
        assert!(!queue.has_sched_events());
        queue.note_sched_events(at(100));
        queue.note_sched_events(at(120));
        assert!(queue.has_sched_events());
        queue.note_running(at(150), CPU);
        queue.join(at(170), CPU, who(1, 5), 7, true);
        queue.taken(VmId(1), 7, Some(Tid(9)), true);
        queue.join(at(190), CPU, who(1, 6), 8, false);
        // Another lane than the last that began to wait, and a VM of which none waits.
        queue.taken(VmId(1), 7, Some(Tid(10)), false);
        queue.taken(VmId(2), 8, Some(Tid(10)), false);
        queue.join(at(195), CPU, who(2, 5), 11, true);
        let both = RunnableSiblings { preempted: 1, woken: 1 };
        let look = |queue: &mut RunQueue, of: u64, target: u32, counts| {
            queue.runnable_siblings(at(of), VmId(1), Some(VcpuId(target)), counts)
        };
        assert_eq!(look(&mut queue, 200, 6, true), (both, Some(TargetState::Runnable)));
        assert_eq!(look(&mut queue, 210, 5, false), (both, Some(TargetState::Preempted)));
        assert_eq!(look(&mut queue, 220, 4, true), (both, None));
        assert_eq!(queue.runnable_siblings(at(222), VmId(1), None, true), (both, None));
        assert_eq!(
            queue.runnable_siblings(at(225), VmId(4), Some(VcpuId(5)), true),
            (RunnableSiblings::default(), None)
        );
        queue.leave(at(230), CPU, VmId(1), 7, Some(CPU));
        queue.leave(at(240), CPU, VmId(1), 8, Some(CPU));
        queue.leave(at(250), CPU, VmId(3), 8, None);
        queue.join(at(260), CPU, who(1, 4), 6, true);
        queue.join(at(270), CPU, who(2, 8), 12, false);
        queue.taken(VmId(2), 12, Some(Tid(0)), false);
        queue.finish(at(300));
        let woken = |who, since, ran, by| ThreadWakeUp { who, at: at(since), ran, by };
        let expected = [woken(who(1, 6), 190, Some(at(240)), None), woken(who(2, 8), 270, None, Some(Tid(0)))];
        assert_eq!(queue.rows.wake_ups, expected);
        let preemption = |who, since, ran, yields, first, by: Option<Tid>| {
            let yielded = by.is_some();
            Preemption { who, at: at(since), ran, yields, first, by, yielded }
        };
        let expected = [
            // Three yields of its siblings; a call that waits for nobody is none.
            preemption(who(1, 5), 170, Some(at(230)), 3, Some(at(200)), Some(Tid(9))),
            preemption(who(2, 5), 195, None, 0, None, None),
            preemption(who(1, 4), 260, None, 0, None, None),
        ];
        assert_eq!(queue.rows.preemptions, expected);
        let expected = [
            (100, 170, 0),
            (170, 190, 1),
            (190, 195, 2),
            (195, 230, 3),
            (230, 240, 2),
            (240, 250, 1),
            (250, 260, 0),
            (260, 270, 1),
            (270, 300, 2),
        ];
        assert_eq!(stays(&queue), expected);
        assert!(!queue.has_sched_events(), "the next recording begins anew");
    }

    #[test]
    fn a_cpus_queue_is_known_since_the_scheduler_spoke_or_since_it_was_seen() {
        let mut queue = RunQueue::default();
        queue.note_running(at(50), CPU);
        queue.note_running(at(60), CPU);
        queue.note_sched_events(at(70));
        queue.note_running(at(80), PcpuId(1));
        queue.join(at(90), PcpuId(1), who(1, 5), 7, false);
        queue.join(at(90), PcpuId(1), who(1, 6), 8, false);
        queue.finish(at(100));
        // In the order of the CPUs at the end; two changes at one moment leave nothing between them.
        assert_eq!(stays(&queue), [(70, 90, 0), (90, 100, 2), (50, 100, 0)]);
        assert!(queue.rows.preemptions.is_empty(), "who was woken was not preempted");
    }

    #[test]
    fn queues_of_cpus_beyond_those_that_are_kept_are_left_out() {
        for (cpu, kept) in [(8_191, true), (8_192, false), (8_193, false)] {
            let mut queue = RunQueue::default();
            queue.join(at(10), PcpuId(cpu), who(1, 5), 7, true);
            queue.leave(at(30), PcpuId(cpu), VmId(1), 7, Some(PcpuId(cpu)));
            let expected = if kept { vec![(10, 30, 1)] } else { vec![] };
            assert_eq!((stays(&queue), queue.rows.preemptions.len()), (expected, 1), "{cpu}");
        }
    }

    #[test]
    fn of_more_vcpus_than_a_vm_may_have_the_further_ones_are_in_the_queue_alone() {
        let mut queue = RunQueue::default();
        (0..MAX_WAITING as u32 + 3).for_each(|lane| queue.join(at(10), CPU, who(1, lane), lane, true));
        let (found, place) = queue.runnable_siblings(at(20), VmId(1), Some(VcpuId(MAX_WAITING as u32)), true);
        assert_eq!((found, place), (RunnableSiblings { preempted: 4_096, woken: 0 }, None));
        queue.finish(at(30));
        assert_eq!((stays(&queue), queue.rows.preemptions.len()), (vec![(10, 30, 4_099)], 4_096));
    }
}
