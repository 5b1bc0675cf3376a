//! Halt polling exactly at its bounds, where `<` and `<=` part. Random lengths hardly ever meet them.

use exitscope_policy::guest_halt_poll::{self, GuestHaltPoll, IdleOutcome, IdlePeriod};
use exitscope_policy::host_halt_poll::{self, HostHaltPoll, PollOwner, PollPermission};
use exitscope_units::Nanos;

/// virt/kvm/kvm_main.c, kvm_vcpu_halt: `halt_ns <= vcpu->halt_poll_ns` keeps the poll, `halt_ns > max_halt_poll_ns` shrinks
/// it, `vcpu->halt_poll_ns < max_halt_poll_ns && halt_ns < max_halt_poll_ns` grows it. arch/powerpc/kvm/book3s_hv.c,
/// kvmppc_vcore_blocked, compares in the same way, and caps what has grown.
#[test]
fn a_host_compares_a_halt_with_its_poll_and_with_the_largest_as_kvm_does() {
    let params = host_halt_poll::Params::default();
    assert_eq!((params.halt_poll_ns, params.halt_poll_ns_grow, params.halt_poll_ns_shrink), (Nanos(200_000), 2, 2));
    for (poll, halt, after) in [
        (50_000, 49_999, 50_000),
        (50_000, 50_000, 50_000),
        (50_000, 50_001, 100_000),
        (50_000, 199_999, 100_000),
        (50_000, 200_000, 50_000),
        (50_000, 200_001, 25_000),
        // No poll, and a halt of no length.
        (0, 0, 0),
        (0, 1, 10_000),
        (0, 200_000, 0),
        (0, 200_001, 0),
        // The poll is the largest already.
        (200_000, 200_000, 200_000),
        (200_000, 200_001, 100_000),
    ] {
        for whose in [PollOwner::Vcpu, PollOwner::Vcore] {
            let mut vcpu = HostHaltPoll::with_poll(whose, poll);
            vcpu.finish(&params, &PollPermission::default(), Nanos(halt), true);
            assert_eq!(vcpu.poll(), Nanos(after), "{whose:?}, a poll of {poll} and a halt of {halt}");
        }
    }
}

/// The poll ends at its limit: what comes then is caught by it, what comes later finds the thread blocked.
#[test]
fn a_wake_up_at_the_end_of_the_hosts_poll_is_caught_and_keeps_it() {
    let params = host_halt_poll::Params::default();
    for (event, polled, blocked, after) in [(50_000, 50_000, 0, 50_000), (50_001, 50_000, 1, 100_000)] {
        let mut vcpu = HostHaltPoll::with_poll(PollOwner::Vcpu, 50_000);
        let halt = vcpu.halt(&params, &PollPermission::default(), Nanos(event));
        assert_eq!((halt.polled, halt.blocked, halt.poll), (Nanos(polled), Nanos(blocked), Nanos(after)), "{event}");
    }
}

/// drivers/cpuidle/governors/haltpoll.c, adjust_poll_limit: `block_ns > dev->poll_limit_ns && block_ns <= guest_halt_poll_ns`
/// grows the limit, `block_ns > guest_halt_poll_ns` shrinks it.
#[test]
fn a_guest_compares_a_halt_with_its_limit_and_with_the_largest_as_the_governor_does() {
    let params = guest_halt_poll::Params::default();
    for (limit, residency, after) in [
        (100_000, 99_999, 100_000),
        (100_000, 100_000, 100_000),
        (100_000, 100_001, 200_000),
        (100_000, 200_000, 200_000),
        (100_000, 200_001, 50_000),
        (0, 0, 0),
        (0, 1, 50_000),
        (200_000, 200_000, 200_000),
    ] {
        let mut governor = GuestHaltPoll::with_limit(Nanos(limit));
        governor.reflect(&params, IdleOutcome::Halted { residency: Nanos(residency) });
        assert_eq!(governor.limit(), Nanos(after), "a limit of {limit} and a halt of {residency}");
    }
}

/// drivers/cpuidle/poll_state.c, poll_idle: only when more than the limit has passed has the poll run out.
#[test]
fn an_event_at_the_end_of_the_guests_poll_is_caught() {
    let params = guest_halt_poll::Params::default();
    for (event, period) in [
        (50_000, IdlePeriod { polled: Nanos(50_000), halted: Nanos(0), limit: Nanos(50_000) }),
        (50_001, IdlePeriod { polled: Nanos(50_000), halted: Nanos(1), limit: Nanos(50_000) }),
    ] {
        let mut governor = GuestHaltPoll::with_limit(Nanos(50_000));
        assert_eq!(governor.idle(&params, Nanos(event)), period);
    }
}
