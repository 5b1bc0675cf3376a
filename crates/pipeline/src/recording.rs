//! What happens on this host, into a perf.data file.
//!
//! ```text
//! Capture::drain ─► names of new threads, samples, losses ─► PerfWriter
//! ```

use exitscope_live::ThreadNames;
use exitscope_model::{Event, EventKind, NameId, recorder};
use exitscope_record::{Capture, RecordError, Tracepoint, TracepointSample};
use exitscope_trace::{PerfHead, PerfWriter};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;

/// What was captured cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error(transparent)]
    Capture(#[from] RecordError),
    /// It cannot be written.
    #[error("cannot write the recording")]
    Write(#[from] io::Error),
}

/// The file, and what it holds.
pub struct Recording {
    writer: PerfWriter<File>,
    threads: ThreadNames,
    /// Where the file's settings have the first of [`recorder::ALL`].
    own: usize,
    held: RecordedEvents,
}

/// What a recording holds.
#[derive(Debug, Default)]
pub struct RecordedEvents {
    /// Events, without those that were lost.
    pub events: u64,
    /// Those of KVM.
    pub kvm_events: u64,
    /// Events that the rings had no room for.
    pub lost: u64,
    /// CPUs that came on line, of which something may be missing.
    pub cpus_online: BTreeSet<u32>,
    /// What recording took of the guests' time, in nanoseconds, as far as that was measured.
    pub cost: Option<u64>,
    /// Size of the file, once it is whole.
    pub bytes: u64,
}

impl Recording {
    /// Begins a file of these tracepoints. `own` is the place of the first of [`recorder::ALL`] among the settings of `head`.
    pub fn new(to: File, head: &PerfHead, own: usize, tracepoints: &[Tracepoint]) -> io::Result<Recording> {
        let formats: Vec<(&str, &str)> =
            tracepoints.iter().map(|tracepoint| (tracepoint.system.as_str(), tracepoint.format.as_str())).collect();
        let writer = PerfWriter::of_formats(to, head, &formats)?;
        Ok(Recording { writer, threads: ThreadNames::new(tracepoints), own, held: RecordedEvents::default() })
    }

    /// Sets what the recorder says of itself by this name.
    pub fn note(&mut self, name: &str, value: &str) {
        let place = recorder::ALL.iter().position(|own| *own == name);
        place.into_iter().for_each(|place| self.writer.set(self.own + place, value));
    }

    /// Notes what recording cost until now.
    pub fn note_cost(&mut self, capture: &Capture) {
        let events = self.held.kvm_events + self.held.lost;
        self.note(recorder::EVENTS, &events.to_string());
        if let Some(cost) = capture.cost() {
            let all = (events as f64 * cost.ns as f64 / cost.runs as f64).round();
            self.note(recorder::NS_PER_EVENT, &format!("{:.0}", cost.ns as f64 / cost.runs as f64));
            self.note(recorder::COST_NS, &all.to_string());
            self.held.cost = Some(all as u64);
        }
    }

    /// Writes what was captured since the last time.
    pub fn drain(&mut self, capture: &mut Capture) -> Result<(), RecordingError> {
        let mut failed = None;
        let drained = capture.drain(|sample| {
            if failed.is_none() {
                failed = self.write(sample).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        self.held.cpus_online.extend(drained.came);
        for (cpu, count) in drained.lost {
            self.held.lost += count;
            self.writer.event(&Event::lost(Moment::from_nanos(drained.until), PcpuId(cpu), count))?;
        }
        Ok(())
    }

    /// Writes what is held back, as a whole block.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the file.
    pub fn finish(self) -> io::Result<RecordedEvents> {
        let written = self.writer.finish()?;
        Ok(RecordedEvents { bytes: written.bytes, ..self.held })
    }

    fn write(&mut self, sample: TracepointSample) -> io::Result<()> {
        let (at, vm, tid) = (Moment::from_nanos(sample.time), VmId(sample.process), Tid(sample.thread));
        for (thread, name) in self.threads.new_in(&sample) {
            self.writer.thread(at, vm, Tid(thread), &name)?;
        }
        self.held.events += 1;
        self.held.kvm_events += u64::from(self.threads.is_of_kvm(&sample));
        let cpu = PcpuId(sample.cpu);
        let event = Event { at, tid, vm, vcpu: VcpuId::UNKNOWN, cpu, name: NameId::NONE, kind: EventKind::Other };
        self.writer.sample_of(sample.tracepoint, &event, sample.payload)
    }
}
