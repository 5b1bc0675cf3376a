//! What a comparison comes to: whether exits cost more or less for certain, and which reason carries most of that. Whoever shows rows,
//! colours them or passes a limit on them asks it what may be said of a change.
//!
//! ```text
//! both sides ────────┬─ of other machines, or only one tells steal ─► cannot tell
//! cost of all exits ─┼─ no exits, no lengths, too few blocks ─► cannot tell
//!                    ├─ what was lost may decide it ─► cannot tell
//!                    ├─ one side was recorded first, and a drift may be what differs ─► cannot tell
//!                    ├─ of vCPU time and of the work it changed otherwise, or less of it beside more steal ─► undecided
//!                    ├─ its interval excludes zero ─► worse, better; and the largest certain change of a reason the same way
//!                    │                                of one recording on a side: these recordings differ
//!                    ├─ every figure is the same ─► same
//!                    └─ its interval holds zero ─► no clear difference; and from what size on one would be clear
//! ```

use crate::threshold::{LOST, are_most_timed, with_lost};
use crate::{ChangeVerdict, DiffMeasure, DiffRow, FEWEST_RECORDINGS, MeasureChange, UnitOrderKind};
use exitscope_stats::Interval;
use std::collections::BTreeSet;

/// Which way what exits cost changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffState {
    /// It rose.
    Worse,
    /// It fell.
    Better,
    /// It rose, or fell, between two recordings; whether anything else than the next run would have changed it, nobody knows.
    RecordingsDiffer,
    /// What goes with the cost says otherwise: see [`DiffVerdict::work`] and [`DiffVerdict::is_starved`].
    Undecided,
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
    /// Records were lost, or exits have no length, and were these like the others, it would come out otherwise.
    Losses,
    /// All of one side were recorded first, and what they cost drifts from one recording to the next.
    Drift,
    /// All of one side were recorded first; the sides differ by no more than a drift that so few recordings would not show.
    InOrder,
}

/// One side, as far as it decides whether anything can be said of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedSide {
    /// Its recordings' names: one that is named twice is one.
    pub recordings: BTreeSet<String>,
    /// Architectures that they say.
    pub architectures: BTreeSet<String>,
    /// Hypervisors.
    pub hypervisors: BTreeSet<String>,
    /// Whether all of them tell steal, and all of it.
    pub tells_steal: (bool, bool),
    /// Records that were lost, and events that were read.
    pub lost: (u64, u64),
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
    /// What they cost of the work that is known, or else of the time that guests ran.
    pub work: Option<MeasureChange>,
    /// Whether the cost fell while steal rose and guests ran less, as far as that is known.
    pub is_starved: bool,
    /// What else certainly changed the other way than the cost.
    pub against: Vec<MeasureChange>,
    /// The reason whose cost certainly changed the same way, and most of those; and its part of the change of all, which is
    /// more than one where others changed the other way.
    pub largest: Option<(String, f64)>,
    /// A change of the cost as large as this would have been clear, in nanoseconds per second: of several recordings a side, in 80 of
    /// 100 repetitions; otherwise, how far its interval reaches from the change that was found.
    pub least_clear: Option<u64>,
    /// Recordings a side that tell a change as large as the one seen from chance, in 80 of 100 repetitions.
    pub needed: Option<usize>,
    /// In which order the sides were recorded; `None` with one recording on a side.
    pub order: Option<UnitOrderKind>,
    /// The architectures or hypervisors that differ so that reasons are not the same.
    pub unlike: Option<(String, String)>,
    /// Recordings of the side that has fewer.
    pub recordings: usize,
    /// What lost records make of sums of each side, as a factor.
    with_lost: [f64; 2],
}

