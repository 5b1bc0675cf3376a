//! A histogram that a BPF program can fill: 4 buckets per doubling.
//!
//! ```text
//! value   0 1 2 3 │ 4 5 6 7 │ 8 10 12 14 │ 16 20 24 28 │ … up to 2^38 ns, 4.6 minutes; longer ones are in the last
//! width      1    │    1    │     2      │      4
//! ```

/// Buckets per doubling, as a power of two.
pub(crate) const SUB_BITS: u32 = 2;

/// Values from here on are in the last bucket.
pub(crate) const LIMIT_BITS: u32 = 38;

/// How many lengths fall into each bucket. A bucket is at most a quarter of its values wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// By bucket; those at the end that are empty may be left out.
    counts: Vec<u64>,
}

impl Lengths {
    /// How many buckets there are.
    pub const BUCKETS: usize = bucket_of((1 << LIMIT_BITS) - 1) + 1;

    /// The counts of the first buckets.
    pub(crate) fn from_counts(counts: impl Iterator<Item = u64>) -> Lengths {
        let mut counts: Vec<u64> = counts.take(Lengths::BUCKETS).collect();
        let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Lengths { counts }
    }

    /// Counts a length, in nanoseconds.
    pub fn record(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// How many lengths there are.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Lower bound and width in nanoseconds, and count, of every bucket that is not empty, ascending. What is longer than
    /// the last bucket's upper bound is in that, too.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, &count)| {
            let (low, width) = span_of(at);
            (low, width, count)
        })
    }

    /// The length in nanoseconds below or at which `per_10_000 / 10,000` of all are (nearest rank), spread evenly within a
    /// bucket; `None` if nothing was counted.
    pub fn quantile(&self, per_10_000: u64) -> Option<u64> {
        let total = self.total();
        let rank = (u128::from(total) * u128::from(per_10_000.min(10_000))).div_ceil(10_000).max(1) as u64;
        let mut before = 0;
        for (low, width, count) in self.buckets() {
            if before + count >= rank {
                return Some(low + (u128::from(width) * u128::from(rank - before) / u128::from(count + 1)) as u64);
            }
            before += count;
        }
        None
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Lengths) {
        self.each(other, |mine, others| *mine += others);
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Lengths) -> Lengths {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        Lengths { counts: self.counts.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect() }
    }

    /// At least as many as `other` in each bucket.
    pub(crate) fn raise(&mut self, other: &Lengths) {
        self.each(other, |mine, others| *mine = (*mine).max(others));
    }

    fn each(&mut self, other: &Lengths, change: impl Fn(&mut u64, u64)) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, &others) in self.counts.iter_mut().zip(&other.counts) {
            change(mine, others);
        }
    }
}

/// The bucket of a length.
pub(crate) const fn bucket_of(ns: u64) -> usize {
    let ns = if ns >> LIMIT_BITS == 0 { ns } else { (1 << LIMIT_BITS) - 1 };
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// Lower bound and width of a bucket.
const fn span_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    (((bucket - (shift << SUB_BITS)) as u64) << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_lengths() {
        let mut next = 0;
        for bucket in 0..Lengths::BUCKETS {
            let (low, width) = span_of(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!((bucket_of(low), bucket_of(low + width - 1)), (bucket, bucket));
            next = low + width;
        }
        assert_eq!(next, 1 << LIMIT_BITS);
        assert_eq!(bucket_of(u64::MAX), Lengths::BUCKETS - 1);
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_the_exact_one() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.quantile(9_900), None);
        let values: Vec<u64> = (0..1000).map(|n| 700 + n * n % 91_193).collect();
        values.iter().for_each(|&ns| lengths.record(ns));
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for (q, exact) in [(0, sorted[0]), (5_000, sorted[499]), (9_900, sorted[989]), (10_000, sorted[999])] {
            assert_eq!(bucket_of(lengths.quantile(q).unwrap()), bucket_of(exact), "{q}");
        }
    }

    #[test]
    fn a_difference_and_its_beginning_are_the_whole() {
        let (mut early, mut late) = (Lengths::default(), Lengths::default());
        for ns in [3, 900, 900, 70_000] {
            early.record(ns);
            late.record(ns);
        }
        for ns in [3, 12, 1 << 60] {
            late.record(ns);
        }
        let mut sum = late.since(&early);
        assert_eq!(sum.total(), 3);
        sum.add(&early);
        assert_eq!(sum, late);
    }
}
