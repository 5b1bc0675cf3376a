//! Experiments: which runs of which scenario stand for which published rows.

use exitscope_scenario::{Scenario, ScenarioDocument, ScenarioError};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Each experiment's name, file and scenario.
const EXPERIMENTS: &[(&str, &str, &str)] = &[
    (
        "gang-ebizzy",
        include_str!("../experiments/gang-ebizzy.toml"),
        include_str!("../experiments/gang-ebizzy.scenario.toml"),
    ),
    (
        "gang-host",
        include_str!("../experiments/gang-host.toml"),
        include_str!("../experiments/gang-host.scenario.toml"),
    ),
    ("xen-pio", include_str!("../experiments/xen-pio.toml"), include_str!("../experiments/xen-pio.scenario.toml")),
    (
        "xen-iometer",
        include_str!("../experiments/xen-iometer.toml"),
        include_str!("../experiments/xen-iometer.scenario.toml"),
    ),
    (
        "halt-polling",
        include_str!("../experiments/halt-polling.toml"),
        include_str!("../experiments/halt-polling.scenario.toml"),
    ),
    (
        "diagnose-9c",
        include_str!("../experiments/diagnose-9c.toml"),
        include_str!("../experiments/diagnose-9c.scenario.toml"),
    ),
    ("redis", include_str!("../experiments/redis.toml"), include_str!("../experiments/redis.scenario.toml")),
    (
        "exit-cost-x86",
        include_str!("../experiments/exit-cost-x86.toml"),
        include_str!("../experiments/exit-cost-x86.scenario.toml"),
    ),
    (
        "exit-cost",
        include_str!("../experiments/exit-cost.toml"),
        include_str!("../experiments/exit-cost.scenario.toml"),
    ),
    (
        "exit-delay",
        include_str!("../experiments/exit-delay.toml"),
        include_str!("../experiments/exit-delay.scenario.toml"),
    ),
    ("big-lock", include_str!("../experiments/big-lock.toml"), include_str!("../experiments/big-lock.scenario.toml")),
];

/// One published experiment, simulated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What was measured, on what, in a sentence or two.
    pub description: String,
    /// What was fitted to the calibrated rows: `cargo run --release -p exitscope-validation --example refit` does so anew.
    #[serde(default)]
    pub fit: Vec<Fit>,
    /// What the simulation leaves out or assumes, and why rows that miss do so.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The runs, by name: what each sets in the scenario.
    pub run: BTreeMap<String, BTreeMap<String, String>>,
    /// The rows.
    pub row: Vec<ExperimentRow>,
    #[serde(skip)]
    scenario: String,
}

/// A free parameter: what its value is fitted to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// What it is.
    pub description: String,
    /// The calibrated rows that it was fitted to.
    pub rows: Vec<String>,
    /// The keys of the scenario that have its value, `costs.<name>` for one of the cost model.
    pub keys: Vec<String>,
    /// The runs in which they are set; none: all.
    #[serde(default)]
    pub runs: Vec<String>,
    /// The least value to try.
    pub from: f64,
    /// The greatest value to try.
    pub to: f64,
    /// What stands behind the number.
    #[serde(default)]
    pub unit: String,
}

/// A key that is set otherwise.
#[derive(Clone, Copy, Debug)]
pub struct KeyOverride<'a> {
    /// The runs in which it is; none: all.
    pub runs: &'a [String],
    /// The key, as [`ScenarioDocument::set`] takes it.
    pub key: &'a str,
    /// Its value.
    pub value: &'a str,
}

/// A published row, and how it is read off the runs.
#[derive(Clone, Debug, Deserialize)]
pub struct ExperimentRow {
    /// Which published row.
    pub id: String,
    /// Whether the cost model was fitted to it.
    pub role: RowRole,
    /// The rows from which this one follows by arithmetic, so that it is no prediction of its own.
    #[serde(default)]
    pub follows: Vec<String>,
    /// Why it could not come out otherwise, whatever was simulated: no prediction, either.
    pub given: Option<String>,
    /// The row of the same figure with the configuration before this one. To copy that is the least that a prediction has
    /// to be better than.
    pub previous: Option<String>,
    /// The figure of an outcome that stands for it.
    pub metric: String,
    /// The figure that the second run gives, where it is another one.
    pub over: Option<String>,
    /// How the figure is made of runs.
    #[serde(flatten)]
    pub figure: FigureFormula,
    /// From the simulator's unit to the published one.
    #[serde(default = "one")]
    pub scale: f64,
}

