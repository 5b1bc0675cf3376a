//! What the assembler makes of schedulers' events: which lanes run, wait for a CPU, or sleep.
//!
//! ```text
//! Switch, Wakeup (threads) ─┐
//! RunState (Xen) ───────────┴─► Lane.run ─► time accounted to the open row, RunQueue, to whom a yield gave the CPU
//! VcpuWake (Xen) ─► Lane.woken ─► who answered an access
//! ```

use super::{Assembler, CPU_CACHE, thread_key};
use crate::lane::{Lane, LanePosition, LaneRunState, NO_CPU, RecordedTracepoints};
use crate::{Event, EventKind, Ledger, LedgerLine, RunState};
use exitscope_units::{Moment, Tid, VmId};

impl Assembler {
    #[inline]
    fn of_thread(&mut self, tid: Tid) -> Option<usize> {
        self.of_key(thread_key(tid))
    }

    /// Of threads. Where those run other vCPUs than their own (powerpc), that says nothing of vCPUs.
    #[inline]
    pub(super) fn note_sched_event(&mut self, at: Moment) {
        if !self.lanes_by_vcpu {
            self.queue.note_sched_events(at);
        }
    }

    /// The lane's vCPU runs, waits or sleeps from now on.
    pub(super) fn set_run(&mut self, at: Moment, number: usize, run: LaneRunState) {
        let lane = &mut self.lanes[number];
        let (was, who, cpu, got) = (std::mem::replace(&mut lane.run, run), lane.who, lane.ran_on, lane.runs_on);
        if was == run {
            return;
        }
        if was.waits() {
            let got = (run == LaneRunState::Running).then_some(got);
            self.queue.leave(at, cpu, who.vm, number as u32, got);
        }
        if run.waits() {
            self.queue.join(at, cpu, who, number as u32, run == LaneRunState::Preempted);
        }
    }

    /// The vCPU leaves or enters its guest, so it runs.
    #[inline(always)]
    pub(super) fn runs(&mut self, at: Moment, number: usize) {
        let lane = &self.lanes[number];
        if lane.run != LaneRunState::Running || lane.yielding.is_some() {
            self.runs_after_all(at, number);
        }
    }

    /// It was not known to run, or yielded.
    #[cold]
    fn runs_after_all(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        match self.lanes_by_vcpu && !self.by_runner && lane.run != LaneRunState::Running {
            // Xen says when it is given a CPU; that is missing, and may be long ago.
            true => lane.knows_nothing_since(lane.since, at),
            false => _ = lane.account(at),
        }
        self.beside.yields.extend(lane.yielding.take());
        // Of powerpc's, what its thread does is another matter: `serves`.
        if !self.by_runner {
            self.comes_back(at, number);
        }
    }

    /// It has a CPU again: the scheduler says so, or an event of its own shows it.
    pub(super) fn comes_back(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        if lane.run == LaneRunState::Sleeping {
            self.wakes_unseen(number);
        }
        let lane = &mut self.lanes[number];
        if lane.state == LanePosition::UserSpace {
            lane.stay.runs(at);
        }
        self.set_run(at, number, LaneRunState::Running);
    }

    /// The lane's thread slept, and runs; nothing said when it was woken.
    pub(super) fn wakes_unseen(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        lane.sleeps(false);
        lane.wakes_unseen();
        self.kinds.sleeps += 1;
        self.kinds.unwoken_sleeps += 1;
    }

    pub(super) fn wakeup(&mut self, event: &Event, tid: Tid, ledger: &mut Ledger) {
        let at = event.at;
        self.note_sched_event(at);
        self.kinds.wakeups = true;
        if self.by_runner {
            return self.wakes_runner(event, tid, ledger);
        }
        let used = self.of_thread(tid).is_some_and(|number| {
            let lane = &mut self.lanes[number];
            lane.account_up_to_scheduler(at);
            if lane.run == LaneRunState::Sleeping {
                lane.sleeps(false);
                lane.halt.wake(at);
                self.kinds.sleeps += 1;
                self.set_run(at, number, LaneRunState::Runnable);
                self.queue.taken(self.lanes[number].who.vm, number as u32, Some(event.tid), false);
            }
            self.lanes[number].take_scheduler()
        });
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }

