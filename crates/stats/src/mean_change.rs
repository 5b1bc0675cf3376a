//! How the mean of a side differs from that of another, of independent values: one a run, or one a host.
//!
//! ```text
//! welch      in no order: Student's t with Welch's degrees of freedom
//! in_turns   a b a b …: Student's t of the differences of neighbours, beside a straight drift
//! in_order   a a … b b …: as welch, and as what is left beside a straight drift that both sides have; both must agree
//! ```
//!
//! Values on a logarithmic scale make differences ratios. Does not know: what is measured, logarithms.

use crate::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A difference that is found in this share of repetitions is called found.
pub const POWER: f64 = 0.8;

/// More values a side than these are never asked for.
const MOST_NEEDED: usize = 10_000;

/// Below this probability a slope within the sides is called a drift.
const DRIFT_LEVEL: f64 = 0.1;

/// Neighbours whose mean squared difference is less than this part of what independent values have follow each other
/// (von Neumann 1941: the ratio to twice the variance is about one of independent values).
const FOLLOWING: f64 = 0.7;

/// A difference of means with how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanChange {
    /// The second side's mean minus the first's.
    pub by: f64,
    /// Values of the side that has fewer.
    pub values: usize,
    first: StudentError,
    /// Where two answers must agree: the other one.
    second: Option<(f64, StudentError)>,
}

/// A standard error and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StudentError {
    error: f64,
    freedom: f64,
}

impl StudentError {
    fn distribution(self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }

    /// How often chance makes as large a difference as this.
    fn p_value(self, by: f64) -> f64 {
        if self.error <= 0.0 {
            return if by == 0.0 { 1.0 } else { 0.0 };
        }
        self.distribution().map_or(1.0, |of| 2.0 * of.cdf(-(by / self.error).abs()))
    }

    /// How far the interval reaches at this level: 0.05 for 95 %.
    fn reach(self, level: f64) -> f64 {
        self.quantile(1.0 - level / 2.0) * self.error
    }

    fn quantile(self, below: f64) -> f64 {
        self.distribution().map_or(f64::INFINITY, |of| of.inverse_cdf(below))
    }

    /// A difference that is found in [`POWER`] of repetitions, by Lehr's sum of two quantiles.
    fn least_found(self, level: f64) -> f64 {
        (self.quantile(1.0 - level / 2.0) + self.quantile(POWER)) * self.error
    }

    /// As of `values` instead of `now` of a side.
    fn of_values(self, now: usize, values: usize) -> StudentError {
        let error = self.error * (now as f64 / values as f64).sqrt();
        StudentError { error, freedom: self.freedom * (values as f64 - 1.0) / (now as f64 - 1.0) }
    }
}

impl MeanChange {
    /// Of two sides in no order; `None` if a side has fewer than two.
    pub fn welch(before: &[f64], after: &[f64]) -> Option<MeanChange> {
        let (old, new) = (Spread::of(before)?, Spread::of(after)?);
        let parts = [old.variance / old.count, new.variance / new.count];
        let sum = parts[0] + parts[1];
        let freedom = match sum > 0.0 {
            true => sum.powi(2) / (parts[0].powi(2) / (old.count - 1.0) + parts[1].powi(2) / (new.count - 1.0)),
            false => old.count + new.count - 2.0,
        };
        let first = StudentError { error: sum.sqrt(), freedom };
        let values = before.len().min(after.len());
        Some(MeanChange { by: new.mean - old.mean, values, first, second: None })
    }

    /// Of pairs; `None` of fewer than two.
    pub fn paired(pairs: &[(f64, f64)]) -> Option<MeanChange> {
        let by: Vec<f64> = pairs.iter().map(|(before, after)| after - before).collect();
        let Spread { count, mean, variance } = Spread::of(&by)?;
        let first = StudentError { error: (variance / count).sqrt(), freedom: count - 1.0 };
        Some(MeanChange { by: mean, values: pairs.len(), first, second: None })
    }

    /// Of values in the order in which they were measured, each with whether it is of the second side, of which each two that
    /// follow each other are one of each side; `None` of fewer than two such pairs.
    pub fn in_turns(ordered: &[(bool, f64)]) -> Option<MeanChange> {
        let drift = Drift::of(ordered)?;
        let value = |at: usize| ordered[at].1 - drift.slope * at as f64;
        let pair = |at: usize| match ordered[at].0 {
            true => (value(at + 1), value(at)),
            false => (value(at), value(at + 1)),
        };
        MeanChange::paired(&(0..ordered.len() / 2).map(|at| pair(2 * at)).collect::<Vec<_>>())
    }

