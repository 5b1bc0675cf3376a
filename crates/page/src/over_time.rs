//! What happened when: the facts that pictures over time are drawn from.
//!
//! ```text
//! Exit ─┬─► states   by vCPU                    guest, kernel, user, idle, waiting
//!       ├─► exits    by vCPU, reason            count, timed, to user space, kernel, user, idle, waiting
//!       ├─► lengths  by vCPU, reason, length    count                 eight lengths to a doubling
//!       ├─► about    by vCPU, port, MSR, …      count, cost
//!       └─► slow     the slowest exits of every part of the recording
//! ```
//!
//! Each is kept by bucket of time, as narrow as its bound on rows allows: a short recording to the microsecond, a recording
//! of ten million exits to about a thousandth of its length.

use crate::columns::{push_all, push_rising};
use crate::index::Index;
use crate::rows::{Row, Rows};
use crate::slow::Slow;
use crate::states::States;
use exitscope_analysis::{DetailKey, MAX_KEYS, Selection};
use exitscope_model::{Door, Exit, ExitCode, LaneSpan, TraceInfo, Who, Yield};
use exitscope_units::{Moment, Tid, VcpuId};
use exitscope_view::{SlowRow, WhoRow, detail_label, kind_name};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows at most, of each kind.
const EXIT_ROWS: usize = 120_000;
const LENGTH_ROWS: usize = 250_000;
const ABOUT_ROWS: usize = 60_000;

/// vCPUs, reasons, and things that exits were about, at most; further ones are counted together.
const LANES: u32 = (1 << 12) - 1;
const REASONS: u32 = (1 << 10) - 1;
const ABOUTS: u32 = 1 << 13;

/// vCPUs of which reasons and lengths are told apart; of a host with more, there would be no room for time.
const LANES_BY_REASON: u32 = 64;

/// Places in a key: lane, reason, length; or lane, about.
const LANE_SHIFT: u32 = 19;
const REASON_SHIFT: u32 = 9;

/// The places of a key below the lane.
const BELOW_LANE: u32 = (1 << LANE_SHIFT) - 1;

/// The length of an exit of which not both ends were seen.
const UNTIMED: u32 = (1 << REASON_SHIFT) - 1;

/// Lengths to a doubling, as a power of two.
const LENGTH_BITS: u32 = 3;

/// The facts of a page that are not those of a report.
#[derive(Clone, Debug)]
pub struct OverTime {
    selection: Selection,
    window: (Moment, Moment),
    lanes: Index<Who>,
    reasons: Index<ExitCode>,
    abouts: Index<DetailKey>,
    states: States,
    exits: Rows<7>,
    lengths: Rows<1>,
    about: Rows<2>,
    slow: Slow,
    spans: FxHashMap<Who, (Moment, Moment)>,
    vcpu_of: FxHashMap<Tid, VcpuId>,
    /// Yields that name a vCPU: from, to, how many.
    named: BTreeMap<(Who, VcpuId), u64>,
}

/// A vCPU.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
struct AboutRow {
    kind: &'static str,
    heading: &'static str,
    key: u64,
    label: String,
}

/// One of the slowest exits.
#[derive(Clone, Debug, Serialize)]
struct SlowOne {
    #[serde(flatten)]
    row: SlowRow,
    lane: u32,
    reason_at: u32,
    /// When, counted from the page's begin.
    after_ns: u64,
}

/// Yields of one vCPU that name another.
#[derive(Clone, Debug, Serialize)]
struct NamedRow {
    vm: String,
    from: String,
    to: u32,
    count: u64,
}

/// A table of columns.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OverTimeHead {
    /// The moment that others are counted from, on the trace's clock: a whole number of buckets. As text, for it may be
    /// more than a double holds.
    base_ns: String,
    /// Whether there is a time axis: one trace.
    in_time: bool,
    lanes: Vec<LaneRow>,
    reasons: Vec<String>,
    abouts: Vec<AboutRow>,
    tables: Vec<TableHead>,
    slow: Vec<SlowOne>,
    named: Vec<NamedRow>,
}

impl OverTime {
    /// Nothing yet.
    pub fn new(selection: &Selection) -> OverTime {
        OverTime::of_part(selection, 1)
    }

