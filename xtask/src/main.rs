//! What the project needs beside cargo itself.
//!
//! ```text
//! cargo xtask tidy    checks the tree: paths, sizes, headers, links, the corpus tables, modules and names
//! cargo xtask house   prints measures of the code's structure; with --probe, which forgotten steps of an addition are noticed
//! cargo xtask ci      runs the whole check, or what a change can touch, and says how long each part takes
//! cargo xtask prose CRATE  prints what a crate says to its users, with files and lines
//! cargo xtask docs    writes the generated documents anew, and the front end's types
//! cargo xtask bench   measures exitscope and its simulator against their peers, and writes docs/benchmarks.md
//! cargo xtask dist    makes what people install; with --check, installs and uses it; writes docs/examples/{install,python}.txt
//! cargo xtask gains   holds what advice says that changes win against made recordings of which that is known; writes docs/gains.md
//! cargo xtask lab-agree   measures whether the lab's experiments agree on the same programs; writes docs/lab-agreement.md
//! cargo xtask nulls   counts how often diff finds a change in recordings of unchanged guests, or try in made series; writes docs
//! cargo xtask predictions  simulates anew what docs/predictions.csv rests on, and prints both
//! cargo xtask fuzz    takes damaged traces through the command: no panic, no hang, no unbounded memory, sums that add up
//! cargo xtask metamorphic  leaves tracepoints out of recordings, cuts and reorders them, and holds the accounts against each other
//! cargo xtask rig     boots a KVM host under emulation, and checks what exitscope says about it
//! cargo xtask same    compares what two builds say of recordings: after a change that should say nothing new
//! cargo xtask soak    runs the exporter while VMs start and stop
//! cargo xtask mutants changes the code in small ways, and looks whether the tests notice; writes docs/mutants.md
//! cargo xtask sanitize    runs the tests of crates with unsafe code under the address sanitizer
//! ```

