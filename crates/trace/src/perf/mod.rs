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
use exitscope_units::Moment;
pub use head::looks_like;
use pool::Pool;
use records::{Block, Side, Thread};
use rustc_hash::FxHashMap;
use stream::Stream;

/// Data from this size on is decoded on several threads.
const POOLED: u64 = 1 << 20;

/// Opens a perf.data.
pub fn open(input: Input, options: Options) -> Result<Box<dyn Source>, TraceError> {
    Ok(Box::new(PerfData::open(input, options, POOLED)?))
}

impl PerfData {
    fn open(input: Input, options: Options, pooled: u64) -> Result<PerfData, TraceError> {
        let mut ledger = Ledger::default();
        let head = head::read(&input, options.only_used, &mut ledger)?;
        if input.cut().is_some() {
            ledger.count_at(Line::BadCompression, input.len());
        }
        let total = input.len();
        let cursor = Cursor::new(input, head.context.order, head.data, head.sequential);
        let blocks = if head.sequential || head.data.1.saturating_sub(head.data.0) < pooled {
            Blocks::Stream(Box::new(Stream::new(cursor, head.context)))
        } else {
            Blocks::Pool(Pool::start(cursor, head.context))
        };
        Ok(PerfData {
            info: head.info,
            blocks,
            merge: Merge::default(),
            ledger,
            named: FxHashMap::default(),
            lost: 0,
            lost_in_all: 0,
            latest: Moment::default(),
            round: Moment::default(),
            until: Moment::default(),
            ended: false,
            done: 0,
            total,
        })
    }
}

struct PerfData {
    info: TraceInfo,
    blocks: Blocks,
    merge: Merge,
    /// What the header gave, until the first read.
    ledger: Ledger,
    /// When threads got their names.
    named: FxHashMap<u32, Moment>,
    /// Records lost so far, and those that perf speaks of at the end.
    lost: u64,
    lost_in_all: u64,
    /// The latest moment so far, that at the last FINISHED_ROUND, and that at the one before: up to it events leave.
    latest: Moment,
    round: Moment,
    until: Moment,
    ended: bool,
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
            if self.ended {
                return Ok(false);
            }
            let next = match &mut self.blocks {
                Blocks::Pool(pool) => pool.next(),
                Blocks::Stream(stream) => stream.next(&mut self.info),
            };
            match next.transpose()? {
                Some(block) => self.take(block, ledger),
                None => {
                    self.rest_of_losses(ledger);
                    self.ended = true;
                    self.until = Moment::MAX;
                    self.done = self.total;
                }
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.done.min(self.total), self.total)
    }
}

impl PerfData {
    fn take(&mut self, mut block: Block, ledger: &mut Ledger) {
        // What says no moment of its own has the latest one before it; here that was in a block before.
        let untimed = block.events.iter().take_while(|event| event.at == Moment::default()).count();
        block.events[..untimed].iter_mut().for_each(|event| event.at = self.latest);
        if untimed > 0 && block.events.get(untimed).is_some_and(|event| event.at < self.latest) {
            block.runs.insert(0, untimed);
        }
        for &latest in &block.rounds {
            self.latest = self.latest.max(latest);
            self.until = self.until.max(self.round);
            self.round = self.latest;
        }
        self.latest = self.latest.max(block.latest);
        self.done += cursor::BLOCK as u64;
        ledger.merge(&block.ledger);
        self.lost = self.lost.saturating_add(block.ledger.get(Line::LostRecords));
        self.lost_in_all = self.lost_in_all.saturating_add(block.lost_in_all);
        for (at, thread) in block.threads.drain(..) {
            let (tid, name) = match thread {
                Thread::Comm(tid, name) => (tid, name),
                Thread::Fork { child, parent } => match self.info.comms.get(&parent) {
                    Some(name) => (child, name.clone()),
                    None => continue,
                },
            };
            // Records of different CPUs are not in order.
            if self.named.get(&tid).is_none_or(|&named| named <= at) {
                self.named.insert(tid, at);
                self.info.comms.insert(tid, name);
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

    /// What was lost after the last record that could say so: only the totals tell.
    fn rest_of_losses(&mut self, ledger: &mut Ledger) {
        let more = self.lost_in_all.saturating_sub(self.lost);
        if more > 0 {
            let mut block = Block { latest: self.latest, ..Block::default() };
            block.lose(more, Side::default());
            ledger.merge(&block.ledger);
            self.merge.push(block.events, &[]);
        }
    }
}
