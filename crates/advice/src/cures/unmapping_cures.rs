//! What to do where the host takes a guest's memory away and the guest faults it in again: by who takes it, as far as that is known.
//!
//! Each of them changes a mapping of the VMM's, and KVM unmaps the same from the guest: `kvm_mmu_notifier_invalidate_range_start` of
//! virt/kvm/kvm_main.c.

use super::cure::{Acts, Cure, CureCondition, LESS_OFTEN, by_hand, libvirt, qemu};
use crate::setting::{AdviceSetting, SettingCondition};

/// `change_prot_numa` of mm/mempolicy.c: pages are made inaccessible, and who touches them next takes them to its node.
const NUMA: AdviceSetting = by_hand(
    "`grep numa_ /proc/vmstat`, twice: numa_pte_updates grows with what NUMA balancing unmaps, numa_pages_migrated with what it \
        moves. Where vCPUs and memory are pinned, `sysctl kernel.numa_balancing=0`; libvirt binds memory by <numatune>, and memory \
        that is bound to one node has nowhere to go",
);

/// Documentation/admin-guide/mm/ksm.rst; `MADV_MERGEABLE` is what QEMU asks for (`ram_block_add` of system/physmem.c).
const KSM: AdviceSetting = by_hand(
    "/sys/kernel/mm/ksm/run: 0 stops it, 2 also takes merged pages apart; pages_sharing beside it shows how much \
     memory it saves, and full_scans how often it has scanned all memory",
);

/// `collapse_huge_page` of mm/khugepaged.c; Documentation/admin-guide/mm/transhuge.rst.
const COLLAPSE: AdviceSetting = by_hand(
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed, twice, shows how much it collapses; \
        pages_to_scan and scan_sleep_millisecs beside it set how fast it goes. With enabled at madvise or always, and \
        defrag that lets faults wait for huge pages, memory is huge from its first touch, and nothing is left to \
        collapse",
);

/// `inflate` of hw/virtio/virtio-balloon.c of QEMU, `ram_block_discard_range` of system/physmem.c; migration/postcopy-ram.c and
/// userfaultfd for what arrives when it is touched.
const VMM: AdviceSetting = by_hand(
    "a balloon (virtio-balloon): `virsh dommemstat DOMAIN`, twice, or `info balloon` in QEMU's monitor; a migration or a snapshot: \
        `virsh domjobinfo DOMAIN`, `info migrate`; which calls: `perf trace -e madvise,munmap,mprotect,fallocate,ioctl -p PID`",
);

const RECLAIM: AdviceSetting = by_hand(
    "`grep -E 'pgsteal|pswpout|pswpin' /proc/vmstat`, twice, on the host: these grow where it is short of memory; memory.high and \
        memory.max of the VM's control group take pages in its own threads (memory.stat)",
);

/// `kvm_nx_huge_page_recovery_worker` of arch/x86/kvm/mmu/mmu.c.
const NX_RECOVERY: AdviceSetting = by_hand(
    "/sys/module/kvm/parameters/nx_huge_pages: where it is Y, KVM splits huge pages that guests run code from, and each period \
        makes a part of them (1/nx_huge_pages_recovery_ratio) huge again, until the next fetch from them. By default it gets \
        through all of them in about an hour: waves of faults that are closer together are something else",
);

const IF_NUMA: AdviceSetting = AdviceSetting::When { condition: SettingCondition::NumaBalancing, set: &NUMA };
const IF_KSM: AdviceSetting = AdviceSetting::When { condition: SettingCondition::Ksm, set: &KSM };
const IF_COLLAPSE: AdviceSetting = AdviceSetting::When { condition: SettingCondition::HugePages, set: &COLLAPSE };

