//! Which tracepoints there are on this host, and how their records are laid out.

use crate::RecordError;
use exitscope_trace::tracefs::Format;
use exitscope_trace::tracepoints::{RecordWhen, recorded};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The back ends of x86 that have `kvm_exit`.
const HARDWARE: [&str; 2] = ["/sys/module/kvm_intel", "/sys/module/kvm_amd"];

/// Bytes of a record's common fields, `common_type` to `common_pid`, at which BPF programs may not look.
pub(crate) const COMMON: usize = 8;

/// After a switch to or from a thread that is wanted so many further ones of its CPU are recorded, whoever they are of: they say who has
/// the CPU for which such a thread waits. A CPU that has switched so often without one is none that such threads run on.
pub(crate) const FOLLOWED_SWITCHES: u32 = 4096;

/// A tracepoint of this host.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// Its group, like `kvm`.
    pub system: String,
    /// Its name, like `kvm_exit`.
    pub name: String,
    /// Its number, which changes from boot to boot.
    pub id: u32,
    /// Bytes of its records, as far as their size is fixed.
    pub size: usize,
    /// The text that says so.
    pub format: String,
    /// Of the scheduler's tracepoints: where its records have the threads that they are about, 4 bytes each. Those of others
    /// are about the thread that made them.
    pub threads: Vec<usize>,
}

/// Where tracefs is.
pub fn tracefs() -> Result<PathBuf, RecordError> {
    let known = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let mut forbidden = None;
    for path in known.map(PathBuf::from) {
        match fs::read_dir(path.join("events")) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden = forbidden.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(forbidden.map_or(RecordError::NoTracefs, |path| RecordError::Forbidden { path }))
}

/// Tracepoints that are asked for together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenWith {
    Kvm,
    Scheduler,
    Calls,
}

/// With which others those are asked for that are recorded then, if they are.
fn taken_with(when: RecordWhen) -> Option<TakenWith> {
    match when {
        RecordWhen::Always | RecordWhen::CountedWithoutExits => Some(TakenWith::Kvm),
        RecordWhen::Scheduler => Some(TakenWith::Scheduler),
        RecordWhen::Calls => Some(TakenWith::Calls),
        RecordWhen::Never(_) => None,
    }
}

/// The tracepoints of KVM that say something.
pub fn of_kvm(tracefs: &Path) -> Result<Vec<Tracepoint>, RecordError> {
    find(tracefs, &recorded(|when| taken_with(when) == Some(TakenWith::Kvm)))
}

/// Those of them that say something to who only counts here.
pub(crate) fn counted_of_kvm(tracefs: &Path) -> Result<Vec<Tracepoint>, RecordError> {
    let is_software = is_software();
    let is_wanted = |when| when == RecordWhen::Always || is_software && when == RecordWhen::CountedWithoutExits;
    find(tracefs, &recorded(is_wanted))
}

/// Whether KVM runs guests here without VMX and SVM: `kvm_exit` is there then, and never fires.
pub(crate) fn is_software() -> bool {
    cfg!(target_arch = "x86_64") && !HARDWARE.iter().any(|module| Path::new(module).exists())
}

/// The scheduler's tracepoints, which tell when a virtual CPU could run and did not.
pub fn of_scheduler(tracefs: &Path) -> Result<Vec<Tracepoint>, RecordError> {
    find(tracefs, &recorded(|when| taken_with(when) == Some(TakenWith::Scheduler)))
}

/// Those of system calls, of which a [`Capture`](crate::Capture) takes those of virtual CPUs' threads.
pub fn of_calls(tracefs: &Path) -> Result<Vec<Tracepoint>, RecordError> {
    find(tracefs, &recorded(|when| taken_with(when) == Some(TakenWith::Calls)))
}

/// Those of `wanted` (`system:name`) that this host has, in that order; an error if it has none.
pub(crate) fn find(tracefs: &Path, wanted: &[&str]) -> Result<Vec<Tracepoint>, RecordError> {
    let mut found = Vec::new();
    for name in wanted {
        let Some((system, name)) = name.split_once(':') else { continue };
        let path = tracefs.join("events").join(system).join(name).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => found.extend(Tracepoint::parse(system, &text)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(RecordError::Forbidden { path }),
            Err(_) => {}
        }
    }
    if found.is_empty() { Err(RecordError::NoTracepoints) } else { Ok(found) }
}

impl Tracepoint {
    /// Whether it is none of KVM's, and wanted for threads that were seen in those.
    pub fn follows_threads(&self) -> bool {
        matches!(self.system.as_str(), "sched" | "raw_syscalls")
    }

    /// Whether it says that a CPU goes from one thread to another.
    pub(crate) fn is_switch(&self) -> bool {
        self.system == "sched" && self.threads.len() == 2
    }

    /// The tracepoint of this format text.
    pub(crate) fn parse(system: &str, text: &str) -> Option<Tracepoint> {
        let format = Format::parse(text)?;
        let size = format.fields.iter().map(|field| field.offset + field.size).max()?;
        let names = ["prev_pid", "next_pid", "pid"];
        let fields = format.fields.iter().filter(|field| system == "sched" && names.contains(&field.name.as_str()));
        let threads = fields.map(|field| field.offset).collect();
        Some(Tracepoint { system: system.into(), name: format.name, id: format.id, size, format: text.into(), threads })
    }
}

#[cfg(test)]
#[path = "tracepoints_tests.rs"]
mod tests;
