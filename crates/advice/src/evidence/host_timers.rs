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
    /// Which subjects of exits it looks at.
    #[inline(always)]
    pub fn looks_at(kind: SubjectKind) -> bool {
        kind == SubjectKind::HostVector
    }

    /// Looks at an exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let host = exit.subject().filter(|of| InjectedAfter::looks_at(of.kind));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, vcpu};
    use exitscope_model::{CodeList, ExitCode, PortAccessForm, Subject};

    fn interrupted(host: u64, injected: Option<u32>) -> Exit {
        let (kind, form) = (SubjectKind::HostVector, PortAccessForm::Unknown);
        let subject = Some(Subject { kind, write: false, form, size: 0, key: host, value: 0 });
        Exit { subject, injected, ..exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 1)) }
    }

    #[test]
    fn the_vector_that_most_exits_inject_is_that_of_all_stretches_together() {
        let of = |exits: &[(u64, Option<u32>)]| {
            let mut injected = InjectedAfter::default();
            exits.iter().for_each(|(host, vector)| injected.absorb(&interrupted(*host, *vector)));
            injected
        };
        let mut all =
            of(&[(0xec, Some(0x31)), (0xec, Some(0x31)), (0xec, Some(0xfb)), (0xec, None), (0xfd, Some(0xfb))]);
        let vm = vcpu(0).vm;
        assert_eq!(all.most(vm, |host| host == 0xec), Some((0x31, 2)));
        all.merge(&of(&[(0xec, Some(0xfb)), (0xec, Some(0xfb)), (0xec, Some(0x1_00fb))]));
        assert_eq!(all.most(vm, |host| host == 0xec), Some((0xfb, 3)));
        assert_eq!(all.most(vm, |_| true), Some((0xfb, 4)));
        assert_eq!(all.most(vm, |host| host == 0x31), None);
        assert_eq!(all.most(VmId(vm.0 + 1), |_| true), None, "another VM's");
    }
}
