//! Sums over time.
//!
//! ```text
//! TimelineBatch ─┬─► states   by vCPU                          all parts of its time; of CPU intervals, too
//!                ├─► exits    by vCPU, cause, to user space?   count, timed, kernel, user space
//!                ├─► waits    by vCPU, cause                   the other parts of exits: most exits have none
//!                └─► lengths  by vCPU, reason, length          count                 eight lengths to a doubling
//! ```
//!
//! Each is kept by bucket of time, as narrow as its bound on rows allows: a short recording to the microsecond, a recording
//! of ten million exits to about a thousandth of its length.

use super::TimelineSink;
use super::bucket_sums::BucketSums;
use super::single_exits::SingleExits;
use super::timeline_keys::{ExitSample, LANES, TimelineBatch};
use super::vcpu_timeline::VcpuTimeline;
use exitscope_model::{AllParts, CpuInterval, ExitParts, TimePart};
use exitscope_stats::bucket_of;
use exitscope_units::{Moment, Nanos};

/// Rows at most, of each kind.
const EXIT_ROWS: usize = 150_000;
const WAIT_ROWS: usize = 60_000;
const LENGTH_ROWS: usize = 250_000;

/// vCPUs of which causes and lengths are told apart; of a host with more, there would be no room for time.
const LANES_BY_CAUSE: u16 = 64;

/// Places in a key: lane, cause or reason, and the length or whether it went to user space.
const LANE_SHIFT: u32 = 32;
const CAUSE_SHIFT: u32 = 9;

/// The places of a key below the lane.
const BELOW_LANE: u64 = (1 << LANE_SHIFT) - 1;
/// The places of a key below the cause.
pub const BELOW_CAUSE: u64 = (1 << CAUSE_SHIFT) - 1;

/// The length of an exit of which not both ends were seen.
const UNTIMED: u64 = BELOW_CAUSE;

/// Parts of exits beside kernel and user space.
const WAITS: usize = TimePart::BESIDE_COST.len();

/// Exits that are taken at once (8 KB).
const AT_ONCE: usize = 128;

/// Buckets of lengths to a doubling, as a power of two.
const LENGTH_BITS: u32 = 3;

/// The sums over time of a page.
#[derive(Clone, Debug)]
pub struct ExitTimeline {
    pub(super) window: (Moment, Moment),
    /// How the time of vCPUs divides.
    pub states: VcpuTimeline,
    /// Exits: count, timed, kernel, user space.
    pub exits: BucketSums<4>,
    /// Their other parts.
    pub waits: BucketSums<WAITS>,
    /// Their lengths: count.
    pub lengths: BucketSums<1>,
    /// Single ones.
    pub singles: SingleExits,
}

impl ExitTimeline {
    /// Nothing yet; for one of so many parts that will be merged.
    pub fn of_part(parts: usize) -> ExitTimeline {
        // Places near at hand, too: fewer where there are fewer rows.
        let bits = |most: u32| most.saturating_sub(parts.ilog2()).max(6);
        ExitTimeline {
            window: (Moment::default(), Moment::MAX),
            states: VcpuTimeline::of_part(parts),
            exits: BucketSums::of_at_most(EXIT_ROWS / parts, bits(10)),
            waits: BucketSums::of_at_most(WAIT_ROWS / parts, bits(8)),
            lengths: BucketSums::of_at_most(LENGTH_ROWS / parts, bits(13)),
            // What is made of parts is what happens now, of which nobody looks for a single exit.
            singles: if parts == 1 { SingleExits::new() } else { SingleExits::none() },
        }
    }

    /// Adds exits, and the guest time before each; and stretches.
    fn absorb(&mut self, batch: &TimelineBatch) {
        batch.cpu_intervals.iter().for_each(|(lane, interval)| self.divide_cpu_interval(*lane, interval));
        self.singles.absorb(batch);
        let Some((last, others)) = batch.exits.split_last() else { return };
        // Before the others: time is at once as wide as all of these need it.
        self.divide(last, &batch.parts);
        // One kind of row after the other: each has to be fetched from elsewhere, and they wait for each other less so.
        for exits in others.chunks(AT_ONCE) {
            exits.iter().for_each(|exit| self.divide(exit, &batch.parts));
            self.count(exits, &batch.parts);
        }
        self.count(std::slice::from_ref(last), &batch.parts);
    }

    /// Adds exits to all but the time in which they were.
    #[inline]
    fn count(&mut self, exits: &[ExitSample], parts: &[ExitParts]) {
        let counted = || exits.iter().filter(|exit| exit.counted);
        for exit in counted() {
            let sums = [1, exit.timed.into(), exit.kernel, exit.user];
            self.exits.absorb(exit.at, exit.by_cause() | u64::from(exit.to_user), &sums);
        }
        for (exit, parts) in counted().filter_map(|exit| Some((exit, exit.parts(parts)?))) {
            let waits = TimePart::BESIDE_COST.map(|part| parts.get(part).0);
            self.waits.absorb(exit.at, exit.by_cause(), &waits);
        }
        for exit in counted() {
            let length = if exit.timed { length_of(exit.total) } else { UNTIMED };
            self.lengths.absorb(exit.at, exit.by(exit.reason) | length, &[1]);
        }
    }

