//! Measures the lab's run loop: what it adds to each exit, against a bare C loop of KVM_RUN on the same vCPU.
//!
//! ```text
//! bench/kvm-run/loop.c ─► cc ─► loop.so ─► the lab's example `overhead`: C and lab in turns ─► medians ─► a section
//! ```

use super::median;
use crate::{cargo, root, target};
use anyhow::{Context, ensure};
use std::process::Command;

/// Exits of each turn.
const EXITS: u32 = 4_000;

/// How much more than the bare loop the lab may cost.
const ALLOWED: f64 = 0.02;

/// Builds, measures, and writes the section.
pub fn section(rounds: u32) -> anyhow::Result<String> {
    let object = target()?.join("bench/kvm-run.so");
    std::fs::create_dir_all(object.parent().context("a file is in a directory")?)?;
    let source = root().join("bench/kvm-run/loop.c");
    let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&object).arg(source).status()?;
    ensure!(compiled.success(), "bench/kvm-run/loop.c does not compile");
    let built = cargo()?
        .args(["build", "--release", "--quiet", "--package", "exitscope-lab", "--example", "overhead"])
        .status()?;
    ensure!(built.success(), "the lab's example does not build");
    let output = Command::new(target()?.join("release/examples/overhead"))
        .arg(&object)
        .args([(4 * rounds).to_string(), EXITS.to_string()])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for line in text.lines() {
        let (c, lab) = line.split_once(' ').with_context(|| format!("not two numbers: {line}"))?;
        pairs.push((c.parse()?, lab.parse()?));
    }
    let [c, lab, ratio] = [
        median(pairs.iter().map(|pair| pair.0)),
        median(pairs.iter().map(|pair| pair.1)),
        median(pairs.iter().map(|pair| pair.1 / pair.0)),
    ];
    let verdict = if ratio <= 1.0 + ALLOWED { "within" } else { "MORE THAN" };
    Ok(format!(
        "## Lab\n\nWhat the lab's run loop (devices, accounting, watchdog) adds to each exit, against a bare C loop of KVM_RUN on \
         the same vCPU of the same guest, which writes a port; {} rounds of {EXITS} exits, in turns.\n\n\
         | | ns an exit |\n| --- | ---: |\n| bare C loop | {c:.0} |\n| the lab | {lab:.0} |\n\n\
         Median of the ratios of each round: {ratio:.4}, {verdict} the {:.0} % that are allowed.\n",
        pairs.len(),
        ALLOWED * 100.0
    ))
}
