//! What has to be known of a recording before its yields can be replayed: who yields how, how long a vCPU spins before it
//! does, what a yield costs, and how long a vCPU that lost its CPU waits for it.
//!
//! ```text
//! Yield, Yield, … ─┐                ┌─► in_force: knobs, as far as windows were traced
//! Preemption, …   ─┴─► SpinSurvey ──┴─► typical: time of a look, a PAUSE or a cycle; cost; waits for CPUs
//! ```

use super::replayed::knobs_of;
use crate::DurationStats;
use crate::stats_by_key::MAX_KEYS;
use exitscope_model::{Preemption, VcpuIdentity, Yield, YieldCall};
use exitscope_policy::Knob;
use exitscope_policy::yielding::{DiagnoseSupport, Generation, Params, PleWindow, SpinAction, SpinLoop};
use exitscope_units::{Nanos, VcpuId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The least that a yield may cost, so that replayed waits end: 100 ns, in picoseconds.
const LEAST_COST: u64 = 100_000;

/// Who asks, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinModel {
    /// Nobody.
    Never,
    /// VMX, after a loop of PAUSEs of so many cycles.
    Vmx(Params),
    /// SVM, after so many PAUSEs.
    Svm(Params),
    /// The guest's lock code.
    Code(Params, DiagnoseSupport),
}

impl SpinModel {
    /// The knobs that matter to who asks so.
    pub fn knobs(&self) -> impl Iterator<Item = &'static Knob> + use<> {
        let prefix = match self {
            SpinModel::Vmx(_) => "ple_",
            SpinModel::Svm(_) => "pause_filter_",
            SpinModel::Code(..) | SpinModel::Never => "spin_",
        };
        knobs_of("yielding").filter(move |knob| knob.name.starts_with(prefix))
    }
}

/// What a first reading tells.
#[derive(Clone, Debug, Default)]
pub struct SpinSurvey {
    /// Yields by call.
    pub calls: BTreeMap<YieldCall, u64>,
    /// Yields of which it is known who waited for a CPU.
    pub known: u64,
    /// Guest time between yields of lock code.
    rounds: DurationStats,
    /// The same between PAUSE exits; and in picoseconds for each unit of the window.
    between: DurationStats,
    per_unit: DurationStats,
    /// The smallest window that was traced.
    pub least_window: Option<u32>,
    /// CPU time of a yield, in the kernel.
    cost: DurationStats,
    /// From siblings' first yield until a vCPU that was preempted ran.
    blocked: DurationStats,
    /// How long those were preempted for whom nobody yielded.
    unhelped: DurationStats,
    windows: PleWindows,
}

/// The windows of vCPUs' PAUSE loops.
#[derive(Clone, Debug, Default)]
pub(super) struct PleWindows(FxHashMap<VcpuIdentity, PleWindow>);

impl PleWindows {
    /// The window of a vCPU; `None` of lock code.
    pub(super) fn of(&mut self, asks: &SpinModel, who: VcpuIdentity) -> Option<&mut PleWindow> {
        let fresh = match asks {
            SpinModel::Vmx(params) => PleWindow::vmx(params),
            SpinModel::Svm(params) => PleWindow::svm(params),
            SpinModel::Code(..) | SpinModel::Never => return None,
        };
        Some(self.0.entry(who).or_insert(fresh))
    }

    /// The window that ran out with this yield: as it was traced, or as KVM's rules have it. `None` of lock code.
    pub(super) fn expired(&mut self, in_force: &SpinModel, of: &Yield) -> Option<u32> {
        let window = self.of(in_force, of.who)?;
        if of.was_out {
            window.shrink();
        }
        let change = window.grow();
        Some(of.window.unwrap_or(change.old))
    }
}

/// Typical lengths, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypicalSpin {
    /// A cycle or PAUSE of a window, or a look at a lock.
    pub unit: u64,
    /// A yield, without waiting for a CPU.
    pub cost: u64,
    /// From the first yield until the vCPU that was preempted ran.
    pub blocked: u64,
    /// How long one is preempted for whom nobody yields.
    pub unhelped: u64,
}

impl SpinSurvey {
    /// Whether the call is of lock code that counts its looks.
    pub(super) fn is_code(call: YieldCall) -> bool {
        matches!(call, YieldCall::Diag44 | YieldCall::Diag9c)
    }

    /// Goes on where an earlier stretch of the same recording ended.
    pub fn follow(&mut self, before: &SpinSurvey) {
        // Of more vCPUs than any host runs at a time, windows are begun anew.
        if before.windows.0.len() <= MAX_KEYS {
            self.windows = before.windows.clone();
        }
    }

