//! Exits of real guests that are delayed: those that were asked for, by what was asked for, and no longer than a lease.
// Where nothing can be delayed, a test ends, and its guests with it.
#![allow(clippy::zombie_processes)]

mod common;

use common::{cannot, go, held, held_guest, machine, tiny_guest};
use exitscope_record::{DelayCounts, DelayedExits, ExitDelay};
use exitscope_units::Nanos;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `KVM_EXIT_IO`, `KVM_EXIT_MMIO`, `include/uapi/linux/kvm.h`.
const IO: u32 = 2;
const MMIO: u32 = 6;

/// Exits to user space of one run of the guest's code, and those of a port.
const EACH: u64 = 23 + 17 + 13 + 1;
const PORTS: u64 = 23 + 17;

/// A delay of this guest's exits to user space; `None` if that cannot be done here and was allowed not to be.
fn start(guest: &Child, reason: Option<u32>) -> Option<ExitDelay> {
    if let Err(error) = std::fs::File::open("/dev/kvm") {
        cannot(&format!("/dev/kvm: {error}"));
        return None;
    }
    match ExitDelay::start(guest.id(), DelayedExits::ToUserSpace, reason) {
        Ok(delay) => Some(delay),
        Err(error) => {
            cannot(&error.to_string());
            None
        }
    }
}

/// What is counted of a guest that runs its code so often, in less than a lease, with this delay.
fn run(repeat: u64, reason: Option<u32>, by: Nanos) -> Option<DelayCounts> {
    let mut guest = held_guest(repeat);
    let mut delay = start(&guest, reason)?;
    delay.set(by).unwrap();
    go(&mut guest);
    assert!(guest.wait().unwrap().success());
    Some(delay.counts().unwrap())
}

#[test]
fn exits_are_delayed_that_are_of_the_reason_and_no_others() {
    let _machine = machine();
    for (reason, each) in [(None, EACH), (Some(IO), PORTS), (Some(MMIO), 13), (Some(77), 0)] {
        for by in [0, 300] {
            let Some(counts) = run(100, reason, Nanos(by)) else { return };
            assert_eq!((counts.exits, counts.lost), (100 * each, 0), "{reason:?}");
            assert_eq!(counts.delayed + counts.skipped, if by == 0 { 0 } else { 100 * each }, "{counts:?}");
            assert!(counts.spun.0 >= by * counts.delayed, "{counts:?}");
        }
    }
}

/// How long one run of the guest's code takes, in nanoseconds: what a quarter of 400 runs do not reach. And by how much each of
/// its exits was delayed.
fn time(by: Nanos) -> Option<(f64, f64)> {
    let mut command = Command::new("sh");
    command.args(["-c", "read go; exec \"$0\" --repeat 400 --pin --time"]).arg(tiny_guest());
    let mut guest = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut delay = start(&guest, None)?;
    delay.set(by).unwrap();
    go(&mut guest);
    let mut text = String::new();
    guest.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(guest.wait().unwrap().success(), "{text}");
    let (_, quarter) = text.split_once("quarter ").unwrap();
    Some((quarter.split_whitespace().next().unwrap().parse().unwrap(), delay.counts().unwrap().mean_delay().unwrap()))
}

#[test]
fn a_guest_is_slower_by_what_its_exits_are_delayed() {
    let _machine = machine();
    // Whatever else runs makes a guest slower, never faster.
    let (mut plain, mut slow, mut by) = (f64::INFINITY, f64::INFINITY, 0.0);
    for _ in 0..4 {
        let Some((took, none)) = time(Nanos::ZERO) else { return };
        assert_eq!(none, 0.0);
        plain = plain.min(took);
        let (took, delayed) = time(Nanos(1_000)).unwrap();
        if took < slow {
            (slow, by) = (took, delayed);
        }
    }
    let found = (slow - plain) / EACH as f64;
    println!("each exit took {:.0} ns, {found:.0} ns more with a delay of {by:.0} ns", plain / EACH as f64);
    assert!((0.5..2.0).contains(&(found / by)), "{found} ns, delayed by {by} ns");
}

/// Waits until the guest has had exits.
fn wait_for_exits(delay: &ExitDelay) -> DelayCounts {
    let began = Instant::now();
    loop {
        let counts = delay.counts().unwrap();
        if counts.exits > 0 {
            return counts;
        }
        assert!(began.elapsed() < common::PATIENCE, "no exits came");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn delays_end_with_their_lease_and_go_on_with_the_next() {
    let _machine = machine();
    let mut guest = held("--repeat 1000000");
    let Some(mut delay) = start(&guest, None) else {
        let _ = guest.kill();
        return;
    };
    go(&mut guest);
    sleep(Duration::from_millis(100));
    assert_eq!(delay.counts().unwrap(), DelayCounts::default(), "without a lease nothing is delayed");
    delay.set(Nanos(500)).unwrap();
    assert!(wait_for_exits(&delay).delayed > 0);
    let lease = Duration::from_nanos(ExitDelay::LEASE.0);
    sleep(lease / 2);
    delay.renew().unwrap();
    sleep(lease * 3 / 5);
    let before = delay.counts().unwrap();
    sleep(Duration::from_millis(50));
    assert!(delay.counts().unwrap().since(&before).delayed > 0, "it was renewed");
    sleep(lease / 2);
    let ended = delay.counts().unwrap();
    sleep(Duration::from_millis(200));
    assert_eq!(delay.counts().unwrap(), ended, "the lease has run out");
    delay.renew().unwrap();
    sleep(Duration::from_millis(50));
    let again = delay.counts().unwrap();
    assert!(again.since(&ended).delayed > 0);
    delay.end_lease().unwrap();
    let ended = delay.counts().unwrap();
    sleep(Duration::from_millis(50));
    // An exit that was in hand when the lease ended may still be counted.
    assert!(delay.counts().unwrap().since(&ended).exits <= 1);
    assert!(guest.try_wait().unwrap().is_none(), "the guest had exits all the time");
    guest.kill().unwrap();
    guest.wait().unwrap();
}
