//! How long Xen's scheduler had each virtual CPU in each run state.
//!
//! ```text
//! running ─► blocked ─► runnable ─► running ─► runnable ─► running      (offline like blocked)
//!            idle       woken                  preempted
//! ```

use crate::cpu_holders::{CpuHistory, CpuHolders};
use exitscope_model::{Event, EventKind, RunState, VcpuIdentity};
use exitscope_units::{Moment, PcpuId, Tid, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Virtual CPUs at most (about 40 MB); further ones are left alone.
const MAX_VCPUS: usize = 1 << 18;

/// Of so many the place is near at hand.
const NEAR: usize = 256;

/// How often, and how long in all, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StayStats {
    /// Stays that ended.
    pub count: u64,
    /// Their length.
    pub total: u64,
}

impl StayStats {
    fn add(&mut self, count: u64, total: u64) {
        self.count += count;
        self.total = self.total.saturating_add(total);
    }
}

/// How long a virtual CPU was in each run state. Stays that the recording's begin cuts are left out, and what follows the
/// last record of those that its end cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTimes {
    /// By state, in the order of [`RunState`].
    pub states: [StayStats; RunState::COUNT],
    /// Of runnable: after it was preempted.
    pub preempted: StayStats,
    /// Nobody knows in which, because records were lost or contradict one another.
    pub lost: StayStats,
    /// Who had the physical CPU meanwhile, of runnable stays that ended in running.
    pub holders: CpuHolders,
}

impl StateTimes {
    /// Runnable, because it was woken and waits for a physical CPU.
    pub fn woken(&self) -> StayStats {
        let runnable = self.states[RunState::Runnable as usize];
        StayStats {
            count: runnable.count.saturating_sub(self.preempted.count),
            total: runnable.total.saturating_sub(self.preempted.total),
        }
    }

    /// Adds `count` stays in the state of `place` up to `end`, as far as that lies within `window`.
    fn add(&mut self, place: &CurrentRunState, count: u64, end: Moment, window: (Moment, Moment)) {
        if place.since > window.1 || end < window.0 {
            return;
        }
        let length = end.min(window.1).since(place.since.max(window.0)).unwrap_or_default().0;
        match place.state {
            Some(state) => self.states[state as usize].add(count, length),
            None => self.lost.add(count, length),
        }
        if place.state == Some(RunState::Runnable) && place.preempted {
            self.preempted.add(count, length);
        }
    }

    fn merge(&mut self, other: &StateTimes) {
        let StateTimes { states, preempted, lost, holders } = other;
        for (times, more) in self.states.iter_mut().zip(states) {
            times.add(more.count, more.total);
        }
        self.preempted.add(preempted.count, preempted.total);
        self.lost.add(lost.count, lost.total);
        self.holders.merge(holders);
    }
}

/// Where a virtual CPU is.
#[derive(Clone, Copy, Debug)]
struct CurrentRunState {
    /// Its state; none after a loss.
    state: Option<RunState>,
    /// Whether it was running before.
    preempted: bool,
    since: Moment,
    cpu: PcpuId,
}

/// The run states of all virtual CPUs.
#[derive(Clone, Debug, Default)]
pub struct RunStates {
    times: BTreeMap<VcpuIdentity, StateTimes>,
    /// Where each is in the recording in hand, and its times so far.
    places: Vec<(VcpuIdentity, CurrentRunState, StateTimes)>,
    /// Where in `places`, and those that were looked up last.
    index: FxHashMap<VcpuIdentity, u32>,
    near: Vec<(VcpuIdentity, u32)>,
    /// Who had which physical CPU.
    cpu_history: CpuHistory,
}

impl RunStates {
    /// Uses an event, as far as it is about run states; stays count as far as they lie within `window`.
    pub fn absorb(&mut self, event: &Event, window: (Moment, Moment)) {
        match event.kind {
            EventKind::RunState { from, to } => self.change(event, from, to, window),
            EventKind::Lost { .. } => self.lose(event, window),
            _ => {}
        }
    }

