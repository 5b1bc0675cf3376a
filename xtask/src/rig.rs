//! Boots a whole KVM host under QEMU software emulation, and runs exitscope and its workloads inside: real `kvm_exit`
//! tracepoints on machines that have none.
//!
//! ```text
//! packages ─► kernel, busybox ┐                                        ┌─► console.txt, qemu.txt
//! this machine ─► perf, …     ├─► initramfs ─► QEMU: KVM on SVM, steps ┤
//! this build ─► exitscope, …  ┘                                        └─► results/STEP/{stdout,stderr,code,…} ─► checks
//! ```
//!
//! Everything is in `target/rig`. rig/README.md says how to use it.

mod initramfs;
mod lab;
mod live;
mod machine;
mod packages;
mod steps;
mod trials;
mod waits;

use crate::{cargo, target};
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use steps::{Outcome, STEPS, Step};

/// Set to 1, this lets `cargo xtask rig` pass on a machine where the rig cannot be put together.
const WITHOUT_RIG: &str = "EXITSCOPE_WITHOUT_RIG";

/// Flags of `cargo xtask rig`.
#[derive(clap::Args)]
pub struct Flags {
    /// The host to boot
    #[arg(value_enum)]
    host: Host,
    /// Seconds from power-on to power-off, at most
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Take the command and tiny-guest as they are in target/debug, whatever features they have
    #[arg(long)]
    built: bool,
    /// Run this line of shell inside instead of the steps; show its output and exit with its code
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A kind of KVM host.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Host {
    /// x86-64 with AMD's SVM and nested paging, 2 CPUs, Debian's cloud kernel
    X86Svm,
}

/// The programs of this workspace that go into the machine.
const OURS: &[&str] = &["exitscope", "tiny-guest"];

/// Puts the rig together, runs it, and checks what came out.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let Host::X86Svm = flags.host;
    let folder = target()?.join("rig");
    std::fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    ensure!(lock.try_lock().is_ok(), "another rig is running in {}", folder.display());

    let line = flags.command.join(" ");
    let steps = if line.is_empty() { STEPS } else { &[Step { name: "command", line: &line, check: None }] };
    let built = if flags.built { target()?.join("debug") } else { build()? };
    let kernel = match prepare(&folder, &built, steps) {
        Err(error) if std::env::var(WITHOUT_RIG).is_ok_and(|value| value == "1") => {
            eprintln!("SKIPPED: THE RIG WAS NOT RUN: {error:#}");
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => bail!("{error:#}. To pass without the rig, set {WITHOUT_RIG}=1"),
        Ok(kernel) => kernel,
    };

    let begun = Instant::now();
    let ended = machine::run(&folder, &kernel, steps.len(), Duration::from_secs(flags.limit));
    let took = begun.elapsed();
    let exitscope = built.join("exitscope");
    let outcomes = outcomes(&folder, &exitscope, steps)?;
    if !line.is_empty()
        && let [only] = &outcomes[..]
    {
        std::io::stderr().write_all(&only.stderr)?;
        std::io::stdout().write_all(&only.stdout)?;
        eprintln!("rig: files are in {}", only.folder.display());
        return Ok(ExitCode::from(only.code));
    }
    let failures = failures(&outcomes);
    if let Err(error) = ended {
        bail!("{error:#}{}", last_words(&folder));
    }
    let missing = steps.len() - outcomes.len();
    ensure!(missing == 0, "{missing} of {} steps did not come to their end{}", steps.len(), last_words(&folder));
    ensure!(failures == 0, "{failures} of {} steps failed; their files are in {}", steps.len(), folder.display());
    println!("rig: {} steps passed, power-on to power-off {:.0} s", steps.len(), took.as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

/// Judges the steps and says about each how it went; returns how many failed.
fn failures(outcomes: &[Outcome]) -> usize {
    let failed = |outcome: &&Outcome| match outcome.check() {
        Ok(said) => {
            println!("rig: {}: {said}; {} s", outcome.step.name, outcome.took);
            false
        }
        Err(error) => {
            println!("rig: {}: FAILED after {} s: {error:#}", outcome.step.name, outcome.took);
            true
        }
    };
    outcomes.iter().filter(failed).count()
}

/// Builds [`OURS`] and returns the folder that they are in. One by one, as other tasks do it: built together, crates have
/// other features, and nothing that is there could be used.
fn build() -> anyhow::Result<PathBuf> {
    for name in OURS {
        let status = cargo()?.args(["build", "--quiet", "--locked", "--package", name]).status()?;
        ensure!(status.success(), "{name} does not build");
    }
    Ok(target()?.join("debug"))
}

/// Fetches and packs what the machine needs; returns its kernel. What was left of the last run is removed.
fn prepare(folder: &Path, built: &Path, steps: &[Step]) -> anyhow::Result<PathBuf> {
    let x86 = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    ensure!(x86, "the rig runs this build of exitscope inside, so that it needs x86-64 Linux outside too");
    machine::there()?;
    for left in ["results.tar", "console.txt", "qemu.txt"] {
        remove(&folder.join(left))?;
    }
    remove(&folder.join("results"))?;
    let packages = packages::unpacked(folder)?;
    let ours: Vec<PathBuf> = OURS.iter().map(|name| built.join(name)).collect();
    initramfs::pack(folder, &packages, &ours, steps)?;
    packages.kernel()
}

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// What the steps left, as far as they came.
fn outcomes<'a>(folder: &Path, exitscope: &'a Path, steps: &'a [Step]) -> anyhow::Result<Vec<Outcome<'a>>> {
    let results = folder.join("results");
    std::fs::create_dir(&results)?;
    let archive = folder.join("results.tar");
    if archive.metadata().is_ok_and(|archive| archive.len() > 0) {
        // Each step sent an archive of its own. One that was cut off is missing from what is unpacked.
        Command::new("tar")
            .args(["-x", "--ignore-zeros", "--no-same-owner", "-f"])
            .arg(archive)
            .arg("-C")
            .arg(&results)
            .status()?;
    }
    let all = steps.iter().enumerate().map(|(at, step)| Outcome::read(&results.join(step.id(at)), step, exitscope));
    Ok(all.map_while(|outcome| outcome.ok()).collect())
}

/// The end of what QEMU and the machine said, for a person who has to find out why.
fn last_words(folder: &Path) -> String {
    let mut said = String::new();
    for name in ["qemu.txt", "console.txt"] {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // Of an EPYC, software emulation leaves out what the rig does not need.
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("TCG doesn't support")).collect();
        said.push_str(&format!("\nthe end of {}:", folder.join(name).display()));
        for line in &lines[lines.len().saturating_sub(30)..] {
            said.push_str("\n  ");
            said.push_str(line.trim_end());
        }
    }
    said
}
