//! Time of a lane that is of no row, and rows of which only one end was seen. Together with the rows it is all the time from
//! the lane's first entry or exit to its last event: nothing is left over, and nothing counts twice.

use super::{BesideRows, Lane, LanePosition, LaneRunState, NO_CPU};
use crate::{CpuInterval, Event, ExitSink, LaneSpan, Ledger, LedgerLine, TimePart};
use exitscope_units::{Moment, Nanos, PcpuId};

impl Lane {
    /// Time while no exit is open, but for time that runs in the guest.
    #[inline(never)]
    pub(super) fn spend_outside(&mut self, spent: Nanos) {
        if self.first.is_none() {
            return;
        }
        self.give_guest();
        let in_run = !self.recorded.hardware && self.state == LanePosition::Kernel;
        let part = match self.run {
            _ if self.hidden => TimePart::Excluded,
            run if run.waits() => TimePart::Steal,
            // In an exit it may wait for its device model.
            LaneRunState::Offline if !self.recorded.exits => TimePart::Unknown,
            LaneRunState::Paused | LaneRunState::Offline => TimePart::Stopped,
            LaneRunState::Blocked => TimePart::Halted,
            // In KVM_RUN, where nothing says why.
            LaneRunState::Sleeping if in_run => TimePart::Halted,
            _ => TimePart::Unknown,
        };
        self.outside.add(part, spent);
        if self.run == LaneRunState::Sleeping {
            self.block.sleeps_for(part, spent);
        }
    }

    /// Time in the guest that no exit ends. Where exits are not recorded, nothing says how much of it was in the guest.
    pub(super) fn give_guest(&mut self) {
        let part = if self.recorded.exits { TimePart::Guest } else { TimePart::Unknown };
        self.outside.add(part, std::mem::take(&mut self.guest));
    }

    /// What was of no row leaves; guest time since then is the next row's.
    #[inline(always)]
    pub fn give_outside(&mut self, beside: &mut BesideRows) {
        if !self.outside.is_zero() {
            self.give_stretch(beside);
        }
    }

    #[inline(never)]
    fn give_stretch(&mut self, beside: &mut BesideRows) {
        let parts = std::mem::take(&mut self.outside);
        let after = parts.sum().plus(self.guest);
        let from = Moment::from_nanos(self.since.as_nanos().saturating_sub(after.0));
        self.has_given_stretch = true;
        self.count_given(parts.sum());
        beside.cpu_intervals.push(CpuInterval { who: self.who, from, parts });
    }

    /// The open exit, of which not both ends were seen: it counts, and its time is this part's.
    #[cold]
    pub fn give_cut(&mut self, part: TimePart, rows: &mut impl ExitSink, beside: &mut BesideRows) {
        let Some(exit) = self.open.as_ref() else { return };
        self.outside.add(part, exit.parts.sum());
        self.give_untimed(rows, beside);
    }

    /// The open exit leaves as a row without times, and with it what is outside.
    fn give_untimed(&mut self, rows: &mut impl ExitSink, beside: &mut BesideRows) {
        let Some(mut exit) = self.open.take() else { return };
        exit.timed = false;
        exit.complete(self.words);
        self.gave(exit.guest);
        rows.take(&exit);
        self.give_outside(beside);
    }

    /// An exit comes while another is open: of that one, no entry was seen.
    #[cold]
    pub(super) fn exit_again(
        &mut self,
        event: &Event,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) {
        let Some(exit) = self.open.as_ref() else { return };
        let silent = exit.events == 1 && exit.cpu == event.cpu && !exit.is_halt;
        let part = match () {
            _ if self.spoiled || self.in_doubt.is_some() => TimePart::Excluded,
            // It was handled at once, and the guest went on without an event of that; or no entry is recorded at all.
            _ if silent && self.entered.is_some() && !self.recorded.every_entry && exit.code.may_reenter_unsaid() => {
                TimePart::Guest
            }
            _ => TimePart::Unknown,
        };
        ledger.count(LedgerLine::ExitWithoutEntry);
        self.give_cut(part, rows, beside);
    }

    /// An entry comes while no exit is open.
    #[cold]
    pub(super) fn enter_again(&mut self) {
        let part = if self.in_doubt.is_some() { TimePart::Excluded } else { TimePart::Unknown };
        self.outside.add(part, std::mem::take(&mut self.guest));
    }

