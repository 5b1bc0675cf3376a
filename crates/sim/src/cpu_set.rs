//! A set of CPUs.

/// Numbers below a bound, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    pub(crate) fn none(count: u32) -> CpuSet {
        CpuSet { words: vec![0; count.div_ceil(64) as usize] }
    }

    pub(crate) fn all(count: u32) -> CpuSet {
        let mut bits = CpuSet::none(count);
        (0..count).for_each(|number| bits.set(number, true));
        bits
    }

    /// Numbers beyond the bound are let be.
    pub(crate) fn set(&mut self, number: u32, member: bool) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            let bit = 1 << (number % 64);
            if member { *word |= bit } else { *word &= !bit }
        }
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The members that are also in `other` (if there is one), from `from` on and then round from the beginning.
    pub(crate) fn round<'a>(&'a self, other: Option<&'a CpuSet>, from: u32) -> impl Iterator<Item = u32> + 'a {
        let (start, count) = (from as usize / 64, self.words.len());
        (0..=count).flat_map(move |step| {
            let at = (start + step) % count;
            let mut word = self.words[at] & other.map_or(u64::MAX, |other| other.words[at]);
            let below = (1u64 << (from % 64)) - 1;
            if step == 0 {
                word &= !below;
            }
            if step == count {
                word &= below;
            }
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let bit = word.trailing_zeros();
                    word &= word - 1;
                    at as u32 * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_every_member_once_from_where_it_begins() {
        let mut bits = CpuSet::none(200);
        [3, 64, 65, 130, 199].into_iter().for_each(|number| bits.set(number, true));
        let round = |from| bits.round(None, from).collect::<Vec<_>>();
        assert_eq!(round(0), [3, 64, 65, 130, 199]);
        assert_eq!(round(65), [65, 130, 199, 3, 64]);
        assert_eq!(round(199), [199, 3, 64, 65, 130]);
        let mut other = CpuSet::none(200);
        [64, 199].into_iter().for_each(|number| other.set(number, true));
        assert_eq!(bits.round(Some(&other), 65).collect::<Vec<_>>(), [199, 64]);
    }
}
