//! Runs experiments, and sets what comes out beside what was published.

use crate::experiment::{
    EXPERIMENT_COUNT, Experiment, ExperimentError, ExperimentRow, FigureFormula, KeyOverride, RowRole,
};
use crate::not_modelled::{NotModelled, not_modelled};
use crate::published::{Published, published};
use exitscope_scenario::Scenario;
use exitscope_sim::{Limits, Unseen, run};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How far a simulated gain may be from the published one to count as near.
const NEAR: f64 = 0.25;

/// By how much a figure has to be above the first one of a curve for the curve to have begun to rise.
const ONSET: f64 = 0.1;

/// What came of all experiments.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Validation {
    /// Version of this form.
    pub schema: &'static str,
    /// The experiments.
    pub experiments: Vec<ExperimentResult>,
    /// All predicted rows.
    pub predicted: Count,
    /// Those that are predictions of their own: none follows from other rows by arithmetic, or could not come out otherwise.
    pub independent: Count,
    /// How well the published figure of the configuration before predicts independent rows, by experiment and figure.
    pub copied: Vec<Copied>,
    /// Rows that tell of a change, and whose direction is wrong.
    pub wrong: u32,
    /// The published figures that no experiment stands for; empty if not all experiments were run.
    pub not_modelled: Vec<NotModelled>,
}

impl Validation {
    /// Whether a row goes in the wrong direction by itself, and not only because of the rows from which it follows.
    pub fn has_failed(&self) -> bool {
        let mut rows = self.experiments.iter().flat_map(|experiment| &experiment.rows);
        rows.any(|row| row.verdict == FitVerdict::Wrong && row.follows.is_empty())
    }
}

/// Rows, and how many are near.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    /// Rows.
    pub rows: u32,
    /// Those that lie within 25 % of what was published.
    pub near: u32,
    /// Rows that tell of a change.
    pub changes: u32,
    /// Those that lie within 25 % of the published change.
    pub changes_near: u32,
}

impl Count {
    fn of<'a>(rows: impl Iterator<Item = (&'a ExperimentRow, &'a RowResult)>) -> Count {
        let mut count = Count::default();
        for (row, result) in rows {
            let (near, change) = (result.verdict == FitVerdict::Near, is_change(&row.figure));
            count.rows += 1;
            count.near += u32::from(near);
            count.changes += u32::from(change);
            count.changes_near += u32::from(change && near);
        }
        count
    }
}

/// Independent rows of one figure, predicted by the simulation, and by copying what was published of the configuration
/// before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Copied {
    /// The experiment.
    pub experiment: String,
    /// The figure of an outcome that stands for these rows.
    pub figure: String,
    /// Rows whose figure is published of a configuration before.
    pub rows: u32,
    /// How many of them the simulation is near.
    pub simulated_near: u32,
    /// How many of them the copied figure is near.
    pub copied_near: u32,
    /// Of how many the simulated figure is nearer than the copied one, as a ratio.
    pub simulated_nearer: u32,
    /// How many differ from the configuration before as published. The copy has no direction.
    pub moved: u32,
    /// How many of these the simulation has in the published direction.
    pub direction_right: u32,
}

/// What came of one experiment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExperimentResult {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub description: String,
    /// The numbers of the cost model that are not the default ones, and where they are from.
    pub costs: Vec<CostRow>,
    /// What was fitted to the calibrated rows beside them.
    pub fitted: Vec<String>,
    /// Its rows.
    pub rows: Vec<RowResult>,
    /// What the simulation leaves out or assumes.
    pub remarks: Vec<String>,
}

/// A number of the cost model that is not the default one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CostRow {
    /// The cost model: `docs/models.md` shows all of it.
    pub model: String,
    /// Its name.
    pub name: String,
    /// How long, in nanoseconds.
    pub ns: f64,
    /// `published`, `calibrated` or `assumed`.
    pub origin: String,
    /// Source or reason.
    pub source: String,
}

/// One published row beside its simulated counterpart.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RowResult {
    /// The published row.
    pub id: String,
    /// What was measured.
    pub what: String,
    /// The published figure; of a range, what of it is nearest to the simulated one.
    pub published: f64,
    /// The range, if one was published.
    pub published_range: Option<[f64; 2]>,
    /// Its unit.
    pub unit: String,
    /// The simulated one: the mean over replicates.
    pub simulated: f64,
    /// The least and the greatest of the replicates.
    pub range: [f64; 2],
    /// Simulated over published.
    pub ratio: f64,
    /// Whether the cost model was fitted to it.
    pub role: RowRole,
    /// How it stands.
    pub verdict: FitVerdict,
    /// The rows from which it follows by arithmetic.
    pub follows: Vec<String>,
    /// Why it could not come out otherwise, if so.
    pub given: Option<String>,
    /// What was published of the configuration before; absent if nothing was.
    pub previous: Option<Previous>,
    /// Whether the figure itself tells of a change.
    #[serde(skip)]
    pub(crate) change: bool,
}

