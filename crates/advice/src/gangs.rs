//! The rule about ganged exits: on POWER7 and POWER8 an exit of one thread takes its siblings along.

use super::cause::{CauseSubject, Covered, CureLookup, RuleAnswer};
use super::input::{AdviceInput, RecordedHost, VmTime, Vmm, total};
use super::judgement::MIN_COST_SHARE;
use super::judgement::{AdviceDraft, CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, Rule, Topic};
use super::setting::AdviceSetting;
use super::vmm_settings::for_vmm;

use super::judgement::share;
use super::trials::{GainEstimateNs, Trials, WIDTHS};
use exitscope_analysis::GangStats;
use exitscope_model::CodeList;
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Nanos, VmId};

/// The exits by which a thread is told to leave.
pub(super) const DOORBELLS: &str = "forced out (doorbells)";

/// Of what the narrowest virtual cores win, wider ones must win so much to be preferred: they need fewer cores. And who
/// has lost so much of all that was lost is whom it is about.
const GOOD_ENOUGH_SHARE: f64 = 0.9;

/// Why nothing is said of little.
const LITTLE: &str =
    "less than a hundredth of the vCPUs' time is lost to other threads' exits: no rule looks at so little";

/// Causes that are named.
const CAUSES: usize = 3;

/// Whether the doorbells of a VM whose threads lost so much by being forced out, but for steal, are hardly anything else.
fn are_doorbells(input: &AdviceInput, vm: VmId, lost: u64) -> bool {
    are_forced(input.of_reasons(vm, &[(CodeList::PpcTrap, u64::from(H_DOORBELL))]).cost().0, lost)
}

/// The same of the cost of doorbells.
pub(super) fn are_forced(doorbells: u64, lost: u64) -> bool {
    lost > 0 && lost as f64 >= doorbells as f64 * GOOD_ENOUGH_SHARE
}

/// Whether what is said of a VM's doorbells is what is said of being forced out.
pub(super) fn judges_doorbells(input: &AdviceInput, vm: VmId) -> bool {
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

pub(super) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let gangs = &input.facts.gangs;
    let wall = total(input.vms.values().map(|time| time.wall));
    let lost = total(gangs.vms().values().map(GangStats::cost));
    let width = gangs.vcores(None).iter().map(|vcore| vcore.vcpus.len()).max().unwrap_or(0);
    if wall == 0 || lost == 0 || width < 2 {
        return;
    }
    if lost.saturating_mul(MIN_COST_SHARE) < wall {
        return say(input, &RuleAnswer::NotJudged(LITTLE.into()), judgement);
    }
    let won: Vec<(u32, GainEstimateNs)> = WIDTHS
        .iter()
        .enumerate()
        .filter(|(_, threads)| (**threads as usize) < width)
        .map(|(at, threads)| (*threads, trials.gang.won(at)))
        .collect();
    // Threads of other cores than the first are offline (`kvmppc_run_core`): CPUs of the host are cores.
    let cores = (host.cpus > 0).then_some(f64::from(host.cpus));
    let fits = |(threads, _): &(u32, GainEstimateNs)| cores.is_none_or(|cores| wanted(input, *threads).1 <= cores);
    let wins: Vec<(u32, GainEstimateNs)> =
        won.iter().copied().filter(|row| row.1.0 * MIN_COST_SHARE as f64 >= wall as f64).collect();
    let fitting: Vec<(u32, GainEstimateNs)> = wins.iter().copied().filter(fits).collect();
    let most = fitting.iter().map(|(_, range)| range.1).fold(0.0, f64::max);
    let nearly = |range: &GainEstimateNs| range.1 >= most * GOOD_ENOUGH_SHARE;
    let Some((threads, (low, _, high))) = fitting.into_iter().rev().find(|(_, range)| nearly(range)) else {
        let why = match (trials.untried.core_runs, wins.last()) {
            (true, _) => RuleAnswer::NotJudged("no core runs are kept to try narrower virtual cores on".into()),
            (false, None) => {
                RuleAnswer::Inherent("narrower virtual cores, replayed, would not have won beyond doubt".into())
            }
            (false, Some((threads, _))) => {
                let (count, busy) = wanted(input, *threads);
                let why = format!(
                    "virtual cores of {threads} threads would lose less to other threads' exits, but there would be {count} of them, \
                     which would run on or wait for {busy:.1} cores at most, and the host has {}: they would wait for one another instead, as a core runs \
                     one at a time, and threads of a core that is split leave together, too. Fewer exits of the threads that \
                     force others out, which the facts name, would win it, too",
                    host.cpus
                );
                let facts = note(input, judgement);
                judgement.accept_cost(facts[0], &facts[1..], why.clone());
                RuleAnswer::Inherent(why)
            }
        };
        return say(input, &why, judgement);
    };
    let mut facts = note(input, judgement);
    let what = match threads {
        1 => "cores that virtual cores of one thread would run on or wait for, at most".to_string(),
        _ => format!("cores that virtual cores of {threads} threads would run on or wait for, at most"),
    };
    facts.push(judgement.cite(None, Topic::Gangs, what, CitedValue::Cpus(wanted(input, threads).1)));
    if let Some(cores) = cores {
        facts.push(judgement.cite(None, Topic::Gangs, "cores of the host", CitedValue::Count(cores as u64)));
    }
    let subcores = match threads {
        1 => "",
        _ => "; subcores_per_core makes cores of that width",
    };
    let vms = gangs.vms();
    let mostly = vms.iter().find(|(_, cell)| cell.cost() as f64 >= lost as f64 * GOOD_ENOUGH_SHARE);
    let vm = mostly.map(|(vm, _)| *vm);
    let most_lost = mostly.map_or(lost, |(_, cell)| cell.cost()) as f64;
    let time = |nanos: f64| input.per_second(vm, nanos.max(0.0) as u64);
    let vmm = mostly.map_or(Vmm::Unknown, |(vm, _)| input.vmm(*vm, host));
    let plan = AdviceDraft {
        rule: Rule::VirtualCores,
        subject: CauseSubject::None,
        vm,
        change: format!(
            "make virtual cores narrower: {} of {width}{subcores}",
            match threads {
                1 => "one thread each, so that no exit takes another vCPU along, instead".to_string(),
                _ => format!("{threads} threads each instead"),
            }
        ),
        settings: for_vmm(
            &vmm,
            vec![
            AdviceSetting::Qemu(format!("-smp …,threads={threads}").into()),
            AdviceSetting::Libvirt {
                within: "cpu",
                xml: format!("<topology sockets='1' cores='…' threads='{threads}'/>").into(),
            },
            AdviceSetting::ByHand(
                "or keep them and move the work that leaves often (the causes among the facts) to vCPUs of another \
                    virtual core"
                    .into(),
            ),
        ],
        ),
        gain: Gain {
            of: GainOf::ForcedOut,
            // Nobody knows whether there are as many cores.
            low: cores.map_or(Nanos::ZERO, |_| time(low.min(most_lost))),
            // What was lost bounds it, whatever its parts differ by.
            high: time(high.min(most_lost)),
            how: GainMethod::Replayed("vcore"),
        },
        risk: "threads of one core then belong to several virtual cores, which take turns unless dynamic_mt_modes or \
            subcores let them run at a time"
            .into(),
        payer: "the host's cores: as many vCPUs need more virtual cores, and a core runs one (or, split, up to four) \
            at a time"
            .into(),
        undo: "give the VM its old topology and restart it".into(),
        acts: "at the next VM start".into(),
    };
    let id = judgement.advise(facts[0], &facts[1..], plan);
    say(input, &RuleAnswer::Advice(id), judgement);
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
