//! Blocks one after the other, where records change how later ones are read: pipes and compressed records.

use super::attr::Attr;
use super::cursor::{Cursor, FileWindow, Next, find_chain, whole};
use super::header::{RecordContext, read_feature};
use super::records::{COMPRESSED, COMPRESSED2, HEADER, HEADER_ATTR, HEADER_FEATURE, HEADER_TRACING_DATA, RecordBlock};
use crate::source::{MAX_SECTION, TraceError, is_sane_unpacking};
use exitscope_model::{Ledger, LedgerLine, TraceInfo};
use std::ops::Range;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes unpacked at a time.
const UNPACKED: usize = 256 << 10;

/// Unpacked bytes that are looked at once more with what comes behind them, in search of a record.
const REACH: usize = 4 << 10;

/// Size of an attr that does not say its size: that of the first version of the structure.
const FIRST_ATTR_SIZE: usize = 64;

/// Reads block after block.
pub struct PerfStream {
    cursor: Cursor,
    context: RecordContext,
    window: FileWindow,
    spare: Option<RecordBlock>,
    unpack: Unpack,
}

/// Records that perf compressed: one zstd stream over the whole file, cut anywhere.
#[derive(Default)]
struct Unpack {
    decoder: Option<Decoder<'static>>,
    out: Vec<u8>,
    /// Bytes of the compressed record in hand that are still to be unpacked.
    packed: Vec<u8>,
    taken: usize,
    /// Whether the last unpacking filled its buffer, so that more may come without new input.
    more: bool,
    offset: u64,
    /// Bytes in and out so far.
    total_in: u64,
    total_out: u64,
    /// Unpacked bytes that do not make a whole record yet.
    rest: Vec<u8>,
    /// Whether `rest` follows a damaged record, so that where records go on in it has to be found.
    torn: bool,
}

impl PerfStream {
    pub fn new(cursor: Cursor, context: RecordContext) -> PerfStream {
        PerfStream { cursor, context, window: FileWindow::default(), spare: None, unpack: Unpack::default() }
    }

    /// The next block; `None` at the end.
    pub fn next(&mut self, info: &mut TraceInfo) -> Option<Result<RecordBlock, TraceError>> {
        let mut block = self.spare.take().unwrap_or_default();
        if self.unpack.pending() {
            self.unpack.step(&self.context, &mut block);
            return Some(Ok(block));
        }
        match self.cursor.next(&mut self.window, &mut block) {
            Err(error) => Some(Err(error)),
            Ok(Next::Records(range, offset)) => {
                block.decode(&self.window.bytes[range], offset, &self.context);
                Some(Ok(block))
            }
            Ok(Next::Special(kind, range, offset)) => {
                match self.special(kind, range, offset, info, &mut block.ledger) {
                    Ok(()) => Some(Ok(block)),
                    Err(error) => Some(Err(error)),
                }
            }
            Ok(Next::End) if self.unpack.rest.is_empty() && block.is_empty() => None,
            Ok(Next::End) => {
                self.unpack.decode(&self.context, &mut block, true);
                if !self.unpack.rest.is_empty() {
                    block.ledger.add(LedgerLine::TruncatedBytes, self.unpack.rest.len() as u64);
                    self.unpack.rest.clear();
                }
                Some(Ok(block))
            }
        }
    }

    pub fn recycle(&mut self, mut block: RecordBlock) {
        block.clear();
        self.spare = Some(block);
    }

