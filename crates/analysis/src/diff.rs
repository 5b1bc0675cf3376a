//! What changed between two recordings, and whether chance explains it.
//!
//! ```text
//! two recordings a side, or more ─► a figure of each ─► UnitChange, several corrected by Holm
//! one on a side ─► blocks of time ─► every measure of each resample of the blocks ─► interval
//! ```
//!
//! The interval of blocks covers what differs within a recording, and nothing of what differs from run to run (block bootstrap:
//! exits within a block may depend on each other, blocks are taken as independent).

use crate::vcpu_time::within;
use crate::{DiffUnit, Dimension, DimensionValue, ExitGroups, ExitStats, UnitChange, UnitOrder};
use exitscope_model::Exit;
use exitscope_stats::{Bootstrap, Histogram, Interval, holm};
use exitscope_units::{Moment, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Exits that a side needs in a group for an interval on their lengths.
const FEWEST_EXITS: u64 = 20;

/// Collects one side of a comparison, a recording at a time.
#[derive(Clone, Debug)]
pub struct Diff {
    group: ExitGroups,
    blocks: Vec<DiffBlock>,
    /// The blocks of each recording.
    recordings: Vec<Range<usize>>,
    /// What else is known of each.
    units: Vec<DiffUnit>,
}

/// A stretch of time and its exits by reason.
#[derive(Clone, Debug, Default)]
pub struct DiffBlock {
    /// Time of all vCPUs together, in nanoseconds.
    pub duration: u64,
    /// By reason, in the kernel's spelling.
    pub groups: BTreeMap<String, ExitStats>,
}

impl DiffBlock {
    /// The figures of a reason, or of all but those.
    fn of<'a>(&'a self, reason: Option<&'a str>, without: &'a [String]) -> impl Iterator<Item = &'a ExitStats> {
        let wanted = move |name: &String| reason.map_or_else(|| !without.contains(name), |reason| name == reason);
        self.groups.iter().filter(move |(name, _)| wanted(name)).map(|(_, cell)| cell)
    }

    /// Adds what another holds, as if it had been at the same time elsewhere or at another time.
    pub fn merge(&mut self, other: &DiffBlock) {
        let DiffBlock { duration, groups } = other;
        self.duration = self.duration.saturating_add(*duration);
        for (reason, cell) in groups {
            self.groups.entry(reason.clone()).or_default().merge(cell);
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffMeasure {
    /// Nanoseconds of cost per second of vCPU time: parts per billion of it.
    Cost,
    /// Exits per 1,000 seconds of vCPU time.
    Rate,
    /// Mean length in nanoseconds.
    Mean,
    /// Median length in nanoseconds.
    P50,
    /// 99th percentile of length in nanoseconds.
    P99,
    /// Nanoseconds of cost per second that guests ran. Of all exits together alone, as are the next ones.
    CostOfGuest,
    /// Nanoseconds of cost per 1,000 units of the work that was done.
    CostOfWork,
    /// Nanoseconds that guests ran per second of vCPU time.
    Guest,
    /// Nanoseconds of steal per second of vCPU time.
    Steal,
}

/// An interval that reaches up to so many times the figure itself says nothing of it: two recordings a side that differ among each
/// other have such, and larger than any number.
const WIDEST: f64 = 1_000.0;

impl DiffMeasure {
    /// All measures of a reason, what matters most first.
    pub const ALL: [DiffMeasure; 5] =
        [DiffMeasure::Cost, DiffMeasure::Rate, DiffMeasure::Mean, DiffMeasure::P50, DiffMeasure::P99];

    /// Whether it is what exits cost, of whatever.
    fn is_cost(self) -> bool {
        matches!(self, DiffMeasure::Cost | DiffMeasure::CostOfGuest | DiffMeasure::CostOfWork)
    }

    /// More of it cannot be: of vCPU time, all.
    fn most(self) -> Option<i64> {
        matches!(self, DiffMeasure::Cost | DiffMeasure::Guest | DiffMeasure::Steal).then_some(1_000_000_000)
    }

    /// Its name, in limits and tables.
    pub fn name(self) -> &'static str {
        match self {
            DiffMeasure::Cost => "cost",
            DiffMeasure::Rate => "rate",
            DiffMeasure::Mean => "mean",
            DiffMeasure::P50 => "p50",
            DiffMeasure::P99 => "p99",
            DiffMeasure::CostOfGuest => "cost of guest time",
            DiffMeasure::CostOfWork => "cost of work",
            DiffMeasure::Guest => "guest",
            DiffMeasure::Steal => "steal",
        }
    }
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// More than before: the interval lies above zero.
    More,
    /// Less than before: the interval lies below zero.
    Less,
    /// The interval holds zero.
    Unclear,
    /// Too few blocks or exits for an interval.
    TooFew,
    /// The sides are such that nothing is said of any change: see [`crate::DiffVerdict::of_change`].
    NotJudged,
}

/// One measure on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureChange {
    /// What is compared.
    pub measure: DiffMeasure,
    /// Before; `None` if there was nothing to measure.
    pub before: Option<u64>,
    /// After.
    pub after: Option<u64>,
    /// Confidence interval of after minus before, in the measure's unit.
    pub interval: Option<Interval>,
    /// How the recordings of both sides differ, where these are compared; `None` where blocks of time are.
    pub units: Option<UnitChange>,
    /// Whether the interval excludes zero, and, of one of several questions, would do so corrected for them all.
    pub is_certain: bool,
}

