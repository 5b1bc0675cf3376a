//! A capture: begun, drained now and then, stopped.

use crate::bpf::{Bpf, NoBpf};
use crate::perf_events::PerfEvents;
use crate::tracepoints::COMMON;
use crate::{CountingCost, RecordError, Tracepoint, sys};
use exitscope_model::Event;
use exitscope_trace::tracefs::{ByteOrder, Decoder};
use exitscope_units::{Moment, PcpuId, Tid, VmId};
use std::collections::HashSet;
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// How long after its stamp perf's record of an event is in its ring, at most (BPF programs stamp what has its place already):
/// usually less than a microsecond, but more where this host is a guest itself and its CPU is away.
const MAX_RECORD_DELAY_NS: Duration = Duration::from_millis(3);

/// Whose events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Every virtual machine's.
    All,
    /// Those of these processes, by their ids; at most [`Processes::MAX`].
    These(Vec<u32>),
}

impl Processes {
    /// Processes that can be named.
    pub const MAX: usize = 64;

    /// Whether this one is wanted.
    pub fn hold(&self, process: u32) -> bool {
        match self {
            Processes::All => true,
            Processes::These(these) => these.contains(&process),
        }
    }
}

/// What to record.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The tracepoints: see [`crate::of_kvm`]. Those of scheduler and system calls are recorded for threads that were seen in
    /// others; switches also of the CPUs on which such threads ran lately.
    pub tracepoints: Vec<Tracepoint>,
    /// Processes whose events are recorded.
    pub processes: Processes,
    /// Bytes of the ring of each CPU; made a power of two of at least a page.
    pub buffer: usize,
    /// Do not try BPF.
    pub without_bpf: bool,
}

/// How it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracingBackend {
    /// By BPF programs.
    Bpf,
    /// By perf events, and why not by BPF.
    PerfEvents {
        /// What the kernel answered, or that it was not wanted.
        because: String,
    },
}

impl TracingBackend {
    /// Its name in outputs: `bpf` or `perf_events`.
    pub fn name(&self) -> &'static str {
        if *self == TracingBackend::Bpf { "bpf" } else { "perf_events" }
    }
}

/// A record of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracepointSample<'a> {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The process that ran there.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// Which of the tracepoints wanted.
    pub tracepoint: usize,
    /// The record behind its common fields (of 8 bytes).
    pub payload: &'a [u8],
}

impl TracepointSample<'_> {
    /// The event that it is, by its tracepoint's decoder; `None` if it is too short for its format. Decoders know where fields
    /// are in whole records: `record` is room for one.
    pub fn event(&self, decoder: &Decoder, record: &mut Vec<u8>) -> Option<Event> {
        record.clear();
        record.resize(COMMON, 0);
        record.extend_from_slice(self.payload);
        let decoded = decoder.decode(record, ByteOrder::NATIVE)?;
        Some(Event {
            at: Moment::from_nanos(self.time),
            tid: Tid(self.thread),
            vm: decoder.vm(record, ByteOrder::NATIVE).unwrap_or(VmId(self.process)),
            vcpu: decoded.vcpu,
            cpu: PcpuId(self.cpu),
            name: decoder.name,
            kind: decoded.kind,
        })
    }
}

/// What a drain gave besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples that were handed out.
    pub samples: u64,
    /// Records lost since the last drain, by CPU.
    pub lost: Vec<(u32, u64)>,
    /// CPUs that came on line, of which nobody knows what they did until now. BPF programs miss nothing of them.
    pub came: Vec<u32>,
    /// Up to when samples have been handed out: later drains give later ones.
    pub until: u64,
}

/// Recording at work. It stops when it is dropped, which takes the kernel some 40 ms for each tracepoint: it waits until no
/// CPU is in its handler any more, for one after the other, in however many threads they are closed.
#[derive(Debug)]
pub struct Capture {
    wanted: CaptureOptions,
    engine: Engine,
    route: TracingBackend,
    batch: Batch,
    /// Threads that run virtual CPUs.
    vcpus: HashSet<u32>,
}

#[derive(Debug)]
enum Engine {
    Bpf(Bpf),
    PerfEvents(PerfEvents),
}

impl Capture {
    /// Begins.
    pub fn start(wanted: CaptureOptions) -> Result<Capture, RecordError> {
        let size = wanted.buffer.clamp(sys::page_size(), 1 << 28).next_power_of_two();
        let cpus = possible_cpus()?;
        let all = Vec::new();
        let processes = match &wanted.processes {
            Processes::All => &all,
            Processes::These(these) => these,
        };
        let bpf = if wanted.without_bpf {
            Err(NoBpf::Forbidden(io::Error::other("not wanted")))
        } else {
            Bpf::start(&wanted.tracepoints, processes, cpus, size)
        };
        let (engine, route) = match bpf {
            Ok(bpf) => (Engine::Bpf(bpf), TracingBackend::Bpf),
            Err(NoBpf::Trouble(error)) => return Err(error),
            Err(NoBpf::Forbidden(bpf)) => match PerfEvents::start(&wanted.tracepoints, processes, size) {
                Ok(events) => (Engine::PerfEvents(events), TracingBackend::PerfEvents { because: bpf.to_string() }),
                Err(perf) => return Err(RecordError::NoRoute { bpf, perf }),
            },
        };
        Ok(Capture { wanted, engine, route, batch: Batch::default(), vcpus: HashSet::new() })
    }

    /// How it is recorded.
    pub fn route(&self) -> &TracingBackend {
        &self.route
    }

