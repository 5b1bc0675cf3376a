//! What other settings of halt polling would have made of the recorded halts: the places of the page's slider.

use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, HaltReplay, Recorder};
use exitscope_analysis::{Halts, Lengths, PollHost};
use exitscope_model::Halt;
use exitscope_view::LengthsRow;
use serde::Serialize;
use std::panic::resume_unwind;
use std::thread;

/// Values of halt_poll_ns that are tried.
const HOST: [u64; 10] = [0, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000];

/// Values of guest_halt_poll_ns that are tried; a limit cannot be below grow_start.
const GUEST: [u64; 7] = [0, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000];

/// Halts that one limit after the other is tried with (100 KB): what one limit does is alike from halt to halt.
const AT_ONCE: usize = 1024;

/// Halt polling with other limits.
#[derive(Clone, Debug, Serialize)]
pub struct Polls {
    /// Halts that were replayed: the last ones, of so many that there were.
    replayed: u64,
    halts: u64,
    /// Gaps by length: shortest, width of the bucket, how many were caught, and how many not.
    gaps: Vec<(u64, u64, u64, u64)>,
    /// Halts whose gap is not known exactly.
    inexact: u64,
    /// The host's polling with the settings that were in force.
    in_force: PollRow,
    /// The host's with each limit.
    host: Vec<PollRow>,
    /// The guest's with each limit; none on powerpc, whose guests have no such governor.
    guest: Vec<PollRow>,
}

/// What one limit would have made of the halts.
#[derive(Clone, Debug, Serialize)]
struct PollRow {
    value_ns: Option<u64>,
    halts: u64,
    caught: u64,
    polling_ns: u64,
    missed_ns: u64,
    latency: LengthsRow,
}

/// Replays, in two threads, `halts`, the last of those that `of` counts, recorded on `host`; `None` if there are none.
pub fn halt_polls<'a>(
    of: &Halts,
    halts: impl ExactSizeIterator<Item = &'a Halt> + Clone + Sync,
    host: &PollHost,
) -> Option<Polls> {
    let all = of.all();
    if halts.len() == 0 || all.halts() == 0 {
        return None;
    }
    // Each halt is looked at once, and tried with all limits; none is what was in force.
    let rows = |policy, knob, limits: &mut dyn Iterator<Item = Option<u64>>| {
        let replay = |limit: Option<u64>| {
            let set: Vec<_> = limit.map(|limit| (knob, limit)).into_iter().collect();
            Some((limit, HaltReplay::new(policy, &of.settings, host, &set, &all).ok()?))
        };
        let mut replays: Vec<_> = limits.filter_map(replay).collect();
        let mut recorder = Recorder::default();
        let mut halts = halts.clone();
        let mut some = Vec::with_capacity(AT_ONCE);
        loop {
            some.clear();
            some.extend(halts.by_ref().take(AT_ONCE).map(|halt| recorder.recorded(halt)));
            if some.is_empty() {
                break;
            }
            for (_, replay) in &mut replays {
                some.iter().for_each(|recorded| replay.absorb_recorded(recorded));
            }
        }
        replays.into_iter().map(|(limit, replay)| PollRow::of(limit, &replay.outcome)).collect::<Vec<_>>()
    };
    let guest = || match host.is_of_vcores() {
        true => Vec::new(),
        false => rows(HaltPolicy::Guest, "guest_halt_poll_ns", &mut GUEST.map(Some).into_iter()),
    };
    let (mut of_host, guest) = thread::scope(|scope| {
        let guest = scope.spawn(guest);
        let mut limits = std::iter::once(None).chain(HOST.map(Some));
        let of_host = rows(HaltPolicy::Host, "halt_poll_ns", &mut limits);
        (of_host, guest.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let in_force = of_host.iter().position(|row| row.value_ns.is_none()).map(|at| of_host.remove(at))?;
    let slept = if all.is_told() { &all.slept.gaps } else { &all.untold.gaps };
    Some(Polls {
        replayed: halts.len() as u64,
        halts: all.halts(),
        gaps: gaps(&all.caught.gaps, slept),
        inexact: all.inexact(),
        in_force,
        host: of_host,
        guest,
    })
}

fn gaps(caught: &Lengths, slept: &Lengths) -> Vec<(u64, u64, u64, u64)> {
    let mut rows: std::collections::BTreeMap<u64, (u64, u64, u64)> = std::collections::BTreeMap::new();
    for (low, width, count) in caught.histogram.buckets() {
        rows.entry(low).or_insert((width, 0, 0)).1 += count;
    }
    for (low, width, count) in slept.histogram.buckets() {
        rows.entry(low).or_insert((width, 0, 0)).2 += count;
    }
    rows.into_iter().map(|(low, (width, caught, slept))| (low, width, caught, slept)).collect()
}

impl PollRow {
    fn of(value_ns: Option<u64>, outcome: &HaltOutcome) -> PollRow {
        PollRow {
            value_ns,
            halts: outcome.halts,
            caught: outcome.caught,
            polling_ns: outcome.polling,
            missed_ns: outcome.polling_missed,
            latency: LengthsRow::of(&outcome.latencies),
        }
    }
}
