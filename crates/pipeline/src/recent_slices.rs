//! The last minutes of what happens, in bounded memory.
//!
//! ```text
//! events ─► Assembler ─► rows ─► the slice of now ─┐ full
//!                                                  ▼
//!           forgotten ◄─ slice ◄─ … ◄─ slice ◄─ slice          SliceSnapshot: all of them, merged when somebody asks
//! ```
//!
//! A slice is what a report of that time would be made of; each has its share of a page's rows. An exit is in the slice in
//! which it ended. What is shown is what a report of a recording would say that had begun with the oldest slice. Of halts and
//! yields, the last ones are kept, whatever slices they are of: where that is not all, advice goes without trying settings on
//! them.

use crate::{SampleDecoder, pass_halts_and_yields};
use exitscope_advice::{KeepLimits, MAX_KEPT_LIVE, PageFacts};
use exitscope_analysis::over_time::Timelines;
use exitscope_analysis::{MomentSpec, Selection, TraceSink};
use exitscope_model::{Assembler, BesideRow, Exit, LaneSpan, Ledger, LedgerLine, TraceInfo, vcpu_by_name};
use exitscope_units::{Moment, Nanos, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Slices that are kept.
const SLICES: u64 = 30;

/// The slowest exits in the table of the page.
const SLOWEST: usize = 10;

/// vCPUs of which nothing was heard for as long as slices are kept, at most, before they are forgotten.
const MAX_SILENT: usize = 1 << 12;

/// The last minutes.
pub struct RecentSlices {
    keep: Nanos,
    assembler: Assembler,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    info: Arc<TraceInfo>,
    old: VecDeque<Arc<Slice>>,
    now: Slice,
    /// Up to when events have come.
    until: Moment,
    /// Exits since the beginning.
    pub exits: u64,
    /// Records lost since the beginning.
    pub lost: u64,
}

/// What a stretch of time gave.
#[derive(Clone)]
struct Slice {
    begin: Moment,
    sums: (PageFacts, Timelines),
    ledger: Ledger,
    exits: u64,
    timed_exits: u64,
}

/// All of a moment, to be made a page of while the ring goes on.
pub struct SliceSnapshot {
    old: Vec<Arc<Slice>>,
    now: Slice,
    assembler: Assembler,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    info: Arc<TraceInfo>,
    until: Moment,
}

/// What slices hold together.
pub struct MergedSlices {
    /// What a page is made of, but for what happened when.
    pub page: PageFacts,
    /// What happened when.
    pub over_time: Timelines,
    /// What was not used, and why.
    pub ledger: Ledger,
    /// Exits made.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed_exits: u64,
    /// This host.
    pub info: Arc<TraceInfo>,
    /// When the oldest slice began, and up to when events came.
    pub ends: (Moment, Moment),
}

impl Slice {
    fn new(begin: Moment, keep: Nanos) -> Slice {
        // What began before anything that will be shown with it would only make its buckets of time wide.
        let mut selection = Selection::default();
        selection.from = Some(MomentSpec::At(before(begin, keep)));
        let over_time = Timelines::of_part(&selection, SLICES as usize);
        let mut sums = (PageFacts::by_reason(&selection, SLOWEST, MAX_KEPT_LIVE), over_time);
        sums.begin(begin);
        Slice { begin, sums, ledger: Ledger::default(), exits: 0, timed_exits: 0 }
    }

    fn absorb_rows(&mut self, rows: &mut [Exit], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        for exit in rows {
            exit.who = exit.who.completed(vcpu_of);
            self.exits += 1;
            self.timed_exits += u64::from(exit.timed);
            self.sums.absorb(exit);
        }
    }

    /// Says that it is over.
    fn end(&mut self, until: Moment, vcpu_of: &FxHashMap<Tid, VcpuId>) {
        // What is known by VM is summed up of all slices together.
        self.sums.0.advice_input.facts.end(self.begin, until, vcpu_of);
    }
}

impl RecentSlices {
    /// Keeps the last `keep` from `begin` on.
    pub fn new(info: TraceInfo, begin: Moment, keep: Nanos) -> RecentSlices {
        RecentSlices {
            keep,
            assembler: assembler(&info),
            vcpu_of: FxHashMap::default(),
            info: Arc::new(info),
            old: VecDeque::new(),
            now: Slice::new(begin, keep),
            until: begin,
            exits: 0,
            lost: 0,
        }
    }

    /// Adds what came up to a moment.
    pub fn absorb(&mut self, decoder: &SampleDecoder, until: Moment) {
        if !decoder.named.is_empty() {
            let info = Arc::make_mut(&mut self.info);
            for (thread, name) in &decoder.named {
                self.vcpu_of.extend(vcpu_by_name(name).map(|vcpu| (Tid(*thread), vcpu)));
                info.comms.insert(*thread, name.clone());
            }
        }
        self.now.ledger.merge(&decoder.ledger);
        self.lost += decoder.ledger.get(LedgerLine::LostRecords);
        let (mut rows, before) = (Vec::new(), self.now.exits);
        self.assembler.push(&decoder.events, &mut rows, &mut self.now.ledger);
        pass_halts_and_yields(&self.assembler, &self.vcpu_of, &mut self.now.sums);
        if self.assembler.is_by_runner() {
            let events = decoder.events.iter();
            events.for_each(|event| self.now.sums.beside_row(BesideRow::RunnerEvent(event)));
        }
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.exits += self.now.exits - before;
        self.until = until.max(self.until);
        if self.until.since(self.now.begin).is_some_and(|long| long.0 >= self.keep.0 / SLICES) {
            self.turn();
        }
    }

    /// Everything that is kept.
    pub fn copy(&self) -> SliceSnapshot {
        SliceSnapshot {
            old: self.old.iter().cloned().collect(),
            now: self.now.clone(),
            assembler: self.assembler.clone(),
            vcpu_of: self.vcpu_of.clone(),
            info: self.info.clone(),
            until: self.until,
        }
    }

    /// Puts the slice of now away, and begins the next.
    fn turn(&mut self) {
        self.vcpu_of.extend(self.assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
        let mut slice = std::mem::replace(&mut self.now, Slice::new(self.until, self.keep));
        // Time of exits that are still open will be in a later slice.
        slice.end(self.until, &self.vcpu_of);
        self.now.sums.0.follow(&slice.sums.0);
        self.old.push_back(Arc::new(slice));
        let oldest = before(self.until, self.keep);
        // The first one stays until the next one begins before all that is wanted.
        while self.old.get(1).is_some_and(|next| next.begin <= oldest) {
            self.old.pop_front();
        }
        let mut limits = KeepLimits::of(MAX_KEPT_LIVE);
        for slice in self.old.iter_mut().rev() {
            if !slice.sums.0.is_within(limits) {
                Arc::make_mut(slice).sums.0.truncate_to(limits);
            }
            limits = slice.sums.0.limits_before(limits);
        }
        if self.assembler.silent_since(oldest) > MAX_SILENT {
            self.forget_silent();
        }
    }

    /// Begins anew with vCPUs: exits that are open are counted and have no times.
    fn forget_silent(&mut self) {
        let mut rows = Vec::new();
        self.assembler.finish(&mut rows, &mut self.now.ledger);
        pass_halts_and_yields(&self.assembler, &self.vcpu_of, &mut self.now.sums);
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.assembler = assembler(&self.info);
        self.vcpu_of.clear();
        Arc::make_mut(&mut self.info).comms.clear();
    }
}

impl SliceSnapshot {
    /// All of it together, as if it were one recording.
    pub fn merged(mut self) -> MergedSlices {
        let mut rows = Vec::new();
        self.vcpu_of.extend(self.assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
        let lanes = self.assembler.finish(&mut rows, &mut self.now.ledger);
        pass_halts_and_yields(&self.assembler, &self.vcpu_of, &mut self.now.sums);
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.now.end(self.until, &self.vcpu_of);

        let selection = Selection::default();
        let begin = self.old.first().map_or(self.now.begin, |oldest| oldest.begin);
        let mut all = MergedSlices {
            page: PageFacts::by_reason(&selection, SLOWEST, MAX_KEPT_LIVE),
            over_time: Timelines::new(&selection),
            ledger: Ledger::default(),
            exits: 0,
            timed_exits: 0,
            info: self.info,
            ends: (begin, self.until),
        };
        for slice in self.old.iter().map(|slice| &**slice).chain([&self.now]) {
            all.page.add_stretch(&slice.sums.0);
            all.over_time.merge(slice.sums.1.clone());
            all.ledger.merge(&slice.ledger);
            all.exits += slice.exits;
            all.timed_exits += slice.timed_exits;
        }
        all.page.advice_input.sum_up();
        let heard = lanes.iter().filter(|lane| lane.last >= begin);
        let spans: Vec<_> = heard.map(|lane| LaneSpan { first: lane.first.max(begin), ..*lane }).collect();
        all.over_time.end(&spans, &self.vcpu_of);
        all.over_time.forget(begin);
        all
    }
}

/// An assembler that knows what is recorded.
fn assembler(info: &TraceInfo) -> Assembler {
    let mut assembler = Assembler::default();
    assembler.know(info);
    assembler
}

fn before(at: Moment, by: Nanos) -> Moment {
    Moment::from_nanos(at.as_nanos().saturating_sub(by.0))
}
