//! Blocks decoded on several threads, taken in order.
//!
//! ```text
//! worker: lock { take an empty block; read bytes up to the last whole record } decode ──┐
//! worker: lock { …                                                           } decode ──┴─► consumer, by number
//! ```
//!
//! Whole blocks go round in a circle of fixed size, so that memory does not grow with the file.

use super::cursor::{Cursor, Next};
use super::head::Context;
use super::records::Block;
use crate::source::TraceError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads at most: beyond these, reading is what takes the time.
const MAX_WORKERS: usize = 4;

/// Decodes ahead of its consumer.
#[derive(Debug)]
pub struct Pool {
    done: Receiver<Done>,
    empties: Sender<Block>,
    /// Blocks that came before their turn.
    early: BTreeMap<u64, Outcome>,
    next: u64,
    workers: Vec<JoinHandle<()>>,
}

type Done = (u64, Outcome);

/// What became of a block. A panic is carried to the consumer, which would otherwise wait for the block for ever.
type Outcome = std::thread::Result<Result<Block, TraceError>>;

struct Shared {
    cursor: Cursor,
    next: u64,
    empties: Receiver<Block>,
}

impl Pool {
    /// Starts the workers.
    pub fn start(cursor: Cursor, context: Context) -> Pool {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
        let (send, done) = channel();
        let (empties, recycled) = channel();
        for _ in 0..workers * 3 {
            let _ = empties.send(Block::default());
        }
        let shared = Arc::new(Mutex::new(Shared { cursor, next: 0, empties: recycled }));
        let context = Arc::new(context);
        let workers = (0..workers).map(|_| {
            let (shared, context, send) = (shared.clone(), context.clone(), send.clone());
            std::thread::spawn(move || work(&shared, &context, &send))
        });
        Pool { done, empties, early: BTreeMap::new(), next: 0, workers: workers.collect() }
    }

    /// The next block in order; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Block, TraceError>> {
        loop {
            if let Some(outcome) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)));
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

    /// Gives a block's memory back.
    pub fn recycle(&mut self, mut block: Block) {
        block.clear();
        let _ = self.empties.send(block);
    }
}

fn work(shared: &Mutex<Shared>, context: &Context, done: &Sender<Done>) {
    let mut bytes = Vec::new();
    loop {
        let Ok(mut turn) = shared.lock() else { return };
        let Ok(mut block) = turn.empties.recv() else { return };
        let next = turn.cursor.next(&mut bytes, &mut block);
        let number = turn.next;
        turn.next += 1;
        drop(turn);
        let last = matches!(next, Ok(Next::End) | Err(_));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if let Next::Records(len, offset) = next? {
                block.decode(&bytes[..len], offset, context);
            }
            Ok(block)
        }));
        if done.send((number, outcome)).is_err() || last {
            return;
        }
    }
}
