//! A scenario file as a tree that knows where everything stood.
//!
//! ```text
//! TOML text ─► Node ┬ at: File(offset) or Set(number of the --set)
//!                   └ value: Text, Number, Switch, List, Table, Other
//! ```

use super::Fault;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValuePosition {
    /// At this byte of the file.
    File(usize),
    /// In the override of this number.
    Set(usize),
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub at: ValuePosition,
    pub value: Value,
}

/// A value as TOML has it.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// A whole number; what does not fit is the largest or smallest one, and out of every bound.
    Number(i128),
    Switch(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// What no key takes: a float or a date, as it was written.
    Other(String),
}

/// A key, its place, and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub at: ValuePosition,
    pub node: Node,
}

/// Deeper than this nothing is a scenario. Keys such as `a.b.c` within nested tables get deeper than the TOML reader's
/// own limit, which counts each of both.
const MAX_DEPTH: u32 = 80;

impl Node {
    /// Reads a whole file.
    pub fn document(text: &str) -> Result<Node, Fault> {
        let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let value = Value::Table(entries(table.into_inner(), 0, &|offset| ValuePosition::File(offset))?);
        Ok(Node { at: ValuePosition::File(0), value })
    }

    /// Reads a single value, as it stands behind `=`; it is at `at` as a whole.
    pub fn value(text: &str, at: ValuePosition) -> Result<Node, Fault> {
        let value = DeValue::parse(text).map_err(|error| syntax(&error))?;
        node(value, 0, &|_| at)
    }

    /// What it is, for people.
    pub fn what(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("the text {}", quoted(text)),
            Value::Number(number) => format!("the number {number}"),
            Value::Switch(switch) => switch.to_string(),
            Value::List(_) => "a list".to_string(),
            Value::Table(_) => "a table".to_string(),
            Value::Other(text) => text.chars().take(40).collect(),
        }
    }

    /// Its value of this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }

    /// Its text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A text in quotes; of a long one the beginning.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn syntax(error: &toml::de::Error) -> Fault {
    let at = ValuePosition::File(error.span().map_or(0, |span| span.start));
    Fault { at, path: String::new(), what: error.message().replace('\n', "; ") }
}

fn entries(table: DeTable, depth: u32, place: &impl Fn(usize) -> ValuePosition) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let at = place(key.span().start);
        entries.push(Entry { at, key: key.into_inner().into_owned(), node: node(value, depth + 1, place)? });
    }
    // In the order of the file, so that of several faults the first is told.
    entries.sort_by_key(|entry| entry.at);
    Ok(entries)
}

fn node(value: Spanned<DeValue>, depth: u32, place: &impl Fn(usize) -> ValuePosition) -> Result<Node, Fault> {
    let at = place(value.span().start);
    if depth > MAX_DEPTH {
        return Err(Fault { at, path: String::new(), what: format!("nested deeper than {MAX_DEPTH} levels") });
    }
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let beyond = if number.as_str().starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Number(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(beyond))
        }
        DeValue::Boolean(switch) => Value::Switch(switch),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item, depth + 1, place)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(entries(table, depth, place)?),
        DeValue::Float(float) => Value::Other(float.as_str().to_string()),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
    };
    Ok(Node { at, value })
}
