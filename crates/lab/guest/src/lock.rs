//! Spinlocks whose waiters talk to the hypervisor, as yielding's `SpinLoop` decides.

use crate::abi::{Control, VcpuPage, bell, machine};
use crate::cpu;
use crate::memory::shared;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use exitscope_policy::yielding::{DiagnoseCall, DiagnoseSupport, Params, SpinLoop, SpinAction};
use exitscope_units::VcpuId;

/// How this guest waits for locks.
pub struct Locker {
    params: Params,
    machine: DiagnoseSupport,
    running_in_memory: bool,
}

impl Locker {
    pub fn new(control: &Control, params: Params) -> Locker {
        let has = |flag| control.machine & flag != 0;
        let machine = DiagnoseSupport {
            diag44: has(machine::DIAG44),
            diag9c: has(machine::DIAG9C),
            sense_running: has(machine::SENSE_RUNNING),
            lpar: has(machine::LPAR),
        };
        Locker { params, machine, running_in_memory: has(machine::RUNNING_IN_MEMORY) }
    }

    /// Takes the lock; waits for it as long as it takes.
    pub fn lock(&self, page: &mut VcpuPage, lock: u32) {
        let line = &shared().locks[lock as usize];
        let word = &line.word;
        let ours = u64::from(page.index) + 1;
        let try_take = || word.compare_exchange(0, ours, Acquire, Relaxed);
        let Err(mut held) = try_take() else {
            page.chain = page.chain.max(line.chain.load(Relaxed));
            return;
        };
        page.contended += 1;
        let begin = cpu::now();
        let mut wait = SpinLoop::new(&self.params, self.machine);
        let mut step = wait.enter(owner(held));
        loop {
            self.perform(page, &mut wait, step);
            // A look before the swap: a lock that looks held is left alone, but by the generations that swap blindly.
            let blind = self.params.spin_generation.swaps_blindly();
            held = if blind { 0 } else { word.load(Relaxed) };
            if held == 0 {
                match try_take() {
                    Ok(_) => break,
                    Err(other) => held = other,
                }
            }
            step = wait.failed(owner(held));
        }
        page.spin_ticks += cpu::now() - begin;
        page.chain = page.chain.max(line.chain.load(Relaxed));
    }

    /// Gives the lock back.
    pub fn unlock(&self, page: &VcpuPage, lock: u32) {
        let line = &shared().locks[lock as usize];
        // Before the word, which lets the next one see it.
        line.chain.store(page.chain, Relaxed);
        line.word.store(0, Release);
    }

    fn perform(&self, page: &mut VcpuPage, wait: &mut SpinLoop, mut step: SpinAction) {
        loop {
            match step {
                SpinAction::Spin => return cpu::relax(),
                SpinAction::Sense(whom) => step = wait.sensed(self.runs(page, whom)),
                SpinAction::Yield(DiagnoseCall::Diag44) => {
                    page.yields += 1;
                    return cpu::ring(page, bell::YIELD, 0);
                }
                SpinAction::Yield(DiagnoseCall::Diag9c(whom)) => {
                    page.yields_to += 1;
                    return cpu::ring(page, bell::YIELD_TO, whom.0);
                }
            }
        }
    }

    fn runs(&self, page: &mut VcpuPage, whom: VcpuId) -> bool {
        page.senses += 1;
        if self.running_in_memory {
            return shared().running[whom.0 as usize].word.load(Relaxed) != 0;
        }
        page.sense_whom = whom.0;
        cpu::ask(page, bell::SENSE) != 0
    }
}

fn owner(word: u64) -> Option<VcpuId> {
    word.checked_sub(1).map(|number| VcpuId(number as u32))
}
