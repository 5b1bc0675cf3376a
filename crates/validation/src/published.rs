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

    /// The least and the greatest that it may be: a number is both, `1-2` has two; `None` where it is neither.
    pub fn range(&self) -> Option<[f64; 2]> {
        let ends = || {
            let (low, high) = self.value.split_once('-')?;
            Some([low.parse().ok()?, high.parse().ok()?])
        };
        self.number().map(|number| [number; 2]).or_else(ends)
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
    fn a_figure_is_a_number_a_range_or_neither() {
        let of = |value: &str| Published { value: value.to_string(), ..published()[0].clone() };
        let range = |value| of(value).range();
        assert_eq!((range("9000"), range("1-2"), range("-3")), (Some([9e3; 2]), Some([1.0, 2.0]), Some([-3.0; 2])));
        assert_eq!((range(">10"), range("3.3 vs 3.1"), range("")), (None, None, None));
        assert_eq!((of("1-2").number(), of("7").number()), (None, Some(7.0)));
    }

    #[test]
    fn every_line_of_the_table_is_a_figure_with_a_name_of_its_own() {
        let rows = published();
        assert_eq!(rows.len(), TABLE.trim_end().lines().count() - 1);
        let ids: BTreeSet<_> = rows.iter().map(|row| &row.id).collect();
        assert_eq!(ids.len(), rows.len());
    }
}
