//! Figures of an interval, made of its totals.

use crate::frame::{RateFigures, TopGroupRow};
use exitscope_live::{GroupTotals, IntervalTotals, LiveGroup};
use exitscope_model::{SubjectKind, SubjectNames, TimePart};
use exitscope_stats::CoarseBuckets;
use exitscope_view::detail_label;
use std::collections::BTreeMap;

/// Figures of an interval of so many seconds, whose subjects are called so.
pub fn figures(totals: &IntervalTotals, seconds: f64, names: &SubjectNames) -> RateFigures {
    // Whether a wake-up was for something is not shown.
    let mut halts: BTreeMap<LiveGroup, GroupTotals> = BTreeMap::new();
    for (group, of) in &totals.groups {
        if let LiveGroup::Halt { slept, .. } = *group {
            halts.entry(LiveGroup::Halt { slept, valid: true }).or_default().merge(of);
        }
    }
    let rows = |groups: &BTreeMap<LiveGroup, GroupTotals>, wanted: fn(&LiveGroup) -> bool| {
        let groups = groups.iter().filter(|(group, _)| wanted(group));
        let mut rows: Vec<TopGroupRow> =
            groups.map(|(group, of)| row(group, of, (totals.wall, seconds), names)).collect();
        // What cost most; of what has no length, what came most often.
        let cost = |row: &TopGroupRow| row.cost.unwrap_or(0.0);
        rows.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then(b.per_s.total_cmp(&a.per_s)).then(b.count.cmp(&a.count)));
        rows
    };
    let (mut to_user, mut busy) = (0, CoarseBuckets::default());
    for (code, of) in totals.reasons() {
        to_user += of.ended.to_user;
        if !code.is_halt() {
            busy.merge(&of.ended.lengths);
        }
    }
    let (exits, timed_exits) = totals.exits_and_timed();
    let has_cost = exits == 0 || timed_exits > 0 || totals.reasons().any(|(_, of)| of.within.total > 0);
    let parts = totals.parts();
    let of = |of: TimePart| part(parts.get(of).0, totals.wall);
    RateFigures {
        exits,
        exits_per_s: exits as f64 / seconds,
        vcpu_seconds: totals.wall as f64 / 1e9,
        cost: if has_cost { of(TimePart::Kernel) } else { None },
        polling: of(TimePart::Polling),
        halted: of(TimePart::Halted),
        halt_not_divided: of(TimePart::Undivided),
        waiting_for_memory: of(TimePart::Memory),
        steal: if totals.switches { of(TimePart::Steal) } else { None },
        stopped: of(TimePart::Stopped),
        unknown: of(TimePart::Unknown),
        guest: of(TimePart::Guest),
        to_user_space: part(to_user, exits),
        p99_ns: busy.quantile(9_900),
        histogram: busy.buckets().map(|(low, _, count)| (low, count)).collect(),
        reasons: rows(&totals.groups, |group| matches!(group, LiveGroup::Reason(_) | LiveGroup::InKernel(Some(_)))),
        subjects: rows(&totals.groups, |group| matches!(group, LiveGroup::Subject(_))),
        halts: rows(&halts, |_| true),
        poll_ns: totals.poll,
    }
}

fn row(group: &LiveGroup, totals: &GroupTotals, (wall, seconds): (u64, f64), names: &SubjectNames) -> TopGroupRow {
    let (kind, name, key) = match group {
        LiveGroup::Reason(code) => ("reason", code.name(), None),
        LiveGroup::InKernel(of) => {
            let of = of.map_or("", SubjectKind::name);
            ("reason", format!("{} (in the kernel)", of.replace('_', " ")), None)
        }
        LiveGroup::Subject(about) => {
            let name = names.of_key(&[], about.kind, about.key);
            (about.kind.name(), detail_label(name.as_deref(), about.kind, about.key, about.write), Some(about.key))
        }
        LiveGroup::Halt { slept: true, .. } => ("halt", "blocked".to_string(), None),
        LiveGroup::Halt { slept: false, .. } => ("halt", "successful poll".to_string(), None),
    };
    let GroupTotals { ended, within } = totals;
    let (is_halt, has_time) = (kind == "halt", totals.has_time());
    TopGroupRow {
        kind,
        name,
        key,
        count: ended.count,
        per_s: ended.count as f64 / seconds,
        cost: if has_time && !is_halt { part(within.cost(), wall) } else { None },
        exit_time: if has_time { part(within.total, wall) } else { None },
        to_user_space: if is_halt { None } else { part(ended.to_user, ended.count) },
        mean_ns: ended.total.checked_div(ended.lengths.total()),
        p50_ns: ended.lengths.quantile(5_000),
        p99_ns: ended.lengths.quantile(9_900),
        histogram: ended.lengths.buckets().map(|(low, _, count)| (low, count)).collect(),
    }
}

