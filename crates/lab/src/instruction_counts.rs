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

impl InstructionCounts {
    /// How often each kind was executed, by programs that are unloaded.
    pub fn rows(&self) -> Vec<(Instruction, u64)> {
        Instruction::ALL.map(|kind| (kind, self.0[kind as usize].load(Ordering::SeqCst))).into()
    }

    /// A program's count is final. Interrupts are sent by MSR where vCPUs `halt` with HLT.
    pub(crate) fn add(&self, page: &VcpuPage, halt: bool) {
        let done = |ops: &[u32]| -> u64 { ops.iter().map(|op| page.done.0[*op as usize]).sum() };
        let woken_by_msr = if halt { page.wakes_sent } else { 0 };
        for (kind, count) in [
            (Instruction::Hypercall, done(&[op::HYPERCALL])),
            (Instruction::Cpuid, done(&[op::CPUID])),
            (Instruction::Msr, done(&[op::RDMSR, op::WRMSR, op::INTERRUPT]) + woken_by_msr),
            (Instruction::Port, done(&[op::PORT_IN, op::PORT_OUT, op::PORT_STRING, op::DOORBELL]) + page.bells),
            (Instruction::Mmio, done(&[op::MMIO_READ, op::MMIO_WRITE])),
            (Instruction::Halt, page.hlts),
            (Instruction::Touch, done(&[op::TOUCH])),
        ] {
            self.0[kind as usize].fetch_add(count, Ordering::SeqCst);
        }
    }

    /// So many interrupts were served, each of which ends with an MSR's write.
    pub(crate) fn add_interrupts(&self, count: u64) {
        self.0[Instruction::Msr as usize].fetch_add(count, Ordering::SeqCst);
    }
}
