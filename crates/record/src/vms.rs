//! Which virtual machines run on this host, and how their owners call them.
//!
//! ```text
//! /proc/PID/fd: anon_inode:kvm-vm, anon_inode:kvm-vcpu:N ─► a VM's process ─► HostTree::identity ─► its name, UUID, …
//! ```

use crate::Processes;
use exitscope_identity::HostTree;
use exitscope_model::{IdentityField, QemuOptions, VmIdentity, vcpu_by_name};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What the descriptor of a virtual machine is called (virt/kvm/kvm_main.c, kvm_dev_ioctl_create_vm).
const MACHINE: &str = "anon_inode:kvm-vm";

/// Where KVM has a folder for each virtual machine, if debugfs is mounted.
pub const KVM_DEBUGFS: &str = "/sys/kernel/debug/kvm";

/// A process that runs virtual machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmProcess {
    /// Its id.
    pub process: u32,
    /// What the machine is called, or else the process.
    pub name: String,
    /// What else is known of who it is.
    pub identity: VmIdentity,
    /// What QEMU was told; nothing if it is another program's.
    pub options: QemuOptions,
}

impl VmProcess {
    /// Reads what the VM of this process is called.
    pub fn of(process: u32) -> VmProcess {
        let host = HostTree::default();
        let identity = host.identity(process);
        let name = identity.get(IdentityField::Name).map_or_else(|| thread_name(process, process), str::to_string);
        let options = QemuOptions::of_command(&host.command(process)).unwrap_or_default();
        VmProcess { process, name, identity, options }
    }
}

/// Those of `vms` that a person means by this name: the process of this id; if there is none, those that are called so, or have
/// this UUID or this number of Proxmox.
pub fn vms_called(vms: Vec<VmProcess>, name: &str) -> Vec<VmProcess> {
    let is_process = |vm: &VmProcess| vm.process.to_string() == name;
    let by_process = vms.iter().any(is_process);
    let is_called = |vm: &VmProcess| vm.name == name || vm.identity.is_called(name);
    vms.into_iter().filter(|vm| if by_process { is_process(vm) } else { is_called(vm) }).collect()
}

/// The processes that have virtual machines and into whose descriptors we may look, by id.
pub fn vms() -> Vec<VmProcess> {
    numbers_in("/proc").unwrap_or_default().into_iter().filter_map(vm).collect()
}

/// What a number is that is taken for a virtual machine's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineOf {
    /// A process that has a virtual machine of KVM.
    Process,
    /// A process that has none.
    Nobody,
    /// A thread that is not its process's first: events name the process.
    Thread {
        /// The process.
        of: u32,
    },
    /// A process of which nothing may be looked at that tells.
    Hidden,
    /// There is no such process.
    Gone,
}

/// Whether a process has a virtual machine of KVM.
pub fn machine_of(process: u32) -> MachineOf {
    let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { return MachineOf::Gone };
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let files = match fs::read_dir(format!("/proc/{process}/fd")) {
        Ok(files) => files.flatten(),
        Err(error) if error.kind() == ErrorKind::NotFound => return MachineOf::Gone,
        Err(_) => return in_debugfs(Path::new(KVM_DEBUGFS), process),
    };
    let targets: Vec<_> = files.map(|file| fs::read_link(file.path())).collect();
    // To list descriptors takes less than to follow them.
    let is_hidden =
        |target: &io::Result<PathBuf>| target.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match group {
        Some(of) if of != process => MachineOf::Thread { of },
        _ if targets.iter().any(is_hidden) => in_debugfs(Path::new(KVM_DEBUGFS), process),
        _ if !targets.iter().flatten().any(|target| is(target, MACHINE)) => MachineOf::Nobody,
        _ => MachineOf::Process,
    }
}

