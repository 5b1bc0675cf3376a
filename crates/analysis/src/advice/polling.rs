//! Rules about halt polling, the host's and the guest's: longer, shorter, off.
//!
//! Polling buys earlier wake-ups with CPU time. It is advised where the price is low, and advised against where it is
//! high; between the two it is a matter of taste, and nothing is said. Nothing is said either where the recording does not
//! tell what was in force, or where KVM polled for nobody although it should have.

use super::causes::{Covered, Said, Subject};
use super::judgement::{FactId, Figure, Gain, GainOf, How, Judgement, Plan, Rule, Setting, Side, Topic};
use super::kernels::halt_poll_reach;
use super::material::{Machine, Material, VmTime, Vmm, total};
use super::sources::{WORTH, for_vmm};
use super::trials::{Bench, MOST_GUESTS, Range, Trial, Trials};
use crate::{HaltCell, PollSettings};
use exitscope_policy::{Knob, knob};
use exitscope_units::VmId;
use std::borrow::Cow;

/// The most CPU time that polling may take for a wake-up that is sooner by one: what is bought is worth more than idle
/// CPU time, but not any amount of it.
const FAIR_PRICE: f64 = 3.0;

/// A price from which on polling is mostly for nothing.
const HIGH_PRICE: f64 = 10.0;

/// Polling that takes less than one part in so many of the halting vCPUs' time is not worth a thought.
const NOTEWORTHY: f64 = 20.0;

/// Of what the best value wins, a cheaper one must win so much to be preferred.
const NEARLY: f64 = 0.9;

/// A recording says what polling wins if no more than one gap in so many is inexact.
const EXACT: u64 = 20;

/// Halts at least: chance decides about fewer.
pub(super) const FEWEST: u64 = 200;

/// Nobody must poll on a CPU that others wait for: at most one part in so many of the time that vCPUs want is waited.
const SPARE: u64 = 20;

/// Whether the recording tells wake-up latencies.
pub(super) fn is_exact(halts: &HaltCell) -> bool {
    halts.inexact().saturating_mul(EXACT) <= halts.halts()
}

pub(super) fn judge(material: &Material, trials: &Trials, machine: &Machine, judgement: &mut Judgement) {
    let all = material.facts.halts.all();
    if all.halts() < FEWEST || machine.xen {
        return;
    }
    let halting = material.halting_vms();
    let wall = total(halting.iter().filter_map(|(vm, _)| material.vms.get(vm)).map(|time| time.wall));
    let exact = is_exact(&all);
    if exact && is_known(material) && unknown_host(material, trials, machine).is_none() && !trials.untried.halts {
        host(material, machine, &trials.host, wall, judgement);
    }
    // A guest that seems to have switched KVM's polling off may poll already.
    let may_poll = machine.polling.told.is_some() && unknown_host(material, trials, machine).is_some();
    if !machine.arch.starts_with("x86") || may_poll || material.facts.halts.guest_polls || !exact {
        return;
    }
    if !material.facts.heard.switches {
        return;
    }
    for (vm, bench) in trials.guests.iter().take(MOST_GUESTS) {
        let halts = material.halts(*vm);
        let Some(time) = material.vms.get(vm).filter(|_| halts.halts() >= FEWEST) else { continue };
        if is_short(time.steal, time.wanted()) || material.is_throttled(*vm) {
            continue;
        }
        if let Some(trial) = self::longer(bench, time.wall) {
            let facts = note(material, Some(*vm), &halts, bench, judgement);
            let choice = Choice { side: Side::Guest, vm: Some(*vm), bench, trial, longer: true };
            advise(material, machine, choice, &facts, judgement);
        }
    }
}

/// Whether the recording tells how KVM polled.
fn is_known(material: &Material) -> bool {
    material.facts.halts.all().is_told() && (material.facts.heard.polls || material.facts.heard.switches)
}

