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

use crate::bench::{Bench, Job, MAX_TURN, MESSAGE_PORT, Spec};
use crate::events::Events;
use crate::measure::{MeasurePlan, Noise, Series, machine_warnings, manifest, take_turns};
use crate::{IoAddress, LabError, LabMachine, VmConfig, abi, step};
use exitscope_model::Event;
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit};
use std::time::Instant;

/// The delays, in nanoseconds: close together where a small one begins to show.
const DELAYS: [u64; 16] = [0, 25, 50, 75, 100, 125, 150, 175, 200, 300, 500, 1_000, 3_000, 10_000, 20_000, 30_000];

/// Here a delay begins to show where exits are fast, says the talk.
const EARLY: u64 = 100;

/// Exits between a request and its response.
const EXITS: f64 = 2.0;

/// Measures it. With `keep_events`, the events of the last round come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
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
    // One VM for all delays: nothing but the delay differs.
    let mut bench = Bench::new(machine, spec)?;
    let (began, noise) = (Instant::now(), Noise::now());
    let mut series = DELAYS.map(|_| Series::default());
    let mut undelayed = DELAYS.map(|_| Series::default());
    let mut rates = DELAYS.map(|_| Vec::new());
    let mut about = DELAYS.map(|_| None);
    let mut events = Vec::new();
    let last = plan.rounds.checked_sub(1);
    take_turns(plan, DELAYS.len(), |round, at| {
        bench.set_delay(DELAYS[at]);
        let keep = keep_events && round == last;
        let samples = about[at].map_or(100, |ticks| plan.samples(machine, ticks, MAX_TURN));
        let turn = bench.turn(machine, samples, plan.pin, keep)?;
        // As long as one really takes, with what other programs take away.
        about[at] = Some(turn.ticks as f64 / turn.samples.len().max(1) as f64);
        if round.is_some() {
            // Each round trip is one exit of each vCPU.
            let part = |delayed: usize| turn.samples.iter().copied().skip(delayed).step_by(2).collect::<Vec<u32>>();
            let with = part(1);
            let ns: f64 = with.iter().map(|&ticks| machine.ns_in(ticks.into())).sum();
            rates[at].push(with.len() as f64 * 1e9 / ns.max(1.0));
            series[at].add(&with, turn.base);
            undelayed[at].add(&part(0), turn.base);
        }
        if keep {
            events.extend(turn.events);
        }
        Ok(())
    })?;
    let mut findings = Findings {
        experiment: "delay",
        description: "How throughput falls when every exit takes longer: two vCPUs exchange a byte each way, with an exit each",
        manifest: manifest(machine, plan, plan.pin),
        warnings: machine_warnings(machine),
        ..Findings::default()
    };
    findings.warnings.extend(noise.warnings(began.elapsed(), machine.cpus.len()));
    let rows = DELAYS.iter().enumerate().map(|(at, delay)| {
        let mut figures: Vec<FindingFigure> =
            series[at].summary().map(|summary| summary.figures(machine)).unwrap_or_default();
        figures.extend(FindingFigure::of_rounds("round trips", Unit::PerSecond, &rates[at]));
        let pairs = series[at].rounds().iter().zip(undelayed[at].rounds());
        let added: Vec<f64> = pairs.map(|(with, without)| machine.ns_in(with - without)).collect();
        if *delay > 0 {
            figures.extend(FindingFigure::of_rounds("added", Unit::Nanos, &added));
        }
        FindingRow { labels: vec![delay.to_string()], figures, cannot: None }
    });
    let rows: Vec<FindingRow> = rows.collect();
    findings.summary = summary(&rows, plan.rounds);
    findings.tables =
        vec![FindingsTable { title: "Round trips by the delay after each exit, in ns", labels: vec!["delay"], rows }];
    Ok((findings, Events::merge(events)))
}

fn summary(rows: &[FindingRow], rounds: u32) -> Vec<String> {
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
        said.push(
            "round trips, per second, are by the mean, which includes time that other programs took; added is the \
             difference to the round trips between the delayed ones."
                .to_string(),
        );
    }
    let added = |row: &FindingRow| row.figure("added").and_then(|added| added.interval);
    // Each interval is wrong once in twenty times; a lone one among others that hold zero says little.
    let unsure = rows.iter().rposition(|row| added(row).is_none_or(|interval| interval.0 <= 0.0));
    let sure = DELAYS.get(unsure.map_or(0, |unsure| unsure + 1)).copied();
    said.push(match sure {
        Some(delay) => format!(
            "The smallest delay that is seen for certain (its interval and those of all longer ones exclude zero) is \
             {delay} ns."
        ),
        None => "No delay is seen for certain: more rounds or a quieter machine are needed.".to_string(),
    });
    if sure.is_none_or(|delay| delay > EARLY) {
        // Long delays have scatter of their own.
        let early = DELAYS.iter().zip(rows).filter(|(delay, _)| **delay <= 1_000);
        let mut halves: Vec<f64> =
            early.filter_map(|(_, row)| added(row)).map(|(low, high)| (high - low) / 2.0).collect();
        halves.sort_by(f64::total_cmp);
        if let Some(half) = halves.get(halves.len() / 2) {
            let more = (half / (EXITS * EARLY as f64)).powi(2).ceil().max(2.0);
            said.push(format!(
                "To see {EARLY} ns for certain takes about {more:.0} times as many rounds here: --repeat {:.0} and a \
                 --duration {more:.0} times as long.",
                more * f64::from(rounds)
            ));
        }
    }
    said
}
