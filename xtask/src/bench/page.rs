//! Measures a page in Chromium: how soon it can be used, and how long its frames take while it is panned and zoomed.
//!
//! ```text
//! t2.data × 600 ─► exitscope report --html ─► target/bench/page.html ─► web/test/bench.mjs ─► a section
//! ```

use super::{Case, Input, MEASURED, case, inputs, measure, median};
use crate::root;
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// How often the boot of a Linux guest is repeated: ten million exits.
pub const TIMES: u64 = 600;

/// How often the report is made as text and as a page, in turns.
const REPORTS: u32 = 9;

/// How often it is repeated for a page that holds all single exits: a million.
const TIMES_WHOLE: u64 = 60;

/// How long the page of a million exits may be, in bytes.
const WHOLE_BYTES: f64 = 12e6;

/// What making a page may cost at most, as a multiple of the text.
const COST: f64 = 2.0;

/// What a page is to do: ms until it can be used, and ms of a frame in the median and at the 99th percentile.
const INTERACTIVE: f64 = 2_000.0;
const MEDIAN_FRAME: f64 = 1_000.0 / 60.0 + 0.1;
const FRAME: f64 = 33.4;

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

/// Builds, makes the page, measures, and writes the section. The recording takes 8 GB of disk while the page is made.
pub fn section() -> anyhow::Result<String> {
    let program = super::build()?;
    let source = super::unpacked("x86-svm/t2.data")?;
    let large = source.with_file_name("t2-page.data");
    eprintln!("bench: making {} and its page", large.display());
    let page = large.with_file_name("page.html");
    inputs::repeat_perf(&source, &large, TIMES_WHOLE)?;
    exitscope(&program, &large, &["--html".as_ref(), page.as_os_str()])?;
    let whole = (exits(&program, &large)?, std::fs::metadata(&page)?.len());
    inputs::repeat_perf(&source, &large, TIMES)?;
    // Writing it back to disk would take time from what is measured.
    std::fs::File::open(&large)?.sync_all()?;
    let made = exits(&program, &source).and_then(|once| {
        let exits = exits(&program, &large)?;
        ensure!(exits == once * TIMES, "{exits} exits found, {} expected", once * TIMES);
        Ok((exits, reports(&program, &large, &page)?))
    });
    std::fs::remove_file(&large)?;
    let (exits, times) = made?;
    eprintln!("bench: the page in Chromium");
    let output = Command::new("npm")
        .args(["run", "--silent", "bench", "--"])
        .arg(&page)
        .arg("--json")
        .current_dir(root().join("web"))
        .output()
        .context("npm is missing")?;
    ensure!(output.status.success(), "web/test/bench.mjs: {}", String::from_utf8_lossy(&output.stderr));
    let measured: Measured = serde_json::from_slice(&output.stdout).context("what web/test/bench.mjs says")?;
    Ok(text(&measured, exits, whole, &times)?)
}

/// What a report takes.
struct Reports {
    /// Seconds as text and as a page: medians.
    as_text: f64,
    as_page: f64,
    /// How many times as long the page takes in each round: the median, the least and the most.
    ratio: f64,
    least: f64,
    most: f64,
}

/// What a report takes as text and as the page that it leaves behind, in rounds.
fn reports(program: &Path, large: &Path, page: &Path) -> anyhow::Result<Reports> {
    let input = Input { name: "page", path: large.to_path_buf(), events: 0 };
    let page = page.display().to_string();
    let text = case(&input, "text", program.into(), &["report"], &[]);
    let page = case(&input, "page", program.into(), &["report", "--html", &page], &[]);
    let seconds = |case: &Case| anyhow::Ok(measure(case)?.0.as_secs_f64());
    let rounds = (0..REPORTS).map(|_| Ok((seconds(&text)?, seconds(&page)?)));
    let rounds: Vec<(f64, f64)> = rounds.collect::<anyhow::Result<_>>()?;
    let ratios = || rounds.iter().map(|(text, page)| page / text);
    Ok(Reports {
        as_text: median(rounds.iter().map(|round| round.0)),
        as_page: median(rounds.iter().map(|round| round.1)),
        ratio: median(ratios()),
        least: ratios().fold(f64::INFINITY, f64::min),
        most: ratios().fold(0.0, f64::max),
    })
}

/// How many exits are in a recording.
fn exits(program: &Path, path: &Path) -> anyhow::Result<u64> {
    let report: serde_json::Value =
        serde_json::from_slice(&exitscope(program, path, &["--format".as_ref(), "json".as_ref()])?)?;
    report["total"]["count"].as_u64().context("the report's exits")
}

/// What `exitscope report` prints.
fn exitscope(program: &Path, path: &Path, flags: &[&OsStr]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(program).arg("report").arg(path).args(flags).output()?;
    ensure!(output.status.success(), "exitscope report: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn text(of: &Measured, exits: u64, (whole, bytes): (u64, u64), reports: &Reports) -> Result<String, std::fmt::Error> {
    let within = |value: f64, most: f64| if value <= most { "" } else { " (MORE THAN WANTED)" };
    let mut section = format!(
        "## Pages\n\nThe page of corpus/x86-svm/t2.data.gz × {TIMES}, {exits} exits, {:.1} MB, opened from disk in headless {} without a GPU, \
         1280 × 800, {} rounds.\n\n",
        of.bytes as f64 / 1e6,
        of.browser,
        of.rounds
    );
    writeln!(
        section,
        "Of {whole} exits (× {TIMES_WHOLE}) the page has all single ones, and takes {:.1} MB{}; wanted are at most {:.0}.\n",
        bytes as f64 / 1e6,
        within(bytes as f64, WHOLE_BYTES),
        WHOLE_BYTES / 1e6
    )?;
    let Reports { as_text, as_page, ratio, least, most } = *reports;
    writeln!(
        section,
        "Making it takes {as_page:.2} s, and {as_text:.2} s as text; {ratio:.2} times as long{}, {least:.2} to {most:.2} from round to \
         round; wanted are at most {COST}. Medians of {REPORTS} rounds, in which both took turns; the ratio is that of each \
         round's. {MEASURED}\n",
        within(ratio, COST)
    )?;
    let Interactive { median, worst } = of.interactive_ms;
    writeln!(
        section,
        "Interactive after {median:.0} ms in the median, {worst:.0} ms at worst{}; wanted are {INTERACTIVE:.0} ms. Frames while a \
         key is pressed in each of them; the browser shows at most 60 a second. Wanted are {:.1} ms in the median and {FRAME:.0} ms at p99:\n",
        within(median, INTERACTIVE),
        1_000.0 / 60.0
    )?;
    writeln!(section, "| gesture | frames | median | p99 | worst |\n| --- | ---: | ---: | ---: | ---: |")?;
    for Gesture { name, frames, median_ms, p99_ms, worst_ms } in &of.gestures {
        let (mark, slow) = (within(*p99_ms, FRAME), within(*median_ms, MEDIAN_FRAME));
        writeln!(section, "| {name} | {frames} | {median_ms:.1} ms{slow} | {p99_ms:.1} ms{mark} | {worst_ms:.1} ms |")?;
    }
    Ok(section)
}
