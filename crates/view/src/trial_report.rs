//! A trial of settings on the running host as plain data.

use crate::page::{Page, PageSection, Table, column};
use crate::trial_sensitivity::SensitivityRow;
use exitscope_trial::{
    Better, BlockChange, HostTrial, MetricUnit, Prediction, PredictionOutcome, RelativeChange, SettingVerdict,
    TrialEnd, TrialRuling, TrialVerdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What a trial found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: Cow<'static, str>,
    /// When the trial began, as RFC 3339 writes it; empty of a dry run.
    pub began: String,
    /// The name of the host.
    pub host: String,
    /// The files or threads that were set.
    pub places: Vec<String>,
    /// What the first metric is, in words; empty of trials of earlier versions.
    #[serde(default)]
    pub decided_by: String,
    /// The plan of the trial.
    pub plan: TrialPlanRow,
    /// What was found; of a dry run, that nothing was measured.
    pub verdict: TrialVerdictRow,
    /// What each whole block found; of more than 500, some at the same distance and the last. Empty of trials of earlier
    /// versions.
    #[serde(default)]
    pub blocks: Vec<TrialBlockRow>,
    /// What was recorded before the trial to predict from; absent where nothing is predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_from: Option<PredictedFromRow>,
    /// Exits by reason, those that cost most first; empty where they were not counted.
    pub causes: Vec<TrialCauseRow>,
    /// How the settings were left; absent of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<TrialLeftRow>,
    /// Of a trial of delays, what shorter exits are worth; absent of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<SensitivityRow>,
}

/// What a trial was to do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialPlanRow {
    /// The settings that were compared; the first was in force.
    pub settings: Vec<String>,
    /// Time between setting and measuring.
    pub settle_ns: u64,
    /// Time that is measured of each turn.
    pub turn_ns: u64,
    /// How long all turns take together, with settling.
    pub length_ns: u64,
    /// The chance of any false alarm, at most.
    pub alpha: f64,
    /// What the order was drawn with.
    pub seed: u64,
    /// The turns of each block, as positions in `settings`.
    pub blocks: Vec<Vec<usize>>,
    /// What the trial could find of a metric that spreads little, as usual or much; absent of a trial of delays, and of trials of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_find: Vec<CouldFindRow>,
}

/// The smallest change that is found in 80 of 100 trials that use all of their blocks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CouldFindRow {
    /// What turns of one setting differ by, each by itself: the standard deviation, in per cent of their mean.
    pub turns_differ_percent: f64,
    /// The change, up or down, in per cent of the value in force.
    pub change_percent: f64,
}

/// What a trial found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialVerdictRow {
    /// `decided`, `time_over`, `aborted` or `stopped`; absent where nothing was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["decided", "time_over", "aborted", "stopped"]))]
    pub end: Option<Cow<'static, str>>,
    /// The same in words, with what was beyond a limit, or why it was stopped.
    pub why: String,
    /// Number of whole blocks.
    pub blocks: u64,
    /// Number of turns that were measured.
    pub turns: u64,
    /// How long they took, with settling.
    pub took_ns: u64,
    /// The smallest change that matters, in per cent.
    pub matters_percent: f64,
    /// What each setting came to.
    pub settings: Vec<TriedSettingRow>,
    /// The setting to leave in force; null to revert.
    pub keep: Option<String>,
}

/// A block of turns.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialBlockRow {
    /// Its number, from 1.
    pub block: u64,
    /// By tried setting, in the order of the verdict's.
    pub settings: Vec<BlockChangeRow>,
}

/// What a block found of the first metric under a setting.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BlockChangeRow {
    /// The change in this block, in per cent of the value in force; null where it has no bound, as are those below.
    pub block_percent: Option<f64>,
    /// The change over all blocks up to this one.
    pub change_percent: Option<f64>,
    /// The lower bound of its interval.
    pub low_percent: Option<f64>,
    /// The upper bound of that interval.
    pub high_percent: Option<f64>,
}

