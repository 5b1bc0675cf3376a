//! Counting by perf events: a thread that drains a [`Capture`] and folds what it gives.

use super::fold::{Fold, Reading};
use super::snapshot::{Lane, Runner};
use crate::bpf::Source;
use crate::tracepoints::COMMON;
use crate::{Capture, Processes, RecordError, Wanted};
use exitscope_model::Kind;
use exitscope_trace::tracefs::{Decoder, Order};
use exitscope_units::VcpuId;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the rings are emptied.
const TURN: Duration = Duration::from_millis(10);

/// Bytes of the ring of each CPU.
const BUFFER: usize = 4 << 20;

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
    error: Option<RecordError>,
}

impl ByEvents {
    pub fn start(
        sources: Vec<Source>,
        by_vcpu: bool,
        processes: &Processes,
        fold: Fold,
    ) -> Result<ByEvents, RecordError> {
        let (tracepoints, decoders) = sources.into_iter().map(|(tracepoint, decoder, _)| (tracepoint, decoder)).unzip();
        let wanted = Wanted { tracepoints, processes: Processes::All, buffer: BUFFER, without_bpf: true };
        let shared = Shared {
            fold,
            capture: Capture::start(wanted)?,
            decoders,
            by_vcpu,
            processes: match processes {
                Processes::All => None,
                Processes::These(these) => Some(these.iter().copied().collect()),
            },
            error: None,
        };
        let (shared, stop) = (Arc::new(Mutex::new(shared)), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (shared.clone(), stop.clone());
        let drainer = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                lock(&theirs).drain();
                std::thread::sleep(TURN);
            }
        });
        Ok(ByEvents { shared, stop, drainer: Some(drainer) })
    }

    pub fn read(&mut self) -> Result<Reading, RecordError> {
        let mut shared = lock(&self.shared);
        shared.drain();
        shared.error.take().map_or(Ok(()), Err)?;
        Ok(shared.fold.read())
    }

    pub fn forget(&mut self, lane: Lane) {
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
        let Shared { fold, capture, decoders, by_vcpu, processes, error } = self;
        let mut record = Vec::new();
        let drained = capture.drain(|sample| {
            let Some(decoder) = decoders.get(sample.tracepoint) else { return };
            // Decoders know where fields are in whole records.
            record.clear();
            record.resize(COMMON, 0);
            record.extend_from_slice(sample.payload);
            let Some(decoded) = decoder.decode(&record, Order::NATIVE) else { return };
            let process = decoder.vm(&record, Order::NATIVE).map_or(sample.process, |vm| vm.0);
            if processes.as_ref().is_some_and(|wanted| !wanted.contains(&process)) {
                return;
            }
            let runner = match (*by_vcpu, decoded.vcpu) {
                (false, _) => Runner::Thread(sample.thread),
                (true, VcpuId::UNKNOWN) => return,
                (true, vcpu) => Runner::Vcpu(vcpu.0),
            };
            if decoded.kind != (Kind::Fpu { load: false }) {
                fold.take(Lane { process, runner }, sample.time, decoded.kind, decoded.vcpu);
            }
        });
        match drained {
            Ok(drained) => {
                let lost: u64 = drained.lost.iter().map(|(_, count)| count).sum();
                if lost > 0 {
                    fold.lose(lost);
                }
            }
            Err(trouble) => *error = Some(trouble),
        }
    }
}
