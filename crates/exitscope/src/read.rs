//! The traces that the flags name, opened; and how far their reading is.

use crate::cli::{ClockArgs, Vendor};
use exitscope_analysis::Selection;
use exitscope_pipeline::{Progress, ReadOptions, ReadTrace};
use exitscope_trace::{EventFilter, Input, SourceOptions, XenMode};
use exitscope_view::TraceRow;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files from this size on show a progress bar.
const SHOW_PROGRESS: u64 = 32 << 20;

/// How recordings are opened and read, whatever is made of them.
#[derive(Clone, Copy)]
pub struct RecordingAccess {
    clock_hz: Option<u64>,
    xen_mode: Option<XenMode>,
    /// Whether recordings that another user owns are read, too.
    any_owner: bool,
}

impl RecordingAccess {
    pub fn of(&ClockArgs { tsc_hz, force, xen_mode }: &ClockArgs) -> RecordingAccess {
        let xen_mode = xen_mode.map(|vendor| match vendor {
            Vendor::Svm => XenMode::Svm,
            Vendor::Vmx => XenMode::Vmx,
        });
        RecordingAccess { clock_hz: tsc_hz, xen_mode, any_owner: force }
    }

    /// Opens traces, each once: a pipe is put into a file, so that it can be read again.
    pub fn open(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
        files.iter().map(|path| self.open_one(path)).collect()
    }

    /// Opens a trace. One that somebody else wrote is refused, unless it is asked for: as perf does, `perf_data__open` of
    /// `tools/perf/util/data.c`.
    pub fn open_one(&self, path: &Path) -> anyhow::Result<Input> {
        if let Ok(about) = path.metadata() {
            self.check_owner(path, &about)?;
        }
        Ok(Input::open(path)?)
    }

    /// The same of a file that has been opened.
    pub fn open_file(&self, file: fs::File, path: &Path) -> anyhow::Result<Input> {
        self.check_owner(path, &file.metadata()?)?;
        Ok(Input::of_file(file, path)?)
    }

    fn check_owner(&self, path: &Path, about: &fs::Metadata) -> anyhow::Result<()> {
        if !self.any_owner
            && about.is_file()
            && about.uid() != 0
            && fs::metadata("/proc/self").is_ok_and(|own| own.uid() != about.uid())
        {
            anyhow::bail!(
                "{} is owned by another user (uid {}); -f reads it nevertheless",
                path.display(),
                about.uid()
            );
        }
        Ok(())
    }

    /// How the events of a trace are read, passing on these.
    pub fn source(&self, keep: EventFilter) -> SourceOptions {
        SourceOptions { clock_hz: self.clock_hz, keep, exit_info: false, xen_mode: self.xen_mode }
    }

    /// How traces are read for what is selected, with a progress bar.
    pub fn options(&self, keep: EventFilter, selection: &Selection) -> ReadOptions {
        ReadOptions { source: self.source(keep), need_vcpus: selection.needs_vcpus(), progress: progress_bar }
    }
}

fn progress_bar(input: &Input) -> Option<Progress> {
    if input.len() < SHOW_PROGRESS || !std::io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} {eta}");
    let style = style.unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::new(input.len()).with_style(style).with_prefix(input.name().to_string());
    // It is cleared when it is dropped.
    Some(Box::new(move |bytes| bar.set_position(bytes)))
}

/// A trace that was read, as it is shown.
pub fn row(trace: &ReadTrace) -> TraceRow {
    TraceRow::of(trace.name.clone(), &trace.info, trace.hostname(), trace.ends, trace.ledger.events)
}

/// The files to read: as given, or the first of the peers' default names that is here.
pub fn files(given: &[PathBuf], inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    const DEFAULTS: [&str; 5] = ["perf.data.guest", "perf.data.kvm", "perf.data.host", "perf.data", "trace.dat"];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for path in given.iter().chain(inputs) {
        match known.insert(path.canonicalize().unwrap_or(path.clone())) {
            true => files.push(path.clone()),
            false => say!("{} is named twice; reading it once", path.display()),
        }
    }
    if !files.is_empty() {
        return Ok(files);
    }
    match DEFAULTS.iter().map(PathBuf::from).find(|path| path.is_file()) {
        Some(path) => {
            say!("reading {}", path.display());
            Ok(vec![path])
        }
        None => anyhow::bail!("no trace named, and none of {} is here", DEFAULTS.join(", ")),
    }
}