/// A setting beside the one in force.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TriedSettingRow {
    /// The setting and its value, as `NAME=VALUE`.
    pub setting: String,
    /// `better`, `worse`, `no_difference`, `undecided`, or `not_judged` where a metric without a value, or a limit, ended the trial.
    #[schemars(extend("enum" = ["better", "worse", "no_difference", "undecided", "not_judged"]))]
    pub ruling: Cow<'static, str>,
    /// Of `undecided`, the smallest change that would have been certain by now, in per cent.
    pub visible_percent: Option<f64>,
    /// Of `undecided`, how much longer it takes at this spread.
    pub more_ns: Option<u64>,
    /// What each metric came to; the first decides.
    pub effects: Vec<TrialEffectRow>,
}

/// A metric under a setting.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialEffectRow {
    /// The name of the metric.
    pub metric: String,
    /// `ns`, `percent`, `per_second` or `number`.
    #[schemars(extend("enum" = ["ns", "percent", "per_second", "number"]))]
    pub unit: Cow<'static, str>,
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// Mean of the turns of the setting in force, in the blocks that are compared; before one is whole, in all turns.
    pub in_force: Option<f64>,
    /// Mean of the turns of this setting.
    pub with: Option<f64>,
    /// The change from the one mean to the other, in per cent of that in force; null where it is unknown. Blocks with high values
    /// weigh more in it than in `change_percent`, which decides.
    #[serde(default)]
    pub means_percent: Option<f64>,
    /// The change within blocks, of which each counts alike, in per cent of the value in force; null where it is unknown or has no
    /// bound, as are those below.
    pub change_percent: Option<f64>,
    /// The lower bound of its interval, which holds whenever one looks.
    pub low_percent: Option<f64>,
    /// The upper bound of that interval.
    pub high_percent: Option<f64>,
    /// What was predicted before the trial; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictionRow>,
}

/// What a metric was predicted to come to, in its unit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PredictionRow {
    /// With the setting in force, as recorded before the trial.
    pub in_force: f64,
    /// The value that was predicted with this setting, if as much is in force as was recorded, as are its bounds.
    pub with: f64,
    /// The lower bound of its 95 % confidence interval.
    pub low: f64,
    /// The upper bound of that interval.
    pub high: f64,
    /// What became of it, carried over to what was measured to be in force: `held` if the mean is within its interval; `more` or
    /// `less` if the interval of what was measured is beyond it, too; `perhaps_more` or `perhaps_less` if only the mean is. Absent of
    /// trials of earlier versions, which did not carry it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["held", "more", "less", "perhaps_more", "perhaps_less"]))]
    pub outcome: Option<Cow<'static, str>>,
}

/// The recording from which was predicted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PredictedFromRow {
    /// The length of the recording, in nanoseconds.
    pub length_ns: u64,
    /// Number of halts in the recording.
    pub halts: u64,
}

/// Exits for a reason in the turns of each setting.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialCauseRow {
    /// The exit reason.
    pub reason: String,
    /// By setting, in the plan's order.
    pub settings: Vec<CauseRateRow>,
}

/// Exits for a reason in the turns of a setting.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CauseRateRow {
    /// Exits in each second of vCPU time.
    pub per_s: f64,
    /// Cost in per cent of vCPU time.
    pub cost_percent: f64,
}

/// How the settings were left.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TrialLeftRow {
    /// Whether a tried value was left in force.
    pub kept: bool,
    /// Whether something was left as somebody else has set it, or as the kernel has.
    #[serde(default)]
    pub unchanged: bool,
    /// What was done, in words.
    pub done: Vec<String>,
    /// What could not be restored, in words.
    pub failed: Vec<String>,
}

impl TrialReport {
    /// Its layout.
    pub const SCHEMA: &'static str = "exitscope.try/1";

    /// A trial on `host`, decided by a metric that is this in words; what was predicted from, causes and how the settings were
    /// left are still to be filled.
    pub fn of(host: &str, places: Vec<String>, decided_by: String, trial: &HostTrial) -> TrialReport {
        TrialReport {
            schema: TrialReport::SCHEMA.into(),
            began: String::new(),
            host: host.to_string(),
            places,
            decided_by,
            plan: plan_row(trial),
            verdict: verdict_row(&trial.verdict()),
            blocks: block_rows(trial.blocks()),
            predicted_from: None,
            causes: Vec::new(),
            left: None,
            sensitivity: None,
        }
    }
}

/// Causes that are listed in text.
const CAUSES: usize = 6;

