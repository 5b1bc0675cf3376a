//! The last minutes of what happens, in bounded memory.
//!
//! ```text
//! events ─► Assembler ─► rows ─► the slice of now ─┐ full
//!                                                  ▼
//!           forgotten ◄─ slice ◄─ … ◄─ slice ◄─ slice          Kept: all of them, merged when somebody asks
//! ```
//!
//! A slice is what a report of that time would be made of; each has its share of a page's rows. An exit is in the slice in
//! which it ended. What is shown is what a report of a recording would say that had begun with the oldest slice.

use super::feed::Feed;
use crate::read::{Sink, name_vcpu, pass_all_beside, vcpu_by_name};
use exitscope_analysis::{Dim, Facts, Selection, Wanted, When};
use exitscope_model::{
    Assembler, Event, Exit, Halt, LaneSpan, Ledger, Line, PleUpdate, Preemption, QueueStay, TraceInfo, Who, Yield,
};
use exitscope_page::{Compression, Contents, OverTime, write_data};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use exitscope_view::{Made, Report, SortKey, TraceRow};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Slices that are kept.
const SLICES: u64 = 30;

/// The slowest exits in the table of the page.
const SLOWEST: usize = 10;

/// vCPUs of which nothing was heard for as long as slices are kept, at most, before they are forgotten.
const MAX_SILENT: usize = 1 << 12;

/// The last minutes.
pub struct Ring {
    keep: Nanos,
    assembler: Assembler,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    info: Arc<TraceInfo>,
    old: VecDeque<Arc<Slice>>,
    now: Slice,
    /// Up to when slices have each vCPU's span.
    spanned: FxHashMap<(VmId, Tid, VcpuId), Moment>,
    /// Up to when events have come.
    until: Moment,
    /// Since the beginning.
    pub exits: u64,
    pub lost: u64,
}

/// What a stretch of time gave.
#[derive(Clone)]
struct Slice {
    begin: Moment,
    facts: Facts,
    over_time: OverTime,
    ledger: Ledger,
    exits: u64,
    timed_exits: u64,
}

/// All of a moment, to be made a page of while the ring goes on.
pub struct Kept {
    old: Vec<Arc<Slice>>,
    now: Slice,
    assembler: Assembler,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    info: Arc<TraceInfo>,
    spanned: FxHashMap<(VmId, Tid, VcpuId), Moment>,
    until: Moment,
}

impl Slice {
    fn new(begin: Moment, keep: Nanos) -> Slice {
        // What began before anything that will be shown with it would only make its buckets of time wide.
        let mut selection = Selection::default();
        selection.from = Some(When::At(before(begin, keep)));
        let (mut facts, mut over_time) = (facts(&selection), OverTime::of_part(&selection, SLICES as usize));
        facts.begin(begin);
        over_time.begin(begin);
        Slice { begin, facts, over_time, ledger: Ledger::default(), exits: 0, timed_exits: 0 }
    }

    fn absorb_rows(&mut self, rows: &mut [Exit], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        for exit in rows {
            name_vcpu(&mut exit.who, vcpu_of);
            self.exits += 1;
            self.timed_exits += u64::from(exit.timed);
            self.facts.absorb(exit);
            self.over_time.absorb(exit);
        }
    }
}

impl Sink for Slice {
    fn begin(&mut self, _first: Moment) {}

    fn absorb(&mut self, exit: &Exit) {
        self.facts.absorb(exit);
        self.over_time.absorb(exit);
    }

    fn halt(&mut self, halt: &Halt) {
        self.facts.absorb_halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.facts.absorb_yield(of);
        self.over_time.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.facts.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.facts.absorb_ple_update(of);
    }

    fn queue_stay(&mut self, stay: &QueueStay) {
        self.facts.absorb_queue_stay(stay);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.facts.absorb_runner_event(event));
    }
}

impl Ring {
    /// Keeps the last `keep` from `begin` on.
    pub fn new(info: TraceInfo, begin: Moment, keep: Nanos) -> Ring {
        Ring {
            keep,
            assembler: Assembler::default(),
            vcpu_of: FxHashMap::default(),
            info: Arc::new(info),
            old: VecDeque::new(),
            now: Slice::new(begin, keep),
            spanned: FxHashMap::default(),
            until: begin,
            exits: 0,
            lost: 0,
        }
    }

