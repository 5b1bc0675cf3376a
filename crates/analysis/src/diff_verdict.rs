//! What a comparison comes to: whether exits cost more or less for certain, and which reason carries most of that.
//!
//! ```text
//! cost of all exits ─┬─ no exits, no lengths, too few blocks ─► cannot tell
//!                    ├─ its interval excludes zero ─► worse, better; and the largest certain change of a reason the same way
//!                    ├─ every figure is the same ─► same
//!                    └─ its interval holds zero ─► no clear difference; and from what size on one would be clear
//! ```

use crate::{ChangeVerdict, DiffMeasure, DiffRow, MeasureChange};

/// Which way what exits cost changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffState {
    /// It rose.
    Worse,
    /// It fell.
    Better,
    /// It rose, or fell, between two recordings; whether anything else than the next run would have changed it, nobody knows.
    RecordingsDiffer,
    /// Chance may have made the difference.
    NoClearDifference,
    /// Every figure is the same on both sides.
    Same,
    /// There is nothing to compare on a side, or too little.
    CannotTell(NotCompared),
}

/// Why a comparison says nothing of what exits cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCompared {
    /// A side has no exit: that before, that after.
    NoExits(bool, bool),
    /// No exit of a side has a length: of that before, of that after.
    NoLengths(bool, bool),
    /// The recordings are too short for an interval.
    TooShort,
    /// The sides are of machines whose exits are not the same: no reason is on both.
    Unlike,
    /// The cost of one side holds steal, that of the other does not.
    Steal,
}

/// What a comparison comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffVerdict {
    /// Which way.
    pub state: DiffState,
    /// What all exits cost.
    pub cost: Option<MeasureChange>,
    /// How many there are.
    pub rate: Option<MeasureChange>,
    /// The reason whose cost certainly changed the same way, and most of those; and its part of the change of all, which is
    /// more than one where others changed the other way.
    pub largest: Option<(String, f64)>,
    /// A change of the cost as large as this would have been clear, in nanoseconds per second: how far its interval reaches from
    /// the change that was found.
    pub least_clear: Option<u64>,
}

impl DiffVerdict {
    /// Of all exits together, and by reason.
    pub fn of(all: &DiffRow, rows: &[DiffRow]) -> DiffVerdict {
        let [cost, rate] = [DiffMeasure::Cost, DiffMeasure::Rate].map(|measure| all.change(measure).copied());
        let state = state(all, rows, cost);
        let largest = match (cost.map(|cost| cost.verdict()), state) {
            (Some(way), DiffState::Worse | DiffState::Better) => largest(rows, way, cost.and_then(by)),
            _ => None,
        };
        let reach = |change: MeasureChange| {
            let (by, interval) = (by(change)?, change.interval?);
            let reach = (i128::from(interval.high) - by).max(by - i128::from(interval.low));
            u64::try_from(reach).ok()
        };
        DiffVerdict { state, cost, rate, largest, least_clear: cost.and_then(reach) }
    }
}

fn state(all: &DiffRow, rows: &[DiffRow], cost: Option<MeasureChange>) -> DiffState {
    let lacks = |(before, after): (u64, u64)| (before == 0, after == 0);
    let is_same =
        |row: &DiffRow| row.counts.0 == row.counts.1 && row.changes.iter().all(|change| change.before == change.after);
    let is_on_one_side = |row: &DiffRow| row.reason.is_some() && (row.counts.0 == 0 || row.counts.1 == 0);
    let mut of_reasons = rows.iter().filter(|row| row.reason.is_some()).peekable();
    let is_unlike = of_reasons.peek().is_some() && of_reasons.all(is_on_one_side);
    match (lacks(all.counts), lacks(all.timed), cost.map(|cost| cost.verdict())) {
        ((before, after), ..) if before || after => DiffState::CannotTell(NotCompared::NoExits(before, after)),
        (_, (before, after), _) if before || after => DiffState::CannotTell(NotCompared::NoLengths(before, after)),
        _ if is_unlike => DiffState::CannotTell(NotCompared::Unlike),
        (.., None | Some(ChangeVerdict::TooFew)) => DiffState::CannotTell(NotCompared::TooShort),
        (.., Some(ChangeVerdict::More)) => DiffState::Worse,
        (.., Some(ChangeVerdict::Less)) => DiffState::Better,
        (.., Some(ChangeVerdict::Unclear)) if is_same(all) && rows.iter().all(is_same) => DiffState::Same,
        (.., Some(ChangeVerdict::Unclear)) => DiffState::NoClearDifference,
    }
}

