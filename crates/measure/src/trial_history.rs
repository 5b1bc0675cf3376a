//! The trials of this host: a line of JSON each, beside the state file.

use exitscope_view::TrialReport;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Larger files are not read.
const MAX_HISTORY: u64 = 64 << 20;

/// The file beside the state file of `advise --apply`.
pub fn history_path(state: &Path) -> PathBuf {
    state.with_file_name("trials.jsonl")
}

/// Adds a trial to this history.
pub fn add_to_history(path: &Path, report: &TrialReport) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    // What was cut by a kill is a line of its own.
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            line.insert(0, b'\n');
        }
    }
    file.write_all(&line)?;
    file.sync_data()
}

/// The trials, and how many lines were none.
pub fn read_history(path: &Path) -> io::Result<(Vec<TrialReport>, usize)> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => {
            if file.metadata()?.len() > MAX_HISTORY {
                return Err(io::Error::other(format!("more than {} MiB", MAX_HISTORY >> 20)));
            }
            let mut bytes = Vec::new();
            file.take(MAX_HISTORY).read_to_end(&mut bytes)?;
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (mut trials, mut unread) = (Vec::new(), 0);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match serde_json::from_str::<TrialReport>(line) {
            Ok(trial) if trial.schema == TrialReport::SCHEMA => trials.push(trial),
            _ => unread += 1,
        }
    }
    Ok((trials, unread))
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
