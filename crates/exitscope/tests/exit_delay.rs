//! Exits of real guests that are delayed: those that were asked for, by what was asked for, and no longer than a lease.
// Where nothing can be delayed, a test ends, and its guests with it.
#![allow(clippy::zombie_processes)]

mod common;

use common::{check_json, exitscope, go, held, held_guest, kvm, machine, stderr, stdout, tiny_guest};
use exitscope_record::{DelayCounts, DelayedExits, ExitDelay};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use exitscope_units::Nanos;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `KVM_EXIT_IO`, `KVM_EXIT_MMIO`, `include/uapi/linux/kvm.h`.
const IO: u32 = 2;
const MMIO: u32 = 6;

/// Exits to user space of one run of the guest's code, and those of a port.
const EACH: u64 = 23 + 17 + 13 + 1;
const PORTS: u64 = 23 + 17;

/// A delay of this guest's exits to user space.
fn start(guest: &Child, reason: Option<u32>) -> Result<ExitDelay, Skipped> {
    kvm()?;
    ExitDelay::start(guest.id(), DelayedExits::ToUserSpace, reason).map_err(|error| skip(Part::Bpf, error))
}

/// What is counted of a guest that runs its code so often, in less than a lease, with this delay.
fn run(repeat: u64, reason: Option<u32>, by: Nanos) -> Result<DelayCounts, Skipped> {
    let mut guest = held_guest(repeat);
    let mut delay = start(&guest, reason)?;
    delay.set(by).unwrap();
    go(&mut guest);
    assert!(guest.wait().unwrap().success());
    Ok(delay.counts().unwrap())
}

#[test]
fn exits_are_delayed_that_are_of_the_reason_and_no_others() {
    let _machine = machine();
    for (reason, each) in [(None, EACH), (Some(IO), PORTS), (Some(MMIO), 13), (Some(77), 0)] {
        for by in [0, 300] {
            let counts = or_skip!(run(100, reason, Nanos(by)));
            assert_eq!((counts.exits, counts.lost), (100 * each, 0), "{reason:?}");
            assert_eq!(counts.delayed + counts.skipped, if by == 0 { 0 } else { 100 * each }, "{counts:?}");
            assert!(counts.spun.0 >= by * counts.delayed, "{counts:?}");
        }
    }
}

/// How long one run of the guest's code takes, in nanoseconds: what a quarter of 400 runs do not reach. And by how much each of
/// its exits was delayed.
fn time(by: Nanos) -> Result<(f64, f64), Skipped> {
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
    Ok((quarter.split_whitespace().next().unwrap().parse().unwrap(), delay.counts().unwrap().mean_delay().unwrap()))
}

