//! Takes what failed once, what reached something, and damaged real traces all the way: whatever comes, no panic, no
//! hang, no unbounded memory, and figures that add up ([`Oracle`]).
//!
//! ```text
//! parent ─ starts ─► worker: for each job { prints its number · makes an input · has the oracle judge it }
//!    ▲                  │
//!    └── job numbers ◄──┘   a panic or a limit passed: the worker says so and goes on
//!                           nothing for 10 s, or the worker is dead: the parent names the job, starts a new worker
//! ```
//!
//! First come the files of corpus/found/, on which something once failed, then those of fuzz/corpus/. Then the damaged
//! inputs: each is a function of seed and run alone, so that a number is enough to make it again. Failing inputs are
//! written to target/fuzz/. What is judged is compiled as this program is: with arithmetic checked, in `cargo xtask fuzz`.

use anyhow::{Context, bail};
use clap::Parser;
use exitscope_fuzz::damage::{Original, Reader, damaged, originals};
use exitscope_fuzz::oracle::Oracle;
use exitscope_fuzz::root;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A job that takes longer hangs.
const HANG: Duration = Duration::from_secs(10);
/// What one job may have in memory beyond what the worker had before, in KiB. The readers hold back about 120 MB of
/// events at most.
const MAX_MEMORY: u64 = 384 << 10;
/// What the worker may reserve at all, in KiB: an allocation by a size out of a damaged file fails here.
const MAX_RESERVED: u64 = 4 << 20;
/// With so many failures, more would tell nothing.
const MAX_FAILURES: usize = 10;

/// What `cargo xtask fuzz` runs: inputs that failed once, that reached something, and damaged ones.
#[derive(Parser)]
struct Flags {
    /// Damaged inputs to judge
    #[arg(long, value_name = "N", default_value_t = 2000)]
    runs: u64,
    /// Where the random numbers begin
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// End after so many seconds, whatever is left
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Damage the inputs of one reader only
    #[arg(long)]
    reader: Option<Reader>,
    /// Judge these files, and nothing else
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Be a worker, with the jobs from this one on
    #[arg(long, hide = true)]
    worker: Option<u64>,
    /// Up to this one
    #[arg(long, hide = true, default_value_t = u64::MAX)]
    end: u64,
}

/// What there is to judge: files, then damaged inputs.
struct Jobs {
    files: Vec<PathBuf>,
    originals: Vec<Original>,
    seed: u64,
    runs: u64,
}

impl Jobs {
    fn new(flags: &Flags) -> anyhow::Result<Jobs> {
        if !flags.files.is_empty() {
            return Ok(Jobs { files: flags.files.clone(), originals: Vec::new(), seed: flags.seed, runs: 0 });
        }
        let mut files = Vec::new();
        for folder in ["corpus/found", "fuzz/corpus"] {
            let entries = fs::read_dir(root().join(folder)).with_context(|| folder.to_string())?;
            let of_folder = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
            files.extend(of_folder.into_iter().filter(|path| path.file_name() != Some("README.md".as_ref())));
        }
        files.sort();
        Ok(Jobs { files, originals: originals(flags.reader)?, seed: flags.seed, runs: flags.runs })
    }

    fn number(&self) -> u64 {
        self.files.len() as u64 + self.runs
    }

