//! What must hold of the lab and the doctor on SVM: what the lab counts in user space is what the kernel traced.

use super::steps::{Outcome, equal};
use anyhow::{Context, ensure};
use serde_json::Value;

/// The ports that the lab's payload writes to tell the lab something, and those of them that mean: halt, sleep; wake a
/// vCPU, answer a client, submit to a disk. `crates/lab/src/abi.rs` has them all.
const BELLS: std::ops::Range<u64> = 0xe5c0..0xe5ca;
const HALTS: [u64; 2] = [0xe5c1, 0xe5c3];
const WAKES: [u64; 3] = [0xe5c2, 0xe5c8, 0xe5c9];

/// Where the lab's guests touch pages that nobody has touched before.
const ARENA: std::ops::Range<u64> = 0x100_0000..0x200_0000;

/// What the lab's guests execute, and the kernel's name for the exit that it is.
const EXECUTED: &[(&str, &str)] =
    &[("hypercall", "hypercall"), ("CPUID", "cpuid"), ("MSR access", "msr"), ("port access", "io"), ("HLT", "hlt")];

/// Exits that no instruction of the guest's asks for, and why the kernel makes them.
const OF_THE_KERNEL: &[(&str, &str)] = &[
    ("interrupt", "the host's own interrupts"),
    ("vintr", "an interrupt waits until its guest lets interrupts in"),
    ("npf", "besides MMIO and the arena: the first touch of a page of programs, tables and stacks"),
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

/// `lab exits` has a time for everything but what no KVM can, and the kernel's trace has an exit for each instruction that
/// the guests executed, warm-ups and probes included, by reason and to the unit, and no others but the kernel's own.
pub fn trace_shows_what_the_guests_executed(outcome: &Outcome) -> anyhow::Result<String> {
    let said = outcome.json()?;
    for row in rows(&said, "")? {
        let cannot = row["unavailable"].as_str();
        ensure!(
            cannot.is_none_or(|why| why.starts_with("no KVM can")),
            "{} cannot be measured: {cannot:?}",
            row["labels"]
        );
    }
    let executed = |instruction: &str| -> anyhow::Result<u64> {
        let rows = said["executed"].as_array().context("the lab did not say what its guests executed")?;
        let count = rows.iter().find(|row| row["instruction"] == instruction).and_then(|row| row["count"].as_u64());
        count.filter(|count| *count > 0).with_context(|| format!("no guest executed a {instruction}"))
    };
    let report = outcome.report("trace")?;
    let mut counts = Vec::new();
    for (instruction, reason) in EXECUTED {
        counts.push((format!("exits of reason {reason}"), report.of(reason), executed(instruction)?));
    }
    // Both are exits of reason npf; which of the two, and that it is none of the kernel's own, the address tells.
    let (mmio, touched) = (executed("MMIO access")?, executed("first touch of a page")?);
    counts.push(("exits for MMIO".to_string(), report.about("mmio", |_, _| true), mmio));
    counts.push(("page faults in the arena".to_string(), outcome.page_faults("trace", &ARENA)?, touched));
    equal(&counts)?;
    for reason in report.reasons() {
        let known = EXECUTED.iter().map(|row| row.1).chain(OF_THE_KERNEL.iter().map(|row| row.0));
        ensure!(known.into_iter().any(|known| known == reason), "{} exits of reason {reason}", report.of(reason));
    }
    let said: Vec<String> = counts.iter().map(|(what, count, _)| format!("{count} {what}")).collect();
    let besides: Vec<String> =
        OF_THE_KERNEL.iter().map(|(reason, why)| format!("{} {reason} ({why})", report.of(reason))).collect();
    Ok(format!(
        "as the guests executed: {}. Of all with what is the kernel's own: {}",
        said.join(", "),
        besides.join("; ")
    ))
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
