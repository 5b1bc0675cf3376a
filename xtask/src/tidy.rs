//! Checks of the tree that no compiler makes. Every finding is one line, `file:line: what`; any finding fails.

use crate::{excerpts, house, root, test_returns};
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate that any other may import for its tests, and none for what it is.
const FOR_TESTS: &str = "skips";

/// Which of our crates each crate may import: nothing imports to its right, so that no stage knows the next.
const IMPORTS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("stats", &[]),
    ("signals", &[]),
    (FOR_TESTS, &[]),
    ("policy", &["units"]),
    ("apply", &["units", "policy", "model"]),
    ("scenario", &["units", "stats", "policy"]),
    ("trial", &["units", "stats"]),
    ("validation", &["units", "stats", "policy", "scenario", "sim", "view"]),
    ("sim", &["units", "stats", "policy", "scenario", "model"]),
    ("lab", &["units", "stats", "signals", "policy", "scenario", "model"]),
    ("model", &["units", "policy"]),
    ("identity", &["model"]),
    ("trace", &["units", "model"]),
    ("record", &["units", "stats", "model", "identity", "trace"]),
    ("live", &["units", "stats", "model", "record"]),
    ("analysis", &["units", "stats", "policy", "model"]),
    ("advice", &["units", "stats", "policy", "scenario", "model", "analysis"]),
    (
        "pipeline",
        &["units", "stats", "policy", "scenario", "sim", "model", "trace", "record", "live", "analysis", "advice"],
    ),
    ("http", &[]),
    ("exporter", &["stats", "http", "model", "record", "live", "units"]),
    ("view", &["units", "stats", "policy", "scenario", "trial", "model", "analysis", "advice"]),
    ("top", &["units", "stats", "model", "record", "live", "analysis", "advice", "view"]),
    (
        "measure",
        &[
            "units", "signals", "policy", "apply", "trial", "model", "trace", "record", "live", "analysis", "advice",
            "pipeline", "view", "http",
        ],
    ),
    ("page", &["units", "policy", "model", "analysis", "advice", "view"]),
    ("serve", &["units", "http", "model", "record", "analysis", "pipeline", "view", "page"]),
    ("export", &["units", "model", "analysis", "view"]),
    ("columns", &["model"]),
    ("store", &["units", "model", "columns"]),
    ("ingest", &["model", "apply", "trace", "analysis", "advice", "pipeline", "view", "export", "measure", "store"]),
    ("query", &["units", "stats", "model", "analysis", "store"]),
    ("fleet", &["units", "stats", "model", "analysis", "view", "store", "query"]),
    (
        "exitscope",
        &[
            "units",
            "stats",
            "signals",
            "policy",
            "apply",
            "scenario",
            "trial",
            "sim",
            "lab",
            "validation",
            "model",
            "trace",
            "record",
            "live",
            "measure",
            "http",
            "exporter",
            "analysis",
            "advice",
            "pipeline",
            "view",
            "top",
            "page",
            "serve",
            "export",
            "store",
            "ingest",
            "query",
            "fleet",
        ],
    ),
    ("python", &["model", "trace", "analysis", "view", "export", "columns", "exitscope"]),
];

/// The largest file outside corpus/, in bytes.
const MAX_FILE: u64 = 2 << 20;

/// Directories of somebody's machine. Split, so that this file passes its own check.
const MACHINE_PATHS: &[&str] =
    &[concat!("/", "tmp/"), concat!("/", "work/"), concat!("/", "home/"), concat!("/", "root/")];

/// What must not be left in code.
const LEFT_OVER: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimple", "mented!("),
];

/// Parts of a host name that betray a package mirror, and the public registries, which may be named.
const MIRROR_WORDS: &[&str] = &["registry", "mirror", "artifact", "nexus", "proxy", "pypi"];
const PUBLIC_HOSTS: &[&str] = &["registry.npmjs.org", "crates.io", "index.crates.io", "static.crates.io"];

