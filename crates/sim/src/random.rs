//! Random numbers: those of each strand are its own.

use exitscope_scenario::TimeDistribution;
use rand::Rng;
use rand_distr::{Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// The random numbers of one strand: its own, so that nothing that others do changes them.
pub(crate) fn stream(seed: u64, number: u64) -> Pcg64Mcg {
    let mix = |mut value: u64| {
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    let high = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    let low = mix(high ^ number.wrapping_add(0x632b_e59b_d9b4_e019));
    Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low))
}

/// A random length.
pub(crate) fn sample(rng: &mut Pcg64Mcg, span: TimeDistribution) -> u64 {
    match span {
        TimeDistribution::Fixed(time) => time.0,
        TimeDistribution::Uniform(low, high) => rng.random_range(low.0.min(high.0)..=high.0.max(low.0)),
        TimeDistribution::Exponential(mean) => (mean.0 as f64 * rng.sample::<f64, _>(Exp1)) as u64,
        TimeDistribution::Normal(mean, deviation) => {
            (mean.0 as f64 + deviation.0 as f64 * rng.sample::<f64, _>(StandardNormal)).max(0.0) as u64
        }
    }
}
