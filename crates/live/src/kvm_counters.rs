//! What KVM counts itself, beside the events.
//!
//! ```text
//! statistics descriptors that the VMM keeps open, or else /sys/kernel/debug/kvm/PID-FD/halt_*      …/vcpuN/pid: which thread
//! ```

use exitscope_record::{KVM_DEBUGFS, Stats, vcpu_stats};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::ops::AddAssign;
use std::path::Path;

/// KVM's counters of a VM's halts, since the VM began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KvmHalts {
    /// Where they are from: `descriptors` (KVM's statistics, which the VMM keeps open), or `debugfs`.
    pub source: &'static str,
    /// Halts at which KVM polled (`halt_attempted_poll`).
    pub attempted_polls: u64,
    /// Those that were woken while they polled.
    pub successful_polls: u64,
    /// Successful polls whose wake-up was not valid (`halt_poll_invalid`).
    pub invalid_polls: u64,
    /// Wake-ups of halted vCPUs (`halt_wakeup`).
    pub wakeups: u64,
    /// Time of successful polls, in nanoseconds.
    pub poll_success_ns: u64,
    /// Time of failed polls, in nanoseconds.
    pub poll_fail_ns: u64,
    /// Time asleep, in nanoseconds; kernels before 5.15 do not say.
    pub wait_ns: u64,
    /// Successful polls, by length: lower bound in nanoseconds, count. Of the descriptors; empty by debugfs.
    pub poll_success_histogram: Vec<(u64, u64)>,
    /// Failed polls, in the same way.
    pub poll_fail_histogram: Vec<(u64, u64)>,
    /// Times asleep, in the same way.
    pub wait_histogram: Vec<(u64, u64)>,
}

impl KvmHalts {
    /// What KVM's statistics of a vCPU say, if they are of halts.
    fn of_stats(stats: &Stats) -> Option<KvmHalts> {
        let lengths = |name| stats.lengths(name).unwrap_or_default();
        Some(KvmHalts {
            poll_success_histogram: lengths("halt_poll_success_hist"),
            poll_fail_histogram: lengths("halt_poll_fail_hist"),
            wait_histogram: lengths("halt_wait_hist"),
            ..KvmHalts::of_numbers("descriptors", |name| stats.value(name).ok_or(())).ok()?
        })
    }

    /// Of debugfs's folder of a VM.
    fn of_debugfs(folder: &Path) -> Result<KvmHalts, (String, io::Error)> {
        KvmHalts::of_numbers("debugfs", |name| match fs::read_to_string(folder.join(name)) {
            Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
            Err(error) => Err((name.to_string(), error)),
        })
    }

    /// What KVM counts under its own names; older kernels do not know how long vCPUs slept.
    fn of_numbers<E>(source: &'static str, number: impl Fn(&str) -> Result<u64, E>) -> Result<KvmHalts, E> {
        Ok(KvmHalts {
            source,
            attempted_polls: number("halt_attempted_poll")?,
            successful_polls: number("halt_successful_poll")?,
            invalid_polls: number("halt_poll_invalid")?,
            wakeups: number("halt_wakeup")?,
            poll_success_ns: number("halt_poll_success_ns")?,
            poll_fail_ns: number("halt_poll_fail_ns")?,
            wait_ns: number("halt_wait_ns").unwrap_or(0),
            ..KvmHalts::default()
        })
    }
}

impl AddAssign for KvmHalts {
    fn add_assign(&mut self, other: KvmHalts) {
        self.source = other.source;
        self.attempted_polls += other.attempted_polls;
        self.successful_polls += other.successful_polls;
        self.invalid_polls += other.invalid_polls;
        self.wakeups += other.wakeups;
        self.poll_success_ns += other.poll_success_ns;
        self.poll_fail_ns += other.poll_fail_ns;
        self.wait_ns += other.wait_ns;
        for (mine, others) in [
            (&mut self.poll_success_histogram, other.poll_success_histogram),
            (&mut self.poll_fail_histogram, other.poll_fail_histogram),
            (&mut self.wait_histogram, other.wait_histogram),
        ] {
            let mut sums: BTreeMap<u64, u64> = std::mem::take(mine).into_iter().collect();
            others.into_iter().for_each(|(low, count)| *sums.entry(low).or_default() += count);
            *mine = sums.into_iter().collect();
        }
    }
}

/// What KVM itself tells of each process's VMs.
#[derive(Debug, Default)]
pub struct KvmCounters {
    /// The counters of each VM, by process id.
    pub halts: HashMap<u32, KvmHalts>,
    /// By thread, the number of its vCPU.
    pub vcpus: HashMap<u32, u32>,
    /// By process, why it has no counters.
    pub trouble: HashMap<u32, String>,
}

