//! Ganged exits while they happen: what `report --view gang` counts of a recording, for each interval.
//!
//! ```text
//! Aggregation::take_core_events ─► GangFacts (as for recordings), less what they had before ─► a row for each VM
//! ```

use crate::figures::part;
use crate::frame::{GangCause, TopGangRow};
use exitscope_analysis::{ForcingExits, GangFacts, GangStats};
use exitscope_model::{CodeList, Event, ExitCode};
use exitscope_units::{VcpuId, VmId};
use std::collections::{BTreeMap, HashMap};

/// VMs of which runs are counted; with more, as they come and go, it is begun anew.
const MAX_VMS: usize = 1024;

/// Ganged exits, and what they were at the end of the last interval.
#[derive(Debug, Default)]
pub struct GangWatch {
    gangs: GangFacts,
    before: BTreeMap<VmId, GangStats>,
    causes: HashMap<(VmId, VcpuId, u16), ForcingExits>,
}

impl GangWatch {
    /// Takes what happened, in the order of time.
    pub fn absorb(&mut self, events: &[Event]) {
        if self.before.len() > MAX_VMS {
            *self = GangWatch::default();
        }
        events.iter().for_each(|event| self.gangs.absorb(event, |_| true));
    }

    /// An interval of so many seconds, by process; `wall` is the vCPUs' time in it, in nanoseconds. VMs whose vCPUs never ran
    /// together are not there.
    pub fn rows(&mut self, seconds: f64, wall: impl Fn(u32) -> u64) -> HashMap<u32, TopGangRow> {
        let cells = self.gangs.vms();
        let causes = self.gangs.causes();
        let none = GangStats::default();
        let mut rows = HashMap::new();
        for (&vm, now) in cells.iter().filter(|(_, cell)| cell.runs > 0) {
            let before = self.before.get(&vm).unwrap_or(&none);
            let new = |of: fn(&GangStats) -> u64| of(now).saturating_sub(of(before));
            let per_s = |count: u64| count as f64 / seconds;
            let (runs, ganged, forced) = (new(|cell| cell.runs), new(|cell| cell.ganged), new(|cell| cell.forced));
            let mut row = TopGangRow {
                runs_per_s: per_s(runs),
                ganged: part(ganged, runs),
                forced_exits_per_s: per_s(forced),
                forced_exits: part(forced, new(|cell| cell.exits)),
                forced_out: part(new(|cell| cell.lost.sum), wall(vm.0)),
                causes: Vec::new(),
            };
            for ((_, vcpu, trap), cause) in causes.iter().filter(|((of, ..), _)| *of == vm) {
                let before = self.causes.get(&(vm, *vcpu, *trap)).copied().unwrap_or_default();
                let runs = cause.runs.saturating_sub(before.runs);
                row.causes.extend((runs > 0).then(|| GangCause {
                    vcpu: vcpu.0,
                    reason: ExitCode::new(CodeList::PpcTrap, (*trap).into()).name(),
                    runs_per_s: per_s(runs),
                    forced_exits_per_s: per_s(cause.forced.saturating_sub(before.forced)),
                    forced_out: part(cause.lost.saturating_sub(before.lost), wall(vm.0)),
                }));
            }
            row.causes.sort_by(|a, b| b.forced_exits_per_s.total_cmp(&a.forced_exits_per_s).then(a.vcpu.cmp(&b.vcpu)));
            rows.insert(vm.0, row);
        }
        self.before = cells;
        self.causes = causes.into_iter().collect();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{EventKind, NameId, SubjectWord};
    use exitscope_units::{Moment, PcpuId, Tid};

    fn event(at: u64, vcpu: u32, kind: EventKind) -> Event {
        let (tid, vm, cpu) = (Tid(70), VmId(7), PcpuId(0));
        Event { at: Moment::from_nanos(at), tid, vm, vcpu: VcpuId(vcpu), cpu, name: NameId::NONE, kind }
    }

    fn exit(trap: u64) -> EventKind {
        EventKind::Exit { code: ExitCode::new(CodeList::PpcTrap, trap), idle: false, words: SubjectWord::NONE, rip: 0 }
    }

    /// A run of two vCPUs from `at` on: vCPU 1 makes a hypercall, vCPU 0 is forced out, and both are back 200 ns later.
    fn ganged_run(at: u64) -> Vec<Event> {
        vec![
            event(at, 0, EventKind::RunCore { exit: false, runnable: 2 }),
            event(at + 100, 0, exit(0xe80)),
            event(at + 110, 1, exit(0xc00)),
            event(at + 120, 0, EventKind::RunCore { exit: true, runnable: 2 }),
            event(at + 300, 0, EventKind::Enter),
            event(at + 300, 1, EventKind::Enter),
        ]
    }

    #[test]
    fn rows_are_of_their_interval_alone() {
        let mut watch = GangWatch::default();
        assert!(watch.rows(1.0, |_| 1000).is_empty());
        watch.absorb(&ganged_run(1_000));
        watch.absorb(&ganged_run(2_000));
        let row = &watch.rows(2.0, |pid| u64::from(pid) * 100)[&7];
        assert_eq!(
            (row.runs_per_s, row.ganged, row.forced_exits_per_s, row.forced_exits),
            (1.0, Some(1.0), 1.0, Some(0.5))
        );
        assert_eq!(row.forced_out, Some(400.0 / 700.0));
        let [cause] = &row.causes[..] else { panic!("{:?}", row.causes) };
        assert_eq!((cause.vcpu, cause.reason.as_str(), cause.forced_exits_per_s), (1, "SYSCALL", 1.0));
        // A run that goes on over the end of an interval is of the next.
        let (first, rest) = (&ganged_run(3_000)[..2], &ganged_run(3_000)[2..]);
        watch.absorb(first);
        let quiet = watch.rows(1.0, |_| 1000)[&7].clone();
        assert_eq!((quiet.runs_per_s, quiet.causes.len()), (0.0, 0));
        watch.absorb(rest);
        assert_eq!(watch.rows(1.0, |_| 1000)[&7].runs_per_s, 1.0);
    }
}
