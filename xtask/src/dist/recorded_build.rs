//! What a program itself says of the crates that it is made of: cargo-auditable puts them into its section `.dep-v0`, as JSON under
//! zlib (https://github.com/rust-secure-code/cargo-auditable/blob/master/PARSING.md).

use super::output;
use anyhow::{Context, ensure};
use flate2::read::ZlibDecoder;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// The largest such list that is read, in bytes.
const AT_MOST: u64 = 1 << 20;

#[derive(Deserialize)]
struct RecordedBuild {
    packages: Vec<RecordedCrate>,
}

#[derive(Deserialize)]
struct RecordedCrate {
    name: String,
    version: String,
    /// Absent of what runs in the program, `build` of what built it.
    #[serde(default)]
    kind: Option<String>,
}

/// Crates in a program, as `name version`.
pub fn crates_in(program: &Path) -> anyhow::Result<BTreeSet<String>> {
    let folder = tempfile::tempdir()?;
    let section = folder.path().join("section");
    let mut dump = Command::new("objcopy");
    dump.arg("--dump-section")
        .arg(format!(".dep-v0={}", section.display()))
        .arg(program)
        .arg(folder.path().join("copy"));
    output(&mut dump)?;
    let mut json = String::new();
    let compressed = std::fs::read(&section).context("the program says nothing of its crates")?;
    ZlibDecoder::new(compressed.as_slice()).take(AT_MOST).read_to_string(&mut json)?;
    let recorded: RecordedBuild = serde_json::from_str(&json)?;
    let in_program = recorded.packages.iter().filter(|of| of.kind.as_deref() != Some("build"));
    let crates: BTreeSet<String> = in_program.map(|of| format!("{} {}", of.name, of.version)).collect();
    ensure!(!crates.is_empty(), "the program names no crate");
    Ok(crates)
}
