//! trace.dat, the file of trace-cmd, versions 6 and 7: CPU by CPU the pages of the kernel's ring buffer.
//!
//! ```text
//! head ─► cpu 0: block ─► pages ─► records ─┐
//!         cpu 1: block ─► pages ─► records ─┼─► earliest first ─► tracefs/ decodes the payload ─► Event
//!         instance "foo", cpu 0: …         ─┘
//! ```

mod blocks;
mod clock;
mod head;
mod options;
mod stream;
mod unpack;

use crate::bytes::Order;
use crate::source::BATCH;
use crate::tracefs::Decoders;
use crate::{Input, Source, TraceError};
use blocks::Blocks;
use clock::Clock;
use exitscope_model::{Event, Kind, Ledger, Line, NameId, TraceInfo};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use head::Head;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use stream::{Step, Stream};
use unpack::{Packing, Unpacker};

/// Whether the first bytes are of this format.
pub fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"\x17\x08\x44tracing")
}

/// Opens it.
pub fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    open_with(input, None)
}

/// Opens it with the rate of its clock: `clock_hz` ticks per second, whatever the trace says of its clock. Without
/// it, a trace whose clock counts ticks of unknown length is an error.
pub fn open_with(input: Input, clock_hz: Option<u64>) -> Result<Box<dyn Source>, TraceError> {
    Ok(Box::new(TraceDat::new(input, clock_hz)?))
}

/// The name of what has none: losses, and events without a format.
const NAMELESS: NameId = NameId(u16::MAX);

struct TraceDat {
    input: Input,
    info: TraceInfo,
    order: Order,
    decoders: Decoders,
    clock: Clock,
    vcpus: FxHashMap<u32, u32>,
    dropped: Vec<(u32, u64)>,
    streams: Vec<Stream>,
    /// The streams that have a record, by that record's moment.
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
    unpacker: Unpacker,
    packed: Vec<u8>,
    /// What was damaged before the ring pages; told with the first events.
    early: Option<Ledger>,
    latest: Moment,
    done: u64,
}

impl TraceDat {
    fn new(input: Input, clock_hz: Option<u64>) -> Result<TraceDat, TraceError> {
        let head = Head::read(&input, clock_hz)?;
        let packing = head.regions.iter().map(|region| region.packing).find(|&packing| packing != Packing::None);
        let all = head.regions.len();
        let streams: Vec<Stream> = (head.regions.iter())
            .map(|&region| {
                let blocks = Blocks::new(region, all);
                Stream::new(region.data.cpu, blocks, region.page_size, head.order, head.long)
            })
            .collect();
        let pages: u64 = head.regions.iter().map(|region| region.data.size).sum();
        Ok(TraceDat {
            done: input.len().saturating_sub(pages),
            input,
            info: head.info,
            order: head.order,
            decoders: head.decoders,
            clock: head.clock,
            vcpus: head.vcpus,
            dropped: head.dropped,
            heads: BinaryHeap::with_capacity(streams.len()),
            streams,
            unpacker: Unpacker::new(packing.unwrap_or(Packing::None)),
            packed: Vec::new(),
            early: Some(head.ledger),
            latest: Moment::default(),
        })
    }

    /// Takes stream `at` to its next record and returns that one's moment; none at the stream's end.
    #[inline]
    fn advance(&mut self, at: usize, ledger: &mut Ledger) -> Result<Option<Moment>, TraceError> {
        let cpu = self.streams[at].cpu;
        loop {
            match self.streams[at].step(ledger) {
                Step::Record(ticks) => return Ok(Some(self.clock.moment(ticks, cpu))),
                Step::Block if self.next_block(at, ledger)? => {}
                Step::Block => return Ok(self.streams[at].last().map(|ticks| self.clock.moment(ticks, cpu))),
            }
        }
    }

    #[cold]
    fn next_block(&mut self, at: usize, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let stream = &mut self.streams[at];
        let old = stream.take_block();
        let block = stream.blocks.next(&self.input, self.order, &mut self.unpacker, &mut self.packed, old)?;
        let Some(block) = block else { return Ok(false) };
        self.done += block.taken;
        stream.put_block(block, ledger);
        Ok(true)
    }