/// Pages fault again, and no event says who took them.
pub(crate) static TAKEN_AWAY: Cure = Cure {
    title: "Find out what unmaps the guest's pages",
    change: "most of these pages faulted before in this recording, so something unmapped them meanwhile: find out what",
    switches: &[],
    settings: &[
        by_hand(
            "`perf record -a -e kvm:kvm_unmap_hva_range -e huge_memory:mm_collapse_huge_page -e \
                migrate:mm_migrate_pages -- sleep 10` on the host, and `perf report --sort comm,sym`: the thread \
                shows who does it (khugepaged, ksmd, kswapd, the VMM's own)",
        ),
        IF_NUMA,
        IF_KSM,
        IF_COLLAPSE,
        VMM,
        RECLAIM,
        AdviceSetting::When { condition: SettingCondition::IntelHost, set: &NX_RECOVERY },
    ],
    xen: "",
    helps: CureCondition::Always,
    least: LESS_OFTEN,
    acts: Acts::AtHost,
    risk: "what unmaps pages has its use: memory that several VMs share, or memory close to the CPU that uses it",
    payer: "whoever profits from what unmaps them",
};

/// Where the host changes mappings meanwhile: that a page had no fault before in the recording does not say that it was not there before.
pub(crate) static PERHAPS_TAKEN: Cure = Cure {
    title: "Find out whether the host unmaps the guest's pages",
    change: "find out whether these pages fault because the host unmapped them, before trying huge pages or preallocation: the host \
        changes the VMM's mappings meanwhile (kvm_unmap_hva_range, of KVM's MMU notifier), no thread does most of it, and pages may \
        have been mapped before the recording",
    ..TAKEN_AWAY
};

/// `task_numa_work` of kernel/sched/fair.c runs in the thread whose memory it looks at, and so does `migrate_misplaced_folio` of
/// mm/migrate.c, at the fault; `wp_page_copy` of mm/memory.c is a write to a shared page; `try_to_free_pages` of mm/vmscan.c and
/// `try_to_compact_pages` of mm/compaction.c are asked by who allocates.
pub(crate) static BY_VCPUS: Cure = Cure {
    title: "Find out whether the host unmaps the guest's pages",
    change: "find out whether these pages fault because the host unmapped them, before trying huge pages or preallocation: the vCPU \
        threads themselves change mappings (kvm_unmap_hva_range, of KVM's MMU notifier). NUMA balancing, writes to pages that KSM merged, and a shortage of \
        memory all do that in a vCPU's thread, and the recording does not tell them apart",
    settings: &[IF_NUMA, IF_KSM, RECLAIM],
    ..TAKEN_AWAY
};

/// `task_numa_work` of kernel/sched/fair.c has `change_prot_numa` make up to numa_balancing_scan_size_mb (256) inaccessible at once, in the
/// thread whose memory it is; what else the kernel does there by itself (migration, reclaim, copies on write) is of a folio at a time.
pub(crate) static BY_NUMA_SCANS: Cure = Cure {
    title: "Find out whether NUMA balancing unmaps the pages",
    change: "find out whether NUMA balancing causes these faults, before trying huge pages or preallocation: the vCPU threads \
        themselves change mappings of 4 MiB and more at once (kvm_unmap_hva_range, of KVM's MMU notifier), as its scans do, and a guest \
        faults again on what they made inaccessible",
    settings: &[IF_NUMA],
    risk: "without it, memory stays on the node where it is, also where the scheduler moves the vCPUs to another",
    ..TAKEN_AWAY
};

/// The same where NUMA balancing is off.
pub(crate) static BY_VCPUS_WITHOUT_NUMA: Cure = Cure {
    title: "Find out whether the host unmaps the guest's pages",
    change: "find out whether these pages fault because the host unmapped them, before trying huge pages or preallocation: the vCPU \
        threads themselves change mappings (kvm_unmap_hva_range, of KVM's MMU notifier), and NUMA balancing is off (kernel.numa_balancing=0). Writes to pages \
        that KSM merged and a shortage of memory do that, too, and the recording does not tell them apart",
    settings: &[IF_KSM, RECLAIM],
    ..TAKEN_AWAY
};