/// Exits by reason as a page; nothing if they were not counted.
pub fn trial_causes_page(report: &TrialReport) -> Page {
    let settings = &report.plan.settings;
    let mut columns = vec![column("exits", true, 0)];
    for (rank, setting) in settings.iter().enumerate() {
        columns.push(column(format!("cost with {setting}"), false, rank as u8));
        columns.push(column("exits/s", false, 100));
    }
    let rates = |rate: &CauseRateRow| [format!("{:.2}%", rate.cost_percent), format!("{:.0}", rate.per_s)];
    let row = |cause: &TrialCauseRow| {
        std::iter::once(cause.reason.clone()).chain(cause.settings.iter().flat_map(rates)).collect()
    };
    let rows: Vec<Vec<String>> = report.causes.iter().take(CAUSES).map(row).collect();
    let beyond = report.causes.len().saturating_sub(CAUSES);
    let notes = (beyond > 0).then(|| format!("{beyond} more reasons in --format json")).into_iter().collect();
    let title = "Exits by reason, in per cent and per second of vCPU time".to_string();
    let section = PageSection { title, table: Some(Table { columns, rows }), notes, ..PageSection::default() };
    Page { sections: if report.causes.is_empty() { Vec::new() } else { vec![section] } }
}

fn plan_row(trial: &HostTrial) -> TrialPlanRow {
    let plan = trial.plan();
    let could_find = trial.could_find().0.into_iter().filter(|of| of.change.is_finite());
    TrialPlanRow {
        settings: plan.settings.clone(),
        settle_ns: plan.lengths.settle.0,
        turn_ns: plan.lengths.turn.0,
        length_ns: plan.length().0,
        alpha: plan.alpha,
        seed: plan.seed,
        blocks: plan.blocks.clone(),
        could_find: could_find
            .map(|of| CouldFindRow { turns_differ_percent: of.turns_differ, change_percent: of.change })
            .collect(),
    }
}

fn verdict_row(verdict: &TrialVerdict) -> TrialVerdictRow {
    TrialVerdictRow {
        end: verdict.end.as_ref().map(|end| {
            Cow::Borrowed(match end {
                TrialEnd::Decided | TrialEnd::SlopeCertain => "decided",
                TrialEnd::TimeOver => "time_over",
                TrialEnd::Aborted { .. } => "aborted",
                TrialEnd::MetricFailed(_) | TrialEnd::Stopped(_) => "stopped",
            })
        }),
        why: verdict.end.as_ref().map_or_else(|| "not begun".to_string(), |end| end.to_string()),
        blocks: verdict.blocks,
        turns: verdict.turns,
        took_ns: verdict.took.0,
        matters_percent: verdict.matters,
        settings: verdict.settings.iter().map(setting_row).collect(),
        keep: verdict.keep.map(|keep| verdict.settings[keep].setting.clone()),
    }
}

/// Blocks that are listed, but for the last.
const BLOCKS: usize = 500;

fn block_rows(blocks: &[Vec<BlockChange>]) -> Vec<TrialBlockRow> {
    let change = |of: &BlockChange| {
        let (low, high) = bounds(of.so_far);
        BlockChangeRow {
            block_percent: of.percent.and_then(finite),
            change_percent: of.so_far.and_then(|change| finite(change.percent)),
            low_percent: low,
            high_percent: high,
        }
    };
    let step = blocks.len().div_ceil(BLOCKS).max(1);
    let row = |(at, settings): (usize, &Vec<BlockChange>)| TrialBlockRow {
        block: at as u64 + 1,
        settings: settings.iter().map(change).collect(),
    };
    let is_listed = |&(at, _): &(usize, &Vec<BlockChange>)| at % step == 0 || at + 1 == blocks.len();
    blocks.iter().enumerate().filter(is_listed).map(row).collect()
}

/// The bounds of a change's interval, as far as there are any.
fn bounds(change: Option<RelativeChange>) -> (Option<f64>, Option<f64>) {
    let interval = change.and_then(|change| change.interval);
    (interval.and_then(|(low, _)| finite(low)), interval.and_then(|(_, high)| finite(high)))
}