impl KvmCounters {
    /// Those of the VMs of these processes.
    pub fn read(processes: &[u32]) -> KvmCounters {
        let mut kvm = KvmCounters::default();
        let mut by_descriptors = HashMap::new();
        for &process in processes {
            match vcpu_stats(process) {
                Ok(vcpus) => vcpus.iter().filter_map(|(_, stats)| KvmHalts::of_stats(stats)).for_each(|halts| {
                    *kvm.halts.entry(process).or_default() += halts;
                }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    by_descriptors
                        .insert(process, "taking its statistics descriptors needs CAP_SYS_PTRACE".to_string());
                }
                // It has ended, or KVM's layout is another: debugfs may know more.
                Err(error) => {
                    by_descriptors.insert(process, format!("its statistics descriptors cannot be read ({error})"));
                }
            }
        }
        let by_debugfs = kvm.read_debugfs(Path::new(KVM_DEBUGFS), processes);
        for process in processes.iter().filter(|process| !kvm.halts.contains_key(process)) {
            let why = by_descriptors.remove(process);
            let why = why.unwrap_or("the VMM keeps no statistics descriptor open (QEMU does from 8.1 on)".to_string());
            let path = match by_debugfs.get(process) {
                Some(trouble) => trouble.clone(),
                None => format!("{KVM_DEBUGFS} has no folder PID-FD for it"),
            };
            kvm.trouble.insert(*process, format!("{why}, and {path}"));
        }
        kvm
    }

    /// Of those that have no counters yet. Why some still have none, by process.
    fn read_debugfs(&mut self, root: &Path, processes: &[u32]) -> HashMap<u32, String> {
        let missing: Vec<u32> = processes.iter().copied().filter(|id| !self.halts.contains_key(id)).collect();
        let said = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
        let folders = match fs::read_dir(root) {
            Ok(folders) => folders.flatten(),
            Err(error) => return missing.into_iter().map(|process| (process, said(root, &error))).collect(),
        };
        let mut trouble = HashMap::new();
        for folder in folders {
            let name = folder.file_name();
            let process = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
            let Some(process) = process.filter(|process| processes.contains(process)) else { continue };
            if missing.contains(&process) {
                match KvmHalts::of_debugfs(&folder.path()) {
                    Ok(halts) => *self.halts.entry(process).or_default() += halts,
                    // The same for every VM, so that what is said of many is said once.
                    Err((name, error)) => {
                        trouble.insert(process, said(&root.join("PID-FD").join(name), &error));
                    }
                }
            }
            for vcpu in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let number = vcpu.file_name().to_str().and_then(|name| name.strip_prefix("vcpu")?.parse::<u32>().ok());
                let thread = fs::read_to_string(vcpu.path().join("pid")).ok();
                let thread = thread.and_then(|text| text.trim().parse::<u32>().ok());
                self.vcpus.extend(thread.zip(number));
            }
        }
        trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vm_has_its_own_counters_or_its_own_reason() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("7-12");
        fs::create_dir(&folder).unwrap();
        for name in [
            "halt_attempted_poll",
            "halt_successful_poll",
            "halt_poll_invalid",
            "halt_wakeup",
            "halt_poll_success_ns",
            "halt_poll_fail_ns",
        ] {
            fs::write(folder.join(name), "5\n").unwrap();
        }
        fs::create_dir(root.path().join("8-12")).unwrap();
        let mut kvm = KvmCounters::default();
        let trouble = kvm.read_debugfs(root.path(), &[7, 8, 9]);
        assert_eq!(kvm.halts.keys().collect::<Vec<_>>(), [&7]);
        assert_eq!((kvm.halts[&7].attempted_polls, kvm.halts[&7].source), (5, "debugfs"));
        assert_eq!(trouble.keys().collect::<Vec<_>>(), [&8], "and 9 has no folder");
        assert!(trouble[&8].contains("/PID-FD/halt_attempted_poll: "), "{}", trouble[&8]);
        let nowhere = kvm.read_debugfs(&root.path().join("none"), &[7, 8]);
        assert_eq!(nowhere.keys().collect::<Vec<_>>(), [&8], "the other has its counters");
    }

    #[test]
    fn a_vms_counters_are_the_sum_of_its_vcpus() {
        let one = KvmHalts { wakeups: 3, wait_histogram: vec![(64, 2), (1024, 1)], ..KvmHalts::default() };
        let other = KvmHalts { wakeups: 4, wait_histogram: vec![(1, 1), (1024, 3)], ..KvmHalts::default() };
        let mut sum = one;
        sum += other;
        assert_eq!((sum.wakeups, sum.wait_histogram), (7, vec![(1, 1), (64, 2), (1024, 4)]));
    }
}
