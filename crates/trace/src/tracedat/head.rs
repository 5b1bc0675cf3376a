//! Everything before the ring pages: where they are, and how to read what is in them.
//!
//! ```text
//! both       17 08 44 "tracing" "6\0"|"7\0" u8 big endian, u8 long, u32 page size
//! version 6  the sections of tracefs/, u32 CPUs, "options  \0" options, "flyrecord\0" { u64 offset, u64 size } per CPU,
//!            u64 size, clock text
//! version 7  compressor\0 its version\0 u64 ─► section 0: options … DONE ─► section 0: options … DONE 0
//!                                                        └► sections 16…21, each named by an option
//! section    u16 id, u16 flags (1: compressed), u32 description, u64 size, data
//! ```

use super::clock::{TickRate, TraceClock, counts_nanos, selected};
use super::cut;
use super::options::{Buffer, CpuCounts, CpuData, Options, Session, id};
use super::unpack::{Packing, Unpacker};
use crate::bytes::ByteOrder;
use crate::source::MAX_SECTION;
use crate::tracefs::{Decoders, Sections, Torn};
use crate::{Input, TraceError};
use exitscope_model::{Ledger, LedgerLine, TraceInfo};
use rustc_hash::FxHashMap;

/// Sections of options at most.
const MAX_CHAIN: usize = 1024;

/// CPUs at most; Linux is built for up to 8,192.
const MAX_CPUS: u64 = 1 << 16;

/// The largest ring page: the kernel keeps offsets within one in 20 bits.
const MAX_PAGE: u32 = 1 << 20;

/// Bytes of ring pages, one page per CPU, that may be held at once.
pub(super) const MAX_BUFFERED: u64 = 512 << 20;

/// Ring pages of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Where in the file, and whose.
    pub data: CpuData,
    /// Bytes in a page.
    pub page_size: usize,
    /// Whether it is in compressed chunks.
    pub packing: Packing,
    /// What the kernel counted.
    pub counts: CpuCounts,
    /// Whether the file ends before they do.
    pub is_cut: bool,
}

/// What the file says before its ring pages.
#[derive(Debug)]
pub(super) struct TraceDatHeader {
    /// Byte order of everything.
    pub order: ByteOrder,
    /// Bytes in the `long` of a ring page.
    pub long: usize,
    /// What the trace says of itself.
    pub info: TraceInfo,
    /// With which others it was recorded.
    pub session: Session,
    /// How to read payloads.
    pub decoders: Decoders,
    /// How to read time stamps.
    pub clock: TraceClock,
    /// The virtual CPU that each thread runs, where the recorder knew.
    pub vcpus: FxHashMap<u32, u32>,
    /// Records that were lost of CPUs of which there are no ring pages at all.
    pub lost: Vec<(u32, u64)>,
    /// The ring pages, in file order; none overlaps another.
    pub regions: Vec<Region>,
    /// What was damaged so far.
    pub ledger: Ledger,
}

