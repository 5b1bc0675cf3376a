//! What happens now: recorded by a thread of its own, and made a page of when somebody looks.

use super::feed::Feed;
use super::ring::Ring;
use crate::cli::ServeArgs;
use crate::host::Host;
use anyhow::{Context, anyhow};
use exitscope_http::{Bytes, Note, Notes};
use exitscope_record::{Capture, Route, Wanted, of_kvm, of_scheduler, tracefs};
use exitscope_units::{Moment, Nanos};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// How often the rings are emptied.
const TURN: Duration = Duration::from_millis(10);

/// How often browsers are told that there is more.
const TELL: Duration = Duration::from_secs(1);

/// A recording at work.
pub struct Live {
    thread: JoinHandle<anyhow::Result<()>>,
    stop: Arc<AtomicBool>,
    now: Rc<Now>,
}

/// What there is to be seen of it.
pub struct Now {
    keep: Nanos,
    ring: Arc<Mutex<Ring>>,
    notes: Notes,
    /// The last that was made, with its version. Who asks meanwhile waits, and has the same.
    made: tokio::sync::Mutex<Option<(String, Bytes)>>,
}

impl Live {
    /// Begins.
    pub fn start(args: &ServeArgs) -> anyhow::Result<Live> {
        let tracefs = tracefs()?;
        let mut tracepoints = of_kvm(&tracefs)?;
        tracepoints.retain(Feed::takes);
        if !args.no_sched {
            tracepoints.extend(of_scheduler(&tracefs).unwrap_or_default());
        }
        let processes = args.whose.processes()?;
        let wanted = Wanted { tracepoints, processes, buffer: args.buffer, without_bpf: args.no_bpf };
        let mut info = Host::new().info();
        let (stop, keep) = (Arc::new(AtomicBool::new(false)), args.keep);
        let (tell, notes) = watch::channel(Note::default());
        let (ready, begun) = mpsc::channel();
        let asked = stop.clone();
        let thread = spawn(move || {
            let mut capture = Capture::start(wanted)?;
            if let Route::PerfEvents { because } = capture.route() {
                say!("recording by perf events, as BPF may not be used: {because}");
            }
            let feed = Feed::new(capture.tracepoints(), &mut info.names);
            // The moments of a recording begin here.
            let begin = Moment::from_nanos(capture.drain(|_| {})?.until);
            let ring = Arc::new(Mutex::new(Ring::new(info, begin, keep)));
            // Nobody waits any more if something else went wrong meanwhile.
            let _ = ready.send(ring.clone());
            record(&mut capture, feed, &ring, &tell, &asked)
        });
        let Ok(ring) = begun.recv() else {
            return Err(ended(thread).err().unwrap_or_else(|| anyhow!("the recording ended before it began")));
        };
        let now = Now { keep, ring, notes, made: tokio::sync::Mutex::new(None) };
        Ok(Live { thread, stop, now: Rc::new(now) })
    }

    /// What there is to be seen.
    pub fn now(&self) -> Rc<Now> {
        self.now.clone()
    }

    /// Whether recording ended by itself, which it does only if something is wrong.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it.
    pub fn end(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        ended(self.thread)
    }
}

fn ended(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("an error in exitscope ended the recording")))
}

fn record(
    capture: &mut Capture,
    mut feed: Feed,
    ring: &Mutex<Ring>,
    tell: &watch::Sender<Note>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    // Versions of this run are no other run's.
    let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (mut told, mut exits, mut version) = (Instant::now(), 0, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let drained = capture.drain(|sample| feed.take(sample)).context("cannot record any more")?;
        for cpu in drained.came {
            say!("CPU {cpu} came on line: what happened there in its first moments is not shown");
        }
        for (cpu, count) in drained.lost {
            feed.lose(drained.until, cpu, count);
        }
        let mut ring = lock(ring);
        ring.absorb(&feed, Moment::from_nanos(drained.until));
        feed.clear();
        if told.elapsed() >= TELL {
            let per_s = (ring.exits - exits) as f64 / told.elapsed().as_secs_f64();
            (told, exits, version) = (Instant::now(), ring.exits, version + 1);
            let data = format!("{{\"exits_per_s\":{per_s:.1},\"exits\":{exits},\"lost\":{}}}", ring.lost);
            tell.send_replace(Note { id: format!("{run:x}-{version}"), data });
        }
        drop(ring);
        sleep(TURN);
    }
    Ok(())
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Now {
    /// Nanoseconds of it that are kept.
    pub fn keep(&self) -> u64 {
        self.keep.0
    }

    /// Notes, every second.
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Version and data of what is kept.
    pub async fn data(&self) -> Result<(String, Bytes), String> {
        let mut made = self.made.lock().await;
        let version = self.notes.borrow().id.clone();
        if let Some(made) = made.as_ref().filter(|made| made.0 == version) {
            return Ok(made.clone());
        }
        let ring = self.ring.clone();
        let written = spawn_blocking(move || {
            let copy = lock(&ring).copy();
            let mut data = Vec::new();
            copy.write(&mut data).map(|()| Bytes::from(data))
        });
        let data = written.await.map_err(|_| "an error in exitscope".to_string())?;
        let data = data.map_err(|error| format!("{error:#}"))?;
        *made = Some((version.clone(), data.clone()));
        Ok((version, data))
    }
}
