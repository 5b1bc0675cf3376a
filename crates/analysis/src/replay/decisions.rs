//! Whether KVM's own traced decisions come out of the state machine again.

use crate::{PollSettings, RecordedHaltPolling};
use exitscope_model::{Halt, PollChange, VcpuIdentity};
use exitscope_policy::host_halt_poll::{HostHaltPoll, Params, PollAdjustment, PollOwner, PollPermission};
use exitscope_units::VmId;
use std::collections::BTreeMap;

/// Decides after every recorded halt what KVM decided, and compares.
#[derive(Clone, Debug)]
pub struct PollDecisionCheck {
    settings: BTreeMap<VmId, Params>,
    vcpus: BTreeMap<VcpuIdentity, HostHaltPoll>,
    /// Halts after which KVM's decision is known, a change or none.
    pub known: u64,
    /// Those after which the state machine decided the same, value by value.
    pub same: u64,
    /// Changes among the known decisions.
    pub changes: u64,
    /// Changes that came out the same.
    pub same_changes: u64,
}

impl PollDecisionCheck {
    /// Under the settings that each VM's decisions show, on `host`.
    pub fn new(settings: &BTreeMap<VmId, PollSettings>, host: &RecordedHaltPolling) -> PollDecisionCheck {
        let settings = settings.iter().filter(|(_, seen)| seen.changes > 0);
        let settings = settings.map(|(vm, seen)| (*vm, seen.params(host))).collect();
        PollDecisionCheck { settings, vcpus: BTreeMap::new(), known: 0, same: 0, changes: 0, same_changes: 0 }
    }

    /// Takes one halt.
    pub fn absorb(&mut self, halt: &Halt) {
        let (Some(params), Some(wakeup)) = (self.settings.get(&halt.who.vm), halt.vcpu_wakeup) else { return };
        let traced = halt.change.map(|PollChange { grow, new, old }| PollAdjustment {
            grow,
            old: exitscope_units::Nanos(u64::from(old)),
            new: exitscope_units::Nanos(u64::from(new)),
        });
        let with_poll = |poll| HostHaltPoll::with_poll(PollOwner::Vcpu, poll);
        // A recording begins in the middle: the first change tells where the vCPU is.
        let known = self.vcpus.get(&halt.who).copied().or(halt.change.map(|change| with_poll(change.old)));
        let Some(mut state) = known else { return };
        state.start(params, &PollPermission::default());
        let decided = state.finish(params, &PollPermission::default(), wakeup.length, wakeup.valid);
        let same = decided == traced;
        self.known += 1;
        self.same += u64::from(same);
        self.changes += u64::from(traced.is_some());
        self.same_changes += u64::from(same && traced.is_some());
        // What was not foreseen (a lost record, a setting that was changed) must not spoil what follows.
        let state = match (same, halt.change) {
            (false, Some(change)) => with_poll(change.new),
            _ => state,
        };
        self.vcpus.insert(halt.who, state);
    }
}
