//! powerpc: what the scheduler says of the threads that work for vCPUs.
//!
//! ```text
//! kvm_guest_exit of vCPU 3, by thread 20 ─► 20, which runs the core, works for vCPU 3 ─┐ sched_switch of 20: vCPU 3 has no CPU
//! kvm_hcall_enter of vCPU 3, by thread 23 ─► its own thread does, until the next entry ─┘ …, of 23
//! ```
//!
//! Whoever recorded the last event about a vCPU in an exit works for it (`kvmppc_run_vcpu` of `arch/powerpc/kvm/book3s_hv.c`): the
//! runner of its virtual core, or its own thread, which answers what the runner does not, and is woken for that. A thread that answers
//! something of its own vCPU's runs the core no more. In the guest the scheduler's events say nothing of a vCPU: it runs on a thread of a
//! core that is none of Linux's CPUs, as its own task sleeps. Nor do they while it has ceded.

use super::Assembler;
use crate::lane::{Lane, LanePosition, LaneRunState};
use crate::{Event, EventKind, Ledger, LedgerLine, VcpuIdentity};
use exitscope_units::{Moment, Tid};

/// vCPUs for which a thread works at most: eight of a core, and as many that take turns on it.
const MOST_SERVED: usize = 64;

impl Lane {
    /// Whether its thread's having a CPU or not is the vCPU's.
    fn is_served(&self) -> bool {
        self.open.as_ref().is_some_and(|exit| !exit.is_halt || self.state == LanePosition::UserSpace)
    }
}

impl Assembler {
    /// The event's thread works for this lane, and runs. What other virtual cores had of the CPU is steal where no scheduler's events
    /// say more.
    pub(super) fn serves(&mut self, event: &Event, number: usize) {
        let lane = &mut self.lanes[number];
        if !self.recorded.switches {
            let VcpuIdentity { vm, vcpu, .. } = lane.who;
            lane.let_others(event, self.turns.of_others(event.cpu, vm, vcpu, event.at));
        } else if lane.run != LaneRunState::Running && lane.server == event.tid {
            self.runs_for(event.at, number);
        } else if lane.run != LaneRunState::Running {
            // Another thread does what is to be done for it; what its own does is of no matter any more.
            lane.account(event.at);
            lane.sleeps(false);
            lane.run = LaneRunState::Running;
        }
        if self.lanes[number].server != event.tid {
            self.hand_to(event.tid, number);
        }
        let runs_core = matches!(event.kind, EventKind::Exit { .. } | EventKind::Enter);
        let served =
            if runs_core { None } else { self.lanes_served.get_mut(&event.tid).filter(|lanes| lanes.len() > 1) };
        for other in served.into_iter().flat_map(|lanes| lanes.extract_if(.., |lane| *lane as usize != number)) {
            let lane = &mut self.lanes[other as usize];
            lane.account(event.at);
            (lane.server, lane.run) = (Tid(0), LaneRunState::Running);
        }
    }

    fn hand_to(&mut self, tid: Tid, number: usize) {
        let before = std::mem::replace(&mut self.lanes[number].server, tid);
        if let Some(lanes) = self.lanes_served.get_mut(&before) {
            lanes.retain(|lane| *lane as usize != number);
            if lanes.is_empty() {
                self.lanes_served.remove(&before);
            }
        }
        let lanes = self.lanes_served.entry(tid).or_default();
        match lanes.len() < MOST_SERVED {
            true => lanes.push(number as u32),
            false => self.lanes[number].server = Tid(0),
        }
    }

    /// The lane's thread has a CPU.
    fn runs_for(&mut self, at: Moment, number: usize) {
        let lane = &mut self.lanes[number];
        lane.account(at);
        if lane.run == LaneRunState::Sleeping {
            self.wakes_unseen(number);
        }
        self.lanes[number].run = LaneRunState::Running;
    }

    pub(super) fn switches_runner(&mut self, event: &Event, prev: Tid, sleeps: bool, next: Tid, ledger: &mut Ledger) {
        let mut used = false;
        for at in 0..self.lanes_served.get(&prev).map_or(0, Vec::len) {
            let lane = &mut self.lanes[self.lanes_served[&prev][at] as usize];
            if lane.is_served() {
                lane.account(event.at);
                if sleeps {
                    lane.sleeps(true);
                    lane.falls_asleep();
                }
                lane.run = if sleeps { LaneRunState::Sleeping } else { LaneRunState::Preempted };
                used |= !used && lane.take_scheduler();
            }
        }
        for at in 0..self.lanes_served.get(&next).map_or(0, Vec::len) {
            let number = self.lanes_served[&next][at] as usize;
            if self.lanes[number].is_served() {
                self.lanes[number].account_up_to_scheduler(event.at);
                self.runs_for(event.at, number);
                used |= !used && self.lanes[number].take_scheduler();
            }
        }
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }

    pub(super) fn wakes_runner(&mut self, event: &Event, tid: Tid, ledger: &mut Ledger) {
        // Its own thread is woken to answer what it left for, or to run the core.
        if let Some(&own) = self.lane_of_thread.get(&tid)
            && self.lanes[own as usize].server != tid
            && self.lanes[own as usize].is_served()
        {
            self.lanes[own as usize].account(event.at);
            self.lanes[own as usize].run = LaneRunState::Sleeping;
            self.hand_to(tid, own as usize);
        }
        let mut used = false;
        for at in 0..self.lanes_served.get(&tid).map_or(0, Vec::len) {
            let lane = &mut self.lanes[self.lanes_served[&tid][at] as usize];
            if lane.is_served() {
                lane.account_up_to_scheduler(event.at);
                if lane.run == LaneRunState::Sleeping {
                    lane.sleeps(false);
                    lane.run = LaneRunState::Runnable;
                    self.kinds.sleeps += 1;
                }
                used |= !used && lane.take_scheduler();
            }
        }
        if !used {
            ledger.count(LedgerLine::Scheduler);
        }
    }
}
