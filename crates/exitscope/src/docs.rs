//! Completions, manual pages, schemas, and documents generated from the tables that they describe.

use crate::Outcome;
use crate::cli::{Cli, GeneratedDocument};
use anyhow::Context;
use clap::CommandFactory;
use exitscope_apply::write_settings_document;
use exitscope_exporter::write_metrics_document;
use exitscope_page::PageData;
use exitscope_view::{
    AdviceReport, Comparison, CountsComparison, CountsReport, DoctorReport, EventRow, Fleet, LabReport, Report,
    SimReport, Sweep, documents, write_mechanisms,
};
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

pub fn print(what: GeneratedDocument, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let settings = SchemaSettings::default().for_serialize();
    let schemas = settings.with_transform(RecursiveTransform(absent_is_not_null)).into_generator();
    let fine = |done: io::Result<()>| Ok(done.map(|()| Outcome::Fine)?);
    let schema = match what {
        GeneratedDocument::Losses => return fine(documents::losses(out)),
        GeneratedDocument::Counts => return fine(documents::counts(out)),
        GeneratedDocument::Knobs => return fine(documents::knobs(out)),
        GeneratedDocument::Mechanisms => return fine(write_mechanisms(out)),
        GeneratedDocument::Settings => return fine(write_settings_document(out)),
        GeneratedDocument::Causes => return fine(documents::causes(out)),
        GeneratedDocument::Figures => return fine(documents::figures(out)),
        GeneratedDocument::Models => return fine(documents::cost_models(&exitscope_scenario::models()?, out)),
        GeneratedDocument::Metrics => return fine(write_metrics_document(out)),
        GeneratedDocument::Columns => return fine(documents::columns(out)),
        GeneratedDocument::ReportSchema => schemas.into_root_schema_for::<Report>(),
        GeneratedDocument::DiffSchema => schemas.into_root_schema_for::<Comparison>(),
        GeneratedDocument::CountsSchema => schemas.into_root_schema_for::<CountsReport>(),
        GeneratedDocument::CountsDiffSchema => schemas.into_root_schema_for::<CountsComparison>(),
        GeneratedDocument::EventsSchema => schemas.into_root_schema_for::<EventRow>(),
        GeneratedDocument::TopSchema => schemas.into_root_schema_for::<exitscope_top::Frame>(),
        GeneratedDocument::ReplaySchema => schemas.into_root_schema_for::<exitscope_view::Replay>(),
        GeneratedDocument::AdviseSchema => schemas.into_root_schema_for::<AdviceReport>(),
        GeneratedDocument::TrySchema => schemas.into_root_schema_for::<exitscope_view::TrialReport>(),
        GeneratedDocument::SimSchema => schemas.into_root_schema_for::<SimReport>(),
        GeneratedDocument::SweepSchema => schemas.into_root_schema_for::<Sweep>(),
        GeneratedDocument::LabSchema => schemas.into_root_schema_for::<LabReport>(),
        GeneratedDocument::FleetSchema => schemas.into_root_schema_for::<Fleet>(),
        GeneratedDocument::PageSchema => schemas.into_root_schema_for::<PageData>(),
        GeneratedDocument::DoctorSchema => schemas.into_root_schema_for::<DoctorReport>(),
        GeneratedDocument::ValidateSchema => schemas.into_root_schema_for::<exitscope_validation::Validation>(),
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
