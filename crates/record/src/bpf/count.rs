//! Counting by BPF programs: see [`super::count_program`] for what they do.
//!
//! ```text
//! states: thread ─► its open exit     counts: thread, why, about what ─► how many, how long     lost: a number for each CPU
//! ```

use super::arguments::among_arguments;
use super::count_program::{
    self as layout, ABOUT, ABOUT_KEY, BUCKETS, CLOSED, CODE, COUNT_SIZE, HALT, KEY_SIZE, Maps, OPENER, SERVED, SINCE,
    STATE_SIZE, TO_USER, about, count_program,
};
use super::{NoBpf, any_cpu, attach, load, map, runs_of};
use crate::aggregate::{About, Cause, Count, Counting, Key, Lane, LaneState, Lengths, Open, Reading, Runner};
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::sys::{self, ProgramKind};
use crate::{Processes, Tracepoint};
use exitscope_model::codes::trapped_system_register;
use exitscope_model::{DetailKind, ExitCode, Kind};
use exitscope_trace::tracefs::{Decoder, Order, Place, Role};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

/// A tracepoint, how its records are read, and what it is to a count.
pub type Source = (Tracepoint, Decoder, Role);

/// Programs at work, and their maps.
#[derive(Debug)]
pub struct ByBpf {
    sources: Vec<Source>,
    states: OwnedFd,
    counts: OwnedFd,
    processes: Option<OwnedFd>,
    lost: OwnedFd,
    cpus: usize,
    programs: Vec<OwnedFd>,
    /// Kept open: closing one stops its program.
    _events: Vec<OwnedFd>,
}

