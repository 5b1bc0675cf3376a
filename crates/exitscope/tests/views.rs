//! Views of mechanisms, and replays, on real recordings.

mod common;

use common::{check_json, corpus, exitscope, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
    check_json("replay", [&replay]);
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
        let all = &report["halt"]["all"];
        assert_eq!(all["halts"].as_u64(), Some(counted_by_peers(counts, "kvm_vcpu_wakeup")), "{trace}");
        assert_eq!(
            all["not_blocked"].as_u64().unwrap() + all["blocked"].as_u64().unwrap(),
            all["halts"].as_u64().unwrap()
        );
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
fn with_longer_polls_fewer_halts_block_and_none_costs_nothing() {
    let trace = "x86-svm/t4-none.dat.gz";
    let host = replay(trace, &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0,200us,1ms"]);
    let figures = |replay: &Value, name: &str| -> Vec<i64> {
        replay["rows"].as_array().unwrap().iter().map(|row| row[name].as_i64().unwrap()).collect()
    };
    let not_blocked = figures(&host, "not_blocked");
    assert!(not_blocked[2] <= not_blocked[3] && not_blocked[3] < not_blocked[4], "{not_blocked:?}");
    assert_eq!(figures(&host, "polling_ns")[2], 0);
    assert_eq!((figures(&host, "net_gain_ns")[1], figures(&host, "net_gain_ns")[3]), (0, 0), "what was in force");
    let marks = |row: usize| ["recorded", "in_force"].map(|mark| host["rows"][row][mark].as_bool().unwrap());
    assert_eq!([marks(0), marks(1), marks(2)], [[true, false], [false, true], [false, false]]);
    // What is worth most: all that can be won, whatever it costs; or nothing spent.
    for (best, row) in [("gain", 4), ("-polling", 2)] {
        let replay =
            replay(trace, &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0,200us,1ms", "--best", best]);
        assert_eq!(replay["rows"][row]["best"], true, "{best}");
    }
    let guest = replay(trace, &["--policy", "guest_halt_poll", "--vary", "guest_halt_poll_ns=0,1ms"]);
    let avoided = figures(&guest, "exits_avoided");
    assert!(avoided[2] == 0 && avoided[3] > 1000, "{avoided:?}");
    // What the host's polls catch has left the guest; where it is best that nobody polls, that is said.
    assert_eq!((&avoided[..2], guest["rows"][2]["best"].as_bool()), (&[0, 0][..], Some(true)));
    let said = |replay: &Value| replay["notes"].to_string().contains("the host does not poll, as with");
    assert!(said(&guest) && !said(&host));
    let longer = ["--policy", "guest_halt_poll", "--vary", "guest_halt_poll_ns=500us,1ms", "--best", "gain"];
    assert!(!said(&self::replay(trace, &longer)));
}

#[test]
fn ipis_that_polls_of_a_guest_spare_are_counted_where_exits_tell_of_ipis() {
    let vary = ["--policy", "guest_halt_poll", "--vary", "guest_halt_poll_ns=0,1ms"];
    let linux = replay("x86-svm/t2.data.gz", &vary);
    let figures = |name: &str| -> Vec<u64> {
        linux["rows"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).collect()
    };
    let (spared, avoided) = (figures("ipis_spared"), figures("exits_avoided"));
    assert_eq!(spared[..3], [0; 3], "as recorded, in force, and with a guest that does not poll");
    assert!(0 < spared[3] && spared[3] < avoided[3], "{spared:?} {avoided:?}");
    let says = |replay: &Value, what: &str| replay["notes"].to_string().contains(what);
    assert!(says(&linux, "IPIs spared: of ") && !says(&linux, "is unknown"));
    // A guest that sends vector 0x20 alone: which of its wake-ups it would spare nobody knows.
    let other = replay("x86-svm/t4-none.dat.gz", &vary);
    assert!(other["rows"][3]["ipis_spared"].is_null() && says(&other, "how many IPIs polls would spare is unknown"));
    // What a poll of the host ends was sent.
    let host = replay("x86-svm/t2.data.gz", &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=1ms"]);
    assert!(host["rows"][2]["ipis_spared"].is_null() && !host["notes"].to_string().contains("IPI"));
}

/// A file of this text.
fn written(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// What a guest's own kernel recorded, by ftrace: CPU 0 wakes CPU 1, which polls in its idle loop for longer and longer.
const OF_A_GUEST: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [001] d..2.   100.000000: guest_halt_poll_ns: halt_poll_ns 50000 (grow 0)
            perf-12      [000] dNh3.   100.000100: sched_wake_idle_without_ipi: cpu=1
          <idle>-0       [001] d..2.   100.000300: guest_halt_poll_ns: halt_poll_ns 100000 (grow 50000)
            perf-12      [000] dNh3.   100.000400: sched_wake_idle_without_ipi: cpu=1
          <idle>-0       [001] d..2.   100.900000: guest_halt_poll_ns: halt_poll_ns 50000 (shrink 100000)
            perf-12      [001] dNh3.   101.000000: sched_wake_idle_without_ipi: cpu=0
";

#[test]
fn a_recording_of_a_guest_tells_which_wake_ups_its_polls_spared_an_interrupt() {
    let guest = written("guest.ftrace.txt", OF_A_GUEST);
    let report = report(&[&guest], &[]);
    assert_eq!(report["halt"], Value::Null, "no exit is in a guest's recording");
    let cpu = |cpu: u64, row: [Option<u64>; 5]| {
        let [woken, grown, shrunk, limit, longest] = row;
        json!({
            "cpu": cpu, "woken_without_ipi": woken, "limit_grown": grown, "limit_shrunk": shrunk, "limit_ns": limit,
            "longest_limit_ns": longest,
        })
    };
    assert_eq!(
        report["idle_polls"]["cpus"],
        json!([
            cpu(0, [Some(1), Some(0), Some(0), None, None]),
            cpu(1, [Some(2), Some(2), Some(1), Some(50_000), Some(100_000)]),
        ])
    );
    assert_eq!(report["idle_polls"]["all"]["woken_without_ipi"], 3);
    let text = |trace: &Path, more: &[&str]| stdout(&run(&[&["report", trace.to_str().unwrap()], more].concat()));
    let view = text(&guest, &["--view", "halt"]);
    for what in ["Idle CPUs that polled", "woken without IPI", "100us", "No vCPU halts in this trace"] {
        assert!(view.contains(what), "{what}: {view}");
    }
    let summary = "Idle CPUs of the kernel that recorded\n  wake-ups of CPUs whose idle task polled, sent without an interrupt: 3\n";
    assert!(text(&guest, &[]).contains(summary));
    // Of what the recording has no event, there is no figure, and nothing says that there was none.
    let lines =
        |of: &str| OF_A_GUEST.lines().filter(|line| !line.contains(of)).fold(String::new(), |a, b| a + b + "\n");
    for (left_out, what) in [
        ("sched_wake_idle", "No sched_wake_idle_without_ipi in the trace"),
        ("guest_halt_poll_ns", "No guest_halt_poll_ns in the trace"),
    ] {
        let part = written(&format!("guest-{left_out}.ftrace.txt"), &lines(left_out));
        let report = self::report(&[&part], &[]);
        let all = &report["idle_polls"]["all"];
        assert_eq!(all["woken_without_ipi"].is_null(), left_out == "sched_wake_idle", "{left_out}");
        assert_eq!(all["limit_grown"].is_null(), left_out != "sched_wake_idle", "{left_out}");
        let view = text(&part, &["--view", "halt"]);
        assert!(view.contains(what), "{view}");
    }
    // CPUs of a host poll, too.
    assert!(self::report(&[&corpus("x86-svm/t4-none.dat.gz")], &[])["idle_polls"].is_null());
    // A moment narrows it.
    let early = self::report(&[&guest], &["--to", "+0.0005s"]);
    assert_eq!(early["idle_polls"]["all"]["woken_without_ipi"], 2);
}

#[test]
fn an_interrupt_of_a_device_is_called_as_its_handler_and_on_several_hosts_as_all_of_them() {
    let lines = |handler: &str| {
        let mut text = "cpus=4\n".to_string();
        for number in 0..500 {
            let at = |micros: u64| format!("CPU 0/KVM-4100  [001]   100.{:06}", number * 40 + micros);
            let exit = "kvm_exit: vcpu 0 reason interrupt rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0";
            text += &format!("{}: {exit}\n{}: irq_handler_entry: irq=131 name={handler}\n", at(0), at(2));
            text += &format!("{}: kvm_entry: vcpu 0, rip 0x1000\n", at(20));
        }
        text
    };
    let (disk, net) = (written("irq-disk.txt", &lines("nvme0q3")), written("irq-net.txt", &lines("eth0-TxRx-1")));
    let name = |report: &Value| {
        let subjects = report["subjects"].as_array().unwrap();
        let row = subjects.iter().find(|row| row["subject_kind"] == "host_irq").unwrap();
        (row["subject_key"].as_u64().unwrap(), row["subject_name"].as_str().unwrap().to_string())
    };
    assert_eq!(name(&report(&[&disk], &[])), (131, "nvme0q3".to_string()));
    assert_eq!(name(&report(&[&disk, &net], &[])), (131, "nvme0q3 or eth0-TxRx-1".to_string()));
    let advised = stdout(&run(&["advise", "--format", "json", disk.to_str().unwrap()]));
    assert!(advised.contains("IRQ 131, nvme0q3"), "{advised}");
}

/// Of the VM: core runs, by the script's rule, with two active threads, ended by the timer for all, ganged.
fn gang_counts(report: &Value, vm: u64) -> [u64; 5] {
    let vms = report["gang"]["vms"].as_array().unwrap();
    let row = vms.iter().find(|row| row["vm"] == vm).unwrap();
    ["runs", "ganged_script", "runs_of_several", "decrementer", "ganged"].map(|name| row[name].as_u64().unwrap())
}

#[test]
fn ganged_exits_are_what_was_counted_over_the_text_by_either_rule() {
    // Counted over perf script's text when the recording was made; the last two numbers add up to the third.
    let rfc = report(&[&corpus("powerpc/p8_smt4_gang_exits_rfc.data.gz")], &[]);
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
    assert!(causes[1..].iter().all(|cause| cause["forced_exits"] == 0));
}

/// Of rows, what they sum up to in these columns.
fn sums<'a>(rows: impl IntoIterator<Item = &'a Value>, columns: &[&str]) -> Vec<u64> {
    let rows: Vec<&Value> = rows.into_iter().collect();
    // A column of a column is written with a point between.
    let cell =
        |row: &Value, column: &str| column.split('.').fold(row, |row, name| &row[name]).as_u64().unwrap_or_default();
    columns.iter().map(|column| rows.iter().map(|row| cell(row, column)).sum()).collect()
}

/// The counts are those of the script's rule over the text that `perf script` prints of these recordings.
#[test]
fn what_the_script_of_2015_prints_is_printed_figure_by_figure() {
    for (trace, counts) in [
        ("p8_smt4_gang_exits_rfc", &[(251, 724), (252, 0)][..]),
        ("p8_2core_smt4_gang_exits_rfc", &[(218, 615), (219, 0)]),
        ("p8_smt4_one_vm_two_threads", &[(163, 157)]),
        ("p8_smt4_two_vms", &[(226, 310), (227, 0)]),
        ("p8_smt4_callgraph", &[(428, 201)]),
        ("p8_smt4_cede_all", &[(274, 2)]),
        ("p8_smt4_one_thread", &[(205, 0)]),
    ] {
        let trace = corpus(&format!("powerpc/{trace}.data.gz"));
        let printed = run(&["report", trace.to_str().unwrap(), "--view", "gang", "--format", "script"]);
        let line = |(process, ganged): &(u32, u64)| format!("Ganged exits for process {process} : {ganged:>26}\n");
        let lines: String = counts.iter().map(line).collect();
        let wanted = format!("Ganged exits summary\n\n{lines}=======================================\n");
        assert_eq!(stdout(&printed), wanted, "{}", trace.display());
    }
    let refused = run(&["report", corpus("powerpc/p8_smt4_two_vms.data.gz").to_str().unwrap(), "--format", "script"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--format script requires --view gang"), "{}", stderr(&refused));
}

#[test]
fn the_ganged_runs_of_the_view_are_those_of_the_replay_and_its_rows_add_up() {
    let columns = [
        "runs",
        "ganged_script",
        "runs_of_several",
        "decrementer",
        "ganged",
        "exits",
        "forced_exits",
        "entry_refused",
        "joined",
    ];
    let columns = [&columns[..], &["lost.count", "forced_out.sum_ns"]].concat();
    let mut ganged = Vec::new();
    for trace in common::traces() {
        for arguments in [&[][..], &["--threads-per-core", "2"], &["--threads-per-core", "1"]] {
            let gang = &report(&[&trace], arguments)["gang"];
            let (Some(vms), Some(vcores)) = (gang["vms"].as_array(), gang["vcores"].as_array()) else { continue };
            for vm in vms {
                let own = vcores.iter().filter(|row| row["vm"] == vm["vm"]);
                assert_eq!(sums(own, &columns), sums([vm], &columns), "{} {arguments:?}", trace.display());
            }
            // Where no thread of a run shows the cause, nobody has its time.
            let of_causes = sums(gang["causes"].as_array().unwrap(), &["forced_out_ns"]);
            assert!(of_causes <= sums(vms, &["forced_out.sum_ns"]), "{}", trace.display());
        }
        let gang = &report(&[&trace], &[])["gang"];
        let Some(vms) = gang["vms"].as_array().filter(|vms| !vms.is_empty()) else { continue };
        let arguments = ["--policy", "vcore", "--vary", "smt_mode=1,8"];
        let replay = replay(trace.to_str().unwrap(), &arguments);
        let [in_force, alone, together] = &replay["rows"].as_array().unwrap()[..] else { panic!("{replay}") };
        let recorded = sums(vms, &["ganged", "forced_exits"]);
        for row in [in_force, together] {
            assert_eq!(sums([row], &["ganged_runs", "forced_exits"]), recorded, "{}", trace.display());
        }
        if row_has(in_force, "forced_out_ns") {
            assert_eq!(sums([in_force], &["forced_out_ns"]), sums(vms, &["forced_out.sum_ns"]), "{}", trace.display());
        }
        let nobody = ["ganged_runs", "forced_exits", "forced_out_ns"];
        assert_eq!(sums([alone], &nobody), [0, 0, 0], "{}: one thread forces nobody", trace.display());
        ganged.push(recorded[0]);
    }
    assert!(ganged.iter().filter(|runs| **runs > 0).count() > 3, "{ganged:?}");
}

#[test]
fn the_polls_of_the_view_are_those_of_the_replay_and_its_rows_add_up() {
    let columns = [
        "halts",
        "pending",
        "not_blocked",
        "blocked",
        "invalid",
        "cut",
        "gaps.count",
        "gaps.sum_ns",
        "inexact_gaps",
        "latency.count",
        "latency.sum_ns",
        "latency_not_blocked.count",
        "latency_blocked.count",
        "successful_polls",
        "poll_success_ns",
        "failed_polls",
        "poll_fail_ns",
        "before_sleep_ns",
        "grown",
        "shrunk",
    ];
    let mut polls = 0;
    for trace in common::traces() {
        let halt = &report(&[&trace], &[])["halt"];
        let Some(vcpus) = halt["vcpus"].as_array() else { continue };
        let all = &halt["all"];
        assert_eq!(sums(vcpus, &columns), sums([all], &columns), "{}", trace.display());
        let gaps = halt["gaps"].as_array().unwrap();
        assert_eq!(sums(gaps, &["not_blocked", "blocked"]).iter().sum::<u64>(), all["halts"], "{}", trace.display());
        if all["halts"] == 0 {
            continue;
        }
        let replay = replay(trace.to_str().unwrap(), &["--policy", "host_halt_poll", "--vary", "halt_poll_ns=0"]);
        let recorded = &replay["rows"][0];
        let [hits, misses, hit, miss] =
            sums([all], &["successful_polls", "failed_polls", "poll_success_ns", "poll_fail_ns"])[..]
        else {
            unreachable!()
        };
        let figures = ["successful_polls", "failed_polls", "polling_ns", "poll_fail_ns"];
        assert_eq!(sums([recorded], &figures), [hits, misses, hit + miss, miss], "{}", trace.display());
        polls += hits + misses;
    }
    assert!(polls > 1000, "{polls}");
}

fn row_has(row: &Value, column: &str) -> bool {
    row.as_object().unwrap().contains_key(column)
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
    let (forced, avoided, won) = (figures("forced_exits"), figures("exits_avoided"), figures("gain_ns"));
    assert_eq!((forced[0], forced[1], forced[3], forced[4]), (401, 0, 401, 401));
    assert!(forced.iter().zip(&avoided).all(|(forced, avoided)| forced + avoided == 401));
    assert!(0 < won[2] && won[2] < won[1] && won[3] == 0, "{won:?}");
    assert_eq!(rows.iter().position(|row| row["best"] == true), Some(1), "what wins most is marked");
}

#[test]
fn port_accesses_are_as_many_as_their_events_and_the_string_ones_are_told() {
    for (trace, counts) in [
        ("x86-svm/t2.data.gz", "x86-svm/peers/t2.data.event-counts.txt"),
        ("x86-svm/t4-pipe.data.gz", "x86-svm/peers/t4-pipe.data.event-counts.txt"),
        ("x86-svm/t4-v6.dat.gz", "x86-svm/peers/t4-v6.dat.event-counts.txt"),
        ("x86-svm/t4-zstd.data.gz", "x86-svm/peers/t4-zstd.data.event-counts.txt"),
        ("x86-svm/t4-none.dat.gz", "x86-svm/peers/t4-none.dat.event-counts.txt"),
    ] {
        let report = report(&[&corpus(trace)], &[]);
        let ports = &report["pio"]["ports"];
        // One exit more than events: a REP INS with a count of zero accesses nothing, and only kvm_exit tells of it.
        assert_eq!(ports["exits"].as_u64(), Some(counted_by_peers(counts, "kvm_pio") + 1), "{trace}");
        // That one, and another REP INS of the firmware's from fw_cfg.
        assert_eq!(ports["string"], 2, "{trace}");
        assert_eq!(ports["non_string"].as_u64().unwrap() + 2, ports["exits"].as_u64().unwrap(), "{trace}");
        let rows = report["pio"]["rows"].as_array().unwrap().iter().filter(|row| row["subject_kind"] == "port");
        assert_eq!(rows.map(|row| row["exits"].as_u64().unwrap()).sum::<u64>(), ports["exits"].as_u64().unwrap());
    }
    // Nobody recorded kvm_pio: kvm_exit says which port it is about. As many as perf kvm stat counts by the reason.
    let bare = report(&[&corpus("x86-svm/t4-callchain.data.gz")], &[]);
    let io = |row: &&Value| row["reason"] == "io";
    let by_reason = bare["rows"].as_array().unwrap().iter().find(io).unwrap()["count"].as_u64();
    assert_eq!(
        (bare["pio"]["ports"]["exits"].as_u64(), bare["pio"]["has_handlers"].as_bool()),
        (by_reason, Some(false))
    );
}

#[test]
fn on_xen_accesses_are_as_many_as_their_records_and_so_are_waits_for_the_device_model() {
    // 28 records of reads have no data: they are string accesses; 1,905 times the vCPU went from offline to runnable, the
    // last time for an exit that the end of the log cuts off; five accesses were answered before it lost its CPU (see
    // tests/xen.rs).
    let trace = corpus("xen/hvm1_dm_sched_hvm.xentrace.gz");
    let report = report(&[&trace], &["--tsc-hz", "2596120000"]);
    let counted = |id: &str| -> u64 {
        let text = std::fs::read_to_string(corpus("xen/hvm1_dm_sched_hvm.counts.txt")).unwrap();
        let lines = text.lines().filter(|line| line.trim().starts_with(id));
        lines.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
    };
    let (ports, mmio) = (&report["pio"]["ports"], &report["pio"]["mmio"]);
    assert_eq!(ports["exits"].as_u64(), Some(counted("0x00082016") + counted("0x00082216")));
    assert_eq!(mmio["exits"].as_u64(), Some(counted("0x00082017") + counted("0x00082217")));
    assert_eq!(ports["string"].as_u64(), Some(counted("0x00082016 extra=1")));
    let answered = |row: &Value| row["to_completion"]["count"].as_u64().unwrap();
    let rows = report["pio"]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(answered).sum::<u64>() + 1, counted("0x00021311") + 5);
    // INS is emulated before it is handed over, IN is not.
    let handed = |string: bool| {
        let row = rows
            .iter()
            .find(|row| row["subject_key"] == 0x3fd && row["string"] == string && row["in_user_space"] == true);
        row.unwrap()["to_handover"]["p50_ns"].as_u64().unwrap()
    };
    assert!(handed(false) < handed(true));
    // Other ports were read besides, none of them by INS.
    let emulation = report["pio"]["emulation_ns"].as_u64().unwrap();
    assert!(0 < emulation && emulation < handed(true), "{emulation}");
}

#[test]
fn the_steps_of_exits_are_as_many_as_their_events_and_add_up_to_the_cost() {
    let counts = "x86-svm/peers/t2.data.event-counts.txt";
    let report = report(&[&corpus("x86-svm/t2.data.gz")], &[]);
    let rows = report["phases"]["rows"].as_array().unwrap();
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    let before = report["coverage"]["lines"].as_array().unwrap().iter().find(|line| line["id"] == "before_recording");
    assert!(before.is_some());
    // Two vCPUs were outside when the recording began, and two leave it at its end without coming back: one event of
    // emulation, and as many returns, are of an exit that is not timed.
    assert_eq!(sum("emulated") + 1, counted_by_peers(counts, "kvm_emulate_insn"));
    let outside = &report["phases"]["in_user_space"];
    assert_eq!(outside["exits"].as_u64().unwrap() + 3, counted_by_peers(counts, "kvm_userspace_exit"));
    assert_eq!(outside["with_fpu_put"], outside["timed"]);
    assert_eq!(outside["with_syscall_entry"], outside["timed"]);
    let steps =
        ["to_handler_ns", "handler_ns", "to_user_space_ns", "user_space_ns", "user_space_asleep_ns", "reentry_ns"]
            .map(sum);
    assert_eq!(steps.iter().sum::<u64>(), report["total"]["cost_ns"].as_u64().unwrap());
    // No system call was recorded, so nothing is known of those.
    let removable = report["phases"]["removable"].as_array().unwrap();
    let removes = |change: &str| removable.iter().find(|row| row["change"] == change).unwrap()["avoidable_ns"].clone();
    assert_eq!(removes("synced_registers"), Value::Null);
    assert_eq!(removes("split_lock").as_u64(), outside["user_space_asleep_ns"].as_u64());
}

#[test]
fn accesses_that_the_kernel_serves_are_spared_the_way_outside() {
    let replay = replay("x86-svm/t2.data.gz", &["--policy", "port_path"]);
    let rows = replay["rows"].as_array().unwrap();
    let figures = |name: &str| -> Vec<i64> { rows.iter().map(|row| row[name].as_i64().unwrap()).collect() };
    // As recorded, nothing, ioeventfd, coalesced, devices.
    let outside = figures("user_space_accesses");
    assert_eq!((outside[0], outside[1], outside[4]), (3608, 3608, 0));
    let report = report(&[&corpus("x86-svm/t2.data.gz")], &[]);
    let of_ports = report["pio"]["rows"].as_array().unwrap().iter().filter(|row| row["subject_kind"] == "port");
    let writes =
        of_ports.filter(|row| row["direction"] == "out" && row["in_user_space"] == true && row["string"] == false);
    assert_eq!(outside[2], 3608 - writes.map(|row| row["exits"].as_i64().unwrap()).sum::<i64>());
    let (won, cost) = (figures("gain_ns"), figures("cost_ns"));
    assert!(won[1] == 0 && 0 < won[2] && won[2] < won[4], "{won:?}");
    assert!(won.iter().zip(&cost).all(|(won, now)| won + now == cost[0]), "{won:?} {cost:?}");
    assert_eq!(rows[4]["best"], true);
    // An emulation takes what string accesses show, which are emulated as recorded; once until the device model is woken.
    let trace = corpus("xen/hvm1_dm_sched_hvm.xentrace.gz");
    let clock = ["--tsc-hz", "2596120000"];
    let arguments = ["--policy", "port_path", "--vary", "quick_path=0,1", "--format", "json"];
    let output = exitscope().arg("replay").arg(&trace).args(clock).args(arguments).output().unwrap();
    let replay: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = replay["rows"].as_array().unwrap();
    let emulation = common::report(&[&trace], &clock)["pio"]["emulation_ns"].as_i64().unwrap();
    let more = rows[1]["emulations"].as_i64().unwrap() - rows[2]["emulations"].as_i64().unwrap();
    assert_eq!((rows[1]["gain_ns"].as_i64(), rows[2]["gain_ns"].as_i64()), (Some(-more * emulation), Some(0)));
    let cycles = |name: &str| [1, 2].map(|row: usize| rows[row][format!("{name}_cycles")].as_f64().unwrap());
    let longer = |[long, quick]: [f64; 2]| (long - quick) / (emulation as f64 * 2.59612);
    assert!((0.9..1.1).contains(&longer(cycles("to_device_model"))), "{rows:#?}");
    assert!((1.5..2.5).contains(&longer(cycles("whole_access"))), "{rows:#?}");
    let notes = replay["notes"].as_array().unwrap();
    assert!(notes[1].as_str().unwrap().contains("1,965 of 1,993 accesses qualify"), "{notes:#?}");
    // A read that is emulated and goes outside is emulated twice; all but 28 of the 1,993 are not, as recorded. Five were
    // answered before the vCPU lost its CPU.
    assert_eq!(rows[2]["user_space_accesses"], 1904 + 5);
    assert_eq!((rows[2]["emulations"].as_i64(), rows[2]["blocks"].as_i64()), (Some(2 * 28), Some(1904)));
    assert!(rows[1]["emulations"].as_i64() > Some(1993));
}

#[test]
fn a_view_says_what_to_record_where_the_trace_has_nothing_for_it() {
    for (trace, view, words) in [
        (
            "powerpc/p8_smt4_one_thread.data.gz",
            "halt",
            "The missing events were enabled, but never fired. Record again while guests are idle.",
        ),
        ("xen/hvm1_boot_mem.xentrace.gz", "halt", "Record with `xentrace -D -e 0x000af000 -T 10 FILE`"),
        (
            "x86-svm/t4-kvmstat.data.gz",
            "yield",
            "The missing events were enabled, but never fired. Record again while vCPUs contend.",
        ),
        ("xen/hvm1_boot_mem.xentrace.gz", "gang", "Record there with `exitscope record --for 10s`"),
        ("x86-svm/t4-kvmstat.data.gz", "halt", "No kvm_vcpu_wakeup in the trace"),
        (
            "x86-svm/t4-kvmstat.data.gz",
            "gang",
            "Record there with `exitscope record --for 10s` (or `perf record -e 'kvm_hv:*' -a",
        ),
        (
            "powerpc/p8_smt4_one_thread.data.gz",
            "pio",
            "is an access to a port or to emulated memory. Record with `exitscope record",
        ),
        ("x86-svm/t4-kvmstat.data.gz", "pio", "No kvm_userspace_exit in the trace"),
        (
            "powerpc/p8_smt4_gang_exits_rfc.data.gz",
            "phases",
            "No exit in this trace has both ends, so none has phases. Record",
        ),
        ("x86-svm/t2.data.gz", "phases", "because no system calls are in the trace"),
        ("x86-svm/t4-kvmstat.data.gz", "phases", "time in user space is counted as the handler's. Record with"),
        ("xen/hvm1_boot_mem.xentrace.gz", "pio", "The log has no records of the scheduler"),
    ] {
        let hz = if trace.starts_with("xen/") { &["--tsc-hz", "2596120000"][..] } else { &[] };
        let output = run(&[&["report", corpus(trace).to_str().unwrap(), "--view", view], hz].concat());
        assert!(output.status.success());
        assert!(stdout(&output).contains(words), "{trace}: {}", stdout(&output));
    }
    let (ppc, svm) = ("powerpc/p8_smt4_one_thread.data.gz", "x86-svm/t4-kvmstat.data.gz");
    let (arm, xen) = ("arm64/arm.dat.gz", "xen/pvh1_hvm.xentrace.gz");
    for (trace, policy, words) in [
        (ppc, "host_halt_poll", "no halt to replay. The missing events were enabled, but never fired"),
        (ppc, "port_path", "no port access to replay: processors of ppc64le have no ports"),
        (arm, "port_path", "processors of aarch64 have no ports"),
        (
            svm,
            "vcore",
            "They are of POWER7 and POWER8; record there with `exitscope record --for 10s` (or `perf record -e 'kvm_hv:*'",
        ),
        (
            svm,
            "yielding",
            "no yield to replay. The missing events were enabled, but never fired. Record again while vCPUs contend",
        ),
        (xen, "yielding", "no yield to replay. Record with `xentrace -D -e 0x000af000 -T 10 FILE`"),
        (xen, "host_halt_poll", "Xen does not poll for halted vCPUs"),
        (xen, "guest_halt_poll", "Xen does not poll for halted vCPUs"),
    ] {
        let hz = if trace == xen { &["--tsc-hz", "2596120000"][..] } else { &[] };
        let output = run(&[&["replay", corpus(trace).to_str().unwrap(), "--policy", policy], hz].concat());
        assert_eq!(output.status.code(), Some(2), "{trace} {policy}");
        assert!(stderr(&output).contains(words), "{trace} {policy}: {}", stderr(&output));
    }
}

#[test]
fn what_takes_steps_away_is_told_in_cycles_too_and_never_by_another_machines_figure() {
    let report = report(&[&corpus("x86-svm/t2.data.gz")], &["--tsc-hz", "2596120000"]);
    let removable = report["phases"]["removable"].as_array().unwrap();
    let row = |change: &str| removable.iter().find(|row| row["change"] == change).unwrap();
    // A figure of s390 (KVM Forum 2016), for tests that Linux does not make: `kvm_request_pending` in include/linux/kvm_host.h
    // is one look.
    assert!(removable.iter().all(|row| row["change"] != "early_exit" && row["method"] == "counted"), "{removable:#?}");
    let lock = row("split_lock");
    let cycles = lock["avoidable_ns"].as_u64().unwrap() as f64 / lock["exits"].as_f64().unwrap() * 2.59612;
    assert!((lock["avoidable_cycles_per_exit"].as_f64().unwrap() - cycles).abs() <= 1.0, "{lock} {cycles}");
    assert_eq!(row("synced_registers")["avoidable_cycles_per_exit"], Value::Null);
    let page = stdout(&run(&["report", corpus("x86-svm/t2.data.gz").to_str().unwrap(), "--view", "phases"]));
    assert!(page.contains("adds a column in cycles") && !page.contains("cycles an exit"), "{page}");
    assert!(!page.contains("early exit") && !page.contains("s390"), "{page}");
}

#[test]
fn a_cost_model_says_what_the_recording_has_no_cost_of() {
    // It does not tell who serves accesses, so no string access is known to wait for a device model.
    let trace = corpus("xen/hvm1_boot_mem.xentrace.gz");
    let replay = |costs: &[&str]| -> Value {
        let arguments =
            ["--policy", "port_path", "--tsc-hz", "2596120000", "--vary", "quick_path=0,1", "--format", "json"];
        let output = exitscope().arg("replay").arg(&trace).args(arguments).args(costs).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (without, with) = (replay(&[]), replay(&["--costs", "nehalem-xen-3.3"]));
    let figure = |replay: &Value, row: usize, name: &str| replay["rows"][row][name].as_i64();
    // The publication's machine is the only one whose long way was measured: it is taken unless another is named.
    assert_eq!(without["rows"], with["rows"]);
    let notes = without["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("nehalem-xen-3.3")), "{notes:#?}");
    let other = replay(&["--costs", "default"]);
    assert_ne!(figure(&other, 1, "gain_ns"), figure(&with, 1, "gain_ns"));
    // It takes 554 ns more for an emulation than for decoding.
    let (won, emulations) = (figure(&with, 1, "gain_ns").unwrap(), figure(&with, 1, "emulations").unwrap());
    let more = emulations - figure(&with, 0, "emulations").unwrap();
    assert!((-more * 577..=-more * 550).contains(&won), "{won} for {more} emulations more");
    assert_eq!(figure(&with, 2, "gain_ns"), Some(0));
    for (arguments, words) in [
        (&["--policy", "port_path", "--costs", "no-such-model"][..], "no-such-model"),
        (&["--policy", "yielding", "--costs", "default"], "--costs requires --policy port_path"),
    ] {
        let output =
            exitscope().arg("replay").arg(&trace).args(["--tsc-hz", "2596120000"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn what_a_replay_cannot_do_is_said() {
    let trace = corpus("x86-svm/t4-none.dat.gz");
    for (arguments, words) in [
        (&["--vary", "halt_poll=1"][..], "host_halt_poll has no knob halt_poll; it has halt_poll_ns, "),
        (&["--vary", "halt_poll_ns=soon"], "halt_poll_ns is a time"),
        (&["--set", "guest_halt_poll_ns=1"], "host_halt_poll has no knob guest_halt_poll_ns"),
        (&["--vary", "halt_poll_ns=0", "--vary", "halt_poll_ns=1"], "names halt_poll_ns twice"),
        (&["--best", "speed"], "there is no figure speed; there are not_blocked, "),
        (&["--reason", "hlt"], "omit --reason, --longer-than and --where"),
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
fn a_view_explains_what_it_shows_and_advises_what_the_host_has() {
    let view = |view: &str, trace: &str| {
        let mut command = exitscope();
        command.args(["report", "--tsc-hz", "2596120000", "--view", view]).arg(corpus(trace));
        stdout(&command.output().unwrap())
    };
    let (xen, arm64, svm) = ("xen/pvh2_contend_sched_hvm.xentrace.gz", "arm64/arm.dat.gz", "x86-svm/t4-none.dat.gz");
    for (name, words, on) in [
        // Xen does not poll.
        ("halt", "not blocked: ", [false, true, true]),
        ("halt", "cumulative: ", [false, true, true]),
        ("yield", "sibling preempted, sibling runnable", [true, false, false]),
        // No kernel has KVM_CAP_SYNC_REGS on arm64.
        ("phases", "KVM_CAP_SYNC_REGS", [false, false, true]),
    ] {
        assert_eq!([xen, arm64, svm].map(|trace| view(name, trace).contains(words)), on, "{name}: {words}");
    }
}

#[test]
fn views_and_replays_fit_the_terminal() {
    for trace in common::traces() {
        for arguments in [
            &["report", "--view", "halt"][..],
            &["report", "--view", "gang"],
            &["report", "--view", "interrupts", "--tsc-hz", "2596120000"],
            &["report", "--view", "pio", "--tsc-hz", "2596120000"],
            &["report", "--view", "phases", "--tsc-hz", "2596120000"],
            &["replay", "--policy", "host_halt_poll"],
            &["replay", "--policy", "vcore"],
            &["replay", "--policy", "port_path", "--tsc-hz", "2596120000"],
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

/// A run of `lab exits` with these bounds by reason.
fn saved_bounds(folder: &Path, cpu: &str, rows: &[Value]) -> PathBuf {
    let path = folder.join("lab.json");
    let manifest = json!({"back_end": "kvm_amd", "emulates_ring_0": false, "vendor": "AuthenticAMD", "cpu": cpu,
        "kernel": "6.1.0-1", "tsc_hz": 1_000_000_000, "cpus": 2, "pinned": true, "rounds": 3, "duration_ns": 1_000});
    let table = json!({"title": "Time that no tracepoint sees, around an exit", "labels": ["exit", "handler", "reason"],
        "rows": rows});
    let run = json!({"schema": "exitscope.lab/1", "experiment": "exits", "description": "", "manifest": manifest,
        "summary": [], "warnings": [], "tables": [table]});
    std::fs::write(&path, run.to_string()).unwrap();
    path
}

#[test]
fn what_no_tracepoint_sees_is_exits_times_the_bounds_of_their_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let bound = |handler: &str, reason: &str, bound: f64| {
        let figures = json!([{"name": "bound", "unit": "ns", "value": bound, "low": null, "high": null, "p5": null,
            "p95": null, "samples": null, "outliers": null, "rounds": []}]);
        json!({"labels": ["", handler, reason], "figures": figures, "unavailable": null})
    };
    // Of handlers, the greatest counts; of reasons that were not measured, the greatest of all.
    let rows = [bound("kernel", "io", 100.0), bound("user space", "io", 300.0), bound("kernel", "cpuid", 500.0)];
    let lab = saved_bounds(folder.path(), "", &rows);
    let trace = corpus("x86-svm/t2.data.gz");
    let before = report(&[&trace], &[]);
    assert!(before.get("hidden").is_none(), "only with the flag");
    let with = report(&[&trace], &["--hidden", lab.to_str().unwrap()]);
    let expected: u64 = (before["rows"].as_array().unwrap().iter())
        .map(|row| row["count"].as_u64().unwrap() * if row["reason"] == "io" { 300 } else { 500 })
        .sum();
    let hidden = &with["hidden"];
    let guest: u64 = before["vcpus"].as_array().unwrap().iter().map(|row| row["guest_ns"].as_u64().unwrap()).sum();
    assert_eq!((&hidden["at_most_ns"], &hidden["guest_ns"]), (&json!(expected), &json!(guest)));
    let not_measured = hidden["reasons"].as_array().unwrap().iter().filter(|row| row["measured"] == false);
    assert!(not_measured.count() > 0);
    let text = stdout(&run(&["report", trace.to_str().unwrap(), "--hidden", lab.to_str().unwrap()]));
    assert!(text.contains("of guest time is hidden around entry and exit"), "{text}");
    // What cannot be said is said.
    let refused = |lab: &Path, flags: &[&str]| {
        let output = run(&[&["report", trace.to_str().unwrap(), "--hidden", lab.to_str().unwrap()], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    assert!(refused(&lab, &["--reason", "io"]).contains("omit --reason"));
    assert!(refused(&lab, &["--format", "csv"]).contains("--hidden goes with text and JSON"));
    let why = "no kvm_exit fires with KVM's back end here";
    let none = saved_bounds(folder.path(), "", &[json!({"labels": ["every exit"], "figures": [], "unavailable": why})]);
    assert!(refused(&none, &[]).contains(why));
    let other = saved_bounds(folder.path(), "Another CPU", &rows);
    assert!(refused(&other, &[]).contains("on another CPU (Another CPU)"));
}

#[test]
fn where_nothing_tells_the_guest_from_the_kernel_neither_has_a_column() {
    let page = stdout(&run(&["report", corpus("lab/contended.data.gz").to_str().unwrap(), "--all"]));
    let head = page.lines().find(|line| line.trim_start().starts_with("VM ") && line.contains("wall")).unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert!(columns.contains(&"steal") && columns.contains(&"unknown"), "{head}");
    assert!(!columns.contains(&"guest") && !columns.contains(&"kernel"), "{head}");
}
