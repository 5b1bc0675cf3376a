//! What every experiment has from one place, so that two of them can be compared: turns, the speed of compute steps, how quiet the
//! machine was, and what its findings say of all that. Clock, placement and estimator are [`Span`], `Placement` and
//! [`FindingFigure`](exitscope_scenario::findings::FindingFigure), for every experiment alike.
//!
//! ```text
//! LabSession::new ─► take_turns ─┬─ before each round: the speed of the compute loop, if the experiment has any
//!                             └─► a turn ─► possible: its compute steps took what they should, or it is done again
//!             ─► findings: machine, placement, clock, estimator; warnings
//! ```

use crate::compute_speed::{ComputeGauge, ComputeSpeed, Computed, SPEED_VARIES};
use crate::measure::{MeasurePlan, Noise, machine_warnings, manifest, take_turns};
use crate::{LabError, LabMachine};
use exitscope_scenario::findings::{Findings, counted};
use std::time::Instant;

/// An experiment while it runs.
#[derive(Debug)]
pub struct LabSession<'a> {
    machine: &'a LabMachine,
    plan: &'a MeasurePlan,
    /// `None`: none of its programs computes.
    gauge: Option<ComputeGauge>,
    noise: Noise,
    began: Instant,
    /// The round before which the speed was measured last.
    measured: Option<Option<u32>>,
    /// How often a turn may be done again.
    retries: u32,
    /// Turns that were done again, as their compute steps were not as long as they should be.
    repeated: u64,
}

impl<'a> LabSession<'a> {
    /// Begins. `computes`: its programs have compute steps.
    pub fn new(machine: &'a LabMachine, plan: &'a MeasurePlan, computes: bool) -> Result<LabSession<'a>, LabError> {
        let gauge = if computes { Some(ComputeGauge::new(machine)?) } else { None };
        let (noise, began) = (Noise::now(), Instant::now());
        Ok(LabSession { machine, plan, gauge, noise, began, measured: None, retries: RETRIES, repeated: 0 })
    }

    /// The same in which a turn is done again so often at most.
    pub fn with_retries(self, retries: u32) -> LabSession<'a> {
        LabSession { retries, ..self }
    }

    /// The machine.
    pub fn machine(&self) -> &'a LabMachine {
        self.machine
    }

    /// How long and how often to measure.
    pub fn plan(&self) -> &'a MeasurePlan {
        self.plan
    }

    /// Whether the round's events are the ones that are kept: the last round's.
    pub fn is_last(&self, round: Option<u32>) -> bool {
        round.is_some() && round == self.plan.rounds.checked_sub(1)
    }

    /// Runs `turn(session, round, thing)` as [`take_turns`] does, with the speed of the compute loop measured before each round.
    pub fn take_turns(
        &mut self,
        count: usize,
        mut turn: impl FnMut(&mut LabSession<'a>, Option<u32>, usize) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        take_turns(self.plan, count, |round, thing| {
            if self.measured != Some(round) {
                let machine = self.machine;
                self.gauge.as_mut().map_or(Ok(()), |gauge| gauge.again(machine))?;
                self.measured = Some(round);
            }
            turn(self, round, thing)
        })
    }

    /// The speed that compute steps are set by.
    pub fn speed(&self) -> ComputeSpeed {
        self.gauge.as_ref().map_or(ComputeSpeed::UNKNOWN, ComputeGauge::now)
    }

    /// Measures the speed again, which also computes as long as whoever begins a session.
    pub(crate) fn measure_speed(&mut self) -> Result<(), LabError> {
        let machine = self.machine;
        self.gauge.as_mut().map_or(Ok(()), |gauge| gauge.again(machine))
    }

    /// What `turn` gives with compute steps set by the speed that it is told. One whose programs cannot have done as much as they
    /// did, with steps as long as they should be, is done again with the speed corrected; if none of several can, that is an error.
    pub fn possible<T>(
        &mut self,
        who: &str,
        mut turn: impl FnMut(ComputeSpeed) -> Result<(T, Computed), LabError>,
    ) -> Result<T, LabError> {
        let mut tries = 0..self.retries;
        loop {
            let speed = self.speed();
            let (done, computed) = turn(speed)?;
            let Some(gauge) = self.gauge.as_mut().filter(|_| !computed.is_possible(speed)) else { return Ok(done) };
            if tries.next().is_none() {
                return Err(computed.impossible(who, speed));
            }
            gauge.correct(self.machine, computed)?;
            self.repeated += 1;
        }
    }

    /// What `turn` gives, and how many times as long as before it a compute step took after it. One after which the speed is not what
    /// its steps were set by is done again.
    pub fn settled<T>(
        &mut self,
        mut turn: impl FnMut(&mut LabSession<'a>) -> Result<T, LabError>,
    ) -> Result<(T, f64), LabError> {
        let mut tries = 0..self.retries;
        loop {
            let done = turn(self)?;
            let set = self.speed();
            let machine = self.machine;
            self.gauge.as_mut().map_or(Ok(()), |gauge| gauge.again(machine))?;
            let slower = self.speed().slower_than(&set);
            let is_settled = slower < SPEED_VARIES && slower > 1.0 / SPEED_VARIES;
            if is_settled || tries.next().is_none() {
                return Ok((done, slower));
            }
            self.repeated += 1;
        }
    }

    /// What it found, but for the figures: measures the speed for the last time.
    pub fn findings(mut self, experiment: &'static str, description: &'static str) -> Result<Findings, LabError> {
        let machine = self.machine;
        self.gauge.as_mut().map_or(Ok(()), |gauge| gauge.again(machine))?;
        let mut warnings = machine_warnings(machine);
        warnings.extend(self.noise.warnings(self.began.elapsed(), machine.cpus.len()));
        warnings.extend(self.gauge.as_ref().and_then(ComputeGauge::warning));
        if self.repeated > 0 {
            warnings.push(format!(
                "{} repeated with compute steps set anew: the processor was faster or slower than when it was measured",
                counted(self.repeated, "turn")
            ));
        }
        Ok(Findings {
            experiment,
            description,
            manifest: manifest(machine, self.plan),
            warnings,
            ..Findings::default()
        })
    }
}

