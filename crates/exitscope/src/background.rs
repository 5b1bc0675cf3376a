//! Sums over time, made on a thread of their own while the next rows are read.
//!
//! ```text
//! reading ─► Names ─► exits and stretches in brief, many at once ─► the other thread: Sums
//!                        ▲                                             │
//!                        └─────────────── empty again ─────────────────┘
//! ```

use crate::read::{Sink, Trace};
use exitscope_analysis::Counted;
use exitscope_model::{Exit, Preemption, Stretch, ThreadWakeUp, Yield};
use exitscope_page::{Briefs, Names, OverTime, Sums};
use exitscope_units::Moment;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Exits and stretches that are passed on at once (1 MB, of exits that have a cost and no more). Whoever is woken takes the
/// CPU of another, so that is to be done seldom.
const BATCH: usize = 1 << 14;

/// Batches that may wait: enough for the time in which rows are put in order (32 MB).
const WAITING: usize = 32;

enum Message {
    Window((Moment, Moment)),
    Briefs(Briefs),
}

/// An [`OverTime`] in the making.
pub struct Background {
    names: Names,
    batch: Briefs,
    to: SyncSender<Message>,
    empty: Receiver<Briefs>,
    thread: JoinHandle<Sums>,
}

impl Background {
    /// Goes on with `over_time` on another thread.
    pub fn start(over_time: OverTime) -> Background {
        let (names, mut sums) = over_time.split();
        let (to, messages) = sync_channel(WAITING);
        let (back, empty) = sync_channel(WAITING);
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
        Background { names, batch: Briefs::with_capacity(BATCH), to, empty, thread }
    }

    /// All of it, soon: the trace has been read.
    pub fn end(mut self, trace: &Trace) -> Ending {
        self.pass_on();
        let Background { names, thread: sums, .. } = self;
        let (lanes, vcpu_of) = (trace.lanes.clone(), trace.vcpu_of.clone());
        Ending(thread::spawn(move || {
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
pub struct Ending(JoinHandle<OverTime>);

impl Ending {
    /// With what another recording gave.
    pub fn merge(self, other: Ending) -> Ending {
        Ending(thread::spawn(move || {
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

impl Sink for Background {
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
