//! How the wall time of one vCPU divides.

use exitscope_model::{Exit, LaneSpan};
use exitscope_units::{Moment, Nanos};

/// Where a vCPU's time went, in nanoseconds. The parts are disjoint; what they leave of the span is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// First to last entry or exit, summed over recordings.
    pub span: u64,
    /// In the guest.
    pub guest: u64,
    /// In exits, handled by the kernel.
    pub kernel: u64,
    /// In exits, in user space.
    pub user: u64,
    /// Halted.
    pub idle: u64,
    /// In exits, runnable but not running.
    pub waiting: u64,
    /// Exits.
    pub exits: u64,
}

impl Division {
    /// Adds one exit and the guest time before it.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        self.exits += 1;
        self.guest = self.guest.saturating_add(exit.guest.0);
        if exit.timed {
            self.kernel = self.kernel.saturating_add(exit.kernel.0);
            self.user = self.user.saturating_add(exit.user.0);
            self.idle = self.idle.saturating_add(exit.idle.0);
            self.waiting = self.waiting.saturating_add(exit.waiting.0);
        }
    }

    /// Adds the span of a recording, as far as it lies within `from..=to`, and the guest time after the last exit.
    pub fn absorb_span(&mut self, lane: &LaneSpan, from: Moment, to: Moment) {
        let within = lane.last.min(to).since(lane.first.max(from)).unwrap_or_default();
        self.span = self.span.saturating_add(within.0);
        if lane.last <= to {
            self.guest = self.guest.saturating_add(lane.tail_guest.0);
        }
    }

    /// Adds what another division holds.
    pub fn merge(&mut self, other: &Division) {
        self.span = self.span.saturating_add(other.span);
        self.guest = self.guest.saturating_add(other.guest);
        self.kernel = self.kernel.saturating_add(other.kernel);
        self.user = self.user.saturating_add(other.user);
        self.idle = self.idle.saturating_add(other.idle);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.exits += other.exits;
    }

    /// The part of the span that nothing in the trace explains.
    pub fn unknown(&self) -> Nanos {
        let known = [self.guest, self.kernel, self.user, self.idle, self.waiting];
        Nanos(known.iter().fold(self.span, |left, part| left.saturating_sub(*part)))
    }

    /// What exits cost.
    pub fn cost(&self) -> Nanos {
        Nanos(self.kernel.saturating_add(self.user))
    }
}
