//! Limits that end a trial at once, as they are typed: `p99>5ms`. Written like the limits of `--fail-on`.

use crate::TrialMetric;

/// A limit on a metric's values.
#[derive(Clone, Debug, PartialEq)]
pub struct AbortLimit {
    /// As it was written.
    pub text: String,
    /// The metric's position in the list.
    pub metric: usize,
    /// Which values are beyond it.
    beyond: Beyond,
    /// In the metric's unit.
    pub limit: f64,
}

/// Which values are beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Longer operators first, so that `>=` is not read as `>`.
const OPERATORS: &[(&str, Beyond)] =
    &[(">=", Beyond::AtLeast), ("<=", Beyond::AtMost), (">", Beyond::Above), ("<", Beyond::Below)];

/// Why a limit cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbortLimitError {
    /// No comparison in it.
    #[error("{0:?} is not a limit: write a metric, an operator and a limit, like 'p99>5ms'")]
    NoOperator(String),
    /// The trial does not measure it.
    #[error("{name:?} is not measured in this trial; there are {names}")]
    NoMetric {
        /// The metric that was written.
        name: String,
        /// The names of all metrics, as a list.
        names: String,
    },
    /// The limit is not of the metric's unit.
    #[error("{limit:?} is no limit for {metric}, which is {unit}")]
    BadLimit {
        /// The metric.
        metric: String,
        /// The limit that was written.
        limit: String,
        /// The unit that the metric needs.
        unit: &'static str,
    },
}

impl AbortLimit {
    /// Reads a limit on one of `metrics`.
    pub fn parse(text: &str, metrics: &[TrialMetric]) -> Result<AbortLimit, AbortLimitError> {
        let no_operator = || AbortLimitError::NoOperator(text.to_string());
        let at = text.find(['<', '>']).ok_or_else(no_operator)?;
        let (operator, beyond) = OPERATORS.iter().find(|row| text[at..].starts_with(row.0)).ok_or_else(no_operator)?;
        let (name, limit) = (text[..at].trim(), text[at + operator.len()..].trim());
        let metric = metrics.iter().position(|metric| metric.name == name).ok_or_else(|| {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
            AbortLimitError::NoMetric { name: name.to_string(), names: names.join(", ") }
        })?;
        let unit = metrics[metric].unit;
        let limit = unit.parse(limit).ok_or_else(|| AbortLimitError::BadLimit {
            metric: name.to_string(),
            limit: limit.to_string(),
            unit: unit.about(),
        })?;
        Ok(AbortLimit { text: text.trim().to_string(), metric, beyond: *beyond, limit })
    }

    /// Whether a value, in the metric's unit, is beyond the limit. What is no number is.
    pub fn is_passed(&self, value: f64) -> bool {
        let is_within = match self.beyond {
            Beyond::Above => value <= self.limit,
            Beyond::AtLeast => value < self.limit,
            Beyond::Below => value >= self.limit,
            Beyond::AtMost => value > self.limit,
        };
        !is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, MetricUnit};

    fn metrics() -> Vec<TrialMetric> {
        [("p99", MetricUnit::Time), ("steal", MetricUnit::Share), ("requests", MetricUnit::PerSecond)]
            .map(|(name, unit)| TrialMetric { name: name.to_string(), unit, better: Better::Lower })
            .to_vec()
    }

    #[test]
    fn limits_are_read_as_people_write_them() {
        for (text, metric, passed, kept) in [
            ("p99>5ms", 0, 5_000_001.0, 5e6),
            (" p99 >= 5ms", 0, 5e6, 4_999_999.0),
            ("steal>30%", 1, 30.1, 30.0),
            ("requests<1000/s", 2, 999.9, 1_000.0),
            ("requests <= 1000", 2, 1_000.0, 1_000.1),
        ] {
            let limit = AbortLimit::parse(text, &metrics()).unwrap();
            assert_eq!((limit.metric, limit.text.as_str()), (metric, text.trim()));
            assert!(limit.is_passed(passed) && !limit.is_passed(kept), "{text}");
            assert!(limit.is_passed(f64::NAN), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        for (text, says) in [
            ("p99", "\"p99\" is not a limit: write a metric, an operator and a limit, like 'p99>5ms'"),
            ("p98>5ms", "\"p98\" is not measured in this trial; there are p99, steal, requests"),
            ("p99>5", "\"5\" is no limit for p99, which is a length of time, like 5ms"),
            ("steal>", "\"\" is no limit for steal, which is a share in per cent, like 30%"),
            ("steal>-1%", "\"-1%\" is no limit for steal, which is a share in per cent, like 30%"),
        ] {
            assert_eq!(AbortLimit::parse(text, &metrics()).unwrap_err().to_string(), says);
        }
    }
}
