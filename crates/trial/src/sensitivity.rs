//! What a metric loses with each exit's length: the slope of the metric over delays that are added on purpose.
//!
//! ```text
//! blocks: sums of the metric by setting ─┐
//! delays, as they were achieved ─────────┴─► stats::DoseSlope ─► SlopeFinding: % of the metric for 100 ns
//! ```
//!
//! *Why a setting's delay is its mean over the whole trial.* What slows a host down now and then makes delays longer, too, as the
//! time of an interrupt within a delay counts. The delays of single turns would be longer where the metric is worse for another
//! reason. The means of the settings have hardly any of that, and none is worse for the order of turns.
//!
//! *When it is certain.* If the interval excludes 0, and half of its length is a quarter of the slope or less; or if the slope for
//! 1 us is certainly smaller than what matters. An interval that excludes 0 and is wider is an answer too, but the trial goes on
//! as long as it has time.

use crate::Better;
use exitscope_stats::DoseSlope;
use std::fmt;

/// Half of the interval's length in parts of the slope, at which a trial ends.
const SHARP: f64 = 0.25;

/// Nanoseconds for which a slope is told.
const TOLD_FOR: f64 = 100.0;

/// Nanoseconds for which a slope is compared with what matters.
const MATTERS_FOR: f64 = 1_000.0;

/// Which metric is the delay that was achieved, and what was measured so far.
#[derive(Clone, Debug)]
pub(crate) struct DelayTrial {
    /// The position of the achieved delay among the metrics.
    pub delay: usize,
    /// The first metric's sums by setting, block by block.
    blocks: Vec<Vec<f64>>,
    alpha: f64,
    better: Better,
    /// The smallest change of the metric for 1 us that matters, in per cent.
    matters: f64,
}

/// What 100 ns less in each exit are worth, in per cent of the metric without delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlopeFinding {
    /// The estimate, above 0 if shorter exits are better; `None` before the first block is whole.
    pub percent: Option<f64>,
    /// Bounds of its interval, which holds at whatever moment one looks; they may be infinite. `None` while nothing is excluded.
    pub interval: Option<(f64, f64)>,
    /// What follows.
    pub ruling: SlopeRuling,
}

/// What is certain of a slope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlopeRuling {
    /// It is not 0.
    Found,
    /// It is smaller than what matters.
    Negligible,
    /// Nothing is certain of it yet.
    Undecided,
    /// Nothing was certain when the trial ended for a reason that more time would not mend.
    NotJudged,
}

impl DelayTrial {
    pub fn new(delay: usize, alpha: f64, better: Better, matters: f64) -> DelayTrial {
        DelayTrial { delay, blocks: Vec::new(), alpha, better, matters }
    }

    /// Takes the first metric's sums of a whole block, by setting.
    pub fn push(&mut self, sums: &[f64]) {
        self.blocks.push(sums.to_vec());
    }

    /// What is found, where the settings' delays are these.
    pub fn finding(&self, delays: &[f64]) -> SlopeFinding {
        let mut slope = DoseSlope::new(self.alpha);
        for sums in &self.blocks {
            let points: Vec<(f64, f64)> = delays.iter().copied().zip(sums.iter().copied()).collect();
            slope.push(&points);
        }
        let scale = |slope: f64| match self.better {
            Better::Lower => slope * TOLD_FOR * 100.0,
            Better::Higher => -slope * TOLD_FOR * 100.0,
        };
        let bounds = |(low, high)| (f64::min(scale(low), scale(high)), f64::max(scale(low), scale(high)));
        let interval = slope.interval().map(bounds);
        SlopeFinding { percent: slope.slope().map(scale), interval, ruling: self.ruling(interval) }
    }

    fn ruling(&self, interval: Option<(f64, f64)>) -> SlopeRuling {
        let most = self.matters * TOLD_FOR / MATTERS_FOR;
        match interval {
            Some((low, high)) if -most < low && high < most => SlopeRuling::Negligible,
            Some((low, high)) if low > 0.0 || high < 0.0 => SlopeRuling::Found,
            _ => SlopeRuling::Undecided,
        }
    }
}

