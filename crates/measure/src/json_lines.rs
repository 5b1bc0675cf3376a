//! Files of JSON, a line each, that only grow: the trials of this host, beside the state file, and predictions.

use exitscope_view::{PredictionLine, TrialReport};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Larger files are not read.
const MAX_LINES: u64 = 64 << 20;

/// The file of trials beside the state file of `advise --apply`.
pub fn history_path(state: &Path) -> PathBuf {
    state.with_file_name("trials.jsonl")
}

/// Adds a trial to this history.
pub fn add_to_history(path: &Path, report: &TrialReport) -> io::Result<()> {
    add_lines(path, std::slice::from_ref(report))
}

/// The trials, and how many lines were none.
pub fn read_history(path: &Path) -> io::Result<(Vec<TrialReport>, usize)> {
    let (mut trials, unread) = match read_lines(path, |line| serde_json::from_str::<TrialReport>(line)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        read => read?,
    };
    let all = trials.len();
    trials.retain(|trial| trial.schema == TrialReport::SCHEMA);
    let others = all - trials.len();
    Ok((trials, unread + others))
}

/// Adds lines to a file of predictions, or makes it.
pub fn add_predictions(path: &Path, lines: &[PredictionLine]) -> io::Result<()> {
    add_lines(path, lines)
}

/// What a file of predictions, or the history of trials, says of predictions; and how many lines were none.
pub fn read_predictions(path: &Path) -> io::Result<(Vec<PredictionLine>, usize)> {
    let (lines, unread) = read_lines(path, PredictionLine::read)?;
    Ok((lines.into_iter().flatten().collect(), unread))
}

fn add_lines<T: Serialize>(path: &Path, lines: &[T]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    // What was cut by a kill is a line of its own.
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.insert(0, b'\n');
        }
    }
    file.write_all(&text)?;
    file.sync_data()
}

fn read_lines<T>(path: &Path, read: impl Fn(&str) -> serde_json::Result<T>) -> io::Result<(Vec<T>, usize)> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_LINES {
        return Err(io::Error::other(format!("more than {} MiB", MAX_LINES >> 20)));
    }
    let mut bytes = Vec::new();
    file.take(MAX_LINES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut all, mut unread) = (Vec::new(), 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match read(line) {
            Ok(read) => all.push(read),
            Err(_) => unread += 1,
        }
    }
    Ok((all, unread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_loses_no_other_trial() {
        let folder = tempfile::tempdir().unwrap();
        let path = history_path(&folder.path().join("applied.json"));
        let report: TrialReport = serde_json::from_value(serde_json::json!({
            "schema": TrialReport::SCHEMA, "began": "2026-11-26T12:00:00Z", "host": "vm", "places": ["/a"],
            "plan": {"settings": ["a=1", "a=2"], "settle_ns": 1, "turn_ns": 1, "length_ns": 8, "alpha": 0.05, "seed": 1,
                     "blocks": [[0, 1, 1, 0]]},
            "verdict": {"end": "decided", "why": "", "blocks": 8, "turns": 32, "took_ns": 64, "matters_percent": 1.0,
                        "settings": [], "keep": null},
            "causes": []
        }))
        .unwrap();
        assert_eq!(read_history(&path).unwrap().0.len(), 0);
        add_to_history(&path, &report).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 40]).unwrap();
        add_to_history(&path, &report).unwrap();
        add_to_history(&path, &report).unwrap();
        let (trials, unread) = read_history(&path).unwrap();
        assert_eq!((trials.len(), unread), (2, 1));
    }
}
