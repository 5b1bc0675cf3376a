//! Whose exits, and from what cause: numbers for both, so that sums over time need not know more.
//!
//! ```text
//! Exit ─► selected? ─► vCPU, reason and subject together: small numbers ─► TimelineBatch ─► ExitTimeline
//!             └──────► the slowest exits of every part of the recording
//! ```

use super::cpu_waits::CpuWait;
use super::slowest_by_interval::SlowestByInterval;
use crate::{ExitCause, ExitSlots, KeyNumbering, MAX_KEYS, Selection, SubjectKey};
use exitscope_model::{
    CpuInterval, Exit, ExitCode, ExitParts, Handler, LaneSpan, Preemption, ThreadWakeUp, TimePart, VcpuIdentity, Yield,
};
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// vCPUs, reasons and causes at most, so that a number is a u16; further vCPUs, and further reasons, are counted together.
/// Of further causes those of a reason are: they have its number beside [`CAUSES`].
pub(crate) const LANES: u32 = (1 << 12) - 1;
/// See [`CAUSES`].
pub const REASONS: u32 = (1 << 10) - 1;
/// Causes that have a number of their own.
pub const CAUSES: u32 = 1 << 13;

/// What an exit gives to sums over time. Times in nanoseconds; zero if not both ends were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitSample {
    /// When it began.
    pub at: u64,
    /// Time in the guest before it.
    pub guest: u64,
    /// From exit to entry.
    pub total: u64,
    /// In the kernel.
    pub kernel: u64,
    /// In user space.
    pub user: u64,
    /// Where in the guest it was; 0 if the trace does not say.
    pub rip: u64,
    /// Where in [`TimelineBatch::parts`] its parts are, if it has others than these two; else [`ExitSample::NO_PARTS`].
    pub parts: u32,
    /// The number of its vCPU.
    pub lane: u16,
    /// The number of its cause.
    pub cause: u16,
    /// The number of its reason.
    pub reason: u16,
    /// The CPU.
    pub cpu: u16,
    /// Whether both ends were seen.
    pub timed: bool,
    /// Whether it left the kernel.
    pub to_user: bool,
    /// Whether it is one of those that are looked at; else its vCPU is, and only where that one's time went counts.
    pub counted: bool,
}

impl ExitSample {
    /// Of an exit that has no other parts.
    pub const NO_PARTS: u32 = u32::MAX;

    /// The parts of it that are kept aside, if any are.
    #[inline]
    pub fn parts<'a>(&self, aside: &'a [ExitParts]) -> Option<&'a ExitParts> {
        aside.get(self.parts as usize)
    }
}

/// Exits, CPU intervals and waits for a CPU on their way from [`TimelineKeys`] to [`ExitTimeline`](super::ExitTimeline). Most
/// exits have a cost and no other part, so that the parts of those that have are kept aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineBatch {
    /// The exits.
    pub exits: Vec<ExitSample>,
    /// Parts of those that have others than kernel and user space.
    pub parts: Vec<ExitParts>,
    /// Stretches, with the number of the vCPU.
    pub cpu_intervals: Vec<(u16, CpuInterval)>,
    /// Waits for a CPU.
    pub cpu_waits: Vec<CpuWait>,
}

impl TimelineBatch {
    /// None, with room for so many exits.
    pub fn with_capacity(exits: usize) -> TimelineBatch {
        TimelineBatch { exits: Vec::with_capacity(exits), ..TimelineBatch::default() }
    }

    /// How many exits, stretches and waits there are.
    #[inline]
    pub fn len(&self) -> usize {
        let TimelineBatch { exits, parts: _, cpu_intervals, cpu_waits } = self;
        exits.len() + cpu_intervals.len() + cpu_waits.len()
    }

    /// Whether there is nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all; the room stays.
    pub fn clear(&mut self) {
        let TimelineBatch { exits, parts, cpu_intervals, cpu_waits } = self;
        exits.clear();
        parts.clear();
        cpu_intervals.clear();
        cpu_waits.clear();
    }

    /// Adds an exit of this vCPU, of this cause and reason, if it is looked at.
    // Always: what is put together elsewhere, in pieces, and then moved whole, is waited for.
    #[inline(always)]
    fn push(&mut self, exit: &Exit, lane: u16, kind: Option<(u16, u16)>) {
        let (cause, reason) = kind.unwrap_or_default();
        let (mut total, mut kernel, mut user, mut parts) = (0, 0, 0, ExitSample::NO_PARTS);
        if exit.timed {
            (kernel, user) = (exit.part(TimePart::Kernel).0, exit.part(TimePart::User).0);
            total = exit.total().0;
            if !exit.parts.is_cost() {
                parts = self.parts.len() as u32;
                self.parts.push(exit.parts);
            }
        }
        self.exits.push(ExitSample {
            at: exit.at.as_nanos(),
            guest: exit.guest.0,
            total,
            kernel,
            user,
            rip: exit.rip,
            parts,
            lane,
            cause,
            reason,
            cpu: exit.cpu.0.min(u16::MAX.into()) as u16,
            timed: exit.timed,
            to_user: exit.handler != Handler::Kernel,
            counted: kind.is_some(),
        });
    }
}