    /// Adds what came up to a moment.
    pub fn absorb(&mut self, feed: &Feed, until: Moment) {
        if !feed.named.is_empty() {
            let info = Arc::make_mut(&mut self.info);
            for (thread, name) in &feed.named {
                self.vcpu_of.extend(vcpu_by_name(name).map(|vcpu| (Tid(*thread), vcpu)));
                info.comms.insert(*thread, name.clone());
            }
        }
        self.now.ledger.merge(&feed.ledger);
        self.lost += feed.ledger.get(Line::LostRecords);
        let (mut rows, before) = (Vec::new(), self.now.exits);
        self.assembler.push(&feed.events, &mut rows, &mut self.now.ledger);
        pass_all_beside(&self.assembler, &self.vcpu_of, &mut self.now);
        if self.assembler.is_by_runner() {
            self.now.runner_events(&feed.events);
        }
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.exits += self.now.exits - before;
        self.until = until.max(self.until);
        if self.until.since(self.now.begin).is_some_and(|long| long.0 >= self.keep.0 / SLICES) {
            self.turn();
        }
    }

    /// Everything that is kept.
    pub fn copy(&self) -> Kept {
        Kept {
            old: self.old.iter().cloned().collect(),
            now: self.now.clone(),
            assembler: self.assembler.clone(),
            vcpu_of: self.vcpu_of.clone(),
            info: self.info.clone(),
            spanned: self.spanned.clone(),
            until: self.until,
        }
    }