    /// Whether it is on another CPU than the scheduler had put it on.
    #[inline(always)]
    pub(super) fn moved_unseen(&self, event: &Event) -> bool {
        self.runs_on != event.cpu && self.runs_on != NO_CPU && event.cpu != NO_CPU
    }

    /// Whether it is on another CPU than it was heard of last, whose events since then were lost: how it came there, and what it
    /// did there first, is hidden.
    #[inline(always)]
    pub(super) fn came_from_a_loss(&self, event: &Event) -> bool {
        self.in_doubt.is_some_and(|lost| self.cpu != event.cpu && (lost == event.cpu || lost == NO_CPU))
    }

    /// The entry of the open exit, or the exit that ends time in the guest, comes too late to be in order, or on a CPU that the
    /// vCPU had not moved to.
    #[cold]
    pub(super) fn spoil(&mut self, event: &Event, in_time: bool, ledger: &mut Ledger) {
        ledger.count_moment(if in_time { LedgerLine::ImpossibleExit } else { LedgerLine::ExitOutOfOrder }, event.at);
        self.runs_on = NO_CPU;
        if self.open.is_some() {
            self.spoiled = true;
        } else {
            let guest = std::mem::take(&mut self.guest);
            self.outside.add(if in_time { TimePart::Excluded } else { TimePart::Guest }, guest);
        }
    }

    /// Events of this CPU were lost, or of all: what the lane did since it was last heard of is hidden until it is heard of
    /// again. If it was elsewhere it may have come there meanwhile.
    pub fn lose(&mut self, cpu: PcpuId, rows: &mut impl ExitSink, beside: &mut BesideRows, ledger: &mut Ledger) {
        self.poll = None;
        let elsewhere = cpu != NO_CPU && self.cpu != cpu && self.cpu != NO_CPU;
        let waits = matches!(self.run, LaneRunState::Blocked | LaneRunState::Offline | LaneRunState::Paused)
            || self.open.is_none() && self.run.waits();
        if elsewhere && !waits {
            self.in_doubt = Some(if self.in_doubt.is_none_or(|lost| lost == cpu) { cpu } else { NO_CPU });
            return;
        }
        if self.open.is_some() {
            ledger.count(LedgerLine::SpansLoss);
            self.give_cut(TimePart::Excluded, rows, beside);
        }
        self.give_guest();
        (self.state, self.hidden, self.runs_on) = (LanePosition::Unknown, true, NO_CPU);
    }

    /// The recording ends: an open exit counts, and what is known of its time is of no row.
    pub fn finish(
        &mut self,
        rows: &mut impl ExitSink,
        beside: &mut BesideRows,
        ledger: &mut Ledger,
    ) -> Option<LaneSpan> {
        self.halt.finish(&mut beside.halts);
        self.settle_closed(rows);
        if let Some(held) = self.held.take() {
            self.pass(held, rows);
        }
        if self.open.is_some() {
            ledger.count(LedgerLine::UnfinishedExit);
            self.settle_halt();
            self.stopped_unless_it_ran();
        }
        if self.spoiled {
            self.give_cut(TimePart::Excluded, rows, beside);
        } else if let Some(exit) = &self.open {
            let (all, kernel) = (exit.parts.sum(), exit.parts.get(TimePart::Kernel));
            match self.vm_ended.and_then(|at| self.since.since(at)) {
                // It is no vCPU's time any more.
                Some(after) => {
                    let after = after.min(all);
                    self.outside.merge(&exit.parts.in_proportion(Nanos(all.0 - after.0)));
                    self.since = Moment::from_nanos(self.since.as_nanos() - after.0);
                    ledger.count(LedgerLine::VmEnded);
                }
                None => {
                    self.outside.merge(&exit.parts);
                    // Its VM may have been paused, and its thread asleep ever since.
                    if !self.recorded.switches {
                        self.outside.shift(TimePart::Kernel, TimePart::Unknown, kernel);
                    }
                }
            }
            self.give_untimed(rows, beside);
        }
        self.give_guest();
        self.give_outside(beside);
        let first = self.first?;
        #[cfg(debug_assertions)]
        assert_eq!(self.since.since(first), Some(Nanos(self.given)), "{:?}: time is lost or made", self.who);
        Some(LaneSpan { who: self.who, first, last: self.since })
    }
}
