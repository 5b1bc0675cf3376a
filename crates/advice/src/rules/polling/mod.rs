//! Rules about halt polling, the host's and the guest's: longer, shorter, off.
//!
//! Polling buys earlier wake-ups with CPU time. It is advised where the price is low, and advised against where it is
//! high; between the two it is a matter of taste, and nothing is said. Nothing is said either where the recording does not
//! tell what was in force, or where KVM polled for nobody although it should have.

mod wording;

pub(crate) use wording::RESTORE;

use super::RuleInput;
use super::not_judged::{Gap, Lacks};
use crate::cause::{Covered, RuleAnswer};
use crate::evidence::input::{AdviceInput, RecordedHost, VmTime, Vmm, total};
use crate::evidence::trials::{MOST_GUESTS, PollCandidates, Trial, Trials};
use crate::judgement::{
    CitedFactId, CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, NotJudged, Rule, Topic,
};
use exitscope_analysis::record_commands::Missed;
use exitscope_analysis::{HaltStats, PollSettings};
use exitscope_policy::knob;
use exitscope_units::{Nanos, VmId};

/// Another limit of the host's halt polling.
pub(crate) const HOST_HALT_POLL: Rule = Rule::one_of(WHO_POLLS, "host_halt_poll");

/// Halt polling by the guest.
pub(crate) const GUEST_HALT_POLL: Rule = Rule::one_of(WHO_POLLS, "guest_halt_poll");

/// For a guest that polls KVM does not (`kvm_arch_no_poll` in arch/x86/kvm/x86.c).
const WHO_POLLS: &str = "who polls";

/// The most CPU time that polling may take for a wake-up that is sooner by one: what is bought is worth more than idle
/// CPU time, but not any amount of it.
const FAIR_PRICE: f64 = 3.0;

/// A price from which on polling is mostly for nothing.
const HIGH_PRICE: f64 = 10.0;

/// Polling that takes less than one part in so many of the halting vCPUs' time is not worth a thought.
const NOTEWORTHY: f64 = 20.0;

/// Of what the best value wins, a cheaper one must win so much to be preferred.
const GOOD_ENOUGH_SHARE: f64 = 0.9;

/// Halts at least: chance decides about fewer.
pub(crate) const FEWEST: u64 = 200;

/// Nobody must poll on a CPU that others wait for: at most one part in so many of the time that vCPUs want is waited.
const MAX_STEAL_SHARE: u64 = 20;

/// What is not judged of halts' polls.
pub(crate) const GAPS: &[Gap] = &[
    Gap {
        what: "host halt polling",
        lacks: Lacks::Events(&[Missed::HaltEnds]),
        missing: |of| (halting(of) && !of.selected.facts.halts.all().has_wakeups()).then_some(wording::NO_ENDS),
    },
    Gap {
        what: "whether polling pays",
        lacks: Lacks::Nothing,
        missing: |of| (lacks_wakeups(of) && of.selected.facts.event_kinds.by_runner).then_some(wording::BY_RUNNER),
    },
    Gap {
        what: "whether polling pays",
        lacks: Lacks::Events(&[Missed::Scheduler]),
        missing: |of| (lacks_wakeups(of) && !of.selected.facts.event_kinds.by_runner).then_some(wording::NO_WAKEUPS),
    },
    Gap {
        what: "what other halt polling would gain",
        lacks: Lacks::Events(&[Missed::Scheduler]),
        missing: |of| {
            let all = of.selected.facts.halts.all();
            let is_exact = halting(of) && all.is_exact() && all.has_wakeups();
            (is_exact && !is_known(of.selected)).then_some(wording::NO_POLLS)
        },
    },
    Gap {
        what: "host halt polling",
        lacks: Lacks::AnotherRecording,
        missing: |of| unknown_host(of.selected, of.trials, of.host),
    },
    Gap {
        what: "the guest's polling",
        lacks: Lacks::AnotherRecording,
        missing: |of| (halting(of) && of.selected.facts.halts.guest_polls).then_some(wording::GUEST_POLLED),
    },
    Gap {
        what: "what other halt polling would gain",
        lacks: Lacks::AnotherRecording,
        missing: |of| of.trials.untried.halts.then_some(wording::HALTS_UNTRIED),
    },
];

fn halting(of: &RuleInput<'_>) -> bool {
    of.selected.facts.halts.all().halts() > 0 && !of.host.xen
}

