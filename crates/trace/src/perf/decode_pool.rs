//! Blocks decoded on several threads, taken in order.
//!
//! ```text
//! worker:   lock { take an empty block; guess where it ends in the file } read, decode ──┐
//! worker:   lock { …                                                    } read, decode ──┼─► consumer, by number
//! consumer: the same, while the block that it needs is not there                        ─┘
//! ```
//!
//! Whole blocks go round in a circle of fixed size, so that memory does not grow with the file.
//!
//! Where a block ends is guessed. Whoever decodes it sees whether its records end there; if they do not, the file is
//! damaged or has something in it that only looks like records, and it is read again from that block on, without guessing.

use super::cursor::{Cursor, FileWindow, MOST_AT_ONCE, Next};
use super::header::RecordContext;
use super::records::RecordBlock;
use crate::input::Input;
use crate::source::TraceError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads at most, the consumer among them: beyond these, what the consumer does takes the time.
const MAX_THREADS: usize = 4;

/// Blocks in the circle. Events leave in bursts, in which the workers are to go on; but with more than enough of them, what
/// was read would be spread over memory that nobody has touched yet, or that is far from the processor.
const BLOCKS: std::ops::RangeInclusive<u64> = 16..=32;

/// One more for so many bytes of the file, within these bounds.
const BYTES_A_BLOCK: u64 = 64 << 20;

/// Decodes ahead of its consumer.
#[derive(Debug)]
pub struct DecodePool {
    shared: Arc<Shared>,
    done: Receiver<Done>,
    empties: Sender<RecordBlock>,
    /// Blocks that came before their turn.
    early: BTreeMap<u64, Outcome>,
    next: u64,
    /// What the consumer itself reads into, and whether there is more to read.
    window: FileWindow,
    more: bool,
    /// Whether blocks whose ends were guessed count.
    guess: bool,
    workers: Vec<JoinHandle<()>>,
}

/// A block's number, whether its end was guessed, and what became of it.
type Done = (u64, bool, Outcome);

/// What became of a block. A panic is carried to the consumer, which would otherwise wait for the block for ever.
type Outcome = std::thread::Result<Result<Decoded, TraceError>>;

/// A block that was decoded.
#[derive(Debug)]
struct Decoded {
    block: RecordBlock,
    /// Where in the file it begins, if its records do not end where it does: nothing in it counts.
    misfit: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    input: Input,
    context: RecordContext,
    turn: Mutex<Turn>,
    /// The number and the offset of the block from which on to read again.
    again: Mutex<Option<(u64, u64)>>,
}

/// What one thread at a time has.
#[derive(Debug)]
struct Turn {
    cursor: Cursor,
    next: u64,
    guess: bool,
    empties: Receiver<RecordBlock>,
}

/// What is to be decoded into a block.
struct Taken {
    number: u64,
    guessed: bool,
    found: Result<Found, TraceError>,
    block: RecordBlock,
}

enum Found {
    /// Still to be read: these bytes of the file, if they are whole records.
    There(Range<u64>),
    /// What is in the window.
    Here(Next),
}

impl DecodePool {
    /// Starts the workers.
    pub fn start(cursor: Cursor, context: RecordContext) -> Result<DecodePool, TraceError> {
        let input = cursor.input.try_clone()?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let (send, done) = channel();
        let (empties, recycled) = channel();
        let blocks = cursor.end.saturating_sub(cursor.at) / BYTES_A_BLOCK;
        for _ in 0..blocks.clamp(*BLOCKS.start(), *BLOCKS.end()) {
            let _ = empties.send(RecordBlock::default());
        }
        let turn = Mutex::new(Turn { cursor, next: 0, guess: true, empties: recycled });
        let shared = Arc::new(Shared { input, context, turn, again: Mutex::default() });
        let workers = (1..threads).map(|_| {
            let (shared, send) = (shared.clone(), send.clone());
            std::thread::spawn(move || work(&shared, &send))
        });
        let workers = workers.collect();
        let (early, window) = (BTreeMap::new(), FileWindow::default());
        Ok(DecodePool { shared, done, empties, early, next: 0, window, more: true, guess: true, workers })
    }

