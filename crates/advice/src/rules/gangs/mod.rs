//! The rule about ganged exits: on POWER7 and POWER8 an exit of one thread takes its siblings along.

mod wording;

use super::not_judged::{Gap, Lacks};
use crate::cause::{Covered, CureLookup, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, Vmm, total};
use crate::evidence::trials::{GainEstimateNs, Trials, WIDTHS};
use crate::judgement::{
    AdviceId, CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use exitscope_analysis::GangStats;
use exitscope_analysis::record_commands::Missed;
use exitscope_model::CodeList;
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Nanos, VmId};

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

/// How many virtual cores of so many threads there would be, and how many cores they keep busy at most.
fn wanted(input: &AdviceInput, threads: u32) -> (u64, f64) {
    let vcores = input.facts.gangs.vcores(None);
    let count = total(vcores.iter().map(|vcore| (vcore.vcpus.len() as u64).div_ceil(u64::from(threads))));
    let time = total(input.vms.values().map(VmTime::wanted));
    (count, input.busy(None, time).min(count as f64))
}

pub(crate) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let gangs = &input.facts.gangs;
    let wall = total(input.vms.values().map(|time| time.wall));
    let lost = total(gangs.vms().values().map(GangStats::cost));
    let width = gangs.vcores(None).iter().map(|vcore| vcore.vcpus.len()).max().unwrap_or(0);
    if wall == 0 || lost == 0 || width < 2 {
        return;
    }
    let said = match decide(input, trials, host, wall, lost, width) {
        Cores::Little => RuleAnswer::NotJudged(wording::LITTLE.into()),
        Cores::Untried => RuleAnswer::NotJudged(wording::UNTRIED.into()),
        Cores::NoneWins => RuleAnswer::Inherent(wording::NONE_WINS.into()),
        Cores::TooFew { threads } => {
            let (count, busy) = wanted(input, threads);
            let why = wording::too_few(threads, count, busy, host.cpus);
            let facts = note(input, judgement);
            judgement.accept_cost(facts[0], &facts[1..], why.clone());
            RuleAnswer::Inherent(why)
        }
        Cores::Narrower { threads, won } => {
            RuleAnswer::Advice(advise(input, host, (threads, width), won, lost, judgement))
        }
    };
    say(input, &said, judgement);
}

/// What is to be said of virtual cores whose threads are forced out.
enum Cores {
    /// It takes little.
    Little,
    /// There is nothing to try others on.
    Untried,
    /// No narrower ones win beyond doubt.
    NoneWins,
    /// Those of so many threads would win, but there are not enough cores for them.
    TooFew { threads: u32 },
    /// Those of so many threads win this.
    Narrower { threads: u32, won: GainEstimateNs },
}

fn decide(input: &AdviceInput, trials: &Trials, host: &RecordedHost, wall: u64, lost: u64, width: usize) -> Cores {
    if lost.saturating_mul(MIN_COST_SHARE) < wall {
        return Cores::Little;
    }
    let narrower = WIDTHS.iter().enumerate().filter(|(_, threads)| (**threads as usize) < width);
    let won = narrower.map(|(at, threads)| (*threads, trials.gang.won(at)));
    let wins: Vec<(u32, GainEstimateNs)> = won.filter(|row| row.1.0 * MIN_COST_SHARE as f64 >= wall as f64).collect();
    // Threads of other cores than the first are offline (`kvmppc_run_core`): CPUs of the host are cores.
    let fits =
        |(threads, _): &(u32, GainEstimateNs)| host.cpus == 0 || wanted(input, *threads).1 <= f64::from(host.cpus);
    let fitting: Vec<(u32, GainEstimateNs)> = wins.iter().copied().filter(fits).collect();
    let most = fitting.iter().map(|(_, range)| range.1).fold(0.0, f64::max);
    let nearly = |range: &GainEstimateNs| range.1 >= most * GOOD_ENOUGH_SHARE;
    match (fitting.into_iter().rev().find(|(_, range)| nearly(range)), wins.last()) {
        (Some((threads, won)), _) => Cores::Narrower { threads, won },
        _ if trials.untried.core_runs => Cores::Untried,
        (None, None) => Cores::NoneWins,
        (None, Some((threads, _))) => Cores::TooFew { threads: *threads },
    }
}

