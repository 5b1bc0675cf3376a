//! What every reader is: a source of events. And the choice of reader by a file's first bytes.

use crate::input::Input;
use crate::{counts, perf, text, tracedat, xentrace};
use exitscope_model::{Event, Ledger, TraceInfo};
use std::path::{Path, PathBuf};

/// Events that one call to [`EventSource::read`] aims to append.
pub(crate) const BATCH: usize = 4 * 1024;

/// Bytes that one section of a file may have, outside its records; event formats, the largest, have a few MB on real
/// machines.
pub(crate) const MAX_SECTION: u64 = 64 << 20;

/// Threads of which something is remembered, at most.
pub(crate) const MAX_THREADS: usize = 1 << 19;

/// Longer thread names are none, in bytes. The kernel's own limit is 15.
pub(crate) const MAX_COMM: usize = 64;

/// How much may come out of compressed records and pages: whatever they are up to this many bytes, then this many times
/// what went in. Recorders' own shrink to a tenth; a hostile stream could keep a reader busy for hours.
const UNPACKED_FREELY: u64 = 256 << 20;
const UNPACKED_RATIO: u64 = 500;

/// Whether a trace's own compression may give `out` bytes out of `packed`.
pub(crate) fn is_sane_unpacking(packed: u64, out: u64) -> bool {
    out <= UNPACKED_FREELY.max(packed.saturating_mul(UNPACKED_RATIO))
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceOptions {
    /// Ticks per second of the trace's clock, for traces that do not say.
    pub clock_hz: Option<u64>,
    /// Which events are passed on; the ledger counts the others. Readers of text pass on all.
    pub keep: EventFilter,
    /// Whether an exit is followed by what it says besides ([`EventKind::ExitInfo`](exitscope_model::EventKind::ExitInfo)).
    pub exit_info: bool,
    /// Vendor of a xentrace log's exit codes, which the log does not record; detected from the codes if absent here too.
    pub xen_mode: Option<XenMode>,
}

/// Which events a reader passes on, from few to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventFilter {
    /// Those that exit accounting has a use for.
    Used,
    /// All.
    #[default]
    All,
}

/// Vendor of a xentrace log's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XenMode {
    /// AMD's.
    Svm,
    /// Intel's.
    Vmx,
}

/// A trace as a stream of events in time order.
pub trait EventSource: Send {
    /// What the trace says of itself. Thread names and tracepoint names may still grow while it is read.
    fn info(&self) -> &TraceInfo;

    /// Appends some events and returns whether more may come. Losses and oddities go to the ledger.
    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError>;

    /// Bytes of the file handled so far, and in all: for a progress bar.
    fn progress(&self) -> (u64, u64);
}

