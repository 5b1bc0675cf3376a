//! trace.dat, the file of trace-cmd, versions 6 and 7: CPU by CPU the pages of the kernel's ring buffer.
//!
//! ```text
//! head ─► cpu 0: block ─► pages ─► records ─┐
//!         cpu 1: block ─► pages ─► records ─┼─► earliest first ─► tracefs/ decodes the payload ─► Event
//!         instance "foo", cpu 0: …         ─┘
//! ```

mod blocks;
mod census;
mod clock;
mod cut;
mod head;
mod options;
mod stream;
mod unpack;

use crate::bytes::ByteOrder;
use crate::source::{BATCH, EventFilter, MAX_THREADS, SourceOptions};
use crate::tracefs::Decoders;
use crate::{EventSource, Input, TraceError};
use clock::TraceClock;
use exitscope_model::{Event, EventKind, Ledger, LedgerLine, NameId, TraceInfo};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use head::TraceDatHeader;
pub use options::Session;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stream::{RingPageStream, Step};
use unpack::{Packing, Unpacker};

/// Whether the first bytes are of this format.
pub fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"\x17\x08\x44tracing")
}

/// Opens it.
pub fn open(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Box::new(TraceDat::new(input, options)?))
}

/// With which others it was recorded; nothing of what is no trace.dat, or cannot be read.
pub fn session(input: &Input) -> Session {
    // At which rate its clock counts makes no difference.
    let read = input.read_vec(0, 16).is_ok_and(|head| looks_like(&head)).then(|| TraceDatHeader::read(input, Some(1)));
    read.and_then(Result::ok).map_or(Session::default(), |head| head.session)
}

struct TraceDat {
    info: TraceInfo,
    supply: Supply,
    decode: Decode,
    streams: Vec<RingPageStream>,
    /// The streams that have a record, by that record's moment.
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
    /// Records that are missing without a mark of where, per CPU.
    lost: Vec<(u32, u64)>,
    /// What was damaged before the ring pages; told with the first events.
    early: Option<Ledger>,
    latest: Moment,
}

impl TraceDat {
    fn new(input: Input, options: SourceOptions) -> Result<TraceDat, TraceError> {
        let head = TraceDatHeader::read(&input, options.clock_hz)?;
        let packing = head.regions.iter().map(|region| region.packing).find(|&packing| packing != Packing::None);
        let all = head.regions.len();
        let mut streams: Vec<RingPageStream> =
            head.regions.iter().map(|&region| RingPageStream::new(region, all, head.order, head.long)).collect();
        let missing = census::missing(&input, &head)?;
        let mut lost = head.lost;
        let mut early = head.ledger;
        for (stream, missing) in streams.iter_mut().zip(missing) {
            stream.is_suspect = missing.is_anywhere;
            early.add(LedgerLine::UnplacedLoss, u64::from(missing.is_anywhere));
            early.add(LedgerLine::UncertainLoss, missing.uncertain);
            lost.extend((missing.count > 0).then_some((stream.cpu, missing.count)));
        }
        let pages: u64 = head.regions.iter().map(|region| region.data.size).sum();
        Ok(TraceDat {
            info: head.info,
            supply: Supply {
                done: input.len().saturating_sub(pages),
                input,
                unpacker: Unpacker::new(packing.unwrap_or(Packing::None)),
                packed: Vec::new(),
            },
            decode: Decode {
                order: head.order,
                decoders: head.decoders,
                clock: head.clock,
                keep: options.keep,
                exit_info: options.exit_info,
                vcpus: head.vcpus,
                vms: FxHashMap::default(),
            },
            heads: BinaryHeap::with_capacity(streams.len()),
            streams,
            lost,
            early: Some(early),
            latest: Moment::default(),
        })
    }

    fn start(&mut self, early: Ledger, ledger: &mut Ledger) -> Result<(), TraceError> {
        ledger.merge(&early);
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if let Some(moment) = self.decode.advance(stream, &mut self.supply, ledger)? {
                self.heads.push(Reverse((moment, at)));
            }
        }
        Ok(())
    }
}

impl EventSource for TraceDat {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        if let Some(early) = self.early.take() {
            self.start(early, ledger)?;
        }
        let full = events.len() + BATCH;
        while let Some(Reverse((mut moment, at))) = self.heads.pop() {
            let rival = self.heads.peek().map(|head| head.0);
            let stream = &mut self.streams[at];
            loop {
                self.decode.emit(stream, moment, events, ledger);
                if stream.may_be_cut_off() {
                    // What is open here may have gone on in what is missing.
                    events.push(Event::lost(moment, PcpuId(stream.cpu), 0));
                }
                self.latest = moment;
                let Some(next) = self.decode.advance(stream, &mut self.supply, ledger)? else { break };
                moment = next;
                if events.len() >= full || rival.is_some_and(|rival| rival < (next, at)) {
                    self.heads.push(Reverse((next, at)));
                    break;
                }
            }
            if events.len() >= full {
                return Ok(true);
            }
        }
        // Of these only the number is known, not the moment.
        for (cpu, count) in std::mem::take(&mut self.lost) {
            events.push(Event::lost(self.latest, PcpuId(cpu), count));
            ledger.add(LedgerLine::LostRecords, count);
        }
        self.supply.done = self.supply.input.len();
        Ok(false)
    }

    fn progress(&self) -> (u64, u64) {
        let all = self.supply.input.len();
        (self.supply.done.min(all), all)
    }
}

