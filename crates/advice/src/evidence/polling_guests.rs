//! Guests that poll before they halt: each says so to KVM, which then does not poll for it, and every halt comes after a poll.
//!
//! ```text
//! stretch 1   … MSR = 0: polls ─ halt ─ halt │ stretch 2   halt ─ halt ─ MSR = 1 … ─ MSR = 0 ─ halt
//!                                since       │             before        stopped                since
//! ```

use exitscope_analysis::DurationStats;
use exitscope_analysis::MAX_KEYS;
use exitscope_model::{Exit, Subject, SubjectKind};
use exitscope_policy::guest_halt_poll::PollControl;
use exitscope_units::VmId;
use std::collections::{BTreeMap, BTreeSet};

/// VMs whose guests were seen to switch KVM's polling off because they poll themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollingGuests {
    /// Guest time before each of their halts, since they said so.
    since: BTreeMap<VmId, DurationStats>,
    /// Those that had said so when this stretch of a recording began: the same, until they say otherwise.
    before: BTreeMap<VmId, DurationStats>,
    /// Those that said otherwise.
    stopped: BTreeSet<VmId>,
}

impl PollingGuests {
    /// Which subjects of exits it looks at, beside halts.
    #[inline(always)]
    pub fn looks_at(kind: SubjectKind) -> bool {
        kind == SubjectKind::Msr
    }

    /// Looks at one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if exit.is_halt && exit.timed && !(self.since.is_empty() && self.before.is_empty()) {
            let lengths = self.since.get_mut(&exit.who.vm).or_else(|| self.before.get_mut(&exit.who.vm));
            lengths.into_iter().for_each(|lengths| lengths.record(exit.guest));
        }
        if let Some(detail) = exit.subject {
            self.note(exit.who.vm, &detail);
        }
    }

    /// A guest that polls before it halts tells KVM not to.
    #[inline]
    fn note(&mut self, vm: VmId, detail: &Subject) {
        if !PollingGuests::looks_at(detail.kind) || detail.key != u64::from(PollControl::MSR) || !detail.write {
            return;
        }
        if detail.value & 1 == 0 {
            if self.since.len() < MAX_KEYS {
                self.since.entry(vm).or_default();
            }
            return;
        }
        self.since.remove(&vm);
        self.before.remove(&vm);
        if self.stopped.len() < MAX_KEYS {
            self.stopped.insert(vm);
        }
    }

    /// Goes on where an earlier stretch of the same recording ended.
    pub fn follow(&mut self, before: &PollingGuests) {
        let known = before.since.keys().chain(before.before.keys()).take(MAX_KEYS);
        self.before = known.map(|vm| (*vm, DurationStats::default())).collect();
    }

    /// Adds what the next stretch gave. What a guest said before the first stretch of all is as if it had not.
    pub fn merge(&mut self, later: &PollingGuests) {
        for (vm, lengths) in &later.before {
            self.since.get_mut(vm).into_iter().for_each(|since| since.merge(lengths));
        }
        for vm in &later.stopped {
            self.since.remove(vm);
        }
        for (vm, lengths) in &later.since {
            self.since.entry(*vm).or_default().merge(lengths);
        }
    }

    /// Those that still poll, with the guest time before their halts.
    pub fn all(&self) -> &BTreeMap<VmId, DurationStats> {
        &self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, vcpu};
    use exitscope_model::{CodeList, ExitCode, PortAccessForm};
    use exitscope_units::Nanos;

    /// Its guest says that it polls, or that it does not, or it halts after so long in the guest.
    #[derive(Clone, Copy, Debug)]
    enum Does {
        Polls,
        Stops,
        Halts(u64),
    }
    use Does::{Halts, Polls, Stops};

    const STORY: [Does; 10] =
        [Halts(1), Polls, Halts(20), Halts(300), Polls, Halts(4_000), Stops, Halts(50_000), Polls, Halts(600_000)];

    fn absorb(guests: &mut PollingGuests, does: &[Does]) {
        for does in does {
            let write = |value| Subject {
                kind: SubjectKind::Msr,
                write: true,
                form: PortAccessForm::Unknown,
                size: 0,
                key: u64::from(PollControl::MSR),
                value,
            };
            let wrmsr = exit(vcpu(0), 1, ExitCode::new(CodeList::Vmx, 32));
            guests.absorb(&match *does {
                Polls => Exit { subject: Some(write(0)), ..wrmsr },
                Stops => Exit { subject: Some(write(1)), ..wrmsr },
                Halts(guest) => Exit { guest: Nanos(guest), ..exit(vcpu(0), 1, ExitCode::new(CodeList::Vmx, 12)) },
            });
        }
    }

    fn read(stretches: &[&[Does]]) -> PollingGuests {
        let (mut all, mut before) = (PollingGuests::default(), PollingGuests::default());
        for stretch in stretches {
            let mut guests = PollingGuests::default();
            guests.follow(&before);
            absorb(&mut guests, stretch);
            all.merge(&guests);
            before = guests;
        }
        all
    }

    #[test]
    fn wherever_a_recording_is_cut_the_same_guests_poll_as_long() {
        for length in 0..=STORY.len() {
            let whole = read(&[&STORY[..length]]);
            let sum: u64 = whole.all().values().map(|lengths| lengths.sum).sum();
            assert_eq!(sum, [0, 0, 0, 20, 320, 320, 4_320, 0, 0, 0, 600_000][length], "{length}");
            for (first, second) in (0..=length).flat_map(|first| (first..=length).map(move |second| (first, second))) {
                let cut = read(&[&STORY[..first], &STORY[first..second], &STORY[second..length]]);
                assert_eq!(cut.all(), whole.all(), "{first} {second} {length}");
            }
        }
    }

    #[test]
    fn what_was_said_before_the_first_stretch_is_not_known() {
        let mut earlier = PollingGuests::default();
        absorb(&mut earlier, &STORY[..3]);
        let mut later = PollingGuests::default();
        later.follow(&earlier);
        absorb(&mut later, &[Halts(300)]);
        let mut all = PollingGuests::default();
        all.merge(&later);
        assert!(all.all().is_empty());
    }
}
