//! The turns of a trial, one after the other: set, settle, measure, judge.

use crate::{HostTrial, TrialTurn, TrialVerdict};
use exitscope_units::Nanos;

/// Why a turn has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnError {
    /// A metric has none, for this reason: more time would not help.
    Metric(String),
    /// Something else ended it: a signal, a setting that somebody else has set.
    Ended(String),
}

impl From<String> for TurnError {
    fn from(why: String) -> TurnError {
        TurnError::Ended(why)
    }
}

/// Whoever sets and measures. Each `Err` ends the trial, and says why.
pub trait TurnHost {
    /// Sets a setting, by its position in the plan: 0 is the one in force.
    fn set(&mut self, setting: usize) -> Result<(), String>;

    /// Waits.
    fn settle(&mut self, length: Nanos) -> Result<(), String>;

    /// Measures for this long, or longer if it has to: one value for each metric, in its unit; `None` of what did not happen.
    fn measure(&mut self, length: Nanos) -> Result<Vec<Option<f64>>, TurnError>;

    /// The time since the trial began.
    fn now(&self) -> Nanos;

    /// Takes what is known at the end of a block.
    fn block(&mut self, verdict: &TrialVerdict) -> Result<(), String>;
}

/// Runs a trial to its end. What is set then is the last turn's: whoever calls restores.
pub fn run_turns(trial: &mut HostTrial, host: &mut dyn TurnHost) {
    while let Some(turn) = trial.turn() {
        let Err(error) = run_turn(trial, turn, host) else { continue };
        match error {
            TurnError::Metric(why) => trial.stop_without_value(why),
            TurnError::Ended(why) => trial.stop(why),
        }
        trial.note_time(host.now());
    }
}

fn run_turn(trial: &mut HostTrial, turn: TrialTurn, host: &mut dyn TurnHost) -> Result<(), TurnError> {
    host.set(turn.setting)?;
    host.settle(trial.plan().lengths.settle)?;
    let values = host.measure(trial.plan().lengths.turn)?;
    trial.absorb(&values).map_err(|error| TurnError::Metric(error.to_string()))?;
    trial.note_time(host.now());
    match trial.turn() {
        Some(next) if next.block == turn.block => Ok(()),
        _ => Ok(host.block(&trial.verdict())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, MetricUnit, TrialEnd, TrialLengths, TrialMetric, TrialPlan, TrialRules, TrialRuling};

    /// A host on which the second setting is a tenth better, and something fails at one of the calls.
    struct Fake {
        set: usize,
        calls: Vec<String>,
        fails_at: usize,
        bad_value: bool,
    }

    impl Fake {
        fn call(&mut self, name: String) -> Result<(), String> {
            self.calls.push(name);
            match self.calls.len() == self.fails_at {
                true => Err(format!("call {}", self.fails_at)),
                false => Ok(()),
            }
        }
    }

    impl TurnHost for Fake {
        fn set(&mut self, setting: usize) -> Result<(), String> {
            self.set = setting;
            self.call(format!("set {setting}"))
        }

        fn settle(&mut self, length: Nanos) -> Result<(), String> {
            self.call(format!("settle {length}"))
        }

        fn measure(&mut self, length: Nanos) -> Result<Vec<Option<f64>>, TurnError> {
            self.call(format!("measure {length}")).map_err(TurnError::Metric)?;
            let value = [100.0, 90.0][self.set] + self.calls.len() as f64 % 3.0 / 100.0;
            Ok(vec![Some(if self.bad_value { -1.0 } else { value })])
        }

        fn now(&self) -> Nanos {
            Nanos(self.calls.len() as u64)
        }

        fn block(&mut self, verdict: &TrialVerdict) -> Result<(), String> {
            self.call(format!("block {}", verdict.blocks))
        }
    }

    fn run(fails_at: usize, bad_value: bool) -> (Fake, TrialVerdict) {
        let settings = ["old", "new"].map(str::to_string).to_vec();
        let lengths = TrialLengths { settle: Nanos(1_000), turn: Nanos(2_000), total: Nanos(1_000_000) };
        let plan = TrialPlan::new(settings, lengths, 0.05, 1).unwrap();
        let metric = TrialMetric { name: "m".to_string(), unit: MetricUnit::Number, better: Better::Lower };
        let rules = TrialRules { metrics: vec![metric], matters: 1.0, limits: Vec::new() };
        let mut trial = HostTrial::new(plan, rules);
        let mut host = Fake { set: 0, calls: Vec::new(), fails_at, bad_value };
        run_turns(&mut trial, &mut host);
        (host, trial.verdict())
    }

    #[test]
    fn each_turn_is_set_settled_and_measured_until_it_is_certain() {
        let (host, verdict) = run(0, false);
        assert_eq!((verdict.end, verdict.settings[0].ruling), (Some(TrialEnd::Decided), TrialRuling::Keep));
        // The last turn's calls, not the last block's end.
        assert_eq!((verdict.blocks, verdict.took), (8, Nanos(8 * 13 - 1)));
        // Four turns of three calls and the block's end, eight times.
        assert_eq!(host.calls.len(), 8 * (4 * 3 + 1));
        assert!(
            host.calls[0].starts_with("set ") && host.calls[1] == "settle 1.00us" && host.calls[2] == "measure 2.00us"
        );
        assert_eq!((host.calls[12].as_str(), host.calls.last().unwrap().as_str()), ("block 1", "block 8"));
    }

    #[test]
    fn whatever_fails_ends_the_trial_and_says_why() {
        for fails_at in [1, 2, 3, 13, 40] {
            let (host, verdict) = run(fails_at, false);
            assert_eq!(host.calls.len(), fails_at, "nothing is called afterwards");
            let why = format!("call {fails_at}");
            let is_metric = host.calls.last().is_some_and(|call| call.starts_with("measure"));
            let end = if is_metric { TrialEnd::MetricFailed(why) } else { TrialEnd::Stopped(why) };
            assert_eq!((verdict.end, is_metric), (Some(end), fails_at == 3));
            assert_eq!((verdict.keep, verdict.took), (None, Nanos(fails_at as u64)));
        }
        let (_, verdict) = run(0, true);
        let why = verdict.not_judged().unwrap();
        assert!(why.ends_with("must be from 0 to 1e290"), "{why}");
    }
}
