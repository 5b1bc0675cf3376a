//! `exitscope sweep`: every combination of values × every replicate, on all cores.
//!
//! ```text
//! axes ─► configuration 0, 1, 2, … ─► runs (configuration, replicate), in parallel ─► figures, in order ─► Sweep
//!                                     └─► rows of a table ─► a cluster's executors ─┘
//! ```

use crate::Outcome;
use crate::cli::{SimFormat, SweepArgs};
use crate::page_file;
use crate::report::look;
use crate::sim;
use anyhow::{Context, bail};
use exitscope_page::{Other, write_other};
use exitscope_scenario::outcome::{Measure, Metric};
use exitscope_scenario::vary::Axes;
use exitscope_scenario::{Document, Op, Scenario};
use exitscope_sim::{Limits, Unseen, possible_metrics};
use exitscope_view::{AxisRow, Configuration, Sweep, SweepMetric, sweep_page, write_page, write_sweep_csv};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::io::{IsTerminal, Write};

/// Runs at most.
const MAX_RUNS: u64 = 100_000;

/// Shares of a VM's time that are shown if they vary, by this much at least.
const COST_SHARES: [&str; 7] =
    ["spinning", "guest_polling", "polling", "kernel", "user_space", "steal", "user_space_asleep"];
const VARIES: f64 = 0.001;

/// The figures of a run, in the order of those asked for.
type Figures = Vec<Option<f64>>;

pub fn run(args: &SweepArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.html {
        page_file::check(to, std::slice::from_ref(&args.scenario.scenario))?;
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
    sim::warn_of_knobs(&grid.document(first)?, &scenario);
    let asked = Asked::new(args, &scenario)?;
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
    let sweep = Sweep::of(sim::row(&args.scenario, &base), args.replicates, vary, metrics, configurations);
    match args.format {
        _ if args.html.is_some() => {}
        SimFormat::Json => {
            serde_json::to_writer(&mut *out, &sweep)?;
            writeln!(out)?;
        }
        SimFormat::Csv => write_sweep_csv(&sweep, &mut *out)?,
        SimFormat::Text => write_page(&sweep_page(&sweep), look(), out)?,
    }
    if let Some(to) = &args.html {
        page_file::write(to, |out| write_other(&Other::Sweep { sweep: &sweep }, out))?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Fine })
}

fn all_failed(configurations: &[Configuration]) -> Option<&str> {
    let errors: Option<Vec<&String>> = configurations.iter().map(|of| of.runs.as_ref().err()).collect();
    errors?.first().map(|error| error.as_str())
}

/// Every combination of values.
struct Grid {
    /// What the scenario is called, and what is in it.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code))]
    text: (String, String),
    document: Document,
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
        let text = sim::read_text(&args.scenario)?;
        let document = sim::parse(&text.0, &text.1, &args.scenario.set, args.scenario.seed)?;
        let size = axes.combinations() as usize;
        Ok(Grid { text, document, axes, size })
    }

    fn document(&self, number: usize) -> anyhow::Result<Document> {
        let mut document = self.document.clone();
        for (key, value) in self.axes.combination(number) {
            sim::set(&mut document, key, value)?;
        }
        Ok(document)
    }

    fn scenario(&self, number: usize) -> anyhow::Result<Scenario> {
        Ok(self.document(number)?.scenario()?)
    }
}

/// Which figures were asked for.
struct Asked {
    metrics: Vec<SweepMetric>,
    /// Whether those behind the first three are shown only if they vary.
    default: bool,
}

impl Asked {
    fn new(args: &SweepArgs, scenario: &Scenario) -> anyhow::Result<Asked> {
        let known = possible_metrics(scenario);
        let default = args.metrics.is_empty();
        let mut metrics: Vec<SweepMetric> = Vec::new();
        let names = match (default, scenario.vms.first()) {
            (true, Some(vm)) => {
                let of_vm = ["latency_p99", "exits"].into_iter().chain(COST_SHARES);
                works(scenario).chain(of_vm.map(|name| format!("{}.{name}", vm.name))).collect()
            }
            (true, None) => works(scenario).collect(),
            (false, _) => args.metrics.clone(),
        };
        for name in names {
            let metric = find(&known, &name)?;
            match metrics.iter().any(|other| other.name == metric.name) {
                true => bail!("--metric names {name} twice"),
                false => metrics.push(metric),
            }
        }
        if let Some(best) = &args.best {
            let name = best.trim_start_matches(['-', '+']);
            let mut metric = find(&known, name).context("--best")?;
            match best.chars().next() {
                Some('-') => metric.higher_is_better = Some(false),
                Some('+') => metric.higher_is_better = Some(true),
                _ if metric.higher_is_better.is_none() => {
                    bail!("--best: neither more nor less {name} is better: say +{name} or -{name}")
                }
                _ => {}
            }
            metrics.retain(|other| other.name != metric.name);
            metrics.insert(0, metric);
        }
        Ok(Asked { metrics, default })
    }

