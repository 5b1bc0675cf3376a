//! What the tests share: the corpus and the command.
#![allow(dead_code)]

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file of the corpus.
pub fn corpus(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(path);
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

/// The bytes of a file of the corpus, unpacked.
pub fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    MultiGzDecoder::new(File::open(corpus(path)).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Every trace of the corpus.
pub fn traces() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut traces: Vec<PathBuf> = ["x86-svm", "arm64", "powerpc"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    traces.sort();
    assert!(traces.len() >= 18, "the corpus has shrunk to {} traces", traces.len());
    traces
}

/// The command.
pub fn exitscope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exitscope"));
    command.env_remove("NO_COLOR").env_remove("COLUMNS").env("CLICOLOR", "0");
    command
}

/// Runs the command with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    exitscope().args(arguments).output().unwrap()
}

/// What the command wrote to standard output, as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The JSON report of these files.
pub fn report(files: &[&Path], arguments: &[&str]) -> serde_json::Value {
    let output = exitscope().arg("report").args(files).args(["--format", "json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}
