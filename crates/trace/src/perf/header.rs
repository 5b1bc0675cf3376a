//! The header of a perf.data file: attrs, ids and features.
//!
//! ```text
//! file:  "PERFILE2" u64 size, u64 attr_size, {attrs} {data} {event_types}, 256 feature bits     {} = u64 offset, size
//! pipe:  "PERFILE2" u64 size = 16, then records
//! ```

use super::attr::Attr;
use super::records::{FINISHED_ROUND, HEADER};
use crate::bytes::{ByteOrder, beginning};
use crate::input::Input;
use crate::source::{EventFilter, MAX_SECTION, SourceOptions, TraceError};
use crate::tracefs::{Decoders, Sections, Torn};
use exitscope_model::{HostSetting, Ledger, LedgerLine, TraceInfo};
use rustc_hash::FxHashMap;

/// The setting that says whether its writer ended a file in order, and its value if it did. It is the last of all, and
/// changes last.
pub(super) const ENDED: (&str, &str, &str) = ("exitscope", "ended", "yes");

const MAGIC_LITTLE: &[u8] = b"PERFILE2";
const MAGIC_BIG: &[u8] = b"2ELIFREP";

/// Size of a file's header, and of a pipe's.
const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;

const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OS_RELEASE: u32 = 4;
const ARCH: u32 = 6;
const CPUS: u32 = 7;
const CPU_DESC: u32 = 8;
const DIR_FORMAT: u32 = 24;
const COMPRESSED: u32 = 27;
/// Names and values, each list for something with a name: PMUs, and what exitscope says was in force.
const PMU_CAPS: u32 = 31;
const FEATURES: u32 = 256;

/// Attrs at most; perf writes one per event.
const MAX_ATTRS: usize = 1 << 16;

/// Settings at most, and the bytes of each one's words.
const MAX_SETTINGS: usize = 1 << 14;
pub const MAX_WORD: usize = 256;

/// Ids at most; perf writes one per event and CPU.
const MAX_IDS: usize = 2 << 20;

/// What records need to be read.
#[derive(Clone, Debug)]
pub struct RecordContext {
    pub order: ByteOrder,
    pub attrs: Vec<Attr>,
    /// The attr of all samples, if all that can have any are alike.
    pub only: Option<Attr>,
    /// Whether there is an attr that can have samples.
    sampling: bool,
    /// Which attr an event id belongs to; not needed where all attrs are alike.
    attr_of: FxHashMap<u64, u32>,
    pub decoders: Decoders,
    /// Which events are passed on; the others are only counted.
    pub keep: EventFilter,
    /// Whether an exit is followed by what it says besides.
    pub exit_info: bool,
}

/// A header that was read.
#[derive(Debug)]
pub struct PerfHeader {
    pub context: RecordContext,
    pub info: TraceInfo,
    /// Records lie at `data.0..data.1`.
    pub data: (u64, u64),
    /// Where more lie, if the writer was stopped in the middle of a block.
    pub behind: Option<(u64, u64)>,
    /// Whether records themselves carry what the header of a file does (pipe mode), or compressed records.
    pub sequential: bool,
    /// Whether samples may be in other files of a directory (`perf record --threads`).
    pub directory: bool,
}

/// Whether these are the first bytes of a perf.data.
pub fn looks_like(head: &[u8]) -> bool {
    head.starts_with(MAGIC_LITTLE) || head.starts_with(MAGIC_BIG)
}

impl RecordContext {
    fn new(order: ByteOrder, options: SourceOptions) -> RecordContext {
        RecordContext {
            order,
            attrs: Vec::new(),
            only: None,
            sampling: false,
            attr_of: FxHashMap::default(),
            decoders: Decoders::default(),
            keep: options.keep,
            exit_info: options.exit_info,
        }
    }

