//! Lengths of time of one kind: how many, how long together, how they are distributed.

use exitscope_stats::Histogram;
use exitscope_units::Nanos;

/// Lengths of time, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    /// Number of lengths.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The longest.
    pub max: u64,
    /// How they are distributed.
    pub histogram: Histogram,
}

impl DurationStats {
    /// Adds one.
    pub fn record(&mut self, length: Nanos) {
        self.count += 1;
        self.sum = self.sum.saturating_add(length.0);
        self.max = self.max.max(length.0);
        self.histogram.record(length.0);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &DurationStats) {
        let DurationStats { count, sum, max, histogram } = other;
        self.count += count;
        self.sum = self.sum.saturating_add(*sum);
        self.max = self.max.max(*max);
        self.histogram.merge(histogram);
    }

    /// Their mean; `None` if there are none.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.checked_div(self.count).map(Nanos)
    }

    /// The length below or at which `per_10_000 / 10,000` of them are.
    pub fn quantile(&self, per_10_000: u64) -> Option<Nanos> {
        self.histogram.quantile(per_10_000).map(|value| Nanos(value.min(self.max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quantile_of_lengths_is_beyond_the_longest() {
        let mut lengths = DurationStats::default();
        (0..40).for_each(|at| lengths.record(Nanos(1_024 + at % 20)));
        let quantiles = [2_500, 5_000, 7_500, 10_000].map(|per_10_000| lengths.quantile(per_10_000).unwrap().0);
        assert_eq!(quantiles, [1_031, 1_039, 1_043, 1_043], "1031, 1039, 1047 and 1055 are where their ranks lie");
    }
}