/// Where blocks come from.
struct Supply {
    input: Input,
    unpacker: Unpacker,
    packed: Vec<u8>,
    done: u64,
}

impl Supply {
    /// Has a stream go on with its next block; false if there is none.
    #[cold]
    fn refill(&mut self, stream: &mut RingPageStream, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let taken = stream.refill(&self.input, &mut self.unpacker, &mut self.packed, ledger)?;
        self.done += taken.unwrap_or(0);
        Ok(taken.is_some())
    }
}

/// How to read records.
struct Decode {
    order: ByteOrder,
    decoders: Decoders,
    clock: TraceClock,
    keep: EventFilter,
    exit_info: bool,
    /// The virtual CPU that each thread runs, where the recorder knew.
    vcpus: FxHashMap<u32, u32>,
    /// The VM of each thread of which an event said it.
    vms: FxHashMap<u32, VmId>,
}

impl Decode {
    /// Takes a stream to its next record and returns that one's moment; none at the stream's end.
    #[inline]
    fn advance(
        &self,
        stream: &mut RingPageStream,
        supply: &mut Supply,
        ledger: &mut Ledger,
    ) -> Result<Option<Moment>, TraceError> {
        let ticks = loop {
            match stream.step(ledger) {
                Step::Record(ticks) => break Some(ticks),
                Step::Block if supply.refill(stream, ledger)? => {}
                Step::Block => break stream.last(),
            }
        };
        Ok(ticks.map(|ticks| self.clock.moment(ticks, stream.cpu)))
    }

    /// Appends the record that a stream stands on, and what was lost before it.
    #[inline]
    fn emit(&mut self, stream: &mut RingPageStream, at: Moment, events: &mut Vec<Event>, ledger: &mut Ledger) {
        let cpu = PcpuId(stream.cpu);
        if stream.hole || stream.missed.is_some() {
            let missed = stream.missed.take();
            stream.hole = false;
            events.push(Event::lost(at, cpu, missed.unwrap_or(0)));
            ledger.add(LedgerLine::LostRecords, missed.map_or(0, |count| count.max(1)));
        }
        let Some(payload) = stream.payload() else { return };
        let id = self.order.u16(payload, 0).unwrap_or(0);
        let Some(decoder) = self.decoders.get(id) else {
            ledger.events += 1;
            ledger.count_at(LedgerLine::UnknownFormat, stream.offset());
            // The common fields have been in the same places since 2.6.31.
            let tid = Tid(self.order.u32(payload, 4).unwrap_or(0));
            let (vm, vcpu) = self.who(tid);
            events.push(Event { at, tid, vm, vcpu, cpu, name: NameId::NONE, kind: EventKind::Other });
            return;
        };
        if !decoder.is_kept(self.keep) {
            ledger.skip(at);
            return;
        }
        ledger.events += 1;
        if !decoder.fits(payload.len()) {
            ledger.count_at(LedgerLine::BadRecord, stream.offset());
            events.push(Event { name: decoder.name, ..Event::nameless(at, cpu, EventKind::Other) });
            return;
        }
        let tid = decoder.tid(payload, self.order);
        if let Some(vm) = decoder.vm(payload, self.order)
            && self.vms.len() < MAX_THREADS
        {
            self.vms.insert(tid.0, vm);
        }
        let (vm, vcpu) = self.who(tid);
        let head = Event { tid, vm, vcpu, ..Event::nameless(at, cpu, EventKind::Other) };
        let near = decoder.has_fields_alone() && decoder.is_near(payload.len());
        match stream.ahead().filter(|_| near) {
            // The order as a constant makes every read of a number one instruction.
            Some(near) if self.order == ByteOrder::Little => {
                decoder.append_near(near, ByteOrder::Little, head, events);
            }
            _ => decoder.append(payload, self.order, head, events),
        }
        if self.exit_info {
            decoder.append_info(payload, self.order, events);
        }
    }

    /// Whose a thread is, as far as the trace said.
    #[inline]
    fn who(&self, tid: Tid) -> (VmId, VcpuId) {
        if self.vms.is_empty() && self.vcpus.is_empty() {
            return (VmId::UNKNOWN, VcpuId::UNKNOWN);
        }
        let vm = self.vms.get(&tid.0).copied().unwrap_or(VmId::UNKNOWN);
        (vm, self.vcpus.get(&tid.0).map_or(VcpuId::UNKNOWN, |&vcpu| VcpuId(vcpu)))
    }
}
