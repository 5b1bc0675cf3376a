//! Who had the CPUs for which vCPUs waited, of several VMs together, and what is done about each kind of them.

use crate::cures::cure::by_hand;
use crate::cures::unmapping_cures::KCOMPACTD;
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, total};
use crate::setting::AdviceSetting;
use exitscope_analysis::TakerKind;
use exitscope_units::VmId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Who had CPUs for which vCPUs waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuHolder {
    pub kind: TakerKind,
    /// The name of its thread, if it has one.
    pub name: Option<String>,
    /// What it is called.
    pub label: String,
    /// For how long, in nanoseconds.
    pub time: u64,
}

/// Who had the CPUs of these VMs' vCPUs while they waited, longest first; nobody unless it is known of half of that time.
pub(super) fn holders(input: &AdviceInput, host: &RecordedHost, vms: &[(VmId, VmTime)]) -> Vec<CpuHolder> {
    let mut holders: BTreeMap<String, CpuHolder> = BTreeMap::new();
    let mut takers = input.facts.steal_takers();
    let of_vms = vms.iter().filter_map(|(vm, _)| takers.remove(vm)).flatten();
    for taker in of_vms.filter(|taker| taker.is_known()) {
        let label = taker.label(&host.comms);
        let holder = holders.entry(label.clone());
        let holder = holder.or_insert(CpuHolder { kind: taker.kind, name: taker.name, label, time: 0 });
        holder.time = holder.time.saturating_add(taker.time);
    }
    let mut holders: Vec<CpuHolder> = holders.into_values().collect();
    holders.sort_by_key(|holder| Reverse(holder.time));
    let known = total(holders.iter().map(|holder| holder.time));
    if known.saturating_mul(2) < total(vms.iter().map(|(_, time)| time.steal)) {
        holders.clear();
    }
    holders
}

/// Whether for most of the time that is known the CPUs were idle, for longer than they take to wake up.
pub(super) fn are_mostly_idle(holders: &[CpuHolder]) -> bool {
    is_part_of(holders, TakerKind::Idle, (1, 2))
}

/// Whether for nearly all of the time that is known the CPUs were waking up.
pub(super) fn were_waking_up(holders: &[CpuHolder]) -> bool {
    is_part_of(holders, TakerKind::WakingUp, (9, 10))
}

/// Whether one kind had the CPUs for such a part of the time, if it had them at all.
fn is_part_of(holders: &[CpuHolder], kind: TakerKind, (part, whole): (u64, u64)) -> bool {
    let own = total(holders.iter().filter(|holder| holder.kind == kind).map(|holder| holder.time));
    own > 0 && own.saturating_mul(whole) >= total(holders.iter().map(|holder| holder.time)).saturating_mul(part)
}

/// What kernel threads do, by the beginnings of their names, and what keeps them off a CPU.
const KERNEL_THREADS: &[(&str, AdviceSetting)] = &[
    (
        "ksoftirqd",
        by_hand(
            "ksoftirqd runs soft interrupts, mostly those of devices, when there are too many to run at the end of an interrupt: keep devices' \
            interrupts off the vCPUs' CPUs (/proc/irq/*/smp_affinity_list, irqbalance's banned CPUs; for receive packet steering \
            /sys/class/net/*/queues/rx-*/rps_cpus)",
        ),
    ),
    (
        "irq/",
        by_hand(
            "a threaded interrupt handler runs on the CPUs to which its interrupt may be sent: keep it off the vCPUs' CPUs by \
            /proc/irq/*/smp_affinity_list",
        ),
    ),
    (
        "kworker",
        by_hand(
            "kworker runs the kernel's workqueues: keep unbound work off the vCPUs' CPUs (/sys/devices/virtual/workqueue/cpumask); work \
            bound to a CPU stays on the CPU that queued it",
        ),
    ),
    (
        "migration",
        by_hand(
            "migration is the kernel's thread that moves tasks between CPUs, and runs before all others: pinned vCPUs are not moved; \
         `perf sched timehist -M` shows which tasks are",
        ),
    ),
    (
        "rcu",
        by_hand(
            "RCU's threads end grace periods and run callbacks: rcu_nocbs=CPUS on the host's command line takes callbacks off the vCPUs' CPUs, \
            and RCU's threads can have other CPUs (taskset -p)",
        ),
    ),
    ("kswapd", by_hand("kswapd reclaims memory, of which the host is short: fewer or smaller VMs, or more memory")),
    ("kcompactd", KCOMPACTD),
    (
        "khugepaged",
        by_hand(
            "khugepaged collapses small pages into huge ones: a larger \
            /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs has it run less often",
        ),
    ),
    (
        "ksmd",
        by_hand(
            "ksmd merges equal pages: a larger sleep_millisecs in /sys/kernel/mm/ksm has it run less often, and 0 in its file run stops it",
        ),
    ),
    (
        "vhost",
        by_hand(
            "vhost-PID works for virtio devices of the VM whose VMM has that PID: give it CPUs other than the vCPUs' (taskset -p)",
        ),
    ),
];

/// What is done about other threads of the kernel.
const OTHER_KERNEL_THREAD: AdviceSetting =
    by_hand("a thread of the kernel: find out what it works for, and whether it can run on other CPUs (taskset -p)");

impl CpuHolder {
    /// What is done so that this one has other CPUs.
    pub(super) fn cure(&self) -> AdviceSetting {
        let name = self.name.as_deref().unwrap_or("that process");
        match self.kind {
            TakerKind::OtherVm | TakerKind::SomeVcpu => by_hand(
                "vCPUs of several VMs share these CPUs: put fewer vCPUs on them, or give some of them other CPUs (libvirt: <vcpupin>; \
                    taskset -p, cpuset.cpus)",
            ),
            TakerKind::SameVm => by_hand(
                "the VM's vCPUs take each other's CPUs: fewer vCPUs for it, or more CPUs in its affinity and cpuset",
            ),
            TakerKind::OwnVmm => by_hand(
                "put the VM's own other threads (devices, I/O) on other CPUs than its vCPUs': libvirt's <emulatorpin>, which also moves \
                    vhost's workers, and <iothreadpin>, both in <cputune>; without libvirt, taskset -p of these threads",
            ),
            TakerKind::Process => AdviceSetting::ByHand(
                format!(
                    "keep {name} off the vCPUs' CPUs (cpuset.cpus of its cgroup, taskset -p), or give it less of them (cpu.weight, nice)"
                )
                .into(),
            ),
            TakerKind::KernelThread => {
                let row = KERNEL_THREADS.iter().find(|(begin, _)| name.starts_with(begin));
                row.map_or(OTHER_KERNEL_THREAD, |row| row.1.clone())
            }
            TakerKind::WakingUp => by_hand(
                "the CPUs were idle and had to wake up: allow only shallow idle states (/sys/devices/system/cpu/cpu*/cpuidle/state*/disable), \
                    or let KVM poll longer before vCPUs halt (see halts)",
            ),
            TakerKind::Idle | TakerKind::Others | TakerKind::Unknown => by_hand(super::wording::TIMEHIST),
        }
    }
}
