//! Rows as text, CSV, JSON and Parquet.

use crate::{QueryEngine, QueryError};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use exitscope_model::encode::csv_field;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// With a line of names first.
    Csv,
    /// A line of JSON for each row.
    Json,
    /// A file of Parquet.
    Parquet,
}

/// Writes rows as they come.
struct Output<W: Write> {
    rows: Rows,
    /// What the writer of rows wrote, which goes on from here: it hides why writing failed, and wants to be on any thread.
    passed: Passed,
    out: W,
}

enum Rows {
    Csv(Box<csv::Writer<Passed>>),
    Json(LineDelimitedWriter<Passed>),
    Parquet(Box<ArrowWriter<Passed>>),
}

impl<W: Write> Output<W> {
    /// Begins to write rows of these columns.
    fn begin(form: RowFormat, columns: &SchemaRef, out: W) -> io::Result<Output<W>> {
        let passed = Passed::default();
        let rows = match form {
            RowFormat::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(passed.clone());
                writer.write(&RecordBatch::new_empty(columns.clone())).map_err(io::Error::other)?;
                Rows::Csv(Box::new(writer))
            }
            RowFormat::Json => Rows::Json(LineDelimitedWriter::new(passed.clone())),
            RowFormat::Parquet => {
                let writer = ArrowWriter::try_new(passed.clone(), columns.clone(), None).map_err(io::Error::other)?;
                Rows::Parquet(Box::new(writer))
            }
        };
        Ok(Output { rows, passed, out })
    }

    /// Writes rows.
    fn rows(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match &mut self.rows {
            Rows::Csv(writer) => {
                without_formulas(batch).and_then(|batch| writer.write(&batch)).map_err(io::Error::other)
            }
            Rows::Json(writer) => writer.write(batch).map_err(io::Error::other),
            Rows::Parquet(writer) => writer.write(batch).map_err(io::Error::other),
        }?;
        self.passed.pass_on(&mut self.out)
    }

    /// Ends.
    fn finish(mut self) -> io::Result<()> {
        match self.rows {
            Rows::Csv(_) => {}
            Rows::Json(mut writer) => writer.finish().map_err(io::Error::other)?,
            Rows::Parquet(writer) => drop(writer.close().map_err(io::Error::other)?),
        }
        self.passed.pass_on(&mut self.out)
    }
}

/// The same rows, of whose texts no spreadsheet takes one for a formula.
fn without_formulas(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns): (Vec<FieldRef>, Vec<ArrayRef>) = Default::default();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let is_text = match field.data_type() {
            DataType::Dictionary(_, values) => is_text(values),
            of => is_text(of),
        };
        if !is_text {
            fields.push(field.clone());
            columns.push(column.clone());
            continue;
        }
        let texts = cast(column, &DataType::Utf8)?;
        let texts: StringArray = texts.as_string::<i32>().iter().map(|text| text.map(csv_field)).collect();
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(texts));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Bytes on their way.
#[derive(Clone, Default)]
struct Passed(Arc<Mutex<Vec<u8>>>);

impl Passed {
    fn pass_on(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for Passed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether values of this column are numbers, which stand to the right.
pub fn is_number(column: &DataType) -> bool {
    column.is_numeric()
}

/// The values of rows, for a person; empty where there is none.
pub fn texts(batch: &RecordBatch) -> io::Result<Vec<Vec<String>>> {
    let options = FormatOptions::default().with_display_error(true);
    let columns: Result<Vec<ArrayFormatter<'_>>, ArrowError> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect();
    let columns = columns.map_err(io::Error::other)?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|of| of.value(row).to_string()).collect()).collect())
}

/// Writes the answer to a query; how many rows it has.
pub fn write_rows(engine: &QueryEngine, query: &str, form: RowFormat, out: impl Write) -> Result<u64, QueryError> {
    let (mut output, mut count) = (None, 0);
    let mut out = Some(out);
    engine.query(query, &mut |columns, batch| {
        if let Some(out) = out.take() {
            output = Some(Output::begin(form, columns, out)?);
        }
        if let (Some(output), Some(batch)) = (&mut output, batch) {
            count += batch.num_rows() as u64;
            output.rows(batch)?;
        }
        Ok(true)
    })?;
    if let Some(output) = output {
        output.finish()?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{DictionaryArray, Int64Array};
    use datafusion::arrow::datatypes::Int32Type;

    #[test]
    fn no_text_of_csv_is_a_formula_and_numbers_stay_numbers() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("=cmd()"), None, Some("io")]));
        let hosts: DictionaryArray<Int32Type> = ["@a", "b", "@a"].into_iter().collect();
        let columns: [(&str, ArrayRef); 3] =
            [("text", texts), ("host", Arc::new(hosts)), ("n", Arc::new(Int64Array::from(vec![-1, 2, 3])))];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true))).unwrap();
        let mut bytes = Vec::new();
        let mut output = Output::begin(RowFormat::Csv, &batch.schema(), &mut bytes).unwrap();
        output.rows(&batch).unwrap();
        output.finish().unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "text,host,n\n'=cmd(),'@a,-1\n,b,2\nio,'@a,3\n");
    }
}
