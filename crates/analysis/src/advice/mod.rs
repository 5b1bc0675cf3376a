//! Advice: what a recording says would win time back, and why.
//!
//! ```text
//! first reading:  exits, halts, events ─► Material ─┐
//! second reading: halts, core runs ─────► Trials ───┴─► rules ─► Judgement
//!                                                        facts, numbered ◄── evidence ── advice, best first
//!                                                        looked at and left alone · not judged, and what to record
//! ```
//!
//! A rule is a plain function of what was measured. It cites the facts that it used: an [`Advice`] cannot be made without
//! any. What the recording does not show is not judged, and said.

mod contention;
mod cures;
mod gangs;
mod judgement;
mod kernels;
#[cfg(test)]
mod made;
mod material;
mod missing;
mod msr_cures;
mod polling;
mod sources;
mod trials;
mod unlisted;

pub use judgement::{
    Advice, Evidence, Fact, FactId, Figure, Gain, GainOf, How, Judgement, LeftAlone, NotJudged, Plan, Setting, Side,
};
pub use kernels::{Reach, halt_poll_reach};
pub use material::{Machine, Material};
pub use trials::Trials;

/// Judges a recording: `material` of its first reading, `trials` of its second.
pub fn judge(material: &Material, trials: &Trials, machine: &Machine) -> Judgement {
    let mut judgement = Judgement::default();
    sources::judge(material, machine, &mut judgement);
    polling::judge(material, trials, machine, &mut judgement);
    gangs::judge(material, trials, &mut judgement);
    contention::judge(material, machine, &mut judgement);
    missing::judge(material, machine, &mut judgement);
    judgement.rank();
    judgement
}