impl DiffVerdict {
    /// Of all exits together, and by reason, of these two sides.
    pub fn of(all: &DiffRow, rows: &[DiffRow], sides: [&ComparedSide; 2]) -> DiffVerdict {
        let [cost, rate] = [DiffMeasure::Cost, DiffMeasure::Rate].map(|measure| all.change(measure).copied());
        let (unlike, recordings) =
            (unlike(sides), sides.map(|side| side.recordings.len()).into_iter().min().unwrap_or(0));
        let with_lost = sides.map(|side| with_lost(side.lost.0, side.lost.1));
        let work =
            [DiffMeasure::CostOfWork, DiffMeasure::CostOfGuest].into_iter().find_map(|of| all.change(of).copied());
        let way = |of| all.change(of).map(MeasureChange::way);
        let is_starved = way(DiffMeasure::Cost) == Some(ChangeVerdict::Less)
            && way(DiffMeasure::Steal) == Some(ChangeVerdict::More)
            && matches!(way(DiffMeasure::Guest), None | Some(ChangeVerdict::Less));
        let state = match state(all, rows, cost) {
            state @ DiffState::CannotTell(_) => state,
            _ if unlike.is_some() => DiffState::CannotTell(NotCompared::Unlike),
            _ if sides[0].tells_steal != sides[1].tells_steal => DiffState::CannotTell(NotCompared::Steal),
            _ if cost.is_some_and(|cost| is_hidden(all, &cost, with_lost)) => {
                DiffState::CannotTell(NotCompared::Losses)
            }
            DiffState::Worse | DiffState::Better if recordings < FEWEST_RECORDINGS => DiffState::RecordingsDiffer,
            state => with_order(cost, with_work(state, work, is_starved)),
        };
        let against = match state {
            DiffState::Worse => against(all, ChangeVerdict::Less),
            DiffState::Better => against(all, ChangeVerdict::More),
            _ => Vec::new(),
        };
        let largest = match (cost.map(|cost| cost.verdict()), state) {
            (Some(way), DiffState::Worse | DiffState::Better | DiffState::RecordingsDiffer) => {
                largest(rows, way, cost.and_then(by))
            }
            _ => None,
        };
        let units = cost.and_then(|cost| cost.units);
        let reach = |change: MeasureChange| {
            if let Some(units) = change.units {
                return Some(units.least.ceil() as u64);
            }
            let (by, interval) = (by(change)?, change.interval?);
            let reach = (i128::from(interval.high) - by).max(by - i128::from(interval.low));
            u64::try_from(reach).ok()
        };
        DiffVerdict {
            state,
            cost,
            rate,
            work,
            is_starved,
            against,
            largest,
            least_clear: cost.and_then(reach),
            needed: units.and_then(|units| units.needed),
            order: units.map(|units| units.order),
            unlike,
            recordings,
            with_lost,
        }
    }

    /// What may be said of a change of a row. What differs between two recordings may differ between any two.
    pub fn of_change(&self, row: &DiffRow, change: &MeasureChange) -> ChangeVerdict {
        match (change.verdict(), self.unjudged()) {
            (ChangeVerdict::TooFew, _) => ChangeVerdict::TooFew,
            (_, Some(_)) => ChangeVerdict::NotJudged,
            _ if is_hidden(row, change, self.with_lost) => ChangeVerdict::NotJudged,
            (verdict, None) => verdict,
        }
    }

    /// The interval of a change with what is hidden of it; `None` if that may be anything.
    pub(crate) fn with_hidden(&self, row: &DiffRow, change: &MeasureChange) -> Option<Interval> {
        with_hidden(row, change, self.with_lost)
    }

