//! Fuzzing: what fuzz/ is built and run for.
//!
//! ```text
//! cargo xtask fuzz             found files, the corpus and a fixed seed: a part of `make test`
//! cargo xtask fuzz --for 10m   a seed of now, and beside it libFuzzer, from the corpus on
//!                  --keep      then adds what reached something new to the corpus
//! ```

use crate::{cargo, root, target};
use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest input that libFuzzer makes, in bytes: what is longer is slow, and reaches little more.
const MAX_LEN: u64 = 4 << 10;
/// What libFuzzer's process may have in memory, in MiB, and how long an input may take, in seconds.
const MAX_MEMORY: u64 = 2048;
const HANG: u64 = 20;

/// Flags of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Flags {
    /// Look for what is new for so long (30s, 10m, 2h), with a seed of now and with libFuzzer
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    seconds: Option<u64>,
    /// Take the program of fuzz/ as it is in target/debug
    #[arg(long)]
    built: bool,
    /// Then add inputs to fuzz/corpus that reach what none there does
    #[arg(long, requires = "seconds")]
    keep: bool,
    /// For the program of fuzz/: --runs N, --seed S, --reader R, or files to judge
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Flags of `cargo xtask metamorphic`.
#[derive(clap::Args)]
pub struct MetamorphicFlags {
    /// Leave out pairs of tracepoints, too: minutes
    #[arg(long)]
    pairs: bool,
    /// Recordings; the corpus if none is named
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Builds and runs fuzz/src/bin/metamorphic.rs.
pub fn metamorphic(flags: &MetamorphicFlags) -> anyhow::Result<()> {
    let mut build = cargo()?;
    build.args(["build", "--quiet", "--package", "exitscope-fuzz", "--bin", "metamorphic"]);
    ensure!(build.status()?.success(), "fuzz/ does not build");
    passed(Command::new(target()?.join("debug/metamorphic")).args(flags.pairs.then_some("--pairs")).args(&flags.files))
}

/// A time in seconds, minutes or hours, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let parts = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let number = parts.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(*seconds));
    number.ok_or_else(|| format!("{text:?} is no time; try 30s, 10m or 2h"))
}

/// Builds and runs it.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    if !flags.built {
        let mut build = cargo()?;
        build.args(["build", "--quiet", "--package", "exitscope-fuzz"]);
        ensure!(build.status()?.success(), "fuzz/ does not build");
    }
    let mut fixed = Command::new(target()?.join("debug/exitscope-fuzz"));
    fixed.args(&flags.rest);
    let Some(seconds) = flags.seconds else { return passed(&mut fixed) };

    let guided = build_guided()?;
    let (found, ours) = (target()?.join("guided/corpus"), root().join("fuzz/corpus"));
    std::fs::create_dir_all(&found)?;
    let mut looking = Command::new(&guided);
    looking
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", found.with_file_name("").display()));
    limit(&mut looking).arg(&found).arg(&ours).arg(root().join("corpus/found"));
    let mut looking = looking.spawn()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    fixed.args(["--runs", "1000000000", "--seed", &now.to_string(), "--seconds", &seconds.to_string()]);
    let passed = passed(&mut fixed);
    let status = looking.wait()?;
    if flags.keep {
        let mut merge = Command::new(&guided);
        // As few as reach all branches, however often each is taken.
        let flags = ["-set_cover_merge=1", "-use_counters=0"];
        ensure!(limit(&mut merge).args(flags).args([&ours, &found]).status()?.success(), "the merge failed");
    }
    passed?;
    match status.success() {
        true => Ok(()),
        false => bail!("libFuzzer found an input that fails; `cargo xtask fuzz FILE` judges it again"),
    }
}

fn limit(guided: &mut Command) -> &mut Command {
    guided
        .arg(format!("-max_len={MAX_LEN}"))
        .arg(format!("-rss_limit_mb={MAX_MEMORY}"))
        .arg(format!("-timeout={HANG}"));
    // What the command complains of would be most of what is said.
    guided.args(["-close_fd_mask=2", "-print_final_stats=1"])
}

/// Builds the program that libFuzzer drives, instrumented, apart from all else.
fn build_guided() -> anyhow::Result<PathBuf> {
    let folder = target()?.join("guided");
    let mut build = cargo()?;
    build.args(["build", "--quiet", "--package", "exitscope-fuzz", "--features", "guided", "--bin", "guided"]);
    build.args(["--profile", "guided"]).env("CARGO_TARGET_DIR", &folder);
    build.env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/instrument"));
    ensure!(build.status()?.success(), "the guided part of fuzz/ does not build; it needs a C++ compiler");
    Ok(folder.join("guided/guided"))
}

fn passed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "there were failures");
    Ok(())
}
