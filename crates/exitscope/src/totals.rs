//! What several traces come to besides their facts: losses, counts, names, a row for each.

use crate::read;
use exitscope_model::{Ledger, TraceInfo};
use exitscope_pipeline::{ReadError, ReadTrace};
use exitscope_view::TraceRow;

/// What several traces come to besides their facts.
#[derive(Default)]
pub struct Totals {
    pub ledger: Ledger,
    pub info: TraceInfo,
    pub traces: Vec<TraceRow>,
    pub exits: u64,
    pub timed_exits: u64,
    /// Of which of them nothing could be read.
    pub unread: Vec<ReadError>,
}

impl Totals {
    /// Adds a trace.
    pub fn add(&mut self, trace: ReadTrace) {
        self.traces.push(read::row(&trace));
        self.unread.extend(trace.has_events().err());
        self.ledger.merge(&trace.ledger);
        if !trace.is_left_out {
            let mut comms = std::mem::take(&mut self.info.comms);
            comms.extend(trace.info.comms);
            self.info = TraceInfo { comms, ..trace.info };
        }
        self.exits += trace.exits;
        self.timed_exits += trace.timed_exits;
    }
}
