//! Steal, by who had the CPU meanwhile.

use exitscope_analysis::{Facts, StealTaker, TakerKind};
use exitscope_model::{TraceInfo, VcpuIdentity, WhoRow};
use exitscope_units::{Tid, VcpuId, VmId};
use schemars::JsonSchema;
use serde::Serialize;

/// Who had the CPUs for which the vCPUs of a VM waited: after a wake-up the CPU that the vCPU then got, after a preemption the one that
/// it lost, up to when that was idle, and from then on the one that it got.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StealTakerRow {
    /// The VM whose vCPUs waited.
    #[serde(flatten)]
    pub who: WhoRow,
    /// `other_vm` and `same_vm` (vCPUs), `some_vcpu` (of which VM is not recorded), `own_vmm` (another thread of the VM's process),
    /// `process`, `kernel_thread` (so its name says), `waking_up` (nobody: a CPU that was idle for less than 1 ms after a wake-up), `idle`
    /// (nobody), `others` (further threads than are told apart) or `unknown`.
    #[schemars(extend("enum" = TakerKind::ALL.map(TakerKind::name)))]
    pub taker: &'static str,
    /// The process id of the other VM, or its Xen domain; absent of other takers than `other_vm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taker_vm: Option<u32>,
    /// The name of the other VM's process; absent if the recording has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taker_vm_name: Option<String>,
    /// The thread's name, as it was when it left the CPU; absent if the recording has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The process id of the thread, if all time of this row is of one process; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of processes of this name that had these CPUs, as far as they are known.
    pub processes: usize,
    /// Steal of the VM during which this taker had the CPU, in nanoseconds; all rows of a VM add up to its steal.
    pub steal_ns: u64,
    /// `steal_ns` as a share of the VM's steal, 0 to 1.
    pub share: f64,
    /// For a person.
    #[serde(skip)]
    pub label: String,
}

impl StealTakerRow {
    /// Those of all VMs with steal, longest first, what is not known last.
    pub(crate) fn all(facts: &Facts, info: &TraceInfo) -> Vec<StealTakerRow> {
        let rows = facts.steal_takers().into_iter().flat_map(|(vm, takers)| {
            let steal: u64 = takers.iter().map(|taker| taker.time).sum();
            takers.into_iter().map(move |taker| StealTakerRow::of(vm, taker, steal, info))
        });
        rows.collect()
    }

    fn of(vm: VmId, taker: StealTaker, steal: u64, info: &TraceInfo) -> StealTakerRow {
        let processes = &taker.processes;
        StealTakerRow {
            who: WhoRow::of(VcpuIdentity { vm, vcpu: VcpuId::UNKNOWN, tid: Tid(0) }, info),
            taker: taker.kind.name(),
            taker_vm: taker.vm.and_then(VmId::number),
            taker_vm_name: taker.vm.and_then(|vm| info.vm_name(vm)),
            pid: processes.first().copied().filter(|_| processes.len() == 1),
            processes: processes.len(),
            steal_ns: taker.time,
            share: taker.time as f64 / steal.max(1) as f64,
            label: taker.label(&info.comms),
            name: taker.name,
        }
    }
}
