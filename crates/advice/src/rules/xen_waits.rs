//! What Xen's vCPUs wait for when they wait for a CPU, and what is to be done about each.

use crate::evidence::input::AdviceInput;
use crate::judgement::share;
use crate::judgement::{CitedFactId, Judgement, Topic};
use crate::rules::idle_states::SHALLOW_COSTS_POWER;
use crate::setting::AdviceSetting;
use exitscope_analysis::CpuHolders;
use exitscope_model::YieldCall;
use exitscope_units::VmId;

/// What had the CPU meanwhile for one part in so many of the waiting is spoken of.
const NOTEWORTHY: u64 = 10;

/// One that may have had the CPU.
struct Had {
    time: fn(&CpuHolders) -> u64,
    /// The fact.
    what: &'static str,
    /// What to do if it is most of the waiting.
    title: &'static str,
    change: &'static str,
    settings: &'static [&'static str],
    risk: &'static str,
    payer: &'static str,
    undo: &'static str,
    acts: &'static str,
}

const HAD_THEM: &str = "whoever has the CPUs now";

/// `xenpm` of `tools/misc/xenpm.c`; `max_cstate`, `dom0_max_vcpus` and `dom0_vcpus_pin` of
/// `docs/misc/xen-command-line.pandoc`.
const HAD: [Had; 5] = [
    Had {
        time: |of| of.idle - of.idle_long,
        what: "share of that waiting during which nobody had the CPU: it was idle, for up to 1 ms each time",
        title: "Let idle CPUs wake up sooner",
        change: "have idle CPUs wake up sooner: while these vCPUs waited, their CPU was mostly idle",
        settings: &[
            "`xenpm get-cpuidle-states` shows which idle states CPUs are in, and `xenpm set-max-cstate 1` ends the deep ones; \
                where Xen itself runs in a VM, its host wakes the CPU, and nothing in Xen changes that",
        ],
        risk: SHALLOW_COSTS_POWER,
        payer: "nobody; it costs power",
        undo: "`xenpm set-max-cstate unlimited`",
        acts: "at once",
    },
    Had {
        time: |of| of.own,
        what: "share of that waiting during which another vCPU of the same VM had the CPU",
        title: "Give these VMs more CPUs, or fewer vCPUs",
        change: "give these VMs more CPUs to run on, or fewer vCPUs: while their vCPUs waited, mostly another one of the same VM \
            had the CPU",
        settings: &["`xl vcpu-list` shows on which CPUs vCPUs may run, `xl vcpu-pin` gives them others"],
        risk: "other VMs have fewer CPUs left",
        payer: HAD_THEM,
        undo: "restore the affinities, or the number of vCPUs",
        acts: "affinities at once, fewer vCPUs at the next VM start",
    },
    Had {
        time: |of| of.domain_0,
        what: "share of that waiting during which domain 0 had the CPU",
        title: "Give domain 0 CPUs of its own",
        change: "give domain 0 CPUs of its own: while these vCPUs waited, it mostly had theirs",
        // `sched_init_vcpu` of xen/common/sched/core.c pins domain 0 alone.
        settings: &[
            "dom0_max_vcpus=N and dom0_vcpus_pin on Xen's command line, or `xl vcpu-pin Domain-0 …` now",
            "keep the guests off these CPUs, as cpus=\"all,^0-3\" in each domain's xl.cfg, or `xl vcpu-pin DOMAIN all all,^0-3` now",
        ],
        risk: "guests have fewer CPUs left",
        payer: HAD_THEM,
        undo: "restore the affinities, or Xen's command line",
        acts: "affinities at once, Xen's command line after a restart of the host",
    },
    Had {
        time: |of| of.others,
        what: "share of that waiting during which vCPUs of other VMs had the CPU",
        title: "Look at weights, caps and affinities",
        change: "look at weights, caps and affinities: while these vCPUs waited, other VMs mostly had their CPUs",
        settings: &["`xl vcpu-list` shows affinities, `xl sched-credit2` (or `xl sched-credit`) weights and caps"],
        risk: "other VMs get less CPU time",
        payer: HAD_THEM,
        undo: "restore affinities and weights",
        acts: "at once",
    },
    Had {
        time: |of| of.idle_long,
        what: "share of that waiting during which nobody had the CPU: it was idle, for more than 1 ms each time",
        title: "Find out why Xen left CPUs idle",
        change: "find out why Xen left CPUs idle: while these vCPUs waited, their CPU was idle for longer than any idle state takes to \
            leave",
        settings: &[
            "where Xen itself runs in a VM: see whether that VM's vCPUs wait for a CPU on the host below; on hardware: see whether \
                firmware takes the CPUs (SMIs)",
        ],
        risk: "none is known",
        payer: "nobody",
        undo: "nothing is changed",
        acts: "once it is found",
    },
];

/// What is to be done about waiting.
pub(crate) struct WaitCure {
    /// The change in short; none where `change` is none.
    pub title: Option<&'static str>,
    /// What to change; none where nothing had the CPU for most of it.
    pub change: Option<String>,
    pub settings: Vec<AdviceSetting>,
    pub risk: &'static str,
    pub payer: &'static str,
    pub undo: &'static str,
    pub acts: &'static str,
}

