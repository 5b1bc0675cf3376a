//! What rules say of a recording: they may have settings tried on it, and ask the simulator.

use crate::simulations::Simulations;
use crate::{ReadError, ReadOptions, read_alone};
use exitscope_analysis::advice::{AdviceInput, Judgement, RecordedHost, Trials, judge};
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

/// What the rules make of a recording. `again` takes trials through it once more, if there is something to try.
pub fn judgement(
    advice_input: &AdviceInput,
    host: &RecordedHost,
    again: impl FnOnce(Trials) -> Result<Trials, ReadError>,
) -> Result<(Judgement, Trials), AdviceError> {
    let mut trials = Trials::new(advice_input, host);
    if trials.need_reading() {
        trials = again(trials)?;
        trials.end();
    }
    let simulations = Simulations::of(host);
    let judgement = judge(advice_input, &trials, host, &|kind, way| simulations.shares(kind, way));
    simulations.check()?;
    Ok((judgement, trials))
}

/// Takes trials through a recording, which is read once more.
pub fn reread(input: &Input, options: ReadOptions, trials: Trials) -> Result<Trials, ReadError> {
    Ok(read_alone(input, options, || trials.clone())?.1)
}
