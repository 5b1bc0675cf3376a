//! What must hold of the lab and the doctor on SVM: what the lab counts in user space is what the kernel traced.

use super::steps::{Outcome, equal};
use anyhow::{Context, ensure};
use serde_json::Value;

/// The ports that the lab's payload writes to tell the lab something, and those of them that mean: halt, sleep; wake a
/// vCPU, answer a client, submit to a disk. `crates/lab/src/abi.rs` has them all.
const BELLS: std::ops::Range<u64> = 0xe5c0..0xe5ca;
const HALTS: [u64; 2] = [0xe5c1, 0xe5c3];
const WAKES: [u64; 3] = [0xe5c2, 0xe5c8, 0xe5c9];

/// What `lab exits` measures, and the kernel's name for the exit that it is.
const KINDS: &[(&str, &str)] = &[
    ("hypercall", "hypercall"),
    ("CPUID", "cpuid"),
    ("MSR read", "msr"),
    ("port read", "io"),
    ("MMIO read", "npf"),
    ("halt and wake", "hlt"),
];

/// The doctor finds kvm_amd, which runs guests natively, and the tracepoints that fire with it.
pub fn doctor_says_svm(outcome: &Outcome) -> anyhow::Result<String> {
    let said = outcome.json()?;
    let checks = said["checks"].as_array().context("the doctor made no checks")?;
    let found = |what: &str| -> anyhow::Result<&str> {
        let check = checks.iter().find(|check| check["what"] == what).with_context(|| format!("no check of {what}"))?;
        check["found"].as_str().with_context(|| format!("nothing found of {what}"))
    };
    let back_end = found("back end")?;
    ensure!(back_end.starts_with("kvm_amd on AuthenticAMD"), "the back end is {back_end}");
    for tracepoint in ["kvm_exit", "kvm_entry"] {
        let fires = found(tracepoint)?;
        ensure!(fires.starts_with("fires"), "{tracepoint} {fires}");
    }
    Ok(back_end.to_string())
}

/// `lab exits` has a time for everything but what no KVM can, and the kernel's trace has an exit for every sample.
pub fn trace_has_every_kind_of_exit(outcome: &Outcome) -> anyhow::Result<String> {
    let said = outcome.json()?;
    for row in rows(&said, "")? {
        let cannot = row["cannot"].as_str();
        ensure!(
            cannot.is_none_or(|why| why.starts_with("no KVM can")),
            "{} cannot be measured: {cannot:?}",
            row["labels"]
        );
    }
    let report = outcome.report("trace")?;
    for (kind, reason) in KINDS {
        let of_kind = rows(&said, "Exits by what caused them")?.filter(|row| row["labels"][0] == *kind);
        let samples: u64 = of_kind.filter_map(|row| row["figures"][0]["samples"].as_u64()).sum();
        let exits = report.of(reason);
        ensure!(samples > 0 && exits >= samples, "{samples} samples of {kind}, {exits} exits of reason {reason}");
    }
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.0).collect();
    Ok(format!("the trace has the exits that were measured: {}", kinds.join(", ")))
}

/// Every exit that `lab run` counts is in the kernel's trace, and no other port was touched.
pub fn trace_shows_the_labs_counts(outcome: &Outcome) -> anyhow::Result<String> {
    let said = outcome.json()?;
    let count = |reason: &str, figure: &str| -> anyhow::Result<u64> {
        let of_reason = rows(&said, "Exits by reason")?.filter(|row| row["labels"][1] == reason);
        let figures = of_reason.filter_map(|row| row["figures"].as_array()).flatten();
        Ok(figures.filter(|found| found["name"] == figure).filter_map(|found| found["value"].as_f64()).sum::<f64>()
            as u64)
    };
    let accesses = count("port access", "by the guest")?;
    let halts = count("halt", "by the guest")?;
    let wakes = count("wake-up, disk or answer", "to user space")?;
    ensure!(halts > 0 && wakes > 0, "the guests did nothing: {halts} halts, {wakes} wake-ups");

    let report = outcome.report("trace")?;
    equal(&[
        ("port accesses", report.about("port", |key, _| !BELLS.contains(&key)), accesses),
        ("halts", report.about("port", |key, _| HALTS.contains(&key)), halts),
        ("wake-ups, requests and answers", report.about("port", |key, _| WAKES.contains(&key)), wakes),
        ("exits of reason io", report.of("io"), report.about("port", |_, _| true)),
    ])?;
    Ok(format!(
        "the trace shows the lab's {accesses} port accesses, {halts} halts, {wakes} wake-ups, requests and answers"
    ))
}

/// The rows of those tables of a lab's report whose titles begin so.
fn rows<'a>(said: &'a Value, title: &str) -> anyhow::Result<impl Iterator<Item = &'a Value>> {
    let tables = said["tables"].as_array().context("the lab printed no tables")?;
    let wanted = |table: &&Value| table["title"].as_str().is_some_and(|found| found.starts_with(title));
    let tables: Vec<&Value> = tables.iter().filter(wanted).collect();
    ensure!(!tables.is_empty(), "the lab printed no table {title}");
    Ok(tables.into_iter().filter_map(|table| table["rows"].as_array()).flatten())
}
