//! Sums by time and key, at the narrowest width of time that needs at most so many rows.
//!
//! ```text
//! (at, key, sums) ─► in hand, a place by hash ─► rows ─► too many: equal rows become one; still too many: time widens
//! ```
//!
//! Widths are 1 us, 2 us, 10 us, 20 us, …: each divides the next, so that neither the order of absorbing nor the number of
//! pieces changes the result.

use exitscope_analysis::wider;

/// The narrowest width, in nanoseconds.
pub const NARROWEST: u64 = 1_000;

/// No key.
const FREE: u32 = u32::MAX;

/// The key of all keys that are too many even for a single bucket: no recording of a host has so many, a forged one may.
pub const FURTHER: u32 = u32::MAX >> 1;

/// The sums of one key in one bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<const N: usize> {
    /// The bucket: a moment divided by the width.
    pub bucket: u64,
    /// The key.
    pub key: u32,
    /// The sums.
    pub sums: [u64; N],
}

/// Sums by time and key.
#[derive(Clone, Debug)]
pub struct Rows<const N: usize> {
    most: usize,
    width: u64,
    /// Places in hand, as a power of two. The next exit is often of the same time, vCPU and reason as one of the last.
    bits: u32,
    hand: Vec<Row<N>>,
    /// The first ones are in order of bucket and key, each but once.
    rows: Vec<Row<N>>,
    in_order: usize,
    /// Memory to put rows in order with: to ask for it each time would be to have it filled with zeros each time.
    scratch: Scratch<N>,
    /// The last bucket: first moment, first moment after it, number.
    last: (u64, u64, u64),
}

/// Memory that [`compact`] needs. It holds nothing else.
#[derive(Debug)]
struct Scratch<const N: usize> {
    order: Vec<u128>,
    rows: Vec<Row<N>>,
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Scratch<N> {
        Scratch { order: Vec::new(), rows: Vec::new() }
    }
}

impl<const N: usize> Clone for Scratch<N> {
    fn clone(&self) -> Scratch<N> {
        Scratch::default()
    }
}

fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

impl<const N: usize> Rows<N> {
    /// Rows, of which there will be at most `most`; best if of one moment there are fewer than `1 << bits` keys.
    pub fn of_at_most(most: usize, bits: u32) -> Rows<N> {
        let free = Row { bucket: 0, key: FREE, sums: [0; N] };
        Rows {
            most: most.max(1),
            width: NARROWEST,
            bits,
            hand: vec![free; 1 << bits],
            rows: Vec::new(),
            in_order: 0,
            scratch: Scratch::default(),
            last: (0, 0, 0),
        }
    }

    /// Adds to the sums of `key` at `at`, in nanoseconds.
    #[inline]
    pub fn absorb(&mut self, at: u64, key: u32, sums: &[u64; N]) {
        if at < self.last.0 || at >= self.last.1 {
            let bucket = at / self.width;
            self.last = (bucket * self.width, (bucket * self.width).saturating_add(self.width), bucket);
        }
        let bucket = self.last.2;
        let mixed = (bucket as u32 ^ key.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b);
        let slot = &mut self.hand[(mixed >> (32 - self.bits)) as usize];
        if slot.bucket == bucket && slot.key == key {
            return add(&mut slot.sums, sums);
        }
        let evicted = std::mem::replace(slot, Row { bucket, key, sums: *sums });
        if evicted.key != FREE {
            self.rows.push(evicted);
            if self.rows.len() >= self.most * 2 {
                self.settle();
            }
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, mut other: Rows<N>) {
        other.settle();
        self.settle();
        while self.width < other.width {
            self.widen();
        }
        while other.width < self.width {
            other.widen();
        }
        self.rows.append(&mut other.rows);
        self.settle();
    }

    /// Forgets the buckets that end before a moment.
    pub fn forget(&mut self, before: u64) {
        self.settle();
        let first = before / self.width;
        self.rows.retain(|row| row.bucket >= first);
        self.in_order = self.rows.len();
    }

    /// The same with other keys.
    pub fn rekeyed(mut self, key: impl Fn(u32) -> u32) -> Rows<N> {
        self.settle();
        self.rows.iter_mut().for_each(|row| row.key = key(row.key));
        self.in_order = 0;
        self
    }

    /// The width of a bucket in nanoseconds, and the rows with their keys replaced by `key`, in order of bucket and key.
    /// `in_time`: otherwise all time is one bucket.
    pub fn finish(self, in_time: bool, key: impl Fn(u32) -> u32) -> (u64, Vec<Row<N>>) {
        let mut all = self.rekeyed(key);
        if !in_time {
            all.rows.iter_mut().for_each(|row| row.bucket = 0);
        }
        all.compact();
        (all.width, all.rows)
    }

    /// Moves what is in hand to the rows, and has no more of them than wanted.
    fn settle(&mut self) {
        for slot in &mut self.hand {
            if slot.key != FREE {
                self.rows.push(*slot);
                slot.key = FREE;
            }
        }
        self.compact();
        while self.rows.len() > self.most && !self.is_one_bucket() {
            self.widen();
        }
        if self.rows.len() > self.most {
            let further = self.rows.split_off(self.most - 1);
            let mut row = Row { key: FURTHER, ..further[0] };
            row.sums = [0; N];
            further.iter().for_each(|of| add(&mut row.sums, &of.sums));
            self.rows.push(row);
            self.in_order = self.rows.len();
        }
    }

    fn is_one_bucket(&self) -> bool {
        self.rows.first().map(|row| row.bucket) == self.rows.last().map(|row| row.bucket)
    }

    /// Makes buckets wider, of which all rows are in order.
    fn widen(&mut self) {
        let wide = wider(self.width);
        let factor = wide / self.width;
        self.width = wide;
        self.last = (0, 0, 0);
        match factor {
            // To divide by a number that is known is to multiply.
            2 => self.rows.iter_mut().for_each(|row| row.bucket /= 2),
            5 => self.rows.iter_mut().for_each(|row| row.bucket /= 5),
            _ => self.rows.iter_mut().for_each(|row| row.bucket /= factor),
        }
        // Of a bucket there are few rows.
        self.rows.chunk_by_mut(|row, next| row.bucket == next.bucket).for_each(|of| of.sort_by_key(|row| row.key));
        self.rows.dedup_by(|next, kept| kept.takes(next));
        self.in_order = self.rows.len();
    }

    /// Makes one row of rows of the same bucket and key, in order of these.
    fn compact(&mut self) {
        compact_into(&self.rows, self.in_order, &mut self.scratch);
        std::mem::swap(&mut self.rows, &mut self.scratch.rows);
        self.in_order = self.rows.len();
    }
}

impl<const N: usize> Row<N> {
    fn place(&self) -> (u64, u32) {
        (self.bucket, self.key)
    }

