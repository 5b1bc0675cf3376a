//! The second reading: policies run over the recorded halts, core runs and yields, with other settings.
//!
//! ```text
//! halts ─► part 1 │ part 2 │ … │ part 10     of each: what was recorded, and what each setting would have made of it
//! ```
//!
//! What differs from part to part says how sure a sum is.

use super::input::{AdviceInput, RecordedHost};
use crate::setting::SettingSide;
use exitscope_analysis::RecordedHaltPolling;
use exitscope_analysis::replay::{
    GangReplay, HaltNumbering, HaltOutcome, HaltPolicy, HaltReplay, RecordedHalt, SpinModel, SpinReplay,
};
use exitscope_model::{Event, Halt, Yield, YieldCall};
use exitscope_policy::yielding::Params;
use exitscope_policy::{Knob, knob, vcore};
use exitscope_stats::Estimate;
use exitscope_units::{Moment, VmId};
use std::thread;

/// Parts of a recording.
const PARTS: usize = 10;

/// VMs whose guests' polling is tried, those with the most halts.
pub(crate) const MOST_GUESTS: usize = 16;

/// Values of halt_poll_ns that are tried.
const HOST_VALUES: [u64; 8] = [0, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

/// Values of guest_halt_poll_ns that are tried. Below grow_start a limit cannot be.
const GUEST_VALUES: [u64; 5] = [50_000, 100_000, 200_000, 500_000, 1_000_000];

/// What limits of polling, in nanoseconds, would have made of all halts of a recording.
#[derive(Clone, Debug, Default)]
pub struct TriedLimits {
    /// halt_poll_ns.
    pub host: Vec<(u64, HaltOutcome)>,
    /// guest_halt_poll_ns.
    pub guest: Vec<(u64, HaltOutcome)>,
}

impl TriedLimits {
    /// The limits of halt_poll_ns and of guest_halt_poll_ns that are tried where advice is given.
    pub const EXPECTED: (&[u64], &[u64]) = (&HOST_VALUES, &GUEST_VALUES);
}

/// Widths of virtual cores that are tried.
pub(crate) const WIDTHS: [u32; 3] = [1, 2, 4];

/// What halts came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HaltTotals {
    /// Halts that polling ended.
    pub successful_polls: u64,
    /// CPU time of polls, in nanoseconds.
    pub polling: u64,
    /// That of polls that did not end the halt.
    pub missed: u64,
    /// Wake-up latencies together, in nanoseconds.
    pub latency: u64,
}

/// One value, tried.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub value: u64,
    replay: HaltReplay,
    /// What came up to the end of each part.
    until: [HaltTotals; PARTS],
}

/// Some values, tried on the same halts.
#[derive(Clone, Debug)]
pub(crate) struct PollCandidates {
    total: u64,
    done: u64,
    /// The part in hand.
    part: usize,
    recorded: [HaltTotals; PARTS],
    pub trials: Vec<Trial>,
}

/// What a trial would have made differently, in nanoseconds, whole recording: lowest, mean, highest.
pub(crate) type GainEstimateNs = (f64, f64, f64);

impl PollCandidates {
    pub fn new(
        input: &AdviceInput,
        host: &RecordedHaltPolling,
        policy: HaltPolicy,
        vm: Option<VmId>,
        knob: &'static str,
        values: &[u64],
    ) -> PollCandidates {
        let all = vm.map_or_else(|| input.facts.halts.all(), |vm| input.halts(vm));
        let settings = &input.facts.halts.settings;
        let trial = |&value: &u64| {
            let replay = HaltReplay::new(policy, settings, host, &[(knob, value)], &all).ok()?;
            Some(Trial { value, replay, until: [HaltTotals::default(); PARTS] })
        };
        PollCandidates {
            // What is tried are all idle exits.
            total: all.halts() + all.at_once,
            done: 0,
            part: 0,
            recorded: [HaltTotals::default(); PARTS],
            trials: values.iter().filter_map(trial).collect(),
        }
    }

    pub fn absorb(&mut self, mut halts: &[RecordedHalt]) {
        while !halts.is_empty() {
            let part = part(self.done, self.total);
            if part != self.part {
                self.end_part();
                self.part = part;
            }
            let of_part;
            (of_part, halts) = halts.split_at(halts.len().min(left_of(part, self.done, self.total)));
            self.done += of_part.len() as u64;
            of_part.iter().for_each(|recorded| self.recorded[part].absorb(recorded));
            self.trials.iter_mut().for_each(|trial| trial.replay.absorb_recorded(of_part));
        }
    }

    /// Takes note of what came up to here. Parts that had no halts end where the one before them did.
    pub fn end_part(&mut self) {
        for trial in &mut self.trials {
            trial.until[self.part..].fill(HaltTotals::of(&trial.replay));
        }
    }

    /// What came of each value, if they were tried on so many idle exits.
    fn outcomes(self, exits: u64) -> Vec<(u64, HaltOutcome)> {
        if self.done != exits {
            return Vec::new();
        }
        self.trials.into_iter().map(|trial| (trial.value, trial.replay.outcome)).collect()
    }

    fn leave_out(&mut self) {
        self.total = 0;
        self.trials.clear();
    }

    /// All halts, as recorded.
    pub fn recorded(&self) -> HaltTotals {
        sum(&self.recorded)
    }

    /// By how much a trial's wake-ups would have been sooner.
    pub fn latency_gain(&self, trial: &Trial) -> GainEstimateNs {
        range(self.recorded.iter().zip(trial.parts()).map(|(old, new)| old.latency as f64 - new.latency as f64))
    }

    /// How many halts its polls would have ended; of the guest's polls, so many exits there would not have been.
    pub fn spared(trial: &Trial) -> GainEstimateNs {
        range(trial.parts().map(|part| part.successful_polls as f64))
    }

