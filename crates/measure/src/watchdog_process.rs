//! The process of the watchdog: this program once more, with an argument that people have no use for.

use crate::this_program;
use exitscope_apply::{GuardError, HostLimits, TrialGuard, TrialLock, TriedSetting, watch_trial};
use exitscope_signals::ignore_signals;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// Its one argument.
const WATCHDOG: &str = "--watch-trial";

/// Starts it for a trial of this setting; it holds the lock, too.
pub fn start_watchdog(tried: &TriedSetting, lock: TrialLock, limits: HostLimits) -> Result<TrialGuard, GuardError> {
    let mut program = this_program();
    program.arg(WATCHDOG).stderr(Stdio::inherit());
    TrialGuard::start(program, tried, lock, limits)
}

/// Whether a process of these arguments, of which the first is the program's name, is to be a watchdog.
pub fn is_watchdog(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == WATCHDOG)
}

/// The watchdog's process: its standard input is the socket, its standard output the file that is locked, to which nothing is
/// written. Returns the code to exit with.
pub fn run_watchdog() -> u8 {
    let prepare = || -> io::Result<(UnixStream, File)> {
        ignore_signals()?;
        // A session of its own: what ends the terminal's does not end it. If it leads a process group, it has one already.
        let _ = rustix::process::setsid();
        // The kernel is to end others first if memory is short. Without the right to say so it does without.
        let _ = fs::write("/proc/self/oom_score_adj", "-1000");
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        stream.peer_addr()?;
        Ok((stream, File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    };
    let Ok((stream, lock)) = prepare() else { return 2 };
    let Some(ending) = watch_trial(stream, lock) else { return 0 };
    let mut stderr = io::stderr();
    for line in ending.why.iter().chain(&ending.done).chain(&ending.failed) {
        // Nobody may read it any more.
        let _ = writeln!(stderr, "exitscope: watchdog of the trial: {}", exitscope_model::encode::message(line));
    }
    0
}
