//! From cycles to nanoseconds.

use exitscope_units::Moment;

/// Nanoseconds of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Whole nanoseconds of a cycle, and the rest in units of 2^-64.
    whole: u64,
    part: u64,
}

impl Rate {
    /// `hz` cycles make a second.
    pub fn of(hz: u64) -> Rate {
        const SECOND: u64 = 1_000_000_000;
        // Rounded up, so that whole nanoseconds stay whole.
        let part = (u128::from(SECOND % hz) << 64).div_ceil(u128::from(hz));
        Rate { whole: SECOND / hz, part: part as u64 }
    }

    #[inline]
    /// The moment `cycles` after the counter's zero.
    pub fn moment(self, cycles: u64) -> Moment {
        let part = ((u128::from(cycles) * u128::from(self.part)) >> 64) as u64;
        Moment::from_nanos(cycles.saturating_mul(self.whole).saturating_add(part))
    }
}
