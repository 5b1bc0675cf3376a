//! The slowest exits of every part of the recording, so that any range of time has some.

use super::bucket_sums::NARROWEST;
use crate::{Slowest, wider};
use exitscope_model::Exit;
use std::collections::BTreeMap;

/// Parts at most.
const PARTS: u64 = 100;

/// Exits kept of each part.
const KEEP: usize = 10;

/// The slowest exits by part.
#[derive(Clone, Debug)]
pub struct SlowestByInterval {
    width: u64,
    parts: BTreeMap<u64, Slowest>,
    /// When the part in hand begins: to compare with is less than to divide.
    begin: u64,
    current: Slowest,
}

impl Default for SlowestByInterval {
    fn default() -> SlowestByInterval {
        SlowestByInterval { width: NARROWEST, parts: BTreeMap::new(), begin: 0, current: Slowest::keeping(KEEP) }
    }
}

impl SlowestByInterval {
    /// Looks at one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let at = exit.at.as_nanos();
        if at.wrapping_sub(self.begin) >= self.width {
            self.settle();
            self.begin = at - at % self.width;
        }
        self.current.absorb(exit);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, mut other: SlowestByInterval) {
        other.settle();
        self.settle();
        while other.width < self.width {
            other.widen();
        }
        while self.width < other.width {
            self.widen();
        }
        for (part, slowest) in &other.parts {
            self.add(*part, slowest);
        }
        self.narrow_enough();
    }

    /// Forgets the parts that end before a moment.
    pub fn forget(&mut self, before: u64) {
        self.settle();
        self.parts = self.parts.split_off(&(before / self.width));
    }

    /// All that are kept, slowest first.
    pub fn finish(mut self) -> Vec<Exit> {
        self.settle();
        let mut all = Slowest::keeping(PARTS as usize * KEEP);
        self.parts.values().for_each(|part| all.merge(part));
        all.list()
    }

    fn add(&mut self, part: u64, slowest: &Slowest) {
        self.parts.entry(part).or_insert_with(|| Slowest::keeping(KEEP)).merge(slowest);
    }

    fn settle(&mut self) {
        let current = std::mem::replace(&mut self.current, Slowest::keeping(KEEP));
        if !current.list().is_empty() {
            self.add(self.begin / self.width, &current);
        }
        self.narrow_enough();
    }

    fn narrow_enough(&mut self) {
        while self.parts.len() as u64 > PARTS {
            self.widen();
        }
    }

    fn widen(&mut self) {
        let wide = wider(self.width);
        let factor = wide / self.width;
        self.width = wide;
        self.begin -= self.begin % wide;
        for (part, slowest) in std::mem::take(&mut self.parts) {
            self.add(part / factor, &slowest);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use exitscope_model::{CodeList, ExitCode, ExitParts, ExitPhases, Handler, TimePart, VcpuIdentity};
    use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};

    /// An exit of VM 1 that takes so long, all of it in the kernel.
    pub(crate) fn exit(at: u64, kernel: u64) -> Exit {
        Exit {
            at: Moment::from_nanos(at),
            who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(10) },
            cpu: PcpuId(0),
            code: ExitCode::new(CodeList::Vmx, 30),
            rip: 0,
            info: exitscope_model::ExitInfo::default(),
            handler: Handler::Kernel,
            subject: None,
            injected: None,
            guest: Nanos(1),
            parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)),
            phases: ExitPhases::default(),
            timed: true,
            is_halt: false,
            events: 1,
        }
    }

    #[test]
    fn an_exit_is_one_of_the_part_in_which_it_was_however_wide_parts_became() {
        let exits: Vec<Exit> = (0..5_000).map(|number| exit(number * 700, 100 + number * 7_919 % 10_007)).collect();
        let mut slow = SlowestByInterval::default();
        exits.iter().for_each(|exit| slow.absorb(exit));
        slow.settle();
        assert!(slow.width > 10 * NARROWEST && slow.parts.len() > 10, "{} {}", slow.width, slow.parts.len());
        let mut all = 0;
        for (part, slowest) in &slow.parts {
            let mut of_part = Slowest::keeping(KEEP);
            let is_in = |exit: &&Exit| exit.at.as_nanos() / slow.width == *part;
            exits.iter().filter(is_in).for_each(|exit| of_part.absorb(exit));
            assert_eq!(slowest.list(), of_part.list(), "{part}");
            all += slowest.list().len();
        }
        assert_eq!(slow.finish().len(), all);
    }
}
