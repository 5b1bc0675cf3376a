//! One line in, its columns out. Three programs print traces as lines; two of them share a layout.
//!
//! ```text
//! ftrace      "  qemu-system-x86-229     (    220) [001] d..1.    87.534187: kvm_entry: vcpu 0, rip 0xfff0"
//! trace-cmd   "  qemu-system-x86-138   [001] d..1.    46.551689120: kvm_entry:             vcpu 0 rip 0xfff0"
//! perf        "   CPU 0/KVM   220/229 [001]    30.931238224:          1 kvm:kvm_entry: vcpu 0, rip 0xfff0"
//!                 comm        tgid tid cpu    time               period  name          fields
//! ```
//!
//! Thread names may hold anything, also spaces, dashes and brackets. So a line is read outwards from the `[cpu]` that
//! has a thread on its left and a time on its right.

use crate::scan::{Scan, ends_with_number};
use exitscope_units::Moment;

/// Longer event names are no names, in bytes.
const MAX_NAME: usize = 256;

/// Width of the thread's name as ftrace and trace-cmd print it, in bytes.
const COMM_WIDTH: usize = 16;

/// A thread that the line does not name.
pub(super) const NO_TASK: u32 = u32::MAX;

/// Which program printed the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// The kernel: `trace` and `trace_pipe` of tracefs.
    Ftrace,
    /// `trace-cmd report`.
    TraceCmd,
    /// `perf script`.
    PerfScript,
}

/// The columns of an event's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns<'a> {
    /// The thread's name.
    pub comm: &'a [u8],
    /// The thread; [`NO_TASK`] if it has exited.
    pub tid: u32,
    /// Its process; 0 if the line does not say.
    pub tgid: u32,
    /// The CPU; `u32::MAX` if the line does not say.
    pub cpu: u32,
    /// When.
    pub at: Moment,
    /// The event's name as printed. ftrace prints system calls without one: `sys_ioctl(` and `sys_ioctl ->` then.
    pub name: &'a [u8],
    /// Everything after the name.
    pub fields: &'a [u8],
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind<'a> {
    /// An event.
    Event(Columns<'a>),
    /// An event whose time is a counter's value, of which nobody knows the rate.
    RawClock,
    /// Records were lost here.
    Lost {
        /// On this CPU; `u32::MAX` if the line does not say.
        cpu: u32,
        /// How many; 0 if the line does not say.
        count: u64,
    },
    /// A header of a text that says what was lost; so many events were gone before its first.
    SaysLosses {
        /// How many.
        overwritten: u64,
    },
    /// This CPU's events begin only here: those before are gone.
    BufferStarts(u32),
    /// A header, a comment, a call chain, nothing.
    Silent,
    /// None of these.
    Bad,
}

/// A time stamp as printed.
enum Stamp {
    Time(Moment),
    Counter,
}

impl Layout {
    /// The layout's name in [`exitscope_model::TraceInfo::format`].
    pub fn name(self) -> &'static str {
        match self {
            Layout::Ftrace => "ftrace text",
            Layout::TraceCmd => "trace-cmd report text",
            Layout::PerfScript => "perf script text",
        }
    }

    /// Which program printed a text that begins with `head`; `None` if it is no trace. `whole`: nothing comes after.
    pub fn of(head: &[u8], whole: bool) -> Option<Layout> {
        let end = match head.iter().rposition(|&byte| byte == b'\n') {
            Some(end) if !whole => end,
            _ => head.len(),
        };
        let (mut seen, mut bad, mut counted_cpus) = (None, 0, false);
        let mut events = 0;
        for line in head[..end].split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.starts_with(b"# tracer: ") {
                return Some(Layout::Ftrace);
            }
            if line.starts_with(b"# captured on") {
                return Some(Layout::PerfScript);
            }
            counted_cpus |= line.strip_prefix(b"cpus=").is_some_and(is_number);
            let layout = match (Layout::Ftrace.read(line), Layout::PerfScript.read(line)) {
                (LineKind::Event(columns), _) if counted_cpus || columns.fields_are_aligned(line) => Layout::TraceCmd,
                (LineKind::Event(_) | LineKind::RawClock, _) => Layout::Ftrace,
                (_, LineKind::Event(_) | LineKind::RawClock) => Layout::PerfScript,
                (LineKind::Bad, LineKind::Bad) => {
                    bad += 1;
                    continue;
                }
                _ => continue,
            };
            events += 1;
            seen = match seen {
                Some(Layout::Ftrace) | None => Some(layout),
                known => known,
            };
        }
        match seen {
            // Prose that quotes a line of a trace is no trace.
            Some(layout) if events >= bad => Some(layout),
            None if counted_cpus && bad == 0 => Some(Layout::TraceCmd),
            _ => None,
        }
    }

    /// What `line` is.
    #[inline]
    pub fn read(self, line: &[u8]) -> LineKind<'_> {
        match self {
            Layout::Ftrace | Layout::TraceCmd => read_ftrace(line),
            Layout::PerfScript => read_perf(line),
        }
    }
}

