//! What must hold of `exitscope record` and `top` where real `kvm_exit` and `kvm_entry` events fire, by both routes, and
//! when a CPU goes off line and comes back.

use super::steps::{Outcome, Report, equal};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// What tiny-guest does in one run.
const OUT: u64 = 23;
const IN: u64 = 17;

/// `perf kvm stat` counts the same in its own recording and in ours, made at the same time, and `exitscope report` counts
/// that, too; but perf leaves the last exit of a thread out, as no entry follows.
pub fn record_counts_what_perf_counts(outcome: &Outcome) -> anyhow::Result<String> {
    let read = |name: &str| {
        let text = std::fs::read(outcome.folder.join(name)).with_context(|| name.to_string())?;
        samples(&String::from_utf8_lossy(&text)).with_context(|| format!("{name} is no table of perf kvm stat"))
    };
    let (theirs, ours) = (read("theirs.txt")?, read("ours.txt")?);
    ensure!(theirs == ours, "perf kvm stat counts {theirs:?} in its own recording and {ours:?} in ours");
    let report = outcome.report("trace")?;
    let all: u64 = theirs.values().sum();
    let mut more = 0;
    for (reason, count) in &theirs {
        let found = report.of(reason);
        ensure!((*count..=count + 1).contains(&found), "{found} exits of reason {reason}, perf kvm stat has {count}");
        more += found - count;
    }
    ensure!(more <= 1, "{more} exits have no entry");
    equal(&[
        ("exits of reason io", report.of("io"), 107 * (OUT + IN)),
        ("exits of reason hlt", report.of("hlt"), 107),
    ])?;
    Ok(format!("perf kvm stat's counts of {} reasons, {all} exits with their entries", theirs.len()))
}

/// Reason and samples of the table that `perf kvm stat report` prints.
fn samples(text: &str) -> Option<BTreeMap<String, u64>> {
    let rows = text.lines().skip_while(|line| !line.contains("VM-EXIT")).skip(1);
    let rows = rows.take_while(|line| !line.starts_with("Total Samples")).filter(|line| !line.trim().is_empty());
    let mut samples = BTreeMap::new();
    for row in rows {
        // A name may have blanks; the number of samples comes before the first share.
        let (before, _) = row.split_once('%')?;
        let mut words: Vec<&str> = before.split_whitespace().collect();
        words.pop()?;
        let count = words.pop()?.parse().ok()?;
        samples.insert(words.join(" "), count);
    }
    (!samples.is_empty()).then_some(samples)
}

fn prime_counts(report: &Report, runs: u64) -> anyhow::Result<()> {
    let at = |at: u64, way: &str| report.about("port", |key, direction| (key, direction) == (at, way));
    equal(&[
        ("exits of reason io", report.of("io"), runs * (OUT + IN)),
        ("exits of reason hlt", report.of("hlt"), runs),
        ("writes to port 0x10", at(0x10, "out"), runs * OUT),
        ("reads of port 0x11", at(0x11, "in"), runs * IN),
    ])
}

/// A recording by perf events, too, has what the guest did.
pub fn trace_has_the_prime_counts(outcome: &Outcome) -> anyhow::Result<String> {
    prime_counts(&outcome.report("trace")?, 109)?;
    Ok("perf events have the guest's prime counts".into())
}

/// What `top` says of the guest, interval by interval until it has ended, is together what a recording of the same time has.
pub fn top_counts_what_is_recorded(outcome: &Outcome) -> anyhow::Result<String> {
    let frames = std::fs::read_to_string(outcome.folder.join("frames"))?;
    let (mut counts, mut has_ended) = (BTreeMap::<String, u64>::new(), false);
    for line in frames.lines() {
        let frame: Value = serde_json::from_str(line)?;
        ensure!(frame["tracing_backend"] == "bpf" && frame["has_kvm_exit"] == true && frame["lost"] == 0, "{line}");
        for vm in frame["vms"].as_array().context("a frame has VMs")? {
            has_ended |= vm["ended"] == true;
            for row in vm["figures"]["reasons"].as_array().context("a VM has reasons")? {
                let name = row["name"].as_str().unwrap_or_default().to_string();
                *counts.entry(name).or_default() += row["count"].as_u64().unwrap_or(0);
            }
        }
    }
    ensure!(has_ended, "top saw no guest that has ended");
    ensure!(!counts.is_empty(), "top counted nothing");
    let report = outcome.report("trace")?;
    prime_counts(&report, 113)?;
    for (name, &count) in &counts {
        equal(&[(name, count, report.of(name))])?;
    }
    let all: u64 = counts.values().sum();
    Ok(format!("top counts the {all} exits of the recording, reason by reason"))
}

/// Guests on a CPU before it went and after it came back, and elsewhere meanwhile, are all recorded.
pub fn a_cpu_that_comes_back_is_recorded(outcome: &Outcome) -> anyhow::Result<String> {
    for trace in ["trace", "trace--no-bpf"] {
        prime_counts(&outcome.report(trace)?, 11 + 13 + 17).with_context(|| trace.to_string())?;
    }
    // BPF programs run on every CPU, so that nothing can be missing.
    let said = String::from_utf8_lossy(&outcome.stderr).matches("CPU 1 came online during the recording").count();
    ensure!(said == 1, "that CPU 1 came back was said {said} times, and not by --no-bpf alone");
    Ok("guests before, while and after CPU 1 was off line are recorded, by BPF and by perf events".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_table_is_read() {
        let text = "warning\nAnalyze events for all VMs, all VCPUs:\n\n    VM-EXIT    Samples  Samples%     Time%\n\n\
                    io       3839    23.08%     9.43%      0.00us\n   UD excp          1     0.01%     0.00%     63.83us\n\n\
                    Total Samples:3840, Total events handled time:11995985.10us.\n";
        let expected = [("UD excp".to_string(), 1), ("io".to_string(), 3839)];
        assert_eq!(samples(text), Some(BTreeMap::from(expected)));
        assert_eq!(samples("perf: no such file"), None);
    }
}
