//! A trial of settings on the running host as plain data.

use exitscope_trial::{
    Better, MetricUnit, RelativeChange, SettingVerdict, TrialEnd, TrialPlan, TrialRuling, TrialVerdict,
};
use schemars::JsonSchema;
use serde::Serialize;

/// What a trial found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The host.
    pub host: String,
    /// The files or threads that were set.
    pub places: Vec<String>,
    /// What was planned.
    pub plan: TrialPlanRow,
    /// What was found; of a dry run, that nothing was measured.
    pub verdict: TrialVerdictRow,
    /// How the settings were left; absent of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<TrialLeftRow>,
}

/// What a trial was to do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialPlanRow {
    /// The settings that were compared; the first was in force.
    pub settings: Vec<String>,
    /// Time between setting and measuring.
    pub settle_ns: u64,
    /// Time that is measured of each turn.
    pub turn_ns: u64,
    /// All turns together.
    pub length_ns: u64,
    /// The chance of any false alarm, at most.
    pub alpha: f64,
    /// What the order was drawn with.
    pub seed: u64,
    /// The turns of each block, as positions in `settings`.
    pub blocks: Vec<Vec<usize>>,
}

/// What a trial found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialVerdictRow {
    /// `decided`, `time_over`, `aborted` or `stopped`; absent where nothing was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["decided", "time_over", "aborted", "stopped"]))]
    pub end: Option<&'static str>,
    /// The same in words, with what was beyond a limit, or why it was stopped.
    pub why: String,
    /// Whole blocks.
    pub blocks: u64,
    /// Turns that were measured.
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

/// A setting beside the one in force.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TriedSettingRow {
    /// The setting.
    pub setting: String,
    /// `better`, `worse`, `no_difference` or `undecided`.
    #[schemars(extend("enum" = ["better", "worse", "no_difference", "undecided"]))]
    pub ruling: &'static str,
    /// Of `undecided`, the smallest change that would have been certain by now, in per cent.
    pub visible_percent: Option<f64>,
    /// Of `undecided`, how much longer it takes at this spread.
    pub more_ns: Option<u64>,
    /// What each metric came to; the first decides.
    pub effects: Vec<TrialEffectRow>,
}

/// A metric under a setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialEffectRow {
    /// The metric.
    pub metric: String,
    /// `ns`, `percent`, `per_second` or `number`.
    #[schemars(extend("enum" = ["ns", "percent", "per_second", "number"]))]
    pub unit: &'static str,
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// Mean of the turns of the setting in force.
    pub in_force: Option<f64>,
    /// Mean of the turns of this setting.
    pub with: Option<f64>,
    /// The change in per cent of the value in force; null where it is unknown or has no bound, as are those below.
    pub change_percent: Option<f64>,
    /// The lower bound of its interval, which holds whenever one looks.
    pub low_percent: Option<f64>,
    /// The upper bound.
    pub high_percent: Option<f64>,
}

/// How the settings were left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialLeftRow {
    /// Whether a tried value was left in force.
    pub kept: bool,
    /// What was done, in words.
    pub done: Vec<String>,
    /// What could not be restored, in words.
    pub failed: Vec<String>,
}

impl TrialReport {
    const SCHEMA: &'static str = "exitscope.try/1";

    /// A trial on `host`; `left` is whether a value was kept, what was restored, and what could not be.
    pub fn of(
        host: &str,
        places: Vec<String>,
        plan: &TrialPlan,
        verdict: &TrialVerdict,
        left: Option<(bool, &[String], &[String])>,
    ) -> TrialReport {
        let left = left.map(|(kept, done, failed)| TrialLeftRow { kept, done: done.to_vec(), failed: failed.to_vec() });
        TrialReport {
            schema: TrialReport::SCHEMA,
            host: host.to_string(),
            places,
            plan: plan_row(plan),
            verdict: verdict_row(verdict),
            left,
        }
    }
}

fn plan_row(plan: &TrialPlan) -> TrialPlanRow {
    TrialPlanRow {
        settings: plan.settings.clone(),
        settle_ns: plan.lengths.settle.0,
        turn_ns: plan.lengths.turn.0,
        length_ns: plan.length().0,
        alpha: plan.alpha,
        seed: plan.seed,
        blocks: plan.blocks.clone(),
    }
}

fn verdict_row(verdict: &TrialVerdict) -> TrialVerdictRow {
    TrialVerdictRow {
        end: verdict.end.as_ref().map(|end| match end {
            TrialEnd::Decided => "decided",
            TrialEnd::TimeOver => "time_over",
            TrialEnd::Aborted { .. } => "aborted",
            TrialEnd::Stopped(_) => "stopped",
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

fn setting_row(setting: &SettingVerdict) -> TriedSettingRow {
    let (ruling, visible, more) = match setting.ruling {
        TrialRuling::Keep => ("better", None, None),
        TrialRuling::Revert => ("worse", None, None),
        TrialRuling::NoDifference => ("no_difference", None, None),
        TrialRuling::Undecided { visible, more } => ("undecided", visible.and_then(finite), more.map(|more| more.0)),
    };
    let effect = |effect: &exitscope_trial::MetricEffect| {
        let interval = effect.change.and_then(|change: RelativeChange| change.interval);
        TrialEffectRow {
            metric: effect.metric.name.clone(),
            unit: match effect.metric.unit {
                MetricUnit::Time => "ns",
                MetricUnit::Share => "percent",
                MetricUnit::PerSecond => "per_second",
                MetricUnit::Number => "number",
            },
            higher_is_better: effect.metric.better == Better::Higher,
            in_force: effect.in_force,
            with: effect.with,
            change_percent: effect.change.and_then(|change| finite(change.percent)),
            low_percent: interval.and_then(|(low, _)| finite(low)),
            high_percent: interval.and_then(|(_, high)| finite(high)),
        }
    };
    TriedSettingRow {
        setting: setting.setting.clone(),
        ruling,
        visible_percent: visible,
        more_ns: more,
        effects: setting.effects.iter().map(effect).collect(),
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
