//! What a file begins with: attrs, ids and the sections of its features.
//!
//! ```text
//! header · attrs · ids · sections of features ─► data … FINISHED_ROUND · places of the sections
//! ```

use super::TraceDescription;
use super::bytes::{Bytes, put};
use super::compress::{CHUNK, LEVEL};
use super::layout::Layout;
use crate::bytes::{ByteOrder, beginning};
use crate::perf::header::MAX_WORD;
use exitscope_model::HostSetting;
use std::collections::BTreeMap;

/// Sizes of the file's header, of an attr as the first version has it, and of an attr with the place of its ids.
const FILE_HEADER: usize = 104;
const ATTR: usize = 64;
const ATTR_AND_IDS: usize = ATTR + 16;

/// What tracefs has of these names.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\
    \ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

/// Where the header says how long the data are.
pub const DATA_SIZE: u64 = 48;

/// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW: as `perf record -e kvm:*` has them.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 10 | 1 << 8 | 1 << 7 | 1 << 2 | 1 << 1 | 1;

/// `PERF_FORMAT_ID`.
const READ_FORMAT: u64 = 1 << 2;

/// Flags of an attr: comm, task, sample_id_all.
const SIDE_RECORDS: u64 = 1 << 9 | 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// `PERF_TYPE_SOFTWARE` with `PERF_COUNT_SW_DUMMY`; `PERF_TYPE_TRACEPOINT`.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const TRACEPOINT: u32 = 2;

/// The id of the event that has no samples but names threads.
pub const DUMMY_ID: u64 = 1;

/// The id of samples of the tracepoint whose number, and so `common_type`, is `number`.
pub fn sample_id(number: u16) -> u64 {
    DUMMY_ID + u64::from(number)
}

/// A feature's section: its number, and where it is.
type Section = (u32, u64, u64);

/// The beginning of a file.
pub struct Front {
    pub bytes: Vec<u8>,
    /// Where sections are, as they are listed behind the data.
    pub places: Vec<u8>,
    /// Where CPUs and the first and last moment stand, which are known in the end: [`Known::bytes`].
    pub known_at: u64,
    /// Where the value of each setting stands, at least [`VALUE`] bytes long.
    pub values_at: Vec<u64>,
}

/// Bytes of a setting's value that may be changed later, with at least one NUL.
pub const VALUE: usize = 64;

/// What is known in the end: NRCPUS and SAMPLE_TIME.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub cpus: u32,
    pub first: u64,
    pub last: u64,
}

const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OS_RELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const NR_CPUS: u32 = 7;
const CPU_DESC: u32 = 8;
const CPU_ID: u32 = 9;
const COMMAND_LINE: u32 = 11;
const SAMPLE_TIME: u32 = 21;
const COMPRESSED: u32 = 27;
/// "pmu capabilities": lists of names and values, each for something with a name.
const PMU_CAPS: u32 = 31;

