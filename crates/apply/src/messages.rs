//! What a trial and its watchdog tell each other: lines of JSON over a pair of sockets.

use crate::applied_settings;
use crate::host_limits::HostLimits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of a message at most: it names as many settings as a state file does.
const MOST: usize = applied_settings::MOST as usize;

/// From the trial to the watchdog.
#[derive(Debug, Deserialize, Serialize)]
pub enum WatchRequest {
    /// The first one.
    Begin(WatchOrder),
    /// Set a value, by its position.
    Set(usize),
    /// The trial is alive.
    Beat,
    /// Restore what was in force, and end.
    Restore,
    /// Leave a value in force, by its position, and end.
    Keep(usize),
}

/// What a watchdog may set.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WatchOrder {
    /// The root of the host's files.
    pub root: PathBuf,
    /// The state file of what is applied.
    pub state: PathBuf,
    /// How long the watchdog waits for a message before it restores.
    pub lease: Duration,
    /// Where the host's health ends the trial.
    pub limits: HostLimits,
    /// The setting's name.
    pub name: String,
    /// Its places, as state files name them.
    pub targets: Vec<Option<String>>,
    /// The value in force at each of them.
    pub in_force: Vec<String>,
    /// The values that may be set.
    pub values: Vec<String>,
}

/// From the watchdog to the trial.
#[derive(Debug, Deserialize, Serialize)]
pub enum WatchReply {
    /// It watches.
    Ready,
    /// The value is set at each place, and was read back.
    Set,
    /// It has ended, and sets nothing any more.
    Ended(TrialEnding),
}

/// How the settings were left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TrialEnding {
    /// Why the watchdog ended the trial; `None` if it was asked to end.
    pub why: Option<String>,
    /// Whether a value was left in force, and noted.
    pub kept: bool,
    /// Whether something was left as somebody else has set it, or as the kernel has.
    pub unchanged: bool,
    /// What was restored, and what somebody else has set and was left unchanged.
    pub done: Vec<String>,
    /// What could not be restored. The state file has it.
    pub failed: Vec<String>,
}

/// One end of the pair.
pub struct Messages {
    stream: UnixStream,
    /// What came of the next line.
    pending: Vec<u8>,
}

/// What came.
#[derive(Debug)]
pub enum Received<T> {
    /// A message.
    Message(T),
    /// Nothing within the time.
    Nothing,
    /// The other end is closed, or sends what is no message.
    Closed,
}

impl Messages {
    pub fn new(stream: UnixStream) -> Messages {
        Messages { stream, pending: Vec::new() }
    }

    /// Sends a message. What the other end does not take within a second is an error.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        self.stream.write_all(&line)
    }

    /// Tells the other end that nothing more comes.
    pub fn close(&self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Both)
    }

    /// The next message, if it comes within this time.
    pub fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> Received<T> {
        let until = Instant::now() + within;
        let mut bytes = [0; 4096];
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return serde_json::from_slice(&line).map_or(Received::Closed, Received::Message);
            }
            // A timeout of 0 is refused; one microsecond is none.
            let left = until.saturating_duration_since(Instant::now());
            if self.stream.set_read_timeout(Some(left.max(Duration::from_micros(1)))).is_err() {
                return Received::Closed;
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Received::Closed,
                Ok(_) if self.pending.len() > MOST => return Received::Closed,
                Ok(count) => self.pending.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= until {
                        return Received::Nothing;
                    }
                }
                Err(_) => return Received::Closed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the other end did not read makes the kernel reset the pair when it goes (net/unix/af_unix.c, `unix_release_sock`).
    #[test]
    fn an_end_that_goes_is_closed_and_one_that_waits_says_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut messages = Messages::new(ours);
        assert!(matches!(messages.receive::<u64>(Duration::ZERO), Received::Nothing));
        messages.send(&7_u64).unwrap();
        let mut other = Messages::new(theirs);
        assert!(matches!(other.receive(Duration::from_secs(10)), Received::Message(7_u64)));
        messages.send(&8_u64).unwrap();
        drop(other);
        assert!(matches!(messages.receive::<u64>(Duration::ZERO), Received::Closed));
    }
}
