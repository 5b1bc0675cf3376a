//! The trials of this host: a line of JSON each, beside the state file.

use crate::report::terminal_style;
use crate::trial_args::{TryArgs, TryFormat};
use crate::{Outcome, write_json};
use anyhow::{Context, ensure};
use exitscope_apply::default_path;
use exitscope_view::{TrialReport, trial_history_page, write_page};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Larger files are not read.
const MAX_HISTORY: u64 = 64 << 20;

fn path(state: &Path) -> PathBuf {
    state.with_file_name("trials.jsonl")
}

/// Adds a trial.
pub fn add(state: &Path, report: &TrialReport) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path(state))?;
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

/// Shows them.
pub fn show(args: &TryArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = path(&args.state.clone().unwrap_or_else(default_path));
    let (trials, unread) = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(to) = &args.html {
        super::write_html(to, &trials)?;
    }
    match args.format {
        _ if args.html.is_some() => {}
        TryFormat::Json => trials.iter().try_for_each(|trial| write_json(trial, out))?,
        TryFormat::Text if trials.is_empty() => writeln!(out, "no trial was made here yet")?,
        TryFormat::Text => write_page(&trial_history_page(&trials), terminal_style(), out)?,
    }
    if unread > 0 {
        say!("{unread} lines of {} are no trial of this version: cut by a kill, or of another", path.display());
    }
    Ok(Outcome::Fine)
}

/// The trials, and how many lines were none.
fn read(path: &Path) -> anyhow::Result<(Vec<TrialReport>, usize)> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => {
            ensure!(file.metadata()?.len() <= MAX_HISTORY, "more than {} MiB", MAX_HISTORY >> 20);
            let mut bytes = Vec::new();
            file.take(MAX_HISTORY).read_to_end(&mut bytes)?;
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
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
        let state = folder.path().join("applied.json");
        let report: TrialReport = serde_json::from_value(serde_json::json!({
            "schema": TrialReport::SCHEMA, "began": "2026-11-26T12:00:00Z", "host": "vm", "places": ["/a"],
            "plan": {"settings": ["a=1", "a=2"], "settle_ns": 1, "turn_ns": 1, "length_ns": 8, "alpha": 0.05, "seed": 1,
                     "blocks": [[0, 1, 1, 0]]},
            "verdict": {"end": "decided", "why": "", "blocks": 8, "turns": 32, "took_ns": 64, "matters_percent": 1.0,
                        "settings": [], "keep": null},
            "causes": []
        }))
        .unwrap();
        assert_eq!(read(&path(&state)).unwrap().0.len(), 0);
        add(&state, &report).unwrap();
        let whole = std::fs::read(path(&state)).unwrap();
        std::fs::write(path(&state), &whole[..whole.len() - 40]).unwrap();
        add(&state, &report).unwrap();
        add(&state, &report).unwrap();
        let (trials, unread) = read(&path(&state)).unwrap();
        assert_eq!((trials.len(), unread), (2, 1));
    }
}