impl Columns<'_> {
    /// trace-cmd pads names so that the fields are aligned; the kernel does not.
    fn fields_are_aligned(&self, line: &[u8]) -> bool {
        let before_fields = &line[..line.len() - self.fields.len()];
        before_fields.ends_with(b"  ")
    }
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn read_ftrace(line: &[u8]) -> LineKind<'_> {
    if line.first().is_none_or(|&byte| byte == b'#') {
        return kernel_comment(line).unwrap_or(LineKind::Silent);
    }
    // Where the name has its usual width, a name that looks like columns cannot mislead.
    let mut from = if line.get(COMM_WIDTH) == Some(&b'-') { COMM_WIDTH } else { 0 };
    while let Some(bracket) = line[from..].iter().position(|&byte| byte == b'[') {
        let bracket = from + bracket;
        if let Some(kind) = ftrace_columns(line, bracket) {
            return kind;
        }
        from = bracket + 1;
    }
    let trimmed = line.trim_ascii();
    // "=> function" are the lines of a stack trace, the rest is what trace-cmd says of the file.
    let silent = trimmed.is_empty()
        || trimmed.starts_with(b"=> ")
        || trimmed.strip_prefix(b"version = ").is_some_and(is_number)
        || (trimmed.starts_with(b"CPU ") && trimmed.ends_with(b" is empty"))
        || (trimmed.starts_with(b"CPU:") && trimmed.ends_with(b" [SUBBUFFER START]"));
    match lost_marker(trimmed) {
        Some(lost) => lost,
        None if trimmed.strip_prefix(b"cpus=").is_some_and(is_number) => LineKind::SaysLosses { overwritten: 0 },
        None if silent => LineKind::Silent,
        None => LineKind::Bad,
    }
}

/// What tracefs' `trace` says of its buffers (`print_event_info` and `test_cpu_buff_start` of kernel/trace/trace.c):
/// `# entries-in-buffer/entries-written: 117600/180437   #P:2`, of which those not in the buffer were overwritten, and
/// `##### CPU 0 buffer started ####` before a CPU's first event, if any CPU's were.
fn kernel_comment(line: &[u8]) -> Option<LineKind<'static>> {
    let mut scan = Scan::new(line);
    if scan.literal("##### CPU ").is_some() {
        let cpu = scan.decimal32()?;
        return scan.literal(" buffer started ####").map(|()| LineKind::BufferStarts(cpu));
    }
    scan.literal("# entries-in-buffer/entries-written: ")?;
    let kept = scan.decimal()?;
    scan.literal("/")?;
    Some(LineKind::SaysLosses { overwritten: scan.decimal()?.saturating_sub(kept) })
}

