//! A real guest on this machine's KVM, recorded by the real perf and by `exitscope record`, read back.
//!
//! The guest of rig/tiny-guest does 23 port writes, 17 port reads, 13 MMIO writes and 1 halt in one run.

mod common;

use common::server::end;
use common::{cannot_trace, exits_at, go, held_guest, kvm, machine, recording, report, tiny_guest};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Records the guest by perf.
fn record(folder: &Path, name: &str, flags: &[&str], guest_flags: &[&str]) -> Result<PathBuf, Skipped> {
    let data = folder.join(name);
    let mut command = Command::new("perf");
    command.arg("record").args(flags).arg("-o").arg(&data).arg("--").arg(tiny_guest()).args(guest_flags);
    run(command, data)
}

fn run(mut command: Command, data: PathBuf) -> Result<PathBuf, Skipped> {
    match command.output() {
        Ok(output) if output.status.success() && data.is_file() => Ok(data),
        Ok(output) => Err(cannot_trace(String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(skip(Part::Perf, format!("perf cannot be run: {error}"))),
    }
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
        let data = or_skip!(record(folder.path(), name, flags, &["--repeat", &repeat.to_string()]));
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
    let outer = or_skip!(run(command, outer));
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

/// `exitscope record` with these flags and what it runs.
fn exitscope_record(data: &Path, flags: &[&str], command: &[&str]) -> Result<PathBuf, Skipped> {
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
        let data = or_skip!(exitscope_record(&data, flags, command));
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

/// The guest halts 23 times with a wake-up pending, or 7 times for 20 ms, or is stopped 5 times for 50 ms; between two halts
/// it writes to a port, and after the stops once.
#[test]
fn a_live_guest_waits_as_often_as_it_is_known_to() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let guest = tiny_guest().to_str().unwrap();
    for (flags, writes, sleeps, stops) in
        [(&["--pending"][..], 23, 0, 0), (&["--sleep", "20"], 7, 7, 0), (&["--stop", "50"], 1, 0, 5)]
    {
        let data = folder.path().join(flags[0]);
        let command = [&[guest], flags].concat();
        let data = or_skip!(exitscope_record(&data, &[], &command));
        let report = report(&[&data], &[]);
        assert_eq!(report["coverage"]["lost"], 0, "{flags:?}");
        assert_eq!(exits_at(&report, "port", 0x10, "out"), writes, "{flags:?}");
        let events = common::stdout(&common::run(&["events", data.to_str().unwrap(), "--format", "json"]));
        let times = |what: &str| events.lines().filter(|line| line.contains(what)).count();
        assert_eq!(times("\"kvm:kvm_vcpu_wakeup\""), sleeps, "{flags:?}");
        assert_eq!(times("\"errno\":-4}"), stops, "{flags:?}");
    }
}

#[test]
fn for_the_view_of_phases_system_calls_of_virtual_cpus_are_recorded_and_of_nobody_else() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let guest = tiny_guest().to_str().unwrap();
    // The shell's own system calls are of no virtual CPU.
    let beside = format!("{guest} --repeat 300 & while kill -0 $!; do cat /dev/null; done");
    for (flags, has_calls) in [
        (&[][..], false),
        (&["--for-view", "phases"], true),
        (&["--for-view", "phases", "--no-bpf", "--buffer", "16M"], true),
    ] {
        let data = or_skip!(exitscope_record(&data, flags, &["sh", "-c", &beside]));
        let recorded = report(&[&data], &[]);
        let outside = &recorded["phases"]["in_user_space"];
        let number = |name: &str| outside[name].as_u64().unwrap();
        assert!(number("with_syscall_entry") > 10_000, "{flags:?}: kvm_fpu says when KVM_RUN was called");
        // A thread's calls are recorded from when it was first seen on.
        let returned = number("with_syscall_return");
        assert_eq!((returned > number("exits") / 2, returned > 0), (has_calls, has_calls), "{flags:?}: {outside}");
        let view = common::stdout(&common::run(&["report", data.to_str().unwrap(), "--view", "phases"]));
        let names_it =
            "are in the trace; re-entry: from KVM_RUN to kvm_entry. Record with `exitscope record --for 10s --for-view";
        assert_eq!(view.contains(names_it), !has_calls, "{flags:?}: {view}");
        let events = common::stdout(&common::run(&["events", data.to_str().unwrap(), "--format", "json"]));
        let events: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let threads = |system: &str| -> std::collections::BTreeSet<u64> {
            let of = events.iter().filter(|event| event["event"].as_str().unwrap().starts_with(system));
            of.map(|event| event["tid"].as_u64().unwrap()).collect()
        };
        assert!(threads("raw_syscalls:").is_subset(&threads("kvm:")), "{flags:?}");
    }
}

/// Six processes that never sleep, and two guests on two CPUs: one halts 210 times for 3 ms, so that it waits after wake-ups, and one
/// makes exits all the time, so that it is preempted.
#[test]
fn those_are_named_who_had_the_cpus_for_which_guests_waited() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let guest = tiny_guest().to_str().unwrap();
    let beside = format!(
        "for n in 1 2 3 4 5 6; do yes > /dev/null & others=\"$others $!\"; done
        {guest} --sleep 3 --repeat 30 & sleeps=$!; {guest} --repeat 4000 & wait $sleeps $!; kill $others"
    );
    for flags in [&["--buffer", "16M"][..], &["--buffer", "16M", "--no-bpf"]] {
        let command = ["taskset", "-c", "0,1", "sh", "-c", &beside];
        let data = or_skip!(exitscope_record(&folder.path().join("perf.data"), flags, &command));
        let report = report(&[&data], &[]);
        let number = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap();
        let rows = report["steal_takers"].as_array().unwrap();
        let mut times = std::collections::BTreeMap::<(String, String), u64>::new();
        for row in rows {
            let (taker, name) = (&row["taker"], row["name"].as_str().unwrap_or_default());
            *times.entry((taker.as_str().unwrap().into(), name.into())).or_default() += number(row, "steal_ns");
        }
        let vcpus = report["vcpus"].as_array().unwrap();
        let steal: u64 = vcpus.iter().map(|row| number(row, "steal_ns")).sum();
        assert_eq!(times.values().sum::<u64>(), steal, "{flags:?}: {times:?}");
        let of = |taker: &str, name: &str| times.get(&(taker.into(), name.into())).copied().unwrap_or_default();
        let unknown = of("unknown", "") + of("others", "");
        assert!(unknown * 10 <= steal && steal > 500_000_000, "{flags:?}: {steal} {times:?}");
        assert_eq!(times.iter().max_by_key(|row| row.1).unwrap().0.1, "yes", "{flags:?}: {times:?}");
        // A guest meets only those processes that ran on its own CPUs: with other load beside, not all six of them.
        let page = common::stdout(&common::run(&["report", data.to_str().unwrap(), "--all"]));
        let names_some =
            |text: &str, after: &str| (2..=6).any(|n| text.contains(&format!("yes ({n} processes){after}")));
        assert!(page.contains("Steal by who had the CPU") && names_some(&page, ""), "{page}");
        let advice = common::stdout(&common::run(&["advise", data.to_str().unwrap()]));
        assert!(names_some(&advice, " had the CPU"), "{advice}");
    }
}

#[test]
#[cfg(feature = "store")]
fn a_recording_goes_straight_into_a_store_with_what_was_in_force() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let (data, place) = (folder.path().join("perf.data"), folder.path().join("fleet"));
    let (guest, place) = (tiny_guest().to_str().unwrap(), place.to_str().unwrap());
    let data = or_skip!(exitscope_record(&data, &["--store", place], &[guest, "--repeat", "7"]));
    let exits = report(&[&data], &[])["total"]["count"].as_u64().unwrap();
    let list = common::stdout(&common::run(&["store", "list", place, "--format", "json"]));
    let run: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(run["exits"].as_u64(), Some(exits));
    assert!(exits >= 7 * (23 + 17 + 13 + 1), "{exits}");
    assert!(!run["host"].as_str().unwrap().is_empty() && !run["settings"].as_array().unwrap().is_empty(), "{run}");
}

