//! Recordings and trials on their way into a store.
//!
//! ```text
//! first reading ─┬─► ExportedVcpus ─► second reading ─┬─► exits ─┐
//!                │                                    └─► sums ──┼─► Store
//!                └─► AdviceInput ─► advice ──────────────────────┤
//! TrialReport, or a file of them ─► a row for each metric ───────┘
//! ```
//!
//! Does not know: flags, what is printed, SQL.

mod error;
mod recording;
mod trials;

pub use error::IngestError;
pub use recording::{AddedRecording, Provenance, add_recording, recording_id};
pub use trials::{AddedTrials, add_trials, add_trials_of, holds_trials};

use sha2::{Digest, Sha256};

/// A hash as an id: half of its digits are enough.
fn id(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
