//! A trial while it runs: takes the values of each turn, and decides at the end of each block.

use crate::sensitivity::DelayTrial;
use crate::{
    AbortLimit, Better, CouldFindList, MetricEffect, Prediction, RelativeChange, SettingVerdict, SlopeFinding,
    SlopeRuling, TrialEnd, TrialMetric, TrialPlan, TrialRuling, TrialTurn, TrialVerdict,
};
use exitscope_stats::ConfidenceSequence;
use exitscope_units::Nanos;

/// The largest value that is taken: the sum of any number of them that a trial has is finite.
const LARGEST: f64 = 1e290;

/// By what a trial is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRules {
    /// What is measured in each turn; the first decides, the others are reported.
    pub metrics: Vec<TrialMetric>,
    /// The smallest change of the first metric that matters, in per cent, below 100; with 0 every change does.
    pub matters: f64,
    /// Limits that end the trial at once.
    pub limits: Vec<AbortLimit>,
}

/// A trial while it runs.
#[derive(Clone, Debug)]
pub struct HostTrial {
    plan: TrialPlan,
    rules: TrialRules,
    /// Turns that were absorbed.
    turns: usize,
    /// By metric, what each setting came to in the block that is not whole yet; `None` if a turn had no value.
    block: Vec<Vec<Option<f64>>>,
    /// By metric, the setting in force first.
    totals: Vec<Vec<Total>>,
    /// One for each setting but the one in force.
    settings: Vec<Compared>,
    /// What was predicted, by setting (but the one in force) and metric.
    predictions: Vec<Vec<Option<Prediction>>>,
    /// Of settings that are delays, what their slope is found by; it decides instead of the comparisons.
    delays: Option<DelayTrial>,
    /// The whole blocks, by setting but the one in force.
    blocks: Vec<Vec<BlockChange>>,
    /// The least and the largest value of the first metric.
    range: Option<(f64, f64)>,
    end: Option<TrialEnd>,
    /// How long it took so far, if somebody has looked at a clock.
    took: Option<Nanos>,
}

/// Values of a metric under a setting.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    sum: f64,
    turns: u64,
}

/// A setting beside the one in force.
#[derive(Clone, Debug)]
struct Compared {
    /// By metric, the relative differences of the blocks.
    differences: Vec<ConfidenceSequence>,
    /// By metric, the turns of the blocks that are compared: of the setting in force, and of this one.
    totals: Vec<[Total; 2]>,
    /// What was certain first: an interval that holds at all times holds then.
    decided: Option<Decided>,
}

/// What was certain of a setting after some block.
#[derive(Clone, Copy, Debug)]
struct Decided {
    ruling: TrialRuling,
    /// The differences that it follows from.
    differences: ConfidenceSequence,
    /// The first metric's means then, of the setting in force and of this one.
    means: [Option<f64>; 2],
}

/// What a block found of the first metric under a setting beside the one in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockChange {
    /// The change in this block, in per cent; `None` if one of its turns has no value.
    pub percent: Option<f64>,
    /// The change over all blocks up to this one.
    pub so_far: Option<RelativeChange>,
}

/// Why the values of a turn are not taken.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TurnValuesError {
    /// There is no turn.
    #[error("the trial is over")]
    Over,
    /// Not a value for each metric.
    #[error("{found} values for {metrics} metrics")]
    Count {
        /// Values that came.
        found: usize,
        /// Metrics of the trial.
        metrics: usize,
    },
    /// Nothing of which a change in per cent could be told.
    #[error("{metric} is {value}: a metric is compared in per cent, so its values must be from 0 to {LARGEST:e}")]
    BadValue {
        /// The metric's name.
        metric: String,
        /// What came.
        value: f64,
    },
}

impl HostTrial {
    /// A trial of which nothing is measured yet. `rules` have a metric, and limits on metrics that are there.
    pub fn new(plan: TrialPlan, rules: TrialRules) -> HostTrial {
        assert!(!rules.metrics.is_empty() && rules.limits.iter().all(|limit| limit.metric < rules.metrics.len()));
        assert!((0.0..100.0).contains(&rules.matters), "{} %", rules.matters);
        let (metrics, settings) = (rules.metrics.len(), plan.settings.len());
        let differences = vec![ConfidenceSequence::new(plan.alpha_of_each()); metrics];
        HostTrial {
            turns: 0,
            block: vec![vec![Some(0.0); settings]; metrics],
            totals: vec![vec![Total::default(); settings]; metrics],
            settings: vec![
                Compared { differences, totals: vec![Default::default(); metrics], decided: None };
                settings - 1
            ],
            predictions: vec![vec![None; metrics]; settings - 1],
            delays: None,
            blocks: Vec::new(),
            range: None,
            end: None,
            took: None,
            plan,
            rules,
        }
    }