    /// The next block in order; `None` at the end.
    pub fn next(&mut self) -> Option<Result<RecordBlock, TraceError>> {
        loop {
            while let Ok(done) = self.done.try_recv() {
                self.file(done);
            }
            if let Some(outcome) = self.early.remove(&self.next) {
                match outcome.unwrap_or_else(|panic| resume_unwind(panic)) {
                    Ok(Decoded { block, misfit: Some(offset) }) => self.again(block, offset),
                    Ok(Decoded { block, misfit: None }) => {
                        self.next += 1;
                        return Some(Ok(block));
                    }
                    Err(error) => return Some(Err(error)),
                }
                continue;
            }
            if self.help() {
                continue;
            }
            match self.done.recv() {
                Ok(done) => self.file(done),
                Err(_) => {
                    for worker in self.workers.drain(..) {
                        if let Err(panic) = worker.join() {
                            resume_unwind(panic);
                        }
                    }
                    return None;
                }
            };
        }
    }

    /// Keeps a block until its turn, unless it came of a guess and guesses are over.
    fn file(&mut self, (number, guessed, outcome): Done) {
        match outcome {
            Ok(Ok(Decoded { block, .. })) if guessed && !self.guess => self.recycle(block),
            Ok(Err(_)) | Err(_) if guessed && !self.guess => {}
            _ => drop(self.early.insert(number, outcome)),
        }
    }

    /// Reads the next block again, and what follows, without guessing.
    fn again(&mut self, block: RecordBlock, offset: u64) {
        *self.shared.again.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.next, offset));
        (self.guess, self.more) = (false, true);
        self.recycle(block);
        for (number, outcome) in std::mem::take(&mut self.early) {
            self.file((number, true, outcome));
        }
    }

    /// Decodes a block here, if there is one to decode and no other thread is about to take it.
    fn help(&mut self) -> bool {
        if !self.more {
            return false;
        }
        // Without workers nobody else has the turn.
        let Ok(mut turn) = self.shared.turn.try_lock() else { return false };
        let Ok(block) = turn.empties.try_recv() else { return false };
        let taken = turn.take(&self.shared, &mut self.window, block);
        drop(turn);
        self.more = !taken.is_last();
        let done = taken.decode(&mut self.window, &self.shared);
        self.file(done);
        true
    }

    /// Whether no guess was wrong so far.
    #[cfg(test)]
    pub fn guesses(&self) -> bool {
        self.guess
    }

    /// Gives a block's memory back.
    pub fn recycle(&mut self, mut block: RecordBlock) {
        block.clear();
        let _ = self.empties.send(block);
    }
}

impl Turn {
    /// Reads what comes next; what is damaged before it goes to `block`.
    fn take(&mut self, shared: &Shared, window: &mut FileWindow, mut block: RecordBlock) -> Taken {
        if let Some((number, offset)) = shared.again.lock().unwrap_or_else(PoisonError::into_inner).take() {
            (self.next, self.cursor.at, self.guess) = (number, offset, false);
        }
        self.next += 1;
        let found = self.find(window, &mut block);
        Taken { number: self.next - 1, guessed: self.guess, found, block }
    }

    fn find(&mut self, window: &mut FileWindow, block: &mut RecordBlock) -> Result<Found, TraceError> {
        let guessed = if self.guess { self.cursor.guess()? } else { None };
        match guessed {
            Some(range) => Ok(Found::There(range)),
            None => self.cursor.next(window, block).map(Found::Here),
        }
    }
}

impl Taken {
    fn is_last(&self) -> bool {
        matches!(self.found, Ok(Found::Here(Next::End)) | Err(_))
    }

    fn decode(self, window: &mut FileWindow, shared: &Shared) -> Done {
        let Taken { number, guessed, found, mut block } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut misfit = None;
            match found? {
                Found::There(range) => {
                    window.read(&shared.input, &range)?;
                    // As much for each: to find that the memory of the last block is a little too small is to copy it. Not
                    // for blocks that end early, of which there may be very many.
                    block.reserve_for(MOST_AT_ONCE);
                    let read = block.decode(&window.bytes, range.start, &shared.context);
                    misfit = (range.start + read as u64 != range.end).then_some(range.start);
                }
                Found::Here(Next::Records(range, offset)) => {
                    block.decode(&window.bytes[range], offset, &shared.context);
                }
                Found::Here(Next::Special(..) | Next::End) => {}
            }
            Ok(Decoded { block, misfit })
        }));
        (number, guessed, outcome)
    }
}

fn work(shared: &Shared, done: &Sender<Done>) {
    let mut window = FileWindow::default();
    loop {
        let Ok(mut turn) = shared.turn.lock() else { return };
        let Ok(block) = turn.empties.recv() else { return };
        let taken = turn.take(shared, &mut window, block);
        drop(turn);
        let last = taken.is_last();
        if done.send(taken.decode(&mut window, shared)).is_err() || last {
            return;
        }
    }
}
