//! A real guest on this machine's KVM, recorded by the real perf, read back.
//!
//! The guest of rig/tiny-guest does 23 port writes, 17 port reads, 13 MMIO writes and 1 halt in one run.

mod common;

use common::report;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Set to 1, this allows the test to pass on a machine where a guest cannot be recorded.
const WITHOUT_KVM: &str = "EXITSCOPE_WITHOUT_KVM";

/// A recording of the whole machine sees the guests of every test, so only one test runs guests at a time.
static MACHINE: Mutex<()> = Mutex::new(());

fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// The guest, built once.
fn tiny_guest() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_exitscope")).ancestors().nth(2).unwrap();
        let mut command = Command::new(env!("CARGO"));
        let built = command.args(["build", "-q", "-p", "tiny-guest", "--target-dir"]).arg(target).status().unwrap();
        assert!(built.success(), "tiny-guest does not build");
        target.join("debug/tiny-guest")
    })
}

/// Records the guest; `None` if that cannot be done here and was allowed not to be.
fn record(folder: &Path, name: &str, flags: &[&str], guest_flags: &[&str]) -> Option<PathBuf> {
    let data = folder.join(name);
    let mut command = Command::new("perf");
    command.arg("record").args(flags).arg("-o").arg(&data).arg("--").arg(tiny_guest()).args(guest_flags);
    run(command, data)
}

fn run(mut command: Command, data: PathBuf) -> Option<PathBuf> {
    let output = command.output();
    let trouble = match output {
        Ok(output) if output.status.success() && data.is_file() => return Some(data),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("perf cannot be run: {error}"),
    };
    let allowed = std::env::var(WITHOUT_KVM).is_ok_and(|value| value == "1");
    assert!(allowed, "{trouble}\nA live guest cannot be recorded here. Set {WITHOUT_KVM}=1 to pass without it.");
    // Not `eprintln!`, which the test harness swallows when the test passes.
    let said = std::io::stderr().write_all(format!("SKIPPED: NO LIVE GUEST WAS RECORDED: {trouble}\n").as_bytes());
    said.expect("stderr is open");
    None
}

/// Exits at this place: port and direction, or page and direction.
fn exits_at(report: &serde_json::Value, kind: &str, key: u64, direction: &str) -> u64 {
    let details = report["details"].as_array().unwrap().iter();
    details
        .filter(|row| row["kind"] == kind && row["key"] == key && row["direction"] == direction)
        .map(|row| row["count"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_live_guest_shows_its_prime_counts() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    for (name, flags, repeat) in [
        ("once.data", &["-q", "-e", "kvm:*"][..], 1),
        ("wide.data", &["-q", "-a", "-e", "kvm:*,sched:sched_switch"], 1),
        ("often.data", &["-q", "-e", "kvm:*", "-m", "4M"], 11),
        ("packed.data", &["-q", "-z", "-e", "kvm:*"], 7),
    ] {
        let Some(data) = record(folder.path(), name, flags, &["--repeat", &repeat.to_string()]) else { return };
        let report = report(&[&data], &[]);
        assert_eq!(report["coverage"]["lost"], 0, "{name}");
        assert_eq!(exits_at(&report, "port", 0x10, "out"), 23 * repeat, "{name}");
        assert_eq!(exits_at(&report, "port", 0x11, "in"), 17 * repeat, "{name}");
        assert_eq!(exits_at(&report, "mmio", 0x8000, "write"), 13 * repeat, "{name}");
        let vcpus = report["vcpus"].as_array().unwrap();
        assert_eq!(vcpus.len(), 1, "{name}: one vCPU ran");
        assert_eq!(vcpus[0]["vm_name"], "tiny-guest", "{name}");
    }
}

#[test]
fn recordings_that_overlap_count_each_exit_once() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let (outer, inner) = (folder.path().join("outer.data"), folder.path().join("inner.data"));
    let mut command = Command::new("perf");
    let flags = ["record", "-q", "-a", "-e", "kvm:*", "-o"];
    command.args(flags).arg(&outer).args(["--", "perf"]).args(flags).arg(&inner).arg("--").arg(tiny_guest());
    let Some(outer) = run(command, outer) else { return };
    let hostname = &report(&[&outer], &[])["traces"][0]["hostname"];
    assert!(hostname.as_str().is_some_and(|name| !name.is_empty()), "only a host with a name is known to be the same");
    for pair in [[&outer, &inner], [&inner, &outer]] {
        let report = report(&pair.map(PathBuf::as_path), &[]);
        assert_eq!(exits_at(&report, "port", 0x10, "out"), 23);
        assert_eq!(exits_at(&report, "mmio", 0x8000, "write"), 13);
        let lines = report["coverage"]["lines"].as_array().unwrap();
        assert!(lines.iter().any(|line| line["id"] == "overlapping" && line["count"].as_u64() > Some(23 + 17 + 13)));
    }
}
