//! The rule about ganged exits: on POWER7 and POWER8 an exit of one thread takes its siblings along.
//!
//! ```text
//! what was lost ─► too little? ─► each narrower width, replayed: does it win beyond doubt? ─► is there room for it? ─► Cores
//! ```

mod forcers;
mod room;
mod smt_speed;
mod wording;

use super::not_judged::{Gap, Lacks};
use crate::cause::{Covered, CureLookup, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost, Vmm, total};
use crate::evidence::trials::{GainEstimateNs, Trials, VcoreWidthCandidates, WIDTHS};
use crate::judgement::{
    AdviceId, CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use exitscope_analysis::GangStats;
use exitscope_analysis::record_commands::Missed;
use exitscope_model::{CodeList, ExitCode};
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Nanos, VmId};
use forcers::{forcers, worst};
use room::{VcoreRoom, Vcores};

/// Narrower virtual cores.
pub(crate) const VIRTUAL_CORES: Rule = Rule::new("virtual_cores");

/// What is not judged of ganged exits.
pub(crate) const GAPS: &[Gap] = &[
    Gap {
        what: "what ganged exits cost",
        lacks: Lacks::Events(&[Missed::Entries]),
        missing: |of| {
            let vms = of.selected.facts.gangs.vms();
            let forced: u64 = vms.values().map(|stats| stats.forced).sum();
            let lost: u64 = vms.values().map(|stats| stats.lost.count).sum();
            (forced > 0 && lost == 0).then_some(wording::NO_ENTRIES)
        },
    },
    Gap {
        what: "what narrower virtual cores would win",
        lacks: Lacks::AnotherRecording,
        missing: |of| of.trials.untried.core_runs.then_some(wording::RUNS_UNTRIED),
    },
];

/// The exits by which a thread is told to leave.
pub(crate) const DOORBELLS: &str = "forced out (doorbells)";

/// Of what the narrowest virtual cores win, wider ones must win so much to be preferred: they need fewer cores. And who
/// has lost so much of all that was lost is whom it is about.
const GOOD_ENOUGH_SHARE: f64 = 0.9;

/// Causes that are named.
const CAUSES: usize = 3;

/// Whether the doorbells of a VM whose threads lost so much by being forced out, but for steal, are hardly anything else.
fn are_doorbells(input: &AdviceInput, vm: VmId, lost: u64) -> bool {
    are_forced(input.of_reasons(vm, &[(CodeList::PpcTrap, u64::from(H_DOORBELL))]).cost().0, lost)
}

/// The same of the cost of doorbells.
pub(crate) fn are_forced(doorbells: u64, lost: u64) -> bool {
    lost > 0 && lost as f64 >= doorbells as f64 * GOOD_ENOUGH_SHARE
}

/// Whether what is said of a VM's doorbells is what is said of being forced out.
pub(crate) fn judges_doorbells(input: &AdviceInput, vm: VmId) -> bool {
    input.facts.gangs.vms().get(&vm).is_some_and(|cell| are_doorbells(input, vm, cell.cost()))
}

/// Says it of what is lost to other threads' exits, and of the exits by which threads are forced out.
fn say(input: &AdviceInput, said: &RuleAnswer, judgement: &mut Judgement) {
    judgement.say(None, Covered::ForcedOut, said.clone());
    for (vm, cell) in input.facts.gangs.vms() {
        if are_doorbells(input, vm, cell.cost()) {
            judgement.say(Some(vm), Covered::Subject(CureLookup::Named(DOORBELLS)), said.clone());
        }
    }
}

/// What threads lost to others' exits.
#[derive(Clone, Copy)]
struct Loss {
    /// Of the vCPUs' time, in nanoseconds.
    wall: u64,
    /// Nanoseconds but for the turns of other virtual cores; without entries, at most.
    lost: u64,
    /// Whether entries were recorded, so that it is known.
    is_timed: bool,
    /// Threads of the widest virtual core.
    width: usize,
}

impl Loss {
    fn of(input: &AdviceInput) -> Option<Loss> {
        let gangs = &input.facts.gangs;
        let vms = gangs.vms();
        let is_timed = vms.values().any(|cell| cell.lost.count > 0);
        let lost = total(vms.values().map(|cell| Loss::of_vm(is_timed, cell)));
        let wall = total(input.vms.values().map(|time| time.wall));
        let width = gangs.vcores(None).iter().map(|vcore| vcore.vcpus.len()).max().unwrap_or(0);
        (wall > 0 && lost > 0 && width > 1).then_some(Loss { wall, lost, is_timed, width })
    }

