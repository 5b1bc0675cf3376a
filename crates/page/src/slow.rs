//! The slowest exits of every part of the recording, so that any range of time has some.

use crate::rows::NARROWEST;
use exitscope_analysis::{Slowest, wider};
use exitscope_model::Exit;
use std::collections::BTreeMap;

/// Parts at most.
const PARTS: u64 = 100;

/// Exits kept of each part.
const KEEP: usize = 10;

/// The slowest exits by part.
#[derive(Clone, Debug)]
pub struct Slow {
    width: u64,
    parts: BTreeMap<u64, Slowest>,
    /// The part in hand: its number, and when it begins. To compare with is less than to divide.
    last: u64,
    begin: u64,
    current: Slowest,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow { width: NARROWEST, parts: BTreeMap::new(), last: 0, begin: 0, current: Slowest::keeping(KEEP) }
    }
}

impl Slow {
    /// Looks at one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let at = exit.at.as_nanos();
        if at.wrapping_sub(self.begin) >= self.width {
            self.settle();
            self.last = at / self.width;
            self.begin = self.last * self.width;
        }
        self.current.absorb(exit);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, mut other: Slow) {
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
            self.add(self.last, &current);
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
        self.last /= factor;
        self.begin = self.last * wide;
        for (part, slowest) in std::mem::take(&mut self.parts) {
            self.add(part / factor, &slowest);
        }
    }
}
