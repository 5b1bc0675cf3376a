//! What other settings of halt polling would have made of the recorded halts: the places of the page's slider.

use exitscope_advice::TriedLimits;
use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, HaltReplay, RecordedHalt};
use exitscope_analysis::{DurationStats, Halts, RecordedHaltPolling};
use exitscope_view::DurationStatsRow;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::thread;

/// Values of halt_poll_ns that are tried.
const HOST: [u64; 10] = [0, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000];

/// Values of guest_halt_poll_ns that are tried; a limit cannot be below grow_start.
const GUEST: [u64; 7] = [0, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000];

/// Halt polling with other limits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PollLimitTable {
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
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PollRow {
    value_ns: Option<u64>,
    halts: u64,
    caught: u64,
    polling_ns: u64,
    missed_ns: u64,
    latency: DurationStatsRow,
}

/// What came of the halts with each limit; with none, what was in force.
type Outcomes = BTreeMap<Option<u64>, HaltOutcome>;

/// Replays, in two threads, `halts`, the last of those that `of` counts, recorded on `host`; `None` if there are none.
/// `elsewhere` waits for the limits that somebody else tries on the same halts meanwhile, those of advice; what it does not
/// bring is tried here.
pub(crate) fn halt_polls<'a>(
    of: &Halts,
    halts: impl Iterator<Item = &'a [RecordedHalt]> + Clone + Sync,
    host: &RecordedHaltPolling,
    elsewhere: Option<impl FnOnce() -> TriedLimits>,
) -> Option<PollLimitTable> {
    let all = of.all();
    let replayed: usize = halts.clone().map(<[_]>::len).sum();
    if replayed == 0 || all.halts() == 0 {
        return None;
    }
    // Some halts are tried with all limits that nobody else tries, and then the next; none is what was in force.
    let try_missing = |policy, knob, limits: &[Option<u64>], outcomes: &mut Outcomes, but: &[u64]| {
        let replay = |limit: Option<u64>| {
            let set: Vec<_> = limit.map(|limit| (knob, limit)).into_iter().collect();
            Some((limit, HaltReplay::new(policy, &of.settings, host, &set, &all).ok()?))
        };
        let is_missing =
            |limit: &Option<u64>| !outcomes.contains_key(limit) && !limit.is_some_and(|limit| but.contains(&limit));
        let mut replays: Vec<_> = limits.iter().copied().filter(is_missing).filter_map(replay).collect();
        for some in halts.clone() {
            replays.iter_mut().for_each(|(_, replay)| replay.absorb_recorded(some));
        }
        outcomes.extend(replays.into_iter().map(|(limit, replay)| (limit, replay.outcome)));
    };
    let host_limits: Vec<_> = std::iter::once(None).chain(HOST.map(Some)).collect();
    let guest_limits = if host.is_of_vcores() { Vec::new() } else { GUEST.map(Some).to_vec() };
    let (mut of_host, mut of_guest) = (Outcomes::new(), Outcomes::new());
    let try_both = |of_host: &mut Outcomes, of_guest: &mut Outcomes, but: (&[u64], &[u64])| {
        thread::scope(|scope| {
            let guest = "guest_halt_poll_ns";
            scope.spawn(|| try_missing(HaltPolicy::Guest, guest, &guest_limits, of_guest, but.1));
            try_missing(HaltPolicy::Host, "halt_poll_ns", &host_limits, of_host, but.0);
        });
    };
    let expected = if elsewhere.is_some() { TriedLimits::EXPECTED } else { (&[][..], &[][..]) };
    try_both(&mut of_host, &mut of_guest, expected);
    if let Some(wait) = elsewhere {
        let tried = wait();
        of_host.extend(tried.host.into_iter().map(|(limit, outcome)| (Some(limit), outcome)));
        of_guest.extend(tried.guest.into_iter().map(|(limit, outcome)| (Some(limit), outcome)));
        try_both(&mut of_host, &mut of_guest, (&[], &[]));
    }

    let rows = |limits: &[Option<u64>], outcomes: &Outcomes| -> Vec<PollRow> {
        limits.iter().filter_map(|limit| Some(PollRow::of(*limit, outcomes.get(limit)?))).collect()
    };
    Some(PollLimitTable {
        replayed: replayed as u64,
        halts: all.halts(),
        gaps: gaps(&all.successful_polls.gaps, &all.gaps_not_caught()),
        inexact: all.inexact(),
        in_force: PollRow::of(None, of_host.get(&None)?),
        host: rows(&host_limits[1..], &of_host),
        guest: rows(&guest_limits, &of_guest),
    })
}

fn gaps(caught: &DurationStats, slept: &DurationStats) -> Vec<(u64, u64, u64, u64)> {
    let mut rows: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for (low, width, count) in caught.histogram.counts().buckets() {
        rows.entry(low).or_insert((width, 0, 0)).1 += count;
    }
    for (low, width, count) in slept.histogram.counts().buckets() {
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
            latency: DurationStatsRow::of(&outcome.latencies),
        }
    }
}
