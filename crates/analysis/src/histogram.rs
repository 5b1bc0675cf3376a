//! A log-linear histogram: 32 buckets per doubling, so that a bucket is at most 1/32 of its value wide.
//!
//! ```text
//! value   0 1 2 … 31 │ 32 33 … 63 │ 64 66 … 126 │ 128 132 …
//! width        1     │      1     │      2      │     4
//! ```

/// Sub-buckets per doubling, as a power of two.
const SUB_BITS: u32 = 5;

/// Counts of values by size; exact below 64, within 1/32 above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The bucket that `counts` begins with.
    base: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts `value` once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        match bucket.checked_sub(self.base).and_then(|at| self.counts.get_mut(at)) {
            Some(count) => *count += 1,
            None => *self.cell(bucket) += 1,
        }
    }

    /// Counts `value` so many times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times > 0 {
            *self.cell(bucket_of(value)) += times;
        }
    }

    /// Bytes of memory that it takes besides itself.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    /// Adds `times` times what `other` counted.
    pub fn merge_weighted(&mut self, other: &Histogram, times: u64) {
        let (Some(last), true) = (other.counts.len().checked_sub(1), times > 0) else { return };
        self.cell(other.base);
        self.cell(other.base + last);
        let from = other.base - self.base;
        for (count, more) in self.counts[from..].iter_mut().zip(&other.counts) {
            *count += more * times;
        }
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value below or at which `per_10_000 / 10,000` of all values are (nearest rank), with values spread
    /// evenly within a bucket; `None` if nothing was counted.
    pub fn quantile(&self, per_10_000: u64) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = (u128::from(total) * u128::from(per_10_000.min(10_000))).div_ceil(10_000).max(1) as u64;
        let mut before = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            if before + count >= rank {
                let (low, width) = span_of(self.base + at);
                let into = u128::from(width - 1) * u128::from(rank - before) / u128::from(count);
                return Some(low + into as u64);
            }
            before += count;
        }
        None
    }

    /// Lower bound, width and count of every bucket that is not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, &count)| {
            let (low, width) = span_of(self.base + at);
            (low, width, count)
        })
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

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Lower bound and width of a bucket.
fn span_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let low = (bucket - (shift << SUB_BITS)) as u64;
    (low << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_numbers() {
        let mut next = 0u64;
        for bucket in 0..1500 {
            let (low, width) = span_of(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!((bucket_of(low), bucket_of(low + width - 1)), (bucket, bucket));
            next = low + width;
        }
        assert_eq!(span_of(bucket_of(u64::MAX)).0.leading_zeros(), 0);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_bucket_of_the_exact_one(
            mut values in proptest::collection::vec(0u64..1 << 40, 1..300), q in 0u64..=10_000,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            values.sort_unstable();
            let rank = (values.len() as u64 * q).div_ceil(10_000).max(1) as usize;
            let (exact, got) = (values[rank - 1], histogram.quantile(q).unwrap());
            prop_assert_eq!(bucket_of(exact), bucket_of(got));
        }

        #[test]
        fn merging_is_counting_all(left in proptest::collection::vec(any::<u64>(), 0..50),
                                   right in proptest::collection::vec(any::<u64>(), 0..50)) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                values.iter().for_each(|&value| histogram.record(value));
                histogram
            };
            let mut merged = of(&right);
            merged.merge_weighted(&of(&left), 1);
            let all = [left, right].concat();
            prop_assert_eq!(merged, of(&all));
        }
    }
}
