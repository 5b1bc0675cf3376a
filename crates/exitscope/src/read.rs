//! Reads traces: bytes → events → exit rows → whoever wants them.

use crate::cli::ClockArgs;
use anyhow::Context;
use exitscope_analysis::Counted;
use exitscope_model::{
    Assembler, Event, EventKinds, Exit, Halt, Kind, LaneSpan, Ledger, Line, PleUpdate, Preemption, QueueStay, Rows,
    Signed, Stretch, ThreadWakeUp, TraceInfo, Who, Yield,
};
use exitscope_trace::tracedat::{self, Session};
use exitscope_trace::{Input, Options};
use exitscope_units::{Moment, Tid, VcpuId};
use exitscope_view::TraceRow;
use indicatif::{ProgressBar, ProgressStyle};
use rustc_hash::FxHashMap;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files from this size on show a progress bar.
const SHOW_PROGRESS: u64 = 32 << 20;

/// Nanoseconds by which two recorders' moments of one and the same event may differ: each reads the clock itself.
const SLACK: u64 = 10_000;

/// What takes exit rows.
pub trait Sink {
    /// The trace's first event.
    fn begin(&mut self, first: Moment);
    /// Which kinds of events there were so far.
    fn heard(&mut self, _kinds: EventKinds) {}
    /// An event of a trace in which the scheduler speaks of virtual CPUs (Xen).
    fn schedule(&mut self, _event: &Event) {}
    /// A row.
    fn absorb(&mut self, exit: &Exit);
    /// A row; where it was counted, by one that counts.
    #[inline]
    fn count(&mut self, exit: &Exit) -> Option<Counted> {
        self.absorb(exit);
        None
    }
    /// A row that another sink of the same rows counted there.
    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, _counted: Counted) {
        self.absorb(exit);
    }
    /// A stretch of a vCPU's time that is of no exit.
    fn stretch(&mut self, _stretch: &Stretch) {}
    /// A halt.
    fn halt(&mut self, _halt: &Halt) {}
    /// A yield.
    fn yielded(&mut self, _of: &Yield) {}
    /// A vCPU that was preempted.
    fn preempted(&mut self, _of: &Preemption) {}
    /// A vCPU that was woken, and ran.
    fn woken(&mut self, _of: &ThreadWakeUp) {}
    /// A change of a window of PAUSE loops.
    fn ple_update(&mut self, _of: &PleUpdate) {}
    /// A sign of what KVM does.
    fn sign(&mut self, _of: &Signed) {}
    /// How many vCPUs waited for a CPU, and how long.
    fn queue_stay(&mut self, _stay: &QueueStay) {}
    /// Events of a recording in which a virtual core's runner records for all its vCPUs (powerpc).
    fn runner_events(&mut self, _events: &[Event]) {}
    /// Whether what is still to come would make no difference.
    fn is_full(&self) -> bool {
        false
    }
}

