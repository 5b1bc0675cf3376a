//! A prediction, and what became of it: the one rule of trials and of predictions that are kept in files.

use crate::MetricUnit;
use std::fmt;

/// What a metric was predicted to come to, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// With the setting in force, as it was before it was tried.
    pub in_force: f64,
    /// With the other setting.
    pub with: f64,
    /// Bounds of the interval of `with`.
    pub interval: (f64, f64),
}

/// What became of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictionOutcome {
    /// The mean is within the interval that was predicted.
    Held,
    /// The interval of what was measured is above the one that was predicted.
    More,
    /// It is below.
    Less,
    /// The mean is above what was predicted, but its interval is not, or it has none.
    PerhapsMore,
    /// The mean is below what was predicted, but its interval is not, or it has none.
    PerhapsLess,
}

impl Prediction {
    /// The same change of another value in force. It is taken in proportion, if that was not 0. What is added to a share cannot be: it
    /// is taken out of what the share leaves of 100 %, and in proportion to that.
    pub fn of_in_force(&self, in_force: f64, unit: MetricUnit) -> Prediction {
        let was = self.in_force;
        let of = |value: f64| match unit {
            MetricUnit::Share if value >= was && was < 100.0 => {
                100.0 - (100.0 - value) * (100.0 - in_force) / (100.0 - was)
            }
            _ if was > 0.0 => value * in_force / was,
            _ => value,
        };
        Prediction { in_force, with: of(self.with), interval: (of(self.interval.0), of(self.interval.1)) }
    }

    /// What became of it, if the value in force is as it says: the mean that was measured, and the bounds of its interval.
    pub fn outcome(&self, with: f64, (least, most): (Option<f64>, Option<f64>)) -> PredictionOutcome {
        let (low, high) = self.interval;
        match with {
            _ if (low..=high).contains(&with) => PredictionOutcome::Held,
            _ if with > high && least.is_some_and(|least| least > high) => PredictionOutcome::More,
            _ if with > high => PredictionOutcome::PerhapsMore,
            _ if most.is_some_and(|most| most < low) => PredictionOutcome::Less,
            _ => PredictionOutcome::PerhapsLess,
        }
    }
}

impl fmt::Display for PredictionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PredictionOutcome::Held => "held",
            PredictionOutcome::More => "missed: more was measured",
            PredictionOutcome::Less => "missed: less was measured",
            PredictionOutcome::PerhapsMore => "open: perhaps more",
            PredictionOutcome::PerhapsLess => "open: perhaps less",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_judged_by_both_intervals() {
        // Measured: 120, between 110 and 130.
        let measured = (Some(110.0), Some(130.0));
        for (bounds, interval, is) in [
            (measured, (118.0, 122.0), PredictionOutcome::Held),
            ((None, None), (118.0, 122.0), PredictionOutcome::Held),
            (measured, (90.0, 109.0), PredictionOutcome::More),
            (measured, (90.0, 111.0), PredictionOutcome::PerhapsMore),
            (measured, (131.0, 140.0), PredictionOutcome::Less),
            (measured, (129.0, 140.0), PredictionOutcome::PerhapsLess),
            // A prediction without a width is held by what was measured, or is not.
            (measured, (115.0, 115.0), PredictionOutcome::PerhapsMore),
            (measured, (105.0, 105.0), PredictionOutcome::More),
            // Without bounds; within blocks the change may be another than that of the means.
            ((None, None), (90.0, 109.0), PredictionOutcome::PerhapsMore),
            ((Some(110.0), None), (131.0, 140.0), PredictionOutcome::PerhapsLess),
            ((Some(80.0), Some(89.0)), (90.0, 109.0), PredictionOutcome::PerhapsMore),
        ] {
            let predicted = Prediction { in_force: 100.0, with: 115.0, interval };
            assert_eq!(predicted.outcome(120.0, bounds), is, "{bounds:?} {interval:?}");
        }
    }

    #[test]
    fn a_prediction_is_of_a_change() {
        let of = |predicted: (f64, [f64; 3]), in_force, unit| {
            let (was, [low, with, high]) = predicted;
            let of = Prediction { in_force: was, with, interval: (low, high) }.of_in_force(in_force, unit);
            assert_eq!(of.in_force, in_force);
            [of.interval.0, of.with, of.interval.1]
        };
        for unit in [MetricUnit::Time, MetricUnit::PerSecond, MetricUnit::Number] {
            assert_eq!(of((10.0, [4.0, 15.0, 60.0]), 20.0, unit), [8.0, 30.0, 120.0]);
            // What was 0 has no proportion.
            assert_eq!(of((0.0, [4.0, 15.0, 60.0]), 20.0, unit), [4.0, 15.0, 60.0]);
        }
        let share = |predicted, in_force| of(predicted, in_force, MetricUnit::Share);
        // A part of what was there is spared.
        assert_eq!(share((10.0, [0.0, 5.0, 10.0]), 20.0), [0.0, 10.0, 20.0]);
        // A part of the rest is added: of hardly anything not a multiple, and never more than all.
        assert_eq!(share((0.0, [10.0, 20.0, 100.0]), 50.0), [55.0, 60.0, 100.0]);
        assert_eq!(share((1.0, [1.0, 30.7, 100.0]), 2.0), [2.0, 31.400000000000006, 100.0]);
        assert_eq!(share((20.0, [10.0, 20.0, 60.0]), 60.0), [30.0, 60.0, 80.0]);
        assert_eq!(share((100.0, [50.0, 100.0, 100.0]), 60.0), [30.0, 60.0, 60.0]);
        assert_eq!(share((0.0, [0.0, 0.0, 20.0]), 50.0), [50.0, 50.0, 60.0], "what was to stay stays");
    }
}
