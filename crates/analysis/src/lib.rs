//! Exit rows in, facts out.
//!
//! ```text
//! Exit rows ─► Facts.absorb ─┐
//! Exit rows ─► Facts.absorb ─┴─► merge ─► tables, shares, percentiles ─► view
//! Exit rows ─► Timelines.absorb ─► merge ─► sums by bucket of time ─► page
//! ```
//!
//! A fact starts empty, absorbs rows and merges with its like. All inner numbers are integers, so that a result does
//! not depend on the order or the number of pieces.
//!
//! Does not know: formats, drawing.

mod accesses;
mod change_limit;
mod clock_check;
mod condition;
mod counts_diff;
mod cpu_holders;
mod diff;
mod diff_verdict;
mod duration_stats;
mod exit_bound;
mod exit_kinds;
mod exit_stats;
mod exit_tables_diff;
mod facts;
pub mod fleet;
mod gangs;
mod group;
mod halts;
mod idle_polls;
mod interrupts;
mod key_numbering;
pub mod over_time;
mod phase_stats;
mod poll_settings;
pub mod record_commands;
pub mod replay;
mod run_states;
mod selection;
mod slowest;
mod stats_by_key;
mod steal_takers;
mod sums_by_time;
#[cfg(test)]
mod test_exits;
mod threshold;
mod timeline;
mod trace_sink;
mod units;
mod vcpu_time;
mod verdict;
mod yields;

pub use accesses::{AccessKey, AccessStats, Accesses, SIZES, TypicalAccesses};
pub use change_limit::{ChangeLimit, ChangeLimitError, FEWEST_RECORDINGS};
pub use clock_check::ClockCheck;
pub use condition::{Condition, ConditionError, ExitFilter, Length, Limit, TextKey, TextWord, Texts, Than};
pub use counts_diff::{CountedChange, CountedSide, CountsNotCompared, compare_counts};
pub use cpu_holders::CpuHolders;
pub use diff::{ChangeVerdict, Diff, DiffBlock, DiffMeasure, DiffRow, MeasureChange};
pub use diff_verdict::{ComparedSide, DiffState, DiffVerdict, NotCompared};
pub use duration_stats::DurationStats;
pub use exit_bound::{ExitBound, HiddenOfExit, PUBLISHED_HIDDEN};
pub use exit_kinds::ExitSlots;
pub use exit_stats::ExitStats;
pub use exit_tables_diff::{ExitTablePair, pair_exit_tables};
pub use facts::{ExitCause, Facts, FactsOptions, SubjectKey};
pub use gangs::{
    CoreRunPairing, ForcedOutExit, ForcingExits, GangFacts, GangMember, GangScript, GangStats, VcoreGangs,
};
pub use group::{Dimension, DimensionValue, ExitGroups};
pub use halts::{GAP_BOUNDS, GapBucket, HaltEndStats, HaltStats, Halts, LONG_SLEEP, SHORT_SLEEP, are_known};
pub use idle_polls::{CpuIdlePolls, IdlePolls};
pub use interrupts::{ApicExitKind, ApicExits, ApicvState, InhibitStats, InterruptFacts, VmApicv};
pub use key_numbering::KeyNumbering;
pub use phase_stats::{PhaseKey, PhaseStats, PhasesByReason};
pub use poll_settings::{ObservedValue, PollSettings, RecordedHaltPolling};
pub use run_states::{RunStates, StateTimes, StayStats};
pub use selection::{MomentSpec, Selection};
pub use slowest::Slowest;
pub use stats_by_key::{MAX_KEYS, StatsByKey, Tally};
pub use steal_takers::{StealTaker, TakerKind};
pub use sums_by_time::SumsByTime;
pub use threshold::{Breach, LimitCheck, Threshold, ThresholdError, Unjudged};
pub use timeline::{Bucket, Timeline, wider};
pub use trace_sink::TraceSink;
pub use units::{DiffUnit, RecordedWhen, UnitChange, UnitOrder, UnitOrderKind};
pub use vcpu_time::{VcpuTime, is_part};
pub use verdict::{Verdict, VerdictInput, VerdictState};
pub use yields::{DEPTHS, PleCell, PreemptionStats, RunQueueStats, TargetCell, YieldFacts, YieldStats};
