//! What a page is made of beside [`OverTime`], of a recording or of what happens now.
//!
//! ```text
//! exits, events, … ─► Material ──────────────┬─► judge ──► Advised ─┐
//! halts, yields ────► the last of them ──────┼─► trials ──────┘     ├─► page
//!                                            └─► replay ─► Polls ───┘
//! ```
//!
//! Halts and yields are kept, so that what `advise` and `replay` read a second time for is there.

use crate::advise::judgement;
use exitscope_analysis::advice::{Machine, Material, Trials, TriedLimits, Untried, told_apart};
use exitscope_analysis::replay::{Recorded, Recorder};
use exitscope_analysis::{Counted, Dim, ExitCause, Facts, PollHost, Selection, TraceSink, Wanted};
use exitscope_model::{
    Event, EventKinds, Exit, Halt, PleUpdate, Preemption, QueueStay, Signed, Stretch, TraceInfo, Yield,
};
use exitscope_page::{OverTime, Polls, TimeTables, halt_polls};
use exitscope_pipeline::ReadTrace;
use exitscope_units::Moment;
use exitscope_view::{Advised, Coverage, SelectionRow, TraceRow};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};

/// Halts and yields that are kept of a recording, so many of each (160 MB): to read one of ten million exits again would
/// take longer than all else.
pub const OF_A_RECORDING: usize = 1 << 20;

/// Those that are kept of what happens now (40 MB).
pub const OF_NOW: usize = 1 << 18;

/// Halts that are tried with one limit after the other (64 KB): what one limit does is alike from halt to halt.
const AT_ONCE: usize = 1024;

/// The last of something, and how many there were.
#[derive(Clone, Debug)]
struct Last<T> {
    most: usize,
    kept: VecDeque<T>,
    of: u64,
}

impl<T: Copy> Last<T> {
    fn of_at_most(most: usize) -> Last<T> {
        Last { most, kept: VecDeque::new(), of: 0 }
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

    /// Adds what came next, `adopted`.
    fn merge(&mut self, later: &Last<T>, adopted: impl FnMut(&T) -> T) {
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
    fn room_before(&self, most: usize) -> usize {
        if self.has_all() { most.saturating_sub(self.kept.len()) } else { 0 }
    }
}

/// For how many halts and yields there is room.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    halts: usize,
    yields: usize,
}

impl Room {
    /// For so many of each.
    pub fn of(each: usize) -> Room {
        Room { halts: each, yields: each }
    }
}

/// What a page is made of, but for what happened when.
#[derive(Clone, Debug)]
pub struct Gathered {
    pub material: Material,
    recorder: Recorder,
    halts: Last<Recorded>,
    yields: Last<Yield>,
    first: Moment,
}

impl Gathered {
    /// Nothing yet; of halts and yields, the last `most` of each will be kept.
    pub fn new(wanted: &Wanted, most: usize) -> Gathered {
        let mut material = Material::new(&wanted.selection);
        material.facts = Facts::new(wanted);
        let (halts, yields) = (Last::of_at_most(most), Last::of_at_most(most));
        Gathered { material, recorder: Recorder::default(), halts, yields, first: Moment::default() }
    }

    /// The same by reason, for a page.
    pub fn by_reason(selection: &Selection, slowest: usize, most: usize) -> Gathered {
        Gathered::new(&Wanted { by: vec![Dim::Reason], slowest, selection: selection.clone() }, most)
    }

    /// All of a trace, which was read.
    pub fn ended(mut self, trace: &ReadTrace) -> Gathered {
        let (first, last) = trace.span.unwrap_or_default();
        self.material.end(first, last, &trace.vcpu_of);
        trace.held.iter().for_each(|&(from, to)| self.material.facts.leave_out(from, to));
        self
    }

    /// With another recording. There is no advice on several.
    pub fn with_recording(mut self, other: Gathered) -> Gathered {
        self.material.facts.merge(&other.material.facts);
        self.halts = Last::of_at_most(self.halts.most);
        self.yields = Last::of_at_most(self.yields.most);
        self
    }

    /// Goes on where an earlier stretch of the same recording ended; nothing was absorbed yet.
    pub fn follow(&mut self, before: &Gathered) {
        self.material.follow(&before.material);
        self.recorder = before.recorder.clone();
    }

    /// Adds the next stretch of the same recording, as [`Material::merge`].
    pub fn add_stretch(&mut self, later: &Gathered) {
        self.material.merge(&later.material);
        self.halts.merge(&later.halts, |halt| self.recorder.adopted(&later.recorder, halt));
        self.yields.merge(&later.yields, |of| *of);
    }

    /// Whether there is room for all halts and yields that are kept.
    pub fn fits(&self, room: Room) -> bool {
        self.halts.kept.len() <= room.halts && self.yields.kept.len() <= room.yields
    }

    /// Keeps no more of them than there is room for.
    pub fn fit(&mut self, room: Room) {
        self.halts.keep(room.halts);
        self.yields.keep(room.yields);
    }

