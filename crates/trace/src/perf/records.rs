//! Records in, events out: one block of whole records at a time, on whatever thread.

use super::attr::{AHEAD, Attr, FixedFields};
use super::cursor::is_sound;
use super::header::RecordContext;
use crate::bytes::ByteOrder;
use crate::source::MAX_COMM;
use exitscope_model::{Event, EventKind, Ledger, LedgerLine, NameId};
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

/// The last type of a record that the kernel writes.
pub const LAST_KERNEL: u32 = 22;

/// Of a LOST_SAMPLES record: a filter left them out, they were not lost.
const MISC_FILTERED: u16 = 1 << 15;

/// Whether perf itself knows records of this type: the kernel's, and its own.
#[inline]
pub fn is_known(kind: u32) -> bool {
    matches!(kind, 1..=LAST_KERNEL | 64..=86)
}

/// Whether records of this type change how others are read, or hold others.
#[inline]
pub fn is_special(kind: u32) -> bool {
    matches!(kind, HEADER_ATTR | HEADER_TRACING_DATA | HEADER_FEATURE | COMPRESSED | COMPRESSED2)
}

/// What a block of records gave.
#[derive(Debug, Default)]
pub struct RecordBlock {
    pub events: Vec<Event>,
    /// Where in `events` a new ascending run begins; the first run begins at 0 without saying so.
    pub runs: Vec<usize>,
    /// Where events of one CPU follow one another in time.
    pub stretches: Vec<CpuStretch>,
    /// The latest moment so far at each FINISHED_ROUND.
    pub rounds: Vec<Moment>,
    /// The latest moment, but for the last stretch's.
    before: Moment,
    pub threads: Vec<(Moment, Thread)>,
    /// What LOST records say, and what perf's totals at the end say.
    pub lost: u64,
    pub lost_in_all: u64,
    pub ledger: Ledger,
}

/// First and last of events of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuStretch {
    pub cpu: PcpuId,
    pub first: Moment,
    pub last: Moment,
}

/// What records say of threads.
#[derive(Debug)]
pub enum Thread {
    /// It is called so.
    Comm(u32, String),
    /// It came out of another, whose name it has.
    Fork { child: u32, parent: u32 },
}

