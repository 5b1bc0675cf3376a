//! A distribution that knows its values one by one while they are few, then by bucket.

use crate::{FineBuckets, quantile_of_sorted};
use std::borrow::Cow;

/// Values of a distribution. Up to [`FEW`](Histogram::FEW) are kept as they are, and quantiles are exact; of more than that,
/// quantiles are to within a bucket of [`FineBuckets`]. Which of both it is depends on what was counted alone, not on the order
/// or the number of the pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// All values, ascending.
    Values(Vec<u64>),
    /// What more values, or values of which only the buckets were known, came to.
    Counts(FineBuckets),
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Kept::Values(Vec::new()))
    }
}

impl From<FineBuckets> for Histogram {
    /// Of values of which only the buckets are known.
    fn from(counts: FineBuckets) -> Histogram {
        if counts.total() == 0 { Histogram::default() } else { Histogram(Kept::Counts(counts)) }
    }
}

impl Histogram {
    /// Values that are kept one by one at most: they take no more room than the buckets of a doubling.
    pub const FEW: usize = 32;

    /// Counts `value` once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        match &mut self.0 {
            Kept::Counts(counts) => counts.record(value),
            Kept::Values(_) => self.record_early(value),
        }
    }

    /// Out of the way of all that come later.
    fn record_early(&mut self, value: u64) {
        match &mut self.0 {
            Kept::Values(values) if values.len() < Histogram::FEW => {
                values.insert(values.partition_point(|&other| other <= value), value);
            }
            _ => self.spill().record(value),
        }
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.merge_weighted(other, 1);
    }

    /// Adds `times` times what `other` counted.
    pub fn merge_weighted(&mut self, other: &Histogram, times: u64) {
        match &other.0 {
            Kept::Values(more) => self.add(more, times),
            Kept::Counts(more) if times > 0 => self.spill().merge_weighted(more, times),
            Kept::Counts(_) => {}
        }
    }

    fn add(&mut self, more: &[u64], times: u64) {
        let added = (more.len() as u64).saturating_mul(times);
        match &mut self.0 {
            Kept::Values(values) if added <= (Histogram::FEW - values.len()) as u64 => {
                values.extend(more.iter().flat_map(|&value| std::iter::repeat_n(value, times as usize)));
                values.sort_unstable();
            }
            _ => {
                let counts = self.spill();
                more.iter().for_each(|&value| counts.record_many(value, times));
            }
        }
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        match &self.0 {
            Kept::Values(values) => values.len() as u64,
            Kept::Counts(counts) => counts.total(),
        }
    }

    /// The value below or at which `per_10_000 / 10,000` of all values are; `None` if nothing was counted.
    pub fn quantile(&self, per_10_000: u64) -> Option<u64> {
        match &self.0 {
            Kept::Values(values) => quantile_of_sorted(values, per_10_000),
            Kept::Counts(counts) => counts.quantile(per_10_000),
        }
    }

    /// What was counted, by bucket.
    pub fn counts(&self) -> Cow<'_, FineBuckets> {
        match &self.0 {
            Kept::Values(values) => Cow::Owned(counted(values)),
            Kept::Counts(counts) => Cow::Borrowed(counts),
        }
    }

    /// Keeps only buckets from now on.
    fn spill(&mut self) -> &mut FineBuckets {
        if let Kept::Values(values) = &self.0 {
            self.0 = Kept::Counts(counted(values));
        }
        let Kept::Counts(counts) = &mut self.0 else { unreachable!("made so above") };
        counts
    }
}

fn counted(values: &[u64]) -> FineBuckets {
    let mut counts = FineBuckets::default();
    values.iter().for_each(|&value| counts.record(value));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket_of;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    #[test]
    fn it_takes_no_more_room_than_buckets_alone() {
        assert_eq!(size_of::<Histogram>(), size_of::<FineBuckets>());
    }

    #[test]
    fn what_is_known_by_bucket_alone_is_never_taken_for_exact() {
        let buckets = |values: &[u64]| Histogram::from(counted(values));
        assert_eq!((of(&[1_030]).quantile(5_000), buckets(&[1_030]).quantile(5_000)), (Some(1_030), Some(1_055)));
        let (mut one, mut other) = (of(&[5]), buckets(&[1_030]));
        one.merge(&buckets(&[1_030]));
        other.merge(&of(&[5]));
        assert_eq!((one.quantile(10_000), &one), (Some(1_055), &other));
        assert_eq!(buckets(&[]), of(&[]));
        one.merge_weighted(&buckets(&[9]), 0);
        assert_eq!(one, other);
    }

    proptest! {
        #[test]
        fn quantiles_of_few_are_exact_and_of_more_within_a_bucket(mut values in vec(0u64..1 << 40, 1..80), q in 0u64..=10_000) {
            let got = of(&values).quantile(q).unwrap();
            values.sort_unstable();
            let exact = values[(values.len() as u64 * q).div_ceil(10_000).max(1) as usize - 1];
            match values.len() <= Histogram::FEW {
                true => prop_assert_eq!(got, exact),
                false => prop_assert_eq!(bucket_of::<5>(got), bucket_of::<5>(exact)),
            }
        }

        #[test]
        fn merging_in_any_order_is_counting_all(left in vec(any::<u64>(), 0..40), right in vec(any::<u64>(), 0..40), times in 0u64..4) {
            let all = of(&[left.clone(), right.repeat(times as usize)].concat());
            let (mut one, mut other) = (of(&left), Histogram::default());
            one.merge_weighted(&of(&right), times);
            other.merge_weighted(&of(&right), times);
            other.merge(&of(&left));
            prop_assert_eq!(&one, &all);
            prop_assert_eq!(&other, &all);
            prop_assert_eq!(all.total(), left.len() as u64 + right.len() as u64 * times);
            prop_assert_eq!(all.counts().into_owned(), counted(&[left, right.repeat(times as usize)].concat()));
        }
    }
}
