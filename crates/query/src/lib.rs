//! SQL over a store of VM exits, by DataFusion.
//!
//! ```text
//! Store ─► files ─► tables exits, reason_stats, halts, gangs ───┐
//!       └► log ─► tables runs, hosts, knobs, advice, trials ────┴─► QueryEngine ─► rows, in batches
//! ```
//!
//! Queries only read; each has a limit on memory and on time. A file is compared with its hash in the log before it is used
//! for the first time; a query that needs one that is damaged or missing is refused, and the file is named. With
//! [`FileCheck::Ends`](exitscope_store::FileCheck::Ends), files that are missing, truncated or foreign are left out instead,
//! and named by [`QueryEngine::left_out`].
//!
//! Does not know: flags, where recordings came from, what an answer means.

#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "cluster")]
pub mod cluster_access;
#[cfg(feature = "cluster")]
pub mod cluster_function;
mod columns;
mod engine;
mod functions;
mod object_stores;
mod output;
mod recordings;
mod table;

pub use columns::ResultColumns;
pub use datafusion::arrow::array::{Array, RecordBatch};
pub use datafusion::arrow::datatypes::{Field, SchemaRef};
pub use engine::{EngineLimits, QueryEngine, QueryError, TABLES};
pub use functions::{FUNCTIONS, SqlFunction};
pub use output::{RowFormat, is_number, texts, write_rows};
