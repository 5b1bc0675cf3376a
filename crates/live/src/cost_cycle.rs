//! When the kernel measures what our programs cost.

use exitscope_record::{TracingBackend, measure_programs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Has the kernel measure programs for a part of the time: they are slower meanwhile.
#[derive(Debug)]
pub struct CostCycle {
    length: Duration,
    period: Duration,
    began: Instant,
    is_on: bool,
    /// Open while it measures.
    measuring: Option<OwnedFd>,
}

impl CostCycle {
    /// For `length` of every `period`, beginning now.
    pub fn new(length: Duration, period: Duration) -> CostCycle {
        CostCycle { length, period, began: Instant::now(), is_on: false, measuring: None }
    }

    /// Begins or ends to measure if it is time to. Who may not measure does without; perf events are not measured.
    pub fn turn(&mut self, route: &TracingBackend, is_known: bool) {
        let is_wanted = *route == TracingBackend::Bpf && self.is_due(self.began.elapsed(), is_known);
        if self.is_on != is_wanted {
            self.measuring = is_wanted.then(measure_programs).and_then(Result::ok);
            self.is_on = is_wanted;
        }
    }

    /// Also until the cost is known.
    fn is_due(&self, elapsed: Duration, is_known: bool) -> bool {
        !is_known || elapsed.as_nanos() % self.period.as_nanos().max(1) < self.length.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_measures_a_part_of_the_time_and_until_the_cost_is_known() {
        let cycle = CostCycle::new(Duration::from_secs(1), Duration::from_secs(30));
        let due = |is_known| (0..91).filter(|&at| cycle.is_due(Duration::from_secs(at), is_known)).collect::<Vec<_>>();
        assert_eq!((due(true), due(false).len()), (vec![0, 30, 60, 90], 91));
    }
}