/// Runs every check.
pub fn run() -> anyhow::Result<()> {
    let files = files()?;
    let mut findings = Vec::new();
    for path in &files {
        check_file(path, &mut findings)?;
        check_skips(path, &mut findings)?;
    }
    check_crates(&files, &mut findings)?;
    check_imports(&mut findings)?;
    check_corpus(&files, &mut findings)?;
    house::check(&mut findings)?;
    excerpts::check(&mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    println!("tidy: {} files, nothing found", files.len());
    Ok(())
}

/// Every file that is tracked or would be added, relative to the top directory.
pub(crate) fn files() -> anyhow::Result<BTreeSet<PathBuf>> {
    let output = Command::new("git")
        // A clone that another user made is still the one to look at.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("git is needed to list the files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name that is not UTF-8")?;
    let paths = names.split_terminator('\0').map(PathBuf::from);
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

fn check_file(path: &Path, findings: &mut Vec<String>) -> anyhow::Result<()> {
    let bytes = std::fs::read(root().join(path))?;
    if bytes.len() as u64 > MAX_FILE && !path.starts_with("corpus") {
        findings.push(format!("{}: {} bytes; at most {MAX_FILE} outside corpus/", path.display(), bytes.len()));
    }
    let Some(text) = text(&bytes) else { return Ok(()) };
    for (at, line) in text.lines().enumerate() {
        for problem in line_problems(line) {
            findings.push(format!("{}:{}: {problem}", path.display(), at + 1));
        }
    }
    if path.extension().is_some_and(|extension| extension == "md") {
        for (line, link) in links(text) {
            let target = root().join(path).with_file_name("").join(&link);
            if !target.exists() {
                findings.push(format!("{}:{line}: the link {link} leads nowhere", path.display()));
            }
        }
    }
    Ok(())
}

/// The file as text, unless it is binary.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn line_problems(line: &str) -> Vec<String> {
    let paths = MACHINE_PATHS.iter().filter(|path| begins_a_path(line, path));
    let left_over = LEFT_OVER.iter().filter(|word| contains_word(line, word));
    let mut problems: Vec<String> = paths.map(|path| format!("a machine's path, {path}…")).collect();
    problems.extend(left_over.map(|word| format!("{word} left over")));
    problems.extend(hosts(line).filter(|host| is_mirror(host)).map(|host| format!("a package mirror, {host}")));
    problems
}

/// Whether `path` stands in `line` as the beginning of a path, not in the middle of one.
fn begins_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '/' | '}'))
    })
}

/// Whether `word` stands in `line` and is not a part of a longer word.
pub(crate) fn contains_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let goes_on = word.ends_with(inside) && line[at + word.len()..].starts_with(inside);
        !line[..at].ends_with(inside) && !goes_on
    })
}

/// The host names of the URLs in `line`.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '@')));
        let host = &rest[..end.unwrap_or(rest.len())];
        host.rsplit('@').next().unwrap_or(host)
    })
}

fn is_mirror(host: &str) -> bool {
    !PUBLIC_HOSTS.contains(&host) && MIRROR_WORDS.iter().any(|word| host.contains(word))
}

/// Targets of markdown links that are files of the repository, without anchors, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (open, _) in line.match_indices("](") {
            let rest = &line[open + 2..];
            let Some(close) = rest.find(')') else { continue };
            let target = rest[..close].split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((at + 1, target.to_string()));
            }
        }
    }
    found
}

/// Every crate says in its first line what it is.
fn check_crates(files: &BTreeSet<PathBuf>, findings: &mut Vec<String>) -> anyhow::Result<()> {
    for manifest in files.iter().filter(|path| path.ends_with("Cargo.toml") && *path != Path::new("Cargo.toml")) {
        let sources = ["lib.rs", "main.rs"].map(|name| manifest.with_file_name("src").join(name));
        for source in sources.iter().filter(|source| files.contains(*source)) {
            if !std::fs::read_to_string(root().join(source))?.starts_with("//!") {
                findings.push(format!("{}:1: no header comment that says what the crate is", source.display()));
            }
        }
    }
    Ok(())
}

/// The tables of corpus/README.md name every file of the corpus, and no other. corpus/found/ and corpus/nulls/ need no tables.
fn check_corpus(files: &BTreeSet<PathBuf>, findings: &mut Vec<String>) -> anyhow::Result<()> {
    let readme = std::fs::read_to_string(root().join("corpus/README.md"))?;
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<PathBuf> = rows.map(|(name, _)| Path::new("corpus").join(name)).collect();
    let exempt = |path: &Path| {
        path == Path::new("corpus/README.md") || ["corpus/found", "corpus/nulls"].iter().any(|of| path.starts_with(of))
    };
    let there: BTreeSet<PathBuf> =
        files.iter().filter(|path| path.starts_with("corpus") && !exempt(path)).cloned().collect();
    for path in there.difference(&listed) {
        findings.push(format!("{}: not in the tables of corpus/README.md", path.display()));
    }
    for path in listed.difference(&there) {
        findings.push(format!("corpus/README.md: lists {}, which is not there", path.display()));
    }
    Ok(())
}

