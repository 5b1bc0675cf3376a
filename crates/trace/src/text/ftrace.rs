//! Lines of the kernel's `trace` and `trace_pipe`, and of `trace-cmd report`.

use super::flaw::{self, Flaw};
use super::layout::{LineColumns, LineKind, Stamp, bracketed_cpu, event, is_number, lost_marker, stamp, without_date};
use crate::scan::{Scan, ends_with_number, split_last};
use exitscope_units::Moment;

/// Width of the thread's name as ftrace and trace-cmd print it, in bytes.
const COMM_WIDTH: usize = 16;

/// Longer words between the CPU and the time are no flags, in bytes.
const MAX_FLAGS: usize = 8;

/// What trace-cmd says of the file or of what it does, by the beginning of the line.
const SAID_BY_TRACE_CMD: &[&[u8]] = &[
    b"registering plugin: ",
    b"overriding event (",
    b"RT task timings:",
    b"Average wakeup latency: ",
    b"Maximum Latency: ",
    b"Minimum Latency: ",
];

/// What `line` is.
#[inline]
pub(super) fn read(line: &[u8]) -> LineKind<'_> {
    if line.first().is_none_or(|&byte| byte == b'#') {
        return kernel_comment(line).unwrap_or(LineKind::Silent);
    }
    // Where the name has its usual width, a name that looks like columns cannot mislead.
    let mut from = if line.get(COMM_WIDTH) == Some(&b'-') { COMM_WIDTH } else { 0 };
    while let Some(bracket) = line[from..].iter().position(|&byte| byte == b'[') {
        let bracket = from + bracket;
        if let Some(kind) = columns(line, bracket) {
            return kind;
        }
        from = bracket + 1;
    }
    latency(line).unwrap_or_else(|| other(line))
}

/// A line without columns.
fn other(line: &[u8]) -> LineKind<'_> {
    let trimmed = line.trim_ascii();
    // Whoever pastes a text may indent it.
    if let Some(said) = indented_header(trimmed) {
        return said;
    }
    // "=> function" are the lines of a stack trace, the rest is what trace-cmd says of the file.
    let silent = trimmed.is_empty()
        || trimmed.starts_with(b"=> ")
        || trimmed.strip_prefix(b"version = ").is_some_and(is_number)
        || (trimmed.starts_with(b"CPU ") && trimmed.ends_with(b" is empty"))
        || (trimmed.starts_with(b"CPU:") && trimmed.ends_with(b" [SUBBUFFER START]"))
        || SAID_BY_TRACE_CMD.iter().any(|begin| trimmed.starts_with(begin));
    match lost_marker(trimmed) {
        Some(lost) => lost,
        None if trimmed.strip_prefix(b"cpus=").is_some_and(is_number) => {
            LineKind::SaysLosses { overwritten: 0, kept: 0, cpus: None }
        }
        None if silent => LineKind::Silent,
        // Of several files trace-cmd puts each one's name before its lines.
        None if split_last(trimmed, ": cpus=").is_some_and(|(_, cpus)| is_number(cpus)) => {
            LineKind::Unusable(Flaw::SeveralFiles)
        }
        None => flaw::of_named(line).map_or(LineKind::Bad, LineKind::Unusable),
    }
}

/// A line of the kernel's header (`print_trace_header` of kernel/trace/trace.c and what follows it there): a prompt or a remark, which
/// has a word after `# `, is none.
fn indented_header(line: &[u8]) -> Option<LineKind<'static>> {
    let rest = line.strip_prefix(b"#")?;
    let is_heading = rest.is_empty() || rest.starts_with(b"  ") || rest.starts_with(b" tracer:");
    kernel_comment(line).or(is_heading.then_some(LineKind::Silent))
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
    if scan.literal("# tracer: function_graph").is_some() {
        return Some(LineKind::Unusable(Flaw::FunctionGraph));
    }
    scan.literal("# entries-in-buffer/entries-written: ")?;
    let kept = scan.decimal()?;
    scan.literal("/")?;
    let overwritten = scan.decimal()?.saturating_sub(kept);
    scan.spaces();
    let cpus = scan.literal("#P:").and_then(|()| scan.decimal32());
    Some(LineKind::SaysLosses { overwritten, kept, cpus })
}

