//! The process of the watchdog: this program once more, with an argument that people have no use for.

use exitscope_apply::{GuardError, HostLimits, TrialGuard, TrialLock, TriedSetting, watch_trial};
use exitscope_signals::ignore_signals;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

/// Its one argument.
const WATCHDOG: &str = "--watch-trial";

/// Starts it for a trial of this setting; it holds the lock, too.
pub fn start_watchdog(tried: &TriedSetting, lock: TrialLock, limits: HostLimits) -> Result<TrialGuard, GuardError> {
    let mut program = Command::new("/proc/self/exe");
    program.arg(WATCHDOG).stderr(Stdio::inherit());
    TrialGuard::start(program, tried, lock, limits)
}

/// Whether this process is to be a watchdog.
pub fn is_watchdog() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == WATCHDOG)
}

/// The watchdog's process: its standard input is the socket, its standard output the file that is locked, to which nothing is
/// written.
pub fn run_watchdog() -> ExitCode {
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
    let Ok((stream, lock)) = prepare() else { return ExitCode::from(2) };
    let Some(ending) = watch_trial(stream, lock) else { return ExitCode::SUCCESS };
    let mut stderr = io::stderr();
    for line in ending.why.iter().chain(&ending.done).chain(&ending.failed) {
        // Nobody may read it any more.
        let _ = writeln!(stderr, "exitscope: watchdog of the trial: {}", exitscope_model::encode::message(line));
    }
    ExitCode::SUCCESS
}
