//! Exits of this process's own guests, traced.

use crate::SampleDecoder;
use exitscope_model::{EventKind, EventNames, ExitCode};
use exitscope_record::{Capture, CaptureOptions, Processes, RecordError, of_kvm, tracefs};
use exitscope_units::{Moment, Tid};
use std::collections::BTreeMap;

/// Traces the exits of this process's guests, from kvm_exit to kvm_entry.
pub struct ExitTracer {
    capture: Capture,
    decoder: SampleDecoder,
    /// By thread, what left its guest and has not entered it again.
    open: BTreeMap<Tid, (ExitCode, Moment)>,
}

impl ExitTracer {
    /// Begins; an error says why that cannot be.
    pub fn start() -> Result<ExitTracer, String> {
        let start = || -> Result<ExitTracer, RecordError> {
            let mut tracepoints = of_kvm(&tracefs()?)?;
            // No others: each takes its time within an exit, or beside it.
            tracepoints.retain(|of| matches!(of.name.as_str(), "kvm_exit" | "kvm_entry"));
            let processes = Processes::These(vec![std::process::id()]);
            let capture =
                Capture::start(CaptureOptions { tracepoints, processes, buffer: 4 << 20, without_bpf: false })?;
            let decoder = SampleDecoder::new(capture.tracepoints(), &mut EventNames::default());
            Ok(ExitTracer { capture, decoder, open: BTreeMap::new() })
        };
        start().map_err(|error| format!("exits cannot be traced: {error}"))
    }

    /// Those since the last call, in the order of time: why, and how long in nanoseconds.
    pub fn exits(&mut self) -> Result<Vec<(ExitCode, u64)>, String> {
        self.decoder.clear();
        let drained = self.capture.drain(|sample| self.decoder.take(sample)).map_err(|error| error.to_string())?;
        if !drained.lost.is_empty() {
            return Err("records of exits were lost".to_string());
        }
        let mut exits = Vec::new();
        for event in &self.decoder.events {
            match event.kind {
                EventKind::Exit { code, .. } => _ = self.open.insert(event.tid, (code, event.at)),
                EventKind::Enter => {
                    let open = self.open.remove(&event.tid);
                    exits.extend(open.and_then(|(code, left)| Some((code, event.at.since(left)?.0))));
                }
                _ => {}
            }
        }
        Ok(exits)
    }
}