    fn figures(&self, metrics: impl IntoIterator<Item = (String, f64)>) -> Figures {
        let values: FxHashMap<String, f64> = metrics.into_iter().collect();
        self.metrics.iter().map(|metric| values.get(&metric.name).copied()).collect()
    }

    /// The figures to show; the others leave the configurations.
    fn shown(self, configurations: &mut [Configuration]) -> Vec<SweepMetric> {
        let Asked { metrics, default } = self;
        let varies = |at: usize| {
            let runs = configurations.iter().filter_map(|of| of.runs.as_ref().ok());
            let means: Vec<f64> = runs
                .filter_map(|runs| {
                    let values: Vec<f64> = runs.iter().filter_map(|figures| figures[at]).collect();
                    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
                })
                .collect();
            let least = means.iter().copied().fold(f64::INFINITY, f64::min);
            let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (least, most)
        };
        let keep: Vec<bool> = metrics
            .iter()
            .enumerate()
            .map(|(at, metric)| {
                let (least, most) = varies(at);
                !default || at == 0 || most >= least && (metric.measure != Measure::Share || most - least >= VARIES)
            })
            .collect();
        for configuration in configurations {
            for figures in configuration.runs.iter_mut().flatten() {
                let mut keep = keep.iter();
                figures.retain(|_| keep.next() == Some(&true));
            }
        }
        metrics.into_iter().zip(keep).filter_map(|(metric, keep)| keep.then_some(metric)).collect()
    }
}

/// The work done, and the CPU time that it takes: more of the one is often bought with the other.
fn works(scenario: &Scenario) -> impl Iterator<Item = String> {
    throughputs(scenario).into_iter().chain([SweepMetric::BUSY_CPUS.to_string()])
}

/// The throughputs to show: of everything together if only one kind of work is counted, else of each kind.
fn throughputs(scenario: &Scenario) -> Vec<String> {
    let of_vms = scenario.vms.iter().filter(|vm| vm.programs.iter().any(|(_, program)| counts(program)));
    let of_threads = scenario.threads.iter().filter(|thread| counts(&thread.program));
    let names: Vec<&String> = of_vms.map(|vm| &vm.name).chain(of_threads.map(|thread| &thread.name)).collect();
    match names.len() {
        0 | 1 => vec!["throughput".to_string()],
        _ => names.into_iter().map(|name| format!("{name}.throughput")).collect(),
    }
}

/// Whether a program counts work.
fn counts(program: &[Op]) -> bool {
    program.iter().any(|op| match op {
        Op::Count => true,
        Op::Repeat(_, body) => counts(body),
        Op::Pick(ways) => ways.iter().any(|(_, ops)| counts(ops)),
        _ => false,
    })
}

/// Lists the figures that runs of a scenario can have.
fn list_figures(scenario: &Scenario, out: &mut dyn Write) -> anyhow::Result<()> {
    for metric in possible_metrics(scenario) {
        let SweepMetric { name, unit, .. } = SweepMetric::of(metric);
        writeln!(out, "{name:<40} {}", unit.name())?;
    }
    Ok(())
}

/// The figure of this name.
fn find(known: &[Metric], name: &str) -> anyhow::Result<SweepMetric> {
    if let Some(metric) = known.iter().find(|metric| metric.name == name) {
        return Ok(SweepMetric::of(metric.clone()));
    }
    let names = || known.iter().map(|metric| metric.name.as_str());
    // Names without whose they are count as near, too.
    let whole = sim::nearest(name, names());
    let part = || sim::nearest(name, names().filter_map(|known| known.split_once('.')).map(|row| row.1));
    let near: Vec<&str> = match (whole, part()) {
        (Some(near), _) => vec![near],
        (None, Some(part)) => names().filter(|known| known.split_once('.').is_some_and(|row| row.1 == part)).collect(),
        (None, None) => vec![],
    };
    match near[..] {
        [] => bail!("there is no figure {name:?}; `--metric help` lists them"),
        _ => bail!("there is no figure {name:?}; did you mean {}?", near.join(" or ")),
    }
}

/// Runs every replicate of every configuration that makes sense; in the order of configurations, then replicates.
fn run_all(
    args: &SweepArgs,
    grid: &Grid,
    checked: &[Result<(), String>],
    asked: &Asked,
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
        let figures = one_run(scenario, replicate as u64, sim::limits(&args.limits));
        progress.inc(1);
        figures.map(|figures| asked.figures(figures))
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.map_or(0, usize::from)).build()?;
    let figures = pool.install(|| (0..runs).into_par_iter().with_max_len(1).map(one).collect());
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
