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
            BesideRow::KvmActivity(of) => self.absorb_kvm_activity(of),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageFacts;
    use exitscope_analysis::{Facts, Selection};
    use exitscope_model::{KvmActivity, KvmActivityEvent, RunQueueInterval, VcpuIdentity};
    use exitscope_units::{Tid, VcpuId, VmId};

    /// What facts hold of rows that only they look at.
    fn taken(facts: &Facts) -> (usize, bool) {
        (facts.kvm_activity.len(), facts.yields.queue.most > 0)
    }

    #[test]
    fn what_only_facts_look_at_reaches_them_in_advice_and_pages() {
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let at = Moment::from_nanos(1);
        let activity = KvmActivityEvent { who, at, activity: KvmActivity::Aged };
        let stay = RunQueueInterval { from: at, to: Moment::from_nanos(9), waiting: 1 };
        let (mut input, mut page) =
            (AdviceInput::new(&Selection::default()), PageFacts::by_reason(&Selection::default(), 0, 1));
        for row in [BesideRow::KvmActivity(&activity), BesideRow::QueueStay(&stay)] {
            input.beside_row(row);
            page.beside_row(row);
        }
        assert_eq!((taken(&input.facts), taken(&page.advice_input.facts)), ((1, true), (1, true)));
    }
}
