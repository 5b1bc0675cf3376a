//! A source that is read on a thread of its own, a few batches ahead of whoever uses the events.
//!
//! ```text
//! worker:   source.read ─► Batch{events, ledger, …} ──┐  at most AHEAD wait
//! consumer: read ◄────────────────────────────────────┘  empty buffers go back
//! ```

use crate::{Source, TraceError};
use exitscope_model::{Event, Ledger, TraceInfo};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Batches that wait, at most. Bounds memory.
const AHEAD: usize = 8;

/// What one call to [`Source::read`] gave.
struct Batch {
    events: Vec<Event>,
    ledger: Ledger,
    more: Result<bool, TraceError>,
    progress: (u64, u64),
    /// What the trace says of itself, if that has changed.
    info: Option<TraceInfo>,
}

struct Ahead {
    info: TraceInfo,
    progress: (u64, u64),
    batches: Receiver<Batch>,
    empties: Sender<Vec<Event>>,
    worker: Option<JoinHandle<()>>,
}

/// `source`, read ahead if the machine can do two things at a time.
pub(crate) fn ahead(source: Box<dyn Source>) -> Box<dyn Source> {
    if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
        return source;
    }
    let (info, progress) = (source.info().clone(), source.progress());
    let (send, batches) = sync_channel(AHEAD);
    let (empties, recycled) = channel();
    let worker = Some(std::thread::spawn(move || work(source, &send, &recycled)));
    Box::new(Ahead { info, progress, batches, empties, worker })
}

fn work(mut source: Box<dyn Source>, send: &SyncSender<Batch>, recycled: &Receiver<Vec<Event>>) {
    let said = |info: &TraceInfo| (info.names.len(), info.comms.len(), info.format.clone());
    let mut known = said(source.info());
    loop {
        let (mut events, mut ledger) = (recycled.try_recv().unwrap_or_default(), Ledger::default());
        let more = source.read(&mut events, &mut ledger);
        let last = !matches!(more, Ok(true));
        let now = said(source.info());
        let info = (now != known).then(|| source.info().clone());
        known = now;
        let batch = Batch { events, ledger, more, progress: source.progress(), info };
        if send.send(batch).is_err() || last {
            return;
        }
    }
}

impl Source for Ahead {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, events: &mut Vec<Event>, ledger: &mut Ledger) -> Result<bool, TraceError> {
        let Ok(mut batch) = self.batches.recv() else {
            // It has ended, or panicked: then so does this.
            return match self.worker.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => Ok(false),
            };
        };
        if events.is_empty() {
            std::mem::swap(events, &mut batch.events);
        } else {
            events.append(&mut batch.events);
        }
        batch.events.clear();
        // Nobody needs it any more if the worker has ended.
        let _ = self.empties.send(batch.events);
        ledger.merge(&batch.ledger);
        self.progress = batch.progress;
        if let Some(info) = batch.info {
            self.info = info;
        }
        batch.more
    }

    fn progress(&self) -> (u64, u64) {
        self.progress
    }
}