#[test]
fn a_recording_says_what_was_in_force_and_what_it_cost() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let guest = tiny_guest().to_str().unwrap();
    for (flags, route) in [(&["--no-sched"][..], "bpf"), (&["--no-sched", "--no-bpf"], "perf_events")] {
        let data = folder.path().join("perf.data");
        let data = or_skip!(exitscope_record(&data, flags, &[guest, "--repeat", "50"]));
        let report = report(&[&data], &[]);
        common::check_json("report", [&report]);
        let trace = &report["traces"][0];
        let settings = trace["settings"].as_array().unwrap();
        let value = |of: &str, name: &str| {
            let found = settings.iter().find(|row| row["component"] == of && row["name"] == name);
            found.map(|row| row["value"].as_str().unwrap().to_string())
        };
        let file = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
        assert_eq!(value("kvm", "halt_poll_ns"), file("/sys/module/kvm/parameters/halt_poll_ns"));
        assert!(value("host", "back_end").is_some());
        assert_eq!(value("exitscope", "tracing_backend").as_deref(), Some(route), "{settings:?}");
        assert_eq!(value("exitscope", "events"), Some(report["coverage"]["events"].to_string()));
        // Only programs are measured, and only for who may measure.
        let costs = value("exitscope", "cost_ns").unwrap();
        assert!(costs.is_empty() || route == "bpf" && costs.parse::<u64>().unwrap() > 0, "{costs}");
        let page = common::run(&["report", data.to_str().unwrap(), "--all"]);
        assert!(common::stdout(&page).contains("Recorded on "), "{page:?}");
        let header = Command::new("perf").args(["report", "--header-only", "-i"]).arg(&data).output().unwrap();
        let header = String::from_utf8_lossy(&header.stdout).into_owned();
        let poll = value("kvm", "halt_poll_ns").unwrap();
        assert!(header.contains(&format!("halt_poll_ns={poll}, ")) && header.contains("# cpudesc : "), "{header}");
    }
}

