//! Runs the exporter while VMs start and stop, for minutes, and looks whether it grows or loses count.
//!
//! ```text
//! GUESTS at a time, each some seconds long ─► exporter ◄─ asked every second: memory, descriptors, counts
//! ```

use crate::{cargo, target};
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Guests at a time.
const GUESTS: usize = 4;

/// Names that guests have in turn.
const NAMES: usize = 12;

/// Halts of each guest, one for each run of its program: some seconds, so that its name is learnt.
const HALTS: u32 = 3_000;

/// The part of the time after which the exporter is taken to have grown up.
const GROWN: u32 = 4;

/// By how much memory may still grow then: what an allocator moves about.
const MORE: f64 = 2e6;

/// Flags of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Flags {
    /// For how many seconds
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 600)]
    length: u64,
}

struct Exporter {
    child: Child,
    address: String,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds, runs, and says what came; an error if something grew or was lost.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let built = cargo()?.args(["build", "--quiet", "--package", "exitscope", "--package", "tiny-guest"]).status()?;
    ensure!(built.success(), "exitscope and the guest do not build");
    let folder = target()?.join("soak");
    std::fs::create_dir_all(&folder)?;
    let guests: Vec<_> = (0..NAMES).map(|number| folder.join(format!("soak{number}"))).collect();
    for guest in &guests {
        std::fs::copy(target()?.join("debug/tiny-guest"), guest)?;
    }
    let exporter = Exporter::start()?;
    let length = Duration::from_secs(flags.length);
    let (began, mut asked) = (Instant::now(), Instant::now());
    let (mut running, mut started): (Vec<Child>, u64) = (Vec::new(), 0);
    let mut seen: Vec<(f64, f64)> = Vec::new();
    while began.elapsed() < length {
        while running.len() < GUESTS {
            let guest = &guests[started as usize % NAMES];
            let mut start = Command::new(guest);
            start.args(["--repeat", &HALTS.to_string()]).stdout(Stdio::null());
            running.push(start.spawn().context("a guest does not start")?);
            started += 1;
        }
        let mut still = Vec::new();
        for mut child in running {
            match child.try_wait()? {
                None => still.push(child),
                Some(status) => ensure!(status.success(), "a guest failed; it needs /dev/kvm"),
            }
        }
        running = still;
        if asked.elapsed() >= Duration::from_secs(1) {
            asked = Instant::now();
            let metrics = exporter.metrics()?;
            seen.push((value(&metrics, "process_resident_memory_bytes"), value(&metrics, "process_open_fds")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for mut child in running {
        ensure!(child.wait()?.success(), "a guest failed");
    }
    let metrics = exporter.metrics()?;
    let (grown, last) = (seen[seen.len() / GROWN as usize], *seen.last().context("it was too short")?);
    let most = seen.iter().map(|sample| sample.0).fold(0.0, f64::max);
    let halts = halts(&metrics);
    println!(
        "soak: {} s, {started} guests: memory {:.1} MB after a quarter of it, {:.1} MB in the end, {:.1} MB at most; \
         descriptors {} and {}; {halts} of {} halts counted, {} events lost",
        flags.length,
        grown.0 / 1e6,
        last.0 / 1e6,
        most / 1e6,
        grown.1,
        last.1,
        started * u64::from(HALTS),
        value(&metrics, "exitscope_lost_events_total"),
    );
    ensure!(last.0 <= grown.0 + MORE, "memory grows");
    ensure!(last.1 <= grown.1, "descriptors are left open");
    ensure!(halts == started * u64::from(HALTS), "exits were counted wrongly");
    Ok(())
}

impl Exporter {
    fn start() -> anyhow::Result<Exporter> {
        let mut start = Command::new(target()?.join("debug/exitscope"));
        start.args(["exporter", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = start.spawn()?;
        let mut said = BufReader::new(child.stderr.take().context("its standard error")?);
        let mut all = String::new();
        while said.read_line(&mut all)? > 0 {
            if let Some((_, rest)) = all.split_once("serving http://") {
                let address = rest.split('/').next().unwrap_or_default().to_string();
                return Ok(Exporter { child, address });
            }
        }
        anyhow::bail!("the exporter does not start: {all}")
    }

    fn metrics(&self) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "the exporter says: {answer}");
        Ok(answer)
    }
}

/// The value of a metric without labels.
fn value(metrics: &str, name: &str) -> f64 {
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.next().and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

/// Halts of our guests.
fn halts(metrics: &str) -> u64 {
    let ours =
        |line: &&str| line.starts_with("exitscope_exits_total{vm=\"soak") && line.to_lowercase().contains("hlt\"}");
    let values = metrics.lines().filter(ours).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}
