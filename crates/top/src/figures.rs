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
        rows.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(b.per_s.total_cmp(&a.per_s)).then(b.count.cmp(&a.count)));
        rows
    };
    let (mut to_user, mut busy) = (0, CoarseBuckets::default());
    for (code, of) in totals.reasons() {
        to_user += of.ended.to_user;
        if !code.is_halt() {
            busy.merge(&of.ended.lengths);
        }
    }
    let (exits, _) = totals.exits_and_timed();
    let parts = totals.parts();
    let of = |of: TimePart| part(parts.get(of).0, totals.wall);
    RateFigures {
        exits,
        exits_per_s: exits as f64 / seconds,
        vcpu_seconds: totals.wall as f64 / 1e9,
        cost: of(TimePart::Kernel),
        polling: of(TimePart::Polling),
        halted: of(TimePart::Halted),
        halt_not_divided: of(TimePart::Undivided),
        waiting_for_memory: of(TimePart::Memory),
        steal: totals.switches.then(|| of(TimePart::Steal)),
        stopped: of(TimePart::Stopped),
        unknown: of(TimePart::Unknown),
        guest: of(TimePart::Guest),
        to_user_space: part(to_user, exits),
        p99_ns: busy.quantile(9_900),
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
    TopGroupRow {
        kind,
        name,
        key,
        count: ended.count,
        per_s: ended.count as f64 / seconds,
        // A halt lies in exits, or in no exit: what it costs is theirs.
        cost: if kind == "halt" { 0.0 } else { part(within.cost(), wall) },
        exit_time: part(within.total, wall),
        to_user_space: part(ended.to_user, ended.count),
        mean_ns: ended.total.checked_div(ended.lengths.total()),
        p50_ns: ended.lengths.quantile(5_000),
        p99_ns: ended.lengths.quantile(9_900),
        histogram: ended.lengths.buckets().map(|(low, _, count)| (low, count)).collect(),
    }
}

/// A share; of nothing, none.
pub fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
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
        let shares = [cost, halted, steal.unwrap(), guest].map(|share| (share * 1_500.0).round() as u64);
        assert_eq!((exits, shares), (1, [130, 770, 100, 500]));
        assert_eq!((reasons[0].count, (reasons[0].exit_time * 1_500.0).round()), (1, 1_000.0));
    }

    #[test]
    fn where_kvm_exit_does_not_fire_the_rest_is_unknown() {
        let totals = IntervalTotals { wall: 1_000, outside: beside(600, 300), switches: true, ..Default::default() };
        let RateFigures { halted, steal, unknown, guest, cost, .. } = figures(&totals, 1.0, &SubjectNames::default());
        assert_eq!((halted, steal, unknown, guest, cost), (0.6, Some(0.3), 0.1, 0.0, 0.0));
    }
}
