//! The user's own metric: a command that prints a number, a file with a counter, or a query to a Prometheus server.

use crate::prometheus_query::{PrometheusQuery, TurnQuery};
use exitscope_trial::{Better, MetricUnit, TrialMetric};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of what a command prints that are kept: the last ones.
const KEPT: usize = 16 << 10;

/// Bytes of a counter's file that are read.
const COUNTER: u64 = 4096;

/// How long output may still come when the command has ended, on a host with little time for the threads that read it.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// The same of standard error: both together are shorter than the watchdog's lease.
const LAST_ERRORS: Duration = Duration::from_millis(300);

/// What a number that was printed counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricScale {
    /// The unit that it is kept in.
    pub unit: MetricUnit,
    /// What it is multiplied with.
    pub scale: f64,
}

impl MetricScale {
    /// A number of whatever.
    pub const NONE: MetricScale = MetricScale { unit: MetricUnit::Number, scale: 1.0 };

    /// The unit of this name.
    pub fn parse(text: &str) -> Result<MetricScale, String> {
        let of = |unit, scale| Ok(MetricScale { unit, scale });
        match text {
            "ns" => of(MetricUnit::Time, 1.0),
            "us" => of(MetricUnit::Time, 1e3),
            "ms" => of(MetricUnit::Time, 1e6),
            "s" => of(MetricUnit::Time, 1e9),
            "%" => of(MetricUnit::Share, 1.0),
            "/s" => of(MetricUnit::PerSecond, 1.0),
            _ => Err("a unit is ns, us, ms, s, % or /s".to_string()),
        }
    }
}

/// Where numbers come from.
#[derive(Clone, Debug)]
pub enum MetricSource {
    /// A command, and what its number counts.
    Command(String, MetricScale),
    /// A file with a counter.
    Counter(PathBuf),
    /// A query, and what its number counts.
    Prometheus(PrometheusQuery, MetricScale),
}

/// A measurement that was begun.
pub enum Measuring {
    Command(RunningCommand),
    Counter(u64, Instant),
    Prometheus(TurnQuery),
}

/// A command while it runs. It is killed with all that it started if it is dropped.
pub struct RunningCommand {
    child: Child,
    /// Its process group, which has the child's number, until it was killed.
    group: Option<Pid>,
    output: LastBytes,
    errors: LastBytes,
    scale: MetricScale,
}

impl MetricSource {
    /// As a metric of a trial. Unless it is said, higher values of a rate are better, and lower values of what else there is;
    /// [`MetricSource::has_usual_direction`] says whether that is more than a guess.
    pub fn metric(&self, better: Option<Better>) -> TrialMetric {
        let unit = match self {
            MetricSource::Counter(_) => MetricUnit::PerSecond,
            MetricSource::Command(_, scale) | MetricSource::Prometheus(_, scale) => scale.unit,
        };
        let usual = if unit == MetricUnit::PerSecond { Better::Higher } else { Better::Lower };
        TrialMetric { name: "metric".to_string(), unit, better: better.unwrap_or(usual) }
    }

    /// Whether it is known which values of it are better: of a time lower ones, of a rate higher ones; of other numbers it is not.
    pub fn has_usual_direction(&self) -> bool {
        matches!(self.metric(None).unit, MetricUnit::Time | MetricUnit::PerSecond)
    }

    /// What it is, in words.
    pub fn text(&self) -> String {
        match self {
            MetricSource::Command(command, _) => format!("what `{command}` prints"),
            MetricSource::Counter(path) => format!("the rate of the counter in {}", path.display()),
            MetricSource::Prometheus(query, _) => format!("`{}`, asked of {}", query.query, query.address),
        }
    }

    /// Begins to measure.
    pub fn begin(&self) -> Result<Measuring, String> {
        match self {
            MetricSource::Command(command, scale) => RunningCommand::start(command, *scale).map(Measuring::Command),
            MetricSource::Counter(path) => Ok(Measuring::Counter(counter(path)?, Instant::now())),
            MetricSource::Prometheus(query, _) => Ok(Measuring::Prometheus(query.begin())),
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
            (MetricSource::Prometheus(_, scale), Measuring::Prometheus(query)) => Ok(query.end()? * scale.scale),
            _ => Err("nothing was measured".to_string()),
        }
    }
}

impl Measuring {
    /// The turn has ended: what is measured then is begun. Returns how long it is waited for at most, if not for some turns.
    pub fn turn_ended(&mut self) -> Option<Duration> {
        match self {
            Measuring::Prometheus(query) => Some(query.ask()),
            Measuring::Command(_) | Measuring::Counter(..) => None,
        }
    }

    /// Whether a command has not ended yet, or a query is not answered yet.
    pub fn is_running(&mut self) -> bool {
        match self {
            Measuring::Command(command) => command.ended().is_none(),
            Measuring::Counter(..) => false,
            Measuring::Prometheus(query) => query.is_asked(),
        }
    }

    /// Why there will be no value, if that is known before the turn ends.
    pub fn failed(&mut self) -> Option<String> {
        match self {
            Measuring::Command(command) => (command.ended() == Some(false)).then(|| command.failure("ended")),
            Measuring::Counter(..) | Measuring::Prometheus(_) => None,
        }
    }
}

/// The first number of a file.
fn counter(path: &Path) -> Result<u64, String> {
    let text = first_bytes(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let number = text.split_whitespace().next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("{} does not begin with a counter: a number without sign or point", path.display()))
}

