//! What other values of a knob of halt polling would have made of a recording's halts: a trial puts what they come to beside it.

use crate::evidence::input::AdviceInput;
use crate::evidence::trials::{GainEstimateNs, PollCandidates, Trial};
use exitscope_analysis::replay::{HaltNumbering, HaltPolicy};
use exitscope_analysis::{RecordedHaltPolling, VcpuTime, are_known};
use exitscope_model::Halt;
use exitscope_units::Nanos;

/// Values of a knob, replayed over the halts of a recording.
#[derive(Clone, Debug)]
pub struct PollPredictions {
    policy: HaltPolicy,
    candidates: PollCandidates,
    numbering: HaltNumbering,
    /// Of all vCPUs together, in nanoseconds.
    vcpu_time: u64,
    halts: u64,
    /// Halts of which the wake-up latency is known.
    latencies: u64,
    /// Exits of the recording, and its length.
    exits: (u64, Nanos),
}

/// What a value of the knob is predicted to make of the recorded halts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollPrediction {
    /// The value.
    pub value: u64,
    /// CPU time of the host's polls, in per cent of vCPU time; of the host's knobs alone.
    pub polling: Option<PredictedFigure>,
    /// Mean wake-up latency, in nanoseconds; of the host's knobs alone, `None` where wake-ups or entries were not recorded.
    pub wakeup: Option<PredictedFigure>,
    /// Exits in each second; of the guest's knobs alone.
    pub exits: Option<PredictedFigure>,
}

/// A figure as recorded, and as predicted, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedFigure {
    /// As recorded.
    pub recorded: f64,
    /// With the value.
    pub with: f64,
    /// The lower bound of the interval.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl PollPrediction {
    /// The figures, by their names in a trial.
    pub fn figures(&self) -> Vec<(&'static str, PredictedFigure)> {
        let all = [("polling", self.polling), ("wakeup", self.wakeup), ("exits", self.exits)];
        all.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
    }
}

impl PollPredictions {
    /// Values of a knob of halt polling to try on what was recorded on a host that polls so: so many exits in so much time. Where
    /// the knob is the guest's, the guest did not poll then.
    pub fn new(
        input: &AdviceInput,
        host: &RecordedHaltPolling,
        policy: HaltPolicy,
        (knob, values): (&'static str, &[u64]),
        exits: (u64, Nanos),
    ) -> PollPredictions {
        let all = input.facts.halts.all();
        PollPredictions {
            policy,
            candidates: PollCandidates::new(input, host, policy, None, knob, values),
            numbering: HaltNumbering::default(),
            vcpu_time: input.facts.divisions.values().map(|time: &VcpuTime| time.span().0).sum(),
            halts: all.halts(),
            latencies: all.latencies().count,
            exits,
        }
    }

    /// Halts of the recording.
    pub fn halts(&self) -> u64 {
        self.halts
    }

    /// Tries the values on one halt.
    pub fn absorb(&mut self, halt: &Halt) {
        let recorded = [self.numbering.recorded(halt)];
        self.candidates.absorb(&recorded);
    }

    /// Ends the recording: what each value came to. Nothing of a recording without halts.
    pub fn finish(mut self) -> Vec<PollPrediction> {
        if self.halts == 0 || self.vcpu_time == 0 {
            return Vec::new();
        }
        self.candidates.end_part();
        let recorded = self.candidates.recorded();
        let share = |ns: f64| ns * 100.0 / self.vcpu_time as f64;
        let each = |ns: f64| ns / self.latencies as f64;
        let is_known = self.latencies > 0 && are_known(self.halts, self.halts.saturating_sub(self.latencies));
        let (exits, length) = self.exits;
        let per_s = |exits: f64| exits * 1e9 / length.0.max(1) as f64;
        let prediction = |trial: &Trial| match self.policy {
            HaltPolicy::Host => PollPrediction {
                value: trial.value,
                polling: Some(figure(recorded.polling, self.candidates.cpu_gain(trial), share)),
                wakeup: is_known.then(|| figure(recorded.latency, self.candidates.latency_gain(trial), each)),
                exits: None,
            },
            HaltPolicy::Guest => PollPrediction {
                value: trial.value,
                polling: None,
                wakeup: None,
                exits: Some(figure(exits, PollCandidates::spared(trial), per_s)),
            },
        };
        self.candidates.trials.iter().map(prediction).collect()
    }
}

/// What is left of a sum when this is won, each in the unit that `of` makes. No sum is below 0.
fn figure(recorded: u64, (low, mean, high): GainEstimateNs, of: impl Fn(f64) -> f64) -> PredictedFigure {
    let left = |gain: f64| of((recorded as f64 - gain).max(0.0));
    PredictedFigure { recorded: of(recorded as f64), with: left(mean), low: left(high), high: left(low) }
}
