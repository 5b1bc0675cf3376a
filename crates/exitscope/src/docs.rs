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
    SimReport, Sweep, documents, write_mechanisms, write_python_types,
};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
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
    let fine = |done: io::Result<()>| Ok(done.map(|()| Outcome::Fine)?);
    let schema = match what {
        GeneratedDocument::PythonTypes => {
            let schemas = [schema::<Report>(), schema::<AdviceReport>(), schema::<Comparison>()];
            return fine(write_python_types(&schemas.map(Value::from), out));
        }
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
        GeneratedDocument::ReportSchema => schema::<Report>(),
        GeneratedDocument::DiffSchema => schema::<Comparison>(),
        GeneratedDocument::CountsSchema => schema::<CountsReport>(),
        GeneratedDocument::CountsDiffSchema => schema::<CountsComparison>(),
        GeneratedDocument::EventsSchema => schema::<EventRow>(),
        GeneratedDocument::TopSchema => schema::<exitscope_top::Frame>(),
        GeneratedDocument::ReplaySchema => schema::<exitscope_view::Replay>(),
        GeneratedDocument::AdviseSchema => schema::<AdviceReport>(),
        GeneratedDocument::TrySchema => schema::<exitscope_view::TrialReport>(),
        GeneratedDocument::PredictionsSchema => schema::<exitscope_view::PredictionTally>(),
        GeneratedDocument::SimSchema => schema::<SimReport>(),
        GeneratedDocument::SweepSchema => schema::<Sweep>(),
        GeneratedDocument::LabSchema => schema::<LabReport>(),
        GeneratedDocument::FleetSchema => schema::<Fleet>(),
        GeneratedDocument::PageSchema => schema::<PageData>(),
        GeneratedDocument::DoctorSchema => schema::<DoctorReport>(),
        GeneratedDocument::ValidateSchema => schema::<exitscope_validation::Validation>(),
    };
    serde_json::to_writer_pretty(&mut *out, &schema)?;
    writeln!(out)?;
    Ok(Outcome::Fine)
}

/// The schema of what is written.
fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::default().for_serialize();
    let generator = settings.with_transform(RecursiveTransform(absent_is_not_null)).into_generator();
    generator.into_root_schema_for::<T>()
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
