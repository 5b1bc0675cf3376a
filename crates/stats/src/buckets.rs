//! Counts of values by size, in buckets that grow with their values: `2^SUB_BITS` buckets to a doubling.
//!
//! ```text
//! SUB_BITS = 2     value   0 1 2 3 │ 4 5 6 7 │ 8 10 12 14 │ 16 20 24 28 │ …
//!                  width      1    │    1    │     2      │      4      │ …
//! ```

use crate::quantile;

/// Counts by bucket. A bucket is at most `1 / 2^SUB_BITS` of its values wide, and one value below `2^(SUB_BITS + 1)`. What is
/// not below `2^LIMIT_BITS` is in the last bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets<const SUB_BITS: u32, const LIMIT_BITS: u32> {
    /// The bucket that `counts` begins with.
    base: usize,
    /// Neither the first nor the last is zero, so that the same counts are the same value.
    counts: Vec<u64>,
}

/// 32 buckets to a doubling.
pub type FineBuckets = Buckets<5, 64>;

/// 4 buckets to a doubling, for nanoseconds up to 4.6 minutes: few enough for a BPF program to have all of them in each count.
pub type CoarseBuckets = Buckets<2, 38>;

impl<const SUB_BITS: u32, const LIMIT_BITS: u32> Buckets<SUB_BITS, LIMIT_BITS> {
    /// Buckets to a doubling, as a power of two.
    pub const SUB_BITS: u32 = SUB_BITS;

    /// Values from this power of two on are in the last bucket.
    pub const LIMIT_BITS: u32 = LIMIT_BITS;

    /// How many buckets there are.
    pub const LEN: usize = Self::bucket_of(u64::MAX) + 1;

    /// From the counts of the first buckets, empty ones included.
    pub fn from_counts(counts: impl Iterator<Item = u64>) -> Self {
        Self::trimmed(0, &counts.take(Self::LEN).collect::<Vec<_>>())
    }

    /// Counts `value` once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = Self::bucket_of(value);
        match bucket.checked_sub(self.base).and_then(|at| self.counts.get_mut(at)) {
            Some(count) => *count += 1,
            None => *self.cell(bucket) += 1,
        }
    }

    /// Counts `value` so many times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times > 0 {
            *self.cell(Self::bucket_of(value)) += times;
        }
    }

    /// Bytes of memory that it takes besides itself.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        self.merge_weighted(other, 1);
    }

    /// Adds `times` times what `other` counted.
    pub fn merge_weighted(&mut self, other: &Self, times: u64) {
        if times > 0 {
            self.each(other, |count, more| *count += more * times);
        }
    }

    /// At least as many as `other` in each bucket.
    pub fn raise(&mut self, other: &Self) {
        self.each(other, |count, least| *count = least.max(*count));
    }

    /// What came since `earlier`, which is a former value of the same.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut new = self.clone();
        new.each(earlier, |count, before| *count = count.saturating_sub(before));
        Self::trimmed(new.base, &new.counts)
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value below or at which `per_10_000 / 10,000` of all values are, to within a bucket; `None` if nothing was counted.
    pub fn quantile(&self, per_10_000: u64) -> Option<u64> {
        quantile(self.buckets(), self.total(), per_10_000)
    }

    /// Lower bound, width and count of every bucket that is not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, &count)| {
            let (low, width) = span_of::<SUB_BITS>(self.base + at);
            (low, width, count)
        })
    }

    #[inline]
    const fn bucket_of(value: u64) -> usize {
        let last = u64::MAX >> (64 - LIMIT_BITS);
        bucket_of::<SUB_BITS>(if value < last { value } else { last })
    }

    /// Changes every count by that of `other`'s same bucket.
    fn each(&mut self, other: &Self, change: impl Fn(&mut u64, u64)) {
        let Some(last) = other.counts.len().checked_sub(1) else { return };
        self.cell(other.base);
        self.cell(other.base + last);
        let from = other.base - self.base;
        for (count, &others) in self.counts[from..].iter_mut().zip(&other.counts) {
            change(count, others);
        }
    }

    /// From these counts on, without the empty ones at both ends.
    fn trimmed(base: usize, counts: &[u64]) -> Self {
        let first = counts.iter().position(|&count| count > 0);
        let last = counts.iter().rposition(|&count| count > 0);
        match first.zip(last) {
            Some((first, last)) => Buckets { base: base + first, counts: counts[first..=last].to_vec() },
            None => Buckets::default(),
        }
    }

    /// The count of `bucket`, with room made for it.
    fn cell(&mut self, bucket: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.base = bucket;
        }
        if bucket < self.base {
            let missing = self.base - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.base = bucket;
        }
        let at = bucket - self.base;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }
}

