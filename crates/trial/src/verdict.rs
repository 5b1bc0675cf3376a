//! What a trial found, as plain data, and as text.

use crate::{MetricUnit, Prediction, PredictionOutcome, SlopeFinding, SlopeRuling, TrialMetric};
use exitscope_units::Nanos;
use std::fmt;

/// What a trial found so far.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialVerdict {
    /// Why the trial is over; `None` while it is not.
    pub end: Option<TrialEnd>,
    /// Whole blocks that were measured.
    pub blocks: u64,
    /// Turns that were measured, those of a block that was not completed included.
    pub turns: u64,
    /// How long they took, with settling.
    pub took: Nanos,
    /// The chance of a false alarm in the whole trial.
    pub alpha: f64,
    /// The chance that each of the settings' intervals ever leaves out the true change.
    pub alpha_of_each: f64,
    /// The smallest change that matters, in per cent of the value in force.
    pub matters: f64,
    /// The setting that was in force.
    pub in_force: String,
    /// The other settings, in the plan's order.
    pub settings: Vec<SettingVerdict>,
    /// The setting to leave in force, as a position in `settings`: of those that are certainly better, the one with the best
    /// estimate; `None` to revert.
    pub keep: Option<usize>,
    /// Of settings that are delays of exits: what shorter exits are worth.
    pub slope: Option<SlopeFinding>,
}

/// Why a trial is over.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialEnd {
    /// There is nothing left that is not certain.
    Decided,
    /// The slope over delays is as certain as it has to be.
    SlopeCertain,
    /// All blocks of the plan were measured, or as many as there was time for.
    TimeOver,
    /// A value was beyond a limit.
    Aborted {
        /// The limit as it was written.
        limit: String,
        /// The value, in the metric's unit.
        found: f64,
        /// The metric's unit.
        unit: MetricUnit,
        /// The setting whose turn it was.
        setting: String,
    },
    /// A metric has no value, or none by which a change could be told, for this reason.
    MetricFailed(String),
    /// Whoever runs the trial ended it, for this reason.
    Stopped(String),
}

/// What was found of a setting, compared with the one in force.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingVerdict {
    /// The setting.
    pub setting: String,
    /// What follows from the first metric.
    pub ruling: TrialRuling,
    /// What each metric came to, the one that decides first. If that one was certain before the trial was over, its figures
    /// are those of the moment when it was.
    pub effects: Vec<MetricEffect>,
}

/// What to do about a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialRuling {
    /// It is certainly better than the one in force.
    Keep,
    /// It is certainly worse.
    Revert,
    /// The change is certainly smaller than what matters.
    NoDifference,
    /// The trial ended before anything was certain, for a reason that more time would not mend: a metric without a value, a limit.
    NotJudged,
    /// Nothing is certain.
    Undecided {
        /// The smallest change that would have been certain by now, in per cent; `None` if no change would have been.
        visible: Option<f64>,
        /// How much longer it takes until something is certain, if all goes on as before; `None` if nobody knows.
        more: Option<Nanos>,
    },
}

/// What a metric came to under a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricEffect {
    /// The metric.
    pub metric: TrialMetric,
    /// Mean of the turns of the setting in force, in the metric's unit; `None` of none. The turns are those of the blocks that
    /// `change` is of; before there is one, all.
    pub in_force: Option<f64>,
    /// Mean of the turns of this setting, in the metric's unit; `None` of none.
    pub with: Option<f64>,
    /// The change within blocks; `None` before the first block is whole. Each block counts alike, whatever its level: it is not
    /// the change from the one mean to the other, in which blocks with high values weigh more.
    pub change: Option<RelativeChange>,
    /// What was predicted before the trial, if anything was.
    pub predicted: Option<Prediction>,
}

/// A change in per cent of the value in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelativeChange {
    /// The estimate.
    pub percent: f64,
    /// Bounds of the interval, which holds at whatever moment one looks; the upper one may be infinite. `None` while nothing is
    /// excluded.
    pub interval: Option<(f64, f64)>,
}

