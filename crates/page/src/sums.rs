//! Sums over time.
//!
//! ```text
//! Brief ─┬─► states   by vCPU                    guest, kernel, user, idle, waiting
//!        ├─► exits    by vCPU, reason            count, timed, to user space, kernel, user, idle, waiting
//!        ├─► lengths  by vCPU, reason, length    count                 eight lengths to a doubling
//!        └─► about    by vCPU, port, MSR, …      count, cost
//! ```
//!
//! Each is kept by bucket of time, as narrow as its bound on rows allows: a short recording to the microsecond, a recording
//! of ten million exits to about a thousandth of its length.

use crate::names::{Brief, LANES};
use crate::rows::Rows;
use crate::states::States;
use exitscope_model::LaneSpan;
use exitscope_stats::bucket_of;
use exitscope_units::Moment;

/// Rows at most, of each kind.
const EXIT_ROWS: usize = 120_000;
const LENGTH_ROWS: usize = 250_000;
const ABOUT_ROWS: usize = 60_000;

/// vCPUs of which reasons and lengths are told apart; of a host with more, there would be no room for time.
const LANES_BY_REASON: u16 = 64;

/// Places in a key: lane, reason, length; or lane, about.
pub const LANE_SHIFT: u32 = 19;
pub const REASON_SHIFT: u32 = 9;

/// The places of a key below the lane.
pub const BELOW_LANE: u32 = (1 << LANE_SHIFT) - 1;

/// The length of an exit of which not both ends were seen.
pub const UNTIMED: u32 = (1 << REASON_SHIFT) - 1;

/// Exits that are taken at once (8 KB).
const AT_ONCE: usize = 128;

/// Buckets of lengths to a doubling, as a power of two.
const LENGTH_BITS: u32 = 3;

/// The sums over time of a page.
#[derive(Clone, Debug)]
pub struct Sums {
    window: (Moment, Moment),
    pub(crate) states: States,
    pub(crate) exits: Rows<7>,
    pub(crate) lengths: Rows<1>,
    pub(crate) about: Rows<2>,
}

impl Sums {
    /// Nothing yet; for one of so many parts that will be merged.
    pub fn of_part(parts: usize) -> Sums {
        // Places near at hand, too: fewer where there are fewer rows.
        let bits = |most: u32| most.saturating_sub(parts.ilog2()).max(6);
        Sums {
            window: (Moment::default(), Moment::MAX),
            states: States::of_part(parts),
            exits: Rows::of_at_most(EXIT_ROWS / parts, bits(10)),
            lengths: Rows::of_at_most(LENGTH_ROWS / parts, bits(13)),
            about: Rows::of_at_most(ABOUT_ROWS / parts, bits(10)),
        }
    }

    /// Says what is looked at.
    pub fn begin(&mut self, window: (Moment, Moment)) {
        self.window = window;
    }

    /// Adds exits, and the guest time before each.
    pub fn absorb(&mut self, exits: &[Brief]) {
        let Some((last, others)) = exits.split_last() else { return };
        // Before the others: time is at once as wide as all of these need it.
        self.divide(last);
        // One kind of row after the other: each has to be fetched from elsewhere, and they wait for each other less so.
        for exits in others.chunks(AT_ONCE) {
            exits.iter().for_each(|exit| self.divide(exit));
            self.count(exits);
        }
        self.count(std::slice::from_ref(last));
    }

    /// Adds exits to all but the time in which they were.
    #[inline]
    fn count(&mut self, exits: &[Brief]) {
        let counted = || exits.iter().filter(|exit| exit.counted);
        for exit in counted() {
            let Brief { at, times: [kernel, user, idle, waiting], .. } = *exit;
            let sums = [1, exit.timed.into(), exit.to_user.into(), kernel, user, idle, waiting];
            self.exits.absorb(at, exit.by_reason(), &sums);
        }
        for exit in counted() {
            let length = if exit.timed { length_of(exit.total()) } else { UNTIMED };
            self.lengths.absorb(exit.at, exit.by_reason() | length, &[1]);
        }
        for (exit, about) in counted().filter_map(|exit| Some((exit, exit.about?))) {
            let [kernel, user, ..] = exit.times;
            self.about.absorb(exit.at, exit.by_lane() | u32::from(about), &[1, kernel.saturating_add(user)]);
        }
    }

