//! Counts exits where they happen, by reason, by what they were about and by length, instead of recording each.
//!
//! ```text
//! tracepoint ─► BPF program: finds its thread's state; at the end of an exit, one count and one bucket more ┐
//!         or ─► perf events: a ring for each CPU ─► a thread of ours that counts the same ──────────────────┴─► Snapshot,
//!                                                                                                               when asked
//! ```
//!
//! Both count what the assembler makes rows of, so that totals are those of a recording. Nothing is dropped in silence: what
//! a map has no room for is in [`Snapshot::lost`].

pub(crate) mod blocks;
mod by_events;
mod exit_counter;
mod snapshot;

pub(crate) use exit_counter::CountReading;
pub use snapshot::{
    CountAndTime, CountKey, CountedKind, CountedSubject, CountedVcpu, CountedVcpuState, CountingCost, HaltWakeUps,
    OpenExit, Snapshot, VcpuRunner,
};

use crate::bpf::{ByBpf, NoBpf, Source};
use crate::capture::possible_cpus;
use crate::tracepoints::counted_of_kvm;
use crate::{Processes, RecordError, Tracepoint, TracingBackend, of_scheduler, sys, tracefs};
use by_events::ByEvents;
pub(crate) use exit_counter::{Fold, Traits};
use exitscope_model::{Event, EventNames};
use exitscope_trace::tracefs::{CountRole, Decoder, Format};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Tells of virtual cores' runs.
const CORE_RUNS: &str = "kvmppc_run_core";

/// How long KVM polls at most when a vCPU halts.
const HALT_POLL_NS: &str = "/sys/module/kvm/parameters/halt_poll_ns";

/// What to count.
#[derive(Clone, Debug)]
pub struct CountingOptions {
    /// Whose exits.
    pub processes: Processes,
    /// Do not try BPF.
    pub without_bpf: bool,
    /// Virtual CPUs at most; exits of further ones are lost.
    pub max_lanes: u32,
    /// Counts ([`CountKey`]s) at most; what would need a further one is lost. The kernel keeps 1.3 KB for each.
    pub max_counts: u32,
    /// Keep what tells of virtual cores' runs (POWER), for [`Aggregation::take_core_events`].
    pub with_cores: bool,
}

impl Default for CountingOptions {
    fn default() -> CountingOptions {
        CountingOptions {
            processes: Processes::All,
            without_bpf: false,
            max_lanes: 4096,
            max_counts: 8192,
            with_cores: false,
        }
    }
}

/// Counting at work. It stops when it is dropped.
#[derive(Debug)]
pub struct Aggregation {
    engine: Engine,
    route: TracingBackend,
    traits: Traits,
    snapshot: Snapshot,
    /// What of the snapshot was not settled when it was read.
    unsettled: Vec<(CountKey, CountAndTime)>,
}

#[derive(Debug)]
enum Engine {
    Bpf(ByBpf),
    Events(ByEvents),
}

/// A reading of what goes on meanwhile took so much longer than it ran, in nanoseconds, that it is made again; and how often.
const HELD_UP: u64 = 1_000_000;
const READINGS: usize = 4;

impl Engine {
    /// What was counted, and up to when.
    fn read(&mut self, gone: &BTreeSet<CountedVcpu>) -> Result<(u64, CountReading), RecordError> {
        match self {
            Engine::Bpf(bpf) => {
                let mut turn = 1;
                loop {
                    let (at, ran) = (sys::now(), sys::thread_time());
                    let reading = bpf.read(at, gone).map_err(|error| RecordError::io("bpf", error))?;
                    // What guests do while this thread waits for a CPU is in some maps and not in others.
                    let held_up = (sys::now() - at).saturating_sub(sys::thread_time() - ran);
                    if held_up < HELD_UP || turn == READINGS {
                        return Ok((at, reading));
                    }
                    turn += 1;
                }
            }
            Engine::Events(events) => events.read(gone),
        }
    }
}

