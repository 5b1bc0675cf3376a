//! Waits for a CPU of vCPUs that were preempted or woken: when, for how long, and who took the CPU or woke them.
//!
//! ```text
//! Preemption, ThreadWakeUp ─► CpuWait ─► the chunk of single exits in whose time it ended ─► packed behind the exits' columns
//! ```
//!
//! Columns, as [`push_all`] packs numbers, those of times as [`push_planes`] does: how long after the one before it began (of the first,
//! after the chunk's `first_ns`; zigzag), the vCPU, whether it was woken, how long it waited + 1 (0: that it ran was not seen), and the
//! thread's place in the list + 1 (0: not recorded).

use crate::columns::{push_all, push_planes, zigzag};
use crate::over_time::LaneOrder;
use exitscope_model::TraceInfo;
use exitscope_units::Tid;
use schemars::JsonSchema;
use serde::Serialize;

/// A wait of a vCPU for a CPU. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuWait {
    pub at: u64,
    /// When it ran, if that was seen.
    pub ran: Option<u64>,
    pub lane: u16,
    /// Whether it was woken; else it was preempted.
    pub woken: bool,
    /// The thread that took its CPU, or recorded that it was woken.
    pub by: Option<Tid>,
}

impl CpuWait {
    /// The last moment of it that was seen.
    pub fn end(&self) -> u64 {
        self.ran.unwrap_or(self.at)
    }
}

/// A thread that took a vCPU's CPU, or woke a vCPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ThreadRow {
    /// 0: the idle CPU's.
    pub tid: u32,
    /// What it is called, if the trace says.
    pub name: Option<String>,
    /// The place of the vCPU that it runs, if it runs one.
    pub lane: Option<u32>,
}

impl ThreadRow {
    /// What is known of a thread, of a page whose vCPUs are in this order.
    pub fn of(tid: Tid, info: &TraceInfo, order: &LaneOrder) -> ThreadRow {
        ThreadRow { tid: tid.0, name: info.comms.get(&tid.0).cloned(), lane: order.of_thread(tid) }
    }
}

/// The columns of a list of waits, in their order.
pub(crate) const COLUMNS: [&str; 5] = ["begin", "lane", "woken", "waited", "thread"];
/// Those of them that are packed byte by byte.
pub(crate) const PLANES: [&str; 2] = ["begin", "waited"];

/// Appends the columns of waits, nothing if there are none; `number` is a thread's place.
pub(crate) fn push_waits(bytes: &mut Vec<u8>, first: u64, waits: &[CpuWait], number: impl Fn(Tid) -> Option<u32>) {
    if waits.is_empty() {
        return;
    }
    let mut before = first;
    let since = |wait: &CpuWait| zigzag(wait.at.wrapping_sub(std::mem::replace(&mut before, wait.at)) as i64);
    let begins: Vec<u64> = waits.iter().map(since).collect();
    push_planes(bytes, &begins);
    push_all(bytes, waits.iter().map(|wait| wait.lane.into()));
    push_all(bytes, waits.iter().map(|wait| wait.woken.into()));
    let waited = |wait: &CpuWait| wait.ran.map_or(0, |ran| ran.saturating_sub(wait.at).saturating_add(1));
    push_planes(bytes, &waits.iter().map(waited).collect::<Vec<u64>>());
    push_all(bytes, waits.iter().map(|wait| wait.by.and_then(&number).map_or(0, |number| u64::from(number) + 1)));
}
