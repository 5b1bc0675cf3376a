//! The one rule by which all percentiles are found. `web/src/buckets.ts` has it for the browser; `tests/quantiles.json` holds
//! both to it.

/// The value below or at which `per_10_000 / 10,000` of all values are: that of the nearest rank. `buckets` are lower bound,
/// width and count, ascending, of `total` values; within a bucket these count as spread evenly, the last at its end. `None`
/// of no values.
pub fn quantile(buckets: impl Iterator<Item = (u64, u64, u64)>, total: u64, per_10_000: u64) -> Option<u64> {
    let rank = rank(total, per_10_000);
    let mut before = 0;
    for (low, width, count) in buckets {
        if before + count >= rank {
            let into = u128::from(width - 1) * u128::from(rank - before) / u128::from(count);
            return Some(low + into as u64);
        }
        before += count;
    }
    None
}

/// The same of values that are known one by one, ascending.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], per_10_000: u64) -> Option<T> {
    sorted.get(rank(sorted.len() as u64, per_10_000) as usize - 1).copied()
}

/// Which value it is, counted from 1.
fn rank(total: u64, per_10_000: u64) -> u64 {
    (u128::from(total) * u128::from(per_10_000.min(10_000))).div_ceil(10_000).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_the_nearest_that_has_enough_below_or_at_it() {
        let values: Vec<u64> = (1..=20).collect();
        for (per_10_000, value) in [(0, 1), (500, 1), (501, 2), (5_000, 10), (9_500, 19), (9_501, 20), (10_000, 20)] {
            assert_eq!(quantile_of_sorted(&values, per_10_000), Some(value), "{per_10_000}");
            let alone = values.iter().map(|&value| (value, 1, 1));
            assert_eq!(quantile(alone, 20, per_10_000), Some(value), "{per_10_000}");
        }
        assert_eq!(quantile_of_sorted::<u64>(&[], 5_000), None);
        assert_eq!(quantile(std::iter::empty(), 0, 5_000), None);
    }

    #[test]
    fn the_largest_counts_overflow_nothing() {
        assert_eq!(
            quantile([(1 << 63, 1 << 58, u64::MAX)].into_iter(), u64::MAX, 10_000),
            Some((1 << 63) + (1 << 58) - 1)
        );
    }
}
