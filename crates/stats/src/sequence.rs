//! The mean of differences that come one by one, and an interval for it that may be looked at after each.
//!
//! ```text
//! d₁, d₂, … ─► ConfidenceSequence ─► e-value against any mean ─► interval: all means whose e-value is below 1/α
//! ```
//!
//! A test that is repeated after each value until it is significant is wrong far more often than it says. This one is not:
//! the chance that the interval *ever* leaves out the true mean is at most α, however often one looks and whatever makes one
//! stop.
//!
//! *The e-value.* Let the differences less a mean μ have the sum S, and their squares the sum V. If they are normal with the
//! mean μ, S²/V has the same distribution whatever their spread is. The e-value is its likelihood ratio for a true mean that
//! is off μ by a normally distributed number of standard deviations (expectation 0, variance g) against none. Both have the
//! spread σ integrated out with the weight dσ/σ (the right Haar measure of changes of scale):
//!
//! ```text
//! σ⁻ⁿ (1+ng)^-½ exp(-(V - gS²/(1+ng)) / 2σ²)   integrates to   (1+ng)^-½ (V - gS²/(1+ng))^-(n/2) · const
//! σ⁻ⁿ           exp(- V               / 2σ²)   integrates to             V               ^-(n/2) · const
//!
//! e = (1+ng)^-½ · (1 - g/(1+ng) · S²/V)^-(n/2)
//! ```
//!
//! In Student's t this is `(1+ng)^-½ · ((1 + t²/(n-1)) / (1 + t²/((n-1)(1+ng))))^(n/2)`. Under the hypothesis it is a
//! martingale that begins at 1, and by Ville's inequality it ever reaches 1/α with a chance of at most α. Solving e = 1/α
//! for μ gives the interval in closed form.
//!
//! Sources: T. L. Lai, "On confidence sequences", Annals of Statistics 4 (1976), who has a flat weight in place of the
//! normal one; H. Wang and A. Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
//! variance", arXiv:2310.03722, section 4, with 1/g called c²; M. F. Pérez-Ortiz, T. Lardy, R. de Heide and P. Grünwald,
//! "E-statistics, group invariance and anytime-valid testing", Annals of Statistics 52 (2024), arXiv:2208.07610; J. Ville,
//! "Étude critique de la notion de collectif" (1939).
//!
//! *Where it is exact.* For normal differences. Where each difference is as likely to be off its mean by +x as by -x, heavier
//! tails make the test more careful: one large difference enlarges V as much as S². The opposite is the worst case:
//! differences of equal size, of which the sign alone is random. Few of them have the same sign by chance, so nothing is said
//! before [`fewest`](ConfidenceSequence::fewest) are there. From then on, such signs are ever taken for a mean with a chance of
//! 0.98 α for α of 5 %, and of 1.08, 1.13 and 1.23 α for a half, a third and a quarter of that (a test counts all paths). Differences that
//! are 0 or of that one size, as of a metric in coarse steps, in the worst order of zeros: with 1.3 α for α of 5 %.

/// The normal weight's variance g, in squared standard deviations of the differences. Intervals of 10 to 100 differences are
/// at most 8 % longer than the shortest that any g gives.
const SPREAD_OF_EFFECTS: f64 = 1.0;

/// Differences beyond those by which a run of equal signs is less likely than α.
const BEYOND_RUNS: u64 = 3;

/// Differences ahead that are looked at when one asks how many are needed.
const FARTHEST: u64 = 1 << 40;

