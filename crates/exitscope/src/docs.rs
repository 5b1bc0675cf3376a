//! Completions, manual pages, schemas, and documents generated from the tables that they describe.

use crate::Outcome;
use crate::cli::{Cli, Document};
use anyhow::Context;
use clap::CommandFactory;
use exitscope_exporter::write_metrics_document;
use exitscope_page::PageData;
use exitscope_view::{Advised, Checkup, Comparison, EventRow, Fleet, LabReport, Report, Simulated, Sweep, documents};
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

pub fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // The generator panics where it cannot write, so it writes into memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "exitscope", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Fine)
}

pub fn man(directory: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match directory {
        None => clap_mangen::Man::new(Cli::command()).render(out)?,
        Some(directory) => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .with_context(|| format!("cannot write manual pages into {}", directory.display()))?,
    }
    Ok(Outcome::Fine)
}

pub fn print(what: Document, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let settings = SchemaSettings::default().for_serialize();
    let schemas = settings.with_transform(RecursiveTransform(absent_is_not_null)).into_generator();
    let fine = |done: io::Result<()>| Ok(done.map(|()| Outcome::Fine)?);
    let schema = match what {
        Document::Losses => return fine(documents::losses(out)),
        Document::Knobs => return fine(documents::knobs(out)),
        Document::Causes => return fine(documents::causes(out)),
        Document::Figures => return fine(documents::figures(out)),
        Document::Models => return fine(documents::cost_models(&exitscope_scenario::models()?, out)),
        Document::Metrics => return fine(write_metrics_document(out)),
        Document::Columns => return fine(documents::columns(out)),
        Document::ReportSchema => schemas.into_root_schema_for::<Report>(),
        Document::DiffSchema => schemas.into_root_schema_for::<Comparison>(),
        Document::EventsSchema => schemas.into_root_schema_for::<EventRow>(),
        Document::TopSchema => schemas.into_root_schema_for::<exitscope_top::Frame>(),
        Document::ReplaySchema => schemas.into_root_schema_for::<exitscope_view::Replay>(),
        Document::AdviseSchema => schemas.into_root_schema_for::<Advised>(),
        Document::SimSchema => schemas.into_root_schema_for::<Simulated>(),
        Document::SweepSchema => schemas.into_root_schema_for::<Sweep>(),
        Document::LabSchema => schemas.into_root_schema_for::<LabReport>(),
        Document::FleetSchema => schemas.into_root_schema_for::<Fleet>(),
        Document::PageSchema => schemas.into_root_schema_for::<PageData>(),
        Document::DoctorSchema => schemas.into_root_schema_for::<Checkup>(),
        Document::ValidateSchema => schemas.into_root_schema_for::<exitscope_validation::Validation>(),
    };
    serde_json::to_writer_pretty(&mut *out, &schema)?;
    writeln!(out)?;
    Ok(Outcome::Fine)
}

/// A field that is left out where it is `None` is never null.
fn absent_is_not_null(schema: &mut Schema) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let optional = properties.iter_mut().filter(|(name, _)| !required.contains(&Value::from(name.as_str())));
    for property in optional.filter_map(|(_, property)| property.as_object_mut()) {
        let list = |name: &str| property.get(name).and_then(Value::as_array).map(Vec::as_slice);
        if let Some([kind, null]) = list("type")
            && null == "null"
        {
            let kind = kind.clone();
            property.insert("type".to_string(), kind);
        } else if let Some([Value::Object(of), null]) = list("anyOf")
            && null["type"] == "null"
        {
            let of = of.clone();
            property.remove("anyOf");
            property.extend(of);
        }
    }
}