fn setting_row(setting: &SettingVerdict) -> TriedSettingRow {
    let (ruling, visible, more) = match setting.ruling {
        TrialRuling::Keep => ("better", None, None),
        TrialRuling::Revert => ("worse", None, None),
        TrialRuling::NoDifference => ("no_difference", None, None),
        TrialRuling::NotJudged => ("not_judged", None, None),
        TrialRuling::Undecided { visible, more } => ("undecided", visible.and_then(finite), more.map(|more| more.0)),
    };
    let effect = |effect: &exitscope_trial::MetricEffect| {
        let (low, high) = bounds(effect.change);
        TrialEffectRow {
            metric: effect.metric.name.clone(),
            unit: unit_name(effect.metric.unit).into(),
            higher_is_better: effect.metric.better == Better::Higher,
            in_force: effect.in_force,
            with: effect.with,
            means_percent: effect.percent_of_means().and_then(finite),
            change_percent: effect.change.and_then(|change| finite(change.percent)),
            low_percent: low,
            high_percent: high,
            predicted: effect.predicted.map(|of| PredictionRow {
                in_force: of.in_force,
                with: of.with,
                low: of.interval.0,
                high: of.interval.1,
                outcome: effect.foreseen().map(|(_, outcome)| Cow::Borrowed(outcome_name(outcome))),
            }),
        }
    };
    TriedSettingRow {
        setting: setting.setting.clone(),
        ruling: ruling.into(),
        visible_percent: visible,
        more_ns: more,
        effects: setting.effects.iter().map(effect).collect(),
    }
}

fn outcome_name(outcome: PredictionOutcome) -> &'static str {
    match outcome {
        PredictionOutcome::Held => "held",
        PredictionOutcome::More => "more",
        PredictionOutcome::Less => "less",
        PredictionOutcome::PerhapsMore => "perhaps_more",
        PredictionOutcome::PerhapsLess => "perhaps_less",
    }
}

const UNITS: [(MetricUnit, &str); 4] = [
    (MetricUnit::Time, "ns"),
    (MetricUnit::Share, "percent"),
    (MetricUnit::PerSecond, "per_second"),
    (MetricUnit::Number, "number"),
];

/// The name of a unit in JSON.
pub fn unit_name(unit: MetricUnit) -> &'static str {
    UNITS.iter().find(|row| row.0 == unit).map_or("number", |row| row.1)
}

/// A value of a metric in the unit of this name.
pub(crate) fn metric_text(unit: &str, value: f64) -> String {
    unit_of(unit).text(value).to_string()
}

/// The unit of a name in JSON.
pub(crate) fn unit_of(name: &str) -> MetricUnit {
    UNITS.iter().find(|row| row.1 == name).map_or(MetricUnit::Number, |row| row.0)
}

impl TrialEffectRow {
    /// A value of the metric with its unit.
    pub fn text(&self, value: f64) -> String {
        metric_text(&self.unit, value)
    }

    /// The bounds of the mean with this setting, as far as the change has any ([`exitscope_trial::bounds_of_mean`]).
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        exitscope_trial::bounds_of_mean(self.in_force, (self.low_percent, self.high_percent))
    }

    /// What was predicted, of what is in force as it was measured; none if nothing was predicted.
    pub fn foreseen(&self) -> Option<Prediction> {
        let PredictionRow { in_force, with, low, high, .. } = *self.predicted.as_ref()?;
        let recorded = Prediction { in_force, with, interval: (low, high) };
        Some(recorded.of_in_force(self.in_force.unwrap_or(in_force), unit_of(&self.unit)))
    }

    /// The change with its interval, as the verdict prints it; `-` if there is none.
    pub fn change(&self) -> String {
        let Some(percent) = self.change_percent else { return "-".to_string() };
        let interval = self.low_percent.map(|low| (low, self.high_percent.unwrap_or(f64::INFINITY)));
        RelativeChange { percent, interval }.to_string()
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_blocks_some_are_listed_and_the_last() {
        let change = BlockChange { percent: Some(1.0), so_far: None };
        let numbers = |blocks: usize| -> Vec<u64> {
            block_rows(&vec![vec![change]; blocks]).iter().map(|row| row.block).collect()
        };
        assert_eq!(numbers(500), (1..=500).collect::<Vec<_>>());
        let many = numbers(1002);
        assert_eq!((&many[..3], many.len(), many.last()), (&[1, 4, 7][..], 335, Some(&1002)));
        assert!(numbers(0).is_empty());
    }
}
