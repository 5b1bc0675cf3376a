//! Reads traces: bytes → events → exit rows → whoever wants them.

use crate::earlier_exits::EarlierExits;
use crate::event_sketch::{EventSketch, MAX_CLOCK_SKEW_NS};
use exitscope_analysis::TraceSink;
use exitscope_model::{
    ApicvChangeEvent, Assembler, BOOT_ID, BesideRow, CpuInterval, EventKind, Exit, ExitSink, Halt, IdleCpuEvent,
    KvmActivityEvent, LaneSpan, Ledger, LedgerLine, PleUpdate, Preemption, RunQueueInterval, StealPiece, ThreadWakeUp,
    TraceInfo, VcpuIdentity, Yield, vcpu_by_name,
};
use exitscope_trace::tracedat::{self, Session};
use exitscope_trace::{EventSource, Input, SourceOptions, TraceError};
use exitscope_units::{Moment, Nanos, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Told how many bytes of a trace were read.
pub type Progress = Box<dyn FnMut(u64)>;

/// How traces are read.
#[derive(Clone, Copy)]
pub struct ReadOptions {
    /// What a trace does not say, and which of its events are passed on.
    pub source: SourceOptions,
    /// Whether a trace is read a second time if a vCPU's number turns up only after exits of it were seen.
    pub need_vcpus: bool,
    /// What is told how far the reading of a trace is, if anything.
    pub progress: fn(&Input) -> Option<Progress>,
}

/// Why nothing is known of a trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened, or not be read to its end; the error names it.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Nothing in it was understood.
    #[error("{name}: no event could be read")]
    NoEvent {
        /// The file.
        name: String,
    },
}

/// What is known of a trace when it has been read.
pub struct ReadTrace {
    /// The file.
    pub name: String,
    /// What the trace says of itself.
    pub info: TraceInfo,
    /// What was not used, and why.
    pub ledger: Ledger,
    /// First and last event.
    pub ends: (Moment, Moment),
    /// The same without what an earlier file of the same host holds.
    pub span: Option<(Moment, Moment)>,
    /// The stretches between them that earlier files hold.
    pub held: Vec<(Moment, Moment)>,
    /// Every vCPU's span, likewise.
    pub lanes: Vec<LaneSpan>,
    /// Which vCPU each thread runs.
    pub vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Exits made.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed_exits: u64,
    /// Whether nothing was made of it: a guest's own, beside others.
    pub is_left_out: bool,
    /// What tells whether others hold its events; `None` of one that is read alone.
    sketch: Option<Rc<EventSketch>>,
    /// Of each earlier trace, whether it was taken to hold events of this one.
    held_by: Vec<bool>,
    /// Of each, whether it has this one's exits, of those that it might have.
    found_in: Vec<Option<bool>>,
}

/// What a first reading of a trace found that a second needs; nothing is known before the first.
#[derive(Default)]
pub struct FirstReading {
    vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Of each earlier trace, whether it holds events of this one; `None`: those of the same host by name are taken to.
    held_by: Option<Vec<bool>>,
}

impl ReadTrace {
    /// The host's name.
    pub fn hostname(&self) -> &str {
        named_host(&self.info)
    }

    /// Whether a log of Xen's.
    pub fn is_xen(&self) -> bool {
        self.info.format.starts_with("xentrace")
    }

    /// Whether it adds something to `earlier` traces. What overlaps them is known; a trace that lasts as long as another, to the
    /// nanosecond, and has as many events is a copy of it on another clock.
    pub(crate) fn adds_to(&self, earlier: &[ReadTrace]) -> bool {
        let identity = |trace: &ReadTrace| {
            let TraceInfo { arch, release, clock, .. } = &trace.info;
            let of = [trace.hostname(), arch, release, clock].map(str::to_string);
            let (first, last) = trace.ends;
            (of, last.since(first), trace.ledger.events, trace.exits)
        };
        self.span.is_some() && !earlier.iter().any(|other| identity(other) == identity(self))
    }

    /// What a second reading needs.
    pub fn first_reading(&self) -> FirstReading {
        FirstReading { vcpu_of: self.vcpu_of.clone(), held_by: Some(self.held_by.clone()) }
    }

