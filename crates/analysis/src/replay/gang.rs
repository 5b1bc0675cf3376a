//! Virtual cores of other widths, replayed over recorded core runs.
//!
//! ```text
//! recorded, one virtual core 0-3:   0 SYSCALL   1 forced   2 forced   3 forced
//! replayed, smt_mode 2:             0 SYSCALL   1 forced │ 2          3            two exits avoided
//! ```
//!
//! What is ganged is told by one rule, [`gang`], of the recorded run and of each part of it.

use crate::gangs::{CoreRunOutcome, CoreRunPairing, GangMember};
use exitscope_model::{Event, Turns};
use exitscope_policy::vcore::{CoreRunClass, H_DOORBELL, Params, gang};
use exitscope_units::{Moment, Nanos, VmId};

/// What virtual cores of one width would have made of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangOutcome {
    /// Recorded core runs that were ganged, or of which some virtual core's part would have been.
    pub ganged: u64,
    /// Exits that were forced.
    pub forced: u64,
    /// Forced exits that would not have happened.
    pub avoided: u64,
    /// Time lost by those that would still have been forced out, in nanoseconds.
    pub lost: u64,
    /// Of that, nanoseconds in which another virtual core had the CPU.
    pub others: u64,
}

impl GangOutcome {
    /// What being forced out would have cost, in nanoseconds: all but the time in which another virtual core had the CPU.
    pub fn cost(&self) -> u64 {
        self.lost.saturating_sub(self.others)
    }

    fn lose(&mut self, lost: Nanos, others: Nanos) {
        self.lost = self.lost.saturating_add(lost.0);
        self.others = self.others.saturating_add(others.0);
    }
}

/// Virtual cores of several widths, over one recording.
#[derive(Clone, Debug)]
pub struct GangReplay {
    runs: CoreRunPairing,
    turns: Turns,
    /// Core runs.
    pub core_runs: u64,
    /// As recorded.
    pub recorded: GangOutcome,
    /// Each topology, and what it would have made of the runs.
    pub outcomes: Vec<(Params, GangOutcome)>,
}

impl GangReplay {
    /// Replays these topologies.
    pub fn new(topologies: &[Params]) -> GangReplay {
        let outcomes = topologies.iter().map(|params| (*params, GangOutcome::default())).collect();
        let (runs, turns) = (CoreRunPairing::default(), Turns::default());
        GangReplay { runs, turns, core_runs: 0, recorded: GangOutcome::default(), outcomes }
    }

