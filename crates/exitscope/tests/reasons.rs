//! Exit reasons by name: of `--reason`, `--where`, and the limits of `--fail-on`.

mod common;

use common::{corpus, report, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// Recordings of each vendor's, a reason of another one's that none of their exits has, and the flags that they need.
const RECORDINGS: [(&str, &str, &[&str]); 5] = [
    ("x86-svm/t2.data.gz", "rdpmc", &[]),
    ("reports/r10-guest-perf-pmu.txt.gz", "xsetbv", &[]),
    ("arm64/arm.dat.gz", "io", &[]),
    ("powerpc/p8_smt4_cede_all.data.gz", "EPT_VIOLATION", &[]),
    ("xen/pvh1_hvm.xentrace.gz", "rdpmc", &["--tsc-hz", "2596120000"]),
];

fn path(file: &str) -> String {
    corpus(file).to_str().unwrap().to_string()
}

/// The reasons that a recording's exits have, most frequent first.
fn reasons(file: &str, flags: &[&str]) -> Vec<String> {
    let report = report(&[&corpus(file)], flags);
    let row = |row: &Value| (row["count"].as_u64().unwrap(), row["reason"].as_str().unwrap().to_string());
    let mut rows: Vec<(u64, String)> = report["rows"].as_array().unwrap().iter().map(row).collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    assert!(!rows.is_empty(), "{file}");
    rows.into_iter().map(|row| row.1).collect()
}

/// How at most 20 of them are named.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(20) {
        0 => format!("there are {shown}\n"),
        more => format!("there are {shown}, and {more} more\n"),
    }
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()), "{arguments:?}");
    stderr(&output)
}

#[test]
fn a_reason_that_no_exit_has_is_refused_with_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    for (file, absent, flags) in RECORDINGS {
        let (trace, names) = (path(file), reasons(file, flags));
        let wanted = format!("exitscope: no exit in {trace} has the reason {absent}; {}", listed(&names));
        for command in [
            &["report", &trace][..],
            &["report", &trace, "--format", "json"],
            &["report", &trace, "--html", page.to_str().unwrap()],
            &["export", &trace, "--format", "csv"],
        ] {
            assert_eq!(refused(&[command, &["--reason", absent], flags].concat()), wanted, "{command:?}");
        }
        let of_both = wanted.replacen(&trace, &format!("{trace}, {trace}"), 1);
        assert_eq!(refused(&[&["diff", &trace, &trace, "--reason", absent], flags].concat()), of_both);
    }
    assert!(!page.exists());
}

#[test]
fn a_name_that_no_vendor_has_is_refused_with_the_recordings_reasons() {
    for (file, _, flags) in RECORDINGS {
        let (trace, names) = (path(file), reasons(file, flags));
        let wanted = format!("exitscope: no hypervisor has an exit reason \"nosuch\"; {}", listed(&names));
        let present = names[0].as_str();
        for arguments in [
            &["report", &trace, "--reason", "nosuch"][..],
            &["report", &trace, "--reason", present, "--reason", "nosuch"],
            &["report", &trace, "--where", "reason = nosuch"],
            &["report", &trace, "--fail-on", "count(nosuch)>0"],
            &["report", &trace, "--html", "page.html", "--fail-on", "count(nosuch)>0"],
            &["diff", &trace, &trace, "--reason", "nosuch"],
            &["diff", &trace, &trace, "--fail-on", "p99(nosuch)>+10%"],
            &["export", &trace, "--format", "csv", "--reason", "nosuch"],
        ] {
            assert_eq!(refused(&[arguments, flags].concat()), wanted, "{arguments:?}");
        }
    }
    assert!(!Path::new("page.html").exists());
}

#[test]
fn a_limit_on_a_reason_that_did_not_occur_counts_nothing() {
    for (file, absent, flags) in RECORDINGS {
        let trace = path(file);
        for (limit, code) in [(format!("count({absent})>0"), 0), (format!("count({absent})<1"), 1)] {
            let output = run(&[&["report", &trace, "--fail-on", &limit], flags].concat());
            assert_eq!(output.status.code(), Some(code), "{file} {limit}: {}", stderr(&output));
        }
    }
}

#[test]
fn one_of_several_reasons_is_enough_and_either_vendors_word_is_a_name() {
    let count = |file: &str, reasons: &str| {
        report(&[&corpus(file)], &["--reason", reasons])["total"]["count"].as_u64().unwrap()
    };
    let svm = "x86-svm/t2.data.gz";
    let io = count(svm, "io");
    assert!(io > 0);
    assert_eq!([count(svm, "rdpmc,IO"), count(svm, "IO_INSTRUCTION"), count(svm, "rdpmc,io_instruction")], [io; 3]);
    let vmx = "reports/r10-guest-perf-pmu.txt.gz";
    assert_eq!(count(vmx, "msr"), count(vmx, "MSR_READ,MSR_WRITE"));
}

#[test]
fn a_time_without_such_exits_is_no_misspelt_name() {
    let output = run(&["report", &path("x86-svm/t2.data.gz"), "--reason", "io", "--from", "+1000s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