    /// By how much less CPU time its polls would have taken.
    pub fn cpu_gain(&self, trial: &Trial) -> GainEstimateNs {
        range(self.recorded.iter().zip(trial.parts()).map(|(old, new)| old.polling as f64 - new.polling as f64))
    }
}

impl Trial {
    /// All halts.
    pub fn total(&self) -> HaltTotals {
        self.until[PARTS - 1]
    }

    /// What came in each part.
    fn parts(&self) -> impl Iterator<Item = HaltTotals> {
        let before = std::iter::once(HaltTotals::default()).chain(self.until);
        let of_part = |(before, until): (HaltTotals, &HaltTotals)| HaltTotals {
            successful_polls: until.successful_polls - before.successful_polls,
            polling: until.polling - before.polling,
            missed: until.missed - before.missed,
            latency: until.latency - before.latency,
        };
        before.zip(&self.until).map(of_part)
    }
}

impl HaltTotals {
    fn of(replay: &HaltReplay) -> HaltTotals {
        let outcome = &replay.outcome;
        HaltTotals {
            successful_polls: outcome.hits,
            polling: outcome.polling,
            missed: outcome.polling_missed,
            latency: outcome.latencies.sum,
        }
    }

    fn absorb(&mut self, recorded: &RecordedHalt) {
        self.latency = self.latency.saturating_add(recorded.latency().unwrap_or_default().0);
        let Some((polled, caught)) = recorded.polled() else { return };
        self.polling = self.polling.saturating_add(polled.0);
        if caught {
            self.successful_polls += 1;
        } else {
            self.missed = self.missed.saturating_add(polled.0);
        }
    }
}

fn sum(parts: &[HaltTotals; PARTS]) -> HaltTotals {
    parts.iter().fold(HaltTotals::default(), |sum, part| HaltTotals {
        successful_polls: sum.successful_polls + part.successful_polls,
        polling: sum.polling.saturating_add(part.polling),
        missed: sum.missed.saturating_add(part.missed),
        latency: sum.latency.saturating_add(part.latency),
    })
}

fn part(done: u64, total: u64) -> usize {
    ((done * PARTS as u64).checked_div(total).unwrap_or(0) as usize).min(PARTS - 1)
}

/// How many are left of this part.
fn left_of(part: usize, done: u64, total: u64) -> usize {
    let end = ((part as u64 + 1) * total).div_ceil(PARTS as u64);
    if part + 1 < PARTS && end > done { (end - done) as usize } else { usize::MAX }
}

/// The sum over all parts, and its 95 % confidence interval.
fn range(parts: impl Iterator<Item = f64>) -> GainEstimateNs {
    let parts: Vec<f64> = parts.collect();
    let count = parts.len() as f64;
    let Some(Estimate { mean, interval }) = Estimate::of(&parts) else { return (0.0, 0.0, 0.0) };
    let (low, high) = interval.unwrap_or((mean, mean));
    (low * count, mean * count, high * count)
}

/// Virtual cores of other widths, tried.
#[derive(Clone, Debug)]
pub(crate) struct VcoreWidthCandidates {
    replay: GangReplay,
    total: u64,
    /// Time lost in each part, but for the turns of other virtual cores: as recorded, and with each width.
    parts: [[u64; 1 + WIDTHS.len()]; PARTS],
}

impl VcoreWidthCandidates {
    fn lost(&self) -> [u64; 1 + WIDTHS.len()] {
        let mut lost = [self.replay.recorded.cost(); 1 + WIDTHS.len()];
        for (lost, (_, outcome)) in lost[1..].iter_mut().zip(&self.replay.outcomes) {
            *lost = outcome.cost();
        }
        lost
    }

    fn absorb(&mut self, event: &Event, within: impl Fn(VmId, Moment) -> bool) {
        let before = self.lost();
        self.replay.absorb(event, within);
        let after = self.lost();
        let part = &mut self.parts[part(self.replay.core_runs, self.total)];
        for ((sum, before), after) in part.iter_mut().zip(before).zip(after) {
            *sum += after - before;
        }
    }

    /// Forced exits, and those that would not have happened with the width at this place of [`WIDTHS`].
    pub fn avoided(&self, width: usize) -> (u64, u64) {
        (self.replay.recorded.forced, self.replay.outcomes[width].1.avoided)
    }

    /// Time lost less, with the width at this place of [`WIDTHS`]; turns of other virtual cores are left out.
    pub fn won(&self, width: usize) -> GainEstimateNs {
        range(self.parts.iter().map(|part| part[0] as f64 - part[1 + width] as f64))
    }
}

/// A longer window of PAUSE loops, none at all, or lock code that spins longer, tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinTrial {
    pub side: SettingSide,
    pub knob: &'static Knob,
    pub value: u64,
    /// The lower, the smaller the change.
    pub rank: u64,
    /// What those that wait win at least, and at most.
    pub least: GainEstimateNs,
    pub most: GainEstimateNs,
}

/// Values of `ple_window`, `pause_filter_count` and `spin_retry` that are tried; and no exits for PAUSE.
const PLE_WINDOWS: [u64; 4] = [8_192, 16_384, 65_536, 1_048_576];
const PAUSE_COUNTS: [u64; 3] = [10_000, 30_000, 65_535];
const SPIN_RETRIES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// What sets how long vCPUs spin before they yield.
pub(crate) struct SpinKnobs {
    /// Whose kernel has them.
    pub side: SettingSide,
    /// How long, or how often.
    pub window: &'static str,
    /// Has them never yield, where it is zero.
    pub off: Option<&'static str>,
    /// Values of the window that are tried.
    pub values: &'static [u64],
}