    /// Adds another's sums, if it has the same bucket and key; whether it has.
    fn takes(&mut self, other: &Row<N>) -> bool {
        let same = self.place() == other.place();
        if same {
            add(&mut self.sums, &other.sums);
        }
        same
    }
}

/// One row for all rows of the same bucket and key, in order of these; the first `in_order` rows are so already.
pub fn compact<const N: usize>(rows: &[Row<N>], in_order: usize) -> Vec<Row<N>> {
    let mut scratch = Scratch::default();
    compact_into(rows, in_order, &mut scratch);
    scratch.rows
}

/// The same, into the rows of `scratch`.
fn compact_into<const N: usize>(rows: &[Row<N>], in_order: usize, scratch: &mut Scratch<N>) {
    let (front, back) = rows.split_at(in_order);
    let Scratch { order, rows: compact } = scratch;
    // Numbers are sorted instead of rows, which are long.
    order.clear();
    let places = back.iter().zip(0..).map(|(row, at)| u128::from(row.bucket) << 64 | u128::from(row.key) << 32 | at);
    order.extend(places);
    order.sort_unstable();
    compact.clear();
    compact.reserve(rows.len());
    let mut add = |row: &Row<N>| {
        if !compact.last_mut().is_some_and(|last| last.takes(row)) {
            compact.push(*row);
        }
    };
    let mut front = front.iter().peekable();
    for at in order {
        let row = &back[*at as u32 as usize];
        while let Some(earlier) = front.next_if(|of| of.place() <= row.place()) {
            add(earlier);
        }
        add(row);
    }
    front.for_each(add);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(most: usize, exits: &[(u64, u32)]) -> Rows<1> {
        let mut rows = Rows::of_at_most(most, 3);
        exits.iter().for_each(|&(at, key)| rows.absorb(at, key, &[1]));
        rows
    }

    #[test]
    fn time_is_as_narrow_as_the_rows_allow() {
        let exits: Vec<_> = (0..100u64).map(|at| (at * 10_000, 3)).collect();
        let (width, rows) = of(100, &exits).finish(true, |key| key);
        assert_eq!((width, rows.len()), (1_000, 100));
        let (width, rows) = of(99, &exits).finish(true, |key| key);
        assert_eq!((width, rows.len()), (20_000, 50));
        assert!(rows.iter().all(|row| row.sums == [2]));
        let (_, rows) = of(99, &exits).finish(false, |_| 0);
        assert_eq!(rows, [Row { bucket: 0, key: 0, sums: [100] }]);
    }

    #[test]
    fn what_is_forgotten_is_gone_to_the_bucket() {
        let exits: Vec<_> = (0..10u64).map(|at| (at * 1_000, 3)).collect();
        let mut rows = of(100, &exits);
        rows.forget(4_500);
        rows.absorb(9_000, 3, &[1]);
        let (_, rows) = rows.finish(true, |key| key);
        let sums: Vec<_> = rows.iter().map(|row| (row.bucket, row.sums[0])).collect();
        assert_eq!(sums, [(4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 2)]);
    }

    #[test]
    fn more_keys_than_rows_are_counted_together() {
        let exits: Vec<_> = (0..100u32).map(|key| (5, key)).collect();
        let (_, rows) = of(10, &exits).finish(true, |key| key);
        assert_eq!((rows.len(), rows[9].key, rows[9].sums), (10, FURTHER, [91]));
    }

    proptest! {
        #[test]
        fn neither_order_nor_pieces_change_anything(
            exits in proptest::collection::vec((0u64..1 << 34, 0u32..5), 0..400), cut in 0usize..400, most in 5usize..60,
        ) {
            let whole = of(most, &exits).finish(true, |key| key);
            let (left, right) = exits.split_at(cut.min(exits.len()));
            let mut merged = of(most, right);
            merged.merge(of(most, left));
            prop_assert_eq!(&merged.finish(true, |key| key), &whole);
            let backwards: Vec<_> = exits.iter().rev().copied().collect();
            prop_assert_eq!(&of(most, &backwards).finish(true, |key| key), &whole);
            prop_assert!(whole.1.len() <= most);
            prop_assert_eq!(whole.1.iter().map(|row| row.sums[0]).sum::<u64>(), exits.len() as u64);
        }
    }
}
