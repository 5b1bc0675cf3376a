//! Recordings that the user asks for while they watch, and their reports: children of the caller's.
//!
//! ```text
//! R ─► ChildCommands::record ─► FILE ─► ChildCommands::report ─► ReportText
//!         └── ends with SIGINT when the user leaves: FILE is whole ─┘
//! ```

use crate::report_text::ReportText;
use chrono::{DateTime, Utc};
use exitscope_model::encode;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// How long a recording is.
const LENGTH: Duration = Duration::from_secs(5);

/// Letters of a VM's name that a file's name has, at most.
const NAME: usize = 64;

/// Bytes of a report that are shown, at most.
const REPORT: u64 = 1 << 22;

/// The VMs that a recording is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordTarget {
    /// All that is watched.
    All,
    /// One VM.
    Vm {
        /// Its process.
        pid: u32,
        /// Its name.
        name: String,
    },
}

impl RecordTarget {
    fn name(&self) -> &str {
        match self {
            RecordTarget::All => "all",
            RecordTarget::Vm { name, .. } => name,
        }
    }
}

/// The programs that record, and that read recordings. Their complaints are lines that may begin with `exitscope: `.
pub trait ChildCommands {
    /// Records for a time into a file; a SIGINT ends it earlier, and the file is whole.
    fn record(&self, target: &RecordTarget, length: Duration, file: &Path) -> Command;

    /// Prints the report of a recording: all of it, or the answer alone.
    fn report(&self, file: &Path, is_all: bool) -> Command;
}

/// Why there is no recording, or no report.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct ChildError {
    what: String,
    /// Its own words, if it ran.
    why: String,
}

/// The child at work, if any.
pub struct ChildRecorder<'a> {
    commands: &'a dyn ChildCommands,
    job: Option<Job>,
}

struct Job {
    child: Child,
    /// What it writes to standard output, and to standard error.
    said: [File; 2],
    file: PathBuf,
    kind: Kind,
}

enum Kind {
    Recording { name: String, began: Instant },
    Reporting { is_all: bool },
}

impl<'a> ChildRecorder<'a> {
    pub fn new(commands: &'a dyn ChildCommands) -> ChildRecorder<'a> {
        ChildRecorder { commands, job: None }
    }

    /// Begins a recording, unless something is at work.
    pub fn record(&mut self, target: &RecordTarget) -> Result<(), ChildError> {
        if self.job.is_some() {
            return Ok(());
        }
        let file = free_name(Path::new(""), target.name(), SystemTime::now().into());
        let command = self.commands.record(target, LENGTH, &file);
        let kind = Kind::Recording { name: target.name().to_string(), began: Instant::now() };
        self.job = Some(Job::start(command, 80, file, kind, "cannot record")?);
        Ok(())
    }

    /// Begins the report of a recording, for a terminal of so many columns.
    pub fn report(&mut self, file: PathBuf, is_all: bool, columns: u16) -> Result<(), ChildError> {
        let command = self.commands.report(&file, is_all);
        self.job = Some(Job::start(command, columns, file, Kind::Reporting { is_all }, "cannot make a report")?);
        Ok(())
    }

    /// The progress of a recording, in a line.
    pub fn progress(&self) -> Option<String> {
        let job = self.job.as_ref()?;
        Some(match &job.kind {
            Kind::Recording { name, began } if began.elapsed() < LENGTH => {
                let (done, all) = (began.elapsed().as_secs(), LENGTH.as_secs());
                format!("recording {}: {done} of {all} s, to {}", encode::line(name), job.file.display())
            }
            Kind::Recording { .. } => format!("ending {}", job.file.display()),
            Kind::Reporting { .. } => format!("reading {}", job.file.display()),
        })
    }

    /// Goes on if the child has ended: to the report, and then with it.
    pub fn poll(&mut self, columns: u16) -> Result<Option<ReportText>, ChildError> {
        let Some(mut job) = self.job.take() else { return Ok(None) };
        match (job.child.try_wait(), &job.kind) {
            (Ok(None), _) => self.job = Some(job),
            (Ok(Some(status)), _) if !status.success() => return Err(job.failed(&status.to_string())),
            (Err(error), _) => return Err(job.failed(&error.to_string())),
            (_, Kind::Recording { .. }) => self.report(job.file, false, columns)?,
            (_, &Kind::Reporting { is_all }) => {
                let text = job.text(0);
                return Ok(Some(ReportText::new(job.file, &text, is_all)));
            }
        }
        Ok(None)
    }

    /// Ends what is at work. A recording is whole then; `say` gets its name, and what its recorder says of it.
    pub fn end(self, say: impl Fn(&str)) {
        let Some(mut job) = self.job else { return };
        if let Kind::Reporting { .. } = job.kind {
            let _ = job.child.kill();
            let _ = job.child.wait();
            return;
        }
        say(&format!("ending the recording {}", job.file.display()));
        let _ = kill_process(Pid::from_child(&job.child), Signal::INT);
        if job.child.wait().is_ok() {
            job.text(1).lines().for_each(|line| say(without_name(line)));
        }
    }
}

impl Job {
    fn start(command: Command, columns: u16, file: PathBuf, kind: Kind, failed: &str) -> Result<Job, ChildError> {
        let started = spawned(command, columns);
        let (child, said) = started.map_err(|error| ChildError { what: failed.to_string(), why: error.to_string() })?;
        Ok(Job { child, said, file, kind })
    }

