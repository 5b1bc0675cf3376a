//! Whether two recordings hold the same events.

use exitscope_model::{Exit, VcpuIdentity};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Nanoseconds by which two recorders' moments of one and the same event may differ: each reads the clock itself.
pub(crate) const MAX_CLOCK_SKEW_NS: u64 = 10_000;

/// Exits that are kept of a recording.
const KEPT: usize = 4096;

/// An exit is known by this many of its vCPU's, itself the last: one alone looks like many others.
const WINDOW: u32 = 16;

/// Bits by which what is known of an earlier exit moves on with each: after `WINDOW` of them nothing is left of it.
const STEP: u32 = u64::BITS / WINDOW;

/// What is chosen is chosen anew in each stretch of 2^24 ns (17 ms), by far more than clocks may differ.
const STRETCH_BITS: u32 = 24;

/// Of fewer exits nothing is said.
const FEWEST: usize = 16;

/// Exits of a recording that are chosen by what they are, so that two recordings of the same events choose the same ones,
/// wherever each begins.
#[derive(Default)]
pub(crate) struct EventSketch {
    lanes: FxHashMap<ExitLane, Window>,
    /// Those of the least hashes: the first moment of each.
    kept: BTreeMap<u64, Moment>,
}

/// A vCPU by what every one of its events says.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ExitLane {
    Thread(Tid),
    Vcpu(VmId, VcpuId),
}

#[derive(Default)]
struct Window {
    last: Option<Moment>,
    exits: u32,
    rolling: u64,
}

/// A hash whose every bit depends on all that goes in, as hashes are chosen by their size.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    let mixed = hasher.finish();
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl ExitLane {
    /// Whose exits come in the order of time.
    pub(crate) fn of(who: &VcpuIdentity) -> ExitLane {
        if who.tid == Tid(0) { ExitLane::Vcpu(who.vm, who.vcpu) } else { ExitLane::Thread(who.tid) }
    }
}

impl EventSketch {
    /// Adds an exit; a vCPU's come in their order. Returns how long after the last its vCPU left the guest.
    pub(crate) fn absorb(&mut self, exit: &Exit) -> Option<Nanos> {
        let lane = ExitLane::of(&exit.who);
        let window = self.lanes.entry(lane).or_default();
        let gap = window.last.replace(exit.at).and_then(|last| exit.at.since(last));
        window.exits = window.exits.saturating_add(1);
        window.rolling = (window.rolling << STEP).wrapping_add(hash((exit.code, exit.rip)));
        if window.exits < WINDOW {
            return gap;
        }
        let key = hash((lane, window.rolling, exit.at.as_nanos() >> STRETCH_BITS));
        if self.kept.len() < KEPT || key < self.limit() {
            self.kept.entry(key).or_insert(exit.at);
            if self.kept.len() > KEPT {
                self.kept.pop_last();
            }
        }
        gap
    }

    /// The hash from which on exits were left out.
    fn limit(&self) -> u64 {
        match self.kept.last_key_value() {
            Some((&key, _)) if self.kept.len() >= KEPT => key,
            _ => u64::MAX,
        }
    }

    /// Whether events that both recordings saw, between these moments, are the same ones; `None` where too few tell. One may
    /// have fewer than the other: of fewer VMs, or with losses.
    pub(crate) fn is_same(&self, other: &EventSketch, between: (Moment, Moment)) -> Option<bool> {
        let shares = [self.share_in(other, between), other.share_in(self, between)];
        shares.into_iter().flatten().reduce(f64::max).map(|share| share >= 0.5)
    }

    /// Which share of its exits the other has.
    fn share_in(&self, other: &EventSketch, between: (Moment, Moment)) -> Option<f64> {
        let limit = self.limit().min(other.limit());
        let (mut all, mut found) = (0, 0);
        for (key, at) in self.kept.range(..=limit).filter(|(_, at)| between.0 <= **at && **at <= between.1) {
            all += 1;
            let is_found = |of: &Moment| of.as_nanos().abs_diff(at.as_nanos()) <= MAX_CLOCK_SKEW_NS;
            found += usize::from(other.kept.get(key).is_some_and(is_found));
        }
        (all >= FEWEST).then(|| found as f64 / all as f64)
    }
}