    /// Fails if nothing could be read of the trace.
    pub fn has_events(&self) -> Result<(), ReadError> {
        match self.ledger.is_unread() {
            true => Err(ReadError::NoEvent { name: self.name.clone() }),
            false => Ok(()),
        }
    }
}

/// What earlier files of a run hold, so that recordings that overlap are not counted twice.
#[derive(Default)]
pub struct EarlierFiles<'a> {
    traces: Vec<EarlierTrace<'a>>,
    /// Whether there are several, so that their events are compared.
    is_compared: bool,
    /// The names of guests' own recordings beside others, of which nothing is made.
    left_out: Vec<String>,
}

struct EarlierTrace<'a> {
    input: &'a Input,
    options: SourceOptions,
    host: (String, String),
    boot: Option<String>,
    machine: [String; 2],
    ends: (Moment, Moment),
    sketch: Option<Rc<EventSketch>>,
    span: (Moment, Moment),
    lanes: Vec<LaneSpan>,
}

/// Reads traces, of each of which `end` makes what `add` puts together; `None` of no trace.
pub fn read_all<S: TraceSink, T>(
    inputs: &[Input],
    options: ReadOptions,
    fresh: impl Fn() -> S,
    end: impl Fn(S, &ReadTrace) -> T,
    add: impl Fn(T, T) -> T,
) -> Result<(Option<T>, Vec<ReadTrace>), ReadError> {
    let (mut all, mut traces) = (None, Vec::new());
    let mut earlier = EarlierFiles::of_run(inputs);
    for input in inputs {
        let (trace, sink) = read_input(input, &mut earlier, options, &fresh)?;
        let of_trace = end(sink, &trace);
        all = Some(match all {
            Some(all) => add(all, of_trace),
            None => of_trace,
        });
        traces.push(trace);
    }
    Ok((all, traces))
}

/// Reads one trace that stands for itself.
pub fn read_alone<S: TraceSink>(
    input: &Input,
    options: ReadOptions,
    fresh: impl FnMut() -> S,
) -> Result<(ReadTrace, S), ReadError> {
    read_input(input, &mut EarlierFiles::default(), options, fresh)
}

/// Reads one trace into a sink; if need be a second time, into a fresh one: with what turned out of its vCPUs, and of which
/// earlier traces hold its events.
pub fn read_input<'a, S: TraceSink>(
    input: &'a Input,
    earlier: &mut EarlierFiles<'a>,
    options: ReadOptions,
    mut fresh: impl FnMut() -> S,
) -> Result<(ReadTrace, S), ReadError> {
    let mut sink = fresh();
    let mut reading = read_once(input, options, &FirstReading::default(), earlier, &mut sink)?;
    let is_late = options.need_vcpus && reading.late;
    let held_by = earlier.hold_events_of(&reading.trace);
    if is_late || held_by != reading.trace.held_by {
        let vcpu_of = if is_late { reading.trace.vcpu_of } else { FxHashMap::default() };
        sink = fresh();
        reading = read_once(input, options, &FirstReading { vcpu_of, held_by: Some(held_by) }, earlier, &mut sink)?;
    }
    earlier.add(input, options.source, &reading.trace);
    Ok((reading.trace, sink))
}

/// Reads a trace into `sink` once more.
pub fn read_again<'a>(
    input: &'a Input,
    earlier: &mut EarlierFiles<'a>,
    first: &FirstReading,
    options: ReadOptions,
    sink: &mut impl TraceSink,
) -> Result<ReadTrace, ReadError> {
    let trace = read_once(input, options, first, earlier, sink)?.trace;
    earlier.add(input, options.source, &trace);
    Ok(trace)
}

struct Reading {
    trace: ReadTrace,
    /// Whether a vCPU's number was learnt after rows without it had left.
    late: bool,
}

/// Reads a source of events that stands for itself and that no file has to be behind.
pub fn read_source(
    source: Box<dyn EventSource>,
    name: &str,
    sink: &mut impl TraceSink,
) -> Result<ReadTrace, ReadError> {
    Ok(read_events(source, name, None, &FirstReading::default(), &EarlierFiles::default(), sink)?.trace)
}

fn read_once(
    input: &Input,
    options: ReadOptions,
    known: &FirstReading,
    earlier: &EarlierFiles<'_>,
    sink: &mut impl TraceSink,
) -> Result<Reading, ReadError> {
    let progress = (options.progress)(input);
    let source = exitscope_trace::open_input(input.try_clone()?, options.source)?;
    read_events(source, input.name(), progress, known, earlier, sink)
}