#[test]
fn of_qemus_command_line_the_options_that_rules_ask_for_are_kept() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    // Some back ends offer ARCH_CAPABILITIES and refuse to have it set.
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args([
        "-accel",
        "kvm",
        "-machine",
        "pc,hpet=off,dump-guest-core=off",
        "-cpu",
        "host,-x2apic,-arch-capabilities",
    ]);
    // Paused, and stopped once it has begun, which is when it greets: it has no event, as it would by changing its memory.
    let uuid = "30ad89ac-5906-49ca-8d52-3c6343c598f6";
    qemu.args([
        "-name",
        "guest=of-mine",
        "-uuid",
        uuid,
        "-nodefaults",
        "-display",
        "none",
        "-m",
        "16",
        "-S",
        "-qmp",
        "stdio",
    ]);
    let mut qemu = match qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(qemu) => qemu,
        Err(error) => or_skip!(Err(skip(Part::Qemu, format!("qemu-system-x86_64 cannot be run: {error}")))),
    };
    let process = qemu.id();
    let mut greeting = String::new();
    BufReader::new(qemu.stdout.as_mut().unwrap()).read_line(&mut greeting).unwrap();
    assert!(Command::new("kill").args(["-STOP", &process.to_string()]).status().unwrap().success());
    let data = exitscope_record(&folder.path().join("perf.data"), &[], &[tiny_guest().to_str().unwrap()]);
    qemu.kill().unwrap();
    qemu.wait().unwrap();
    assert!(greeting.contains("QMP"), "QEMU has not begun: {greeting}");
    let data = or_skip!(data);
    let of_vms = |file: &Path| {
        let report = report(&[file], &[]);
        let settings = report["traces"][0]["settings"].as_array().unwrap().clone();
        let of_vm = settings.iter().filter(|row| row["component"].as_str().unwrap().starts_with("vm "));
        let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_string();
        let words = |row| [text(row, "component"), text(row, "name"), text(row, "value")].join("|");
        of_vm.map(words).filter(|row| row.starts_with(&format!("vm {process}|")) || file != data).collect::<Vec<_>>()
    };
    let expected = ["-cpu|host", "-cpu x2apic|off", "-machine hpet|off", "-nodefaults|on"];
    assert_eq!(of_vms(&data), expected.map(|row| format!("vm {process}|{row}")));
    let vms = |file: &Path| report(&[file], &[])["traces"][0]["vms"].as_array().cloned().unwrap_or_default();
    let vm = vms(&data).into_iter().find(|vm| vm["vm"] == process).unwrap();
    assert_eq!([&vm["name"], &vm["uuid"], &vm["manager"]], ["of-mine", uuid, "qemu"], "{vm}");
    // Of a VM without an event a bundle has nothing.
    let bundle = folder.path().join("bundle.data");
    let output = common::run(&["report", data.to_str().unwrap(), "--bundle", bundle.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((of_vms(&bundle), vms(&bundle)), (Vec::new(), Vec::new()));
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
        // Changes of its memory's mappings are not of what the guest repeats.
        let signs: u64 = report["signs"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
        Ok((coverage("events") - signs, coverage("lost")))
    };
    let (once, lost) = or_skip!(events("once.data", "1M", "1"));
    assert_eq!(lost, 0);
    let (many, lost) = events("many.data", "4K", "2000").unwrap();
    assert!(lost > 0, "4 KiB cannot hold what comes in 10 ms");
    // Of those changes, a few may be among what was lost.
    let beyond = (many + lost).checked_sub(2000 * once);
    assert!(beyond.is_some_and(|few| few < 100), "every event is there or counted: {many} + {lost}, 2000 times {once}");
}

/// Recorders that are killed, by so many threads.
const KILLS: u64 = 100;
const KILLERS: u64 = 10;

/// The latest moment of a kill, in milliseconds after the guest's beginning: twice as long as a block takes at most.
const LATEST: u64 = 2_000;

/// A random number (splitmix64), and the next state.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut number = *state;
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Records a guest, kills both so long after the guest's beginning, and says how many events the file has.
fn killed(data: &Path, flags: &[&str], millis: u64) -> Result<u64, Skipped> {
    let mut guest = held_guest(1_000_000);
    let pid = guest.id().to_string();
    let mut record = Command::new(env!("CARGO_BIN_EXE_exitscope"));
    record.args(["record", "--no-sched", "-p", &pid]).args(flags).arg("-o").arg(data).process_group(0);
    let mut record = recording(record).map_err(cannot_trace).inspect_err(|_| end(&mut guest))?;
    go(&mut guest);
    sleep(Duration::from_millis(millis));
    let group = format!("-{}", record.id());
    assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
    record.wait().unwrap();
    end(&mut guest);
    let report = report(&[data], &[]);
    let lines = report["coverage"]["lines"].as_array().unwrap();
    assert_eq!(lines.iter().filter(|line| line["id"] == "unfinished_file").count(), 1, "{lines:?}");
    assert_eq!(report["coverage"]["truncated"], true);
    // A block of which a part was written.
    let partial = ["truncated_bytes", "bad_record"];
    let is_error =
        |line: &&serde_json::Value| line["severity"] == "error" && !partial.contains(&line["id"].as_str().unwrap());
    assert!(!lines.iter().any(|line| is_error(&line)), "{lines:?}");
    // What is there is a beginning of what the guest does, not an exit is missing.
    if report["coverage"]["lost"] == 0 {
        let [out, r#in, mmio] = [("port", 0x10, "out"), ("port", 0x11, "in"), ("mmio", 0x8000, "write")]
            .map(|(kind, key, direction)| exits_at(&report, kind, key, direction));
        let runs = mmio / 13;
        let rest = [out - 23 * runs, r#in - 17 * runs, mmio - 13 * runs];
        // The last access may be told of before its exit.
        let is_beginning = match rest {
            [out, 0, 0] => out <= 24,
            [out, r#in, 0] => out >= 23 && r#in <= 18,
            [out, r#in, _] => out >= 23 && r#in >= 17,
        };
        assert!(is_beginning, "{rest:?} after {runs} runs");
    }
    Ok(report["coverage"]["events"].as_u64().unwrap())
}

#[test]
fn a_recording_that_is_killed_at_any_moment_is_whole_up_to_its_last_block() {
    let _machine = machine();
    or_skip!(kvm());
    let folder = tempfile::tempdir().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = std::env::var("EXITSCOPE_SEED").map_or(now.as_nanos() as u64, |seed| seed.parse().unwrap());
    println!("EXITSCOPE_SEED={seed}");
    let killer = |number: u64| {
        let mut state = seed.wrapping_add(number);
        let mut events = Vec::new();
        for turn in 0..KILLS / KILLERS {
            let data = folder.path().join(format!("{number}-{turn}.data"));
            let flags: &[&str] = [&[][..], &["--no-bpf"], &["--no-compress"]][(random(&mut state) % 3) as usize];
            events.push(killed(&data, flags, random(&mut state) % LATEST)?);
            std::fs::remove_file(&data).unwrap();
        }
        Ok(events)
    };
    let all = std::thread::scope(|scope| {
        let killers: Vec<_> = (0..KILLERS).map(|number| scope.spawn(move || killer(number))).collect();
        killers.into_iter().map(|killer| killer.join().unwrap()).collect::<Result<Vec<_>, _>>()
    });
    let all = or_skip!(all);
    let whole: u64 = all.iter().flatten().filter(|&&events| events > 0).count() as u64;
    assert!(
        whole >= KILLS / 10,
        "blocks were written before most kills, but only {whole} of {KILLS} files have events"
    );
}

#[test]
fn both_sides_are_prepared_and_recorded_in_turns() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    let diff = |a: &str, b: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exitscope"));
        command.current_dir(folder.path()).args(["diff", "--alternate", "2", "--format", "json", "--a", a, "--b", b]);
        command.args(["--", tiny_guest().to_str().unwrap(), "--repeat", "30"]).output().unwrap()
    };
    let output = diff("echo a >> turns", "echo b >> turns");
    if !folder.path().join("a.1.data").is_file() {
        or_skip!(Err(cannot_trace(common::stderr(&output))));
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("turns")).unwrap(), "a\nb\nb\na\n");
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (side, name) in [("before", "a"), ("after", "b")] {
        let traces = compared[side]["traces"].as_array().unwrap();
        let files: Vec<_> = traces.iter().map(|of| of["name"].as_str().unwrap().to_string()).collect();
        assert_eq!(files, [1, 2].map(|number| format!("{name}.{number}.data")), "{compared}");
        assert_eq!(compared[side]["lost"], 0);
    }
    // What cannot be prepared is not recorded.
    let failed = diff("exit 3", "true");
    assert_eq!(failed.status.code(), Some(2));
    assert!(common::stderr(&failed).contains("--a: `exit 3` ended with"), "{}", common::stderr(&failed));
}

#[test]
fn a_hangup_ends_a_recording_and_its_command_as_sigterm_does_unless_it_is_ignored() {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    for (signal, ignored) in [("-TERM", false), ("-HUP", false), ("-HUP", true)] {
        let data = folder.path().join("perf.data");
        let trap = if ignored { "trap '' HUP; " } else { "" };
        let begin = format!("{trap}exec \"$@\"");
        let mut command = common::ended_by_hangups("sh");
        command.args(["-c", &begin, "sh", env!("CARGO_BIN_EXE_exitscope"), "record", "-o"]).arg(&data);
        let mut record = or_skip!(recording(command).map_err(cannot_trace));
        assert!(Command::new(tiny_guest()).stdout(Stdio::null()).status().unwrap().success());
        let pid = record.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        if ignored {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
            assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "SIGHUP is number 1");
            assert!(Command::new(tiny_guest()).stdout(Stdio::null()).status().unwrap().success());
        }
        // The command that it runs ends with its input, or with the signal, which it was not sent itself.
        let input = record.stdin.take();
        if ignored {
            drop(input);
        } else {
            let began = Instant::now();
            while record.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < common::PATIENCE, "the command still runs after {signal}");
                sleep(Duration::from_millis(20));
            }
        }
        let output = record.wait_with_output().unwrap();
        let said = common::stderr(&output);
        assert!(said.contains("Look at it with"), "{said}");
        // A command that was ended on purpose did not fail.
        assert_eq!(
            (output.status.code(), said.contains("ended with")),
            (Some(if ignored { 2 } else { 0 }), ignored),
            "{said}"
        );
        let guests = if ignored { 2 } else { 1 };
        let report = report(&[&data], &[]);
        assert_eq!(
            (exits_at(&report, "port", 0x10, "out"), report["coverage"]["lost"].as_u64()),
            (23 * guests, Some(0))
        );
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
