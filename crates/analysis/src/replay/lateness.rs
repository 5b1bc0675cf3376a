//! How late something may wake a vCPU, after the end of the host's poll, and still be caught: KVM looks once more, and until
//! the thread sleeps somebody may find it awake.
//!
//! ```text
//! how late, and whether caught, of every recorded halt ─► shares that only fall with lateness ─► the chance of another
//! caught  ▪▪▪▪▪▪ ▪▪▪  ▪▪      ▪                                                                 limit, given what became
//! slept         ▪    ▪  ▪▪▪▪▪▪ ▪▪▪▪▪▪▪▪▪                                                        of the halt under its own
//! ```
//!
//! A recording does not show how late would have been too late for one halt, only whether it was; the share of those caught
//! that fits such observations best, and only falls, is found by pooling neighbours (isotonic regression).

use crate::HaltStats;
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// A chance of one; chances are whole numbers of this part.
pub(super) const CERTAIN: u64 = 1 << 16;

/// What is caught where the recording shows nothing late: what comes within 1 us.
const LAST_LOOK: Nanos = Nanos(1_000);

/// The chance that a wake-up is caught, by how late it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// From so many nanoseconds on, this chance; ascending, and chances fall.
    steps: Vec<(u64, u64)>,
    /// From so many nanoseconds on there is no chance.
    never_from: u64,
}

impl Lateness {
    /// As the halts of a recording show it.
    pub fn of(stats: &HaltStats) -> Lateness {
        let mut counts: BTreeMap<u64, (u128, u128)> = BTreeMap::new();
        for (late, caught) in [(&stats.late_caught, true), (&stats.late_slept, false)] {
            for (low, _, count) in late.histogram.counts().buckets() {
                let at = counts.entry(low).or_default();
                at.0 += if caught { u128::from(count) } else { 0 };
                at.1 += u128::from(count);
            }
        }
        // Where the share of those caught does not fall, neighbours are one.
        let mut pools: Vec<(u64, u128, u128)> = Vec::new();
        for (mut low, (mut caught, mut all)) in counts {
            while let Some(before) = pools.pop_if(|before| before.1 * all <= caught * before.2) {
                (low, caught, all) = (before.0, before.1 + caught, before.2 + all);
            }
            pools.push((low, caught, all));
        }
        let steps = pools.into_iter().map(|(low, caught, all)| (low, (caught * u128::from(CERTAIN) / all) as u64));
        let mut steps: Vec<_> = steps.collect();
        if steps.is_empty() {
            steps = vec![(0, CERTAIN), (LAST_LOOK.0 + 1, 0)];
        }
        let never_from = steps.iter().find(|step| step.1 == 0).map_or(u64::MAX, |step| step.0);
        Lateness { steps, never_from }
    }

    /// The chance that what comes so late is caught; what comes in time is.
    fn chance(&self, late: Nanos) -> u64 {
        if late == Nanos::ZERO {
            return CERTAIN;
        }
        let at = self.steps.partition_point(|step| step.0 <= late.0);
        self.steps[at.saturating_sub(1)].1
    }

    /// The same of a halt in which what came as late as `seen` was caught, or was not: one that was not too late then is not
    /// too late sooner, and the other way round.
    #[inline]
    pub(super) fn chance_given(&self, late: Nanos, seen: Option<(Nanos, bool)>) -> u64 {
        // Most halts last longer than anybody polls: no share of no chance is one.
        if late.0 > self.never_from && !seen.is_some_and(|(seen, caught)| caught && late <= seen) {
            return 0;
        }
        self.share_given(late, seen)
    }

    fn share_given(&self, late: Nanos, seen: Option<(Nanos, bool)>) -> u64 {
        let chance = self.chance(late);
        let share = |part: u64, of: u64| (part * CERTAIN).checked_div(of).unwrap_or(0);
        match seen {
            None => chance,
            Some((seen, true)) if late <= seen => CERTAIN,
            Some((seen, true)) => share(chance, self.chance(seen)),
            Some((seen, false)) if late >= seen => 0,
            Some((seen, false)) => share(chance - self.chance(seen), CERTAIN - self.chance(seen)),
        }
    }
}

