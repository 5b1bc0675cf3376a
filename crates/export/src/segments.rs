//! The segments of an exit, in the order in which they are drawn: its parts, of which kernel and user space are divided by steps.
//!
//! ```text
//! │ reaching │ handling │ polling │ halted │ … │ steal │ … │ leaving │ user space │ asleep │ entering │
//! ```
//!
//! Each is as long as it was. A recording says how long, not always where: what happened in several pieces is drawn
//! as one, at the place where it usually is.

use exitscope_model::{Exit, Step, TimePart};

/// A segment of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A step of what it cost.
    Step(Step),
    /// A part that is no cost.
    Part(TimePart),
}

impl Segment {
    /// All, in order.
    pub const ALL: [Segment; 13] = [
        Segment::Step(Step::Reaching),
        Segment::Step(Step::Handling),
        Segment::Part(TimePart::Polling),
        Segment::Part(TimePart::Halted),
        Segment::Part(TimePart::Undivided),
        Segment::Part(TimePart::Memory),
        Segment::Part(TimePart::Steal),
        Segment::Part(TimePart::Stopped),
        Segment::Part(TimePart::Unknown),
        Segment::Step(Step::Leaving),
        Segment::Step(Step::User),
        Segment::Step(Step::Asleep),
        Segment::Step(Step::Entering),
    ];

    /// What it is called in recordings of Xen, or of KVM.
    pub const fn name_on(self, xen: bool) -> &'static str {
        match self {
            Segment::Step(Step::Reaching) => "kernel: to handler",
            Segment::Step(Step::Handling) => "kernel: handler",
            Segment::Step(Step::Leaving) => "kernel: to user space",
            Segment::Step(Step::User) if xen => "device model",
            Segment::Step(Step::User) => "user space",
            Segment::Step(Step::Asleep) => "user space, asleep",
            Segment::Step(Step::Entering) => "kernel: re-entry",
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
        matches!(self, Segment::Step(Step::User | Step::Asleep))
    }
}

/// The segments of an exit of which both ends were seen, and how long each was, in nanoseconds; those of no length are left
/// out. Together they are the exit time.
pub fn segments(exit: &Exit) -> impl Iterator<Item = (Segment, u64)> + use<> {
    let (way, parts) = (exit.way, exit.parts);
    let stepped = Step::ALL.iter().fold(0u64, |sum, of| sum.saturating_add(way.time(*of).0));
    // What is in no step is handling.
    let unstepped = exit.cost().0.saturating_sub(stepped);
    let length = move |segment| match segment {
        Segment::Step(Step::Handling) => way.time(Step::Handling).0.saturating_add(unstepped),
        Segment::Step(step) => way.time(step).0,
        Segment::Part(part) => parts.get(part).0,
    };
    Segment::ALL.into_iter().map(move |segment| (segment, length(segment))).filter(|(_, length)| *length > 0)
}
