//! The view of yields and their replay, on real recordings and on simulated ones, of which the right answer is known.

mod common;

use common::{check_json, corpus, exitscope, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const HZ: [&str; 2] = ["--tsc-hz", "2596120000"];

/// A run of four vCPUs that share a lock, on so many CPUs, as a recording; and what the simulator says of the run.
fn contended(folder: &Path, cores: u32, arch: &str) -> (PathBuf, Value) {
    let scenario = folder.join("scenario.toml");
    let text = format!(
        r#"
name = "contended"
description = "Four vCPUs that share a lock"
warmup = "0s"
duration = "200ms"
[host]
arch = "{arch}"
cores = {cores}
[[vm]]
name = "locks"
vcpus = 4
locks = ["l"]
{spin}
[[vm.program]]
steps = [{{ forever = [{{ lock = "l" }}, {{ compute = "20us" }}, {{ unlock = "l" }}, {{ compute = "20us" }}, "count"] }}]
"#,
        spin = if arch == "s390" { "spin = { diag44 = true, diag9c = true }" } else { "" }
    );
    std::fs::write(&scenario, text).unwrap();
    let trace = folder.join(format!("{arch}-{cores}.data"));
    let arguments = ["sim", scenario.to_str().unwrap(), "--format", "json", "--trace", trace.to_str().unwrap()];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    (trace, serde_json::from_slice(&output.stdout).unwrap())
}

fn replay(trace: &Path, arguments: &[&str]) -> Value {
    let output = exitscope()
        .args(["replay", "--policy", "yielding", "--format", "json"])
        .arg(trace)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let replay = serde_json::from_slice(&output.stdout).unwrap();
    check_json("replay", [&replay]);
    replay
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// How often an event is in a Xen log, as the counts beside it say.
fn counted(log: &str, id: &str) -> u64 {
    let text = std::fs::read_to_string(corpus(&format!("xen/{log}.counts.txt"))).unwrap();
    let lines = text.lines().filter(|line| line.trim_start().starts_with(id));
    lines.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn every_yield_that_xen_traced_is_counted() {
    for log in ["hvm1_dm_sched_hvm", "pvh1_smallbuf_credit1", "pvh2_contend_sched_hvm", "pvh64_all", "pvh1_hvm"] {
        let report = report(&[&corpus(&format!("xen/{log}.xentrace.gz"))], &HZ);
        let seen = report["yield"]["all"]["count"].as_u64().unwrap_or(0);
        assert_eq!(seen, counted(log, "0x00028005"), "{log}");
    }
}

#[test]
fn vcpus_that_share_a_cpu_are_preempted_and_yield_to_one_another_on_xen() {
    let trace = corpus("xen/pvh2_contend_sched_hvm.xentrace.gz");
    let report = report(&[&trace], &HZ);
    let of = &report["yield"];
    let all = &of["all"];
    let known = ["sibling_preempted", "sibling_runnable", "no_runnable_sibling"].map(|name| number(&all[name]));
    assert_eq!(known.iter().sum::<u64>(), 148, "of each it is known who waited");
    let gave = ["gave_target", "gave_sibling", "gave_other", "kept_cpu"].map(|name| number(&all[name]));
    assert_eq!(gave.iter().sum::<u64>(), 148);
    assert_eq!((gave[0], gave[2]), (0, 0), "undirected; and the CPU is these two vCPUs' alone");
    // Whoever waits is the only other one, so that it has the CPU next.
    assert!(gave[1] >= known[0], "{gave:?} {known:?}");
    // Preemptions are those that Xen's run states count, of the guest and of dom0.
    let by_run_states: u64 = report["run_states"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["vm_name"] != "idle")
        .map(|row| number(&row["preempted"]["count"]))
        .sum();
    assert_eq!(number(&of["all_preempted"]["steal"]["count"]), by_run_states);
    let waited: u64 = of["queue"]["time_ns"].as_array().unwrap().iter().map(number).sum();
    assert_eq!(waited, number(&of["queue"]["span_ns"]));
}

#[test]
fn calls_of_kvm_guests_are_counted_as_perf_and_trace_cmd_print_them() {
    // 203 lines `hcall=H_PROD` and 9 `kvm_hypercall: nr 0x5` in their text.
    for (trace, call, count) in
        [("powerpc/p8_smt4_trace.dat.gz", "H_PROD", 203), ("x86-svm/t2.data.gz", "KVM_HC_KICK_CPU", 9)]
    {
        let report = report(&[&corpus(trace)], &[]);
        let rows = report["yield"]["vcpus"].as_array().unwrap();
        let seen: u64 = rows.iter().filter(|row| row["call"] == call).map(|row| number(&row["count"])).sum();
        assert_eq!(seen, count, "{trace}");
        assert_eq!(report["yield"]["all"]["count"], 0, "they wake, and wait for nobody");
    }
    let report = report(&[&corpus("powerpc/p8_smt4_trace.dat.gz")], &[]);
    let target = &report["yield"]["targets"][0];
    assert_eq!((number(&target["vcpu"]), number(&target["count"]), number(&target["unknown"])), (2, 203, 203));
}

#[test]
fn what_is_said_of_calls_fits_the_host_that_they_were_recorded_on() {
    let folder = tempfile::tempdir().unwrap();
    let note = |trace: &Path| {
        let output = exitscope().args(["report", "--view", "yield"]).arg(trace).output().unwrap();
        stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (counters, lab, pause) = ("diag_9c_ignored", "X'44' and X'9C' are the lab's", "PAUSE names no vCPU");
    let on_x86 = corpus("lab/contended.data.gz");
    let says = |trace: &Path| [counters, lab, pause].map(|words| note(trace).contains(words));
    assert_eq!(says(&on_x86), [false, true, false]);
    assert_eq!(says(&contended(folder.path(), 2, "s390").0), [true, false, false]);
    assert_eq!(says(&contended(folder.path(), 2, "svm").0), [false, false, true]);
}

#[test]
fn the_preemption_of_lock_holders_is_found_where_it_is_and_not_where_every_vcpu_has_a_cpu() {
    let folder = tempfile::tempdir().unwrap();
    for arch in ["vmx", "svm", "s390"] {
        let (crowded, run) = contended(folder.path(), 2, arch);
        let report = report(&[&crowded], &[]);
        let of = &report["yield"];
        let (all, said) = (&of["all"], &run["yields"]);
        let made: u64 = ["directed", "undirected", "ignored"].iter().filter_map(|name| said[name].as_u64()).sum();
        assert_eq!(number(&all["count"]), made, "{arch}: {said}");
        assert!(made > 20, "{arch}");
        // Two vCPUs always wait, so that each yield could help.
        assert!(number(&all["sibling_preempted"]) * 10 >= made * 9, "{arch}: {all}");
        assert!(number(&of["all_preempted"]["sibling_wait"]["sum_ns"]) > 1_000_000, "{arch}");
        // Each that had an effect gave the CPU to a sibling.
        assert!(number(&all["gave_sibling"]).abs_diff(made - number(&said["ignored"])) <= made / 50, "{arch}: {all}");
        // One waits for each CPU; on s390 X'9C' moves vCPUs, so that it may be the other one's for a while.
        assert!((1..=2).contains(&number(&of["queue"]["max"])), "{arch}");
        assert!((of["queue"]["mean"].as_f64().unwrap() - 1.0).abs() < 0.05, "{arch}");

        let (roomy, _) = contended(folder.path(), 4, arch);
        let report = common::report(&[&roomy], &[]);
        let of = &report["yield"];
        assert!(number(&of["all"]["count"]) > 0, "{arch}: the lock is contended all the same");
        for name in ["sibling_preempted", "sibling_runnable", "gave_sibling"] {
            assert_eq!(of["all"][name], 0, "{arch} {name}");
        }
        assert_eq!(
            (&of["all_preempted"]["sibling_wait"]["count"], &of["queue"]["max"]),
            (&0.into(), &0.into()),
            "{arch}"
        );
        let page = |trace: &Path| stdout(&common::run(&["report", trace.to_str().unwrap(), "--all"]));
        assert!(page(&crowded).contains("which may be the one that holds the lock"), "{arch}");
        assert!(page(&roomy).contains("no sign of lock-holder preemption"), "{arch}");
    }
}

#[test]
fn windows_of_pause_loops_are_those_that_grew_at_each_exit() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = contended(folder.path(), 2, "vmx");
    let report = report(&[&trace], &[]);
    let window = &report["yield"]["windows"][0];
    assert_eq!((number(&window["grown"]), number(&window["min"])), (number(&report["yield"]["all"]["count"]), 4_096));
    assert!(number(&window["shrunk"]) > 0 && number(&window["max"]) >= 8_192);
}

#[test]
fn a_replay_of_what_was_in_force_yields_as_often_as_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for (arch, cores, in_force) in [
        ("vmx", 2, "ple_window=4096"),
        ("vmx", 4, "ple_window=4096"),
        ("svm", 2, "pause_filter_count=3000"),
        ("s390", 2, "spin_retry=1000"),
    ] {
        let (trace, _) = contended(folder.path(), cores, arch);
        let replay = replay(&trace, &["--vary", in_force]);
        let rows = replay["rows"].as_array().unwrap();
        let recorded = number(&rows[0]["yields"]);
        let same = rows[1..].iter().find(|row| arch != "s390" || row["call"] == "X'9C'").unwrap();
        let yields = number(&same["yields"]);
        assert!(yields.abs_diff(recorded) <= 2 + recorded / 10, "{arch} on {cores}: {yields} of {recorded}");
        let won = same["gain_ns"].as_f64().unwrap();
        assert!(won.abs() < 2e6, "{arch} on {cores}: {won}");
    }
}

#[test]
fn a_replay_says_that_not_to_yield_costs_where_holders_are_preempted_and_pays_where_none_is() {
    let folder = tempfile::tempdir().unwrap();
    let off = |cores| {
        let replay = replay(&contended(folder.path(), cores, "vmx").0, &[]);
        let rows = replay["rows"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["ple_window"] == "off").unwrap().clone();
        assert!(row["gain_low_ns"].as_f64() <= row["gain_high_ns"].as_f64());
        (row["gain_low_ns"].as_f64().unwrap(), row["best"].as_bool().unwrap(), number(&row["yields"]))
    };
    let ((crowded, best, _), (roomy, best_roomy, yields)) = (off(2), off(4));
    assert!(crowded < -10e6 && !best, "{crowded}");
    assert!(roomy > 0.0 && best_roomy && yields == 0, "{roomy}");
}

#[test]
fn a_trace_without_yields_says_what_to_record_and_a_replay_what_it_cannot_do() {
    for (trace, words) in [
        ("x86-svm/t4-none.dat.gz", "perf record -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup -a"),
        ("powerpc/p8_smt4_one_thread.data.gz", "never fired. Record again while vCPUs contend"),
        ("arm64/arm.dat.gz", "No vCPU yields in this trace"),
    ] {
        let page = stdout(&run(&["report", corpus(trace).to_str().unwrap(), "--view", "yield"]));
        assert!(page.contains("No vCPU yields") && page.contains(words), "{trace}: {page}");
    }
    let folder = tempfile::tempdir().unwrap();
    let contended = contended(folder.path(), 2, "vmx").0;
    for (trace, arguments, words) in [
        (corpus("x86-svm/t4-none.dat.gz"), &[][..], "no yield to replay. Record with `exitscope record"),
        (corpus("x86-svm/t2.data.gz"), &[], "this trace has only KVM_HC_KICK_CPU"),
        (contended.clone(), &["--vary", "spin_retry=1"], "spin_retry changes nothing where vCPUs yield by PAUSE"),
        (contended.clone(), &["--vary", "halt_poll_ns=1"], "yielding has no knob halt_poll_ns"),
        (contended.clone(), &["--set", "pause_filter_count=1"], "there are ple_gap, ple_window"),
        (contended, &["--best", "speed"], "there is no figure speed"),
    ] {
        let output = exitscope().args(["replay", "--policy", "yielding"]).arg(&trace).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_real_guests_yielded_in_the_lab_is_replayed() {
    let trace = corpus("lab/contended.data.gz");
    let replay = replay(&trace, &["--from", "+724ms", "--to", "+827ms"]);
    let number = |says: &str, spin_retry: u64, name: &str| {
        let is_it =
            |row: &&Value| row["call"] == says && [&json!(spin_retry), &json!("-")].contains(&&row["spin_retry"]);
        let row = replay["rows"].as_array().unwrap().iter().find(is_it);
        row.and_then(|row| row[name].as_f64()).unwrap_or_else(|| panic!("no {name} of {says} {spin_retry}: {replay}"))
    };
    let yields = |says: &str, spin_retry: u64| number(says, spin_retry, "yields");
    let recorded = replay["rows"][0]["yields"].as_f64().unwrap();
    assert_eq!((recorded, &replay["rows"][0]["in_force"]), (322.0, &json!(true)));
    // Recorded were 1000 looks before each X'9C'; after fewer looks one asks more often, who says nothing never does.
    assert!((0.8..1.25).contains(&(yields("X'9C'", 1_000) / recorded)), "{}", yields("X'9C'", 1_000));
    assert!(yields("X'9C'", 100) > 5.0 * recorded && yields("X'9C'", 10_000) < recorded / 4.0);
    assert_eq!(yields("none", 0), 0.0);
    // Eight vCPUs over two threads wait for one another: to say nothing is worse.
    assert!(number("none", 0, "gain_ns") < number("X'9C'", 1_000, "gain_ns"));
}

#[test]
fn the_view_and_the_replay_fit_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut traces = common::traces();
    traces.extend(["vmx", "s390"].map(|arch| contended(folder.path(), 2, arch).0));
    for trace in traces {
        for arguments in [&["report", "--view", "yield"][..], &["replay", "--policy", "yielding"]] {
            let mut command = exitscope();
            command.env("COLUMNS", "80").current_dir(trace.parent().unwrap());
            let page = stdout(&command.args(arguments).arg(trace.file_name().unwrap()).output().unwrap());
            let too_long = page.lines().find(|line| line.chars().count() > 80);
            assert_eq!(too_long, None, "{arguments:?} {}", trace.display());
        }
    }
}
