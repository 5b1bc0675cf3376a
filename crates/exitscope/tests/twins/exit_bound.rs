//! "It is not the exits": a guest that is slow by its memory's latency, and hosts that look alike, of which it must not be said.

use super::Trace;
use super::rules::{IDLE, Lines, MAKE, VCPU_0};

const US: u64 = 1_000;

/// How a vCPU runs: an exit each `apart` ns, which takes `takes` ns.
#[derive(Clone, Copy)]
pub struct Ran {
    pub reason: &'static str,
    pub apart: u64,
    pub takes: u64,
    /// How long it is watched, in ns.
    pub watched: u64,
    /// Of the time, in thousandths, what another task has its CPU.
    pub waits: u64,
    /// Whether the scheduler's events are there.
    pub has_switches: bool,
    /// Lines that the trace lacks, as its header tells.
    pub lost: u64,
}

/// A guest that waits for its memory: it leaves for the host's timer alone, 250 times a second, and keeps its CPU.
pub const SLOW_BY_MEMORY: Ran = Ran {
    reason: "EXTERNAL_INTERRUPT",
    apart: 4_000 * US,
    takes: 8 * US,
    watched: 1_200_000 * US,
    waits: 0,
    has_switches: true,
    lost: 0,
};

impl Ran {
    pub fn trace(self) -> Trace {
        let mut lines = Lines::of(4);
        if self.has_switches {
            lines.switch(1, 3, (MAKE, 'S'), IDLE);
        }
        for number in 1..=self.watched / self.apart {
            let at = number * self.apart;
            lines.exit(at, VCPU_0, 1, self.reason);
            let waits = self.apart * self.waits / 1_000;
            if waits > 0 {
                lines.switch(at + US, 1, (VCPU_0, 'R'), MAKE);
                lines.switch(at + US + waits, 1, (MAKE, 'S'), VCPU_0);
            }
            lines.enter(at + self.takes + waits, VCPU_0, 1);
        }
        let Trace::Text(text) = lines.text() else { unreachable!("lines are text") };
        let written = |line: &str| -> Option<u64> { line.split('/').nth(2)?.split_whitespace().next()?.parse().ok() };
        let header = text.lines().find(|line| line.contains("entries-written")).unwrap();
        let all = written(header).unwrap();
        Trace::Text(text.replace(&format!("{all}/{all}"), &format!("{all}/{}", all + self.lost)))
    }
}
