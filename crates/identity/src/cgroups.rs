//! What the cgroups of a process tell of who started it.
//!
//! | path | who | source |
//! | --- | --- | --- |
//! | `…/kubepods-burstable-podUID.slice/…`, `/kubepods/burstable/podUID/…` | the kubelet, by systemd or by cgroupfs | GetPodCgroupNameSuffix, CgroupName.ToSystemd of pkg/kubelet/cm; `_` stands for `-` |
//! | `/qemu.slice/VMID.scope` | Proxmox VE | src/PVE/QemuServer/CGroup.pm of qemu-server 9.2 |
//! | `/machine.slice/machine-qemu\x2dID\x2dNAME.scope/…`, `…/NAME.libvirt-qemu/…` | libvirt, with systemd and without | virSystemdMakeScopeName of src/util/virsystemd.c, virCgroupValidateMachineGroup of src/util/vircgroup.c |
//! | `…/kata_ID`, `/kata_overhead/ID` | Kata Containers | src/runtime/pkg/resourcecontrol/cgroups.go, resCtrlKataOverheadID of virtcontainers/sandbox.go |
//!
//! libvirt's scope has no name that could be taken for the domain's: virDomainDriverGenerateMachineName leaves out what is not
//! fit for a host name, and cuts it.

use crate::files::HostTree;
use std::collections::BTreeSet;

/// Threads of a process whose cgroups are looked at.
const THREADS: usize = 64;

/// What is told; of two pods or two numbers, neither is.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    pub pod_uid: Option<String>,
    pub vmid: Option<String>,
    pub is_of_libvirt: bool,
    pub is_of_kata: bool,
}

impl Cgroups {
    /// Those of a process; the pod also of its threads: Kata may leave only those of vCPUs in the pod's cgroup
    /// (`sandbox_cgroup_only = false`).
    pub fn read(tree: &HostTree, process: u32) -> Cgroups {
        let mut found = tree.text(format!("proc/{process}/cgroup")).map(|text| Cgroups::of(&text)).unwrap_or_default();
        if found.is_of_kata && found.pod_uid.is_none() {
            let threads = tree.names(format!("proc/{process}/task")).unwrap_or_default();
            let texts = threads.iter().take(THREADS);
            let texts = texts.filter_map(|thread| tree.text(format!("proc/{process}/task/{thread}/cgroup")));
            found.pod_uid = Cgroups::of(&texts.collect::<String>()).pod_uid;
        }
        found
    }

    /// Those of lines of `/proc/PID/cgroup`, `HIERARCHY:CONTROLLERS:PATH` (cgroups(7)).
    fn of(text: &str) -> Cgroups {
        let (mut uids, mut vmids, mut found) = (BTreeSet::new(), BTreeSet::new(), Cgroups::default());
        for path in text.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
            let folders: Vec<&str> = path.split('/').collect();
            let is_of_kubelet = |at: usize| folders[..at].contains(&"kubepods");
            for (at, folder) in folders.iter().enumerate() {
                uids.extend(pod_uid(folder, is_of_kubelet(at)));
                vmids.extend(folder.strip_suffix(".scope").filter(|vmid| {
                    at > 0 && folders[at - 1] == "qemu.slice" && vmid.bytes().all(|byte| byte.is_ascii_digit())
                }));
                found.is_of_libvirt |= is_libvirts(folder);
                found.is_of_kata |= *folder == "kata_overhead" || folder.starts_with("kata_");
            }
        }
        let only = |of: BTreeSet<String>| if of.len() == 1 { of.into_iter().next() } else { None };
        found.pod_uid = only(uids);
        found.vmid = only(vmids.into_iter().filter(|vmid| !vmid.is_empty()).map(str::to_string).collect());
        found
    }
}

/// The UID of the pod whose cgroup is called so: with 36 characters, or, of a pod that the kubelet has of a file, 32.
fn pod_uid(folder: &str, is_of_kubelet: bool) -> Option<String> {
    let uid = match folder.strip_suffix(".slice") {
        Some(slice) if slice.contains("kubepods") => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None if is_of_kubelet => folder.strip_prefix("pod")?.to_string(),
        _ => return None,
    };
    let is_uid =
        (uid.len() == 32 || uid.len() == 36) && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_uid.then_some(uid)
}

fn is_libvirts(folder: &str) -> bool {
    [r"machine-qemu\x2d", r"machine-ch\x2d"].iter().any(|begin| folder.starts_with(begin))
        || [".libvirt-qemu", ".libvirt-ch"].iter().any(|end| folder.ends_with(end))
}
