//! Yielding, replayed over recorded waits: when a vCPU would have yielded, and what that would have changed.
//!
//! ```text
//! recorded:  spins ─── yield ─ spins ─── yield ─ …      a wait: yields of one vCPU one after the other
//!            nobody waited      a sibling was preempted, gets the CPU
//! replayed:  spins ──────── yield ─ …                   the same time, other moments: who waited then?
//! ```
//!
//! Time in a wait is counted as the vCPU's own: spinning, and in the kernel for its yields. Whoever it waited for is not in
//! a recording. What can be known is whether a sibling had lost its CPU, so that a yield could help, and whether the
//! recorded one gave that or another sibling the CPU, which is taken to have helped.

use super::spin_survey::{OWNER, PleWindows, SpinModel, SpinSurvey, TypicalSpin, cost, looks};
use exitscope_model::{TargetState, VcpuIdentity, Yield, YieldCall, YieldRecipient};
use exitscope_policy::yielding::{DiagnoseCall, PleWindow, SpinAction, SpinLoop};
use rustc_hash::FxHashMap;

/// Yields in one wait at most, recorded or replayed; what is longer is cut.
const MAX_YIELDS: usize = 1 << 16;

/// How much longer than the shortest rounds of looks a round may be: else the vCPU did something between.
const ROUND: u64 = 2;

/// What yields of one configuration would have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpinOutcome {
    /// Yields.
    pub yields: u64,
    /// Those at which no sibling had lost its CPU: nothing to win.
    pub in_vain: u64,
    /// Times at which sense-running said that the owner runs, so that none was made.
    pub not_made: u64,
    /// CPU time of yields, in nanoseconds.
    pub cost: u64,
    /// Time won by those that wait, in nanoseconds: at least.
    pub least: i64,
    /// At most.
    pub most: i64,
}

/// A recorded yield of a wait, at so much of the waiting vCPU's own time (in picoseconds).
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: u64,
    /// A sibling had lost its CPU.
    could_help: bool,
    /// The vCPU had been switched out since the yield before.
    was_out: bool,
}

/// A wait: yields of one vCPU, one after the other, the last of which may have helped.
#[derive(Clone, Debug)]
struct Wait {
    who: VcpuIdentity,
    asked: Vec<Asked>,
    end: u64,
    is_directed: bool,
    helped: bool,
}

/// Several configurations, replayed.
#[derive(Clone, Debug)]
pub struct SpinReplay {
    call: YieldCall,
    in_force: SpinModel,
    /// Of lock code, looks from one call to the next.
    looks: u64,
    typical: TypicalSpin,
    open: FxHashMap<VcpuIdentity, Wait>,
    windows: PleWindows,
    /// Waits.
    pub waits: u64,
    /// As recorded.
    pub recorded: SpinOutcome,
    /// Each configuration, its windows, and what it would have done.
    replayed: Vec<(SpinModel, PleWindows, SpinOutcome)>,
}

impl SpinReplay {
    /// Replays these over the yields by `call`.
    pub fn new(call: YieldCall, in_force: SpinModel, typical: TypicalSpin, configurations: &[SpinModel]) -> SpinReplay {
        let looks = if let SpinModel::Code(params, machine) = &in_force { looks(params, *machine) } else { None };
        SpinReplay {
            call,
            in_force,
            looks: looks.unwrap_or(1),
            typical,
            open: FxHashMap::default(),
            windows: PleWindows::default(),
            waits: 0,
            recorded: SpinOutcome::default(),
            replayed: configurations
                .iter()
                .map(|asks| (*asks, PleWindows::default(), SpinOutcome::default()))
                .collect(),
        }
    }

    /// Whether yields by this call are replayed.
    fn replays(&self, call: YieldCall) -> bool {
        call == self.call || (SpinSurvey::is_code(call) && SpinSurvey::is_code(self.call))
    }

    /// Takes one yield.
    pub fn absorb(&mut self, of: &Yield) {
        if !self.replays(of.call) {
            return;
        }
        let window = self.windows.expired(&self.in_force, of);
        let round = self.typical.unit.saturating_mul(window.map_or(self.looks, u64::from));
        let guest = of.guest.0.saturating_mul(1_000);
        let goes_on = of.again && guest <= round.saturating_mul(ROUND);
        let mut wait = match self.open.remove(&of.who) {
            Some(wait) if goes_on && wait.asked.len() < MAX_YIELDS => wait,
            old => {
                old.into_iter().for_each(|wait| self.close(&wait));
                Wait { who: of.who, asked: Vec::new(), end: 0, is_directed: of.call.is_directed(), helped: false }
            }
        };
        // What comes before the first yield is not all spinning.
        let at = wait.end.saturating_add(if goes_on { guest } else { guest.min(round) });
        let could_help = match of.target_state {
            TargetState::Unknown => of.found.is_some_and(|found| found.preempted > 0),
            place => place == TargetState::Preempted,
        };
        wait.asked.push(Asked { at, could_help, was_out: of.was_out });
        wait.end = at.saturating_add(self.typical.cost);
        let outcome = &mut self.recorded;
        outcome.yields += 1;
        outcome.in_vain += u64::from(!could_help);
        outcome.cost += cost(of).0;
        // Whoever had the CPU next may have been the one; from then on it is another wait.
        wait.helped = could_help && matches!(of.recipient, YieldRecipient::Target | YieldRecipient::Sibling);
        match wait.helped {
            true => self.close(&wait),
            false => _ = self.open.insert(of.who, wait),
        }
    }

