//! Events in, exit rows out. One open exit per lane; a lane is a thread, or a (VM, vCPU) pair where another thread
//! records for the vCPU (powerpc's vcore runner).
//!
//! ```text
//!            kvm_exit                 kvm_userspace_exit           kvm_fpu(load)      kvm_entry
//!   Guest ─────┬── Kernel ──────────────────┬── UserSpace ──────────────┬── Kernel ───────┬── Guest
//!              └ row opens                  └ handler = user space      └ an IN's kvm_pio └ row closes
//!                                                                         comes here
//! ```
//!
//! Where `kvm_exit` never fires (some KVM back ends), `kvm_userspace_exit` with no exit open opens a row under KVM's
//! own reasons, and it closes when `KVM_RUN` is entered again.
//!
//! Every event ends in a row's `events` or in a line of the ledger.

mod runners;
mod scheduler;
mod yielding;

use crate::beside_row::{BesideRow, BesideRows};
use crate::codes::{ENDS, KICK_CPU};
use crate::halt::OpenHalt;
use crate::ipi::ipi;
use crate::irq_names::IrqNames;
use crate::lane::{Lane, LanePosition, LaneRunState, RecordedTracepoints};
use crate::run_queue::RunQueue;
use crate::turns::Turns;
use crate::yields::{PleUpdate, Preemption, RunQueueInterval, ThreadWakeUp, Yield};
use crate::{
    ApicvChangeEvent, CodeList, CpuInterval, Event, EventKind, ExitSink, Halt, IdleCpuEvent, IdleEvent,
    KvmActivityEvent, LaneSpan, Ledger, LedgerLine, StealPiece, Subject, SubjectKind, ThreadName, TraceInfo,
    VcpuIdentity, VcpuWakeup, least_vms, version,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Lanes at most; events of further threads are counted as outside any exit. Bounds memory (about 64 MB).
const MAX_LANES: usize = 1 << 18;

/// Releases of Linux from the first in which `vmx_vcpu_run` has a fast path that enters again, to the first in which it fires
/// `kvm_entry` for that, too; see [`ExitCode::may_reenter_unsaid`](crate::ExitCode::may_reenter_unsaid).
const REENTERS_UNSAID: Range<(u32, u32)> = (5, 8)..(5, 11);

/// Xen: a CPU on which a vCPU runs and nothing is recorded for longer, within an exit, does what no event explains. An exit that
/// Xen handles takes microseconds; where Xen runs in a VM itself, the host below may have the CPU (`steal` of Xen's own vCPU).
const SILENCE: Nanos = Nanos(2_000_000);

/// A vCPU of which nothing is heard in the last one of so many parts of a recording ends early.
const ENDS_EARLY: u64 = 20;

/// CPUs whose last lane is remembered; CPUs that are so many apart share a place.
const CPU_CACHE: usize = 1024;

/// Tracepoints that mark entries into KVM_RUN.
const RUN_ENTERS: [&str; 3] = ["kvm:kvm_fpu", "syscalls:sys_enter_ioctl", "raw_syscalls:sys_enter"];

/// Events that wait at most until it is known what lanes are (1 MB).
const MOST_WAITING: usize = 1 << 14;

/// Slots of the direct-mapped cache of lanes.
const NEAR: usize = 256;

/// In place of a lane's number: the thread is no lane.
const NO_LANE: u32 = u32::MAX;

/// Sentinel: no vCPU.
const NO_KEY: u64 = u64::MAX;

/// One of so many sleeps may be without a wake-up, as when a recorder knows a thread only from then on.
const MOST_UNWOKEN: u64 = 20;

/// Which kinds of events there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventKinds {
    /// `sched_switch`, or Xen's run states.
    pub switches: bool,
    /// `sched_wakeup`, or Xen's run states.
    pub wakeups: bool,
    /// Returns to user space, or Xen's run states.
    pub handlers: bool,
    /// `kvm_halt_poll_ns`.
    pub polls: bool,
    /// Entries into KVM_RUN.
    pub runs: bool,
    /// Sleeps of vCPUs that ended, and how many of them without anything that said when the vCPU was woken.
    pub sleeps: u64,
    /// See there.
    pub unwoken_sleeps: u64,
    /// Exits of nested guests that KVM handed to their hypervisor: `kvm_nested_vmexit_inject`.
    pub reflects: bool,
    /// powerpc: exits name their vCPU, and up to POWER8 one thread records for all vCPUs of a virtual core.
    pub by_runner: bool,
}

