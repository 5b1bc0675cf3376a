//! What a lane makes of events that mark the steps of its open exit's way.

use super::{BesideRows, Lane, LanePosition, LaneRunState, RecordedTracepoints};
use crate::codes::{KVM_EXIT_UNKNOWN, UserStay};
use crate::{Exit, ExitCode, ExitPhase, Handler, PhaseBoundary, SubjectWord, TimePart};
use exitscope_units::{Moment, Nanos};

impl Lane {
    /// The open exit goes into its next step: what it cost since the last one began was that one's.
    #[inline(always)]
    pub(super) fn go(&mut self, next: ExitPhase) {
        if let Some(exit) = &mut self.open {
            let cost = exit.cost();
            exit.phases.spend(self.step, Nanos(cost.0.saturating_sub(self.cost_before.0)));
            self.cost_before = cost;
        }
        self.step = next;
    }

    /// KVM begins to leave for user space.
    #[inline(never)]
    pub(super) fn leave(&mut self, at: Moment) {
        self.account(at);
        if let (Some(exit), LanePosition::Kernel) = (&mut self.open, self.state) {
            exit.phases.mark(PhaseBoundary::FpuPut);
            self.go(ExitPhase::ToUserSpace);
        }
    }

    /// The same, and whether anything will say when user space has it, and why, is not known yet: until then it has it.
    #[inline(never)]
    pub(super) fn leave_unsaid(&mut self, at: Moment) {
        self.leave(at);
        if let (Some(exit), LanePosition::Kernel) = (&mut self.open, self.state) {
            exit.handler = Handler::Userspace(KVM_EXIT_UNKNOWN);
            self.state = LanePosition::UserSpace;
            self.user_parts = (TimePart::User, TimePart::User);
            self.step = ExitPhase::UserSpace;
        }
    }

    /// User space is told now: what passed since KVM began to leave was the way there.
    #[inline(always)]
    pub(super) fn hand_over(&mut self) {
        if let (Some(exit), LanePosition::UserSpace) = (&self.open, self.state)
            && !exit.phases.has(PhaseBoundary::HandedOver)
        {
            self.state = LanePosition::Kernel;
            self.step = ExitPhase::ToUserSpace;
        }
    }

    /// The open exit's reason is told again.
    #[inline(never)]
    pub(super) fn refine(&mut self, at: Moment, code: ExitCode, beside: &mut BesideRows) {
        self.account(at);
        self.reach();
        if let Some(exit) = &mut self.open {
            exit.code = code;
        }
        if code.is_halt() {
            self.halts_after_all(at, beside);
        }
    }

    /// User space makes a system call.
    #[inline(never)]
    pub(super) fn call(&mut self, at: Moment, registers: bool) {
        self.account(at);
        if let (Some(exit), LanePosition::UserSpace) = (&mut self.open, self.state) {
            exit.phases.calls = exit.phases.calls.saturating_add(1);
            exit.phases.register_calls = exit.phases.register_calls.saturating_add(u16::from(registers));
            self.call = Some((at, registers));
        }
    }

    /// A system call returns: one that user space made for the open exit, or `KVM_RUN`.
    #[inline(never)]
    pub(super) fn call_end(&mut self, at: Moment) {
        self.account(at);
        if self.state == LanePosition::UserSpace {
            self.go(ExitPhase::UserSpace);
        }
        let (Some(exit), LanePosition::UserSpace) = (&mut self.open, self.state) else { return };
        match self.call.take() {
            Some((since, registers)) => {
                let took = at.since(since).unwrap_or_default();
                exit.phases.in_calls = exit.phases.in_calls.plus(took);
                if registers {
                    exit.phases.in_register_calls = exit.phases.in_register_calls.plus(took);
                }
            }
            None => {
                // What passed since KVM said that it leaves was the way there.
                let Some(before) = self.returning.take() else { return };
                let phases = &mut exit.phases;
                phases.mark(PhaseBoundary::FpuPut);
                phases.mark(PhaseBoundary::KvmRunReturned);
                phases.move_time(
                    ExitPhase::UserSpace,
                    ExitPhase::ToUserSpace,
                    Nanos(phases.time(ExitPhase::UserSpace).0.saturating_sub(before.0)),
                );
            }
        }
    }

