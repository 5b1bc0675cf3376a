//! Which figures of the docs are older than what they are of.
//!
//! ```text
//! a row: document, section ─► its lines' last commit ┐
//!        what it measures  ─► its last commit ───────┴─► the later one
//! ```

use crate::root;
use anyhow::{Context, ensure};
use std::fs;
use std::ops::RangeInclusive;
use std::process::Command;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only those that are older than the last change to what they measure
    #[arg(long)]
    stale: bool,
}

/// Figures that a command printed and a document keeps.
struct Measured {
    document: &'static str,
    /// The heading above them; `None` is the whole document.
    section: Option<&'static str>,
    /// What prints them anew.
    command: &'static str,
    /// Whose changes may change them.
    of: &'static [&'static str],
}

/// What the way of a trace to a report is made of.
const REPORT: &[&str] = &[
    "crates/trace/src",
    "crates/model/src",
    "crates/stats/src",
    "crates/analysis/src",
    "crates/advice/src",
    "crates/pipeline/src",
    "crates/view/src",
];
const SIMULATOR: &[&str] = &["crates/sim/src", "crates/policy/src", "crates/scenario/src"];
const LAB: &[&str] = &["crates/lab/src", "crates/lab/guest", "crates/policy/src"];
const RECORDING: &[&str] = &["crates/record/src", "crates/live/src"];

const fn bench(section: &'static str, command: &'static str, of: &'static [&'static str]) -> Measured {
    Measured { document: "docs/benchmarks.md", section: Some(section), command, of }
}

const fn whole(document: &'static str, command: &'static str, of: &'static [&'static str]) -> Measured {
    Measured { document, section: None, command, of }
}

const MEASURED: &[Measured] = &[
    bench("## Time", "cargo xtask bench --only trace", REPORT),
    bench("## Memory", "cargo xtask bench --only trace", REPORT),
    bench("## Simulator", "cargo xtask bench --only sim", SIMULATOR),
    bench("## Lab", "cargo xtask bench --only lab", LAB),
    bench("## Recording", "cargo xtask bench --only record", RECORDING),
    bench("## Pages", "cargo xtask bench --only page", &["web/src", "crates/page/src"]),
    bench("## Store", "cargo xtask bench --only store", &["crates/store/src", "crates/query/src", "crates/ingest/src"]),
    whole("docs/gains.md", "cargo xtask gains", &["xtask/src/gains", "xtask/src/gains.rs", "crates/advice/src"]),
    whole("docs/lab-agreement.md", "cargo xtask lab-agree --write", LAB),
    whole("docs/nulls.md", "cargo xtask nulls", &["corpus/nulls", "crates/stats/src", "crates/analysis/src"]),
    whole("docs/mutants.md", "cargo xtask mutants", &["crates"]),
    whole(
        "docs/validation.md",
        "exitscope validate",
        &["crates/sim/src", "crates/policy/src", "crates/validation/src"],
    ),
];

/// Prints a line for each row.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let rows = MEASURED.iter().map(Row::of).collect::<anyhow::Result<Vec<_>>>()?;
    for row in rows.iter().filter(|row| row.is_stale() || !flags.stale) {
        let what =
            row.of.section.map_or(row.of.document.to_string(), |section| format!("{}, {section}", row.of.document));
        let state =
            if row.is_stale() { format!("stale: {} changed {}", row.changed_by, row.changed) } else { "good".into() };
        println!("{what}: of {}; {state}; made anew by `{}`", row.made, row.of.command);
    }
    Ok(())
}

struct Row {
    of: &'static Measured,
    /// Days, year first.
    made: String,
    changed: String,
    changed_by: String,
    /// Seconds since 1970.
    times: (u64, u64),
}

impl Row {
    fn of(of: &'static Measured) -> anyhow::Result<Row> {
        let text = fs::read_to_string(root().join(of.document)).context(of.document)?;
        let lines = match of.section {
            Some(section) => lines_of(&text, section).with_context(|| format!("{} has no {section}", of.document))?,
            None => 1..=text.lines().count(),
        };
        let lines = format!("-L{},{}:{}", lines.start(), lines.end(), of.document);
        let (made_at, made, _) = last(&["--no-patch", &lines])?;
        let (changed_at, changed, commit) = last(&[&["--"], of.of].concat())?;
        Ok(Row { of, made, changed, changed_by: commit, times: (made_at, changed_at) })
    }

    fn is_stale(&self) -> bool {
        self.times.1 > self.times.0
    }
}

/// The lines of a section, counted from 1: from its heading to before the next as high.
fn lines_of(text: &str, section: &str) -> Option<RangeInclusive<usize>> {
    let from = text.lines().position(|line| line == section)?;
    let level = section.split(' ').next()?.len();
    let heads = |line: &str| line.starts_with('#') && line.find(' ').is_some_and(|at| at <= level);
    let len = text.lines().skip(from + 1).position(heads).unwrap_or_else(|| text.lines().count() - from - 1);
    Some(from + 1..=from + 1 + len)
}

/// When the last commit was of those that `git log` finds so, its day and its short name.
fn last(which: &[&str]) -> anyhow::Result<(u64, String, String)> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["log", "-1", "--format=%ct %cs %h"]).args(which);
    let output = git.output().context("cannot run git")?;
    ensure!(output.status.success(), "{git:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace().map(str::to_string);
    let mut word = || words.next().with_context(|| format!("{git:?} finds no commit"));
    Ok((word()?.parse()?, word()?, word()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_before_the_next_of_its_level() {
        let text = "# a\n\n## b\nx\n### c\ny\n\n## d\nz";
        assert_eq!(lines_of(text, "## b"), Some(3..=7));
        assert_eq!(lines_of(text, "### c"), Some(5..=7));
        assert_eq!(lines_of(text, "## d"), Some(8..=9));
        assert_eq!(lines_of(text, "## e"), None);
    }

    #[test]
    fn every_row_is_of_what_there_is() {
        for row in MEASURED {
            let text = fs::read_to_string(root().join(row.document)).unwrap();
            assert!(row.section.is_none_or(|section| lines_of(&text, section).is_some()), "{:?}", row.section);
            assert!(row.of.iter().all(|path| root().join(path).exists()), "{:?}", row.of);
        }
    }
}
