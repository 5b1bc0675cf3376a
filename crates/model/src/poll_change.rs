//! A change of for how long a halt is polled for, by KVM or by a guest's governor.

/// What `kvm_halt_poll_ns` and `guest_halt_poll_ns` say: the poll length before and after, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollChange {
    /// Grown, else shrunk.
    pub grow: bool,
    /// From now on.
    pub new: u32,
    /// Of the halt that ended.
    pub old: u32,
}
