//! Events out as a perf.data file, which perf and the reader beside read.
//!
//! ```text
//! front · block: COMM, samples, LOST, … FINISHED_ROUND · places │ block … FINISHED_ROUND · places │ …
//! ```
//!
//! Behind every block stand the places of the features' sections, as a file must end, and the header's length of data
//! is set up to there: a file whose writer was killed is whole up to its last block. When another block follows, the
//! places become the body of the FINISHED_ROUND before them. So nothing that a reader needs is ever overwritten: between
//! the two small writes that do this, that last record seems to be cut. As the first block is empty, the first record has
//! the places: of a file that is cut anywhere behind it, all that is there can be read.

mod bytes;
mod compress;
mod head;
mod layout;

use crate::bytes::{ByteOrder, beginning};
use crate::perf::header::ENDED;
use crate::perf::records::{COMM, FINISHED_ROUND, LOST, SAMPLE};
use crate::tracefs::{Decoder, Format};
use bytes::{Bytes, put};
use compress::Compressor;
use exitscope_model::{Architecture, Event, EventKind, EventNames, HostSetting, NameId, ThreadName};
use exitscope_units::{Moment, Tid, VmId};
use head::{DATA_SIZE, DUMMY_ID, Front, Known, VALUE, sample_id};
pub use layout::known_formats;
use layout::{Layout, WriteFieldPlace};
use rustc_hash::FxHashMap;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of records that are gathered before they are written.
const BLOCK: usize = 1 << 20;

/// `PERF_RECORD_MISC_KERNEL`.
const KERNEL: u16 = 1;

/// Places in a sample: IDENTIFIER, IP, TID, TIME, CPU, PERIOD, size of the tracepoint's record, the record.
const SAMPLE_TID: usize = 24;
const SAMPLE_TIME: usize = 32;
const SAMPLE_CPU: usize = 40;
const SAMPLE_RECORD: usize = 60;

/// `common_pid` in a tracepoint's record, and where the common fields end.
const COMMON_PID: usize = 4;
const COMMON: usize = 8;

/// Bytes of a thread's name, with the NUL.
const NAME: usize = 16;