impl Aggregation {
    /// Begins to count. Errors say what to do about them.
    pub fn start(counting: &CountingOptions) -> Result<Aggregation, RecordError> {
        let tracefs = tracefs()?;
        let mut tracepoints = counted_of_kvm(&tracefs)?;
        let scheduler = of_scheduler(&tracefs);
        let switches = scheduler.is_ok();
        tracepoints.extend(scheduler.into_iter().flatten());
        let decoded = decoded(tracepoints);
        let sources: Vec<Source> = decoded
            .iter()
            .filter_map(|(tracepoint, decoder)| Some((tracepoint.clone(), decoder.clone(), decoder.role()?)))
            .collect();
        if sources.is_empty() {
            return Err(RecordError::NoTracepoints);
        }
        let is_software = sources.iter().any(|(_, _, role)| matches!(role, CountRole::RunEnter(_)));
        // On POWER's virtual cores, a thread's events are about any virtual CPU.
        let by_vcpu = sources.iter().any(|(tracepoint, ..)| tracepoint.name == "kvm_guest_exit");
        // A host that never polls says so; its vCPUs poll all the same once KVM tells of it. Whoever switches polling off while we
        // count is told of a few polls too many.
        let polls = std::fs::read_to_string(HALT_POLL_NS).map_or(true, |text| text.trim() != "0");
        let traits = Traits { is_software, polls, switches: switches && !by_vcpu };
        let bpf = match (counting.without_bpf, by_vcpu) {
            (true, _) => Err(NoBpf::Forbidden(io::Error::other("not wanted"))),
            (_, true) => {
                Err(NoBpf::Forbidden(io::Error::other("programs count by thread, and here that is not a vCPU")))
            }
            _ if !switches => Err(NoBpf::Forbidden(io::Error::other("this kernel tells nothing of its scheduler"))),
            _ => ByBpf::start(&sources, traits, counting, possible_cpus()?),
        };
        let (engine, route) = match bpf {
            Ok(bpf) => (Engine::Bpf(bpf), TracingBackend::Bpf),
            Err(NoBpf::Trouble(error)) => return Err(error),
            Err(NoBpf::Forbidden(bpf)) => {
                let fold = Fold::new(traits, counting.max_lanes as usize, counting.max_counts as usize);
                let because = bpf.to_string();
                let with_cores = counting.with_cores;
                let is_used = |(tracepoint, decoder): &(Tracepoint, Decoder)| {
                    decoder.role().is_some() || with_cores && tracepoint.name == CORE_RUNS
                };
                let used = decoded.into_iter().filter(is_used).collect();
                let events = ByEvents::start(used, by_vcpu, with_cores, &counting.processes, fold);
                let events = events.map_err(|error| match error {
                    RecordError::NoRoute { perf, .. } => RecordError::NoRoute { bpf, perf },
                    other => other,
                })?;
                (Engine::Events(events), TracingBackend::PerfEvents { because })
            }
        };
        let snapshot = Snapshot { began: sys::now(), ..Snapshot::default() };
        Ok(Aggregation { engine, route, traits, snapshot, unsettled: Vec::new() })
    }

    /// How it counts.
    pub fn route(&self) -> &TracingBackend {
        &self.route
    }

    /// Whether `kvm_exit` fires here. Else exits are those that go to user space, and [`CountedKind::InKernel`] is what tells of
    /// the others.
    pub fn has_kvm_exit(&self) -> bool {
        !self.traits.is_software
    }

    /// Whether the scheduler tells when threads of virtual CPUs have no CPU.
    pub fn has_switches(&self) -> bool {
        self.traits.switches
    }

    /// The tracepoints whose programs look at arguments, and those whose programs look at the records that are made of them
    /// because BTF does not tell what is which argument, or nothing is; both empty without BPF.
    pub fn tracepoints(&self) -> (Vec<&str>, Vec<&str>) {
        match &self.engine {
            Engine::Bpf(bpf) => bpf.tracepoints(),
            Engine::Events(_) => (Vec::new(), Vec::new()),
        }
    }

    /// From now on, also the exits of this process; for when some were named.
    pub fn watch(&mut self, process: u32) -> Result<(), RecordError> {
        match &mut self.engine {
            Engine::Bpf(bpf) => bpf.watch(process).map_err(|error| RecordError::io("bpf", error)),
            Engine::Events(events) => {
                events.watch(process);
                Ok(())
            }
        }
    }

