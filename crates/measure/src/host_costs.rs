//! What a value costs others: CPU time of the host, and steal of the VMs beside the one of the trial.

use exitscope_apply::CpuTicks;
use exitscope_record::{threads_named_as_vcpus, vms};
use exitscope_trial::{Better, MetricUnit, TrialMetric};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What others pay, turn by turn.
pub struct HostCosts {
    root: PathBuf,
    has_cpu_times: bool,
    /// `schedstat` of each vCPU thread of the other VMs, as they were when the trial began.
    others: Vec<PathBuf>,
    began: HostMoment,
}

/// What is read at the beginning and at the end of a turn.
struct HostMoment {
    at: Instant,
    cpus: Option<CpuTicks>,
    /// Run delay of each thread in nanoseconds; `None` of one that is gone.
    delays: Vec<Option<u64>>,
}

impl HostCosts {
    /// Of the host below `root`. With the process of a VM, the other VMs of this machine are watched, too.
    pub fn new(root: &Path, vm: Option<u32>) -> HostCosts {
        let others = || vms().into_iter().filter(|of| Some(of.process) != vm).flat_map(|of| run_delays(of.process));
        let others: Vec<PathBuf> = vm.map(|_| others().collect()).unwrap_or_default();
        let root = root.to_path_buf();
        let began = HostMoment::read(&root, &others);
        HostCosts { has_cpu_times: began.cpus.is_some(), root, others, began }
    }

    /// Those of the figures that are measured here.
    pub fn metrics(&self) -> Vec<TrialMetric> {
        let figures = [("cpu_busy", self.has_cpu_times), ("other_vms_steal", !self.others.is_empty())];
        let metric =
            |name: &str| TrialMetric { name: name.to_string(), unit: MetricUnit::Share, better: Better::Lower };
        figures.into_iter().filter(|figure| figure.1).map(|figure| metric(figure.0)).collect()
    }

    /// Begins a turn.
    pub fn begin(&mut self) {
        self.began = HostMoment::read(&self.root, &self.others);
    }

    /// The values of the turn that ends now, one for each metric; `None` of what could not be read at both its ends.
    pub fn end(&self) -> Vec<Option<f64>> {
        let now = HostMoment::read(&self.root, &self.others);
        let mut values = Vec::new();
        if self.has_cpu_times {
            values.push(now.busy_since(&self.began));
        }
        if !self.others.is_empty() {
            values.push(now.run_delay_since(&self.began));
        }
        values
    }
}

/// The files of a VM's vCPU threads that have their run delay. Where the kernel does not count it, all of their numbers are 0, also
/// of a thread that has run (fs/proc/base.c, `proc_pid_schedstat`).
fn run_delays(process: u32) -> Vec<PathBuf> {
    let path = |thread: u32| PathBuf::from(format!("/proc/{process}/task/{thread}/schedstat"));
    let paths = threads_named_as_vcpus(process).unwrap_or_default().into_iter().map(path);
    paths.filter(|path| !fs::read_to_string(path).is_ok_and(|text| text.starts_with("0 "))).collect()
}

impl HostMoment {
    fn read(root: &Path, others: &[PathBuf]) -> HostMoment {
        let delays = others.iter().map(|path| run_delay(&fs::read_to_string(path).ok()?)).collect();
        HostMoment { at: Instant::now(), cpus: CpuTicks::read(root).ok(), delays }
    }

    /// The share of all CPUs' time in per cent in which they were not idle.
    fn busy_since(&self, earlier: &HostMoment) -> Option<f64> {
        let CpuTicks { idle, all, .. } = self.cpus?.since(&earlier.cpus?);
        (all > 0).then(|| 100.0 * all.saturating_sub(idle) as f64 / all as f64)
    }

    /// Run delay in per cent of the threads' time; of those that were there all the while.
    fn run_delay_since(&self, earlier: &HostMoment) -> Option<f64> {
        let both = self.delays.iter().zip(&earlier.delays);
        let waited: Vec<u64> = both.filter_map(|(now, then)| Some((*now)?.saturating_sub((*then)?))).collect();
        let wall = waited.len() as f64 * self.at.duration_since(earlier.at).as_nanos() as f64;
        (wall > 0.0).then(|| 100.0 * waited.iter().sum::<u64>() as f64 / wall)
    }
}

/// The second number of `schedstat`: nanoseconds that a thread was runnable without a CPU
/// (Documentation/scheduler/sched-stats.rst).
fn run_delay(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn busy_time_is_that_of_all_cpus_and_run_delay_that_of_the_threads_that_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [stat, here, gone] = ["proc/stat", "here", "gone"].map(|name| folder.path().join(name));
        fs::create_dir(folder.path().join("proc")).unwrap();
        fs::write(&stat, "cpu  100 0 0 100 0 0 0 0 0 0\n").unwrap();
        fs::write(&here, "5000 1000 7\n").unwrap();
        fs::write(&gone, "5000 9000 7\n").unwrap();
        let others = [here.clone(), gone.clone()];
        let before = HostMoment::read(folder.path(), &others);
        fs::write(&stat, "cpu  130 0 0 160 10 0 0 0 0 0\n").unwrap();
        fs::write(&here, "6000 251000 8\n").unwrap();
        fs::remove_file(&gone).unwrap();
        let mut after = HostMoment::read(folder.path(), &others);
        after.at = before.at + Duration::from_micros(1_000);
        assert_eq!((after.busy_since(&before), after.run_delay_since(&before)), (Some(30.0), Some(25.0)));
        fs::remove_file(&here).unwrap();
        let nobody = HostMoment::read(folder.path(), &others);
        assert_eq!((nobody.run_delay_since(&before), nobody.busy_since(&after)), (None, None));
    }

    #[test]
    fn what_is_not_there_is_no_metric() {
        let folder = tempfile::tempdir().unwrap();
        let names = |costs: &HostCosts| costs.metrics().into_iter().map(|metric| metric.name).collect::<Vec<String>>();
        let nothing = HostCosts::new(folder.path(), None);
        assert!(names(&nothing).is_empty() && nothing.end().is_empty());
        let here = HostCosts::new(Path::new("/"), None);
        assert_eq!((names(&here), here.end().len()), (vec!["cpu_busy".to_string()], 1));
    }
}