fn advise(
    input: &AdviceInput,
    host: &RecordedHost,
    (threads, width): (u32, usize),
    (low, mean, high): GainEstimateNs,
    lost: u64,
    judgement: &mut Judgement,
) -> AdviceId {
    let mut facts = note(input, judgement);
    let busy = CitedValue::Cpus(wanted(input, threads).1);
    facts.push(judgement.cite(None, Topic::Gangs, wording::cores_wanted(threads), busy));
    if host.cpus > 0 {
        let cores = CitedValue::Count(u64::from(host.cpus));
        facts.push(judgement.cite(None, Topic::Gangs, "cores of the host", cores));
    }
    let vms = input.facts.gangs.vms();
    let mostly = vms.iter().find(|(_, cell)| cell.cost() as f64 >= lost as f64 * GOOD_ENOUGH_SHARE);
    let vm = mostly.map(|(vm, _)| *vm);
    let most_lost = mostly.map_or(lost, |(_, cell)| cell.cost()) as f64;
    let time = |nanos: f64| input.per_second(vm, nanos.max(0.0) as u64);
    let gain = Gain {
        of: GainOf::ForcedOut,
        headline: time(mean.min(most_lost)),
        // Nobody knows whether there are as many cores.
        low: if host.cpus == 0 { Nanos::ZERO } else { time(low.min(most_lost)) },
        // What was lost bounds it, whatever its parts differ by.
        high: time(high.min(most_lost)),
        may_wait: false,
        how: GainMethod::Replayed("vcore"),
    };
    let vmm = vm.map_or(Vmm::Unknown, |vm| input.vmm(vm, host));
    let words = wording::narrower(threads, width, &vmm);
    judgement.advise(facts[0], &facts[1..], words.of(VIRTUAL_CORES, vm, gain))
}

fn note(input: &AdviceInput, judgement: &mut Judgement) -> Vec<CitedFactId> {
    let gangs = &input.facts.gangs;
    let mut facts = Vec::new();
    for (vm, cell) in gangs.vms() {
        if cell.forced == 0 {
            continue;
        }
        facts.push(judgement.cite(
            Some(vm),
            Topic::Gangs,
            "part of its core runs that were ganged",
            share(cell.ganged, cell.runs),
        ));
        facts.push(judgement.cite(
            Some(vm),
            Topic::Gangs,
            "of its threads that had not ceded, part of the exits that another thread forced",
            share(cell.forced, cell.exits),
        ));
        facts.push(judgement.cite(
            Some(vm),
            Topic::Gangs,
            "time lost from being forced out to the next entry, of its vCPUs' time",
            share(cell.lost.sum, input.vms.get(&vm).map_or(0, |time| time.wall)),
        ));
        if cell.others > 0 {
            let what = "part of that time in which another virtual core had the CPU";
            facts.push(judgement.cite(Some(vm), Topic::Gangs, what, share(cell.others, cell.lost.sum)));
        }
    }
    let mut causes = gangs.causes();
    causes.retain(|(_, cause)| cause.lost > 0);
    causes.sort_by_key(|(_, cause)| std::cmp::Reverse(cause.lost));
    for ((vm, vcpu, trap), cause) in causes.into_iter().take(CAUSES) {
        let reason = exitscope_model::ExitCode::new(exitscope_model::CodeList::PpcTrap, u64::from(trap)).name();
        let what = format!("time that others lost to exits of vCPU {} for {reason}", vcpu.0);
        facts.push(judgement.cite(Some(vm), Topic::Gangs, what, CitedValue::Time(Nanos(cause.lost))));
    }
    facts
}
