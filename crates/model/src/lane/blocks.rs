//! How the time of a halt divides, when KVM tells that it is over.
//!
//! ```text
//!  kvm_exit                      sched_switch   sched_wakeup   sched_switch  kvm_vcpu_wakeup      kvm_entry
//!     │ handling │ poll │ block       │             │               │               │                │
//!     │  kernel  │ polling │  kernel  │   halted    │     steal     │    kernel     │     kernel     │
//!                └───────────────────────── ns of kvm_vcpu_wakeup ──────────────────┘
//! ```
//!
//! `kvm_vcpu_halt` of `virt/kvm/kvm_main.c`: ns begins before the poll and ends when the thread runs again; `waited` says that it
//! blocked. A poll that failed is as long as `kvm_halt_poll_ns` says by its `old` (it is changed after each that failed); one
//! that succeeded is what of ns ran, up to the limit that is known in the same way. Where no event of the scheduler says when the thread slept, what ns leaves of the poll
//! is not divided; where `kvm_vcpu_wakeup` was not recorded, neither is what a halt's exit ran.

use super::{BesideRows, Lane, LanePosition, LaneRunState};
use crate::codes::KVM_EXIT_HLT;
use crate::halt::poll_limit;
use crate::{
    Event, EventKind, Exit, ExitParts, ExitPhase, ExitSink, Handler, Ledger, LedgerLine, Parts, PhaseBoundary,
    TimePart, VcpuWakeup,
};
use exitscope_units::{Moment, Nanos};

/// Sleeps of a stay in user space that are told apart.
const MOST_SLEEPS: usize = 1 << 10;

/// What is known of the halt in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockedHalt {
    /// From when on: the exit, or the end of the halt before.
    from: Moment,
    /// What of the part that holds time on a CPU is of before.
    before: Nanos,
    /// Time asleep that is in that part, because the exit is not known to halt; and of that, what ended without a wake-up.
    slept: Nanos,
    unwoken: Nanos,
    /// The sleep in hand: how long, and which part it is in.
    sleep: Nanos,
    sleep_part: Option<TimePart>,
}

impl BlockedHalt {
    pub fn at(from: Moment) -> BlockedHalt {
        BlockedHalt { from, ..BlockedHalt::default() }
    }

    pub fn sleeps_for(&mut self, part: TimePart, spent: Nanos) {
        self.sleep = self.sleep.plus(spent);
        self.sleep_part = Some(part);
    }
}

/// What the thread did while, as far as events say, user space has the vCPU.
#[derive(Clone, Copy, Debug, Default)]
struct StayTimes {
    slept: Nanos,
    /// Of that, what ended and nothing said that the thread was woken.
    unwoken: Nanos,
    waited: Nanos,
}

/// A stay in user space whose end may not be recorded.
#[derive(Clone, Debug, Default)]
pub struct UserSpaceStay {
    times: StayTimes,
    /// The same up to when the thread had a CPU again.
    until: Vec<(Moment, StayTimes)>,
}

impl UserSpaceStay {
    pub fn begin(&mut self) {
        self.times = StayTimes::default();
        self.until.clear();
    }

    /// The thread has a CPU again.
    pub fn runs(&mut self, at: Moment) {
        if self.until.len() >= MOST_SLEEPS {
            self.until.pop();
        }
        self.until.push((at, self.times));
    }

    /// What it did since a moment at which it ran.
    fn since(&self, moment: Moment) -> StayTimes {
        let before = self.until[..self.until.partition_point(|row| row.0 <= moment)].last();
        let before = before.map_or(StayTimes::default(), |row| row.1);
        let less = |all: Nanos, before: Nanos| Nanos(all.0.saturating_sub(before.0));
        StayTimes {
            slept: less(self.times.slept, before.slept),
            unwoken: less(self.times.unwoken, before.unwoken),
            waited: less(self.times.waited, before.waited),
        }
    }
}

