//! Whether halts last as long on the recording's clock as KVM measured them on its host's.
//!
//! ```text
//!  kvm_exit (HLT)                                        kvm_vcpu_wakeup
//!     │ handling │ ─────────────── ns of it ─────────────────── │      ns: ktime_get, in nanoseconds whatever the trace's clock
//!     └──────────────── whole, on the trace's clock ────────────┘      (kvm_vcpu_halt of virt/kvm/kvm_main.c)
//! ```
//!
//! At the clock's rate the whole is never shorter, and of long halts hardly longer, but for the 500 ppm by which NTP may slew
//! ktime_get (MAXFREQ of include/linux/timex.h).

use exitscope_model::Halt;
use exitscope_units::Nanos;

/// Shorter halts are not compared.
const LONG: Nanos = Nanos(1_000_000);

/// What lengths may differ by in per cent, and how much time may go by from the exit until KVM begins the halt.
const TOLERANCE: u64 = 2;
const HANDLING: Nanos = Nanos(50_000);

/// Fewer halts say nothing.
const ENOUGH: u64 = 20;

/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// What halts that slept for long say of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCheck {
    /// Those that were compared.
    pub compared: u64,
    /// Those that are too short or too long.
    pub off: u64,
    /// The least whole in millionths of its ns.
    least: Option<u64>,
}

impl ClockCheck {
    /// Compares one halt, if it is long and its exit was seen.
    pub(crate) fn absorb(&mut self, halt: &Halt) {
        let Some(wakeup) = halt.vcpu_wakeup.filter(|wakeup| wakeup.waited && wakeup.length > LONG) else { return };
        let (ns, whole) = (wakeup.length.0, halt.end.since(halt.begin).unwrap_or_default().0);
        // Without an exit, the beginning is reckoned from ns itself.
        if whole == ns {
            return;
        }
        let tolerance = ns / 100 * TOLERANCE;
        self.compared += 1;
        self.off += u64::from(whole < ns - tolerance || whole > ns.saturating_add(tolerance + HANDLING.0));
        let part = (u128::from(whole) * u128::from(MILLION) / u128::from(ns)).try_into().unwrap_or(u64::MAX);
        self.least = Some(self.least.map_or(part, |least| least.min(part)));
    }

    /// Adds what another recording says.
    pub(crate) fn merge(&mut self, other: &ClockCheck) {
        let ClockCheck { compared, off, least } = other;
        self.compared += compared;
        self.off += off;
        self.least = [self.least, *least].into_iter().flatten().min();
    }

    /// If most halts contradict the rate `hz` that was taken: what the clock has at most, as no halt is longer than its whole.
    pub fn instead_of(&self, hz: u64) -> Option<u64> {
        let contradicts = self.compared >= ENOUGH && self.off > self.compared / 2;
        let least = self.least.filter(|_| contradicts)?;
        Some((u128::from(hz) * u128::from(least) / u128::from(MILLION)).try_into().unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{VcpuIdentity, VcpuWakeup};
    use exitscope_units::{Moment, Tid, VcpuId, VmId};

    const HZ: u64 = 3_000_000_000;

    /// So many halts that KVM says are `ns` long, each with a whole.
    fn check(many: usize, ns: u64, whole: u64) -> ClockCheck {
        of(many, VcpuWakeup { length: Nanos(ns), waited: true, valid: true, may_poll: true }, whole)
    }

    fn of(many: usize, wakeup: VcpuWakeup, whole: u64) -> ClockCheck {
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let (begin, end) = (Moment::from_nanos(7_000), Moment::from_nanos(7_000 + whole));
        let (asleep, woken, change, entered) = (None, None, None, None);
        let (vcpu_wakeup, kicked, ipi) = (Some(wakeup), false, None);
        let halt = Halt { who, begin, asleep, woken, vcpu_wakeup, change, kicked, ipi, end, entered };
        let mut check = ClockCheck::default();
        (0..many).for_each(|_| check.absorb(&halt));
        check
    }

    #[test]
    fn a_rate_that_most_long_halts_contradict_is_too_high_or_too_low() {
        for (what, ns, whole, instead) in [
            ("as long, and some handling", 5_000_000, 5_012_000, None),
            ("at the tolerance", 5_000_000, 5_150_000, None),
            ("beyond it", 5_000_000, 5_150_001, Some(3_090_000_000)),
            ("shorter at the tolerance", 5_000_000, 4_900_000, None),
            ("shorter beyond it", 5_000_000, 4_899_999, Some(2_939_997_000)),
            ("by a seventh", 7_000_000, 8_000_000, Some(3_428_571_000)),
        ] {
            assert_eq!(check(20, ns, whole).instead_of(HZ), instead, "{what}");
        }
    }

    #[test]
    fn few_or_short_halts_and_polls_say_nothing() {
        assert_eq!(check(19, 5_000_000, 9_000_000).instead_of(HZ), None);
        assert_eq!(check(99, 1_000_000, 9_000_000).compared, 0, "short");
        assert_eq!(check(99, 5_000_000, 5_000_000).compared, 0, "of no exit");
        let poll = VcpuWakeup { length: Nanos(5_000_000), waited: false, valid: true, may_poll: true };
        assert_eq!(of(99, poll, 9_000_000).compared, 0);
        // A thread that lost its CPU before it halted makes single halts longer.
        let mut mixed = check(20, 5_000_000, 5_012_000);
        mixed.merge(&check(20, 5_000_000, 9_000_000));
        assert_eq!((mixed.compared, mixed.off, mixed.instead_of(HZ)), (40, 20, None));
        mixed.merge(&check(1, 5_000_000, 9_000_000));
        assert_eq!((mixed.off, mixed.instead_of(HZ)), (21, Some(3_007_200_000)), "the least tells most");
    }
}