    /// Why nothing is said of any change, for a limit on one.
    pub fn unjudged(&self) -> Option<&'static str> {
        match self.state {
            DiffState::CannotTell(NotCompared::Unlike) => {
                Some("the sides are of machines whose exits are not the same")
            }
            DiffState::CannotTell(NotCompared::Steal) => Some("steal was recorded on one side alone"),
            DiffState::CannotTell(NotCompared::Losses) => Some(LOST),
            DiffState::CannotTell(NotCompared::NoLengths(..)) => Some("no exit of one side has a length"),
            DiffState::CannotTell(NotCompared::NoExits(..)) => Some("there is no exit on one side"),
            DiffState::CannotTell(NotCompared::TooShort) => {
                Some("there are too few exits, or too short recordings, for a confidence interval")
            }
            DiffState::CannotTell(NotCompared::Drift | NotCompared::InOrder) => {
                Some("all of one side was recorded first, and a drift may be what differs: record the sides in turns")
            }
            DiffState::Undecided => {
                Some("what exits cost of vCPU time, and steal or the work that was done, contradict")
            }
            _ if self.recordings < FEWEST_RECORDINGS => Some(
                "one recording does not say how runs differ without any change: give each side several (--before, --after)",
            ),
            _ => None,
        }
    }
}

/// The interval of a change if what is hidden of it is like the rest: lost records hide a part of what exits cost and of how many there
/// are, exits without a length another part of what they cost.
fn with_hidden(row: &DiffRow, change: &MeasureChange, with_lost_records: [f64; 2]) -> Option<Interval> {
    let interval = change.interval?;
    let sides = [(row.timed.0, row.counts.0, change.before?), (row.timed.1, row.counts.1, change.after?)];
    let are_timed = || sides.iter().all(|&(timed, count, _)| are_most_timed(timed, count));
    let hidden = |at: usize| {
        let (timed, count, of) = sides[at];
        let factor = match change.measure {
            DiffMeasure::Cost if timed == 0 && count > 0 => return None,
            DiffMeasure::Cost => with_lost(count.saturating_sub(timed), timed) * with_lost_records[at],
            DiffMeasure::Rate => with_lost_records[at],
            // Losses hide of the guest's time and of steal what they hide of the cost.
            DiffMeasure::CostOfGuest | DiffMeasure::CostOfWork | DiffMeasure::Guest | DiffMeasure::Steal => 1.0,
            DiffMeasure::Mean | DiffMeasure::P50 | DiffMeasure::P99 if are_timed() => 1.0,
            DiffMeasure::Mean | DiffMeasure::P50 | DiffMeasure::P99 => return None,
        };
        Some(of as f64 * (factor - 1.0))
    };
    let by = (hidden(1)? - hidden(0)?) as i64;
    Some(Interval { low: interval.low.saturating_add(by), high: interval.high.saturating_add(by) })
}

/// Whether a change would be judged otherwise with what is hidden of it.
fn is_hidden(row: &DiffRow, change: &MeasureChange, with_lost_records: [f64; 2]) -> bool {
    let interval = with_hidden(row, change, with_lost_records);
    change.moved_to(interval).verdict() != change.verdict()
}

/// The architectures, or hypervisors, that differ. A trace that does not say its architecture gives its beginning.
fn unlike([before, after]: [&ComparedSide; 2]) -> Option<(String, String)> {
    let names = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let differ = |old: &BTreeSet<String>, new: &BTreeSet<String>, are_alike: fn(&str, &str) -> bool| {
        let (old, new) = (names(old), names(new));
        (!old.is_empty() && !new.is_empty() && !are_alike(&old, &new)).then_some((old, new))
    };
    differ(&before.architectures, &after.architectures, |old, new| old.starts_with(new) || new.starts_with(old))
        .or_else(|| differ(&before.hypervisors, &after.hypervisors, |old, new| old == new))
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
        (.., None | Some(ChangeVerdict::TooFew | ChangeVerdict::NotJudged)) => {
            DiffState::CannotTell(NotCompared::TooShort)
        }
        (.., Some(ChangeVerdict::More)) => DiffState::Worse,
        (.., Some(ChangeVerdict::Less)) => DiffState::Better,
        (.., Some(ChangeVerdict::Unclear)) if is_same(all) && rows.iter().all(is_same) => DiffState::Same,
        (.., Some(ChangeVerdict::Unclear)) => DiffState::NoClearDifference,
    }
}