impl TrialVerdict {
    /// Whether the trial has an answer: for each value, or of delays for the slope.
    pub fn is_judged(&self) -> bool {
        let is_whole = matches!(self.end, Some(TrialEnd::Decided | TrialEnd::SlopeCertain | TrialEnd::TimeOver));
        let is_undecided =
            |setting: &SettingVerdict| matches!(setting.ruling, TrialRuling::Undecided { .. } | TrialRuling::NotJudged);
        is_whole
            && match &self.slope {
                Some(slope) => !matches!(slope.ruling, SlopeRuling::Undecided | SlopeRuling::NotJudged),
                None => !self.settings.iter().any(is_undecided),
            }
    }

    /// Why something is not judged, where more time would not have helped.
    pub fn not_judged(&self) -> Option<String> {
        let is_not = match &self.slope {
            Some(slope) => slope.ruling == SlopeRuling::NotJudged,
            None => self.settings.iter().any(|setting| setting.ruling == TrialRuling::NotJudged),
        };
        self.end.as_ref().filter(|_| is_not).map(|end| match end {
            TrialEnd::MetricFailed(why) => why.clone(),
            end => end.to_string(),
        })
    }
}

/// The bounds of the mean with a setting: the mean with what is in force, changed by the bounds of the change within blocks, in per
/// cent; each `None` of none, or where what is in force is 0.
pub fn bounds_of_mean(in_force: Option<f64>, (low, high): (Option<f64>, Option<f64>)) -> (Option<f64>, Option<f64>) {
    let of = |percent: Option<f64>| Some(in_force.filter(|value| *value > 0.0)? * (1.0 + percent? / 100.0));
    (of(low), of(high))
}

impl MetricEffect {
    /// The change from the one mean to the other, in per cent of that in force; `None` if one is missing, or that is 0.
    pub fn percent_of_means(&self) -> Option<f64> {
        let (in_force, with) = self.in_force.zip(self.with)?;
        (in_force > 0.0).then(|| (with / in_force - 1.0) * 100.0)
    }

    /// The interval of the mean with this setting ([`bounds_of_mean`]).
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        bounds_of_mean(self.in_force, self.change.and_then(|change| change.interval).unzip())
    }

    /// The prediction, of the value in force as it was measured, and what became of it; `None` if nothing was predicted or measured.
    pub fn foreseen(&self) -> Option<(Prediction, PredictionOutcome)> {
        let (in_force, with) = self.in_force.zip(self.with)?;
        let prediction = self.predicted?.of_in_force(in_force, self.metric.unit);
        Some((prediction, prediction.outcome(with, self.bounds())))
    }
}

impl RelativeChange {
    /// A relative difference 2 (b - a) / (a + b) in per cent of a: -100 at -2, infinite at 2.
    pub fn percent_of(difference: f64) -> f64 {
        let difference = difference.max(-2.0);
        if difference < 2.0 { 200.0 * difference / (2.0 - difference) } else { f64::INFINITY }
    }

    /// The relative difference of a change in per cent of a.
    pub fn difference_of(percent: f64) -> f64 {
        2.0 * percent / (200.0 + percent)
    }
}

impl fmt::Display for RelativeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interval {
            Some((low, high)) => write!(f, "{} ({} to {})", Signed(self.percent), Signed(low), Signed(high)),
            None => write!(f, "{} (too few blocks for an interval)", Signed(self.percent)),
        }
    }
}

/// A per cent figure with its sign; no sign of what is printed as 0.
struct Signed(f64);

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            percent if percent.abs() < 0.005 => f.write_str("0.00%"),
            percent if percent.is_finite() => write!(f, "{percent:+.2}%"),
            _ => f.write_str("no bound"),
        }
    }
}

impl fmt::Display for TrialEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialEnd::Decided => f.write_str("every comparison is certain"),
            TrialEnd::SlopeCertain => f.write_str("the slope is certain"),
            TrialEnd::TimeOver => f.write_str("the time is over"),
            TrialEnd::Aborted { limit, found, unit, setting } => {
                write!(f, "aborted by {limit}: found {} with {setting}", unit.text(*found))
            }
            TrialEnd::MetricFailed(why) | TrialEnd::Stopped(why) => write!(f, "stopped: {why}"),
        }
    }
}

