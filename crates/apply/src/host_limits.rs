//! Limits of the host's own health, which the watchdog of a trial checks itself: `host_steal>20%`.
//!
//! ```text
//! --abort-on ─► HostLimit ─► HostLimits, with the usual one ─ WatchOrder ─► HostHealth: /proc ─► why the trial ends
//! ```
//!
//! *Why the watchdog.* A trial's own limits are looked at after each turn, and not while its command waits, is stopped or
//! cannot run. A host without memory or CPU time is where that happens.
//!
//! *Why only memory has a usual limit.* A benchmark may raise load, steal, and pressure on CPUs and disks as far as it
//! likes: that is its purpose. That all tasks wait for memory at the same time (`full`), for a tenth of the time, is not what a
//! host does that works.

use crate::CpuTicks;
use crate::cpu_ticks;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What all names begin with, so that none is the name of a trial's metric.
const PREFIX: &str = "host_";

/// The usual limit of memory pressure, in per cent.
const USUAL_MEMORY_PRESSURE: f64 = 10.0;

/// How long steal is averaged: as long as the kernel does for pressure.
const SPAN: Duration = Duration::from_secs(10);

/// How much of that there must be: a single tick of a short time is a large part of it.
const LEAST_SPAN: Duration = Duration::from_secs(2);

/// What is measured of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum HostMeasure {
    /// Time that the host, itself a virtual machine, could run and had no CPU, in per cent of the time of all CPUs.
    Steal,
    /// Tasks that run, are ready to run, or wait for a disk: the average of the last minute.
    Load,
    /// Time in which some task waited for a CPU, in per cent.
    CpuPressure,
    /// Time in which all tasks that had something to do waited for memory, in per cent.
    MemoryPressure,
    /// Time in which all tasks that had something to do waited for a disk, in per cent.
    IoPressure,
}

/// All measures: name, file below the root, and how it is called in a sentence.
const MEASURES: &[(HostMeasure, &str, &str, &str)] = &[
    (HostMeasure::Steal, "host_steal", cpu_ticks::FILE, "steal"),
    (HostMeasure::Load, "host_load", "proc/loadavg", "load"),
    (HostMeasure::CpuPressure, "host_cpu_pressure", "proc/pressure/cpu", "CPU pressure (some)"),
    (HostMeasure::MemoryPressure, "host_memory_pressure", "proc/pressure/memory", "memory pressure (full)"),
    (HostMeasure::IoPressure, "host_io_pressure", "proc/pressure/io", "I/O pressure (full)"),
];

/// A limit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct HostLimit {
    measure: HostMeasure,
    /// In per cent; of load, a number of tasks.
    limit: f64,
    /// Whether the limit itself is beyond it, too.
    is_inclusive: bool,
}

/// The limits of a trial, each of another measure.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct HostLimits(Vec<HostLimit>);

