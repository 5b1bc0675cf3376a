//! Measures exitscope against perf, trace-cmd and xenalyze on large traces made from the corpus, its simulator against
//! nexosim and SimPy, its lab against a bare loop of KVM_RUN, its page in a browser, and its store against DuckDB, and
//! writes docs/benchmarks.md.
//!
//! ```text
//! corpus ─► target/bench/*.data, *.dat ─► every command, once a round, N rounds ─► medians ─► docs/benchmarks.md
//! ```
//!
//! The commands take turns, so that whatever else the machine does hits all of them. Output goes to /dev/null. The
//! first round warms up and is not counted.

mod inputs;
mod lab;
mod page;
mod record;
mod sim;
mod store;
mod xentrace;

use crate::{dist, root, target};
use anyhow::{Context, bail, ensure};
use flate2::read::MultiGzDecoder;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// How often the recordings are repeated in the bench inputs.
const PERF_TIMES: u64 = 5;
const TRACEDAT_TIMES: u64 = 20;
const XENTRACE_TIMES: u64 = 60;
/// How much larger the input is that shows whether time and memory grow with the trace, and how often it is read at
/// most: `perf script` takes long for it.
const LARGER: u64 = 10;
const LARGE_ROUNDS: u32 = 9;

/// Flags of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Flags {
    /// Rounds to count
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure one part and leave the other part of the page as it is
    #[arg(long)]
    only: Option<Part>,
}

/// A part of the benchmarks.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// Reading traces
    Trace,
    /// The simulator
    Sim,
    /// The lab, which needs /dev/kvm
    Lab,
    /// Recording, which needs /dev/kvm and root
    Record,
    /// Pages in a browser, which needs npm and Chromium
    Page,
    /// The store, SQL and a cluster; builds them, which takes long
    Store,
}

/// A trace to measure with.
struct Input {
    name: &'static str,
    path: PathBuf,
    events: u64,
}

/// One command and what it took, round by round.
struct Case<'a> {
    input: &'a Input,
    shown: String,
    program: PathBuf,
    arguments: Vec<String>,
    walls: Vec<Duration>,
    peaks: Vec<u64>,
}

/// Measures what is asked for, writes the page.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let path = root().join("docs/benchmarks.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let split = |text: &str, heading: &str| match text.find(heading) {
        Some(at) => (text[..at].trim_end().to_string() + "\n", text[at..].to_string()),
        None => (text.to_string(), String::new()),
    };
    let (rest, mut store) = split(&old, "## Store");
    let (rest, mut pages) = split(&rest, "## Pages");
    let (rest, mut recording) = split(&rest, "## Recording");
    let (rest, mut lab) = split(&rest, "## Lab");
    let (mut trace, mut simulator) = split(&rest, "## Simulator");
    let wants = |part| flags.only.is_none_or(|only| only == part);
    if wants(Part::Trace) {
        trace = trace_page(flags.rounds)?;
    }
    if wants(Part::Sim) {
        simulator = sim::section(flags.rounds)?;
    }
    if wants(Part::Lab) {
        lab = dated(&lab::section(flags.rounds)?)?;
    }
    if wants(Part::Record) {
        recording = dated(&record::section(flags.rounds)?)?;
    }
    if wants(Part::Page) {
        pages = dated(&page::section()?)?;
    }
    if wants(Part::Store) {
        store = dated(&store::section()?)?;
    }
    let page = format!("{trace}\n{simulator}\n{lab}\n{recording}\n{pages}\n{store}");
    print!("{page}");
    Ok(std::fs::write(path, page)?)
}

