//! Counts of VM exits as OpenMetrics over HTTP, for Prometheus.
//!
//! ```text
//! Snapshot, now and then ─► Counts: what is new, by VM and reason, at most so many of each ─┐
//! this process: time, memory, descriptors, answers ──────────────────────────────────────────┴─► Sheet ─► text
//!                                        server: GET /metrics, /healthz, / ◄─────────────────────────────────┘
//! ```
//!
//! [`Recorded`] makes the same of a recording, without HTTP.
//!
//! Every metric is a row of [`FAMILIES`]: from it come the text, the documentation and the check of the dashboard.
//! Nothing grows with time: VMs that ended are forgotten after a while, and those beyond the limit share one place.
//!
//! Does not know: flags, signals.
#![cfg(target_os = "linux")]

pub mod access;
mod counts;
mod exporter;
mod families;
mod own;
mod recorded;
mod server;
mod sheet;

pub use counts::{Limits, OTHER, UNKNOWN};
pub use exporter::{Exporter, Source};
pub use families::{FAMILIES, Family, Kind};
pub use recorded::Recorded;
pub use server::{Access, serve};

use std::time::Duration;

/// What the server serves.
pub trait Site {
    /// The metrics, as they are now; an error is what to tell whoever asked.
    fn scrape(&mut self) -> Result<String, String>;

    /// Whether all is well; otherwise what is not.
    fn health(&self) -> Result<(), String>;

    /// The page that people see.
    fn index(&self) -> String;

    /// Called several times a second.
    fn turn(&mut self);

    /// Something that the server did.
    fn count(&mut self, what: Count);
}

/// What the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A request was answered with this status.
    Answered(u16),
    /// Metrics were made, in this time.
    Scraped(Duration),
    /// A connection took too long.
    Cut,
    /// A client did not agree on TLS.
    NoTls,
}
