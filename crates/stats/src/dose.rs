//! How much a metric changes with the size of a cause that is set on purpose, by blocks in which each size has its turn.
//!
//! ```text
//! block: (dose, value), … ─► slope of the values over the doses ÷ mean of the values ─► ConfidenceSequence
//! ```
//!
//! The slope of a block compares each dose with its mirror: the smallest with the largest, the second with the last but one. With
//! w the half of the difference between a dose and its mirror, it is Σwv / Σwd. On a straight line that is the line's slope, whatever
//! the doses are. What drifts from block to block moves all values of a block alike and leaves its slope alone; what drifts within
//! a block does so too if each size has its turns before and after the others.
//!
//! *Why not the line of least squares.* If doses do nothing, any order of a block's values is as likely as any other, and so is the
//! order in which each dose has its mirror's value, whose slope is the opposite. So the slopes are 0 on average and as likely above 0 as
//! below, by any distance, however the values are distributed: what the [`ConfidenceSequence`] wants. Least squares weighs doses by
//! their distance from their mean, which is not symmetric for doses like 0, 0.2, 1 and 5: a single slow turn in each block gives a large
//! slope up with a chance of a quarter, else a small one down, and in one trial of eight that is taken for an effect at a
//! bound of one in twenty. For these doses, the mirror costs a fifth of the precision; for doses in equal steps, and for two, nothing.
//!
//! *Why it is divided by the block's mean, and not by the value without a dose.* The mean is the same in all orders of the values;
//! divided by one of the values, slopes would not be 0 on average. What a slope r around the mean is around the value at dose 0
//! follows from the line, v̄ = v₀ + r v̄ d̄: r / (1 - r d̄), which grows with r, so that bounds of the one are bounds of the other.
//!
//! *What it does not tell.* Whether the line is straight; and what comes of doses below those that were given.

use crate::ConfidenceSequence;

/// A slope, in parts of the metric's value at dose 0 for each unit of dose: 1e-5 per ns is 0.1 % for 100 ns.
#[derive(Clone, Copy, Debug)]
pub struct DoseSlope {
    slopes: ConfidenceSequence,
    /// Of the blocks' mean doses.
    sum_of_doses: f64,
}

impl DoseSlope {
    /// Of no block yet. `alpha` is the chance that any of the intervals leaves out the true slope.
    pub fn new(alpha: f64) -> DoseSlope {
        DoseSlope { slopes: ConfidenceSequence::new(alpha), sum_of_doses: 0.0 }
    }

    /// Takes a block: doses, as they were achieved, and values, which are not below 0. Returns whether it tells of a slope: not if
    /// all its doses are the same or all its values 0.
    pub fn push(&mut self, block: &[(f64, f64)]) -> bool {
        let Some((dose, slope)) = relative_slope(block) else { return false };
        self.slopes.push(slope);
        self.sum_of_doses += dose;
        true
    }

    /// Blocks so far.
    pub fn blocks(&self) -> u64 {
        self.slopes.count()
    }

    /// The estimate; `None` of no block.
    pub fn slope(&self) -> Option<f64> {
        self.slopes.mean().map(|slope| self.at_dose_0(slope))
    }

    /// Bounds of the slope, at whatever moment one looks; the upper one may be infinite. `None` while nothing is excluded.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.slopes.interval().map(|(low, high)| (self.at_dose_0(low), self.at_dose_0(high)))
    }

    /// A slope around the blocks' means as one around the value at dose 0.
    fn at_dose_0(&self, slope: f64) -> f64 {
        let left = 1.0 - slope * self.sum_of_doses / self.blocks() as f64;
        if left > 0.0 { slope / left } else { f64::INFINITY }
    }
}

