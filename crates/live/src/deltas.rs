//! What was counted between one snapshot and the next.
//!
//! ```text
//! Snapshot ─► counts of each vCPU by group, less what was given of them before ─► CountInterval
//! ```
//!
//! Maps are read while programs count on, and what an exit is about may come to be known late: its count moves to another key,
//! and is in none for a moment. So keys are summed up by group first, and what was once given of a group is not given again.

use crate::{IntervalTotals, LiveGroup};
use exitscope_record::{CountAndTime, CountedVcpu, CountedVcpuState, CountingCost, OpenExit, Snapshot};
use std::collections::BTreeMap;

/// What was counted from one snapshot to the next.
#[derive(Debug)]
pub struct CountInterval {
    /// Its end: CLOCK_MONOTONIC, nanoseconds.
    pub at: u64,
    /// How long it was since the one before, or since counting began, in nanoseconds; at least 1.
    pub length: u64,
    /// Every vCPU that is known, also those that ended in it: its state at the end, and what it did. Of a recording, a vCPU
    /// may have counts alone.
    pub vcpus: BTreeMap<CountedVcpu, (Option<CountedVcpuState>, IntervalTotals)>,
    /// [`Snapshot::lost`], since counting began.
    pub lost: u64,
    /// [`Snapshot::missed`], since counting began.
    pub missed: u64,
    /// What programs were measured to take in it.
    pub cost: CountingCost,
    /// Mean time of a program for an event, in nanoseconds, of all runs that were measured since counting began; `None` before
    /// the first.
    pub ns_per_event: Option<f64>,
}

impl CountInterval {
    /// Events that were looked at, of all vCPUs.
    pub fn events(&self) -> u64 {
        self.vcpus.values().map(|(_, totals)| totals.events).sum()
    }

    /// The vCPUs that have not ended.
    pub fn living(&self) -> impl Iterator<Item = &CountedVcpu> {
        self.vcpus.iter().filter(|(_, (state, _))| state.as_ref().is_some_and(|state| !state.ended)).map(|of| of.0)
    }
}

/// Makes intervals of snapshots of the same counting.
#[derive(Debug, Default)]
pub struct Deltas {
    at: u64,
    /// States of the vCPUs that had not ended by the last interval.
    lanes: BTreeMap<CountedVcpu, CountedVcpuState>,
    /// Totals up to the last interval, by vCPU and group.
    given: BTreeMap<(CountedVcpu, LiveGroup), CountAndTime>,
    cost: CountingCost,
}

impl Deltas {
    /// What is new in `now`. A vCPU that has ended is given for the last time: should its number come again, it is another's.
    pub fn take(&mut self, now: &Snapshot) -> CountInterval {
        let length = now.at.saturating_sub(self.at.max(now.began)).max(1);
        let mut vcpus: BTreeMap<CountedVcpu, (Option<CountedVcpuState>, IntervalTotals)> = BTreeMap::new();
        for (key, count) in &now.counts {
            let (_, totals) = vcpus.entry(key.lane).or_default();
            for group in LiveGroup::of(key).into_iter().flatten() {
                totals.groups.entry(group).or_default().ended.add(count);
            }
        }
        for (lane, (_, totals)) in &mut vcpus {
            for (group, of) in &mut totals.groups {
                let given = self.given.entry((*lane, *group)).or_default();
                of.ended = of.ended.since(given);
                of.within = of.ended.clone();
                given.add(&of.ended);
            }
        }
        for (lane, state) in &now.lanes {
            let (known, totals) = vcpus.entry(*lane).or_default();
            let none = CountedVcpuState::default();
            let before = self.lanes.get(lane).unwrap_or(&none);
            totals.wall = state.until.saturating_sub(state.first.max(self.at));
            totals.outside = state.outside_since(before);
            totals.wake_ups = state.wake_ups.since(&before.wake_ups);
            totals.events = state.events.saturating_sub(before.events);
            totals.poll = state.poll;
            if let Some(open) = &state.open {
                totals.groups.entry(LiveGroup::Reason(open.code)).or_default().within.add(&until(open, state.until));
            }
            if let Some(open) = &before.open {
                let of = totals.groups.entry(LiveGroup::Reason(open.code)).or_default();
                of.within = of.within.since(&until(open, self.at));
            }
            *known = Some(state.clone());
        }
        let cost = now.cost.unwrap_or(self.cost);
        let new =
            CountingCost { runs: cost.runs.saturating_sub(self.cost.runs), ns: cost.ns.saturating_sub(self.cost.ns) };
        (self.at, self.cost) = (now.at, cost);
        self.lanes = now.lanes.clone();
        self.lanes.retain(|_, state| !state.ended);
        self.given.retain(|(lane, _), _| self.lanes.contains_key(lane));
        let ns_per_event = (cost.runs > 0).then(|| cost.ns as f64 / cost.runs as f64);
        CountInterval { at: now.at, length, vcpus, lost: now.lost, missed: now.missed, cost: new, ns_per_event }
    }

    /// Whether a vCPU of this process had not ended.
    pub fn has_process(&self, process: u32) -> bool {
        self.lanes.keys().any(|lane| lane.process == process)
    }
}

