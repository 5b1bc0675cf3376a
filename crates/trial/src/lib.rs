//! A trial: the host takes turns between the setting in force and others, and what was measured in the turns is compared.
//!
//! ```text
//! settings ─► TrialPlan: turns in blocks, each block in random order and its mirror image
//!                 │
//!             TrialTurn ─► run_turns ─► TurnHost: sets, settles, measures
//!                              │ values of a turn
//!                              ▼
//!                          HostTrial ─► a difference per block ─► stats::ConfidenceSequence ─► TrialVerdict
//!                     └─► AbortLimit: a value that ends the trial at once
//! ```
//!
//! *Why blocks of turns and their mirror image.* What drifts in a straight line over a block (`A B B A`) hits both settings
//! alike, and cancels. What does not cancel is as likely to favour the one as the other, because which setting is `A` is drawn
//! for each block: without an effect, the sign of a block's difference is a coin's throw. So noise that depends on what was
//! before, steps and outliers widen an interval; they do not move it.
//!
//! *Why relative differences.* A block's difference is that of the settings' sums a and b in parts of their mean,
//! 2 (b - a) / (a + b): the change in parts of the midpoint (L. Törnqvist, P. Vartia and Y. Vartia, "How should relative changes
//! be measured?", The American Statistician 39, 1985, compare it with others). For small changes it is the logarithm of b/a. It
//! changes its sign when the settings change places, which a change in parts of a does not; it is there for values of 0,
//! which a logarithm is not; and a ratio of 1.05 is the same difference at night and at noon. No value can be negative, and
//! none decides later which scale all others are on. Intervals are turned into per cent of the value in force at the end.
//!
//! *Several settings* are each compared with the one in force; each has its part of the chance of a false alarm (C. E.
//! Bonferroni, 1936). Settings that are both better are not compared with each other.
//!
//! *Delays of exits* ([`HostTrial::of_delays`]) are not compared one by one: the metric has one slope over them, with the whole
//! chance of a false alarm. See the header of `sensitivity.rs`.
//!
//! *Limits.* The settling time must be longer than the effect of the setting before: what remains of it makes an effect look
//! smaller. The interval is of the mean over the blocks; an effect that comes and goes has no other. The scale of differences
//! ends at 2, so that noise as large as the metric itself makes an estimate smaller too. How exact the chance of a false alarm
//! is where noise is not normal: see the header of `sequence.rs` in the crate `stats`.
//!
//! Does not know: how a setting is set, how a metric is measured, what time it is. The seed of the order is an argument.

mod abort;
mod could_find;
mod metric;
mod plan;
mod prediction;
mod sensitivity;
mod trial;
mod turns;
mod verdict;

pub use abort::{AbortLimit, AbortLimitError};
pub use could_find::{CouldFind, CouldFindList};
pub use metric::{Better, MetricUnit, TrialMetric};
pub use plan::{MAX_SETTINGS, TrialLengths, TrialPlan, TrialPlanError, TrialTurn};
pub use prediction::{Prediction, PredictionOutcome};
pub use sensitivity::{SlopeFinding, SlopeRuling};
pub use trial::{BlockChange, HostTrial, TrialRules, TurnValuesError};
pub use turns::{TurnError, TurnHost, run_turns};
pub use verdict::{MetricEffect, RelativeChange, SettingVerdict, TrialEnd, TrialRuling, TrialVerdict, bounds_of_mean};
