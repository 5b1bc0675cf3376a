//! Names of exit reasons that no list has, from traces that are text. A code is a number, so the names are kept here, for as
//! long as the program runs: one name is one number in whatever trace it stands.

use std::sync::{PoisonError, RwLock};

/// Names at most; reasons beyond share a code.
const MOST: usize = 4096;

/// Characters of a name that are kept.
const LONGEST: usize = 64;

/// By number.
static NAMES: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// The number of a name, which gets one if it has none.
pub(super) fn number(name: &str) -> u64 {
    let name: String = name.chars().take(LONGEST).collect();
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let known = names.iter().position(|known| *known == name);
    let number = known.unwrap_or_else(|| {
        if names.len() < MOST {
            names.push(name);
            names.len() - 1
        } else {
            MOST
        }
    });
    number as u64
}

/// The name of a number.
pub(super) fn name(number: u64) -> String {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    let known = usize::try_from(number).ok().and_then(|number| names.get(number).cloned());
    known.unwrap_or_else(|| format!("(reasons beyond {MOST} unknown ones)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_names_beyond_the_bound_share_one_that_says_so() {
        let numbers: Vec<u64> = (0..MOST + 10).map(|of| number(&format!("UNLISTED_{of}"))).collect();
        assert_eq!(name(numbers[5]), "UNLISTED_5");
        assert_eq!(number("UNLISTED_5"), numbers[5]);
        let last = numbers[MOST + 9];
        assert_eq!((last, numbers[MOST + 8]), (MOST as u64, last));
        assert!(name(last).contains("beyond 4096"), "{}", name(last));
    }
}
