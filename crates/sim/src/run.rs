//! The run: takes what comes next, and shares the CPUs out.
//!
//! ```text
//!            wake                dispatch                settle: nothing to do
//!  Blocked ───────► Queued ◄──────────────► Running ────────────────────────► Blocked
//!                      ▲    slice, preemption  │ plan: steps outside the guest
//!                      └───────────────────────┘ guest: until a strand exits
//! ```

use crate::entities::{
    Effect, HostWork, NONE, QueuedEvent, StrandActivity, StrandStatus, StrandWait, TaskKind, TaskState,
};
use crate::exits::After;
use crate::world::{NEVER, SimWorld};
use crate::{Observer, SimError};
use exitscope_policy::host_halt_poll::PollPermission;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_units::Nanos;
use rand::Rng;
use std::time::Instant;

/// So many things may happen at one moment.
const EVENTS_OF_A_MOMENT: u32 = 5_000_000;
/// The load of a hardware thread that runs ordinary code on its core, and the speed of one without siblings.
pub(crate) const FULL_LOAD: u32 = 1_000;
/// A slice is longer or shorter by up to this part of its length. Linux ends a slice at a tick (entity_tick of kernel/sched/fair.c;
/// HRTICK of kernel/sched/features.h is off): with 1,000 ticks a second one of 3 ms lasts 3 to 4 ms, a seventh either way. Without
/// that, slices and the loops of programs fall into step, and stay there.
const SLICE_SPREAD: u64 = 7;
/// How many idle CPUs are looked at for one on an idle core.
const PLACES_TRIED: usize = 64;

/// After how many events it is looked whether to go on.
const DEADLINE_EVERY: u64 = 65_536;

/// The time that work takes at a speed in thousandths.
pub(crate) fn time_of(work: u64, rate: u32) -> u64 {
    if rate == FULL_LOAD {
        return work;
    }
    u64::try_from((u128::from(work) * 1_000).div_ceil(rate.into())).unwrap_or(u64::MAX)
}

/// The work that is done in a time at a speed in thousandths.
pub(crate) fn work_done(time: u64, rate: u32) -> u64 {
    if rate == FULL_LOAD { time } else { (u128::from(time) * u128::from(rate) / 1_000) as u64 }
}