/// The columns around the `[` at `bracket`, if it is the CPU's.
#[inline]
fn columns(line: &[u8], bracket: usize) -> Option<LineKind<'_>> {
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
    let comm = without_date(comm.strip_suffix(b"-")?);
    scan.spaces();
    let stamp = match stamp(&mut scan) {
        Some(stamp) => stamp,
        None => {
            // irqs-off, need-resched, hardirq/softirq, preempt-depth, migrate-disable.
            if scan.word().len() > MAX_FLAGS {
                return None;
            }
            scan.spaces();
            super::layout::stamp(&mut scan)?
        }
    };
    Some(timed(LineColumns { comm, tid, tgid, cpu, at: Moment::default(), name: b"", fields: b"" }, stamp, scan))
}

/// `qemu-sys-206     0d..1.    77.356022: kvm_entry: …`, what trace-cmd prints with -l, and the kernel with the option
/// latency-format, which gives microseconds since the buffer began (`  87us!: `): `lat_print_generic` and
/// `lat_print_timestamp` of kernel/trace/trace_output.c. The thread's name is cut to eight bytes.
fn latency(line: &[u8]) -> Option<LineKind<'_>> {
    // Where the kernel dumps its buffer to the console (`ftrace_dump`), the log's time is before each line.
    let line = match line.strip_prefix(b"[").and_then(|log| log.iter().position(|&byte| byte == b']')) {
        Some(end) => line[end + 2..].trim_ascii_start(),
        None => line,
    };
    let mut from = 0;
    // The name may have dashes of its own.
    while let Some(dash) = line.iter().take(COMM_WIDTH + 4).skip(from).position(|&byte| byte == b'-') {
        let dash = from + dash;
        from = dash + 1;
        let mut scan = Scan::new(&line[from..]);
        let Some((tid, cpu, stamp)) = latency_columns(&mut scan) else { continue };
        let comm = line[..dash].trim_ascii_start();
        return Some(timed(
            LineColumns { comm, tid, tgid: 0, cpu, at: Moment::default(), name: b"", fields: b"" },
            stamp,
            scan,
        ));
    }
    None
}

/// What comes behind the dash: thread, CPU, and the time, which is a count without a unit where the clock is no time.
fn latency_columns(scan: &mut Scan) -> Option<(u32, u32, Stamp)> {
    let tid = scan.decimal32()?;
    scan.literal(" ")?;
    scan.spaces();
    let cpu = scan.decimal32()?;
    let flags = scan.word();
    if flags.is_empty() || flags.len() > MAX_FLAGS {
        return None;
    }
    scan.spaces();
    if let Some(stamp) = stamp(scan) {
        return Some((tid, cpu, stamp));
    }
    let micros = scan.decimal()?;
    scan.literal("us")?;
    // How long until the next event, roughly (`trace_find_mark`).
    if !scan.rest.starts_with(b":") {
        *scan = Scan::new(scan.rest.get(1..)?);
    }
    scan.literal(":")?;
    Some((tid, cpu, Stamp::Time(Moment::from_nanos(micros.checked_mul(1000)?))))
}

/// The event of these columns; `scan` is behind the time.
#[inline]
fn timed<'a>(columns: LineColumns<'a>, stamp: Stamp, mut scan: Scan<'a>) -> LineKind<'a> {
    let Stamp::Time(at) = stamp else { return LineKind::Unusable(Flaw::Counter) };
    scan.spaces();
    if scan.rest.starts_with(b"(+") {
        skip_difference(&mut scan);
    }
    match name(scan.rest) {
        Some((name, fields)) => event(LineColumns { at, name, fields, ..columns }),
        None => LineKind::Bad,
    }
}

/// `(+160)   ` between time and name, the time since the line before: `trace-cmd report --ts-diff`.
#[cold]
fn skip_difference(scan: &mut Scan) {
    let mut ahead = *scan;
    if ahead.literal("(+").and_then(|()| ahead.decimal()).and_then(|_| ahead.literal(")")).is_some() {
        ahead.spaces();
        *scan = ahead;
    }
}

/// An event's name and its fields, as ftrace prints them after the time.
#[inline]
fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
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
