//! A trace into facts: what drives the crates to the left, for whoever shows what comes of it.
//!
//! ```text
//! Input ────────────► EventSource ───► events ─► Assembler ─► exits, halts, … ─► TraceSink: facts, replays, advice; Gathered: a page's
//! TracepointSample ─► SampleDecoder ─► events ─► RecentSlices: Assembler, slices of the last minutes ─► MergedSlices: a page's
//! ```
//!
//! Does not know: flags, drawing.

mod advice;
mod bundle;
mod diff_side;
mod earlier_exits;
mod event_sketch;
mod exit_tracer;
mod gathered;
mod predictions;
mod read_trace;
mod reasons;
mod recent_slices;
mod recording;
pub mod replay;
mod sample_decoder;
mod sim_trace;
mod simulations;
mod timeline_thread;
mod vms;

pub use advice::{AdviceError, Judged, judgement, reread, whole_input};
pub use bundle::{BundleError, BundleSurvey};
pub use diff_side::{DiffSide, read_side};
pub use exit_tracer::ExitTracer;
pub use gathered::{Gathered, Gathering};
pub use predictions::{AdvicePrediction, advice_predictions};
pub use read_trace::{
    EarlierFiles, FirstReading, Progress, ReadError, ReadOptions, ReadTrace, pass_halts_and_yields, read_again,
    read_all, read_alone, read_input, read_source,
};
pub use reasons::{ReasonError, check_reasons};
pub use recent_slices::{MergedSlices, RecentSlices, SliceSnapshot};
pub use recording::{RecordedEvents, Recording, RecordingError};
pub use sample_decoder::SampleDecoder;
pub use sim_trace::{SimTraceWriter, write_events};
pub use timeline_thread::{TimelineJoin, TimelineThread};
pub use vms::{VmError, vms_named};
