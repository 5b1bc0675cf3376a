//! What a page, or a report with advice, is made of beside what happened when: of a recording, or of what happens now.
//!
//! ```text
//! exits, events, … ─► AdviceInput ──────────► judge
//! halts, yields ────► the last of them ─────► trials, replays of polling
//! ```
//!
//! Halts and yields are kept, so that what `advise` and `replay` read a second time for is there.

use crate::{AdviceInput, SkippedTrials, Trials};
use exitscope_analysis::replay::{HaltNumbering, RecordedHalt};
use exitscope_analysis::{Dimension, ExitSlots, Facts, FactsOptions, Selection, TraceSink};
use exitscope_model::{BesideRow, EventKinds, Exit, Yield};
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Halts and yields that are kept of a recording, so many of each (160 MB): to read one of ten million exits again would
/// take longer than all else.
pub const MAX_KEPT_RECORDING: usize = 1 << 20;

/// Those that are kept of what happens now (40 MB).
pub const MAX_KEPT_LIVE: usize = 1 << 18;

/// Halts that are tried with one limit after the other (64 KB): what one limit does is alike from halt to halt.
const HALTS_PER_BATCH: usize = 1024;

/// The last of something, and how many there were.
#[derive(Clone, Debug)]
struct RecentWindow<T> {
    most: usize,
    kept: VecDeque<T>,
    of: u64,
}

impl<T: Copy> RecentWindow<T> {
    fn of_at_most(most: usize) -> RecentWindow<T> {
        RecentWindow { most, kept: VecDeque::new(), of: 0 }
    }

    fn push(&mut self, one: T) {
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(one);
        self.of += 1;
    }

    fn has_all(&self) -> bool {
        self.of == self.kept.len() as u64
    }

    /// Adds what came next, renumbered.
    fn merge(&mut self, later: &RecentWindow<T>, adopted: impl FnMut(&T) -> T) {
        if !later.has_all() {
            // What is kept is without a gap.
            self.kept.clear();
        }
        self.kept.extend(later.kept.iter().map(adopted));
        self.keep(self.most);
        self.of += later.of;
    }

    /// Keeps no more than the last so many.
    fn keep(&mut self, most: usize) {
        self.kept.drain(..self.kept.len().saturating_sub(most));
    }

    /// Of how many that came before there is room: of none if a gap would lie between.
    fn limits_before(&self, most: usize) -> usize {
        if self.has_all() { most.saturating_sub(self.kept.len()) } else { 0 }
    }
}

/// How many halts and yields may be kept.
#[derive(Clone, Copy, Debug)]
pub struct KeepLimits {
    halts: usize,
    yields: usize,
}

impl KeepLimits {
    /// So many of each.
    pub fn of(each: usize) -> KeepLimits {
        KeepLimits { halts: each, yields: each }
    }
}

/// What a page is made of, but for what happened when.
#[derive(Clone, Debug)]
pub struct PageFacts {
    /// What rules look at, facts among it.
    pub advice_input: AdviceInput,
    recorder: HaltNumbering,
    halts: RecentWindow<RecordedHalt>,
    yields: RecentWindow<Yield>,
    first: Moment,
}

impl PageFacts {
    /// Nothing yet; of halts and yields, the last `most` of each will be kept.
    pub fn new(wanted: &FactsOptions, most: usize) -> PageFacts {
        let mut advice_input = AdviceInput::new(&wanted.selection);
        advice_input.facts = Facts::new(wanted);
        let (halts, yields) = (RecentWindow::of_at_most(most), RecentWindow::of_at_most(most));
        PageFacts { advice_input, recorder: HaltNumbering::default(), halts, yields, first: Moment::default() }
    }

    /// The same by reason, for a page.
    pub fn by_reason(selection: &Selection, slowest: usize, most: usize) -> PageFacts {
        PageFacts::new(&FactsOptions { by: vec![Dimension::Reason], slowest, selection: selection.clone() }, most)
    }

    /// Ends one recording: from its first to its last event, but for the stretches that earlier recordings hold.
    pub fn end(&mut self, span: Option<(Moment, Moment)>, held: &[(Moment, Moment)], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        let (first, last) = span.unwrap_or_default();
        self.advice_input.end(first, last, vcpu_of);
        held.iter().for_each(|&(from, to)| self.advice_input.facts.leave_out(from, to));
    }

    /// With another recording. There is no advice on several.
    pub fn with_recording(mut self, other: PageFacts) -> PageFacts {
        self.advice_input.facts.merge(&other.advice_input.facts);
        self.halts = RecentWindow::of_at_most(self.halts.most);
        self.yields = RecentWindow::of_at_most(self.yields.most);
        self
    }

    /// Goes on where an earlier stretch of the same recording ended; nothing was absorbed yet.
    pub fn follow(&mut self, before: &PageFacts) {
        let PageFacts { advice_input, recorder, halts: _, yields: _, first: _ } = before;
        self.advice_input.follow(advice_input);
        self.recorder = recorder.clone();
    }

    /// Adds the next stretch of the same recording, as [`AdviceInput::merge`].
    pub fn add_stretch(&mut self, later: &PageFacts) {
        self.advice_input.merge(&later.advice_input);
        self.halts.merge(&later.halts, |halt| self.recorder.renumber(&later.recorder, halt));
        self.yields.merge(&later.yields, |of| *of);
    }

    /// Whether no more halts and yields are kept than may be.
    pub fn is_within(&self, limits: KeepLimits) -> bool {
        self.halts.kept.len() <= limits.halts && self.yields.kept.len() <= limits.yields
    }