    /// A trial whose settings are delays of exits. What was achieved of them is the metric of this position, in nanoseconds.
    pub fn of_delays(plan: TrialPlan, rules: TrialRules, delay: usize) -> HostTrial {
        assert!((1..rules.metrics.len()).contains(&delay), "metric {delay}");
        let delays = DelayTrial::new(delay, plan.alpha, rules.metrics[0].better, rules.matters);
        HostTrial { delays: Some(delays), ..HostTrial::new(plan, rules) }
    }

    /// The plan.
    pub fn plan(&self) -> &TrialPlan {
        &self.plan
    }

    /// What it could find of a metric that spreads little, as usual or much; nothing of delays, which have one slope.
    pub fn could_find(&self) -> CouldFindList {
        match self.delays {
            None => self.plan.could_find(self.rules.matters),
            Some(_) => CouldFindList::default(),
        }
    }

    /// What is measured in each turn; the first decides.
    pub fn metrics(&self) -> &[TrialMetric] {
        &self.rules.metrics
    }

    /// What each whole block found, by setting but the one in force.
    pub fn blocks(&self) -> &[Vec<BlockChange>] {
        &self.blocks
    }

    /// The turn that comes next; `None` if the trial is over.
    pub fn turn(&self) -> Option<TrialTurn> {
        match self.end {
            None => self.plan.turn(self.turns),
            Some(_) => None,
        }
    }

    /// Takes what was measured in the turn that came next: one value for each metric, in its unit; `None` if the turn had
    /// nothing to measure, and then this block compares no settings by it that had such a turn. Returns why the trial is over, if
    /// it is.
    pub fn absorb(&mut self, values: &[Option<f64>]) -> Result<Option<&TrialEnd>, TurnValuesError> {
        let turn = self.turn().ok_or(TurnValuesError::Over)?;
        self.check(values)?;
        self.turns += 1;
        for (metric, &value) in values.iter().enumerate() {
            let sum = &mut self.block[metric][turn.setting];
            *sum = sum.zip(value).map(|(sum, value)| sum + value);
            let Some(value) = value else { continue };
            let total = &mut self.totals[metric][turn.setting];
            *total = Total { sum: total.sum + value, turns: total.turns + 1 };
        }
        if let Some(value) = values[0] {
            let (least, most) = self.range.unwrap_or((value, value));
            self.range = Some((least.min(value), most.max(value)));
        }
        let next = self.plan.turn(self.turns);
        let is_whole = next.is_none_or(|next| next.block != turn.block);
        if is_whole {
            self.end_block();
        }
        let is_decided = self.settings.iter().all(|setting| setting.decided.is_some());
        let is_sharp = || is_whole && self.slope().is_some_and(|slope| slope.is_sharp());
        self.end = match (self.passed(values, turn), next) {
            (Some(aborted), _) => Some(aborted),
            _ if is_decided && self.is_constant() => Some(TrialEnd::MetricFailed(self.nothing_measured())),
            _ if is_sharp() => Some(TrialEnd::SlopeCertain),
            _ if is_decided && self.delays.is_none() => Some(TrialEnd::Decided),
            (None, None) => Some(TrialEnd::TimeOver),
            (None, Some(_)) => None,
        };
        Ok(self.end.as_ref())
    }

    /// Takes what a metric was predicted to come to with a setting, as a position in the plan's without the one in force.
    /// What is not measured is not compared.
    pub fn predict(&mut self, setting: usize, metric: &str, prediction: Prediction) {
        let metric = self.rules.metrics.iter().position(|of| of.name == metric);
        if let Some(metric) = metric {
            self.predictions[setting][metric] = Some(prediction);
        }
    }

    /// Notes how long the turns took so far; otherwise it is what the plan says. Where they take longer than planned, the time may be
    /// over after fewer blocks.
    pub fn note_time(&mut self, took: Nanos) {
        self.took = Some(took);
        if self.turns.is_multiple_of(self.plan.turns_of_a_block()) && took >= self.plan.lengths.total {
            self.end.get_or_insert(TrialEnd::TimeOver);
        }
    }

    /// Ends the trial because of something that its metrics do not show.
    pub fn stop(&mut self, why: String) {
        self.end.get_or_insert(TrialEnd::Stopped(why));
    }

    /// Ends the trial because a metric has no value.
    pub fn stop_without_value(&mut self, why: String) {
        self.end.get_or_insert(TrialEnd::MetricFailed(why));
    }

    /// Takes back that the trial ended well: something was wrong already in its last turn.
    pub fn take_back(&mut self, why: String) {
        if self.is_sound() {
            self.end = Some(TrialEnd::Stopped(why));
        }
    }

