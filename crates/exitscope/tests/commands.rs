//! The commands as a user runs them.

mod common;

use common::{corpus, exitscope, report, run, stderr, stdout, unpacked};
use exitscope_model::TimePart;
use exitscope_skips::{Part, need, or_skip};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

fn t2() -> String {
    text(&corpus("x86-svm/t2.data.gz"))
}

#[test]
fn all_of_a_report_is_coverage_then_time_then_reasons() {
    let output = run(&["report", &t2(), "--all"]);
    assert_eq!(output.status.code(), Some(0));
    let page = stdout(&output);
    let places: Vec<_> = [
        "Coverage",
        "130,675 events read, 16,632 exits made (16,630 timed), 0 lost, 0 not understood",
        "Where the wall time of each vCPU went",
        "Exits by reason",
        "MSRs",
        "Interrupts injected",
        "Slowest single exits",
        "Over time",
    ]
    .iter()
    .map(|heading| page.find(heading).unwrap_or_else(|| panic!("{heading} is not on the page")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("MSR_IA32_TSC_DEADLINE write"));
    assert!(!page.contains('\u{1b}'), "no colours where nobody looks");
}

#[test]
fn what_a_halt_waits_is_no_cost_and_what_it_runs_is() {
    let report = report(&[&corpus("x86-svm/t2.data.gz")], &[]);
    let rows = report["rows"].as_array().unwrap();
    let hlt = rows.iter().find(|row| row["reason"] == "hlt").unwrap();
    let of = |name: &str| hlt[name].as_u64().unwrap();
    assert!(of("halted_ns") > 7_800_000_000 && of("steal_ns") > 500_000_000, "{hlt}");
    // The way into each halt and back: a host under emulation takes 200 us for it.
    assert!((300_000_000..400_000_000).contains(&of("cost_ns")), "{hlt}");
    assert_eq!(of("halt_not_divided_ns"), 0, "everything of them is recorded");
    for row in report["vcpus"].as_array().unwrap() {
        let part = |name: &str| row[name].as_u64().unwrap();
        let parts: u64 = TimePart::ALL.iter().map(|of| part(of.column())).sum();
        assert_eq!(parts, part("span_ns"), "the parts of a vCPU's time make up its time");
        for rest in [TimePart::Unknown, TimePart::Excluded] {
            assert!(part(rest.column()) * 1_000 <= parts, "{rest:?} is no place for what was not worked out: {row}");
        }
    }
}

#[test]
fn groups_can_be_formed_by_any_list_of_dimensions() {
    let trace = corpus("x86-svm/t2.data.gz");
    let whole = report(&[&trace], &[])["total"]["count"].as_u64().unwrap();
    for by in [
        "vm",
        "vcpu",
        "reason",
        "handler",
        "port",
        "mmio",
        "msr",
        "hypercall",
        "cpuid",
        "rip",
        "cpu",
        "time",
        "vm,vcpu,reason,time",
    ] {
        let report = report(&[&trace], &["--by", by]);
        let rows = report["rows"].as_array().unwrap();
        let counted: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(counted + report["ungrouped_exits"].as_u64().unwrap(), whole, "{by}");
        assert!(!rows.is_empty(), "{by}");
    }
    let ports = report(&[&trace], &["--event", "ioport"]);
    assert_eq!(ports["by"], serde_json::json!(["port"]), "perf's name for it");
}

#[test]
fn where_in_the_guest_exits_are_is_told_by_instruction_and_by_function() {
    let trace = corpus("arm64/arm.dat.gz");
    let rows = |arguments: &[&str]| {
        let report = report(&[&trace], &[&["--by", "rip,reason"], arguments].concat());
        let rows = report["rows"].as_array().unwrap().clone();
        rows.into_iter().map(|row| (row["rip"].as_u64().unwrap(), row)).collect::<Vec<_>>()
    };
    let sum = |rows: &[(u64, serde_json::Value)], of: std::ops::Range<u64>, reason: &str| {
        let rows = rows.iter().filter(|row| of.contains(&row.0) && (reason.is_empty() || row.1["reason"] == reason));
        rows.map(|row| row.1["count"].as_u64().unwrap()).sum::<u64>()
    };
    let plain = rows(&[]);
    // The 784 reads and 784 writes of the serial port's registers are each one instruction of its loop.
    for rip in [0x4000_006c, 0x4000_0070] {
        let row = plain.iter().find(|row| row.0 == rip && row.1["reason"] == "DABT_LOW").unwrap();
        assert_eq!((row.1["count"].as_u64(), row.1.get("function")), (Some(784), None));
    }
    let folder = tempfile::tempdir().unwrap();
    let symbols = folder.path().join("kallsyms");
    std::fs::write(&symbols, "0000000040000000 T _start\n0000000040000068 t putc\n0000000040000078 t next\n").unwrap();
    let named = rows(&["--guestkallsyms", symbols.to_str().unwrap()]);
    let (all, in_putc) = (0..u64::MAX, 0x4000_0068..0x4000_0078);
    assert_eq!(sum(&named, all.clone(), ""), sum(&plain, all, ""));
    let putc = named.iter().find(|row| row.1["function"] == "putc" && row.1["reason"] == "DABT_LOW").unwrap();
    let counted = putc.1["count"].as_u64().unwrap();
    assert!(putc.0 == 0x4000_0068 && counted >= 2 * 784, "{counted}");
    assert_eq!(sum(&plain, in_putc.clone(), "DABT_LOW"), counted);
    assert_eq!(sum(&named, 0x4000_0068..0x4000_0069, ""), sum(&plain, in_putc, ""));
    for (by, file, why) in [
        ("reason", &symbols, "requires --html, --by rip, or rip or function in --where"),
        ("rip", &trace, "line 1 is not `address type name`"),
        ("rip", &folder.path().join("none"), "No such file"),
    ] {
        let command = ["report", trace.to_str().unwrap(), "--by", by, "--guestkallsyms", file.to_str().unwrap()];
        let output = run(&command);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn exits_can_be_selected() {
    let trace = corpus("x86-svm/t2.data.gz");
    let count = |arguments: &[&str]| report(&[&trace], arguments)["total"]["count"].as_u64().unwrap();
    assert_eq!(count(&["--reason", "IO,msr"]), 3839 + 3859);
    assert_eq!(count(&["--vcpu", "0"]) + count(&["--vcpu", "1"]), 16632);
    assert_eq!(count(&["-p", "121"]), 16632);
    assert_eq!(count(&["--to", "35"]) + count(&["--from", "35.000000001"]), 16632);
    assert!((1..200).contains(&count(&["--longer-than", "20ms", "--reason", "io,npf,msr"])));
    let arm = corpus("arm64/arm.dat.gz");
    let of = |vcpu| report(&[&arm], &["--vcpu", vcpu])["total"]["count"].as_u64().unwrap();
    assert_eq!((of("0"), of("1"), of("2")), (1947, 2029, 0), "although no exit event names its vCPU");
}

#[test]
fn rows_come_in_the_order_asked_for_and_no_more_than_asked_for() {
    let trace = corpus("x86-svm/t2.data.gz");
    for (sort, field) in
        [("count", "count"), ("sample", "count"), ("max_t", "max_ns"), ("p99", "p99_ns"), ("exit-time", "exit_time_ns")]
    {
        let report = report(&[&trace], &["-k", sort, "--top", "5"]);
        let values: Vec<u64> =
            report["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).collect();
        assert_eq!(values.len(), 5);
        assert!(values.is_sorted_by(|a, b| a >= b), "{sort}: {values:?}");
        assert_eq!(report["rows_left_out"], 13);
    }
}

#[test]
fn a_dimension_named_twice_and_no_rows_at_all_are_errors_that_say_so() {
    let cases =
        [(["--by", "reason,vcpu,reason"], "names reason twice"), (["--top", "0"], "a number from 1 on, or all")];
    for (arguments, words) in cases {
        let output = run(&[&["report", &t2()], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn what_is_left_out_of_a_table_is_said_and_can_be_asked_for() {
    let page = stdout(&run(&["report", &t2(), "--all"]));
    let msrs = |page: &str| page.lines().skip_while(|line| *line != "MSRs").skip(2).position(|line| line.is_empty());
    assert!(page.contains("\n  and 119 more (--top N or --format json)\n"), "{page}");
    assert_eq!(msrs(&page), Some(8 + 1));
    let page = stdout(&run(&["report", &t2(), "--top", "3"]));
    assert!(page.contains("\n  and 15 more (--top N or --format json)\n"), "of 18 reasons:\n{page}");
    assert_eq!(msrs(&page), Some(3 + 1));
    let page = stdout(&run(&["report", &t2(), "--top", "all"]));
    assert!(!page.contains(" more ("), "{page}");
    assert_eq!(msrs(&page), Some(127));
    assert_eq!(report(&[&corpus("x86-svm/t2.data.gz")], &["--top", "3"])["subjects"].as_array().unwrap().len(), 530);
    let page = stdout(&run(&["diff", &t2(), &t2(), "--top", "2"]));
    assert!(page.contains("\n  and 16 more (--top N or --format json)\n"), "{page}");
}

#[test]
fn the_selection_in_force_is_said() {
    let only = ["-p", "121", "--vcpu", "0,1", "--reason", "io,MSR", "--from", "+1.5s", "--to", "35.25"];
    let length = ["--longer-than", "100.5us"];
    let said = "Selected: VM 121; vCPU 0, 1; reason io, MSR; from +1.5 s; to 35.25 s; longer than 100.5us. vCPUs' time is what passed within; ";
    let page = stdout(&run(&[&["report", &t2(), "--all"], &only[..], &length].concat()));
    assert!(page.contains(said), "{page}");
    assert!(page.contains("of all exits, whatever --reason, --longer-than and --where select"), "{page}");
    let expected = serde_json::json!({
        "vms": [121], "vcpus": [0, 1], "reasons": ["io", "MSR"], "longer_than_ns": 100_500,
        "from": {"after_first_ns": 1_500_000_000u64}, "to": {"at_ns": 35_250_000_000u64},
    });
    let trace = corpus("x86-svm/t2.data.gz");
    assert_eq!(report(&[&trace], &[&only[..], &length].concat())["selection"], expected);
    assert_eq!(report(&[&trace], &[])["selection"], serde_json::json!({"vms": [], "vcpus": [], "reasons": []}));
    assert!(!stdout(&run(&["report", &t2(), "--all"])).contains("Selected:"));
    let summary = stdout(&run(&["report", &t2(), "--reason", "io"]));
    assert!(summary.contains("selected: reason io") && summary.contains("no advice"), "{summary}");
    assert!(stdout(&run(&[&["diff", &t2(), &t2()], &only[..], &length].concat())).contains(said));
}

#[test]
fn every_page_fits_the_terminal() {
    let at_width = |columns: usize, arguments: &[&str]| {
        let mut command = exitscope();
        command.env("COLUMNS", columns.to_string()).current_dir(corpus("README.md").parent().unwrap());
        let page = stdout(&command.args(arguments).output().unwrap());
        let too_long = page.lines().find(|line| line.chars().count() > columns);
        assert_eq!(too_long, None, "{arguments:?} at {columns}");
        page
    };
    for trace in common::traces() {
        let name = trace.strip_prefix(corpus("README.md").parent().unwrap()).unwrap();
        at_width(80, &["report", &text(name), "--all"]);
        at_width(160, &["report", &text(name), "--all"]);
        // Of a log of Xen's, the rate is not known.
        if !text(name).contains("xen") {
            for columns in [60, 80, 100, 160] {
                let page = at_width(columns, &["report", &text(name)]);
                // What was not seen is told whole, on as many lines as that takes.
                let most = if columns < 80 { 32 } else { 24 };
                assert!(page.lines().count() <= most, "{columns}: {page}");
            }
        }
    }
    // Where nothing fits, it ends all the same.
    for columns in ["1", "2", "9", "33"] {
        let output = exitscope().env("COLUMNS", columns).env("LC_ALL", "C").args(["report", &t2()]).output().unwrap();
        assert!(output.status.success() && stdout(&output).is_ascii(), "{columns}: {output:?}");
    }
    let page = at_width(80, &["report", "x86-svm/t2.data.gz", "--all"]);
    assert!(page.replace("\n    ", " ").contains("counts as zero: 41\n"), "{page}");
    let diff = ["diff", "x86-svm/t2.data.gz", "x86-svm/t4-none.dat.gz"];
    assert!(at_width(80, &diff).contains("  change  interval of the change\n"), "{}", at_width(80, &diff));
    assert!(at_width(160, &diff).contains("  change  interval of the change\n"));
}

#[test]
fn the_first_screens_coverage_is_wrapped_and_not_cut() {
    let coverage = |trace: &str, columns: &str| {
        let page = stdout(&exitscope().env("COLUMNS", columns).args(["report", trace]).output().unwrap());
        let (_, rest) = page.split_once("Coverage: ").unwrap_or_else(|| panic!("{page}"));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let end = words.iter().position(|word| ["More:", "No"].contains(word)).unwrap();
        words[..end].join(" ")
    };
    for trace in common::traces().iter().map(|trace| text(trace)) {
        let [narrow, usual, wide] = ["60", "80", "100"].map(|columns| coverage(&trace, columns));
        assert_eq!((&narrow, &usual), (&wide, &wide), "{trace}");
        assert!(!narrow.contains('…'), "{trace}: {narrow}");
    }
    let doubts = coverage(&text(&corpus("powerpc/p8_smt4_two_vms.data.gz")), "80");
    assert!(doubts.contains("steal by other vCPUs' exits and other tasks was not recorded, a"), "{doubts}");
    assert!(doubts.ends_with("not judged"), "{doubts}");
}

#[test]
fn a_recording_without_times_shows_no_times() {
    let trace = text(&corpus("powerpc/p8_smt4_gang_exits_rfc.data.gz"));
    let page = stdout(&run(&["report", &trace, "--all"]));
    assert!(page.contains("\n  exits "), "{page}");
    assert!(!page.contains("cost") && !page.contains("share"), "{page}");
    let page = stdout(&run(&["report", &trace]));
    assert!(page.contains("Doubtful what exits cost") && page.contains("477 of 1,024 core runs were ganged"), "{page}");
}

#[test]
fn the_peers_default_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let within = |arguments: &[&str]| exitscope().current_dir(folder.path()).args(arguments).output().unwrap();
    for command in ["report", "events", "diff"] {
        let output = within(&[command]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(stderr(&output).contains("here") && stderr(&output).contains("perf.data"), "{}", stderr(&output));
    }
    let put = |name: &str| std::fs::copy(corpus("powerpc/p8_smt4_cede_all.data.gz"), folder.path().join(name)).unwrap();
    put("trace.dat");
    for command in ["report", "events"] {
        assert_eq!(stderr(&within(&[command])), "exitscope: reading trace.dat\n");
    }
    put("perf.data");
    for command in ["report", "events"] {
        let output = within(&[command]);
        assert_eq!(stderr(&output), "exitscope: reading perf.data\n");
        assert_eq!(within(&[command, "-i", "trace.dat"]).stdout.len(), output.stdout.len());
    }
    assert_eq!(within(&["diff"]).status.code(), Some(2), "one trace has nothing to be compared with");
    put("perf.data.old");
    assert!(stderr(&within(&["diff"])).contains("comparing perf.data.old with perf.data"));
    let named = within(&["diff", "--before", "perf.data.old", "--after", "perf.data"]);
    assert_eq!(named.stdout, within(&["diff"]).stdout);
    assert!(stderr(&within(&["diff", "--before", "perf.data"])).contains("no trace from after the change"));
}

#[test]
fn csv_and_json_have_values_beside_names() {
    let rows = |by: &str| -> Vec<Vec<String>> {
        let text = stdout(&run(&["report", &t2(), "--format", "csv", "--by", by]));
        text.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
    };
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("port", &["port", "direction", "subject_name"], &["3324", "out", "PCI config data"]),
        ("vm,vcpu", &["vm", "vm_name", "vcpu", "tid", "on_cpu"], &["121", "qemu-system-x86", "0", "", ""]),
        ("msr,handler", &["msr", "handler", "direction", "subject_name"], &["2096", "kernel", "write", "x2APIC_ICR"]),
        ("hypercall", &["hypercall", "direction", "subject_name"], &["5", "", "KICK_CPU"]),
        ("time", &["time_ns"], &["30000000000"]),
    ];
    for (by, heading, first) in cases {
        let rows = rows(by);
        assert_eq!(rows[0][..heading.len()], *heading, "{by}");
        assert_eq!(rows[1][..first.len()], *first, "{by}");
        assert_eq!(rows[0][heading.len()], "count", "{by}");
    }
    let slow = report(&[&corpus("x86-svm/t2.data.gz")], &[])["slowest"][0].clone();
    let of = |name: &str| slow[name].clone();
    assert_eq!((of("subject"), of("subject_kind")), ("0xcfc out PCI config data".into(), "port".into()));
    assert_eq!(
        (of("subject_key"), of("subject_name"), of("direction")),
        (0xcfc.into(), "PCI config data".into(), "out".into())
    );
}

#[test]
fn csv_has_a_heading_and_the_same_figures() {
    let output = run(&["report", &t2(), "--format", "csv", "--by", "reason,handler"]);
    let text = stdout(&output);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("reason,handler,count,timed,rate_per_s,exit_time_ns,cost_ns,"));
    let total: u64 = lines.map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(total, 16632);
}

#[test]
fn thresholds_decide_the_exit_code() {
    for (limit, code) in
        [("p99(io)>200us", 1), ("p99(io)>200ms", 0), ("lost>0", 0), ("share(*)>=100%", 1), ("count(hlt)<10", 0)]
    {
        assert_eq!(run(&["report", &t2(), "--fail-on", limit]).status.code(), Some(code), "{limit}");
    }
    let output = run(&["report", &t2(), "--fail-on", "p98(io)>1us"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no figure"));
    // A length of what did not occur is no length; that it did not occur is certain.
    let output = run(&["report", &t2(), "--fail-on", "p99(rdpmc)>1us"]);
    assert_eq!((output.status.code(), stderr(&output).contains("p99(rdpmc)>1us cannot be judged")), (Some(2), true));
    assert_eq!(run(&["report", &t2(), "--fail-on", "count(rdpmc)>0"]).status.code(), Some(0));
    for arguments in [["--fail-on", "p99(nosuch)>1us"], ["--reason", "nosuch"], ["--interval", "1s"]] {
        assert_eq!(run(&[&["report", &t2()], &arguments[..]].concat()).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_gate_that_cannot_judge_is_neither_passed_nor_held() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path)
    };
    let cut = write("cut.dat", &unpacked("x86-svm/t4-v6.dat.gz")[..5 << 20]);
    let garbage = write("garbage", &[0x5a; 4096]);
    let packed = std::fs::read(corpus("x86-svm/t2.data.gz")).unwrap();
    let cut_packed = write("cut.data.gz", &packed[..packed.len() / 3]);
    let (t2, missing) = (t2(), text(&folder.path().join("missing")));
    let unsaid = write("report.txt", b" qemu-229 [001] 87.1: kvm_exit: vcpu 0 reason hlt rip 0x1\n");
    let cases: [(&str, &[&str], &str, i32); 16] = [
        (&missing, &[], "count(io)>1", 2),
        (&garbage, &[], "count(io)>1", 2),
        (&cut_packed, &[], "count(io)<1", 2),
        (&cut_packed, &[], "lost>0", 2),
        // What is missing might have made it pass, or hold.
        (&cut, &[], "count(*)>1000000", 2),
        (&cut, &[], "p99(*)>1ns", 2),
        (&cut, &[], "lost>0", 1),
        (&unsaid, &[], "lost>0", 2),
        (&unsaid, &[], "count(hlt)<1", 0),
        (&t2, &["--vcpu", "77"], "p99(*)>1us", 2),
        (&t2, &["--vcpu", "77"], "count(*)>1", 2),
        (&t2, &["--from", "+1000s"], "cost(io)>1us", 2),
        (&t2, &["--reason", "io"], "share(io)<100%", 0),
        (&t2, &[], "p99(io>200us", 2),
        (&t2, &[], "share(io)>12.345%", 2),
        // Both are said; that one is passed does not make the other judged.
        (&t2, &["--fail-on", "count(io)>1"], "p99(rdpmc)>1us", 2),
    ];
    for (file, more, limit, code) in cases {
        let output = run(&[&["report", file, "--fail-on", limit], more].concat());
        assert_eq!(output.status.code(), Some(code), "{file} {more:?} {limit}: {}", stderr(&output));
        assert!(code == 0 || !stderr(&output).is_empty(), "{limit}");
    }
}

#[test]
fn percentiles_of_all_exits_leave_halts_out_in_the_table_and_in_gates() {
    let json: serde_json::Value = serde_json::from_str(&stdout(&run(&["report", &t2(), "--format", "json"]))).unwrap();
    assert_eq!(json["exit_times_without"], serde_json::json!(["hlt"]));
    let (total, hlt) =
        (&json["total"], json["rows"].as_array().unwrap().iter().find(|row| row["reason"] == "hlt").unwrap());
    assert!(total["max_ns"].as_u64() < hlt["max_ns"].as_u64());
    assert_eq!(total["count"], 16632, "they are counted");
    let page = stdout(&run(&["report", &t2(), "--all"]));
    assert!(page.contains("all: mean to max are without halts (hlt)"), "{page}");
    for (figure, found) in [("p99", &total["p99_ns"]), ("max", &total["max_ns"]), ("mean", &total["mean_ns"])] {
        let found = found.as_u64().unwrap();
        for (limit, code) in [(found - 1, 1), (found, 0)] {
            let limit = format!("{figure}(*)>{limit}ns");
            assert_eq!(run(&["report", &t2(), "--fail-on", &limit]).status.code(), Some(code), "{limit}");
        }
    }
}

/// What was not measured is neither below nor above a limit, and what the selection leaves out is not absent.
#[test]
fn a_gate_does_not_pass_on_what_it_cannot_know() {
    let untimed = text(&corpus("powerpc/p8_2core_smt4_gang_exits_rfc.data.gz"));
    for limit in ["cost>1us", "cost<1us", "exit_time>1us", "p99>1us", "share(SYSCALL)>1%"] {
        let output = run(&["report", &untimed, "--fail-on", limit]);
        assert_eq!(output.status.code(), Some(2), "{limit}: {}", stderr(&output));
    }
    let output = run(&["report", &t2(), "--reason", "io", "--fail-on", "count(npf)>1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("npf, which --reason leaves out"), "{}", stderr(&output));
    assert_eq!(
        run(&["report", &t2(), "--reason", "io", "--fail-on", "count(IO_INSTRUCTION)>1"]).status.code(),
        Some(1)
    );
}

/// A run like that of a trace of the corpus, under a kernel of another release.
fn of_another_kernel(trace: &str, folder: &Path) -> PathBuf {
    let (release, other) = (b"6.1.0-56-cloud-amd64", b"6.1.0-57-cloud-amd64");
    let (folders, name) = trace.rsplit_once('/').unwrap();
    let mut bytes = unpacked(&format!("{}/{name}", folders.rsplit('/').next().unwrap()));
    let at: Vec<usize> = (0..bytes.len() - release.len()).filter(|&at| bytes[at..].starts_with(release)).collect();
    assert!(!at.is_empty(), "{trace} names its kernel");
    at.into_iter().for_each(|at| bytes[at..at + other.len()].copy_from_slice(other));
    let path = folder.join(name.trim_end_matches(".gz"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_change_that_is_certainly_beyond_a_limit_fails_a_job() {
    let (t1, t2) = (text(&corpus("x86-svm/t4-none.dat.gz")), t2());
    let cases = [
        (&t2, &t2, "cost>+5%", 0),
        (&t1, &t2, "cost(nosuch)>+5%", 2),
        (&t1, &t2, "cost(rdpmc)>+5%", 2),
        (&t1, &t2, "cost>5%", 2),
        (&t1, &t2, "cost(io>+5%", 2),
    ];
    let folder = tempfile::tempdir().unwrap();
    let like = |trace: &str| text(&of_another_kernel(trace, folder.path()));
    let (like_t1, like_t2) = (like(&t1), like(&t2));
    for (before, after, limit, code) in cases {
        let [more_before, more_after] = [before, after].map(|of| if of == &t1 { &like_t1 } else { &like_t2 });
        let output = run(&["diff", before, after, "--before", more_before, "--after", more_after, "--fail-on", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", stderr(&output));
    }
    // The exits of msr are fewer by 110 % to 58 % of what they were; the least of that is certain. Intel's word for them is one of AMD's.
    for (limit, code) in [
        ("rate(msr)<-10%", 1),
        ("rate(MSR_WRITE)<-10%", 1),
        ("rate(msr)<-90%", 0),
        ("rate(MSR)>+0%", 0),
        ("p50(msr)>+5%", 1),
    ] {
        let output = run(&["diff", &t1, &t2, "--before", &like_t1, "--after", &like_t2, "--fail-on", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", stderr(&output));
        // With one on a side nobody knows what is from run to run.
        for one in [
            &["diff", &t1, &t2, "--fail-on", limit][..],
            &["diff", &t1, &t2, "--after", &like_t2, "--fail-on", limit],
            &["diff", &t1, &t2, "--before", &t1, "--after", &t2, "--fail-on", limit],
        ] {
            let output = run(one);
            assert_eq!(output.status.code(), Some(2), "{limit}: {}", stderr(&output));
            assert!(stderr(&output).contains("give each side several (--before, --after)"), "{}", stderr(&output));
            let page = stdout(&output);
            assert!(!page.contains("Better") && !page.contains("Worse"), "{page}");
        }
    }
}

/// Nobody learns how runs differ from one of them under two names, however it is named.
#[test]
fn copies_of_a_recording_are_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path)
    };
    let ftrace = unpacked("reports/r13b-haltpoll-cap.txt.gz");
    let (t1, t2) = (unpacked("x86-svm/t4-none.dat.gz"), unpacked("x86-svm/t2.data.gz"));
    // The last is of a host with a name, of which overlapping recordings are counted once anyway.
    let named = unpacked("lab/contended.data.gz");
    for [before, after] in [[&t1, &t2], [&t2, &ftrace], [&ftrace, &t1], [&named, &named]] {
        let [one, copy, other, others] =
            [("a", before), ("b", before), ("c", after), ("d", after)].map(|(name, of)| put(name, of));
        let alone = run(&["diff", &one, &other, "--format", "json"]);
        let output = run(&[
            "diff",
            &one,
            &other,
            "--before",
            &copy,
            "--after",
            &others,
            "--format",
            "json",
            "--fail-on",
            "cost>+5%",
        ]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let [alone, both] =
            [&alone, &output].map(|of| -> serde_json::Value { serde_json::from_slice(&of.stdout).unwrap() });
        assert_eq!(alone["rows"], both["rows"]);
        for of in ["state", "text", "details", "total"] {
            assert_eq!(alone["verdict"][of], both["verdict"][of], "{of}");
        }
        for side in ["before", "after"] {
            assert_eq!(both[side]["traces"].as_array().unwrap().len(), 1);
            assert_eq!(both[side]["exits"], alone[side]["exits"]);
            let lines = both[side]["lines"].as_array().unwrap();
            assert!(lines.iter().any(|line| line["id"] == "copied_file" && line["count"] == 1), "{lines:?}");
        }
        let page = stdout(&run(&["diff", &one, &other, "--before", &copy, "--after", &others]));
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for side in ["before", "after"] {
            let said = format!(
                "1 file {side} adds nothing to the others, as copies do, and does not count as a \
                recording"
            );
            assert!(page.contains(&said), "{page}");
        }
    }
}

/// A part of a recording and the same one on another clock are no further recordings either; of no host by name, as texts are.
#[test]
fn parts_of_a_recording_and_shifted_clocks_are_no_further_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let lines = String::from_utf8(unpacked("reports/r13b-haltpoll-cap.txt.gz")).unwrap();
    let put = |name: &str, lines: Vec<String>| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        text(&path)
    };
    let is_event = |line: &&str| !line.starts_with('#');
    let events = lines.lines().filter(is_event).count();
    let head = || lines.lines().take_while(|line| line.starts_with('#')).map(str::to_string);
    let part = |name, from: usize, to: usize| {
        let of = lines.lines().filter(is_event).take(to).skip(from).map(str::to_string);
        put(name, head().chain(of).collect())
    };
    let (begin, end) = (part("begin", 0, events / 2), part("end", events / 2, events));
    let later = |line: &str| {
        let (thread, event) = line.split_once("] ")?;
        let at = event.split_whitespace().find(|word| word.ends_with(':'))?;
        let (seconds, rest) = at.split_once('.')?;
        let moved = format!("{}.{rest}", seconds.parse::<u64>().ok()? + 5000);
        Some(format!("{thread}] {}", event.replacen(at, &moved, 1)))
    };
    let moved = lines.lines().map(|line| later(line).unwrap_or_else(|| line.to_string())).collect();
    let shifted = put("shifted", moved);
    let whole = put("whole", lines.lines().map(str::to_string).collect());
    let other = folder.path().join("other");
    std::fs::write(&other, unpacked("x86-svm/t2.data.gz")).unwrap();
    let other = text(&other);
    for also in [begin.clone(), end.clone(), shifted] {
        let output = run(&["diff", &whole, &other, "--before", &also, "--format", "json"]);
        let both: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(both["before"]["traces"].as_array().unwrap().len(), 1, "{also}");
    }
    // The other way round, what the part holds is counted once.
    let exits = |of: &[&str]| -> serde_json::Value {
        let output = run(&[&["report", "--format", "json"], of].concat());
        let count = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["coverage"]["exits"].clone();
        assert!(count.as_u64() > Some(0));
        count
    };
    for files in [[&begin, &whole], [&whole, &begin]] {
        assert_eq!(exits(&files.map(String::as_str)), exits(&[&whole]), "{files:?}");
    }
}

/// A clock that begins anew comes by the same moments again: other events at the same time are other exits.
#[test]
fn recordings_of_one_host_by_name_whose_events_differ_are_all_counted() {
    let folder = tempfile::tempdir().unwrap();
    let record = |seed: &str| {
        let path = text(&folder.path().join(seed));
        let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/web.toml");
        assert!(run(&["sim", scenario, "--seed", seed, "--trace", &path]).status.success());
        path
    };
    let exits = |of: &[&str]| {
        let output = run(&[&["report", "--format", "json"], of].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["coverage"]["exits"].as_u64().unwrap()
    };
    let exported = |of: &[&str]| {
        let path = text(&folder.path().join("folded"));
        assert!(run(&[&["export", "--format", "folded", "--output", &path], of].concat()).status.success());
        let stacks = std::fs::read_to_string(&path).unwrap();
        stacks.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum::<u64>()
    };
    let (one, two) = (record("1"), record("2"));
    for files in [[&one, &two], [&two, &one]].map(|files| files.map(String::as_str)) {
        assert_eq!(exits(&files), exits(&[&one]) + exits(&[&two]));
        assert_eq!(exported(&files), exported(&[&one]) + exported(&[&two]));
        // One after the other by time is no order of them.
        let output = run(&[&["export", "--format", "csv", "-o", "/dev/null"][..], &files].concat());
        assert!(stderr(&output).contains("recorded at the same time"), "{}", stderr(&output));
    }
}

#[test]
fn a_closed_pipe_takes_no_finding_back() {
    for (limit, code) in [("count(io)>1", 1), ("p99(rdpmc)>1us", 2), ("count(io)<1", 0)] {
        for format in ["text", "json", "csv"] {
            let mut child = exitscope()
                .args(["report", &t2(), "--format", format, "--fail-on", limit])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            drop(child.stdout.take());
            assert_eq!(child.wait().unwrap().code(), Some(code), "{limit} as {format}");
        }
    }
}

#[test]
fn a_vm_is_named_by_name_or_number_in_every_command_and_one_that_is_not_there_lists_those_that_are() {
    let (t2, two) = (t2(), text(&corpus("powerpc/p8_smt4_two_vms.data.gz")));
    let commands: [&[&str]; 7] = [
        &["report", &t2],
        &["report", &t2, "--format", "json"],
        &["export", &t2, "--format", "folded"],
        &["advise", &t2],
        &["diff", &t2, &t2],
        &["replay", &t2, "--policy", "host_halt_poll"],
        &["replay", &t2, "--policy", "port_path"],
    ];
    for command in commands {
        let all = run(command);
        assert_eq!(all.status.code(), Some(0), "{command:?}");
        // The name as the kernel cuts it, as it was before, and the number: the recording has one VM.
        for vm in ["qemu-system-x86", "qemu-system-x86_64", "121"] {
            let one = run(&[command, &["--vm", vm]].concat());
            assert_eq!(one.status.code(), Some(0), "{command:?} {vm}: {}", stderr(&one));
        }
        for vm in ["qemu", "99"] {
            let none = run(&[command, &["--vm", vm]].concat());
            assert_eq!(none.status.code(), Some(2), "{command:?} {vm}");
            let said = stderr(&none);
            assert!(said.contains("there are 121 (qemu-system-x86)"), "{command:?} {vm}: {said}");
        }
    }
    // Both sides of a comparison need not have it.
    assert_eq!(run(&["diff", &t2, &two, "--vm", "121"]).status.code(), Some(0));
}

#[test]
fn vcpus_of_several_vms_are_told_apart() {
    let two = text(&corpus("powerpc/p8_smt4_two_vms.data.gz"));
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&run(&["report", &two, "--by", "vcpu", "--format", "json"]))).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let mut vms: Vec<_> = rows.iter().filter(|row| row["vcpu"] == 0).map(|row| row["vm"].as_u64().unwrap()).collect();
    vms.sort_unstable();
    vms.dedup();
    assert_eq!((json["by"].clone(), vms.len()), (serde_json::json!(["vm", "vcpu"]), 2), "{rows:#?}");
}

#[test]
fn vcpus_of_the_same_number_are_two_where_nothing_says_their_vms() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("two.txt");
    let lines = |tid: u32, at: u32| {
        format!(
            " CPU 0/KVM-{tid}  [000] d..1.  10.{at:06}: kvm_exit: vcpu 0 reason CPUID rip 0x1 info1 0x0 info2 0x0\n \
             CPU 0/KVM-{tid}  [000] d..1.  10.{:06}: kvm_entry: vcpu 0, rip 0x1\n",
            at + 5
        )
    };
    std::fs::write(&trace, (0..20).map(|at| lines(70 + at % 2, at * 10)).collect::<String>()).unwrap();
    let page = stdout(&run(&["report", &text(&trace), "--by", "vcpu"]));
    for tid in [70, 71] {
        let label = format!("0 (thread {tid})");
        assert!(page.lines().any(|line| line.trim_start().starts_with(&label)), "{page}");
        let row = format!("- thread {tid} 10 ");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.lines().any(|line| words(line).starts_with(&row)), "{page}");
    }
}

#[test]
fn halts_without_an_end_are_not_none_and_shares_of_unknown_times_are_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("exits.txt");
    let line = |at: u32| {
        format!(" qemu-70  [000] d..1.  10.{at:06}: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0\n")
    };
    std::fs::write(&trace, (0..20).map(|at| line(at * 10)).collect::<String>()).unwrap();
    let page = stdout(&run(&["report", &text(&trace), "--all"]));
    assert!(page.contains("20 halts, none of them with both ends in the recording"), "{page}");
    assert!(
        page.lines().any(|line| line.split_whitespace().eq(["vCPU", "wall", "unknown", "exits", "exits/s"])),
        "{page}"
    );
}

#[test]
fn a_file_of_which_nothing_could_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::read(corpus("x86-svm/t2.data.gz")).unwrap();
    let path = folder.path().join("cut.data.gz");
    std::fs::write(&path, &packed[..packed.len() / 3]).unwrap();
    let cut = text(&path);
    let page = text(&folder.path().join("page.html"));
    let cases: [&[&str]; 6] = [
        &["report", &cut, "--fail-on", "lost>0"],
        &["report", &cut, "--fail-on", "count(*)<1", "--format", "json"],
        &["report", &cut, "--fail-on", "count(*)<1", "--html", &page],
        &["advise", &cut],
        &["export", &cut, "--format", "folded"],
        &["diff", &cut, &t2()],
    ];
    for arguments in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("no event could be read"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_was_not_recorded_is_not_zero() {
    // Exits and entries alone, and with details, but without the scheduler.
    let bare = text(&corpus("x86-svm/t4-kvmstat.data.gz"));
    let report = |file: &str, more: &[&str]| run(&[&["report", file][..], more].concat());
    let page = stdout(&report(&bare, &["--all"]));
    assert!(page.contains("No kvm_userspace_exit and no sched_switch in the trace:"), "{page}");
    assert!(!page.contains("to user space") && !page.contains("halted  steal"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&report(&bare, &["--format", "json"]))).unwrap();
    let none = serde_json::json!({ "user_space": false, "scheduler": false, "all_steal": false, "kvm_run": false });
    assert_eq!(json["event_kinds"], none);
    let output = report(&bare, &["--fail-on", "user_space(io)<1%"]);
    assert_eq!((output.status.code(), stderr(&output).contains("went on to user space")), (Some(2), true));

    let page = stdout(&report(&text(&corpus("x86-svm/t4-zstd.data.gz")), &["--all"]));
    assert!(page.contains("No sched_switch in the trace:") && page.contains("to user space"), "{page}");
    assert!(!page.contains("halted  steal"), "{page}");

    let page = stdout(&report(&t2(), &["--all"]));
    assert!(
        page.contains("to user space") && page.contains("halted  steal") && !page.contains(" in the trace: "),
        "{page}"
    );
    assert_eq!(report(&t2(), &["--fail-on", "user_space(io)<1%"]).status.code(), Some(0));
    assert_eq!(report(&t2(), &["--fail-on", "user_space(io)>1%"]).status.code(), Some(1));
}

#[test]
fn lengths_of_exits_without_entries_are_null_and_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, " qemu-229 [001] 87.1: kvm_exit: vcpu 0 reason hlt rip 0x1\n").unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&run(&["report", "--format", "json", &text(&path)]))).unwrap();
    for figures in [&json["total"], &json["rows"][0]] {
        assert_eq!((&figures["count"], &figures["timed"]), (&1.into(), &0.into()));
        for name in ["cost_ns", "exit_time_ns", "share_of_cost", "kernel_ns", "halted_ns"] {
            assert!(figures.as_object().unwrap().contains_key(name) && figures[name].is_null(), "{name}: {figures}");
        }
    }
    assert!(json["vcpus"][0]["cost_ns"].is_null() && json["timeline"]["cost_ns"].is_null(), "{json}");
    let csv = stdout(&run(&["report", "--format", "csv", &text(&path)]));
    assert!(csv.lines().nth(1).unwrap().contains(",1,0,0,,,,"), "{csv}");
    // Of no exits at all the sum is zero.
    let none = run(&["report", "--format", "json", "--longer-than", "1s", &text(&path)]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&none)).unwrap();
    assert_eq!((&json["total"]["count"], &json["total"]["cost_ns"]), (&0.into(), &0.into()));
}

#[test]
fn of_a_text_that_does_not_say_what_was_lost_the_report_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let events =
        " qemu-229 [001] 87.1: kvm_exit: vcpu 0 reason hlt rip 0x1\n qemu-229 [001] 87.2: kvm_entry: vcpu 0, rip 0x1\n";
    for (header, lost, said) in [
        ("", None, "losses unknown"),
        ("# tracer: nop\n# entries-in-buffer/entries-written: 2/2   #P:2\n", Some(0), "0 lost"),
        ("# tracer: nop\n# entries-in-buffer/entries-written: 2/9   #P:2\n", Some(7), "7 lost"),
        ("# tracer: nop\n# entries-in-buffer/entries-written: 9/9   #P:2\n", None, "losses unknown"),
    ] {
        std::fs::write(&path, format!("{header}{events}")).unwrap();
        let page = stdout(&run(&["report", &text(&path), "--all"]));
        assert!(page.contains(&format!("2 events read, 1 exits made (1 timed), {said}, 0 not understood")), "{page}");
        assert_eq!(page.contains("Texts that do not record losses"), header.is_empty(), "{page}");
        assert_eq!(page.contains("it is cut or filtered, or they were lost: 7"), header.contains("9/9"), "{page}");
        let gate = run(&["report", &text(&path), "--fail-on", "lost>0"]);
        assert_eq!(gate.status.code(), Some(lost.map_or(2, |lost| (lost > 0).into())), "{}", stderr(&gate));
        let json = stdout(&run(&["report", &text(&path), "--format", "json"]));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["coverage"]["lost"], serde_json::json!(lost));
    }
}

#[test]
fn what_a_cut_file_lacks_can_fail_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(corpus("x86-svm/t2.data.gz")).unwrap();
    let cut = folder.path().join("cut.data.gz");
    std::fs::write(&cut, &bytes[..bytes.len() / 3]).unwrap();
    assert_eq!(run(&["report", &text(&cut), "--fail-on", "lost>0"]).status.code(), Some(2), "nothing could be read");
    let page = stdout(&run(&["report", &text(&cut), "--all"]));
    assert!(page.contains("None of the events could be read.") && !page.contains("Record with"), "{page}");
    let output = run(&["report", &text(&cut), "--format", "csv"]);
    assert!(!stderr(&output).is_empty(), "CSV has no place for it, so it is said beside");
}

#[test]
fn in_any_window_the_parts_of_a_vcpus_time_make_up_its_time() {
    let trace = corpus("x86-svm/t2.data.gz");
    let whole = report(&[&trace], &[]);
    let sum = |report: &serde_json::Value, name: &str| -> u64 {
        report["vcpus"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
    };
    let parts: Vec<&str> = TimePart::ALL.iter().map(|part| part.column()).chain(["span_ns"]).collect();
    let mut windows = [0; TimePart::ALL.len() + 1];
    for second in (30..42).step_by(2) {
        let (from, to) = (format!("{second}"), format!("{}", second + 2));
        let report = report(&[&trace], &["--from", &from, "--to", &to]);
        let of: Vec<u64> = parts.iter().map(|part| sum(&report, part)).collect();
        let (span, parts) = of.split_last().unwrap();
        assert_eq!(parts.iter().sum::<u64>(), *span, "from {second} s on: {of:?}");
        windows.iter_mut().zip(of).for_each(|(all, one)| *all += one);
    }
    for (part, windows) in parts.iter().zip(windows) {
        assert!(windows.abs_diff(sum(&whole, part)) < 1_000, "{part}: windows {windows}, whole {}", sum(&whole, part));
    }
}

#[test]
fn a_trace_may_come_compressed_or_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("pipe.data");
    let unpacked = unpacked("x86-svm/t4-pipe.data.gz");
    std::fs::write(&plain, &unpacked).unwrap();
    let expected = report(&[&plain], &[])["rows"].clone();
    for (tool, ending) in [("gzip", "gz"), ("zstd", "zst"), ("xz", "xz")] {
        let output = Command::new(tool).args(["-q", "-k", "-c"]).arg(&plain).output();
        let output = output.unwrap_or_else(|error| panic!("{tool} is needed for this test: {error}"));
        let path = folder.path().join(format!("packed.{ending}"));
        std::fs::write(&path, output.stdout).unwrap();
        assert_eq!(report(&[&path], &[])["rows"], expected, "{tool}");
    }
    let mut child = exitscope()
        .args(["report", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&unpacked).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["rows"], expected);
}

#[test]
fn events_are_one_json_object_a_line() {
    let output = run(&["events", &text(&corpus("powerpc/p8_smt4_cede_all.data.gz")), "--format", "json"]);
    let text = stdout(&output);
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exits: Vec<_> = rows.iter().filter(|row| row["kind"] == "exit").collect();
    assert!(exits.len() > 10);
    assert!(exits.iter().all(|row| row["event"] == "kvm_hv:kvm_guest_exit" && row["reason"].is_string()));
    assert!(rows.is_sorted_by_key(|row| row["at_ns"].as_u64().unwrap()));
}

#[test]
fn events_are_those_of_the_threads_and_the_moments_that_are_asked_for() {
    let rows = |flags: &[&str]| -> Vec<serde_json::Value> {
        let output = run(&[&["events", &t2(), "--format", "json"], flags].concat());
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = rows(&[]);
    let (from, to) = (33_000_000_000u64, 33_010_000_000u64);
    let tid = &all.iter().find(|row| row["kind"] == "exit").unwrap()["tid"];
    let is_in = |row: &&serde_json::Value| (from..=to).contains(&row["at_ns"].as_u64().unwrap());
    let within: Vec<_> = all.iter().filter(is_in).collect();
    let of_thread: Vec<_> = within.iter().filter(|row| row["tid"] == *tid).collect();
    assert!(!of_thread.is_empty() && of_thread.len() < within.len() && within.len() < all.len());
    assert!(rows(&["--from", "33.0", "--to", "33.01"]).iter().eq(within.iter().copied()));
    let asked = rows(&["--from", "33.0", "--to", "33.01", "--tid", &tid.to_string()]);
    let (own, others): (Vec<_>, Vec<_>) = asked.iter().partition(|row| row["tid"] == *tid);
    assert!(own.into_iter().eq(of_thread.into_iter().copied()));
    // Others give way to it, and wake it.
    assert!(others.iter().any(|row| row["kind"] == "switch") && others.iter().any(|row| row["kind"] == "wakeup"));
    assert!(others.iter().all(|row| row["next"] == *tid), "{others:#?}");
}

#[test]
fn a_diff_finds_what_differs_and_nothing_where_nothing_does() {
    let output = run(&["diff", &t2(), &t2(), "--format", "json"]);
    let same: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = |diff: &serde_json::Value| -> Vec<String> {
        let rows = diff["rows"].as_array().unwrap().clone();
        let changes = rows.iter().flat_map(|row| row["changes"].as_array().unwrap().clone());
        changes.map(|change| change["verdict"].as_str().unwrap().to_string()).collect()
    };
    assert!(verdicts(&same).iter().all(|verdict| verdict == "not judged" || verdict == "too few"));
    // Of one recording a side no row says more than the headline; of several, one may.
    let other = text(&corpus("x86-svm/t4-none.dat.gz"));
    let decided = |verdict: &String| verdict == "more" || verdict == "less";
    for (more, is_told) in [(false, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let likes = [t2(), other.clone()].map(|trace| text(&of_another_kernel(&trace, folder.path())));
        let more: &[&str] = if more { &["--before", &likes[0], "--after", &likes[1]] } else { &[] };
        let output = run(&[&["diff", &t2(), &other, "--format", "json"], more].concat());
        let differs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(verdicts(&differs).iter().any(decided), is_told, "{more:?}: {:?}", differs["verdict"]["state"]);
    }
    let output = run(&["diff", &t2(), &other, "--before", &other, "--after", &t2(), "--format", "json"]);
    let mixed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let decided = verdicts(&mixed).into_iter().filter(|verdict| verdict == "more" || verdict == "less").count();
    assert_eq!(decided, 0, "sides that differ as much within as between them decide nothing");
    let output = run(&["diff", &t2(), &other]);
    assert!(stdout(&output).contains("No row has a verdict, for the reason above"));
    assert!(!stdout(&output).contains("no clear difference"), "that would be a verdict: {}", stdout(&output));
}

/// A trace.dat of the corpus with this option, in the place of the statistics of CPU 1.
fn with_option(trace: &str, id: u16, data: &[u8]) -> tempfile::NamedTempFile {
    let mut bytes = unpacked(trace);
    let stat = bytes.windows(7).position(|window| window == b"CPU: 1\n").unwrap();
    bytes[stat - 6..stat - 4].copy_from_slice(&id.to_le_bytes());
    bytes[stat..stat + data.len()].copy_from_slice(data);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// Has a trace.dat of the corpus say that a guest recorded it in step with its host, on the same clock.
fn as_a_guests(trace: &str) -> tempfile::NamedTempFile {
    // TIME_SHIFT, of one CPU with one measurement, and a fraction.
    let words = [7u64.to_le_bytes(), (1u64 << 32).to_le_bytes()].concat();
    let sample = [0u64, 0, 1, 0].map(u64::to_le_bytes).concat();
    with_option(trace, 12, &[words, 1u32.to_le_bytes().to_vec(), sample].concat())
}

#[test]
fn a_guests_own_recording_is_not_its_hosts() {
    let (host, guest) = (corpus("x86-svm/t4-v6.dat.gz"), as_a_guests("x86-svm/t4-none.dat.gz"));
    let alone = report(&[&host], &[]);
    let line = |report: &Value, id: &str| {
        let lines = report["coverage"]["lines"].as_array().unwrap();
        lines.iter().find(|line| line["id"] == id).map(|line| line["count"].as_u64().unwrap())
    };
    for files in [[&host, guest.path()], [guest.path(), &host]] {
        let both = report(&files, &[]);
        // The guest has sched_switch, the host has not.
        for what in ["event_kinds", "vcpus", "total", "rows", "duration_ns"] {
            assert_eq!(both[what], alone[what], "{what}");
        }
        assert_eq!(line(&both, "guest_recording"), Some(1));
        // Those that accounting has a use for; the others are counted as such.
        assert!(line(&both, "guest_event").is_some_and(|events| events > 50_000));
        assert_eq!(both["coverage"]["events"], 122_366 + 79_339);
    }
    // Alone it may be a host of others.
    let guests = report(&[guest.path()], &[]);
    assert_eq!(guests["rows"], report(&[&corpus("x86-svm/t4-none.dat.gz")], &[])["rows"]);
    assert_eq!(line(&guests, "guest_recording"), Some(1));
    // So may two be of which no host is given.
    let other = as_a_guests("x86-svm/t4-v6.dat.gz");
    let count = |report: &Value| report["total"]["count"].as_u64().unwrap();
    assert_eq!(count(&report(&[guest.path(), other.path()], &[])), count(&guests) + count(&alone));
    assert!(count(&guests) > 0 && count(&alone) > 0);
}

#[test]
fn a_guest_whose_clock_was_not_measured_is_known_by_what_its_hosts_recording_says() {
    let (guest, names_guest) = (corpus("x86-svm/t4-v6.dat.gz"), |id: &[u8]| {
        // GUEST: name, id of its trace, no threads.
        with_option("x86-svm/t4-none.dat.gz", 13, &[b"guest\0", id, &[0; 4]].concat())
    });
    let bytes = unpacked("x86-svm/t4-v6.dat.gz");
    let trace_id = bytes.windows(6).rposition(|option| option == b"\x0b\0\x08\0\0\0").unwrap() + 6;
    let trace_id = &bytes[trace_id..trace_id + 8];
    let host = names_guest(trace_id);
    let (alone, both) = (report(&[host.path()], &[]), report(&[&guest, host.path()], &[]));
    for what in ["event_kinds", "vcpus", "total", "rows", "duration_ns"] {
        assert_eq!(both[what], alone[what], "{what}");
    }
    let has_guest = |report: &Value| {
        let lines = report["coverage"]["lines"].as_array().unwrap();
        lines.iter().any(|line| line["id"] == "guest_recording" && line["count"] == 1)
    };
    assert!(has_guest(&both) && !has_guest(&alone));
    // The guest of another is a host as any.
    let stranger = names_guest(&[0x55; 8]);
    let both = report(&[&guest, stranger.path()], &[]);
    assert!(both["total"]["count"].as_u64() > alone["total"]["count"].as_u64() && !has_guest(&both));
}

#[test]
fn a_recording_within_another_adds_neither_exits_nor_time() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, seconds: std::ops::Range<u32>| {
        let exit = |at: u32| {
            let thread = "            qemu   120/121 [001]";
            format!(
                "{thread} {at}.100000000: kvm:kvm_exit: vcpu 0 reason CPUID rip 0x1 info1 0x0 info2 0x0\n\
                 {thread} {at}.200000000: kvm:kvm_entry: vcpu 0, rip 0x1\n"
            )
        };
        let exits: String = seconds.map(exit).collect();
        let path = folder.path().join(name);
        std::fs::write(&path, format!("# captured on    : now\n# hostname : here\n{exits}")).unwrap();
        path
    };
    let (outer, inner, last) = (write("outer", 10..20), write("inner", 13..16), write("last", 18..25));
    let report = |files: &[&PathBuf]| report(&files.iter().map(|path| path.as_path()).collect::<Vec<_>>(), &[]);
    let figures = |report: &Value| (report["total"]["count"].as_u64(), report["duration_ns"].as_u64());
    for files in [&[&outer][..], &[&outer, &inner], &[&inner, &outer]] {
        assert_eq!(figures(&report(files)), (Some(10), Some(9_100_000_000)), "{files:?}");
    }
    for files in [[&inner, &outer, &last], [&last, &inner, &outer], [&outer, &last, &inner]] {
        assert_eq!(figures(&report(&files)), (Some(15), Some(14_100_000_000)), "{files:?}");
    }
}

#[test]
fn one_file_named_twice_is_read_once() {
    let output = run(&["report", &t2(), "-i", &t2()]);
    assert!(stdout(&output).contains(" 16,632 exits\n"));
    assert!(stderr(&output).contains("named twice"));
}

#[test]
fn what_cannot_be_read_is_one_line_on_standard_error_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path)
    };
    let prose = b"# A title\n\nSome words.\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(prose).unwrap();
    let cases = [
        (text(folder.path()), "is a directory"),
        (file("empty", b""), "is empty"),
        (env!("CARGO_BIN_EXE_exitscope").to_string(), "its first bytes are 7f 45 4c 46"),
        (file("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"), "its first bytes are 89 50 4e 47"),
        (file("readme", prose), "its first bytes are 23 20 41"),
        (file("readme.gz", &packed.finish().unwrap()), "its first bytes are 23 20 41"),
        (file("cut.gz", b"\x1f\x8b\x08"), "cannot unpack"),
        (file("magic", b"PERFILE2"), "perf.data header at byte 8 is cut off"),
        (file("trace.dat", b"\x17\x08\x44tracing7\0"), "at byte 12 is cut short"),
        (text(&folder.path().join("missing")), "No such file"),
    ];
    for command in ["report", "events"] {
        for (path, words) in &cases {
            let output = run(&[command, path]);
            assert_eq!(output.status.code(), Some(2), "{path}");
            assert!(output.stdout.is_empty(), "{path}");
            let message = stderr(&output);
            assert!(message.starts_with("exitscope: ") && message.contains(words), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}

/// What `exitscope report` says of a FIFO through which these bytes come.
fn report_of_fifo(bytes: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is needed for this test").success());
    let child =
        exitscope().args(["report", "--all"]).arg(&fifo).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::File::options().write(true).open(&fifo).unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_fifo_that_ends_early_gives_a_report_or_an_error_that_says_so() {
    let bytes = unpacked("x86-svm/t4-pipe.data.gz");
    // Between two records, no pipe says that more were to come; here it ends within one.
    let output = report_of_fifo(&bytes[..1_000_003]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let page = stdout(&output);
    let warning = "warning: Bytes at the end of the file that do not make a whole record";
    assert!(page.contains(warning) && page.contains("exits made"), "{page}");
    for (end, words) in [(0, "is empty"), (4, "is not a trace"), (12, "at byte 8 is cut off")] {
        let output = report_of_fifo(&bytes[..end]);
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn a_cut_trace_gives_a_report_whose_coverage_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for (trace, keep, words) in [
        ("x86-svm/t4-kvmstat.data.gz", 1 << 20, "bytes that the header promises and the file lacks"),
        ("x86-svm/t4-v6.dat.gz", 5 << 20, "bytes that the header promises and the file lacks"),
        ("x86-svm/t4-none.dat.gz", 5 << 20, "bytes that the header promises and the file lacks"),
        ("x86-svm/t4-ftrace.txt.gz", 1 << 20, "do not make a whole record"),
    ] {
        std::fs::write(&path, &unpacked(trace)[..keep]).unwrap();
        let output = run(&["report", &text(&path), "--all"]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{trace}");
        let page = stdout(&output);
        assert!(page.starts_with("Coverage") && page.contains(words), "{trace}: {page}");
    }
    // Before its events there is nothing to account for.
    std::fs::write(&path, &unpacked("x86-svm/t4-none.dat.gz")[..1 << 20]).unwrap();
    let output = run(&["report", &text(&path), "--all"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("options at byte "), "{}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    for arguments in [&["events"][..], &["events", "--format", "json"], &["report", "--format", "json"], &["report"]] {
        let mut command = exitscope();
        command.args(arguments).arg(t2()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&run(&["completions", shell])).contains("fail-on"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", &text(folder.path())]).status.success());
    for page in ["exitscope.1", "exitscope-report.1", "exitscope-events.1", "exitscope-diff.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn of_very_many_vcpus_those_that_cost_most_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("many.txt");
    let mut lines = "# tracer: nop\n#\n".to_string();
    for number in 0..40 {
        let mut line = |at_us: u64, event: &str| {
            lines += &format!("  CPU {number}/KVM-{}  [002] d..2. 100.{at_us:06}: {event}\n", 2001 + number);
        };
        let at = 1_000 * number;
        line(at, "kvm_exit: reason CPUID rip 0xffffffff81000000 info 0 0");
        line(at + 10 * (number + 1), &format!("kvm_entry: vcpu {number}, rip 0xffffffff81000002"));
    }
    std::fs::write(&trace, lines).unwrap();
    let trace = text(&trace);
    let shown = |top: &[&str]| {
        let page = stdout(&run(&[&["report", &trace, "--all"], top].concat()));
        let table = page.lines().skip_while(|line| !line.starts_with("Where the wall time")).skip(2);
        let rows = table.take_while(|line| !line.is_empty()).map(|line| line.trim().to_string());
        rows.collect::<Vec<String>>()
    };
    let rows = shown(&["--top", "3"]);
    let vcpus: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().next()).collect();
    let last_32: Vec<String> = (8..40).map(|number| number.to_string()).collect();
    assert_eq!(vcpus[..32], last_32, "{rows:#?}");
    assert_eq!(rows[32..], ["and 8 more (--top N or --format json)"]);
    assert_eq!(shown(&["--top", "all"]).len(), 40);
}

#[test]
fn what_is_written_is_its_owners_alone_and_never_goes_through_a_link() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (victim, out) = (folder.path().join("victim"), folder.path().join("out"));
    let (old, t2, to) = (folder.path().join("out.old"), t2(), text(&out));
    let commands: [&[&str]; 3] = [
        &["report", &t2, "--html", &to],
        &["export", &t2, "--format", "folded", "-o", &to],
        &["sim", "../../scenarios/ping-pong.toml", "--trace", &to],
    ];
    for command in commands {
        std::fs::write(&victim, "precious").unwrap();
        let _ = std::fs::remove_file(&out);
        // A link that somebody put there, to a file, and to nowhere.
        for target in [&victim, &folder.path().join("nowhere")] {
            symlink(target, &out).unwrap();
            let output = run(command);
            assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious", "{command:?}");
            assert!(!folder.path().join("nowhere").exists(), "{command:?}");
            let about = out.symlink_metadata().unwrap();
            assert!(about.is_file() && about.len() > 0, "{command:?}");
            assert_eq!(about.permissions().mode() & 0o777, 0o600, "{command:?}");
            assert!(old.is_symlink(), "the link is what was there");
            std::fs::remove_file(&out).unwrap();
        }
        // What was there stays as FILE.old.
        std::fs::write(&out, "before").unwrap();
        assert_eq!(run(command).status.code(), Some(0), "{command:?}");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "before", "{command:?}");
        assert_ne!(out.metadata().unwrap().ino(), old.metadata().unwrap().ino());
    }
    // A pipe is written as it is.
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = exitscope()
        .args(["export", &t2, "--format", "folded", "-o", &text(&fifo)])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(std::fs::read_to_string(&fifo).unwrap().contains(";io;"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_recording_of_another_user_is_read_only_if_it_is_asked_for() {
    use std::os::unix::fs::{MetadataExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.data.gz");
    std::fs::copy(corpus("x86-svm/t4-pipe.data.gz"), &path).unwrap();
    let is_theirs = folder.path().metadata().unwrap().uid() == 0 && chown(&path, Some(12_345), None).is_ok();
    or_skip!(need(is_theirs, Part::Root, "only root can give a file away"));
    let theirs = text(&path);
    let commands: [&[&str]; 6] = [
        &["report", &theirs],
        &["events", &theirs],
        &["advise", &theirs],
        &["export", &theirs, "--format", "folded"],
        &["diff", &theirs, &theirs],
        &["replay", &theirs, "--policy", "port_path"],
    ];
    for command in commands {
        let output = run(command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains("owned by another user (uid 12345); -f reads it"), "{}", stderr(&output));
        assert_eq!(run(&[command, &["-f"]].concat()).status.code(), Some(0), "{command:?}");
    }
}

#[test]
fn where_nothing_can_be_unpacked_the_folder_is_named() {
    let trace = text(&corpus("x86-svm/t2.data.gz"));
    let output = exitscope().env("TMPDIR", "/nowhere").args(["report", &trace]).output().unwrap();
    let said = stderr(&output);
    assert!(
        output.status.code() == Some(2) && said.contains("a file of /nowhere, and none can be made there"),
        "{said}"
    );
}