/// Why there is no such limit.
#[derive(Debug, thiserror::Error)]
pub enum HostLimitError {
    /// No upper limit in it.
    #[error("{0:?} is no limit of the host: write a measure, > or >= and a limit, like 'host_steal>20%'")]
    NoOperator(String),
    /// No such measure.
    #[error("{0:?} is not measured of the host; there are {names}", names = names())]
    NoMeasure(String),
    /// Not a number of the measure's unit.
    #[error("{1:?} is no limit for {0}, which is {2}")]
    BadLimit(&'static str, String, &'static str),
    /// A measure has two limits.
    #[error("{0} has two limits")]
    Twice(&'static str),
    /// The host does not say it.
    #[error("{0}: cannot read {path}{hint}", path = .1.display(), hint = hint(.1))]
    NotMeasured(&'static str, PathBuf, #[source] io::Error),
    /// It is beyond the limit before anything was set.
    #[error("{0}: the trial does not start; `--abort-on` with a higher limit allows it")]
    Passed(String),
}

impl HostMeasure {
    fn row(self) -> &'static (HostMeasure, &'static str, &'static str, &'static str) {
        MEASURES.iter().find(|row| row.0 == self).expect("each measure has a row")
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    fn of(self) -> MeasuredOf {
        match self {
            HostMeasure::Load => MeasuredOf { unit: "a number, like 40", sign: "", span: "minute" },
            HostMeasure::Steal | HostMeasure::CpuPressure | HostMeasure::MemoryPressure | HostMeasure::IoPressure => {
                MeasuredOf { unit: "a share in per cent, like 20%", sign: "%", span: "10 s" }
            }
        }
    }

    fn text(self, value: f64) -> String {
        format!("{}{}", (value * 10.0).round() / 10.0, self.of().sign)
    }
}

/// What a measure is a number of.
struct MeasuredOf {
    unit: &'static str,
    /// What follows a number.
    sign: &'static str,
    /// How long it is an average of.
    span: &'static str,
}

impl HostLimit {
    /// Whether a text is meant to be a limit of the host, and not of a trial's metric.
    pub fn is_meant(text: &str) -> bool {
        text.trim_start().starts_with(PREFIX)
    }

    /// Reads a limit: `host_steal>20%`, `host_load>=40`.
    pub fn parse(text: &str) -> Result<HostLimit, HostLimitError> {
        let no_operator = || HostLimitError::NoOperator(text.to_string());
        let (name, limit) = text.split_once('>').ok_or_else(no_operator)?;
        let (is_inclusive, limit) = limit.strip_prefix('=').map_or((false, limit), |limit| (true, limit));
        let (name, limit) = (name.trim(), limit.trim());
        let no_measure = || HostLimitError::NoMeasure(name.to_string());
        let measure = MEASURES.iter().find(|row| row.1 == name).ok_or_else(no_measure)?.0;
        let number = limit.strip_suffix(measure.of().sign).map(str::trim_end);
        let number = number.and_then(|number| number.parse::<f64>().ok()).filter(|number| (0.0..1e9).contains(number));
        let bad = || HostLimitError::BadLimit(measure.name(), limit.to_string(), measure.of().unit);
        Ok(HostLimit { measure, limit: number.ok_or_else(bad)?, is_inclusive })
    }

    /// Why the host is beyond it with this value, if it is. What is no number is beyond.
    fn passed(&self, value: f64, span: &str) -> Option<String> {
        let is_within = value < self.limit || (value == self.limit && !self.is_inclusive);
        let (measure, than) = (self.measure, if self.is_inclusive { "not less" } else { "more" });
        (!is_within).then(|| {
            let [value, limit] = [value, self.limit].map(|value| measure.text(value));
            format!("the host's {} was {value} in the last {span}, {than} than {limit}", measure.row().3)
        })
    }
}

impl fmt::Display for HostLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.is_inclusive { ">=" } else { ">" };
        write!(f, "{}{operator}{}", self.measure.name(), self.measure.text(self.limit))
    }
}

impl HostLimits {
    /// These limits, and the usual one of memory if it is not among them and the host below `root` measures it. All can be
    /// measured, and none is passed yet, as far as that is known at once.
    pub fn new(root: &Path, named: Vec<HostLimit>) -> Result<HostLimits, HostLimitError> {
        for (at, limit) in named.iter().enumerate() {
            if named[..at].iter().any(|other| other.measure == limit.measure) {
                return Err(HostLimitError::Twice(limit.measure.name()));
            }
        }
        let usual =
            HostLimit { measure: HostMeasure::MemoryPressure, limit: USUAL_MEMORY_PRESSURE, is_inclusive: false };
        let mut limits = named;
        if limits.iter().all(|limit| limit.measure != usual.measure) && read(root, usual.measure).is_ok() {
            limits.push(usual);
        }
        let limits = HostLimits(limits);
        match HostHealth::new(root, limits.clone()).look(Instant::now())? {
            Some(why) => Err(HostLimitError::Passed(why)),
            None => Ok(limits),
        }
    }

    /// No limit, not even the usual one.
    pub fn none() -> HostLimits {
        HostLimits::default()
    }

    /// Each limit, as it is typed.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(|limit| limit.to_string()).collect()
    }
}

/// What a host's files say at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reading {
    /// An average.
    Average(f64),
    /// Since boot.
    Ticks(CpuTicks),
}

/// A host whose limits are checked now and then.
pub struct HostHealth {
    root: PathBuf,
    limits: HostLimits,
    /// What the CPUs did up to moments of the last [`SPAN`].
    ticks: VecDeque<(Instant, CpuTicks)>,
}

impl HostHealth {
    /// The host below `root`, of which nothing was read yet.
    pub fn new(root: &Path, limits: HostLimits) -> HostHealth {
        HostHealth { root: root.to_path_buf(), limits, ticks: VecDeque::new() }
    }

    /// Why the host is beyond a limit, if it is. What can no longer be read is not known to be within.
    pub fn trouble(&mut self, now: Instant) -> Option<String> {
        match self.look(now) {
            Ok(why) => why,
            Err(error) => Some(crate::watchdog::chain(&error)),
        }
    }

