//! The simulator beside the lab: predictions of cells, written before any of them is run, and what became of them.
//!
//! ```text
//! LabCost of this machine ─► draws within their bounds ─► each cell simulated before and after its change ─► LabPredictions (a file)
//! the file, rounds of both in the lab ─► LabAgreement: sign, order, size, coverage, nulls
//! ```

use crate::lab_cells::{LabCell, lab_cells};
use crate::lab_costs::{LAB_EXPERIMENTS, LabCost, LabCostError, LabMachineCosts};
use exitscope_scenario::Scenario;
use exitscope_scenario::findings::{FindingFigure, FindingRow, FindingsTable, Unit};
use exitscope_sim::{Limits, SimError, Unseen, latin_hypercube, run};
use exitscope_stats::{Bootstrap, MeanChange, quantile_of_sorted};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Draws of what is uncertain, each with a seed of its own.
const DRAWS: usize = 16;

/// By what a prediction may be off beside what costs are uncertain by, as the logarithm of a ratio in 80 of 100: said before the first
/// run, from how far simulated changes are off published ones.
const MODEL_ERROR: f64 = 0.14;

/// A size is near within this factor.
const NEAR: f64 = 1.25;

/// Of intervals of what was measured.
const LEVEL: f64 = 0.05;

/// What is predicted of a cell: how many times as much work is done after the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPrediction {
    /// What is changed.
    #[serde(flatten)]
    pub cell: LabCell,
    /// The middle of all draws.
    pub times: f64,
    /// Within what it is expected in 80 of 100.
    pub bounds: [f64; 2],
}

/// What is predicted of all cells, and by what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPredictions {
    /// When, in seconds since 1970.
    pub written: u64,
    /// By which version.
    pub version: String,
    /// On which host.
    pub host: String,
    /// What the cells are chosen by.
    pub seed: u64,
    /// What was measured of the machine.
    pub costs: Vec<LabCost>,
    /// A row for each cell.
    pub cells: Vec<LabPrediction>,
}

/// Why cells cannot be predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabPredictionError {
    /// The machine's figures are no costs.
    #[error(transparent)]
    Costs(#[from] LabCostError),
    /// A simulation failed.
    #[error("{}: {source}", labels.join("; "))]
    Sim {
        /// The cell.
        labels: [String; 2],
        /// What happened.
        source: SimError,
    },
}

/// Predicts the cells of a seed on a machine.
pub fn predict_cells(seed: u64, costs: &[LabCost]) -> Result<Vec<LabPrediction>, LabPredictionError> {
    let draws = latin_hypercube(DRAWS, LAB_EXPERIMENTS.len(), seed);
    let machines = draws.par_iter().map(|at| LabMachineCosts::of(costs, at)).collect::<Result<Vec<_>, _>>()?;
    lab_cells(seed).into_par_iter().map(|cell| predict(cell, &machines)).collect()
}

fn predict(cell: LabCell, machines: &[LabMachineCosts]) -> Result<LabPrediction, LabPredictionError> {
    let mut logs = Vec::new();
    for (machine, seed) in machines.iter().zip(1..) {
        let done = |scenario: Scenario, seed: u64| -> Result<f64, LabPredictionError> {
            let mut scenario = Scenario { seed, ..scenario };
            machine.give(&mut scenario);
            let (outcome, _) = run(&scenario, Unseen, Limits::default())
                .map_err(|source| LabPredictionError::Sim { labels: cell.labels(), source })?;
            Ok(outcome.vms.iter().map(|of| of.work.count).sum::<u64>().max(1) as f64)
        };
        // A null is another run of the same.
        let after = done(cell.after.scenario(), seed + u64::from(cell.is_null()) * machines.len() as u64)?;
        logs.push((after / done(cell.before.scenario(), seed)?).ln());
    }
    logs.sort_by(f64::total_cmp);
    let at = |part: f64| logs[((logs.len() - 1) as f64 * part).round() as usize];
    let (low, middle, high) = (at(0.1), at(0.5), at(0.9));
    let bounds = [middle - (middle - low).hypot(MODEL_ERROR), middle + (high - middle).hypot(MODEL_ERROR)];
    Ok(LabPrediction { cell, times: middle.exp(), bounds: bounds.map(f64::exp) })
}

/// A cell that was predicted and run.
#[derive(Clone, Debug, PartialEq)]
pub struct TriedCell {
    /// What was predicted.
    pub predicted: LabPrediction,
    /// Work a second before and after the change, by round.
    pub rounds: Vec<(f64, f64)>,
}

impl TriedCell {
    /// The logarithm of how many times as much work was done after the change, and its 95 % interval.
    pub fn measured(&self) -> Option<(f64, (f64, f64))> {
        let change = MeanChange::paired(&self.logs())?;
        Some((change.by, change.interval(LEVEL))).filter(|of| of.0.is_finite())
    }

