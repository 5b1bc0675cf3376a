//! The lab and the doctor on this machine's real KVM.

mod common;

use common::{check_json, exitscope, kvm, report, run, stderr, stdout};
use exitscope_skips::{Part, Skipped, need, or_skip};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Guests of two tests at a time would be in each other's way.
static MACHINE: Mutex<()> = Mutex::new(());

/// The machine, for one test at a time.
fn machine() -> Result<MutexGuard<'static, ()>, Skipped> {
    let guard = MACHINE.lock().unwrap_or_else(|failed| failed.into_inner());
    kvm().map(|()| guard)
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The CPUs on which this process, and so the command, may run: as /proc has them.
fn allowed_cpus() -> Vec<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let of = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u64>().unwrap()..=last.parse().unwrap()
    };
    list.split(',').flat_map(of).collect()
}

/// Every experiment keeps its working threads on CPUs, reads its clock and makes figures of rounds as all others do. `threads`: how
/// many work at once where each has a CPU.
fn is_set_up_as_all_others(found: &serde_json::Value, threads: usize) {
    let (manifest, what) = (&found["manifest"], &found["experiment"]);
    let cpus = allowed_cpus();
    let wanted: Vec<_> =
        if threads <= cpus.len() { cpus[..threads].iter().map(|cpu| vec![*cpu]).collect() } else { vec![] };
    let kept_on: Vec<Vec<u64>> = serde_json::from_value(manifest["kept_on"].clone()).unwrap();
    assert_eq!(kept_on, wanted, "{what}");
    assert_eq!(manifest["pinned"].as_bool(), Some(!wanted.is_empty()), "{what}");
    assert_eq!(manifest["clock"], "time stamp counter", "{what}");
    assert_eq!(manifest["estimator"], exitscope_scenario::findings::ESTIMATOR, "{what}");
}

const QUICK: [&str; 4] = ["--repeat", "2", "--duration", "2ms"];

fn lab(arguments: &[&str]) -> Output {
    exitscope().arg("lab").args(arguments).args(QUICK).output().unwrap()
}

#[test]
fn every_exit_is_a_row_with_a_time_or_a_reason() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("lab.data");
    let found = json(&lab(&["exits", "--format", "json", "--trace", trace.to_str().unwrap()]));
    check_json("lab", [&found]);
    // Of VMs with more vCPUs than CPUs, none is kept anywhere.
    is_set_up_as_all_others(&found, [8, 4, 2, 1].into_iter().find(|vcpus| *vcpus <= allowed_cpus().len()).unwrap());
    let rows: Vec<_> = found["tables"].as_array().unwrap().iter().flat_map(|t| t["rows"].as_array().unwrap()).collect();
    for what in ["hypercall", "CPUID", "MSR read", "MSR write", "halt and wake", "IPI to itself", "timer", "page fault"]
    {
        assert!(rows.iter().any(|row| row["labels"][0] == what), "{what} is missing");
    }
    for handler in ["kernel", "ioeventfd", "coalesced", "user space", "device thread"] {
        for what in ["port read", "port write", "MMIO read", "MMIO write"] {
            let row = rows.iter().find(|row| row["labels"][0] == what && row["labels"][1] == handler);
            let row = row.unwrap_or_else(|| panic!("{what} by {handler} is missing"));
            let is_impossible = what.ends_with("read") && ["ioeventfd", "coalesced"].contains(&handler);
            assert_eq!(row["unavailable"].is_string(), is_impossible, "{row}");
        }
    }
    for row in rows {
        assert_ne!(row["unavailable"].is_string(), !row["figures"].as_array().unwrap().is_empty(), "{row}");
    }
    let report = report(&[&trace], &[]);
    assert_eq!(report["coverage"]["lost"], 0);
    assert!(report["coverage"]["exits"].as_u64() > Some(1_000));
    // What no tracepoint sees has a bound for each reason, or it is said why that cannot be told here.
    let hidden = found["tables"].as_array().unwrap().last().unwrap();
    assert_eq!(hidden["title"], "Time that no tracepoint sees, around an exit");
    let rows = hidden["rows"].as_array().unwrap();
    let bounds = |row: &&serde_json::Value| row["figures"].as_array().unwrap().iter().any(|of| of["name"] == "bound");
    match rows.iter().filter(bounds).count() {
        0 => {
            let [row] = rows.as_slice() else { panic!("one row says why: {rows:?}") };
            let why = row["unavailable"].as_str().unwrap();
            assert!(why.starts_with("no kvm_exit fires") || why.starts_with("exits cannot be traced"), "{why}");
        }
        count => assert!(count > 20, "{rows:?}"),
    }
}

