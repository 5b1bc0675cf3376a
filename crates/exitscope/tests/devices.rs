//! Subjects are called what `--devices` says, wherever they are named.

mod common;

use common::{corpus, data_of, exitscope, report, run, stderr, stdout};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

/// A recording of one VM, qemu-system-x86 121, whose disk's doorbell is at 0xfebfb000.
fn t2() -> PathBuf {
    corpus("x86-svm/t2.data.gz")
}

/// A file of devices.
fn devices(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("devices");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_string();
    (folder, path)
}

/// The rows of a list that are about this page, by what they are called.
fn called(rows: &Value, key: u64) -> Vec<Option<&str>> {
    let rows = rows.as_array().unwrap().iter().filter(|row| row["subject_key"] == key || row["mmio"] == key);
    rows.map(|row| row["subject_name"].as_str()).collect()
}

const TABLE: &str = "vm qemu-system-x86_64\n0xfebfb000-0xfebfbfff virtio-blk vda notify\nport 0xcf8-0xcff PCI of q35\n\
    guest linux 6.1\n";

#[test]
fn what_a_table_names_is_named_in_every_table_of_a_report() {
    let (_folder, path) = devices(TABLE);
    let named = Some("virtio-blk vda notify");
    let of = report(&[&t2()], &["--devices", &path]);
    assert_eq!(called(&of["subjects"], 0xfebf_b000), [named]);
    assert_eq!(called(&of["pio"]["rows"], 0xfebf_b000).first(), Some(&named));
    assert!(called(&of["subjects"], 0xfebf_8000).iter().all(Option::is_none), "nobody said what that is");
    assert_eq!(called(&of["subjects"], 0xfed0_0000).first(), Some(&Some("HPET")), "as on all PCs");
    assert_eq!(called(&of["subjects"], 0xcfc).first(), Some(&Some("PCI of q35")));
    let timer = of["injected"].as_array().unwrap().iter().find(|row| row["vector"] == 0xec).unwrap();
    assert_eq!(timer["name"], "LOCAL_TIMER");
    for by in ["mmio", "vm,mmio"] {
        assert_eq!(called(&report(&[&t2()], &["--devices", &path, "--by", by])["rows"], 0xfebf_b000), [named], "{by}");
    }
    let page = stdout(&run(&["report", t2().to_str().unwrap(), "--all", "--devices", &path]));
    assert!(page.contains("0xfebfb000 write virtio-blk vda notify"), "{page}");
    assert!(page.contains("(236, LOCAL_TIMER)"), "{page}");
    let plain = report(&[&t2()], &[]);
    assert!(called(&plain["subjects"], 0xfebf_b000).iter().all(Option::is_none));
    assert!(plain["injected"].as_array().unwrap().iter().all(|row| row.get("name").is_none()));
}

#[test]
fn pages_exports_and_advice_call_it_the_same() {
    let (folder, path) = devices(TABLE);
    let trace = t2();
    let trace = trace.to_str().unwrap();
    let csv = stdout(&run(&["export", trace, "--format", "csv", "--devices", &path]));
    assert!(csv.lines().filter(|line| line.contains("virtio-blk vda notify")).count() >= 302, "each exit is");
    let firefox = stdout(&run(&["export", trace, "--format", "firefox", "--devices", &path]));
    assert!(firefox.contains("0xfebfb000 write virtio-blk vda notify"));
    let advice = stdout(&run(&["advise", trace, "--devices", &path]));
    assert!(advice.contains("PCI configuration (mostly port 0xcfc, PCI of q35)"), "{advice}");
    if common::server::front_end().is_ok() {
        let page = folder.path().join("page.html");
        assert!(run(&["report", trace, "--devices", &path, "--html", page.to_str().unwrap()]).status.success());
        let abouts = data_of(&page).to_string();
        assert!(abouts.contains("MMIO 0xfebfb000 write virtio-blk vda notify"));
    }
}

#[test]
fn what_is_wrong_with_it_is_told_with_file_and_line() {
    let trace = t2();
    let trace = trace.to_str().unwrap();
    for (text, says) in [
        ("port 0x3f8 a\nport 0x3f0-0x3f8 b\n", "line 2: 0x3f0-0x3f8 overlaps 0x3f8 of line 1"),
        ("serial\n", "line 1: \"serial\" is no line of a table of devices"),
    ] {
        let (_folder, path) = devices(text);
        for command in ["report", "advise", "export"] {
            let mut arguments = vec![command, trace, "--devices", &path];
            arguments.extend(if command == "export" { vec!["--format", "csv"] } else { vec![] });
            let output = run(&arguments);
            assert_eq!(output.status.code(), Some(2), "{command}");
            assert!(stderr(&output).contains(&format!("{path}: {says}")), "{}", stderr(&output));
        }
    }
    let gone = run(&["report", trace, "--devices", "/nowhere/devices"]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(stderr(&gone).contains("/nowhere/devices: No such file"), "{}", stderr(&gone));
    let (_folder, path) = devices("vm other\nport 0xcf8 x\n");
    let output = run(&["report", trace, "--devices", &path]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("--devices names the VM \"other\", which no recording has"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_pipe_names_subjects_in_a_condition_and_in_the_report() {
    let trace = t2();
    let condition = "subject ~ 'virtio-blk vda'";
    for command in [&["report", "--format", "json"][..], &["export", "--format", "csv"]] {
        let arguments = [command, &["--where", condition, "--devices", "/dev/stdin", trace.to_str().unwrap()]].concat();
        let mut child = exitscope().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(TABLE.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{command:?}");
        assert!(stdout(&output).contains("virtio-blk vda notify"), "{command:?}");
    }
}

#[test]
fn a_host_of_arm_has_no_pc_devices_and_a_guests_own_list_names_its_console() {
    let (_folder, path) =
        devices("09000000-09000fff : pl011@9000000\n  09000000-09000fff : 9000000.pl011 pl011@9000000\n");
    let arm = corpus("arm64/arm.dat.gz");
    let of = report(&[&arm], &["--devices", &path]);
    assert_eq!(called(&of["subjects"], 0x900_0000), [Some("9000000.pl011 pl011@9000000"); 2]);
    assert!(called(&of["subjects"], 0x800_0000).iter().all(Option::is_none));
}
