//! `perf_event_attr`: which fields a sample has, and where they are.

use crate::bytes::ByteOrder;
use crate::tracefs::NEAR;

const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

/// `PERF_TYPE_SOFTWARE`, `PERF_TYPE_TRACEPOINT`, `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const DUMMY: u64 = 9;

/// What matters of one attr. Offsets are from the end of the record's 8-byte header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Whether its samples carry a tracepoint's record.
    pub tracepoint: bool,
    /// Whether it only carries side records and never has a sample.
    pub dummy: bool,
    /// The fixed fields of a sample.
    pub tid: Option<usize>,
    pub time: Option<usize>,
    pub cpu: Option<usize>,
    /// Where a sample names its event.
    pub id: Option<usize>,
    /// Where a tracepoint's sample has what matters, if it is at fixed places.
    pub plain: Option<FixedFields>,
    /// Where the fields of variable length begin.
    fixed: usize,
    read: Option<u64>,
    callchain: bool,
    raw: bool,
    /// The fields that other records end with, counted from their end.
    pub trailer: Option<Trailer>,
    /// `clockid`, if one was chosen.
    pub clock: Option<i32>,
}

/// Places in a sample without fields of variable length before its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedFields {
    pub tid: u8,
    pub time: u8,
    pub cpu: u8,
    /// Size and bytes of the record.
    pub raw: usize,
}

/// Bytes that hold the fields of nearly all such samples, wherever their record begins.
pub const AHEAD: usize = RAW_REACH + 4 + NEAR;

/// Where a record begins at most: a power of two.
const RAW_REACH: usize = 128;

impl FixedFields {
    /// Size and first bytes of the record, which itself may be shorter.
    #[inline(always)]
    pub fn raw(self, body: &[u8; AHEAD]) -> Option<(&[u8; 4], &[u8; NEAR])> {
        // The mask lets the compiler see that it is inside. There are not even 16 fields of 8 bytes before it.
        let at = self.raw & (RAW_REACH - 1);
        let (size, raw) = body[at..at + 4 + NEAR].split_first_chunk()?;
        Some((size, raw.first_chunk()?))
    }
}

/// Fields at the end of records that are no samples, in bytes back from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The event's id, if it is at the very end.
    pub id: Option<usize>,
    pub time: Option<usize>,
    pub cpu: Option<usize>,
}

impl Attr {
    /// Reads the `perf_event_attr` at the beginning of `bytes`; `None` if it is too short.
    pub fn parse(bytes: &[u8], order: ByteOrder) -> Option<Attr> {
        let sample_type = order.u64(bytes, 24)?;
        let flags = order.u64(bytes, 40)?;
        // Bit-fields are laid out from the other end where bytes are.
        let flag = |bit: u32| match order {
            ByteOrder::Little => flags >> bit & 1 == 1,
            ByteOrder::Big => flags >> (63 - bit) & 1 == 1,
        };
        let (sample_id_all, use_clockid) = (flag(18), flag(25));
        let mut at = 0;
        let mut field = |bit: u64| {
            let here = (sample_type & bit != 0).then_some(at);
            at += if here.is_some() { 8 } else { 0 };
            here
        };
        let identifier = field(IDENTIFIER);
        field(IP);
        let tid = field(TID);
        let time = field(TIME);
        field(ADDR);
        let id = field(ID);
        field(STREAM_ID);
        let cpu = field(CPU);
        field(PERIOD);
        let kind = order.u32(bytes, 0)?;
        let fixed_only = kind == TRACEPOINT && sample_type & RAW != 0 && sample_type & (READ | CALLCHAIN) == 0;
        let plain = match (tid, time, cpu) {
            (Some(tid), Some(time), Some(cpu)) if fixed_only => {
                Some(FixedFields { tid: tid as u8, time: time as u8, cpu: cpu as u8, raw: at })
            }
            _ => None,
        };
        Some(Attr {
            tracepoint: kind == TRACEPOINT,
            dummy: kind == SOFTWARE && order.u64(bytes, 8)? == DUMMY,
            tid,
            time,
            cpu,
            id: identifier.or(id),
            plain,
            fixed: at,
            read: (sample_type & READ != 0).then_some(order.u64(bytes, 32)?),
            callchain: sample_type & CALLCHAIN != 0,
            raw: sample_type & RAW != 0,
            trailer: sample_id_all.then(|| Trailer::of(sample_type)),
            clock: if use_clockid { order.u32(bytes, 92).map(|id| id as i32) } else { None },
        })
    }

    /// The raw record of a sample whose body (without header) is `body`; `None` if it has none or is too short.
    #[inline(always)]
    pub fn raw<'a>(&self, body: &'a [u8], order: ByteOrder) -> Option<&'a [u8]> {
        if !self.raw {
            return None;
        }
        let mut at = self.fixed;
        if let Some(format) = self.read {
            at = at.checked_add(read_size(format, body.get(at..)?, order)?)?;
        }
        if self.callchain {
            let entries = usize::try_from(order.u64(body, at)?).ok()?;
            at = entries.checked_mul(8)?.checked_add(at)?.checked_add(8)?;
        }
        let size = order.u32(body, at)? as usize;
        body.get(at + 4..)?.get(..size)
    }
}

impl Trailer {
    fn of(sample_type: u64) -> Trailer {
        let mut back = 0;
        let mut field = |bit: u64| {
            if sample_type & bit == 0 {
                return None;
            }
            back += 8;
            Some(back)
        };
        let id = field(IDENTIFIER);
        let cpu = field(CPU);
        field(STREAM_ID);
        field(ID);
        Trailer { id, cpu, time: field(TIME) }
    }
}

/// Bytes that counter values take, as `read_format` lays them out.
fn read_size(format: u64, body: &[u8], order: ByteOrder) -> Option<usize> {
    let has = |bit: u32| (format >> bit & 1) as usize;
    let (enabled, running, id, group, lost) = (has(0), has(1), has(2), has(3), has(4));
    let times = enabled + running;
    match group {
        0 => Some(8 * (1 + times + id + lost)),
        _ => {
            let values = usize::try_from(order.u64(body, 0)?).ok()?;
            values.checked_mul(8 * (1 + id + lost))?.checked_add(8 * (1 + times))
        }
    }
}
