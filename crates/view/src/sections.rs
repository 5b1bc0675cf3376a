//! What a page is made of: sections with sentences and a table, as plain data.
//!
//! Must not depend on: reports.

use crate::names::thousands;
use exitscope_units::Nanos;
use std::borrow::Cow;
use std::cmp::Reverse;

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its sections, in order.
    pub sections: Vec<PageSection>,
}

/// A part of a page.
#[derive(Clone, Debug, Default)]
pub struct PageSection {
    /// Its title.
    pub title: String,
    /// What it says in words.
    pub sentences: Vec<Sentence>,
    /// Its table.
    pub table: Option<Table>,
    /// What has to be said after the table.
    pub notes: Vec<String>,
    /// Whether to say which columns of the table a terminal is too narrow for.
    pub say_hidden: bool,
}

/// A sentence and whether it warns.
#[derive(Clone, Debug)]
pub struct Sentence {
    /// The words.
    pub text: String,
    /// Whether figures on the page are affected.
    pub warning: bool,
}

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// Its rows, a text for each column.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// Its title.
    pub title: Cow<'static, str>,
    /// Whether it holds names, which begin on the left; figures end on the right.
    pub names: bool,
    /// Columns of higher rank leave first where a terminal is too narrow.
    pub rank: u8,
}

/// A column of this title, with its [`TableColumn::names`] and [`TableColumn::rank`].
pub fn column(title: impl Into<Cow<'static, str>>, names: bool, rank: u8) -> TableColumn {
    TableColumn { title: title.into(), names, rank }
}

/// A length as a cell: `12.3us`, `0`, or `-` where there is none.
pub fn length(nanos: Option<u64>) -> String {
    match nanos {
        None => "-".to_string(),
        Some(0) => "0".to_string(),
        Some(nanos) => Nanos(nanos).to_string(),
    }
}

/// A sentence that does not warn.
pub fn plain(text: String) -> Sentence {
    Sentence { text, warning: false }
}

/// What says that a list goes on.
pub(crate) fn and_more(left_out: usize) -> Option<String> {
    goes_on(left_out, "--top N or --format json")
}

/// The same where there is no other way to have the rest.
pub(crate) fn more_in_json(left_out: usize) -> Option<String> {
    goes_on(left_out, "--format json")
}

fn goes_on(left_out: usize, how: &str) -> Option<String> {
    (left_out > 0).then(|| format!("and {} more ({how})", thousands(left_out as u64)))
}

/// vCPUs that a table of them shows, at least: all of most hosts.
pub const VCPU_ROWS: usize = 32;

/// The `most` of these that weigh most, in the order in which they came, and how many are left out.
pub(crate) fn heaviest<'a, T>(
    rows: impl IntoIterator<Item = &'a T>,
    most: usize,
    weight: impl Fn(&T) -> u64,
) -> (Vec<&'a T>, usize) {
    let mut rows: Vec<(usize, &T)> = rows.into_iter().enumerate().collect();
    let left_out = rows.len().saturating_sub(most);
    rows.sort_by_key(|(_, row)| Reverse(weight(row)));
    rows.truncate(most);
    rows.sort_by_key(|(at, _)| *at);
    (rows.into_iter().map(|(_, row)| row).collect(), left_out)
}
