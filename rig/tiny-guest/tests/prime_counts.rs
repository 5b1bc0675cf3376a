//! The guest's own counts: what it prints must be what its code says it does, on a real `/dev/kvm`.

use exitscope_skips::{Part, Skipped, or_skip, skip};
use std::process::Command;

/// What the guest prints.
fn run(flags: &[&str]) -> Result<String, Skipped> {
    let output = Command::new(env!("CARGO_BIN_EXE_tiny-guest")).args(flags).output().expect("the built guest starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return Err(skip(Part::Kvm, stderr));
    }
    assert!(output.status.success(), "{stderr}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_guest_leaves_as_often_as_its_code_says() {
    assert_eq!(or_skip!(run(&[])), "out 23 in 17 mmio_write 13 hlt 1\n");
}

#[test]
fn repeated_and_pinned_it_leaves_that_many_times_more() {
    assert_eq!(or_skip!(run(&["--repeat", "7", "--pin"])), "out 161 in 119 mmio_write 91 hlt 7\n");
}

#[test]
fn a_guest_that_waits_waits_as_often_as_it_says() {
    for (flags, said) in [
        (&["--pending"][..], "pending_hlt 23\n"),
        (&["--pending", "--repeat", "3", "--pin"], "pending_hlt 69\n"),
        (&["--sleep", "1"], "sleeping_hlt 7 of 1 ms\n"),
    ] {
        assert_eq!(or_skip!(run(flags)), said, "{flags:?}");
    }
    let counts = or_skip!(run(&["--stop", "1"]));
    let nanoseconds = counts.strip_prefix("stop 5 nanoseconds ").and_then(|rest| rest.trim().parse::<u64>().ok());
    assert!(nanoseconds.is_some_and(|nanoseconds| nanoseconds >= 5_000_000), "{counts}");
}
