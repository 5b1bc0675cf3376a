//! `lab delay`: how much of an exit's length reaches the work. Two vCPUs exchange messages of a byte, each with one exit;
//! every exit is made longer by a delay.
//!
//! ```text
//! vCPU 0: OUT ─(exit + delay)─► message ───────────────► … response ─► a sample
//! vCPU 1:                        └► OUT ─(exit + delay)─► response
//! ```
//!
//! Every second round trip is delayed, so that what drifts from one moment to the next hits those with and those without
//! a delay alike.
//!
//! After KVM Forum 2016, "As Time Goes By": request/response throughput against an artificial delay after each exit.

use crate::bench::{Bench, BenchTurn, Job, MAX_TURN, MESSAGE_PORT, Spec};
use crate::delay_plan::{DelayPilot, DelayPlan, EXITS, PilotTurn};
use crate::events::Events;
use crate::measure::{MeasurePlan, Series, take_turns};
use crate::session::LabSession;
use crate::{IoAddress, LabError, LabMachine, VmConfig, abi, step};
use exitscope_model::Event;
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit};
use exitscope_stats::quantile_of_sorted;
use exitscope_units::Nanos;
use std::time::Duration;

/// The delays, in nanoseconds: close together where a small one begins to show.
const DELAYS: [u64; 16] = [0, 25, 50, 75, 100, 125, 150, 175, 200, 300, 500, 1_000, 3_000, 10_000, 20_000, 30_000];

/// What an exit got shorter by in the talk, and what throughput gained by it is told of: 1 to 2 %.
const EARLY: [u64; 2] = [100, 200];

/// A turn is made of such, so that one that other programs make longer has an end: its samples are counted before it begins.
const PART: Duration = Duration::from_millis(50);

/// Rounds of the pilot, which takes a tenth of the time, beside it.
const PILOT_ROUNDS: u32 = 5;
const PILOT_PART: u32 = 10;

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let mut turns = DelayTurns::new(machine, plan.pin)?;
    let mut session = LabSession::new(machine, plan, false)?;
    let pilot = turns.pilot(plan)?;
    let round = plan.turn() * DELAYS.len() as u32;
    let planned = pilot.map_or_else(
        || DelayPlan { turns: vec![plan.turn(); DELAYS.len()], resolves: None },
        |pilot| pilot.plan(&DELAYS, plan.rounds, round),
    );
    let mut rows = DELAYS.map(|_| DelayRow::default());
    let mut events = Vec::new();
    session.take_turns(DELAYS.len(), |session, round, at| {
        let keep = keep_events && session.is_last(round);
        let turn = turns.turn(at, planned.turns[at], keep)?;
        if round.is_some() {
            rows[at].add(machine, &turn);
        }
        if keep {
            events.extend(turn.events);
        }
        Ok(())
    })?;
    let mut findings = session.findings(
        "delay",
        "How throughput falls when every exit takes longer: two vCPUs exchange a byte each way, with an exit each",
    )?;
    let rows: Vec<FindingRow> = DELAYS.iter().zip(&rows).map(|(delay, row)| row.finding(machine, *delay)).collect();
    findings.summary = summary(&rows);
    findings.summary.extend(plan_sentence(plan, pilot, planned.resolves));
    findings.tables =
        vec![FindingsTable { title: "Round trips by the delay after each exit, in ns", labels: vec!["delay"], rows }];
    Ok((findings, Events::merge(events)))
}

/// The VM, and about how long a round trip takes with each delay. One VM for all: nothing but the delay differs.
struct DelayTurns<'a> {
    machine: &'a LabMachine,
    bench: Bench,
    pin: bool,
    about: [Option<f64>; DELAYS.len()],
}

