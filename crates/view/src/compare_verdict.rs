//! The verdict on a comparison, in words: which way what exits cost changed, what carries most of that, what limits it.

use crate::compare::{ChangeRow, ReasonComparison, SideRow};
use crate::headline::Headline;
use crate::names::thousands;
use crate::report::{EventKindsRow, TraceRow};
use crate::verdict::exits_cost;
use exitscope_analysis::{
    ComparedSide, DiffMeasure, DiffRow, DiffState, DiffVerdict, MeasureChange, NotCompared, UnitOrderKind,
};
use exitscope_model::LedgerLine;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a comparison comes to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffVerdictRow {
    /// In words.
    #[serde(flatten)]
    pub headline: Headline,
    /// All exits together, halts included.
    pub total: ReasonComparison,
    /// The reason whose cost certainly changed the same way as that of all, and most of those.
    pub reason: Option<String>,
    /// Its part of the change of all; more than one where others changed the other way.
    pub reason_part: Option<f64>,
    /// A change of the cost as large as this would have been clear, in nanoseconds per second of vCPU time; with several recordings on
    /// each side, in 80 of 100 repetitions.
    pub least_clear_ns_per_s: Option<f64>,
    /// Recordings a side that would make a change as large as the one seen clear, in 80 of 100 repetitions; absent with one recording
    /// on a side.
    pub needed_recordings: Option<usize>,
    /// In which order the recordings of the sides were made: `pairs` (of one name), `in turns`, `in order` (one side first), `mixed`,
    /// `unknown`; absent with one recording on a side.
    #[schemars(extend("enum" = ["pairs", "in turns", "in order", "mixed", "unknown", null]))]
    pub order: Option<&'static str>,
}

impl SideRow {
    /// What decides whether sides can be compared.
    pub fn compared(&self) -> ComparedSide {
        let of = |name: fn(&TraceRow) -> String| self.traces.iter().map(name).filter(|name| !name.is_empty()).collect();
        ComparedSide {
            recordings: of(|trace| trace.name.clone()),
            architectures: of(|trace| trace.arch.clone()),
            hypervisors: of(|trace| if trace.is_xen() { "Xen" } else { "KVM" }.to_string()),
            tells_steal: (self.event_kinds.scheduler, self.event_kinds.all_steal),
            lost: (self.lost, self.events),
        }
    }
}

impl DiffVerdictRow {
    /// The verdict on two sides in words; `total` is all exits together.
    pub fn of(verdict: &DiffVerdict, total: &DiffRow, sides: [&SideRow; 2], confidence_percent: f64) -> DiffVerdictRow {
        // What contradicts is shown as it is.
        let total = ReasonComparison::of(total, &|row, change| match verdict.state {
            DiffState::Undecided => change.verdict(),
            _ => verdict.of_change(row, change),
        });
        let words = Words { verdict, total: &total, sides, confidence_percent };
        let (doubts, is_doubtful) = words.doubts();
        let headline = Headline {
            state: id(verdict.state).to_string(),
            text: words.text(),
            details: words.details(),
            is_doubtful: is_doubtful || matches!(verdict.state, DiffState::CannotTell(_)),
            doubts,
        };
        let (reason, reason_part) = verdict.largest.clone().unzip();
        let least_clear_ns_per_s = verdict.least_clear.map(|least| least as f64);
        DiffVerdictRow {
            headline,
            total,
            reason,
            reason_part,
            least_clear_ns_per_s,
            needed_recordings: verdict.needed,
            order: verdict.order.map(order_id),
        }
    }
}

fn id(state: DiffState) -> &'static str {
    match state {
        DiffState::Worse => "worse",
        DiffState::Better => "better",
        DiffState::RecordingsDiffer => "recordings_differ",
        DiffState::NoClearDifference => "no_clear_difference",
        DiffState::Undecided => "undecided",
        DiffState::Same => "same",
        DiffState::CannotTell(_) => "cannot_tell",
    }
}

fn order_id(order: UnitOrderKind) -> &'static str {
    match order {
        UnitOrderKind::Pairs => "pairs",
        UnitOrderKind::InTurns => "in turns",
        UnitOrderKind::InOrder => "in order",
        UnitOrderKind::Mixed => "mixed",
        UnitOrderKind::Unknown => "unknown",
    }
}

