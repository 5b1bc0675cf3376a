//! How the wall time of each vCPU divides, over time.
//!
//! ```text
//! exit: guest ──┤ kernel, user space, polling, halted, … ├── entry    spread over the buckets in which it lies, each part evenly
//! interval:    ─┤ guest, unknown, excluded, …             ├─          likewise
//! ```

use super::bucket_sums::{BucketRow, NARROWEST, compact};
use crate::wider;
use exitscope_model::{ALL_PARTS, AllParts, TimePart};
use exitscope_units::Nanos;

/// Cells at most, of all vCPUs together (12 MB).
const MOST: u64 = 1 << 17;

/// What a vCPU did, by lane and bucket of time.
#[derive(Clone, Debug)]
pub struct VcpuTimeline {
    most: u64,
    width: u64,
    /// First and last bucket of all lanes.
    range: Option<(u64, u64)>,
    lanes: Vec<Lane>,
    /// The last bucket: first moment, first moment after it, number.
    last: (u64, u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Lane {
    first: u64,
    cells: Vec<AllParts>,
}

impl VcpuTimeline {
    /// For one of so many parts that will be merged.
    pub fn of_part(parts: usize) -> VcpuTimeline {
        VcpuTimeline::of_at_most(MOST / parts as u64)
    }

    fn of_at_most(most: u64) -> VcpuTimeline {
        VcpuTimeline { most, width: NARROWEST, range: None, lanes: Vec::new(), last: (0, 0, 0) }
    }

    /// Where all between `from` and `to`, in nanoseconds, belongs, if that is one cell, and there is that one.
    #[inline]
    pub fn cell(&mut self, lane: u16, from: u64, to: u64) -> Option<&mut AllParts> {
        if from < self.last.0 || from >= self.last.1 {
            let bucket = from / self.width;
            self.last = (bucket * self.width, (bucket * self.width).saturating_add(self.width), bucket);
        }
        if to > self.last.1 {
            return None;
        }
        let lane = self.lanes.get_mut(usize::from(lane))?;
        lane.cells.get_mut(self.last.2.checked_sub(lane.first)? as usize)
    }

    /// Adds `times` that lie evenly between `from` and `to`, in nanoseconds.
    pub fn spread(&mut self, lane: u16, from: u64, to: u64, times: &AllParts) {
        if to <= from {
            return;
        }
        if let Some(cell) = self.cell(lane, from, to) {
            return cell.merge(times);
        }
        let lane = usize::from(lane);
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        self.cover(from, to - 1);
        let whole = to - from;
        // Shares up to a moment; what is between two of them adds up whatever the width.
        let share = |time: u64, until: u64| match time.checked_mul(until - from) {
            Some(0) => 0,
            Some(product) => product / whole,
            None => (u128::from(time) * u128::from(until - from) / u128::from(whole)) as u64,
        };
        let mut before = [0; ALL_PARTS];
        for bucket in from / self.width..=(to - 1) / self.width {
            let end = to.min(bucket.saturating_add(1).saturating_mul(self.width));
            let mut held = AllParts::ZERO;
            for (part, before) in TimePart::ALL.into_iter().zip(&mut before) {
                let until = share(times.get(part).0, end);
                held.add(part, Nanos(until - *before));
                *before = until;
            }
            self.lanes[lane].add(bucket, &held);
        }
    }

    /// Widens until there is room for the moments from `first` to `last`.
    fn cover(&mut self, first: u64, last: u64) {
        let (from, to) = (first / self.width, last / self.width);
        self.range = Some(self.range.map_or((from, to), |range| (range.0.min(from), range.1.max(to))));
        self.narrow_enough();
    }

    fn narrow_enough(&mut self) {
        while self.range.is_some_and(|(first, last)| {
            first < last && (last - first + 1).saturating_mul(self.lanes.len() as u64) > self.most
        }) {
            self.widen();
        }
    }

    fn widen(&mut self) {
        let wide = wider(self.width);
        let factor = wide / self.width;
        self.width = wide;
        self.last = (0, 0, 0);
        self.range = self.range.map(|(first, last)| (first / factor, last / factor));
        self.lanes.iter_mut().for_each(|lane| lane.widen(factor));
    }

    /// Adds what another holds, whose lanes are numbered alike.
    pub fn merge(&mut self, mut other: VcpuTimeline) {
        while other.width < self.width {
            other.widen();
        }
        while self.width < other.width {
            self.widen();
        }
        if other.lanes.len() > self.lanes.len() {
            self.lanes.resize_with(other.lanes.len(), Lane::default);
        }
        if let Some((first, last)) = other.range {
            self.cover(first * other.width, last * other.width);
        }
        while other.width < self.width {
            other.widen();
        }
        for (lane, other) in self.lanes.iter_mut().zip(&other.lanes) {
            for (at, cell) in other.cells.iter().enumerate().filter(|(_, cell)| **cell != AllParts::ZERO) {
                lane.add(other.first + at as u64, cell);
            }
        }
    }

    /// Forgets the buckets that end before a moment.
    pub fn forget(&mut self, before: u64) {
        let from = before / self.width;
        self.last = (0, 0, 0);
        self.range = self.range.map(|(first, last)| (first.max(from), last.max(from)));
        for lane in &mut self.lanes {
            let gone = from.saturating_sub(lane.first).min(lane.cells.len() as u64);
            lane.cells.drain(..gone as usize);
            lane.first += gone;
        }
    }

    /// The same with other numbers for lanes.
    pub fn renumbered(mut self, number: impl Fn(u32) -> u32) -> VcpuTimeline {
        for (at, lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            let to = number(at as u32) as usize;
            if to >= self.lanes.len() {
                self.lanes.resize_with(to + 1, Lane::default);
            }
            for (bucket, cell) in lane.cells.iter().enumerate().filter(|(_, cell)| **cell != AllParts::ZERO) {
                self.lanes[to].add(lane.first + bucket as u64, cell);
            }
        }
        self
    }

    /// The width of a bucket in nanoseconds, and a row for every lane and bucket in which something was, under the lanes'
    /// new numbers, in order, with the parts as they are shown.
    pub fn finish(mut self, in_time: bool, lane: impl Fn(u32) -> u32) -> (u64, Vec<BucketRow<ALL_PARTS>>) {
        self.narrow_enough();
        let mut rows = Vec::new();
        for (at, cells) in self.lanes.iter().enumerate() {
            for (bucket, parts) in cells.cells.iter().enumerate().filter(|(_, cell)| **cell != AllParts::ZERO) {
                let bucket = if in_time { cells.first + bucket as u64 } else { 0 };
                rows.push(BucketRow {
                    bucket,
                    key: lane(at as u32).into(),
                    sums: TimePart::ALL.map(|part| parts.get(part).0),
                });
            }
        }
        (self.width, compact(rows))
    }
}

impl Lane {
    /// Makes so many buckets one, where they are: other memory would have to be filled with zeros first.
    fn widen(&mut self, factor: u64) {
        let Some(last) = self.cells.len().checked_sub(1) else { return };
        let first = self.first / factor;
        let moved = |at: usize| ((self.first + at as u64) / factor - first) as usize;
        for at in 0..=last {
            let narrow = std::mem::take(&mut self.cells[at]);
            self.cells[moved(at)].merge(&narrow);
        }
        self.cells.truncate(moved(last) + 1);
        self.first = first;
    }

    fn add(&mut self, bucket: u64, times: &AllParts) {
        if self.cells.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = (self.first - bucket) as usize;
            self.cells.splice(0..0, std::iter::repeat_n(AllParts::ZERO, missing));
            self.first = bucket;
        }
        let at = (bucket - self.first) as usize;
        if at >= self.cells.len() {
            self.cells.resize(at + 1, AllParts::ZERO);
        }
        self.cells[at].merge(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Stretch = (u16, u64, u64);

    /// Where it stands among the parts that are shown.
    const HALTED: usize = 4;

    fn halted(nanos: u64) -> AllParts {
        AllParts::ZERO.with(TimePart::Halted, Nanos(nanos))
    }

    fn of(most: u64, stretches: &[Stretch]) -> VcpuTimeline {
        let mut states = VcpuTimeline::of_at_most(most);
        for &(lane, from, long) in stretches {
            let times =
                AllParts::ZERO.with(TimePart::Kernel, Nanos(long / 3)).with(TimePart::Halted, Nanos(long - long / 3));
            states.spread(lane, from, from + long, &times);
        }
        states
    }

    #[test]
    fn a_stretch_is_shared_out_over_the_buckets_it_lies_in() {
        let mut states = VcpuTimeline::of_at_most(100);
        states.spread(0, 1_500, 3_500, &halted(2_000));
        let (width, rows) = states.finish(true, |lane| lane);
        let sums: Vec<_> = rows.iter().map(|row| (row.bucket, row.sums[HALTED])).collect();
        assert_eq!((width, sums), (1_000, vec![(1, 500), (2, 1_000), (3, 500)]));
    }

    #[test]
    fn what_is_forgotten_is_gone_to_the_bucket() {
        let mut states = of(100, &[(0, 0, 3_000), (0, 4_000, 3_000), (1, 0, 1_000)]);
        states.forget(5_500);
        states.spread(1, 7_000, 8_000, &halted(7));
        let (width, rows) = states.finish(true, |lane| lane);
        let found: Vec<_> = rows.iter().map(|row| (row.bucket, row.key, row.sums[HALTED])).collect();
        assert_eq!((width, found), (1_000, vec![(5, 0, 667), (6, 0, 667), (7, 1, 7)]));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_pieces_do_not_matter(
            stretches in proptest::collection::vec((0u16..3, 0u64..1 << 30, 1u64..1 << 22), 1..60), cut in 0usize..60,
        ) {
            // The number of lanes decides the width, so all are there from the beginning.
            let stretches: Vec<Stretch> = [(0, 5, 1), (1, 5, 1), (2, 5, 1)].into_iter().chain(stretches).collect();
            let whole = of(300, &stretches).finish(true, |lane| lane);
            let (left, right) = stretches.split_at(cut.min(stretches.len()));
            let mut merged = of(300, right);
            merged.merge(of(300, left));
            prop_assert_eq!(&merged.finish(true, |lane| lane), &whole);
            let sum: u64 = whole.1.iter().flat_map(|row| row.sums).sum();
            prop_assert_eq!(sum, stretches.iter().map(|stretch| stretch.2).sum::<u64>());
        }
    }
}