/// A row's figure as it was published of the configuration before, taken as a prediction.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Previous {
    /// Its row.
    pub id: String,
    /// The figure.
    pub published: f64,
    /// How it stands as a prediction.
    pub verdict: FitVerdict,
    /// Whether the simulated figure differs from the simulated one of that row in the direction in which the published ones
    /// differ; absent if these are equal.
    pub direction: Option<bool>,
}

/// How a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FitVerdict {
    /// Within 25 % of the published change, or of the figure where it tells of no change.
    Near,
    /// Further off: a change in the right direction, or a plain figure.
    Far,
    /// In the wrong direction.
    Wrong,
}

impl FitVerdict {
    /// How a figure stands as the prediction of what was published.
    fn of(row: &ExperimentRow, published: f64, predicted: f64) -> FitVerdict {
        let zero = row.zero();
        let (wanted, got) = (published - zero, predicted - zero);
        match () {
            _ if got == wanted => FitVerdict::Near,
            _ if is_change(&row.figure) && wanted * got <= 0.0 => FitVerdict::Wrong,
            _ if (got / wanted - 1.0).abs() <= NEAR => FitVerdict::Near,
            _ => FitVerdict::Far,
        }
    }
}

/// Runs all experiments of `list`, each run so often with seeds of its own.
pub fn validate(list: &[Experiment], replicates: u32) -> Result<Validation, ExperimentError> {
    let table = published();
    let results: Vec<ExperimentResult> =
        list.iter().map(|experiment| validate_one(experiment, &table, replicates)).collect::<Result<_, _>>()?;
    let rows = || list.iter().zip(&results).flat_map(|(experiment, result)| experiment.row.iter().zip(&result.rows));
    let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    Ok(Validation {
        schema: "exitscope.validate/1",
        predicted: Count::of(rows().filter(|(row, _)| row.role == RowRole::Predicted)),
        independent: Count::of(rows().filter(|(row, _)| row.is_independent())),
        copied: list.iter().zip(&results).flat_map(|(experiment, result)| copied(experiment, result)).collect(),
        not_modelled: not_modelled(list, &table, EXPERIMENT_COUNT)?,
        wrong: number(rows().filter(|(_, result)| result.verdict == FitVerdict::Wrong).count()),
        experiments: results,
    })
}

/// Both predictions of an experiment's independent rows, by figure.
fn copied(experiment: &Experiment, result: &ExperimentResult) -> Vec<Copied> {
    let mut list: Vec<Copied> = Vec::new();
    for (row, result) in experiment.row.iter().zip(&result.rows).filter(|(row, _)| row.is_independent()) {
        let Some(previous) = &result.previous else { continue };
        let at = list.iter().position(|of| of.figure == row.metric).unwrap_or_else(|| {
            let (experiment, figure) = (experiment.name.clone(), row.metric.clone());
            list.push(Copied { experiment, figure, ..Copied::default() });
            list.len() - 1
        });
        let off = |figure: f64| (figure / result.published).ln().abs();
        let of = &mut list[at];
        of.rows += 1;
        of.simulated_near += u32::from(result.verdict == FitVerdict::Near);
        of.copied_near += u32::from(previous.verdict == FitVerdict::Near);
        of.simulated_nearer += u32::from(off(result.simulated) < off(previous.published));
        of.moved += u32::from(previous.direction.is_some());
        of.direction_right += u32::from(previous.direction == Some(true));
    }
    list
}

fn validate_one(
    experiment: &Experiment,
    table: &[Published],
    replicates: u32,
) -> Result<ExperimentResult, ExperimentError> {
    let rows = rows_with(experiment, table, replicates, &[])?;
    let mut costs: Vec<CostRow> = Vec::new();
    for run in experiment.run.keys() {
        let model = experiment.scenario(run)?.costs;
        if costs.iter().all(|row| row.model != model.name) {
            costs.extend(changed_costs(&model));
        }
    }
    let fitted = experiment.fit.iter().map(|fit| format!("{} ({})", fit.description, fit.rows.join(", "))).collect();
    Ok(ExperimentResult {
        name: experiment.name.clone(),
        description: experiment.description.clone(),
        costs,
        fitted,
        rows,
        remarks: experiment.remarks.clone(),
    })
}

