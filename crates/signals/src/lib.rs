//! Signals that ask the process to end. Work that takes long asks now and then whether one came.

mod workload;

pub use workload::Workload;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::signal_name;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of the last signal that came; 0: none.
static CAUGHT: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Catches SIGINT, SIGTERM and SIGHUP from now on; SIGHUP not where it is ignored (nohup). A second signal of a kind ends the
/// process at once.
pub fn catch_signals() -> io::Result<()> {
    let caught = Arc::new(AtomicUsize::new(0));
    if CAUGHT.set(caught.clone()).is_err() {
        return Ok(());
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(SIGHUP) {
            continue;
        }
        let again = Arc::new(AtomicBool::new(false));
        flag::register_conditional_default(signal, again.clone())?;
        flag::register(signal, again)?;
        flag::register_usize(signal, caught.clone(), signal as usize)?;
    }
    Ok(())
}

/// Takes no notice of SIGINT, SIGTERM and SIGHUP from now on, which end a process otherwise.
pub fn ignore_signals() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A flag that nobody reads: the signal is caught, and does nothing.
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// The name of the signal that came, like `SIGINT`, if one has.
pub fn signalled() -> Option<&'static str> {
    signal_name(CAUGHT.get()?.load(Ordering::SeqCst) as i32)
}

/// Whether this process ignores a signal, by the mask in /proc.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
