//! What a replay varies, and what came of all its configurations.

use super::{HaltOutcome, InKernelHandling, PollDecisionCheck, PortLengths, PortOutcome};
use crate::{HaltStats, Halts, RecordedHaltPolling, TypicalAccesses};
use exitscope_policy::{Knob, KnobLocation, KnobMachines, KnobUnit, POLICIES};

/// What the replay can vary besides the policy's knobs.
pub const IN_KERNEL: Knob = Knob {
    name: "in_kernel",
    unit: KnobUnit::Choice(InKernelHandling::WORDS),
    default: 0,
    min: 0,
    max: InKernelHandling::WORDS.len() as u64 - 1,
    location: KnobLocation::Design,
    machines: KnobMachines::All,
    about: "What the kernel handles of the port accesses that left it",
};

/// The knobs of a policy, and what its replay can vary besides.
pub fn knobs_of(policy: &str) -> impl Iterator<Item = &'static Knob> {
    let of_policy = POLICIES.iter().filter(move |row| row.0 == policy).flat_map(|row| row.1);
    of_policy.chain((policy == "port_path").then_some(&IN_KERNEL))
}

/// What came of halts with other settings.
pub struct ReplayedHalts {
    /// Its halts, by vCPU and together.
    pub halts: Halts,
    /// All of them.
    pub all: HaltStats,
    /// How the kernel that was recorded polls.
    pub host: RecordedHaltPolling,
    /// Whether the replay decides as the kernel did.
    pub decisions: PollDecisionCheck,
    /// What came of them as recorded.
    pub recorded: HaltOutcome,
    /// What the settings in force make of them, replayed.
    pub in_force: HaltOutcome,
    /// What each configuration makes of them.
    pub outcomes: Vec<HaltOutcome>,
}

/// What port accesses cost on other ways.
pub struct ReplayedPorts {
    /// Accesses.
    pub accesses: u64,
    /// Those of them that left the kernel.
    pub outside: u64,
    /// String accesses, which no quick path is for.
    pub string: u64,
    /// Those of which the trace does not say whether they are string accesses.
    pub untold: u64,
    /// What accesses typically cost.
    pub typical: TypicalAccesses,
    /// What the settings in force make of them, replayed.
    pub in_force: (PortOutcome, PortLengths),
    /// What each configuration makes of them.
    pub outcomes: Vec<(PortOutcome, PortLengths)>,
}