    /// What of that is left for the stretch before.
    pub fn room_before(&self, room: Room) -> Room {
        Room { halts: self.halts.room_before(room.halts), yields: self.yields.room_before(room.yields) }
    }

    /// The halts that were kept, many at once.
    fn kept_halts(&self) -> impl Iterator<Item = &[Recorded]> + Clone {
        let (front, back) = self.halts.kept.as_slices();
        front.chunks(AT_ONCE).chain(back.chunks(AT_ONCE))
    }

    /// Takes trials through what was kept.
    fn try_on_kept(&self, trials: &mut Trials) {
        trials.begin(self.first);
        trials.absorb_recorded(self.kept_halts());
        self.yields.kept.iter().for_each(|of| trials.absorb_yield(of));
    }

    /// Takes trials through what was kept, if that is all they need; else has `again` read the recording once more.
    pub fn try_or(
        &self,
        mut trials: Trials,
        again: impl FnOnce(Trials) -> anyhow::Result<Trials>,
    ) -> anyhow::Result<Trials> {
        if !self.halts.has_all() || !self.yields.has_all() || trials.need_core_runs() {
            return again(trials);
        }
        self.try_on_kept(&mut trials);
        Ok(trials)
    }

    /// Takes trials through what was kept, and leaves out what was not.
    pub fn try_without(&self, mut trials: Trials) -> Trials {
        let (halts, yields) = (!self.halts.has_all(), !self.yields.has_all());
        trials.leave_out(Untried { halts, yields, core_runs: true });
        self.try_on_kept(&mut trials);
        trials
    }

    /// What to change, and what was tried to know it. `tried` takes trials through the recording.
    pub fn advise(
        &self,
        trace: &TraceRow,
        coverage: Coverage,
        selection: &Selection,
        info: &TraceInfo,
        tried: impl FnOnce(Trials) -> anyhow::Result<Trials>,
    ) -> anyhow::Result<(Advised, TriedLimits)> {
        let (judgement, trials) = judgement(&self.material, trace, info, tried)?;
        let advised =
            Advised::of(&judgement, trace.clone(), coverage, SelectionRow::of(selection), (&self.material.facts, info));
        Ok((advised, trials.limits()))
    }

    /// What other limits of polling would have made of the halts; `tried` waits for those that advice tries.
    fn polls(&self, info: &TraceInfo, is_xen: bool, tried: impl FnOnce() -> TriedLimits) -> Option<Polls> {
        // Xen does not poll for halted vCPUs, and its guests have no cpuidle governor haltpoll.
        if is_xen {
            return None;
        }
        let host = PollHost::of(info);
        let halts = &self.material.facts.halts;
        // Advice is on all halts.
        halt_polls(halts, self.kept_halts(), &host, self.halts.has_all().then_some(tried))
    }

