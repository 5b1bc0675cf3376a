//! One row for each exit, as CSV. The columns are [`exit_columns`]; what the trace does not say is empty.

use crate::{Export, ExportCounts, ExportedVcpu, ExportedVcpus};
use csv::{ByteRecord, Writer};
use exitscope_model::encode::csv_field;
use exitscope_model::{Column, ColumnValue, Exit, ExitRow, ExitRows, exit_columns};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes rows.
#[derive(Debug)]
pub struct CsvExport<W: Write> {
    out: Writer<W>,
    lanes: Vec<ExportedVcpu>,
    columns: Vec<Column<ExitRow>>,
    rows: ExitRows,
    /// The row in the making.
    record: ByteRecord,
    digits: String,
    written: ExportCounts,
}

impl<W: Write> CsvExport<W> {
    /// Begins with the heading.
    pub fn begin(out: W, lanes: &ExportedVcpus) -> io::Result<CsvExport<W>> {
        let mut out = Writer::from_writer(out);
        let columns = exit_columns();
        out.write_record(columns.iter().map(|column| column.name)).map_err(io_error)?;
        Ok(CsvExport {
            out,
            lanes: lanes.all().to_vec(),
            columns,
            rows: ExitRows::naming(lanes.names.clone()),
            record: ByteRecord::new(),
            digits: String::new(),
            written: ExportCounts::default(),
        })
    }
}

impl<W: Write> Export for CsvExport<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        let row = self.rows.of(exit, &self.lanes[lane].row);
        self.record.clear();
        for column in &self.columns {
            match column.value(row) {
                // No column of exits has several.
                ColumnValue::Lacks | ColumnValue::Numbers(_) => self.record.push_field(b""),
                ColumnValue::Words(words) => self.record.push_field(csv_field(words).as_bytes()),
                ColumnValue::Flag(holds) => self.record.push_field(if holds { b"true" } else { b"false" }),
                ColumnValue::Number(number) => {
                    self.digits.clear();
                    // A String takes everything.
                    let _ = write!(self.digits, "{number}");
                    self.record.push_field(self.digits.as_bytes());
                }
            }
        }
        self.out.write_byte_record(&self.record).map_err(io_error)?;
        match exit.timed {
            true => self.written.exits += 1,
            false => self.written.untimed += 1,
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The error with its kind, which tells a closed pipe.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
