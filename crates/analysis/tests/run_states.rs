//! Stays of Xen's virtual CPUs in run states: where a window cuts them, and what a loss leaves unknown.

use exitscope_analysis::{CpuHolders, RunStates, StateTimes, StayStats};
use exitscope_model::{Event, EventKind, RunState, VcpuIdentity};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeMap;

use RunState::{Blocked, Offline, Runnable, Running};

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

/// A record that a virtual CPU of a domain changed its state, on a CPU.
fn change(nanos: u64, (vm, vcpu): (u32, u32), cpu: u32, from: RunState, to: RunState) -> Event {
    let event = Event::nameless(at(nanos), PcpuId(cpu), EventKind::RunState { from, to });
    Event { vm: VmId(vm), vcpu: VcpuId(vcpu), ..event }
}

fn absorbed(events: &[Event], window: (u64, u64)) -> RunStates {
    let mut states = RunStates::default();
    events.iter().for_each(|event| states.absorb(event, (at(window.0), at(window.1))));
    states.end();
    states
}

fn times(states: &RunStates) -> BTreeMap<(u32, u32), StateTimes> {
    states.times().map(|(who, times)| ((who.vm.0, who.vcpu.0), *times)).collect()
}

/// How often and how long it ran, was runnable, blocked and offline, was preempted, and nobody knows where.
fn seen(times: &StateTimes) -> [(u64, u64); 6] {
    let [running, runnable, blocked, offline] =
        [Running, Runnable, Blocked, Offline].map(|state| times.states[state as usize]);
    [running, runnable, blocked, offline, times.preempted, times.lost].map(|StayStats { count, total }| (count, total))
}

const NONE: (u64, u64) = (0, 0);

#[test]
fn a_stay_counts_if_it_touches_the_window_and_is_as_long_as_they_overlap() {
    let stay = [change(200, (6, 0), 1, Blocked, Running), change(700, (6, 0), 1, Running, Runnable)];
    for (window, running) in [
        ((0, 900), (1, 500)),
        ((200, 700), (1, 500)),
        ((201, 699), (1, 498)),
        ((700, 900), (1, 0)),
        ((701, 900), NONE),
        ((0, 200), (1, 0)),
        ((0, 199), NONE),
        ((300, 310), (1, 10)),
    ] {
        let states = times(&absorbed(&stay, window));
        assert_eq!(seen(&states[&(6, 0)]), [running, NONE, NONE, NONE, NONE, NONE], "{window:?}");
    }
}

#[test]
fn who_waits_for_a_cpu_was_preempted_if_it_ran_before_and_woken_else() {
    let who = (6, 0);
    let states = times(&absorbed(
        &[
            change(100, who, 1, Blocked, Runnable),
            change(130, who, 1, Runnable, Running),
            change(200, who, 1, Running, Runnable),
            change(270, who, 1, Runnable, Running),
            change(300, who, 1, Running, Offline),
            change(411, who, 1, Offline, Runnable),
            change(424, who, 1, Runnable, Running),
        ],
        (0, 9_000),
    ));
    let of = states[&who];
    assert_eq!(seen(&of), [(2, 70 + 30), (3, 30 + 70 + 13), NONE, (1, 111), (1, 70), NONE]);
    assert_eq!(of.woken(), StayStats { count: 2, total: 43 });
}

