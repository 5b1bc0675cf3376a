//! One physical CPU's records, in the order in which they were written, each with its time.
//!
//! Records without a time stamp have that of the record before. A record that cannot be one ends nothing: the window is
//! searched for the next that can.

use super::decode::{Fates, RecordFilter, Vcpu, running_after};
use super::rate::Rate;
use super::record::{LONGEST, LOST_RECORDS, Record, WRAP_BUFFER};
use super::windows::Windows;
use crate::bytes::ByteOrder::Little;
use crate::{Input, TraceError};
use exitscope_model::{Ledger, LedgerLine};
use exitscope_units::PcpuId;

/// Bytes of a window that are held at once.
const CHUNK: usize = 64 << 10;

/// A time stamp that is so many cycles from the one before, or older, is looked at twice.
const LEAP: u64 = 1 << 40;

/// Where records come from, and what is to become of them.
#[derive(Debug)]
pub(super) struct Supply {
    /// The file.
    pub input: Input,
    /// Its windows.
    pub windows: Windows,
    /// What is to become of an event.
    pub fates: Fates,
    /// How long a cycle is.
    pub rate: Rate,
}

/// One physical CPU's records.
#[derive(Debug)]
pub(super) struct Stream {
    /// The CPU.
    pub cpu: u32,
    /// Who runs on it, as far as its records have said.
    pub current: Option<Vcpu>,
    /// Bytes of the window in hand, and where the next record is in them.
    bytes: Vec<u8>,
    at: usize,
    /// How many bytes of the window are still in the file only.
    rest: u64,
    /// Where in the file `bytes` ends.
    end: u64,
    /// The last time stamp, if there was one.
    stamp: Option<u64>,
    /// Whether something before the next record could not be read: of this CPU, or of nobody knows which.
    hole: bool,
    hole_of_all: bool,
    /// The record that [`Stream::next`] found, if it found one.
    placed: Placed,
    found: bool,
}

/// Where a record is, and what is known of it from its place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    /// Where in what the stream has in hand.
    from: usize,
    /// When, in cycles.
    pub cycles: u64,
    /// When it is its turn: then, but for a loss, which began earlier.
    pub due: u64,
    /// Where in the file it begins.
    pub offset: u64,
}

impl Stream {
    /// The records of `cpu`, on which `current` runs before they say who.
    pub fn new(cpu: u32, current: Option<Vcpu>) -> Stream {
        Stream {
            cpu,
            current,
            bytes: Vec::new(),
            at: 0,
            rest: 0,
            end: 0,
            stamp: None,
            hole: false,
            hole_of_all: false,
            placed: Placed::default(),
            found: false,
        }
    }

    /// If something before the last record could not be read: on which CPU, as far as that is known. Asked once.
    #[inline]
    pub fn take_hole(&mut self) -> Option<PcpuId> {
        if !self.hole && !self.hole_of_all {
            return None;
        }
        let cpu = if std::mem::take(&mut self.hole_of_all) { u32::MAX } else { self.cpu };
        self.hole = false;
        Some(PcpuId(cpu))
    }

