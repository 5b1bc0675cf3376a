//! The options of a trace.dat, which versions 6 and 7 share: u16 id, u32 size, data.
//!
//! ```text
//! TRACECLOCK "local [global] …" · UNAME "Linux host 6.1.0 x86_64" · BUFFER where the ring pages are · …
//! ```

use super::clock::{Sample, TickRate, TraceClock, selected};
use crate::bytes::{ByteOrder, c_string};
use rustc_hash::FxHashMap;

/// Option ids, `lib/trace-cmd/include/private/trace-cmd-private.h` of trace-cmd.
pub(super) mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const TRACEID: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// `TRACECMD_TSYNC_FLAG_INTERPOLATE`.
const INTERPOLATE: u32 = 1;

/// Bytes that a BUFFER option has for each CPU.
const CPU_DATA: usize = 20;

/// Where one CPU's ring pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    /// The CPU.
    pub cpu: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub size: u64,
}

/// A BUFFER option.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Where its section (version 7) or its own options and CPU table (version 6) begins.
    pub offset: u64,
    /// The instance's name; empty for the top one.
    pub name: String,
    /// The instance's clock; version 7 only.
    pub clock: String,
    /// Bytes in a ring page; version 7 only.
    pub page_size: u32,
    /// Its CPUs; version 7 only.
    pub cpus: Vec<CpuData>,
}

/// What a trace.dat says of those that were recorded in one session with it, a host's and its guests'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its own id, from TRACEID.
    pub id: Option<u64>,
    /// The ids of its guests' traces, from GUEST.
    pub guests: Vec<u64>,
    /// The id of its host's trace, from TIME_SHIFT: it is a guest's, whose time was measured against the host's.
    pub host: Option<u64>,
}

/// What the options say.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// With which others it was recorded.
    pub session: Session,
    /// How to read time stamps. The rate is what TSC2NSEC says, if it is there.
    pub clock: TraceClock,
    /// The clock's name.
    pub clock_name: Option<String>,
    /// `uname` of the recording machine.
    pub uname: String,
    /// CPUs of the recording machine.
    pub cpus: Option<u32>,
    /// The virtual CPU that each thread of the host runs, from GUEST.
    pub vcpus: FxHashMap<u32, u32>,
    /// Buffers of ring pages.
    pub buffers: Vec<Buffer>,
    /// Whether there is a buffer of latency text.
    pub text: bool,
    /// Version 7's other sections: option id and offset.
    pub sections: Vec<(u16, u64)>,
    /// What the kernel counted, from CPUSTAT.
    pub stats: Vec<CpuStat>,
    /// The instance of the CPUSTAT options to come; empty for the top one.
    stat_of: String,
}

/// What the kernel counted for one CPU of one buffer, when tracing had ended: `tracing_stats_read` of
/// `kernel/trace/trace.c`, which trace-cmd copies (`record_stats` of `trace-record.c`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuStat {
    /// The instance's name; empty for the top one.
    pub buffer: String,
    /// The CPU.
    pub cpu: u32,
    /// The counts.
    pub counts: CpuCounts,
}

/// Records of one CPU's ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuCounts {
    /// Those that were in the buffer, neither read nor overwritten (`rb_num_of_entries` of `ring_buffer.c`), and those
    /// that had been read. The recorder reads on while the one is looked at and then the other: whatever it reads
    /// meanwhile is in both. None if it is not said.
    pub kept: Option<(u64, u64)>,
    /// Those that were overwritten before anybody read them. The kernel marks the page behind them.
    pub overrun: u64,
    /// Those for which there was no room. The kernel marks nothing.
    pub dropped: u64,
}