    /// What the threads of a VM lost.
    fn of_vm(is_timed: bool, cell: &GangStats) -> u64 {
        if is_timed { cell.cost() } else { cell.lost_at_most }
    }

    /// What virtual cores of the width at this place of [`WIDTHS`] win: without entries, at most what was lost at most, and as much of
    /// it as of the forced exits does not happen.
    fn won(&self, replayed: &VcoreWidthCandidates, width: usize) -> GainEstimateNs {
        if self.is_timed {
            return replayed.won(width);
        }
        let (forced, avoided) = replayed.avoided(width);
        let most = self.lost as f64 * avoided as f64 / forced.max(1) as f64;
        (0.0, most, most)
    }

    /// Whether so much is noteworthy, beyond doubt as far as it is known.
    fn is_noteworthy(&self, (low, _, high): GainEstimateNs) -> bool {
        let sure = if self.is_timed { low } else { high };
        sure * MIN_COST_SHARE as f64 >= self.wall as f64
    }
}

pub(crate) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let Some(loss) = Loss::of(input) else { return };
    let said = match decide(input, trials, host, &loss) {
        Cores::Little => RuleAnswer::NotJudged(wording::LITTLE.into()),
        Cores::Untried => RuleAnswer::NotJudged(wording::UNTRIED.into()),
        Cores::NoneWins => RuleAnswer::Inherent(wording::NONE_WINS.into()),
        Cores::TooFew(vcores) => {
            let why = wording::too_few(&vcores, host.cpus, loss.width);
            let facts = note(input, &loss, judgement);
            judgement.accept_cost(facts[0], &facts[1..], why.clone());
            RuleAnswer::Inherent(why)
        }
        Cores::Narrower(narrower) => RuleAnswer::Advice(advise(input, host, &narrower, &loss, judgement)),
    };
    say(input, &said, judgement);
}

/// Narrower virtual cores that win, and have room.
#[derive(Clone, Copy)]
struct Narrower {
    vcores: Vcores,
    room: VcoreRoom,
    won: GainEstimateNs,
    /// Exits that were forced, and those of them that would not have happened.
    avoided: (u64, u64),
}

/// What is to be said of virtual cores whose threads are forced out.
enum Cores {
    /// It takes little.
    Little,
    /// There is nothing to try others on.
    Untried,
    /// No narrower ones win beyond doubt.
    NoneWins,
    /// These would win, but not even subcores are enough for them to run at a time.
    TooFew(Vcores),
    /// These win.
    Narrower(Narrower),
}

fn decide(input: &AdviceInput, trials: &Trials, host: &RecordedHost, loss: &Loss) -> Cores {
    if loss.lost.saturating_mul(MIN_COST_SHARE) < loss.wall {
        return Cores::Little;
    }
    let narrower = WIDTHS.iter().enumerate().filter(|(_, threads)| (**threads as usize) < loss.width);
    let won =
        narrower.map(|(at, threads)| (at, Vcores::of(input, *threads, loss.is_timed), loss.won(&trials.gang, at)));
    let wins: Vec<(usize, Vcores, GainEstimateNs)> = won.filter(|row| loss.is_noteworthy(row.2)).collect();
    let with_room = |&(at, vcores, won): &(usize, Vcores, GainEstimateNs)| {
        Some(Narrower { vcores, room: vcores.room(host)?, won, avoided: trials.gang.avoided(at) })
    };
    let fitting: Vec<Narrower> = wins.iter().filter_map(with_room).collect();
    let most = fitting.iter().map(|row| row.won.1).fold(0.0, f64::max);
    let nearly = |row: &Narrower| row.won.1 >= most * GOOD_ENOUGH_SHARE;
    match (fitting.into_iter().rev().find(nearly), wins.last()) {
        (Some(narrower), _) => Cores::Narrower(narrower),
        _ if trials.untried.core_runs => Cores::Untried,
        (None, None) => Cores::NoneWins,
        (None, Some((_, vcores, _))) => Cores::TooFew(*vcores),
    }
}

