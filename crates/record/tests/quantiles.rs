//! Quantiles of counted lengths, to the number.

use exitscope_record::Lengths;

/// A bucket's values count as spread evenly over its inside: of three in 1024 … 1279, the first is 256/4 above its lower
/// bound.
#[test]
fn a_quantile_is_as_far_into_its_bucket_as_its_rank_is_into_the_buckets_count() {
    for (values, quantiles) in [
        (&[1, 2, 3, 3][..], &[(2_500, 1), (5_000, 2), (10_000, 3)][..]),
        (&[1_030], &[(0, 1_152), (10_000, 1_152)]),
        (&[1_030, 1_030, 1_100], &[(3_333, 1_088), (5_000, 1_152), (10_000, 1_216)]),
        (&[3, 3, 3, 1_200], &[(7_500, 3), (7_501, 1_152)]),
    ] {
        let mut lengths = Lengths::default();
        values.iter().for_each(|&ns| lengths.record(ns));
        for &(per_10_000, ns) in quantiles {
            assert_eq!(lengths.quantile(per_10_000), Some(ns), "{per_10_000} of {values:?}");
        }
    }
}
