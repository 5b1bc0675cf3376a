//! One record.
//!
//! ```text
//! u32 header: bits 0-27 event, 28-30 extra words, 31 a time stamp follows · [u64 cycles] · extra u32 words
//! ```

use crate::bytes::ByteOrder::Little;

/// The most bytes that a record's extra words have, and the whole of it.
pub(super) const MAX_PAYLOAD: usize = 7 * 4;
pub(super) const LONGEST: usize = 4 + 8 + MAX_PAYLOAD;

/// Records of the recorder itself.
pub(super) const LOST_RECORDS: u32 = 0x0001_f001;
pub(super) const WRAP_BUFFER: u32 = 0x0001_f002;
pub(super) const CPU_CHANGE: u32 = 0x0001_f003;

/// A record, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The event.
    pub id: u32,
    /// When, in cycles, if it says.
    pub stamp: Option<u64>,
    /// Its extra words.
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the beginning of `bytes`, and its size; `None` if it is not all there.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let header = Little.u32(bytes, 0)?;
        let stamped = header >> 31 == 1;
        let from = if stamped { 12 } else { 4 };
        let size = from + 4 * (header >> 28 & 7) as usize;
        let payload = bytes.get(from..size)?;
        let stamp = if stamped { Little.u64(bytes, 4) } else { None };
        Some((Record { id: header & 0x0fff_ffff, stamp, payload }, size))
    }

    /// The record of these extra words.
    pub fn of(id: u32, payload: &'a [u8]) -> Record<'a> {
        Record { id, stamp: None, payload }
    }

    /// Its extra words, and how many bytes they are.
    #[inline]
    pub fn copy(&self) -> ([u8; MAX_PAYLOAD], u8) {
        let mut copy = [0; MAX_PAYLOAD];
        for (to, from) in copy.chunks_exact_mut(4).zip(self.payload.chunks_exact(4)) {
            to.copy_from_slice(from);
        }
        (copy, self.payload.len() as u8)
    }

    /// Whether Xen could have written such an event: one class, and a sub-class. Padding may look like anything.
    #[inline]
    pub fn is_plausible(&self) -> bool {
        (self.id >> 16).is_power_of_two() && self.id >> 12 & 0xf != 0 && self.id != CPU_CHANGE
    }

    /// The extra word of this index.
    #[inline]
    pub fn word(&self, at: usize) -> Option<u32> {
        Little.u32(self.payload, 4 * at)
    }

    /// The two extra words from this index on, the lower half first.
    #[inline]
    pub fn wide(&self, at: usize) -> Option<u64> {
        Little.u64(self.payload, 4 * at)
    }

    /// How many extra words there are.
    pub fn extra(&self) -> usize {
        self.payload.len() / 4
    }

    /// The record without its first extra word.
    pub fn without_first(self) -> Record<'a> {
        Record { payload: self.payload.get(4..).unwrap_or(&[]), ..self }
    }
}
