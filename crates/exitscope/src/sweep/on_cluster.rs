//! A sweep as a table of runs, each simulated by an executor of a cluster.

use super::{Figures, Grid, one_run};
use crate::cli::{LimitArgs, SweepArgs};
use crate::scenario_file;
use exitscope_query::{EngineLimits, cluster_function};
use exitscope_units::Nanos;
use exitscope_view::SweepMetrics;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the function is called in SQL.
const NAME: &str = "simulate";

/// How long a sweep may take: it is stopped by hand, or by --wall-limit.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// The part of a sweep that is the same for all its runs.
#[derive(Serialize, Deserialize)]
struct Common {
    name: String,
    text: String,
    set: Vec<(String, String)>,
    seed: Option<u64>,
    limit_events: Option<u64>,
    wall_limit_ns: Option<u64>,
}

/// A run.
#[derive(Serialize, Deserialize)]
struct Own {
    set: Vec<(String, String)>,
    replicate: u64,
}

/// What came of it: figures as the bits of their numbers, so that they arrive as they are.
type Made = Result<Vec<(String, u64)>, String>;

/// Offers to simulate to whoever sends a plan that says so.
pub fn offer() {
    cluster_function::register_cluster_function(NAME, |common, own| {
        let made = simulate(common, own).unwrap_or_else(|error| Err(format!("{error:#}")));
        serde_json::to_string(&made).unwrap_or_default()
    });
}

fn simulate(common: &str, own: &str) -> anyhow::Result<Made> {
    let (common, own): (Common, Own) = (serde_json::from_str(common)?, serde_json::from_str(own)?);
    let mut document = scenario_file::parse(&common.name, &common.text, &common.set, common.seed)?;
    for (key, value) in &own.set {
        scenario_file::set(&mut document, key, value)?;
    }
    let limits = LimitArgs { limit_events: common.limit_events, wall_limit: common.wall_limit_ns.map(Nanos) };
    let figures = one_run(document.scenario()?, own.replicate, scenario_file::limits(&limits));
    Ok(figures.map(|figures| figures.into_iter().map(|(name, value)| (name, value.to_bits())).collect()))
}

/// Every replicate of every configuration that makes sense; in the order of configurations, then replicates.
pub(super) fn run_all(
    args: &SweepArgs,
    grid: &Grid,
    checked: &[Result<(), String>],
    asked: &SweepMetrics,
    scheduler: &(String, u16),
) -> anyhow::Result<Vec<Result<Figures, String>>> {
    let common = Common {
        name: grid.text.0.clone(),
        text: grid.text.1.clone(),
        set: args.scenario.set.clone(),
        seed: args.scenario.seed,
        limit_events: args.limits.limit_events,
        wall_limit_ns: args.limits.wall_limit.map(|limit| limit.0),
    };
    let sound = (0..grid.size).filter(|&number| checked[number].is_ok());
    let own = sound.flat_map(|number| (0..u64::from(args.replicates)).map(move |replicate| (number, replicate)));
    let own = own.map(|(number, replicate)| {
        let set = grid.axes.combination(number).into_iter();
        let set = set.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        serde_json::to_string(&Own { set, replicate })
    });
    let own = own.collect::<Result<Vec<String>, _>>()?;
    let limits = EngineLimits { memory: 0, time: WEEK, threads: 2 };
    let scheduler = crate::cluster::scheduler(scheduler, args.cluster_token_file.as_deref())?;
    let results = cluster_function::run_on_cluster(&scheduler, limits, &serde_json::to_string(&common)?, own)?;
    let mut results = results.into_iter();
    let mut figures = Vec::with_capacity(grid.size * args.replicates as usize);
    for of in checked {
        for _ in 0..args.replicates {
            figures.push(match of {
                Err(error) => Err(error.clone()),
                Ok(()) => {
                    let made: Made = serde_json::from_str(&results.next().unwrap_or_default())?;
                    made.map(|figures| {
                        asked.figures(figures.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))))
                    })
                }
            });
        }
    }
    Ok(figures)
}
