//! What an earlier release wrote is read by this one: a folder for each release, made by it (`releases/make`).
//!
//! ```text
//! perf.data.gz ─► report ─► has every key of report.json, and its counts
//! lab.json     ─► lab show, lab exits --against
//! store/       ─► store check, and its exits
//! ```

mod common;

use common::{exitscope, report, root, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Folders of releases, by version.
fn releases() -> BTreeMap<String, PathBuf> {
    let folder = root().join("crates/exitscope/tests/releases");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), path);
    let releases: BTreeMap<String, PathBuf> = entries.filter(|path| path.is_dir()).map(named).collect();
    assert!(releases.contains_key("0.1.0"), "no release's files: {releases:?}");
    releases
}

/// Paths of keys with the kinds of their values; `[]` is any place of a list.
fn kinds(value: &Value, path: &str, found: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        // What was not measured may be measured by another release.
        Value::Null => return,
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(values) => {
            values.iter().for_each(|value| kinds(value, &format!("{path}[]"), found));
            "list"
        }
        Value::Object(values) => {
            values.iter().for_each(|(key, value)| kinds(value, &format!("{path}.{key}"), found));
            "object"
        }
    };
    found.insert(path.to_string(), kind);
}

/// Paths of keys that went, or hold another kind of value.
fn gone(then: &Value, now: &Value) -> Vec<String> {
    let (mut had, mut has) = (BTreeMap::new(), BTreeMap::new());
    kinds(then, "", &mut had);
    kinds(now, "", &mut has);
    had.into_iter().filter(|(path, kind)| has.get(path) != Some(kind)).map(|(path, _)| path).collect()
}

/// Exits by reason.
fn counts(report: &Value) -> BTreeMap<&str, u64> {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().map(|row| (row["reason"].as_str().unwrap(), row["count"].as_u64().unwrap())).collect()
}

#[test]
fn every_earlier_release_has_its_files() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let versions = changelog.lines().filter_map(|line| line.strip_prefix("## [")?.split_once(']'));
    let named: Vec<&str> = versions.map(|(version, _)| version).filter(|version| *version != "Unreleased").collect();
    assert!(named.contains(&env!("CARGO_PKG_VERSION")), "CHANGELOG.md does not know this version: {named:?}");
    let releases = releases();
    for version in named.into_iter().filter(|version| *version != env!("CARGO_PKG_VERSION")) {
        assert!(releases.contains_key(version), "{version} has no files: crates/exitscope/tests/releases/make");
    }
}

#[test]
fn recordings_of_earlier_releases_have_the_same_exits_under_the_same_keys() {
    for (version, folder) in releases() {
        let now = report(&[&folder.join("perf.data.gz")], &[]);
        let then: Value = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
        assert!(then["total"]["count"].as_u64().unwrap() > 0, "{version}: nothing was recorded");
        assert_eq!(counts(&now), counts(&then), "{version}");
        assert_eq!(gone(&then, &now), Vec::<String>::new(), "{version}");
    }
}

#[test]
fn saved_runs_of_earlier_releases_are_shown() {
    for (version, folder) in releases() {
        let file = folder.join("lab.json");
        let saved: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let shown = exitscope().args(["lab", "show", "--format", "json"]).arg(&file).output().unwrap();
        assert!(shown.status.success(), "{version}: {}", stderr(&shown));
        let shown: Value = serde_json::from_str(&stdout(&shown)).unwrap();
        let figures = |run: &Value| run["tables"].as_array().map(Vec::len);
        assert!(figures(&saved).is_some_and(|tables| tables > 0), "{version}: no tables: {saved}");
        assert_eq!(figures(&shown), figures(&saved), "{version}");
        assert_eq!(gone(&saved["tables"], &shown["tables"]), Vec::<String>::new(), "{version}");
    }
}

#[cfg(feature = "store")]
#[test]
fn stores_of_earlier_releases_are_whole_and_grow() {
    use exitscope_store::Store;
    for (version, folder) in releases() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let copied = std::process::Command::new("cp").arg("-r").arg(folder.join("store")).arg(&store).status().unwrap();
        assert!(copied.success());
        let check = exitscope().args(["store", "check"]).arg(&store).output().unwrap();
        assert!(check.status.success(), "{version}: {}{}", stdout(&check), stderr(&check));
        let exits = || -> u64 {
            let store = Store::open(&store).unwrap();
            let pieces = store.contents().unwrap().pieces.into_values().filter(|piece| piece.table == "exits");
            pieces.flat_map(|piece| store.rows(&piece).unwrap().map(|batch| batch.unwrap().num_rows() as u64)).sum()
        };
        let then: Value = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
        assert_eq!(exits(), then["total"]["count"].as_u64().unwrap(), "{version}");
        let other = common::corpus("x86-svm/t2.data.gz");
        let add = exitscope().args(["store", "add", "--host", "b"]).arg(&store).arg(other).output().unwrap();
        assert!(add.status.success(), "{version}: {}", stderr(&add));
        assert!(exits() > then["total"]["count"].as_u64().unwrap(), "{version}");
    }
}
