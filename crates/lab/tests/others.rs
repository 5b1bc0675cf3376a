//! What cheaper exits would win, by delaying all other vCPUs, on this machine's real KVM: as much as they win when they are cheaper.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use exitscope_lab::exit_account::LabExitReason;
use exitscope_lab::measure::MeasurePlan;
use exitscope_lab::others::{self, DelayedOthers, KnownGuests, OthersCase, OthersTurn, known_guests};
use exitscope_lab::session::LabSession;
use exitscope_lab::{LabError, LabMachine};
use exitscope_scenario::findings::FindingFigure;
use exitscope_scenario::{Disk, Op, Scenario, TimeDistribution, VmSpec};
use exitscope_skips::{Part, need, or_skip};
use exitscope_stats::Estimate;
use exitscope_units::{Nanos, Picos};
use std::sync::Mutex;
use std::time::Duration;

/// Guests of two tests at a time would be in each other's way.
static TURN: Mutex<()> = Mutex::new(());

/// What is planted: exits of a kind take so much longer.
const PLANTED: Nanos = Nanos(60_000);

/// How much more than chance the prediction may be off by: what turns have in common beside the exits (a CPU's other thread, other
/// programs) is not the same in both worlds.
const SLACK: f64 = 1.2;

/// Rounds of each guest, and how many of them must be quiet for a figure.
const ROUNDS: u32 = 16;
const ENOUGH: usize = 4;
const TURN_LENGTH: Duration = Duration::from_millis(40);

/// As if so many figures had been looked at: chance alone is outside of the interval once in 20,000 times.
const CHOICES: usize = 1_000;

/// As planted; as if they were cheaper by what was planted; and without what was planted. Round by round, what the guests do a second.
fn rounds(machine: &LabMachine, guests: &KnownGuests) -> Vec<[OthersTurn; 3]> {
    let delayed = DelayedOthers::new(machine, &guests.scenario, true).unwrap();
    let plan = MeasurePlan { rounds: ROUNDS, duration: TURN_LENGTH * ROUNDS, ..MeasurePlan::default() };
    let planted = Some((guests.reason, PLANTED));
    let cases = [
        OthersCase { longer: planted, cheaper: None },
        OthersCase { longer: planted, cheaper: planted },
        OthersCase::default(),
    ];
    let mut rounds = vec![<[OthersTurn; 3]>::default(); plan.rounds as usize];
    let mut session = LabSession::new(machine, &plan, true).unwrap();
    let taken = session.take_turns(cases.len(), |session, round, at| {
        let turn = session.possible(guests.about, |speed| delayed.turn(speed, cases[at], plan.turn()))?;
        if let Some(round) = round {
            rounds[round as usize][at] = turn;
        }
        Ok(())
    });
    taken.unwrap();
    rounds
}

/// The interval of how many times as much one turn of a round did as another.
fn times(rounds: &[[OthersTurn; 3]], own: usize, other: usize, choices: usize) -> (f64, f64) {
    let ratios: Vec<f64> = rounds.iter().map(|turns| turns[own].rates[0] / turns[other].rates[0]).collect();
    Estimate::of_ratios(&ratios, choices).unwrap().interval.unwrap()
}

#[test]
fn a_planted_gain_is_what_delaying_all_others_says_that_it_is() {
    let _turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    let machine = or_skip!(common::machine());
    or_skip!(need(machine.cpus.len() >= 2, Part::TwoCpus, "a vCPU that is delayed needs a CPU of its own"));
    for guests in known_guests(machine.cpus.len() as u32) {
        let rounds = rounds(&machine, &guests);
        for at in [0, 1, 2] {
            let exits: u64 = rounds.iter().map(|turns| turns[at].exits[guests.reason as usize]).sum();
            assert!(exits > 0, "{}", guests.about);
        }
        let is_quiet = |turns: &[OthersTurn; 3]| turns.iter().all(OthersTurn::is_quiet);
        let quiet: Vec<_> = rounds.into_iter().filter(is_quiet).collect();
        let said = match quiet.len() {
            0..ENOUGH => "not measurable here".to_string(),
            _ => {
                let (low, high) = times(&quiet, 1, 2, CHOICES);
                assert!(low <= SLACK && high >= 1.0 / SLACK, "{}: {low} to {high} times what is", guests.about);
                let [predicted, won] = [1, 2].map(|own| times(&quiet, own, 0, 1));
                format!("predicted {predicted:.2?} times, won {won:.2?} times")
            }
        };
        println!("{}, {} quiet rounds: {said}", guests.about, quiet.len());
    }
}