impl MeasureChange {
    /// By blocks of time, or a figure without an interval.
    pub fn of_blocks(
        measure: DiffMeasure,
        before: Option<u64>,
        after: Option<u64>,
        interval: Option<Interval>,
    ) -> MeasureChange {
        let is_certain = interval.is_some_and(excludes_zero);
        MeasureChange { measure, before, after, interval, units: None, is_certain }
    }

    /// By the figures of several recordings. An interval ends where the measure does; one so wide that it says nothing is none.
    fn of_units(measure: DiffMeasure, change: UnitChange) -> MeasureChange {
        let whole = |value: f64| Some(value.round().clamp(0.0, u64::MAX as f64) as u64);
        let (old, new) = change.typical;
        let (before, after) = (whole(old), whole(new));
        let Interval { low, high } = change.interval;
        let (interval, is_narrow) = match measure.most() {
            Some(most) => (Interval { low, high: high.min((most - old as i64).max((new - old).ceil() as i64)) }, true),
            None => (change.interval, high as f64 <= WIDEST * old.max(new)),
        };
        let is_told = is_narrow || excludes_zero(interval);
        let of_blocks = MeasureChange::of_blocks(measure, before, after, is_told.then_some(interval));
        MeasureChange { units: Some(change), is_certain: of_blocks.is_certain && !change.drifts, ..of_blocks }
    }

    /// The same, moved to this interval; one that several questions leave uncertain stays so.
    pub(crate) fn moved_to(&self, interval: Option<Interval>) -> MeasureChange {
        let was_certain = self.is_certain || !self.interval.is_some_and(excludes_zero);
        MeasureChange { interval, is_certain: was_certain && interval.is_some_and(excludes_zero), ..*self }
    }

    /// Which way it changed, asked by itself: for what speaks against another change.
    pub(crate) fn way(&self) -> ChangeVerdict {
        let drifts = self.units.is_some_and(|units| units.drifts);
        MeasureChange { is_certain: !drifts && self.interval.is_some_and(excludes_zero), ..*self }.verdict()
    }

    /// A verdict only where the change is certain.
    pub fn verdict(&self) -> ChangeVerdict {
        match self.interval {
            None => ChangeVerdict::TooFew,
            Some(_) if !self.is_certain => ChangeVerdict::Unclear,
            Some(interval) if interval.low > 0 => ChangeVerdict::More,
            Some(interval) if interval.high < 0 => ChangeVerdict::Less,
            Some(_) => ChangeVerdict::Unclear,
        }
    }
}

fn excludes_zero(interval: Interval) -> bool {
    interval.low > 0 || interval.high < 0
}

/// One reason on both sides; `None` stands for all reasons together, but for idle ones.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// The reason, in the kernel's spelling.
    pub reason: Option<String>,
    /// The reasons that all together are without: vCPUs idle there, and how long says nothing of exits.
    pub without: Vec<String>,
    /// Exits before and after.
    pub counts: (u64, u64),
    /// Exits of which both ends were seen, before and after.
    pub timed: (u64, u64),
    /// Every measure.
    pub changes: Vec<MeasureChange>,
}

impl DiffRow {
    fn of(
        reason: Option<String>,
        without: Vec<String>,
        old: &Side,
        new: &Side,
        changes: Vec<MeasureChange>,
    ) -> DiffRow {
        let counts = (old.count(), new.count());
        DiffRow { reason, without, counts, timed: (old.timed(), new.timed()), changes }
    }

    /// The change of this measure.
    pub fn change(&self, measure: DiffMeasure) -> Option<&MeasureChange> {
        self.changes.iter().find(|change| change.measure == measure)
    }
}

impl Default for Diff {
    fn default() -> Diff {
        Diff {
            group: ExitGroups::by(&[Dimension::Time(None), Dimension::Reason]),
            blocks: Vec::new(),
            recordings: Vec::new(),
            units: Vec::new(),
        }
    }
}