    fn look(&mut self, now: Instant) -> Result<Option<String>, HostLimitError> {
        for limit in self.limits.0.clone() {
            let why = match read(&self.root, limit.measure)? {
                Reading::Average(value) => limit.passed(value, limit.measure.of().span),
                Reading::Ticks(ticks) => self
                    .steal(now, ticks)
                    .and_then(|(share, over)| limit.passed(share, &format!("{:.0} s", over.as_secs_f64()))),
            };
            if why.is_some() {
                return Ok(why);
            }
        }
        Ok(None)
    }

    /// Steal in per cent, and of how long, once that is long enough.
    fn steal(&mut self, now: Instant, ticks: CpuTicks) -> Option<(f64, Duration)> {
        self.ticks.push_back((now, ticks));
        // The first that is kept is the last one that is old enough.
        while self.ticks.get(1).is_some_and(|second| now.duration_since(second.0) >= SPAN) {
            self.ticks.pop_front();
        }
        let &(then, before) = self.ticks.front()?;
        let (over, CpuTicks { steal, all, .. }) = (now.duration_since(then), ticks.since(&before));
        (over >= LEAST_SPAN && all > 0).then(|| (100.0 * steal as f64 / all as f64, over))
    }
}

/// Reads a measure of the host below `root`.
fn read(root: &Path, measure: HostMeasure) -> Result<Reading, HostLimitError> {
    let path = root.join(measure.row().2);
    let cannot = |error| HostLimitError::NotMeasured(measure.name(), path.clone(), error);
    let in_text: fn(&str) -> Option<f64> = match measure {
        HostMeasure::Steal => return CpuTicks::read(root).map(Reading::Ticks).map_err(cannot),
        HostMeasure::Load => |text| text.split_whitespace().next()?.parse().ok(),
        HostMeasure::CpuPressure => |text| pressure(text, "some"),
        HostMeasure::MemoryPressure | HostMeasure::IoPressure => |text| pressure(text, "full"),
    };
    let text = fs::read_to_string(&path).map_err(cannot)?;
    in_text(&text).map(Reading::Average).ok_or_else(|| cannot(io::Error::other("not in the kernel's layout")))
}

/// The average of ten seconds, as Documentation/accounting/psi.rst has it: `full avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure(text: &str, kind: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    let average = line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
    average.parse().ok()
}

fn names() -> String {
    MEASURES.iter().map(|row| row.1).collect::<Vec<_>>().join(", ")
}