/// What the cost of the work makes of a state: both must have changed the same way. More steal is no reason for less cost that anybody
/// wants.
fn with_work(state: DiffState, work: Option<MeasureChange>, is_starved: bool) -> DiffState {
    let work = work.map(|work| work.verdict()).filter(|work| *work != ChangeVerdict::TooFew);
    match (state, work) {
        (DiffState::Better, _) if is_starved => DiffState::Undecided,
        (DiffState::Worse, None | Some(ChangeVerdict::More))
        | (DiffState::Better, None | Some(ChangeVerdict::Less)) => state,
        (DiffState::Worse | DiffState::Better, _) => DiffState::Undecided,
        (DiffState::NoClearDifference, Some(ChangeVerdict::More | ChangeVerdict::Less)) => DiffState::Undecided,
        _ => state,
    }
}

/// What the order of the recordings makes of it: where a side came first, what differs by more than chance may be a drift.
fn with_order(cost: Option<MeasureChange>, state: DiffState) -> DiffState {
    let units = cost.and_then(|cost| cost.units).filter(|units| units.order == UnitOrderKind::InOrder);
    match (units, state) {
        (Some(units), DiffState::NoClearDifference | DiffState::Undecided) if units.differs_unordered => {
            DiffState::CannotTell(if units.drifts { NotCompared::Drift } else { NotCompared::InOrder })
        }
        _ => state,
    }
}

