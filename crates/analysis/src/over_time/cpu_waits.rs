//! Waits for a CPU of vCPUs that were preempted or woken.

use exitscope_units::Tid;

/// A wait of a vCPU for a CPU. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuWait {
    /// When it began.
    pub at: u64,
    /// When it ran, if that was seen.
    pub ran: Option<u64>,
    /// The number of the vCPU.
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
