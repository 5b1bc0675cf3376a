//! `exitscope store`, of a command that was built without it.

use crate::Outcome;
use crate::cli::StoreCommand;
use anyhow::bail;
use std::io::Write;

pub fn run(_: &StoreCommand, _: &mut dyn Write) -> anyhow::Result<Outcome> {
    bail!(
        "this exitscope was built without the store, which takes minutes to build: `cargo build --release --package exitscope \
         --features store`"
    )
}
