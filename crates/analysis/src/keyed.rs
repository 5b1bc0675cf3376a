//! Figures by a small key.

use crate::Cell;
use exitscope_model::Exit;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{BuildHasher, Hash};

/// Keys at most; exits of further ones are counted together in [`Keyed::other`]. Bounds memory (about 100 MB).
pub const MAX_KEYS: usize = 1 << 16;

/// Of so many keys' hashes, as a power of two, the place of the last such key is near at hand: of most recordings all keys.
const NEAR_BITS: u32 = 6;

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
    /// The place of the last key whose hash begins so.
    near: [u32; 1 << NEAR_BITS],
}

impl<K, C: Default> Default for Keyed<K, C> {
    fn default() -> Keyed<K, C> {
        Keyed { index: FxHashMap::default(), cells: Vec::new(), other: C::default(), near: [0; 1 << NEAR_BITS] }
    }
}

impl<K: Copy + Ord + Hash, C: Tally> Keyed<K, C> {
    /// Adds one exit to a key.
    #[inline]
    pub fn absorb(&mut self, key: K, exit: &Exit) {
        let near = (FxBuildHasher.hash_one(key) >> (u64::BITS - NEAR_BITS)) as usize;
        match self.cells.get_mut(self.near[near] as usize) {
            Some((known, cell)) if *known == key => cell.absorb(exit),
            _ => self.find(key, near).absorb(exit),
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

    #[inline(never)]
    fn find(&mut self, key: K, near: usize) -> &mut C {
        match self.place(key) {
            Some(at) => {
                self.near[near] = at;
                &mut self.cells[at as usize].1
            }
            None => &mut self.other,
        }
    }

    fn cell(&mut self, key: K) -> &mut C {
        match self.place(key) {
            Some(at) => &mut self.cells[at as usize].1,
            None => &mut self.other,
        }
    }

    /// Where the key's figures are; `None` if there are too many keys.
    fn place(&mut self, key: K) -> Option<u32> {
        if let Some(&at) = self.index.get(&key) {
            return Some(at);
        }
        if self.cells.len() >= MAX_KEYS {
            return None;
        }
        let at = self.cells.len() as u32;
        self.index.insert(key, at);
        self.cells.push((key, C::default()));
        Some(at)
    }
}