/// What KVM's folders in debugfs tell of a process whose descriptors may not be looked at. Each is called after the thread
/// that made the machine, and the machine's descriptor (virt/kvm/kvm_main.c, kvm_create_vm_debugfs).
fn in_debugfs(root: &Path, process: u32) -> MachineOf {
    let numbers = |folder: &Path| {
        let names = fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
        let number = |name: OsString| name.to_str()?.split('-').next()?.parse::<u32>().ok();
        io::Result::Ok(names.filter_map(number).collect::<BTreeSet<u32>>())
    };
    match (numbers(root), numbers(Path::new(&format!("/proc/{process}/task")))) {
        (Ok(makers), Ok(threads)) if makers.is_disjoint(&threads) => MachineOf::Nobody,
        (Ok(_), Ok(_)) => MachineOf::Process,
        _ => MachineOf::Hidden,
    }
}

/// Whether a descriptor's target is of this kind.
fn is(target: &Path, kind: &str) -> bool {
    target.to_str().is_some_and(|target| target.starts_with(kind))
}

fn vm(process: u32) -> Option<VmProcess> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.find(|target| is(target, MACHINE))?;
    Some(VmProcess::of(process))
}

/// What the kernel calls a thread; empty if it is gone.
pub fn thread_name(process: u32, thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_string()
}

/// No single VM has a name.
#[derive(Debug, thiserror::Error)]
pub enum VmLookupError {
    /// None has it; those there are.
    #[error("no virtual machine called {0}; there are: {1}")]
    None(String, String),
    /// A thread was named.
    #[error("{0} is a thread of process {1}: name that")]
    Thread(u32, u32),
    /// There is no such process; the virtual machines there are.
    #[error("no process {0}; there are: {1}")]
    Gone(u32, String),
    /// No thread is named as that of a vCPU.
    #[error(
        "process {0} has no thread that is named as a vCPU's, like `CPU 0/KVM`; QEMU names them with \
         `-name NAME,debug-threads=on`"
    )]
    NoVcpus(u32),
    /// Too many were named.
    #[error("at most {MAX} processes can be named", MAX = Processes::MAX)]
    TooMany,
    /// So many have it.
    #[error("{1} virtual machines are called {0}: --vm takes a process id, too")]
    Several(String, usize),
}

/// The virtual machines there are: `web01 (pid 4711), db (pid 4712)`.
pub fn vm_names() -> String {
    let names: Vec<String> = vms().iter().map(|vm| format!("{} (pid {})", vm.name, vm.process)).collect();
    if names.is_empty() { "none that we may see".to_string() } else { names.join(", ") }
}

impl Processes {
    /// Those of the virtual machines of this name, or these processes; and of the latter, those in which no virtual machine
    /// runs, or not yet. Without either, every virtual machine's.
    pub fn named(vm: Option<&str>, pids: &[u32]) -> Result<(Processes, Vec<u32>), VmLookupError> {
        if let Some(name) = vm {
            let these: Vec<u32> = vms_called(vms(), name).iter().map(|vm| vm.process).collect();
            return match these.is_empty() {
                true => Err(VmLookupError::None(name.to_string(), vm_names())),
                false => Ok((Processes::These(these), Vec::new())),
            };
        }
        let mut idle = Vec::new();
        for &pid in pids {
            match machine_of(pid) {
                // Of a process that we may not look into, it may be one.
                MachineOf::Process | MachineOf::Hidden => {}
                MachineOf::Nobody => idle.push(pid),
                MachineOf::Thread { of } => return Err(VmLookupError::Thread(pid, of)),
                MachineOf::Gone => return Err(VmLookupError::Gone(pid, vm_names())),
            }
        }
        match pids.len() {
            0 => Ok((Processes::All, idle)),
            1..=Processes::MAX => Ok((Processes::These(pids.to_vec()), idle)),
            _ => Err(VmLookupError::TooMany),
        }
    }
}

/// The process of the one VM that is called so; if none is and it is a number, the process of that number.
pub fn one_vm(name: &str) -> Result<u32, VmLookupError> {
    match (&vms_called(vms(), name)[..], name.parse()) {
        ([vm], _) => Ok(vm.process),
        ([], Ok(process)) => Ok(process),
        ([], Err(_)) => Err(VmLookupError::None(name.to_string(), vm_names())),
        (several, _) => Err(VmLookupError::Several(name.to_string(), several.len())),
    }
}

