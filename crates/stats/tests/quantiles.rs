//! Quantiles within a bucket, to the number.

use exitscope_stats::FineBuckets;

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
        let mut buckets = FineBuckets::default();
        values.iter().for_each(|&(value, times)| buckets.record_many(value, times));
        for &(per_10_000, value) in quantiles {
            assert_eq!(buckets.quantile(per_10_000), Some(value), "{per_10_000} of {values:?}");
        }
    }
    assert_eq!(FineBuckets::default().quantile(5_000), None);
}
