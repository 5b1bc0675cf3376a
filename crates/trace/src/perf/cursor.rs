//! Where records begin: blocks of whole records out of a file, in order.

use super::records::{AUXTRACE, COMPRESSED, COMPRESSED2, HEADER, HEADER_ATTR, HEADER_FEATURE, HEADER_TRACING_DATA};
use crate::bytes::Order;
use crate::input::Input;
use crate::source::TraceError;
use exitscope_model::{Ledger, Line};

/// Bytes that a block has at most. Records are at most 64 KiB, so a block holds at least one.
pub const BLOCK: usize = 1 << 20;

/// Headers that must follow one another to believe that records go on behind a damaged one.
const CHAIN: usize = 4;

/// A position in the records of a file.
#[derive(Debug)]
pub struct Cursor {
    pub input: Input,
    pub order: Order,
    /// Where the next record begins, and where records end.
    pub at: u64,
    pub end: u64,
    /// Whether records that change the context stop a block, to be handled before the next one.
    pub sequential: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// This many bytes of whole records, which begin at this offset of the file.
    Records(usize, u64),
    /// A record that changes how others are read: its type, offset and size, header and all.
    Special(u32, u64, usize),
    /// No more.
    End,
}

impl Cursor {
    /// Reads the next block into `buffer`.
    pub fn next(&mut self, buffer: &mut Vec<u8>, ledger: &mut Ledger) -> Result<Next, TraceError> {
        while self.at < self.end {
            let bytes = self.fill(self.at, buffer)?;
            let begin = self.at;
            let mut at = 0;
            let stop = loop {
                let Some((kind, size)) = header(bytes, at, self.order) else { break Stop::Cut };
                if size < HEADER {
                    break Stop::Bad;
                }
                if self.sequential && is_special(kind) || kind == AUXTRACE {
                    break Stop::Special(kind, size);
                }
                if at + size > bytes.len() {
                    break Stop::Cut;
                }
                at += size;
            };
            if at > 0 {
                self.at += at as u64;
                return Ok(Next::Records(at, begin));
            }
            match stop {
                Stop::Special(AUXTRACE, size) => {
                    // Followed by data of its own length, which belongs to a hardware tracer.
                    let trailing = self.order.u64(bytes, HEADER).unwrap_or(0);
                    self.at = self.at.saturating_add(size as u64).saturating_add(trailing).min(self.end);
                }
                Stop::Special(kind, size) if size <= bytes.len() => {
                    self.at += size as u64;
                    return Ok(Next::Special(kind, begin, size));
                }
                Stop::Bad => {
                    ledger.count_at(Line::BadRecord, begin);
                    self.at = self.resync(buffer)?;
                }
                Stop::Cut | Stop::Special(..) => {
                    ledger.add_at(Line::TruncatedBytes, self.end - begin, begin);
                    self.at = self.end;
                }
            }
        }
        Ok(Next::End)
    }

    /// The bytes at `from`, as many as a block holds and there are, in `buffer`, which only grows.
    fn fill<'a>(&self, from: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], TraceError> {
        let want = self.end.saturating_sub(from).min(BLOCK as u64) as usize;
        if buffer.len() < want {
            buffer.resize(want, 0);
        }
        let got = self.input.read_up_to(from, &mut buffer[..want])?;
        Ok(&buffer[..got])
    }

    /// Where records seem to go on behind a damaged one: the next place, on the 8-byte grid on which perf writes them,
    /// where several plausible headers follow one another.
    fn resync(&self, buffer: &mut Vec<u8>) -> Result<u64, TraceError> {
        let mut from = self.at + 8;
        while from < self.end {
            buffer.resize((self.end - from).min(BLOCK as u64) as usize, 0);
            let got = self.input.read_up_to(from, buffer)?;
            buffer.truncate(got);
            if let Some(found) = (0..buffer.len().saturating_sub(HEADER)).step_by(8).find(|&at| self.chain(buffer, at))
            {
                return Ok(from + found as u64);
            }
            if got < BLOCK {
                break;
            }
            // A chain may lie across the end of the block.
            from += (BLOCK / 2) as u64;
        }
        Ok(self.end)
    }

    fn chain(&self, buffer: &[u8], mut at: usize) -> bool {
        for _ in 0..CHAIN {
            match header(buffer, at, self.order) {
                Some((kind, size)) if size >= HEADER && size % 8 == 0 && (1..=86).contains(&kind) => at += size,
                _ => return false,
            }
        }
        true
    }
}

enum Stop {
    /// The block ends within a record.
    Cut,
    /// A size smaller than a header.
    Bad,
    Special(u32, usize),
}

#[inline]
fn header(bytes: &[u8], at: usize, order: Order) -> Option<(u32, usize)> {
    Some((order.u32(bytes, at)?, usize::from(order.u16(bytes, at + 6)?)))
}

/// How many bytes of whole records `bytes` begins with, special ones left out. For records out of compressed ones.
pub fn whole(bytes: &[u8], order: Order) -> usize {
    let mut at = 0;
    while let Some((_, size)) = header(bytes, at, order) {
        if size < HEADER || at + size > bytes.len() {
            break;
        }
        at += size;
    }
    at
}

fn is_special(kind: u32) -> bool {
    matches!(kind, HEADER_ATTR | HEADER_TRACING_DATA | HEADER_FEATURE | COMPRESSED | COMPRESSED2)
}
