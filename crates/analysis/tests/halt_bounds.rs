//! Halts at the bounds of what polls catch, and polls that failed.

use exitscope_analysis::replay::{HaltNumbering, HaltOutcome, HaltPolicy, HaltReplay};
use exitscope_analysis::{Halts, RecordedHaltPolling};
use exitscope_model::{Halt, PollChange, TraceInfo, VcpuIdentity, VcpuWakeup};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

const US: u64 = 1_000;

/// A halt of `length` that slept, and was woken `gap` after it began.
fn slept(gap: u64, length: u64) -> Halt {
    let at = |after| Moment::from_nanos(1_000_000 * US + after);
    Halt {
        who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) },
        begin: at(0),
        asleep: Some(at(0)),
        woken: Some(at(gap)),
        vcpu_wakeup: Some(VcpuWakeup { length: Nanos(length), waited: true, valid: true, may_poll: true }),
        change: None,
        kicked: false,
        ipi: None,
        end: at(length),
        entered: Some(at(length + 5 * US)),
    }
}

fn after(moment: Moment, nanos: u64) -> Moment {
    Moment::from_nanos(moment.as_nanos() + nanos)
}

/// The halt, so much later.
fn later(halt: Halt, nanos: u64) -> Halt {
    let [begin, end] = [halt.begin, halt.end].map(|moment| after(moment, nanos));
    let [asleep, woken, entered] =
        [halt.asleep, halt.woken, halt.entered].map(|moment| moment.map(|moment| after(moment, nanos)));
    Halt { begin, end, asleep, woken, entered, ..halt }
}

