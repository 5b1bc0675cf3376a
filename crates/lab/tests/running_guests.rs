//! Guests that run on, on this machine's real KVM: what is written into their files acts on them while they run.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
mod length;

use exitscope_lab::LabMachine;
use exitscope_lab::running_guests::{GuestProgram, GuestsPlan, GuestsRun, RunningGuests};
use exitscope_skips::{Skipped, or_skip};
use length::long_enough;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

const HOST_POLL: &str = "sys/module/kvm/parameters/halt_poll_ns";
const GUEST_POLL: &str = "sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// Guests of two tests at a time would be in each other's way.
static TURN: Mutex<()> = Mutex::new(());

/// The machine, for one test at a time.
fn machine() -> Result<(LabMachine, MutexGuard<'static, ()>), Skipped> {
    let guard = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
    Ok((common::machine()?, guard))
}

/// Runs guests with a value in a file, and with another one after a quarter of that.
fn run(machine: &LabMachine, program: GuestProgram, file: &str, values: [&str; 2]) -> GuestsRun {
    let once = |length| run_once(machine, program, file, values, length);
    let run = long_enough(Duration::from_millis(400), once, |run| run.done > 0);
    assert!(run.done > 0, "{program:?} {file}");
    run
}

fn run_once(machine: &LabMachine, program: GuestProgram, file: &str, values: [&str; 2], length: Duration) -> GuestsRun {
    let root = tempfile::tempdir().unwrap();
    let write = |root: &Path, value: &str| {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), value).unwrap();
    };
    write(root.path(), values[0]);
    let plan = GuestsPlan {
        program,
        root: root.path().to_path_buf(),
        vcpus: program.vcpus(),
        gap_ns: 20_000,
        pin: false,
        length: Some(length),
        until_eof: false,
    };
    let mut guests = RunningGuests::new(machine, plan).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(length / 4);
            write(root.path(), values[1]);
        });
        guests.run().unwrap()
    })
}

#[test]
fn a_change_of_halt_poll_ns_is_in_force_in_a_vm_that_runs() {
    let (machine, _turn) = or_skip!(machine());
    let run = |values| run(&machine, GuestProgram::PingPong, HOST_POLL, values);
    let (never, later) = (run(["0\n", "0\n"]), run(["0\n", "200000\n"]));
    // By KVM's own counters, if it has some.
    assert_eq!(never.polls.unwrap_or([0, 0]), [0, 0]);
    assert!(later.polls.is_none_or(|[polled, _]| polled > 0), "{later:?}");
    assert_eq!((never.guest_polls, later.guest_polls), ([0, 0], [0, 0]));
}

#[test]
fn a_change_of_guest_halt_poll_ns_is_in_force_in_a_guest_that_runs() {
    let (machine, _turn) = or_skip!(machine());
    let run = |values| run(&machine, GuestProgram::PingPong, GUEST_POLL, values);
    let (never, later) = (run(["0\n", "0\n"]), run(["0\n", "5000000\n"]));
    assert_eq!(never.guest_polls, [0, 0]);
    assert!(later.guest_polls[0] > 0, "{later:?}");
}

#[test]
fn the_worker_waits_before_each_answer() {
    let (machine, _turn) = or_skip!(machine());
    let run = |values| run(&machine, GuestProgram::Io, "worker_delay_ns", values);
    let most = |run: GuestsRun| (run.elapsed.as_secs_f64() / 5e-3) as u64 + 1;
    let (slow, later) = (run(["5000000\n", "5000000\n"]), run(["5000000\n", "0\n"]));
    assert!(slow.done <= most(slow), "{slow:?}");
    assert!(later.done > 2 * most(later), "{later:?}");
}

#[test]
fn locks_are_taken_whatever_waiters_say() {
    let (machine, _turn) = or_skip!(machine());
    for [first, then] in [["none\n", "x44\n"], ["x9c\n", "x9c-sensing\n"]] {
        run(&machine, GuestProgram::Locks, "yield", [first, then]);
    }
}
