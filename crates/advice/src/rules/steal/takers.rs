//! Who had the CPUs for which vCPUs waited, of several VMs together, and what is done about each kind of them.

use crate::cures::cure::by_hand;
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
const KERNEL_THREADS: &[(&str, &str)] = &[
    (
        "ksoftirqd",
        "ksoftirqd serves soft interrupts that are too many for the interrupts themselves: keep devices' interrupts off the vCPUs' CPUs \
            (/proc/irq/*/smp_affinity_list, irqbalance's banned CPUs; of receive packet steering /sys/class/net/*/queues/rx-*/rps_cpus)",
    ),
    (
        "irq/",
        "an interrupt's thread runs where the interrupt may come: keep it off the vCPUs' CPUs (/proc/irq/*/smp_affinity_list)",
    ),
    (
        "kworker",
        "kworker does what is put off: keep unbound work off the vCPUs' CPUs (/sys/devices/virtual/workqueue/cpumask); work of one CPU \
            stays on the CPU that asked for it",
    ),
    (
        "migration",
        "migration moves tasks between CPUs, at once and before all others: pinned vCPUs are not moved; `perf sched \
         timehist -M` shows which tasks are",
    ),
    (
        "rcu",
        "RCU's callbacks: rcu_nocbs= takes them off the vCPUs' CPUs, and their threads can have CPUs of their own (taskset -p)",
    ),
    ("kswapd", "kswapd frees memory because there is too little: fewer or smaller VMs, or more memory"),
    (
        "kcompactd",
        "kcompactd moves memory together for huge pages: /proc/sys/vm/compaction_proactiveness, or huge pages set aside",
    ),
    ("khugepaged", "khugepaged makes huge pages: /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"),
    ("ksmd", "ksmd merges pages: /sys/kernel/mm/ksm/run, sleep_millisecs"),
    ("vhost", "vhost works for the devices of the VM whose VMM's PID is in its name: a CPU of its own (taskset -p)"),
];

impl CpuHolder {
    /// What is done so that this one has other CPUs.
    pub(super) fn cure(&self) -> AdviceSetting {
        let name = self.name.as_deref().unwrap_or("that process");
        match self.kind {
            TakerKind::OtherVm | TakerKind::SomeVcpu => by_hand(
                "the vCPUs of these VMs share CPUs: fewer vCPUs on them, or other CPUs for some (libvirt: <vcpupin>; taskset -p, \
                    cpuset.cpus)",
            ),
            TakerKind::SameVm => by_hand(
                "the VM's vCPUs take each other's CPUs: fewer vCPUs for it, or more CPUs in its affinity and cpuset",
            ),
            TakerKind::OwnVmm => by_hand(
                "the VM's own other threads (devices, I/O) on other CPUs than its vCPUs: libvirt's <emulatorpin> and <iothreadpin> in \
                    <cputune>, else taskset -p of these threads; vhost's workers go by <emulatorpin>, too",
            ),
            TakerKind::Process => AdviceSetting::ByHand(
                format!(
                    "keep {name} off the vCPUs' CPUs (cpuset.cpus of its cgroup, taskset -p), or give it less of them (cpu.weight, nice)"
                )
                .into(),
            ),
            TakerKind::KernelThread => {
                let row = KERNEL_THREADS.iter().find(|(begin, _)| name.starts_with(begin));
                by_hand(row.map_or("a thread of the kernel: find what it is of, and whether it can run elsewhere (taskset -p)", |row| row.1))
            }
            TakerKind::WakingUp => by_hand(
                "the CPUs were idle and woke up: shallower idle states (/sys/devices/system/cpu/cpu*/cpuidle/state*/disable), or halt \
                    polling",
            ),
            TakerKind::Idle | TakerKind::Others | TakerKind::Unknown => by_hand(super::wording::TIMEHIST),
        }
    }
}