/// The number of a cause.
pub(super) fn numbered(
    causes: &mut KeyNumbering<ExitCause>,
    reasons: &mut KeyNumbering<ExitCode>,
    cause: ExitCause,
) -> u32 {
    match causes.of(cause) {
        CAUSES => CAUSES + reasons.of(cause.code),
        number => number,
    }
}

/// The numbers of an exit's cause and reason.
fn numbers_of(causes: &mut KeyNumbering<ExitCause>, reasons: &mut KeyNumbering<ExitCode>, exit: &Exit) -> (u16, u16) {
    let cause = ExitCause { code: exit.code, about: exit.subject.map(SubjectKey::of) };
    (numbered(causes, reasons, cause) as u16, reasons.of(exit.code) as u16)
}

/// What sums over time are of, by number.
#[derive(Clone, Debug)]
pub struct TimelineKeys {
    selection: Selection,
    window: (Moment, Moment),
    /// vCPUs.
    pub lanes: KeyNumbering<VcpuIdentity>,
    /// Causes.
    pub causes: KeyNumbering<ExitCause>,
    /// Reasons.
    pub reasons: KeyNumbering<ExitCode>,
    /// The slowest exits.
    pub slow: SlowestByInterval,
    /// First and last entry or exit of vCPUs, of recordings that have ended.
    pub spans: FxHashMap<VcpuIdentity, (Moment, Moment)>,
    /// Which vCPU each thread runs, likewise.
    pub vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Yields that name a vCPU: from, to, how many.
    pub named: BTreeMap<(VcpuIdentity, VcpuId), u64>,
    known: Known,
}

/// What is known of the numbers that [`Facts`](crate::Facts) gave.
#[derive(Clone, Debug, Default)]
struct Known {
    /// By the vCPU's number.
    lanes: Vec<Option<u16>>,
    /// By the number of the kind: cause and reason.
    kinds: Vec<Option<(u16, u16)>>,
}

/// What is known of a number; if nothing is yet, what `find` finds.
#[inline]
fn known<T: Copy>(all: &mut Vec<Option<T>>, number: u32, find: impl FnOnce() -> T) -> T {
    match all.get(number as usize) {
        Some(Some(known)) => *known,
        _ => {
            let found = find();
            all.resize(all.len().max(number as usize + 1), None);
            all[number as usize] = Some(found);
            found
        }
    }
}

impl TimelineKeys {
    /// None yet.
    pub fn new(selection: &Selection) -> TimelineKeys {
        TimelineKeys {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            lanes: KeyNumbering::of_at_most(LANES),
            causes: KeyNumbering::of_at_most(CAUSES),
            reasons: KeyNumbering::of_at_most(REASONS),
            slow: SlowestByInterval::default(),
            spans: FxHashMap::default(),
            vcpu_of: FxHashMap::default(),
            named: BTreeMap::new(),
            known: Known::default(),
        }
    }

    /// Says when the trace's first event was; what is looked at, from then on.
    pub fn begin(&mut self, first: Moment) -> (Moment, Moment) {
        self.window = self.selection.window(first);
        self.window
    }

