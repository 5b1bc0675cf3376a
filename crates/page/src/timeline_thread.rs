//! Sums over time, made on a thread of their own while the next rows are read.
//!
//! ```text
//! reading ─► Names ─► exits and stretches in brief, many at once ─► the other thread: Sums
//!                        ▲                                             │
//!                        └─────────────── empty again ─────────────────┘
//! ```

use crate::names::{Briefs, Names};
use crate::over_time::OverTime;
use crate::sums::Sums;
use exitscope_analysis::{Counted, TraceSink};
use exitscope_model::{Exit, LaneSpan, Preemption, Stretch, ThreadWakeUp, Yield};
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
    Briefs(Briefs),
}

/// An [`OverTime`] in the making.
pub struct TimelineThread {
    names: Names,
    batch: Briefs,
    to: SyncSender<Message>,
    empty: Receiver<Briefs>,
    thread: JoinHandle<Sums>,
}

impl TimelineThread {
    /// Goes on with `over_time` on another thread.
    pub fn start(over_time: OverTime) -> TimelineThread {
        let (names, mut sums) = over_time.split();
        let (to, messages) = sync_channel(MAX_QUEUED_BATCHES);
        let (back, empty) = sync_channel(MAX_QUEUED_BATCHES);
        let thread = thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Window(window) => sums.begin(window),
                    Message::Briefs(mut briefs) => {
                        sums.absorb(&briefs);
                        briefs.clear();
                        // Where there are enough already, this one is dropped.
                        let _ = back.try_send(briefs);
                    }
                }
            }
            sums
        });
        TimelineThread { names, batch: Briefs::with_capacity(BATCH), to, empty, thread }
    }

    /// All of it, soon: the trace has been read. Its vCPUs had these spans, and threads run these vCPUs.
    pub fn end(mut self, lanes: Vec<LaneSpan>, vcpu_of: FxHashMap<Tid, VcpuId>) -> TimelineJoin {
        self.pass_on();
        let TimelineThread { names, thread: sums, .. } = self;
        TimelineJoin(thread::spawn(move || {
            let mut over_time = OverTime::of_halves(names, joined(sums));
            over_time.end(&lanes, &vcpu_of);
            over_time
        }))
    }

    #[inline(always)]
    fn pass_on_if_full(&mut self) {
        if self.batch.len() >= BATCH {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let empty = self.empty.try_recv().unwrap_or_else(|_| Briefs::with_capacity(BATCH));
        let full = std::mem::replace(&mut self.batch, empty);
        self.send(Message::Briefs(full));
    }

    fn send(&self, message: Message) {
        // The other thread goes only when it panics, which `end` passes on.
        let _ = self.to.send(message);
    }
}

/// An [`OverTime`] of which all is on its way.
pub struct TimelineJoin(JoinHandle<OverTime>);

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
    pub fn wait(self) -> OverTime {
        joined(self.0)
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl TraceSink for TimelineThread {
    fn begin(&mut self, first: Moment) {
        self.pass_on();
        let window = self.names.begin(first);
        self.send(Message::Window(window));
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.names.absorb(exit, &mut self.batch);
        self.pass_on_if_full();
    }

    #[inline]
    fn absorb_counted(&mut self, exit: &Exit, counted: Counted) {
        self.names.absorb_counted(exit, counted, &mut self.batch);
        self.pass_on_if_full();
    }

    fn stretch(&mut self, of: &Stretch) {
        self.names.absorb_stretch(of, &mut self.batch);
        self.pass_on_if_full();
    }

    fn yielded(&mut self, of: &Yield) {
        self.names.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.names.absorb_preemption(of, &mut self.batch);
        self.pass_on_if_full();
    }

    fn woken(&mut self, of: &ThreadWakeUp) {
        self.names.absorb_wake_up(of, &mut self.batch);
        self.pass_on_if_full();
    }
}