    /// Of values in order, all of the first side first: by Welch, and beside a straight drift. Who asks looks at [`Drift`], too.
    pub fn in_order(ordered: &[(bool, f64)]) -> Option<MeanChange> {
        let side = |wanted: bool| -> Vec<f64> { ordered.iter().filter(|of| of.0 == wanted).map(|of| of.1).collect() };
        let welch = MeanChange::welch(&side(false), &side(true))?;
        Some(MeanChange { second: Some(Drift::of(ordered)?.beside), ..welch })
    }

    /// How often chance makes as large a difference; the larger one of two answers, and 1 if these are of two signs.
    pub fn p_value(&self) -> f64 {
        let first = self.first.p_value(self.by);
        match self.second {
            Some((by, _)) if by * self.by <= 0.0 => 1.0,
            Some((by, error)) => first.max(error.p_value(by)),
            None => first,
        }
    }

    /// The same by the first answer alone: where there are two, the one for which order is of no account.
    pub fn p_value_unordered(&self) -> f64 {
        self.first.p_value(self.by)
    }

    /// Bounds of the difference at this level: 0.05 for 95 %. Those of both answers, where there are two.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let of = |by: f64, error: StudentError| (by - error.reach(level), by + error.reach(level));
        let first = of(self.by, self.first);
        match self.second.map(|(by, error)| of(by, error)) {
            Some(second) => (first.0.min(second.0), first.1.max(second.1)),
            None => first,
        }
    }

    /// The least difference that is found at this level in [`POWER`] of repetitions.
    pub fn least_found(&self, level: f64) -> f64 {
        let first = self.first.least_found(level);
        self.second.map_or(first, |(_, error)| first.max(error.least_found(level)))
    }

    /// Values a side that find a difference as large as this, at this level, in [`POWER`] of repetitions; `None` if no number
    /// does.
    pub fn needed(&self, by: f64, level: f64) -> Option<usize> {
        let finds = |values: usize| {
            let errors = [Some(self.first), self.second.map(|second| second.1)];
            let found = |error: StudentError| error.of_values(self.values, values).least_found(level) <= by.abs();
            errors.into_iter().flatten().all(found)
        };
        // More values never find less.
        let (mut too_few, mut enough) = (1, MOST_NEEDED);
        if !finds(enough) {
            return None;
        }
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            *if finds(middle) { &mut enough } else { &mut too_few } = middle;
        }
        Some(enough)
    }
}

/// What differs along the order of values, the same way within both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// From one value to the next.
    pub slope: f64,
    /// How often chance makes as steep a slope.
    pub p_value: f64,
    /// The mean squared difference of neighbours of a side by twice their variance: about 1 of independent values.
    pub neighbours: f64,
    /// The difference of the sides beside the slope.
    beside: (f64, StudentError),
}

impl Drift {
    /// By least squares, with one slope and a mean for each side; `None` if a side has fewer than two values.
    pub fn of(ordered: &[(bool, f64)]) -> Option<Drift> {
        let side = |wanted: bool| {
            let of = ordered.iter().enumerate().filter(move |(_, of)| of.0 == wanted);
            of.map(|(at, of)| (at as f64, of.1)).collect::<Vec<_>>()
        };
        let (old, new) = (Centered::of(side(false))?, Centered::of(side(true))?);
        let all = || old.points.iter().chain(&new.points);
        let (times, moments) = (all().map(|(at, _)| at * at).sum::<f64>(), all().map(|(at, of)| at * of).sum::<f64>());
        let slope = moments / times;
        let left: f64 = all().map(|(at, of)| (of - slope * at).powi(2)).sum();
        let freedom = ordered.len() as f64 - 3.0;
        let variance = left / freedom;
        let apart = new.center.0 - old.center.0;
        let parts = 1.0 / old.points.len() as f64 + 1.0 / new.points.len() as f64 + apart * apart / times;
        let steps = || [&old, &new].into_iter().flat_map(|of| of.points.windows(2).map(|two| two[1].1 - two[0].1));
        let stepped = steps().map(|by| by * by).sum::<f64>() / steps().count() as f64;
        let spread = all().map(|(_, of)| of * of).sum::<f64>() / (ordered.len() as f64 - 2.0);
        Some(Drift {
            slope,
            p_value: StudentError { error: (variance / times).sqrt(), freedom }.p_value(slope),
            neighbours: if spread > 0.0 { stepped / (2.0 * spread) } else { 1.0 },
            beside: (
                new.center.1 - old.center.1 - slope * apart,
                StudentError { error: (variance * parts).sqrt(), freedom },
            ),
        })
    }

    /// Whether the values follow their order: along a slope, or each its neighbour.
    pub fn is_found(&self) -> bool {
        self.p_value < DRIFT_LEVEL || self.neighbours < FOLLOWING
    }
}

/// Points about their mean.
struct Centered {
    center: (f64, f64),
    points: Vec<(f64, f64)>,
}

