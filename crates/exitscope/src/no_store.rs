//! `exitscope store`, of a command that was built without it.

use crate::Outcome;
use crate::cli::StoreCommand;
use std::io::Write;

pub fn run(_: &StoreCommand, _: &mut dyn Write) -> anyhow::Result<Outcome> {
    anyhow::bail!(crate::NO_STORE)
}
