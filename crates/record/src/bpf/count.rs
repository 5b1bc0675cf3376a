//! Counting by BPF programs: see [`super::count_program`] for what they do.
//!
//! ```text
//! states: thread ─► its open exit     counts: thread, why, about what ─► how many, how long     lost: a number for each CPU
//! threads: a thread's number ─► process and number
//! ```

use super::arguments::among_arguments;
use super::count_program::{
    self as layout, ABOUT, ABOUT_KEY, BUCKETS, CLOSED, CODE, COUNT_SIZE, CountMaps, HALT, KEY_SIZE, OPENER, SERVED,
    SINCE, STATE_SIZE, TO_USER, about, count_program,
};
use super::{NoBpf, any_cpu, attach, load, map, runs_of};
use crate::aggregate::blocks::{COUNTED, SUMS, Spent, beside_cost, end, outside, up_to};
use crate::aggregate::{
    CountAndTime, CountKey, CountReading, CountedKind, CountedSubject, CountedVcpu, CountedVcpuState, CountingOptions,
    HaltWakeUps, OpenExit, Traits, VcpuRunner,
};
use crate::btf::Btf;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::sys::{self, ProgramKind};
use crate::{Processes, Tracepoint};
use exitscope_model::codes::trapped_system_register;
use exitscope_model::{EventKind, ExitCode, ExitParts, SubjectKind};
use exitscope_stats::CoarseBuckets;
use exitscope_trace::tracefs::{ByteOrder, CountRole, Decoder, FieldLocation};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

/// A tracepoint, how its records are read, and what it is to a count.
pub type Source = (Tracepoint, Decoder, CountRole);

/// Programs at work, and their maps.
#[derive(Debug)]
pub struct ByBpf {
    sources: Vec<Source>,
    traits: Traits,
    maps: CountMaps,
    cpus: usize,
    programs: Vec<OwnedFd>,
    /// Of each source, what its program runs at.
    kinds: Vec<ProgramKind>,
    /// Kept open: closing one stops its program.
    _events: Vec<OwnedFd>,
}