/// Whether nothing says when halts that ended were woken.
fn lacks_wakeups(of: &RuleInput<'_>) -> bool {
    let halts = of.selected.facts.halts.all();
    halting(of) && halts.has_wakeups() && !halts.is_exact()
}

/// Why no rule about polls says more of halts, if the recording lacks something for it.
pub(crate) fn unjudged(judgement: &Judgement) -> Option<RuleAnswer> {
    let is_of_halts = |of: &&NotJudged| GAPS.iter().any(|gap| gap.what == of.what);
    let of = judgement.not_judged.iter().find(is_of_halts)?;
    let why = format!("{}: {}", of.what, of.missing);
    Some(match of.record {
        Some(command) => RuleAnswer::NotRecorded(format!("{why}; record with {command}")),
        None => RuleAnswer::NotJudged(why),
    })
}

pub(crate) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let all = input.facts.halts.all();
    if all.halts() < FEWEST || host.xen {
        return;
    }
    let wall = of_halting(input, |time| time.wall);
    let exact = all.is_exact();
    if exact && is_known(input) && unknown_host(input, trials, host).is_none() && !trials.untried.halts {
        judge_host(input, host, &trials.host, wall, judgement);
    }
    // A guest that seems to have switched KVM's polling off may poll already.
    let may_poll = halt_poll_ns(input, host).is_some() && unknown_host(input, trials, host).is_some();
    if !host.arch.starts_with("x86") || may_poll || input.facts.halts.guest_polls || !exact {
        return;
    }
    if !input.facts.event_kinds.switches {
        return;
    }
    for (vm, candidates) in trials.guests.iter().take(MOST_GUESTS) {
        let halts = input.halts(*vm);
        let Some(time) = input.vms.get(vm).filter(|_| halts.halts() >= FEWEST) else { continue };
        if is_short(time.steal, time.wanted()) || input.is_throttled(*vm) {
            continue;
        }
        if let Some(trial) = self::longer(candidates, time.wall) {
            let facts = note(input, Some(*vm), &halts, candidates, judgement);
            let choice = ChosenPollLimit { vm: Some(*vm), candidates, trial, what: PollLimitChange::Guest };
            advise(input, host, choice, &facts, judgement);
        }
    }
}

/// A figure of all VMs that halt, together.
pub(crate) fn of_halting(input: &AdviceInput, figure: impl Fn(&VmTime) -> u64) -> u64 {
    total(input.halting_vms().iter().filter_map(|(vm, _)| input.vms.get(vm)).map(figure))
}

/// Whether the recording tells how KVM polled.
pub(crate) fn is_known(input: &AdviceInput) -> bool {
    input.facts.halts.all().has_wakeups() && (input.facts.event_kinds.polls || input.facts.event_kinds.switches)
}

/// The limit of KVM's polls, as the recording tells it, or as the decisions for all VMs show it.
fn halt_poll_ns(input: &AdviceInput, host: &RecordedHost) -> Option<Nanos> {
    let settings = input.facts.halts.settings.values().filter(|seen| seen.changes > 0);
    let mut shown = settings.map(|seen| seen.shown(&host.polling));
    let of_one = shown.next().flatten();
    host.polling.in_force.or(of_one.filter(|_| shown.all(|next| next == of_one)))
}

/// Why host halt polling is not judged, though the recording has the events for it.
pub(crate) fn unknown_host(input: &AdviceInput, trials: &Trials, host: &RecordedHost) -> Option<&'static str> {
    let all = input.facts.halts.all();
    if host.xen || all.halts() < FEWEST || !all.is_exact() || !is_known(input) {
        return None;
    }
    if input.facts.halts.guest_polls {
        // `kvm_arch_no_poll` in arch/x86/kvm/x86.c: KVM does not poll for a vCPU in whose MSR_KVM_POLL_CONTROL bit 0 is clear.
        return Some(wording::GUEST_SWITCHED_IT_OFF);
    }
    let Some(in_force) = halt_poll_ns(input, host) else {
        return Some(wording::LIMIT_UNKNOWN);
    };
    let differs = |seen: &PollSettings| {
        let (more_than, less_than) = seen.bounds();
        seen.changes > 0 && (more_than >= in_force.0 || less_than.is_some_and(|less| less <= in_force.0))
    };
    if input.facts.halts.settings.values().any(differs) {
        return Some(wording::ANOTHER_LIMIT);
    }
    // Of gaps so short KVM's poll grows; a quarter of them at least.
    let short = all.gaps().quantile(2_500).is_some_and(|gap| gap.0 < in_force.0);
    (short && trials.host.recorded().polling == 0).then_some(wording::NEVER_POLLED)
}

