//! Who forced whom out of the guest, when: POWER7 and POWER8, whose virtual cores leave it together.
//!
//! ```text
//! ForcedOutExit (who was forced out, when, for how long, by whom) ─► BucketSums by (vCPU, cause, reason): forced, time lost
//! ```
//!
//! Kept like what [`Timelines`](super::Timelines) keeps: recordings of a few thousand forced exits have each of them.

use super::bucket_sums::{BucketRow, BucketSums};
use crate::{CoreRunPairing, ForcedOutExit, KeyNumbering, Selection, TraceSink};
use exitscope_model::{BesideRow, Exit};
use exitscope_units::{Moment, VcpuId, VmId};

/// Rows at most.
const ROWS: usize = 20_000;

/// Triples of vCPU, cause and reason, at most; further ones are counted together.
const TRIPLES: u32 = 1 << 12;

/// Who was forced out, by whom, and for which trap; the last two where one had a reason at all.
pub type ForcedOutKey = (VmId, VcpuId, Option<(VcpuId, u16)>);

/// Who forced whom out, when.
#[derive(Clone, Debug)]
pub struct ForcedOutTimeline {
    selection: Selection,
    window: (Moment, Moment),
    runs: CoreRunPairing,
    keys: KeyNumbering<ForcedOutKey>,
    rows: BucketSums<2>,
}

impl ForcedOutTimeline {
    /// Creates an empty table for what is selected.
    pub fn new(selection: &Selection) -> ForcedOutTimeline {
        ForcedOutTimeline {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            runs: CoreRunPairing::default(),
            keys: KeyNumbering::of_at_most(TRIPLES),
            rows: BucketSums::of_at_most(ROWS, 6),
        }
    }

    /// Adds one.
    pub fn add(&mut self, forced_out: &ForcedOutExit) {
        let mut row = |cause, lost| {
            let key = self.keys.of((forced_out.vm, forced_out.vcpu, cause));
            self.rows.absorb(forced_out.at.as_nanos(), key.into(), &[1, lost]);
        };
        let causes = forced_out.causes.len() as u64;
        match causes {
            0 => row(None, forced_out.lost.0),
            _ => forced_out.causes.iter().for_each(|of| row(Some((of.vcpu, of.left.trap)), forced_out.lost.0 / causes)),
        }
    }

    /// The width of a bucket in nanoseconds, the rows by the numbers of their triples, and the triples by number.
    pub fn finish(self) -> (u64, Vec<BucketRow<2>>, Vec<ForcedOutKey>) {
        let (width, rows) = self.rows.finish(true, |key| key);
        (width, rows, self.keys.keys().to_vec())
    }
}

impl TraceSink for ForcedOutTimeline {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        let BesideRow::RunnerEvent(event) = row else { return };
        if !(self.window.0..=self.window.1).contains(&event.at) {
            return;
        }
        let Some(forced_out) = self.runs.forced_out_exit(event) else { return };
        if self.selection.vms.is_empty() || self.selection.vms.contains(&forced_out.vm) {
            self.add(&forced_out);
        }
    }
}