/// Differences so far, as their number, mean and spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceSequence {
    alpha: f64,
    count: u64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl ConfidenceSequence {
    /// Of nothing yet. `alpha` is the chance, above 0 and below 1, that any of the intervals leaves out the mean.
    pub fn new(alpha: f64) -> ConfidenceSequence {
        assert!(alpha > 0.0 && alpha < 1.0, "a chance of {alpha}");
        ConfidenceSequence { alpha, count: 0, mean: 0.0, squares: 0.0 }
    }

    /// Takes the next difference, a finite number, in whatever unit all of them have (B. P. Welford, Technometrics 4, 1962).
    pub fn push(&mut self, difference: f64) {
        assert!(difference.is_finite(), "a difference of {difference}");
        self.count += 1;
        let before = difference - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (difference - self.mean);
    }

    /// Differences so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, in their unit; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The chance that any of the intervals leaves out the mean.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// How much the differences speak against `mean` being their true mean: 1 says nothing, 1/α and above excludes it.
    pub fn e_value(&self, mean: f64) -> f64 {
        let n = self.count as f64;
        let off = n * (self.mean - mean).powi(2);
        let around = self.squares + off;
        if around <= 0.0 {
            return 1.0;
        }
        let widened = 1.0 + n * SPREAD_OF_EFFECTS;
        (-0.5 * widened.ln() - 0.5 * n * (-n * SPREAD_OF_EFFECTS / widened * off / around).ln_1p()).exp()
    }

    /// All means that are not excluded, in the differences' unit; `None` while the differences are too few to exclude any.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let half = self.half_width()?;
        Some((self.mean - half, self.mean + half))
    }

    /// Half of the interval's length: the smallest mean that would have been told from 0, in the differences' unit.
    pub fn half_width(&self) -> Option<f64> {
        self.half_width_of(self.count)
    }

    /// Whether the mean is certainly not 0.
    pub fn excludes_zero(&self) -> bool {
        self.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Whether the mean is certainly above `low` and below `high`.
    pub fn is_between(&self, low: f64, high: f64) -> bool {
        self.interval().is_some_and(|(from, to)| low < from && to < high)
    }

    /// How many more differences make half of the interval's length at most `half`, if they spread as those before; `None` of
    /// fewer than two, or if no number of them is enough.
    pub fn more_until(&self, half: f64) -> Option<u64> {
        let is_enough = |count| self.half_width_of(count).is_some_and(|found| found <= half);
        let mut enough = self.count.max(2);
        while !is_enough(enough) {
            enough = enough.checked_mul(2).filter(|&count| count <= FARTHEST)?;
        }
        let mut too_few = self.count.saturating_sub(1);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match is_enough(middle) {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        Some(enough - self.count)
    }

    /// The fewest differences that an interval is made of.
    pub fn fewest(alpha: f64) -> u64 {
        BEYOND_RUNS + (1.0 / alpha).log2().ceil() as u64
    }

    /// Half of the length that an interval of `count` differences has, if these spread as those that are there.
    fn half_width_of(&self, count: u64) -> Option<f64> {
        if count < ConfidenceSequence::fewest(self.alpha) || self.count < 2 {
            return None;
        }
        let n = count as f64;
        let widened = 1.0 + n * SPREAD_OF_EFFECTS;
        // e reaches 1/α where (1+u) / (1+u/widened) is this, with u the n-fold squared distance over the sum of squares.
        let ratio = ((widened.ln() - 2.0 * self.alpha.ln()) / n).exp();
        let variance = self.squares / (self.count - 1) as f64;
        (ratio < widened).then(|| ((ratio - 1.0) / (1.0 - ratio / widened) * variance * (n - 1.0) / n).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeMap;

    fn of(alpha: f64, values: impl IntoIterator<Item = f64>) -> ConfidenceSequence {
        let mut sequence = ConfidenceSequence::new(alpha);
        values.into_iter().for_each(|value| sequence.push(value));
        sequence
    }

    /// `count` differences whose sum is `sum` and whose squares' sum is `squares`.
    fn of_sums(alpha: f64, count: u64, sum: f64, squares: f64) -> ConfidenceSequence {
        let mean = sum / count as f64;
        ConfidenceSequence { alpha, count, mean, squares: (squares - sum * mean).max(0.0) }
    }

    /// Twelve uniform numbers, near enough to a normal one (G. E. P. Box and M. E. Muller's would need a logarithm more).
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn an_e_value_is_the_ratio_of_the_two_integrals_that_define_it() {
        // By sums over a grid: of effects from -8 to 8 standard deviations, and of the spread's logarithm from -7 to 7.
        let values: [f64; 4] = [0.3, 1.1, -0.4, 0.9];
        let weight = |effect: f64| (-effect * effect / 2.0 / SPREAD_OF_EFFECTS).exp();
        let likelihood = |effect: f64| {
            let of_spread = |step: i32| {
                let spread = (f64::from(step) / 100.0).exp();
                let far = values.map(|value| (value / spread - effect).powi(2)).iter().sum::<f64>();
                spread.powi(-4) * (-far / 2.0).exp()
            };
            (-700..700).map(of_spread).sum::<f64>()
        };
        let effects = || (-800..=800).map(|step| f64::from(step) / 100.0);
        let mixed = effects().map(|effect| weight(effect) * likelihood(effect)).sum::<f64>();
        let ratio = mixed / effects().map(weight).sum::<f64>() / likelihood(0.0);
        let e = of(0.05, values).e_value(0.0);
        assert!((e / ratio - 1.0).abs() < 1e-6, "{e} {ratio}");
    }

    #[test]
    fn an_e_value_is_that_of_students_t() {
        let values = [0.3, 1.1, -0.4, 0.9, 0.2];
        let (n, mean) = (5.0, values.iter().sum::<f64>() / 5.0);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t2 = n * mean * mean / variance;
        let widened = 1.0 + n * SPREAD_OF_EFFECTS;
        let ratio = (1.0 + t2 / (n - 1.0)) / (1.0 + t2 / (n - 1.0) / widened);
        let e = ratio.powf(n / 2.0) / widened.sqrt();
        assert!((of(0.05, values).e_value(0.0) / e - 1.0).abs() < 1e-12);
        assert!((of(0.05, [0.7]).e_value(0.0) - 1.0).abs() < 1e-12, "one difference has no spread");
        assert_eq!(of(0.05, []).e_value(0.0), 1.0);
    }

    #[test]
    fn an_e_value_is_1_on_average_where_the_mean_is_true() {
        // S²/V is n times the squared cosine of the angle between n normal numbers and the diagonal, whose density is that of
        // a latitude: sin^(n-2).
        for n in [2u64, 3, 5, 8, 13, 40, 200] {
            let angles = || (0..20_000).map(|step| (f64::from(step) + 0.5) / 20_000.0 * std::f64::consts::PI);
            let density = |angle: f64| angle.sin().powi(n as i32 - 2);
            let e = |angle: f64| of_sums(0.05, n, angle.cos() * (n as f64).sqrt(), 1.0).e_value(0.0);
            let mean =
                angles().map(|angle| density(angle) * e(angle)).sum::<f64>() / angles().map(density).sum::<f64>();
            assert!((mean - 1.0).abs() < 1e-6, "{n}: {mean}");
        }
    }

    #[test]
    fn an_interval_ends_where_the_e_value_is_1_over_alpha() {
        for alpha in [0.05, 0.01] {
            let sequence = of(alpha, (0..30).map(|step| f64::from(step * step % 7) - 1.0));
            let (low, high) = sequence.interval().unwrap();
            for end in [low, high] {
                assert!((sequence.e_value(end) * alpha - 1.0).abs() < 1e-9);
            }
            assert!(sequence.e_value(low + 1e-6) * alpha < 1.0 && sequence.e_value(low - 1e-6) * alpha > 1.0);
            assert_eq!(sequence.excludes_zero(), sequence.e_value(0.0) * alpha >= 1.0);
            assert!(sequence.is_between(low - 0.1, high + 0.1) && !sequence.is_between(low + 0.1, high + 0.1));
            assert_eq!(sequence.half_width(), sequence.interval().map(|(low, high)| (high - low) / 2.0));
        }
    }

    #[test]
    fn few_differences_say_nothing_and_equal_ones_all() {
        let fewest = ConfidenceSequence::fewest(0.05);
        assert_eq!((fewest, ConfidenceSequence::fewest(0.025), ConfidenceSequence::fewest(0.0125)), (8, 9, 10));
        assert_eq!(of(0.05, std::iter::repeat_n(0.5, fewest as usize - 1)).interval(), None);
        assert_eq!(of(0.05, std::iter::repeat_n(0.5, fewest as usize)).interval(), Some((0.5, 0.5)));
        assert!(of(0.05, std::iter::repeat_n(0.0, fewest as usize)).is_between(-1e-9, 1e-9));
        assert_eq!(
            (of(0.05, []).mean(), of(0.05, []).more_until(1.0), of(0.05, [1.0]).more_until(1.0)),
            (None, None, None)
        );
    }

    #[test]
    fn as_many_more_differences_as_were_said_are_enough_and_one_fewer_is_not() {
        let sequence = of(0.05, (0..20).map(|step| f64::from(step % 2)));
        let variance = sequence.squares / 19.0;
        let spread_alike = |count: u64| of_sums(0.05, count, 0.0, variance * (count - 1) as f64).half_width().unwrap();
        for half in [0.3, 0.1, 0.02] {
            let enough = 20 + sequence.more_until(half).unwrap();
            assert!(spread_alike(enough) <= half && spread_alike(enough - 1) > half, "{half}: {enough}");
        }
        assert_eq!(sequence.more_until(10.0), Some(0));
        assert_eq!(sequence.more_until(0.0), None);
        assert_eq!(of(0.05, [0.0, 1.0]).more_until(100.0), Some(ConfidenceSequence::fewest(0.05) - 2));
    }

    /// The chance that differences of one size, whose signs alone are random, ever exclude 0 within 300: over all paths.
    fn chance_by_signs_alone(alpha: f64) -> f64 {
        let (mut paths, mut excluded) = (BTreeMap::from([(0i32, 1.0)]), 0.0);
        for count in 1..=300u64 {
            let mut next: BTreeMap<i32, f64> = BTreeMap::new();
            for (sum, chance) in paths {
                for sum in [sum - 1, sum + 1] {
                    *next.entry(sum).or_default() += chance / 2.0;
                }
            }
            let excludes = |sum: i32| of_sums(alpha, count, f64::from(sum), count as f64).excludes_zero();
            excluded += next.iter().filter(|(sum, _)| excludes(**sum)).map(|(_, chance)| chance).sum::<f64>();
            next.retain(|&sum, _| !excludes(sum));
            paths = next;
        }
        excluded
    }

    #[test]
    fn signs_alone_are_taken_for_a_mean_as_seldom_as_is_said() {
        for (alpha, at_most) in [(0.05, 1.0), (0.025, 1.1), (0.05 / 3.0, 1.15), (0.0125, 1.24)] {
            let times = chance_by_signs_alone(alpha) / alpha;
            assert!((0.5..=at_most).contains(&times), "{alpha}: {times}");
        }
    }

    /// The same for differences that are 0 or of equal size, where whoever knows all signs so far says which are 0.
    fn chance_with_zeros(alpha: f64, most: usize) -> f64 {
        let fewest = ConfidenceSequence::fewest(alpha) as usize;
        // By the number of differences that are not 0, and their sum from -most on: the chance that 0 is ever excluded.
        let width = 2 * most + 3;
        let mut later: Vec<f64> = Vec::new();
        for count in (0..=most).rev() {
            let mut now = vec![0.0; (count + 1) * width];
            for signs in 0..=count {
                for sum in (-(signs as i64)..=signs as i64).step_by(2) {
                    let at = (sum + most as i64 + 1) as usize;
                    let excludes =
                        count >= fewest && of_sums(alpha, count as u64, sum as f64, signs as f64).excludes_zero();
                    let chance = |signs: usize, at: usize| later.get(signs * width + at).copied().unwrap_or(0.0);
                    now[signs * width + at] = match excludes {
                        true => 1.0,
                        false => chance(signs, at).max((chance(signs + 1, at - 1) + chance(signs + 1, at + 1)) / 2.0),
                    };
                }
            }
            later = now;
        }
        later[most + 1]
    }

    #[test]
    fn zeros_make_signs_alone_a_little_worse() {
        let times = chance_with_zeros(0.05, 120) / 0.05;
        assert!((1.2..=1.3).contains(&times), "{times}");
    }

    #[test]
    fn looking_after_each_of_many_differences_gives_no_more_false_alarms_than_alpha() {
        let mut random = Pcg64Mcg::seed_from_u64(33);
        let series = 1_000;
        let is_false_alarm = |_: &u32| {
            let mut sequence = ConfidenceSequence::new(0.05);
            (0..300).any(|_| {
                sequence.push(normal(&mut random));
                sequence.excludes_zero()
            })
        };
        let alarms = (0..series).filter(is_false_alarm).count();
        // A chance of 5 % gives more than 67 in less than one of a hundred cases.
        assert!((10..=67).contains(&alarms), "{alarms} of {series}");
    }
}
