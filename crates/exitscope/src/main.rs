//! The command: flags in, a page out.
//!
//! Exit codes: 0 fine, 1 a threshold of `--fail-on` was passed, 2 could not do it. A closed pipe is success.

mod access;
mod advise;
mod background;
mod cli;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod costs;
mod diff;
mod docs;
mod doctor;
mod events;
mod export;
mod exporter;
#[cfg_attr(not(feature = "sql"), path = "no_fleet.rs")]
mod fleet;
mod gathered;
mod host;
mod html;
mod lab;
mod live;
mod new_file;
mod page_file;
mod read;
mod record;
mod replay;
mod report;
mod serve;
mod sim;
#[cfg(feature = "sql")]
mod sql;
#[cfg_attr(not(feature = "store"), path = "no_store.rs")]
mod store;
mod sweep;
mod top;
mod validate;
mod vary;

use clap::Parser;
use cli::{Cli, Command};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("exitscope: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// What is said by a command that was built without.
#[cfg(not(feature = "store"))]
const NO_STORE: &str = "this exitscope was built without the store, which takes minutes to build: `cargo build --profile fleet \
    --package exitscope --features store`";
#[cfg(not(feature = "sql"))]
const NO_SQL: &str = "this exitscope was built without SQL, which takes minutes to build: `cargo build --profile fleet \
    --package exitscope --features sql`";
#[cfg(not(feature = "cluster"))]
const NO_CLUSTER: &str = "this exitscope was built without clusters, which take minutes to build: `cargo build --profile fleet \
    --package exitscope --features cluster`";

/// How a command ended.
enum Outcome {
    Fine,
    /// A threshold was passed.
    Findings,
    /// Something could not be done, and the page says so.
    Failed,
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    let mut out = BufWriter::new(io::stdout().lock());
    #[cfg(feature = "cluster")]
    sweep::on_cluster::offer();
    let outcome = match cli.command {
        Command::Record(args) => live::run(&args)?,
        Command::Top(args) => top::run(&args, &mut out)?,
        Command::Exporter(args) => exporter::run(&args)?,
        Command::Serve(args) => serve::run(&args)?,
        Command::Report(args) => report::run(&args, &mut out)?,
        Command::Events(args) => events::run(&args, &mut out)?,
        Command::Export(args) => export::run(&args, &mut out)?,
        Command::Diff(args) => diff::run(&args, &mut out)?,
        Command::Replay(args) => replay::run(&args, &mut out)?,
        Command::Advise(args) => advise::run(&args, &mut out)?,
        Command::Store { what } => store::run(&what, &mut out)?,
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(&args, &mut out)?,
        #[cfg(not(feature = "sql"))]
        Command::Sql(_) => anyhow::bail!(NO_SQL),
        Command::Fleet { what } => fleet::run(&what, &mut out)?,
        Command::Cluster { what } => {
            access::cluster_is_meant(&what)?;
            cluster::run(&what)?
        }
        Command::Sim(args) => sim::run(&args, &mut out)?,
        Command::Sweep(args) => sweep::run(&args, &mut out)?,
        Command::Validate(args) => validate::run(&args, &mut out)?,
        Command::Lab { experiment } => lab::run(&experiment, &mut out)?,
        Command::Doctor(args) => doctor::run(&args, &mut out)?,
        Command::Completions { shell } => docs::completions(shell, &mut out)?,
        Command::Man { directory } => docs::man(directory.as_deref(), &mut out)?,
        Command::Docs { what } => docs::print(what, &mut out)?,
    };
    out.flush()?;
    Ok(outcome)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<serde_json::Error>() {
        Some(json) => json.io_error_kind(),
        None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}
