//! What a kernel tells of its own idle CPUs: in a guest, which wake-ups its polling spares an interrupt, and for how long it polls.
//!
//! ```text
//! a guest's CPU 0 (sched_wake_idle_without_ipi: cpu=1) ─► WokenPolling { cpu: 1 }
//! a guest's CPU 1 (guest_halt_poll_ns: 100000, grow)   ─► PollLimit
//! ```

use crate::PollChange;
use exitscope_units::{Moment, PcpuId};

/// What is told of an idle CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleEvent {
    /// `sched_wake_idle_without_ipi`: there is something to do for this CPU, whose idle task polls (`TIF_POLLING_NRFLAG`), so that it is
    /// sent no interrupt (`resched_curr` and `send_call_function_single_ipi` of kernel/sched/core.c). Also a CPU that idles by MWAIT polls.
    WokenPolling {
        /// The CPU that polls.
        cpu: PcpuId,
    },
    /// `guest_halt_poll_ns`: the governor haltpoll changes for how long the CPU polls that recorded it (`adjust_poll_limit` of
    /// drivers/cpuidle/governors/haltpoll.c, from Linux 5.18 on).
    PollLimit(PollChange),
}

/// The same, with when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleCpuEvent {
    /// When it was told.
    pub at: Moment,
    /// The CPU that is idle.
    pub cpu: PcpuId,
    /// What is told of it.
    pub event: IdleEvent,
}
