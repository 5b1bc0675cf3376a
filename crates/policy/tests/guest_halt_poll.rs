//! The haltpoll governor against what the kernel's document says of it, put as laws over whole histories of halts:
//!
//! ```text
//! rungs      0, start, start * grow, start * grow², …, and never more than the largest
//! growth     as many rungs up as there are, in order, halts of at most the largest that are each longer than the rung before
//! shrinking  n halts longer than the largest divide the limit by shrink^n; what is less than start is 0, but in guests of
//!            before Linux 6.9
//! ```
//!
//! No step of the governor is repeated here: growth is a search for the longest such chain, shrinking one division.
//!
//! Source: Linux Documentation/virt/guest-halt-polling.rst; where it is silent (a halt of exactly the largest, the floor of
//! shrinking), drivers/cpuidle/governors/haltpoll.c.

use exitscope_policy::guest_halt_poll::{GuestHaltPoll, IdleOutcome, IdleState, Params};
use exitscope_units::Nanos;
use proptest::prelude::*;
use proptest::sample::Index;

fn halted(governor: &mut GuestHaltPoll, params: &Params, residency: u64) -> u64 {
    governor.reflect(params, IdleOutcome::Halted { residency: Nanos(residency) });
    governor.limit().0
}

fn after(params: &Params, limit: u64, halts: &[u64]) -> u64 {
    let mut governor = GuestHaltPoll::with_limit(Nanos(limit));
    halts.iter().for_each(|&halt| _ = halted(&mut governor, params, halt));
    governor.limit().0
}

/// The limits that growing goes through, from this one on.
fn rungs(params: &Params, from: u64) -> impl Iterator<Item = u64> {
    let (start, most, grow) =
        (params.guest_halt_poll_grow_start.0, params.guest_halt_poll_ns.0, u64::from(params.guest_halt_poll_grow));
    std::iter::successors(Some(from), move |limit| Some((limit * grow).clamp(start.min(most), most)))
}

/// The most halts, in order, of which each is longer than its rung: `rungs[0]` is that of the first.
fn longest_chain(rungs: &[u64], halts: &[u64]) -> usize {
    let Some((halt, rest)) = halts.split_first() else { return 0 };
    let without = longest_chain(rungs, rest);
    if *halt > rungs[0] { without.max(1 + longest_chain(&rungs[1..], rest)) } else { without }
}

/// The limit after all these halts, by the laws.
fn by_laws(params: &Params, limit: u64, halts: &[u64]) -> u64 {
    let is_long = |halt: &u64| *halt > params.guest_halt_poll_ns.0;
    halts.chunk_by(|a, b| is_long(a) == is_long(b)).fold(limit, |limit, run| {
        if !is_long(&run[0]) {
            let rungs: Vec<u64> = rungs(params, limit).take(run.len() + 1).collect();
            return rungs[longest_chain(&rungs, run)];
        }
        if !params.guest_halt_poll_allow_shrink {
            return limit;
        }
        let divisor = u64::from(params.guest_halt_poll_shrink).pow(run.len() as u32);
        let shrunk = limit.checked_div(divisor).unwrap_or(0);
        if shrunk < params.guest_halt_poll_grow_start.0 && params.guest_halt_poll_reset { 0 } else { shrunk }
    })
}

/// Times that can be divided by 2 and by 3 as often as a history is long.
const GRAIN: u64 = 6u64.pow(8);

fn any_params() -> impl Strategy<Value = Params> {
    (0u64..12, 0u32..4, 0u32..4, 0u64..12, any::<[bool; 2]>()).prop_map(
        |(most, shrink, grow, start, [allow, reset])| Params {
            guest_halt_poll_ns: Nanos(most * GRAIN),
            guest_halt_poll_shrink: shrink,
            guest_halt_poll_grow: grow,
            guest_halt_poll_grow_start: Nanos(start * GRAIN / 4),
            guest_halt_poll_allow_shrink: allow,
            guest_halt_poll_reset: reset,
            ..Params::default()
        },
    )
}

