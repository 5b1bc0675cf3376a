//! Gangs: a virtual core's strands enter and leave the guest together, and with them those of other virtual cores that
//! the core has taken in for one run (dynamic micro-threading).
//!
//! ```text
//!  the CPU's task ─► gang_in ─┬─► its strands                  any exit ─► gang_out: all of them leave,
//!   waiting tasks that were   └─► strands of `aboard` tasks                 those aboard wait on
//!   preempted, as `vcore` says
//! ```

use crate::Observer;
use crate::entities::{StrandActivity, StrandStatus, TaskKind};
use crate::exits::SimExitReason;
use crate::world::SimWorld;
use exitscope_policy::vcore::{self, Enter, ThreadExit, ThreadMask};

impl<O: Observer> SimWorld<'_, O> {
    /// Whether a task's strands enter and leave the guest together.
    pub(crate) fn is_gang(&self, task: u32) -> bool {
        self.s.host.ganged && matches!(self.tasks[task as usize].kind, TaskKind::Strands { native: false, .. })
    }

    /// A strand's hardware thread within its task's CPU.
    pub(crate) fn thread_of(&self, strand: u32) -> u32 {
        match self.tasks[self.strands[strand as usize].task as usize].kind {
            TaskKind::Strands { first, .. } => strand - first,
            TaskKind::Device { .. } => 0,
        }
    }

    /// The load that a task in the guest, and those aboard with it, put on their core.
    pub(crate) fn count_load(&mut self, task: u32) {
        let cpu = self.tasks[task as usize].cpu;
        let load: u32 = self.aboard(cpu).map(|task| self.load_of(task)).sum();
        self.set_load(cpu, load.max(1));
    }

    /// What a task in the guest puts on its core: of a gang, those of its threads that work.
    fn load_of(&self, task: u32) -> u32 {
        let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { return 0 };
        let demand = |strand: u32| self.strands[strand as usize].demand;
        if !self.is_gang(task) {
            return demand(first);
        }
        let working = self.tasks[task as usize].vcore.working();
        let works = |thread: &u32| working.contain(ThreadMask::one(*thread));
        (0..count).filter(works).map(|thread| demand(first + thread)).sum()
    }

    /// A napping thread of a gang has something to do: it goes on without an exit.
    pub(crate) fn nap_over(&mut self, strand: u32) {
        let task = self.strands[strand as usize].task;
        let st = &self.strands[strand as usize];
        if st.doing != StrandActivity::Halted || st.pending == 0 || !self.tasks[task as usize].in_guest {
            return;
        }
        let thread = self.thread_of(strand);
        let vcore = &mut self.tasks[task as usize].vcore;
        if vcore.inside().contain(ThreadMask::one(thread)) {
            vcore.wake(thread);
        } else if vcore.enter(thread) == Enter::TooLate {
            return;
        }
        self.count_load(task);
        self.enter_strand(strand);
    }

    /// The CPU's task, and those that are in the guest with it.
    pub(crate) fn aboard(&self, cpu: u32) -> impl Iterator<Item = u32> + '_ {
        let cpu = &self.cpus[cpu as usize];
        std::iter::once(cpu.current).chain(cpu.aboard.iter().copied())
    }

    /// A task's strands that can run enter, and with them those of tasks that were preempted and fit beside it.
    pub(crate) fn gang_in(&mut self, task: u32) {
        self.take_aboard(task);
        let cpu = self.tasks[task as usize].cpu;
        let mut ready = Vec::new();
        for task in self.aboard(cpu).collect::<Vec<u32>>() {
            let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { continue };
            self.tasks[task as usize].in_guest = true;
            let own: Vec<u32> = (first..first + count).filter(|strand| self.wants_to_run(*strand)).collect();
            for strand in &own {
                let thread = self.thread_of(*strand);
                self.tasks[task as usize].vcore.enter(thread);
            }
            self.observe_core_enter(task, &own);
            ready.extend(own);
        }
        self.count_load(task);
        for strand in ready {
            // One that exits at once takes the others along.
            if self.tasks[task as usize].in_guest {
                self.enter_strand(strand);
            }
        }
    }

    /// Splits the core for one run, among its task and those that wait for it in the middle of their guests' work.
    fn take_aboard(&mut self, task: u32) {
        let params = self.s.policies.vcore;
        if params.dynamic_mt_modes == 0 || params.subcores_per_core > 1 {
            return;
        }
        let shape = |task: u32| match self.tasks[task as usize].kind {
            TaskKind::Strands { first, native: false, .. } => {
                Some((self.strands[first as usize].vm, self.policies_of(first).vcore.smt_mode))
            }
            _ => None,
        };
        let Some((vm, mut most)) = shape(task) else { return };
        let cpu = self.tasks[task as usize].cpu;
        let mut aboard = Vec::new();
        for other in self.cpus[cpu as usize].queue.iter().rev() {
            let t = &self.tasks[*other as usize];
            if let Some((vm_too, threads)) = shape(*other)
                && !t.woken
                && t.plan.is_empty()
                && self.can_run(*other)
                && (vm_too == vm || !params.one_vm_per_core)
                && params.splits_for_one_run(aboard.len() as u32 + 2, threads.max(most))
            {
                most = most.max(threads);
                aboard.push(*other);
            }
        }
        self.cpus[cpu as usize].aboard = aboard;
    }

    /// All threads of a core leave with one: those of its gang, and of those aboard. What that costs beyond the exit.
    pub(crate) fn gang_out(&mut self, strand: u32, reason: SimExitReason) -> u64 {
        let own = self.strands[strand as usize].task;
        let cpu = self.tasks[own as usize].cpu;
        let mut others = 0;
        for task in self.aboard(cpu).collect::<Vec<u32>>() {
            others += self.vcore_out(task, (task == own).then_some(strand), reason.trap());
        }
        for task in std::mem::take(&mut self.cpus[cpu as usize].aboard) {
            self.tasks[task as usize].in_guest = false;
            self.set_task_status(task, StrandStatus::Steal);
            self.holder_stops(task);
        }
        let runner = self.cpus[cpu as usize].current;
        self.tasks[runner as usize].in_guest = false;
        if others > 0 { self.s.costs.gang_latency.time.0 + others * self.s.costs.gang_thread.time.0 } else { 0 }
    }

    /// A virtual core's threads leave: because of one of them, or because another virtual core does. How many had to
    /// that worked.
    fn vcore_out(&mut self, task: u32, cause: Option<u32>, trap: u16) -> u64 {
        let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { return 0 };
        let kicked = if trap == vcore::HV_DECREMENTER { trap } else { vcore::H_DOORBELL };
        let inside = self.tasks[task as usize].vcore.inside();
        let left: Vec<(u32, ThreadExit)> = (0..count)
            .filter(|thread| inside.contain(ThreadMask::one(*thread)))
            .map(|thread| {
                let trap = if cause == Some(first + thread) { trap } else { kicked };
                (
                    thread,
                    ThreadExit { trap, ceded: self.strands[(first + thread) as usize].doing == StrandActivity::Halted },
                )
            })
            .collect();
        let vcore = &mut self.tasks[task as usize].vcore;
        match cause {
            Some(strand) => vcore.exit(strand - first, trap),
            None => vcore.ask_to_leave(),
        };
        for (thread, left) in left.iter().filter(|(thread, _)| cause != Some(first + thread)) {
            self.stop(first + thread);
            self.tasks[task as usize].vcore.exit(*thread, left.trap);
        }
        let done = self.tasks[task as usize].vcore.finish();
        debug_assert!(done, "every thread that entered has left");
        self.count_gang(task, &left);
        self.observe_core_exit(task, &left);
        left.iter().filter(|(thread, left)| cause != Some(first + thread) && !left.ceded).count() as u64
    }
}
