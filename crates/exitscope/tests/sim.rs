//! `exitscope sim` and `exitscope sweep` as a user runs them, on the scenarios of this repository.

mod common;

use common::{check_json, exitscope, report, run, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

fn scenario(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(format!("{name}.toml"));
    path.to_str().unwrap().to_string()
}

fn page(command: &str, name: &str, arguments: &[&str]) -> String {
    let output = run(&[&[command, &scenario(name)], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn json(command: &str, name: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&page(command, name, &[arguments, &["--format", "json"]].concat())).unwrap()
}

fn refused(command: &str, name: &str, arguments: &[&str]) -> String {
    let output = run(&[&[command, &scenario(name)], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output)
}

fn all() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    names
}

#[test]
fn every_scenario_runs_and_its_json_fits_the_schema() {
    for name in all() {
        let run = json("sim", &name, &["--set", "duration=100ms"]);
        check_json("sim", [&run]);
        assert_eq!(run["schema"], "exitscope.sim/1");
        for vm in run["vms"].as_array().unwrap() {
            let part = |name: &str| vm[name].as_u64().unwrap();
            let parts = [
                "guest",
                "spinning",
                "guest_polling",
                "polling",
                "kernel",
                "user_space",
                "halted",
                "steal",
                "user_space_asleep",
            ];
            let sum: u64 = parts.iter().map(|name| part(&format!("{name}_ns"))).sum();
            assert!(sum.abs_diff(part("span_ns")) <= 8, "{name}: the parts of the vCPUs' time make up their time");
        }
    }
}

#[test]
fn a_page_says_what_ran_and_leaves_out_what_does_not_apply() {
    let page_of = page("sim", "ping-pong", &["--set", "halt_poll_ns=50us"]);
    for words in [
        "Simulated: ping-pong",
        "Host: 2 CPUs (vmx); 1 VM with 2 vCPUs",
        "all assumed",
        "Set: halt_poll_ns=50us",
        "seed 1;",
        "Work done",
        "Where the wall time of the vCPUs went",
        "of guests before a halt",
    ] {
        assert!(page_of.contains(words), "{words}:\n{page_of}");
    }
    for words in ["Spinlocks", "Yields", "Gang", "asleep", "user"] {
        assert!(!page_of.contains(words), "{words}:\n{page_of}");
    }
    let page_of = page("sim", "web", &["--set", "duration=100ms"]);
    assert!(page_of.contains("Spinlocks") && page_of.contains("Yields"), "{page_of}");
}

#[test]
fn every_page_fits_the_terminal() {
    for (command, name, arguments) in [
        ("sim", "web", vec!["--set", "duration=100ms"]),
        ("sim", "first", vec![]),
        ("sweep", "ping-pong", vec!["--vary", "guest_halt_poll_ns=0us..50us:3"]),
    ] {
        let output =
            exitscope().env("COLUMNS", "80").args([command, &scenario(name)]).args(arguments).output().unwrap();
        for line in stdout(&output).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn csv_has_the_figures_of_json() {
    let of_json = json("sim", "redis", &[]);
    let csv = page("sim", "redis", &["--format", "csv"]);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("metric,value,unit"));
    let metrics = of_json["metrics"].as_array().unwrap();
    for (line, metric) in lines.zip(metrics) {
        let (name, rest) = line.split_once(',').unwrap();
        let (value, unit) = rest.split_once(',').unwrap();
        assert_eq!((name, unit), (metric["name"].as_str().unwrap(), metric["unit"].as_str().unwrap()));
        // The last bit may be lost where JSON's reader takes the digits.
        let (csv, json) = (value.parse::<f64>().unwrap(), metric["value"].as_f64().unwrap());
        assert!((csv - json).abs() <= csv.abs() * 1e-15, "{name}: {csv} {json}");
    }
    assert_eq!(csv.lines().count(), metrics.len() + 1);
}

#[test]
fn a_scenario_may_come_through_a_pipe() {
    let mut child = exitscope()
        .args(["sim", "-", "--set", "duration=50ms"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(scenario("spin")).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), page("sim", "spin", &["--set", "duration=50ms"]));
}

#[test]
fn errors_say_where_and_what_was_probably_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    std::fs::write(&path, "name = \"bad\"\n\n[[vm]]\nname = \"a\"\nvcpus = 0\n").unwrap();
    let output = run(&["sim", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.toml:5:9: vm[0].vcpus: 0 is not a number of vCPUs"), "{}", stderr(&output));
    for (command, arguments, says) in [
        ("sim", &["--set", "halt_pol_ns=1"][..], "no key or knob \"halt_pol_ns\"; did you mean \"halt_poll_ns\"?"),
        ("sim", &["--set", "vm.pair.halt_pol_ns=1"], "did you mean \"halt_poll_ns\"?"),
        ("sim", &["--set", "vm.pear.vcpus=1"], "there is no vm \"pear\": there is pair"),
        ("sim", &["--set", "seed"], "a key, =, and a value"),
        ("sim", &["--seed", "-1"], "a seed is a whole number"),
        ("sim", &["--set", "steal=false"], "did you mean \"host.scheduler.steal\"?"),
        ("sim", &["--set", "vm.pair=3"], "set one of them, vm.pair.key=value"),
        ("sim", &["--set", "duration=1ps"], "too short to measure anything"),
        ("sim", &["--set", "costs.model=power9"], "there is no cost model \"power9\""),
        ("sweep", &["--vary", "vm.pair.vcpus=1..3:9"], "there are only 3 values here, not 9"),
        ("sweep", &["--vary", "halt_poll_ns=0", "--best", "pair.halted"], "say +pair.halted or -pair.halted"),
        ("sweep", &["--vary", "halt_poll_ns=0", "--metric", "nothing"], "`--metric help` lists them"),
        ("sim", &["--limit-events", "1000"], "stopped after 1000 events"),
        ("sim", &["--wall-limit", "1ns"], "the time for it is over"),
        ("sweep", &["--vary", "halt_poll_ns=0", "--metric", "latency_p98"], "did you mean pair.latency_p90"),
        ("sweep", &["--vary", "halt_poll_ns=0", "--best", "-throghput"], "did you mean throughput?"),
        (
            "sweep",
            &["--vary", "halt_pol_ns=0,1"],
            "no configuration makes sense; the first: --set halt_pol_ns=0: there",
        ),
        ("sweep", &["--vary", "seed=0..1000:500", "--replicates", "500"], "250000 runs are too many: at most 100000"),
        ("sweep", &["--vary", "seed=1,2", "--vary", "seed=3"], "--vary names seed twice"),
        ("sweep", &["--vary", "seed=1,2", "--limit-events", "9"], "every configuration failed; the first: stopped"),
        ("sweep", &[], "--vary"),
    ] {
        let error = refused(command, "ping-pong", arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn a_knob_that_changes_nothing_is_said_and_one_that_does_is_not() {
    let warning = |name: &str, set: &str| {
        let output = run(&["sim", &scenario(name), "--set", "duration=10ms", "--set", set]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(warning("spin", "spin_retry=5").contains("warning: spin_retry changes nothing in this scenario"));
    assert!(warning("port-loop", "ple_gap=0").contains("only hosts of arch = \"vmx\""));
    assert_eq!(warning("web", "spin_retry=5"), "");
    assert_eq!(warning("ping-pong", "guest_halt_poll_ns=5us"), "");
    assert_eq!(warning("ping-pong", "vm.pair.cpuidle_haltpoll=Y"), "", "as the kernel spells it");
}

#[test]
fn figures_are_listed_and_have_a_direction_of_their_own() {
    let listed = page("sweep", "ping-pong", &["--vary", "seed=1,2", "--best", "help"]);
    assert!(listed.lines().any(|line| line.starts_with("pair.latency_p99 ")), "{listed}");
    let vary = ["--vary", "guest_halt_poll_ns=0,50us", "--set", "duration=50ms", "--replicates", "2"];
    let sweep = json("sweep", "ping-pong", &[&vary[..], &["--best", "pair.latency_mean"]].concat());
    assert_eq!(best(&sweep, "guest_halt_poll_ns"), [(0, false), (50_000, true)], "less latency is better");
    let page = page("sweep", "port-loop", &["--vary", "seed=1,2", "--set", "duration=50ms"]);
    assert!(page.contains("nothing in them is random"), "{page}");
}

#[test]
fn a_port_bound_disk_gains_from_the_quick_path_the_more_the_faster_it_is() {
    let gain = |service: &str| {
        let set = format!("vm.guest.disk.0.service={service}");
        let throughput = |quick: &str| {
            let run = json("sim", "random-io", &["--set", &set, "--set", &format!("quick_path={quick}")]);
            let metrics = run["metrics"].as_array().unwrap().clone();
            metrics.iter().find(|metric| metric["name"] == "throughput").unwrap()["value"].as_f64().unwrap()
        };
        throughput("Y") / throughput("N")
    };
    let (cached, spinning) = (gain("50us"), gain("5ms"));
    assert!(cached > 1.05 && spinning >= 1.0 && cached > spinning, "{cached} {spinning}");
}

#[test]
fn the_same_seed_gives_the_same_output_whatever_the_number_of_threads() {
    let with = |threads: &str, seed: &str| {
        let arguments =
            ["--vary", "spin_retry=0,1000", "--set", "duration=100ms", "--seed", seed, "--threads", threads];
        page("sweep", "web", &[&arguments[..], &["--format", "csv"]].concat())
    };
    assert_eq!(with("1", "7"), with("2", "7"));
    assert_ne!(with("1", "7"), with("1", "8"));
    assert_eq!(page("sim", "web", &["--seed", "7"]), page("sim", "web", &["--seed", "7"]));
}

/// The values of a column, and of `best`.
fn best(sweep: &Value, column: &str) -> Vec<(u64, bool)> {
    let rows = sweep["rows"].as_array().unwrap().iter();
    rows.map(|row| (row[column].as_u64().unwrap(), row["best"].as_bool().unwrap())).collect()
}

#[test]
fn polling_pays_once_it_is_longer_than_the_other_sides_answer_takes() {
    let vary = ["--vary", "guest_halt_poll_ns=0,10us,30us,50us,200us", "--set", "duration=200ms"];
    let sweep = json("sweep", "ping-pong", &vary);
    check_json("sweep", [&sweep]);
    assert_eq!(
        best(&sweep, "guest_halt_poll_ns"),
        [(0, false), (10_000, false), (30_000, true), (50_000, true), (200_000, true)]
    );
    let exits = |row: usize| sweep["rows"][row]["pair.exits_mean"].as_f64().unwrap();
    assert!(exits(0) > 100.0 * exits(4), "a poll that pays saves the exit: {} {}", exits(0), exits(4));
    let names: Vec<&str> =
        sweep["metrics"].as_array().unwrap().iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"pair.guest_polling") && !names.contains(&"pair.spinning"), "only what varies: {names:?}");
}

#[test]
fn a_sweep_of_the_hosts_polling_shows_the_cpu_time_that_the_longest_poll_takes() {
    fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let host_polls = ["--set", "vm.pair.cpuidle_haltpoll=N", "--set", "duration=100ms", "--replicates", "2"];
        [&["--vary", "halt_poll_ns=0,50us,200us"], &host_polls[..], more].concat()
    }
    let by_work = json("sweep", "ping-pong", &sweep(&[]));
    assert_eq!(best(&by_work, "halt_poll_ns"), [(0, false), (50_000, true), (200_000, true)]);
    let figure = |row: usize, name: &str| by_work["rows"][row][name].as_f64().unwrap();
    assert!(figure(0, "cpus.busy_mean") < 1.0 && figure(2, "cpus.busy_mean") > 1.98, "{by_work:#}");
    assert!(figure(0, "pair.polling_mean") == 0.0 && figure(2, "pair.polling_mean") > 0.7, "{by_work:#}");
    assert_eq!(by_work["rows"][0]["pareto"], true, "what takes less CPU time is not beaten");
    let page_of = page("sweep", "ping-pong", &sweep(&[]));
    assert!(
        page_of.contains("CPU time: rows with * keep at least 2.00 CPUs busy, halt_poll_ns=0 keeps 0.4"),
        "{page_of}"
    );
    let by_cpu = json("sweep", "ping-pong", &sweep(&["--best", "throughput_per_cpu"]));
    assert_eq!(best(&by_cpu, "halt_poll_ns"), [(0, true), (50_000, false), (200_000, false)]);
    let guest = page("sweep", "spin", &["--vary", "seed=1,2", "--set", "duration=50ms"]);
    assert!(!guest.contains("CPU time:"), "all take the same: {guest}");
}

#[test]
fn spinning_for_a_contended_lock_pays_for_a_while_and_not_for_long() {
    let sweep = json("sweep", "web", &["--vary", "spin_retry=0,1000,100000", "--metric", "throughput,yields"]);
    let figure = |row: usize, column: &str| sweep["rows"][row][column].as_f64().unwrap();
    let best = best(&sweep, "spin_retry");
    assert_eq!((best[1], best[2]), ((1_000, true), (100_000, false)), "{sweep:#}");
    assert!(figure(0, "yields_low") > 2.0 * figure(1, "yields_high"), "{sweep:#}");
    for row in 0..3 {
        assert!(figure(row, "throughput_low") < figure(row, "throughput_mean"));
        assert!(figure(row, "throughput_mean") < figure(row, "throughput_high"));
    }
}

#[test]
fn the_best_may_be_the_lowest_of_another_figure() {
    let vary = ["--vary", "guest_halt_poll_ns=0,50us", "--set", "duration=100ms", "--replicates", "2"];
    let sweep = json("sweep", "ping-pong", &[&vary[..], &["--best", "-pair.guest_polling"]].concat());
    assert_eq!(sweep["metrics"][0]["name"], "pair.guest_polling");
    assert_eq!(best(&sweep, "guest_halt_poll_ns"), [(0, true), (50_000, false)]);
    assert_eq!(sweep["rows"][0]["pareto"], true, "{sweep:#}");
}

#[test]
fn one_run_has_no_interval_and_one_configuration_that_fails_is_a_row() {
    let csv = page("sweep", "spin", &["--vary", "seed=1..2:2", "--replicates", "1", "--format", "csv"]);
    let line = csv.lines().nth(1).unwrap();
    assert!(
        csv.starts_with("seed,gold.throughput_mean,gold.throughput_low,gold.throughput_high,") && line.contains(",,"),
        "{csv}"
    );
    let output = run(&["sweep", &scenario("web"), "--vary", "spin_retry=0,soon", "--set", "duration=50ms"]);
    assert_eq!(output.status.code(), Some(2));
    let page = stdout(&output);
    assert!(page.contains("warning: spin_retry=soon: ") && page.contains("spin_retry is a whole number"), "{page}");
    let row = page.lines().find(|line| line.trim_start().starts_with('!')).unwrap();
    assert!(row.contains("soon") && row.contains("failed"), "{row}");
}

#[test]
fn the_trace_of_a_run_has_its_exits_and_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, of: &str, arguments: &[&str]| {
        let path = folder.path().join(name);
        let run = json("sim", of, &[arguments, &["--trace", path.to_str().unwrap()]].concat());
        (path, run)
    };
    let small = ["--set", "duration=200ms"];
    for (of, names) in [
        ("ping-pong", &[("halt", "HLT"), ("timer tick", "EXTERNAL_INTERRUPT")][..]),
        ("first", &[("doorbell", "npf"), ("port access", "io"), ("PAUSE loop", "pause")]),
        ("web", &[("halt", "Wait state")]),
        ("ebizzy", &[]),
    ] {
        let set =
            if of == "ping-pong" { [&small[..], &["--set", "guest_halt_poll_ns=0"]].concat() } else { small.to_vec() };
        let (path, run) = trace(of, of, &set);
        let report = report(&[&path], &[]);
        let vms = run["vms"].as_array().unwrap();
        let exits: u64 = vms.iter().map(|vm| vm["exits"].as_u64().unwrap()).sum();
        let reported = report["total"]["count"].as_u64().unwrap();
        // Where threads are ganged, all of a core leave with the one that has a reason.
        assert!(if of == "ebizzy" { reported > exits } else { reported == exits }, "{of}: {reported} {exits}");
        assert_eq!(report["coverage"]["lost"], 0);
        for (reason, name) in names {
            let reasons = vms.iter().flat_map(|vm| vm["reasons"].as_array().unwrap());
            let simulated = reasons.filter(|row| row["reason"] == *reason).map(|row| row["count"].as_u64().unwrap());
            let rows = report["rows"].as_array().unwrap();
            let reported = rows.iter().find(|row| row["reason"] == *name).map(|row| row["count"].as_u64().unwrap());
            assert_eq!(reported, Some(simulated.sum()), "{of}: {reason}");
        }
        let vm = report["vcpus"][0]["vm_name"].as_str().unwrap();
        assert!(vm.starts_with(vms[0]["name"].as_str().unwrap()), "{vm}");
    }
    let (polls, _) = trace("polls", "ping-pong", &small);
    let halts = folder.path().join("ping-pong");
    let output = run(&["diff", polls.to_str().unwrap(), halts.to_str().unwrap()]);
    let page = stdout(&output);
    let mut of_halts = page.lines().skip_while(|line| !line.trim_start().starts_with("HLT"));
    let (cost, rate) = (of_halts.next().unwrap(), of_halts.next().unwrap());
    assert!(cost.contains(" cost ") && rate.contains(" rate "), "{cost} {rate}");
    assert!(
        [cost, rate].iter().all(|row| row.split_whitespace().rev().nth(2).is_some_and(|low| low.starts_with('+'))),
        "without polling there are halts, and each costs: {page}"
    );
}

#[test]
fn a_trace_replaces_the_old_one_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.data");
    let to = trace.to_str().unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    std::fs::write(&trace, "an earlier recording").unwrap();
    let is_as_it_was = || std::fs::read_to_string(&trace).unwrap() == "an earlier recording" && files() == 1;

    let said = refused("sim", "ping-pong", &["--trace", to, "--limit-events", "1000"]);
    assert!(said.contains("stopped after 1000 events") && !said.contains("cannot write"), "{said}");
    assert!(is_as_it_was());
    let said = refused("sim", "ping-pong", &["--trace", "/no/such/folder/run.data"]);
    assert!(said.contains("cannot write /no/such/folder/run.data"), "{said}");
    let mut child = exitscope()
        .args(["sim", &scenario("ping-pong"), "--set", "duration=3600s", "--trace", to])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while files() < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "it runs until it is stopped");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("stopped after"), "{}", stderr(&output));
    assert!(is_as_it_was());

    page("sim", "ping-pong", &["--set", "duration=50ms", "--trace", to]);
    assert_eq!(std::fs::read_to_string(folder.path().join("run.data.old")).unwrap(), "an earlier recording");
    assert_eq!(files(), 2);
    assert!(report(&[&trace], &[])["coverage"]["exits"].as_u64() > Some(10));
}

#[test]
fn what_settings_make_of_a_scenario_is_predicted_before_anybody_tries_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.jsonl");
    let file = file.to_str().unwrap();
    let before = ["--set", "duration=100ms", "--predictions", file];
    assert!(refused("sim", "ping-pong", &before[2..]).contains("--set"));
    page("sim", "ping-pong", &[&["--set", "guest_halt_poll_ns=0"], &before[..]].concat());
    let text = std::fs::read_to_string(file).unwrap();
    let work: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let named = ["metric", "setting", "source"].map(|name| work[name].as_str().unwrap());
    assert_eq!(named, ["pair.throughput", "guest_halt_poll_ns=0 duration=100ms", "ping-pong.toml"]);
    // Its guest polls: without that each ball takes longer.
    let [before, high] = ["in_force", "high"].map(|name| work[name].as_f64().unwrap());
    assert!(high < before, "{work}");
    // A value with blanks is one value, and nothing is added to what is read, or to what is no file of predictions.
    let other = folder.path().join("other.jsonl");
    let spread = ["--set", "costs.exit_spread={ p5 = 800, p95 = 2500 }", "--set", "delay=1us", "--predictions"];
    page("sim", "ping-pong", &[&spread[..], &[other.to_str().unwrap()]].concat());
    let filed = std::fs::read_to_string(&other).unwrap();
    assert!(filed.contains(r#""setting":"costs.exit_spread={ p5 = 800, p95 = 2500 } delay=1us""#), "{filed}");
    let own = folder.path().join("own.toml");
    let notes = folder.path().join("notes.txt");
    std::fs::copy(scenario("ping-pong"), &own).unwrap();
    std::fs::write(&notes, "notes\n").unwrap();
    for (to, says) in [(&own, "is the file that is read"), (&notes, "has no prediction")] {
        let before = std::fs::read(to).unwrap();
        let output = run(&["sim", own.to_str().unwrap(), "--set", "delay=1us", "--predictions", to.to_str().unwrap()]);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(says), "{}", stderr(&output));
        assert_eq!(std::fs::read(to).unwrap(), before);
    }
    let limited = ["--set", "delay=1us", "--limit-events", "20000", "--set", "duration=20ms", "--predictions", file];
    assert!(refused("sim", "port-loop", &limited).contains("limit"));
    // What a kill has cut is said, and counts for nothing.
    std::fs::write(file, format!("{text}{}", &text[..40])).unwrap();
    let output = run(&["predictions", file, "--format", "json"]);
    assert!(stderr(&output).contains("1 line is no prediction of this version"), "{}", stderr(&output));
    let tally: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json("predictions", [&tally]);
    let lines = text.lines().count();
    assert_eq!((&tally["predictions"], &tally["untried"], &tally["scores"]), (&lines.into(), &lines.into(), &0.into()));
}

#[test]
fn a_scenario_that_is_not_the_recording_predicts_no_change_and_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, set: &[&str]| {
        let path = folder.path().join(name);
        page("sim", "ping-pong", &[&["--trace", path.to_str().unwrap(), "--set", "duration=300ms"], set].concat());
        path.to_str().unwrap().to_string()
    };
    let check = |recording: &str, format: &str| {
        let set = ["--set", "vm.pair.cpuidle_haltpoll=false", "--check", recording, "--format", format];
        run(&[&["sim", &scenario("ping-pong")], &set[..]].concat())
    };
    let halts = |run: &Value| {
        let reasons = run["vms"][0]["reasons"].as_array().unwrap().iter();
        reasons.filter(|row| row["reason"] == "halt").map(|row| row["rate_per_s"].as_f64().unwrap()).sum::<f64>()
    };
    let as_it_is = halts(&json("sim", "ping-pong", &[]));

    // Its own recording, of another length: the change is predicted.
    let same = of("same.data", &[]);
    let output = check(&same, "json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let agrees: Value = serde_json::from_str(&stdout(&output)).unwrap();
    check_json("sim", [&agrees]);
    assert_eq!(agrees["check"]["agrees"], true, "{agrees:#}");
    assert!(agrees["check"]["figures"].as_array().unwrap().iter().all(|figure| figure["agrees"] == true), "{agrees:#}");
    assert!(halts(&agrees) > 100.0 * as_it_is.max(1.0), "without guest polling: {} {as_it_is}", halts(&agrees));

    // The same of a scenario that can be read only once.
    let mut piped = exitscope();
    piped.args(["sim", "-", "--check", &same]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut piped = piped.spawn().unwrap();
    piped.stdin.take().unwrap().write_all(&fs::read(scenario("ping-pong")).unwrap()).unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    // One of a host where guests do not poll: it is not, and what is shown is the scenario as it is.
    let other = of("other.data", &["--set", "vm.pair.cpuidle_haltpoll=false"]);
    let output = check(&other, "json");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let differs: Value = serde_json::from_str(&stdout(&output)).unwrap();
    check_json("sim", [&differs]);
    let figures = differs["check"]["figures"].as_array().unwrap();
    let of = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap();
    assert_eq!((&of("vcpus")["agrees"], &of("halts")["agrees"]), (&Value::from(true), &Value::from(false)));
    assert_eq!(halts(&differs), as_it_is, "the figures are those of no change");
    assert_eq!(differs["scenario"]["set"].as_array().unwrap().len(), 0);
    assert_eq!(differs["check"]["changes"][0], "vm.pair.cpuidle_haltpoll=false");

    let text = stdout(&check(&other, "text"));
    assert!(text.contains("vm.pair.cpuidle_haltpoll=false changes is not predicted"), "{text}");
    let csv = check(&other, "csv");
    assert_eq!((csv.status.code(), stdout(&csv).as_str()), (Some(1), ""));
    assert!(stderr(&csv).contains("halts ("), "{}", stderr(&csv));
}

#[test]
fn a_sweep_of_a_scenario_that_is_not_the_recording_varies_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("own.data");
    let own = recording.to_str().unwrap();
    page("sim", "ping-pong", &["--trace", own, "--set", "duration=300ms"]);
    let vary = ["--vary", "guest_halt_poll_ns=0,200us", "--replicates", "1", "--set", "duration=20ms"];
    let sweep = |recording: &str, format: &str| {
        let check = ["--check", recording, "--format", format];
        run(&[&["sweep", &scenario("ping-pong")], &vary[..], &check].concat())
    };
    let output = sweep(own, "json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check_json("sweep", [&serde_json::from_str(&stdout(&output)).unwrap()]);
    assert!(stderr(&output).contains("is within 10 %"), "{}", stderr(&output));

    if exitscope_page::is_built() {
        let text = fs::read(&recording).unwrap();
        let error = refused("sweep", "ping-pong", &[&vary[..], &["--check", own, "--html", own]].concat());
        assert!(error.contains("--html"), "{error}");
        assert_eq!(fs::read(&recording).unwrap(), text, "a recording is not overwritten by its page");
    }

    let other = common::corpus("x86-svm/t2.data.gz");
    let other = other.to_str().unwrap();
    let output = sweep(other, "text");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("duration=20ms, guest_halt_poll_ns changes is not predicted"),
        "{}",
        stdout(&output)
    );
    let output = sweep(other, "csv");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("is not within 10 %"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_compared_does_not_agree_and_vcpus_that_a_recording_lacks_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one.txt");
    let event =
        "            vcpu-1     [000] d..1.   100.000001: kvm_exit: vcpu 0 reason hlt rip 0x1 info1 0x0 info2 0x0\n";
    fs::write(&one, format!("# tracer: nop\n{event}")).unwrap();
    let nothing = run(&["sim", &scenario("ping-pong"), "--check", one.to_str().unwrap()]);
    assert_eq!(nothing.status.code(), Some(1), "{}", stdout(&nothing));
    assert!(stdout(&nothing).contains("have no figure of exits that both tell"), "{}", stdout(&nothing));
    // A vCPU without a program makes no exit.
    let own = folder.path().join("own.data");
    let own = own.to_str().unwrap();
    page("sim", "ping-pong", &["--trace", own, "--set", "duration=300ms"]);
    let text = fs::read_to_string(scenario("ping-pong")).unwrap().replacen("vcpus = 2", "vcpus = 9", 1);
    let wider = folder.path().join("wider.toml");
    fs::write(&wider, text).unwrap();
    let wider = run(&["sim", wider.to_str().unwrap(), "--check", own]);
    let (code, text) = (wider.status.code(), stdout(&wider));
    assert!(code == Some(0) && text.contains("It has 9 vCPUs, the recording exits of 2"), "{text}{}", stderr(&wider));
}

#[test]
fn what_is_set_is_not_assumed_however_its_key_is_written() {
    let short = ["--set", "duration=20ms", "--set", "warmup=5ms", "--uncertainty"];
    let with = |set: &str| json("sim", "port-loop", &[&short[..], &["--set", set]].concat());
    let [whole, other, part] = ["costs.device=1us", "cost.device=1us", "costs.device.time=1us"].map(with);
    let keys = |run: &Value| -> Vec<String> {
        let rows = run["uncertainty"]["assumptions"].as_array().unwrap().iter();
        rows.map(|row| row["key"].as_str().unwrap().to_string()).collect()
    };
    assert!(!keys(&whole).is_empty() && !keys(&whole).contains(&"costs.device".to_string()));
    assert_eq!((keys(&other), keys(&part)), (keys(&whole), keys(&whole)));
    assert_eq!(other["uncertainty"]["figures"], whole["uncertainty"]["figures"]);
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    for (arguments, says) in
        [(&["--check", "/no/such/recording"][..], "/no/such/recording"), (&["--check-vm", "pair"], "--check")]
    {
        let error = refused("sim", "ping-pong", arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    let error = refused("sim", "ebizzy", &["--check", "/no/such/recording"]);
    assert!(error.contains("ganged"), "{error}");
    let recording = common::corpus("x86-svm/t2.data.gz");
    let error = refused("sim", "ping-pong", &["--check", recording.to_str().unwrap(), "--check-vm", "nobody"]);
    assert!(error.contains("nobody"), "{error}");
}

#[test]
fn an_uncertain_run_has_an_interval_of_each_figure_and_names_what_moves_it_most() {
    let set = ["--set", "duration=20ms", "--set", "warmup=5ms", "--set", "vm.pair.cpuidle_haltpoll=false"];
    let polls = ["--set", "halt_poll_ns=0"];
    let run = json("sim", "ping-pong", &[&set[..], &polls, &["--uncertainty"]].concat());
    check_json("sim", [&run]);
    let of = |name: &str| {
        let figures = run["uncertainty"]["figures"].as_array().unwrap().iter();
        figures.into_iter().find(|figure| figure["name"] == name).unwrap().clone()
    };
    let number = |value: &Value| value.as_f64().unwrap();
    let throughput = of("throughput");
    let ends = throughput["by_assumptions"].as_array().unwrap();
    assert!(
        number(&ends[0]) < number(&throughput["value"]) && number(&throughput["value"]) < number(&ends[1]),
        "{throughput:#}"
    );
    // Two sleeps for each message: how long an idle CPU takes to wake up is most of the way, and is known worst.
    assert_eq!(throughput["moved_most"]["key"], "costs.wake_latency", "{throughput:#}");
    let numbers = run["uncertainty"]["assumptions"].as_array().unwrap().len();
    let fixed =
        json("sim", "ping-pong", &[&set[..], &polls, &["--set", "costs.wake_latency=2us", "--uncertainty"]].concat());
    let figures = fixed["uncertainty"]["figures"].as_array().unwrap();
    let named = |key: &str| figures.iter().any(|figure| figure["moved_most"]["key"] == key);
    assert!(!named("costs.wake_latency") && named("costs.guest_wake"), "what is set is not assumed");
    assert_eq!(fixed["uncertainty"]["assumptions"].as_array().unwrap().len() + 1, numbers);
    let text = page("sim", "ping-pong", &[&set[..], &polls, &["--uncertainty"]].concat());
    assert!(text.contains("costs.wake_latency") && text.contains("numbers are assumed"), "{text}");
}

#[test]
fn the_gains_of_a_sweep_have_intervals_from_what_is_assumed() {
    let short = ["--set", "duration=20ms", "--set", "warmup=5ms", "--replicates", "2", "--uncertainty"];
    let vary = ["--vary", "guest_halt_poll_ns=0,50us", "--best", "pair.latency_mean"];
    let sweep = json("sweep", "ping-pong", &[&vary[..], &short].concat());
    check_json("sweep", [&sweep]);
    let gain = &sweep["uncertainty"]["gains"][0];
    let [low, high] = [0, 1].map(|at| gain["by_assumptions"][at].as_f64().unwrap());
    let percent = gain["percent"].as_f64().unwrap();
    assert!(
        low <= percent && percent <= high && low < high && high < 0.0,
        "polling pays whatever is assumed: {gain:#}"
    );
    assert_eq!(gain["sign_hangs_on"].as_array().unwrap().len(), 0);
    assert_eq!(sweep["verdict"]["is_doubtful"], false, "{sweep:#}");
}