/// What a trace says of itself, known before its first event.
#[derive(Clone, Copy, Debug)]
pub struct TraceDescription<'a> {
    /// Architecture as `uname -m` says it. It decides what a `kvm:kvm_exit` looks like, and the byte order: that of
    /// `s390x` is big-endian.
    pub arch: &'a str,
    /// The CPU as perf spells it, `GenuineIntel,6,85,7`: on x86, `perf kvm stat` reads out of the vendor whose exit codes
    /// they are.
    pub cpuid: &'a str,
    /// The CPU's model, in its maker's words.
    pub cpu: &'a str,
    /// What is in force on the host, those of one thing side by side; values have up to 63 bytes.
    pub settings: &'a [HostSetting],
    /// Host name.
    pub hostname: &'a str,
    /// Kernel release.
    pub release: &'a str,
    /// CPUs of the host; more if an event is of a later one.
    pub cpus: u32,
    /// The command that made the trace, word by word.
    pub command: &'a [String],
    /// The tracepoints: events name theirs by the position in this list.
    pub names: &'a EventNames,
    /// Whether blocks are compressed, as `perf record -z` does it: a quarter of the size.
    pub compressed: bool,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenTrace {
    /// Events that it holds, losses included.
    pub events: u64,
    /// Events that it does not hold, because no tracepoint of their name on that architecture says such a thing.
    pub left_out: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes events as a perf.data file, some memory at a time.
#[derive(Debug)]
pub struct PerfWriter<W> {
    to: W,
    tracepoints: Vec<Tracepoint>,
    threads: FxHashMap<u32, ThreadName>,
    block: Bytes,
    compressor: Option<Compressor>,
    /// Where data begin, and where the block in hand will be written.
    data_at: u64,
    block_at: u64,
    /// Where the last FINISHED_ROUND is, with the sections' places behind it.
    round_at: Option<u64>,
    places: Vec<u8>,
    known: Known,
    known_at: u64,
    /// Where the settings' values stand, and those that changed since they were written.
    values_at: Vec<u64>,
    changed: Vec<(u64, [u8; VALUE])>,
    written: WrittenTrace,
}

/// One tracepoint's samples.
#[derive(Debug)]
struct Tracepoint {
    /// A sample in which only what differs is missing.
    sample: Vec<u8>,
    fields: Vec<WriteFieldPlace>,
    /// What a reader will make of it.
    decoder: Decoder,
}

impl<W: Write + Seek> PerfWriter<W> {
    /// Begins a file at the start of `to`.
    pub fn new(to: W, head: &TraceDescription) -> io::Result<PerfWriter<W>> {
        // Names have 16 bits, one of which's values is no name; numbers begin at 1.
        let numbers = 1..=head.names.len() as u16;
        let layout = |number: u16| Layout::new(head.arch, head.names.get(NameId(number - 1)), number);
        PerfWriter::with(to, head, &numbers.map(layout).collect::<Vec<Layout>>())
    }

    /// Begins a file of a host's own tracepoints, given as `system` and `format` text: for [`PerfWriter::sample_of`]. The
    /// head's names are not looked at.
    pub fn of_formats(to: W, head: &TraceDescription, formats: &[(&str, &str)]) -> io::Result<PerfWriter<W>> {
        let layouts: Option<Vec<Layout>> =
            (1..).zip(formats).map(|(number, (system, text))| Layout::of_format(system, text, number)).collect();
        PerfWriter::with(to, head, &layouts.ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn with(mut to: W, head: &TraceDescription, layouts: &[Layout]) -> io::Result<PerfWriter<W>> {
        let is_big_endian = Architecture::or_x86(head.arch).row().is_big_endian;
        let order = if is_big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let tracepoints = (1..).zip(layouts).map(|(number, layout)| Tracepoint::new(number, layout, order));
        let tracepoints = tracepoints.collect::<Option<_>>().ok_or(io::ErrorKind::InvalidInput)?;
        let settings = [head.settings, &[HostSetting::new(ENDED.0, ENDED.1, "no")]].concat();
        let front = Front::new(&TraceDescription { settings: &settings, ..*head }, layouts, order);
        to.write_all(&front.bytes)?;
        let data_at = front.bytes.len() as u64;
        let mut writer = PerfWriter {
            to,
            tracepoints,
            threads: FxHashMap::default(),
            block: Bytes::new(order),
            compressor: if head.compressed { Some(Compressor::new()?) } else { None },
            data_at,
            block_at: data_at,
            round_at: None,
            places: front.places,
            known: Known { cpus: head.cpus, first: u64::MAX, last: 0 },
            known_at: front.known_at,
            values_at: front.values_at,
            changed: Vec::new(),
            written: WrittenTrace::default(),
        };
        writer.end_block()?;
        Ok(writer)
    }

    /// Says from `at` on how a thread of the process `vm` is called; names have up to 15 bytes. Virtual machine monitors
    /// call the threads of virtual CPUs `CPU 0/KVM` and so on.
    pub fn thread(&mut self, at: Moment, vm: VmId, tid: Tid, name: &str) -> io::Result<()> {
        let name = beginning(name, NAME - 1);
        let (len, comm) = (name.len(), ThreadName::new(name.as_bytes()));
        self.threads.insert(tid.0, comm);
        let record = self.block.begin_record(COMM, 0);
        self.block.u32(vm.0);
        self.block.u32(tid.0);
        self.block.bytes.extend_from_slice(&comm.bytes()[..(len + 1).next_multiple_of(8)]);
        self.trailer(vm, tid, at, 0);
        self.block.end_record(record);
        self.end_full_block()
    }

    /// Writes an event. Events come in the order of their moments.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::ExitInfo(_) = event.kind {
            // No record of its own.
            return Ok(());
        }
        if let EventKind::Lost { count } = event.kind {
            let record = self.block.begin_record(LOST, 0);
            self.block.u64s(&[DUMMY_ID, count]);
            self.trailer(event.vm, event.tid, event.at, event.cpu.0);
            self.block.end_record(record);
        } else if !self.sample(event) {
            self.written.left_out += 1;
            return Ok(());
        }
        self.count(event);
        self.end_full_block()
    }

    fn count(&mut self, event: &Event) {
        self.written.events += 1;
        let at = event.at.as_nanos();
        self.known.first = self.known.first.min(at);
        self.known.last = self.known.last.max(at);
        if event.cpu.0 != u32::MAX {
            self.known.cpus = self.known.cpus.max(event.cpu.0 + 1);
        }
    }

    /// Writes a record of the tracepoint at this place of [`PerfWriter::of_formats`]' list: its bytes behind the common
    /// fields, as far as their size is fixed. Records come in the order of their moments.
    pub fn sample_of(&mut self, place: usize, from: &Event, payload: &[u8]) -> io::Result<()> {
        let Some(tracepoint) = self.tracepoints.get(place) else {
            self.written.left_out += 1;
            return Ok(());
        };
        let begin = self.block.len();
        self.block.bytes.extend_from_slice(&tracepoint.sample);
        put_origin(self.block.order, &mut self.block.bytes[begin..], from);
        let record = &mut self.block.bytes[begin + SAMPLE_RECORD + COMMON..];
        let size = record.len().min(payload.len());
        record[..size].copy_from_slice(&payload[..size]);
        self.count(from);
        self.end_full_block()
    }

    /// Changes the value of the setting at this place of the head's list, with the next block that is written.
    pub fn set(&mut self, place: usize, value: &str) {
        let Some(&at) = self.values_at.get(place) else { return };
        let mut bytes = [0; VALUE];
        let value = beginning(value, VALUE - 1);
        bytes[..value.len()].copy_from_slice(value.as_bytes());
        self.changed.retain(|(other, _)| *other != at);
        self.changed.push((at, bytes));
    }

    /// Writes what is in hand, so that it outlives a kill.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.block.len() > 0 || !self.changed.is_empty() { self.end_block() } else { Ok(()) }
    }

    /// Writes the end of the file, and then that it is the end. A file without it is whole up to its last block of 1 MiB.
    pub fn finish(mut self) -> io::Result<WrittenTrace> {
        self.set(self.values_at.len() - 1, ENDED.2);
        self.leave()
    }

    /// Writes what is in hand, and leaves the file as one that was not ended: a part of what it is of is missing.
    pub fn leave(mut self) -> io::Result<WrittenTrace> {
        self.flush()?;
        self.to.flush()?;
        Ok(WrittenTrace { bytes: self.block_at, ..self.written })
    }

    /// Adds the sample that says what `event` says; false if there is none.
    fn sample(&mut self, event: &Event) -> bool {
        let Some(tracepoint) = self.tracepoints.get(usize::from(event.name.0)) else { return false };
        let event = &self.with_name(*event);
        let order = self.block.order;
        let begin = self.block.len();
        self.block.bytes.extend_from_slice(&tracepoint.sample);
        put_origin(order, &mut self.block.bytes[begin..], event);
        let sample = &mut self.block.bytes[begin..];
        for field in &tracepoint.fields {
            let at = SAMPLE_RECORD + field.offset;
            if !field.carries.is_name() {
                put(order, &mut sample[at..at + field.size], field.carries.number(event));
            }
        }
        for field in tracepoint.fields.iter().filter(|field| field.carries.is_name()) {
            let said = field.carries.name(event).filter(|name| name.is_known());
            let known = || self.threads.get(&field.carries.thread(event)?.0).copied();
            if let Some(name) = said.or_else(known) {
                let at = SAMPLE_RECORD + field.offset;
                sample[at..at + NAME].copy_from_slice(name.bytes());
            }
        }
        let read = tracepoint.decoder.decode(&sample[SAMPLE_RECORD..], order);
        let is_same = read.is_some_and(|read| read.kind == event.kind);
        if !is_same {
            self.block.bytes.truncate(begin);
        }
        is_same
    }

    /// The event, which says of the thread that is switched out what it is called, if that is known.
    fn with_name(&self, event: Event) -> Event {
        match event.kind {
            EventKind::Switch { prev, sleeps, next, prev_name: ThreadName::NONE } => {
                let prev_name = self.threads.get(&prev.0).copied().unwrap_or_default();
                Event { kind: EventKind::Switch { prev, sleeps, next, prev_name }, ..event }
            }
            _ => event,
        }
    }

    /// What records that are no samples end with.
    fn trailer(&mut self, vm: VmId, tid: Tid, at: Moment, cpu: u32) {
        self.block.u32(vm.0);
        self.block.u32(tid.0);
        self.block.u64(at.as_nanos());
        self.block.u32(cpu);
        self.block.u32(0);
        self.block.u64(DUMMY_ID);
    }

    fn end_full_block(&mut self) -> io::Result<()> {
        if self.block.len() >= BLOCK { self.end_block() } else { Ok(()) }
    }

    /// Writes the block in hand, and makes the file end behind it.
    fn end_block(&mut self) -> io::Result<()> {
        let order = self.block.order;
        if let Some(compressor) = &mut self.compressor {
            compressor.compress(&mut self.block)?;
        }
        let round = self.block.begin_record(FINISHED_ROUND, 0);
        self.block.set_size(round);
        let end = self.block_at + self.block.len() as u64;
        self.block.bytes.extend_from_slice(&self.places);
        write_at(&mut self.to, self.block_at, &self.block.bytes)?;
        if let Some(last) = self.round_at {
            let mut size = [0; 2];
            put(order, &mut size, 8 + self.places.len() as u64);
            write_at(&mut self.to, last + 6, &size)?;
        }
        let mut size = [0; 8];
        put(order, &mut size, end - self.data_at);
        write_at(&mut self.to, DATA_SIZE, &size)?;
        let known = Known { first: self.known.first.min(self.known.last), ..self.known };
        write_at(&mut self.to, self.known_at, &known.bytes(order))?;
        for (at, value) in self.changed.drain(..) {
            write_at(&mut self.to, at, &value)?;
        }
        self.round_at = Some(end - 8);
        self.block_at = end + self.places.len() as u64;
        self.block.bytes.clear();
        Ok(())
    }
}

