//! Counts of VM exits as OpenMetrics over HTTP, for Prometheus.
//!
//! ```text
//! CountInterval, now and then ─► Counts: by VM and reason, at most so many of each ─┐
//! this process: time, memory, descriptors, answers ─────────────────────────────────┴─► Scrape ─► text
//!                         RequestHandler: GET /metrics, /healthz, / ◄────────────────────────────────┘
//! ```
//!
//! [`RecordingMetrics`] makes the same of a recording, without HTTP.
//!
//! Every metric is a row of [`FAMILIES`]: from it come the text, the documentation and the check of the dashboard.
//! Nothing grows with time: VMs that ended are forgotten after a while, and those beyond the limit share one place.
//!
//! Does not know: flags, signals.
#![cfg(target_os = "linux")]

mod counts;
mod exporter;
mod families;
mod process_metrics;
mod recording_metrics;
mod scrape;

pub use counts::{NamedVm, OTHER, SeriesLimits, UNKNOWN};
pub use exporter::{CountsSource, Exporter};
pub use families::{FAMILIES, Family, MetricKind, part_label, write_metrics_document};
pub use recording_metrics::RecordingMetrics;
