//! The slowest single exits.

use exitscope_model::{Exit, TimePart, VcpuIdentity};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The exits that cost most, and waited longest for a CPU.
#[derive(Clone, Debug)]
pub struct Slowest {
    keep: usize,
    heap: BinaryHeap<Reverse<Ranked>>,
}

/// Longest first; of equals the earliest, then the lowest vCPU, so that the order of absorbing does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ranked(Exit);

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[inline]
fn key(exit: &Exit) -> impl Ord + use<> {
    (length(exit), Reverse(exit.at), Reverse(exit.who.vm), Reverse(exit.who.vcpu), Reverse(exit.who.tid))
}

#[inline]
fn length(exit: &Exit) -> u64 {
    exit.cost().plus(exit.part(TimePart::Steal)).0
}

impl Slowest {
    /// Keeps the `keep` slowest.
    pub fn keeping(keep: usize) -> Slowest {
        Slowest { keep, heap: BinaryHeap::new() }
    }

    /// Looks at one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if !exit.timed || length(exit) == 0 {
            return;
        }
        if self.heap.len() >= self.keep {
            match self.heap.peek() {
                Some(Reverse(least)) if key(exit) > key(&least.0) => {}
                _ => return,
            }
        }
        self.heap.push(Reverse(Ranked(*exit)));
        if self.heap.len() > self.keep {
            self.heap.pop();
        }
    }

    /// Looks at what another kept.
    pub fn merge(&mut self, other: &Slowest) {
        other.heap.iter().for_each(|Reverse(ranked)| self.absorb(&ranked.0));
    }

    /// Names vCPUs that were found out after their exits were looked at.
    pub fn complete(&mut self, named: impl Fn(VcpuIdentity) -> VcpuIdentity) {
        let heap = std::mem::take(&mut self.heap).into_iter();
        self.heap = heap.map(|Reverse(Ranked(exit))| Reverse(Ranked(Exit { who: named(exit.who), ..exit }))).collect();
    }

    /// The slowest first.
    pub fn list(&self) -> Vec<Exit> {
        let mut ranked: Vec<Ranked> = self.heap.iter().map(|Reverse(ranked)| *ranked).collect();
        ranked.sort_by(|a, b| b.cmp(a));
        ranked.into_iter().map(|ranked| ranked.0).collect()
    }
}