    fn special(
        &mut self,
        kind: u32,
        range: Range<usize>,
        offset: u64,
        info: &mut TraceInfo,
        ledger: &mut Ledger,
    ) -> Result<(), TraceError> {
        let order = self.context.order;
        let body = &self.window.bytes[range][HEADER..];
        match kind {
            HEADER_ATTR => {
                // The attr has its own size; ids fill the rest.
                let size = match order.u32(body, 4) {
                    None | Some(0) => FIRST_ATTR_SIZE,
                    Some(size) => size as usize,
                };
                let parts = body.split_at_checked(size);
                let parsed = parts.and_then(|(attr, ids)| Some((Attr::parse(attr, order)?, ids)));
                let known = parsed.is_some_and(|(attr, ids)| {
                    if let Some(clock) = attr.clock {
                        info.clock = super::header::clock_name(clock);
                    }
                    self.context.add(attr, ids.chunks_exact(8).filter_map(|id| order.u64(id, 0)))
                });
                if !known {
                    ledger.count_at(LedgerLine::BadRecord, offset);
                }
            }
            HEADER_TRACING_DATA => {
                // The data follows the record, padded to 8 bytes.
                let size = u64::from(order.u32(body, 0).unwrap_or(0));
                let data = self.cursor.input.read_vec(self.cursor.at, size.min(MAX_SECTION))?;
                read_feature(1, &data, self.cursor.at, &mut self.context, info, ledger);
                let next = self.cursor.at + size.next_multiple_of(8);
                if next > self.cursor.end {
                    ledger.add_at(LedgerLine::TruncatedBytes, next - self.cursor.end, offset);
                }
                self.cursor.at = next.min(self.cursor.end);
            }
            HEADER_FEATURE => {
                let feature = order.u64(body, 0).unwrap_or(u64::MAX);
                let section = body.get(8..).unwrap_or(&[]);
                let feature = u32::try_from(feature).unwrap_or(u32::MAX);
                read_feature(feature, section, offset + 16, &mut self.context, info, ledger);
            }
            COMPRESSED => self.unpack.begin(body, offset),
            COMPRESSED2 => {
                let size = order.u64(body, 0).unwrap_or(0);
                let data = body.get(8..).unwrap_or(&[]);
                let data = usize::try_from(size).ok().and_then(|size| data.get(..size)).unwrap_or(data);
                self.unpack.begin(data, offset);
            }
            _ => ledger.count_at(LedgerLine::UnknownRecord, offset),
        }
        Ok(())
    }
}

impl Unpack {
    fn pending(&self) -> bool {
        self.taken < self.packed.len() || self.more
    }

    fn begin(&mut self, packed: &[u8], offset: u64) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.taken = 0;
        self.offset = offset;
        self.total_in += packed.len() as u64;
    }

    /// Unpacks some of the record in hand and decodes the whole records that it gives.
    fn step(&mut self, context: &RecordContext, block: &mut RecordBlock) {
        if self.decoder.is_none() {
            self.decoder = Decoder::new().ok();
            self.out.resize(UNPACKED, 0);
        }
        let sane = is_sane_unpacking(self.total_in, self.total_out);
        let result = self.decoder.as_mut().filter(|_| sane).map(|decoder| {
            let mut input = InBuffer::around(&self.packed[self.taken..]);
            let mut output = OutBuffer::around(&mut self.out[..]);
            let result = decoder.run(&mut input, &mut output);
            (result, input.pos(), output.pos())
        });
        match result {
            Some((Ok(_), 0, 0)) => {
                self.more = false;
                self.taken = self.packed.len();
            }
            Some((Ok(_), taken, written)) => {
                self.taken += taken;
                self.total_out += written as u64;
                self.more = written == UNPACKED;
                self.rest.extend_from_slice(&self.out[..written]);
            }
            _ => {
                // The stream is broken from here on: later records cannot be unpacked without what came before, but
                // a new frame can be. What was begun is gone.
                block.hole(LedgerLine::BadCompression, self.offset);
                self.torn = false;
                if self.decoder.as_mut().is_some_and(|decoder| decoder.reinit().is_err()) {
                    self.decoder = None;
                }
                self.more = false;
                self.taken = self.packed.len();
                self.rest.clear();
            }
        }
        self.decode(context, block, false);
    }

    /// Decodes the whole records that `rest` begins with, and those behind damaged ones. With `last`, nothing more
    /// will be unpacked.
    fn decode(&mut self, context: &RecordContext, block: &mut RecordBlock, last: bool) {
        let mut at = 0;
        loop {
            if self.torn {
                // Near the end a chain is better looked at with what is still to be unpacked.
                let to = (self.rest.len() - at).saturating_sub(if last { 0 } else { REACH });
                match find_chain(&self.rest[at..], to, last, context.order) {
                    Some(found) => at += found,
                    None => break at += to,
                }
                self.torn = false;
            }
            let (len, bad) = whole(&self.rest[at..], context.order);
            block.decode(&self.rest[at..at + len], self.offset, context);
            at += len;
            if !bad {
                break;
            }
            block.hole(LedgerLine::BadRecord, self.offset);
            self.torn = true;
            at += 1;
        }
        self.rest.drain(..at);
    }
}
