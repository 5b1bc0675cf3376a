//! Recording by perf events, where BPF may not be used: each event is a sample in a ring of its CPU.
//!
//! ```text
//! page 0: how far the kernel is, how far we are      from page 1: the ring
//! record: type (4) misc (2) size (2) · SAMPLE: id, process, thread, time, CPU, size and bytes of the tracepoint's record
//!                                     · LOST: id, how many
//! ```

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::capture::{Batch, online_cpus};
use crate::mapping::Mapping;
use crate::sys::{self, page_size};
use crate::tracepoints::{COMMON, FOLLOWED_SWITCHES, Tracepoint};
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// TID, TIME, CPU, RAW, IDENTIFIER.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10 | 1 << 16;

/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// `data_head` and `data_tail` of `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Bytes of a record's type, misc and size.
const HEADER: usize = 8;

/// Places in a sample.
const ID: usize = 8;
const PROCESS: usize = 16;
const THREAD: usize = 20;
const TIME: usize = 24;
const CPU: usize = 32;
const RAW_SIZE: usize = 40;
const RAW: usize = 44;

#[derive(Debug)]
pub struct PerfEvents {
    /// By CPU; those off line have none.
    rings: BTreeMap<u32, Ring>,
    /// Number of the tracepoint, by the id in its samples.
    numbers: BTreeMap<u64, u16>,
    processes: Vec<u32>,
    threads: HashSet<u32>,
    /// Bytes of a ring.
    size: usize,
}

#[derive(Debug)]
struct Ring {
    cpu: u32,
    mapping: Mapping,
    size: usize,
    /// Kept open: closing one stops it.
    events: Vec<OwnedFd>,
    /// How many switches between threads that are not wanted are.
    follows: Cell<u32>,
}

impl PerfEvents {
    /// Opens every tracepoint on every CPU that is on line. Rings have `size` bytes, a power of two.
    pub fn start(tracepoints: &[Tracepoint], processes: &[u32], size: usize) -> io::Result<PerfEvents> {
        let (processes, threads) = (processes.to_vec(), HashSet::new());
        let (rings, numbers) = (BTreeMap::new(), BTreeMap::new());
        let mut events = PerfEvents { rings, numbers, processes, threads, size };
        for cpu in online_cpus()? {
            events.open(cpu, tracepoints)?;
        }
        events.rings.values().flat_map(|ring| &ring.events).try_for_each(sys::enable)?;
        Ok(events)
    }

