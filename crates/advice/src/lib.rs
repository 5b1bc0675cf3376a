//! Advice: what a recording says would win time back, and why.
//!
//! ```text
//! first reading:  exits, halts, yields, events ─► AdviceInput ─┐
//! second reading: halts, yields, core runs ─────► Trials ──────┼─► rules ─► Judgement
//! the simulator:  accesses on other ways ───────► Simulate ────┘
//!                                                        facts, numbered ◄── evidence ── advice, best first
//!                                                        looked at and left alone · not judged, and what to record
//!                                                        what weighs: changed by which advice, inherent, not judged
//! ```
//!
//! A recording may be read in parts, as what happens now is: their inputs merge into that of all of it.
//!
//! ```text
//! input, trials, ipis, touched, …: what rules look at ◄─┬─ rules: device_rules and reasons, polling, steal, spinning, gangs, …
//! cures: the tables of devices, MSRs, calls ◄───────────┘      │   (tables import no rule)
//! setting, cause, judgement: what is said of it ◄──────────────┘
//! ```
//!
//! A rule is a plain function of what was measured. It cites the facts that it used: an [`Advice`] cannot be made without
//! any. What the recording does not show is not judged, and said.

mod apic_switches;
mod arm_cures;
mod cause;
mod causes;
mod cure;
mod cures;
mod device_cures;
mod device_rules;
mod faults;
mod gangs;
mod guest_polls;
mod halt_poll_scope;
mod idle_states;
mod input;
mod ipis;
mod judgement;
mod known;
mod msr_cures;
mod not_judged;
mod page_facts;
mod passed_msrs;
mod poll_predictions;
mod poll_trade;
mod polling;
mod polling_guests;
mod reasons;
mod setting;
#[cfg(test)]
mod setting_syntax;
mod simulated_gain;
mod sinks;
mod spinning;
mod steal;
mod subject_stats;
#[cfg(test)]
pub(crate) mod test_exits;
mod touched;
mod trials;
mod unknown_devices;
mod vmm_settings;
mod xen_waits;

pub use cause::{CauseRow, CauseSubject, CauseVerdict, GoesInto};
pub use causes::{Attribution, NO_RULE, attribution, unjudged_causes};
pub use halt_poll_scope::{HaltPollScope, halt_poll_reach};
pub use input::{AdviceInput, RecordedHost, Vmm};
pub use judgement::{
    AcceptedCost, Advice, AdviceDraft, CitedFact, CitedFactId, CitedValue, Evidence, Gain, GainMethod, GainOf,
    Judgement, NotJudged, Rule, Topic,
};
pub use known::{KnownAnswer, KnownCause, known_causes};
pub use page_facts::{KeepLimits, MAX_KEPT_LIVE, MAX_KEPT_RECORDING, PageFacts};
pub use poll_predictions::{PollPrediction, PollPredictions, PredictedFigure};
pub use setting::{AdviceSetting, SettingCondition, SettingSide};
pub use simulated_gain::{InKernelPath, Simulate};
pub use trials::{SkippedTrials, Trials, TriedLimits};

/// Judges a recording: `input` of its first reading, `trials` of its second, and what the
/// simulator says, which is asked only where a rule has nothing else to compare with.
pub fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, simulate: &Simulate<'_>) -> Judgement {
    let mut judgement = look(input, input, trials, host, simulate);
    judgement.rank();
    causes::list(input, input, host, &mut judgement);
    judgement
}

/// The same of some of a recording's vCPUs: rules look at `whole`, as a neighbour may be what a VM waits for, and who pays for a
/// change; what is said is of `selected`.
pub fn judge_selected(
    whole: &AdviceInput,
    selected: &AdviceInput,
    trials: &Trials,
    host: &RecordedHost,
    simulate: &Simulate<'_>,
) -> Judgement {
    let mut judgement = look(whole, selected, trials, host, simulate);
    judgement.retain_of(|vm| selected.vms.contains_key(&vm));
    judgement.rank();
    causes::list(whole, selected, host, &mut judgement);
    judgement
}

/// Has all rules look at a recording, and says what of `selected` could not be judged.
fn look(
    whole: &AdviceInput,
    selected: &AdviceInput,
    trials: &Trials,
    host: &RecordedHost,
    simulate: &Simulate<'_>,
) -> Judgement {
    let mut judgement = Judgement::default();
    device_rules::judge(whole, host, simulate, &mut judgement);
    polling::judge(whole, trials, host, &mut judgement);
    poll_trade::judge(whole, host, &mut judgement);
    guest_polls::judge(whole, &mut judgement);
    idle_states::judge(whole, host, &mut judgement);
    gangs::judge(whole, trials, host, &mut judgement);
    steal::judge(whole, host, &mut judgement);
    spinning::judge(whole, trials, host, &mut judgement);
    not_judged::judge(selected, trials, host, &mut judgement);
    device_rules::judge_halts(whole, host, not_judged::of_halts(&judgement), simulate, &mut judgement);
    judgement
}
