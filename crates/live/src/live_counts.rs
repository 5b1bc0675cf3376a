//! Counts of this host, interval by interval.

use crate::{CostCycle, CountInterval, Deltas, VmWatch};
use exitscope_record::{Aggregation, CountingOptions, RecordError};

/// Counting at work, of VMs that come and go.
#[derive(Debug)]
pub struct LiveCounts {
    /// Counts exits in the kernel, or from perf events.
    pub counting: Aggregation,
    /// The VMs whose exits are counted.
    pub vms: VmWatch,
    cycle: CostCycle,
    deltas: Deltas,
}

impl LiveCounts {
    /// Begins; at first, until there are events, what counting costs is measured. Errors say what to do about them.
    pub fn start(options: &CountingOptions, vms: VmWatch, cycle: CostCycle) -> Result<LiveCounts, RecordError> {
        let counting = Aggregation::start(options)?;
        let mut counts = LiveCounts { counting, vms, cycle, deltas: Deltas::default() };
        counts.cycle.turn(counts.counting.route(), false);
        Ok(counts)
    }

    /// What happened since the last call, or the beginning.
    pub fn take(&mut self) -> Result<CountInterval, RecordError> {
        // Until now they were those of an interval.
        self.vms.forget_names(|process| self.deltas.has_process(process));
        self.vms.look(&mut self.counting)?;
        let mut interval = self.deltas.take(self.counting.read()?);
        for (_, totals) in interval.vcpus.values_mut() {
            (totals.has_kvm_exit, totals.switches) = (self.counting.has_kvm_exit(), self.counting.has_switches());
        }
        self.counting.forget_ended();
        self.cycle.turn(self.counting.route(), interval.ns_per_event.is_some());
        Ok(interval)
    }
}
