//! What happened when, as a page holds it: lists of what is numbered, and tables in columns.
//!
//! ```text
//! Timelines ─► LaneOrder, CauseNumbering: places for numbers ─► TimelineTables
//! ```

use crate::cpu_waits::ThreadRow;
use crate::single_exits::SingleExitsHead;
use exitscope_advice::Attribution;
use exitscope_analysis::over_time::columns::{push_all, push_rising};
use exitscope_analysis::over_time::{
    BELOW_CAUSE, BucketRow, CAUSES, REASONS, TimelineKeys, Timelines, lane_of, number_of, place,
};
use exitscope_analysis::{ExitCause, KeyNumbering, SubjectKey};
use exitscope_model::{Exit, ExitCode, ExitPhase, SubjectKind, TimePart, TraceInfo, VcpuIdentity, WhoRow};
use exitscope_units::{Moment, Tid};
use exitscope_view::{SlowExitRow, detail_label, detail_of_kind};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

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
    #[schemars(extend("enum" = SubjectKind::ALL.map(SubjectKind::name)))]
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
    /// The subject's place in `subjects`; none where there is no subject, and of causes that are too many.
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
    row: SlowExitRow,
    lane: u32,
    cause: u32,
    /// How long each of the `phases` of its cost was, in nanoseconds.
    phases_ns: [u64; ExitPhase::ALL.len()],
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

/// What the [`ExitPhase`]s of an exit are called.
const PHASES: [&str; ExitPhase::ALL.len()] =
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

/// The facts of [`Timelines`], as a page holds them.
#[derive(Clone, Debug)]
pub struct TimelineTables {
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
    vcpus: Vec<LaneRow>,
    reasons: Vec<String>,
    subjects: Vec<AboutRow>,
    causes: Vec<PageCause>,
    tables: Vec<TableHead>,
    /// The phases of an exit's cost, in their order.
    phases: Vec<&'static str>,
    slow_exits: Vec<SlowOne>,
    directed_yields: Vec<NamedRow>,
    /// Single exits, whose columns follow those of the tables; absent where there are none.
    singles: Option<SingleExitsHead>,
}

impl TimelineTables {
    /// Everything as tables. `in_time`: there is one trace, and so one clock. `apart`: how rules tell a cause from
    /// others of its reason.
    pub fn of(
        over_time: Timelines,
        in_time: bool,
        info: &TraceInfo,
        apart: impl Fn(&ExitCause) -> Attribution,
    ) -> TimelineTables {
        let Timelines { names, to: sums, .. } = over_time;
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
        let singles = singles.and_then(|singles| {
            SingleExitsHead::of(singles, base, (lane_number, cause_number, thread), &mut tables.bytes)
        });
        let after = |at: Moment| at.as_nanos().saturating_sub(base);
        let spans: FxHashMap<VcpuIdentity, (Moment, Moment)> =
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
                row: SlowExitRow::of(&exit, info),
                lane: lane_order.place(exit.who),
                cause: numbering.of_exit((&names.causes, &names.reasons), &exit),
                phases_ns: ExitPhase::ALL.map(|step| exit.phases.time(step).0),
                after_ns: after(exit.at),
            }
        });
        let causes = numbering.causes.iter().map(|cause| (cause, cause.cause.as_ref().map_or(Attribution::No, &apart)));
        let causes = causes.map(|(cause, told)| PageCause {
            reason: cause.reason,
            about: cause.about,
            named: match told {
                Attribution::ByName(name) => Some(name),
                Attribution::ByKey | Attribution::No => None,
            },
            is_told_apart: told != Attribution::No,
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
            vcpus: lanes.collect(),
            reasons: names.reasons.keys().iter().map(|code| code.name()).collect(),
            subjects: abouts.collect(),
            causes: causes.collect(),
            tables: tables.heads,
            phases: PHASES.to_vec(),
            slow_exits: slow.collect(),
            directed_yields: named.collect(),
            singles,
        };
        TimelineTables { head, columns: tables.bytes }
    }

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

/// The vCPUs of a page in order, those under one name together.
pub(crate) struct LaneOrder {
    order: Vec<VcpuIdentity>,
    /// Where those are that have a number.
    places: Vec<u32>,
}

impl LaneOrder {
    pub fn new(names: &TimelineKeys) -> LaneOrder {
        let mut order: Vec<VcpuIdentity> = names.lanes.keys().iter().map(|who| who.completed(&names.vcpu_of)).collect();
        let whose = order.clone();
        order.sort_unstable();
        order.dedup();
        let mut found = LaneOrder { order, places: Vec::new() };
        found.places = whose.iter().map(|who| found.place(*who)).collect();
        found
    }

    /// Where a vCPU is.
    fn place(&self, who: VcpuIdentity) -> u32 {
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
    abouts: KeyNumbering<SubjectKey>,
}

impl CauseNumbering {
    pub fn new(names: &TimelineKeys) -> CauseNumbering {
        let mut abouts = KeyNumbering::of_at_most(u32::MAX);
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

    fn of_exit(&self, names: (&KeyNumbering<ExitCause>, &KeyNumbering<ExitCode>), exit: &Exit) -> u32 {
        let cause = ExitCause { code: exit.code, about: exit.subject.map(SubjectKey::of) };
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
        (width_ns, rows): &(u64, Vec<BucketRow<N>>),
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