impl RecordBlock {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.runs.clear();
        self.stretches.clear();
        self.rounds.clear();
        self.before = Moment::default();
        self.threads.clear();
        (self.lost, self.lost_in_all) = (0, 0);
        self.ledger = Ledger::default();
    }

    /// Makes room for the events of so many bytes of records.
    pub fn reserve_for(&mut self, bytes: usize) {
        // Of most records less than half are events, and those are not much shorter than this.
        self.events.reserve(bytes / 128);
    }

    /// Whether nothing came and nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ledger == Ledger::default()
    }

    /// Unknown records are missing from here on.
    pub fn hole(&mut self, line: LedgerLine, here: u64) {
        self.ledger.count_at(line, here);
        self.push(Event::lost(self.latest(), PcpuId(u32::MAX), 0));
    }

    /// The latest moment of an event so far.
    pub fn latest(&self) -> Moment {
        self.stretches.last().map_or(self.before, |stretch| stretch.last.max(self.before))
    }

    #[inline(always)]
    fn push(&mut self, event: Event) {
        self.heard(event.cpu, event.at);
        self.events.push(event);
    }

    /// An event of this CPU is about to be pushed.
    #[inline(always)]
    fn heard(&mut self, cpu: PcpuId, at: Moment) {
        match self.stretches.last_mut() {
            Some(stretch) if stretch.cpu == cpu && stretch.last <= at => stretch.last = at,
            _ => self.begin(cpu, at),
        }
    }

    /// An event of another CPU than the last one's, or older than it.
    #[cold]
    fn begin(&mut self, cpu: PcpuId, at: Moment) {
        if self.stretches.last().is_some_and(|stretch| at < stretch.last) {
            self.runs.push(self.events.len());
        }
        self.before = self.latest();
        self.stretches.push(CpuStretch { cpu, first: at, last: at });
    }

    /// Decodes whole records that begin at byte `offset` of the file, up to what is none, and says how many bytes that
    /// is. Records that change the context are not for here; they are counted as unknown.
    pub fn decode(&mut self, records: &[u8], offset: u64, context: &RecordContext) -> usize {
        // The order as a constant makes every read of a number one instruction.
        match context.order {
            ByteOrder::Little => self.decode_in(ByteOrder::Little, records, offset, context),
            ByteOrder::Big => self.decode_in(ByteOrder::Big, records, offset, context),
        }
    }

    #[inline(always)]
    fn decode_in(&mut self, order: ByteOrder, records: &[u8], offset: u64, context: &RecordContext) -> usize {
        let only = context.only.as_ref();
        let plain = only.and_then(|attr| attr.plain);
        let mut rest = records;
        self.reserve_for(records.len());
        loop {
            if let Some(plain) = plain {
                while let Some(behind) = self.usual_sample(order, plain, rest, context) {
                    rest = behind;
                }
            }
            let Some(header) = rest.first_chunk::<HEADER>() else { break };
            let (Some(kind), Some(size)) = (order.u32(header, 0), order.u16(header, 6)) else { break };
            let here = offset + (records.len() - rest.len()) as u64;
            let Some((record, behind)) = rest.split_at_checked(usize::from(size)) else { break };
            let Some(body) = record.get(HEADER..) else { break };
            if kind == SAMPLE && size.is_multiple_of(8) {
                match only.or_else(|| attr_of(body, context)) {
                    Some(attr) => self.sample(order, attr, rest, body, here, context),
                    None => self.unreadable(here, LedgerLine::BadRecord),
                }
            } else if is_sound(kind, usize::from(size)) && kind != AUXTRACE {
                self.other(kind, record, body, here, context);
            } else {
                break;
            }
            rest = behind;
        }
        records.len() - rest.len()
    }

    /// A record that is no sample.
    #[cold]
    fn other(&mut self, kind: u32, record: &[u8], body: &[u8], here: u64, context: &RecordContext) {
        let order = context.order;
        match kind {
            FINISHED_ROUND => self.rounds.push(self.latest()),
            LOST => self.lost(context, body, order.u64(body, 8), here),
            LOST_SAMPLES if order.u16(record, 4).is_some_and(|misc| misc & MISC_FILTERED != 0) => {}
            LOST_SAMPLES => self.lost_samples(context, body, here),
            // A name is 15 bytes, whatever is cut there.
            COMM => match (order.u32(body, 4), body.get(8..)) {
                (Some(tid), Some(name)) => {
                    let name = name.split(|&byte| byte == 0).next().unwrap_or(name);
                    let name = &name[..name.len().min(MAX_COMM)];
                    let comm = Thread::Comm(tid, String::from_utf8_lossy(name).into_owned());
                    self.threads.push((trailer(context, body).0.unwrap_or_default(), comm));
                }
                _ => self.ledger.count_at(LedgerLine::BadRecord, here),
            },
            FORK => match (order.u32(body, 8), order.u32(body, 12)) {
                (Some(child), Some(parent)) => {
                    let fork = Thread::Fork { child, parent };
                    self.threads.push((trailer(context, body).0.unwrap_or_default(), fork));
                }
                _ => self.ledger.count_at(LedgerLine::BadRecord, here),
            },
            COMPRESSED | COMPRESSED2 => self.ledger.count_at(LedgerLine::BadCompression, here),
            _ if is_known(kind) && !is_special(kind) => {}
            _ => self.ledger.count_at(LedgerLine::UnknownRecord, here),
        }
    }

    /// A sample as nearly all are: a tracepoint's, with thread, time, CPU and record at fixed places, that `rest` begins with; what
    /// follows it there. Far enough from the end, fields are read without looking where each ends. `None` of other ones, and
    /// of whatever is wrong: these are for [`RecordBlock::odd_sample`].
    #[inline(always)]
    fn usual_sample<'a>(
        &mut self,
        order: ByteOrder,
        plain: FixedFields,
        rest: &'a [u8],
        context: &RecordContext,
    ) -> Option<&'a [u8]> {
        let (header, ahead) = rest.first_chunk::<{ HEADER + AHEAD }>()?.split_first_chunk::<HEADER>()?;
        let size = usize::from(order.u16(header, 6)?);
        let (raw_size, raw) = plain.raw(ahead.first_chunk()?)?;
        let raw_size = order.number(*raw_size) as usize;
        let is_whole = size.is_multiple_of(8) && raw_size >= 2 && size >= HEADER + plain.raw + 4 + raw_size;
        if order.u32(header, 0)? != SAMPLE || !is_whole {
            return None;
        }
        let behind = rest.get(size..)?;
        let decoder = context.decoders.get(order.u16(raw, 0)?)?;
        let head = ahead.first_chunk()?;
        let at = Moment::from_nanos(order.word(head, plain.time));
        if !decoder.is_kept(context.keep) {
            self.ledger.skip(at);
        } else if decoder.is_near(raw_size) {
            let (vm, tid) = order.halves(order.word(head, plain.tid));
            let cpu = PcpuId(order.halves(order.word(head, plain.cpu)).0);
            let event = Event { vm: VmId(vm), tid: Tid(tid), ..Event::nameless(at, cpu, EventKind::Other) };
            self.ledger.events += 1;
            self.heard(cpu, at);
            decoder.append_near(raw, order, event, &mut self.events);
        } else {
            return None;
        }
        Some(behind)
    }

    /// The sample that `rest` begins with.
    fn sample(&mut self, order: ByteOrder, attr: &Attr, rest: &[u8], body: &[u8], here: u64, context: &RecordContext) {
        if attr.plain.and_then(|plain| self.usual_sample(order, plain, rest, context)).is_none() {
            self.odd_sample(order, attr, body, here, context);
        }
    }

    #[cold]
    fn odd_sample(&mut self, order: ByteOrder, attr: &Attr, body: &[u8], here: u64, context: &RecordContext) {
        let at = match attr.time {
            Some(at) => order.u64(body, at).map(Moment::from_nanos),
            None => Some(self.latest()),
        };
        let Some(at) = at else { return self.unreadable(here, LedgerLine::BadRecord) };
        let raw = if attr.tracepoint { attr.raw(body, order) } else { None };
        let decoder = raw.and_then(|raw| context.decoders.get(order.u16(raw, 0)?));
        if decoder.is_some_and(|decoder| !decoder.is_kept(context.keep)) {
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
            name: decoder.map_or(NameId::NONE, |decoder| decoder.name),
            kind: EventKind::Other,
        };
        match (raw, decoder) {
            _ if !attr.tracepoint => self.ledger.count(LedgerLine::NotTracepoint),
            (None, _) => self.ledger.count_at(LedgerLine::BadRecord, here),
            (Some(_), None) => self.ledger.count_at(LedgerLine::UnknownFormat, here),
            (Some(raw), Some(decoder)) => match decoder.decode(raw, order) {
                None => self.ledger.count_at(LedgerLine::BadRecord, here),
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
        if let (true, Some(raw), Some(decoder)) = (context.exit_info, raw, decoder) {
            decoder.append_info(raw, order, &mut self.events);
        }
    }

    /// A sample of which nothing can be said but that it was there.
    fn unreadable(&mut self, here: u64, line: LedgerLine) {
        self.ledger.events += 1;
        self.ledger.count_at(line, here);
        self.push(Event::nameless(self.latest(), PcpuId(u32::MAX), EventKind::Other));
    }

    /// LOST: the kernel had no room in a buffer.
    fn lost(&mut self, context: &RecordContext, body: &[u8], count: Option<u64>, here: u64) {
        let Some(count) = count else { return self.ledger.count_at(LedgerLine::BadRecord, here) };
        self.lost = self.lost.saturating_add(count);
        self.push_lost(context, body, count);
    }

    /// LOST_SAMPLES: either the kernel's own, of a moment, or perf's total of one event that it writes at the end,
    /// without a moment; the total counts again what LOST records said (`record__read_lost_samples`).
    fn lost_samples(&mut self, context: &RecordContext, body: &[u8], here: u64) {
        match (context.order.u64(body, 0), trailer(context, body).0) {
            (None, _) => self.ledger.count_at(LedgerLine::BadRecord, here),
            (Some(count), Some(time)) if time == Moment::default() => {
                self.lost_in_all = self.lost_in_all.saturating_add(count)
            }
            (Some(count), _) => self.push_lost(context, body, count),
        }
    }

    fn push_lost(&mut self, context: &RecordContext, body: &[u8], count: u64) {
        self.ledger.add(LedgerLine::LostRecords, count.max(1));
        let (time, cpu) = trailer(context, body);
        // Records that perf itself makes up say zero.
        let time = time.filter(|&time| time != Moment::default());
        self.push(Event::lost(time.unwrap_or(self.latest()), cpu.unwrap_or(PcpuId(u32::MAX)), count));
    }
}

/// Time and CPU at the end of a record that is no sample.
fn trailer(context: &RecordContext, body: &[u8]) -> (Option<Moment>, Option<PcpuId>) {
    let place = |back: Option<usize>| back.and_then(|back| body.len().checked_sub(back));
    // Where attrs may differ, the last number of a record names its own.
    let id = context.attrs.first().and_then(|attr| attr.trailer?.id);
    let named = place(id).and_then(|at| context.named(context.order.u64(body, at)?));
    let attr = named.or(context.only.as_ref()).or(context.attrs.first());
    let Some(trailer) = attr.and_then(|attr| attr.trailer) else { return (None, None) };
    let time = place(trailer.time).and_then(|at| context.order.u64(body, at));
    let cpu = place(trailer.cpu).and_then(|at| context.order.u32(body, at));
    (time.map(Moment::from_nanos), cpu.map(PcpuId))
}

/// The attr of a sample where attrs differ: named by an id, at the place where all attrs have one.
fn attr_of<'a>(body: &[u8], context: &'a RecordContext) -> Option<&'a Attr> {
    let at = context.attrs.first()?.id?;
    context.named(context.order.u64(body, at)?)
}
