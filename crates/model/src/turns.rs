//! Virtual cores that take turns on a CPU of powerpc: for how long others than a vCPU's own were in their guests there.
//!
//! ```text
//! one    kvm_guest_exit SYSCALL ────────────────────────────────────────────── kvm_guest_enter
//! other               kvm_guest_enter ── kvm_guest_exit   enter ── exit
//!                                   others           +       others
//! ```
//!
//! Nothing else runs on a CPU that is in a guest; up to POWER8 it is a whole core, whose other threads are offline (`kvmppc_run_core` of
//! `arch/powerpc/kvm/book3s_hv.c`). The scheduler's events are of threads that record for several vCPUs, and do not tell that.

use crate::{CodeList, Event, EventKind};
use exitscope_units::{Moment, PcpuId, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// CPUs that are kept, and virtual cores of each.
const MOST: usize = 1 << 12;

/// Threads of a core that are in the guest together: eight, and as many that another vCPU took over meanwhile.
const MOST_THREADS: usize = 16;

/// A virtual core: of those of several threads, all of a VM are taken for one, as which threads are of one is not known at first.
type Vcore = (VmId, VcpuId);

/// Who was in a guest on a CPU, and for how long, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Cpu {
    all: u64,
    of: FxHashMap<Vcore, u64>,
    /// Who is there now, since when, and with which threads.
    now: Option<(Vcore, Moment)>,
    threads: Vec<VcpuId>,
}

impl Cpu {
    fn enters(&mut self, vcore: Vcore, vcpu: VcpuId, at: Moment) {
        if self.now.is_none_or(|now| now.0 != vcore) {
            self.now = Some((vcore, at));
            self.threads.clear();
        }
        if self.threads.len() < MOST_THREADS && !self.threads.contains(&vcpu) {
            self.threads.push(vcpu);
        }
    }

    fn leaves(&mut self, vcore: Vcore, vcpu: VcpuId, at: Moment) {
        let Some((_, since)) = self.now.filter(|now| now.0 == vcore) else { return };
        self.threads.retain(|thread| *thread != vcpu);
        if self.threads.is_empty() {
            self.now = None;
            if self.of.len() < MOST || self.of.contains_key(&vcore) {
                let long = at.since(since).unwrap_or_default().0;
                let of = self.of.entry(vcore).or_default();
                *of = of.saturating_add(long);
                self.all = self.all.saturating_add(long);
            }
        }
    }
}

/// Which virtual cores were in their guests, and for how long, on each CPU.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Whether vCPUs run in virtual cores of several threads: up to POWER8.
    has_threads: bool,
    cpus: FxHashMap<PcpuId, Cpu>,
}

impl Turns {
    /// Takes one event.
    #[inline]
    pub fn take(&mut self, event: &Event) {
        match event.kind {
            EventKind::Exit { code, .. } if code.list == CodeList::PpcTrap => {
                let vcore = self.vcore(event.vm, event.vcpu);
                if let Some(cpu) = self.cpus.get_mut(&event.cpu) {
                    cpu.leaves(vcore, event.vcpu, event.at);
                }
            }
            EventKind::Enter if self.cpus.len() < MOST || self.cpus.contains_key(&event.cpu) => {
                let vcore = self.vcore(event.vm, event.vcpu);
                self.cpus.entry(event.cpu).or_default().enters(vcore, event.vcpu, event.at);
            }
            EventKind::RunCore { .. } if !self.has_threads => *self = Turns { has_threads: true, ..Turns::default() },
            EventKind::Lost { .. } => self.cpus.values_mut().for_each(|cpu| cpu.now = None),
            _ => {}
        }
    }

    /// For how long, up to this moment, others than this vCPU's virtual core had the CPU, in nanoseconds: what counts is how much more
    /// that is than at an earlier moment.
    pub fn of_others(&self, cpu: PcpuId, vm: VmId, vcpu: VcpuId, at: Moment) -> u64 {
        let Some(cpu) = self.cpus.get(&cpu) else { return 0 };
        let vcore = self.vcore(vm, vcpu);
        let now = cpu.now.filter(|now| now.0 != vcore).and_then(|now| at.since(now.1)).unwrap_or_default();
        let ended = cpu.all - cpu.of.get(&vcore).copied().unwrap_or_default();
        ended.saturating_add(now.0)
    }

    fn vcore(&self, vm: VmId, vcpu: VcpuId) -> Vcore {
        (vm, if self.has_threads { VcpuId::UNKNOWN } else { vcpu })
    }
}
