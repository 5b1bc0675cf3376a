//! Traces as text: ftrace's `trace` and `trace_pipe`, `trace-cmd report`, `perf script`.
//!
//! ```text
//! lines ─► layout: thread, CPU, time, name, fields ─► fields of one print fmt ─► one event
//! "  qemu-229 [001] d..1. 87.534187: kvm_exit: vcpu 0 reason npf rip 0xfff0 …"  ─►  Exit npf of vCPU 0 at 87.534187 s
//! ```
//!
//! Text is what a program printed of a trace; what it left out is gone. ftrace rounds times to microseconds,
//! trace-cmd's plugin leaves out the vCPU of `kvm_exit`, and only some layouts name the process.

mod layout;
mod lines;

use crate::source::{BATCH, MAX_COMM, MAX_THREADS};
use crate::tracepoints::of_text;
use crate::tracepoints::printed::{ReadFields, Reasons, exit_info, read_fields};
use crate::{Input, Options, Source, TraceError};
use exitscope_model::{Event, Kind, Ledger, Line, NameId, TraceInfo};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use layout::{Columns, Layout, LineKind, NO_TASK};
use lines::{Lines, NextLine};
use rustc_hash::FxHashMap;

/// Lines that one call to [`Source::read`] looks at, at most: a text may hold few events.
const LINES_AT_ONCE: u64 = 64 * BATCH as u64;

/// So many lines with a counter's value for a time, and no event yet, are no accident.
const ENOUGH_COUNTERS: u64 = 64;

/// Different event names that are told apart, at most.
const MAX_NAMES: usize = u16::MAX as usize;

/// Whether the first bytes are of this format.
pub fn looks_like(head: &[u8]) -> bool {
    // The caller gives 4 KiB; fewer bytes are the whole file.
    Layout::of(head, head.len() < 4096).is_some()
}

/// Opens it.
pub fn open(input: Input, options: Options) -> Result<Box<dyn Source>, TraceError> {
    let head = input.read_vec(0, 4096)?;
    let layout = Layout::of(&head, input.len() <= head.len() as u64).unwrap_or(Layout::Ftrace);
    let mut info = TraceInfo { format: layout.name().to_string(), ..TraceInfo::default() };
    // Whose it is has to be known before it is read.
    head.split(|&byte| byte == b'\n').for_each(|line| note_header(line, &mut info));
    Ok(Box::new(Text {
        info,
        layout,
        exit_info: options.exit_info,
        lines: Lines::new(input),
        known: FxHashMap::default(),
        reasons: Reasons::new(),
        says_losses: false,
        lost: Vec::new(),
        latest: Moment::default(),
        events: 0,
        counters: 0,
        first_counter: None,
        order: Order::default(),
    }))
}

/// A text trace being read.
struct Text {
    info: TraceInfo,
    layout: Layout,
    /// Whether an exit is followed by what it says besides.
    exit_info: bool,
    lines: Lines,
    /// Event names met so far, as printed.
    known: FxHashMap<Box<[u8]>, Known>,
    reasons: Reasons,
    /// Whether it would say that records were lost.
    says_losses: bool,
    /// Losses met since the last event, CPU and count: they happened before the next one.
    lost: Vec<(u32, u64)>,
    latest: Moment,
    /// Events read so far.
    events: u64,
    /// Lines before the first event that have a counter's value for a time, and where the first of them begins.
    counters: u64,
    first_counter: Option<u64>,
    order: Order,
}

/// Whether times are moments: those are in order. The times between events, which `perf script --deltatime` and
/// `trace-cmd report --ts-diff` print in their place, are not.
#[derive(Default)]
struct Order {
    /// The first time was zero: nothing is before the first event.
    from_zero: bool,
    /// Events so far, and those whose time is below the one before.
    events: u64,
    backwards: u64,
}

impl Order {
    /// Events by which it shows.
    const ENOUGH: u64 = 64;

    /// The time of an event, after one of time `latest`.
    #[inline]
    fn note(&mut self, at: Moment, latest: Moment) {
        if self.events < Order::ENOUGH {
            self.from_zero |= self.events == 0 && at == Moment::default();
            self.backwards += u64::from(at < latest);
            self.events += 1;
        }
    }

    /// Whether these were no moments.
    fn is_of_differences(&self) -> bool {
        match self.from_zero {
            true => self.backwards * 8 > self.events,
            false => self.events == Order::ENOUGH && self.backwards * 4 > self.events,
        }
    }
}

/// What an event name means.
#[derive(Clone, Copy)]
enum Known {
    /// A tracepoint, and how to read its fields if accounting uses them.
    Tracepoint(NameId, Option<ReadFields>),
    /// A hardware or software event of perf.
    Sample,
}

