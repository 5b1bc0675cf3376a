//! What happens on this host now, interval by interval, for all who show it while it happens.
//!
//! ```text
//! Aggregation ─► Snapshot ─► Deltas ─► CountInterval, with IntervalTotals of each vCPU
//!      ▲             ▲
//!   VmWatch      CostCycle                  KvmCounters: what KVM counts itself        TracepointSample ─► ThreadNames
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
pub use deltas::{CountInterval, Deltas};
pub use interval_totals::{GroupTotals, IntervalTotals, LiveGroup};
pub use kvm_counters::{KvmCounters, KvmHalts};
pub use live_counts::LiveCounts;
pub use thread_names::ThreadNames;
pub use vm_watch::VmWatch;

use rustix::time::{ClockId, clock_gettime};

/// Time on CPUs of all threads of this process since it began, in nanoseconds.
pub fn own_cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
