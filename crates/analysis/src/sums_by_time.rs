//! Sums of a recording's exits by vCPU, time bucket and reason, as stores keep them.

use crate::{DurationStats, ExitStats, StatsByKey};
use exitscope_model::{Exit, ExitCode, Spread, SumRow, WhoRow};
use exitscope_stats::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time buckets of a recording, all of the same width: comparisons need several to say how sure a difference is.
const BUCKETS: u64 = 32;

/// Sums by vCPU, time bucket and reason.
#[derive(Clone, Debug)]
pub struct SumsByTime {
    /// The first moment of the recording, and the width of a bucket, in nanoseconds.
    first: u64,
    width: u64,
    stats: StatsByKey<(usize, u64, ExitCode)>,
}

impl SumsByTime {
    /// Creates empty sums of a recording from `first` to `last`, in nanoseconds on its clock.
    pub fn new(first: u64, last: u64) -> SumsByTime {
        let width = (last.saturating_sub(first) + 1).div_ceil(BUCKETS);
        SumsByTime { first, width, stats: StatsByKey::default() }
    }

    /// Adds one exit of the vCPU of this number.
    #[inline]
    pub fn absorb(&mut self, vcpu: usize, exit: &Exit) {
        let bucket = exit.at.as_nanos().saturating_sub(self.first) / self.width;
        self.stats.absorb((vcpu, bucket.min(BUCKETS - 1), exit.code), exit);
    }

    /// Exits that are in no row, because there are too many vCPUs and reasons.
    pub fn left_out(&self) -> u64 {
        self.stats.other.count
    }

    /// The rows; `vcpus` are all vCPUs of the recording, by number.
    pub fn rows(&self, vcpus: &[Arc<WhoRow>]) -> Vec<SumRow> {
        let mut vm_vcpus: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        vcpus.iter().for_each(|who| *vm_vcpus.entry(who.vm).or_default() += 1);
        // Every field is named, so that a new column cannot be forgotten.
        let row = |((vcpu, bucket, code), stats): ((usize, u64, ExitCode), &ExitStats)| SumRow {
            who: WhoRow::clone(&vcpus[vcpu]),
            vm_vcpus: vm_vcpus[&vcpus[vcpu].vm],
            at_ns: self.first.saturating_add(bucket * self.width),
            span_ns: self.width,
            reason: code.name(),
            count: stats.count,
            timed: stats.timed,
            user_space_exits: stats.user_count,
            parts: stats.parts,
            min_ns: stats.min,
            max_ns: stats.max,
            exit_times: buckets(&stats.durations),
        };
        self.stats.cells().into_iter().map(row).collect()
    }
}

impl DurationStats {
    /// The same as plain data.
    pub fn spread(&self) -> Spread {
        Spread { sum_ns: self.sum, max_ns: (self.count > 0).then_some(self.max), buckets: buckets(&self.histogram) }
    }
}

/// The shortest of each bucket, and how many there are in it.
fn buckets(of: &Histogram) -> Vec<(u64, u64)> {
    of.counts().buckets().map(|(low, _, count)| (low, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, vcpu};
    use exitscope_model::CodeList;

    #[test]
    fn rows_are_by_vcpu_bucket_and_reason_and_no_exit_is_in_two() {
        let mut sums = SumsByTime::new(1_000, 1_000 + 3_199);
        let code = |number| ExitCode::new(CodeList::Vmx, number);
        let exits = [(1, 1_000, 48), (0, 1_000, 48), (0, 1_099, 48), (0, 1_099, 30), (0, 1_100, 48), (0, 9_999, 48)];
        for (number, at, reason) in exits {
            sums.absorb(number, &exit(vcpu(number as u32), at, code(reason)));
        }
        let who = |vm| Arc::new(WhoRow { vm: Some(vm), ..WhoRow::default() });
        let rows = sums.rows(&[who(7), who(7), who(8)]);
        let seen: Vec<_> = rows.iter().map(|row| (row.at_ns, row.count)).collect();
        assert_eq!(seen, [(1_000, 1), (1_000, 2), (1_100, 1), (4_100, 1), (1_000, 1)], "reason 30 is before 48");
        assert!(rows.iter().all(|row| (row.span_ns, row.vm_vcpus) == (100, 2)) && sums.left_out() == 0);
    }

    #[test]
    fn exits_of_too_many_vcpus_and_reasons_are_counted() {
        let mut sums = SumsByTime::new(0, 0);
        for number in 0..crate::MAX_KEYS + 3 {
            sums.absorb(number, &exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 48)));
        }
        assert_eq!(sums.left_out(), 3);
    }
}