impl SpinKnobs {
    /// Of vCPUs that yield in this way.
    pub fn of(call: YieldCall) -> SpinKnobs {
        let (side, window, off, values): (_, _, _, &[u64]) = match call {
            YieldCall::Pause => (SettingSide::Host, "ple_window", Some("ple_gap"), &PLE_WINDOWS),
            YieldCall::PauseFilter => {
                (SettingSide::Host, "pause_filter_count", Some("pause_filter_count"), &PAUSE_COUNTS)
            }
            _ => (SettingSide::Guest, "spin_retry", None, &SPIN_RETRIES),
        };
        SpinKnobs { side, window, off, values }
    }
}

/// How vCPUs spin, tried.
#[derive(Clone, Debug)]
struct SpinCandidates {
    replay: SpinReplay,
    knobs: Vec<(SettingSide, &'static Knob, u64)>,
    total: u64,
    done: u64,
    /// Of each part and each of the knobs' values, what is won at least and at most.
    parts: Vec<[(i64, i64); PARTS]>,
}

impl SpinCandidates {
    /// None if the recording does not tell how long vCPUs spin, or who waited for a CPU.
    fn new(input: &AdviceInput, host: &RecordedHost) -> Option<SpinCandidates> {
        let survey = &input.spins;
        let call = survey.main_call().filter(|_| survey.known > 0)?;
        // Lock code with `spin_retry` is s390's (arch/s390/lib/spinlock.c).
        if matches!(call, YieldCall::Diag44 | YieldCall::Diag9c) && !host.is_s390() {
            return None;
        }
        let in_force = survey.in_force(call);
        let typical = survey.typical(&in_force)?;
        let SpinKnobs { side, window: name, off, values } = SpinKnobs::of(call);
        let row = |name, value| Some((side, knob(name)?, value));
        let mut knobs: Vec<_> = values.iter().filter_map(|value| row(name, *value)).collect();
        knobs.extend(off.and_then(|name| row(name, 0)));
        let asks: Vec<SpinModel> = knobs.iter().map(|(_, knob, value)| with(in_force, knob.name, *value)).collect();
        Some(SpinCandidates {
            replay: SpinReplay::new(call, in_force, typical, &asks),
            parts: vec![[(0, 0); PARTS]; knobs.len()],
            knobs,
            total: survey.calls.values().sum(),
            done: 0,
        })
    }

    fn won(&self) -> Vec<(i64, i64)> {
        self.replay.outcomes().map(|outcome| (outcome.least, outcome.most)).collect()
    }

    /// Has the replay go on, and notes what that won in the part in hand.
    fn go_on(&mut self, with: impl FnOnce(&mut SpinReplay)) {
        let before = self.won();
        with(&mut self.replay);
        let (after, part) = (self.won(), part(self.done, self.total));
        for ((parts, before), after) in self.parts.iter_mut().zip(before).zip(after) {
            let (least, most) = &mut parts[part];
            *least += after.0 - before.0;
            *most += after.1 - before.1;
        }
    }

    fn trials(&self) -> Vec<SpinTrial> {
        let rows = self.knobs.iter().zip(&self.parts).zip(0..);
        rows.map(|((&(side, knob, value), parts), rank)| SpinTrial {
            side,
            knob,
            value,
            rank,
            least: range(parts.iter().map(|part| part.0 as f64)),
            most: range(parts.iter().map(|part| part.1 as f64)),
        })
        .collect()
    }
}

/// Who asks as `in_force`, with one knob set otherwise.
fn with(in_force: SpinModel, name: &str, value: u64) -> SpinModel {
    let set = |mut params: Params| {
        // The values are within the knobs' bounds.
        let _ = params.set(name, value);
        params
    };
    match in_force {
        SpinModel::Vmx(params) => SpinModel::Vmx(set(params)),
        SpinModel::Svm(params) => SpinModel::Svm(set(params)),
        SpinModel::Code(params, host) => SpinModel::Code(set(params), host),
        SpinModel::Never => SpinModel::Never,
    }
}

/// What settings cannot be tried on, where there is no second reading and not all of it was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedTrials {
    /// Halts.
    pub halts: bool,
    /// Yields.
    pub yields: bool,
    /// Runs of virtual cores (powerpc).
    pub core_runs: bool,
}

/// All that is tried in the second reading.
#[derive(Clone, Debug)]
pub struct Trials {
    pub(crate) host: PollCandidates,
    pub(crate) guests: Vec<(VmId, PollCandidates)>,
    pub(crate) gang: VcoreWidthCandidates,
    /// Filled at the end.
    pub(crate) spins: Vec<SpinTrial>,
    spinning: Option<SpinCandidates>,
    recorder: HaltNumbering,
    /// Of what there was, what was left out.
    pub(crate) untried: SkippedTrials,
    selection: exitscope_analysis::Selection,
    window: (Moment, Moment),
}

impl Trials {
    /// What a recording is worth trying on.
    pub fn new(input: &AdviceInput, host: &RecordedHost) -> Trials {
        let candidates =
            |policy, vm, knob, values: &[u64]| PollCandidates::new(input, &host.polling, policy, vm, knob, values);
        let of_guest = |vm| candidates(HaltPolicy::Guest, Some(vm), "guest_halt_poll_ns", &GUEST_VALUES);
        let guests = input.halting_vms().into_iter().take(MOST_GUESTS);
        let widths = WIDTHS.map(|smt_mode| vcore::Params { smt_mode, ..vcore::Params::default() });
        Trials {
            host: candidates(HaltPolicy::Host, None, "halt_poll_ns", &HOST_VALUES),
            guests: guests.map(|(vm, _)| (vm, of_guest(vm))).collect(),
            gang: VcoreWidthCandidates {
                replay: GangReplay::new(&widths),
                total: input.facts.gangs.vms().values().map(|cell| cell.runs).sum(),
                parts: [[0; 1 + WIDTHS.len()]; PARTS],
            },
            spins: Vec::new(),
            spinning: SpinCandidates::new(input, host),
            recorder: HaltNumbering::default(),
            untried: SkippedTrials::default(),
            selection: input.selection().clone(),
            window: (Moment::default(), Moment::MAX),
        }
    }

