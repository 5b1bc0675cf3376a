//! Intervals of what has bounds: a share of things that were counted in rounds, and a ratio.
//!
//! *Share.* Wilson's interval (E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927) of
//! all rounds together, which stays within 0 and 1. Things of one round are not independent: where shares differ from round to round
//! by more than chance makes of so many things, they count as fewer (the effective number of a cluster sample, L. Kish, "Survey
//! Sampling", 1965, 8.2), and Student's t stands for the normal quantile, as that is known from the rounds alone.
//!
//! *Ratio.* The geometric mean, with Student's interval of the logarithms: twice and half are equally far from 1, and no bound is below
//! zero. Where the ratio is the best of several, each had its chance: the level is divided by their number (Bonferroni).
//!
//! *Where they are exact.* For logarithms that are normal; of shares for many rounds.

use crate::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What Student's t of so many values stays within, on either side, at this confidence divided among `choices`.
fn student(values: usize, choices: usize) -> Option<f64> {
    let freedom = values.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let level = (1.0 - Estimate::CONFIDENCE / 100.0) / choices.max(1) as f64;
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - level / 2.0))
}

impl Estimate {
    /// The share of the parts in the wholes of all rounds, each a pair of counts. Rounds without a whole tell nothing. `None` if none
    /// has one.
    pub fn of_counts(rounds: &[(u64, u64)]) -> Option<Estimate> {
        let counts = rounds.iter().filter(|(_, whole)| *whole > 0).map(|&(part, whole)| (part as f64, whole as f64));
        let rounds: Vec<(f64, f64)> = counts.collect();
        let number = rounds.iter().map(|(_, whole)| whole).sum::<f64>();
        of_parts(&rounds, number)
    }

    /// The mean of shares that are of no counted things, like those of time: each round counts the same.
    pub fn of_shares(rounds: &[f64]) -> Option<Estimate> {
        let parts: Vec<(f64, f64)> = rounds.iter().map(|share| (*share, 1.0)).collect();
        of_parts(&parts, f64::INFINITY)
    }