/// How many exits there are and how long they take, where that certainly changed this way.
fn against(all: &DiffRow, way: ChangeVerdict) -> Vec<MeasureChange> {
    let measures = [DiffMeasure::Rate, DiffMeasure::P50, DiffMeasure::P99];
    measures.into_iter().filter_map(|of| all.change(of).copied()).filter(|change| change.verdict() == way).collect()
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
    use crate::UnitChange;

    /// Cost on both sides, and its interval; as many exits a second as it costs.
    fn row(reason: Option<&str>, before: u64, after: u64, interval: Option<(i64, i64)>) -> DiffRow {
        let interval = interval.map(|(low, high)| Interval { low, high });
        let change = |measure| MeasureChange::of_blocks(measure, Some(before), Some(after), interval);
        DiffRow {
            reason: reason.map(str::to_string),
            without: Vec::new(),
            counts: (before, after),
            timed: (before, after),
            changes: DiffMeasure::ALL.map(change).to_vec(),
        }
    }

    fn side(recordings: usize, architecture: &str, hypervisor: &str, steal: (bool, bool)) -> ComparedSide {
        ComparedSide {
            recordings: (0..recordings).map(|number| number.to_string()).collect(),
            architectures: [architecture.to_string()].into_iter().collect(),
            hypervisors: [hypervisor.to_string()].into_iter().collect(),
            tells_steal: steal,
            lost: (0, 1_000),
        }
    }

    /// Of sides with several recordings of one host.
    fn several(all: &DiffRow, rows: &[DiffRow]) -> DiffVerdict {
        let side = side(2, "x86_64", "KVM", (true, true));
        DiffVerdict::of(all, rows, [&side, &side])
    }

    /// Where the headline says nothing of the change, no row does, nor a limit.
    #[test]
    fn rows_and_limits_obey_the_state() {
        let all = row(None, 100, 280, Some((150, 210)));
        let rows = [row(Some("io"), 20, 140, Some((100, 140))), row(Some("hlt"), 2, 1, None)];
        let good = side(2, "x86_64", "KVM", (true, true));
        let limit: crate::ChangeLimit = "cost>+5%".parse().unwrap();
        for (other, state, told) in [
            (good.clone(), DiffState::Worse, true),
            (side(1, "x86_64", "KVM", (true, true)), DiffState::RecordingsDiffer, false),
            (side(2, "x86", "KVM", (true, true)), DiffState::Worse, true),
            (side(2, "aarch64", "KVM", (true, true)), DiffState::CannotTell(NotCompared::Unlike), false),
            (side(2, "x86_64", "Xen", (true, true)), DiffState::CannotTell(NotCompared::Unlike), false),
            (side(2, "x86_64", "KVM, Xen", (true, true)), DiffState::CannotTell(NotCompared::Unlike), false),
            (side(2, "x86_64", "KVM", (true, false)), DiffState::CannotTell(NotCompared::Steal), false),
        ] {
            let verdict = DiffVerdict::of(&all, &rows, [&good, &other]);
            assert_eq!(verdict.state, state, "{other:?}");
            let of = |row: &DiffRow| verdict.of_change(row, &row.changes[0]);
            let said = if told { ChangeVerdict::More } else { ChangeVerdict::NotJudged };
            assert_eq!([of(&all), of(&rows[0]), of(&rows[1])], [said, said, ChangeVerdict::TooFew], "{other:?}");
            let check = limit.check(std::slice::from_ref(&all), false, &verdict);
            assert_eq!(matches!(check, crate::LimitCheck::Passed(_)), told, "{check:?}");
            assert_eq!(matches!(check, crate::LimitCheck::Unknown(_)), !told, "{check:?}");
        }
    }

    /// Losses hide as much of what exits cost as of the records: what these may have made is no change, and no lack of one.
    #[test]
    fn what_losses_may_have_made_is_not_judged() {
        let good = side(2, "x86_64", "KVM", (true, true));
        let lossy = |lost| ComparedSide { lost: (lost, 1_000), ..good.clone() };
        let unclear = row(None, 1_000, 1_001, Some((-30, 30)));
        let worse = row(None, 1_000, 2_000, Some((900, 1_100)));
        let limit: crate::ChangeLimit = "cost>+50%".parse().unwrap();
        let cannot_tell = DiffState::CannotTell(NotCompared::Losses);
        for (all, before, after, state, passed) in [
            (&unclear, 0, 1_000, cannot_tell, None),
            (&unclear, 1_000, 0, cannot_tell, None),
            (&unclear, 10, 10, DiffState::NoClearDifference, Some(false)),
            (&unclear, 0, 10, DiffState::NoClearDifference, Some(false)),
            (&worse, 0, 10, DiffState::Worse, Some(true)),
            (&worse, 1_000, 0, cannot_tell, None),
            // It is more for certain, and whether half as much again, losses may decide.
            (&worse, 450, 0, DiffState::Worse, None),
        ] {
            let verdict = DiffVerdict::of(all, &[], [&lossy(before), &lossy(after)]);
            assert_eq!(verdict.state, state, "{before} {after}");
            let passes = match limit.check(std::slice::from_ref(all), false, &verdict) {
                crate::LimitCheck::Passed(_) => Some(true),
                crate::LimitCheck::Holds => Some(false),
                crate::LimitCheck::Unknown(_) => None,
            };
            assert_eq!(passes, passed, "{before} {after}");
        }
        let verdict = DiffVerdict::of(&unclear, &[], [&good, &lossy(1_000)]);
        assert_eq!(verdict.of_change(&worse, &worse.changes[1]), ChangeVerdict::NotJudged);
    }

    /// A reason whose exits have no length after costs nothing there, as far as one sees.
    #[test]
    fn what_exits_without_a_length_may_have_made_is_not_judged() {
        let all = row(None, 1_000, 800, Some((-250, -150)));
        let mut msr = row(Some("msr"), 200, 0, Some((-220, -180)));
        msr.counts = (200, 200);
        let verdict = several(&DiffRow { counts: (1_000, 1_000), timed: (1_000, 800), ..all.clone() }, &[msr.clone()]);
        assert_eq!(verdict.state, DiffState::CannotTell(NotCompared::Losses));
        let verdict = several(&all, &[]);
        let of = |measure| verdict.of_change(&msr, msr.change(measure).unwrap());
        use ChangeVerdict::{Less, NotJudged};
        assert_eq!(DiffMeasure::ALL.map(of), [NotJudged, Less, NotJudged, NotJudged, NotJudged]);
    }

    #[test]
    fn the_largest_certain_change_the_same_way_carries_a_part_of_it() {
        let all = row(None, 100, 280, Some((150, 210)));
        let rows = [
            row(Some("msr"), 50, 10, Some((-45, -35))),
            row(Some("io"), 20, 140, Some((100, 140))),
            row(Some("npf"), 30, 130, Some((-1, 201))),
        ];
        let found = several(&all, &rows);
        assert_eq!(found.state, DiffState::Worse);
        assert_eq!(found.largest, Some(("io".to_string(), 120.0 / 180.0)));
        assert_eq!(found.least_clear, Some(30));
        let back = several(&row(None, 280, 100, Some((-200, -150))), &[row(Some("io"), 140, 20, Some((-9, -1)))]);
        assert_eq!((back.state, back.largest), (DiffState::Better, Some(("io".to_string(), 120.0 / 180.0))));
        // The one that chance may explain is not named, however large it is.
        let found = several(&all, &rows[2..]);
        assert_eq!((found.state, found.largest), (DiffState::Worse, None));
    }

    #[test]
    fn where_one_side_came_first_a_drift_may_be_what_differs() {
        use UnitOrderKind::{InOrder, InTurns};
        let of = |order, drifts, differs_unordered, interval: (i64, i64)| {
            let interval = Interval { low: interval.0, high: interval.1 };
            let (typical, p_value, least, needed) = ((100.0, 180.0), 0.2, 90.0, Some(7));
            let units = UnitChange { order, typical, interval, p_value, least, needed, drifts, differs_unordered };
            let mut all = row(None, 100, 180, Some((interval.low, interval.high)));
            for change in &mut all.changes {
                change.units = Some(units);
                change.is_certain &= !drifts;
            }
            several(&all, &[])
        };
        for (order, drifts, differs, interval, state) in [
            (InOrder, false, true, (20, 140), DiffState::Worse),
            (InOrder, true, true, (20, 140), DiffState::CannotTell(NotCompared::Drift)),
            (InOrder, false, true, (-20, 140), DiffState::CannotTell(NotCompared::InOrder)),
            (InOrder, true, false, (-20, 140), DiffState::NoClearDifference),
            (InTurns, false, true, (-20, 140), DiffState::NoClearDifference),
        ] {
            let verdict = of(order, drifts, differs, interval);
            assert_eq!(verdict.state, state, "{order:?} {drifts} {differs} {interval:?}");
            assert_eq!((verdict.least_clear, verdict.needed, verdict.order), (Some(90), Some(7), Some(order)));
            let is_judged = matches!(state, DiffState::Worse | DiffState::NoClearDifference);
            assert_eq!(verdict.unjudged().is_none(), is_judged, "limits obey");
        }
    }

    #[test]
    fn what_chance_may_explain_is_no_clear_difference_and_how_large_one_had_to_be_is_known() {
        let found = several(&row(None, 100, 110, Some((-20, 35))), &[row(Some("io"), 10, 20, Some((5, 15)))]);
        assert_eq!((found.state, found.least_clear, found.largest), (DiffState::NoClearDifference, Some(30), None));
        let found = several(&row(None, 100, 100, Some((-20, 25))), &[row(Some("io"), 10, 11, Some((-5, 5)))]);
        assert_eq!(found.state, DiffState::NoClearDifference, "a reason differs");
        let found = several(&row(None, 100, 100, Some((-20, 25))), &[row(Some("io"), 11, 11, Some((-5, 5)))]);
        assert_eq!(found.state, DiffState::Same);
    }

    #[test]
    fn without_exits_lengths_or_an_interval_nothing_can_be_told() {
        let of = |counts, timed, interval| {
            let all = DiffRow { counts, timed, ..row(None, 7, 7, interval) };
            several(&all, &[]).state
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
        assert_eq!(several(&all, &unlike).state, DiffState::CannotTell(NotCompared::Unlike));
        let like = [unlike.as_slice(), &[row(Some("io"), 1, 1, None)]].concat();
        assert_eq!(several(&all, &like).state, DiffState::Worse);
    }
}
