//! Who had a physical CPU of Xen's while a virtual CPU waited for it.
//!
//! ```text
//! d3v1 runnable ├────────────────────────────┤ runs on CPU 1
//! CPU 1 ran      d0v0 ──┤ d3v0 ──────┤ idle ──┤
//!                domain 0    own        idle
//! ```

use exitscope_model::{LONGEST_WAKE_UP, VcpuIdentity};
use exitscope_units::{Moment, PcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// CPUs at most; of further ones nothing is known.
const MAX_CPUS: usize = 1 << 12;

/// So many who had a CPU are remembered, the last ones (about 2 KiB a CPU).
const KEPT: usize = 64;

/// Nanoseconds that virtual CPUs waited, by who had the physical CPU on which they ran next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuHolders {
    /// Nobody: it was idle.
    pub idle: u64,
    /// Of that, in waits during which it was idle for longer than [`LONGEST_WAKE_UP`].
    pub idle_long: u64,
    /// Domain 0.
    pub domain_0: u64,
    /// Virtual CPUs of the same domain.
    pub own: u64,
    /// Those of other domains.
    pub others: u64,
    /// The recording does not say.
    pub unknown: u64,
}

impl CpuHolders {
    /// All of it.
    pub fn total(&self) -> u64 {
        [self.idle, self.domain_0, self.own, self.others, self.unknown].into_iter().fold(0, u64::saturating_add)
    }

    /// Adds others.
    pub fn merge(&mut self, other: &CpuHolders) {
        let CpuHolders { idle, idle_long, domain_0, own, others, unknown } = other;
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.idle, *idle);
        add(&mut self.idle_long, *idle_long);
        add(&mut self.domain_0, *domain_0);
        add(&mut self.own, *own);
        add(&mut self.others, *others);
        add(&mut self.unknown, *unknown);
    }

    /// The place of time in which `had` was on the CPU that `who` waited for.
    fn of(&mut self, had: Option<VcpuIdentity>, who: VcpuIdentity) -> &mut u64 {
        match had {
            None => &mut self.unknown,
            Some(had) if had.vm == VmId::IDLE_DOMAIN => &mut self.idle,
            Some(had) if had == who => &mut self.unknown,
            Some(had) if had.vm == who.vm => &mut self.own,
            Some(had) if had.vm == VmId::DOMAIN_0 => &mut self.domain_0,
            Some(_) => &mut self.others,
        }
    }
}

/// Who had each CPU lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuHistory {
    /// From when on each had it, oldest first; nobody knows who after a loss.
    cpus: FxHashMap<PcpuId, VecDeque<(Moment, Option<VcpuIdentity>)>>,
}

impl CpuHistory {
    /// From now on this one has the CPU, or nobody knows who has.
    pub fn now_has(&mut self, cpu: PcpuId, at: Moment, who: Option<VcpuIdentity>) {
        if self.cpus.len() >= MAX_CPUS && !self.cpus.contains_key(&cpu) {
            return;
        }
        let had = self.cpus.entry(cpu).or_default();
        if had.back().is_some_and(|last| last.1 == who) {
            return;
        }
        if had.len() >= KEPT {
            had.pop_front();
        }
        had.push_back((at, who));
    }

    /// Nobody knows any more who has which CPU.
    pub fn lose(&mut self, at: Moment) {
        let cpus: Vec<PcpuId> = self.cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.now_has(cpu, at, None));
    }

    /// Who had this CPU while `who` waited for it.
    pub fn holders(&self, who: VcpuIdentity, cpu: PcpuId, since: Moment, until: Moment) -> CpuHolders {
        let mut holders = CpuHolders::default();
        let mut until = until;
        let nobody = VecDeque::new();
        for (from, had) in self.cpus.get(&cpu).unwrap_or(&nobody).iter().rev() {
            if until <= since {
                break;
            }
            let part = until.since((*from).max(since)).unwrap_or_default().0;
            *holders.of(*had, who) += part;
            until = until.min((*from).max(since));
        }
        holders.unknown += until.since(since).unwrap_or_default().0;
        if holders.idle > LONGEST_WAKE_UP {
            holders.idle_long = holders.idle;
        }
        holders
    }

    /// A recording ends.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }
}
