//! Exits and their cost over time, or something that lasts, at whatever width fits.

use exitscope_model::Exit;
use exitscope_units::Moment;
use std::collections::BTreeMap;

/// Narrowest bucket, in nanoseconds.
const NARROWEST: u64 = 1_000;

/// Exits and their cost in buckets of equal width. Buckets widen, 1 us, 2 us, 10 us, 20 us, …, so that at most
/// `most` are needed; each width divides the next, so that the result does not depend on the order of absorbing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    most: u64,
    width: u64,
    buckets: BTreeMap<u64, Bucket>,
    last: (u64, Bucket),
    /// Where the last one begins: to compare with is less than to divide.
    begin: u64,
}

/// One bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Exits that began in it; nanoseconds of what was spread over it.
    pub count: u64,
    /// What they cost, in nanoseconds.
    pub cost: u64,
}

impl Timeline {
    /// A timeline of at most `most` buckets.
    pub fn of_at_most(most: u64) -> Timeline {
        let (buckets, last) = (BTreeMap::new(), (u64::MAX, Bucket::default()));
        Timeline { most: most.max(2), width: NARROWEST, buckets, last, begin: 0 }
    }

    /// Adds one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let at = exit.at.as_nanos();
        if !self.is_in_hand(at) {
            self.settle();
            self.widen_for(at / self.width);
            self.go_to(at / self.width);
        }
        self.last.1.count += 1;
        if exit.timed {
            self.last.1.cost = self.last.1.cost.saturating_add(exit.cost().0);
        }
    }

    /// Adds a stretch of time: to each bucket, the nanoseconds of it that lie there as a count, and `weight` times as many
    /// as a cost.
    #[inline]
    pub fn spread(&mut self, from: Moment, to: Moment, weight: u64) {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        if to <= from {
            return;
        }
        if !self.is_in_hand(from) || !self.is_in_hand(to - 1) {
            self.settle();
            self.widen_for(from / self.width);
            self.widen_for((to - 1) / self.width);
            for at in from / self.width..(to - 1) / self.width {
                let (first, last) = (from.max(at * self.width), (at + 1) * self.width);
                add(&mut self.buckets, at, Bucket { count: last - first, cost: (last - first).saturating_mul(weight) });
            }
            self.go_to((to - 1) / self.width);
        }
        let length = to - from.max(self.begin);
        self.last.1.count = self.last.1.count.saturating_add(length);
        self.last.1.cost = self.last.1.cost.saturating_add(length.saturating_mul(weight));
    }

    /// Adds what another timeline holds.
    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        other.settle();
        self.settle();
        while self.width < other.width {
            self.widen();
        }
        while other.width < self.width {
            other.widen();
        }
        for (at, bucket) in other.buckets {
            add(&mut self.buckets, at, bucket);
        }
        while self.too_many() {
            self.widen();
        }
    }

    /// Width of a bucket in nanoseconds, and every bucket from the first that has exits to the last.
    pub fn buckets(&self) -> (u64, Vec<(Moment, Bucket)>) {
        let mut whole = self.clone();
        whole.settle();
        let (Some((&first, _)), Some((&last, _))) = (whole.buckets.first_key_value(), whole.buckets.last_key_value())
        else {
            return (self.width, Vec::new());
        };
        let of = |at| (Moment::from_nanos(at * whole.width), whole.buckets.get(&at).copied().unwrap_or_default());
        (whole.width, (first..=last).map(of).collect())
    }

    /// Whether the bucket in hand holds this moment.
    #[inline(always)]
    fn is_in_hand(&self, at: u64) -> bool {
        at.wrapping_sub(self.begin) < self.width && self.last.0 != u64::MAX
    }

    /// Has another bucket in hand.
    fn go_to(&mut self, at: u64) {
        self.last.0 = at;
        self.begin = at * self.width;
    }

    /// Moves the bucket in hand to the others.
    fn settle(&mut self) {
        if self.last.0 != u64::MAX {
            let (at, bucket) = std::mem::replace(&mut self.last, (u64::MAX, Bucket::default()));
            self.begin = 0;
            add(&mut self.buckets, at, bucket);
        }
    }

    fn widen_for(&mut self, at: u64) {
        let moment = at * self.width;
        self.buckets.entry(at).or_default();
        while self.too_many() {
            self.widen();
        }
        debug_assert!(self.buckets.contains_key(&(moment / self.width)));
    }

    fn too_many(&self) -> bool {
        match (self.buckets.first_key_value(), self.buckets.last_key_value()) {
            (Some((first, _)), Some((last, _))) => last - first >= self.most,
            _ => false,
        }
    }

    fn widen(&mut self) {
        let factor = wider(self.width) / self.width;
        self.width *= factor;
        for (at, bucket) in std::mem::take(&mut self.buckets) {
            add(&mut self.buckets, at / factor, bucket);
        }
    }
}

fn add(buckets: &mut BTreeMap<u64, Bucket>, at: u64, more: Bucket) {
    let bucket = buckets.entry(at).or_default();
    bucket.count = bucket.count.saturating_add(more.count);
    bucket.cost = bucket.cost.saturating_add(more.cost);
}

/// The next width: 1, 2, 10, 20, 100, …
pub fn wider(width: u64) -> u64 {
    let mut power = width;
    while power.is_multiple_of(10) {
        power /= 10;
    }
    width.saturating_mul(if power == 1 { 2 } else { 5 })
}
