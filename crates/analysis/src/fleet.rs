//! Many recordings of many hosts: sides of a comparison, and who stands out.

use crate::diff::{Diff, DiffBlock};

/// Blocks of a side at most: those of one host that follow one another are taken together until no more are left. Bounds
/// what an interval takes.
const BLOCKS: usize = 512;

/// Values from which on it can be said who stands out; and hosts of a side from which on a difference can be called certain.
/// A bootstrap that draws from two hosts draws the same one twice every other time, so that its intervals are too narrow: with
/// two on a side that differ among themselves, three of ten comparisons of the same with the same find a difference, at a
/// confidence of 99 %. With five, one of sixteen does: the tests measure it.
pub const FEWEST: usize = 5;

/// What stands out: a modified z-score of more (Iglewicz and Hoaglin 1993; NIST/SEMATECH e-Handbook of Statistical Methods,
/// 1.3.5.17).
pub const STANDS_OUT: f64 = 3.5;

/// A side of a comparison: what is drawn as a whole (a host, or a recording of one), with its blocks of time.
pub fn side(units: Vec<Vec<DiffBlock>>) -> Diff {
    let units = at_most(units, BLOCKS);
    let each = (BLOCKS / units.len().max(1)).max(1);
    let mut side = Diff::default();
    for blocks in units {
        let group = blocks.len().div_ceil(each).max(1);
        side.add(blocks.chunks(group).map(|blocks| merged(blocks.iter())).collect());
    }
    side
}

/// Units, some of them put together if there are more.
fn at_most(units: Vec<Vec<DiffBlock>>, most: usize) -> Vec<Vec<DiffBlock>> {
    let group = units.len().div_ceil(most).max(1);
    if group == 1 {
        return units;
    }
    units.chunks(group).map(|units| vec![merged(units.iter().flatten())]).collect()
}

fn merged<'a>(blocks: impl Iterator<Item = &'a DiffBlock>) -> DiffBlock {
    blocks.fold(DiffBlock::default(), |mut all, block| {
        all.merge(block);
        all
    })
}

/// The median, and how far each value is from it: 0.6745 times its distance, by the median of all distances. None of fewer
/// than five values, or if more than half of them are the same.
pub fn scores(values: &[f64]) -> Option<(f64, Vec<f64>)> {
    if values.len() < FEWEST {
        return None;
    }
    let center = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    let usual = median(&distances);
    (usual > 0.0).then(|| (center, values.iter().map(|value| 0.6745 * (value - center) / usual).collect()))
}

/// The middle value; the mean of the two in the middle of an even number of them.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitStats;
    use crate::test_exits::spent;
    use exitscope_model::TimePart;

    #[test]
    fn scores_are_as_worked_out_by_hand() {
        // Median 3, distances 2 1 0 1 97, their median 1.
        let (center, scores) = scores(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert_eq!(center, 3.0);
        assert!((scores[4] - 0.6745 * 97.0).abs() < 1e-9 && (scores[0] + 1.349).abs() < 1e-9, "{scores:?}");
        // Median 7, distances 6 3 1 1 3 33, their median 3.
        let (center, scores) = super::scores(&[1.0, 4.0, 6.0, 8.0, 10.0, 40.0]).unwrap();
        let expected = [-6.0, -3.0, -1.0, 1.0, 3.0, 33.0].map(|from_center| 0.6745 * from_center / 3.0);
        assert_eq!((center, scores.len()), (7.0, 6));
        assert!(scores.iter().zip(expected).all(|(score, expected)| (score - expected).abs() < 1e-9), "{scores:?}");
        assert!(super::scores(&[1.0, 1.0, 1.0, 1.0, 5.0]).is_none(), "no usual distance");
        assert!(super::scores(&[1.0, 2.0, 3.0, 40.0]).is_none(), "too few");
    }

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_both() {
        for (values, middle) in [
            (&[][..], 0.0),
            (&[7.5], 7.5),
            (&[9.0, 3.0, 4.0], 4.0),
            (&[9.0, 1.0, 4.0, 6.0], 5.0),
            (&[9.0, -1.0, 4.0, 6.0, 30.0], 6.0),
            (&[12.0, 20.0], 16.0),
        ] {
            assert_eq!(median(values), middle, "{values:?}");
        }
    }

    /// The share of comparisons of the same with the same that find a difference in cost, with so many hosts on a side which
    /// differ among themselves, at the confidence that `fleet report` has by default.
    fn false_alarms(hosts: usize) -> f64 {
        const TRIES: usize = 150;
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 10_000
        };
        let mut units = || {
            let mut host = || {
                // A sum of uniform numbers is nearly normal: hosts differ by some 20 %, stretches of time by a few.
                let own = 60_000 + (0..8).map(|_| random()).sum::<u64>();
                let block = |kernel: u64| DiffBlock {
                    duration: 1_000_000_000,
                    groups: [(
                        "msr".to_string(),
                        ExitStats {
                            count: 100,
                            timed: 100,
                            parts: spent(TimePart::Kernel, kernel),
                            ..ExitStats::default()
                        },
                    )]
                    .into(),
                };
                (0..16).map(|_| block(own + random() / 4)).collect::<Vec<_>>()
            };
            (0..hosts).map(|_| host()).collect::<Vec<_>>()
        };
        let differs = |rows: &[crate::DiffRow]| {
            let cost = rows[0].changes.iter().find(|change| change.measure == crate::DiffMeasure::Cost).unwrap();
            matches!(cost.verdict(), crate::ChangeVerdict::More | crate::ChangeVerdict::Less)
        };
        let found = (0..TRIES).filter(|_| differs(&side(units()).against(&side(units()), 9_900))).count();
        found as f64 / TRIES as f64
    }

    #[test]
    fn two_hosts_a_side_find_differences_that_are_not_there_more_than_twice_as_often_as_the_fewest_that_may() {
        let (two, fewest) = (false_alarms(2), false_alarms(FEWEST));
        assert!(two > 0.15 && fewest < two / 2.0, "{two} {fewest}");
    }

    #[test]
    fn nothing_is_lost_where_blocks_are_taken_together() {
        let cell = |count| ExitStats {
            count,
            timed: count,
            parts: spent(TimePart::Kernel, 10 * count),
            ..ExitStats::default()
        };
        let block = |count| DiffBlock { duration: 1_000_000, groups: [("msr".to_string(), cell(count))].into() };
        for units in [1, 3, 700] {
            let unit = |at: u64| (0..40).map(|n| block(n + at % 2)).collect::<Vec<_>>();
            let count: u64 = (0..units).map(|at| 40 * 39 / 2 + 40 * (at % 2)).sum();
            let side = side((0..units).map(unit).collect());
            let rows = side.against(&Diff::default(), 9_500);
            assert_eq!(rows[0].counts, (0, count), "{units} units");
        }
    }
}
