//! Sums by time and key, at the narrowest width of time that needs at most so many rows.
//!
//! ```text
//! (at, key, sums) ─► the key's last row, if it is of this bucket ─► else a new one ─► too many: time widens
//! ```
//!
//! Widths are 1 us, 2 us, 10 us, 20 us, …: each divides the next, so that neither the order of absorbing nor the number of
//! pieces changes the result.

use crate::wider;
use rustc_hash::FxHashMap;

/// The narrowest width, in nanoseconds.
pub(crate) const NARROWEST: u64 = 1_000;

/// The key of all keys that are too many even for a single bucket: no recording of a host has so many, a forged one may.
pub(crate) const FURTHER: u64 = u64::MAX >> 1;

/// The sums of one key in one bucket of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRow<const N: usize> {
    /// The bucket: a moment divided by the width.
    pub bucket: u64,
    /// The key.
    pub key: u64,
    /// The sums.
    pub sums: [u64; N],
}

/// Sums by time and key.
#[derive(Clone, Debug)]
pub struct BucketSums<const N: usize> {
    most: usize,
    width: u64,
    rows: Vec<BucketRow<N>>,
    /// Whether each key's rows are in order of their buckets, none twice: most recordings' always are.
    in_order: bool,
    latest: Latest,
    /// The last bucket: first moment, first moment after it, number.
    last: (u64, u64, u64),
}

/// Where each key's latest row is.
#[derive(Clone, Debug)]
struct Latest {
    bits: u32,
    /// By the key's hash; [`NONE`], or the latest row of one of the keys that have it.
    near: Vec<u32>,
    /// Those of the others.
    far: FxHashMap<u64, u32>,
}

/// No row.
const NONE: u32 = u32::MAX;

impl Latest {
    #[inline]
    fn near(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.bits)) as usize
    }

    /// The key's place, which says where its latest row is, or [`NONE`].
    #[inline]
    fn of<const N: usize>(&mut self, key: u64, rows: &[BucketRow<N>]) -> &mut u32 {
        let near = self.near(key);
        let place = &mut self.near[near];
        match rows.get(*place as usize) {
            Some(row) if row.key == key => {}
            other => {
                let far = self.far.get(&key).copied().unwrap_or(NONE);
                if let Some(other) = other {
                    self.far.insert(other.key, *place);
                }
                *place = far;
            }
        }
        place
    }

    fn clear(&mut self) {
        self.near.fill(NONE);
        self.far.clear();
    }
}

/// Adds to each sum; none gets beyond the largest number.
#[inline]
pub(crate) fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    let all = sums.iter().chain(more).fold(0, |all, sum| all | sum);
    if all >> 63 == 0 {
        // None gets near it: all are added at once.
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    } else {
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }
}

impl<const N: usize> BucketSums<N> {
    /// Rows, of which there will be at most `most`; best if there are fewer than `1 << bits` keys.
    pub fn of_at_most(most: usize, bits: u32) -> BucketSums<N> {
        BucketSums {
            most: most.max(1),
            width: NARROWEST,
            rows: Vec::new(),
            in_order: true,
            latest: Latest { bits, near: vec![NONE; 1 << bits], far: FxHashMap::default() },
            last: (0, 0, 0),
        }
    }

    /// Adds to the sums of `key` at `at`, in nanoseconds.
    #[inline]
    pub fn absorb(&mut self, at: u64, key: u64, sums: &[u64; N]) {
        if at < self.last.0 || at >= self.last.1 {
            let bucket = at / self.width;
            self.last = (bucket * self.width, (bucket * self.width).saturating_add(self.width), bucket);
        }
        let bucket = self.last.2;
        let near = self.latest.near[self.latest.near(key)];
        match self.rows.get_mut(near as usize) {
            Some(row) if row.key == key && row.bucket == bucket => add(&mut row.sums, sums),
            _ => self.absorb_far(BucketRow { bucket, key, sums: *sums }),
        }
    }

