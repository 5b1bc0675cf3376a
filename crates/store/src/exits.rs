//! The table of exits, a row each.

use arrow_array::builder::{BooleanBuilder, StringDictionaryBuilder, UInt16Builder, UInt32Builder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use exitscope_model::{COLUMNS, Exit};
use exitscope_units::PcpuId;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

/// Rows that are sorted, and written, at once (60 MB).
const GROUP: usize = 1 << 18;

/// How columns of many values are encoded: what was smallest of delta, split bytes, plain and dictionary, on the exits of
/// corpus/x86-svm/t2.data.gz. All others have a dictionary.
const ENCODINGS: [(&str, Encoding); 6] = [
    ("at_ns", Encoding::DELTA_BINARY_PACKED),
    ("value", Encoding::BYTE_STREAM_SPLIT),
    ("kernel_ns", Encoding::BYTE_STREAM_SPLIT),
    ("user_ns", Encoding::BYTE_STREAM_SPLIT),
    ("idle_ns", Encoding::PLAIN),
    ("waiting_ns", Encoding::PLAIN),
];

/// A vCPU, in the words of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vcpu {
    /// The VM's process id, or Xen's domain.
    pub vm: Option<u32>,
    /// The VM's process name.
    pub vm_name: Option<String>,
    /// The vCPU's number.
    pub vcpu: Option<u32>,
    /// The physical CPU, where nothing else says which vCPU it is.
    pub on_cpu: Option<u32>,
    /// The vCPU's thread.
    pub tid: Option<u32>,
}

/// What of an exit is words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The exit reason.
    pub reason: &'a str,
    /// Where the vCPU left to.
    pub door: &'a str,
    /// What kind of thing it was about.
    pub about: Option<&'a str>,
    /// What that is called.
    pub name: Option<&'a str>,
    /// `in`, `out`, `read`, `write`.
    pub direction: Option<&'a str>,
}

/// The columns of exits. `total_ns` and `guest_ns` are not stored: the first is the sum of the four times, the second what is
/// between two exits.
pub fn exit_schema() -> SchemaRef {
    let words = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = |name: &str, kind: DataType, nullable: bool| Field::new(name, kind, nullable).with_metadata(meta(name));
    let fields = vec![
        field("run", words(), false),
        field("vm", DataType::UInt32, true),
        field("vm_name", words(), true),
        field("vcpu", DataType::UInt32, true),
        field("on_cpu", DataType::UInt32, true),
        field("tid", DataType::UInt32, true),
        field("at_ns", DataType::UInt64, false),
        field("cpu", DataType::UInt32, true),
        field("reason", words(), false),
        field("door", words(), false),
        field("about", words(), true),
        field("key", DataType::UInt64, true),
        field("name", words(), true),
        field("direction", words(), true),
        field("size_bytes", DataType::UInt16, true),
        field("value", DataType::UInt64, true),
        field("injected_vector", DataType::UInt32, true),
        field("timed", DataType::Boolean, false),
        field("kernel_ns", DataType::UInt64, true),
        field("user_ns", DataType::UInt64, true),
        field("idle_ns", DataType::UInt64, true),
        field("waiting_ns", DataType::UInt64, true),
    ];
    Arc::new(Schema::new(fields))
}