impl ByBpf {
    /// Starts a program for each tracepoint.
    pub fn start(sources: &[Source], is_software: bool, counting: &Counting, cpus: u32) -> Result<ByBpf, NoBpf> {
        let start = |raw| ByBpf::start_at(sources, is_software, counting, cpus, raw);
        start(true).or_else(|why| match &why {
            NoBpf::Forbidden(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(why),
            // Kernels before 4.17 have no raw ones.
            _ => start(false),
        })
    }

    /// The same, at raw tracepoints where that is wanted and they have all that a program looks at.
    fn start_at(
        sources: &[Source],
        is_software: bool,
        counting: &Counting,
        cpus: u32,
        raw: bool,
    ) -> Result<ByBpf, NoBpf> {
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
        let states = map(sys::HASH, 8, STATE_SIZE as u32, counting.max_lanes, None)?;
        let counts = map(sys::HASH, KEY_SIZE as u32, COUNT_SIZE as u32, counting.max_counts, None)?;
        let blank = map(sys::ARRAY, 4, COUNT_SIZE as u32, 1, None)?;
        let lost = map(sys::PERCPU_ARRAY, 4, 8, 1, None)?;
        let maps = Maps { states: &states, counts: &counts, blank: &blank, lost: &lost, processes: processes.as_ref() };
        let exits_tell =
            sources.iter().any(|(_, decoder, role)| matches!(role, Role::Exit(_)) && decoder.vcpu_place().size > 0);
        let (mut programs, mut kinds) = (Vec::new(), Vec::new());
        for (number, (tracepoint, decoder, role)) in (0..).zip(sources) {
            let vcpu = match role {
                Role::Enter if exits_tell => Place::default(),
                _ => decoder.vcpu_place(),
            };
            let ((role, vcpu), kind) = match among_arguments(tracepoint, *role, vcpu).filter(|_| raw) {
                Some(found) => (found, ProgramKind::RawTracepoint),
                None => ((*role, vcpu), ProgramKind::Tracepoint),
            };
            programs.push(load(tracepoint, &count_program(role, number, vcpu, is_software, maps), kind)?);
            kinds.push(kind);
        }
        // Only now that all are loaded does any begin.
        let cpu = any_cpu().map_err(NoBpf::Forbidden)?;
        let attach = |((source, program), kind): ((&Source, &OwnedFd), _)| match kind {
            ProgramKind::Tracepoint => attach(&source.0, program, cpu),
            ProgramKind::RawTracepoint => sys::attach_raw(&CString::new(source.0.name.as_str())?, program),
        };
        let events = sources.iter().zip(&programs).zip(kinds).map(attach).collect::<io::Result<_>>();
        let events = events.map_err(NoBpf::Forbidden)?;
        let (sources, cpus) = (sources.to_vec(), cpus as usize);
        Ok(ByBpf { sources, states, counts, processes, lost, cpus, programs, _events: events })
    }

    /// Counts this process's exits, too.
    pub fn watch(&mut self, process: u32) -> io::Result<()> {
        match &self.processes {
            Some(processes) => sys::update(processes, &process.to_ne_bytes(), &[1]),
            None => Ok(()),
        }
    }

    /// What the maps hold. Counts before states: what was open and has ended meanwhile is then missed, and not counted twice.
    pub fn read(&mut self) -> io::Result<Reading> {
        let mut reading = Reading::default();
        sys::each_element(&self.counts, KEY_SIZE, COUNT_SIZE, |key, value| {
            let key = self.key(lane(u64_at(key, 0)), key);
            reading.counts.extend(key.map(|key| (key, count(value))));
        })?;
        sys::each_element(&self.states, 8, STATE_SIZE, |thread, state| {
            let lane = lane(u64_at(thread, 0));
            let mut open = None;
            let (since, closed) = (u64_at(state, SINCE), u64_at(state, CLOSED));
            if since > 0 || closed > 0 {
                let mut count = Count { count: 1, to_user: u32_at(state, TO_USER).into(), ..Count::default() };
                let key = self.key(lane, state);
                if since == 0 {
                    count.total = closed - 1;
                    count.idle = u64_at(state, layout::IDLE).min(count.total);
                    count.lengths.record(count.total);
                } else if let Some(Key { cause: Cause::Exit(code), .. }) = key {
                    open = Some(Open { code, since });
                }
                reading.unsettled.extend(key.map(|key| (key, count)));
            }
            let less_one = |at| u64_at(state, at).checked_sub(1).map(|number| number as u32);
            let (vcpu, poll, events) = (less_one(layout::VCPU), less_one(layout::POLL), u64_at(state, layout::EVENTS));
            reading.lanes.push((lane, LaneState { vcpu, poll, open, events, ended: false }));
        })?;
        let mut lost = vec![0; self.cpus];
        sys::lookup_percpu(&self.lost, 0, &mut lost)?;
        reading.lost = lost.iter().sum::<u64>() + self.runs().missed;
        Ok(reading)
    }

    /// How all programs ran together.
    pub fn runs(&self) -> sys::Runs {
        runs_of(&self.programs)
    }

    /// Makes room: this thread is gone.
    pub fn forget(&mut self, lane: Lane) -> io::Result<()> {
        let Runner::Thread(thread) = lane.runner else { return Ok(()) };
        let thread = u64::from(lane.process) << 32 | u64::from(thread);
        let mut keys = Vec::new();
        sys::each_element(&self.counts, KEY_SIZE, COUNT_SIZE, |key, _| {
            if u64_at(key, 0) == thread {
                keys.push(key.to_vec());
            }
        })?;
        keys.iter().try_for_each(|key| sys::delete(&self.counts, key))?;
        sys::delete(&self.states, &thread.to_ne_bytes())
    }

    /// What a key says, or the same bytes of a state.
    fn key(&self, lane: Lane, raw: &[u8]) -> Option<Key> {
        let (code, opener, what) = (u64_at(raw, CODE), u16_at(raw, OPENER), u16_at(raw, ABOUT));
        let cause = match opener {
            SERVED => Cause::Served,
            HALT => Cause::Halt { slept: code & 0xff != 0, valid: code >> 8 != 0 },
            opener => Cause::Exit(self.exit_code(code, opener.into())?),
        };
        let kinds = self.sources.iter().filter_map(|(_, _, role)| match role {
            Role::About { kind, .. } => Some(*kind),
            _ => None,
        });
        let kind = kinds.into_iter().find(|&kind| about(kind) == what & !1);
        let key = u64_at(raw, ABOUT_KEY);
        let about = kind.map(|kind| match kind {
            // Counted by its trap.
            DetailKind::SystemRegister => {
                let (key, write) = trapped_system_register(key);
                About { kind, write, key }
            }
            _ => About { kind, write: what & 1 != 0, key },
        });
        Some(Key { lane, cause, about })
    }

    /// The reason, by the decoder that reads recordings: of a record that has nothing but the fields that it is made of.
    fn exit_code(&self, code: u64, opener: usize) -> Option<ExitCode> {
        let (tracepoint, decoder, role) = self.sources.get(opener)?;
        let (Role::Exit(places) | Role::UserspaceExit(places)) = role else { return None };
        let mut record = vec![0; tracepoint.size];
        let low = if places[0].size == 8 { code } else { code & u64::from(u32::MAX) };
        for (place, number) in places.iter().zip([low, code >> 32]) {
            put(&mut record, *place, number);
        }
        match decoder.decode(&record, Order::NATIVE)?.kind {
            Kind::Exit { code, .. } => Some(code),
            Kind::UserspaceExit { reason, errno } => Some(ExitCode::of_userspace(reason, errno)),
            _ => None,
        }
    }
}

/// Writes the lower bytes of a number into a field.
fn put(record: &mut [u8], place: Place, number: u64) {
    let bytes = match Order::NATIVE {
        Order::Little => number.to_le_bytes().to_vec(),
        Order::Big => number.to_be_bytes()[8 - place.size..].to_vec(),
    };
    if let Some(field) = record.get_mut(place.offset..place.offset + place.size) {
        field.copy_from_slice(&bytes[..place.size]);
    }
}

/// `bpf_get_current_pid_tgid`: the process is the upper half.
fn lane(thread: u64) -> Lane {
    Lane { process: (thread >> 32) as u32, runner: Runner::Thread(thread as u32) }
}

fn count(value: &[u8]) -> Count {
    Count {
        count: u64_at(value, layout::COUNT),
        to_user: u64_at(value, layout::COUNT_TO_USER),
        total: u64_at(value, layout::TOTAL),
        idle: u64_at(value, layout::COUNT_IDLE),
        lengths: Lengths::from_counts((0..Lengths::BUCKETS).map(|bucket| u64_at(value, BUCKETS + 8 * bucket))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs;
    use crate::tracepoints::find;
    use exitscope_model::EventNames;
    use exitscope_trace::tracefs::Format;
    use exitscope_trace::tracepoints::{RecordWhen, recorded};
    use std::io::Write;

    #[test]
    fn the_kernel_takes_every_program_with_kvm_exit_and_without_of_arguments_and_of_records() {
        let mut names = EventNames::default();
        let source = |tracepoint: Tracepoint| {
            let decoder = Decoder::new(&tracepoint.system, &Format::parse(&tracepoint.format)?, &mut names);
            let role = decoder.role()?;
            Some((tracepoint, decoder, role))
        };
        let wanted = recorded(|when| matches!(when, RecordWhen::Always | RecordWhen::WithoutExits));
        let found = tracefs().and_then(|tracefs| find(&tracefs, &wanted));
        let trouble = match found {
            Ok(found) => {
                let sources: Vec<Source> = found.into_iter().filter_map(source).collect();
                let started = [(true, true), (true, false), (false, true), (false, false)].map(|(is_software, raw)| {
                    let processes = if is_software { Processes::All } else { Processes::These(vec![1]) };
                    let counting = Counting { processes, max_counts: 10, ..Counting::default() };
                    ByBpf::start_at(&sources, is_software, &counting, 1, raw).err()
                });
                match started.into_iter().flatten().next() {
                    None => return,
                    Some(NoBpf::Trouble(error)) => panic!("{error}"),
                    Some(NoBpf::Forbidden(error)) => error.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        let allowed = std::env::var("EXITSCOPE_WITHOUT_KVM").is_ok_and(|value| value == "1");
        assert!(allowed, "{trouble}\nBPF may not be used here. Set EXITSCOPE_WITHOUT_KVM=1 to pass without it.");
        // Not `eprintln!`, which the test harness swallows when the test passes.
        writeln!(std::io::stderr(), "SKIPPED: NO BPF PROGRAM WAS LOADED: {trouble}").expect("stderr is open");
    }
}
