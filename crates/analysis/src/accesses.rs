//! Accesses to ports and to emulated memory: who served them, when they were answered, and what a cheaper way costs.
//!
//! ```text
//! Exit{port 0x3f8 out, to user space} ─► AccessKey{0x3f8 out, outside} ─► AccessStats{stats, handed, answered, written}
//! Exit{port 0x61 in, in the kernel}   ─► AccessKey{0x61 in, inside}    ─► what serving without leaving the kernel costs
//! ```
//!
//! *Outside* the kernel (or Xen) is user space, or Xen's device model. What a cheaper way costs is taken from the same
//! recording, or it is not known.

use crate::{DurationStats, ExitStats, StatsByKey, SubjectKey, Tally};
use exitscope_model::{Exit, Handler, PortAccessForm, SubjectKind};
use exitscope_stats::Histogram;
use exitscope_units::Nanos;

/// Accesses that went the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessKey {
    /// What was accessed, and whether the guest wrote.
    pub at: SubjectKey,
    /// Whether somebody outside the kernel served it.
    pub outside: bool,
    /// Whether its data are in memory (INS, OUTS), as far as the trace says.
    pub string: bool,
}

impl AccessKey {
    /// The key of an exit, if it is an access; not a nested guest's, whose devices are others.
    #[inline]
    pub fn of(exit: &Exit) -> Option<AccessKey> {
        let detail = exit.subject()?;
        let at = SubjectKey::of(detail);
        let (outside, string) = (exit.handler != Handler::Kernel, detail.form == PortAccessForm::String);
        at.is_accessed().then_some(AccessKey { at, outside, string })
    }
}

/// Sizes of port accesses, in bytes.
pub const SIZES: [u16; 3] = [1, 2, 4];

/// The figures of such accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStats {
    /// Lengths and sums.
    pub stats: ExitStats,
    /// Accesses whose data are in a register.
    pub plain: u64,
    /// Accesses of 1, 2 and 4 bytes; a recording may not say.
    pub sizes: [u64; 3],
    /// The lowest and the highest address or port.
    pub addresses: Option<(u64, u64)>,
    /// The smallest and the largest value that was written.
    pub written: Option<(u64, u64)>,
    /// From the exit until somebody outside was told to serve it.
    pub handed: DurationStats,
    /// From the exit until it was served there.
    pub answered: DurationStats,
}

impl Tally for AccessStats {
    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.stats.absorb(exit);
        self.absorb_access(exit);
    }

    fn merge(&mut self, other: &AccessStats) {
        let AccessStats { stats, plain, sizes, addresses, written, handed, answered } = other;
        self.stats.merge(stats);
        self.plain += plain;
        self.sizes.iter_mut().zip(sizes).for_each(|(sum, of)| *sum += of);
        self.addresses = both(self.addresses, *addresses);
        self.written = both(self.written, *written);
        self.handed.merge(handed);
        self.answered.merge(answered);
    }
}

/// The range that holds both.
fn both(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        _ => a.or(b),
    }
}

impl AccessStats {
    /// Adds one to all but [`AccessStats::stats`].
    #[inline]
    pub(crate) fn absorb_access(&mut self, exit: &Exit) {
        if let Some(detail) = exit.subject {
            self.plain += u64::from(detail.form == PortAccessForm::NonString);
            if let Some(at) = SIZES.iter().position(|size| *size == detail.size) {
                self.sizes[at] += 1;
            }
            self.addresses = both(self.addresses, Some((detail.key, detail.key)));
            if detail.write && detail.form != PortAccessForm::String {
                self.written = both(self.written, Some((detail.value, detail.value)));
            }
        }
        if exit.timed && exit.handler != Handler::Kernel {
            for (lengths, length) in
                [(&mut self.handed, exit.phases.handed), (&mut self.answered, exit.phases.answered)]
            {
                if length > Nanos::ZERO {
                    lengths.record(length);
                }
            }
        }
    }

    /// What these cost more than if each took `then` nanoseconds; zero if less.
    pub fn saving(&self, then: Nanos) -> Nanos {
        Nanos(self.stats.cost().0.saturating_sub(then.0.saturating_mul(self.stats.timed)))
    }
}

/// The accesses of a recording.
pub type Accesses = StatsByKey<AccessKey, AccessStats>;

impl Accesses {
    /// What accesses typically take, for comparison.
    pub fn typical(&self) -> TypicalAccesses {
        let mut served: [[Histogram; 2]; 2] = Default::default();
        let mut handed: [[Histogram; 2]; 2] = Default::default();
        for (AccessKey { at, outside, string }, access) in self.cells() {
            let is_port = at.kind == SubjectKind::Port;
            if !outside {
                served[usize::from(is_port)][usize::from(at.write)].merge(&access.stats.durations);
            } else if is_port {
                handed[usize::from(at.write)][usize::from(string)].merge_weighted(&access.handed.histogram, 1);
            }
        }
        let median = |histogram: &Histogram| histogram.quantile(5_000).map(Nanos);
        let later = |[plain, string]: &[Histogram; 2]| {
            let later = median(string)?.0.checked_sub(median(plain)?.0)?;
            (later > 0).then_some(Nanos(later))
        };
        TypicalAccesses {
            in_kernel: served.each_ref().map(|ways| ways.each_ref().map(median)),
            emulation: handed.iter().find_map(later),
        }
    }
}

/// What accesses of a recording typically take: medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypicalAccesses {
    /// Those that the kernel serves: memory and ports, reads and writes.
    in_kernel: [[Option<Nanos>; 2]; 2],
    /// What the emulation of an instruction takes: how much later than a plain port access a string access of the same
    /// direction is handed over. `None` if the recording lacks either, or they are not later.
    pub emulation: Option<Nanos>,
}

impl TypicalAccesses {
    /// What an access takes that the kernel serves: of the same direction, or else of the other. `None` if there is none.
    pub fn in_kernel(&self, kind: SubjectKind, write: bool) -> Option<Nanos> {
        let ways = &self.in_kernel[usize::from(kind == SubjectKind::Port)];
        ways[usize::from(write)].or(ways[usize::from(!write)])
    }
}
