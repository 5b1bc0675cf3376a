//! What was counted between one snapshot and the next.
//!
//! ```text
//! Snapshot ─► counts of each vCPU by group, less what was given of them before ─► CountInterval
//! ```
//!
//! Maps are read while programs count on, and what an exit is about may come to be known late: its count moves to another key,
//! and is in none for a moment. So keys are summed up by group first, and what was once given of a group is not given again.

use exitscope_model::ExitParts;
use exitscope_record::{Cause, Cost, Count, Key, Lane, LaneState, Open, Snapshot};
use std::collections::BTreeMap;

/// What counts are told apart by.
pub trait CountGroup: Copy + Ord {
    /// The groups that counts under this key belong to.
    fn of(key: &Key) -> [Option<Self>; 2];
}

impl CountGroup for Cause {
    fn of(key: &Key) -> [Option<Cause>; 2] {
        [Some(key.cause), None]
    }
}

/// What was counted from one snapshot to the next.
#[derive(Clone, Debug)]
pub struct CountInterval<G> {
    /// Its end: CLOCK_MONOTONIC, nanoseconds.
    pub at: u64,
    /// How long it was since the one before, or since counting began, in nanoseconds; at least 1.
    pub length: u64,
    /// Every vCPU that is known, also those that ended in it.
    pub vcpus: BTreeMap<Lane, VcpuInterval>,
    /// What is new of every vCPU and group.
    pub counts: BTreeMap<(Lane, G), Count>,
    /// [`Snapshot::lost`], since counting began.
    pub lost: u64,
    /// [`Snapshot::missed`], since counting began.
    pub missed: u64,
    /// What programs were measured to take in it.
    pub cost: Cost,
}

/// A vCPU in an interval.
#[derive(Clone, Debug)]
pub struct VcpuInterval {
    /// What is known of it at the end.
    pub state: LaneState,
    /// Nanoseconds of the interval, from its first event on, and until it ended.
    pub wall: u64,
    /// Time in the interval that is of no exit, and not in the guest.
    pub outside: ExitParts,
    /// Events that were looked at for it.
    pub events: u64,
    /// The exit that it was in at the beginning, and that moment.
    pub open_before: Option<(Open, u64)>,
}

impl<G> CountInterval<G> {
    /// Events that were looked at, of all vCPUs.
    pub fn events(&self) -> u64 {
        self.vcpus.values().map(|vcpu| vcpu.events).sum()
    }

    /// Nanoseconds of programs for each event; `None` where no run of a program was measured.
    pub fn ns_per_event(&self) -> Option<f64> {
        let events = self.events();
        (self.cost.runs > 0 && events > 0).then(|| self.cost.ns as f64 / events as f64)
    }
}

/// Makes intervals of snapshots of the same counting.
#[derive(Debug)]
pub struct Deltas<G> {
    at: u64,
    /// vCPUs that had not ended.
    lanes: BTreeMap<Lane, LaneState>,
    /// What was given of them.
    counts: BTreeMap<(Lane, G), Count>,
    cost: Cost,
}

impl<G> Default for Deltas<G> {
    fn default() -> Deltas<G> {
        Deltas { at: 0, lanes: BTreeMap::new(), counts: BTreeMap::new(), cost: Cost::default() }
    }
}

impl<G: CountGroup> Deltas<G> {
    /// What is new in `now`. A vCPU that has ended is given for the last time: should its number come again, it is another's.
    pub fn take(&mut self, now: &Snapshot) -> CountInterval<G> {
        let length = now.at.saturating_sub(self.at.max(now.began)).max(1);
        let vcpu = |lane, state: &LaneState| {
            let none = LaneState::default();
            let before = self.lanes.get(lane).unwrap_or(&none);
            VcpuInterval {
                state: state.clone(),
                wall: state.until.saturating_sub(state.first.max(self.at)),
                outside: state.outside_since(before),
                events: state.events.saturating_sub(before.events),
                open_before: before.open.map(|open| (open, self.at)),
            }
        };
        let vcpus = now.lanes.iter().map(|(lane, state)| (*lane, vcpu(lane, state))).collect();
        let mut counts: BTreeMap<(Lane, G), Count> = BTreeMap::new();
        for (key, count) in &now.counts {
            for group in G::of(key).into_iter().flatten() {
                counts.entry((key.lane, group)).or_default().add(count);
            }
        }
        for (key, count) in &mut counts {
            let given = self.counts.entry(*key).or_default();
            *count = count.since(given);
            given.add(count);
        }
        let cost = now.cost.unwrap_or(self.cost);
        let new_cost =
            Cost { runs: cost.runs.saturating_sub(self.cost.runs), ns: cost.ns.saturating_sub(self.cost.ns) };
        let lives = now.lanes.iter().filter(|(_, state)| !state.ended);
        (self.at, self.cost) = (now.at, cost);
        self.lanes = lives.map(|(lane, state)| (*lane, state.clone())).collect();
        self.counts.retain(|(lane, _), _| self.lanes.contains_key(lane));
        CountInterval { at: now.at, length, vcpus, counts, lost: now.lost, missed: now.missed, cost: new_cost }
    }