/// Puts into a sample who recorded it, when and where.
fn put_origin(order: ByteOrder, sample: &mut [u8], event: &Event) {
    let mut number = |at: usize, size: usize, value: u64| put(order, &mut sample[at..at + size], value);
    number(SAMPLE_TID, 4, event.vm.0.into());
    number(SAMPLE_TID + 4, 4, event.tid.0.into());
    number(SAMPLE_TIME, 8, event.at.as_nanos());
    number(SAMPLE_CPU, 4, event.cpu.0.into());
    number(SAMPLE_RECORD + COMMON_PID, 4, event.tid.0.into());
}

fn write_at(to: &mut (impl Write + Seek), at: u64, bytes: &[u8]) -> io::Result<()> {
    to.seek(SeekFrom::Start(at))?;
    to.write_all(bytes)
}

impl Tracepoint {
    /// `None` if there can be no such layout.
    fn new(number: u16, layout: &Layout, order: ByteOrder) -> Option<Tracepoint> {
        let format = Format::parse(&layout.text)?;
        let decoder = Decoder::new(&layout.system, &format, &mut EventNames::default());
        let mut sample = Bytes::new(order);
        let record = sample.begin_record(SAMPLE, KERNEL);
        // IDENTIFIER, IP; TID, TIME, CPU; PERIOD.
        sample.u64s(&[sample_id(number), 0, 0, 0, 0, 1]);
        // Size and bytes together are on a grid of 8 bytes.
        let size = (layout.size + 4).next_multiple_of(8) - 4;
        sample.u32(size as u32);
        sample.u16(number);
        sample.bytes.resize(SAMPLE_RECORD + size, 0);
        sample.end_record(record);
        Some(Tracepoint { sample: sample.bytes, fields: layout.places.clone(), decoder })
    }
}