impl Lane {
    /// Time in the open exit without a CPU.
    #[inline(never)]
    pub(super) fn spend_off_cpu(&mut self, spent: Nanos) {
        let (run, state) = (self.run, self.state);
        let Some(exit) = &mut self.open else { return };
        let part = match run {
            LaneRunState::Runnable | LaneRunState::Preempted => TimePart::Steal,
            _ if run.waits_for_device_model(exit.code) => {
                exit.handler = Handler::DeviceModel;
                TimePart::User
            }
            LaneRunState::Paused | LaneRunState::Offline => TimePart::Stopped,
            LaneRunState::Untold => TimePart::Unknown,
            LaneRunState::Blocked => TimePart::Halted,
            _ if state == LanePosition::UserSpace => self.user_parts.1,
            _ if exit.is_halt || exit.code.halts_if_it_sleeps() => TimePart::Halted,
            // Of powerpc's, the thread may wait for the runner.
            _ if exit.code.is_page_fault() && !self.recorded.by_runner => TimePart::Memory,
            _ => {
                self.block.slept = self.block.slept.plus(spent);
                TimePart::Kernel
            }
        };
        exit.parts.add(part, spent);
        if run == LaneRunState::Sleeping {
            self.block.sleeps_for(part, spent);
        }
        if state == LanePosition::UserSpace {
            let of = if run.waits() { &mut self.stay.times.waited } else { &mut self.stay.times.slept };
            *of = of.plus(spent);
        }
    }

    /// powerpc: other virtual cores have had so much of the event's CPU. What they had of it while the open exit was in the kernel
    /// there is steal.
    pub fn let_others(&mut self, event: &Event, others: u64) {
        let open = match &self.open {
            Some(exit) if !matches!(event.kind, EventKind::Exit { .. }) => exit,
            _ => return self.others = Some(others),
        };
        let is_there = open.cpu == event.cpu;
        let waits = is_there && self.state == LanePosition::Kernel && !open.is_halt;
        let before = self.others.take().filter(|_| is_there);
        self.others = before.map(|_| others);
        if let (true, Some(before)) = (waits, before)
            && self.account(event.at)
            && let Some(exit) = &mut self.open
        {
            exit.parts.shift(TimePart::Kernel, TimePart::Steal, Nanos(others.saturating_sub(before)));
        }
    }

    /// The thread goes to sleep.
    pub fn falls_asleep(&mut self) {
        (self.block.sleep, self.block.sleep_part) = (Nanos::ZERO, None);
    }

    /// The thread runs again and nothing said that it was woken: when it was is not known.
    pub fn wakes_unseen(&mut self) {
        let sleep = std::mem::take(&mut self.block.sleep);
        if self.state == LanePosition::UserSpace {
            self.stay.times.unwoken = self.stay.times.unwoken.plus(sleep);
        }
        match (self.block.sleep_part, &mut self.open) {
            (Some(TimePart::Halted), Some(exit)) => _ = exit.parts.shift(TimePart::Halted, TimePart::Undivided, sleep),
            (Some(TimePart::Halted), None) => _ = self.outside.shift(TimePart::Halted, TimePart::Undivided, sleep),
            (Some(TimePart::Kernel), _) => self.block.unwoken = self.block.unwoken.plus(sleep),
            _ => {}
        }
    }

