//! A stretch of time by the time stamp counter: the clock of every figure of the lab that is a rate or a share of time.

use std::time::Duration;

/// From one moment to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    ns: u64,
}

impl Span {
    /// What measures it, for people.
    pub const CLOCK: &'static str = "time stamp counter";

    /// Of so many nanoseconds of that clock.
    pub(crate) fn of_ns(ns: u64) -> Span {
        Span { ns }
    }

    /// Its length.
    pub fn length(self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Its length in seconds, never zero.
    pub fn seconds(self) -> f64 {
        self.ns.max(1) as f64 / 1e9
    }

    /// So many things in it, as things a second.
    pub fn rate(self, count: u64) -> f64 {
        count as f64 / self.seconds()
    }
}
