//! What happened when: the facts that pictures over time are drawn from.
//!
//! ```text
//! Exit, Stretch ─► Names ─┬─► Briefs ─► Sums   by bucket of time: states, exits by cause, their lengths
//!                         └─► the slowest exits of every part of the recording
//! ```
//!
//! The two may be filled on two threads: what goes from one to the other is small.

use crate::columns::{push_all, push_rising};
use crate::cpu_waits::ThreadRow;
use crate::names::{Briefs, CAUSES, Names, REASONS, numbered};
use crate::rows::Row;
use crate::single_exits::{SingleExits, SingleExitsHead};
use crate::sums::{BELOW_CAUSE, BELOW_LANE, CAUSE_SHIFT, LANE_SHIFT, Sums};
use exitscope_analysis::advice::ToldApart;
use exitscope_analysis::{DetailKey, ExitCause, Index, Selection, TraceSink};
use exitscope_model::{
    Exit, ExitCode, LaneSpan, Preemption, Step, Stretch, ThreadWakeUp, TimePart, TraceInfo, Who, WhoRow, Yield,
};
use exitscope_units::{Moment, Tid, VcpuId};
use exitscope_view::{SlowRow, detail_label, detail_of_kind};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// The facts of a page that are not those of a report.
#[derive(Clone, Debug)]
pub struct OverTime {
    names: Names,
    sums: Sums,
    /// The exit or stretch in hand.
    briefs: Briefs,
}

/// A part of a vCPU's time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PartRow {
    /// Its column in the tables, and everywhere.
    column: &'static str,
    name: &'static str,
    /// What it means.
    prose: &'static str,
    /// Whether exits have it.
    of_exits: bool,
}

/// A vCPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LaneRow {
    #[serde(flatten)]
    who: WhoRow,
    vm_label: String,
    vcpu_label: String,
    /// Its first and last entry or exit, counted from the page's begin.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

/// What exits were about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AboutRow {
    kind: &'static str,
    heading: &'static str,
    key: u64,
    direction: Option<&'static str>,
    /// What it is called beside others of its kind, and beside those of other kinds.
    label: String,
    text: String,
}

/// What exits come from: their reason and their subject together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PageCause {
    /// The reason's place in `reasons`; none of reasons that are too many.
    reason: Option<u32>,
    /// The subject's place in `abouts`; none where there is no subject, and of causes that are too many.
    about: Option<u32>,
    /// What rules call the subject, if they tell it apart: a device, a group of registers, what happened.
    named: Option<&'static str>,
    /// Whether rules tell it from other causes of the reason, by that name or by what `about` is.
    is_told_apart: bool,
    /// Whether these are all further causes of the reason.
    is_further: bool,
}

/// One of the slowest exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SlowOne {
    #[serde(flatten)]
    row: SlowRow,
    lane: u32,
    cause: u32,
    /// How long each of the `phases` of its cost was, in nanoseconds.
    phases_ns: [u64; Step::ALL.len()],
    /// When, counted from the page's begin.
    after_ns: u64,
}

/// Yields of one vCPU that name another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct NamedRow {
    vm: String,
    from: String,
    to: u32,
    count: u64,
}

/// What the [`Step`]s of an exit are called.
const PHASES: [&str; Step::ALL.len()] =
    ["to the handler", "handler", "return to user space", "user space", "user space, asleep", "re-entry"];

/// A table of columns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TableHead {
    name: &'static str,
    /// Width of a bucket of time.
    width_ns: u64,
    rows: usize,
    columns: Vec<&'static str>,
}

/// The facts of [`OverTime`], as a page holds them.
#[derive(Clone, Debug)]
pub struct TimeTables {
    pub(crate) head: OverTimeHead,
    /// The tables' columns, in their order.
    pub(crate) columns: Vec<u8>,
}