    /// Nothing yet; for one of so many parts that will be merged into one [`OverTime`].
    pub fn of_part(selection: &Selection, parts: usize) -> OverTime {
        // Places in hand, too: fewer where there are fewer rows.
        let bits = |most: u32| most.saturating_sub(parts.ilog2()).max(6);
        OverTime {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            lanes: Index::of_at_most(LANES),
            reasons: Index::of_at_most(REASONS),
            abouts: Index::of_at_most(ABOUTS),
            states: States::of_part(parts),
            exits: Rows::of_at_most(EXIT_ROWS / parts, bits(10)),
            lengths: Rows::of_at_most(LENGTH_ROWS / parts, bits(13)),
            about: Rows::of_at_most(ABOUT_ROWS / parts, bits(10)),
            slow: Slow::default(),
            spans: FxHashMap::default(),
            vcpu_of: FxHashMap::default(),
            named: BTreeMap::new(),
        }
    }

    /// Says when the trace's first event was.
    pub fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    /// Adds one exit, and the guest time before it.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if !self.selection.holds_who(&exit.who) {
            return;
        }
        let lane = self.lanes.of(exit.who);
        self.divide(lane, exit);
        if exit.at < self.window.0 || exit.at > self.window.1 || !self.selection.holds_exit(exit) {
            return;
        }
        let at = exit.at.as_nanos();
        let lane = if lane < LANES_BY_REASON { lane } else { LANES };
        let key = lane << LANE_SHIFT | self.reasons.of(exit.code) << REASON_SHIFT;
        let to_user = u64::from(exit.door != Door::Kernel);
        let (length, times) = match exit.timed {
            true => (length_of(exit.total().0), [exit.kernel.0, exit.user.0, exit.idle.0, exit.waiting.0]),
            false => (UNTIMED, [0; 4]),
        };
        let [kernel, user, idle, waiting] = times;
        self.exits.absorb(at, key, &[1, u64::from(exit.timed), to_user, kernel, user, idle, waiting]);
        self.lengths.absorb(at, key | length, &[1]);
        if let Some(detail) = exit.detail {
            let about = self.abouts.of(DetailKey::of(detail));
            self.about.absorb(at, lane << LANE_SHIFT | about, &[1, kernel.saturating_add(user)]);
        }
        self.slow.absorb(exit);
    }

    /// Spreads an exit and the guest time before it over the time in which they were, as far as it is looked at.
    #[inline]
    fn divide(&mut self, lane: u32, exit: &Exit) {
        let (from, to) = (self.window.0.as_nanos(), self.window.1.as_nanos());
        let left = exit.at.as_nanos();
        let since = left.saturating_sub(exit.guest.0).max(from);
        let until = left.min(to);
        if since < until {
            self.states.spread(lane, since, until, &[until - since, 0, 0, 0, 0]);
        }
        if !exit.timed {
            return;
        }
        let times = [0, exit.kernel.0, exit.user.0, exit.idle.0, exit.waiting.0];
        let entered = left.saturating_add(exit.total().0);
        let (begin, end) = (left.max(from), entered.min(to));
        if begin == left && end == entered {
            return self.states.spread(lane, left, entered, &times);
        }
        if begin < end {
            // A row does not say when in it which part was.
            let part = |time: u64| (u128::from(time) * u128::from(end - begin) / u128::from(entered - left)) as u64;
            self.states.spread(lane, begin, end, &times.map(part));
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
            let tail = lane.last.min(self.window.1).as_nanos();
            let from = lane.last.as_nanos().saturating_sub(lane.tail_guest.0).max(self.window.0.as_nanos());
            let number = self.lanes.of(lane.who);
            if self.selection.holds_who(&with_vcpu(lane.who, vcpu_of)) && from < tail && lane.last <= self.window.1 {
                self.states.spread(number, from, tail, &[tail - from, 0, 0, 0, 0]);
            }
            self.spans.insert(lane.who, (lane.first.max(self.window.0), lane.last.min(self.window.1)));
        }
        self.vcpu_of.extend(vcpu_of);
    }

    /// Adds another recording, ended. There is no common time then.
    pub fn merge(&mut self, other: OverTime) {
        let lane: Vec<u32> = other.lanes.keys().iter().map(|who| self.lanes.of(*who)).collect();
        let reason: Vec<u32> = other.reasons.keys().iter().map(|code| self.reasons.of(*code)).collect();
        let about: Vec<u32> = other.abouts.keys().iter().map(|key| self.abouts.of(*key)).collect();
        let (lanes, reasons, abouts) = (self.lanes.other(), self.reasons.other(), self.abouts.other());
        let at = |of: &[u32], number: u32, beyond: u32| of.get(number as usize).copied().unwrap_or(beyond);
        let lane = |number: u32| at(&lane, number, lanes);
        let by_reason = |key: u32| {
            let (number, low) = (key >> REASON_SHIFT & REASONS, key & UNTIMED);
            lane(key >> LANE_SHIFT) << LANE_SHIFT | at(&reason, number, reasons) << REASON_SHIFT | low
        };
        let by_about = |key: u32| lane(key >> LANE_SHIFT) << LANE_SHIFT | at(&about, key & BELOW_LANE, abouts);
        self.states.merge(other.states.renumbered(lane));
        self.exits.merge(other.exits.rekeyed(by_reason));
        self.lengths.merge(other.lengths.rekeyed(by_reason));
        self.about.merge(other.about.rekeyed(by_about));
        self.slow.merge(other.slow);
        self.spans.extend(other.spans);
        self.vcpu_of.extend(other.vcpu_of);
        for (key, count) in other.named {
            *self.named.entry(key).or_default() += count;
        }
    }

    /// Forgets what was before this moment, to the bucket of time.
    pub fn forget(&mut self, before: Moment) {
        let before = before.as_nanos();
        self.states.forget(before);
        self.exits.forget(before);
        self.lengths.forget(before);
        self.about.forget(before);
        self.slow.forget(before);
    }

    /// Everything as tables. `in_time`: there is one trace, and so one clock.
    pub fn finish(self, in_time: bool, info: &TraceInfo) -> TimeTables {
        let vcpu_of = self.vcpu_of;
        // vCPUs in order, those under one name together.
        let named: Vec<Who> = self.lanes.keys().iter().map(|who| with_vcpu(*who, &vcpu_of)).collect();
        let mut order = named.clone();
        order.sort_unstable();
        order.dedup();
        let place = |who: Who| order.partition_point(|other| *other < who) as u32;
        let places: Vec<u32> = named.iter().map(|who| place(*who)).collect();
        let lane = |number: u32| places.get(number as usize).copied().unwrap_or(order.len() as u32);
        let moved = |key: u32| lane(key >> LANE_SHIFT) << LANE_SHIFT | key & BELOW_LANE;

        let states = self.states.finish(in_time, lane);
        let exits = self.exits.finish(in_time, moved);
        let lengths = self.lengths.finish(in_time, moved);
        let about = self.about.finish(in_time, moved);
        // Every width divides the next, so that the base is a whole number of buckets of each.
        let widest = [states.0, exits.0, lengths.0, about.0].into_iter().max().unwrap_or(1);
        let firsts =
            [states.1.first().map(|row| row.bucket * states.0), exits.1.first().map(|row| row.bucket * exits.0)];
        let first = firsts.into_iter().flatten().min().filter(|_| in_time).unwrap_or(0);
        let base = first / widest * widest;

        let mut tables = Tables { base, heads: Vec::new(), bytes: Vec::new() };
        let by_lane = |key: u32| u64::from(key >> LANE_SHIFT);
        let reason = |key: u32| u64::from(key >> REASON_SHIFT & REASONS);
        let low = |of: u32| move |key: u32| u64::from(key & of);
        tables.add(
            "states",
            &states,
            &[("lane", &|key| u64::from(key))],
            &["guest", "kernel", "user", "idle", "waiting"],
        );
        let sums = ["count", "timed", "to_user", "kernel", "user", "idle", "waiting"];
        tables.add("exits", &exits, &[("lane", &by_lane), ("reason", &reason)], &sums);
        let parts: [Part; 3] = [("lane", &by_lane), ("reason", &reason), ("length", &low(UNTIMED))];
        tables.add("lengths", &lengths, &parts, &["count"]);
        tables.add("about", &about, &[("lane", &by_lane), ("about", &low(BELOW_LANE))], &["count", "cost"]);

        let after = |at: Moment| at.as_nanos().saturating_sub(base);
        let spans: FxHashMap<Who, (Moment, Moment)> =
            self.spans.iter().map(|(who, span)| (with_vcpu(*who, &vcpu_of), *span)).collect();
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
        let abouts = self.abouts.keys().iter().map(|of| {
            let (kind, heading) = kind_name(of.kind);
            AboutRow { kind, heading, key: of.key, label: detail_label(of.kind, of.key, of.write) }
        });
        let numbers: FxHashMap<ExitCode, u32> = self.reasons.keys().iter().copied().zip(0..).collect();
        let slow = self.slow.finish().into_iter().map(|exit| {
            let exit = Exit { who: with_vcpu(exit.who, &vcpu_of), ..exit };
            SlowOne {
                row: SlowRow::of(&exit, info),
                lane: place(exit.who),
                reason_at: numbers.get(&exit.code).copied().unwrap_or(REASONS),
                after_ns: after(exit.at),
            }
        });
        let named = self.named.iter().map(|((who, to), count)| {
            let who = WhoRow::of(with_vcpu(*who, &vcpu_of), info);
            NamedRow { vm: who.vm_label(), from: who.vcpu_label(), to: to.0, count: *count }
        });
        let head = OverTimeHead {
            base_ns: base.to_string(),
            in_time,
            lanes: lanes.collect(),
            reasons: self.reasons.keys().iter().map(|code| code.name()).collect(),
            abouts: abouts.collect(),
            tables: tables.heads,
            slow: slow.collect(),
            named: named.collect(),
        };
        TimeTables { head, columns: tables.bytes }
    }
}