    /// Spreads an exit and the guest time before it over the time in which they were, as far as it is looked at.
    #[inline]
    fn divide(&mut self, exit: &Brief) {
        let (from, to) = (self.window.0.as_nanos(), self.window.1.as_nanos());
        let (lane, left) = (exit.lane.into(), exit.at);
        let since = left.saturating_sub(exit.guest).max(from);
        let until = left.min(to);
        let entered = left.saturating_add(exit.total());
        if exit.timed && entered <= to && from <= left && self.states.are_in_one(since, entered) {
            // Where in a bucket they lie makes no difference.
            let [kernel, user, idle, waiting] = exit.times;
            return self.states.spread(lane, since, entered, &[left - since, kernel, user, idle, waiting]);
        }
        if since < until {
            self.states.spread(lane, since, until, &[until - since, 0, 0, 0, 0]);
        }
        if !exit.timed {
            return;
        }
        let [kernel, user, idle, waiting] = exit.times;
        let times = [0, kernel, user, idle, waiting];
        let (begin, end) = (left.max(from), entered.min(to));
        if begin == left && end == entered {
            return self.states.spread(lane, left, entered, &times);
        }
        if begin < end {
            // A row does not say when in it which part was.
            let part = |time: u64| (u128::from(time) * u128::from(end - begin) / u128::from(entered - left)) as u64;
            self.states.spread(lane, begin, end, &times.map(part));
        }
    }

    /// Adds the guest time after a vCPU's last exit.
    pub(crate) fn absorb_tail(&mut self, lane: u32, span: &LaneSpan) {
        let to = span.last.min(self.window.1).as_nanos();
        let from = span.last.as_nanos().saturating_sub(span.tail_guest.0).max(self.window.0.as_nanos());
        if from < to && span.last <= self.window.1 {
            self.states.spread(lane, from, to, &[to - from, 0, 0, 0, 0]);
        }
    }

    /// Forgets what was before this moment, in nanoseconds, to the bucket of time.
    pub(crate) fn forget(&mut self, before: u64) {
        self.states.forget(before);
        self.exits.forget(before);
        self.lengths.forget(before);
        self.about.forget(before);
    }
}

impl Brief {
    /// From exit to entry, everything included.
    #[inline]
    fn total(&self) -> u64 {
        self.times.iter().sum()
    }

    /// The part of keys that says whose it is.
    #[inline]
    fn by_lane(&self) -> u32 {
        (if self.lane < LANES_BY_REASON { self.lane.into() } else { LANES }) << LANE_SHIFT
    }

    /// The part that says whose it is, and why it was.
    #[inline]
    fn by_reason(&self) -> u32 {
        self.by_lane() | u32::from(self.reason) << REASON_SHIFT
    }
}

/// The bucket of a length.
#[inline]
fn length_of(nanos: u64) -> u32 {
    bucket_of::<LENGTH_BITS>(nanos) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ABOUTS, REASONS};

    #[test]
    fn keys_fit() {
        assert!(LANES.leading_zeros() >= LANE_SHIFT && REASONS << REASON_SHIFT < 1 << LANE_SHIFT);
        assert!(
            [LANES, REASONS, ABOUTS].iter().all(|most| *most <= u16::MAX.into())
                && ABOUTS <= BELOW_LANE
                && UNTIMED > length_of(u64::MAX)
        );
    }

    #[test]
    fn an_exit_in_brief_is_a_line_of_cache() {
        assert_eq!(size_of::<Brief>(), 64);
    }
}
