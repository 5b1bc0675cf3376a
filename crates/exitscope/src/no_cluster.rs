//! `exitscope cluster`, of a command that was built without it.

use crate::Outcome;
use crate::cli::ClusterCommand;

pub fn run(_: &ClusterCommand) -> anyhow::Result<Outcome> {
    anyhow::bail!(crate::NO_CLUSTER)
}
