//! FCX102, the System Counters of z/VM's Performance Toolkit: two columns of an operation, its count and its rate.
//!
//! ```text
//!   FCX102      CPU 2817  SER 36D85  Interval 10:00:30 - 10:01:30    Perf. Monitor
//!   Operation                Count Rate/s    Operation                Count Rate/s
//!   Diag.X'9C', Not Ready       18     .3    Diag.X'9C', Wait State     642   10.7
//! ```
//!
//! Layout: IBM's documentation of z/VM 7.3, "FCX102, System Counters - SYSTEM"; a header with numbers: "FCX265, Spin Lock Log
//! Screen - LOCKLOG" there. People paste it: spaces may be fewer, and a decimal point may be a comma.

use exitscope_model::{
    CountSource, CounterRow, Ledger, LedgerLine, YieldCount, YieldCounter, YieldCounts, counters_of,
};
use exitscope_units::Nanos;

/// What each figure's label has.
const DIAGNOSES: [&str; 2] = ["Diag.X'44'", "Diag.X'9C'"];

/// Seconds of a day, past which an interval may go.
const DAY: u64 = 24 * 60 * 60;

/// Whether a line is of a screen that is read, or that could be beside one.
pub(super) fn is_of_one(line: &str) -> bool {
    screen_number(line).is_some() || has_figure(line)
}

/// Whether a line names a figure of FCX102.
pub(super) fn has_figure(line: &str) -> bool {
    let words = spaced(line);
    counters_of(CountSource::Fcx102).any(|row| label_in(&words, row).is_some())
}

/// The label of a figure that is in a line of single spaces.
fn label_in(line: &str, row: &CounterRow) -> Option<&'static str> {
    row.printed.iter().find(|label| line.contains(**label)).copied()
}

/// The line with single spaces.
fn spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number of the screen whose header this is: `FCX102`, maybe after a printer's control character.
fn screen_number(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let digits = name.strip_prefix("FCX").or_else(|| name.strip_prefix("1FCX"))?;
    words.next()?;
    (digits.len() == 3).then(|| digits.parse().ok())?
}

/// Screens as they are met.
#[derive(Debug, Default)]
pub(super) struct Screens {
    counts: Vec<YieldCounts>,
    now: Now,
}

/// The screen of which lines are met.
#[derive(Debug, Default)]
enum Now {
    /// None whose header was seen: lines may be of a screen without one.
    #[default]
    Unknown,
    /// One of those in `counts`; whether a figure was met that it had.
    Read { at: usize, repeats: bool },
    /// A kind that is not read.
    Other,
}

impl Screens {
    /// Looks at a line.
    pub(super) fn line(&mut self, line: &str, at: u64, ledger: &mut Ledger) {
        match screen_number(line) {
            Some(102) => {
                let header = header(line);
                self.begin(header);
            }
            Some(_) => {
                self.now = Now::Other;
                ledger.count_at(LedgerLine::OtherScreen, at);
            }
            None if matches!(self.now, Now::Other) => {}
            None => self.figures(line, at, ledger),
        }
    }

    /// Begins a screen, or goes on with one of the same system and interval, as a page's header is repeated.
    fn begin(&mut self, Header { system, interval, begin, span }: Header) {
        let known = self.counts.iter().position(|of| of.system == system && of.interval == interval);
        let at = match known.filter(|_| !interval.is_empty()) {
            Some(known) => known,
            None => {
                self.counts.push(YieldCounts {
                    source: CountSource::Fcx102,
                    system,
                    interval,
                    begin,
                    span,
                    is_since_start: false,
                    counts: Vec::new(),
                    spin_retry: None,
                });
                self.counts.len() - 1
            }
        };
        self.now = Now::Read { at, repeats: false };
    }

    fn figures(&mut self, line: &str, at: u64, ledger: &mut Ledger) {
        let words = spaced(line);
        let named: Vec<_> = counters_of(CountSource::Fcx102).filter(|row| label_in(&words, row).is_some()).collect();
        // A label that is cut is a figure that is cut.
        let all = DIAGNOSES.iter().map(|name| words.matches(name).count()).sum::<usize>();
        match all.saturating_sub(named.len()) as u64 {
            0 => {}
            cut => ledger.add_at(LedgerLine::BadText, cut, at),
        }
        for row in named {
            match figure_after(&words, row) {
                Some(Figure::NotCounted) => {}
                Some(Figure::Counted { count, rate }) => self.take(row.counter, count, rate, at, ledger),
                None => ledger.count_at(LedgerLine::BadText, at),
            }
        }
    }

    fn take(&mut self, counter: YieldCounter, count: u64, rate: f64, line: u64, ledger: &mut Ledger) {
        if matches!(self.now, Now::Unknown) {
            self.begin(Header::default());
        }
        let Now::Read { at, repeats } = self.now else { return };
        let of = &mut self.counts[at];
        let known = of.get(counter).map(|known| known.count);
        match known {
            // Without an interval, figures that come once more begin another screen.
            Some(known) if of.interval.is_empty() && known != count => {
                let system = of.system.clone();
                self.begin(Header { system, ..Header::default() });
                self.take(counter, count, rate, line, ledger);
            }
            Some(known) if known == count => {
                if !repeats {
                    ledger.count_at(LedgerLine::RepeatedScreen, line);
                }
                self.now = Now::Read { at, repeats: true };
            }
            // One system has one figure of an interval.
            Some(_) => ledger.count_at(LedgerLine::BadText, line),
            None if of.span.is_some_and(|span| !fits(count, rate, span)) => ledger.count_at(LedgerLine::BadText, line),
            None => {
                let within = YieldCount::within(of.span, counter, count);
                of.counts.push(YieldCount { per_s: within.per_s.or(Some(rate)), ..within });
            }
        }
    }

