//! Runs of the lab that were saved with --format json, read back.

use anyhow::{Context, bail};
use exitscope_view::LabReport;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// The largest that is read.
const MAX_SAVED: u64 = 64 << 20;

/// A run of this experiment that was saved with --format json.
pub fn saved_of(path: &Path, experiment: &str) -> anyhow::Result<LabReport> {
    let report = saved(path)?;
    if report.experiment != experiment {
        bail!("{} is a run of lab {}, not of lab {experiment}", path.display(), report.experiment);
    }
    Ok(report)
}

/// A run that was saved with --format json.
pub fn saved(path: &Path) -> anyhow::Result<LabReport> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut report: LabReport = serde_json::from_reader(BufReader::new(file.take(MAX_SAVED)))
        .with_context(|| format!("{name} is not a run of the lab, saved with --format json"))?;
    if report.schema != LabReport::SCHEMA {
        bail!("{name} is of schema {:?}; this is {:?}", report.schema, LabReport::SCHEMA);
    }
    // What it comes to is said of its figures, whichever version saved it.
    report.verdict = report.headline();
    Ok(report)
}