    /// What is found so far.
    pub fn verdict(&self) -> TrialVerdict {
        let settings: Vec<SettingVerdict> = (0..self.settings.len()).map(|at| self.setting_verdict(at)).collect();
        let estimate = |at: &usize| self.gain(self.judged(*at).mean().unwrap_or(0.0));
        let better = (0..settings.len()).filter(|&at| settings[at].ruling == TrialRuling::Keep);
        let keep = better.max_by(|left, right| estimate(left).total_cmp(&estimate(right)));
        TrialVerdict {
            keep: keep.filter(|_| self.is_sound() && self.delays.is_none()),
            slope: self.slope(),
            end: self.end.clone(),
            blocks: (self.turns / self.plan.turns_of_a_block()) as u64,
            turns: self.turns as u64,
            took: self.took.unwrap_or_else(|| self.planned_time()),
            alpha: self.plan.alpha,
            alpha_of_each: self.plan.alpha_of_each(),
            matters: self.rules.matters,
            in_force: self.plan.settings[0].clone(),
            settings,
        }
    }

    /// What is found of the slope over delays.
    fn slope(&self) -> Option<SlopeFinding> {
        let delays = self.delays.as_ref()?;
        let achieved = self.totals[delays.delay].iter().map(|total| total.sum / total.turns.max(1) as f64);
        let found = delays.finding(&achieved.collect::<Vec<f64>>());
        let is_open = self.is_constant() || found.ruling == SlopeRuling::Undecided;
        Some(match is_open {
            true if self.is_out_of_reach() => SlopeFinding { ruling: SlopeRuling::NotJudged, ..found },
            true => SlopeFinding { ruling: SlopeRuling::Undecided, ..found },
            false => found,
        })
    }

    /// How long the turns so far take by the plan.
    fn planned_time(&self) -> Nanos {
        let last = self.turns.checked_sub(1).and_then(|last| self.plan.turn(last));
        last.map_or(Nanos::ZERO, |turn| turn.until)
    }

    /// Whether the first metric had the same value in all turns: what was measured so far does not show that it can change.
    fn is_constant(&self) -> bool {
        self.range.is_none_or(|(least, most)| least == most)
    }

    fn nothing_measured(&self) -> String {
        let (name, (value, _)) = (&self.rules.metrics[0].name, self.range.unwrap_or_default());
        format!("{name} was {value} in every turn: whether it would show a change is not known")
    }

    /// Whether a setting may be left in force: not if the trial was broken off.
    fn is_sound(&self) -> bool {
        !matches!(self.end, Some(TrialEnd::Aborted { .. } | TrialEnd::MetricFailed(_) | TrialEnd::Stopped(_)))
    }

    /// Whether it ended for a reason that would end it again, however long it may take.
    fn is_out_of_reach(&self) -> bool {
        matches!(self.end, Some(TrialEnd::Aborted { .. } | TrialEnd::MetricFailed(_)))
    }

    fn check(&self, values: &[Option<f64>]) -> Result<(), TurnValuesError> {
        let metrics = &self.rules.metrics;
        if values.len() != metrics.len() {
            return Err(TurnValuesError::Count { found: values.len(), metrics: metrics.len() });
        }
        let bad = |(metric, value): (&TrialMetric, &Option<f64>)| {
            let value = value.filter(|value| !(0.0..=LARGEST).contains(value))?;
            Some(TurnValuesError::BadValue { metric: metric.name.clone(), value })
        };
        metrics.iter().zip(values).find_map(bad).map_or(Ok(()), Err)
    }

    /// The first limit that one of the turn's values is not known to be within.
    fn passed(&self, values: &[Option<f64>], turn: TrialTurn) -> Option<TrialEnd> {
        let setting = self.plan.settings[turn.setting].clone();
        self.rules.limits.iter().find_map(|limit| {
            let TrialMetric { name, unit, .. } = &self.rules.metrics[limit.metric];
            match values[limit.metric] {
                Some(found) if limit.is_passed(found) => {
                    Some(TrialEnd::Aborted { limit: limit.text.clone(), found, unit: *unit, setting: setting.clone() })
                }
                Some(_) => None,
                None => Some(TrialEnd::MetricFailed(format!(
                    "{name} has no value in a turn of {setting}, so whether {} is not known",
                    limit.text
                ))),
            }
        })
    }

