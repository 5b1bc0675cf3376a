//! The host of a trial's turns: sets by a guard, measures, prints a line for each block.

use crate::user_metric::Measuring;
use crate::{MetricSource, TurnMetrics};
use exitscope_apply::TrialGuard;
use exitscope_signals::signalled;
use exitscope_trial::{TrialVerdict, TurnError, TurnHost};
use exitscope_units::Nanos;
use std::io::Write;
use std::time::{Duration, Instant};

/// What sets, and sees to it that nothing stays set if this process comes to nothing. Each `Err` ends the trial, and says why.
pub trait TurnGuard {
    /// Sets a setting, by its position in the plan.
    fn set(&mut self, setting: usize) -> Result<(), String>;

    /// Waits this long, unless `is_over` says why the trial is over, which is asked several times a second.
    fn wait(&mut self, length: Duration, is_over: &mut dyn FnMut() -> Option<String>) -> Result<(), String>;

    /// A sign of life.
    fn beat(&mut self) -> Result<(), String>;

    /// Takes note that measuring begins.
    fn begin_turn(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// What the setting came to in the turn that ends now: the value of a metric after the user's, if there is such a metric.
    fn end_turn(&mut self) -> Result<Option<f64>, String> {
        Ok(None)
    }
}

impl TurnGuard for TrialGuard {
    fn set(&mut self, setting: usize) -> Result<(), String> {
        TrialGuard::set(self, setting)
    }

    fn wait(&mut self, length: Duration, is_over: &mut dyn FnMut() -> Option<String>) -> Result<(), String> {
        TrialGuard::wait(self, length, is_over)
    }

    fn beat(&mut self) -> Result<(), String> {
        TrialGuard::beat(self)
    }
}

/// What sets and measures.
pub struct GuardedHost<'a, G> {
    /// What sets.
    pub guard: G,
    /// What measures.
    pub metrics: TurnMetrics,
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

impl<G: TurnGuard> TurnHost for GuardedHost<'_, G> {
    fn set(&mut self, setting: usize) -> Result<(), String> {
        if let Some(why) = is_signalled() {
            return Err(why);
        }
        self.setting = setting;
        self.guard.set(setting)
    }

    fn settle(&mut self, length: Nanos) -> Result<(), String> {
        self.guard.wait(Duration::from_nanos(length.0), &mut is_signalled)
    }

    fn measure(&mut self, length: Nanos) -> Result<Vec<Option<f64>>, TurnError> {
        let TurnMetrics { user, counted, host_costs } = &mut self.metrics;
        if let Some(counted) = counted {
            counted.begin().map_err(TurnError::Metric)?;
        }
        self.guard.begin_turn()?;
        host_costs.begin();
        let mut measuring = user.as_ref().map(MetricSource::begin).transpose().map_err(TurnError::Metric)?;
        let length = Duration::from_nanos(length.0);
        let mut failed = None;
        let mut is_over = || {
            is_signalled().or_else(|| {
                failed = measuring.as_mut()?.failed();
                failed.clone()
            })
        };
        let waited = self.guard.wait(length, &mut is_over);
        if let Some(why) = failed {
            return Err(TurnError::Metric(why));
        }
        waited?;
        let usual = (length * PATIENCE).max(LEAST_PATIENCE);
        let patience = measuring.as_mut().and_then(Measuring::turn_ended).unwrap_or(usual);
        let until = Instant::now() + patience;
        while measuring.as_mut().is_some_and(Measuring::is_running) && Instant::now() < until {
            self.guard.wait(STEP, &mut is_signalled)?;
        }
        let costs = host_costs.end();
        let mut values = Vec::new();
        if let (Some(metric), Some(measuring)) = (user, measuring.take()) {
            values.push(Some(metric.end(measuring).map_err(TurnError::Metric)?));
            self.guard.beat()?;
        }
        values.extend(self.guard.end_turn()?.map(Some));
        if let Some(counted) = counted {
            values.extend(counted.end(self.setting).map_err(TurnError::Metric)?);
        }
        values.extend(costs);
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
        let found = match &verdict.slope {
            Some(slope) => format!("100ns less in each exit: {slope}"),
            None => verdict.settings.iter().map(change).collect::<Vec<String>>().join("; "),
        };
        let (block, blocks) = (verdict.blocks, self.blocks);
        let done = writeln!(out, "block {block} of at most {blocks}: {found}").and_then(|()| out.flush());
        done.map_err(|error| format!("cannot print: {error}"))
    }
}
