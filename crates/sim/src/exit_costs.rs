//! How much more or less than the median each exit takes, where the cost model says how exits are spread.

use crate::random::stream;
use exitscope_scenario::ExitSpread;
use rand::Rng;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

/// Of a normal distribution, how many standard deviations the 95th percentile lies above the middle.
const AT_P95: f64 = 1.644_853_626_951_472_7;

/// Added to a strand's number for the random numbers of its exits.
const STREAMS: u64 = 1 << 33;

/// Draws one factor an exit: a normal one of the logarithm, as wide below the median as `p5` says, and above it as `p95` says.
#[derive(Debug)]
pub(crate) struct ExitCosts {
    below: f64,
    above: f64,
    seed: u64,
    strands: Vec<StrandExits>,
}

#[derive(Debug)]
struct StrandExits {
    rng: Pcg64Mcg,
    /// The factor of its last exit.
    factor: f64,
}

impl ExitCosts {
    pub(crate) fn new(spread: &ExitSpread, seed: u64) -> ExitCosts {
        let deviation = |thousandths: u32| (f64::from(thousandths) / 1e3).ln().abs() / AT_P95;
        ExitCosts { below: deviation(spread.p5), above: deviation(spread.p95), seed, strands: Vec::new() }
    }

    /// Of a strand that exits.
    pub(crate) fn draw(&mut self, strand: u32) -> f64 {
        let first = self.strands.len() as u64;
        let new = |number| StrandExits { rng: stream(self.seed, STREAMS + number), factor: 1.0 };
        self.strands.extend((first..=u64::from(strand)).map(new));
        let of = &mut self.strands[strand as usize];
        let normal: f64 = of.rng.sample(StandardNormal);
        of.factor = (normal * if normal < 0.0 { self.below } else { self.above }).exp();
        of.factor
    }

    /// Of the strand's last exit.
    pub(crate) fn last(&self, strand: u32) -> f64 {
        self.strands.get(strand as usize).map_or(1.0, |of| of.factor)
    }
}

/// So much of a time.
pub(crate) fn part(time: u64, factor: f64) -> u64 {
    (time as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_scenario::CostOrigin;

    #[test]
    fn factors_have_the_percentiles_of_their_spread_and_a_strand_has_its_own() {
        let spread = ExitSpread { p5: 800, p95: 2_500, origin: CostOrigin::Assumed, source: String::new() };
        let mut costs = ExitCosts::new(&spread, 1);
        assert_eq!(costs.last(7), 1.0);
        let mut drawn: Vec<f64> = (0..40_000).map(|_| costs.draw(3)).collect();
        assert_eq!(costs.last(3), drawn[39_999]);
        let alone: Vec<f64> = {
            let mut costs = ExitCosts::new(&spread, 1);
            (0..100).map(|at| (costs.draw(at % 3), costs.draw(3)).1).collect()
        };
        assert_eq!(alone, drawn[..100], "what other strands draw changes nothing");
        drawn.sort_by(f64::total_cmp);
        for (at, wanted) in [(2_000, 0.8), (20_000, 1.0), (38_000, 2.5)] {
            assert!((drawn[at] / wanted - 1.0).abs() < 0.03, "{at}: {}", drawn[at]);
        }
        let mut constant = ExitCosts::new(&ExitSpread { p5: 1_000, p95: 1_000, ..spread }, 1);
        assert_eq!([0; 9].map(|strand| constant.draw(strand)), [1.0; 9]);
    }
}
