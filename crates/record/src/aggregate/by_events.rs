//! Counting by perf events: a thread that drains a [`Capture`] and folds what it gives.

use super::exit_counter::{CountReading, Fold};
use super::snapshot::{CountedVcpu, VcpuRunner};
use crate::{Capture, CaptureOptions, Processes, RecordError, Tracepoint};
use exitscope_model::{Event, EventKind};
use exitscope_trace::tracefs::Decoder;
use exitscope_units::{Moment, PcpuId, VcpuId};
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the rings are emptied.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of the ring of each CPU.
const BUFFER: usize = 4 << 20;

/// Events of virtual cores that are kept until they are taken, at most.
const MAX_CORE_EVENTS: usize = 1 << 18;

#[derive(Debug)]
pub struct ByEvents {
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
    drainer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    fold: Fold,
    capture: Capture,
    decoders: Vec<Decoder>,
    /// Events name the virtual CPU, and any thread fires them.
    by_vcpu: bool,
    /// None: of every process.
    processes: Option<HashSet<u32>>,
    /// Events that tell of virtual cores' runs, if they are wanted.
    core_events: Option<Vec<Event>>,
    /// Up to when events were used.
    drained: u64,
    error: Option<RecordError>,
}

impl ByEvents {
    /// `by_vcpu`: events name the virtual CPU; then `with_cores` keeps those that tell of virtual cores' runs.
    pub fn start(
        sources: Vec<(Tracepoint, Decoder)>,
        by_vcpu: bool,
        with_cores: bool,
        processes: &Processes,
        fold: Fold,
    ) -> Result<ByEvents, RecordError> {
        let (tracepoints, decoders) = sources.into_iter().unzip();
        let wanted = CaptureOptions { tracepoints, processes: Processes::All, buffer: BUFFER, without_bpf: true };
        let shared = Shared {
            fold,
            capture: Capture::start(wanted)?,
            decoders,
            by_vcpu,
            processes: match processes {
                Processes::All => None,
                Processes::These(these) => Some(these.iter().copied().collect()),
            },
            core_events: (by_vcpu && with_cores).then(Vec::new),
            drained: 0,
            error: None,
        };
        let (shared, stop) = (Arc::new(Mutex::new(shared)), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (shared.clone(), stop.clone());
        let drainer = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                lock(&theirs).drain();
                std::thread::sleep(DRAIN_INTERVAL);
            }
        });
        Ok(ByEvents { shared, stop, drainer: Some(drainer) })
    }

    pub fn read(&mut self, gone: &BTreeSet<CountedVcpu>) -> Result<(u64, CountReading), RecordError> {
        let mut shared = lock(&self.shared);
        shared.drain();
        shared.error.take().map_or(Ok(()), Err)?;
        Ok((shared.drained, shared.fold.read(shared.drained, gone)))
    }

    /// The events that tell of virtual cores' runs, since the last call; `None` where there are none.
    pub fn take_core_events(&mut self) -> Option<Vec<Event>> {
        lock(&self.shared).core_events.as_mut().map(std::mem::take)
    }

    pub fn forget(&mut self, lane: CountedVcpu) {
        lock(&self.shared).fold.forget(lane);
    }

    pub fn watch(&mut self, process: u32) {
        if let Some(processes) = &mut lock(&self.shared).processes {
            processes.insert(process);
        }
    }
}

impl Drop for ByEvents {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(drainer) = self.drainer.take() {
            // It cannot fail but by a panic, which has been printed.
            let _ = drainer.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(|failed| failed.into_inner())
}

impl Shared {
    fn drain(&mut self) {
        let Shared { fold, capture, decoders, by_vcpu, processes, core_events, drained: until, error } = self;
        let mut record = Vec::new();
        let drained = capture.drain(|sample| {
            let Some(decoder) = decoders.get(sample.tracepoint) else { return };
            let Some(event) = sample.event(decoder, &mut record) else { return };
            let (process, kind) = (event.vm.0, event.kind);
            // The scheduler's are about threads, of which those that count are known.
            let is_scheduler = matches!(kind, EventKind::Switch { .. } | EventKind::Wakeup { .. });
            if !is_scheduler && processes.as_ref().is_some_and(|wanted| !wanted.contains(&process)) {
                return;
            }
            if let Some(kept) = core_events
                && matches!(kind, EventKind::RunCore { .. } | EventKind::Exit { .. } | EventKind::Enter)
            {
                if kept.len() >= MAX_CORE_EVENTS {
                    // Nobody takes them: runs that are under way are told of anew from here on.
                    *kept = vec![Event::lost(event.at, event.cpu, kept.len() as u64)];
                }
                kept.push(event);
            }
            let runner = match (*by_vcpu, event.vcpu) {
                (false, _) => VcpuRunner::Thread(sample.thread),
                (true, VcpuId::UNKNOWN) => return,
                (true, vcpu) => VcpuRunner::Vcpu(vcpu.0),
            };
            if kind != (EventKind::Fpu { load: false }) {
                fold.take(CountedVcpu { process, runner }, sample.time, kind, event.vcpu);
            }
        });
        match drained {
            Ok(drained) => {
                *until = drained.until;
                // Of CPUs that came on line nobody knows what they did before: one loss each, so that it is seen.
                let lost = drained.lost.iter().map(|(_, count)| count).sum::<u64>() + drained.came.len() as u64;
                if lost > 0 {
                    fold.lose(lost);
                    let at = Moment::from_nanos(drained.until);
                    core_events.iter_mut().for_each(|kept| kept.push(Event::lost(at, PcpuId(0), lost)));
                }
            }
            Err(trouble) => *error = Some(trouble),
        }
    }
}
