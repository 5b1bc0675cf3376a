//! Columns of a table as those of Parquet: names, types, and rows in hand.
//!
//! The first column of every table is the recording.

use arrow_array::builder::{
    BooleanBuilder, ListBuilder, StringBuilder, StringDictionaryBuilder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use exitscope_model::{Column, Of};
use std::sync::Arc;

/// How words are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStrings {
    /// Each by the number of one that was before: for tables of many rows.
    Numbered,
    /// As they are.
    Plain,
}

/// Rows in hand, of a recording.
pub(crate) struct RowBatch<R: 'static> {
    schema: SchemaRef,
    run: WordsBuilder,
    columns: Vec<Builder<R>>,
}

enum WordsBuilder {
    Numbered(StringDictionaryBuilder<Int32Type>),
    Plain(StringBuilder),
}

/// What is taken of a row, and where it goes.
enum Builder<R: 'static> {
    Words(fn(&R) -> Option<&str>, WordsBuilder),
    Flag(fn(&R) -> Option<bool>, BooleanBuilder),
    U16(fn(&R) -> Option<u16>, UInt16Builder),
    U32(fn(&R) -> Option<u32>, UInt32Builder),
    U64(fn(&R) -> Option<u64>, UInt64Builder),
    Numbers(fn(&R) -> Vec<u64>, ListBuilder<UInt64Builder>),
}

/// Names and types of those columns that stores keep, with units and prose as metadata.
pub(crate) fn schema<R>(columns: &[Column<R>], words: ExitStrings) -> SchemaRef {
    let run = Field::new("recording", words.data_type(), false);
    let fields = columns.iter().filter(|column| column.at_rest).map(|column| {
        let kind = match column.of {
            Of::Words(_) => words.data_type(),
            Of::Flag(_) => DataType::Boolean,
            Of::U16(_) => DataType::UInt16,
            Of::U32(_) => DataType::UInt32,
            Of::U64(_) => DataType::UInt64,
            Of::Numbers(_) => DataType::List(item()),
        };
        let meta =
            [("unit", column.unit), ("prose", column.prose)].map(|(key, text)| (key.to_string(), text.to_string()));
        Field::new(column.name, kind, column.may_lack).with_metadata(meta.into())
    });
    Arc::new(Schema::new(std::iter::once(run).chain(fields).collect::<Vec<_>>()))
}

impl<R> RowBatch<R> {
    /// No row yet.
    pub fn new(columns: &[Column<R>], words: ExitStrings) -> RowBatch<R> {
        let builders = columns.iter().filter(|column| column.at_rest).map(|column| match column.of {
            Of::Words(of) => Builder::Words(of, words.builder()),
            Of::Flag(of) => Builder::Flag(of, BooleanBuilder::new()),
            Of::U16(of) => Builder::U16(of, UInt16Builder::new()),
            Of::U32(of) => Builder::U32(of, UInt32Builder::new()),
            Of::U64(of) => Builder::U64(of, UInt64Builder::new()),
            Of::Numbers(of) => Builder::Numbers(of, ListBuilder::new(UInt64Builder::new()).with_field(item())),
        });
        RowBatch { schema: schema(columns, words), run: words.builder(), columns: builders.collect() }
    }

    /// Their names and types.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Adds a row of the recording `run`.
    pub fn push(&mut self, run: &str, row: &R) {
        self.run.push(Some(run));
        for column in &mut self.columns {
            match column {
                Builder::Words(of, builder) => builder.push(of(row)),
                Builder::Flag(of, builder) => builder.append_option(of(row)),
                Builder::U16(of, builder) => builder.append_option(of(row)),
                Builder::U32(of, builder) => builder.append_option(of(row)),
                Builder::U64(of, builder) => builder.append_option(of(row)),
                Builder::Numbers(of, builder) => {
                    builder.values().append_slice(&of(row));
                    builder.append(true);
                }
            }
        }
    }

    /// The rows in hand; none are then.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter_mut().map(|column| -> ArrayRef {
            match column {
                Builder::Words(_, builder) => builder.finish(),
                Builder::Flag(_, builder) => Arc::new(builder.finish()),
                Builder::U16(_, builder) => Arc::new(builder.finish()),
                Builder::U32(_, builder) => Arc::new(builder.finish()),
                Builder::U64(_, builder) => Arc::new(builder.finish()),
                Builder::Numbers(_, builder) => Arc::new(builder.finish()),
            }
        });
        let all = std::iter::once(self.run.finish()).chain(columns).collect();
        RecordBatch::try_new(self.schema.clone(), all)
    }
}

impl ExitStrings {
    fn data_type(self) -> DataType {
        match self {
            ExitStrings::Numbered => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            ExitStrings::Plain => DataType::Utf8,
        }
    }

    fn builder(self) -> WordsBuilder {
        match self {
            ExitStrings::Numbered => WordsBuilder::Numbered(StringDictionaryBuilder::new()),
            ExitStrings::Plain => WordsBuilder::Plain(StringBuilder::new()),
        }
    }
}

impl WordsBuilder {
    fn push(&mut self, words: Option<&str>) {
        match self {
            WordsBuilder::Numbered(builder) => builder.append_option(words),
            WordsBuilder::Plain(builder) => builder.append_option(words),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            WordsBuilder::Numbered(builder) => Arc::new(builder.finish()),
            WordsBuilder::Plain(builder) => Arc::new(builder.finish()),
        }
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::UInt64, false))
}
