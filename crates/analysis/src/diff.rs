//! What changed between two recordings, and whether chance explains it.
//!
//! Each recording is cut into blocks of time. Every measure is computed anew of each resample of the blocks; the spread of
//! the differences is the confidence interval (block bootstrap: exits within a block may depend on each other, blocks are
//! taken as independent). Where a side has several recordings, as many of them are drawn first, and then each one's blocks:
//! so that the interval covers what differs from run to run as well.

use crate::division::within;
use crate::{Cell, Dim, Group, Part};
use exitscope_model::Exit;
use exitscope_stats::{Bootstrap, Histogram, Interval};
use exitscope_units::{Moment, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Exits that a side needs in a group for an interval on their lengths.
const FEWEST_EXITS: u64 = 20;

/// Collects one side of a comparison, a recording at a time.
#[derive(Clone, Debug)]
pub struct Diff {
    group: Group,
    blocks: Vec<Block>,
    /// The blocks of each recording.
    recordings: Vec<Range<usize>>,
}

/// A stretch of time and its exits by reason.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Nanoseconds.
    pub duration: u64,
    /// By reason, in the kernel's spelling.
    pub cells: BTreeMap<String, Cell>,
}

impl Block {
    /// The figures of a reason, or of all but those.
    fn of<'a>(&'a self, reason: Option<&'a str>, without: &'a [String]) -> impl Iterator<Item = &'a Cell> {
        let wanted = move |name: &String| reason.map_or_else(|| !without.contains(name), |reason| name == reason);
        self.cells.iter().filter(move |(name, _)| wanted(name)).map(|(_, cell)| cell)
    }

    /// Adds what another holds, as if it had been at the same time elsewhere or at another time.
    pub fn merge(&mut self, other: &Block) {
        self.duration = self.duration.saturating_add(other.duration);
        for (reason, cell) in &other.cells {
            self.cells.entry(reason.clone()).or_default().merge(cell);
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Nanoseconds of cost per second: parts per billion of one CPU.
    Cost,
    /// Exits per 1,000 seconds.
    Rate,
    /// Mean length in nanoseconds.
    Mean,
    /// Median length in nanoseconds.
    P50,
    /// 99th percentile of length in nanoseconds.
    P99,
}

impl Measure {
    /// All measures, what matters most first.
    pub const ALL: [Measure; 5] = [Measure::Cost, Measure::Rate, Measure::Mean, Measure::P50, Measure::P99];

    /// Its name, in limits and tables.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Cost => "cost",
            Measure::Rate => "rate",
            Measure::Mean => "mean",
            Measure::P50 => "p50",
            Measure::P99 => "p99",
        }
    }
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// More than before: the interval lies above zero.
    More,
    /// Less than before: the interval lies below zero.
    Less,
    /// The interval holds zero.
    Unclear,
    /// Too few blocks or exits for an interval.
    TooFew,
}

/// One measure on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is compared.
    pub measure: Measure,
    /// Before; `None` if there was nothing to measure.
    pub before: Option<u64>,
    /// After.
    pub after: Option<u64>,
    /// Confidence interval of after minus before, in the measure's unit.
    pub interval: Option<Interval>,
}

impl Change {
    /// A verdict only where the interval excludes zero.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::TooFew,
            Some(interval) if interval.low > 0 => Verdict::More,
            Some(interval) if interval.high < 0 => Verdict::Less,
            Some(_) => Verdict::Unclear,
        }
    }
}

/// One reason on both sides; `None` stands for all reasons together, but for idle ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffRow {
    /// The reason, in the kernel's spelling.
    pub reason: Option<String>,
    /// The reasons that all together are without: vCPUs idle there, and how long says nothing of exits.
    pub without: Vec<String>,
    /// Exits before and after.
    pub counts: (u64, u64),
    /// Every measure.
    pub changes: Vec<Change>,
}

impl Default for Diff {
    fn default() -> Diff {
        Diff { group: Group::by(&[Dim::Time(None), Dim::Reason]), blocks: Vec::new(), recordings: Vec::new() }
    }
}