/// What of it is JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct OverTimeHead {
    /// The moment that others are counted from, on the trace's clock: a whole number of buckets. As text, for it may be
    /// more than a double holds.
    base_ns: String,
    /// Whether there is a time axis: one trace.
    in_time: bool,
    /// The parts of a vCPU's time, in the order in which they are shown.
    parts: Vec<PartRow>,
    lanes: Vec<LaneRow>,
    reasons: Vec<String>,
    abouts: Vec<AboutRow>,
    causes: Vec<PageCause>,
    tables: Vec<TableHead>,
    /// The phases of an exit's cost, in their order.
    phases: Vec<&'static str>,
    slow: Vec<SlowOne>,
    named: Vec<NamedRow>,
    /// Single exits, whose columns follow those of the tables; absent where there are none.
    singles: Option<SingleExitsHead>,
}

impl OverTime {
    /// Creates an empty table for what is selected.
    pub fn new(selection: &Selection) -> OverTime {
        OverTime::of_part(selection, 1)
    }

    /// Nothing yet; for one of so many parts that will be merged into one [`OverTime`].
    pub fn of_part(selection: &Selection, parts: usize) -> OverTime {
        OverTime::of_halves(Names::new(selection), Sums::of_part(parts))
    }

    /// Both halves, to be filled on two threads.
    pub(crate) fn split(self) -> (Names, Sums) {
        (self.names, self.sums)
    }

    /// The whole of two halves: sums of what has these names.
    pub(crate) fn of_halves(names: Names, sums: Sums) -> OverTime {
        OverTime { names, sums, briefs: Briefs::default() }
    }

    #[inline]
    fn sum_up(&mut self) {
        self.sums.absorb(&self.briefs);
        self.briefs.clear();
    }

    /// Ends one recording: the spans of its vCPUs, and which thread runs which vCPU.
    pub fn end(&mut self, lanes: &[LaneSpan], vcpu_of: &FxHashMap<Tid, VcpuId>) {
        lanes.iter().for_each(|lane| self.names.span(lane));
        self.names.vcpu_of.extend(vcpu_of);
    }

    /// Adds another recording, ended. There is no common time then.
    pub fn merge(&mut self, other: OverTime) {
        let OverTime { names, sums, .. } = self;
        let lane: Vec<u32> = other.names.lanes.keys().iter().map(|who| names.lanes.of(*who)).collect();
        let Names { causes, reasons, .. } = &mut *names;
        let reason: Vec<u32> = other.names.reasons.keys().iter().map(|code| reasons.of(*code)).collect();
        let cause: Vec<u32> = other.names.causes.keys().iter().map(|cause| numbered(causes, reasons, *cause)).collect();
        let lanes = names.lanes.other();
        let lane = |number: u32| lane.get(number as usize).copied().unwrap_or(lanes);
        let reason = |number: usize| reason.get(number).copied().unwrap_or(REASONS);
        let moved = |key: u64| {
            let of = number_of(key);
            let of = cause.get(of).copied().unwrap_or_else(|| CAUSES + reason(of.wrapping_sub(CAUSES as usize)));
            place(lane(lane_of(key)), of, key)
        };
        let by_reason = |key: u64| place(lane(lane_of(key)), reason(number_of(key)), key);
        sums.states.merge(other.sums.states.renumbered(lane));
        sums.exits.merge(other.sums.exits.rekeyed(moved));
        sums.waits.merge(other.sums.waits.rekeyed(moved));
        sums.lengths.merge(other.sums.lengths.rekeyed(by_reason));
        // Single exits are of one recording.
        sums.singles = SingleExits::none();
        names.slow.merge(other.names.slow);
        names.spans.extend(other.names.spans);
        names.vcpu_of.extend(other.names.vcpu_of);
        for (key, count) in other.names.named {
            *names.named.entry(key).or_default() += count;
        }
    }

    /// Forgets what was before this moment, to the bucket of time.
    pub fn forget(&mut self, before: Moment) {
        self.sums.forget(before.as_nanos());
        self.names.slow.forget(before.as_nanos());
    }

