//! The command: flags in, a page out.
//!
//! Exit codes: 0 fine, 1 a limit of `--fail-on` was passed, 2 could not do it, or could not judge it. A closed pipe changes none
//! of them.

/// Says something on standard error. Names and files are in it: nothing of it acts on the terminal.
macro_rules! say {
    ($($text:tt)*) => {{
        // A terminal that has hung up takes nothing any more: `eprintln!` would panic.
        let text = format!($($text)*);
        let text = exitscope_model::encode::message(&text);
        let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("exitscope: {text}\n"));
    }};
}

mod access;
mod advise;
mod alternate;
mod assumed_runs;
mod bundle;
mod cli;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod counts;
mod devices;
mod diff;
mod docs;
mod doctor;
mod events;
mod export;
mod exporter;
#[cfg_attr(not(feature = "sql"), path = "no_fleet.rs")]
mod fleet;
mod gates;
mod host;
mod html;
mod html_output;
mod lab;
mod lab_against;
mod output_file;
mod permitted;
mod predictions;
mod question;
mod read;
mod record;
mod replay;
mod report;
mod report_plan;
mod saved_run;
mod scenario_check;
mod scenario_file;
mod select;
mod serve;
mod sim;
mod sim_predictions;
#[cfg(feature = "sql")]
mod sql;
#[cfg_attr(not(feature = "store"), path = "no_store.rs")]
mod store;
mod sweep;
mod terminal;
mod top;
mod totals;
mod trial;
mod trial_args;
mod validate;
mod validate_lab;
mod views;

use clap::Parser;
use cli::{Cli, Command, ReportArgs};
use exitscope_export::{Export, ExportedVcpus};
pub use exitscope_measure::is_started_by;
use exitscope_measure::{is_watchdog, run_watchdog};
use exitscope_model::{HaltRow, Spread};
use exitscope_view::Report;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// A command line. It may be run any number of times in one process.
#[derive(Debug)]
pub struct CommandLine(Cli);

impl CommandLine {
    /// Parses arguments, of which the first is the program's name.
    pub fn parse(arguments: &[impl AsRef<OsStr>]) -> Result<CommandLine, clap::Error> {
        Cli::try_parse_from(arguments.iter().map(AsRef::as_ref)).map(CommandLine)
    }

    /// Does what it says, and gives the code to exit with; what the command prints on standard output goes to `out`,
    /// complaints to standard error.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        run(&self.0, out).map(|outcome| ExitCode::from(outcome.code()))
    }

    /// Passes the exits that an `export` selects to what `begin` makes for their vCPUs, whatever its format; returns it, and what of the
    /// recordings was lost or damaged, a sentence each.
    pub fn export_to<E: Export>(&self, begin: impl FnOnce(&ExportedVcpus) -> E) -> anyhow::Result<(E, Vec<String>)> {
        let Command::Export(args) = &self.0.command else { anyhow::bail!("not a command line of `exitscope export`") };
        export::to(args, begin)
    }

    /// What a `report` prints as JSON or CSV, of recordings.
    pub fn report(&self) -> anyhow::Result<Report> {
        report::report(self.report_args()?)
    }

    /// The halts of the vCPUs that a `report` selects, a row for each vCPU; and what was lost or damaged, a sentence each.
    pub fn halts(&self) -> anyhow::Result<(Vec<HaltRow<Spread>>, Vec<String>)> {
        report::halts(self.report_args()?)
    }

    fn report_args(&self) -> anyhow::Result<&ReportArgs> {
        match &self.0.command {
            Command::Report(args) => Ok(args),
            _ => anyhow::bail!("not a command line of `exitscope report`"),
        }
    }
}

/// The command: runs the process's command line, and gives the code to exit with.
pub fn main() -> ExitCode {
    ExitCode::from(main_of(std::env::args_os().collect()))
}

/// The same of these arguments, of which the first is the program's name. If the process is an interpreter's, [`is_started_by`] is told
/// before how it starts the command.
pub fn main_of(arguments: Vec<OsString>) -> u8 {
    if is_watchdog(&arguments) {
        return run_watchdog();
    }
    let cli = Cli::parse_from(arguments);
    let instead = permitted::go_on_as_permitted(&cli.command);
    match run_to_stdout(&cli) {
        Ok(outcome) => outcome.code(),
        Err(error) => {
            say!("{error:#}");
            if let Some(instead) = instead.filter(|_| permitted::is_forbidden(&error)) {
                say!("{instead}");
            }
            2
        }
    }
}

