//! Virtual cores that take turns on a CPU of powerpc: for how long others than a vCPU's own were in their guests there.
//!
//! ```text
//! one    kvm_guest_exit SYSCALL ────────────────────────────────────────────── kvm_guest_enter
//! other               kvm_guest_enter ── kvm_guest_exit   enter ── exit
//!                                   others           +       others
//! ```
//!
//! Nothing else runs on a CPU that is in a guest; up to POWER8 it is a whole core, whose other threads are offline
//! (`kvmppc_run_core` of `arch/powerpc/kvm/book3s_hv.c`).
//!
//! There the thread of one of its vCPUs records entries and exits for all threads of a virtual core; a vCPU that joins a run under way
//! records its entry itself, on another CPU (`kvmppc_run_vcpu`). A thread records for its own virtual core alone, so vCPUs for which
//! one thread recorded are of one. (But for micro-threading, by which several run at once, as one.) From POWER9 on each vCPU is one.

use crate::{CodeList, Event, EventKind};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// CPUs that are kept, and virtual cores of each.
const MOST: usize = 1 << 12;

/// vCPUs that are kept, and threads that record for them.
const MOST_VCPUS: usize = 1 << 16;

/// Threads of a core that are in the guest together: eight, and as many that another vCPU took over meanwhile.
const MOST_THREADS: usize = 16;

/// The number of a vCPU; of a virtual core, that of one of its vCPUs.
type Number = u32;

/// Which vCPUs are of one virtual core.
#[derive(Clone, Debug, Default)]
struct Vcores {
    numbers: FxHashMap<(VmId, VcpuId), Number>,
    /// Of each vCPU another one of the same virtual core; of one of them, whose number is the virtual core's, itself.
    before: Vec<Number>,
    /// How many vCPUs are of the virtual core of this number.
    sizes: Vec<u32>,
    /// For which vCPU a thread recorded.
    recorded: FxHashMap<(VmId, Tid), Number>,
}

impl Vcores {
    /// The virtual core of a vCPU that was seen.
    fn of(&self, vm: VmId, vcpu: VcpuId) -> Option<Number> {
        self.numbers.get(&(vm, vcpu)).map(|&number| self.first(number))
    }

    fn first(&self, mut number: Number) -> Number {
        while self.before[number as usize] != number {
            number = self.before[number as usize];
        }
        number
    }

    /// The virtual core of an event's vCPU, and another one that turns out to be the same; none if there are too many.
    fn learn(&mut self, event: &Event) -> Option<(Number, Option<Number>)> {
        let fresh = self.before.len() as Number;
        let is_full = self.before.len() >= MOST_VCPUS;
        let number = match self.numbers.get(&(event.vm, event.vcpu)) {
            Some(&number) => number,
            None if is_full => return None,
            None => {
                self.numbers.insert((event.vm, event.vcpu), fresh);
                self.before.push(fresh);
                self.sizes.push(1);
                fresh
            }
        };
        let own = self.first(number);
        let other = match self.recorded.get(&(event.vm, event.tid)) {
            Some(&other) => self.first(other),
            None if self.recorded.len() >= MOST_VCPUS => own,
            None => *self.recorded.entry((event.vm, event.tid)).or_insert(own),
        };
        if own == other {
            return Some((own, None));
        }
        // The smaller one is added to the larger one, so that no way to a virtual core's number is long.
        let [of_own, of_other] = [own, other].map(|number| self.sizes[number as usize]);
        let (first, second) = if of_own >= of_other { (own, other) } else { (other, own) };
        self.before[second as usize] = first;
        self.sizes[first as usize] = of_own.saturating_add(of_other);
        Some((first, Some(second)))
    }
}

/// Who was in a guest on a CPU, and for how long, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Cpu {
    all: u64,
    of: FxHashMap<Number, u64>,
    /// Who is there now, since when, and with which threads.
    now: Option<(Number, Moment)>,
    threads: Vec<VcpuId>,
}

impl Cpu {
    fn enters(&mut self, vcore: Number, vcpu: VcpuId, at: Moment) {
        // One that is there already has left, and nothing said so.
        if self.now.is_none_or(|now| now.0 != vcore) || self.threads.contains(&vcpu) {
            self.now = Some((vcore, at));
            self.threads.clear();
        }
        if self.threads.len() < MOST_THREADS {
            self.threads.push(vcpu);
        }
    }

    fn leaves(&mut self, vcore: Number, vcpu: VcpuId, at: Moment) {
        if self.now.is_some_and(|now| now.0 == vcore) {
            self.threads.retain(|thread| *thread != vcpu);
            if self.threads.is_empty() {
                self.ends(vcore, at);
            }
        }
    }

