//! Records in, events out: one block of whole records at a time, on whatever thread.

use super::attr::Attr;
use super::head::Context;
use crate::bytes::Order;
use crate::tracefs::Decoder;
use exitscope_model::{Event, Kind, Ledger, Line, NameId};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};

/// Bytes of a record's header: u32 type, u16 misc, u16 size.
pub const HEADER: usize = 8;

pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const FORK: u32 = 7;
pub const SAMPLE: u32 = 9;
pub const LOST_SAMPLES: u32 = 13;
pub const HEADER_ATTR: u32 = 64;
pub const HEADER_TRACING_DATA: u32 = 66;
pub const FINISHED_ROUND: u32 = 68;
pub const AUXTRACE: u32 = 71;
pub const HEADER_FEATURE: u32 = 80;
pub const COMPRESSED: u32 = 81;
pub const COMPRESSED2: u32 = 83;

/// The last record types that perf itself knows: of the kernel, and of its own.
pub const LAST_KERNEL: u32 = 21;
pub const OWN: std::ops::RangeInclusive<u32> = 64..=86;

/// In LOST_SAMPLES: a filter dropped them on purpose.
const MISC_FILTERED: u16 = 1 << 15;

/// What a block of records gave.
#[derive(Debug, Default)]
pub struct Block {
    pub events: Vec<Event>,
    /// Where in `events` a new ascending run begins; the first run begins at 0 without saying so.
    pub runs: Vec<usize>,
    /// The latest moment so far at each FINISHED_ROUND.
    pub rounds: Vec<Moment>,
    pub latest: Moment,
    pub threads: Vec<(Moment, Thread)>,
    /// Samples that were lost over the whole recording, as perf says when it ends.
    pub lost_in_all: u64,
    pub ledger: Ledger,
}

/// What records say of threads.
#[derive(Debug)]
pub enum Thread {
    /// It is called so.
    Comm(u32, String),
    /// It came out of another, whose name it has.
    Fork { child: u32, parent: u32 },
}