    /// Appends the record that stream `at` stands on, and what was lost before it.
    #[inline]
    fn emit(&mut self, at: usize, moment: Moment, events: &mut Vec<Event>, ledger: &mut Ledger) {
        let stream = &mut self.streams[at];
        let cpu = PcpuId(stream.cpu);
        if stream.hole || stream.missed.is_some() {
            let missed = stream.missed.take();
            stream.hole = false;
            events.push(lost(moment, cpu, missed.unwrap_or(0)));
            ledger.add(Line::LostRecords, missed.map_or(0, |count| count.max(1)));
        }
        let Some(payload) = stream.payload() else { return };
        ledger.events += 1;
        self.latest = moment;
        let vm = VmId::UNKNOWN;
        let id = self.order.u16(payload, 0).unwrap_or(0);
        let Some(decoder) = self.decoders.get(id) else {
            ledger.count_at(Line::UnknownFormat, stream.offset());
            // The common fields have been in the same places since 2.6.31.
            let tid = Tid(self.order.u32(payload, 4).unwrap_or(0));
            let vcpu = self.vcpu(tid);
            events.push(Event { at: moment, tid, vm, vcpu, cpu, name: NAMELESS, kind: Kind::Other });
            return;
        };
        let name = decoder.name;
        let Some(decoded) = decoder.decode(payload, self.order) else {
            ledger.count_at(Line::BadRecord, stream.offset());
            let (tid, vcpu) = (Tid(0), VcpuId::UNKNOWN);
            events.push(Event { at: moment, tid, vm, vcpu, cpu, name, kind: Kind::Other });
            return;
        };
        let tid = decoded.tid;
        let vcpu = if decoded.vcpu == VcpuId::UNKNOWN { self.vcpu(tid) } else { decoded.vcpu };
        events.push(Event { at: moment, tid, vm, vcpu, cpu, name, kind: decoded.kind });
    }

    /// The virtual CPU that a thread runs, as the recorder found it.
    #[inline]
    fn vcpu(&self, tid: Tid) -> VcpuId {
        if self.vcpus.is_empty() {
            return VcpuId::UNKNOWN;
        }
        self.vcpus.get(&tid.0).map_or(VcpuId::UNKNOWN, |&vcpu| VcpuId(vcpu))
    }

    fn start(&mut self, early: Ledger, ledger: &mut Ledger) -> Result<(), TraceError> {
        ledger.merge(&early);
        for at in 0..self.streams.len() {
            if let Some(moment) = self.advance(at, ledger)? {
                self.heads.push(Reverse((moment, at)));
            }
        }
        Ok(())
    }
}

impl Source for TraceDat {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        if let Some(early) = self.early.take() {
            self.start(early, ledger)?;
        }
        let full = events.len() + BATCH;
        while events.len() < full {
            let Some(&Reverse((moment, at))) = self.heads.peek() else {
                // Records that the kernel dropped have no moment: only their number is known.
                for (cpu, count) in std::mem::take(&mut self.dropped) {
                    events.push(lost(self.latest, PcpuId(cpu), count));
                    ledger.add(Line::LostRecords, count);
                }
                return Ok(false);
            };
            self.emit(at, moment, events, ledger);
            let next = self.advance(at, ledger)?;
            let Some(mut head) = self.heads.peek_mut() else { continue };
            match next {
                Some(moment) => head.0.0 = moment,
                None => drop(PeekMut::pop(head)),
            }
        }
        Ok(true)
    }

    fn progress(&self) -> (u64, u64) {
        (self.done.min(self.input.len()), self.input.len())
    }
}

fn lost(at: Moment, cpu: PcpuId, count: u64) -> Event {
    let (tid, vm, vcpu) = (Tid(0), VmId::UNKNOWN, VcpuId::UNKNOWN);
    Event { at, tid, vm, vcpu, cpu, name: NAMELESS, kind: Kind::Lost { count } }
}