    /// The recording ends.
    pub fn finish(&mut self) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by_key(|(who, _)| *who);
        open.iter().for_each(|(_, wait)| self.close(wait));
    }

    fn close(&mut self, wait: &Wait) {
        self.waits += 1;
        let typical = self.typical;
        for (asks, windows, outcome) in &mut self.replayed {
            let mut replayed = Replayed { wait, typical: &typical, outcome, ended: None, made: 0 };
            replayed.run(asks, windows);
        }
    }

    /// What each configuration would have done.
    pub fn outcomes(&self) -> impl Iterator<Item = &SpinOutcome> {
        self.replayed.iter().map(|row| &row.2)
    }
}

/// A wait under another configuration.
struct Replayed<'a> {
    wait: &'a Wait,
    typical: &'a TypicalSpin,
    outcome: &'a mut SpinOutcome,
    /// When a yield would have ended the wait, and whether it named the holder.
    ended: Option<(u64, bool)>,
    made: u64,
}

impl Replayed<'_> {
    fn run(&mut self, asks: &SpinModel, windows: &mut PleWindows) {
        match asks {
            SpinModel::Never => {}
            SpinModel::Vmx(params) if params.ple_gap == 0 => {}
            SpinModel::Svm(params) if params.pause_filter_count == 0 || params.pause_filter_thresh == 0 => {}
            SpinModel::Code(params, machine) => self.code(SpinLoop::new(params, *machine)),
            SpinModel::Vmx(_) | SpinModel::Svm(_) => {
                windows.of(asks, self.wait.who).into_iter().for_each(|window| self.loops(window))
            }
        }
        let own = self.typical.cost / 1_000;
        self.outcome.yields += self.made;
        self.outcome.cost += self.made * own;
        let saved = (self.wait.asked.len() as i64 - self.made as i64).saturating_mul(own as i64);
        let (least, most) = self.won();
        self.outcome.least = self.outcome.least.saturating_add(least / 1_000).saturating_add(saved);
        self.outcome.most = self.outcome.most.saturating_add(most / 1_000).saturating_add(saved);
    }

    /// Until when it waits: one whose recorded yield helped would have gone on without it.
    fn end(&self) -> u64 {
        self.wait.end.saturating_add(if self.wait.helped { self.typical.unhelped } else { 0 })
    }

    /// The recorded yield that comes next.
    fn next(&self, at: u64) -> usize {
        self.wait.asked.partition_point(|asked| asked.at < at)
    }

    /// Whether a sibling had lost its CPU at that moment.
    fn could_help(&self, at: u64) -> bool {
        self.wait.asked.get(self.next(at)).map_or(self.wait.helped, |asked| asked.could_help)
    }

    /// A yield; whether the wait goes on.
    fn ask(&mut self, at: u64, is_directed: bool) -> bool {
        self.made += 1;
        let could_help = self.could_help(at);
        self.outcome.in_vain += u64::from(!could_help);
        // What helped when it was recorded does so again; and so does what names the holder where that was not done.
        let helps = self.wait.helped && self.next(at) + 1 >= self.wait.asked.len();
        if could_help && (helps || (is_directed && !self.wait.is_directed)) {
            self.ended = Some((at, is_directed));
        }
        self.ended.is_none() && (self.made as usize) < MAX_YIELDS
    }

    fn loops(&mut self, window: &mut PleWindow) {
        let (mut at, mut passed) = (0u64, 0);
        loop {
            // Whoever was switched out when it was recorded is so now.
            while passed == 0 || self.wait.asked.get(passed - 1).is_some_and(|asked| asked.at <= at) {
                if self.wait.asked.get(passed).is_some_and(|asked| asked.was_out) {
                    window.shrink();
                }
                passed += 1;
            }
            at = at.saturating_add(u64::from(window.get()).max(1).saturating_mul(self.typical.unit));
            if at > self.end() {
                return;
            }
            window.grow();
            if !self.ask(at, false) {
                return;
            }
            at = at.saturating_add(self.typical.cost);
        }
    }

    fn code(&mut self, mut wait: SpinLoop) {
        let (mut at, mut step) = (0u64, wait.enter(OWNER));
        loop {
            match step {
                SpinAction::Yield(call) => {
                    if !self.ask(at, call != DiagnoseCall::Diag44) {
                        return;
                    }
                    at = at.saturating_add(self.typical.cost);
                }
                SpinAction::Sense(_) => {
                    let running = !self.could_help(at);
                    self.outcome.not_made += u64::from(running);
                    step = wait.sensed(running);
                    continue;
                }
                SpinAction::Spin => {}
            }
            let quiet = wait.quiet();
            wait.pass(quiet);
            at = at.saturating_add((u64::from(quiet) + 1).saturating_mul(self.typical.unit));
            if at > self.end() {
                return;
            }
            step = wait.failed(OWNER);
        }
    }

    /// Time won, at least and at most, in picoseconds.
    fn won(&self) -> (i64, i64) {
        let signed = |picos: u64| i64::try_from(picos).unwrap_or(i64::MAX);
        let asked = &self.wait.asked;
        match (asked.last().filter(|_| self.wait.helped), self.ended) {
            // Whoever was waited for would have had its turn in time.
            (Some(_), None) => (-signed(self.typical.unhelped), 0),
            (Some(then), Some((now, named))) => {
                let earlier = signed(then.at) - signed(now);
                // It may not be the holder who is picked.
                let risk = if self.wait.is_directed && !named { signed(self.typical.unhelped) } else { 0 };
                (earlier.min(0) - risk, earlier)
            }
            (None, Some((now, _))) => {
                let then = asked.iter().find(|asked| asked.could_help).map_or(now, |asked| asked.at);
                (0, (signed(then) - signed(now)).max(0) + signed(self.typical.blocked))
            }
            (None, None) => (0, 0),
        }
    }
}