    fn logs(&self) -> Vec<(f64, f64)> {
        self.rounds.iter().map(|(before, after)| (before.ln(), after.ln())).collect()
    }

    /// By what other such rounds would have measured another mean, for each resample of these; none of too few rounds.
    fn noise(&self, bootstrap: &mut Bootstrap) -> Vec<f64> {
        let changes: Vec<f64> = self.logs().iter().map(|(before, after)| after - before).collect();
        let rounds = changes.len() as f64;
        let mean = changes.iter().sum::<f64>() / rounds;
        // Means of resamples of so few vary less than means of other rounds would.
        let scale = f64::sqrt(rounds / (rounds - 1.0)) / rounds;
        let off = |times: Vec<u32>| {
            times.iter().zip(&changes).map(|(times, by)| f64::from(*times) * (by - mean)).sum::<f64>()
        };
        bootstrap.draw(std::slice::from_ref(&(0..changes.len()))).into_iter().map(|times| off(times) * scale).collect()
    }

    /// Whether rounds tell its sign.
    fn is_certain(&self) -> bool {
        self.measured().is_some_and(|(_, (low, high))| low > 0.0 || high < 0.0)
    }
}

/// What became of predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabAgreement {
    /// Cells with a change, and of these those that something was measured of.
    pub cells: [usize; 2],
    /// Cells whose sign the rounds tell.
    pub certain: usize,
    /// Of these, those with the predicted sign.
    pub right: usize,
    /// Certain cells whose sign is not plain, and those of them with the predicted sign.
    pub hard: [usize; 2],
    /// Kendall's tau-b of predicted and measured changes.
    pub tau: Option<f64>,
    /// The tau that predictions would have of which each is exactly right, by the noise of the rounds: its median, and within what 90
    /// of 100 are.
    pub exact_tau: Option<(f64, [f64; 2])>,
    /// Cells whose size is predicted within a quarter, and those of which "no change" is within a quarter.
    pub near: [usize; 2],
    /// The root mean square of the logarithm of predicted over measured, and of 1 over measured.
    pub error: [f64; 2],
    /// Cells that lie within their bounds.
    pub covered: usize,
    /// Cells in which nothing was changed, and those of them in which something seemed to.
    pub nulls: [usize; 2],
}

impl LabAgreement {
    /// Of cells.
    pub fn of(tried: &[TriedCell]) -> LabAgreement {
        let is_null = |of: &&TriedCell| of.predicted.cell.is_null();
        let changed: Vec<&TriedCell> = tried.iter().filter(|of| !is_null(of)).collect();
        let measured: Vec<(&TriedCell, f64)> = changed.iter().filter_map(|of| Some((*of, of.measured()?.0))).collect();
        let predicted = |of: &TriedCell| of.predicted.times.ln();
        let right = |(of, by): &&(&TriedCell, f64)| predicted(of) * by > 0.0;
        let certain: Vec<_> = measured.iter().copied().filter(|(of, _)| of.is_certain()).collect();
        let hard: Vec<_> = certain.iter().copied().filter(|(of, _)| !of.predicted.cell.plain).collect();
        let near = |by: f64| by.abs() <= NEAR.ln();
        let within = |(of, by): &&(&TriedCell, f64)| {
            let [low, high] = of.predicted.bounds.map(f64::ln);
            low <= *by && *by <= high
        };
        let rms = |of: &dyn Fn(&(&TriedCell, f64)) -> f64| {
            (measured.iter().map(|pair| of(pair).powi(2)).sum::<f64>() / measured.len().max(1) as f64).sqrt()
        };
        let pairs: Vec<(f64, f64)> = measured.iter().map(|(of, by)| (predicted(of), *by)).collect();
        let nulls = tried.iter().filter(is_null);
        LabAgreement {
            cells: [changed.len(), measured.len()],
            certain: certain.len(),
            right: certain.iter().filter(right).count(),
            hard: [hard.len(), hard.iter().filter(right).count()],
            tau: kendall(&pairs),
            exact_tau: exact_tau(&measured.iter().map(|(of, _)| *of).collect::<Vec<_>>()),
            near: [
                measured.iter().filter(|(of, by)| near(predicted(of) - by)).count(),
                measured.iter().filter(|(_, by)| near(*by)).count(),
            ],
            error: [rms(&|(of, by)| predicted(of) - by), rms(&|(_, by)| *by)],
            covered: measured.iter().filter(within).count(),
            nulls: [nulls.clone().count(), nulls.filter(|of| of.is_certain()).count()],
        }
    }

