//! What a virtual machine is called by those who run it: plain data, and how a recording keeps it.
//!
//! ```text
//! crates/identity, on a host ─► VmIdentity ─► settings of "vm 4711 identity": uuid · "uuid from" ─► a recording ─► VmIdentity
//! ```
//!
//! Whoever starts a VM names it: values are untrusted, and are encoded where they are shown (`encode`).

use crate::{HostSetting, TraceInfo, is_called};
use exitscope_units::VmId;
use std::collections::{BTreeMap, BTreeSet};

/// Declares an enum whose variants have one spelling each, which metrics, JSON and recordings share.
macro_rules! spelt {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $id:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Each of them, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its spelling.
            pub fn id(self) -> &'static str {
                match self {
                    $($name::$variant => $id,)*
                }
            }

            fn of(id: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|of| of.id() == id)
            }
        }
    };
}

spelt! {
    /// Who started a VM; a VMM that nobody else manages stands for itself.
    VmManager {
        /// libvirt, and what is built on it (virt-manager, OpenStack, oVirt).
        Libvirt = "libvirt",
        /// Proxmox VE.
        Proxmox = "proxmox",
        /// KubeVirt.
        KubeVirt = "kubevirt",
        /// Kata Containers.
        Kata = "kata",
        /// Another VMM in a pod.
        Kubernetes = "kubernetes",
        /// QEMU alone.
        Qemu = "qemu",
        /// Firecracker, with or without its jailer.
        Firecracker = "firecracker",
        /// Cloud Hypervisor alone.
        CloudHypervisor = "cloud-hypervisor",
        /// crosvm.
        Crosvm = "crosvm",
    }
}

spelt! {
    /// A part of what a VM is called.
    IdentityField {
        /// The name: libvirt's domain, QEMU's `-name`, an id of Firecracker; of a pod's VM under Kata, `NAMESPACE/POD`.
        Name = "name",
        /// The name that an OpenStack user gave it, which others may have, too.
        DisplayName = "display_name",
        /// The UUID that the guest sees in its SMBIOS tables.
        Uuid = "uuid",
        /// Proxmox' number.
        VmId = "vmid",
        /// The namespace of the pod.
        Namespace = "namespace",
        /// The pod in whose cgroup the VM's process, or one of its threads, is.
        Pod = "pod",
        /// The UID of that pod.
        PodUid = "pod_uid",
        /// KubeVirt's VirtualMachineInstance.
        Vmi = "vmi",
        /// The process id in the innermost PID namespace, if it has one of its own.
        InnerPid = "inner_pid",
        /// VMs of KVM that the process has.
        VmsOfProcess = "vms_of_process",
    }
}

spelt! {
    /// Where a part was read.
    IdentitySource {
        /// The command line of the VM's process.
        CommandLine = "command line",
        /// The cgroups of the VM's process, or of one of its threads.
        Cgroup = "cgroup",
        /// The file in which libvirt keeps the state of a running domain.
        LibvirtState = "libvirt state file",
        /// The command line and environment of KubeVirt's virt-launcher.
        VirtLauncher = "virt-launcher",
        /// The name of the kubelet's folder of the pod's logs.
        PodLogs = "pod log folder",
        /// `/proc/PID/status`.
        ProcStatus = "proc status",
        /// KVM's folders in debugfs.
        KvmDebugfs = "kvm debugfs",
    }
}

/// The name of the setting that says who manages a VM.
const MANAGER: &str = "manager";

/// What a VM is called by those who run it; a part that could not be read is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmIdentity {
    /// Who started it.
    pub manager: Option<VmManager>,
    parts: BTreeMap<IdentityField, (String, IdentitySource)>,
}

impl VmIdentity {
    /// The longest value in bytes: pods, files and Kubernetes objects have at most 253 or 255.
    pub const LONGEST: usize = 255;

    /// Creates an identity that has a manager and no part.
    pub fn managed_by(manager: VmManager) -> VmIdentity {
        VmIdentity { manager: Some(manager), ..VmIdentity::default() }
    }

    /// Sets a part, of which at most [`VmIdentity::LONGEST`] bytes are kept; an empty value is not known.
    pub fn set(&mut self, field: IdentityField, value: &str, source: IdentitySource) {
        let end = (0..=Self::LONGEST.min(value.len())).rev().find(|&end| value.is_char_boundary(end)).unwrap_or(0);
        if end > 0 {
            self.parts.insert(field, (value[..end].to_string(), source));
        }
    }

