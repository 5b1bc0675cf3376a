//! Small numbers for keys, in the order in which they are met.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Keys and their numbers. Keys beyond the `most`th all get the number `most`.
#[derive(Clone, Debug)]
pub struct Index<K> {
    most: u16,
    numbers: FxHashMap<K, u16>,
    keys: Vec<K>,
    last: Option<(K, u16)>,
}

impl<K: Copy + Eq + Hash> Index<K> {
    /// No keys yet.
    pub fn of_at_most(most: u16) -> Index<K> {
        Index { most, numbers: FxHashMap::default(), keys: Vec::new(), last: None }
    }

    /// The number of a key.
    #[inline]
    pub fn of(&mut self, key: K) -> u16 {
        match self.last {
            Some((known, number)) if known == key => number,
            _ => {
                let number = self.look_up(key);
                self.last = Some((key, number));
                number
            }
        }
    }

    /// The keys that have a number of their own, by number.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The number that all further keys have.
    pub fn other(&self) -> u16 {
        self.most
    }

    fn look_up(&mut self, key: K) -> u16 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        if self.keys.len() >= usize::from(self.most) {
            return self.most;
        }
        let number = self.keys.len() as u16;
        self.keys.push(key);
        self.numbers.insert(key, number);
        number
    }
}