    /// Takes the differences of a whole block, and decides what they make certain.
    fn end_block(&mut self) {
        let mut changes = Vec::new();
        let turns = (self.plan.turns_of_a_block() / self.plan.settings.len()) as u64;
        for (at, setting) in self.settings.iter_mut().enumerate() {
            let found = setting.differences.iter_mut().zip(&mut setting.totals);
            for (sums, (differences, totals)) in self.block.iter().zip(found) {
                let (Some(a), Some(b)) = (sums[0], sums[at + 1]) else { continue };
                differences.push(relative_difference(a, b));
                for (total, sum) in totals.iter_mut().zip([a, b]) {
                    *total = Total { sum: total.sum + sum, turns: total.turns + turns };
                }
            }
            let values = self.block[0][0].zip(self.block[0][at + 1]);
            let percent = values.map(|(a, b)| RelativeChange::percent_of(relative_difference(a, b)));
            changes.push(BlockChange { percent, so_far: change(&setting.differences[0]) });
        }
        self.blocks.push(changes);
        let values: Option<Vec<f64>> = self.block[0].iter().copied().collect();
        if let Some((delays, values)) = self.delays.as_mut().zip(values) {
            delays.push(&values);
        }
        self.block.iter_mut().for_each(|sums| sums.fill(Some(0.0)));
        for at in 0..self.settings.len() {
            let differences = self.settings[at].differences[0];
            let ruling = self.certain(&differences);
            let means = self.means(0, at);
            let decided = &mut self.settings[at].decided;
            *decided = decided.or(ruling.map(|ruling| Decided { ruling, differences, means }));
        }
    }

    /// What the differences make certain. A change that is certain and certainly too small to matter does not matter.
    fn certain(&self, differences: &ConfidenceSequence) -> Option<TrialRuling> {
        let [low, high] = [-self.rules.matters, self.rules.matters].map(RelativeChange::difference_of);
        match differences.mean()? {
            _ if differences.is_between(low, high) => Some(TrialRuling::NoDifference),
            mean if differences.excludes_zero() && self.gain(mean) > 0.0 => Some(TrialRuling::Keep),
            _ if differences.excludes_zero() => Some(TrialRuling::Revert),
            _ => None,
        }
    }

    /// A difference of the first metric, above 0 if it is for the better.
    fn gain(&self, difference: f64) -> f64 {
        match self.rules.metrics[0].better {
            Better::Lower => -difference,
            Better::Higher => difference,
        }
    }

    /// The differences by which a setting is judged.
    fn judged(&self, at: usize) -> ConfidenceSequence {
        let Compared { differences, decided, .. } = &self.settings[at];
        decided.map_or(differences[0], |decided| decided.differences)
    }

    /// The means of a metric, of the setting in force and of this other one, over the blocks that are compared; before there is one,
    /// over all turns.
    fn means(&self, metric: usize, at: usize) -> [Option<f64>; 2] {
        let compared = self.settings[at].totals[metric];
        let all = [0, at + 1].map(|setting| self.totals[metric][setting]);
        let totals = if compared[0].turns > 0 { compared } else { all };
        totals.map(|Total { sum, turns }| (turns > 0).then(|| sum / turns as f64))
    }

    fn setting_verdict(&self, at: usize) -> SettingVerdict {
        let Compared { differences, decided, .. } = &self.settings[at];
        let ruling = match decided {
            Some(decided) if !self.is_constant() => decided.ruling,
            _ if self.is_out_of_reach() => TrialRuling::NotJudged,
            _ if self.is_constant() => TrialRuling::Undecided { visible: None, more: None },
            _ => self.undecided(&differences[0]),
        };
        // Of delays the slope decides, over all blocks.
        let frozen = decided.filter(|_| self.delays.is_none());
        let effect = |(of, metric): (usize, &TrialMetric)| {
            let frozen = frozen.filter(|_| of == 0);
            let differences = frozen.map_or(differences[of], |decided| decided.differences);
            let [in_force, with] = frozen.map_or_else(|| self.means(of, at), |decided| decided.means);
            MetricEffect {
                metric: metric.clone(),
                in_force,
                with,
                change: change(&differences),
                predicted: self.predictions[at][of],
            }
        };
        let effects = self.rules.metrics.iter().enumerate().map(effect).collect();
        SettingVerdict { setting: self.plan.settings[at + 1].clone(), ruling, effects }
    }

    /// What would have been certain, and what it takes until something is: that the change is not 0, if the estimate is true, or
    /// that it is too small to matter, whichever is sooner.
    fn undecided(&self, differences: &ConfidenceSequence) -> TrialRuling {
        let off = differences.mean().unwrap_or(0.0).abs();
        let half = off.max(RelativeChange::difference_of(self.rules.matters) - off);
        let more = differences.more_until(half);
        TrialRuling::Undecided {
            visible: differences.half_width().map(RelativeChange::percent_of),
            more: more.map(|blocks| Nanos(self.time_of_a_block().0.saturating_mul(blocks.max(1)))),
        }
    }