/// A column that comes of a row's key.
type Part<'a> = (&'static str, &'a dyn Fn(u32) -> u64);

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
        parts: &[Part],
        sums: &[&'static str; N],
    ) {
        let columns = ["bucket"].into_iter().chain(parts.iter().map(|part| part.0)).chain(*sums).collect();
        self.heads.push(TableHead { name, width_ns: *width_ns, rows: rows.len(), columns });
        push_rising(&mut self.bytes, self.base / width_ns, rows.iter().map(|row| row.bucket));
        for (_, part) in parts {
            push_all(&mut self.bytes, rows.iter().map(|row| part(row.key)));
        }
        for column in 0..N {
            push_all(&mut self.bytes, rows.iter().map(|row| row.sums[column]));
        }
    }
}

/// `who` with the vCPU number that was found out later.
fn with_vcpu(mut who: Who, vcpu_of: &FxHashMap<Tid, VcpuId>) -> Who {
    if who.vcpu == VcpuId::UNKNOWN
        && let Some(&vcpu) = vcpu_of.get(&who.tid)
    {
        who.vcpu = vcpu;
    }
    who
}

/// Which of the lengths, eight to a doubling, this is.
#[inline]
fn length_of(nanos: u64) -> u32 {
    if nanos < 1 << LENGTH_BITS {
        return nanos as u32;
    }
    let shift = 63 - nanos.leading_zeros() - LENGTH_BITS;
    (shift << LENGTH_BITS) + (nanos >> shift) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_apart_to_an_eighth() {
        let mut last = 0;
        for shift in 0..64 {
            for part in 0..8u64 {
                let nanos = (1u64 << shift) + (1u64 << shift) / 8 * part;
                let length = length_of(nanos);
                assert!(length >= last && length < UNTIMED, "{nanos}");
                last = length;
            }
        }
        assert_eq!([0, 7, 8, 15, 16, 17, 18].map(length_of), [0, 7, 8, 15, 16, 16, 17]);
    }

    #[test]
    fn keys_fit() {
        assert!(LANES.leading_zeros() >= LANE_SHIFT && REASONS << REASON_SHIFT < 1 << LANE_SHIFT);
        assert!(ABOUTS <= BELOW_LANE && u64::from(UNTIMED) > length_of(u64::MAX).into());
    }
}