impl EventKinds {
    /// Whether they say when vCPUs had no CPU: of powerpc's at least for how long other virtual cores had it.
    pub fn tell_steal(&self) -> bool {
        self.switches || self.by_runner
    }

    /// Whether they say it of all such time, or nearly: a sleep without a wake-up may hold a wait for a CPU at its end.
    pub fn tell_all_steal(&self) -> bool {
        self.switches && self.unwoken_sleeps.saturating_mul(MOST_UNWOKEN) <= self.sleeps
    }

    /// Adds those of another stretch.
    pub fn merge(&mut self, other: EventKinds) {
        self.switches |= other.switches;
        self.wakeups |= other.wakeups;
        self.handlers |= other.handlers;
        self.polls |= other.polls;
        self.runs |= other.runs;
        // A recording says again what it said before, and more.
        self.sleeps = self.sleeps.max(other.sleeps);
        self.unwoken_sleeps = self.unwoken_sleeps.max(other.unwoken_sleeps);
        self.reflects |= other.reflects;
        self.by_runner |= other.by_runner;
    }
}

/// Makes exit rows of events.
#[derive(Clone, Debug)]
pub struct Assembler {
    lanes: Vec<Lane>,
    index: FxHashMap<u64, u32>,
    /// The keys that were looked up last, and their lanes.
    near: Box<[(u64, u32); NEAR]>,
    /// The last thread on each CPU, and its lane; on Xen, the last lane that left its guest there, by CPU.
    last_on_cpu: Box<[(u32, u32); CPU_CACHE]>,
    /// Xen: the last event on each CPU.
    last_event_on: Box<[(u32, Moment); CPU_CACHE]>,
    /// Xen: which lane was given each CPU last.
    running_on: FxHashMap<PcpuId, u32>,
    /// What the recording holds, as far as that is known.
    recorded: RecordedTracepoints,
    /// Lanes are (VM, vCPU) pairs: on Xen, and where powerpc's runner records for all vCPUs.
    lanes_by_vcpu: bool,
    by_runner: bool,
    /// What the first exits tell of the host's architecture.
    arch: Option<&'static str>,
    /// powerpc: which lane's vCPU each thread runs, where an event said so; and which lanes each thread works for.
    lane_of_thread: FxHashMap<Tid, u32>,
    lanes_served: FxHashMap<Tid, Vec<u32>>,
    /// Events from the first entry on, until the first exit says what lanes are.
    waiting: Vec<Event>,
    latest: Moment,
    earliest: Option<Moment>,
    kinds: EventKinds,
    beside: BesideRows,
    queue: RunQueue,
    irqs: IrqNames,
    /// powerpc: who had which CPU.
    turns: Turns,
    /// Xen: which lane gave each CPU away by a yield just now.
    given: Box<[u32; CPU_CACHE]>,
}

impl Default for Assembler {
    fn default() -> Assembler {
        Assembler {
            lanes: Vec::new(),
            index: FxHashMap::default(),
            near: Box::new([(NO_KEY, NO_LANE); NEAR]),
            last_on_cpu: Box::new([(u32::MAX, NO_LANE); CPU_CACHE]),
            last_event_on: Box::new([(u32::MAX, Moment::from_nanos(0)); CPU_CACHE]),
            running_on: FxHashMap::default(),
            recorded: RecordedTracepoints::default(),
            lanes_by_vcpu: false,
            by_runner: false,
            arch: None,
            lane_of_thread: FxHashMap::default(),
            lanes_served: FxHashMap::default(),
            waiting: Vec::new(),
            latest: Moment::default(),
            earliest: None,
            kinds: EventKinds::default(),
            beside: BesideRows::default(),
            queue: RunQueue::default(),
            irqs: IrqNames::default(),
            turns: Turns::default(),
            given: Box::new([NO_LANE; CPU_CACHE]),
        }
    }
}

impl Assembler {
    /// For a trace whose events name their virtual CPU and no thread (Xen).
    pub fn by_vcpu() -> Assembler {
        let recorded = RecordedTracepoints { hardware: true, ..RecordedTracepoints::default() };
        Assembler { recorded, lanes_by_vcpu: true, ..Assembler::default() }
    }

