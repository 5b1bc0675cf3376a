//! How far each CPU's buffer was read: what is older than the least far one cannot be followed by anything older.
//!
//! ```text
//! cpu 0:  ────────────┤            perf writes some of each buffer in turn
//! cpu 1:  ───────┤ events up to here (less `DISORDER`) may leave, long before the round ends
//! ```
//!
//! That holds where each CPU has one buffer, and is believed once every CPU was heard and no CPU's moments went back
//! for some rounds. `perf record --per-thread` has buffers of threads, which show themselves by moments that go back.

use super::records::CpuStretch;
use exitscope_units::{Moment, Nanos, PcpuId};
use rustc_hash::FxHashMap;

/// How much older than the one before it an event of the same buffer may be: an interrupt that comes while one is
/// recorded is recorded first.
const DISORDER: Nanos = Nanos(10_000_000);

/// Rounds to look at before anything is believed.
const ROUNDS: u32 = 2;

/// CPUs at most: as many as Linux can have. Bounds memory.
const MAX_CPUS: usize = 8192;

/// The latest moment of each CPU.
#[derive(Debug, Default)]
pub struct CpuProgress {
    latest: FxHashMap<PcpuId, Moment>,
    rounds: u32,
    /// Whether buffers are not those of CPUs. Nothing is looked at then.
    mixed: bool,
}

impl CpuProgress {
    /// Takes what a block says.
    pub fn take(&mut self, stretches: &[CpuStretch], rounds: usize) {
        self.rounds = self.rounds.saturating_add(rounds as u32);
        for stretch in stretches.iter().filter(|stretch| stretch.cpu != PcpuId(u32::MAX)) {
            if self.mixed {
                return;
            }
            let latest = self.latest.entry(stretch.cpu).or_default();
            // What says no moment of its own does not go back.
            let known = stretch.first != Moment::default();
            self.mixed |= known && latest.since(stretch.first).is_some_and(|back| back > DISORDER);
            *latest = stretch.last.max(*latest);
            self.mixed |= self.latest.len() > MAX_CPUS;
        }
    }

    /// The moment up to which all events of a machine with `cpus` CPUs have come, if that can be said.
    pub fn complete(&self, cpus: u32) -> Option<Moment> {
        if self.mixed || self.rounds < ROUNDS || cpus == 0 || self.latest.len() < cpus as usize {
            return None;
        }
        let least = self.latest.values().min()?;
        Some(Moment::from_nanos(least.as_nanos().saturating_sub(DISORDER.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stretch(cpu: u32, first: u64, last: u64) -> CpuStretch {
        CpuStretch { cpu: PcpuId(cpu), first: Moment::from_nanos(first * MS), last: Moment::from_nanos(last * MS) }
    }

    #[test]
    fn the_least_far_cpu_says_what_may_leave() {
        let mut cpus = CpuProgress::default();
        cpus.take(&[stretch(0, 100, 200), stretch(1, 90, 150)], 1);
        assert_eq!(cpus.complete(2), None, "one round is not enough");
        cpus.take(&[stretch(0, 210, 300), stretch(u32::MAX, 0, 0), stretch(1, 145, 290)], 1);
        assert_eq!(cpus.complete(2), Some(Moment::from_nanos(280 * MS)));
        assert_eq!(cpus.complete(3), None, "a CPU was not heard yet");
        assert_eq!(cpus.complete(0), None, "how many there are is not known");
    }

    #[test]
    fn a_cpu_whose_moments_go_back_ends_it() {
        let mut cpus = CpuProgress::default();
        cpus.take(&[stretch(0, 100, 200), stretch(0, 120, 220)], 2);
        assert_eq!(cpus.complete(1), None);
    }
}
