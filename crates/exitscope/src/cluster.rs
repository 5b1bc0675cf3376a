//! `exitscope cluster`: the two programs of a cluster.

use crate::Outcome;
use crate::cli::ClusterCommand;
use exitscope_query::cluster::{Executor, execute, schedule};

pub fn run(command: &ClusterCommand) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Scheduler { listen, .. } => {
            say!("scheduling at df://{listen}");
            schedule(*listen)?;
        }
        ClusterCommand::Executor(args) => {
            let cores = || std::thread::available_parallelism().map_or(1, usize::from);
            let (host, port) = &args.scheduler;
            say!("executing for df://{host}:{port}, at {}", args.listen);
            execute(Executor {
                scheduler: args.scheduler.clone(),
                listen: args.listen,
                cores: args.threads.map_or_else(cores, usize::from),
                memory: args.memory,
                work: args.work.clone(),
            })?;
        }
    }
    Ok(Outcome::Fine)
}
