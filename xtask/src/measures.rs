//! How far the house is from what it should be: figures that only fall, by which changes of its structure are judged.
//!
//! What a kind of addition costs is counted in the last commits: those that added lines to the file with which the addition begins, and
//! of each the files that it touched, without documents and tests. A commit may have done so for another reason, so that the figure is an
//! upper bound where few commits are of the kind.

use crate::additions::{self, Addition};
use crate::house::House;
use crate::{probes, root};
use anyhow::{Context, ensure};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

/// What to look at.
#[derive(clap::Args)]
pub struct Flags {
    /// Leave out each silent step in a copy of the tree, and say which are noticed; takes many minutes
    #[arg(long)]
    probe: bool,
    /// With --probe: only steps whose kind of addition or name has this in it
    #[arg(long, value_name = "TEXT", requires = "probe")]
    only: Option<String>,
}

/// So many commits are looked at.
const COMMITS: usize = 50;

/// So many of the longest functions are named.
const LONGEST: usize = 5;

/// Prints the measures.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let additions = additions::read(&map);
    if flags.probe {
        return probes::run(&additions, flags.only.as_deref());
    }
    let mut out = io::stdout().lock();
    let silent: Vec<usize> = additions.iter().flat_map(|addition| &addition.silent).map(|step| step.line).collect();
    let mut lines = silent.clone();
    lines.dedup();
    writeln!(out, "silent steps: {} in {} lines of ARCHITECTURE.md", silent.len(), lines.len())?;
    let (steps, marked, probed) = probes::counts(&additions)?;
    writeln!(out, "  of {steps} steps that were silent once, {marked} are marked, {probed} have a probe (--probe)")?;
    for problem in probes::problems(&additions)? {
        writeln!(out, "  {problem}")?;
    }
    let house = House::read()?;
    let mut circles: Vec<(&str, usize)> = house.circles().collect();
    circles.sort_by_key(|(folder, files)| (std::cmp::Reverse(*files), *folder));
    writeln!(out, "circles of more than two files: {}", circles.len())?;
    for (folder, files) in circles.iter().take(1) {
        writeln!(out, "  the largest: {files} files of {folder}")?;
    }
    let long = house.long_functions();
    let all: usize = house.functions.values().map(Vec::len).sum();
    writeln!(out, "functions of more than 70 lines: {} of {all}", long.len())?;
    for (file, function) in long.iter().take(LONGEST) {
        writeln!(out, "  {:>4}  {file}:{} {}", function.lines, function.line, function.name)?;
    }
    writeln!(out, "files that an addition touches, of the last {COMMITS} commits:")?;
    writeln!(out, "  commits  median  most  addition")?;
    for (name, files) in files_by_addition(&additions, &commits()?) {
        writeln!(out, "  {:>7}  {:>6}  {:>4}  {name}", files.len(), files[files.len() / 2], files[files.len() - 1])?;
    }
    Ok(())
}

/// The files that a commit touched, and how many lines it added to each.
type Touched = Vec<(String, usize)>;

/// What the last commits touched.
fn commits() -> anyhow::Result<Vec<Touched>> {
    let count = COMMITS.to_string();
    let output = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "log",
            "--no-merges",
            "--no-renames",
            "--numstat",
            "--format=%x00",
            "-n",
            &count,
        ])
        .current_dir(root())
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git log: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(read_commits(&String::from_utf8(output.stdout).context("names of files")?))
}

/// Reads git's numbers of lines: `ADDED TAB REMOVED TAB FILE`, behind a zero byte for each commit; `-` for a binary file.
fn read_commits(log: &str) -> Vec<Touched> {
    let row = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let added = parts.next()?.parse().unwrap_or(0);
        Some((parts.nth(1)?.to_string(), added))
    };
    log.split('\0').skip(1).map(|commit| commit.lines().filter_map(row).collect()).collect()
}

/// By addition, how many files commits touched that are of its kind, in order; without those that no commit is of.
fn files_by_addition<'a>(additions: &'a [Addition], commits: &[Touched]) -> Vec<(&'a str, Vec<usize>)> {
    let mut rows = Vec::new();
    for addition in additions {
        let begins = |(file, added): &(String, usize)| *added > 0 && Path::new(file).starts_with(&addition.begin);
        let of_kind = commits.iter().filter(|touched| touched.iter().any(begins));
        let count = |touched: &Touched| touched.iter().filter(|(file, _)| is_production(file)).count();
        let mut files: Vec<usize> = of_kind.map(count).collect();
        files.sort_unstable();
        if !files.is_empty() {
            rows.push((addition.name.as_str(), files));
        }
    }
    rows
}

/// Whether a file is neither a document nor a test.
fn is_production(file: &str) -> bool {
    let path = Path::new(file);
    let is_in = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    let is_test = is_in("tests") || is_in("test") || file.ends_with("_tests.rs") || file.ends_with("/tests.rs");
    !is_test && !path.starts_with("docs") && path.extension().is_none_or(|extension| extension != "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_in_commits_that_add_to_where_it_begins() {
        let log = "\0\n\n3\t1\ta/b.rs\n9\t0\ta/tests/b.rs\n-\t-\tc.png\n2\t0\tdocs/x.md\n\0\n\n1\t1\td.rs\n\0\n\n0\t4\ta/b.rs\n\0\n\n1\t0\ta/b.rs\n";
        let commits = read_commits(log);
        assert_eq!(commits.len(), 4);
        assert_eq!(commits[0][1], ("a/tests/b.rs".to_string(), 9));
        let addition = |name: &str, begin: &str| Addition { name: name.into(), begin: begin.into(), silent: vec![] };
        let additions = [addition("A", "a/b.rs"), addition("B", "a"), addition("C", "z.rs")];
        assert_eq!(files_by_addition(&additions, &commits), [("A", vec![1, 2]), ("B", vec![1, 2])]);
    }

    #[test]
    fn documents_and_tests_are_not_what_an_addition_costs() {
        for file in
            ["a/tests/b.rs", "web/test/a.mjs", "a/src/b_tests.rs", "a/src/b/tests.rs", "docs/a.json", "README.md"]
        {
            assert!(!is_production(file), "{file}");
        }
        assert!(is_production("crates/a/src/attest.rs") && is_production("web/src/test.ts"));
    }
}
