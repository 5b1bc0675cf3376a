//! `exitscope cluster`: the two programs of a cluster.

use crate::Outcome;
use crate::cli::{ClusterAccessArgs, ClusterCommand};
use exitscope_http::credentials;
use exitscope_query::cluster::{Executor, execute, schedule};
use exitscope_query::cluster_access::{ClusterToken, SchedulerAddress};
use rustix::fs::Mode;
use rustix::process::umask;
use std::path::Path;

pub fn run(command: &ClusterCommand) -> anyhow::Result<Outcome> {
    // Ballista has no modes for the files that it makes. No other thread runs yet: the umask is the whole process's.
    umask(Mode::RWXG | Mode::RWXO);
    match command {
        ClusterCommand::Scheduler { listen, access } => {
            let token = token(access.token_file.as_deref())?;
            say!("scheduling at df://{listen}{}", who(access));
            schedule(*listen, token)?;
        }
        ClusterCommand::Executor(args) => {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let scheduler = scheduler(&args.scheduler, args.access.token_file.as_deref())?;
            let (host, port) = &args.scheduler;
            say!("executing for df://{host}:{port}, at {}{}", args.listen, who(&args.access));
            execute(Executor {
                scheduler,
                listen: args.listen,
                cores: args.threads.map_or_else(cores, usize::from),
                memory: args.memory,
                work: args.work.clone(),
            })?;
        }
    }
    Ok(Outcome::Fine)
}

fn who(access: &ClusterAccessArgs) -> &'static str {
    if access.token_file.is_some() { "" } else { ", for whoever connects" }
}

/// The scheduler that is to be asked, with the token in this file.
pub fn scheduler((host, port): &(String, u16), token_file: Option<&Path>) -> anyhow::Result<SchedulerAddress> {
    Ok(SchedulerAddress { host: host.clone(), port: *port, token: token(token_file)? })
}

fn token(file: Option<&Path>) -> anyhow::Result<ClusterToken> {
    Ok(ClusterToken::new(file.map(credentials::token).transpose()?))
}