impl Source for Text {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let enough = events.len() + BATCH;
        let last = self.lines.number + LINES_AT_ONCE;
        while events.len() < enough && self.lines.number < last {
            if !self.read_line(events, ledger)? {
                self.release_losses(self.latest, events);
                if !self.says_losses && self.events > 0 {
                    ledger.count(Line::LossUnknown);
                }
                if self.lines.unended > 0 {
                    ledger.add_at(Line::TruncatedBytes, self.lines.unended, self.lines.number);
                }
                if self.lines.input.cut().is_some() {
                    ledger.count_at(Line::BadCompression, self.lines.number);
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
        let (offset, number) = (self.lines.done(), self.lines.number + 1);
        let line = match self.lines.next_line()? {
            NextLine::Line(line) => line,
            NextLine::TooLong => {
                ledger.count_at(Line::BadText, number);
                return Ok(true);
            }
            NextLine::End => {
                self.check_clock(self.events == 0)?;
                self.check_order()?;
                return Ok(false);
            }
        };
        let columns = match self.layout.read(line) {
            LineKind::Event(columns) => columns,
            LineKind::Silent => return Ok(true),
            LineKind::Lost { cpu, count } => {
                self.says_losses = true;
                ledger.add(Line::LostRecords, count.max(1));
                self.lose(cpu, count, events);
                return Ok(true);
            }
            LineKind::SaysLosses { overwritten } => {
                self.says_losses = true;
                ledger.add(Line::LostRecords, overwritten);
                return Ok(true);
            }
            LineKind::BufferStarts(cpu) => {
                self.lose(cpu, 0, events);
                return Ok(true);
            }
            LineKind::RawClock if self.events == 0 => {
                self.counters += 1;
                self.first_counter.get_or_insert(offset);
                ledger.count_at(Line::BadText, number);
                self.check_clock(self.counters >= ENOUGH_COUNTERS)?;
                return Ok(true);
            }
            LineKind::RawClock | LineKind::Bad => {
                ledger.count_at(Line::BadText, number);
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
        let Known::Tracepoint(name, read) = known else {
            ledger.count(Line::NotTracepoint);
            return Ok(true);
        };
        let said = match read {
            None => Some((Kind::Other, VcpuId::UNKNOWN)),
            Some(read) => read_fields(read, columns.fields, &mut self.reasons),
        };
        let (kind, vcpu) = said.unwrap_or_else(|| {
            ledger.count_at(Line::UnknownFormat, number);
            (Kind::Other, VcpuId::UNKNOWN)
        });
        let is_asked = self.exit_info && matches!(kind, Kind::Exit { .. });
        let info = is_asked.then(|| exit_info(columns.fields)).flatten();
        note_comm(&columns, &mut self.info);
        let Columns { tid, tgid, cpu, at, .. } = columns;
        if !self.lost.is_empty() {
            self.release_losses(at, events);
        }
        self.order.note(at, self.latest);
        if self.order.events == Order::ENOUGH {
            self.check_order()?;
        }
        self.latest = at;
        self.events += 1;
        ledger.events += 1;
        let event = Event { at, tid: Tid(tid), vm: VmId(tgid), vcpu, cpu: PcpuId(cpu), name, kind };
        events.push(event);
        events.extend(info.map(|info| Event { kind: Kind::ExitInfo(info), ..event }));
        Ok(true)
    }

    /// A trace whose times are all a counter's values cannot be used; one such line may be damage.
    fn check_clock(&self, unusable: bool) -> Result<(), TraceError> {
        match self.first_counter {
            Some(offset) if unusable => Err(TraceError::Damaged {
                name: self.lines.input.name().to_string(),
                structure: "line",
                offset,
                problem: "has a counter's value for a time (trace clock x86-tsc, counter or uptime), and nothing says \
                          how fast it counts; record with the clock mono, boot or local"
                    .to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// A trace of times between events has lost the moments.
    fn check_order(&self) -> Result<(), TraceError> {
        match self.order.is_of_differences() {
            true => Err(TraceError::Unsupported {
                name: self.lines.input.name().to_string(),
                what: "its times are not in order, as those between one event and the next are not (perf script \
                       --deltatime, trace-cmd report --ts-diff); print it with moments"
                    .to_string(),
            }),
            false => Ok(()),
        }
    }

    /// Events of this CPU are missing here.
    fn lose(&mut self, cpu: u32, count: u64, events: &mut Vec<Event>) {
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

/// What an event name means that was not met before.
fn meaning(layout: Layout, printed: &[u8], info: &mut TraceInfo) -> Known {
    let printed = String::from_utf8_lossy(printed);
    let (system, name) = match layout {
        Layout::PerfScript => match printed.split_once(':') {
            // `cycles:ppp` and the like: the letters are perf's modifiers.
            Some((system, name)) if !name.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte)) => {
                (Some(system), name.to_string())
            }
            _ => return Known::Sample,
        },
        // ftrace prints system calls without their tracepoint's name.
        Layout::Ftrace | Layout::TraceCmd => match printed.strip_prefix("sys_") {
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
    Known::Tracepoint(info.names.intern(&full), row.map(|row| row.text))
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
fn note_comm(columns: &Columns, info: &mut TraceInfo) {
    let &Columns { comm, tid, .. } = columns;
    // ftrace prints dots for names that it forgot.
    let nameless = tid == NO_TASK || comm == b"<...>" || comm.len() > MAX_COMM;
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
