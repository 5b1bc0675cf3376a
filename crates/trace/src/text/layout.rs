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

use super::flaw::{self, Flaw};
use super::{ftrace, perf};
use crate::scan::Scan;
use exitscope_units::Moment;

/// Longer event names are no names, in bytes.
const MAX_NAME: usize = 256;

/// A thread that the line does not name.
pub(super) const NO_TASK: u32 = u32::MAX;

/// Which program printed the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextDialect {
    /// The kernel: `trace` and `trace_pipe` of tracefs.
    Ftrace,
    /// `trace-cmd report`.
    TraceCmd,
    /// `perf script`.
    PerfScript,
}

/// The columns of an event's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineColumns<'a> {
    /// The thread's name; empty if the line does not say.
    pub comm: &'a [u8],
    /// The thread; [`NO_TASK`] if it has exited.
    pub tid: u32,
    /// Its process; 0 if the line does not say.
    pub tgid: u32,
    /// The CPU; `u32::MAX` if the line does not say.
    pub cpu: u32,
    /// The event's time.
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
    Event(LineColumns<'a>),
    /// An event that lacks what accounting needs.
    Unusable(Flaw),
    /// Records were lost here.
    Lost {
        /// On this CPU; `u32::MAX` if the line does not say.
        cpu: u32,
        /// How many; 0 if the line does not say.
        count: u64,
    },
    /// A header of a text that says what was lost.
    SaysLosses {
        /// So many events were gone before its first.
        overwritten: u64,
        /// So many follow.
        kept: u64,
        /// CPUs that are online, if it says.
        cpus: Option<u32>,
    },
    /// This CPU's events begin only here: those before are gone.
    BufferStarts(u32),
    /// A record of perf that is no sample, with the columns of one: a mapping, a thread that begins or is named.
    Other,
    /// A header, a comment, a call chain, nothing.
    Silent,
    /// None of these.
    Bad,
}

/// A time stamp as printed.
pub(super) enum Stamp {
    Time(Moment),
    Counter,
}

impl TextDialect {
    /// The layout's name in [`exitscope_model::TraceInfo::format`].
    pub fn name(self) -> &'static str {
        match self {
            TextDialect::Ftrace => "ftrace text",
            TextDialect::TraceCmd => "trace-cmd report text",
            TextDialect::PerfScript => "perf script text",
        }
    }

    /// Which program printed the lines that a text begins with; `None` if it is no trace.
    pub fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<TextDialect> {
        let (mut seen, mut flawed, mut counted_cpus) = (None, None, false);
        let (mut events, mut bad) = (0, 0);
        // The line before, if it is no event alone.
        let mut wrapped = Vec::new();
        for line in lines {
            if line.starts_with(b"# tracer: ") {
                return Some(TextDialect::Ftrace);
            }
            if line.starts_with(b"# captured on") || flaw::is_dump(line) {
                return Some(TextDialect::PerfScript);
            }
            counted_cpus |= line.strip_prefix(b"cpus=").is_some_and(is_number);
            let mut sign = Sign::of(line, counted_cpus);
            let before = std::mem::take(&mut wrapped);
            if matches!(sign, Sign::Bad | Sign::Flawed(_)) && !before.is_empty() {
                let mut whole = before;
                join(&mut whole, line);
                if let whole @ Sign::Event(_) = Sign::of(&whole, counted_cpus) {
                    (sign, bad) = (whole, bad - 1);
                }
            }
            match sign {
                Sign::Certain(layout) => return Some(layout),
                Sign::Event(layout) => {
                    events += 1;
                    seen = match seen {
                        Some(TextDialect::Ftrace) | None => Some(layout),
                        known => known,
                    };
                }
                Sign::Flawed(layout) => {
                    events += 1;
                    flawed.get_or_insert(layout);
                }
                Sign::Bad => {
                    bad += 1;
                    wrapped.extend_from_slice(line);
                }
                Sign::Silent => {}
            }
        }
        match seen.or(flawed) {
            // Prose that quotes a line of a trace is no trace. Mail programs make two or three lines of one.
            Some(layout) if events * 2 >= bad => Some(layout),
            None if counted_cpus && bad == 0 => Some(TextDialect::TraceCmd),
            _ => None,
        }
    }

    /// What `line` is.
    #[inline]
    pub fn read(self, line: &[u8]) -> LineKind<'_> {
        match self {
            TextDialect::Ftrace | TextDialect::TraceCmd => ftrace::read(line),
            TextDialect::PerfScript => perf::read(line),
        }
    }
}

/// What a line says of the program that printed it.
enum Sign {
    /// It is this one's, whatever else there is.
    Certain(TextDialect),
    /// It is an event of this one.
    Event(TextDialect),
    /// It would be, if it did not lack something.
    Flawed(TextDialect),
    /// Nothing, and it is no line of a trace.
    Bad,
    /// The line does not show which dialect the text is in.
    Silent,
}

