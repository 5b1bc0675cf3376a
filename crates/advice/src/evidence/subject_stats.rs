//! The exits of a VM about one thing: what they cost, and what says whether a cheaper way would do.
//!
//! ```text
//! Exit{port 0xc000 out, 2 bytes, value 1, to user space} ─► SubjectStats{cell, trip, spot: 0xc000 only, written: 1, strings: 0}
//! ```

use exitscope_analysis::{ExitStats, Tally};
use exitscope_model::{CodeList, Exit, ExitCode, ExitPhase, Handler, PortAccessForm, Subject, SubjectKind, TimePart};

/// Whether accesses all went to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressSpread {
    /// The first one's address.
    pub address: u64,
    /// Its size, in bytes.
    pub size: u16,
    /// Whether all others were the same.
    pub only: bool,
}

/// Values told apart at most.
const MOST_VALUES: usize = 16;

/// Which values were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// In order; none if there are more than [`MOST_VALUES`].
    few: Vec<u64>,
    /// Whether there are more.
    many: bool,
    /// The smallest and the largest.
    pub range: Option<(u64, u64)>,
}

impl Values {
    /// How many different ones, if they are few.
    pub fn different(&self) -> Option<usize> {
        (!self.many).then_some(self.few.len())
    }

    #[inline]
    fn add(&mut self, value: u64) {
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        if self.many {
            return;
        }
        if let Err(at) = self.few.binary_search(&value) {
            self.many = self.few.len() == MOST_VALUES;
            match self.many {
                true => self.few = Vec::new(),
                false => self.few.insert(at, value),
            }
        }
    }

    fn merge(&mut self, other: &Values) {
        other.few.iter().for_each(|value| self.add(*value));
        if other.many {
            (self.few, self.many) = (Vec::new(), true);
        }
        self.range = match (self.range, other.range) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// Exits about one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectStats {
    /// Their figures; filled at the end.
    pub stats: ExitStats,
    /// Time on the way out of the kernel (or Xen), outside and on the way back, in nanoseconds.
    pub trip: u64,
    /// Part of that in which the vCPU's thread slept outside: it waited for another.
    pub asleep: u64,
    /// Accesses whose data are in memory (INS, OUTS).
    pub strings: u64,
    /// The values that were written.
    pub written: Values,
    /// Reads of ports that Xen answered itself with ones, as no device is there.
    pub unanswered: u64,
    /// Of KVM, writes that an ioeventfd took within the kernel, as [`Subject::is_by_ioeventfd`].
    pub by_ioeventfd: u64,
    /// Accesses to MSRs that user space answers as it asked for, or as KVM does not know or refuses them; which
    /// (KVM_MSR_EXIT_REASON_*) is in no tracepoint.
    pub refused: u64,
    /// Where those went that left the kernel.
    pub address_spread: Option<AddressSpread>,
}

impl SubjectStats {
    /// Whether an exit adds anything to more than the figures.
    #[inline]
    pub fn tells(exit: &Exit, detail: &Subject) -> bool {
        exit.handler != Handler::Kernel
            || detail.write
            || detail.form == PortAccessForm::String
            || is_unanswered(detail)
    }
}

/// `null_read` of `xen/arch/x86/hvm/emulate.c` gives 64 ones whatever the size, of which the trace has 32; a device model gives as
/// many as were asked for. Only Xen's trace has no sizes.
fn is_unanswered(detail: &Subject) -> bool {
    detail.kind == SubjectKind::Port && !detail.write && detail.size == 0 && detail.value == 0xffff_ffff
}

impl Tally for SubjectStats {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        let Some(detail) = exit.subject else { return };
        self.strings += u64::from(detail.form == PortAccessForm::String);
        // Which value an ioeventfd took, nothing says.
        let is_by_ioeventfd = detail.is_by_ioeventfd();
        self.by_ioeventfd += u64::from(is_by_ioeventfd);
        if detail.write && detail.form != PortAccessForm::String && !is_by_ioeventfd {
            self.written.add(detail.value);
        }
        self.unanswered += u64::from(is_unanswered(&detail));
        if exit.handler == Handler::Kernel {
            return;
        }
        if let Handler::Userspace(reason) = exit.handler {
            let handler = ExitCode::new(CodeList::KvmExit, reason.into());
            self.refused += u64::from(handler.hands_over(SubjectKind::Msr));
        }
        let place = AddressSpread { address: detail.key, size: detail.size, only: true };
        let known = self.address_spread.get_or_insert(place);
        known.only &= known.address == place.address && known.size == place.size;
        if exit.timed {
            let time = |step| exit.phases.time(step).0;
            let steps = time(ExitPhase::ToUserSpace)
                .saturating_add(time(ExitPhase::UserSpaceAsleep))
                .saturating_add(time(ExitPhase::Reentry));
            self.trip = self
                .trip
                .saturating_add(steps.saturating_add(time(ExitPhase::UserSpace)).max(exit.part(TimePart::User).0));
            self.asleep = self.asleep.saturating_add(time(ExitPhase::UserSpaceAsleep));
        }
    }

