//! Rules about CPUs that vCPUs wait for, overcommit and steal; and Xen's long way of a port access.

use super::cause::{CauseSubject, Covered, RuleAnswer};
use super::input::{AdviceInput, RecordedHost, Taken, VmTime, total};
use super::judgement::{
    AdviceDraft, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use super::setting::AdviceSetting;
use super::vmm_settings::for_vmm;
use super::xen_waits;
use exitscope_model::version;
use exitscope_model::{SubjectKind, TimePart};
use exitscope_units::{Nanos, VcpuId, VmId};
use std::collections::BTreeMap;

/// Waiting of one part in so many of the time that vCPUs want is felt; below, it is how a scheduler works. The rule of
/// thumb of monitoring is the same: steal of 10 %.
const FELT: u64 = 10;

/// VMs that are named as waiting, those that wait most.
const NAMED: usize = 8;

/// Of those who took vCPUs' CPUs, so many are named.
const INTRUDERS: usize = 3;

/// vCPUs that are pinned at most.
const PINS: u64 = 512;

pub(super) const WAITED: &str = "steal, of the time in which its vCPUs could run";

/// Xen 3.3 to 4.0 emulate every port access as if it were string I/O; changeset 147808b8b8 of 2010 ended that.
const LONG_WAY: std::ops::RangeInclusive<(u32, u32)> = (3, 3)..=(4, 0);

/// Of a port read of 16,112 cycles, the short way saves 2,816 (xen-devel, 2008: 13,296 are left).
const SHORT_WAY: (u64, u64) = (2_816, 16_112);

pub(super) fn judge(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let kinds = input.facts.event_kinds;
    let steal = total(input.vms.values().map(|time| time.steal));
    if kinds.by_runner && (!kinds.switches || input.facts.took_turns(Nanos(steal))) {
        turns(input, host, judgement);
    } else if kinds.switches {
        waiting(input, host, judgement);
    }
    for (&vm, time) in &input.vms {
        if host.xen {
            long_way(input, host, vm, time, judgement);
        }
    }
}

fn is_felt(time: &VmTime) -> bool {
    time.steal.saturating_mul(FELT) >= time.wanted().max(1) && time.steal.saturating_mul(MIN_COST_SHARE) >= time.wall
}

/// Of a VM's vCPUs the one that waits for the largest part of the time that it wants a CPU, if that is a tenth.
fn worst_vcpu(input: &AdviceInput, vm: VmId) -> Option<(VcpuId, f64)> {
    let of_vm = input.facts.divisions.iter().filter(|(who, _)| who.vm == vm);
    let time_wanted = input.facts.time_wanted();
    let waits = of_vm.filter_map(|(who, of)| {
        let (steal, wanted) = (of.part(TimePart::Steal).0, time_wanted(of));
        let time = VmTime { guest: wanted - steal, steal, wall: of.span().0, ..VmTime::default() };
        is_felt(&time).then_some((who.vcpu, steal as f64 / wanted.max(1) as f64))
    });
    waits.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// vCPUs that wait for a CPU.
fn waiting(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let (felt, little): (Vec<_>, Vec<_>) =
        input.vms.iter().map(|(vm, time)| (*vm, *time)).partition(|(_, time)| is_felt(time));
    for (vm, _) in little {
        let worst = match worst_vcpu(input, vm) {
            Some((vcpu, share)) => format!(", on average (vCPU {} for {:.0} %)", vcpu.0, share * 100.0),
            None => String::new(),
        };
        let why = format!(
            "its vCPUs wait for less than a tenth of the time that they run or wait{worst}: no rule looks at so little"
        );
        judgement.say(Some(vm), Covered::Steal, RuleAnswer::NotJudged(why));
    }
    if felt.is_empty() {
        return;
    }
    let throttled: Vec<VmId> = felt.iter().map(|row| row.0).filter(|vm| !host.xen && input.is_throttled(*vm)).collect();
    let wanted = total(input.vms.values().map(VmTime::wanted));
    let waited = total(felt.iter().map(|(_, time)| time.steal));
    let have = input.facts.seen().0.saturating_mul(u64::from(host.cpus));
    let mut facts = Vec::new();
    let mut worst: Vec<&(VmId, VmTime)> = felt.iter().collect();
    worst.sort_by_key(|(vm, time)| (std::cmp::Reverse(time.steal), *vm));
    for (vm, time) in worst.into_iter().take(NAMED) {
        facts.push(judgement.cite(Some(*vm), Topic::Timeline, WAITED, share(time.steal, time.wanted())));
    }
    for vm in throttled.iter().take(NAMED) {
        let what = "times that a vCPU that could run was taken off its CPU, which was left idle";
        facts.push(judgement.cite(Some(*vm), Topic::Timeline, what, CitedValue::Count(input.times_left_idle(*vm))));
    }
    let from_preemptions = total(felt.iter().map(|(vm, _)| input.preempted_for(*vm))).min(waited);
    if from_preemptions > 0 {
        let what = "part of that steal which follows a wake-up, not a preemption";
        facts.push(judgement.cite(None, Topic::Timeline, what, share(waited - from_preemptions, waited)));
    }
    let intruders = intruders(input, host, &felt);
    for (name, taken) in &intruders {
        if taken.times > 0 {
            let what = format!("preemptions of these vCPUs by {name}");
            facts.push(judgement.cite(None, Topic::Timeline, what, CitedValue::Count(taken.times)));
        }
        if taken.yields > 0 {
            let what = format!("yields of these vCPUs after which {name} ran");
            facts.push(judgement.cite(None, Topic::Timeline, what, CitedValue::Count(taken.yields)));
        }
        if taken.waited > 0 {
            let what = format!("part of that steal which follows {name} taking the CPU");
            facts.push(judgement.cite(None, Topic::Timeline, what, share(taken.waited, waited)));
        }
    }
    if felt.len() > NAMED {
        facts.push(judgement.cite(
            None,
            Topic::Timeline,
            "VMs whose vCPUs wait noteworthily for CPUs",
            CitedValue::Count(felt.len() as u64),
        ));
    }
    let cpus = input.busy(None, wanted);
    facts.push(judgement.cite(
        None,
        Topic::Timeline,
        "CPUs that all recorded vCPUs ran on or waited for",
        CitedValue::Cpus(cpus),
    ));
    if host.cpus > 0 {
        facts.push(judgement.cite(None, Topic::Timeline, "CPUs of the host", CitedValue::Count(u64::from(host.cpus))));
    }
    let short = host.cpus > 0 && wanted > have;
    let vms: Vec<VmId> = felt.iter().map(|row| row.0).collect();
    let on_xen = (host.xen && !short).then(|| xen_waits::cure(input, &vms, judgement, &mut facts));
    // One is left for who serves them.
    let fits = |(vm, time): &(VmId, VmTime)| time.vcpus < u64::from(host.cpus) && !input.is_several(*vm);
    let pinned = felt.iter().map(|(_, time)| time.vcpus).max().filter(|_| felt.iter().all(fits));
    let change = match (short, on_xen.as_ref().and_then(|cure| cure.change.clone())) {
        _ if !throttled.is_empty() => {
            "look for a quota of CPU time: vCPUs want to run on, and their CPUs are left idle".into()
        }
        (true, _) => format!(
            "run fewer vCPUs on this host, or give it more CPUs: vCPUs run on or wait for {cpus:.1} CPUs, and there are {}",
            host.cpus
        ),
        (false, Some(change)) => change,
        (false, None) if host.cpus == 0 => {
            format!(
                "find what keeps vCPUs waiting: they run on or wait for {cpus:.2} CPUs, and how many there are the recording does not say"
            )
        }
        (false, None) => {
            let take = match &intruders[..] {
                [] => String::new(),
                _ if from_preemptions > 0 && from_preemptions.saturating_mul(2) < waited => {
                    ", mostly after wake-ups,".to_string()
                }
                [(name, _)] => format!(", preempted by {name},"),
                [(name, _), (next, _), ..] => format!(", preempted mostly by {name}, then {next},"),
            };
            let own = if pinned.is_some() { "give vCPUs CPUs of their own, or keep" } else { "keep" };
            format!(
                "{own} other tasks off the vCPUs' CPUs: they wait{take} although they run on or wait for {cpus:.2} of {} CPUs",
                host.cpus
            )
        }
    };
    let hand = |text: &'static str| AdviceSetting::ByHand(text.into());
    let settings = match (short, &on_xen) {
        // A quota is counted in periods of the cgroup's; where a vCPU runs does not matter to it.
        _ if !throttled.is_empty() => vec![
            hand(
                "cpu.max of the VM's cgroup (libvirt: <quota> in <cputune>), and nr_throttled in its cpu.stat: a larger quota, or \
                    fewer vCPUs; pinning does not help",
            ),
            hand("else an affinity or a cpuset that leaves vCPUs no CPU: `taskset -p`, cpuset.cpus"),
        ],
        (true, _) => vec![hand("fewer or smaller VMs here, or fewer vCPUs for those that have more than they use")],
        (false, Some(cure)) => cure.settings.clone(),
        (false, None) => vec![
            hand(
                "first the limits: cpu.max and cpuset.cpus of the VM's cgroup (libvirt: <cputune>), and its affinity (taskset \
                    -p); under a quota, which nr_throttled in cpu.stat shows, pinning does not help",
            ),
            hand(match is_own(input, &felt) {
                true => {
                    "mostly it was another vCPU of the same VM that took the CPU: fewer vCPUs, or more CPUs in its affinity and cpuset"
                }
                false if intruders.is_empty() => "neighbours: `perf sched timehist -w` says which task ran instead",
                false => {
                    "affinities and cpusets that keep such tasks off the vCPUs' CPUs; a kernel thread of one CPU (kworker/CPU:…) stays there"
                }
            }),
        ],
    };
    let may_pin = !short && !host.xen && throttled.is_empty();
    let vmm = input.vmm(felt[0].0, host);
    let settings = for_vmm(&vmm, settings.into_iter().chain(pinned.filter(|_| may_pin).map(pins)).collect());
    let short = short && throttled.is_empty();
    // Who yields and waits would spin, or sleep, on a CPU of its own.
    let after_yields = total(felt.iter().map(|(vm, _)| input.yields(*vm, |_| true).waited));
    let low = if short { wanted.saturating_sub(have).saturating_sub(after_yields).min(waited) } else { 0 };
    let gain = Gain {
        of: GainOf::Steal,
        low: input.per_second(None, low),
        high: input.per_second(None, waited),
        how: GainMethod::Counted(match short {
            true => "from what the host is short of, what follows yields left out, to all of the waiting",
            false => "from nothing, to all of the waiting",
        }),
    };
    let (risk, undo, acts) = match (short, &on_xen) {
        _ if !throttled.is_empty() => {
            ("a VM without a quota takes CPU time from its neighbours", "restore the quota", "at once")
        }
        (true, _) => (
            "fewer vCPUs are a lower peak",
            "move the VMs back, or give them their vCPUs back",
            "at once where VMs can be moved, else at the next VM start",
        ),
        (false, Some(cure)) => (cure.risk, cure.undo, cure.acts),
        (false, None) => ("pinned vCPUs cannot move to a CPU that is free", "restore affinities and limits", "at once"),
    };
    let plan = AdviceDraft {
        rule: Rule::Steal,
        subject: CauseSubject::None,
        vm: None,
        change,
        settings,
        gain,
        risk: risk.into(),
        payer: on_xen.map_or("whoever has the CPUs now", |cure| cure.payer).into(),
        undo: undo.into(),
        acts: acts.into(),
    };
    let id = judgement.advise(facts[0], &facts[1..], plan);
    for (vm, _) in felt {
        judgement.say(Some(vm), Covered::Steal, RuleAnswer::Advice(id));
    }
}

/// Virtual cores of powerpc that wait while another has the CPU; no event of the scheduler's says for whom else they wait.
fn turns(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let felt: Vec<_> = input.vms.iter().filter(|(_, time)| is_felt(time)).collect();
    let mut facts = Vec::new();
    for (vm, time) in felt.iter().take(NAMED) {
        let what = match input.facts.event_kinds.switches {
            true => WAITED,
            false => "time in which another virtual core had the CPU, of the time in which its vCPUs could run",
        };
        facts.push(judgement.cite(Some(**vm), Topic::Timeline, what, share(time.steal, time.wanted())));
    }
    let Some(first) = facts.first().copied() else { return };
    if host.cpus > 0 {
        facts.push(judgement.cite(None, Topic::Timeline, "CPUs of the host", CitedValue::Count(u64::from(host.cpus))));
    }
    let waited = total(felt.iter().map(|(_, time)| time.steal));
    let vm = if let [(vm, _)] = felt[..] { Some(*vm) } else { None };
    let apart = "other CPUs for some of their threads (taskset -p, cpuset.cpus), where these have time left";
    let fewer = if vm.is_some() { "fewer vCPUs for this VM, or more CPUs" } else { "fewer VMs here, or more CPUs" };
    let plan = AdviceDraft {
        rule: Rule::Steal,
        subject: CauseSubject::None,
        vm,
        change: "run fewer virtual cores on a CPU, or give them more CPUs: they take turns".into(),
        settings: [apart, fewer]
            .into_iter()
            .filter(|text| *text != apart || host.cpus != 1)
            .map(|text| AdviceSetting::ByHand(text.into()))
            .collect(),
        gain: Gain {
            of: GainOf::Steal,
            low: Nanos::ZERO,
            high: input.per_second(vm, waited),
            how: GainMethod::Counted("from nothing, to all of the waiting that is known"),
        },
        risk: "fewer vCPUs are a lower peak".into(),
        payer: "whoever has the CPUs now".into(),
        undo: "restore affinities, and give the VMs their vCPUs back".into(),
        acts: "affinities at once, fewer vCPUs at the next VM start".into(),
    };
    let id = judgement.advise(first, &facts[1..], plan);
    for (vm, _) in felt {
        judgement.say(Some(*vm), Covered::Steal, RuleAnswer::Advice(id));
    }
}

/// A CPU of its own for each of a VM's vCPUs. Which CPUs nobody else needs no recording says: that is to be filled in.
pub(super) fn pins(vcpus: u64) -> AdviceSetting {
    let pin = |vcpu| format!("<vcpupin vcpu='{vcpu}' cpuset='…'/>");
    let xml = (0..vcpus.clamp(1, PINS)).map(pin).collect::<Vec<String>>().join("\n");
    AdviceSetting::Libvirt { within: "cputune", xml: xml.into() }
}

/// Whether mostly vCPUs of the same VM took each other's CPUs.
fn is_own(input: &AdviceInput, felt: &[(VmId, VmTime)]) -> bool {
    let (mut own, mut all) = (0_u64, 0_u64);
    for (vm, _) in felt {
        for (tid, Taken { times, yields, .. }) in input.preempted_by(*vm) {
            all += times + yields;
            own += if input.vm_of(tid) == Some(*vm) && !input.is_several(*vm) { times + yields } else { 0 };
        }
    }
    own.saturating_mul(2) > all
}

/// Who took the CPUs of these VMs' vCPUs, by what they waited since then and how often, under the names of their threads.
fn intruders(input: &AdviceInput, host: &RecordedHost, felt: &[(VmId, VmTime)]) -> Vec<(String, Taken)> {
    let mut names: BTreeMap<String, Taken> = BTreeMap::new();
    let all = felt.iter().flat_map(|(vm, _)| input.preempted_by(*vm).map(move |(tid, taken)| (*vm, tid, taken)));
    for (vm, tid, taken) in all {
        let name = match input.vm_of(tid) {
            Some(of) if of == vm && input.is_several(vm) => "a vCPU of this VM or of another".to_string(),
            Some(of) if of == vm => "a vCPU of the same VM".to_string(),
            Some(VmId::UNKNOWN) => "a vCPU of a VM that the trace does not name".to_string(),
            Some(of) => format!("a vCPU of VM {}", of.0),
            None => host.comms.get(&tid.0).cloned().unwrap_or_else(|| format!("thread {}", tid.0)),
        };
        names.entry(name).or_default().merge(taken);
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(name, taken)| (std::cmp::Reverse((taken.waited, taken.times + taken.yields)), name.clone()));
    names.truncate(INTRUDERS);
    names
}

/// A Xen that takes the long way for every port access.
fn long_way(input: &AdviceInput, host: &RecordedHost, vm: VmId, time: &VmTime, judgement: &mut Judgement) {
    let reads = input.of_details(vm, |key| key.kind == SubjectKind::Port && !key.write);
    let saved = reads.cost().0 / SHORT_WAY.1 * SHORT_WAY.0;
    if !version(&host.release).is_some_and(|version| LONG_WAY.contains(&version))
        || saved.saturating_mul(MIN_COST_SHARE) < time.wall
    {
        return;
    }
    let facts = [
        judgement.cite(
            Some(vm),
            Topic::Devices,
            "port reads a second",
            CitedValue::Rate(input.rate(Some(vm), reads.count)),
        ),
        judgement.cite(Some(vm), Topic::Devices, "their time, of the vCPUs' time", share(reads.cost().0, time.wall)),
    ];
    let per_second = input.per_second(Some(vm), saved);
    let plan = AdviceDraft {
        rule: Rule::NewerXen,
        subject: CauseSubject::None,
        vm: Some(vm),
        change: format!(
            "use Xen 4.1 or later: {} emulates every port access, newer ones decode it from the exit",
            host.release
        ),
        settings: vec![AdviceSetting::ByHand(
            "Xen 4.1 or later on the host; or PV drivers, which need no ports".into(),
        )],
        gain: Gain {
            of: GainOf::Exits,
            low: per_second,
            high: per_second,
            how: GainMethod::Published("xen-devel, 2008: a port read of 16,112 cycles took 13,296 with the short way"),
        },
        risk: "that of an update".into(),
        payer: "nobody".into(),
        undo: "boot the old Xen".into(),
        acts: "after a restart of the host".into(),
    };
    judgement.advise(facts[0], &facts[1..], plan);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{end, exit, preemption, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{CodeList, EventKinds, Exit, ExitCode, TimePart};
    use exitscope_units::{Moment, Nanos, Tid};

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// Two vCPUs wait for a fifth of the time that they want a CPU, on a host of so many. `make` took it from them, or, of
    /// each tenth time, nobody.
    fn judged(cpus: u32, is_idle: bool) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { switches: true, ..EventKinds::default() });
        for (number, of) in (1..=2_000).flat_map(|number| [(number, 0), (number, 1)]) {
            let left = exit(vcpu(of), number * 500 * US, ExitCode::new(CodeList::Vmx, 1));
            let parts = spent(TimePart::Kernel, 2 * US).with(TimePart::Steal, Nanos(100 * US));
            input.absorb(&Exit { guest: Nanos(398 * US), parts, ..left });
            let by = Some(Tid(99)).filter(|_| !is_idle || number % 10 > 0);
            let (who, at) = (left.who, left.at);
            input.absorb_preemption(&preemption(who, at, by));
        }
        end(&mut input, &[vcpu(0), vcpu(1)], SECOND);
        let comms = [(99, "make".to_string())].into_iter().collect();
        let host = RecordedHost { arch: "x86_64".to_string(), cpus, comms, ..RecordedHost::default() };
        let mut judgement = Judgement::default();
        judge(&input, &host, &mut judgement);
        let misspelt = judgement.advice()[0].plan().settings.iter().flat_map(crate::setting_syntax::misspelt);
        assert_eq!(misspelt.collect::<Vec<_>>(), Vec::<String>::new());
        judgement
    }

    #[test]
    fn who_took_the_cpus_of_vcpus_that_wait_is_named() {
        let judgement = judged(4, false);
        assert!(judgement.facts().iter().any(|fact| fact.what.starts_with("preemptions of these vCPUs by make")));
        let change = &judgement.advice()[0].plan().change;
        assert!(
            change.ends_with("they wait, preempted by make, although they run on or wait for 2.00 of 4 CPUs"),
            "{change}"
        );
        let pins = AdviceSetting::Libvirt {
            within: "cputune",
            xml: "<vcpupin vcpu='0' cpuset='…'/>\n<vcpupin vcpu='1' cpuset='…'/>".into(),
        };
        assert!(judgement.advice()[0].plan().settings.contains(&pins));
    }

    #[test]
    fn nothing_is_said_to_fit_and_nobody_is_pinned_where_that_is_not_known_to_help() {
        for (what, cpus, is_idle, says, pinned) in [
            ("more CPUs than are wanted", 4, false, "although they run on or wait for 2.00 of 4 CPUs", true),
            ("fewer", 1, false, "run fewer vCPUs on this host", false),
            ("nobody knows how many", 0, false, "how many there are the recording does not say", false),
            // Linux, kernel/sched/fair.c, throttle_cfs_rq: a runnable task of a group without quota is off the queue.
            ("a quota", 4, true, "look for a quota of CPU time", false),
        ] {
            let judgement = judged(cpus, is_idle);
            let [advice] = judgement.advice() else { panic!("{what}: {judgement:#?}") };
            let plan = advice.plan();
            assert!(plan.change.contains(says), "{what}: {}", plan.change);
            assert!(!plan.change.contains("fit"), "{what}: {}", plan.change);
            let pins = |setting: &AdviceSetting| matches!(setting, AdviceSetting::Libvirt { within: "cputune", .. });
            assert_eq!(plan.settings.iter().any(pins), pinned, "{what}: {:?}", plan.settings);
            assert_eq!(format!("{:?}", plan.settings).contains("cpu.max"), cpus == 4 || cpus == 0, "{what}");
        }
    }

    #[test]
    fn waiting_is_felt_from_a_tenth_of_what_is_wanted_and_a_hundredth_of_all_time_on() {
        for (guest, cost, steal, wall, felt) in [
            (850, 50, 100, 10_000, true),
            (851, 50, 100, 10_000, false),
            (850, 51, 100, 10_000, false),
            (850, 50, 100, 10_001, false),
            (0, 0, 0, 0, false),
            (0, 0, 1, 100, true),
        ] {
            let time = VmTime { guest, cost, steal, wall, ..VmTime::default() };
            assert_eq!(is_felt(&time), felt, "{time:?}");
        }
    }

    /// VMs of so many vCPUs, time in the guest and steal, in a recording of 1,000 ns with the scheduler's events.
    fn waited(host: &RecordedHost, vms: &[(u64, u64, u64)], idle: u64) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.facts.event_kinds.switches = true;
        input.facts.duration = Nanos(1_000);
        for (&(vcpus, guest, steal), vm) in vms.iter().zip(1..) {
            input.vms.insert(VmId(vm), VmTime { vcpus, guest, steal, wall: 3_000, ..VmTime::default() });
        }
        for by in [Some(9), Some(9), Some(8), Some(7), Some(6), Some(5), Some(5), Some(5), Some(7), Some(7), Some(7)] {
            let (who, at) = (vcpu(0), Moment::default());
            let by = by.map(Tid);
            input.absorb_preemption(&preemption(who, at, by));
        }
        for _ in 0..idle {
            input.absorb_preemption(&preemption(vcpu(0), Moment::default(), None));
        }
        let mut judgement = Judgement::default();
        judge(&input, host, &mut judgement);
        judgement
    }

    fn host(cpus: u32, xen: bool) -> RecordedHost {
        let comms = [(9, "make"), (8, "make"), (5, "cc1")].map(|(tid, name)| (tid, name.to_string()));
        RecordedHost { cpus, xen, comms: comms.into_iter().collect(), ..RecordedHost::default() }
    }

    fn facts(judgement: &Judgement) -> Vec<String> {
        let vm = |vm: Option<VmId>| vm.map_or("host".to_string(), |vm| vm.0.to_string());
        judgement.facts().iter().map(|fact| format!("{}: {} {:?}", vm(fact.vm), fact.what, fact.figure)).collect()
    }

    #[test]
    fn facts_name_who_waits_most_and_who_took_the_cpus_most_often() {
        let judgement = waited(&host(2, false), &[(1, 1_500, 500), (2, 700, 300), (1, 900, 99)], 0);
        let took = |name: &str, times: u64| format!("host: preemptions of these vCPUs by {name} Count({times})");
        assert_eq!(
            facts(&judgement),
            [
                format!("1: {WAITED} Share(0.25)"),
                format!("2: {WAITED} Share(0.3)"),
                // The fourth, thread 6, was there once.
                took("thread 7", 4),
                took("cc1", 3),
                took("make", 3),
                "host: CPUs that all recorded vCPUs ran on or waited for Cpus(3.999)".to_string(),
                "host: CPUs of the host Count(2)".to_string(),
            ]
        );
        let gain = judgement.advice()[0].plan().gain;
        // All want 3,999 ns and there are 2,000: more than the 800 that both who feel it wait.
        assert_eq!((gain.low, gain.high), (Nanos(800_000_000), Nanos(800_000_000)));
        let said = |vm| judgement.said(VmId(vm)).map(|row| row.1.clone()).collect::<Vec<_>>();
        assert!(matches!(said(1)[..], [RuleAnswer::Advice(_)]) && matches!(said(2)[..], [RuleAnswer::Advice(_)]));
        assert!(matches!(&said(3)[..], [RuleAnswer::NotJudged(why)] if why.contains("less than a tenth")));
    }

    #[test]
    fn at_most_eight_vms_are_named_and_of_more_it_is_said_how_many() {
        let vms: Vec<(u64, u64, u64)> = (1..=9).map(|steal| (1, 1, 100 + steal)).collect();
        for (count, named, says) in
            [(8, vec![8, 7, 6, 5, 4, 3, 2, 1], None), (9, vec![9, 8, 7, 6, 5, 4, 3, 2], Some(9))]
        {
            let judgement = waited(&host(0, false), &vms[..count], 0);
            let waiting = judgement.facts().iter().filter(|fact| fact.what == WAITED);
            assert_eq!(waiting.filter_map(|fact| fact.vm).map(|vm| vm.0).collect::<Vec<_>>(), named);
            let many = judgement.facts().iter().find(|fact| fact.what.starts_with("VMs whose vCPUs wait"));
            assert_eq!(many.map(|fact| fact.figure), says.map(CitedValue::Count));
            assert!(!judgement.facts().iter().any(|fact| fact.what == "CPUs of the host"), "nobody knows");
        }
    }

    #[test]
    fn what_is_done_about_waiting_depends_on_the_host() {
        // Two vCPUs want 1,500 ns and wait for 500 ns of the 1,000 ns of the recording.
        let vms = [(2, 1_500, 500)];
        let fewer = "fewer or smaller VMs here, or fewer vCPUs for those that have more than they use";
        for (what, host, idle, change, first, risk, acts, low, pinned) in [
            (
                "short",
                host(1, false),
                0,
                "vCPUs run on or wait for 2.0 CPUs, and there are 1",
                fewer,
                "fewer vCPUs are a lower peak",
                "at once where VMs can be moved",
                500,
                false,
            ),
            (
                "just enough",
                host(2, false),
                0,
                "although they run on or wait for 2.00 of 2 CPUs",
                "first the limits",
                "pinned vCPUs cannot move",
                "at once",
                0,
                false,
            ),
            (
                "nobody knows",
                host(0, false),
                0,
                "how many there are the recording does not say",
                "first the limits",
                "pinned vCPUs cannot move",
                "at once",
                0,
                false,
            ),
            (
                "Xen, short",
                host(1, true),
                0,
                "vCPUs run on or wait for 2.0 CPUs, and there are 1",
                fewer,
                "fewer vCPUs are a lower peak",
                "at once where VMs can be moved",
                500,
                false,
            ),
            (
                "Xen, enough",
                host(4, true),
                0,
                "although they run on or wait for 2.00 of 4 CPUs",
                "`xl vcpu-list`",
                "what these VMs get",
                "at once",
                0,
                false,
            ),
            // Ten of 21 times nobody took the CPU.
            (
                "a quota, short",
                host(1, false),
                10,
                "look for a quota",
                "cpu.max of the VM's cgroup",
                "a VM without a quota",
                "at once",
                0,
                false,
            ),
            (
                "a quota",
                host(2, false),
                10,
                "look for a quota",
                "cpu.max of the VM's cgroup",
                "a VM without a quota",
                "at once",
                0,
                false,
            ),
            (
                "Xen knows no such quota",
                host(4, true),
                10,
                "although they run",
                "`xl vcpu-list`",
                "what these VMs get",
                "at once",
                0,
                false,
            ),
        ] {
            let judgement = waited(&host, &vms, idle);
            let [advice] = judgement.advice() else { panic!("{what}: {judgement:#?}") };
            let plan = advice.plan();
            assert!(plan.change.contains(change), "{what}: {}", plan.change);
            let by_hand = plan
                .settings
                .iter()
                .find_map(|of| if let AdviceSetting::ByHand(text) = of { Some(text) } else { None });
            // What is QEMU's alone is offered with the words that nothing says QEMU, first.
            let texts: Vec<String> = plan.settings.iter().map(|setting| format!("{setting:?}")).collect();
            assert!(by_hand.is_some() && texts.iter().take(2).any(|text| text.contains(first)), "{what}: {texts:?}");
            assert!(plan.risk.starts_with(risk), "{what}: {}", plan.risk);
            assert!(plan.acts.starts_with(acts), "{what}: {}", plan.acts);
            assert_eq!((plan.gain.low, plan.gain.high), (Nanos(low * 1_000_000), Nanos(500_000_000)), "{what}");
            let is_short = format!("{:?}", plan.gain.how).contains("short of");
            assert_eq!(is_short, low > 0, "{what}");
            let pins = |setting: &AdviceSetting| matches!(setting, AdviceSetting::Libvirt { within: "cputune", .. });
            assert_eq!(plan.settings.iter().any(pins), pinned, "{what}: {texts:?}");
            let left = judgement.facts().iter().find(|fact| fact.what.contains("was left idle"));
            assert_eq!(
                left.map(|fact| fact.figure),
                (idle > 0 && !host.xen).then_some(CitedValue::Count(idle)),
                "{what}"
            );
        }
        // A VM of as many vCPUs as there are CPUs is not pinned, nor one beside it.
        let judgement = waited(&host(3, false), &[(2, 100, 50), (3, 100, 50)], 0);
        assert!(!format!("{:?}", judgement.advice()[0].plan().settings).contains("vcpupin"));
        let judgement = waited(&host(4, false), &[(2, 100, 50), (3, 100, 50)], 0);
        assert_eq!(format!("{:?}", judgement.advice()[0].plan().settings).matches("vcpupin").count(), 3);
    }

    /// A VM of Xen's of which port reads take so long, and port writes more.
    fn on_xen(release: &str, xen: bool, reads: u64, wall: u64) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        for (write, takes) in [(false, reads), (true, 7 * reads)] {
            let (kind, form) = (SubjectKind::Port, exitscope_model::PortAccessForm::NonString);
            let detail = Some(exitscope_model::Subject { kind, write, form, size: 1, key: 0x1f0, value: 0 });
            let of = exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 30));
            input.absorb(&Exit { subject: detail, parts: spent(TimePart::Kernel, takes), ..of });
        }
        input.sum_up();
        input.facts.duration = Nanos(SECOND);
        input.vms.insert(VmId(1), VmTime { wall, ..VmTime::default() });
        let mut judgement = Judgement::default();
        judge(&input, &RecordedHost { xen, release: release.to_string(), ..RecordedHost::default() }, &mut judgement);
        judgement
    }

    #[test]
    fn old_xens_that_take_the_long_way_are_to_be_replaced() {
        // Of 16,112 cycles the short way spares 2,816: of ten times as many nanoseconds, ten times as many.
        for (release, xen, reads, wall, advised) in [
            ("3.2.9", true, 161_120, 2_816_000, false),
            ("3.3.0", true, 161_120, 2_816_000, true),
            ("Xen 4.0.1", true, 161_120, 2_816_000, true),
            ("4.1.0", true, 161_120, 2_816_000, false),
            ("4.0.1", false, 161_120, 2_816_000, false),
            ("", true, 161_120, 2_816_000, false),
            ("4.0.1", true, 161_120, 2_816_001, false),
            ("4.0.1", true, 161_119, 2_816_000, false),
        ] {
            let judgement = on_xen(release, xen, reads, wall);
            let rules: Vec<Rule> = judgement.advice().iter().map(|advice| advice.plan().rule).collect();
            assert_eq!(rules, if advised { vec![Rule::NewerXen] } else { vec![] }, "{release} {xen} {reads} {wall}");
            if advised {
                let gain = judgement.advice()[0].plan().gain;
                assert_eq!((gain.low, gain.high), (Nanos(28_160), Nanos(28_160)));
                let figures: Vec<CitedValue> = judgement.facts().iter().map(|fact| fact.figure).collect();
                assert_eq!(figures, [CitedValue::Rate(1.0), CitedValue::Share(161_120.0 / 2_816_000.0)]);
            }
        }
    }
}
