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
//! evidence: what rules look at ◄─┬─ rules: each decides once ◄── its wording: the text of each decision
//! cures: tables; no rule in them ◄┤
//! setting, cause, judgement ◄─────┘
//! ```
//!
//! What others counted, without events, has rules of its own, as little in it says how long anything took: [`judge_counts`] of
//! yields, [`judge_exit_table`] of exits.
//!
//! A rule is a plain function of what was measured. It cites the facts that it used: an [`Advice`] cannot be made without
//! any. What the recording does not show is not judged, and said.

mod cause;
mod causes;
mod cures;
mod evidence;
mod judgement;
mod known;
mod page_facts;
mod poll_predictions;
mod rules;
mod setting;
#[cfg(test)]
mod setting_syntax;
mod sinks;
#[cfg(test)]
pub(crate) mod test_exits;

use rules::RuleInput;

pub use cause::{CauseRow, CauseSubject, CauseVerdict, GoesInto};
pub use causes::{Attribution, NO_RULE, NOTEWORTHY_OF_TIME, UNANSWERED, attribution, unjudged_causes};
pub use cures::halt_poll_scope::{HaltPollScope, halt_poll_reach};
pub use evidence::input::{AdviceInput, RecordedHost, Vmm};
pub use evidence::trials::{SkippedTrials, Trials, TriedLimits};
pub use judgement::{
    AcceptedCost, Advice, AdviceDraft, CitedFact, CitedFactId, CitedValue, Evidence, Gain, GainMethod, GainOf,
    Judgement, NotJudged, Rule, Topic,
};
pub use known::{CountedCause, KnownAnswer, KnownCause, UnjudgedCause, known_and_unjudged, known_causes};
pub use page_facts::{KeepLimits, MAX_KEPT_LIVE, MAX_KEPT_RECORDING, PageFacts};
pub use poll_predictions::{PollPrediction, PollPredictions, PredictedFigure};
pub use rules::counted_exits::{
    CostliestReason, CountedUserExits, ExitTableJudgement, NextRecording, UnknownReasons, judge_exit_table,
};
pub use rules::counted_yields::{CountedAdvice, CountedFact, CountedRule, CountsJudgement, judge_counts};
pub use rules::guest_checks::{GUEST_CHECKS, GuestCheck};
pub use rules::simulated_gain::{InKernelPath, Simulate};
pub use rules::{RuleSummary, advised_rules, rule_list};
pub use setting::{AdviceSetting, SettingCondition, SettingSide};

/// Judges a recording: `input` of its first reading, `trials` of its second, and what the
/// simulator says, which is asked only where a rule has nothing else to compare with.
pub fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, simulate: &Simulate<'_>) -> Judgement {
    let mut judgement = rules::judge(&RuleInput { whole: input, selected: input, trials, host, simulate });
    judgement.rank();
    judgement.word(&host.how(&input.facts), host);
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
    let mut judgement = rules::judge(&RuleInput { whole, selected, trials, host, simulate });
    judgement.retain_of(|vm| selected.vms.contains_key(&vm));
    judgement.rank();
    judgement.word(&host.how(&selected.facts), host);
    causes::list(whole, selected, host, &mut judgement);
    judgement
}
