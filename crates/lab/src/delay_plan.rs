//! How `lab delay` divides its time among the delays: a pilot shows how much the added time differs from turn to turn, and from
//! that follows how many round trips it takes to tell a delay from none.
//!
//! ```text
//! turns of the pilot ─► DelayPilot ─► DelayPlan: a length of turn for each delay, and the smallest one that this resolves
//!                            └──────► what a smaller one would take
//! ```

use exitscope_stats::Estimate;
use std::time::Duration;

/// Exits between a request and its response.
pub(crate) const EXITS: f64 = 2.0;

/// Delays up to this one scatter alike; longer ones have scatter of their own, and need hardly any time.
const SHORT: u64 = 1_000;

/// What part of the time is divided equally, whatever the plan gives a delay beside: a turn of a few round trips that a
/// disturbance falls into would spoil its row.
const OWN_SHARE: f64 = 0.3;

/// Of a turn of the pilot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PilotTurn {
    /// Delayed round trips.
    pub(crate) pairs: usize,
    /// What the delay added to one, in nanoseconds.
    pub(crate) added_ns: f64,
    /// How long the turn took, in nanoseconds.
    pub(crate) ns: f64,
}

/// What the pilot showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DelayPilot {
    /// The variance of the added time from turn to turn, if each were of one delayed round trip, in ns².
    variance: f64,
    /// How long a delayed round trip and the one before it take, without the delay, in nanoseconds.
    pair_ns: f64,
}

/// How long the turns are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DelayPlan {
    /// Of each delay, in a round.
    pub(crate) turns: Vec<Duration>,
    /// The smallest delay that this tells from none, as all longer ones.
    pub(crate) resolves: Option<u64>,
}

impl DelayPilot {
    /// Of the turns of each delay; `None` where there are too few.
    pub(crate) fn of(delays: &[u64], turns: &[Vec<PilotTurn>]) -> Option<DelayPilot> {
        let (mut squares, mut freedom, mut ns, mut pairs) = (0.0, 0, 0.0, 0);
        for (delay, turns) in delays.iter().zip(turns).filter(|(delay, _)| **delay <= SHORT) {
            let mean = turns.iter().map(|turn| turn.added_ns).sum::<f64>() / turns.len() as f64;
            for turn in turns {
                squares += turn.pairs as f64 * (turn.added_ns - mean).powi(2);
                ns += turn.ns - turn.pairs as f64 * EXITS * *delay as f64;
                pairs += turn.pairs;
            }
            freedom += turns.len().saturating_sub(1);
        }
        (freedom > 0 && pairs > 0)
            .then(|| DelayPilot { variance: squares / freedom as f64, pair_ns: (ns / pairs as f64).max(1.0) })
    }

    /// How long each of so many turns is, in nanoseconds, that tell this delay from none: half of the interval of the added time
    /// is half of what a delay adds, as an interval twice as wide would hold zero every other time. Infinite for a single turn.
    fn turn_ns(&self, delay: u64, rounds: u32) -> f64 {
        let half_of_one = Estimate::half_width(self.variance.sqrt(), rounds as usize);
        let pairs = (half_of_one / (EXITS * delay as f64 / 2.0)).powi(2);
        pairs * (self.pair_ns + EXITS * delay as f64)
    }

    /// Divides rounds of this length: the longest delays get what they need first, as a delay is told from none only if all
    /// longer ones are. What is left goes to those for which it is too little.
    pub(crate) fn plan(&self, delays: &[u64], rounds: u32, round: Duration) -> DelayPlan {
        let round = round.as_nanos() as f64;
        let own = OWN_SHARE * round / delays.len().max(1) as f64;
        let mut left = round * (1.0 - OWN_SHARE);
        let mut turns = vec![own; delays.len()];
        let mut rest: Vec<usize> = (0..delays.len()).filter(|&at| delays[at] > 0).collect();
        rest.sort_by_key(|&at| delays[at]);
        let mut resolves = None;
        while let Some(&at) = rest.last() {
            let more = (self.turn_ns(delays[at], rounds) - own).max(0.0);
            if more > left {
                break;
            }
            left -= more;
            turns[at] += more;
            resolves = Some(delays[at]);
            rest.pop();
        }
        if rest.is_empty() {
            rest = (0..delays.len()).collect();
        }
        rest.iter().for_each(|&at| turns[at] += left / rest.len() as f64);
        DelayPlan { turns: turns.into_iter().map(|ns| Duration::from_nanos(ns as u64)).collect(), resolves }
    }