impl Front {
    /// The beginning of a file with these tracepoints, numbered from 1.
    pub fn new(head: &TraceDescription, layouts: &[Layout], order: ByteOrder) -> Front {
        let mut to = Bytes::new(order);
        to.bytes.resize(FILE_HEADER, 0);
        let events = layouts.len() + 1;
        let ids_at = FILE_HEADER + events * ATTR_AND_IDS;
        for number in 0..events {
            let is_dummy = number == 0;
            to.u32(if is_dummy { SOFTWARE } else { TRACEPOINT });
            to.u32(ATTR as u32);
            let flags = SAMPLE_ID_ALL | if is_dummy { SIDE_RECORDS } else { 0 };
            // Bit-fields are laid out from the other end where bytes are.
            let flags = if order == ByteOrder::Little { flags } else { flags.reverse_bits() };
            let config = if is_dummy { DUMMY } else { number as u64 };
            to.u64s(&[config, 1, SAMPLE_TYPE, READ_FORMAT, flags, 0, 0]);
            to.u64s(&[(ids_at + number * 8) as u64, 8]);
        }
        (0..events).for_each(|number| to.u64(DUMMY_ID + number as u64));

        let mut sections: Vec<Section> = Vec::new();
        let known_at = to.len() as u64;
        to.bytes.resize(to.len() + Known::SIZE, 0);
        sections.push((NR_CPUS, known_at, 8));
        sections.push((SAMPLE_TIME, known_at + 8, 16));
        let version = concat!("exitscope ", env!("CARGO_PKG_VERSION"));
        for (feature, text) in [
            (HOSTNAME, head.hostname),
            (OS_RELEASE, head.release),
            (VERSION, version),
            (ARCH, head.arch),
            (CPU_DESC, head.cpu),
            (CPU_ID, head.cpuid),
        ] {
            let at = to.len();
            string(&mut to, text);
            sections.push((feature, at as u64, (to.len() - at) as u64));
        }
        let at = to.len();
        to.u32(head.command.len() as u32);
        head.command.iter().for_each(|word| string(&mut to, word));
        sections.push((COMMAND_LINE, at as u64, (to.len() - at) as u64));
        if head.compressed {
            // Version, PERF_COMP_ZSTD, level, ratio, and the largest that comes out of a record.
            let at = to.len();
            for number in [1, 1, LEVEL as u32, 4, CHUNK as u32] {
                to.u32(number);
            }
            sections.push((COMPRESSED, at as u64, (to.len() - at) as u64));
        }
        let mut values_at = Vec::new();
        if !head.settings.is_empty() {
            let at = to.len();
            settings(&mut to, head.settings, &mut values_at);
            sections.push((PMU_CAPS, at as u64, (to.len() - at) as u64));
        }
        let at = to.len();
        tracing_data(&mut to, layouts);
        sections.push((TRACING_DATA, at as u64, (to.len() - at) as u64));
        to.pad(8);

        sections.sort_unstable();
        let mut places = Bytes::new(order);
        let mut features = 0u64;
        for (feature, at, size) in sections {
            features |= 1 << feature;
            places.u64s(&[at, size]);
        }
        let mut header = Bytes::new(order);
        header.bytes.extend_from_slice(if order == ByteOrder::Little { b"PERFILE2" } else { b"2ELIFREP" });
        header.u64s(&[FILE_HEADER as u64, ATTR_AND_IDS as u64]);
        header.u64s(&[FILE_HEADER as u64, (events * ATTR_AND_IDS) as u64]);
        header.u64s(&[to.len() as u64, 0, 0, 0, features]);
        to.bytes[..header.len()].copy_from_slice(&header.bytes);
        Front { bytes: to.bytes, places: places.bytes, known_at, values_at }
    }
}

impl Known {
    const SIZE: usize = 24;

    /// Both sections: CPUs that there are and that are on line, first and last moment.
    pub fn bytes(self, order: ByteOrder) -> [u8; Known::SIZE] {
        let mut bytes = [0; Known::SIZE];
        put(order, &mut bytes[0..4], self.cpus.into());
        put(order, &mut bytes[4..8], self.cpus.into());
        put(order, &mut bytes[8..16], self.first);
        put(order, &mut bytes[16..24], self.last);
        bytes
    }
}

/// A string with its length, padded with NULs as perf pads it.
fn string(to: &mut Bytes, text: &str) {
    const UNIT: usize = VALUE;
    to.u32((text.len() + 1).next_multiple_of(UNIT) as u32);
    let at = to.len();
    to.text(text);
    to.bytes.push(0);
    to.pad_from(at, UNIT);
}

/// Settings, those of one thing together, as the capabilities of a PMU: the one place where every perf keeps named values,
/// and `perf report --header` prints them.
fn settings(to: &mut Bytes, settings: &[HostSetting], values_at: &mut Vec<u64>) {
    let groups: Vec<&[HostSetting]> = settings.chunk_by(|a, b| a.of == b.of).collect();
    to.u32(groups.len() as u32);
    for group in groups {
        to.u32(group.len() as u32);
        for setting in group {
            string(to, &setting.name);
            // Behind the value's length.
            values_at.push(to.len() as u64 + 4);
            string(to, beginning(&setting.value, MAX_WORD - 1));
        }
        string(to, &group[0].of);
    }
}

/// TRACING_DATA: the layout of ring-buffer pages, of which a perf.data has none but without which perf reads nothing, and
/// the format texts.
fn tracing_data(to: &mut Bytes, layouts: &[Layout]) {
    to.text("\x17\x08\x44tracing0.6\0");
    to.bytes.push(u8::from(to.order != ByteOrder::Little));
    to.bytes.push(8);
    to.u32(4096);
    for (name, text) in [("header_page\0", HEADER_PAGE), ("header_event\0", HEADER_EVENT)] {
        to.text(name);
        to.u64(text.len() as u64);
        to.text(text);
    }
    // Of ftrace's own events there are none.
    to.u32(0);
    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for layout in layouts {
        systems.entry(&layout.system).or_default().push(&layout.text);
    }
    to.u32(systems.len() as u32);
    for (system, texts) in systems {
        to.text(system);
        to.bytes.push(0);
        to.u32(texts.len() as u32);
        for text in texts {
            to.u64(text.len() as u64);
            to.text(text);
        }
    }
    // No kernel symbols, printk formats, command lines.
    to.u32(0);
    to.u32(0);
    to.u64(0);
}
