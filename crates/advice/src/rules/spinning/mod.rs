//! Rules about vCPUs that spin and yield: lock holders that were preempted, windows of PAUSE loops and lock code that ask
//! too early.
//!
//! ```text
//! yields find siblings that lost their CPU ─► one of those may hold the lock: keep holders running
//! yields find nobody to yield to ───────────► replayed with longer windows, or none: the time of the yields is won
//! ```

mod wording;

use super::not_judged::{Gap, Lacks};
use super::steal::WAITED;
use crate::cause::{Covered, CureLookup, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, total};
use crate::evidence::trials::{SpinKnobs, SpinTrial, Trials};
use crate::judgement::{
    CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share,
};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::{SubjectKey, YieldStats};
use exitscope_model::codes::{KICK_CPU, SCHED_OP as SCHED_OP_CALL};
use exitscope_model::{CodeList, SubjectKind, TargetState, YieldCall};
use exitscope_policy::knob;
use exitscope_units::{Nanos, VmId};

/// Keep lock holders running.
pub(crate) const LOCK_HOLDERS: Rule = Rule::new("lock_holders");

/// Let vCPUs spin longer before they yield.
pub(crate) const SPIN_LONGER: Rule = Rule::new("spin_longer");

/// Yields a second at least: a guest whose locks are short makes fewer.
pub(crate) const MIN_YIELDS_PER_S: f64 = 500.0;

/// Lock holders are preempted if one yield in so many finds a sibling that lost its CPU.
const FINDS: u64 = 10;

/// A longer window is preferred to none if it wins so much of what none wins: it still helps where CPUs get short.
const GOOD_ENOUGH_SHARE: f64 = 0.9;

/// What is not judged of yields.
pub(crate) const GAPS: &[Gap] = &[Gap {
    what: "what other windows of PAUSE loops, or none, would gain",
    lacks: Lacks::AnotherRecording,
    missing: |of| of.trials.untried.yields.then_some(wording::YIELDS_UNTRIED),
}];

pub(crate) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let (mut in_vain, mut of_vms, mut cost_in_vain) = (Vec::new(), Vec::new(), 0_u64);
    for (&vm, time) in &input.vms {
        let yields = input.yields(vm, YieldCall::waits);
        if input.is_several(vm) {
            if yields.count > 0 {
                say(input, vm, &RuleAnswer::NotJudged(wording::SEVERAL.into()), judgement);
            }
            continue;
        }
        if time.vcpus < 2 || input.rate(Some(vm), yields.count) < MIN_YIELDS_PER_S {
            if yields.count > 0 {
                let why = if time.vcpus < 2 { wording::ALONE } else { wording::FEW };
                say(input, vm, &RuleAnswer::NotJudged(why.into()), judgement);
            }
            continue;
        }
        if yields.known() == 0 {
            let how = host.how(&input.facts).clause(&[Missed::Scheduler]);
            say(input, vm, &RuleAnswer::NotRecorded(format!("{}; {how}", wording::UNKNOWN)), judgement);
            continue;
        }
        let cost = yields.lasted.sum.saturating_sub(yields.waited);
        let waited_for = waited_for(input, vm);
        let finds = yields.preempted.saturating_mul(FINDS) >= yields.known();
        let worth = |nanos: u64| nanos.saturating_mul(MIN_COST_SHARE) >= time.wall;
        match finds {
            true if worth(waited_for.0) => {
                let facts = note(input, host, vm, time, &yields, judgement);
                preempted_holders(input, host, vm, cost, waited_for, &facts, judgement);
            }
            false if worth(cost) => {
                in_vain.extend(note(input, host, vm, time, &yields, judgement));
                of_vms.push(vm);
                cost_in_vain = cost_in_vain.saturating_add(cost);
            }
            _ => say(input, vm, &RuleAnswer::NotJudged(wording::LITTLE.into()), judgement),
        }
    }
    if let Some((first, more)) = in_vain.split_first() {
        let said = match trials.untried.yields {
            true => RuleAnswer::NotJudged(wording::YIELDS_UNTRIED.into()),
            false => idle_yields(input, trials, host, (*first, more), cost_in_vain, judgement),
        };
        of_vms.into_iter().for_each(|vm| say(input, vm, &said, judgement));
    }
}

/// Exits for loops of PAUSE: VMX's and SVM's.
const PAUSES: [(CodeList, u64); 2] = [(CodeList::Vmx, 40), (CodeList::Svm, 0x77)];

/// Xen's hypercall `sched_op`.
const SCHED_OP: CureLookup = CureLookup::Other(SubjectKind::XenHypercall, SCHED_OP_CALL);

/// arm64's WFI and WFE.
const WFX: (CodeList, u64) = (CodeList::Arm64Ec, 1);

/// s390's diagnoses.
const fn diagnose(number: u64) -> CureLookup {
    CureLookup::Other(SubjectKind::Diag, number)
}

