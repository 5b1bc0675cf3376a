//! Where records begin: blocks of whole records out of a file, in order.

use super::records::{AUXTRACE, HEADER, LAST_KERNEL, RecordBlock, SAMPLE, is_known, is_special};
use crate::bytes::ByteOrder;
use crate::input::Input;
use crate::source::TraceError;
use exitscope_model::LedgerLine;
use std::ops::Range;

/// Blocks end with the last record before a multiple of so many bytes. What is made of a block should stay in a core's
/// own cache.
pub const BLOCK: u64 = 256 << 10;

/// Headers that must follow one another to believe that records go on behind a damaged one.
const CHAIN: usize = 4;

/// Bytes at the end of a window in which a guess at where records begin is made, and headers that must follow one another
/// to make it.
const GUESSED: usize = 4 << 10;
const GUESSED_CHAIN: usize = 8;

/// Bytes that a record has at most, rounded up.
const RECORD: u64 = 64 << 10;

/// Bytes of records that are read at once, at most.
pub const MOST_AT_ONCE: usize = (BLOCK + RECORD) as usize;

/// The last type that a record of some later perf may have. Larger ones are bytes of something else.
const LAST_KIND: u32 = u16::MAX as u32;

/// A position in the records of a file.
#[derive(Debug)]
pub struct Cursor {
    pub input: Input,
    pub order: ByteOrder,
    /// Where the next record begins, and where records end.
    pub at: u64,
    pub end: u64,
    /// Where more records are behind that.
    behind: Option<(u64, u64)>,
    /// Whether records that change the context stop a block, to be handled before the next one.
    pub sequential: bool,
}

/// Bytes of a file that one thread has read. Another thread's would have to come out of that one's cache.
#[derive(Debug, Default)]
pub struct FileWindow {
    pub bytes: Vec<u8>,
    /// Where they begin in the file, and where they were to end.
    at: u64,
    until: u64,
}

impl FileWindow {
    /// Reads these bytes of the file; fewer if it has no more.
    pub fn read(&mut self, input: &Input, range: &Range<u64>) -> Result<(), TraceError> {
        self.bytes.resize((range.end - range.start) as usize, 0);
        let got = input.read_up_to(range.start, &mut self.bytes)?;
        self.bytes.truncate(got);
        (self.at, self.until) = (range.start, range.end);
        Ok(())
    }
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Whole records: where they are in the window, and in the file.
    Records(Range<usize>, u64),
    /// A record that changes how others are read: its type, where it is in the window, header and all, and its offset.
    Special(u32, Range<usize>, u64),
    /// No more.
    End,
}

impl Cursor {
    /// Records that lie at `at..end`, and `behind` that.
    pub fn new(
        input: Input,
        order: ByteOrder,
        (at, end): (u64, u64),
        behind: Option<(u64, u64)>,
        sequential: bool,
    ) -> Cursor {
        Cursor { input, order, at, end, behind, sequential }
    }