impl Diff {
    /// Adds one exit of the recording in hand.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        self.group.absorb(exit);
    }

    /// Ends the recording in hand, whose selected time is `first..=last`; time of the stretches `held` counts in another.
    /// `vcpus` are the spans of its vCPUs, whose time rates are of: that of one as long as the recording if there are none.
    /// Returns how much of the recording is its own.
    pub fn end(&mut self, first: Moment, last: Moment, held: &[(Moment, Moment)], vcpus: &[(Moment, Moment)]) -> Nanos {
        let own = |begin: u64, end: u64| {
            held.iter()
                .fold(end.saturating_sub(begin), |own, &stretch| own.saturating_sub(within(stretch, begin, end).0))
        };
        let of_vcpus = |begin: u64, end: u64| -> u64 {
            let spans = vcpus.iter().map(|span| (begin.max(span.0.as_nanos()), end.min(span.1.as_nanos())));
            spans.filter(|(from, to)| from < to).fold(0, |sum, (from, to)| sum.saturating_add(own(from, to)))
        };
        let (first, last) = (first.as_nanos(), last.as_nanos());
        let blocks = match of_vcpus(first, last) {
            0 => self.cut(first, last, own),
            _ => self.cut(first, last, of_vcpus),
        };
        self.add(blocks);
        Nanos(own(first, last))
    }

    /// Time of all vCPUs together.
    pub fn vcpu_time(&self) -> Nanos {
        Nanos(self.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.duration)))
    }

    /// Adds a recording, or what else is drawn as a whole, that is cut into blocks already.
    pub fn add(&mut self, blocks: Vec<DiffBlock>) {
        let before = self.blocks.len();
        self.blocks.extend(blocks);
        self.recordings.push(before..self.blocks.len());
        self.units.push(DiffUnit::default());
    }

    /// Notes what is known of the recording that was added last.
    pub fn describe(&mut self, unit: DiffUnit) {
        if let Some(last) = self.units.last_mut() {
            *last = unit;
        }
    }

    /// How the recordings of `before` and of this side lie to each other.
    pub fn order_against(&self, before: &Diff) -> UnitOrder {
        UnitOrder::of(&before.units, &self.units)
    }

    /// The lengths of the exits that a row is of.
    pub fn lengths(&self, row: &DiffRow) -> Histogram {
        let mut lengths = Histogram::default();
        for cell in self.blocks.iter().flat_map(|block| block.of(row.reason.as_deref(), &row.without)) {
            lengths.merge(&cell.durations);
        }
        lengths
    }

    /// The reasons whose exits are spent more in being idle than at any cost, on both sides taken together; none if there
    /// would be no others.
    fn idle(&self, before: &Diff) -> Vec<String> {
        let cells = before.blocks.iter().chain(&self.blocks).flat_map(|block| &block.groups);
        halts(cells.map(|(reason, cell)| (reason.clone(), cell)))
    }

    /// What the recording in hand has, block by block; `own` says how much between two moments is its own.
    fn cut(&mut self, first: u64, last: u64, own: impl Fn(u64, u64) -> u64) -> Vec<DiffBlock> {
        let group = std::mem::replace(&mut self.group, ExitGroups::by(&[Dimension::Time(None), Dimension::Reason]));
        let width = group.width().0;
        let of = |at: u64| at / width;
        let blocks = group.cells().into_iter().filter_map(|(key, cell)| match key {
            [DimensionValue::Time(at), DimensionValue::Reason(code)] => Some((of(at.as_nanos()), *code, cell)),
            _ => None,
        });
        let mut found: BTreeMap<u64, DiffBlock> = BTreeMap::new();
        for (at, code, cell) in blocks {
            found.entry(at).or_default().groups.insert(code.name(), cell.clone());
        }
        let (Some(low), Some(high)) = (found.keys().next().copied(), found.keys().last().copied()) else {
            return vec![DiffBlock { duration: own(first, last).max(1), ..DiffBlock::default() }];
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
    /// confidence of each interval. Where recordings are compared it is also that of the verdict on the cost of all together, of all
    /// verdicts on the cost of a reason, and of all others.
    pub fn against(&self, before: &Diff, per_10_000: u64) -> Vec<DiffRow> {
        let sides = Sides::of(before, self, per_10_000);
        let reasons: BTreeSet<&String> =
            before.blocks.iter().chain(&self.blocks).flat_map(|block| block.groups.keys()).collect();
        let mut rows: Vec<(u64, DiffRow)> = std::iter::once(None)
            .chain(reasons.into_iter().cloned().map(Some))
            .map(|reason| {
                let without = if reason.is_none() { self.idle(before) } else { Vec::new() };
                let [old, new] = [before, self].map(|side| Side::of(side, reason.as_deref(), &without));
                let changes = sides.compare(&old, &new);
                let weight = if reason.is_none() { u64::MAX } else { old.cost().max(new.cost()) };
                (weight, DiffRow::of(reason, without, &old, &new, changes))
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        let mut rows: Vec<DiffRow> = rows.into_iter().map(|row| row.1).collect();
        for family in [(true, true), (true, false), (false, false)] {
            let all = rows.iter_mut().flat_map(|row| {
                let of_reason = row.reason.is_some();
                row.changes.iter_mut().map(move |change| ((of_reason, change.measure.is_cost()), change))
            });
            correct(all.filter(|of| of.0 == family).map(|of| of.1), sides.level());
        }
        rows
    }

    /// Compares all exits together, halts included, and what goes with their cost: work, guest time, steal. A verdict on the cost takes
    /// what it is of vCPU time and of work, so that neither needs a correction; the others are corrected for each other.
    pub fn total_against(&self, before: &Diff, per_10_000: u64) -> DiffRow {
        let sides = Sides::of(before, self, per_10_000);
        let [old, new] = [before, self].map(|side| Side::of(side, None, &[]));
        let mut changes = sides.compare(&old, &new);
        changes.extend(sides.beside_cost(&old, &new));
        correct(changes.iter_mut().filter(|change| !change.measure.is_cost()), sides.level());
        DiffRow::of(None, Vec::new(), &old, &new, changes)
    }
}

/// Leaves those certain that are so if all these are asked for at once. Blocks of one recording support no such claim.
fn correct<'a>(changes: impl Iterator<Item = &'a mut MeasureChange>, level: f64) {
    let mut changes: Vec<_> = changes.collect();
    let p_values: Vec<_> = changes.iter().map(|change| Some(change.units?.p_value)).collect();
    for (change, is_certain) in changes.iter_mut().zip(holm(&p_values, level)) {
        change.is_certain &= is_certain || change.units.is_none();
    }
}

/// The reasons whose exits halt longer than they cost: how long they take says nothing of exits. None if
/// there are no others.
pub(crate) fn halts<'a>(cells: impl Iterator<Item = (String, &'a ExitStats)>) -> Vec<String> {
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

/// How two sides are compared.
struct Sides {
    per_10_000: u64,
    by: ComparedBy,
}

enum ComparedBy {
    /// Recordings, in this order.
    Units(UnitOrder),
    /// Blocks of time: how often each of before and of after is drawn, for every resample.
    Blocks([Vec<Vec<u32>>; 2]),
}

impl Sides {
    fn of(before: &Diff, after: &Diff, per_10_000: u64) -> Sides {
        let sides = [before, after];
        let by = match sides.iter().all(|side| side.units.len() > 1) {
            true => ComparedBy::Units(after.order_against(before)),
            false => {
                let mut bootstrap = Bootstrap::default();
                ComparedBy::Blocks(sides.map(|side| bootstrap.draw(&side.recordings)))
            }
        };
        Sides { per_10_000, by }
    }

    fn level(&self) -> f64 {
        1.0 - self.per_10_000 as f64 / 10_000.0
    }

    /// Every measure of a reason.
    fn compare(&self, old: &Side<'_>, new: &Side<'_>) -> Vec<MeasureChange> {
        let enough_lengths = old.timed() >= FEWEST_EXITS && new.timed() >= FEWEST_EXITS;
        let is_enough = |measure| {
            let of_lengths = matches!(measure, DiffMeasure::Mean | DiffMeasure::P50 | DiffMeasure::P99);
            enough_lengths || !of_lengths
        };
        let order = match &self.by {
            ComparedBy::Units(order) => order,
            ComparedBy::Blocks(draws) => return by_blocks(old, new, draws, self.per_10_000, is_enough),
        };
        let pooled = [old, new].map(|side| side.measure(|_| 1));
        let figures = [old, new].map(Side::of_units);
        let change = |(at, measure): (usize, DiffMeasure)| {
            let of = |side: usize| -> Option<Vec<f64>> { figures[side].iter().map(|unit| unit[at]).collect() };
            let change = of(0).zip(of(1)).filter(|_| is_enough(measure));
            let change = change.and_then(|(before, after)| UnitChange::of(order, &before, &after, self.level()));
            let lacks = || MeasureChange::of_blocks(measure, pooled[0][at], pooled[1][at], None);
            change.map_or_else(lacks, |change| MeasureChange::of_units(measure, change))
        };
        DiffMeasure::ALL.into_iter().enumerate().map(change).collect()
    }

    /// What goes with the cost of all exits, as far as every recording tells it.
    fn beside_cost(&self, old: &Side<'_>, new: &Side<'_>) -> Vec<MeasureChange> {
        use DiffMeasure::{CostOfGuest, CostOfWork, Guest, Steal};
        let figure = |measure, side: &Side<'_>, at: usize| {
            let (range, unit) = (&side.diff.recordings[at], &side.diff.units[at]);
            let cost = side.cells[range.clone()].iter().fold(0, |sum: u64, cell| sum.saturating_add(cell.cost().0));
            let time = side.durations[range.clone()].iter().sum::<u64>();
            let (value, by) = match measure {
                CostOfGuest => (cost as f64 * 1e9, unit.guest.0 as f64),
                CostOfWork => (cost as f64 * 1e3, unit.work?),
                Guest => (unit.guest.0 as f64 * 1e9, time as f64),
                Steal => (unit.steal?.0 as f64 * 1e9, time as f64),
                _ => return None,
            };
            let is_known = by > 0.0 && (measure != Guest || unit.guest > Nanos::ZERO);
            is_known.then(|| value / by)
        };
        let of = |measure, side: &Side<'_>| -> Option<Vec<f64>> {
            (0..side.diff.units.len()).map(|at| figure(measure, side, at)).collect()
        };
        let change = |measure| {
            let (before, after) = (of(measure, old)?, of(measure, new)?);
            if let ComparedBy::Units(order) = &self.by {
                let change = UnitChange::of(order, &before, &after, self.level())?;
                return Some(MeasureChange::of_units(measure, change));
            }
            let mean = |values: &[f64]| Some((values.iter().sum::<f64>() / values.len() as f64).round() as u64);
            let known = !before.is_empty() && !after.is_empty();
            known.then(|| MeasureChange::of_blocks(measure, mean(&before), mean(&after), None))
        };
        [CostOfGuest, CostOfWork, Guest, Steal].into_iter().filter_map(change).collect()
    }
}

