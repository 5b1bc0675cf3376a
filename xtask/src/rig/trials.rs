//! What must hold of `exitscope try` where halt_poll_ns is a module's parameter and kvm_exit fires: it is set and restored, its effect
//! is measured beside what was predicted, and exits that stay in the kernel are delayed, too.

use super::steps::Outcome;
use anyhow::{Context, ensure};
use serde_json::Value;

/// The value in force, and the one that is tried.
const SETTINGS: [&str; 2] = ["halt_poll_ns=0", "halt_poll_ns=5000000"];

/// Blocks that have to be whole.
const BLOCKS: u64 = 3;

/// What `trial` printed of one: it went on to its end, and every turn had its figures.
fn whole(outcome: &Outcome) -> anyhow::Result<Value> {
    let said = outcome.json()?;
    let verdict = &said["verdict"];
    let (end, blocks) = (verdict["end"].as_str().unwrap_or_default(), verdict["blocks"].as_u64().unwrap_or(0));
    ensure!(["decided", "time_over"].contains(&end), "the trial ended with {end}: {}", verdict["why"]);
    ensure!(blocks >= BLOCKS, "{blocks} blocks were measured");
    Ok(said)
}

/// A metric under the one tried setting.
fn effect<'a>(said: &'a Value, metric: &str) -> anyhow::Result<&'a Value> {
    let effects = said["verdict"]["settings"][0]["effects"].as_array();
    let found = effects.into_iter().flatten().find(|effect| effect["metric"] == metric);
    found.with_context(|| format!("no metric {metric}"))
}

fn number(of: &Value, key: &str) -> anyhow::Result<f64> {
    of[key].as_f64().with_context(|| format!("{key} is {}", of[key]))
}

/// KVM, which did not poll, polls, as was predicted, and the parameter is what it was.
pub fn the_parameter_is_tried_and_restored(outcome: &Outcome) -> anyhow::Result<String> {
    let said = whole(outcome)?;
    ensure!(said["plan"]["settings"] == serde_json::json!(SETTINGS), "{}", said["plan"]["settings"]);
    let after = std::fs::read_to_string(outcome.folder.join("after"))?;
    ensure!(after.trim() == "0", "halt_poll_ns is {} after the trial", after.trim());
    let polling = effect(&said, "polling")?;
    let [before, with] = [number(polling, "in_force")?, number(polling, "with")?];
    let [foreseen, predicted] = [number(&polling["predicted"], "in_force")?, number(&polling["predicted"], "with")?];
    // How long, and how good the prediction is, depends on what else the emulator's CPU does; KVM gives polls up where others wait for a
    // CPU.
    ensure!(with > before, "polling went from {before}% to {with}%");
    ensure!(predicted > foreseen, "predicted: from {foreseen}% to {predicted}%");
    for metric in ["metric", "exits", "cpu_busy"] {
        let of = effect(&said, metric)?;
        ensure!(number(of, "in_force")? > 0.0 && number(of, "with")? > 0.0, "{metric} is 0");
    }
    let causes: Vec<&Value> = said["causes"].as_array().into_iter().flatten().map(|cause| &cause["reason"]).collect();
    ensure!(causes.iter().any(|reason| *reason == "hlt"), "exits are of {causes:?}");
    Ok(format!("polling {before:.1}% to {with:.1}%, predicted {foreseen:.1}% to {predicted:.1}%, and restored"))
}

/// Exits are delayed at kvm_exit: those of all reasons, and of one alone.
pub fn exits_in_the_kernel_are_delayed(outcome: &Outcome) -> anyhow::Result<String> {
    let said = whole(outcome)?;
    let of = &said["sensitivity"];
    ensure!(of["exits"] == "all", "exits are {}", of["exits"]);
    let levels = of["levels"].as_array().context("no delays")?;
    let count = |level: &Value, key: &str| level[key].as_u64().unwrap_or(0);
    let mut achieved = Vec::new();
    for level in levels {
        let [asked, exits, delayed] = ["asked_ns", "exits", "delayed"].map(|key| count(level, key));
        let mean = number(level, "achieved_ns")?;
        ensure!(exits > 0, "no exit with {asked} ns");
        ensure!((delayed > 0) == (asked > 0), "{delayed} exits were delayed by {asked} ns");
        // Counts of both CPUs are not of one moment: an exit in hand may be in one of them alone.
        ensure!(delayed + count(level, "skipped") <= exits + exits / 100, "{level}");
        // Of those that were delayed alone, each is as long as was asked for.
        let each = mean * exits as f64 / delayed.max(1) as f64;
        ensure!(each >= asked as f64 * 0.98, "{asked} ns were {each:.0} ns");
        achieved.push(format!("{asked} ns of {delayed} of {exits} exits"));
    }
    Ok(format!("delayed at kvm_exit: {}", achieved.join(", ")))
}
