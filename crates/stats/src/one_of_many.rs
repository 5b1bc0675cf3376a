//! Whether one of several values is off all others by more than chance makes of values that differ among themselves as these do.
//!
//! Each value is compared with the others alone: Student's t of a new value, (x - m) / (s √(1 + 1/k)) with mean m, standard deviation s
//! and number k of the others, k - 1 degrees of freedom (F. E. Grubbs, "Procedures for detecting outlying observations in samples",
//! Technometrics 11, 1969, has the same test by another figure). Any of n values may be the one: each has its n-th part of the level (C. E.
//! Bonferroni, 1936). A modified z-score above 3.5 (median and median distance) has no stated chance of a false alarm.
//!
//! *Where it is exact.* For normal values, up to Bonferroni's bound. Two that are far off on the same side hide each other.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// How far each value is from the others, in parts of what is certain at this level (0.05 for 95 %, of all values together): beyond 1 or
/// -1 it is not chance. 0 where the others do not differ; `None` of fewer than three values.
pub fn off_the_others(values: &[f64], level: f64) -> Option<Vec<f64>> {
    let others = values.len().checked_sub(1).filter(|others| *others > 1)? as f64;
    let student = StudentsT::new(0.0, 1.0, others - 1.0).ok()?;
    let certain = student.inverse_cdf(1.0 - level / 2.0 / values.len() as f64);
    let score = |at: usize| {
        let rest = || values.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, value)| *value);
        let mean = rest().sum::<f64>() / others;
        let variance = rest().map(|value| (value - mean).powi(2)).sum::<f64>() / (others - 1.0);
        let error = (variance * (1.0 + 1.0 / others)).sqrt();
        if error > 0.0 { (values[at] - mean) / error / certain } else { 0.0 }
    };
    Some((0..values.len()).map(score).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// Nearly normal: a sum of uniform numbers.
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn a_score_is_as_worked_out_by_hand() {
        // 9 beside 1, 2, 3, 4: mean 2.5, standard deviation 1.2910, so t is 6.5 / (1.2910 √1.25) = 4.5033. Of five values, t with
        // three degrees of freedom at 1 - 0.005 is 5.8409 (tables).
        let scores = off_the_others(&[1.0, 2.0, 9.0, 3.0, 4.0], 0.05).unwrap();
        assert!((scores[2] - 4.5033 / 5.8409).abs() < 1e-4, "{scores:?}");
        let turned: Vec<f64> = off_the_others(&[-1.0, -2.0, -9.0, -3.0, -4.0], 0.05).unwrap();
        assert!(scores.iter().zip(&turned).all(|(up, down)| (up + down).abs() < 1e-12));
        assert_eq!(off_the_others(&[1.0, 1.0, 1.0, 5.0], 0.05).unwrap()[3], 0.0, "the others do not differ");
        assert_eq!(off_the_others(&[1.0, 2.0], 0.05), None);
    }

    /// Of 400 series of so many values, those of which one is named; the first is off by so many standard deviations.
    fn named(count: usize, off: f64, is_named: impl Fn(&[f64]) -> bool) -> usize {
        let mut random = Pcg64Mcg::seed_from_u64(52);
        let mut series =
            || -> Vec<f64> { (0..count).map(|at| normal(&mut random) + if at == 0 { off } else { 0.0 }).collect() };
        (0..400).filter(|_| is_named(&off_the_others(&series(), 0.05).unwrap())).count()
    }

    #[test]
    fn of_values_that_differ_by_chance_one_is_named_as_seldom_as_is_said() {
        for count in [3, 5, 8, 20, 60] {
            let alarms = named(count, 0.0, |scores| scores.iter().any(|score| score.abs() > 1.0));
            // A chance of 5 % gives more than 31 of 400 in less than one of a hundred cases.
            assert!(alarms <= 31, "{count} values: {alarms} of 400");
        }
    }

    #[test]
    fn a_value_far_off_is_named_and_the_more_others_there_are_the_less_far_it_has_to_be() {
        for (count, off) in [(5, 12.0), (8, 7.0), (20, 5.0), (60, 5.0)] {
            let found = named(count, off, |scores| scores[0] > 1.0);
            assert!(found >= 340, "{off} standard deviations, {count} values: {found} of 400");
        }
    }
}
