//! The simulator against published measurements.
//!
//! ```text
//! published.csv ────────────────────────────┐
//! experiments/*.toml: runs, rows ─┐         ▼
//! experiments/*.scenario.toml ────┴► sim ─► published | simulated | ratio | calibrated or predicted
//! ```
//!
//! An experiment is one scenario, the ways in which its runs differ, and the published rows that runs stand for. A row is
//! either calibrated (a number of the cost model was chosen so that it comes out) or predicted; of the predicted ones, those
//! that follow from others by arithmetic or are given by the configuration do not count as predictions. No result is stored
//! anywhere but in `published.csv`, and that is read only to be compared with. Each row of it is in an experiment, or in
//! `not-modelled.toml` with the reason; what can be predicted of it at all is decided in `classes.toml`. Figures that were published and are not in it are predicted in `docs/predictions.csv`.

mod classes;
mod compare;
mod experiment;
mod lab_agreement;
mod lab_cells;
mod lab_costs;
mod lab_page;
mod not_modelled;
mod page;
mod predictions;
mod published;
mod tried;

pub use classes::{Predictability, RowClass, row_classes};
pub use compare::{
    Copied, CostRow, Count, ExperimentResult, FitVerdict, Previous, RowResult, Validation, misfit, validate,
};
pub use experiment::{
    Experiment, ExperimentError, ExperimentRow, FigureFormula, Fit, KeyOverride, RowRole, experiments,
};
pub use lab_agreement::{
    LabAgreement, LabPrediction, LabPredictionError, LabPredictions, TriedCell, cells_table, costs_table, predict_cells,
};
pub use lab_cells::{LabCell, LabSetting, PAIRS, PortAnswer, SEED, lab_cells};
pub use lab_costs::{LAB_EXPERIMENTS, LabCost, LabCostError, LabExperiment, LabMachineCosts, LabReading};
pub use not_modelled::{NotModelled, NotModelledRow};
pub use page::{validation_page, write_validation_csv, write_validation_markdown};
pub use predictions::{
    BlindPrediction, PredictionRuns, SpreadFigure, later_predictions, predicted_again, prediction_runs, predictions,
};
pub use published::{Published, published};