    /// For a trace that says this of itself.
    pub fn of(info: &TraceInfo) -> Assembler {
        let mut assembler = if info.by_vcpu { Assembler::by_vcpu() } else { Assembler::default() };
        assembler.know(info);
        assembler
    }

    /// Uses what the trace says of itself: which tracepoints were recorded, and whether the host polls.
    pub fn know(&mut self, info: &TraceInfo) {
        // perf keeps the formats of what it records (`record_event_files` of tools/perf/util/trace-event-info.c); trace-cmd may
        // keep others, too.
        let has = |name: &str| (info.format.starts_with("perf.data") || info.format == "live") && info.names.has(name);
        let recorded = RecordedTracepoints {
            switches: self.recorded.switches || has("sched:sched_switch"),
            halts: self.recorded.halts || has("kvm:kvm_vcpu_wakeup"),
            polls: self.recorded.polls || has("kvm:kvm_halt_poll_ns"),
            exits: self.recorded.exits || has("kvm:kvm_exit") || has("kvm_hv:kvm_guest_exit"),
            runs: self.recorded.runs || RUN_ENTERS.iter().any(|name| has(name)),
            no_polls: info.setting("kvm", "halt_poll_ns").is_some_and(|value| value.trim() == "0"),
            every_entry: version(&info.release).is_some_and(|version| !REENTERS_UNSAID.contains(&version)),
            ..self.recorded
        };
        self.now_recorded(recorded);
    }

    /// Uses events. Rows that they complete go to `rows`.
    pub fn push(&mut self, events: &[Event], rows: &mut impl ExitSink, ledger: &mut Ledger) {
        self.clear();
        if let (None, Some(first)) = (self.earliest, events.first()) {
            self.earliest = Some(first.at);
        }
        let is_known = self.recorded.exits && (self.lanes_by_vcpu || self.arch.is_some());
        let taken = if is_known { 0 } else { self.wait(events, rows, ledger) };
        for event in &events[taken..] {
            self.take(event, rows, ledger);
        }
    }

    /// Until the first exit nothing says whether lanes are threads, or whether exits are recorded at all: keeps the events from the first
    /// entry on. How many of these it has taken, or kept.
    #[cold]
    fn wait(&mut self, events: &[Event], rows: &mut impl ExitSink, ledger: &mut Ledger) -> usize {
        let is_exit = |event: &Event| matches!(event.kind, EventKind::Exit { .. });
        let first = if self.waiting.is_empty() {
            let first = events.iter().position(|event| is_exit(event) || event.kind == EventKind::Enter);
            first.unwrap_or(events.len())
        } else {
            0
        };
        events[..first].iter().for_each(|event| self.take_early(event, rows, ledger));
        let exit = events[first..].iter().position(is_exit).map(|at| first + at);
        let end = exit.unwrap_or(events.len());
        self.waiting.extend_from_slice(&events[first..end]);
        if let Some(exit) = exit {
            self.now_recorded(RecordedTracepoints { exits: true, ..self.recorded });
            self.go_by_vcpu(&events[exit], ledger);
        }
        if exit.is_some() || self.waiting.len() > MOST_WAITING {
            self.release(rows, ledger);
        }
        end
    }

    /// What waited has its turn.
    fn release(&mut self, rows: &mut impl ExitSink, ledger: &mut Ledger) {
        for event in std::mem::take(&mut self.waiting) {
            self.take_early(&event, rows, ledger);
        }
    }

    /// The same as [`Assembler::take`], which is in the way of all events and in line there.
    #[inline(never)]
    fn take_early(&mut self, event: &Event, rows: &mut impl ExitSink, ledger: &mut Ledger) {
        self.take(event, rows, ledger);
    }

