//! Thresholds on facts, for scripts and CI: `p99(io)>200us`, `rate(*)>50000`, `share(npf)>=30%`, `lost>0`.

use crate::{ExitStats, Facts};
use exitscope_model::codes::is_called;
use exitscope_model::{Ledger, LedgerLine, Severity};
use exitscope_units::Nanos;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A limit on one figure of one reason, or of all.
#[derive(Clone, Debug)]
pub struct Threshold {
    text: String,
    figure: &'static Figure,
    /// `None` for all reasons together.
    reason: Option<String>,
    test: Test,
    /// Nanoseconds, exits, exits per second or ten-thousandths, as the figure has it.
    limit: u64,
}

/// A figure that can be limited.
#[derive(Debug)]
struct Figure {
    name: &'static str,
    unit: Unit,
    of: Of,
}

/// What limits on a figure are written in.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Count,
    PerSecond,
    Time,
    /// In ten-thousandths.
    Share,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// The exits of a reason, or all, beside all facts; else why there is none.
    Exits(fn(&ExitStats, &Facts) -> Result<u64, &'static str>),
    /// The same, of what grows with every exit: lost records hide a part of it.
    Sum(fn(&ExitStats, &Facts) -> Result<u64, &'static str>),
    /// The same, of what grows with the length of every exit: those that have none hide a part of it, too.
    Time(fn(&ExitStats, &Facts) -> Result<u64, &'static str>),
    /// How long exits take: of all reasons together, those of exits without halts, as in the row of all reasons.
    Lengths(fn(&ExitStats) -> Option<u64>),
    /// The recording itself: at least so much, and why it may be more.
    Recording(fn(&Ledger) -> (u64, Option<&'static str>)),
}

impl Figure {
    const fn new(name: &'static str, unit: Unit, of: Of) -> Figure {
        Figure { name, unit, of }
    }
}

const FIGURES: &[Figure] = &[
    Figure::new("count", Unit::Count, Of::Sum(|stats, _| Ok(stats.count))),
    Figure::new(
        "rate",
        Unit::PerSecond,
        Of::Sum(|stats, facts| per_second(stats.count, facts.seen()).ok_or("the recording has no length")),
    ),
    Figure::new("exit_time", Unit::Time, Of::Time(|stats, _| measured(stats, stats.total()))),
    Figure::new("cost", Unit::Time, Of::Time(|stats, _| measured(stats, stats.cost()))),
    Figure::new("mean", Unit::Time, Of::Lengths(|stats| stats.mean().map(|mean| mean.0))),
    Figure::new("p50", Unit::Time, Of::Lengths(|stats| quantile(stats, 5_000))),
    Figure::new("p90", Unit::Time, Of::Lengths(|stats| quantile(stats, 9_000))),
    Figure::new("p99", Unit::Time, Of::Lengths(|stats| quantile(stats, 9_900))),
    Figure::new("p99.9", Unit::Time, Of::Lengths(|stats| quantile(stats, 9_990))),
    Figure::new("max", Unit::Time, Of::Lengths(|stats| (stats.timed > 0).then_some(stats.max))),
    Figure::new(
        "share",
        Unit::Share,
        Of::Exits(|stats, facts| match [stats, &facts.all].map(|of| are_most_timed(of.timed, of.count)) {
            [true, true] => share(stats.cost().0, facts.all.cost().0).ok_or("no exit had a cost"),
            _ => Err(UNTIMED),
        }),
    ),
    Figure::new(
        "user_space",
        Unit::Share,
        Of::Exits(|stats, facts| match facts.event_kinds.handlers {
            true => share(stats.user_count, stats.count).ok_or("there is no such exit"),
            false => Err("it does not tell which exits went on to user space"),
        }),
    ),
    Figure::new("lost", Unit::Count, Of::Recording(lost)),
];

/// A sum of lengths: of exits of which none has one, it is not zero.
fn measured(stats: &ExitStats, sum: Nanos) -> Result<u64, &'static str> {
    if stats.count > 0 && stats.timed == 0 { Err("no exit has a length") } else { Ok(sum.0) }
}

fn quantile(stats: &ExitStats, per_10_000: u64) -> Option<u64> {
    stats.quantile(per_10_000).map(|length| length.0)
}

fn lost(ledger: &Ledger) -> (u64, Option<&'static str>) {
    let lines = ledger.lines().filter(|row| row.0.severity() >= Severity::Loss);
    let more = ledger.more_may_be_lost().map(|line| match line {
        LedgerLine::MissingLines => {
            "lines are missing that the header of the text counts: it is cut or filtered, or they were lost"
        }
        _ => "the text does not say whether records were lost",
    });
    (lines.fold(0, |sum: u64, row| sum.saturating_add(row.1)), more)
}

/// The names of figures, as a list.
fn names() -> String {
    FIGURES.iter().map(|figure| figure.name).collect::<Vec<_>>().join(", ")
}

impl Unit {
    /// Reads a limit.
    fn parse(self, text: &str) -> Option<u64> {
        match self {
            Unit::Count => text.parse().ok(),
            Unit::PerSecond => text.strip_suffix("/s").unwrap_or(text).trim().parse().ok(),
            Unit::Time => Nanos::parse(text).map(|length| length.0),
            Unit::Share => parse_share(text),
        }
    }

    fn text(self, value: u64) -> String {
        match self {
            Unit::Count => value.to_string(),
            Unit::PerSecond => format!("{value}/s"),
            Unit::Time => Nanos(value).to_string(),
            Unit::Share => format!("{}.{:02}%", value / 100, value % 100),
        }
    }

    /// What is expected of a limit.
    fn about(self) -> &'static str {
        match self {
            Unit::Count => "a whole number",
            Unit::PerSecond => "exits per second",
            Unit::Time => "a length of time, like 200us",
            Unit::Share => "a share in per cent, with at most two decimals, like 30%",
        }
    }
}

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

    /// Whether a larger figure changes nothing of it that the limit is passed, or is not.
    fn is_final(self, is_passed: bool) -> bool {
        is_passed == matches!(self, Test::Above | Test::AtLeast)
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
    #[error("{0:?} is no figure; there are {names}", names = names())]
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
    /// Why the limit cannot be judged.
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

/// Why a limit is not judged that what was lost may decide.
pub(crate) const LOST: &str = "records were lost, or exits have no length; what these hide could change the result";

/// What a sum comes to if the records that were lost are like those that were kept, as a factor.
pub(crate) fn with_lost(lost: u64, events: u64) -> f64 {
    1.0 + lost as f64 / events.max(1) as f64
}

/// Lengths of all are judged by those of the exits that have one: nine of ten have to.
pub(crate) fn are_most_timed(timed: u64, count: u64) -> bool {
    timed.saturating_mul(10) >= count.saturating_mul(9)
}

const UNTIMED: &str = "more than a tenth of these exits have no length";

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
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        let figure = figure.ok_or_else(|| ThresholdError::NoFigure(name.to_string()))?;
        let limit = figure.unit.parse(limit).ok_or_else(|| ThresholdError::BadLimit {
            figure: name.to_string(),
            limit: limit.to_string(),
            unit: figure.unit.about(),
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
        let unknown = |why| LimitCheck::Unknown(Unjudged { threshold: self.text.clone(), why });
        let (found, more) = match self.figure(facts, ledger) {
            Ok(found) => found,
            Err(why) => return unknown(why),
        };
        let is_passed = self.test.is_passed(found, self.limit);
        let hidden = || {
            let all = self.with_hidden(found, facts, ledger);
            all.is_some_and(|all| self.test.is_passed(all, self.limit) != is_passed)
        };
        match more {
            Some(why) if !self.test.is_final(is_passed) => unknown(why),
            None if hidden() => unknown(LOST),
            _ if !is_passed => LimitCheck::Holds,
            _ => LimitCheck::Passed(Breach { threshold: self.text.clone(), found: self.figure.unit.text(found) }),
        }
    }

    /// What a sum would come to with the records that were lost, and with the exits that have no length.
    fn with_hidden(&self, found: u64, facts: &Facts, ledger: &Ledger) -> Option<u64> {
        let stats = self.stats(facts);
        let untimed = match self.figure.of {
            Of::Time(_) => with_lost(stats.count.saturating_sub(stats.timed), stats.timed),
            Of::Sum(_) => 1.0,
            Of::Exits(_) | Of::Lengths(_) | Of::Recording(_) => return None,
        };
        let factor = untimed * with_lost(ledger.get(LedgerLine::LostRecords), ledger.events);
        Some((found as f64 * factor) as u64)
    }

    /// The exits that it is about.
    fn stats<'a>(&self, facts: &'a Facts) -> Cow<'a, ExitStats> {
        match &self.reason {
            Some(reason) => Cow::Owned(facts.of_reason(reason)),
            None => Cow::Borrowed(&facts.all),
        }
    }

    /// The figure, and why it may be more; or why the recording does not tell it.
    fn figure(&self, facts: &Facts, ledger: &Ledger) -> Result<(u64, Option<&'static str>), &'static str> {
        let figure = match self.figure.of {
            Of::Recording(value) => return Ok(value(ledger)),
            Of::Exits(value) | Of::Sum(value) | Of::Time(value) => {
                has_exits(facts, ledger)?;
                value(&self.stats(facts), facts)
            }
            Of::Lengths(value) => {
                has_exits(facts, ledger)?;
                let stats = match &self.reason {
                    Some(reason) => facts.of_reason(reason),
                    None => facts.without_halts().0,
                };
                match value(&stats) {
                    Some(_) if !are_most_timed(stats.timed, stats.count) => Err(UNTIMED),
                    value => value.ok_or("of no such exit both ends were seen"),
                }
            }
        };
        figure.map(|figure| (figure, None))
    }
}

/// Whether anything can be said of exits; else why not.
fn has_exits(facts: &Facts, ledger: &Ledger) -> Result<(), &'static str> {
    match () {
        _ if ledger.is_unread() => Err("nothing could be read"),
        _ if ledger.is_cut() => Err(CUT),
        _ if facts.all.count == 0 => Err("no exit was recorded, or none is selected"),
        _ => Ok(()),
    }
}

fn per_second(count: u64, duration: Nanos) -> Option<u64> {
    (u128::from(count) * 1_000_000_000).checked_div(u128::from(duration.0)).map(|rate| rate as u64)
}

fn share(part: u64, whole: u64) -> Option<u64> {
    (u128::from(part) * 10_000).checked_div(u128::from(whole)).map(|share| share as u64)
}

impl Facts {
    /// The figures of the reasons that are meant by this name.
    pub fn of_reason(&self, name: &str) -> ExitStats {
        let mut found = ExitStats::default();
        for (key, way) in self.phases.cells() {
            if is_called(&key.code.name(), name) {
                found.merge(&way.stats);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use crate::{FactsOptions, Selection};
    use exitscope_model::{CodeList, Exit, ExitCode, Handler, LedgerLine, TimePart};
    use exitscope_units::Moment;

    #[test]
    fn thresholds_are_read_as_people_write_them() {
        let cases = [
            ("p99(io)>200us", "p99", Some("io"), Test::Above, 200_000),
            ("rate(*) >= 50000/s", "rate", None, Test::AtLeast, 50_000),
            ("share(EPT_VIOLATION)<12.5%", "share", Some("EPT_VIOLATION"), Test::Below, 1_250),
            ("lost>0", "lost", None, Test::Above, 0),
            ("max(UD excp)>1.5ms", "max", Some("UD excp"), Test::Above, 1_500_000),
        ];
        for (text, figure, reason, test, limit) in cases {
            let read: Threshold = text.parse().unwrap();
            assert_eq!(
                (read.figure.name, read.reason(), read.test, read.limit),
                (figure, reason, test, limit),
                "{text}"
            );
        }
    }

    #[test]
    fn each_figure_is_its_own() {
        let mut facts = Facts::new(&FactsOptions { by: Vec::new(), slowest: 0, selection: Selection::default() });
        facts.begin(Moment::default());
        facts.event_kinds.handlers = true;
        let [io, msr] = [30, 32].map(|number| ExitCode::new(CodeList::Vmx, number));
        let mut at = 0;
        let mut absorb = |code, times: u64, handler, kernel, waiting| {
            for _ in 0..times {
                at += 1_000;
                let parts = spent(TimePart::Kernel, kernel).with(TimePart::Steal, Nanos(waiting));
                facts.absorb(&Exit { handler, parts, ..exit(vcpu(0), at, code) });
            }
        };
        absorb(io, 530, Handler::Kernel, 10, 0);
        absorb(io, 70, Handler::Userspace(2), 10, 0);
        absorb(io, 300, Handler::Kernel, 15, 5);
        absorb(io, 90, Handler::Kernel, 30, 0);
        absorb(io, 9, Handler::Kernel, 40, 0);
        absorb(io, 1, Handler::Kernel, 50, 0);
        absorb(msr, 1, Handler::Kernel, 40_830, 0);
        let (who, parts) = (vcpu(0), exitscope_model::AllParts::ZERO.with(TimePart::Guest, Nanos(249_999_900_000)));
        facts.absorb_stretch(&exitscope_model::CpuInterval { who, from: Moment::default(), parts });
        facts.end(Moment::default(), Moment::from_nanos(250_000_000_000), &Default::default());
        let mut ledger = Ledger::default();
        ledger.events = 2_002;
        ledger.add(LedgerLine::LostRecords, 3);
        let wanted = [
            ("count", 1_000),
            ("rate", 4),
            ("exit_time", 15_110),
            ("cost", 13_610),
            ("mean", 15),
            ("p50", 10),
            ("p90", 20),
            ("p99", 30),
            ("p99.9", 40),
            ("max", 50),
            ("share", 2_500),
            ("user_space", 700),
            ("lost", 3),
        ];
        let found = FIGURES.iter().map(|figure| {
            let (text, reason) = (figure.name.to_string(), Some("IO_INSTRUCTION".to_string()));
            let threshold = Threshold { text, figure, reason, test: Test::Above, limit: 0 };
            (figure.name, threshold.figure(&facts, &ledger).unwrap().0)
        });
        assert_eq!(found.collect::<Vec<_>>(), wanted);
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