/// Why host halt polling is not judged, though the recording has the events for it.
pub(super) fn unknown_host(material: &Material, trials: &Trials, machine: &Machine) -> Option<&'static str> {
    let all = material.facts.halts.all();
    if machine.xen || all.halts() < FEWEST || !is_exact(&all) || !is_known(material) {
        return None;
    }
    if material.facts.halts.guest_polls {
        // `kvm_arch_no_poll` in arch/x86/kvm/x86.c: KVM does not poll for a vCPU in whose MSR_KVM_POLL_CONTROL bit 0 is clear.
        return Some("a guest switched it off for itself (MSR_KVM_POLL_CONTROL): no setting of the host changes that");
    }
    let Some(told) = machine.polling.told else {
        return Some("it does not say what halt_poll_ns was: /sys/module/kvm/parameters/halt_poll_ns does");
    };
    let differs = |seen: &PollSettings| {
        let (more_than, less_than) = seen.bounds();
        seen.changes > 0 && (more_than >= told.0 || less_than.is_some_and(|less| less <= told.0))
    };
    if material.facts.halts.settings.values().any(differs) {
        return Some(
            "KVM decided by another limit than halt_poll_ns: the VMM's own (KVM_CAP_HALT_POLL), or it was changed",
        );
    }
    // Of gaps so short KVM's poll grows; a quarter of them at least.
    let short = all.gaps().quantile(2_500).is_some_and(|gap| gap.0 < told.0);
    (short && trials.host.recorded().polling == 0).then_some(
        "KVM polled for no halt although halt_poll_ns is longer than many were: a guest that switched it off before the \
         recording (MSR_KVM_POLL_CONTROL), or the VMM's own limit (KVM_CAP_HALT_POLL)",
    )
}

/// The host's own polling.
fn host(material: &Material, machine: &Machine, bench: &Bench, wall: u64, judgement: &mut Judgement) {
    let all = material.facts.halts.all();
    let waiting = total(material.vms.values().map(|time| time.steal));
    let wanted = total(material.vms.values().map(VmTime::wanted));
    let choice = |trial, longer| Choice { side: Side::Host, vm: None, bench, trial, longer };
    let Some(told) = machine.polling.told else { return };
    let longer = longer(bench, wall).filter(|trial| trial.value > told.0);
    let shorter = shorter(bench, wall).filter(|trial| trial.value < told.0);
    match (longer, shorter) {
        (Some(_), _) if material.vms.keys().any(|vm| material.is_throttled(*vm)) => {
            let facts = note(material, None, &all, bench, judgement);
            let why = "longer polls would use up a quota of CPU time: CPUs were left idle while vCPUs wanted to run on";
            judgement.leave(facts[0], &facts[1..], why);
            judgement.say(None, Covered::Halts, Said::Inherent(why.into()));
        }
        (Some(_), _) if is_short(waiting, wanted) => {
            let facts = note(material, None, &all, bench, judgement);
            let why = "polling would not shorten the way from a wake-up to the guest: vCPUs wait for CPUs, and KVM does not \
                       poll while another task wants its CPU";
            judgement.leave(facts[0], &facts[1..], why);
            judgement.say(None, Covered::Halts, Said::Inherent(why.into()));
        }
        (Some(trial), _) => {
            let facts = note(material, None, &all, bench, judgement);
            advise(material, machine, choice(trial, true), &facts, judgement);
        }
        (None, Some(trial)) => {
            let facts = note(material, None, &all, bench, judgement);
            advise(material, machine, choice(trial, false), &facts, judgement);
        }
        (None, None) => {
            let why = "the guest halts so often; no other halt_poll_ns that was replayed would pay";
            judgement.say(None, Covered::Halts, Said::Inherent(why.into()));
        }
    }
}

/// Whether CPUs are short.
pub(super) fn is_short(waiting: u64, wanted: u64) -> bool {
    waiting.saturating_mul(SPARE) > wanted
}

/// The value at which polls pay, if there is one: sooner wake-ups are worth the change beyond doubt, at a fair price.
fn longer(bench: &Bench, wall: u64) -> Option<&Trial> {
    let pays = |trial: &&Trial| {
        let ((low, won, _), (_, saved, _)) = (bench.won(trial), bench.saved(trial));
        low * WORTH as f64 >= wall as f64 && -saved <= won * FAIR_PRICE
    };
    let won = |trial: &Trial| bench.won(trial).1;
    let most = bench.trials.iter().filter(pays).map(won).fold(0.0, f64::max);
    bench.trials.iter().filter(pays).find(|trial| won(trial) >= most * NEARLY)
}

