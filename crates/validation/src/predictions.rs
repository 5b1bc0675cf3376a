//! Published configurations whose figures are not in the table: what is predicted of them, written down before they are known.
//!
//! ```text
//! docs/predictions.csv: a row for each figure: value, 80 % interval, basis, reason; or why it is not predicted
//! predictions/*.toml: runs of a scenario, over ranges of what is assumed ─► sim ─► what a basis that names a scenario rests on
//! ```
//!
//! The file is what was predicted, and is not made from the scenarios: a later simulator gives other figures, and `cargo xtask
//! predictions` prints them beside it. What it gave at the end is kept as well, in docs/predictions-2.csv.

use crate::compare::{Figures, run_all, simulated};
use crate::experiment::{Experiment, ExperimentError, ExperimentRow, FigureFormula, KeyOverride, RowRole, experiments};
use crate::published::published;
use exitscope_scenario::{Scenario, ScenarioDocument};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What was predicted, as it is kept.
const PREDICTIONS: &str = include_str!("../../../docs/predictions.csv");

/// The same at the end of the work on the simulator that followed: `cargo xtask predictions --again` printed it.
const LATER: &str = include_str!("../../../docs/predictions-2.csv");

/// What the runs gave when the first file was written: the medians that `cargo xtask predictions` printed then.
const FIRST: &str = include_str!("../predictions/first.csv");

/// Each file of runs, and the scenario that it may bring.
const FILES: &[(&str, &str, Option<&str>)] = &[
    ("zvm", include_str!("../predictions/zvm.toml"), None),
    (
        "sap-hana",
        include_str!("../predictions/sap-hana.toml"),
        Some(include_str!("../predictions/sap-hana.scenario.toml")),
    ),
];

/// A line of docs/predictions.csv.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlindPrediction {
    /// The published row.
    pub id: String,
    /// What is predicted; absent if nothing is.
    pub value: Option<f64>,
    /// The interval that is to hold the figure with a probability of 80 %: its least value.
    pub low: Option<f64>,
    /// Its greatest value.
    pub high: Option<f64>,
    /// The unit of all three, as in the table of published figures.
    pub unit: String,
    /// The file of runs that it rests on (`zvm`, `sap-hana`); empty if it is worked out without the simulator.
    pub scenario: String,
    /// From which runs, or by which arithmetic over which published rows; "not predicted" or "given" if there is no value.
    pub basis: String,
    /// Why the interval is so wide; of what is not predicted, why not.
    pub because: String,
}

/// All predictions, or the line that is none.
pub fn predictions() -> Result<Vec<BlindPrediction>, csv::Error> {
    csv::Reader::from_reader(PREDICTIONS.as_bytes()).deserialize().collect()
}

/// The same by the later simulator.
pub fn later_predictions() -> Result<Vec<BlindPrediction>, csv::Error> {
    csv::Reader::from_reader(LATER.as_bytes()).deserialize().collect()
}

/// What was simulated of a figure when it was predicted.
#[derive(Deserialize)]
struct FirstFigure {
    id: String,
    median: f64,
}

/// The file of predictions anew: each value, and its bounds, as much higher or lower as what is simulated of it is now. A figure that is
/// worked out without the simulator stays as it is.
pub fn predicted_again() -> Result<Vec<BlindPrediction>, Box<dyn std::error::Error>> {
    let first: Vec<FirstFigure> = csv::Reader::from_reader(FIRST.as_bytes()).deserialize().collect::<Result<_, _>>()?;
    let mut figures: Vec<SpreadFigure> = Vec::new();
    for runs in prediction_runs()? {
        figures.extend(runs.simulate(&[])?);
    }
    let times = |id: &str| {
        let now = figures.iter().find(|of| of.id == id)?.median;
        Some(now / first.iter().find(|of| of.id == id)?.median)
    };
    let again = |kept: BlindPrediction| match times(&kept.id) {
        Some(times) => kept.times(times),
        None => kept,
    };
    Ok(predictions()?.into_iter().map(again).collect())
}

