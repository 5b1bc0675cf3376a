//! What happened when: the sums that pictures over time are drawn from, bounded in size whatever the length of the recording.
//!
//! ```text
//! Exit, CpuInterval ─► Numbered: TimelineKeys ─┬─► TimelineBatch ─► ExitTimeline   by bucket of time: states, exits, lengths
//!                                              └─► the slowest exits of every part of the recording
//! ForcedOutExit ─► ForcedOutTimeline                                               by bucket of time, vCPU, cause and reason
//! ```
//!
//! What takes [`TimelineBatch`] may be on another thread: what goes from one to the other is small.

mod bucket_sums;
pub mod columns;
mod cpu_waits;
mod exit_timeline;
mod forced_out_timeline;
mod single_exits;
mod slowest_by_interval;
mod timeline_keys;
mod vcpu_timeline;

pub use bucket_sums::{BucketRow, BucketSums};
pub use cpu_waits::CpuWait;
pub use exit_timeline::{BELOW_CAUSE, ExitTimeline, lane_of, number_of, place};
pub use forced_out_timeline::{ForcedOutKey, ForcedOutTimeline};
pub use single_exits::{CPU_WAITS, Chunk, OF_CHUNK, SingleExits, THREADS};
pub use slowest_by_interval::SlowestByInterval;
pub use timeline_keys::{CAUSES, ExitSample, REASONS, TimelineBatch, TimelineKeys};
pub use vcpu_timeline::VcpuTimeline;

use crate::{ExitSlots, Selection, TraceSink};
use exitscope_model::{BesideRow, Exit, LaneSpan};
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use timeline_keys::numbered;

/// What takes exits, stretches and waits in brief.
pub trait TimelineSink {
    /// How many of them are to wait for each other.
    const AT_ONCE: usize = 1;

    /// Says what is looked at.
    fn begin(&mut self, _window: (Moment, Moment)) {}
    /// Takes all of them out.
    fn take(&mut self, batch: &mut TimelineBatch);
    /// Whether what is still to come would make no difference.
    fn is_full(&self) -> bool {
        false
    }
}

/// Numbers whose exits a trace has, and from what cause, and passes them on in brief.
#[derive(Clone, Debug)]
pub struct Numbered<S> {
    /// What has which number.
    pub names: TimelineKeys,
    /// What waits to be passed on.
    batch: TimelineBatch,
    /// What takes them.
    pub to: S,
}

/// The sums over time of a trace.
pub type Timelines = Numbered<ExitTimeline>;

impl<S: TimelineSink> Numbered<S> {
    /// Goes on with these numbers.
    pub fn passing_to(names: TimelineKeys, to: S) -> Numbered<S> {
        Numbered { names, batch: TimelineBatch::with_capacity(S::AT_ONCE), to }
    }

    /// Passes on what waits.
    pub fn pass_on(&mut self) {
        self.to.take(&mut self.batch);
    }

    #[inline(always)]
    fn pass_on_if_enough(&mut self) {
        if self.batch.len() >= S::AT_ONCE {
            self.pass_on();
        }
    }
}

impl<S: TimelineSink> TraceSink for Numbered<S> {
    fn begin(&mut self, first: Moment) {
        let window = self.names.begin(first);
        self.to.begin(window);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.names.absorb(exit, &mut self.batch);
        self.pass_on_if_enough();
    }

    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, counted: ExitSlots) {
        self.names.absorb_counted(exit, counted, &mut self.batch);
        self.pass_on_if_enough();
    }

    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::CpuInterval(interval) => self.names.absorb_cpu_interval(interval, &mut self.batch),
            BesideRow::Yield(of) => self.names.absorb_yield(of),
            BesideRow::Preemption(of) => self.names.absorb_preemption(of, &mut self.batch),
            BesideRow::WakeUp(of) => self.names.absorb_wake_up(of, &mut self.batch),
            // No chart over time is of them; those of powerpc's runners have sums of their own.
            BesideRow::Halt(_)
            | BesideRow::StealPiece(_)
            | BesideRow::PleUpdate(_)
            | BesideRow::KvmActivity(_)
            | BesideRow::ApicvChange(_)
            | BesideRow::Idle(_)
            | BesideRow::QueueStay(_)
            | BesideRow::SchedulerEvent(_)
            | BesideRow::RunnerEvent(_) => return,
        }
        self.pass_on_if_enough();
    }

    fn is_full(&self) -> bool {
        self.to.is_full()
    }
}

impl Timelines {
    /// Creates an empty table for what is selected.
    pub fn new(selection: &Selection) -> Timelines {
        Timelines::of_part(selection, 1)
    }

    /// Nothing yet; for one of so many parts that will be merged into one [`Timelines`].
    pub fn of_part(selection: &Selection, parts: usize) -> Timelines {
        Numbered::passing_to(TimelineKeys::new(selection), ExitTimeline::of_part(parts))
    }

    /// Ends one recording: the spans of its vCPUs, and which thread runs which vCPU.
    pub fn end(&mut self, lanes: &[LaneSpan], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        self.names.end(lanes, vcpu_of);
    }

    /// Adds another recording, ended. There is no common time then.
    pub fn merge(&mut self, other: Timelines) {
        let Timelines { names, to: sums, .. } = self;
        let lane: Vec<u32> = other.names.lanes.keys().iter().map(|who| names.lanes.of(*who)).collect();
        let TimelineKeys { causes, reasons, .. } = &mut *names;
        let reason: Vec<u32> = other.names.reasons.keys().iter().map(|code| reasons.of(*code)).collect();
        let cause: Vec<u32> = other.names.causes.keys().iter().map(|cause| numbered(causes, reasons, *cause)).collect();
        let lanes = names.lanes.other();
        let lane = |number: u32| lane.get(number as usize).copied().unwrap_or(lanes);
        let reason = |number: usize| reason.get(number).copied().unwrap_or(REASONS);
        let moved = |key: u64| {
            let of = number_of(key);
            let of = cause.get(of).copied().unwrap_or_else(|| CAUSES + reason(of.wrapping_sub(CAUSES as usize)));
            place(lane(lane_of(key)), of, key)
        };
        let by_reason = |key: u64| place(lane(lane_of(key)), reason(number_of(key)), key);
        // Single exits are of one recording.
        let ExitTimeline { window: _, states, exits, waits, lengths, singles: _ } = other.to;
        sums.states.merge(states.renumbered(lane));
        sums.exits.merge(exits.rekeyed(moved));
        sums.waits.merge(waits.rekeyed(moved));
        sums.lengths.merge(lengths.rekeyed(by_reason));
        sums.singles = SingleExits::none();
        names.slow.merge(other.names.slow);
        names.spans.extend(other.names.spans);
        names.vcpu_of.extend(other.names.vcpu_of);
        for (key, count) in other.names.named {
            *names.named.entry(key).or_default() += count;
        }
    }

    /// Forgets what was before this moment, to the bucket of time.
    pub fn forget(&mut self, before: Moment) {
        self.to.forget(before.as_nanos());
        self.names.slow.forget(before.as_nanos());
    }
}