    /// Whether anything is left to try, so that the recording must be read again.
    pub fn need_reading(&self) -> bool {
        self.host.total > 0 || self.gang.total > 0 || self.spinning.is_some()
    }

    /// Whether of that reading they need more than halts and yields.
    pub fn need_core_runs(&self) -> bool {
        self.gang.total > 0
    }

    /// Tries nothing on these: a part of them would not say what all would have come to. It is said to be not judged.
    pub fn leave_out(&mut self, these: SkippedTrials) {
        self.untried = SkippedTrials {
            halts: these.halts && self.host.total > 0,
            yields: these.yields && self.spinning.is_some(),
            core_runs: these.core_runs && self.gang.total > 0,
        };
        if these.halts {
            self.host.leave_out();
            self.guests.clear();
        }
        if these.yields {
            self.spinning = None;
        }
        if these.core_runs {
            self.gang.total = 0;
        }
    }

    /// Says when the trace's first event was.
    pub fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    /// Tries everything on one halt.
    pub fn absorb_halt(&mut self, halt: &Halt) {
        let within = self.window.0 <= halt.begin && halt.begin <= self.window.1;
        if !within || !self.selection.holds_who(&halt.who) {
            return;
        }
        let recorded = [self.recorder.recorded(halt)];
        self.host.absorb(&recorded);
        absorb_of_guests(&mut self.guests, &recorded);
    }

    /// The same, in two threads, of halts that are looked at and that others replay as well: all of one [`HaltNumbering`]'s. It
    /// takes less time for many at once.
    pub fn absorb_recorded<'a>(&mut self, halts: impl Iterator<Item = &'a [RecordedHalt]> + Clone + Send) {
        let Trials { host, guests, .. } = self;
        thread::scope(|scope| {
            let of_guests = halts.clone();
            scope.spawn(move || of_guests.for_each(|halts| absorb_of_guests(guests, halts)));
            halts.for_each(|halts| host.absorb(halts));
        });
    }

    /// Tries everything on one yield.
    pub fn absorb_yield(&mut self, of: &Yield) {
        let within = self.window.0 <= of.at && of.at <= self.window.1;
        let Some(candidates) = self.spinning.as_mut().filter(|_| within && self.selection.holds_who(&of.who)) else {
            return;
        };
        candidates.go_on(|replay| replay.absorb(of));
        candidates.done += 1;
    }

    /// Says that the second reading is over.
    pub fn end(&mut self) {
        self.host.end_part();
        self.guests.iter_mut().for_each(|(_, candidates)| candidates.end_part());
        if let Some(candidates) = &mut self.spinning {
            candidates.go_on(SpinReplay::finish);
            self.spins = candidates.trials();
        }
    }

    /// What the limits of polling came to that were tried on all halts: those of guests' only if all are of one VM.
    pub fn limits(self) -> TriedLimits {
        let all = self.host.total;
        let guest = self.guests.into_iter().next().map(|(_, candidates)| candidates.outcomes(all)).unwrap_or_default();
        TriedLimits { host: self.host.outcomes(all), guest }
    }

    /// Tries everything on an event of a virtual core's runner.
    pub fn absorb_runner_event(&mut self, event: &Event) {
        let Trials { gang, selection, window, .. } = self;
        let within = |vm: VmId, at: Moment| {
            window.0 <= at && at <= window.1 && (selection.vms.is_empty() || selection.vms.contains(&vm))
        };
        gang.absorb(event, within);
    }
}

/// Tries what guests could do on halts of any of them.
fn absorb_of_guests(guests: &mut [(VmId, PollCandidates)], halts: &[RecordedHalt]) {
    for of_vm in halts.chunk_by(|halt, next| halt.vm() == next.vm()) {
        if let Some((_, candidates)) = guests.iter_mut().find(|(vm, _)| *vm == of_vm[0].vm()) {
            candidates.absorb(of_vm);
        }
    }
}

