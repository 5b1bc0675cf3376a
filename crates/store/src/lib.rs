//! VM exits at rest: Parquet files by host and day, and a log of which of them belong to the store; in a directory, or in a
//! bucket of an S3-compatible store.
//!
//! ```text
//! DIR/_log/00000000000000000001.json           what was added or removed, in order; the highest number is the newest
//!     exits/host=NAME/day=2026-11-22/RUN-N.parquet    a row for each exit, sorted by vCPU and moment
//!     reason_stats/host=NAME/day=2026-11-22/RUN-N.parquet    sums and distributions of lengths by vCPU, reason and stretch of time
//!     halts/…  gangs/…                              the same of halts by vCPU, and of ganged exits by virtual core
//! ```
//!
//! The log also has all that is known of a recording as a whole, and trials, which are small.
//!
//! A file belongs to the store when an entry of the log says so, and an entry is there whole or not at all: whoever is
//! stopped in the middle, by a kill or a full disk, leaves files that nobody sees and [`Store::clean`] removes. Two writers at
//! once cannot write the same entry: the second one looks at what the first one added and takes the next number.
//!
//! Every entry begins with a hash of itself, and has the hashes of the files that it adds: a flipped bit at rest is found
//! before anything is answered from it, [joined](Store::compact) or [handed to another reader](Store::files).
//!
//! Does not know: what any fact means, where exits came from, SQL.

mod columns;
mod error;
mod exits;
mod location;
mod log;
mod private_files;
mod seal;
mod stats_tables;
mod store;
mod verify;

pub use arrow_array;
pub use error::{DamagedFile, StoreError};
pub use location::bucket;
pub use log::{
    AdvisedRow, DataFile, LogEntry, RecordingRow, SCHEMA, StoreContents, StoredEffectRow, StoredSettingRow,
    StoredTrialRow,
};
pub use stats_tables::RecordingStats;
pub use store::{AddOutcome, Compacted, FileCheck, PendingRecording, Store, StoreCheck, TABLES, schema};
pub use verify::{VerifiedBytes, VerifiedFiles};
