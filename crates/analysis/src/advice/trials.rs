//! The second reading: policies run over the recorded halts, core runs and yields, with other settings.
//!
//! ```text
//! halts ─► part 1 │ part 2 │ … │ part 10     of each: what was recorded, and what each setting would have made of it
//! ```
//!
//! What differs from part to part says how sure a sum is.

use super::judgement::Side;
use super::material::{Machine, Material};
use super::spinning::is_s390;
use crate::PollHost;
use crate::replay::{Asks, GangReplay, HaltOutcome, HaltPolicy, HaltReplay, Recorded, Recorder, SpinReplay};
use exitscope_model::{Event, Halt, Yield, YieldCall};
use exitscope_policy::yielding::Params;
use exitscope_policy::{Knob, knob, vcore};
use exitscope_stats::Estimate;
use exitscope_units::{Moment, VmId};
use std::thread;

/// Parts of a recording.
const PARTS: usize = 10;

/// VMs whose guests' polling is tried, those with the most halts.
pub(super) const MOST_GUESTS: usize = 16;

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
pub(super) const WIDTHS: [u32; 3] = [1, 2, 4];

/// What halts came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// Halts that polling ended.
    pub caught: u64,
    /// CPU time of polls, in nanoseconds.
    pub polling: u64,
    /// That of polls that did not end the halt.
    pub missed: u64,
    /// Wake-up latencies together, in nanoseconds.
    pub latency: u64,
}

/// One value, tried.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub value: u64,
    replay: HaltReplay,
    /// What came up to the end of each part.
    until: [Came; PARTS],
}

/// Some values, tried on the same halts.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    total: u64,
    done: u64,
    /// The part in hand.
    part: usize,
    recorded: [Came; PARTS],
    pub trials: Vec<Trial>,
}

/// What a trial would have made differently, in nanoseconds, whole recording: lowest, mean, highest.
pub(super) type Range = (f64, f64, f64);

impl Bench {
    fn new(material: &Material, host: &PollHost, policy: HaltPolicy, vm: Option<VmId>, values: &[u64]) -> Bench {
        let all = vm.map_or_else(|| material.facts.halts.all(), |vm| material.halts(vm));
        let knob = if policy == HaltPolicy::Host { "halt_poll_ns" } else { "guest_halt_poll_ns" };
        let settings = &material.facts.halts.settings;
        let trial = |&value: &u64| {
            let replay = HaltReplay::new(policy, settings, host, &[(knob, value)], &all).ok()?;
            Some(Trial { value, replay, until: [Came::default(); PARTS] })
        };
        Bench {
            // What is tried are all idle exits.
            total: all.halts() + all.at_once,
            done: 0,
            part: 0,
            recorded: [Came::default(); PARTS],
            trials: values.iter().filter_map(trial).collect(),
        }
    }