/// What is said by a command that was built without.
#[cfg(not(all(feature = "store", feature = "sql", feature = "cluster")))]
macro_rules! built_without {
    ($what:literal, $feature:literal) => {
        concat!(
            "this exitscope was built without ",
            $what,
            ": the release has it in the tarball exitscope-fleet, and `cargo build --profile fleet --package exitscope --features ",
            $feature,
            "` builds it, which takes minutes"
        )
    };
}

#[cfg(not(feature = "store"))]
const NO_STORE: &str = built_without!("the store", "store");
#[cfg(not(feature = "sql"))]
const NO_SQL: &str = built_without!("SQL", "sql");
#[cfg(not(feature = "cluster"))]
const NO_CLUSTER: &str = built_without!("clusters", "cluster");

/// How a command ended.
enum Outcome {
    Fine,
    /// A threshold was passed.
    Findings,
    /// Something could not be done, and the page says so.
    Failed,
}

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Outcome::Fine => 0,
            Outcome::Findings => 1,
            Outcome::Failed => 2,
        }
    }
}

fn run_to_stdout(cli: &Cli) -> anyhow::Result<Outcome> {
    // What goes on without an end stops where nobody reads it. All else is done for its exit code, too.
    let endless = matches!(cli.command, Command::Events(_) | Command::Export(_) | Command::Top(_) | Command::Sql(_));
    let closed = Cell::new(false);
    let mut out = BufWriter::new(Pipe { to: io::stdout().lock(), endless, closed: &closed });
    let done = run(cli, &mut out).and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    match done {
        // Of another pipe that was closed, it is an error.
        Err(error) if endless && closed.get() && is_closed_pipe(&error) => Ok(Outcome::Fine),
        done => done,
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    #[cfg(feature = "cluster")]
    sweep::on_cluster::offer();
    match &cli.command {
        Command::Record(args) => record::run(args, out),
        Command::Top(args) => top::run(args, out),
        Command::Exporter(args) => exporter::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Report(args) => report::run(args, out),
        Command::Events(args) => events::run(args, out),
        Command::Export(args) => export::run(args, out),
        Command::Diff(args) => diff::run(args, out),
        Command::Replay(args) => replay::run(args, out),
        Command::Advise(args) => advise::run(args, out),
        Command::Try(args) => trial::run(args, out),
        Command::Predictions(args) => predictions::run(args, out),
        Command::Store { what } => store::run(what, out),
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(args, out),
        #[cfg(not(feature = "sql"))]
        Command::Sql(_) => anyhow::bail!(NO_SQL),
        Command::Fleet { what } => fleet::run(what, out),
        Command::Cluster { what } => {
            access::cluster_is_meant(what)?;
            cluster::run(what)
        }
        Command::Sim(args) => sim::run(args, out),
        Command::Sweep(args) => sweep::run(args, out),
        Command::Validate(args) => validate::run(args, out),
        Command::Lab { experiment } => lab::run(experiment, out),
        Command::Doctor(args) => doctor::run(args, out),
        Command::Completions { shell } => docs::completions(*shell, out),
        Command::Man { directory } => docs::man(directory.as_deref(), out),
        Command::Docs { what } => docs::print(*what, out),
    }
}

/// Writes a value as JSON, on a line of its own.
fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Standard output. Where nobody reads it any more, what is written goes nowhere.
struct Pipe<'a, W> {
    to: W,
    /// Whether it is an error instead.
    endless: bool,
    /// Whether nobody reads it any more.
    closed: &'a Cell<bool>,
}

impl<W: Write> Pipe<'_, W> {
    fn unless_closed<T>(&self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed.set(true);
                if self.endless { Err(error) } else { Ok(otherwise) }
            }
            done => done,
        }
    }
}

impl<W: Write> Write for Pipe<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.to.write(bytes);
        self.unless_closed(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.to.flush();
        self.unless_closed(done, ())
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<serde_json::Error>() {
        Some(json) => json.io_error_kind(),
        None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}
