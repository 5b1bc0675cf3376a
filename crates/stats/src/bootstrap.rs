//! Resamples of blocks, and the interval of what they give.
//!
//! A resample draws as many groups of blocks as there are, with replacement, and of each as many blocks as it has: values
//! within a block may depend on each other, and blocks of one group may be more alike than those of two.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Draws resamples, by a generator that is seeded by a constant: the same data give the same answer.
#[derive(Clone, Debug)]
pub struct Bootstrap(Pcg64Mcg);

/// Bounds of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Lower bound.
    pub low: i64,
    /// Upper bound.
    pub high: i64,
}

/// Resamples that are drawn.
const RESAMPLES: usize = 2_000;

/// Blocks that an interval needs.
const FEWEST_BLOCKS: usize = 8;

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        Bootstrap(Pcg64Mcg::seed_from_u64(0x0065_7869_7473))
    }
}

impl Bootstrap {
    /// How often each block is drawn, for every resample. `groups` tile the blocks; no resamples of too few blocks.
    pub fn draw(&mut self, groups: &[Range<usize>]) -> Vec<Vec<u32>> {
        let blocks = groups.last().map_or(0, |last| last.end);
        if blocks < FEWEST_BLOCKS {
            return Vec::new();
        }
        let mut below = |n: usize| self.0.random_range(0..n as u32) as usize;
        let mut resample = |_| {
            let mut times = vec![0; blocks];
            for _ in groups {
                let group = &groups[below(groups.len())];
                group.clone().for_each(|_| times[group.start + below(group.len())] += 1);
            }
            times
        };
        (0..RESAMPLES).map(&mut resample).collect()
    }
}

impl Interval {
    /// The middle `per_10_000` of what resamples gave; `None` if more than a tenth of them gave nothing.
    pub fn of(mut given: Vec<i64>, per_10_000: u64) -> Option<Interval> {
        if given.len() * 10 < RESAMPLES * 9 {
            return None;
        }
        given.sort_unstable();
        let tail = (given.len() as u64 * (10_000 - per_10_000.min(10_000)) / 20_000) as usize;
        Some(Interval { low: given[tail], high: given[given.len() - 1 - tail] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resample_has_as_many_blocks_as_its_groups() {
        let draws = Bootstrap::default().draw(&[0..4, 4..8, 8..12]);
        assert_eq!(draws.len(), RESAMPLES);
        assert!(draws.iter().all(|times| times.len() == 12 && times.iter().sum::<u32>() == 12));
        assert!(draws.iter().all(|times| [0..4, 4..8, 8..12].map(|of| times[of].iter().sum::<u32>() % 4) == [0; 3]));
        assert!(Bootstrap::default().draw(&[0..4, 4..7]).is_empty(), "too few");
        assert!(Bootstrap::default().draw(&[]).is_empty());
    }

    #[test]
    fn the_same_data_give_the_same_resamples() {
        assert_eq!(Bootstrap::default().draw(&[0..9, 9..20]), Bootstrap::default().draw(&[0..9, 9..20]));
    }

    #[test]
    fn an_interval_leaves_out_the_same_share_at_both_ends() {
        let given: Vec<i64> = (0..2_000).rev().collect();
        assert_eq!(Interval::of(given.clone(), 9_500), Some(Interval { low: 50, high: 1_949 }));
        assert_eq!(Interval::of(given.clone(), 10_000), Some(Interval { low: 0, high: 1_999 }));
        assert_eq!(Interval::of(given[..1_799].to_vec(), 9_500), None);
    }
}
