//! What advice takes of a recording that is read.

use crate::{AdviceInput, PollPredictions, Trials};
use exitscope_analysis::TraceSink;
use exitscope_model::{CpuInterval, Event, EventKinds, Exit, Halt, KvmActivityEvent, PleUpdate, Preemption, Yield};
use exitscope_units::Moment;

impl TraceSink for AdviceInput {
    fn begin(&mut self, first: Moment) {
        AdviceInput::begin(self, first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        AdviceInput::note_event_kinds(self, kinds);
    }

    fn schedule(&mut self, event: &Event) {
        self.facts.absorb_sched_event(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        AdviceInput::absorb(self, exit);
    }

    fn cpu_interval(&mut self, interval: &CpuInterval) {
        self.facts.absorb_stretch(interval);
    }

    fn halt(&mut self, halt: &Halt) {
        self.absorb_halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.absorb_ple_update(of);
    }

    fn kvm_activity(&mut self, of: &KvmActivityEvent) {
        self.absorb_kvm_activity(of);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.facts.absorb_runner_event(event));
    }
}

impl TraceSink for Trials {
    fn begin(&mut self, first: Moment) {
        Trials::begin(self, first);
    }

    fn halt(&mut self, halt: &Halt) {
        self.absorb_halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.absorb_yield(of);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.absorb_runner_event(event));
    }
}

impl TraceSink for PollPredictions {
    fn halt(&mut self, halt: &Halt) {
        self.absorb(halt);
    }
}