impl BlindPrediction {
    /// So many times as much; a percentage that cannot be more than 100 stays below.
    fn times(self, times: f64) -> BlindPrediction {
        let is_part = self.unit == "%" && self.high.is_some_and(|high| high <= 100.0);
        let most = if is_part { 100.0 } else { f64::INFINITY };
        let moved = |of: f64| four_digits((of * times).min(most));
        BlindPrediction { value: self.value.map(moved), low: self.low.map(moved), high: self.high.map(moved), ..self }
    }
}

/// Rounded to four digits.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Runs that predict figures that are not in the table of published ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionRuns {
    /// Its name.
    pub name: String,
    /// The experiment whose scenario and runs these begin with, or a scenario of its own.
    scenario: String,
    /// How many seeds each combination is run with.
    replicates: u32,
    /// The runs, by name.
    run: BTreeMap<String, RunSettings>,
    /// What is not known, and the values that it is given: every combination of them is run.
    #[serde(default)]
    spread: Vec<Spread>,
    /// The figures.
    row: Vec<PredictedRow>,
    #[serde(skip)]
    base: Option<Experiment>,
    #[serde(skip)]
    text: Option<&'static str>,
}

#[derive(Clone, Debug, Deserialize)]
struct RunSettings {
    /// The experiment's run that it begins with.
    like: Option<String>,
    #[serde(flatten)]
    set: BTreeMap<String, String>,
}

/// Keys of a scenario whose values are not known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spread {
    #[expect(dead_code, reason = "for whoever reads the file")]
    description: String,
    keys: Vec<String>,
    values: Vec<String>,
}

/// A figure, and how it is made of the runs.
#[derive(Clone, Debug, Deserialize)]
struct PredictedRow {
    id: String,
    /// The published row that is multiplied with the simulated figure, a ratio.
    times: Option<String>,
    metric: String,
    over: Option<String>,
    #[serde(flatten)]
    figure: FigureFormula,
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

/// What the runs make of a figure, over all combinations of what is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadFigure {
    /// The published row.
    pub id: String,
    /// The middle one of the combinations' figures.
    pub median: f64,
    /// The figures that a tenth of the combinations lies below and above.
    pub tenths: [f64; 2],
    /// The least and the greatest.
    pub range: [f64; 2],
    /// How many combinations there are.
    pub combinations: usize,
}

/// All files of runs.
pub fn prediction_runs() -> Result<Vec<PredictionRuns>, ExperimentError> {
    let known = experiments()?;
    let read = |(name, file, text): &(&str, &str, Option<&'static str>)| {
        let fail = |source| ExperimentError::File { name: name.to_string(), source };
        let runs: PredictionRuns = toml::from_str(file).map_err(fail)?;
        let base = known.iter().find(|of| of.name == runs.scenario).cloned();
        Ok(PredictionRuns { base, text: *text, ..runs })
    };
    FILES.iter().map(read).collect()
}

impl PredictionRuns {
    /// The ids of its figures.
    pub fn ids(&self) -> Vec<&str> {
        self.row.iter().map(|row| row.id.as_str()).collect()
    }

    /// The names of the runs that its figures need.
    pub fn runs(&self) -> BTreeSet<&str> {
        self.row.iter().flat_map(|row| row.figure.runs()).map(String::as_str).collect()
    }

