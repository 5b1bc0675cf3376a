//! What the guests of a run executed that leaves a guest, as they counted it themselves: every program that ever ran, also
//! those that probe the machine, first turns and warm-ups. A recording of the kernel's must show the same.
//!
//! ```text
//! Payload::load, Payload::reset, its drop ─► what the programs before did ─► InstructionCounts (one for a LabMachine) ─► rows
//! ```

use crate::abi::{VcpuPage, op};
use exitscope_scenario::findings::Instruction;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of all guests.
#[derive(Debug, Default)]
pub struct InstructionCounts([AtomicU64; Instruction::ALL.len()]);

/// Steps that execute an instruction of a kind, each once.
const COUNTED: &[(Instruction, &[u32])] = &[
    (Instruction::Hypercall, &[op::HYPERCALL]),
    (Instruction::Cpuid, &[op::CPUID]),
    (Instruction::Msr, &[op::RDMSR, op::WRMSR, op::INTERRUPT, op::SELF_IPI]),
    (Instruction::Port, &[op::PORT_IN, op::PORT_OUT, op::PORT_STRING, op::DOORBELL]),
    (Instruction::Mmio, &[op::MMIO_READ, op::MMIO_WRITE]),
    (Instruction::Touch, &[op::TOUCH]),
];

impl InstructionCounts {
    /// How often each kind was executed, by programs that are unloaded.
    pub fn rows(&self) -> Vec<(Instruction, u64)> {
        Instruction::ALL.map(|kind| (kind, self.0[kind as usize].load(Ordering::SeqCst))).into()
    }

    /// A program's count is final. Interrupts are sent by MSR where vCPUs `halt` with HLT.
    pub(crate) fn add(&self, page: &VcpuPage, halt: bool) {
        let done = |ops: &[u32]| -> u64 { ops.iter().map(|op| page.done.0[*op as usize]).sum() };
        let woken_by_msr = if halt { page.wakes_sent } else { 0 };
        let of_steps = COUNTED.iter().map(|(kind, ops)| (*kind, done(ops)));
        let beside =
            [(Instruction::Msr, woken_by_msr), (Instruction::Port, page.bells), (Instruction::Halt, page.hlts)];
        for (kind, count) in of_steps.chain(beside) {
            self.0[kind as usize].fetch_add(count, Ordering::SeqCst);
        }
    }

    /// So many interrupts were served, each of which ends with an MSR's write.
    pub(crate) fn add_interrupts(&self, count: u64) {
        self.0[Instruction::Msr as usize].fetch_add(count, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps that execute no instruction of a kind, or one that is counted where it waits, as of a halt.
    const OTHERS: &[u32] = &[
        op::END,
        op::COMPUTE,
        op::COMPUTE_TABLE,
        op::HALT,
        op::SLEEP,
        op::LOCK,
        op::UNLOCK,
        op::SEND,
        op::RECEIVE,
        op::RECEIVE_SPIN,
        op::COUNT_ONE,
        op::START,
        op::STOP,
        op::REPEAT,
        op::AGAIN,
        op::PICK,
        op::CASE,
        op::JUMP,
        op::SAMPLE,
        op::NOTHING,
        op::ADD,
        op::AWAIT_COUNTER,
        op::PAUSE,
        op::REPLY,
        op::HLT,
        op::SLEEP_TABLE,
        op::SUBMIT,
        op::LOAD_KNOBS,
        op::PRIVILEGED,
    ];

    #[test]
    fn each_step_is_counted_as_an_instruction_or_is_none() {
        for of in 0..op::COUNT as u32 {
            let counted = COUNTED.iter().flat_map(|row| row.1).chain(OTHERS).filter(|known| **known == of).count();
            assert_eq!(counted, 1, "step {of} is counted so often, or so often among the others");
        }
    }
}
