//! One CPU's records, in the order in which they were written.
//!
//! ```text
//! page    u64 time stamp · long commit (bits 0-26 bytes of data, 31 records are missing before, 30 how many is behind
//!         the data) · data
//! record  u32: 5 bits type, 27 bits time since the record before
//!         0 data, length in the next u32 · 1-28 data of so many words · 29 padding · 30 more time · 31 absolute time
//! ```

use super::blocks::{Block, Blocks};
use super::head::Region;
use super::unpack::Unpacker;
use crate::bytes::ByteOrder;
use crate::tracefs::NEAR;
use crate::{Input, TraceError};
use exitscope_model::{Ledger, LedgerLine};
use std::ops::Range;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// `RB_MISSED_EVENTS` and `RB_MISSED_STORED` of `kernel/trace/ring_buffer.c`.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT: u64 = (1 << 27) - 1;

/// Absolute time stamps have 59 bits; the others stay as they were.
const TIME_STAMP_KEEPS: u64 = 0xf8 << 56;

/// One CPU's records.
#[derive(Debug)]
pub(super) struct RingPageStream {
    /// The CPU.
    pub cpu: u32,
    /// Where its blocks come from.
    blocks: Blocks,
    block: Block,
    order: ByteOrder,
    long: usize,
    page_size: usize,
    /// Where in the block the next page begins.
    page: usize,
    /// Where the next record is, and where the page's data ends.
    at: usize,
    end: usize,
    ticks: u64,
    /// Records that the kernel says are missing before the next one; zero if it does not say how many.
    pub missed: Option<u64>,
    /// Whether something before the next record could not be read, or may be missing.
    pub hole: bool,
    /// Whether something may be missing between any two pages.
    pub is_suspect: bool,
    /// Where in the block the current record's payload is; none if there is only a loss to tell.
    payload: Option<Range<usize>>,
}

/// What a step along a stream found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A record at this time.
    Record(u64),
    /// Another block is needed.
    Block,
}

impl RingPageStream {
    /// The records of `region`, one of `all` that are read at the same time.
    pub fn new(region: Region, all: usize, order: ByteOrder, long: usize) -> RingPageStream {
        RingPageStream {
            cpu: region.data.cpu,
            blocks: Blocks::new(region, all),
            block: Block::default(),
            order,
            long,
            page_size: region.page_size,
            page: 0,
            at: 0,
            end: 0,
            ticks: 0,
            missed: None,
            hole: false,
            is_suspect: false,
            payload: None,
        }
    }

    /// The payload of the record that [`RingPageStream::step`] found.
    #[inline]
    pub fn payload(&self) -> Option<&[u8]> {
        self.block.bytes.get(self.payload.clone()?)
    }

    /// The payload's first bytes, or what follows it in the block where it is shorter.
    #[inline]
    pub fn ahead(&self) -> Option<&[u8; NEAR]> {
        self.block.bytes.get(self.payload.as_ref()?.start..)?.first_chunk()
    }

    /// Whether something may be missing right after the current record: it is the last of its page.
    #[inline]
    pub fn may_be_cut_off(&self) -> bool {
        self.is_suspect && self.is_last_of_page()
    }

    #[cold]
    fn is_last_of_page(&self) -> bool {
        let data = &self.block.bytes[..self.end];
        // What is left of a page for which a record was too long is padding.
        self.order.u32(data, self.at).is_none_or(|head| self.kind_and_delta(head).0 == PADDING)
    }

    /// Where in the file the current record is, or its chunk.
    pub fn offset(&self) -> u64 {
        self.file_offset(self.payload.as_ref().map_or(self.at, |payload| payload.start))
    }

    fn file_offset(&self, at: usize) -> u64 {
        self.block.offset + if self.block.plain { at as u64 } else { 0 }
    }