fn read_events(
    mut source: Box<dyn EventSource>,
    name: &str,
    mut progress: Option<Progress>,
    known: &FirstReading,
    earlier: &EarlierFiles<'_>,
    sink: &mut impl TraceSink,
) -> Result<Reading, ReadError> {
    let mut ledger = Ledger::default();
    let by_vcpu = source.info().by_vcpu;
    let is_left_out = earlier.left_out.iter().any(|guest| guest == name);
    if is_left_out && !source.info().is_guests {
        ledger.count(LedgerLine::GuestRecording);
    }
    let mut assembler = Assembler::of(source.info());
    let mut events = Vec::new();
    let mut rows = Passing::new(sink, source.info(), known, earlier);
    let (mut first, mut last) = (None, Moment::default());
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger)? && !rows.sink.is_full();
        if let (None, Some(event)) = (first, events.first()) {
            first = Some(event.at);
            // What ended before is not in this trace: of an earlier one, it need not be kept.
            rows.come_to.1 = event.at;
            rows.sink.begin(event.at);
        }
        // In time order but for what came too late to be put in order.
        last = events.last().map_or(last, |event| last.max(event.at));
        rows.come_to = (rows.come_to.1, last);
        if is_left_out {
            let recorded =
                events.drain(..).filter(|event| !matches!(event.kind, EventKind::Lost { .. } | EventKind::ExitInfo(_)));
            ledger.add(LedgerLine::GuestEvent, recorded.count() as u64);
        }
        if by_vcpu {
            events.iter().for_each(|event| rows.sink.beside_row(BesideRow::SchedulerEvent(event)));
        }
        assembler.push(&events, &mut rows, &mut ledger);
        rows.pass_beside(&assembler);
        if assembler.is_by_runner() {
            events.iter().for_each(|event| rows.sink.beside_row(BesideRow::RunnerEvent(event)));
        }
        rows.has_read_earlier()?;
        if let Some(tell) = &mut progress {
            tell(source.progress().0);
        }
        if !more {
            let lanes = finish(&mut assembler, source.info(), &mut rows, &mut ledger);
            rows.pass_beside(&assembler);
            rows.has_read_earlier()?;
            ledger.add(LedgerLine::Overlapping, rows.overlapping);
            let info = learned(source.info().clone(), &mut assembler);
            let ends = ends(first, last, &ledger);
            return Ok(rows.into_reading(name, info, ends, &lanes, ledger, is_left_out));
        }
    }
}

/// From the first event to the last, those that were counted and not passed on included.
fn ends(first: Option<Moment>, last: Moment, ledger: &Ledger) -> (Moment, Moment) {
    match (first, ledger.skipped()) {
        (Some(first), Some(skipped)) => (first.min(skipped.0), last.max(skipped.1)),
        (None, Some(skipped)) => skipped,
        (first, None) => (first.unwrap_or_default(), last),
    }
}

/// Passes on to a sink what was made of a trace.
struct Passing<'a, S> {
    sink: &'a mut S,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    /// What may hold some of it already.
    before: Vec<BeforeTrace<'a>>,
    held_by: Vec<bool>,
    sketch: Option<EventSketch>,
    /// The moments that reading had come to before the events that are worked on now, and with them.
    come_to: (Moment, Moment),
    /// Why an earlier trace could not be read once more.
    failed: Option<TraceError>,
    exits: u64,
    timed_exits: u64,
    /// Events of rows that an earlier trace holds.
    overlapping: u64,
    /// Threads of which rows left without a vCPU.
    unnamed: Vec<Tid>,
}

/// An earlier trace that holds events of the one that is read.
struct BeforeTrace<'a> {
    trace: &'a EarlierTrace<'a>,
    /// Its exits, from the first on that may be there, too.
    exits: Option<EarlierExits>,
    /// Exits of the later trace between its vCPU's first and last here, and those of them that are here.
    compared: u64,
    found: u64,
}