/// A part of vCPU time in per cent, with as many digits as tell something: `47.9`, `0.16`, `0.0021`.
fn digits(percent: f64) -> String {
    let decimals = match percent.abs() {
        0.0 => 0,
        some if some >= 0.995 => 1,
        some if some >= 0.0995 => 2,
        some if some >= 0.00995 => 3,
        _ => 4,
    };
    format!("{percent:.decimals$}")
}

/// A cost as a part of vCPU time: `47.9%`.
pub(crate) fn of_time(ns_per_s: f64) -> String {
    format!("{}%", digits(ns_per_s / 1e7))
}

/// A change of it: `+4.1`.
fn points(ns_per_s: f64) -> String {
    let text = digits(ns_per_s.abs() / 1e7);
    match text.contains(|c: char| ('1'..='9').contains(&c)) {
        true => format!("{}{text}", if ns_per_s < 0.0 { '-' } else { '+' }),
        false => "0".to_string(),
    }
}

/// A change as a part of before, without its sign: `48%`, `3.1%`.
fn rounded(percent: f64) -> String {
    match percent.abs() {
        many if many >= 9.95 => format!("{}%", thousands(many.round() as u64)),
        few => format!("{}%", digits(few)),
    }
}

/// `2.8 times as much`, `34% more`, `48% less`; none where there was nothing before.
pub(crate) fn how_much(before: f64, after: f64) -> Option<String> {
    let times = after / before;
    (before > 0.0).then(|| match times {
        many if many >= 9.95 => format!("{} times as much", thousands(many.round() as u64)),
        several if several >= 1.95 => format!("{several:.1} times as much"),
        more if more >= 1.0 => format!("{} more", rounded((more - 1.0) * 100.0)),
        less => format!("{} less", rounded((1.0 - less) * 100.0)),
    })
}

struct Words<'a> {
    verdict: &'a DiffVerdict,
    total: &'a ReasonComparison,
    sides: [&'a SideRow; 2],
    confidence_percent: f64,
}

