//! How the wall time of one vCPU divides.

use crate::KeyNumbering;
use exitscope_model::{AllParts, CpuInterval, Exit, TimePart, VcpuIdentity};
use exitscope_units::{Moment, Nanos};

/// Where a vCPU's time went, in nanoseconds. The parts are disjoint, and together the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuTime {
    /// Its parts.
    pub parts: AllParts,
    /// Exits.
    pub exits: u64,
}

impl VcpuTime {
    /// Adds one exit and the guest time before it, as far as they lie within `window`. Of an exit that lies partly
    /// within, each part is taken in proportion: a row does not say when in it which part was.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit, window: (Moment, Moment)) {
        let (from, to) = (window.0.as_nanos(), window.1.as_nanos());
        let left = exit.at.as_nanos();
        self.exits += u64::from(from <= left && left <= to);
        let since = left.saturating_sub(exit.guest.0);
        self.parts.add(TimePart::Guest, within(window, since, left));
        if !exit.timed {
            return;
        }
        let entered = left.saturating_add(exit.total().0);
        match from <= left && entered <= to {
            true => self.parts.merge_exit(&exit.parts),
            false => self.parts.merge(&exit.parts.in_proportion(within(window, left, entered))),
        }
    }

    /// Adds a stretch of no exit, likewise.
    pub fn absorb_stretch(&mut self, stretch: &CpuInterval, window: (Moment, Moment)) {
        let from = stretch.from.as_nanos();
        let held = within(window, from, from.saturating_add(stretch.parts.sum().0));
        self.parts.merge(&stretch.parts.in_proportion(held));
    }

    /// Adds what another division holds.
    pub fn merge(&mut self, other: &VcpuTime) {
        let VcpuTime { parts, exits } = other;
        self.parts.merge(parts);
        self.exits += exits;
    }

    /// How long one of its parts is.
    pub fn part(&self, part: TimePart) -> Nanos {
        self.parts.get(part)
    }

    /// From the first event that tells of it to the last, summed over recordings: all its parts.
    pub fn span(&self) -> Nanos {
        self.parts.sum()
    }

    /// What exits cost.
    pub fn cost(&self) -> Nanos {
        self.parts.cost()
    }
}

/// Whether a vCPU with this span was there for a part of the recording alone: rates and shares are then of that part.
pub fn is_part(span: u64, duration: u64) -> bool {
    span.saturating_mul(20) < duration.saturating_mul(19)
}

/// How much of what lies between two moments lies within the window.
#[inline]
pub(crate) fn within(window: (Moment, Moment), begin: u64, end: u64) -> Nanos {
    Nanos(end.min(window.1.as_nanos()).saturating_sub(begin.max(window.0.as_nanos())))
}

/// The divisions of a recording that is being read, found fast: exits of several vCPUs come in turns.
#[derive(Clone, Debug)]
pub(crate) struct VcpuTimes {
    index: KeyNumbering<VcpuIdentity>,
    /// By the vCPU's number.
    cells: Vec<VcpuTime>,
    /// The last one, and its number.
    last: Option<(VcpuIdentity, u32)>,
}

impl Default for VcpuTimes {
    fn default() -> VcpuTimes {
        VcpuTimes { index: KeyNumbering::of_at_most(u32::MAX), cells: Vec::new(), last: None }
    }
}

impl VcpuTimes {
    /// That of this vCPU, and the vCPU's number.
    #[inline]
    pub fn of(&mut self, who: VcpuIdentity) -> (u32, &mut VcpuTime) {
        let number = match self.last {
            Some((last, number)) if last == who => number,
            _ => self.find(who),
        };
        (number, &mut self.cells[number as usize])
    }

    fn find(&mut self, who: VcpuIdentity) -> u32 {
        let number = self.index.of(who);
        if number as usize == self.cells.len() {
            self.cells.push(VcpuTime::default());
        }
        self.last = Some((who, number));
        number
    }

    /// All of them; none is left.
    pub fn take(&mut self) -> impl Iterator<Item = (VcpuIdentity, VcpuTime)> + use<> {
        let VcpuTimes { index, cells, .. } = std::mem::take(self);
        index.keys().to_vec().into_iter().zip(cells)
    }
}