    /// Keeps no more of them than may be.
    pub fn truncate_to(&mut self, limits: KeepLimits) {
        self.halts.keep(limits.halts);
        self.yields.keep(limits.yields);
    }

    /// How many of these the stretch before may keep.
    pub fn limits_before(&self, limits: KeepLimits) -> KeepLimits {
        KeepLimits { halts: self.halts.limits_before(limits.halts), yields: self.yields.limits_before(limits.yields) }
    }

    /// The halts that were kept, many at once.
    pub fn kept_halts(&self) -> impl Iterator<Item = &[RecordedHalt]> + Clone {
        let (front, back) = self.halts.kept.as_slices();
        front.chunks(HALTS_PER_BATCH).chain(back.chunks(HALTS_PER_BATCH))
    }

    /// Whether all halts were kept.
    pub fn has_all_halts(&self) -> bool {
        self.halts.has_all()
    }

    /// Takes trials through what was kept.
    fn try_on_kept(&self, trials: &mut Trials) {
        trials.begin(self.first);
        trials.absorb_recorded(self.kept_halts());
        self.yields.kept.iter().for_each(|of| trials.absorb_yield(of));
    }

    /// Takes trials through what was kept, if that is all they need; else has `again` read the recording once more.
    pub fn replay_kept_or_reread<E>(
        &self,
        mut trials: Trials,
        again: impl FnOnce(Trials) -> Result<Trials, E>,
    ) -> Result<Trials, E> {
        if !self.halts.has_all() || !self.yields.has_all() || trials.need_core_runs() {
            return again(trials);
        }
        self.try_on_kept(&mut trials);
        Ok(trials)
    }

    /// Takes trials through what was kept, and leaves out what was not.
    pub fn replay_kept_only(&self, mut trials: Trials) -> Trials {
        let (halts, yields) = (!self.halts.has_all(), !self.yields.has_all());
        trials.leave_out(SkippedTrials { halts, yields, core_runs: true });
        self.try_on_kept(&mut trials);
        trials
    }
}

impl TraceSink for PageFacts {
    fn begin(&mut self, first: Moment) {
        self.first = first;
        self.advice_input.begin(first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.advice_input.note_event_kinds(kinds);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.advice_input.absorb(exit);
    }

    #[inline]
    fn count(&mut self, exit: &Exit) -> Option<ExitSlots> {
        self.advice_input.absorb(exit)
    }

    #[inline]
    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::Halt(halt) if self.advice_input.absorb_halt(halt) => {
                self.halts.push(self.recorder.recorded(halt))
            }
            BesideRow::Yield(of) if self.advice_input.absorb_yield(of) => self.yields.push(*of),
            BesideRow::Halt(_) | BesideRow::Yield(_) => {}
            other => self.advice_input.beside_row(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{Halt, VcpuIdentity, VcpuWakeup};
    use exitscope_units::{Nanos, Tid, VcpuId, VmId};

    /// A stretch of so many halts, from a moment on.
    fn halts(from: u64, many: u64) -> PageFacts {
        let mut gathered = PageFacts::by_reason(&Selection::default(), 0, MAX_KEPT_LIVE);
        for at in (from..from + many).map(Moment::from_nanos) {
            let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
            // As long as the moment is late.
            let wakeup = Some(VcpuWakeup { length: Nanos(at.as_nanos()), waited: false, valid: true, may_poll: true });
            let halt = Halt {
                who,
                begin: at,
                asleep: None,
                woken: None,
                vcpu_wakeup: wakeup,
                change: None,
                kicked: false,
                ipi: None,
                end: at,
                entered: None,
            };
            gathered.beside_row(BesideRow::Halt(&halt));
        }
        gathered
    }

    /// The moments of what is kept, first and last, and how many there were.
    fn kept(gathered: &PageFacts) -> (Option<(u64, u64)>, u64) {
        let RecentWindow { kept, of, .. } = &gathered.halts;
        (kept.front().zip(kept.back()).map(|(a, b)| (a.length().0, b.length().0)), *of)
    }

    #[test]
    fn the_last_halts_are_kept_without_a_gap() {
        let most = MAX_KEPT_LIVE as u64;
        let stretches = [halts(0, 10), halts(10, most - 10), halts(most, 7), halts(most + 7, most + 3)];
        let mut all = PageFacts::by_reason(&Selection::default(), 0, MAX_KEPT_LIVE);
        let wanted = [(0, 9), (0, most - 1), (7, most + 6), (most + 10, 2 * most + 9)];
        for (interval, (first, last)) in stretches.iter().zip(wanted) {
            all.add_stretch(interval);
            assert_eq!(kept(&all), (Some((first, last)), last + 1));
            assert_eq!(all.halts.has_all(), last < most);
        }
        // One that lost some leaves no use for what came before, though there would be room.
        let mut lost = halts(10, 10);
        lost.truncate_to(KeepLimits { halts: 4, yields: 0 });
        let mut all = halts(0, 10);
        all.add_stretch(&lost);
        assert_eq!(kept(&all), (Some((16, 19)), 20));
    }

    #[test]
    fn stretches_share_the_room_the_last_ones_first() {
        let mut stretches = [halts(0, 10), halts(10, 10), halts(20, 10)];
        let mut limits = KeepLimits { halts: 14, yields: 0 };
        let fits: Vec<bool> = stretches
            .iter_mut()
            .rev()
            .map(|interval| {
                let fits = interval.is_within(limits);
                interval.truncate_to(limits);
                limits = interval.limits_before(limits);
                fits
            })
            .collect();
        assert_eq!(fits, [true, false, false]);
        assert_eq!(stretches.each_ref().map(|interval| kept(interval).0), [None, Some((16, 19)), Some((20, 29))]);
    }
}