fn check_imports(findings: &mut Vec<String>) -> anyhow::Result<()> {
    for folder in std::fs::read_dir(root().join("crates"))? {
        let name = folder?.file_name().to_string_lossy().into_owned();
        let Some((_, allowed)) = IMPORTS.iter().find(|row| row.0 == name) else {
            findings.push(format!("crates/{name}: what it may import is not in the table of xtask/src/tidy.rs"));
            continue;
        };
        let manifest = std::fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml"))?;
        for import in imports(&manifest).filter(|import| !allowed.contains(import)) {
            findings.push(format!("crates/{name}/Cargo.toml: {name} may not import {import}"));
        }
    }
    Ok(())
}

/// Our crates that a manifest names, without the one for tests where it is for tests.
fn imports(manifest: &str) -> impl Iterator<Item = &str> {
    let mut is_for_tests = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            is_for_tests = line == "[dev-dependencies]";
        }
        let import = line.strip_prefix("exitscope-")?.split(['.', ' ']).next()?;
        (import != FOR_TESTS || !is_for_tests).then_some(import)
    })
}

/// No test ends early without saying why.
fn check_skips(path: &Path, findings: &mut Vec<String>) -> anyhow::Result<()> {
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let is_page_test = path.starts_with("web/test") && path != Path::new(test_returns::PAGE_SKIPS);
    if !is_rust && !is_page_test {
        return Ok(());
    }
    let text = std::fs::read_to_string(root().join(path))?;
    if is_rust {
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let found = test_returns::find(&parsed).into_iter();
        findings.extend(found.map(|(line, what)| format!("{}:{line}: {what}", path.display())));
    } else {
        let found = test_returns::find_in_page_tests(&text).into_iter();
        let what = format!("a test is skipped: only {} may", test_returns::PAGE_SKIPS);
        findings.extend(found.map(|line| format!("{}:{line}: {what}", path.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_where_they_begin() {
        let tmp = MACHINE_PATHS[0];
        assert!(begins_a_path(&format!("see {tmp}x"), tmp));
        assert!(begins_a_path(&format!("-o={tmp}x"), tmp));
        assert!(!begins_a_path(&format!("/var{tmp}x"), tmp));
        assert!(!begins_a_path(&format!("target{tmp}x"), tmp));
    }

    #[test]
    fn the_crate_for_tests_is_imported_by_tests_alone() {
        let of =
            |section: &str| format!("[dependencies]\nexitscope-a.workspace = true\n{section}\nexitscope-skips = 1\n");
        assert_eq!(imports(&of("[dev-dependencies]")).collect::<Vec<_>>(), ["a"]);
        for section in ["", "[build-dependencies]"] {
            assert_eq!(imports(&of(section)).collect::<Vec<_>>(), ["a", FOR_TESTS], "{section}");
        }
    }

    #[test]
    fn words_are_found_whole() {
        assert!(contains_word("an xyz.", "xyz"));
        assert!(!contains_word("wxyz xyz_", "xyz"));
        assert!(contains_word("xyz!(a)", "xyz!("));
    }

    #[test]
    fn mirrors_are_told_from_public_registries() {
        // In pieces, so that this file passes its own check.
        let line = ["https:", "//registry.npmjs.org/a https:", "//me@registry.example:443/b https:", "//github.com"];
        let line = line.concat();
        let mirrors: Vec<&str> = hosts(&line).filter(|host| is_mirror(host)).collect();
        assert_eq!(mirrors, ["registry.example"]);
    }

    #[test]
    fn links_to_files_are_found_outside_code() {
        let text = "[a](b.md#c) [d](https://e) [f](#g)\n```\n[h](i)\n```\n![j](k.png)";
        assert_eq!(links(text), [(1, "b.md".to_string()), (5, "k.png".to_string())]);
    }
}
