//! What is compared as a whole, a recording or a host: its figures, when it was recorded, and how two sides of them compare.
//!
//! ```text
//! figures of each unit, as logarithms ─┬─ hosts that are on both sides ─► pairs
//!                                      ├─ a b a b … in time ─► in turns: neighbours are pairs
//!                                      ├─ a a … b b … in time ─► in order: a drift explains as much as it can
//!                                      └─ another order, or none that is known ─► Welch
//! ```

use exitscope_stats::{Drift, Interval, MeanChange};
use exitscope_units::{Moment, Nanos};
use std::collections::BTreeMap;

/// Turns from which on the differences of neighbours beside a drift hold their level: with two, 8 of 100 comparisons of the same
/// with the same find a change at a level of 5.
const FEWEST_TURNS: usize = 3;

/// What is known of a unit beside its exits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiffUnit {
    /// When it was recorded; `None` if no clock tells that which it shares with others.
    pub recorded: Option<RecordedWhen>,
    /// What guests ran; zero if that is not known.
    pub guest: Nanos,
    /// Steal, where that was recorded.
    pub steal: Option<Nanos>,
    /// Work that was done in it, in a unit that the user has: requests, transactions.
    pub work: Option<f64>,
    /// The unit of the other side that has the same name is the one that it is compared with.
    pub pair: Option<String>,
}

/// A stretch of a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedWhen {
    /// The host and its clock: only moments of the same may be compared.
    pub clock: (String, String),
    /// The first event.
    pub first: Moment,
    /// The last one.
    pub last: Moment,
}

/// How the units of two sides lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitOrderKind {
    /// A unit of one side is compared with that of the same name on the other.
    Pairs,
    /// The sides were recorded in turns.
    InTurns,
    /// All of one side were recorded before all of the other.
    InOrder,
    /// They were recorded in some other order.
    Mixed,
    /// Nothing tells their order.
    Unknown,
}

/// The same, with the places of the units on their sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitOrder {
    /// Those of the same name are pairs: their places on both sides.
    Pairs(Vec<(usize, usize)>),
    /// In time, each two that follow each other are one of each side.
    InTurns(Vec<(bool, usize)>),
    /// In time, all of one side come first.
    InOrder(Vec<(bool, usize)>),
    /// In time, in some other order.
    Mixed,
    /// Nothing tells.
    Unknown,
}

impl UnitOrder {
    /// Of two sides.
    pub fn of(before: &[DiffUnit], after: &[DiffUnit]) -> UnitOrder {
        if let Some(pairs) = pairs(before, after) {
            return UnitOrder::Pairs(pairs);
        }
        let Some(order) = in_time(before, after) else { return UnitOrder::Unknown };
        let changes = order.windows(2).filter(|two| two[0].0 != two[1].0).count();
        let is_paired =
            order.len() % 2 == 0 && order.len() / 2 >= FEWEST_TURNS && order.chunks(2).all(|two| two[0].0 != two[1].0);
        match changes {
            0 | 1 => UnitOrder::InOrder(order),
            _ if is_paired => UnitOrder::InTurns(order),
            _ => UnitOrder::Mixed,
        }
    }

    /// Which it is.
    pub fn kind(&self) -> UnitOrderKind {
        match self {
            UnitOrder::Pairs(_) => UnitOrderKind::Pairs,
            UnitOrder::InTurns(_) => UnitOrderKind::InTurns,
            UnitOrder::InOrder(_) => UnitOrderKind::InOrder,
            UnitOrder::Mixed => UnitOrderKind::Mixed,
            UnitOrder::Unknown => UnitOrderKind::Unknown,
        }
    }

    /// How a figure of each unit changed; `None` if a side has fewer than two.
    fn change(&self, before: &[f64], after: &[f64]) -> Option<(MeanChange, Option<Drift>)> {
        let ordered = |order: &[(bool, usize)]| -> Vec<(bool, f64)> {
            order.iter().map(|&(is_after, at)| (is_after, if is_after { after[at] } else { before[at] })).collect()
        };
        let change = match self {
            UnitOrder::Pairs(pairs) => {
                MeanChange::paired(&pairs.iter().map(|&(old, new)| (before[old], after[new])).collect::<Vec<_>>())
            }
            UnitOrder::InTurns(order) => MeanChange::in_turns(&ordered(order)),
            UnitOrder::InOrder(order) => {
                let ordered = ordered(order);
                return Some((MeanChange::in_order(&ordered)?, Drift::of(&ordered)));
            }
            UnitOrder::Mixed | UnitOrder::Unknown => MeanChange::welch(before, after),
        };
        change.map(|change| (change, None))
    }
}