/// Notes who had the CPUs, and says what to do.
pub(crate) fn cure(
    input: &AdviceInput,
    vms: &[VmId],
    judgement: &mut Judgement,
    facts: &mut Vec<CitedFactId>,
) -> WaitCure {
    let mut holders = CpuHolders::default();
    let waits = input.facts.run_states.times().filter(|(who, _)| vms.contains(&who.vm));
    waits.for_each(|(_, times)| holders.merge(&times.holders));
    let whole = holders.total().max(1);
    let noteworthy = |had: &&Had| (had.time)(&holders).saturating_mul(NOTEWORTHY) >= whole;
    for had in HAD.iter().filter(noteworthy) {
        facts.push(judgement.cite(None, Topic::Timeline, had.what, share((had.time)(&holders), whole)));
    }
    let yields = input.facts.yields.vcpus.iter();
    let yields = yields.filter(|((who, call), _)| vms.contains(&who.vm) && *call == YieldCall::SchedOp);
    let gave_away = yields.fold(0_u64, |sum, (_, stats)| sum.saturating_add(stats.waited));
    if gave_away.saturating_mul(NOTEWORTHY) >= whole {
        let what = "share of that waiting after the vCPU itself gave its CPU away (SCHEDOP_yield)";
        facts.push(judgement.cite(None, Topic::Yields, what, share(gave_away.min(whole), whole)));
    }
    let most = HAD.iter().find(|had| (had.time)(&holders).saturating_mul(2) > whole);
    let mut settings: Vec<&str> = HAD.iter().filter(noteworthy).flat_map(|had| had.settings).copied().collect();
    if settings.is_empty() {
        settings.extend(HAD[3].settings);
    }
    let row = most.unwrap_or(&HAD[3]);
    WaitCure {
        title: most.map(|had| had.title),
        change: most.map(|had| match gave_away.saturating_mul(2) > whole {
            true => format!("{}; most of that waiting is after a SCHEDOP_yield of their own", had.change),
            false => had.change.to_string(),
        }),
        settings: settings.into_iter().map(|text| AdviceSetting::ByHand(text.into())).collect(),
        risk: row.risk,
        payer: row.payer,
        undo: row.undo,
        acts: row.acts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_analysis::Selection;
    use exitscope_model::{Event, EventKind, RunState};
    use exitscope_units::{Moment, PcpuId, VcpuId};

    const IDLE: VmId = VmId::IDLE_DOMAIN;

    /// VM 6's vCPU waits for as long as each of these domains has its CPU, one after the other; or nobody says who has.
    fn judged(had: &[(VmId, u64)]) -> (Vec<(&'static str, u64)>, WaitCure) {
        let mut input = AdviceInput::new(&Selection::default());
        let window = (Moment::from_nanos(0), Moment::from_nanos(u64::MAX));
        let mut change = |at: u64, vm, vcpu, from, to| {
            let event = Event::nameless(Moment::from_nanos(at), PcpuId(3), EventKind::RunState { from, to });
            input.facts.run_states.absorb(&Event { vm, vcpu: VcpuId(vcpu), ..event }, window);
        };
        change(0, VmId(6), 0, RunState::Blocked, RunState::Runnable);
        let mut now = 0;
        for (vm, length) in had {
            if *vm != VmId::UNKNOWN {
                change(now, *vm, 1, RunState::Runnable, RunState::Running);
            }
            now += length;
        }
        change(now, VmId(6), 0, RunState::Runnable, RunState::Running);
        input.facts.run_states.end();
        let (mut judgement, mut facts) = (Judgement::default(), Vec::new());
        let cure = cure(&input, &[VmId(6)], &mut judgement, &mut facts);
        let figure = |fact: &crate::judgement::CitedFact| match fact.figure {
            crate::judgement::CitedValue::Share(share) => (share * 100.0).round() as u64,
            other => panic!("{other:?}"),
        };
        let said = judgement.facts().iter().map(|fact| {
            let row = HAD.iter().find(|had| had.what == fact.what).expect("a row of the table");
            (row.what, figure(fact))
        });
        (said.collect(), cure)
    }

    #[test]
    fn who_had_the_cpu_for_most_of_the_waiting_chooses_the_cure() {
        let domain_0 = VmId::DOMAIN_0;
        for (what, had, rows, change) in [
            ("idle", &[(IDLE, 60), (VmId(7), 40)][..], &[(0, 60), (3, 40)][..], Some(0)),
            ("its own", &[(VmId(6), 92), (IDLE, 8)], &[(1, 92)], Some(1)),
            ("domain 0", &[(domain_0, 90), (IDLE, 10)], &[(0, 10), (2, 90)], Some(2)),
            ("others", &[(VmId(7), 70), (VmId(8), 30)], &[(3, 100)], Some(3)),
            ("half and half", &[(VmId(6), 50), (domain_0, 50)], &[(1, 50), (2, 50)], None),
            ("idle for long", &[(IDLE, 2_000_000), (VmId(7), 100_000)], &[(4, 95)], Some(4)),
            ("nobody knows", &[(VmId::UNKNOWN, 60), (IDLE, 40)], &[(0, 40)], None),
            ("nothing is known", &[(VmId::UNKNOWN, 100)], &[], None),
        ] {
            let (facts, cure) = judged(had);
            let rows: Vec<(&str, u64)> = rows.iter().map(|&(at, share)| (HAD[at as usize].what, share)).collect();
            assert_eq!(facts, rows, "{what}");
            assert_eq!(cure.change.as_deref(), change.map(|at: usize| HAD[at].change), "{what}");
            // Domain 0 is spoken of where it had the CPU.
            let speaks = format!("{:?}", cure.settings).contains("dom0_max_vcpus");
            assert_eq!(speaks, rows.iter().any(|row| row.0 == HAD[2].what), "{what}");
            assert!(!cure.settings.is_empty(), "{what}");
        }
    }
}
