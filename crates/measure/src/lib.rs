//! What is measured in the turns of a trial on this host.
//!
//! ```text
//! trial::run_turns ─► GuardedHost ─┬─► TurnGuard: apply::TrialGuard sets, through the watchdog
//!                                  │               DelayGuard delays exits, by record::ExitDelay
//!                                  ├─► MetricSource: the user's metric, a command, a counter in a file or a query to Prometheus
//!                                  └─► CountedMetrics: exits, counted in the kernel (crate `live`)
//! ```
//!
//! Does not know: flags, how a trial is judged, how a setting is set.

mod counted_metrics;
mod delay_guard;
mod guarded_host;
mod prometheus_query;
mod user_metric;
mod watchdog_process;

pub use counted_metrics::{CauseRate, CountedCause, CountedMetrics};
pub use delay_guard::{DelayGuard, DelayedLevel};
pub use guarded_host::{GuardedHost, TurnGuard};
pub use prometheus_query::PrometheusQuery;
pub use user_metric::{MetricScale, MetricSource};
pub use watchdog_process::{is_watchdog, run_watchdog, start_watchdog};