impl TraceDatHeader {
    /// Reads it. `clock_hz`: ticks per second of the trace's clock, if the caller knows better than the trace.
    pub fn read(input: &Input, clock_hz: Option<u64>) -> Result<TraceDatHeader, TraceError> {
        let bytes = input.read_vec(0, 4096)?;
        let mut reader = Reader {
            input,
            unpacker: Unpacker::new(Packing::None),
            order: ByteOrder::Little,
            long: 8,
            info: TraceInfo::default(),
            decoders: Decoders::default(),
            options: Options::default(),
            regions: Vec::new(),
            lost: Vec::new(),
            unread: input.len(),
            ledger: Ledger::default(),
        };
        if input.truncation().is_some() {
            reader.ledger.count_at(LedgerLine::BadCompression, input.len());
        }
        let torn = |torn: Torn| reader.damaged(torn.structure, torn.at as u64, "is cut short");
        let (mut start, version, long, page_size) = Sections::read_start(&bytes).map_err(torn)?;
        if long == 4 {
            reader.long = 4;
        }
        reader.order = start.order;
        reader.info.format = format!("trace.dat v{version}");
        match version {
            "6" => reader.read_v6(start.at as u64, page_size)?,
            "7" => {
                let torn = |torn: Torn| reader.damaged(torn.structure, torn.at as u64, "is cut short");
                let compressor = start.string("compressor name").map_err(torn)?;
                start.string("compressor version").map_err(torn)?;
                let options = start.u64("offset of the options").map_err(torn)?;
                let packing = Packing::named(compressor).ok_or_else(|| TraceError::Unsupported {
                    name: input.name().to_string(),
                    what: format!("it is compressed with {compressor}; none, zlib and zstd are read"),
                })?;
                reader.unpacker = Unpacker::new(packing);
                reader.read_v7(options, packing, page_size)?;
            }
            _ => {
                return Err(TraceError::Unsupported {
                    name: input.name().to_string(),
                    what: format!("it is a trace.dat of version {version:?}; versions 6 and 7 are read"),
                });
            }
        }
        reader.finish(clock_hz)
    }
}

struct Reader<'a> {
    input: &'a Input,
    unpacker: Unpacker,
    order: ByteOrder,
    long: usize,
    info: TraceInfo,
    decoders: Decoders,
    options: Options,
    regions: Vec<Region>,
    lost: Vec<(u32, u64)>,
    /// Bytes that sections of version 7 can still have: they do not overlap in a sound file.
    unread: u64,
    ledger: Ledger,
}

