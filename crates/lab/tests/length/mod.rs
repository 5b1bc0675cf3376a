//! How long guests run for whose programs have no end.

use std::time::Duration;

/// When something is amiss, rather than that others have the CPUs.
const LIMIT: Duration = Duration::from_secs(8);

/// What guests do who are told how long to run for: again and for twice as long, as long as it was too short for them to do anything.
/// Others may have the CPUs of a busy machine for all of a short turn.
pub fn long_enough<T>(shortest: Duration, mut run: impl FnMut(Duration) -> T, did: impl Fn(&T) -> bool) -> T {
    let mut length = shortest;
    loop {
        let turn = run(length);
        if did(&turn) || length > LIMIT {
            return turn;
        }
        length *= 2;
    }
}
