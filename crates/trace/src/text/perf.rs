//! Lines of `perf script`, and of perf-prof, which prints the same columns behind a date.
//!
//! `perf_sample__fprintf_start` of tools/perf/builtin-script.c prints, as asked for: `comm pid/tid [cpu] misc tod time:`;
//! with -L `comm tid cpu time:`. `tep__print_event` of perf-prof prints `date time comm tid flags [cpu] time:`.

use super::flaw::{self, Flaw};
use super::layout::{
    LineColumns, LineKind, NO_TASK, Stamp, bracketed_cpu, event, is_date, is_number, stamp, without_date,
};
use crate::scan::{Scan, ends_with_number};

/// Bytes that a thread's number has at least with the blank before it.
const MIN_TASK_WIDTH: usize = 6;

/// Words between CPU and time, at most: misc, and the time of day.
const MAX_WORDS: usize = 3;

/// Fewer digits are no thread's number where it has not the five columns that perf gives it, but the end of its name.
const MIN_DIGITS: usize = 3;

/// What `line` is.
#[inline]
pub(super) fn read(line: &[u8]) -> LineKind<'_> {
    if line.first().is_none_or(|&byte| byte == b'#') {
        return LineKind::Silent;
    }
    // Call chains are most of the lines where there are any; perf begins them with a tab.
    let tabbed = line[0] == b'\t';
    if tabbed && is_call(line) {
        return LineKind::Silent;
    }
    let mut flaw = None;
    let mut from = 0;
    while let Some(bracket) = line[from..].iter().position(|&byte| byte == b'[') {
        let bracket = from + bracket;
        match with_cpu(line, bracket) {
            Some(LineKind::Unusable(Flaw::NoThread)) => flaw = Some(Flaw::NoThread),
            Some(kind) => return kind,
            None => {}
        }
        from = bracket + 1;
    }
    match without_cpu(line) {
        Some(LineKind::Unusable(Flaw::NoThread)) => flaw = Some(Flaw::NoThread),
        Some(kind) => return kind,
        None => {}
    }
    // What follows a tab belongs to the line before.
    if tabbed || line.trim_ascii().is_empty() || (line[0] == b' ' && is_call(line)) {
        return LineKind::Silent;
    }
    if flaw::is_dump(line) {
        return LineKind::Unusable(Flaw::Dump);
    }
    if line.starts_with(b"PERF_RECORD_FINISHED_ROUND") {
        return LineKind::Unusable(Flaw::Rounds);
    }
    flaw.or_else(|| flaw::of_named(line)).map_or(LineKind::Bad, LineKind::Unusable)
}

/// `    ffffffffc057e61f svm_vcpu_run ([kvm_amd])`
fn is_call(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits > 0 && text.get(digits) == Some(&b' ')
}

#[inline]
fn with_cpu(line: &[u8], bracket: usize) -> Option<LineKind<'_>> {
    let mut scan = Scan::new(&line[bracket..]);
    let cpu = bracketed_cpu(&mut scan)?;
    for _ in 0..=MAX_WORDS {
        scan.spaces();
        if let Some(stamp) = stamp(&mut scan) {
            return columns(&line[..bracket], cpu, stamp, scan);
        }
        let word = scan.word();
        if !is_misc(word) && !is_date(word) {
            return None;
        }
    }
    None
}

/// perf leaves the CPU out where the samples do not carry it, and where it is not asked for; with -L it has no brackets.
fn without_cpu(line: &[u8]) -> Option<LineKind<'_>> {
    let mut from = 0;
    while let Some(colon) = line[from..].windows(2).position(|pair| pair == b": ") {
        let colon = from + colon;
        let begin = line[..colon].iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
        let mut scan = Scan::new(&line[begin..]);
        if let Some(stamp) = stamp(&mut scan) {
            let left = line[..begin].trim_ascii_end();
            let (left, cpu) = bare_cpu(left).unwrap_or((left, u32::MAX));
            return columns(left, cpu, stamp, scan);
        }
        from = colon + 2;
    }
    None
}

/// The CPU that `text` ends with after a thread's number, as `qemu-sys   127   1` of -L does, and what is before it. perf
/// gives a thread's number five columns at least, and the CPU's three.
fn bare_cpu(text: &[u8]) -> Option<(&[u8], u32)> {
    let (left, cpu) = ends_with_number(text)?;
    let thread = left.trim_ascii_end();
    let width = text.len() - thread.len();
    let (before, _) = ends_with_number(thread)?;
    let is_thread = match before.strip_suffix(b"/") {
        Some(process) => ends_with_number(process).is_some(),
        None => before.ends_with(b" ") && width < MIN_TASK_WIDTH,
    };
    (is_thread && left.len() > thread.len()).then_some((thread, cpu))
}

