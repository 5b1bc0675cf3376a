//! What commands say as JSON is as their schemas say, whatever was recorded. Tests of one command hold more against them.

mod common;

use common::{check_json, corpus, exitscope, root, stderr, traces};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Recordings of every architecture and of Xen.
fn recordings() -> Vec<PathBuf> {
    let logs = std::fs::read_dir(root().join("corpus/xen")).unwrap().map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "gz"));
    traces().into_iter().chain(logs).chain([corpus("lab/contended.data.gz")]).collect()
}

/// What a command says of these recordings as JSON, of each line of it.
fn lines(command: &str, recordings: &[&Path], arguments: &[&str]) -> Vec<Value> {
    let is_log = recordings.iter().any(|path| path.to_string_lossy().contains("/xen/"));
    let clock = if is_log { &["--tsc-hz", "2596120000"][..] } else { &[] };
    let output =
        exitscope().arg(command).args(recordings).args(arguments).args(clock).args(["--format", "json"]).output();
    let output = output.unwrap();
    // 1: a threshold was passed.
    assert!(output.status.code() < Some(2), "{command} {recordings:?}: {}", stderr(&output));
    serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect()
}

#[test]
fn reports_and_advice_about_every_recording_are_as_their_schemas_say() {
    for path in recordings() {
        check_json("report", &lines("report", &[&path], &["--by", "vcpu,reason,port", "--fail-on", "count(*)>1"]));
        check_json("advise", &lines("advise", &[&path], &[]));
    }
}

#[test]
fn events_of_every_recording_are_as_their_schema_says() {
    for path in recordings() {
        let events = lines("events", &[&path], &[]);
        assert!(!events.is_empty(), "{}", path.display());
        // Of a long one not each.
        check_json("events", events.iter().step_by(events.len() / 5_000 + 1));
    }
}

#[test]
fn comparisons_are_as_their_schema_says() {
    let [none, pipe, gang] =
        ["x86-svm/t4-none.dat.gz", "x86-svm/t4-pipe.data.gz", "powerpc/p8_smt4_trace.dat.gz"].map(corpus);
    check_json("diff", &lines("diff", &[&none, &pipe], &[]));
    check_json("diff", &lines("diff", &[&none, &gang], &["--reason", "npf"]));
}