    /// The record that [`Stream::next`] found.
    #[inline]
    pub fn record(&self) -> Option<Record<'_>> {
        Some(Record::parse(self.bytes.get(self.placed.from..)?)?.0)
    }

    /// Where that record is.
    #[inline]
    pub fn placed(&self) -> Option<&Placed> {
        self.found.then_some(&self.placed)
    }

    /// How many bytes of the window in hand are still to be handled.
    pub fn waiting(&self) -> u64 {
        self.rest + (self.bytes.len() - self.at) as u64
    }

    /// Goes to the next record that is to leave; false at the end of the windows that are known.
    #[inline]
    pub fn next(&mut self, supply: &mut Supply, ledger: &mut Ledger) -> Result<bool, TraceError> {
        self.found = false;
        loop {
            if self.hurry(supply, ledger) {
                self.found = true;
                return Ok(true);
            }
            if self.bytes.len() - self.at < LONGEST && !self.refill(supply, ledger)? {
                return Ok(false);
            }
            let offset = self.end - (self.bytes.len() - self.at) as u64;
            let Some((record, size)) = Record::parse(&self.bytes[self.at..]) else {
                self.bad(offset, ledger);
                continue;
            };
            if record.id == WRAP_BUFFER {
                self.at += size;
                continue;
            }
            let far = |stamp: u64| stamp.wrapping_sub(self.stamp.unwrap_or(stamp)) > LEAP;
            if !record.is_plausible() || record.stamp.is_some_and(far) && !self.goes_on(size, record.stamp) {
                self.bad(offset, ledger);
                continue;
            }
            let from = self.at;
            self.at += size;
            let before = self.stamp;
            if record.stamp.is_some() {
                self.stamp = record.stamp;
            } else if before.is_none() {
                self.stamp = self.first_stamp();
            }
            let cycles = self.stamp.unwrap_or(0);
            let mut due = cycles;
            if record.id == LOST_RECORDS {
                due = record.wide(2).unwrap_or(cycles).max(before.unwrap_or(0)).min(cycles);
                // Who runs when records are written again.
                self.current = record.word(1).map(Vcpu::packed_low);
            } else {
                running_after(&record, &mut self.current);
            }
            if supply.fates.of(record.id) != RecordFilter::Leaves {
                ledger.skip(supply.rate.moment(cycles));
                continue;
            }
            self.placed = Placed { from, cycles, due, offset };
            self.found = true;
            return Ok(true);
        }
    }

    /// Goes on to the next record that is to leave, over what nobody uses (three of four records), as far as all of it is
    /// in hand and beyond doubt. Whether it found one.
    #[inline]
    fn hurry(&mut self, supply: &Supply, ledger: &mut Ledger) -> bool {
        let Some(mut stamp) = self.stamp else { return false };
        let bytes = &self.bytes[..];
        let (mut at, mut count, mut skipped) = (self.at, 0, None);
        let found = loop {
            let Some((record, size)) = bytes.get(at..at + LONGEST).and_then(Record::parse) else { break false };
            // Of an event whose fate is known there was a plausible record.
            let (Some(next), Some(fate)) = (record.stamp, supply.fates.known(record.id)) else { break false };
            if next.wrapping_sub(stamp) > LEAP || record.id == LOST_RECORDS {
                break false;
            }
            stamp = next;
            if fate != RecordFilter::Skip {
                running_after(&record, &mut self.current);
            }
            if fate == RecordFilter::Leaves {
                let offset = self.end - (bytes.len() - at) as u64;
                self.placed = Placed { from: at, cycles: stamp, due: stamp, offset };
                at += size;
                break true;
            }
            skipped = Some((skipped.map_or(stamp, |(first, _)| first), stamp));
            count += 1;
            at += size;
        };
        if let Some((first, last)) = skipped {
            ledger.skip_all(count, supply.rate.moment(first), supply.rate.moment(last));
        }
        (self.at, self.stamp) = (at, Some(stamp));
        found
    }

    /// Whether what follows the record in hand, of this size, bears out its time stamp.
    #[cold]
    fn goes_on(&self, size: usize, stamp: Option<u64>) -> bool {
        let mut at = self.at + size;
        while let Some((record, size)) = self.bytes.get(at..).and_then(Record::parse) {
            if !record.is_plausible() {
                return false;
            }
            if let (Some(next), Some(stamp)) = (record.stamp, stamp) {
                return next.wrapping_sub(stamp) <= LEAP;
            }
            at += size;
        }
        at >= self.bytes.len()
    }

    /// The first time stamp in what is in hand.
    #[cold]
    fn first_stamp(&self) -> Option<u64> {
        let mut at = self.at;
        while let Some((record, size)) = Record::parse(&self.bytes[at..]) {
            if record.stamp.is_some() || !record.is_plausible() {
                return record.stamp;
            }
            at += size;
        }
        None
    }

    /// Skips to the next place where a record can be: one with a time stamp that follows the last, and one behind it.
    #[cold]
    fn bad(&mut self, offset: u64, ledger: &mut Ledger) {
        ledger.count_at(LedgerLine::BadRecord, offset);
        self.hole = true;
        self.current = None;
        self.at += 4;
        while let Some(header) = Little.u32(&self.bytes, self.at) {
            if header >> 31 == 1
                && let Some((record, size)) = Record::parse(&self.bytes[self.at..])
                && let Some(stamp) = record.stamp
                && record.is_plausible()
                && stamp.wrapping_sub(self.stamp.unwrap_or(stamp)) <= LEAP
                && self.goes_on(size, Some(stamp))
            {
                return;
            }
            self.at += 4;
        }
        self.at = self.bytes.len();
    }

    /// Gets more of the window, or the next window; false if there is none and nothing is left.
    fn refill(&mut self, supply: &mut Supply, ledger: &mut Ledger) -> Result<bool, TraceError> {
        loop {
            let left = self.bytes.len() - self.at;
            if self.rest == 0 && left > 0 {
                return Ok(true);
            }
            if self.rest == 0 {
                let Some(window) = supply.windows.take(self.cpu as usize) else { return Ok(false) };
                self.rest = u64::from(window.len);
                self.end = window.at;
                if window.hole {
                    self.hole_of_all = true;
                    self.current = None;
                }
            }
            self.bytes.copy_within(self.at.., 0);
            self.at = 0;
            let more = self.rest.min((CHUNK - left) as u64) as usize;
            self.bytes.resize(left + more, 0);
            let got = supply.input.read_up_to(self.end, &mut self.bytes[left..])?;
            self.bytes.truncate(left + got);
            self.end += got as u64;
            self.rest -= got as u64;
            if got < more {
                // The file became shorter meanwhile.
                ledger.add_at(LedgerLine::TruncatedBytes, self.rest, self.end);
                self.rest = 0;
            }
            if self.bytes.len() >= 4 || self.rest == 0 && !self.bytes.is_empty() {
                return Ok(true);
            }
        }
    }
}