/// Why a trace cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error("cannot read {name}")]
    Io {
        /// The file.
        name: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// It is packed, or comes through a pipe, and there is no place for a file to unpack it into.
    #[error("cannot read {name}: it is unpacked into a file of {}, and none can be made there; TMPDIR names another folder", .folder.display())]
    NoFolder {
        /// The file.
        name: String,
        /// Where temporary files go.
        folder: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// It is a directory.
    #[error("{name} is a directory; name the trace file in it (perf's directory format: its `data` file)")]
    Directory {
        /// The path.
        name: String,
    },
    /// Nothing in it.
    #[error("{name} is empty: nothing was recorded, or the recorder was killed before it wrote")]
    Empty {
        /// The file.
        name: String,
    },
    /// No reader knows these bytes.
    #[error(
        "{name} is not a trace that exitscope reads: its first bytes are {first}; perf.data, trace.dat, xentrace logs, ftrace text, `perf script` and `trace-cmd report` text are, and counts of exits and yields (docs/counts.md)"
    )]
    Unknown {
        /// The file.
        name: String,
        /// The first bytes, as text or hexadecimal.
        first: String,
    },
    /// It holds what another tool counted, and no events.
    #[error(
        "{name} holds counts and no events: `report`, `report --view yield`, `advise` and `diff` read it, as text and JSON"
    )]
    Counts {
        /// The file.
        name: String,
    },
    /// It looks like a text of counts, and none could be read.
    #[error(
        "{name}: no count found: the table is empty, or its layout is unknown. exitscope reads tables of `perf kvm stat`, `perf stat`, kvm_stat, kvmexit and kvm-unit-tests' vmexit, QEMU's query-stats, screen FCX102 (SYSTEM) of z/VM's Performance Toolkit, and, of Linux on s390, `diag_stat` and KVM's statistics"
    )]
    NoCounts {
        /// The file.
        name: String,
    },
    /// A structure that everything else depends on is damaged.
    #[error("{name}: {structure} at byte {offset} {problem}")]
    Damaged {
        /// The file.
        name: String,
        /// What was being read.
        structure: &'static str,
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// It is whole, but of a kind that is not read.
    #[error("{name}: unsupported trace: {what}")]
    Unsupported {
        /// The file.
        name: String,
        /// What is in the way.
        what: String,
    },
    /// Its time stamps are ticks of unknown length.
    #[error(
        "{name}: its clock {clock} counts ticks, and the trace does not say how many make a second; give the rate in Hz (--tsc-hz)"
    )]
    Clock {
        /// The file.
        name: String,
        /// The clock's name.
        clock: String,
    },
    /// A xentrace log's time stamps are cycles, and nothing says how long one is.
    #[error(
        "{name}: a xentrace log counts cycles and does not say how many make a second; give what `xl info` calls cpu_mhz, in Hz (--tsc-hz), or keep the output of `xl info` as {sidecar} beside it"
    )]
    XenClock {
        /// The file.
        name: String,
        /// The name of the file that would say it, in the same folder.
        sidecar: String,
    },
    /// The compressed stream around the trace is damaged at its beginning, or would unpack to more than allowed.
    #[error("{name}: cannot unpack: {problem}")]
    Unpack {
        /// The file.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// Opens the trace at `path`; `-` is standard input.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    open_input(Input::open(path)?, SourceOptions::default())
}

/// Bytes at the beginning of a trace by which its format is told.
pub(crate) const HEAD: usize = 4096;

/// Whether these first bytes, of as many as [`HEAD`] or the whole file, are of a trace.
pub(crate) fn is_trace(head: &[u8]) -> bool {
    let known = [perf::looks_like, tracedat::looks_like, xentrace::looks_like, text::looks_like];
    known.iter().any(|looks_like| looks_like(head))
}

/// Fails if these first bytes, of as many as [`HEAD`] or the whole trace, are of no format that is read.
pub(crate) fn check_head(head: &[u8], name: &str) -> Result<(), TraceError> {
    match is_trace(head) || counts::looks_like(head) {
        true => Ok(()),
        false => Err(TraceError::Unknown { name: name.to_string(), first: describe(head) }),
    }
}

/// Opens a trace that is already an [`Input`].
pub fn open_input(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    let mut head = [0u8; HEAD];
    let got = input.read_up_to(0, &mut head)?;
    let head = &head[..got];
    if head.is_empty() {
        return Err(TraceError::Empty { name: input.name().to_string() });
    }
    if perf::looks_like(head) {
        return perf::open(input, options);
    }
    if tracedat::looks_like(head) {
        return tracedat::open(input, options);
    }
    if xentrace::looks_like(head) {
        return xentrace::open(input, options);
    }
    if text::looks_like(head) {
        return text::open(input, options);
    }
    match counts::looks_like(head) {
        true => Err(TraceError::Counts { name: input.name().to_string() }),
        false => Err(TraceError::Unknown { name: input.name().to_string(), first: describe(head) }),
    }
}

fn describe(head: &[u8]) -> String {
    let head = &head[..head.len().min(16)];
    match std::str::from_utf8(head) {
        Ok(text) if text.chars().all(|c| !c.is_control()) => format!("{text:?}"),
        _ => head.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
    }
}
