//! What takes all that a trace gives: exits, and what is found beside them.

use crate::replay::{SpinReplay, SpinSurvey};
use crate::{ExitSlots, Facts};
use exitscope_model::{BesideRow, EventKinds, Exit};
use exitscope_units::Moment;

/// What takes exit rows.
pub trait TraceSink {
    /// The trace's first event.
    fn begin(&mut self, _first: Moment) {}
    /// Which kinds of events there were so far.
    fn note_event_kinds(&mut self, _kinds: EventKinds) {}
    /// A row.
    fn absorb(&mut self, exit: &Exit);
    /// A row; where it was counted, by one that counts.
    #[inline]
    fn count(&mut self, exit: &Exit) -> Option<ExitSlots> {
        self.absorb(exit);
        None
    }
    /// A row that another sink of the same rows counted there.
    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, _counted: ExitSlots) {
        self.absorb(exit);
    }
    /// What is beside exits.
    fn beside_row(&mut self, row: BesideRow<'_>);
    /// Whether what is still to come would make no difference.
    fn is_full(&self) -> bool {
        false
    }
}

/// Takes nothing.
impl TraceSink for () {
    fn absorb(&mut self, _exit: &Exit) {}
    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

/// Both take everything.
impl<A: TraceSink, B: TraceSink> TraceSink for (A, B) {
    fn begin(&mut self, first: Moment) {
        self.0.begin(first);
        self.1.begin(first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.0.note_event_kinds(kinds);
        self.1.note_event_kinds(kinds);
    }

    fn beside_row(&mut self, row: BesideRow<'_>) {
        self.0.beside_row(row);
        self.1.beside_row(row);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        match self.0.count(exit) {
            Some(counted) => self.1.absorb_counted(exit, counted),
            None => self.1.absorb(exit),
        }
    }

    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, counted: ExitSlots) {
        self.0.absorb_counted(exit, counted);
        self.1.absorb_counted(exit, counted);
    }

    fn is_full(&self) -> bool {
        self.0.is_full() && self.1.is_full()
    }
}

impl TraceSink for Facts {
    fn begin(&mut self, first: Moment) {
        Facts::begin(self, first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.note_event_kinds(kinds);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        Facts::absorb(self, exit);
    }

    #[inline]
    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::CpuInterval(interval) => self.absorb_stretch(interval),
            BesideRow::Halt(halt) => _ = self.absorb_halt(halt),
            BesideRow::Yield(of) => _ = self.absorb_yield(of),
            BesideRow::Preemption(of) => _ = self.absorb_preemption(of),
            // How long they waited is steal of an exit or of an interval.
            BesideRow::WakeUp(_) => {}
            BesideRow::StealPiece(piece) => self.absorb_steal_piece(piece),
            BesideRow::PleUpdate(of) => self.absorb_ple_update(of),
            BesideRow::KvmActivity(of) => self.absorb_kvm_activity(of),
            BesideRow::ApicvChange(of) => self.absorb_apicv_change(of),
            BesideRow::Idle(of) => self.absorb_idle(of),
            BesideRow::QueueStay(stay) => self.absorb_queue_stay(stay),
            BesideRow::SchedulerEvent(event) => self.absorb_sched_event(event),
            BesideRow::RunnerEvent(event) => self.absorb_runner_event(event),
        }
    }
}

impl TraceSink for SpinSurvey {
    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::Yield(of) => SpinSurvey::absorb(self, of),
            BesideRow::Preemption(of) => self.absorb_preemption(of),
            _ => {}
        }
    }
}

impl TraceSink for SpinReplay {
    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        if let BesideRow::Yield(of) = row {
            SpinReplay::absorb(self, of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FactsOptions, Selection};
    use exitscope_model::{KvmActivity, KvmActivityEvent, VcpuIdentity};
    use exitscope_units::{Tid, VcpuId, VmId};

    #[test]
    fn both_of_a_pair_take_what_is_beside_exits() {
        let wanted = FactsOptions { by: Vec::new(), slowest: 0, selection: Selection::default() };
        let mut pair = (Facts::new(&wanted), Facts::new(&wanted));
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let row = KvmActivityEvent { who, at: Moment::from_nanos(1), activity: KvmActivity::Aged };
        pair.beside_row(BesideRow::KvmActivity(&row));
        assert_eq!((pair.0.kvm_activity.len(), pair.1.kvm_activity.len()), (1, 1));
    }
}