/// One reason's cells on one side, a block each.
struct Side<'a> {
    diff: &'a Diff,
    durations: Vec<u64>,
    cells: Vec<ExitStats>,
}

impl Side<'_> {
    fn of<'a>(diff: &'a Diff, reason: Option<&str>, without: &[String]) -> Side<'a> {
        let cell = |block: &DiffBlock| {
            block.of(reason, without).fold(ExitStats::default(), |mut all, cell| {
                all.merge(cell);
                all
            })
        };
        Side {
            diff,
            durations: diff.blocks.iter().map(|block| block.duration).collect(),
            cells: diff.blocks.iter().map(cell).collect(),
        }
    }

    /// Every measure of each recording.
    fn of_units(&self) -> Vec<[Option<f64>; 5]> {
        let of =
            |range: &Range<usize>| self.measure(|at| u64::from(range.contains(&at))).map(|of| of.map(|of| of as f64));
        self.diff.recordings.iter().map(of).collect()
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
        let sum = |of: &dyn Fn(&ExitStats) -> u64| -> u128 {
            self.cells.iter().enumerate().map(|(at, cell)| u128::from(of(cell)) * u128::from(times(at))).sum()
        };
        let duration: u128 =
            self.durations.iter().enumerate().map(|(at, duration)| u128::from(*duration) * u128::from(times(at))).sum();
        let mut lengths = Histogram::default();
        for (at, cell) in self.cells.iter().enumerate() {
            lengths.merge_weighted(&cell.durations, times(at));
        }
        let drawn = || self.cells.iter().enumerate().filter(|(at, _)| times(*at) > 0).map(|(_, cell)| cell);
        let (min, max) = (drawn().filter_map(|cell| cell.min).min(), drawn().map(|cell| cell.max).max().unwrap_or(0));
        let all = ExitStats { durations: lengths, min, max, ..ExitStats::default() };
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

/// Every measure, by resamples of blocks.
fn by_blocks(
    old: &Side<'_>,
    new: &Side<'_>,
    draws: &[Vec<Vec<u32>>; 2],
    per_10_000: u64,
    is_enough: impl Fn(DiffMeasure) -> bool,
) -> Vec<MeasureChange> {
    let (before, after) = (old.measure(|_| 1), new.measure(|_| 1));
    let mut spread: [Vec<i64>; 5] = Default::default();
    for (old_times, new_times) in draws[0].iter().zip(&draws[1]) {
        let resampled_old = old.measure(|at| u64::from(old_times[at]));
        let resampled_new = new.measure(|at| u64::from(new_times[at]));
        for (spread, (old, new)) in spread.iter_mut().zip(resampled_old.into_iter().zip(resampled_new)) {
            if let (Some(old), Some(new)) = (old, new) {
                spread.push((i128::from(new) - i128::from(old)).clamp(i64::MIN.into(), i64::MAX.into()) as i64);
            }
        }
    }
    let measured = DiffMeasure::ALL.into_iter().zip(before).zip(after).zip(spread);
    measured
        .map(|(((measure, before), after), spread)| {
            let interval = if is_enough(measure) { Interval::of(spread, per_10_000) } else { None };
            MeasureChange::of_blocks(measure, before, after, interval)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet;
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_model::{CodeList, ExitCode, TimePart};

    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
    const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);

    fn moment(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    /// How long a block is, and its exits by reason.
    type Seen = (u64, Vec<(String, u64)>);

    /// The blocks of a recording with an IO at 5,500 and two exits within 8,000: how long each is, and its exits.
    fn cut(first: u64, last: u64, held: &[(u64, u64)]) -> (Vec<Seen>, u64) {
        let mut diff = Diff::default();
        for (at, code) in [(5_500, IO), (8_200, HLT), (8_900, HLT)] {
            diff.absorb(&exit(vcpu(0), at, code));
        }
        let held: Vec<_> = held.iter().map(|&(from, to)| (moment(from), moment(to))).collect();
        let own = diff.end(moment(first), moment(last), &held, &[]);
        let cells =
            |block: &DiffBlock| block.groups.iter().map(|(reason, cell)| (reason.clone(), cell.count)).collect();
        (diff.blocks.iter().map(|block| (block.duration, cells(block))).collect(), own.0)
    }

    /// So long each; the fifth and the eighth bucket have the exits, and `before` is how many blocks come before the fifth.
    fn with_exits(durations: &[u64], before: usize) -> Vec<Seen> {
        let mut blocks: Vec<_> = durations.iter().map(|duration| (*duration, Vec::new())).collect();
        blocks[before].1 = vec![("IO_INSTRUCTION".to_string(), 1)];
        blocks[before + 3].1 = vec![("HLT".to_string(), 2)];
        blocks
    }

    #[test]
    fn a_recording_is_cut_into_blocks_that_are_all_its_time() {
        // Four buckets have exits or lie between some; as many before and after them are blocks, the rest in the outermost.
        let long = [1_700, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 8_700];
        assert_eq!(cut(300, 20_700, &[]), (with_exits(&long, 4), 20_400));
        // Less time on both sides than that.
        let short = [200, 1_000, 1_000, 1_000, 1_000, 1_000, 600];
        assert_eq!(cut(3_800, 9_600, &[]), (with_exits(&short, 2), 5_800));
        // What other recordings hold is theirs; a block of which nothing is left lasts a nanosecond.
        let held = [200, 200, 1, 900, 1_000, 750, 600];
        assert_eq!(cut(3_800, 9_600, &[(4_200, 6_100), (8_250, 8_500)]), (with_exits(&held, 2), 5_800 - 1_900 - 250));
    }

    #[test]
    fn rates_are_of_the_time_of_all_vcpus() {
        let vcpus = |spans: &[(u64, u64)]| {
            let mut diff = Diff::default();
            [5_500, 8_200].into_iter().for_each(|at| diff.absorb(&exit(vcpu(0), at, IO)));
            let spans: Vec<_> = spans.iter().map(|&(from, to)| (moment(from), moment(to))).collect();
            let own = diff.end(moment(5_000), moment(9_050), &[], &spans);
            (diff.vcpu_time().0, own.0)
        };
        assert_eq!(vcpus(&[]), (4_050, 4_050));
        // Another vCPU came later.
        assert_eq!(vcpus(&[(5_000, 9_050), (6_250, 9_050)]), (4_050 + 2_800, 4_050));
        assert_eq!(vcpus(&[(0, 9_900), (0, 5_000)]), (4_050, 4_050), "none before the recording, nor after it");
    }

    #[test]
    fn a_recording_without_exits_is_one_block() {
        let mut diff = Diff::default();
        assert_eq!(diff.end(moment(300), moment(900), &[(moment(500), moment(540))], &[]), Nanos(560));
        assert_eq!(diff.end(moment(300), moment(900), &[(moment(0), moment(1_000))], &[]), Nanos(0));
        let blocks: Vec<_> = diff.blocks.iter().map(|block| (block.duration, block.groups.len())).collect();
        assert_eq!((blocks, diff.recordings), (vec![(560, 0), (1, 0)], vec![0..1, 1..2]));
    }

    #[test]
    fn a_verdict_needs_an_interval_without_zero() {
        for (interval, verdict) in [
            (None, ChangeVerdict::TooFew),
            (Some((1, 7)), ChangeVerdict::More),
            (Some((0, 7)), ChangeVerdict::Unclear),
            (Some((-3, 7)), ChangeVerdict::Unclear),
            (Some((-3, 0)), ChangeVerdict::Unclear),
            (Some((0, 0)), ChangeVerdict::Unclear),
            (Some((-3, -1)), ChangeVerdict::Less),
        ] {
            let interval = interval.map(|(low, high)| Interval { low, high });
            let change = MeasureChange::of_blocks(DiffMeasure::Cost, Some(5), Some(6), interval);
            assert_eq!(change.verdict(), verdict, "{interval:?}");
        }
    }

    #[test]
    fn an_interval_of_recordings_ends_where_the_measure_does_and_is_none_where_it_says_nothing() {
        let of = |measure, before: [f64; 2], after: [f64; 2]| {
            let change = UnitChange::of(&UnitOrder::Unknown, &before, &after, 0.05).unwrap();
            MeasureChange::of_units(measure, change)
        };
        // 94.7 % of vCPU time, then 96 %: more than 100 % cannot be.
        let (before, after) = ([897e6, 1_000e6], [995e6, 926e6]);
        let cost = of(DiffMeasure::Cost, before, after);
        assert_eq!(
            (cost.before, cost.interval.map(|of| of.high)),
            (Some(947_100_839), Some(1_000_000_000 - 947_100_839))
        );
        assert_eq!(cost.verdict(), ChangeVerdict::Unclear);
        assert!(
            of(DiffMeasure::CostOfGuest, before, after).interval.unwrap().high > 53_000_000,
            "of guest time, it can"
        );
        // Two that differ among each other by a thousand times say nothing, but where no number is too high.
        let wild = ([10.0, 9_000.0], [20.0, 12_000.0]);
        assert_eq!(of(DiffMeasure::Rate, wild.0, wild.1).verdict(), ChangeVerdict::TooFew);
        assert!(of(DiffMeasure::Cost, wild.0, wild.1).interval.is_some());
        // Certain, it is told however wide.
        let certain = of(DiffMeasure::Rate, [1.0, 1.1], [1e6, 2e6]);
        assert_eq!((certain.verdict(), certain.interval.is_some()), (ChangeVerdict::More, true));
    }

    #[test]
    fn a_reason_halts_if_it_halts_longer_than_it_costs_and_there_are_others() {
        let cell = |halted, kernel| ExitStats {
            parts: spent(TimePart::Halted, halted).with(TimePart::Kernel, Nanos(kernel)),
            ..ExitStats::default()
        };
        let of = |cells: &[(&str, u64, u64)]| {
            let cells: Vec<_> =
                cells.iter().map(|&(name, halted, kernel)| (name.to_string(), cell(halted, kernel))).collect();
            halts(cells.iter().map(|(name, cell)| (name.clone(), cell)))
        };
        assert_eq!(of(&[("a", 30, 30), ("b", 31, 30), ("c", 29, 30)]), ["b"]);
        // Twice of one reason: together.
        assert_eq!(of(&[("a", 30, 10), ("b", 1, 5), ("a", 30, 49)]), ["a"]);
        assert_eq!(of(&[("a", 30, 10), ("b", 1, 5), ("a", 30, 50)]), Vec::<String>::new());
        assert_eq!(of(&[("a", 30, 10), ("b", 9, 5)]), Vec::<String>::new(), "there are no others");
    }

    /// A block with `timed` exits of these lengths, and some more of which an end is missing.
    fn block(duration: u64, lengths: &[u64], untimed: u64) -> DiffBlock {
        let mut cell = ExitStats::default();
        for (&length, parts) in lengths.iter().map(|length| (length, spent(TimePart::Kernel, *length))) {
            cell.absorb(&Exit { parts, ..exit(vcpu(0), length, IO) });
        }
        (0..untimed).for_each(|_| cell.absorb(&Exit { timed: false, ..exit(vcpu(0), 0, IO) }));
        DiffBlock { duration, groups: [("IO_INSTRUCTION".to_string(), cell)].into() }
    }

    fn side(blocks: Vec<DiffBlock>) -> Diff {
        let mut diff = Diff::default();
        diff.add(blocks);
        diff
    }

    #[test]
    fn what_is_compared_is_worked_out_of_all_blocks_of_a_side() {
        let before = side(vec![block(300, &[10, 70], 3), block(500, &[40], 1)]);
        let after = side(vec![block(2_000, &[20, 30, 130, 500], 2)]);
        let rows = after.against(&before, 9_900);
        assert_eq!(rows.iter().map(|row| row.reason.as_deref()).collect::<Vec<_>>(), [None, Some("IO_INSTRUCTION")]);
        for row in rows {
            let found: Vec<_> = row.changes.iter().map(|of| (of.measure, of.before, of.after, of.interval)).collect();
            let expected = [
                // 120 of 800 ns, and 680 of 2,000.
                (DiffMeasure::Cost, Some(150_000_000), Some(340_000_000), None),
                // 7 exits in 800 ns, and 6 in 2,000.
                (DiffMeasure::Rate, Some(8_750_000_000), Some(3_000_000_000), None),
                // Of 3 exits, and of 4.
                (DiffMeasure::Mean, Some(40), Some(170), None),
                (DiffMeasure::P50, Some(40), Some(30), None),
                (DiffMeasure::P99, Some(70), Some(500), None),
            ];
            assert_eq!((found, row.counts), (expected.to_vec(), (7, 6)));
        }
    }

    #[test]
    fn lengths_that_are_told_apart_no_more_lie_between_the_shortest_and_the_longest() {
        // Those of a bucket are taken to be spread over it evenly: from 1,024 to 1,055.
        let one = side(vec![block(1_000_000, &[1_050; 2_000], 0)]);
        let changes = &one.against(&one, 9_900)[0].changes;
        assert_eq!([changes[3].before, changes[4].after], [Some(1_050), Some(1_050)]);
    }

    #[test]
    fn blocks_that_are_all_alike_leave_nothing_to_chance() {
        let lengths = |length| [length, length, length];
        let before = side((0..8).map(|_| block(1_000, &lengths(40), 0)).collect());
        let after = side((0..8).map(|_| block(1_000, &lengths(90), 1)).collect());
        let intervals = |rows: Vec<DiffRow>| -> Vec<_> {
            rows[0].changes.iter().map(|change| change.interval.map(|of| (of.low, of.high))).collect()
        };
        let same = |by: i64| Some((by, by));
        let expected = [same(150_000_000), same(1_000_000_000), same(50), same(50), same(50)];
        assert_eq!(intervals(after.against(&before, 9_900)), expected);
        let back = [same(-150_000_000), same(-1_000_000_000), same(-50), same(-50), same(-50)];
        assert_eq!(intervals(before.against(&after, 9_900)), back);
    }

    #[test]
    fn of_lengths_there_is_an_interval_from_twenty_exits_on_either_side() {
        // Two exits in each of ten blocks, the last of which lacks one on the other side.
        let last = |lengths: &[u64]| {
            let blocks = (0..9).map(|_| block(1_000, &[40, 41], 5));
            side(blocks.chain([block(1_000, lengths, 5)]).collect())
        };
        let (twenty, nineteen) = (last(&[40, 41]), last(&[40]));
        for (before, after, enough) in
            [(&twenty, &twenty, true), (&nineteen, &twenty, false), (&twenty, &nineteen, false)]
        {
            let changes = &after.against(before, 9_900)[0].changes;
            let found: Vec<bool> = changes.iter().map(|change| change.interval.is_some()).collect();
            assert_eq!(found, [true, true, enough, enough, enough]);
        }
    }

    /// Recordings with a cost each, in per mille of a second; with so much of the guest and of steal.
    fn recorded(costs: &[u64], guest: u64, steal: u64) -> Diff {
        let mut diff = Diff::default();
        for cost in costs {
            diff.add(vec![block(1_000_000_000, &[cost * 1_000_000], 0)]);
            diff.describe(DiffUnit { guest: Nanos(guest), steal: Some(Nanos(steal)), ..DiffUnit::default() });
        }
        diff
    }

    #[test]
    fn with_several_recordings_a_side_these_are_the_units_and_not_blocks() {
        let (before, after) = (recorded(&[100, 110, 90], 500_000_000, 0), recorded(&[150, 160, 140], 500_000_000, 0));
        let row = &after.total_against(&before, 9_500);
        let cost = row.change(DiffMeasure::Cost).unwrap();
        // The geometric means, of parts per billion.
        assert_eq!([cost.before, cost.after], [Some(99_665_549), Some(149_777_448)]);
        let units = cost.units.unwrap();
        assert_eq!(units.order, crate::UnitOrderKind::Unknown);
        assert!(cost.verdict() == ChangeVerdict::More && units.p_value < 0.01, "{units:?}");
        let (low, high) = (cost.interval.unwrap().low, cost.interval.unwrap().high);
        assert!(0 < low && low < 50_111_899 && 50_111_899 < high, "{low} {high}");
        let of_guest = row.change(DiffMeasure::CostOfGuest).unwrap();
        assert_eq!([of_guest.before, of_guest.after], [Some(199_331_099), Some(299_554_895)]);
        assert_eq!(row.change(DiffMeasure::CostOfWork), None, "nobody said how much work it was");
        assert_eq!(row.change(DiffMeasure::Guest).map(MeasureChange::verdict), Some(ChangeVerdict::Unclear));
        assert_eq!(row.change(DiffMeasure::Steal).map(MeasureChange::verdict), Some(ChangeVerdict::Unclear));
        // A single recording on a side is compared by blocks, of which there are too few here.
        let one = recorded(&[150], 500_000_000, 0).total_against(&before, 9_500);
        assert!(one.changes.iter().all(|change| change.units.is_none() && change.interval.is_none()), "{one:?}");
    }

    #[test]
    fn of_many_reasons_none_differs_by_chance() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        let mut side = || {
            let mut diff = Diff::default();
            for _ in 0..4 {
                let groups = (0..40).map(|reason| {
                    let parts = spent(TimePart::Kernel, 1_000_000 + (0..4).map(|_| random() % 1_000_000).sum::<u64>());
                    (format!("{reason}"), ExitStats { count: 10, timed: 10, parts, ..ExitStats::default() })
                });
                diff.add(vec![DiffBlock { duration: 1_000_000_000, groups: groups.collect() }]);
            }
            diff
        };
        let mut found = [0, 0];
        for _ in 0..40 {
            let (before, after) = (side(), side());
            let rows = after.against(&before, 9_500);
            let costs = || rows.iter().filter_map(|row| row.change(DiffMeasure::Cost));
            found[0] += usize::from(costs().any(|cost| cost.verdict() != ChangeVerdict::Unclear));
            found[1] += usize::from(costs().any(|cost| cost.way() != ChangeVerdict::Unclear));
        }
        assert!(found[0] <= 6 && found[1] >= 25, "corrected {}, and not corrected {} of 40", found[0], found[1]);
    }

    #[test]
    fn costliest_reasons_come_first_after_all_together() {
        let block = |costs: [(&str, u64); 3]| DiffBlock {
            duration: 1_000,
            groups: costs
                .map(|(reason, cost)| {
                    let cell =
                        ExitStats { count: 1, timed: 1, parts: spent(TimePart::Kernel, cost), ..ExitStats::default() };
                    (reason.to_string(), cell)
                })
                .into(),
        };
        let before = side(vec![block([("a", 30), ("b", 50), ("c", 20)])]);
        let after = side(vec![block([("a", 40), ("b", 10), ("c", 60)])]);
        let rows = after.against(&before, 9_900);
        let order: Vec<_> = rows.iter().map(|row| row.reason.as_deref()).collect();
        assert_eq!(order, [None, Some("c"), Some("b"), Some("a")], "60, 50 and 40 on the costlier side");
    }

    #[test]
    fn a_side_of_many_hosts_has_as_many_blocks_as_an_interval_can_bear() {
        let blocks = |units: usize, each: u64| {
            let unit = || (1..=each).map(|duration| block(duration, &[7], 0)).collect();
            let side = fleet::side((0..units).map(|_| (None, unit())).collect());
            (side.recordings, side.blocks.iter().map(|block| block.duration).collect::<Vec<_>>())
        };
        let (recordings, durations) = blocks(1, 4);
        assert_eq!((recordings.len(), durations), (1, vec![1, 2, 3, 4]));
        // 256 blocks for each of two hosts: three each are taken together.
        let (recordings, durations) = blocks(2, 600);
        assert_eq!(
            (recordings, &durations[..3], durations[199]),
            (vec![0..200, 200..400], &[6, 15, 24][..], 598 + 599 + 600)
        );
        // Of more hosts than blocks, two are one.
        let (recordings, durations) = blocks(513, 2);
        assert_eq!((recordings.len(), durations.len(), durations[0], durations[256]), (257, 257, 6, 3));
        let (recordings, durations) = blocks(512, 2);
        assert_eq!((recordings.len(), durations.len(), durations[0]), (512, 512, 3));
    }
}