/// The host's own polling.
fn judge_host(
    input: &AdviceInput,
    host: &RecordedHost,
    candidates: &PollCandidates,
    wall: u64,
    judgement: &mut Judgement,
) {
    let all = input.facts.halts.all();
    let waiting = total(input.vms.values().map(|time| time.steal));
    let wanted = total(input.vms.values().map(VmTime::wanted));
    let choice = |trial, what| ChosenPollLimit { vm: None, candidates, trial, what };
    let Some(in_force) = halt_poll_ns(input, host) else { return };
    let longer = longer(candidates, wall).filter(|trial| trial.value > in_force.0);
    let shorter = shorter(candidates, wall).filter(|trial| trial.value < in_force.0);
    match (longer, shorter) {
        (Some(_), _) if input.vms.keys().any(|vm| input.is_throttled(*vm)) => {
            let facts = note(input, None, &all, candidates, judgement);
            judgement.accept_cost(facts[0], &facts[1..], wording::UNDER_A_QUOTA);
            judgement.say(None, Covered::Halts, RuleAnswer::Inherent(wording::UNDER_A_QUOTA.into()));
        }
        (Some(_), _) if is_short(waiting, wanted) => {
            let facts = note(input, None, &all, candidates, judgement);
            judgement.accept_cost(facts[0], &facts[1..], wording::CPUS_SHORT);
            judgement.say(None, Covered::Halts, RuleAnswer::Inherent(wording::CPUS_SHORT.into()));
        }
        (Some(trial), _) => {
            let facts = note(input, None, &all, candidates, judgement);
            advise(input, host, choice(trial, PollLimitChange::LongerHost), &facts, judgement);
        }
        (None, Some(trial)) => {
            let facts = note(input, None, &all, candidates, judgement);
            advise(input, host, choice(trial, PollLimitChange::ShorterHost), &facts, judgement);
        }
        (None, None) => {
            judgement.say(None, Covered::Halts, RuleAnswer::Inherent(wording::NONE_PAYS.into()));
        }
    }
}

/// Whether CPUs are short.
pub(crate) fn is_short(waiting: u64, wanted: u64) -> bool {
    waiting.saturating_mul(MAX_STEAL_SHARE) > wanted
}

/// The value at which polls pay, if there is one: sooner wake-ups are worth the change beyond doubt, at a fair price.
fn longer(candidates: &PollCandidates, wall: u64) -> Option<&Trial> {
    let pays = |trial: &&Trial| {
        let ((low, won, _), (_, saved, _)) = (candidates.latency_gain(trial), candidates.cpu_gain(trial));
        low * MIN_COST_SHARE as f64 >= wall as f64 && -saved <= won * FAIR_PRICE
    };
    let won = |trial: &Trial| candidates.latency_gain(trial).1;
    let most = candidates.trials.iter().filter(pays).map(won).fold(0.0, f64::max);
    candidates.trials.iter().filter(pays).find(|trial| won(trial) >= most * GOOD_ENOUGH_SHARE)
}

/// The value below which polls are for nothing, if most of what is polled ends no halt: what is saved is noteworthy
/// beyond doubt, and the wake-ups that come later are a small part of it. Polls that succeed are left alone, whatever they
/// take: a host whose CPUs have nothing else to do may well want them.
fn shorter(candidates: &PollCandidates, wall: u64) -> Option<&Trial> {
    let recorded = candidates.recorded();
    if recorded.missed.saturating_mul(2) < recorded.polling {
        return None;
    }
    let pays = |trial: &&Trial| {
        let ((_, won, _), (low, saved, _)) = (candidates.latency_gain(trial), candidates.cpu_gain(trial));
        low * NOTEWORTHY >= wall as f64 && -won * HIGH_PRICE <= saved
    };
    let saved = |trial: &Trial| candidates.cpu_gain(trial).1;
    let most = candidates.trials.iter().filter(pays).map(saved).fold(0.0, f64::max);
    candidates.trials.iter().rev().filter(pays).find(|trial| saved(trial) >= most * GOOD_ENOUGH_SHARE)
}

