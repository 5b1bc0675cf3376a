//! What a lane makes of events that mark the steps of its open exit's way.

use super::{Lane, Run, SideRows, State};
use crate::codes::UserStay;
use crate::{Door, Exit, ExitCode, Mark, Step, SubjectWord, TimePart};
use exitscope_units::{Moment, Nanos};

/// `KVM_EXIT_UNKNOWN`.
const UNKNOWN: u32 = 0;

impl Lane {
    /// The open exit goes into its next step: what it cost since the last one began was that one's.
    #[inline(always)]
    pub(super) fn go(&mut self, next: Step) {
        if let Some(exit) = &mut self.open {
            let cost = exit.cost();
            exit.way.spend(self.step, Nanos(cost.0.saturating_sub(self.cost_before.0)));
            self.cost_before = cost;
        }
        self.step = next;
    }

    /// KVM begins to leave for user space.
    #[inline(never)]
    pub(super) fn leave(&mut self, at: Moment) {
        self.account(at);
        if let (Some(exit), State::Kernel) = (&mut self.open, self.state) {
            exit.way.mark(Mark::Left);
            self.go(Step::Leaving);
        }
    }

    /// The same, and whether anything will say when user space has it, and why, is not known yet: until then it has it.
    #[inline(never)]
    pub(super) fn leave_unsaid(&mut self, at: Moment) {
        self.leave(at);
        if let (Some(exit), State::Kernel) = (&mut self.open, self.state) {
            exit.handler = Door::Userspace(UNKNOWN);
            self.state = State::User;
            self.user_parts = (TimePart::User, TimePart::User);
            self.step = Step::User;
        }
    }

    /// User space is told now: what passed since KVM began to leave was the way there.
    #[inline(always)]
    pub(super) fn hand_over(&mut self) {
        if let (Some(exit), State::User) = (&self.open, self.state)
            && !exit.way.has(Mark::Handed)
        {
            self.state = State::Kernel;
            self.step = Step::Leaving;
        }
    }

    /// The open exit's reason is told again.
    #[inline(never)]
    pub(super) fn refine(&mut self, at: Moment, code: ExitCode, beside: &mut SideRows) {
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
        if let (Some(exit), State::User) = (&mut self.open, self.state) {
            exit.way.calls = exit.way.calls.saturating_add(1);
            exit.way.register_calls = exit.way.register_calls.saturating_add(u16::from(registers));
            self.call = Some((at, registers));
        }
    }

    /// A system call returns: one that user space made for the open exit, or `KVM_RUN`.
    #[inline(never)]
    pub(super) fn call_end(&mut self, at: Moment) {
        self.account(at);
        if self.state == State::User {
            self.go(Step::User);
        }
        let (Some(exit), State::User) = (&mut self.open, self.state) else { return };
        match self.call.take() {
            Some((since, registers)) => {
                let took = at.since(since).unwrap_or_default();
                exit.way.in_calls = exit.way.in_calls.plus(took);
                if registers {
                    exit.way.in_register_calls = exit.way.in_register_calls.plus(took);
                }
            }
            None => {
                // What passed since KVM said that it leaves was the way there.
                let Some(before) = self.returning.take() else { return };
                let way = &mut exit.way;
                way.mark(Mark::Left);
                way.mark(Mark::Returned);
                way.move_time(Step::User, Step::Leaving, Nanos(way.time(Step::User).0.saturating_sub(before.0)));
            }
        }
    }

    /// An event of the open exit's handler.
    #[inline(always)]
    pub(super) fn reach(&mut self) {
        if let (Some(exit), Step::Reaching) = (&mut self.open, self.step) {
            exit.way.mark(Mark::Reached);
            self.go(Step::Handling);
        }
    }

    /// The thread sleeps, or not any more.
    pub fn sleeps(&mut self, sleeps: bool) {
        match (self.step, sleeps) {
            (Step::User, true) => self.go(Step::Asleep),
            (Step::Asleep, false) => self.go(Step::User),
            _ => {}
        }
    }

    /// The scheduler wakes the thread, or gives it a CPU. If nothing said that it had none, it lost one since its last event.
    pub fn account_up_to_scheduler(&mut self, at: Moment) {
        let told = self.user_parts;
        if self.run == Run::Running {
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
pub(super) fn user_parts(stay: UserStay, switches: bool) -> (TimePart, TimePart) {
    let asleep = match stay {
        UserStay::Kicked => TimePart::Stopped,
        UserStay::Halted => TimePart::Halted,
        UserStay::Served => TimePart::User,
    };
    (if switches { TimePart::User } else { unless_told(asleep) }, asleep)
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
            match &mut self.detail {
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
        if !self.way.has(Mark::Reached) {
            self.way.move_time(Step::Reaching, Step::Handling, Nanos(u64::MAX));
        }
    }
}
