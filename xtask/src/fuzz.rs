//! Damages real traces and reads them: whatever comes, no panic, no hang, no unbounded memory.
//!
//! ```text
//! parent ─ starts ─► worker: for each job { prints its number · damages an input · reads it to the end }
//!    ▲                  │
//!    └── job numbers ◄──┘   a panic or a limit passed: the worker says so and goes on
//!                           nothing for 10 s, or the worker is dead: the parent names the job, starts a new worker
//! ```
//!
//! First come the files of corpus/found/, on which a reader once failed. Then the damaged inputs: each is a function
//! of seed and run alone, so that a number is enough to make it again. Failing inputs are written to
//! target/fuzz/. The readers are compiled as this program is: `cargo xtask fuzz` checks arithmetic, too, and
//! `cargo run --release -p xtask -- fuzz` is faster.

mod damage;

use crate::{root, target};
use anyhow::{Context, bail};
use damage::{Original, Reader, damaged, originals};
use exitscope_model::{Kind, Ledger};
use exitscope_trace::{Input, Keep, Options, open_input};
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A job that takes longer hangs.
const HANG: Duration = Duration::from_secs(10);
/// What one job may have in memory beyond what the worker had before, in KiB. The readers hold back about 120 MB of
/// events at most.
const MAX_MEMORY: u64 = 384 << 10;
/// What the worker may reserve at all, in KiB: an allocation by a size out of a damaged file fails here.
const MAX_RESERVED: u64 = 4 << 20;
/// With so many failures, more would tell nothing.
const MAX_FAILURES: usize = 10;

/// Flags of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Flags {
    /// Damaged inputs to read
    #[arg(long, value_name = "N", default_value_t = 2000)]
    runs: u64,
    /// Where the random numbers begin
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Damage the inputs of one reader only
    #[arg(long)]
    reader: Option<Reader>,
    /// Be the worker, beginning with this job
    #[arg(long, hide = true)]
    worker: Option<u64>,
}

/// What there is to read: found files, then damaged ones.
struct Jobs {
    found: Vec<PathBuf>,
    originals: Vec<Original>,
    seed: u64,
    runs: u64,
}

impl Jobs {
    fn new(flags: &Flags) -> anyhow::Result<Jobs> {
        let mut found = Vec::new();
        if let Ok(entries) = fs::read_dir(root().join("corpus/found")) {
            for entry in entries {
                found.push(entry?.path());
            }
        }
        found.sort();
        Ok(Jobs { found, originals: originals(flags.reader)?, seed: flags.seed, runs: flags.runs })
    }

    fn numbers(&self) -> Range<u64> {
        0..self.found.len() as u64 + self.runs
    }

    /// The job's name, and its bytes.
    fn input(&self, job: u64) -> anyhow::Result<(String, Vec<u8>)> {
        if let Some(path) = self.found.get(job as usize) {
            return Ok((format!("found {}", path.display()), fs::read(path)?));
        }
        let run = job - self.found.len() as u64;
        let (name, bytes) = damaged(&self.originals, self.seed, run);
        Ok((format!("seed {} run {run} ({name})", self.seed), bytes))
    }
}

/// Runs the jobs, as parent or as worker.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let jobs = Jobs::new(flags)?;
    match flags.worker {
        Some(first) => work(&jobs, first),
        None => supervise(&jobs, flags),
    }
}

/// What the workers did.
#[derive(Default)]
struct Outcome {
    /// Inputs that a reader took on.
    opened: u64,
    events: u64,
    failures: Vec<(u64, String)>,
}

fn supervise(jobs: &Jobs, flags: &Flags) -> anyhow::Result<()> {
    let (mut next, end) = (0, jobs.numbers().end);
    let mut outcome = Outcome::default();
    while next < end && outcome.failures.len() < MAX_FAILURES {
        next = supervise_worker(flags, next, end, &mut outcome)?;
    }
    let Outcome { opened, events, failures } = outcome;
    println!(
        "fuzz: {} found files and {} damaged inputs; {opened} could be opened and gave {events} events",
        jobs.found.len(),
        jobs.runs
    );
    if failures.is_empty() {
        return Ok(());
    }
    let directory = target()?.join("fuzz");
    fs::create_dir_all(&directory)?;
    for (job, what) in &failures {
        let (name, bytes) = jobs.input(*job)?;
        let path = directory.join(format!("seed-{}-job-{job}", jobs.seed));
        fs::write(&path, bytes)?;
        println!("fuzz: {what}: {name}; saved as {}", path.display());
    }
    bail!("{} inputs failed", failures.len());
}