    /// How long so many rounds are that tell this delay and all longer ones from none; `None`: no length does.
    pub(crate) fn needed(&self, delays: &[u64], goal: u64, rounds: u32) -> Option<Duration> {
        let needed = delays.iter().filter(|delay| **delay >= goal && **delay > 0);
        let ns: f64 = needed.map(|&delay| self.turn_ns(delay, rounds)).sum();
        ns.is_finite().then(|| Duration::from_nanos((ns / (1.0 - OWN_SHARE)).ceil() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: [u64; 5] = [0, 50, 100, 200, 10_000];

    /// Turns of 100 pairs of 50 us each, whose added times are off by `off` and by as much to the other side.
    fn pilot(off: f64) -> DelayPilot {
        let turns = DELAYS.map(|delay| {
            let turn = |off: f64| {
                let added_ns = EXITS * delay as f64 + off;
                PilotTurn { pairs: 100, added_ns, ns: 100.0 * (50_000.0 + EXITS * delay as f64) }
            };
            // What a long delay scatters by says nothing of short ones.
            let off = if delay > SHORT { 1e6 } else { off };
            vec![turn(off), turn(-off)]
        });
        DelayPilot::of(&DELAYS, &turns).unwrap()
    }

    #[test]
    fn a_pilot_has_the_variance_of_one_round_trip_and_its_length() {
        // Two values 10 to either side of their mean: a variance of 200, of turns of 100.
        let DelayPilot { variance, pair_ns, .. } = pilot(10.0);
        assert!((variance - 20_000.0).abs() < 1e-6 && (pair_ns - 50_000.0).abs() < 1e-6, "{variance} {pair_ns}");
        assert_eq!(DelayPilot::of(&DELAYS, &[vec![], vec![]]), None);
        let lone = vec![PilotTurn { pairs: 100, added_ns: 0.0, ns: 1.0 }];
        assert_eq!(DelayPilot::of(&[0], &[lone]), None, "one turn does not say how turns differ");
    }

    #[test]
    fn more_time_resolves_smaller_delays_and_none_is_lost() {
        let pilot = pilot(100.0);
        let mut before = None;
        let mut seen = Vec::new();
        for ms in [1, 3, 10, 100, 1_000, 10_000] {
            let round = Duration::from_millis(ms);
            let plan = pilot.plan(&DELAYS, 10, round);
            let sum: Duration = plan.turns.iter().sum();
            assert!(sum.abs_diff(round) < Duration::from_micros(1), "{plan:?}");
            assert!(
                plan.turns.iter().all(|turn| *turn >= round.mul_f64(0.99 * OWN_SHARE / DELAYS.len() as f64)),
                "{plan:?}"
            );
            assert!(before.is_none_or(|before| plan.resolves.is_some_and(|now| now <= before)), "{ms} {plan:?}");
            before = plan.resolves;
            seen.push(plan.resolves);
        }
        assert!(seen.contains(&Some(100)) && seen.contains(&Some(200)) && seen.first() != seen.last(), "{seen:?}");
    }

    #[test]
    fn what_is_said_to_be_needed_is_enough_and_hardly_more() {
        for off in [10.0, 100.0, 3_000.0] {
            let pilot = pilot(off);
            let round = pilot.needed(&DELAYS, 100, 10).unwrap();
            let resolves = |round| pilot.plan(&DELAYS, 10, round).resolves;
            assert!(resolves(round.mul_f64(1.001)).is_some_and(|delay| delay <= 100), "{off}: {round:?}");
            assert!(resolves(round.mul_f64(0.8)).is_none_or(|delay| delay > 100), "{off}: {round:?}");
        }
        // One round has no interval.
        assert_eq!(pilot(10.0).needed(&DELAYS, 100, 1), None);
        assert_eq!(pilot(10.0).plan(&DELAYS, 1, Duration::from_secs(9)).resolves, None);
    }
}