#[test]
fn each_mechanism_has_a_page_its_data_and_its_exits() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("lab.data");
    for (experiment, tables, rows) in [("haltpoll", 2, 11), ("yield", 3, 13), ("gang", 1, 12)] {
        let found = json(&lab(&[experiment, "--format", "json", "--trace", trace.to_str().unwrap()]));
        check_json("lab", [&found]);
        assert_eq!(found["experiment"], experiment);
        is_set_up_as_all_others(&found, if experiment == "gang" { allowed_cpus().len().clamp(2, 4) } else { 2 });
        assert_eq!(found["tables"].as_array().unwrap().len(), tables, "{experiment}");
        for table in found["tables"].as_array().unwrap() {
            assert_eq!(table["rows"].as_array().unwrap().len(), rows, "{experiment}");
            for row in table["rows"].as_array().unwrap() {
                assert_ne!(row["unavailable"].is_string(), !row["figures"].as_array().unwrap().is_empty(), "{row}");
            }
        }
        assert!(!found["summary"].as_array().unwrap().is_empty(), "{experiment}");
        let report = report(&[&trace], &[]);
        assert_eq!(report["coverage"]["lost"], 0, "{experiment}");
        assert!(report["coverage"]["exits"].as_u64() > Some(10), "{experiment}");
        if experiment == "yield" {
            // Eight vCPUs on two threads: whoever yields has siblings that wait, and some of them get its thread.
            let all = &report["yield"]["all"];
            let count = |name: &str| all[name].as_u64().unwrap();
            let calls = report["yield"]["vcpus"].as_array().unwrap().iter().map(|row| row["call"].as_str().unwrap());
            assert_eq!(calls.collect::<std::collections::BTreeSet<_>>(), ["X'44'", "X'9C'"].into());
            assert!(count("sibling_preempted") > 0 && count("gave_sibling") > 0, "{all}");
            assert_eq!((count("gave_other"), count("gave_target")), (0, 0), "{all}");
        }
        let page = stdout(&lab(&[experiment]));
        assert!(page.contains(&format!("\nLab: {experiment}")), "{page}");
        assert!(stdout(&lab(&[experiment, "--format", "csv"])).lines().count() > tables * rows, "{experiment}");
        // A line for each of the two rounds of each row.
        let lines = stdout(&lab(&[experiment, "--format", "benchstat"]));
        let rounds = lines.lines().filter(|line| line.starts_with("Benchmark"));
        assert_eq!(rounds.clone().count(), tables * rows * 2, "{lines}");
        for line in rounds {
            // Name, iterations, and values with a unit each, no unit twice.
            let words: Vec<&str> = line.split(' ').collect();
            let units: std::collections::BTreeSet<&str> = words.iter().skip(3).step_by(2).copied().collect();
            assert!(words.len() >= 4 && units.len() * 2 + 2 == words.len(), "{line}");
            // What is behind a dash would be a number of CPUs.
            assert!(!words[0].contains('-') && words[1].parse::<u64>().is_ok(), "{line}");
            assert!(words[2..].iter().step_by(2).all(|value| value.parse::<f64>().is_ok()), "{line}");
        }
    }
}

