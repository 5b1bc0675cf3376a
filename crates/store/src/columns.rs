//! Tables of sums: each column once, by name, with what it has of a row.

use crate::exits::Vcpu;
use crate::facts::Lengths;
use arrow_array::builder::{ListBuilder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::errors::ParquetError;
use std::sync::Arc;

/// What a column has of a row, and of which type that is.
enum Of<R> {
    Words(Take<R, Option<String>>),
    Small(Take<R, Option<u32>>),
    Number(Take<R, Option<u64>>),
    Numbers(Take<R, Vec<u64>>),
}

/// Takes something of a row.
type Take<R, T> = Box<dyn Fn(&R) -> T>;

/// The columns of a table of rows `R`. The first is the recording.
pub(crate) struct Columns<R> {
    fields: Vec<Field>,
    of: Vec<Of<R>>,
}

impl<R: 'static> Columns<R> {
    pub fn new() -> Columns<R> {
        Columns { fields: vec![Field::new("run", DataType::Utf8, false)], of: Vec::new() }
    }

    fn with(mut self, name: &str, kind: DataType, may_lack: bool, of: Of<R>) -> Columns<R> {
        self.fields.push(Field::new(name, kind, may_lack));
        self.of.push(of);
        self
    }

    /// Words, of every row.
    pub fn words(self, name: &str, of: impl Fn(&R) -> &str + 'static) -> Columns<R> {
        self.with(name, DataType::Utf8, false, Of::Words(Box::new(move |row| Some(of(row).to_string()))))
    }

    /// Words that a row may lack.
    pub fn maybe_words(self, name: &str, of: impl Fn(&R) -> &Option<String> + 'static) -> Columns<R> {
        self.with(name, DataType::Utf8, true, Of::Words(Box::new(move |row| of(row).clone())))
    }

    /// A small number that a row may lack.
    pub fn maybe_small(self, name: &str, of: impl Fn(&R) -> Option<u32> + 'static) -> Columns<R> {
        self.with(name, DataType::UInt32, true, Of::Small(Box::new(of)))
    }

    /// A number of every row.
    pub fn number(self, name: &str, of: impl Fn(&R) -> u64 + 'static) -> Columns<R> {
        self.with(name, DataType::UInt64, false, Of::Number(Box::new(move |row| Some(of(row)))))
    }

    /// A number that a row may lack.
    pub fn maybe_number(self, name: &str, of: impl Fn(&R) -> Option<u64> + 'static) -> Columns<R> {
        self.with(name, DataType::UInt64, true, Of::Number(Box::new(of)))
    }

    /// A distribution: `NAME_ns` has the shortest length of each bucket, `NAME_count` how many are in it.
    pub fn buckets(self, name: &str, of: impl Fn(&R) -> &[(u64, u64)] + Copy + 'static) -> Columns<R> {
        let kind = || DataType::List(item());
        let low = Of::Numbers(Box::new(move |row| of(row).iter().map(|bucket| bucket.0).collect()));
        let count = Of::Numbers(Box::new(move |row| of(row).iter().map(|bucket| bucket.1).collect()));
        self.with(&format!("{name}_ns"), kind(), false, low).with(&format!("{name}_count"), kind(), false, count)
    }

    /// Lengths of one kind: their sum, the longest, their distribution.
    pub fn lengths(self, name: &str, of: impl Fn(&R) -> &Lengths + Copy + 'static) -> Columns<R> {
        self.number(&format!("{name}_sum_ns"), move |row| of(row).sum_ns)
            .maybe_number(&format!("{name}_max_ns"), move |row| of(row).max_ns)
            .buckets(name, move |row| &of(row).buckets)
    }

    /// Whose.
    pub fn vcpu(self, of: impl Fn(&R) -> &Vcpu + Copy + 'static) -> Columns<R> {
        self.maybe_small("vm", move |row| of(row).vm)
            .maybe_words("vm_name", move |row| &of(row).vm_name)
            .maybe_small("vcpu", move |row| of(row).vcpu)
            .maybe_small("on_cpu", move |row| of(row).on_cpu)
            .maybe_small("tid", move |row| of(row).tid)
    }

    /// Their names and types.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }

    /// Rows of the recording `run`.
    pub fn batch(&self, run: &str, rows: &[R]) -> Result<RecordBatch, ParquetError> {
        let mut runs = StringBuilder::new();
        rows.iter().for_each(|_| runs.append_value(run));
        let columns = self.of.iter().map(|of| of.column(rows));
        let columns: Vec<ArrayRef> = std::iter::once(Arc::new(runs.finish()) as ArrayRef).chain(columns).collect();
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

impl<R> Of<R> {
    fn column(&self, rows: &[R]) -> ArrayRef {
        match self {
            Of::Words(of) => {
                let mut column = StringBuilder::new();
                rows.iter().for_each(|row| column.append_option(of(row)));
                Arc::new(column.finish())
            }
            Of::Small(of) => {
                let mut column = UInt32Builder::new();
                rows.iter().for_each(|row| column.append_option(of(row)));
                Arc::new(column.finish())
            }
            Of::Number(of) => {
                let mut column = UInt64Builder::new();
                rows.iter().for_each(|row| column.append_option(of(row)));
                Arc::new(column.finish())
            }
            Of::Numbers(of) => {
                let mut column = ListBuilder::new(UInt64Builder::new()).with_field(item());
                for row in rows {
                    column.values().append_slice(&of(row));
                    column.append(true);
                }
                Arc::new(column.finish())
            }
        }
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::UInt64, false))
}
