//! xentrace's binary logs, of Xen 3.3 and later: windows of records, physical CPU by physical CPU.
//!
//! ```text
//! windows of cpu 0 ─► records, stamped or not ─┐
//! windows of cpu 1 ─► records, stamped or not ─┴─► earliest first ─┼─► what it says, of which vCPU ─► Event
//!                                          (`Records`, read ahead) │ (`XenTrace`)
//! ```
//!
//! The file has no header, and does not say: how many cycles make a second (`--tsc-hz`, or `xl info` in a file beside
//! it), whose exit codes it has (told, or found out by them), which vCPU a record of a guest is about (the scheduler's
//! records do; without them, whichever runs on the physical CPU).

mod decode;
mod names;
mod rate;
mod record;
mod stream;
mod survey;
mod windows;

use crate::read_ahead::{BatchSource, ReadAhead};
use crate::source::{BATCH, EventFilter, SourceOptions, XenMode};
use crate::{EventSource, Input, TraceError};
use decode::{Fates, Meaning, Paused, Vcpu, XenRecordKind, said, slot};
use exitscope_model::{Event, EventKind, Ledger, LedgerLine, NameId, TraceInfo};
use exitscope_units::{PcpuId, Tid, VcpuId, VmId};
use names::RecordOwner;
pub use names::event_name;
use rate::Rate;
use record::{LOST_RECORDS, MAX_PAYLOAD, Record};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stream::{Placed, Stream, Supply};
use survey::{Codes, Sidecar, survey};
use windows::Windows;

/// Event numbers of which something is remembered, at most; a sound log has about two hundred.
const MAX_EVENTS: usize = 1 << 14;

/// Of so many events that is near at hand.
const NEAR: usize = 256;

/// Whether the first bytes are of this format.
pub fn looks_like(head: &[u8]) -> bool {
    windows::looks_like(head)
}

/// Opens it.
pub fn open(input: Input, options: SourceOptions) -> Result<Box<dyn EventSource>, TraceError> {
    let sidecar = Sidecar::of(&input)?;
    let Some(hz) = options.clock_hz.or(sidecar.hz) else {
        let beside = input.sidecar_path(Sidecar::ENDING);
        let beside = beside.as_ref().and_then(|path| path.file_name());
        let sidecar = beside.map_or("a file".to_string(), |name| name.display().to_string());
        return Err(TraceError::XenClock { name: input.name().to_string(), sidecar });
    };
    let beginning = survey(&input)?;
    let mut info = TraceInfo {
        arch: sidecar.machine,
        release: sidecar.version,
        clock: "x86-tsc".to_string(),
        given_hz: options.clock_hz,
        cpus: sidecar.cpus,
        by_vcpu: true,
        ..TraceInfo::default()
    };
    info.comms.insert(VmId::DOMAIN_0.0, "Domain-0".to_string());
    info.comms.insert(VmId::IDLE_DOMAIN.0, "idle".to_string());
    let only_used = options.keep < EventFilter::All;
    let (fates, rate) = (Fates::new(only_used), Rate::of(hz));
    let records = Records {
        supply: Supply { windows: Windows::default(), fates, rate, input },
        streams: Vec::new(),
        first: beginning.first,
        heads: BinaryHeap::new(),
    };
    let mut log = XenTrace {
        info,
        decode: Decode {
            told: options.xen_mode,
            codes: beginning.codes,
            mode: XenMode::Vmx,
            names_first: beginning.names_first,
            only_used,
            paused: Paused::default(),
            events: FxHashMap::default(),
            near: vec![(u32::MAX, NameId::NONE, Meaning::of(u32::MAX)); NEAR],
            rate,
        },
        records: ReadAhead::start(records),
    };
    log.decode.choose_mode(&mut log.info);
    Ok(Box::new(log))
}

/// The log as events.
struct XenTrace {
    info: TraceInfo,
    decode: Decode,
    records: ReadAhead<Records>,
}

impl EventSource for XenTrace {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let (found, more) = self.records.read(ledger)?;
        events.reserve(found.len());
        for found in found {
            self.decode.push(found, &mut self.info, events, ledger);
        }
        Ok(more)
    }

    fn progress(&self) -> (u64, u64) {
        self.records.progress()
    }
}

/// What the CPUs' streams give, earliest first.
enum Found {
    /// A record that may be an event.
    Record(Copied),
    /// Here records are missing, of this CPU if it is known; how many, nobody knows.
    Hole { cycles: u64, cpu: PcpuId },
    /// Xen had no room for so many records.
    Lost { cycles: u64, cpu: PcpuId, count: u32 },
}

