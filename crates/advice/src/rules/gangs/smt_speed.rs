//! How fast threads of a POWER8 core are beside each other, as the cost model of that machine assumes it.

use exitscope_scenario::models;

/// The cost model.
pub(super) const MODEL: &str = "power8-kvm";

/// The speed of each of so many busy threads of a core, of that of one alone.
pub(super) fn of_each(threads: usize) -> Option<f64> {
    let model = models().ok()?.into_iter().find(|model| model.name == MODEL)?;
    let speeds = model.smt_speed.thousandths;
    let of_each = speeds.get(threads.clamp(1, speeds.len().max(1)) - 1)?;
    Some(f64::from(*of_each) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_slower_beside_others_and_the_core_does_more() {
        let speeds: Vec<f64> = (1..=8).map(|threads| of_each(threads).unwrap()).collect();
        assert_eq!(speeds[0], 1.0);
        for (at, pair) in speeds[..4].windows(2).enumerate() {
            assert!(pair[1] < pair[0] && pair[1] * (at + 2) as f64 > pair[0] * (at + 1) as f64, "{speeds:?}");
        }
        assert!(speeds[4..].iter().all(|speed| *speed == speeds[3]), "{speeds:?}");
    }
}
