//! A log of HdrHistogram's, version 1.3: for each interval and each reason, the lengths of exits in nanoseconds.
//!
//! ```text
//! Tag=npf,1042.000,1.000,6820000.000,HISTFAAA…      begins, lasts (seconds), longest (ns), histogram (three digits)
//! ```
//!
//! An exit is of the interval in which it ends, as a program that measures itself would have it.

use crate::vcpus::end;
use crate::{Export, ExportCounts, ExportedVcpus};
use exitscope_model::{Exit, ExitCode};
use exitscope_units::Nanos;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// Reasons with histograms of their own in one interval (100 MB); those beyond share the tag `other`.
const MOST_TAGS: usize = 256;

/// Digits of a length that are kept.
const DIGITS: u8 = 3;

/// Writes a log.
pub struct Hdr<W> {
    out: W,
    serializer: V2DeflateSerializer,
    interval: Option<Nanos>,
    /// Where the interval in hand begins; without an interval, where all exits do.
    begin: u64,
    /// Where the last exit ends.
    last: u64,
    histograms: FxHashMap<Option<ExitCode>, Histogram<u64>>,
    written: ExportCounts,
}

impl<W: Write> Hdr<W> {
    /// Begins a log. Without an interval, all of the recording is one.
    pub fn begin(mut out: W, lanes: &ExportedVcpus, interval: Option<Nanos>) -> io::Result<Hdr<W>> {
        let begin = lanes.begin().as_nanos();
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .add_comment(concat!("[Logged with exitscope ", env!("CARGO_PKG_VERSION"), "]"))
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(
                "Lengths of VM exits, from exit to entry, in nanoseconds; a tag for each reason. Moments are on the",
            )
            .add_comment("clock of the recording, in seconds.")
            .with_base_time(SystemTime::UNIX_EPOCH)
            .with_start_time(SystemTime::UNIX_EPOCH + Duration::from_nanos(begin))
            .begin_log_with(&mut out, &mut serializer)?;
        Ok(Hdr {
            out,
            serializer,
            interval,
            begin,
            last: begin,
            histograms: FxHashMap::default(),
            written: ExportCounts::default(),
        })
    }

    /// Writes the interval in hand.
    fn settle(&mut self, until: u64) -> io::Result<()> {
        let mut rows: Vec<(String, Histogram<u64>)> =
            self.histograms.drain().map(|(code, histogram)| (tag(code), histogram)).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        // No comments and no times: this only goes on.
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut self.out, &mut self.serializer)?;
        let (begin, length) =
            (Duration::from_nanos(self.begin), Duration::from_nanos(until.saturating_sub(self.begin)));
        for (tag, histogram) in &rows {
            log.write_histogram(histogram, begin, length, Tag::new(tag)).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl<W: Write> Export for Hdr<W> {
    fn exit(&mut self, _: usize, exit: &Exit) -> io::Result<()> {
        if !exit.timed {
            self.written.untimed += 1;
            return Ok(());
        }
        self.written.exits += 1;
        let at = end(exit).as_nanos();
        if let Some(interval) = self.interval
            && at.saturating_sub(self.begin) >= interval.0
        {
            self.settle(self.begin + interval.0)?;
            self.begin += (at - self.begin) / interval.0 * interval.0;
        }
        self.last = self.last.max(at);
        let has_room = self.histograms.len() < MOST_TAGS || self.histograms.contains_key(&Some(exit.code));
        let key = has_room.then_some(exit.code);
        let histogram = match self.histograms.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Histogram::new(DIGITS).map_err(io::Error::other)?),
        };
        // Other readers have signed numbers.
        histogram.record(exit.total().0.min(i64::MAX as u64)).map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        self.settle(self.interval.map_or(self.last, |interval| self.begin.saturating_add(interval.0)))?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// A reason as a tag, in which there may be no spaces and commas.
fn tag(code: Option<ExitCode>) -> String {
    let name = code.map_or("other".to_string(), ExitCode::name);
    name.chars().map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}