#[cfg(test)]
impl PollCandidates {
    /// Values that were tried on a recording of which each part came to the same: as recorded, and with each value.
    pub fn made(recorded: HaltTotals, trials: &[(u64, HaltTotals)]) -> PollCandidates {
        let host = RecordedHaltPolling::default();
        let input = AdviceInput::new(&exitscope_analysis::Selection::default());
        let values: Vec<u64> = trials.iter().map(|trial| trial.0).collect();
        let mut candidates = PollCandidates::new(&input, &host, HaltPolicy::Host, None, "halt_poll_ns", &values);
        candidates.recorded = [recorded; PARTS];
        for (trial, (_, came)) in candidates.trials.iter_mut().zip(trials) {
            for (until, parts) in trial.until.iter_mut().zip(1..) {
                *until = HaltTotals {
                    successful_polls: came.successful_polls * parts,
                    polling: came.polling * parts,
                    missed: came.missed * parts,
                    latency: came.latency * parts,
                };
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::vcpu;
    use exitscope_analysis::{MomentSpec, Selection};
    use exitscope_model::{
        CodeList, EventKind, ExitCode, NameId, PollChange, RunnableSiblings, SubjectWord, TargetState, VcpuIdentity,
        VcpuWakeup, YieldRecipient,
    };
    use exitscope_units::{Nanos, PcpuId, Tid, VcpuId};

    #[test]
    fn many_halts_at_once_come_to_what_one_after_the_other_does() {
        let mut input = AdviceInput::new(&Selection::default());
        let mut recorder = HaltNumbering::default();
        let halts: Vec<RecordedHalt> = (0..137)
            .map(|number| {
                let at = |after| Moment::from_nanos(number * 5_000_000 + after);
                let gap = 1_000 << (number % 11);
                let wakeup = Some(VcpuWakeup {
                    length: Nanos(gap),
                    waited: gap > 150_000,
                    valid: number % 7 != 0,
                    may_poll: true,
                });
                let (asleep, woken, change) = (Some(at(gap / 2)), Some(at(gap)), None);
                let (end, entered) = (at(gap), Some(at(gap + 2_000)));
                let (who, kicked, ipi, begin) = (vcpu(0), false, None, at(0));
                let halt = Halt { who, begin, asleep, woken, vcpu_wakeup: wakeup, change, kicked, ipi, end, entered };
                input.absorb_halt(&halt);
                recorder.recorded(&halt)
            })
            .collect();
        let came = |at_once| {
            let mut candidates = host_candidates(&input);
            halts.chunks(at_once).for_each(|halts| candidates.absorb(halts));
            candidates.end_part();
            (candidates.recorded, candidates.trials.iter().map(|trial| trial.until).collect::<Vec<_>>())
        };
        let one_by_one = came(1);
        assert!(one_by_one.0.iter().all(|part| part.successful_polls > 0 && part.missed > 0), "{one_by_one:?}");
        for at_once in [5, 13, 14, 100, 200] {
            assert_eq!(came(at_once), one_by_one, "{at_once}");
        }
    }

    /// The host's values on all halts.
    fn host_candidates(input: &AdviceInput) -> PollCandidates {
        let host = RecordedHaltPolling::default();
        PollCandidates::new(input, &host, HaltPolicy::Host, None, "halt_poll_ns", &HOST_VALUES)
    }

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn parts_are_as_even_as_whole_numbers_can_be() {
        for (done, total, of) in [
            (0, 0, 0),
            (7, 0, 0),
            (0, 20, 0),
            (1, 20, 0),
            (2, 20, 1),
            (17, 20, 8),
            (18, 20, 9),
            (20, 20, 9),
            (95, 20, 9),
        ] {
            assert_eq!(part(done, total), of, "{done} of {total}");
        }
        for total in [0, 1, 3, 7, 10, 23, 137] {
            for done in 0..total + 3 {
                let (now, left) = (part(done, total), left_of(part(done, total), done, total));
                // The last part takes whatever comes; each other one ends right before the first that is of a later one.
                if now == PARTS - 1 || total == 0 {
                    assert_eq!(left, usize::MAX, "{done} of {total}");
                } else {
                    let first_later = (done..).find(|done| part(*done, total) != now).unwrap();
                    assert_eq!(left as u64, first_later - done, "{done} of {total}");
                }
            }
        }
    }

    #[test]
    fn a_range_is_the_sum_and_where_it_lies_with_95_per_cent() {
        assert_eq!(range(std::iter::empty()), (0.0, 0.0, 0.0));
        assert_eq!(range([7.0].into_iter()), (7.0, 7.0, 7.0));
        // Ten values of mean 5, four squares each from it: a standard error of 2 / 3, of which Student's t takes 2.262.
        let (low, sum, high) = range([3.0, 7.0].into_iter().cycle().take(10));
        assert_eq!(sum, 50.0);
        assert!((low - 34.92).abs() < 1e-9 && (high - 65.08).abs() < 1e-9, "{low} {high}");
    }

    /// Halt number `number` of a vCPU, each 100 us: each third is caught by a poll of some microseconds, the others sleep
    /// after polls of 5 us and some, and are woken after 50 us.
    fn halt(who: VcpuIdentity, number: u64) -> Halt {
        let begin = number * 100_000;
        let is_caught = number.is_multiple_of(3);
        let gap = if is_caught { (number + 1) * 1_000 } else { 50_000 };
        let back = if is_caught { 300 + number } else { 2_000 + number };
        let change = PollChange { grow: false, old: 5_000 + number as u32, new: 30_000 };
        let length = if is_caught { gap } else { gap + 1_500 };
        Halt {
            who,
            begin: at(begin),
            asleep: (!is_caught).then_some(at(begin + 9_000)),
            woken: (!is_caught).then_some(at(begin + gap)),
            vcpu_wakeup: Some(VcpuWakeup { length: Nanos(length), waited: !is_caught, valid: true, may_poll: true }),
            change: (!is_caught).then_some(change),
            kicked: false,
            ipi: None,
            end: at(begin + length),
            entered: Some(at(begin + gap + back)),
        }
    }

    fn of_halts(halts: &[Halt], selection: &Selection) -> AdviceInput {
        let mut input = AdviceInput::new(selection);
        halts.iter().for_each(|halt| _ = input.absorb_halt(halt));
        input.sum_up();
        input
    }

    /// What was recorded of these halts, worked out from how [`halt`] makes them.
    fn came(numbers: impl Iterator<Item = u64>) -> HaltTotals {
        numbers.fold(HaltTotals::default(), |sum, number| match number % 3 {
            0 => HaltTotals {
                successful_polls: sum.successful_polls + 1,
                polling: sum.polling + (number + 1) * 1_000,
                latency: sum.latency + 300 + number,
                ..sum
            },
            _ => HaltTotals {
                polling: sum.polling + 5_000 + number,
                missed: sum.missed + 5_000 + number,
                latency: sum.latency + 2_000 + number,
                ..sum
            },
        })
    }

    #[test]
    fn each_part_holds_its_own_halts_as_recorded_and_as_replayed() {
        for (count, part_of) in
            [(20, vec![0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]), (3, vec![0, 3, 6])]
        {
            let halts: Vec<Halt> = (0..count).map(|number| halt(vcpu(0), number)).collect();
            let input = of_halts(&halts, &Selection::default());
            let mut candidates = host_candidates(&input);
            let (mut recorder, facts) = (HaltNumbering::default(), &input.facts.halts);
            let mut replays: Vec<HaltReplay> = HOST_VALUES
                .iter()
                .map(|value| {
                    let set = [("halt_poll_ns", *value)];
                    HaltReplay::new(
                        HaltPolicy::Host,
                        &facts.settings,
                        &RecordedHaltPolling::default(),
                        &set,
                        &facts.all(),
                    )
                    .unwrap()
                })
                .collect();
            let mut until = vec![[HaltTotals::default(); PARTS]; HOST_VALUES.len()];
            for (halt, part) in halts.iter().zip(&part_of) {
                let recorded = [recorder.recorded(halt)];
                candidates.absorb(&recorded);
                for (replay, until) in replays.iter_mut().zip(&mut until) {
                    replay.absorb_recorded(&recorded);
                    let HaltOutcome { caught, polling, polling_missed: missed, ref latencies, .. } = replay.outcome;
                    until[*part..].fill(HaltTotals {
                        successful_polls: caught,
                        polling,
                        missed,
                        latency: latencies.sum,
                    });
                }
            }
            candidates.end_part();
            for part in 0..PARTS {
                let numbers = (0..count).filter(|number| part_of[*number as usize] == part);
                assert_eq!(candidates.recorded[part], came(numbers), "part {part} of {count}");
            }
            assert_eq!(candidates.recorded(), came(0..count), "{count}");
            for (trial, until) in candidates.trials.iter().zip(&until) {
                assert_eq!(trial.until, *until, "{} of {count}", trial.value);
                assert_eq!(trial.total(), until[PARTS - 1], "{} of {count}", trial.value);
                let (old, new) = (candidates.recorded(), trial.total());
                let (won, saved) = (candidates.latency_gain(trial), candidates.cpu_gain(trial));
                let near = |sum: f64, old: u64, new: u64| (sum - (old as f64 - new as f64)).abs() < 1e-3;
                assert!(near(won.1, old.latency, new.latency), "{won:?} {old:?} {new:?}");
                assert!(near(saved.1, old.polling, new.polling), "{saved:?} {old:?} {new:?}");
                let parts: Vec<HaltTotals> = trial.parts().collect();
                assert_eq!((parts.len(), sum(&parts.try_into().unwrap())), (PARTS, new), "{} of {count}", trial.value);
            }
            // No poll ends no halt, and longer ones end no fewer.
            let caught: Vec<u64> = candidates.trials.iter().map(|trial| trial.total().successful_polls).collect();
            assert!(caught[0] == 0 && caught.is_sorted(), "{caught:?}");
            assert!(count < 20 || caught[7] > 10, "{caught:?}");
            assert_eq!(candidates.clone().outcomes(count + 1), []);
            let outcomes = candidates.outcomes(count);
            assert_eq!(outcomes.iter().map(|row| row.0).collect::<Vec<_>>(), HOST_VALUES);
            assert_eq!(outcomes.iter().map(|row| row.1.caught).collect::<Vec<_>>(), caught);
        }
    }

    #[test]
    fn a_part_of_a_trial_is_what_came_after_the_part_before() {
        let of = |times: u64| HaltTotals {
            successful_polls: 3 * times,
            polling: 500 * times,
            missed: 70 * times,
            latency: 1_100 * times,
        };
        let recorded = HaltTotals { successful_polls: 2, polling: 400, missed: 90, latency: 1_350 };
        let mut candidates = PollCandidates::made(recorded, &[(10_000, of(1))]);
        assert_eq!(candidates.trials[0].parts().collect::<Vec<_>>(), [of(1); PARTS]);
        assert_eq!((candidates.trials[0].total(), sum(&candidates.recorded).successful_polls), (of(10), 20));
        let (won, saved) = (candidates.latency_gain(&candidates.trials[0]), candidates.cpu_gain(&candidates.trials[0]));
        assert_eq!((won, saved), ((2_500.0, 2_500.0, 2_500.0), (-1_000.0, -1_000.0, -1_000.0)));
        // Five times as much in the last part: the sums grow, and how sure they are shrinks.
        candidates.trials[0].until[PARTS - 1] = of(14);
        assert_eq!(candidates.trials[0].parts().last(), Some(of(5)));
        let (low, sum, high) = candidates.latency_gain(&candidates.trials[0]);
        assert!((sum + 1_900.0).abs() < 1e-6 && low < sum && sum < high, "{low} {sum} {high}");
    }

    /// A selection of vCPU 0 of these VMs, from 1,000 ns after the trace's first event until 3,000 ns after it.
    fn selection(vms: &[VmId]) -> Selection {
        let mut selection = Selection::default();
        (selection.vms, selection.vcpus) = (vms.to_vec(), vec![VcpuId(0)]);
        (selection.from, selection.to) = (Some(MomentSpec::After(Nanos(1_000))), Some(MomentSpec::After(Nanos(3_000))));
        selection
    }

    /// Moments of a trace that begins at 10,000 ns, whose they are, and whether that selection holds them.
    const HELD: [(u64, u32, u32, bool); 8] = [
        (10_999, 1, 0, false),
        (11_000, 1, 0, true),
        (12_000, 2, 0, false),
        (12_000, 1, 1, false),
        (12_000, 2, 1, false),
        (12_500, 1, 0, true),
        (13_000, 1, 0, true),
        (13_001, 1, 0, false),
    ];

    fn who(vm: u32, vcpu: u32) -> VcpuIdentity {
        VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 10 + vcpu) }
    }

    /// A yield of a vCPU that spun for 4,096 ns, and is back 2 us later.
    fn pause(who: VcpuIdentity, begin: u64, again: bool) -> Yield {
        Yield {
            who,
            at: at(begin),
            call: YieldCall::Pause,
            target: None,
            target_state: TargetState::Unknown,
            found: Some(RunnableSiblings::default()),
            guest: Nanos(4_096),
            again,
            was_out: false,
            window: Some(4_096),
            recipient: YieldRecipient::Nobody,
            waited: Nanos::ZERO,
            entered: Some(at(begin + 2_000)),
        }
    }

    /// Of a recording that has halts, yields of vCPUs that spin, core runs.
    fn trials(halts: bool, yields: bool, core_runs: bool) -> Trials {
        let halts: Vec<Halt> = (0..if halts { 4 } else { 0 }).map(|number| halt(vcpu(0), number)).collect();
        let mut input = of_halts(&halts, &Selection::default());
        for number in 0..if yields { 40 } else { 0 } {
            input.spins.absorb(&pause(vcpu(0), number * 10_000, number % 4 > 0));
        }
        let mut trials = Trials::new(&input, &RecordedHost::default());
        trials.gang.total = if core_runs { 5 } else { 0 };
        trials
    }

    #[test]
    fn a_recording_is_read_again_for_whatever_is_left_to_try() {
        for of in 0..8 {
            let (halts, yields, core_runs) = (of & 1 > 0, of & 2 > 0, of & 4 > 0);
            let trials = trials(halts, yields, core_runs);
            assert_eq!(trials.need_reading(), of > 0, "{of}");
            assert_eq!(trials.need_core_runs(), core_runs, "{of}");
            assert_eq!(trials.spinning.is_some(), yields, "{of}");
        }
    }

    #[test]
    fn what_is_left_out_is_not_tried_and_is_said_only_of_what_there_was() {
        for (there, left_out) in (0..8).flat_map(|there| (0..8).map(move |left_out| (there, left_out))) {
            let of = |kinds: u32| (kinds & 1 > 0, kinds & 2 > 0, kinds & 4 > 0);
            let (halts, yields, core_runs) = of(there);
            let mut trials = trials(halts, yields, core_runs);
            let (halts, yields, core_runs) = of(left_out);
            trials.leave_out(SkippedTrials { halts, yields, core_runs });
            let (halts, yields, core_runs) = of(there & left_out);
            assert_eq!(trials.untried, SkippedTrials { halts, yields, core_runs }, "{left_out} of {there}");
            let (halts, yields, core_runs) = of(there & !left_out);
            let left = (trials.host.total > 0, trials.spinning.is_some(), trials.need_core_runs());
            assert_eq!(left, (halts, yields, core_runs), "{left_out} of {there}");
            assert_eq!(trials.guests.is_empty(), !halts, "{left_out} of {there}");
            assert_eq!(trials.host.trials.is_empty(), left_out & 1 > 0, "{left_out} of {there}");
        }
    }

    #[test]
    fn only_what_is_selected_is_tried() {
        let mut input = AdviceInput::new(&selection(&[VmId(1)]));
        (0..40).for_each(|number| input.spins.absorb(&pause(who(1, 0), number * 10_000, number % 4 > 0)));
        let mut trials = Trials::new(&input, &RecordedHost::default());
        trials.begin(at(10_000));
        let (mut halts, mut yields) = (0, 0);
        for (begin, vm, vcpu, is_held) in HELD {
            trials.absorb_halt(&Halt { begin: at(begin), ..halt(who(vm, vcpu), 1) });
            trials.absorb_yield(&pause(who(vm, vcpu), begin, false));
            halts += u64::from(is_held);
            yields += u64::from(is_held);
            assert_eq!(trials.host.done, halts, "{begin} {vm} {vcpu}");
            assert_eq!(trials.spinning.as_ref().map(|candidates| candidates.done), Some(yields), "{begin} {vm} {vcpu}");
        }
        // Core runs are of VMs and moments alone, and a run is where it ends.
        for (vms, runs) in [(&[VmId(1)][..], [0, 1, 1, 2, 2, 3, 4, 4]), (&[], [0, 1, 2, 3, 4, 5, 6, 6])] {
            let mut trials = Trials::new(&AdviceInput::new(&selection(vms)), &RecordedHost::default());
            trials.begin(at(10_000));
            for ((end, vm, vcpu, _), runs) in HELD.into_iter().zip(runs) {
                core_run(who(vm, vcpu), end - 100, 100, &[]).iter().for_each(|event| trials.absorb_runner_event(event));
                assert_eq!(trials.gang.replay.core_runs, runs, "{end} {vm} {vcpu}");
            }
        }
    }

    /// A core run in which vCPU 0 had to leave and took 1 and 2 along; then these enter again, so much later.
    fn core_run(runner: VcpuIdentity, begin: u64, lasts: u64, back: &[(u32, u64)]) -> Vec<Event> {
        let event = |nanos, vcpu, kind| Event {
            at: at(nanos),
            tid: runner.tid,
            vm: runner.vm,
            vcpu: VcpuId(vcpu),
            cpu: PcpuId(0),
            name: NameId::NONE,
            kind,
        };
        let left = |vcpu, trap| {
            let code = ExitCode::new(CodeList::PpcTrap, trap);
            event(begin + lasts / 2, vcpu, EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 })
        };
        let doorbell = u64::from(vcore::H_DOORBELL);
        let mut events = vec![event(begin, runner.vcpu.0, EventKind::RunCore { exit: false, runnable: 3 })];
        events.extend([left(0, 0xc00), left(1, doorbell), left(2, doorbell)]);
        events.push(event(begin + lasts, runner.vcpu.0, EventKind::RunCore { exit: true, runnable: 3 }));
        events.extend(back.iter().map(|(vcpu, after)| event(begin + lasts / 2 + after, *vcpu, EventKind::Enter)));
        events
    }

