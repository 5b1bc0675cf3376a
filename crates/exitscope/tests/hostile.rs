//! One hostile name, thrown at every output: as the name of a VM's process, of its threads, of a file, of a scenario.

mod common;

use common::{corpus, exitscope, stderr, stdout, unpacked};
use std::path::{Path, PathBuf};
use std::process::Output;

/// A formula; a terminal's command; text that runs from right to left; an element; what ends frames, fields and lines. As long
/// as a name may be.
const NAME: &str = "=\u{1b}[2J\u{202e}<b>;\",\n";

/// What it replaces in the recording.
const THEIRS: &[u8] = b"qemu-system-x86";

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    let mut at = 0;
    while let Some(next) = bytes[at..].windows(from.len()).position(|window| window == from) {
        bytes[at + next..at + next + from.len()].copy_from_slice(to);
        at += next + from.len();
        found += 1;
    }
    assert!(found > 0, "the recording names its VM {found} times");
    bytes
}

/// The recording, under a name of the same kind.
fn recording(folder: &Path) -> PathBuf {
    let path = folder.join(NAME);
    std::fs::write(&path, replaced(&unpacked("x86-svm/t4-pipe.data.gz"), THEIRS, NAME.as_bytes())).unwrap();
    path
}

fn run(arguments: &[&str]) -> Output {
    exitscope().args(arguments).output().unwrap()
}

/// Nothing in it acts on a terminal.
fn assert_plain(text: &str, what: &[&str]) {
    let acts =
        |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
    let bad: Vec<&str> = text.lines().filter(|line| line.contains(acts)).collect();
    assert!(bad.is_empty(), "{what:?}: {bad:?}");
}

#[test]
fn nothing_in_a_name_acts_on_whoever_looks_at_text() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path());
    let trace = trace.to_str().unwrap();
    let t2 = corpus("x86-svm/t2.data.gz");
    let t2 = t2.to_str().unwrap();
    let scenario = folder.path().join("scenario.toml");
    let named = std::fs::read_to_string("../../scenarios/ping-pong.toml").unwrap();
    let quoted = serde_json::to_string(NAME).unwrap();
    let named = named.replace("name = \"ping-pong\"", &format!("name = {quoted}")).replace("\"pair\"", &quoted);
    std::fs::write(&scenario, named).unwrap();
    let scenario = scenario.to_str().unwrap();
    let cases: [&[&str]; 26] = [
        &["report", trace],
        &["report", trace, "--by", "vm,vcpu"],
        &["report", trace, "--view", "halt"],
        &["report", trace, "--view", "pio"],
        &["report", trace, "--view", "yield"],
        &["report", trace, "--view", "phases"],
        &["report", trace, "--view", "gang"],
        &["events", trace],
        &["diff", trace, t2],
        &["advise", trace],
        &["advise", trace, "--as", "libvirt"],
        &["advise", trace, "--as", "qemu"],
        &["advise", trace, "--as", "sysfs"],
        &["advise", trace, "--as", "modprobe"],
        &["advise", trace, "--as", "tuned"],
        &["advise", trace, "--as", "script"],
        &["replay", trace, "--policy", "host_halt_poll"],
        &["replay", trace, "--policy", "port_path"],
        &["sim", scenario],
        &["sweep", scenario, "--vary", "halt_poll_ns=0,50000"],
        // Errors.
        &["report", trace, "--vm", "nobody"],
        &["report", trace, "--fail-on", "count(*)>0", "--fail-on", "p99(rdpmc)>1us"],
        &["report", trace, "--reason", NAME],
        &["report", "\u{1b}[2J\u{202e}\nexitscope: all is well"],
        &["sim", trace],
        &["export", trace, "--format", "hdr"],
    ];
    for arguments in cases {
        let output = run(arguments);
        assert!(output.status.code().is_some(), "{arguments:?} died");
        assert_plain(&String::from_utf8_lossy(&output.stdout), arguments);
        assert_plain(&stderr(&output), arguments);
        // What is said in one line stays in one, and does not pass for another.
        assert!(!stderr(&output).lines().any(|line| line == "exitscope: all is well"), "{arguments:?}");
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{arguments:?} says nothing");
    }
    // The name is there, in the parts of it that do nothing.
    assert!(stdout(&run(&["report", trace, "--by", "vm,vcpu"])).contains("=\u{fffd}[2J\u{fffd}<b>;"));
}

