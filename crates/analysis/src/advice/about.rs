//! The exits of a VM about one thing: what they cost, and what says whether a cheaper way would do.
//!
//! ```text
//! Exit{port 0xc000 out, 2 bytes, value 1, to user space} ─► About{cell, trip, spot: 0xc000 only, written: 1 to 1, strings: 0}
//! ```

use crate::{Cell, Tally};
use exitscope_model::{Detail, Door, Exit, Form, Step};

/// Whether accesses all went to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The first one's address.
    pub address: u64,
    /// Its size, in bytes.
    pub size: u16,
    /// Whether all others were the same.
    pub only: bool,
}

/// Exits about one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// Their figures; filled at the end.
    pub cell: Cell,
    /// Time on the way out of the kernel (or Xen), outside and on the way back, in nanoseconds.
    pub trip: u64,
    /// Part of that in which the vCPU's thread slept outside: it waited for another.
    pub asleep: u64,
    /// Accesses whose data are in memory (INS, OUTS).
    pub strings: u64,
    /// The smallest and the largest value that was written.
    pub written: Option<(u64, u64)>,
    /// Where those went that left the kernel.
    pub spot: Option<Spot>,
}

impl About {
    /// Whether an exit adds anything to more than the figures.
    #[inline]
    pub fn tells(exit: &Exit, detail: &Detail) -> bool {
        exit.door != Door::Kernel || detail.write || detail.form == Form::String
    }
}

impl Tally for About {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        let Some(detail) = exit.detail else { return };
        self.strings += u64::from(detail.form == Form::String);
        if detail.write && detail.form != Form::String {
            let (low, high) = self.written.unwrap_or((detail.value, detail.value));
            self.written = Some((low.min(detail.value), high.max(detail.value)));
        }
        if exit.door == Door::Kernel {
            return;
        }
        let place = Spot { address: detail.key, size: detail.size, only: true };
        let known = self.spot.get_or_insert(place);
        known.only &= known.address == place.address && known.size == place.size;
        if exit.timed {
            let time = |step| exit.way.time(step).0;
            let steps = time(Step::Leaving).saturating_add(time(Step::Asleep)).saturating_add(time(Step::Entering));
            self.trip = self.trip.saturating_add(steps.saturating_add(time(Step::User)).max(exit.user.0));
            self.asleep = self.asleep.saturating_add(time(Step::Asleep));
        }
    }

    fn merge(&mut self, other: &About) {
        self.cell.merge(&other.cell);
        self.trip = self.trip.saturating_add(other.trip);
        self.asleep = self.asleep.saturating_add(other.asleep);
        self.strings += other.strings;
        self.written = match (self.written, other.written) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.spot = match (self.spot, other.spot) {
            (Some(a), Some(b)) => {
                Some(Spot { only: a.only && b.only && (a.address, a.size) == (b.address, b.size), ..a })
            }
            (a, b) => a.or(b),
        };
    }
}