    /// What is told now cannot be of the open exit: its entry, and the exit that this is of, are lost.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        at: Moment,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        ledger.count_moment(LedgerLine::ImpossibleExit, at);
        self.give_cut(TimePart::Excluded, rows, beside);
        (self.state, self.hidden) = (LanePosition::Unknown, true);
    }

    /// KVM tells that a halt is over.
    #[inline(never)]
    pub(super) fn end_block(
        &mut self,
        event: &Event,
        wakeup: &VcpuWakeup,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        let VcpuWakeup { length: ns, waited, .. } = *wakeup;
        self.account(event.at);
        self.go(self.step);
        if self.state == LanePosition::UserSpace {
            self.was_in_run(ns, ledger);
        }
        let change = self.halt.ended_change();
        let limit = poll_limit(wakeup, change, self.poll).map(|poll| Nanos(poll.into()));
        let is_told = self.poll.is_some();
        self.poll = change.map(|change| change.new).or(self.poll);
        let (recorded, block, at) = (self.recorded, self.block, self.since);
        let division = Division { ns, waited, limit, is_told, recorded, block, at };
        match &mut self.open {
            Some(exit)
                if exit.code.cannot_halt() && !exit.has_left_kernel() && !exit.phases.has(PhaseBoundary::Emulated) =>
            {
                self.give_up(event.at, rows, beside, ledger);
            }
            Some(exit) => {
                let kernel = exit.part(TimePart::Kernel);
                let asleep = if exit.code.is_page_fault() { TimePart::Memory } else { TimePart::Halted };
                division.divide(&mut exit.parts, TimePart::Kernel, asleep);
                exit.withdraw(Nanos(kernel.0.saturating_sub(exit.part(TimePart::Kernel).0)));
                self.cost_before = exit.cost();
                let before = exit.part(TimePart::Kernel);
                self.block = BlockedHalt { before, ..BlockedHalt::at(self.since) };
            }
            // Where kvm_exit fires, a halt has one: it is lost, and so may others be since the entry.
            None if self.recorded.hardware && self.state == LanePosition::Guest && !self.recorded.exits => {
                self.give_guest();
                self.state = LanePosition::Unknown;
            }
            None if self.recorded.hardware && self.state == LanePosition::Guest => {
                ledger.count_moment(LedgerLine::ImpossibleExit, event.at);
                let guest = std::mem::take(&mut self.guest);
                self.outside.add(TimePart::Excluded, guest);
                (self.state, self.hidden) = (LanePosition::Unknown, true);
            }
            None if self.hidden || self.recorded.hardware => {}
            None => {
                division.divide(&mut self.outside, TimePart::Unknown, TimePart::Halted);
                self.give_outside(beside);
                self.block = BlockedHalt::at(self.since);
            }
        }
    }

    /// A halt of `ns` is over, and all that was known is that user space had the vCPU: KVM_RUN was entered before it, and what the
    /// thread did since is the halt's.
    #[cold]
    fn was_in_run(&mut self, ns: Nanos, ledger: &mut Ledger) {
        let Some(exit) = &mut self.open else { return };
        let from = Moment::from_nanos(self.since.as_nanos().saturating_sub(ns.0));
        let StayTimes { slept, unwoken, waited } = self.stay.since(from);
        let (slept, unwoken) = (slept.min(ns), unwoken.min(ns));
        let (running, sleeping) = self.user_parts;
        let slept = exit.parts.shift(sleeping, TimePart::Halted, slept);
        if sleeping != TimePart::Halted {
            exit.parts.shift(TimePart::Halted, TimePart::Undivided, unwoken);
        }
        if sleeping == TimePart::User {
            exit.withdraw(slept);
        }
        self.cost_before = exit.cost();
        let ran = Nanos(ns.0.saturating_sub(slept.0).saturating_sub(waited.0));
        let ran = exit.parts.shift(running, TimePart::Kernel, ran);
        if running == TimePart::User {
            exit.phases.move_time(ExitPhase::UserSpace, ExitPhase::Reentry, ran);
        }
        let before = Nanos(exit.part(TimePart::Kernel).0 - ran.0);
        (self.state, self.step, self.call) = (LanePosition::Kernel, ExitPhase::Reentry, None);
        let sleep_part = Some(TimePart::Halted).filter(|_| slept > Nanos::ZERO);
        self.block = BlockedHalt { before, sleep_part, ..BlockedHalt::at(from) };
        if !self.recorded.hardware {
            self.ends_unseen(ledger);
            self.block.before = Nanos(self.outside.get(TimePart::Unknown).0 - ran.0);
        }
    }

    /// The open exit asks for a halt, which its reason does not say.
    #[inline(never)]
    pub(super) fn halts_after_all(&mut self, at: Moment, beside: &mut BesideRows) {
        self.account(at);
        self.go(self.step);
        if let Some(exit) = self.open.as_mut().filter(|exit| !exit.is_halt) {
            exit.is_halt = true;
            let slept = std::mem::take(&mut self.block.slept);
            let moved = exit.parts.shift(TimePart::Kernel, TimePart::Halted, slept);
            exit.withdraw(moved);
            self.cost_before = exit.cost();
            self.halt.exit(exit.at, true, &mut beside.halts);
        }
    }

    /// The open exit's reason is a halt's, and it is none: the WFx was a WFE, or the exit is another hypervisor's to handle.
    pub(super) fn does_not_halt(&mut self) {
        if let Some(exit) = self.open.as_mut().filter(|exit| exit.is_halt) {
            exit.is_halt = false;
            let asleep = exit.part(TimePart::Halted);
            exit.parts.shift(TimePart::Halted, TimePart::Kernel, asleep);
        }
    }

    /// The exit of a halt is over. What it ran is cost where KVM tells of halts; else part of it may have been a poll.
    #[inline(never)]
    pub(super) fn settle_halt(&mut self) {
        let Some(exit) = self.open.as_mut().filter(|exit| exit.is_halt) else { return };
        let recorded = self.recorded;
        let is_told = !recorded.by_runner && (recorded.halts || recorded.switches && recorded.no_polls);
        if !is_told && exit.handler != Handler::Userspace(KVM_EXIT_HLT) {
            let moved = exit.parts.shift(TimePart::Kernel, TimePart::Undivided, Nanos(u64::MAX));
            exit.withdraw(moved);
            self.cost_before = exit.cost();
        }
    }
}

