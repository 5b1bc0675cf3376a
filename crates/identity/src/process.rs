//! What /proc says of a process.

use crate::cgroups::Cgroups;
use crate::files::HostTree;

/// What is read of the process of a VM.
pub(crate) struct VmProcessFiles {
    /// The words of its command line.
    pub command: Vec<String>,
    /// Its cgroups.
    pub cgroups: Cgroups,
    /// Its ids, from the PID namespace of `/proc` to its own: the line NSpid of its status.
    pub pids: Vec<u32>,
    /// The process that waits for its end.
    pub parent: Option<u32>,
}

impl VmProcessFiles {
    pub fn read(tree: &HostTree, process: u32) -> VmProcessFiles {
        let status = Status::read(tree, process).unwrap_or_default();
        VmProcessFiles {
            command: tree.command(process),
            cgroups: Cgroups::read(tree, process),
            pids: status.pids,
            parent: status.parent,
        }
    }

    /// Its id in its own PID namespace, if that is not the one of `/proc`.
    pub fn inner_pid(&self) -> Option<u32> {
        self.pids.get(1..)?.last().copied()
    }
}

/// Lines of `/proc/PID/status` (Documentation/filesystems/proc.rst).
#[derive(Default)]
pub(crate) struct Status {
    pub pids: Vec<u32>,
    pub parent: Option<u32>,
}

impl Status {
    pub fn read(tree: &HostTree, process: u32) -> Option<Status> {
        let text = tree.text(format!("proc/{process}/status"))?;
        // The process's own name comes before, with its ends of lines escaped (proc_task_name of fs/proc/array.c).
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let pids = line("NSpid:").unwrap_or_default().split_whitespace().map_while(|pid| pid.parse().ok()).collect();
        Some(Status { pids, parent: line("PPid:").and_then(|pid| pid.trim().parse().ok()) })
    }
}

impl HostTree {
    /// The words of a process's command line; none if it may not be read.
    pub fn command(&self, process: u32) -> Vec<String> {
        self.words(format!("proc/{process}/cmdline"))
    }

    /// When a process began, in ticks since the boot (field 22 of `/proc/PID/stat`): another one with its number began later.
    pub(crate) fn start_time(&self, process: u32) -> Option<u64> {
        let stat = self.text(format!("proc/{process}/stat"))?;
        // The name before may hold anything, a parenthesis, too. Behind it is field 3.
        stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
    }

    /// VMs of KVM that the process has. KVM's folder in debugfs has one for each, which is called after the thread that made
    /// the VM and the VM's descriptor (kvm_create_vm_debugfs of virt/kvm/kvm_main.c). Descriptors in `/proc/PID/fd` do not tell:
    /// crosvm has several of one VM.
    pub(crate) fn vms_of_process(&self, process: u32) -> Option<usize> {
        let threads = self.names(format!("proc/{process}/task"))?;
        let folders = self.names("sys/kernel/debug/kvm")?;
        let maker = |folder: &String| folder.split_once('-').map(|(maker, _)| maker.to_string());
        let made = folders.iter().filter_map(maker).filter(|maker| threads.contains(maker)).count();
        (made > 0).then_some(made)
    }
}