/// How often a turn is done again before its figure is an error: a machine whose speed changes may keep one for a while.
const RETRIES: u32 = 5;

#[cfg(test)]
mod tests {
    /// Experiments, and what measures or keeps threads beside what all have.
    const EXPERIMENTS: [(&str, &str); 10] = [
        ("delay", include_str!("delay.rs")),
        ("exits", include_str!("exits.rs")),
        ("gang", include_str!("gang.rs")),
        ("haltpoll", include_str!("haltpoll.rs")),
        ("run --delay others", include_str!("others.rs")),
        ("pio", include_str!("pio.rs")),
        ("run", include_str!("run.rs")),
        ("tracer", include_str!("tracer.rs")),
        ("vmexit", include_str!("vmexit.rs")),
        ("yield", include_str!("yielding.rs")),
    ];
    const OWN: [(&str, &str); 7] = [
        ("elapsed()", "a clock"),
        ("Instant::now", "a clock"),
        ("clock_gettime", "a clock"),
        ("pin_to(", "a placement"),
        ("keep_on(", "a placement"),
        ("Estimate::", "an estimator"),
        ("Manifest {", "a manifest"),
    ];

    #[test]
    fn no_experiment_has_a_clock_a_placement_or_an_estimator_of_its_own() {
        for (name, source) in EXPERIMENTS {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            for (word, what) in OWN {
                assert!(!code.contains(word), "lab {name} has {what} of its own ({word})");
            }
            assert!(code.contains("LabSession::new"), "lab {name} is no session");
        }
    }
}
