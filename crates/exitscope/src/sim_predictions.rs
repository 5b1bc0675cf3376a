//! `exitscope sim --predictions FILE`: what the settings of `--set` are predicted to make of the work that a scenario's VMs do, which
//! `lab run --against` measures.
//!
//! ```text
//! scenario ─► a run for each seed ─► work a second, by VM ─┬─► NewPrediction
//! scenario with --set ─► … ────────────────────────────────┘
//! ```

use crate::cli::SimArgs;
use crate::predictions::{self, NewPrediction};
use crate::scenario_file;
use exitscope_advice::PredictedFigure;
use exitscope_apply::host_name;
use exitscope_scenario::Scenario;
use exitscope_sim::Unseen;
use exitscope_stats::Estimate;
use exitscope_trial::MetricUnit;
use exitscope_view::SimReport;
use std::path::Path;

/// Seeds that each side is simulated with.
const SEEDS: u64 = 5;

/// How the work of a VM is called, after its name.
pub const WORK: &str = ".throughput";

/// Figures by their names.
pub type NamedFigures = Vec<(String, f64)>;

/// Simulates both sides, and adds what comes of the settings.
pub fn add(args: &SimArgs, to: &Path) -> anyhow::Result<()> {
    let of = &args.scenario;
    let (name, text) = scenario_file::read_text(of)?;
    let (mut before, mut with) = (Vec::new(), Vec::new());
    for seed in 0..SEEDS {
        let seed = Some(of.seed.unwrap_or_default().wrapping_add(seed));
        before.push(work(args, &scenario_file::parse(&name, &text, &[], seed)?.scenario()?)?);
        with.push(work(args, &scenario_file::parse(&name, &text, &of.set, seed)?.scenario()?)?);
    }
    let setting: Vec<String> = of.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let predicted = with.first().into_iter().flatten().filter_map(|(metric, _)| {
        let figure = predicted(&values(&before, metric)?, &values(&with, metric)?)?;
        let (change, setting) = ("simulated".to_string(), Some(setting.join(" ")));
        Some(NewPrediction { change, setting, metric: metric.clone(), unit: MetricUnit::PerSecond, figure })
    });
    predictions::add(to, predicted.collect(), (&of.scenario, &host_name(Path::new("/"))))
}

/// The values of a figure that all runs have.
pub fn values(runs: &[NamedFigures], metric: &str) -> Option<Vec<f64>> {
    runs.iter().map(|run| run.iter().find(|figure| figure.0 == metric).map(|figure| figure.1)).collect()
}

/// The bounds are those of one more seed: no figure is below 0.
fn predicted(before: &[f64], with: &[f64]) -> Option<PredictedFigure> {
    let (recorded, mean) = (Estimate::of(before)?.mean, Estimate::of(with)?.mean);
    let (low, high) = Estimate::next_within(with).unwrap_or((mean, mean));
    Some(PredictedFigure { recorded, with: mean, low: low.max(0.0), high })
}

/// The work of each VM a second, of one run.
fn work(args: &SimArgs, scenario: &Scenario) -> anyhow::Result<NamedFigures> {
    let (outcome, _) = exitscope_sim::run(scenario, Unseen, scenario_file::limits(&args.limits))?;
    let metrics = SimReport::of(&outcome, scenario, scenario_file::row(&args.scenario, scenario)).metrics;
    let of_vms = metrics.into_iter().filter(|metric| metric.name.ends_with(WORK));
    Ok(of_vms.map(|metric| (metric.name.to_string(), metric.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_one_more_seed() {
        let none = predicted(&[2.0, 2.0], &[1.0, 1.0]).unwrap();
        assert_eq!(none, PredictedFigure { recorded: 2.0, with: 1.0, low: 1.0, high: 1.0 });
        let some = predicted(&[2.0, 2.0, 2.0], &[0.5, 1.0, 1.5]).unwrap();
        assert!(some.low == 0.0 && some.high > 1.5, "{some:?}");
    }
}
