//! A BPF ring buffer, read.
//!
//! ```text
//! page 0: how far we are (ours)   page 1: how far the kernel is   from page 2: the ring, twice, so that no record wraps
//! record: size and whether it is still being written (4) · page (4) · bytes, on a grid of 8
//! ```

use crate::mapping::Mapping;
use crate::sys::page_size;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// `BPF_RINGBUF_BUSY_BIT`, `BPF_RINGBUF_DISCARD_BIT`, `BPF_RINGBUF_HDR_SZ`.
const BUSY: u32 = 1 << 31;
const DISCARD: u32 = 1 << 30;
const HEADER: usize = 8;

/// How long a record may be unfinished: its program runs meanwhile, which takes less than a microsecond, unless this host is
/// a guest itself and its CPU is away.
const UNFINISHED_RECORD_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Ring {
    consumer: Mapping,
    producer: Mapping,
    mask: u64,
    at: u64,
}

impl Ring {
    /// The ring of `size` bytes, a power of two.
    pub fn new(fd: &OwnedFd, size: usize) -> io::Result<Ring> {
        let page = page_size();
        let consumer = Mapping::new(fd, 0, page, true)?;
        let producer = Mapping::new(fd, page, page + 2 * size, false)?;
        Ok(Ring { consumer, producer, mask: size as u64 - 1, at: 0 })
    }

    /// The next record in place of what `record` holds; false if there is none.
    pub fn next(&mut self, record: &mut Vec<u8>) -> bool {
        while self.at < self.producer.u64(0).load(Ordering::Acquire) {
            let at = page_size() + (self.at & self.mask) as usize;
            let Some(header) = self.written(at) else { return false };
            let size = (header & !(BUSY | DISCARD)) as usize;
            record.clear();
            if header & DISCARD == 0 {
                self.producer.copy(at + HEADER, size, record);
            }
            self.at += (HEADER + size).next_multiple_of(8) as u64;
            self.consumer.u64(0).store(self.at, Ordering::Release);
            if header & DISCARD == 0 {
                return true;
            }
        }
        false
    }

    /// The record's header, once it is written.
    fn written(&self, at: usize) -> Option<u32> {
        let mut began = None;
        loop {
            let header = self.producer.u32(at).load(Ordering::Acquire);
            if header & BUSY == 0 {
                return Some(header);
            }
            if began.get_or_insert_with(Instant::now).elapsed() > UNFINISHED_RECORD_TIMEOUT {
                return None;
            }
            std::thread::yield_now();
        }
    }
}
