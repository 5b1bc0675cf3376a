//! What several traces come to besides their facts: losses, counts, names, a row for each.

use crate::read;
use exitscope_model::{Ledger, TraceInfo};
use exitscope_pipeline::{ReadError, ReadTrace};
use exitscope_view::{Coverage, TraceRow};

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
    /// What was lost or damaged, a sentence each.
    pub fn damage(&self) -> Vec<String> {
        Coverage::of(&self.ledger, self.exits, self.timed_exits).damage().map(ToString::to_string).collect()
    }

    /// Adds a trace.
    pub fn add(&mut self, trace: ReadTrace) {
        self.traces.push(read::row(&trace));
        self.unread.extend(trace.has_events().err());
        self.ledger.merge(&trace.ledger);
        if !trace.is_left_out {
            let (mut comms, mut irqs) = (std::mem::take(&mut self.info.comms), std::mem::take(&mut self.info.irqs));
            comms.extend(trace.info.comms);
            // Another host, or this one after it was booted anew, has other interrupts of the same number.
            for (irq, name) in trace.info.irqs {
                let known = irqs.entry(irq).or_insert_with(|| name.clone());
                if !known.split(" or ").any(|of| of == name) {
                    *known = format!("{known} or {name}");
                }
            }
            self.info = TraceInfo { comms, irqs, ..trace.info };
        }
        self.exits += trace.exits;
        self.timed_exits += trace.timed_exits;
    }
}