/// The first bytes of a regular file, and of nothing at which one waits.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(COUNTER).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl RunningCommand {
    fn start(command: &str, scale: MetricScale) -> Result<RunningCommand, String> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that all of it can be ended.
        let mut child =
            shell.process_group(0).spawn().map_err(|error| format!("cannot run the metric's command: {error}"))?;
        let [output, errors] = [child.stdout.take().map(LastBytes::of), child.stderr.take().map(LastBytes::of)]
            .map(Option::unwrap_or_default);
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(RunningCommand { child, group, output, errors, scale })
    }

    fn end(mut self) -> Result<f64, String> {
        match self.ended() {
            Some(true) => {}
            Some(false) => return Err(self.failure("ended")),
            None => return Err(self.failure("has not ended within four turns and two seconds; make --turn longer")),
        }
        self.finish().map_err(|error| error.to_string())?;
        let text = self.output.text(LAST_OUTPUT);
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        match line.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * self.scale.scale),
            _ => Err(self.failure(&printed(line))),
        }
    }

    /// Whether it ended well, if it has ended. It is not waited for: until then nobody else has its number.
    fn ended(&self) -> Option<bool> {
        let child = WaitId::Pid(self.group?);
        match waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.exit_status() == Some(0)),
            Err(_) => Some(false),
        }
    }

    /// Ends what is left of it, also what it left in the background, which may hold its output open; then waits for it.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait()
    }

    /// What went wrong, with the last line of standard error.
    fn failure(&mut self, what: &str) -> String {
        let what = match self.finish() {
            Ok(code) if what == "ended" => format!("the metric's command ended with {code}"),
            _ => format!("the metric's command {what}"),
        };
        let text = self.errors.text(LAST_ERRORS);
        match text.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => format!("{what}: {}", line.trim()),
            None => what,
        }
    }
}

/// What a command has done whose last line is no value.
fn printed(line: &str) -> String {
    if line.is_empty() {
        return "printed nothing".to_string();
    }
    let what = format!("printed {line:?} as its last line, which is not a number from 0 on");
    let unit = line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.').trim();
    match unit.len() < line.len() && MetricScale::parse(unit).is_ok() {
        true => format!("{what}: let it print the number alone, and name the unit by --unit {unit}"),
        false => what,
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The last bytes that came so far, which a thread reads until no more do.
#[derive(Default)]
struct LastBytes {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl LastBytes {
    fn of(mut from: impl Read + Send + 'static) -> LastBytes {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let Ok(mut kept) = shared.lock() else { return };
                kept.extend_from_slice(&bytes[..count]);
                let too_many = kept.len().saturating_sub(KEPT);
                kept.drain(..too_many);
            }
        });
        LastBytes { kept, reader: Some(reader) }
    }

    /// What came, once no more does or somebody who outlives the command has kept it open for long enough.
    fn text(&self, within: Duration) -> String {
        let until = Instant::now() + within;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        self.kept.lock().map(|kept| String::from_utf8_lossy(&kept).into_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_one_of_few() {
        assert_eq!(MetricScale::parse("ms"), Ok(MetricScale { unit: MetricUnit::Time, scale: 1e6 }));
        assert!(MetricScale::parse("h").is_err());
    }
    use std::fs;

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
            ("true", "the metric's command printed nothing"),
            ("echo; echo warming up >&2", "the metric's command printed nothing: warming up"),
            (
                "echo 12 ms",
                "printed \"12 ms\" as its last line, which is not a number from 0 on: let it print the number alone, and name \
                 the unit by --unit ms",
            ),
            ("echo 3 h", "printed \"3 h\" as its last line, which is not a number from 0 on"),
            ("echo ms", "printed \"ms\" as its last line, which is not a number from 0 on"),
            ("echo inf", "printed \"inf\" as its last line, which is not a number from 0 on"),
            ("no-such-command", "ended with exit status: 127: "),
            ("kill -9 $$", "ended with signal: 9"),
        ] {
            let error = of(command, long).unwrap_err();
            assert!(error.contains(says), "{command}: {error}");
        }
        // Who holds the output open, in a session of its own, cannot hide what was printed.
        assert_eq!(of("setsid sleep 3 & echo 5", long), Ok(5e6));
        let error = of("echo waiting >&2; sleep 30", Duration::from_millis(200)).unwrap_err();
        assert!(
            error.ends_with("has not ended within four turns and two seconds; make --turn longer: waiting"),
            "{error}"
        );
    }

    #[test]
    fn what_a_command_has_left_in_the_background_ends_with_the_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id");
        let source = MetricSource::Command(format!("sleep 60 & echo $! > {}; echo 1", id.display()), MetricScale::NONE);
        let mut measuring = source.begin().unwrap();
        while measuring.is_running() {
            thread::sleep(Duration::from_millis(2));
        }
        let id: u32 = fs::read_to_string(id).unwrap().trim().parse().unwrap();
        let is_running = || fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(is_running());
        // As if the trial were ended before the turn.
        drop(measuring);
        let until = Instant::now() + Duration::from_secs(10);
        while is_running() {
            assert!(Instant::now() < until, "process {id} is left");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_counter_is_read_from_a_regular_file_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = MetricSource::Counter(path.to_path_buf()).begin().err().unwrap();
            assert!(error.ends_with("not a regular file"), "{error}");
        }
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
