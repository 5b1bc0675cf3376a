//! perf.data, trace.dat and text traces in, events out. The surface that faces hostile bytes.
//!
//! ```text
//! bytes ─► container: where records begin, which CPU, when ─► decode: one payload ─► one event
//!          perf/ · tracedat/ · text/                          tracefs/ (fields by name)
//! ```
//!
//! [`open`] looks at the first bytes and returns a [`Source`]. A source appends a bounded number of events to a
//! buffer that the caller owns and counts in a ledger that the caller owns. Events leave in time order. What cannot
//! be read is counted and skipped; only first bytes that make no sense are an error.
//!
//! Does not know: rows, facts.

mod bytes;
mod input;
mod merge;
pub mod perf;
mod source;
pub mod text;
pub mod tracedat;
pub mod tracefs;

pub use input::Input;
pub use perf::{Head as PerfHead, PerfWriter, Written};
pub use source::{Options, Source, TraceError, open, open_input};
