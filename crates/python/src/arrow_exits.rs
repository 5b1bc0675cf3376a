//! Exits as Arrow columns.

use crate::table::ArrowTable;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use exitscope_columns::{ExitStrings, RowBatch};
use exitscope_export::{Export, ExportCounts, ExportedVcpu, ExportedVcpus};
use exitscope_model::{Column, Exit, ExitRow, ExitRows};
use std::io;

/// Rows of a batch.
const BATCH: usize = 1 << 16;

/// Takes exits.
pub struct ArrowExits {
    vcpus: Vec<ExportedVcpu>,
    rows: ExitRows,
    schema: SchemaRef,
    batch: RowBatch<ExitRow>,
    in_batch: usize,
    batches: Vec<RecordBatch>,
}

impl ArrowExits {
    /// No exit yet.
    pub fn new(columns: &[Column<ExitRow>], vcpus: &ExportedVcpus) -> ArrowExits {
        let batch = RowBatch::new(columns.iter(), ExitStrings::Numbered);
        ArrowExits {
            vcpus: vcpus.all().to_vec(),
            rows: ExitRows::naming(vcpus.names.clone()),
            schema: batch.schema(),
            batch,
            in_batch: 0,
            batches: Vec::new(),
        }
    }

    /// All of them.
    pub fn into_table(self) -> ArrowTable {
        ArrowTable::new(self.schema, self.batches)
    }

    fn end_batch(&mut self) -> Result<(), ArrowError> {
        self.batches.push(self.batch.take()?);
        self.in_batch = 0;
        Ok(())
    }
}

impl Export for ArrowExits {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        self.batch.push(self.rows.of(exit, &self.vcpus[lane].row));
        self.in_batch += 1;
        if self.in_batch == BATCH { self.end_batch().map_err(io::Error::other) } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        self.end_batch().map_err(io::Error::other)?;
        Ok(ExportCounts::default())
    }
}
