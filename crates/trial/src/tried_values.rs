//! What is to be tried, as it is typed: `halt_poll_ns=0,50us`.

use crate::MAX_SETTINGS;
use exitscope_policy::{Knob, KnobError, knob};
use std::str::FromStr;

/// A knob and the values to try, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedValues {
    /// The knob's row.
    pub knob: &'static Knob,
    /// Values, in the knob's unit and within its bounds, in the order in which they were typed.
    pub values: Vec<u64>,
}

/// Why there is nothing to try.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriedValuesError {
    /// No knob, or no values.
    #[error("{0:?} sets nothing: write a knob and the values to try, like halt_poll_ns=0,50us")]
    NoValue(String),
    /// No row has that name.
    #[error("no knob is called {0:?}")]
    NoKnob(String),
    /// The knob has no file that changes it while the host runs.
    #[error("{0} cannot be changed while the host runs, so it cannot be tried")]
    NotWritable(&'static str),
    /// Not a value of the knob.
    #[error("{text:?}: {error}")]
    BadValue {
        /// What was typed.
        text: String,
        /// What the knob has against it.
        error: KnobError,
    },
    /// The same value again.
    #[error("{knob}={value} is there twice")]
    Twice {
        /// The knob's name.
        knob: &'static str,
        /// The value, as the kernel spells it.
        value: String,
    },
    /// The value that is to be tried is the one in force.
    #[error("{knob} is {value} already: there is nothing to compare it with")]
    InForce {
        /// The knob's name.
        knob: &'static str,
        /// The value, as the kernel spells it.
        value: String,
    },
    /// More values than a trial compares.
    #[error("{0} values to try, at most {max}: each takes its part of the time and of the chance of a false alarm", max = MAX_SETTINGS - 1)]
    TooMany(usize),
}

impl FromStr for TriedValues {
    type Err = TriedValuesError;

    fn from_str(text: &str) -> Result<TriedValues, TriedValuesError> {
        let nothing = || TriedValuesError::NoValue(text.to_string());
        let (name, listed) = text.split_once('=').ok_or_else(nothing)?;
        let (name, listed) = (name.trim(), listed.trim());
        if name.is_empty() || listed.is_empty() {
            return Err(nothing());
        }
        let knob = knob(name).ok_or_else(|| TriedValuesError::NoKnob(name.to_string()))?;
        if !knob.is_writable() {
            return Err(TriedValuesError::NotWritable(knob.name));
        }
        let read = |text: &str| {
            let bad = |error| TriedValuesError::BadValue { text: text.trim().to_string(), error };
            knob.parse(text).map_err(bad)
        };
        let values = listed.split(',').map(read).collect::<Result<Vec<u64>, _>>()?;
        for (at, value) in values.iter().enumerate() {
            if values[..at].contains(value) {
                return Err(TriedValuesError::Twice { knob: knob.name, value: knob.text(*value).to_string() });
            }
        }
        match values.len() < MAX_SETTINGS {
            true => Ok(TriedValues { knob, values }),
            false => Err(TriedValuesError::TooMany(values.len())),
        }
    }
}

impl TriedValues {
    /// The settings of a plan, as the kernel spells the values: `in_force` first.
    pub fn settings(&self, in_force: u64) -> Result<Vec<String>, TriedValuesError> {
        let text = |value: u64| self.knob.text(value).to_string();
        match self.values.contains(&in_force) {
            true => Err(TriedValuesError::InForce { knob: self.knob.name, value: text(in_force) }),
            false => Ok([in_force].iter().chain(&self.values).map(|&value| text(value)).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_and_its_values_are_read_as_people_write_them() {
        for (text, values) in
            [("halt_poll_ns=0", vec![0]), (" halt_poll_ns = 50us, 100000 ,0", vec![50_000, 100_000, 0])]
        {
            let read: TriedValues = text.parse().unwrap();
            assert_eq!((read.knob.name, read.values), ("halt_poll_ns", values), "{text}");
        }
        let read: TriedValues = "halt_poll_ns=0,50us".parse().unwrap();
        assert_eq!(read.settings(200_000).unwrap(), ["200000", "0", "50000"]);
        assert_eq!(
            read.settings(0).unwrap_err().to_string(),
            "halt_poll_ns is 0 already: there is nothing to compare it with"
        );
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        for (text, says) in [
            (
                "halt_poll_ns",
                "\"halt_poll_ns\" sets nothing: write a knob and the values to try, like halt_poll_ns=0,50us",
            ),
            (
                "halt_poll_ns=",
                "\"halt_poll_ns=\" sets nothing: write a knob and the values to try, like halt_poll_ns=0,50us",
            ),
            ("hlt_poll=1", "no knob is called \"hlt_poll\""),
            ("halt_poll_ns=0,0ns", "halt_poll_ns=0 is there twice"),
            (
                "halt_poll_ns=1,2,3,4,5",
                "5 values to try, at most 4: each takes its part of the time and of the chance of a false alarm",
            ),
            ("ple_gap=0", "ple_gap cannot be changed while the host runs, so it cannot be tried"),
        ] {
            assert_eq!(text.parse::<TriedValues>().unwrap_err().to_string(), says, "{text}");
        }
        let error = "halt_poll_ns=0,,1".parse::<TriedValues>().unwrap_err().to_string();
        assert!(error.starts_with("\"\": halt_poll_ns is a time from 0 to "), "{error}");
    }
}