    /// Takes one event, `within` what is to be looked at or not.
    pub fn absorb(&mut self, event: &Event, within: impl Fn(VmId, Moment) -> bool) {
        self.turns.take(event);
        let others = |cpu| self.turns.of_others(cpu, event.vm, event.vcpu, event.at);
        match self.runs.take(event, others) {
            Some(CoreRunOutcome::Run(run)) if within(run.runner.0, event.at) => {
                self.core_runs += 1;
                let CoreRunClass::Ganged { forced, .. } = run.gang() else { return };
                self.recorded.ganged += 1;
                self.recorded.forced += u64::from(forced);
                for (params, outcome) in &mut self.outcomes {
                    let parts = parts(params, &run.members).filter_map(|vcore| forced_in(params, vcore, &run.members));
                    let (ganged, still) = parts.fold((false, 0), |(_, sum), forced| (true, sum + forced));
                    outcome.ganged += u64::from(ganged);
                    outcome.forced += u64::from(still);
                    outcome.avoided += u64::from(forced - still);
                }
            }
            Some(CoreRunOutcome::Back { vcpu, forced, lost, others }) if within(forced.runner.0, event.at) => {
                self.recorded.lose(lost, others);
                for (params, outcome) in &mut self.outcomes {
                    if forced_in(params, params.vcore_of(vcpu), &forced.members).is_some() {
                        outcome.lose(lost, others);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The virtual cores that the threads of a run would have belonged to, each once.
fn parts<'a>(params: &'a Params, members: &'a [GangMember]) -> impl Iterator<Item = u32> + 'a {
    let vcore_of = |member: &GangMember| params.vcore_of(member.vcpu);
    let is_first = move |at: usize| !members[..at].iter().any(|other| vcore_of(other) == vcore_of(&members[at]));
    (0..members.len()).filter(move |at| is_first(*at)).map(move |at| vcore_of(&members[at]))
}

/// How many threads this virtual core would have forced out, if it had been ganged: one of its own threads had to leave, or
/// nobody knows who had to.
fn forced_in(params: &Params, vcore: u32, members: &[GangMember]) -> Option<u32> {
    let own = || members.iter().filter(|member| params.vcore_of(member.vcpu) == vcore);
    let leaves = own().any(GangMember::is_cause) || !members.iter().any(GangMember::is_cause);
    match gang(own().map(|member| member.left), H_DOORBELL) {
        CoreRunClass::Ganged { forced, .. } if leaves => Some(forced),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{CodeList, EventKind, ExitCode, NameId, SubjectWord};
    use exitscope_units::{PcpuId, Tid, VcpuId};

    fn event(at: u64, vcpu: u32, kind: EventKind) -> Event {
        let (at, vcpu, name) = (Moment::from_nanos(at), VcpuId(vcpu), NameId::NONE);
        Event { at, tid: Tid(7), vm: VmId(5), vcpu, cpu: PcpuId(0), name, kind }
    }

    /// A run of these threads, the traps they left for, and whether they were idle; those that entered again, and when.
    fn replayed(smt_modes: &[u32], threads: &[(u64, bool)], entries: &[(u32, u64)]) -> GangReplay {
        replayed_within(smt_modes, threads, entries, |_, _| true)
    }

    fn replayed_within(
        smt_modes: &[u32],
        threads: &[(u64, bool)],
        entries: &[(u32, u64)],
        within: impl Fn(VmId, Moment) -> bool,
    ) -> GangReplay {
        let topologies: Vec<Params> =
            smt_modes.iter().map(|&smt_mode| Params { smt_mode, ..Params::default() }).collect();
        let mut replay = GangReplay::new(&topologies);
        let runnable = threads.len() as u32;
        let exits = (0..).zip(threads).map(|(vcpu, &(trap, idle))| {
            let code = ExitCode::new(CodeList::PpcTrap, trap);
            event(10, vcpu, EventKind::Exit { code, idle, words: SubjectWord::NONE, rip: 0 })
        });
        let mut events = vec![event(1, 0, EventKind::RunCore { exit: false, runnable })];
        events.extend(exits);
        events.push(event(11, 0, EventKind::RunCore { exit: true, runnable }));
        events.extend(entries.iter().map(|&(vcpu, at)| event(at, vcpu, EventKind::Enter)));
        events.iter().for_each(|event| replay.absorb(event, &within));
        replay
    }

    fn outcomes(replay: GangReplay) -> Vec<GangOutcome> {
        replay.outcomes.into_iter().map(|of| of.1).collect()
    }

    #[test]
    fn narrower_virtual_cores_spare_those_that_are_no_longer_siblings() {
        let threads = [(0xc00, false), (0xe80, false), (0xe80, false), (0xe80, true)];
        let replay = replayed(&[4, 2, 1], &threads, &[(1, 30), (2, 50)]);
        assert_eq!(replay.recorded, GangOutcome { ganged: 1, forced: 2, avoided: 0, lost: 60, others: 0 });
        let outcomes = outcomes(replay);
        assert_eq!(outcomes[0], GangOutcome { ganged: 1, forced: 2, avoided: 0, lost: 60, others: 0 });
        assert_eq!(outcomes[1], GangOutcome { ganged: 1, forced: 1, avoided: 1, lost: 20, others: 0 });
        assert_eq!(outcomes[2], GangOutcome { ganged: 0, forced: 0, avoided: 2, lost: 0, others: 0 });
    }

    #[test]
    fn what_another_virtual_core_had_of_the_cpu_is_told_apart() {
        let mut replay = replayed(&[2, 1], &[(0xc00, false), (0xe80, false)], &[]);
        let code = ExitCode::new(CodeList::PpcTrap, 0xc00);
        let other = |at, kind| Event { tid: Tid(8), vm: VmId(6), ..event(at, 0, kind) };
        let left = EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 };
        for event in [other(20, EventKind::Enter), other(80, left), event(100, 1, EventKind::Enter)] {
            replay.absorb(&event, |_, _| true);
        }
        assert_eq!((replay.recorded.lost, replay.recorded.others, replay.recorded.cost()), (90, 60, 30));
        let costs: Vec<u64> = replay.outcomes.iter().map(|of| of.1.cost()).collect();
        assert_eq!(costs, [30, 0]);
    }

    #[test]
    fn a_vcpu_that_is_a_virtual_core_of_its_own_is_never_forced_out() {
        // Nobody is seen to have had a reason.
        let replay = replayed(&[4, 2, 1], &[(0xe80, false), (0xe80, false), (0, true)], &[(0, 30), (1, 50)]);
        assert_eq!(replay.recorded, GangOutcome { ganged: 1, forced: 2, avoided: 0, lost: 60, others: 0 });
        let outcomes = outcomes(replay);
        assert_eq!((&outcomes[0], &outcomes[1]), (&outcomes[1], &outcomes[0]));
        assert_eq!(outcomes[2], GangOutcome { ganged: 0, forced: 0, avoided: 2, lost: 0, others: 0 });
    }

    #[test]
    fn a_run_is_ganged_by_the_rule_of_the_view() {
        // Two with a reason of their own: one's exit took the other along, though none has the trap of a sibling's doorbell.
        let both = replayed(&[4, 1], &[(0xc00, false), (0xe00, false)], &[]);
        assert_eq!((both.recorded.ganged, both.recorded.forced), (1, 0));
        assert_eq!(outcomes(both).iter().map(|of| of.ganged).collect::<Vec<_>>(), [1, 0]);
        // One that worked, interrupted by none that did: nobody is counted, and nothing is lost.
        let alone = replayed(&[4, 1], &[(0xe80, false), (0, true)], &[(0, 30)]);
        assert_eq!(alone.recorded, GangOutcome::default());
        assert_eq!(outcomes(alone), [GangOutcome::default(), GangOutcome::default()]);
    }

    #[test]
    fn runs_count_where_they_end_and_time_that_was_lost_where_it_does() {
        let threads = [(0xc00, false), (0xe80, false), (0xe80, false)];
        // The run ends at 11; those that were forced out at 10 are back at 30 and at 50.
        let until = |vm, last| {
            let within = |of, at: Moment| of == VmId(vm) && at.as_nanos() <= last;
            let replay = replayed_within(&[4, 2], &threads, &[(1, 30), (2, 50)], within);
            let counts = |of: &GangOutcome| (of.ganged, of.forced, of.avoided, of.lost);
            (replay.core_runs, counts(&replay.recorded), [0, 1].map(|at| counts(&replay.outcomes[at].1)))
        };
        assert_eq!(until(5, 10), (0, (0, 0, 0, 0), [(0, 0, 0, 0); 2]));
        assert_eq!(until(5, 11), (1, (1, 2, 0, 0), [(1, 2, 0, 0), (1, 1, 1, 0)]));
        assert_eq!(until(5, 30), (1, (1, 2, 0, 20), [(1, 2, 0, 20), (1, 1, 1, 20)]));
        assert_eq!(until(5, 50), (1, (1, 2, 0, 60), [(1, 2, 0, 60), (1, 1, 1, 20)]));
        assert_eq!(until(6, 50), (0, (0, 0, 0, 0), [(0, 0, 0, 0); 2]));
    }
}
