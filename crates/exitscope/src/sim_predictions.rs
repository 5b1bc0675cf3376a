//! `exitscope sim --predictions FILE`: what the settings of `--set` are predicted to make of the work that a scenario's VMs do, which
//! `lab run --against` measures.
//!
//! ```text
//! scenario ─► a run for each seed ─► work a second, by VM ─┬─► NewPrediction
//! scenario with --set ─► … ────────────────────────────────┤
//! both ─► assumed_runs: assumed numbers drawn ─► its bounds ┘
//! ```

use crate::assumed_runs::assumed_runs;
use crate::cli::SimArgs;
use crate::predictions::{self, NewPrediction};
use crate::scenario_file;
use anyhow::{Context, ensure};
use exitscope_advice::PredictedFigure;
use exitscope_apply::host_name;
use exitscope_scenario::Scenario;
use exitscope_sim::Unseen;
use exitscope_stats::Estimate;
use exitscope_trial::MetricUnit;
use exitscope_view::GainUncertainty;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Seeds that each side is simulated with.
const SEEDS: u64 = 5;

/// How the work of a VM is called, after its name.
pub const WORK: &str = ".throughput";

/// Figures by their names.
pub type NamedFigures = Vec<(String, f64)>;

/// Simulates both sides, and adds what comes of the settings.
pub fn add(args: &SimArgs, (name, text): (&str, &str), to: &Path) -> anyhow::Result<()> {
    let of = &args.scenario;
    let setting = one_text(&of.set)?;
    let scenario = |set: &[(String, String)], more: u64| -> anyhow::Result<Scenario> {
        let scenario = scenario_file::parse(name, text, set, of.seed)?.scenario()?;
        Ok(Scenario { seed: scenario.seed.wrapping_add(more), ..scenario })
    };
    let runs = |set: &[(String, String)]| -> anyhow::Result<Vec<NamedFigures>> {
        (0..SEEDS).map(|more| work(args, &scenario(set, more)?)).collect()
    };
    let (before, with) = (runs(&[])?, runs(&of.set)?);
    let set: Vec<&str> = of.set.iter().map(|(key, _)| key.as_str()).collect();
    let assumed = assumed_runs(&[scenario(&[], 0)?, scenario(&of.set, 0)?], &set, &args.limits)?;
    let failed = assumed.failed();
    ensure!(
        failed == 0,
        "--predictions: {failed} runs with assumed numbers otherwise did not reach their end: give a higher limit"
    );
    let hash = text_hash(text);
    let predicted = with.first().into_iter().flatten().filter_map(|(metric, _)| {
        let of = GainUncertainty::of(metric, vec![(String::new(), None)], &assumed);
        let gains = of.gains.first().and_then(|gain| gain.by_assumptions);
        let figure = predicted(&values(&before, metric)?, &values(&with, metric)?, gains)?;
        Some(NewPrediction {
            change: "simulated".to_string(),
            setting: Some(setting.clone()),
            scenario_sha256: Some(hash.clone()),
            metric: metric.clone(),
            unit: MetricUnit::PerSecond,
            figure,
        })
    });
    predictions::add(to, predicted.collect(), (&of.scenario, &host_name(Path::new("/"))))
}

/// The SHA-256 of a scenario's text.
pub fn text_hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// Settings as one text, from which [`settings_of`] has them again.
fn one_text(set: &[(String, String)]) -> anyhow::Result<String> {
    let all = scenario_file::as_given(set).join(" ");
    let again = settings_of(&all)?;
    let is_same = again.len() == set.len() && again.iter().zip(set).all(|(of, own)| (of.0, of.1) == (&own.0, &own.1));
    ensure!(is_same, "--predictions: with blanks in them, these values cannot be told from each other: {all}");
    Ok(all)
}