/// How a halt divides.
struct Division {
    ns: Nanos,
    waited: bool,
    /// How long the poll may have been, if that is known; and whether any poll of the vCPU is.
    limit: Option<Nanos>,
    is_told: bool,
    recorded: super::RecordedTracepoints,
    block: BlockedHalt,
    at: Moment,
}

impl Division {
    /// Divides what was counted as time on a CPU, and as asleep.
    fn divide<const N: usize>(&self, parts: &mut Parts<N>, on_cpu: TimePart, asleep: TimePart) {
        let Division { ns, block, recorded, .. } = self;
        let ran = Nanos(parts.get(on_cpu).0.saturating_sub(block.before.0.saturating_add(block.slept.0)));
        let whole = self.at.since(block.from).unwrap_or_default();
        let handling = whole.0.saturating_sub(ns.0).min(ran.0);
        let within = Nanos(ran.0 - handling);
        let woken = Nanos(block.slept.0.saturating_sub(block.unwoken.0));
        parts.shift(on_cpu, asleep, woken);
        parts.shift(on_cpu, TimePart::Undivided, block.unwoken);
        let slept = block.sleep_part.is_some();
        let poll = match (self.waited, self.limit) {
            // A poll is no longer than its limit, whether or not it succeeds.
            (_, Some(poll)) => Some(Nanos(poll.0.min(within.0))),
            (false, None) => (!self.is_told).then_some(within),
            (true, None) => recorded.polls.then_some(Nanos::ZERO),
        };
        let polled = parts.shift(on_cpu, TimePart::Polling, poll.unwrap_or_default());
        let rest = Nanos(within.0 - polled.0);
        // Nothing says when it slept, or how much of what it ran was a poll.
        if self.waited && (poll.is_none() || !slept) {
            parts.shift(on_cpu, TimePart::Undivided, rest);
        }
    }
}

impl Exit {
    /// `time` is no cost after all: it is of no step of its way.
    pub(super) fn withdraw(&mut self, time: Nanos) {
        let mut left = time;
        for step in [
            ExitPhase::Handling,
            ExitPhase::ToHandler,
            ExitPhase::Reentry,
            ExitPhase::ToUserSpace,
            ExitPhase::UserSpace,
            ExitPhase::UserSpaceAsleep,
        ] {
            left.0 -= self.phases.deduct(step, left).0;
        }
    }
}

const _: () = assert!(size_of::<ExitParts>() == 72);