    #[test]
    fn time_lost_is_counted_in_its_part_with_each_width() {
        let replay = GangReplay::new(&WIDTHS.map(|smt_mode| vcore::Params { smt_mode, ..vcore::Params::default() }));
        let mut candidates = VcoreWidthCandidates { replay, total: 20, parts: [[0; 1 + WIDTHS.len()]; PARTS] };
        let mut parts = [[0; 1 + WIDTHS.len()]; PARTS];
        for number in 1..=20 {
            let (first, second) = (400 + number, 7_000 + 3 * number);
            let events = core_run(who(1, 0), number * 100_000, 100, &[(1, first), (2, second)]);
            events.iter().for_each(|event| candidates.absorb(event, |_, _| true));
            // Runs that were seen by then, of twenty. Virtual cores of one thread lose nothing, those of two that of vCPU 1.
            let part = &mut parts[(number as usize / 2).min(9)];
            for (sum, lost) in part.iter_mut().zip([first + second, 0, first, first + second]) {
                *sum += lost;
            }
        }
        assert_eq!(candidates.parts, parts);
        let sum = |width: usize| parts.iter().map(|part| part[width]).sum::<u64>() as f64;
        for (width, won) in [(0, sum(0)), (1, sum(0) - sum(2)), (2, 0.0)] {
            let (low, mean, high) = candidates.won(width);
            assert!(
                (mean - won).abs() < 1e-6 && low <= mean && mean <= high,
                "{width}: {low} {mean} {high}, not {won}"
            );
        }
    }

