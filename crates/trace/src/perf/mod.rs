//! perf.data, as a file and as a pipe.
//!
//! ```text
//! head: attrs, ids, formats ─► cursor: blocks of whole records ─► records: events ─► merge: time order
//!                                        └──── pool: on several threads ────┘
//! ```
//!
//! perf writes its per-CPU buffers one after the other and a FINISHED_ROUND behind each time round: what is older than
//! the latest event of the round before cannot be followed by anything older (`ordered_events` of tools/perf).

mod attr;
mod cursor;
mod head;
mod pool;
mod records;
mod stream;

use crate::input::Input;
use crate::merge::Merge;
use crate::source::{BATCH, Options, Source, TraceError};
use cursor::Cursor;
use exitscope_model::{Event, Ledger, Line, TraceInfo};
use exitscope_units::{Moment, PcpuId};
pub use head::looks_like;
use pool::Pool;
use records::{Block, Thread, lost_event};
use stream::Stream;

/// Data from this size on is decoded on several threads.
const POOLED: u64 = 1 << 20;

/// Opens a perf.data.
pub fn open(input: Input, options: Options) -> Result<Box<dyn Source>, TraceError> {
    let mut ledger = Ledger::default();
    let head = head::read(&input, options.only_used, &mut ledger)?;
    if input.cut().is_some() {
        ledger.count_at(Line::BadCompression, input.len());
    }
    let total = input.len();
    let (at, end) = head.data;
    let name = input.name().to_string();
    let cursor = Cursor::new(input, head.context.order, (at, end), head.sequential);
    let blocks = if head.sequential || end.saturating_sub(at) < POOLED {
        Blocks::Stream(Box::new(Stream::new(cursor, head.context)))
    } else {
        Blocks::Pool(Pool::start(cursor, head.context))
    };
    Ok(Box::new(PerfData {
        info: head.info,
        blocks,
        merge: Merge::default(),
        ledger,
        latest: Moment::default(),
        round: Moment::default(),
        until: Moment::default(),
        lost: 0,
        lost_in_all: 0,
        directory: head.directory.then_some(name),
        done: 0,
        total,
    }))
}

struct PerfData {
    info: TraceInfo,
    blocks: Blocks,
    merge: Merge,
    /// What the header gave, until the first read.
    ledger: Ledger,
    /// The latest moment so far, that at the last FINISHED_ROUND, and that at the one before: up to it events leave.
    latest: Moment,
    round: Moment,
    until: Moment,
    /// Records lost as LOST records say, and as perf's totals at the end say.
    lost: u64,
    lost_in_all: u64,
    /// The file's name, if it is one of a directory and had no event so far.
    directory: Option<String>,
    done: u64,
    total: u64,
}

enum Blocks {
    Pool(Pool),
    Stream(Box<Stream>),
}

impl Source for PerfData {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        ledger.merge(&std::mem::take(&mut self.ledger));
        let full = events.len() + BATCH;
        loop {
            self.merge.drain(self.until, full.saturating_sub(events.len()), events);
            if events.len() >= full {
                return Ok(true);
            }
            if self.until == Moment::MAX {
                return Ok(false);
            }
            let next = match &mut self.blocks {
                Blocks::Pool(pool) => pool.next(),
                Blocks::Stream(stream) => stream.next(&mut self.info),
            };
            match next.transpose()? {
                Some(block) => self.take(block, ledger),
                None => self.end(ledger)?,
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.done.min(self.total), self.total)
    }
}

impl PerfData {
    /// Lets everything go that was held back.
    fn end(&mut self, ledger: &mut Ledger) -> Result<(), TraceError> {
        if let Some(name) = self.directory.take() {
            let what = "perf wrote its samples to the files data.0, data.1, … beside it (perf record --threads)";
            return Err(TraceError::Unsupported { name, what: what.to_string() });
        }
        // Behind the last record of a buffer the kernel had no room to say what it lost; the totals know.
        let unsaid = self.lost_in_all.saturating_sub(self.lost);
        if unsaid > 0 {
            ledger.add(Line::LostRecords, unsaid);
            self.merge.push(vec![lost_event(self.latest, PcpuId(u32::MAX), unsaid)], &[]);
        }
        self.until = Moment::MAX;
        self.done = self.total;
        Ok(())
    }

    fn take(&mut self, mut block: Block, ledger: &mut Ledger) {
        for &latest in &block.rounds {
            self.latest = self.latest.max(latest);
            self.until = self.until.max(self.round);
            self.round = self.latest;
        }
        self.latest = self.latest.max(block.latest);
        self.done += cursor::BLOCK as u64;
        self.lost = self.lost.saturating_add(block.lost);
        self.lost_in_all = self.lost_in_all.saturating_add(block.lost_in_all);
        if block.ledger.events > 0 {
            self.directory = None;
        }
        ledger.merge(&block.ledger);
        for thread in block.threads.drain(..) {
            let comms = &mut self.info.comms;
            match thread {
                Thread::Comm(tid, name) => {
                    comms.insert(tid, name);
                }
                Thread::Fork { child, parent } => {
                    if let Some(name) = comms.get(&parent).cloned() {
                        comms.entry(child).or_insert(name);
                    }
                }
            }
        }
        block.events = self.merge.push(std::mem::take(&mut block.events), &block.runs);
        if let Some(median) = self.merge.overfull() {
            self.until = self.until.max(median);
        }
        match &mut self.blocks {
            Blocks::Pool(pool) => pool.recycle(block),
            Blocks::Stream(stream) => stream.recycle(block),
        }
    }
}