impl<'a> BeforeTrace<'a> {
    fn new(trace: &'a EarlierTrace<'a>) -> BeforeTrace<'a> {
        BeforeTrace { trace, exits: None, compared: 0, found: 0 }
    }

    /// Whether its exits are the later trace's, but for losses; `None` where none could be.
    fn is_found(&self) -> Option<bool> {
        (self.compared > 0).then_some(self.found.saturating_mul(4) >= self.compared)
    }

    /// Whether it has this exit: between its vCPU's first and last it may lack some, where its recorder lost them.
    fn has(&mut self, exit: &Exit, gap: Option<Nanos>, come_to: (Moment, Moment)) -> Result<bool, TraceError> {
        if !self.trace.holds(&exit.who, exit.at) {
            return Ok(false);
        }
        let exits = match &mut self.exits {
            Some(exits) => exits,
            none => none.insert(EarlierExits::open(self.trace.input, self.trace.options)?),
        };
        exits.read_to(come_to.0, come_to.1)?;
        let has = exits.take(exit, gap);
        self.compared += 1;
        self.found += u64::from(has);
        Ok(has)
    }
}

impl<S: TraceSink> ExitSink for Passing<'_, S> {
    #[inline(always)]
    fn take(&mut self, row: &Exit) {
        // Most say their vCPU, and most traces are read alone.
        if row.who.vcpu != VcpuId::UNKNOWN && self.sketch.is_none() {
            self.pass(row);
        } else {
            self.complete(row);
        }
    }
}

