//! How fast a guest's compute loop runs, by which compute steps are as long as they should be; and whether a run's were.
//!
//! ```text
//! probing guest ─► ComputeSpeed ─► step(20 us) ─► passes of the loop        measured again and again: ComputeGauge
//! run ─► Computed: passes that cannot have been at once, and how long it took ─► possible, or impossible, at that speed
//! ```
//!
//! Which passes cannot have been at once is counted by the guests: each message and each lock carries how much was computed before
//! it (`VcpuPage::chain`). Of two vCPUs that play ping-pong, that is the computing of both.

use crate::abi::{ProgramStep, op};
use crate::machine::probe;
use crate::{LabError, LabMachine, PrivilegeRing, Span, VmConfig, sampled, step};
use std::time::Duration;

/// How fast a guest's compute loop runs on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeSpeed {
    passes_per_ms: f64,
}

impl ComputeSpeed {
    /// Of whoever has no compute step.
    pub(crate) const UNKNOWN: ComputeSpeed = ComputeSpeed { passes_per_ms: 1e6 };

    /// Has a guest compute for a moment, in ring 3, which runs natively everywhere.
    pub fn measure(machine: &LabMachine) -> Result<ComputeSpeed, LabError> {
        const PASSES: u64 = 200_000;
        let compute = ProgramStep { b: PASSES, ..step(op::COMPUTE) };
        let config = VmConfig { irqchip: false, ..VmConfig::new(1, PrivilegeRing::Three) };
        // The fastest of them: others were interrupted.
        let fastest = probe(machine, config, &sampled(9, compute))?.into_iter().min().unwrap_or(1);
        Ok(ComputeSpeed { passes_per_ms: PASSES as f64 * 1e6 / machine.ns_in(fastest.max(1).into()) })
    }

    /// A step that computes for so many nanoseconds, if nobody interrupts it.
    pub fn step(&self, ns: u64) -> ProgramStep {
        ProgramStep { b: self.passes_in(ns as f64).max(1), ..step(op::COMPUTE) }
    }

    /// Passes of the loop in so many nanoseconds.
    pub fn passes_in(&self, ns: f64) -> u64 {
        (ns.max(0.0) * self.passes_per_ms / 1e6).round() as u64
    }

    /// How long so many passes take.
    pub fn time_of(&self, passes: u64) -> Duration {
        Duration::try_from_secs_f64(passes as f64 / (self.passes_per_ms * 1e3)).unwrap_or(Duration::MAX)
    }

    /// How many times as long as by the other speed a step takes.
    pub fn slower_than(&self, other: &ComputeSpeed) -> f64 {
        other.passes_per_ms / self.passes_per_ms
    }
}

/// What a run computed, one pass after the other, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Computed {
    /// Passes that cannot have been at once.
    pub chain: u64,
    /// The run.
    pub span: Span,
}

/// How much more than its time a run may have computed before that is impossible: what a measurement of the speed is off by.
const SPEED_SLACK: f64 = 1.1;

impl Computed {
    /// Whether a run whose compute steps took what they should, as `set` has it, can have done as much in its time.
    pub fn is_possible(&self, set: ComputeSpeed) -> bool {
        set.time_of(self.chain) <= self.span.length().mul_f64(SPEED_SLACK)
    }

    /// What is said of a run that cannot.
    pub fn impossible(&self, who: &str, set: ComputeSpeed) -> LabError {
        let (at_best, took) = (set.time_of(self.chain), self.span.length());
        LabError::Impossible(format!(
            "by its programs {who} had to compute for {at_best:.3?}, one step after the other, and took {took:.3?} in all: compute steps \
             were shorter than they should be, each time that it was tried"
        ))
    }
}

/// From what difference of speeds on compute steps are said to have varied.
pub(crate) const SPEED_VARIES: f64 = 1.05;

/// The speed of the compute loop, measured again and again: a processor's clock and its siblings change it.
#[derive(Clone, Debug)]
pub struct ComputeGauge {
    speeds: Vec<ComputeSpeed>,
}

impl ComputeGauge {
    /// Measures it for the first time.
    pub fn new(machine: &LabMachine) -> Result<ComputeGauge, LabError> {
        Ok(ComputeGauge { speeds: vec![ComputeSpeed::measure(machine)?] })
    }

    /// Measures it again.
    pub fn again(&mut self, machine: &LabMachine) -> Result<(), LabError> {
        self.speeds.push(ComputeSpeed::measure(machine)?);
        Ok(())
    }

    /// Measures it again after a run that was impossible by the last speed: it is at least as fast as that run was.
    pub fn correct(&mut self, machine: &LabMachine, run: Computed) -> Result<(), LabError> {
        let measured = ComputeSpeed::measure(machine)?;
        let at_least = run.chain as f64 / (run.span.seconds() * 1e3);
        self.speeds.push(ComputeSpeed { passes_per_ms: measured.passes_per_ms.max(at_least) });
        Ok(())
    }

    /// The last measured one.
    pub fn now(&self) -> ComputeSpeed {
        self.speeds[self.speeds.len() - 1]
    }

    /// How much longer than the shortest the same compute step took, by the measured speeds.
    pub fn variation(&self) -> f64 {
        let of = |more: fn(f64, f64) -> f64| self.speeds.iter().map(|speed| speed.passes_per_ms).reduce(more);
        of(f64::max).zip(of(f64::min)).map_or(1.0, |(most, least)| most / least)
    }

    /// What is to be said if compute steps varied.
    pub fn warning(&self) -> Option<String> {
        let varies = self.variation();
        (varies > SPEED_VARIES).then(|| {
            format!(
                "a compute step took up to {varies:.2} times as long as at best, in {} measurements before, between and after rounds: \
                 loads differed by that",
                self.speeds.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(passes_per_ms: &[f64]) -> ComputeGauge {
        ComputeGauge { speeds: passes_per_ms.iter().map(|&passes_per_ms| ComputeSpeed { passes_per_ms }).collect() }
    }

    #[test]
    fn more_than_the_programs_have_time_for_is_impossible() {
        // Round trips of two balls of 20 us, in one second: 25,000 at most.
        let speed = ComputeSpeed { passes_per_ms: 1e6 };
        let of = |trips: u64| Computed { chain: trips * 2 * speed.step(20_000).b, span: Span::of_ns(1_000_000_000) };
        assert!(of(24_000).is_possible(speed) && !of(31_726).is_possible(speed));
        // The same passes with steps that were set by a faster speed.
        assert!(of(31_726).is_possible(ComputeSpeed { passes_per_ms: 1.3e6 }));
        let error = of(31_726).impossible("ping-pong", speed).to_string();
        assert!(
            error.starts_with("impossible figure: by its programs ping-pong had to compute for 1.269s")
                && error.contains("took 1.000s"),
            "{error}"
        );
    }

    #[test]
    fn compute_steps_that_varied_are_warned_of() {
        assert_eq!(gauge(&[1e6, 1.04e6, 1.01e6]).warning(), None);
        let said = gauge(&[1.64e6, 0.89e6, 1.2e6]).warning().unwrap();
        assert!(
            said.starts_with("a compute step took up to 1.84 times as long as at best, in 3 measurements"),
            "{said}"
        );
        assert_eq!(gauge(&[1e6, 2e6]).now().passes_in(1e6), 2_000_000);
        let [fast, slow] = [2e6, 1e6].map(|passes_per_ms| ComputeSpeed { passes_per_ms });
        assert_eq!(slow.slower_than(&fast), 2.0);
    }
}
