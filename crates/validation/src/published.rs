//! The published figures: `published.csv`, a row each, with where it was printed.

use serde::Deserialize;

/// The table, as it is kept.
const TABLE: &str = include_str!("../published.csv");

/// One published figure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// Its name: `GANG-004`.
    pub id: String,
    /// Where it was printed.
    pub source: String,
    /// The experiment.
    pub experiment: String,
    /// What was varied.
    pub configuration: String,
    /// What was measured.
    pub metric: String,
    /// The figure as printed.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// What has to be known about it.
    pub note: String,
}

impl Published {
    /// What was measured, of what.
    pub fn what(&self) -> String {
        format!("{}: {}", self.configuration, self.metric)
    }

    /// The figure as a number; `None` where it is a range, a text or not known.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }
}

/// All published figures.
pub fn published() -> Vec<Published> {
    let mut table = csv::Reader::from_reader(TABLE.as_bytes());
    table.deserialize().filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_of_the_table_is_a_figure_with_a_name_of_its_own() {
        let rows = published();
        assert_eq!(rows.len(), TABLE.trim_end().lines().count() - 1);
        let ids: BTreeSet<_> = rows.iter().map(|row| &row.id).collect();
        assert_eq!(ids.len(), rows.len());
    }
}
