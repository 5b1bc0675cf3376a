//! Sums over time, made on a thread of their own while the next rows are read.
//!
//! ```text
//! reading ─► rows, some hundred at once ─► the other thread: OverTime
//!                     ▲                             │
//!                     └────── empty again ──────────┘
//! ```

use exitscope_model::{Exit, Yield};
use exitscope_page::OverTime;
use exitscope_units::Moment;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Rows that are handed over at once.
const ROWS: usize = 512;

/// Batches that may wait.
const WAITING: usize = 8;

enum Message {
    Begin(Moment),
    Rows(Vec<Exit>),
    Yield(Yield),
}

/// An [`OverTime`] in the making.
pub struct Background {
    rows: Vec<Exit>,
    to: SyncSender<Message>,
    empty: Receiver<Vec<Exit>>,
    thread: JoinHandle<OverTime>,
}

impl Background {
    /// Goes on with `over_time` on another thread.
    pub fn start(mut over_time: OverTime) -> Background {
        let (to, messages) = sync_channel(WAITING);
        let (back, empty) = sync_channel(WAITING);
        let thread = thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Begin(first) => over_time.begin(first),
                    Message::Yield(of) => over_time.absorb_yield(&of),
                    Message::Rows(mut rows) => {
                        rows.iter().for_each(|exit| over_time.absorb(exit));
                        rows.clear();
                        // Where there are enough already, this one is dropped.
                        let _ = back.try_send(rows);
                    }
                }
            }
            over_time
        });
        Background { rows: Vec::with_capacity(ROWS), to, empty, thread }
    }

    /// Says when the trace's first event was.
    pub fn begin(&mut self, first: Moment) {
        self.send(Message::Begin(first));
    }

    /// Adds one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        self.rows.push(*exit);
        if self.rows.len() >= ROWS {
            self.hand_over();
        }
    }

    /// Adds one yield.
    pub fn absorb_yield(&mut self, of: &Yield) {
        self.send(Message::Yield(*of));
    }

    /// All of it.
    pub fn end(mut self) -> OverTime {
        self.hand_over();
        drop(self.to);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn hand_over(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS));
        let rows = std::mem::replace(&mut self.rows, next);
        self.send(Message::Rows(rows));
    }

    fn send(&self, message: Message) {
        // The other thread goes only when it panics, which `end` passes on.
        let _ = self.to.send(message);
    }
}
