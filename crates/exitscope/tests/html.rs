//! `report --html`: a page where the front end was built, and what to do where it was not. What is on the page is tested in
//! a browser, by web/test.

mod common;

use common::server::front_end;
use common::{check_json, corpus, data_of, run, stderr};
use exitscope_skips::or_skip;

#[test]
fn a_comparison_a_sweep_and_a_fleet_are_on_their_pages_as_they_are_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("out.html");
    let [before, after] = ["t4-none.dat.gz", "t4-zstd.data.gz"].map(|name| corpus(&format!("x86-svm/{name}")));
    let scenario = corpus("../scenarios/first.toml");
    let diff = ["diff", before.to_str().unwrap(), after.to_str().unwrap()];
    let vary = ["sweep", scenario.to_str().unwrap(), "--vary", "halt_poll_ns=0,50us", "--replicates", "2"];
    let store = folder.path().join("fleet");
    let fleet = ["fleet", "report", store.to_str().unwrap(), "--by", "host"];
    let mut commands = vec![("diff", &diff[..]), ("sweep", &vary)];
    if cfg!(feature = "sql") {
        for (host, file) in [("a", &corpus("x86-svm/t2.data.gz")), ("b", &after)] {
            let output = run(&["store", "add", fleet[2], file.to_str().unwrap(), "--host", host]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        commands.push(("fleet", &fleet));
    }
    for (kind, command) in commands {
        let output = run(&[command, &["--html", page.to_str().unwrap()]].concat());
        if !exitscope_page::is_built() {
            assert_eq!(output.status.code(), Some(2));
            assert!(stderr(&output).contains("make page"), "{}", stderr(&output));
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let json = data_of(&page);
        check_json("page", [&json]);
        let printed = run(&[command, &["--format", "json"]].concat());
        let printed: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(json["kind"], kind);
        assert_eq!(json[kind], printed);
        for (lengths, row) in
            json["lengths"].as_array().into_iter().flatten().zip(json["diff"]["rows"].as_array().into_iter().flatten())
        {
            let sum = |at: usize| {
                lengths["counts"].as_array().unwrap().iter().map(|row| row[at].as_u64().unwrap()).sum::<u64>()
            };
            assert_eq!(lengths["reason"], row["reason"]);
            let counts = ["count_before", "count_after"].map(|name| row[name].as_u64().unwrap());
            // At either end of a recording some exits have one end only.
            assert!(counts[0] - sum(1) <= 4 && counts[1] - sum(2) <= 4, "{row}");
        }
    }
}

#[test]
fn a_page_is_written_or_what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("out.html");
    let trace = corpus("x86-svm/t4-kvmstat.data.gz");
    let output = run(&["report", trace.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    let pages = front_end();
    if pages.is_err() {
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("make page"), "{}", stderr(&output));
        assert!(!page.exists());
    }
    or_skip!(pages);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json = data_of(&page);
    check_json("page", [&json]);
    assert_eq!(json["kind"], "report");
    let report = run(&["report", trace.to_str().unwrap(), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let phases = &report["phases"];
    let emulated = |row: &serde_json::Value| row["emulated"].as_u64();
    let by_reason: u64 = phases["rows"].as_array().unwrap().iter().filter_map(emulated).sum();
    let all = ["in_kernel", "in_user_space"].map(|part| emulated(&phases[part]).unwrap());
    assert_eq!(all.iter().sum::<u64>(), by_reason);
    for part in ["total", "vcpus", "rows", "slowest", "coverage", "phases"] {
        assert_eq!(json["report"][part], report[part], "{part}");
    }
}

#[test]
fn a_trace_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("perf.data");
    std::fs::copy(corpus("x86-svm/t4-kvmstat.data.gz"), &trace).unwrap();
    let before = std::fs::read(&trace).unwrap();
    let output = run(&["report", trace.to_str().unwrap(), "--html", trace.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(&trace).unwrap(), before);
}

#[test]
fn a_page_has_its_own_order_and_groups() {
    let output = run(&["report", "trace.dat", "--html", "out.html", "--by", "vcpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--by"), "{}", stderr(&output));
}
