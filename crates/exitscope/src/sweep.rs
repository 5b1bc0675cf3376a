//! `exitscope sweep`: every combination of values × every replicate, on all cores.
//!
//! ```text
//! axes ─► configuration 0, 1, 2, … ─► runs (configuration, replicate), in parallel ─► figures, in order ─► Sweep
//!                                     └─► rows of a table ─► a cluster's executors ─┘
//! ```

use crate::assumed_runs::assumed_runs;
use crate::cli::{SimFormat, SweepArgs};
use crate::html_output;
use crate::scenario_check::checked;
use crate::scenario_file;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use exitscope_page::{ResultPage, write_result_page};
use exitscope_scenario::outcome::Metric;
use exitscope_scenario::vary_axis::Axes;
use exitscope_scenario::{Scenario, ScenarioDocument};
use exitscope_sim::{Limits, Unseen, possible_metrics};
use exitscope_view::{
    AssumedRuns, AxisRow, Configuration, Sweep, SweepMetric, SweepMetrics, simulated_page, sweep_page, write_page,
    write_sweep_csv,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use std::io::{IsTerminal, Write};

/// Runs at most.
const MAX_RUNS: u64 = 100_000;

/// The figures of a run, in the order of those asked for.
type Figures = Vec<Option<f64>>;

pub fn run(args: &SweepArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.html {
        html_output::check(to, &scenario_file::inputs(&args.scenario, &args.check))?;
    }
    if args.uncertainty && (args.html.is_some() || args.format == SimFormat::Csv) {
        bail!("--uncertainty goes with text and JSON");
    }
    let grid = Grid::new(args)?;
    let checked: Vec<Result<(), String>> =
        (0..grid.size).map(|number| grid.scenario(number).map(|_| ()).map_err(|error| format!("{error:#}"))).collect();
    let Some(first) = checked.iter().position(Result::is_ok) else {
        bail!("no configuration makes sense; the first: {}", checked[0].as_ref().unwrap_err());
    };
    let scenario = grid.scenario(first)?;
    if args.metrics.iter().chain(&args.best).any(|name| name == "help") {
        list_figures(&scenario, out)?;
        return Ok(Outcome::Fine);
    }
    scenario_file::warn_of_knobs(&grid.document(first)?, &scenario);
    if !is_as_recorded(args, &grid, out)? {
        return Ok(Outcome::Findings);
    }
    let asked = SweepMetrics::new(&args.metrics, args.best.as_deref(), &possible_metrics(&scenario), &scenario)?;
    let runs = run_all(args, &grid, &checked, &asked)?;
    let figures = runs.chunks(args.replicates as usize);
    let values = |number| grid.axes.combination(number).into_iter().map(|(_, value)| value.to_string()).collect();
    let mut configurations: Vec<Configuration> = figures
        .enumerate()
        .map(|(number, runs)| Configuration { values: values(number), runs: runs.iter().cloned().collect() })
        .collect();
    if let Some(error) = all_failed(&configurations) {
        bail!("every configuration failed; the first: {error}");
    }
    let metrics = asked.shown(&mut configurations);
    let failed = configurations.iter().any(|configuration| configuration.runs.is_err());
    let vary = AxisRow::all(&grid.axes);
    let base = grid.document.scenario().unwrap_or(scenario);
    let mut sweep =
        Sweep::of(scenario_file::row(&args.scenario, &base), args.replicates, vary, metrics, configurations);
    if args.uncertainty {
        sweep.add_uncertainty(&assumed(args, &grid)?);
    }
    match args.format {
        _ if args.html.is_some() => {}
        SimFormat::Json => write_json(&sweep, out)?,
        SimFormat::Csv => write_sweep_csv(&sweep, &mut *out)?,
        SimFormat::Text => write_page(&sweep_page(&sweep), terminal_style(), out)?,
    }
    if let Some(to) = &args.html {
        html_output::write(to, |out| write_result_page(&ResultPage::Sweep { sweep: &sweep }, out))?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

/// Whether the scenario is what was recorded, if there is a recording; where it is not, it is shown instead of what values change.
fn is_as_recorded(args: &SweepArgs, grid: &Grid, out: &mut dyn Write) -> anyhow::Result<bool> {
    let (name, text) = &grid.text;
    let set = scenario_file::as_given(&args.scenario.set).into_iter();
    let changes = set.chain(args.vary.iter().map(|axis| axis.key.clone())).collect();
    let Some(baseline) = checked(&args.check, &args.scenario, (name, text), &args.limits, changes)? else {
        return Ok(true);
    };
    let Some(check) = &baseline.check else { return Ok(true) };
    match (check.agrees, args.format, &args.html) {
        // A page, JSON or rows of a sweep cannot say that nothing was varied.
        (false, SimFormat::Text, None) => write_page(&simulated_page(&baseline), terminal_style(), out)?,
        _ => say!("{}", check.verdict()),
    }
    Ok(check.agrees)
}

/// Every configuration, with assumed numbers otherwise.
fn assumed(args: &SweepArgs, grid: &Grid) -> anyhow::Result<AssumedRuns> {
    let configurations: anyhow::Result<Vec<Scenario>> = (0..grid.size).map(|number| grid.scenario(number)).collect();
    let configurations = configurations.context("--uncertainty compares all configurations, and one makes no sense")?;
    let varied = grid.axes.all().iter().map(|axis| &axis.key);
    let set: Vec<&str> = args.scenario.set.iter().map(|(key, _)| key).chain(varied).map(String::as_str).collect();
    pool(args)?.install(|| assumed_runs(&configurations, &set, &args.limits))
}

/// Threads for runs.
fn pool(args: &SweepArgs) -> anyhow::Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(args.threads.map_or(0, usize::from)).build()?)
}

fn all_failed(configurations: &[Configuration]) -> Option<&str> {
    let errors: Option<Vec<&String>> = configurations.iter().map(|of| of.runs.as_ref().err()).collect();
    errors?.first().map(|error| error.as_str())
}

/// Every combination of values.
struct Grid {
    /// What the scenario is called, and what is in it.
    text: (String, String),
    document: ScenarioDocument,
    axes: Axes,
    size: usize,
}

impl Grid {
    fn new(args: &SweepArgs) -> anyhow::Result<Grid> {
        let axes = Axes::new(args.vary.clone()).map_err(anyhow::Error::msg)?;
        let runs = axes.combinations().saturating_mul(u64::from(args.replicates));
        if runs > MAX_RUNS {
            bail!("{runs} runs are too many: at most {MAX_RUNS} (values of every --vary × --replicates)");
        }
        let text = scenario_file::read_text(&args.scenario)?;
        let document = scenario_file::parse(&text.0, &text.1, &args.scenario.set, args.scenario.seed)?;
        let size = axes.combinations() as usize;
        Ok(Grid { text, document, axes, size })
    }

    fn document(&self, number: usize) -> anyhow::Result<ScenarioDocument> {
        let mut document = self.document.clone();
        for (key, value) in self.axes.combination(number) {
            scenario_file::set(&mut document, key, value)?;
        }
        Ok(document)
    }

    fn scenario(&self, number: usize) -> anyhow::Result<Scenario> {
        Ok(self.document(number)?.scenario()?)
    }
}

/// Lists the figures that runs of a scenario can have.
fn list_figures(scenario: &Scenario, out: &mut dyn Write) -> anyhow::Result<()> {
    for metric in possible_metrics(scenario) {
        let SweepMetric { name, unit, .. } = SweepMetric::of(metric);
        writeln!(out, "{name:<40} {}", unit.name())?;
    }
    Ok(())
}

/// Runs every replicate of every configuration that makes sense; in the order of configurations, then replicates.
fn run_all(
    args: &SweepArgs,
    grid: &Grid,
    checked: &[Result<(), String>],
    asked: &SweepMetrics,
) -> anyhow::Result<Vec<Result<Figures, String>>> {
    let replicates = args.replicates as usize;
    let runs = grid.size * replicates;
    match &args.cluster {
        None => {}
        #[cfg(feature = "cluster")]
        Some(scheduler) => return on_cluster::run_all(args, grid, checked, asked, scheduler),
        #[cfg(not(feature = "cluster"))]
        Some(_) => bail!(crate::NO_CLUSTER),
    }
    let progress = progress_bar(runs as u64);
    let one = |run: usize| -> Result<Figures, String> {
        let (number, replicate) = (run / replicates, run % replicates);
        checked[number].clone()?;
        let scenario = grid.scenario(number).map_err(|error| format!("{error:#}"))?;
        let figures = one_run(scenario, replicate as u64, scenario_file::limits(&args.limits));
        progress.inc(1);
        figures.map(|figures| asked.figures(figures))
    };
    let figures = pool(args)?.install(|| (0..runs).into_par_iter().with_max_len(1).map(one).collect());
    progress.finish_and_clear();
    Ok(figures)
}

/// The figures of one run.
fn one_run(mut scenario: Scenario, replicate: u64, limits: Limits) -> Result<Vec<(String, f64)>, String> {
    scenario.seed = scenario.seed.wrapping_add(replicate);
    let (outcome, _) = exitscope_sim::run(&scenario, Unseen, limits).map_err(|error| error.to_string())?;
    Ok(outcome.metrics(&scenario).into_iter().map(|metric: Metric| (metric.name, metric.value)).collect())
}

#[cfg(feature = "cluster")]
pub mod on_cluster;

fn progress_bar(runs: u64) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("runs {wide_bar} {pos}/{len} {eta}");
    ProgressBar::with_draw_target(Some(runs), target).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}
