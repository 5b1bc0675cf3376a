//! Whose something is, in the words of its host.

use crate::{Column, Of, TraceInfo, VcpuIdentity};
use exitscope_units::{VcpuId, VmId};
use schemars::JsonSchema;
use serde::Serialize;

/// A virtual CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhoRow {
    /// The VM's process id, or Xen's domain; absent if the trace does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// The vCPU's number; absent if nothing in the trace says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<u32>,
    /// The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_cpu: Option<u32>,
    /// The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
}

impl WhoRow {
    /// A virtual CPU, whose VM's name `info` knows.
    pub fn of(who: VcpuIdentity, info: &TraceInfo) -> WhoRow {
        WhoRow {
            vm: who.vm.number(),
            vm_name: info.vm_name(who.vm),
            vcpu: who.vcpu.number(),
            on_cpu: who.vcpu.known_by().map(|cpu| cpu.0),
            tid: (who.tid.0 != 0).then_some(who.tid.0),
        }
    }

    /// `qemu-system-x86 1234`, or what is known of it.
    pub fn vm_label(&self) -> String {
        match (self.vm, &self.vm_name) {
            (Some(vm), Some(name)) => format!("{name} {vm}"),
            (Some(vm), None) => vm.to_string(),
            _ => "-".to_string(),
        }
    }

    /// `0`, `on CPU 1`, or `thread 1234`.
    pub fn vcpu_label(&self) -> String {
        match (self.vcpu, self.on_cpu, self.tid) {
            (Some(vcpu), ..) => vcpu.to_string(),
            (None, Some(cpu), _) => format!("on CPU {cpu}"),
            (None, None, Some(tid)) => format!("thread {tid}"),
            _ => "-".to_string(),
        }
    }
}

/// Characters of a process's name that the kernel keeps: TASK_COMM_LEN of `include/linux/sched.h`, less the zero.
const COMM_LEN: usize = 15;

/// Whether a process that is called `comm` in a recording is meant by this name, of which the kernel keeps the beginning.
pub fn is_called(comm: &str, name: &str) -> bool {
    comm == name || (comm.len() == COMM_LEN && name.starts_with(comm))
}

/// The vCPU that a thread is named for: QEMU's `CPU 3/KVM`, Firecracker's `fc_vcpu 3`, Cloud Hypervisor's `vcpu3`,
/// kvmtool's `kvm-vcpu-3`.
pub fn vcpu_by_name(comm: &str) -> Option<VcpuId> {
    let number = match comm.strip_prefix("CPU ") {
        Some(rest) => rest.strip_suffix("/KVM")?,
        None => ["fc_vcpu ", "kvm-vcpu-", "vcpu"].iter().find_map(|prefix| comm.strip_prefix(prefix))?,
    };
    Some(VcpuId(number.parse().ok()?))
}

impl TraceInfo {
    /// What the process of a VM is called, if the trace says.
    pub fn vm_name(&self, vm: VmId) -> Option<String> {
        self.comms.get(&vm.0).filter(|_| vm != VmId::UNKNOWN).cloned()
    }
}

/// Rows that are some vCPU's.
pub(super) trait OfVcpu {
    fn who(&self) -> &WhoRow;
}

/// The columns that name a vCPU.
pub(super) fn who_columns<R: OfVcpu>() -> Vec<Column<R>> {
    vec![
        Column::new(
            "vm",
            "",
            "The VM's process id, or Xen's domain; absent if the trace does not say.",
            Of::U32(|row: &R| row.who().vm),
        )
        .nullable(),
        Column::new("vm_name", "", "The VM's process name.", Of::Words(|row: &R| row.who().vm_name.as_deref()))
            .nullable(),
        Column::new(
            "vcpu",
            "",
            "The vCPU's number; absent if nothing in the trace says.",
            Of::U32(|row: &R| row.who().vcpu),
        )
        .nullable(),
        Column::new(
            "on_cpu",
            "",
            "The physical CPU, where nothing else says which vCPU it is (Xen).",
            Of::U32(|row: &R| row.who().on_cpu),
        )
        .nullable(),
        Column::new(
            "tid",
            "",
            "The vCPU's thread; absent where another thread records for it (powerpc).",
            Of::U32(|row: &R| row.who().tid),
        )
        .nullable(),
    ]
}
