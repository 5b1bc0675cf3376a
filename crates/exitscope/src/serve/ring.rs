//! The last minutes of what happens, in bounded memory.
//!
//! ```text
//! events ─► Assembler ─► rows ─► the slice of now ─┐ full
//!                                                  ▼
//!           forgotten ◄─ slice ◄─ … ◄─ slice ◄─ slice          Kept: all of them, merged when somebody asks
//! ```
//!
//! A slice is what a report of that time would be made of; each has its share of a page's rows. An exit is in the slice in
//! which it ended. What is shown is what a report of a recording would say that had begun with the oldest slice. Of halts and
//! yields, the last ones are kept, whatever slices they are of: where that is not all, advice goes without trying settings on
//! them.

use super::feed::Feed;
use crate::page_parts;
use exitscope_analysis::{Selection, TraceSink, When};
use exitscope_model::{Assembler, Exit, LaneSpan, Ledger, Line, TraceInfo, vcpu_by_name};
use exitscope_page::{Compression, Contents, OverTime, write_data};
use exitscope_pipeline::{KeepLimits, MAX_KEPT_LIVE, PageFacts, pass_halts_and_yields};
use exitscope_units::{Moment, Nanos, Tid, VcpuId};
use exitscope_view::{Coverage, Made, Report, SortKey, TraceRow};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
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
    sums: (PageFacts, OverTime),
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
    until: Moment,
}

impl Slice {
    fn new(begin: Moment, keep: Nanos) -> Slice {
        // What began before anything that will be shown with it would only make its buckets of time wide.
        let mut selection = Selection::default();
        selection.from = Some(When::At(before(begin, keep)));
        let over_time = OverTime::of_part(&selection, SLICES as usize);
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
        self.sums.0.material.facts.end(self.begin, until, vcpu_of);
    }
}

