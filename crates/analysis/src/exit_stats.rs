//! The figures of one group of exits.

use exitscope_model::{Exit, ExitParts, Handler, TimePart};
use exitscope_stats::Histogram;
use exitscope_units::Nanos;

/// Sums, extremes and distribution over a group of exits. All lengths are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitStats {
    /// Exits.
    pub count: u64,
    /// Exits of which both ends were seen. All times below are of these alone.
    pub timed: u64,
    /// Exits that user space, or Xen's device model, answered.
    pub user_count: u64,
    /// Where their time went.
    pub parts: ExitParts,
    /// The longest exit, everything included.
    pub max: u64,
    /// The shortest exit, without those whose two timestamps are equal.
    pub min: Option<u64>,
    /// Lengths from exit to entry, everything included.
    pub durations: Histogram,
}

impl ExitStats {
    /// Adds one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let ExitStats { count, timed, user_count, parts, max, min, durations } = self;
        *count += 1;
        *user_count += u64::from(exit.handler != Handler::Kernel);
        if !exit.timed {
            return;
        }
        *timed += 1;
        parts.merge_exit(&exit.parts);
        let total = exit.total().0;
        *max = total.max(*max);
        if total > 0 {
            *min = Some(min.map_or(total, |min| min.min(total)));
        }
        durations.record(total);
    }

    /// Adds what another cell holds.
    pub fn merge(&mut self, other: &ExitStats) {
        let ExitStats { count, timed, user_count, parts, max, min, durations } = other;
        self.count += count;
        self.timed += timed;
        self.user_count += user_count;
        self.parts.merge(parts);
        self.max = self.max.max(*max);
        self.min = [self.min, *min].into_iter().flatten().min();
        self.durations.merge(durations);
    }

    /// From exit to entry, everything included.
    pub fn total(&self) -> Nanos {
        self.parts.sum()
    }

    /// Kernel and user space: what the exits cost.
    pub fn cost(&self) -> Nanos {
        self.parts.cost()
    }

    /// How long one of their parts is.
    pub fn part(&self, part: TimePart) -> Nanos {
        self.parts.get(part)
    }

    /// Mean length, everything included.
    pub fn mean(&self) -> Option<Nanos> {
        self.total().0.checked_div(self.timed).map(Nanos)
    }

    /// The length below or at which `per_10_000 / 10,000` of the exits are, never outside what was seen.
    pub fn quantile(&self, per_10_000: u64) -> Option<Nanos> {
        let value = self.durations.quantile(per_10_000)?;
        // Zeros are exits of no length, which the minimum leaves out.
        let least = if value == 0 { 0 } else { self.min.unwrap_or(0) };
        Some(Nanos(value.max(least).min(self.max)))
    }
}
