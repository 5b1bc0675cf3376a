//! What a page does not hold of a recording: single exits of a time, and exits by any of CPU, place and handler, from another reading.
//!
//! ```text
//! /single/N/FROM/TO             ┐
//! /groups/N/FROM/TO/BY/LENGTHS  ┴─► Question ─► Reread: TimelineKeys ─┬─► SingleExits of that time ─┬─► packed, in the numbers
//!                                                                     └─► Groups: sums by key ──────┘   of the recording's page
//! ```
//!
//! All of the recording is read, so that vCPUs and causes have the numbers that they have in its page.

use crate::cpu_waits::ThreadRow;
use crate::html::{PACKING, pack};
use crate::single_exits::{Places, SingleExitsHead};
use crate::timelines::{CauseNumbering, LaneOrder};
use exitscope_analysis::over_time::columns::push_all;
use exitscope_analysis::over_time::{ExitSample, Numbered, SingleExits, TimelineBatch, TimelineKeys, TimelineSink};
use exitscope_analysis::{KeyNumbering, Length, Limit, Selection, Than};
use exitscope_model::{EXIT_PARTS, ExitParts, LaneSpan, TimePart, TraceInfo};
use exitscope_units::{Tid, VcpuId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Groups at most (40 MB).
const MOST_GROUPS: usize = 1 << 18;

/// Places in guests at most; those of further exits have one number.
const RIPS: u32 = 1 << 18;

/// Limits of lengths at most.
const MOST_LIMITS: usize = 16;

/// What is asked of all exits of a recording that begin in a time, or, of single ones, that are in it in part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Nanoseconds on the trace's clock, the first and the last.
    from: u64,
    to: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Singles,
    /// Whether by handler, CPU and place in the guest; of exits within these limits.
    Groups([bool; BY.len()], Vec<Limit>),
}

/// What exits are told apart by, beside vCPU and cause.
const BY: [&str; 3] = ["to_user", "cpu", "rip"];

/// How limits are written.
const THAN: [(&str, Than); 6] =
    [("eq", Than::Eq), ("ne", Than::Ne), ("lt", Than::Lt), ("le", Than::Le), ("gt", Than::Gt), ("ge", Than::Ge)];

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer(String);

impl Display for NoAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAnswer {}

impl FromStr for Question {
    type Err = NoAnswer;

    /// Reads `single/FROM/TO` or `groups/FROM/TO/BY/LENGTHS`, lists with commas, `-` for none, lengths like `cost.gt.100000`.
    fn from_str(text: &str) -> Result<Question, NoAnswer> {
        let words: Vec<&str> = text.split('/').collect();
        let (from, to, what) = match words[..] {
            ["single", from, to] => (from, to, What::Singles),
            ["groups", from, to, by, limits] => (from, to, What::Groups(keys_of(by)?, limits_of(limits)?)),
            _ => return Err(NoAnswer("ask for single/FROM/TO or groups/FROM/TO/BY/LENGTHS".to_string())),
        };
        let [from, to] = [number(from)?, number(to)?];
        match from <= to {
            true => Ok(Question { from, to, what }),
            false => Err(NoAnswer(format!("the time from {from} to {to} ends before it begins"))),
        }
    }
}

fn number(text: &str) -> Result<u64, NoAnswer> {
    let no_number = || NoAnswer(format!("{text:?} is no whole number of nanoseconds"));
    text.parse().map_err(|_| no_number())
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|word| *word != "-")
}

fn keys_of(text: &str) -> Result<[bool; BY.len()], NoAnswer> {
    match list(text).find(|word| !BY.contains(word)) {
        Some(word) => Err(NoAnswer(format!("{word:?} is none of {}", BY.join(", ")))),
        None => Ok(BY.map(|key| list(text).any(|word| word == key))),
    }
}

fn limits_of(text: &str) -> Result<Vec<Limit>, NoAnswer> {
    let limit = |text: &str| {
        let wrong = || NoAnswer(format!("{text:?} is no limit of a length, like cost.gt.100000"));
        let [of, than, ns] = text.split('.').collect::<Vec<_>>().try_into().map_err(|_| wrong())?;
        let of = Length::all().find(|length| length.name() == of).ok_or_else(wrong)?;
        let than = THAN.iter().find(|row| row.0 == than).ok_or_else(wrong)?.1;
        Ok(Limit { of, than, ns: number(ns)? })
    };
    match list(text).count() > MOST_LIMITS {
        true => Err(NoAnswer(format!("more than {MOST_LIMITS} limits of lengths"))),
        false => list(text).map(limit).collect(),
    }
}