impl Centered {
    fn of(points: Vec<(f64, f64)>) -> Option<Centered> {
        let count = points.len() as f64;
        let sum = points.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let center = (sum.0 / count, sum.1 / count);
        let points: Vec<_> = points.into_iter().map(|of| (of.0 - center.0, of.1 - center.1)).collect();
        (points.len() > 1).then_some(Centered { center, points })
    }
}

struct Spread {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (values.len() > 1).then(|| Spread { count, mean, variance: squares / (count - 1.0) })
    }
}

/// Which of several p-values are small enough that at this level none is by chance, by Holm (1979); `None` is a question that
/// could not be asked and takes no part.
pub fn holm(p_values: &[Option<f64>], level: f64) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> = p_values.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut certain = vec![false; p_values.len()];
    for (rank, (at, p)) in order.iter().enumerate() {
        if *p > level / (order.len() - rank) as f64 {
            break;
        }
        certain[*at] = true;
    }
    certain
}

impl Interval {
    /// Bounds that were worked out as real numbers, outwards to whole ones.
    pub fn around((low, high): (f64, f64)) -> Interval {
        Interval { low: low.floor() as i64, high: high.ceil() as i64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 6e-4 * expected.abs().max(1e-3), "{found}, not {expected}");
    }

    /// Hours of sleep gained by ten patients with two drugs (Student 1908), as R prints its `t.test` of them.
    const SLEEP: [(f64, f64); 10] = [
        (0.7, 1.9),
        (-1.6, 0.8),
        (-0.2, 1.1),
        (-1.2, 0.1),
        (-0.1, -0.1),
        (3.4, 4.4),
        (3.7, 5.5),
        (0.8, 1.6),
        (0.0, 4.6),
        (2.0, 3.4),
    ];

    #[test]
    fn welch_and_pairs_are_as_r_prints_them() {
        let (before, after): (Vec<f64>, Vec<f64>) = SLEEP.into_iter().unzip();
        let welch = MeanChange::welch(&before, &after).unwrap();
        near(welch.by, 1.58);
        near(welch.first.freedom, 17.776);
        near(welch.p_value(), 0.07939);
        let (low, high) = welch.interval(0.05);
        near(low, -0.2055);
        near(high, 3.3655);
        let paired = MeanChange::paired(&SLEEP).unwrap();
        near(paired.p_value(), 0.002833);
        let (low, high) = paired.interval(0.05);
        near(low, 0.7001);
        near(high, 2.4599);
        assert!(MeanChange::welch(&[1.0], &[2.0, 3.0]).is_none() && MeanChange::paired(&[(1.0, 2.0)]).is_none());
    }

    /// With one and two degrees of freedom Student's t has a closed form.
    #[test]
    fn two_runs_a_side_are_as_worked_out_by_hand() {
        // Differences 1 and 3: mean 2, standard error 1, one degree of freedom.
        let paired = MeanChange::paired(&[(0.0, 1.0), (0.0, 3.0)]).unwrap();
        near(paired.p_value(), 1.0 - 2.0 / std::f64::consts::PI * 2.0f64.atan());
        near(paired.interval(0.05).1, 2.0 + 12.7062);
        // Both variances 2, standard error the root of 2, two degrees of freedom.
        let welch = MeanChange::welch(&[0.0, 2.0], &[5.0, 7.0]).unwrap();
        let t = 5.0 / 2.0f64.sqrt();
        near(welch.p_value(), 1.0 - t / (2.0 + t * t).sqrt());
    }

    #[test]
    fn values_that_are_all_alike_leave_nothing_to_chance() {
        let alike = MeanChange::welch(&[4.0, 4.0], &[9.0, 9.0]).unwrap();
        assert_eq!((alike.p_value(), alike.interval(0.05)), (0.0, (5.0, 5.0)));
        assert_eq!(MeanChange::welch(&[4.0, 4.0], &[4.0, 4.0]).unwrap().p_value(), 1.0);
    }

    fn ordered(values: &[f64], after: impl Fn(usize) -> bool) -> Vec<(bool, f64)> {
        values.iter().enumerate().map(|(at, value)| (after(at), *value)).collect()
    }

