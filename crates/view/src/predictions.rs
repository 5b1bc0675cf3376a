//! Predictions that were written down before anybody tried them, and what became of them.
//!
//! ```text
//! advise --predictions FILE ─┐
//! sim --predictions FILE ────┴► FiledPrediction ┐
//! try --against FILE ────────┬► PredictionScore ┴► a line of JSON each ─► PredictionTally ─► page, JSON
//! lab run --against FILE ────┘
//! ```
//!
//! A prediction is one of a change: where a trial begins at another value than was recorded, it is carried over to that
//! ([`Prediction::of_in_force`]).

use crate::names::{plural, thousands};
use crate::page::{Page, PageSection, Table, column, plain};
use crate::trial_report::{TrialReport, metric_text, unit_of};
use exitscope_policy::knob;
use exitscope_stats::quantile_of_sorted;
use exitscope_trial::{Prediction, PredictionOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A line of a file of predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum PredictionLine {
    /// What is predicted.
    Prediction(FiledPrediction),
    /// What became of a prediction.
    Score(PredictionScore),
}

/// A line of what `exitscope predictions` counts: of a file of predictions, or of the history of trials.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CountedLine {
    Line(Box<PredictionLine>),
    Trial(Box<TrialReport>),
}

impl PredictionLine {
    /// What a line says: of a trial, what was predicted from a recording directly before, and what it found.
    pub fn read(line: &str) -> serde_json::Result<Vec<PredictionLine>> {
        Ok(match serde_json::from_str(line)? {
            CountedLine::Line(line) => vec![*line],
            CountedLine::Trial(trial) => PredictionScore::of_trial(&trial)
                .into_iter()
                .flat_map(|score| [PredictionLine::Prediction(score.prediction.clone()), PredictionLine::Score(score)])
                .collect(),
        })
    }
}

/// What a figure is predicted to come to with a setting, as it was written down before anybody tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FiledPrediction {
    /// When it was written, as RFC 3339 writes it.
    pub written: String,
    /// The version of exitscope that predicted.
    pub version: String,
    /// The name of the file that it is made from, without its folder: a recording, or a scenario that was simulated.
    pub source: String,
    /// The host that was recorded; of a scenario, the one that is to run it.
    pub host: String,
    /// Of a scenario, the SHA-256 of its text: another file of this name is not what was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_sha256: Option<String>,
    /// The change, as an advice is titled; of a scenario, that it is simulated.
    pub change: String,
    /// The setting, as `NAME=VALUE`, of a scenario also several with blanks; absent of a change that `try` cannot make by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// The figure, under its name in a trial; of a scenario, `VM.throughput`.
    pub metric: String,
    /// `ns`, `percent` (of vCPU time) or `per_second`.
    #[schemars(extend("enum" = ["ns", "percent", "per_second"]))]
    pub unit: Cow<'static, str>,
    /// The figure as it was recorded.
    pub in_force: f64,
    /// The figure with the setting.
    pub with: f64,
    /// The lower bound of what it is predicted to be: of a replay, of its 95 % confidence interval; of a simulation, of what one more
    /// seed would give in 95 %, and 90 % of the gains with assumed numbers drawn.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// What was measured of what was predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionScore {
    /// When it was measured, as RFC 3339 writes it.
    pub scored: String,
    /// The version of exitscope that measured.
    pub version: String,
    /// `try` or `lab run`.
    #[schemars(extend("enum" = ["try", "lab run"]))]
    pub by: Cow<'static, str>,
    /// The prediction.
    pub prediction: FiledPrediction,
    /// The figure before, as it was measured beside the next.
    pub in_force: f64,
    /// The figure with the setting.
    pub with: f64,
    /// The lower bound of the latter's 95 % interval; null where there is none, as is the upper one.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
}

impl FiledPrediction {
    /// Whether it is of this setting, however its value is written.
    pub fn is_of(&self, setting: &str) -> bool {
        self.setting.as_deref().is_some_and(|own| same_setting(own, setting))
    }

    /// What tells it from others: a number may come back from a file as its neighbour.
    fn identity(&self) -> ([&str; 5], String) {
        ([&self.written, &self.source, &self.host, self.what(), &self.metric], format!("{:.6e}", self.with))
    }

    /// What is changed, in few words.
    pub(crate) fn what(&self) -> &str {
        self.setting.as_deref().unwrap_or(&self.change)
    }