impl Diff {
    /// Adds one exit of the recording in hand.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        self.group.absorb(exit);
    }

    /// Ends the recording in hand, whose selected time is `first..=last`; time of the stretches `held` counts in another. Returns
    /// how much is its own.
    pub fn end(&mut self, first: Moment, last: Moment, held: &[(Moment, Moment)]) -> Nanos {
        let own = |begin: u64, end: u64| {
            held.iter()
                .fold(end.saturating_sub(begin), |own, &stretch| own.saturating_sub(within(stretch, begin, end).0))
        };
        let (first, last) = (first.as_nanos(), last.as_nanos());
        let blocks = self.cut(first, last, own);
        self.add(blocks);
        Nanos(own(first, last))
    }

    /// Adds a recording, or what else is drawn as a whole, that is cut into blocks already.
    pub fn add(&mut self, blocks: Vec<Block>) {
        let before = self.blocks.len();
        self.blocks.extend(blocks);
        self.recordings.push(before..self.blocks.len());
    }

    /// The lengths of the exits that a row is of.
    pub fn lengths(&self, row: &DiffRow) -> Histogram {
        let mut lengths = Histogram::default();
        for cell in self.blocks.iter().flat_map(|block| block.of(row.reason.as_deref(), &row.without)) {
            lengths.merge(&cell.lengths);
        }
        lengths
    }

    /// The reasons whose exits are spent more in being idle than at any cost, on both sides taken together; none if there
    /// would be no others.
    fn idle(&self, before: &Diff) -> Vec<String> {
        let cells = before.blocks.iter().chain(&self.blocks).flat_map(|block| &block.cells);
        halts(cells.map(|(reason, cell)| (reason.clone(), cell)))
    }

    /// What the recording in hand has, block by block; `own` says how much between two moments is its own.
    fn cut(&mut self, first: u64, last: u64, own: impl Fn(u64, u64) -> u64) -> Vec<Block> {
        let group = std::mem::replace(&mut self.group, Group::by(&[Dim::Time(None), Dim::Reason]));
        let width = group.width().0;
        let of = |at: u64| at / width;
        let blocks = group.cells().into_iter().filter_map(|(key, cell)| match key {
            [Part::Time(at), Part::Reason(code)] => Some((of(at.as_nanos()), *code, cell)),
            _ => None,
        });
        let mut found: BTreeMap<u64, Block> = BTreeMap::new();
        for (at, code, cell) in blocks {
            found.entry(at).or_default().cells.insert(code.name(), cell.clone());
        }
        let (Some(low), Some(high)) = (found.keys().next().copied(), found.keys().last().copied()) else {
            return vec![Block { duration: own(first, last).max(1), ..Block::default() }];
        };
        // Time before the first exit and after the last belongs to the recording: as blocks without exits, at most
        // as many as there are others, the rest in the outermost ones.
        let most = high - low + 1;
        let from = of(first).max(low.saturating_sub(most)).min(low);
        let to = of(last).min(high.saturating_add(most)).max(high);
        let block = |at: u64| {
            let begin = if at == from { first } else { at * width };
            let end = if at == to { last } else { (at + 1).saturating_mul(width).min(last) };
            let mut block = found.remove(&at).unwrap_or_default();
            block.duration = own(begin, end).max(1);
            block
        };
        (from..=to).map(block).collect()
    }

    /// Compares: `before` against `self`, reason by reason, all together first, then by cost. `per_10_000` is the
    /// confidence of the intervals.
    pub fn against(&self, before: &Diff, per_10_000: u64) -> Vec<DiffRow> {
        let mut bootstrap = Bootstrap::default();
        let [draws_before, draws_after] = [before, self].map(|side| bootstrap.draw(&side.recordings));
        let reasons: BTreeSet<&String> =
            before.blocks.iter().chain(&self.blocks).flat_map(|block| block.cells.keys()).collect();
        let mut rows: Vec<(u64, DiffRow)> = std::iter::once(None)
            .chain(reasons.into_iter().cloned().map(Some))
            .map(|reason| {
                let without = if reason.is_none() { self.idle(before) } else { Vec::new() };
                let [old, new] = [before, self].map(|side| Side::of(&side.blocks, reason.as_deref(), &without));
                let changes = compare(&old, &draws_before, &new, &draws_after, per_10_000);
                let weight = if reason.is_none() { u64::MAX } else { old.cost().max(new.cost()) };
                (weight, DiffRow { reason, without, counts: (old.count(), new.count()), changes })
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        rows.into_iter().map(|row| row.1).collect()
    }
}

/// The reasons whose exits halt longer than they cost: how long they take says nothing of exits. None if
/// there are no others.
pub(crate) fn halts<'a>(cells: impl Iterator<Item = (String, &'a Cell)>) -> Vec<String> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (reason, cell) in cells {
        let (halted, cost) = sums.entry(reason).or_default();
        *halted = halted.saturating_add(cell.parts.in_halts().0);
        *cost = cost.saturating_add(cell.cost().0);
    }
    let (halts, others): (Vec<_>, Vec<_>) = sums.into_iter().partition(|(_, (halted, cost))| halted > cost);
    match others.is_empty() {
        true => Vec::new(),
        false => halts.into_iter().map(|(reason, _)| reason).collect(),
    }
}

