//! Recordings that the user asks for while they watch, and their reports: children of the same command.
//!
//! ```text
//! R ─► exitscope record --for 5s ─► FILE ─► exitscope report FILE ─► ReportText
//!         └── ends with SIGINT when the user leaves: FILE is whole ──┘
//! ```

use super::report_text::ReportText;
use crate::cli::TopArgs;
use anyhow::Context;
use chrono::{DateTime, Utc};
use exitscope_model::encode;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// How long a recording is.
const LENGTH: Duration = Duration::from_secs(5);

/// Letters of a VM's name that a file's name has, at most.
const NAME: usize = 64;

/// Bytes of a report that are shown, at most.
const REPORT: u64 = 1 << 22;

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordTarget {
    /// All that is watched.
    All,
    /// One VM.
    Vm { pid: u32, name: String },
}

impl RecordTarget {
    fn name(&self) -> &str {
        match self {
            RecordTarget::All => "all",
            RecordTarget::Vm { name, .. } => name,
        }
    }
}

/// What became of a child.
pub enum ChildOutcome {
    Report(ReportText),
    Trouble(String),
}

/// The child at work, if any.
pub struct ChildRecorder {
    /// Flags of `record` for all that is watched.
    all: Vec<String>,
    no_bpf: bool,
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

impl ChildRecorder {
    pub fn new(args: &TopArgs) -> ChildRecorder {
        let pids: Vec<String> = args.whose.pid.iter().map(u32::to_string).collect();
        let all = match &args.whose.vm {
            Some(name) => vec![format!("--vm={name}")],
            None if pids.is_empty() => Vec::new(),
            None => vec![format!("--pid={}", pids.join(","))],
        };
        ChildRecorder { all, no_bpf: args.no_bpf, job: None }
    }

    /// Begins a recording.
    pub fn record(&mut self, target: &RecordTarget) -> anyhow::Result<()> {
        if self.job.is_some() {
            return Ok(());
        }
        let file = free_name(Path::new(""), target.name(), SystemTime::now().into());
        let mut arguments = vec!["record".to_string(), format!("--for={}s", LENGTH.as_secs())];
        match target {
            RecordTarget::All => arguments.extend(self.all.iter().cloned()),
            RecordTarget::Vm { pid, .. } => arguments.push(format!("--pid={pid}")),
        }
        arguments.extend(self.no_bpf.then(|| "--no-bpf".to_string()));
        arguments.push(format!("--output={}", file.display()));
        let kind = Kind::Recording { name: target.name().to_string(), began: Instant::now() };
        self.job = Some(Job::start(&arguments, 80, file, kind).context("cannot record")?);
        Ok(())
    }

    /// Begins the report of a recording, for a terminal of so many columns.
    pub fn report(&mut self, file: PathBuf, is_all: bool, columns: u16) -> anyhow::Result<()> {
        let mut arguments = vec!["report".to_string(), file.display().to_string()];
        arguments.extend(is_all.then(|| "--all".to_string()));
        let job = Job::start(&arguments, columns, file, Kind::Reporting { is_all });
        self.job = Some(job.context("cannot make a report")?);
        Ok(())
    }

    /// How far it is.
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
    pub fn poll(&mut self, columns: u16) -> Option<ChildOutcome> {
        let job = self.job.as_mut()?;
        let code = match job.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(code)) => code,
            Err(error) => return self.fail(error.to_string()),
        };
        let job = self.job.take()?;
        let failed = |job: &mut Job, what: &str| Some(ChildOutcome::Trouble(format!("{what}: {}", job.trouble(code))));
        let mut job = job;
        match job.kind {
            Kind::Recording { .. } if !code.success() => failed(&mut job, "cannot record"),
            Kind::Recording { .. } => match self.report(job.file, false, columns) {
                Ok(()) => None,
                Err(error) => Some(ChildOutcome::Trouble(format!("{error:#}"))),
            },
            Kind::Reporting { .. } if !code.success() => {
                let what = format!("no report of {}", job.file.display());
                failed(&mut job, &what)
            }
            Kind::Reporting { is_all } => {
                Some(ChildOutcome::Report(ReportText::new(job.file.clone(), &job.text(0), is_all)))
            }
        }
    }

    fn fail(&mut self, why: String) -> Option<ChildOutcome> {
        self.job = None;
        Some(ChildOutcome::Trouble(why))
    }

    /// Ends what is at work. A recording is whole then, and its name is said.
    pub fn end(&mut self) {
        let Some(mut job) = self.job.take() else { return };
        if let Kind::Reporting { .. } = job.kind {
            let _ = job.child.kill();
            let _ = job.child.wait();
            return;
        }
        say!("ending the recording {}", job.file.display());
        let _ = kill_process(Pid::from_child(&job.child), Signal::INT);
        if job.child.wait().is_ok() {
            for line in job.text(1).lines() {
                say!("{}", line.strip_prefix("exitscope: ").unwrap_or(line));
            }
        }
    }
}

impl Job {
    fn start(arguments: &[String], columns: u16, file: PathBuf, kind: Kind) -> anyhow::Result<Job> {
        let said = [tempfile::tempfile()?, tempfile::tempfile()?];
        let child = Command::new("/proc/self/exe")
            .args(arguments)
            .env("COLUMNS", columns.to_string())
            .stdin(Stdio::null())
            .stdout(said[0].try_clone()?)
            .stderr(said[1].try_clone()?)
            .spawn()?;
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

    /// Why it failed, in its own words.
    fn trouble(&mut self, code: ExitStatus) -> String {
        let said = self.text(1);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map_or(code.to_string(), |line| line.strip_prefix("exitscope: ").unwrap_or(line).to_string())
    }
}

/// A name in this folder that says VM and time, and that no file has.
fn free_name(folder: &Path, vm: &str, time: DateTime<Utc>) -> PathBuf {
    let safe = |letter: char| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let vm: String = vm.chars().take(NAME).map(safe).collect();
    let name = format!("exitscope-{vm}-{}", time.format("%Y%m%dT%H%M%SZ"));
    let all = (1..).map(|number| match number {
        1 => folder.join(format!("{name}.perf.data")),
        more => folder.join(format!("{name}-{more}.perf.data")),
    });
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    all.into_iter().find(is_free).unwrap_or_default()
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