    #[inline(always)]
    fn take(&mut self, event: &Event, rows: &mut impl ExitSink, ledger: &mut Ledger) {
        if event.at < self.latest {
            ledger.count(LedgerLine::OutOfOrder);
        } else {
            self.latest = event.at;
        }
        match (self.lanes_by_vcpu, self.by_runner) {
            (true, true) => self.turns.take(event),
            (true, false) => self.look_for_silence(event),
            (false, _) => {}
        }
        let lane = match event.kind {
            // It is no event of its own.
            EventKind::ExitInfo(info) => {
                let lane = self.find(event).and_then(|at| self.lanes.get_mut(at));
                return lane.and_then(|lane| lane.open.as_mut()).into_iter().for_each(|exit| exit.info = info);
            }
            EventKind::Exit { code, .. } => {
                self.has_hardware(ledger);
                if self.arch.is_none() {
                    self.arch = code.list.architecture().map(|of| of.row().machine);
                }
                if code.list == CodeList::PpcTrap && !self.lanes_by_vcpu {
                    self.go_by_vcpu(event, ledger);
                }
                let lane = self.lane(event).inspect(|&at| self.runs(event.at, at));
                if let (true, Some(at)) = (self.lanes_by_vcpu, lane) {
                    self.last_on_cpu[event.cpu.0 as usize % CPU_CACHE] = (event.cpu.0, at as u32);
                }
                lane
            }
            EventKind::Enter => {
                self.has_hardware(ledger);
                self.lane(event).inspect(|&at| self.enters(event.at, at))
            }
            EventKind::UserspaceExit { .. } => {
                self.kinds.handlers = true;
                self.lane(event)
            }
            EventKind::KvmOut => self.noted(event, |kinds| kinds.handlers = true),
            EventKind::Reflect => self.noted(event, |kinds| kinds.reflects = true),
            EventKind::Detail(of) => self.told(event, of),
            EventKind::Yield => self.lane(event),
            EventKind::KvmActivity(_) | EventKind::ApicvChange(_) => self.acts(event),
            EventKind::Idle(_) | EventKind::HostIrq { .. } => self.tells(event),
            EventKind::Switch { .. } => return self.switch(event, ledger),
            EventKind::Wakeup { tid } => return self.wakeup(event, tid, ledger),
            EventKind::RunState { from, to } => return self.run_state(event, from, to, ledger),
            EventKind::VcpuWake { paused } => return self.vcpu_wake(event, paused, ledger),
            EventKind::Lost { .. } => return self.lose(event, rows, ledger),
            EventKind::RunCore { .. } => return ledger.count(LedgerLine::OutsideExit),
            EventKind::HaltEnd { .. } if !self.recorded.halts && !self.lanes_by_vcpu => {
                self.now_recorded(RecordedTracepoints { halts: true, ..self.recorded });
                self.find(event)
            }
            EventKind::HaltEnd { ns, waited, valid } if self.lanes_by_vcpu => {
                self.vcore_halt(event, self.recorded.wakeup(ns, waited, valid));
                return ledger.count(LedgerLine::OutsideExit);
            }
            EventKind::RunEnter | EventKind::Fpu { load: true } => {
                self.kinds.runs = true;
                if !self.recorded.runs {
                    self.now_recorded(RecordedTracepoints { runs: true, ..self.recorded });
                }
                let lane = self.find(event);
                // Where kvm_entry never fires, KVM_RUN is what enters.
                if let (false, Some(at)) = (self.recorded.hardware, lane) {
                    self.enters(event.at, at);
                }
                lane
            }
            EventKind::VcpuHint | EventKind::HaltPoll { .. } => {
                let polls = event.kind != EventKind::VcpuHint;
                self.kinds.polls |= polls;
                if polls && !self.recorded.polls {
                    self.now_recorded(RecordedTracepoints { polls, ..self.recorded });
                }
                self.alias(event);
                self.find(event)
            }
            // Only an event of a thread that is a lane can fall into an exit.
            _ => self.find(event),
        };
        match lane.and_then(|at| Some((at, self.lanes.get_mut(at)?))) {
            Some((at, lane)) => {
                if lane.run != LaneRunState::Running && !self.lanes_by_vcpu {
                    lane.account(event.at);
                    self.comes_back(event.at, at);
                }
                if self.by_runner {
                    self.serves(event, at);
                } else if self.lanes_by_vcpu && matches!(event.kind, EventKind::Exit { .. } | EventKind::Enter) {
                    self.lanes[at].ran_at = event.at;
                }
                let lane = &mut self.lanes[at];
                lane.take(event, rows, &mut self.beside, ledger);
                self.look_beyond_lane(event, at);
            }
            None => ledger.count(match event.kind {
                EventKind::Exit { .. } | EventKind::Enter | EventKind::UserspaceExit { .. }
                    if self.lanes.len() >= MAX_LANES =>
                {
                    LedgerLine::TooManyVcpus
                }
                EventKind::Enter => LedgerLine::EntryWithoutExit,
                EventKind::Other => LedgerLine::OtherTracepoint,
                _ => LedgerLine::OutsideExit,
            }),
        }
    }

