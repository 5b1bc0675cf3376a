//! The rule about guests that poll before they halt, on a host whose CPUs are short.
//!
//! KVM's polling ends when another task wants the CPU; a guest's does not, because its host cannot tell it from work.

mod wording;

use super::polling::{FEWEST, is_short};
use super::steal::WAITED;
use crate::cause::{Covered, RuleAnswer};
use crate::evidence::input::{AdviceInput, VmTime, total};
use crate::judgement::MIN_COST_SHARE;
use crate::judgement::share;
use crate::judgement::{CitedValue, Gain, GainMethod, GainOf, Judgement, Rule, Topic};
use exitscope_analysis::DurationStats;
use exitscope_policy::guest_halt_poll::Params;
use exitscope_policy::knob;
use exitscope_units::{Nanos, VmId};

/// No halt polling by the guest.
pub(crate) const NO_GUEST_HALT_POLL: Rule = Rule::new("no_guest_halt_poll");

pub(crate) fn judge(input: &AdviceInput, judgement: &mut Judgement) {
    let waiting = total(input.vms.values().map(|time| time.steal));
    let wanted = total(input.vms.values().map(VmTime::wanted));
    if !input.facts.event_kinds.switches || !is_short(waiting, wanted) {
        return;
    }
    for (&vm, before) in input.polling_guests() {
        let polled = polled_at_most(before);
        let wall = input.vms.get(&vm).map_or(0, |time| time.wall);
        if before.count >= FEWEST && polled.saturating_mul(MIN_COST_SHARE) >= wall {
            advise(input, vm, before, (polled, wall), (waiting, wanted), judgement);
        }
    }
}

/// The guest time before its halts, of each no more than a poll lasts.
fn polled_at_most(before: &DurationStats) -> u64 {
    let longest = Params::default().guest_halt_poll_ns.0;
    let polled = |(low, _, count): (u64, u64, u64)| low.min(longest).saturating_mul(count);
    total(before.histogram.counts().buckets().map(polled))
}

