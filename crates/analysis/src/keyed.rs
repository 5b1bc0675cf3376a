//! Figures by a small key.

use crate::Cell;
use exitscope_model::Exit;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Keys at most; exits of further ones are counted together in [`Keyed::other`]. Bounds memory (about 100 MB).
pub const MAX_KEYS: usize = 1 << 16;

/// Figures that exits are added to.
pub trait Tally: Default {
    /// Adds one exit.
    fn absorb(&mut self, exit: &Exit);
    /// Adds what another holds.
    fn merge(&mut self, other: &Self);
}

impl Tally for Cell {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        Cell::absorb(self, exit);
    }

    fn merge(&mut self, other: &Cell) {
        Cell::merge(self, other);
    }
}

/// Figures by key.
#[derive(Clone, Debug)]
pub struct Keyed<K, C = Cell> {
    index: FxHashMap<K, u32>,
    cells: Vec<(K, C)>,
    /// Exits of keys beyond [`MAX_KEYS`].
    pub other: C,
    /// The last key's place: the next exit is often like the last.
    last: usize,
}

impl<K, C: Default> Default for Keyed<K, C> {
    fn default() -> Keyed<K, C> {
        Keyed { index: FxHashMap::default(), cells: Vec::new(), other: C::default(), last: 0 }
    }
}

impl<K: Copy + Ord + Hash, C: Tally> Keyed<K, C> {
    /// Adds one exit to a key.
    #[inline]
    pub fn absorb(&mut self, key: K, exit: &Exit) {
        match self.cells.get_mut(self.last) {
            Some((known, cell)) if *known == key => cell.absorb(exit),
            _ => self.cell(key).absorb(exit),
        }
    }

    /// Adds figures to a key.
    pub fn merge_at(&mut self, key: K, cell: &C) {
        self.cell(key).merge(cell);
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: &Keyed<K, C>) {
        for (key, cell) in &other.cells {
            self.merge_at(*key, cell);
        }
        self.other.merge(&other.other);
    }

    /// The figures of a key.
    pub fn get(&self, key: &K) -> Option<&C> {
        self.index.get(key).map(|&at| &self.cells[at as usize].1)
    }

    /// Every key's figures, in the order of the keys.
    pub fn cells(&self) -> Vec<(K, &C)> {
        let mut cells: Vec<_> = self.cells.iter().map(|(key, cell)| (*key, cell)).collect();
        cells.sort_unstable_by_key(|row| row.0);
        cells
    }

    #[inline]
    fn cell(&mut self, key: K) -> &mut C {
        if let Some(&at) = self.index.get(&key) {
            self.last = at as usize;
            return &mut self.cells[self.last].1;
        }
        self.add(key)
    }

    #[cold]
    fn add(&mut self, key: K) -> &mut C {
        if self.cells.len() >= MAX_KEYS {
            return &mut self.other;
        }
        self.last = self.cells.len();
        self.index.insert(key, self.last as u32);
        self.cells.push((key, C::default()));
        &mut self.cells[self.last].1
    }
}