/// Both take everything.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn begin(&mut self, first: Moment) {
        self.0.begin(first);
        self.1.begin(first);
    }

    fn heard(&mut self, kinds: EventKinds) {
        self.0.heard(kinds);
        self.1.heard(kinds);
    }

    fn schedule(&mut self, event: &Event) {
        self.0.schedule(event);
        self.1.schedule(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        match self.0.count(exit) {
            Some(counted) => self.1.absorb_counted(exit, counted),
            None => self.1.absorb(exit),
        }
    }

    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, counted: Counted) {
        self.0.absorb_counted(exit, counted);
        self.1.absorb_counted(exit, counted);
    }

    fn stretch(&mut self, stretch: &Stretch) {
        self.0.stretch(stretch);
        self.1.stretch(stretch);
    }

    fn halt(&mut self, halt: &Halt) {
        self.0.halt(halt);
        self.1.halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.0.yielded(of);
        self.1.yielded(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.0.preempted(of);
        self.1.preempted(of);
    }

    fn woken(&mut self, of: &ThreadWakeUp) {
        self.0.woken(of);
        self.1.woken(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.0.ple_update(of);
        self.1.ple_update(of);
    }

    fn sign(&mut self, of: &Signed) {
        self.0.sign(of);
        self.1.sign(of);
    }

    fn queue_stay(&mut self, stay: &QueueStay) {
        self.0.queue_stay(stay);
        self.1.queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        self.0.runner_events(events);
        self.1.runner_events(events);
    }

    fn is_full(&self) -> bool {
        self.0.is_full() && self.1.is_full()
    }
}

/// What is known of a trace when it has been read.
pub struct Trace {
    pub row: TraceRow,
    pub info: TraceInfo,
    pub ledger: Ledger,
    /// First and last event, without what an earlier file of the same host holds.
    pub span: Option<(Moment, Moment)>,
    /// The stretches between them that earlier files hold.
    pub held: Vec<(Moment, Moment)>,
    /// Every vCPU's span, likewise.
    pub lanes: Vec<LaneSpan>,
    /// Which vCPU each thread runs.
    pub vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Exits made, and of those with both ends.
    pub exits: u64,
    pub timed_exits: u64,
    /// Whether nothing was made of it: a guest's own, beside others.
    pub is_left_out: bool,
}

/// What earlier files of a run hold, so that recordings that overlap are not counted twice.
#[derive(Default)]
pub struct Earlier {
    traces: Vec<EarlierTrace>,
    /// The names of guests' own recordings beside others, of which nothing is made.
    left_out: Vec<String>,
}

struct EarlierTrace {
    host: (String, String),
    span: (Moment, Moment),
    lanes: Vec<LaneSpan>,
}

/// Opens traces, each once: a pipe is put into a file, so that it can be read again.
pub fn open(files: &[PathBuf], clock: &ClockArgs) -> anyhow::Result<Vec<Input>> {
    files.iter().map(|path| open_one(path, clock)).collect()
}

/// Opens a trace. One that somebody else wrote is refused, unless it is asked for: as perf does, `perf_data__open` of
/// `tools/perf/util/data.c`.
pub fn open_one(path: &Path, clock: &ClockArgs) -> anyhow::Result<Input> {
    if let Ok(about) = path.metadata() {
        check_owner(path, &about, clock)?;
    }
    Ok(Input::open(path)?)
}

/// The same of a file that has been opened.
pub fn open_file(file: fs::File, path: &Path, clock: &ClockArgs) -> anyhow::Result<Input> {
    check_owner(path, &file.metadata()?, clock)?;
    Ok(Input::of_file(file, path)?)
}

fn check_owner(path: &Path, about: &fs::Metadata, clock: &ClockArgs) -> anyhow::Result<()> {
    if !clock.force
        && about.is_file()
        && about.uid() != 0
        && fs::metadata("/proc/self").is_ok_and(|own| own.uid() != about.uid())
    {
        anyhow::bail!("{} is owned by another user (uid {}); -f reads it all the same", path.display(), about.uid());
    }
    Ok(())
}

/// Reads one trace into `sink`. If `need_vcpus` and a vCPU's number turns up only after exits of it were seen, the
/// trace is read a second time, into a fresh sink.
pub fn read_input<S: Sink>(
    input: Input,
    earlier: &mut Earlier,
    need_vcpus: bool,
    options: Options,
    mut fresh: impl FnMut() -> S,
) -> anyhow::Result<(Trace, S)> {
    let mut vcpu_of = FxHashMap::default();
    let mut sink = fresh();
    let mut reading = read_once(input.try_clone()?, options, &vcpu_of, earlier, &mut sink)?;
    if need_vcpus && reading.late {
        vcpu_of = reading.trace.vcpu_of;
        sink = fresh();
        reading = read_once(input, options, &vcpu_of, earlier, &mut sink)?;
    }
    earlier.add(&reading.trace);
    Ok((reading.trace, sink))
}

/// Reads a trace into `sink`, once, as one in which threads are known to run these vCPUs.
pub fn read_knowing(
    input: Input,
    earlier: &mut Earlier,
    vcpu_of: &FxHashMap<Tid, VcpuId>,
    options: Options,
    sink: &mut impl Sink,
) -> anyhow::Result<Trace> {
    let trace = read_once(input, options, vcpu_of, earlier, sink)?.trace;
    earlier.add(&trace);
    Ok(trace)
}

struct Reading {
    trace: Trace,
    /// Whether a vCPU's number was learnt after rows without it had left.
    late: bool,
}

fn read_once(
    input: Input,
    options: Options,
    known: &FxHashMap<Tid, VcpuId>,
    earlier: &Earlier,
    sink: &mut impl Sink,
) -> anyhow::Result<Reading> {
    let name = input.name().to_string();
    let progress = progress_bar(input.len(), &name);
    let mut source = exitscope_trace::open_input(input, options)?;
    let mut ledger = Ledger::default();
    let by_vcpu = source.info().by_vcpu;
    let is_left_out = earlier.left_out.contains(&name);
    if is_left_out && !source.info().is_guests {
        ledger.count(Line::GuestRecording);
    }
    let mut assembler = if by_vcpu { Assembler::by_vcpu() } else { Assembler::default() };
    assembler.know(source.info());
    let mut events = Vec::new();
    let mut vcpu_of = known.clone();
    vcpu_of.extend(vcpus_by_name(source.info()));
    let before = earlier.of_host(source.info());
    let mut rows = Passing { sink, vcpu_of, before, exits: 0, timed_exits: 0, overlapping: 0, unnamed: Vec::new() };
    let (mut first, mut last) = (None, Moment::default());
    loop {
        events.clear();
        let more =
            source.read(&mut events, &mut ledger).with_context(|| format!("reading {name}"))? && !rows.sink.is_full();
        if let (None, Some(event)) = (first, events.first()) {
            first = Some(event.at);
            rows.sink.begin(event.at);
        }
        // In time order but for what came too late to be put in order.
        last = events.last().map_or(last, |event| last.max(event.at));
        if is_left_out {
            let recorded =
                events.drain(..).filter(|event| !matches!(event.kind, Kind::Lost { .. } | Kind::ExitInfo(_)));
            ledger.add(Line::GuestEvent, recorded.count() as u64);
        }
        if by_vcpu {
            events.iter().for_each(|event| rows.sink.schedule(event));
        }
        assembler.push(&events, &mut rows, &mut ledger);
        rows.pass_beside(&assembler);
        if assembler.is_by_runner() {
            rows.sink.runner_events(&events);
        }
        if let Some(bar) = &progress {
            bar.set_position(source.progress().0);
        }
        if !more {
            let lanes = finish(&mut assembler, source.info(), &mut rows, &mut ledger);
            rows.pass_beside(&assembler);
            ledger.add(Line::Overlapping, rows.overlapping);
            if let Some(bar) = progress {
                bar.finish_and_clear();
            }
            let mut info = source.info().clone();
            if let (true, false, Some(arch)) = (info.arch.is_empty(), by_vcpu, assembler.arch()) {
                info.arch = arch.to_string();
            }
            let (first, last) = match (first, ledger.skipped()) {
                (Some(first), Some(skipped)) => (first.min(skipped.0), last.max(skipped.1)),
                (None, Some(skipped)) => skipped,
                (first, None) => (first.unwrap_or_default(), last),
            };
            let row = TraceRow::of(name, &info, named_host(&info), (first, last), ledger.events);
            let Passing { vcpu_of, before, exits, timed_exits, unnamed, .. } = rows;
            let spans: Vec<_> = before.iter().map(|trace| trace.span).collect();
            let late = unnamed.iter().any(|tid| vcpu_of.contains_key(tid));
            let is_used = ledger.events > 0 && !is_left_out;
            let new = if is_used { beyond((first, last), &spans) } else { Vec::new() };
            let trace = Trace {
                row,
                info,
                span: hull(&new),
                held: new.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect(),
                lanes: lanes.iter().filter_map(|lane| beyond_earlier(lane, &before)).collect(),
                ledger,
                vcpu_of,
                exits,
                timed_exits,
                is_left_out,
            };
            return Ok(Reading { trace, late });
        }
    }
}

/// Passes on to a sink what was made of a trace.
struct Passing<'a, S> {
    sink: &'a mut S,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    /// What may hold some of it already.
    before: Vec<&'a EarlierTrace>,
    exits: u64,
    timed_exits: u64,
    /// Events of rows that an earlier trace holds.
    overlapping: u64,
    /// Threads of which rows left without a vCPU.
    unnamed: Vec<Tid>,
}