#[test]
fn a_guest_is_slower_by_what_its_exits_are_delayed() {
    let _machine = machine();
    // Whatever else runs makes a guest slower, never faster: beside other work it takes more rounds until nothing disturbed one of each.
    let (mut plain, mut slow, mut by, mut found) = (f64::INFINITY, f64::INFINITY, 0.0, 0.0);
    for round in 0..12 {
        let (took, none) = or_skip!(time(Nanos::ZERO));
        assert_eq!(none, 0.0);
        plain = plain.min(took);
        let (took, delayed) = time(Nanos(1_000)).unwrap();
        if took < slow {
            (slow, by) = (took, delayed);
        }
        found = (slow - plain) / EACH as f64;
        if round >= 3 && (0.5..2.0).contains(&(found / by)) {
            break;
        }
    }
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
    let mut delay = or_skip!(start(&guest, None).inspect_err(|_| guest.kill().unwrap()));
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

/// A guest that runs its code until it is killed, and keeps the number of runs in a file.
struct Counting {
    guest: Child,
    folder: tempfile::TempDir,
}

impl Counting {
    fn start() -> Result<Counting, Skipped> {
        kvm()?;
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(tiny_guest());
        command.args(["--repeat", "1000000", "--counter"]).arg(folder.path().join("runs")).stdout(Stdio::null());
        let guest = Counting { guest: command.spawn().unwrap(), folder };
        let began = Instant::now();
        while !std::fs::read_to_string(guest.folder.path().join("runs")).is_ok_and(|runs| runs.trim() > "0000000000") {
            assert!(began.elapsed() < common::PATIENCE, "the guest did not run");
            sleep(Duration::from_millis(10));
        }
        Ok(guest)
    }

    /// A command that prints the CPU time of a run, in nanoseconds: what else the machine does hardly changes it.
    fn cpu_time(&self, runs: &Path) -> String {
        let (id, runs) = (self.guest.id(), runs.display());
        format!(
            "look() {{ read time rest < /proc/{id}/schedstat; read runs < {runs}; \
             runs=$(expr $runs + 0); }}; look; t=$time; r=$runs; sleep 0.15; look; echo $(( (time - t) / (runs - r) ))"
        )
    }

    /// What a trial of delays on this VM says.
    fn try_delay(&self, vm: &str, arguments: &[&str]) -> Output {
        let mut command = exitscope();
        command.args([
            "try",
            "--vm",
            vm,
            "--better",
            "lower",
            "--no-count",
            "--seed",
            "33",
            "--turn",
            "200ms",
            "--settle",
            "5ms",
        ]);
        command.args(arguments).arg("--state").arg(self.folder.path().join("applied.json")).stdin(Stdio::null());
        // This machine has one trial at a time, also of other tests.
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let output = command.output().unwrap();
            if !stderr(&output).contains("settings of this host are being tried") || Instant::now() > until {
                return output;
            }
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.guest.kill();
        let _ = self.guest.wait();
    }
}

#[test]
fn a_trial_of_delays_tells_what_a_guests_exits_are_worth() {
    let _machine = machine();
    let counting = or_skip!(Counting::start());
    or_skip!(start(&counting.guest, None));
    let (metric, vm) = (counting.cpu_time(&counting.folder.path().join("runs")), counting.guest.id().to_string());
    let flags =
        ["--delay", "300ns..1us", "--metric", &metric, "--unit", "ns", "--for", "60s", "--format", "json", "--yes"];
    let output = counting.try_delay(&vm, &flags);
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json("try", [&report]);
    let found = &report["sensitivity"];
    assert_eq!((&found["ruling"], &found["vm"]), (&"found".into(), &vm.clone().into()), "{found:#}");
    let number = |value: &Value| value.as_f64().unwrap();
    // What 100 ns are of the time of a run without a delay, if each of its exits is shorter by them.
    let worth = 100.0 * EACH as f64 * 100.0 / number(&found["levels"][0]["mean"]);
    let ratio = number(&found["percent_per_100ns"]) / worth;
    assert!((0.5..2.0).contains(&ratio), "{worth} % were to be found: {found:#}");
    for (level, asked) in found["levels"].as_array().unwrap().iter().zip([0, 300, 550, 1_000]) {
        assert!(level["asked_ns"] == asked && level["exits"].as_u64() > Some(1_000), "{level}");
        let skipped = number(&level["skipped"]) / number(&level["exits"]);
        let least = f64::from(asked) * (1.0 - skipped) * 0.99;
        assert!((least..f64::from(asked) * 2.0 + 1.0).contains(&number(&level["achieved_ns"])), "{level}");
    }
    assert!(number(&found["exits_per_s"]) > 1_000.0);
    assert_eq!(report["left"]["done"][0], "no exit is delayed any more");
    let history =
        exitscope().args(["try", "--history", "--state"]).arg(counting.folder.path().join("applied.json")).output();
    let said = stdout(&history.unwrap());
    assert!(said.contains("1 trial\n") && said.contains("delays of each exit") && said.contains("per 100ns"), "{said}");
    assert!(report["plan"]["settings"][0] == "delay=0" && report["verdict"]["keep"].is_null());
}

#[test]
fn delays_are_refused_without_a_metric_or_one_vm_and_beyond_their_bounds() {
    let _machine = machine();
    let (one, _two) = (or_skip!(Counting::start()), or_skip!(Counting::start()));
    or_skip!(start(&one.guest, None));
    let (vm, own) = (one.guest.id().to_string(), std::process::id().to_string());
    for (vm, arguments, says) in [
        (vm.as_str(), &["--delay", "1us", "--yes"][..], "--delay needs a metric of the workload"),
        (&vm, &["--delay", "30us", "--metric", "echo 1", "--yes"], "a single exit is delayed by at most 20.0us"),
        (&vm, &["--delay", "1us", "--metric", "echo 1"], "there is no terminal to ask on"),
        (&vm, &["--delay", "1us", "--metric", "echo 1", "--keep"], "cannot be used with"),
        (&vm, &["nice=5", "--delay", "1us", "--metric", "echo 1"], "cannot be used with"),
        (&vm, &["nice=5", "--reason", "io", "--metric", "echo 1", "--yes"], "it needs --delay"),
        (&vm, &["--delay", "1us", "--reason", "tea", "--metric", "echo 1", "--yes"], "--reason names "),
        (&own, &["--delay", "1us", "--metric", "echo 1", "--yes"], "has no virtual machine of KVM"),
        ("tiny-guest", &["--delay", "1us", "--metric", "echo 1", "--yes"], "virtual machines are called tiny-guest"),
        ("nobody", &["--delay", "1us", "--metric", "echo 1", "--yes"], "no virtual machine called nobody"),
    ] {
        let output = one.try_delay(vm, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
    let nobody = exitscope().args(["try", "--delay", "1us", "--metric", "echo 1", "--yes"]).output().unwrap();
    assert!(stderr(&nobody).contains("--vm <NAME|PID>"), "{}", stderr(&nobody));
    // A plan delays nothing, and says what would be done.
    let plan = one.try_delay(&vm, &["--delay", "200ns..5us", "--reason", "mmio", "--metric", "echo 1", "--dry-run"]);
    let said = stdout(&plan);
    for words in
        ["on purpose, by up to 5.00us", "KVM_EXIT_MMIO alone", "C: delay=1us", "bounds, kept by the kernel: 20%"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_reason_that_never_comes_ends_a_trial() {
    let _machine = machine();
    let one = or_skip!(Counting::start());
    or_skip!(start(&one.guest, None));
    let flags = ["--delay", "1us", "--reason", "KVM_EXIT_DEBUG", "--metric", "echo 1", "--yes"];
    let output = one.try_delay(&one.guest.id().to_string(), &flags);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stdout(&output).contains("stopped: no exit came in a turn that could be delayed"), "{}", stdout(&output));
}