/// What of an exit that is open at a moment lies before that.
fn until(open: &OpenExit, at: u64) -> CountAndTime {
    CountAndTime { total: at.saturating_sub(open.since), not_cost: open.not_cost, ..CountAndTime::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{CodeList, ExitCode, SubjectKind};
    use exitscope_record::{CountKey, CountedKind, CountedSubject, VcpuRunner};

    const LANE: CountedVcpu = CountedVcpu { process: 7, runner: VcpuRunner::Thread(8) };
    const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);
    const PORT: CountedSubject = CountedSubject { kind: SubjectKind::Port, write: true, key: 0x3f8 };

    /// So many exits, of 1 us each, and two events for each.
    fn exits(snapshot: &mut Snapshot, about: Option<CountedSubject>, count: u64) {
        snapshot.lanes.entry(LANE).or_default().events += 2 * count;
        let counted =
            snapshot.counts.entry(CountKey { lane: LANE, cause: CountedKind::Exit(IO), subject: about }).or_default();
        counted.count += count;
        counted.total += 1_000 * count;
        (0..count).for_each(|_| counted.lengths.record(1_000));
    }

    /// Exits and time that a group had in an interval.
    fn new(interval: &CountInterval, group: LiveGroup) -> (u64, u64) {
        interval.vcpus[&LANE].1.groups.get(&group).map_or((0, 0), |of| (of.ended.count, of.ended.total))
    }

    #[test]
    fn an_exit_that_turns_out_to_be_about_something_is_given_once() {
        let (mut deltas, mut now) = (Deltas::default(), Snapshot::default());
        exits(&mut now, None, 1);
        assert_eq!(new(&deltas.take(&now), LiveGroup::Reason(IO)), (1, 1_000));
        // It is on its way from one key to another.
        let (key, count) = now.counts.pop_first().unwrap();
        deltas.take(&now);
        now.counts.insert(CountKey { subject: Some(PORT), ..key }, count);
        let interval = deltas.take(&now);
        assert_eq!(new(&interval, LiveGroup::Reason(IO)), (0, 0));
        assert_eq!(new(&interval, LiveGroup::Subject(PORT)), (1, 1_000));
    }

    #[test]
    fn a_number_that_comes_again_is_another_vcpu() {
        let (mut deltas, mut now) = (Deltas::default(), Snapshot::default());
        exits(&mut now, None, 3);
        now.lanes.get_mut(&LANE).unwrap().ended = true;
        assert_eq!(new(&deltas.take(&now), LiveGroup::Reason(IO)), (3, 3_000));
        assert!(!deltas.has_process(7) && deltas.given.is_empty());
        let mut now = Snapshot::default();
        exits(&mut now, None, 2);
        assert_eq!(new(&deltas.take(&now), LiveGroup::Reason(IO)), (2, 2_000));
        assert!(deltas.has_process(7));
    }

    #[test]
    fn a_vcpu_has_the_part_of_its_time_that_lies_in_the_interval() {
        let state = |first, until| CountedVcpuState { first, until, ..CountedVcpuState::default() };
        let at = |at, state| Snapshot { at, began: 300, lanes: BTreeMap::from([(LANE, state)]), ..Snapshot::default() };
        let mut deltas = Deltas::default();
        for (now, length, wall) in
            [(at(1_000, state(400, 1_000)), 700, 600), (at(2_000, state(400, 1_700)), 1_000, 700)]
        {
            let interval = deltas.take(&now);
            assert_eq!((interval.length, interval.vcpus[&LANE].1.wall), (length, wall));
        }
    }

    #[test]
    fn a_programs_time_is_that_of_a_measured_run_and_stays_until_more_are_measured() {
        let cost = |runs, ns| Some(CountingCost { runs, ns });
        let mut deltas = Deltas::default();
        let mut seen = 0;
        for (measured, events, per_event) in [
            // Perf events, or BPF before the kernel measured a run.
            (None, 100, None),
            (cost(0, 0), 100, None),
            // Programs run for every VM of the host: few of the runs are of events of the VMs that are watched.
            (cost(5_000, 1_200_000), 2, Some(240.0)),
            // The kernel measures no more, but for a few runs before it stopped.
            (cost(5_003, 1_200_600), 100_000, Some(1_200_600.0 / 5_003.0)),
            (cost(5_003, 1_200_600), 100_000, Some(1_200_600.0 / 5_003.0)),
            (None, 100_000, Some(1_200_600.0 / 5_003.0)),
            (cost(5_003, 1_200_600), 0, Some(1_200_600.0 / 5_003.0)),
            // It measures again.
            (cost(10_000, 3_000_000), 0, Some(300.0)),
        ] {
            seen += events;
            let state = CountedVcpuState { events: seen, ..CountedVcpuState::default() };
            let now = Snapshot { cost: measured, lanes: BTreeMap::from([(LANE, state)]), ..Snapshot::default() };
            let interval = deltas.take(&now);
            assert_eq!((interval.events(), interval.ns_per_event), (events, per_event), "{measured:?}");
        }
    }
}
