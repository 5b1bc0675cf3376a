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

/// Batches that may wait: enough for the time in which rows are put in order (7 MB).
const WAITING: usize = 64;

enum Message {
    Begin(Moment),
    Rows(Vec<Exit>),
    Yield(Yield),
}

/// An [`OverTime`] in the making.
pub struct Background {
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
        Background { to, empty, thread }
    }

    /// Says when the trace's first event was.
    pub fn begin(&mut self, first: Moment) {
        self.send(Message::Begin(first));
    }

    /// Adds exits, and gives an empty buffer for them.
    pub fn take_rows(&mut self, rows: &mut Vec<Exit>) {
        let next = self.empty.try_recv().unwrap_or_default();
        self.send(Message::Rows(std::mem::replace(rows, next)));
    }

    /// Adds one yield.
    pub fn absorb_yield(&mut self, of: &Yield) {
        self.send(Message::Yield(*of));
    }

    /// All of it.
    pub fn end(self) -> OverTime {
        drop(self.to);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn send(&self, message: Message) {
        // The other thread goes only when it panics, which `end` passes on.
        let _ = self.to.send(message);
    }
}
