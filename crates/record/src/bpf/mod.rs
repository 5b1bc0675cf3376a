//! Recording by BPF programs: see [`mod@program`] for what one does. Counting by them: see [`count`]. Delaying exits by them:
//! see [`delay`].
//!
//! ```text
//! rings: CPU ─► ring buffer      lost: a number for each CPU      threads: whose scheduling is wanted
//! ```

mod arguments;
mod assembler;
mod count;
mod count_program;
mod delay;
mod delay_program;
mod program;
mod ring;

pub use count::{ByBpf, Source};
pub use delay::{DelayCounts, DelayedExits, ExitDelay};

use crate::bytes::{u32_at, u64_at};
use crate::capture::{Batch, online_cpus};
use crate::tracepoints::COMMON;
use crate::{RecordError, Tracepoint, sys};
use program::{CPU, Maps, NUMBER, PAYLOAD, THREAD, TIME, program};
use ring::Ring;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use sys::ProgramKind;

/// `BPF_MAP_TYPE_LRU_HASH`: the threads that were named longest ago make room.
const LRU_HASH: u32 = 9;

/// Threads whose scheduling and system calls are recorded, at most.
const MAX_THREADS: u32 = 1 << 16;

/// Programs at work.
#[derive(Debug)]
pub struct Bpf {
    rings: Vec<Ring>,
    lost: OwnedFd,
    /// By CPU, the losses that were reported already.
    reported: Vec<u64>,
    threads: OwnedFd,
    programs: Vec<OwnedFd>,
    /// Kept open: closing one stops its program.
    _events: Vec<OwnedFd>,
}

/// Why BPF cannot be used: it may not be, or it does what it should not.
pub enum NoBpf {
    Forbidden(io::Error),
    Trouble(RecordError),
}

impl Bpf {
    /// Starts a program for each tracepoint. Rings have `size` bytes for each of `cpus` CPUs.
    pub fn start(tracepoints: &[Tracepoint], processes: &[u32], cpus: u32, size: usize) -> Result<Bpf, NoBpf> {
        let ring = || map(sys::RINGBUF, 0, 0, size as u32, None);
        let rings = map(sys::ARRAY_OF_MAPS, 4, 4, cpus, Some(&ring()?))?;
        let lost = map(sys::PERCPU_ARRAY, 4, 8, 1, None)?;
        let threads = map(LRU_HASH, 4, 1, MAX_THREADS, None)?;
        let mut of_cpus = Vec::new();
        for cpu in 0..cpus {
            let fd = ring()?;
            sys::update(&rings, &cpu.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes()).map_err(NoBpf::Forbidden)?;
            of_cpus.push(Ring::new(&fd, size).map_err(NoBpf::Forbidden)?);
        }
        let follows = map(sys::PERCPU_ARRAY, 4, 8, 1, None)?;
        let maps = Maps { rings: &rings, lost: &lost, threads: &threads, follows: &follows };
        let load = |(number, tracepoint)| {
            load(tracepoint, &program(tracepoint, number, processes, maps), ProgramKind::Tracepoint)
        };
        let programs = (0..).zip(tracepoints).map(load).collect::<Result<Vec<OwnedFd>, NoBpf>>()?;
        // Only now that all are loaded does any begin.
        let cpu = any_cpu().map_err(NoBpf::Forbidden)?;
        let attach = |(tracepoint, program)| attach(tracepoint, program, cpu);
        let events =
            tracepoints.iter().zip(&programs).map(attach).collect::<io::Result<_>>().map_err(NoBpf::Forbidden)?;
        Ok(Bpf { rings: of_cpus, lost, reported: vec![0; cpus as usize], threads, programs, _events: events })
    }

    /// From now on, the scheduling of this thread is recorded, and its system calls.
    pub fn watch(&self, thread: u32) -> io::Result<()> {
        sys::update(&self.threads, &thread.to_ne_bytes(), &[1])
    }

    /// How the programs of KVM's tracepoints ran; the scheduler's and those of system calls run for others as well.
    pub fn runs(&self, tracepoints: &[Tracepoint]) -> sys::BpfRunStats {
        let all = tracepoints.iter().zip(&self.programs);
        runs_of(all.filter(|(tracepoint, _)| !tracepoint.follows_threads()).map(|(_, program)| program))
    }

    /// Takes what is in the rings.
    pub fn gather(&mut self, tracepoints: &[Tracepoint], batch: &mut Batch) -> io::Result<()> {
        let mut record = Vec::new();
        for ring in &mut self.rings {
            while ring.next(&mut record) {
                let number = u32_at(&record, NUMBER) as u16;
                let Some(tracepoint) = tracepoints.get(usize::from(number)) else { continue };
                // `bpf_get_current_pid_tgid`: the process is the upper half.
                let thread = u64_at(&record, THREAD);
                let end = PAYLOAD + tracepoint.size.saturating_sub(COMMON);
                let payload = record.get(PAYLOAD..end).unwrap_or(&[]);
                let (time, cpu) = (u64_at(&record, TIME), u32_at(&record, CPU));
                batch.push(time, cpu, (thread >> 32) as u32, thread as u32, number, payload);
            }
        }
        let mut lost = vec![0; self.reported.len()];
        sys::lookup_percpu(&self.lost, 0, &mut lost)?;
        for (cpu, (now, before)) in (0..).zip(lost.iter().zip(&mut self.reported)) {
            if *now > *before {
                batch.lost.push((cpu, *now - *before));
                *before = *now;
            }
        }
        Ok(())
    }
}

/// How programs ran together.
fn runs_of<'a>(programs: impl IntoIterator<Item = &'a OwnedFd>) -> sys::BpfRunStats {
    let mut sum = sys::BpfRunStats::default();
    // A kernel that does not say is as good as one where nothing was missed.
    for runs in programs.into_iter().filter_map(|program| sys::runs(program).ok()) {
        (sum.ns, sum.count, sum.missed) = (sum.ns + runs.ns, sum.count + runs.count, sum.missed + runs.missed);
    }
    sum
}

fn map(kind: u32, key: u32, value: u32, entries: u32, inner: Option<&OwnedFd>) -> Result<OwnedFd, NoBpf> {
    sys::map(kind, key, value, entries, inner).map_err(NoBpf::Forbidden)
}

fn load(tracepoint: &Tracepoint, program: &[u64], kind: ProgramKind) -> Result<OwnedFd, NoBpf> {
    sys::load(program, kind).map_err(|(error, log)| {
        if log.is_empty() {
            return NoBpf::Forbidden(error);
        }
        NoBpf::Trouble(RecordError::Refused { tracepoint: tracepoint.name.clone(), error, log })
    })
}

/// Runs a program of records whenever its tracepoint fires, as long as what is returned is kept open.
fn attach(tracepoint: &Tracepoint, program: &OwnedFd, cpu: u32) -> io::Result<OwnedFd> {
    // A program runs on every CPU, whichever CPU the event is of, also on those that come on line later; and from now on: the
    // event itself stays disabled, so that it makes no samples.
    let event = sys::open_tracepoint(tracepoint.id, cpu, 0, 0)?;
    sys::set_bpf(&event, program)?;
    Ok(event)
}

/// A CPU that is on line.
fn any_cpu() -> io::Result<u32> {
    Ok(online_cpus()?.first().copied().unwrap_or(0))
}
