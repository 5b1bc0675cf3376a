//! What a page is gathered from, in one reading of a trace.
//!
//! ```text
//! reading ─┬─► PageFacts: advice, polls
//!          └─► Timelines (their thread), ForcedOutTimeline
//! ```

use crate::{ReadTrace, TimelineJoin, TimelineThread};
use exitscope_advice::{MAX_KEPT_RECORDING, PageFacts};
use exitscope_analysis::Selection;
use exitscope_analysis::over_time::{ForcedOutTimeline, Numbered, Timelines};

/// A trace while it is read.
pub type Gathering = (PageFacts, (ForcedOutTimeline, Numbered<TimelineThread>));

/// All of one trace, or of several.
pub struct Gathered {
    /// What reports, advice and replays of polling are made of.
    pub facts: PageFacts,
    /// Who forced whom out, when; of the first trace.
    pub forced_out: ForcedOutTimeline,
    /// What happened when.
    pub over_time: TimelineJoin,
}

impl Gathered {
    /// Begins to read a trace for what is selected of it, with so many of the slowest exits.
    pub fn begin(selection: &Selection, slowest: usize) -> Gathering {
        let over_time = TimelineThread::start(Timelines::new(selection));
        (PageFacts::by_reason(selection, slowest, MAX_KEPT_RECORDING), (ForcedOutTimeline::new(selection), over_time))
    }

    /// All of a trace that has been read.
    pub fn end((mut facts, (forced_out, over_time)): Gathering, trace: &ReadTrace) -> Gathered {
        facts.end(trace.span, &trace.held, &trace.vcpu_of);
        let over_time = TimelineThread::end(over_time, trace.lanes.clone(), trace.vcpu_of.clone());
        Gathered { facts, forced_out, over_time }
    }

    /// With another recording. There is no common time then, nor advice.
    pub fn with_recording(self, other: Gathered) -> Gathered {
        let over_time = self.over_time.merge(other.over_time);
        Gathered { facts: self.facts.with_recording(other.facts), forced_out: self.forced_out, over_time }
    }
}
