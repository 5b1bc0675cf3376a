//! What the two kinds of halt polling say when they adapt.

use exitscope_units::Nanos;

/// A poll length that was adjusted: the fields of the tracepoints `power:guest_halt_poll_ns` and
/// `kvm:kvm_halt_poll_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollAdjustment {
    /// Grown, otherwise shrunk. Old and new may still be equal.
    pub grow: bool,
    /// The length before.
    pub old: Nanos,
    /// The length from now on.
    pub new: Nanos,
}