/// Builds, makes the inputs, measures, writes the tables of traces. The largest input takes 8 GB of disk meanwhile.
fn trace_page(rounds: u32) -> anyhow::Result<String> {
    for (tool, asked) in [("perf", "--version"), ("trace-cmd", "--version"), ("xenalyze", "--help")] {
        let found = Command::new(tool).arg(asked).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(found.is_ok(), "{tool} is missing; `make bench` installs it");
    }
    let program = build()?;
    let perf = perf_input("perf.data", PERF_TIMES)?;
    let larger = perf_input("larger perf.data", PERF_TIMES * LARGER)?;
    let tracedat = tracedat_input()?;
    let xen = xentrace_input("xentrace", XENTRACE_TIMES)?;
    let larger_xen = xentrace_input("larger xentrace", XENTRACE_TIMES * LARGER)?;
    let mut speed = vec![
        exitscope(&perf, &program),
        exitscope_page(&perf, &program),
        perf_kvm_stat(&perf),
        perf_script(&perf),
        floor(&perf),
        exitscope(&tracedat, &program),
        trace_cmd(&tracedat),
        floor(&tracedat),
        exitscope_xen(&xen, &program),
        xenalyze(&xen),
        floor(&xen),
    ];
    let mut large = vec![
        exitscope(&larger, &program),
        exitscope_page(&larger, &program),
        perf_kvm_stat(&larger),
        perf_script(&larger),
        floor(&larger),
        exitscope_xen(&larger_xen, &program),
        xenalyze(&larger_xen),
        floor(&larger_xen),
    ];
    in_rounds("inputs", rounds, &mut speed)?;
    let large_rounds = rounds.min(LARGE_ROUNDS);
    in_rounds("larger inputs", large_rounds, &mut large)?;
    let long = perf_input("largest perf.data", page::TIMES)?;
    // Writing it back to disk would take time from what is measured.
    File::open(&long.path)?.sync_all()?;
    let mut longest = vec![exitscope(&long, &program), perf_kvm_stat(&long), floor(&long)];
    let measured = in_rounds("largest input", large_rounds, &mut longest);
    let inputs = [&perf, &larger, &long, &tracedat, &xen, &larger_xen];
    let text = measured.and_then(|()| trace_text([rounds, large_rounds], &inputs, &speed, &large, &longest));
    std::fs::remove_file(&long.path)?;
    text
}

/// Runs commands in turns, a round before the first that counts.
fn in_rounds(what: &str, rounds: u32, cases: &mut [Case]) -> anyhow::Result<()> {
    for round in 0..=rounds {
        eprintln!("bench: {what}, round {round} of {rounds}");
        for case in &mut *cases {
            let (wall, peak) = measure(case)?;
            if round > 0 {
                case.walls.push(wall);
                case.peaks.push(peak);
            }
        }
    }
    Ok(())
}

/// What of exitscope is measured, for the sections that measure it.
const MEASURED: &str = "exitscope is the program that packages have (`make dist`).";

/// Builds exitscope as it is measured: as people get it.
fn build() -> anyhow::Result<PathBuf> {
    dist::build().context("exitscope does not build")
}

fn exitscope<'a>(input: &'a Input, program: &Path) -> Case<'a> {
    case(input, "exitscope report", program.into(), &["report"], &[])
}

/// The page goes nowhere; where its front end was not built (`make page`), this fails.
fn exitscope_page<'a>(input: &'a Input, program: &Path) -> Case<'a> {
    case(input, "exitscope report --html", program.into(), &["report", "--html", "/dev/null"], &[])
}

fn exitscope_xen<'a>(input: &'a Input, program: &Path) -> Case<'a> {
    case(input, "exitscope report --tsc-hz", program.into(), &["report", "--tsc-hz", "2596120000"], &[])
}

fn xenalyze(input: &Input) -> Case<'_> {
    let flags = ["--summary", "--svm-mode", "--cpu-hz", "2.59612G"];
    case(input, "xenalyze --summary", "xenalyze".into(), &flags, &[])
}

fn perf_kvm_stat(input: &Input) -> Case<'_> {
    case(input, "perf kvm stat report", "perf".into(), &["kvm", "--host", "-i"], &["stat", "report"])
}

fn perf_script(input: &Input) -> Case<'_> {
    case(input, "perf script", "perf".into(), &["script", "-i"], &[])
}

fn trace_cmd(input: &Input) -> Case<'_> {
    case(input, "trace-cmd report", "trace-cmd".into(), &["report", "-i"], &[])
}