/// The columns around the `[` at `bracket`, if it is the CPU's.
#[inline]
fn ftrace_columns(line: &[u8], bracket: usize) -> Option<LineKind<'_>> {
    let (mut left, mut scan) = (line[..bracket].trim_ascii_end(), Scan::new(&line[bracket..]));
    let cpu = bracketed_cpu(&mut scan)?;
    let mut tgid = 0;
    if let Some(inside) = left.strip_suffix(b")") {
        // Looked for nearby only, or a line full of brackets would cost the square of its length.
        let width = inside.iter().rev().take(12).position(|&byte| byte == b'(')?;
        let open = inside.len() - width - 1;
        let number = inside[open + 1..].trim_ascii();
        // Dashes stand for a process that the kernel does not remember.
        if !number.iter().all(|&byte| byte == b'-') {
            let (before, process) = ends_with_number(number)?;
            if !before.is_empty() {
                return None;
            }
            tgid = process;
        }
        left = left[..open].trim_ascii_end();
    }
    let (comm, tid) = ends_with_number(left)?;
    let comm = comm.strip_suffix(b"-")?.trim_ascii_start();
    scan.spaces();
    let stamp = match stamp(&mut scan) {
        Some(stamp) => stamp,
        None => {
            // irqs-off, need-resched, hardirq/softirq, preempt-depth, migrate-disable.
            if scan.word().len() > 8 {
                return None;
            }
            scan.spaces();
            self::stamp(&mut scan)?
        }
    };
    let Stamp::Time(at) = stamp else { return Some(LineKind::RawClock) };
    scan.spaces();
    let Some((name, fields)) = ftrace_name(scan.rest) else { return Some(LineKind::Bad) };
    Some(event(Columns { comm, tid, tgid, cpu, at, name, fields }))
}

/// An event's name and its fields, as ftrace prints them after the time.
fn ftrace_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| matches!(byte, b':' | b' ' | b'(' | b'<'))?;
    let (name, rest) = text.split_at(end);
    match rest[0] {
        b':' => Some((name, rest[1..].trim_ascii_start())),
        b'(' if name.starts_with(b"sys_") => Some((&text[..=end], &rest[1..])),
        b' ' if name.starts_with(b"sys_") && rest.starts_with(b" -> ") => Some((&text[..end + 3], &rest[4..])),
        b' ' if rest.starts_with(b" <-") => Some((b"function", text)),
        b'<' if name.is_empty() && rest.ends_with(b"stack trace>") => Some((b"kernel_stack", b"")),
        _ => None,
    }
}

fn read_perf(line: &[u8]) -> LineKind<'_> {
    // Call chains are most of the lines where there are any; perf begins them with a tab.
    if line.first().is_none_or(|&byte| byte == b'#' || byte == b'\t') {
        return LineKind::Silent;
    }
    let mut from = 0;
    while let Some(bracket) = line[from..].iter().position(|&byte| byte == b'[') {
        let bracket = from + bracket;
        if let Some(kind) = perf_columns_with_cpu(line, bracket) {
            return kind;
        }
        from = bracket + 1;
    }
    if let Some(kind) = perf_columns_without_cpu(line) {
        return kind;
    }
    let trimmed = line.trim_ascii();
    let mut scan = Scan::new(trimmed);
    let call = line[0] == b' ' && scan.hex().is_some() && scan.rest.starts_with(b" ");
    match trimmed.is_empty() || call {
        true => LineKind::Silent,
        false => LineKind::Bad,
    }
}

#[inline]
fn perf_columns_with_cpu(line: &[u8], bracket: usize) -> Option<LineKind<'_>> {
    let mut scan = Scan::new(&line[bracket..]);
    let cpu = bracketed_cpu(&mut scan)?;
    scan.spaces();
    let stamp = stamp(&mut scan)?;
    perf_columns(&line[..bracket], cpu, stamp, scan)
}

/// perf leaves the CPU out where the samples do not carry it.
fn perf_columns_without_cpu(line: &[u8]) -> Option<LineKind<'_>> {
    let mut from = 0;
    while let Some(colon) = line[from..].windows(2).position(|pair| pair == b": ") {
        let colon = from + colon;
        let begin = line[..colon].iter().rposition(|&byte| byte == b' ').map_or(0, |space| space + 1);
        let mut scan = Scan::new(&line[begin..]);
        if let Some(stamp) = stamp(&mut scan) {
            return perf_columns(&line[..begin], u32::MAX, stamp, scan);
        }
        from = colon + 2;
    }
    None
}

