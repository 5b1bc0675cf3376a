//! What change a trial could find, told before it begins: by the statistics that decide it, on turns that are made up.
//!
//! ```text
//! normal differences of the plan's blocks ─► ConfidenceSequence ─► the smallest change that would have been certain at some block
//!                                   the one that was enough in 80 of 100 such trials ─► CouldFind
//! ```
//!
//! A block compares two turns of each setting. If turns spread by s of their mean, independently, the difference of their means
//! spreads by s too: s/√2 for each of the two. The interval's length does not depend on the change, so one series of differences
//! tells of every change whether it would have been found.

use crate::{RelativeChange, TrialPlan};
use exitscope_stats::ConfidenceSequence;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::f64::consts::PI;
use std::fmt;

/// Trials that are made up.
const TRIALS: usize = 200;

/// In how many of 100 of them a change is found that is told.
const POWER: usize = 80;

/// What turns of one setting are taken to differ by, in per cent of their mean: quiet, usual and noisy metrics.
const SPREADS: [f64; 3] = [1.0, 5.0, 20.0];

/// The seed of what is made up.
const SEED: u64 = 52;

/// The smallest change that a trial would find, if the turns of one setting differ by so much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CouldFind {
    /// The standard deviation of turns of one setting, in per cent of their mean.
    pub turns_differ: f64,
    /// The change, up or down, in per cent of the value in force.
    pub change: f64,
}

/// What a plan could find, as it is printed with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CouldFindList(pub Vec<CouldFind>);

impl TrialPlan {
    /// What it could find of each setting, where changes of less than `matters` per cent do not matter.
    pub(crate) fn could_find(&self, matters: f64) -> CouldFindList {
        let spreads = spreads_to_find(self.alpha_of_each(), self.blocks.len());
        let found = |turns_differ: f64| CouldFind {
            turns_differ,
            change: RelativeChange::percent_of(spreads * turns_differ / 100.0).max(matters),
        };
        CouldFindList(SPREADS.map(found).to_vec())
    }
}

/// The smallest mean of so many normal differences that is told from 0 in 80 of 100 series, in their standard deviations.
fn spreads_to_find(alpha: f64, blocks: usize) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut enough: Vec<f64> = (0..TRIALS).map(|_| enough_in(alpha, blocks, &mut random)).collect();
    enough.sort_by(f64::total_cmp);
    enough[TRIALS * POWER / 100 - 1]
}

/// The smallest mean above 0 that would have been certain at some block of a series.
fn enough_in(alpha: f64, blocks: usize, random: &mut Pcg64Mcg) -> f64 {
    let mut differences = ConfidenceSequence::new(alpha);
    (0..blocks).fold(f64::INFINITY, |least, _| {
        differences.push(normal(random));
        let bound = differences.interval().map_or(f64::INFINITY, |(low, _)| -low);
        least.min(bound)
    })
}

/// A normal number (G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", 1958).
fn normal(random: &mut Pcg64Mcg) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (2.0 * PI * angle).cos()
}

impl fmt::Display for CouldFindList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "could find, in {POWER} of 100 trials, if turns of one value differ by")?;
        for (at, CouldFind { turns_differ, change }) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { " " } else { "; by " })?;
            match change.is_finite() {
                true => write!(f, "{turns_differ}%: changes from {change:.1}% on")?,
                false => write!(f, "{turns_differ}%: no change")?,
            }
        }
        writeln!(f, " (standard deviation, each turn by itself)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrialLengths;
    use exitscope_units::Nanos;

    fn plan(settings: usize, blocks: u64) -> TrialPlan {
        let settings: Vec<String> = (0..settings).map(|at| at.to_string()).collect();
        let total = Nanos(blocks * 2 * settings.len() as u64 * 1_000);
        let lengths = TrialLengths { settle: Nanos(250), turn: Nanos(750), total };
        TrialPlan::new(settings, lengths, 0.05, 3).unwrap()
    }

    fn changes(settings: usize, blocks: u64, matters: f64) -> Vec<f64> {
        plan(settings, blocks).could_find(matters).0.iter().map(|of| of.change).collect()
    }

    #[test]
    fn more_blocks_find_less_more_settings_more_and_nothing_is_found_that_does_not_matter() {
        let usual = changes(2, 27, 0.0);
        assert!(usual.windows(2).all(|two| two[0] < two[1]), "{usual:?}");
        for (more, fewer) in [(changes(2, 27, 0.0), changes(2, 100, 0.0)), (changes(5, 27, 0.0), usual.clone())] {
            assert!(more.iter().zip(&fewer).all(|(more, fewer)| more > fewer), "{more:?} {fewer:?}");
        }
        assert_eq!(changes(2, 27, 2.0), [2.0, usual[1], usual[2]]);
        assert_eq!(CouldFindList::default().to_string(), "");
    }
}
