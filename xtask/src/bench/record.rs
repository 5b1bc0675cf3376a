//! Measures what recording adds to each exit of a guest that does nothing but exit, against perf recording the same.
//!
//! ```text
//! recorder at work ─► tiny-guest: 54 exits a turn ─► wall time; size of the file      recorders take turns, N rounds
//! ```

use super::median;
use crate::{root, target};
use anyhow::{Context, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Turns of the guest's program, and exits to user space in each: 23 + 17 + 13 + 1.
const TURNS: u32 = 2_000;
const EXITS: u32 = 54 * TURNS;

/// How long a recorder may take to begin.
const BEGIN: Duration = Duration::from_secs(3);

/// The tracepoints of KVM that fire for this guest where there is no `kvm_exit`; those that do not fire cost nothing.
const EVENTS: &str = "kvm:kvm_exit,kvm:kvm_entry,kvm:kvm_fpu,kvm:kvm_userspace_exit,kvm:kvm_pio,kvm:kvm_mmio,\
    kvm:kvm_vcpu_wakeup,kvm:kvm_halt_poll_ns";

struct Recorder {
    shown: &'static str,
    command: Vec<String>,
    walls: Vec<f64>,
    bytes: u64,
}

/// Builds, measures, and writes the section.
pub fn section(rounds: u32) -> anyhow::Result<String> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--package", "exitscope", "--package", "tiny-guest"])
        .env("CARGO_TARGET_DIR", target()?)
        .current_dir(root())
        .status()?;
    ensure!(built.success(), "exitscope and the guest do not build");
    let exitscope = target()?.join("release/exitscope").display().to_string();
    let guest = target()?.join("release/tiny-guest");
    let data = target()?.join("bench/recorded.data");
    let recorder = |shown, program: &str, flags: &[&str]| Recorder {
        shown,
        command: [program].iter().chain(flags).map(|word| (*word).to_string()).collect(),
        walls: Vec::new(),
        bytes: 0,
    };
    let ours = |shown, flags: &[&str]| recorder(shown, &exitscope, &[&["record", "--no-sched"], flags].concat());
    let mut recorders = vec![
        recorder("nothing", "", &[]),
        ours("`exitscope record -p 1`: programs that refuse all (the floor)", &["-p", "1"]),
        ours("`exitscope record`", &[]),
        ours("`exitscope record --no-bpf`", &["--no-bpf"]),
        recorder("`perf record`", "perf", &["record", "-q", "-a", "-m", "4M", "-e", EVENTS]),
        recorder("`perf record -z`", "perf", &["record", "-q", "-a", "-m", "4M", "-z", "-e", EVENTS]),
    ];
    for round in 0..=rounds {
        eprintln!("bench: recording, round {round} of {rounds}");
        for recorder in &mut recorders {
            let wall = measure(recorder, &guest, &data)?;
            if round > 0 {
                recorder.walls.push(wall);
            }
        }
    }
    Ok(page(rounds, &recorders))
}

/// Runs the guest beside the recorder: nanoseconds an exit.
fn measure(recorder: &mut Recorder, guest: &Path, data: &PathBuf) -> anyhow::Result<f64> {
    let mut running = None;
    if let [program, flags @ ..] = &recorder.command[..]
        && !program.is_empty()
    {
        let _ = std::fs::remove_file(data);
        let mut command = Command::new(program);
        command.args(flags).arg("-o").arg(data).stdout(Stdio::null()).stderr(Stdio::null());
        running = Some(command.spawn().with_context(|| program.clone())?);
        sleep(BEGIN);
    }
    let start = Instant::now();
    let done = Command::new(guest).args(["--repeat", &TURNS.to_string()]).stdout(Stdio::null()).status()?;
    let wall = start.elapsed();
    ensure!(done.success(), "the guest does not run; it needs /dev/kvm");
    if let Some(mut child) = running {
        let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
        ensure!(interrupted.success() && child.wait().is_ok(), "{} does not end", recorder.shown);
        recorder.bytes = std::fs::metadata(data).with_context(|| format!("{} wrote nothing", recorder.shown))?.len();
    }
    Ok(wall.as_nanos() as f64 / f64::from(EXITS))
}

fn page(rounds: u32, recorders: &[Recorder]) -> String {
    let of = |recorder: &Recorder| median(recorder.walls.iter().copied());
    let nothing = recorders.first().map_or(f64::NAN, of);
    let perf = recorders.iter().find(|recorder| recorder.shown == "`perf record`").map_or(f64::NAN, of) - nothing;
    let mut page = format!(
        "## Recording\n\nA guest does nothing but {EXITS} exits to user space; beside it one recorder at a time records all \
         of KVM's events that it fires, about four an exit. Medians of {rounds} rounds, in turns; *added* is the time beyond \
         that of nothing.\n\n\
         | recorder | ns an exit | fastest – slowest | added | to perf's | bytes an exit |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for recorder in recorders {
        let fold = |f: fn(f64, f64) -> f64, from| recorder.walls.iter().copied().fold(from, f);
        let (low, high) = (fold(f64::min, f64::INFINITY), fold(f64::max, 0.0));
        let added = of(recorder) - nothing;
        let bytes = recorder.bytes as f64 / f64::from(EXITS);
        let _ = writeln!(
            page,
            "| {} | {:.0} | {low:.0} – {high:.0} | {added:.0} | {:.2} | {bytes:.0} |",
            recorder.shown,
            of(recorder),
            added / perf,
        );
    }
    page
}