    /// The screens that had a figure.
    pub(super) fn end(self) -> Vec<YieldCounts> {
        let order = |count: &YieldCount| {
            counters_of(CountSource::Fcx102).position(|row| row.counter == count.counter).unwrap_or(usize::MAX)
        };
        let mut counts = self.counts;
        counts.retain(|of| !of.counts.is_empty());
        counts.iter_mut().for_each(|of| of.counts.sort_by_key(order));
        counts
    }
}

/// What a header says.
#[derive(Debug, Default)]
struct Header {
    system: String,
    /// As printed.
    interval: String,
    /// Its beginning since midnight.
    begin: Option<Nanos>,
    /// Its length.
    span: Option<Nanos>,
}

fn header(line: &str) -> Header {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let named = ["CPU", "SER"].into_iter().filter_map(|name| Some(format!("{name} {}", after(name)?)));
    let system = named.collect::<Vec<_>>().join(" ");
    let at = words.iter().position(|word| *word == "Interval");
    let ends = at.and_then(|at| match words.get(at + 1..at + 4)? {
        [from, "-", to] => Some((*from, *to)),
        _ => None,
    });
    let Some((from, to)) = ends else { return Header { system, ..Header::default() } };
    let seconds = |seconds: u64| Nanos(seconds * 1_000_000_000);
    let ends = second_of_day(from).zip(second_of_day(to)).filter(|(from, to)| from != to);
    Header {
        system,
        interval: format!("{from} - {to}"),
        begin: ends.map(|(from, _)| seconds(from)),
        span: ends.map(|(from, to)| seconds((to + DAY - from) % DAY)),
    }
}

/// `10:01:30` as seconds.
fn second_of_day(text: &str) -> Option<u64> {
    let mut parts = text.split(':').map(|part| part.parse::<u64>().ok().filter(|_| part.len() == 2));
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    (parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 60)
        .then_some(hours * 3_600 + minutes * 60 + seconds)
}

#[derive(Debug, PartialEq)]
enum Figure {
    Counted {
        count: u64,
        rate: f64,
    },
    /// `---`: this system does not count it.
    NotCounted,
}

/// Count and rate after the label of a figure.
fn figure_after(line: &str, row: &CounterRow) -> Option<Figure> {
    let (_, after) = line.split_once(label_in(line, row)?)?;
    let mut words = after.strip_prefix(' ')?.split(' ');
    match (words.next()?, words.next()?) {
        ("---", "---") => Some(Figure::NotCounted),
        (count, rate) => Some(Figure::Counted { count: whole(count)?, rate: rate_of(rate)? }),
    }
}

/// A number without decimals; thousands may be divided.
fn whole(text: &str) -> Option<u64> {
    let is_divided = text.contains([',', '.']);
    let groups: Vec<&str> = text.split([',', '.']).collect();
    let is_group = |group: &&str| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = |group: &str| {
        group.bytes().all(|byte| byte.is_ascii_digit()) && !group.is_empty() && (!is_divided || group.len() <= 3)
    };
    let (first, rest) = groups.split_first()?;
    (is_first(first) && rest.iter().all(is_group)).then(|| groups.concat().parse().ok())?
}

/// A rate: `159`, `10.7`, `.3`, with a point or a comma, or divided thousands.
fn rate_of(text: &str) -> Option<f64> {
    if let Some(whole) = whole(text) {
        return Some(whole as f64);
    }
    let (before, after) = text.split_once([',', '.'])?;
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    (digits(before) && digits(after) && (1..=2).contains(&after.len()))
        .then(|| format!("{before}.{after}").parse().ok())?
}

/// Whether count, rate and interval may be of one another: rates have three digits, and the interval's ends are whole seconds.
fn fits(count: u64, rate: f64, span: Nanos) -> bool {
    let seconds = span.0 as f64 / 1e9;
    let exact = count as f64 / seconds;
    (exact - rate).abs() <= 0.06 + rate * (0.01 + 1.0 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_are_clear() {
        let wholes = ["0", "9553", "178404", "9,553", "9.553", "1,234,567"].map(whole);
        assert_eq!(wholes, [0, 9_553, 178_404, 9_553, 9_553, 1_234_567].map(Some));
        for unclear in ["", ".", "1,2", "9553k", "1234,567", "12,34", "-1", ",553", "18446744073709551616"] {
            assert_eq!(whole(unclear), None, "{unclear}");
        }
        let rates = [".0", ".3", "10.7", "10,7", "159", "2,973"].map(rate_of);
        assert_eq!(rates, [0.0, 0.3, 10.7, 10.7, 159.0, 2_973.0].map(Some));
        for unclear in ["", ".", "---", "1.2345", "1.2.3", "x"] {
            assert_eq!(rate_of(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn an_interval_may_pass_midnight() {
        let span = |line| header(line).span.map(|span| span.0 / 1_000_000_000);
        assert_eq!(span("FCX102 CPU 2817 SER 36D85 Interval 23:59:30 - 00:00:30 Perf. Monitor"), Some(60));
        assert_eq!(span("FCX102 CPU nnnn SER nnnnn Interval HH:MM:SS - HH:MM:SS Perf. Monitor"), None);
        assert_eq!(span("FCX102 CPU 2817 SER 36D85 Interval 10:00:30"), None);
        assert_eq!(span("FCX102 CPU 2817 SER 36D85 Interval 10:00:30 - 10:00:30"), None);
    }
}
