//! A real guest on this machine's KVM, recorded by the real perf and by `exitscope record`, read back.
//!
//! The guest of rig/tiny-guest does 23 port writes, 17 port reads, 13 MMIO writes and 1 halt in one run.

mod common;

use common::{cannot, exits_at, machine, report, tiny_guest};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    cannot(&trouble);
    None
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

/// `exitscope record` with these flags and what it runs; `None` as above.
fn exitscope_record(data: &Path, flags: &[&str], command: &[&str]) -> Option<PathBuf> {
    let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
    record.arg("record").args(flags).arg("-o").arg(data).arg("--").args(command);
    run(record, data.to_path_buf())
}

#[test]
fn exitscope_records_the_prime_counts_of_guests_by_either_route() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let guest = tiny_guest().to_str().unwrap();
    let two = format!("{guest} --repeat 300 & {guest} --repeat 300; wait");
    let one = [guest, "--repeat", "3"];
    for (flags, command, repeat, vcpus) in [
        (&[][..], &one[..], 3, 1),
        (&["--no-bpf"], &one, 3, 1),
        (&["--no-sched", "--buffer", "16M"], &one, 3, 1),
        (&["--all-cpus"], &["sh", "-c", &two], 600, 2),
        (&["--no-bpf", "--buffer", "16M"], &["sh", "-c", &two], 600, 2),
    ] {
        let Some(data) = exitscope_record(&data, flags, command) else { return };
        let report = report(&[&data], &[]);
        assert_eq!(report["coverage"]["lost"], 0, "{flags:?}");
        assert_eq!(exits_at(&report, "port", 0x10, "out"), 23 * repeat, "{flags:?}");
        assert_eq!(exits_at(&report, "port", 0x11, "in"), 17 * repeat, "{flags:?}");
        assert_eq!(exits_at(&report, "mmio", 0x8000, "write"), 13 * repeat, "{flags:?}");
        assert_eq!(report["vcpus"].as_array().unwrap().len(), vcpus, "{flags:?}");
        assert_eq!(report["vcpus"][0]["vm_name"], "tiny-guest", "{flags:?}");
    }
    assert!(folder.path().join("perf.data.old").is_file(), "what was there is kept");
}

#[test]
fn a_recording_says_what_was_in_force_and_what_it_cost() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let guest = tiny_guest().to_str().unwrap();
    for (flags, route) in [(&["--no-sched"][..], "BPF"), (&["--no-sched", "--no-bpf"], "perf events")] {
        let data = folder.path().join("perf.data");
        let Some(data) = exitscope_record(&data, flags, &[guest, "--repeat", "50"]) else { return };
        let report = report(&[&data], &[]);
        assert_eq!(common::misfits(&report, "report-schema"), [""; 0]);
        let trace = &report["traces"][0];
        let settings = trace["settings"].as_array().unwrap();
        let value = |of: &str, name: &str| {
            let found = settings.iter().find(|row| row["of"] == of && row["name"] == name);
            found.map(|row| row["value"].as_str().unwrap().to_string())
        };
        let file = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
        assert_eq!(value("kvm", "halt_poll_ns"), file("/sys/module/kvm/parameters/halt_poll_ns"));
        assert!(value("host", "back_end").is_some());
        assert_eq!(value("exitscope", "route").as_deref(), Some(route), "{settings:?}");
        assert_eq!(value("exitscope", "events"), Some(report["coverage"]["events"].to_string()));
        // Only programs are measured, and only for who may measure.
        let costs = value("exitscope", "cost_ns").unwrap();
        assert!(costs.is_empty() || route == "BPF" && costs.parse::<u64>().unwrap() > 0, "{costs}");
        let page = common::run(&["report", data.to_str().unwrap()]);
        assert!(common::stdout(&page).contains("Recorded on "), "{page:?}");
        let header = Command::new("perf").args(["report", "--header-only", "-i"]).arg(&data).output().unwrap();
        let header = String::from_utf8_lossy(&header.stdout).into_owned();
        let poll = value("kvm", "halt_poll_ns").unwrap();
        assert!(header.contains(&format!("halt_poll_ns={poll}, ")) && header.contains("# cpudesc : "), "{header}");
    }
}

#[test]
fn what_a_full_ring_loses_is_counted() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let guest = tiny_guest().to_str().unwrap();
    let events = |name: &str, buffer: &str, repeat: &str| {
        let flags = ["--no-sched", "--buffer", buffer];
        let data = exitscope_record(&folder.path().join(name), &flags, &[guest, "--repeat", repeat])?;
        let report = report(&[&data], &[]);
        let coverage = |key: &str| report["coverage"][key].as_u64().unwrap();
        Some((coverage("events"), coverage("lost")))
    };
    let Some((once, lost)) = events("once.data", "1M", "1") else { return };
    assert_eq!(lost, 0);
    let (many, lost) = events("many.data", "4K", "2000").unwrap();
    assert!(lost > 0, "4 KiB cannot hold what comes in 10 ms");
    assert_eq!(many + lost, 2000 * once, "every event is there or counted");
}

#[test]
fn a_recording_that_is_killed_is_whole_up_to_then() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    for (round, millis) in [1100, 1350, 1600, 1950, 2300].into_iter().enumerate() {
        let data = folder.path().join(format!("{round}.data"));
        let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
        record.args(["record", "-o"]).arg(&data).arg("--").arg(tiny_guest()).args(["--repeat", "1000000"]);
        let mut recorder = record.process_group(0).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(millis));
        let group = format!("-{}", recorder.id());
        assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
        recorder.wait().unwrap();
        if !data.is_file() {
            // It had not begun, or cannot be done here, which the test above says.
            continue;
        }
        let report = report(&[&data], &[]);
        assert_eq!(report["coverage"]["lost"], 0);
        let lines = report["coverage"]["lines"].as_array().unwrap();
        assert!(lines.iter().all(|line| line["severity"] != "error"), "{lines:?}");
    }
}

#[test]
fn a_machine_that_is_not_there_is_an_error_that_says_which_are() {
    let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
    let output =
        record.args(["record", "--vm", "no such machine", "--for", "1s", "-o", "never.data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new("never.data").exists());
}
