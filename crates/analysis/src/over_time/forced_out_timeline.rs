//! Who forced whom out of the guest, when: POWER7 and POWER8, whose virtual cores leave it together.
//!
//! ```text
//! ForcedOutExit (who was forced out, when, for how long, by whom) ─► BucketSums by (vCPU, cause, reason): forced, time lost
//! ```
//!
//! Kept like what [`Timelines`](super::Timelines) keeps: recordings of a few thousand forced exits have each of them.

use super::bucket_sums::{BucketRow, BucketSums};
use crate::{CoreRunPairing, ForcedOutExit, KeyNumbering, Selection, TraceSink};
use exitscope_model::Event;
use exitscope_units::{Moment, VcpuId, VmId};

/// Rows at most.
const ROWS: usize = 20_000;

/// Triples of vCPU, cause and reason, at most; further ones are counted together.
const TRIPLES: u32 = 1 << 12;

/// Who was forced out, by whom, and for which trap; the last two where one had a reason at all.
pub type Triple = (VmId, VcpuId, Option<(VcpuId, u16)>);

/// Who forced whom out, when.
#[derive(Clone, Debug)]
pub struct ForcedOutTimeline {
    selection: Selection,
    window: (Moment, Moment),
    runs: CoreRunPairing,
    triples: KeyNumbering<Triple>,
    rows: BucketSums<2>,
}

impl ForcedOutTimeline {
    /// Creates an empty table for what is selected.
    pub fn new(selection: &Selection) -> ForcedOutTimeline {
        ForcedOutTimeline {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            runs: CoreRunPairing::default(),
            triples: KeyNumbering::of_at_most(TRIPLES),
            rows: BucketSums::of_at_most(ROWS, 6),
        }
    }

    /// Adds one.
    pub fn add(&mut self, drag: &ForcedOutExit) {
        let mut row = |cause, lost| {
            let triple = self.triples.of((drag.vm, drag.vcpu, cause));
            self.rows.absorb(drag.at.as_nanos(), triple.into(), &[1, lost]);
        };
        let causes = drag.causes.len() as u64;
        match causes {
            0 => row(None, drag.lost.0),
            _ => drag.causes.iter().for_each(|of| row(Some((of.vcpu, of.left.trap)), drag.lost.0 / causes)),
        }
    }

    /// The width of a bucket in nanoseconds, the rows by the numbers of their triples, and the triples by number.
    pub fn finish(self) -> (u64, Vec<BucketRow<2>>, Vec<Triple>) {
        let (width, rows) = self.rows.finish(true, |key| key);
        (width, rows, self.triples.keys().to_vec())
    }
}

impl TraceSink for ForcedOutTimeline {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn runner_events(&mut self, events: &[Event]) {
        let (from, to) = self.window;
        for event in events.iter().filter(|event| from <= event.at && event.at <= to) {
            let Some(drag) = self.runs.forced_out_exit(event) else { continue };
            if self.selection.vms.is_empty() || self.selection.vms.contains(&drag.vm) {
                self.add(&drag);
            }
        }
    }
}
