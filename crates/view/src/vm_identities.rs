//! What the VMs of a recording are called by those who run them, as far as the recorder says.

use exitscope_model::{IdentityField, TraceInfo, VmIdentity, VmManager};
use exitscope_units::VmId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Who a VM is. A part that the recorder could not read is absent; docs/identity.md says where each is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VmIdentityRow {
    /// The VM's process id.
    pub vm: u32,
    /// Who started the VM: `libvirt`, `proxmox`, `kubevirt`, `kata`, `kubernetes` (another VMM in a pod), or the VMM itself: `qemu`,
    /// `firecracker`, `cloud-hypervisor`, `crosvm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<&'static str>,
    /// Its name: libvirt's domain, QEMU's `-name`, Firecracker's id; under Kata `NAMESPACE/POD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that an OpenStack user gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Proxmox' number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmid: Option<String>,
    /// The namespace of its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The UID of its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// KubeVirt's VirtualMachineInstance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmi: Option<String>,
    /// Its process id in the PID namespace of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<String>,
    /// VMs of KVM that its process had when the recording began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vms_of_process: Option<String>,
    /// Where each of these parts was read.
    pub sources: BTreeMap<&'static str, &'static str>,
}

impl VmIdentityRow {
    fn of(vm: VmId, identity: &VmIdentity) -> VmIdentityRow {
        let part = |field| identity.get(field).map(str::to_string);
        VmIdentityRow {
            vm: vm.0,
            manager: identity.manager.map(VmManager::id),
            name: part(IdentityField::Name),
            display_name: part(IdentityField::DisplayName),
            uuid: part(IdentityField::Uuid),
            vmid: part(IdentityField::VmId),
            namespace: part(IdentityField::Namespace),
            pod: part(IdentityField::Pod),
            pod_uid: part(IdentityField::PodUid),
            vmi: part(IdentityField::Vmi),
            inner_pid: part(IdentityField::InnerPid),
            vms_of_process: part(IdentityField::VmsOfProcess),
            sources: identity.parts().map(|(field, _, source)| (field.id(), source.id())).collect(),
        }
    }
}

/// The VMs of which a trace says who they are.
pub(crate) fn rows(info: &TraceInfo) -> Vec<VmIdentityRow> {
    VmIdentity::all_of_settings(&info.settings).iter().map(|(vm, identity)| VmIdentityRow::of(*vm, identity)).collect()
}