#[test]
fn a_loss_leaves_unknown_who_ran_there_and_who_could_have_been_put_there() {
    let lost = |nanos, cpu| Event::lost(at(nanos), PcpuId(cpu), 1);
    let begin = [
        change(100, (6, 0), 1, Runnable, Running),
        change(100, (6, 1), 2, Runnable, Running),
        change(100, (6, 2), 2, Running, Blocked),
        change(100, (6, 3), 2, Running, Runnable),
    ];
    // Seen next as it was: the one that runs on another CPU lost nothing.
    let end = [
        change(900, (6, 0), 1, Running, Blocked),
        change(900, (6, 1), 2, Running, Blocked),
        change(900, (6, 2), 2, Blocked, Running),
        change(900, (6, 3), 2, Runnable, Running),
    ];
    let states = |losses: &[Event]| times(&absorbed(&[&begin[..], losses, &end[..]].concat(), (0, 9_000)));
    let with_one = states(&[lost(400, 1)]);
    assert_eq!(seen(&with_one[&(6, 0)]), [(1, 300), NONE, NONE, NONE, NONE, (1, 500)]);
    assert_eq!(seen(&with_one[&(6, 1)]), [(1, 800), NONE, NONE, NONE, NONE, NONE]);
    assert_eq!(seen(&with_one[&(6, 2)]), [NONE, NONE, (1, 300), NONE, NONE, (1, 500)]);
    assert_eq!(seen(&with_one[&(6, 3)]), [NONE, (1, 300), NONE, NONE, (1, 300), (1, 500)]);
    // A second loss adds nothing to what is unknown since the first, and one that may be of any CPU is of all.
    let with_more = states(&[lost(400, 1), lost(600, u32::MAX)]);
    assert_eq!(seen(&with_more[&(6, 0)]), [(1, 300), NONE, NONE, NONE, NONE, (1, 500)]);
    assert_eq!(seen(&with_more[&(6, 1)]), [(1, 500), NONE, NONE, NONE, NONE, (1, 300)]);
    // Clocks of CPUs differ: a loss before the stay began leaves all of it unknown, and no more.
    let early = states(&[lost(40, 1)]);
    assert_eq!(seen(&early[&(6, 0)]), [(1, 0), NONE, NONE, NONE, NONE, (1, 800)]);
}

#[test]
fn records_that_contradict_one_another_leave_a_stay_unknown_and_running_on_is_none() {
    let who = (6, 0);
    let states = times(&absorbed(
        &[
            change(100, who, 1, Runnable, Running),
            change(150, who, 1, Running, Running),
            change(210, who, 1, Running, Blocked),
            // Blocked it was, and is said to have been runnable.
            change(300, who, 1, Runnable, Runnable),
            change(333, who, 1, Runnable, Running),
        ],
        (0, 9_000),
    ));
    assert_eq!(seen(&states[&who]), [(1, 110), (1, 33), NONE, NONE, NONE, (1, 90)]);
}

/// Some are found at once by the number of their vCPU and VM: others with the same place there must not be taken for them.
#[test]
fn virtual_cpus_with_any_numbers_are_told_apart() {
    let all = [(6, 0), (6, 256), (22, 0), (6, 512), (0x7ff0, 3), (0x4000_0006, 0), (7, 16)];
    let mut events = Vec::new();
    for round in 0..3u64 {
        for (number, &who) in (1..).zip(&all) {
            let begin = round * 10_000;
            events.push(change(begin + number, who, 1, Blocked, Running));
            events.push(change(begin + number * 101, who, 1, Running, Blocked));
        }
    }
    events.sort_by_key(|event| event.at);
    let states = times(&absorbed(&events, (0, u64::MAX)));
    assert_eq!(states.len(), all.len());
    for (number, who) in (1..).zip(&all) {
        let blocked = (2, 2 * (10_000 - number * 100));
        assert_eq!(seen(&states[who]), [(3, 300 * number), NONE, blocked, NONE, NONE, NONE], "{who:?}");
    }
}

#[test]
fn recordings_are_added_up_and_only_those_looked_at_are_kept() {
    let of = |vcpu, length: u64| {
        [change(100, (6, vcpu), 1, Blocked, Running), change(100 + length, (6, vcpu), 1, Running, Runnable)]
    };
    let mut states = absorbed(&of(0, 30), (0, 9_000));
    states.merge(&absorbed(&[of(0, 70), of(1, 11)].concat(), (0, 9_000)));
    // The same goes on with another recording, in which nobody is known to run yet.
    of(1, 13).iter().for_each(|event| states.absorb(event, (at(0), at(9_000))));
    states.end();
    let all = times(&states);
    assert_eq!((seen(&all[&(6, 0)])[0], seen(&all[&(6, 1)])[0]), ((2, 100), (2, 24)));
    states.retain(|who: &VcpuIdentity| who.vcpu == VcpuId(1));
    assert_eq!(times(&states).into_keys().collect::<Vec<_>>(), [(6, 1)]);
    assert!(states.times().all(|(who, _)| who.tid == Tid(0)));
}