    /// No thread of this virtual core is in its guest any more.
    fn ends(&mut self, vcore: Number, at: Moment) {
        let Some((_, since)) = self.now.take_if(|now| now.0 == vcore) else { return };
        self.threads.clear();
        if self.of.len() < MOST || self.of.contains_key(&vcore) {
            let long = at.since(since).unwrap_or_default().0;
            let of = self.of.entry(vcore).or_default();
            *of = of.saturating_add(long);
            self.all = self.all.saturating_add(long);
        }
    }

    /// Two virtual cores are one. If the second was taken to be in its guest here, it had joined the first elsewhere.
    fn unite(&mut self, first: Number, second: Number) {
        self.now.take_if(|now| now.0 == second);
        if let Some(time) = self.of.remove(&second) {
            let of = self.of.entry(first).or_default();
            *of = of.saturating_add(time);
        }
    }
}

/// Which virtual cores were in their guests, and for how long, on each CPU.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    vcores: Vcores,
    /// Where each virtual core is in its guest, or was last.
    last_on: FxHashMap<Number, PcpuId>,
    cpus: FxHashMap<PcpuId, Cpu>,
}

impl Turns {
    /// Takes one event.
    #[inline]
    pub fn take(&mut self, event: &Event) {
        match event.kind {
            EventKind::Exit { code, .. } if code.list == CodeList::PpcTrap => {
                let Some(vcore) = self.vcore(event) else { return };
                if let Some(cpu) = self.cpus.get_mut(&event.cpu) {
                    cpu.leaves(vcore, event.vcpu, event.at);
                }
            }
            EventKind::Enter => self.enters(event),
            // The event's vCPU is the runner.
            EventKind::RunCore { exit, .. } => {
                if let (Some(vcore), true, Some(cpu)) = (self.vcore(event), exit, self.cpus.get_mut(&event.cpu)) {
                    cpu.ends(vcore, event.at);
                }
            }
            EventKind::Lost { .. } => self.cpus.values_mut().for_each(|cpu| cpu.now = None),
            _ => {}
        }
    }

    fn enters(&mut self, event: &Event) {
        let Some(vcore) = self.vcore(event) else { return };
        let runs_on = self.last_on.get(&vcore).copied();
        // Who joins a run is where that is.
        let joined = runs_on.filter(|cpu| *cpu != event.cpu).and_then(|cpu| self.cpus.get_mut(&cpu));
        if let Some(cpu) = joined.filter(|cpu| cpu.now.is_some_and(|now| now.0 == vcore)) {
            if !cpu.threads.contains(&event.vcpu) {
                return cpu.enters(vcore, event.vcpu, event.at);
            }
            // It is there already: that run is over, and nothing said so.
            cpu.now = None;
        }
        if self.cpus.len() < MOST || self.cpus.contains_key(&event.cpu) {
            self.last_on.insert(vcore, event.cpu);
            self.cpus.entry(event.cpu).or_default().enters(vcore, event.vcpu, event.at);
        }
    }

    /// The virtual core of the event's vCPU.
    fn vcore(&mut self, event: &Event) -> Option<Number> {
        let (vcore, same) = self.vcores.learn(event)?;
        if let Some(same) = same {
            self.unite(vcore, same, event.cpu);
        }
        Some(vcore)
    }

    /// Two virtual cores turn out to be one, by an event on this CPU: that is where it is in its guest.
    #[cold]
    fn unite(&mut self, first: Number, second: Number, here: PcpuId) {
        if let Some(cpu) = self.cpus.get_mut(&here)
            && let Some((vcore, _)) = cpu.now.as_mut().filter(|now| now.0 == second)
        {
            *vcore = first;
        }
        for (&number, cpu) in &mut self.cpus {
            cpu.unite(first, second);
            if number != here {
                cpu.now.take_if(|now| now.0 == first);
            }
        }
        self.last_on.remove(&second);
        self.last_on.insert(first, here);
    }

    /// For how long, up to this moment, others than this vCPU's virtual core had the CPU, in nanoseconds: what counts is how much more
    /// that is than at an earlier moment.
    pub fn of_others(&self, cpu: PcpuId, vm: VmId, vcpu: VcpuId, at: Moment) -> u64 {
        let (Some(cpu), Some(vcore)) = (self.cpus.get(&cpu), self.vcores.of(vm, vcpu)) else { return 0 };
        let now = cpu.now.filter(|now| now.0 != vcore).and_then(|now| at.since(now.1)).unwrap_or_default();
        let ended = cpu.all - cpu.of.get(&vcore).copied().unwrap_or_default();
        ended.saturating_add(now.0)
    }
}
