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
#[derive(Clone, Copy, Debug)]
pub struct ComputeSpeed {
    passes_per_ms: f64,
}

impl ComputeSpeed {
    /// Has a guest compute for a moment.
    pub fn measure(machine: &LabMachine) -> Result<ComputeSpeed, LabError> {
        const PASSES: u64 = 200_000;
        let compute = ProgramStep { b: PASSES, ..step(op::COMPUTE) };
        let config = VmConfig { irqchip: false, ..VmConfig::new(1, PrivilegeRing::Three) };
        // The fastest of them: others were interrupted.
        let fastest = probe(machine, config, &sampled(7, compute))?.into_iter().min().unwrap_or(1);
        Ok(ComputeSpeed { passes_per_ms: PASSES as f64 * 1e6 / machine.ns_in(fastest.max(1).into()) })
    }

    /// A step that computes for so many nanoseconds, if nobody interrupts it.
    pub fn step(&self, ns: u64) -> ProgramStep {
        ProgramStep { b: ((ns as f64 * self.passes_per_ms / 1e6) as u64).max(1), ..step(op::COMPUTE) }
    }
}

/// What this thread has used so far: CPU time, and how often it gave the CPU up by itself.
pub fn thread_usage() -> (Duration, u64) {
    // SAFETY: the kernel fills in one `rusage`.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let time =
        |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
    (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_nvcsw as u64)
}