fn note(
    input: &AdviceInput,
    vm: Option<VmId>,
    halts: &HaltStats,
    candidates: &PollCandidates,
    judgement: &mut Judgement,
) -> Vec<CitedFactId> {
    let recorded = candidates.recorded();
    let share = recorded.successful_polls as f64 / halts.halts().max(1) as f64;
    let mut facts = vec![
        judgement.cite(vm, Topic::Halts, "halts a second", CitedValue::Rate(input.rate(vm, halts.halts()))),
        judgement.cite(vm, Topic::Halts, "share of the halts that successful polls ended", CitedValue::Share(share)),
        judgement.cite(
            vm,
            Topic::Halts,
            "CPU time that KVM's polling took, in each second",
            CitedValue::Time(input.per_second(vm, recorded.polling)),
        ),
    ];
    if let Some(gap) = halts.gaps().quantile(5_000) {
        facts.push(judgement.cite(
            vm,
            Topic::Halts,
            "median time from a halt to the event that ends it",
            CitedValue::Time(gap),
        ));
    }
    if let Some(latency) = halts.latencies().mean() {
        facts.push(judgement.cite(
            vm,
            Topic::Halts,
            "mean time from the wake-up to the entry into the guest",
            CitedValue::Time(latency),
        ));
    }
    facts
}

/// What was chosen, and whose it is.
struct ChosenPollLimit<'a> {
    vm: Option<VmId>,
    candidates: &'a PollCandidates,
    trial: &'a Trial,
    what: PollLimitChange,
}

/// A change of halt polling.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum PollLimitChange {
    /// The host polls for longer.
    LongerHost,
    /// It polls shorter, or not at all.
    ShorterHost,
    /// A guest polls itself.
    Guest,
}

fn advise(
    input: &AdviceInput,
    host: &RecordedHost,
    choice: ChosenPollLimit,
    facts: &[CitedFactId],
    judgement: &mut Judgement,
) {
    let ChosenPollLimit { vm, candidates, trial, what } = choice;
    let (name, policy, rule) = match what {
        PollLimitChange::LongerHost | PollLimitChange::ShorterHost => {
            ("halt_poll_ns", "host_halt_poll", HOST_HALT_POLL)
        }
        PollLimitChange::Guest => ("guest_halt_poll_ns", "guest_halt_poll", GUEST_HALT_POLL),
    };
    let Some(knob) = knob(name) else { return };
    let (won, saved) = (candidates.latency_gain(trial), candidates.cpu_gain(trial));
    let time = |nanos: f64| input.per_second(vm, nanos.max(0.0) as u64);
    let (of, (low, mean, high), price) = match what {
        PollLimitChange::LongerHost | PollLimitChange::Guest => (GainOf::WakeUps, won, -saved.1),
        PollLimitChange::ShorterHost => (GainOf::HostCpu, saved, -won.1),
    };
    let gain = Gain {
        of,
        headline: time(mean),
        low: time(low),
        high: time(high),
        may_wait: false,
        how: GainMethod::Replayed(policy),
    };
    let vmm = vm.map_or(Vmm::Unknown, |vm| input.vmm(vm, host));
    let words = wording::PollWords {
        what,
        knob,
        value: trial.value,
        was: was(input, host),
        caught: trial.total().successful_polls,
        price: time(price),
        release: &host.release,
    };
    let id = judgement.advise(facts[0], &facts[1..], words.words(&vmm).of(rule, vm, gain));
    judgement.say(vm, Covered::Halts, RuleAnswer::Advice(id));
}

