//! Counts of this host, interval by interval.

use crate::{CostCycle, CountGroup, CountInterval, Deltas, VmWatch};
use exitscope_record::{Aggregation, Counting, RecordError};

/// Counting at work, of VMs that come and go.
#[derive(Debug)]
pub struct LiveCounts<G> {
    /// What counts.
    pub counting: Aggregation,
    /// Whose exits.
    pub vms: VmWatch,
    cycle: CostCycle,
    deltas: Deltas<G>,
    /// Nanoseconds of programs for an event, as measured last.
    pub ns_per_event: Option<f64>,
}

impl<G: CountGroup> LiveCounts<G> {
    /// Begins; at first, until there are events, what counting costs is measured. Errors say what to do about them.
    pub fn start(options: &Counting, vms: VmWatch, cycle: CostCycle) -> Result<LiveCounts<G>, RecordError> {
        let counting = Aggregation::start(options)?;
        let mut counts = LiveCounts { counting, vms, cycle, deltas: Deltas::default(), ns_per_event: None };
        counts.measure();
        Ok(counts)
    }

    /// What happened since the last call, or the beginning.
    pub fn take(&mut self) -> Result<CountInterval<G>, RecordError> {
        // Until now they were those of an interval.
        self.vms.forget_names(|process| self.deltas.has_process(process));
        self.vms.look(&mut self.counting)?;
        let interval = self.deltas.take(self.counting.read()?);
        self.counting.forget_ended();
        self.ns_per_event = interval.ns_per_event().or(self.ns_per_event);
        self.measure();
        Ok(interval)
    }

    fn measure(&mut self) {
        self.cycle.turn(self.ns_per_event.is_some(), |on| self.counting.measure(on));
    }
}
