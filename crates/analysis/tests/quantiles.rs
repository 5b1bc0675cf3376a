//! Quantiles within a bucket, to the number.

use exitscope_analysis::{Histogram, Lengths};
use exitscope_units::Nanos;

/// A bucket's values count as spread evenly over it, the last at its end: of four in 1024 … 1055, the first is 31/4 above
/// its lower bound.
#[test]
fn a_quantile_is_as_far_into_its_bucket_as_its_rank_is_into_the_buckets_count() {
    for (values, quantiles) in [
        // Below 64 a bucket is one value.
        (&[(7, 1)][..], &[(0, 7), (5_000, 7), (10_000, 7)][..]),
        (&[(1, 1), (2, 1), (3, 2)], &[(2_500, 1), (5_000, 2), (5_001, 3), (10_000, 3)]),
        (&[(1_030, 4)], &[(0, 1_031), (2_500, 1_031), (2_501, 1_039), (5_000, 1_039), (7_500, 1_047), (10_000, 1_055)]),
        (&[(1_030, 1)], &[(0, 1_055), (10_000, 1_055)]),
        // Those in lower buckets count first.
        (&[(10, 6), (1_040, 4)], &[(6_000, 10), (6_001, 1_031), (8_000, 1_039), (9_900, 1_055)]),
        // 2^20 … + 2^15 - 1.
        (&[(1 << 20, 2)], &[(5_000, (1 << 20) + 16_383), (10_000, (1 << 20) + 32_767)]),
    ] {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&(value, times)| histogram.record_many(value, times));
        for &(per_10_000, value) in quantiles {
            assert_eq!(histogram.quantile(per_10_000), Some(value), "{per_10_000} of {values:?}");
        }
    }
    assert_eq!(Histogram::default().quantile(5_000), None);
}

#[test]
fn no_quantile_of_lengths_is_beyond_the_longest() {
    let mut lengths = Lengths::default();
    [1_024, 1_030, 1_040].into_iter().for_each(|ns| lengths.record(Nanos(ns)));
    let quantiles = [3_333, 6_666, 10_000].map(|per_10_000| lengths.quantile(per_10_000).unwrap().0);
    assert_eq!(quantiles, [1_034, 1_040, 1_040], "1034, 1044 and 1055 are where their ranks lie in the bucket");
}