impl<O: Observer> SimWorld<'_, O> {
    /// Runs to the end.
    pub(crate) fn run_to_end(mut self) -> Result<(SimOutcome, O), SimError> {
        let mut at_this_moment = 0u32;
        loop {
            let Some((at, what)) = self.queue.pop() else {
                self.check_for_deadlock()?;
                break;
            };
            if at > self.end {
                break;
            }
            self.m.events += 1;
            if at > self.now {
                (self.now, at_this_moment) = (at, 0);
            }
            at_this_moment += 1;
            if at_this_moment > EVENTS_OF_A_MOMENT {
                return Err(SimError::StandsStill { at: self.now });
            }
            if self.m.events > self.limits.events {
                return Err(SimError::TooManyEvents { events: self.limits.events, at: self.now });
            }
            if self.m.events.is_multiple_of(DEADLINE_EVERY) {
                let (events, at) = (self.m.events, self.now);
                if self.limits.deadline.is_some_and(|at| at <= Instant::now()) {
                    return Err(SimError::TooLong { events, at });
                }
                if (self.limits.stop)() {
                    return Err(SimError::Stopped { events, at });
                }
            }
            self.happen(what);
            if self.trouble.is_some() {
                break;
            }
        }
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        self.now = self.end;
        Ok(self.finish())
    }

    fn happen(&mut self, what: QueuedEvent) {
        match what {
            QueuedEvent::Strand { strand, generation } => {
                if self.strands[strand as usize].generation == generation {
                    self.step_over(strand);
                }
            }
            QueuedEvent::Cpu { cpu, generation } => {
                if self.cpus[cpu as usize].generation == generation {
                    self.go_on(cpu);
                }
            }
            QueuedEvent::Slice { cpu } => self.slice_over(cpu),
            QueuedEvent::Tick { cpu } => self.tick(cpu),
            QueuedEvent::Timer { strand } => {
                self.strands[strand as usize].timer = true;
                self.interrupt(strand, false);
            }
            QueuedEvent::Kick { strand } => self.kick(strand),
            QueuedEvent::Nap { strand } => self.nap_over(strand),
            QueuedEvent::Arrive { message } => self.arrive(message),
            QueuedEvent::Client { load, client } => self.client_sends(load, client),
            QueuedEvent::DiskDone { disk, strand } => self.disk_done(disk, strand),
            QueuedEvent::Measure => self.begin_measuring(),
        }
    }

    /// Whether a task may run on a CPU. One that is in a guest on another's core stays where it is.
    pub(crate) fn may_run(&self, task: u32, cpu: u32) -> bool {
        let t = &self.tasks[task as usize];
        if t.in_guest && t.cpu != cpu {
            return false;
        }
        self.allowed.get(self.tasks[task as usize].allowed as usize).is_none_or(|set| set.has(cpu))
    }

    /// A blocked task can run again.
    pub(crate) fn wake(&mut self, task: u32) {
        if self.tasks[task as usize].state != TaskState::Blocked {
            return;
        }
        self.observe_wakeup(task);
        self.tasks[task as usize].woken = true;
        let (cpu, is_idle) = self.place(task);
        let credit = self.s.host.scheduler.time_slice.0 / 2;
        let least = self.cpus[cpu as usize].least.saturating_sub(credit);
        self.tasks[task as usize].run = self.tasks[task as usize].run.max(least);
        if is_idle {
            self.idle.set(cpu, false);
            self.put_on(cpu, task);
            let latency = self.s.costs.wake_latency.time.0;
            self.plan_cpu(cpu, latency);
            return;
        }
        self.enqueue(cpu, task);
        let running = self.cpus[cpu as usize].current;
        if running != NONE && !self.cpus[cpu as usize].polling {
            self.charge(running);
            let margin = self.s.host.scheduler.wakeup_granularity.0;
            if self.tasks[running as usize].run > self.tasks[task as usize].run.saturating_add(margin) {
                self.preempt(cpu);
            }
        }
    }

    /// Where a woken task goes: its last CPU if that is idle, another idle one, or its last one's queue.
    fn place(&self, task: u32) -> (u32, bool) {
        let last = self.tasks[task as usize].cpu;
        let allowed = self.allowed.get(self.tasks[task as usize].allowed as usize);
        let may = allowed.is_none_or(|set| set.has(last));
        if may && self.idle.has(last) && self.core_is_idle(last) {
            return (last, true);
        }
        let mut first = None;
        for cpu in self.idle.round(allowed, last).take(PLACES_TRIED) {
            if self.core_is_idle(cpu) {
                return (cpu, true);
            }
            first = first.or(Some(cpu));
        }
        match (first, allowed) {
            (Some(_), _) if may && self.idle.has(last) => (last, true),
            (Some(cpu), _) => (cpu, true),
            (None, None) => (last, false),
            (None, Some(_)) if may => (last, false),
            (None, Some(set)) => (set.round(None, last).next().unwrap_or(last), false),
        }
    }

    fn core_is_idle(&self, cpu: u32) -> bool {
        self.s.host.threads == 1 || self.cores[self.cpus[cpu as usize].core as usize].load == 0
    }

    /// A task begins to have a CPU.
    fn put_on(&mut self, cpu: u32, task: u32) {
        self.cpus[cpu as usize].current = task;
        self.cpus[cpu as usize].resched = false;
        self.cpus[cpu as usize].least = self.cpus[cpu as usize].least.max(self.tasks[task as usize].run);
        let now = self.now;
        self.cpus[cpu as usize].busy_since = now;
        let t = &mut self.tasks[task as usize];
        (t.state, t.cpu, t.run_since) = (TaskState::Running, cpu, now);
        // A slice begins when the task switch is over, or a short one would leave no time for anything else.
        t.slice_start = now.saturating_add(self.s.costs.switch.time.0);
        self.set_load(cpu, FULL_LOAD);
        self.observe_switch(cpu, task);
        self.shrink_pause_windows(task);
        self.set_task_status(task, StrandStatus::Kernel);
        self.arm_tick(cpu);
        self.arm_slice(cpu);
    }

    /// vCPUs that were scheduled out may spin as long as at first.
    fn shrink_pause_windows(&mut self, task: u32) {
        if let TaskKind::Strands { first, count, native: false } = self.tasks[task as usize].kind {
            for strand in first..first + count {
                let change = self.strands[strand as usize].pause.shrink();
                self.observe_window(strand, change);
            }
        }
    }

    /// Takes the current task off its CPU.
    fn take_off(&mut self, cpu: u32, state: TaskState) -> u32 {
        let task = self.cpus[cpu as usize].current;
        self.charge(task);
        self.count_busy(cpu);
        self.cpus[cpu as usize].current = NONE;
        self.tasks[task as usize].state = state;
        self.holder_stops(task);
        self.tasks[task as usize].woken = false;
        let status = match state {
            TaskState::Queued => StrandStatus::Steal,
            _ if self.tasks[task as usize].plan.is_empty() => StrandStatus::Halted,
            _ => StrandStatus::Blocked,
        };
        self.set_task_status(task, status);
        task
    }

    /// Adds up the run time of a running task.
    pub(crate) fn charge(&mut self, task: u32) {
        let now = self.now;
        let t = &mut self.tasks[task as usize];
        if t.state == TaskState::Running {
            let time = now - t.run_since;
            t.run += if t.weight == 1024 { time } else { time.saturating_mul(1024) / u64::from(t.weight) };
            t.run_since = now;
        }
    }

    pub(crate) fn enqueue(&mut self, cpu: u32, task: u32) {
        self.count_queue(cpu);
        let run = self.tasks[task as usize].run;
        let queue = &self.cpus[cpu as usize].queue;
        let at = queue.partition_point(|other| self.tasks[*other as usize].run > run);
        self.cpus[cpu as usize].queue.insert(at, task);
        self.tasks[task as usize].state = TaskState::Queued;
        self.tasks[task as usize].cpu = cpu;
        self.loaded.set(cpu, true);
        self.waiting += 1;
        self.set_task_status(task, StrandStatus::Steal);
        self.arm_slice(cpu);
        // The host polls for a halted vCPU only while nothing else is runnable on its CPU (kvm_vcpu_can_poll asks
        // single_task_running() at every turn: include/linux/kvm_host.h; so does powerpc's kvmppc_vcore_blocked).
        if self.cpus[cpu as usize].polling {
            self.plan_cpu(cpu, 0);
        }
    }

    /// Takes a waiting task out of its queue.
    pub(crate) fn dequeue(&mut self, task: u32) {
        let cpu = self.tasks[task as usize].cpu;
        self.count_queue(cpu);
        let queue = &mut self.cpus[cpu as usize].queue;
        match queue.last() {
            Some(last) if *last == task => {
                queue.pop();
            }
            _ => queue.retain(|other| *other != task),
        }
        let empty = queue.is_empty();
        self.loaded.set(cpu, !empty);
        self.waiting -= 1;
        if self.cpus[cpu as usize].buddy == task {
            self.cpus[cpu as usize].buddy = NONE;
        }
    }

    /// Adds up how long a CPU had a task.
    pub(crate) fn count_busy(&mut self, cpu: u32) {
        let now = self.now;
        let cpu = &mut self.cpus[cpu as usize];
        if cpu.current != NONE {
            cpu.busy_time += now - cpu.busy_since;
            cpu.busy_since = now;
        }
    }

    /// Adds up how long the queue was, before it changes.
    pub(crate) fn count_queue(&mut self, cpu: u32) {
        let now = self.now;
        let cpu = &mut self.cpus[cpu as usize];
        let time = now - cpu.queue_since;
        cpu.queue_since = now;
        match cpu.queue.len() {
            0 => cpu.empty_time += time,
            length => cpu.queue_time += u128::from(time) * length as u128,
        }
    }

    /// Chooses the next task of a CPU that has none: the one a yield asked for, the one that ran least, one from
    /// another CPU's queue, or none.
    fn choose(&mut self, cpu: u32) -> Option<u32> {
        let state = &mut self.cpus[cpu as usize];
        let buddy = std::mem::replace(&mut state.buddy, NONE);
        let task = if buddy != NONE {
            buddy
        } else if let Some(task) = state.queue.last() {
            *task
        } else if self.s.host.scheduler.steal && self.waiting > 0 {
            let found = self.loaded.round(None, cpu).find_map(|other| {
                self.cpus[other as usize].queue.iter().rev().find(|task| self.may_run(**task, cpu)).copied()
            });
            found?
        } else {
            return None;
        };
        self.dequeue(task);
        Some(task)
    }

    /// Gives a CPU to the next task, if there is one; the CPU goes on with it at once.
    fn dispatch(&mut self, cpu: u32) {
        match self.choose(cpu) {
            Some(task) => {
                let (from, least) = (self.tasks[task as usize].cpu, self.cpus[cpu as usize].least);
                if from != cpu {
                    self.tasks[task as usize].run = self.tasks[task as usize].run.max(least);
                }
                self.put_on(cpu, task);
                let time = self.s.costs.switch.time.0;
                self.tasks[task as usize].plan.push(HostWork::Spend { time, user: false });
            }
            None => {
                self.set_load(cpu, 0);
                self.idle.set(cpu, true);
                self.observe_idle(cpu);
            }
        }
    }

    /// Plans that the CPU goes on with its task after `time`.
    pub(crate) fn plan_cpu(&mut self, cpu: u32, time: u64) {
        let at = self.now.saturating_add(time);
        let state = &mut self.cpus[cpu as usize];
        state.work_rate = 0;
        state.generation = state.generation.wrapping_add(1);
        self.queue.plan(at, QueuedEvent::Cpu { cpu, generation: state.generation });
    }

    /// Plans the same behind work outside guests that takes `work` at full speed: the other threads of the core slow it
    /// down as they do a guest's.
    pub(crate) fn plan_work(&mut self, cpu: u32, work: u64) {
        if self.s.host.threads == 1 {
            return self.plan_cpu(cpu, work);
        }
        let state = &self.cpus[cpu as usize];
        let rate = self.speed_beside(self.cores[state.core as usize].load.saturating_sub(state.load));
        self.plan_cpu(cpu, time_of(work, rate));
        let state = &mut self.cpus[cpu as usize];
        (state.work_rate, state.work_since, state.work_left) = (rate, self.now, work);
    }

    /// The CPU goes on with its task's plan, until something takes time or it has no task.
    pub(crate) fn go_on(&mut self, cpu: u32) {
        self.cpus[cpu as usize].work_rate = 0;
        if std::mem::take(&mut self.cpus[cpu as usize].polling) {
            let task = self.cpus[cpu as usize].current;
            self.set_task_status(task, StrandStatus::Kernel);
            if !self.can_run(task) {
                self.block(cpu);
            } else {
                self.m.host_polls_paid += 1;
            }
        }
        loop {
            let task = self.cpus[cpu as usize].current;
            if task == NONE || self.trouble.is_some() {
                return;
            }
            match self.tasks[task as usize].plan.pop() {
                Some(HostWork::Spend { time: 0, .. }) => {}
                Some(HostWork::Spend { time, user }) => {
                    self.set_task_status(task, if user { StrandStatus::UserSpace } else { StrandStatus::Kernel });
                    self.plan_work(cpu, time);
                    return;
                }
                Some(HostWork::Then(Effect::Enter)) => {
                    self.enter(task);
                    return;
                }
                Some(HostWork::Then(effect)) => match self.take_effect(cpu, effect) {
                    After::GoOn => {}
                    After::Block => self.block(cpu),
                    After::Stay => return,
                },
                None => {
                    if self.settle(cpu, task) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether any of a task's strands has something to do.
    pub(crate) fn can_run(&self, task: u32) -> bool {
        match &self.tasks[task as usize].kind {
            TaskKind::Device { jobs, .. } => !jobs.is_empty(),
            TaskKind::Strands { first, count, .. } => (*first..*first + *count).any(|strand| self.wants_to_run(strand)),
        }
    }

    pub(crate) fn wants_to_run(&self, strand: u32) -> bool {
        let strand = &self.strands[strand as usize];
        strand.doing != StrandActivity::Halted || strand.pending > 0
    }

    /// The task's plan is done: what now? True: the CPU waits for something that is planned.
    fn settle(&mut self, cpu: u32, task: u32) -> bool {
        let others = !self.cpus[cpu as usize].queue.is_empty() || self.cpus[cpu as usize].buddy != NONE;
        if !self.can_run(task) {
            return self.host_poll(cpu, task, others);
        }
        if others && std::mem::take(&mut self.cpus[cpu as usize].resched) {
            let task = self.take_off(cpu, TaskState::Queued);
            self.enqueue(cpu, task);
            self.dispatch(cpu);
            return false;
        }
        if let TaskKind::Device { jobs, .. } = &mut self.tasks[task as usize].kind {
            if let Some((time, effect)) = jobs.pop_front() {
                let plan = &mut self.tasks[task as usize].plan;
                plan.extend([HostWork::Then(effect), HostWork::Spend { time, user: true }]);
            }
            return false;
        }
        self.end_halt(task);
        self.plan_entry(task);
        false
    }

    /// Nothing to do: the host polls for a halted vCPU if its policy says so and nobody else wants the CPU; otherwise
    /// the task blocks.
    fn host_poll(&mut self, cpu: u32, task: u32, others: bool) -> bool {
        let now = self.now;
        if let TaskKind::Strands { first, native: false, .. } = self.tasks[task as usize].kind
            && self.tasks[task as usize].halted_at == NEVER
        {
            self.tasks[task as usize].halted_at = now;
            let params = self.policies_of(first).host_halt_poll;
            let leave = self.leave(first);
            let poll = self.tasks[task as usize].poll.start(&params, &leave).0 * 1_000;
            if poll > 0 && !others {
                self.m.host_polls += 1;
                self.cpus[cpu as usize].polling = true;
                // The thread that ran last polls, also for a virtual core, whose other threads sleep meanwhile.
                self.set_task_status(task, StrandStatus::Halted);
                self.set_status(first, StrandStatus::Polling);
                self.plan_cpu(cpu, poll);
                return true;
            }
        }
        self.block(cpu);
        false
    }

    fn leave(&self, strand: u32) -> PollPermission {
        // The guest's driver has switched host polling off, if it polls itself.
        let no_poll = self.spec_of(strand).is_some_and(|vm| vm.cpuidle_haltpoll);
        PollPermission { cap: None, no_poll }
    }

    /// A halted vCPU goes on: its poll length is adjusted.
    fn end_halt(&mut self, task: u32) {
        let since = std::mem::replace(&mut self.tasks[task as usize].halted_at, NEVER);
        if since == NEVER {
            return;
        }
        let TaskKind::Strands { first, .. } = self.tasks[task as usize].kind else { return };
        let params = self.policies_of(first).host_halt_poll;
        let leave = self.leave(first);
        let halt = Nanos((self.now - since) / 1_000);
        let change = self.tasks[task as usize].poll.finish(&params, &leave, halt, true);
        let waited = std::mem::take(&mut self.tasks[task as usize].slept);
        self.observe_halt_end(first, halt, waited, change);
    }

    /// The current task has nothing to do until something wakes it.
    fn block(&mut self, cpu: u32) {
        let task = self.take_off(cpu, TaskState::Blocked);
        self.tasks[task as usize].slept = true;
        self.dispatch(cpu);
    }

    /// Somebody else should have the CPU soon: at once if the task is in a guest, else when its plan is done.
    pub(crate) fn preempt(&mut self, cpu: u32) {
        self.cpus[cpu as usize].resched = true;
        let task = self.cpus[cpu as usize].current;
        if task != NONE && self.tasks[task as usize].in_guest {
            self.leave_guest(task);
        }
    }

    /// Plans the end of the running task's slice if somebody waits for it. One plan at a time: where it comes too
    /// early, because tasks changed meanwhile, it is made anew.
    fn arm_slice(&mut self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        if state.current == NONE || state.slice_armed || state.queue.is_empty() {
            return;
        }
        let at = self.slice_end(cpu).max(self.now);
        self.cpus[cpu as usize].slice_armed = true;
        self.queue.plan(at, QueuedEvent::Slice { cpu });
    }

    fn slice_end(&self, cpu: u32) -> u64 {
        let state = &self.cpus[cpu as usize];
        let since = self.tasks[state.current as usize].slice_start;
        since.saturating_add(self.s.host.scheduler.time_slice.0).saturating_add_signed(-state.early)
    }

    fn slice_over(&mut self, cpu: u32) {
        self.cpus[cpu as usize].slice_armed = false;
        if self.cpus[cpu as usize].queue.is_empty() || self.cpus[cpu as usize].current == NONE {
            return;
        }
        if self.slice_end(cpu) > self.now {
            return self.arm_slice(cpu);
        }
        let spread = (self.s.host.scheduler.time_slice.0 / SLICE_SPREAD) as i64;
        self.cpus[cpu as usize].early = self.phases.random_range(-spread..=spread);
        self.preempt(cpu);
    }

    /// Plans the next tick of a busy CPU. Ticks of different CPUs do not coincide.
    fn arm_tick(&mut self, cpu: u32) {
        let period = self.s.costs.tick_period.time.0;
        if period == 0 || std::mem::replace(&mut self.cpus[cpu as usize].ticks, true) {
            return;
        }
        let offset = period / self.cpus.len() as u64 * u64::from(cpu);
        let next = (self.now.saturating_sub(offset) / period + 1) * period + offset;
        self.queue.plan(next, QueuedEvent::Tick { cpu });
    }

    fn tick(&mut self, cpu: u32) {
        self.cpus[cpu as usize].ticks = false;
        let task = self.cpus[cpu as usize].current;
        if task == NONE {
            return;
        }
        self.arm_tick(cpu);
        if self.s.host.scheduler.balance {
            self.balance(cpu);
        }
        if self.tasks[task as usize].in_guest {
            self.tick_in_guest(task);
        }
    }

    /// Gives a waiting task to an idle CPU where it may run; or takes one over from a CPU where at least two more wait
    /// than here: the one that is to wait longest there.
    fn balance(&mut self, cpu: u32) {
        if self.give_to_idle(cpu) {
            return;
        }
        let waiting = |cpu: u32| self.cpus[cpu as usize].queue.len();
        let own = waiting(cpu);
        if (self.waiting as usize) < own + 2 {
            return;
        }
        let others = self.loaded.round(None, cpu).filter(|other| *other != cpu).take(PLACES_TRIED);
        let Some(busiest) = others.max_by_key(|other| waiting(*other)).filter(|other| waiting(*other) >= own + 2)
        else {
            return;
        };
        let queue = &self.cpus[busiest as usize].queue;
        let Some(task) = queue.iter().copied().find(|task| self.may_run(*task, cpu)) else { return };
        self.dequeue(task);
        // It keeps its lead or lag.
        let lag = self.tasks[task as usize].run.saturating_sub(self.cpus[busiest as usize].least);
        self.tasks[task as usize].run = self.cpus[cpu as usize].least.saturating_add(lag);
        self.enqueue(cpu, task);
    }

    /// Whether a task that waits here went to an idle CPU.
    fn give_to_idle(&mut self, cpu: u32) -> bool {
        let to_idle = |task: &u32| {
            if self.tasks[*task as usize].in_guest {
                return None;
            }
            let allowed = self.allowed.get(self.tasks[*task as usize].allowed as usize);
            Some((*task, self.idle.round(allowed, cpu).next()?))
        };
        let Some((task, idle)) = self.cpus[cpu as usize].queue.iter().rev().find_map(to_idle) else { return false };
        self.dequeue(task);
        self.idle.set(idle, false);
        let least = self.cpus[idle as usize].least;
        self.tasks[task as usize].run = self.tasks[task as usize].run.max(least);
        self.put_on(idle, task);
        self.plan_cpu(idle, self.s.costs.wake_latency.time.0);
        true
    }

    /// A CPU's hardware threads put so much load on their core, in thousandths of one that runs ordinary code; the others
    /// of the core run slower or faster for it.
    pub(crate) fn set_load(&mut self, cpu: u32, load: u32) {
        let state = &mut self.cpus[cpu as usize];
        if state.load == load {
            return;
        }
        let core = state.core;
        let whole = &mut self.cores[core as usize].load;
        *whole = *whole - state.load + load;
        state.load = load;
        if self.s.host.threads > 1 {
            self.change_speed(core);
        }
    }

    /// The speed of a strand in its core, in thousandths: by the load of the others there, between two numbers of busy
    /// threads in proportion.
    pub(crate) fn speed(&self, cpu: u32, strand: u32) -> u32 {
        if self.s.host.threads == 1 {
            return FULL_LOAD;
        }
        let load = self.cores[self.cpus[cpu as usize].core as usize].load;
        self.speed_beside(load.saturating_sub(self.strands[strand as usize].demand))
    }

    /// The speed of a hardware thread beside such a load of the others in its core.
    fn speed_beside(&self, others: u32) -> u32 {
        let speeds = &self.s.host.smt_speed;
        let with = |others: u32| speeds.get(others as usize).or(speeds.last()).copied().unwrap_or(FULL_LOAD);
        let (below, above) = (with(others / FULL_LOAD), with(others / FULL_LOAD + 1));
        (below - (below - above) * (others % FULL_LOAD) / FULL_LOAD).max(1)
    }

    fn change_speed(&mut self, core: u32) {
        let first = self.cores[core as usize].first_cpu;
        for cpu in first..first + self.cpus_per_core {
            let task = self.cpus[cpu as usize].current;
            if task == NONE {
                continue;
            }
            if !self.tasks[task as usize].in_guest {
                self.change_work_speed(cpu);
                continue;
            }
            for task in self.aboard(cpu).collect::<Vec<u32>>() {
                let TaskKind::Strands { first, count, .. } = self.tasks[task as usize].kind else { continue };
                for strand in first..first + count {
                    if self.strands[strand as usize].rate > 0 {
                        self.stop(strand);
                        self.start(strand);
                    }
                }
            }
        }
    }

    /// The CPU's work outside guests goes on faster or slower.
    fn change_work_speed(&mut self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        if state.work_rate > 0 {
            let done = work_done(self.now - state.work_since, state.work_rate);
            self.plan_work(cpu, state.work_left.saturating_sub(done));
        }
    }

    /// Nothing will ever happen again: that is an end if nobody waits for anything.
    fn check_for_deadlock(&self) -> Result<(), SimError> {
        let waits =
            |strand: &crate::entities::Strand| !matches!(strand.wait, StrandWait::Nothing | StrandWait::Forever);
        let waiting: Vec<String> = (0..self.strands.len() as u32)
            .filter(|strand| waits(&self.strands[*strand as usize]))
            .map(|strand| self.what_it_waits_for(strand))
            .take(8)
            .collect();
        if waiting.is_empty() { Ok(()) } else { Err(SimError::Deadlock { at: self.now, who: waiting.join("; ") }) }
    }
}
