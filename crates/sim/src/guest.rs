//! What strands do in the guest: their programs, their idle loops, their interrupts.

use crate::entities::{
    Effect, HostWork, MessageSender, NONE, QueuedEvent, StrandActivity, StrandStatus, StrandWait, TaskKind, TaskState,
};
use crate::exit_costs::part;
use crate::exits::SimExitReason;
use crate::flat_program::Code;
use crate::random::sample;
use crate::run::{time_of, work_done};
use crate::world::SimWorld;
use crate::{Observer, SimError};
use exitscope_policy::Policies;
use exitscope_policy::guest_halt_poll::{IdleOutcome, IdleState};
use exitscope_policy::vcore::Cede;
use exitscope_units::{Moment, Nanos};
use rand::Rng;

/// So many steps of a program may take no time in a row.
const FREE_STEPS: u32 = 1_000_000;

impl<O: Observer> SimWorld<'_, O> {
    /// The knobs that hold for a strand.
    pub(crate) fn policies_of(&self, strand: u32) -> &Policies {
        self.spec_of(strand).map_or(&self.s.policies, |vm| &vm.policies)
    }

    /// The strand makes progress from now on: its interrupts first, then its step.
    pub(crate) fn start(&mut self, strand: u32) {
        let cpu = self.tasks[self.strands[strand as usize].task as usize].cpu;
        let rate = self.speed(cpu, strand);
        let now = self.now;
        let st = &mut self.strands[strand as usize];
        (st.since, st.rate) = (now, rate);
        let time = match st.interrupt_left {
            0 if st.doing == StrandActivity::Poll => st.poll_left(now),
            0 => time_of(st.left, rate),
            interrupt => time_of(interrupt, rate),
        };
        st.generation = st.generation.wrapping_add(1);
        let generation = st.generation;
        self.queue.plan(now.saturating_add(time), QueuedEvent::Strand { strand, generation });
        let status = match self.strands[strand as usize].doing {
            _ if self.strands[strand as usize].interrupt_left > 0 => StrandStatus::Guest,
            StrandActivity::Spin => StrandStatus::Spinning,
            StrandActivity::Poll => StrandStatus::GuestPolling,
            _ => StrandStatus::Guest,
        };
        self.set_status(strand, status);
    }

    /// It makes none from now on. Whether it made any just now.
    pub(crate) fn stop(&mut self, strand: u32) -> bool {
        let now = self.now;
        let st = &mut self.strands[strand as usize];
        if st.rate == 0 {
            return false;
        }
        let done = work_done(now - st.since, st.rate);
        // A step that has all but ended is ended by its event, not here: what is left stays above zero.
        if st.interrupt_left > 0 {
            st.interrupt_left = st.interrupt_left.saturating_sub(done).max(1);
        } else if st.doing != StrandActivity::Poll {
            st.left = st.left.saturating_sub(done).max(1);
        }
        st.rate = 0;
        st.generation = st.generation.wrapping_add(1);
        true
    }

    /// A strand's timed step, or the interrupts in front of it, are over.
    pub(crate) fn step_over(&mut self, strand: u32) {
        let st = &mut self.strands[strand as usize];
        st.rate = 0;
        st.free_steps = 0;
        if std::mem::take(&mut st.interrupt_left) > 0 {
            return self.resume(strand);
        }
        st.left = 0;
        match st.doing {
            StrandActivity::Compute | StrandActivity::Acquire | StrandActivity::Wake => {
                if st.doing == StrandActivity::Acquire {
                    self.count_lock_wait(strand);
                }
                self.strands[strand as usize].doing = StrandActivity::Program;
                self.advance(strand);
            }
            StrandActivity::Spin => self.spin_over(strand),
            StrandActivity::IdleEnter => self.idle_check(strand),
            StrandActivity::Poll => {
                self.reflect(strand, IdleOutcome::Polled { expired: true });
                self.idle_select(strand);
            }
            StrandActivity::Program | StrandActivity::Halted => {}
        }
    }

    fn reflect(&mut self, strand: u32, entered: IdleOutcome) {
        let params = self.policies_of(strand).guest_halt_poll;
        match entered {
            IdleOutcome::Polled { expired } => {
                self.m.guest_polls += 1;
                self.m.guest_polls_paid += u64::from(!expired);
            }
            IdleOutcome::Halted { .. } => {}
        }
        self.strands[strand as usize].guest_poll.reflect(&params, entered);
    }

    /// The strand is in the guest and has no interrupts to handle: goes on with whatever it was doing.
    pub(crate) fn resume(&mut self, strand: u32) {
        let st = &self.strands[strand as usize];
        match st.doing {
            _ if st.interrupt_left > 0 => self.start(strand),
            StrandActivity::Program => self.advance(strand),
            StrandActivity::IdleEnter if st.left == 0 => self.idle_check(strand),
            StrandActivity::Compute | StrandActivity::Acquire | StrandActivity::Wake | StrandActivity::IdleEnter => {
                self.start(strand)
            }
            StrandActivity::Spin => self.spin_resume(strand),
            StrandActivity::Poll => {
                // An interrupt was handled in the poll, and may have brought what is waited for.
                if self.is_satisfied(strand) {
                    self.reflect(strand, IdleOutcome::Polled { expired: false });
                    self.idle_check(strand);
                } else {
                    self.start(strand);
                }
            }
            StrandActivity::Halted => {}
        }
    }

    /// A strand enters the guest, with what is pending.
    pub(crate) fn enter_strand(&mut self, strand: u32) {
        let native = self.strands[strand as usize].vm == NONE;
        let handler = self.s.costs.guest_interrupt.time.0;
        let now = self.now;
        let st = &mut self.strands[strand as usize];
        let pending = std::mem::take(&mut st.pending);
        // What KVM set while it looked for somebody to boost ends as the spinner runs again.
        (st.in_spin_loop, st.dy_eligible) = (false, false);
        st.interrupt_left += handler * u64::from(pending);
        if st.doing == StrandActivity::Halted {
            // Awake, and about to look whether there is something to do.
            (st.doing, st.left) = (StrandActivity::IdleEnter, 0);
            let residency = Nanos((now - st.idle_from) / 1_000);
            if !native {
                self.reflect(strand, IdleOutcome::Halted { residency });
            }
        }
        self.resume(strand);
    }

    /// Goes on with the program until something takes time.
    pub(crate) fn advance(&mut self, strand: u32) {
        loop {
            let st = &mut self.strands[strand as usize];
            st.free_steps += 1;
            if st.free_steps > FREE_STEPS {
                let who = self.name(strand);
                self.trouble = Some(SimError::NoProgress { who, at: self.now });
                return;
            }
            let place = st.place as usize;
            st.place += 1;
            let (program, vm) = (st.program as usize, st.vm as usize);
            let Some(code) = self.flats.get(program).map(|flat| &flat.code[place]) else {
                return self.idle(strand, StrandWait::Forever);
            };
            match *code {
                Code::Compute(span) => {
                    let st = &mut self.strands[strand as usize];
                    st.left = sample(&mut st.rng, span);
                    if st.left > 0 {
                        st.doing = StrandActivity::Compute;
                        return self.start(strand);
                    }
                }
                Code::Demand(demand) => {
                    let task = st.task;
                    self.strands[strand as usize].demand = demand;
                    self.count_load(task);
                }
                Code::Lock(lock) => {
                    let lock = self.vms[vm].first_lock + lock;
                    if !self.lock(strand, lock) {
                        return;
                    }
                }
                Code::Unlock(lock) => {
                    let lock = self.vms[vm].first_lock + lock;
                    self.unlock(strand, lock);
                }
                Code::Port { port, size, write, string } => {
                    return self.exit(strand, SimExitReason::Port { port, size, write, string });
                }
                Code::Mmio { address, size, write, value } => {
                    return self.exit(strand, SimExitReason::Mmio { address, size, write, value });
                }
                Code::Hypercall(number) => return self.exit(strand, SimExitReason::Hypercall(number)),
                Code::Cpuid => return self.exit(strand, SimExitReason::Cpuid),
                Code::Sleep(span) => {
                    let st = &mut self.strands[strand as usize];
                    st.timer = false;
                    let at = self.now.saturating_add(sample(&mut st.rng, span));
                    self.queue.plan(at, QueuedEvent::Timer { strand });
                    if vm == NONE as usize || !self.s.host.arch.timer_exits() {
                        return self.idle(strand, StrandWait::Timer);
                    }
                    // It goes idle when it is back.
                    let st = &mut self.strands[strand as usize];
                    (st.wait, st.doing, st.left) =
                        (StrandWait::Timer, StrandActivity::IdleEnter, self.s.costs.guest_idle.time.0);
                    return self.exit(strand, SimExitReason::Timer);
                }
                Code::Ipi(vcpu) => {
                    let to = self.vms[vm].first_strand + vcpu;
                    if !self.spares_ipi(to) {
                        return self.exit(strand, SimExitReason::Ipi { to });
                    }
                }
                Code::AwaitIpi => {
                    if self.wait(strand, StrandWait::Ipi) {
                        return;
                    }
                }
                Code::Submit(disk) => self.submit(self.vms[vm].first_disk + disk, strand),
                Code::Await(disk) => {
                    if self.wait(strand, StrandWait::Disk(disk)) {
                        return;
                    }
                }
                Code::Send(channel) => {
                    let message = self.new_message(channel, MessageSender::Strand(strand), MessageSender::Nobody);
                    if self.ring(strand, channel, message) {
                        return;
                    }
                }
                Code::Receive(channel) => {
                    self.drop_message(strand);
                    if let Some(message) = self.channels[channel as usize].arrived.pop_front() {
                        self.strands[strand as usize].message = message;
                    } else {
                        self.channels[channel as usize].waiting.push_back(strand);
                        return self.idle(strand, StrandWait::Message(channel));
                    }
                }
                Code::Reply => {
                    if let Some((channel, message)) = self.answer(strand)
                        && self.ring(strand, channel, message)
                    {
                        return;
                    }
                }
                Code::AwaitReply => {
                    if self.wait(strand, StrandWait::Reply) {
                        return;
                    }
                }
                Code::Count => self.count(strand),
                Code::Start => self.strands[strand as usize].latency_start = self.now,
                Code::Stop => self.record_latency(strand),
                Code::Begin { slot, times } => self.strands[strand as usize].counters[slot as usize] = times,
                Code::Again { slot, target } => {
                    let st = &mut self.strands[strand as usize];
                    st.counters[slot as usize] -= 1;
                    if st.counters[slot as usize] > 0 {
                        st.place = target;
                    }
                }
                Code::Jump(target) => self.strands[strand as usize].place = target,
                Code::Pick(ref targets) => {
                    let total = targets.last().map_or(1, |(weight, _)| *weight);
                    let st = &mut self.strands[strand as usize];
                    let drawn = st.rng.random_range(0..total);
                    let target = targets.iter().find(|(weight, _)| drawn < *weight).map(|(_, target)| *target);
                    st.place = target.unwrap_or(st.place);
                }
                Code::End => {
                    self.strands[strand as usize].place = place as u32;
                    if self.strands[strand as usize].held > 0 {
                        let who = self.name(strand);
                        self.trouble = Some(SimError::EndsWithLock { who, at: self.now });
                        return;
                    }
                    return self.idle(strand, StrandWait::Forever);
                }
            }
        }
    }

    /// Idles unless what is waited for is there already. Whether it idles.
    fn wait(&mut self, strand: u32, wait: StrandWait) -> bool {
        self.strands[strand as usize].wait = wait;
        if self.is_satisfied(strand) {
            self.take(strand);
            return false;
        }
        self.idle(strand, wait);
        true
    }

    /// Nothing to do until what is waited for comes.
    fn idle(&mut self, strand: u32, wait: StrandWait) {
        let time = self.s.costs.guest_idle.time.0;
        let st = &mut self.strands[strand as usize];
        (st.wait, st.doing, st.left) = (wait, StrandActivity::IdleEnter, time);
        if time > 0 { self.start(strand) } else { self.idle_check(strand) }
    }

    /// Whether what a strand waits for has come.
    pub(crate) fn is_satisfied(&self, strand: u32) -> bool {
        let st = &self.strands[strand as usize];
        match st.wait {
            StrandWait::Nothing => true,
            StrandWait::Timer => st.timer,
            StrandWait::Ipi => st.ipis > 0,
            StrandWait::Message(_) => st.message != NONE,
            StrandWait::Reply => st.replies > 0,
            StrandWait::Disk(disk) => st.disk_done[disk as usize] > 0,
            StrandWait::Forever => false,
        }
    }

    /// Takes what was waited for.
    fn take(&mut self, strand: u32) {
        let st = &mut self.strands[strand as usize];
        match std::mem::replace(&mut st.wait, StrandWait::Nothing) {
            StrandWait::Ipi => st.ipis -= 1,
            StrandWait::Reply => st.replies -= 1,
            StrandWait::Disk(disk) => st.disk_done[disk as usize] -= 1,
            StrandWait::Nothing | StrandWait::Timer | StrandWait::Message(_) | StrandWait::Forever => {}
        }
    }

    /// Whether a wake-up of this vCPU needs no interrupt, because it polls and says so: it is woken then. Linux's scheduler only sets
    /// TIF_NEED_RESCHED where TIF_POLLING_NRFLAG is set (kernel/sched/core.c, set_nr_if_polling), as poll_idle of
    /// drivers/cpuidle/poll_state.c does, whether or not the vCPU has a CPU just then.
    fn spares_ipi(&mut self, to: u32) -> bool {
        let st = &mut self.strands[to as usize];
        if st.doing != StrandActivity::Poll {
            return false;
        }
        st.ipis += 1;
        match st.rate > 0 && st.interrupt_left == 0 {
            true => self.interrupt(to, true),
            // It looks when it goes on.
            false => self.m.ipis_spared += 1,
        }
        true
    }

    /// In the idle loop: back to the program if what is waited for has come, else poll or halt.
    fn idle_check(&mut self, strand: u32) {
        if !self.is_satisfied(strand) {
            return self.idle_select(strand);
        }
        self.take(strand);
        let time = self.s.costs.guest_wake.time.0;
        let st = &mut self.strands[strand as usize];
        (st.doing, st.left) = (StrandActivity::Wake, time);
        self.start(strand);
    }

    fn idle_select(&mut self, strand: u32) {
        let spec = self.spec_of(strand);
        let choice = match spec {
            Some(vm) if vm.cpuidle_haltpoll => self.strands[strand as usize].guest_poll.select(),
            _ => IdleState::Halt,
        };
        let now = self.now;
        self.strands[strand as usize].idle_from = now;
        match choice {
            IdleState::Poll { limit } => {
                let end = self.policies_of(strand).guest_halt_poll.poll_end(limit);
                let st = &mut self.strands[strand as usize];
                (st.doing, st.left) = (StrandActivity::Poll, end.0 * 1_000);
                self.start(strand);
            }
            IdleState::Halt => self.halt(strand),
        }
    }

    /// Halts: alone, or as the last of its gang, by an exit; beside siblings that work, by a nap.
    fn halt(&mut self, strand: u32) {
        let task = self.strands[strand as usize].task;
        if self.is_gang(task) {
            let thread = self.thread_of(strand);
            if self.tasks[task as usize].vcore.cede(thread) == Cede::Naps {
                self.strands[strand as usize].doing = StrandActivity::Halted;
                self.set_status(strand, StrandStatus::Halted);
                self.count_load(task);
                return;
            }
        }
        self.exit(strand, SimExitReason::Halt);
    }

    /// Something has come for a strand: from another vCPU, which only writes memory if this one polls, or from the host.
    pub(crate) fn interrupt(&mut self, strand: u32, from_sibling: bool) {
        let st = &self.strands[strand as usize];
        let task = st.task;
        let native = st.vm == NONE;
        if st.rate > 0 {
            if native {
                return; // It looks when it goes idle.
            }
            let polls = st.doing == StrandActivity::Poll && st.interrupt_left == 0;
            if polls && from_sibling {
                self.m.ipis_spared += 1;
                self.stop(strand);
                self.reflect(strand, IdleOutcome::Polled { expired: false });
                self.idle_check(strand);
            } else if self.s.host.posted_interrupts {
                let handler = self.s.costs.guest_interrupt.time.0;
                self.stop(strand);
                self.strands[strand as usize].interrupt_left += handler;
                self.start(strand);
            } else {
                self.strands[strand as usize].pending += 1;
                let at = self.now.saturating_add(self.s.costs.ipi_latency.time.0);
                self.queue.plan(at, QueuedEvent::Kick { strand });
            }
            return;
        }
        let halted = st.doing == StrandActivity::Halted;
        self.strands[strand as usize].pending += 1;
        if !halted {
            return;
        }
        let cpu = self.tasks[task as usize].cpu;
        match self.tasks[task as usize].state {
            TaskState::Blocked => self.wake(task),
            _ if self.tasks[task as usize].in_guest => {
                let at = self.now.saturating_add(self.s.costs.ipi_latency.time.0);
                self.queue.plan(at, QueuedEvent::Nap { strand });
            }
            TaskState::Running if self.cpus[cpu as usize].polling => self.plan_cpu(cpu, 0),
            TaskState::Running | TaskState::Queued => {}
        }
    }

    /// A task's strands that can run enter the guest.
    pub(crate) fn enter(&mut self, task: u32) {
        let TaskKind::Strands { first, native, .. } = self.tasks[task as usize].kind else { return };
        self.tasks[task as usize].in_guest = true;
        self.tasks[task as usize].woken = false;
        if !self.is_gang(task) {
            if !native {
                self.observe_enter(first);
            }
            if self.s.host.threads > 1 {
                self.count_load(task);
            }
            if self.wants_to_run(first) {
                self.enter_strand(first);
            }
            return;
        }
        self.gang_in(task);
    }

    /// What is put before the next entry.
    pub(crate) fn plan_entry(&mut self, task: u32) {
        let TaskKind::Strands { first, count, native } = self.tasks[task as usize].kind else { return };
        let pending = (first..first + count).any(|strand| self.strands[strand as usize].pending > 0);
        let costs = &self.s.costs;
        let time = match (native, pending) {
            (true, _) => 0,
            (false, false) => costs.entry.time.0,
            (false, true) => costs.entry.time.0 + costs.inject.time.0,
        };
        let time = self.exit_costs.as_ref().map_or(time, |costs| part(time, costs.last(first)));
        self.tasks[task as usize].plan.extend([HostWork::Then(Effect::Enter), HostWork::Spend { time, user: false }]);
    }

    /// Moment of now for events.
    pub(crate) fn moment(&self) -> Moment {
        Moment::from_nanos(self.now / 1_000)
    }
}