impl Words<'_> {
    fn change(&self, measure: DiffMeasure) -> Option<&ChangeRow> {
        self.total.changes.iter().find(|change| change.of == measure)
    }

    /// What exits cost on both sides.
    fn costs(&self) -> (f64, f64) {
        let cost = self.change(DiffMeasure::Cost);
        cost.map_or((0.0, 0.0), |cost| (cost.before.unwrap_or(0.0), cost.after.unwrap_or(0.0)))
    }

    /// Whether both sides tell all steal from what exits cost, and whether they tell some.
    fn tell_steal(&self) -> (bool, bool) {
        let all = |of: fn(&EventKindsRow) -> bool| self.sides.iter().all(|side| of(&side.event_kinds));
        (all(|kinds| kinds.all_steal), all(|kinds| kinds.scheduler))
    }

    /// What exits do with vCPU time, as far as steal is told from it.
    fn exits_cost(&self) -> &'static str {
        let (all, some) = self.tell_steal();
        exits_cost(all, some)
    }

    fn text(&self) -> String {
        let (before, after) = self.costs();
        let much = how_much(before, after);
        let what = self.exits_cost();
        match self.verdict.state {
            DiffState::Worse => {
                let much = much.unwrap_or_else(|| format!("{} of vCPU time, and nothing before", of_time(after)));
                format!("Worse: {what} {much}{}{}", self.carried(), self.against())
            }
            DiffState::Better => {
                format!("Better: {what} {}{}{}", much.unwrap_or_default(), self.carried(), self.against())
            }
            DiffState::Undecided => format!("Undecided: {}", self.contradiction(what)),
            DiffState::CannotTell(NotCompared::Drift) => format!(
                "Doubtful: {what} {}, but that drifts from recording to recording, and all of one side were recorded first: \
                 record the sides in turns",
                much.unwrap_or_else(|| "something after, and nothing before".to_string())
            ),
            DiffState::CannotTell(NotCompared::InOrder) => format!(
                "Doubtful: {what} {}, but all of one side were recorded first, and these are too few to tell a change from a \
                 drift: record the sides in turns",
                much.unwrap_or_else(|| "something after, and nothing before".to_string())
            ),
            DiffState::RecordingsDiffer => {
                let much = much.unwrap_or_else(|| format!("{} of vCPU time, and nothing before", of_time(after)));
                format!(
                    "These recordings differ: {what} {much}{}; whether a change caused that is unknown",
                    self.carried()
                )
            }
            DiffState::Same => "No difference: every figure is the same on both sides".to_string(),
            DiffState::NoClearDifference => {
                let rate = self.change(DiffMeasure::Rate).filter(|rate| matches!(rate.verdict, "more" | "less"));
                let rate = rate.map(|rate| format!("; exits per second {}", rate.percent()));
                format!("No clear difference in what {what}{}", rate.unwrap_or_default())
            }
            DiffState::CannotTell(NotCompared::Unlike) => {
                let Some((old, new)) = &self.verdict.unlike else {
                    return "Doubtful: no exit reason is on both sides".to_string();
                };
                format!("Doubtful: one side is {old}, the other {new}, and their exits are not comparable")
            }
            DiffState::CannotTell(NotCompared::Steal) => {
                let [on, other] =
                    if self.sides[0].event_kinds.all_steal { ["before", "after"] } else { ["after", "before"] };
                format!("Doubtful: steal was recorded only {on}; {other}, it is part of what exits cost")
            }
            DiffState::CannotTell(why) => format!("Doubtful: {}", lacking(why)),
        }
    }

    /// What certainly changed the other way than the cost: how many exits there are, how long they take.
    fn against(&self) -> String {
        let name = |of: &MeasureChange| {
            let text = self.change(of.measure).map(ChangeRow::percent).unwrap_or_default();
            let name = if of.measure == DiffMeasure::Rate { "exits per second" } else { of.measure.name() };
            format!("{name} {text}")
        };
        let names: Vec<String> = self.verdict.against.iter().map(name).collect();
        if names.is_empty() { String::new() } else { format!("; but {}", names.join(", ")) }
    }

    /// What of the cost, the work and steal contradicts.
    fn contradiction(&self, what: &str) -> String {
        let clear = |change: &ChangeRow| if change.verdict_is_clear() { "" } else { ", no clear difference" };
        let percent = |change: &ChangeRow| format!("{}{}", change.percent(), clear(change));
        let part = |measure, name: &str| self.change(measure).map(|change| format!("{name} {}", percent(change)));
        let work = match self.verdict.work {
            Some(work) if work.measure == DiffMeasure::CostOfWork => part(work.measure, "for the same work"),
            Some(work) => part(work.measure, "for the same guest time"),
            None => None,
        };
        let cost = part(DiffMeasure::Cost, &format!("{what} of vCPU time")).unwrap_or_default();
        let guest = part(DiffMeasure::Guest, "guests ran");
        let parts: Vec<String> = [work, guest, self.starved()].into_iter().flatten().collect();
        format!("{cost}; {}", parts.join("; "))
    }

    /// Steal, where it rose while the cost fell.
    fn starved(&self) -> Option<String> {
        let steal = self.change(DiffMeasure::Steal).filter(|_| self.verdict.is_starved)?;
        let [before, after] = [steal.before?, steal.after?].map(of_time);
        Some(format!("steal rose from {before} to {after} of vCPU time, so that the VMs ran less"))
    }

    /// Which reason most of the change comes from.
    fn carried(&self) -> String {
        let Some((reason, part)) = &self.verdict.largest else {
            return "; no reason's own change is clear".to_string();
        };
        match part * 100.0 {
            more if more >= 100.5 => format!("; {reason} alone accounts for more than that"),
            all if all >= 99.5 => format!("; {reason} is nearly all of that"),
            most if most >= 50.0 => format!("; {reason} is {most:.0}% of that"),
            some => format!("; the largest part of that is {reason} ({some:.0}%)"),
        }
    }

    fn details(&self) -> Vec<String> {
        let is_told = self.is_told();
        let cost = self.cost_detail().into_iter().chain(self.least_detail());
        let rate = self.change(DiffMeasure::Rate).filter(|rate| rate.before.is_some() && rate.after.is_some());
        let rate = rate.map(|rate| {
            let clear = match rate.verdict {
                _ if !is_told => String::new(),
                "more" | "less" | "not judged" => format!(" ({})", rate.percent()),
                _ => format!(" ({}, no clear difference)", rate.percent()),
            };
            let (before, after) = (rate.text(rate.before), rate.text(rate.after));
            format!("exits: {before} of vCPU time before, {after} after{clear}")
        });
        cost.chain(rate).chain(self.work_detail().filter(|_| is_told)).collect()
    }

    fn is_told(&self) -> bool {
        !matches!(self.verdict.state, DiffState::CannotTell(_) | DiffState::Same)
    }

    /// What exits cost, and the interval of the change.
    fn cost_detail(&self) -> Option<String> {
        let cost = self.change(DiffMeasure::Cost)?;
        let (before, after) = (cost.before?, cost.after?);
        let is_known = !matches!(self.verdict.state, DiffState::CannotTell(NotCompared::NoLengths(..)));
        let interval = cost.low.zip(cost.high).filter(|_| self.is_told()).map(|(low, high)| {
            let change = points(after - before);
            let (low, high) = (points(low), points(high));
            format!("; change {change} points ({} % interval {low} to {high})", self.confidence_percent)
        });
        let (old, new) = (of_time(before), of_time(after));
        let interval = interval.unwrap_or_default();
        is_known.then(|| format!("timed exits cost {old} of vCPU time before, {new} after{interval}"))
    }

    /// Which change would have been clear, and how many recordings make the one that was seen clear.
    fn least_detail(&self) -> Option<String> {
        let least = self.verdict.least_clear.filter(|_| self.verdict.state == DiffState::NoClearDifference)? as f64;
        let before = self.costs().0;
        let part = (before > 0.0).then(|| format!(" ({} of before)", rounded(least / before * 100.0)));
        let size = format!("{} points{}", digits(least / 1e7), part.unwrap_or_default());
        let needed = |needed: usize| {
            format!("; one as large as that seen would take {} recordings a side", thousands(needed as u64))
        };
        let needed = self.verdict.needed.map(needed).unwrap_or_default();
        Some(match self.verdict.order {
            // More than all of vCPU time exits cannot cost.
            Some(_) if before + least > 1e9 => {
                format!("no rise, however large, would have been clear in 80 of 100 such comparisons{needed}")
            }
            Some(_) => format!("a change of {size} would have been clear in 80 of 100 such comparisons{needed}"),
            None => format!("a change of less than about {size} would not be clear from these recordings"),
        })
    }

    /// How much guests ran, and what exits cost of that, or of the work.
    fn work_detail(&self) -> Option<String> {
        let guest = self.sides.map(|side| side.guest_ns as f64 * 1e9 / side.vcpu_ns.max(1) as f64);
        let guest = guest.iter().all(|guest| *guest > 0.0).then(|| {
            let [before, after] = guest.map(of_time);
            format!("guests ran {before} of vCPU time before, {after} after")
        });
        let clear = |change: &ChangeRow| match change.verdict_is_clear() || self.verdict.order.is_none() {
            true => "",
            false => ", no clear difference",
        };
        let of = |measure, name: &str| {
            let change = self.change(measure).filter(|change| change.before.is_some() && change.after.is_some())?;
            Some(format!("{name} {}{}", change.percent(), clear(change)))
        };
        let work = of(DiffMeasure::CostOfWork, "exits cost for the same work");
        let is_unknown = work.is_none();
        let work = work.or_else(|| of(DiffMeasure::CostOfGuest, "exits cost for the same guest time"));
        let steal = self.change(DiffMeasure::Steal).filter(|steal| steal.verdict_is_clear());
        let steal = steal.map(|steal| format!("steal {}", steal.percent()));
        let unknown = guest
            .as_ref()
            .filter(|_| is_unknown)
            .map(|_| "how much work that was is not recorded (--work)".to_string());
        let parts: Vec<String> = [guest, work, steal, unknown].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// What limits the verdict, and whether any of it could change it.
    fn doubts(&self) -> (Vec<String>, bool) {
        let names = ["before", "after"];
        let mut doubts = Vec::new();
        for (name, side) in names.into_iter().zip(self.sides) {
            let bad = side.lines.iter().filter(|line| matches!(line.severity, "loss" | "error")).count();
            if bad > 0 {
                doubts.push(format!("the recording {name} is incomplete, see below"));
            }
        }
        let cpus = self.sides.map(|side| {
            let names: BTreeSet<&str> = side.traces.iter().map(|trace| trace.cpu.as_str()).collect();
            names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
        });
        if let [old, new] = &cpus
            && old != new
            && !old.is_empty()
            && !new.is_empty()
        {
            doubts.push(format!("the CPUs differ ({old}; {new}), and with them what an exit costs"));
        }
        let is_told = self.is_told();
        let untold = match self.tell_steal() {
            (true, _) => None,
            (false, true) => Some("a part of steal was not recorded, and is in what exits cost"),
            (false, false) => Some("in these recordings, steal cannot be separated from what exits cost"),
        };
        doubts.extend(untold.filter(|_| is_told).map(str::to_string));
        if is_told && self.verdict.order == Some(UnitOrderKind::InOrder) {
            doubts.push(
                "all of one side were recorded before the other: what else changed in between is in the difference, too; \
                 recordings in turns would separate that"
                    .to_string(),
            );
        }
        let is_doubtful = !doubts.is_empty() || self.verdict.state == DiffState::RecordingsDiffer;
        let is_one = |side: &SideRow| side.compared().recordings.len() == 1;
        if is_told && self.sides.iter().any(|side| is_one(side)) {
            let sides = if self.sides.iter().all(|side| is_one(side)) { "each side" } else { "one side" };
            doubts.push(format!(
                "one recording on {sides}: the interval does not cover variation from run to run (--before, --after \
                 take several)"
            ));
        }
        let of_line = |line: LedgerLine| {
            let count = |side: &SideRow| side.lines.iter().find(|row| row.id == line.id()).map_or(0, |row| row.count);
            names.into_iter().zip(self.sides.map(count)).filter(|side| side.1 > 0)
        };
        for (name, count) in of_line(LedgerLine::Overlapping) {
            doubts.push(format!(
                "recordings {name} overlap in time: {} events are in several of them, and count once",
                thousands(count)
            ));
        }
        for (name, count) in of_line(LedgerLine::CopiedFile) {
            let (files, add, are) = if count == 1 {
                ("file", "adds", "does not count as a recording")
            } else {
                ("files", "add", "do not count as recordings")
            };
            doubts.push(format!(
                "{} {files} {name} {add} nothing to the others, as copies do, and {are}",
                thousands(count)
            ));
        }
        (doubts, is_doubtful)
    }
}

