//! Which figures of its runs a sweep shows: those asked for, or the usual ones as far as they vary.

use crate::sweep::{Configuration, SweepMetric};
use exitscope_scenario::outcome::{Metric, OutcomeUnit};
use exitscope_scenario::{Op, Scenario, nearest_name};
use rustc_hash::FxHashMap;

/// Shares of a VM's time that are shown if they vary, by this much at least.
const COST_SHARES: [&str; 7] =
    ["spinning", "guest_polling", "polling", "kernel", "user_space", "steal", "user_space_asleep"];
const VARIES: f64 = 0.001;

/// Why the figures asked for cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SweepMetricsError {
    /// No run has a figure of that name; what was probably meant.
    #[error("there is no figure {0:?}; {1}")]
    NoSuchFigure(String, String),
    /// One is asked for twice.
    #[error("--metric names {0} twice")]
    Twice(String),
    /// Neither more nor less of it is better.
    #[error("--best: neither more nor less {0} is better: say +{0} or -{0}")]
    NoDirection(String),
    /// The one that decides is not there.
    #[error("--best")]
    Best(#[source] Box<SweepMetricsError>),
}

/// Which figures were asked for.
pub struct SweepMetrics {
    metrics: Vec<SweepMetric>,
    /// Whether those behind the first three are shown only if they vary.
    default: bool,
}

impl SweepMetrics {
    /// Those `asked` for by name, and the one that decides what is `best`, among all that runs of a scenario may have.
    pub fn new(
        asked: &[String],
        best: Option<&str>,
        known: &[Metric],
        scenario: &Scenario,
    ) -> Result<SweepMetrics, SweepMetricsError> {
        let default = asked.is_empty();
        let mut metrics: Vec<SweepMetric> = Vec::new();
        let names = match (default, scenario.vms.first()) {
            (true, Some(vm)) => {
                let of_vm = ["latency_p99", "exits"].into_iter().chain(COST_SHARES);
                works(scenario).chain(of_vm.map(|name| format!("{}.{name}", vm.name))).collect()
            }
            (true, None) => works(scenario).collect(),
            (false, _) => asked.to_vec(),
        };
        for name in names {
            let metric = find(known, &name)?;
            match metrics.iter().any(|other| other.name == metric.name) {
                true => return Err(SweepMetricsError::Twice(name)),
                false => metrics.push(metric),
            }
        }
        if let Some(best) = best {
            let name = best.trim_start_matches(['-', '+']);
            let mut metric = find(known, name).map_err(|error| SweepMetricsError::Best(error.into()))?;
            match best.chars().next() {
                Some('-') => metric.higher_is_better = Some(false),
                Some('+') => metric.higher_is_better = Some(true),
                _ if metric.higher_is_better.is_none() => {
                    return Err(SweepMetricsError::NoDirection(name.to_string()));
                }
                _ => {}
            }
            metrics.retain(|other| other.name != metric.name);
            metrics.insert(0, metric);
        }
        Ok(SweepMetrics { metrics, default })
    }

    /// The figures of a run, in this order.
    pub fn figures(&self, metrics: impl IntoIterator<Item = (String, f64)>) -> Vec<Option<f64>> {
        let values: FxHashMap<String, f64> = metrics.into_iter().collect();
        self.metrics.iter().map(|metric| values.get(&metric.name).copied()).collect()
    }

    /// The figures to show; the others leave the configurations.
    pub fn shown(self, configurations: &mut [Configuration]) -> Vec<SweepMetric> {
        let SweepMetrics { metrics, default } = self;
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
                !default || at == 0 || most >= least && (metric.measure != OutcomeUnit::Share || most - least >= VARIES)
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

/// The figure of this name.
fn find(known: &[Metric], name: &str) -> Result<SweepMetric, SweepMetricsError> {
    if let Some(metric) = known.iter().find(|metric| metric.name == name) {
        return Ok(SweepMetric::of(metric.clone()));
    }
    let names = || known.iter().map(|metric| metric.name.as_str());
    // Names without whose they are count as near, too.
    let whole = nearest_name(name, names());
    let part = || nearest_name(name, names().filter_map(|known| known.split_once('.')).map(|row| row.1));
    let near: Vec<&str> = match (whole, part()) {
        (Some(near), _) => vec![near],
        (None, Some(part)) => names().filter(|known| known.split_once('.').is_some_and(|row| row.1 == part)).collect(),
        (None, None) => vec![],
    };
    let near = match near[..] {
        [] => "`--metric help` lists them".to_string(),
        _ => format!("did you mean {}?", near.join(" or ")),
    };
    Err(SweepMetricsError::NoSuchFigure(name.to_string(), near))
}
