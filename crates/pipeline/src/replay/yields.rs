//! Yields: PAUSE loops with other windows, s390 lock code that spins longer, asks otherwise, or not at all.

use super::{ReplayError, ReplayInput};
use crate::ReadTrace;
use exitscope_analysis::replay::{SpinModel, SpinReplay, SpinSurvey, TypicalSpin};
use exitscope_model::YieldCall;

/// What a recording tells of yields.
pub struct SurveyedYields {
    /// What was found.
    pub survey: SpinSurvey,
    /// The call that is replayed.
    pub call: YieldCall,
    /// Who makes it when, as recorded.
    pub in_force: SpinModel,
    typical: TypicalSpin,
}

/// Finds out what yields can be replayed.
pub fn survey_yields(of: &ReplayInput<'_>) -> Result<SurveyedYields, ReplayError> {
    let (trace, survey) = of.read(SpinSurvey::default)?;
    let Some(call) = survey.main_call() else {
        return Err(trace.has_nothing(nothing_to_replay(&survey, trace.how_to_record())));
    };
    let in_force = survey.in_force(call);
    let Some(typical) = survey.typical(&in_force) else {
        return Err(trace.has_nothing(format!(
            "how long vCPUs spin before they yield cannot be told, as none yields several times in a row. Record with {} \
             while vCPUs contend",
            trace.how_to_record()
        )));
    };
    Ok(SurveyedYields { survey, call, in_force, typical })
}

fn nothing_to_replay(survey: &SpinSurvey, record: &str) -> String {
    let others: Vec<&str> = survey.calls.keys().map(|call| call.name()).collect();
    match others.is_empty() {
        true => format!("no yield to replay. Record with {record} while vCPUs contend"),
        false => format!(
            "PAUSE loops and the diagnoses X'44' and X'9C' can be replayed, and there is only {}: of these, no knob says when \
             they are made (report --view yield shows what became of them)",
            others.join(", ")
        ),
    }
}

/// Replays the waits with each of these ways to ask.
pub fn replay_yields(
    of: &ReplayInput<'_>,
    surveyed: &SurveyedYields,
    asks: &[SpinModel],
) -> Result<(ReadTrace, SpinReplay), ReplayError> {
    let SurveyedYields { call, in_force, typical, .. } = surveyed;
    let (trace, mut replay) = of.read(|| SpinReplay::new(*call, *in_force, *typical, asks))?;
    replay.finish();
    Ok((trace, replay))
}