/// The value below which polls are for nothing, if most of what is polled ends no halt: what is saved is noteworthy
/// beyond doubt, and the wake-ups that come later are a small part of it. Polls that succeed are left alone, whatever they
/// take: a host whose CPUs have nothing else to do may well want them.
fn shorter(bench: &Bench, wall: u64) -> Option<&Trial> {
    let recorded = bench.recorded();
    if recorded.missed.saturating_mul(2) < recorded.polling {
        return None;
    }
    let pays = |trial: &&Trial| {
        let ((_, won, _), (low, saved, _)) = (bench.won(trial), bench.saved(trial));
        low * NOTEWORTHY >= wall as f64 && -won * HIGH_PRICE <= saved
    };
    let saved = |trial: &Trial| bench.saved(trial).1;
    let most = bench.trials.iter().filter(pays).map(saved).fold(0.0, f64::max);
    bench.trials.iter().rev().filter(pays).find(|trial| saved(trial) >= most * NEARLY)
}

fn note(
    material: &Material,
    vm: Option<VmId>,
    halts: &HaltCell,
    bench: &Bench,
    judgement: &mut Judgement,
) -> Vec<FactId> {
    let recorded = bench.recorded();
    let share = recorded.caught as f64 / halts.halts().max(1) as f64;
    let mut facts = vec![
        judgement.note(vm, Topic::Halts, "halts a second", Figure::Rate(material.rate(halts.halts()))),
        judgement.note(vm, Topic::Halts, "part of the halts that KVM's polling caught", Figure::Share(share)),
        judgement.note(
            vm,
            Topic::Halts,
            "CPU time that KVM's polling took, in each second",
            Figure::Time(material.per_second(recorded.polling)),
        ),
    ];
    if let Some(gap) = halts.gaps().quantile(5_000) {
        facts.push(judgement.note(vm, Topic::Halts, "median gap, from the halt to what ends it", Figure::Time(gap)));
    }
    if let Some(latency) = halts.latencies().mean() {
        facts.push(judgement.note(
            vm,
            Topic::Halts,
            "mean time from the wake-up to the entry into the guest",
            Figure::Time(latency),
        ));
    }
    facts
}

/// What was chosen, and whose it is.
struct Choice<'a> {
    side: Side,
    vm: Option<VmId>,
    bench: &'a Bench,
    trial: &'a Trial,
    longer: bool,
}

fn advise(material: &Material, machine: &Machine, choice: Choice, facts: &[FactId], judgement: &mut Judgement) {
    let Choice { side, vm, bench, trial, longer } = choice;
    let name = if side == Side::Host { "halt_poll_ns" } else { "guest_halt_poll_ns" };
    let Some(knob) = knob(name) else { return };
    let (won, saved) = (bench.won(trial), bench.saved(trial));
    let time = |nanos: f64| material.per_second(nanos.max(0.0) as u64);
    let gain = |of: GainOf, (low, _, high): Range| Gain {
        of,
        low: time(low),
        high: time(high),
        how: How::Replayed(if side == Side::Host { "host_halt_poll" } else { "guest_halt_poll" }),
    };
    let value = knob.text(trial.value);
    let was = match (side, machine.polling.told) {
        (Side::Host, Some(told)) => format!(" (it was {told})"),
        _ => String::new(),
    };
    let caught = trial.came().caught;
    let change = match (side, longer, trial.value) {
        (Side::Host, true, _) => {
            format!("let KVM poll longer for halted vCPUs: {name}={value}{was} would catch {caught} halts")
        }
        (Side::Host, false, 0) => {
            format!("switch KVM's polling for halted vCPUs off: {name}=0{was}; it is mostly for nothing here")
        }
        (Side::Host, false, _) => {
            format!("let KVM poll less for halted vCPUs: {name}={value}{was}; most of it is for nothing here")
        }
        (Side::Guest, ..) => {
            format!(
                "let the guest poll before it halts, instead of KVM for it: {name}={value} would avoid {caught} exits and as \
                 many wake-ups"
            )
        }
    };
    let payer: Cow<'static, str> = match longer {
        true => {
            format!("the host's CPUs: {} more polling in each second; sibling hyperthreads feel it", time(-saved.1))
                .into()
        }
        false => format!("the guests: wake-ups later by {} in each second, all together", time(-won.1)).into(),
    };
    let vmm = vm.map_or(Vmm::Unknown, |vm| material.vmm(vm, machine));
    let plan = Plan {
        rule: match side {
            Side::Host => Rule::HostHaltPoll,
            Side::Guest => Rule::GuestHaltPoll,
        },
        subject: Subject::None,
        vm,
        change,
        settings: settings(&vmm, side, knob, trial.value, longer),
        gain: if longer { gain(GainOf::WakeUps, won) } else { gain(GainOf::HostCpu, saved) },
        risk: match (side, longer) {
            (Side::Host, true) => "KVM stops polling when another task wants the CPU, so that only power and \
                hyperthreads suffer; it acts on all VMs"
                .into(),
            (Side::Host, false) => "latencies of workloads that were not in this recording; it acts on all VMs".into(),
            (Side::Guest, _) => "a polling guest looks busy to its host and takes CPU time from others there: only \
                where each vCPU has a CPU to itself; the gaps are taken as they were, a guest that is answered sooner \
                may ask sooner"
                .into(),
        },
        payer,
        undo: match side {
            Side::Host => "exitscope advise --undo, or write the old value back".into(),
            Side::Guest => "in the guest: write the old value back, or modprobe -r cpuidle-haltpoll".into(),
        },
        acts: match side {
            Side::Host => halt_poll_reach(&machine.release).text().into(),
            Side::Guest => "at once, in the guest in which it is set; the guest's driver switches KVM's own polling \
                off for it where the host offers that (poll-control)"
                .into(),
        },
    };
    let id = judgement.advise(facts[0], &facts[1..], plan);
    judgement.say(vm, Covered::Halts, Said::Advice(id));
}

