//! Lengths of time of one kind: how many, how long together, how they are distributed.

use crate::Histogram;
use exitscope_units::Nanos;

/// Lengths of time, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The longest.
    pub max: u64,
    /// How they are distributed.
    pub histogram: Histogram,
}

impl Lengths {
    /// Adds one.
    pub fn record(&mut self, length: Nanos) {
        self.count += 1;
        self.sum = self.sum.saturating_add(length.0);
        self.max = self.max.max(length.0);
        self.histogram.record(length.0);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &Lengths) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        self.histogram.merge_weighted(&other.histogram, 1);
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