/// How far the calibrated rows of an experiment are from the published ones with some keys set otherwise: the sum of the
/// squares of what they are off by, as parts of what they should be.
pub fn misfit(experiment: &Experiment, replicates: u32, settings: &[KeyOverride]) -> Result<f64, ExperimentError> {
    let mut calibrated = experiment.clone();
    calibrated.row.retain(|row| row.role == RowRole::Calibrated);
    let needed: BTreeSet<&String> = calibrated.row.iter().flat_map(|row| row.figure.runs()).collect();
    calibrated.run.retain(|name, _| needed.contains(name));
    let off = |row: &ExperimentRow, result: &RowResult| {
        let zero = row.zero();
        ((result.simulated - zero) / (result.published - zero) - 1.0).powi(2)
    };
    let rows = rows_with(&calibrated, &published(), replicates, settings)?;
    Ok(calibrated.row.iter().zip(&rows).map(|(row, result)| off(row, result)).sum())
}

/// Runs an experiment, and makes its rows.
fn rows_with(
    experiment: &Experiment,
    table: &[Published],
    replicates: u32,
    settings: &[KeyOverride],
) -> Result<Vec<RowResult>, ExperimentError> {
    let mut jobs = Vec::new();
    for name in experiment.run.keys() {
        let scenario = experiment.scenario_with(name, settings)?;
        for replicate in 0..replicates.max(1) {
            let seed = scenario.seed.wrapping_add(u64::from(replicate));
            jobs.push((name.as_str(), Scenario { seed, ..scenario.clone() }));
        }
    }
    let figures = run_all(&experiment.name, &jobs)?;
    let rows = experiment.row.iter().map(|row| compare(experiment, row, table, &figures)).collect::<Result<_, _>>()?;
    Ok(with_directions(rows))
}

/// The rows, with the directions in which they differ from those of the configuration before.
fn with_directions(mut rows: Vec<RowResult>) -> Vec<RowResult> {
    let simulated: BTreeMap<String, f64> = rows.iter().map(|row| (row.id.clone(), row.simulated)).collect();
    for row in &mut rows {
        let Some(previous) = &mut row.previous else { continue };
        let published = row.published - previous.published;
        let before = simulated.get(&previous.id).filter(|_| published != 0.0);
        previous.direction = before.map(|before| (row.simulated - before) * published > 0.0);
    }
    rows
}

fn changed_costs(costs: &exitscope_scenario::CostModel) -> Vec<CostRow> {
    let plain = exitscope_scenario::CostModel::default();
    let rows = exitscope_scenario::CostModel::ROWS.iter().filter_map(|(name, _)| {
        let cost = costs.get(name)?;
        (Some(cost) != plain.get(name)).then(|| CostRow {
            model: costs.name.clone(),
            name: name.to_string(),
            ns: cost.time.0 as f64 / 1_000.0,
            origin: cost.origin.word().to_string(),
            source: cost.source.clone(),
        })
    });
    rows.collect()
}

fn is_change(figure: &FigureFormula) -> bool {
    matches!(figure, FigureFormula::Ratio(_) | FigureFormula::Gain(_) | FigureFormula::Drop(_))
}

/// Of each replicate, the place of the first run whose figure is more than [`ONSET`] above the first run's; one behind the last
/// if none is.
fn onset(runs: &[Vec<f64>]) -> Vec<f64> {
    let first = runs.first().map_or(&[][..], |run| run);
    let place = |(replicate, base): (usize, &f64)| {
        let above = runs.iter().position(|run| run.get(replicate).is_some_and(|value| *value > base * (1.0 + ONSET)));
        above.unwrap_or(runs.len()) as f64 + 1.0
    };
    first.iter().enumerate().map(place).collect()
}

/// The figures of each run: a map for each replicate.
pub(crate) type Figures = BTreeMap<String, Vec<BTreeMap<String, f64>>>;

/// Runs scenarios, several at once; each comes with the name of its run.
pub(crate) fn run_all(experiment: &str, jobs: &[(&str, Scenario)]) -> Result<Figures, ExperimentError> {
    let outcomes = jobs.par_iter().map(|(name, scenario)| {
        let (outcome, _) = run(scenario, Unseen, Limits::default()).map_err(|source| ExperimentError::Run {
            name: experiment.to_string(),
            run: name.to_string(),
            source,
        })?;
        Ok((*name, outcome.metrics(scenario).into_iter().map(|metric| (metric.name, metric.value)).collect()))
    });
    let outcomes: Vec<(&str, BTreeMap<String, f64>)> = outcomes.collect::<Result<_, ExperimentError>>()?;
    let mut figures = Figures::new();
    for (name, metrics) in outcomes {
        figures.entry(name.to_string()).or_default().push(metrics);
    }
    Ok(figures)
}

