//! Measures a page in Chromium: how soon it can be used, and how long its frames take while it is panned and zoomed.
//!
//! ```text
//! larger xentrace ─► exitscope report --html ─► target/bench/page.html ─► web/test/bench.mjs ─► a section
//! ```

use super::{LARGER, XEN_FLAGS, XENTRACE_TIMES, xentrace_input};
use crate::{root, target};
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::fmt::Write as _;
use std::process::Command;

/// What a page is to do: ms until it can be used, and ms of a frame at 30 in a second.
const INTERACTIVE: f64 = 2_000.0;
const FRAME: f64 = 1_000.0 / 30.0;

/// What web/test/bench.mjs says. Times in ms.
#[derive(Deserialize)]
struct Measured {
    browser: String,
    bytes: u64,
    rounds: u32,
    interactive_ms: Interactive,
    gestures: Vec<Gesture>,
}

#[derive(Deserialize)]
struct Interactive {
    median: f64,
    worst: f64,
}

#[derive(Deserialize)]
struct Gesture {
    name: String,
    frames: u64,
    median_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
}

/// Builds, makes the page, measures, and writes the section.
pub fn section() -> anyhow::Result<String> {
    super::build()?;
    let input = xentrace_input("larger xentrace", XENTRACE_TIMES * LARGER)?;
    let page = target()?.join("bench/page.html");
    let exitscope = target()?.join("release/exitscope");
    let made =
        Command::new(&exitscope).arg("report").args(XEN_FLAGS).arg(&input.path).arg("--html").arg(&page).status()?;
    ensure!(made.success(), "exitscope report --html fails; `make page` builds the front end");
    let counted =
        Command::new(&exitscope).arg("report").args(XEN_FLAGS).arg(&input.path).args(["--format", "json"]).output()?;
    let report: serde_json::Value = serde_json::from_slice(&counted.stdout).context("the report's JSON")?;
    let exits = report["total"]["count"].as_u64().context("the report's exits")?;
    let output = Command::new("npm")
        .args(["run", "--silent", "bench", "--"])
        .arg(&page)
        .arg("--json")
        .current_dir(root().join("web"))
        .output()
        .context("npm is missing")?;
    ensure!(output.status.success(), "web/test/bench.mjs: {}", String::from_utf8_lossy(&output.stderr));
    let measured: Measured = serde_json::from_slice(&output.stdout).context("what web/test/bench.mjs says")?;
    Ok(text(&measured, exits)?)
}

fn text(of: &Measured, exits: u64) -> Result<String, std::fmt::Error> {
    let within = |value: f64, most: f64| if value <= most { "" } else { " (MORE THAN WANTED)" };
    let mut section = format!(
        "## Pages\n\nThe page of the larger xentrace, {exits} exits, {:.1} MB, opened from disk in headless {} without a GPU, \
         1280 × 800, {} rounds.\n\n",
        of.bytes as f64 / 1e6,
        of.browser,
        of.rounds
    );
    let Interactive { median, worst } = of.interactive_ms;
    writeln!(
        section,
        "Interactive after {median:.0} ms in the median, {worst:.0} ms at worst{}; wanted are {INTERACTIVE:.0} ms. Frames while a \
         key is pressed in each of them; the browser shows at most 60 a second, and wanted are 30, {FRAME:.0} ms each:\n",
        within(median, INTERACTIVE)
    )?;
    writeln!(section, "| gesture | frames | median | p99 | worst |\n| --- | ---: | ---: | ---: | ---: |")?;
    for Gesture { name, frames, median_ms, p99_ms, worst_ms } in &of.gestures {
        let mark = within(*p99_ms, FRAME);
        writeln!(section, "| {name} | {frames} | {median_ms:.1} ms | {p99_ms:.1} ms{mark} | {worst_ms:.1} ms |")?;
    }
    Ok(section)
}
