//! What advice takes of a recording that is read.

use crate::{AdviceInput, PollPredictions, Trials};
use exitscope_analysis::TraceSink;
use exitscope_model::{BesideRow, EventKinds, Exit};
use exitscope_units::Moment;

impl TraceSink for AdviceInput {
    fn begin(&mut self, first: Moment) {
        AdviceInput::begin(self, first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        AdviceInput::note_event_kinds(self, kinds);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        AdviceInput::absorb(self, exit);
    }

    #[inline]
    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::Yield(of) => _ = self.absorb_yield(of),
            BesideRow::Preemption(of) => self.absorb_preemption(of),
            // Facts hold all that rules look at of the others, and name each kind.
            other => self.facts.beside_row(other),
        }
    }
}

impl TraceSink for Trials {
    fn begin(&mut self, first: Moment) {
        Trials::begin(self, first);
    }

    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::Halt(halt) => self.absorb_halt(halt),
            BesideRow::Yield(of) => self.absorb_yield(of),
            BesideRow::RunnerEvent(event) => self.absorb_runner_event(event),
            _ => {}
        }
    }
}

impl TraceSink for PollPredictions {
    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        if let BesideRow::Halt(halt) = row {
            PollPredictions::absorb(self, halt);
        }
    }
}