/// Exits that yield, wherever all of a VM's do.
pub(crate) const ANSWERS: &[Covered] = &[
    Covered::Reason(PAUSES[0].0, PAUSES[0].1),
    Covered::Reason(PAUSES[1].0, PAUSES[1].1),
    Covered::Subject(diagnose(0x44)),
    Covered::Subject(diagnose(0x9c)),
];

/// Says it of a VM's exits that yield, and of those that may do something else, if all of them yielded.
fn say(input: &AdviceInput, vm: VmId, said: &RuleAnswer, judgement: &mut Judgement) {
    PAUSES.iter().for_each(|(list, number)| judgement.say(Some(vm), Covered::Reason(*list, *number), said.clone()));
    let yields = input.yields(vm, YieldCall::waits).count;
    // s390's diagnoses, and arm64's WFE, whose exits are WFI's, too.
    for call in [YieldCall::Diag44, YieldCall::Diag9c] {
        let number = if call == YieldCall::Diag44 { 0x44 } else { 0x9c };
        if input.yields(vm, |of| of == call).count > 0 {
            judgement.say(Some(vm), Covered::Subject(diagnose(number)), said.clone());
        }
    }
    let events = input.yields(vm, |of| of == YieldCall::Wfe).count;
    if events > 0 && events.saturating_mul(2) >= input.of_reasons(vm, &[WFX]).count {
        judgement.say(Some(vm), Covered::Reason(WFX.0, WFX.1), said.clone());
    }
    let is_sched_op = |key: &SubjectKey| SCHED_OP == CureLookup::Other(key.kind, key.key);
    if yields > 0 && input.of_details(vm, is_sched_op).count == yields {
        let said = match said {
            RuleAnswer::NotJudged(why) => RuleAnswer::NotJudged(format!("all of them are SCHEDOP_yield; {why}")),
            said => said.clone(),
        };
        judgement.say(Some(vm), Covered::Subject(SCHED_OP), said);
    }
}

/// From siblings' first yields until vCPUs ran that had lost their CPU.
fn waited_for(input: &AdviceInput, vm: VmId) -> Nanos {
    let cells = input.facts.yields.preempted.iter().filter(|(who, _)| who.vm == vm);
    Nanos(total(cells.map(|(_, cell)| cell.blocked.sum)))
}

fn note(
    input: &AdviceInput,
    host: &RecordedHost,
    vm: VmId,
    time: &VmTime,
    yields: &YieldStats,
    judgement: &mut Judgement,
) -> Vec<CitedFactId> {
    let cost = yields.lasted.sum.saturating_sub(yields.waited);
    let what = format!("yields a second ({})", calls(input, host, vm));
    let mut facts = vec![
        judgement.cite(Some(vm), Topic::Yields, what, CitedValue::Rate(input.rate(Some(vm), yields.count))),
        judgement.cite(
            Some(vm),
            Topic::Yields,
            "CPU time of those yields, as a share of the vCPUs' time",
            share(cost, time.wall),
        ),
        judgement.cite(
            Some(vm),
            Topic::Yields,
            "share of the yields at which a sibling was preempted",
            share(yields.preempted, yields.known()),
        ),
    ];
    let cells = input.facts.yields.targets.iter().filter(|((of, _, call), _)| *of == vm && call.waits());
    let (mut named, mut preempted) = (0, 0);
    for (_, cell) in cells {
        named += cell.iter().sum::<u64>() - cell[TargetState::Unknown as usize];
        preempted += cell[TargetState::Preempted as usize];
    }
    if named > 0 {
        let what = "share of the yields that name a vCPU, at which that vCPU was runnable without a CPU";
        facts.push(judgement.cite(Some(vm), Topic::Yields, what, share(preempted, named)));
    }
    let waited_for = waited_for(input, vm);
    if waited_for > Nanos::ZERO {
        let what = "time from a sibling's first yield until the preempted vCPU ran again, all of them in each second";
        facts.push(judgement.cite(
            Some(vm),
            Topic::Yields,
            what,
            CitedValue::Time(input.per_second(Some(vm), waited_for.0)),
        ));
    }
    facts.push(judgement.cite(Some(vm), Topic::Timeline, WAITED, share(time.steal, time.wanted())));
    facts.push(judgement.cite(Some(vm), Topic::Timeline, "vCPUs", CitedValue::Count(time.vcpus)));
    facts
}

