//! What is read on a thread of its own, a few batches ahead of whoever uses it.
//!
//! ```text
//! worker:   feed.read ─► Batch{items, ledger, …} ──┐  at most AHEAD wait
//! consumer: read ◄─────────────────────────────────┘  empty buffers go back
//! ```

use crate::TraceError;
use exitscope_model::Ledger;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that wait, at most. Bounds memory.
const AHEAD: usize = 8;

/// What can be read ahead.
pub(crate) trait BatchSource: Send + 'static {
    /// What it gives.
    type Item: Send + 'static;

    /// Appends some items and returns whether more may come.
    fn read(&mut self, items: &mut Vec<Self::Item>, ledger: &mut Ledger) -> Result<bool, TraceError>;

    /// Bytes of the file handled so far, and in all.
    fn progress(&self) -> (u64, u64);
}

/// What one call to [`BatchSource::read`] gave.
struct Batch<T> {
    items: Vec<T>,
    ledger: Ledger,
    more: Result<bool, TraceError>,
    progress: (u64, u64),
}

/// A feed, read ahead if the machine can do two things at a time.
pub(crate) enum ReadAhead<F: BatchSource> {
    Here { feed: F, items: Vec<F::Item> },
    There(Worker<F::Item>),
}

/// The thread that reads ahead, and the last batch that it gave.
pub(crate) struct Worker<T> {
    batches: Receiver<Batch<T>>,
    empties: Sender<Vec<T>>,
    thread: Option<JoinHandle<()>>,
    items: Vec<T>,
    progress: (u64, u64),
}

impl<F: BatchSource> ReadAhead<F> {
    /// Begins.
    pub fn start(feed: F) -> ReadAhead<F> {
        if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
            return ReadAhead::Here { feed, items: Vec::new() };
        }
        let progress = feed.progress();
        let (send, batches) = sync_channel(AHEAD);
        let (empties, recycled) = channel();
        let thread = Some(std::thread::spawn(move || work(feed, &send, &recycled)));
        ReadAhead::There(Worker { batches, empties, thread, items: Vec::new(), progress })
    }

    /// The next items, and whether more may come.
    pub fn read(&mut self, ledger: &mut Ledger) -> Result<(&[F::Item], bool), TraceError> {
        match self {
            ReadAhead::Here { feed, items } => {
                items.clear();
                let more = feed.read(items, ledger)?;
                Ok((items, more))
            }
            ReadAhead::There(worker) => worker.read(ledger),
        }
    }

    /// Bytes of the file handled so far, and in all.
    pub fn progress(&self) -> (u64, u64) {
        match self {
            ReadAhead::Here { feed, .. } => feed.progress(),
            ReadAhead::There(worker) => worker.progress,
        }
    }
}

impl<T> Worker<T> {
    fn read(&mut self, ledger: &mut Ledger) -> Result<(&[T], bool), TraceError> {
        self.items.clear();
        // Nobody needs it any more if the thread has ended.
        let _ = self.empties.send(std::mem::take(&mut self.items));
        let Ok(batch) = self.batches.recv() else {
            // It has ended, or panicked: then so does this.
            return match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => Ok((&[], false)),
            };
        };
        ledger.merge(&batch.ledger);
        (self.items, self.progress) = (batch.items, batch.progress);
        Ok((&self.items, batch.more?))
    }
}

fn work<F: BatchSource>(mut feed: F, send: &SyncSender<Batch<F::Item>>, recycled: &Receiver<Vec<F::Item>>) {
    loop {
        let (mut items, mut ledger) = (recycled.try_recv().unwrap_or_default(), Ledger::default());
        let more = feed.read(&mut items, &mut ledger);
        let last = !matches!(more, Ok(true));
        let batch = Batch { items, ledger, more, progress: feed.progress() };
        if send.send(batch).is_err() || last {
            return;
        }
    }
}