fn part_of(exit: &ExitSample, parts: &[ExitParts], part: TimePart) -> u64 {
    match (part, exit.parts(parts)) {
        (_, Some(parts)) => parts.get(part).0,
        (TimePart::Kernel, None) => exit.kernel,
        (TimePart::User, None) => exit.user,
        _ => 0,
    }
}

/// What groups are of: vCPU, cause, and those of [`BY`] that were asked for.
type Key = (u16, u16, [u32; BY.len()]);

/// Columns of groups beside their keys and the parts of exits.
const COUNTS: [&str; 2] = ["count", "timed"];

/// Sums of exits by group.
#[derive(Clone, Debug, Default)]
struct Groups {
    sums: FxHashMap<Key, [u64; COUNTS.len() + EXIT_PARTS]>,
    is_full: bool,
}

/// What a question's answer is made of while the recording is read.
#[derive(Debug)]
pub struct Reread {
    question: Question,
    singles: SingleExits,
    groups: Groups,
    rips: KeyNumbering<u64>,
}

/// An answer.
#[derive(Debug, Serialize)]
struct Answered {
    /// Which version of the file was read.
    version: String,
    /// The moment that others are counted from, on the trace's clock; as text, as that of a page is.
    base_ns: String,
    singles: Option<SingleExitsHead>,
    groups: Option<GroupsHead>,
}

/// Groups of exits.
#[derive(Debug, Serialize)]
struct GroupsHead {
    rows: usize,
    /// The columns, one after the other: vCPU, cause and what else was asked for by their places in the page, then sums.
    columns: Vec<&'static str>,
    #[serde(flatten)]
    places: Places,
}

impl Reread {
    /// Creates an empty answer to `question`.
    pub fn numbered(question: Question) -> Numbered<Reread> {
        let singles = match question.what {
            What::Singles => SingleExits::within(question.from, question.to),
            What::Groups(..) => SingleExits::none(),
        };
        let rips = KeyNumbering::of_at_most(RIPS);
        let reread = Reread { question, singles, groups: Groups::default(), rips };
        Numbered::passing_to(TimelineKeys::new(&Selection::default()), reread)
    }

    /// The answer, packed, of this version of the file, which has been read: its vCPUs had these spans, and threads run these vCPUs.
    /// `function` knows where that of an address begins, and its name.
    pub fn finish<'a>(
        read: Numbered<Reread>,
        version: String,
        (lanes, vcpu_of): (&[LaneSpan], &FxHashMap<Tid, VcpuId>),
        info: &TraceInfo,
        function: impl Fn(u64) -> Option<(u64, &'a str)>,
    ) -> Result<Vec<u8>, NoAnswer> {
        let Numbered { mut names, to: read, .. } = read;
        if read.singles.is_cut() {
            let text = format!("more than {} exits in this time: ask for a shorter one", SingleExits::MOST_WITHIN);
            return Err(NoAnswer(text));
        }
        if read.groups.is_full {
            let text =
                format!("more than {MOST_GROUPS} groups: leave out the place in the guest, or choose a shorter time");
            return Err(NoAnswer(text));
        }
        names.end(lanes, vcpu_of);
        let Reread { question, singles, groups, rips } = read;
        let (order, numbering) = (LaneOrder::new(&names), CauseNumbering::new(&names));
        let base = singles.first().map_or(question.from, |first| first.min(question.from));
        let mut bytes = Vec::new();
        let (lane, cause) = (|number: u32| order.of(number), |number: u32| numbering.of(number as usize));
        let (singles, groups) = match &question.what {
            What::Singles => {
                let thread = |tid| ThreadRow::of(tid, info, &order);
                let mut singles = SingleExitsHead::of(singles, base, (lane, cause, thread), &mut bytes);
                singles.iter_mut().for_each(|singles| singles.places.name(&function));
                (singles, None)
            }
            What::Groups(by, _) => {
                let mut places = Places::new(rips.keys());
                places.name(&function);
                let keys = (0..BY.len()).filter(|at| by[*at]);
                let columns = ["lane", "cause"].into_iter().chain(keys.clone().map(|at| BY[at])).chain(COUNTS);
                let columns = columns.chain(TimePart::OF_EXITS.map(TimePart::column)).collect();
                let mut rows: Vec<_> = groups.sums.iter().collect();
                rows.sort_unstable();
                push_all(&mut bytes, rows.iter().map(|row| lane(row.0.0.into()).into()));
                push_all(&mut bytes, rows.iter().map(|row| cause(row.0.1.into()).into()));
                keys.for_each(|at| push_all(&mut bytes, rows.iter().map(|row| row.0.2[at].into())));
                (0..COUNTS.len() + EXIT_PARTS).for_each(|at| push_all(&mut bytes, rows.iter().map(|row| row.1[at])));
                (None, Some(GroupsHead { rows: rows.len(), columns, places }))
            }
        };
        let mut packed = Vec::new();
        let answered = Answered { version, base_ns: base.to_string(), singles, groups };
        pack(&answered, &bytes, PACKING, &mut packed).map_err(|error| NoAnswer(error.to_string()))?;
        Ok(packed)
    }
}