    /// Everything as tables. `in_time`: there is one trace, and so one clock. `apart`: how rules tell a cause from
    /// others of its reason.
    pub fn finish(self, in_time: bool, info: &TraceInfo, apart: impl Fn(&ExitCause) -> ToldApart) -> TimeTables {
        let OverTime { names, sums, .. } = self;
        let (lane_order, numbering) = (LaneOrder::new(&names), CauseNumbering::new(&names));
        let vcpu_of = names.vcpu_of;
        let lane_number = |number: u32| lane_order.of(number);
        let order = &lane_order.order;
        let moved = |key: u64| place(lane_number(lane_of(key)), numbering.of(number_of(key)), key);

        let states = sums.states.finish(in_time, lane_number);
        let exits = sums.exits.finish(in_time, moved);
        let waits = sums.waits.finish(in_time, moved);
        let reasons = names.reasons.keys().len() as u32;
        let by_reason = |key: u64| place(lane_number(lane_of(key)), (number_of(key) as u32).min(reasons), key);
        let lengths = sums.lengths.finish(in_time, by_reason);
        // Every width divides the next, so that the base is a whole number of buckets of each.
        let widest = [states.0, exits.0, waits.0, lengths.0].into_iter().max().unwrap_or(1);
        let firsts =
            [states.1.first().map(|row| row.bucket * states.0), exits.1.first().map(|row| row.bucket * exits.0)];
        let first = firsts.into_iter().flatten().min().filter(|_| in_time).unwrap_or(0);
        let base = first / widest * widest;

        let mut tables = Tables { base, heads: Vec::new(), bytes: Vec::new() };
        let by_lane = |key: u64| lane_of(key).into();
        let cause = |key: u64| number_of(key) as u64;
        let low = |key: u64| key & BELOW_CAUSE;
        tables.add("states", &states, &[("lane", &|key| key)], &TimePart::ALL.map(TimePart::column));
        let [lane, cause]: [KeyColumn; 2] = [("lane", &by_lane), ("cause", &cause)];
        let [kernel, user] = [TimePart::Kernel, TimePart::User].map(TimePart::column);
        tables.add("exits", &exits, &[lane, cause, ("to_user", &low)], &["count", "timed", kernel, user]);
        tables.add("waits", &waits, &[lane, cause], &TimePart::BESIDE_COST.map(TimePart::column));
        tables.add("lengths", &lengths, &[lane, ("reason", cause.1), ("length", &low)], &["count"]);

        let singles = Some(sums.singles).filter(|_| in_time);
        let cause_number = |number: u32| numbering.of(number as usize);
        let thread = |tid: Tid| ThreadRow::of(tid, info, &lane_order);
        let singles =
            singles.and_then(|singles| singles.finish(base, (lane_number, cause_number, thread), &mut tables.bytes));
        let after = |at: Moment| at.as_nanos().saturating_sub(base);
        let spans: FxHashMap<Who, (Moment, Moment)> =
            names.spans.iter().map(|(who, span)| (who.completed(&vcpu_of), *span)).collect();
        let lanes = order.iter().map(|who| {
            let row = WhoRow::of(*who, info);
            let span = spans.get(who).filter(|_| in_time);
            LaneRow {
                vm_label: row.vm_label(),
                vcpu_label: row.vcpu_label(),
                who: row,
                first_ns: span.map(|span| after(span.0)),
                last_ns: span.map(|span| after(span.1)),
            }
        });
        let (called, vms) = (info.subject_names(), order.iter().map(|who| who.vm).collect::<BTreeSet<_>>());
        let vms: Vec<_> = vms.into_iter().collect();
        let abouts = numbering.abouts.keys().iter().map(|of| {
            let (kind, heading) = (of.kind.name(), of.kind.heading());
            let name = called.of_key(&vms, of.kind, of.key);
            AboutRow {
                kind,
                heading,
                key: of.key,
                direction: of.kind.direction(of.write),
                label: detail_label(name.as_deref(), of.kind, of.key, of.write),
                text: detail_of_kind(name.as_deref(), of.kind, of.key, of.write),
            }
        });
        let slow = names.slow.finish().into_iter().map(|exit| {
            let exit = Exit { who: exit.who.completed(&vcpu_of), ..exit };
            SlowOne {
                row: SlowRow::of(&exit, info),
                lane: lane_order.place(exit.who),
                cause: numbering.of_exit((&names.causes, &names.reasons), &exit),
                phases_ns: Step::ALL.map(|step| exit.way.time(step).0),
                after_ns: after(exit.at),
            }
        });
        let causes = numbering.causes.iter().map(|cause| (cause, cause.cause.as_ref().map_or(ToldApart::No, &apart)));
        let causes = causes.map(|(cause, told)| PageCause {
            reason: cause.reason,
            about: cause.about,
            named: match told {
                ToldApart::ByName(name) => Some(name),
                ToldApart::ByKey | ToldApart::No => None,
            },
            is_told_apart: told != ToldApart::No,
            is_further: cause.cause.is_none(),
        });
        let named = names.named.iter().map(|((who, to), count)| {
            let who = WhoRow::of(who.completed(&vcpu_of), info);
            NamedRow { vm: who.vm_label(), from: who.vcpu_label(), to: to.0, count: *count }
        });
        let head = OverTimeHead {
            base_ns: base.to_string(),
            in_time,
            parts: TimePart::ALL.map(PartRow::of).to_vec(),
            lanes: lanes.collect(),
            reasons: names.reasons.keys().iter().map(|code| code.name()).collect(),
            abouts: abouts.collect(),
            causes: causes.collect(),
            tables: tables.heads,
            phases: PHASES.to_vec(),
            slow: slow.collect(),
            named: named.collect(),
            singles,
        };
        TimeTables { head, columns: tables.bytes }
    }
}

