//! The host of a trial's turns: sets by the watchdog, measures, prints a line for each block.

use crate::user_metric::Measuring;
use crate::{CountedMetrics, MetricSource};
use exitscope_apply::TrialGuard;
use exitscope_signals::signalled;
use exitscope_trial::{TrialVerdict, TurnHost};
use exitscope_units::Nanos;
use std::io::Write;
use std::time::{Duration, Instant};

/// What sets and measures.
pub struct GuardedHost<'a> {
    /// What sets, through the watchdog.
    pub guard: TrialGuard,
    /// The user's own metric.
    pub metric: Option<MetricSource>,
    /// Counted exits.
    pub counted: Option<CountedMetrics>,
    /// The setting in force, by its position in the plan.
    pub setting: usize,
    /// When the trial began.
    pub began: Instant,
    /// Blocks of the plan.
    pub blocks: usize,
    /// Where a line for each block goes, if anywhere.
    pub out: Option<&'a mut dyn Write>,
}

/// Turns that a command which has not ended is waited for beyond its own: what is slow now and then is not to end the trial.
const PATIENCE: u32 = 3;

/// The same for short turns: a busy host may need it to start a command.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether it has.
const STEP: Duration = Duration::from_millis(5);

/// Why the trial is over, if a signal asked for it.
fn is_signalled() -> Option<String> {
    signalled().map(|name| format!("{name} came"))
}

impl TurnHost for GuardedHost<'_> {
    fn set(&mut self, setting: usize) -> Result<(), String> {
        self.setting = setting;
        self.guard.set(setting)
    }

    fn settle(&mut self, length: Nanos) -> Result<(), String> {
        self.guard.wait(Duration::from_nanos(length.0), &mut is_signalled)
    }

    fn measure(&mut self, length: Nanos) -> Result<Vec<Option<f64>>, String> {
        if let Some(counted) = &mut self.counted {
            counted.begin()?;
        }
        let mut measuring = self.metric.as_ref().map(MetricSource::begin).transpose()?;
        let length = Duration::from_nanos(length.0);
        let mut is_over = || is_signalled().or_else(|| measuring.as_mut()?.failed());
        self.guard.wait(length, &mut is_over)?;
        let until = Instant::now() + (length * PATIENCE).max(LEAST_PATIENCE);
        while measuring.as_mut().is_some_and(Measuring::is_running) && Instant::now() < until {
            self.guard.wait(STEP, &mut is_signalled)?;
        }
        let mut values = Vec::new();
        if let (Some(metric), Some(measuring)) = (&self.metric, measuring.take()) {
            values.push(Some(metric.end(measuring)?));
            self.guard.beat()?;
        }
        if let Some(counted) = &mut self.counted {
            values.extend(counted.end(self.setting)?);
        }
        Ok(values)
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn block(&mut self, verdict: &TrialVerdict) -> Result<(), String> {
        self.guard.beat()?;
        let Some(out) = &mut self.out else { return Ok(()) };
        let change = |setting: &exitscope_trial::SettingVerdict| {
            let change = setting.effects[0].change.map_or("-".to_string(), |change| change.to_string());
            format!("{}: {change}", setting.setting)
        };
        let changes: Vec<String> = verdict.settings.iter().map(change).collect();
        let (block, blocks) = (verdict.blocks, self.blocks);
        let done =
            writeln!(out, "block {block} of at most {blocks}: {}", changes.join("; ")).and_then(|()| out.flush());
        done.map_err(|error| format!("cannot print: {error}"))
    }
}
