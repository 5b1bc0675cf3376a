//! The rule about ganged exits: on POWER7 and POWER8 an exit of one thread takes its siblings along.

use super::causes::{Covered, Said, Subject};
use super::judgement::{FactId, Figure, Gain, GainOf, How, Judgement, Plan, Rule, Setting, Topic};
use super::material::{Machine, Material, Vmm, total};
use super::sources::{WORTH, for_vmm};
use super::trials::{Range, Trials, WIDTHS};
use exitscope_units::Nanos;

/// Of what the narrowest virtual cores win, wider ones must win so much to be preferred: they need fewer cores. And who
/// has lost so much of all that was lost is whom it is about.
const NEARLY: f64 = 0.9;

/// Causes that are named.
const CAUSES: usize = 3;

pub(super) fn judge(material: &Material, trials: &Trials, machine: &Machine, judgement: &mut Judgement) {
    let gangs = &material.facts.gangs;
    let wall = total(material.vms.values().map(|time| time.wall));
    let lost = total(gangs.vms().values().map(|cell| cell.lost.sum));
    let width = gangs.vcores(None).iter().map(|vcore| vcore.vcpus.len()).max().unwrap_or(0);
    if wall == 0 || lost.saturating_mul(WORTH) < wall || width < 2 {
        return;
    }
    let won: Vec<(u32, Range)> = WIDTHS
        .iter()
        .enumerate()
        .filter(|(_, threads)| (**threads as usize) < width)
        .map(|(at, threads)| (*threads, trials.gang.won(at)))
        .collect();
    let most = won.iter().map(|(_, range)| range.1).fold(0.0, f64::max);
    let worth = |range: &Range| range.0 * WORTH as f64 >= wall as f64 && range.1 >= most * NEARLY;
    let Some((threads, (low, _, high))) = won.into_iter().rev().find(|(_, range)| worth(range)) else {
        let why = match trials.untried.core_runs {
            true => Said::NotJudged("no core runs are kept to try narrower virtual cores on".into()),
            false => Said::Inherent("narrower virtual cores, replayed, would not have won beyond doubt".into()),
        };
        return judgement.say(None, Covered::ForcedOut, why);
    };
    let facts = note(material, judgement);
    let subcores = match threads {
        1 => "",
        _ => "; subcores_per_core makes cores of that width",
    };
    let vms = gangs.vms();
    let mostly = vms.iter().find(|(_, cell)| cell.lost.sum as f64 >= lost as f64 * NEARLY);
    let vm = mostly.map(|(vm, _)| *vm);
    let most_lost = mostly.map_or(lost, |(_, cell)| cell.lost.sum) as f64;
    let time = |nanos: f64| material.per_second(vm, nanos.max(0.0) as u64);
    let vmm = mostly.map_or(Vmm::Unknown, |(vm, _)| material.vmm(*vm, machine));
    let plan = Plan {
        rule: Rule::VirtualCores,
        subject: Subject::None,
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
            Setting::Qemu(format!("-smp …,threads={threads}").into()),
            Setting::Libvirt {
                within: "cpu",
                xml: format!("<topology sockets='1' cores='…' threads='{threads}'/>").into(),
            },
            Setting::ByHand(
                "or keep them and move the work that leaves often (the causes among the facts) to vCPUs of another \
                    virtual core"
                    .into(),
            ),
        ],
        ),
        gain: Gain {
            of: GainOf::ForcedOut,
            low: time(low.min(most_lost)),
            // What was lost bounds it, whatever its parts differ by.
            high: time(high.min(most_lost)),
            how: How::Replayed("vcore"),
        },
        risk: "threads of one core then belong to several virtual cores, which take turns unless dynamic_mt_modes or \
            subcores let them run at a time"
            .into(),
        payer: "the host's cores: as many vCPUs need more virtual cores, and a core runs one (or, split, up to four) \
            at a time"
            .into(),
        undo: "give the VM its old topology and restart it".into(),
        acts: "when the VM is started anew".into(),
    };
    let id = judgement.advise(facts[0], &facts[1..], plan);
    judgement.say(None, Covered::ForcedOut, Said::Advice(id));
}

fn note(material: &Material, judgement: &mut Judgement) -> Vec<FactId> {
    let gangs = &material.facts.gangs;
    let mut facts = Vec::new();
    for (vm, cell) in gangs.vms() {
        if cell.forced == 0 {
            continue;
        }
        let share = |part: u64, whole: u64| Figure::Share(part as f64 / whole.max(1) as f64);
        facts.push(judgement.note(
            Some(vm),
            Topic::Gangs,
            "part of its core runs that were ganged",
            share(cell.ganged, cell.runs),
        ));
        facts.push(judgement.note(
            Some(vm),
            Topic::Gangs,
            "part of its threads' exits that another thread forced",
            share(cell.forced, cell.exits),
        ));
        facts.push(judgement.note(
            Some(vm),
            Topic::Gangs,
            "time lost from being forced out to the next entry, of its vCPUs' time",
            share(cell.lost.sum, material.vms.get(&vm).map_or(0, |time| time.wall)),
        ));
    }
    let mut causes = gangs.causes();
    causes.retain(|(_, cause)| cause.lost > 0);
    causes.sort_by_key(|(_, cause)| std::cmp::Reverse(cause.lost));
    for ((vm, vcpu, trap), cause) in causes.into_iter().take(CAUSES) {
        let reason = exitscope_model::ExitCode::new(exitscope_model::CodeList::PpcTrap, u64::from(trap)).name();
        let what = format!("time that others lost to exits of vCPU {} for {reason}", vcpu.0);
        facts.push(judgement.note(Some(vm), Topic::Gangs, what, Figure::Time(Nanos(cause.lost))));
    }
    facts
}
