//! What the tests on real KVM share.

use exitscope_lab::LabMachine;
use exitscope_skips::{Part, Skipped, skip};

/// The machine.
pub fn machine() -> Result<LabMachine, Skipped> {
    LabMachine::new().map_err(|trouble| skip(Part::Kvm, trouble))
}