    pub(super) fn run_state(&mut self, event: &Event, from: RunState, to: RunState, ledger: &mut Ledger) {
        self.queue.note_sched_events(event.at);
        (self.kinds.switches, self.kinds.wakeups, self.kinds.handlers) = (true, true, true);
        // They say when vCPUs were blocked, and what they ran in a halt is cost: Xen does not poll.
        if !self.recorded.halts {
            self.now_recorded(RecordedTracepoints { switches: true, switched: true, halts: true, ..self.recorded });
        }
        if (from, to) == (RunState::Blocked, RunState::Runnable) {
            self.woken_from(event);
        }
        // A vCPU that makes no exits (of a PV domain) waits for CPUs like others.
        let number = if event.vm == VmId::IDLE_DOMAIN { None } else { self.lane(event) };
        let used = number.is_some_and(|number| {
            let run = LaneRunState::of(from, to);
            let lane = &mut self.lanes[number];
            if !lane.run.is(from) {
                let since = if lane.run == LaneRunState::Running { lane.ran_at } else { lane.since };
                lane.knows_nothing_since(since, event.at);
            }
            lane.run_state(event.at, run);
            if [from, to].contains(&RunState::Running) {
                lane.ran_at = event.at;
            }
            if from == RunState::Running || lane.ran_on == NO_CPU {
                lane.ran_on = event.cpu;
            }
            self.set_run(event.at, number, run);
            if run == LaneRunState::Running {
                self.displaces(event, number);
                self.lanes[number].switched_to = event.cpu;
                self.queue.note_running(event.at, event.cpu);
                self.given_to(event.cpu, Some(number));
                self.end_bare_yield(event.at, number);
            } else {
                self.leave_cpu(event.cpu, number, run);
            }
            self.lanes[number].take_scheduler()
        });
        if event.vm == VmId::IDLE_DOMAIN && to == RunState::Running {
            self.given_to(event.cpu, None);
        }
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }

    /// Xen: the lane is given the event's CPU. If another one seemed to have it, nothing said when that lost it.
    fn displaces(&mut self, event: &Event, number: usize) {
        if self.running_on.len() >= CPU_CACHE && !self.running_on.contains_key(&event.cpu) {
            return;
        }
        let before = self.running_on.insert(event.cpu, number as u32).map(|before| before as usize);
        if let Some(before) = before.filter(|before| *before != number) {
            let lane = &mut self.lanes[before];
            if lane.run == LaneRunState::Running && lane.switched_to == event.cpu {
                lane.knows_nothing_since(lane.ran_at, event.at);
                self.set_run(event.at, before, LaneRunState::Untold);
            }
        }
    }

    /// The event's vCPU is woken on this physical CPU, for whoever left its guest there last.
    fn woken_from(&mut self, event: &Event) {
        let last = self.last_on_cpu[event.cpu.0 as usize % CPU_CACHE];
        if let Some(lane) = self.lanes.get_mut(last.1 as usize).filter(|_| last.0 == event.cpu.0) {
            lane.woke_another(event);
        }
    }

    pub(super) fn vcpu_wake(&mut self, event: &Event, paused: bool, ledger: &mut Ledger) {
        self.woken_from(event);
        let used = self.find(event).is_some_and(|number| {
            // Without run states it may have waited long.
            if self.kinds.handlers {
                self.lanes[number].woken(event.at, paused);
            }
            self.lanes[number].take_scheduler()
        });
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }

    pub(super) fn switch(&mut self, event: &Event, ledger: &mut Ledger) {
        let EventKind::Switch { prev, sleeps, next, prev_name } = event.kind else { return };
        let at = event.at;
        self.note_sched_event(at);
        self.kinds.switches = true;
        if !self.recorded.switched {
            self.now_recorded(RecordedTracepoints { switches: true, switched: true, ..self.recorded });
            self.lanes.iter_mut().for_each(Lane::is_switched);
        }
        if self.by_runner {
            return self.switches_runner(event, prev, sleeps, next, ledger);
        }
        self.queue.switch(event, (prev, prev_name), next);
        let mut used = false;
        let (before, after) = (self.of_thread(prev), self.of_thread(next));
        if let Some(number) = before {
            let lane = &mut self.lanes[number];
            lane.account(at);
            if sleeps {
                lane.sleeps(true);
                lane.halt.sleep(at);
                lane.falls_asleep();
            }
            (lane.ran_on, lane.runs_on, lane.was_out) = (event.cpu, NO_CPU, true);
            used = lane.take_scheduler();
            self.set_run(at, number, if sleeps { LaneRunState::Sleeping } else { LaneRunState::Preempted });
            if !sleeps {
                let lane = &self.lanes[number];
                let (vm, yielded) = (lane.who.vm, lane.yielding.is_some());
                self.queue.taken(vm, number as u32, Some(next).filter(|next| *next != Tid(0)), yielded);
                self.yield_cpu_to(number, after);
            }
        }
        if let Some(number) = after {
            self.queue.note_running(at, event.cpu);
            let lane = &mut self.lanes[number];
            lane.account_up_to_scheduler(at);
            lane.runs_on = event.cpu;
            self.comes_back(at, number);
            used = used || self.lanes[number].take_scheduler();
        }
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }
}
