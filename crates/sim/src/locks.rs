//! Spinlocks of guests, and what hypervisors do for those that spin.

use crate::entities::{NONE, SimYieldCall, StrandActivity, TaskKind, TaskState};
use crate::exits::SimExitReason;
use crate::world::SimWorld;
use crate::{Observer, SimError};
use exitscope_policy::yielding::confer::{self, Sibling};
use exitscope_policy::yielding::{
    Diag9cOutcome, DiagnoseCall, HostTask, OnSpin, SpinAction, SpinLoop, SpinVcpu, Target, Waiting, diag9c,
    pick_undirected,
};
use exitscope_scenario::{Arch, SpinWait, YieldRules};
use exitscope_units::{Picos, VcpuId, VmId};
use rand::Rng;

impl SimYieldCall {
    /// A guest's call, by the strand of its first vCPU.
    fn of(call: DiagnoseCall, first: u32) -> SimYieldCall {
        match call {
            DiagnoseCall::Diag44 => SimYieldCall::Diag44,
            DiagnoseCall::Diag9c(to) => SimYieldCall::Diag9c { to: first + to.0 },
        }
    }
}

/// Longer than any run: 58 days of picoseconds.
const NOTICED_NEVER: u64 = 5_000_000_000_000_000_000;

impl<O: Observer> SimWorld<'_, O> {
    /// Takes a lock, or begins to spin for it. Whether it was had at once.
    pub(crate) fn lock(&mut self, strand: u32, lock: u32) -> bool {
        self.m.lock_takes += 1;
        if self.locks[lock as usize].holder == NONE {
            self.locks[lock as usize].holder = strand;
            self.strands[strand as usize].held += 1;
            return true;
        }
        self.m.lock_contended += 1;
        self.strands[strand as usize].lock = lock;
        if let Some(who) = self.circle(strand) {
            self.trouble = Some(SimError::Deadlock { at: self.now, who });
            return false;
        }
        self.locks[lock as usize].spinners.push(strand);
        let st = &mut self.strands[strand as usize];
        (st.doing, st.lock_wait_from) = (StrandActivity::Spin, self.now);
        self.spin(strand, true);
        false
    }

    /// Begins a round of looks at a lock that is held: the first one, or one after an exit.
    fn spin(&mut self, strand: u32, first: bool) {
        if self.confers(strand) {
            if first {
                return self.confer(strand);
            }
            self.strands[strand as usize].left = self.s.costs.spin_pass.time.0.max(1);
            return self.start(strand);
        }
        if let Some(window) = self.window(strand) {
            self.strands[strand as usize].left = window;
            return self.start(strand);
        }
        let (params, owner) = (self.policies_of(strand).yielding, self.owner(self.strands[strand as usize].lock));
        let st = &mut self.strands[strand as usize];
        let step = if first {
            st.spin = SpinLoop::new(&params, st.machine);
            st.spin.enter(owner)
        } else {
            st.spin.failed(owner)
        };
        self.spin_step(strand, step);
    }

    /// How long a vCPU spins before the processor notices; `None` where the guest counts for itself. VMX counts cycles,
    /// SVM counts PAUSEs.
    fn window(&self, strand: u32) -> Option<u64> {
        if self.spec_of(strand)?.spin != SpinWait::PauseLoop {
            return None;
        }
        let params = &self.policies_of(strand).yielding;
        let off = match self.s.host.arch {
            Arch::Svm => params.pause_filter_count == 0 || params.pause_filter_thresh == 0,
            _ => params.ple_gap == 0,
        };
        if off {
            return Some(NOTICED_NEVER);
        }
        let window = u64::from(self.strands[strand as usize].pause.get());
        let time = match self.s.host.arch {
            Arch::Svm => window.saturating_mul(self.s.costs.spin_pass.time.0),
            _ => Picos::from_cycles(window, self.s.costs.clock_hz).map_or(u64::MAX, |time| time.0),
        };
        Some(time.max(1))
    }

    fn owner(&self, lock: u32) -> Option<VcpuId> {
        let holder = self.locks[lock as usize].holder;
        (holder != NONE).then(|| VcpuId(self.strands[holder as usize].vcpu))
    }

    fn spin_step(&mut self, strand: u32, step: SpinAction) {
        let pass = self.s.costs.spin_pass.time.0.max(1);
        let first = self.first_strand_of(strand);
        match step {
            SpinAction::Spin => {
                let st = &mut self.strands[strand as usize];
                st.left = pass.saturating_mul(u64::from(st.spin.quiet()) + 1);
                self.start(strand);
            }
            SpinAction::Sense(of) => self.exit(strand, SimExitReason::Sense { of: first + of.0 }),
            SpinAction::Yield(call) => self.exit(strand, SimExitReason::Yield(SimYieldCall::of(call, first))),
        }
    }

    pub(crate) fn first_strand_of(&self, strand: u32) -> u32 {
        self.vms.get(self.strands[strand as usize].vm as usize).map_or(0, |vm| vm.first_strand)
    }

    /// A round of looks is over, and the lock is held still.
    pub(crate) fn spin_over(&mut self, strand: u32) {
        if self.confers(strand) {
            return self.confer(strand);
        }
        if self.window(strand).is_some() {
            self.strands[strand as usize].left = 0;
            let change = self.strands[strand as usize].pause.grow();
            self.exit(strand, SimExitReason::Yield(SimYieldCall::Pause));
            return self.observe_window(strand, change);
        }
        let owner = self.owner(self.strands[strand as usize].lock);
        let st = &mut self.strands[strand as usize];
        st.spin.pass(st.spin.quiet());
        let step = st.spin.failed(owner);
        self.spin_step(strand, step);
    }

    /// A strand that spins is in the guest again: the lock may be free by now.
    pub(crate) fn spin_resume(&mut self, strand: u32) {
        let lock = self.strands[strand as usize].lock;
        if self.locks[lock as usize].holder == NONE {
            return self.give(lock, strand);
        }
        if self.strands[strand as usize].left > 0 && !self.confers(strand) {
            return self.start(strand);
        }
        self.spin(strand, false);
    }

    /// Whether a strand's kernel knows H_CONFER.
    fn confers(&self, strand: u32) -> bool {
        self.spec_of(strand).is_some_and(|vm| vm.spin == SpinWait::Confer)
    }

    /// The holder of the lock that a strand spins for, if it does not run.
    fn idle_holder(&self, strand: u32) -> Option<u32> {
        let holder = self.locks[self.strands[strand as usize].lock as usize].holder;
        let st = self.strands.get(holder as usize)?;
        let task = &self.tasks[st.task as usize];
        let runs = (task.state == TaskState::Running || task.in_guest) && st.doing != StrandActivity::Halted;
        (!runs).then_some(holder)
    }

    /// Spins as long as the holder runs; else calls the hypervisor for it, unless others of the gang have work to do.
    fn confer(&mut self, strand: u32) {
        let Some(to) = self.idle_holder(strand) else {
            self.strands[strand as usize].left = NOTICED_NEVER;
            return self.start(strand);
        };
        let task = self.strands[strand as usize].task;
        let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { return };
        let siblings = (first..first + count).filter(|other| *other != strand).map(|other| {
            match self.strands[other as usize].doing {
                StrandActivity::Halted => Sibling::Ceded,
                StrandActivity::Spin if self.idle_holder(other).is_some() => Sibling::Confers,
                _ => Sibling::Works,
            }
        });
        if confer::leaves(siblings) {
            return self.exit(strand, SimExitReason::Yield(SimYieldCall::Confer { to }));
        }
        self.strands[strand as usize].left = confer::STAY.0 * 1_000;
        self.start(strand);
    }

    /// A task does not run any more: those that spin for its locks see that, if their kernels look.
    pub(crate) fn holder_stops(&mut self, task: u32) {
        let TaskKind::Strands { first, count, native: false } = self.tasks[task as usize].kind else { return };
        if !self.confers(first) || (first..first + count).all(|strand| self.strands[strand as usize].held == 0) {
            return;
        }
        let vm = &self.vms[self.strands[first as usize].vm as usize];
        let locks = &self.locks[vm.first_lock as usize..][..self.s.vms[vm.spec].locks.len()];
        let held = locks.iter().filter(|lock| (first..first + count).contains(&lock.holder));
        let spinners: Vec<u32> = held.flat_map(|lock| lock.spinners.iter().copied()).collect();
        for spinner in spinners {
            if self.stop(spinner) {
                self.strands[spinner as usize].left = self.s.costs.spin_pass.time.0.max(1);
                self.start(spinner);
            }
        }
    }

    /// The hypervisor's answer whether the owner runs.
    pub(crate) fn sensed(&mut self, strand: u32, running: bool) {
        if let SpinAction::Yield(call) = self.strands[strand as usize].spin.sensed(running) {
            let call = SimYieldCall::of(call, self.first_strand_of(strand));
            // One exit after the other: this one begins as the last ends.
            self.count_exit(strand, SimExitReason::Yield(call));
            let cpu = self.tasks[self.strands[strand as usize].task as usize].cpu;
            self.yield_cpu(cpu, strand, call);
        }
    }

    fn give(&mut self, lock: u32, strand: u32) {
        self.locks[lock as usize].holder = strand;
        self.locks[lock as usize].spinners.retain(|other| *other != strand);
        let time = self.s.costs.lock_transfer.time.0;
        let st = &mut self.strands[strand as usize];
        st.held += 1;
        (st.doing, st.left) = (StrandActivity::Acquire, time);
        self.start(strand);
    }

    /// Gives a lock back: to one of those that spin for it in the guest at this moment, whoever's look comes first.
    pub(crate) fn unlock(&mut self, strand: u32, lock: u32) {
        if self.locks[lock as usize].holder != strand {
            let who = self.name(strand);
            self.trouble = Some(SimError::NotItsLock { who, at: self.now });
            return;
        }
        self.locks[lock as usize].holder = NONE;
        self.strands[strand as usize].held -= 1;
        let looks = |st: &crate::entities::Strand| st.rate > 0 && st.interrupt_left == 0;
        let spinners = &self.locks[lock as usize].spinners;
        let looking = spinners.iter().filter(|other| looks(&self.strands[**other as usize])).count();
        if looking == 0 {
            return;
        }
        let nth = if looking == 1 { 0 } else { self.strands[strand as usize].rng.random_range(0..looking) };
        let spinners = &self.locks[lock as usize].spinners;
        let chosen = spinners.iter().filter(|other| looks(&self.strands[**other as usize])).nth(nth).copied();
        if let Some(chosen) = chosen {
            self.stop(chosen);
            self.give(lock, chosen);
        }
    }

    pub(crate) fn count_lock_wait(&mut self, strand: u32) {
        let wait = self.now - self.strands[strand as usize].lock_wait_from;
        self.m.lock_wait.record(wait);
    }

    /// Who waits for whom in a circle of locks that begins with this strand, in words.
    fn circle(&self, strand: u32) -> Option<String> {
        let mut words = Vec::new();
        let mut at = strand;
        for _ in 0..=self.locks.len() {
            let lock = self.strands[at as usize].lock;
            let holder = self.locks.get(lock as usize)?.holder;
            if holder == NONE {
                return None;
            }
            let waiter = self.name(at);
            words.push(format!("{waiter} spins for lock {}, held by {}", self.lock_name(at, lock), self.name(holder)));
            let st = &self.strands[holder as usize];
            if holder == strand {
                return Some(words.join("; "));
            }
            if st.doing != StrandActivity::Spin {
                return None;
            }
            at = holder;
        }
        None
    }

    fn lock_name(&self, strand: u32, lock: u32) -> String {
        let vm = self.strands[strand as usize].vm as usize;
        let first = self.vms[vm].first_lock;
        self.s.vms[self.vms[vm].spec].locks.get((lock - first) as usize).cloned().unwrap_or_default()
    }

    /// A strand gives its CPU away, or wants another one to run. The CPU looks at that when the plan is done.
    pub(crate) fn yield_cpu(&mut self, cpu: u32, strand: u32, call: SimYieldCall) {
        let zvm = self.s.host.scheduler.yields == YieldRules::Zvm;
        match call {
            SimYieldCall::Diag9c { to } => {
                self.m.yields_named += 1;
                let (me, target) = (self.strands[strand as usize].task, self.strands[to as usize].task);
                let state = match self.tasks[target as usize].state {
                    _ if me == target => Target::Caller,
                    TaskState::Queued => Target::Queued,
                    TaskState::Running => Target::Running { preempted: false },
                    TaskState::Blocked if self.strands[to as usize].doing == StrandActivity::Halted => Target::Idle,
                    TaskState::Blocked => Target::SoftWait,
                };
                match diag9c(state, || None) {
                    Diag9cOutcome::Run => {
                        self.m.yields_directed += 1;
                        self.run_next(cpu, target);
                    }
                    Diag9cOutcome::Ignored(_) | Diag9cOutcome::Forwarded => self.m.yields_ignored += 1,
                }
            }
            SimYieldCall::Confer { to } => {
                self.m.yields_named += 1;
                let target = self.strands[to as usize].task;
                if self.tasks[target as usize].state == TaskState::Queued {
                    self.boost(cpu, strand, target);
                } else {
                    self.m.yields_ignored += 1;
                }
            }
            SimYieldCall::Diag44 if zvm => {
                self.m.yields_undirected += 1;
                let vector: Vec<Waiting> =
                    self.cpus[cpu as usize].queue.iter().rev().map(|t| self.waiting_as(*t)).collect();
                let caller = self.waiting_as(self.strands[strand as usize].task);
                match pick_undirected(&vector, caller) {
                    Some(at) => {
                        let queue = &self.cpus[cpu as usize].queue;
                        let target = queue[queue.len() - 1 - at];
                        self.run_next(cpu, target);
                    }
                    None => self.step_back(cpu, strand),
                }
            }
            SimYieldCall::Diag44 | SimYieldCall::Pause => self.on_spin(cpu, strand),
        }
    }

    fn waiting_as(&self, task: u32) -> Waiting {
        match self.tasks[task as usize].kind {
            TaskKind::Strands { first, .. } => {
                let st = &self.strands[first as usize];
                // Number 0 is no VM's.
                Waiting { vm: VmId(st.vm.wrapping_add(1)), vcpu: VcpuId(st.vcpu) }
            }
            TaskKind::Device { .. } => Waiting { vm: VmId(u32::MAX), vcpu: VcpuId(task) },
        }
    }

    /// KVM's choice for a vCPU that spins.
    fn on_spin(&mut self, cpu: u32, strand: u32) {
        let vm = self.strands[strand as usize].vm as usize;
        let Some(state) = self.vms.get(vm) else { return };
        let (first, count) = (state.first_strand, self.s.vms[state.spec].vcpus);
        let mut vcpus: Vec<SpinVcpu> = (first..first + count).map(|other| self.spin_vcpu(other)).collect();
        let here = self.cpus[cpu as usize].queue.len() as u32 + 1;
        let mut on_spin = std::mem::replace(&mut self.vms[vm].on_spin, OnSpin::new());
        let chosen = on_spin.begin(&mut vcpus, (strand - first) as usize, true, |at| {
            let task = &self.tasks[self.strands[first as usize + at].task as usize];
            let there = &self.cpus[task.cpu as usize];
            HostTask {
                exists: true,
                here,
                there: there.queue.len() as u32 + u32::from(there.current != NONE),
                same_class: true,
                on_cpu: task.state == TaskState::Running,
                queued: task.state == TaskState::Queued,
            }
            .yield_to()
        });
        self.vms[vm].on_spin = on_spin;
        for (at, vcpu) in vcpus.iter().enumerate() {
            self.strands[first as usize + at].dy_eligible = vcpu.dy_eligible;
        }
        self.strands[strand as usize].in_spin_loop = chosen.is_some();
        match chosen {
            Some(at) => self.boost(cpu, strand, self.strands[first as usize + at].task),
            None => self.m.yields_ignored += 1,
        }
    }

    /// A waiting task runs next where it waits, and the one that asked for it goes back in its queue.
    fn boost(&mut self, cpu: u32, strand: u32, target: u32) {
        self.m.yields_directed += 1;
        let there = self.tasks[target as usize].cpu;
        self.back_of_queue(strand);
        self.cpus[there as usize].buddy = target;
        self.preempt(there);
        self.cpus[cpu as usize].resched = true;
    }

    fn spin_vcpu(&self, strand: u32) -> SpinVcpu {
        let st = &self.strands[strand as usize];
        let task = &self.tasks[st.task as usize];
        let queued = task.state == TaskState::Queued;
        SpinVcpu {
            ready: queued,
            blocking: task.state == TaskState::Blocked,
            dy_runnable: st.pending > 0,
            preempted: queued && !task.woken,
            // A guest that spins or holds a spinlock is in its kernel; compute steps are programs of users.
            preempted_in_kernel: st.doing == StrandActivity::Spin || st.held > 0,
            pending_interrupt: st.pending > 0,
            in_spin_loop: st.in_spin_loop,
            dy_eligible: st.dy_eligible,
        }
    }

    /// A waiting task runs next on this CPU, wherever it waits.
    fn run_next(&mut self, cpu: u32, target: u32) {
        if self.tasks[target as usize].cpu != cpu {
            if !self.may_run(target, cpu) {
                // It has to be run where it may: its own CPU takes it up.
                let there = self.tasks[target as usize].cpu;
                self.cpus[there as usize].buddy = target;
                return self.preempt(there);
            }
            self.dequeue(target);
            self.enqueue(cpu, target);
        }
        self.cpus[cpu as usize].buddy = target;
        self.cpus[cpu as usize].resched = true;
    }

    /// The next in the queue goes first.
    fn step_back(&mut self, cpu: u32, strand: u32) {
        let task = self.strands[strand as usize].task;
        self.charge(task);
        if let Some(next) = self.cpus[cpu as usize].queue.last() {
            let behind = self.tasks[*next as usize].run.saturating_add(1);
            self.tasks[task as usize].run = self.tasks[task as usize].run.max(behind);
            self.cpus[cpu as usize].resched = true;
        }
    }

    /// As the kernel's fair scheduler does to one that yields: it loses the rest of its slice.
    fn back_of_queue(&mut self, strand: u32) {
        let task = self.strands[strand as usize].task;
        self.charge(task);
        let slice = self.s.host.scheduler.time_slice.0;
        self.tasks[task as usize].run = self.tasks[task as usize].run.saturating_add(slice);
    }
}
