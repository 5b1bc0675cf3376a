//! Keeps runs within their bounds: of time, and of what the user's patience is.
//!
//! ```text
//! Watch::run(limit, vcpus, body): a thread for each vCPU ─► body(vcpu, watch) ─► results
//!                                 a watchdog: limit passed · SIGINT, SIGTERM · a body failed ─► all are kicked out
//! ```
//!
//! When `run` returns, all its threads are gone. Whoever blocks outside of KVM_RUN waits on a [`Parker`], or asks
//! [`Watch::is_over`] now and then.

use crate::{Kick, KvmExit, LabError, LabVcpu};
use exitscope_signals::signalled;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the watchdog, and whoever is parked, looks whether it is over.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Whether a run has to end.
#[derive(Debug)]
pub struct Watch {
    limit: Duration,
    began: Instant,
    stop: AtomicBool,
    done: (Mutex<bool>, Condvar),
}

impl Watch {
    /// A run that begins now and may take so long.
    pub fn new(limit: Duration) -> Watch {
        Watch { limit, began: Instant::now(), stop: AtomicBool::new(false), done: Default::default() }
    }

    /// Whether the run has to end: whoever finds so returns [`Watch::why`] or what it has.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Why the run has to end.
    pub fn why(&self) -> LabError {
        match signalled() {
            Some(signal) => LabError::Signal(signal),
            None if self.began.elapsed() >= self.limit => LabError::TimeOut(self.limit),
            None => LabError::Stopped,
        }
    }

    /// Runs `body` on a thread for each vCPU, to the end of all. The first trouble ends the others, and is what is said.
    pub fn run<T: Send>(
        &self,
        vcpus: &mut [LabVcpu],
        body: impl Fn(&mut LabVcpu, &Watch) -> Result<T, LabError> + Sync,
    ) -> Result<Vec<T>, LabError> {
        let kicks: Vec<Kick> = vcpus.iter().map(LabVcpu::kick).collect();
        let jobs = vcpus.iter_mut().map(|vcpu| {
            let body = &body;
            move || body(vcpu, self)
        });
        self.run_jobs(&kicks, jobs.collect())
    }

    /// Runs jobs that use the vCPUs of `kicks`, each on a thread, to the end of all.
    pub fn run_jobs<T: Send, J: FnOnce() -> Result<T, LabError> + Send>(
        &self,
        kicks: &[Kick],
        jobs: Vec<J>,
    ) -> Result<Vec<T>, LabError> {
        let results: Vec<Result<T, LabError>> = thread::scope(|scope| {
            scope.spawn(|| self.watch(kicks));
            let threads: Vec<_> = jobs
                .into_iter()
                .map(|job| {
                    scope.spawn(move || {
                        let result = job();
                        if result.is_err() {
                            self.stop();
                        }
                        result
                    })
                })
                .collect();
            let results = threads.into_iter().map(|thread| thread.join());
            let results: Vec<_> = results.collect();
            *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.done.1.notify_all();
            results.into_iter().map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        // That one was stopped is said only where nobody knows why.
        let mut failed = None;
        let mut fine = Vec::new();
        for result in results {
            match result {
                Ok(value) => fine.push(value),
                Err(LabError::Stopped) => failed = failed.or(Some(LabError::Stopped)),
                Err(error) if matches!(failed, None | Some(LabError::Stopped)) => failed = Some(error),
                Err(_) => {}
            }
        }
        failed.map_or(Ok(fine), Err)
    }

    fn watch(&self, kicks: &[Kick]) {
        let mut done = self.done.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*done {
            if signalled().is_some() || self.began.elapsed() >= self.limit {
                self.stop();
            }
            if self.is_over() {
                // Again and again: one that was just about to enter the guest is met the next time.
                kicks.iter().for_each(Kick::kick);
            }
            done = self.done.1.wait_timeout(done, END_POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Where a vCPU's thread waits until somebody wakes it: a wake-up that comes first is kept, one at most.
#[derive(Debug, Default)]
pub struct Parker {
    permit: Mutex<bool>,
    woken: Condvar,
    asleep: AtomicBool,
}

impl Parker {
    /// Whether whoever parks here sleeps, with no wake-up there yet, or will never run again.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Whoever parks here will never run again.
    pub fn retire(&self) {
        self.asleep.store(true, Ordering::Relaxed);
    }

    /// Takes the wake-up that is there, if one is.
    pub fn take(&self) -> bool {
        std::mem::take(&mut *self.permit.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a wake-up, or takes the one that is there. False: the run is over.
    pub fn park(&self, watch: &Watch) -> bool {
        self.park_until(watch, None)
    }

    /// As [`park`](Self::park), but no longer than to `moment`.
    pub fn park_until(&self, watch: &Watch, moment: Option<Instant>) -> bool {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        while !*permit {
            let left = moment.map(|moment| moment.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return true;
            }
            if watch.is_over() {
                return false;
            }
            let wait = left.unwrap_or(END_POLL_INTERVAL).min(END_POLL_INTERVAL);
            self.asleep.store(true, Ordering::Relaxed);
            permit = self.woken.wait_timeout(permit, wait).unwrap_or_else(PoisonError::into_inner).0;
            self.asleep.store(false, Ordering::Relaxed);
        }
        *permit = false;
        true
    }

    /// Wakes whoever is parked here, or who will be next.
    pub fn wake(&self) {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        *permit = true;
        self.asleep.store(false, Ordering::Relaxed);
        drop(permit);
        self.woken.notify_one();
    }
}

/// Runs a vCPU to its next exit that is not a kick; a kick ends the run if it is over.
pub fn next_exit(vcpu: &mut LabVcpu, watch: &Watch) -> Result<KvmExit, LabError> {
    loop {
        match vcpu.run()? {
            KvmExit::Kicked if watch.is_over() => return Err(watch.why()),
            KvmExit::Kicked => {}
            exit => return Ok(exit),
        }
    }
}
