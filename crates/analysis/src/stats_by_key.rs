//! Figures by a small key.

use crate::{ExitStats, KeyNumbering};
use exitscope_model::Exit;
use std::hash::Hash;

/// Keys at most; exits of further ones are counted together in [`StatsByKey::other`]. Bounds memory (about 100 MB).
pub const MAX_KEYS: usize = 1 << 16;

/// Figures that exits are added to.
pub trait Tally: Default {
    /// Adds one exit.
    fn absorb(&mut self, exit: &Exit);
    /// Adds what another holds.
    fn merge(&mut self, other: &Self);
}

impl Tally for ExitStats {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        ExitStats::absorb(self, exit);
    }

    fn merge(&mut self, other: &ExitStats) {
        ExitStats::merge(self, other);
    }
}

/// Figures by key.
#[derive(Clone, Debug)]
pub struct StatsByKey<K, C = ExitStats> {
    index: KeyNumbering<K>,
    /// By the key's number.
    cells: Vec<C>,
    /// Exits of keys beyond [`MAX_KEYS`].
    pub other: C,
}

impl<K, C: Default> Default for StatsByKey<K, C> {
    fn default() -> StatsByKey<K, C> {
        StatsByKey { index: KeyNumbering::of_at_most(MAX_KEYS as u32), cells: Vec::new(), other: C::default() }
    }
}

impl<K: Copy + Ord + Hash, C: Tally> StatsByKey<K, C> {
    /// Adds one exit to a key.
    #[inline]
    pub fn absorb(&mut self, key: K, exit: &Exit) {
        let number = self.index.of(key) as usize;
        match self.cells.get_mut(number) {
            Some(cell) => cell.absorb(exit),
            None => self.new_cell(number).absorb(exit),
        }
    }

    /// Adds figures to a key.
    pub fn merge_at(&mut self, key: K, cell: &C) {
        let number = self.index.of(key) as usize;
        match self.cells.get_mut(number) {
            Some(known) => known.merge(cell),
            None => self.new_cell(number).merge(cell),
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &StatsByKey<K, C>) {
        for (key, cell) in other.rows() {
            self.merge_at(key, cell);
        }
        self.other.merge(&other.other);
    }

    /// The figures of a key.
    pub fn get(&self, key: &K) -> Option<&C> {
        self.index.find(key).map(|number| &self.cells[number as usize])
    }

    /// Every key's figures, in the order of the keys.
    pub fn cells(&self) -> Vec<(K, &C)> {
        let mut cells: Vec<_> = self.rows().collect();
        cells.sort_unstable_by_key(|row| row.0);
        cells
    }

    fn rows(&self) -> impl Iterator<Item = (K, &C)> {
        self.index.keys().iter().copied().zip(&self.cells)
    }

    /// The figures of a number without any yet: a new key's, or that of all further ones.
    #[cold]
    fn new_cell(&mut self, number: usize) -> &mut C {
        if number >= MAX_KEYS {
            return &mut self.other;
        }
        self.cells.push(C::default());
        &mut self.cells[number]
    }
}