/// Runs one worker from job `first` and collects failures. Returns the job to go on with.
fn supervise_worker(flags: &Flags, first: u64, end: u64, outcome: &mut Outcome) -> anyhow::Result<u64> {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MAX_RESERVED} && exec \"$0\" \"$@\"")]).arg(std::env::current_exe()?);
    command.args(["fuzz", "--worker", &first.to_string()]);
    command.args(["--runs", &flags.runs.to_string(), "--seed", &flags.seed.to_string()]);
    if let Some(reader) = flags.reader {
        command.args(["--reader", reader.id()]);
    }
    let mut worker = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(worker.stdout.take().context("the worker's output")?);
    let (send, lines) = channel();
    let listener = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let mut job = None;
    let died = loop {
        match lines.recv_timeout(HANG) {
            Ok(line) => match line.split_once(' ') {
                Some(("job", number)) => job = Some(number.parse()?),
                Some(("read", events)) => {
                    outcome.opened += 1;
                    outcome.events += events.parse::<u64>()?;
                }
                Some(("failed", what)) => {
                    outcome.failures.push((job.context("a failure before any job")?, what.to_string()));
                }
                _ => bail!("the worker said {line:?}"),
            },
            Err(RecvTimeoutError::Timeout) => {
                worker.kill()?;
                worker.wait()?;
                break format!("no end within {} s", HANG.as_secs());
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.wait()?;
                if status.success() {
                    return Ok(end);
                }
                break format!("the reader died ({status})");
            }
        }
        if outcome.failures.len() >= MAX_FAILURES {
            worker.kill()?;
            worker.wait()?;
            return Ok(end);
        }
    };
    let _ = listener.join();
    let job = job.with_context(|| format!("before the first job, {died}"))?;
    outcome.failures.push((job, died));
    Ok(job + 1)
}

fn work(jobs: &Jobs, first: u64) -> anyhow::Result<()> {
    let before = peak_memory()?;
    for job in first..jobs.numbers().end {
        println!("job {job}");
        let (name, bytes) = jobs.input(job)?;
        forget_peak_memory()?;
        match catch_unwind(|| read_to_end(&name, &bytes)) {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(events))) => println!("read {events}"),
            Ok(Err(broken)) => println!("failed {broken}"),
            Err(_) => println!("failed a panic"),
        }
        let peak = peak_memory()?;
        if peak > before + MAX_MEMORY {
            println!("failed {} MiB of memory, {} allowed", (peak - before) >> 10, MAX_MEMORY >> 10);
        }
    }
    Ok(())
}

/// Reads a trace twice, as `exitscope events` does and as `exitscope report` does, and returns how many events it
/// has. An input that cannot be opened is fine (`None`); a broken promise is not.
fn read_to_end(name: &str, bytes: &[u8]) -> Result<Option<u64>, String> {
    let Some((left, all)) = events(name, bytes, Keep::All) else { return Ok(None) };
    if left != all {
        return Err(format!("{left} events left the reader, its ledger has {all}"));
    }
    for keep in [Keep::Used, Keep::Timed] {
        match events(name, bytes, keep) {
            Some((_, again)) if again == all => {}
            Some((_, again)) => return Err(format!("{all} events, but {again} when only {keep:?} are asked for")),
            None => return Err("it can be opened once, but not again".to_string()),
        }
    }
    Ok(Some(all))
}

/// How many events left the reader, and how many it has in its ledger. Losses are no events.
fn events(name: &str, bytes: &[u8], keep: Keep) -> Option<(u64, u64)> {
    // xentrace logs do not say it.
    let options = Options { keep, clock_hz: Some(1_000_000_000), ..Options::default() };
    let mut source = Input::from_bytes(name, bytes).and_then(|input| open_input(input, options)).ok()?;
    let (mut events, mut ledger, mut left) = (Vec::new(), Ledger::default(), 0);
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger);
        left += events.iter().filter(|event| !matches!(event.kind, Kind::Lost { .. })).count() as u64;
        if !matches!(more, Ok(true)) {
            return Some((left, ledger.events));
        }
    }
}

/// The most memory this process had since it was last asked to forget it, in KiB.
fn peak_memory() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    let number = line.trim().strip_suffix(" kB").context("a VmHWM that is not in kB")?;
    Ok(number.parse()?)
}

fn forget_peak_memory() -> anyhow::Result<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_function_of_seed_and_number() {
        let originals = originals(Some(Reader::Text)).expect("the corpus has text traces");
        assert_eq!(damaged(&originals, 7, 3), damaged(&originals, 7, 3));
        assert_ne!(damaged(&originals, 7, 3).1, damaged(&originals, 7, 4).1);
        assert_ne!(damaged(&originals, 7, 3).1, damaged(&originals, 8, 3).1);
    }

    #[test]
    fn every_reader_has_originals() {
        let originals = originals(None).expect("the corpus is there");
        for reader in [Reader::Perf, Reader::Tracedat, Reader::Text] {
            assert!(originals.iter().any(|original| original.reader == reader), "{reader:?}");
        }
    }
}
