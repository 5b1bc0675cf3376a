//! Virtual cores of other widths, replayed over recorded core runs.
//!
//! ```text
//! recorded, one virtual core 0-3:   0 SYSCALL   1 forced   2 forced   3 forced
//! replayed, smt_mode 2:             0 SYSCALL   1 forced │ 2          3            two exits avoided
//! ```

use crate::gangs::{Completed, Member, Runs};
use exitscope_model::Event;
use exitscope_policy::vcore::Params;
use exitscope_units::{Moment, VcpuId};

/// What virtual cores of one width would have made of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangOutcome {
    /// Runs that forced somebody out.
    pub ganged: u64,
    /// Exits that were forced.
    pub forced: u64,
    /// Forced exits that would not have happened.
    pub avoided: u64,
    /// Time lost by those that would still have been forced out, in nanoseconds.
    pub lost: u64,
}

/// Virtual cores of several widths, over one recording.
#[derive(Clone, Debug)]
pub struct GangReplay {
    runs: Runs,
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
        GangReplay { runs: Runs::default(), core_runs: 0, recorded: GangOutcome::default(), outcomes }
    }

    /// Takes one event, `within` what is to be looked at or not.
    pub fn absorb(&mut self, event: &Event, within: impl Fn(exitscope_units::VmId, Moment) -> bool) {
        match self.runs.take(event) {
            Some(Completed::Run(run)) if within(run.runner.0, event.at) => {
                self.core_runs += 1;
                let forced = |of: &dyn Fn(VcpuId) -> bool| {
                    run.members.iter().filter(|member| member.is_forced() && of(member.vcpu)).count() as u64
                };
                let all = forced(&|_| true);
                self.recorded.forced += all;
                self.recorded.ganged += u64::from(all > 0);
                for (params, outcome) in &mut self.outcomes {
                    let still = forced(&|vcpu| is_forced(params, vcpu, &run.members));
                    outcome.forced += still;
                    outcome.ganged += u64::from(still > 0);
                    outcome.avoided += all - still;
                }
            }
            Some(Completed::Back { vcpu, forced, lost }) if within(forced.runner.0, event.at) => {
                self.recorded.lost = self.recorded.lost.saturating_add(lost.0);
                for (params, outcome) in &mut self.outcomes {
                    if is_forced(params, vcpu, &forced.members) {
                        outcome.lost = outcome.lost.saturating_add(lost.0);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a vCPU that was forced out would have been in that topology: one with a reason of its own is in the same
/// virtual core, or nobody is known to have had one.
fn is_forced(params: &Params, vcpu: VcpuId, members: &[Member]) -> bool {
    let mut causes = members.iter().filter(|member| member.is_cause()).peekable();
    causes.peek().is_none() || causes.any(|cause| params.vcore_of(cause.vcpu) == params.vcore_of(vcpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{CodeList, ExitCode, Kind, NameId, PortWords};
    use exitscope_units::{PcpuId, Tid, VmId};

    #[test]
    fn narrower_virtual_cores_spare_those_that_are_no_longer_siblings() {
        let event = |at, vcpu, kind| Event {
            at: Moment::from_nanos(at),
            tid: Tid(7),
            vm: VmId(5),
            vcpu: VcpuId(vcpu),
            cpu: PcpuId(0),
            name: NameId::NONE,
            kind,
        };
        let exit = |at, vcpu, trap, idle| {
            event(
                at,
                vcpu,
                Kind::Exit { code: ExitCode::new(CodeList::PpcTrap, trap), idle, words: PortWords::NONE, rip: 0 },
            )
        };
        let topologies = [4, 2, 1].map(|smt_mode| Params { smt_mode, ..Params::default() });
        let mut replay = GangReplay::new(&topologies);
        for event in [
            event(1, 0, Kind::RunCore { exit: false, runnable: 4 }),
            exit(10, 0, 0xc00, false),
            exit(10, 1, 0xe80, false),
            exit(10, 2, 0xe80, false),
            exit(10, 3, 0xe80, true),
            event(11, 0, Kind::RunCore { exit: true, runnable: 3 }),
            event(30, 1, Kind::Enter),
            event(50, 2, Kind::Enter),
        ] {
            replay.absorb(&event, |_, _| true);
        }
        assert_eq!(replay.recorded, GangOutcome { ganged: 1, forced: 2, avoided: 0, lost: 60 });
        let outcomes: Vec<_> = replay.outcomes.into_iter().map(|of| of.1).collect();
        assert_eq!(outcomes[0], GangOutcome { ganged: 1, forced: 2, avoided: 0, lost: 60 });
        assert_eq!(outcomes[1], GangOutcome { ganged: 1, forced: 1, avoided: 1, lost: 20 });
        assert_eq!(outcomes[2], GangOutcome { ganged: 0, forced: 0, avoided: 2, lost: 0 });
    }
}