    /// What it has written to standard output (0) or standard error (1).
    fn text(&mut self, which: usize) -> String {
        let mut bytes = Vec::new();
        let said = &mut self.said[which];
        if said.rewind().is_ok() {
            let _ = said.take(REPORT).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Why it failed: in its own words, else because of `otherwise`.
    fn failed(&mut self, otherwise: &str) -> ChildError {
        let said = self.text(1);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let what = match self.kind {
            Kind::Recording { .. } => "cannot record".to_string(),
            Kind::Reporting { .. } => format!("no report of {}", self.file.display()),
        };
        ChildError { what, why: last.map_or(otherwise, without_name).to_string() }
    }
}

/// Begins a command, whose standard output and error go to these files.
fn spawned(mut command: Command, columns: u16) -> io::Result<(Child, [File; 2])> {
    let said = [tempfile::tempfile()?, tempfile::tempfile()?];
    command.env("COLUMNS", columns.to_string()).stdin(Stdio::null());
    let child = command.stdout(said[0].try_clone()?).stderr(said[1].try_clone()?).spawn()?;
    Ok((child, said))
}

/// A complaint without the program's name.
fn without_name(line: &str) -> &str {
    line.strip_prefix("exitscope: ").unwrap_or(line)
}

/// A name in this folder that says VM and time, and that no file has.
fn free_name(folder: &Path, vm: &str, time: DateTime<Utc>) -> PathBuf {
    let safe = |letter: char| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let vm: String = vm.chars().take(NAME).map(safe).collect();
    let name = format!("exitscope-{vm}-{}", time.format("%Y%m%dT%H%M%SZ"));
    let mut all = (1..).map(|number| match number {
        1 => folder.join(format!("{name}.perf.data")),
        more => folder.join(format!("{name}-{more}.perf.data")),
    });
    all.find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_named_by_vm_and_time_and_takes_no_name_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let time = DateTime::from_timestamp(86_400, 0).unwrap();
        let name = |vm: &str| {
            let path = free_name(folder.path(), vm, time);
            assert_eq!(path.parent(), Some(folder.path()));
            path.file_name().unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(name("web01"), "exitscope-web01-19700102T000000Z.perf.data");
        assert_eq!(name("../a b\n"), "exitscope-.._a_b_-19700102T000000Z.perf.data");
        assert!(name(&"漢".repeat(200)).len() < 255);
        std::fs::write(folder.path().join(name("web01")), "").unwrap();
        // A link that leads nowhere is taken, too.
        std::os::unix::fs::symlink("nowhere", folder.path().join(name("web01"))).unwrap();
        assert_eq!(name("web01"), "exitscope-web01-19700102T000000Z-3.perf.data");
    }
}
