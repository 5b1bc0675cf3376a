//! Limits on changes, for scripts and CI: `cost>+5%`, `p99(io)>+10%`, `rate(*)<-50%`.

use crate::threshold::{CUT, LOST, Test, ThresholdError, Written};
use crate::{Breach, DiffMeasure, DiffRow, DiffVerdict, LimitCheck, MeasureChange, Unjudged};
use exitscope_model::codes::is_called;
use exitscope_stats::Interval;
use std::str::FromStr;

/// Recordings that each side needs: of one, nobody knows what of a difference is from run to run.
pub const FEWEST_RECORDINGS: usize = 2;

/// A limit on the change of one figure of one reason, or of all.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeLimit {
    text: String,
    measure: DiffMeasure,
    /// `None` for all reasons together, without halts.
    reason: Option<String>,
    test: Test,
    /// Per cent of what was before.
    limit: f64,
}

/// Why a limit cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeLimitError {
    /// It is not written as a limit is.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// No such figure.
    #[error("{0:?} is no figure of a comparison; there are {names}", names = DiffMeasure::ALL.map(DiffMeasure::name).join(", "))]
    NoMeasure(String),
    /// Not a change in per cent.
    #[error("{0:?} is no change: write it in per cent with its sign, like +5% or -10%")]
    NotPercent(String),
}

impl FromStr for ChangeLimit {
    type Err = ChangeLimitError;

    fn from_str(text: &str) -> Result<ChangeLimit, ChangeLimitError> {
        let Written { figure, reason, test, limit } = Written::of(text)?;
        let measure = DiffMeasure::ALL.into_iter().find(|measure| measure.name() == figure);
        let measure = measure.ok_or_else(|| ChangeLimitError::NoMeasure(figure.to_string()))?;
        let number = limit.strip_suffix('%').map(str::trim);
        let number = number.filter(|number| number.starts_with(['+', '-']) || *number == "0");
        let limit = number.and_then(|number| number.parse().ok()).filter(|limit: &f64| limit.is_finite());
        let limit = limit.ok_or_else(|| ChangeLimitError::NotPercent(text.to_string()))?;
        Ok(ChangeLimit { text: text.to_string(), measure, reason: reason.map(str::to_string), test, limit })
    }
}