    /// A part.
    pub fn get(&self, field: IdentityField) -> Option<&str> {
        self.parts.get(&field).map(|part| part.0.as_str())
    }

    /// Every part that is known, with where it was read.
    pub fn parts(&self) -> impl Iterator<Item = (IdentityField, &str, IdentitySource)> {
        self.parts.iter().map(|(&field, (value, source))| (field, value.as_str(), *source))
    }

    /// Keeps only what `other` has as well: what is true of both.
    pub fn keep_common(&mut self, other: &VmIdentity) {
        self.manager = self.manager.filter(|manager| other.manager == Some(*manager));
        self.parts.retain(|field, part| other.parts.get(field).is_some_and(|of_other| of_other.0 == part.0));
    }

    /// Whether a person means this VM by `wanted`: its name, display name, UUID, Proxmox' number, VMI or pod, the last two also
    /// as `NAMESPACE/NAME`.
    pub fn is_called(&self, wanted: &str) -> bool {
        use IdentityField::{DisplayName, Name, Namespace, Pod, Uuid, VmId, Vmi};
        let is = |field| self.get(field) == Some(wanted);
        let is_in_namespace = |field| {
            let (namespace, name) = (self.get(Namespace), self.get(field));
            wanted.split_once('/').is_some_and(|(of, wanted)| namespace == Some(of) && name == Some(wanted))
        };
        [Name, DisplayName, VmId, Vmi, Pod].into_iter().any(is)
            || [Vmi, Pod].into_iter().any(is_in_namespace)
            || self.get(Uuid).is_some_and(|uuid| uuid.eq_ignore_ascii_case(wanted))
    }

    /// As settings of a recording.
    pub fn settings(&self, vm: VmId) -> impl Iterator<Item = HostSetting> {
        let of = component(vm);
        let manager = self.manager.map(|manager| HostSetting::new(&of, MANAGER, manager.id()));
        let rows = self.parts.iter().flat_map(move |(field, (value, source))| {
            let name = field.id();
            [HostSetting::new(&of, name, value), HostSetting::new(&of, &source_name(name), source.id())]
        });
        manager.into_iter().chain(rows)
    }

    /// What the settings of a recording say of a VM. A part whose source is not one of [`IdentitySource`] is left out.
    pub fn of_settings(settings: &[HostSetting], vm: VmId) -> VmIdentity {
        let of = component(vm);
        let rows: BTreeMap<&str, &str> = settings
            .iter()
            .filter(|setting| setting.of == of)
            .map(|setting| (setting.name.as_str(), setting.value.as_str()))
            .collect();
        let mut identity =
            VmIdentity { manager: rows.get(MANAGER).and_then(|id| VmManager::of(id)), ..VmIdentity::default() };
        for (name, value) in &rows {
            let source = rows.get(source_name(name).as_str()).and_then(|id| IdentitySource::of(id));
            if let (Some(field), Some(source)) = (IdentityField::of(name), source) {
                identity.set(field, value, source);
            }
        }
        identity
    }

    /// The VMs of which the settings of a recording say anything, with what.
    pub fn all_of_settings(settings: &[HostSetting]) -> BTreeMap<VmId, VmIdentity> {
        let vms = settings.iter().filter_map(vm_of);
        let vms: BTreeMap<VmId, VmIdentity> = vms.map(|vm| (vm, VmIdentity::default())).collect();
        vms.into_keys().map(|vm| (vm, VmIdentity::of_settings(settings, vm))).collect()
    }
}

/// The component of the settings that say who a VM is. It begins as those of the VM's command line do.
fn component(vm: VmId) -> String {
    format!("vm {} identity", vm.0)
}

fn source_name(field: &str) -> String {
    format!("{field} from")
}

/// The VM of which a setting says who it is.
fn vm_of(setting: &HostSetting) -> Option<VmId> {
    setting.of.strip_prefix("vm ")?.strip_suffix(" identity")?.parse().ok().map(VmId)
}

/// Whether a setting says who a VM is.
pub fn is_of_identity(setting: &HostSetting) -> bool {
    vm_of(setting).is_some()
}