    #[test]
    fn what_longer_windows_win_is_counted_in_its_part() {
        let yields: Vec<Yield> =
            (0..40).map(|number| pause(vcpu((number / 4 % 3) as u32), number * 10_000, number % 4 > 0)).collect();
        let mut input = AdviceInput::new(&Selection::default());
        yields.iter().for_each(|of| input.spins.absorb(of));
        let mut trials = Trials::new(&input, &RecordedHost::default());
        let SpinCandidates { mut replay, knobs, .. } = trials.spinning.clone().unwrap();
        let values: Vec<(&str, u64)> = knobs.iter().map(|row| (row.1.name, row.2)).collect();
        let windows = PLE_WINDOWS.map(|value| ("ple_window", value));
        assert_eq!(values, windows.into_iter().chain([("ple_gap", 0)]).collect::<Vec<_>>());
        let won = |replay: &SpinReplay| replay.outcomes().map(|of| [of.least, of.most]).collect::<Vec<_>>();
        let mut parts = vec![[[0.0; 2]; PARTS]; values.len()];
        let mut note = |part: usize, replay: &mut SpinReplay, with: &dyn Fn(&mut SpinReplay)| {
            let before = won(replay);
            with(replay);
            for ((parts, before), after) in parts.iter_mut().zip(before).zip(won(replay)) {
                parts[part][0] += (after[0] - before[0]) as f64;
                parts[part][1] += (after[1] - before[1]) as f64;
            }
        };
        for (of, number) in yields.iter().zip(0..) {
            trials.absorb_yield(of);
            note(number / 4, &mut replay, &|replay| replay.absorb(of));
        }
        trials.end();
        note(9, &mut replay, &SpinReplay::finish);
        assert_eq!(trials.spins.len(), values.len());
        for ((trial, (parts, (name, value))), rank) in trials.spins.iter().zip(parts.iter().zip(&values)).zip(0..) {
            assert_eq!(
                (trial.side, trial.knob.name, trial.value, trial.rank),
                (SettingSide::Host, *name, *value, rank)
            );
            assert_eq!(trial.least, range(parts.iter().map(|part| part[0])), "{name} {value}");
            assert_eq!(trial.most, range(parts.iter().map(|part| part[1])), "{name} {value}");
        }
        // Without exits for PAUSE, forty of 2 us each are won, to the accuracy of a histogram.
        assert!((79_000.0..=80_000.0).contains(&trials.spins[4].least.1), "{:?}", trials.spins[4]);
    }

