//! Measures the simulator: the same models on exitscope's queue, on nexosim and in SimPy, then how its cost grows.
//!
//! ```text
//! bench/des (a crate of its own) ┐
//! bench/des/models.py (SimPy)    ┴─► every model once a round, N rounds ─► medians ─► a section of docs/benchmarks.md
//! ```

use crate::{cargo, root, target};
use anyhow::{Context, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIMPY: &str = "simpy==4.1.2";

/// How far the figures of one model on different engines may be apart.
const AGREEMENT: f64 = 0.02;

/// vCPUs, CPUs and simulated milliseconds of the table of growth.
const SIZES: [(u32, u32, u32); 4] = [(64, 16, 2_000), (640, 64, 400), (1_000, 100, 300), (10_000, 1_000, 1_000)];
/// Runs of the sweep.
const RUNS: u32 = 16;

/// What is measured again and again: a command, and what it printed each time.
struct Case {
    model: &'static str,
    engine: &'static str,
    command: Vec<String>,
    results: Vec<Printed>,
}

/// What one run printed.
struct Printed {
    seconds: f64,
    events: f64,
    throughput: Option<f64>,
    /// Events in a second of the model's time.
    pace: Option<f64>,
}

impl Case {
    fn new(model: &'static str, engine: &'static str, program: &Path, arguments: &str) -> Case {
        let words = std::iter::once(program.display().to_string()).chain(arguments.split(' ').map(String::from));
        Case { model, engine, command: words.collect(), results: Vec::new() }
    }

    fn measure(&mut self) -> anyhow::Result<()> {
        let output = Command::new(&self.command[0]).args(&self.command[1..]).current_dir(root()).output()?;
        ensure!(output.status.success(), "{:?}: {}", self.command, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<f64>().ok());
        let seconds = value("seconds ").context("no seconds")?;
        let events = value("events ").context("no events")?;
        self.results.push(Printed { seconds, events, throughput: value("throughput "), pace: value("pace ") });
        Ok(())
    }

    /// Events a second: slowest, median and fastest.
    fn speeds(&self) -> [f64; 3] {
        let mut speeds: Vec<f64> = self.results.iter().map(|run| run.events / run.seconds).collect();
        speeds.sort_unstable_by(f64::total_cmp);
        [speeds[0], speeds[speeds.len() / 2], speeds[speeds.len() - 1]]
    }

    /// The run with the median time.
    fn median(&self) -> &Printed {
        let mut runs: Vec<&Printed> = self.results.iter().collect();
        runs.sort_unstable_by(|a, b| a.seconds.total_cmp(&b.seconds));
        runs[runs.len() / 2]
    }
}

/// Builds, measures, and writes the section.
pub fn section(rounds: u32) -> anyhow::Result<String> {
    let (des, python) = (build()?, super::python("simpy", SIMPY)?);
    let py = |model, arguments| Case::new(model, "SimPy", &python, arguments);
    let rust = |model, engine, arguments| Case::new(model, engine, &des, arguments);
    let mut models = vec![
        rust("queueing network", "exitscope", "network exitscope 10000000"),
        rust("queueing network", "nexosim", "network nexosim 1000000"),
        py("queueing network", "bench/des/models.py network 200000"),
        rust("scheduler", "exitscope", "roundrobin exitscope 10000000"),
        rust("scheduler", "nexosim", "roundrobin nexosim 1000000"),
        py("scheduler", "bench/des/models.py roundrobin 200000"),
        rust("scheduler", "exitscope, whole machine", "machine 16 64 2000"),
    ];
    let cores = std::thread::available_parallelism()?.get();
    let threads: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|n| *n <= cores).collect();
    let sweep = |threads: &usize| Case::new("sweep", "", &des, &format!("sweep {RUNS} {threads}"));
    let mut sweeps: Vec<Case> = threads.iter().map(sweep).collect();
    let sized = |(vcpus, cpus, millis): (u32, u32, u32)| {
        Case::new("growth", "", &des, &format!("machine {cpus} {vcpus} {millis}"))
    };
    let mut sizes: Vec<Case> = SIZES.into_iter().map(sized).collect();
    for round in 1..=rounds {
        eprintln!("bench: simulator, round {round} of {rounds}");
        models.iter_mut().chain(&mut sweeps).try_for_each(Case::measure)?;
        // The largest takes as long as all others together.
        let all = if round <= rounds.div_ceil(3) { sizes.len() } else { sizes.len() - 1 };
        sizes[..all].iter_mut().try_for_each(Case::measure)?;
    }
    check_agreement(&models)?;
    page(rounds, &models, &sizes, &threads, &sweeps)
}

