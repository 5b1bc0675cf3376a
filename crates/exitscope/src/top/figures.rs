//! Figures of an interval, made of its totals.

use super::frame::{Figures, Row};
use exitscope_live::{GroupTotals, IntervalTotals, LiveGroup};
use exitscope_model::{SubjectNames, TimePart};
use exitscope_stats::CoarseBuckets;
use exitscope_view::detail_label;

/// Figures of an interval of so many seconds, whose subjects are called so.
pub fn figures(totals: &IntervalTotals, seconds: f64, names: &SubjectNames) -> Figures {
    let rows = |wanted: fn(&LiveGroup) -> bool| {
        let mut rows: Vec<Row> = (totals.groups.iter())
            .filter(|(group, _)| wanted(group))
            .map(|(group, of)| row(group, of, (totals.wall, seconds), names))
            .collect();
        // What cost most; of what has no length, what came most often.
        rows.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(b.per_s.total_cmp(&a.per_s)).then(b.count.cmp(&a.count)));
        rows
    };
    let (mut to_user, mut busy) = (0, CoarseBuckets::default());
    for (code, of) in totals.reasons() {
        to_user += of.new.to_user;
        if !code.is_halt() {
            busy.merge(&of.new.lengths);
        }
    }
    let (exits, _) = totals.exits_and_timed();
    let parts = totals.parts();
    let of = |of: TimePart| part(parts.get(of).0, totals.wall);
    Figures {
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
        reasons: rows(|group| matches!(group, LiveGroup::Reason(_) | LiveGroup::InKernel(_))),
        subjects: rows(|group| matches!(group, LiveGroup::Subject(_))),
        halts: rows(|group| matches!(group, LiveGroup::Halt { .. })),
        poll_ns: totals.poll,
    }
}

fn row(group: &LiveGroup, totals: &GroupTotals, (wall, seconds): (u64, f64), names: &SubjectNames) -> Row {
    let (kind, name, key) = match group {
        LiveGroup::Reason(code) => ("reason", code.name(), None),
        LiveGroup::InKernel(of) => ("reason", format!("{} (in the kernel)", of.name().replace('_', " ")), None),
        LiveGroup::Subject(about) => {
            let name = names.of_key(&[], about.kind, about.key);
            (about.kind.name(), detail_label(name.as_deref(), about.kind, about.key, about.write), Some(about.key))
        }
        LiveGroup::Halt { slept: true } => ("halt", "blocked".to_string(), None),
        LiveGroup::Halt { slept: false } => ("halt", "successful poll".to_string(), None),
    };
    let new = &totals.new;
    Row {
        kind,
        name,
        key,
        count: new.count,
        per_s: new.count as f64 / seconds,
        // A halt lies in exits, or in no exit: what it costs is theirs.
        cost: if kind == "halt" { 0.0 } else { part(totals.cost(), wall) },
        exit_time: part(totals.time(), wall),
        to_user_space: part(new.to_user, new.count),
        mean_ns: new.total.checked_div(new.lengths.total()),
        p50_ns: new.lengths.quantile(5_000),
        p99_ns: new.lengths.quantile(9_900),
        histogram: new.lengths.buckets().map(|(low, _, count)| (low, count)).collect(),
    }
}

fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{CodeList, ExitCode, ExitParts};
    use exitscope_record::{Count, Open};
    use exitscope_units::Nanos;

    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);

    fn beside(halted: u64, steal: u64) -> ExitParts {
        ExitParts::ZERO.with(TimePart::Halted, Nanos(halted)).with(TimePart::Steal, Nanos(steal))
    }

    #[test]
    fn the_parts_of_an_interval_are_what_lies_in_it_and_cost_is_neither_halted_nor_steal() {
        // One halt began 300 before the interval and ends in it; the next is open at its end since 400.
        let ended = Count { count: 1, total: 900, beside: beside(700, 100), ..Count::default() };
        let mut totals = IntervalTotals { wall: 1_500, switches: true, has_kvm_exit: true, ..Default::default() };
        totals.add(LiveGroup::Reason(HLT), &ended);
        totals.open(&Open { code: HLT, since: 700, beside: beside(280, 0) }, 1_000, -1);
        totals.open(&Open { code: HLT, since: 2_100, beside: beside(350, 0) }, 2_500, 1);
        let Figures { exits, cost, halted, steal, guest, reasons, .. } =
            figures(&totals, 1.0, &SubjectNames::default());
        let shares = [cost, halted, steal.unwrap(), guest].map(|share| (share * 1_500.0).round() as u64);
        assert_eq!((exits, shares), (1, [130, 770, 100, 500]));
        assert_eq!((reasons[0].count, (reasons[0].exit_time * 1_500.0).round()), (1, 1_000.0));
    }

    #[test]
    fn where_kvm_exit_does_not_fire_the_rest_is_unknown() {
        let totals = IntervalTotals { wall: 1_000, outside: beside(600, 300), switches: true, ..Default::default() };
        let Figures { halted, steal, unknown, guest, cost, .. } = figures(&totals, 1.0, &SubjectNames::default());
        assert_eq!((halted, steal, unknown, guest, cost), (0.6, Some(0.3), 0.1, 0.0, 0.0));
    }
}