fn one() -> f64 {
    1.0
}

/// Whether a row is a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowRole {
    /// A number of the cost model was chosen so that it comes out.
    Calibrated,
    /// Nothing was fitted to it.
    Predicted,
}

/// How a row is made of runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureFormula {
    /// The metric of one run.
    Value(String),
    /// The metric of the first over that of the second.
    Ratio([String; 2]),
    /// By how many per cent the first is more than the second.
    Gain([String; 2]),
    /// By how many per cent the first is less than the second.
    Drop([String; 2]),
    /// The metric of the first without that of the second.
    Difference([String; 2]),
    /// The metric of one run over another metric (`over`) of it.
    Per(String),
    /// Which of the runs, counted from one, is the first whose metric is 10 % above that of the first; one more than there are
    /// if none is.
    Onset(Vec<String>),
}

impl FigureFormula {
    /// The runs that it is made of.
    pub fn runs(&self) -> Vec<&String> {
        match self {
            FigureFormula::Value(run) | FigureFormula::Per(run) => vec![run],
            FigureFormula::Ratio(runs)
            | FigureFormula::Gain(runs)
            | FigureFormula::Drop(runs)
            | FigureFormula::Difference(runs) => runs.iter().collect(),
            FigureFormula::Onset(runs) => runs.iter().collect(),
        }
    }
}

impl ExperimentRow {
    /// Whether it is a prediction that could have failed by itself.
    pub fn is_independent(&self) -> bool {
        self.role == RowRole::Predicted && self.follows.is_empty() && self.given.is_none()
    }

    /// What the figure is where nothing changes.
    pub(crate) fn zero(&self) -> f64 {
        if matches!(self.figure, FigureFormula::Ratio(_)) { self.scale } else { 0.0 }
    }
}

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Its file is wrong.
    #[error("experiment {name}: {source}")]
    File {
        /// Which experiment.
        name: String,
        /// What is wrong.
        source: toml::de::Error,
    },
    /// Its scenario is wrong.
    #[error("experiment {name}: {source}")]
    Scenario {
        /// Which experiment.
        name: String,
        /// What is wrong.
        source: ScenarioError,
    },
    /// A run did not reach its end.
    #[error("experiment {name}, run {run}: {source}")]
    Run {
        /// Which experiment.
        name: String,
        /// Which run.
        run: String,
        /// What happened.
        source: exitscope_sim::SimError,
    },
    /// A row names what is not there.
    #[error("experiment {name}, row {row}: there is no {what}")]
    Missing {
        /// Which experiment.
        name: String,
        /// Which row.
        row: String,
        /// What is missing.
        what: String,
    },
}

/// How many experiments there are.
pub(crate) const EXPERIMENT_COUNT: usize = EXPERIMENTS.len();

/// All experiments.
pub fn experiments() -> Result<Vec<Experiment>, ExperimentError> {
    let read = |(name, file, scenario): &(&str, &str, &str)| {
        let experiment: Experiment =
            toml::from_str(file).map_err(|source| ExperimentError::File { name: name.to_string(), source })?;
        Ok(Experiment { scenario: scenario.to_string(), ..experiment })
    };
    EXPERIMENTS.iter().map(read).collect()
}

impl Experiment {
    /// The scenario of a run.
    pub fn scenario(&self, run: &str) -> Result<Scenario, ExperimentError> {
        self.scenario_with(run, &[])
    }

    /// The scenario of a run with some keys set otherwise.
    pub fn scenario_with(&self, run: &str, settings: &[KeyOverride]) -> Result<Scenario, ExperimentError> {
        let fail = |source| ExperimentError::Scenario { name: self.name.clone(), source };
        let origin = format!("{}.scenario.toml", self.name);
        let mut document = ScenarioDocument::parse(&origin, &self.scenario).map_err(fail)?;
        let own = self.run.get(run).into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        let here = |setting: &&KeyOverride| setting.runs.is_empty() || setting.runs.iter().any(|of| of == run);
        let others = settings.iter().filter(here).map(|setting| (setting.key, setting.value));
        for (key, value) in own.chain(others) {
            document.set(key, value).map_err(fail)?;
        }
        document.scenario().map_err(fail)
    }
}
