//! The table of facts: sums over exits, and the distribution of their lengths, which can be added up over recordings.

use crate::exits::{Vcpu, properties};
use arrow_array::builder::{ListBuilder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use std::io::Write;
use std::sync::Arc;

/// Exits of one vCPU and one reason, in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactRow {
    /// Whose.
    pub vcpu: Vcpu,
    /// How many vCPUs its VM has in this recording.
    pub vm_vcpus: u32,
    /// When the stretch begins, on the recording's clock.
    pub at_ns: u64,
    /// How long it is.
    pub span_ns: u64,
    /// The exit reason.
    pub reason: String,
    /// Exits.
    pub count: u64,
    /// Exits of which both ends were seen; all times are of these alone.
    pub timed: u64,
    /// Exits that went on to user space, or to Xen's device model.
    pub to_user: u64,
    /// Time handled by the kernel.
    pub kernel_ns: u64,
    /// Time in user space.
    pub user_ns: u64,
    /// Time halted.
    pub idle_ns: u64,
    /// Time runnable but not running.
    pub waiting_ns: u64,
    /// The shortest exit of which the two ends bear different moments.
    pub min_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
    /// Lengths from exit to entry: each bucket's shortest, and how many there are in it; 32 buckets to a doubling.
    pub lengths: Vec<(u64, u64)>,
}

/// The columns of facts.
pub fn fact_schema() -> SchemaRef {
    let list = || DataType::List(Arc::new(Field::new("item", DataType::UInt64, false)));
    let field = Field::new;
    let fields = vec![
        field("run", DataType::Utf8, false),
        field("vm", DataType::UInt32, true),
        field("vm_name", DataType::Utf8, true),
        field("vcpu", DataType::UInt32, true),
        field("on_cpu", DataType::UInt32, true),
        field("tid", DataType::UInt32, true),
        field("reason", DataType::Utf8, false),
        field("count", DataType::UInt64, false),
        field("timed", DataType::UInt64, false),
        field("to_user", DataType::UInt64, false),
        field("kernel_ns", DataType::UInt64, false),
        field("user_ns", DataType::UInt64, false),
        field("idle_ns", DataType::UInt64, false),
        field("waiting_ns", DataType::UInt64, false),
        field("min_ns", DataType::UInt64, true),
        field("max_ns", DataType::UInt64, false),
        field("length_ns", list(), false),
        field("length_count", list(), false),
        // Files of before these were thought of have none of them.
        field("vm_vcpus", DataType::UInt32, true),
        field("at_ns", DataType::UInt64, true),
        field("span_ns", DataType::UInt64, true),
    ];
    Arc::new(Schema::new(fields))
}

/// Writes a file of facts of the recording `run`.
pub(crate) fn write<W: Write + Send>(out: W, run: &str, rows: &[FactRow]) -> Result<W, ParquetError> {
    let mut writer = ArrowWriter::try_new(out, fact_schema(), Some(properties().build()))?;
    writer.write(&batch(run, rows)?)?;
    writer.into_inner()
}

fn batch(run: &str, rows: &[FactRow]) -> Result<RecordBatch, ParquetError> {
    let words = |of: &dyn Fn(&FactRow) -> Option<String>| -> ArrayRef {
        let mut column = StringBuilder::new();
        rows.iter().for_each(|row| column.append_option(of(row)));
        Arc::new(column.finish())
    };
    let small = |of: &dyn Fn(&FactRow) -> Option<u32>| -> ArrayRef {
        let mut column = UInt32Builder::new();
        rows.iter().for_each(|row| column.append_option(of(row)));
        Arc::new(column.finish())
    };
    let number = |of: &dyn Fn(&FactRow) -> Option<u64>| -> ArrayRef {
        let mut column = UInt64Builder::new();
        rows.iter().for_each(|row| column.append_option(of(row)));
        Arc::new(column.finish())
    };
    let list = |of: &dyn Fn(&(u64, u64)) -> u64| -> ArrayRef {
        let item = Arc::new(Field::new("item", DataType::UInt64, false));
        let mut column = ListBuilder::new(UInt64Builder::new()).with_field(item);
        for row in rows {
            row.lengths.iter().for_each(|bucket| column.values().append_value(of(bucket)));
            column.append(true);
        }
        Arc::new(column.finish())
    };
    let columns = vec![
        words(&|_| Some(run.to_string())),
        small(&|row| row.vcpu.vm),
        words(&|row| row.vcpu.vm_name.clone()),
        small(&|row| row.vcpu.vcpu),
        small(&|row| row.vcpu.on_cpu),
        small(&|row| row.vcpu.tid),
        words(&|row| Some(row.reason.clone())),
        number(&|row| Some(row.count)),
        number(&|row| Some(row.timed)),
        number(&|row| Some(row.to_user)),
        number(&|row| Some(row.kernel_ns)),
        number(&|row| Some(row.user_ns)),
        number(&|row| Some(row.idle_ns)),
        number(&|row| Some(row.waiting_ns)),
        number(&|row| row.min_ns),
        number(&|row| Some(row.max_ns)),
        list(&|bucket| bucket.0),
        list(&|bucket| bucket.1),
        small(&|row| Some(row.vm_vcpus)),
        number(&|row| Some(row.at_ns)),
        number(&|row| Some(row.span_ns)),
    ];
    Ok(RecordBatch::try_new(fact_schema(), columns)?)
}