/// After minus before.
fn by(change: MeasureChange) -> Option<i128> {
    Some(i128::from(change.after?) - i128::from(change.before?))
}

fn largest(rows: &[DiffRow], way: ChangeVerdict, of: Option<i128>) -> Option<(String, f64)> {
    let certain = rows.iter().filter_map(|row| {
        let cost = row.change(DiffMeasure::Cost).filter(|cost| cost.verdict() == way)?;
        Some((row.reason.as_ref()?, by(*cost)?))
    });
    let (reason, own) = certain.max_by_key(|row| row.1.abs())?;
    Some((reason.clone(), own as f64 / of.filter(|of| *of != 0)? as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_stats::Interval;

    /// Cost on both sides, and its interval; as many exits a second as it costs.
    fn row(reason: Option<&str>, before: u64, after: u64, interval: Option<(i64, i64)>) -> DiffRow {
        let interval = interval.map(|(low, high)| Interval { low, high });
        let change = |measure| MeasureChange { measure, before: Some(before), after: Some(after), interval };
        DiffRow {
            reason: reason.map(str::to_string),
            without: Vec::new(),
            counts: (before, after),
            timed: (before, after),
            changes: DiffMeasure::ALL.map(change).to_vec(),
        }
    }

    #[test]
    fn the_largest_certain_change_the_same_way_carries_a_part_of_it() {
        let all = row(None, 100, 280, Some((150, 210)));
        let rows = [
            row(Some("msr"), 50, 10, Some((-45, -35))),
            row(Some("io"), 20, 140, Some((100, 140))),
            row(Some("npf"), 30, 130, Some((-1, 201))),
        ];
        let found = DiffVerdict::of(&all, &rows);
        assert_eq!(found.state, DiffState::Worse);
        assert_eq!(found.largest, Some(("io".to_string(), 120.0 / 180.0)));
        assert_eq!(found.least_clear, Some(30));
        let back =
            DiffVerdict::of(&row(None, 280, 100, Some((-200, -150))), &[row(Some("io"), 140, 20, Some((-9, -1)))]);
        assert_eq!((back.state, back.largest), (DiffState::Better, Some(("io".to_string(), 120.0 / 180.0))));
        // The one that chance may explain is not named, however large it is.
        let found = DiffVerdict::of(&all, &rows[2..]);
        assert_eq!((found.state, found.largest), (DiffState::Worse, None));
    }

    #[test]
    fn what_chance_may_explain_is_no_clear_difference_and_how_large_one_had_to_be_is_known() {
        let found = DiffVerdict::of(&row(None, 100, 110, Some((-20, 35))), &[row(Some("io"), 10, 20, Some((5, 15)))]);
        assert_eq!((found.state, found.least_clear, found.largest), (DiffState::NoClearDifference, Some(30), None));
        let found = DiffVerdict::of(&row(None, 100, 100, Some((-20, 25))), &[row(Some("io"), 10, 11, Some((-5, 5)))]);
        assert_eq!(found.state, DiffState::NoClearDifference, "a reason differs");
        let found = DiffVerdict::of(&row(None, 100, 100, Some((-20, 25))), &[row(Some("io"), 11, 11, Some((-5, 5)))]);
        assert_eq!(found.state, DiffState::Same);
    }

    #[test]
    fn without_exits_lengths_or_an_interval_nothing_can_be_told() {
        let of = |counts, timed, interval| {
            let all = DiffRow { counts, timed, ..row(None, 7, 7, interval) };
            DiffVerdict::of(&all, &[]).state
        };
        for (counts, timed, interval, why) in [
            ((0, 7), (0, 7), Some((1, 2)), NotCompared::NoExits(true, false)),
            ((7, 0), (7, 0), Some((1, 2)), NotCompared::NoExits(false, true)),
            ((7, 7), (7, 0), Some((0, 0)), NotCompared::NoLengths(false, true)),
            ((7, 7), (7, 7), None, NotCompared::TooShort),
        ] {
            assert_eq!(of(counts, timed, interval), DiffState::CannotTell(why));
        }
        assert_eq!(of((7, 7), (7, 7), Some((1, 2))), DiffState::Worse);
        let all = row(None, 7, 9, Some((1, 2)));
        let unlike = [row(Some("hlt"), 7, 0, Some((-8, -6))), row(Some("HLT"), 0, 9, Some((8, 10)))];
        assert_eq!(DiffVerdict::of(&all, &unlike).state, DiffState::CannotTell(NotCompared::Unlike));
        let like = [unlike.as_slice(), &[row(Some("io"), 1, 1, None)]].concat();
        assert_eq!(DiffVerdict::of(&all, &like).state, DiffState::Worse);
    }
}