    /// What has been counted until now. Numbers never go down, but by exits that were not over when they were read last.
    pub fn read(&mut self) -> Result<&Snapshot, RecordError> {
        let (mut at, mut reading) = self.engine.read(&BTreeSet::new())?;
        // Who is gone by now has final numbers in what is read next.
        let lanes = reading.lanes.iter().map(|(lane, _)| *lane);
        let gone: BTreeSet<CountedVcpu> = lanes.filter(|lane| !lane.is_there()).collect();
        if !gone.is_empty() {
            (at, reading) = self.engine.read(&gone)?;
        }
        absorb(&mut self.snapshot, &mut self.unsettled, reading.begun_by(at));
        self.snapshot.at = at;
        if let Engine::Bpf(bpf) = &self.engine {
            let runs = bpf.runs();
            self.snapshot.cost = (runs.count > 0).then_some(CountingCost { runs: runs.count, ns: runs.ns });
        }
        for lane in gone {
            match &mut self.engine {
                Engine::Bpf(bpf) => bpf.forget(lane).map_err(|error| RecordError::io("bpf", error))?,
                Engine::Events(events) => events.forget(lane),
            }
            // Nothing more comes to be known of its exits.
            self.unsettled.retain(|(key, _)| key.lane != lane);
            if let Some(state) = self.snapshot.lanes.get_mut(&lane) {
                state.ended = true;
            }
        }
        Ok(&self.snapshot)
    }

    /// The events that tell of virtual cores' runs, since the last call; `None` where KVM has none, or nobody wants them.
    pub fn take_core_events(&mut self) -> Option<Vec<Event>> {
        match &mut self.engine {
            Engine::Bpf(_) => None,
            Engine::Events(events) => events.take_core_events(),
        }
    }

    /// What the last [`read`](Aggregation::read) found.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Drops lanes that have ended, and their counts. Who never calls it keeps all, which grows as VMs come and go.
    pub fn forget_ended(&mut self) {
        let Snapshot { lanes, counts, .. } = &mut self.snapshot;
        lanes.retain(|_, state| !state.ended);
        counts.retain(|key, _| lanes.contains_key(&key.lane));
    }
}

/// Makes the snapshot say at least what was read. What was open at one reading may be on its way into a count at the next,
/// into another one once it is known what it was about, and in neither for a moment. `unsettled` is what of the snapshot is
/// not settled.
fn absorb(snapshot: &mut Snapshot, unsettled: &mut Vec<(CountKey, CountAndTime)>, reading: CountReading) {
    let Snapshot { lanes, counts, .. } = snapshot;
    for (lane, state) in reading.lanes {
        if lanes.insert(lane, state).is_some_and(|before| before.ended) {
            // Another thread with the number of one that is gone.
            counts.retain(|key, _| key.lane != lane);
        }
    }
    for (key, count) in unsettled.drain(..) {
        if let Some(all) = counts.get_mut(&key) {
            *all = all.since(&count);
        }
    }
    let mut sums: BTreeMap<CountKey, CountAndTime> = BTreeMap::new();
    for (key, count) in reading.counts {
        sums.entry(key).or_default().add(&count);
    }
    for (key, count) in sums {
        counts.entry(key).or_default().max_with(&count);
    }
    for (key, count) in reading.unsettled {
        counts.entry(key).or_default().add(&count);
        unsettled.push((key, count));
    }
    counts.retain(|_, count| count.count > 0);
    snapshot.lost = snapshot.lost.max(reading.lost);
    snapshot.missed = snapshot.missed.max(reading.missed);
}

impl CountedVcpu {
    /// Whether who runs it is there.
    fn is_there(&self) -> bool {
        let process = format!("/proc/{}", self.process);
        match self.runner {
            VcpuRunner::Thread(thread) => Path::new(&format!("{process}/task/{thread}")).exists(),
            VcpuRunner::Vcpu(_) => Path::new(&process).exists(),
        }
    }
}

