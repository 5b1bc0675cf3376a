//! Where records begin: blocks of whole records out of a file, in order.

use super::records::{
    AUXTRACE, Block, COMPRESSED, COMPRESSED2, HEADER, HEADER_ATTR, HEADER_FEATURE, HEADER_TRACING_DATA, LAST_KERNEL,
    OWN,
};
use crate::bytes::Order;
use crate::input::Input;
use crate::source::TraceError;
use exitscope_model::Line;
use std::ops::Range;

/// Bytes that a block has at most. Records are at most 64 KiB, so a block holds at least one.
pub const BLOCK: usize = 256 << 10;

/// Longest record: its size is a u16.
const LONGEST: usize = 64 << 10;

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
    /// Where the first record begins.
    start: u64,
    /// Where in the file the bytes in the caller's buffer are from.
    held: u64,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Whole records at this place in the buffer, which begin at this offset of the file.
    Records(Range<usize>, u64),
    /// A record that changes how others are read, header and all: its type, place and offset.
    Special(u32, Range<usize>, u64),
    /// No more.
    End,
}

impl Cursor {
    /// A cursor over the records at `data.0..data.1`.
    pub fn new(input: Input, order: Order, data: (u64, u64), sequential: bool) -> Cursor {
        Cursor { input, order, at: data.0, end: data.1, sequential, start: data.0, held: u64::MAX }
    }

    /// Reads the next records into `buffer`. A sequential cursor is always given the same buffer, and reads it again
    /// only when it needs more. What is damaged on the way goes to `block`.
    pub fn next(&mut self, buffer: &mut Vec<u8>, block: &mut Block) -> Result<Next, TraceError> {
        if !self.sequential {
            self.held = u64::MAX;
        }
        while self.at < self.end {
            let from = self.fill(buffer)?;
            let begin = self.at;
            let mut at = from;
            let stop = loop {
                let Some((kind, size)) = header(buffer, at, self.order) else { break Stop::Cut };
                if !is_sound(kind, size) {
                    break Stop::Bad;
                }
                if self.sequential && is_special(kind) || kind == AUXTRACE {
                    break Stop::Special(kind, size);
                }
                if at + size > buffer.len() {
                    break Stop::Cut;
                }
                at += size;
            };
            if at > from {
                self.at += (at - from) as u64;
                return Ok(Next::Records(from..at, begin));
            }
            match stop {
                Stop::Special(AUXTRACE, size) => {
                    // Followed by data of its own length, which belongs to a hardware tracer.
                    let trailing = self.order.u64(buffer, from + HEADER).unwrap_or(0);
                    let next = begin.saturating_add(size as u64).saturating_add(trailing);
                    if next > self.end {
                        block.ledger.add_at(Line::TruncatedBytes, next - self.end, begin);
                    }
                    self.at = next.min(self.end);
                }
                Stop::Special(kind, size) if from + size <= buffer.len() => {
                    self.at += size as u64;
                    return Ok(Next::Special(kind, from..from + size, begin));
                }
                Stop::Bad => {
                    block.hole(Line::BadRecord, begin);
                    self.resync(buffer)?;
                }
                Stop::Cut | Stop::Special(..) => {
                    block.ledger.add_at(Line::TruncatedBytes, self.end - begin, begin);
                    self.at = self.end;
                }
            }
        }
        Ok(Next::End)
    }

    /// Makes `buffer` hold the next record, if the file does; returns where in it that record begins.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<usize, TraceError> {
        let held = buffer.len() as u64;
        if let Some(skip) = self.at.checked_sub(self.held).filter(|&skip| skip < held)
            && (held - skip >= LONGEST as u64 || self.held + held == self.end)
        {
            return Ok(skip as usize);
        }
        self.read(self.at, buffer)?;
        Ok(0)
    }

    fn read(&mut self, from: u64, buffer: &mut Vec<u8>) -> Result<(), TraceError> {
        buffer.resize((self.end - from).min(BLOCK as u64) as usize, 0);
        let got = self.input.read_up_to(from, buffer)?;
        buffer.truncate(got);
        self.held = from;
        Ok(())
    }

    /// Goes to where records seem to go on behind a damaged one: the next place where several plausible headers follow one
    /// another. The kernel writes records on a grid of 8 bytes; perf's own compressed ones leave it.
    fn resync(&mut self, buffer: &mut Vec<u8>) -> Result<(), TraceError> {
        let step = if self.sequential { 1 } else { 8 };
        self.at += step - (self.at - self.start) % step;
        while self.at < self.end {
            let from = self.fill(buffer)?;
            let bytes = &buffer[from..];
            let ends = self.at + bytes.len() as u64 >= self.end;
            if let Some(found) = find_chain(bytes, step as usize, ends, self.order) {
                self.at += found as u64;
                return Ok(());
            }
            if ends || bytes.len() < LONGEST {
                break;
            }
            // A chain may lie across the end of the block.
            self.at += (bytes.len() / 16 * 8) as u64;
        }
        self.at = self.end;
        Ok(())
    }
}

/// The first place, in steps of `step`, from which plausible records follow one another. With `ends`, nothing follows
/// `bytes`, and fewer records will do if they end where it ends.
pub fn find_chain(bytes: &[u8], step: usize, ends: bool, order: Order) -> Option<usize> {
    let is_chain = |mut at: usize| {
        for _ in 0..CHAIN {
            match header(bytes, at, order) {
                Some((kind, size)) if is_sound(kind, size) && (1..=LAST_KERNEL).contains(&kind) => at += size,
                Some((kind, size)) if is_sound(kind, size) && OWN.contains(&kind) => at += size,
                _ => return false,
            }
            if ends && at == bytes.len() {
                return true;
            }
        }
        true
    };
    (0..bytes.len().saturating_sub(HEADER - 1)).step_by(step).find(|&at| is_chain(at))
}

enum Stop {
    /// The block ends within a record.
    Cut,
    /// A size that no record has.
    Bad,
    Special(u32, usize),
}

#[inline]
fn header(bytes: &[u8], at: usize, order: Order) -> Option<(u32, usize)> {
    Some((order.u32(bytes, at)?, usize::from(order.u16(bytes, at + 6)?)))
}

/// Whether a record of this type can have this size.
#[inline]
fn is_sound(kind: u32, size: usize) -> bool {
    size >= HEADER && (size.is_multiple_of(8) || kind > LAST_KERNEL)
}

/// How many bytes of whole records `bytes` begins with, and whether a damaged one follows. For records out of
/// compressed ones.
pub fn whole(bytes: &[u8], order: Order) -> (usize, bool) {
    let mut at = 0;
    while let Some((kind, size)) = header(bytes, at, order) {
        if !is_sound(kind, size) {
            return (at, true);
        }
        if at + size > bytes.len() {
            break;
        }
        at += size;
    }
    (at, false)
}

fn is_special(kind: u32) -> bool {
    matches!(kind, HEADER_ATTR | HEADER_TRACING_DATA | HEADER_FEATURE | COMPRESSED | COMPRESSED2)
}