    /// The scenario of a run with some keys set otherwise.
    pub fn scenario(&self, run: &str, settings: &[KeyOverride]) -> Result<Scenario, ExperimentError> {
        let missing = |what: String| ExperimentError::Missing { name: self.name.clone(), row: run.to_string(), what };
        let own = self.run.get(run);
        let mut all: Vec<KeyOverride> = Vec::new();
        let sets = own.into_iter().flat_map(|own| &own.set);
        all.extend(sets.map(|(key, value)| KeyOverride { runs: &[], key, value }));
        all.extend(settings);
        if let Some(base) = &self.base {
            let like = own.map_or(Some(run), |own| own.like.as_deref());
            let like = like.filter(|like| base.run.contains_key(*like));
            let like = like.ok_or_else(|| missing("run of the experiment that it begins with".to_string()))?;
            return base.scenario_with(like, &all);
        }
        let text = self.text.ok_or_else(|| missing(format!("scenario {}", self.scenario)))?;
        own.ok_or_else(|| missing("run of this name".to_string()))?;
        let fail = |source| ExperimentError::Scenario { name: self.name.clone(), source };
        let mut document = ScenarioDocument::parse(&format!("{}.scenario.toml", self.name), text).map_err(fail)?;
        for setting in all {
            document.set(setting.key, setting.value).map_err(fail)?;
        }
        document.scenario().map_err(fail)
    }

    /// Every combination of the values of what is not known.
    fn combinations(&self) -> Vec<Vec<KeyOverride<'_>>> {
        let mut all: Vec<Vec<KeyOverride>> = vec![Vec::new()];
        for Spread { keys, values, .. } in &self.spread {
            let mut longer = Vec::new();
            for combination in &all {
                for value in values {
                    let own = keys.iter().map(|key| KeyOverride { runs: &[], key, value });
                    longer.push(combination.iter().copied().chain(own).collect());
                }
            }
            all = longer;
        }
        all
    }

    /// Runs every combination with some keys set otherwise, and makes of each figure what a tenth, half and nine tenths of them are
    /// below.
    pub fn simulate(&self, settings: &[KeyOverride]) -> Result<Vec<SpreadFigure>, ExperimentError> {
        let table = published();
        let mut of_rows: Vec<Vec<f64>> = vec![Vec::new(); self.row.len()];
        for combination in self.combinations() {
            let figures = self.figures(&[&combination, settings].concat())?;
            for (row, values) in self.row.iter().zip(&mut of_rows) {
                let plain = row.plain();
                let made = simulated(&self.name, &plain, &figures)?;
                let mean = made.iter().sum::<f64>() / made.len() as f64;
                let times = match &row.times {
                    None => 1.0,
                    Some(id) => table.iter().find(|of| of.id == *id).and_then(|of| of.number()).ok_or_else(|| {
                        let what = format!("number in the published row {id}");
                        ExperimentError::Missing { name: self.name.clone(), row: row.id.clone(), what }
                    })?,
                };
                values.push(mean * times);
            }
        }
        let figure = |(row, mut values): (&PredictedRow, Vec<f64>)| {
            values.sort_by(f64::total_cmp);
            let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
            SpreadFigure {
                id: row.id.clone(),
                median: at(0.5),
                tenths: [at(0.1), at(0.9)],
                range: [at(0.0), at(1.0)],
                combinations: values.len(),
            }
        };
        Ok(self.row.iter().zip(of_rows).map(figure).collect())
    }

    fn figures(&self, combination: &[KeyOverride]) -> Result<Figures, ExperimentError> {
        let mut jobs = Vec::new();
        for run in self.runs() {
            let scenario = self.scenario(run, combination)?;
            for replicate in 0..self.replicates.max(1) {
                let seed = scenario.seed.wrapping_add(u64::from(replicate));
                jobs.push((run, Scenario { seed, ..scenario.clone() }));
            }
        }
        run_all(&self.name, &jobs)
    }
}

impl PredictedRow {
    /// The row as one of an experiment.
    fn plain(&self) -> ExperimentRow {
        ExperimentRow {
            id: self.id.clone(),
            role: RowRole::Predicted,
            follows: Vec::new(),
            given: None,
            previous: None,
            metric: self.metric.clone(),
            over: self.over.clone(),
            figure: self.figure.clone(),
            scale: self.scale,
        }
    }
}
