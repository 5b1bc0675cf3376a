//! Advice: what a recording says would win time back, and why.
//!
//! ```text
//! first reading:  exits, halts, yields, events ─► Material ──┐
//! second reading: halts, yields, core runs ─────► Trials ────┼─► rules ─► Judgement
//! the simulator:  accesses on other ways ───────► Simulated ─┘
//!                                                        facts, numbered ◄── evidence ── advice, best first
//!                                                        looked at and left alone · not judged, and what to record
//!                                                        what weighs: changed by which advice, inherent, not judged
//! ```
//!
//! A recording may be read in stretches, as what happens now is: their materials merge into that of all of it.
//!
//! A rule is a plain function of what was measured. It cites the facts that it used: an [`Advice`] cannot be made without
//! any. What the recording does not show is not judged, and said.

mod about;
mod arm_cures;
mod causes;
mod contention;
mod cures;
mod gangs;
mod guest_polls;
mod idle_states;
mod ipis;
mod judgement;
mod kernels;
mod known;
#[cfg(test)]
pub(crate) mod made;
mod material;
mod missing;
mod msr_cures;
mod polling;
mod polling_guests;
mod reasons;
mod simulated;
mod sources;
#[cfg(test)]
mod spelling;
mod spinning;
mod touched;
mod trials;
mod unlisted;
mod xen_waits;

pub use causes::{CauseRow, CauseVerdict, GoesInto, NO_RULE, Subject, ToldApart, told_apart, unjudged_causes};
pub use judgement::{
    Advice, Evidence, Fact, FactId, Figure, Gain, GainOf, How, Judgement, LeftAlone, NotJudged, Plan, Rule, Setting,
    Side, Topic,
};
pub use kernels::{Reach, halt_poll_reach};
pub use known::{KnownAnswer, KnownCause, known_causes};
pub use material::{Machine, Material, Vmm};
pub use simulated::{Simulate, Way};
pub use trials::{Trials, TriedLimits, Untried};

/// Judges a recording: `material` of its first reading, `trials` of its second, and what the
/// simulator says, which is asked only where a rule has nothing else to compare with.
pub fn judge(material: &Material, trials: &Trials, machine: &Machine, simulate: &Simulate<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    sources::judge(material, machine, simulate, &mut judgement);
    polling::judge(material, trials, machine, &mut judgement);
    guest_polls::judge(material, &mut judgement);
    idle_states::judge(material, machine, &mut judgement);
    gangs::judge(material, trials, machine, &mut judgement);
    contention::judge(material, machine, &mut judgement);
    spinning::judge(material, trials, machine, &mut judgement);
    missing::judge(material, trials, machine, &mut judgement);
    sources::judge_halts(material, machine, missing::of_halts(&judgement), simulate, &mut judgement);
    judgement.rank();
    causes::list(material, machine, &mut judgement);
    judgement
}