impl Sign {
    fn of(line: &[u8], counted_cpus: bool) -> Sign {
        match (TextDialect::Ftrace.read(line), TextDialect::PerfScript.read(line)) {
            (LineKind::Event(columns), _) if counted_cpus || columns.fields_are_aligned(line) => {
                Sign::Event(TextDialect::TraceCmd)
            }
            (LineKind::Event(_), _) => Sign::Event(TextDialect::Ftrace),
            (_, LineKind::Event(_) | LineKind::Other) => Sign::Event(TextDialect::PerfScript),
            (LineKind::Unusable(Flaw::SeveralFiles), _) => Sign::Certain(TextDialect::TraceCmd),
            (LineKind::Unusable(Flaw::Counter), _) => Sign::Event(TextDialect::Ftrace),
            (_, LineKind::Unusable(Flaw::Counter)) => Sign::Event(TextDialect::PerfScript),
            (_, LineKind::Unusable(_)) => Sign::Flawed(TextDialect::PerfScript),
            (LineKind::Unusable(_), _) => Sign::Flawed(TextDialect::Ftrace),
            (LineKind::Bad, LineKind::Bad) => Sign::Bad,
            _ => Sign::Silent,
        }
    }
}

/// Whether such a line may be the rest of the one before.
pub(super) fn may_be_rest(kind: LineKind<'_>) -> bool {
    matches!(kind, LineKind::Bad | LineKind::Unusable(Flaw::NoTime | Flaw::NoThread | Flaw::NoName))
}

/// Puts `rest` behind a line that was wrapped.
pub(super) fn join(wrapped: &mut Vec<u8>, rest: &[u8]) {
    wrapped.truncate(wrapped.trim_ascii_end().len());
    wrapped.push(b' ');
    wrapped.extend_from_slice(rest.trim_ascii());
}

impl LineColumns<'_> {
    /// trace-cmd pads names so that the fields are aligned; the kernel does not.
    fn fields_are_aligned(&self, line: &[u8]) -> bool {
        let before_fields = &line[..line.len() - self.fields.len()];
        before_fields.ends_with(b"  ")
    }
}

pub(super) fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Names and thread names that no kernel makes are signs of damage.
#[inline]
pub(super) fn event(columns: LineColumns<'_>) -> LineKind<'_> {
    let LineColumns { comm, name, .. } = columns;
    let named = !name.is_empty() && name.len() <= MAX_NAME && name.iter().all(|byte| (b' '..=b'~').contains(byte));
    match named && !comm.contains(&0) {
        true => LineKind::Event(columns),
        false => LineKind::Bad,
    }
}

/// `[003]`
#[inline]
pub(super) fn bracketed_cpu(scan: &mut Scan) -> Option<u32> {
    scan.literal("[")?;
    let cpu = scan.decimal32()?;
    scan.literal("]")?;
    Some(cpu)
}

/// `87.534187:` or `87.534187123:` in seconds, or `1234567:` of a counter.
#[inline]
pub(super) fn stamp(scan: &mut Scan) -> Option<Stamp> {
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

/// A thread's name without a date and a time of day before it: perf-prof prints them, and so do filters that stamp lines.
#[inline]
pub(super) fn without_date(comm: &[u8]) -> &[u8] {
    let mut text = comm.trim_ascii();
    if text.first().is_none_or(|byte| !byte.is_ascii_digit() && *byte != b'[') {
        return text;
    }
    for _ in 0..2 {
        let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
        if !is_date(text[..end].trim_ascii()) {
            break;
        }
        text = text[end..].trim_ascii_start();
    }
    // A name may be nothing else.
    if text.is_empty() { comm.trim_ascii() } else { text }
}

/// `2021-12-12` or `16:11:10.214139`, `[2021-12-12` or `16:11:10]`.
pub(super) fn is_date(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"[").unwrap_or(word);
    let word = word.strip_suffix(b"]").unwrap_or(word);
    let mut scan = Scan::new(word);
    let mut part = |mark: &str| scan.decimal().and_then(|_| scan.literal(mark));
    let is_of_two = part("-").and_then(|()| part("-")).is_some();
    if !is_of_two {
        scan = Scan::new(word);
        let mut part = |mark: &str| scan.decimal().and_then(|_| scan.literal(mark));
        if part(":").and_then(|()| part(":")).is_none() {
            return false;
        }
    }
    scan.decimal().is_some()
        && match scan.rest {
            [] => true,
            [b'.', digits @ ..] => !is_of_two && is_number(digits),
            _ => false,
        }
}

/// `CPU:3 [LOST 123 EVENTS]`, `CPU:3 [LOST EVENTS]`, `CPU:3 [123 EVENTS DROPPED]`, `CPU:3 [EVENTS DROPPED]`
pub(super) fn lost_marker(line: &[u8]) -> Option<LineKind<'_>> {
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
