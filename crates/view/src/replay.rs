//! A replay as plain data: one row for each setting.

use crate::FigureUnit;
use crate::report::{CoverageLine, SelectionRow, TraceRow};
use crate::sweep::{AxisRow, NamedValues};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What other settings of a policy would have made of a recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Replay {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The recording that was read.
    pub trace: TraceRow,
    /// What was seen and not used.
    pub coverage: Vec<CoverageLine>,
    /// The selection of the recording that was replayed.
    pub selection: SelectionRow,
    /// The policy whose settings were varied, such as `host_halt_poll`.
    pub policy: &'static str,
    /// What the policy was run over, in a sentence.
    pub over: String,
    /// The settings that were in force when this was recorded, as far as the recording shows them; else the defaults.
    pub in_force: Vec<KnobValueRow>,
    /// How many of the kernel's own decisions the policy makes as well, under the settings in force.
    pub decisions: Option<DecisionsRow>,
    /// The knobs that were varied, and their values.
    pub vary: Vec<AxisRow>,
    /// The figures of each row.
    pub figures: Vec<FigureRow>,
    /// The figure by which the best row is marked, if any.
    pub best_by: Option<FigureRow>,
    /// The settings, the first of `vary` changing slowest.
    pub rows: Vec<ReplayRow>,
    /// What has to be known to read the figures.
    pub notes: Vec<String>,
}

/// A setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KnobValueRow {
    /// The name of the knob.
    pub knob: &'static str,
    /// Its value, in the kernel's spelling.
    pub value: String,
}

/// The kernel's decisions, and ours.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct DecisionsRow {
    /// Decisions of the kernel that the recording shows: to change a value, or to leave it.
    pub known: u64,
    /// Those of `known` at which the replay decides the same, value by value.
    pub same: u64,
    /// Those of `known` that changed a value.
    pub changes: u64,
    /// Those of `changes` at which the replay changes to the same value.
    pub same_changes: u64,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FigureRow {
    /// The name of the figure.
    pub name: &'static str,
    /// The unit in which rows have it.
    pub unit: FigureUnit,
    /// Whether more of it is better.
    pub higher_is_better: bool,
    /// What the figure means, in words.
    pub description: &'static str,
    /// Columns of higher rank leave first where a terminal is too narrow.
    #[serde(skip)]
    pub rank: u8,
}

/// One setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReplayRow {
    /// A column for each knob that was varied, then one for each figure; null if there is none.
    #[serde(flatten)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub columns: NamedValues,
    /// Whether these are the figures as they were recorded, not replayed.
    pub recorded: bool,
    /// Whether these are the settings that were in force.
    pub in_force: bool,
    /// Whether it is the best.
    pub best: bool,
    /// The values, in the order of `vary`.
    #[serde(skip)]
    pub labels: Vec<String>,
    /// The figures, in their order.
    #[serde(skip)]
    pub values: Vec<Option<f64>>,
}

impl Replay {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.replay/1";

    /// Marks the best row.
    pub fn mark_best(&mut self) {
        let Some(at) = self.best_by.as_ref().and_then(|by| self.figures.iter().position(|figure| figure == by)) else {
            return;
        };
        let sign = if self.figures[at].higher_is_better { 1.0 } else { -1.0 };
        // What was recorded competes with nothing that was replayed, unless it stands for the settings in force.
        let competes = |row: &ReplayRow| row.in_force || !row.recorded;
        let merit = |row: &ReplayRow| row.values[at].filter(|_| competes(row)).map(|value| value * sign);
        let most = self.rows.iter().filter_map(merit).fold(f64::NEG_INFINITY, f64::max);
        for row in &mut self.rows {
            row.best = merit(row).is_some_and(|merit| merit >= most);
        }
    }

    /// The names of the rows' columns.
    pub fn columns(&self) -> Vec<String> {
        let figures = self.figures.iter().map(column_name);
        self.vary.iter().map(|axis| axis.column.clone()).chain(figures).collect()
    }

    /// The lines of the coverage that say that figures are affected.
    pub fn damage(&self) -> impl Iterator<Item = &CoverageLine> {
        self.coverage.iter().filter(|line| matches!(line.severity, "loss" | "error"))
    }
}

fn column_name(figure: &FigureRow) -> String {
    match figure.unit {
        FigureUnit::Ns => format!("{}_ns", figure.name),
        FigureUnit::Cycles => format!("{}_cycles", figure.name),
        _ => figure.name.to_string(),
    }
}

impl ReplayRow {
    /// A row of these values of the axes and the figures.
    pub fn of(vary: &[AxisRow], labels: Vec<String>, figures: &[FigureRow], values: Vec<Option<f64>>) -> ReplayRow {
        let settings = vary.iter().zip(&labels).map(|(axis, value)| (axis.column.clone(), axis.value(value)));
        let number = |value: f64| if value.fract() == 0.0 { Value::from(value as i64) } else { Value::from(value) };
        let cell = |value: &Option<f64>| value.map_or(Value::Null, number);
        let cells = figures.iter().zip(&values).map(|(figure, value)| (column_name(figure), cell(value)));
        let columns = NamedValues(settings.chain(cells).collect());
        ReplayRow { columns, recorded: false, in_force: false, best: false, labels, values }
    }
}

impl FigureRow {
    /// A value as a cell.
    pub(crate) fn text(&self, value: f64) -> String {
        match self.unit {
            FigureUnit::Ns => {
                let sign = if value < 0.0 { "-" } else { "" };
                let length = if value == 0.0 { "0".to_string() } else { Nanos(value.abs().round() as u64).to_string() };
                format!("{sign}{length}")
            }
            FigureUnit::Share => crate::names::share(value),
            FigureUnit::PerSecond => format!("{}/s", crate::names::rate(value)),
            FigureUnit::Cycles | FigureUnit::Count => crate::names::thousands(value as u64),
        }
    }
}