impl<'a, S: TraceSink> Passing<'a, S> {
    fn new(sink: &'a mut S, info: &TraceInfo, known: &FirstReading, earlier: &'a EarlierFiles<'a>) -> Passing<'a, S> {
        let mut vcpu_of = known.vcpu_of.clone();
        vcpu_of.extend(vcpus_by_name(info));
        let held_by = known.held_by.clone().unwrap_or_else(|| earlier.are_of_host(info));
        let before = earlier.traces.iter().zip(&held_by).filter(|row| *row.1);
        Passing {
            sink,
            vcpu_of,
            before: before.map(|row| BeforeTrace::new(row.0)).collect(),
            held_by,
            sketch: earlier.is_compared.then(EventSketch::default),
            come_to: (Moment::default(), Moment::default()),
            failed: None,
            exits: 0,
            timed_exits: 0,
            overlapping: 0,
            unnamed: Vec::new(),
        }
    }

    /// Fails if an earlier trace could not be read once more.
    fn has_read_earlier(&mut self) -> Result<(), TraceError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What is known of the trace when all of it was passed on.
    fn into_reading(
        self,
        name: &str,
        info: TraceInfo,
        ends: (Moment, Moment),
        lanes: &[LaneSpan],
        ledger: Ledger,
        is_left_out: bool,
    ) -> Reading {
        let Passing { vcpu_of, before, held_by, sketch, exits, timed_exits, unnamed, .. } = self;
        let mut found = before.iter().map(BeforeTrace::is_found);
        let found_in = held_by.iter().map(|is_held| is_held.then(|| found.next()?).flatten()).collect();
        let spans: Vec<_> = before.iter().map(|before| before.trace.span).collect();
        let late = unnamed.iter().any(|tid| vcpu_of.contains_key(tid));
        let is_used = ledger.events > 0 && !is_left_out;
        let new = if is_used { beyond(ends, &spans) } else { Vec::new() };
        let trace = ReadTrace {
            name: name.to_string(),
            info,
            ends,
            span: hull(&new),
            held: new.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect(),
            lanes: lanes.iter().filter_map(|lane| beyond_earlier(lane, &before)).collect(),
            ledger,
            vcpu_of,
            exits,
            timed_exits,
            is_left_out,
            sketch: sketch.map(Rc::new),
            held_by,
            found_in,
        };
        Reading { trace, late }
    }

    #[inline(always)]
    fn pass(&mut self, exit: &Exit) {
        self.exits += 1;
        self.timed_exits += u64::from(exit.timed);
        self.sink.absorb(exit);
    }

    /// Passes the row on with its vCPU, if no earlier trace holds it.
    #[inline(never)]
    fn complete(&mut self, row: &Exit) {
        let gap = self.sketch.as_mut().and_then(|sketch| sketch.absorb(row));
        let exit = Exit { who: row.who.completed(&self.vcpu_of), ..*row };
        if exit.who.vcpu == VcpuId::UNKNOWN && !self.unnamed.contains(&exit.who.tid) {
            self.unnamed.push(exit.who.tid);
        }
        let mut is_held = false;
        for before in &mut self.before {
            match before.has(&exit, gap, self.come_to) {
                // One that two earlier ones have is done with in both.
                Ok(has) => is_held |= has,
                Err(error) => self.failed = Some(error),
            }
        }
        if is_held {
            self.overlapping += u64::from(exit.events);
        } else {
            self.pass(&exit);
        }
    }

    fn pass_beside(&mut self, assembler: &Assembler) {
        pass_beside(assembler, &self.vcpu_of, &self.before, self.sink);
    }
}

/// Passes on what the assembler found beside rows of a trace of which no earlier one holds anything.
pub fn pass_halts_and_yields(assembler: &Assembler, vcpu_of: &FxHashMap<Tid, VcpuId>, sink: &mut impl TraceSink) {
    pass_beside(assembler, vcpu_of, &[], sink);
}

/// Passes on what the assembler found beside rows.
fn pass_beside(
    assembler: &Assembler,
    vcpu_of: &FxHashMap<Tid, VcpuId>,
    before: &[BeforeTrace<'_>],
    sink: &mut impl TraceSink,
) {
    sink.note_event_kinds(assembler.kinds());
    // Of whom it is, if no earlier trace holds it.
    let new = |who: VcpuIdentity, at: Moment| {
        let who = who.completed(vcpu_of);
        (!before.iter().any(|before| before.trace.holds(&who, at))).then_some(who)
    };
    let spans: Vec<_> = before.iter().map(|before| before.trace.span).collect();
    let is_new = |at: Moment| !spans.iter().any(|span| span.0 <= at && at <= span.1);
    assembler.beside_rows().for_each(|row| match row {
        BesideRow::CpuInterval(of) => {
            if let Some(who) = new(of.who, of.from) {
                sink.beside_row(BesideRow::CpuInterval(&CpuInterval { who, ..*of }));
            }
        }
        BesideRow::Halt(of) => {
            if let Some(who) = new(of.who, of.begin) {
                sink.beside_row(BesideRow::Halt(&Halt { who, ..*of }));
            }
        }
        BesideRow::Yield(of) => {
            if let Some(who) = new(of.who, of.at) {
                sink.beside_row(BesideRow::Yield(&Yield { who, ..*of }));
            }
        }
        BesideRow::Preemption(of) => {
            if let Some(who) = new(of.who, of.at) {
                sink.beside_row(BesideRow::Preemption(&Preemption { who, ..*of }));
            }
        }
        BesideRow::WakeUp(of) => {
            if let Some(who) = new(of.who, of.at) {
                sink.beside_row(BesideRow::WakeUp(&ThreadWakeUp { who, ..*of }));
            }
        }
        BesideRow::StealPiece(of) => {
            if let Some(who) = new(of.who, of.from) {
                sink.beside_row(BesideRow::StealPiece(&StealPiece { who, ..*of }));
            }
        }
        BesideRow::PleUpdate(of) => {
            if let Some(who) = new(of.who, of.at) {
                sink.beside_row(BesideRow::PleUpdate(&PleUpdate { who, ..*of }));
            }
        }
        BesideRow::KvmActivity(KvmActivityEvent { at, .. })
        | BesideRow::ApicvChange(ApicvChangeEvent { at, .. })
        | BesideRow::Idle(IdleCpuEvent { at, .. }) => {
            if is_new(*at) {
                sink.beside_row(row);
            }
        }
        // The rule: there are as many of these as switches.
        BesideRow::QueueStay(_) if spans.is_empty() => sink.beside_row(row),
        BesideRow::QueueStay(stay) => {
            for (from, to) in beyond((stay.from, stay.to), &spans) {
                sink.beside_row(BesideRow::QueueStay(&RunQueueInterval { from, to, ..*stay }));
            }
        }
        // Events are passed on as they are read.
        BesideRow::SchedulerEvent(_) | BesideRow::RunnerEvent(_) => {}
    });
}

fn finish(
    assembler: &mut Assembler,
    info: &TraceInfo,
    rows: &mut Passing<'_, impl TraceSink>,
    ledger: &mut Ledger,
) -> Vec<LaneSpan> {
    rows.vcpu_of.extend(vcpus_by_name(info));
    rows.vcpu_of.extend(assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
    assembler.finish(rows, ledger)
}

/// What the trace says of itself, with what its events tell: who had the CPUs for which vCPUs waited, and the architecture.
fn learned(mut info: TraceInfo, assembler: &mut Assembler) -> TraceInfo {
    for (tid, name) in assembler.take_thread_names() {
        if let Some(name) = name.text() {
            info.comms.entry(tid.0).or_insert_with(|| name.into_owned());
        }
    }
    info.irqs.extend(assembler.take_irq_names());
    if let (true, false, Some(arch)) = (info.arch.is_empty(), info.by_vcpu, assembler.arch()) {
        info.arch = arch.to_string();
    }
    info
}

/// The vCPUs that threads are named for.
fn vcpus_by_name(info: &TraceInfo) -> impl Iterator<Item = (Tid, VcpuId)> + '_ {
    info.comms.iter().filter_map(|(&tid, comm)| Some((Tid(tid), vcpu_by_name(comm)?)))
}

/// The host's name; the kernel calls a host `(none)` before it has one.
fn named_host(info: &TraceInfo) -> &str {
    info.hostname.strip_prefix("(none)").unwrap_or(&info.hostname)
}

impl<'a> EarlierFiles<'a> {
    /// Nothing yet of a run of these files.
    pub fn of_run(inputs: &[Input]) -> EarlierFiles<'a> {
        let left_out = if inputs.len() > 1 { guests_beside_hosts(inputs) } else { Vec::new() };
        EarlierFiles { traces: Vec::new(), is_compared: inputs.len() > 1, left_out }
    }

    fn add(&mut self, input: &'a Input, options: SourceOptions, trace: &ReadTrace) {
        if let Some(span) = trace.span {
            self.traces.push(EarlierTrace {
                input,
                options,
                host: host_and_clock(&trace.info),
                boot: boot(&trace.info),
                machine: machine(&trace.info),
                ends: trace.ends,
                sketch: trace.sketch.clone(),
                span,
                lanes: trace.lanes.clone(),
            });
        }
    }

    /// Of each, whether it is of the same host by name.
    fn are_of_host(&self, info: &TraceInfo) -> Vec<bool> {
        self.traces.iter().map(|trace| trace.is_of_host(info)).collect()
    }

    /// Of each, whether it holds events of a trace that was read: by the boot, by the exits, or where there are none by the host's name.
    fn hold_events_of(&self, trace: &ReadTrace) -> Vec<bool> {
        let is_held = |(of, found): (&EarlierTrace<'_>, &Option<bool>)| {
            let by_exits = || match (of.has_events_of(trace), found) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (sketched, found) => sketched.or(*found),
            };
            of.is_of_boot(&trace.info).or_else(by_exits).unwrap_or(of.is_of_host(&trace.info))
        };
        self.traces.iter().zip(&trace.found_in).map(is_held).collect()
    }
}