    /// How long a block takes, as far as that is known by now.
    fn time_of_a_block(&self) -> Nanos {
        let measured = |took: Nanos| {
            let each = (took.0 as u128 * self.plan.turns_of_a_block() as u128).checked_div(self.turns as u128)?;
            u64::try_from(each).ok().map(Nanos)
        };
        self.took.and_then(measured).unwrap_or_else(|| self.plan.block_length())
    }
}

/// How much larger `b` is than `a`, in parts of their midpoint: from -2 to 2, and 0 if both are 0.
fn relative_difference(a: f64, b: f64) -> f64 {
    let middle = a / 2.0 + b / 2.0;
    if middle > 0.0 { (b - a) / middle } else { 0.0 }
}

fn change(differences: &ConfidenceSequence) -> Option<RelativeChange> {
    let percent = RelativeChange::percent_of(differences.mean()?);
    let in_percent = |(low, high)| (RelativeChange::percent_of(low), RelativeChange::percent_of(high));
    Some(RelativeChange { percent, interval: differences.interval().map(in_percent) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MetricUnit, TrialLengths};

    fn metric(name: &str, better: Better) -> TrialMetric {
        TrialMetric { name: name.to_string(), unit: MetricUnit::Number, better }
    }

    fn plan(settings: usize, blocks: u64) -> TrialPlan {
        let settings: Vec<String> = (0..settings).map(|at| format!("s{at}")).collect();
        let total = Nanos(blocks * 2 * settings.len() as u64 * 1_000);
        let lengths = TrialLengths { settle: Nanos(250), turn: Nanos(750), total };
        TrialPlan::new(settings, lengths, 0.05, 3).unwrap()
    }

    fn trial(settings: usize, better: Better, limits: &[&str]) -> HostTrial {
        let metrics = vec![metric("speed", better), metric("cost", Better::Lower)];
        let limits = limits.iter().map(|text| AbortLimit::parse(text, &metrics).unwrap()).collect();
        HostTrial::new(plan(settings, 20), TrialRules { metrics, matters: 1.0, limits })
    }

    /// Runs it to its end: each turn's value is that of its setting, a little up or down by the turn's number.
    fn run(trial: &mut HostTrial, values: &[f64]) {
        let mut number = 0;
        while let Some(turn) = trial.turn() {
            number += 1;
            let wobble = 1.0 + f64::from(number % 5) / 1_000.0;
            trial.absorb(&[values[turn.setting] * wobble, 7.0].map(Some)).unwrap();
        }
    }

    #[test]
    fn what_is_better_is_kept_and_what_is_worse_reverted_whichever_way_the_metric_goes() {
        for (better, value, ruling, keep) in [
            (Better::Higher, 110.0, TrialRuling::Keep, Some(0)),
            (Better::Higher, 90.0, TrialRuling::Revert, None),
            (Better::Lower, 110.0, TrialRuling::Revert, None),
            (Better::Lower, 90.0, TrialRuling::Keep, Some(0)),
            (Better::Lower, 100.2, TrialRuling::NoDifference, None),
        ] {
            let mut trial = trial(2, better, &[]);
            run(&mut trial, &[100.0, value]);
            let verdict = trial.verdict();
            assert_eq!((verdict.settings[0].ruling, verdict.keep), (ruling, keep), "{better:?} {value}");
            assert_eq!((verdict.end, verdict.blocks), (Some(TrialEnd::Decided), 8), "{better:?} {value}");
            assert_eq!((verdict.turns, verdict.took), (32, Nanos(32_000)));
            let [speed, cost] = &verdict.settings[0].effects[..] else { panic!("two metrics") };
            let (low, high) = speed.change.unwrap().interval.unwrap();
            assert!(low < value - 100.0 && value - 100.0 < high && high - low < 1.0, "{low} to {high}");
            assert_eq!(cost.change, Some(RelativeChange { percent: 0.0, interval: Some((0.0, 0.0)) }));
            assert_eq!((cost.in_force, cost.with), (Some(7.0), Some(7.0)));
        }
    }

    #[test]
    fn a_metric_that_is_0_in_every_turn_judges_nothing() {
        let mut trial = trial(3, Better::Lower, &[]);
        run(&mut trial, &[0.0, 0.0, 0.0]);
        let verdict = trial.verdict();
        assert!(verdict.settings.iter().all(|setting| setting.ruling == TrialRuling::NotJudged), "{verdict}");
        let says = "not judged: speed was 0 in every turn: whether it would show a change is not known\ns1 instead of s0: not judged\n";
        assert!(verdict.to_string().starts_with(says), "{verdict}");
    }

    #[test]
    fn a_metric_that_never_moves_judges_nothing() {
        let mut trial = trial(2, Better::Lower, &[]);
        while trial.turn().is_some() {
            trial.absorb(&[5.5, 7.0].map(Some)).unwrap();
        }
        let verdict = trial.verdict();
        assert_eq!(verdict.settings[0].ruling, TrialRuling::NotJudged);
        let end = verdict.end.unwrap().to_string();
        assert_eq!(end, "stopped: speed was 5.5 in every turn: whether it would show a change is not known");
    }

    #[test]
    fn a_limit_whose_metric_has_no_value_ends_the_trial() {
        let mut trial = trial(2, Better::Lower, &["cost>90"]);
        assert_eq!(trial.absorb(&[1.0, 90.0].map(Some)), Ok(None));
        let setting = trial.turn().unwrap().setting;
        let end = trial.absorb(&[Some(1.0), None]).unwrap().unwrap().to_string();
        assert_eq!(end, format!("stopped: cost has no value in a turn of s{setting}, so whether cost>90 is not known"));
        assert_eq!(trial.turn(), None);
    }

    #[test]
    fn a_metric_that_fails_later_on_leaves_what_was_certain_and_judges_nothing_else() {
        let mut trial = trial(3, Better::Higher, &[]);
        while trial.verdict().settings[0].ruling != TrialRuling::Keep {
            let turn = trial.turn().unwrap();
            let jumps = [100.0, 110.0, 100.0 + 10.0 * (turn.block % 3) as f64];
            trial.absorb(&[jumps[turn.setting], 0.0].map(Some)).unwrap();
        }
        let before = trial.clone();
        trial.stop_without_value("the command printed nothing".to_string());
        let verdict = trial.verdict();
        let rulings = [TrialRuling::Keep, TrialRuling::NotJudged];
        assert_eq!([0, 1].map(|at| verdict.settings[at].ruling), rulings);
        assert!(verdict.to_string().starts_with("not judged: the command printed nothing\ns1 instead"), "{verdict}");
        assert!(verdict.keep.is_none() && !verdict.is_judged() && trial.turn().is_none());
        // What ends it for another reason says how much longer it would take.
        let mut stopped = before;
        stopped.stop("SIGINT came".to_string());
        let verdict = stopped.verdict();
        assert!(matches!(verdict.settings[1].ruling, TrialRuling::Undecided { more: Some(_), .. }), "{verdict}");
        assert_eq!(verdict.not_judged(), None);
    }

    #[test]
    fn an_end_that_was_sound_is_taken_back_and_keeps_nothing() {
        let mut trial = trial(2, Better::Higher, &[]);
        run(&mut trial, &[100.0, 110.0]);
        assert_eq!(trial.verdict().keep, Some(0));
        trial.take_back("somebody has set it".to_string());
        trial.take_back("twice".to_string());
        let verdict = trial.verdict();
        assert!(verdict.keep.is_none() && !verdict.is_judged(), "{verdict}");
        assert_eq!(verdict.end.unwrap().to_string(), "stopped: somebody has set it");
    }

    #[test]
    fn a_trial_whose_turns_take_longer_than_planned_ends_with_the_block_in_which_its_time_is_over() {
        let mut trial = trial(2, Better::Lower, &[]);
        assert_eq!(trial.plan().length(), Nanos(80_000));
        for turn in 1..=8 {
            assert!(trial.turn().is_some(), "turn {turn}");
            trial.absorb(&[Some(100.0 + turn as f64), Some(1.0)]).unwrap();
            // The seventh is the last but one of its block.
            trial.note_time(Nanos(turn * 12_000));
        }
        let verdict = trial.verdict();
        assert_eq!((verdict.end, verdict.blocks, trial.turn()), (Some(TrialEnd::TimeOver), 2, None));
        let TrialRuling::Undecided { more: Some(more), .. } = verdict.settings[0].ruling else {
            panic!("{:?}", verdict.settings)
        };
        assert!(more.0 > 0 && more.0.is_multiple_of(48_000), "{more:?} by blocks as long as they were");
    }

    #[test]
    fn the_means_of_a_setting_are_of_the_moment_when_it_was_certain() {
        let mut trial = trial(3, Better::Lower, &[]);
        let mut number = 0.0;
        while let Some(turn) = trial.turn() {
            number += 1.0;
            // The second setting is soon certain; later on all are slower.
            let base = [100.0, 80.0, 101.0 + number % 7.0 - 3.0][turn.setting];
            let value = base * if turn.block < 13 { 1.0 } else { 3.0 } + number % 3.0 / 10.0;
            trial.absorb(&[Some(value), Some(value)]).unwrap();
        }
        let [first, second] = &trial.verdict().settings[0].effects[..] else { panic!("two metrics") };
        let is_near = |mean: Option<f64>, of: f64| mean.is_some_and(|mean| (mean - of).abs() < 1.0);
        assert!(is_near(first.in_force, 100.0) && is_near(first.with, 80.0), "{first:?}");
        assert!(second.in_force.is_some_and(|mean| mean > 110.0), "what does not decide goes on: {second:?}");
    }

    #[test]
    fn the_means_are_of_the_blocks_that_are_compared() {
        let mut trial = trial(2, Better::Lower, &["speed>900"]);
        // Two blocks; of the first, one turn has no cost; and a third that a limit breaks off.
        let mut number = 0;
        while let Some(turn) = trial.turn() {
            number += 1;
            let speed = match turn.block {
                0 => [10.0, 20.0][turn.setting],
                1 => [100.0, 110.0][turn.setting],
                _ => [500.0, 1000.0][turn.setting],
            };
            trial.absorb(&[Some(speed), (number > 1).then_some(speed)]).unwrap();
        }
        let verdict = trial.verdict();
        let [speed, cost] = &verdict.settings[0].effects[..] else { panic!("two metrics") };
        assert_eq!((verdict.blocks, speed.in_force, speed.with), (2, Some(55.0), Some(65.0)));
        assert_eq!((cost.in_force, cost.with), (Some(100.0), Some(110.0)));
        // Each block counts alike: that of 2/3 as that of 1/10.5.
        let within = RelativeChange::percent_of((2.0 / 3.0 + 2.0 / 21.0) / 2.0);
        assert!((speed.change.unwrap().percent - within).abs() < 1e-9 && (within - 47.06).abs() < 0.01, "{within}");
        assert!((speed.percent_of_means().unwrap() - 18.18).abs() < 0.01);
        let [means, blocks] = [cost.percent_of_means(), cost.change.map(|change| change.percent)].map(Option::unwrap);
        assert!((means - blocks).abs() < 1e-9, "of one block both are the same: {means} {blocks}");
    }

    #[test]
    fn the_largest_value_can_be_compared_and_a_larger_one_is_refused() {
        let mut trial = trial(2, Better::Lower, &[]);
        run(&mut trial, &[LARGEST / 2.0, LARGEST / 2.0]);
        assert_eq!(trial.verdict().settings[0].ruling, TrialRuling::NoDifference);
        let mut trial = self::trial(2, Better::Lower, &[]);
        let error = trial.absorb(&[1.7e308, 7.0].map(Some)).unwrap_err().to_string();
        assert!(error.ends_with("must be from 0 to 1e290"), "{error}");
    }

    #[test]
    fn the_best_of_several_settings_is_kept_and_each_is_judged_by_its_part_of_the_chance() {
        let mut trial = trial(5, Better::Higher, &[]);
        run(&mut trial, &[100.0, 110.0, 100.0, 120.0, 80.0]);
        let verdict = trial.verdict();
        let rulings: Vec<TrialRuling> = verdict.settings.iter().map(|setting| setting.ruling).collect();
        assert_eq!(rulings, [TrialRuling::Keep, TrialRuling::NoDifference, TrialRuling::Keep, TrialRuling::Revert]);
        assert_eq!((verdict.keep, verdict.blocks), (Some(2), 10));
        assert_eq!((verdict.alpha, verdict.alpha_of_each), (0.05, 0.0125));
    }

    #[test]
    fn a_value_beyond_a_limit_ends_the_trial_within_its_block_and_nothing_is_kept() {
        let mut trial = trial(2, Better::Higher, &["cost>8", "speed<50"]);
        assert_eq!(trial.absorb(&[60.0, 8.0].map(Some)), Ok(None));
        let setting = trial.turn().unwrap().setting;
        let end = trial.absorb(&[60.0, 9.0].map(Some)).unwrap().cloned();
        let aborted = TrialEnd::Aborted {
            limit: "cost>8".to_string(),
            found: 9.0,
            unit: MetricUnit::Number,
            setting: format!("s{setting}"),
        };
        assert_eq!((end, trial.turn()), (Some(aborted.clone()), None));
        assert_eq!(trial.absorb(&[60.0, 8.0].map(Some)), Err(TurnValuesError::Over));
        trial.stop("too late".to_string());
        let verdict = trial.verdict();
        let says = format!("not judged: {aborted}\ns1 instead of s0: not judged\n0 blocks in 2.00us: {aborted}\n");
        assert!(verdict.to_string().starts_with(&says), "{verdict}");
        assert_eq!((verdict.end, verdict.blocks, verdict.turns), (Some(aborted), 0, 2));
    }

    #[test]
    fn a_trial_that_was_broken_off_keeps_nothing_even_if_a_setting_was_better() {
        let mut trial = trial(3, Better::Higher, &[]);
        while trial.verdict().settings[0].ruling != TrialRuling::Keep {
            let turn = trial.turn().unwrap();
            // The third setting jumps, so that the trial is not over when the second is decided.
            let jumps = [100.0, 110.0, 100.0 + 10.0 * (turn.block % 3) as f64];
            trial.absorb(&[jumps[turn.setting], 0.0].map(Some)).unwrap();
        }
        assert_eq!(trial.verdict().keep, Some(0));
        trial.stop("halt_poll_ns was changed by somebody else".to_string());
        let verdict = trial.verdict();
        assert_eq!((verdict.keep, trial.turn()), (None, None));
        assert_eq!(verdict.end.unwrap().to_string(), "stopped: halt_poll_ns was changed by somebody else");
    }

    #[test]
    fn without_certainty_the_trial_says_what_it_could_have_seen_and_how_long_it_needs() {
        let mut trial = trial(2, Better::Higher, &[]);
        // Blocks are 10 % up and 10 % down in turn.
        while let Some(turn) = trial.turn() {
            let off = if turn.setting == 0 { 0.0 } else { [10.0, -10.0][turn.block % 2] };
            trial.absorb(&[100.0 + off, 0.0].map(Some)).unwrap();
        }
        let verdict = trial.verdict();
        let TrialRuling::Undecided { visible: Some(visible), more: Some(more) } = verdict.settings[0].ruling else {
            panic!("{verdict}")
        };
        assert_eq!(verdict.end, Some(TrialEnd::TimeOver));
        assert!((7.0..9.0).contains(&visible), "{visible}");
        // Ten times finer than 8 % is more than a hundred times longer than 20 blocks of 4 us.
        assert!((8_000_000..40_000_000).contains(&more.0), "{more}");
        assert_eq!(verdict.keep, None);
    }

    #[test]
    fn a_block_with_a_turn_without_a_value_compares_nothing_by_it() {
        let mut trial = trial(3, Better::Lower, &[]);
        let mut left_out = 0;
        while let Some(turn) = trial.turn() {
            // Of the third block, one of the second setting's turns has no cost, and its other one is far off.
            let is_off = turn.block == 2 && turn.setting == 1;
            let cost = if is_off { 80.0 } else { [10.0, 20.0, 30.0][turn.setting] };
            let speed = 100.0 + [0.0, 5.0, -5.0][(turn.block + turn.setting) % 3];
            let is_left_out = is_off && left_out == 0;
            left_out += usize::from(is_left_out);
            trial.absorb(&[Some(speed), (!is_left_out).then_some(cost)]).unwrap();
        }
        let verdict = trial.verdict();
        let costs = verdict.settings.iter().map(|setting| setting.effects[1].change.unwrap().percent.round());
        assert_eq!((verdict.blocks, left_out, costs.collect::<Vec<_>>()), (20, 1, vec![100.0, 200.0]));
        assert_eq!(verdict.end, Some(TrialEnd::TimeOver));
        // What never has a value is compared by nothing.
        let mut trial = self::trial(2, Better::Lower, &[]);
        while trial.turn().is_some() {
            trial.absorb(&[Some(1.0), None]).unwrap();
        }
        let cost = &trial.verdict().settings[0].effects[1];
        assert_eq!((cost.in_force, cost.with, cost.change), (None, None, None));
    }

    #[test]
    fn a_drift_in_a_straight_line_cancels() {
        let mut trial = trial(2, Better::Higher, &[]);
        let mut number = 0.0;
        while trial.turn().is_some() {
            number += 1.0;
            trial.absorb(&[100.0 + number, 0.0].map(Some)).unwrap();
        }
        let change = trial.verdict().settings[0].effects[0].change.unwrap();
        assert!(change.percent.abs() < 1e-9, "{change}");
        assert_eq!(trial.verdict().settings[0].ruling, TrialRuling::NoDifference);
    }

    #[test]
    fn values_that_cannot_be_compared_are_refused_and_zero_can() {
        let mut trial = trial(2, Better::Higher, &[]);
        assert_eq!(trial.absorb(&[1.0].map(Some)), Err(TurnValuesError::Count { found: 1, metrics: 2 }));
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            let error = trial.absorb(&[1.0, value].map(Some)).unwrap_err().to_string();
            let says = "a metric is compared in per cent, so its values must be from 0 to 1e290";
            assert_eq!(error, format!("cost is {value}: {says}"));
        }
        assert_eq!(trial.verdict().turns, 0);
        run(&mut trial, &[0.0, 3.0]);
        assert_eq!(trial.verdict().settings[0].ruling, TrialRuling::Keep);
        assert_eq!(relative_difference(0.0, 3.0), 2.0);
    }
}
