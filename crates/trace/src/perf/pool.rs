//! Blocks decoded on several threads, taken in order.
//!
//! ```text
//! worker:   lock { take an empty block; read bytes up to the last whole record } decode ──┐
//! worker:   lock { …                                                           } decode ──┼─► consumer, by number
//! consumer: the same, while the block that it needs is not there                         ─┘
//! ```
//!
//! Whole blocks go round in a circle of fixed size, so that memory does not grow with the file.

use super::cursor::{Cursor, Next, Window};
use super::head::Context;
use super::records::Block;
use crate::source::TraceError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads at most, the consumer among them: beyond these, reading is what takes the time.
const MAX_THREADS: usize = 4;

/// Blocks in the circle. Events leave in bursts, in which the workers are to go on.
const BLOCKS: usize = 16;

/// Decodes ahead of its consumer.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    done: Receiver<Done>,
    empties: Sender<Block>,
    /// Blocks that came before their turn.
    early: BTreeMap<u64, Outcome>,
    next: u64,
    /// What the consumer itself reads into, and whether there is more to read.
    window: Window,
    more: bool,
    workers: Vec<JoinHandle<()>>,
}

/// A block's number, and what became of it.
type Done = (u64, Outcome);

/// What became of a block. A panic is carried to the consumer, which would otherwise wait for the block for ever.
type Outcome = std::thread::Result<Result<Block, TraceError>>;

#[derive(Debug)]
struct Shared {
    context: Context,
    turn: Mutex<Turn>,
}

/// What one thread at a time has.
#[derive(Debug)]
struct Turn {
    cursor: Cursor,
    next: u64,
    empties: Receiver<Block>,
}

impl Pool {
    /// Starts the workers.
    pub fn start(cursor: Cursor, context: Context) -> Pool {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let (send, done) = channel();
        let (empties, recycled) = channel();
        for _ in 0..BLOCKS {
            let _ = empties.send(Block::default());
        }
        let turn = Mutex::new(Turn { cursor, next: 0, empties: recycled });
        let shared = Arc::new(Shared { context, turn });
        let workers = (1..threads).map(|_| {
            let (shared, send) = (shared.clone(), send.clone());
            std::thread::spawn(move || work(&shared, &send))
        });
        let workers = workers.collect();
        Pool { shared, done, empties, early: BTreeMap::new(), next: 0, window: Window::default(), more: true, workers }
    }

    /// The next block in order; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Block, TraceError>> {
        loop {
            self.early.extend(self.done.try_iter());
            if let Some(outcome) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            if self.help() {
                continue;
            }
            match self.done.recv() {
                Ok((number, outcome)) => self.early.insert(number, outcome),
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

    /// Decodes a block here, if there is one to decode and no other thread is about to take it.
    fn help(&mut self) -> bool {
        if !self.more {
            return false;
        }
        // Without workers nobody else has the turn.
        let Ok(mut turn) = self.shared.turn.try_lock() else { return false };
        let Ok(block) = turn.empties.try_recv() else { return false };
        let (number, next, block) = turn.read(&mut self.window, block);
        drop(turn);
        self.more = !is_last(&next);
        self.early.insert(number, decode(next, &self.window, block, &self.shared.context));
        true
    }

    /// Gives a block's memory back.
    pub fn recycle(&mut self, mut block: Block) {
        block.clear();
        let _ = self.empties.send(block);
    }
}

impl Turn {
    /// Reads what comes next; what is damaged before it goes to `block`.
    fn read(&mut self, window: &mut Window, mut block: Block) -> (u64, Result<Next, TraceError>, Block) {
        let next = self.cursor.next(window, &mut block);
        self.next += 1;
        (self.next - 1, next, block)
    }
}

fn is_last(next: &Result<Next, TraceError>) -> bool {
    matches!(next, Ok(Next::End) | Err(_))
}

fn decode(next: Result<Next, TraceError>, window: &Window, mut block: Block, context: &Context) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| {
        if let Next::Records(range, offset) = next? {
            block.decode(&window.bytes[range], offset, context);
        }
        Ok(block)
    }))
}

fn work(shared: &Shared, done: &Sender<Done>) {
    let mut window = Window::default();
    loop {
        let Ok(mut turn) = shared.turn.lock() else { return };
        let Ok(block) = turn.empties.recv() else { return };
        let (number, next, block) = turn.read(&mut window, block);
        drop(turn);
        let last = is_last(&next);
        if done.send((number, decode(next, &window, block, &shared.context))).is_err() || last {
            return;
        }
    }
}