#[test]
fn runs_are_saved_compared_and_fed_to_other_tools() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("before.json");
    std::fs::write(&saved, lab(&["pio", "--format", "json"]).stdout).unwrap();
    let compared = lab(&["pio", "--against", saved.to_str().unwrap()]);
    assert!(compared.status.success(), "{}", stderr(&compared));
    let text = stdout(&compared);
    assert!(text.contains("against an earlier run") && text.starts_with("Sizes only, no verdict"), "{text}");
    let second = folder.path().join("second.json");
    std::fs::write(&second, lab(&["pio", "--format", "json"]).stdout).unwrap();
    let compared = lab(&["pio", "--against", saved.to_str().unwrap(), "--against", second.to_str().unwrap()]);
    assert!(stdout(&compared).contains("against 2 earlier runs"), "{}", stderr(&compared));
    assert!(!stdout(&compared).contains("NaN") && !stdout(&compared).contains("inf%"), "{}", stdout(&compared));
    let lines = stdout(&lab(&["pio", "--format", "benchstat"]));
    let of_user_space =
        lines.lines().filter(|line| line.contains("/access=IN/") && line.contains("=user_space__in_place "));
    assert_eq!(of_user_space.count(), 2, "{lines}");
    // Seven ways, with four figures each at least.
    assert!(stdout(&lab(&["pio", "--format", "csv"])).lines().count() > 7 * 3);
    // A copy is no second run.
    std::fs::copy(&saved, &second).unwrap();
    let refused = lab(&["pio", "--against", saved.to_str().unwrap(), "--against", second.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("are the same run"), "{}", stderr(&refused));
    // Nothing is measured in vain.
    for (arguments, trouble) in [
        (["gang", "--against", saved.to_str().unwrap()], "is a run of lab pio, not of lab gang"),
        (["pio", "--trace", "/no/such/folder/trace"], "cannot write /no/such/folder/trace"),
    ] {
        let refused = exitscope().arg("lab").args(arguments).args(["--duration", "3600s"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(trouble), "{}", stderr(&refused));
    }
    let refused = lab(&["pio", "--against", saved.to_str().unwrap(), "--format", "csv"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("as text only"), "{}", stderr(&refused));
    std::fs::write(&saved, "{}").unwrap();
    let refused = lab(&["pio", "--against", saved.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("not a run of the lab"), "{}", stderr(&refused));
}

#[test]
fn operations_of_vmexit_have_the_rows_that_its_output_is_read_into() {
    let printed = common::root().join("crates/trace/tests/fixtures/counts/vmexit.txt");
    let import = |more: &[&str]| run(&[&["lab", "import", printed.to_str().unwrap()], more].concat());
    let imported = json(&import(&["--vcpus", "2", "--format", "json"]));
    check_json("lab", [&imported]);
    assert_eq!((&imported["experiment"], &imported["manifest"]["rounds"]), (&"vmexit".into(), &1.into()));
    let rows = |found: &serde_json::Value| found["tables"][0]["rows"].as_array().unwrap().clone();
    let cycles: Vec<(String, f64)> = rows(&imported)
        .iter()
        .map(|row| (row["labels"][0].as_str().unwrap().to_string(), row["figures"][0]["value"].as_f64().unwrap()))
        .collect();
    assert_eq!(cycles[..2], [("cpuid".to_string(), 331_239.0), ("vmcall".to_string(), 940_754.0)]);
    assert_eq!(cycles.len(), 6, "{cycles:?}");
    assert!(stdout(&import(&[])).contains("By kvm-unit-tests' vmexit, 1 run"));
    let none = run(&[
        "lab",
        "import",
        common::root().join("crates/trace/tests/fixtures/counts/kvmexit.txt").to_str().unwrap(),
    ]);
    assert!(
        !none.status.success() && stderr(&none).contains("has no line of kvm-unit-tests' vmexit"),
        "{}",
        stderr(&none)
    );

    let _machine = or_skip!(machine());
    let found = json(&lab(&["vmexit", "--format", "json"]));
    check_json("lab", [&found]);
    is_set_up_as_all_others(&found, allowed_cpus().len().clamp(1, 2));
    for row in rows(&found) {
        let figures = row["figures"].as_array().unwrap();
        assert_ne!(row["unavailable"].is_string(), !figures.is_empty(), "{row}");
        assert!(
            figures.is_empty()
                || figures[0]["name"] == "mean cycles" && figures[0]["rounds"].as_array().unwrap().len() == 2
        );
    }
    // What needs no ring 0 is measured everywhere.
    let own = |name: &str, vcpus: &str| {
        rows(&found).into_iter().find(|row| row["labels"] == serde_json::json!([name, vcpus]))
    };
    for name in ["cpuid", "vmcall", "inl_from_qemu", "inl_from_kernel", "outl_to_kernel", "ple_round_robin"] {
        assert!(own(name, "1").is_some_and(|row| row["unavailable"].is_null()), "{name}");
    }
    if allowed_cpus().len() == 2 {
        assert_eq!(found["tables"][0]["title"], imported["tables"][0]["title"]);
        for row in rows(&imported) {
            let labels: Vec<&str> = row["labels"].as_array().unwrap().iter().map(|of| of.as_str().unwrap()).collect();
            let measured = own(labels[0], labels[1]).unwrap_or_else(|| panic!("{labels:?} is no row of lab vmexit"));
            assert_eq!(measured["figures"][0]["name"], row["figures"][0]["name"]);
        }
    }
}

#[test]
fn the_doctor_finds_what_guests_can_do() {
    let _machine = or_skip!(machine());
    let found = json(&run(&["doctor", "--format", "json"]));
    check_json("doctor", [&found]);
    let state = |what: &str| {
        let checks = found["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["what"] == what).unwrap_or_else(|| panic!("{what} is missing"));
        check["state"].as_str().unwrap().to_string()
    };
    for what in ["/dev/kvm", "compute in ring 3", "ports, to user space", "ioeventfd on a port"] {
        assert_eq!(state(what), "good", "{what}");
    }
    // Who may not record is told how to be allowed.
    let check = |check: &&serde_json::Value| check["what"] == "exitscope record and exporter";
    let recording = found["checks"].as_array().unwrap().iter().find(check).unwrap();
    assert_eq!(recording["state"] == "good", recording["remedy"].is_null(), "{recording}");
    let text = stdout(&run(&["doctor"]));
    assert!(text.contains("What is missing, and how to get it"));
    assert!(text.lines().all(|line| line.is_empty() || !line.trim().is_empty()), "{text}");
}

#[test]
fn a_signal_ends_the_lab_with_nothing_left_behind() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.data");
    std::fs::write(&kept, "an earlier recording").unwrap();
    for (experiment, signal, name) in [
        ("exits", "-INT", "SIGINT"),
        ("exits", "-TERM", "SIGTERM"),
        ("haltpoll", "-INT", "SIGINT"),
        ("yield", "-TERM", "SIGTERM"),
        ("gang", "-INT", "SIGINT"),
    ] {
        let mut command = exitscope();
        command.args(["lab", experiment, "--duration", "10s", "--trace"]).arg(&kept);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let id = child.id().to_string();
        // Guests run as soon as there are vCPU threads.
        let until = Instant::now() + Duration::from_secs(30);
        while std::fs::read_dir(format!("/proc/{id}/task")).unwrap().count() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "an earlier recording");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{experiment}");
    }
}

#[test]
fn a_new_trace_keeps_the_old_one_and_what_is_no_file_is_written_as_it_is() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("lab.data");
    std::fs::write(&trace, "an earlier recording").unwrap();
    let scenario = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/random-io.toml");
    let traced = |to: &std::path::Path| {
        let mut command = exitscope();
        command.args(["lab", "run"]).arg(&scenario).args(["--duration", "60ms", "--trace"]).arg(to);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    traced(&trace);
    assert_eq!(std::fs::read_to_string(folder.path().join("lab.data.old")).unwrap(), "an earlier recording");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert!(report(&[&trace], &[])["coverage"]["exits"].as_u64() > Some(10));
    traced(std::path::Path::new("/dev/null"));
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_delay_after_each_exit_makes_a_round_trip_longer_by_its_two_exits() {
    let _machine = or_skip!(machine());
    let output = lab(&["delay", "--format", "json"]);
    let lacks_cpus = !output.status.success() && stderr(&output).contains("needs two CPUs");
    or_skip!(need(!lacks_cpus, Part::TwoCpus, stderr(&output)));
    let found = json(&output);
    check_json("lab", [&found]);
    is_set_up_as_all_others(&found, 2);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    assert!(["0", "100", "150", "200", "30000"].iter().all(|delay| rows.iter().any(|row| row["labels"][0] == *delay)));
    let told =
        found["summary"].as_array().unwrap().iter().any(|of| of.as_str().unwrap().contains("differed in a pilot"));
    assert!(told, "what can be told apart is said: {}", found["summary"]);
    let figures = |row: &serde_json::Value| row["figures"].as_array().unwrap().iter().any(|of| of["name"] == "lost");
    assert!(rows.iter().all(|row| figures(row) == (row["labels"][0] != "0")), "{rows:?}");
    // The shortest of all cannot be shorter than the delays in it.
    let longest = rows.iter().find(|row| row["labels"][0] == "30000").unwrap();
    assert!(longest["figures"][0]["p5"].as_f64().unwrap() >= 2.0 * 30_000.0, "{longest}");
}

/// Where tracefs has the instances of tracers, if this process may make one.
fn tracefs_instances() -> Result<std::path::PathBuf, Skipped> {
    let instances = std::path::Path::new("/sys/kernel/tracing/instances");
    let own = instances.join(format!("test-{}", std::process::id()));
    let made = std::fs::create_dir(&own).and_then(|()| std::fs::remove_dir(&own));
    need(made.is_ok(), Part::Tracing, "no instance of tracefs can be made").map(|()| instances.to_path_buf())
}

#[test]
fn what_tracers_add_is_measured_or_said_to_be_missing() {
    let _machine = or_skip!(machine());
    or_skip!(tracefs_instances());
    let found = json(&lab(&["tracer", "--format", "json"]));
    check_json("lab", [&found]);
    is_set_up_as_all_others(&found, 1);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        // What the kernel may refuse are the tracers of functions: then it is said what it refused.
        let by = row["labels"][2].as_str().unwrap();
        let why = row["unavailable"].as_str();
        assert!(by.starts_with("function") || why.is_none(), "{row}");
        assert!(why.is_none_or(|why| why.contains("no tracer function") || why.contains("cannot be")), "{row}");
        let named = |of: &str, name: fn(&serde_json::Value) -> &serde_json::Value| {
            row[of].as_array().into_iter().flatten().any(|one| name(one) == "times as long")
        };
        // Where it varies too much from round to round, it is said to be open.
        let compared = named("figures", |one| &one["name"]) != named("not_measurable", |one| one);
        assert_eq!(compared, why.is_none() && by != "none", "{row}");
    }
}

#[test]
fn a_tracer_ends_with_its_command_also_when_that_is_killed() {
    let _machine = or_skip!(machine());
    let instances = or_skip!(tracefs_instances());
    let host = || std::fs::read_to_string(instances.join("../current_tracer")).unwrap();
    let before = host();
    for signal in ["-KILL", "-INT"] {
        let mut command = exitscope();
        command.args(["lab", "tracer", "--duration", "5s"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let own = instances.join(format!("exitscope-tracer-{}", child.id()));
        until("tracing begins", || std::fs::read_to_string(own.join("events/kvm/enable")).is_ok_and(|on| on == "1\n"));
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        until("the instance is gone", || !own.exists());
        assert_eq!(host(), before);
    }
}

#[test]
fn every_way_of_a_port_access_is_measured() {
    let _machine = or_skip!(machine());
    let found = json(&lab(&["pio", "--format", "json"]));
    is_set_up_as_all_others(&found, 1);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    let ways: Vec<[&str; 2]> = rows.iter().map(|row| [0, 2].map(|at| row["labels"][at].as_str().unwrap())).collect();
    let expected = [
        ["INS", "device thread"],
        ["INS", "user space, in place"],
        ["IN", "device thread"],
        ["IN", "user space, in place"],
        ["IN", "kernel"],
        ["OUT", "ioeventfd"],
        ["OUT", "coalesced"],
    ];
    assert_eq!(ways, expected);
    // A back end that emulates ring 0 has no quick path, and no other emulates a plain IN.
    let emulates = found["manifest"]["emulates_ring_0"].as_bool().unwrap();
    assert_eq!(rows[3]["labels"][1] == "emulated", emulates);
    for row in rows {
        let names: Vec<&str> =
            row["figures"].as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect();
        let by_thread = row["labels"][2] == "device thread";
        assert_eq!(names.contains(&"exit to device thread"), by_thread, "{row}");
        assert!(names.contains(&"time"), "{row}");
    }
}

#[test]
fn every_bundled_scenario_runs_on_real_guests() {
    let _machine = or_skip!(machine());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut ran = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let output = run(&["lab", "run", path.to_str().unwrap(), "--duration", "60ms", "--format", "json"]);
        let found = json(&output);
        check_json("lab", [&found]);
        assert_eq!(found["tables"][0]["title"], "Work done, and how long each took", "{}", path.display());
        ran += 1;
    }
    assert!(ran >= 10);
}

#[test]
fn what_was_simulated_of_a_scenario_is_scored_by_real_guests() {
    let _machine = or_skip!(machine());
    let scenario = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/ping-pong.toml");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.jsonl");
    let (scenario, file) = (scenario.to_str().unwrap(), file.to_str().unwrap());
    let polls = ["--set", "guest_halt_poll_ns=0", "--set", "duration=60ms"];
    let simulated = run(&[&["sim", scenario, "--predictions", file], &polls[..]].concat());
    assert!(simulated.status.success(), "{}", stderr(&simulated));
    // Of another scenario nothing else is known of the same setting.
    let other = run(&[
        "sim",
        &scenario.replace("ping-pong", "wake-ups"),
        "--predictions",
        file,
        "--set",
        "guest_halt_poll_ns=0",
    ]);
    assert!(other.status.success(), "{}", stderr(&other));
    let run_against = |scenario: &str| run(&["lab", "run", scenario, "--against", file, "--repeat", "2"]);
    let scored = run_against(scenario);
    assert!(scored.status.success(), "{}", stderr(&scored));
    let text = stdout(&scored);
    assert!(text.starts_with("guest_halt_poll_ns=0 duration=60ms, 2 runs with it and as many without:\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("pair.throughput: ") && line.contains(", predicted ")), "{text}");
    let tally = json(&run(&["predictions", file, "--format", "json"]));
    let count = |name: &str| tally[name].as_u64().unwrap();
    assert!((count("scores"), count("untried"), count("predictions")) == (1, 1, 2), "{tally}");
    assert_eq!(tally["scored"][0]["by"], "lab run");
    // Real guests have this machine's costs: a run with others would be the same run.
    let costs = folder.path().join("costs.jsonl");
    let costs = costs.to_str().unwrap();
    for set in [
        &["--set", "cost.exit=100us"][..],
        &["--set", "host.cores=1"],
        &["--set", "guest_halt_poll_ns=0", "--set", "seed=9"],
    ] {
        let _ = std::fs::remove_file(costs);
        let simulated = run(&[&["sim", scenario, "--predictions", costs, "--set", "duration=60ms"], set].concat());
        assert!(simulated.status.success(), "{}", stderr(&simulated));
        let refused = run(&["lab", "run", scenario, "--against", costs, "--repeat", "2"]);
        assert!(
            refused.status.code() == Some(2) && stderr(&refused).contains("can be tried here"),
            "{}",
            stderr(&refused)
        );
        assert!(
            stdout(&refused).contains("not tried: real guests run on this machine as it is"),
            "{}",
            stdout(&refused)
        );
    }
    // Nor was another scenario predicted, whether of another name or of the same.
    let namesake = folder.path().join("ping-pong.toml");
    std::fs::write(&namesake, std::fs::read_to_string(scenario).unwrap() + "\n# more\n").unwrap();
    let other = run_against(namesake.to_str().unwrap());
    assert!(
        other.status.code() == Some(2) && stderr(&other).contains("when that file was another"),
        "{}",
        stderr(&other)
    );
    let set = run(&["lab", "run", scenario, "--against", file, "--set", "delay=1us"]);
    assert!(stderr(&set).contains("omit --set"), "{}", stderr(&set));
    let other = run_against(&scenario.replace("ping-pong", "spin"));
    assert!(
        other.status.code() == Some(2) && stderr(&other).contains("predicts nothing of this"),
        "{}",
        stderr(&other)
    );
}

#[test]
fn a_run_keeps_each_vcpu_on_a_cpu_of_its_own_or_on_the_scenarios() {
    let _machine = or_skip!(machine());
    let scenario = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/ping-pong.toml");
    let run_with = |more: &[&str]| {
        let found =
            json(&run(
                &[&["lab", "run", scenario.to_str().unwrap(), "--duration", "60ms", "--format", "json"], more].concat()
            ));
        let threads = found["tables"].as_array().unwrap().iter().find(|of| of["title"] == "Threads of vCPUs").unwrap();
        let rows = threads["rows"].as_array().unwrap();
        let kept: Vec<String> = rows.iter().map(|row| row["labels"][2].as_str().unwrap().to_string()).collect();
        assert!(rows.iter().all(|row| row["figures"][0]["name"] == "CPU time"), "{threads}");
        if more.is_empty() {
            is_set_up_as_all_others(&found, 2);
        }
        (kept, found["manifest"]["pinned"].as_bool().unwrap(), found["manifest"]["cpus"].as_u64().unwrap())
    };
    let (own, pinned, cpus) = run_with(&[]);
    or_skip!(need(cpus >= 2, Part::TwoCpus, format!("{cpus} CPUs")));
    assert!(
        pinned && own.len() == 2 && own[0] != own[1] && own.iter().all(|cpu| cpu.parse::<u32>().is_ok()),
        "{own:?}"
    );
    let (turned, pinned, _) = run_with(&["--set", "vm.pair.cpus=[1, 0]", "--set", "vm.pair.pinned=true"]);
    assert_eq!((turned, pinned), (vec![own[1].clone(), own[0].clone()], true));
    let (together, pinned, _) = run_with(&["--set", "vm.pair.cpus=[1]"]);
    assert_eq!((together, pinned), (vec![own[1].clone(); 2], false), "one CPU, but not each its own");
    let (any, pinned, _) = run_with(&["--no-pin", "--set", "vm.pair.pinned=true"]);
    assert_eq!((any, pinned), (vec!["any".to_string(); 2], false));
}

#[test]
fn an_emulating_back_end_gives_no_cost_model() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let costs = folder.path().join("costs.toml");
    let output = lab(&["exits", "--costs", costs.to_str().unwrap()]);
    if output.status.success() {
        assert!(std::fs::read_to_string(&costs).unwrap().contains("\n[costs]\n"));
    } else {
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("emulates ring 0"), "{}", stderr(&output));
        assert!(!costs.exists());
    }
}

/// Guests that run on, and what they said when they did.
fn running_guests(arguments: &[&str], root: &std::path::Path) -> (std::process::Child, String) {
    let mut command = exitscope();
    command.args(["lab", "guests"]).args(arguments).arg("--root").arg(root);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
    while !said.contains("runs them") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    (child, said)
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn guests_run_on_with_settings_in_files_until_a_signal_or_the_end_of_input() {
    let _machine = or_skip!(machine());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("host");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
    let count = || read("throughput").trim().parse::<u64>().unwrap_or(0);
    for (program, setting, vcpus) in [
        ("ping-pong", "sys/module/kvm/parameters/halt_poll_ns", 2),
        ("locks", "proc/sys/kernel/spin_retry", 2),
        ("io", "worker_delay_ns", 1),
    ] {
        let (mut child, said) = running_guests(&[program, "--until-eof"], &root);
        let path = root.join(setting);
        let in_force = read(setting);
        assert!(said.contains(&format!("{} is {in_force}", path.display())), "{said}");
        // A value is taken, and shown as the kernel shows it; one that is none is not.
        std::fs::write(&path, "77").unwrap();
        until("the value is taken", || read(setting) == "77\n");
        std::fs::write(&path, "many\n").unwrap();
        until("the value in force is back", || read(setting) == "77\n");
        let before = count();
        until("the count goes on", || count() > before);
        // As tools know a VM's vCPUs.
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
        let names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        let names: std::collections::BTreeSet<String> = names.filter(|name| name.ends_with("/KVM\n")).collect();
        let expected: std::collections::BTreeSet<String> = (0..vcpus).map(|cpu| format!("CPU {cpu}/KVM\n")).collect();
        assert_eq!(names, expected, "{program}");
        // One at a time counts there.
        let other = exitscope().args(["lab", "guests", "locks", "--root"]).arg(&root).output().unwrap();
        assert_eq!(other.status.code(), Some(2));
        assert!(stderr(&other).contains("other guests count there already"), "{}", stderr(&other));
        match program {
            "io" => assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success()),
            _ => drop(child.stdin.take()),
        }
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", stderr(&ended));
        assert!(!root.join("throughput").exists());
        // For who comes next, and for a watchdog that restores.
        assert_eq!(read(setting), "77\n");
    }
    let ran = run(&["lab", "guests", "io", "--for", "50ms", "--root", root.to_str().unwrap()]);
    assert!(stdout(&ran).contains("worker_delay_ns is 77\n"), "{}", stdout(&ran));
}

#[test]
fn settings_of_the_host_are_no_guests_to_play_with() {
    let refused = run(&["lab", "guests", "ping-pong", "--root", "/"]);
    let without_kvm = stderr(&refused).contains("no guest can be run");
    assert!(without_kvm || stderr(&refused).contains("is the root of a host"), "{}", stderr(&refused));
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn what_cheaper_exits_would_win_is_told_by_delaying_all_other_vcpus() {
    let _machine = or_skip!(machine());
    or_skip!(need(allowed_cpus().len() >= 2, Part::TwoCpus, "a vCPU that is delayed needs a CPU of its own"));
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("in-turn.toml");
    let text = r#"
name = "in-turn"
[host]
arch = "svm"
cores = 2
[[channel]]
name = "there"
doorbell = "memory"
[[channel]]
name = "back"
doorbell = "memory"
[[vm]]
name = "pair"
vcpus = 2
[[vm.program]]
vcpus = [0]
steps = [{ forever = [{ port_in = 0x70 }, { send = "there" }, { receive = "back" }, "count"] }]
[[vm.program]]
vcpus = [1]
steps = [{ forever = [{ receive = "there" }, { mmio_write = 0xfed00000 }, { send = "back" }] }]
"#;
    std::fs::write(&scenario, text).unwrap();
    let run = |more: &[&str]| {
        exitscope().args(["lab", "run"]).arg(&scenario).args(["--delay", "others", "--repeat", "2"]).args(more).output()
    };
    let saved = run(&["--duration", "200ms", "--by", "2us", "--format", "json"]).unwrap();
    let found = json(&saved);
    check_json("lab", [&found]);
    is_set_up_as_all_others(&found, 2);
    assert_eq!(found["experiment"], "run --delay others");
    let [table] = &found["tables"].as_array().unwrap()[..] else { panic!("{found}") };
    let rows = table["rows"].as_array().unwrap();
    let labels: Vec<_> = rows.iter().map(|row| row["labels"][0].as_str().unwrap()).collect();
    // Who was not halted needs no wake-up: of these there may be none.
    assert_eq!(&labels[..3], ["as it is", "port read", "MMIO write"], "{labels:?}");
    assert!(labels[3..].iter().all(|label| ["halt", "wake-up"].contains(label)), "{labels:?}");
    assert!(rows.iter().all(|row| row["labels"][1] == "pair"), "{rows:?}");
    let said = found["summary"].to_string() + &found["verdict"].to_string();
    assert!(said.contains("What pair would do if each port read were 2.00us cheaper: "), "{said}");
    // Like any other run, it is shown again, and benchstat reads it.
    let path = folder.path().join("run.json");
    std::fs::write(&path, saved.stdout).unwrap();
    let lines = stdout(&exitscope().args(["lab", "show"]).arg(&path).args(["--format", "benchstat"]).output().unwrap());
    // What is not measurable, as the machine is too busy, has no lines.
    let measured = rows.iter().any(|row| row["unavailable"].is_null());
    assert_eq!(lines.contains("BenchmarkRun___delay_others/"), measured, "{lines}");
    assert!(lines.lines().all(|line| !line.starts_with("Benchmark") || !line.split(' ').next().unwrap().contains('-')));
    // Flags that go with it alone, and what does not go with it.
    for (more, why) in [
        (&["--trace", "out"][..], "cannot be used with"),
        (&["--retries", "3"], "cannot be used with"),
        (&["--by", "0us"], "a length of zero"),
        (&["--by", "1h", "--duration", "200ms"], "less than no time: give a shorter --by"),
        (&["--set", "vm.pair.copies=40"], "80 vCPUs share"),
        (&["--set", "vm.pair.cpuidle_haltpoll=true"], "poll before they halt"),
    ] {
        let output = run(more).unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(why), "{more:?}: {}", stderr(&output));
    }
    let alone = exitscope().args(["lab", "run"]).arg(&scenario).args(["--by", "2us"]).output().unwrap();
    assert!(stderr(&alone).contains("--delay <WHICH>"), "{}", stderr(&alone));
}

/// The predictions that were committed, as of this host; of two cells, one of which changes nothing.
fn predictions(host: &str) -> serde_json::Value {
    let text = include_str!("../../validation/lab/predictions.json");
    let mut file: serde_json::Value = serde_json::from_str(text).unwrap();
    file["host"] = host.into();
    let cells = file["cells"].as_array_mut().unwrap();
    let null = cells.pop().unwrap();
    cells.truncate(1);
    cells.push(null);
    file
}

#[test]
fn cells_that_were_predicted_are_run_beside_their_predictions() {
    let _machine = or_skip!(machine());
    or_skip!(need(allowed_cpus().len() >= 2, Part::TwoCpus, "two vCPUs on a CPU each"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cells.json");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let predicted = predictions(host.trim());
    std::fs::write(&file, predicted.to_string()).unwrap();
    let quick = ["--repeat", "3", "--duration", "300ms", "--format", "json"];
    let output = exitscope().arg("validate").arg("--lab").arg(&file).args(quick).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json("lab", [&found]);
    // Such short rounds may hold, contradict, or tell nothing: which is no success.
    let said = found["summary"].to_string();
    let tells_nothing =
        ["do not judge the simulator", "cells nothing was measured"].iter().any(|why| said.contains(why));
    let code = output.status.code().unwrap();
    assert!(
        code <= 2 && (code != 0 || !tells_nothing) && (code != 2 || tells_nothing),
        "{code}: {said}{}",
        stderr(&output)
    );
    let rows = found["tables"][1]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, cell) in rows.iter().zip(predicted["cells"].as_array().unwrap()) {
        assert_eq!(row["figures"][0]["value"], cell["times"], "{row}");
    }
    assert_eq!(rows[1]["labels"][0], "nothing");
    // The file is as it was.
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(kept, predicted);
}

#[test]
fn predictions_of_another_host_or_of_nothing_are_refused_before_anything_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cells.json");
    for (text, why) in [
        (predictions("elsewhere").to_string(), "is of elsewhere, and its costs are that machine's"),
        ("{}".to_string(), "has no predictions of `validate --lab`"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = run(&["validate", "--lab", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let output = run(&["validate", "--lab", file.to_str().unwrap(), "--format", "markdown"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("no Markdown"), "{}", stderr(&output));
}