/// Reads the file and does nothing with it: the least that reading it costs.
fn floor(input: &Input) -> Case<'_> {
    case(input, "cat", "cat".into(), &[], &[])
}

fn case<'a>(input: &'a Input, shown: &str, program: PathBuf, before: &[&str], after: &[&str]) -> Case<'a> {
    let path = input.path.display().to_string();
    let arguments = before.iter().copied().chain([path.as_str()]).chain(after.iter().copied()).map(String::from);
    let arguments = arguments.collect();
    Case { input, shown: shown.to_string(), program, arguments, walls: Vec::new(), peaks: Vec::new() }
}

/// Runs the command once: how long it took, and the most memory it had, in bytes. A child's peak is at least what its parent had when
/// it was made, so that a program runs it that has little: this one, anew.
fn measure(case: &Case) -> anyhow::Result<(Duration, u64)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run-once").arg(&case.program).args(&case.arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let said = command.output()?;
    ensure!(said.status.success(), "{} {}: {}", case.program.display(), case.arguments.join(" "), said.status);
    let said = String::from_utf8(said.stdout)?;
    let (nanoseconds, peak) = said.trim().split_once(' ').context("two figures")?;
    Ok((Duration::from_nanos(nanoseconds.parse()?), peak.parse()?))
}

/// Runs a command without a word, and prints how many nanoseconds it took and how many bytes it had at most.
pub fn run_once(command: &[String]) -> anyhow::Result<()> {
    let (program, arguments) = command.split_first().context("a program")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Told to change its group (to the one it has), it is made by fork; else it shares this program's memory until it is another.
    command.gid(std::fs::metadata("/proc/self")?.gid());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| program.clone())?;
    let used = child.wait4()?;
    let wall = start.elapsed();
    ensure!(used.status.success(), "{program}: {}", used.status);
    println!("{} {}", wall.as_nanos(), used.rusage.maxrss);
    Ok(())
}

fn perf_input(name: &'static str, times: u64) -> anyhow::Result<Input> {
    // Not the lines of `perf script`, which leaves some samples out.
    let samples = |path: &Path| -> anyhow::Result<u64> {
        let output = Command::new("perf").args(["report", "--stats", "-i"]).arg(path).output()?;
        let stats = String::from_utf8(output.stdout)?;
        let line = stats.lines().find_map(|line| line.trim().strip_prefix("SAMPLE events:"));
        Ok(line.and_then(|rest| rest.split_whitespace().next()).context("perf counts no samples")?.parse()?)
    };
    make(name, "x86-svm/t2.data", times, inputs::repeat_perf, samples)
}

fn tracedat_input() -> anyhow::Result<Input> {
    // The first line says how many CPUs there are.
    let lines = |path: &Path| Ok(lines(Command::new("trace-cmd").args(["report", "-i"]).arg(path))?.saturating_sub(1));
    make("trace.dat", "x86-svm/t4-none.dat", TRACEDAT_TIMES, inputs::repeat_tracedat, lines)
}

/// The middle of the log repeated. A new one is checked: xenalyze must find as many bytes of exits in it as there are.
fn xentrace_input(name: &'static str, times: u64) -> anyhow::Result<Input> {
    let source = unpacked("xen/hvm1_dm_sched_hvm.xentrace")?;
    let path = source.with_file_name(format!("hvm1_dm_sched_hvm-{times}.xentrace"));
    if !path.exists() {
        eprintln!("bench: making {}", path.display());
        write_whole(&path, |path| {
            xentrace::repeat(&source, path, times)?;
            let (_, exits) = xentrace::count(path)?;
            let output = Command::new("xenalyze").args(["--summary", "--svm-mode"]).arg(path).output()?;
            let summary = String::from_utf8_lossy(&output.stdout);
            let volume = summary.lines().find_map(|line| line.trim().strip_prefix("+-vmexit :"));
            let found: u64 = volume.context("xenalyze finds no exits")?.trim().parse()?;
            ensure!(found == exits, "{}: {found} bytes of exits found, {exits} expected", path.display());
            Ok(())
        })?;
    }
    let (events, _) = xentrace::count(&path)?;
    Ok(Input { name, path, events })
}