impl<'a> DelayTurns<'a> {
    fn new(machine: &'a LabMachine, pin: bool) -> Result<DelayTurns<'a>, LabError> {
        if machine.cpus.len() < 2 {
            return Err(LabError::CannotDo("lab delay needs two CPUs, as both its vCPUs spin".into()));
        }
        let place = IoAddress::Port(MESSAGE_PORT);
        let spec = Spec {
            job: Job::RequestResponse,
            config: VmConfig { irqchip: false, ..VmConfig::new(2, machine.ring()) },
            devices: vec![(place, place)],
            delay_alternates: true,
            ..Spec::new(machine.ring(), step(abi::op::NOTHING))
        };
        Ok(DelayTurns { machine, bench: Bench::new(machine, spec)?, pin, about: DELAYS.map(|_| None) })
    }

    /// A turn of one delay, of about this length.
    fn turn(&mut self, at: usize, length: Duration, events: bool) -> Result<DelayTurn, LabError> {
        self.bench.set_delay(DELAYS[at]);
        let mut all = DelayTurn::default();
        loop {
            let left = length.saturating_sub(Duration::from_nanos(all.ns as u64)).min(PART);
            let about = self.about[at];
            let samples = about.map_or(100, |ticks| MeasurePlan::samples_in(left, self.machine, ticks, MAX_TURN));
            let turn = self.bench.turn(self.machine, samples, self.pin, events)?;
            // As long as one really takes, with what other programs take away.
            self.about[at] = Some(turn.ticks as f64 / turn.samples.len().max(1) as f64);
            all.take(self.machine, turn);
            if all.ns >= length.as_nanos() as f64 {
                return Ok(all);
            }
        }
    }

    /// Short turns of all delays.
    fn pilot(&mut self, plan: &MeasurePlan) -> Result<Option<DelayPilot>, LabError> {
        let short = MeasurePlan { rounds: PILOT_ROUNDS, duration: plan.duration / PILOT_PART, progress: None, ..*plan };
        let mut pilot = vec![Vec::new(); DELAYS.len()];
        take_turns(&short, DELAYS.len(), |round, at| {
            let turn = self.turn(at, short.turn(), false)?;
            if let (Some(_), Some(added)) = (round, turn.added()) {
                let added_ns = self.machine.ns_in(added);
                pilot[at].push(PilotTurn { pairs: turn.with.len(), added_ns, ns: turn.ns });
            }
            Ok(())
        })?;
        Ok(DelayPilot::of(&DELAYS, &pilot))
    }
}

/// What a turn gave, in ticks.
#[derive(Default)]
struct DelayTurn {
    /// Delayed round trips.
    with: Vec<u32>,
    /// Those between.
    without: Vec<u32>,
    /// Of each delayed one to the one before it, and to the one after it.
    differences: Vec<i64>,
    /// What taking a sample costs.
    base: f64,
    /// How long the turn took, in nanoseconds.
    ns: f64,
    events: Vec<Events>,
}

impl DelayTurn {
    /// Takes a part of it: every second round trip is delayed.
    fn take(&mut self, machine: &LabMachine, turn: BenchTurn) {
        self.with.extend(turn.samples.iter().skip(1).step_by(2));
        self.without.extend(turn.samples.iter().step_by(2));
        self.differences.extend(differences(&turn.samples));
        self.base = turn.base;
        self.ns += machine.ns_in(turn.ticks as f64).max(1.0);
        self.events.extend(turn.events);
    }

    /// What delayed round trips take longer than undelayed ones: the median of the differences. What drifts, and stretches that
    /// are slow for both, are in neither.
    fn added(&self) -> Option<f64> {
        let mut differences = self.differences.clone();
        differences.sort_unstable();
        quantile_of_sorted(&differences, 5_000).map(|ticks| ticks as f64)
    }
}

/// What the rounds gave of one delay.
#[derive(Default)]
struct DelayRow {
    delayed: Series,
    /// Of each round: round trips a second.
    rates: Vec<f64>,
    /// Nanoseconds added to one, and the part of round trips that this costs; each with how many round trips it is of, by which
    /// a round counts: one in which other programs took most of the time has few.
    added: Vec<(f64, f64)>,
    lost: Vec<(f64, f64)>,
}

impl DelayRow {
    fn add(&mut self, machine: &LabMachine, turn: &DelayTurn) {
        // Each round trip is one exit of each vCPU.
        let ns: f64 = turn.with.iter().map(|&ticks| machine.ns_in(ticks.into())).sum();
        self.rates.push(turn.with.len() as f64 * 1e9 / ns.max(1.0));
        self.delayed.add(&turn.with, turn.base);
        let mut without = turn.without.clone();
        without.sort_unstable();
        if let (Some(added), Some(median)) = (turn.added(), quantile_of_sorted(&without, 5_000)) {
            let weight = turn.with.len() as f64;
            self.added.push((machine.ns_in(added), weight));
            self.lost.push((added / (f64::from(median) - turn.base + added), weight));
        }
    }

