//! Columns of a table as those of Parquet: the recording, then what stores keep of the table's columns.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use exitscope_columns::{ExitStrings, RowBatch, StringsBuilder, fields};
use exitscope_model::Column;
use std::sync::Arc;

/// Rows in hand, of a recording.
pub(crate) struct StoredRows<R: 'static> {
    schema: SchemaRef,
    run: StringsBuilder,
    rows: RowBatch<R>,
}

/// Names and types of those columns that stores keep, with units and prose as metadata.
pub(crate) fn schema<R>(columns: &[Column<R>], words: ExitStrings) -> SchemaRef {
    let run = Field::new("recording", words.data_type(), false);
    Arc::new(Schema::new(std::iter::once(run).chain(fields(at_rest(columns), words)).collect::<Vec<_>>()))
}

fn at_rest<R>(columns: &[Column<R>]) -> impl Iterator<Item = &Column<R>> + Clone {
    columns.iter().filter(|column| column.at_rest)
}

impl<R> StoredRows<R> {
    /// No row yet.
    pub fn new(columns: &[Column<R>], words: ExitStrings) -> StoredRows<R> {
        let rows = RowBatch::new(at_rest(columns), words);
        StoredRows { schema: schema(columns, words), run: words.builder(), rows }
    }

    /// Their names and types.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Adds a row of the recording `run`.
    pub fn push(&mut self, run: &str, row: &R) {
        self.run.push(Some(run));
        self.rows.push(row);
    }

    /// The rows in hand; none are then.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let all = std::iter::once(self.run.finish()).chain(self.rows.take_columns()).collect();
        RecordBatch::try_new(self.schema.clone(), all)
    }
}
