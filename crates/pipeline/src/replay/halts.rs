//! Halt polling, of hosts and of guests.

use super::{KnobValues, ReplayError, ReplayInput};
use crate::ReadTrace;
use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, HaltReplay, PollDecisionCheck, ReplayedHalts};
use exitscope_analysis::{RecordedHaltPolling, TraceSink};
use exitscope_model::Halt;

/// What is run over the halts.
struct HaltReplays {
    replays: Vec<HaltReplay>,
    decisions: PollDecisionCheck,
}

impl TraceSink for HaltReplays {
    fn halt(&mut self, halt: &Halt) {
        self.decisions.absorb(halt);
        self.replays.iter_mut().for_each(|replay| replay.absorb(halt));
    }
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
        return Err(trace.has_nothing(format!("no halt to replay. Record with {}", trace.how_to_record())));
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