    pub(crate) fn text(&self, value: f64) -> String {
        metric_text(&self.unit, value)
    }
}

/// Whether these name the same knob and the same value of it: `50us` is `50000`.
fn same_setting(one: &str, other: &str) -> bool {
    let read = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_string(), knob(name)?.parse(value).ok()?))
    };
    one == other || read(one).is_some_and(|setting| Some(setting) == read(other))
}

impl PredictionScore {
    /// What a trial found of what was predicted before it.
    pub(crate) fn of_trial(trial: &TrialReport) -> Vec<PredictionScore> {
        let mut scores = Vec::new();
        for setting in &trial.verdict.settings {
            for effect in &setting.effects {
                let Some((of, (in_force, with))) = effect.predicted.as_ref().zip(effect.in_force.zip(effect.with))
                else {
                    continue;
                };
                let (low, high) = effect.bounds();
                let prediction = FiledPrediction {
                    written: trial.began.clone(),
                    version: String::new(),
                    source: "recorded before the trial".to_string(),
                    host: trial.host.clone(),
                    scenario_sha256: None,
                    change: "tried".to_string(),
                    setting: Some(setting.setting.clone()),
                    metric: effect.metric.clone(),
                    unit: effect.unit.clone(),
                    in_force: of.in_force,
                    with: of.with,
                    low: of.low,
                    high: of.high,
                };
                let (scored, version, by) = (trial.began.clone(), String::new(), "try".into());
                scores.push(PredictionScore { scored, version, by, prediction, in_force, with, low, high });
            }
        }
        scores
    }

    /// What was predicted, of what was in force when it was tried.
    pub(crate) fn predicted(&self) -> Prediction {
        let FiledPrediction { in_force, with, low, high, .. } = self.prediction;
        Prediction { in_force, with, interval: (low, high) }.of_in_force(self.in_force, unit_of(&self.prediction.unit))
    }

    /// What became of it.
    pub(crate) fn outcome(&self) -> PredictionOutcome {
        self.predicted().outcome(self.with, (self.low, self.high))
    }

    /// Which way the figure certainly went: 1 up, -1 down; `None` where that is not certain.
    fn went(&self) -> Option<i8> {
        match (self.low, self.high) {
            (Some(low), _) if low > self.in_force => Some(1),
            (_, Some(high)) if high < self.in_force => Some(-1),
            _ => None,
        }
    }

    /// Whether the figure went the way that was predicted; `None` where it is not certain which way it went, or no way was predicted.
    pub fn is_right_way(&self) -> Option<bool> {
        let (low, high) = self.predicted().interval;
        let foreseen = match self.in_force {
            now if low > now => 1,
            now if high < now => -1,
            _ => return None,
        };
        self.went().map(|went| went == foreseen)
    }

    /// How far the predicted change is from the measured one, in per cent of the latter; `None` where no change is certain.
    pub fn size_error(&self) -> Option<f64> {
        let (predicted, measured) = (self.predicted().with - self.in_force, self.with - self.in_force);
        self.went().filter(|_| measured != 0.0).map(|_| (predicted - measured).abs() * 100.0 / measured.abs())
    }

    /// What was predicted and measured, in a sentence.
    pub fn sentence(&self) -> String {
        let of = &self.prediction;
        let Prediction { with, interval: (low, high), .. } = self.predicted();
        let [now, with, low, high, then] = [self.in_force, with, low, high, self.with].map(|value| of.text(value));
        format!("{}: {now} to {then}, predicted {with} ({low} to {high}): {}", of.metric, self.outcome())
    }
}

/// How good predictions were that were tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PredictionTally {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// Number of predictions.
    pub predictions: u64,
    /// Number of those that nobody has tried.
    pub untried: u64,
    /// Number of figures that were measured of them; a prediction that was tried twice has two.
    pub scores: u64,
    /// Number of scores within the predicted bounds.
    pub within: u64,
    /// Number of scores that are certainly beyond them.
    pub missed: u64,
    /// Number of scores in which the figure certainly went the way that was predicted.
    pub right_way: u64,
    /// Number of scores in which it certainly went the other way.
    pub wrong_way: u64,
    /// Number of scores in which something certainly changed.
    pub changed: u64,
    /// Number of these of which the predicted change is within 25 % of the measured one.
    pub near: u64,
    /// The median error of the predicted change, in per cent of the measured one, of those in which something certainly changed;
    /// null where nothing did.
    pub median_error_percent: Option<f64>,
    /// The scores, in the order of the files.
    pub scored: Vec<PredictionScore>,
}

