//! Exit rows in, facts out.
//!
//! ```text
//! Exit rows ─► Facts.absorb ─┐
//! Exit rows ─► Facts.absorb ─┴─► merge ─► tables, shares, percentiles ─► view
//! Exit rows ─► OverTime.absorb ─► merge ─► sums by bucket of time ─► page
//! ```
//!
//! A fact starts empty, absorbs rows and merges with its like. All inner numbers are integers, so that a result does
//! not depend on the order or the number of pieces.
//!
//! Does not know: formats, drawing.

mod accesses;
pub mod advice;
mod cell;
mod change_limit;
mod clock_check;
mod condition;
mod cpu_holders;
mod diff;
mod diff_verdict;
mod division;
mod facts;
pub mod fleet;
mod gangs;
mod group;
mod halts;
mod index;
mod keyed;
mod kinds;
mod lengths;
pub mod over_time;
mod page_facts;
mod poll_settings;
pub mod recording;
pub mod replay;
mod run_states;
mod select;
mod slowest;
mod threshold;
mod timeline;
mod trace_sink;
mod verdict;
mod ways;
mod yields;

pub use accesses::{AccessCell, AccessKey, Accesses, TypicalAccesses};
pub use cell::Cell;
pub use change_limit::{ChangeLimit, ChangeLimitError};
pub use clock_check::ClockCheck;
pub use condition::{Condition, ConditionError, ExitFilter, Length, Limit, TextKey, TextWord, Texts, Than};
pub use cpu_holders::CpuHolders;
pub use diff::{Block, Change, ChangeVerdict, Diff, DiffRow, Measure};
pub use diff_verdict::{DiffState, DiffVerdict, NotCompared};
pub use division::Division;
pub use facts::{DetailKey, ExitCause, Facts, Wanted};
pub use gangs::{Cause, Drag, GangCell, Gangs, Member, Runs, VcoreGangs};
pub use group::{Dim, Group, Part};
pub use halts::{GAP_BOUNDS, GapBucket, HaltCell, Halts, LONG_SLEEP, SHORT_SLEEP, Waits};
pub use index::Index;
pub use keyed::{Keyed, MAX_KEYS, Tally};
pub use kinds::Counted;
pub use lengths::Lengths;
pub use page_facts::{KeepLimits, MAX_KEPT_LIVE, MAX_KEPT_RECORDING, PageFacts};
pub use poll_settings::{PollHost, PollSettings, Seen};
pub use run_states::{RunStates, StateTimes, Times};
pub use select::{Selection, When};
pub use slowest::Slowest;
pub use threshold::{Breach, LimitCheck, Threshold, ThresholdError, Unjudged};
pub use timeline::{Bucket, Timeline, wider};
pub use trace_sink::TraceSink;
pub use verdict::{Verdict, VerdictInput, VerdictState};
pub use ways::{WayCell, WayKey, Ways};
pub use yields::{DEPTHS, PleCell, PreemptedCell, Queue, TargetCell, YieldCell, Yields};