impl Ring {
    /// Keeps the last `keep` from `begin` on.
    pub fn new(info: TraceInfo, begin: Moment, keep: Nanos) -> Ring {
        Ring {
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
        pass_halts_and_yields(&self.assembler, &self.vcpu_of, &mut self.now.sums);
        if self.assembler.is_by_runner() {
            self.now.sums.runner_events(&feed.events);
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

impl Kept {
    /// The data of its page.
    pub fn write(mut self, out: &mut dyn io::Write) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        self.vcpu_of.extend(self.assembler.vcpus().filter(|who| who.tid != Tid(0)).map(|who| (who.tid, who.vcpu)));
        let lanes = self.assembler.finish(&mut rows, &mut self.now.ledger);
        pass_halts_and_yields(&self.assembler, &self.vcpu_of, &mut self.now.sums);
        self.now.absorb_rows(&mut rows, &self.vcpu_of);
        self.now.end(self.until, &self.vcpu_of);

        let selection = Selection::default();
        let (mut page, mut over_time) =
            (PageFacts::by_reason(&selection, SLOWEST, MAX_KEPT_LIVE), OverTime::new(&selection));
        let (mut ledger, mut exits, mut timed_exits) = (Ledger::default(), 0, 0);
        let begin = self.old.first().map_or(self.now.begin, |oldest| oldest.begin);
        for slice in self.old.iter().map(|slice| &**slice).chain([&self.now]) {
            page.add_stretch(&slice.sums.0);
            over_time.merge(slice.sums.1.clone());
            ledger.merge(&slice.ledger);
            exits += slice.exits;
            timed_exits += slice.timed_exits;
        }
        page.material.sum_up();
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
            emulations: false,
            functions: BTreeMap::new(),
        };
        let advised = || {
            let coverage = Coverage::of(&ledger, exits, timed_exits);
            let tried = |trials| Ok(page.replay_kept_only(trials));
            page_parts::advise(&page, &trace, coverage, &Selection::default(), &self.info, tried)
        };
        let traces = std::slice::from_ref(&trace);
        let (advice, polls, over_time) = page_parts::finish(&page, advised, || over_time, traces, &self.info)?;
        let facts = &page.material.facts;
        let mut report = Report::of(facts, &ledger, vec![trace], &self.info, made);
        report.add_advice(facts, &self.info, &advice);
        let contents = Contents { report, advice: Some(&advice), polls: polls.as_ref(), over_time, drags: None };
        Ok(write_data(contents, Compression::fast(), out)?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, ReportArgs};
    use crate::html::look_at;
    use clap::Parser;
    use exitscope_model::EventNames;
    use exitscope_trace::{Input, open};
    use flate2::read::GzDecoder;
    use serde_json::Value;
    use std::fmt::Write;
    use std::io::Read;
    use std::path::{Path, PathBuf};

    /// Longer than any of the recordings, thirty times.
    const LONG: Nanos = Nanos(600_000_000_000);

    fn corpus(name: &str) -> PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus")).join(name)
    }

    /// What a page's data is, but for columns.
    fn unpacked(packed: &[u8]) -> Value {
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
        serde_json::from_slice(&rest[..u32::from_le_bytes(*length) as usize]).unwrap()
    }

    /// The page that a ring gives which had the events of a recording, so many at a time.
    fn through_ring(path: &Path, keep: Nanos, batch: usize) -> Value {
        let mut source = open(path).unwrap();
        let (mut events, mut ledger) = (Vec::new(), Ledger::default());
        while source.read(&mut events, &mut ledger).unwrap() {}
        let mut ring = Ring::new(source.info().clone(), events[0].at, keep);
        let mut feed = Feed::new(&[], &mut EventNames::default());
        feed.named = source.info().comms.iter().map(|(thread, name)| (*thread, name.clone())).collect();
        feed.ledger = ledger;
        for events in events.chunks(batch) {
            feed.events = events.to_vec();
            ring.absorb(&feed, events[events.len() - 1].at);
            feed.clear();
        }
        let mut packed = Vec::new();
        ring.copy().write(&mut packed).unwrap();
        unpacked(&packed)
    }

    /// The page of a recording.
    fn page_of(path: &Path) -> Value {
        let args = ReportArgs { slowest: Some(SLOWEST), top: Some(usize::MAX), ..ReportArgs::default() };
        let mut packed = Vec::new();
        let inputs = [Input::open(path).unwrap()];
        look_at(&args, &inputs, |contents| Ok(write_data(contents, Compression::fast(), &mut packed)?)).unwrap();
        unpacked(&packed)
    }

    /// A recording of a simulated run.
    fn simulated(folder: &Path, scenario: &str) -> PathBuf {
        let (text, trace) = (folder.join("scenario.toml"), folder.join("run.data"));
        std::fs::write(&text, scenario).unwrap();
        let args = ["exitscope", "sim", text.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
        let Command::Sim(args) = Cli::try_parse_from(args).unwrap().command else { panic!("that is sim") };
        crate::sim::run(&args, &mut Vec::new()).unwrap();
        trace
    }

    /// Whether a ring, in one slice and in many, says what a page of the recording says. Returns the latter.
    fn same_in_any_slices(path: &Path) -> Value {
        let wanted = page_of(path);
        let trace = &wanted["report"]["traces"][0];
        let [first, last] = ["first_ns", "last_ns"].map(|end| trace[end].as_u64().unwrap());
        let many = Nanos(last - first + 1);
        for (keep, batch) in [(LONG, usize::MAX), (many, 1000), (many, 77)] {
            let page = through_ring(path, keep, batch);
            for part in
                ["total", "vcpus", "rows", "subjects", "slowest", "halt", "yield", "pio", "phases", "duration_ns"]
            {
                assert_eq!(page["report"][part], wanted["report"][part], "{path:?} {keep} {batch}: {part}");
            }
            assert_eq!(page["report"]["coverage"]["exits"], wanted["report"]["coverage"]["exits"]);
            assert_eq!(
                page["over"]["lanes"].as_array().unwrap().len(),
                wanted["over"]["lanes"].as_array().unwrap().len()
            );
            for part in ["facts", "advice", "accepted_costs", "not_judged", "causes"] {
                assert_eq!(page["advice"][part], wanted["advice"][part], "{path:?} {keep} {batch}: {part}");
            }
            assert_eq!(page["polls"], wanted["polls"], "{path:?} {keep} {batch}");
        }
        wanted
    }

    /// What is advised, one line each.
    fn changes(page: &Value) -> String {
        let rows = page["advice"]["advice"].as_array().unwrap().iter();
        rows.map(|row| row["change"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// Two vCPUs exchange messages and halt between; nobody polls.
    const PING_PONG: &str = "name = 'two'\nduration = '300ms'\n[host]\ncores = 2\n[policies]\nhalt_poll_ns = 0\n[costs]\n\
        wake_latency = '20us'\n[[channel]]\nname = 'pipe'\nlatency = '10us'\ndoorbell = 'memory'\n[[vm]]\nname = 'pair'\n\
        vcpus = 2\n[[vm.program]]\nvcpus = [0]\nlibrary = 'ping_pong'\nrole = 'client'\n[[vm.program]]\nvcpus = [1]\n\
        library = 'ping_pong'\nrole = 'server'\n";

    /// Six vCPUs spin for one lock, and nobody waits for a CPU: 170,000 yields.
    const IN_VAIN: &str = "name = 'six'\nduration = '100ms'\n[host]\ncores = 8\n[policies]\nple_window_grow = 1\n[[thread]]\nname = 'cron'\n\
        steps = [{ forever = [{ sleep = '2ms' }, { compute = '20us' }] }]\n[[vm]]\nname = 'web'\nvcpus = 6\nlocks = ['l']\n\
        [[vm.program]]\nsteps = [{ forever = [{ compute = { exponential = '5us' } }, { lock = 'l' }, { compute = '60us' }, { \
        unlock = 'l' }] }]\n";

    #[test]
    fn however_it_is_sliced_it_is_what_a_report_says() {
        let page = same_in_any_slices(&corpus("x86-svm/t2.data.gz"));
        assert!(changes(&page).contains("keep other tasks off the vCPUs' CPUs"), "{}", changes(&page));
        assert!(!page["polls"].is_null());
        for name in ["x86-svm/t4-kvmstat.data.gz", "lab/contended.data.gz", "arm64/arm.dat.gz"] {
            same_in_any_slices(&corpus(name));
        }
    }

    #[test]
    fn however_it_is_sliced_settings_are_tried_on_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for (scenario, advised) in
            [(PING_PONG, "lengthen host halt polling"), (PING_PONG, "let the guest poll"), (IN_VAIN, "let vCPUs spin")]
        {
            let page = same_in_any_slices(&simulated(folder.path(), scenario));
            assert!(changes(&page).contains(advised), "{advised}: {}", changes(&page));
        }
    }

    #[test]
    fn of_more_than_is_kept_it_is_said_that_nothing_was_tried() {
        let folder = tempfile::tempdir().unwrap();
        let trace = simulated(folder.path(), &IN_VAIN.replace("100ms", "200ms"));
        for keep in [LONG, Nanos(200_000_000)] {
            let page = through_ring(&trace, keep, 1000);
            let counted = page["report"]["yield"]["all"]["count"].as_u64().unwrap();
            assert!(counted > 300_000, "{counted}");
            let not_judged = page["advice"]["not_judged"].as_array().unwrap().iter();
            let what: Vec<_> = not_judged.map(|row| row["what"].as_str().unwrap()).collect();
            assert!(what.contains(&"what other windows of PAUSE loops, or none, would win"), "{keep}: {what:?}");
            assert_eq!(
                (changes(&page), page["advice"]["accepted_costs"].as_array().unwrap().len()),
                (String::new(), 0)
            );
        }
    }

    #[test]
    fn what_a_guest_said_in_an_earlier_slice_holds_in_the_later_ones() {
        // It says that it polls, that it does not, and that it does; and halts every millisecond.
        let mut text = "# tracer: nop\n#\n".to_string();
        let mut line = |task: &str, at_us: u64, event: &str| {
            writeln!(text, "  {task}  [002] d..2. 100.{at_us:06}: {event}").unwrap();
        };
        let (vcpu, other) = ("CPU 0/KVM-2001", "make-77");
        let switch = |from: &str, pid: u32, state: &str, to: &str, next: u32| {
            format!(
                "sched_switch: prev_comm={from} prev_pid={pid} prev_prio=120 prev_state={state} ==> next_comm={to} \
                 next_pid={next} next_prio=120"
            )
        };
        for number in 0..900 {
            let at = number * 1_000;
            if let Some(control) = [(50, 0), (300, 1), (450, 0)].iter().find(|said| said.0 == number) {
                line(vcpu, at, "kvm_exit: reason MSR_WRITE rip 0xffffffff81000000 info 0 0");
                line(vcpu, at + 2, &format!("kvm_msr: msr_write 4b564d05 = {:#x}", control.1));
                line(vcpu, at + 4, "kvm_entry: vcpu 0, rip 0xffffffff81000002");
            }
            line(vcpu, at + 100, "kvm_exit: reason HLT rip 0xffffffff81000010 info 0 0");
            line(vcpu, at + 105, &switch("CPU 0/KVM", 2001, "S", "make", 77));
            line(other, at + 600, "sched_wakeup: comm=CPU 0/KVM pid=2001 prio=120 target_cpu=002");
            line(other, at + 750, &switch("make", 77, "R", "CPU 0/KVM", 2001));
            line(vcpu, at + 755, "kvm_entry: vcpu 0, rip 0xffffffff81000011");
        }
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("idle.txt");
        std::fs::write(&trace, text).unwrap();
        let page = same_in_any_slices(&trace);
        let words = "let the guest halt without polling first";
        assert!(changes(&page).contains(words), "{}", changes(&page));
        // Of the last third of a second nothing says that the guest polls.
        let last = through_ring(&trace, Nanos(300_000_000), 77);
        assert!(!changes(&last).contains(words), "{}", changes(&last));
    }

    #[test]
    fn only_the_last_of_it_is_kept() {
        let keep = Nanos(2_000_000_000);
        let [page, all] = [keep, LONG].map(|keep| through_ring(&corpus("x86-svm/t2.data.gz"), keep, 1000));
        let number = |of: &Value| of.as_u64().unwrap();
        let [exits, of_all] = [&page, &all].map(|page| number(&page["report"]["total"]["count"]));
        assert!(0 < exits && exits < of_all, "{exits} of {of_all}");
        let [halts, of_all] = [&page, &all].map(|page| number(&page["polls"]["replayed"]));
        assert!(0 < halts && halts < of_all, "{halts} of {of_all}");
        let trace = &page["report"]["traces"][0];
        let long = number(&trace["last_ns"]) - number(&trace["first_ns"]);
        assert!(keep.0 <= long && long <= keep.0 + keep.0 / SLICES * 2, "{long}");
        let base: u64 = page["over"]["base_ns"].as_str().unwrap().parse().unwrap();
        // To the bucket.
        let widest = page["over"]["tables"].as_array().unwrap().iter().map(|table| number(&table["width_ns"])).max();
        assert!(base + widest.unwrap() > number(&trace["first_ns"]), "nothing is older than what is kept");
    }
}