    #[test]
    fn limits_are_said_of_all_halts_and_the_guests_of_one_vm_alone() {
        let values = |outcomes: &[(u64, HaltOutcome)]| outcomes.iter().map(|row| row.0).collect::<Vec<_>>();
        let halts = |row: &(u64, HaltOutcome)| row.1.halts;
        for (of_others, guest) in [(0, &GUEST_VALUES[..]), (2, &[])] {
            let mut all: Vec<Halt> = (0..5).map(|number| halt(who(1, 0), number)).collect();
            all.extend((0..of_others).map(|number| halt(who(2, 0), number)));
            let input = of_halts(&all, &Selection::default());
            let mut tried = Trials::new(&input, &RecordedHost::default());
            let order: Vec<(VmId, u64)> = tried.guests.iter().map(|(vm, candidates)| (*vm, candidates.total)).collect();
            assert_eq!(order, [(VmId(1), 5), (VmId(2), of_others)][..if of_others > 0 { 2 } else { 1 }]);
            let short = {
                let mut tried = tried.clone();
                all[1..].iter().for_each(|halt| tried.absorb_halt(halt));
                tried.end();
                tried.limits()
            };
            assert_eq!((short.host.len(), short.guest.len()), (0, 0), "not all was tried");
            let mut at_once = tried.clone();
            all.iter().for_each(|halt| tried.absorb_halt(halt));
            let recorded: Vec<RecordedHalt> = {
                let mut recorder = HaltNumbering::default();
                all.iter().map(|halt| recorder.recorded(halt)).collect()
            };
            at_once.absorb_recorded(recorded.chunks(3));
            for (vm, candidates) in &tried.guests {
                assert_eq!(candidates.done, if *vm == VmId(1) { 5 } else { of_others });
            }
            tried.end();
            at_once.end();
            let (limits, at_once) = (tried.limits(), at_once.limits());
            assert_eq!((values(&limits.host), values(&limits.guest)), (HOST_VALUES.to_vec(), guest.to_vec()));
            assert!(limits.host.iter().all(|row| halts(row) == 5 + of_others), "{limits:?}");
            assert!(limits.guest.iter().all(|row| halts(row) == 5), "{limits:?}");
            assert_eq!((limits.host, limits.guest), (at_once.host, at_once.guest));
        }
    }
}