/// Unit and prose of a column.
fn meta(name: &str) -> HashMap<String, String> {
    let known = COLUMNS.iter().find(|column| column.name == name);
    let of = |column: &exitscope_model::Column| {
        [("unit", column.unit), ("prose", column.prose)].map(|(key, value)| (key.to_string(), value.to_string())).into()
    };
    known.map_or_else(HashMap::new, of)
}

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
    vcpus: Vec<Vcpu>,
    columns: Columns,
    /// Of the rows in hand: vCPU and moment, to sort by.
    places: Vec<(u32, u64)>,
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> ExitWriter<W> {
    /// Begins a file: of the recording `run`, of these vCPUs.
    pub fn begin(out: W, run: &str, vcpus: Vec<Vcpu>) -> Result<ExitWriter<W>, ParquetError> {
        let writer = ArrowWriter::try_new(out, exit_schema(), Some(exit_properties()))?;
        Ok(ExitWriter { run: run.to_string(), vcpus, columns: Columns::default(), places: Vec::new(), writer })
    }

    /// Adds an exit of the vCPU of this number.
    pub fn absorb(&mut self, vcpu: usize, exit: &Exit, words: Words<'_>) -> Result<(), ParquetError> {
        self.columns.push(&self.run, &self.vcpus[vcpu], exit, words);
        self.places.push((vcpu as u32, exit.at.as_nanos()));
        if self.places.len() >= GROUP { self.write() } else { Ok(()) }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.write()?;
        self.writer.into_inner()
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let columns = self.columns.finish();
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.sort_by_key(|at| self.places[*at as usize]);
        self.places.clear();
        let order = arrow_array::UInt32Array::from(order);
        let sorted: Result<Vec<ArrayRef>, _> =
            columns.iter().map(|column| arrow_select::take::take(column, &order, None)).collect();
        let batch = RecordBatch::try_new(exit_schema(), sorted?)?;
        self.writer.write(&batch)?;
        self.writer.flush()
    }
}

type WordsBuilder = StringDictionaryBuilder<Int32Type>;

/// Rows in hand.
#[derive(Default)]
struct Columns {
    run: WordsBuilder,
    vm: UInt32Builder,
    vm_name: WordsBuilder,
    vcpu: UInt32Builder,
    on_cpu: UInt32Builder,
    tid: UInt32Builder,
    at: UInt64Builder,
    cpu: UInt32Builder,
    reason: WordsBuilder,
    door: WordsBuilder,
    about: WordsBuilder,
    key: UInt64Builder,
    name: WordsBuilder,
    direction: WordsBuilder,
    size: UInt16Builder,
    value: UInt64Builder,
    injected: UInt32Builder,
    timed: BooleanBuilder,
    times: [UInt64Builder; 4],
}

impl Columns {
    fn push(&mut self, run: &str, vcpu: &Vcpu, exit: &Exit, words: Words<'_>) {
        self.run.append_value(run);
        self.vm.append_option(vcpu.vm);
        self.vm_name.append_option(vcpu.vm_name.as_deref());
        self.vcpu.append_option(vcpu.vcpu);
        self.on_cpu.append_option(vcpu.on_cpu);
        self.tid.append_option(vcpu.tid);
        self.at.append_value(exit.at.as_nanos());
        self.cpu.append_option(Some(exit.cpu.0).filter(|_| exit.cpu != PcpuId(u32::MAX)));
        self.reason.append_value(words.reason);
        self.door.append_value(words.door);
        self.about.append_option(words.about);
        self.key.append_option(exit.detail.map(|of| of.key));
        self.name.append_option(words.name);
        self.direction.append_option(words.direction);
        self.size.append_option(exit.detail.map(|of| of.size).filter(|size| *size > 0));
        self.value.append_option(exit.detail.map(|of| of.value));
        self.injected.append_option(exit.injected);
        self.timed.append_value(exit.timed);
        let times = [exit.kernel, exit.user, exit.idle, exit.waiting];
        for (column, time) in self.times.iter_mut().zip(times) {
            column.append_option(Some(time.0).filter(|_| exit.timed));
        }
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        let [kernel, user, idle, waiting] = &mut self.times;
        vec![
            Arc::new(self.run.finish()),
            Arc::new(self.vm.finish()),
            Arc::new(self.vm_name.finish()),
            Arc::new(self.vcpu.finish()),
            Arc::new(self.on_cpu.finish()),
            Arc::new(self.tid.finish()),
            Arc::new(self.at.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.reason.finish()),
            Arc::new(self.door.finish()),
            Arc::new(self.about.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.direction.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.injected.finish()),
            Arc::new(self.timed.finish()),
            Arc::new(kernel.finish()),
            Arc::new(user.finish()),
            Arc::new(idle.finish()),
            Arc::new(waiting.finish()),
        ]
    }
}
