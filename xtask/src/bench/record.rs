//! Measures what recording and counting add to each exit of a guest that does nothing but exit, against their peers.
//!
//! ```text
//! turn:  guest alone ─► recorder attaches ─► guest, which times itself ─► recorder detaches     recorders take turns
//!          a                                  b                            added: b − a, an exit
//! ```
//!
//! The two times of a turn are a second or two apart, so that what else the machine does hits both; medians over many turns
//! leave out the turns in which it did not. Within a turn, the guest says what the fastest quarter of its rounds of 54 exits
//! took at most, which leaves out the rounds in which the host took the CPU away, and what they took on average. Attaching and detaching, which may take a second, are outside both times, as is
//! what recorders do only when they begin.

use super::MEASURED;
use crate::{cargo, target};
use anyhow::{Context, bail, ensure};
use exitscope_trace::tracepoints::{RecordWhen, recorded};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Exits to user space in each run of the guest's program: 23 + 17 + 13 + 1.
const EXITS: f64 = 54.0;

/// How long the guest runs in a turn, about.
const TURN: f64 = 400e6;

/// Turns of each recorder, for each round that is asked for.
const TURNS: u32 = 3;

/// How long what serves or shows may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// No turn begins later, so that the whole takes some twelve minutes at most, however slow a recorder is.
const LIMIT: Duration = Duration::from_secs(660);

/// Seconds after which a command that runs the guest is killed.
const COMMAND_LIMIT: &str = "60";

/// How long what counts first measures its own cost, from its first events on: until its next look, a second later.
const SETTLING: Duration = Duration::from_millis(2_300);

/// Where the exporter listens meanwhile.
const EXPORTER: &str = "127.0.0.1:19965";

/// How a recorder and the guest come together.
enum How {
    /// It runs the guest itself: its words, before those of the guest.
    Around(Vec<String>),
    /// As that, but it takes the guest as one word.
    AroundOneWord(Vec<String>),
    /// It runs beside, and is at work when it [`Answers`].
    Beside(Vec<String>, Answers),
    /// It runs beside, and is taken to be at work after a while.
    BesideFor(Vec<String>, Duration),
}