/// The process of the one VM of this name, or with this number, and its threads that are named as those of vCPUs, like
/// `CPU 0/KVM`, in order of their ids: at least one.
pub fn vcpu_threads(vm: &str) -> Result<(u32, Vec<u32>), VmLookupError> {
    let process = one_vm(vm)?;
    match threads_named_as_vcpus(process) {
        Err(_) => Err(VmLookupError::Gone(process, vm_names())),
        Ok(threads) if threads.is_empty() => Err(VmLookupError::NoVcpus(process)),
        Ok(threads) => Ok((process, threads)),
    }
}

/// The threads of a process that are named as those of vCPUs, in order of their ids.
pub fn threads_named_as_vcpus(process: u32) -> io::Result<Vec<u32>> {
    let mut threads = threads(process)?;
    threads.retain(|&thread| vcpu_by_name(&thread_name(process, thread)).is_some());
    Ok(threads)
}

/// What threads are called that work for devices all the time: QEMU's (iothread.c), Cloud Hypervisor's of virtio devices without
/// an id of their own (device_manager.rs, `_disk0`), and vhost's, which are threads of the process since Linux 6.4
/// (drivers/vhost/vhost.c).
const WORKERS: [&str; 3] = ["IO ", "_", VHOST];

/// How names of Cloud Hypervisor's threads end, behind a device's id: `_q0`, `_qp1`, `_ctrl`.
const QUEUES: [&str; 3] = ["_q", "_qp", "_ctrl"];

/// PF_KTHREAD (include/linux/sched.h) among the flags of field 9 of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Before, and where it is asked for, a kernel thread is called so, after the thread that asked for it.
const VHOST: &str = "vhost-";

/// The threads that work for the devices of a VM, each with its process: the process's first one, unless it is a vCPU's, those that
/// are named as such, and kernel threads of vhost. Threads of pools, which come and go, are none.
pub fn worker_threads(process: u32) -> Vec<(u32, u32)> {
    let own = threads(process).unwrap_or_default();
    let is_worker = |&thread: &u32| {
        let name = thread_name(process, thread);
        let is_queue = || QUEUES.iter().any(|end| name.trim_end_matches(|of: char| of.is_ascii_digit()).ends_with(end));
        let is_named = thread == process || WORKERS.iter().any(|begin| name.starts_with(begin)) || is_queue();
        is_named && vcpu_by_name(&name).is_none()
    };
    let vhost_of = |&thread: &u32| thread_name(thread, thread).strip_prefix(VHOST)?.parse::<u32>().ok();
    let of_kernel = numbers_in("/proc").unwrap_or_default().into_iter().filter(|thread| !own.contains(thread));
    let of_kernel = of_kernel.filter(|thread| vhost_of(thread).is_some_and(|asked| own.contains(&asked)));
    // Anybody may call a process so.
    let of_kernel = of_kernel.filter(|&thread| is_kernel_thread(thread));
    let own = own.iter().copied().filter(is_worker).map(|thread| (process, thread));
    own.chain(of_kernel.map(|thread| (thread, thread))).collect()
}

