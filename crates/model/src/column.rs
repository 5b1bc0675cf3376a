//! Columns of tables: each once, with its name, unit, prose, type, and how it is taken from a row.
//!
//! ```text
//! Column{"kernel_ns", "ns", "Handled by …", U64(|row| …)} ─┬─► a field of CSV ─┬─► docs/columns.md
//!                                                          └─► one of Parquet ─┘
//! ```

use std::fmt;

/// A column of a table of rows `R`.
pub struct Column<R: 'static> {
    /// Name in JSON, CSV and SQL.
    pub name: &'static str,
    /// Unit, empty if none.
    pub unit: &'static str,
    /// What it is.
    pub prose: &'static str,
    /// What it has of a row, and of which type that is.
    pub of: Of<R>,
    /// Whether rows may lack it.
    pub may_lack: bool,
    /// Whether stores keep it.
    pub at_rest: bool,
    /// How viewers of single rows spell it, beside the reason that a row is named for; `None` if they do not.
    pub note: Option<Spelling>,
}

/// What a column has of a row: `None` where the row lacks it.
pub enum Of<R: 'static> {
    /// One of few words.
    Words(fn(&R) -> Option<&str>),
    /// Whether something holds.
    Flag(fn(&R) -> Option<bool>),
    /// A number below 2^16.
    U16(fn(&R) -> Option<u16>),
    /// A number below 2^32.
    U32(fn(&R) -> Option<u32>),
    /// Any number.
    U64(fn(&R) -> Option<u64>),
    /// A list of numbers.
    Numbers(fn(&R) -> Vec<u64>),
}

/// How a viewer spells a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As it is: numbers in decimal.
    Plain,
    /// In hexadecimal.
    Hex,
}

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue<'a> {
    /// The row has no value in this column.
    Lacks,
    /// Words.
    Words(&'a str),
    /// Whether something holds.
    Flag(bool),
    /// A number.
    Number(u64),
    /// Several.
    Numbers(Vec<u64>),
}

impl<R> Column<R> {
    /// A column that every row has, and stores keep.
    pub const fn new(name: &'static str, unit: &'static str, prose: &'static str, of: Of<R>) -> Column<R> {
        Column { name, unit, prose, of, may_lack: false, at_rest: true, note: None }
    }

    /// The same, but rows may lack it.
    pub const fn nullable(mut self) -> Column<R> {
        self.may_lack = true;
        self
    }

    /// The same, but stores do not keep it.
    pub const fn passing(mut self) -> Column<R> {
        self.at_rest = false;
        self
    }

    /// The same, and viewers of single rows spell it so.
    pub const fn spelling(mut self, note: Spelling) -> Column<R> {
        self.note = Some(note);
        self
    }

    /// What a row has in it.
    pub fn value<'a>(&self, row: &'a R) -> ColumnValue<'a> {
        let number = |number: Option<u64>| number.map_or(ColumnValue::Lacks, ColumnValue::Number);
        match self.of {
            Of::Words(of) => of(row).map_or(ColumnValue::Lacks, ColumnValue::Words),
            Of::Flag(of) => of(row).map_or(ColumnValue::Lacks, ColumnValue::Flag),
            Of::U16(of) => number(of(row).map(u64::from)),
            Of::U32(of) => number(of(row).map(u64::from)),
            Of::U64(of) => number(of(row)),
            Of::Numbers(of) => ColumnValue::Numbers(of(row)),
        }
    }
}

impl<R> Of<R> {
    /// The type, as documents call it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Of::Words(_) => "words",
            Of::Flag(_) => "true or false",
            Of::U16(_) => "u16",
            Of::U32(_) => "u32",
            Of::U64(_) => "u64",
            Of::Numbers(_) => "list of u64",
        }
    }
}

impl<R> fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.of.type_name())
    }
}

impl<R> fmt::Debug for Of<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_says_its_type_and_takes_its_value_of_a_row() {
        type Row = Option<u16>;
        let columns: [Column<Row>; 6] = [
            Column::new("words", "", "", Of::Words(|row: &Row| row.map(|_| "some"))).nullable(),
            Column::new("flag", "", "", Of::Flag(|row: &Row| row.map(|of| of > 3))).passing(),
            Column::new("u16", "ns", "", Of::U16(|row: &Row| *row)).spelling(Spelling::Hex),
            Column::new("u32", "", "", Of::U32(|row: &Row| row.map(|of| 70_000 + u32::from(of)))),
            Column::new("u64", "", "", Of::U64(|row: &Row| row.map(|of| u64::MAX - u64::from(of)))),
            Column::new("numbers", "", "", Of::Numbers(|row: &Row| row.iter().map(|of| u64::from(*of)).collect())),
        ];
        let shown = columns.each_ref().map(|column| format!("{column:?}"));
        let expected =
            ["words: words", "flag: true or false", "u16: u16", "u32: u32", "u64: u64", "numbers: list of u64"];
        assert_eq!(shown, expected);
        let of = |row: &'static Row| columns.each_ref().map(|column| column.value(row));
        let has = [
            ColumnValue::Words("some"),
            ColumnValue::Flag(true),
            ColumnValue::Number(7),
            ColumnValue::Number(70_007),
            ColumnValue::Number(u64::MAX - 7),
            ColumnValue::Numbers(vec![7]),
        ];
        assert_eq!(of(&Some(7)), has);
        let [lacks @ .., last] = of(&None);
        assert!(lacks.iter().all(|value| *value == ColumnValue::Lacks), "{lacks:?}");
        assert_eq!(last, ColumnValue::Numbers(vec![]));
        let traits = columns.each_ref().map(|column| (column.may_lack, column.at_rest, column.note));
        let (plain, hex) = ((false, true, None), (false, true, Some(Spelling::Hex)));
        assert_eq!(traits, [(true, true, None), (false, false, None), hex, plain, plain, plain]);
    }
}