    /// Adds what the next stretch of the same recording gave.
    pub fn merge(&mut self, later: &SpinSurvey) {
        let SpinSurvey { calls, known, rounds, between, per_unit, least_window, cost, blocked, unhelped, windows } =
            later;
        for (call, count) in calls {
            *self.calls.entry(*call).or_default() += count;
        }
        self.known += known;
        self.least_window = self.least_window.into_iter().chain(*least_window).min();
        for (lengths, of_later) in [
            (&mut self.rounds, rounds),
            (&mut self.between, between),
            (&mut self.per_unit, per_unit),
            (&mut self.cost, cost),
            (&mut self.blocked, blocked),
            (&mut self.unhelped, unhelped),
        ] {
            lengths.merge(of_later);
        }
        self.windows = windows.clone();
    }

    /// Takes one yield.
    pub fn absorb(&mut self, of: &Yield) {
        *self.calls.entry(of.call).or_default() += 1;
        self.known += u64::from(of.found.is_some());
        self.cost.record(cost(of));
        self.least_window = of.window.into_iter().chain(self.least_window).min();
        let window = self.windows.expired(&Self::in_force_of(of.call, None), of);
        match of.guest.0.saturating_mul(1_000).checked_div(window.unwrap_or(0).into()) {
            _ if !of.again => {}
            Some(unit) => {
                self.between.record(of.guest);
                self.per_unit.record(Nanos(unit));
            }
            None if Self::is_code(of.call) => self.rounds.record(of.guest),
            None => {}
        }
    }

    /// Takes one preemption.
    pub fn absorb_preemption(&mut self, of: &Preemption) {
        let since = |from| of.ran.and_then(|ran| ran.since(from));
        match of.first {
            Some(first) => since(first).into_iter().for_each(|length| self.blocked.record(length)),
            None => since(of.at).into_iter().for_each(|length| self.unhelped.record(length)),
        }
    }

    /// The call that most yields are by, of those that can be replayed.
    pub fn main_call(&self) -> Option<YieldCall> {
        let can = |call: YieldCall| Self::is_code(call) || matches!(call, YieldCall::Pause | YieldCall::PauseFilter);
        self.calls.iter().filter(|(call, _)| can(**call)).max_by_key(|(_, count)| **count).map(|(call, _)| *call)
    }

    /// What was in force when `call` was recorded, as far as that can be told; the rest is the default.
    pub fn in_force(&self, call: YieldCall) -> SpinModel {
        match Self::in_force_of(call, self.least_window) {
            SpinModel::Vmx(params) if self.is_static() => SpinModel::Vmx(Params { ple_window_grow: 1, ..params }),
            SpinModel::Svm(params) if self.is_static() => {
                SpinModel::Svm(Params { pause_filter_count_grow: 1, ..params })
            }
            asks => asks,
        }
    }

    /// Whether windows stay as they are: no change was traced, and the time between yields is always the same, where
    /// windows that grow would double it each time.
    pub fn is_static(&self) -> bool {
        let length = |per_10_000| self.between.quantile(per_10_000).unwrap_or_default().0;
        self.least_window.is_none() && self.between.count > 0 && length(9_000) <= length(1_000).saturating_mul(2)
    }

    fn in_force_of(call: YieldCall, least_window: Option<u32>) -> SpinModel {
        let mut params = Params::default();
        match call {
            YieldCall::Pause => {
                params.ple_window = least_window.unwrap_or(params.ple_window);
                SpinModel::Vmx(params)
            }
            YieldCall::PauseFilter => {
                params.pause_filter_count = least_window.unwrap_or(params.pause_filter_count);
                SpinModel::Svm(params)
            }
            YieldCall::Diag44 => {
                params.spin_generation = Generation::L1b;
                SpinModel::Code(params, MACHINE)
            }
            _ => SpinModel::Code(params, MACHINE),
        }
    }

    /// The typical lengths, if there is enough to tell them from.
    pub fn typical(&self, in_force: &SpinModel) -> Option<TypicalSpin> {
        // The shortest: what is longer holds something else as well.
        let shortest = |lengths: &DurationStats| lengths.quantile(1_000);
        let unit = match in_force {
            SpinModel::Code(params, machine) => {
                shortest(&self.rounds)?.0.saturating_mul(1_000) / looks(params, *machine)?
            }
            SpinModel::Vmx(Params { ple_window: window, .. })
            | SpinModel::Svm(Params { pause_filter_count: window, .. })
                if self.is_static() =>
            {
                shortest(&self.between)?.0.saturating_mul(1_000).checked_div(u64::from(*window))?
            }
            _ => shortest(&self.per_unit)?.0,
        };
        if unit == 0 {
            return None;
        }
        let picos = |length: Option<Nanos>| length.unwrap_or_default().0.saturating_mul(1_000);
        Some(TypicalSpin {
            unit,
            cost: picos(self.cost.quantile(5_000)).max(LEAST_COST),
            blocked: picos(self.blocked.mean()),
            unhelped: picos(self.unhelped.mean().or(self.blocked.mean())),
        })
    }
}