    /// The tracepoints that are recorded.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.wanted.tracepoints
    }

    /// What recording an event of KVM costs the CPU where it happens, as far as it was measured
    /// ([`measure_programs`](crate::measure_programs)).
    pub fn cost(&self) -> Option<CountingCost> {
        let Engine::Bpf(bpf) = &self.engine else { return None };
        let runs = bpf.runs(&self.wanted.tracepoints);
        (runs.count > 0).then_some(CountingCost { runs: runs.count, ns: runs.ns })
    }

    /// Hands out what was recorded since the last call, in the order of time, over all calls. Everything that happened before
    /// the call is handed out by then.
    pub fn drain(&mut self, mut each: impl FnMut(TracepointSample)) -> Result<Drained, RecordError> {
        // What is stamped with an earlier time has its place in a ring when that is looked at.
        let until = sys::now();
        let tracepoints = &self.wanted.tracepoints;
        match &mut self.engine {
            Engine::Bpf(bpf) => bpf.gather(tracepoints, &mut self.batch).map_err(|e| RecordError::io("bpf", e))?,
            Engine::PerfEvents(events) => {
                sleep(MAX_RECORD_DELAY_NS);
                events.gather(tracepoints, &mut self.batch).map_err(|e| RecordError::io("perf_event_open", e))?;
            }
        }
        for row in &self.batch.rows {
            if !tracepoints[usize::from(row.number)].follows_threads() && self.vcpus.insert(row.thread) {
                match &mut self.engine {
                    Engine::Bpf(bpf) => bpf.watch(row.thread).map_err(|e| RecordError::io("bpf", e))?,
                    Engine::PerfEvents(events) => events.watch(row.thread),
                }
            }
        }
        let samples = self.batch.hand_out(until, &mut each);
        let Batch { lost, came, .. } = &mut self.batch;
        Ok(Drained { samples, lost: std::mem::take(lost), came: std::mem::take(came), until })
    }
}

/// Records out of the rings, until it is their turn.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// CPU and number of records lost.
    pub lost: Vec<(u32, u64)>,
    /// CPUs that came on line.
    pub came: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    time: u64,
    cpu: u32,
    process: u32,
    thread: u32,
    number: u16,
    from: usize,
    size: usize,
}

impl Batch {
    /// Adds a record.
    pub fn push(&mut self, time: u64, cpu: u32, process: u32, thread: u32, number: u16, payload: &[u8]) {
        let row = Row { time, cpu, process, thread, number, from: self.bytes.len(), size: payload.len() };
        self.bytes.extend_from_slice(payload);
        self.rows.push(row);
    }

    /// Hands out the records up to `until`, by time, and keeps the others. Returns how many it handed out.
    fn hand_out(&mut self, until: u64, each: &mut impl FnMut(TracepointSample)) -> u64 {
        self.rows.sort_by_key(|row| row.time);
        let due = self.rows.partition_point(|row| row.time <= until);
        for row in &self.rows[..due] {
            let Row { time, cpu, process, thread, .. } = *row;
            let payload = &self.bytes[row.from..row.from + row.size];
            each(TracepointSample { time, cpu, process, thread, tracepoint: row.number.into(), payload });
        }
        let mut kept = Batch::default();
        for row in &self.rows[due..] {
            let payload = &self.bytes[row.from..row.from + row.size];
            kept.push(row.time, row.cpu, row.process, row.thread, row.number, payload);
        }
        self.bytes.clear();
        self.rows.clear();
        self.bytes.extend_from_slice(&kept.bytes);
        self.rows.extend_from_slice(&kept.rows);
        due as u64
    }
}

/// How many CPUs there can be: what BPF's maps have room for, and what CPUs are numbered up to.
pub(crate) fn possible_cpus() -> Result<u32, RecordError> {
    let cpus = cpus("possible").map_err(|error| RecordError::io("possible CPUs", error))?;
    Ok(cpus.last().map_or(1, |last| last + 1))
}

/// The CPUs that are at work, ascending.
pub(crate) fn online_cpus() -> io::Result<Vec<u32>> {
    cpus("online")
}

fn cpus(which: &str) -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{which}"))?;
    list_of(&text).ok_or_else(|| io::Error::other(format!("not a list of CPUs: {text}")))
}

/// The numbers of a list like `0-3,8`.
fn list_of(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(list_of("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list_of("0\n"), Some(vec![0]));
        assert_eq!((list_of(""), list_of("a-b")), (None, None));
    }

    #[test]
    fn records_leave_by_time_and_later_ones_wait() {
        let mut batch = Batch::default();
        batch.push(30, 0, 1, 11, 0, b"c");
        batch.push(50, 0, 1, 11, 0, b"late");
        batch.push(10, 1, 1, 12, 1, b"aa");
        batch.push(20, 1, 1, 12, 1, b"");
        let mut seen = Vec::new();
        assert_eq!(batch.hand_out(30, &mut |sample| seen.push((sample.time, sample.payload.to_vec()))), 3);
        assert_eq!(seen, [(10, b"aa".to_vec()), (20, vec![]), (30, b"c".to_vec())]);
        batch.push(40, 1, 1, 12, 0, b"d");
        seen.clear();
        assert_eq!(batch.hand_out(60, &mut |sample| seen.push((sample.time, sample.payload.to_vec()))), 2);
        assert_eq!(seen, [(40, b"d".to_vec()), (50, b"late".to_vec())]);
    }
}