fn advise(
    input: &AdviceInput,
    vm: VmId,
    before: &DurationStats,
    (polled, wall): (u64, u64),
    (waiting, wanted): (u64, u64),
    judgement: &mut Judgement,
) {
    let Some(knob) = knob("guest_halt_poll_ns") else { return };
    let mut facts = vec![
        judgement.cite(
            Some(vm),
            Topic::Halts,
            "halts a second, from when its guest switched KVM's polling off (MSR_KVM_POLL_CONTROL) to poll by itself",
            CitedValue::Rate(input.rate(Some(vm), before.count)),
        ),
        judgement.cite(
            Some(vm),
            Topic::Halts,
            "guest time before halts, at most the default length of a poll for each, as a share of the vCPUs' time",
            share(polled, wall),
        ),
        judgement.cite(None, Topic::Timeline, WAITED, share(waiting, wanted)),
    ];
    if let Some(median) = before.quantile(5_000) {
        facts.push(judgement.cite(
            Some(vm),
            Topic::Halts,
            "median guest time before a halt, polls included",
            CitedValue::Time(median),
        ));
    }
    let gain = Gain {
        of: GainOf::HostCpu,
        headline: input.per_second(Some(vm), polled),
        low: Nanos::ZERO,
        high: input.per_second(Some(vm), polled),
        may_wait: false,
        how: GainMethod::Counted(wording::RANGE),
    };
    let words = wording::no_polls(knob);
    let id = judgement.advise(facts[0], &facts[1..], words.of(NO_GUEST_HALT_POLL, Some(vm), gain));
    judgement.say(Some(vm), Covered::Halts, RuleAnswer::Advice(id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{AdviceSetting, SettingSide};
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{CodeList, EventKinds, Exit, ExitCode, PortAccessForm, Subject, SubjectKind, TimePart};
    use exitscope_policy::guest_halt_poll::PollControl;
    use exitscope_units::{Moment, Nanos};

    const US: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    /// A guest that says that it polls, or that it does not, halts every millisecond after 250 us in the guest, and waits
    /// for a CPU for a part of the rest.
    fn judged(polls: bool, waiting: u64) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { switches: true, ..EventKinds::default() });
        let value = u64::from(!polls);
        let key = u64::from(PollControl::MSR);
        let control =
            Subject { kind: SubjectKind::Msr, write: true, form: PortAccessForm::Unknown, size: 0, key, value };
        input.absorb(&Exit { subject: Some(control), ..exit(vcpu(0), 1, ExitCode::new(CodeList::Vmx, 32)) });
        for number in 1..=1_000 {
            let hlt = exit(vcpu(0), number * 1_000 * US, ExitCode::new(CodeList::Vmx, 12));
            let parts = spent(TimePart::Steal, waiting).with(TimePart::Halted, Nanos(750 * US - waiting));
            input.absorb(&Exit { guest: Nanos(250 * US), parts, ..hlt });
        }
        end(&mut input, &[vcpu(0)], 1_001_000 * US);
        let mut judgement = Judgement::default();
        judge(&input, &mut judgement);
        judgement
    }

    #[test]
    fn a_guest_that_polls_while_others_wait_is_told_to_stop() {
        let judgement = judged(true, 100 * US);
        let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
        assert!(matches!(advice.plan().settings[0], AdviceSetting::Knob { side: SettingSide::Guest, value: 0, .. }));
        // No more than the longest poll, 200 us of each of the thousand halts, to the accuracy of a histogram.
        let high = advice.plan().gain.high.0;
        assert!((190_000 * US..=200_000 * US).contains(&high), "{high}");
    }

    #[test]
    fn a_guest_that_polls_on_cpus_of_its_own_and_one_that_does_not_poll_are_left_alone() {
        for (polls, waiting) in [(true, 0), (false, 100 * US)] {
            assert_eq!(judged(polls, waiting).advice().len(), 0, "{polls} {waiting}");
        }
    }

    #[test]
    fn polls_of_guests_are_judged_that_are_many_and_take_something_while_cpus_are_short() {
        let judged = |switches, steal, count, wall| {
            let mut input = AdviceInput::new(&Selection::default());
            input.facts.event_kinds.switches = switches;
            input.facts.duration = Nanos(SECOND / 2);
            let key = u64::from(PollControl::MSR);
            let polls =
                Subject { kind: SubjectKind::Msr, write: true, form: PortAccessForm::Unknown, size: 0, key, value: 0 };
            input.absorb(&Exit { subject: Some(polls), ..exit(vcpu(0), 1, ExitCode::new(CodeList::Vmx, 32)) });
            for number in 0..count {
                // Half of them after as much as the longest poll, half after more.
                let guest = Nanos(200_000 + number % 2 * 900_000);
                input.absorb(&Exit { guest, ..exit(vcpu(0), number, ExitCode::new(CodeList::Vmx, 12)) });
            }
            let time = VmTime { wall, guest: 1_000 - steal, steal, ..VmTime::default() };
            input.vms.insert(vcpu(0).vm, time);
            let mut judgement = Judgement::default();
            judge(&input, &mut judgement);
            judgement
        };
        // 200 polls of 200 us are 40 ms, but for the accuracy of a histogram: of 4 s a hundredth.
        for (what, judgement, is_advised) in [
            ("all of it", judged(true, 51, 200, 3_900_000_000), true),
            ("no events of the scheduler's", judged(false, 51, 200, 3_900_000_000), false),
            ("a twentieth is waited for", judged(true, 50, 200, 3_900_000_000), false),
            ("few halts", judged(true, 51, 199, 1_000_000_000), false),
            ("little time", judged(true, 51, 200, 4_000_000_001), false),
        ] {
            assert_eq!(judgement.advice().len(), usize::from(is_advised), "{what}");
            assert_eq!(judgement.facts().len(), if is_advised { 4 } else { 0 }, "{what}");
            if is_advised {
                let figures: Vec<CitedValue> = judgement.facts().iter().map(|fact| fact.figure).collect();
                assert_eq!((figures[0], figures[2]), (CitedValue::Rate(400.0), CitedValue::Share(0.051)), "{what}");
                let CitedValue::Share(share) = figures[1] else { panic!("{figures:?}") };
                assert!((0.0099..0.0103).contains(&share), "{what}: {share}");
                let gain = judgement.advice()[0].plan().gain;
                assert!(
                    gain.low == Nanos::ZERO && (77_000_000..=80_000_000).contains(&gain.high.0),
                    "{what}: {gain:?}"
                );
            }
        }
    }
}