/// A record out of its place.
struct Copied {
    /// The event.
    id: u32,
    /// When, in cycles.
    cycles: u64,
    /// Where in the file it begins.
    offset: u64,
    /// Its CPU, and who runs there.
    cpu: PcpuId,
    current: Option<Vcpu>,
    /// Bytes of extra words, and these.
    len: u8,
    payload: [u8; MAX_PAYLOAD],
}

/// The CPUs' records in the order of time.
struct Records {
    supply: Supply,
    /// Of each CPU, its records.
    streams: Vec<Stream>,
    /// Who runs on each CPU before its records say.
    first: FxHashMap<u32, Vcpu>,
    /// The CPUs that have a next record, by its time.
    heads: BinaryHeap<Reverse<(u64, u32)>>,
}

impl BatchSource for Records {
    type Item = Found;

    fn read(&mut self, found: &mut Vec<Found>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let full = found.len() + BATCH;
        self.look_ahead(ledger)?;
        while let Some(Reverse((_, cpu))) = self.heads.pop() {
            let rival = self.heads.peek().map_or((u64::MAX, u32::MAX), |head| head.0);
            let at = cpu as usize;
            loop {
                self.emit(at, found);
                if !self.streams[at].next(&mut self.supply, ledger)? {
                    break;
                }
                let due = self.streams[at].placed().map_or(u64::MAX, |placed| placed.due);
                if found.len() >= full || rival < (due, cpu) {
                    self.heads.push(Reverse((due, cpu)));
                    break;
                }
            }
            if found.len() >= full {
                return Ok(true);
            }
            if self.heads.is_empty() {
                self.look_ahead(ledger)?;
            }
        }
        if self.supply.input.truncation().is_some() {
            ledger.count_at(LedgerLine::BadCompression, self.supply.input.len());
        }
        Ok(false)
    }

    fn progress(&self) -> (u64, u64) {
        let waiting: u64 = self.streams.iter().map(Stream::waiting).sum();
        (self.supply.windows.taken().saturating_sub(waiting), self.supply.input.len())
    }
}

impl Records {
    /// Finds windows further on if few are known, and lets CPUs go on that have new ones.
    fn look_ahead(&mut self, ledger: &mut Ledger) -> Result<(), TraceError> {
        let Supply { windows, input, .. } = &mut self.supply;
        if !windows.is_low(input) {
            return Ok(());
        }
        windows.look_ahead(input, ledger)?;
        for cpu in 0..windows.cpus() {
            let number = cpu as u32;
            if cpu == self.streams.len() {
                self.streams.push(Stream::new(number, self.first.get(&number).copied()));
            }
            let stream = &mut self.streams[cpu];
            if stream.placed().is_none() && self.supply.windows.has(cpu) && stream.next(&mut self.supply, ledger)? {
                self.heads.extend(stream.placed().map(|placed| Reverse((placed.due, number))));
            }
        }
        Ok(())
    }

    /// Appends the record that a CPU's stream stands on, and what was lost before it.
    #[inline]
    fn emit(&mut self, at: usize, found: &mut Vec<Found>) {
        let stream = &mut self.streams[at];
        let cpu = PcpuId(stream.cpu);
        let hole = stream.take_hole();
        if hole.is_some_and(|hole| hole != cpu) {
            // Of the other CPUs, records may be missing as well.
            let others = self.streams.iter_mut().filter(|other| other.cpu != cpu.0);
            others.for_each(|other| other.current = None);
        }
        let stream = &self.streams[at];
        let (Some(&Placed { cycles, due, offset, .. }), Some(record)) = (stream.placed(), stream.record()) else {
            return;
        };
        found.extend(hole.map(|cpu| Found::Hole { cycles, cpu }));
        if record.id == LOST_RECORDS {
            return found.push(Found::Lost { cycles: due, cpu, count: record.word(0).unwrap_or(0) });
        }
        let (payload, len) = record.copy();
        found.push(Found::Record(Copied { id: record.id, cycles, offset, cpu, current: stream.current, len, payload }));
    }
}

/// How to make events of records.
struct Decode {
    /// Whose exit codes they are: as told, as the codes show, and so as it is taken to be.
    told: Option<XenMode>,
    codes: Codes,
    mode: XenMode,
    names_first: bool,
    only_used: bool,
    paused: Paused,
    events: FxHashMap<u32, (NameId, Meaning)>,
    /// Those of `events` that are near at hand.
    near: Vec<(u32, NameId, Meaning)>,
    /// How long a cycle is.
    rate: Rate,
}

