//! Replay: the policies' own state machines run over what was recorded.
//!
//! ```text
//!   first reading:  facts ─► settings that were in force, typical costs
//!   second reading: every recorded halt ─► each configuration's state machine ─► what it would have done
//! ```
//!
//! What a recording cannot say stays unsaid: a guest that is answered sooner also asks again sooner, and a replay takes
//! its gaps as they were. A guest that polled when it was recorded left its guest only for what its polls did not catch: those
//! gaps are missing, and no replay brings them back. The host's polls hide none: they end when something wakes the vCPU.

mod decisions;
mod gang;
mod halt;
mod lateness;
mod port;
mod replayed;
mod spin;
mod spin_survey;

pub use decisions::PollDecisionCheck;
pub use gang::{GangOutcome, GangReplay};
pub use halt::{HaltNumbering, HaltOutcome, HaltPolicy, HaltReplay, RecordedHalt, TypicalWakeup};
pub use lateness::Lateness;
pub use port::{InKernelHandling, PhaseCosts, PortLengths, PortOutcome, PortReplay};
pub use replayed::{IN_KERNEL, ReplayedHalts, ReplayedPorts, knobs_of};
pub use spin::{SpinOutcome, SpinReplay};
pub use spin_survey::{MACHINE, SpinModel, SpinSurvey, TypicalSpin};
