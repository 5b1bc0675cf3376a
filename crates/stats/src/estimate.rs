//! A mean of a few runs, and how sure it is.

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Bounds of the interval; none of a single value.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Confidence of the intervals, in per cent.
    pub const CONFIDENCE: f64 = 95.0;

    /// From independent values, by Student's t distribution; `None` from nothing.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = || Estimate::half_width((squares / (count - 1.0)).sqrt(), values.len());
        match values.len() {
            0 => None,
            1 => Some(Estimate { mean, interval: None }),
            _ => Some(Estimate { mean, interval: Some((mean - half(), mean + half())) }),
        }
    }

    /// From independent values of which some are surer than others, each with its weight: that of a median, how many values it
    /// is of. `None` from nothing.
    pub fn weighted(values: &[(f64, f64)]) -> Option<Estimate> {
        let count = values.len();
        let weights: f64 = values.iter().map(|(_, weight)| weight).sum();
        let mean = values.iter().map(|(value, weight)| value * weight).sum::<f64>() / weights;
        let squares: f64 = values.iter().map(|(value, weight)| (weight * (value - mean) / weights).powi(2)).sum();
        // With equal weights, the deviation from which `half_width` makes the same interval as `of`.
        let deviation = || (squares * (count * count) as f64 / (count as f64 - 1.0)).sqrt();
        let half = || Estimate::half_width(deviation(), count);
        (count > 0 && weights > 0.0)
            .then(|| Estimate { mean, interval: (count > 1).then(|| (mean - half(), mean + half())) })
    }

    /// Half of the interval of the mean of so many values with this standard deviation; infinite of a single one.
    pub fn half_width(deviation: f64, values: usize) -> f64 {
        student(values.saturating_sub(1)) * deviation / (values as f64).sqrt()
    }

    /// What one more value like these is within in 95 % of cases: their mean has its interval, and the value scatters as each
    /// of them does. `None` from fewer than two.
    pub fn next_within(values: &[f64]) -> Option<(f64, f64)> {
        let Estimate { mean, interval } = Estimate::of(values)?;
        let reach = (interval?.1 - mean) * (values.len() as f64 + 1.0).sqrt();
        Some((mean - reach, mean + reach))
    }

    /// Whether chance may have made one of them larger: their intervals meet.
    pub fn meets(&self, other: &Estimate) -> bool {
        let bounds = |of: &Estimate| of.interval.unwrap_or((of.mean, of.mean));
        let ((low, high), (other_low, other_high)) = (bounds(self), bounds(other));
        low <= other_high && other_low <= high
    }
}

/// What Student's t stays within, on either side, in 95 % of cases, by degrees of freedom from 1 on: NIST/SEMATECH
/// e-Handbook of Statistical Methods, 1.3.6.7.2.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same for more degrees of freedom; what is between two rows takes the one before, which is the wider.
const STUDENT_ON: [(usize, f64); 4] = [(100, 1.984), (80, 1.990), (60, 2.000), (40, 2.021)];

fn student(freedom: usize) -> f64 {
    match freedom {
        0 => f64::INFINITY,
        1..=30 => STUDENT[freedom - 1],
        _ => STUDENT_ON.into_iter().find(|row| row.0 <= freedom).map_or(STUDENT[29], |row| row.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_as_worked_out_by_hand() {
        // Mean 3, standard deviation 1.5811, standard error 0.7071, t 2.776.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (low, high) = estimate.interval.unwrap();
        assert_eq!(estimate.mean, 3.0);
        assert!((low - 1.0371).abs() < 1e-4 && (high - 4.9629).abs() < 1e-4, "{low} {high}");
        assert!((Estimate::half_width(1.5811, 5) - 1.9629).abs() < 1e-3);
        assert_eq!(Estimate::half_width(1.0, 1), f64::INFINITY);
        assert_eq!(Estimate::of(&[7.0]), Some(Estimate { mean: 7.0, interval: None }));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn equal_weights_change_nothing_and_a_light_value_counts_little() {
        let plain = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let weighted = Estimate::weighted(&[1.0, 2.0, 3.0, 4.0, 5.0].map(|value| (value, 7.0))).unwrap();
        let bounds = |of: Estimate| [of.mean, of.interval.unwrap().0, of.interval.unwrap().1];
        assert!(bounds(plain).iter().zip(bounds(weighted)).all(|(a, b)| (a - b).abs() < 1e-9), "{weighted:?}");
        let disturbed = [(2.0, 500.0), (2.2, 500.0), (1.8, 500.0), (900.0, 1.0)];
        let Estimate { mean, interval } = Estimate::weighted(&disturbed).unwrap();
        assert!((2.0..3.0).contains(&mean) && interval.unwrap().1 < 6.0, "{mean} {interval:?}");
        assert_eq!((Estimate::weighted(&[]), Estimate::weighted(&[(1.0, 0.0)])), (None, None));
        assert_eq!(Estimate::weighted(&[(7.0, 2.0)]), Some(Estimate { mean: 7.0, interval: None }));
    }

    #[test]
    fn the_next_value_is_within_more_than_the_mean_is() {
        // 2.776 times 1.5811 times the root of 1.2.
        let (low, high) = Estimate::next_within(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((low + 1.8083).abs() < 1e-3 && (high - 7.8083).abs() < 1e-3, "{low} {high}");
        assert_eq!(Estimate::next_within(&[7.0]), None);
        assert_eq!(Estimate::next_within(&[]), None);
    }

    #[test]
    fn more_degrees_of_freedom_never_widen_an_interval() {
        let all: Vec<f64> = (1..200).map(student).collect();
        assert!(all.is_sorted_by(|a, b| a >= b));
        assert_eq!((student(35), student(59), student(1_000)), (2.042, 2.021, 1.984));
    }

    #[test]
    fn intervals_that_touch_meet() {
        let of = |low, high| Estimate { mean: (low + high) / 2.0, interval: Some((low, high)) };
        assert!(of(1.0, 2.0).meets(&of(2.0, 3.0)) && of(1.0, 9.0).meets(&of(2.0, 3.0)));
        assert!(!of(1.0, 2.0).meets(&of(2.1, 3.0)) && !of(2.1, 3.0).meets(&of(1.0, 2.0)));
    }
}
