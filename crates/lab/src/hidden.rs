//! What no tracepoint sees of an exit: from the guest's instruction to `kvm_exit`, and from `kvm_entry` to the guest's next.
//!
//! ```text
//! guest: rdtsc ├──── the exiting instruction, as the guest sees it ────┤ rdtsc
//! host:             hidden ├── kvm_exit to kvm_entry, as traced ──┤ hidden
//! ```
//!
//! MSRs are switched there, caches flushed, mitigations done. The n-th sample of a guest is the n-th exit of its reason. What
//! tracing takes before it looks at the clock, or after, is in it, so it is a bound, not a measurement.

use crate::bench::{Bench, MAX_TURN};
use crate::exits::{single, unsupported_as_row};
use crate::measure::{MeasurePlan, Series};
use crate::{LabError, LabMachine};
use exitscope_model::ExitCode;
use exitscope_scenario::findings::{FindingFigure, FindingRow, FindingsTable, HIDDEN_BOUND, HIDDEN_TITLE, Unit};
use exitscope_signals::signalled;
use std::collections::BTreeMap;

/// The labels of the table.
const LABELS: [&str; 3] = ["exit", "handler", "reason"];

/// Samples of a turn at most: what rings have room for.
const MOST: u64 = if MAX_TURN < 2_000 { MAX_TURN } else { 2_000 };

/// An exit of this process's guests: why, and nanoseconds from `kvm_exit` to `kvm_entry`.
pub type Traced = (ExitCode, u64);

/// Measures it for each kind of exit that a step makes. `traced` gives the exits since its last call, in the order of
/// time, or says why nothing is traced.
pub fn table(
    machine: &LabMachine,
    plan: &MeasurePlan,
    mut traced: impl FnMut() -> Result<Vec<Traced>, String>,
) -> Result<FindingsTable, LabError> {
    let mut table = FindingsTable { title: HIDDEN_TITLE, labels: LABELS.into(), rows: Vec::new() };
    for (labels, spec) in single(machine) {
        if let Some(signal) = signalled() {
            return Err(LabError::Signal(signal));
        }
        let row = match Bench::new(machine, spec).and_then(|bench| hidden(machine, plan, bench, &mut traced)) {
            Ok(Ok((reason, series))) => of_series(machine, labels, reason, &series),
            // What is said of one is said of all.
            Ok(Err(Nothing::Traced(why))) => {
                table.rows = vec![cannot(vec!["every exit".to_string()], why)];
                return Ok(table);
            }
            Ok(Err(Nothing::Paired(why))) => cannot(labels, why),
            Err(error) => cannot(labels, unsupported_as_row(error)?),
        };
        table.rows.push(row);
    }
    Ok(table)
}

/// Why there is no figure.
enum Nothing {
    /// No exit is traced here at all.
    Traced(String),
    /// Not as many as the guest made.
    Paired(String),
}

fn cannot(labels: Vec<String>, why: String) -> FindingRow {
    FindingRow { labels, cannot: Some(why), ..FindingRow::default() }
}

fn of_series(machine: &LabMachine, labels: Vec<String>, reason: ExitCode, series: &Series) -> FindingRow {
    let labels = [labels, vec![reason.name()]].concat();
    let Some(time) = series.summary().and_then(|summary| summary.figures(machine).into_iter().next()) else {
        return cannot(labels, "the guest gave no samples".to_string());
    };
    let bound = time.spread.map(|(_, p95)| FindingFigure::plain(HIDDEN_BOUND, Unit::Nanos, p95));
    let figures = [FindingFigure { name: "hidden", ..time }].into_iter().chain(bound).collect();
    FindingRow { labels, figures, ..FindingRow::default() }
}

/// What each sample has beyond the exit that it made, in ticks.
fn hidden(
    machine: &LabMachine,
    plan: &MeasurePlan,
    mut bench: Bench,
    traced: &mut impl FnMut() -> Result<Vec<Traced>, String>,
) -> Result<Result<(ExitCode, Series), Nothing>, LabError> {
    let first = bench.turn(machine, 5, plan.pin, false)?;
    let samples = plan.samples(machine, first.ticks as f64 / 5.0, MOST);
    let (mut series, mut reason) = (Series::default(), None);
    for _ in 0..plan.rounds {
        if let Err(why) = traced() {
            return Ok(Err(Nothing::Traced(why)));
        }
        let turn = bench.turn(machine, samples, plan.pin, false)?;
        let exits = match traced() {
            Ok(exits) if exits.is_empty() => {
                let why = "no kvm_exit fires with KVM's back end here, so nothing says when an exit begins and ends in the host";
                return Ok(Err(Nothing::Traced(why.to_string())));
            }
            Ok(exits) => exits,
            Err(why) => return Ok(Err(Nothing::Traced(why))),
        };
        match beyond(&turn.samples, &exits, |ns| machine.ticks_in(ns)) {
            Some((code, ticks)) => {
                reason = Some(code);
                series.add(&ticks, turn.base);
            }
            None => {
                let why = format!("{} exits were traced for {} samples", exits.len(), turn.samples.len());
                return Ok(Err(Nothing::Paired(why)));
            }
        }
    }
    Ok(reason.map(|code| (code, series)).ok_or(Nothing::Paired("there was no round".to_string())))
}

/// Of each sample, the ticks beyond its exit, and that exit's reason; `None` if there are more samples than exits of any.
/// Exits of other reasons are the host's own; more of the same, what the program does after its samples.
fn beyond(samples: &[u32], exits: &[Traced], ticks_in: impl Fn(u64) -> u64) -> Option<(ExitCode, Vec<u32>)> {
    let mut counts: BTreeMap<ExitCode, usize> = BTreeMap::new();
    exits.iter().for_each(|(code, _)| *counts.entry(*code).or_default() += 1);
    let (code, _) = counts.into_iter().filter(|(_, count)| *count >= samples.len()).max_by_key(|(_, count)| *count)?;
    let own = exits.iter().filter(|exit| exit.0 == code).map(|exit| ticks_in(exit.1));
    let beyond = samples.iter().zip(own).map(|(&sample, exit)| u64::from(sample).saturating_sub(exit) as u32);
    Some((code, beyond.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::CodeList;

    #[test]
    fn of_each_sample_the_exit_of_its_own_is_taken_off() {
        let [cpuid, interrupt] = [0x72, 0x60].map(|number| ExitCode::new(CodeList::Svm, number));
        let exits = [(cpuid, 100), (interrupt, 5_000), (cpuid, 300), (cpuid, 200), (cpuid, 9_000)];
        let found = beyond(&[1_000, 1_200, 1_100], &exits, |ns| 2 * ns);
        assert_eq!(found, Some((cpuid, vec![800, 600, 700])), "the last one is of no sample");
        assert_eq!(beyond(&[1; 5], &exits, |ns| ns), None);
        assert_eq!(beyond(&[1], &[], |ns| ns), None);
    }
}