    /// Puts the slice of now away, and begins the next.
    fn turn(&mut self) {
        let lanes: Vec<LaneSpan> = self.assembler.clone().finish(&mut Vec::new(), &mut Ledger::default());
        self.vcpu_of.extend(self.assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
        let mut slice = std::mem::replace(&mut self.now, Slice::new(self.until, self.keep));
        // Guest time that no exit has ended yet is that exit's, which will be in a later slice.
        let spans: Vec<_> =
            further(&lanes, &self.spanned).map(|lane| LaneSpan { tail_guest: Nanos::ZERO, ..lane }).collect();
        slice.facts.end(slice.begin, self.until, &spans, &self.vcpu_of);
        self.spanned.extend(lanes.iter().map(|lane| (key(&lane.who), lane.last)));
        self.old.push_back(Arc::new(slice));
        let oldest = before(self.until, self.keep);
        // The first one stays until the next one begins before all that is wanted.
        while self.old.get(1).is_some_and(|next| next.begin <= oldest) {
            self.old.pop_front();
        }
        if lanes.iter().filter(|lane| lane.last < oldest).count() > MAX_SILENT {
            self.forget_silent();
        }
    }

    /// Begins anew with vCPUs: exits that are open are counted and have no times.
    fn forget_silent(&mut self) {
        let mut rows = Vec::new();
        self.assembler.finish(&mut rows, &mut self.now.ledger);
        pass_all_beside(&self.assembler, &self.vcpu_of, &mut self.now);
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.assembler = Assembler::default();
        self.vcpu_of.clear();
        self.spanned.clear();
        Arc::make_mut(&mut self.info).comms.clear();
    }
}

impl Kept {
    /// The data of its page.
    pub fn write(mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut rows = Vec::new();
        self.vcpu_of.extend(self.assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
        let lanes = self.assembler.finish(&mut rows, &mut self.now.ledger);
        pass_all_beside(&self.assembler, &self.vcpu_of, &mut self.now);
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        let spans: Vec<_> = further(&lanes, &self.spanned).collect();
        self.now.facts.end(self.now.begin, self.until, &spans, &self.vcpu_of);

        let selection = Selection::default();
        let (mut facts, mut over_time) = (facts(&selection), OverTime::new(&selection));
        let (mut ledger, mut exits, mut timed_exits) = (Ledger::default(), 0, 0);
        let begin = self.old.first().map_or(self.now.begin, |oldest| oldest.begin);
        let slices = self.old.iter().map(|slice| Slice::clone(slice)).chain([self.now]);
        for slice in slices {
            facts.merge(&slice.facts);
            over_time.merge(slice.over_time);
            ledger.merge(&slice.ledger);
            exits += slice.exits;
            timed_exits += slice.timed_exits;
        }
        let heard = lanes.iter().filter(|lane| lane.last >= begin);
        let spans: Vec<_> = heard.map(|lane| LaneSpan { first: lane.first.max(begin), ..*lane }).collect();
        over_time.end(&spans, &self.vcpu_of);
        over_time.forget(begin);

        let name = format!("live on {}", self.info.hostname);
        let trace = TraceRow::of(name, &self.info, &self.info.hostname, (begin, self.until), ledger.events);
        let made = Made {
            exits,
            timed_exits,
            selection,
            sort: SortKey::Cost,
            top: usize::MAX,
            breaches: Vec::new(),
            threads_per_core: None,
            cycles_per_s: None,
        };
        let report = Report::of(&facts, &ledger, vec![trace], &self.info, made);
        let over_time = over_time.finish(true, &self.info);
        let contents = Contents { report, advice: None, polls: None, over_time, drags: None };
        write_data(contents, Compression::fast(), out)
    }
}

/// No facts yet.
fn facts(selection: &Selection) -> Facts {
    Facts::new(&Wanted { by: vec![Dim::Reason], slowest: SLOWEST, selection: selection.clone() })
}

fn before(at: Moment, by: Nanos) -> Moment {
    Moment::from_nanos(at.as_nanos().saturating_sub(by.0))
}

/// A vCPU, whether its number is known by now or not.
fn key(who: &Who) -> (VmId, Tid, VcpuId) {
    (who.vm, who.tid, if who.tid == Tid(0) { who.vcpu } else { VcpuId::UNKNOWN })
}

/// What of the spans lies behind what slices have already.
fn further(lanes: &[LaneSpan], spanned: &FxHashMap<(VmId, Tid, VcpuId), Moment>) -> impl Iterator<Item = LaneSpan> {
    lanes.iter().filter_map(|lane| match spanned.get(&key(&lane.who)) {
        Some(&until) if until >= lane.last => None,
        Some(&until) => Some(LaneSpan { first: until, ..*lane }),
        None => Some(*lane),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Earlier, read};
    use exitscope_model::EventNames;
    use exitscope_trace::{Options, open};
    use flate2::read::GzDecoder;
    use std::io::Read;
    use std::path::PathBuf;

    fn corpus() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/x86-svm/t2.data.gz"))
    }

    /// The report that a ring gives which had the events of a recording, so many at a time.
    fn through_ring(keep: Nanos, batch: usize) -> serde_json::Value {
        let mut source = open(&corpus()).unwrap();
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while source.read(&mut events, &mut ledger).unwrap() {}
        let mut ring = Ring::new(TraceInfo::default(), events[0].at, keep);
        let mut feed = Feed::new(&[], &mut EventNames::default());
        feed.named = source.info().comms.iter().map(|(thread, name)| (*thread, name.clone())).collect();
        feed.ledger = ledger;
        for events in events.chunks(batch) {
            feed.events = events.to_vec();
            ring.absorb(&feed, events[events.len() - 1].at);
            feed.clear();
        }
        let (mut packed, mut bytes) = (Vec::new(), Vec::new());
        ring.copy().write(&mut packed).unwrap();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
        serde_json::from_slice(&rest[..u32::from_le_bytes(*length) as usize]).unwrap()
    }

    #[test]
    fn however_it_is_sliced_it_is_what_a_report_says() {
        let mut earlier = Earlier::default();
        let (trace, mut facts) =
            read(&corpus(), &mut earlier, false, Options::default(), || super::facts(&Selection::default())).unwrap();
        let (first, last) = trace.span.unwrap();
        facts.end(first, last, &trace.lanes, &trace.vcpu_of);
        let made = Made {
            exits: trace.exits,
            timed_exits: trace.timed_exits,
            selection: Selection::default(),
            sort: SortKey::Cost,
            top: usize::MAX,
            breaches: Vec::new(),
            threads_per_core: None,
            cycles_per_s: None,
        };
        let report = Report::of(&facts, &trace.ledger, vec![trace.row], &trace.info, made);
        // As text, because that is what the page is.
        let report: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        for (keep, batch) in [(600_000_000_000, usize::MAX), (10_000_000_000, 1000), (10_000_000_000, 77)] {
            let page = through_ring(Nanos(keep), batch);
            for part in ["total", "vcpus", "rows", "details", "slowest", "halt", "pio", "phases", "duration_ns"] {
                assert_eq!(page["report"][part], report[part], "{keep} {batch}: {part}");
            }
            assert_eq!(page["report"]["coverage"]["exits"], report["coverage"]["exits"]);
            assert_eq!(page["over"]["lanes"].as_array().unwrap().len(), 2);
        }
    }

    #[test]
    fn only_the_last_of_it_is_kept() {
        let keep = Nanos(2_000_000_000);
        let all = through_ring(Nanos(600_000_000_000), 1000);
        let page = through_ring(keep, 1000);
        let number = |of: &serde_json::Value| of.as_u64().unwrap();
        let [exits, of_all] = [&page, &all].map(|page| number(&page["report"]["total"]["count"]));
        assert!(0 < exits && exits < of_all, "{exits} of {of_all}");
        let trace = &page["report"]["traces"][0];
        let long = number(&trace["last_ns"]) - number(&trace["first_ns"]);
        assert!(keep.0 <= long && long <= keep.0 + keep.0 / SLICES * 2, "{long}");
        let base: u64 = page["over"]["base_ns"].as_str().unwrap().parse().unwrap();
        // To the bucket.
        let widest = page["over"]["tables"].as_array().unwrap().iter().map(|table| number(&table["width_ns"])).max();
        assert!(base + widest.unwrap() > number(&trace["first_ns"]), "nothing is older than what is kept");
    }
}