impl<S: Sink> Rows for Passing<'_, S> {
    #[inline(always)]
    fn take(&mut self, row: &Exit) {
        // Most say their vCPU, and most traces are of a time of their own.
        if row.who.vcpu != VcpuId::UNKNOWN && self.before.is_empty() {
            self.pass(row);
        } else {
            self.complete(row);
        }
    }
}

impl<S: Sink> Passing<'_, S> {
    #[inline(always)]
    fn pass(&mut self, exit: &Exit) {
        self.exits += 1;
        self.timed_exits += u64::from(exit.timed);
        self.sink.absorb(exit);
    }

    /// Passes the row on with its vCPU, if no earlier trace holds it.
    #[inline(never)]
    fn complete(&mut self, row: &Exit) {
        let exit = Exit { who: row.who.completed(&self.vcpu_of), ..*row };
        if exit.who.vcpu == VcpuId::UNKNOWN && !self.unnamed.contains(&exit.who.tid) {
            self.unnamed.push(exit.who.tid);
        }
        if self.before.iter().any(|trace| trace.holds(&exit.who, exit.at)) {
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
pub fn pass_all_beside(assembler: &Assembler, vcpu_of: &FxHashMap<Tid, VcpuId>, sink: &mut impl Sink) {
    pass_beside(assembler, vcpu_of, &[], sink);
}

/// Passes on what the assembler found beside rows.
fn pass_beside(
    assembler: &Assembler,
    vcpu_of: &FxHashMap<Tid, VcpuId>,
    before: &[&EarlierTrace],
    sink: &mut impl Sink,
) {
    sink.heard(assembler.kinds());
    // Of whom it is, if no earlier trace holds it.
    let new = |who: Who, at: Moment| {
        let who = who.completed(vcpu_of);
        (!before.iter().any(|trace| trace.holds(&who, at))).then_some(who)
    };
    for of in assembler.stretches() {
        new(of.who, of.from).into_iter().for_each(|who| sink.stretch(&Stretch { who, ..*of }));
    }
    for halt in assembler.halts() {
        new(halt.who, halt.begin).into_iter().for_each(|who| sink.halt(&Halt { who, ..*halt }));
    }
    for of in assembler.yields() {
        new(of.who, of.at).into_iter().for_each(|who| sink.yielded(&Yield { who, ..*of }));
    }
    for of in assembler.preemptions() {
        new(of.who, of.at).into_iter().for_each(|who| sink.preempted(&Preemption { who, ..*of }));
    }
    for of in assembler.wake_ups() {
        new(of.who, of.at).into_iter().for_each(|who| sink.woken(&ThreadWakeUp { who, ..*of }));
    }
    for of in assembler.ple_updates() {
        new(of.who, of.at).into_iter().for_each(|who| sink.ple_update(&PleUpdate { who, ..*of }));
    }
    let spans: Vec<_> = before.iter().map(|trace| trace.span).collect();
    let is_new = |at: Moment| !spans.iter().any(|span| span.0 <= at && at <= span.1);
    for of in assembler.signs().iter().filter(|of| is_new(of.at)) {
        sink.sign(of);
    }
    for stay in assembler.queue_stays() {
        for (from, to) in beyond((stay.from, stay.to), &spans) {
            sink.queue_stay(&QueueStay { from, to, ..*stay });
        }
    }
}

fn finish(
    assembler: &mut Assembler,
    info: &TraceInfo,
    rows: &mut Passing<'_, impl Sink>,
    ledger: &mut Ledger,
) -> Vec<LaneSpan> {
    rows.vcpu_of.extend(vcpus_by_name(info));
    rows.vcpu_of.extend(assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
    assembler.finish(rows, ledger)
}

/// The vCPUs that threads are named for.
fn vcpus_by_name(info: &TraceInfo) -> impl Iterator<Item = (Tid, VcpuId)> + '_ {
    info.comms.iter().filter_map(|(&tid, comm)| Some((Tid(tid), vcpu_by_name(comm)?)))
}

/// The vCPU that a thread is named for: QEMU's `CPU 3/KVM`, Firecracker's `fc_vcpu 3`, Cloud Hypervisor's `vcpu3`,
/// kvmtool's `kvm-vcpu-3`.
pub fn vcpu_by_name(comm: &str) -> Option<VcpuId> {
    let number = match comm.strip_prefix("CPU ") {
        Some(rest) => rest.strip_suffix("/KVM")?,
        None => ["fc_vcpu ", "kvm-vcpu-", "vcpu"].iter().find_map(|prefix| comm.strip_prefix(prefix))?,
    };
    Some(VcpuId(number.parse().ok()?))
}

/// The host's name; the kernel calls a host `(none)` before it has one.
fn named_host(info: &TraceInfo) -> &str {
    info.hostname.strip_prefix("(none)").unwrap_or(&info.hostname)
}

fn progress_bar(len: u64, name: &str) -> Option<ProgressBar> {
    if len < SHOW_PROGRESS || !std::io::stderr().is_terminal() {
        return None;
    }
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} {eta}");
    Some(ProgressBar::new(len).with_style(style.unwrap_or(ProgressStyle::default_bar())).with_prefix(name.to_string()))
}

impl Earlier {
    /// Nothing yet of a run of these files.
    pub fn of_run(inputs: &[Input]) -> Earlier {
        let left_out = if inputs.len() > 1 { guests_beside_hosts(inputs) } else { Vec::new() };
        Earlier { traces: Vec::new(), left_out }
    }

    fn add(&mut self, trace: &Trace) {
        if let Some(span) = trace.span {
            let host = (named_host(&trace.info).to_string(), trace.info.clock.clone());
            self.traces.push(EarlierTrace { host, span, lanes: trace.lanes.clone() });
        }
    }

    /// Earlier traces of the same host on the same clock.
    fn of_host(&self, info: &TraceInfo) -> Vec<&EarlierTrace> {
        let same = |trace: &&EarlierTrace| {
            !named_host(info).is_empty() && trace.host.0 == named_host(info) && trace.host.1 == info.clock
        };
        self.traces.iter().filter(same).collect()
    }
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

impl EarlierTrace {
    fn holds(&self, who: &Who, at: Moment) -> bool {
        let at = at.as_nanos();
        self.lanes.iter().any(|lane| {
            let (first, last) = (lane.first.as_nanos(), lane.last.as_nanos());
            same_lane(&lane.who, who) && (first.saturating_sub(SLACK)..=last.saturating_add(SLACK)).contains(&at)
        })
    }
}

fn same_lane(a: &Who, b: &Who) -> bool {
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

fn beyond_earlier(lane: &LaneSpan, before: &[&EarlierTrace]) -> Option<LaneSpan> {
    let spans = before.iter().flat_map(|trace| &trace.lanes).filter(|other| same_lane(&other.who, &lane.who));
    let spans: Vec<_> = spans.map(|other| (other.first, other.last)).collect();
    let (first, last) = hull(&beyond((lane.first, lane.last), &spans))?;
    Some(LaneSpan { first, last, ..*lane })
}

/// Fails if nothing could be read of the trace.
pub fn has_events(trace: &Trace) -> anyhow::Result<()> {
    match trace.ledger.is_unread() {
        true => anyhow::bail!("{}: no event could be read", trace.row.name),
        false => Ok(()),
    }
}

/// The files to read: as given, or the first of the peers' default names that is here.
pub fn files(given: &[PathBuf], inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    const DEFAULTS: [&str; 5] = ["perf.data.guest", "perf.data.kvm", "perf.data.host", "perf.data", "trace.dat"];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for path in given.iter().chain(inputs) {
        match known.insert(path.canonicalize().unwrap_or(path.clone())) {
            true => files.push(path.clone()),
            false => say!("{} is named twice; reading it once", path.display()),
        }
    }
    if !files.is_empty() {
        return Ok(files);
    }
    match DEFAULTS.iter().map(PathBuf::from).find(|path| path.is_file()) {
        Some(path) => {
            say!("reading {}", path.display());
            Ok(vec![path])
        }
        None => anyhow::bail!("no trace named, and none of {} is here", DEFAULTS.join(", ")),
    }
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
