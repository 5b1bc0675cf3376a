//! Sums over time, made on a thread of their own while the next rows are read.
//!
//! ```text
//! reading ─► TimelineKeys ─► exits and CPU intervals in brief, many at once ─► the other thread: ExitTimeline
//!                               ▲                                                 │
//!                               └───────────────── empty again ───────────────────┘
//! ```

use exitscope_analysis::over_time::{ExitTimeline, Numbered, TimelineBatch, TimelineSink, Timelines};
use exitscope_model::LaneSpan;
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Exits and stretches that are passed on at once (1 MB, of exits that have a cost and no more). Whoever is woken takes the
/// CPU of another, so that is to be done seldom.
const BATCH: usize = 1 << 14;

/// Batches that may wait: enough for the time in which rows are put in order (32 MB).
const MAX_QUEUED_BATCHES: usize = 32;

enum Message {
    Window((Moment, Moment)),
    Batch(TimelineBatch),
}

/// The thread on which the sums of [`Timelines`] are made.
pub struct TimelineThread {
    to: SyncSender<Message>,
    empty: Receiver<TimelineBatch>,
    thread: JoinHandle<ExitTimeline>,
}

impl TimelineThread {
    /// Goes on with `over_time` on another thread.
    pub fn start(over_time: Timelines) -> Numbered<TimelineThread> {
        let Numbered { names, to: mut sums, .. } = over_time;
        let (to, messages) = sync_channel(MAX_QUEUED_BATCHES);
        let (back, empty) = sync_channel(MAX_QUEUED_BATCHES);
        let thread = thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Window(window) => sums.begin(window),
                    Message::Batch(mut batch) => {
                        sums.take(&mut batch);
                        // Where there are enough already, this one is dropped.
                        let _ = back.try_send(batch);
                    }
                }
            }
            sums
        });
        Numbered::passing_to(names, TimelineThread { to, empty, thread })
    }

    /// All of it, soon: the trace has been read. Its vCPUs had these spans, and threads run these vCPUs.
    pub fn end(
        mut read: Numbered<TimelineThread>,
        lanes: Vec<LaneSpan>,
        vcpu_of: FxHashMap<Tid, VcpuId>,
    ) -> TimelineJoin {
        read.pass_on();
        let Numbered { names, to: TimelineThread { thread: sums, .. }, .. } = read;
        TimelineJoin(thread::spawn(move || {
            let mut over_time = Numbered::passing_to(names, joined(sums));
            over_time.end(&lanes, &vcpu_of);
            over_time
        }))
    }

    fn send(&self, message: Message) {
        // The other thread goes only when it panics, which `end` passes on.
        let _ = self.to.send(message);
    }
}

/// [`Timelines`] of which all is on its way.
pub struct TimelineJoin(JoinHandle<Timelines>);

impl TimelineJoin {
    /// With what another recording gave.
    pub fn merge(self, other: TimelineJoin) -> TimelineJoin {
        TimelineJoin(thread::spawn(move || {
            let mut over_time = self.wait();
            over_time.merge(other.wait());
            over_time
        }))
    }

    /// All of it.
    pub fn wait(self) -> Timelines {
        joined(self.0)
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl TimelineSink for TimelineThread {
    const AT_ONCE: usize = BATCH;

    fn begin(&mut self, window: (Moment, Moment)) {
        self.send(Message::Window(window));
    }

    fn take(&mut self, batch: &mut TimelineBatch) {
        let empty = self.empty.try_recv().unwrap_or_else(|_| TimelineBatch::with_capacity(BATCH));
        self.send(Message::Batch(std::mem::replace(batch, empty)));
    }
}