    fn change(&mut self, event: &Event, from: RunState, to: RunState, window: (Moment, Moment)) {
        let who = VcpuIdentity { vm: event.vm, vcpu: event.vcpu, tid: Tid(0) };
        let preempted = from == RunState::Running;
        let place = CurrentRunState { state: Some(to), preempted, since: event.at, cpu: event.cpu };
        if to == RunState::Running {
            self.runs(event, who, window);
        }
        if let Some((_, old, times)) = self.of(who) {
            // A record that contradicts the one before: some were lost, or clocks differ.
            let state = old.state.filter(|&state| state == from);
            // It runs on: that is no stay of its own.
            let goes_on = from == to && state.is_some();
            times.add(&CurrentRunState { state, ..*old }, u64::from(!goes_on), event.at, window);
            *old = place;
        } else if self.places.len() < MAX_VCPUS {
            self.index.insert(who, self.places.len() as u32);
            self.places.push((who, place, StateTimes::default()));
        }
    }

    /// It has the CPU now: whoever had it before, had it instead of this one.
    fn runs(&mut self, event: &Event, who: VcpuIdentity, window: (Moment, Moment)) {
        let is_real = who.vm != VmId::IDLE_DOMAIN;
        let place = self.of(who).map(|row| row.1).filter(|old| is_real && old.state == Some(RunState::Runnable));
        if let Some(old) = place {
            let (since, until) = (old.since.max(window.0), event.at.min(window.1));
            let holders = self.cpu_history.holders(who, event.cpu, since, until);
            if let Some((_, _, times)) = self.of(who) {
                times.holders.merge(&holders);
            }
        }
        self.cpu_history.now_has(event.cpu, event.at, Some(who));
    }

    #[inline]
    fn of(&mut self, who: VcpuIdentity) -> Option<&mut (VcpuIdentity, CurrentRunState, StateTimes)> {
        let slot = (who.vcpu.0 ^ who.vm.0 << 4) as usize % NEAR;
        match self.near.get(slot) {
            Some(&(known, at)) if known == who => self.places.get_mut(at as usize),
            _ => self.look_up(who, slot),
        }
    }

    #[cold]
    fn look_up(&mut self, who: VcpuIdentity, slot: usize) -> Option<&mut (VcpuIdentity, CurrentRunState, StateTimes)> {
        let at = *self.index.get(&who)?;
        self.near.resize(NEAR, (who, at));
        self.near[slot] = (who, at);
        self.places.get_mut(at as usize)
    }

    /// Whoever ran on the CPU, or did not run and could have been put there, is nobody knows where.
    fn lose(&mut self, event: &Event, window: (Moment, Moment)) {
        match event.cpu {
            PcpuId(u32::MAX) => self.cpu_history.lose(event.at),
            cpu => self.cpu_history.now_has(cpu, event.at, None),
        }
        for (_, place, times) in &mut self.places {
            let elsewhere = place.state == Some(RunState::Running) && place.cpu != event.cpu && event.cpu.0 != u32::MAX;
            if elsewhere || place.state.is_none() {
                continue;
            }
            times.add(place, 1, event.at, window);
            *place = CurrentRunState { state: None, since: event.at.max(place.since), ..*place };
        }
    }

    /// Ends a recording: stays that are not over are left out.
    pub fn end(&mut self) {
        for (who, _, times) in self.places.drain(..) {
            self.times.entry(who).or_default().merge(&times);
        }
        self.index.clear();
        self.near.clear();
        self.cpu_history.clear();
    }

    /// Keeps only these.
    pub fn retain(&mut self, keep: impl Fn(&VcpuIdentity) -> bool) {
        self.times.retain(|who, _| keep(who));
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &RunStates) {
        let RunStates { times, places: _, index: _, near: _, cpu_history: _ } = other;
        for (who, times) in times {
            self.times.entry(*who).or_default().merge(times);
        }
    }

    /// Every virtual CPU's times, of the recordings that were ended.
    pub fn times(&self) -> impl Iterator<Item = (&VcpuIdentity, &StateTimes)> {
        self.times.iter()
    }
}