    /// Goes on with the next block, in the memory of the one that is done; how many bytes of the file it took, none at
    /// the end.
    #[cold]
    pub fn refill(
        &mut self,
        input: &Input,
        unpacker: &mut Unpacker,
        packed: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Result<Option<u64>, TraceError> {
        let old = std::mem::take(&mut self.block);
        let Some(block) = self.blocks.next(input, self.order, unpacker, packed, old)? else { return Ok(None) };
        if let Some((line, count)) = block.bad {
            ledger.count_at(line, block.offset);
            ledger.add(line, count.saturating_sub(1));
            self.hole = true;
        }
        let taken = block.taken;
        self.block = block;
        (self.page, self.at, self.end) = (0, 0, 0);
        Ok(Some(taken))
    }

    /// At the end of the stream: the time of a loss with no record after it.
    pub fn last(&mut self) -> Option<u64> {
        self.payload = None;
        self.missed.map(|_| self.ticks)
    }

    /// Goes to the next record of the block.
    #[inline]
    pub fn step(&mut self, ledger: &mut Ledger) -> Step {
        loop {
            while self.at < self.end {
                if let Some(payload) = self.record(ledger) {
                    self.payload = Some(payload);
                    return Step::Record(self.ticks);
                }
            }
            if !self.next_page(ledger) {
                return Step::Block;
            }
        }
    }

    /// Moves past the records that follow, up to an entry of another kind or the page's end; how many that was. For who counts
    /// them and asks for no more: no time is kept.
    pub fn skip_records(&mut self) -> u64 {
        let Some(data) = self.block.bytes.get(..self.end) else { return 0 };
        let (mut at, mut count) = (self.at, 0);
        while let Some(head) = self.order.u32(data, at)
            && let (kind @ 1..PADDING, _) = self.kind_and_delta(head)
            && let end = at + 4 + kind as usize * 4
            && end <= self.end
        {
            (at, count) = (end, count + 1);
        }
        self.at = at;
        count
    }

    /// Moves past one entry; its payload if it is data.
    #[inline]
    fn record(&mut self, ledger: &mut Ledger) -> Option<Range<usize>> {
        let data = self.block.bytes.get(..self.end)?;
        let Some(head) = self.order.u32(data, self.at) else {
            return self.bad(ledger);
        };
        let (kind, delta) = self.kind_and_delta(head);
        let start = self.at + 4;
        if let 1..PADDING = kind {
            let end = start + kind as usize * 4;
            if end > self.end {
                return self.bad(ledger);
            }
            self.ticks = self.ticks.wrapping_add(delta);
            self.at = end;
            return Some(start..end);
        }
        if kind == PADDING && delta == 0 {
            // Nothing was written behind this.
            self.at = self.end;
            return None;
        }
        let Some(word) = self.order.u32(data, start) else {
            return self.bad(ledger);
        };
        match kind {
            TIME_EXTEND => {
                self.ticks = self.ticks.wrapping_add((u64::from(word) << 27) + delta);
                self.at = start + 4;
                None
            }
            TIME_STAMP => {
                self.ticks = ((u64::from(word) << 27) + delta) | (self.ticks & TIME_STAMP_KEEPS);
                self.at = start + 4;
                None
            }
            // The length counts its own word.
            _ => {
                let end = start + (word as usize).next_multiple_of(4);
                if word < 4 || end > self.end {
                    return self.bad(ledger);
                }
                self.ticks = self.ticks.wrapping_add(delta);
                self.at = end;
                (kind == 0).then(|| start + 4..start + word as usize)
            }
        }
    }

    /// Both parts of a record's first word.
    #[inline]
    fn kind_and_delta(&self, head: u32) -> (u32, u64) {
        match self.order {
            ByteOrder::Little => (head & 31, u64::from(head >> 5)),
            ByteOrder::Big => (head >> 27, u64::from(head & ((1 << 27) - 1))),
        }
    }

    /// The rest of the page cannot be read, because where the next record begins is not known.
    #[cold]
    fn bad(&mut self, ledger: &mut Ledger) -> Option<Range<usize>> {
        ledger.count_at(LedgerLine::BadRecord, self.file_offset(self.at));
        self.hole = true;
        self.at = self.end;
        None
    }

    /// Goes to the next page of the block; false if there is none.
    fn next_page(&mut self, ledger: &mut Ledger) -> bool {
        let start = self.page;
        let there = self.block.bytes.len().saturating_sub(start).min(self.page_size);
        if there == 0 {
            return false;
        }
        self.page = start + there;
        let page = &self.block.bytes[start..start + there];
        let head = 8 + self.long;
        let (Some(ticks), Some(commit)) = (self.order.u64(page, 0), self.order.unsigned(page, 8, self.long)) else {
            ledger.count_at(LedgerLine::TruncatedBytes, self.file_offset(start));
            ledger.add(LedgerLine::TruncatedBytes, there as u64 - 1);
            return true;
        };
        // The first page begins where all does.
        self.hole |= self.is_suspect && self.ticks > 0;
        self.ticks = ticks;
        let size = (commit & COMMIT) as usize;
        self.at = start + head;
        self.end = (self.at + size).min(self.page);
        if self.at + size > self.page {
            ledger.count_at(LedgerLine::BadRecord, self.file_offset(start));
        }
        if commit & MISSED != 0 {
            let stored = match commit & MISSED_STORED {
                0 => None,
                _ => self.order.unsigned(page, head + size, self.long),
            };
            self.missed = Some(self.missed.unwrap_or(0).saturating_add(stored.unwrap_or(0)));
        }
        true
    }
}
