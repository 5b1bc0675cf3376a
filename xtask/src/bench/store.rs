//! Measures the store: bytes an exit, exits a second into it, queries over a fleet that is made for it; against DuckDB on the
//! same files, and on a cluster of one executor and of two.

use super::{inputs, median};
use crate::{cargo, target};
use anyhow::{Context, bail, ensure};
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often the boot of a Linux guest is repeated in the recording that is added: 830,000 exits.
const TIMES: u64 = 50;

/// The fleet that queries are asked of.
const EXITS: u64 = 100_000_000;
const HOSTS: u64 = 8;
const DAYS: u64 = 4;

/// The peer.
const DUCKDB: &str = "duckdb==2.0.0";

/// Rounds of each query, of which the median counts.
const ROUNDS: usize = 3;

/// What is wanted: bytes an exit, and how much faster two executors are than one.
const BYTES: f64 = 8.0;
const TWICE: f64 = 1.7;

/// What is asked, and how DuckDB has to be asked for the same.
const QUERIES: [(&str, &str); 4] = [
    (
        "by reason",
        "select reason, count(*) n, sum(kernel_ns) k, max(user_space_ns) u from exits group by reason order by reason",
    ),
    (
        "one host, one day",
        "select reason, count(*) n, sum(kernel_ns) k from exits where host = 'host-003' and day = '2026-11-02' group by reason order by reason",
    ),
    (
        "by host, day, vCPU and reason",
        "select host, day, vcpu, reason, count(*) n, sum(kernel_ns) k from exits group by host, day, vcpu, reason order by 1, 2, 3, 4",
    ),
    (
        "longest of each port",
        "select subject_key, count(*) n, max(kernel_ns + user_space_ns) l from exits where subject_kind = 'port' group by subject_key order by subject_key",
    ),
];

/// Builds, makes the fleet, measures, and writes the section.
pub fn section() -> anyhow::Result<String> {
    build()?;
    let source = super::unpacked("x86-svm/t2.data")?;
    let folder = source.parent().context("a folder")?;
    let large = folder.join(format!("t2-{TIMES}.data"));
    if !large.exists() {
        inputs::repeat_perf(&source, &large, TIMES)?;
    }
    let mut section = "## Store\n\n".to_string();
    added(&large, folder, &mut section)?;
    let fleet = fleet(&source, folder)?;
    queries(&fleet, &mut section)?;
    cluster(&fleet, &mut section)?;
    std::fs::remove_dir_all(&fleet)?;
    Ok(section)
}

fn build() -> anyhow::Result<()> {
    let mut command = cargo()?;
    command.args(["build", "--profile", "fleet", "--quiet"]);
    command.args(["--package", "exitscope", "--package", "exitscope-query", "--features", "exitscope/cluster"]);
    command.args(["--bin", "exitscope", "--example", "generate"]);
    ensure!(command.status()?.success(), "exitscope does not build with a cluster");
    Ok(())
}

fn exitscope() -> anyhow::Result<Command> {
    Ok(Command::new(target()?.join("fleet/exitscope")))
}

/// Runs a command: what it prints, and how long it took.
fn timed(command: &mut Command) -> anyhow::Result<(String, f64)> {
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = begin.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok((String::from_utf8(output.stdout)?, took))
}

fn added(large: &Path, folder: &Path, section: &mut String) -> anyhow::Result<()> {
    let place = folder.join("added");
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        took.push(timed(exitscope()?.args(["store", "add"]).arg(&place).arg(large).args(["--host", "a"]))?.1);
    }
    let (runs, _) = timed(exitscope()?.args(["store", "list", "--format", "json"]).arg(&place))?;
    let run: serde_json::Value = serde_json::from_str(runs.trim())?;
    let exits = run["exits"].as_u64().context("exits")? as f64;
    let size = |table: &str| bytes_below(&place.join(table)).map(|bytes| bytes as f64 / exits);
    let (of_exits, of_facts) = (size("exits")?, size("reason_stats")?);
    let of_perf = large.metadata()?.len() as f64 / exits;
    let mark = if of_exits + of_facts <= BYTES { "" } else { " (MORE THAN WANTED)" };
    std::fs::remove_dir_all(&place)?;
    writeln!(
        section,
        "`exitscope store add` of corpus/x86-svm/t2.data.gz × {TIMES} ({exits} exits): {:.2} million exits a second (two readings, \
         both cores), {of_exits:.1} bytes an exit at rest and {of_facts:.1} of sums{mark}, of {of_perf:.0} in perf.data. Wanted are \
         at most {BYTES:.0}. A recording that repeats flatters: alone, the same has {:.1}.\n",
        exits / median(took.into_iter()) / 1e6,
        alone(folder)?,
    )?;
    Ok(())
}

/// Bytes an exit of the recording that is not repeated.
fn alone(folder: &Path) -> anyhow::Result<f64> {
    let place = folder.join("alone");
    timed(exitscope()?.args(["store", "add"]).arg(&place).arg(folder.join("t2.data")).args(["--host", "a"]))?;
    let (runs, _) = timed(exitscope()?.args(["store", "list", "--format", "json"]).arg(&place))?;
    let run: serde_json::Value = serde_json::from_str(runs.trim())?;
    let bytes = bytes_below(&place.join("exits"))? as f64;
    std::fs::remove_dir_all(&place)?;
    Ok(bytes / run["exits"].as_f64().context("exits")?)
}