/// Settings of one text, `NAME=VALUE` with blanks between them. A blank is part of a value within brackets and quotes, and before what
/// is no setting.
pub fn settings_of(all: &str) -> anyhow::Result<Vec<(&str, &str)>> {
    let (mut depth, mut quote) = (0, None);
    let mut begins = vec![0];
    for (at, letter) in all.char_indices() {
        match letter {
            '"' | '\'' if quote == Some(letter) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(letter),
            '{' | '[' if quote.is_none() => depth += 1,
            '}' | ']' if quote.is_none() => depth -= 1,
            ' ' if depth == 0 && quote.is_none() => {
                let next = all[at + 1..].split(' ').next().unwrap_or_default();
                let is_setting = next.split_once('=').is_some_and(|(key, _)| !key.is_empty());
                begins.extend(is_setting.then_some(at + 1));
            }
            _ => {}
        }
    }
    let ends = begins.iter().skip(1).map(|begin| begin - 1).chain([all.len()]);
    let setting = |(begin, end): (&usize, usize)| all[*begin..end].split_once('=').context("a setting is NAME=VALUE");
    begins.iter().zip(ends).map(setting).collect()
}

/// The values of a figure that all runs have.
pub fn values(runs: &[NamedFigures], metric: &str) -> Option<Vec<f64>> {
    runs.iter().map(|run| run.iter().find(|figure| figure.0 == metric).map(|figure| figure.1)).collect()
}

/// The bounds hold what one more seed would give, and the gains, in per cent, with assumed numbers drawn. No figure is below 0.
fn predicted(before: &[f64], with: &[f64], gains: Option<[f64; 2]>) -> Option<PredictedFigure> {
    let (recorded, mean) = (Estimate::of(before)?.mean, Estimate::of(with)?.mean);
    let (low, high) = Estimate::next_within(with).unwrap_or((mean, mean));
    let [least, most] = gains.map_or([low, high], |gains| gains.map(|percent| recorded * (1.0 + percent / 100.0)));
    Some(PredictedFigure { recorded, with: mean, low: low.min(least).max(0.0), high: high.max(most) })
}

/// The work of each VM a second, of one run.
fn work(args: &SimArgs, scenario: &Scenario) -> anyhow::Result<NamedFigures> {
    let (outcome, _) = exitscope_sim::run(scenario, Unseen, scenario_file::limits(&args.limits))?;
    let is_of_vm = |name: &str| name.strip_suffix(WORK).is_some_and(|of| scenario.vms.iter().any(|vm| vm.name == of));
    let of_vms = outcome.metrics(scenario).into_iter().filter(|metric| is_of_vm(&metric.name));
    Ok(of_vms.map(|metric| (metric.name, metric.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_from_each_other_in_one_text() {
        let own = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        for set in [
            &[("delay", "1us")][..],
            &[("costs.exit_spread", "{ p5 = 800, p95 = 2500 }"), ("delay", "1us")],
            &[("vm.a.cpus", "[0, 1]"), ("name", "\"a b=c\""), ("description", "two words"), ("seed", "")],
        ] {
            let text = one_text(&own(set)).unwrap();
            assert_eq!(settings_of(&text).unwrap(), set, "{text}");
        }
        assert!(one_text(&own(&[("description", "a b=c")])).unwrap_err().to_string().contains("a b=c"));
        assert!(settings_of("nothing").is_err());
    }

    #[test]
    fn bounds_hold_one_more_seed_and_what_assumed_numbers_give() {
        let none = predicted(&[2.0, 2.0], &[1.0, 1.0], None).unwrap();
        assert_eq!(none, PredictedFigure { recorded: 2.0, with: 1.0, low: 1.0, high: 1.0 });
        let some = predicted(&[2.0, 2.0, 2.0], &[0.5, 1.0, 1.5], None).unwrap();
        assert!(some.low == 0.0 && some.high > 1.5, "{some:?}");
        let drawn = predicted(&[2.0, 2.0], &[1.0, 1.0], Some([-75.0, 50.0])).unwrap();
        assert_eq!((drawn.low, drawn.with, drawn.high), (0.5, 1.0, 3.0));
    }
}