/// How what runs beside tells that it is at work.
#[derive(Clone, Copy)]
enum Answers {
    /// To who asks at this address.
    At(&'static str),
    /// By what it prints.
    Prints,
}

/// Nanoseconds an exit.
#[derive(Clone, Copy)]
struct Took {
    /// In the fastest quarter of the rounds, at most.
    quick: f64,
    /// On average.
    mean: f64,
}

struct Recorder {
    shown: &'static str,
    how: How,
    /// The file that it writes, if it writes one.
    file: Option<PathBuf>,
    /// Alone, and with the recorder, turn by turn.
    turns: Vec<(Took, Took)>,
    bytes: u64,
    /// Why it was not measured.
    trouble: Option<String>,
}

/// Builds, measures, and writes the section.
pub fn section(rounds: u32) -> anyhow::Result<String> {
    let program = super::build()?;
    let built = cargo()?.args(["build", "--release", "--quiet", "--package", "tiny-guest"]).status()?;
    ensure!(built.success(), "the guest does not build");
    let guest = target()?.join("release/tiny-guest");
    // The first go warms up.
    alone(&guest, 100)?;
    let an_exit = alone(&guest, 200)?.mean;
    let runs = ((TURN / EXITS / an_exit) as u32).clamp(10, 1_000_000);
    let mut recorders = recorders(&program)?;
    let turns = rounds * TURNS;
    let (began, mut done) = (Instant::now(), 0);
    for turn in 0..=turns {
        if began.elapsed() > LIMIT {
            eprintln!("bench: recording: {done} turns of {turns} in {} s, no more", LIMIT.as_secs());
            break;
        }
        done = turn;
        eprintln!("bench: recording, turn {turn} of {turns}");
        for recorder in recorders.iter_mut().filter(|recorder| recorder.trouble.is_none()) {
            let before = alone(&guest, runs)?;
            match recorder.measure(&guest, runs) {
                Ok(with) if turn > 0 => recorder.turns.push((before, with)),
                Ok(_) => {}
                Err(error) => {
                    eprintln!("bench: {}: {error:#}", recorder.shown);
                    recorder.trouble = Some(format!("{error:#}"));
                }
            }
        }
    }
    ensure!(done > 0, "not a turn in {} s", LIMIT.as_secs());
    Ok(page(done, runs, &recorders))
}

fn recorders(program: &Path) -> anyhow::Result<Vec<Recorder>> {
    let exitscope = program.display().to_string();
    let file = target()?.join("bench/recorded.data");
    let recorder = |shown, how, file: Option<&PathBuf>| Recorder {
        shown,
        how,
        file: file.cloned(),
        turns: Vec::new(),
        bytes: 0,
        trouble: None,
    };
    let words = |program: &str, rest: &[&str]| -> Vec<String> {
        [program].iter().chain(rest).map(|word| (*word).to_string()).collect()
    };
    let to = file.display().to_string();
    let around =
        |program: &str, rest: &[&str], end: &[&str]| How::Around(words(program, &[rest, &["-o", &to], end].concat()));
    let there = |event: &&str| Path::new("/sys/kernel/tracing/events").join(event.replace(':', "/")).is_dir();
    // What `record` takes of KVM; what does not fire costs nothing.
    let mut events = recorded(|when| matches!(when, RecordWhen::Always | RecordWhen::CountedWithoutExits));
    events.retain(there);
    let perf = events.join(",");
    let probes = |body: &str| {
        let probes: Vec<String> = events.iter().map(|event| format!("tracepoint:{event} {body}")).collect();
        How::AroundOneWord(words("bpftrace", &["-q", "-e", &probes.join(" "), "-c"]))
    };
    let trace_cmd: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let trace_cmd = [&["record", "-q"], &trace_cmd[..]].concat();
    let exporter = How::Beside(words(&exitscope, &["exporter", "--listen", EXPORTER]), Answers::At(EXPORTER));
    let top = How::Beside(words(&exitscope, &["top", "--batch"]), Answers::Prints);
    let live = words("perf", &["kvm", "stat", "live", "-d", "1"]);
    Ok(vec![
        recorder("empty BPF programs (bpftrace): the floor", probes("{}"), None),
        recorder("`exitscope top`", top, None),
        recorder("`exitscope exporter`", exporter, None),
        recorder("`exitscope record`", around(&exitscope, &["record", "--no-sched"], &["--"]), Some(&file)),
        recorder(
            "`exitscope record --no-bpf`",
            around(&exitscope, &["record", "--no-sched", "--no-bpf"], &["--"]),
            Some(&file),
        ),
        recorder("bpftrace: `@[probe] = count()`", probes("{ @[probe] = count(); }"), None),
        recorder("`perf kvm stat live`", How::BesideFor(live, Duration::from_secs(2)), None),
        recorder(PERF, around("perf", &["record", "-q", "-a", "-m", "4M", "-e", &perf], &["--"]), Some(&file)),
        recorder(
            "`perf record -z`",
            around("perf", &["record", "-q", "-a", "-m", "4M", "-z", "-e", &perf], &["--"]),
            Some(&file),
        ),
        recorder("`trace-cmd record`", around("trace-cmd", &trace_cmd, &[]), Some(&file)),
    ])
}

/// What others are held against.
const PERF: &str = "`perf record`";

impl Recorder {
    /// Runs the guest with the recorder.
    fn measure(&mut self, guest: &Path, runs: u32) -> anyhow::Result<Took> {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
        let words = guest_words(guest, runs);
        let took = match &self.how {
            How::Around(command) => timed(&[&command[..], &words].concat(), runs)?,
            How::AroundOneWord(command) => timed(&[&command[..], &[words.join(" ")]].concat(), runs)?,
            How::Beside(command, answers) => {
                let mut beside = Beside::start(command)?;
                beside.wait_for(*answers)?;
                // It measures what it costs once it has seen events, and is slower meanwhile.
                alone(guest, 10)?;
                sleep(SETTLING);
                let took = alone(guest, runs)?;
                beside.end()?;
                took
            }
            How::BesideFor(command, begin) => {
                let mut beside = Beside::start(command)?;
                sleep(*begin);
                ensure!(beside.child.try_wait()?.is_none(), "does not run here");
                let took = alone(guest, runs)?;
                beside.end()?;
                took
            }
        };
        if let Some(file) = &self.file {
            self.bytes = std::fs::metadata(file).context("wrote nothing")?.len();
        }
        Ok(took)
    }

