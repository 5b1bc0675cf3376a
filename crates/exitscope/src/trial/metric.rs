//! The user's own metric: a command that prints a number, or a file with a counter.

use super::args::MetricScale;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of what a command prints that are kept: the last ones.
const KEPT: usize = 16 << 10;

/// How long output may still come when the command has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Where numbers come from.
#[derive(Clone, Debug)]
pub enum MetricSource {
    /// A command, and what its number counts.
    Command(String, MetricScale),
    /// A file with a counter.
    Counter(PathBuf),
}

/// A measurement that was begun.
pub enum Measuring {
    Command(RunningCommand),
    Counter(u64, Instant),
}

/// A command while it runs. It is killed with all that it started if it is dropped.
pub struct RunningCommand {
    child: Child,
    output: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    scale: MetricScale,
}

impl MetricSource {
    /// Begins to measure.
    pub fn begin(&self) -> Result<Measuring, String> {
        match self {
            MetricSource::Command(command, scale) => RunningCommand::start(command, *scale).map(Measuring::Command),
            MetricSource::Counter(path) => Ok(Measuring::Counter(counter(path)?, Instant::now())),
        }
    }

    /// The value of the turn that ends now.
    pub fn end(&self, measuring: Measuring) -> Result<f64, String> {
        match (self, measuring) {
            (_, Measuring::Command(command)) => command.end(),
            (MetricSource::Counter(path), Measuring::Counter(before, began)) => {
                let (now, length) = (counter(path)?, began.elapsed().as_secs_f64());
                let more = now
                    .checked_sub(before)
                    .ok_or_else(|| format!("the counter in {} has gone back from {before} to {now}", path.display()))?;
                Ok(more as f64 / length)
            }
            (MetricSource::Command(..), Measuring::Counter(..)) => Err("nothing was measured".to_string()),
        }
    }
}

impl Measuring {
    /// Whether a command has not ended yet.
    pub fn is_running(&mut self) -> bool {
        match self {
            Measuring::Command(command) => matches!(command.child.try_wait(), Ok(None)),
            Measuring::Counter(..) => false,
        }
    }

    /// Why there will be no value, if that is known before the turn ends.
    pub fn failed(&mut self) -> Option<String> {
        match self {
            Measuring::Command(command) => match command.child.try_wait() {
                Ok(Some(code)) if !code.success() => Some(command.failure(&format!("ended with {code}"))),
                _ => None,
            },
            Measuring::Counter(..) => None,
        }
    }
}

/// The first number of a file.
fn counter(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let number = text.split_whitespace().next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("{} does not begin with a counter: a number without sign or point", path.display()))
}

impl RunningCommand {
    fn start(command: &str, scale: MetricScale) -> Result<RunningCommand, String> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that all of it can be ended.
        let mut child =
            shell.process_group(0).spawn().map_err(|error| format!("cannot run the metric's command: {error}"))?;
        let output = child.stdout.take().map_or_else(|| channel().1, last_bytes);
        let errors = child.stderr.take().map_or_else(|| channel().1, last_bytes);
        Ok(RunningCommand { child, output, errors, scale })
    }

    fn end(mut self) -> Result<f64, String> {
        match self.child.try_wait() {
            Ok(Some(code)) if code.success() => {}
            Ok(Some(code)) => return Err(self.failure(&format!("ended with {code}"))),
            Ok(None) => return Err(self.failure("has not ended within four turns; make --turn longer")),
            Err(error) => return Err(self.failure(&error.to_string())),
        }
        // What it left in the background may hold its output open.
        self.kill();
        let output = self.output.recv_timeout(LAST_OUTPUT).unwrap_or_default();
        let text = String::from_utf8_lossy(&output);
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        match line.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * self.scale.scale),
            _ => Err(self.failure(&format!("printed {line:?} as its last line, which is not a number from 0 on"))),
        }
    }

    /// What went wrong, with the last line of standard error.
    fn failure(&self, what: &str) -> String {
        self.kill();
        let errors = self.errors.recv_timeout(LAST_OUTPUT).unwrap_or_default();
        let text = String::from_utf8_lossy(&errors);
        match text.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => format!("the metric's command {what}: {}", line.trim()),
            None => format!("the metric's command {what}"),
        }
    }

    fn kill(&self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // Its group keeps its number until it has been waited for, or as long as somebody is in it.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// The last bytes that come, once no more do.
fn last_bytes(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut kept, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            kept.extend_from_slice(&bytes[..count]);
            let too_many = kept.len().saturating_sub(KEPT);
            kept.drain(..too_many);
        }
        sender.send(kept)
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, wait: Duration) -> Result<f64, String> {
        let scale = MetricScale { scale: 1e6, ..MetricScale::NONE };
        let source = MetricSource::Command(command.to_string(), scale);
        let mut measuring = source.begin()?;
        let until = Instant::now() + wait;
        while Instant::now() < until && measuring.is_running() {
            thread::sleep(Duration::from_millis(2));
        }
        match measuring.failed() {
            Some(why) => Err(why),
            None => source.end(measuring),
        }
    }

    #[test]
    fn the_last_line_of_a_command_is_its_number_and_whatever_else_is_an_error() {
        let long = Duration::from_secs(20);
        assert_eq!(of("echo many words; echo 2.5; echo", long), Ok(2.5e6));
        assert_eq!(of("yes 1 | head -100000; echo 7", long), Ok(7e6));
        for (command, says) in [
            ("echo no >&2; exit 3", "ended with exit status: 3: no"),
            ("echo fast", "printed \"fast\" as its last line"),
            ("echo -1", "printed \"-1\" as its last line"),
            ("true", "printed \"\" as its last line"),
        ] {
            let error = of(command, long).unwrap_err();
            assert!(error.contains(says), "{command}: {error}");
        }
        let error = of("echo waiting >&2; sleep 30", Duration::from_millis(200)).unwrap_err();
        assert!(error.ends_with("has not ended within four turns; make --turn longer: waiting"), "{error}");
    }

    #[test]
    fn a_counter_is_a_rate_and_does_not_go_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counter");
        let source = MetricSource::Counter(path.clone());
        fs::write(&path, "1000 packets\n").unwrap();
        let Measuring::Counter(before, _) = source.begin().unwrap() else { panic!("a counter") };
        fs::write(&path, "1500 packets\n").unwrap();
        let rate = source.end(Measuring::Counter(before, Instant::now() - Duration::from_secs(10))).unwrap();
        assert!((49.0..=50.0).contains(&rate), "{rate}");
        fs::write(&path, "999\n").unwrap();
        let error = source.end(Measuring::Counter(before, Instant::now())).unwrap_err();
        assert!(error.contains("has gone back from 1000 to 999"), "{error}");
        fs::write(&path, "-1\n").unwrap();
        assert!(source.begin().is_err());
    }
}
