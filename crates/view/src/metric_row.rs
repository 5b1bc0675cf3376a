//! A figure of a simulated run: as a row, and as a text.

use crate::FigureUnit;
use crate::names::{share, thousands};
use exitscope_scenario::outcome::OutcomeUnit;
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetricRow {
    /// Its name, such as `web.exits.halt`.
    pub name: String,
    /// Its value, in `unit`.
    pub value: f64,
    /// What it is measured in.
    pub unit: FigureUnit,
    /// What it is measured in.
    #[serde(skip)]
    pub measure: OutcomeUnit,
}

/// A figure for a person.
pub(crate) fn value_text(value: f64, measure: OutcomeUnit) -> String {
    match measure {
        OutcomeUnit::Nanos => Nanos(value.round() as u64).to_string(),
        OutcomeUnit::Share => share(value),
        OutcomeUnit::PerSecond if value == 0.0 || value >= 100.0 => format!("{}/s", thousands(value.round() as u64)),
        OutcomeUnit::PerSecond => format!("{value:.1}/s"),
        OutcomeUnit::Count => format!("{value:.2}"),
    }
}
