//! What advice is predicted to come to, in the figures that `exitscope try` measures in each turn.
//!
//! ```text
//! recording ─► trial_figures: cost, steal, polling, wakeup, exits as they are ─┐
//! Judgement ─► advice ─┬─ that sets a knob of halt polling: its replay ────────┼─► AdvicePrediction
//!                      └─ any other: its gain, taken off ──────────────────────┘
//! ```

use crate::replay::predict_halts;
use crate::{ReadError, ReadOptions, read_alone};
use exitscope_advice::{Advice, AdviceSetting, Gain, GainOf, Judgement, PollPrediction, PredictedFigure};
use exitscope_analysis::replay::{HaltPolicy, knobs_of};
use exitscope_analysis::{Facts, FactsOptions, Selection, are_known};
use exitscope_model::{AllParts, TimePart};
use exitscope_policy::Knob;
use exitscope_trace::Input;
use exitscope_units::Nanos;

/// What a figure of a trial is predicted to come to where an advice is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct AdvicePrediction {
    /// The change, as the advice is titled.
    pub change: String,
    /// The setting, as `exitscope try` has it, where it is a knob: `halt_poll_ns=0`.
    pub setting: Option<String>,
    /// The figure, under its name in a trial.
    pub metric: &'static str,
    /// What it comes to, in the figure's unit there.
    pub figure: PredictedFigure,
}

/// The figures of a recording that a trial measures, by their names there: shares in per cent of vCPU time, wake-up latency in
/// nanoseconds, exits in each second. What was not recorded is not among them.
fn trial_figures(
    input: &Input,
    options: ReadOptions,
    selection: &Selection,
) -> Result<Vec<(&'static str, f64)>, ReadError> {
    let wanted = FactsOptions { by: Vec::new(), slowest: 0, selection: selection.clone() };
    let (trace, mut facts) = read_alone(input, options, || Facts::new(&wanted))?;
    let (first, last) = trace.span.unwrap_or_default();
    facts.end(first, last, &trace.vcpu_of);
    Ok(figures_of(&facts))
}

fn figures_of(facts: &Facts) -> Vec<(&'static str, f64)> {
    let mut parts = AllParts::default();
    facts.divisions.values().for_each(|of| parts.merge(&of.parts));
    let whole = parts.sum().0;
    if whole == 0 {
        return Vec::new();
    }
    let percent = |part: u64| part as f64 * 100.0 / whole as f64;
    let exits: u64 = facts.divisions.values().map(|of| of.exits).sum();
    let halts = facts.halts.all();
    let latencies = halts.latencies();
    let is_known = latencies.count > 0 && are_known(halts.halts(), halts.halts().saturating_sub(latencies.count));
    let figures = [
        ("cost", Some(percent(parts.cost().0))),
        ("steal", facts.event_kinds.tell_steal().then(|| percent(parts.get(TimePart::Steal).0))),
        ("polling", (halts.halts() > 0).then(|| percent(parts.get(TimePart::Polling).0))),
        ("wakeup", is_known.then(|| latencies.sum as f64 / latencies.count as f64)),
        ("exits", Some(exits as f64 * 1e9 / facts.duration.0.max(1) as f64)),
    ];
    figures.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

/// What each advice is predicted to come to, as far as a trial measures it. What vCPUs spare in yields, or in exits that other
/// threads force, is no figure of a trial's.
pub fn advice_predictions(
    input: &Input,
    options: ReadOptions,
    selection: &Selection,
    judgement: &Judgement,
) -> Result<Vec<AdvicePrediction>, ReadError> {
    let recorded = trial_figures(input, options, selection)?;
    let mut predictions: Vec<AdvicePrediction> = Vec::new();
    for plan in judgement.advice().iter().map(Advice::plan) {
        let knob = plan.settings.iter().find_map(|setting| match setting {
            AdviceSetting::Knob { knob, value, .. } => Some((*knob, *value)),
            _ => None,
        });
        let polling = knob.and_then(|(knob, value)| Some((policy_of(knob)?, knob.name, value)));
        let figures = match polling {
            Some((policy, name, value)) => {
                let of = predict_halts(input, options, selection, (policy, name), &[value])?;
                of.values.first().map(PollPrediction::figures).unwrap_or_default()
            }
            None => figure_less_gain(&plan.gain, judgement.vcpu_time(None), &recorded).into_iter().collect(),
        };
        let setting = knob.map(|(knob, value)| format!("{}={}", knob.name, knob.text(value)));
        let change = plan.title.to_string();
        for (metric, figure) in figures {
            let is_same = |of: &&mut AdvicePrediction| {
                (&of.change, &of.setting, of.metric) == (&change, &setting, metric) && setting.is_none()
            };
            match predictions.iter_mut().find(is_same) {
                Some(of) => of.figure = with_both(of.figure, figure),
                None => predictions.push(AdvicePrediction {
                    change: change.clone(),
                    setting: setting.clone(),
                    metric,
                    figure,
                }),
            }
        }
    }
    Ok(predictions)
}

/// One change that is advised for the exits of several causes, or of several VMs: no exit is of two, so that it spares what each does.
fn with_both(one: PredictedFigure, other: PredictedFigure) -> PredictedFigure {
    let recorded = one.recorded;
    let less = |one: f64, other: f64| (one + other - recorded).max(0.0);
    let [with, low, high] = [less(one.with, other.with), less(one.low, other.low), less(one.high, other.high)];
    PredictedFigure { recorded, with, low, high }
}

/// Whose polling a knob tunes, if it tunes any.
fn policy_of(knob: &Knob) -> Option<HaltPolicy> {
    let is_one = |policy: &HaltPolicy| knobs_of(policy.name()).any(|other| other.name == knob.name);
    HaltPolicy::ALL.into_iter().find(is_one)
}

/// What a gain leaves of the figure that it is of; `None` where no figure of a trial is that, or it was not recorded. The gain and
/// the time of vCPUs are those of a second.
fn figure_less_gain(
    gain: &Gain,
    vcpu_time: Nanos,
    recorded: &[(&'static str, f64)],
) -> Option<(&'static str, PredictedFigure)> {
    let name = match gain.of {
        GainOf::Exits => "cost",
        GainOf::Steal => "steal",
        GainOf::WakeUps | GainOf::HostCpu | GainOf::Yields | GainOf::ForcedOut => return None,
    };
    let (metric, recorded) = *recorded.iter().find(|figure| figure.0 == name)?;
    let left = |part: Nanos| (recorded - part.0 as f64 * 100.0 / vcpu_time.0 as f64).max(0.0);
    let figure = PredictedFigure { recorded, with: left(gain.headline), low: left(gain.high), high: left(gain.low) };
    (vcpu_time > Nanos::ZERO).then_some((metric, figure))
}