/// How vCPUs of this VM yield. Diagnoses are s390's: what the lab's guests say on other machines has no number there.
fn calls(input: &AdviceInput, host: &RecordedHost, vm: VmId) -> String {
    let cells = input.facts.yields.vcpus.keys().filter(|(who, call)| who.vm == vm && call.waits());
    let name = |call: &YieldCall| match call {
        YieldCall::Diag44 if !host.is_s390() => "undirected yield",
        YieldCall::Diag9c if !host.is_s390() => "directed yield",
        call => call.name(),
    };
    let mut names: Vec<&str> = cells.map(|(_, call)| name(call)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// They spin while others of their VM wait for a CPU: one of those may hold the lock.
fn preempted_holders(
    input: &AdviceInput,
    host: &RecordedHost,
    vm: VmId,
    cost: u64,
    waited_for: Nanos,
    facts: &[CitedFactId],
    judgement: &mut Judgement,
) {
    let vcpus = input.vms.get(&vm).map_or(1, |time| time.vcpus);
    let fits = !host.xen && vcpus <= u64::from(host.cpus) && !input.is_throttled(vm);
    // KVM_HC_KICK_CPU: who waits for a lock halts already.
    let kicks = input.of_details(vm, |key| key.kind == SubjectKind::Hypercall && key.key == KICK_CPU).count;
    let locks = match () {
        _ if host.xen => ParavirtualLocks::Xen,
        _ if !host.arch.starts_with("x86") => ParavirtualLocks::None,
        _ if kicks > 0 => ParavirtualLocks::On,
        // `kvm_arch_get_supported_cpuid` of QEMU's target/i386/kvm/kvm.c: not without an irqchip in the kernel.
        _ if input.halts(vm).in_user_space == 0 => ParavirtualLocks::Kvm,
        _ => ParavirtualLocks::None,
    };
    let holders = PreemptedHolders {
        pinned: fits.then_some(vcpus),
        locks,
        undirected: host.is_s390() && input.yields(vm, |call| call == YieldCall::Diag44).count > 0,
    };
    let gain = Gain {
        of: GainOf::Yields,
        headline: input.per_second(Some(vm), cost.saturating_add(waited_for.0)),
        // Fewer vCPUs, or paravirtual locks, need not win any of it.
        low: Nanos::ZERO,
        high: input.per_second(Some(vm), cost.saturating_add(waited_for.0)),
        may_wait: false,
        how: GainMethod::Counted(wording::OF_HOLDERS),
    };
    let words = holders.words(&input.vmm(vm, host));
    let id = judgement.advise(facts[0], &facts[1..], words.of(LOCK_HOLDERS, Some(vm), gain));
    say(input, vm, &RuleAnswer::Advice(id), judgement);
}

/// A VM whose lock holders lose their CPUs.
struct PreemptedHolders {
    /// Its vCPUs, if each fits on a CPU of its own.
    pinned: Option<u64>,
    locks: ParavirtualLocks,
    /// Whether its guest yields by s390's X'44', which names nobody.
    undirected: bool,
}

/// Locks whose waiters halt.
#[derive(Clone, Copy, PartialEq)]
enum ParavirtualLocks {
    /// There are none for this guest.
    None,
    /// Its guest uses KVM's.
    On,
    /// It could use KVM's.
    Kvm,
    /// It could use Xen's.
    Xen,
}

/// They spin, leave, and find nobody to yield to.
fn idle_yields(
    input: &AdviceInput,
    trials: &Trials,
    host: &RecordedHost,
    facts: (CitedFactId, &[CitedFactId]),
    cost: u64,
    judgement: &mut Judgement,
) -> RuleAnswer {
    let wall = total(input.vms.values().map(|time| time.wall));
    let pays = |trial: &&SpinTrial| trial.least.0 * MIN_COST_SHARE as f64 >= wall as f64;
    let most = trials.spins.iter().filter(pays).map(|trial| trial.least.1).fold(0.0, f64::max);
    let nearly = |trial: &&SpinTrial| pays(trial) && trial.least.1 >= most * GOOD_ENOUGH_SHARE;
    let Some(trial) = trials.spins.iter().filter(nearly).min_by_key(|trial| trial.rank) else {
        // Other machines have no window, nor lock code that looks so often before it yields.
        let has_window = host.arch.starts_with("x86") && !host.xen || host.is_s390();
        let why = match trials.spins.is_empty() {
            _ if host.arch == "aarch64" => wording::CONTENDED_ON_ARM64,
            _ if !has_window => wording::CONTENDED,
            true => return untried(input, facts, cost, judgement),
            false => wording::CONTENDED_AND_TRIED,
        };
        judgement.accept_cost(facts.0, facts.1, why);
        return RuleAnswer::Inherent(why.into());
    };
    let time = |nanos: f64| input.per_second(None, nanos.max(0.0) as u64);
    let high = trial.most.2.max(trial.least.0);
    let gain = Gain {
        of: GainOf::Exits,
        headline: time(trial.least.1.min(high)),
        low: time(trial.least.0),
        high: time(high),
        may_wait: false,
        how: GainMethod::Replayed("yielding"),
    };
    let words = wording::spin_longer(trial.side, trial.knob, trial.value);
    RuleAnswer::Advice(judgement.advise(facts.0, facts.1, words.of(SPIN_LONGER, None, gain)))
}

/// The same where the recording does not tell how long they spin: exits for PAUSE can be made fewer, and nothing tells what that wins.
fn untried(
    input: &AdviceInput,
    facts: (CitedFactId, &[CitedFactId]),
    cost: u64,
    judgement: &mut Judgement,
) -> RuleAnswer {
    let knobs = input.spins.main_call().map(SpinKnobs::of);
    let host_has = |of: &SpinKnobs| Some((knob(of.window)?, knob(of.off?)?, *of.values.get(1)?));
    let Some((window, off, longer)) = knobs.as_ref().and_then(host_has) else {
        return RuleAnswer::NotJudged(wording::CONTENDED_AND_UNTRIED.into());
    };
    let gain = Gain {
        of: GainOf::Exits,
        headline: input.per_second(None, cost),
        low: Nanos::ZERO,
        high: input.per_second(None, cost),
        may_wait: !input.facts.event_kinds.switches,
        how: GainMethod::Counted(wording::OF_SPINNING_ON),
    };
    let words = wording::try_spinning(off, window, longer);
    RuleAnswer::Advice(judgement.advise(facts.0, facts.1, words.of(SPIN_LONGER, None, gain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::AdviceDraft;
    use crate::setting::{AdviceSetting, SettingSide};
    use crate::test_exits::{end, exit, preemption, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{EventKinds, Exit, ExitCode, Preemption, RunnableSiblings, TimePart, Yield, YieldRecipient};
    use exitscope_units::Moment;

    const US: u64 = 1_000;

    /// Two vCPUs yield every half millisecond each, one after the other in a wait of four, for so long. Of ten yields so
    /// many find the sibling preempted, which runs 100 us later.
    fn judged(call: YieldCall, takes: u64, finds: u64) -> Judgement {
        judged_by(call, takes, finds, |_| {})
    }

    /// The same, with other trials.
    fn judged_by(call: YieldCall, takes: u64, finds: u64, other: impl FnOnce(&mut Trials)) -> Judgement {
        let arch = if call == YieldCall::Diag9c { "s390x" } else { "x86_64" };
        judged_on(arch, call, takes, finds, other)
    }

    /// The same, on such a machine.
    fn judged_on(arch: &str, call: YieldCall, takes: u64, finds: u64, other: impl FnOnce(&mut Trials)) -> Judgement {
        let at = |nanos| Moment::from_nanos(nanos);
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(at(0));
        input.note_event_kinds(EventKinds { switches: true, ..EventKinds::default() });
        let mut yields = Vec::new();
        for (number, of) in (1..=2_000).flat_map(|number| [(number, 0), (number, 1)]) {
            let left = number * 500 * US;
            let code = ExitCode::new(CodeList::Vmx, 40);
            input.absorb(&Exit {
                guest: Nanos(500 * US - takes),
                parts: spent(TimePart::Kernel, takes),
                ..exit(vcpu(of), left, code)
            });
            let preempted = u32::from(number % 10 < finds);
            yields.push(Yield {
                who: vcpu(of),
                at: at(left),
                call,
                target: None,
                target_state: TargetState::Unknown,
                found: Some(RunnableSiblings { preempted, woken: 0 }),
                guest: Nanos(2 * US),
                again: number % 4 != 0,
                was_out: false,
                window: (call != YieldCall::Diag9c).then_some(3_000),
                recipient: YieldRecipient::Nobody,
                waited: Nanos::ZERO,
                entered: Some(at(left + takes)),
            });
            if preempted > 0 {
                let (first, ran) = (Some(at(left)), Some(at(left + 100 * US)));
                let sibling = vcpu(1 - of);
                input.absorb_preemption(&Preemption {
                    who: sibling,
                    at: at(left - US),
                    ran,
                    yields: 1,
                    first,
                    by: None,
                    yielded: false,
                });
            }
        }
        yields.iter().for_each(|of| _ = input.absorb_yield(of));
        end(&mut input, &[vcpu(0), vcpu(1)], 2_001 * 500 * US);
        let host = RecordedHost { arch: arch.to_string(), cpus: 4, ..RecordedHost::default() };
        let mut trials = Trials::new(&input, &host);
        yields.iter().for_each(|of| trials.absorb_yield(of));
        trials.end();
        other(&mut trials);
        let mut judgement = Judgement::default();
        judge(&input, &trials, &host, &mut judgement);
        for advice in judgement.advice() {
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
        }
        judgement
    }

    #[test]
    fn yields_with_nobody_to_yield_to_want_longer_windows_as_replayed() {
        for (call, knobs) in [
            (YieldCall::Pause, &["ple_window", "ple_gap"][..]),
            (YieldCall::PauseFilter, &["pause_filter_count"]),
            (YieldCall::Diag9c, &["spin_retry"]),
        ] {
            let judgement = judged(call, 20 * US, 0);
            let [advice] = judgement.advice() else { panic!("{call:?}: {judgement:#?}") };
            let plan = advice.plan();
            let AdviceSetting::Knob { knob, .. } = plan.settings[0] else { panic!("{:?}", plan.settings) };
            assert!(knobs.contains(&knob.name), "{}", knob.name);
            assert_eq!(plan.gain.how, GainMethod::Replayed("yielding"));
            // Two vCPUs, 2,000 yields a second each, 20 us each: no more than that can be won, but for the interval.
            assert!(Nanos::ZERO < plan.gain.low && plan.gain.high <= Nanos(81_000 * US), "{:?}", plan.gain);
        }
        assert_eq!(judged(YieldCall::Pause, 2 * US, 0).facts(), [], "too cheap to speak of");
    }

    #[test]
    fn diagnoses_and_what_spins_before_them_are_s390s() {
        // Linux, arch/s390/lib/spinlock.c, arch_spin_lock_classic: spin_retry, and smp_yield_cpu, which is X'9C'; no other
        // architecture has either.
        for (arch, name, knobs) in [("s390x", "X'9C'", 1), ("x86_64", "directed yield", 0)] {
            let judgement = judged_on(arch, YieldCall::Diag9c, 20 * US, 0, |_| {});
            let says = |fact: &crate::CitedFact| fact.what.contains(&format!("({name})"));
            assert!(judgement.facts().iter().any(says), "{arch}: {:#?}", judgement.facts());
            assert_eq!(judgement.advice().len(), knobs, "{arch}: {:#?}", judgement.advice());
        }
    }

    #[test]
    fn what_was_not_tried_is_not_said_to_win_nothing() {
        let won = |judgement: &Judgement| judgement.left_alone.iter().any(|row| row.why.contains("for certain"));
        let nothing = judged_by(YieldCall::Pause, 20 * US, 0, |trials| {
            trials.spins.iter_mut().for_each(|trial| trial.least = (0.0, 0.0, 0.0));
        });
        let untried = judged_by(YieldCall::Pause, 20 * US, 0, |trials| trials.spins.clear());
        assert_eq!([&nothing, &untried].map(|judgement| judgement.left_alone.len()), [1, 0]);
        assert_eq!([&nothing, &untried].map(won), [true, false]);
        assert_eq!(nothing.advice().len(), 0);
        for (call, off, longer) in [
            (YieldCall::Pause, "ple_gap", "ple_window=16384"),
            (YieldCall::PauseFilter, "pause_filter_count", "pause_filter_count=30000"),
        ] {
            let untried = judged_by(call, 20 * US, 0, |trials| trials.spins.clear());
            let [advice] = untried.advice() else { panic!("{untried:#?}") };
            let plan = advice.plan();
            let AdviceSetting::Knob { knob, value, .. } = plan.settings[0] else { panic!("{:?}", plan.settings) };
            assert_eq!((plan.rule, knob.name, value), (SPIN_LONGER, off, 0));
            assert!(format!("{:?}", plan.settings).contains(longer), "{:?}", plan.settings);
            assert!(plan.acts.contains("when the module is reloaded"), "{}", plan.acts);
            // From nothing to what the yields take: 4,000 times 20 us.
            assert_eq!((plan.gain.low, plan.gain.high), (Nanos::ZERO, material_rate(4_000 * 20 * US)));
        }
        let guests = judged_by(YieldCall::Diag9c, 20 * US, 0, |trials| trials.spins.clear());
        assert_eq!((guests.advice().len(), guests.left_alone.len()), (0, 0), "what a guest's code does is its own");
    }

    #[test]
    fn yields_that_find_siblings_without_a_cpu_point_to_lock_holders() {
        let judgement = judged(YieldCall::Pause, 20 * US, 5);
        let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
        assert!(advice.plan().change.starts_with("keep lock holders running"), "{}", advice.plan().change);
        let half = |fact: &crate::CitedFact| {
            fact.figure == CitedValue::Share(0.5) && fact.what.contains("a sibling was preempted")
        };
        assert!(judgement.facts().iter().any(half), "{:#?}", judgement.facts());
        // 2,000 times 100 us, and what the yields took.
        assert_eq!(advice.plan().gain.high, material_rate(2_000 * 100 * US + 4_000 * 20 * US));
    }

    /// A time of the recording, in each second of it.
    fn material_rate(nanos: u64) -> Nanos {
        Nanos((u128::from(nanos) * 1_000_000_000 / u128::from(2_001 * 500 * US)) as u64)
    }

    /// A VM of vCPUs 0 and 1, of which vCPU 0 yielded, in a recording of two seconds.
    #[derive(Clone, Copy)]
    struct Vm {
        vcpus: u64,
        /// Yields, and those that found a sibling without a CPU, one that was woken, and nobody.
        count: u64,
        preempted: u64,
        woken: u64,
        nobody: u64,
        /// CPU time of yields, from siblings' yields until vCPUs ran again, and the time of all vCPUs.
        cost: u64,
        blocked: u64,
        wall: u64,
        idle: u64,
    }

    const VM: Vm = Vm {
        vcpus: 2,
        count: 1_000,
        preempted: 5,
        woken: 4,
        nobody: 91,
        cost: 7_000,
        blocked: 9_000,
        wall: 700_000,
        idle: 0,
    };

    impl Vm {
        fn read(&self, call: YieldCall) -> AdviceInput {
            let mut input = AdviceInput::new(&Selection::default());
            input.facts.duration = Nanos(2_000_000_000);
            let (vm, wall) = (VmId(1), self.wall);
            input.vms.insert(vm, VmTime { vcpus: self.vcpus, wall, guest: 600, steal: 200, ..VmTime::default() });
            let Vm { count, preempted, woken, nobody, .. } = *self;
            let mut cell = YieldStats { count, preempted, woken, nobody, waited: 333, ..YieldStats::default() };
            cell.lasted.record(Nanos(self.cost + 333));
            input.facts.yields.vcpus.insert((vcpu(0), call), cell);
            // Of another VM, and one that does not wait.
            let other = YieldStats { count: 9_999, preempted: 9_999, ..YieldStats::default() };
            let stranger = exitscope_model::VcpuIdentity { vm: VmId(2), ..vcpu(0) };
            input.facts.yields.vcpus.insert((stranger, YieldCall::Confer), other.clone());
            input.facts.yields.vcpus.insert((vcpu(0), YieldCall::KickCpu), other);
            for (who, blocked) in
                [(vcpu(0), self.blocked / 3), (vcpu(1), self.blocked - self.blocked / 3), (stranger, 77_777)]
            {
                let mut cell = exitscope_analysis::PreemptionStats::default();
                cell.blocked.record(Nanos(blocked));
                input.facts.yields.preempted.insert(who, cell);
            }
            for _ in 0..self.idle {
                input.absorb_preemption(&preemption(vcpu(0), Moment::default(), None));
            }
            input
        }

        fn judged(&self, call: YieldCall, host: &RecordedHost, spins: &[SpinTrial], untried: bool) -> Judgement {
            let input = self.read(call);
            let mut trials = Trials::new(&input, host);
            trials.spins = spins.to_vec();
            trials.untried.yields = untried;
            let mut judgement = Judgement::default();
            judge(&input, &trials, host, &mut judgement);
            judgement
        }
    }

    fn of_arch(arch: &str) -> RecordedHost {
        RecordedHost { arch: arch.to_string(), cpus: 2, ..RecordedHost::default() }
    }

    #[test]
    fn yields_are_judged_that_are_many_and_cost_something() {
        /// What comes of it.
        #[derive(Debug, PartialEq)]
        enum Is {
            Holders,
            InVain,
            Nothing,
        }
        let holders = Vm { preempted: 10, nobody: 86, ..VM };
        for (what, vm, is) in [
            ("nobody is found", VM, Is::InVain),
            ("one vCPU", Vm { vcpus: 1, ..VM }, Is::Nothing),
            ("fewer than 500 a second", Vm { count: 999, ..VM }, Is::Nothing),
            ("nothing is known", Vm { preempted: 0, woken: 0, nobody: 0, ..VM }, Is::Nothing),
            ("less than a hundredth of the time", Vm { wall: 700_001, ..VM }, Is::Nothing),
            ("of ten yields one finds a sibling", holders, Is::Holders),
            ("a little less", Vm { nobody: 87, ..holders }, Is::InVain),
            ("they waited for a hundredth of the time", Vm { wall: 900_000, ..holders }, Is::Holders),
            ("or less", Vm { wall: 900_001, ..holders }, Is::Nothing),
        ] {
            let judgement = vm.judged(YieldCall::Pause, &of_arch("x86_64"), &[], false);
            let untried = RuleAnswer::NotJudged(wording::CONTENDED_AND_UNTRIED.into());
            let found = match judgement.advice() {
                [advice] if advice.plan().rule == LOCK_HOLDERS => Is::Holders,
                [] if judgement.said(VmId(1)).any(|row| *row.1 == untried) => Is::InVain,
                [] => Is::Nothing,
                other => panic!("{what}: {other:?}"),
            };
            // It is either left as it is, or not judged.
            assert!(judgement.left_alone.is_empty(), "{what}");
            assert_eq!(found, is, "{what}");
            // It is said of exits for loops of PAUSE, Intel's and AMD's.
            let said: Vec<Covered> = judgement.said(VmId(1)).map(|row| *row.0).collect();
            let pauses = [Covered::Reason(CodeList::Vmx, 40), Covered::Reason(CodeList::Svm, 0x77)];
            assert_eq!(said, pauses, "{what}");
            assert_eq!(judgement.facts().is_empty(), is == Is::Nothing, "{what}");
        }
        // What was left out for want of room is not tried.
        let untried = VM.judged(YieldCall::Pause, &of_arch("x86_64"), &[], true);
        assert_eq!((untried.left_alone.len(), untried.said(VmId(1)).count()), (0, 2));
    }

    #[test]
    fn what_is_said_of_yields_is_said_of_xens_hypercall_if_it_does_nothing_else() {
        let said = |calls: u64| {
            let mut input = Vm { count: 12, ..VM }.read(YieldCall::SchedOp);
            input.begin(Moment::from_nanos(0));
            let (kind, form) = (SubjectKind::XenHypercall, exitscope_model::PortAccessForm::NonString);
            let detail =
                Some(exitscope_model::Subject { kind, write: false, form, size: 0, key: SCHED_OP_CALL, value: 0 });
            for at in 0..calls {
                let of = exit(vcpu(0), at, ExitCode::new(CodeList::Vmx, 18));
                input.absorb(&Exit { subject: detail, parts: spent(TimePart::Kernel, 1), ..of });
            }
            input.sum_up();
            input.facts.duration = exitscope_units::Nanos(2_000_000_000);
            let (host, mut judgement) = (RecordedHost { xen: true, ..of_arch("x86_64") }, Judgement::default());
            judge(&input, &Trials::new(&input, &host), &host, &mut judgement);
            let of_call = judgement.said(VmId(1)).filter(|row| *row.0 == Covered::Subject(SCHED_OP));
            of_call.map(|row| row.1.clone()).collect::<Vec<_>>()
        };
        assert_eq!(said(12), [RuleAnswer::NotJudged(format!("all of them are SCHEDOP_yield; {}", wording::FEW))]);
        assert_eq!(said(13), []);
    }

    #[test]
    fn facts_about_yields_are_of_the_vm_and_of_calls_that_wait() {
        let mut input = VM.read(YieldCall::Pause);
        let (vm, targets) = (VmId(1), &mut input.facts.yields.targets);
        let mut cell = [0; 5];
        (
            cell[TargetState::Unknown as usize],
            cell[TargetState::Preempted as usize],
            cell[TargetState::Running as usize],
        ) = (900, 3, 9);
        targets.insert((vm, exitscope_units::VcpuId(0), YieldCall::Diag9c), cell);
        cell[TargetState::Preempted as usize] = 7;
        targets.insert((vm, exitscope_units::VcpuId(1), YieldCall::Diag9c), cell);
        targets.insert((vm, exitscope_units::VcpuId(1), YieldCall::KickCpu), [700; 5]);
        targets.insert((VmId(2), exitscope_units::VcpuId(1), YieldCall::Diag9c), [700; 5]);
        let noted = |input: &AdviceInput| {
            let (time, yields) = (input.vms[&vm], input.yields(vm, YieldCall::waits));
            let mut judgement = Judgement::default();
            note(input, &of_arch("x86_64"), vm, &time, &yields, &mut judgement);
            judgement.facts().iter().map(|fact| format!("{} {:?}", fact.what, fact.figure)).collect::<Vec<_>>()
        };
        let all = noted(&input);
        assert_eq!(
            all,
            [
                "yields a second (PAUSE) Rate(500.0)".to_string(),
                "CPU time of those yields, as a share of the vCPUs' time Share(0.01)".to_string(),
                "share of the yields at which a sibling was preempted Share(0.05)".to_string(),
                // Ten of 28, those left out of which nobody knows where the other was.
                format!(
                    "share of the yields that name a vCPU, at which that vCPU was runnable without a CPU {:?}",
                    CitedValue::Share(10.0 / 28.0)
                ),
                "time from a sibling's first yield until the preempted vCPU ran again, all of them in each second Time(Nanos(4500))"
                    .to_string(),
                format!("{WAITED} Share(0.25)"),
                "vCPUs Count(2)".to_string(),
            ]
        );
        // Without names and without anybody who was waited for, those two are missing.
        input.facts.yields.targets.clear();
        input.facts.yields.preempted.clear();
        assert_eq!(noted(&input), [&all[..3], &all[5..]].concat());
    }

    #[test]
    fn calls_have_the_names_of_their_machine() {
        for (arch, call, name) in [
            ("s390x", YieldCall::Diag44, "X'44'"),
            ("s390x", YieldCall::Diag9c, "X'9C'"),
            ("x86_64", YieldCall::Diag44, "undirected yield"),
            ("x86_64", YieldCall::Diag9c, "directed yield"),
            ("x86_64", YieldCall::Pause, "PAUSE"),
        ] {
            assert_eq!(calls(&VM.read(call), &of_arch(arch), VmId(1)), name);
        }
    }

    #[test]
    fn what_keeps_lock_holders_running_is_the_machines() {
        let vm = Vm { preempted: 50, ..VM };
        let xen = |arch| RecordedHost { xen: true, ..of_arch(arch) };
        let small = RecordedHost { cpus: 1, ..of_arch("x86_64") };
        for (what, host, call, idle, says) in [
            ("x86", of_arch("x86_64"), YieldCall::Pause, 9, ["vcpupin", "pvspinlock", "pv-unhalt"].as_slice()),
            ("fewer CPUs than vCPUs", small, YieldCall::Pause, 0, &["pvspinlock", "pv-unhalt"]),
            ("a quota", of_arch("x86_64"), YieldCall::Pause, 10, &["pvspinlock", "pv-unhalt"]),
            ("Arm", of_arch("aarch64"), YieldCall::SchedYield, 0, &["vcpupin"]),
            ("Xen", xen("x86_64"), YieldCall::Pause, 0, &["xen_nopvspin"]),
            ("s390, without a name", of_arch("s390x"), YieldCall::Diag44, 0, &["vcpupin", "X'44'"]),
            ("s390", of_arch("s390x"), YieldCall::Diag9c, 0, &["vcpupin"]),
            ("a guest of the lab's", of_arch("x86_64"), YieldCall::Diag44, 0, &["vcpupin", "pvspinlock", "pv-unhalt"]),
        ] {
            let judgement = Vm { idle, ..vm }.judged(call, &host, &[], false);
            let [advice] = judgement.advice() else { panic!("{what}: {judgement:#?}") };
            let settings = format!("{:?}", advice.plan().settings);
            for word in ["vcpupin", "pvspinlock", "pv-unhalt", "xen_nopvspin", "X'44'"] {
                assert_eq!(settings.contains(word), says.contains(&word), "{what}, {word}: {settings}");
            }
            // 7,000 ns of yields and 9,000 ns of waiting, in two seconds.
            let gain = advice.plan().gain;
            assert_eq!((gain.low, gain.high), (Nanos::ZERO, Nanos(8_000)), "{what}");
        }
    }

    /// A value of a knob that is tried: of a tenth each, what is won at least, and at most.
    fn tried(name: &str, value: u64, rank: u64, least: f64, most: f64) -> SpinTrial {
        let side = if name == "spin_retry" { SettingSide::Guest } else { SettingSide::Host };
        let knob = exitscope_policy::knob(name).unwrap();
        SpinTrial { side, knob, value, rank, least: (least, least, least), most: (most, most, most) }
    }

    #[test]
    fn the_least_change_that_wins_nearly_all_is_advised() {
        let window = |value, rank, least| tried("ple_window", value, rank, least, 20_000.0);
        for (what, trials, advised, change) in [
            (
                "a hundredth of the time",
                &[window(8_192, 0, 7_000.0)][..],
                Some((8_192, 3_500, 10_000)),
                "(ple_window=8192): under 10%",
            ),
            ("less", &[window(8_192, 0, 6_999.0)], None, ""),
            (
                "nearly all",
                &[window(8_192, 0, 9_000.0), window(16_384, 1, 10_000.0)],
                Some((8_192, 4_500, 10_000)),
                "spin longer",
            ),
            (
                "not nearly",
                &[window(8_192, 0, 8_999.0), window(16_384, 1, 10_000.0)],
                Some((16_384, 5_000, 10_000)),
                "spin longer",
            ),
            (
                "by rank",
                &[window(16_384, 1, 9_500.0), window(8_192, 0, 9_500.0)],
                Some((8_192, 4_750, 10_000)),
                "spin longer",
            ),
            (
                "none at all",
                &[tried("ple_gap", 0, 4, 9_000.0, 9_500.0)],
                Some((0, 4_500, 4_750)),
                "disable PAUSE exits (ple_gap=0)",
            ),
            ("most below least", &[tried("ple_gap", 0, 4, 9_000.0, 8_000.0)], Some((0, 4_500, 4_500)), "ple_gap=0"),
            (
                "the guest's",
                &[tried("spin_retry", 10_000, 0, 9_000.0, 9_500.0)],
                Some((10_000, 4_500, 4_750)),
                "(spin_retry=10000): under 10%",
            ),
        ] {
            let judgement = VM.judged(YieldCall::Pause, &of_arch("x86_64"), trials, false);
            let plans: Vec<&AdviceDraft> = judgement.advice().iter().map(|advice| advice.plan()).collect();
            let found = plans.first().map(|plan| {
                assert!(plan.change.contains(change), "{what}: {}", plan.change);
                let AdviceSetting::Knob { side, knob, value } = plan.settings[0] else { panic!("{:?}", plan.settings) };
                let is_guests = knob.name == "spin_retry";
                assert_eq!(side, if is_guests { SettingSide::Guest } else { SettingSide::Host });
                // For one VM there is QEMU's option as well.
                assert_eq!(plan.settings.len(), if value == 0 { 3 } else { 1 }, "{what}");
                assert_eq!(plan.undo == "write the old value back", is_guests, "{what}");
                assert_eq!(plan.acts.contains("module"), !is_guests, "{what}");
                assert_eq!(plan.risk.contains("make way later"), value > 0, "{what}: {}", plan.risk);
                (value, plan.gain.low.0, plan.gain.high.0)
            });
            assert_eq!(found, advised, "{what}");
            assert_eq!(judgement.left_alone.len(), usize::from(advised.is_none()), "{what}");
        }
    }
}