impl ByBpf {
    /// Starts a program for each tracepoint.
    pub fn start(sources: &[Source], traits: Traits, counting: &CountingOptions, cpus: u32) -> Result<ByBpf, NoBpf> {
        let start = |raw| ByBpf::start_at(sources, traits, counting, cpus, raw);
        start(true).or_else(|why| match &why {
            NoBpf::Forbidden(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(why),
            // Kernels before 4.17 have no raw ones.
            _ => start(false),
        })
    }

    /// The same, at raw tracepoints where that is wanted and they have all that a program looks at.
    fn start_at(
        sources: &[Source],
        traits: Traits,
        counting: &CountingOptions,
        cpus: u32,
        raw: bool,
    ) -> Result<ByBpf, NoBpf> {
        let mut engine = ByBpf::idle(sources, traits, counting, cpus)?;
        let btf = if raw { Btf::of_this_kernel() } else { None };
        for (number, (source, vcpu)) in (0..).zip(sources.iter().zip(vcpus(sources))) {
            let (tracepoint, _, role) = source;
            let ((role, vcpu), kind) = match among_arguments(tracepoint, *role, vcpu, btf.as_ref()).filter(|_| raw) {
                Some(found) => (found, ProgramKind::RawTracepoint),
                None => ((*role, vcpu), ProgramKind::Tracepoint),
            };
            let program = count_program(role, number, vcpu, traits, &engine.maps);
            engine.programs.push(load(tracepoint, &program, kind)?);
            engine.kinds.push(kind);
        }
        // Only now that all are loaded does any begin.
        let cpu = any_cpu().map_err(NoBpf::Forbidden)?;
        let attach = |((source, program), kind): ((&Source, &OwnedFd), &_)| match kind {
            ProgramKind::Tracepoint => attach(&source.0, program, cpu),
            ProgramKind::RawTracepoint => sys::attach_raw(&CString::new(source.0.name.as_str())?, program),
        };
        let events = sources.iter().zip(&engine.programs).zip(&engine.kinds).map(attach).collect::<io::Result<_>>();
        engine._events = events.map_err(NoBpf::Forbidden)?;
        Ok(engine)
    }

    /// The maps, and no program yet.
    fn idle(sources: &[Source], traits: Traits, counting: &CountingOptions, cpus: u32) -> Result<ByBpf, NoBpf> {
        let processes = match &counting.processes {
            Processes::All => None,
            Processes::These(these) => {
                let processes = map(sys::HASH, 4, 1, 1024, None)?;
                for process in these {
                    sys::update(&processes, &process.to_ne_bytes(), &[1]).map_err(NoBpf::Forbidden)?;
                }
                Some(processes)
            }
        };
        let maps = CountMaps {
            states: map(sys::HASH, 8, STATE_SIZE as u32, counting.max_lanes, None)?,
            threads: map(sys::HASH, 4, 8, counting.max_lanes, None)?,
            counts: map(sys::HASH, KEY_SIZE as u32, COUNT_SIZE as u32, counting.max_counts, None)?,
            blank: map(sys::ARRAY, 4, COUNT_SIZE as u32, 1, None)?,
            lost: map(sys::PERCPU_ARRAY, 4, 8, 1, None)?,
            processes,
        };
        let (sources, cpus) = (sources.to_vec(), cpus as usize);
        Ok(ByBpf { sources, traits, maps, cpus, programs: Vec::new(), kinds: Vec::new(), _events: Vec::new() })
    }

    /// Counts this process's exits, too.
    pub fn watch(&mut self, process: u32) -> io::Result<()> {
        match &self.maps.processes {
            Some(processes) => sys::update(processes, &process.to_ne_bytes(), &[1]),
            None => Ok(()),
        }
    }

    /// What the maps hold, up to `at`; of who is gone, up to the end. Counts before states: what was open and has ended meanwhile is then missed, and not counted twice.
    pub fn read(&mut self, at: u64, gone: &BTreeSet<CountedVcpu>) -> io::Result<CountReading> {
        let mut reading = CountReading::default();
        sys::each_element(&self.maps.counts, KEY_SIZE, COUNT_SIZE, |key, value| {
            let key = self.key(lane(u64_at(key, 0)), key);
            reading.counts.extend(key.map(|key| (key, count(value, key.cause))));
        })?;
        sys::each_element(&self.maps.states, 8, STATE_SIZE, |thread, state| {
            let lane = lane(u64_at(thread, 0));
            let mut open = None;
            let (since, closed) = (u64_at(state, SINCE), u64_at(state, CLOSED));
            let spent_at = |place| -> Spent { std::array::from_fn(|sum| u64_at(state, place + 8 * sum)) };
            let (mut within, mut without) = (spent_at(layout::WITHIN), spent_at(layout::OUTSIDE));
            let run = u32_at(state, layout::RUN) as usize;
            let out = (1..=SUMS).contains(&run).then(|| (run - 1, u64_at(state, layout::OUT_SINCE)));
            let until = end(at, out, gone.contains(&lane));
            match since {
                0 => without = up_to(until, without, out),
                _ => within = up_to(until, within, out),
            }
            if since > 0 || closed > 0 {
                let mut count =
                    CountAndTime { count: 1, to_user: u32_at(state, TO_USER).into(), ..CountAndTime::default() };
                let key = self.key(lane, state);
                if let Some(CountKey { cause: CountedKind::Exit(code), .. }) = key {
                    let beside = beside_cost(&within, code);
                    if since == 0 {
                        (count.total, count.not_cost) = (closed - 1, beside);
                        count.lengths.record(count.total);
                    } else {
                        open = Some(OpenExit { code, since, not_cost: beside });
                    }
                }
                reading.unsettled.extend(key.map(|key| (key, count)));
            }
            let outside = outside(&without, self.traits.is_software);
            let less_one = |at| u64_at(state, at).checked_sub(1).map(|number| number as u32);
            let (vcpu, poll, events) = (less_one(layout::VCPU), less_one(layout::POLL), u64_at(state, layout::EVENTS));
            reading.lanes.push((
                lane,
                CountedVcpuState {
                    vcpu,
                    poll,
                    first: u64_at(state, layout::FIRST),
                    until,
                    open,
                    outside,
                    wake_ups: HaltWakeUps {
                        seen: u64_at(state, layout::WAKE_UPS),
                        latency: u64_at(state, layout::LATENCY),
                        unseen: u64_at(state, layout::UNSEEN),
                    },
                    events,
                    ended: false,
                },
            ));
        })?;
        let mut lost = vec![0; self.cpus];
        sys::lookup_percpu(&self.maps.lost, 0, &mut lost)?;
        reading.lost = lost.iter().sum();
        // The kernel runs no program of a record within another on the same CPU (trace_call_bpf of kernel/trace/bpf_trace.c): it is
        // called there by an interrupt that wakes somebody.
        for (source, program) in self.sources.iter().zip(&self.programs) {
            let missed = if source.0.follows_threads() { &mut reading.missed } else { &mut reading.lost };
            *missed += runs_of([program]).missed;
        }
        Ok(reading)
    }

    /// How all programs ran together.
    pub fn runs(&self) -> sys::BpfRunStats {
        runs_of(&self.programs)
    }

    /// The tracepoints whose programs look at arguments, and those whose programs look at records.
    pub fn tracepoints(&self) -> (Vec<&str>, Vec<&str>) {
        let all = self.sources.iter().zip(&self.kinds).map(|(source, kind)| (source.0.name.as_str(), kind));
        let (raw, records): (Vec<_>, Vec<_>) = all.partition(|(_, kind)| matches!(kind, ProgramKind::RawTracepoint));
        (raw.into_iter().map(|of| of.0).collect(), records.into_iter().map(|of| of.0).collect())
    }

    /// Makes room: this thread is gone.
    pub fn forget(&mut self, lane: CountedVcpu) -> io::Result<()> {
        let VcpuRunner::Thread(thread) = lane.runner else { return Ok(()) };
        // Another may have its number by now, which knows no more than that it counts then.
        let _ = sys::delete(&self.maps.threads, &thread.to_ne_bytes());
        let thread = u64::from(lane.process) << 32 | u64::from(thread);
        let mut keys = Vec::new();
        sys::each_element(&self.maps.counts, KEY_SIZE, COUNT_SIZE, |key, _| {
            if u64_at(key, 0) == thread {
                keys.push(key.to_vec());
            }
        })?;
        keys.iter().try_for_each(|key| sys::delete(&self.maps.counts, key))?;
        sys::delete(&self.maps.states, &thread.to_ne_bytes())
    }

    /// What a key says, or the same bytes of a state.
    fn key(&self, lane: CountedVcpu, raw: &[u8]) -> Option<CountKey> {
        let (code, opener, what) = (u64_at(raw, CODE), u16_at(raw, OPENER), u16_at(raw, ABOUT));
        let cause = match opener {
            SERVED => CountedKind::InKernel,
            HALT => CountedKind::Halt { slept: code & 0xff != 0, valid: code >> 8 != 0 },
            opener => CountedKind::Exit(self.exit_code(code, opener.into())?),
        };
        let kinds = self.sources.iter().filter_map(|(_, _, role)| match role {
            CountRole::About { kind, .. } => Some(*kind),
            _ => None,
        });
        let kind = kinds.into_iter().find(|&kind| about(kind) == what & !1);
        let key = u64_at(raw, ABOUT_KEY);
        let about = kind.map(|kind| match kind {
            // Counted by its trap.
            SubjectKind::SystemRegister => {
                let (key, write) = trapped_system_register(key);
                CountedSubject { kind, write, key }
            }
            _ => CountedSubject { kind, write: what & 1 != 0, key },
        });
        Some(CountKey { lane, cause, subject: about })
    }

    /// The reason, by the decoder that reads recordings: of a record that has nothing but the fields that it is made of.
    fn exit_code(&self, code: u64, opener: usize) -> Option<ExitCode> {
        let (tracepoint, decoder, role) = self.sources.get(opener)?;
        let (CountRole::Exit(places) | CountRole::UserspaceExit(places)) = role else { return None };
        let mut record = vec![0; tracepoint.size];
        let low = if places[0].size == 8 { code } else { code & u64::from(u32::MAX) };
        for (place, number) in places.iter().zip([low, code >> 32]) {
            put(&mut record, *place, number);
        }
        match decoder.decode(&record, ByteOrder::NATIVE)?.kind {
            EventKind::Exit { code, .. } => Some(code),
            EventKind::UserspaceExit { reason, errno } => Some(ExitCode::of_userspace(reason, errno)),
            _ => None,
        }
    }
}

/// Where the program of each source looks for the virtual CPU's number: entries need not say what exits say.
fn vcpus(sources: &[Source]) -> impl Iterator<Item = FieldLocation> + '_ {
    let exits_tell =
        sources.iter().any(|(_, decoder, role)| matches!(role, CountRole::Exit(_)) && decoder.vcpu_place().size > 0);
    sources.iter().map(move |(_, decoder, role)| match role {
        CountRole::Enter if exits_tell => FieldLocation::default(),
        _ => decoder.vcpu_place(),
    })
}

