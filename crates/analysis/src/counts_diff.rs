//! Counts of yields before and after a change: the rates of each system on both sides.
//!
//! ```text
//! intervals of a system ─► none overlap: together │ some do: the longest alone │ none has a rate: not compared
//! ```

use exitscope_model::{CountSource, YieldCount, YieldCounts};
use exitscope_units::Nanos;

/// One side of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedSide {
    /// Its intervals.
    pub intervals: usize,
    /// Whether they overlap, so that the longest stands for all.
    pub is_longest_alone: bool,
    /// What was counted in them; the counters that all of them have.
    pub counts: YieldCounts,
}

/// A system on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedChange {
    /// Who counted.
    pub source: CountSource,
    /// Of which system.
    pub system: String,
    /// Before, and after.
    pub sides: [CountedSide; 2],
}

/// Why a system is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsNotCompared {
    /// It is on one side alone.
    OneSide,
    /// A side has no rate: its counters were read once, or without moments.
    NoRate,
    /// A side has several intervals of which nothing says how long they are.
    NoLengths,
}

/// Compares the systems of two sides. Where each side has one of a source, that is the same system whatever it is called, as a
/// VM's folder has another name after each start.
pub fn compare_counts(
    before: &[YieldCounts],
    after: &[YieldCounts],
) -> (Vec<CountedChange>, Vec<(CountSource, String, CountsNotCompared)>) {
    let (mut changes, mut others) = (Vec::new(), Vec::new());
    for source in CountSource::ALL {
        let [of_before, of_after] = [before, after].map(|side| systems(side, source));
        let is_one = of_before.len() == 1 && of_after.len() == 1;
        let mut left: Vec<&(String, Vec<&YieldCounts>)> = of_after.iter().collect();
        for (system, intervals) in &of_before {
            let found = left.iter().position(|of| is_one || of.0 == *system).map(|at| left.remove(at));
            let Some((name, later)) = found else {
                others.push((source, system.clone(), CountsNotCompared::OneSide));
                continue;
            };
            match (side(intervals), side(later)) {
                (Ok(before), Ok(after)) => {
                    changes.push(CountedChange { source, system: name.clone(), sides: [before, after] });
                }
                (Err(why), _) | (_, Err(why)) => others.push((source, system.clone(), why)),
            }
        }
        others.extend(left.into_iter().map(|of| (source, of.0.clone(), CountsNotCompared::OneSide)));
    }
    (changes, others)
}

/// The intervals of a source by system, in the order of the text.
fn systems(counts: &[YieldCounts], source: CountSource) -> Vec<(String, Vec<&YieldCounts>)> {
    let mut systems: Vec<(String, Vec<&YieldCounts>)> = Vec::new();
    for of in counts.iter().filter(|of| of.source == source) {
        match systems.iter_mut().find(|known| known.0 == of.system) {
            Some(known) => known.1.push(of),
            None => systems.push((of.system.clone(), vec![of])),
        }
    }
    systems
}

/// All intervals of a system on one side.
fn side(intervals: &[&YieldCounts]) -> Result<CountedSide, CountsNotCompared> {
    let has_rate = |of: &&&YieldCounts| of.counts.iter().any(|count| count.per_s.is_some());
    let mut intervals: Vec<&YieldCounts> = intervals.iter().filter(has_rate).copied().collect();
    let alone =
        |of: &YieldCounts, intervals, is_longest_alone| CountedSide { intervals, is_longest_alone, counts: of.clone() };
    match &intervals[..] {
        [] => return Err(CountsNotCompared::NoRate),
        [one] => return Ok(alone(one, 1, false)),
        _ => {}
    }
    let ends = |of: &YieldCounts| of.begin.zip(of.span).map(|(begin, span)| (begin.0, begin.0.saturating_add(span.0)));
    if intervals.iter().any(|of| ends(of).is_none()) {
        return Err(CountsNotCompared::NoLengths);
    }
    intervals.sort_by_key(|of| of.begin);
    let overlap = intervals.windows(2).any(|pair| ends(pair[0]).map(|of| of.1) > ends(pair[1]).map(|of| of.0));
    let longest = intervals.iter().max_by_key(|of| of.span).copied();
    match longest.filter(|_| overlap) {
        Some(longest) => Ok(alone(longest, intervals.len(), true)),
        None => Ok(CountedSide { intervals: intervals.len(), is_longest_alone: false, counts: together(&intervals) }),
    }
}