fn replayed(policy: HaltPolicy, set: &[(&'static str, u64)], halts: &[Halt]) -> HaltOutcome {
    let mut facts = Halts::default();
    halts.iter().for_each(|halt| facts.absorb(halt));
    let host = RecordedHaltPolling::of(&TraceInfo { arch: "x86_64".into(), ..TraceInfo::default() });
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

/// KVM looks once for an event before it lets the thread sleep (kvm_vcpu_halt: kvm_vcpu_block after no poll).
#[test]
fn a_host_that_does_not_poll_finds_events_pending_and_no_poll_does() {
    let halt = |waited, may_poll, change| {
        let wakeup = VcpuWakeup { length: Nanos(3 * US), waited, valid: true, may_poll };
        Halt { vcpu_wakeup: Some(wakeup), change, ..slept(3 * US, 3 * US) }
    };
    let polls = |halts: &[Halt]| {
        let mut facts = Halts::default();
        halts.iter().for_each(|halt| facts.absorb(halt));
        let all = facts.all();
        assert_eq!(all.successful_polls.gaps.count, 1, "it did not sleep all the same");
        let mut replay = HaltNumbering::default();
        let recorded = replay.recorded(&halts[halts.len() - 1]);
        (all.hits, all.misses, all.poll_hit + all.poll_miss, recorded.polled())
    };
    assert_eq!(polls(&[halt(false, true, None)]), (1, 0, 3 * US, Some((Nanos(3 * US), true))));
    assert_eq!(polls(&[halt(false, false, None)]), (0, 0, 0, Some((Nanos::ZERO, false))));
    // Nor did it before its thread slept.
    let late = Halt { asleep: Some(after(slept(0, 0).begin, 2 * US)), ..halt(true, false, None) };
    assert_eq!(polls(&[halt(false, false, None), late]), (0, 0, 0, Some((Nanos::ZERO, false))));
    // A VM with a limit of its own, of which KVM tells.
    let own = Some(PollChange { grow: true, new: 10_000, old: 2_000 });
    assert_eq!(polls(&[halt(false, false, own)]), (1, 0, 2 * US, Some((Nanos(2 * US), true))));
}

/// A halt that the poll would have caught, had nobody else wanted the CPU, changes no poll (kvm_vcpu_halt: `halt_ns <=
/// vcpu->halt_poll_ns`): the poll is as the last change left it.
#[test]
fn polls_that_kvm_did_not_change_are_counted_from_the_last_change() {
    let told =
        |length: u64, waited| Some(VcpuWakeup { length: Nanos(length * US), waited, valid: true, may_poll: true });
    let grown = Halt { change: Some(PollChange { grow: true, new: 80_000, old: 0 }), ..slept(15 * US, 20 * US) };
    let cut_short = Halt { asleep: Some(Moment::from_nanos(1_000_000 * US + 7 * US)), ..slept(30 * US, 50 * US) };
    let caught = Halt { vcpu_wakeup: told(30, false), asleep: None, woken: None, ..slept(30 * US, 30 * US) };
    let late = Halt {
        change: Some(PollChange { grow: true, new: 160_000, old: 80_000 }),
        vcpu_wakeup: told(90, false),
        ..slept(90 * US, 90 * US)
    };
    let switched_off = slept(400 * US, 900 * US);
    let halts = [grown, cut_short, caught, late, switched_off];
    let halts: Vec<Halt> = (0..).zip(halts).map(|(number, halt)| later(halt, number * 1_000 * US)).collect();
    let mut facts = Halts::default();
    halts.iter().for_each(|halt| facts.absorb(halt));
    let all = facts.all();
    assert_eq!((all.hits, all.poll_hit), (2, (30 + 80) * US), "the last look is no poll");
    assert_eq!((all.misses, all.poll_miss), (1, 7 * US));
    assert_eq!((all.late_caught.count, all.late_caught.sum), (1, 10 * US));
    assert_eq!(
        (all.late_slept.count, all.late_slept.sum),
        (1, 15 * US),
        "what nothing polled for is as late as it is long"
    );
    // The same polls, recorded and replayed: all but those of a host that did not poll the last time.
    let recorded = HaltOutcome::recorded(&all);
    let set = [("halt_poll_ns", 2_000 * US), ("halt_poll_ns_grow_start", 80 * US)];
    let replayed = replayed(HaltPolicy::Host, &set, &halts[..4]);
    assert_eq!((recorded.hits, recorded.misses, recorded.polling), (replayed.hits, replayed.misses, replayed.polling));
}

#[test]
fn what_comes_late_is_caught_as_often_as_it_was() {
    // Polls of 50 us, and what comes 10 us after their end: three in four are caught before the thread sleeps.
    let polled = |number: u64| {
        let is_caught = !number.is_multiple_of(4);
        let halt = slept(60 * US, if is_caught { 60 } else { 70 } * US);
        let told = Some(VcpuWakeup { waited: !is_caught, ..halt.vcpu_wakeup.unwrap() });
        let change = Some(PollChange { grow: false, new: 50_000, old: 50_000 });
        let asleep = (!is_caught).then_some(after(halt.begin, 55 * US));
        let woken = halt.woken.filter(|_| !is_caught);
        later(Halt { asleep, woken, vcpu_wakeup: told, change, ..halt }, number * 1_000 * US)
    };
    let halts: Vec<Halt> = (0..400).map(polled).collect();
    let always_50 = [("halt_poll_ns", 50 * US), ("halt_poll_ns_grow_start", 50 * US), ("halt_poll_ns_shrink", 1)];
    // With the poll that was in force, what was caught is; the first halt of all finds none yet.
    assert_eq!(replayed(HaltPolicy::Host, &always_50, &halts).caught, 300);
    // With another, none says what would have become of one halt, but of all.
    let always_53 = [("halt_poll_ns", 53 * US), ("halt_poll_ns_grow_start", 53 * US), ("halt_poll_ns_shrink", 1)];
    let never = replayed(HaltPolicy::Host, &[("halt_poll_ns", 0)], &halts);
    assert_eq!((replayed(HaltPolicy::Host, &always_53, &halts).caught, never.hits, never.misses), (300, 0, 0));
}

/// drivers/cpuidle/poll_state.c, poll_idle: it ends when something is runnable, and handles interrupts that wake nobody.
#[test]
fn a_guests_poll_goes_on_after_an_interrupt_that_wakes_nobody() {
    // The first halt makes the limit 50 us; each of the others ends 20 us after it began.
    let set = [("guest_halt_poll_ns", 200 * US)];
    for (ran, caught, polling) in [
        // Something ran: each begins a new poll.
        (400, 6, 120),
        // Nothing did: the second ends 42 us after the poll began, the third comes too late. So do the next three.
        (2, 4, 2 * (20 + 20 + 6)),
    ] {
        let first = slept(40 * US, 45 * US);
        // Woken after 20 us, back 10 us later.
        let next = |number: u64| later(slept(20 * US, 25 * US), 1_000 * US + number * (30 + ran) * US);
        let halts: Vec<Halt> = [first].into_iter().chain((0..6).map(next)).collect();
        let outcome = replayed(HaltPolicy::Guest, &set, &halts);
        assert_eq!((outcome.caught, outcome.polling), (caught, polling * US), "{ran} us between");
    }
}

/// What lies between the exit and KVM's beginning of the halt is no poll.
#[test]
fn the_time_before_the_sleep_begins_with_kvms_halt_and_not_with_the_exit() {
    let whole = slept(400 * US, 500 * US);
    let halt = Halt {
        // KVM's halt begins 30 us after the exit.
        vcpu_wakeup: Some(VcpuWakeup { length: Nanos(470 * US), waited: true, valid: true, may_poll: true }),
        asleep: Some(Moment::from_nanos(1_000_000 * US + 40 * US)),
        change: Some(PollChange { grow: false, new: 0, old: 50_000 }),
        ..whole
    };
    let mut halts = Halts::default();
    halts.absorb(&halt);
    assert_eq!((halts.all().before_sleep.sum, halts.all().poll_miss), (10 * US, 10 * US));
}