/// `left` is what is before the CPU and the time, `scan` what is after.
#[inline]
fn columns<'a>(left: &'a [u8], cpu: u32, stamp: Stamp, scan: Scan<'a>) -> Option<LineKind<'a>> {
    let left = left.trim_ascii_end();
    match task(left).or_else(|| task(without_flags(left)?)) {
        Some(task) => Some(timed(task, cpu, stamp, scan)),
        None => {
            let mut ahead = scan;
            let (name, _) = name(&mut ahead);
            let named = name.strip_suffix(b":").is_some_and(|name| name.contains(&b':'));
            named.then_some(LineKind::Unusable(Flaw::NoThread))
        }
    }
}

/// The thread that `text` ends with: its name, process and number.
#[inline]
fn task(text: &[u8]) -> Option<(&[u8], u32, u32)> {
    let (mut left, tid) = ends_with_task(text)?;
    let mut tgid = 0;
    if let Some((before, process)) = left.strip_suffix(b"/").and_then(ends_with_task) {
        (left, tgid) = (before, process);
    }
    if tgid == NO_TASK {
        tgid = 0;
    }
    let comm = left.trim_ascii();
    if comm.is_empty() {
        return Some((comm, tgid, tid));
    }
    left.strip_suffix(b" ")?;
    // A number that follows a name closely is the name's own: `fc_vcpu 0`.
    let digits = text.len() - left.len();
    if digits < MIN_DIGITS && !left.ends_with(b"  ") && comm != b"swapper" {
        return None;
    }
    Some((without_date(comm), tgid, tid))
}

/// The task at the end of `text`, and what is before it. perf prints -1 for a task that has already exited.
#[inline]
fn ends_with_task(text: &[u8]) -> Option<(&[u8], u32)> {
    match text.strip_suffix(b"-1") {
        Some(before) if matches!(before.last(), Some(b' ' | b'/')) => Some((before, NO_TASK)),
        _ => ends_with_number(text),
    }
}

/// `text` without a last word of flags: misc, where no CPU is printed, or those that perf-prof prints before the CPU (`d..1`).
#[cold]
fn without_flags(text: &[u8]) -> Option<&[u8]> {
    let blank = text.iter().rposition(|&byte| byte == b' ')?;
    let word = &text[blank + 1..];
    let is_latency = word.len() <= 8
        && word.first().is_some_and(|byte| !byte.is_ascii_digit())
        && word.iter().all(|byte| b".#dDXbBnNpPlLzZhHsS0123456789abcdef".contains(byte));
    (is_latency || is_misc(word)).then(|| text[..blank].trim_ascii_end())
}

/// What `-F +misc` prints: in which mode the CPU was, and of a switch whether it is out and by preemption.
fn is_misc(word: &[u8]) -> bool {
    (1..=5).contains(&word.len()) && word.iter().all(|byte| b"KUHGgMESp".contains(byte))
}

/// The event's name with its colon, and what follows it; a period may come before.
#[inline]
fn name<'a>(scan: &mut Scan<'a>) -> (&'a [u8], &'a [u8]) {
    scan.spaces();
    let mut name = scan.word();
    if is_number(name) {
        scan.spaces();
        name = scan.word();
    }
    scan.spaces();
    (name, scan.rest)
}

/// The event of these columns; `scan` is behind the time.
#[inline]
fn timed<'a>((comm, tgid, tid): (&'a [u8], u32, u32), cpu: u32, stamp: Stamp, mut scan: Scan<'a>) -> LineKind<'a> {
    let Stamp::Time(at) = stamp else { return LineKind::Unusable(Flaw::Counter) };
    let (name, fields) = name(&mut scan);
    if let Some(record) = name.strip_prefix(b"PERF_RECORD_") {
        let lost = record.strip_prefix(b"LOST").and_then(|_| {
            let mut scan = Scan::new(fields);
            scan.until("lost ")?;
            scan.decimal()
        });
        return lost.map_or(LineKind::Other, |count| LineKind::Lost { cpu, count });
    }
    // Without `event`, the fields come first: those of arm64's exits and entries look like a name.
    match name.strip_suffix(b":") {
        None => LineKind::Unusable(Flaw::NoName),
        Some(b"TRAP" | b"IRQ" | b"SERROR" | b"PC") => LineKind::Unusable(Flaw::NoName),
        Some(name) => event(LineColumns { comm, tid, tgid, cpu, at, name, fields }),
    }
}
