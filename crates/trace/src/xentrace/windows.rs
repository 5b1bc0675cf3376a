//! Where each physical CPU's records lie in the file.
//!
//! ```text
//! CPU_CHANGE (cpu 1, 36 bytes) · 36 bytes of records │ CPU_CHANGE (cpu 0, …) · … │ CPU_CHANGE (cpu 1, …) · …
//! ```
//!
//! A CPU_CHANGE is 12 bytes: the header word, the CPU, the length of its window. It must lead to the next one, or to the
//! file's end: where it does not, the file is searched for one that does.

use crate::bytes::ByteOrder::Little;
use crate::{Input, TraceError};
use exitscope_model::{Ledger, LedgerLine};
use std::collections::VecDeque;

/// The header word of CPU_CHANGE: two extra words, no time stamp, event 0x1f003.
const CPU_CHANGE: u32 = 0x2001_f003;

/// CPUs at most: as many as Xen can be built for.
const MAX_CPUS: u32 = 4096;

/// Windows that are known ahead, at most (64 MB): those of an ordinary file. Of a longer one, a CPU that is not heard
/// for so many windows is taken to be silent.
const MAX_AHEAD: usize = 4 << 20;

/// Bytes read at once while looking for windows, and while looking for one behind damage.
const LOOK: usize = 4096;
const SEARCH: usize = 1 << 20;

/// The records of one CPU that lie together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Where they begin.
    pub at: u64,
    /// How many bytes they have.
    pub len: u32,
    /// Whether something before them could not be read.
    pub hole: bool,
}

/// All windows, CPU by CPU, found as far ahead as memory allows.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Windows known and not yet taken, by CPU.
    ahead: Vec<VecDeque<Window>>,
    known: usize,
    /// Where the next CPU_CHANGE is.
    next: u64,
    /// Bytes of windows known and not yet taken.
    bytes_ahead: u64,
    /// Bytes of the file from `block_at` on.
    block: Vec<u8>,
    block_at: u64,
    hole: bool,
}

/// The CPU and the length that a CPU_CHANGE says.
fn cpu_change(header: &[u8]) -> Option<(u32, u32)> {
    if Little.u32(header, 0) != Some(CPU_CHANGE) {
        return None;
    }
    let (cpu, len) = (Little.u32(header, 4)?, Little.u32(header, 8)?);
    (cpu < MAX_CPUS && len.is_multiple_of(4)).then_some((cpu, len))
}

/// Whether a file begins like this: with a CPU_CHANGE.
pub(super) fn looks_like(head: &[u8]) -> bool {
    cpu_change(head).is_some()
}

/// Bytes of a CPU_CHANGE.
const HEADER: u64 = Windows::HEADER;

impl Windows {
    /// Bytes of a CPU_CHANGE.
    pub const HEADER: u64 = 12;

    /// The CPU and the length that the CPU_CHANGE at `at` says, if there is one.
    pub fn at(input: &Input, at: u64) -> Result<Option<(u32, u32)>, TraceError> {
        let mut header = [0; HEADER as usize];
        let got = input.read_up_to(at, &mut header)?;
        Ok(cpu_change(&header[..got]))
    }

    /// The next window of `cpu`.
    pub fn take(&mut self, cpu: usize) -> Option<Window> {
        let window = self.ahead.get_mut(cpu)?.pop_front()?;
        self.known -= 1;
        self.bytes_ahead -= u64::from(window.len);
        Some(window)
    }

    /// Bytes of the file that were looked at, without those of windows that were not taken.
    pub fn taken(&self) -> u64 {
        self.next - self.bytes_ahead
    }

    /// How many CPUs there may be: the highest met so far, and one.
    pub fn cpus(&self) -> usize {
        self.ahead.len()
    }

    /// Whether `cpu` has a window that was not taken.
    pub fn has(&self, cpu: usize) -> bool {
        self.ahead.get(cpu).is_some_and(|windows| !windows.is_empty())
    }

    /// Whether so few windows are left that more should be looked for. They are looked for many at a time.
    pub fn is_low(&self, input: &Input) -> bool {
        self.next < input.len() && self.known < MAX_AHEAD / 2
    }

    /// Finds further windows.
    pub fn look_ahead(&mut self, input: &Input, ledger: &mut Ledger) -> Result<(), TraceError> {
        while self.next < input.len() && self.known < MAX_AHEAD {
            self.find_one(input, ledger)?;
        }
        Ok(())
    }

