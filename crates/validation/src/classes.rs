//! What can be predicted of each published row, as it was decided before the model was touched: `classes.toml`.

use crate::compare::Validation;
use crate::experiment::{ExperimentError, RowRole};
use serde::Deserialize;

/// The table, as it is kept.
const TABLE: &str = include_str!("../classes.toml");

/// Published rows of one class, for one reason.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowClass {
    /// Which class.
    pub class: Predictability,
    /// The covariates, of rows that need them.
    pub given: Option<String>,
    /// By how many per cent of the published figure a prediction from them may be off.
    pub within: Option<f64>,
    /// Why these rows are in this class.
    pub because: String,
    /// The published rows.
    pub rows: Vec<String>,
}

/// What can be predicted of a published row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Predictability {
    /// It follows from the inputs.
    Follows,
    /// It is predictable with covariates of the same measurement.
    Covariates,
    /// It is not predictable.
    Not,
}

impl Predictability {
    /// All three, in the order of tables.
    pub const ALL: [Predictability; 3] = [Predictability::Follows, Predictability::Covariates, Predictability::Not];

    /// What tables call it.
    pub const fn word(self) -> &'static str {
        match self {
            Predictability::Follows => "follows from inputs",
            Predictability::Covariates => "predictable given covariates",
            Predictability::Not => "not predictable",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassFile {
    class: Vec<RowClass>,
}

/// The classes of all published rows.
pub fn row_classes() -> Result<Vec<RowClass>, ExperimentError> {
    let file: Result<ClassFile, _> = toml::from_str(TABLE);
    Ok(file.map_err(|source| ExperimentError::File { name: "classes".to_string(), source })?.class)
}

impl RowClass {
    /// How many of its rows are simulated without being fitted, given or worked out from others, and how many of these lie within the
    /// tolerance. `None` if it has no tolerance.
    pub fn within_tolerance(&self, validation: &Validation) -> Option<[usize; 2]> {
        let within = self.within? / 100.0;
        let rows = validation.experiments.iter().flat_map(|experiment| &experiment.rows);
        let own = rows.filter(|row| {
            let independent = row.role == RowRole::Predicted && row.follows.is_empty() && row.given.is_none();
            independent && self.rows.contains(&row.id)
        });
        let near: Vec<bool> = own.map(|row| (row.ratio - 1.0).abs() <= within).collect();
        Some([near.len(), near.iter().filter(|near| **near).count()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::published;

    #[test]
    fn every_published_row_has_one_class_and_what_needs_covariates_names_them_with_a_tolerance() {
        let classes = row_classes().unwrap();
        let mut ids: Vec<&str> = classes.iter().flat_map(|of| of.rows.iter().map(String::as_str)).collect();
        ids.sort_unstable();
        let table = published();
        let mut all: Vec<&str> = table.iter().map(|row| row.id.as_str()).collect();
        all.sort_unstable();
        assert_eq!(ids, all, "each once");
        for of in &classes {
            let needs = of.class == Predictability::Covariates;
            assert_eq!((of.given.is_some(), of.within.is_some()), (needs, needs), "{}", of.because);
            assert!(of.within.is_none_or(|within| within > 0.0 && within <= 25.0), "{}", of.because);
            assert!(of.because.ends_with('.') && of.because.len() > 30, "{}", of.because);
        }
    }

    #[test]
    fn what_follows_from_inputs_is_no_figure_that_a_number_was_fitted_to() {
        let classes = row_classes().unwrap();
        let follows: Vec<&String> =
            classes.iter().filter(|of| of.class == Predictability::Follows).flat_map(|of| &of.rows).collect();
        for experiment in crate::experiments().unwrap() {
            for row in experiment.row.iter().filter(|row| follows.contains(&&row.id)) {
                assert_eq!(row.role, RowRole::Predicted, "{}", row.id);
            }
        }
    }

    #[test]
    fn a_row_outside_its_tolerance_is_not_counted_as_within() {
        let list: Vec<_> = crate::experiments().unwrap().into_iter().filter(|of| of.name == "exit-cost").collect();
        let validation = crate::validate(&list, 1).unwrap();
        let class = |within, row: &str| RowClass {
            class: Predictability::Covariates,
            given: Some("the machine".to_string()),
            within,
            because: "A test's.".to_string(),
            rows: vec![row.to_string()],
        };
        // 430 ns are simulated where 410 are published.
        assert_eq!(class(Some(10.0), "CYCLES-023").within_tolerance(&validation), Some([1, 1]));
        assert_eq!(class(Some(4.0), "CYCLES-023").within_tolerance(&validation), Some([1, 0]));
        assert_eq!(class(Some(10.0), "CYCLES-014").within_tolerance(&validation), Some([0, 0]), "fitted");
        assert_eq!(class(None, "CYCLES-023").within_tolerance(&validation), None);
    }
}