/// A guest under KVM or z/VM that senses nothing.
pub const MACHINE: DiagnoseSupport = DiagnoseSupport { diag44: true, diag9c: true, sense_running: false, lpar: false };

/// Whoever holds the lock.
pub(super) const OWNER: Option<VcpuId> = Some(VcpuId(0));

/// Looks from one call to the next.
pub(super) fn looks(params: &Params, machine: DiagnoseSupport) -> Option<u64> {
    let mut wait = SpinLoop::new(params, machine);
    let (mut step, mut looks, mut called) = (wait.enter(OWNER), 0, None);
    // A call is never more than two rounds away, of two steps each.
    for _ in 0..16 {
        match step {
            SpinAction::Yield(_) if called.is_some() => return Some(looks).zip(called).map(|(now, then)| now - then),
            SpinAction::Yield(_) => called = Some(looks),
            SpinAction::Sense(_) => {
                step = wait.sensed(true);
                continue;
            }
            SpinAction::Spin => {}
        }
        let quiet = wait.quiet();
        wait.pass(quiet);
        looks += u64::from(quiet) + 1;
        step = wait.failed(OWNER);
    }
    None
}

/// CPU time of a yield.
pub(super) fn cost(of: &Yield) -> Nanos {
    let lasted = of.entered.and_then(|entered| entered.since(of.at)).unwrap_or_default();
    Nanos(lasted.0.saturating_sub(of.waited.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::vcpu;
    use exitscope_model::{RunnableSiblings, TargetState, YieldRecipient};
    use exitscope_units::Moment;

    /// Yields of two vCPUs in turns, whose windows grow, and preemptions between.
    fn absorb(survey: &mut SpinSurvey, numbers: std::ops::Range<u32>) {
        let at = |nanos: u32| Moment::from_nanos(nanos.into());
        for number in numbers {
            let call = [YieldCall::Pause, YieldCall::Pause, YieldCall::Diag44][number as usize % 3];
            survey.absorb(&Yield {
                who: vcpu(number % 2),
                at: at(number * 1_000),
                call,
                target: None,
                target_state: TargetState::Unknown,
                found: (number % 5 > 0).then_some(RunnableSiblings { preempted: 1, woken: 0 }),
                guest: Nanos(u64::from(2_000 + number * 700)),
                again: number % 7 > 0,
                was_out: number % 11 == 3,
                window: (number > 14).then_some(9_000 - number),
                recipient: YieldRecipient::Nobody,
                waited: Nanos(u64::from(number % 13)),
                entered: Some(at(number * 1_000 + 50 + number * 3)),
            });
            let (first, ran) = ((number % 4 > 0).then_some(at(number * 1_000 + 5)), Some(at(number * 1_003 + 90)));
            survey.absorb_preemption(&Preemption {
                who: vcpu(2),
                at: at(number * 1_000),
                ran,
                yields: 1,
                first,
                by: None,
                yielded: false,
            });
        }
    }

    #[test]
    fn stretches_of_a_recording_are_surveyed_as_all_of_it() {
        let seen = |survey: &SpinSurvey| {
            let counts = (survey.calls.clone(), survey.known, survey.least_window);
            let lengths =
                [&survey.rounds, &survey.between, &survey.per_unit, &survey.cost, &survey.blocked, &survey.unhelped];
            let mut windows: Vec<_> = survey.windows.0.iter().map(|(who, window)| (*who, *window)).collect();
            windows.sort_unstable_by_key(|row| row.0);
            (counts, lengths.map(DurationStats::clone), windows)
        };
        let mut whole = SpinSurvey::default();
        absorb(&mut whole, 0..20);
        for cut in [1, 6, 13, 19] {
            let (mut first, mut second) = (SpinSurvey::default(), SpinSurvey::default());
            absorb(&mut first, 0..cut);
            second.follow(&first);
            absorb(&mut second, cut..20);
            first.merge(&second);
            assert_eq!(seen(&first), seen(&whole), "cut at {cut}");
        }
    }

    #[test]
    fn looks_between_two_calls_are_those_of_the_lock_codes_generation() {
        let of = |spin_generation, spin_retry, machine| {
            looks(&Params { spin_generation, spin_retry, ..Params::default() }, machine)
        };
        let no_call = DiagnoseSupport { diag44: false, diag9c: false, ..MACHINE };
        for (generation, spin_retry, machine, expected) in [
            (Generation::L0, 70, MACHINE, Some(1)),
            (Generation::L1b, 70, MACHINE, Some(71)),
            (Generation::L2, 30, MACHINE, Some(31)),
            (Generation::Classic, 70, MACHINE, Some(72)),
            (Generation::L2, 70, no_call, None),
        ] {
            assert_eq!(of(generation, spin_retry, machine), expected, "{generation:?} {spin_retry}");
        }
    }
}