/// Units of the same name, if at least two are on both sides.
fn pairs(before: &[DiffUnit], after: &[DiffUnit]) -> Option<Vec<(usize, usize)>> {
    let named: BTreeMap<&str, usize> =
        after.iter().enumerate().filter_map(|(at, of)| Some((of.pair.as_deref()?, at))).collect();
    let pair = |(at, of): (usize, &DiffUnit)| Some((at, *named.get(of.pair.as_deref()?)?));
    let pairs: Vec<_> = before.iter().enumerate().filter_map(pair).collect();
    (pairs.len() > 1).then_some(pairs)
}

/// All units in the order in which they were recorded, each with whether it is of after; `None` if they do not share a clock, or
/// if some were recorded at the same time.
fn in_time(before: &[DiffUnit], after: &[DiffUnit]) -> Option<Vec<(bool, usize)>> {
    let of = |is_after: bool, units: &[DiffUnit]| -> Option<Vec<(RecordedWhen, bool, usize)>> {
        units.iter().enumerate().map(|(at, unit)| Some((unit.recorded.clone()?, is_after, at))).collect()
    };
    let mut all = of(false, before)?;
    all.extend(of(true, after)?);
    all.sort_by_key(|of| of.0.first);
    let follows = |two: &[(RecordedWhen, bool, usize)]| {
        two[0].0.clock == two[1].0.clock && !two[0].0.clock.0.is_empty() && two[0].0.last <= two[1].0.first
    };
    all.windows(2).all(follows).then(|| all.into_iter().map(|(_, is_after, at)| (is_after, at)).collect())
}

/// How a figure of the units of both sides differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitChange {
    /// How the units lie to each other.
    pub order: UnitOrderKind,
    /// Typical of before, and of after: the geometric mean, or the mean where some are nothing.
    pub typical: (f64, f64),
    /// Of after minus before.
    pub interval: Interval,
    /// How often chance makes as large a change.
    pub p_value: f64,
    /// A change of the typical figure as large as this is found in 80 of 100 repetitions.
    pub least: f64,
    /// Units a side that find a change as large as the one seen, likewise.
    pub needed: Option<usize>,
    /// Whether figures follow the order in which they were recorded, where all of one side came first.
    pub drifts: bool,
    /// Whether the sides differ if their order is left out of account.
    pub differs_unordered: bool,
}

