//! `--where`: what a condition selects is what other flags select, or what a table of all exits says.

mod common;

use common::{corpus, data_of, report, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

const T2: &str = "x86-svm/t2.data.gz";
const XEN: [&str; 2] = ["--tsc-hz", "1000000000"];

/// Exits and cost of all exits that are selected.
fn total(trace: &str, arguments: &[&str]) -> (u64, u64) {
    sum([&report(&[&corpus(trace)], arguments)["total"]])
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a Value>) -> (u64, u64) {
    let of = |row: &Value| (row["count"].as_u64().unwrap(), row["cost_ns"].as_u64().unwrap_or(0));
    rows.into_iter().map(of).fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1))
}

/// The same without rates: conditions do not narrow the time that vCPUs were there.
fn without_rates(mut of: Value) -> Value {
    match &mut of {
        Value::Array(rows) => rows.iter_mut().for_each(|row| *row = without_rates(row.take())),
        Value::Object(row) => _ = row.remove("rate_per_s"),
        _ => {}
    }
    of
}

#[test]
fn a_condition_selects_what_flags_select() {
    const GANG: &str = "powerpc/p9_smt2_two_vms.data.gz";
    const ARM: &str = "arm64/arm.dat.gz";
    let cases: [(&str, &str, &[&str]); 8] = [
        (T2, "reason = IO", &["--reason", "io"]),
        (T2, "vcpu = 1 and exit_time > 200us", &["--vcpu", "1", "--longer-than", "200us"]),
        (T2, "vcpu = 'vCPU 1'", &["--vcpu", "1"]),
        (T2, "vm = 121", &["-p", "121"]),
        (T2, "reason ~ pf and vcpu != 0", &["--reason", "npf", "--vcpu", "1"]),
        // Its exits do not name their vCPU, which is known later.
        (ARM, "vcpu = 1", &["--vcpu", "1"]),
        (GANG, "vm = 175 and vcpu = 0", &["-p", "175", "--vcpu", "0"]),
        (GANG, "vcpu = gang 176 / 0", &["-p", "176", "--vcpu", "0"]),
    ];
    for (trace, condition, flags) in cases {
        let of = |flags: &[&str]| {
            let of = report(&[&corpus(trace)], flags);
            ["total", "rows", "subjects", "slowest"].map(|part| without_rates(of[part].clone()))
        };
        let [ours, other] = [&["--where", condition], flags].map(of);
        assert!(other[0]["count"].as_u64() > Some(0), "{condition}");
        assert_eq!(ours, other, "{condition}");
    }
}

#[test]
fn a_condition_selects_the_rows_of_a_table_of_all_exits() {
    let rows = |by: &str| report(&[&corpus(T2)], &["--by", by])["rows"].as_array().unwrap().clone();
    let has = |row: &Value, key: &str, part: &str| row[key].as_str().is_some_and(|text| text.contains(part));
    type IsMeant<'a> = &'a dyn Fn(&Value) -> bool;
    let cases: [(&str, &str, IsMeant); 7] = [
        ("subject ~ PCI", "subject", &|row| has(row, "subject_name", "PCI")),
        ("subject ~ 'port 0xcf' and reason = io", "reason,subject", &|row| {
            row["subject_kind"] == "port" && row["subject_key"].as_u64().is_some_and(|port| port >> 4 == 0xcf)
        }),
        ("subject = no subject", "subject", &|row| row.get("subject_kind").is_none()),
        ("handler = user space", "handler", &|row| row["handler"] != "kernel"),
        ("handler = kernel", "handler", &|row| row["handler"] == "kernel"),
        ("cpu = 1", "cpu", &|row| row["cpu"] == 1),
        ("rip ~ 0xffffffff", "rip", &|row| row["rip"].as_u64() >= Some(0xffff_ffff_0000_0000)),
    ];
    for (condition, by, is_meant) in cases {
        let all = rows(by);
        let meant: Vec<_> = all.iter().filter(|row| is_meant(row)).collect();
        assert!(!meant.is_empty() && meant.len() < all.len(), "{condition}: {} of {}", meant.len(), all.len());
        assert_eq!(total(T2, &["--where", condition]), sum(meant), "{condition}");
    }
    // On Xen handlers have other names.
    let of_xen = |flags: &[&str]| total("xen/hvm1_dm_sched_hvm.xentrace.gz", &[&XEN, flags].concat());
    let (far, near) = (of_xen(&["--where", "handler = device model"]), of_xen(&["--where", "handler = Xen"]));
    assert!(far.0 > 0 && near.0 > 0);
    assert_eq!((far.0 + near.0, far.1 + near.1), of_xen(&[]));
}

#[test]
fn lengths_are_those_of_single_exits() {
    let rows = stdout(&run(&["export", corpus(T2).to_str().unwrap(), "--format", "csv"]));
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let rows: Vec<std::collections::HashMap<String, String>> = rows.deserialize().map(Result::unwrap).collect();
    let cost = |row: &std::collections::HashMap<String, String>| {
        ["kernel_ns", "user_space_ns"].map(|part| row[part].parse().unwrap_or(0)).iter().sum::<u64>()
    };
    let long = |row: &&_| cost(row) > 100_000 && row["reason"] == "io" && row["steal_ns"] != "0";
    let meant: Vec<_> = rows.iter().filter(long).collect();
    let found = total(T2, &["--where", "reason = io and cost > 100us and steal > 0"]);
    assert_eq!(found, (meant.len() as u64, meant.into_iter().map(cost).sum()));
    assert!(found.0 > 0);
}