impl TraceSink for OverTime {
    fn begin(&mut self, first: Moment) {
        self.sums.begin(self.names.begin(first));
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.names.absorb(exit, &mut self.briefs);
        self.sum_up();
    }

    fn stretch(&mut self, stretch: &Stretch) {
        self.names.absorb_stretch(stretch, &mut self.briefs);
        self.sum_up();
    }

    fn yielded(&mut self, of: &Yield) {
        self.names.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.names.absorb_preemption(of, &mut self.briefs);
        self.sum_up();
    }

    fn woken(&mut self, of: &ThreadWakeUp) {
        self.names.absorb_wake_up(of, &mut self.briefs);
        self.sum_up();
    }
}

impl TimeTables {
    /// Names places in the guest by its functions: where that of an address begins, and its name.
    pub fn name_places<'a>(&mut self, function: impl Fn(u64) -> Option<(u64, &'a str)>) {
        self.head.singles.iter_mut().for_each(|singles| singles.places.name(&function));
    }
}

impl PartRow {
    fn of(part: TimePart) -> PartRow {
        let of_exits = TimePart::OF_EXITS.contains(&part);
        PartRow { column: part.column(), name: part.name(), prose: part.prose(), of_exits }
    }
}

/// The number of the cause in a key.
fn number_of(key: u64) -> usize {
    ((key & BELOW_LANE) >> CAUSE_SHIFT) as usize
}

/// The number of the vCPU in a key.
fn lane_of(key: u64) -> u32 {
    (key >> LANE_SHIFT) as u32
}

/// A key with another vCPU and another cause.
fn place(lane: u32, cause: u32, key: u64) -> u64 {
    u64::from(lane) << LANE_SHIFT | u64::from(cause) << CAUSE_SHIFT | key & BELOW_CAUSE
}

/// The vCPUs of a page in order, those under one name together.
pub(crate) struct LaneOrder {
    order: Vec<Who>,
    /// Where those are that have a number.
    places: Vec<u32>,
}

