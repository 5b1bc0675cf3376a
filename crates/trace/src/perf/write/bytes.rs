//! Numbers into bytes, in the byte order of the file.

use crate::bytes::ByteOrder;

/// Writes the lower bytes of `value` that fit `to`.
pub fn put(order: ByteOrder, to: &mut [u8], value: u64) {
    let size = to.len();
    match order {
        ByteOrder::Little => to.copy_from_slice(&value.to_le_bytes()[..size]),
        ByteOrder::Big => to.copy_from_slice(&value.to_be_bytes()[8 - size..]),
    }
}

/// Bytes that grow.
#[derive(Debug)]
pub struct Bytes {
    pub order: ByteOrder,
    pub bytes: Vec<u8>,
}

impl Bytes {
    pub fn new(order: ByteOrder) -> Bytes {
        Bytes { order, bytes: Vec::new() }
    }

    /// Where the next byte goes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn number(&mut self, value: u64, size: usize) {
        let at = self.bytes.len();
        self.bytes.resize(at + size, 0);
        put(self.order, &mut self.bytes[at..], value);
    }

    pub fn u16(&mut self, value: u16) {
        self.number(value.into(), 2);
    }

    pub fn u32(&mut self, value: u32) {
        self.number(value.into(), 4);
    }

    pub fn u64(&mut self, value: u64) {
        self.number(value, 8);
    }

    pub fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.u64(value));
    }

    pub fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Zeros up to a multiple of `unit`, counted from the beginning.
    pub fn pad(&mut self, unit: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(unit), 0);
    }

    /// A record's header; [`Bytes::end_record`] knows the size.
    pub fn begin_record(&mut self, kind: u32, misc: u16) -> usize {
        let at = self.bytes.len();
        self.u32(kind);
        self.u16(misc);
        self.u16(0);
        at
    }

    /// Ends the record that begins at `at`.
    pub fn end_record(&mut self, at: usize) {
        self.pad_from(at, 8);
        self.set_size(at);
    }

    /// Has the record that begins at `at` end here, wherever that is.
    pub fn set_size(&mut self, at: usize) {
        let size = (self.bytes.len() - at) as u64;
        put(self.order, &mut self.bytes[at + 6..at + 8], size);
    }

    /// Zeros up to a multiple of `unit`, counted from `at`.
    pub fn pad_from(&mut self, at: usize, unit: usize) {
        let size = (self.bytes.len() - at).next_multiple_of(unit);
        self.bytes.resize(at + size, 0);
    }
}