/// What else tells machines apart, where a recording says it.
fn machine(info: &TraceInfo) -> [String; 2] {
    [info.arch.clone(), info.release.clone()]
}

/// What the host's kernel called this boot, if the recorder says.
fn boot(info: &TraceInfo) -> Option<String> {
    info.setting("host", BOOT_ID).filter(|id| !id.is_empty()).map(str::to_string)
}

/// Moments of one host's clock may be compared.
pub(crate) fn host_and_clock(info: &TraceInfo) -> (String, String) {
    (named_host(info).to_string(), info.clock.clone())
}

/// The names of those that are guests' own: whose clock was measured against a host's, or which the recording of their
/// host names. Where there is nothing but those, each stands for itself.
fn guests_beside_hosts(inputs: &[Input]) -> Vec<String> {
    let sessions: Vec<_> = inputs.iter().map(tracedat::session).collect();
    let is_named = |id: u64| sessions.iter().any(|other| other.guests.contains(&id));
    let is_guests = |session: &Session| session.host.is_some() || session.id.is_some_and(is_named);
    let names = inputs.iter().zip(&sessions).filter(|(_, session)| is_guests(session));
    let names: Vec<String> = names.map(|(input, _)| input.name().to_string()).collect();
    if names.len() < inputs.len() { names } else { Vec::new() }
}

