//! Whether two builds of exitscope say the same: of every recording, what they print, and their exit status.
//!
//! ```text
//! recordings × commands ─┬─► OLD ─┐
//!                        └─► NEW ─┴─► those that differ, with the first line that does
//! ```

use crate::root;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is asked of each recording. PAGE is a file that is written; of Xen's logs, a rate is added.
const COMMANDS: &[&[&str]] = &[
    &["report"],
    &["report", "--all"],
    &["report", "--format", "json"],
    &["report", "--format", "csv"],
    &["report", "--view", "pio"],
    &["report", "--view", "halt"],
    &["report", "--view", "yield"],
    &["report", "--view", "gang"],
    &["report", "--view", "phases"],
    &["report", "--html", "PAGE"],
    &["report", "--fail-on", "p99>1us"],
    &["advise"],
    &["advise", "--format", "json"],
    &["advise", "--as", "script"],
    &["replay", "--policy", "host_halt_poll", "--vary", "halt_poll_ns=0,50us"],
    &["replay", "--policy", "yielding", "--vary", "ple_window=0,4096"],
    &["replay", "--policy", "vcore", "--vary", "smt_mode=1,4"],
    &["replay", "--policy", "port_path", "--vary", "quick_path=Y,N"],
    &["diff", "--format", "json", "AGAIN"],
];

/// Hz of the clock of Xen's logs in the corpus.
const XEN_HZ: &str = "2596120000";

/// Names of files that are no recordings end so.
const OTHERS: &[&str] = &["txt", "md", "tsv", "xl-info", "sh", "py", "json"];

/// Flags of `cargo xtask same`.
#[derive(clap::Args)]
pub struct Flags {
    /// The build to compare with
    old: PathBuf,
    /// The build that should say the same
    #[arg(long, default_value = "target/debug/exitscope")]
    new: PathBuf,
    /// Recordings, or folders of them [default: corpus]
    recordings: Vec<PathBuf>,
}

pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let mut recordings = Vec::new();
    match flags.recordings.is_empty() {
        true => gather(&root().join("corpus"), &mut recordings)?,
        false => flags.recordings.iter().try_for_each(|path| gather(path, &mut recordings))?,
    }
    recordings.sort();
    let (mut compared, mut differ) = (0_u32, 0_u32);
    for recording in &recordings {
        for command in COMMANDS {
            let [old, new] = [&flags.old, &flags.new].map(|build| said(build, command, recording));
            let (old, new) = (old?, new?);
            compared += 1;
            if let Some(line) = first_difference(&old, &new) {
                differ += 1;
                println!("{}: {}\n{line}", recording.display(), command.join(" "));
            }
        }
    }
    println!("{compared} outputs of {} recordings, {differ} differ", recordings.len());
    ensure!(compared > 0, "no recording was compared");
    ensure!(differ == 0, "the builds do not say the same");
    Ok(())
}

/// The recordings below a folder, or the one file.
fn gather(path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    for entry in path.read_dir().with_context(|| path.display().to_string())? {
        let path = entry?.path();
        let is_other = || {
            let name = path.to_string_lossy();
            OTHERS.iter().any(|end| name.ends_with(&format!(".{end}")))
        };
        if path.is_dir() || !is_other() {
            gather(&path, found)?;
        }
    }
    Ok(())
}

/// What a build says of a recording, with its exit status; of a page that it writes, the data instead of what it prints.
fn said(build: &Path, command: &[&str], recording: &Path) -> anyhow::Result<(Vec<u8>, Option<i32>)> {
    let folder = tempfile::tempdir()?;
    let page = folder.path().join("page.html");
    let mut of = Command::new(build.canonicalize().with_context(|| build.display().to_string())?);
    for word in command {
        match *word {
            "PAGE" => of.arg(&page),
            "AGAIN" => of.arg(recording),
            word => of.arg(word),
        };
    }
    of.arg(recording).env("COLUMNS", "100").env("LC_ALL", "C.UTF-8");
    if recording.to_string_lossy().contains(".xentrace") {
        of.args(["--tsc-hz", XEN_HZ]);
    }
    let Output { status, mut stdout, stderr } = of.output()?;
    stdout.extend(stderr);
    // The front end around a page's data is another build's.
    if let Ok(written) = std::fs::read_to_string(&page) {
        let data = written.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once('<'));
        stdout = data.map_or(written.as_str(), |(data, _)| data).as_bytes().to_vec();
    }
    Ok((stdout, status.code()))
}

/// The first line in which two outputs differ, or that their exit status does.
fn first_difference(old: &(Vec<u8>, Option<i32>), new: &(Vec<u8>, Option<i32>)) -> Option<String> {
    if old == new {
        return None;
    }
    let cut = |line: Option<&[u8]>| {
        line.map_or("(no more)".into(), |line| String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned())
    };
    let (mut was, mut is) = (old.0.split(|byte| *byte == b'\n'), new.0.split(|byte| *byte == b'\n'));
    loop {
        match (was.next(), is.next()) {
            (None, None) => return Some(format!("  exit status {:?}, now {:?}", old.1, new.1)),
            (was, is) if was == is => {}
            (was, is) => return Some(format!("- {}\n+ {}", cut(was), cut(is))),
        }
    }
}
