//! In whose threads the host changed how VMMs' memory is mapped.
//!
//! ```text
//! kvm_unmap_hva_range ─► its thread ─┬─ a vCPU of the VM ────────────────► Unmapper::Vcpus
//!                                    ├─ another of the VM's process ─────► Unmapper::Vmm
//!                                    └─ one of the kernel's, by its name ► Unmapper::Khugepaged, Ksm, …; of whichever VM
//! ```
//!
//! `kvm_mmu_notifier_invalidate_range_start` of virt/kvm/kvm_main.c fires it in the thread that changes the mapping.

use super::input::RecordedHost;
use exitscope_analysis::MAX_KEYS;
use exitscope_model::{KvmActivity, KvmActivityEvent, VcpuIdentity};
use exitscope_units::{VcpuId, VmId};
use std::collections::BTreeMap;

/// Who changes a VM's mappings, as far as the thread says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unmapper {
    /// Threads of the VM's vCPUs.
    Vcpus,
    /// Other threads of its VMM.
    Vmm,
    /// `khugepaged`: `collapse_huge_page` of mm/khugepaged.c.
    Khugepaged,
    /// `ksmd`: `write_protect_page` and `replace_page` of mm/ksm.c.
    Ksm,
    /// `kswapd`: `try_to_unmap_one` of mm/rmap.c, as `shrink_folio_list` of mm/vmscan.c asks for it.
    Reclaim,
    /// `kcompactd`: `try_to_migrate_one` of mm/rmap.c, as `compact_zone` of mm/compaction.c asks for it.
    Compaction,
}

/// By how the names of the kernel's own threads begin (`kthread_run` of the files above; `kswapd` and `kcompactd` bear the number of
/// their node).
const KERNEL_THREADS: &[(&str, Unmapper)] = &[
    ("khugepaged", Unmapper::Khugepaged),
    ("ksmd", Unmapper::Ksm),
    ("kswapd", Unmapper::Reclaim),
    ("kcompactd", Unmapper::Compaction),
];

impl Unmapper {
    /// Its threads, for people.
    pub fn threads(self) -> &'static str {
        match self {
            Unmapper::Vcpus => "vCPU threads",
            Unmapper::Vmm => "other threads of the VMM",
            of => KERNEL_THREADS.iter().find(|row| row.1 == of).map_or("", |row| row.0),
        }
    }
}

/// Events of one VM, or of the kernel's threads, by who made them.
pub(crate) type UnmapperCounts = BTreeMap<Unmapper, u64>;

/// All events of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Unmappings(BTreeMap<VcpuIdentity, u64>);

impl Unmappings {
    pub fn absorb(&mut self, of: &KvmActivityEvent) {
        if of.activity == KvmActivity::Unmapped {
            self.add(of.who, 1);
        }
    }

    fn add(&mut self, who: VcpuIdentity, count: u64) {
        if self.0.len() < MAX_KEYS || self.0.contains_key(&who) {
            *self.0.entry(who).or_default() += count;
        }
    }

    pub fn merge(&mut self, later: &Unmappings) {
        later.0.iter().for_each(|(who, count)| self.add(*who, *count));
    }

    /// Those in threads of a VM, and in the kernel's own; what other processes change is no VM's of theirs.
    pub fn of(&self, vm: VmId, host: &RecordedHost) -> UnmapperCounts {
        let mut counts = UnmapperCounts::new();
        for (who, count) in &self.0 {
            let name = host.comms.get(&who.tid.0).map_or("", String::as_str);
            let of_kernel = KERNEL_THREADS.iter().find(|row| name.starts_with(row.0)).map(|row| row.1);
            let own = if who.vcpu == VcpuId::UNKNOWN { Unmapper::Vmm } else { Unmapper::Vcpus };
            if let Some(unmapper) = of_kernel.or((who.vm == vm).then_some(own)) {
                *counts.entry(unmapper).or_default() += count;
            }
        }
        counts
    }
}

/// The one that made most of them; none if nobody made more than half.
pub(crate) fn mostly(counts: &UnmapperCounts) -> Option<Unmapper> {
    let all: u64 = counts.values().sum();
    counts.iter().find(|(_, count)| count.saturating_mul(2) > all).map(|row| *row.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_units::{Moment, Tid};

    #[test]
    fn who_changes_mappings_is_told_by_the_thread() {
        let mut all = Unmappings::default();
        let mut absorb = |vm, vcpu, tid, activity| {
            let who = VcpuIdentity { vm: VmId(vm), vcpu, tid: Tid(tid) };
            all.absorb(&KvmActivityEvent { who, at: Moment::from_nanos(0), activity });
        };
        let unmapped = KvmActivity::Unmapped;
        (0..4).for_each(|_| absorb(1, VcpuId(0), 11, unmapped));
        absorb(1, VcpuId(0), 11, KvmActivity::Aged);
        (0..2).for_each(|_| absorb(1, VcpuId::UNKNOWN, 1, unmapped));
        (0..3).for_each(|_| absorb(40, VcpuId::UNKNOWN, 40, unmapped));
        (0..9).for_each(|_| absorb(50, VcpuId::UNKNOWN, 50, unmapped));
        let comms = [(40, "kswapd0".to_string()), (50, "bash".to_string())].into_iter().collect();
        let host = RecordedHost { comms, ..RecordedHost::default() };
        let expected = [(Unmapper::Vcpus, 4), (Unmapper::Vmm, 2), (Unmapper::Reclaim, 3)].into();
        assert_eq!(all.of(VmId(1), &host), expected);
        assert_eq!(all.of(VmId(2), &host), [(Unmapper::Reclaim, 3)].into());
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(twice.of(VmId(2), &host), [(Unmapper::Reclaim, 6)].into());
        assert_eq!(mostly(&expected), None, "four of nine are not most");
        assert_eq!(mostly(&[(Unmapper::Vcpus, 5), (Unmapper::Ksm, 4)].into()), Some(Unmapper::Vcpus));
        assert_eq!(mostly(&UnmapperCounts::new()), None);
        assert!(KERNEL_THREADS.iter().all(|row| row.1.threads() == row.0));
    }
}
