//! The trial's side of its watchdog: what is set goes through it, and if it is gone, the trial restores.

use crate::applied_settings::{AppliedSettingsError, SettingsLock};
use crate::host_limits::HostLimits;
use crate::messages::{Messages, Received, TrialEnding, WatchOrder, WatchReply, WatchRequest};
use crate::placed_setting::PlacedSetting;
use crate::tried_setting::TriedSetting;
use crate::watchdog::{Guests, LeftByTrial, chain, restore_left};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the watchdog waits for a sign of life.
pub const LEASE: Duration = Duration::from_secs(3);

/// How often it gets one.
const BEAT: Duration = Duration::from_millis(100);

/// How long the watchdog may take to set or restore.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same in a guest: each of up to eight commands, to set, to look again and to restore, has its time.
const GUEST_PATIENCE: Duration = Duration::from_secs(45);

/// A trial's settings, with the lock on them.
pub struct TrialLock {
    root: PathBuf,
    state: PathBuf,
    lock: SettingsLock,
}

impl TrialLock {
    /// Takes the lock, and restores what an earlier trial left.
    pub fn take(root: &Path, state: &Path) -> Result<(TrialLock, LeftByTrial), AppliedSettingsError> {
        let (left, lock) = restore_left(root, state, SettingsLock::take(root, state)?, Guests::GivenUp)?;
        Ok((TrialLock { root: root.to_path_buf(), state: state.to_path_buf(), lock }, left))
    }
}

/// A watchdog that watches.
pub struct TrialGuard {
    child: Child,
    messages: Messages,
    lock: TrialLock,
    /// How long the watchdog may take to answer.
    patience: Duration,
    /// Whether the child has been waited for.
    is_over: bool,
    /// How the settings were left, once they are.
    ended: Option<TrialEnding>,
}

/// Why a watchdog does not watch.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The process was not started.
    #[error("cannot start the watchdog, and without one nothing is set")]
    NotStarted(#[source] io::Error),
    /// It did not answer.
    #[error("the watchdog does not answer, so nothing was set")]
    Silent,
    /// It refused.
    #[error("{0}; nothing was set")]
    Refused(String),
}

impl TrialGuard {
    /// Starts `program`, which is to call [`watch_trial`](crate::watch_trial) with its standard input and output.
    ///
    /// It restores, and ends the trial, also when the host is beyond one of `limits`.
    pub fn start(
        mut program: Command,
        tried: &TriedSetting,
        lock: TrialLock,
        limits: HostLimits,
    ) -> Result<TrialGuard, GuardError> {
        let start = || -> io::Result<(Child, UnixStream)> {
            let (ours, theirs) = UnixStream::pair()?;
            program.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(lock.lock.shared()?));
            let child = program.spawn()?;
            // Else the pair would stay open on this side when the watchdog is gone.
            drop(program);
            Ok((child, ours))
        };
        let (child, stream) = start().map_err(GuardError::NotStarted)?;
        let order = WatchOrder {
            root: lock.root.clone(),
            state: lock.state.clone(),
            lease: LEASE,
            limits,
            name: tried.name().to_string(),
            targets: tried.places.iter().map(|place| place.target().map(str::to_string)).collect(),
            in_force: tried.in_force.clone(),
            values: tried.values.clone(),
        };
        let is_in_guest = tried.places.iter().any(PlacedSetting::is_in_guest);
        let patience = if is_in_guest { GUEST_PATIENCE } else { PATIENCE };
        let messages = Messages::new(stream);
        let mut guard = TrialGuard { child, messages, lock, patience, is_over: false, ended: None };
        guard.messages.send(&WatchRequest::Begin(order)).map_err(GuardError::NotStarted)?;
        match guard.messages.receive(PATIENCE) {
            Received::Message(WatchReply::Ready) => Ok(guard),
            Received::Message(WatchReply::Ended(TrialEnding { why: Some(why), .. })) => Err(GuardError::Refused(why)),
            _ => Err(GuardError::Silent),
        }
    }

    /// Has a value set, by its position: 0 is the one that was in force. Otherwise says why the trial is over.
    pub fn set(&mut self, value: usize) -> Result<(), String> {
        self.ask(&WatchRequest::Set(value))
    }

    /// Waits this long, unless `is_over` says why the trial is over, which is asked several times a second.
    pub fn wait(&mut self, length: Duration, is_over: &mut dyn FnMut() -> Option<String>) -> Result<(), String> {
        let until = Instant::now() + length;
        loop {
            self.beat()?;
            if let Some(why) = is_over() {
                return Err(why);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            match self.messages.receive::<WatchReply>(left.min(BEAT)) {
                Received::Nothing => {}
                came => return Err(self.take_end(came)),
            }
        }
    }

    /// A sign of life.
    pub fn beat(&mut self) -> Result<(), String> {
        match self.messages.send(&WatchRequest::Beat) {
            Ok(()) => Ok(()),
            Err(_) => {
                let came = self.messages.receive(Duration::ZERO);
                Err(self.take_end(came))
            }
        }
    }

    /// Restores what was in force.
    pub fn restore(mut self) -> TrialEnding {
        if self.ended.is_none() {
            let _ = self.ask(&WatchRequest::Restore);
        }
        self.end()
    }

    /// Leaves a value in force, by its position, and notes it.
    pub fn keep(mut self, value: usize) -> TrialEnding {
        if self.ended.is_none() {
            let _ = self.ask(&WatchRequest::Keep(value));
        }
        self.end()
    }

    fn ask(&mut self, request: &WatchRequest) -> Result<(), String> {
        // What is sent to a watchdog that has ended fails, or is never answered; both is found by receiving.
        let _ = self.messages.send(request);
        match self.messages.receive(self.patience) {
            Received::Message(WatchReply::Set) => Ok(()),
            came => Err(self.take_end(came)),
        }
    }

    /// Takes what the watchdog did at its end; if it is gone without a word, does it.
    fn take_end(&mut self, came: Received<WatchReply>) -> String {
        if let Some(ended) = &self.ended {
            return ended.why.clone().unwrap_or_default();
        }
        let ended = match came {
            Received::Message(WatchReply::Ended(ended)) => ended,
            Received::Closed => self.restore_alone("the watchdog has ended"),
            _ => self.restore_alone("the watchdog does not answer"),
        };
        self.ended.insert(ended).why.clone().unwrap_or_default()
    }

    /// Restores without the watchdog, which is first ended for sure.
    fn restore_alone(&mut self, why: &str) -> TrialEnding {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_over = true;
        let shared = self.lock.lock.shared().map(SettingsLock::inherited).map_err(|error| error.to_string());
        let left = shared.and_then(|lock| {
            restore_left(&self.lock.root, &self.lock.state, lock, Guests::Kept).map_err(|error| chain(&error))
        });
        let ended = match left {
            Ok((LeftByTrial::Restored(ended), _)) => ended,
            Ok(_) => TrialEnding::default(),
            Err(error) => TrialEnding { failed: vec![format!("not restored: {error}")], ..TrialEnding::default() },
        };
        TrialEnding { why: Some(why.to_string()), ..ended }
    }

    fn end(mut self) -> TrialEnding {
        self.ended.take().unwrap_or_default()
    }
}

