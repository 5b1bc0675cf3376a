//! Short texts that have times and no thread: events are paired by the vCPU's number, as if all were of one VM.
//!
//! ```text
//! [001] 87.534190: kvm_exit: vcpu 0 reason HLT rip …  ─► vcpu-1  [001] 87.534190: kvm_exit: vcpu 0 reason HLT rip …
//! 87.534200: kvm_pio: pio_write at 0x3f8 …            ─► the vCPU that last left its guest on that CPU, or last of all
//! ```
//!
//! Events that are not KVM's are left out: they name threads, and nothing says whose these are.
//!
//! `kvm_exit` has the number since Linux 5.10, `kvm_entry` always (arch/x86/kvm/trace.h). Where one of them lacks it, nothing says whose
//! exit an entry ends, and how often events came is all that is known.

use super::flaw::{NamedEvent, named_event};
use super::layout::{LineKind, TextDialect, bracketed_cpu, join};
use crate::scan::Scan;
use crate::{EventSource, Input, TraceError};
use exitscope_model::{Event, Ledger, LedgerLine, TraceInfo};
use std::collections::BTreeMap;

/// Bytes of a text at most: what people paste, and no trace of a long run.
const MOST: u64 = 64 << 10;

/// The text with a thread before each line; `None` if it has threads, or its exits and entries lack numbers.
pub(super) fn with_threads(input: &Input, unmarked: impl Fn(&[u8]) -> &[u8]) -> Result<Option<Vec<u8>>, TraceError> {
    if input.len() > MOST {
        return Ok(None);
    }
    let text = input.read_vec(0, input.len())?;
    let (mut out, mut seen, mut before) = (Vec::with_capacity(text.len() * 2), Seen::default(), &b""[..]);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let (line, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |line| (line, b"\n"));
        let line = unmarked(line);
        match named_event(line) {
            None => {}
            Some(event) if !event.is_timed() || is_event(before, line) => return Ok(None),
            // Threads that events of the scheduler name are no vCPUs' here.
            Some(event) if !event.name.starts_with("kvm") => continue,
            // What comes before any exit and entry is nobody's, and is left as it is.
            Some(event) if !event.is_of_guest() && seen.last.is_empty() => {}
            Some(event) => {
                let Some((vcpu, cpu)) = seen.whose(&event) else { return Ok(None) };
                out.extend_from_slice(format!("vcpu-{}  [{cpu:03}] ", vcpu + 1).as_bytes());
                for part in [event.stamp(), b" ", event.name.as_bytes(), b":", event.fields, end] {
                    out.extend_from_slice(part);
                }
                before = b"";
                continue;
            }
        }
        before = line;
        out.extend_from_slice(line);
        out.extend_from_slice(end);
    }
    Ok((seen.has_exit && seen.has_entry).then_some(out))
}

/// Whether a line is an event with a thread, alone or as the rest of the line before, which a mail program has wrapped.
fn is_event(before: &[u8], line: &[u8]) -> bool {
    let mut whole = before.to_vec();
    join(&mut whole, line);
    let layouts = [TextDialect::Ftrace, TextDialect::PerfScript];
    layouts.iter().any(|layout| [line, &whole].iter().any(|line| matches!(layout.read(line), LineKind::Event(_))))
}

/// Whose events were there.
#[derive(Default)]
struct Seen {
    /// By CPU, the vCPU that it ran last; all are of CPU 0 where none is named.
    last: BTreeMap<u32, u32>,
    has_exit: bool,
    has_entry: bool,
}

impl Seen {
    /// The vCPU of an event and its CPU; `None` if nothing says whose it is.
    fn whose(&mut self, event: &NamedEvent<'_>) -> Option<(u32, u32)> {
        let cpu = event.cpu().unwrap_or(0);
        let number = || -> Option<u32> {
            let rest = event.fields.trim_ascii_start().strip_prefix(b"vcpu ")?;
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
        };
        let (is_exit, is_entry) = (event.name == EXIT, event.name == ENTRY);
        let vcpu = match event.is_of_guest() {
            true => number()?,
            false => number().or_else(|| self.last.get(&cpu).or(self.last.values().next()).copied())?,
        };
        // A thread's number is one more, and no larger than threads have.
        if vcpu >= 1 << 22 {
            return None;
        }
        self.last.insert(cpu, vcpu);
        self.has_exit |= is_exit;
        self.has_entry |= is_entry;
        Some((vcpu, cpu))
    }
}

const EXIT: &str = "kvm_exit";
const ENTRY: &str = "kvm_entry";

impl NamedEvent<'_> {
    /// Whether a guest is left by it, or entered.
    fn is_of_guest(&self) -> bool {
        [EXIT, ENTRY].contains(&self.name)
    }

    /// The CPU before its time.
    fn cpu(&self) -> Option<u32> {
        let bracket = self.before.iter().rposition(|&byte| byte == b'[')?;
        bracketed_cpu(&mut Scan::new(&self.before[bracket..]))
    }
}

/// A text whose events are paired by vCPU, which is said once.
pub(super) struct ByVcpu {
    pub text: Box<dyn EventSource>,
    pub is_said: bool,
}

impl EventSource for ByVcpu {
    fn info(&self) -> &TraceInfo {
        self.text.info()
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let before = ledger.events;
        let more = self.text.read(events, ledger)?;
        if !self.is_said && ledger.events > before {
            self.is_said = true;
            ledger.count(LedgerLine::PairedByVcpu);
        }
        Ok(more)
    }

    fn progress(&self) -> (u64, u64) {
        self.text.progress()
    }
}
