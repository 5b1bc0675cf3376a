//! Texts that are kept, of what the command prints. `cargo xtask docs` has the tests that compare them write them anew.

use super::{exitscope, root, stderr};
use rayon::prelude::*;
use serde_json::Value;

/// Set, this has files written instead of compared.
const WRITE: &str = "EXITSCOPE_WRITE_DOCUMENTS";

/// Each file below `folder`, and the arguments of the command, in the repository's top directory. What `--format json` prints is one
/// line; it is kept in many, for who reads what changed.
pub fn assert_kept(folder: &str, files: &[(&str, &str)]) {
    let writes = std::env::var_os(WRITE).is_some();
    let stale = files.par_iter().filter_map(|(name, arguments)| {
        let (path, new) = (root().join(folder).join(name), printed(arguments));
        let new = if arguments.contains("--format json") { in_lines(&new) } else { new };
        if writes {
            std::fs::write(&path, &new).unwrap();
        }
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        (old != new).then(|| format!("{folder}/{name}:{}", difference(&old, &new).unwrap_or_default()))
    });
    let stale: Vec<String> = stale.collect();
    assert!(stale.is_empty(), "`cargo xtask docs` writes these anew; look at what changed:\n{}", stale.join("\n"));
}

/// What the command prints with these arguments.
fn printed(arguments: &str) -> String {
    let output = exitscope().args(arguments.split(' ')).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "exitscope {arguments}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn in_lines(json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    format!("{value:#}\n")
}

/// The first line in which two texts differ, by number.
fn difference(of: &str, other: &str) -> Option<String> {
    let end = [""];
    let (lines, others) = (of.lines().chain(end), other.lines().chain(end));
    let (at, (line, other)) = lines.zip(others).enumerate().find(|(_, (line, other))| line != other)?;
    Some(format!("{}: {line:?} is now {other:?}", at + 1))
}