impl UnitChange {
    /// Of a figure of each unit, at this level: 0.05 for 95 %.
    pub fn of(order: &UnitOrder, before: &[f64], after: &[f64], level: f64) -> Option<UnitChange> {
        let is_log = before.iter().chain(after).all(|value| *value > 0.0);
        let scaled = |values: &[f64]| -> Vec<f64> {
            if is_log { values.iter().map(|value| value.ln()).collect() } else { values.to_vec() }
        };
        let (old, new) = (scaled(before), scaled(after));
        let (change, drift) = order.change(&old, &new)?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let base = match order {
            UnitOrder::Pairs(pairs) => mean(&pairs.iter().map(|pair| old[pair.0]).collect::<Vec<_>>()),
            _ => mean(&old),
        };
        let value = |of: f64| if is_log { of.exp() } else { of };
        let from_base = |by: f64| value(base + by) - value(base);
        let (low, high) = change.interval(level);
        Some(UnitChange {
            order: order.kind(),
            typical: (value(base), value(base + change.by)),
            interval: Interval::around((from_base(low), from_base(high))),
            p_value: change.p_value(),
            least: from_base(change.least_found(level)),
            needed: change.needed(change.by, level),
            drifts: drift.is_some_and(|drift| drift.is_found()),
            differs_unordered: change.p_value_unordered() < level,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording that begins then, in seconds of a host's clock, and lasts one.
    fn unit(host: &str, at: u64) -> DiffUnit {
        let moment = |at: u64| Moment::from_nanos(at * 1_000_000_000);
        let clock = (host.to_string(), "monotonic".to_string());
        let recorded = Some(RecordedWhen { clock, first: moment(at), last: moment(at + 1) });
        DiffUnit { recorded, ..DiffUnit::default() }
    }

    fn order(before: &[u64], after: &[u64]) -> UnitOrderKind {
        let side = |of: &[u64]| of.iter().map(|at| unit("h", *at)).collect::<Vec<_>>();
        UnitOrder::of(&side(before), &side(after)).kind()
    }

    #[test]
    fn the_order_of_recordings_is_read_from_their_clock() {
        use UnitOrderKind::{InOrder, InTurns, Mixed, Unknown};
        for (before, after, kind) in [
            (&[1, 3, 5][..], &[2, 4, 6][..], InTurns),
            // Named in any order, and with whichever first in each pair.
            (&[4, 1, 5], &[2, 3, 6], InTurns),
            (&[1, 2, 3], &[4, 5, 6], InOrder),
            (&[4, 5, 6], &[3, 2, 1], InOrder),
            (&[1, 2, 5], &[3, 4, 6], Mixed),
            (&[1, 3], &[2, 4], Mixed),
            (&[1, 3, 5], &[2, 4], Mixed),
            (&[1, 2, 3], &[3, 4, 5], Unknown),
        ] {
            assert_eq!(order(before, after), kind, "{before:?} {after:?}");
        }
        let of = |hosts: [&str; 4]| {
            let units: Vec<_> = hosts.iter().enumerate().map(|(at, host)| unit(host, 2 * at as u64)).collect();
            UnitOrder::of(&units[..2], &units[2..]).kind()
        };
        assert_eq!(of(["h", "h", "h", "h"]), InOrder);
        assert_eq!(of(["h", "h", "h", "other"]), Unknown, "clocks of two hosts");
        assert_eq!(of(["", "", "", ""]), Unknown, "nobody says whose clocks");
        let unknown = [DiffUnit::default(), DiffUnit::default()];
        assert_eq!(UnitOrder::of(&unknown, &unknown).kind(), Unknown);
    }

    #[test]
    fn units_of_one_name_are_pairs() {
        let named = |names: &[&str]| -> Vec<DiffUnit> {
            let unit = |name: &&str| DiffUnit { pair: Some(name.to_string()), ..DiffUnit::default() };
            names.iter().map(unit).collect()
        };
        let of = |before: &[&str], after: &[&str]| UnitOrder::of(&named(before), &named(after));
        assert_eq!(of(&["a", "b", "c"], &["c", "x", "a"]), UnitOrder::Pairs(vec![(0, 2), (2, 0)]));
        assert_eq!(of(&["a", "b"], &["a", "c"]), UnitOrder::Unknown, "one pair says nothing of chance");
    }

    #[test]
    fn a_change_is_one_of_ratios_unless_something_is_nothing() {
        let of = |before: &[f64], after: &[f64]| UnitChange::of(&UnitOrder::Unknown, before, after, 0.05).unwrap();
        let doubled = of(&[100.0, 400.0], &[200.0, 800.0]);
        assert_eq!((doubled.typical.0.round(), doubled.typical.1.round()), (200.0, 400.0));
        let (low, high) = (doubled.interval.low as f64, doubled.interval.high as f64);
        assert!(
            ((200.0 + low) / 400.0 - 400.0 / (200.0 + high)).abs() < 0.02,
            "as far up as down, as factors: {low} {high}"
        );
        let from_nothing = of(&[0.0, 0.0, 0.0], &[90.0, 100.0, 110.0]);
        assert_eq!(from_nothing.typical, (0.0, 100.0));
        assert!(from_nothing.p_value < 0.01 && from_nothing.interval.low > 0, "{from_nothing:?}");
    }

    /// Log-normal costs; those that follow one another have `follows` of their distance from the usual in common.
    struct Runs(Pcg64Mcg);

    impl Runs {
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.0.random_range(0.0..1.0)).sum::<f64>() - 6.0
        }

        fn of(&mut self, count: usize, follows: f64) -> Vec<f64> {
            let mut state = self.normal() / (1.0 - follows * follows).sqrt();
            let mut next = || {
                let value = (18.0 + 0.1 * state).exp();
                state = follows * state + self.normal();
                value
            };
            (0..count).map(|_| next()).collect()
        }
    }

    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// Of 400 comparisons of the same with the same, how many find a change: with so many a side, in turns or one side first.
    fn false_changes(count: usize, in_turns: bool, follows: f64) -> usize {
        let mut runs = Runs(Pcg64Mcg::seed_from_u64(count as u64));
        let is_after = |at: usize| if in_turns { at % 2 == 1 } else { at >= count };
        let find = |_: &usize| {
            let mut sides = [Vec::new(), Vec::new()];
            let mut units = [Vec::new(), Vec::new()];
            for (at, value) in runs.of(2 * count, follows).into_iter().enumerate() {
                let side = usize::from(is_after(at));
                sides[side].push(value);
                units[side].push(unit("h", at as u64));
            }
            let order = UnitOrder::of(&units[0], &units[1]);
            let change = UnitChange::of(&order, &sides[0], &sides[1], 0.05).unwrap();
            change.p_value < 0.05 && !change.drifts
        };
        (0..400).filter(find).count()
    }

    /// Five of a hundred are promised; of 400, chance makes 30 of that in one of a hundred cases.
    #[test]
    fn runs_that_differ_by_chance_or_by_a_drift_are_told_apart_no_oftener_than_said() {
        for count in [2, 3, 5, 10] {
            for in_turns in [true, false] {
                for follows in [0.0, 0.5, 0.8, 0.95] {
                    let found = false_changes(count, in_turns, follows);
                    assert!(found <= 30, "{count} a side, in turns: {in_turns}, {follows}: {found} of 400");
                }
            }
        }
    }
}
