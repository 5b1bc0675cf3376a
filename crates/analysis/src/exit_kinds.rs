//! Exits by all that most figures tell apart, so that each is looked up and measured once.
//!
//! ```text
//! Exit ─► ExitKind{reason, about what, served where} ─► figures ─┬─► by reason               when they are asked for
//!                                                                └─► by what exits were about
//! ```

use crate::{
    AccessKey, AccessStats, Accesses, ExitCause, KeyNumbering, PhaseKey, PhaseStats, PhasesByReason, StatsByKey,
    SubjectKey, Tally,
};
use exitscope_model::{Exit, ExitCode, Handler, PortAccessForm};

/// Kinds at most; further ones are measured for each figure. Most recordings have a few hundred.
const MOST: u32 = 1 << 12;

/// What exits have in common that are measured together, in as few words as it needs: each exit's is hashed and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ExitKind {
    reason: u64,
    about: u64,
    /// Whose reason, where it was served, what kind of thing it is about, and how.
    how: u32,
}

impl ExitKind {
    #[inline]
    fn of(exit: &Exit) -> ExitKind {
        let (mut about, mut of) = (0, 0);
        if let Some(detail) = exit.subject {
            let SubjectKey { kind, key, write } = SubjectKey::of(detail);
            about = key;
            of =
                (kind as u32) << 16 | u32::from(detail.form == PortAccessForm::String) << 3 | u32::from(write) << 2 | 2;
        }
        let ExitCode { list, number, nested } = exit.code;
        let (outside, left) = (exit.handler != Handler::Kernel, exit.has_left_kernel());
        let flags = u32::from(left) << 5 | u32::from(nested) << 4 | u32::from(outside);
        let how = (list as u32) << 24 | of | flags;
        ExitKind { reason: number, about, how }
    }
}

/// The figures of a kind.
#[derive(Clone, Debug)]
struct KindCell {
    key: PhaseKey,
    about: KeyedSubject,
    phases: PhaseStats,
    /// Of accesses: all but the figures that `phases` has.
    access: AccessStats,
}

/// What an exit is about, as figures tell it apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyedSubject {
    Nothing,
    Thing(SubjectKey),
    Access(AccessKey),
    /// A thing of a nested guest's, which is none of the guest's own.
    Nested(SubjectKey),
}

impl KeyedSubject {
    pub fn of(exit: &Exit) -> KeyedSubject {
        match (AccessKey::of(exit), exit.subject) {
            (Some(key), _) => KeyedSubject::Access(key),
            (None, Some(detail)) if exit.code.nested => KeyedSubject::Nested(SubjectKey::of(detail)),
            (None, Some(detail)) => KeyedSubject::Thing(SubjectKey::of(detail)),
            (None, None) => KeyedSubject::Nothing,
        }
    }

    /// The subject.
    pub fn key(self) -> Option<SubjectKey> {
        match self {
            KeyedSubject::Nothing => None,
            KeyedSubject::Thing(key) | KeyedSubject::Nested(key) => Some(key),
            KeyedSubject::Access(key) => Some(key.at),
        }
    }
}

impl KindCell {
    fn of(exit: &Exit) -> KindCell {
        let (key, about) = (PhaseKey::of(exit), KeyedSubject::of(exit));
        KindCell { key, about, phases: PhaseStats::default(), access: AccessStats::default() }
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.phases.absorb(exit);
        if let KeyedSubject::Access(_) = self.about {
            self.access.absorb_access(exit);
        }
    }
}

/// Figures by kind.
#[derive(Clone, Debug)]
pub(crate) struct StatsByExitKind {
    index: KeyNumbering<ExitKind>,
    /// By the kind's number.
    cells: Vec<KindCell>,
}

impl Default for StatsByExitKind {
    fn default() -> StatsByExitKind {
        StatsByExitKind { index: KeyNumbering::of_at_most(MOST), cells: Vec::new() }
    }
}

