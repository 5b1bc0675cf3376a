//! Traces as text: ftrace's `trace` and `trace_pipe`, `trace-cmd report`, `perf script`.
//!
//! ```text
//! lines ─► layout: thread, CPU, time, name, fields ─► fields of one print fmt ─► one event
//! "  qemu-229 [001] d..1. 87.534187: kvm_exit: vcpu 0 reason npf rip 0xfff0 …"  ─►  Exit npf of vCPU 0 at 87.534187 s
//! ```
//!
//! Text is what a program printed of a trace; what it left out is gone. ftrace rounds times to microseconds,
//! trace-cmd's plugin leaves out the vCPU of `kvm_exit`, and only some layouts name the process.

mod by_vcpu;
mod flaw;
mod ftrace;
mod layout;
mod lines;
mod perf;
mod quote;
mod refused;

use crate::source::{BATCH, MAX_COMM, MAX_THREADS};
use crate::tracepoints::printed::{Reasons, exit_info, read_fields};
use crate::tracepoints::{TracepointRow, of_text};
use crate::{EventSource, Input, SourceOptions, TraceError};
use by_vcpu::ByVcpu;
use exitscope_model::{Event, EventKind, Ledger, LedgerLine, NameId, TraceInfo};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use flaw::Flaw;
use layout::{LineColumns, LineKind, NO_TASK, TextDialect, join, may_be_rest};
pub(crate) use lines::{Lines, NextLine};
use refused::{LineAt, OrderCheck, Refusal, ThreadCheck};
use rustc_hash::FxHashMap;

/// Lines that one call to [`EventSource::read`] looks at, at most: a text may hold few events.
const LINES_AT_ONCE: u64 = 64 * BATCH as u64;

/// So many unusable lines are no accident, where fewer are events.
const ENOUGH_UNUSABLE: u64 = 64;

/// Longer lines are not put together with the next one, in bytes: mail programs break lines far below.
const MAX_WRAPPED: usize = 512;

/// Different event names that are told apart, at most.
const MAX_NAMES: usize = u16::MAX as usize;

/// Whether the first bytes are of this format.
pub fn looks_like(head: &[u8]) -> bool {
    // The caller gives 4 KiB; fewer bytes are the whole file.
    layout_of(head, head.len() < 4096, quote::mark(head)).is_some()
}