/// Any thread of the process may get the turn of `task_numa_work`.
pub(crate) static BY_VMM: Cure = Cure {
    title: "Find out whether the VMM unmaps the guest's pages",
    change: "find out whether these pages fault because the VMM unmapped them, before trying huge pages or preallocation: threads of \
        its process that are no vCPUs change mappings (kvm_unmap_hva_range), as for a balloon, a migration or a snapshot",
    settings: &[VMM, IF_NUMA],
    ..TAKEN_AWAY
};

/// `collapse_huge_page` of mm/khugepaged.c takes what is mapped small away, and maps a huge page in its place.
pub(crate) static BY_KHUGEPAGED: Cure = Cure {
    title: "Back the guest's memory with huge pages at its start",
    change: "back the guest's memory with huge pages from the beginning: khugepaged collapses small pages into huge ones \
        (kvm_unmap_hva_range in its thread), and unmaps the small ones from the guest for that; it ends when all memory is \
        collapsed, unless something splits it again",
    settings: &[COLLAPSE, libvirt("memoryBacking", "<hugepages/>")],
    ..TAKEN_AWAY
};

/// `write_protect_page` and `replace_page` of mm/ksm.c; a write to a merged page takes it away once more (`wp_page_copy`).
pub(crate) static BY_KSM: Cure = Cure {
    title: "Keep ksmd off this VM's memory",
    change: "have ksmd leave this VM's memory alone: it merges equal pages (kvm_unmap_hva_range in its thread), and unmaps them from \
        the guest for that",
    settings: &[KSM, qemu("-machine mem-merge=off"), libvirt("memoryBacking", "<nosharepages/>")],
    risk: "memory that is not merged is missing elsewhere: a host that counts on it may begin to swap",
    payer: "other users of the host's memory",
    ..TAKEN_AWAY
};

/// `mlock` keeps pages from `shrink_folio_list` of mm/vmscan.c: they are not evictable.
pub(crate) static BY_RECLAIM: Cure = Cure {
    title: "Run fewer or smaller VMs, or lock this VM's memory",
    change: "run fewer or smaller VMs, or lock this one's memory: the host is short of memory, and kswapd unmaps the guest's pages to \
        reclaim them (kvm_unmap_hva_range in its thread)",
    settings: &[RECLAIM, libvirt("memoryBacking", "<locked/>"), qemu("-overcommit mem-lock=on")],
    // "Memory Backing" and "Memory Tuning" of libvirt's docs/formatdomain.rst.
    risk: "locked memory is never reclaimed: the host has to find its memory elsewhere, or kills processes; with <locked/> libvirt lifts the \
        limit on what QEMU may lock, which <hard_limit> in <memtune> bounds again, with room for QEMU itself",
    payer: "other users of the host's memory",
    ..TAKEN_AWAY
};

/// `kcompactd` of mm/compaction.c: woken for an allocation it does `kcompactd_do_work`, which alone counts KCOMPACTD_WAKE; else
/// `proactive_compact_node` (Linux 5.9), by sysctl_compaction_proactiveness, 20 by default. Both count KCOMPACTD_MIGRATE_SCANNED.
pub(crate) const KCOMPACTD: AdviceSetting = by_hand(
    "`grep compact_daemon /proc/vmstat`, twice: where compact_daemon_migrate_scanned grows and compact_daemon_wake does not, \
        kcompactd compacts proactively, which `sysctl vm.compaction_proactiveness=0` ends; where compact_daemon_wake grows, it was \
        woken for allocations of several pages in a row, which that setting does not change",
);
pub(crate) static BY_COMPACTION: Cure = Cure {
    title: "Find out why kcompactd moves the guest's pages",
    change: "find out why kcompactd runs: it moves pages together, to make room for large ones, and unmaps the guest's pages for that \
        (kvm_unmap_hva_range in its thread)",
    settings: &[KCOMPACTD],
    risk: "allocations of huge pages fail or wait more often",
    payer: "whoever allocates huge pages",
    ..TAKEN_AWAY
};