/// What there is not.
fn lacking(why: NotCompared) -> String {
    let side = |lacks: (bool, bool)| match lacks {
        (true, true) => "on either side",
        (true, false) => "on the side before",
        _ => "on the side after",
    };
    match why {
        NotCompared::NoExits(before, after) => format!("there is no exit {}", side((before, after))),
        NotCompared::NoLengths(before, after) => {
            format!("no exit has a length {}, so what exits cost is unknown", side((before, after)))
        }
        NotCompared::TooShort => "the recordings are too short for an interval".to_string(),
        NotCompared::Unlike | NotCompared::Steal => "the sides are not alike".to_string(),
        NotCompared::Drift | NotCompared::InOrder => "one side was recorded before the other".to_string(),
        NotCompared::Losses => {
            "records were lost, or exits have no length; what these hide could change the result".to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CoverageLine, EventKindsRow};
    use exitscope_stats::Interval;

    /// A side of 10 s of vCPU time, of which guests ran half.
    fn side(recordings: usize, has_steal: bool) -> SideRow {
        let trace = TraceRow {
            name: "perf.data".into(),
            format: "perf.data".into(),
            arch: "x86_64".into(),
            hostname: String::new(),
            release: String::new(),
            clock: String::new(),
            given_hz: None,
            cpu: "A CPU".into(),
            cpus: 4,
            settings: Vec::new(),
            vms: Vec::new(),
            first_ns: 0,
            last_ns: 0,
            events: 0,
        };
        SideRow {
            traces: (0..recordings).map(|at| TraceRow { name: format!("{at}.data"), ..trace.clone() }).collect(),
            events: 100,
            exits: 100,
            lost: 0,
            duration_ns: 5_000_000_000,
            vcpu_ns: 10_000_000_000,
            guest_ns: 5_000_000_000,
            event_kinds: EventKindsRow {
                user_space: true,
                scheduler: has_steal,
                all_steal: has_steal,
                kvm_run: true,
                by_runner: false,
                switches: has_steal,
                sleeps: (0, 0),
            },
            lines: Vec::new(),
        }
    }

    /// Cost in hundredths of a per cent of vCPU time, and 100 exits a second.
    fn row(reason: Option<&str>, before: u64, after: u64, interval: (i64, i64)) -> DiffRow {
        let own = Interval { low: interval.0 * 100_000, high: interval.1 * 100_000 };
        let (before, after) = (Some(before * 100_000), Some(after * 100_000));
        let cost = MeasureChange::of_blocks(DiffMeasure::Cost, before, after, Some(own));
        let fewer = Some(Interval { low: -90_000, high: -80_000 });
        let rate = MeasureChange::of_blocks(DiffMeasure::Rate, Some(100_000), Some(13_000), fewer);
        DiffRow {
            reason: reason.map(str::to_string),
            without: Vec::new(),
            counts: (100, 13),
            timed: (100, 13),
            changes: vec![cost, rate],
        }
    }

    fn judged(total: &DiffRow, rows: &[DiffRow], sides: [&SideRow; 2]) -> DiffVerdictRow {
        let [before, after] = sides.map(SideRow::compared);
        DiffVerdictRow::of(&DiffVerdict::of(total, rows, [&before, &after]), total, sides, 99.0)
    }

    #[test]
    fn other_cpus_are_a_doubt_and_steal_is_said_as_far_as_it_was_recorded() {
        let total = row(None, 200, 560, (330, 390));
        let said = |cpus: [&str; 2], (scheduler, all_steal): (bool, bool)| {
            let sides = cpus.map(|cpu| {
                let mut side = side(6, true);
                side.traces.iter_mut().for_each(|trace| trace.cpu = cpu.into());
                (side.event_kinds.scheduler, side.event_kinds.all_steal) = (scheduler, all_steal);
                side
            });
            judged(&total, &[], [&sides[0], &sides[1]]).headline
        };
        let differ = "the CPUs differ (A; B), and with them what an exit costs";
        for (cpus, is) in [(["A", "B"], true), (["A", "A"], false), (["A", ""], false), (["", "B"], false)] {
            assert_eq!(said(cpus, (true, true)).doubts.iter().any(|doubt| doubt == differ), is, "{cpus:?}");
        }
        for (steal, text, doubt) in [
            ((true, true), "exits cost 2.8 times", None),
            ((true, false), "exits, and steal that was not recorded, take 2.8 times", Some("a part of steal was not")),
            ((false, false), "exits, and steal during them, take 2.8 times", Some("steal cannot be separated")),
        ] {
            let found = said(["A", "A"], steal);
            assert!(found.text.contains(text), "{}", found.text);
            let doubts: Vec<&String> = found.doubts.iter().filter(|doubt| doubt.contains("steal")).collect();
            assert_eq!(doubts.len(), usize::from(doubt.is_some()), "{doubts:?}");
            assert!(doubt.is_none_or(|doubt| doubts[0].contains(doubt)), "{doubts:?}");
        }
    }

    #[test]
    fn a_rise_beyond_all_of_the_time_would_never_have_been_clear() {
        let said = |least: u64| {
            let total = row(None, 5_000, 5_100, (-1_000, 1_000));
            let sides = [side(6, true), side(6, true)];
            let mut verdict = DiffVerdict::of(&total, &[], [&sides[0].compared(), &sides[1].compared()]);
            (verdict.least_clear, verdict.order) = (Some(least), Some(UnitOrderKind::InTurns));
            DiffVerdictRow::of(&verdict, &total, [&sides[0], &sides[1]], 95.0).headline.details.join("; ")
        };
        assert!(said(499_000_000).contains("a change of 49.9 points"), "{}", said(499_000_000));
        assert!(said(501_000_000).contains("no rise, however large, would have been clear"), "{}", said(501_000_000));
    }

    #[test]
    fn a_change_is_said_with_its_size_its_interval_and_what_carries_it() {
        let sides = [&side(3, true), &side(3, true)];
        let io = [row(Some("io"), 200, 600, (300, 500))];
        let worse = judged(&row(None, 310, 870, (410, 700)), &io, sides);
        assert_eq!(
            worse.headline.text,
            "Worse: exits cost 2.8 times as much; io is 71% of that; but exits per second -87.0%"
        );
        assert_eq!(
            worse.headline.details,
            [
                "timed exits cost 3.1% of vCPU time before, 8.7% after; change +5.6 points (99 % interval +4.1 to +7.0)",
                "exits: 100/s of vCPU time before, 13.0/s after (-87.0%)",
                "guests ran 50.0% of vCPU time before, 50.0% after; how much work that was is not recorded (--work)"
            ]
        );
        assert_eq!((worse.headline.is_doubtful, &worse.headline.doubts[..]), (false, &[][..]));
        assert_eq!((worse.reason.as_deref(), worse.headline.state.as_str()), (Some("io"), "worse"));
        let io = [row(Some("io"), 600, 200, (-500, -300))];
        let better = judged(&row(None, 870, 310, (-700, -410)), &io, sides);
        assert_eq!(better.headline.text, "Better: exits cost 64% less; io is 71% of that");
        assert_eq!(better.headline.state, "better");
    }

    /// Less cost because the VM had less of the CPU is not better.
    #[test]
    fn what_contradicts_the_cost_is_in_the_headline() {
        let sides = [&side(3, true), &side(3, true)];
        let mut starved = row(None, 870, 610, (-300, -200));
        let change = |measure, before, after, interval: (i64, i64)| {
            let interval = Interval { low: interval.0, high: interval.1 };
            MeasureChange::of_blocks(measure, Some(before), Some(after), Some(interval))
        };
        let of_guest = change(DiffMeasure::CostOfGuest, 100_000_000, 135_000_000, (30_000_000, 40_000_000));
        let guest = change(DiffMeasure::Guest, 800_000_000, 416_000_000, (-400_000_000, -300_000_000));
        let steal = change(DiffMeasure::Steal, 0, 400_000_000, (350_000_000, 450_000_000));
        starved.changes.extend([of_guest, guest, steal]);
        let found = judged(&starved, &[], sides).headline;
        assert_eq!(found.state, "undecided");
        assert_eq!(
            found.text,
            "Undecided: exits cost of vCPU time -29.9%; for the same guest time +35.0%; guests ran -48.0%; steal rose from 0% to \
             40.0% of vCPU time, so that the VMs ran less"
        );
        // The guest did twice as much, and each part of it costs what it did.
        let mut busier = row(None, 310, 620, (250, 350));
        busier.changes.extend([
            change(DiffMeasure::CostOfGuest, 100_000_000, 101_000_000, (-5_000_000, 6_000_000)),
            change(DiffMeasure::Guest, 300_000_000, 600_000_000, (250_000_000, 350_000_000)),
        ]);
        let found = judged(&busier, &[], sides).headline;
        assert_eq!(
            found.text,
            "Undecided: exits cost of vCPU time +100%; for the same guest time +1.0%, no clear difference; guests ran +100%"
        );
        // What was said of the work is taken before the guest's time.
        busier.changes.push(change(DiffMeasure::CostOfWork, 1_000_000, 2_000_000, (900_000, 1_100_000)));
        let found = judged(&busier, &[], sides).headline;
        assert!(found.state == "worse" && found.details[2].contains("exits cost for the same work +100%"), "{found:?}");
    }

    #[test]
    fn where_chance_may_explain_it_the_smallest_clear_change_is_said() {
        let sides = [&side(3, true), &side(3, true)];
        let found = judged(&row(None, 310, 320, (-60, 80)), &[row(Some("io"), 310, 320, (-60, 80))], sides).headline;
        assert_eq!(found.state, "no_clear_difference");
        assert_eq!(found.text, "No clear difference in what exits cost; exits per second -87.0%");
        assert_eq!(
            found.details[1],
            "a change of less than about 0.70 points (23% of before) would not be clear from these recordings"
        );
        let mut same = row(None, 310, 310, (-60, 80));
        same.counts = (100, 100);
        same.timed = (100, 100);
        same.changes.truncate(1);
        let found = judged(&same, &[], sides).headline;
        assert_eq!((found.state.as_str(), found.details.len()), ("same", 1), "{found:?}");
    }

    #[test]
    fn sides_that_are_not_alike_cannot_be_told() {
        let all = row(None, 310, 870, (410, 700));
        let (told, untold) = (side(3, true), side(3, false));
        let found = judged(&all, &[], [&untold, &told]);
        assert_eq!(
            found.headline.text,
            "Doubtful: steal was recorded only after; before, it is part of what exits \
            cost"
        );
        assert_eq!((found.headline.state.as_str(), found.reason), ("cannot_tell", None));
        assert!(!found.headline.details[0].contains("change"), "{:?}", found.headline.details);
        let mut other = side(3, true);
        other.traces.iter_mut().for_each(|trace| trace.arch = "aarch64".into());
        let text = judged(&all, &[], [&told, &other]).headline.text;
        assert_eq!(text, "Doubtful: one side is x86_64, the other aarch64, and their exits are not comparable");
        // A text that does not say more than `x86` may be of the same.
        other.traces.iter_mut().for_each(|trace| trace.arch = "x86".into());
        assert_eq!(judged(&all, &[], [&told, &other]).headline.state, "worse");
        let found = judged(&DiffRow { counts: (0, 0), ..all }, &[], [&told, &told]).headline;
        assert_eq!(found.text, "Doubtful: there is no exit on either side");
    }

    #[test]
    fn what_limits_a_verdict_is_said_and_what_could_change_it_makes_it_doubtful() {
        let all = row(None, 310, 870, (410, 700));
        let one = judged(&all, &[], [&side(1, true), &side(1, true)]).headline;
        assert!(one.is_doubtful && one.doubts[0].starts_with("one recording on each side"), "{one:?}");
        assert_eq!((one.state.as_str(), one.details.len()), ("recordings_differ", 3), "{one:?}");
        assert_eq!(
            one.text,
            "These recordings differ: exits cost 2.8 times as much; no reason's own change is clear; whether a change \
             caused that is unknown"
        );
        let one = judged(&all, &[], [&side(3, true), &side(1, true)]).headline;
        assert_eq!(one.state, "recordings_differ", "one recording on one side");
        let untold = judged(&all, &[], [&side(3, false), &side(3, false)]).headline;
        assert!(untold.is_doubtful, "{untold:?}");
        assert_eq!(
            untold.text,
            "Worse: exits, and steal during them, take 2.8 times as much; no reason's own change is clear; \
             but exits per second -87.0%"
        );
        let mut lossy = side(3, true);
        let line = CoverageLine {
            id: "lost_records",
            text: "Records lost",
            count: 3,
            severity: "loss",
            first_at: None,
            moments_ns: Vec::new(),
        };
        lossy.lines.push(line);
        let lossy = judged(&all, &[], [&side(3, true), &lossy]).headline;
        assert_eq!(
            (lossy.is_doubtful, &lossy.doubts[..]),
            (true, &["the recording after is incomplete, see below".to_string()][..])
        );
    }

    #[test]
    fn recordings_of_a_side_that_overlap_are_told() {
        let mut side = side(3, true);
        let line = LedgerLine::Overlapping;
        let (id, text) = (line.id(), "");
        side.lines.push(CoverageLine {
            id,
            text,
            count: 1_001,
            severity: "notice",
            first_at: None,
            moments_ns: Vec::new(),
        });
        let row = row(None, 1_000, 1_000, (-10, 10));
        let said = judged(&row, &[], [&side, &side]).headline.doubts.join("; ");
        for name in ["before", "after"] {
            let told =
                format!("recordings {name} overlap in time: 1,001 events are in several of them, and count once");
            assert!(said.contains(&told), "{said}");
        }
    }

    #[test]
    fn sizes_have_the_digits_that_tell_something() {
        for (before, after, said) in [
            (100.0, 280.0, "2.8 times as much"),
            (100.0, 1_234.0, "12 times as much"),
            (100.0, 134.0, "34% more"),
            (100.0, 103.1, "3.1% more"),
            (100.0, 52.0, "48% less"),
            (100.0, 99.95, "0.050% less"),
            (100.0, 0.0, "100% less"),
        ] {
            assert_eq!(how_much(before, after).as_deref(), Some(said));
        }
        assert_eq!(how_much(0.0, 5.0), None);
        assert_eq!([0.0, 21_000.0, 1.6e6, 4.79e8].map(of_time), ["0%", "0.0021%", "0.16%", "47.9%"]);
        assert_eq!([-2_000.0, 1.0, 0.0].map(points), ["-0.0002", "0", "0"]);
    }
}