impl ChangeLimit {
    /// The reason that it is about, if it is about one.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Compares. The limit is passed where the whole confidence interval of the change lies beyond it, and `verdict` says something of
    /// changes; `cut` is whether a recording of either side is.
    pub fn check(&self, rows: &[DiffRow], cut: bool, verdict: &DiffVerdict) -> LimitCheck {
        let unjudged = |why| LimitCheck::Unknown(Unjudged { threshold: self.text.clone(), why });
        if cut {
            return unjudged(CUT);
        }
        if let Some(why) = verdict.unjudged() {
            return unjudged(why);
        }
        let of_reason = |row: &&DiffRow| match (&row.reason, &self.reason) {
            (None, None) => true,
            (Some(name), Some(wanted)) => is_called(name, wanted),
            _ => false,
        };
        let row = rows.iter().find(of_reason);
        let change = row.and_then(|row| Some((row, row.change(self.measure)?)));
        let Some((row, change @ &MeasureChange { before, after, interval, .. })) = change else {
            return unjudged("there is no such exit on either side");
        };
        let (Some(before), Some(after)) = (before, after) else {
            return unjudged("there is nothing to compare on one side");
        };
        let Some(interval) = interval else {
            return unjudged("there are too few exits, or too short recordings, for a confidence interval");
        };
        // What was nothing before has grown beyond all limits, if it has certainly grown.
        let percent = |by: f64| match before {
            0 if by == 0.0 => 0.0,
            0 => f64::INFINITY.copysign(by),
            _ => by * 100.0 / before as f64,
        };
        let ends = |of: Interval| (percent(of.low as f64), percent(of.high as f64));
        let is_passed = |(low, high)| self.test.is_passed(low, self.limit) && self.test.is_passed(high, self.limit);
        let (low, high) = ends(interval);
        let with_hidden = verdict.with_hidden(row, change).map(|hidden| is_passed(ends(hidden)));
        if with_hidden != Some(is_passed((low, high))) {
            return unjudged(LOST);
        }
        // What is not certain of all reasons together is not certain of one.
        let is_uncertain = change.verdict() == crate::ChangeVerdict::Unclear && (low > 0.0 || high < 0.0);
        if !is_passed((low, high)) || is_uncertain {
            return LimitCheck::Holds;
        }
        let found = format!("{:+.1}% ({low:+.1}% to {high:+.1}%)", percent(after as f64 - before as f64));
        LimitCheck::Passed(Breach { threshold: self.text.clone(), found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ComparedSide;

    fn row(before: u64, after: u64, interval: Option<(i64, i64)>) -> Vec<DiffRow> {
        let interval = interval.map(|(low, high)| Interval { low, high });
        let change = MeasureChange::of_blocks(DiffMeasure::Cost, Some(before), Some(after), interval);
        vec![DiffRow {
            reason: None,
            without: Vec::new(),
            counts: (100, 100),
            timed: (100, 100),
            changes: vec![change],
        }]
    }

    /// Of sides with several recordings each, which can be compared.
    fn judged() -> DiffVerdict {
        let side = ComparedSide { recordings: ["a", "b"].map(str::to_string).into(), ..ComparedSide::default() };
        let all = row(1_000, 1_000, Some((-1, 1)));
        DiffVerdict::of(&all[0], &[], [&side, &side])
    }

    #[test]
    fn only_a_change_that_is_certainly_beyond_the_limit_passes_it() {
        let cases = [
            ("cost>+5%", 1_000, 1_100, Some((60, 140)), Some(true)),
            // Certainly more, and not certainly more than 5 %.
            ("cost>+5%", 1_000, 1_100, Some((20, 180)), Some(false)),
            ("cost>+5%", 1_000, 900, Some((-140, -60)), Some(false)),
            ("cost<-5%", 1_000, 900, Some((-140, -60)), Some(true)),
            ("cost>-5%", 1_000, 1_000, Some((-20, 20)), Some(true)),
            ("cost>=0%", 1_000, 1_000, Some((0, 0)), Some(true)),
            ("cost>+1000%", 0, 50, Some((40, 60)), Some(true)),
            ("cost>+5%", 0, 0, Some((0, 0)), Some(false)),
            // Without an interval nothing is certain, nor is it well.
            ("cost>+5%", 1_000, 9_000, None, None),
            ("p99>+5%", 1_000, 9_000, Some((1, 2)), None),
            ("cost(io)>+5%", 1_000, 9_000, Some((1, 2)), None),
        ];
        for (text, before, after, interval, passed) in cases {
            let check = text.parse::<ChangeLimit>().unwrap().check(&row(before, after, interval), false, &judged());
            let found = match check {
                LimitCheck::Passed(_) => Some(true),
                LimitCheck::Holds => Some(false),
                LimitCheck::Unknown(_) => None,
            };
            assert_eq!(found, passed, "{text} {before} {after} {interval:?}");
        }
        let limit = "cost>+5%".parse::<ChangeLimit>().unwrap();
        let check = limit.check(&row(1_000, 1_100, Some((60, 140))), true, &judged());
        assert!(matches!(check, LimitCheck::Unknown(_)), "{check:?}");
    }

    #[test]
    fn what_is_no_limit_on_a_change_is_refused() {
        for text in
            ["cost", "cost>5%", "cost>+5", "cost>+5us", "cost(io>+5%", "p98>+1%", "cost>+x%", "cost>+inf%", "lost>0"]
        {
            assert!(text.parse::<ChangeLimit>().is_err(), "{text}");
        }
    }
}
