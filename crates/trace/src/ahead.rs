//! A source read on a thread of its own, so that decoding and accounting use two cores.

use crate::{Source, TraceError};
use exitscope_model::{Event, Ledger, TraceInfo};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Batches under way between the two threads at most.
const DEPTH: usize = 4;

/// Reads a source ahead on its own thread.
pub struct ReadAhead {
    batches: Receiver<Vec<Event>>,
    empties: SyncSender<Vec<Event>>,
    thread: JoinHandle<(Box<dyn Source>, Ledger, Result<(), TraceError>)>,
}

/// What is left when a source has been read to its end.
pub struct Finished {
    /// What the trace says of itself, complete now.
    pub info: TraceInfo,
    /// What the reader counted.
    pub ledger: Ledger,
}

impl ReadAhead {
    /// Starts reading. `progress` is called now and then with bytes done and bytes in all.
    pub fn start(mut source: Box<dyn Source>, mut progress: impl FnMut(u64, u64) + Send + 'static) -> ReadAhead {
        let (send, batches) = sync_channel::<Vec<Event>>(DEPTH);
        let (empties, recycled) = sync_channel::<Vec<Event>>(DEPTH + 2);
        let thread = std::thread::spawn(move || {
            let mut ledger = Ledger::default();
            let result = loop {
                let mut batch = recycled.try_recv().unwrap_or_default();
                batch.clear();
                match source.read(&mut batch, &mut ledger) {
                    Ok(more) => {
                        let (done, all) = source.progress();
                        progress(done, all);
                        if (!batch.is_empty() && send.send(batch).is_err()) || !more {
                            break Ok(());
                        }
                    }
                    Err(error) => break Err(error),
                }
            };
            (source, ledger, result)
        });
        ReadAhead { batches, empties, thread }
    }

    /// The next batch of events in time order; `None` at the end.
    pub fn next_batch(&mut self) -> Option<Vec<Event>> {
        self.batches.recv().ok()
    }

    /// Gives a batch's memory back.
    pub fn recycle(&mut self, batch: Vec<Event>) {
        let _ = self.empties.try_send(batch);
    }

    /// Waits for the reader and returns what it counted; an error if the trace could not be read on.
    pub fn finish(self) -> Result<Finished, TraceError> {
        drop(self.batches);
        match self.thread.join() {
            Ok((source, ledger, result)) => {
                result?;
                Ok(Finished { info: source.info().clone(), ledger })
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