/// Whether a text is refused because its lines name no thread, or have no time. How often events came can still be counted.
pub fn lacks_columns(input: &Input) -> Result<bool, TraceError> {
    let mut source = open(input.try_clone()?, SourceOptions::default())?;
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    loop {
        match source.read(&mut events, &mut ledger) {
            Ok(true) => events.clear(),
            Ok(false) => return Ok(false),
            Err(TraceError::Unsupported { what, .. }) => {
                return Ok([Flaw::NoThread, Flaw::NoTime].iter().any(|flaw| what.ends_with(flaw.problem())));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Which program printed a text that begins with `head`, its lines after `mark`. `whole`: nothing comes after.
fn layout_of(head: &[u8], whole: bool, mark: Option<u8>) -> Option<TextDialect> {
    let end = match head.iter().rposition(|&byte| byte == b'\n') {
        Some(end) if !whole => end,
        _ => head.len(),
    };
    TextDialect::of(head[..end].split(|&byte| byte == b'\n').map(|line| unmarked(line, mark)))
}

/// A line without its end and without `mark`.
#[inline]
fn unmarked(line: &[u8], mark: Option<u8>) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    mark.map_or(line, |mark| quote::strip(line, mark))
}

/// Opens it.
pub fn open(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    let mark = quote::mark(&input.read_vec(0, 4096)?);
    Ok(match by_vcpu::with_threads(&input, |line| unmarked(line, mark))? {
        Some(text) => {
            let text = open_with_threads(Input::from_bytes(input.name(), &text)?, options)?;
            Box::new(ByVcpu { text, is_said: false })
        }
        None => open_with_threads(input, options)?,
    })
}

/// Opens one whose lines name threads.
fn open_with_threads(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    let head = input.read_vec(0, 4096)?;
    let mark = quote::mark(&head);
    let layout = layout_of(&head, input.len() <= head.len() as u64, mark).unwrap_or(TextDialect::Ftrace);
    let mut info = TraceInfo { format: layout.name().to_string(), ..TraceInfo::default() };
    // Whose it is has to be known before it is read.
    head.split(|&byte| byte == b'\n').for_each(|line| note_header(unmarked(line, mark), &mut info));
    Ok(Box::new(Text {
        mark,
        lines: Lines::new(input),
        reader: Reader {
            info,
            layout,
            exit_info: options.exit_info,
            wrapped: Vec::new(),
            wrapped_at: LineAt::default(),
            last_event: Vec::new(),
            known: FxHashMap::default(),
            reasons: Reasons::new(),
            says_losses: false,
            header: Header::default(),
            missing: 0,
            lost: Vec::new(),
            latest: Moment::default(),
            events: 0,
            unusable: None,
            order: OrderCheck::default(),
            threads: ThreadCheck::default(),
        },
    }))
}

/// A text trace being read.
struct Text {
    /// What is before each line, where people quote it.
    mark: Option<u8>,
    lines: Lines,
    reader: Reader,
}

/// What makes events of lines.
struct Reader {
    info: TraceInfo,
    layout: TextDialect,
    /// Whether an exit is followed by what it says besides.
    exit_info: bool,
    /// The last line, if it is no event yet and may be one together with the next, and where it is.
    wrapped: Vec<u8>,
    wrapped_at: LineAt,
    /// The last line, if it is an event, which may go on in the next.
    last_event: Vec<u8>,
    /// Event names met so far, as printed.
    known: FxHashMap<Box<[u8]>, Known>,
    reasons: Reasons,
    /// Whether it would say that records were lost.
    says_losses: bool,
    /// The last header that says what is in the buffers.
    header: Header,
    /// Events that headers before it were of, and that did not follow them.
    missing: u64,
    /// Losses met since the last event, CPU and count: they happened before the next one.
    lost: Vec<(u32, u64)>,
    latest: Moment,
    /// Events read so far.
    events: u64,
    /// Lines that lack what accounting needs: what the first of them lacks, where it is, and how many there are.
    unusable: Option<(Flaw, LineAt, u64)>,
    order: OrderCheck,
    threads: ThreadCheck,
}

/// What tracefs' `trace` says of its buffers, of all CPUs' also where it is one CPU's (`print_event_info` and
/// `get_total_entries` of kernel/trace/trace.c).
#[derive(Clone, Copy, Default)]
struct Header {
    /// Events in the buffers, which follow unless somebody cut or filtered the text.
    kept: u64,
    /// Those that were there before.
    overwritten: u64,
    /// Events, and lines that may have been some, above it.
    seen: u64,
}

/// What an event name means.
#[derive(Clone, Copy)]
enum Known {
    /// A tracepoint, and its row if accounting uses it.
    Tracepoint(NameId, Option<&'static TracepointRow>),
    /// A hardware or software event of perf.
    Sample,
}

impl EventSource for Text {
    fn info(&self) -> &TraceInfo {
        &self.reader.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let enough = events.len() + BATCH;
        let last = self.lines.number + LINES_AT_ONCE;
        while events.len() < enough && self.lines.number < last {
            if !self.read_line(events, ledger)? {
                self.reader.release_losses(self.reader.latest, events);
                if !self.reader.says_losses && self.reader.events > 0 {
                    ledger.count(LedgerLine::LossUnknown);
                }
                self.reader.begin_part(Header::default(), ledger);
                ledger.add(LedgerLine::MissingLines, self.reader.missing);
                if self.lines.unended > 0 {
                    ledger.add_at(LedgerLine::TruncatedBytes, self.lines.unended, self.lines.number);
                }
                if self.lines.input.truncation().is_some() {
                    ledger.count_at(LedgerLine::BadCompression, self.lines.number);
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn progress(&self) -> (u64, u64) {
        (self.lines.done(), self.lines.input.len())
    }
}

impl Text {
    /// Reads one line; false at the end.
    fn read_line(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let at = LineAt { offset: self.lines.done(), number: self.lines.number + 1 };
        let read = match self.lines.next_line()? {
            NextLine::Line(line) => self.reader.line(unmarked(line, self.mark), at, events, ledger),
            NextLine::TooLong => {
                let read = self.reader.end_wrapped(events, ledger);
                ledger.count_at(LedgerLine::BadText, at.number);
                read
            }
            NextLine::End => {
                let read = self.reader.end_wrapped(events, ledger).and_then(|()| self.reader.check_at_end());
                return read.map(|()| false).map_err(|why| why.of(self.lines.input.name()));
            }
        };
        read.map(|()| true).map_err(|why| why.of(self.lines.input.name()))
    }
}

impl Reader {
    /// Reads one line. Mail programs wrap lines, so one that is no event is tried together with the next.
    #[inline]
    fn line(&mut self, line: &[u8], at: LineAt, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<(), Refusal> {
        if !self.wrapped.is_empty() {
            if self.is_joined(line, events, ledger)? {
                return Ok(());
            }
            self.end_wrapped(events, ledger)?;
        }
        let may_be_wrapped = line.len() <= MAX_WRAPPED;
        let before = events.len();
        let is_taken = self.take(line, at, !may_be_wrapped, events, ledger)?;
        if !is_taken && self.goes_on(line, events) {
            return Ok(());
        }
        self.last_event.clear();
        if !is_taken {
            self.wrapped.extend_from_slice(line);
            self.wrapped_at = at;
        } else if events.len() > before && may_be_wrapped {
            self.last_event.extend_from_slice(line);
        }
        Ok(())
    }

    /// Whether `line` is the rest of the event before, which was understood without it; what the rest says of it is added.
    #[cold]
    fn goes_on(&mut self, line: &[u8], events: &mut [Event]) -> bool {
        if self.last_event.is_empty() || self.last_event.len() > MAX_WRAPPED || !are_fields(line) {
            return false;
        }
        let mut whole = self.last_event.clone();
        join(&mut whole, line);
        let LineKind::Event(columns) = self.layout.read(&whole) else { return false };
        let row = match self.known.get(columns.name) {
            Some(Known::Tracepoint(_, row)) => *row,
            _ => return false,
        };
        if let Some(row) = row {
            let Some((kind, vcpu)) = read_fields(row.text, columns.fields, &mut self.reasons) else { return false };
            // The last one, and what it says besides. Where it was handed out meanwhile, it is as it was.
            let mut last = events.iter_mut().rev();
            let mut event = last.next();
            if let Some(Event { kind: EventKind::ExitInfo(info), .. }) = &mut event {
                *info = exit_info(columns.fields).unwrap_or(*info);
                event = last.next();
            }
            if let Some(event) = event {
                (event.kind, event.vcpu) = (kind, vcpu);
            }
        }
        self.last_event = whole;
        true
    }

    /// Whether `line` is the rest of the line before.
    #[cold]
    fn is_joined(&mut self, line: &[u8], events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, Refusal> {
        if line.len() > MAX_WRAPPED || !may_be_rest(self.layout.read(line)) {
            return Ok(false);
        }
        let mut whole = self.wrapped.clone();
        join(&mut whole, line);
        let taken = match self.layout.read(&whole) {
            LineKind::Event(_) => self.take(&whole, self.wrapped_at, false, events, ledger)?,
            _ => false,
        };
        if taken {
            self.wrapped.clear();
        }
        Ok(taken)
    }

    /// Counts the line before, which is no event with the next one either.
    #[inline]
    fn end_wrapped(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<(), Refusal> {
        if self.wrapped.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.wrapped);
        self.take(&line, self.wrapped_at, true, events, ledger).map(|_| ())
    }

    /// Makes of a line what it is. One that is no event, or whose fields are not understood, is left unless `is_whole`: then
    /// this returns false.
    #[inline]
    fn take(
        &mut self,
        line: &[u8],
        at: LineAt,
        is_whole: bool,
        events: &mut Vec<Event>,
        ledger: &mut Ledger,
    ) -> Result<bool, Refusal> {
        let columns = match self.layout.read(line) {
            LineKind::Event(columns) => columns,
            LineKind::Silent | LineKind::Other => return Ok(true),
            LineKind::Lost { cpu, count } => {
                self.says_losses = true;
                ledger.add(LedgerLine::LostRecords, count.max(1));
                self.lose(cpu, count, events);
                return Ok(true);
            }
            LineKind::SaysLosses { overwritten, kept, cpus } => {
                self.info.cpus = cpus.unwrap_or(self.info.cpus);
                self.says_losses = true;
                // `per_cpu/cpu*/trace` one after the other: each one's header counts the events of all CPUs.
                let is_of_same = kept > 0 && (self.header.kept, self.header.overwritten) == (kept, overwritten);
                if !is_of_same {
                    self.begin_part(Header { kept, overwritten, seen: 0 }, ledger);
                    ledger.add(LedgerLine::LostRecords, overwritten);
                }
                return Ok(true);
            }
            LineKind::BufferStarts(cpu) => {
                self.lose(cpu, 0, events);
                return Ok(true);
            }
            LineKind::Unusable(_) if !is_whole && !self.last_event.is_empty() && are_fields(line) => return Ok(false),
            LineKind::Unusable(flaw) => return self.note_unusable(flaw, at, ledger).map(|()| true),
            LineKind::Bad if !is_whole && !line.is_empty() => return Ok(false),
            LineKind::Bad => {
                ledger.count_at(LedgerLine::BadText, at.number);
                return Ok(true);
            }
        };
        let known = match self.known.get(columns.name) {
            Some(&known) => known,
            None => {
                let known = meaning(self.layout, columns.name, &mut self.info);
                if self.known.len() < MAX_NAMES {
                    self.known.insert(columns.name.into(), known);
                }
                known
            }
        };
        let Known::Tracepoint(name, row) = known else {
            ledger.count(LedgerLine::NotTracepoint);
            return Ok(true);
        };
        let said = match row {
            None => Some((EventKind::Other, VcpuId::UNKNOWN)),
            Some(row) => match unprinted(row, columns.fields) {
                Some(flaw) => return self.note_unusable(flaw, at, ledger).map(|()| true),
                None => read_fields(row.text, columns.fields, &mut self.reasons),
            },
        };
        if said.is_none() && !is_whole {
            return Ok(false);
        }
        let (kind, vcpu) = said.unwrap_or_else(|| {
            ledger.count_at(LedgerLine::UnreadFields, at.number);
            (EventKind::Other, VcpuId::UNKNOWN)
        });
        let is_asked = self.exit_info && matches!(kind, EventKind::Exit { .. });
        let info = is_asked.then(|| exit_info(columns.fields)).flatten();
        note_comm(&columns, &mut self.info);
        let LineColumns { tid, tgid, cpu, at, .. } = columns;
        if !self.lost.is_empty() {
            self.release_losses(at, events);
        }
        self.order.note(at, self.latest);
        if self.order.events == OrderCheck::ENOUGH {
            self.check_order()?;
        }
        if tgid == 0 && self.layout == TextDialect::PerfScript {
            self.threads.note(tid, kind, vcpu);
        }
        self.latest = at;
        self.events += 1;
        ledger.events += 1;
        let event = Event { at, tid: Tid(tid), vm: VmId(tgid), vcpu, cpu: PcpuId(cpu), name, kind };
        events.push(event);
        events.extend(info.map(|info| Event { kind: EventKind::ExitInfo(info), ..event }));
        Ok(true)
    }

    /// Counts a line that lacks what accounting needs. One may be damage; where most are such, the text cannot be used.
    #[cold]
    fn note_unusable(&mut self, flaw: Flaw, at: LineAt, ledger: &mut Ledger) -> Result<(), Refusal> {
        ledger.count_at(LedgerLine::BadText, at.number);
        if flaw.is_certain() {
            return Err(Refusal::Line(flaw, at));
        }
        let (_, _, count) = self.unusable.get_or_insert((flaw, at, 0));
        *count += 1;
        match *count % ENOUGH_UNUSABLE {
            0 => self.check_usable(),
            _ => Ok(()),
        }
    }

    /// A text most of whose events are unusable cannot be used.
    fn check_usable(&self) -> Result<(), Refusal> {
        match self.unusable {
            Some((flaw, at, count)) if count > self.events => Err(Refusal::Line(flaw, at)),
            _ => Ok(()),
        }
    }

    /// A trace of times between events has lost the moments.
    fn check_order(&self) -> Result<(), Refusal> {
        if self.order.is_of_differences() { Err(Refusal::Differences) } else { Ok(()) }
    }

    /// What shows only of all lines together.
    fn check_at_end(&self) -> Result<(), Refusal> {
        self.check_usable()?;
        self.check_order()?;
        if self.threads.are_processes() { Err(Refusal::Processes) } else { Ok(()) }
    }

    /// Another header comes, or the end: what lacks of the one before is missing.
    #[cold]
    fn begin_part(&mut self, header: Header, ledger: &Ledger) {
        let seen = self.events.saturating_add(ledger.get(LedgerLine::BadText));
        let there = seen.saturating_sub(self.header.seen);
        self.missing = self.missing.saturating_add(self.header.kept.saturating_sub(there));
        self.header = Header { seen, ..header };
    }

    /// Events of this CPU are missing here.
    fn lose(&mut self, cpu: u32, count: u64, events: &mut Vec<Event>) {
        self.threads.forget();
        self.lost.push((cpu, count));
        if self.lost.len() >= BATCH {
            self.release_losses(self.latest, events);
        }
    }

    /// Reports the losses met so far, as of the moment `at`.
    fn release_losses(&mut self, at: Moment, events: &mut Vec<Event>) {
        events.extend(self.lost.drain(..).map(|(cpu, count)| Event::lost(at, PcpuId(cpu), count)));
    }
}

/// Whether what a tracepoint says was not printed as the kernel prints it: not at all, or raw.
#[inline]
fn unprinted(row: &TracepointRow, fields: &[u8]) -> Option<Flaw> {
    let end = fields.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'));
    match end {
        None if fields.is_empty() => Some(Flaw::NoFields),
        Some(end) if fields[end] == b'=' && row.prints_only_raw(&fields[..end]) => Some(Flaw::RawFields),
        _ => None,
    }
}

/// Words with which the rest of KVM's events begins.
const FIELDS: [&[u8]; 8] = [b"rip", b"info", b"info1", b"info2", b"intr_info", b"error_code", b"vcpu", b"pc"];

/// Whether a line reads like the middle of an event's fields: names and numbers in turn, of which one is as only fields are.
fn are_fields(line: &[u8]) -> bool {
    let is_number = |word: &&[u8]| word.first().is_some_and(u8::is_ascii_digit) || word.contains(&b'=');
    let is_name = |word: &[u8]| {
        let word = word.trim_ascii_end();
        let word = word.strip_suffix(b",").or(word.strip_suffix(b":")).unwrap_or(word);
        !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let words: Vec<&[u8]> = line.trim_ascii().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let numbers = words.iter().filter(|word| is_number(word)).count();
    let is_certain =
        words.iter().any(|word| word.starts_with(b"0x")) || words.first().is_some_and(|word| FIELDS.contains(word));
    is_certain
        && numbers > 0
        && numbers * 2 + 1 >= words.len()
        && words.first().is_some_and(|word| is_name(word) || is_number(word))
}

/// What an event name means that was not met before.
fn meaning(layout: TextDialect, printed: &[u8], info: &mut TraceInfo) -> Known {
    let printed = String::from_utf8_lossy(printed);
    let (system, name) = match layout {
        TextDialect::PerfScript => match printed.split_once(':') {
            // `cycles:ppp` and the like: the letters are perf's modifiers.
            Some((system, name)) if !name.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte)) => {
                (Some(system), name.to_string())
            }
            _ => return Known::Sample,
        },
        // ftrace prints system calls without their tracepoint's name.
        TextDialect::Ftrace | TextDialect::TraceCmd => match printed.strip_prefix("sys_") {
            Some(call) if call.ends_with('(') => (None, format!("sys_enter_{}", call.trim_end_matches('('))),
            Some(call) if call.ends_with(" ->") => (None, format!("sys_exit_{}", call.trim_end_matches(" ->"))),
            _ => (None, printed.into_owned()),
        },
    };
    let row = of_text(system, &name);
    let system = system.or(row.map(|row| row.names().0)).or(usual_system(&name));
    let full = match system {
        Some(system) => format!("{system}:{name}"),
        None => name,
    };
    Known::Tracepoint(info.names.intern(&full), row)
}

/// The system that tracepoints with such a name are usually of, for programs that do not print it.
fn usual_system(name: &str) -> Option<&'static str> {
    let systems = [
        ("kvmppc_", "kvm_hv"),
        ("kvm_hcall_", "kvm_hv"),
        ("kvm_page_fault_", "kvm_hv"),
        ("kvm_", "kvm"),
        ("vcpu_", "kvm"),
        ("vgic_", "kvm"),
        ("sched_", "sched"),
        ("sys_enter_", "syscalls"),
        ("sys_exit_", "syscalls"),
        ("function", "ftrace"),
        ("kernel_stack", "ftrace"),
    ];
    systems.iter().find(|system| name.starts_with(system.0)).map(|system| system.1)
}

/// Keeps a thread's name.
#[inline]
fn note_comm(columns: &LineColumns, info: &mut TraceInfo) {
    let &LineColumns { comm, tid, .. } = columns;
    // ftrace prints dots for names that it forgot.
    let nameless = tid == NO_TASK || comm.is_empty() || comm == b"<...>" || comm.len() > MAX_COMM;
    if nameless || info.comms.get(&tid).is_some_and(|known| known.as_bytes() == comm) {
        return;
    }
    if info.comms.len() < MAX_THREADS || info.comms.contains_key(&tid) {
        info.comms.insert(tid, String::from_utf8_lossy(comm).into_owned());
    }
}

/// Keeps what `perf script --header` says of the machine.
fn note_header(line: &[u8], info: &mut TraceInfo) {
    let Some(header) = line.strip_prefix(b"# ") else { return };
    let Some(colon) = header.windows(3).position(|window| window == b" : ") else { return };
    let value = || String::from_utf8_lossy(header[colon + 3..].trim_ascii()).into_owned();
    match header[..colon].trim_ascii_end() {
        b"hostname" => info.hostname = value(),
        b"os release" => info.release = value(),
        b"arch" => info.arch = value(),
        _ => {}
    }
}
