//! Pods: which one a VM's process is in, and KubeVirt's VirtualMachineInstance.

use crate::files::HostTree;
use crate::process::{Status, VmProcessFiles};
use crate::vmm::{VmmCommand, value};
use exitscope_model::{IdentityField, IdentitySource, VmIdentity};
use std::path::Path;

/// Ancestors of a process that are looked at: QEMU is a child of virt-launcher-monitor, the first process of its container, or
/// of virtqemud, whose parent is virt-launcher, whose parent is the monitor.
const ANCESTORS: usize = 8;

impl HostTree {
    /// Adds what KubeVirt's launcher says, if it is of this VM. Its command line has `--name VMI --namespace NAMESPACE`, its
    /// environment has POD_NAME (pkg/virt-controller/services/template.go of KubeVirt 1.9). The domain is called `NAMESPACE_VMI`
    /// (DomainFromNamespaceName of pkg/virt-launcher/virtwrap/util).
    pub(crate) fn add_virt_launcher(
        &self,
        files: &VmProcessFiles,
        command: &VmmCommand,
        identity: &mut VmIdentity,
    ) -> bool {
        let mut next = files.parent;
        for _ in 0..ANCESTORS {
            let Some(process) = next.filter(|&process| process > 0) else { return false };
            let launcher = self.command(process);
            let program = launcher.first().and_then(|word| Path::new(word).file_name()?.to_str());
            if let (Some("virt-launcher" | "virt-launcher-monitor"), Some(vmi), Some(namespace)) =
                (program, value(&launcher, "--name"), value(&launcher, "--namespace"))
            {
                if command.name.as_deref() != Some(format!("{namespace}_{vmi}").as_str()) {
                    return false;
                }
                let environment = self.words(format!("proc/{process}/environ"));
                let pod = environment.iter().find_map(|word| word.strip_prefix("POD_NAME=")).unwrap_or_default();
                let parts =
                    [(IdentityField::Namespace, &*namespace), (IdentityField::Vmi, &*vmi), (IdentityField::Pod, pod)];
                parts.iter().for_each(|(field, value)| identity.set(*field, value, IdentitySource::VirtLauncher));
                return true;
            }
            next = Status::read(self, process).and_then(|status| status.parent);
        }
        false
    }

    /// Adds namespace and name of the pod in whose cgroup the VM is. The kubelet calls the folder of its logs
    /// `NAMESPACE_POD_UID` (BuildPodLogsDirectory of pkg/kubelet/kuberuntime/helpers.go); neither name has an underscore.
    pub(crate) fn add_pod(&self, files: &VmProcessFiles, command: &VmmCommand, identity: &mut VmIdentity) {
        let Some(uid) = &files.cgroups.pod_uid else { return };
        if identity.get(IdentityField::Pod).is_none() {
            let folders = self.names("var/log/pods").unwrap_or_default();
            let of = folders.iter().find_map(|folder| match folder.split('_').collect::<Vec<_>>()[..] {
                [namespace, pod, of] if of == uid => Some((namespace, pod)),
                _ => None,
            });
            if let Some((namespace, pod)) = of {
                identity.set(IdentityField::Namespace, namespace, IdentitySource::PodLogs);
                identity.set(IdentityField::Pod, pod, IdentitySource::PodLogs);
            }
        }
        // A sandbox's number is nobody's name.
        let is_of_kata = command.is_of_kata || files.cgroups.is_of_kata;
        let names = (identity.get(IdentityField::Namespace), identity.get(IdentityField::Pod));
        if let (true, (Some(namespace), Some(pod))) = (is_of_kata, names) {
            let name = format!("{namespace}/{pod}");
            identity.set(IdentityField::Name, &name, IdentitySource::PodLogs);
        }
    }
}