    /// Whether every sign that is certain is as predicted, and nothing moved where nothing was changed.
    pub fn is_right(&self) -> bool {
        self.right == self.certain && self.nulls[1] == 0
    }

    /// Whether anything can be told: all cells were measured, and some moved beyond their noise.
    pub fn is_judged(&self) -> bool {
        let [changed, measured] = self.cells;
        self.certain > 0 && measured == changed
    }

    /// What they come to, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        let [changed, measured] = self.cells;
        let mut said = vec![
            format!(
                "{} of {} certain signs as predicted; of those that are not plain, {} of {}. {} of {changed} cells are within the \
                 noise of their rounds.",
                self.right,
                self.certain,
                self.hard[1],
                self.hard[0],
                measured - self.certain
            ),
            format!(
                "{} of {changed} sizes within 25 % (of \"no change\": {}). Root mean square of the logarithms: {:.2} (of \"no \
                 change\": {:.2}).",
                self.near[0], self.near[1], self.error[0], self.error[1]
            ),
            format!("{} of {changed} within their 80 % bounds.", self.covered),
        ];
        said.extend(self.tau.map(|tau| format!("Kendall's tau of predicted and measured changes: {tau:.2}.")));
        said.extend(self.exact_tau.map(|(median, [low, high])| {
            format!(
                "If each prediction were exactly right, it would be {median:.2} by the noise of the rounds ({low:.2} to {high:.2} in \
                 90 of 100)."
            )
        }));
        said.push(format!("Where nothing was changed, {} of {} seemed to change.", self.nulls[1], self.nulls[0]));
        if measured < changed {
            said.push(format!("Of {} cells nothing was measured.", changed - measured));
        }
        if self.certain == 0 {
            said.push("No change is certain, so these rounds do not judge the simulator: more of them may (--repeat, --duration).".into());
        }
        said
    }
}

/// Which tau predictions would have that are exactly right, if rounds are as noisy as these.
fn exact_tau(tried: &[&TriedCell]) -> Option<(f64, [f64; 2])> {
    let mut bootstrap = Bootstrap::default();
    let noise: Vec<Vec<f64>> = tried.iter().map(|of| of.noise(&mut bootstrap)).collect();
    let resamples = noise.iter().map(Vec::len).min()?;
    let tau = |at: usize| {
        let with_noise =
            |(of, noise): (&&TriedCell, &Vec<f64>)| (of.predicted.times.ln(), of.predicted.times.ln() + noise[at]);
        kendall(&tried.iter().zip(&noise).map(with_noise).collect::<Vec<_>>())
    };
    let mut taus: Vec<f64> = (0..resamples).filter_map(tau).collect();
    taus.sort_by(f64::total_cmp);
    let [low, median, high] = [500, 5_000, 9_500].map(|per_10_000| quantile_of_sorted(&taus, per_10_000));
    Some((median?, [low?, high?]))
}

/// Kendall's tau-b: how much more pairs are in the same order than in the other, ties counted.
fn kendall(pairs: &[(f64, f64)]) -> Option<f64> {
    let (mut sum, mut orders) = (0.0, [0.0; 2]);
    let order = |one: f64, other: f64| one.partial_cmp(&other).map_or(0.0, |order| f64::from(order as i8));
    for (at, one) in pairs.iter().enumerate() {
        for other in &pairs[..at] {
            let of = [order(one.0, other.0), order(one.1, other.1)];
            sum += of[0] * of[1];
            orders.iter_mut().zip(of).for_each(|(sum, of)| *sum += of.abs());
        }
    }
    let scale = f64::sqrt(orders[0] * orders[1]);
    (scale > 0.0).then(|| sum / scale)
}

/// What was measured of the machine.
pub fn costs_table(costs: &[LabCost]) -> FindingsTable {
    let row = |of: &LabCost| {
        let about = LAB_EXPERIMENTS.iter().find(|experiment| experiment.name == of.name).map_or("", |of| of.about);
        let time =
            FindingFigure { interval: Some(of.bounds.into()), ..FindingFigure::plain("time", Unit::Nanos, of.ns) };
        FindingRow { labels: vec![of.name.clone(), about.to_string()], figures: vec![time], ..FindingRow::default() }
    };
    FindingsTable {
        title: "What this machine takes",
        labels: vec!["experiment", "what"],
        rows: costs.iter().map(row).collect(),
    }
}

