//! How the wall time of one vCPU divides.

use crate::Index;
use exitscope_model::{Exit, LaneSpan, Who};
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
    /// Adds one exit and the guest time before it, as far as they lie within `window`. Of an exit that lies partly
    /// within, each part is taken in proportion: a row does not say when in it which part was.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit, window: (Moment, Moment)) {
        let (from, to) = (window.0.as_nanos(), window.1.as_nanos());
        let left = exit.at.as_nanos();
        let total = if exit.timed { exit.total().0 } else { 0 };
        let (since, entered) = (left.saturating_sub(exit.guest.0), left.saturating_add(total));
        self.exits += u64::from(from <= left && left <= to);
        let within = |begin: u64, end: u64| end.min(to).saturating_sub(begin.max(from));
        self.guest = self.guest.saturating_add(within(since, left));
        let held = within(left, entered);
        let part = |nanos: Nanos| match held == total {
            true => nanos.0,
            false => (u128::from(nanos.0) * u128::from(held) / u128::from(total.max(1))) as u64,
        };
        if exit.timed {
            self.kernel = self.kernel.saturating_add(part(exit.kernel));
            self.user = self.user.saturating_add(part(exit.user));
            self.idle = self.idle.saturating_add(part(exit.idle));
            self.waiting = self.waiting.saturating_add(part(exit.waiting));
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

/// The divisions of a recording that is being read, found fast: exits of several vCPUs come in turns.
#[derive(Clone, Debug)]
pub(crate) struct Divisions {
    index: Index<Who>,
    /// By the vCPU's number.
    cells: Vec<Division>,
    /// The last one, and its number.
    last: Option<(Who, u32)>,
}

impl Default for Divisions {
    fn default() -> Divisions {
        Divisions { index: Index::of_at_most(u32::MAX), cells: Vec::new(), last: None }
    }
}

impl Divisions {
    /// That of this vCPU, and the vCPU's number.
    #[inline]
    pub fn of(&mut self, who: Who) -> (u32, &mut Division) {
        let number = match self.last {
            Some((last, number)) if last == who => number,
            _ => self.find(who),
        };
        (number, &mut self.cells[number as usize])
    }

    fn find(&mut self, who: Who) -> u32 {
        let number = self.index.of(who);
        if number as usize == self.cells.len() {
            self.cells.push(Division::default());
        }
        self.last = Some((who, number));
        number
    }

    /// All of them; none is left.
    pub fn take(&mut self) -> impl Iterator<Item = (Who, Division)> + use<> {
        let Divisions { index, cells, .. } = std::mem::take(self);
        index.keys().to_vec().into_iter().zip(cells)
    }
}
