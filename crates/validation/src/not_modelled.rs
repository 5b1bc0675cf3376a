//! The published figures that no experiment stands for, and why: `not-modelled.toml`.

use crate::experiment::{Experiment, ExperimentError};
use crate::published::Published;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The list, as it is kept.
const LIST: &str = include_str!("../not-modelled.toml");

/// What errors call the list.
const NAME: &str = "not-modelled";

/// Published figures that no experiment stands for, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotModelled {
    /// Why the simulator does not model these rows.
    pub because: String,
    /// The published rows that are not modelled for that reason.
    pub rows: Vec<NotModelledRow>,
}

/// A published figure that no experiment stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotModelledRow {
    /// The published row.
    pub id: String,
    /// What was measured.
    pub what: String,
    /// The figure as printed; empty if it is not known.
    pub published: String,
    /// Its unit.
    pub unit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFile {
    reason: Vec<Reason>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    because: String,
    rows: Vec<String>,
}

/// All of them, if `list` has all experiments; none beside some of them.
pub(crate) fn not_modelled(
    list: &[Experiment],
    table: &[Published],
    all: usize,
) -> Result<Vec<NotModelled>, ExperimentError> {
    if list.len() < all {
        return Ok(Vec::new());
    }
    let file: ListFile =
        toml::from_str(LIST).map_err(|source| ExperimentError::File { name: NAME.to_string(), source })?;
    let row = |id: &String| {
        let missing =
            || ExperimentError::Missing { name: NAME.to_string(), row: id.clone(), what: "published row".to_string() };
        let of = table.iter().find(|of| of.id == *id).ok_or_else(missing)?;
        let (what, published, unit) = (of.what(), of.value.clone(), of.unit.clone());
        Ok(NotModelledRow { id: id.clone(), what, published, unit })
    };
    let group = |Reason { because, rows }| {
        Ok(NotModelled { because, rows: rows.iter().map(row).collect::<Result<_, ExperimentError>>()? })
    };
    file.reason.into_iter().map(group).collect()
}