impl SlopeFinding {
    /// What was found of `exit` (`exit to user space`), in words; changes of less than `matters` per cent do not matter.
    pub fn sentence(&self, exit: &str, matters: f64) -> String {
        let is_worse = self.percent.is_some_and(|percent| percent < 0.0);
        let worth = format!("100ns less in each {exit} is worth");
        match self.ruling {
            SlopeRuling::Found if is_worse => {
                format!("{worth} {self} of the metric here: longer exits are better for it")
            }
            SlopeRuling::Found => format!("{worth} {self} of the metric here"),
            SlopeRuling::Negligible => {
                format!("1us less in each {exit} is worth less than {matters}% of the metric here; 100ns {self}")
            }
            SlopeRuling::NotJudged => match self.percent {
                Some(_) => format!("not judged: what {worth} is not certain: {self}"),
                None => format!("not judged: what {worth}"),
            },
            SlopeRuling::Undecided => match self.percent {
                Some(_) => format!("undecided: what {worth} is not certain: {self}"),
                None => format!("undecided: no block of turns was measured, so what {worth} is not known"),
            },
        }
    }

    /// Whether a trial need not go on.
    pub fn is_sharp(&self) -> bool {
        let is_sharp = |(low, high): (f64, f64)| high - low <= 2.0 * SHARP * self.percent.unwrap_or(0.0).abs();
        match self.ruling {
            SlopeRuling::Negligible => true,
            SlopeRuling::Found => self.interval.is_some_and(is_sharp),
            SlopeRuling::Undecided | SlopeRuling::NotJudged => false,
        }
    }
}

/// Per cent with so many decimals that the interval's width shows.
struct Percent(f64, usize);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percent(value, decimals) = *self;
        match value.is_finite() {
            true if value.abs() < 0.5 / 10f64.powi(decimals as i32) => write!(f, "{:.decimals$}%", 0.0),
            true => write!(f, "{value:.decimals$}%"),
            false => f.write_str("no bound"),
        }
    }
}

/// Decimals with which this is at least two digits.
fn decimals(of: f64) -> usize {
    match of.abs() {
        of if of.is_finite() && of > 0.0 => (1.0 - of.log10().floor()).clamp(1.0, 6.0) as usize,
        _ => 2,
    }
}