/// The corpus file repeated, from an earlier bench or made now. A new one is checked: a peer must find `times` the
/// events in it.
fn make(
    name: &'static str,
    corpus: &str,
    times: u64,
    repeat: impl Fn(&Path, &Path, u64) -> anyhow::Result<()>,
    count: impl Fn(&Path) -> anyhow::Result<u64>,
) -> anyhow::Result<Input> {
    let source = unpacked(corpus)?;
    let (stem, extension) = (source.file_stem().context("a file name")?, source.extension().context("a kind of file")?);
    let path = source.with_file_name(format!("{}-{times}.{}", stem.display(), extension.display()));
    let events = count(&source)? * times;
    if !path.exists() {
        eprintln!("bench: making {} ({events} events)", path.display());
        write_whole(&path, |path| {
            repeat(&source, path, times)?;
            let found = count(path)?;
            ensure!(found == events, "{}: {found} events found, {events} expected", path.display());
            Ok(())
        })?;
    }
    Ok(Input { name, path, events })
}

/// The corpus file `corpus`, unpacked.
fn unpacked(corpus: &str) -> anyhow::Result<PathBuf> {
    let directory = target()?.join("bench");
    std::fs::create_dir_all(&directory)?;
    let (_, file) = corpus.rsplit_once('/').context("a file name")?;
    let source = directory.join(file);
    if !source.exists() {
        let packed = File::open(root().join("corpus").join(format!("{corpus}.gz")))?;
        write_whole(&source, |path| {
            std::io::copy(&mut MultiGzDecoder::new(packed), &mut BufWriter::new(File::create(path)?))?;
            Ok(())
        })?;
    }
    Ok(source)
}

/// Lets `write` make a file, which gets its name only when it is whole.
fn write_whole(path: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let part = path.with_extension("part");
    write(&part)?;
    Ok(std::fs::rename(part, path)?)
}

/// How many lines `command` prints.
fn lines(command: &mut Command) -> anyhow::Result<u64> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("its output")?);
    let (mut count, mut line) = (0, Vec::new());
    while output.read_until(b'\n', &mut line)? > 0 {
        count += 1;
        line.clear();
    }
    if !child.wait()?.success() {
        bail!("{command:?} failed");
    }
    Ok(count)
}

