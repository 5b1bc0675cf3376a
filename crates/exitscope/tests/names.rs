//! Version 1 of all names: what docs/names-v1.txt lists stays. `cargo xtask docs` adds what is new, and takes nothing away.
//!
//! ```text
//! docs/*.schema.json ─► keys, by path ────┐
//! docs/columns.md, metrics.md, figures.md ┼─► names ⊇ docs/names-v1.txt
//! completions ─► flags, and their values ─┘
//! ```

mod common;

use common::{exitscope, root};
use serde_json::Value;
use std::collections::BTreeSet;

/// Set, this has new names added to the list.
const WRITE: &str = "EXITSCOPE_WRITE_DOCUMENTS";

/// Schemas of JSON that scripts read; that of pages is for their own front end.
const SCHEMAS: [&str; 15] = [
    "report",
    "counts",
    "diff",
    "counts-diff",
    "events",
    "top",
    "replay",
    "advise",
    "try",
    "sim",
    "sweep",
    "validate",
    "lab",
    "fleet",
    "doctor",
];

/// Adds the path of each key of a schema.
fn keys(root: &Value, schema: &Value, path: &str, names: &mut BTreeSet<String>) {
    if let Some(definition) = schema["$ref"].as_str() {
        keys(root, root.pointer(definition.trim_start_matches('#')).unwrap(), path, names);
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        keys(root, property, &path, names);
        names.insert(path);
    }
    for alternative in ["anyOf", "oneOf", "allOf"] {
        schema[alternative].as_array().into_iter().flatten().for_each(|of| keys(root, of, path, names));
    }
    if schema["items"].is_object() {
        keys(root, &schema["items"], &format!("{path}[]"), names);
    }
}

/// Adds what stands between backquotes in the first column of a document's tables, after `kind` and the heading above.
fn rows(kind: &str, document: &str, names: &mut BTreeSet<String>) {
    let mut heading = String::new();
    for line in document.lines() {
        if let Some(of) = line.strip_prefix("## ") {
            heading = format!("{of}.");
        }
        let cell = line.strip_prefix("| `").and_then(|_| line.split('|').nth(1)).unwrap_or_default();
        names.extend(cell.split('`').skip(1).step_by(2).map(|name| format!("{kind} {heading}{name}")));
    }
}

/// Adds the flags of each command, and the words that they take.
fn flags(completions: &str, names: &mut BTreeSet<String>) {
    let (mut command, mut flag) = (String::new(), String::new());
    for line in completions.lines().map(str::trim) {
        let quoted = || line.split('"').nth(1).unwrap_or_default().split(' ').filter(|word| !word.is_empty());
        if let Some(of) = line.strip_suffix(')').filter(|of| of.starts_with("exitscope")) {
            command = of.replace("__subcmd__", " ");
        } else if let Some(of) = line.strip_suffix(')').filter(|of| of.starts_with("--")) {
            flag = of.to_string();
        } else if command.contains(" help") {
            // It takes what the commands themselves take.
        } else if line.starts_with("opts=") {
            names.extend(quoted().filter(|word| word.starts_with("--")).map(|flag| format!("flag {command} {flag}")));
        } else if line.starts_with("COMPREPLY=($(compgen -W \"") && !line.contains("${opts}") {
            names.extend(quoted().map(|word| format!("value {command} {flag} {word}")));
        }
    }
}

/// All names that exitscope prints, stores, exports or takes.
fn names() -> BTreeSet<String> {
    let read = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let mut names = BTreeSet::new();
    for name in SCHEMAS {
        let schema: Value = serde_json::from_str(&read(&format!("{name}.schema.json"))).unwrap();
        keys(&schema, &schema, &format!("key {name}"), &mut names);
    }
    for (kind, document) in [("column", "columns.md"), ("metric", "metrics.md"), ("figure", "figures.md")] {
        rows(kind, &read(document), &mut names);
    }
    let output = exitscope().args(["completions", "bash"]).output().unwrap();
    flags(&String::from_utf8(output.stdout).unwrap(), &mut names);
    names
}

#[test]
fn no_name_of_version_1_is_missing() {
    let path = root().join("docs/names-v1.txt");
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    let mut listed: BTreeSet<String> = listed.lines().map(str::to_string).collect();
    let now = names();
    if std::env::var_os(WRITE).is_some() {
        listed.extend(now.iter().cloned());
        let all: Vec<&str> = listed.iter().map(String::as_str).collect();
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
    }
    let missing: Vec<_> = listed.difference(&now).collect();
    assert!(missing.is_empty(), "version 1 has these, and they are gone: {missing:#?}");
    let new: Vec<_> = now.difference(&listed).collect();
    assert!(new.is_empty(), "`cargo xtask docs` adds these: {new:#?}");
    let has = |name: &str| assert!(now.contains(name), "{name}");
    has("key report.causes[].subject.kind");
    has("column exits.user_space_ns");
    has("metric exitscope_exits_total");
    has("figure throughput");
    has("flag exitscope report --by");
    has("value exitscope report --sort exit-time");
}
