//! A VM whose vCPUs are given programs again and again, for experiments with a run loop of their own; and what a turn of
//! such an experiment is measured by.
//!
//! ```text
//! LoadedVm::new(config) ─► load(policies, flags, programs) ─► (vm, vcpus, payload) ─► run ─► load …
//! ```

use crate::abi::{ProgramStep, op};
use crate::machine::probe;
use crate::{LabError, LabMachine, LabVcpu, LabVm, Payload, PrivilegeRing, VmConfig, sampled, step};
use exitscope_policy::Policies;
use std::time::Duration;

/// A VM and what runs in it.
#[derive(Debug)]
pub struct LoadedVm {
    /// The vCPUs, at the beginning of their programs.
    pub vcpus: Vec<LabVcpu>,
    /// The programs and what became of them.
    pub payload: Payload,
    /// The VM.
    pub vm: LabVm,
}

impl LoadedVm {
    /// A VM without programs.
    pub fn new(machine: &LabMachine, config: VmConfig) -> Result<LoadedVm, LabError> {
        let (vm, vcpus) = LabVm::new(&machine.kvm, config)?;
        let payload = Payload::new(&vm, machine, &Policies::default(), 0);
        Ok(LoadedVm { vcpus, payload, vm })
    }

    /// Puts the first vCPUs to the beginning of these programs, with these knobs and flags of [`crate::abi::machine`].
    pub fn load(
        &mut self,
        machine: &LabMachine,
        policies: &Policies,
        flags: u32,
        programs: &[Vec<ProgramStep>],
    ) -> Result<(), LabError> {
        self.payload = Payload::new(&self.vm, machine, policies, flags);
        for (vcpu, program) in self.vcpus.iter_mut().zip(programs) {
            self.vm.restart(vcpu)?;
            self.payload.load(vcpu.index(), program, u64::from(vcpu.index()) + 1)?;
        }
        Ok(())
    }
}

/// A loop of these steps: `rounds` times, or (0) until [`Payload::stop`].
pub fn repeat(rounds: u64, steps: &[ProgramStep]) -> Vec<ProgramStep> {
    [&[ProgramStep { b: rounds, ..step(op::REPEAT) }], steps, &[step(op::AGAIN)]].concat()
}

/// How fast a guest's compute loop runs on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeSpeed {
    passes_per_ms: f64,
}

impl ComputeSpeed {
    /// Has a guest compute for a moment, in ring 3.
    pub fn measure(machine: &LabMachine) -> Result<ComputeSpeed, LabError> {
        ComputeSpeed::measure_in(machine, PrivilegeRing::Three)
    }

    /// The same in a ring.
    pub fn measure_in(machine: &LabMachine, ring: PrivilegeRing) -> Result<ComputeSpeed, LabError> {
        const PASSES: u64 = 200_000;
        let compute = ProgramStep { b: PASSES, ..step(op::COMPUTE) };
        let config = VmConfig { irqchip: false, ..VmConfig::new(1, ring) };
        // The fastest of them: others were interrupted.
        let fastest = probe(machine, config, &sampled(9, compute))?.into_iter().min().unwrap_or(1);
        Ok(ComputeSpeed { passes_per_ms: PASSES as f64 * 1e6 / machine.ns_in(fastest.max(1).into()) })
    }

    /// A step that computes for so many nanoseconds, if nobody interrupts it.
    pub fn step(&self, ns: u64) -> ProgramStep {
        ProgramStep { b: ((ns as f64 * self.passes_per_ms / 1e6) as u64).max(1), ..step(op::COMPUTE) }
    }

    /// Passes of the loop in a microsecond.
    pub fn passes_per_us(&self) -> f64 {
        self.passes_per_ms / 1e3
    }

    /// How long so many passes take.
    pub fn time_of(&self, passes: u64) -> Duration {
        Duration::try_from_secs_f64(passes as f64 / (self.passes_per_ms * 1e3)).unwrap_or(Duration::MAX)
    }
}

/// How much more than its time a vCPU may have computed before that is impossible: what a measurement of the speed is off by.
const SPEED_SLACK: f64 = 1.1;

/// From what difference of speeds on compute steps are said to have varied.
const SPEED_VARIES: f64 = 1.05;

/// How often the speed is measured again before a figure counts as impossible: a machine that was busy may be quiet then.
const SPEED_TRIES: usize = 5;

/// The speed of the compute loop, measured again and again: a processor's clock and its siblings change it.
#[derive(Clone, Debug)]
pub struct ComputeGauge {
    ring: PrivilegeRing,
    speeds: Vec<ComputeSpeed>,
}

impl ComputeGauge {
    /// Measures it for the first time.
    pub fn new(machine: &LabMachine, ring: PrivilegeRing) -> Result<ComputeGauge, LabError> {
        Ok(ComputeGauge { ring, speeds: vec![ComputeSpeed::measure_in(machine, ring)?] })
    }