impl fmt::Display for SlopeFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(percent) = self.percent else { return f.write_str("nothing was measured") };
        match self.interval {
            Some((low, high)) => {
                let digits = decimals(if percent == 0.0 { high - low } else { percent });
                let [percent, low, high] = [percent, low, high].map(|value| Percent(value, digits));
                write!(f, "{percent} ({low} to {high})")
            }
            None => write!(f, "{} (too few blocks for an interval)", Percent(percent, decimals(percent))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AbortLimit, HostTrial, MetricUnit, TrialEnd, TrialLengths, TrialMetric, TrialPlan, TrialRules, TrialVerdict,
    };
    use exitscope_units::Nanos;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Normal};
    use rand_pcg::Pcg64Mcg;

    const DELAYS: [f64; 4] = [0.0, 230.0, 1_020.0, 5_040.0];

    fn trial(better: Better, blocks: u64) -> HostTrial {
        let settings: Vec<String> = DELAYS.iter().map(|delay| format!("delay={delay}ns")).collect();
        let lengths = TrialLengths { settle: Nanos(250), turn: Nanos(750), total: Nanos(blocks * 8_000) };
        let plan = TrialPlan::of_doses(settings, lengths, 0.05, 3).unwrap();
        let metric = |name: &str, unit| TrialMetric { name: name.to_string(), unit, better };
        let metrics = vec![metric("metric", MetricUnit::PerSecond), metric("delay", MetricUnit::Time)];
        let limits = vec![AbortLimit::parse("delay>15us", &metrics).unwrap()];
        HostTrial::of_delays(plan, TrialRules { metrics, matters: 1.0, limits }, 1)
    }

    /// A metric of 500 that changes by this part of it for each nanosecond, and spreads by a part of it; delays spread by 2 %.
    fn run(trial: &mut HostTrial, slope: f64, spread: f64, seed: u64) -> TrialVerdict {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let noise = Normal::new(1.0, spread).unwrap();
        while let Some(turn) = trial.turn() {
            let delay = DELAYS[turn.setting] * Normal::new(1.0, 0.02).unwrap().sample(&mut random);
            let value = 500.0 * (1.0 + slope * delay) * noise.sample(&mut random).max(0.0);
            trial.absorb(&[Some(value), Some(delay)]).unwrap();
        }
        trial.verdict()
    }

    #[test]
    fn what_was_found_is_a_sentence() {
        let of = |percent, interval, ruling| SlopeFinding { percent, interval, ruling };
        let found = of(Some(0.8), Some((0.6, 1.0)), SlopeRuling::Found);
        assert_eq!(
            found.sentence("exit", 1.0),
            "100ns less in each exit is worth 0.80% (0.60% to 1.00%) of the metric here"
        );
        let worse = of(Some(-0.8), Some((-1.0, -0.6)), SlopeRuling::Found);
        assert!(worse.sentence("exit", 1.0).ends_with("longer exits are better for it"));
        let none = of(None, None, SlopeRuling::Undecided).sentence("exit", 1.0);
        assert_eq!(
            none,
            "undecided: no block of turns was measured, so what 100ns less in each exit is worth is not known"
        );
    }

    #[test]
    fn a_planted_slope_is_found_in_per_cent_for_100_ns_whichever_way_the_metric_goes() {
        for (better, slope, worth) in [
            (Better::Higher, -8e-5, 0.8),
            (Better::Lower, 8e-5, 0.8),
            (Better::Higher, 8e-5, -0.8),
            (Better::Lower, -8e-5, -0.8),
        ] {
            let verdict = run(&mut trial(better, 60), slope, 0.01, 5);
            let found = verdict.slope.unwrap();
            let (low, high) = found.interval.unwrap();
            assert!(low < worth && worth < high && high - low < 0.41, "{found}");
            assert_eq!((found.ruling, &verdict.end), (SlopeRuling::Found, &Some(TrialEnd::SlopeCertain)));
            assert!((8..60).contains(&verdict.blocks), "it ends early: {}", verdict.blocks);
            assert_eq!(verdict.keep, None, "a delay is nothing to keep");
        }
    }

    #[test]
    fn a_slope_too_small_to_matter_ends_a_trial_and_noise_does_not() {
        let verdict = run(&mut trial(Better::Higher, 60), 0.0, 0.001, 5);
        assert_eq!(
            (verdict.slope.unwrap().ruling, verdict.end),
            (SlopeRuling::Negligible, Some(TrialEnd::SlopeCertain))
        );
        let verdict = run(&mut trial(Better::Higher, 20), 0.0, 0.3, 5);
        assert_eq!((verdict.slope.unwrap().ruling, verdict.end), (SlopeRuling::Undecided, Some(TrialEnd::TimeOver)));
    }

    #[test]
    fn a_metric_that_never_moves_is_not_one_whose_slope_is_small() {
        let verdict = run(&mut trial(Better::Higher, 20), 0.0, 0.0, 5);
        assert_eq!(verdict.slope.unwrap().ruling, SlopeRuling::NotJudged);
        assert!(matches!(verdict.end, Some(TrialEnd::MetricFailed(_))), "{:?}", verdict.end);
        let why = verdict.not_judged().unwrap();
        assert_eq!(why, "metric was 500 in every turn: whether it would show a change is not known");
    }

    #[test]
    fn no_slope_is_found_where_there_is_none_no_more_often_than_alpha() {
        // A chance of 5 % gives more than 30 of 400 in one of a hundred cases.
        let is_found =
            |seed| run(&mut trial(Better::Lower, 30), 0.0, 0.1, seed).slope.unwrap().ruling == SlopeRuling::Found;
        let found = (0..400).filter(|&seed| is_found(seed)).count();
        assert!(found <= 30, "{found}");
    }

    #[test]
    fn a_turn_that_is_slow_for_another_reason_and_has_longer_delays_is_no_slope() {
        // Each fifth turn is half as good, and its delays are twice as long.
        let mut trial = trial(Better::Higher, 60);
        let mut number = 0;
        while let Some(turn) = trial.turn() {
            number += 1;
            let slow = if number % 5 == 0 { 2.0 } else { 1.0 };
            trial.absorb(&[Some(500.0 / slow), Some(DELAYS[turn.setting] * slow)]).unwrap();
        }
        let found = trial.verdict().slope.unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(low < 0.0 && 0.0 < high, "{found}");
    }

    #[test]
    fn a_limit_of_the_delay_ends_the_trial() {
        let mut trial = trial(Better::Higher, 20);
        let end = trial.absorb(&[Some(500.0), Some(16_000.0)]).unwrap();
        assert!(matches!(end, Some(TrialEnd::Aborted { .. })), "{end:?}");
    }

    #[test]
    fn a_finding_is_printed_with_as_many_digits_as_it_has() {
        let of = |percent, interval| SlopeFinding { percent: Some(percent), interval, ruling: SlopeRuling::Found };
        for (finding, text) in [
            (of(0.8, Some((0.6, 1.01))), "0.80% (0.60% to 1.01%)"),
            (of(12.34, Some((10.0, f64::INFINITY))), "12.3% (10.0% to no bound)"),
            (of(-0.00123, Some((-0.002, -0.0001))), "-0.0012% (-0.0020% to -0.0001%)"),
            (of(0.5, None), "0.50% (too few blocks for an interval)"),
        ] {
            assert_eq!(finding.to_string(), text);
        }
    }
}