/// Whether it is a thread of the kernel.
fn is_kernel_thread(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before may hold anything, a parenthesis, too. Behind it is field 3.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(9 - 3)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The threads of a process, in order of their ids.
fn threads(process: u32) -> io::Result<Vec<u32>> {
    numbers_in(&format!("/proc/{process}/task"))
}

/// The entries of a folder that are numbers, in order.
fn numbers_in(folder: &str) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?.flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::IdentitySource;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_without_a_machine_is_told_from_one_that_is_gone() {
        let own = std::process::id();
        assert_eq!(machine_of(own), MachineOf::Nobody);
        let thread = std::thread::spawn(|| fs::read_link("/proc/thread-self").unwrap()).join().unwrap();
        let thread = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(
            matches!(machine_of(thread), MachineOf::Thread { of } if of == own)
                || machine_of(thread) == MachineOf::Gone
        );
        // Beyond the largest that Linux gives (PID_MAX_LIMIT, include/linux/threads.h).
        assert_eq!(machine_of((1 << 22) + 1), MachineOf::Gone);
    }

    #[test]
    fn those_that_work_for_devices_are_told_from_vcpus_and_pools_and_nobody_poses_as_vhost() {
        let own = std::process::id();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let names = ["IO iothread0", "_disk0_q0", "root_qp12", "vhost-1", "CPU 0/KVM", "worker"];
        // A process that is called as vhost's threads of the kernel are.
        let line = format!("echo vhost-{own} >/proc/$$/comm; echo; read end");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut poser = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(poser.stdout.take().unwrap()).read_line(&mut line).unwrap();
        std::thread::scope(|scope| {
            for name in names {
                let thread = std::thread::Builder::new().name(name.to_string());
                thread.spawn_scoped(scope, || drop(wait.lock().map(|wait| wait.recv()))).unwrap();
            }
            let found = || -> Vec<String> {
                worker_threads(own).iter().map(|&(process, thread)| thread_name(process, thread)).collect()
            };
            let expected = &names[..4];
            // A thread names itself.
            let is_named = || expected.iter().all(|name| found().iter().any(|found| found == name));
            let began = std::time::Instant::now();
            while !is_named() && began.elapsed().as_secs() < 10 {
                std::thread::yield_now();
            }
            let found = found();
            drop(done);
            // The first one of this process, too, whatever it is called; others are of other tests.
            assert!(expected.iter().all(|name| found.iter().any(|found| found == name)), "{found:?}");
            let name = format!("vhost-{own}");
            assert!(
                names[4..].iter().chain([&name.as_str()]).all(|name| !found.iter().any(|found| found == name)),
                "{found:?}"
            );
            assert!(!is_kernel_thread(own) && !is_kernel_thread(poser.id()));
            // Elsewhere than in a container, the parent of all of the kernel's.
            assert!(thread_name(2, 2) != "kthreadd" || is_kernel_thread(2));
            assert!(worker_threads(own).contains(&(own, own)));
        });
        drop(poser.stdin.take());
        poser.wait().unwrap();
    }

    #[test]
    fn of_a_process_that_may_not_be_looked_into_debugfs_tells() {
        let own = std::process::id();
        // Folders that are called after processes, and others.
        assert_eq!(in_debugfs(Path::new("/proc"), own), MachineOf::Process);
        assert_eq!(in_debugfs(Path::new("/sys/kernel"), own), MachineOf::Nobody);
        assert_eq!(in_debugfs(Path::new("/proc/none"), own), MachineOf::Hidden);
    }

    #[test]
    fn a_number_is_first_a_processs_and_then_proxmoxs() {
        let vm = |process, name: &str, vmid| {
            let mut identity = VmIdentity::default();
            identity.set(IdentityField::VmId, vmid, IdentitySource::Cgroup);
            VmProcess { process, name: name.to_string(), identity, options: QemuOptions::default() }
        };
        let called = |wanted| -> Vec<u32> {
            let vms = vec![vm(100, "a", "4711"), vm(4711, "b", "101"), vm(4712, "b", "")];
            vms_called(vms, wanted).iter().map(|vm| vm.process).collect()
        };
        assert_eq!(
            ["4711", "101", "100", "a", "102"].map(called),
            [vec![4711], vec![4711], vec![100], vec![100], vec![]]
        );
        assert_eq!(called("b"), [4711, 4712]);
    }

    #[test]
    fn a_process_without_a_name_of_a_vm_is_called_as_the_kernel_calls_it() {
        let own = VmProcess::of(std::process::id());
        assert_eq!((own.name, own.identity.manager), (thread_name(own.process, own.process), None));
        assert_eq!(VmProcess::of(u32::MAX).name, "");
    }
}