    /// Measures it again, and gives what it is now.
    pub fn again(&mut self, machine: &LabMachine) -> Result<ComputeSpeed, LabError> {
        let speed = ComputeSpeed::measure_in(machine, self.ring)?;
        self.speeds.push(speed);
        Ok(speed)
    }

    /// The last measured one.
    pub fn now(&self) -> ComputeSpeed {
        self.speeds[self.speeds.len() - 1]
    }

    /// How much longer than the shortest the same compute step took, by the measured speeds.
    pub fn variation(&self) -> f64 {
        let of = |more: fn(f64, f64) -> f64| self.speeds.iter().map(|speed| speed.passes_per_ms).reduce(more);
        of(f64::max).zip(of(f64::min)).map_or(1.0, |(most, least)| most / least)
    }

    /// What is to be said if compute steps varied.
    pub fn warning(&self) -> Option<String> {
        let varies = self.variation();
        (varies > SPEED_VARIES).then(|| {
            format!(
                "a compute step took up to {varies:.2} times as long as at best, in {} measurements before, between and after rounds: \
                 loads differed by that",
                self.speeds.len()
            )
        })
    }

    /// Whether `who` can have computed so many passes, one after the other, in this time.
    pub fn is_possible(&self, passes: u64, took: Duration) -> bool {
        let at_best = self.speeds.iter().map(|speed| speed.time_of(passes)).min().unwrap_or_default();
        at_best <= took.mul_f64(SPEED_SLACK)
    }

    /// An error if it cannot, nor by the speed measured anew.
    pub fn check(&mut self, machine: &LabMachine, who: &str, passes: u64, took: Duration) -> Result<(), LabError> {
        for _ in 0..SPEED_TRIES {
            if self.is_possible(passes, took) {
                return Ok(());
            }
            self.again(machine)?;
        }
        match self.is_possible(passes, took) {
            true => Ok(()),
            false => Err(self.impossible(who, passes, took)),
        }
    }

    fn impossible(&self, who: &str, passes: u64, took: Duration) -> LabError {
        let at_best = self.speeds.iter().map(|speed| speed.time_of(passes)).min().unwrap_or_default();
        LabError::Impossible(format!("{who} computed for {at_best:.3?} within {took:.3?}"))
    }
}

/// What this thread has used so far: CPU time, and how often it gave the CPU up by itself.
///
/// getrusage() would give the time as of the last tick of this CPU, unless the kernel accounts for time at each exit:
/// task_cputime_adjusted() of kernel/sched/cputime.c reads `sum_exec_runtime` as it stands. The thread's clock adds what has run since
/// then: task_sched_runtime() of kernel/sched/core.c calls update_curr() first (Linux 6.12).
pub fn thread_usage() -> (Duration, u64) {
    // SAFETY: the kernel fills in one `timespec` and one `rusage`.
    let (time, usage) = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        (time, usage)
    };
    (Duration::new(time.tv_sec as u64, time.tv_nsec as u32), usage.ru_nvcsw as u64)
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

    fn gauge(passes_per_ms: &[f64]) -> ComputeGauge {
        let speeds = passes_per_ms.iter().map(|&passes_per_ms| ComputeSpeed { passes_per_ms }).collect();
        ComputeGauge { ring: PrivilegeRing::Three, speeds }
    }

    #[test]
    fn more_computing_than_there_was_time_for_is_impossible() {
        // 31,726 round trips of two balls of 20 us, in one second.
        let speed = ComputeSpeed { passes_per_ms: 1e6 };
        let passes = 31_726 * 2 * speed.step(20_000).b;
        let second = Duration::from_secs(1);
        assert!(!gauge(&[1e6]).is_possible(passes, second));
        assert!(gauge(&[1e6, 1.3e6]).is_possible(passes, second), "the loop was seen to be faster");
        assert!(gauge(&[1e6]).is_possible(24_000 * 2 * speed.step(20_000).b, second));
        let error = gauge(&[1e6]).impossible("the balls", passes, second).to_string();
        assert!(error.starts_with("impossible figure: the balls computed for 1.269s within 1.000s"), "{error}");
    }

    #[test]
    fn compute_steps_that_varied_are_warned_of() {
        assert_eq!(gauge(&[1e6, 1.04e6, 1.01e6]).warning(), None);
        let said = gauge(&[1.64e6, 0.89e6, 1.2e6]).warning().unwrap();
        assert!(
            said.starts_with("a compute step took up to 1.84 times as long as at best, in 3 measurements"),
            "{said}"
        );
        assert_eq!(gauge(&[1e6, 2e6]).now().passes_per_us(), 2_000.0);
    }
}
