//! Which vCPUs could run and do not, and what their siblings say meanwhile.
//!
//! ```text
//! vCPU 1 preempted ─► join ─┐                    ┌─► QueueStay: how many waited for one CPU, for how long
//! vCPU 0 yields ────► look ─┼─► vCPUs that wait ─┤
//! vCPU 1 runs ──────► leave ┘                    └─► Preemption: how long, and who yielded meanwhile
//! ```
//!
//! Only vCPUs count that are lanes: the threads of a host that run no guest are left out. A vCPU waits for the CPU that it
//! ran on; that it was moved meanwhile is not seen.

use crate::yields::{Preemption, QueueStay, Waiters};
use crate::{Place, Who};
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
    pub stays: Vec<QueueStay>,
    pub preemptions: Vec<Preemption>,
}

impl RunQueue {
    /// Whether the scheduler has spoken.
    pub fn is_told(&self) -> bool {
        self.since.is_some()
    }

    /// The scheduler speaks.
    #[inline]
    pub fn told(&mut self, at: Moment) {
        self.since.get_or_insert(at);
    }

    /// A vCPU begins to wait for `cpu`.
    pub fn join(&mut self, at: Moment, cpu: PcpuId, who: Who, lane: u32, is_preempted: bool) {
        if let Some(cpu) = self.cpu(at, cpu) {
            cpu.waiting += 1;
        }
        let waiters = self.vms.entry(who.vm).or_default();
        if waiters.len() < MAX_WAITING {
            let so_far = Preemption { who, at, ran: None, yields: 0, first: None, by: None };
            waiters.push(Waiter { lane, is_preempted, so_far });
        }
    }

    /// Says which thread took the CPU of a vCPU that just began to wait.
    pub fn taken(&mut self, vm: VmId, lane: u32, by: Tid) {
        let last = self.vms.get_mut(&vm).and_then(|waiters| waiters.last_mut());
        last.filter(|last| last.lane == lane).into_iter().for_each(|last| last.so_far.by = Some(by));
    }

    /// A vCPU that waited for `cpu` does so no more: it runs, or (`None`) nobody knows.
    pub fn leave(&mut self, at: Moment, cpu: PcpuId, vm: VmId, lane: u32, ran: Option<Moment>) {
        if let Some(cpu) = self.cpu(at, cpu) {
            cpu.waiting = cpu.waiting.saturating_sub(1);
        }
        let Some(waiters) = self.vms.get_mut(&vm) else { return };
        if let Some(place) = waiters.iter().position(|waiter| waiter.lane == lane) {
            let waiter = waiters.swap_remove(place);
            self.preemptions.extend(waiter.is_preempted.then_some(Preemption { ran, ..waiter.so_far }));
        }
    }

    /// A vCPU of `vm` yields: who of its siblings waits, and whether `target` does.
    pub fn look(&mut self, at: Moment, vm: VmId, target: Option<VcpuId>, counts: bool) -> (Waiters, Option<Place>) {
        let (mut found, mut place) = (Waiters::default(), None);
        for waiter in self.vms.get_mut(&vm).into_iter().flatten() {
            let of = &mut waiter.so_far;
            *(if waiter.is_preempted { &mut found.preempted } else { &mut found.woken }) += 1;
            if target == Some(of.who.vcpu) {
                place = Some(if waiter.is_preempted { Place::Preempted } else { Place::Woken });
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
            cpu.stay(at, &mut self.stays);
        }
        let waiters = self.vms.drain().flat_map(|(_, waiters)| waiters);
        self.preemptions.extend(waiters.filter(|waiter| waiter.is_preempted).map(|waiter| waiter.so_far));
        self.preemptions.sort_unstable_by_key(|of| (of.at, of.who));
        self.cpus.clear();
        self.since = None;
    }

    /// A CPU runs a vCPU: it has a queue, be it empty.
    #[inline]
    pub fn saw(&mut self, at: Moment, cpu: PcpuId) {
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
        self.saw(at, cpu);
        let cpu = self.cpus.get_mut(cpu.0 as usize)?.as_mut()?;
        cpu.stay(at, &mut self.stays);
        Some(cpu)
    }
}

impl Cpu {
    /// What the queue was up to now.
    #[inline]
    fn stay(&mut self, to: Moment, stays: &mut Vec<QueueStay>) {
        if to > self.since {
            stays.push(QueueStay { from: std::mem::replace(&mut self.since, to), to, waiting: self.waiting });
        }
    }
}
