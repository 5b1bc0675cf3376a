//! Records in, events out: one block of whole records at a time, on whatever thread.

use super::attr::Attr;
use super::head::Context;
use crate::bytes::{Order, c_string};
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
const LAST_KERNEL: u32 = 21;
const OWN: std::ops::RangeInclusive<u32> = 64..=86;

/// What a block of records gave.
#[derive(Debug, Default)]
pub struct Block {
    pub events: Vec<Event>,
    /// Where in `events` a new ascending run begins; the first run begins at 0 without saying so.
    pub runs: Vec<usize>,
    /// The latest moment so far at each FINISHED_ROUND.
    pub rounds: Vec<Moment>,
    pub latest: Moment,
    /// The moment of the last event.
    last: Moment,
    pub threads: Vec<Thread>,
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
        self.last = Moment::default();
        self.threads.clear();
        self.ledger = Ledger::default();
    }

    #[inline]
    fn push(&mut self, event: Event) {
        if event.at < self.last {
            self.runs.push(self.events.len());
        }
        self.last = event.at;
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
        let mut rest = records;
        while let (Some(kind), Some(size)) = (order.u32(rest, 0), order.u16(rest, 6)) {
            let here = offset + (records.len() - rest.len()) as u64;
            let Some((record, behind)) = rest.split_at_checked(usize::from(size)) else { break };
            let Some(body) = record.get(HEADER..) else { break };
            rest = behind;
            match kind {
                SAMPLE => match only.or_else(|| attr_of(body, context)) {
                    Some(attr) => self.sample(order, attr, body, here, context),
                    None => self.unreadable(here, Line::BadRecord),
                },
                FINISHED_ROUND => self.rounds.push(self.latest),
                LOST => self.lost(context, body, order.u64(body, 8), here),
                LOST_SAMPLES => self.lost(context, body, order.u64(body, 0), here),
                COMM => match (order.u32(body, 4), c_string(body, 8)) {
                    (Some(tid), Some((name, _))) => self.threads.push(Thread::Comm(tid, name.to_string())),
                    _ => self.ledger.count_at(Line::BadRecord, here),
                },
                FORK => match (order.u32(body, 8), order.u32(body, 12)) {
                    (Some(child), Some(parent)) => self.threads.push(Thread::Fork { child, parent }),
                    _ => self.ledger.count_at(Line::BadRecord, here),
                },
                _ if kind <= LAST_KERNEL || OWN.contains(&kind) => {}
                _ => self.ledger.count_at(Line::UnknownRecord, here),
            }
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
                        event.tid = decoder.tid(raw, order);
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
        let at = self.latest;
        self.push(Event {
            at,
            tid: Tid(0),
            vm: VmId::UNKNOWN,
            vcpu: VcpuId::UNKNOWN,
            cpu: PcpuId(u32::MAX),
            name: NameId(u16::MAX),
            kind: Kind::Other,
        });
    }

    fn lost(&mut self, context: &Context, body: &[u8], count: Option<u64>, here: u64) {
        let Some(count) = count else { return self.ledger.count_at(Line::BadRecord, here) };
        self.ledger.add(Line::LostRecords, count.max(1));
        let trailer = context.attrs.first().and_then(|attr| attr.trailer);
        let back = |back: Option<usize>| back.and_then(|back| body.len().checked_sub(back));
        let time = back(trailer.and_then(|trailer| trailer.time)).and_then(|at| context.order.u64(body, at));
        let cpu = back(trailer.and_then(|trailer| trailer.cpu)).and_then(|at| context.order.u32(body, at));
        self.push(Event {
            at: time.map_or(self.latest, Moment::from_nanos),
            tid: Tid(0),
            vm: VmId::UNKNOWN,
            vcpu: VcpuId::UNKNOWN,
            cpu: PcpuId(cpu.unwrap_or(u32::MAX)),
            name: NameId(u16::MAX),
            kind: Kind::Lost { count },
        });
    }
}

/// The attr of a sample where attrs differ: named by an id, at the place where all attrs have one.
fn attr_of<'a>(body: &[u8], context: &'a Context) -> Option<&'a Attr> {
    let at = context.attrs.first()?.id?;
    let id = context.order.u64(body, at)?;
    context.attrs.get(*context.attr_of.get(&id)? as usize)
}
