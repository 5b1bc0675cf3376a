//! Thresholds on facts, for scripts and CI: `p99(io)>200us`, `rate(*)>50000`, `share(npf)>=30%`, `lost>0`.

use crate::{Cell, Facts};
use exitscope_model::{Ledger, Severity};
use exitscope_units::Nanos;
use std::fmt;
use std::str::FromStr;

/// A limit on one figure of one reason, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    /// `None` for all reasons together.
    reason: Option<String>,
    test: Test,
    /// Nanoseconds, exits, exits per second or ten-thousandths, as the figure has it.
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Count,
    Rate,
    Total,
    Cost,
    Mean,
    Quantile(u64),
    Max,
    Share,
    User,
    Lost,
}

const FIGURES: &[(&str, Figure)] = &[
    ("count", Figure::Count),
    ("rate", Figure::Rate),
    ("total", Figure::Total),
    ("cost", Figure::Cost),
    ("mean", Figure::Mean),
    ("p50", Figure::Quantile(5_000)),
    ("p90", Figure::Quantile(9_000)),
    ("p99", Figure::Quantile(9_900)),
    ("p99.9", Figure::Quantile(9_990)),
    ("max", Figure::Max),
    ("share", Figure::Share),
    ("user", Figure::User),
    ("lost", Figure::Lost),
];

/// How a figure is compared with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Longer operators first, so that `>=` is not read as `>`.
const TESTS: &[(&str, Test)] = &[(">=", Test::AtLeast), ("<=", Test::AtMost), (">", Test::Above), ("<", Test::Below)];

impl Test {
    /// Whether the figure is beyond the limit.
    pub(crate) fn is_passed<T: PartialOrd>(self, found: T, limit: T) -> bool {
        match self {
            Test::Above => found > limit,
            Test::AtLeast => found >= limit,
            Test::Below => found < limit,
            Test::AtMost => found <= limit,
        }
    }
}

/// The parts of a limit as it is written, `p99(io)>200us`.
pub(crate) struct Written<'a> {
    pub figure: &'a str,
    /// `None` for all reasons together.
    pub reason: Option<&'a str>,
    pub test: Test,
    pub limit: &'a str,
}

impl<'a> Written<'a> {
    pub(crate) fn of(text: &'a str) -> Result<Written<'a>, ThresholdError> {
        let no_test = || ThresholdError::NoTest(text.to_string());
        let at = text.find(['<', '>']).ok_or_else(no_test)?;
        let (operator, test) = TESTS.iter().find(|row| text[at..].starts_with(row.0)).ok_or_else(no_test)?;
        let (left, limit) = (text[..at].trim(), text[at + operator.len()..].trim());
        let bad_reason = || ThresholdError::BadReason(left.to_string());
        let (figure, reason) = match left.split_once('(') {
            Some((figure, rest)) => (figure.trim(), rest.strip_suffix(')').ok_or_else(bad_reason)?.trim()),
            None => (left, "*"),
        };
        if reason.contains(['(', ')', '=']) {
            return Err(bad_reason());
        }
        Ok(Written { figure, reason: (reason != "*" && !reason.is_empty()).then_some(reason), test: *test, limit })
    }
}

/// Why a threshold cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No comparison in it.
    #[error("{0:?} compares nothing: write a figure, an operator and a limit, like 'p99(io)>200us'")]
    NoTest(String),
    /// No such figure.
    #[error(
        "{0:?} is no figure; there are count, rate, total, cost, mean, p50, p90, p99, p99.9, max, share, user, lost"
    )]
    NoFigure(String),
    /// A parenthesis is missing, or one too many.
    #[error("{0:?} is no figure of a reason: write it like p99(io)")]
    BadReason(String),
    /// The limit is not of the figure's unit.
    #[error("{limit:?} is no limit for {figure}, which is {unit}")]
    BadLimit {
        /// The figure.
        figure: String,
        /// What was written.
        limit: String,
        /// What is expected.
        unit: &'static str,
    },
}

/// A threshold that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The threshold as it was written.
    pub threshold: String,
    /// What was found, with its unit.
    pub found: String,
}

/// A threshold that the recording does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    /// The threshold as it was written.
    pub threshold: String,
    /// Why.
    pub why: &'static str,
}

/// What comes of a threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitCheck {
    /// The figure is within it.
    Holds,
    /// It was passed.
    Passed(Breach),
    /// There is no such figure.
    Unknown(Unjudged),
}

/// Why nothing is judged of a recording that is cut.
pub(crate) const CUT: &str = "the recording is cut, and nobody knows how much is missing";

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be judged: {}", self.threshold, self.why)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}", self.threshold, self.found)
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        let Written { figure: name, reason, test, limit } = Written::of(text)?;
        let figure = FIGURES.iter().find(|row| row.0 == name).map(|row| row.1);
        let figure = figure.ok_or_else(|| ThresholdError::NoFigure(name.to_string()))?;
        let (limit_read, unit) = match figure {
            Figure::Count | Figure::Lost => (limit.parse().ok(), "a whole number"),
            Figure::Rate => (limit.strip_suffix("/s").unwrap_or(limit).trim().parse().ok(), "exits per second"),
            Figure::Share | Figure::User => {
                (parse_share(limit), "a share in per cent, with at most two decimals, like 30%")
            }
            _ => (Nanos::parse(limit).map(|length| length.0), "a length of time, like 200us"),
        };
        let limit = limit_read.ok_or_else(|| ThresholdError::BadLimit {
            figure: name.to_string(),
            limit: limit.to_string(),
            unit,
        })?;
        Ok(Threshold { text: text.to_string(), figure, reason: reason.map(str::to_string), test, limit })
    }
}

