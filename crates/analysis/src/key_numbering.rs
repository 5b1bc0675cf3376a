//! Small numbers for keys, in the order in which they are met.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{BuildHasher, Hash};

/// Of so many keys' hashes, as a power of two, the last key's number is near at hand: most recordings have fewer keys.
const NEAR_BITS: u32 = 8;

/// Keys and their numbers. Keys beyond the `most`th all get the number `most`.
#[derive(Clone, Debug)]
pub struct KeyNumbering<K> {
    most: u32,
    numbers: FxHashMap<K, u32>,
    keys: Vec<K>,
    /// The number of the last key whose hash begins so.
    near: [u32; 1 << NEAR_BITS],
}

impl<K> KeyNumbering<K> {
    /// No keys yet.
    pub fn of_at_most(most: u32) -> KeyNumbering<K> {
        KeyNumbering { most, numbers: FxHashMap::default(), keys: Vec::new(), near: [0; 1 << NEAR_BITS] }
    }

    /// The keys that have a number of their own, by number.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The number that all further keys have.
    pub fn other(&self) -> u32 {
        self.most
    }
}

impl<K: Copy + Eq + Hash> KeyNumbering<K> {
    /// The number of a key, which gets one if it has none.
    #[inline]
    pub fn of(&mut self, key: K) -> u32 {
        let near = (FxBuildHasher.hash_one(key) >> (u64::BITS - NEAR_BITS)) as usize;
        let number = self.near[near];
        match self.keys.get(number as usize) {
            Some(known) if *known == key => number,
            _ => {
                let number = self.look_up(key);
                self.near[near] = number;
                number
            }
        }
    }

    /// The number of a key, if it has one of its own.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    #[inline(never)]
    fn look_up(&mut self, key: K) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        if self.keys.len() >= self.most as usize {
            return self.most;
        }
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.numbers.insert(key, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_as_they_come_and_those_too_many_alike() {
        let mut index = KeyNumbering::of_at_most(1_000);
        // Many more than are near at hand, in an order in which they push each other away from there.
        for _ in 0..2 {
            for key in (0..1_500u64).map(|number| number * 0x9e37) {
                assert_eq!(u64::from(index.of(key)), (key / 0x9e37).min(1_000));
            }
        }
        assert_eq!((index.keys().len(), index.keys()[999]), (1_000, 999 * 0x9e37));
        assert_eq!((index.find(&0x9e37), index.find(&(1_200 * 0x9e37)), index.other()), (Some(1), None, 1_000));
    }
}