    fn merge(&mut self, other: &SubjectStats) {
        let SubjectStats { stats, trip, asleep, strings, written, unanswered, by_ioeventfd, refused, address_spread } =
            other;
        self.stats.merge(stats);
        self.trip = self.trip.saturating_add(*trip);
        self.asleep = self.asleep.saturating_add(*asleep);
        self.strings += strings;
        self.refused += refused;
        self.unanswered += unanswered;
        self.by_ioeventfd += by_ioeventfd;
        self.written.merge(written);
        self.address_spread = match (self.address_spread, *address_spread) {
            (Some(a), Some(b)) => {
                Some(AddressSpread { only: a.only && b.only && (a.address, a.size) == (b.address, b.size), ..a })
            }
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_units::Nanos;

    #[test]
    fn few_values_are_told_from_many_in_any_order_and_however_cut() {
        let of = |values: &[u64]| {
            let mut all = Values::default();
            values.iter().for_each(|value| all.add(*value));
            all
        };
        for (values, different) in [(0..1, Some(1)), (0..16, Some(16)), (0..17, None), (0..300, None)] {
            let values: Vec<u64> = values.collect();
            let all = of(&values);
            assert_eq!(all.different(), different);
            let backwards: Vec<u64> = values.iter().rev().copied().chain(values.iter().copied()).collect();
            assert_eq!(of(&backwards), all);
            for cut in [0, 1, values.len() / 2, values.len()] {
                let mut merged = of(&values[..cut]);
                merged.merge(&of(&values[cut..]));
                assert_eq!(merged, all, "{cut}");
            }
        }
    }

    fn access(key: u64, size: u16, write: bool, form: PortAccessForm, outside: bool) -> Exit {
        let detail = Subject { kind: SubjectKind::Port, write, form, size, key, value: key * 3 };
        let handler = if outside { Handler::Userspace(2) } else { Handler::Kernel };
        let of = exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 30));
        Exit { subject: Some(detail), handler, parts: spent(TimePart::User, 70).with(TimePart::Kernel, Nanos(5)), ..of }
    }

    #[test]
    fn what_adds_to_more_than_figures_is_kept() {
        for (write, form, outside, tells) in [
            (false, PortAccessForm::NonString, false, false),
            (true, PortAccessForm::NonString, false, true),
            (false, PortAccessForm::String, false, true),
            (false, PortAccessForm::NonString, true, true),
        ] {
            let exit = access(1, 4, write, form, outside);
            assert_eq!(SubjectStats::tells(&exit, &exit.subject.unwrap()), tells, "{write} {form:?} {outside}");
        }
    }

    #[test]
    fn places_values_and_the_way_are_added_up_however_cut() {
        let (plain, string) = (PortAccessForm::NonString, PortAccessForm::String);
        for (exits, strings, range, spot, trip) in [
            (
                &[(16, 4, true, plain, true), (16, 4, true, plain, true)][..],
                0,
                Some((48, 48)),
                Some((16, 4, true)),
                140,
            ),
            (&[(16, 4, true, plain, true), (17, 4, true, plain, true)], 0, Some((48, 51)), Some((16, 4, false)), 140),
            (&[(16, 4, true, plain, true), (16, 2, true, plain, true)], 0, Some((48, 48)), Some((16, 4, false)), 140),
            (&[(16, 4, true, plain, true), (17, 4, true, plain, false)], 0, Some((48, 51)), Some((16, 4, true)), 70),
            (&[(16, 4, false, plain, true), (16, 4, true, string, true)], 1, None, Some((16, 4, true)), 140),
            (&[(16, 4, true, string, false), (16, 4, true, string, false)], 2, None, None, 0),
        ] {
            let of = |exits: &[(u64, u16, bool, PortAccessForm, bool)]| {
                let mut about = SubjectStats::default();
                for &(key, size, write, form, outside) in exits {
                    about.absorb(&access(key, size, write, form, outside));
                }
                about
            };
            let all = of(exits);
            let place = all.address_spread.map(|spot| (spot.address, spot.size, spot.only));
            assert_eq!((all.strings, all.written.range, place, all.trip), (strings, range, spot, trip), "{exits:?}");
            for cut in 0..=exits.len() {
                let mut merged = of(&exits[..cut]);
                merged.merge(&of(&exits[cut..]));
                assert_eq!(merged, all, "{exits:?} {cut}");
            }
        }
        // An exit of which one end is missing says nothing of the way.
        let mut about = SubjectStats::default();
        about.absorb(&Exit { timed: false, ..access(16, 4, true, plain, true) });
        assert_eq!((about.trip, about.address_spread.is_some()), (0, true));
    }
}