    /// The lane of an event of a kind that says something of the recording.
    fn noted(&mut self, event: &Event, note: impl FnOnce(&mut EventKinds)) -> Option<usize> {
        note(&mut self.kinds);
        self.find(event)
    }

    /// Ends the recording: open exits become rows that are counted but not timed. Returns every lane's span.
    pub fn finish(&mut self, rows: &mut impl ExitSink, ledger: &mut Ledger) -> Vec<LaneSpan> {
        let mut spans = Vec::new();
        self.clear();
        self.release(rows, ledger);
        self.queue.finish(self.latest);
        let long = self.earliest.take().and_then(|first| self.latest.since(first)).unwrap_or_default();
        for lane in &mut self.lanes {
            self.beside.yields.extend(lane.yielding.take());
            let after = self.latest.since(lane.since).filter(|_| lane.first.is_some() && lane.vm_ended.is_none());
            if after.is_some_and(|after| after.0.saturating_mul(ENDS_EARLY) > long.0) {
                ledger.count(LedgerLine::EndsEarly);
            }
            spans.extend(lane.finish(rows, &mut self.beside, ledger));
            ledger.add(LedgerLine::OutsideExit, u64::from(std::mem::take(&mut lane.early_events)));
            if lane.rows_without_hardware && !lane.recorded.hardware {
                ledger.count(LedgerLine::NoKvmExit);
            }
        }
        self.lanes.clear();
        self.index.clear();
        self.near.fill((NO_KEY, NO_LANE));
        self.lane_of_thread.clear();
        self.lanes_served.clear();
        self.running_on.clear();
        self.last_on_cpu.fill((u32::MAX, NO_LANE));
        self.last_event_on.fill((u32::MAX, Moment::default()));
        self.turns = Turns::default();
        spans
    }

