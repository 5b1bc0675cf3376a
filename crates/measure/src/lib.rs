//! A trial on this host: what is measured in its turns, what it is predicted to find, and the trials that were made.
//!
//! ```text
//! trial::run_turns ─► GuardedHost ─┬─► TurnGuard: apply::TrialGuard sets, through the watchdog
//!                                  │               DelayGuard delays exits, by record::ExitDelay
//!                                  └─► TurnMetrics ─┬─► MetricSource: the user's, a command, a counter in a file or a query
//!                                                   ├─► CountedMetrics: exits, counted in the kernel (crate `live`)
//!                                                   └─► HostCosts: busy CPUs, steal of other VMs
//! Predictor: a recording of a turn ─► replay ─► predictions      TrialReport ─► trials.jsonl
//! ```
//!
//! Does not know: flags, what is printed, how a trial is judged, how a setting is set.

mod counted_metrics;
mod delay_guard;
mod delayed_vm;
mod guarded_host;
mod host_costs;
mod json_lines;
mod prediction;
mod prometheus_query;
mod this_program;
mod turn_metrics;
mod user_metric;
mod watchdog_process;

pub use counted_metrics::CountedMetrics;
pub use delay_guard::{DelayGuard, DelayedLevel};
pub use delayed_vm::{DELAY_METRIC, DelayedVm, DelayedVmError};
pub use guarded_host::{GuardedHost, TurnGuard};
pub use host_costs::HostCosts;
pub use json_lines::{add_predictions, add_to_history, history_path, read_history, read_predictions};
pub use prediction::Predictor;
pub use prometheus_query::PrometheusQuery;
pub use this_program::{is_started_by, this_program};
pub use turn_metrics::TurnMetrics;
pub use user_metric::{MetricScale, MetricSource};
pub use watchdog_process::{is_watchdog, run_watchdog, start_watchdog};