#[test]
fn further_virtual_cpus_than_are_kept_are_left_alone() {
    const MOST: u32 = 1 << 18;
    let mut states = RunStates::default();
    let window = (at(0), at(9_000));
    for vcpu in 0..MOST + 2 {
        states.absorb(&change(10, (6, vcpu), 1, Blocked, Running), window);
    }
    for vcpu in [0, MOST - 1, MOST, MOST + 1] {
        states.absorb(&change(17, (6, vcpu), 1, Running, Blocked), window);
    }
    states.end();
    let all = times(&states);
    assert_eq!(
        (all.len(), seen(&all[&(6, MOST - 1)])[0], all.contains_key(&(6, MOST))),
        (MOST as usize, (1, 7), false)
    );
}

#[test]
fn who_waits_is_told_who_had_the_cpu_meanwhile() {
    const DOMAIN_0: u32 = VmId::DOMAIN_0.0;
    const IDLE: u32 = VmId::IDLE_DOMAIN.0;
    let who = (6, 0);
    let waits = |begin: u64, losses: &[Event]| {
        let before = [
            change(100, (6, 1), 1, Runnable, Running),
            change(begin, who, 2, Blocked, Runnable),
            change(200, (6, 1), 1, Running, Blocked),
            change(201, (IDLE, 1), 1, Runnable, Running),
            change(240, (IDLE, 1), 1, Running, Runnable),
            change(240, (DOMAIN_0, 0), 1, Runnable, Running),
            // That of another CPU is not its CPU's.
            change(250, (9, 9), 2, Runnable, Running),
            change(300, (DOMAIN_0, 0), 1, Running, Runnable),
            change(300, (9, 0), 1, Runnable, Running),
        ];
        let after = [
            change(370, (9, 0), 1, Running, Runnable),
            change(371, who, 1, Runnable, Running),
            change(380, who, 1, Running, Running),
        ];
        times(&absorbed(&[&before[..], losses, &after[..]].concat(), (0, 9_000)))[&who].holders
    };
    let all = CpuHolders { idle: 39, idle_long: 0, domain_0: 60, own: 31, others: 71, unknown: 0 };
    assert_eq!(waits(170, &[]), all);
    assert_eq!(all.total(), 201);
    assert_eq!(
        waits(90, &[]),
        CpuHolders { own: 101, unknown: 10, ..all },
        "before the first that is known to have run"
    );
    for cpu in [1, u32::MAX] {
        let lost = [Event::lost(at(340), PcpuId(cpu), 1)];
        // Who waited then may have run as well.
        assert_eq!(waits(170, &lost), CpuHolders::default(), "{cpu}");
    }
}

#[test]
fn only_the_last_that_had_a_cpu_are_remembered_and_a_window_cuts_what_they_had() {
    let who = (6, 0);
    let mut events = vec![change(0, who, 1, Blocked, Runnable)];
    events.extend((1..=100).map(|number| change(number * 10, (7, number as u32), 1, Runnable, Running)));
    events.push(change(1_010, who, 1, Runnable, Running));
    let holders = |window| times(&absorbed(&events, window))[&who].holders;
    assert_eq!(holders((0, 9_000)), CpuHolders { others: 640, unknown: 370, ..CpuHolders::default() });
    assert_eq!(holders((700, 800)), CpuHolders { others: 100, ..CpuHolders::default() });
    assert_eq!(holders((2_000, 9_000)), CpuHolders::default());
}