/// A predicted change is near if it is within so many per cent of the measured one.
const NEAR: f64 = 25.0;

impl PredictionTally {
    /// Its layout.
    pub const SCHEMA: &'static str = "exitscope.predictions/1";

    /// Counts lines.
    pub fn of(lines: Vec<PredictionLine>) -> PredictionTally {
        let mut tally = PredictionTally { schema: PredictionTally::SCHEMA, ..PredictionTally::default() };
        let mut filed = Vec::new();
        // A file that is given twice, or a copied line, is no other prediction.
        let mut seen = BTreeSet::new();
        for line in lines.into_iter().filter(|line| seen.insert(serde_json::to_string(line).ok())) {
            match line {
                PredictionLine::Prediction(prediction) => filed.push(prediction),
                PredictionLine::Score(score) => tally.scored.push(score),
            }
        }
        let count =
            |is: &dyn Fn(&PredictionScore) -> bool| tally.scored.iter().filter(|score| is(score)).count() as u64;
        let within = count(&|score| score.outcome() == PredictionOutcome::Held);
        let missed = count(&|score| matches!(score.outcome(), PredictionOutcome::More | PredictionOutcome::Less));
        let [right, wrong] = [true, false].map(|way| count(&|score| score.is_right_way() == Some(way)));
        let mut errors: Vec<f64> = tally.scored.iter().filter_map(PredictionScore::size_error).collect();
        errors.sort_by(f64::total_cmp);
        let tried: BTreeSet<_> = tally.scored.iter().map(|score| score.prediction.identity()).collect();
        let untried = filed.iter().filter(|of| !tried.contains(&of.identity())).count() as u64;
        PredictionTally {
            predictions: filed.len() as u64,
            untried,
            scores: tally.scored.len() as u64,
            within,
            missed,
            right_way: right,
            wrong_way: wrong,
            changed: errors.len() as u64,
            near: errors.iter().filter(|error| **error <= NEAR).count() as u64,
            median_error_percent: quantile_of_sorted(&errors, 5_000),
            ..tally
        }
    }

    /// All figures in a sentence.
    pub fn sentence(&self) -> String {
        let PredictionTally {
            predictions, untried, scores, within, missed, right_way, wrong_way, changed, near, ..
        } = self;
        let tried = predictions - untried;
        let mut text =
            format!("{} {}, {tried} of them tried", thousands(*predictions), plural(*predictions, "prediction"));
        if *scores == 0 {
            return text + ".";
        }
        text += &format!(
            ": {within} of {scores} {} within the predicted bounds, {missed} certainly beyond; {right_way} certainly went the predicted \
             way, {wrong_way} the other",
            if *scores == 1 { "figure is" } else { "figures are" },
        );
        if let Some(error) = self.median_error_percent {
            text += &format!(
                "; of {changed} that certainly changed, {near} did by what was predicted within {NEAR:.0} % (median error {error:.0} %)"
            );
        }
        text + "."
    }
}