/// What was counted in all of these intervals, of which none overlap.
fn together(intervals: &[&YieldCounts]) -> YieldCounts {
    let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(0, u64::saturating_add);
    let span = Nanos(sum(&mut intervals.iter().filter_map(|of| of.span).map(|span| span.0)));
    let counted = |count: &YieldCount| {
        let each: Option<Vec<u64>> = intervals.iter().map(|of| Some(of.get(count.counter)?.count)).collect();
        Some(YieldCount::within(Some(span.max(Nanos(1))), count.counter, sum(&mut each?.into_iter())))
    };
    YieldCounts {
        interval: String::new(),
        span: Some(span),
        counts: intervals[0].counts.iter().filter_map(counted).collect(),
        ..intervals[0].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::YieldCounter;

    const SECOND: u64 = 1_000_000_000;

    /// From one second to another, so many X'9C'.
    fn interval(system: &str, from: u64, to: u64, count: u64) -> YieldCounts {
        let per_s = Some(count as f64 / (to - from) as f64);
        YieldCounts {
            source: CountSource::KvmStats,
            system: system.into(),
            interval: String::new(),
            begin: Some(Nanos(from * SECOND)),
            span: Some(Nanos((to - from) * SECOND)),
            is_since_start: false,
            counts: vec![YieldCount { counter: YieldCounter::Diag9c, count, per_s }],
            spin_retry: None,
        }
    }

    fn rate(side: &CountedSide) -> f64 {
        side.counts.get(YieldCounter::Diag9c).unwrap().per_s.unwrap()
    }

    #[test]
    fn intervals_add_up_unless_they_overlap() {
        let before = [interval("1-15", 10, 20, 100), interval("1-15", 0, 10, 300)];
        let after = [interval("1-15", 0, 10, 10), interval("1-15", 0, 30, 300), interval("1-15", 20, 30, 0)];
        let (changes, others) = compare_counts(&before, &after);
        let [one] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((one.sides[0].intervals, one.sides[0].is_longest_alone, rate(&one.sides[0])), (2, false, 20.0));
        assert_eq!((one.sides[1].intervals, one.sides[1].is_longest_alone, rate(&one.sides[1])), (3, true, 10.0));
        assert_eq!(others, []);
    }

    #[test]
    fn systems_are_told_apart_and_what_has_no_rate_is_not_compared() {
        let mut once = interval("2-15", 0, 10, 5);
        once.counts[0].per_s = None;
        let before = [interval("1-15", 0, 10, 100), once.clone(), interval("3-15", 0, 10, 100)];
        let after = [interval("2-15", 0, 10, 5), interval("1-15", 0, 10, 50), interval("4-15", 0, 10, 50)];
        let (changes, others) = compare_counts(&before, &after);
        assert_eq!(changes.iter().map(|of| of.system.as_str()).collect::<Vec<_>>(), ["1-15"]);
        let others: Vec<_> = others.iter().map(|of| (of.1.as_str(), of.2)).collect();
        let one_side = CountsNotCompared::OneSide;
        assert_eq!(others, [("2-15", CountsNotCompared::NoRate), ("3-15", one_side), ("4-15", one_side)]);
        // One VM on each side is the same, whatever its number is.
        let (changes, _) = compare_counts(&before[..1], &after[2..]);
        assert_eq!((changes.len(), changes[0].system.as_str()), (1, "4-15"));
        let nowhere = |mut of: YieldCounts| {
            (of.begin, of.span) = (None, None);
            of
        };
        let several = [nowhere(before[0].clone()), nowhere(before[0].clone())];
        assert_eq!(
            compare_counts(&several, &after[1..2]).1,
            [(CountSource::KvmStats, "1-15".into(), CountsNotCompared::NoLengths)]
        );
    }
}
