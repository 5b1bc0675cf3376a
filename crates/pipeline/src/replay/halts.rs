//! Halt polling, of hosts and of guests.

use super::{KnobValues, ReplayError, ReplayInput};
use crate::{ReadError, ReadOptions, ReadTrace, read_alone};
use exitscope_advice::{AdviceInput, PollPrediction, PollPredictions};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, HaltReplay, PollDecisionCheck, ReplayedHalts};
use exitscope_analysis::{RecordedHaltPolling, Selection, TraceSink};
use exitscope_model::{BesideRow, Exit};
use exitscope_trace::Input;

/// What is run over the halts.
struct HaltReplays {
    replays: Vec<HaltReplay>,
    decisions: PollDecisionCheck,
}

impl TraceSink for HaltReplays {
    fn absorb(&mut self, _exit: &Exit) {}

    fn beside_row(&mut self, row: BesideRow<'_>) {
        if let BesideRow::Halt(halt) = row {
            self.decisions.absorb(halt);
            self.replays.iter_mut().for_each(|replay| replay.absorb(halt));
        }
    }
}

/// What values of a knob of halt polling are predicted to make of a recording.
pub struct PredictedHalts {
    /// Halts of the recording.
    pub halts: u64,
    /// What each value comes to; empty if no vCPU halted.
    pub values: Vec<PollPrediction>,
}

/// Predicts what values of a knob of halt polling make of the selected halts of a recording.
pub fn predict_halts(
    input: &Input,
    options: ReadOptions,
    selection: &Selection,
    (policy, knob): (HaltPolicy, &'static str),
    values: &[u64],
) -> Result<PredictedHalts, ReadError> {
    let (trace, mut facts) = read_alone(input, options, || AdviceInput::new(selection))?;
    let (first, last) = trace.span.unwrap_or_default();
    facts.end(first, last, &trace.vcpu_of);
    let exits = (trace.exits, last.since(first).unwrap_or_default());
    let host = RecordedHaltPolling::of(&trace.info);
    let predictions = PollPredictions::new(&facts, &host, policy, (knob, values), exits);
    let halts = predictions.halts();
    let (_, predictions) = read_alone(input, options, || predictions.clone())?;
    Ok(PredictedHalts { halts, values: predictions.finish() })
}

/// Replays halts with each of these configurations.
pub fn replay_halts(
    of: &ReplayInput<'_>,
    policy: HaltPolicy,
    configurations: &[KnobValues],
) -> Result<(ReadTrace, ReplayedHalts), ReplayError> {
    let (trace, facts) = of.facts()?;
    let all = facts.halts.all();
    if all.halts() == 0 {
        return Err(trace.has_nothing(format!("no halt to replay. {}", trace.sentence(Missed::Exits, ""))));
    }
    if trace.is_xen() {
        return Err(trace.has_nothing(
            "Xen does not poll for halted vCPUs, and its guests have no cpuidle governor haltpoll: there is no policy to \
             replay",
        ));
    }
    if policy == HaltPolicy::Guest && trace.info.arch.starts_with("ppc") {
        return Err(trace.has_nothing("powerpc guests have no cpuidle governor haltpoll"));
    }
    let host = RecordedHaltPolling::of(&trace.info);
    let settings = &facts.halts.settings;
    let mut replays = vec![HaltReplay::new(HaltPolicy::Host, settings, &host, &[], &all)?];
    for set in configurations {
        replays.push(HaltReplay::new(policy, settings, &host, set, &all)?);
    }
    let fresh = || HaltReplays { replays: replays.clone(), decisions: PollDecisionCheck::new(settings, &host) };
    let (trace, HaltReplays { replays, decisions }) = of.read(fresh)?;
    let mut outcomes: Vec<HaltOutcome> = replays.into_iter().map(|replay| replay.outcome).collect();
    let (mut in_force, mut recorded) = (outcomes.remove(0), HaltOutcome::recorded(&all));
    if policy == HaltPolicy::Guest {
        // A halt that a host's poll ended has left the guest.
        (in_force.caught, recorded.caught) = (0, 0);
    }
    Ok((trace, ReplayedHalts { halts: facts.halts, all, host, decisions, recorded, in_force, outcomes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_trace::{EventFilter, SourceOptions};
    use std::path::Path;

    #[test]
    fn a_recorded_wake_up_latency_is_the_mean_of_the_halts_that_have_one() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/x86-svm");
        let source = SourceOptions { keep: EventFilter::Used, ..SourceOptions::default() };
        let options = ReadOptions { source, need_vcpus: false, progress: |_| None };
        // As `report --view halt` has it; of the second one, no wake-up is recorded.
        for (file, latency) in [("t4-none.dat.gz", Some(166_014_028.0 / 1_985.0)), ("t4-kvmstat.data.gz", None)] {
            let input = Input::open(&corpus.join(file)).unwrap();
            let all = Selection::default();
            let predicted = predict_halts(&input, options, &all, (HaltPolicy::Host, "halt_poll_ns"), &[0]).unwrap();
            let recorded = predicted.values[0].wakeup.map(|wakeup| wakeup.recorded);
            assert_eq!(recorded, latency, "{file}");
        }
    }
}
