//! The file of exits, a row each.

use crate::columns::StoredRows;
use arrow_select::take::take_record_batch;
use exitscope_columns::ExitStrings;
use exitscope_model::{Exit, ExitRow, ExitRows, SubjectNames, WhoRow, exit_columns};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

/// Rows that are sorted, and written, at once (60 MB).
const GROUP: usize = 1 << 18;

/// How columns of many values are encoded: what was smallest of delta, split bytes, plain and dictionary, on the exits of
/// corpus/x86-svm/t2.data.gz. All others have a dictionary.
const ENCODINGS: [(&str, Encoding); 11] = [
    ("at_ns", Encoding::DELTA_BINARY_PACKED),
    ("value", Encoding::BYTE_STREAM_SPLIT),
    ("kernel_ns", Encoding::BYTE_STREAM_SPLIT),
    ("user_space_ns", Encoding::BYTE_STREAM_SPLIT),
    ("polling_ns", Encoding::PLAIN),
    ("halted_ns", Encoding::PLAIN),
    ("halt_not_divided_ns", Encoding::PLAIN),
    ("waiting_for_memory_ns", Encoding::PLAIN),
    ("steal_ns", Encoding::PLAIN),
    ("stopped_ns", Encoding::PLAIN),
    ("unknown_ns", Encoding::PLAIN),
];

/// How files are written.
pub(crate) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default()))
        .set_created_by(concat!("exitscope ", env!("CARGO_PKG_VERSION")).to_string())
        .set_key_value_metadata(Some(vec![KeyValue::new("exitscope.schema".to_string(), crate::SCHEMA.to_string())]))
}

/// The same, for exits.
pub(crate) fn exit_properties() -> WriterProperties {
    let mut properties = properties().set_max_row_group_row_count(Some(GROUP));
    for (name, encoding) in ENCODINGS {
        let column = ColumnPath::from(name);
        properties =
            properties.set_column_dictionary_enabled(column.clone(), false).set_column_encoding(column, encoding);
    }
    properties.build()
}

/// Writes a file of exits.
pub struct ExitWriter<W: Write + Send> {
    run: String,
    vcpus: Vec<Arc<WhoRow>>,
    rows: ExitRows,
    batch: StoredRows<ExitRow>,
    /// Of the rows in hand: vCPU and moment, to sort by.
    places: Vec<(u32, u64)>,
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> ExitWriter<W> {
    /// Begins a file: of the recording `run`, of these vCPUs.
    pub fn begin(out: W, run: &str, vcpus: Vec<Arc<WhoRow>>) -> Result<ExitWriter<W>, ParquetError> {
        let batch = StoredRows::new(&exit_columns(), ExitStrings::Numbered);
        let writer = ArrowWriter::try_new(out, batch.schema(), Some(exit_properties()))?;
        Ok(ExitWriter { run: run.to_string(), vcpus, rows: ExitRows::default(), batch, places: Vec::new(), writer })
    }

    /// From now on, subjects are called so.
    pub fn name_subjects(&mut self, names: SubjectNames) {
        self.rows = ExitRows::naming(names);
    }

    /// Adds an exit of the vCPU of this number.
    pub fn absorb(&mut self, vcpu: usize, exit: &Exit) -> Result<(), ParquetError> {
        self.batch.push(&self.run, self.rows.of(exit, &self.vcpus[vcpu]));
        self.places.push((vcpu as u32, exit.at.as_nanos()));
        if self.places.len() >= GROUP { self.write() } else { Ok(()) }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.write()?;
        self.writer.into_inner()
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let batch = self.batch.take()?;
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.sort_by_key(|at| self.places[*at as usize]);
        self.places.clear();
        let order = arrow_array::UInt32Array::from(order);
        self.writer.write(&take_record_batch(&batch, &order)?)?;
        self.writer.flush()
    }
}
