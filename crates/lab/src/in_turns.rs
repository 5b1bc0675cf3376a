//! Scenarios that take turns on real guests, so that what is slow for a while is slow for all of them.
//!
//! ```text
//! scenario, scenario, … ─► rounds, forwards and backwards, after a warm-up ─► `lab run` of each ─► its tables, round by round
//! ```

use crate::measure::MeasurePlan;
use crate::run::{RunOptions, run};
use crate::session::LabSession;
use crate::{LabError, LabMachine};
use exitscope_scenario::Scenario;
use exitscope_scenario::findings::{Findings, FindingsTable};

/// What each scenario gave in each round, and findings without tables that say of which machine this is.
#[derive(Debug)]
pub struct TurnsTaken {
    /// By scenario, by round: the tables of `lab run`.
    pub tables: Vec<Vec<Vec<FindingsTable>>>,
    /// Manifest and warnings.
    pub findings: Findings,
}

/// Runs each scenario in each round of the plan, for one of its turns.
pub fn in_turns(machine: &LabMachine, plan: &MeasurePlan, scenarios: &[Scenario]) -> Result<TurnsTaken, LabError> {
    let mut tables = vec![Vec::new(); scenarios.len()];
    let mut session = LabSession::new(machine, plan, true)?;
    session.take_turns(scenarios.len(), |_, round, at| {
        let (found, _) = run(machine, &scenarios[at], RunOptions::of_turn(plan))?;
        if round.is_some() {
            tables[at].push(found.tables);
        }
        Ok(())
    })?;
    Ok(TurnsTaken { tables, findings: session.findings("validate", "")? })
}
