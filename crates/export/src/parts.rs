//! The parts of an exit, in the order in which they are drawn.
//!
//! ```text
//! │ reaching │ handling │ idle │ waiting │ leaving │ user space │ asleep │ entering │
//! ```
//!
//! Each part is as long as it was. A recording says how long, not always where: what happened in several pieces is drawn
//! as one, at the place where it usually is.

use exitscope_model::{Exit, Step};

/// A part of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Part {
    /// In the kernel, until the first event of the exit's handler.
    Reaching,
    /// In the kernel's handler.
    Handling,
    /// Halted.
    Idle,
    /// Runnable, but not running.
    Waiting,
    /// On the way from KVM to user space.
    Leaving,
    /// In user space; on Xen, waiting for the device model.
    User,
    /// In user space, asleep.
    Asleep,
    /// In the kernel, from the call of `KVM_RUN` until the entry.
    Entering,
}

impl Part {
    /// All, in order.
    pub const ALL: [Part; 8] = [
        Part::Reaching,
        Part::Handling,
        Part::Idle,
        Part::Waiting,
        Part::Leaving,
        Part::User,
        Part::Asleep,
        Part::Entering,
    ];

    const fn name(self) -> &'static str {
        match self {
            Part::Reaching => "kernel: reaching the handler",
            Part::Handling => "kernel: handling",
            Part::Idle => "idle",
            Part::Waiting => "waiting for a CPU",
            Part::Leaving => "kernel: leaving",
            Part::User => "user space",
            Part::Asleep => "user space, asleep",
            Part::Entering => "kernel: entering",
        }
    }

    /// What it is called in recordings of Xen, or of KVM.
    pub const fn name_on(self, xen: bool) -> &'static str {
        match self {
            Part::User if xen => "device model",
            part => part.name(),
        }
    }

    /// Whether it is part of what the exit cost.
    pub const fn is_cost(self) -> bool {
        !matches!(self, Part::Idle | Part::Waiting)
    }

    /// Whether it is outside the kernel.
    pub const fn is_user(self) -> bool {
        matches!(self, Part::User | Part::Asleep)
    }
}

/// The parts of an exit of which both ends were seen, and how long each was, in nanoseconds; those of no length are left
/// out. Together they are the exit's whole length.
pub fn parts(exit: &Exit) -> impl Iterator<Item = (Part, u64)> + use<> {
    let step = |step| exit.way.time(step).0;
    let stepped = Step::ALL.iter().fold(0u64, |sum, of| sum.saturating_add(step(*of)));
    // What is in no step is handling.
    let handling = step(Step::Handling).saturating_add(exit.cost().0.saturating_sub(stepped));
    let lengths = [
        step(Step::Reaching),
        handling,
        exit.idle.0,
        exit.waiting.0,
        step(Step::Leaving),
        step(Step::User),
        step(Step::Asleep),
        step(Step::Entering),
    ];
    Part::ALL.into_iter().zip(lengths).filter(|(_, length)| *length > 0)
}