#[test]
fn groups_by_subject_hold_all_exits_in_every_format() {
    let trace = corpus(T2);
    let of = report(&[&trace], &["--by", "reason,subject"]);
    let rows = of["rows"].as_array().unwrap();
    assert_eq!(sum(rows), sum([&of["total"]]));
    for subject in of["subjects"].as_array().unwrap() {
        let is_same = |row: &&Value| {
            ["subject_kind", "subject_key", "direction"]
                .iter()
                .all(|key| row.get(key).unwrap_or(&Value::Null) == subject.get(key).unwrap_or(&Value::Null))
        };
        assert_eq!(sum(rows.iter().filter(is_same)), sum([subject]), "{subject}");
    }
    let trace = trace.to_str().unwrap();
    let condition = ["--by", "reason,subject", "--where", "subject ~ fw_cfg and reason = io"];
    let csv = stdout(&run(&[&["report", trace, "--format", "csv"], &condition[..]].concat()));
    let (heading, rows) = csv.split_once('\n').unwrap();
    assert!(heading.starts_with("reason,subject_kind,subject_key,direction,subject_name,count,"), "{heading}");
    assert!(
        rows.lines().count() > 1 && rows.lines().all(|row| row.starts_with("io,port,") && row.contains(",fw_cfg,")),
        "{rows}"
    );
    let page = stdout(&run(&[&["report", trace], &condition[..]].concat()));
    assert!(page.contains("Selected: where subject ~ fw_cfg and reason = io\n"), "{page}");
    assert!(page.contains("  io      port 0x518 out fw_cfg "), "{page}");
}

#[test]
fn subjects_and_functions_have_the_names_that_flags_give() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let devices = file("devices", "0xfebfb000-0xfebfbfff virtio-blk vda notify\n");
    let mmio = report(&[&corpus(T2)], &["--by", "mmio"]);
    let page = mmio["rows"].as_array().unwrap().iter().filter(|row| row["mmio"] == 0xfebf_b000u64);
    let condition = ["--where", "subject ~ vda"];
    assert_eq!(total(T2, &[&condition[..], &["--devices", &devices]].concat()), sum(page));
    assert_eq!(total(T2, &condition).0, 0, "nobody said so");
    let symbols = file("kallsyms", "0000000040000000 T _start\n0000000040000068 t putc\n0000000040000078 t next\n");
    const ARM: &str = "arm64/arm.dat.gz";
    let symbols = ["--guestkallsyms", &symbols];
    let by_rip = report(&[&corpus(ARM)], &[&["--by", "rip"], &symbols[..]].concat());
    let putc = by_rip["rows"].as_array().unwrap().iter().filter(|row| row["function"] == "putc");
    let putc = sum(putc);
    assert!(putc.0 > 0);
    for condition in ["function = putc", "rip ~ putc+0x"] {
        assert_eq!(total(ARM, &[&["--where", condition], &symbols[..]].concat()), putc, "{condition}");
    }
}

#[test]
fn exports_comparisons_and_pages_hold_what_a_condition_selects() {
    let (path, condition) = (corpus(T2), ["--where", "vcpu = 1 and subject ~ PCI"]);
    let trace = path.to_str().unwrap();
    let count = total(T2, &condition).0;
    let csv = stdout(&run(&[&["export", trace, "--format", "csv"], &condition[..]].concat()));
    assert_eq!(csv.lines().count() as u64, count + 1);
    let diff = stdout(&run(&[&["diff", trace, trace, "--format", "json"], &condition[..]].concat()));
    let diff: Value = serde_json::from_str(&diff).unwrap();
    assert_eq!((diff["after"]["exits"].as_u64(), &diff["selection"]["where"]), (Some(count), &condition[1].into()));
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    assert!(run(&[&["report", trace, "--html", page.to_str().unwrap()], &condition[..]].concat()).status.success());
    let data = data_of(&page);
    assert_eq!(data["report"]["total"]["count"].as_u64(), Some(count));
    assert_eq!(data["report"]["selection"]["where"], condition[1]);
}

#[test]
fn what_is_wrong_with_a_condition_is_told() {
    let trace = corpus(T2);
    let wrong = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()), "{arguments:?}");
        stderr(&output)
    };
    let of = |command: &[&str], condition: &str| {
        wrong(&[&command[..1], &[trace.to_str().unwrap()], &command[1..], &["--where", condition]].concat())
    };
    assert!(of(&["report"], "cots > 1ms").contains("\"cots\" is unknown: there are vm, vcpu, reason, subject,"));
    assert!(of(&["report"], "cost > 5").contains("\"5\" is no length"));
    assert!(of(&["report"], "reason = ioo").contains("no hypervisor has an exit reason \"ioo\""));
    assert!(of(&["export", "--format", "csv"], "function = putc").contains("--guestkallsyms"));
    assert!(of(&["advise"], "cost > 5us").contains("omit --reason, --longer-than and --where"));
    assert!(
        of(&["replay", "--policy", "host_halt_poll"], "cost > 5us")
            .contains("omit --reason, --longer-than and --where")
    );
    assert!(of(&["report", "--bundle", "x"], "cost > 5us").contains("cannot be used with"));
    assert!(!Path::new("x").exists());
}
