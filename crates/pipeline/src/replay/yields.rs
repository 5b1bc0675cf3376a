//! Yields: PAUSE loops with other windows, s390 lock code that spins longer, asks otherwise, or not at all.

use super::{KnobValues, ReplayError, ReplayInput};
use crate::ReadTrace;
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::replay::{MACHINE, SpinModel, SpinReplay, SpinSurvey, TypicalSpin};
use exitscope_model::YieldCall;
use exitscope_policy::KnobError;
use exitscope_policy::yielding::{DiagnoseSupport, Generation, Params};

/// What waiters say, and the lock code that says so. Today's code asks before every call only directly in a partition.
const CALLS: [(&str, Option<(Generation, DiagnoseSupport)>); 4] = [
    ("none", None),
    ("X'44'", Some((Generation::L1b, MACHINE))),
    ("X'9C'", Some((Generation::L2, MACHINE))),
    ("X'9C' sensing", Some((Generation::Classic, DiagnoseSupport { sense_running: true, lpar: true, ..MACHINE }))),
];

/// The axis of what waiters say.
pub const CALL_AXIS: &str = "call";

/// Labels of a row, and who yields when in it.
pub type LabelledSpin = (Vec<String>, SpinModel);

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
        return Err(
            trace.has_nothing(nothing_to_replay(&survey, &trace.sentence(Missed::Exits, "while vCPUs contend")))
        );
    };
    let in_force = survey.in_force(call);
    let Some(typical) = survey.typical(&in_force) else {
        return Err(trace.has_nothing(format!(
            "how long vCPUs spin before they yield cannot be told, as none yields several times in a row. {}",
            trace.sentence(Missed::Exits, "while vCPUs contend")
        )));
    };
    Ok(SurveyedYields { survey, call, in_force, typical })
}

fn nothing_to_replay(survey: &SpinSurvey, record: &str) -> String {
    let others: Vec<&str> = survey.calls.keys().map(|call| call.name()).collect();
    match others.is_empty() {
        true => format!("no yield to replay. {record}"),
        false => format!(
            "PAUSE loops and the diagnoses X'44' and X'9C' can be replayed; this trace has only {}, and no knob decides when \
             guests issue them (report --view yield shows what became of them)",
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

/// What is replayed: `rows` of labels and knobs, of which `names` are set. Unless the lock code's generation is, waiters of s390
/// say each thing they can, and nothing: then the values of [`CALL_AXIS`] come first. `with_off`: a row without yields comes first.
pub fn spin_rows<'a>(
    surveyed: &SurveyedYields,
    names: impl Iterator<Item = &'a str>,
    rows: Vec<(Vec<String>, KnobValues)>,
    with_off: bool,
) -> Result<(Option<Vec<String>>, Vec<LabelledSpin>), ReplayError> {
    let SurveyedYields { call, in_force, .. } = surveyed;
    let base = match in_force {
        SpinModel::Vmx(params) | SpinModel::Svm(params) | SpinModel::Code(params, _) => *params,
        SpinModel::Never => Params::default(),
    };
    let with = |set: &KnobValues, mut params: Params| -> Result<Params, KnobError> {
        set.iter().try_for_each(|(name, value)| params.set(name, *value))?;
        Ok(params)
    };
    for name in names {
        if !in_force.knobs().any(|knob| knob.name == name) {
            let own: Vec<&str> = in_force.knobs().map(|knob| knob.name).collect();
            return Err(ReplayError::NoEffect { name: name.to_string(), call: call.name(), own: own.join(", ") });
        }
    }
    let nothing = |labels: &[String], text: &str| labels.iter().map(|_| text.to_string()).collect::<Vec<_>>();
    let mut spins = Vec::new();
    let names_code = rows.iter().flat_map(|row| &row.1).any(|(name, _)| *name == "spin_generation");
    if matches!(in_force, SpinModel::Code(..)) && !names_code {
        for (says, code) in CALLS {
            for (labels, set) in &rows {
                match code {
                    Some((generation, machine)) => {
                        let params = with(set, Params { spin_generation: generation, ..base })?;
                        spins.push((
                            [vec![says.to_string()], labels.clone()].concat(),
                            SpinModel::Code(params, machine),
                        ));
                    }
                    // However long it spins.
                    None if spins.is_empty() => {
                        spins.push(([vec![says.to_string()], nothing(labels, "-")].concat(), SpinModel::Never));
                    }
                    None => {}
                }
            }
        }
        return Ok((Some(CALLS.map(|row| row.0.to_string()).to_vec()), spins));
    }
    if with_off {
        spins.push((nothing(&rows[0].0, "off"), SpinModel::Never));
    }
    for (labels, set) in rows {
        let params = with(&set, base)?;
        let model = match call {
            YieldCall::Pause => SpinModel::Vmx(params),
            YieldCall::PauseFilter => SpinModel::Svm(params),
            _ => SpinModel::Code(params, DiagnoseSupport { sense_running: true, ..MACHINE }),
        };
        spins.push((labels, model));
    }
    Ok((None, spins))
}