    /// Spreads an exit and the guest time before it over the time in which they were, as far as it is looked at.
    #[inline]
    fn divide(&mut self, exit: &ExitSample, parts: &[ExitParts]) {
        let (from, to) = (self.window.0.as_nanos(), self.window.1.as_nanos());
        let (lane, left) = (exit.lane, exit.at);
        let since = left.saturating_sub(exit.guest);
        let entered = left.saturating_add(exit.total);
        if from <= since
            && entered <= to
            && let Some(cell) = self.states.cell(lane, since, entered)
        {
            // Where in a bucket they lie makes no difference.
            cell.add(TimePart::Guest, Nanos(left - since));
            return match exit.parts(parts) {
                None => {
                    cell.add(TimePart::Kernel, Nanos(exit.kernel));
                    cell.add(TimePart::User, Nanos(exit.user));
                }
                Some(parts) => cell.merge(parts),
            };
        }
        self.spread(lane, since, left, &AllParts::ZERO.with(TimePart::Guest, Nanos(left - since)));
        let mut times = AllParts::ZERO;
        match exit.parts(parts) {
            None => times = times.with(TimePart::Kernel, Nanos(exit.kernel)).with(TimePart::User, Nanos(exit.user)),
            Some(parts) => times.merge(parts),
        }
        self.spread(lane, left, entered, &times);
    }

    fn divide_cpu_interval(&mut self, lane: u16, interval: &CpuInterval) {
        let from = interval.from.as_nanos();
        self.spread(lane, from, from.saturating_add(interval.parts.sum().0), &interval.parts);
    }

    /// Spreads times evenly between these moments, as far as they are looked at: nothing says when between them which was.
    fn spread(&mut self, lane: u16, from: u64, to: u64, times: &AllParts) {
        let (begin, end) = (from.max(self.window.0.as_nanos()), to.min(self.window.1.as_nanos()));
        if begin < end {
            self.states.spread(lane, begin, end, &times.in_proportion(Nanos(end - begin)));
        }
    }

    /// Forgets what was before this moment, in nanoseconds, to the bucket of time.
    pub(super) fn forget(&mut self, before: u64) {
        self.states.forget(before);
        self.exits.forget(before);
        self.waits.forget(before);
        self.lengths.forget(before);
    }
}

impl TimelineSink for ExitTimeline {
    fn begin(&mut self, window: (Moment, Moment)) {
        self.window = window;
    }

    #[inline]
    fn take(&mut self, batch: &mut TimelineBatch) {
        self.absorb(batch);
        batch.clear();
    }
}

/// The number of the cause, or reason, in a key.
pub fn number_of(key: u64) -> usize {
    ((key & BELOW_LANE) >> CAUSE_SHIFT) as usize
}

/// The number of the vCPU in a key.
pub fn lane_of(key: u64) -> u32 {
    (key >> LANE_SHIFT) as u32
}

/// A key with another vCPU and another cause.
pub fn place(lane: u32, cause: u32, key: u64) -> u64 {
    u64::from(lane) << LANE_SHIFT | u64::from(cause) << CAUSE_SHIFT | key & BELOW_CAUSE
}

impl ExitSample {
    /// The part of keys that says whose it is, and of what cause, or for what reason.
    #[inline]
    fn by(&self, number: u16) -> u64 {
        let lane = if self.lane < LANES_BY_CAUSE { self.lane.into() } else { u64::from(LANES) };
        lane << LANE_SHIFT | u64::from(number) << CAUSE_SHIFT
    }

    #[inline]
    fn by_cause(&self) -> u64 {
        self.by(self.cause)
    }
}

/// The bucket of a length.
#[inline]
fn length_of(nanos: u64) -> u64 {
    bucket_of::<LENGTH_BITS>(nanos) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over_time::bucket_sums::FURTHER;
    use crate::over_time::timeline_keys::{CAUSES, REASONS};

    #[test]
    fn keys_fit() {
        let causes = u64::from(CAUSES + REASONS);
        assert!(u64::from(LANES) << LANE_SHIFT < FURTHER && causes << CAUSE_SHIFT <= BELOW_LANE);
        assert!(u64::from(LANES).max(causes) <= u16::MAX.into() && UNTIMED > length_of(u64::MAX));
    }

    #[test]
    fn an_exit_in_brief_is_a_line_of_cache() {
        assert!(size_of::<ExitSample>() <= 64);
    }
}