mod additions;
mod bench;
mod ci;
mod dist;
mod excerpts;
mod figures;
mod fuzz;
mod gains;
mod house;
mod lab_agree;
mod measures;
mod mutants;
mod nulls;
mod probes;
mod prose;
mod rig;
mod same;
mod sanitize;
mod skips;
mod soak;
mod test_returns;
mod tidy;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Flags {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the whole check, or what a change can touch
    Ci(ci::Flags),
    /// Check the tree for what must not be in it
    Tidy,
    /// Print measures of the code's structure
    House(measures::Flags),
    /// Print the texts of a crate that its users see, in reading order
    Prose(prose::Flags),
    /// Write anew what is generated: JSON schemas, tables, examples, the front end's types
    Docs,
    /// Measure exitscope against its peers and write docs/benchmarks.md
    Bench(bench::Flags),
    /// Run a command for `bench`, which asks for it by this name
    #[command(hide = true)]
    RunOnce {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// List the figures of the docs, and which are older than what they measure
    Figures(figures::Flags),
    /// Simulate anew what docs/predictions.csv rests on, and print both
    Predictions {
        /// Files of runs in crates/validation/predictions; without any, all
        files: Vec<String>,
        /// Print docs/predictions-2.csv: the same file by what is simulated now
        #[arg(long, conflicts_with = "files")]
        again: bool,
    },
    /// Take damaged traces through the whole command
    Fuzz(fuzz::Flags),
    /// Leave tracepoints out of recordings, cut and reorder them, and compare the accounts of their time
    Metamorphic(fuzz::MetamorphicFlags),
    /// Make what people install, in dist/; with --check, try it
    Dist(dist::Flags),
    /// Hold the gains of advice against the truth of made recordings; write docs/gains.md
    Gains(gains::Flags),
    /// Measure on this machine whether the lab's experiments agree on the same programs; with --write, write docs/lab-agreement.md
    LabAgree(lab_agree::Flags),
    /// Count the changes that `diff` finds where there are none; write docs/nulls.md
    Nulls {
        /// Count those that `try` finds instead; write their table in docs/try.md
        #[arg(long = "try")]
        of_try: bool,
    },
    /// Boot a KVM host under QEMU software emulation and run exitscope in it
    Rig(rig::Flags),
    /// Compare what two builds say of recordings
    Same(same::Flags),
    /// Change the code in small ways and look whether the tests notice; write docs/mutants.md
    Mutants(mutants::Flags),
    /// Run the tests of the crates with unsafe code under the address sanitizer
    Sanitize,
    /// Run the exporter for ten minutes while VMs start and stop
    Soak(soak::Flags),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Flags::parse().task {
        Task::Ci(flags) => ci::run(&flags).map(done),
        Task::Tidy => tidy::run().map(done),
        Task::House(flags) => measures::run(&flags).map(done),
        Task::Prose(flags) => prose::run(&flags).map(done),
        Task::Docs => write_docs().map(done),
        Task::Bench(flags) => bench::run(&flags).map(done),
        Task::RunOnce { command } => bench::run_once(&command).map(done),
        Task::Figures(flags) => figures::run(&flags).map(done),
        Task::Predictions { files, again } => predictions(&files, again).map(done),
        Task::Fuzz(flags) => fuzz::run(&flags).map(done),
        Task::Metamorphic(flags) => fuzz::metamorphic(&flags).map(done),
        Task::Dist(flags) => dist::run(&flags).map(done),
        Task::Gains(flags) => gains::run(&flags).map(done),
        Task::LabAgree(flags) => lab_agree::run(&flags).map(done),
        Task::Nulls { of_try } => nulls::run(of_try).map(done),
        Task::Rig(flags) => rig::run(&flags),
        Task::Same(flags) => same::run(&flags).map(done),
        Task::Mutants(flags) => mutants::run(&flags).map(done),
        Task::Sanitize => sanitize::run().map(done),
        Task::Soak(flags) => soak::run(&flags).map(done),
    };
    match result {
        Ok(code) => code,
        // Whoever read what is printed has seen enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Has the tests that compare documents, pages and advice write them, and makes the front end's types of the schemas among them.
fn write_docs() -> anyhow::Result<()> {
    let mut tests = cargo()?;
    let of = [
        ("exitscope", "documents"),
        ("exitscope", "examples"),
        ("exitscope", "names"),
        ("exitscope-view", "pages"),
        ("exitscope-advice", "advice"),
    ];
    let names = of.iter().flat_map(|(package, test)| ["--package", package, "--test", test]);
    tests.args(["test", "--quiet"]).args(names).env("EXITSCOPE_WRITE_DOCUMENTS", "1");
    let mut types = Command::new("npm");
    types.args(["run", "--silent", "types"]).current_dir(root().join("web"));
    for mut command in [tests, types] {
        ensure!(command.status()?.success(), "{command:?} failed");
    }
    excerpts::write()
}

/// Has the crate of published figures print its predictions beside what the simulator now makes of them.
fn predictions(files: &[String], again: bool) -> anyhow::Result<()> {
    let mut example = cargo()?;
    example.args(["run", "--quiet", "--package", "exitscope-validation", "--example", "predict", "--"]).args(files);
    example.args(again.then_some("--again"));
    ensure!(example.status()?.success(), "{example:?} failed");
    Ok(())
}

/// The repository's top directory.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the repository")
}

/// Cargo, in the repository, with the target directory of this program. What cargo sets for a program that it runs is taken
/// away: build scripts that look at it (ring's) would run again, and all that depends on them would be built anew.
fn cargo() -> anyhow::Result<Command> {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if name == "CARGO_MANIFEST_DIR" || name.to_string_lossy().starts_with("CARGO_PKG_") {
            cargo.env_remove(name);
        }
    }
    cargo.current_dir(root()).env("CARGO_TARGET_DIR", target()?);
    Ok(cargo)
}

/// cargo's target directory, wherever it was told to put it: this program is in `<target>/<profile>/`.
fn target() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.ancestors().nth(2).context("this program is not in a target directory")?.to_path_buf())
}