fn advise(
    input: &AdviceInput,
    host: &RecordedHost,
    narrower: &Narrower,
    loss: &Loss,
    judgement: &mut Judgement,
) -> AdviceId {
    let &Narrower { vcores, room, won: (low, mean, high), avoided } = narrower;
    let mut facts = note(input, loss, judgement);
    facts.push(judgement.cite(None, Topic::Gangs, wording::avoided(vcores.threads), share(avoided.1, avoided.0)));
    facts.push(judgement.cite(
        None,
        Topic::Gangs,
        wording::cores_wanted(vcores.threads),
        CitedValue::Cpus(vcores.busy),
    ));
    if host.cpus > 0 {
        let cores = CitedValue::Count(u64::from(host.cpus));
        facts.push(judgement.cite(None, Topic::Gangs, "cores of the host", cores));
    }
    let vms = input.facts.gangs.vms();
    let of_vm = |cell: &GangStats| Loss::of_vm(loss.is_timed, cell);
    let mostly = vms.iter().find(|(_, cell)| of_vm(cell) as f64 >= loss.lost as f64 * GOOD_ENOUGH_SHARE);
    let vm = mostly.map(|(vm, _)| *vm);
    let most_lost = mostly.map_or(loss.lost, |(_, cell)| of_vm(cell)) as f64;
    let time = |nanos: f64| input.per_second(vm, nanos.max(0.0) as u64);
    let gain = Gain {
        of: GainOf::ForcedOut,
        headline: time(mean.min(most_lost)),
        // Nobody knows whether there are as many cores, or whether these are split already.
        low: if room == VcoreRoom::Cores { time(low.min(most_lost)) } else { Nanos::ZERO },
        // What was lost bounds it, whatever its parts differ by.
        high: time(high.min(most_lost)),
        may_wait: false,
        how: if loss.is_timed { GainMethod::Replayed("vcore") } else { GainMethod::Counted(wording::AT_MOST) },
    };
    let vmm = vm.map_or(Vmm::Unknown, |vm| input.vmm(vm, host));
    let (kinds, _) = forcers(&input.facts.gangs);
    let words = wording::narrower(&vcores, room, loss.width, kinds.first().map(|row| row.kind), &vmm);
    judgement.advise(facts[0], &facts[1..], words.of(VIRTUAL_CORES, vm, gain))
}

fn note(input: &AdviceInput, loss: &Loss, judgement: &mut Judgement) -> Vec<CitedFactId> {
    let gangs = &input.facts.gangs;
    let mut facts = Vec::new();
    for (vm, cell) in gangs.vms() {
        if cell.forced == 0 {
            continue;
        }
        let mut of_vm = |what: &str, figure| facts.push(judgement.cite(Some(vm), Topic::Gangs, what, figure));
        let wall = input.vms.get(&vm).map_or(0, |time| time.wall);
        of_vm("share of its core runs that were ganged", share(cell.ganged, cell.runs));
        of_vm(
            "share of its threads' exits that another thread forced, ceded threads left out",
            share(cell.forced, cell.exits),
        );
        match loss.is_timed {
            true => of_vm(
                "time lost, from a forced exit to the thread's next entry, as a share of its vCPUs' time",
                share(cell.lost.sum, wall),
            ),
            false => of_vm(wording::UNTIL_NEXT_RUN, share(cell.lost_at_most, wall)),
        }
        if cell.others > 0 {
            let what = "share of that time in which another virtual core had the CPU";
            of_vm(what, share(cell.others, cell.lost.sum));
        }
    }
    let (kinds, all) = forcers(gangs);
    for row in kinds.iter().take(CAUSES) {
        let what = wording::forced_by(row.kind, loss.is_timed);
        facts.push(judgement.cite(None, Topic::Gangs, what, share(row.part, all)));
    }
    for ((vm, vcpu, trap), cause) in worst(gangs).into_iter().take(CAUSES) {
        let exits =
            format!("exits of vCPU {} for {}", vcpu.0, ExitCode::new(CodeList::PpcTrap, u64::from(trap)).name());
        let (what, figure) = match loss.is_timed {
            true => (format!("time that other threads lost to {exits}"), CitedValue::Time(Nanos(cause.lost))),
            false => (format!("forced exits in core runs with {exits}"), CitedValue::Count(cause.forced)),
        };
        facts.push(judgement.cite(Some(vm), Topic::Gangs, what, figure));
    }
    facts
}