    /// Opens every tracepoint on a CPU, if it is on line.
    fn open(&mut self, cpu: u32, tracepoints: &[Tracepoint]) -> io::Result<()> {
        let mut opened: Option<Ring> = None;
        for (number, tracepoint) in (0..).zip(tracepoints) {
            let event = match sys::open_tracepoint(tracepoint.id, cpu, SAMPLE_TYPE, self.size as u32 / 2) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
                event => event?,
            };
            self.numbers.insert(sys::event_id(&event)?, number);
            match &mut opened {
                Some(ring) => {
                    sys::set_output(&event, &ring.events[0])?;
                    ring.events.push(event);
                }
                None => {
                    let mapping = Mapping::new(&event, 0, page_size() + self.size, true);
                    let mapping = mapping.map_err(|error| may_not_be_locked(error, self.size))?;
                    let (size, events, follows) = (self.size, vec![event], Cell::new(0));
                    opened = Some(Ring { cpu, mapping, size, events, follows });
                }
            }
        }
        self.rings.extend(opened.map(|ring| (cpu, ring)));
        Ok(())
    }

    /// CPUs go off line, and their events with them; on those that come on line, events are opened.
    fn follow_cpus(&mut self, online: Vec<u32>, tracepoints: &[Tracepoint], batch: &mut Batch) -> io::Result<()> {
        self.rings.retain(|cpu, _| online.contains(cpu));
        for cpu in online {
            if !self.rings.contains_key(&cpu) {
                self.open(cpu, tracepoints)?;
                self.rings.get(&cpu).into_iter().flat_map(|ring| &ring.events).try_for_each(sys::enable)?;
                batch.came.push(cpu);
            }
        }
        Ok(())
    }

    /// From now on, the scheduling of this thread is recorded, and its system calls.
    pub fn watch(&mut self, thread: u32) {
        self.threads.insert(thread);
    }

    /// Takes what is in the rings.
    pub fn gather(&mut self, tracepoints: &[Tracepoint], batch: &mut Batch) -> io::Result<()> {
        let mut record = Vec::new();
        // First, so that what is off line then has no more than is taken now.
        let online = online_cpus()?;
        for ring in self.rings.values() {
            let head = ring.mapping.u64(DATA_HEAD).load(Ordering::Acquire);
            let mut at = ring.mapping.u64(DATA_TAIL).load(Ordering::Relaxed);
            while at < head {
                ring.copy(at, HEADER, &mut record);
                let size = usize::from(u16_at(&record, 6)).max(HEADER);
                ring.copy(at, size, &mut record);
                at += size as u64;
                self.take(ring, &record, tracepoints, batch);
            }
            ring.mapping.u64(DATA_TAIL).store(at, Ordering::Release);
        }
        self.follow_cpus(online, tracepoints, batch)
    }

    fn take(&self, ring: &Ring, record: &[u8], tracepoints: &[Tracepoint], batch: &mut Batch) {
        match u32_at(record, 0) {
            LOST => batch.lost.push((ring.cpu, u64_at(record, ID + 8))),
            SAMPLE => {
                let Some(&number) = self.numbers.get(&u64_at(record, ID)) else { return };
                let (process, thread) = (u32_at(record, PROCESS), u32_at(record, THREAD));
                let tracepoint = &tracepoints[usize::from(number)];
                let end = (RAW + u32_at(record, RAW_SIZE) as usize).min(RAW + tracepoint.size).min(record.len());
                let raw = record.get(RAW..end).unwrap_or(&[]);
                let wanted = match tracepoint.follows_threads() {
                    true if tracepoint.threads.is_empty() => self.threads.contains(&thread),
                    true => {
                        let is_wanted = tracepoint.threads.iter().any(|&at| self.threads.contains(&u32_at(raw, at)));
                        if tracepoint.is_switch() { ring.is_followed(is_wanted) } else { is_wanted }
                    }
                    false => self.processes.is_empty() || self.processes.contains(&process),
                };
                if wanted && let Some(payload) = raw.get(COMMON..) {
                    batch.push(u64_at(record, TIME), u32_at(record, CPU), process, thread, number, payload);
                }
            }
            _ => {}
        }
    }
}

/// Why a ring may not be had: kernel/events/core.c (`perf_mmap`) locks its pages, beyond perf_event_mlock_kb only up to RLIMIT_MEMLOCK, and
/// says EPERM, as for what capabilities forbid. By then the event was opened, which was the question of those.
fn may_not_be_locked(error: io::Error, size: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    let what = format!(
        "the memory of a buffer of {} KiB for each CPU may not be locked: a smaller --buffer, a higher `ulimit -l`, or cap_ipc_lock",
        size >> 10
    );
    io::Error::new(error.kind(), what)
}

impl Ring {
    /// Whether a switch on this CPU is recorded: one of a thread that is wanted, or one of those that follow it.
    fn is_followed(&self, is_wanted: bool) -> bool {
        let left = if is_wanted { Some(FOLLOWED_SWITCHES) } else { self.follows.get().checked_sub(1) };
        self.follows.set(left.unwrap_or(0));
        left.is_some()
    }

    /// The `size` bytes at `at`, which may go on at the ring's beginning.
    fn copy(&self, at: u64, size: usize, to: &mut Vec<u8>) {
        let from = (at % self.size as u64) as usize;
        let first = size.min(self.size - from);
        to.clear();
        self.mapping.copy(page_size() + from, first, to);
        self.mapping.copy(page_size(), size - first, to);
    }
}