impl Reader<'_> {
    fn damaged(&self, structure: &'static str, offset: u64, problem: impl Into<String>) -> TraceError {
        TraceError::Damaged { name: self.input.name().to_string(), structure, offset, problem: problem.into() }
    }

    /// Parses what begins at `at`, with as much of the file in memory as it turns out to need; returns where it ends.
    fn parse<T>(
        &mut self,
        at: u64,
        mut parse: impl FnMut(&mut Self, &mut Sections) -> Result<T, Torn>,
    ) -> Result<(T, u64), TraceError> {
        let mut window = 64 << 10;
        loop {
            let bytes = self.input.read_vec(at, window)?;
            let mut sections = Sections { bytes: &bytes, at: 0, order: self.order };
            match parse(self, &mut sections) {
                Ok(value) => return Ok((value, at + sections.at as u64)),
                Err(_) if bytes.len() as u64 == window && window < MAX_SECTION => {
                    window = (window * 8).min(MAX_SECTION)
                }
                Err(torn) => return Err(self.damaged(torn.structure, at + torn.at as u64, "is damaged or cut short")),
            }
        }
    }

    fn header_page(&mut self, text: &str) {
        // `field: local_t commit; offset:8; size:8; signed:1;`: the kernel's long, which is not the recorder's.
        let commit = text.lines().find(|line| line.contains(" commit;"));
        let size = commit.and_then(|line| line.split_once("size:")).map(|pair| pair.1.trim_start());
        match size.and_then(|size| size.chars().next()) {
            Some('4') => self.long = 4,
            Some('8') => self.long = 8,
            _ => {}
        }
    }

    fn read_v6(&mut self, start: u64, page_size: u32) -> Result<(), TraceError> {
        let ((), mut at) = self.parse(start, |reader, sections| {
            let text = sections.read_headers()?;
            reader.header_page(text);
            sections.read_ftrace_formats(&mut reader.decoders, &mut reader.info.names)?;
            sections.read_event_formats(&mut reader.decoders, &mut reader.info.names)
        })?;
        for structure in ["kallsyms", "printk formats"] {
            let (size, next) = self.parse(at, |_, sections| sections.u32(structure))?;
            at = next + u64::from(size);
        }
        let ((), at) = self.parse(at, |reader, sections| sections.read_cmdlines(&mut reader.info.comms))?;
        let (cpus, at) = self.parse(at, |_, sections| sections.u32("CPU count"))?;
        self.options.cpus = Some(cpus);
        let end = self.read_v6_buffer("", at, page_size)?;
        // A damaged clock text is no reason to give up: the clock of the options or the default stands.
        let clock = self.parse(end, |_, sections| {
            let size = sections.u64("trace clock")?;
            Ok(String::from_utf8_lossy(sections.take(size, "trace clock")?).into_owned())
        });
        if let (None, Ok((text, _))) = (&self.options.clock_name, clock) {
            self.options.clock_name = selected(&text).map(str::to_string);
        }
        for buffer in std::mem::take(&mut self.options.buffers) {
            // The top buffer is the one above; each instance has its options and its table at its offset.
            if !buffer.name.is_empty() && self.read_v6_buffer(&buffer.name, buffer.offset, page_size).is_err() {
                self.ledger.count_at(LedgerLine::BadRecord, buffer.offset);
            }
        }
        Ok(())
    }

    /// Options, if there are any, and the table of CPUs; returns where it ends.
    fn read_v6_buffer(&mut self, name: &str, at: u64, page_size: u32) -> Result<u64, TraceError> {
        let (mut tag, mut next) = self.parse(at, |_, sections| v6_tag(sections))?;
        if tag.starts_with(b"options") {
            next = self.read_v6_options(next)?;
            (tag, next) = self.parse(next, |_, sections| v6_tag(sections))?;
        }
        if tag.starts_with(b"latency") {
            self.options.text = true;
            return Ok(next);
        }
        if !tag.starts_with(b"flyrecord") {
            return Err(self.damaged("kind of data", next - 10, "is neither ring pages nor latency text"));
        }
        let cpus = u64::from(self.options.cpus.unwrap_or(0));
        if cpus == 0 || cpus > MAX_CPUS {
            return Err(self.damaged("table of CPUs", next, format!("has {cpus} of them, which cannot be")));
        }
        let table = self.input.read_vec(next, cpus * 16)?;
        self.promised(next, cpus * 16, table.len() as u64);
        let mut data = Vec::new();
        for (cpu, row) in table.chunks_exact(16).enumerate() {
            if let (Some(offset), Some(size)) = (self.order.u64(row, 0), self.order.u64(row, 8)) {
                data.push(CpuData { cpu: cpu as u32, offset, size });
            }
        }
        self.add_regions(name, &data, page_size, Packing::None, at)?;
        Ok(next + cpus * 16)
    }

    fn read_v6_options(&mut self, mut at: u64) -> Result<u64, TraceError> {
        loop {
            let head = self.input.read_vec(at, 6)?;
            let Some(option) = self.order.u16(&head, 0) else {
                return Err(self.damaged("options", at, "are cut short"));
            };
            if option == id::DONE {
                return Ok(at + 2);
            }
            let Some(size) = self.order.u32(&head, 2).map(u64::from).filter(|&size| size <= MAX_SECTION) else {
                return Err(self.damaged("option", at, "is cut short or too large"));
            };
            let data = self.input.read_vec(at + 6, size)?;
            if self.options.read(option, &data, self.order).is_none() || (data.len() as u64) < size {
                self.ledger.count_at(LedgerLine::BadRecord, at);
            }
            at += 6 + size;
        }
    }

    fn read_v7(&mut self, first: u64, packing: Packing, page_size: u32) -> Result<(), TraceError> {
        let mut broken = None;
        let (mut next, mut last) = (Some(first), None);
        for _ in 0..MAX_CHAIN {
            let Some(at) = next.take() else { break };
            match self.section(at, id::DONE)? {
                Ok(bytes) => {
                    last = Some(at);
                    next = self.read_v7_options(&bytes, at);
                }
                Err(problem) => broken = Some((at, problem)),
            }
        }
        self.read_v7_sections()?;
        let mut buffers = std::mem::take(&mut self.options.buffers);
        if buffers.is_empty() && !self.options.text {
            // What names them stands behind them: it is cut off, or the recorder was killed before it wrote that.
            let is_found = match last {
                Some(options) => self.find_cut_buffer(options, packing, page_size)?,
                None => false,
            };
            let (at, problem) = broken.unwrap_or((first, "name no buffer of ring pages".to_string()));
            return if is_found { Ok(()) } else { Err(self.damaged("options", at, problem)) };
        }
        // Instances may have clocks of their own, and moments of two clocks cannot be put in order.
        let top = buffers.iter().find(|buffer| buffer.name.is_empty()).or(buffers.first());
        if let Some(clock) = top.map(|buffer| buffer.clock.clone()) {
            let (same, other) = buffers.into_iter().partition(|buffer| buffer.clock == clock);
            buffers = same;
            other.iter().for_each(|buffer: &Buffer| self.ledger.count_at(LedgerLine::BadRecord, buffer.offset));
            self.options.clock_name.get_or_insert(clock);
        }
        for buffer in buffers {
            let flags = self.input.read_vec(buffer.offset, 16)?;
            let packed = self.order.u16(&flags, 2).is_some_and(|flags| flags & 1 != 0);
            let packing = if packed { packing } else { Packing::None };
            let mut cpus = buffer.cpus;
            if packed {
                // The recorder leaves the count of chunks, four bytes, out of the size.
                cpus.iter_mut().filter(|data| data.size > 0).for_each(|data| data.size = data.size.saturating_add(4));
            }
            self.add_regions(&buffer.name, &cpus, buffer.page_size, packing, buffer.offset)?;
        }
        Ok(())
    }

    /// Takes the top buffer, whose table is cut off, from behind the options at `options`; whether it is there.
    fn find_cut_buffer(&mut self, options: u64, packing: Packing, page_size: u32) -> Result<bool, TraceError> {
        let size = self.order.u64(&self.input.read_vec(options + 8, 8)?, 0).unwrap_or(0);
        let (stats, at) = (&self.options.stats, options.saturating_add(16).saturating_add(size));
        let full = stats.iter().filter(|stat| stat.buffer.is_empty() && stat.counts.kept != Some((0, 0)));
        let cpus = full.map(|stat| stat.cpu);
        // A page that is too small to be one would be looked for at every byte.
        let page = u64::from(page_size.max(256));
        let Some(found) = cut::find(self.input, self.order, at, page, cpus)? else { return Ok(false) };
        let packing = if found.is_packed { packing } else { Packing::None };
        self.add_regions("", &found.cpus, page_size, packing, at)?;
        if found.is_unfinished {
            self.ledger.count_at(LedgerLine::UnfinishedFile, at);
            self.regions.last_mut().into_iter().for_each(|region| region.is_cut = true);
        }
        Ok(!found.cpus.is_empty())
    }

    /// Returns where the next section of options is.
    fn read_v7_options(&mut self, bytes: &[u8], section: u64) -> Option<u64> {
        let mut at = 0;
        while let (Some(option), Some(size)) = (self.order.u16(bytes, at), self.order.u32(bytes, at + 2)) {
            let Some(data) = bytes.get(at + 6..).and_then(|rest| rest.get(..size as usize)) else { break };
            if option == id::DONE {
                return self.order.u64(data, 0).filter(|&next| next != 0);
            }
            if self.options.read(option, data, self.order).is_none() {
                self.ledger.count_at(LedgerLine::BadRecord, section);
            }
            at += 6 + data.len();
        }
        // Without its end the chain is broken here.
        self.ledger.count_at(LedgerLine::BadRecord, section);
        None
    }

    /// What the options name. A section that cannot be read costs what it says, not the trace.
    fn read_v7_sections(&mut self) -> Result<(), TraceError> {
        for (option, at) in std::mem::take(&mut self.options.sections) {
            let Ok(bytes) = self.section(at, option)? else { continue };
            let mut sections = Sections { bytes: &bytes, at: 0, order: self.order };
            let (decoders, names) = (&mut self.decoders, &mut self.info.names);
            let read = match option {
                id::HEADER_INFO => sections.read_headers().map(|text| self.header_page(text)),
                id::FTRACE_EVENTS => sections.read_ftrace_formats(decoders, names),
                id::EVENT_FORMATS => sections.read_event_formats(decoders, names),
                _ => sections.read_cmdlines(&mut self.info.comms),
            };
            if read.is_err() {
                self.ledger.count_at(LedgerLine::BadRecord, at);
            }
        }
        Ok(())
    }

    /// The data of the section at `at`, or what is wrong with it, which is counted.
    fn section(&mut self, at: u64, id: u16) -> Result<Result<Vec<u8>, String>, TraceError> {
        let len = self.input.len();
        let head = self.input.read_vec(at, 16)?;
        let (data, end) = match self.order.u64(&head, 8) {
            None => (
                Err(format!(
                    "lie beyond the end of the file, which has {len} bytes: the file was cut, or its recorder did not \
                     finish",
                )),
                at.saturating_add(16),
            ),
            Some(_) if self.order.u16(&head, 0) != Some(id) => (Err("are not there".to_string()), 0),
            Some(size) => (self.section_data(at, &head, size)?, at.saturating_add(16).saturating_add(size)),
        };
        match data.is_err() {
            true if end > len => self.ledger.add_at(LedgerLine::TruncatedBytes, end - len, len),
            true => self.ledger.count_at(LedgerLine::BadRecord, at),
            false => {}
        }
        Ok(data)
    }

    fn section_data(&mut self, at: u64, head: &[u8], size: u64) -> Result<Result<Vec<u8>, String>, TraceError> {
        let packed = self.order.u16(head, 2).is_some_and(|flags| flags & 1 != 0);
        let data = self.input.read_vec(at.saturating_add(16), size.min(MAX_SECTION))?;
        let Some(unread) = self.unread.checked_sub(16 + data.len() as u64) else {
            return Ok(Err("overlap others".to_string()));
        };
        self.unread = unread;
        if (data.len() as u64) < size {
            return Ok(Err(format!(
                "should have {size} bytes and have {}: the file was cut, or its recorder did not finish",
                data.len()
            )));
        }
        if !packed {
            return Ok(Ok(data));
        }
        let (Some(packed), Some(size)) = (self.order.u32(&data, 0), self.order.u32(&data, 4)) else {
            return Ok(Err("are cut short".to_string()));
        };
        let body = data.get(8..).and_then(|rest| rest.get(..packed as usize));
        let mut bytes = Vec::new();
        let unpacked = u64::from(size) <= MAX_SECTION
            && body.is_some_and(|body| self.unpacker.unpack(body, size as usize, &mut bytes));
        Ok(if unpacked { Ok(bytes) } else { Err("cannot be unpacked".to_string()) })
    }

    /// CpuCounts what a table says is there and the file does not have.
    fn promised(&mut self, offset: u64, said: u64, there: u64) {
        if there < said {
            self.ledger.count_at(LedgerLine::TruncatedBytes, offset.saturating_add(there));
            self.ledger.add(LedgerLine::TruncatedBytes, said - there - 1);
        }
    }

    /// Takes the CPUs of a buffer whose description is at `at`.
    fn add_regions(
        &mut self,
        name: &str,
        cpus: &[CpuData],
        page: u32,
        packing: Packing,
        at: u64,
    ) -> Result<(), TraceError> {
        if page <= 8 + self.long as u32 || page > MAX_PAGE {
            return Err(self.damaged("buffer", at, format!("has ring pages of {page} bytes, which cannot be")));
        }
        let page_size = page as usize;
        for &data in cpus.iter().filter(|data| data.size > 0) {
            let stats = &mut self.options.stats;
            let stat = stats.iter().position(|stat| stat.buffer == name && stat.cpu == data.cpu);
            let counts = stat.map(|at| stats.swap_remove(at).counts).unwrap_or_default();
            self.regions.push(Region { data, page_size, packing, counts, is_cut: false });
        }
        Ok(())
    }

    fn finish(mut self, clock_hz: Option<u64>) -> Result<TraceDatHeader, TraceError> {
        let name = || self.input.name().to_string();
        let options = &mut self.options;
        if options.text && self.regions.is_empty() {
            return Err(TraceError::Unsupported {
                name: name(),
                what: "it holds the text of a latency tracer, not events; `trace-cmd report` prints it".to_string(),
            });
        }
        self.info.clock = options.clock_name.take().unwrap_or_default();
        self.info.is_guests = options.session.host.is_some();
        self.ledger.add(LedgerLine::GuestRecording, u64::from(self.info.is_guests));
        let is_in_nanos = options.clock.rate == TickRate::Nanos && counts_nanos(&self.info.clock);
        match clock_hz {
            // Ticks of the processor are no unit of such a clock.
            Some(_) if is_in_nanos => {}
            Some(hertz) => {
                options.clock.rate = TickRate::Hertz(hertz);
                self.info.given_hz = Some(hertz);
            }
            None if options.clock.rate == TickRate::Nanos && !is_in_nanos => {
                return Err(TraceError::Clock { name: name(), clock: self.info.clock });
            }
            None => {}
        }
        // "Linux host 6.1.0-56-cloud-amd64 x86_64"; the version between the last two is left out by the recorder.
        let words: Vec<&str> = options.uname.split_whitespace().collect();
        if let [_, hostname, release, .., arch] = words[..] {
            self.info.hostname = hostname.to_string();
            self.info.release = release.to_string();
            self.info.arch = arch.to_string();
        }
        self.check_regions()?;
        self.lost.extend(self.options.stats.iter().map(|stat| (stat.cpu, stat.counts.all())));
        self.lost.retain(|&(_, count)| count > 0);
        Ok(TraceDatHeader {
            order: self.order,
            long: self.long,
            info: self.info,
            session: self.options.session,
            decoders: self.decoders,
            clock: self.options.clock,
            vcpus: self.options.vcpus,
            lost: self.lost,
            regions: self.regions,
            ledger: self.ledger,
        })
    }

    /// Leaves out what cannot be: data beyond the end of the file, and data that is also another CPU's.
    fn check_regions(&mut self) -> Result<(), TraceError> {
        let len = self.input.len();
        let mut regions = std::mem::take(&mut self.regions);
        regions.sort_by_key(|region| region.data.offset);
        let lowest = regions.first().map(|region| region.data);
        let mut end = 0;
        for mut region in regions {
            let data = &mut region.data;
            if data.offset < end {
                self.ledger.count_at(LedgerLine::BadRecord, data.offset);
                self.lost.push((data.cpu, region.counts.all()));
                continue;
            }
            let there = len.saturating_sub(data.offset).min(data.size);
            self.promised(data.offset, data.size, there);
            region.is_cut |= there < data.size;
            data.size = there;
            end = data.offset.saturating_add(there);
            match there {
                0 => self.lost.push((data.cpu, region.counts.all())),
                _ => self.regions.push(region),
            }
        }
        if let (true, Some(lowest)) = (self.regions.is_empty(), lowest) {
            let problem = format!("lie beyond the end of the file, which has {len} bytes: the file was cut");
            return Err(self.damaged("ring pages", lowest.offset, problem));
        }
        let held: u64 = self.regions.iter().map(|region| region.page_size as u64).sum();
        if held > MAX_BUFFERED || self.regions.len() as u64 > MAX_CPUS {
            let problem = format!("are of {} CPUs, which cannot be", self.regions.len());
            return Err(self.damaged("ring pages", lowest.map_or(0, |data| data.offset), problem));
        }
        // Of two CPUs with the same time stamp the lower one comes first, as in trace-cmd's report.
        self.regions.sort_by_key(|region| region.data.cpu);
        Ok(())
    }
}

/// The ten bytes before version 6's options and data.
fn v6_tag(sections: &mut Sections) -> Result<[u8; 10], Torn> {
    let tag = sections.take(10, "kind of data")?;
    Ok(tag.try_into().unwrap_or_default())
}
