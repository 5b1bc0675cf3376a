//! What counting exits tells of each turn.

use exitscope_analysis::are_known;
use exitscope_live::{CostCycle, IntervalTotals, LiveCounts, LiveGroup, VmWatch};
use exitscope_model::{ExitCode, TimePart};
use exitscope_record::{CountingOptions, HaltWakeUps, Processes, vms};
use exitscope_trial::{Better, MetricUnit, TrialMetric};
use exitscope_units::Nanos;
use exitscope_view::{CauseRateRow, TrialCauseRow};
use std::collections::BTreeSet;
use std::time::Duration;

/// A figure of a turn: its name, its unit, which way is better, and what it comes to for all vCPUs together in a turn of so many
/// nanoseconds; `None` if nothing tells.
type Figure = (&'static str, MetricUnit, Better, fn(&IntervalTotals, u64) -> Option<f64>);

/// The figures, the one that decides without a metric of the user's first.
const FIGURES: [Figure; 6] = [
    ("cost", MetricUnit::Share, Better::Lower, |all, _| Some(share(all, all.parts().cost()))),
    ("steal", MetricUnit::Share, Better::Lower, |all, _| Some(share_of(all, TimePart::Steal))),
    ("polling", MetricUnit::Share, Better::Lower, |all, _| Some(share_of(all, TimePart::Polling))),
    ("halted", MetricUnit::Share, Better::Higher, |all, _| Some(share_of(all, TimePart::Halted))),
    ("wakeup", MetricUnit::Time, Better::Lower, |all, _| mean_latency(&all.wake_ups)),
    ("exits", MetricUnit::PerSecond, Better::Lower, |all, length| {
        Some(all.exits_and_timed().0 as f64 * 1e9 / length as f64)
    }),
];

/// Counts of exits, turn by turn.
pub struct CountedMetrics {
    counts: LiveCounts,
    /// The turns of each setting together.
    by_setting: Vec<IntervalTotals>,
    /// Events lost when the turn began.
    lost: u64,
    /// Wake-ups and switches that were missed so far.
    pub missed: u64,
}

impl CountedMetrics {
    /// Begins to count the exits of these processes. An error says why that cannot be.
    pub fn start(processes: Processes) -> Result<CountedMetrics, String> {
        // Whose threads are named as vCPUs' may be no VM of KVM.
        if !vms().iter().any(|vm| processes.hold(vm.process)) {
            return Err("no VM visible".to_string());
        }
        let vms = VmWatch::new(&processes, None, false);
        let options = CountingOptions { processes, ..CountingOptions::default() };
        // What counting costs is not measured: it would cost more in some turns than in others.
        let cycle = CostCycle::new(Duration::ZERO, Duration::MAX);
        let counts = LiveCounts::start(&options, vms, cycle).map_err(|error| error.to_string())?;
        Ok(CountedMetrics { counts, by_setting: Vec::new(), lost: 0, missed: 0 })
    }

    /// What they are called.
    pub fn metrics() -> Vec<TrialMetric> {
        FIGURES.map(|(name, unit, better, _)| TrialMetric { name: name.to_string(), unit, better }).to_vec()
    }

    /// Whether in-kernel exits are counted, too.
    pub fn has_all_exits(&self) -> bool {
        self.counts.counting.has_kvm_exit()
    }

    /// Begins a turn.
    pub fn begin(&mut self) -> Result<(), String> {
        let interval = self.counts.take().map_err(|error| error.to_string())?;
        self.lost = interval.lost;
        Ok(())
    }

    /// The values of the turn that ends now, of all vCPUs together; `None` of what no halt tells. `setting` was in force.
    pub fn end(&mut self, setting: usize) -> Result<Vec<Option<f64>>, String> {
        let interval = self.counts.take().map_err(|error| error.to_string())?;
        self.missed = interval.missed;
        if interval.lost > self.lost {
            return Err(
                "events were lost in this turn, so its exits are not known; --no-count does without".to_string()
            );
        }
        let mut all = IntervalTotals::default();
        interval.vcpus.values().for_each(|(_, totals)| all.merge(totals));
        if all.wall == 0 {
            return Err("no vCPU was running in this turn; --no-count does without".to_string());
        }
        let settings = self.by_setting.len().max(setting + 1);
        self.by_setting.resize_with(settings, IntervalTotals::default);
        self.by_setting[setting].merge(&all);
        Ok(FIGURES.iter().map(|figure| figure.3(&all, interval.length)).collect())
    }

    /// What exits came to by reason, those that cost most first: in the turns of the setting in force, then of each other.
    pub fn causes(&self) -> Vec<TrialCauseRow> {
        let codes: BTreeSet<ExitCode> = self.by_setting.iter().flat_map(|of| of.reasons().map(|of| of.0)).collect();
        let rate = |of: &IntervalTotals, code| {
            let group = of.groups.get(&LiveGroup::Reason(code)).cloned().unwrap_or_default();
            let per_vcpu_time = |number: u64| number as f64 / of.wall.max(1) as f64;
            CauseRateRow {
                per_s: per_vcpu_time(group.ended.count) * 1e9,
                cost_percent: per_vcpu_time(group.within.cost()) * 100.0,
            }
        };
        let cause = |code: ExitCode| TrialCauseRow {
            reason: code.name(),
            settings: self.by_setting.iter().map(|of| rate(of, code)).collect(),
        };
        let mut causes: Vec<TrialCauseRow> = codes.into_iter().map(cause).collect();
        causes.sort_by(|left, right| most(right).total_cmp(&most(left)));
        causes
    }
}

/// A time in per cent of the vCPUs' wall time.
fn share(all: &IntervalTotals, time: Nanos) -> f64 {
    time.0 as f64 * 100.0 / all.wall as f64
}

fn share_of(all: &IntervalTotals, part: TimePart) -> f64 {
    share(all, all.parts().get(part))
}

/// The mean wake-up latency in nanoseconds; `None` without halts, and if too many wake-ups were not seen.
fn mean_latency(of: &HaltWakeUps) -> Option<f64> {
    let is_known = of.seen > 0 && are_known(of.seen + of.unseen, of.unseen);
    is_known.then(|| of.latency as f64 / of.seen as f64)
}

fn most(cause: &TrialCauseRow) -> f64 {
    cause.settings.iter().map(|rate| rate.cost_percent).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_a_latency_if_it_has_halts_and_most_of_their_wake_ups_were_seen() {
        for (seen, unseen, mean) in
            [(0, 0, None), (0, 3, None), (2, 0, Some(150.0)), (19, 1, Some(150.0)), (18, 1, None)]
        {
            let of = HaltWakeUps { seen, latency: 150 * seen, unseen };
            assert_eq!(mean_latency(&of), mean, "{seen} seen, {unseen} not");
        }
        let names: Vec<String> = CountedMetrics::metrics().into_iter().map(|metric| metric.name).collect();
        assert_eq!(names, ["cost", "steal", "polling", "halted", "wakeup", "exits"]);
    }
}