    /// Adds an attr and the ids that name it; returns whether there is room for it.
    pub fn add(&mut self, mut attr: Attr, ids: impl Iterator<Item = u64>) -> bool {
        if self.attrs.len() >= MAX_ATTRS || self.attr_of.len() >= MAX_IDS {
            return false;
        }
        // Those for whom exits are followed by more are few, and do without the short way.
        attr.plain = attr.plain.filter(|_| !self.exit_info);
        if !attr.dummy {
            self.only = if self.sampling { self.only.filter(|only| *only == attr) } else { Some(attr) };
            self.sampling = true;
        }
        let at = self.attrs.len() as u32;
        self.attrs.push(attr);
        self.attr_of.extend(ids.map(|id| (id, at)));
        true
    }

    /// The attr that an event id names.
    pub fn named(&self, id: u64) -> Option<&Attr> {
        self.attrs.get(*self.attr_of.get(&id)? as usize)
    }

    /// Takes the event formats of a TRACING_DATA section; returns how far it could be read.
    pub fn add_formats(&mut self, bytes: &[u8], info: &mut TraceInfo) -> Result<(), Torn> {
        let (mut sections, ..) = Sections::read_start(bytes)?;
        sections.read_headers()?;
        sections.read_ftrace_formats(&mut self.decoders, &mut info.names)?;
        sections.read_event_formats(&mut self.decoders, &mut info.names)?;
        sections.skip_u32_sized("kallsyms")?;
        sections.skip_u32_sized("printk formats")?;
        // Older perf wrote no command lines.
        if sections.at + 8 <= bytes.len() {
            sections.read_cmdlines(&mut info.comms)?;
        }
        Ok(())
    }
}

/// Reads the header of `input`.
pub fn read(input: &Input, options: SourceOptions, ledger: &mut Ledger) -> Result<PerfHeader, TraceError> {
    let bytes = input.read_vec(0, FILE_HEADER)?;
    let order = if bytes.starts_with(MAGIC_BIG) { ByteOrder::Big } else { ByteOrder::Little };
    let damaged = |offset, problem: String| TraceError::Damaged {
        name: input.name().to_string(),
        structure: "perf.data header",
        offset,
        problem,
    };
    let u64_at = |at: usize| order.u64(&bytes, at).ok_or_else(|| damaged(at as u64, "is cut off".to_string()));
    let mut context = RecordContext::new(order, options);
    let mut info = TraceInfo { clock: "perf".to_string(), ..TraceInfo::default() };
    let size = u64_at(8)?;
    if size == PIPE_HEADER {
        info.format = "perf.data (pipe)".to_string();
        return Ok(PerfHeader {
            context,
            info,
            data: (PIPE_HEADER, input.len()),
            behind: None,
            sequential: true,
            directory: false,
        });
    }
    if size != FILE_HEADER {
        return Err(damaged(8, format!("says that it is {size} bytes long, which no perf.data header is")));
    }
    info.format = "perf.data".to_string();
    let attr_size = u64_at(16)?;
    if !(64..=4096).contains(&attr_size) {
        return Err(damaged(16, format!("says that an attr is {attr_size} bytes long")));
    }
    let attrs = input.read_vec(u64_at(24)?, u64_at(32)?.min(MAX_SECTION))?;
    if (attrs.len() as u64) < u64_at(32)? || !(attrs.len() as u64).is_multiple_of(attr_size) {
        ledger.count_at(LedgerLine::BadRecord, u64_at(24)?);
    }
    // Lists of ids do not overlap in a sound file, so all together are no longer than the file.
    let mut ids_left = input.len().min(8 * MAX_IDS as u64);
    for bytes in attrs.chunks_exact(attr_size as usize) {
        let ids_at = attr_size as usize - 16;
        let (Some(attr), Some(offset), Some(size)) =
            (Attr::parse(&bytes[..ids_at], order), order.u64(bytes, ids_at), order.u64(bytes, ids_at + 8))
        else {
            continue;
        };
        let ids = input.read_vec(offset, size.min(ids_left))?;
        ids_left -= ids.len() as u64;
        let known = context.add(attr, ids.chunks_exact(8).filter_map(|id| order.u64(id, 0)));
        if !known || ids.len() as u64 != size || !size.is_multiple_of(8) {
            ledger.count_at(LedgerLine::BadRecord, offset);
        }
    }
    if context.attrs.is_empty() {
        return Err(damaged(24, "names no event".to_string()));
    }
    let (data, data_size) = (u64_at(40)?, u64_at(48)?);
    let end = match data_size {
        // perf writes the size when it ends; it was killed before.
        0 => input.len(),
        size => data.saturating_add(size),
    };
    let features = feature_bits(&bytes, order);
    let whole = if data_size == 0 {
        ledger.count_at(LedgerLine::UnfinishedFile, 48);
        false
    } else if end > input.len() {
        ledger.add_at(LedgerLine::TruncatedBytes, end - input.len(), input.len());
        false
    } else {
        read_features(input, &features, end, &mut context, &mut info, ledger)?
    };
    if !whole && let Some(at) = places_in_front(input, order, data, features.len())? {
        read_features(input, &features, at, &mut context, &mut info, ledger)?;
    }
    if let Some(clock) = context.attrs.iter().find_map(|attr| attr.clock) {
        info.clock = clock_name(clock);
    }
    // A recorder that was killed did not say whether it compressed.
    let sequential = features.contains(&COMPRESSED) || !whole;
    let directory = features.contains(&DIR_FORMAT);
    let mut behind = None;
    if let Some(at) = info.settings.iter().position(|setting| (&*setting.of, &*setting.name) == (ENDED.0, ENDED.1)) {
        // Of the file, not of the machine.
        let ended = info.settings.remove(at).value == ENDED.2;
        if !ended {
            ledger.count(LedgerLine::UnfinishedFile);
            behind = block_behind(input, end, 16 * features.len() as u64)?;
        }
    }
    Ok(PerfHeader { context, info, data: (data, end.min(input.len())), behind, sequential, directory })
}

