//! Random numbers for both engines: the same code, so that the comparison is about the engines.

use rand::{Rng, RngCore};
use rand_distr::Exp1;
use rand_pcg::Pcg64Mcg;

/// Exponential, in nanoseconds, at least 1: nexosim plans nothing for now.
pub fn exponential(rng: &mut Pcg64Mcg, mean: f64) -> u64 {
    ((mean * rng.sample::<f64, _>(Exp1)) as u64).max(1)
}

/// A number below `bound`.
pub fn below(rng: &mut Pcg64Mcg, bound: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32
}