/// Writes the lower bytes of a number into a field.
fn put(record: &mut [u8], place: FieldLocation, number: u64) {
    let bytes = match ByteOrder::NATIVE {
        ByteOrder::Little => number.to_le_bytes().to_vec(),
        ByteOrder::Big => number.to_be_bytes()[8 - place.size..].to_vec(),
    };
    if let Some(field) = record.get_mut(place.offset..place.offset + place.size) {
        field.copy_from_slice(&bytes[..place.size]);
    }
}

/// `bpf_get_current_pid_tgid`: the process is the upper half.
fn lane(thread: u64) -> CountedVcpu {
    CountedVcpu { process: (thread >> 32) as u32, runner: VcpuRunner::Thread(thread as u32) }
}

fn count(value: &[u8], cause: CountedKind) -> CountAndTime {
    let spent: [u64; COUNTED] = std::array::from_fn(|sum| u64_at(value, layout::SPENT + 8 * sum));
    let beside = match cause {
        CountedKind::Exit(code) => beside_cost(&spent, code),
        CountedKind::InKernel | CountedKind::Halt { .. } => ExitParts::ZERO,
    };
    CountAndTime {
        count: u64_at(value, layout::COUNT),
        to_user: u64_at(value, layout::COUNT_TO_USER),
        total: u64_at(value, layout::TOTAL),
        not_cost: beside,
        lengths: CoarseBuckets::from_counts((0..CoarseBuckets::LEN).map(|bucket| u64_at(value, BUCKETS + 8 * bucket))),
    }
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
