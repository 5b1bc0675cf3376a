//! Delays the exits of a VM in the turns of a trial, and counts what was delayed.
//!
//! Nothing has to be restored: the program ends with this process, and a lease ends the delays of a process that hangs.

use crate::TurnGuard;
use exitscope_apply::{HostHealth, HostLimits};
use exitscope_record::{DelayCounts, ExitDelay};
use exitscope_trial::{Better, MetricUnit, TrialMetric};
use exitscope_units::Nanos;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How often the lease is renewed at least, and the trial asked whether it is over.
const BEAT: Duration = Duration::from_millis(50);

/// How often limits of the host are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What delays exits in the turns of a trial.
pub struct DelayGuard {
    delay: ExitDelay,
    health: HostHealth,
    /// When limits of the host were looked at.
    looked: Instant,
    /// When the lease was renewed.
    renewed: Instant,
    /// The setting in force, by its position.
    setting: usize,
    /// Counts at the beginning of the turn, and when it was.
    began: (DelayCounts, Instant),
    levels: Vec<DelayedLevel>,
}

/// A delay, and what was measured of it in its turns.
#[derive(Clone, Copy, Debug)]
pub struct DelayedLevel {
    /// The delay that was asked for.
    pub delay: Nanos,
    /// Exits in its turns, while they were measured.
    pub counts: DelayCounts,
    /// How long they were measured.
    pub length: Duration,
}

impl DelayGuard {
    /// The name of the metric that is the delay that was achieved.
    pub const METRIC: &str = "delay";

    /// Delays that are the settings of a trial, in its plan's order. Nothing is delayed yet.
    pub fn new(delay: ExitDelay, delays: &[Nanos], root: &Path, limits: HostLimits) -> DelayGuard {
        let level = |&delay: &Nanos| DelayedLevel { delay, counts: DelayCounts::default(), length: Duration::ZERO };
        let now = Instant::now();
        DelayGuard {
            delay,
            health: HostHealth::new(root, limits),
            looked: now,
            renewed: now,
            setting: 0,
            began: (DelayCounts::default(), now),
            levels: delays.iter().map(level).collect(),
        }
    }

    /// The metric that is the delay that was achieved: the mean of a turn's exits, those that were not delayed included.
    pub fn metric() -> TrialMetric {
        TrialMetric { name: DelayGuard::METRIC.to_string(), unit: MetricUnit::Time, better: Better::Lower }
    }

    /// What was delayed in the turns of each setting.
    pub fn levels(&self) -> &[DelayedLevel] {
        &self.levels
    }

    /// How often the program did not run, as another one was at work on the CPU.
    pub fn missed(&self) -> u64 {
        self.delay.missed()
    }

    /// Takes a lease: after one that has run out, exits were not delayed for a while.
    fn renew(&mut self) -> Result<(), String> {
        let since = self.renewed.elapsed();
        if since.as_nanos() > u128::from(ExitDelay::LEASE.0) {
            let since = Nanos(since.as_nanos() as u64);
            return Err(format!(
                "this command was held up for {since}, so that exits were not delayed in a part of the turn"
            ));
        }
        self.delay.renew().map_err(|error| error.to_string())?;
        self.renewed = Instant::now();
        Ok(())
    }

    /// Why the host is beyond one of its limits, if it is.
    fn trouble(&mut self) -> Option<String> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        self.health.trouble(self.looked)
    }
}

impl TurnGuard for DelayGuard {
    fn set(&mut self, setting: usize) -> Result<(), String> {
        self.setting = setting;
        self.delay.set(self.levels[setting].delay).map_err(|error| error.to_string())?;
        self.renewed = Instant::now();
        Ok(())
    }

    fn wait(&mut self, length: Duration, is_over: &mut dyn FnMut() -> Option<String>) -> Result<(), String> {
        let until = Instant::now() + length;
        loop {
            self.renew()?;
            if let Some(why) = is_over().or_else(|| self.trouble()) {
                return Err(why);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(BEAT));
        }
    }

    fn beat(&mut self) -> Result<(), String> {
        self.renew()
    }

    fn begin_turn(&mut self) -> Result<(), String> {
        self.began = (self.delay.counts().map_err(|error| error.to_string())?, Instant::now());
        Ok(())
    }

    fn end_turn(&mut self) -> Result<Option<f64>, String> {
        let (before, began) = self.began;
        let counts = self.delay.counts().map_err(|error| error.to_string())?.since(&before);
        let mean = counts.mean_delay().ok_or_else(|| {
            format!(
                "no exit came in a turn that could be delayed ({}), so there is nothing to compare",
                self.delay.exits()
            )
        })?;
        let level = &mut self.levels[self.setting];
        level.length += began.elapsed();
        level.counts = sum(&level.counts, &counts);
        Ok(Some(mean))
    }
}

fn sum(one: &DelayCounts, other: &DelayCounts) -> DelayCounts {
    DelayCounts {
        exits: one.exits + other.exits,
        delayed: one.delayed + other.delayed,
        skipped: one.skipped + other.skipped,
        lost: one.lost + other.lost,
        spun: one.spun.plus(other.spun),
        longest: one.longest.max(other.longest),
    }
}