impl LaneOrder {
    pub fn new(names: &Names) -> LaneOrder {
        let mut order: Vec<Who> = names.lanes.keys().iter().map(|who| who.completed(&names.vcpu_of)).collect();
        let whose = order.clone();
        order.sort_unstable();
        order.dedup();
        let mut found = LaneOrder { order, places: Vec::new() };
        found.places = whose.iter().map(|who| found.place(*who)).collect();
        found
    }

    /// Where a vCPU is.
    fn place(&self, who: Who) -> u32 {
        self.order.partition_point(|other| *other < who) as u32
    }

    /// Where the vCPU is that has this number; behind all, those that have none of their own.
    pub fn of(&self, number: u32) -> u32 {
        self.places.get(number as usize).copied().unwrap_or(self.order.len() as u32)
    }

    /// Where the vCPU is that a thread runs, if it runs one.
    pub fn of_thread(&self, tid: Tid) -> Option<u32> {
        let place = self.order.iter().position(|who| who.tid == tid && tid != Tid(0))?;
        Some(place as u32)
    }
}

/// A cause, by the places of its reason and its subject.
#[derive(Clone, Copy, Debug)]
struct PlacedCause {
    reason: Option<u32>,
    about: Option<u32>,
    /// None of those that are too many.
    cause: Option<ExitCause>,
}

/// The causes of a page: those that have a number, then the further ones of each reason, then those of further reasons.
pub(crate) struct CauseNumbering {
    own: usize,
    causes: Vec<PlacedCause>,
    abouts: Index<DetailKey>,
}

impl CauseNumbering {
    pub fn new(names: &Names) -> CauseNumbering {
        let mut abouts = Index::of_at_most(u32::MAX);
        let own = names.causes.keys().iter().map(|cause| PlacedCause {
            reason: names.reasons.find(&cause.code),
            about: cause.about.map(|about| abouts.of(about)),
            cause: Some(*cause),
        });
        let mut causes: Vec<PlacedCause> = own.collect();
        let own = causes.len();
        let further = (0..names.reasons.keys().len() as u32).map(Some).chain([None]);
        causes.extend(further.map(|reason| PlacedCause { reason, about: None, cause: None }));
        CauseNumbering { own, causes, abouts }
    }

    /// The place of the cause that has this number in sums.
    pub fn of(&self, number: usize) -> u32 {
        let place = if number < CAUSES as usize { number } else { self.own + number - CAUSES as usize };
        place.min(self.causes.len() - 1) as u32
    }

    fn of_exit(&self, names: (&Index<ExitCause>, &Index<ExitCode>), exit: &Exit) -> u32 {
        let cause = ExitCause { code: exit.code, about: exit.detail.map(DetailKey::of) };
        let further = || CAUSES as usize + names.1.find(&exit.code).map_or(REASONS as usize, |reason| reason as usize);
        self.of(names.0.find(&cause).map_or_else(further, |number| number as usize))
    }
}

/// A column that comes of a row's key.
type KeyColumn<'a> = (&'static str, &'a dyn Fn(u64) -> u64);

/// The tables, as far as they are written.
struct Tables {
    base: u64,
    heads: Vec<TableHead>,
    bytes: Vec<u8>,
}

impl Tables {
    fn add<const N: usize>(
        &mut self,
        name: &'static str,
        (width_ns, rows): &(u64, Vec<Row<N>>),
        keys: &[KeyColumn],
        sums: &[&'static str; N],
    ) {
        let columns = ["bucket"].into_iter().chain(keys.iter().map(|key| key.0)).chain(*sums).collect();
        self.heads.push(TableHead { name, width_ns: *width_ns, rows: rows.len(), columns });
        push_rising(&mut self.bytes, self.base / width_ns, rows.iter().map(|row| row.bucket));
        for (_, key) in keys {
            push_all(&mut self.bytes, rows.iter().map(|row| key(row.key)));
        }
        for column in 0..N {
            push_all(&mut self.bytes, rows.iter().map(|row| row.sums[column]));
        }
    }
}
