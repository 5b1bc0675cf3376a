//! How a kernel's idle CPUs polled, by its own events: of a guest that recorded itself, the wake-ups that its polls spared an interrupt.
//!
//! ```text
//! sched_wake_idle_without_ipi ─► IdlePolls.cpus[cpu].woken_without_ipi     guest_halt_poll_ns ─► .limit
//! ```

use crate::MAX_KEYS;
use exitscope_model::{IdleCpuEvent, IdleEvent};
use exitscope_units::PcpuId;
use std::collections::BTreeMap;

/// What is known of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuIdlePolls {
    /// Times that there was something to do for it while it polled, so that it was sent no interrupt.
    pub woken_without_ipi: u64,
    /// Changes of the limit of its polls: up, down.
    pub changes: (u64, u64),
    /// The limit after the last change, in nanoseconds.
    pub limit: Option<u32>,
    /// The longest that the limit was, before or after a change.
    pub longest_limit: Option<u32>,
}

impl CpuIdlePolls {
    fn merge(&mut self, other: &CpuIdlePolls) {
        let CpuIdlePolls { woken_without_ipi, changes, limit, longest_limit } = other;
        self.woken_without_ipi += woken_without_ipi;
        self.changes = (self.changes.0 + changes.0, self.changes.1 + changes.1);
        self.limit = limit.or(self.limit);
        self.longest_limit = self.longest_limit.max(*longest_limit);
    }
}

/// The CPUs of the machines that recorded; those of equal number of several recordings are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdlePolls {
    /// By CPU.
    pub cpus: BTreeMap<PcpuId, CpuIdlePolls>,
}

impl IdlePolls {
    /// Adds what is told of a CPU.
    pub(crate) fn absorb(&mut self, of: &IdleCpuEvent) {
        if self.cpus.len() >= MAX_KEYS && !self.cpus.contains_key(&of.cpu) {
            return;
        }
        let cpu = self.cpus.entry(of.cpu).or_default();
        match of.event {
            IdleEvent::WokenPolling { .. } => cpu.woken_without_ipi += 1,
            IdleEvent::PollLimit(change) => {
                *(if change.grow { &mut cpu.changes.0 } else { &mut cpu.changes.1 }) += 1;
                cpu.limit = Some(change.new);
                cpu.longest_limit = cpu.longest_limit.max(Some(change.new.max(change.old)));
            }
        }
    }

    /// Adds what another recording gave.
    pub(crate) fn merge(&mut self, other: &IdlePolls) {
        for (cpu, of) in &other.cpus {
            self.cpus.entry(*cpu).or_default().merge(of);
        }
    }

    /// All CPUs together; no limit is that of several.
    pub fn all(&self) -> CpuIdlePolls {
        let mut all = CpuIdlePolls::default();
        self.cpus.values().for_each(|cpu| all.merge(cpu));
        CpuIdlePolls { limit: None, ..all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::PollChange;
    use exitscope_units::Moment;

    fn polls(events: &[(u32, IdleEvent)]) -> IdlePolls {
        let mut polls = IdlePolls::default();
        for &(cpu, event) in events {
            polls.absorb(&IdleCpuEvent { at: Moment::default(), cpu: PcpuId(cpu), event });
        }
        polls
    }

    #[test]
    fn what_two_recordings_tell_of_a_cpu_is_what_one_of_both_would_have() {
        let woken = |cpu| (cpu, IdleEvent::WokenPolling { cpu: PcpuId(cpu) });
        let limit = |cpu, old, new| (cpu, IdleEvent::PollLimit(PollChange { grow: new > old, new, old }));
        let first = [woken(0), limit(0, 0, 50_000), woken(0), limit(0, 50_000, 100_000)];
        let second = [limit(0, 100_000, 50_000), woken(1), limit(0, 50_000, 0)];
        let mut both = polls(&first);
        both.merge(&polls(&second));
        assert_eq!(both, polls(&[&first[..], &second].concat()));
        let cpu = CpuIdlePolls { woken_without_ipi: 2, changes: (2, 2), limit: Some(0), longest_limit: Some(100_000) };
        assert_eq!(both.cpus[&PcpuId(0)], cpu);
        assert_eq!(both.cpus[&PcpuId(1)], CpuIdlePolls { woken_without_ipi: 1, ..CpuIdlePolls::default() });
        assert_eq!(both.all(), CpuIdlePolls { woken_without_ipi: 3, limit: None, ..cpu });
        // A recording that tells of no limit hides none.
        both.merge(&polls(&[woken(0)]));
        assert_eq!(both.cpus[&PcpuId(0)], CpuIdlePolls { woken_without_ipi: 3, ..cpu });
    }
}