/// One reason's cells on one side, a block each.
struct Side {
    durations: Vec<u64>,
    cells: Vec<Cell>,
}

impl Side {
    fn of(blocks: &[Block], reason: Option<&str>, without: &[String]) -> Side {
        let cell = |block: &Block| {
            block.of(reason, without).fold(Cell::default(), |mut all, cell| {
                all.merge(cell);
                all
            })
        };
        Side {
            durations: blocks.iter().map(|block| block.duration).collect(),
            cells: blocks.iter().map(cell).collect(),
        }
    }

    fn count(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    fn timed(&self) -> u64 {
        self.cells.iter().map(|cell| cell.timed).sum()
    }

    fn cost(&self) -> u64 {
        self.cells.iter().fold(0, |sum: u64, cell| sum.saturating_add(cell.cost().0))
    }

    /// Every measure, each block taken as often as `times` says.
    fn measure(&self, times: impl Fn(usize) -> u64) -> [Option<u64>; 5] {
        let sum = |of: &dyn Fn(&Cell) -> u64| -> u128 {
            self.cells.iter().enumerate().map(|(at, cell)| u128::from(of(cell)) * u128::from(times(at))).sum()
        };
        let duration: u128 =
            self.durations.iter().enumerate().map(|(at, duration)| u128::from(*duration) * u128::from(times(at))).sum();
        let mut lengths = Histogram::default();
        for (at, cell) in self.cells.iter().enumerate() {
            lengths.merge_weighted(&cell.lengths, times(at));
        }
        let drawn = || self.cells.iter().enumerate().filter(|(at, _)| times(*at) > 0).map(|(_, cell)| cell);
        let (min, max) = (drawn().filter_map(|cell| cell.min).min(), drawn().map(|cell| cell.max).max().unwrap_or(0));
        let all = Cell { lengths, min, max, ..Cell::default() };
        let quantile = |per_10_000| all.quantile(per_10_000).map(|length| length.0);
        let clip = |value: u128| value.min(u128::from(u64::MAX)) as u64;
        [
            (sum(&|cell| cell.cost().0) * 1_000_000_000).checked_div(duration).map(clip),
            (sum(&|cell| cell.count) * 1_000_000_000_000).checked_div(duration).map(clip),
            sum(&|cell| cell.total().0).checked_div(sum(&|cell| cell.timed)).map(clip),
            quantile(5_000),
            quantile(9_900),
        ]
    }
}

fn compare(old: &Side, draws_old: &[Vec<u32>], new: &Side, draws_new: &[Vec<u32>], per_10_000: u64) -> Vec<Change> {
    let (before, after) = (old.measure(|_| 1), new.measure(|_| 1));
    let mut spread: [Vec<i64>; 5] = Default::default();
    for (old_times, new_times) in draws_old.iter().zip(draws_new) {
        let resampled_old = old.measure(|at| u64::from(old_times[at]));
        let resampled_new = new.measure(|at| u64::from(new_times[at]));
        for (spread, (old, new)) in spread.iter_mut().zip(resampled_old.into_iter().zip(resampled_new)) {
            if let (Some(old), Some(new)) = (old, new) {
                spread.push((i128::from(new) - i128::from(old)).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
            }
        }
    }
    let enough_lengths = old.timed() >= FEWEST_EXITS && new.timed() >= FEWEST_EXITS;
    let measured = Measure::ALL.into_iter().zip(before).zip(after).zip(spread);
    measured
        .map(|(((measure, before), after), spread)| {
            let of_lengths = matches!(measure, Measure::Mean | Measure::P50 | Measure::P99);
            let enough = enough_lengths || !of_lengths;
            let interval = if enough { Interval::of(spread, per_10_000) } else { None };
            Change { measure, before, after, interval }
        })
        .collect()
}
