//! What happens on this host now, interval by interval, for all who show it while it happens.
//!
//! ```text
//! Aggregation ─► Snapshot ─► Deltas ─► CountInterval ─► IntervalTotals: where the vCPUs' time went
//!      ▲             ▲
//!   VmWatch      CostCycle                  KvmCounters: what KVM counts itself        Sample ─► ThreadNames
//!   └───── LiveCounts ─────┘
//! ```
//!
//! [`LiveCounts`] counts the exits of VMs that come and go, and has the kernel measure now and then what that costs.
//!
//! Does not know: flags, drawing, facts.
#![cfg(target_os = "linux")]

mod cost_cycle;
mod deltas;
mod interval_totals;
mod kvm_counters;
mod live_counts;
mod thread_names;
mod vm_watch;

pub use cost_cycle::CostCycle;
pub use deltas::{CountGroup, CountInterval, Deltas, VcpuInterval};
pub use interval_totals::{GroupTotals, IntervalTotals, LiveGroup};
pub use kvm_counters::{KvmCounters, KvmHalts, own_time};
pub use live_counts::LiveCounts;
pub use thread_names::ThreadNames;
pub use vm_watch::VmWatch;
