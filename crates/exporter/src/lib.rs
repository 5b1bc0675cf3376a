//! Counts of VM exits as OpenMetrics over HTTP, for Prometheus.
//!
//! ```text
//! CountInterval, now and then ─► Counts: by VM and reason, at most so many of each ─┐
//! this process: time, memory, descriptors, answers ──────────────────────────────────────────┴─► Sheet ─► text
//!                                   Site: GET /metrics, /healthz, / ◄────────────────────────────────────────┘
//! ```
//!
//! [`Recorded`] makes the same of a recording, without HTTP.
//!
//! Every metric is a row of [`FAMILIES`]: from it come the text, the documentation and the check of the dashboard.
//! Nothing grows with time: VMs that ended are forgotten after a while, and those beyond the limit share one place.
//!
//! Does not know: flags, signals.
#![cfg(target_os = "linux")]

mod counts;
mod exporter;
mod families;
mod own;
mod recorded;
mod sheet;

pub use counts::{Limits, OTHER, UNKNOWN};
pub use exporter::{Exporter, Source};
pub use families::{FAMILIES, Family, Kind, part_label, write_metrics_document};
pub use recorded::Recorded;