/// What was predicted of each cell, and measured.
pub fn cells_table(predicted: &[LabPrediction], tried: &[TriedCell]) -> FindingsTable {
    let ratio = |name, value: f64, bounds: [f64; 2]| FindingFigure {
        interval: Some(bounds.into()),
        ..FindingFigure::plain(name, Unit::Count, value)
    };
    let row = |of: &LabPrediction| {
        let mut figures = vec![ratio("predicted", of.times, of.bounds)];
        let ran = tried.iter().find(|ran| ran.predicted == *of);
        if let Some((by, (low, high))) = ran.and_then(TriedCell::measured) {
            figures.push(ratio("measured", by.exp(), [low.exp(), high.exp()]));
        }
        FindingRow { labels: of.cell.labels().to_vec(), figures, ..FindingRow::default() }
    };
    FindingsTable {
        title: "How many times as much work after a change",
        labels: vec!["change", "with"],
        rows: predicted.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab_cells::SEED;

    fn tried(times: &[f64], measured: &[f64]) -> Vec<TriedCell> {
        let cells = lab_cells(SEED);
        let of = |((cell, times), measured): ((&LabCell, &f64), &f64)| {
            let bounds = [times * 0.9, times * 1.1];
            let rounds = [0.999, 1.0, 1.001].map(|noise| (100.0, 100.0 * measured * noise)).to_vec();
            TriedCell { predicted: LabPrediction { cell: *cell, times: *times, bounds }, rounds }
        };
        cells.iter().zip(times).zip(measured).map(of).collect()
    }

    #[test]
    fn a_cell_is_predicted_within_its_bounds_and_a_null_is_no_change() {
        let figures = crate::lab_costs::tests::figures();
        let machines =
            [LabMachineCosts::of(&figures, &[]).unwrap(), LabMachineCosts::of(&figures, &[0.6; 12]).unwrap()];
        let cells = lab_cells(SEED);
        let user = cells.iter().find(|cell| cell.labels()[0].ends_with("user space")).unwrap();
        for (cell, from, to) in [(user, 0.5, 0.95), (cells.last().unwrap(), 0.95, 1.05)] {
            let predicted = predict(*cell, &machines).unwrap();
            let [low, high] = predicted.bounds;
            assert!(low < predicted.times && predicted.times < high, "{predicted:?}");
            assert!(from < predicted.times && predicted.times < to, "{predicted:?}");
        }
    }

    #[test]
    fn signs_order_sizes_and_bounds_are_counted_against_no_change() {
        let of = LabAgreement::of(&tried(&[2.0, 0.5, 1.2, 1.05], &[1.9, 0.6, 0.85, 1.0]));
        assert_eq!((of.cells, of.certain, of.right), ([4, 4], 3, 2));
        assert_eq!((of.near, of.covered), ([3, 2], 2));
        assert!(of.error[0] < of.error[1], "{of:?}");
        // Of six pairs, five are in order.
        assert!((of.tau.unwrap() - 4.0 / 6.0).abs() < 1e-9, "{of:?}");
        assert!(of.sentences()[0].starts_with("2 of 3 certain signs"), "{:?}", of.sentences());
    }

    #[test]
    fn a_null_is_no_cell_and_one_that_moves_is_told() {
        let cells = lab_cells(SEED);
        let mut tried = tried(&[1.5], &[1.5]);
        for measured in [1.0, 1.3] {
            let predicted = LabPrediction { cell: *cells.last().unwrap(), times: 1.0, bounds: [0.9, 1.1] };
            let rounds = [0.999, 1.0, 1.001].map(|noise| (100.0, 100.0 * measured * noise)).to_vec();
            tried.push(TriedCell { predicted, rounds });
        }
        let of = LabAgreement::of(&tried);
        assert_eq!((of.cells, of.nulls), ([1, 1], [2, 1]));
    }

    #[test]
    fn predictions_that_are_exactly_right_have_the_tau_that_noise_leaves() {
        let times = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
        let exact = |noise: f64, rounds: usize| {
            let mut tried = tried(&times, &times);
            for (number, of) in tried.iter_mut().enumerate() {
                let by = |round: usize| ((round * 7 + number * 3) % 11) as f64 / 11.0 - 0.5;
                of.rounds =
                    (0..rounds).map(|round| (100.0, 100.0 * times[number] * (noise * by(round)).exp())).collect();
            }
            LabAgreement::of(&tried).exact_tau
        };
        assert_eq!(exact(0.01, 10), Some((1.0, [1.0, 1.0])));
        let (median, [low, high]) = exact(1.0, 10).unwrap();
        assert!(low < median && median < high && (0.3..0.95).contains(&median), "{median} {low} {high}");
        // More rounds leave less noise.
        assert!(exact(1.0, 40).unwrap().0 > median);
        assert_eq!(exact(1.0, 3), None, "too few rounds to tell");
    }

    #[test]
    fn kendall_s_tau_counts_ties() {
        assert_eq!(kendall(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), Some(1.0));
        assert_eq!(kendall(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        assert_eq!(kendall(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }
}
