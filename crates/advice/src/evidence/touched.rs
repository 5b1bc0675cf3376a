//! Which pages of its memory a guest had to wait for: for the first time, or again.

use super::faults::{is_fetch_of_split, is_write_to_protected};
use exitscope_analysis::{ExitCause, SubjectKey};
use exitscope_model::codes::REGION_BITS;
use exitscope_model::{CodeList, Exit, Subject, SubjectKind};
use exitscope_units::VmId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Pages at most, of all VMs; faults at further ones are not looked at. Bounds memory (about 8 MB).
const MOST: usize = 1 << 18;

/// Pages of 4 KiB in 2 MiB, as a power of two.
const IN_REGION: u32 = 9;

/// How often a VM's pages were missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Pages.
    pub first: u64,
    /// Faults at one of them after its first.
    pub again: u64,
    /// Regions of 2 MiB in which those pages are.
    pub regions: u64,
    /// Time of all of these faults, and of those that are alone in their region.
    pub time: u64,
    /// See there.
    pub alone: u64,
}

impl Touched {
    /// Faults.
    pub fn all(self) -> u64 {
        self.first.saturating_add(self.again)
    }
}

/// The pages of all VMs at which there were faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct TouchedPages {
    pages: FxHashSet<(VmId, u64)>,
    /// Faults in each region of 2 MiB in which they are, and their time.
    regions: FxHashMap<(VmId, u64), (u64, u64)>,
    by_vm: BTreeMap<VmId, Touched>,
}

impl TouchedPages {
    /// Which subjects of exits it looks at.
    #[inline(always)]
    pub fn looks_at(kind: SubjectKind) -> bool {
        matches!(kind, SubjectKind::PageFault | SubjectKind::EptViolation)
    }

    /// Looks at an exit: whether it is a fault of the second stage of translation whose event says the address.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if let Some(detail) = exit.subject()
            && TouchedPages::looks_at(detail.kind)
        {
            self.fault(exit, detail);
        }
    }

    fn fault(&mut self, exit: &Exit, detail: Subject) {
        // powerpc tells where in the program it was, and the words of an exit do not tell where it was.
        let of_memory = matches!(exit.code.list, CodeList::Vmx | CodeList::Svm | CodeList::Arm64Ec);
        let address = detail.value;
        if address == 0 || !of_memory || !exit.code.is_page_fault() {
            return;
        }
        // What may only be read is there.
        let cause = ExitCause { code: exit.code, about: Some(SubjectKey::of(detail)) };
        if !is_write_to_protected(&cause) && !is_fetch_of_split(&cause) {
            self.touch((exit.who.vm, address >> REGION_BITS), exit.cost().0);
        }
    }

    fn touch(&mut self, page: (VmId, u64), time: u64) {
        let touched = self.by_vm.entry(page.0).or_default();
        let region = (page.0, page.1 >> IN_REGION);
        if self.pages.contains(&page) {
            touched.again += 1;
        } else if self.pages.len() < MOST {
            self.pages.insert(page);
            touched.first += 1;
            touched.regions += u64::from(!self.regions.contains_key(&region));
        } else {
            return;
        }
        let region = self.regions.entry(region).or_default();
        region.0 += 1;
        region.1 = region.1.saturating_add(time);
    }

    /// Adds what a later stretch of the recording gave.
    pub fn merge(&mut self, later: &TouchedPages) {
        for page in &later.pages {
            self.touch(*page, 0);
        }
        for (vm, touched) in &later.by_vm {
            self.by_vm.entry(*vm).or_default().again += touched.again;
        }
        // Its first faults at each page are counted above.
        for (region, faults) in &later.regions {
            if let Some(own) = self.regions.get_mut(region) {
                own.0 += faults.0;
                own.1 = own.1.saturating_add(faults.1);
            }
        }
        for (vm, page) in &later.pages {
            if let Some(own) = self.regions.get_mut(&(*vm, page >> IN_REGION)) {
                own.0 -= 1;
            }
        }
    }

    /// Where a VM's faults were: the first address of 2 MiB, and how many there.
    pub fn places(&self, vm: VmId) -> impl Iterator<Item = (u64, u64)> {
        let of = self.regions.iter().filter(move |((of, _), _)| *of == vm);
        of.map(|((_, region), faults)| (region << (REGION_BITS + IN_REGION), faults.0))
    }

    /// Those of a VM.
    pub fn of(&self, vm: VmId) -> Touched {
        let mut touched = self.by_vm.get(&vm).copied().unwrap_or_default();
        for (_, (faults, time)) in self.regions.iter().filter(|((of, _), _)| *of == vm) {
            touched.time = touched.time.saturating_add(*time);
            touched.alone = touched.alone.saturating_add(if *faults == 1 { *time } else { 0 });
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, vcpu};
    use exitscope_model::{ExitCode, PortAccessForm};

    fn fault(code: ExitCode, kind: SubjectKind, address: u64) -> Exit {
        let detail = Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key: 0x182, value: address };
        let parts = crate::test_exits::spent(exitscope_model::TimePart::Kernel, 10);
        Exit { subject: Some(detail), parts, ..exit(vcpu(0), 100, code) }
    }

    #[test]
    fn a_page_counts_once_as_first_and_then_as_again_however_the_recording_is_cut() {
        let ept = ExitCode::new(CodeList::Vmx, 48);
        let mut protected = fault(ept, SubjectKind::EptViolation, 0x1234);
        protected.subject = protected.subject.map(|detail| Subject { key: 0x192, ..detail });
        let exits = [
            fault(ept, SubjectKind::EptViolation, 0x1234),
            fault(ept, SubjectKind::EptViolation, 0x1fff),
            fault(ept, SubjectKind::EptViolation, 0x2000),
            fault(ept, SubjectKind::EptViolation, 0x1000),
            fault(ept, SubjectKind::EptViolation, 0x40_1000),
            // Its address is not told; an address of a device; a fault of the guest's own.
            fault(ept, SubjectKind::EptViolation, 0),
            fault(ept, SubjectKind::Mmio, 0x1000),
            fault(ExitCode::new(CodeList::Vmx, 0), SubjectKind::PageFault, 0x1000),
            fault(ExitCode::new(CodeList::PpcTrap, 0xe00), SubjectKind::PageFault, 0x1000),
            // A write to what may only be read.
            protected,
        ];
        for cut in 0..=exits.len() {
            let [mut earlier, mut later] = [TouchedPages::default(), TouchedPages::default()];
            exits[..cut].iter().for_each(|exit| earlier.absorb(exit));
            exits[cut..].iter().for_each(|exit| later.absorb(exit));
            earlier.merge(&later);
            let touched = Touched { first: 3, again: 2, regions: 2, time: 50, alone: 10 };
            assert_eq!(earlier.of(vcpu(0).vm), touched, "cut at {cut}");
            let places: BTreeMap<u64, u64> = earlier.places(vcpu(0).vm).collect();
            assert_eq!(places, BTreeMap::from([(0, 4), (0x40_0000, 1)]), "cut at {cut}");
        }
    }
}