    /// The open exit is over, and nothing said when KVM_RUN was entered again: what looks like the VMM's stop of a vCPU may be its sleep
    /// in KVM_RUN, unless `kvm_vcpu_wakeup` would tell of that.
    pub(super) fn stopped_unless_it_ran(&mut self) {
        if let (Some(exit), false, false) = (&mut self.open, self.recorded.runs, self.recorded.halts) {
            exit.parts.shift(TimePart::Stopped, TimePart::Unknown, Nanos(u64::MAX));
        }
    }

    /// An event of the open exit's handler.
    #[inline(always)]
    pub(super) fn reach(&mut self) {
        if let (Some(exit), ExitPhase::ToHandler) = (&mut self.open, self.step) {
            exit.phases.mark(PhaseBoundary::HandlerEvent);
            self.go(ExitPhase::Handling);
        }
    }

    /// The thread sleeps, or not any more.
    pub fn sleeps(&mut self, sleeps: bool) {
        match (self.step, sleeps) {
            (ExitPhase::UserSpace, true) => self.go(ExitPhase::UserSpaceAsleep),
            (ExitPhase::UserSpaceAsleep, false) => self.go(ExitPhase::UserSpace),
            _ => {}
        }
    }

    /// The first switch of the recording: from now on those say whether who halts in user space sleeps.
    pub fn is_switched(&mut self) {
        if self.user_parts == (TimePart::Undivided, TimePart::Halted) {
            self.user_parts.0 = TimePart::User;
        }
    }

    /// The scheduler wakes the thread, or gives it a CPU. If nothing said that it had none, it lost one since its last event.
    pub fn account_up_to_scheduler(&mut self, at: Moment) {
        let told = self.user_parts;
        if self.run == LaneRunState::Running {
            self.user_parts.0 = unless_told(told.1);
        }
        self.account(at);
        self.user_parts = told;
    }
}

/// What time in user space is after `KVM_RUN` ended so, while the thread runs and while it sleeps.
///
/// If the thread of a vCPU that was kicked sleeps, the VMM keeps it from running. After an access or a halt it sleeps for the
/// guest's sake. Where nothing says whether it sleeps, nothing says what the time is.
pub(super) fn user_parts(stay: UserStay, recorded: &RecordedTracepoints) -> (TimePart, TimePart) {
    let (asleep, is_told) = match stay {
        UserStay::Kicked => (TimePart::Stopped, recorded.switches),
        // Who halts sleeps, and each sleep would have been told.
        UserStay::Halted => (TimePart::Halted, recorded.switched),
        UserStay::Served => (TimePart::User, recorded.switches),
    };
    (if is_told { TimePart::User } else { unless_told(asleep) }, asleep)
}

/// What such time is as long as nothing says whether the thread sleeps.
fn unless_told(asleep: TimePart) -> TimePart {
    match asleep {
        TimePart::Stopped => TimePart::Unknown,
        TimePart::Halted => TimePart::Undivided,
        part => part,
    }
}

impl Exit {
    /// Adds what the exit said of itself to what events said of it.
    #[inline(always)]
    pub(super) fn complete(&mut self, words: SubjectWord) {
        if words != SubjectWord::NONE
            && let Some(said) = words.subject(self.code)
        {
            match &mut self.subject {
                Some(known) if known.kind == said.kind => {
                    if (known.key, known.write) == (said.key, said.write) {
                        known.form = said.form;
                    }
                }
                Some(known) if known.kind > said.kind => {}
                detail => *detail = Some(said),
            }
        }
        // Nothing says when the handler began.
        if !self.phases.has(PhaseBoundary::HandlerEvent) {
            self.phases.move_time(ExitPhase::ToHandler, ExitPhase::Handling, Nanos(u64::MAX));
        }
    }
}