/// Where the places of sections stand a first time: a `PerfWriter` has them in the first record, a FINISHED_ROUND that is
/// empty where perf writes it.
fn places_in_front(input: &Input, order: ByteOrder, data: u64, sections: usize) -> Result<Option<u64>, TraceError> {
    let record = input.read_vec(data, HEADER as u64)?;
    let size = HEADER + 16 * sections;
    let is_round =
        order.u32(&record, 0) == Some(FINISHED_ROUND) && order.u16(&record, 6).map(usize::from) == Some(size);
    Ok((is_round && sections > 0).then_some(data.saturating_add(HEADER as u64)))
}

/// The block that was not yet added to the data, which end at `end`, when its writer was stopped; the places of sections
/// take `places` bytes.
fn block_behind(input: &Input, end: u64, places: u64) -> Result<Option<(u64, u64)>, TraceError> {
    let (from, len) = (end.saturating_add(places), input.len());
    // If all of it was written, it has the same places behind it.
    let is_whole = from + places <= len && input.read_vec(end, places)? == input.read_vec(len - places, places)?;
    let to = if is_whole { len - places } else { len };
    Ok((from < to).then_some((from, to)))
}

/// The numbers of the features whose sections follow the data, in order.
fn feature_bits(header: &[u8], order: ByteOrder) -> Vec<u32> {
    let set = |word_bits: u32| -> Vec<u32> {
        let bit = |feature: u32| {
            let at = 72 + (feature / word_bits * word_bits / 8) as usize;
            let word = order.unsigned(header, at, word_bits as usize / 8).unwrap_or(0);
            word >> (feature % word_bits) & 1 == 1
        };
        (0..FEATURES).filter(|&feature| bit(feature)).collect()
    };
    // The bits are in longs: of 8 bytes, or of 4 as a 32-bit big-endian host writes them. Every perf writes HOSTNAME.
    match set(64) {
        wide if order == ByteOrder::Little || wide.contains(&HOSTNAME) => wide,
        _ => set(32),
    }
}

