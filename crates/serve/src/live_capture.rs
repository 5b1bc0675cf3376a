//! What happens now: recorded by a thread of its own, and made a page of when somebody looks.

use crate::cached_page::CachedPage;
use crate::live_page::write_live_page;
use exitscope_http::{Bytes, SseChannel, SseEvent};
use exitscope_model::TraceInfo;
use exitscope_pipeline::{RecentSlices, SampleDecoder};
use exitscope_record::{
    Capture, CaptureOptions, Processes, RecordError, TracingBackend, of_kvm, of_scheduler, tracefs,
};
use exitscope_units::{Moment, Nanos};
use std::error::Error;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// How often the rings are emptied.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// How often browsers are told that there is more.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(1);

/// What is recorded, and how.
pub struct LiveOptions {
    /// This host, as a recording made on it says of it.
    pub info: TraceInfo,
    /// Whose exits.
    pub processes: Processes,
    /// For how long what happened is kept.
    pub keep: Nanos,
    /// Bytes of each CPU's ring.
    pub buffer: usize,
    /// Whether events of the scheduler are recorded, too.
    pub scheduler: bool,
    /// Whether BPF is not to be used.
    pub without_bpf: bool,
    /// Takes what there is to say of the recording while it is at work.
    pub say: fn(&str),
}

/// Why nothing is recorded, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// It cannot begin.
    #[error(transparent)]
    Begin(#[from] RecordError),
    /// It cannot go on.
    #[error("cannot record any more")]
    GoOn(#[source] RecordError),
    /// It ended, and nobody asked for that.
    #[error("the recording ended before it began")]
    Ended,
    /// It panicked.
    #[error("an error in exitscope ended the recording")]
    Panicked,
}

/// A recording at work.
pub struct LiveCapture {
    thread: JoinHandle<Result<(), LiveError>>,
    stop: Arc<AtomicBool>,
    view: Rc<LiveView>,
}

/// What there is to be seen of a recording at work.
pub struct LiveView {
    keep: Nanos,
    notes: SseChannel,
    /// Of what the ring holds when somebody asks.
    page: CachedPage,
}

impl LiveCapture {
    /// Begins.
    pub fn start(options: LiveOptions) -> Result<LiveCapture, LiveError> {
        let LiveOptions { mut info, processes, keep, buffer, scheduler, without_bpf, say } = options;
        let tracefs = tracefs()?;
        let mut tracepoints = of_kvm(&tracefs)?;
        tracepoints.retain(SampleDecoder::takes);
        if scheduler {
            tracepoints.extend(of_scheduler(&tracefs).unwrap_or_default());
        }
        let wanted = CaptureOptions { tracepoints, processes, buffer, without_bpf };
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, notes) = watch::channel(SseEvent::default());
        let (ready, begun) = mpsc::channel();
        let asked = stop.clone();
        let thread = spawn(move || {
            let mut capture = Capture::start(wanted)?;
            if let TracingBackend::PerfEvents { because } = capture.route() {
                say(&format!("recording by perf events, as BPF may not be used: {because}"));
            }
            let decoder = SampleDecoder::new(capture.tracepoints(), &mut info.names);
            // The moments of a recording begin here.
            let begin = Moment::from_nanos(capture.drain(|_| {})?.until);
            let ring = Arc::new(Mutex::new(RecentSlices::new(info, begin, keep)));
            // Nobody waits any more if something else went wrong meanwhile.
            let _ = ready.send(ring.clone());
            record(&mut capture, decoder, &ring, (&tell, say), &asked)
        });
        let Ok(ring) = begun.recv() else {
            return Err(ended(thread).err().unwrap_or(LiveError::Ended));
        };
        let view = Rc::new(LiveView::new(keep, ring, notes));
        Ok(LiveCapture { thread, stop, view })
    }

    /// What there is to be seen.
    pub fn view(&self) -> Rc<LiveView> {
        self.view.clone()
    }

    /// Whether recording ended by itself, which it does only if something is wrong.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it.
    pub fn end(self) -> Result<(), LiveError> {
        self.stop.store(true, Ordering::Relaxed);
        ended(self.thread)
    }
}

fn ended(thread: JoinHandle<Result<(), LiveError>>) -> Result<(), LiveError> {
    thread.join().unwrap_or(Err(LiveError::Panicked))
}

fn record(
    capture: &mut Capture,
    mut decoder: SampleDecoder,
    ring: &Mutex<RecentSlices>,
    (tell, say): (&watch::Sender<SseEvent>, fn(&str)),
    stop: &AtomicBool,
) -> Result<(), LiveError> {
    // Versions of this run are no other run's.
    let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (mut told, mut exits, mut version) = (Instant::now(), 0, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let drained = capture.drain(|sample| decoder.take(sample)).map_err(LiveError::GoOn)?;
        for cpu in drained.came {
            say(&format!("CPU {cpu} came online: events of its first moments there are not shown"));
        }
        for (cpu, count) in drained.lost {
            decoder.lose(drained.until, cpu, count);
        }
        let mut ring = lock(ring);
        ring.absorb(&decoder, Moment::from_nanos(drained.until));
        decoder.clear();
        if told.elapsed() >= NOTIFY_INTERVAL {
            let per_s = (ring.exits - exits) as f64 / told.elapsed().as_secs_f64();
            (told, exits, version) = (Instant::now(), ring.exits, version + 1);
            let data = format!("{{\"exits_per_s\":{per_s:.1},\"exits\":{exits},\"lost\":{}}}", ring.lost);
            tell.send_replace(SseEvent { id: format!("{run:x}-{version}"), data });
        }
        drop(ring);
        sleep(DRAIN_INTERVAL);
    }
    Ok(())
}

/// An error with all that led to it.
fn whole_text(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", whole_text(source)),
        None => error.to_string(),
    }
}

fn lock(ring: &Mutex<RecentSlices>) -> MutexGuard<'_, RecentSlices> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveView {
    /// What there is to be seen of this ring, which keeps so much, and is noted here.
    pub fn new(keep: Nanos, ring: Arc<Mutex<RecentSlices>>, notes: SseChannel) -> LiveView {
        let make = move || {
            let copy = lock(&ring).copy();
            let mut data = Vec::new();
            write_live_page(copy, &mut data).map(|()| data).map_err(|error| whole_text(&error))
        };
        let noted = notes.clone();
        let page = CachedPage::with_version(Arc::new(make), move || noted.borrow().id.clone());
        LiveView { keep, notes, page }
    }

    /// Nanoseconds of it that are kept.
    pub fn keep(&self) -> u64 {
        self.keep.0
    }

    /// Notes, every second.
    pub fn notes(&self) -> SseChannel {
        self.notes.clone()
    }

    /// Version and data of what is kept, or why there are none; `None` if it takes long to make.
    pub async fn data(&self) -> Option<Result<(String, Bytes), String>> {
        self.page.data().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_error_is_said_with_what_led_to_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("no page")]
        struct NoPage(#[source] io::Error);
        assert_eq!(whole_text(&NoPage(io::Error::other("the disk is full"))), "no page: the disk is full");
    }

    #[test]
    fn how_it_ended_is_said() {
        assert!(ended(spawn(|| Ok(()))).is_ok());
        assert!(matches!(ended(spawn(|| Err(LiveError::Ended))), Err(LiveError::Ended)));
        assert!(matches!(ended(spawn(|| panic!("a test"))), Err(LiveError::Panicked)));
    }
}
