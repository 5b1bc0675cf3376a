//! When the kernel measures what our programs cost.

use exitscope_record::RecordError;
use std::time::{Duration, Instant};

/// Has the kernel measure programs for a part of the time: they are slower meanwhile.
#[derive(Debug)]
pub struct CostCycle {
    length: Duration,
    period: Duration,
    began: Instant,
    is_on: bool,
}

impl CostCycle {
    /// For `length` of every `period`, beginning now.
    pub fn new(length: Duration, period: Duration) -> CostCycle {
        CostCycle { length, period, began: Instant::now(), is_on: false }
    }

    /// Has `measure` switch the measurement on or off if it is time to: on also until the cost `is_known`. Where that is not
    /// allowed, nothing is measured.
    pub fn turn(&mut self, is_known: bool, measure: impl FnOnce(bool) -> Result<(), RecordError>) {
        let is_wanted = !is_known || self.is_due(self.began.elapsed());
        if self.is_on != is_wanted {
            let _ = measure(is_wanted);
            self.is_on = is_wanted;
        }
    }

    fn is_due(&self, elapsed: Duration) -> bool {
        elapsed.as_nanos() % self.period.as_nanos().max(1) < self.length.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_measures_until_the_cost_is_known_and_then_a_part_of_the_time() {
        let mut cycle = CostCycle::new(Duration::ZERO, Duration::from_secs(60));
        let mut switched = Vec::new();
        for is_known in [false, false, true, true, false] {
            cycle.turn(is_known, |on| {
                switched.push(on);
                Ok(())
            });
        }
        assert_eq!(switched, [true, false, true]);
        let cycle = CostCycle::new(Duration::from_secs(1), Duration::from_secs(30));
        let due: Vec<u64> = (0..91).filter(|&seconds| cycle.is_due(Duration::from_secs(seconds))).collect();
        assert_eq!(due, [0, 30, 60, 90]);
    }
}
