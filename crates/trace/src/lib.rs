//! perf.data, trace.dat, xentrace and text traces in, events out. The surface that faces hostile bytes.
//!
//! ```text
//! bytes ─► container: where records begin, which CPU, when ─► decode: one payload ─► one event
//!          perf/ · tracedat/ · text/ · xentrace/              tracefs/ (fields by name), both by tracepoints/
//! ```
//!
//! [`open`] looks at the first bytes and returns a [`EventSource`]. A source appends a bounded number of events to a
//! buffer that the caller owns and counts in a ledger that the caller owns. Events leave in time order. What cannot
//! be read is counted and skipped; only first bytes that make no sense are an error.
//!
//! [`counts`] reads texts that hold counts and no events; [`open`] refuses them.
//!
//! Memory has a bound, [`MAX_MEMORY`], that no file can make a reader pass: sizes and counts out of a file are held
//! against the file's length and against constants before anything is allocated for them.
//!
//! Must not depend on: exits, facts.

mod bytes;
pub mod counts;
mod devices;
mod event_merge;
mod input;
mod kallsyms;
pub mod perf;
mod read_ahead;
mod scan;
mod source;
pub mod text;
pub mod tracedat;
pub mod tracefs;
pub mod tracepoints;
pub mod xentrace;

/// The most memory that reading a trace takes, in bytes: ring pages of trace.dat (at most 512 MiB, one block for each
/// CPU), or events of perf.data that wait for older ones (about 400 MiB if each is older than the one before), and 64 MiB
/// for each of the few sections that are held at the same time. Ordinary traces take a few MiB.
pub const MAX_MEMORY: usize = 1 << 30;

pub use devices::{Devices, NoDevices};
pub use input::Input;
pub use kallsyms::{GuestSymbols, SymbolsError};
pub use perf::{PerfWriter, TraceDescription as PerfHead, WrittenTrace, known_formats};
pub use source::{EventFilter, EventSource, SourceOptions, TraceError, XenMode, open, open_input};
