//! Exits in the formats of other tools' viewers.
//!
//! ```text
//! first reading ─► VcpuSurvey ─► ExportedVcpus: their names, how many exits ─┐
//! second reading ─► Exit ─────────────────────────────────────────► Export ◄─┴─► perfetto │ firefox │ speedscope
//!                                                                                csv │ folded │ hdr
//! ```
//!
//! Exits pass one by one. What a format wants as one whole (the profiles) is held in a form of few bytes, and of so many
//! exits at most as its viewer can open; what is left out is counted in [`ExportCounts`].
//!
//! Does not know: files, flags, where exits came from.

mod csv;
mod firefox;
mod folded;
mod hdr;
mod perfetto;
mod segments;
mod speedscope;
mod vcpus;

pub use csv::CsvExport;
pub use firefox::{Firefox, MOST_MARKERS};
pub use folded::Folded;
pub use hdr::Hdr;
pub use perfetto::Perfetto;
pub use segments::{Segment, segments};
pub use speedscope::{MOST_EXITS, Speedscope};
pub use vcpus::{ExportedVcpu, ExportedVcpus, VcpuSurvey};

use exitscope_model::{Exit, Halt};
use std::io;

/// Something that exits are exported to.
pub trait Export {
    /// Adds one exit of the vCPU that has this place in [`ExportedVcpus`]. Errors: those of what is written to.
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()>;

    /// Adds one halt.
    fn halt(&mut self, _: &Halt) {}

    /// Writes what is still to be written, and says what was.
    fn finish(&mut self) -> io::Result<ExportCounts>;

    /// Whether further exits would make no difference.
    fn is_full(&self) -> bool {
        false
    }
}

/// What became of the exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// They are there, with their length.
    pub exits: u64,
    /// Only one end was seen; they are there without a length, or not, as the format can.
    pub untimed: u64,
    /// They begin before the one before on the same vCPU ends, and are there without a length.
    pub overlapping: u64,
    /// There was no room.
    pub left_out: u64,
}