#[test]
fn what_of_a_scenario_cannot_be_delayed_is_said_and_nothing_is_measured() {
    let _turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    let machine = or_skip!(common::machine());
    let plan = MeasurePlan { rounds: 2, duration: Duration::from_millis(20), ..MeasurePlan::default() };
    let cpus = machine.cpus.len() as u32;
    let known = |at: usize| known_guests(cpus).swap_remove(at).scenario;
    let with = |scenario: Scenario, change: fn(&mut VmSpec)| {
        let mut scenario = scenario;
        change(&mut scenario.vms[0]);
        scenario
    };
    let disk = |vm: &mut VmSpec| {
        let service = TimeDistribution::Fixed(Picos::from_nanos(1_000));
        vm.disks.push(Disk { name: "disk".into(), service, parallel: 1, thread: Picos::ZERO });
    };
    for (scenario, by, why) in [
        (with(known(0), disk), 1_000, "the disks of alone are not delayed"),
        (with(known(0), |vm| vm.locks.push("lock".into())), 1_000, "vCPUs of alone spin for locks"),
        (with(known(0), |vm| vm.cpuidle_haltpoll = true), 1_000, "vCPUs of alone poll before they halt"),
        (with(known(0), |vm| vm.copies = 5_000), 1_000, "its 5000 vCPUs share"),
        (with(known(0), |vm| vm.programs[0].1 = vec![Op::Count]), 1_000, "no exit of the scenario goes to user space"),
        (
            with(known(0), |vm| vm.programs[0].1 = vec![Op::Repeat(Some(9), vec![])]),
            1_000,
            "the scenario counts no work",
        ),
        (known(0), 3_600_000_000_000, "would take less than no time: give a shorter --by"),
    ] {
        let said = match others::run(&machine, &scenario, &plan, Nanos(by)) {
            Err(LabError::CannotDo(said)) => said,
            other => panic!("{why}: {other:?}"),
        };
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn each_kind_of_exit_has_a_row_for_what_counts() {
    let _turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    let machine = or_skip!(common::machine());
    let plan = MeasurePlan { rounds: 2, duration: Duration::from_millis(200), ..MeasurePlan::default() };
    let guests = known_guests(machine.cpus.len() as u32).swap_remove(0);
    let found = others::run(&machine, &guests.scenario, &plan, Nanos(1_000)).unwrap();
    let [table] = &found.tables[..] else { panic!("{found:?}") };
    let labels: Vec<&str> = table.rows.iter().map(|row| row.labels[0].as_str()).collect();
    assert_eq!(labels, ["as it is", LabExitReason::PortIn.name()]);
    for row in &table.rows {
        assert_ne!(row.figures.is_empty(), row.cannot.is_none(), "{row:?}");
    }
    // Each counts after its exit, so that both are as often, but for the last one; if the machine was quiet enough to tell.
    let value = |row: usize, name: &str| table.rows[row].figure(name).map(|figure: &FindingFigure| figure.value);
    if let Some((counted, exits)) = value(0, "rate").zip(value(1, "exits")) {
        assert!((exits / counted - 1.0).abs() < 0.2, "{counted} and {exits}");
    }
    assert!(found.warnings.iter().any(|said| said.contains("no vCPU beside this one")), "{:?}", found.warnings);
}
