//! The sections with which perf.data (TRACING_DATA) and trace.dat v6 begin: page layout, event formats, thread names.
//!
//! ```text
//! "header_page\0" u64 size, text · "header_event\0" u64 size, text
//! u32 n × { u64 size, format text }                          ftrace's own events
//! u32 systems × { name\0, u32 n × { u64 size, format text } }
//! u32 size, kallsyms · u32 size, printk formats · u64 size, "pid comm" lines
//! ```

use super::Decoders;
use crate::bytes::{ByteOrder, c_string};
use crate::source::{MAX_COMM, MAX_THREADS};
use exitscope_model::EventNames;
use rustc_hash::FxHashMap;

/// A structure that could not be read, and where in the bytes it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// What was being read.
    pub structure: &'static str,
    /// Offset of the byte at which it was found too short or wrong.
    pub at: usize,
}

/// A cursor over the sections. Each `read_*` moves it past one section.
#[derive(Debug)]
pub struct Sections<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where the next section begins.
    pub at: usize,
    /// The byte order that the header names.
    pub order: ByteOrder,
}

impl<'a> Sections<'a> {
    fn torn(&self, structure: &'static str) -> Torn {
        Torn { structure, at: self.at }
    }

    /// A u32.
    pub fn u32(&mut self, structure: &'static str) -> Result<u32, Torn> {
        let value = self.order.u32(self.bytes, self.at).ok_or(self.torn(structure))?;
        self.at += 4;
        Ok(value)
    }

    /// A u64.
    pub fn u64(&mut self, structure: &'static str) -> Result<u64, Torn> {
        let value = self.order.u64(self.bytes, self.at).ok_or(self.torn(structure))?;
        self.at += 8;
        Ok(value)
    }

    /// A NUL-terminated string.
    pub fn string(&mut self, structure: &'static str) -> Result<&'a str, Torn> {
        let (text, next) = c_string(self.bytes, self.at).ok_or(self.torn(structure))?;
        self.at = next;
        Ok(text)
    }

    /// `size` bytes.
    pub fn take(&mut self, size: u64, structure: &'static str) -> Result<&'a [u8], Torn> {
        let end = usize::try_from(size).ok().and_then(|size| self.at.checked_add(size));
        let part = end.and_then(|end| self.bytes.get(self.at..end)).ok_or(self.torn(structure))?;
        self.at += part.len();
        Ok(part)
    }

    /// The magic, version, byte order and word size with which both formats begin, up to and including the page size.
    /// Returns the version text, the size of `long` in bytes and the page size in bytes.
    pub fn read_start(bytes: &'a [u8]) -> Result<(Sections<'a>, &'a str, u8, u32), Torn> {
        let mut sections = Sections { bytes, at: 0, order: ByteOrder::Little };
        let magic = sections.take(10, "tracing data magic")?;
        if magic != b"\x17\x08\x44tracing" {
            return Err(Torn { structure: "tracing data magic", at: 0 });
        }
        let version = sections.string("tracing data version")?;
        let order = sections.take(1, "byte order")?[0];
        sections.order = if order == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let long = sections.take(1, "word size")?[0];
        let page_size = sections.u32("page size")?;
        Ok((sections, version, long, page_size))
    }

    /// `header_page` and `header_event`; returns the text of the former.
    pub fn read_headers(&mut self) -> Result<&'a str, Torn> {
        self.string("header_page")?;
        let size = self.u64("header_page")?;
        let page = self.take(size, "header_page")?;
        self.string("header_event")?;
        let size = self.u64("header_event")?;
        self.take(size, "header_event")?;
        Ok(std::str::from_utf8(page).unwrap_or(""))
    }

    /// The formats of ftrace's own events.
    pub fn read_ftrace_formats(&mut self, decoders: &mut Decoders, names: &mut EventNames) -> Result<(), Torn> {
        self.read_formats("ftrace", decoders, names)
    }

    /// The formats of all other systems.
    pub fn read_event_formats(&mut self, decoders: &mut Decoders, names: &mut EventNames) -> Result<(), Torn> {
        for _ in 0..self.u32("event systems")? {
            let system = self.string("event system name")?;
            self.read_formats(system, decoders, names)?;
        }
        Ok(())
    }

    fn read_formats(&mut self, system: &str, decoders: &mut Decoders, names: &mut EventNames) -> Result<(), Torn> {
        for _ in 0..self.u32("event formats")? {
            let size = self.u64("event format")?;
            let text = self.take(size, "event format")?;
            decoders.add(system, &String::from_utf8_lossy(text), names);
        }
        Ok(())
    }

    /// A section that nothing here needs, with a u32 size: kallsyms, printk formats.
    pub fn skip_u32_sized(&mut self, structure: &'static str) -> Result<(), Torn> {
        let size = self.u32(structure)?;
        self.take(u64::from(size), structure)?;
        Ok(())
    }

    /// The `pid comm` lines of a saved_cmdlines section, which has a u64 size.
    pub fn read_cmdlines(&mut self, comms: &mut FxHashMap<u32, String>) -> Result<(), Torn> {
        let size = self.u64("saved command lines")?;
        let text = self.take(size, "saved command lines")?;
        parse_cmdlines(&String::from_utf8_lossy(text), comms);
        Ok(())
    }
}

/// Reads `pid comm` lines.
pub fn parse_cmdlines(text: &str, comms: &mut FxHashMap<u32, String>) {
    for line in text.trim_end_matches('\0').lines() {
        if let Some((pid, comm)) = line.split_once(' ')
            && let Ok(pid) = pid.parse()
            && comm.len() <= MAX_COMM
            && comms.len() < MAX_THREADS
        {
            comms.insert(pid, comm.to_string());
        }
    }
}