impl Drop for TrialGuard {
    /// Whatever happens, the settings are restored before the lock is let go: a closed socket makes the watchdog do it.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let _ = self.messages.close();
        let until = Instant::now() + self.patience;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > until {
                let _ = self.restore_alone("the watchdog does not answer");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_settings::tests::host_with_one_knob;
    use crate::placed_setting::SettingTargets;
    use std::fs;

    struct Host {
        root: tempfile::TempDir,
        knob: PathBuf,
        state: PathBuf,
    }

    impl Host {
        fn new() -> Host {
            let (root, _, knob) = host_with_one_knob();
            fs::write(&knob, "777\n").unwrap();
            let state = root.path().join("state/applied.json");
            Host { root, knob, state }
        }

        /// Watched by a shell's script, whose standard input is the socket.
        fn watched_by(&self, script: &str) -> Result<TrialGuard, GuardError> {
            let mut program = Command::new("sh");
            program.args(["-c", script]);
            let tried = TriedSetting::find("halt_poll_ns=0", self.root.path(), &SettingTargets::default()).unwrap();
            let (lock, left) = TrialLock::take(self.root.path(), &self.state).unwrap();
            assert_eq!(left, LeftByTrial::Nothing);
            TrialGuard::start(program, &tried, lock, HostLimits::none())
        }
    }

    fn line(reply: &WatchReply) -> String {
        format!("echo '{}' >&0; ", serde_json::to_string(reply).unwrap())
    }

    #[test]
    fn a_watchdog_that_refuses_says_why_and_one_that_says_nothing_is_silent() {
        let host = Host::new();
        let ended = TrialEnding { why: Some("the host is too busy".to_string()), ..TrialEnding::default() };
        let refused = host.watched_by(&format!("read order; {}", line(&WatchReply::Ended(ended)))).map(|_| ());
        assert!(matches!(&refused, Err(GuardError::Refused(why)) if why == "the host is too busy"), "{refused:?}");
        let silent = host.watched_by("read order").map(|_| ());
        assert!(matches!(silent, Err(GuardError::Silent)), "{silent:?}");
    }

    #[test]
    fn what_a_watchdog_says_at_its_end_is_how_it_ends() {
        let ended = TrialEnding {
            why: Some("host_load>1".to_string()),
            done: vec!["halt_poll_ns=777".to_string()],
            ..TrialEnding::default()
        };
        let script = format!(
            "read order; {}while read request; do case $request in *Set*) {} exit ;; esac; done",
            line(&WatchReply::Ready),
            line(&WatchReply::Ended(ended.clone()))
        );
        let mut guard = Host::new().watched_by(&script).unwrap();
        let mut asked = 0;
        let waited = guard.wait(2 * BEAT, &mut || {
            asked += 1;
            None
        });
        assert!(waited.is_ok() && asked > 1, "{waited:?} after {asked}");
        assert_eq!(guard.wait(BEAT, &mut || Some("enough".to_string())), Err("enough".to_string()));
        assert_eq!(guard.set(1), Err("host_load>1".to_string()));
        assert_eq!(guard.restore(), ended);
    }

    #[test]
    fn where_the_watchdog_is_gone_the_trial_restores_or_says_that_it_could_not() {
        let host = Host::new();
        let script = format!("read order; {}read request", line(&WatchReply::Ready));
        let mut guard = host.watched_by(&script).unwrap();
        let why = Some("the watchdog has ended".to_string());
        assert_eq!(guard.set(1).err(), why);
        assert_eq!(guard.keep(1), TrialEnding { why: why.clone(), ..TrialEnding::default() });
        assert_eq!(fs::read_to_string(&host.knob).unwrap(), "777\n");
        let guard = host.watched_by(&script).unwrap();
        fs::write(crate::applied_settings::tried_path(&host.state), "?").unwrap();
        let ended = guard.restore();
        assert_eq!(ended.why, why);
        assert!(ended.failed.len() == 1 && ended.failed[0].starts_with("not restored: "), "{ended:?}");
    }
}