    /// The host's architecture, as far as exits tell it: what `uname -m` begins with.
    pub fn arch(&self) -> Option<&'static str> {
        self.arch
    }

    /// Whether a virtual core's runner records for all its vCPUs (powerpc).
    pub fn is_by_runner(&self) -> bool {
        self.by_runner
    }

    /// How many vCPUs were last heard of before this moment.
    pub fn silent_since(&self, moment: Moment) -> usize {
        self.lanes.iter().filter(|lane| lane.first.is_some() && lane.since < moment).count()
    }

    /// Which kinds of events there were so far.
    pub fn kinds(&self) -> EventKinds {
        EventKinds { by_runner: self.by_runner, ..self.kinds }
    }

    /// The halts that ended in the last [`push`](Assembler::push) or [`finish`](Assembler::finish).
    pub fn halts(&self) -> &[Halt] {
        &self.beside.halts
    }

    /// The vCPUs' time of no exit that ended likewise.
    pub fn cpu_intervals(&self) -> &[CpuInterval] {
        &self.beside.cpu_intervals
    }

    /// The yields that ended likewise.
    pub fn yields(&self) -> &[Yield] {
        &self.beside.yields
    }

    /// The preemptions that ended likewise.
    pub fn preemptions(&self) -> &[Preemption] {
        &self.queue.rows.preemptions
    }

    /// The wake-ups after which vCPUs ran likewise.
    pub fn wake_ups(&self) -> &[ThreadWakeUp] {
        &self.queue.rows.wake_ups
    }

    /// How many vCPUs waited for a CPU, up to the last change.
    pub fn queue_stays(&self) -> &[RunQueueInterval] {
        &self.queue.rows.stays
    }

    /// Changes of windows of PAUSE loops.
    pub fn ple_updates(&self) -> &[PleUpdate] {
        &self.beside.ple_updates
    }

    /// Signs of what KVM does.
    pub fn kvm_activity(&self) -> &[KvmActivityEvent] {
        &self.beside.activities
    }

    /// All that ended likewise.
    pub fn beside_rows(&self) -> impl Iterator<Item = BesideRow<'_>> {
        self.beside.iter(&self.queue.rows)
    }

    fn clear(&mut self) {
        self.beside.clear();
        self.queue.rows.clear();
    }

    /// What threads are called that had a CPU for which a vCPU waited, as switches say; the names are given once.
    pub fn take_thread_names(&mut self) -> FxHashMap<Tid, ThreadName> {
        self.queue.take_names()
    }

    /// What the handlers of the host's interrupts are called, by IRQ; the names are given once.
    pub fn take_irq_names(&mut self) -> BTreeMap<u32, String> {
        std::mem::take(&mut self.irqs).texts()
    }

    /// How long vCPUs waited for a CPU, piece by piece, and who had that.
    pub fn steal_pieces(&self) -> &[StealPiece] {
        &self.queue.rows.steal
    }

    /// Which vCPU each thread was found to run: facts about rows made before that was known are completed with it.
    pub fn vcpus(&self) -> impl Iterator<Item = VcpuIdentity> + '_ {
        self.lanes.iter().map(|lane| lane.who).filter(|who| who.vcpu != VcpuId::UNKNOWN)
    }

    /// What an exit is about. Of what the host serves, threads that are no vCPU's are no lanes for it.
    fn told(&mut self, event: &Event, of: Subject) -> Option<usize> {
        if of.kind.is_of_host() {
            return self.find(event);
        }
        self.alias(event);
        self.lane(event)
    }

    /// KVM does something in this thread, in an exit or not.
    fn acts(&mut self, event: &Event) -> Option<usize> {
        let lane = self.find(event);
        let who = lane.and_then(|at| self.lanes.get(at)).map_or(VcpuIdentity::of(event), |lane| lane.who);
        let activity = match event.kind {
            EventKind::KvmActivity(activity) => activity,
            EventKind::ApicvChange(change) => {
                self.beside.apicv_changes.push(ApicvChangeEvent { who, at: event.at, change });
                change.activity()
            }
            _ => return lane,
        };
        self.beside.activities.push(KvmActivityEvent { who, at: event.at, activity });
        lane
    }

    /// A kernel tells of an idle CPU of its own, or of an interrupt, in an exit or not.
    fn tells(&mut self, event: &Event) -> Option<usize> {
        match event.kind {
            EventKind::Idle(of) => {
                let cpu = if let IdleEvent::WokenPolling { cpu } = of { cpu } else { event.cpu };
                self.beside.idle.push(IdleCpuEvent { at: event.at, cpu, event: of });
            }
            EventKind::HostIrq { irq, name } => self.irqs.note(irq, name),
            _ => {}
        }
        self.find(event)
    }

    /// The lane that the event is on, if there is one: that of its own thread, or on powerpc that of its vCPU.
    #[inline(always)]
    fn find(&mut self, event: &Event) -> Option<usize> {
        if self.lanes_by_vcpu {
            return match event.vcpu {
                VcpuId::UNKNOWN => self.lane_of_thread.get(&event.tid).map(|&at| at as usize),
                vcpu => self.of_key(vcpu_key(event.vm, vcpu)),
            };
        }
        let last = &mut self.last_on_cpu[event.cpu.0 as usize % CPU_CACHE];
        if last.0 != event.tid.0 {
            *last = (event.tid.0, self.index.get(&thread_key(event.tid)).copied().unwrap_or(NO_LANE));
        }
        (last.1 != NO_LANE).then_some(last.1 as usize)
    }

    /// The lane of a thread or of a vCPU.
    #[inline(always)]
    fn of_key(&mut self, key: u64) -> Option<usize> {
        let near = &mut self.near[place_near(key)];
        if near.0 != key {
            *near = (key, self.index.get(&key).copied().unwrap_or(NO_LANE));
        }
        (near.1 != NO_LANE).then_some(near.1 as usize)
    }

    /// Says whose lane it is.
    fn name(&mut self, key: u64, at: usize) {
        self.index.insert(key, at as u32);
        self.near[place_near(key)] = (key, at as u32);
    }

    /// The lane of an event that only a vCPU's lane can have, made if it is new.
    #[inline(always)]
    fn lane(&mut self, event: &Event) -> Option<usize> {
        let at = match self.find(event) {
            Some(at) => at,
            None => self.add(event)?,
        };
        if event.vcpu != VcpuId::UNKNOWN && self.lanes[at].who.vcpu != event.vcpu {
            self.learn(at, event.vcpu);
        }
        Some(at)
    }

    /// A lane turns out to be this vCPU's.
    #[cold]
    fn learn(&mut self, at: usize, vcpu: VcpuId) {
        let who = &mut self.lanes[at].who;
        who.vcpu = vcpu;
        let key = vcpu_key(who.vm, vcpu);
        if self.index.len() < 2 * MAX_LANES {
            self.name(key, at);
        }
    }

    #[cold]
    fn add(&mut self, event: &Event) -> Option<usize> {
        let Event { vm, vcpu, tid, .. } = *event;
        let (key, who) = match (self.lanes_by_vcpu, vcpu) {
            (false, vcpu) => (thread_key(tid), VcpuIdentity { vm, vcpu, tid }),
            (true, VcpuId::UNKNOWN) => return None,
            (true, vcpu) => (vcpu_key(vm, vcpu), VcpuIdentity { vm, vcpu, tid: Tid(0) }),
        };
        if self.lanes.len() >= MAX_LANES {
            return None;
        }
        if self.queue.has_sched_events() {
            self.queue.note_running(event.at, event.cpu);
        }
        self.name(key, self.lanes.len());
        if vcpu != VcpuId::UNKNOWN {
            // Also of a thread's lane: others yield to the vCPU by its number.
            self.name(vcpu_key(vm, vcpu), self.lanes.len());
        }
        self.lanes.push(Lane::new(who, self.recorded));
        self.last_on_cpu.fill((u32::MAX, NO_LANE));
        Some(self.lanes.len() - 1)
    }

    /// The back end fires `kvm_exit` and `kvm_entry`.
    #[inline]
    fn has_hardware(&mut self, ledger: &mut Ledger) {
        if !self.recorded.hardware {
            self.now_recorded(RecordedTracepoints { hardware: true, ..self.recorded });
            self.lanes.iter_mut().for_each(|lane| lane.release_held_rows(ledger));
        }
    }

    /// The recording turns out to hold this.
    #[cold]
    fn now_recorded(&mut self, recorded: RecordedTracepoints) {
        self.recorded = recorded;
        self.lanes.iter_mut().for_each(|lane| lane.recorded = recorded);
    }

    /// What an event on this lane says of other lanes, of yields and of its VM; each of the kinds of events that can say it.
    #[inline(always)]
    fn look_beyond_lane(&mut self, event: &Event, at: usize) {
        match event.kind {
            EventKind::Detail(_) => {
                self.look_for_yield(event, at);
                self.look_for_kick(event);
            }
            EventKind::UserspaceExit { .. } => self.look_for_end(event, at),
            EventKind::Enter => {}
            _ => self.look_for_yield(event, at),
        }
    }

    /// A vCPU sends one of its VM an IPI, or kicks one that waits for a paravirtual spinlock: `kvm_pv_kick_cpu_op` of `arch/x86/kvm/x86.c`. Local
    /// APICs have the numbers of their vCPUs, unless user space gives them others.
    #[inline(always)]
    fn look_for_kick(&mut self, event: &Event) {
        let EventKind::Detail(of) = event.kind else { return };
        if let Subject { kind: SubjectKind::Hypercall, key: KICK_CPU, value, .. } = of
            && let Some(lane) = self.sibling(event.vm, VcpuId(value as u32))
        {
            lane.halt.kick();
        } else if let Some((to, vector)) = ipi(&of)
            && let Some(lane) = self.sibling(event.vm, to)
        {
            lane.halt.ipi(vector);
        }
    }

    /// The lane of this vCPU of the VM.
    fn sibling(&mut self, vm: VmId, vcpu: VcpuId) -> Option<&mut Lane> {
        let at = *self.index.get(&vcpu_key(vm, vcpu))?;
        self.lanes.get_mut(at as usize)
    }

    /// Xen: what the vCPU that runs on the event's CPU did since the last event there, if that is long ago and it is in an exit, nothing
    /// explains.
    #[inline]
    fn look_for_silence(&mut self, event: &Event) {
        let last = &mut self.last_event_on[event.cpu.0 as usize % CPU_CACHE];
        let (cpu, before) = std::mem::replace(last, (event.cpu.0, event.at));
        if let Some(silence) = event.at.since(before).filter(|silence| cpu == event.cpu.0 && *silence > SILENCE) {
            let runs = |lane: &&mut Lane| lane.run == LaneRunState::Running && lane.switched_to == event.cpu;
            self.lanes.iter_mut().find(runs).into_iter().for_each(|lane| lane.was_silent(event.at, silence));
        }
    }

    /// A vCPU asks for the end of its VM: the time of those vCPUs that do not enter their guest again ends there. Without names of VMs, vCPUs are of one
    /// if no two have one number.
    #[inline(always)]
    fn look_for_end(&mut self, event: &Event, at: usize) {
        if let EventKind::UserspaceExit { reason, errno: 0.. } = event.kind
            && ENDS.contains(&reason)
        {
            self.end_vm(event.at, self.lanes[at].who.vm);
        }
    }

    #[cold]
    fn end_vm(&mut self, moment: Moment, vm: VmId) {
        let is_of_it = |lane: &Lane| lane.who.vm == vm;
        let numbers = self.lanes.iter().filter(|lane| is_of_it(lane)).map(|lane| lane.who.vcpu);
        if vm == VmId::UNKNOWN && least_vms(numbers) > 1 {
            return;
        }
        self.lanes.iter_mut().filter(|lane| is_of_it(lane)).for_each(|lane| lane.vm_ended = Some(moment));
    }

    /// On powerpc the vcore's runner records for all its vCPUs (`kvmppc_run_core` of `book3s_hv.c`), so there vCPUs are the lanes. An
    /// exit says so, before which no entry is taken; other events may have made lanes of threads, which are let go.
    fn go_by_vcpu(&mut self, event: &Event, ledger: &mut Ledger) {
        let EventKind::Exit { code, .. } = event.kind else { return };
        if code.list != CodeList::PpcTrap || event.vcpu == VcpuId::UNKNOWN {
            return;
        }
        (self.lanes_by_vcpu, self.by_runner) = (true, true);
        self.now_recorded(RecordedTracepoints { by_runner: true, ..self.recorded });
        self.queue = RunQueue::default();
        self.index.clear();
        self.near.fill((NO_KEY, NO_LANE));
        self.lanes.iter_mut().for_each(|lane| lane.release_held_rows(ledger));
    }

    /// On powerpc: the thread that recorded the event runs the vCPU that it names.
    fn alias(&mut self, event: &Event) {
        if self.lanes_by_vcpu
            && let Some(&at) = self.index.get(&vcpu_key(event.vm, event.vcpu))
            && (self.lane_of_thread.len() < MAX_LANES || self.lane_of_thread.contains_key(&event.tid))
        {
            self.lane_of_thread.insert(event.tid, at);
        }
    }

    /// On powerpc a virtual core halts when all its vCPUs have ceded; its runner tells of it.
    fn vcore_halt(&mut self, event: &Event, wakeup: VcpuWakeup) {
        let begin = Moment::from_nanos(event.at.as_nanos().saturating_sub(wakeup.length.0));
        let who = VcpuIdentity::of(event);
        let (asleep, woken, change, entered) = (None, None, None, None);
        let (kicked, ipi) = (false, None);
        self.beside.halts.push(Halt {
            who,
            begin,
            asleep,
            woken,
            vcpu_wakeup: Some(wakeup),
            change,
            kicked,
            ipi,
            end: event.at,
            entered,
        });
    }

    /// After a loss, what lanes on that CPU (on all, if it does not say which) did is hidden; on Xen, also of whatever waits: it
    /// may have run there meanwhile.
    fn lose(&mut self, event: &Event, rows: &mut impl ExitSink, ledger: &mut Ledger) {
        self.queue.lose(event.cpu);
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.lose(event.cpu, rows, &mut self.beside, ledger);
            if !lane.hidden || lane.state != LanePosition::Unknown {
                continue;
            }
            if std::mem::replace(&mut lane.run, LaneRunState::Running).waits() {
                self.queue.leave(event.at, lane.ran_on, lane.who.vm, number as u32, None);
            }
            self.beside.yields.extend(lane.yielding.take());
            lane.after_yield = false;
            lane.wake_up = Default::default();
            lane.halt = OpenHalt::default();
        }
    }
}

/// Where the key's lane is near at hand.
fn place_near(key: u64) -> usize {
    (key ^ key >> 32) as usize % NEAR
}

fn thread_key(tid: Tid) -> u64 {
    u64::from(tid.0)
}

fn vcpu_key(vm: VmId, vcpu: VcpuId) -> u64 {
    1 << 63 | u64::from(vm.0 & 0x7fff_ffff) << 32 | u64::from(vcpu.0)
}
