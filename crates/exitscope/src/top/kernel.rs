//! What /proc and debugfs say beside the events.
//!
//! ```text
//! /proc/PID/task/TID/schedstat: run, waited      /sys/kernel/debug/kvm/PID-FD/halt_*: KVM's own counters
//!                                                                   …/vcpuN/pid: which thread
//! ```

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

const DEBUGFS: &str = "/sys/kernel/debug/kvm";

/// What a thread did: on a CPU, and waiting for one, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    pub run: u64,
    pub waited: u64,
}

/// What the scheduler counts of a thread, if the kernel does.
pub fn ran(process: u32, thread: u32) -> Option<Ran> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some(Ran { run: numbers.next()?, waited: numbers.next()? })
}

/// Time on CPUs of all our threads, in nanoseconds.
pub fn own_time() -> u64 {
    let process = std::process::id();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.filter_map(|thread| ran(process, thread)).map(|ran| ran.run).sum()
}

/// KVM's counters of a VM's halts, since the VM began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KvmHalts {
    /// Halts that polled.
    pub attempted: u64,
    /// Those that were woken while they polled.
    pub successful: u64,
    /// Wake-ups for nothing.
    pub invalid: u64,
    /// Wake-ups of halts.
    pub wakeups: u64,
    /// Time that polling took where it caught the wake-up, in nanoseconds.
    pub success_ns: u64,
    /// Time that it took for nothing, in nanoseconds.
    pub fail_ns: u64,
    /// Time asleep, in nanoseconds; kernels before 5.15 do not say.
    pub wait_ns: u64,
}

impl AddAssign for KvmHalts {
    fn add_assign(&mut self, other: KvmHalts) {
        self.attempted += other.attempted;
        self.successful += other.successful;
        self.invalid += other.invalid;
        self.wakeups += other.wakeups;
        self.success_ns += other.success_ns;
        self.fail_ns += other.fail_ns;
        self.wait_ns += other.wait_ns;
    }
}

/// What KVM tells in debugfs of each process's VMs.
#[derive(Debug, Default)]
pub struct Kvm {
    /// By process.
    pub halts: HashMap<u32, KvmHalts>,
    /// By thread, the number of its vCPU.
    pub vcpus: HashMap<u32, u32>,
    /// Why there are no counters.
    pub trouble: Option<String>,
}

impl Kvm {
    /// Looks at the VMs of `wanted` processes.
    pub fn look(wanted: impl Fn(u32) -> bool) -> Kvm {
        let mut kvm = Kvm::default();
        let folders = match fs::read_dir(DEBUGFS) {
            Ok(folders) => folders,
            Err(error) => {
                kvm.trouble = Some(format!("{DEBUGFS}: {error}"));
                return kvm;
            }
        };
        for folder in folders.flatten() {
            let name = folder.file_name();
            let process = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
            let Some(process) = process.filter(|&process| wanted(process)) else { continue };
            match halts(&folder.path()) {
                Ok(halts) => *kvm.halts.entry(process).or_default() += halts,
                // A VM that has just ended is no trouble.
                Err((path, error)) if error.kind() != io::ErrorKind::NotFound => {
                    kvm.trouble = Some(format!("{}: {error}", path.display()));
                }
                Err(_) => {}
            }
            for vcpu in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let number = vcpu.file_name().to_str().and_then(|name| name.strip_prefix("vcpu")?.parse::<u32>().ok());
                let thread = fs::read_to_string(vcpu.path().join("pid")).ok();
                let thread = thread.and_then(|text| text.trim().parse::<u32>().ok());
                kvm.vcpus.extend(thread.zip(number));
            }
        }
        kvm
    }
}

fn halts(folder: &Path) -> Result<KvmHalts, (PathBuf, io::Error)> {
    let number = |name: &str| {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
            Err(error) => Err((path, error)),
        }
    };
    Ok(KvmHalts {
        attempted: number("halt_attempted_poll")?,
        successful: number("halt_successful_poll")?,
        invalid: number("halt_poll_invalid")?,
        wakeups: number("halt_wakeup")?,
        success_ns: number("halt_poll_success_ns")?,
        fail_ns: number("halt_poll_fail_ns")?,
        wait_ns: number("halt_wait_ns").unwrap_or(0),
    })
}