    /// The job's name, and its bytes.
    fn input(&self, job: u64) -> anyhow::Result<(String, Vec<u8>)> {
        if let Some(path) = self.files.get(job as usize) {
            return Ok((path.display().to_string(), fs::read(path)?));
        }
        let run = job - self.files.len() as u64;
        let (name, bytes) = damaged(&self.originals, self.seed, run);
        Ok((format!("seed {} run {run} ({name})", self.seed), bytes))
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let judged = Jobs::new(&flags).and_then(|jobs| match flags.worker {
        Some(first) => work(&jobs, first..flags.end),
        None => supervise(&jobs, &flags),
    });
    match judged {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What a row of workers did, each of which goes on where the one before it died.
#[derive(Default)]
struct Outcome {
    /// Jobs that are done.
    done: u64,
    /// Inputs that a reader took on.
    opened: u64,
    events: u64,
    failures: Vec<(u64, String)>,
}

/// Shares the jobs out among so many rows of workers as there are CPUs.
fn supervise(jobs: &Jobs, flags: &Flags) -> anyhow::Result<()> {
    let until = flags.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let rows = std::thread::available_parallelism()?.get() as u64;
    let share = jobs.number().div_ceil(rows);
    let outcomes = std::thread::scope(|scope| {
        let parts = (0..rows).map(|row| row * share..jobs.number().min((row + 1) * share));
        let rows: Vec<_> = parts.map(|part| scope.spawn(move || supervise_row(part, until))).collect();
        rows.into_iter().map(|row| row.join().expect("supervisors do not panic")).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    println!(
        "fuzz: {} of {} inputs (seed {}); {} could be opened and gave {} events",
        sum(|row| row.done),
        jobs.number(),
        jobs.seed,
        sum(|row| row.opened),
        sum(|row| row.events)
    );
    let failures: Vec<_> = outcomes.iter().flat_map(|row| &row.failures).collect();
    if failures.is_empty() {
        return Ok(());
    }
    let directory = root().join("target/fuzz");
    fs::create_dir_all(&directory)?;
    for (job, what) in failures.iter() {
        let (name, bytes) = jobs.input(*job)?;
        let path = directory.join(format!("seed-{}-job-{job}", jobs.seed));
        fs::write(&path, bytes)?;
        println!("fuzz: {what}: {name}; saved as {}", path.display());
    }
    bail!("{} inputs failed", failures.len());
}

fn supervise_row(jobs: Range<u64>, until: Option<Instant>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let first = jobs.start;
    while first + outcome.done < jobs.end && !is_over(&outcome, until) {
        let rest = first + outcome.done..jobs.end;
        if let Some((job, died)) = supervise_worker(&rest, until, &mut outcome)? {
            outcome.failures.push((job, died));
            outcome.done = job + 1 - first;
        }
    }
    Ok(outcome)
}

fn is_over(outcome: &Outcome, until: Option<Instant>) -> bool {
    outcome.failures.len() >= MAX_FAILURES || until.is_some_and(|until| Instant::now() >= until)
}

/// Runs one worker, and collects what it says. Returns the job in which it died, and how.
fn supervise_worker(
    jobs: &Range<u64>,
    until: Option<Instant>,
    outcome: &mut Outcome,
) -> anyhow::Result<Option<(u64, String)>> {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MAX_RESERVED} && exec \"$0\" \"$@\"")]).arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.args(["--worker", &jobs.start.to_string(), "--end", &jobs.end.to_string()]);
    // What the command complains of is of no use here; panics are told of by the worker. One that is run alone
    // (`exitscope-fuzz FILE --worker 0 --end 1`) shows both, and the backtrace.
    let mut worker = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = BufReader::new(worker.stdout.take().context("the worker's output")?);
    let (send, lines) = channel();
    let listener = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let before = outcome.done;
    let mut job = None;
    let died = loop {
        if is_over(outcome, until) {
            worker.kill()?;
            worker.wait()?;
            return Ok(None);
        }
        match lines.recv_timeout(HANG) {
            Ok(line) => match line.split_once(' ') {
                Some(("job", number)) => {
                    let number = number.parse()?;
                    job = Some(number);
                    outcome.done = before + number - jobs.start;
                }
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
                    outcome.done = before + jobs.end - jobs.start;
                    return Ok(None);
                }
                break format!("it died ({status})");
            }
        }
    };
    let _ = listener.join();
    Ok(Some((job.with_context(|| format!("before the first job, {died}"))?, died)))
}

/// Where the last panic was, and what it said.
static PANIC: Mutex<String> = Mutex::new(String::new());

fn work(jobs: &Jobs, numbers: Range<u64>) -> anyhow::Result<()> {
    let oracle = Oracle::new()?;
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
        print(panic);
    }));
    let before = peak_memory()?;
    for job in numbers {
        println!("job {job}");
        let (_, bytes) = jobs.input(job)?;
        forget_peak_memory()?;
        let judged = panic::catch_unwind(AssertUnwindSafe(|| oracle.check(&bytes)));
        match judged.unwrap_or_else(|_| Err(PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone())) {
            Ok(None) => {}
            Ok(Some(events)) => println!("read {events}"),
            Err(broken) => println!("failed {}", broken.replace('\n', " ")),
        }
        let peak = peak_memory()?;
        if peak > before + MAX_MEMORY {
            println!("failed {} MiB of memory, {} allowed", (peak - before) >> 10, MAX_MEMORY >> 10);
        }
    }
    Ok(())
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
    use exitscope_fuzz::damage::reordered;

    #[test]
    fn a_run_is_a_function_of_seed_and_number() {
        let originals = originals(Some(Reader::Text)).expect("the corpus has text traces");
        assert_eq!(damaged(&originals, 7, 3), damaged(&originals, 7, 3));
        assert_ne!(damaged(&originals, 7, 3).1, damaged(&originals, 7, 4).1);
        assert_ne!(damaged(&originals, 7, 3).1, damaged(&originals, 8, 3).1);
    }

    #[test]
    fn lines_are_reordered_and_stay_lines() {
        let text = b"a 1\nb 2\nc 3\nd 4\n";
        let all: Vec<Vec<u8>> = (0..64).map(|seed| reordered(text, seed)).collect();
        assert_eq!(all[7], reordered(text, 7));
        assert!(all.iter().any(|other| other != text));
        for line in all.iter().flat_map(|text| text.split_inclusive(|&byte| byte == b'\n')) {
            assert!(matches!(line, [b'a'..=b'd', b' ', b'0'..=b'9', b'\n']), "{line:?}");
        }
    }

    #[test]
    fn every_reader_has_originals() {
        let originals = originals(None).expect("the corpus is there");
        for reader in [Reader::Perf, Reader::Tracedat, Reader::Text] {
            assert!(originals.iter().any(|original| original.reader == reader), "{reader:?}");
        }
    }
}
