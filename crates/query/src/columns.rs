//! The columns of an answer, by name and type.

use crate::QueryError;
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, UInt64Type};

/// Rows of an answer.
#[derive(Clone, Copy, Debug)]
pub struct ResultColumns<'a>(pub &'a RecordBatch);

impl ResultColumns<'_> {
    /// Words.
    pub fn words(&self, name: &str) -> Result<StringArray, QueryError> {
        Ok(self.of(name, &DataType::Utf8)?.as_string::<i32>().clone())
    }

    /// Numbers.
    pub fn numbers(&self, name: &str) -> Result<PrimitiveArray<UInt64Type>, QueryError> {
        Ok(self.of(name, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
    }

    /// A distribution of lengths in a row: the shortest of each bucket, and how many are in it.
    pub fn lengths(&self, name: &str, row: usize) -> Vec<(u64, u64)> {
        let Some(column) = self.0.column_by_name(name).and_then(|column| column.as_struct_opt()) else {
            return Vec::new();
        };
        let list = |at: usize| column.column(at).as_list_opt::<i32>().map(|list| list.value(row));
        let (Some(lengths), Some(counts)) = (list(0), list(1)) else { return Vec::new() };
        let (lengths, counts) = (lengths.as_primitive::<UInt64Type>(), counts.as_primitive::<UInt64Type>());
        lengths.values().iter().copied().zip(counts.values().iter().copied()).collect()
    }

    fn of(&self, name: &str, kind: &DataType) -> Result<ArrayRef, QueryError> {
        let column = self.0.column_by_name(name);
        let column = column.ok_or_else(|| QueryError::Query(format!("the answer has no column {name}")))?;
        cast(column, kind).map_err(|error| QueryError::Query(error.to_string()))
    }
}
