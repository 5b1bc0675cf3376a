//! What is measured in each turn.

use exitscope_units::Nanos;
use std::fmt;

/// A figure that each turn has one value of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialMetric {
    /// Its name, as limits name it: `p99`.
    pub name: String,
    /// What its values are in.
    pub unit: MetricUnit,
    /// Which values are wanted.
    pub better: Better,
}

/// What the values of a metric are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Nanoseconds.
    Time,
    /// Per cent.
    Share,
    /// Times a second.
    PerSecond,
    /// A number without a unit: what a command printed.
    Number,
}

/// Which values of a metric are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Small ones: of latency, of cost.
    Lower,
    /// Large ones: of throughput.
    Higher,
}

impl MetricUnit {
    /// Reads a value: a time with its unit, otherwise a number; `None` of negative and infinite ones.
    pub fn parse(self, text: &str) -> Option<f64> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        match self {
            MetricUnit::Time => Nanos::parse(text).map(|time| time.0 as f64),
            MetricUnit::Share => number(text.strip_suffix('%').unwrap_or(text)),
            MetricUnit::PerSecond => number(text.strip_suffix("/s").unwrap_or(text)),
            MetricUnit::Number => number(text),
        }
    }

    /// What is expected of a value that people write.
    pub fn about(self) -> &'static str {
        match self {
            MetricUnit::Time => "a length of time, like 5ms",
            MetricUnit::Share => "a share in per cent, like 30%",
            MetricUnit::PerSecond => "a number per second, like 5000/s",
            MetricUnit::Number => "a number, like 0.5",
        }
    }

    /// A value with its unit.
    pub fn text(self, value: f64) -> MetricText {
        MetricText { unit: self, value }
    }
}

/// A value of a metric as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricText {
    unit: MetricUnit,
    value: f64,
}

impl fmt::Display for MetricText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MetricText { unit, value } = *self;
        let digits = if value >= 100.0 { 0 } else { 2 };
        match unit {
            MetricUnit::Time => write!(f, "{}", Nanos(value.round() as u64)),
            MetricUnit::Share => write!(f, "{value:.2}%"),
            MetricUnit::PerSecond => write!(f, "{value:.digits$}/s"),
            // Nobody knows how small its values are.
            MetricUnit::Number if value > 0.0 && value < 1.0 => write!(f, "{value:.2e}"),
            MetricUnit::Number => write!(f, "{value:.digits$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_printed_with_their_units() {
        for (unit, text, value, printed) in [
            (MetricUnit::Time, "5ms", 5e6, "5.00ms"),
            (MetricUnit::Share, "12.5 %", 12.5, "12.50%"),
            (MetricUnit::Share, "30", 30.0, "30.00%"),
            (MetricUnit::PerSecond, "50000/s", 5e4, "50000/s"),
            (MetricUnit::PerSecond, "1.5", 1.5, "1.50/s"),
            (MetricUnit::Number, "1e3", 1e3, "1000"),
            (MetricUnit::Number, "0.00125", 0.00125, "1.25e-3"),
            (MetricUnit::Number, "0", 0.0, "0.00"),
        ] {
            assert_eq!(unit.parse(text), Some(value), "{text}");
            assert_eq!(unit.text(value).to_string(), printed);
        }
        for (unit, text) in [
            (MetricUnit::Time, "5"),
            (MetricUnit::Share, "-1%"),
            (MetricUnit::Number, "inf"),
            (MetricUnit::Number, "NaN"),
            (MetricUnit::PerSecond, "5/m"),
        ] {
            assert_eq!(unit.parse(text), None, "{text}");
        }
    }
}
