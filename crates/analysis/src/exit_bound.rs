//! "It is not the exits": how much of the vCPUs' time exits and waiting take at most, where a recording shows all of it.
//!
//! ```text
//! all but guest and halted ─────────► exits and waiting, at most: what is unknown or hidden by losses counts as theirs
//! + exits × what each hides outside ─► the same, with what no tracepoint sees
//! less than NOTEWORTHY of the time that is not halted ─► it is not the exits that take the time
//! ```
//!
//! The parts of the time are from entry to exit, by tracepoints; what an exit takes before `kvm_exit` and after `kvm_entry` is in the
//! guest's. `lab exits` bounds it on a machine; without, it is what was published of x86.

use crate::Facts;
use crate::verdict::OF_TIME;
use exitscope_model::{AllParts, Architecture, CodeList, ExitCode, TimePart};
use exitscope_units::Nanos;

/// What an exit of KVM on x86 hides around its tracepoints, at most, where nothing measured it: 1.5 us. Published is about half: from
/// before VMRUN to after it, with a guest's exit between, an AMD host of 2020 took 1,344 to 1,376 cycles (M. Roth, "KVM: SVM: use
/// vmsave/vmload for saving/restoring additional host state", LKML, December 2020), which are 0.7 us at 2 GHz. The other half is for
/// what mitigations of later kernels do there. A flush of the L1 data cache, and a host that is a virtual machine itself, take more.
pub const PUBLISHED_HIDDEN: Nanos = Nanos(1_500);

/// Shorter recordings say little about what usually happens.
const SHORTEST: Nanos = Nanos(1_000_000_000);

/// Exits that show that the processor or its firmware does more around an exit than was published: nested guests' (VMLAUNCH, VMRESUME,
/// VMRUN), TDX's (TDCALL) and SEV-ES's (VMGEXIT, after which the CPU has saved and loaded all registers).
const OTHER_WORLDS: [(CodeList, u64); 5] =
    [(CodeList::Vmx, 20), (CodeList::Vmx, 24), (CodeList::Vmx, 77), (CodeList::Svm, 0x80), (CodeList::Svm, 0x403)];

/// How much exits and waiting take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitBound {
    /// All time of the vCPUs that is neither the guest's nor halted.
    pub at_most: Nanos,
    /// The same, with what exits hide in the guest's time.
    pub with_hidden: Nanos,
    /// What `with_hidden` adds, of each exit on average, and whether it was measured on such a machine.
    pub hidden: HiddenOfExit,
    /// The vCPUs' time without halts.
    pub not_halted: Nanos,
    /// What they halted.
    pub halted: Nanos,
}

/// What an exit hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenOfExit {
    /// By a run of `lab exits`.
    Measured,
    /// [`PUBLISHED_HIDDEN`].
    Published,
}

impl ExitBound {
    /// Of these facts; `None` where they do not show all of the time, or where it is not little. `measured` is what all exits hide, where
    /// that was measured.
    pub fn of(facts: &Facts, measured: Option<Nanos>) -> Option<ExitBound> {
        let has_waits = facts.event_kinds.tell_all_steal() && !facts.has_no_kvm_exit() && facts.seen() >= SHORTEST;
        let mut parts = AllParts::ZERO;
        facts.divisions.values().for_each(|of| parts.merge(&of.parts));
        let (hidden, kind) = match measured {
            Some(hidden) => (hidden, HiddenOfExit::Measured),
            None => (published(facts)?, HiddenOfExit::Published),
        };
        has_waits.then(|| ExitBound::of_parts(&parts, hidden, kind))?
    }

    /// Of a division of all time, of which so much of the guest's is exits', too.
    fn of_parts(parts: &AllParts, hidden: Nanos, kind: HiddenOfExit) -> Option<ExitBound> {
        let of = |part| parts.get(part).0;
        let (guest, halted) = (of(TimePart::Guest), of(TimePart::Halted));
        let not_halted = parts.sum().0.saturating_sub(halted);
        let at_most = not_halted.saturating_sub(guest);
        let with_hidden = at_most.saturating_add(hidden.0.min(guest));
        // No part of them could be one that a verdict names, whatever is unknown or hidden.
        let is_little = guest > 0 && with_hidden.saturating_mul(OF_TIME) < not_halted;
        let [at_most, with_hidden, not_halted, halted] = [at_most, with_hidden, not_halted, halted].map(Nanos);
        is_little.then_some(ExitBound { at_most, with_hidden, hidden: kind, not_halted, halted })
    }
}

/// What all exits hide by what was published; `None` of machines of which nothing was.
fn published(facts: &Facts) -> Option<Nanos> {
    let codes = || facts.phases.cells().into_iter().map(|(key, _)| key.code);
    let is_known = |code: ExitCode| {
        let is_of_kvm = matches!(code.list, CodeList::Vmx | CodeList::Svm);
        is_of_kvm && !code.nested && !OTHER_WORLDS.contains(&(code.list, code.number))
    };
    let is_x86 = codes().all(|code| code.list.architecture() == Some(Architecture::X86));
    let is_published = is_x86 && !facts.has_run_states() && codes().all(is_known);
    is_published.then(|| Nanos(facts.all.count.saturating_mul(PUBLISHED_HIDDEN.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(parts: &[(TimePart, u64)], hidden: u64) -> Option<ExitBound> {
        let parts = parts.iter().fold(AllParts::ZERO, |sum, (part, time)| sum.with(*part, Nanos(*time)));
        ExitBound::of_parts(&parts, Nanos(hidden), HiddenOfExit::Published)
    }

    #[test]
    fn what_is_unknown_lost_or_hidden_counts_as_exits_and_waiting() {
        use TimePart::{Excluded, Guest, Halted, Kernel, Polling, Steal, Undivided, Unknown, User};
        let all = [Kernel, User, Polling, Steal, Undivided, Unknown, Excluded].map(|part| (part, 1));
        let found = bound(&[&all[..], &[(Guest, 793), (Halted, 200)]].concat(), 5).unwrap();
        let expected = [found.at_most, found.with_hidden, found.not_halted, found.halted].map(|time| time.0);
        assert_eq!(expected, [7, 12, 800, 200]);
    }

    #[test]
    fn a_twentieth_of_the_time_that_is_not_halted_is_no_little() {
        use TimePart::{Guest, Halted, Kernel, Steal};
        for (what, parts, hidden, is_said) in [
            ("little", &[(Guest, 970), (Kernel, 20), (Steal, 10)][..], 10, true),
            ("with what is hidden, a twentieth", &[(Guest, 970), (Kernel, 20), (Steal, 10)], 20, false),
            ("little of all, and much of the rest", &[(Guest, 90), (Kernel, 10), (Halted, 900)], 0, false),
            ("no guest", &[(Halted, 1_000)], 0, false),
        ] {
            assert_eq!(bound(parts, hidden).is_some(), is_said, "{what}");
        }
    }
}