/// A share; of nothing, none.
pub fn part(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_live::Deltas;
    use exitscope_model::{CodeList, ExitCode, ExitParts};
    use exitscope_record::{
        CountAndTime, CountKey, CountedKind, CountedVcpu, CountedVcpuState, OpenExit, Snapshot, VcpuRunner,
    };
    use exitscope_units::Nanos;

    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);

    fn beside(halted: u64, steal: u64) -> ExitParts {
        ExitParts::ZERO.with(TimePart::Halted, Nanos(halted)).with(TimePart::Steal, Nanos(steal))
    }

    #[test]
    fn the_parts_of_an_interval_are_what_lies_in_it_and_cost_is_neither_halted_nor_steal() {
        // One halt began 300 before the interval and ends in it; the next is open at its end since 400.
        let lane = CountedVcpu { process: 7, runner: VcpuRunner::Thread(70) };
        let snapshot = |until, since, beside| {
            let open = Some(OpenExit { code: HLT, since, not_cost: beside });
            let lanes = BTreeMap::from([(lane, CountedVcpuState { until, open, ..CountedVcpuState::default() })]);
            Snapshot { at: until, lanes, ..Snapshot::default() }
        };
        let mut deltas = Deltas::default();
        deltas.take(&snapshot(1_000, 700, beside(280, 0)));
        let mut now = snapshot(2_500, 2_100, beside(350, 0));
        let ended = CountAndTime { count: 1, total: 900, not_cost: beside(700, 100), ..CountAndTime::default() };
        now.counts.insert(CountKey { lane, cause: CountedKind::Exit(HLT), subject: None }, ended);
        let mut totals = deltas.take(&now).vcpus.remove(&lane).unwrap().1;
        (totals.switches, totals.has_kvm_exit) = (true, true);
        let RateFigures { exits, cost, halted, steal, guest, reasons, .. } =
            figures(&totals, 1.0, &SubjectNames::default());
        let shares = [cost, halted, steal, guest].map(|share| (share.unwrap() * 1_500.0).round() as u64);
        assert_eq!((exits, shares), (1, [130, 770, 100, 500]));
        assert_eq!((reasons[0].count, (reasons[0].exit_time.unwrap() * 1_500.0).round()), (1, 1_000.0));
    }

    #[test]
    fn where_kvm_exit_does_not_fire_the_rest_is_unknown() {
        let totals = IntervalTotals { wall: 1_000, outside: beside(600, 300), switches: true, ..Default::default() };
        let RateFigures { halted, steal, unknown, guest, cost, .. } = figures(&totals, 1.0, &SubjectNames::default());
        assert_eq!([halted, steal, unknown, guest, cost], [0.6, 0.3, 0.1, 0.0, 0.0].map(Some));
    }

    /// A vCPU whose first event ends the interval, or whose thread ended before it: of no time nothing is a share.
    #[test]
    fn without_time_no_part_of_it_has_a_figure() {
        let mut timed = CountAndTime { count: 1, total: 7, ..CountAndTime::default() };
        timed.lengths.record(7);
        let group = GroupTotals { within: timed.clone(), ended: timed };
        for groups in [BTreeMap::new(), BTreeMap::from([(LiveGroup::Reason(HLT), group)])] {
            let exits = groups.len() as u64;
            let totals = IntervalTotals { wall: 0, switches: true, groups, ..IntervalTotals::default() };
            let figures = figures(&totals, 1.0, &SubjectNames::default());
            assert!(TimePart::ALL.iter().all(|&part| figures.share_of(part).is_none()), "{figures:?}");
            assert_eq!((figures.exits, figures.vcpu_seconds), (exits, 0.0));
            assert!(figures.reasons.iter().all(|row| row.cost.is_none() && row.exit_time.is_none()), "{figures:?}");
            assert!(figures.reasons.iter().all(|row| row.mean_ns == Some(7)), "{figures:?}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let of = |counted: CountAndTime| GroupTotals { within: counted.clone(), ended: counted };
        let counted = |count, to_user| of(CountAndTime { count, to_user, ..CountAndTime::default() });
        let mut timed = CountAndTime { count: 1, ..CountAndTime::default() };
        timed.lengths.record(0);
        let halt = LiveGroup::Halt { slept: true, valid: true };
        let totals = |groups: &[(LiveGroup, GroupTotals)]| IntervalTotals {
            wall: 1_000,
            groups: groups.iter().cloned().collect(),
            ..IntervalTotals::default()
        };
        let in_kernel = LiveGroup::InKernel(Some(SubjectKind::Msr));
        // Of 38 exits no end was seen: they have a count alone.
        for group in [LiveGroup::Reason(HLT), in_kernel] {
            let figures = figures(&totals(&[(group, counted(38, 19))]), 1.0, &SubjectNames::default());
            let row = &figures.reasons[0];
            assert_eq!((figures.exits, figures.cost), (38, None), "{group:?}");
            assert_eq!(
                (row.count, row.cost, row.exit_time, row.to_user_space),
                (38, None, None, Some(0.5)),
                "{group:?}"
            );
        }
        // A length of 0 is one, and so is that of an exit that has not ended.
        let open =
            GroupTotals { within: CountAndTime { total: 500, ..CountAndTime::default() }, ..GroupTotals::default() };
        let none = (GroupTotals::default(), 0, Some(0.0), None);
        for (of, count, cost, to_user) in [(of(timed), 1, Some(0.0), Some(0.0)), (open, 0, Some(0.5), None), none] {
            let figures = figures(&totals(&[(LiveGroup::Reason(HLT), of)]), 1.0, &SubjectNames::default());
            let row = &figures.reasons[0];
            assert_eq!((figures.exits, figures.cost, figures.to_user_space), (count, cost, to_user));
            assert_eq!((row.count, row.cost, row.exit_time, row.to_user_space), (count, cost, cost, to_user));
        }
        let figures = figures(&totals(&[(halt, counted(3, 0))]), 1.0, &SubjectNames::default());
        let row = &figures.halts[0];
        assert_eq!((row.count, row.cost, row.exit_time, row.to_user_space), (3, None, None, None));
        assert_eq!((figures.exits, figures.cost, figures.to_user_space), (0, Some(0.0), None), "no exit costs nothing");
    }
}