impl TraceInfo {
    /// The VMs that a person means by `wanted`: by what their processes are called, or by what the recorder knew of them.
    pub fn vms_called(&self, wanted: &str) -> BTreeSet<VmId> {
        let by_process = self.comms.iter().filter(|(_, comm)| is_called(comm, wanted)).map(|(pid, _)| VmId(*pid));
        let known = VmIdentity::all_of_settings(&self.settings);
        let by_identity = known.iter().filter(|(_, identity)| identity.is_called(wanted)).map(|(vm, _)| *vm);
        by_process.chain(by_identity).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QemuOptions, is_of_vm};

    /// Every part, each with a value and a source of its own.
    fn full() -> VmIdentity {
        let mut identity = VmIdentity { manager: Some(VmManager::KubeVirt), ..VmIdentity::default() };
        for (at, &field) in IdentityField::ALL.iter().enumerate() {
            let source = IdentitySource::ALL[at % IdentitySource::ALL.len()];
            identity.set(field, &format!("value {at}\u{1b}[2J\n"), source);
        }
        identity
    }

    #[test]
    fn a_recording_gives_back_what_it_was_told_and_of_the_same_vm_alone() {
        let (of_7, mut of_8) = (full(), VmIdentity::default());
        of_8.set(IdentityField::Name, "db", IdentitySource::CommandLine);
        let mut settings: Vec<HostSetting> = of_7.settings(VmId(7)).chain(of_8.settings(VmId(8))).collect();
        settings.push(HostSetting::new("vm 7", "-cpu", "host"));
        assert_eq!(VmIdentity::of_settings(&settings, VmId(7)), of_7);
        assert_eq!(VmIdentity::of_settings(&settings, VmId(9)), VmIdentity::default());
        let all = VmIdentity::all_of_settings(&settings);
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [(VmId(7), of_7), (VmId(8), of_8)]);
        // A bundle leaves out all that is of a VM, and QEMU's options do not take names for theirs.
        assert!(settings.iter().all(is_of_vm));
        assert_eq!(settings.iter().filter(|setting| !is_of_identity(setting)).count(), 1);
        assert_eq!(QemuOptions::of_settings(&settings, VmId(7)).settings(VmId(7)).count(), 1);
    }

    #[test]
    fn values_are_bounded_and_none_is_made_of_nothing() {
        let mut identity = VmIdentity::default();
        identity.set(IdentityField::Name, &"ä".repeat(1_000), IdentitySource::CommandLine);
        identity.set(IdentityField::Pod, "", IdentitySource::PodLogs);
        assert_eq!(identity.get(IdentityField::Name).map(str::len), Some(254));
        assert_eq!(identity.get(IdentityField::Pod), None);
        let of = "vm 7 identity";
        let forged = [HostSetting::new(of, "uuid", "x"), HostSetting::new(of, "uuid from", "an oracle")];
        assert_eq!(VmIdentity::of_settings(&forged, VmId(7)), VmIdentity::default());
    }

    #[test]
    fn a_vm_is_meant_by_whatever_its_owner_calls_it() {
        let mut identity = VmIdentity::default();
        let parts = [
            (IdentityField::Name, "shop_web"),
            (IdentityField::DisplayName, "Web server"),
            (IdentityField::Uuid, "30ad89ac-5906-49ca-8d52-3c6343c598f6"),
            (IdentityField::VmId, "100"),
            (IdentityField::Namespace, "shop"),
            (IdentityField::Vmi, "web"),
            (IdentityField::Pod, "virt-launcher-web-x7k2p"),
            (IdentityField::PodUid, "b39963e8-cc41-4d44-912a-ed5394b6d4d5"),
        ];
        parts.into_iter().for_each(|(field, value)| identity.set(field, value, IdentitySource::Cgroup));
        let meant = ["shop_web", "Web server", "30AD89AC-5906-49ca-8d52-3c6343c598f6", "100", "web", "shop/web"];
        assert!(meant.into_iter().all(|wanted| identity.is_called(wanted)));
        assert!(identity.is_called("shop/virt-launcher-web-x7k2p"));
        // A namespace has many VMs.
        assert!(["shop", "other/web", "10", "/web", ""].into_iter().all(|wanted| !identity.is_called(wanted)));
    }
}