impl Groups {
    fn add(&mut self, key: Key, exit: &ExitSample, parts: &[ExitParts]) {
        if self.sums.len() >= MOST_GROUPS && !self.sums.contains_key(&key) {
            self.is_full = true;
            return;
        }
        let sums = self.sums.entry(key).or_default();
        let [count, timed, of_parts @ ..] = sums;
        *count += 1;
        *timed += u64::from(exit.timed);
        for (sum, part) in of_parts.iter_mut().zip(TimePart::OF_EXITS) {
            *sum = sum.saturating_add(part_of(exit, parts, part));
        }
    }
}

impl TimelineSink for Reread {
    fn take(&mut self, batch: &mut TimelineBatch) {
        self.singles.absorb(batch);
        if let What::Groups(by, limits) = &self.question.what {
            let (from, to) = (self.question.from, self.question.to);
            let parts = &batch.parts;
            for exit in batch.exits.iter().filter(|exit| from <= exit.at && exit.at <= to) {
                // What has no length is within no limits.
                if !limits.iter().all(|limit| exit.timed && limit.holds(|part| part_of(exit, parts, part), exit.total))
                {
                    continue;
                }
                let rip = if by[2] && exit.rip > 0 { self.rips.of(exit.rip) + 1 } else { 0 };
                let keys = [u32::from(by[0] && exit.to_user), if by[1] { exit.cpu.into() } else { 0 }, rip];
                self.groups.add((exit.lane, exit.cause, keys), exit, parts);
            }
        }
        batch.clear();
    }

    fn is_full(&self) -> bool {
        self.groups.is_full || self.singles.is_cut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_what_is_wrong_with_them_is_said() {
        let wrong = |text: &str| text.parse::<Question>().unwrap_err().to_string();
        let Question { from, to, what } = "groups/5/900/rip,cpu/cost.gt.100,steal.le.7".parse().unwrap();
        let [cost, steal] = [(Length::Cost, Than::Gt, 100), (Length::Part(TimePart::Steal), Than::Le, 7)];
        let limit = |(of, than, ns)| Limit { of, than, ns };
        assert_eq!((from, to), (5, 900));
        assert_eq!(what, What::Groups([false, true, true], vec![limit(cost), limit(steal)]));
        assert_eq!("groups/0/1/-/-".parse::<Question>().unwrap().what, What::Groups([false; 3], Vec::new()));
        assert_eq!("single/7/7".parse::<Question>().unwrap().what, What::Singles);
        assert!(wrong("single/9/8").contains("ends before it begins"));
        assert!(wrong("single/-9/8").contains("\"-9\" is no whole number"));
        assert!(wrong("single/9").starts_with("ask for"));
        assert!(wrong("groups/0/1/vm/-").contains("\"vm\" is none of to_user, cpu, rip"));
        for limit in ["cost.gt", "cost.over.5", "guest.gt.5", "cost.gt.5.5", ""] {
            assert!(wrong(&format!("groups/0/1/-/{limit}")).contains("is no limit of a length"), "{limit}");
        }
        assert!(wrong(&format!("groups/0/1/-/{}", ["cost.gt.5"; 17].join(","))).starts_with("more than 16"));
    }
}