/// The bucket of a value.
#[inline]
pub const fn bucket_of<const SUB_BITS: u32>(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Lower bound and width of a bucket.
const fn span_of<const SUB_BITS: u32>(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let low = (bucket - (shift << SUB_BITS)) as u64;
    (low << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// That every number below `end` is in one bucket of the first `buckets`.
    fn check_tiles<const SUB_BITS: u32>(buckets: usize, end: u64) {
        let mut next = 0u64;
        for bucket in 0..buckets {
            let (low, width) = span_of::<SUB_BITS>(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!([low, low + (width - 1)].map(bucket_of::<SUB_BITS>), [bucket; 2]);
            next = low.wrapping_add(width);
        }
        assert_eq!(next, end);
    }

    #[test]
    fn buckets_tile_the_numbers() {
        check_tiles::<5>(FineBuckets::LEN, 0);
        check_tiles::<3>(bucket_of::<3>(u64::MAX) + 1, 0);
        check_tiles::<2>(CoarseBuckets::LEN, 1 << CoarseBuckets::LIMIT_BITS);
        assert_eq!(CoarseBuckets::bucket_of(u64::MAX), CoarseBuckets::bucket_of((1 << CoarseBuckets::LIMIT_BITS) - 1));
    }

    #[test]
    fn a_difference_and_its_beginning_are_the_whole() {
        let of = |values: &[u64]| {
            let mut buckets = CoarseBuckets::default();
            values.iter().for_each(|&ns| buckets.record(ns));
            buckets
        };
        let (early, late) = (of(&[3, 900, 900, 70_000]), of(&[3, 900, 900, 70_000, 3, 12, 1 << 60]));
        let mut sum = late.since(&early);
        assert_eq!(sum, of(&[3, 12, 1 << 60]));
        sum.merge(&early);
        assert_eq!(sum, late);
        assert_eq!(late.since(&late), CoarseBuckets::default());
    }

    proptest! {
        #[test]
        fn raising_takes_the_larger_count_of_each_bucket(left in proptest::collection::vec(any::<u64>(), 0..50),
                                                         right in proptest::collection::vec(any::<u64>(), 0..50)) {
            let of = |values: &[u64]| CoarseBuckets::from_counts((0..CoarseBuckets::LEN).map(|bucket| {
                values.iter().filter(|&&value| CoarseBuckets::bucket_of(value) == bucket).count() as u64
            }));
            let (mut raised, other) = (of(&left), of(&right));
            raised.raise(&other);
            let count = |of: &CoarseBuckets, low| of.buckets().find(|bucket| bucket.0 == low).map_or(0, |bucket| bucket.2);
            for value in left.iter().chain(&right) {
                let low = span_of::<2>(CoarseBuckets::bucket_of(*value)).0;
                prop_assert_eq!(count(&raised, low), count(&of(&left), low).max(count(&other, low)));
            }
        }

        #[test]
        fn a_quantile_is_within_a_bucket_of_the_exact_one(
            mut values in proptest::collection::vec(0u64..1 << 40, 1..300), q in 0u64..=10_000,
        ) {
            let (mut fine, mut coarse) = (FineBuckets::default(), CoarseBuckets::default());
            values.iter().for_each(|&value| fine.record(value));
            values.iter().for_each(|&value| coarse.record(value));
            values.sort_unstable();
            let exact = values[(values.len() as u64 * q).div_ceil(10_000).max(1) as usize - 1];
            prop_assert_eq!(FineBuckets::bucket_of(exact), FineBuckets::bucket_of(fine.quantile(q).unwrap()));
            prop_assert_eq!(CoarseBuckets::bucket_of(exact), CoarseBuckets::bucket_of(coarse.quantile(q).unwrap()));
        }

        #[test]
        fn merging_is_counting_all(left in proptest::collection::vec(any::<u64>(), 0..50),
                                   right in proptest::collection::vec(any::<u64>(), 0..50)) {
            let of = |values: &[u64]| {
                let mut buckets = FineBuckets::default();
                values.iter().for_each(|&value| buckets.record(value));
                buckets
            };
            let mut merged = of(&right);
            merged.merge(&of(&left));
            let all = [left, right].concat();
            prop_assert_eq!(merged, of(&all));
        }
    }
}
