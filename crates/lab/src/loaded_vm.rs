//! A VM whose vCPUs are given programs again and again, for experiments with a run loop of their own.
//!
//! ```text
//! LoadedVm::new(config) ─► load(policies, flags, programs) ─► (vm, vcpus, payload) ─► run ─► load …
//! ```
//!
//! Programs are a scenario's ([`Op`]), compiled as those of `lab run` are, but for steps that scenarios do not have.

use crate::abi::{ProgramStep, op};
use crate::compile::{Compiler, generator};
use crate::compute_speed::ComputeSpeed;
use crate::{LabError, LabMachine, LabVcpu, LabVm, Payload, VmConfig, step};
use exitscope_policy::Policies;
use exitscope_scenario::{Op, Program};

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

/// What a vCPU does.
#[derive(Clone, Debug, PartialEq)]
pub enum VcpuProgram {
    /// As in a scenario.
    Scenario(Program),
    /// Steps of the payload's own.
    Steps(Vec<ProgramStep>),
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
        speed: ComputeSpeed,
        programs: &[VcpuProgram],
    ) -> Result<(), LabError> {
        self.payload = Payload::new(&self.vm, machine, policies, flags);
        for (vcpu, program) in self.vcpus.iter_mut().zip(programs) {
            self.vm.restart(vcpu)?;
            let number = vcpu.index();
            let compiled;
            let steps = match program {
                VcpuProgram::Steps(steps) => steps,
                VcpuProgram::Scenario(program) => {
                    let random = generator(1, number.into());
                    let mut compiler = Compiler { speed, channels: &[], first_lock: 0, first_vcpu: 0, number, random };
                    compiled = compiler.program(program, &mut self.payload)?;
                    &compiled
                }
            };
            self.payload.load(number, steps, u64::from(number) + 1)?;
        }
        Ok(())
    }
}

/// A loop of these steps: `rounds` times, or (0) until [`Payload::stop`].
pub fn repeat(rounds: u64, steps: &[ProgramStep]) -> Vec<ProgramStep> {
    [&[ProgramStep { b: rounds, ..step(op::REPEAT) }], steps, &[step(op::AGAIN)]].concat()
}

/// The same of a scenario's steps.
pub(crate) fn repeated(rounds: u64, body: Vec<Op>) -> Program {
    vec![Op::Repeat((rounds > 0).then_some(u32::try_from(rounds).unwrap_or(u32::MAX)), body)]
}