#[test]
fn no_field_of_csv_is_a_formula_and_no_frame_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path());
    let trace = trace.to_str().unwrap();
    let cases: [&[&str]; 3] = [
        &["report", trace, "--format", "csv", "--by", "vm,vcpu,reason"],
        &["export", trace, "--format", "csv"],
        &["replay", trace, "--policy", "port_path", "--format", "csv"],
    ];
    for arguments in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        for record in csv::Reader::from_reader(&output.stdout[..]).records() {
            for field in &record.unwrap() {
                let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
                assert!(!formula, "{arguments:?}: {field:?}");
            }
        }
    }
    let folded = stdout(&run(&["export", trace, "--format", "folded"]));
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert_eq!((stack.split(';').count(), count.parse::<u64>().is_ok()), (4, true), "{line:?}");
    }
    assert_plain(&folded, &["folded"]);
}

#[test]
fn json_metrics_and_pages_hold_the_name_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path());
    let trace = trace.to_str().unwrap();
    for format in ["firefox", "speedscope"] {
        let output = run(&["export", trace, "--format", format]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json.to_string().contains("<b>;"), "{format}");
    }
    let output = run(&["report", trace, "--format", "json", "--by", "vm"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["rows"][0]["vm_name"], NAME, "data is as it is");
    // Every line is a comment or a sample of ours: no label ends one.
    let metrics = stdout(&run(&["export", trace, "--format", "openmetrics"]));
    assert!(metrics.contains("<b>;\\\",\\n"), "{metrics}");
    for line in metrics.lines() {
        assert!(line.starts_with("# ") || line.starts_with("exitscope_"), "{line:?}");
    }
    // The page's own elements are all there is before its data.
    let page = folder.path().join("page.html");
    let output = run(&["report", trace, "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(page).unwrap();
    let (before, data) = page.split_once("id=\"data\">").unwrap();
    assert!(before.contains("&lt;b&gt;;") && !before.contains("\u{202e}<b>"), "the title is escaped");
    assert!(!data.split('<').next().unwrap().contains(|c: char| !c.is_ascii()), "data is base64");
}

#[cfg(feature = "sql")]
#[test]
fn stores_and_queries_hold_the_name_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path());
    let trace = trace.to_str().unwrap();
    let dir = folder.path().join("fleet");
    let dir = dir.to_str().unwrap();
    let query = "select distinct vm_name from exits";
    let cases: [&[&str]; 7] = [
        &["store", "add", dir, trace, "--host", "a"],
        &["store", "add", dir, trace, "--host", "a"],
        &["store", "list", dir],
        &["store", "check", dir],
        &["sql", dir, query],
        &["sql", dir, query, "--format", "csv"],
        &["fleet", "report", dir, "--by", "host"],
    ];
    for arguments in cases {
        let output = run(arguments);
        assert!(output.status.code().is_some(), "{arguments:?} died");
        if arguments.contains(&"csv") {
            let mut rows = csv::Reader::from_reader(&output.stdout[..]);
            let names: Vec<String> = rows.records().map(|row| row.unwrap()[0].to_string()).collect();
            assert_eq!(names, ["'=\u{fffd}[2J\u{fffd}<b>;\",\u{fffd}"], "no formula any more, and nothing that acts");
            continue;
        }
        assert_plain(&String::from_utf8_lossy(&output.stdout), arguments);
        assert_plain(&stderr(&output), arguments);
    }
    assert!(stdout(&run(&["sql", dir, query])).contains("=\u{fffd}[2J\u{fffd}<b>;"));
}
