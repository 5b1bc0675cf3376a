//! What the tests on real KVM share.

use exitscope_lab::LabMachine;
use std::io::Write;

/// Set to 1, this allows tests to pass on a machine without KVM.
const WITHOUT_KVM: &str = "EXITSCOPE_WITHOUT_KVM";

/// The machine; `None` if there is no KVM and that was allowed.
pub fn machine() -> Option<LabMachine> {
    let trouble = match LabMachine::new() {
        Ok(machine) => return Some(machine),
        Err(error) => error,
    };
    let allowed = std::env::var(WITHOUT_KVM).is_ok_and(|value| value == "1");
    assert!(allowed, "{trouble}\nSet {WITHOUT_KVM}=1 to pass without it.");
    // Not `eprintln!`, which the test harness swallows when the test passes.
    let said = std::io::stderr().write_all(format!("SKIPPED: NO GUEST WAS RUN: {trouble}\n").as_bytes());
    said.expect("stderr is open");
    None
}