/// Draws as often as chances say, in turn instead of by luck: what is left over counts the next time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn take(&mut self, chance: u64) -> bool {
        self.0 += chance;
        let drawn = self.0 >= CERTAIN;
        self.0 -= if drawn { CERTAIN } else { 0 };
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording in which of wake-ups so late, in microseconds, so many were caught, and so many slept.
    fn recorded(halts: &[(u64, u64, u64)]) -> Lateness {
        let mut stats = HaltStats::default();
        for &(late, caught, slept) in halts {
            (0..caught).for_each(|_| stats.late_caught.record(Nanos(late * 1_000)));
            (0..slept).for_each(|_| stats.late_slept.record(Nanos(late * 1_000)));
        }
        Lateness::of(&stats)
    }

    const US: Nanos = Nanos(1_000);

    fn us(us: u64) -> Nanos {
        Nanos(us * US.0)
    }

    #[test]
    fn the_chance_is_the_share_of_those_that_were_as_late_and_only_falls() {
        let lateness = recorded(&[(2, 4, 0), (10, 3, 1), (20, 1, 3), (30, 2, 2), (50, 0, 4)]);
        for (late, chance) in [
            (0, CERTAIN),
            (2, CERTAIN),
            (9, CERTAIN),
            (11, CERTAIN * 3 / 4),
            // More of those 30 us late were caught than of those 20 us late: 3 of 8 of both.
            (21, CERTAIN * 3 / 8),
            (40, CERTAIN * 3 / 8),
            (60, 0),
            (1_000, 0),
        ] {
            assert_eq!(lateness.chance(us(late)), chance, "{late} us late");
        }
    }

    #[test]
    fn what_became_of_a_halt_says_what_would_have() {
        let lateness = recorded(&[(10, 3, 1), (20, 1, 3), (50, 0, 4)]);
        let chance = |late, seen: Option<(u64, bool)>| {
            lateness.chance_given(us(late), seen.map(|(seen, caught)| (us(seen), caught)))
        };
        assert_eq!([chance(11, None), chance(21, None)], [CERTAIN * 3 / 4, CERTAIN / 4]);
        assert_eq!([chance(11, Some((21, true))), chance(21, Some((21, true)))], [CERTAIN, CERTAIN]);
        // Of the three in four that are caught 11 us late, one is caught 21 us late.
        assert_eq!(chance(21, Some((11, true))), CERTAIN / 3);
        assert_eq!([chance(21, Some((11, false))), chance(11, Some((11, false)))], [0, 0]);
        // Of the three in four that are not caught 21 us late, two are caught 11 us late.
        assert_eq!(chance(11, Some((21, false))), CERTAIN * 2 / 3);
        assert_eq!(chance(21, Some((0, true))), CERTAIN / 4, "caught in time");
    }

    #[test]
    fn what_is_too_late_for_any_halt_is_seen_at_once() {
        for lateness in [recorded(&[(10, 3, 1), (20, 1, 3), (50, 0, 4)]), recorded(&[(10, 3, 1)]), recorded(&[])] {
            let moments = (0..70_000).step_by(250).map(Nanos);
            for late in moments.clone().skip(1) {
                for seen in moments.clone().step_by(7).flat_map(|seen| [None, Some((seen, true)), Some((seen, false))])
                {
                    assert_eq!(
                        lateness.chance_given(late, seen),
                        lateness.share_given(late, seen),
                        "{late:?} {seen:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn chances_are_drawn_as_often_as_they_say() {
        let mut draw = Draw::default();
        let drawn: Vec<bool> = (0..8).map(|_| draw.take(CERTAIN / 4)).collect();
        assert_eq!(drawn, [false, false, false, true, false, false, false, true]);
        assert!(draw.take(CERTAIN) && !draw.take(0));
    }
}