    /// Whether a vCPU of this process had not ended.
    pub fn has_process(&self, process: u32) -> bool {
        self.lanes.keys().any(|lane| lane.process == process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{CodeList, DetailKind, ExitCode};
    use exitscope_record::{About, Runner};

    const LANE: Lane = Lane { process: 7, runner: Runner::Thread(8) };
    const IO: Cause = Cause::Exit(ExitCode::new(CodeList::Vmx, 30));
    const PORT: About = About { kind: DetailKind::Port, write: true, key: 0x3f8 };

    /// Groups of which an exit belongs to two.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Both {
        Cause(Cause),
        About(About),
    }

    impl CountGroup for Both {
        fn of(key: &Key) -> [Option<Both>; 2] {
            [Some(Both::Cause(key.cause)), key.about.map(Both::About)]
        }
    }

    /// So many exits, of 1 us each, and two events for each.
    fn exits(snapshot: &mut Snapshot, about: Option<About>, count: u64) {
        snapshot.lanes.entry(LANE).or_default().events += 2 * count;
        let counted = snapshot.counts.entry(Key { lane: LANE, cause: IO, about }).or_default();
        counted.count += count;
        counted.total += 1_000 * count;
        (0..count).for_each(|_| counted.lengths.record(1_000));
    }

    /// Exits and time that a group had in an interval.
    fn new<G: CountGroup>(interval: &CountInterval<G>, group: G) -> (u64, u64) {
        interval.counts.get(&(LANE, group)).map_or((0, 0), |count| (count.count, count.total))
    }

    #[test]
    fn only_what_is_new_is_given() {
        let (mut deltas, mut now) = (Deltas::default(), Snapshot { at: 100, began: 40, ..Snapshot::default() });
        exits(&mut now, None, 3);
        let first = deltas.take(&now);
        assert_eq!((first.length, first.events(), new(&first, IO)), (60, 6, (3, 3_000)));
        now.at = 150;
        exits(&mut now, None, 2);
        let second = deltas.take(&now);
        assert_eq!((second.length, second.events(), new(&second, IO)), (50, 4, (2, 2_000)));
        assert_eq!(new(&deltas.take(&now), IO), (0, 0));
    }

    #[test]
    fn an_exit_that_turns_out_to_be_about_something_is_given_once() {
        let (mut deltas, mut now) = (Deltas::default(), Snapshot::default());
        exits(&mut now, None, 1);
        assert_eq!(new(&deltas.take(&now), Both::Cause(IO)), (1, 1_000));
        // It is on its way from one key to another.
        let (key, count) = now.counts.pop_first().unwrap();
        deltas.take(&now);
        now.counts.insert(Key { about: Some(PORT), ..key }, count);
        let interval = deltas.take(&now);
        assert_eq!((new(&interval, Both::Cause(IO)), new(&interval, Both::About(PORT))), ((0, 0), (1, 1_000)));
        // What was given of a key that it has left is not given to the next exit there.
        exits(&mut now, None, 1);
        assert_eq!(new(&deltas.take(&now), Both::Cause(IO)), (1, 1_000));
    }

    #[test]
    fn a_number_that_comes_again_is_another_vcpu() {
        let (mut deltas, mut now) = (Deltas::default(), Snapshot::default());
        exits(&mut now, None, 3);
        now.lanes.get_mut(&LANE).unwrap().ended = true;
        assert_eq!(new(&deltas.take(&now), IO), (3, 3_000));
        assert!(!deltas.has_process(7) && deltas.counts.is_empty());
        let mut now = Snapshot::default();
        exits(&mut now, None, 2);
        assert_eq!(new(&deltas.take(&now), IO), (2, 2_000));
        assert!(deltas.has_process(7));
    }

    #[test]
    fn a_vcpu_has_the_part_of_its_time_that_lies_in_the_interval() {
        let state = |first, until| LaneState { first, until, ..LaneState::default() };
        let at = |at, state| Snapshot { at, lanes: BTreeMap::from([(LANE, state)]), ..Snapshot::default() };
        let mut deltas: Deltas<Cause> = Deltas::default();
        assert_eq!(deltas.take(&at(1_000, state(400, 1_000))).vcpus[&LANE].wall, 600);
        assert_eq!(deltas.take(&at(2_000, state(400, 1_700))).vcpus[&LANE].wall, 700);
    }

    #[test]
    fn a_cost_that_was_not_measured_is_none_and_not_nothing() {
        let cost = |runs, ns| Some(Cost { runs, ns });
        for (now, before, events, per_event) in [
            (None, None, 100, None),
            (cost(0, 0), None, 100, None),
            // Programs ran, but none while it was measured.
            (cost(50, 5_000), cost(50, 5_000), 100, None),
            (cost(50, 5_000), None, 0, None),
            (cost(50, 5_000), None, 100, Some(50.0)),
            (cost(250, 25_000), cost(50, 5_000), 100, Some(200.0)),
        ] {
            let mut deltas: Deltas<Cause> = Deltas::default();
            deltas.take(&Snapshot { cost: before, ..Snapshot::default() });
            let state = LaneState { events, ..LaneState::default() };
            let now = Snapshot { cost: now, lanes: BTreeMap::from([(LANE, state)]), ..Snapshot::default() };
            assert_eq!(deltas.take(&now).ns_per_event(), per_event, "{now:?} after {before:?}, {events} events");
        }
    }
}
