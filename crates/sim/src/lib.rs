//! A deterministic discrete-event machine: runs a scenario and measures it.
//!
//! ```text
//!  Scenario ─► SimWorld ─► queue: what comes next ─► guest: programs, idle loops, locks
//!                           ▲                         │ exit
//!                           │                         ▼
//!                           └── plans ◄── exits: phases and effects ◄─► scheduler, devices, yields
//!                                             │
//!                                             └─► SimOutcome, and Events for whoever observes
//! ```
//!
//! What the mechanisms decide is decided by the `policy` crate; what steps cost is in the scenario's cost model. The
//! same scenario and seed give the same outcome, bit for bit.

mod cpu_set;
mod devices;
mod entities;
mod exit_costs;
mod exits;
mod flat_program;
mod gang;
mod guest;
mod latin_hypercube;
mod locks;
mod outcome;
mod queue;
mod random;
mod run;
mod trace_events;
mod world;

pub use latin_hypercube::latin_hypercube;
pub use outcome::possible_metrics;
pub use queue::{EventHandle, EventQueue};
pub use trace_events::{Observer, Unseen, event_names, processes};

use exitscope_scenario::Scenario;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_units::Nanos;
use std::time::Instant;

/// How much a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events of the machine.
    pub events: u64,
    /// Messages that wait in one channel.
    pub messages: usize,
    /// When to give up, looked at every 65,536 events.
    pub deadline: Option<Instant>,
    /// Whether to give up now, asked as often.
    pub stop: fn() -> bool,
}

impl Default for Limits {
    /// Ten billion events: hours. A million messages. No deadline, and nobody who stops it.
    fn default() -> Limits {
        Limits { events: 10_000_000_000, messages: 1_000_000, deadline: None, stop: || false }
    }
}

/// Why a run did not reach its end. Times are picoseconds of simulated time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// More threads of a core may be busy than there are speeds for.
    #[error("{busy} threads of a core may be busy, but smt_speed has speeds for {speeds}")]
    TooFewSpeeds {
        /// How many may be busy.
        busy: u32,
        /// For how many there is a speed.
        speeds: usize,
    },
    /// Everybody waits for somebody else.
    #[error("deadlock at {}: {who}", Nanos(at / 1_000))]
    Deadlock {
        /// When, in picoseconds.
        at: u64,
        /// Who waits for what or whom.
        who: String,
    },
    /// A program loops without taking time.
    #[error("{who}: the program loops at {} without taking time; add a `compute` step", Nanos(at / 1_000))]
    NoProgress {
        /// The thread whose program it is.
        who: String,
        /// When, in picoseconds.
        at: u64,
    },
    /// Too many events at one moment.
    #[error("no time passes at {}: a loop of steps without cost; give one of them a cost", Nanos(at / 1_000))]
    StandsStill {
        /// When, in picoseconds.
        at: u64,
    },
    /// A program ends holding a lock.
    #[error("{who}: the program ends at {} holding a lock", Nanos(at / 1_000))]
    EndsWithLock {
        /// The thread whose program it is.
        who: String,
        /// When, in picoseconds.
        at: u64,
    },
    /// A program gives back what it does not have.
    #[error("{who} gives back a lock at {} that it does not have", Nanos(at / 1_000))]
    NotItsLock {
        /// The thread whose program it is.
        who: String,
        /// When, in picoseconds.
        at: u64,
    },
    /// Messages come faster than they are taken, or nobody takes them.
    #[error("{waiting} messages wait in channel {channel:?} at {}: {why}", Nanos(at / 1_000))]
    Flooded {
        /// The channel's name.
        channel: String,
        /// Messages that wait.
        waiting: usize,
        /// Whether nobody receives, or too slowly.
        why: &'static str,
        /// When, in picoseconds.
        at: u64,
    },
    /// More events than allowed.
    #[error("stopped after {events} events at {} of simulated time: the limit", Nanos(at / 1_000))]
    TooManyEvents {
        /// The limit.
        events: u64,
        /// When, in picoseconds.
        at: u64,
    },
    /// Whoever was asked whether to go on said no.
    #[error("stopped after {events} events at {} of simulated time", Nanos(at / 1_000))]
    Stopped {
        /// How far it came.
        events: u64,
        /// When, in picoseconds.
        at: u64,
    },
    /// The deadline has passed.
    #[error("stopped after {events} events at {} of simulated time: the time for it is over", Nanos(at / 1_000))]
    TooLong {
        /// How far it came.
        events: u64,
        /// When, in picoseconds.
        at: u64,
    },
}

/// Runs a scenario. The observer is given back with what it saw.
pub fn run<O: Observer>(scenario: &Scenario, observer: O, limits: Limits) -> Result<(SimOutcome, O), SimError> {
    let (busy, speeds) = (scenario.busy_threads(), scenario.host.smt_speed.len());
    if busy as usize > speeds {
        return Err(SimError::TooFewSpeeds { busy, speeds });
    }
    world::SimWorld::new(scenario, observer, limits).run_to_end()
}
