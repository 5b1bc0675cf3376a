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
use anyhow::{Context, Error, bail, ensure};
use exitscope_skips::{Part, try_skip};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use steps::{Outcome, STEPS, Step};

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

    let built = if flags.built { target()?.join("debug") } else { build()? };
    let rig = Rig { folder, exitscope: built.join("exitscope"), built, limit: Duration::from_secs(flags.limit) };
    match &flags.command[..] {
        [] => rig.run_steps(),
        words => rig.run_line(&words.join(" ")),
    }
}

/// Where it is put together, of what, and how long it may run.
struct Rig {
    folder: PathBuf,
    exitscope: PathBuf,
    built: PathBuf,
    limit: Duration,
}

impl Rig {
    /// Runs all steps, and those that failed once more: an emulator whose CPU others take misses deadlines, but what is wrong is wrong
    /// twice.
    fn run_steps(&self) -> anyhow::Result<ExitCode> {
        let Some(first) = self.failures(STEPS)? else { return Ok(ExitCode::SUCCESS) };
        if first.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("rig: what failed is run again");
        let steps: Vec<Step> = first.iter().map(|(at, _)| STEPS[*at]).collect();
        let again = self.failures(&steps)?.unwrap_or_default();
        let said: Vec<&str> = again.iter().map(|(_, said)| &**said).collect();
        let (failed, folder) = (again.len(), self.folder.display());
        ensure!(failed == 0, "{failed} steps failed twice; their files are in {folder}\n{}", said.join("\n"));
        first.iter().for_each(|(_, said)| println!("rig: PASSED ONLY WHEN RUN AGAIN: {said}"));
        Ok(ExitCode::SUCCESS)
    }

    /// Runs a line of shell, and shows what it said.
    fn run_line(&self, line: &str) -> anyhow::Result<ExitCode> {
        let steps = [Step { name: "command", line, check: None }];
        let Some(ended) = self.boot(&steps)? else { return Ok(ExitCode::SUCCESS) };
        if let [only] = &outcomes(&self.folder, &self.exitscope, &steps)?[..] {
            std::io::stderr().write_all(&only.stderr)?;
            std::io::stdout().write_all(&only.stdout)?;
            eprintln!("rig: files are in {}", only.folder.display());
            return Ok(ExitCode::from(only.code));
        }
        let why = ended.err().map_or("it did not come to its end".to_string(), |error| format!("{error:#}"));
        bail!("{why}{}", self.last_words())
    }

    /// Runs these steps, judges them, and says of each how it went; returns the places of those that failed and what was said of them.
    /// `None` where there may be no rig.
    fn failures(&self, steps: &[Step]) -> anyhow::Result<Option<Vec<(usize, String)>>> {
        let begun = Instant::now();
        let Some(ended) = self.boot(steps)? else { return Ok(None) };
        let took = begun.elapsed().as_secs_f64();
        let outcomes = outcomes(&self.folder, &self.exitscope, steps)?;
        let failure = |(at, outcome): (usize, &Outcome)| {
            let (name, took) = (outcome.step.name, outcome.took);
            let (said, has_failed) = match outcome.check() {
                Ok(said) => (format!("{name}: {said}; {took} s"), false),
                Err(error) => (format!("{name}: FAILED after {took} s: {error:#}"), true),
            };
            println!("rig: {said}");
            has_failed.then_some((at, said))
        };
        let failures: Vec<(usize, String)> = outcomes.iter().enumerate().filter_map(failure).collect();
        if let Err(error) = ended {
            bail!("{error:#}{}", self.last_words());
        }
        let (all, missing) = (steps.len(), steps.len() - outcomes.len());
        ensure!(missing == 0, "{missing} of {all} steps did not come to their end{}", self.last_words());
        println!("rig: {} of {all} steps passed, power-on to power-off {took:.0} s", all - failures.len());
        Ok(Some(failures))
    }

    /// Puts the machine together and runs it; inside is how that ended. `None` where there may be no rig.
    fn boot(&self, steps: &[Step]) -> anyhow::Result<Option<anyhow::Result<()>>> {
        match prepare(&self.folder, &self.built, steps) {
            Err(error) => {
                let _skipped = try_skip(Part::Rig, format!("{error:#}")).map_err(Error::msg)?;
                Ok(None)
            }
            Ok(kernel) => Ok(Some(machine::run(&self.folder, &kernel, steps.len(), self.limit))),
        }
    }

    /// The end of what QEMU and the machine said, for a person who has to find out why.
    fn last_words(&self) -> String {
        let mut said = String::new();
        for name in ["qemu.txt", "console.txt"] {
            let path = self.folder.join(name);
            let bytes = std::fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            // Of an EPYC, software emulation leaves out what the rig does not need.
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("TCG doesn't support")).collect();
            said.push_str(&format!("\nthe end of {}:", path.display()));
            for line in &lines[lines.len().saturating_sub(30)..] {
                said.push_str("\n  ");
                said.push_str(line.trim_end());
            }
        }
        said
    }
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
