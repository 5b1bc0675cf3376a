//! Rows of a report as Arrow columns, whose types are those of the report's schema.

use crate::table::ArrowTable;
use anyhow::bail;
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The rows: first what says what a row is of, then what every row has.
pub fn table_of<Row: JsonSchema + Serialize>(places: &[&str], rows: &[Row]) -> anyhow::Result<ArrowTable> {
    let schema = SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<Row>();
    let (properties, required) = (&schema.as_value()["properties"], &schema.as_value()["required"]);
    let required = required.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
    let fields = places.iter().map(|name| field(name, properties, true));
    let fields = fields.chain(required.map(|name| field(name, properties, false)));
    let schema = Arc::new(Schema::new(fields.collect::<anyhow::Result<Vec<_>>>()?));
    let mut decoder = ReaderBuilder::new(schema.clone()).with_batch_size(rows.len().max(1)).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(ArrowTable::new(schema, decoder.flush()?.into_iter().collect()))
}

/// A property as a column.
fn field(name: &str, properties: &Value, may_be_absent: bool) -> anyhow::Result<Field> {
    let of = &properties[name];
    let (kind, may_be_null) = match &of["type"] {
        Value::Array(kinds) => (&kinds[0], true),
        kind => (kind, false),
    };
    let kind = match (kind.as_str(), of["format"].as_str()) {
        (Some("string"), _) => DataType::Utf8,
        (Some("integer"), Some("uint32")) => DataType::UInt32,
        (Some("integer"), Some("uint64")) => DataType::UInt64,
        (Some("number"), _) => DataType::Float64,
        _ => bail!("{name} is no column: {of}"),
    };
    let prose = of["description"].as_str().unwrap_or_default();
    let meta = [("prose".to_string(), prose.to_string())];
    Ok(Field::new(name, kind, may_be_null || may_be_absent).with_metadata(meta.into()))
}