/// Hundredths of a per cent.
fn parse_share(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = match part.len() {
        0..=2 => format!("{part:0<2}").parse::<u64>().ok()?,
        _ => return None,
    };
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)
}

impl Threshold {
    /// The reason that it is about, if it is about one.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Compares the figure with the limit.
    pub fn check(&self, facts: &Facts, ledger: &Ledger) -> LimitCheck {
        let found = match self.figure(facts, ledger) {
            Ok(found) => found,
            Err(why) => return LimitCheck::Unknown(Unjudged { threshold: self.text.clone(), why }),
        };
        if !self.test.is_passed(found, self.limit) {
            return LimitCheck::Holds;
        }
        let found = match self.figure {
            Figure::Count | Figure::Lost => found.to_string(),
            Figure::Rate => format!("{found}/s"),
            Figure::Share | Figure::User => format!("{}.{:02}%", found / 100, found % 100),
            _ => Nanos(found).to_string(),
        };
        LimitCheck::Passed(Breach { threshold: self.text.clone(), found })
    }

    /// The figure, or why the recording does not tell it.
    fn figure(&self, facts: &Facts, ledger: &Ledger) -> Result<u64, &'static str> {
        const NO_LENGTH: &str = "of no such exit both ends were seen";
        if self.figure == Figure::Lost {
            let lines = ledger.lines().filter(|row| row.0.severity() >= Severity::Loss);
            return Ok(lines.fold(0, |sum: u64, row| sum.saturating_add(row.1)));
        }
        if ledger.is_unread() {
            return Err("nothing could be read");
        }
        if ledger.is_cut() {
            return Err(CUT);
        }
        if facts.all.count == 0 {
            return Err("no exit was recorded, or none is selected");
        }
        let cell = match (&self.reason, self.figure) {
            // As the row of all reasons.
            (None, Figure::Mean | Figure::Quantile(_) | Figure::Max) => facts.without_halts().0,
            (None, _) => facts.all.clone(),
            (Some(reason), _) => facts.of_reason(reason),
        };
        match self.figure {
            Figure::Count => Ok(cell.count),
            Figure::Rate => per_second(cell.count, facts.duration).ok_or("the recording has no length"),
            Figure::Total => Ok(cell.total().0),
            Figure::Cost => Ok(cell.cost().0),
            Figure::Mean => cell.mean().map(|mean| mean.0).ok_or(NO_LENGTH),
            Figure::Quantile(rank) => cell.quantile(rank).map(|length| length.0).ok_or(NO_LENGTH),
            Figure::Max => (cell.timed > 0).then_some(cell.max).ok_or(NO_LENGTH),
            Figure::Share => share(cell.cost().0, facts.all.cost().0).ok_or("no exit had a cost"),
            Figure::User if !facts.heard.doors => Err("it does not tell which exits went on to user space"),
            Figure::User => share(cell.user_count, cell.count).ok_or("there is no such exit"),
            Figure::Lost => unreachable!("told above"),
        }
    }
}

fn per_second(count: u64, duration: Nanos) -> Option<u64> {
    (u128::from(count) * 1_000_000_000).checked_div(u128::from(duration.0)).map(|rate| rate as u64)
}

fn share(part: u64, whole: u64) -> Option<u64> {
    (u128::from(part) * 10_000).checked_div(u128::from(whole)).map(|share| share as u64)
}

impl Facts {
    /// The figures of the reason with this name, without regard to case.
    pub fn of_reason(&self, name: &str) -> Cell {
        let mut found = Cell::default();
        for (key, way) in self.ways.cells() {
            if key.code.name().eq_ignore_ascii_case(name) {
                found.merge(&way.cell);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_as_people_write_them() {
        let cases = [
            ("p99(io)>200us", Figure::Quantile(9_900), Some("io"), Test::Above, 200_000),
            ("rate(*) >= 50000/s", Figure::Rate, None, Test::AtLeast, 50_000),
            ("share(EPT_VIOLATION)<12.5%", Figure::Share, Some("EPT_VIOLATION"), Test::Below, 1_250),
            ("lost>0", Figure::Lost, None, Test::Above, 0),
            ("max(UD excp)>1.5ms", Figure::Max, Some("UD excp"), Test::Above, 1_500_000),
        ];
        for (text, figure, reason, test, limit) in cases {
            let read: Threshold = text.parse().unwrap();
            assert_eq!((read.figure, read.reason(), read.test, read.limit), (figure, reason, test, limit), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        let texts = [
            "",
            "p99(io)",
            "p98(io)>1us",
            "p99(io)>200",
            "count>many",
            "share(io)>x%",
            "p99(io>200us",
            "p99 io)>200us",
            "p99((io)>200us",
            "share(io)>12.345%",
            "share(io)>12.3x%",
            "share(io)>12%%",
        ];
        for text in texts {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