    /// Adds to `batch` what sums over time take of an exit; nothing if its vCPU is not looked at.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit, batch: &mut TimelineBatch) {
        if !self.selection.holds_who(&exit.who) {
            return;
        }
        let is_counted = self.window.0 <= exit.at && exit.at <= self.window.1 && self.selection.holds_exit(exit);
        let kind = is_counted.then(|| numbers_of(&mut self.causes, &mut self.reasons, exit));
        let lane = self.lanes.of(exit.who) as u16;
        self.absorb_numbered(exit, lane, kind, batch);
    }

    /// The same of an exit that is counted there by facts of the same recording, which look at the same vCPUs, moments and
    /// exits.
    #[inline(always)]
    pub fn absorb_counted(&mut self, exit: &Exit, counted: ExitSlots, batch: &mut TimelineBatch) {
        let TimelineKeys { known: Known { lanes, kinds }, causes, reasons, .. } = self;
        let lane = known(lanes, counted.vcpu, || self.lanes.of(exit.who) as u16);
        let kind = counted.kind.map(|kind| match kind {
            ExitSlots::UNNUMBERED => numbers_of(causes, reasons, exit),
            kind => known(kinds, kind, || numbers_of(causes, reasons, exit)),
        });
        self.absorb_numbered(exit, lane, kind, batch);
    }

    #[inline(always)]
    fn absorb_numbered(&mut self, exit: &Exit, lane: u16, kind: Option<(u16, u16)>, batch: &mut TimelineBatch) {
        if kind.is_some() {
            self.slow.absorb(exit);
        }
        batch.push(exit, lane, kind);
    }

    /// Adds an interval of no exit to `batch`; nothing if its vCPU is not looked at.
    pub fn absorb_cpu_interval(&mut self, interval: &CpuInterval, batch: &mut TimelineBatch) {
        if self.selection.holds_who(&interval.who) {
            batch.cpu_intervals.push((self.lanes.of(interval.who) as u16, *interval));
        }
    }

    /// Adds to `batch` that a vCPU was preempted.
    pub fn absorb_preemption(&mut self, of: &Preemption, batch: &mut TimelineBatch) {
        self.absorb_wait((of.who, of.at), of.ran, false, of.by, batch);
    }

    /// Adds to `batch` that a vCPU was woken.
    pub fn absorb_wake_up(&mut self, of: &ThreadWakeUp, batch: &mut TimelineBatch) {
        self.absorb_wait((of.who, of.at), of.ran, true, of.by, batch);
    }

    /// Adds a wait for a CPU to `batch`; nothing if its vCPU or its moment is not looked at.
    fn absorb_wait(
        &mut self,
        (who, at): (VcpuIdentity, Moment),
        ran: Option<Moment>,
        woken: bool,
        by: Option<Tid>,
        batch: &mut TimelineBatch,
    ) {
        if self.selection.holds_who(&who) && self.window.0 <= at && at <= self.window.1 {
            let lane = self.lanes.of(who) as u16;
            let (at, ran) = (at.as_nanos(), ran.map(Moment::as_nanos));
            batch.cpu_waits.push(CpuWait { at, ran, lane, woken, by });
        }
    }

    /// Adds one yield.
    pub fn absorb_yield(&mut self, of: &Yield) {
        let within = self.window.0 <= of.at && of.at <= self.window.1 && self.selection.holds_who(&of.who);
        let Some(target) = of.target.filter(|_| within) else { return };
        let key = (of.who, target);
        if self.named.len() < MAX_KEYS || self.named.contains_key(&key) {
            *self.named.entry(key).or_default() += 1;
        }
    }

    /// Ends one recording: the spans of its vCPUs, and which thread runs which vCPU.
    pub fn end(&mut self, lanes: &[LaneSpan], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        for lane in lanes {
            self.lanes.of(lane.who);
            self.spans.insert(lane.who, (lane.first.max(self.window.0), lane.last.min(self.window.1)));
        }
        self.vcpu_of.extend(vcpu_of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over_time::slowest_by_interval::tests::exit;
    use crate::{Facts, FactsOptions, MomentSpec};
    use exitscope_model::{CodeList, PortAccessForm, Subject, SubjectKind};
    use exitscope_units::Nanos;

    #[test]
    fn exits_that_facts_have_numbered_are_the_same_in_brief() {
        let mut selection = Selection::default();
        selection.vcpus = vec![VcpuId(0), VcpuId(2)];
        selection.from = Some(MomentSpec::After(Nanos(500)));
        selection.longer_than = Some(Nanos(100));
        let (mut alone, mut told) = (TimelineKeys::new(&selection), TimelineKeys::new(&selection));
        let mut facts = Facts::new(&FactsOptions { by: Vec::new(), slowest: 0, selection });
        facts.begin(Moment::default());
        assert_eq!(alone.begin(Moment::default()), told.begin(Moment::default()));
        let mut further = 0;
        let (mut batch, mut briefs_told) = (TimelineBatch::default(), TimelineBatch::default());
        for number in 0..60_000u64 {
            let detail = Subject {
                kind: SubjectKind::Port,
                write: number % 2 == 0,
                form: PortAccessForm::NonString,
                size: 4,
                // More than facts number, from some moment on.
                key: if number < 20_000 { number % 5 } else { number },
                value: number,
            };
            let vcpu = (number / 7 % 3) as u32;
            let of = exit(number, 50 + number % 200);
            let exit = Exit {
                who: VcpuIdentity { vcpu: VcpuId(vcpu), tid: Tid(vcpu), ..of.who },
                code: ExitCode::new(CodeList::Vmx, number % 9),
                subject: (number % 4 != 0).then_some(detail),
                timed: number % 13 != 0,
                parts: of.parts.with(TimePart::Steal, Nanos(number % 3)),
                ..of
            };
            let counted = facts.absorb(&exit);
            further += u64::from(counted.is_some_and(|counted| counted.kind == Some(ExitSlots::UNNUMBERED)));
            if let Some(counted) = counted {
                told.absorb_counted(&exit, counted, &mut briefs_told);
            }
            alone.absorb(&exit, &mut batch);
            assert_eq!(briefs_told.exits.last(), batch.exits.last(), "{number}");
        }
        assert!(batch == briefs_told && batch.parts.len() > 1_000, "{}", batch.parts.len());
        assert!(further > 1_000, "{further}");
        assert_eq!(told.lanes.keys(), alone.lanes.keys());
        assert_eq!(told.causes.keys(), alone.causes.keys());
        assert_eq!(told.reasons.keys(), alone.reasons.keys());
        assert_eq!(alone.causes.keys().len(), CAUSES as usize, "there are more");
    }
}