    fn find_one(&mut self, input: &Input, ledger: &mut Ledger) -> Result<(), TraceError> {
        let (at, end) = (self.next, input.len());
        let Some((cpu, len)) = self.header(input, at)? else {
            if end - at < HEADER {
                ledger.add_at(LedgerLine::TruncatedBytes, end - at, at);
                self.next = end;
                return Ok(());
            }
            // Only the first can be bad: each leads to the next.
            return self.skip_to(self.search(input, at + 4)?.unwrap_or(end), at, ledger);
        };
        let data = at + HEADER;
        let said = data + u64::from(len);
        if said == end || end.saturating_sub(said) >= HEADER && self.header(input, said)?.is_some() {
            self.push(cpu, data, said);
            self.next = said;
            return Ok(());
        }
        // This length is wrong, or the header that it leads to is damaged, or the file is cut.
        match self.search(input, data)? {
            Some(next) if next < said => {
                ledger.count_at(LedgerLine::BadRecord, at);
                self.push(cpu, data, next);
                self.next = next;
                Ok(())
            }
            Some(next) => {
                self.push(cpu, data, said);
                self.skip_to(next, said, ledger)
            }
            None if said > end => {
                ledger.add_at(LedgerLine::TruncatedBytes, said - end, at);
                self.push(cpu, data, end);
                self.next = end;
                Ok(())
            }
            None => {
                self.push(cpu, data, said);
                if end - said < HEADER {
                    ledger.add_at(LedgerLine::TruncatedBytes, end - said, said);
                    self.next = end;
                    return Ok(());
                }
                self.skip_to(end, said, ledger)
            }
        }
    }

    /// Goes on at `next`: what lies between `at` and there cannot be read.
    fn skip_to(&mut self, next: u64, at: u64, ledger: &mut Ledger) -> Result<(), TraceError> {
        ledger.count_at(LedgerLine::BadRecord, at);
        self.hole = true;
        self.next = next;
        Ok(())
    }

    fn push(&mut self, cpu: u32, from: u64, to: u64) {
        let cpu = cpu as usize;
        if self.ahead.len() <= cpu {
            self.ahead.resize_with(cpu + 1, VecDeque::new);
        }
        let window = Window { at: from, len: (to - from) as u32, hole: std::mem::take(&mut self.hole) };
        self.bytes_ahead += u64::from(window.len);
        self.ahead[cpu].push_back(window);
        self.known += 1;
    }

    /// The CPU_CHANGE at `at`.
    fn header(&mut self, input: &Input, at: u64) -> Result<Option<(u32, u32)>, TraceError> {
        let there = |windows: &Windows| {
            let from = usize::try_from(at.checked_sub(windows.block_at)?).ok()?;
            windows.block.get(from..from.checked_add(HEADER as usize)?).map(cpu_change)
        };
        if let Some(known) = there(self) {
            return Ok(known);
        }
        // Behind a long window the next one is likely long, too.
        let far = at.saturating_sub(self.block_at) >= LOOK as u64;
        self.block.resize(if far { HEADER as usize } else { LOOK }, 0);
        let got = input.read_up_to(at, &mut self.block)?;
        self.block.truncate(got);
        self.block_at = at;
        Ok(there(self).flatten())
    }

    /// The first place from `from` on where a CPU_CHANGE is that leads to another, or to the end of the file.
    fn search(&self, input: &Input, from: u64) -> Result<Option<u64>, TraceError> {
        let mut block = vec![0; SEARCH];
        let mut at = from;
        loop {
            let got = input.read_up_to(at, &mut block)?;
            let bytes = &block[..got];
            let whole = got.saturating_sub(HEADER as usize - 1);
            for place in (0..whole).step_by(4) {
                let Some((_, len)) = cpu_change(&bytes[place..]) else { continue };
                let found = at + place as u64;
                let said = found + HEADER + u64::from(len);
                if said == input.len() || Windows::at(input, said)?.is_some() {
                    return Ok(Some(found));
                }
            }
            if got < SEARCH {
                return Ok(None);
            }
            // The last bytes again, with those behind them; places stay multiples of four apart.
            at += (whole as u64).next_multiple_of(4).min(got as u64 - 8);
        }
    }
}