    fn finding(&self, machine: &LabMachine, delay: u64) -> FindingRow {
        let mut figures: Vec<FindingFigure> =
            self.delayed.summary().map(|summary| summary.figures(machine)).unwrap_or_default();
        figures.extend(FindingFigure::of_rounds("round trips", Unit::PerSecond, &self.rates));
        if delay > 0 {
            figures.extend(FindingFigure::of_weighted_rounds("added", Unit::Nanos, &self.added));
            figures.extend(FindingFigure::of_weighted_rounds("lost", Unit::Share, &self.lost));
        }
        FindingRow { labels: vec![delay.to_string()], figures, ..FindingRow::default() }
    }
}

/// How much longer each delayed round trip takes than the one before it, and than the one after it: that comes before this is as
/// often as that it comes after.
fn differences(samples: &[u32]) -> impl Iterator<Item = i64> {
    samples.windows(2).enumerate().map(|(at, pair)| {
        let [first, second] = [pair[0], pair[1]].map(i64::from);
        if at.is_multiple_of(2) { second - first } else { first - second }
    })
}

fn summary(rows: &[FindingRow]) -> Vec<String> {
    let mut said = Vec::new();
    let ends = rows
        .first()
        .zip(rows.last())
        .and_then(|(first, last)| Some((first.figure("time")?, last.figure("time")?, last.figure("added")?)));
    if let (Some((without, with, added)), Some(most)) = (ends, DELAYS.last()) {
        said.push(format!(
            "At the median, a delay of {most} ns after each exit lengthens a round trip from {} to {}; with its \
             {EXITS:.0} exits, it gets {} ns longer for each ns of delay.",
            without.micros(),
            with.micros(),
            added.with_margin(*most as f64, 2)
        ));
    }
    let lost = EARLY.iter().filter_map(|early| {
        let row = rows.get(DELAYS.iter().position(|delay| delay == early)?)?;
        Some(format!("{early} ns {} %", row.figure("lost")?.with_margin(0.01, 2)))
    });
    let lost: Vec<String> = lost.collect();
    if !lost.is_empty() {
        said.push(format!("Of the round trips that a second has room for, a delay takes away: {}.", lost.join(", ")));
    }
    said.push(
        "round trips, per second, are by the mean, which includes time that other programs took; added is the median difference to \
             the round trips before and after each delayed one, and lost is added over the time of a delayed one."
            .to_string(),
    );
    let added = |row: &FindingRow| row.figure("added").and_then(|added| added.interval);
    // Each interval is wrong once in twenty times; a lone one among others that hold zero says little.
    let unsure = rows.iter().rposition(|row| added(row).is_none_or(|interval| interval.0 <= 0.0));
    said.push(match DELAYS.get(unsure.map_or(0, |unsure| unsure + 1)) {
        Some(delay) => format!(
            "The smallest delay that is seen for certain (its interval and those of all longer ones exclude zero) is \
             {delay} ns."
        ),
        None => "No delay is seen for certain.".to_string(),
    });
    said
}

/// What the pilot says can be told in this time, and what the delays of the talk would take.
fn plan_sentence(plan: &MeasurePlan, pilot: Option<DelayPilot>, resolves: Option<u64>) -> Option<String> {
    let pilot = pilot?;
    let all = Nanos((plan.duration * DELAYS.len() as u32).as_nanos() as u64);
    let can = match resolves {
        Some(delay) => format!("the smallest delay that can be told from none is {delay} ns"),
        None => "no delay can be told from none".to_string(),
    };
    let [goal, _] = EARLY;
    let more = match pilot.needed(&DELAYS, goal, plan.rounds) {
        _ if resolves.is_some_and(|delay| delay <= goal) => String::new(),
        Some(round) => {
            let seconds = round.as_secs_f64() * f64::from(plan.rounds) / DELAYS.len() as f64;
            format!("; {goal} ns takes a --duration of {:.1}s or more", seconds.max(0.1))
        }
        None => "; it takes two rounds or more (--repeat)".to_string(),
    };
    Some(format!("By how much round trips differed in a pilot, in the {all} of all rows {can}{more}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips on a machine that becomes slower and is slow by turns, every second one delayed by so many ticks.
    fn samples(delay: u32) -> Vec<u32> {
        (0..4_000u32)
            .map(|at| {
                50_000 + at + at / 400 % 2 * 30_000 + (at.wrapping_mul(2_654_435_761) >> 16) % 101 + at % 2 * delay
            })
            .collect()
    }

    #[test]
    fn what_drifts_and_what_is_slow_by_turns_is_not_added() {
        let added =
            |samples: &[u32]| DelayTurn { differences: differences(samples).collect(), ..DelayTurn::default() }.added();
        for delay in [0, 20, 200, 60_000] {
            let added = added(&samples(delay)).unwrap();
            assert!((added - f64::from(delay)).abs() <= 5.0, "{delay}: {added}");
        }
        assert_eq!((added(&[]), added(&[5]), added(&[5, 8])), (None, None, Some(3.0)));
    }

    fn row(delay: u64, added: Option<[f64; 2]>) -> FindingRow {
        let figure = added.map(|[low, high]| FindingFigure {
            interval: Some((low, high)),
            ..FindingFigure::plain("added", Unit::Nanos, (low + high) / 2.0)
        });
        FindingRow { labels: vec![delay.to_string()], figures: figure.into_iter().collect(), ..FindingRow::default() }
    }

    #[test]
    fn a_delay_is_seen_if_it_and_all_longer_ones_exclude_zero() {
        let rows = |unsure: u64| {
            DELAYS.map(|delay| row(delay, (delay > 0).then(|| [if delay == unsure { -1.0 } else { 1.0 }, 3.0])))
        };
        let said = |unsure| summary(&rows(unsure)).pop().unwrap();
        assert!(said(100).ends_with("is 125 ns."), "{}", said(100));
        assert!(said(1).ends_with("is 25 ns."), "{}", said(1));
        assert_eq!(said(30_000), "No delay is seen for certain.");
    }
}