/// A tally as a page.
pub fn predictions_page(tally: &PredictionTally) -> Page {
    let columns = vec![
        column("scored", true, 3),
        column("by", true, 3),
        column("setting", true, 0),
        column("metric", true, 0),
        column("before", false, 1),
        column("predicted", false, 0),
        column("bounds", true, 2),
        column("measured", false, 0),
        column("prediction", true, 0),
        column("error of the change", false, 1),
    ];
    let row = |score: &PredictionScore| {
        let of = &score.prediction;
        let Prediction { with, interval: (low, high), .. } = score.predicted();
        vec![
            score.scored.clone(),
            score.by.to_string(),
            of.what().to_string(),
            of.metric.clone(),
            of.text(score.in_force),
            of.text(with),
            format!("{} to {}", of.text(low), of.text(high)),
            of.text(score.with),
            score.outcome().to_string(),
            score.size_error().map_or("-".to_string(), |error| format!("{error:.0}%")),
        ]
    };
    let rows: Vec<Vec<String>> = tally.scored.iter().map(row).collect();
    let table = (!rows.is_empty()).then_some(Table { columns, rows });
    let title = "Predicted and measured".to_string();
    Page {
        sections: vec![PageSection {
            title,
            sentences: vec![plain(tally.sentence())],
            table,
            ..PageSection::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(in_force: f64, with: f64, low: f64, high: f64) -> FiledPrediction {
        FiledPrediction {
            written: "2026-11-29T08:00:00Z".into(),
            version: "0.2.0".into(),
            source: "a.data".into(),
            host: "vm".into(),
            scenario_sha256: None,
            change: "Poll for longer".into(),
            setting: Some("halt_poll_ns=50us".into()),
            metric: "polling".into(),
            unit: "percent".into(),
            in_force,
            with,
            low,
            high,
        }
    }

    fn score(of: FiledPrediction, in_force: f64, with: f64, low: f64, high: f64) -> PredictionScore {
        let (scored, version) = ("2026-11-29T09:00:00Z".into(), "0.2.0".into());
        PredictionScore {
            scored,
            version,
            by: "try".into(),
            prediction: of,
            in_force,
            with,
            low: Some(low),
            high: Some(high),
        }
    }

    #[test]
    fn a_prediction_is_of_a_change_and_held_by_both_intervals() {
        let half = || prediction(10.0, 5.0, 4.0, 6.0);
        for (in_force, (with, low, high), outcome, way) in [
            (10.0, (5.5, 5.0, 6.0), "held", Some(true)),
            // Twice as much is polled when it is tried.
            (20.0, (10.0, 9.0, 11.0), "held", Some(true)),
            (20.0, (5.0, 4.0, 6.0), "missed: less was measured", Some(true)),
            (10.0, (7.0, 5.5, 8.0), "open: perhaps more", Some(true)),
            (10.0, (12.0, 11.0, 13.0), "missed: more was measured", Some(false)),
            (10.0, (9.0, 7.0, 11.0), "missed: more was measured", None),
        ] {
            let score = score(half(), in_force, with, low, high);
            assert_eq!(
                (score.outcome().to_string().as_str(), score.is_right_way()),
                (outcome, way),
                "{in_force}, {with}"
            );
        }
        // Hardly anything polled when it was recorded, and when it is tried ten times that.
        let from_little = score(prediction(0.1, 5.0, 4.0, 6.0), 1.0, 6.0, 5.0, 7.0);
        assert_eq!(from_little.outcome(), PredictionOutcome::Held);
        // Where no way is predicted, none is wrong.
        let either_way = score(prediction(10.0, 10.5, 9.0, 12.0), 10.0, 13.0, 12.5, 14.0);
        assert_eq!((either_way.is_right_way(), either_way.outcome()), (None, PredictionOutcome::More));
    }

    #[test]
    fn values_are_the_same_however_they_are_written() {
        for (one, other, is) in [
            ("halt_poll_ns=50us", "halt_poll_ns=50000", true),
            ("halt_poll_ns=50us", "halt_poll_ns=50", false),
            ("halt_poll_ns=0", "guest_halt_poll_ns=0", false),
            ("no_knob=0", "no_knob=0", true),
        ] {
            assert_eq!(same_setting(one, other), is, "{one} {other}");
        }
    }

    #[test]
    fn a_tally_counts_what_was_tried() {
        let (tried, untried) = (prediction(10.0, 5.0, 4.0, 6.0), prediction(10.0, 8.0, 7.0, 9.0));
        let mut lines: Vec<PredictionLine> =
            [&tried, &untried].map(|of| PredictionLine::Prediction(of.clone())).to_vec();
        assert_eq!(PredictionTally::of(lines.clone()).sentence(), "2 predictions, 0 of them tried.");
        lines.push(PredictionLine::Score(score(tried.clone(), 10.0, 5.5, 5.0, 6.0)));
        lines.push(PredictionLine::Score(score(tried, 10.0, 12.0, 11.0, 13.0)));
        let text = serde_json::to_string(&lines).unwrap();
        let tally = PredictionTally::of(serde_json::from_str(&text).unwrap());
        assert_eq!(
            tally.sentence(),
            "2 predictions, 1 of them tried: 1 of 2 figures are within the predicted bounds, 1 certainly beyond; 1 certainly went the \
             predicted way, 1 the other; of 2 that certainly changed, 1 did by what was predicted within 25 % (median error 11 %)."
        );
    }
}
