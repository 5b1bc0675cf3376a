//! Runs with the assumed numbers of a scenario otherwise: what of a figure hangs on them (`sim` and `sweep --uncertainty`).
//!
//! ```text
//! assumptions ─┬─► each alone at both of its ends ─► which moves a figure most
//!              └─► all at once, DRAWS times       ─► from where to where the figure may be
//! ```

use crate::cli::{LimitArgs, SimArgs};
use crate::scenario_file;
use anyhow::{Context, bail};
use exitscope_scenario::{Assumption, Scenario, assumptions};
use exitscope_sim::{Unseen, latin_hypercube};
use exitscope_view::{AssumedRuns, ConfigurationRuns, RunFigures, SimReport, UncertaintyReport};
use rayon::prelude::*;

/// How often all are drawn at once.
const DRAWS: usize = 40;
/// Runs at most.
const MAX_RUNS: usize = 100_000;

/// Seeds of a run with the numbers as they are, its own included.
const SEEDS: u64 = 10;

/// A run of one configuration.
struct AssumedRun {
    configuration: usize,
    /// Which assumptions, and where between their ends.
    places: Vec<(usize, f64)>,
}

/// What of a run's figures hangs on its seed and on assumed numbers.
pub fn uncertainty(run: &SimReport, scenario: &Scenario, args: &SimArgs) -> anyhow::Result<UncertaintyReport> {
    let other = |more: u64| {
        let scenario = Scenario { seed: scenario.seed.wrapping_add(more), ..scenario.clone() };
        let (outcome, _) = exitscope_sim::run(&scenario, Unseen, scenario_file::limits(&args.limits))?;
        anyhow::Ok(RunFigures::of(&outcome, &scenario))
    };
    let seeds: anyhow::Result<Vec<RunFigures>> = (1..SEEDS).into_par_iter().map(other).collect();
    let seeds = seeds.context("with another seed")?;
    let set: Vec<&str> = args.scenario.set.iter().map(|(key, _)| key.as_str()).collect();
    let assumed = assumed_runs(std::slice::from_ref(scenario), &set, &args.limits)?;
    Ok(UncertaintyReport::of(&run.metrics, &seeds, &assumed))
}

/// Runs configurations of one scenario, in all of which the same is assumed at a time. What is `set`, on the command line, is no
/// assumption.
pub fn assumed_runs(configurations: &[Scenario], set: &[&str], limits: &LimitArgs) -> anyhow::Result<AssumedRuns> {
    let mut of: Vec<Vec<Assumption>> = configurations.iter().map(assumptions).collect();
    let keys: Vec<Vec<String>> = of.iter().map(|list| list.iter().map(|of| of.key.clone()).collect()).collect();
    let is_open =
        |of: &Assumption| !set.iter().any(|key| of.is_set_by(key)) && keys.iter().all(|list| list.contains(&of.key));
    of.iter_mut().for_each(|list| list.retain(is_open));
    let numbers = of.first().map_or(0, Vec::len);
    let runs = (2 * numbers + DRAWS) * configurations.len();
    if runs > MAX_RUNS {
        bail!("--uncertainty: {runs} runs are too many: at most {MAX_RUNS}");
    }
    let seed = configurations.first().map_or(0, |scenario| scenario.seed);
    let draws = latin_hypercube(DRAWS, numbers, seed).into_iter().map(|point| point.into_iter().enumerate().collect());
    let ends = (0..numbers).flat_map(|number| [vec![(number, 0.0)], vec![(number, 1.0)]]);
    let all: Vec<Vec<(usize, f64)>> = draws.chain(ends).collect();
    let jobs: Vec<AssumedRun> = (0..configurations.len())
        .flat_map(|configuration| all.iter().cloned().map(move |places| AssumedRun { configuration, places }))
        .collect();
    let one = |job: &AssumedRun| -> Option<RunFigures> {
        let mut scenario = configurations[job.configuration].clone();
        job.places.iter().for_each(|(number, at)| of[job.configuration][*number].set(&mut scenario, *at));
        let (outcome, _) = exitscope_sim::run(&scenario, Unseen, scenario_file::limits(limits)).ok()?;
        Some(RunFigures::of(&outcome, &scenario))
    };
    let figures: Vec<Option<RunFigures>> = jobs.par_iter().map(one).collect();
    let of_configurations = figures.chunks(all.len().max(1));
    let of_configurations =
        of_configurations.map(|of| ConfigurationRuns { draws: of[..DRAWS].to_vec(), ends: of[DRAWS..].to_vec() });
    Ok(AssumedRuns::new(of.into_iter().next().unwrap_or_default(), of_configurations.collect()))
}
