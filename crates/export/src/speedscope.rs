//! speedscope's JSON: an evented profile for each vCPU, in which exits and their segments are frames that open and close.
//!
//! The file has one vCPU after the other, so exits are held until all are there: some ten bytes each.

use crate::{Export, ExportCounts, ExportedVcpus, Segment, segments};
use exitscope_model::{Exit, ExitCode};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io::{self, Write};

/// Exits that are written at most (some 300 MB): browsers open no longer text.
pub const MOST_EXITS: u64 = 1_000_000;

/// Names of reasons at most; further ones are called `other reasons`.
const MOST_NAMES: usize = 1 << 16;

/// Writes a file.
#[derive(Debug)]
pub struct Speedscope<W> {
    out: W,
    begin: u64,
    title: String,
    lanes: Vec<Held>,
    /// Frames: the segments, then the reasons.
    frames: Vec<String>,
    reasons: FxHashMap<ExitCode, usize>,
    written: ExportCounts,
}

/// The exits of one vCPU.
#[derive(Debug, Default)]
struct Held {
    name: String,
    /// When the last one was over, counted from the file's begin.
    end: u64,
    /// Of each exit: time since the one before was over, its frame, how many segments; of each which, and how long.
    bytes: Vec<u8>,
}

impl<W: Write> Speedscope<W> {
    /// Begins a file for these lanes; `title` is the name of the recording.
    pub fn begin(out: W, lanes: &ExportedVcpus, title: &str) -> Speedscope<W> {
        let held = |lane: &crate::ExportedVcpu| Held {
            name: format!("{}, {}", lane.row.vm_label(), lane.name),
            ..Held::default()
        };
        let mut frames: Vec<String> =
            Segment::ALL.iter().map(|segment| segment.name_on(lanes.xen).to_string()).collect();
        frames.push("other reasons".to_string());
        Speedscope {
            out,
            begin: lanes.begin().as_nanos(),
            title: title.to_string(),
            lanes: lanes.all().iter().map(held).collect(),
            frames,
            reasons: FxHashMap::default(),
            written: ExportCounts::default(),
        }
    }

    fn frame(&mut self, code: ExitCode) -> usize {
        if let Some(&frame) = self.reasons.get(&code) {
            return frame;
        }
        if self.reasons.len() >= MOST_NAMES {
            return Segment::ALL.len();
        }
        let frame = self.frames.len();
        self.frames.push(code.name());
        self.reasons.insert(code, frame);
        frame
    }
}

impl<W: Write> Export for Speedscope<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        if !exit.timed {
            self.written.untimed += 1;
            return Ok(());
        }
        let at = exit.at.as_nanos().saturating_sub(self.begin);
        if at < self.lanes[lane].end {
            self.written.overlapping += 1;
            return Ok(());
        }
        if self.is_full() {
            self.written.left_out += 1;
            return Ok(());
        }
        self.written.exits += 1;
        let frame = self.frame(exit.code);
        let held = &mut self.lanes[lane];
        push(&mut held.bytes, at - held.end);
        push(&mut held.bytes, frame as u64);
        push(&mut held.bytes, segments(exit).count() as u64);
        for (segment, length) in segments(exit) {
            push(&mut held.bytes, segment.place() as u64);
            push(&mut held.bytes, length);
        }
        held.end = at.saturating_add(exit.total().0);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.written.exits >= MOST_EXITS
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        let out = &mut self.out;
        let head = json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": self.title,
            "exporter": concat!("exitscope@", env!("CARGO_PKG_VERSION")),
            "shared": { "frames": self.frames.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() },
        });
        let head = head.to_string();
        // The profiles follow as the last member.
        write!(out, "{},\"profiles\":[", head.strip_suffix('}').unwrap_or(&head))?;
        for (at, held) in self.lanes.iter().filter(|held| !held.bytes.is_empty()).enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            held.write(out)?;
        }
        out.write_all(b"]}\n")?;
        out.flush()?;
        Ok(self.written)
    }
}

impl Held {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (name, end) = (json!(self.name), self.end);
        write!(out, "{{\"type\":\"evented\",\"name\":{name},\"unit\":\"nanoseconds\",\"startValue\":0,")?;
        write!(out, "\"endValue\":{end},\"events\":[")?;
        let (mut bytes, mut at, mut comma) = (&self.bytes[..], 0u64, "");
        while !bytes.is_empty() {
            at = at.saturating_add(pop(&mut bytes));
            let frame = pop(&mut bytes);
            event(out, comma, 'O', frame, at)?;
            comma = ",";
            for _ in 0..pop(&mut bytes) {
                let segment = pop(&mut bytes);
                event(out, comma, 'O', segment, at)?;
                at = at.saturating_add(pop(&mut bytes));
                event(out, comma, 'C', segment, at)?;
            }
            event(out, comma, 'C', frame, at)?;
        }
        out.write_all(b"]}")
    }
}

fn event(out: &mut impl Write, comma: &str, kind: char, frame: u64, at: u64) -> io::Result<()> {
    write!(out, "{comma}{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}")
}

/// Appends a number: seven bits a byte, lowest first, the eighth bit set where more follow.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes the number at the beginning.
fn pop(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 127, 128, 300, u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| push(&mut bytes, *number));
        let mut rest = &bytes[..];
        assert_eq!(numbers.map(|_| pop(&mut rest)), numbers);
        assert!(rest.is_empty());
    }
}
