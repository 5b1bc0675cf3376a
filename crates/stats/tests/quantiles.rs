//! Quantiles within a bucket, to the number.

use exitscope_stats::{Buckets, FineBuckets};
use std::path::Path;

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

/// `quantiles.json` is what `web/test/quantiles.test.mjs` holds the page's percentiles to.
#[test]
fn the_page_is_held_to_what_is_found_here() {
    // Lengths of a few doublings each, those of all places of a doubling; then counts of which products exceed 2^53.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut cases: Vec<Vec<(u64, u64)>> = vec![vec![(0, 3)], vec![(1_030, 1)], vec![(0, 2), (63, 1), (1 << 40, 1)]];
    for size in [1, 2, 5, 31, 32, 33, 100, 300] {
        cases.push((0..size).map(|_| (random() >> (24 + random() % 36), 1)).collect());
    }
    cases.push((0..20).map(|_| (random() >> (16 + random() % 8), random() >> 24)).collect());
    let rows = cases.iter().flat_map(|case| [row::<3>(case), row::<5>(case)]).collect::<Vec<_>>();
    let json = format!("[\n{}\n]\n", rows.join(",\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quantiles.json");
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&json) {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quantiles.json");
        std::fs::write(&new, json).unwrap();
        panic!("{} is not current; {} is", path.display(), new.display());
    }
}

/// Values and how often each comes, as buckets; and some quantiles of them.
fn row<const SUB_BITS: u32>(values: &[(u64, u64)]) -> String {
    let mut counted = Buckets::<SUB_BITS, 64>::default();
    values.iter().for_each(|&(value, times)| counted.record_many(value, times));
    let pairs = |pairs: &mut dyn Iterator<Item = (u64, u64)>| {
        pairs.map(|(one, other)| format!("[{one},{other}]")).collect::<Vec<_>>().join(",")
    };
    let buckets = pairs(&mut counted.buckets().map(|(low, _, count)| (low, count)));
    let ranks = [0, 1, 100, 1_234, 2_500, 5_000, 7_500, 9_000, 9_900, 9_990, 9_999, 10_000];
    let quantiles = pairs(&mut ranks.iter().map(|&rank| (rank, counted.quantile(rank).unwrap())));
    format!(r#"{{"bits":{SUB_BITS},"buckets":[{buckets}],"quantiles":[{quantiles}]}}"#)
}