/// What a row is by the figures of its runs: a value for each replicate.
pub(crate) fn simulated(experiment: &str, row: &ExperimentRow, figures: &Figures) -> Result<Vec<f64>, ExperimentError> {
    let missing = |what: String| ExperimentError::Missing { name: experiment.to_string(), row: row.id.clone(), what };
    let of = |run: &str, metric: &str| -> Result<Vec<f64>, ExperimentError> {
        let replicates = figures.get(run).ok_or_else(|| missing(format!("run {run}")))?;
        let value = |metrics: &BTreeMap<String, f64>| metrics.get(metric).copied();
        replicates.iter().map(value).collect::<Option<_>>().ok_or_else(|| missing(format!("metric {metric}")))
    };
    let over = row.over.as_ref().unwrap_or(&row.metric);
    let pair = |runs: &[String; 2], make: fn(f64, f64) -> f64| -> Result<Vec<f64>, ExperimentError> {
        Ok(of(&runs[0], &row.metric)?.into_iter().zip(of(&runs[1], over)?).map(|(a, b)| make(a, b)).collect())
    };
    let values: Vec<f64> = match &row.figure {
        FigureFormula::Value(run) => of(run, &row.metric)?,
        FigureFormula::Per(run) => pair(&[run.clone(), run.clone()], |a, b| a / b)?,
        FigureFormula::Ratio(runs) => pair(runs, |a, b| a / b)?,
        FigureFormula::Gain(runs) => pair(runs, |a, b| (a / b - 1.0) * 100.0)?,
        FigureFormula::Drop(runs) => pair(runs, |a, b| (1.0 - a / b) * 100.0)?,
        FigureFormula::Difference(runs) => pair(runs, |a, b| a - b)?,
        FigureFormula::Onset(runs) => {
            let of_runs = runs.iter().map(|run| of(run, &row.metric)).collect::<Result<Vec<_>, _>>()?;
            onset(&of_runs)
        }
    };
    Ok(values.into_iter().map(|value| value * row.scale).collect())
}

fn compare(
    experiment: &Experiment,
    row: &ExperimentRow,
    table: &[Published],
    figures: &Figures,
) -> Result<RowResult, ExperimentError> {
    let missing = |what: String| ExperimentError::Missing { name: experiment.name.clone(), row: row.id.clone(), what };
    let find = |id: &str| {
        let published = table.iter().find(|published| published.id == id);
        let published = published.ok_or_else(|| missing(format!("published row {id}")))?;
        Ok((published, published.range().ok_or_else(|| missing(format!("number in the published row {id}")))?))
    };
    let (published, [low, high]) = find(&row.id)?;
    let values = simulated(&experiment.name, row, figures)?;
    let simulated = values.iter().sum::<f64>() / values.len() as f64;
    let range = values.iter().fold([f64::MAX, f64::MIN], |[low, high], value| [low.min(*value), high.max(*value)]);
    let figure = simulated.clamp(low, high);
    let previous = row.previous.as_ref().map(|id| {
        let [published, _] = find(id)?.1;
        let verdict = FitVerdict::of(row, figure, published);
        // `directions` says it, when all rows are there.
        Ok(Previous { id: id.clone(), published, verdict, direction: None })
    });
    Ok(RowResult {
        id: row.id.clone(),
        what: published.what(),
        published: figure,
        published_range: (low < high).then_some([low, high]),
        unit: published.unit.clone(),
        simulated,
        range,
        ratio: if simulated == figure { 1.0 } else { simulated / figure },
        role: row.role,
        verdict: FitVerdict::of(row, figure, simulated),
        follows: row.follows.clone(),
        given: row.given.clone(),
        previous: previous.transpose()?,
        change: is_change(&row.figure),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_begins_to_rise_where_it_is_a_tenth_above_its_first_value() {
        let runs = [vec![100.0, 100.0, 100.0], vec![109.0, 111.0, 90.0], vec![120.0, 300.0, 109.0]];
        assert_eq!(onset(&runs), [3.0, 2.0, 4.0]);
        assert!(onset(&[]).is_empty());
    }
}
