//! In whose threads the host changed how VMMs' memory is mapped.
//!
//! ```text
//! kvm_unmap_hva_range ─► its thread ─┬─ a vCPU of the VM ────────────────► Unmapper::Vcpus
//!                                    ├─ another of the VM's process ─────► Unmapper::Vmm
//!                                    └─ one of the kernel's, by its name ► Unmapper::Khugepaged, Ksm, …; of whichever VM
//! ```
//!
//! `kvm_mmu_notifier_invalidate_range_start` of virt/kvm/kvm_main.c fires it in the thread that changes the mapping, with the range that
//! is changed. KSM changes a page at a time (`write_protect_page` of mm/ksm.c), reclaim and migration a folio (`try_to_unmap_one`,
//! `try_to_migrate_one` of mm/rmap.c), a collapse a huge page (`collapse_huge_page` of mm/khugepaged.c); a scan of NUMA balancing all
//! that it makes inaccessible, 256 MB by default (`task_numa_work` of kernel/sched/fair.c, `change_pud_range` of mm/mprotect.c).

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

/// How often somebody changed mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnmapCount {
    pub times: u64,
    /// Those of them that were of 4 MiB and more at once.
    pub wide: u64,
    /// Faults that may come of them.
    pub faults: u64,
}

/// A change of the VMM's mappings is enough for so many faults at least: vCPUs fault at the same page, and its range may not be known.
const FAULTS_AFTER_ONE: u64 = 10;

/// The binary logarithm of the bytes of a page; with larger ones there are fewer faults.
const PAGE: u8 = 12;

impl UnmapCount {
    /// One of a range whose bytes have this binary logarithm.
    fn one(power: u8) -> UnmapCount {
        let pages = 1_u64.checked_shl(power.saturating_sub(PAGE).into()).unwrap_or(u64::MAX);
        let wide = u64::from(KvmActivity::Unmapped(power).counted_as() == KvmActivity::WIDE);
        UnmapCount { times: 1, wide, faults: pages.max(FAULTS_AFTER_ONE) }
    }

    fn add(&mut self, other: UnmapCount) {
        self.times = self.times.saturating_add(other.times);
        self.wide = self.wide.saturating_add(other.wide);
        self.faults = self.faults.saturating_add(other.faults);
    }
}

/// Events of one VM, or of the kernel's threads, by who made them.
pub(crate) type UnmapperCounts = BTreeMap<Unmapper, UnmapCount>;

/// All events of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Unmappings(BTreeMap<VcpuIdentity, UnmapCount>);

impl Unmappings {
    pub fn absorb(&mut self, of: &KvmActivityEvent) {
        if let KvmActivity::Unmapped(power) = of.activity {
            self.add(of.who, UnmapCount::one(power));
        }
    }

    fn add(&mut self, who: VcpuIdentity, count: UnmapCount) {
        if self.0.len() < MAX_KEYS || self.0.contains_key(&who) {
            self.0.entry(who).or_default().add(count);
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
                counts.entry(unmapper).or_default().add(*count);
            }
        }
        counts
    }
}

/// The one that made most of them; none if nobody made more than half.
pub(crate) fn mostly(counts: &UnmapperCounts) -> Option<Unmapper> {
    let all: u64 = counts.values().map(|count| count.times).sum();
    counts.iter().find(|(_, count)| count.times.saturating_mul(2) > all).map(|row| *row.0)
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
        let unmapped = KvmActivity::NARROW;
        (0..4).for_each(|_| absorb(1, VcpuId(0), 11, unmapped));
        absorb(1, VcpuId(0), 11, KvmActivity::Aged);
        (0..2).for_each(|_| absorb(1, VcpuId::UNKNOWN, 1, unmapped));
        absorb(1, VcpuId::UNKNOWN, 1, KvmActivity::unmapped(256 << 20));
        (0..3).for_each(|_| absorb(40, VcpuId::UNKNOWN, 40, unmapped));
        (0..9).for_each(|_| absorb(50, VcpuId::UNKNOWN, 50, unmapped));
        let comms = [(40, "kswapd0".to_string()), (50, "bash".to_string())].into_iter().collect();
        let host = RecordedHost { comms, ..RecordedHost::default() };
        let count = |times, wide, faults| UnmapCount { times, wide, faults };
        let expected = [
            (Unmapper::Vcpus, count(4, 0, 40)),
            (Unmapper::Vmm, count(3, 1, 20 + (1 << 16))),
            (Unmapper::Reclaim, count(3, 0, 30)),
        ]
        .into();
        assert_eq!(all.of(VmId(1), &host), expected);
        assert_eq!(all.of(VmId(2), &host), [(Unmapper::Reclaim, count(3, 0, 30))].into());
        let faults = |bytes| {
            let KvmActivity::Unmapped(power) = KvmActivity::unmapped(bytes) else { panic!("{bytes}") };
            UnmapCount::one(power).faults
        };
        assert_eq!([0, 4_096, 2 << 20, u64::MAX].map(faults), [10, 10, 512, 1 << 51]);
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(twice.of(VmId(2), &host), [(Unmapper::Reclaim, count(6, 0, 60))].into());
        assert_eq!(mostly(&expected), None, "four of ten are not most");
        let most = [(Unmapper::Vcpus, count(5, 0, 50)), (Unmapper::Ksm, count(4, 4, 4_096))].into();
        assert_eq!(mostly(&most), Some(Unmapper::Vcpus));
        assert_eq!(mostly(&UnmapperCounts::new()), None);
        assert!(KERNEL_THREADS.iter().all(|row| row.1.threads() == row.0));
    }
}
