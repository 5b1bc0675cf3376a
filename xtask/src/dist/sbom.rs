//! The list of what the program is made of, in CycloneDX's form: by cargo-cyclonedx, from the lock file.

use super::compile::{Flavour, TARGET};
use super::tools::CYCLONEDX;
use super::{output, source_date};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The list's name in dist/.
pub const NAME: &str = "sbom.cdx.json";

/// Writes the list. The tool writes beside manifests, so it is given a copy of the tree.
pub fn make(into: &Path) -> anyhow::Result<()> {
    let copy = tempfile::tempdir()?;
    super::compile::copy_tree(copy.path())?;
    let package = copy.path().join("crates").join(Flavour::PLAIN.name);
    let mut write = Command::new(CYCLONEDX.program()?);
    write.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--target", TARGET]);
    write.args(["--no-build-deps", "--override-filename", "exitscope.cdx", "--manifest-path"]);
    write.arg(package.join("Cargo.toml")).env("SOURCE_DATE_EPOCH", source_date()?.to_string());
    output(&mut write)?;
    let mut list: Value = serde_json::from_slice(&fs::read(package.join("exitscope.cdx.json"))?)?;
    without_paths(&mut list, &copy.path().display().to_string());
    let text = format!("{}\n", serde_json::to_string_pretty(&list)?);
    ensure!(!text.contains(&copy.path().display().to_string()), "the list names this machine's paths");
    Ok(fs::write(into.join(NAME), text)?)
}

/// Our crates are called by where they were; that is nowhere on another machine.
fn without_paths(value: &mut Value, path: &str) {
    match value {
        Value::String(text) => *text = text.replace(path, ""),
        Value::Array(values) => values.iter_mut().for_each(|value| without_paths(value, path)),
        Value::Object(values) => values.values_mut().for_each(|value| without_paths(value, path)),
        _ => {}
    }
}

/// Crates that a list names, as `name version`.
pub fn crates_in(list: &Path) -> anyhow::Result<BTreeSet<String>> {
    let list: Value = serde_json::from_slice(&fs::read(list)?)?;
    let own = &list["metadata"]["component"];
    let all = list["components"].as_array().context("a list without components")?.iter().chain([own]);
    let named = |of: &Value| Some(format!("{} {}", of["name"].as_str()?, of["version"].as_str()?));
    all.map(|of| named(of).with_context(|| format!("a component without a name: {of}"))).collect()
}