    /// What it adds to an exit, of which `of` takes one time: median and its interval.
    fn added(&self, of: impl Fn(&Took) -> f64) -> (f64, f64, f64) {
        middle(self.turns.iter().map(|(alone, with)| of(with) - of(alone)).collect())
    }
}

/// A program at work beside the guest, ended when dropped.
struct Beside {
    child: Child,
    /// Bytes that it has printed.
    printed: Arc<AtomicU64>,
}

impl Beside {
    fn start(command: &[String]) -> anyhow::Result<Beside> {
        let mut start = Command::new(&command[0]);
        // What it reads must not end, as some take that for the end of their work.
        start.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = start.spawn().with_context(|| command[0].clone())?;
        let mut said = child.stdout.take().context("its standard output")?;
        let printed = Arc::new(AtomicU64::new(0));
        let count = printed.clone();
        // It ends with the child.
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(size @ 1..) = said.read(&mut some) {
                count.fetch_add(size as u64, Ordering::Relaxed);
            }
        });
        Ok(Beside { child, printed })
    }

    /// Waits until it is at work.
    fn wait_for(&mut self, answers: Answers) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let is_at_work = match answers {
                Answers::At(address) => is_well(address),
                Answers::Prints => self.printed.load(Ordering::Relaxed) > 0,
            };
            if is_at_work {
                return Ok(());
            }
            ensure!(self.child.try_wait()?.is_none(), "does not run here");
            ensure!(began.elapsed() < PATIENCE, "does not begin");
            sleep(Duration::from_millis(50));
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        ensure!(asked.success(), "cannot be asked to end");
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "does not end");
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the exporter says that all is well.
fn is_well(address: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

fn guest_words(guest: &Path, runs: u32) -> Vec<String> {
    let guest = guest.display().to_string();
    vec![guest, "--time".to_string(), "--repeat".to_string(), runs.to_string()]
}

/// The guest by itself.
fn alone(guest: &Path, runs: u32) -> anyhow::Result<Took> {
    timed(&guest_words(guest, runs), runs)
}

/// Runs a command that runs the guest, and hears what that says.
fn timed(command: &[String], runs: u32) -> anyhow::Result<Took> {
    ensure!(on_path(&command[0]), "{} is not installed", command[0]);
    let output = Command::new("timeout").args(["-k", "5", COMMAND_LIMIT]).args(command).output().context("timeout")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let took = text.lines().find_map(|line| {
        let (all, quarter) = line.strip_prefix("nanoseconds ")?.split_once(" quarter ")?;
        Some((all.parse::<f64>().ok()?, quarter.parse::<f64>().ok()?))
    });
    let Some((all, quarter)) = took else {
        bail!("the guest did not run: {}", String::from_utf8_lossy(&output.stderr).trim());
    };
    Ok(Took { quick: quarter / EXITS, mean: all / f64::from(runs) / EXITS })
}

/// Whether there is such a program.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The median, and the bounds within which that of more values would be, with 95 % confidence (by ranks: binomial, as a
/// normal distribution).
fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len();
    let Some(last) = count.checked_sub(1) else { return (f64::NAN, f64::NAN, f64::NAN) };
    let below = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).floor().max(0.0) as usize;
    (f64::midpoint(values[last / 2], values[count / 2]), values[below], values[last - below])
}

fn page(turns: u32, runs: u32, recorders: &[Recorder]) -> String {
    let exits = f64::from(runs) * EXITS;
    let nothing = recorders.iter().flat_map(|recorder| recorder.turns.iter().map(|turn| turn.0.quick)).collect();
    let (nothing, low, high) = middle(nothing);
    let quick = |took: &Took| took.quick;
    let perf = recorders.iter().find(|recorder| recorder.shown == PERF).map_or(f64::NAN, |perf| perf.added(quick).0);
    let floor = recorders.first().map_or(f64::NAN, |floor| floor.added(quick).0);
    let mut page = format!(
        "## Recording\n\nA guest does nothing but {exits} exits to user space, in rounds of {EXITS}; one recorder at a time looks at \
         all of KVM's events that it fires, about four an exit. Alone, an exit takes {nothing:.0} ns ({low:.0} to {high:.0}). \
         *Added* is what it takes longer with the recorder than alone just before, in the fastest quarter of the rounds, which \
         nothing else interrupts: the median of {turns} turns, recorders taking turns, and its 95 % interval. *On average* is \
         the same over all rounds, with whatever else took the CPU, the recorder's own threads too. Attaching and detaching are \
         in neither, nor the second in thirty (`top`) or sixty (`exporter`) in which the kernel measures the programs. {MEASURED}\n\n\
         | recorder | added, ns an exit | interval, ns | to the floor's | to perf record's | on average, ns | bytes an exit |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for recorder in recorders {
        if let Some(trouble) = &recorder.trouble {
            let trouble = trouble.lines().next().unwrap_or_default();
            let _ = writeln!(page, "| {} | not measured: {trouble} | | | | | |", recorder.shown);
            continue;
        }
        let (added, low, high) = recorder.added(quick);
        let (mean, mean_low, mean_high) = recorder.added(|took| took.mean);
        let bytes = match recorder.file {
            Some(_) => format!("{:.0}", recorder.bytes as f64 / exits),
            None => String::new(),
        };
        let _ = writeln!(
            page,
            "| {} | {added:.0} | {low:.0} to {high:.0} | {:.2} | {:.2} | {mean:.0} ({mean_low:.0} to {mean_high:.0}) | {bytes} |",
            recorder.shown,
            added / floor,
            added / perf,
        );
    }
    page
}
