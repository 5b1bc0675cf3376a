//! Halts at the bounds of what polls catch, and polls that failed.

use exitscope_analysis::replay::{HaltOutcome, HaltPolicy, HaltReplay};
use exitscope_analysis::{Halts, PollHost};
use exitscope_model::{Halt, PollChange, Told, TraceInfo, Who};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

const US: u64 = 1_000;

/// A halt of `length` that slept, and was woken `gap` after it began.
fn slept(gap: u64, length: u64) -> Halt {
    let at = |after| Moment::from_nanos(1_000_000 * US + after);
    Halt {
        who: Who { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) },
        begin: at(0),
        asleep: Some(at(0)),
        woken: Some(at(gap)),
        told: Some(Told { length: Nanos(length), waited: true, valid: true }),
        change: None,
        end: at(length),
        entered: Some(at(length + 5 * US)),
    }
}

fn replayed(policy: HaltPolicy, set: &[(&'static str, u64)], halts: &[Halt]) -> HaltOutcome {
    let mut facts = Halts::default();
    halts.iter().for_each(|halt| facts.absorb(halt));
    let host = PollHost::of(&TraceInfo { arch: "x86_64".into(), ..TraceInfo::default() });
    let mut replay = HaltReplay::new(policy, &facts.settings, &host, set, &facts.all()).unwrap();
    halts.iter().for_each(|halt| replay.absorb(halt));
    replay.outcome
}

/// Where the recording does not show how long KVM looks once more after its poll, that is 1 us.
#[test]
fn the_hosts_poll_catches_what_comes_with_its_last_look_and_nothing_later() {
    let set = [("halt_poll_ns", 200 * US), ("halt_poll_ns_grow_start", 50 * US)];
    // The first halt finds no poll, and makes it 50 us.
    let first = slept(10 * US, 12 * US);
    for (gap, caught) in [(50 * US, 1), (51 * US, 1), (51 * US + 1, 0)] {
        let outcome = replayed(HaltPolicy::Host, &set, &[first, slept(gap, 70 * US)]);
        assert_eq!((outcome.halts, outcome.caught), (2, caught), "woken after {gap} ns");
        assert_eq!(outcome.polling, 50 * US, "{gap}");
    }
}

/// virt/kvm/kvm_main.c, kvm_vcpu_halt: `halt_ns <= vcpu->halt_poll_ns` changes nothing.
#[test]
fn a_replayed_halt_exactly_as_long_as_the_poll_does_not_grow_it() {
    let set = [("halt_poll_ns", 200 * US), ("halt_poll_ns_grow_start", 50 * US)];
    for (second, caught) in [(50 * US, 1), (50 * US + 1, 2)] {
        // The third is caught if the second grew the poll to 100 us.
        let halts = [slept(10 * US, 12 * US), slept(second, 70 * US), slept(80 * US, 90 * US)];
        assert_eq!(replayed(HaltPolicy::Host, &set, &halts).caught, caught, "the second woken after {second} ns");
    }
}

/// drivers/cpuidle/poll_state.c, poll_idle: a poll runs out when more than its limit has passed.
#[test]
fn the_guests_poll_catches_what_comes_at_its_end_and_nothing_later() {
    let set = [("guest_halt_poll_ns", 200 * US)];
    // The first halt, of no poll, makes the limit 50 us.
    for (gap, caught) in [(50 * US, 1), (50 * US + 1, 0)] {
        let outcome = replayed(HaltPolicy::Guest, &set, &[slept(10 * US, 12 * US), slept(gap, 70 * US)]);
        assert_eq!((outcome.halts, outcome.caught), (2, caught), "woken after {gap} ns");
        assert_eq!(outcome.polling, 50 * US, "{gap}");
    }
}

/// KVM says how long it may poll, not how long it did: somebody else may have wanted the CPU before (kvm_vcpu_can_poll), and
/// then the thread slept sooner.
#[test]
fn a_failed_poll_took_no_longer_than_there_was_time_before_the_thread_slept() {
    let began = 1_000_000 * US;
    for (what, asleep, length, old, missed) in [
        ("the poll ran to its end", Some(60), 500, 50, Some(50)),
        ("it ended when the thread slept", Some(50), 500, 50, Some(50)),
        ("it was cut short", Some(7), 500, 50, Some(7)),
        ("the thread slept at once", Some(0), 500, 50, Some(0)),
        ("nothing says when it slept", None, 500, 50, Some(50)),
        ("nothing does, and the halt was shorter", None, 20, 50, Some(20)),
        ("KVM did not poll", Some(0), 500, 0, None),
    ] {
        let halt = Halt {
            asleep: asleep.map(|after| Moment::from_nanos(began + after * US)),
            change: Some(PollChange { grow: false, new: 0, old: old * US as u32 }),
            ..slept(10 * US, length * US)
        };
        let mut halts = Halts::default();
        halts.absorb(&halt);
        let cell = halts.all();
        assert_eq!((cell.poll_miss, cell.misses), (missed.unwrap_or(0) * US, u64::from(missed.is_some())), "{what}");
        assert_eq!(cell.poll_hit, 0, "{what}");
        let before: Vec<u64> = asleep.into_iter().map(|after| after * US).collect();
        assert_eq!(
            (cell.before_sleep.count, cell.before_sleep.sum),
            (before.len() as u64, before.iter().sum()),
            "{what}"
        );
    }
}

/// What lies between the exit and KVM's beginning of the halt is no poll.
#[test]
fn the_time_before_the_sleep_begins_with_kvms_halt_and_not_with_the_exit() {
    let whole = slept(400 * US, 500 * US);
    let halt = Halt {
        // KVM's halt begins 30 us after the exit.
        told: Some(Told { length: Nanos(470 * US), waited: true, valid: true }),
        asleep: Some(Moment::from_nanos(1_000_000 * US + 40 * US)),
        change: Some(PollChange { grow: false, new: 0, old: 50_000 }),
        ..whole
    };
    let mut halts = Halts::default();
    halts.absorb(&halt);
    assert_eq!((halts.all().before_sleep.sum, halts.all().poll_miss), (10 * US, 10 * US));
}