/// Reads the sections of features, which `at` begins to list; returns whether all of them are in the file.
fn read_features(
    input: &Input,
    features: &[u32],
    mut at: u64,
    context: &mut RecordContext,
    info: &mut TraceInfo,
    ledger: &mut Ledger,
) -> Result<bool, TraceError> {
    let mut missing = 0u64;
    for &feature in features {
        let entry = input.read_vec(at, 16)?;
        let (Some(offset), Some(size)) = (context.order.u64(&entry, 0), context.order.u64(&entry, 8)) else {
            missing = missing.saturating_add(16 - entry.len() as u64);
            at = input.len();
            continue;
        };
        missing = offset.saturating_add(size).saturating_sub(offset.max(input.len())).saturating_add(missing);
        at = at.saturating_add(16);
        if matches!(feature, TRACING_DATA | HOSTNAME | OS_RELEASE | ARCH | CPUS | CPU_DESC | PMU_CAPS) {
            let section = input.read_vec(offset, size.min(MAX_SECTION))?;
            read_feature(feature, &section, offset, context, info, ledger);
        }
    }
    if missing > 0 {
        ledger.add_at(LedgerLine::TruncatedBytes, missing, input.len());
    }
    Ok(missing == 0)
}

/// Takes what one feature section says.
pub fn read_feature(
    feature: u32,
    section: &[u8],
    offset: u64,
    context: &mut RecordContext,
    info: &mut TraceInfo,
    ledger: &mut Ledger,
) {
    match feature {
        TRACING_DATA => {
            if let Err(torn) = context.add_formats(section, info) {
                ledger.count_at(LedgerLine::BadRecord, offset.saturating_add(torn.at as u64));
            }
        }
        HOSTNAME => info.hostname = string(section, context.order),
        OS_RELEASE => info.release = string(section, context.order),
        ARCH => info.arch = string(section, context.order),
        CPU_DESC => info.cpu = string(section, context.order),
        PMU_CAPS => {
            info.settings.clear();
            if let Err(at) = settings(section, context.order, &mut info.settings) {
                ledger.count_at(LedgerLine::BadRecord, offset.saturating_add(at as u64));
            }
        }
        CPUS => {
            // Those that the machine can have, and those that are online (`write_nrcpus` of tools/perf/util/header.c).
            let count = |at| context.order.u32(section, at).filter(|&count| count > 0);
            info.cpus = count(4).or(count(0)).unwrap_or(0);
        }
        _ => {}
    }
}

/// A string with its length, padded with NULs.
fn string(section: &[u8], order: ByteOrder) -> String {
    let size = order.u32(section, 0).unwrap_or(0) as usize;
    let bytes = section.get(4..).unwrap_or(&[]);
    let bytes = &bytes[..size.min(bytes.len())];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Lists of names and values; an error says where it cannot be read on.
fn settings(section: &[u8], order: ByteOrder, to: &mut Vec<HostSetting>) -> Result<(), usize> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let number = order.u32(section, *at).ok_or(*at)?;
        *at += 4;
        Ok::<u32, usize>(number)
    };
    let word = |at: &mut usize| {
        let size = order.u32(section, *at).ok_or(*at)? as usize;
        let bytes = section.get(*at..).unwrap_or(&[]);
        if bytes.len() - 4 < size {
            return Err(*at);
        }
        *at += 4 + size;
        Ok::<String, usize>(beginning(&string(bytes, order), MAX_WORD).to_string())
    };
    for _ in 0..number(&mut at)? {
        let begin = to.len();
        for _ in 0..number(&mut at)? {
            if to.len() >= MAX_SETTINGS {
                return Err(at);
            }
            let (name, value) = (word(&mut at)?, word(&mut at)?);
            to.push(HostSetting { of: String::new(), name, value });
        }
        let of = word(&mut at)?;
        to[begin..].iter_mut().for_each(|setting| setting.of.clone_from(&of));
    }
    Ok(())
}

pub fn clock_name(clock: i32) -> String {
    match clock {
        0 => "realtime".to_string(),
        1 => "monotonic".to_string(),
        4 => "monotonic_raw".to_string(),
        7 => "boottime".to_string(),
        11 => "tai".to_string(),
        other => format!("clockid {other}"),
    }
}
