//! What rules say of a recording: they may have settings tried on it, and ask the simulator.

use crate::simulations::Simulations;
use crate::{ReadError, ReadOptions, read_alone};
use exitscope_advice::{AdviceInput, Judgement, RecordedHost, Trials, judge, judge_selected};
use exitscope_analysis::Selection;
use exitscope_scenario::ScenarioError;
use exitscope_sim::SimError;
use exitscope_trace::Input;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviceError {
    /// The recording cannot be read once more.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is to be simulated is no scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

/// A recording, or a part of it, that rules look at.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    /// All vCPUs that were recorded.
    pub whole: &'a AdviceInput,
    /// Those that are asked about, where that is not all.
    pub selected: Option<&'a AdviceInput>,
    /// Where they were recorded.
    pub host: &'a RecordedHost,
}

impl<'a> Judged<'a> {
    /// A recording of which all is asked about.
    pub fn all(whole: &'a AdviceInput, host: &'a RecordedHost) -> Judged<'a> {
        Judged { whole, selected: None, host }
    }
}

/// What the rules make of a recording. `again` takes trials through it once more, if there is something to try.
pub fn judgement(
    judged: Judged<'_>,
    again: impl FnOnce(Trials) -> Result<Trials, ReadError>,
) -> Result<(Judgement, Trials), AdviceError> {
    let Judged { whole, selected, host } = judged;
    let mut trials = Trials::new(whole, host);
    if trials.need_reading() {
        trials = again(trials)?;
        trials.end();
    }
    let simulations = Simulations::of(host);
    let simulate = |kind, way| simulations.shares(kind, way);
    let judgement = match selected {
        Some(selected) => judge_selected(whole, selected, &trials, host, &simulate),
        None => judge(whole, &trials, host, &simulate),
    };
    simulations.check()?;
    Ok((judgement, trials))
}

/// Takes trials through a recording, which is read once more.
pub fn reread(input: &Input, options: ReadOptions, trials: Trials) -> Result<Trials, ReadError> {
    Ok(read_alone(input, options, || trials.clone())?.1)
}

/// Of a selection of VMs or vCPUs: what rules look at, of all of them, for which the recording is read once more.
pub fn whole_input(
    input: &Input,
    options: ReadOptions,
    selection: &Selection,
) -> Result<Option<AdviceInput>, ReadError> {
    let Some(all) = selection.of_all_vcpus() else { return Ok(None) };
    let (trace, mut whole) = read_alone(input, options, || AdviceInput::new(&all))?;
    let (first, last) = trace.span.unwrap_or_default();
    whole.end(first, last, &trace.vcpu_of);
    Ok(Some(whole))
}