impl Decode {
    fn choose_mode(&mut self, info: &mut TraceInfo) {
        let found = self.codes.mode();
        let (name, how) = match (self.told, found) {
            (Some(XenMode::Svm), _) => ("SVM", "as told"),
            (Some(XenMode::Vmx), _) => ("VMX", "as told"),
            (None, Some(XenMode::Svm)) => ("SVM", "as its exit codes show"),
            (None, Some(XenMode::Vmx)) => ("VMX", "as its exit codes show"),
            (None, None) => {
                info.format = "xentrace".to_string();
                return;
            }
        };
        self.mode = self.told.or(found).unwrap_or(XenMode::Vmx);
        info.format = format!("xentrace ({name}, {how})");
    }

    /// Name and meaning of an event.
    #[inline]
    fn event(&mut self, id: u32, info: &mut TraceInfo) -> (NameId, Meaning) {
        let place = slot(id, NEAR);
        if self.near[place].0 != id {
            let (name, meaning) = match self.events.get(&id) {
                Some(&known) => known,
                None => self.learn(id, info),
            };
            self.near[place] = (id, name, meaning);
        }
        let (_, name, meaning) = self.near[place];
        (name, meaning)
    }

    #[cold]
    fn learn(&mut self, id: u32, info: &mut TraceInfo) -> (NameId, Meaning) {
        if self.events.len() >= MAX_EVENTS {
            return (NameId::NONE, Meaning::of(id));
        }
        let known = (info.names.intern(&event_name(id)), Meaning::of(id));
        self.events.insert(id, known);
        known
    }

    /// Appends the event of what was found, if it is to leave.
    #[inline]
    fn push(&mut self, found: &Found, info: &mut TraceInfo, events: &mut Vec<Event>, ledger: &mut Ledger) {
        let copied = match *found {
            Found::Record(ref copied) => copied,
            Found::Hole { cycles, cpu } => return events.push(Event::lost(self.rate.moment(cycles), cpu, 0)),
            Found::Lost { cycles, cpu, count } => {
                ledger.add(LedgerLine::LostRecords, u64::from(count.max(1)));
                return events.push(Event::lost(self.rate.moment(cycles), cpu, u64::from(count)));
            }
        };
        let &Copied { offset, current, cpu, .. } = copied;
        let at = self.rate.moment(copied.cycles);
        let mut record = Record::of(copied.id, &copied.payload[..usize::from(copied.len)]);
        let (name, meaning) = self.event(record.id, info);
        let mut of_record = None;
        if self.names_first && meaning.whose == RecordOwner::Current {
            of_record = record.word(0).map(Vcpu::packed_low);
            record = record.without_first();
        }
        if !meaning.known {
            ledger.count_at(LedgerLine::UnknownRecord, offset);
        }
        if meaning.means == XenRecordKind::Sleep
            && let Some(vcpu) = said(meaning.whose, &record)
        {
            self.paused.add(vcpu);
        }
        if self.only_used && meaning.is_unused() {
            ledger.skip(at);
            return;
        }
        ledger.events += 1;
        if meaning.means == XenRecordKind::Exit && self.codes.mode().is_none() {
            self.codes.count(record.word(0).unwrap_or(0));
            self.choose_mode(info);
        }
        let kind = meaning.means.read(&record, self.mode).unwrap_or_else(|| {
            ledger.count_at(LedgerLine::BadRecord, offset);
            EventKind::Other
        });
        let whose = match meaning.whose {
            RecordOwner::Current => of_record.or(current),
            whose => said(whose, &record),
        };
        let kind = if self.paused.is_empty() { kind } else { self.paused.tell(whose, kind) };
        let (vm, vcpu) = match (whose, meaning.whose) {
            (Some(vcpu), _) => vcpu.ids(),
            (None, RecordOwner::Current) => {
                ledger.add(LedgerLine::UnnamedVcpu, u64::from(matches!(kind, EventKind::Exit { .. })));
                (VmId::UNKNOWN, VcpuId::on(cpu))
            }
            (None, _) => (VmId::UNKNOWN, VcpuId::UNKNOWN),
        };
        events.push(Event { at, tid: Tid(0), vm, vcpu, cpu, name, kind });
    }
}
