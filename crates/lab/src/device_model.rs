//! Who answers the guest's accesses in user space: devices, on the vCPU's thread or on a device model's own.
//!
//! ```text
//! vCPU thread: exit ─► (registers) ─► (lock) ─► Device::act ──────────────────────► answer ─► KVM_RUN
//!                                        └────► DeviceThread::ask ─ wake ─► act ─ wake ─┘
//! ```

use crate::{IoAddress, LabError, Watch, ticks};
use exitscope_stats::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A device: counts what it is asked, and computes a little while.
#[derive(Debug)]
pub struct Device {
    /// Its first port or address.
    pub first: IoAddress,
    /// Its last one.
    pub last: IoAddress,
    /// Ticks that each access takes it.
    pub work: u64,
    /// Accesses so far: reads and writes.
    pub accesses: [AtomicU64; 2],
    lock: Mutex<()>,
}

impl Device {
    /// A device that takes so many ticks for each access.
    pub fn new(first: IoAddress, last: IoAddress, work: u64) -> Device {
        Device { first, last, work, accesses: Default::default(), lock: Mutex::default() }
    }

    /// Whether a place is its.
    pub fn has(&self, place: IoAddress) -> bool {
        self.first <= place && place <= self.last
    }

    /// One access. What a read gives: how many reads there were before.
    pub fn access(&self, write: bool) -> u64 {
        if self.work > 0 {
            let end = ticks() + self.work;
            while ticks() < end {
                std::hint::spin_loop();
            }
        }
        self.accesses[usize::from(write)].fetch_add(1, Ordering::Relaxed)
    }

    /// Its own lock.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device model's thread: one request at a time, from whichever vCPU comes first.
#[derive(Debug, Default)]
pub struct DeviceThread {
    state: Mutex<Request>,
    asked: Condvar,
    answered: Condvar,
    /// Ticks from the exit to the thread's first instruction.
    wake: Mutex<Histogram>,
}

#[derive(Debug, Default)]
enum Request {
    #[default]
    None,
    /// Asked at this moment: device's place in the list, and whether it is a write.
    Asked(u64, usize, bool),
    /// Somebody works on it.
    Taken,
    Answered(u64),
}

impl DeviceThread {
    /// Serves requests until the run is over.
    pub fn serve(&self, devices: &[Device], watch: &Watch) {
        let mut state = self.lock();
        while !watch.is_over() {
            if let Request::Asked(at, device, write) = *state {
                self.wakes().record(ticks().saturating_sub(at));
                *state = Request::Taken;
                drop(state);
                let value = devices.get(device).map_or(0, |device| device.access(write));
                state = self.lock();
                *state = Request::Answered(value);
                self.answered.notify_all();
            }
            state = self.asked.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The median of the ticks from an exit to the thread's first instruction; `None` of none.
    pub fn to_thread(&self) -> Option<f64> {
        self.wakes().quantile(5_000).map(|ticks| ticks as f64)
    }

    fn wakes(&self) -> MutexGuard<'_, Histogram> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread do an access, and waits for the answer. `at` is the moment of the exit.
    pub fn ask(&self, at: u64, device: usize, write: bool, watch: &Watch) -> Result<u64, LabError> {
        let mut state = self.lock();
        while !matches!(*state, Request::None) {
            state = self.wait(state, watch)?;
        }
        *state = Request::Asked(at, device, write);
        self.asked.notify_one();
        loop {
            if let Request::Answered(value) = *state {
                *state = Request::None;
                self.answered.notify_all();
                return Ok(value);
            }
            state = self.wait(state, watch)?;
        }
    }

    /// Whoever waits is told at the latest after a look whether the run is over.
    fn wait<'a>(&'a self, state: MutexGuard<'a, Request>, watch: &Watch) -> Result<MutexGuard<'a, Request>, LabError> {
        if watch.is_over() {
            return Err(watch.why());
        }
        Ok(self.answered.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn lock(&self) -> MutexGuard<'_, Request> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often one who waits looks whether the run is over.
const LOOK: Duration = Duration::from_millis(10);