    fn absorb(&mut self, mut halts: &[Recorded]) {
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
    fn end_part(&mut self) {
        for trial in &mut self.trials {
            trial.until[self.part..].fill(Came::of(&trial.replay));
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
    pub fn recorded(&self) -> Came {
        sum(&self.recorded)
    }

    /// By how much a trial's wake-ups would have been sooner.
    pub fn won(&self, trial: &Trial) -> Range {
        range(self.recorded.iter().zip(trial.parts()).map(|(old, new)| old.latency as f64 - new.latency as f64))
    }

    /// By how much less CPU time its polls would have taken.
    pub fn saved(&self, trial: &Trial) -> Range {
        range(self.recorded.iter().zip(trial.parts()).map(|(old, new)| old.polling as f64 - new.polling as f64))
    }
}

impl Trial {
    /// All halts.
    pub fn came(&self) -> Came {
        self.until[PARTS - 1]
    }

    /// What came in each part.
    fn parts(&self) -> impl Iterator<Item = Came> {
        let before = std::iter::once(Came::default()).chain(self.until);
        let of_part = |(before, until): (Came, &Came)| Came {
            caught: until.caught - before.caught,
            polling: until.polling - before.polling,
            missed: until.missed - before.missed,
            latency: until.latency - before.latency,
        };
        before.zip(&self.until).map(of_part)
    }
}

impl Came {
    fn of(replay: &HaltReplay) -> Came {
        let outcome = &replay.outcome;
        Came {
            caught: outcome.caught,
            polling: outcome.polling,
            missed: outcome.polling_missed,
            latency: outcome.latencies.sum,
        }
    }

    fn absorb(&mut self, recorded: &Recorded) {
        self.latency = self.latency.saturating_add(recorded.latency().unwrap_or_default().0);
        let Some((polled, caught)) = recorded.polled() else { return };
        self.polling = self.polling.saturating_add(polled.0);
        if caught {
            self.caught += 1;
        } else {
            self.missed = self.missed.saturating_add(polled.0);
        }
    }
}

fn sum(parts: &[Came; PARTS]) -> Came {
    parts.iter().fold(Came::default(), |sum, part| Came {
        caught: sum.caught + part.caught,
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
fn range(parts: impl Iterator<Item = f64>) -> Range {
    let parts: Vec<f64> = parts.collect();
    let count = parts.len() as f64;
    let Some(Estimate { mean, interval }) = Estimate::of(&parts) else { return (0.0, 0.0, 0.0) };
    let (low, high) = interval.unwrap_or((mean, mean));
    (low * count, mean * count, high * count)
}

/// Virtual cores of other widths, tried.
#[derive(Clone, Debug)]
pub(super) struct GangBench {
    replay: GangReplay,
    total: u64,
    /// Time lost in each part: as recorded, and with each width.
    parts: [[u64; 1 + WIDTHS.len()]; PARTS],
}

impl GangBench {
    fn lost(&self) -> [u64; 1 + WIDTHS.len()] {
        let mut lost = [self.replay.recorded.lost; 1 + WIDTHS.len()];
        for (lost, (_, outcome)) in lost[1..].iter_mut().zip(&self.replay.outcomes) {
            *lost = outcome.lost;
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

    /// Time lost less, with the width at this place of [`WIDTHS`].
    pub fn won(&self, width: usize) -> Range {
        range(self.parts.iter().map(|part| part[0] as f64 - part[1 + width] as f64))
    }
}

/// A longer window of PAUSE loops, none at all, or lock code that spins longer, tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpinTrial {
    pub side: Side,
    pub knob: &'static Knob,
    pub value: u64,
    /// The lower, the smaller the change.
    pub rank: u64,
    /// What those that wait win at least, and at most.
    pub least: Range,
    pub most: Range,
}

/// Values of `ple_window`, `pause_filter_count` and `spin_retry` that are tried; and no exits for PAUSE.
const PLE_WINDOWS: [u64; 4] = [8_192, 16_384, 65_536, 1_048_576];
const PAUSE_COUNTS: [u64; 3] = [10_000, 30_000, 65_535];
const SPIN_RETRIES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// How vCPUs spin, tried.
#[derive(Clone, Debug)]
struct SpinBench {
    replay: SpinReplay,
    knobs: Vec<(Side, &'static Knob, u64)>,
    total: u64,
    done: u64,
    /// Of each part and each of the knobs' values, what is won at least and at most.
    parts: Vec<[(i64, i64); PARTS]>,
}

impl SpinBench {
    /// None if the recording does not tell how long vCPUs spin, or who waited for a CPU.
    fn new(material: &Material, machine: &Machine) -> Option<SpinBench> {
        let survey = &material.spins;
        let call = survey.main_call().filter(|_| survey.known > 0)?;
        // Lock code with `spin_retry` is s390's (arch/s390/lib/spinlock.c).
        if matches!(call, YieldCall::Diag44 | YieldCall::Diag9c) && !is_s390(machine) {
            return None;
        }
        let in_force = survey.in_force(call);
        let typical = survey.typical(&in_force)?;
        let (side, name, off, values): (_, _, _, &[u64]) = match call {
            YieldCall::Pause => (Side::Host, "ple_window", Some("ple_gap"), &PLE_WINDOWS),
            YieldCall::PauseFilter => (Side::Host, "pause_filter_count", Some("pause_filter_count"), &PAUSE_COUNTS),
            _ => (Side::Guest, "spin_retry", None, &SPIN_RETRIES),
        };
        let row = |name, value| Some((side, knob(name)?, value));
        let mut knobs: Vec<_> = values.iter().filter_map(|value| row(name, *value)).collect();
        knobs.extend(off.and_then(|name| row(name, 0)));
        let asks: Vec<Asks> = knobs.iter().map(|(_, knob, value)| with(in_force, knob.name, *value)).collect();
        Some(SpinBench {
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
fn with(in_force: Asks, name: &str, value: u64) -> Asks {
    let set = |mut params: Params| {
        // The values are within the knobs' bounds.
        let _ = params.set(name, value);
        params
    };
    match in_force {
        Asks::Vmx(params) => Asks::Vmx(set(params)),
        Asks::Svm(params) => Asks::Svm(set(params)),
        Asks::Code(params, machine) => Asks::Code(set(params), machine),
        Asks::Never => Asks::Never,
    }
}

/// What settings cannot be tried on, where there is no second reading and not all of it was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untried {
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
    pub(super) host: Bench,
    pub(super) guests: Vec<(VmId, Bench)>,
    pub(super) gang: GangBench,
    /// Filled at the end.
    pub(super) spins: Vec<SpinTrial>,
    spinning: Option<SpinBench>,
    recorder: Recorder,
    /// Of what there was, what was left out.
    pub(super) untried: Untried,
    selection: crate::Selection,
    window: (Moment, Moment),
}

impl Trials {
    /// What a recording is worth trying on.
    pub fn new(material: &Material, machine: &Machine) -> Trials {
        let bench = |policy, vm, values: &[u64]| Bench::new(material, &machine.polling, policy, vm, values);
        let guests = material.halting_vms().into_iter().take(MOST_GUESTS);
        let widths = WIDTHS.map(|smt_mode| vcore::Params { smt_mode, ..vcore::Params::default() });
        Trials {
            host: bench(HaltPolicy::Host, None, &HOST_VALUES),
            guests: guests.map(|(vm, _)| (vm, bench(HaltPolicy::Guest, Some(vm), &GUEST_VALUES))).collect(),
            gang: GangBench {
                replay: GangReplay::new(&widths),
                total: material.facts.gangs.vms().values().map(|cell| cell.runs).sum(),
                parts: [[0; 1 + WIDTHS.len()]; PARTS],
            },
            spins: Vec::new(),
            spinning: SpinBench::new(material, machine),
            recorder: Recorder::default(),
            untried: Untried::default(),
            selection: material.selection().clone(),
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
    pub fn leave_out(&mut self, these: Untried) {
        self.untried = Untried {
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

    /// The same, in two threads, of halts that are looked at and that others replay as well: all of one [`Recorder`]'s. It
    /// takes less time for many at once.
    pub fn absorb_recorded<'a>(&mut self, halts: impl Iterator<Item = &'a [Recorded]> + Clone + Send) {
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
        let Some(bench) = self.spinning.as_mut().filter(|_| within && self.selection.holds_who(&of.who)) else {
            return;
        };
        bench.go_on(|replay| replay.absorb(of));
        bench.done += 1;
    }

    /// Says that the second reading is over.
    pub fn end(&mut self) {
        self.host.end_part();
        self.guests.iter_mut().for_each(|(_, bench)| bench.end_part());
        if let Some(bench) = &mut self.spinning {
            bench.go_on(SpinReplay::finish);
            self.spins = bench.trials();
        }
    }

    /// What the limits of polling came to that were tried on all halts: those of guests' only if all are of one VM.
    pub fn limits(self) -> TriedLimits {
        let all = self.host.total;
        let guest = self.guests.into_iter().next().map(|(_, bench)| bench.outcomes(all)).unwrap_or_default();
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
fn absorb_of_guests(guests: &mut [(VmId, Bench)], halts: &[Recorded]) {
    for of_vm in halts.chunk_by(|halt, next| halt.vm == next.vm) {
        if let Some((_, bench)) = guests.iter_mut().find(|(vm, _)| *vm == of_vm[0].vm) {
            bench.absorb(of_vm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::vcpu;
    use super::*;
    use crate::Selection;
    use exitscope_model::Told;
    use exitscope_units::Nanos;

    #[test]
    fn many_halts_at_once_come_to_what_one_after_the_other_does() {
        let mut material = Material::new(&Selection::default());
        let mut recorder = Recorder::default();
        let halts: Vec<Recorded> = (0..137)
            .map(|number| {
                let at = |after| Moment::from_nanos(number * 5_000_000 + after);
                let gap = 1_000 << (number % 11);
                let told = Some(Told { length: Nanos(gap), waited: gap > 150_000, valid: number % 7 != 0 });
                let (asleep, woken, change) = (Some(at(gap / 2)), Some(at(gap)), None);
                let (end, entered) = (at(gap), Some(at(gap + 2_000)));
                let (who, kicked) = (vcpu(0), false);
                let halt = Halt { who, begin: at(0), asleep, woken, told, change, kicked, end, entered };
                material.absorb_halt(&halt);
                recorder.recorded(&halt)
            })
            .collect();
        let came = |at_once| {
            let mut bench = Bench::new(&material, &PollHost::default(), HaltPolicy::Host, None, &HOST_VALUES);
            halts.chunks(at_once).for_each(|halts| bench.absorb(halts));
            bench.end_part();
            (bench.recorded, bench.trials.iter().map(|trial| trial.until).collect::<Vec<_>>())
        };
        let one_by_one = came(1);
        assert!(one_by_one.0.iter().all(|part| part.caught > 0 && part.missed > 0), "{one_by_one:?}");
        for at_once in [5, 13, 14, 100, 200] {
            assert_eq!(came(at_once), one_by_one, "{at_once}");
        }
    }
}
