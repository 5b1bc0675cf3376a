//! What the exits are for that force other threads out.

use exitscope_analysis::{ForcingExits, GangFacts};
use exitscope_units::{VcpuId, VmId};

/// A kind of exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forcer {
    /// Calls of the guest's.
    Hypercalls,
    /// The host's interrupts.
    Interrupts,
    /// The host's timers: their threads leave by themselves, and take along those that joined late.
    Timers,
    /// Accesses to memory: pages that are not there, and devices.
    Memory,
    /// All others.
    Other,
}

/// Traps of arch/powerpc/include/asm/kvm_asm.h.
const TRAPS: &[(Forcer, &[u16])] = &[
    (Forcer::Hypercalls, &[0xc00]),
    (Forcer::Interrupts, &[0x500, 0x502, 0xea0]),
    (Forcer::Timers, &[0x900, 0x980]),
    (Forcer::Memory, &[0xe00, 0xe20]),
];

impl Forcer {
    const ALL: [Forcer; 5] = [Forcer::Hypercalls, Forcer::Interrupts, Forcer::Timers, Forcer::Memory, Forcer::Other];

    fn of(trap: u16) -> Forcer {
        TRAPS.iter().find(|(_, traps)| traps.contains(&trap)).map_or(Forcer::Other, |row| row.0)
    }

    pub fn text(self) -> &'static str {
        match self {
            Forcer::Hypercalls => "hypercalls",
            // The trap is the same whoever sent it: a device, or another CPU of the host.
            Forcer::Interrupts => "external interrupts of the host",
            Forcer::Timers => "the host's timers",
            Forcer::Memory => "faults on memory or devices",
            Forcer::Other => "other exits",
        }
    }
}

/// What one of several kinds of exits forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForcedByKind {
    pub kind: Forcer,
    /// Time that others lost, in nanoseconds; where no entries were recorded, exits that were forced.
    pub part: u64,
}

/// The kinds of exits that forced threads out, those that forced most first, and what they forced all together: time if any is known,
/// otherwise exits.
pub(super) fn forcers(gangs: &GangFacts) -> (Vec<ForcedByKind>, u64) {
    let causes = gangs.causes();
    let is_timed = causes.iter().any(|(_, cause)| cause.lost > 0);
    let mut rows: Vec<ForcedByKind> = Forcer::ALL.map(|kind| ForcedByKind { kind, part: 0 }).to_vec();
    for ((_, _, trap), cause) in &causes {
        let kind = Forcer::of(*trap);
        let part = if is_timed { cause.lost } else { cause.forced };
        rows.iter_mut().filter(|row| row.kind == kind).for_each(|row| row.part = row.part.saturating_add(part));
    }
    rows.retain(|row| row.part > 0);
    rows.sort_by_key(|row| std::cmp::Reverse(row.part));
    let all = rows.iter().map(|row| row.part).fold(0, u64::saturating_add);
    (rows, all)
}

/// Exits that forced others out, those that forced most first: of which vCPU, for which trap.
pub(super) fn worst(gangs: &GangFacts) -> Vec<((VmId, VcpuId, u16), ForcingExits)> {
    let mut causes = gangs.causes();
    causes.retain(|(_, cause)| cause.lost > 0 || cause.forced > 0);
    causes.sort_by_key(|(_, cause)| std::cmp::Reverse((cause.lost, cause.forced)));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_policy::vcore::{H_DOORBELL, HV_DECREMENTER};

    #[test]
    fn each_trap_is_of_one_kind() {
        for (trap, kind) in [
            (0xc00, Forcer::Hypercalls),
            (0x500, Forcer::Interrupts),
            (HV_DECREMENTER, Forcer::Timers),
            (0xe00, Forcer::Memory),
            (0x700, Forcer::Other),
            (H_DOORBELL, Forcer::Other),
        ] {
            assert_eq!(Forcer::of(trap), kind, "{trap:#x}");
        }
        let traps: Vec<u16> = TRAPS.iter().flat_map(|row| row.1).copied().collect();
        assert!(traps.iter().enumerate().all(|(at, trap)| !traps[..at].contains(trap)), "{traps:x?}");
        assert!(TRAPS.iter().map(|row| row.0).chain([Forcer::Other]).eq(Forcer::ALL));
    }
}