    /// Sees to it that the next block is in `window`. What is damaged before it goes to `block`.
    pub fn next(&mut self, window: &mut FileWindow, block: &mut RecordBlock) -> Result<Next, TraceError> {
        while self.at < self.end {
            let from = self.load(window)?;
            let bytes = &window.bytes[..];
            let begin = self.at;
            let mut at = from;
            let stop = loop {
                // The order as a constant makes steps short.
                at = match self.order {
                    ByteOrder::Little => behind_samples(bytes, at, ByteOrder::Little),
                    ByteOrder::Big => behind_samples(bytes, at, ByteOrder::Big),
                };
                let Some((kind, size)) = header(bytes, at, self.order) else { break Stop::Cut };
                if !is_sound(kind, size) {
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
            if at > from {
                self.at += (at - from) as u64;
                return Ok(Next::Records(from..at, begin));
            }
            match stop {
                Stop::Special(AUXTRACE, size) => {
                    // Followed by data of its own length, which belongs to a hardware tracer.
                    let trailing = self.order.u64(bytes, from + HEADER).unwrap_or(0);
                    let next = begin.saturating_add(size as u64).saturating_add(trailing);
                    if next > self.end {
                        block.ledger.add_at(LedgerLine::TruncatedBytes, next - self.end, begin);
                    }
                    self.at = next.min(self.end);
                }
                Stop::Special(kind, size) if from + size <= bytes.len() => {
                    self.at += size as u64;
                    return Ok(Next::Special(kind, from..from + size, begin));
                }
                Stop::Bad => {
                    block.hole(LedgerLine::BadRecord, begin);
                    self.resync(window)?;
                }
                Stop::Cut | Stop::Special(..) => {
                    block.ledger.add_at(LedgerLine::TruncatedBytes, self.end - begin, begin);
                    self.at = self.end;
                }
            }
        }
        match self.behind.take() {
            Some((at, end)) => {
                (self.at, self.end) = (at, end);
                self.next(window, block)
            }
            None => Ok(Next::End),
        }
    }

    /// Sees to it that the window holds the whole record at `self.at`, if the file does; returns where it begins there.
    /// Where the window ends depends on nothing but that place, so that blocks are the same whoever reads them. Small
    /// records that stop a block are many in some files; each is not worth reading a block again.
    fn load(&self, window: &mut FileWindow) -> Result<usize, TraceError> {
        let until = self.line().min(self.end);
        if self.at < window.at || window.until != until {
            window.read(&self.input, &(self.at..until))?;
        }
        Ok((self.at - window.at) as usize)
    }

    /// Where the next block's window ends, unless the file does before.
    fn line(&self) -> u64 {
        (self.at + RECORD).next_multiple_of(BLOCK)
    }

    /// Guesses where the next block is, without reading it: up to where a chain of records ends that begins anywhere near
    /// the end of its window. To find that for certain, the block has to be gone through from header to header. Whoever
    /// decodes the block sees whether its records end there.
    pub fn guess(&mut self) -> Result<Option<Range<u64>>, TraceError> {
        let line = self.line();
        if line > self.end {
            return Ok(None);
        }
        // The kernel's records are on a grid of 8 bytes, as the one at hand is.
        let begin = line - GUESSED as u64 + self.at % 8;
        let mut bytes = [0; GUESSED];
        let bytes = &mut bytes[..(line - begin) as usize];
        let got = self.input.read_up_to(begin, bytes)?;
        let bytes = &bytes[..got];
        let end = (0..got).step_by(8).find_map(|mut at| {
            let mut number = 0;
            while let Some((kind, size)) = header(bytes, at, self.order) {
                if !is_sound(kind, size) || !is_known(kind) {
                    return None;
                }
                if at + size > bytes.len() {
                    break;
                }
                (at, number) = (at + size, number + 1);
            }
            (number >= GUESSED_CHAIN).then_some(at)
        });
        Ok(end.map(|end| {
            let from = std::mem::replace(&mut self.at, begin + end as u64);
            from..self.at
        }))
    }

    /// Goes to where records seem to go on behind a damaged one: the next place where several plausible headers follow
    /// one another. Any byte may be it: the damaged size may have led off the grid on which records lie.
    fn resync(&mut self, window: &mut FileWindow) -> Result<(), TraceError> {
        self.at += 1;
        while self.at < self.end {
            let from = self.load(window)?;
            let bytes = &window.bytes[..];
            let held = window.at + bytes.len() as u64;
            // A file that has become shorter holds less than it said.
            let last = held >= self.end || held < window.until;
            // Near the window's end a chain is better looked at with what follows.
            let to = if last { bytes.len() } else { bytes.len() - RECORD as usize / 2 };
            if let Some(found) = find_chain(&bytes[from..], to - from, last, self.order) {
                self.at += found as u64;
                return Ok(());
            }
            if last {
                break;
            }
            self.at += (to - from) as u64;
        }
        self.at = self.end;
        Ok(())
    }
}

/// The end of the whole samples, which nearly all records are, that `bytes` has from `at` on.
#[inline(always)]
fn behind_samples(bytes: &[u8], mut at: usize, order: ByteOrder) -> usize {
    while let Some((SAMPLE, size)) = header(bytes, at, order)
        && size >= HEADER
        && size.is_multiple_of(8)
        && at + size <= bytes.len()
    {
        at += size;
    }
    at
}

/// The first of `bytes`' places up to `to` from which plausible records follow one another. With `last`, nothing comes
/// behind `bytes`.
pub fn find_chain(bytes: &[u8], to: usize, last: bool, order: ByteOrder) -> Option<usize> {
    let is_chain = |mut at: usize| {
        for number in 0..CHAIN {
            match header(bytes, at, order) {
                Some((kind, size)) if is_sound(kind, size) && is_known(kind) => at += size,
                // Records that end where the file does, or go on behind the bytes in hand, are as good.
                _ => return number > 0 && if last { at == bytes.len() } else { at + HEADER > bytes.len() },
            }
        }
        true
    };
    (0..to).find(|&at| is_chain(at))
}

enum Stop {
    /// The block ends within a record.
    Cut,
    /// No header can be so.
    Bad,
    Special(u32, usize),
}

#[inline(always)]
fn header(bytes: &[u8], at: usize, order: ByteOrder) -> Option<(u32, usize)> {
    let raw: &[u8; HEADER] = bytes.get(at..)?.first_chunk()?;
    Some((order.u32(raw, 0)?, usize::from(order.u16(raw, 6)?)))
}

/// Whether a record of this type can have this size. The kernel's are on a grid of 8 bytes, perf's own need not be.
#[inline]
pub fn is_sound(kind: u32, size: usize) -> bool {
    size >= HEADER && kind <= LAST_KIND && (size.is_multiple_of(8) || kind > LAST_KERNEL)
}

/// How many bytes of whole records `bytes` begins with, and whether a damaged one follows. For records out of
/// compressed ones.
pub fn whole(bytes: &[u8], order: ByteOrder) -> (usize, bool) {
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
