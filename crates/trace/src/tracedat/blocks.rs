//! One CPU's ring pages, block by block: some pages of a file, or one compressed chunk.
//!
//! ```text
//! plain       page page page page …                                a block is some 64 KB of whole pages
//! compressed  u32 chunks, then each: u32 packed size, u32 size, data   a block is one chunk
//! ```

use super::head::{MAX_BUFFERED, Region};
use super::unpack::{Packing, Unpacker};
use crate::bytes::ByteOrder;
use crate::{Input, TraceError};
use exitscope_model::LedgerLine;

/// Bytes of a plain block, at least one page.
const PLAIN: usize = 64 << 10;

/// Bytes that a chunk may have when unpacked; recorders put ten pages into one.
const MAX_CHUNK: u64 = 16 << 20;

/// Some ring pages.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The pages.
    pub bytes: Vec<u8>,
    /// Where in the file they, or their chunk, begin.
    pub offset: u64,
    /// Bytes of the file that they took.
    pub taken: u64,
    /// Whether they are in the file as they are here.
    pub plain: bool,
    /// If there are none where there should be some: what it is, and how many bytes.
    pub bad: Option<(LedgerLine, u64)>,
}

/// Where the next block of one CPU is.
#[derive(Debug)]
pub(super) struct Blocks {
    region: Region,
    at: u64,
    end: u64,
    /// Chunks to come; unknown before the first.
    chunks: Option<u32>,
    /// Bytes that a block may have.
    limit: u64,
}

impl Blocks {
    /// The blocks of `region`, one of `all` that are read at the same time.
    pub fn new(region: Region, all: usize) -> Blocks {
        let end = region.data.offset.saturating_add(region.data.size);
        let limit = (MAX_BUFFERED / all.max(1) as u64).min(MAX_CHUNK);
        Blocks { region, at: region.data.offset, end, chunks: None, limit }
    }

    /// The next block, made of the memory of `old`; none at the end.
    pub fn next(
        &mut self,
        input: &Input,
        order: ByteOrder,
        unpacker: &mut Unpacker,
        packed: &mut Vec<u8>,
        old: Block,
    ) -> Result<Option<Block>, TraceError> {
        let bytes = old.bytes;
        match self.region.packing {
            Packing::None => self.plain(input, bytes),
            _ => self.chunk(input, order, unpacker, packed, bytes),
        }
    }

    fn plain(&mut self, input: &Input, mut bytes: Vec<u8>) -> Result<Option<Block>, TraceError> {
        let page = self.region.page_size;
        let block = PLAIN.min(self.limit as usize);
        let wanted = (self.end - self.at).min((block / page * page).max(page) as u64);
        if wanted == 0 {
            return Ok(None);
        }
        bytes.resize(wanted as usize, 0);
        let got = input.read_up_to(self.at, &mut bytes)?;
        bytes.truncate(got);
        let offset = self.at;
        self.at += wanted;
        // The file was as long as this when it was opened.
        let bad = (got as u64) < wanted;
        let bad = bad.then_some((LedgerLine::TruncatedBytes, wanted - got as u64));
        Ok(Some(Block { bytes, offset, taken: wanted, plain: true, bad }))
    }

    fn chunk(
        &mut self,
        input: &Input,
        order: ByteOrder,
        unpacker: &mut Unpacker,
        packed: &mut Vec<u8>,
        mut bytes: Vec<u8>,
    ) -> Result<Option<Block>, TraceError> {
        let offset = self.at;
        let left = self.end - offset;
        let mut head = [0u8; 8];
        let chunks = match self.chunks {
            Some(chunks) => chunks,
            None => {
                input.read_up_to(offset, &mut head[..4])?;
                self.at = offset.saturating_add(4).min(self.end);
                order.u32(&head, 0).unwrap_or(0)
            }
        };
        if chunks == 0 {
            self.chunks = Some(0);
            return Ok(None);
        }
        self.chunks = Some(chunks - 1);
        let body = self.at.saturating_add(8);
        input.read_up_to(self.at, &mut head)?;
        let (Some(size), Some(full)) = (order.u32(&head, 0).map(u64::from), order.u32(&head, 4).map(u64::from)) else {
            return Ok(None);
        };
        bytes.clear();
        if body.saturating_add(size) > self.end {
            // Cut short, or not a size at all: nothing further can be found.
            self.chunks = Some(0);
            self.at = self.end;
            let bad = Some((LedgerLine::TruncatedBytes, left));
            return Ok(Some(Block { bytes, offset, taken: left, plain: false, bad }));
        }
        self.at = body + size;
        packed.resize(size as usize, 0);
        let got = input.read_up_to(body, packed)?;
        let whole = got == packed.len() && full <= self.limit && unpacker.unpack(packed, full as usize, &mut bytes);
        if !whole {
            bytes.clear();
        }
        let bad = (!whole).then_some((LedgerLine::BadCompression, 1));
        Ok(Some(Block { bytes, offset, taken: self.at - offset, plain: false, bad }))
    }
}