/// Polling is CPU time, which a quota of the VM's cgroup counts; no event tells of a quota.
const QUOTA: &str = "only where cpu.max of the VM's cgroup says max (libvirt: no <quota> in <cputune>): what is polled is taken \
    from a quota, and the recording does not say whether there is one";

const GOVERNOR: &str = "only where /sys/devices/system/cpu/cpuidle/current_governor in the guest is not haltpoll already, with a \
    longer guest_halt_poll_ns: the recording does not say";

fn settings(vmm: &Vmm, side: Side, knob: &'static Knob, value: u64, longer: bool) -> Vec<Setting> {
    let set = Setting::Knob { side, knob, value };
    let quota = longer.then_some(Setting::ByHand(QUOTA.into()));
    let settings = match side {
        Side::Host => vec![set],
        Side::Guest => vec![
            Setting::Module { side, name: "cpuidle-haltpoll", parameters: "force=1" },
            set,
            Setting::Libvirt { within: "features/kvm", xml: "<poll-control state='on'/>".into() },
            Setting::Qemu("-cpu …,kvm-poll-control=on".into()),
            Setting::ByHand(GOVERNOR.into()),
        ],
    };
    for_vmm(vmm, settings.into_iter().chain(quota).collect())
}

#[cfg(test)]
mod tests {
    use super::super::made::{end, exit, spent, vcpu};
    use super::*;
    use crate::{PollHost, Selection};
    use exitscope_model::{
        CodeList, Detail, DetailKind, EventKinds, Exit, ExitCode, Form, Halt, PollChange, TimePart, Told,
    };
    use exitscope_policy::guest_halt_poll::PollControl;
    use exitscope_units::{Moment, Nanos};

    const US: u64 = 1_000;

    /// A vCPU halts every 200 us; it is woken after `gap` and is back `back` later. KVM polls for `polled` of each.
    fn judged(gap: u64, back: u64, polled: u64) -> Judgement {
        judged_by(gap, back, polled, Some(polled), false, None)
    }

    /// The same, where the recording says that `halt_poll_ns` was `told`, the guest that it polls itself, and KVM how it
    /// changes its polls.
    fn judged_by(
        gap: u64,
        back: u64,
        polled: u64,
        told: Option<u64>,
        guest_polls: bool,
        change: Option<PollChange>,
    ) -> Judgement {
        let who = vcpu(0);
        let at = |nanos| Moment::from_nanos(nanos);
        let halts: Vec<Halt> = (1..=2_000)
            .map(|number| {
                let begin = number * 200 * US;
                Halt {
                    who,
                    begin: at(begin),
                    asleep: Some(at(begin + polled)),
                    woken: Some(at(begin + gap)),
                    told: Some(Told { length: Nanos(gap + back), waited: true, valid: true }),
                    change,
                    kicked: false,
                    end: at(begin + gap + back),
                    entered: Some(at(begin + gap + back)),
                }
            })
            .collect();
        let mut material = Material::new(&Selection::default());
        material.begin(at(0));
        material.heard(EventKinds { switches: true, ..EventKinds::default() });
        for halt in &halts {
            material.absorb_halt(halt);
            let hlt = exit(who, halt.begin.as_nanos(), ExitCode::new(CodeList::Vmx, 12));
            material.absorb(&Exit { guest: Nanos(100 * US), parts: spent(TimePart::Halted, gap + back), ..hlt });
        }
        if guest_polls {
            let (kind, key) = (DetailKind::Msr, u64::from(PollControl::MSR));
            let off = Detail { kind, write: true, form: Form::Untold, size: 0, key, value: 0 };
            material.absorb(&Exit { detail: Some(off), ..exit(who, 1, ExitCode::new(CodeList::Vmx, 32)) });
        }
        end(&mut material, &[who], 2_001 * 200 * US);
        let polling = PollHost { told: told.map(Nanos), ..PollHost::default() };
        let (arch, release) = ("x86_64".to_string(), "6.1.0".to_string());
        let machine = Machine { arch, release, polling, ..Machine::default() };
        let mut trials = Trials::new(&material, &machine);
        halts.iter().for_each(|halt| trials.absorb_halt(halt));
        let mut judgement = Judgement::default();
        judge(&material, &trials, &machine, &mut judgement);
        judgement.rank();
        judgement
    }

