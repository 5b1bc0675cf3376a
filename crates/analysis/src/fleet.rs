//! Many recordings of many hosts: sides of a comparison, and who stands out.

use crate::diff::{Diff, DiffBlock};
use crate::units::DiffUnit;
use exitscope_stats::off_the_others;

/// Blocks of a side at most: those of one host that follow one another are taken together until no more are left. Bounds
/// what an interval takes.
const BLOCKS: usize = 512;

/// Values from which on it can be said who stands out.
pub const FEWEST: usize = 5;

/// What stands out: a score beyond this is certain at 95 %, of all values together.
pub const STANDS_OUT: f64 = 1.0;

/// The chance that a fleet whose hosts differ by chance alone has one that stands out.
const LEVEL: f64 = 0.05;

/// A side of a comparison: what is drawn as a whole (a host, or a recording of one), with its blocks of time.
/// Each with the name by which it has a counterpart on the other side, if it may have one.
pub fn side(units: Vec<(Option<String>, Vec<DiffBlock>)>) -> Diff {
    let units = at_most(units, BLOCKS);
    let each = (BLOCKS / units.len().max(1)).max(1);
    let mut side = Diff::default();
    for (pair, blocks) in units {
        let group = blocks.len().div_ceil(each).max(1);
        side.add(blocks.chunks(group).map(|blocks| merged(blocks.iter())).collect());
        side.describe(DiffUnit { pair, ..DiffUnit::default() });
    }
    side
}

/// Units, some of them put together if there are more.
fn at_most(units: Vec<(Option<String>, Vec<DiffBlock>)>, most: usize) -> Vec<(Option<String>, Vec<DiffBlock>)> {
    let group = units.len().div_ceil(most).max(1);
    if group == 1 {
        return units;
    }
    units.chunks(group).map(|units| (None, vec![merged(units.iter().flat_map(|unit| &unit.1))])).collect()
}

fn merged<'a>(blocks: impl Iterator<Item = &'a DiffBlock>) -> DiffBlock {
    blocks.fold(DiffBlock::default(), |mut all, block| {
        all.merge(block);
        all
    })
}

/// The median, and how far each value is from all others, in parts of what is certain: by ratios, or by differences if some are nothing.
/// None of fewer than five values.
pub fn scores(values: &[f64]) -> Option<(f64, Vec<f64>)> {
    if values.len() < FEWEST {
        return None;
    }
    let are_ratios = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = values.iter().map(|value| if are_ratios { value.ln() } else { *value }).collect();
    Some((median(values), off_the_others(&scaled, LEVEL)?))
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
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn a_host_stands_out_by_the_ratio_to_all_others() {
        let standing = |values: &[f64]| -> Vec<usize> {
            let (_, scores) = scores(values).unwrap();
            (0..values.len()).filter(|at| scores[*at].abs() > STANDS_OUT).collect()
        };
        let quiet = [100.0, 104.0, 97.0, 101.0, 99.0, 102.0, 98.0];
        assert_eq!(scores(&quiet).unwrap().0, 100.0);
        assert!(standing(&quiet).is_empty());
        for off in [150.0, 65.0] {
            assert_eq!(standing(&[&quiet[..], &[off]].concat()), [7], "{off}");
        }
        // Where hosts differ by much, half as much again is nothing.
        let wide = [100.0, 160.0, 70.0, 120.0, 90.0, 140.0, 60.0, 150.0];
        assert!(standing(&wide).is_empty());
        // The same by ratios, whatever the unit; hosts without exits leave differences.
        let thousand: Vec<f64> = quiet.iter().map(|value| value * 1_000.0).collect();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&scores(&quiet).unwrap().1, &scores(&thousand).unwrap().1));
        assert_eq!(standing(&[0.0, 1.0, 0.0, 2.0, 1.0, 100.0]), [5]);
        assert!(scores(&[1.0, 2.0, 3.0, 40.0]).is_none(), "too few");
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

    /// Hosts that differ among themselves by some 20 %, each recorded twice: by how much the second time costs more, and how much that
    /// differs from host to host, in per cent. Each with its name.
    fn hosts(count: usize, more: f64, seed: u64) -> [Vec<(Option<String>, Vec<DiffBlock>)>; 2] {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let own: Vec<f64> = (0..count).map(|_| 0.2 * normal(&mut random)).collect();
        [0.0, more].map(|more| {
            let unit = |(at, own): (usize, &f64)| {
                let kernel = 1e8 * (own + more + 0.03 * normal(&mut random)).exp();
                let parts = spent(TimePart::Kernel, kernel as u64);
                let cell = ExitStats { count: 100, timed: 100, parts, ..ExitStats::default() };
                let block = DiffBlock { duration: 1_000_000_000, groups: [("msr".to_string(), cell)].into() };
                (Some(at.to_string()), vec![block])
            };
            own.iter().enumerate().map(unit).collect()
        })
    }

    /// Nearly normal: a sum of uniform numbers.
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    /// Of 200 fleets, those of which the cost of all exits certainly changed.
    fn told(make: impl Fn(u64) -> [Vec<(Option<String>, Vec<DiffBlock>)>; 2]) -> usize {
        let is_told = |rows: &[crate::DiffRow]| {
            let verdict = rows[0].changes[0].verdict();
            matches!(verdict, crate::ChangeVerdict::More | crate::ChangeVerdict::Less)
        };
        let fleets = (0..200).map(|seed| make(seed).map(side));
        fleets.filter(|[before, after]| is_told(&after.against(before, 9_500))).count()
    }

    #[test]
    fn hosts_that_only_differ_among_themselves_are_told_apart_no_oftener_than_said() {
        for count in [2, 3, 6, 10] {
            let same = told(|seed| hosts(count, 0.0, seed));
            let other = told(|seed| {
                [hosts(count, 0.0, seed)[0].clone(), named_otherwise(hosts(count, 0.0, seed + 999)[0].clone())]
            });
            assert!(same <= 18 && other <= 18, "{count} hosts: {same} and {other} of 200");
        }
    }

    fn named_otherwise(units: Vec<(Option<String>, Vec<DiffBlock>)>) -> Vec<(Option<String>, Vec<DiffBlock>)> {
        units.into_iter().map(|(name, blocks)| (name.map(|name| format!("other {name}")), blocks)).collect()
    }

    #[test]
    fn hosts_that_are_on_both_sides_are_compared_with_themselves() {
        let [before, after] = hosts(6, 0.07, 1);
        let rows = side(after.clone()).against(&side(before.clone()), 9_500);
        assert_eq!(rows[0].changes[0].units.unwrap().order, crate::UnitOrderKind::Pairs);
        let (six, eight) = (told(|seed| hosts(6, 0.07, seed)), told(|seed| hosts(8, 0.07, seed)));
        assert!(six >= 130 && eight >= 180, "{six} and {eight} of 200");
        let others = told(|seed| {
            let [before, after] = hosts(8, 0.07, seed);
            [before, named_otherwise(after)]
        });
        assert!(others < 30, "hosts of two names have nothing in common: {others} of 200");
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
            let side = side((0..units).map(|at| (None, unit(at))).collect());
            let rows = side.against(&Diff::default(), 9_500);
            assert_eq!(rows[0].counts, (0, count), "{units} units");
        }
    }
}