    /// The geometric mean of ratios, and its interval if it was chosen as the best of so many. Ratios that are not positive tell nothing.
    /// `None` if none is.
    pub fn of_ratios(ratios: &[f64], choices: usize) -> Option<Estimate> {
        let logs: Vec<f64> =
            ratios.iter().filter(|ratio| ratio.is_finite() && **ratio > 0.0).map(|ratio| ratio.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = student(logs.len(), choices).map(|student| student * (variance / count).sqrt());
        (count > 0.0).then(|| Estimate {
            mean: mean.exp(),
            interval: half.map(|half| ((mean - half).exp(), (mean + half).exp())),
        })
    }
}

/// Wilson's interval of parts in wholes, of `number` things or of as many as the rounds' differences leave of them.
fn of_parts(rounds: &[(f64, f64)], number: f64) -> Option<Estimate> {
    let wholes: f64 = rounds.iter().map(|(_, whole)| whole).sum();
    if wholes <= 0.0 {
        return None;
    }
    let share = rounds.iter().map(|(part, _)| part).sum::<f64>() / wholes;
    let Some(student) = student(rounds.len(), 1) else {
        return Some(Estimate { mean: share, interval: None });
    };
    let count = rounds.len() as f64;
    let squares: f64 = rounds.iter().map(|(part, whole)| (part - share * whole).powi(2)).sum();
    let variance = squares * count / (count - 1.0) / (wholes * wholes);
    let effective = if variance > 0.0 { (share * (1.0 - share) / variance).min(number) } else { number };
    let (low, high) = wilson(share, effective, student);
    Some(Estimate { mean: share, interval: Some((low, high)) })
}

fn wilson(share: f64, number: f64, quantile: f64) -> (f64, f64) {
    if number.is_infinite() {
        return (share, share);
    }
    let square = quantile * quantile / number;
    let middle = share + square / 2.0;
    let half = (square * (share * (1.0 - share) + square / 4.0)).sqrt();
    let bound = |end: f64| (end / (1.0 + square)).clamp(0.0, 1.0);
    (bound(middle - half), bound(middle + half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn near(found: (f64, f64), wanted: (f64, f64)) -> bool {
        (found.0 - wanted.0).abs() < 1e-3 && (found.1 - wanted.1).abs() < 1e-3
    }

    #[test]
    fn wilsons_interval_is_as_worked_out_by_hand() {
        // 10 of 100 at 1.96: (0.1 + 0.019208 ± 1.96 √(0.0009 + 0.00009604)) / 1.038416.
        assert!(near(wilson(0.1, 100.0, 1.96), (0.0552, 0.1744)));
        assert!(near(wilson(0.0, 10.0, 1.96), (0.0, 0.2775)), "never seen in ten is not never");
        assert_eq!(wilson(0.25, f64::INFINITY, 1.96), (0.25, 0.25));
    }

    #[test]
    fn a_share_stays_one_however_much_rounds_differ() {
        let of = |rounds: &[(u64, u64)]| Estimate::of_counts(rounds).unwrap();
        // By Student's interval of the two shares: 50 % ± 635 %.
        let wild = of(&[(0, 100), (100, 100)]);
        let (low, high) = wild.interval.unwrap();
        assert_eq!(wild.mean, 0.5);
        assert!((0.0..0.05).contains(&low) && (0.95..=1.0).contains(&high), "{low} {high}");
        // As many things in as many rounds, which agree.
        let (low, high) = of(&[(500, 1_000), (510, 1_000), (490, 1_000), (500, 1_000)]).interval.unwrap();
        assert!(0.46 < low && low < 0.5 && 0.5 < high && high < 0.54, "{low} {high}");
        assert_eq!(Estimate::of_counts(&[(0, 0), (0, 0)]), None);
        assert_eq!(of(&[(1, 4)]).interval, None, "one round does not say how rounds differ");
        let (low, high) = Estimate::of_shares(&[0.2, 0.4, 0.3]).unwrap().interval.unwrap();
        assert!(0.0 < low && low < 0.3 && 0.3 < high && high < 1.0, "{low} {high}");
    }

    #[test]
    fn a_ratio_and_its_inverse_have_the_inverse_interval() {
        let (low, high) = Estimate::of_ratios(&[2.0, 4.0, 8.0], 1).unwrap().interval.unwrap();
        // Mean of logarithms ln 4, standard deviation ln 2, t 4.303: 4 times e to ± 4.303 ln 2 / √3.
        assert!(near((low, high), (4.0 / 5.5950, 4.0 * 5.5950)), "{low} {high}");
        let inverse = Estimate::of_ratios(&[0.5, 0.25, 0.125], 1).unwrap();
        assert!((inverse.mean - 0.25).abs() < 1e-12 && near(inverse.interval.unwrap(), (1.0 / high, 1.0 / low)));
        assert_eq!(Estimate::of_ratios(&[0.0, f64::INFINITY, f64::NAN], 1), None);
        assert_eq!(Estimate::of_ratios(&[3.0], 1).unwrap().interval, None);
    }

    /// Of 500 choices of the best of `choices` settings that are all worth nothing, those that seem worth something.
    fn alarms(choices: usize, corrected: usize) -> usize {
        let mut random = Pcg64Mcg::seed_from_u64(56);
        let mut ratios = || -> Vec<f64> {
            (0..6).map(|_| ((0..12).map(|_| random.random::<f64>()).sum::<f64>() * 0.1 - 0.6).exp()).collect()
        };
        let mut is_alarm = || {
            let all: Vec<Vec<f64>> = (0..choices).map(|_| ratios()).collect();
            let best = all.iter().map(|of| Estimate::of_ratios(of, corrected).unwrap());
            best.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap().interval.unwrap().0 > 1.0
        };
        (0..500).filter(|_| is_alarm()).count()
    }

    #[test]
    fn the_best_of_several_that_are_worth_nothing_is_seldom_found_worth_something() {
        // A chance of 2.5 %, as one side alone is looked at, gives more than 24 of 500 in less than one of a thousand cases.
        assert!(alarms(1, 1) <= 24 && alarms(12, 12) <= 24);
        assert!(alarms(12, 1) > 60, "without the correction it would be");
    }
}
