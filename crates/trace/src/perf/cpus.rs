//! How far each CPU's buffer was read: what is older than the least far one cannot be followed by anything older.
//!
//! ```text
//! cpu 0:  ────────────┤            perf writes some of each buffer in turn
//! cpu 1:  ───────┤ events up to here (less `DISORDER`) may leave, long before the round ends
//! ```
//!
//! That holds where each CPU has one buffer, and is believed once every CPU was heard and no CPU's moments went back
//! for some rounds. `perf record --per-thread` has buffers of threads, which show themselves by moments that go back.

use super::records::Stretch;
use exitscope_units::{Moment, Nanos, PcpuId};
use rustc_hash::FxHashMap;

/// How much older than the one before it an event of the same buffer may be: an interrupt that comes while one is
/// recorded is recorded first.
const DISORDER: Nanos = Nanos(10_000_000);

/// Rounds to look at before anything is believed.
const ROUNDS: u32 = 2;

/// The latest moment of each CPU.
#[derive(Debug, Default)]
pub struct Cpus {
    latest: FxHashMap<PcpuId, Moment>,
    rounds: u32,
    /// Whether buffers are not those of CPUs.
    mixed: bool,
}

impl Cpus {
    /// Takes what a block says.
    pub fn take(&mut self, stretches: &[Stretch], rounds: usize) {
        self.rounds = self.rounds.saturating_add(rounds as u32);
        for stretch in stretches.iter().filter(|stretch| stretch.cpu != PcpuId(u32::MAX)) {
            let latest = self.latest.entry(stretch.cpu).or_default();
            self.mixed |= latest.since(stretch.first).is_some_and(|back| back > DISORDER);
            *latest = stretch.last.max(*latest);
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