/// The mean dose of a block, and the slope of its values in parts of their mean.
fn relative_slope(block: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = block.len() as f64;
    let dose = block.iter().map(|point| point.0).sum::<f64>() / count;
    let value = block.iter().map(|point| point.1).sum::<f64>() / count;
    let mut ordered = block.to_vec();
    ordered.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mirrored = ordered.iter().zip(ordered.iter().rev());
    let (values, doses) = mirrored.fold((0.0, 0.0), |(values, doses), (point, mirror)| {
        let weight = (point.0 - mirror.0) / 2.0;
        (values + weight * point.1, doses + weight * point.0)
    });
    let slope = values / doses / value;
    slope.is_finite().then_some((dose, slope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const DOSES: [f64; 4] = [0.0, 200.0, 1_000.0, 5_000.0];

    /// A block in which each dose has its turn, and then in reverse order.
    fn block(mut value: impl FnMut(usize, f64) -> f64) -> Vec<(f64, f64)> {
        let order = DOSES.into_iter().chain(DOSES.into_iter().rev());
        order.enumerate().map(|(turn, dose)| (dose, value(turn, dose))).collect()
    }

    /// Blocks of a metric that is 100 without a dose, grows by `slope` of that, drifts, and spreads by `spread` of its value.
    fn measured(slope: f64, spread: f64, blocks: u32, seed: u64) -> DoseSlope {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut measured = DoseSlope::new(0.05);
        for number in 0..blocks {
            let level = 100.0 * (1.0 + f64::from(number) / 50.0);
            let mut noise = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            assert!(measured.push(&block(|turn, dose| {
                let drift = 1.0 + turn as f64 / 100.0;
                level * drift * (1.0 + slope * dose) * (1.0 + spread * noise())
            })));
        }
        measured
    }

    #[test]
    fn a_straight_line_has_its_slope_in_parts_of_the_value_at_dose_0() {
        for slope in [0.0, 8e-5, -1e-4, 4e-3] {
            let mut of = DoseSlope::new(0.05);
            for level in (1..=8).map(f64::from) {
                assert!(of.push(&block(|_, dose| level * (1.0 + slope * dose))));
            }
            let (low, high) = of.interval().unwrap();
            let found = [of.slope().unwrap(), low, high];
            assert!(found.iter().all(|found| (found - slope).abs() < 1e-9), "{slope}: {found:?}");
        }
    }

    #[test]
    fn what_drifts_through_a_block_is_not_taken_for_an_effect() {
        let mut of = DoseSlope::new(0.05);
        of.push(&block(|turn, _| 100.0 + turn as f64));
        assert!(of.slope().unwrap().abs() < 1e-12);
    }

    #[test]
    fn a_block_without_two_doses_or_without_values_tells_nothing() {
        let mut of = DoseSlope::new(0.05);
        let cases: [&[(f64, f64)]; 4] = [&[], &[(1.0, 2.0)], &[(3.0, 2.0), (3.0, 4.0)], &[(0.0, 0.0), (5.0, 0.0)]];
        assert!(cases.iter().all(|case| !of.push(case)));
        assert_eq!((of.blocks(), of.slope(), of.interval()), (0, None, None));
    }

    #[test]
    fn an_order_of_values_and_its_mirror_have_opposite_slopes() {
        let values = [1.0, 2.0, 40.0, 3.0];
        let slope = |values: [f64; 4]| {
            let points: Vec<(f64, f64)> = DOSES.into_iter().zip(values).collect();
            relative_slope(&points).unwrap().1
        };
        for rotated in 0..4 {
            let mut values = values;
            values.rotate_left(rotated);
            let [a, b, c, d] = values;
            assert!((slope([a, b, c, d]) + slope([d, c, b, a])).abs() < 1e-15);
        }
    }

    /// How many of `series` ever have an interval without the true slope, where one turn of each block is `off` times as large.
    fn left_out_with_spikes(slope: f64, off: f64, series: u64) -> usize {
        let is_left_out = |seed: &u64| {
            let mut random = Pcg64Mcg::seed_from_u64(*seed);
            let mut measured = DoseSlope::new(0.05);
            (0..40).any(|_| {
                let mut doses = DOSES;
                for at in (1..doses.len()).rev() {
                    doses.swap(at, random.random_range(0..=at));
                }
                let spike = random.random_range(0..2 * doses.len());
                let turns = doses.into_iter().chain(doses.into_iter().rev()).enumerate();
                let value = |(turn, dose): (usize, f64)| {
                    let noise = 1.0 + 0.01 * (random.random::<f64>() - 0.5);
                    (dose, 100.0 * (1.0 + slope * dose) * noise * if turn == spike { off } else { 1.0 })
                };
                measured.push(&turns.map(value).collect::<Vec<_>>());
                measured.interval().is_some_and(|(low, high)| slope < low || slope > high)
            })
        };
        (0..series).filter(is_left_out).count()
    }

    #[test]
    fn a_slow_turn_in_each_block_is_taken_for_a_slope_no_more_often_than_alpha() {
        // A chance of 5 % gives more than 65 of 1000 in less than two of a hundred cases.
        for (slope, off) in [(0.0, 1.6), (0.0, 5.0), (2.2e-5, 1.6)] {
            let found = left_out_with_spikes(slope, off, 1_000);
            assert!(found <= 65, "{slope}, {off}: {found} of 1000");
        }
    }

    #[test]
    fn bounds_beyond_which_the_line_would_be_below_0_are_infinite() {
        let mut of = DoseSlope::new(0.05);
        of.push(&[(1_000.0, 0.0), (1_010.0, 1.0)]);
        assert_eq!(of.slope(), Some(f64::INFINITY));
    }

    /// How many of `series` ever have an interval without the true slope, in 60 blocks.
    fn left_out(slope: f64, series: u64) -> usize {
        let is_left_out = |seed: &u64| {
            let ever = |blocks| measured(slope, 0.03, blocks, *seed).interval();
            (8..=60).step_by(4).filter_map(ever).any(|(low, high)| slope < low || slope > high)
        };
        (0..series).filter(is_left_out).count()
    }

    #[test]
    fn intervals_leave_out_the_true_slope_no_more_often_than_alpha() {
        for slope in [0.0, 2e-5, -2e-5, 1e-4] {
            // A chance of 5 % gives more than 30 of 400 in one of a hundred cases.
            let found = left_out(slope, 400);
            assert!(found <= 30, "{slope}: {found} of 400");
        }
    }

    #[test]
    fn a_slope_is_found_where_there_is_one() {
        // 1 % for 1 us, of a metric that spreads by 3 %.
        let found =
            (0..100).filter(|&seed| measured(1e-5, 0.03, 60, seed).interval().is_some_and(|(low, _)| low > 0.0));
        assert!(found.count() >= 95);
    }
}
