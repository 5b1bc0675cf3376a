//! Files of sums, which can be added up over recordings: of exits, of halts, of ganged exits.

use crate::columns::StoredRows;
use crate::exits::properties;
use exitscope_columns::ExitStrings;
use exitscope_model::{Column, GangRow, HaltRow, Spread, SumRow};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use std::io::Write;

/// All sums of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingStats {
    /// Exits, by vCPU, reason and stretch of time.
    pub facts: Vec<SumRow>,
    /// Halts, by vCPU.
    pub halts: Vec<HaltRow<Spread>>,
    /// Ganged exits, by virtual core.
    pub gangs: Vec<GangRow<Spread>>,
}

/// Writes a file of rows of the recording `run`.
pub(crate) fn write<R, W: Write + Send>(
    out: W,
    columns: &[Column<R>],
    run: &str,
    rows: &[R],
) -> Result<W, ParquetError> {
    let mut batch = StoredRows::new(columns, ExitStrings::Plain);
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties().build()))?;
    rows.iter().for_each(|row| batch.push(run, row));
    writer.write(&batch.take()?)?;
    writer.into_inner()
}
