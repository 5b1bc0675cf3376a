//! What takes all that a trace gives: exits, and what is found beside them.

use crate::replay::{SpinReplay, SpinSurvey};
use crate::{ExitSlots, Facts};
use exitscope_model::{
    CpuInterval, Event, EventKinds, Exit, Halt, KvmActivityEvent, PleUpdate, Preemption, RunQueueInterval,
    ThreadWakeUp, Yield,
};
use exitscope_units::Moment;

/// What takes exit rows.
pub trait TraceSink {
    /// The trace's first event.
    fn begin(&mut self, _first: Moment) {}
    /// Which kinds of events there were so far.
    fn note_event_kinds(&mut self, _kinds: EventKinds) {}
    /// An event of a trace in which the scheduler speaks of virtual CPUs (Xen).
    fn schedule(&mut self, _event: &Event) {}
    /// A row.
    fn absorb(&mut self, _exit: &Exit) {}
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
    /// A stretch of a vCPU's time that is of no exit.
    fn cpu_interval(&mut self, _stretch: &CpuInterval) {}
    /// A halt.
    fn halt(&mut self, _halt: &Halt) {}
    /// A yield.
    fn yielded(&mut self, _of: &Yield) {}
    /// A vCPU that was preempted.
    fn preempted(&mut self, _of: &Preemption) {}
    /// A vCPU that was woken, and ran.
    fn woken(&mut self, _of: &ThreadWakeUp) {}
    /// A change of a window of PAUSE loops.
    fn ple_update(&mut self, _of: &PleUpdate) {}
    /// An activity of KVM.
    fn kvm_activity(&mut self, _of: &KvmActivityEvent) {}
    /// How many vCPUs waited for a CPU, and how long.
    fn queue_stay(&mut self, _stay: &RunQueueInterval) {}
    /// Events of a recording in which a virtual core's runner records for all its vCPUs (powerpc).
    fn runner_events(&mut self, _events: &[Event]) {}
    /// Whether what is still to come would make no difference.
    fn is_full(&self) -> bool {
        false
    }
}

/// Takes nothing.
impl TraceSink for () {}

/// Passes each of these on to both.
macro_rules! both {
    ($($name:ident($type:ty)),* $(,)?) => {$(
        fn $name(&mut self, of: $type) {
            self.0.$name(of);
            self.1.$name(of);
        }
    )*};
}

/// Both take everything.
impl<A: TraceSink, B: TraceSink> TraceSink for (A, B) {
    both! {
        begin(Moment),
        note_event_kinds(EventKinds),
        schedule(&Event),
        cpu_interval(&CpuInterval),
        halt(&Halt),
        yielded(&Yield),
        preempted(&Preemption),
        woken(&ThreadWakeUp),
        ple_update(&PleUpdate),
        kvm_activity(&KvmActivityEvent),
        queue_stay(&RunQueueInterval),
        runner_events(&[Event]),
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
    fn schedule(&mut self, event: &Event) {
        Facts::absorb_sched_event(self, event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        Facts::absorb(self, exit);
    }

    fn cpu_interval(&mut self, interval: &CpuInterval) {
        self.absorb_stretch(interval);
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

    fn queue_stay(&mut self, stay: &RunQueueInterval) {
        self.absorb_queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.absorb_runner_event(event));
    }
}

impl TraceSink for SpinSurvey {
    fn yielded(&mut self, of: &Yield) {
        self.absorb(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.absorb_preemption(of);
    }
}

impl TraceSink for SpinReplay {
    fn yielded(&mut self, of: &Yield) {
        self.absorb(of);
    }
}
