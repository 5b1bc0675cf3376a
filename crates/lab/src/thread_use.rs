//! What a vCPU's thread used, and where it could run.

use crate::placement::{Placement, allowed_cpus};
use std::time::Duration;

/// What a thread used.
#[derive(Clone, Debug, Default)]
pub struct ThreadUse {
    /// The CPUs on which it was allowed to run, as the kernel has them.
    pub cpus: Vec<usize>,
    /// Whether it was to be kept on CPUs and could not.
    pub refused: bool,
    /// CPU time.
    pub cpu: Duration,
    /// How often it gave the CPU up by itself.
    pub sleeps: u64,
    /// How often it was taken from it.
    pub preempted: u64,
    /// For how long it could run and had no CPU; nothing where the kernel does not tell.
    pub waited: Duration,
}

impl ThreadUse {
    /// Runs `body` on this thread, kept where `placement` has thread number `thread`.
    pub(crate) fn of<T>(placement: &Placement, thread: usize, body: impl FnOnce() -> T) -> (T, ThreadUse) {
        let is_kept = placement.keep(thread);
        let (before, had_waited) = (thread_usage(), run_delay());
        let done = body();
        let (after, waited) = (thread_usage(), run_delay().saturating_sub(had_waited));
        let cpu = after.0.saturating_sub(before.0);
        let [sleeps, preempted] = [0, 1].map(|kind| after.1[kind] - before.1[kind]);
        (done, ThreadUse { cpus: allowed_cpus(), refused: !is_kept, cpu, sleeps, preempted, waited })
    }
}

/// What this thread has used so far: CPU time, and how often it gave the CPU up by itself and how often it was taken from it.
///
/// getrusage() would give the time as of the last tick of this CPU, unless the kernel accounts for time at each exit:
/// task_cputime_adjusted() of kernel/sched/cputime.c reads `sum_exec_runtime` as it stands. The thread's clock adds what has run since
/// then: task_sched_runtime() of kernel/sched/core.c calls update_curr() first (Linux 6.12).
pub fn thread_usage() -> (Duration, [u64; 2]) {
    // SAFETY: the kernel fills in one `timespec` and one `rusage`.
    let (time, usage) = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        (time, usage)
    };
    (
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        [usage.ru_nvcsw, usage.ru_nivcsw].map(|count| count as u64),
    )
}

/// For how long this thread has been runnable without a CPU: the second number of its `schedstat` (Linux,
/// Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat"). Nothing without CONFIG_SCHED_INFO.
fn run_delay() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let delay = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    delay.map_or(Duration::ZERO, Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPU time of this thread, straight from its clock.
    fn thread_clock() -> Duration {
        // SAFETY: the kernel fills in one `timespec`.
        let time = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
            time
        };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn cpu_time_between_two_ticks_is_counted() {
        // A tenth of the shortest tick there is (CONFIG_HZ=1000), again and again: whatever else runs, none may be missing.
        for _ in 0..50 {
            let (before, from) = (thread_usage().0, thread_clock());
            while thread_clock() - from < Duration::from_micros(100) {}
            let used = thread_usage().0 - before;
            assert!(used >= Duration::from_micros(100), "{used:?}");
        }
    }

    #[test]
    fn a_thread_that_is_kept_on_a_cpu_is_and_says_so() {
        let cpus = allowed_cpus();
        let Some(&last) = cpus.last() else { panic!("this thread runs on no CPU") };
        let on_its_own = |cpus: Vec<usize>| {
            std::thread::spawn(move || {
                let (seen, thread) = ThreadUse::of(&Placement::on(cpus), 0, || {
                    // As /proc has it, without the system call that the lab asks.
                    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
                    line.trim().to_string()
                });
                (seen, thread.cpus, thread.refused)
            })
            .join()
            .unwrap()
        };
        assert_eq!(on_its_own(vec![last]), (last.to_string(), vec![last], false));
        let (_, anywhere, refused) = on_its_own(Vec::new());
        assert_eq!((anywhere, refused), (cpus.clone(), false));
        let (_, anywhere, refused) = on_its_own(vec![libc::CPU_SETSIZE as usize]);
        assert_eq!((anywhere, refused), (cpus, true), "no such CPU");
    }
}
