//! One record.
//!
//! ```text
//! u32 header: bits 0-27 event, 28-30 extra words, 31 a time stamp follows · [u64 cycles] · extra u32 words
//! ```

use crate::bytes::Order::Little;

/// The most bytes that a record has.
pub(super) const LONGEST: usize = 4 + 8 + PAYLOAD;

/// Records of the recorder itself.
pub(super) const LOST_RECORDS: u32 = 0x0001_f001;
pub(super) const WRAP_BUFFER: u32 = 0x0001_f002;
pub(super) const CPU_CHANGE: u32 = 0x0001_f003;

/// The most bytes that the extra words have.
const PAYLOAD: usize = 7 * 4;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The event.
    pub id: u32,
    /// When, in cycles, if it says.
    pub stamp: Option<u64>,
    /// Its extra words, and whatever comes behind them.
    payload: [u8; PAYLOAD],
    extra: u8,
}

impl Record {
    /// The record at the beginning of `bytes`, and its size; `None` if it is not all there.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<(Record, usize)> {
        let header = Little.u32(bytes, 0)?;
        let extra = header >> 28 & 7;
        let stamped = header >> 31 == 1;
        let from = if stamped { 12 } else { 4 };
        let size = from + 4 * extra as usize;
        let there = bytes.get(from..).filter(|_| size <= bytes.len())?;
        // Near the end of what is in hand, fewer bytes come behind.
        let payload = there.first_chunk().copied().unwrap_or_else(|| padded(there));
        let stamp = if stamped { Little.u64(bytes, 4) } else { None };
        Some((Record { id: header & 0x0fff_ffff, stamp, payload, extra: extra as u8 }, size))
    }

    /// Whether Xen could have written such an event: one class, and a sub-class. Padding may look like anything.
    #[inline]
    pub fn is_plausible(&self) -> bool {
        (self.id >> 16).is_power_of_two() && self.id >> 12 & 0xf != 0 && self.id != CPU_CHANGE
    }

    /// The extra word of this index.
    #[inline]
    pub fn word(&self, at: usize) -> Option<u32> {
        if at < usize::from(self.extra) { Little.u32(&self.payload, 4 * at) } else { None }
    }

    /// The two extra words from this index on, the lower half first.
    #[inline]
    pub fn wide(&self, at: usize) -> Option<u64> {
        Some(u64::from(self.word(at + 1)?) << 32 | u64::from(self.word(at)?))
    }

    /// How many extra words there are.
    pub fn extra(&self) -> u8 {
        self.extra
    }

    /// The record without its first extra word.
    pub fn without_first(mut self) -> Record {
        self.payload.rotate_left(4);
        self.extra = self.extra.saturating_sub(1);
        self
    }
}

#[cold]
fn padded(bytes: &[u8]) -> [u8; PAYLOAD] {
    let mut payload = [0; PAYLOAD];
    payload[..bytes.len()].copy_from_slice(bytes);
    payload
}