    #[inline(never)]
    fn absorb_far(&mut self, row: BucketRow<N>) {
        let latest = self.latest.of(row.key, &self.rows);
        if let Some(known) = self.rows.get_mut(*latest as usize) {
            if known.takes(&row) {
                return;
            }
            self.in_order &= known.bucket < row.bucket;
        }
        *latest = self.rows.len() as u32;
        self.rows.push(row);
        if self.rows.len() >= self.most * 2 {
            self.settle();
        }
    }

    /// Adds what another holds.
    pub fn merge(&mut self, other: BucketSums<N>) {
        self.settle();
        if self.width < other.width {
            self.widen(other.width);
        }
        for row in other.rows {
            // Buckets here may get wider meanwhile.
            self.absorb_far(BucketRow { bucket: row.bucket * other.width / self.width, ..row });
        }
    }

    /// Forgets the buckets that end before a moment.
    pub fn forget(&mut self, before: u64) {
        self.settle();
        let first = before / self.width;
        self.rows.retain(|row| row.bucket >= first);
        self.widen(self.width);
    }

    /// The same with other keys.
    pub fn rekeyed(mut self, key: impl Fn(u64) -> u64) -> BucketSums<N> {
        self.settle();
        self.rows.iter_mut().for_each(|row| row.key = key(row.key));
        self.in_order = false;
        self
    }

    /// The width of a bucket in nanoseconds, and the rows with their keys replaced by `key`, in order of bucket and key.
    /// `in_time`: otherwise all time is one bucket.
    pub fn finish(self, in_time: bool, key: impl Fn(u64) -> u64) -> (u64, Vec<BucketRow<N>>) {
        let mut all = self.rekeyed(key);
        if !in_time {
            all.rows.iter_mut().for_each(|row| row.bucket = 0);
        }
        (all.width, compact(all.rows))
    }

    /// Has no more rows than wanted.
    fn settle(&mut self) {
        if self.in_order && self.rows.len() <= self.most {
            return;
        }
        if !self.in_order {
            self.rows = compact(std::mem::take(&mut self.rows));
            self.widen(self.width);
        }
        if self.rows.len() > self.most && self.width == NARROWEST {
            // At first, many widths are too narrow.
            let width = self.narrowest();
            self.widen(width);
        }
        while self.rows.len() > self.most && wider(self.width) / self.width > 1 && !self.are_of_one_bucket() {
            self.widen(wider(self.width));
        }
        if self.rows.len() > self.most {
            self.rows = compact(std::mem::take(&mut self.rows));
            let further = self.rows.split_off(self.most - 1);
            let mut row = BucketRow { key: FURTHER, ..further[0] };
            row.sums = [0; N];
            further.iter().for_each(|of| add(&mut row.sums, &of.sums));
            self.rows.push(row);
            self.widen(self.width);
        }
    }

    fn are_of_one_bucket(&self) -> bool {
        self.rows.iter().all(|row| row.bucket == self.rows[0].bucket)
    }

    /// The narrowest width at which there are no more rows than wanted; if there is none, one at which all are of one
    /// bucket. Each key's rows are in order.
    fn narrowest(&mut self) -> u64 {
        let bucket = |row: &BucketRow<N>| row.bucket;
        let (first, last) = (self.rows.iter().map(bucket).min(), self.rows.iter().map(bucket).max());
        let Some((first, last)) = first.zip(last) else { return self.width };
        // Widths, in widths of now.
        let mut factors = vec![1];
        let mut width = self.width;
        while factors.last().is_some_and(|factor| first / factor != last / factor) && wider(width) / width > 1 {
            width = wider(width);
            factors.push(width / self.width);
        }
        // How many rows become one with the row before them once time is so wide, and were not before.
        let mut joined = vec![0; factors.len()];
        self.latest.clear();
        for (row, at) in self.rows.iter().zip(0..) {
            let latest = self.latest.of(row.key, &self.rows);
            if let Some(before) = self.rows.get(*latest as usize) {
                let (from, to) = (before.bucket, row.bucket);
                let wide_enough = factors.partition_point(|factor| *factor <= to - from);
                let joins = |(_, factor): &(usize, &u64)| from / **factor == to / **factor;
                if let Some((joint, _)) = factors.iter().enumerate().skip(wide_enough).find(joins) {
                    joined[joint] += 1;
                }
            }
            *latest = at;
        }
        let mut rows = self.rows.len();
        let fits = joined.iter().position(|joined| {
            rows -= joined;
            rows <= self.most
        });
        self.width * factors[fits.unwrap_or(factors.len() - 1)]
    }