/// Builds the crate of models; where its program is.
fn build() -> anyhow::Result<PathBuf> {
    let directory = target()?.join("bench/des");
    let status = cargo()?
        .args(["build", "--release", "--quiet", "--manifest-path", "bench/des/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &directory)
        .status()?;
    ensure!(status.success(), "bench/des does not build");
    Ok(directory.join("release/exitscope-bench-des"))
}

/// The engines must have run the same model, and counted its events by the same rule: its throughput and its events in a
/// second of its own time are what the first one says, within 2 %.
fn check_agreement(models: &[Case]) -> anyhow::Result<()> {
    let figures = |run: &Printed| [("throughput", run.throughput), ("events a simulated second", run.pace)];
    for case in models {
        let Some(first) = models.iter().find(|first| first.model == case.model) else { continue };
        for ((figure, theirs), (_, ours)) in figures(case.median()).into_iter().zip(figures(first.median())) {
            if let (Some(theirs), Some(ours)) = (theirs, ours) {
                let apart = (theirs / ours - 1.0).abs();
                ensure!(apart < AGREEMENT, "{} on {}: {figure} {theirs}, exitscope {ours}", case.model, case.engine);
            }
        }
    }
    Ok(())
}

fn page(rounds: u32, models: &[Case], sizes: &[Case], threads: &[usize], sweeps: &[Case]) -> anyhow::Result<String> {
    let mut page = format!(
        "## Simulator\n\n{}\n\nMedians of {rounds} rounds ({} for the largest size), in which the models took turns; one \
         thread each. *Ratio* is exitscope's speed over the engine's.\n\n",
        super::machine(&["rustc"])?,
        rounds.div_ceil(3)
    );
    writeln!(page, "| model | engine | events | events a second | slowest – fastest | ratio | throughput |")?;
    writeln!(page, "| --- | --- | ---: | ---: | ---: | ---: | ---: |")?;
    let mut ours = 0.0;
    for case in models {
        let [slowest, median, fastest] = case.speeds();
        if case.engine == "exitscope" {
            ours = median; // each model's first case
        }
        let throughput = case.median().throughput.map_or("–".to_string(), |value| format!("{value:.0}/s"));
        writeln!(
            page,
            "| {} | {} | {:.0} | {:.2} million | {:.2} – {:.2} | {:.1} | {throughput} |",
            case.model,
            case.engine,
            case.median().events,
            median / 1e6,
            slowest / 1e6,
            fastest / 1e6,
            ours / median,
        )?;
    }
    page.push_str(
        "\n*Queueing network*: 100 customers go between 10 stations at random, first come first served, exponential \
         service; an event is the end of a service. *Scheduler*: 64 vCPUs on 16 CPUs, one queue, round robin with \
         preemption; an event is the end of a computation, a slice or a sleep. Both are written for exitscope's event \
         queue, for nexosim 1 with one thread, and for SimPy 4; *throughput*, services of a station or computations a \
         simulated second, and the events in such a second must agree within 2 %. *Whole machine*: what `exitscope sim` runs, with the exits, costs, \
         ticks and run queues of 64 such vCPUs; an event is one thing taken from its queue, and costs more than one of \
         the reduced model.\n\n### Growth\n\n",
    );
    writeln!(
        page,
        "| vCPUs | CPUs | simulated | events | wall time | events a second | ns an event | to 64 vCPUs | log n to 64 |"
    )?;
    writeln!(page, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    let nanos = |case: &Case| 1e9 / case.speeds()[1];
    for (case, (vcpus, cpus, millis)) in sizes.iter().zip(SIZES) {
        let median = case.median();
        writeln!(
            page,
            "| {vcpus} | {cpus} | {millis} ms | {:.0} | {:.2} s | {:.2} million | {:.0} | {:.2} | {:.2} |",
            median.events,
            median.seconds,
            case.speeds()[1] / 1e6,
            nanos(case),
            nanos(case) / nanos(&sizes[0]),
            f64::from(vcpus).log2() / f64::from(SIZES[0].0).log2(),
        )?;
    }
    page.push_str(
        "\nThe last two columns compare: where the cost of an event grows no faster than log n, that of a run grows no \
         faster than n log n.\n\n### Sweep\n\n| threads | wall time of 16 runs | speed-up |\n| ---: | ---: | ---: |\n",
    );
    for (case, threads) in sweeps.iter().zip(threads) {
        let seconds = case.median().seconds;
        writeln!(page, "| {threads} | {seconds:.2} s | {:.2} |", sweeps[0].median().seconds / seconds)?;
    }
    Ok(page)
}