    fn knobs(judgement: &Judgement) -> Vec<(&'static str, u64)> {
        let settings = judgement.advice().iter().flat_map(|advice| &advice.plan().settings);
        settings
            .filter_map(|setting| match setting {
                Setting::Knob { knob, value, .. } => Some((knob.name, *value)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn short_gaps_and_dear_wake_ups_want_polls_just_long_enough() {
        // Of 20 us a poll would be long enough, but KVM does not grow one after halts (45 us) beyond halt_poll_ns.
        let judgement = judged(15 * US, 30 * US, 0);
        assert_eq!(knobs(&judgement), [("guest_halt_poll_ns", 50_000), ("halt_poll_ns", 50_000)]);
        for advice in judgement.advice() {
            let gain = advice.plan().gain;
            assert!(gain.low > Nanos::ZERO && gain.low <= gain.high, "{gain:?}");
            assert!(!advice.evidence().is_empty());
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(super::super::spelling::misspelt).collect();
            assert_eq!(misspelt, Vec::<String>::new());
        }
        // Ten milliseconds of the recording hold 50 halts, each of which is back 30 us sooner.
        let host = judgement.advice().iter().find(|advice| advice.plan().vm.is_none()).unwrap().plan();
        assert!((140_000_000..151_000_000).contains(&host.gain.high.0), "{:?}", host.gain);
    }

    /// What must not be said, and why; the sources are named in `unknown_host` and at QUOTA.
    #[test]
    fn longer_polls_are_not_advised_where_they_are_no_longer_or_nobody_knows() {
        let host = |judgement: &Judgement| knobs(judgement).into_iter().find(|row| row.0 == "halt_poll_ns");
        let grown = Some(PollChange { grow: true, old: 10_000, new: 20_000 });
        for (what, told, guest_polls, change, advised) in [
            ("it was off", Some(0), false, None, Some(50_000)),
            ("it was longer than the gaps, and KVM polled for none", Some(20_000), false, None, None),
            ("what was tried is no longer than what was in force", Some(50_000), false, None, None),
            ("nor than this", Some(400_000), false, None, None),
            ("what was in force is not in the recording", None, false, None, None),
            ("the guest switched it off", Some(0), true, None, None),
            ("the VMM had set another", Some(0), false, grown, None),
        ] {
            // Of 20,000 ns, polls would have ended halts of 15 us: that none did says that somebody switched them off.
            let judgement = judged_by(15 * US, 30 * US, 0, told, guest_polls, change);
            assert_eq!(host(&judgement).map(|row| row.1), advised, "{what}");
        }
        let judgement = judged(15 * US, 30 * US, 0);
        for advice in judgement.advice() {
            let quota = |setting: &Setting| matches!(setting, Setting::ByHand(text) if text.contains("cpu.max"));
            assert!(advice.plan().settings.iter().any(quota), "{:?}", advice.plan().settings);
        }
    }

    #[test]
    fn polls_for_nothing_are_advised_against() {
        // With 50 us no halt is short enough for a poll to grow; a longer value would poll, a shorter one save no more.
        assert_eq!(knobs(&judged(90 * US, US, 80 * US)), [("halt_poll_ns", 50_000)]);
    }

    #[test]
    fn long_gaps_and_cheap_wake_ups_want_nothing() {
        assert_eq!(knobs(&judged(90 * US, 2 * US, 0)), []);
        assert_eq!(knobs(&judged(60 * US, 5 * US, US)), []);
    }
}