/// Halts, most of them just as long as something that lengths are compared with, or a nanosecond less or more.
fn any_halts() -> impl Strategy<Value = Vec<(Index, u64)>> {
    prop::collection::vec((any::<Index>(), 0u64..3), 0..8)
}

fn halts(params: &Params, picks: &[(Index, u64)]) -> Vec<u64> {
    let most = params.guest_halt_poll_ns.0;
    let lengths: Vec<u64> = rungs(params, 0).take(5).chain([most, most, 2 * most, most / 2, most / 3 + 7]).collect();
    picks.iter().map(|(pick, more)| (pick.get(&lengths) + more).saturating_sub(1)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_limit_after_any_history_is_that_of_the_laws(params in any_params(), picks in any_halts()) {
        let halts = halts(&params, &picks);
        for from in [0, params.guest_halt_poll_ns.0] {
            prop_assert_eq!(after(&params, from, &halts), by_laws(&params, from, &halts), "from {} by {:?}", from, &halts);
        }
    }

    #[test]
    fn if_all_times_are_longer_so_are_all_limits(params in any_params(), picks in any_halts(), times in 1u64..20) {
        let halts = halts(&params, &picks);
        let longer = Params {
            guest_halt_poll_ns: Nanos(params.guest_halt_poll_ns.0 * times),
            guest_halt_poll_grow_start: Nanos(params.guest_halt_poll_grow_start.0 * times),
            ..params
        };
        let scaled: Vec<u64> = halts.iter().map(|halt| halt * times).collect();
        prop_assert_eq!(after(&longer, 0, &scaled), after(&params, 0, &halts) * times);
    }

    #[test]
    fn polls_change_no_limit_however_they_end(params in any_params(), picks in any_halts(), ends: [bool; 8]) {
        let halts = halts(&params, &picks);
        let mut governor = GuestHaltPoll::new();
        for (halt, expired) in halts.iter().zip(ends) {
            governor.reflect(&params, IdleOutcome::Polled { expired });
            halted(&mut governor, &params, *halt);
        }
        prop_assert_eq!(governor.limit().0, after(&params, 0, &halts));
    }

    /// "guest_halt_poll_shrink: … when wakeup event occurs after the global guest_halt_poll_ns", "guest_halt_poll_grow: … but
    /// before global guest_halt_poll_ns": without such an event neither factor matters.
    #[test]
    fn a_factor_matters_only_for_its_own_events(params in any_params(), picks in any_halts(), factor in 0u32..9) {
        let most = params.guest_halt_poll_ns.0;
        let (long, short): (Vec<u64>, Vec<u64>) = halts(&params, &picks).into_iter().partition(|halt| *halt > most);
        let other = Params { guest_halt_poll_grow: factor, ..params };
        prop_assert_eq!(after(&params, most, &long), after(&other, most, &long));
        let other = Params { guest_halt_poll_shrink: factor, ..params };
        prop_assert_eq!(after(&params, 0, &short), after(&other, 0, &short));
    }

    /// An idle period is a poll, if there is a limit, and then a halt of what is left of it.
    #[test]
    fn a_period_is_polled_up_to_the_limit_and_halted_from_there(
        params in any_params(), picks in any_halts(), relax in 0u64..100
    ) {
        let params = Params { cpu_relax_ns: Nanos(relax), ..params };
        let mut governor = GuestHaltPoll::new();
        for event in halts(&params, &picks) {
            let limit = governor.limit();
            let period = governor.idle(&params, Nanos(event));
            prop_assert_eq!(period.polled.0 + period.halted.0, event);
            let poll = if limit == Nanos::ZERO { limit } else { params.poll_end(limit) };
            prop_assert_eq!(period.polled, poll.min(Nanos(event)));
            prop_assert_eq!(period.limit.0, after(&params, limit.0, &[period.halted.0][..usize::from(period.halted.0 > 0)]));
            prop_assert!(poll >= limit && poll.0 <= limit.0 + 201 * relax);
        }
    }
}

/// "This can be increased from 10000, to avoid misses during the initial growth stage: 10k, 20k, 40k, ... (example assumes
/// guest_halt_poll_grow=2)".
#[test]
fn growth_goes_as_the_documents_example_does() {
    let params = Params { guest_halt_poll_grow_start: Nanos(10_000), ..Params::default() };
    let mut governor = GuestHaltPoll::new();
    let limits =
        [5_000, 15_000, 30_000, 60_000, 100_000, 170_000, 200_000].map(|halt| halted(&mut governor, &params, halt));
    assert_eq!(limits, [10_000, 20_000, 40_000, 80_000, 160_000, 200_000, 200_000]);
}

/// "The per-cpu guest_halt_poll_ns eventually reaches zero in case of an idle system", by 200k, 66.666k, 22.222k, 7.407k with
/// a divisor of 3; "Set to N to avoid it (per-cpu guest_halt_poll_ns will remain high once achieves global value)".
#[test]
fn an_idle_system_comes_to_a_limit_of_zero_unless_it_may_not_shrink() {
    let params = Params { guest_halt_poll_shrink: 3, guest_halt_poll_grow_start: Nanos(20_000), ..Params::default() };
    for (halts, limit) in [(0, 200_000), (1, 66_666), (2, 22_222), (3, 0), (40, 0)] {
        assert_eq!(after(&params, 200_000, &vec![4_000_000; halts]), limit, "{halts} halts");
    }
    let stiff = Params { guest_halt_poll_allow_shrink: false, ..params };
    assert_eq!(after(&stiff, 200_000, &[4_000_000; 40]), 200_000);
}

/// The trace that "cpuidle: do not shrink guest poll_limit_ns below grow_start" shows of before: 10000, 5000, 2500, … 4.
#[test]
fn a_guest_of_before_linux_6_9_shrinks_below_the_limit_at_which_it_grows() {
    let params =
        Params { guest_halt_poll_grow_start: Nanos(10_000), guest_halt_poll_reset: false, ..Params::default() };
    let mut governor = GuestHaltPoll::with_limit(Nanos(10_000));
    let limits: Vec<u64> = (0..11).map(|_| halted(&mut governor, &params, 4_000_000)).collect();
    assert_eq!(limits, [5_000, 2_500, 1_250, 625, 312, 156, 78, 39, 19, 9, 4]);
    // A halt that a longer poll would have caught brings it to the start again.
    assert_eq!(halted(&mut governor, &params, 30_000), 10_000);
}

/// `val *= guest_halt_poll_grow` in adjust_poll_limit is a product of `unsigned int`s: 3e9 * 2 - 2^32 = 1705032704.
#[test]
fn a_limit_grows_in_32_bits() {
    let params = Params { guest_halt_poll_ns: Nanos(u32::MAX.into()), ..Params::default() };
    assert_eq!(after(&params, 3_000_000_000, &[4_000_000_000]), 1_705_032_704);
}

/// A poll that ran out is followed by a halt; after a halt, or a poll that ended in time, comes a poll if there is a limit.
#[test]
fn the_governor_polls_once_before_each_halt() {
    let params = Params::default();
    for limit in [0, 50_000] {
        let poll = if limit == 0 { IdleState::Halt } else { IdleState::Poll { limit: Nanos(limit) } };
        for (entered, next) in [
            (IdleOutcome::Polled { expired: true }, IdleState::Halt),
            (IdleOutcome::Polled { expired: false }, poll),
            // Of no length: it changes no limit.
            (IdleOutcome::Halted { residency: Nanos::ZERO }, poll),
        ] {
            for before in [IdleOutcome::Polled { expired: true }, IdleOutcome::Halted { residency: Nanos::ZERO }] {
                let mut governor = GuestHaltPoll::with_limit(Nanos(limit));
                governor.reflect(&params, before);
                governor.reflect(&params, entered);
                assert_eq!(governor.select(), next, "a limit of {limit}, {before:?}, then {entered:?}");
            }
        }
    }
}