fn hint(path: &Path) -> &'static str {
    match path.components().any(|part| part.as_os_str() == "pressure") {
        true => "; pressure needs a kernel with CONFIG_PSI, not booted with psi=0",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            fs::create_dir_all(host.0.path().join("proc/pressure")).unwrap();
            host
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.0.path().join("proc").join(path), text).unwrap();
        }

        fn memory(&self, full: &str) {
            let rest = "avg60=0.00 avg300=0.00 total=0";
            self.write("pressure/memory", &format!("some avg10=99.00 {rest}\nfull avg10={full} {rest}\n"));
        }

        fn limits(&self, texts: &[&str]) -> Result<HostLimits, HostLimitError> {
            HostLimits::new(self.0.path(), texts.iter().map(|text| HostLimit::parse(text).unwrap()).collect())
        }

        fn health(&self, texts: &[&str]) -> HostHealth {
            HostHealth::new(self.0.path(), self.limits(texts).unwrap())
        }
    }

    #[test]
    fn of_pressure_it_is_said_what_a_kernel_needs() {
        assert!(hint(Path::new("/proc/pressure/memory")).contains("CONFIG_PSI"));
        assert_eq!(hint(Path::new("/proc/loadavg")), "");
    }

    #[test]
    fn limits_are_read_as_people_write_them_and_nonsense_is_refused() {
        for (text, kept) in [
            ("host_steal>20%", "host_steal>20%"),
            (" host_load >= 40 ", "host_load>=40"),
            ("host_memory_pressure>2.5 %", "host_memory_pressure>2.5%"),
        ] {
            assert!(HostLimit::is_meant(text));
            assert_eq!(HostLimit::parse(text).unwrap().to_string(), kept);
        }
        assert!(!HostLimit::is_meant("steal>30%"));
        for (text, says) in [
            ("host_steal<20%", "\"host_steal<20%\" is no limit of the host: write a measure, > or >= and a limit"),
            ("host_stael>20%", "\"host_stael\" is not measured of the host; there are host_steal, host_load, "),
            ("host_steal>20", "\"20\" is no limit for host_steal, which is a share in per cent, like 20%"),
            ("host_load>40%", "\"40%\" is no limit for host_load, which is a number, like 40"),
            ("host_load>NaN", "\"NaN\" is no limit for host_load"),
            ("host_load>-1", "\"-1\" is no limit for host_load"),
        ] {
            let said = HostLimit::parse(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn memory_has_a_limit_unless_another_is_named_or_the_host_does_not_measure_it() {
        let host = Host::new();
        assert_eq!(host.limits(&[]).unwrap(), HostLimits::none());
        let said = host.limits(&["host_memory_pressure>10%"]).unwrap_err().to_string();
        assert!(said.contains("cannot read") && said.contains("CONFIG_PSI"), "{said}");
        host.memory("3.00");
        assert_eq!(host.limits(&[]).unwrap().texts(), ["host_memory_pressure>10%"]);
        assert_eq!(host.limits(&["host_memory_pressure>50%"]).unwrap().texts(), ["host_memory_pressure>50%"]);
        let twice = host.limits(&["host_memory_pressure>50%", "host_memory_pressure>60%"]).unwrap_err();
        assert_eq!(twice.to_string(), "host_memory_pressure has two limits");
        host.memory("10.01");
        let said = host.limits(&[]).unwrap_err().to_string();
        let why = "the host's memory pressure (full) was 10% in the last 10 s, more than 10%";
        assert!(said.starts_with(why), "{said}");
        assert!(host.limits(&["host_memory_pressure>50%"]).is_ok());
    }

    #[test]
    fn pressure_and_load_beyond_a_limit_are_told_with_both_numbers() {
        let host = Host::new();
        host.memory("0.00");
        host.write("loadavg", "39.90 2.00 1.00 7/128 17478\n");
        host.write("pressure/cpu", "some avg10=80.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n");
        host.write("pressure/io", "some avg10=90.00 avg60=0\nfull avg10=5.00 avg60=0.00\n");
        let texts = ["host_load>40", "host_cpu_pressure>=90%", "host_io_pressure>20%"];
        let mut health = host.health(&texts);
        assert_eq!(health.trouble(Instant::now()), None);
        host.write("loadavg", "40.25 2.00 1.00 7/128 17478\n");
        let said = health.trouble(Instant::now()).unwrap();
        assert_eq!(said, "the host's load was 40.3 in the last minute, more than 40");
        host.write("loadavg", "40.00 2.00 1.00 7/128 17478\n");
        host.write("pressure/cpu", "some avg10=90.00 avg60=0.00\n");
        let said = health.trouble(Instant::now()).unwrap();
        assert_eq!(said, "the host's CPU pressure (some) was 90% in the last 10 s, not less than 90%");
        // What can no longer be read is not known to be within.
        fs::remove_file(host.0.path().join("proc/loadavg")).unwrap();
        assert!(health.trouble(Instant::now()).unwrap().starts_with("host_load: cannot read "));
    }

    #[test]
    fn steal_is_that_of_the_last_ten_seconds() {
        let host = Host::new();
        let at =
            |steal: u64, other: u64| host.write("stat", &format!("cpu  {other} 0 0 0 0 0 0 {steal} 50 0\ncpu0 1\n"));
        at(500, 1_000);
        let mut health = host.health(&["host_steal>20%"]);
        let start = Instant::now();
        let mut look = |seconds: u64| health.trouble(start + Duration::from_secs(seconds));
        assert_eq!(look(0), None, "what was before counts for nothing");
        at(600, 1_000);
        assert_eq!(look(1), None, "too short");
        assert_eq!(look(2).unwrap(), "the host's steal was 100% in the last 2 s, more than 20%");
        at(600, 1_800);
        assert_eq!(look(9), None);
        at(600, 1_900);
        assert_eq!(look(20), None, "the steal of the first second is past");
        at(950, 2_550);
        assert_eq!(look(30).unwrap(), "the host's steal was 35% in the last 10 s, more than 20%");
    }

    #[test]
    fn this_machine_is_measured() {
        for (measure, ..) in MEASURES {
            let is_optional = measure.row().2.contains("pressure");
            assert!(read(Path::new("/"), *measure).is_ok() || is_optional, "{}", measure.name());
        }
    }
}