/// Tracepoints with what reads their records.
fn decoded(tracepoints: Vec<Tracepoint>) -> Vec<(Tracepoint, Decoder)> {
    let mut names = EventNames::default();
    let decoded = |tracepoint: Tracepoint| {
        let decoder = Decoder::new(&tracepoint.system, &Format::parse(&tracepoint.format)?, &mut names);
        Some((tracepoint, decoder))
    };
    tracepoints.into_iter().filter_map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{
        CodeList, EventKind, ExitCode, ExitParts, PortAccessForm, Subject, SubjectKind, SubjectWord, TimePart,
    };
    use exitscope_units::Nanos;
    use exitscope_units::VcpuId;

    const TRAITS: Traits = Traits { is_software: false, polls: true, switches: true };
    const LANE: CountedVcpu = CountedVcpu { process: 7, runner: VcpuRunner::Thread(70) };

    fn exit(number: u64) -> EventKind {
        EventKind::Exit { code: ExitCode::new(CodeList::Vmx, number), idle: false, words: SubjectWord::NONE, rip: 0 }
    }

    fn port(key: u64) -> EventKind {
        EventKind::Detail(Subject {
            kind: SubjectKind::Port,
            write: true,
            form: PortAccessForm::Unknown,
            size: 1,
            key,
            value: 0,
        })
    }

    /// Count and time of everything.
    fn sum(snapshot: &Snapshot) -> (u64, u64) {
        snapshot.counts.values().fold((0, 0), |(count, total), of| (count + of.count, total + of.total))
    }

    /// `HLT` is 12 on VMX.
    #[test]
    fn whenever_it_is_read_no_sum_goes_down_and_each_exit_is_counted_once() {
        let events = (0..40u64).flat_map(|n| {
            let at = 1_000 * n;
            let entry = (at + 300 + n, EventKind::Enter);
            match n % 4 {
                0 => vec![(at, exit(30)), (at + 1, port(n % 3)), entry],
                1 => vec![(at, exit(12)), entry],
                // No end is seen of it.
                2 => vec![(at, exit(30))],
                _ => vec![(at, exit(30)), (at + 1, port(0x80)), (at + 2, port(0x81)), entry],
            }
        });
        for between in [1, 2, 3, 7, 200] {
            let mut fold = Fold::new(TRAITS, 4, 100);
            let (mut snapshot, mut unsettled) = (Snapshot::default(), Vec::new());
            let mut exits = 0;
            for (at, (time, kind)) in events.clone().enumerate() {
                exits += u64::from(matches!(kind, EventKind::Exit { .. }));
                fold.take(LANE, time, kind, VcpuId::UNKNOWN);
                if at % between == 0 {
                    let before = sum(&snapshot);
                    absorb(&mut snapshot, &mut unsettled, fold.read_all());
                    let now = sum(&snapshot);
                    assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} {now:?}");
                    assert_eq!(now.0, exits, "every {between} events, at {time}");
                }
            }
            absorb(&mut snapshot, &mut unsettled, fold.read_all());
            let counted: BTreeMap<CountKey, CountAndTime> = fold.read_all().counts.into_iter().collect();
            assert_eq!((&snapshot.counts, exits), (&counted, 40), "every {between} events");
            let halts = &snapshot.counts
                [&CountKey { lane: LANE, cause: CountedKind::Exit(ExitCode::new(CodeList::Vmx, 12)), subject: None }];
            assert_eq!((halts.count, halts.not_cost, halts.cost()), (10, ExitParts::ZERO, halts.total));
        }
    }

    #[test]
    fn a_thread_with_the_number_of_one_that_is_gone_begins_anew() {
        let read = |number: u64| {
            let mut fold = Fold::new(TRAITS, 4, 100);
            fold.take(LANE, 10, exit(number), VcpuId::UNKNOWN);
            fold.take(LANE, 20, EventKind::Enter, VcpuId::UNKNOWN);
            fold.read_all()
        };
        let (mut snapshot, mut unsettled) = (Snapshot::default(), Vec::new());
        absorb(&mut snapshot, &mut unsettled, read(1));
        snapshot.lanes.get_mut(&LANE).expect("it is known").ended = true;
        absorb(&mut snapshot, &mut unsettled, read(2));
        let causes: Vec<CountedKind> = snapshot.counts.keys().map(|key| key.cause).collect();
        assert_eq!(causes, [CountedKind::Exit(ExitCode::new(CodeList::Vmx, 2))]);
    }

    #[test]
    fn a_count_is_what_came_before_and_what_came_since() {
        let count = |lengths: &[u64]| {
            let mut count = CountAndTime { count: lengths.len() as u64, to_user: 1, ..CountAndTime::default() };
            lengths.iter().for_each(|&ns| count.lengths.record(ns));
            count.total = lengths.iter().sum();
            count.not_cost.add(TimePart::Polling, Nanos(count.total / 3));
            count
        };
        let (early, mut late) = (count(&[5, 900]), count(&[5, 900]));
        late.add(&count(&[70_000, 5]));
        let mut sum = late.since(&early);
        assert_eq!((sum.count, sum.total, sum.lengths.total()), (2, 70_005, 2));
        sum.add(&early);
        assert_eq!(sum, late);
        let gone = early.since(&late);
        assert_eq!((gone.count, gone.total, gone.lengths.total()), (0, 0, 0), "numbers that went down");
    }
}
