//! What the virtual machine of a process is called by those who run it.
//!
//! ```text
//! /proc/PID: cmdline, cgroup, status, environ of virt-launcher ─┐
//! /run/libvirt/qemu/NAME.xml ───────────────────────────────────┼─► VmIdentity: manager, name, UUID, namespace, pod, …
//! /var/log/pods/NAMESPACE_POD_UID ──────────────────────────────┤
//! /sys/kernel/debug/kvm/PID-FD ─────────────────────────────────┘
//! ```
//!
//! [`HostTree::identity`] reads them below a root, so that tests make trees as each system writes them. No server is asked: not
//! libvirt's, not Kubernetes'. What cannot be read is not known; nothing is guessed from what is like it. All of it is what
//! processes and files say of themselves: a command line is whatever the process made it. Reads are bounded.
//!
//! Does not know: tracing, intervals, flags.
#![cfg(target_os = "linux")]

mod cgroups;
mod files;
mod kubernetes;
mod libvirt;
mod process;
mod vmm;

pub use files::HostTree;

use exitscope_model::{IdentityField, IdentitySource, VmIdentity, VmManager};
use process::VmProcessFiles;
use vmm::{VmmCommand, VmmProgram};

impl HostTree {
    /// What the VM of this process is called. Nothing is known of a process that ended or began while it was looked at.
    pub fn identity(&self, process: u32) -> VmIdentity {
        let Some(began) = self.start_time(process) else { return VmIdentity::default() };
        let files = VmProcessFiles::read(self, process);
        let identity = self.of_files(process, &files);
        match self.start_time(process) == Some(began) {
            true => identity,
            false => VmIdentity::default(),
        }
    }

    fn of_files(&self, process: u32, files: &VmProcessFiles) -> VmIdentity {
        use IdentityField::{InnerPid, PodUid, VmId, VmsOfProcess};
        let mut identity = VmIdentity::default();
        let command = VmmCommand::of(&files.command);
        if let Some(inner) = files.inner_pid() {
            identity.set(InnerPid, &inner.to_string(), IdentitySource::ProcStatus);
        }
        if let Some(vms) = self.vms_of_process(process) {
            identity.set(VmsOfProcess, &vms.to_string(), IdentitySource::KvmDebugfs);
        }
        if let Some(uid) = &files.cgroups.pod_uid {
            identity.set(PodUid, uid, IdentitySource::Cgroup);
        }
        let Some(command) = command else { return identity };
        if let Some(name) = &command.name {
            identity.set(IdentityField::Name, name, IdentitySource::CommandLine);
        }
        if let Some(uuid) = &command.uuid {
            identity.set(IdentityField::Uuid, uuid, IdentitySource::CommandLine);
        }
        let vmid = command.vmid.as_ref().map(|vmid| (vmid, IdentitySource::CommandLine));
        if let Some((vmid, source)) = files.cgroups.vmid.as_ref().map(|vmid| (vmid, IdentitySource::Cgroup)).or(vmid) {
            identity.set(VmId, vmid, source);
        }
        let is_of_launcher = self.add_virt_launcher(files, &command, &mut identity);
        let is_of_libvirt = self.add_libvirt_state(files, &command, &mut identity);
        self.add_pod(files, &command, &mut identity);
        identity.manager = Some(if is_of_launcher {
            VmManager::KubeVirt
        } else if identity.get(VmId).is_some() {
            VmManager::Proxmox
        } else if is_of_libvirt || command.is_of_libvirt || files.cgroups.is_of_libvirt {
            VmManager::Libvirt
        } else if command.is_of_kata || files.cgroups.is_of_kata {
            VmManager::Kata
        } else if files.cgroups.pod_uid.is_some() {
            VmManager::Kubernetes
        } else {
            match command.vmm {
                VmmProgram::Qemu => VmManager::Qemu,
                VmmProgram::Firecracker => VmManager::Firecracker,
                VmmProgram::CloudHypervisor => VmManager::CloudHypervisor,
                VmmProgram::Crosvm => VmManager::Crosvm,
                VmmProgram::Dragonball => VmManager::Kata,
            }
        });
        identity
    }
}