impl StatsByExitKind {
    /// Adds one exit, unless it is the first of its kind or one of further kinds: the kind's number, and whether it did.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) -> (u32, bool) {
        let number = self.index.of(ExitKind::of(exit));
        match self.cells.get_mut(number as usize) {
            Some(cell) => cell.absorb(exit),
            None => {
                self.met(number, exit);
                return (number, false);
            }
        }
        (number, true)
    }

    #[cold]
    fn met(&mut self, number: u32, exit: &Exit) {
        if number < MOST {
            self.cells.push(KindCell::of(exit));
        }
    }

    /// Puts the figures where they are asked for. The kinds keep their numbers.
    pub fn flush_into(
        &mut self,
        all_phases: &mut PhasesByReason,
        details: &mut StatsByKey<SubjectKey>,
        accesses: &mut Accesses,
        causes: &mut StatsByKey<ExitCause>,
    ) {
        for KindCell { key, about, phases, access } in &mut self.cells {
            let (phases, access) = (std::mem::take(phases), std::mem::take(access));
            if phases.stats.count == 0 {
                continue;
            }
            all_phases.merge_at(*key, &phases);
            causes.merge_at(ExitCause { code: key.code, about: about.key() }, &phases.stats);
            match *about {
                KeyedSubject::Access(key) => accesses.merge_at(key, &AccessStats { stats: phases.stats, ..access }),
                KeyedSubject::Thing(key) => details.merge_at(key, &phases.stats),
                KeyedSubject::Nothing | KeyedSubject::Nested(_) => {}
            }
        }
    }
}

/// Where an exit was counted: numbers of what it has in common with others, in the order in which they were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitSlots {
    /// That of its vCPU.
    pub vcpu: u32,
    /// That of its reason and what it was about; [`ExitSlots::UNNUMBERED`] if there are too many of these. None if only
    /// where its vCPU's time went counts.
    pub kind: Option<u32>,
}

impl ExitSlots {
    /// A kind without a number of its own.
    pub const UNNUMBERED: u32 = MOST;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use crate::{Facts, FactsOptions, Selection};
    use exitscope_model::{CodeList, Subject, SubjectKind, TimePart};

    #[test]
    fn exits_of_few_kinds_and_of_too_many_give_the_figures_that_each_alone_gives() {
        let wanted = FactsOptions { by: Vec::new(), slowest: 0, selection: Selection::default() };
        let (mut together, mut alone) = (Facts::new(&wanted), Facts::new(&wanted));
        let mut further = 0;
        for number in 0..30_000 {
            // Now and then the figures are asked for, and then it goes on.
            if number % 7_000 == 0 {
                together.flush_exit_kinds();
            }
            let detail = Subject {
                kind: [SubjectKind::Port, SubjectKind::Mmio, SubjectKind::Msr][number as usize % 3],
                write: number / 3 % 2 == 0,
                form: if number % 11 == 0 { PortAccessForm::String } else { PortAccessForm::NonString },
                size: 4,
                key: if number % 2 == 0 { number % 5 } else { number / 2 % 3_000 * 0x800 },
                value: number,
            };
            let exit = Exit {
                parts: spent(TimePart::Kernel, 100 + number),
                subject: (number % 4 != 0).then_some(detail),
                rip: 0,
                handler: if number / 2 % 5 == 0 { Handler::Userspace(2) } else { Handler::Kernel },
                ..exit(vcpu(0), number, ExitCode::new(CodeList::Vmx, number % 7))
            };
            let counted = together.absorb(&exit).unwrap();
            further += u64::from(counted.kind == Some(ExitSlots::UNNUMBERED));
            alone.absorb_unbatched(&exit);
        }
        assert!((1_000..29_000).contains(&further), "{further}");
        together.flush_exit_kinds();
        assert_eq!(together.phases.cells(), alone.phases.cells());
        assert_eq!(together.accesses.cells(), alone.accesses.cells());
        assert_eq!(together.causes.cells(), alone.causes.cells());
        assert_eq!(together.details(), alone.details());
    }
}