impl fmt::Display for TrialRuling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialRuling::Keep => f.write_str("better: keep"),
            TrialRuling::Revert => f.write_str("worse: revert"),
            TrialRuling::NoDifference => f.write_str("no difference that matters"),
            TrialRuling::NotJudged => f.write_str("not judged"),
            TrialRuling::Undecided { visible, more } => {
                f.write_str("undecided: ")?;
                match visible {
                    Some(percent) if percent.is_finite() => {
                        write!(f, "changes from {percent:.2}% on would be certain")?
                    }
                    _ => f.write_str("no change would be certain yet")?,
                }
                match more {
                    Some(more) => write!(f, "; about {more} more are needed at this spread"),
                    None => f.write_str("; how much longer is needed is not known"),
                }
            }
        }
    }
}

/// Lines of a verdict: the means with their change, the change within blocks, which is what decides, and what became of a
/// prediction.
impl fmt::Display for MetricEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: f64| self.metric.unit.text(value).to_string();
        let mean = |value: Option<f64>| value.map_or("-".to_string(), text);
        write!(f, "  {}: means {} to {}", self.metric.name, mean(self.in_force), mean(self.with))?;
        if let Some(percent) = self.percent_of_means() {
            write!(f, ", {}", Signed(percent))?;
        }
        if let Some(change) = self.change {
            write!(f, "; within blocks {change}")?;
        }
        writeln!(f)?;
        if let Some(((foreseen, outcome), recorded)) = self.foreseen().zip(self.predicted) {
            let (low, high) = foreseen.interval;
            let [with, low, high] = [foreseen.with, low, high].map(text);
            let (was, then) = (text(recorded.in_force), text(recorded.with));
            writeln!(f, "    predicted {with} ({low} to {high}; as recorded {was} to {then}): {outcome}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TrialVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.not_judged() {
            writeln!(f, "not judged: {why}")?;
        }
        for setting in &self.settings {
            writeln!(f, "{} instead of {}: {}", setting.setting, self.in_force, setting.ruling)?;
            let is_shown = |effect: &&MetricEffect| setting.ruling != TrialRuling::NotJudged || effect.change.is_some();
            setting.effects.iter().filter(is_shown).try_for_each(|effect| write!(f, "{effect}"))?;
        }
        write!(f, "{} blocks in {}: ", self.blocks, self.took)?;
        match &self.end {
            // Its cause is above.
            Some(TrialEnd::MetricFailed(_)) => writeln!(f, "the metric failed")?,
            Some(end) => writeln!(f, "{end}")?,
            None => return writeln!(f, "the trial is not over"),
        }
        match self.keep {
            Some(keep) => writeln!(f, "keep {}", self.settings[keep].setting),
            None => writeln!(f, "revert to {}", self.in_force),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Better;

    #[test]
    fn a_relative_difference_is_turned_into_per_cent_and_back() {
        for (a, b, percent) in [(2.0, 3.0, 50.0), (3.0, 2.0, -100.0 / 3.0), (1.0, 1.0, 0.0), (4.0, 0.0, -100.0)] {
            let difference: f64 = 2.0 * (b - a) / (a + b);
            assert!((RelativeChange::percent_of(difference) - percent).abs() < 1e-9);
            assert!((RelativeChange::difference_of(percent) - difference).abs() < 1e-12);
        }
        assert_eq!((RelativeChange::percent_of(2.0), RelativeChange::percent_of(-9.0)), (f64::INFINITY, -100.0));
    }

    #[test]
    fn a_prediction_is_judged_by_what_is_certain_of_the_mean() {
        // 100 to 120, within blocks between 110 and 130; predicted of 50 that it would double.
        let effect = |in_force, interval, high| {
            let metric = TrialMetric { name: "exits".to_string(), unit: MetricUnit::PerSecond, better: Better::Lower };
            let change = Some(RelativeChange { percent: 20.0, interval });
            let predicted = Some(Prediction { in_force: 50.0, with: 40.0, interval: (39.0, high) });
            MetricEffect { metric, in_force: Some(in_force), with: Some(120.0), change, predicted }
        };
        let outcome = |in_force, interval, high| {
            let (foreseen, outcome) = effect(in_force, interval, high).foreseen().unwrap();
            (foreseen.with, foreseen.interval, outcome)
        };
        let measured = Some((10.0, 30.0));
        assert_eq!(outcome(100.0, measured, 54.0), (80.0, (78.0, 108.0), PredictionOutcome::More));
        assert_eq!(outcome(100.0, measured, 56.0), (80.0, (78.0, 112.0), PredictionOutcome::PerhapsMore));
        assert_eq!(effect(100.0, measured, 54.0).bounds(), (Some(110.00000000000001), Some(130.0)));
        // Too few blocks; of a value in force that is 0 there is no change in per cent.
        assert_eq!(outcome(100.0, None, 54.0).2, PredictionOutcome::PerhapsMore);
        assert_eq!(effect(0.0, measured, 54.0).bounds(), (None, None));
        assert_eq!(outcome(0.0, Some((1e9, f64::INFINITY)), 54.0).2, PredictionOutcome::PerhapsMore);
        assert_eq!(MetricEffect { with: None, ..effect(100.0, measured, 54.0) }.foreseen(), None);
    }

    #[test]
    fn a_verdict_names_the_change_its_interval_and_what_to_do() {
        let effect = |percent, interval| MetricEffect {
            metric: TrialMetric { name: "p99".to_string(), unit: MetricUnit::Time, better: Better::Lower },
            in_force: Some(5e4),
            with: Some(4.5e4),
            change: Some(RelativeChange { percent, interval }),
            predicted: None,
        };
        let of = |setting: &str, ruling, effect| SettingVerdict {
            setting: setting.to_string(),
            ruling,
            effects: vec![effect],
        };
        let undecided = TrialRuling::Undecided { visible: Some(3.0), more: Some(Nanos(90_000_000_000)) };
        let verdict = TrialVerdict {
            end: Some(TrialEnd::TimeOver),
            blocks: 25,
            turns: 150,
            took: Nanos(600_000_000_000),
            alpha: 0.05,
            alpha_of_each: 0.025,
            matters: 1.0,
            in_force: "200000".to_string(),
            settings: vec![
                of("0", TrialRuling::Keep, effect(-10.4, Some((-12.0, -7.96)))),
                of("50000", undecided, effect(-0.001, Some((-3.0, f64::INFINITY)))),
            ],
            keep: Some(0),
            slope: None,
        };
        assert_eq!(
            verdict.to_string(),
            "0 instead of 200000: better: keep\n  p99: means 50.0us to 45.0us, -10.00%; within blocks -10.40% (-12.00% to -7.96%)\n\
             50000 instead of 200000: undecided: changes from 3.00% on would be certain; \
             about 90.0s more are needed at this spread\n  p99: means 50.0us to 45.0us, -10.00%; within blocks 0.00% (-3.00% to no bound)\n\
             25 blocks in 600s: the time is over\nkeep 0\n"
        );
        let mut foreseen = verdict.clone();
        foreseen.settings[0].effects[0].predicted =
            Some(Prediction { in_force: 5.1e4, with: 4.4e4, interval: (4.2e4, 4.6e4) });
        let said = foreseen.to_string();
        assert!(
            said.contains(
                "(-12.00% to -7.96%)\n    predicted 43.1us (41.2us to 45.1us; as recorded 51.0us to 44.0us): held\n"
            ),
            "{said}"
        );
        let mut failed = verdict.clone();
        failed.end = Some(TrialEnd::MetricFailed("the metric's command printed \"12 ms\"".to_string()));
        failed.settings[1].ruling = TrialRuling::NotJudged;
        failed.settings[1].effects[0].change = None;
        failed.keep = None;
        assert_eq!(
            failed.to_string(),
            "not judged: the metric's command printed \"12 ms\"\n\
             0 instead of 200000: better: keep\n  p99: means 50.0us to 45.0us, -10.00%; within blocks -10.40% (-12.00% to -7.96%)\n\
             50000 instead of 200000: not judged\n25 blocks in 600s: the metric failed\nrevert to 200000\n"
        );
        let running = TrialVerdict { end: None, ..verdict };
        assert!(running.to_string().ends_with("\n25 blocks in 600s: the trial is not over\n"));
        let aborted = TrialEnd::Aborted {
            limit: "p99>5ms".to_string(),
            found: 6e6,
            unit: MetricUnit::Time,
            setting: "0".to_string(),
        };
        assert_eq!(aborted.to_string(), "aborted by p99>5ms: found 6.00ms with 0");
    }
}
