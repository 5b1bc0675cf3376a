//! Texts that lack what accounting needs: which lines show it, and what to print instead.
//!
//! The programs that print traces leave columns out when asked to. A line without a thread or a moment looks like damage;
//! where most lines are such, it is the way in which the text was printed, and that has a name and a remedy.

use super::layout::stamp;
use crate::scan::{Scan, split_last};
use crate::tracepoints::of_text;

/// Colons of a line that may be the one behind a tracepoint's name.
const MAX_COLONS: usize = 16;

/// Why a line that stands for an event cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Its time is a counter's value, of which nobody knows the rate.
    Counter,
    /// It names no thread.
    NoThread,
    /// It has no time.
    NoTime,
    /// It does not name the tracepoint.
    NoName,
    /// It has the tracepoint's name and nothing of what it said.
    NoFields,
    /// Its fields are printed raw, `name=value`.
    RawFields,
    /// It is of one of several files whose lines are merged.
    SeveralFiles,
    /// It begins a record's bytes, in hexadecimal.
    Dump,
    /// It ends a round of events that are not in order of time.
    Rounds,
    /// It is drawn as a comment in a graph of functions.
    FunctionGraph,
}

impl Flaw {
    /// Whether one line shows how the whole text was printed: no damage makes such a line.
    pub fn is_certain(self) -> bool {
        matches!(self, Flaw::RawFields | Flaw::SeveralFiles | Flaw::Dump | Flaw::Rounds | Flaw::FunctionGraph)
    }

    /// What is wrong with the line and what to do, as a sentence that begins with the line.
    pub fn problem(self) -> &'static str {
        match self {
            Flaw::Counter => {
                "has a counter's value for a time (trace clock x86-tsc, counter or uptime, or trace-cmd report --raw-ts), \
                 and nothing says how fast it counts; record with the clock mono, boot or local, and print without --raw-ts"
            }
            Flaw::NoThread => {
                "names no thread, by which exits and entries are paired; \
                 print it with perf script -F comm,pid,tid,cpu,time,event,trace, or keep the columns before the time"
            }
            Flaw::NoTime => {
                "has no time before the tracepoint's name, or none that is read; \
                 print it with perf script -F comm,pid,tid,cpu,time,event,trace, trace-cmd report, or tracefs' trace with \
                 the option context-info and without verbose"
            }
            Flaw::NoName => {
                "does not name its tracepoint (perf script -F without event); \
                 print it with perf script -F comm,pid,tid,cpu,time,event,trace"
            }
            Flaw::NoFields => {
                "has nothing behind the tracepoint's name, such as why an exit was (perf script -F without trace); \
                 print it with perf script -F comm,pid,tid,cpu,time,event,trace"
            }
            Flaw::RawFields => "has its fields raw (trace-cmd report -R or -r); print it without that option",
            Flaw::SeveralFiles => {
                "begins with a file's name: trace-cmd report merged several files, whose threads and clocks need not be \
                 the same; print each file alone"
            }
            Flaw::Dump => "begins a dump of bytes (perf script -D); print it without -D",
            Flaw::Rounds => {
                "ends a round of events, which are not in order of time (perf script --show-round-events); \
                 print it without that option"
            }
            Flaw::FunctionGraph => {
                "is of the function_graph tracer, whose lines name neither thread nor moment; \
                 record events with the tracer nop"
            }
        }
    }
}

/// A line that names a tracepoint which accounting uses.
pub(super) struct NamedEvent<'a> {
    /// What is before its name.
    pub before: &'a [u8],
    /// Its name, without the group.
    pub name: &'a str,
    /// What is behind its name.
    pub fields: &'a [u8],
}

impl<'a> NamedEvent<'a> {
    /// Whether a time is before its name.
    pub fn is_timed(&self) -> bool {
        ends_with_stamp(self.before)
    }

    /// The word before its name, which is the time of one that [is timed](NamedEvent::is_timed).
    pub fn stamp(&self) -> &'a [u8] {
        let at = self.before.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
        &self.before[at..]
    }
}

/// The tracepoint that a line names.
pub(super) fn named_event(line: &[u8]) -> Option<NamedEvent<'_>> {
    let mut from = 0;
    for _ in 0..MAX_COLONS {
        let colon = from + line[from..].iter().position(|&byte| byte == b':')?;
        from = colon + 1;
        if line.get(from).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            continue;
        }
        let begin = line[..colon].iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
        let word = std::str::from_utf8(&line[begin..colon]).unwrap_or_default();
        let (system, name) = word.split_once(':').map_or((None, word), |(system, name)| (Some(system), name));
        if of_text(system, name).is_some() {
            return Some(NamedEvent { before: line[..begin].trim_ascii_end(), name, fields: &line[from..] });
        }
    }
    None
}

/// What is wrong with a line that names a tracepoint which accounting uses, but has not the columns of any layout.
pub(super) fn of_named(line: &[u8]) -> Option<Flaw> {
    let event = named_event(line)?;
    Some(match event.before {
        left if left.ends_with(b"/*") => Flaw::FunctionGraph,
        _ if event.is_timed() => Flaw::NoThread,
        _ => Flaw::NoTime,
    })
}

/// Whether the last word is a time.
fn ends_with_stamp(text: &[u8]) -> bool {
    let word = split_last(text, " ").map_or(text, |(_, word)| word);
    let mut scan = Scan::new(word);
    stamp(&mut scan).is_some() && scan.rest.is_empty()
}

/// Whether `line` begins a record in a dump: `0x3b28@perf.data [0x1790]: event: 69`, as `trace_event` of
/// tools/perf/util/debug.c prints it for `perf script -D`.
pub(super) fn is_dump(line: &[u8]) -> bool {
    line.starts_with(b"0x") && split_last(line, "]: event: ").is_some()
}