impl CpuCounts {
    /// All records that there were, as far as it is said.
    pub fn all(self) -> u64 {
        let (buffered, read) = self.kept.unwrap_or((0, 0));
        [buffered, read, self.overrun, self.dropped].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Options {
    /// Uses one option. `None` if it is too short for what it should say. Ids that serve nothing here are passed over.
    pub fn read(&mut self, id: u16, data: &[u8], order: ByteOrder) -> Option<()> {
        match id {
            id::DATE => {
                let offset = number(text(data))?.checked_mul(1_000)?;
                self.clock.offset = self.clock.offset.checked_add(offset)?;
            }
            id::OFFSET => self.clock.offset = self.clock.offset.checked_add(number(text(data))?)?,
            id::CPUSTAT => self.read_cpu_stat(text(data))?,
            id::BUFFER => self.buffers.push(read_buffer(data, order)?),
            id::BUFFER_TEXT => self.text = true,
            id::TRACECLOCK => {
                // Version 6 has the text behind the CPU table instead, and an empty option.
                if let Some(name) = selected(text(data)) {
                    self.clock_name = Some(name.to_string());
                }
            }
            id::UNAME => self.uname = text(data).trim().to_string(),
            id::TRACEID => self.session.id = Some(order.u64(data, 0)?),
            id::CPUCOUNT => self.cpus = Some(order.u32(data, 0)?),
            // What puts a guest's time on its host's clock, in the guest's file: `tracecmd_write_guest_time_shift` of
            // trace-cmd's `trace-timesync.c`.
            id::TIME_SHIFT => self.read_time_shift(data, order)?,
            id::GUEST => self.read_guest(data, order)?,
            id::TSC2NSEC => {
                // The third member, an offset, is not applied: trace-cmd does not either.
                let (mult, shift) = (order.u32(data, 0)?, order.u32(data, 4)?);
                if mult > 0 {
                    self.clock.rate = TickRate::Scaled { mult, shift };
                }
            }
            id::HEADER_INFO | id::FTRACE_EVENTS | id::EVENT_FORMATS | id::CMDLINES => {
                self.sections.push((id, order.u64(data, 0)?));
            }
            _ => {}
        }
        Some(())
    }

    /// `CPU: 3`, then lines like `dropped events: 12` (the buffer was full and did not overwrite) and `commit overrun: 1`
    /// (an interrupt came round to the page being written). Before those of an instance is one that says `Buffer: name`
    /// (`add_buffer_stat` of trace-cmd's `trace-record.c`).
    fn read_cpu_stat(&mut self, stat: &str) -> Option<()> {
        let value = |key: &str| stat.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let count = |key: &str| value(key).and_then(|count| count.parse::<u64>().ok());
        if let Some(name) = value("Buffer:") {
            self.stat_of = name.to_string();
            return Some(());
        }
        let cpu = u32::try_from(count("CPU:")?).ok()?;
        let counts = CpuCounts {
            kept: count("entries:").zip(count("read events:")),
            overrun: count("overrun:").unwrap_or(0),
            dropped: count("dropped events:").unwrap_or(0).saturating_add(count("commit overrun:").unwrap_or(0)),
        };
        self.stats.push(CpuStat { buffer: self.stat_of.clone(), cpu, counts });
        Some(())
    }

    fn read_time_shift(&mut self, data: &[u8], order: ByteOrder) -> Option<()> {
        let flags = order.u32(data, 8)?;
        let cpus = order.u32(data, 12)?;
        let mut at = 16;
        let next = |at: &mut usize| {
            let value = order.u64(data, *at)?;
            *at += 8;
            Some(value)
        };
        let mut sync: Vec<Vec<Sample>> = Vec::new();
        for _ in 0..cpus {
            let count = order.u32(data, at)? as usize;
            at += 4;
            if count > data.len() / 24 {
                return None;
            }
            let mut samples = vec![Sample { time: 0, offset: 0, scaling: 1, fraction: 0 }; count];
            for sample in &mut samples {
                sample.time = next(&mut at)?;
            }
            for sample in &mut samples {
                sample.offset = next(&mut at)? as i64;
            }
            for sample in &mut samples {
                sample.scaling = next(&mut at)?;
            }
            sync.push(samples);
        }
        if at < data.len() {
            for sample in sync.iter_mut().flatten() {
                sample.fraction = next(&mut at)?;
            }
        }
        for samples in &mut sync {
            samples.sort_by_key(|sample| sample.time);
            samples.dedup_by_key(|sample| sample.time);
        }
        if sync.iter().any(|samples| !samples.is_empty()) {
            self.session.host = order.u64(data, 0);
        }
        self.clock.sync = sync;
        self.clock.interpolate = flags & INTERPOLATE != 0;
        Some(())
    }

    fn read_guest(&mut self, data: &[u8], order: ByteOrder) -> Option<()> {
        let (_, mut at) = c_string(data, 0)?;
        self.session.guests.push(order.u64(data, at)?);
        at += 8;
        let count = order.u32(data, at)?;
        at += 4;
        for _ in 0..count {
            let (vcpu, tid) = (order.u32(data, at)?, order.u32(data, at + 4)?);
            self.vcpus.insert(tid, vcpu);
            at += 8;
        }
        Some(())
    }
}

/// Version 6 says only where and how it is called.
fn read_buffer(data: &[u8], order: ByteOrder) -> Option<Buffer> {
    let offset = order.u64(data, 0)?;
    let (name, at) = c_string(data, 8)?;
    let mut buffer = Buffer { offset, name: name.to_string(), clock: String::new(), page_size: 0, cpus: Vec::new() };
    if at == data.len() {
        return Some(buffer);
    }
    let (clock, mut at) = c_string(data, at)?;
    buffer.clock = clock.to_string();
    buffer.page_size = order.u32(data, at)?;
    let count = order.u32(data, at + 4)?;
    at += 8;
    for _ in 0..count {
        buffer.cpus.push(CpuData {
            cpu: order.u32(data, at)?,
            offset: order.u64(data, at + 4)?,
            size: order.u64(data, at + 12)?,
        });
        at += CPU_DATA;
    }
    // With room for another CPU, the count is wrong.
    (data.len() - at < CPU_DATA).then_some(buffer)
}

/// The text up to the first NUL; empty if it is not text.
fn text(data: &[u8]) -> &str {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    std::str::from_utf8(&data[..end]).unwrap_or("")
}

/// A number as C's `strtoll` with base 0 reads it.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    let value = i64::from_str_radix(digits, radix).ok()?;
    if negative { value.checked_neg() } else { Some(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(["0x10", "-0x10\n", "010", "12", "-3", "0"].map(number), [16, -16, 8, 12, -3, 0].map(Some));
        assert_eq!([number(""), number("x"), number("0x8000000000000000")], [None; 3]);
    }

    #[test]
    fn offsets_add_up() {
        let mut options = Options::default();
        options.read(id::DATE, b"0x3e8\0", ByteOrder::Little).unwrap();
        options.read(id::OFFSET, b"-1000000\0", ByteOrder::Little).unwrap();
        assert_eq!(options.clock.offset, 0);
        assert_eq!(options.read(id::DATE, b"soon\0", ByteOrder::Little), None);
    }

    #[test]
    fn the_kernels_counts_are_taken_from_the_statistics() {
        let mut options = Options::default();
        let stat =
            b"CPU: 3\nentries: 9\noverrun: 7\ncommit overrun: 1\nbytes: 80\ndropped events: 12\nread events: 5\n\0";
        options.read(id::CPUSTAT, stat, ByteOrder::Little).unwrap();
        options.read(id::CPUSTAT, b"\nBuffer: mine\n\n\0", ByteOrder::Little).unwrap();
        options.read(id::CPUSTAT, b"CPU: 0\ndropped events: 0\n\0", ByteOrder::Little).unwrap();
        let stat = |buffer: &str, cpu, counts| CpuStat { buffer: buffer.to_string(), cpu, counts };
        let counts = CpuCounts { kept: Some((9, 5)), overrun: 7, dropped: 13 };
        assert_eq!(options.stats, [stat("", 3, counts), stat("mine", 0, CpuCounts::default())]);
        assert_eq!(options.read(id::CPUSTAT, b"CPU: none\n\0", ByteOrder::Little), None);
    }

    #[test]
    fn a_guests_threads_are_its_virtual_cpus() {
        let mut data = b"debian\0".to_vec();
        data.extend(7u64.to_be_bytes());
        for word in [2u32, 0, 4001, 1, 4002] {
            data.extend(word.to_be_bytes());
        }
        let mut options = Options::default();
        options.read(id::GUEST, &data, ByteOrder::Big).unwrap();
        assert_eq!((options.vcpus.get(&4001), options.vcpus.get(&4002)), (Some(&0), Some(&1)));
        assert_eq!(options.session.guests, [7]);
        assert_eq!(options.read(id::GUEST, &data[..data.len() - 1], ByteOrder::Big), None);
    }

    #[test]
    fn time_shift_has_its_samples_sorted_with_or_without_fractions() {
        let mut data = 99u64.to_le_bytes().to_vec();
        for word in [1u32, 1, 2] {
            data.extend(word.to_le_bytes());
        }
        for value in [200i64, 100, -5, 5, 1, 1] {
            data.extend(value.to_le_bytes());
        }
        let mut options = Options::default();
        options.read(id::TIME_SHIFT, &data, ByteOrder::Little).unwrap();
        let sample = |time, offset, fraction| Sample { time, offset, scaling: 1, fraction };
        assert_eq!(options.clock.sync, [vec![sample(100, 5, 0), sample(200, -5, 0)]]);
        assert!(options.clock.interpolate && options.session.host == Some(99));
        data.extend([1u64.to_le_bytes(), 2u64.to_le_bytes()].concat());
        options.read(id::TIME_SHIFT, &data, ByteOrder::Little).unwrap();
        assert_eq!(options.clock.sync, [vec![sample(100, 5, 2), sample(200, -5, 1)]]);
        // More samples than there are bytes.
        data[16..20].fill(0xff);
        assert_eq!(options.read(id::TIME_SHIFT, &data, ByteOrder::Little), None);
    }
}