impl Block {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.runs.clear();
        self.rounds.clear();
        self.latest = Moment::default();
        self.threads.clear();
        self.lost_in_all = 0;
        self.ledger = Ledger::default();
    }

    /// Whether nothing came and nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ledger == Ledger::default()
    }

    #[inline]
    fn push(&mut self, event: Event) {
        if let Some(last) = self.events.last()
            && event.at < last.at
        {
            self.runs.push(self.events.len());
        }
        self.latest = self.latest.max(event.at);
        self.events.push(event);
    }

    /// Decodes whole records that begin at byte `offset` of the file. Records that change the context are not for
    /// here; they are counted as unknown.
    pub fn decode(&mut self, records: &[u8], offset: u64, context: &Context) {
        // The order as a constant makes every read of a number one instruction.
        match context.order {
            Order::Little => self.decode_in(Order::Little, records, offset, context),
            Order::Big => self.decode_in(Order::Big, records, offset, context),
        }
    }

    #[inline(always)]
    fn decode_in(&mut self, order: Order, records: &[u8], offset: u64, context: &Context) {
        let only = context.only();
        let side = |body: &[u8]| Side::of(body, context);
        let mut at = 0;
        while let (Some(kind), Some(size)) = (order.u32(records, at), order.u16(records, at + 6)) {
            let Some(body) = records.get(at + HEADER..at + usize::from(size)) else { break };
            let here = offset + at as u64;
            match kind {
                SAMPLE => match only.or_else(|| attr_of(body, context)) {
                    Some(attr) => self.sample(order, attr, body, here, context),
                    None => self.unreadable(here, Line::BadRecord),
                },
                FINISHED_ROUND => self.rounds.push(self.latest),
                LOST => self.lost(order.u64(body, 8), side(body), here),
                LOST_SAMPLES if order.u16(records, at + 4).is_some_and(|misc| misc & MISC_FILTERED != 0) => {}
                LOST_SAMPLES => match (side(body), order.u64(body, 0)) {
                    // Not of a moment: a total that perf adds at the end.
                    (Side { time: Some(0), .. }, Some(count)) => {
                        self.lost_in_all = self.lost_in_all.saturating_add(count);
                    }
                    (side, count) => self.lost(count, side, here),
                },
                COMM => match (order.u32(body, 4), body.get(8..)) {
                    (Some(tid), Some(name)) => {
                        let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
                        let comm = Thread::Comm(tid, String::from_utf8_lossy(name).into_owned());
                        self.threads.push((side(body).moment().unwrap_or_default(), comm));
                    }
                    _ => self.ledger.count_at(Line::BadRecord, here),
                },
                FORK => match (order.u32(body, 8), order.u32(body, 12)) {
                    (Some(child), Some(parent)) => {
                        let fork = Thread::Fork { child, parent };
                        self.threads.push((side(body).moment().unwrap_or_default(), fork));
                    }
                    _ => self.ledger.count_at(Line::BadRecord, here),
                },
                // perf writes these only where they are handled before a block is decoded.
                HEADER_ATTR | HEADER_TRACING_DATA | HEADER_FEATURE | COMPRESSED | COMPRESSED2 => {
                    self.ledger.count_at(Line::UnknownRecord, here);
                }
                _ if kind <= LAST_KERNEL || OWN.contains(&kind) => {}
                _ => self.ledger.count_at(Line::UnknownRecord, here),
            }
            at += usize::from(size);
        }
    }

    #[inline(always)]
    fn sample(&mut self, order: Order, attr: &Attr, body: &[u8], here: u64, context: &Context) {
        let at = match attr.time {
            Some(at) => order.u64(body, at).map(Moment::from_nanos),
            None => Some(self.latest),
        };
        let Some(at) = at else { return self.unreadable(here, Line::BadRecord) };
        let raw = if attr.tracepoint { attr.raw(body, order) } else { None };
        let decoder = raw.and_then(|raw| context.decoders.get(order.u16(raw, 0)?));
        if context.only_used && decoder.is_some_and(Decoder::is_unused) {
            return self.ledger.skip(at);
        }
        self.ledger.events += 1;
        let number = |at: Option<usize>| at.and_then(|at| order.u32(body, at));
        let mut event = Event {
            at,
            tid: Tid(number(attr.tid.map(|at| at + 4)).unwrap_or(0)),
            vm: VmId(number(attr.tid).unwrap_or(0)),
            vcpu: VcpuId::UNKNOWN,
            cpu: PcpuId(number(attr.cpu).unwrap_or(u32::MAX)),
            name: decoder.map_or(NameId(u16::MAX), |decoder| decoder.name),
            kind: Kind::Other,
        };
        match (raw, decoder) {
            _ if !attr.tracepoint => self.ledger.count(Line::NotTracepoint),
            (None, _) => self.ledger.count_at(Line::BadRecord, here),
            (Some(_), None) => self.ledger.count_at(Line::UnknownFormat, here),
            (Some(raw), Some(decoder)) => match decoder.decode(raw, order) {
                None => self.ledger.count_at(Line::BadRecord, here),
                Some(decoded) => {
                    event.kind = decoded.kind;
                    event.vcpu = decoded.vcpu;
                    if attr.tid.is_none() {
                        event.tid = decoded.tid;
                    }
                }
            },
        }
        self.push(event);
    }

    /// A sample of which nothing can be said but that it was there.
    fn unreadable(&mut self, here: u64, line: Line) {
        self.ledger.events += 1;
        self.ledger.count_at(line, here);
        self.push_bare(Kind::Other, Side::default());
    }

    /// Unknown records are missing from here on.
    pub fn hole(&mut self, line: Line, here: u64) {
        self.ledger.count_at(line, here);
        self.push_bare(Kind::Lost { count: 0 }, Side::default());
    }

    fn lost(&mut self, count: Option<u64>, side: Side, here: u64) {
        let Some(count) = count else { return self.ledger.count_at(Line::BadRecord, here) };
        self.lose(count, side);
    }

    /// The recorder lost `count` records before this moment.
    pub fn lose(&mut self, count: u64, side: Side) {
        self.ledger.add(Line::LostRecords, count.max(1));
        self.push_bare(Kind::Lost { count }, side);
    }

    fn push_bare(&mut self, kind: Kind, side: Side) {
        self.push(Event {
            at: side.moment().unwrap_or(self.latest),
            tid: Tid(0),
            vm: VmId::UNKNOWN,
            vcpu: VcpuId::UNKNOWN,
            cpu: PcpuId(side.cpu.unwrap_or(u32::MAX)),
            name: NameId(u16::MAX),
            kind,
        });
    }
}

/// What records that are no samples say of themselves at their end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Side {
    time: Option<u64>,
    cpu: Option<u32>,
}

impl Side {
    fn of(body: &[u8], context: &Context) -> Side {
        let order = context.order;
        let back = |back: Option<usize>| back.and_then(|back| body.len().checked_sub(back));
        // Where attrs may differ, the last number of a record names its own.
        let id = context.attrs.first().and_then(|attr| attr.trailer?.id);
        let named = back(id).and_then(|at| context.attr_of(order.u64(body, at)?));
        let attr = named.or(context.only()).or(context.attrs.first());
        let Some(trailer) = attr.and_then(|attr| attr.trailer) else { return Side::default() };
        let time = back(trailer.time).and_then(|at| order.u64(body, at));
        let cpu = back(trailer.cpu).and_then(|at| order.u32(body, at));
        Side { time, cpu }
    }

    /// When; records that perf made up itself say zero.
    fn moment(self) -> Option<Moment> {
        self.time.filter(|&time| time > 0).map(Moment::from_nanos)
    }
}

/// The attr of a sample where attrs differ: named by an id, at the place where all attrs have one.
fn attr_of<'a>(body: &[u8], context: &'a Context) -> Option<&'a Attr> {
    let at = context.attrs.first()?.id?;
    context.attr_of(context.order.u64(body, at)?)
}