/// `left` is what is before the CPU and the time, `scan` what is after.
#[inline]
fn perf_columns<'a>(left: &'a [u8], cpu: u32, stamp: Stamp, mut scan: Scan<'a>) -> Option<LineKind<'a>> {
    let (mut left, tid) = ends_with_task(left.trim_ascii_end())?;
    let mut tgid = 0;
    if let Some((before, process)) = left.strip_suffix(b"/").and_then(ends_with_task) {
        (left, tgid) = (before, process);
    }
    if tgid == NO_TASK {
        tgid = 0;
    }
    let comm = left.strip_suffix(b" ")?.trim_ascii();
    let Stamp::Time(at) = stamp else { return Some(LineKind::RawClock) };
    scan.spaces();
    let mut name = scan.word();
    if is_number(name) {
        scan.spaces();
        name = scan.word();
    }
    scan.spaces();
    let fields = scan.rest;
    if let Some(record) = name.strip_prefix(b"PERF_RECORD_") {
        let lost = record.strip_prefix(b"LOST").and_then(|_| {
            let mut scan = Scan::new(fields);
            scan.until("lost ")?;
            scan.decimal()
        });
        return Some(lost.map_or(LineKind::Silent, |count| LineKind::Lost { cpu, count }));
    }
    let Some(name) = name.strip_suffix(b":") else { return Some(LineKind::Bad) };
    Some(event(Columns { comm, tid, tgid, cpu, at, name, fields }))
}

/// The task at the end of `text`, and what is before it. perf prints -1 for a task that has already exited.
#[inline]
fn ends_with_task(text: &[u8]) -> Option<(&[u8], u32)> {
    match text.strip_suffix(b"-1") {
        Some(before) if matches!(before.last(), Some(b' ' | b'/')) => Some((before, NO_TASK)),
        _ => ends_with_number(text),
    }
}

/// Names and thread names that no kernel makes are signs of damage.
fn event(columns: Columns<'_>) -> LineKind<'_> {
    let Columns { comm, name, .. } = columns;
    let named = !name.is_empty() && name.len() <= MAX_NAME && name.iter().all(|byte| (b' '..=b'~').contains(byte));
    match named && !comm.contains(&0) {
        true => LineKind::Event(columns),
        false => LineKind::Bad,
    }
}

/// `[003]`
#[inline]
fn bracketed_cpu(scan: &mut Scan) -> Option<u32> {
    scan.literal("[")?;
    let cpu = scan.decimal32()?;
    scan.literal("]")?;
    Some(cpu)
}

/// `87.534187:` or `87.534187123:` in seconds, or `1234567:` of a counter.
#[inline]
fn stamp(scan: &mut Scan) -> Option<Stamp> {
    let mut ahead = *scan;
    let seconds = ahead.decimal()?;
    if ahead.literal(":").is_some() {
        *scan = ahead;
        return Some(Stamp::Counter);
    }
    ahead.literal(".")?;
    let digits = ahead.rest.len();
    let fraction = ahead.decimal()?;
    let digits = digits - ahead.rest.len();
    ahead.literal(":")?;
    let nanos = fraction.checked_mul(10u64.checked_pow(9usize.checked_sub(digits)? as u32)?)?;
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    *scan = ahead;
    Some(Stamp::Time(Moment::from_nanos(at)))
}

/// `CPU:3 [LOST 123 EVENTS]`, `CPU:3 [LOST EVENTS]`, `CPU:3 [123 EVENTS DROPPED]`, `CPU:3 [EVENTS DROPPED]`
fn lost_marker(line: &[u8]) -> Option<LineKind<'_>> {
    let mut scan = Scan::new(line);
    scan.literal("CPU:")?;
    let cpu = scan.decimal32()?;
    scan.literal(" [")?;
    let kernel = scan.literal("LOST ").is_some();
    let count = scan.decimal();
    if count.is_some() {
        scan.literal(" ")?;
    }
    scan.literal(if kernel { "EVENTS]" } else { "EVENTS DROPPED]" })?;
    Some(LineKind::Lost { cpu, count: count.unwrap_or(0) })
}
