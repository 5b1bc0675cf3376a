//! What figures are measured in.

use exitscope_scenario::findings::Unit;
use exitscope_scenario::outcome::OutcomeUnit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// Nanoseconds.
    Ns,
    /// Ticks of the time stamp counter.
    Cycles,
    /// Things a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A part of a whole, 0 to 1.
    Share,
    /// A number of things.
    Count,
}

impl FigureUnit {
    /// As JSON and CSV spell it.
    pub fn name(self) -> &'static str {
        match self {
            FigureUnit::Ns => "ns",
            FigureUnit::Cycles => "cycles",
            FigureUnit::PerSecond => "1/s",
            FigureUnit::Share => "share",
            FigureUnit::Count => "count",
        }
    }
}

impl From<OutcomeUnit> for FigureUnit {
    fn from(measure: OutcomeUnit) -> FigureUnit {
        match measure {
            OutcomeUnit::PerSecond => FigureUnit::PerSecond,
            OutcomeUnit::Nanos => FigureUnit::Ns,
            OutcomeUnit::Share => FigureUnit::Share,
            OutcomeUnit::Count => FigureUnit::Count,
        }
    }
}

impl From<Unit> for FigureUnit {
    fn from(unit: Unit) -> FigureUnit {
        match unit {
            Unit::Nanos => FigureUnit::Ns,
            Unit::Cycles => FigureUnit::Cycles,
            Unit::PerSecond => FigureUnit::PerSecond,
            Unit::Share => FigureUnit::Share,
            Unit::Count => FigureUnit::Count,
        }
    }
}
