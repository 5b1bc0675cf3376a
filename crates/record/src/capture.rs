//! A capture: begun, drained now and then, stopped.

use crate::bpf::{Bpf, NoBpf};
use crate::perf_events::PerfEvents;
use crate::{Cost, RecordError, Tracepoint, sys};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

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
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The tracepoints: see [`crate::find`]. Those of `sched` are recorded for threads that were seen in others.
    pub tracepoints: Vec<Tracepoint>,
    /// Whose.
    pub processes: Processes,
    /// Bytes of the ring of each CPU; made a power of two of at least a page.
    pub buffer: usize,
    /// Do not try BPF.
    pub without_bpf: bool,
}

/// How it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// By BPF programs.
    Bpf,
    /// By perf events, and why not by BPF.
    PerfEvents {
        /// What the kernel answered, or that it was not wanted.
        because: String,
    },
}

/// A record of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
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

/// What a drain gave besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples that were handed out.
    pub samples: u64,
    /// Records lost since the last drain, by CPU.
    pub lost: Vec<(u32, u64)>,
    /// Up to when samples have been handed out: later drains give later ones.
    pub until: u64,
}

/// Recording at work. It stops when it is dropped.
#[derive(Debug)]
pub struct Capture {
    wanted: Wanted,
    engine: Engine,
    route: Route,
    batch: Batch,
    /// Threads that run virtual CPUs.
    vcpus: HashSet<u32>,
    /// Open while the kernel measures programs.
    stats: Option<OwnedFd>,
}

#[derive(Debug)]
enum Engine {
    Bpf(Bpf),
    PerfEvents(PerfEvents),
}

impl Capture {
    /// Begins.
    pub fn start(wanted: Wanted) -> Result<Capture, RecordError> {
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
            Ok(bpf) => (Engine::Bpf(bpf), Route::Bpf),
            Err(NoBpf::Trouble(error)) => return Err(error),
            Err(NoBpf::Forbidden(bpf)) => match PerfEvents::start(&wanted.tracepoints, processes, cpus, size) {
                Ok(events) => (Engine::PerfEvents(events), Route::PerfEvents { because: bpf.to_string() }),
                Err(perf) => return Err(RecordError::NoRoute { bpf, perf }),
            },
        };
        Ok(Capture { wanted, engine, route, batch: Batch::default(), vcpus: HashSet::new(), stats: None })
    }

    /// How it is recorded.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The tracepoints that are recorded.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.wanted.tracepoints
    }

    /// Has the kernel measure what recording costs, until it is told not to: see [`Capture::cost`]. That makes programs slower
    /// meanwhile, and needs CAP_SYS_ADMIN. Perf events are not measured.
    pub fn measure(&mut self, on: bool) -> Result<(), RecordError> {
        self.stats = match (&self.engine, on) {
            (Engine::Bpf(_), true) => Some(sys::enable_stats().map_err(|error| RecordError::io("bpf", error))?),
            _ => None,
        };
        Ok(())
    }

    /// What recording an event of KVM costs the CPU where it happens, as far as it was measured.
    pub fn cost(&self) -> Option<Cost> {
        let Engine::Bpf(bpf) = &self.engine else { return None };
        let runs = bpf.runs(&self.wanted.tracepoints);
        (runs.count > 0).then_some(Cost { runs: runs.count, ns: runs.ns })
    }

    /// Stops. What was recorded until now can still be drained, by a last call.
    pub fn stop(&mut self) {
        match &mut self.engine {
            Engine::Bpf(bpf) => bpf.stop(),
            Engine::PerfEvents(events) => events.stop(),
        }
    }

    /// Hands out what was recorded since the last call, in the order of time, over all calls.
    pub fn drain(&mut self, mut each: impl FnMut(Sample)) -> Result<Drained, RecordError> {
        // What is stamped with an earlier time has its place in a ring by now.
        let until = sys::now();
        let tracepoints = &self.wanted.tracepoints;
        match &mut self.engine {
            Engine::Bpf(bpf) => bpf.gather(tracepoints, &mut self.batch).map_err(|e| RecordError::io("bpf", e))?,
            Engine::PerfEvents(events) => events.gather(tracepoints, &mut self.batch),
        }
        for row in &self.batch.rows {
            if !tracepoints[usize::from(row.number)].is_scheduler() && self.vcpus.insert(row.thread) {
                match &mut self.engine {
                    Engine::Bpf(bpf) => bpf.watch(row.thread).map_err(|e| RecordError::io("bpf", e))?,
                    Engine::PerfEvents(events) => events.watch(row.thread),
                }
            }
        }
        let samples = self.batch.hand_out(until, &mut each);
        Ok(Drained { samples, lost: std::mem::take(&mut self.batch.lost), until })
    }
}

/// Records out of the rings, until it is their turn.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// CPU and number of records lost.
    pub lost: Vec<(u32, u64)>,
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
    fn hand_out(&mut self, until: u64, each: &mut impl FnMut(Sample)) -> u64 {
        self.rows.sort_by_key(|row| row.time);
        let due = self.rows.partition_point(|row| row.time <= until);
        for row in &self.rows[..due] {
            let Row { time, cpu, process, thread, .. } = *row;
            let payload = &self.bytes[row.from..row.from + row.size];
            each(Sample { time, cpu, process, thread, tracepoint: row.number.into(), payload });
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
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path).map_err(|error| RecordError::io(path, error))?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<u32>().ok());
    let last = last.ok_or_else(|| RecordError::io(path, io::Error::other(format!("not a list of CPUs: {text}"))))?;
    Ok(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
