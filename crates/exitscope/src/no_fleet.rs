//! `exitscope fleet`, and the page of a store, of a command that was built without SQL.

use crate::Outcome;
use crate::cli::{ComparedArgs, FleetCommand, QueryLimits};
use std::io::Write;
use std::path::Path;

pub fn run(_: &FleetCommand, _: &mut dyn Write) -> anyhow::Result<Outcome> {
    anyhow::bail!(crate::NO_SQL)
}

pub fn check(_: &Path, _: &QueryLimits) -> anyhow::Result<()> {
    anyhow::bail!(crate::NO_SQL)
}

pub fn data(_: &Path, _: &ComparedArgs, _: &QueryLimits) -> anyhow::Result<Vec<u8>> {
    anyhow::bail!(crate::NO_SQL)
}
