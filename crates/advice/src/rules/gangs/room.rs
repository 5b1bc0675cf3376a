//! Where narrower virtual cores would run at a time.
//!
//! ```text
//! as many cores as want to run? ─ yes ─► cores
//!               │ no
//!               ▼
//! subcores_per_core 2, then 4: as many subcores, each of threads enough? ─ yes ─► subcores
//!               │ no
//!               ▼
//!        they would take turns
//! ```
//!
//! Threads of other (sub)cores than the first are offline (`on_primary_thread` of arch/powerpc/kvm/book3s_hv.c): CPUs of the host are
//! cores, or subcores of cores that are split already. A core that is split for good runs its subcores independently: only the threads
//! of one leave together. POWER8 alone can be split (`subcore_init` of arch/powerpc/platforms/powernv/subcore.c), and it alone has the
//! doorbell by which forced exits are known.

use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, total};
use exitscope_policy::vcore::Params;

/// Into how many subcores a core can be split.
const SPLITS: [u32; 2] = [2, 4];

/// Where virtual cores run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VcoreRoom {
    /// Nothing says how many CPUs the host has.
    Unknown,
    /// On cores of the host, as they are.
    Cores,
    /// On cores that are split into so many subcores.
    Subcores(u32),
}

/// Virtual cores of so many threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vcores {
    pub threads: u32,
    /// How many there would be.
    pub count: u64,
    /// How many (sub)cores they would run on, or wait for, at most.
    pub busy: f64,
}

impl Vcores {
    /// What would be there; without entries (`is_timed`) nothing says for how long they want a core.
    pub fn of(input: &AdviceInput, threads: u32, is_timed: bool) -> Vcores {
        let vcores = input.facts.gangs.vcores(None);
        let count = total(vcores.iter().map(|vcore| (vcore.vcpus.len() as u64).div_ceil(u64::from(threads))));
        let time = total(input.vms.values().map(VmTime::wanted));
        let busy = if is_timed { input.busy(None, time).min(count as f64) } else { count as f64 };
        Vcores { threads, count, busy }
    }

    /// Where they would all find room at a time.
    pub fn room(&self, host: &RecordedHost) -> Option<VcoreRoom> {
        if host.cpus == 0 {
            return Some(VcoreRoom::Unknown);
        }
        if self.busy <= f64::from(host.cpus) {
            return Some(VcoreRoom::Cores);
        }
        let has_room = |subcores: &u32| {
            let split = Params { subcores_per_core: *subcores, smt_mode: self.threads, ..Params::default() };
            split.fits() && self.busy <= f64::from(host.cpus * subcores)
        };
        SPLITS.into_iter().find(has_room).map(VcoreRoom::Subcores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_split_no_further_than_needed_and_only_where_a_virtual_core_fits() {
        let room = |threads, busy, cpus| {
            Vcores { threads, count: 8, busy }.room(&RecordedHost { cpus, ..RecordedHost::default() })
        };
        for (threads, busy, cpus, wanted) in [
            (1, 2.0, 0, Some(VcoreRoom::Unknown)),
            (1, 2.0, 2, Some(VcoreRoom::Cores)),
            (1, 2.1, 2, Some(VcoreRoom::Subcores(2))),
            (1, 4.0, 2, Some(VcoreRoom::Subcores(2))),
            (1, 4.1, 2, Some(VcoreRoom::Subcores(4))),
            (1, 8.1, 2, None),
            (2, 4.0, 1, Some(VcoreRoom::Subcores(4))),
            (4, 2.0, 1, Some(VcoreRoom::Subcores(2))),
            // Of four subcores each has two threads of the core's eight.
            (4, 3.0, 1, None),
        ] {
            assert_eq!(room(threads, busy, cpus), wanted, "{threads} {busy} {cpus}");
        }
    }
}