impl EarlierTrace<'_> {
    /// Whether of the same host by name, on the same clock: then what was recorded at the same time is taken for the same, unless
    /// the events say otherwise.
    fn is_of_host(&self, info: &TraceInfo) -> bool {
        !self.host.0.is_empty() && self.host == host_and_clock(info) && self.is_of_boot(info) != Some(false)
    }

    /// Whether of the same boot, if both recorders say which; each boot has a clock of its own.
    fn is_of_boot(&self, info: &TraceInfo) -> Option<bool> {
        Some(*self.boot.as_ref()? == boot(info)? && self.host == host_and_clock(info))
    }

    /// Whether the events of the time of both are the same ones. A clock that begins anew, with each boot or simulation, comes by the
    /// same moments again.
    fn has_events_of(&self, trace: &ReadTrace) -> Option<bool> {
        let between = (self.ends.0.max(trace.ends.0), self.ends.1.min(trace.ends.1));
        let is_like = |(ours, theirs): (&String, &String)| ours.is_empty() || theirs.is_empty() || ours == theirs;
        let is_of_machine = self.machine.iter().zip(&machine(&trace.info)).all(is_like);
        let is_possible = between.0 <= between.1 && host_and_clock(&trace.info) == self.host && is_of_machine;
        trace.sketch.as_ref()?.is_same(self.sketch.as_ref().filter(|_| is_possible)?, between)
    }

    fn holds(&self, who: &VcpuIdentity, at: Moment) -> bool {
        let at = at.as_nanos();
        self.lanes.iter().any(|lane| {
            let (first, last) = (lane.first.as_nanos(), lane.last.as_nanos());
            same_lane(&lane.who, who)
                && (first.saturating_sub(MAX_CLOCK_SKEW_NS)..=last.saturating_add(MAX_CLOCK_SKEW_NS)).contains(&at)
        })
    }
}

fn same_lane(a: &VcpuIdentity, b: &VcpuIdentity) -> bool {
    a.vm == b.vm && a.tid == b.tid && (a.tid != Tid(0) || a.vcpu == b.vcpu)
}

/// The stretches of `span` that lie outside the others, in order.
fn beyond(span: (Moment, Moment), others: &[(Moment, Moment)]) -> Vec<(Moment, Moment)> {
    let mut left = vec![span];
    for &(from, to) in others {
        let outside = |whole: (Moment, Moment)| {
            let parts = [(whole.0, whole.1.min(from)), (whole.0.max(to), whole.1)];
            parts.into_iter().filter(move |part| part.0 < part.1 || *part == whole)
        };
        left = left.into_iter().flat_map(outside).collect();
    }
    left
}

/// From the first of these stretches to the last.
fn hull(stretches: &[(Moment, Moment)]) -> Option<(Moment, Moment)> {
    Some((stretches.first()?.0, stretches.last()?.1))
}

fn beyond_earlier(lane: &LaneSpan, before: &[BeforeTrace<'_>]) -> Option<LaneSpan> {
    let spans = before.iter().flat_map(|before| &before.trace.lanes).filter(|other| same_lane(&other.who, &lane.who));
    let spans: Vec<_> = spans.map(|other| (other.first, other.last)).collect();
    let (first, last) = hull(&beyond((lane.first, lane.last), &spans))?;
    Some(LaneSpan { first, last, ..*lane })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_recordings_hold_is_taken_out_wherever_it_lies() {
        type Span = (u64, u64);
        let moments = |(from, to): Span| (Moment::from_nanos(from), Moment::from_nanos(to));
        let cases: [(&[Span], &[Span]); 8] = [
            (&[], &[(10, 50)]),
            (&[(0, 5), (60, 70)], &[(10, 50)]),
            (&[(0, 20)], &[(20, 50)]),
            (&[(40, 90)], &[(10, 40)]),
            // One within, which has a part on each side.
            (&[(20, 30)], &[(10, 20), (30, 50)]),
            (&[(25, 30), (20, 27), (45, 60)], &[(10, 20), (30, 45)]),
            (&[(0, 30), (30, 60)], &[]),
            (&[(10, 50)], &[]),
        ];
        for (others, left) in cases {
            let others: Vec<_> = others.iter().copied().map(moments).collect();
            assert_eq!(beyond(moments((10, 50)), &others), left.iter().copied().map(moments).collect::<Vec<_>>());
        }
        // A single event.
        assert_eq!(beyond(moments((10, 10)), &[moments((20, 30))]), [moments((10, 10))]);
        assert_eq!(beyond(moments((10, 10)), &[moments((5, 30))]), []);
    }
}
