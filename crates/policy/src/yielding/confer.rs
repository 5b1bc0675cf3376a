//! H_CONFER: what a powerpc guest does for a spinlock's holder that does not run, and what the hypervisor does then.
//!
//! ```text
//! guest: lock held ─► holder runs: look again
//!                 └─► holder preempted (its yield count is odd) ─► H_CONFER(holder)
//! host:  one of a gang ─► stays inside, until all others cede or confer, too, at most 10 µs: look again
//!                     └─► all do ─► leaves the guest (the gang with it), yields to the holder
//! ```
//!
//! Where vCPUs are not ganged (POWER9 and later), the call leaves at once.
//!
//! Sources: Linux arch/powerpc/lib/locks.c (splpar_spin_yield), arch/powerpc/kvm/book3s_hv_builtin.c
//! (kvmppc_rm_h_confer), book3s_hv.c (kvm_arch_vcpu_yield_to).

use exitscope_units::Nanos;

/// How long a thread of a gang stays inside with its H_CONFER.
pub const STAY: Nanos = Nanos(10_000);

/// What another thread of the gang is doing, as H_CONFER sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sibling {
    /// It has work to do.
    Works,
    /// It has ceded, and naps.
    Ceded,
    /// It confers, too.
    Confers,
}

/// Whether a thread that confers leaves the guest: only if nobody in there has work to do.
pub fn leaves(siblings: impl IntoIterator<Item = Sibling>) -> bool {
    siblings.into_iter().all(|sibling| sibling != Sibling::Works)
}

#[cfg(test)]
mod tests {
    use super::Sibling::{Ceded, Confers, Works};
    use super::leaves;

    #[test]
    fn a_gang_is_taken_out_only_when_none_of_it_has_work() {
        assert!(leaves([]));
        assert!(leaves([Ceded, Confers]));
        assert!(!leaves([Ceded, Works, Confers]));
    }
}