    /// All that takes long, at once: what is `advised`, the replay of polling, what happened when. There is a time axis if there is one
    /// trace.
    pub fn finish<A>(
        &self,
        advised: impl FnOnce() -> anyhow::Result<(A, TriedLimits)>,
        over_time: impl FnOnce() -> OverTime + Send,
        traces: &[TraceRow],
        info: &TraceInfo,
    ) -> anyhow::Result<(A, Option<Polls>, TimeTables)> {
        let machine = traces.first().map_or(Machine::default(), |trace| trace.machine(info));
        let is_xen = machine.xen;
        let is_qemu = self.material.has_qemu(&machine);
        let apart = |cause: &ExitCause| told_apart(&machine, is_qemu, cause);
        thread::scope(|scope| {
            let over_time = scope.spawn(move || over_time().finish(traces.len() == 1, info, apart));
            let (send, tried) = channel();
            // Where there is no advice, nothing was tried.
            let polls = scope.spawn(move || self.polls(info, is_xen, || tried.recv().unwrap_or_default()));
            let (advised, tried) = advised()?;
            // Nobody waits for it where there are no halts.
            let _ = send.send(tried);
            Ok((advised, joined(polls), joined(over_time)))
        })
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

impl TraceSink for Gathered {
    fn begin(&mut self, first: Moment) {
        self.first = first;
        self.material.begin(first);
    }

    fn note_event_kinds(&mut self, kinds: EventKinds) {
        self.material.heard(kinds);
    }

    #[inline]
    fn schedule(&mut self, event: &Event) {
        self.material.facts.schedule(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.material.absorb(exit);
    }

    #[inline]
    fn count(&mut self, exit: &Exit) -> Option<Counted> {
        self.material.absorb(exit)
    }

    fn stretch(&mut self, stretch: &Stretch) {
        self.material.facts.absorb_stretch(stretch);
    }

    fn halt(&mut self, halt: &Halt) {
        if self.material.absorb_halt(halt) {
            self.halts.push(self.recorder.recorded(halt));
        }
    }

    fn yielded(&mut self, of: &Yield) {
        if self.material.absorb_yield(of) {
            self.yields.push(*of);
        }
    }

    fn preempted(&mut self, of: &Preemption) {
        self.material.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.material.absorb_ple_update(of);
    }

    fn sign(&mut self, of: &Signed) {
        self.material.absorb_sign(of);
    }

    fn queue_stay(&mut self, stay: &QueueStay) {
        self.material.facts.absorb_queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.material.facts.absorb_runner_event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{Told, Who};
    use exitscope_units::{Nanos, Tid, VcpuId, VmId};

    /// A stretch of so many halts, from a moment on.
    fn halts(from: u64, many: u64) -> Gathered {
        let mut gathered = Gathered::by_reason(&Selection::default(), 0, OF_NOW);
        for at in (from..from + many).map(Moment::from_nanos) {
            let who = Who { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
            // As long as the moment is late.
            let told = Some(Told { length: Nanos(at.as_nanos()), waited: false, valid: true });
            let halt = Halt {
                who,
                begin: at,
                asleep: None,
                woken: None,
                told,
                change: None,
                kicked: false,
                end: at,
                entered: None,
            };
            gathered.halt(&halt);
        }
        gathered
    }

    /// The moments of what is kept, first and last, and how many there were.
    fn kept(gathered: &Gathered) -> (Option<(u64, u64)>, u64) {
        let Last { kept, of, .. } = &gathered.halts;
        (kept.front().zip(kept.back()).map(|(a, b)| (a.length().0, b.length().0)), *of)
    }

    #[test]
    fn the_last_halts_are_kept_without_a_gap() {
        let most = OF_NOW as u64;
        let stretches = [halts(0, 10), halts(10, most - 10), halts(most, 7), halts(most + 7, most + 3)];
        let mut all = Gathered::by_reason(&Selection::default(), 0, OF_NOW);
        let wanted = [(0, 9), (0, most - 1), (7, most + 6), (most + 10, 2 * most + 9)];
        for (stretch, (first, last)) in stretches.iter().zip(wanted) {
            all.add_stretch(stretch);
            assert_eq!(kept(&all), (Some((first, last)), last + 1));
            assert_eq!(all.halts.has_all(), last < most);
        }
        // One that lost some leaves no use for what came before, though there would be room.
        let mut lost = halts(10, 10);
        lost.fit(Room { halts: 4, yields: 0 });
        let mut all = halts(0, 10);
        all.add_stretch(&lost);
        assert_eq!(kept(&all), (Some((16, 19)), 20));
    }

    #[test]
    fn stretches_share_the_room_the_last_ones_first() {
        let mut stretches = [halts(0, 10), halts(10, 10), halts(20, 10)];
        let mut room = Room { halts: 14, yields: 0 };
        let fits: Vec<bool> = stretches
            .iter_mut()
            .rev()
            .map(|stretch| {
                let fits = stretch.fits(room);
                stretch.fit(room);
                room = stretch.room_before(room);
                fits
            })
            .collect();
        assert_eq!(fits, [true, false, false]);
        assert_eq!(stretches.each_ref().map(|stretch| kept(stretch).0), [None, Some((16, 19)), Some((20, 29))]);
    }

    #[test]
    fn limits_that_were_tried_for_advice_are_what_the_slider_would_have_tried() {
        for vms in [1, 2] {
            let mut gathered = Gathered::by_reason(&Selection::default(), 0, OF_NOW);
            gathered.begin(Moment::default());
            for number in 0..400 {
                // 1 us to 1 ms, from 150 us on asleep.
                let gap = 1_000 << (number % 11);
                let waited = gap > 150_000;
                let moment = |after| Moment::from_nanos(number * 5_000_000 + after);
                let who = Who {
                    vm: VmId((number % vms) as u32),
                    vcpu: VcpuId((number % 3) as u32),
                    tid: Tid((number % 6) as u32),
                };
                // Now and then something is pending, and KVM tells of no halt.
                let told = (number % 13 != 5).then_some(Told { length: Nanos(gap), waited, valid: number % 7 != 0 });
                let (asleep, woken) = (waited.then(|| moment(150_000)), waited.then(|| moment(gap - 9_000)));
                let (end, entered) = (moment(gap), Some(moment(gap + 2_000)));
                let (change, kicked) = (None, false);
                gathered.halt(&Halt { who, begin: moment(0), asleep, woken, told, change, kicked, end, entered });
            }
            gathered.material.sum_up();
            let info = TraceInfo::default();
            let trace = TraceRow::of("t".to_string(), &info, "", Default::default(), 400);
            let (_, trials) =
                judgement(&gathered.material, &trace, &info, |trials| Ok(gathered.try_without(trials))).unwrap();
            let tried = trials.limits();
            assert_eq!((tried.host.len(), tried.guest.len()), (8, if vms == 1 { 5 } else { 0 }));
            let json = |tried| serde_json::to_string(&gathered.polls(&info, false, || tried).unwrap()).unwrap();
            assert_eq!(json(tried), json(TriedLimits::default()));
        }
    }
}
