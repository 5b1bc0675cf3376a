//! Rows of a table as Arrow columns, under the names and of the types that the table of its columns says.
//!
//! ```text
//! rows ─► RowBatch ─► RecordBatch    the store's Parquet files, Python's tables
//! ```
//!
//! Does not know: what any row means, files.

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
pub enum ExitStrings {
    /// Each by the number of one that was before: for tables of many rows.
    Numbered,
    /// As they are.
    Plain,
}

/// Rows in hand.
pub struct RowBatch<R: 'static> {
    schema: SchemaRef,
    columns: Vec<Builder<R>>,
}

/// A column of words in the making.
pub enum StringsBuilder {
    /// As [`ExitStrings::Numbered`].
    Numbered(StringDictionaryBuilder<Int32Type>),
    /// As [`ExitStrings::Plain`].
    Plain(StringBuilder),
}

/// What is taken of a row, and where it goes.
enum Builder<R: 'static> {
    Words(fn(&R) -> Option<&str>, StringsBuilder),
    Flag(fn(&R) -> Option<bool>, BooleanBuilder),
    U16(fn(&R) -> Option<u16>, UInt16Builder),
    U32(fn(&R) -> Option<u32>, UInt32Builder),
    U64(fn(&R) -> Option<u64>, UInt64Builder),
    Numbers(fn(&R) -> Vec<u64>, ListBuilder<UInt64Builder>),
}

/// Names and types of columns, with units and prose as metadata.
pub fn fields<'a, R: 'static>(columns: impl Iterator<Item = &'a Column<R>>, words: ExitStrings) -> Vec<Field> {
    let field = |column: &Column<R>| {
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
    };
    columns.map(field).collect()
}

impl<R> RowBatch<R> {
    /// No row yet.
    pub fn new<'a>(columns: impl Iterator<Item = &'a Column<R>> + Clone, words: ExitStrings) -> RowBatch<R> {
        let builders = columns.clone().map(|column| match column.of {
            Of::Words(of) => Builder::Words(of, words.builder()),
            Of::Flag(of) => Builder::Flag(of, BooleanBuilder::new()),
            Of::U16(of) => Builder::U16(of, UInt16Builder::new()),
            Of::U32(of) => Builder::U32(of, UInt32Builder::new()),
            Of::U64(of) => Builder::U64(of, UInt64Builder::new()),
            Of::Numbers(of) => Builder::Numbers(of, ListBuilder::new(UInt64Builder::new()).with_field(item())),
        });
        RowBatch { schema: Arc::new(Schema::new(fields(columns, words))), columns: builders.collect() }
    }

    /// Their names and types.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Adds a row.
    pub fn push(&mut self, row: &R) {
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

    /// The columns of the rows in hand; none are then.
    pub fn take_columns(&mut self) -> Vec<ArrayRef> {
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
        columns.collect()
    }

    /// The rows in hand; none are then.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(self.schema.clone(), self.take_columns())
    }
}

impl ExitStrings {
    /// The type of a column of words.
    pub fn data_type(self) -> DataType {
        match self {
            ExitStrings::Numbered => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            ExitStrings::Plain => DataType::Utf8,
        }
    }

    /// A column of words, with none yet.
    pub fn builder(self) -> StringsBuilder {
        match self {
            ExitStrings::Numbered => StringsBuilder::Numbered(StringDictionaryBuilder::new()),
            ExitStrings::Plain => StringsBuilder::Plain(StringBuilder::new()),
        }
    }
}

impl StringsBuilder {
    /// Adds the words of a row.
    pub fn push(&mut self, words: Option<&str>) {
        match self {
            StringsBuilder::Numbered(builder) => builder.append_option(words),
            StringsBuilder::Plain(builder) => builder.append_option(words),
        }
    }

    /// The column; it is empty then.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            StringsBuilder::Numbered(builder) => Arc::new(builder.finish()),
            StringsBuilder::Plain(builder) => Arc::new(builder.finish()),
        }
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::UInt64, false))
}
