//! Waits for a CPU of vCPUs that were preempted or woken: when, for how long, and who took the CPU or woke them.
//!
//! ```text
//! Preemption, ThreadWakeUp ─► CpuWait ─► the chunk of single exits in whose time it ended ─► packed behind the exits' columns
//! ```
//!
//! Columns, as [`push_all`] packs numbers, those of times as [`push_planes`] does: how long after the one before it began (of the first,
//! after the chunk's `first_ns`; zigzag), the vCPU, whether it was woken, how long it waited + 1 (0: that it ran was not seen), and the
//! thread's place in the list + 1 (0: not recorded).

use crate::timelines::LaneOrder;
use exitscope_analysis::over_time::CpuWait;
use exitscope_analysis::over_time::columns::{push_all, push_planes, zigzag};
use exitscope_model::TraceInfo;
use exitscope_units::Tid;
use schemars::JsonSchema;
use serde::Serialize;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_packed_column_by_column() {
        let wait = |at, ran, by| CpuWait { at, ran, lane: 2, woken: by == Tid(7), by: Some(by) };
        let mut bytes = Vec::new();
        push_waits(&mut bytes, 1_000, &[wait(1_500, Some(2_100), Tid(7)), wait(1_400, None, Tid(9))], |tid| {
            (tid == Tid(7)).then_some(0)
        });
        let mut expected = Vec::new();
        push_planes(&mut expected, &[zigzag(500), zigzag(-100)]);
        push_all(&mut expected, [2, 2, 1, 0].into_iter());
        push_planes(&mut expected, &[601, 0]);
        push_all(&mut expected, [1, 0].into_iter());
        assert_eq!(bytes, expected);
        push_waits(&mut bytes, 1_000, &[], |_| None);
        assert_eq!(bytes, expected, "of none there is nothing");
    }
}
