//! Which of the host's interrupts end with an interrupt for the guest: a guest's own timer, where a timer of the host's keeps it.
//!
//! ```text
//! kvm_exit{EXTERNAL_INTERRUPT, the host's vector 0xec}, kvm_inj_virq{0xec} ─► of the host's 0xec: 1, the guest's 0xec: 1
//! ```

use exitscope_model::{Exit, SubjectKind};
use exitscope_units::VmId;
use std::collections::BTreeMap;

/// A VM and the host's vector.
type Interrupts = (VmId, u8);

/// The guest's vectors that were injected by the exits for each vector of the host's.
#[derive(Clone, Debug, Default)]
pub(crate) struct InjectedAfter {
    counts: BTreeMap<Interrupts, BTreeMap<u8, u64>>,
}

impl InjectedAfter {
    /// Looks at an exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let host = exit.subject().filter(|of| of.kind == SubjectKind::HostVector);
        if let (Some(host), Some(vector)) = (host, exit.injected) {
            // Vectors are bytes; of a damaged recording they may not be.
            if let (Ok(host), Ok(vector)) = (u8::try_from(host.key), u8::try_from(vector)) {
                *self.counts.entry((exit.who.vm, host)).or_default().entry(vector).or_default() += 1;
            }
        }
    }

    /// Adds what a later stretch of the recording gave.
    pub fn merge(&mut self, later: &InjectedAfter) {
        for (of, vectors) in &later.counts {
            let own = self.counts.entry(*of).or_default();
            vectors.iter().for_each(|(vector, count)| *own.entry(*vector).or_default() += count);
        }
    }

    /// The vector that most of a VM's exits for those vectors of the host's injected, and at how many of them.
    pub fn most(&self, vm: VmId, is: impl Fn(u64) -> bool) -> Option<(u8, u64)> {
        let mut sums: BTreeMap<u8, u64> = BTreeMap::new();
        for (_, vectors) in self.counts.iter().filter(|((of, host), _)| *of == vm && is(u64::from(*host))) {
            vectors.iter().for_each(|(vector, count)| *sums.entry(*vector).or_default() += count);
        }
        sums.into_iter().max_by_key(|(vector, count)| (*count, std::cmp::Reverse(*vector)))
    }
}
