//! Rules about CPUs that vCPUs wait for, overcommit and steal; and Xen's long way of a port access.

mod takers;
mod wording;

pub(crate) use wording::{LOWER_PEAK, pins};

use self::takers::CpuHolder;
use super::device_rules::NO_RUN_STATES;
use super::not_judged::{Gap, Lacks};
use super::xen_waits::{self, WaitCure};
use crate::cause::{Covered, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost, Taken, VmTime, total};
use crate::judgement::{
    CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use exitscope_analysis::record_commands::Missed;
use exitscope_model::version;
use exitscope_model::{SubjectKind, TimePart};
use exitscope_units::{Nanos, VcpuId, VmId};
use std::collections::BTreeMap;

/// Find what takes the CPUs of vCPUs that wait for one.
pub(crate) const STEAL: Rule = Rule::new("steal");

/// A Xen that decodes port accesses.
pub(crate) const NEWER_XEN: Rule = Rule::new("newer_xen");

/// Waiting of one part in so many of the time that vCPUs want is felt; below, it is how a scheduler works. The rule of
/// thumb of monitoring is the same: steal of 10 %.
const FELT: u64 = 10;

/// VMs that are named as waiting, those that wait most.
const NAMED: usize = 8;

/// Of those who took vCPUs' CPUs, so many are named.
const INTRUDERS: usize = 3;

pub(crate) const WAITED: &str = "steal, as a share of the time in which its vCPUs could run";

/// Without the scheduler's events, of powerpc.
const TOOK_TURNS: &str =
    "time in which another virtual core had the CPU, as a share of the time in which its vCPUs could run";

/// Xen 3.3 to 4.0 emulate every port access as if it were string I/O; changeset 147808b8b8 of 2010 ended that.
const LONG_WAY: std::ops::RangeInclusive<(u32, u32)> = (3, 3)..=(4, 0);

/// Of a port read of 16,112 cycles, the short way saves 2,816 (xen-devel, 2008: 13,296 are left).
const SHORT_WAY: (u64, u64) = (2_816, 16_112);

/// What is not judged of waiting for a CPU.
pub(crate) const GAPS: &[Gap] = &[Gap {
    what: "overcommit, and lock holders that were preempted",
    lacks: Lacks::Events(&[Missed::Scheduler]),
    missing: |of| {
        let missing = if of.host.xen { NO_RUN_STATES } else { "the recording has no sched_switch" };
        (!of.selected.facts.event_kinds.switches).then_some(missing)
    },
}];

pub(crate) fn judge(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
    let kinds = input.facts.event_kinds;
    let steal = total(input.vms.values().map(|time| time.steal));
    let take_turns = kinds.by_runner && (!kinds.switches || input.facts.took_turns(Nanos(steal)));
    if take_turns || kinds.switches {
        let vms = input.vms.iter().map(|(vm, time)| (*vm, *time));
        let (felt, little): (Vec<_>, Vec<_>) = vms.partition(|(_, time)| is_felt(time));
        for (vm, _) in little {
            let why = wording::little(worst_vcpu(input, vm));
            judgement.say(Some(vm), Covered::Steal, RuleAnswer::NotJudged(why));
        }
        match felt.is_empty() {
            true => {}
            false if take_turns => turns(input, host, felt, judgement),
            false => waiting(input, host, felt, judgement),
        }
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
    let time_wanted = input.facts.time_wanted();
    let waits = input.facts.vcpus_of(vm).filter_map(|(who, of)| {
        let (steal, wanted) = (of.part(TimePart::Steal).0, time_wanted(of));
        let time = VmTime { guest: wanted - steal, steal, wall: of.span().0, ..VmTime::default() };
        is_felt(&time).then_some((who.vcpu, steal as f64 / wanted.max(1) as f64))
    });
    waits.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// What vCPUs wait for when they wait for a CPU.
pub(crate) enum WaitsFor {
    /// A quota, or an affinity, that leaves CPUs idle.
    Quota,
    /// More CPUs than the host has: so many are wanted of so many.
    Short { wanted: f64, cpus: u32 },
    /// Xen's scheduler, by who had the CPUs meanwhile.
    Xen(WaitCure, Crowd),
    /// Others that have their CPUs.
    Crowded(Crowd),
}

/// vCPUs that wait although the host has the CPUs, as far as it is known.
pub(crate) struct Crowd {
    /// CPUs that all vCPUs run on or wait for.
    pub wanted: f64,
    /// Those of the host; 0 if unknown.
    pub cpus: u32,
    pub taken: Taking,
    /// vCPUs of the largest VM, where each of them fits on a CPU of its own.
    pub pinned: Option<u64>,
    /// Whether another vCPU of the same VM mostly took the CPU.
    pub own: bool,
}

/// Who took the CPUs.
pub(crate) enum Taking {
    Unknown,
    /// Somebody; but most of the waiting follows a wake-up.
    AfterWakeUps,
    /// The one that took most, and the next.
    By(String, Option<String>),
    /// The one that had the CPUs for most of the waiting, and the next.
    Had(CpuHolder, Option<CpuHolder>),
}

/// VMs whose waiting is felt, and what it is made of.
struct Felt {
    vms: Vec<(VmId, VmTime)>,
    /// Those of them whose CPUs were left idle while they could run.
    throttled: Vec<VmId>,
    /// Time that they wait.
    waited: u64,
    /// Of it, after a preemption.
    from_preemptions: u64,
    /// Time that all VMs run or wait.
    wanted: u64,
    intruders: Vec<(String, Taken)>,
    /// Who had the CPUs, if that is known of most of the waiting: longest first.
    holders: Vec<CpuHolder>,
}

impl Felt {
    fn new(input: &AdviceInput, host: &RecordedHost, vms: Vec<(VmId, VmTime)>) -> Felt {
        let is_throttled = |vm: &VmId| !host.xen && input.is_throttled(*vm);
        let waited = total(vms.iter().map(|(_, time)| time.steal));
        Felt {
            throttled: vms.iter().map(|row| row.0).filter(is_throttled).collect(),
            waited,
            from_preemptions: total(vms.iter().map(|(vm, _)| input.preempted_for(*vm))).min(waited),
            wanted: total(input.vms.values().map(VmTime::wanted)),
            intruders: intruders(input, host, &vms),
            holders: takers::holders(input, host, &vms),
            vms,
        }
    }
}

/// vCPUs that wait for a CPU.
fn waiting(input: &AdviceInput, host: &RecordedHost, felt: Vec<(VmId, VmTime)>, judgement: &mut Judgement) {
    let felt = Felt::new(input, host, felt);
    if takers::were_waking_up(&felt.holders) {
        let say = |(vm, _): (VmId, VmTime)| {
            judgement.say(Some(vm), Covered::Steal, RuleAnswer::Inherent(wording::WAKING_UP.into()));
        };
        return felt.vms.into_iter().for_each(say);
    }
    let mut facts = note(input, host, &felt, judgement);
    let waiting = decide(input, host, &felt, judgement, &mut facts);
    let gain = gain(input, host, &felt, &waiting);
    let words = waiting.words(&input.vmm(felt.vms[0].0, host));
    let id = judgement.advise(facts[0], &facts[1..], words.of(STEAL, None, gain));
    for (vm, _) in felt.vms {
        judgement.say(Some(vm), Covered::Steal, RuleAnswer::Advice(id));
    }
}

/// What they wait for; who had Xen's CPUs is noted.
fn decide(
    input: &AdviceInput,
    host: &RecordedHost,
    felt: &Felt,
    judgement: &mut Judgement,
    facts: &mut Vec<CitedFactId>,
) -> WaitsFor {
    let wanted = input.busy(None, felt.wanted);
    if !felt.throttled.is_empty() || takers::are_mostly_idle(&felt.holders) {
        return WaitsFor::Quota;
    }
    if host.cpus > 0 && felt.wanted > host_time(input, host) {
        return WaitsFor::Short { wanted, cpus: host.cpus };
    }
    // One is left for who serves them.
    let fits = |(vm, time): &(VmId, VmTime)| time.vcpus < u64::from(host.cpus) && !input.is_several(*vm);
    let largest = felt.vms.iter().map(|(_, time)| time.vcpus).max();
    let taken = match &felt.intruders[..] {
        _ if let [first, more @ ..] = &felt.holders[..] => Taking::Had(first.clone(), more.first().cloned()),
        [] => Taking::Unknown,
        _ if felt.from_preemptions > 0 && felt.from_preemptions.saturating_mul(2) < felt.waited => Taking::AfterWakeUps,
        [(name, _), more @ ..] => Taking::By(name.clone(), more.first().map(|next| next.0.clone())),
    };
    let crowd = Crowd {
        wanted,
        cpus: host.cpus,
        taken,
        pinned: largest.filter(|_| felt.vms.iter().all(fits)),
        own: is_own(input, &felt.vms),
    };
    match host.xen {
        true => {
            let vms: Vec<VmId> = felt.vms.iter().map(|row| row.0).collect();
            WaitsFor::Xen(xen_waits::cure(input, &vms, judgement, facts), crowd)
        }
        false => WaitsFor::Crowded(crowd),
    }
}

/// CPU time that the host has.
fn host_time(input: &AdviceInput, host: &RecordedHost) -> u64 {
    input.facts.seen().0.saturating_mul(u64::from(host.cpus))
}

fn gain(input: &AdviceInput, host: &RecordedHost, felt: &Felt, waiting: &WaitsFor) -> Gain {
    let (low, range) = match waiting {
        WaitsFor::Short { .. } => {
            // Who yields and waits would spin, or sleep, on a CPU of its own.
            let after_yields = total(felt.vms.iter().map(|(vm, _)| input.yields(*vm, |_| true).waited));
            let lacking = felt.wanted.saturating_sub(host_time(input, host));
            (lacking.saturating_sub(after_yields).min(felt.waited), wording::WHAT_IS_LACKING)
        }
        WaitsFor::Quota | WaitsFor::Xen(..) | WaitsFor::Crowded(_) => (0, wording::ALL_OF_IT),
    };
    Gain {
        of: GainOf::Steal,
        headline: input.per_second(None, if low > 0 { low } else { felt.waited }),
        low: input.per_second(None, low),
        high: input.per_second(None, felt.waited),
        may_wait: false,
        how: GainMethod::Counted(range),
    }
}

/// Notes who waits, who took the CPUs, and how many are wanted.
fn note(input: &AdviceInput, host: &RecordedHost, felt: &Felt, judgement: &mut Judgement) -> Vec<CitedFactId> {
    let mut facts = Vec::new();
    let mut worst: Vec<&(VmId, VmTime)> = felt.vms.iter().collect();
    worst.sort_by_key(|(vm, time)| (std::cmp::Reverse(time.steal), *vm));
    for (vm, time) in worst.into_iter().take(NAMED) {
        facts.push(judgement.cite(Some(*vm), Topic::Timeline, WAITED, share(time.steal, time.wanted())));
    }
    for vm in felt.throttled.iter().take(NAMED) {
        let what = "times that a runnable vCPU was taken off its CPU, and the CPU then idled";
        facts.push(judgement.cite(Some(*vm), Topic::Timeline, what, CitedValue::Count(input.times_left_idle(*vm))));
    }
    let mut cite = |what: String, figure| facts.push(judgement.cite(None, Topic::Timeline, what, figure));
    if felt.from_preemptions > 0 {
        let what = "share of that steal that follows a wake-up, not a preemption".into();
        cite(what, share(felt.waited - felt.from_preemptions, felt.waited));
    }
    for holder in felt.holders.iter().take(INTRUDERS) {
        cite(wording::had_the_cpu(holder), share(holder.time, felt.waited));
    }
    let known = total(felt.holders.iter().map(|holder| holder.time));
    if known > 0 && (felt.waited - known.min(felt.waited)).saturating_mul(FELT) >= felt.waited {
        cite(
            "share of that steal in which it is not known who had the CPU".into(),
            share(felt.waited - known, felt.waited),
        );
    }
    // What took the CPU first is a part of what had it.
    let takers = if felt.holders.is_empty() { &felt.intruders[..] } else { &[] };
    for (name, taken) in takers {
        if taken.times > 0 {
            cite(format!("preemptions of these vCPUs by {name}"), CitedValue::Count(taken.times));
        }
        if taken.yields > 0 {
            cite(format!("yields of these vCPUs after which {name} ran"), CitedValue::Count(taken.yields));
        }
        if taken.waited > 0 {
            let what = format!("share of that steal that begins when {name} takes the CPU");
            cite(what, share(taken.waited, felt.waited));
        }
    }
    if felt.vms.len() > NAMED {
        cite("VMs whose vCPUs wait noticeably for a CPU".into(), CitedValue::Count(felt.vms.len() as u64));
    }
    let cpus = CitedValue::Cpus(input.busy(None, felt.wanted));
    cite("CPUs that all recorded vCPUs ran on or waited for".into(), cpus);
    if host.cpus > 0 {
        cite("CPUs of the host".into(), CitedValue::Count(u64::from(host.cpus)));
    }
    facts
}

/// Virtual cores of powerpc that wait while another has the CPU; no event of the scheduler's says for whom else they wait.
fn turns(input: &AdviceInput, host: &RecordedHost, felt: Vec<(VmId, VmTime)>, judgement: &mut Judgement) {
    let what = if input.facts.event_kinds.switches { WAITED } else { TOOK_TURNS };
    let mut note = |(vm, time): &(VmId, VmTime)| {
        judgement.cite(Some(*vm), Topic::Timeline, what, share(time.steal, time.wanted()))
    };
    let mut facts: Vec<CitedFactId> = felt.iter().take(NAMED).map(&mut note).collect();
    if host.cpus > 0 {
        facts.push(judgement.cite(None, Topic::Timeline, "CPUs of the host", CitedValue::Count(u64::from(host.cpus))));
    }
    let waited = total(felt.iter().map(|(_, time)| time.steal));
    let vm = if let [(vm, _)] = felt[..] { Some(vm) } else { None };
    let gain = Gain {
        of: GainOf::Steal,
        headline: input.per_second(vm, waited),
        low: Nanos::ZERO,
        high: input.per_second(vm, waited),
        may_wait: false,
        how: GainMethod::Counted(wording::ALL_THAT_IS_KNOWN),
    };
    let words = wording::turns(vm.is_some(), host.cpus == 1);
    let id = judgement.advise(facts[0], &facts[1..], words.of(STEAL, vm, gain));
    for (vm, _) in felt {
        judgement.say(Some(vm), Covered::Steal, RuleAnswer::Advice(id));
    }
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
        judgement.cite(
            Some(vm),
            Topic::Devices,
            "time of these port reads, as a share of the vCPUs' time",
            share(reads.cost().0, time.wall),
        ),
    ];
    let per_second = input.per_second(Some(vm), saved);
    let how = GainMethod::Published("xen-devel, 2008: a port read of 16,112 cycles took 13,296 with the short way");
    let (headline, low, high) = (per_second, per_second, per_second);
    let gain = Gain { of: GainOf::Exits, headline, low, high, may_wait: !input.facts.event_kinds.switches, how };
    // Each port's exits have what is said of their device.
    let _ = judgement.advise(facts[0], &facts[1..], wording::newer_xen(&host.release).of(NEWER_XEN, Some(vm), gain));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::AdviceSetting;
    use crate::test_exits::{end, exit, preemption, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_analysis::TraceSink;
    use exitscope_model::{
        BesideRow, CodeList, CpuTaker, EventKinds, Exit, ExitCode, StealPiece, ThreadName, TimePart,
    };
    use exitscope_units::{Moment, Nanos, Tid};

    /// Two vCPUs wait for a fifth of the time that they want a CPU, on a host of four: these had it for so much of each microsecond.
    fn had(takers: &[(CpuTaker, u64)]) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { switches: true, ..EventKinds::default() });
        for (number, of) in (1..=2_000).flat_map(|number| [(number, 0), (number, 1)]) {
            let left = exit(vcpu(of), number * 500 * US, ExitCode::new(CodeList::Vmx, 1));
            let parts = spent(TimePart::Kernel, 2 * US).with(TimePart::Steal, Nanos(100 * US));
            input.absorb(&Exit { guest: Nanos(398 * US), parts, ..left });
            for &(taker, share) in takers {
                let to = Moment::from_nanos(left.at.as_nanos() + 100 * share);
                input.beside_row(BesideRow::StealPiece(&StealPiece { who: left.who, from: left.at, to, taker }));
            }
        }
        end(&mut input, &[vcpu(0), vcpu(1)], SECOND);
        let comms = [(7, "web".to_string())].into_iter().collect();
        let host = RecordedHost { arch: "x86_64".to_string(), cpus: 4, comms, ..RecordedHost::default() };
        let mut judgement = Judgement::default();
        judge(&input, &host, &mut judgement);
        judgement
    }

    #[test]
    fn the_cure_is_that_of_who_had_the_cpu() {
        let thread = |tid: u32, process: VmId, name: &str| CpuTaker::Thread {
            tid: Tid(tid),
            process,
            name: ThreadName::new(name.as_bytes()),
        };
        let own = vcpu(0).vm;
        for (taker, change, cure) in [
            (
                thread(70, VmId(7), "CPU 0/KVM"),
                "while they waited, vCPUs of VM web 7 had the CPU longest, then make",
                "put fewer vCPUs on them",
            ),
            (
                thread(vcpu(1).tid.0, own, ""),
                "while they waited, other vCPUs of the same VM had",
                "take each other's CPUs",
            ),
            (
                thread(90, own, "IO disk0"),
                "while they waited, IO disk0 of the VM's own VMM had",
                "<iothreadpin>, both in <cputune>",
            ),
            (
                thread(50, VmId(50), "yes"),
                "while they waited, yes (PID 50) had the CPU longest, then make (PID 60)",
                "keep yes off the vCPUs' CPUs",
            ),
            (thread(51, VmId(51), ""), "while they waited, thread 51 (PID 51) had", "keep that process off"),
            (thread(5, VmId(5), "ksoftirqd/1"), "while they waited, ksoftirqd of the kernel had", "smp_affinity_list"),
            (thread(5, VmId(5), "kworker/1:2"), "while they waited, kworker of the kernel had", "workqueue/cpumask"),
            (thread(5, VmId(5), "jbd2/sda1-8"), "while they waited, jbd2 of the kernel had", "a thread of the kernel"),
            (CpuTaker::WakingUp, "while they waited, nobody had the CPU longest, then make (PID 60)", "idle states"),
            (CpuTaker::Idle, "look for a CPU quota", "cpu.max of the VM's cgroup"),
        ] {
            let make = thread(60, VmId(60), "make");
            let judgement = had(&[(taker, 600), (make, 250)]);
            let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
            let (said, settings) = (&advice.plan().change, format!("{:?}", advice.plan().settings));
            assert!(said.contains(change) && settings.contains(cure), "{taker:?}: {said}\n{settings}");
            let figure = |what: &str| {
                judgement
                    .facts()
                    .iter()
                    .find(|fact| fact.what.starts_with("share of that steal") && fact.what.contains(what))
            };
            assert_eq!(figure("make (PID 60) had the CPU").map(|fact| fact.figure), Some(CitedValue::Share(0.25)));
            assert_eq!(figure("not known").map(|fact| fact.figure), Some(CitedValue::Share(0.15)));
            assert_eq!(judgement.facts().iter().filter(|fact| fact.figure == CitedValue::Share(0.6)).count(), 1);
        }
        // Of less than half of the waiting, nobody is named.
        let judgement = had(&[(thread(50, VmId(50), "yes"), 499)]);
        assert!(!format!("{judgement:?}").contains("yes"));
    }

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
        assert!(change.ends_with("they run on or wait for 2.00 of 4 CPUs; make preempts them"), "{change}");
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
            ("nobody knows how many", 0, false, "the recording does not show how many the host has", false),
            // Linux, kernel/sched/fair.c, throttle_cfs_rq: a runnable task of a group without quota is off the queue.
            ("a quota", 4, true, "look for a CPU quota", false),
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
        assert!(matches!(&said(3)[..], [RuleAnswer::NotJudged(why)] if why.contains("less than 10 %")));
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
                "vCPUs run on or wait for 2.0 CPUs, and the host has 1",
                fewer,
                "with fewer vCPUs",
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
                "the tasks that are kept off",
                "at once",
                0,
                false,
            ),
            (
                "nobody knows",
                host(0, false),
                0,
                "the recording does not show how many the host has",
                "first the limits",
                "the tasks that are kept off",
                "at once",
                0,
                false,
            ),
            (
                "Xen, short",
                host(1, true),
                0,
                "vCPUs run on or wait for 2.0 CPUs, and the host has 1",
                fewer,
                "with fewer vCPUs",
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
                "other VMs get less",
                "at once",
                0,
                false,
            ),
            // Ten of 21 times nobody took the CPU.
            (
                "a quota, short",
                host(1, false),
                10,
                "look for a CPU quota",
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
                "look for a CPU quota",
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
                "other VMs get less",
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
            let is_short = format!("{:?}", plan.gain.how).contains("wanted beyond");
            assert_eq!(is_short, low > 0, "{what}");
            let pins = |setting: &AdviceSetting| matches!(setting, AdviceSetting::Libvirt { within: "cputune", .. });
            assert_eq!(plan.settings.iter().any(pins), pinned, "{what}: {texts:?}");
            let left = judgement.facts().iter().find(|fact| fact.what.contains("the CPU then idled"));
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
            assert_eq!(rules, if advised { vec![NEWER_XEN] } else { vec![] }, "{release} {xen} {reads} {wall}");
            if advised {
                let gain = judgement.advice()[0].plan().gain;
                assert_eq!((gain.low, gain.high), (Nanos(28_160), Nanos(28_160)));
                let figures: Vec<CitedValue> = judgement.facts().iter().map(|fact| fact.figure).collect();
                assert_eq!(figures, [CitedValue::Rate(1.0), CitedValue::Share(161_120.0 / 2_816_000.0)]);
            }
        }
    }
}