/// What limits KVM's polls, and whether the recording says so itself.
fn was(input: &AdviceInput, host: &RecordedHost) -> Option<(Nanos, bool)> {
    halt_poll_ns(input, host).map(|limit| (limit, host.polling.in_force.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::trials::HaltTotals;
    use crate::setting::AdviceSetting;
    use crate::test_exits::{end, exit, preemption, spent, vcpu};
    use exitscope_analysis::{RecordedHaltPolling, Selection};
    use exitscope_model::{
        CodeList, EventKinds, Exit, ExitCode, Halt, PollChange, PortAccessForm, Subject, SubjectKind, TimePart,
        VcpuWakeup,
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
        in_force: Option<u64>,
        guest_polls: bool,
        change: Option<PollChange>,
    ) -> Judgement {
        Case { gap, back, polled, in_force, guest_polls, change, ..CASE }.judged()
    }

    /// What is judged, and on what.
    #[derive(Clone, Copy)]
    struct Case {
        gap: u64,
        back: u64,
        polled: u64,
        in_force: Option<u64>,
        guest_polls: bool,
        change: Option<PollChange>,
        /// Halts, one each 200 us.
        halts: u64,
        /// Of the halts, those that nothing says the wake-up of.
        inexact: u64,
        arch: &'static str,
        xen: bool,
        switches: bool,
        polls: bool,
        /// CPUs that were left idle while a vCPU wanted to run on, and steal after each halt.
        idle: u64,
        steal: u64,
        untried: bool,
    }

    /// Polls of 50 us are worth it in either.
    const CASE: Case = Case {
        gap: 15 * US,
        back: 30 * US,
        polled: 0,
        in_force: Some(0),
        guest_polls: false,
        change: None,
        halts: 2_000,
        inexact: 0,
        arch: "x86_64",
        xen: false,
        switches: true,
        polls: false,
        idle: 0,
        steal: 0,
        untried: false,
    };

    impl Case {
        fn read(&self) -> (AdviceInput, Trials, RecordedHost) {
            let Case { gap, back, polled, in_force, guest_polls, change, .. } = *self;
            let who = vcpu(0);
            let at = |nanos| Moment::from_nanos(nanos);
            let halts: Vec<Halt> = (1..=self.halts)
                .map(|number| {
                    let begin = number * 200 * US;
                    Halt {
                        who,
                        begin: at(begin),
                        asleep: Some(at(begin + polled)),
                        woken: (number > self.inexact).then_some(at(begin + gap)),
                        vcpu_wakeup: Some(VcpuWakeup {
                            length: Nanos(gap + back),
                            waited: true,
                            valid: true,
                            may_poll: true,
                        }),
                        change,
                        kicked: false,
                        ipi: None,
                        end: at(begin + gap + back),
                        entered: Some(at(begin + gap + back)),
                    }
                })
                .collect();
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(at(0));
            input.note_event_kinds(EventKinds { switches: self.switches, polls: self.polls, ..EventKinds::default() });
            for halt in &halts {
                input.absorb_halt(halt);
                let hlt = exit(who, halt.begin.as_nanos(), ExitCode::new(CodeList::Vmx, 12));
                let parts = spent(TimePart::Halted, gap + back).with(TimePart::Steal, Nanos(self.steal));
                input.absorb(&Exit { guest: Nanos(100 * US), parts, ..hlt });
            }
            if guest_polls {
                let (kind, key) = (SubjectKind::Msr, u64::from(PollControl::MSR));
                let off = Subject { kind, write: true, form: PortAccessForm::Unknown, size: 0, key, value: 0 };
                input.absorb(&Exit { subject: Some(off), ..exit(who, 1, ExitCode::new(CodeList::Vmx, 32)) });
            }
            for number in 0..self.idle {
                let of = preemption(who, at(number), None);
                input.absorb_preemption(&of);
            }
            end(&mut input, &[who], (self.halts + 1) * 200 * US);
            let polling = RecordedHaltPolling { in_force: in_force.map(Nanos), ..RecordedHaltPolling::default() };
            let (arch, release) = (self.arch.to_string(), "6.1.0".to_string());
            let host = RecordedHost { arch, release, polling, xen: self.xen, ..RecordedHost::default() };
            let mut trials = Trials::new(&input, &host);
            halts.iter().for_each(|halt| trials.absorb_halt(halt));
            trials.untried.halts = self.untried;
            (input, trials, host)
        }

        fn judged(&self) -> Judgement {
            let (input, trials, host) = self.read();
            let mut judgement = Judgement::default();
            judge(&input, &trials, &host, &mut judgement);
            judgement.rank();
            judgement
        }

        fn unknown(&self) -> Option<&'static str> {
            let (input, trials, host) = self.read();
            unknown_host(&input, &trials, &host)
        }
    }

    fn knobs(judgement: &Judgement) -> Vec<(&'static str, u64)> {
        let settings = judgement.advice().iter().flat_map(|advice| &advice.plan().settings);
        settings
            .filter_map(|setting| match setting {
                AdviceSetting::Knob { knob, value, .. } => Some((knob.name, *value)),
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
            let misspelt: Vec<_> = advice.plan().settings.iter().flat_map(crate::setting_syntax::misspelt).collect();
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
        for (what, in_force, guest_polls, change, advised) in [
            ("it was off", Some(0), false, None, Some(50_000)),
            ("it was longer than the gaps, and KVM polled for none", Some(20_000), false, None, None),
            ("what was tried is no longer than what was in force", Some(50_000), false, None, None),
            ("nor than this", Some(400_000), false, None, None),
            ("what was in force is not in the recording", None, false, None, None),
            ("the guest switched it off", Some(0), true, None, None),
            ("the VMM had set another", Some(0), false, grown, None),
        ] {
            // Of 20,000 ns, polls would have ended halts of 15 us: that none did says that somebody switched them off.
            let judgement = judged_by(15 * US, 30 * US, 0, in_force, guest_polls, change);
            assert_eq!(host(&judgement).map(|row| row.1), advised, "{what}");
        }
        let judgement = judged(15 * US, 30 * US, 0);
        for advice in judgement.advice() {
            let quota =
                |setting: &AdviceSetting| matches!(setting, AdviceSetting::ByHand(text) if text.contains("cpu.max"));
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

    #[test]
    fn whose_polls_are_judged_is_told_by_what_the_recording_has() {
        let (both, guest, host, none) =
            (&["guest_halt_poll_ns", "halt_poll_ns"][..], &["guest_halt_poll_ns"][..], &["halt_poll_ns"][..], &[][..]);
        for (what, case, advised) in [
            ("all that is needed", CASE, both),
            ("as few halts as are judged", Case { halts: 200, ..CASE }, both),
            ("one less", Case { halts: 199, ..CASE }, none),
            ("Xen", Case { xen: true, ..CASE }, none),
            ("one wake-up in twenty is not known", Case { inexact: 100, ..CASE }, both),
            ("one more", Case { inexact: 101, ..CASE }, none),
            ("KVM's polls alone", Case { switches: false, polls: true, ..CASE }, host),
            ("neither the scheduler's events nor KVM's polls", Case { switches: false, ..CASE }, none),
            ("Arm, whose guests have no such governor", Case { arch: "aarch64", ..CASE }, host),
            ("nothing says what was in force", Case { in_force: None, ..CASE }, guest),
            ("a guest that polls already", Case { guest_polls: true, ..CASE }, none),
            ("a guest that seems to poll already", Case { in_force: Some(20_000), ..CASE }, none),
            ("halts that were not tried on the host's", Case { untried: true, ..CASE }, guest),
            // Before each halt 100 us in the guest: of 105,263 ns that are wanted 5,263 are just less than a twentieth.
            ("steal of a twentieth of what vCPUs want", Case { steal: 5_263, ..CASE }, both),
            ("a little more", Case { steal: 5_264, ..CASE }, none),
            ("CPUs left idle, as by a quota", Case { idle: 10, ..CASE }, none),
            ("a few, as by chance", Case { idle: 9, ..CASE }, both),
        ] {
            let judgement = case.judged();
            // Which of both wins more is not the question.
            let mut names: Vec<&str> = knobs(&judgement).into_iter().map(|row| row.0).collect();
            names.sort_unstable();
            assert_eq!(names, advised, "{what}");
        }
    }

    #[test]
    fn what_keeps_the_hosts_polls_from_being_judged_is_said() {
        let changed = |grow, old| Some(PollChange { grow, old, new: old * 2 });
        // All halts are of 45 us. KVM polls for 10 us.
        let case = Case { polled: 10 * US, in_force: Some(10 * US), ..CASE };
        for (what, case, why) in [
            ("all is known", case, None),
            ("too few halts", Case { halts: 199, in_force: None, ..case }, None),
            ("enough", Case { halts: 200, in_force: None, ..case }, Some("does not show halt_poll_ns")),
            ("Xen", Case { xen: true, in_force: None, ..case }, None),
            ("no wake-ups", Case { inexact: 101, in_force: None, ..case }, None),
            ("no polls", Case { switches: false, in_force: None, ..case }, None),
            ("KVM's polls alone", Case { switches: false, polls: true, in_force: None, ..case }, Some("does not show")),
            ("a guest polls", Case { guest_polls: true, ..case }, Some("the guest switched KVM's halt polling off")),
            ("a poll grew from less", Case { change: changed(true, 44_000), in_force: Some(45_001), ..case }, None),
            (
                "a poll grew after as long a halt",
                Case { change: changed(true, 44_000), in_force: Some(45_000), ..case },
                Some("KVM's decisions do not follow"),
            ),
            (
                "a poll shrank after a halt",
                Case { change: changed(false, 44_000), in_force: Some(44_999), ..case },
                None,
            ),
            (
                "a poll shrank after as short a halt",
                Case { change: changed(false, 44_000), in_force: Some(45_000), ..case },
                Some("KVM's decisions do not follow"),
            ),
            ("KVM polled for none", Case { polled: 0, in_force: Some(16_000), ..case }, Some("KVM polled at no halt")),
            ("and had no reason to", Case { polled: 0, in_force: Some(14_000), ..case }, None),
        ] {
            match (case.unknown(), why) {
                (Some(said), Some(why)) => assert!(said.contains(why), "{what}: {said}"),
                (said, why) => assert_eq!(said, why, "{what}"),
            }
        }
    }

    #[test]
    fn cpus_are_short_if_more_than_a_twentieth_of_what_is_wanted_is_waited_for() {
        for (waiting, wanted, short) in
            [(0, 0, false), (50, 1_000, false), (51, 1_000, true), (50, 999, true), (3, 61, false)]
        {
            assert_eq!(is_short(waiting, wanted), short, "{waiting} of {wanted}");
        }
    }

    /// Of ten parts each: what was recorded, and what values made of it: polling and latency.
    fn candidates(recorded: HaltTotals, tried: &[(u64, u64, u64)]) -> PollCandidates {
        let came = |&(value, polling, latency): &(u64, u64, u64)| {
            (value, HaltTotals { polling, latency, ..HaltTotals::default() })
        };
        PollCandidates::made(recorded, &tried.iter().map(came).collect::<Vec<_>>())
    }

    #[test]
    fn longer_polls_pay_at_a_fair_price_and_no_longer_than_wins_nearly_all() {
        let recorded = HaltTotals { polling: 5_000, latency: 2_000, ..HaltTotals::default() };
        for (what, tried, wall, found) in [
            ("a hundredth of the time", &[(20_000, 5_000, 1_900)][..], 100_000, Some(20_000)),
            ("less", &[(20_000, 5_000, 1_900)], 100_001, None),
            ("three times as much polling", &[(20_000, 5_300, 1_900)], 100_000, Some(20_000)),
            ("more", &[(20_000, 5_301, 1_900)], 100_000, None),
            ("less polling than there was", &[(20_000, 1, 1_900)], 100_000, Some(20_000)),
            ("nearly all of what most wins", &[(20_000, 5_000, 1_910), (50_000, 5_000, 1_900)], 50_000, Some(20_000)),
            ("less than nearly all", &[(20_000, 5_000, 1_911), (50_000, 5_000, 1_900)], 50_000, Some(50_000)),
            // What most wins is looked for among what pays.
            ("one that is too dear", &[(20_000, 5_000, 1_900), (50_000, 9_000, 1_000)], 50_000, Some(20_000)),
            ("nothing", &[(20_000, 5_000, 2_000)], 1, None),
        ] {
            let candidates = candidates(recorded, tried);
            assert_eq!(longer(&candidates, wall).map(|trial| trial.value), found, "{what}");
        }
    }

    #[test]
    fn shorter_polls_pay_if_half_of_all_polling_fails_and_little_is_lost() {
        let recorded = HaltTotals { polling: 5_000, missed: 2_500, latency: 2_000, ..HaltTotals::default() };
        for (what, missed, tried, wall, found) in [
            ("a twentieth of the time, half of it failed", 2_500, &[(20_000, 4_000, 2_000)][..], 200_000, Some(20_000)),
            ("less than half", 2_499, &[(20_000, 4_000, 2_000)], 200_000, None),
            ("more than half", 2_501, &[(20_000, 4_000, 2_000)], 200_000, Some(20_000)),
            ("less than a twentieth", 2_500, &[(20_000, 4_000, 2_000)], 200_001, None),
            ("a tenth of what is saved is lost", 2_500, &[(20_000, 4_000, 2_100)], 200_000, Some(20_000)),
            ("more", 2_500, &[(20_000, 4_000, 2_101)], 200_000, None),
            ("wake-ups are sooner besides", 2_500, &[(20_000, 4_000, 1_000)], 200_000, Some(20_000)),
            ("nearly all", 2_500, &[(10_000, 4_000, 2_000), (20_000, 4_100, 2_000)], 100_000, Some(20_000)),
            ("less than nearly all", 2_500, &[(10_000, 4_000, 2_000), (20_000, 4_101, 2_000)], 100_000, Some(10_000)),
            ("one that loses too much", 2_500, &[(0, 0, 9_000), (20_000, 4_000, 2_000)], 100_000, Some(20_000)),
        ] {
            let candidates = candidates(HaltTotals { missed, ..recorded }, tried);
            assert_eq!(shorter(&candidates, wall).map(|trial| trial.value), found, "{what}");
        }
    }

    /// Of a recording of one VM whose vCPUs want 1,000 ns, and of as many VMs as there are.
    fn hosted(in_force: u64, candidates: &PollCandidates, steal: u64, idle: u64) -> (Judgement, Option<RuleAnswer>) {
        let mut input = AdviceInput::new(&Selection::default());
        input.vms.insert(VmId(1), VmTime { guest: 1_000 - steal, steal, ..VmTime::default() });
        let of = preemption(vcpu(0), Moment::default(), None);
        (0..idle).for_each(|_| input.absorb_preemption(&of));
        let polling = RecordedHaltPolling { in_force: Some(Nanos(in_force)), ..RecordedHaltPolling::default() };
        let mut judgement = Judgement::default();
        judge_host(&input, &RecordedHost { polling, ..RecordedHost::default() }, candidates, 100_000, &mut judgement);
        let said = judgement.said(VmId(1)).next().map(|row| row.1.clone());
        (judgement, said)
    }

    #[test]
    fn the_hosts_polls_get_longer_or_shorter_than_they_were_or_stay() {
        let recorded = HaltTotals { successful_polls: 1, polling: 5_000, missed: 4_000, latency: 2_000 };
        let (longer, shorter) = ((50_000, 5_000, 1_800), (10_000, 1_000, 2_000));
        let inherent = |said: &Option<RuleAnswer>, says: &str| matches!(said, Some(RuleAnswer::Inherent(why)) if why.contains(says));
        for (in_force, tried, value, change) in [
            (
                49_999,
                &[shorter, longer][..],
                Some(50_000),
                "lengthen host halt polling: halt_poll_ns=50000 (it was 50.0us)",
            ),
            (
                50_000,
                &[shorter, longer],
                Some(10_000),
                "shorten host halt polling: halt_poll_ns=10000 (it was 50.0us); most",
            ),
            (10_001, &[shorter], Some(10_000), "shorten host halt polling"),
            (10_000, &[shorter], None, ""),
            (50_000, &[longer], None, ""),
            (10_000, &[(0, 1_000, 2_000)], Some(0), "disable host halt polling: halt_poll_ns=0 (it was 10.0us)"),
        ] {
            let (judgement, said) = hosted(in_force, &candidates(recorded, tried), 0, 0);
            assert_eq!(knobs(&judgement), value.map(|value| ("halt_poll_ns", value)).into_iter().collect::<Vec<_>>());
            match judgement.advice() {
                [advice] => assert!(advice.plan().change.contains(change), "{in_force}: {}", advice.plan().change),
                advice => {
                    assert_eq!(advice.len(), 0);
                    assert!(inherent(&said, "no other halt_poll_ns"), "{in_force}: {said:?}");
                }
            }
        }
        let candidates = candidates(recorded, &[longer]);
        for (steal, idle, why) in [
            (50, 9, None),
            (51, 9, Some("polling would not bring wake-ups forward")),
            (50, 10, Some("longer polls would use up a quota")),
            (51, 10, Some("longer polls would use up a quota")),
        ] {
            let (judgement, said) = hosted(10_000, &candidates, steal, idle);
            assert_eq!(judgement.advice().len(), usize::from(why.is_none()), "{steal} {idle}");
            assert_eq!(judgement.left_alone.len(), usize::from(why.is_some()), "{steal} {idle}");
            if let Some(why) = why {
                assert!(inherent(&said, why) && judgement.left_alone[0].why.contains(why), "{steal} {idle}: {said:?}");
            }
        }
    }

    #[test]
    fn facts_about_polls_are_of_all_that_was_recorded() {
        let mut input = AdviceInput::new(&Selection::default());
        input.facts.duration = Nanos(2_000_000_000);
        let mut halts = HaltStats::default();
        halts.blocked.gaps.record(Nanos(33));
        halts.successful_polls.gaps.record(Nanos(33));
        (0..38).for_each(|_| halts.untold.gaps.record(Nanos(33)));
        let came = HaltTotals { successful_polls: 1, polling: 700, ..HaltTotals::default() };
        let mut judgement = Judgement::default();
        // Ten caught of forty halts in two seconds; nobody knows when any was back.
        let facts = note(&input, Some(VmId(1)), &halts, &PollCandidates::made(came, &[]), &mut judgement);
        assert_eq!(facts.iter().map(|fact| fact.number()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let figures: Vec<CitedValue> = judgement.facts().iter().map(|fact| fact.figure).collect();
        let time = |nanos| CitedValue::Time(Nanos(nanos));
        assert_eq!(figures, [CitedValue::Rate(20.0), CitedValue::Share(0.25), time(3_500), time(33)]);
    }
}
