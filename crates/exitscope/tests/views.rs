//! Views of mechanisms, and replays, on real recordings.

mod common;

use common::{corpus, exitscope, misfits, report, run, stderr, stdout};
use serde_json::Value;

/// Where something was counted by another tool: `count name` lines.
fn counted_by_peers(file: &str, event: &str) -> u64 {
    let text = std::fs::read_to_string(corpus(file)).unwrap();
    let line = text.lines().find(|line| line.trim_end_matches(':').ends_with(event)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn replay(trace: &str, arguments: &[&str]) -> Value {
    let output =
        exitscope().arg("replay").arg(corpus(trace)).args(arguments).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let replay = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(misfits(&replay, "replay-schema"), Vec::<String>::new());
    replay
}

#[test]
fn every_halt_that_kvm_tells_of_is_counted() {
    for (trace, counts) in [
        ("x86-svm/t2.data.gz", "x86-svm/peers/t2.data.event-counts.txt"),
        ("x86-svm/t4-none.dat.gz", "x86-svm/peers/t4-none.dat.event-counts.txt"),
        ("arm64/arm.dat.gz", "arm64/arm.dat.event-counts.txt"),
    ] {
        let report = report(&[&corpus(trace)], &[]);
        assert_eq!(misfits(&report, "report-schema"), Vec::<String>::new());
        let all = &report["halt"]["all"];
        assert_eq!(all["halts"].as_u64(), Some(counted_by_peers(counts, "kvm_vcpu_wakeup")), "{trace}");
        assert_eq!(all["caught"].as_u64().unwrap() + all["slept"].as_u64().unwrap(), all["halts"].as_u64().unwrap());
        let changes = all["grown"].as_u64().unwrap() + all["shrunk"].as_u64().unwrap();
        assert_eq!(changes, counted_by_peers(counts, "kvm_halt_poll_ns"), "{trace}");
    }
    let vcore = report(&[&corpus("powerpc/p8_smt4_cede_all.data.gz")], &[]);
    let halts = counted_by_peers("powerpc/p8_smt4_cede_all.data.event-counts.txt", "kvmppc_vcore_wakeup");
    assert_eq!(
        (vcore["halt"]["all"]["halts"].as_u64(), vcore["halt"]["of_vcores"].as_bool()),
        (Some(halts), Some(true))
    );
}

#[test]
fn every_decision_about_polls_that_a_real_kernel_traced_comes_out_again() {
    // Halts since each vCPU's first change, and the changes that its kernel traced.
    for (trace, known, changes) in
        [("x86-svm/t2.data.gz", 973, 177), ("x86-svm/t4-none.dat.gz", 1979, 1826), ("arm64/arm.dat.gz", 780, 380)]
    {
        let replay = replay(trace, &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0"]);
        let expected = serde_json::json!({"known": known, "same": known, "changes": changes, "same_changes": changes});
        assert_eq!(replay["decisions"], expected, "{trace}");
    }
}

#[test]
fn longer_polls_catch_more_and_none_costs_nothing() {
    let trace = "x86-svm/t4-none.dat.gz";
    let host = replay(trace, &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0,200us,1ms"]);
    let figures = |replay: &Value, name: &str| -> Vec<i64> {
        replay["rows"].as_array().unwrap().iter().map(|row| row[name].as_i64().unwrap()).collect()
    };
    let caught = figures(&host, "caught");
    assert!(caught[1] <= caught[2] && caught[2] < caught[3], "{caught:?}");
    assert_eq!(figures(&host, "polling_ns")[1], 0);
    assert_eq!((figures(&host, "net_ns")[0], figures(&host, "net_ns")[2]), (0, 0), "as recorded");
    assert_eq!(host["rows"][0]["in_force"], true);
    // What is worth most: all that can be won, whatever it costs; or nothing spent.
    for (best, row) in [("time_won", 3), ("-polling", 1)] {
        let replay =
            replay(trace, &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0,200us,1ms", "--best", best]);
        assert_eq!(replay["rows"][row]["best"], true, "{best}");
    }
    let guest = replay(trace, &["--policy", "guest_halt_poll", "--vary", "guest_halt_poll_ns=0,1ms"]);
    let avoided = figures(&guest, "exits_avoided");
    assert!(avoided[1] == 0 && avoided[2] > 1000, "{avoided:?}");
}

/// Of the VM: core runs, by the script's rule, with two active threads, ended by the timer for all, ganged.
fn gang_counts(report: &Value, vm: u64) -> [u64; 5] {
    let vms = report["gang"]["vms"].as_array().unwrap();
    let row = vms.iter().find(|row| row["vm"] == vm).unwrap();
    ["runs", "ganged_script", "two_active", "timer", "ganged"].map(|name| row[name].as_u64().unwrap())
}

#[test]
fn ganged_exits_are_what_was_counted_over_the_text_by_either_rule() {
    // Counted over perf script's text when the recording was made; the last two numbers add up to the third.
    let rfc = report(&[&corpus("powerpc/p8_smt4_gang_exits_rfc.data.gz")], &[]);
    assert_eq!(misfits(&rfc, "report-schema"), Vec::<String>::new());
    assert_eq!(gang_counts(&rfc, 251)[..3], [748, 724, 747]);
    assert_eq!(gang_counts(&rfc, 252), [276, 0, 0, 0, 0]);
    // One active thread: nothing may count, by any rule.
    let one = report(&[&corpus("powerpc/p8_smt4_one_thread.data.gz")], &[]);
    assert_eq!(gang_counts(&one, 205), [3351, 0, 0, 0, 0]);
    // The script misses what the truer rule sees: the thread that needs user space is off its number.
    let two = report(&[&corpus("powerpc/p8_smt4_one_vm_two_threads.data.gz")], &[]);
    let [runs, script, active, ..] = gang_counts(&two, 163);
    assert!(script * 4 < active && active <= runs, "{script} {active} {runs}");
    let causes = two["gang"]["causes"].as_array().unwrap();
    assert_eq!(
        (causes[0]["vcpu"].as_u64(), causes[0]["reason"].as_str()),
        (Some(0), Some("SYSCALL")),
        "the one with hcalls"
    );
    assert!(causes[1..].iter().all(|cause| cause["forced"] == 0));
}

#[test]
fn virtual_cores_are_found_and_told_apart() {
    let vcores = |trace: &str, arguments: &[&str]| -> Vec<(u64, Vec<u64>, Vec<u64>)> {
        let report = report(&[&corpus(trace)], arguments);
        let list = |value: &Value| value.as_array().unwrap().iter().map(|item| item.as_u64().unwrap()).collect();
        let rows = report["gang"]["vcores"].as_array().unwrap().clone();
        rows.iter().map(|row| (row["vm"].as_u64().unwrap(), list(&row["vcpus"]), list(&row["cpus"]))).collect()
    };
    // Two cores, whose runs overlap in time; both VMs have a vCPU 0.
    let two_cores = vcores("powerpc/p8_2core_smt4_gang_exits_rfc.data.gz", &[]);
    assert_eq!(two_cores, [(218, vec![0, 1, 2, 3], vec![0]), (219, vec![0], vec![4])]);
    let split = vcores("powerpc/p8_smt4_two_vms.data.gz", &["--threads-per-core", "2"]);
    assert_eq!(split.iter().map(|row| row.1.clone()).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3], vec![0]]);
}

#[test]
fn a_cpu_whose_vcpus_run_alone_has_no_ganged_exits_and_the_view_says_why() {
    let trace = corpus("powerpc/p9_smt2_two_vms.data.gz");
    assert_eq!(report(&[&trace], &[])["gang"]["vms"].as_array().unwrap().len(), 0);
    let page = stdout(&run(&["report", trace.to_str().unwrap(), "--view", "gang"]));
    assert!(page.contains("0 ganged exits: 1,734 exits") && page.contains("POWER9 and later"), "{page}");
}

#[test]
fn narrower_virtual_cores_avoid_forced_exits_and_the_recorded_width_none() {
    let replay = replay("powerpc/p8_smt4_trace.dat.gz", &["--policy", "vcore"]);
    let rows = replay["rows"].as_array().unwrap();
    let figures = |name: &str| -> Vec<u64> { rows.iter().map(|row| row[name].as_u64().unwrap()).collect() };
    let (forced, avoided, won) = (figures("forced_exits"), figures("exits_avoided"), figures("time_won_ns"));
    assert_eq!((forced[0], forced[1], forced[3], forced[4]), (401, 0, 401, 401));
    assert!(forced.iter().zip(&avoided).all(|(forced, avoided)| forced + avoided == 401));
    assert!(0 < won[2] && won[2] < won[1] && won[3] == 0, "{won:?}");
}

#[test]
fn a_view_says_what_to_record_where_the_trace_has_nothing_for_it() {
    for (trace, view, words) in [
        ("powerpc/p8_smt4_one_thread.data.gz", "halt", "perf record -e 'kvm:*' -e sched:sched_switch"),
        ("x86-svm/t4-kvmstat.data.gz", "halt", "No kvm_vcpu_wakeup in the trace"),
        ("x86-svm/t4-kvmstat.data.gz", "gang", "Record there with `perf record -e 'kvm_hv:*' -a`"),
    ] {
        let output = run(&["report", corpus(trace).to_str().unwrap(), "--view", view]);
        assert!(output.status.success());
        assert!(stdout(&output).contains(words), "{trace}: {}", stdout(&output));
    }
    let output =
        run(&["replay", corpus("powerpc/p8_smt4_one_thread.data.gz").to_str().unwrap(), "--policy", "host_halt_poll"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no halt to replay. Record with"), "{}", stderr(&output));
}

#[test]
fn what_a_replay_cannot_do_is_said() {
    let trace = corpus("x86-svm/t4-none.dat.gz");
    for (arguments, words) in [
        (&["--vary", "halt_poll=1"][..], "host_halt_poll has no knob halt_poll; it has halt_poll_ns, "),
        (&["--vary", "halt_poll_ns=soon"], "halt_poll_ns is a time"),
        (&["--set", "guest_halt_poll_ns=1"], "host_halt_poll has no knob guest_halt_poll_ns"),
        (&["--vary", "halt_poll_ns=0", "--vary", "halt_poll_ns=1"], "names halt_poll_ns twice"),
        (&["--best", "speed"], "there is no figure speed; there are caught, "),
        (&["--reason", "hlt"], "--reason and --longer-than have no meaning here"),
    ] {
        let output = exitscope()
            .arg("replay")
            .arg(&trace)
            .args(["--policy", "host_halt_poll"])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn views_and_replays_fit_the_terminal() {
    for trace in common::traces() {
        for arguments in [
            &["report", "--view", "halt"][..],
            &["report", "--view", "gang"],
            &["replay", "--policy", "host_halt_poll"],
            &["replay", "--policy", "vcore"],
        ] {
            let mut command = exitscope();
            let folder = corpus("README.md");
            let name = trace.strip_prefix(folder.parent().unwrap()).unwrap();
            command.env("COLUMNS", "80").current_dir(folder.parent().unwrap()).args(arguments).arg(name);
            let page = stdout(&command.output().unwrap());
            let too_long = page.lines().find(|line| line.chars().count() > 80);
            assert_eq!(too_long, None, "{arguments:?} {}", trace.display());
        }
    }
}