    /// Makes buckets so wide, a multiple of what they are. Each key's rows are in order.
    fn widen(&mut self, width: u64) {
        let factor = width / self.width;
        self.width = width;
        self.last = (0, 0, 0);
        self.latest.clear();
        let mut kept = 0;
        for at in 0..self.rows.len() {
            let row = BucketRow { bucket: self.rows[at].bucket / factor, ..self.rows[at] };
            let latest = self.latest.of(row.key, &self.rows[..kept]);
            if !self.rows.get_mut(*latest as usize).is_some_and(|latest| latest.takes(&row)) {
                *latest = kept as u32;
                self.rows[kept] = row;
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.in_order = true;
    }
}

impl<const N: usize> BucketRow<N> {
    fn place(&self) -> (u64, u64) {
        (self.bucket, self.key)
    }

    /// Adds another's sums, if it has the same bucket and key; whether it has.
    fn takes(&mut self, other: &BucketRow<N>) -> bool {
        let same = self.place() == other.place();
        if same {
            add(&mut self.sums, &other.sums);
        }
        same
    }
}

/// One row for all rows of the same bucket and key, in order of these.
pub(crate) fn compact<const N: usize>(mut rows: Vec<BucketRow<N>>) -> Vec<BucketRow<N>> {
    // Not the rows themselves, which are long.
    rows.sort_by_cached_key(BucketRow::place);
    rows.dedup_by(|next, kept| kept.takes(next));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(most: usize, exits: &[(u64, u64)]) -> BucketSums<1> {
        // Fewer places near at hand than keys.
        let mut rows = BucketSums::of_at_most(most, 1);
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
        assert_eq!(rows, [BucketRow { bucket: 0, key: 0, sums: [100] }]);
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
        let exits: Vec<_> = (0..100u64).map(|key| (5, key)).collect();
        let (_, rows) = of(10, &exits).finish(true, |key| key);
        assert_eq!((rows.len(), rows[9].key, rows[9].sums), (10, FURTHER, [91]));
    }

    #[test]
    fn sums_end_at_the_largest_number() {
        let mut sums = [1, u64::MAX - 5, 1 << 62, u64::MAX];
        add(&mut sums, &[2, 9, 1 << 62, 0]);
        assert_eq!(sums, [3, u64::MAX, 1 << 63, u64::MAX]);
        let mut sums = [1, 1 << 62];
        add(&mut sums, &[2, (1 << 63) - 1]);
        assert_eq!(sums, [3, (1 << 62) + (1 << 63) - 1]);
    }

    proptest! {
        #[test]
        fn neither_order_nor_pieces_change_anything(
            exits in proptest::collection::vec((0u64..1 << 34, 0u64..5), 0..400), cut in 0usize..400, most in 5usize..60,
        ) {
            let whole = of(most, &exits).finish(true, |key| key);
            let (left, right) = exits.split_at(cut.min(exits.len()));
            let mut merged = of(most, right);
            merged.merge(of(most, left));
            prop_assert_eq!(&merged.finish(true, |key| key), &whole);
            let backwards: Vec<_> = exits.iter().rev().copied().collect();
            prop_assert_eq!(&of(most, &backwards).finish(true, |key| key), &whole);
            let mut in_order = exits.clone();
            in_order.sort_unstable();
            prop_assert_eq!(&of(most, &in_order).finish(true, |key| key), &whole);
            let (left, right) = in_order.split_at(cut.min(exits.len()));
            let mut merged = of(most, left);
            merged.merge(of(most, right));
            prop_assert_eq!(&merged.finish(true, |key| key), &whole);
            prop_assert!(whole.1.len() <= most);
            prop_assert_eq!(whole.1.iter().map(|row| row.sums[0]).sum::<u64>(), exits.len() as u64);
        }
    }
}