fn bytes_below(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Makes the fleet.
fn fleet(source: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let (one, fleet) = (folder.join("one"), folder.join("fleet"));
    for place in [&one, &fleet] {
        if place.exists() {
            std::fs::remove_dir_all(place)?;
        }
    }
    eprintln!("bench: making a fleet of {EXITS} exits");
    timed(exitscope()?.args(["store", "add"]).arg(&one).arg(source).args(["--host", "a"]))?;
    let numbers = [EXITS, HOSTS, DAYS].map(|number| number.to_string());
    timed(Command::new(target()?.join("fleet/examples/generate")).args([&one, &fleet]).args(numbers))?;
    std::fs::remove_dir_all(&one)?;
    Ok(fleet)
}

fn queries(fleet: &Path, section: &mut String) -> anyhow::Result<()> {
    let python = super::python("duckdb", DUCKDB)?;
    let (files, _) = timed(exitscope()?.args(["store", "files"]).arg(fleet).arg("exits"))?;
    writeln!(
        section,
        "{EXITS} exits of {HOSTS} hosts on {DAYS} days, made of that recording with other lengths each time \
         (crates/query/examples/generate.rs): {:.1} bytes an exit. Seconds, medians of {ROUNDS} rounds, the whole command; DuckDB \
         reads the same files, with its start left out.\n\n\
         | query | exitscope, 1 core | 2 cores | `--no-verify`, 1 core | 2 cores | DuckDB, 1 core | 2 cores | answers |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        bytes_below(&fleet.join("exits"))? as f64 / EXITS as f64
    )?;
    for (name, query) in QUERIES {
        eprintln!("bench: {name}");
        let mut cells = Vec::new();
        let mut answers = Vec::new();
        let plans: [(&str, &[&str]); 4] = [("1", &[]), ("2", &[]), ("1", &["--no-verify"]), ("2", &["--no-verify"])];
        for (threads, flags) in plans {
            let mut took = Vec::new();
            for _ in 0..ROUNDS {
                let mut command = exitscope()?;
                command.arg("sql").arg(fleet).arg(query).args(["--format", "csv", "--threads", threads]).args(flags);
                let (answer, seconds) = timed(&mut command)?;
                took.push(seconds);
                answers.push(answer);
            }
            cells.push(format!("{:.2}", median(took.into_iter())));
        }
        for threads in ["1", "2"] {
            let mut command = Command::new(&python);
            command.arg("-c").arg(ASK).arg(&files).args([query, threads, &ROUNDS.to_string()]);
            let (said, _) = timed(&mut command)?;
            let (seconds, answer) = said.split_once('\n').context("what DuckDB says")?;
            cells.push(format!("{:.2}", seconds.trim().parse::<f64>()?));
            answers.push(answer.to_string());
        }
        let same = answers.windows(2).all(|pair| pair[0] == pair[1]);
        writeln!(section, "| {name} | {} | {} |", cells.join(" | "), if same { "the same" } else { "DIFFER" })?;
    }
    writeln!(section)?;
    Ok(())
}

/// Asks DuckDB: the median of some rounds, then the answer as CSV.
const ASK: &str = r#"
import csv, duckdb, statistics, sys, time
files, query, threads, rounds = sys.argv[1:]
db = duckdb.connect(config={"threads": threads})
db.execute("set enable_progress_bar = false")
db.read_parquet(files.splitlines(), hive_partitioning=True).create_view("exits")
took = []
for _ in range(int(rounds)):
    begin = time.perf_counter()
    rows = db.execute(query).fetchall()
    took.append(time.perf_counter() - begin)
print(statistics.median(took))
out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow([column[0] for column in db.description])
out.writerows(rows)
"#;

/// A scheduler or an executor, which ends with this value.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn part(arguments: &[&str]) -> anyhow::Result<Part> {
    let mut command = exitscope()?;
    command.arg("cluster").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Part(command.spawn()?))
}

fn cluster(fleet: &Path, section: &mut String) -> anyhow::Result<()> {
    const SCHEDULER: &str = "127.0.0.1:50950";
    let (name, query) = QUERIES[2];
    eprintln!("bench: a cluster");
    let _scheduler = part(&["scheduler", "--insecure", "--listen", SCHEDULER])?;
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(SCHEDULER).is_err() {
        ensure!(Instant::now() < end, "no scheduler");
        std::thread::sleep(Duration::from_millis(100));
    }
    let address = format!("df://{SCHEDULER}");
    let mut executors = Vec::new();
    let mut medians = Vec::new();
    for number in 1..=2 {
        let listen = format!("127.0.0.1:{}", 50950 + number);
        executors.push(part(&[
            "executor",
            "--insecure",
            "--scheduler",
            &address,
            "--listen",
            &listen,
            "--threads",
            "1",
        ])?);
        std::thread::sleep(Duration::from_secs(3));
        let mut took = Vec::new();
        for _ in 0..ROUNDS {
            let mut command = exitscope()?;
            command.arg("sql").arg(fleet).arg(query).args(["--format", "csv", "--cluster", &address]);
            took.push(timed(&mut command)?.1);
        }
        medians.push(median(took.into_iter()));
    }
    let [one, two] = medians[..] else { bail!("two sizes of cluster") };
    let mark = if one / two >= TWICE { "" } else { " (LESS THAN WANTED)" };
    writeln!(
        section,
        "On a cluster on this machine, *{name}* takes {one:.2} s with one executor of one task at a time, {two:.2} s with two: {:.2} \
         times as fast{mark}; wanted are {TWICE}. Scheduler, executors and whoever asks share the cores.",
        one / two
    )?;
    Ok(())
}