fn trace_text(
    [rounds, large_rounds]: [u32; 2],
    inputs: &[&Input],
    speed: &[Case],
    large: &[Case],
    longest: &[Case],
) -> anyhow::Result<String> {
    let mut page = String::from("# Benchmarks\n\nWritten by `cargo xtask bench`; change nothing by hand.\n\n");
    writeln!(page, "{}\n", machine(&["rustc", "perf", "trace-cmd"])?)?;
    writeln!(page, "| input | made from | size | events |\n| --- | --- | ---: | ---: |")?;
    let made = [
        format!("corpus/x86-svm/t2.data.gz × {PERF_TIMES}"),
        format!("corpus/x86-svm/t2.data.gz × {}", PERF_TIMES * LARGER),
        format!("corpus/x86-svm/t2.data.gz × {}", page::TIMES),
        format!("corpus/x86-svm/t4-none.dat.gz × {TRACEDAT_TIMES}"),
        format!("corpus/xen/hvm1_dm_sched_hvm.xentrace.gz × {XENTRACE_TIMES}"),
        format!("corpus/xen/hvm1_dm_sched_hvm.xentrace.gz × {}", XENTRACE_TIMES * LARGER),
    ];
    for (input, made) in inputs.iter().zip(made) {
        let size = input.path.metadata()?.len();
        writeln!(page, "| {} | {made} | {} MB | {} |", input.name, size / 1_000_000, input.events)?;
    }
    writeln!(
        page,
        "\n## Time\n\nMedians of {rounds} rounds ({large_rounds} for larger inputs), in which the commands took turns. *Ratio* is the command's time over that of exitscope's text, the median of those of each round. {MEASURED}\n"
    )?;
    writeln!(page, "| input | command | wall time | fastest – slowest | ratio | peak memory |")?;
    writeln!(page, "| --- | --- | ---: | ---: | ---: | ---: |")?;
    let mut ours: Option<&Case> = None;
    for case in speed.iter().chain(large).chain(longest) {
        // Each input's first case.
        let first = ours.filter(|first| first.input.name == case.input.name).unwrap_or(case);
        ours = Some(first);
        let ratios = case.walls.iter().zip(&first.walls).map(|(wall, ours)| wall.as_secs_f64() / ours.as_secs_f64());
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let mut walls = case.walls.clone();
        walls.sort_unstable();
        let middle = walls.len() / 2;
        writeln!(
            page,
            "| {} | `{}` | {:.3} s | {:.3} – {:.3} s | {:.2} | {} MB |",
            case.input.name,
            case.shown,
            walls[middle].as_secs_f64(),
            walls[0].as_secs_f64(),
            walls[walls.len() - 1].as_secs_f64(),
            ratios[middle],
            median_of(&case.peaks) / 1_000_000,
        )?;
    }
    writeln!(page, "\n## Memory\n\nMedians of the same runs, in MB of 1,000,000 bytes.\n")?;
    writeln!(page, "| command | peak memory | peak memory, {LARGER} times the input | growth |")?;
    writeln!(page, "| --- | ---: | ---: | ---: |")?;
    for large in large.iter().filter(|case| case.shown != "cat") {
        let small = speed.iter().find(|case| case.shown == large.shown).context("a case without its smaller one")?;
        let (small, grown) = (median_of(&small.peaks) as f64, median_of(&large.peaks) as f64);
        writeln!(
            page,
            "| `{}` | {:.1} MB | {:.1} MB | {:+.0} % |",
            large.shown,
            small / 1e6,
            grown / 1e6,
            (grown / small - 1.0) * 100.0,
        )?;
    }
    page.push_str(
        "\n`perf kvm stat report` reads exits and entries only; `perf script` and `trace-cmd report` print every event. \
         exitscope reads every event and counts those that belong to no exit; so does `xenalyze`. `cat` only reads the file: the floor.\n",
    );
    Ok(page)
}

fn median_of(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}

/// A Python with a package, in the target directory.
fn python(module: &str, package: &str) -> anyhow::Result<PathBuf> {
    let directory = target()?.join("bench").join(module);
    let python = directory.join("bin/python");
    let has = |python: &Path| {
        let import = Command::new(python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    if !has(&python) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&directory).status();
        ensure!(made.is_ok_and(|status| status.success()), "python3 with venv is missing, which {package} needs");
        let status = Command::new(&python).args(["-m", "pip", "install", "--quiet", package]).status()?;
        ensure!(status.success() && has(&python), "{package} cannot be installed");
    }
    Ok(python)
}

/// A section with the machine and the date below its heading: sections are measured one by one.
fn dated(section: &str) -> anyhow::Result<String> {
    let (heading, rest) = section.split_once("\n\n").context("a heading")?;
    Ok(format!("{heading}\n\n{}\n\n{rest}", machine(&["rustc"])?))
}

/// The machine, these tools and the date, as one sentence each.
fn machine(tools: &[&str]) -> anyhow::Result<String> {
    let said = |program: &str, arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(program).args(arguments).output().with_context(|| program.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().lines().next().unwrap_or_default().to_string())
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let cores = std::thread::available_parallelism()?;
    let tools: Vec<String> = tools.iter().map(|tool| said(tool, &["--version"])).collect::<Result<_, _>>()?;
    Ok(format!(
        "{} on {} ({cores} CPUs), Linux {}. {}.",
        said("date", &["-u", "+%Y-%m-%d"])?,
        model.map_or("an unnamed CPU", |(_, name)| name),
        said("uname", &["-r"])?,
        tools.join(", "),
    ))
}

/// The middle one.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
