//! `exitscope store`, of a command that was built without it.

use crate::Outcome;
use crate::cli::StoreCommand;
use anyhow::bail;
use exitscope_view::TrialReport;
use std::io::Write;
use std::path::Path;

pub fn run(_: &StoreCommand, _: &mut dyn Write) -> anyhow::Result<Outcome> {
    bail!(crate::NO_STORE)
}

pub fn for_trials(_: &Path) -> anyhow::Result<()> {
    bail!(crate::NO_STORE)
}

pub fn add_trial(_: &Path, _: &TrialReport) -> anyhow::Result<()> {
    bail!(crate::NO_STORE)
}
