//! The segments of an exit, in the order in which they are drawn: its parts, of which kernel and user space are divided by steps.
//!
//! ```text
//! │ reaching │ handling │ polling │ halted │ … │ steal │ … │ leaving │ user space │ asleep │ entering │
//! ```
//!
//! Each is as long as it was. A recording says how long, not always where: what happened in several pieces is drawn
//! as one, at the place where it usually is.

use exitscope_model::{Exit, ExitPhase, TimePart};

/// A segment of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A step of what it cost.
    Step(ExitPhase),
    /// A part that is no cost.
    Part(TimePart),
}

impl Segment {
    /// All, in order.
    pub const ALL: [Segment; 13] = [
        Segment::Step(ExitPhase::ToHandler),
        Segment::Step(ExitPhase::Handling),
        Segment::Part(TimePart::Polling),
        Segment::Part(TimePart::Halted),
        Segment::Part(TimePart::Undivided),
        Segment::Part(TimePart::Memory),
        Segment::Part(TimePart::Steal),
        Segment::Part(TimePart::Stopped),
        Segment::Part(TimePart::Unknown),
        Segment::Step(ExitPhase::ToUserSpace),
        Segment::Step(ExitPhase::UserSpace),
        Segment::Step(ExitPhase::UserSpaceAsleep),
        Segment::Step(ExitPhase::Reentry),
    ];

    /// What it is called in recordings of Xen, or of KVM.
    pub const fn name_on(self, xen: bool) -> &'static str {
        match self {
            Segment::Step(ExitPhase::ToHandler) => "kernel: to handler",
            Segment::Step(ExitPhase::Handling) => "kernel: handler",
            Segment::Step(ExitPhase::ToUserSpace) => "kernel: to user space",
            Segment::Step(ExitPhase::UserSpace) if xen => "device model",
            Segment::Step(ExitPhase::UserSpace) => "user space",
            Segment::Step(ExitPhase::UserSpaceAsleep) => "user space, asleep",
            Segment::Step(ExitPhase::Reentry) => "kernel: re-entry",
            Segment::Part(part) => part.name(),
        }
    }

    /// Its place among all.
    pub fn place(self) -> usize {
        Segment::ALL.iter().position(|of| *of == self).unwrap_or(0)
    }

    /// Whether it is of what the exit cost.
    pub const fn is_cost(self) -> bool {
        matches!(self, Segment::Step(_))
    }

    /// Whether it is outside the kernel.
    pub const fn is_user(self) -> bool {
        matches!(self, Segment::Step(ExitPhase::UserSpace | ExitPhase::UserSpaceAsleep))
    }
}

/// The segments of an exit of which both ends were seen, and how long each was, in nanoseconds; those of no length are left
/// out. Together they are the exit time.
pub fn segments(exit: &Exit) -> impl Iterator<Item = (Segment, u64)> + use<> {
    let (phases, parts) = (exit.phases, exit.parts);
    let stepped = ExitPhase::ALL.iter().fold(0u64, |sum, of| sum.saturating_add(phases.time(*of).0));
    // What is in no step is handling.
    let unstepped = exit.cost().0.saturating_sub(stepped);
    let length = move |segment| match segment {
        Segment::Step(ExitPhase::Handling) => phases.time(ExitPhase::Handling).0.saturating_add(unstepped),
        Segment::Step(step) => phases.time(step).0,
        Segment::Part(part) => parts.get(part).0,
    };
    Segment::ALL.into_iter().map(move |segment| (segment, length(segment))).filter(|(_, length)| *length > 0)
}