    /// Against the normal equations of `1, side, order`, solved in fractions.
    #[test]
    fn what_is_left_beside_a_drift_is_as_least_squares_says() {
        let values = ordered(&[1.0, 2.0, 4.0, 7.0, 7.0, 9.0], |at| at > 2);
        let drift = Drift::of(&values).unwrap();
        near(drift.slope, 1.25);
        near(drift.p_value, 0.025259);
        near(drift.beside.0, 1.583333);
        near(drift.beside.1.p_value(drift.beside.0), 0.220559);
        let change = MeanChange::in_order(&values).unwrap();
        near(change.p_value(), 0.220559);
        let welch = MeanChange::welch(&[1.0, 2.0, 4.0], &[7.0, 7.0, 9.0]).unwrap();
        let (low, high) = change.interval(0.05);
        assert!(low < 0.0 && welch.interval(0.05).0 > 0.0 && high >= welch.interval(0.05).1);
        // What drifts alone is no change: a Welch test finds one.
        let drifts = ordered(&[1.0, 2.1, 2.9, 4.1, 4.9, 6.0], |at| at > 2);
        assert!(MeanChange::in_order(&drifts).unwrap().p_value() > 0.05);
        assert!(MeanChange::welch(&[1.0, 2.1, 2.9], &[4.1, 4.9, 6.0]).unwrap().p_value() < 0.05);
        assert!(Drift::of(&drifts).unwrap().is_found());
    }

    #[test]
    fn sides_in_turns_are_compared_pair_by_pair_beside_a_drift() {
        let values = [10.0, 10.9, 12.1, 12.9, 14.2, 15.0, 15.9, 17.0];
        let turns = ordered(&values, |at| at % 2 == 1);
        let plain: Vec<(f64, f64)> = values.chunks(2).map(|two| (two[0], two[1])).collect();
        assert!(
            MeanChange::paired(&plain).unwrap().p_value() < 0.01,
            "each is one step of the drift after its neighbour"
        );
        assert!(MeanChange::in_turns(&turns).unwrap().p_value() > 0.05);
        // Whichever comes first in its pair.
        let mut shifted: Vec<f64> = values.to_vec();
        let after = |at: usize| matches!(at % 4, 1 | 2);
        (0..8).filter(|at| after(*at)).for_each(|at| shifted[at] += 3.0);
        let found = MeanChange::in_turns(&ordered(&shifted, after)).unwrap();
        assert!(found.p_value() < 0.001 && (found.by - 3.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn neighbours_that_follow_each_other_are_a_drift() {
        let walk = [0.0, 0.3, 0.5, 0.2, -0.1, 0.0, 0.2, 0.6, 0.8, 0.6];
        let following = Drift::of(&ordered(&walk, |at| at > 4)).unwrap();
        assert!(following.neighbours < FOLLOWING && following.is_found(), "{following:?}");
        let jumps = [0.0, 0.3, -0.4, 0.2, -0.1, 0.3, -0.2, 0.3, -0.3, 0.1];
        assert!(!Drift::of(&ordered(&jumps, |at| at > 4)).unwrap().is_found());
    }

    /// Cohen 1988, and G*Power: half a standard deviation takes 34 pairs, or 64 a side.
    #[test]
    fn numbers_that_find_half_a_deviation_are_the_published_ones() {
        let pairs: Vec<(f64, f64)> = (0..10).map(|at| (0.0, if at % 2 == 0 { 1.0 } else { -1.0 })).collect();
        let deviation = (10.0f64 / 9.0).sqrt();
        assert_eq!(MeanChange::paired(&pairs).unwrap().needed(deviation / 2.0, 0.05), Some(34));
        let side: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let welch = MeanChange::welch(&side, &side).unwrap();
        assert_eq!(welch.needed(deviation / 2.0, 0.05), Some(64));
        assert_eq!(welch.needed(1e-9, 0.05), None);
        let least = welch.least_found(0.05);
        assert!(welch.needed(least * 1.01, 0.05).unwrap() <= 10 && welch.needed(least * 0.99, 0.05).unwrap() > 10);
    }

    #[test]
    fn several_questions_are_corrected_by_holm() {
        let ask = |p: &[f64]| holm(&p.iter().map(|p| Some(*p)).collect::<Vec<_>>(), 0.05);
        assert_eq!(ask(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
        assert_eq!(ask(&[0.04]), [true]);
        assert_eq!(ask(&[0.02, 0.026]), [true, true], "the second needs no half");
        assert_eq!(holm(&[None, Some(0.04), None], 0.05), [false, true, false]);
    }

    proptest! {
        #[test]
        fn an_interval_excludes_zero_where_the_p_value_is_below_its_level(
            before in proptest::collection::vec(-5.0f64..5.0, 2..9),
            after in proptest::collection::vec(-5.0f64..5.0, 2..9),
            in_order: bool,
        ) {
            let ordered: Vec<_> = before.iter().map(|of| (false, *of)).chain(after.iter().map(|of| (true, *of))).collect();
            let change = match in_order {
                true => MeanChange::in_order(&ordered),
                false => MeanChange::welch(&before, &after),
            };
            let change = change.unwrap();
            let (p, (low, high)) = (change.p_value(), change.interval(0.05));
            prop_assume!((p - 0.05).abs() > 1e-6);
            prop_assert_eq!(p < 0.05, low > 0.0 || high < 0.0);
        }
    }
}
