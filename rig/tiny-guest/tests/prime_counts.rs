//! The guest's own counts: what it prints must be what its code says it does, on a real `/dev/kvm`.

use std::io::Write;
use std::process::Command;

/// Set to 1, this allows the tests to pass on a machine without KVM.
const WITHOUT_KVM: &str = "EXITSCOPE_WITHOUT_KVM";

/// What the guest prints; `None` when there is no KVM and that was allowed.
fn run(flags: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_tiny-guest")).args(flags).output().expect("the built guest starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        let allowed = std::env::var(WITHOUT_KVM).is_ok_and(|value| value == "1");
        assert!(allowed, "{stderr}Set {WITHOUT_KVM}=1 to pass without running the guest.");
        // Not `eprintln!`, which the test harness swallows when the test passes.
        writeln!(std::io::stderr(), "SKIPPED: THE GUEST WAS NOT RUN: {}", stderr.trim()).expect("stderr is open");
        return None;
    }
    assert!(output.status.success(), "{stderr}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_guest_leaves_as_often_as_its_code_says() {
    if let Some(counts) = run(&[]) {
        assert_eq!(counts, "out 23 in 17 mmio_write 13 hlt 1\n");
    }
}

#[test]
fn repeated_and_pinned_it_leaves_that_many_times_more() {
    if let Some(counts) = run(&["--repeat", "7", "--pin"]) {
        assert_eq!(counts, "out 161 in 119 mmio_write 91 hlt 7\n");
    }
}

#[test]
fn a_guest_that_waits_waits_as_often_as_it_says() {
    for (flags, said) in [
        (&["--pending"][..], "pending_hlt 23\n"),
        (&["--pending", "--repeat", "3", "--pin"], "pending_hlt 69\n"),
        (&["--sleep", "1"], "sleeping_hlt 7 of 1 ms\n"),
    ] {
        if let Some(counts) = run(flags) {
            assert_eq!(counts, said, "{flags:?}");
        }
    }
    if let Some(counts) = run(&["--stop", "1"]) {
        let nanoseconds = counts.strip_prefix("stop 5 nanoseconds ").and_then(|rest| rest.trim().parse::<u64>().ok());
        assert!(nanoseconds.is_some_and(|nanoseconds| nanoseconds >= 5_000_000), "{counts}");
    }
}
