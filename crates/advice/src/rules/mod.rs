//! The rules: each a row of one list, from which [`judge`], the documented list and what is not judged are made.

pub mod counted_exits;
pub mod counted_yields;
pub(crate) mod device_rules;
pub(crate) mod gangs;
pub mod guest_checks;
pub(crate) mod guest_polls;
pub(crate) mod idle_states;
pub(crate) mod known_causes;
pub(crate) mod not_judged;
pub(crate) mod poll_trade;
pub(crate) mod polling;
pub(crate) mod reasons;
pub(crate) mod simulated_gain;
pub(crate) mod spinning;
pub(crate) mod split_locks;
pub(crate) mod steal;
pub(crate) mod unknown_devices;
pub(crate) mod xen_waits;

use crate::Simulate;
use crate::cause::{Covered, CureLookup, NamedExits};
use crate::evidence::input::{AdviceInput, RecordedHost};
use crate::evidence::trials::Trials;
use crate::judgement::{Judgement, Rule};
use exitscope_analysis::ExitCause;
use exitscope_analysis::record_commands::Missed;
use known_causes::KNOWN;
use not_judged::{Gap, Lacks, OF_ALL, OF_NO_RULE};

/// What rules look at.
#[derive(Clone, Copy)]
pub(crate) struct RuleInput<'a> {
    /// Of all of a recording, as a neighbour may be what a VM waits for.
    pub whole: &'a AdviceInput,
    /// Of the vCPUs that are asked for.
    pub selected: &'a AdviceInput,
    pub trials: &'a Trials,
    pub host: &'a RecordedHost,
    pub simulate: &'a Simulate<'a>,
}

/// A rule that is a module.
pub(crate) struct RuleRow {
    /// What the documents call it.
    pub id: &'static str,
    /// What it looks at, in the documents' words.
    pub judges: &'static str,
    /// What it may advise.
    pub advises: &'static [Rule],
    /// What it says something of, whenever it is recorded; rows of tables are not repeated here.
    pub answers: &'static [Covered],
    /// Exits that it looks at, and that no table names: it says something of these, too, whenever they are recorded.
    pub names: &'static [NamedExits],
    /// What it cannot judge without what a recording may lack.
    pub gaps: &'static [Gap],
    judge: fn(&RuleInput<'_>, &mut Judgement),
}

/// In the order in which they look; a later one may look at what earlier ones said.
pub(crate) const RULES: &[RuleRow] = &[
    RuleRow {
        id: "devices",
        judges: "ports, addresses, MSRs, CPUID leaves and calls of this table, and accesses that user space answers and no table lists",
        advises: &[device_rules::CURE, unknown_devices::DOORBELL, unknown_devices::REPLACE_DEVICE],
        answers: &[],
        names: &[],
        gaps: device_rules::GAPS,
        judge: |of, judgement| device_rules::judge(of.whole, of.host, of.simulate, judgement),
    },
    RuleRow {
        id: "steal",
        judges: "steal: quotas, hosts short of CPUs, who took them, Xen's scheduler; and a Xen that emulates port accesses",
        advises: &[steal::STEAL, steal::NEWER_XEN],
        answers: &[Covered::Steal],
        names: &[],
        gaps: steal::GAPS,
        judge: |of, judgement| steal::judge(of.whole, of.host, judgement),
    },
    RuleRow {
        id: "halt_polling",
        judges: "host and guest halt polling, by replay of other limits",
        advises: &[polling::HOST_HALT_POLL, polling::GUEST_HALT_POLL],
        answers: &[],
        names: &[],
        gaps: polling::GAPS,
        judge: |of, judgement| polling::judge(of.whole, of.trials, of.host, judgement),
    },
    RuleRow {
        id: "successful_polls",
        judges: "successful polls of the host's that keep CPUs busy",
        advises: &[polling::HOST_HALT_POLL],
        answers: &[],
        names: &[],
        gaps: &[],
        judge: |of, judgement| poll_trade::judge(of.whole, of.host, judgement),
    },
    RuleRow {
        id: "guest_polls",
        judges: "guests that poll while vCPUs wait for CPUs",
        advises: &[guest_polls::NO_GUEST_HALT_POLL],
        answers: &[],
        names: &[],
        gaps: &[],
        judge: |of, judgement| guest_polls::judge(of.whole, judgement),
    },
    RuleRow {
        id: "idle_states",
        judges: "idle states of the host's CPUs, by wake-ups after long and short sleeps",
        advises: &[idle_states::IDLE_STATES],
        answers: &[],
        names: &[],
        gaps: &[],
        judge: |of, judgement| idle_states::judge(of.whole, of.host, judgement),
    },
    RuleRow {
        id: "virtual_cores",
        judges: "ganged exits of POWER7's and POWER8's virtual cores, by replay of narrower ones",
        advises: &[gangs::VIRTUAL_CORES],
        answers: &[Covered::ForcedOut],
        names: &[],
        gaps: gangs::GAPS,
        judge: |of, judgement| gangs::judge(of.whole, of.trials, of.host, judgement),
    },
    RuleRow {
        id: "yields",
        judges: "PAUSE loops, diagnoses X'44' and X'9C', WFE and SCHEDOP_yield: preempted lock holders, and other windows, by replay",
        advises: &[spinning::LOCK_HOLDERS, spinning::SPIN_LONGER],
        answers: spinning::ANSWERS,
        names: &[],
        gaps: spinning::GAPS,
        judge: |of, judgement| spinning::judge(of.whole, of.trials, of.host, judgement),
    },
    RuleRow {
        id: "split_locks",
        judges: "split locks that the host traps, by how long it has vCPUs sleep, and bus locks that the VMM limits",
        advises: &[split_locks::SPLIT_LOCKS],
        answers: &[],
        names: split_locks::NAMES,
        gaps: &[],
        judge: |of, judgement| split_locks::judge(of.whole, judgement),
    },
    RuleRow {
        id: "halts",
        judges: "halts that find an event pending, and halts that no rule about polling answers",
        advises: &[device_rules::CURE],
        answers: &[Covered::Halts],
        names: &[],
        gaps: &[],
        judge: |of, judgement| {
            device_rules::judge_halts(of.whole, of.host, polling::unjudged(judgement), of.simulate, judgement)
        },
    },
];

/// Has all rules look, after what cannot be judged is noted.
pub(crate) fn judge(of: &RuleInput<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    not_judged::note(of, all_gaps(), &mut judgement);
    RULES.iter().for_each(|row| (row.judge)(of, &mut judgement));
    known_causes::note(of.whole, &mut judgement);
    judgement
}

/// What exits from this are about; none where nothing tells them apart but their reason.
pub(crate) fn asked(host: &RecordedHost, is_qemu: bool, cause: &ExitCause) -> Option<CureLookup> {
    match CureLookup::of_subject(host, is_qemu, cause) {
        Some(CureLookup::Named(name)) => Some(CureLookup::Named(name)),
        other => named(host, cause).map(|exits| CureLookup::Named(exits.name)).or(other),
    }
}

/// Those of the exits with a name that come from this.
fn named(host: &RecordedHost, cause: &ExitCause) -> Option<&'static NamedExits> {
    let of_rules = RULES.iter().flat_map(|row| row.names);
    let mut others = of_rules.chain(KNOWN.iter().map(|row| &row.exits));
    reasons::group(host, cause).map(|group| &group.exits).or_else(|| others.find(|exits| (exits.has)(cause)))
}

/// What any rule cannot judge without what a recording may lack.
fn all_gaps() -> impl Iterator<Item = &'static Gap> {
    OF_ALL.iter().chain(RULES.iter().flat_map(|row| row.gaps)).chain(OF_NO_RULE)
}

/// A rule, as documents list it.
pub struct RuleSummary {
    /// What the documents call it.
    pub id: &'static str,
    /// What it looks at.
    pub judges: &'static str,
    /// Ids of what it may advise.
    pub advises: Vec<&'static str>,
    /// The tracepoints without one of which it judges less.
    pub needs: Vec<&'static [&'static str]>,
}

/// All of them.
pub fn rule_list() -> Vec<RuleSummary> {
    let needs = |gap: &'static Gap| -> &'static [Missed] {
        match gap.lacks {
            Lacks::Events(missed) => missed,
            Lacks::AnotherRecording | Lacks::Nothing | Lacks::Tools(_) => &[],
        }
    };
    let summary = |row: &'static RuleRow| RuleSummary {
        id: row.id,
        judges: row.judges,
        advises: row.advises.iter().map(|rule| rule.id()).collect(),
        needs: row.gaps.iter().flat_map(needs).map(|missed| missed.tracepoints()).collect(),
    };
    RULES.iter().map(summary).collect()
}

/// Ids of all that rules may advise.
pub fn advised_rules() -> Vec<&'static str> {
    let mut ids: Vec<&str> = Vec::new();
    for id in RULES.iter().flat_map(|row| row.advises).map(|rule| rule.id()) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{CureLookup, RuleAnswer};
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{
        CodeList, EventKinds, Exit, ExitCode, PortAccessForm, Subject, TargetState, TimePart, Yield, YieldCall,
        YieldRecipient,
    };
    use exitscope_units::{Moment, Nanos};

    fn yielded(at: Moment, call: YieldCall) -> Yield {
        Yield {
            who: vcpu(0),
            at,
            call,
            target: None,
            target_state: TargetState::Unknown,
            found: None,
            guest: Nanos::ZERO,
            again: false,
            was_out: false,
            window: None,
            recipient: YieldRecipient::Nobody,
            waited: Nanos::ZERO,
            entered: None,
        }
    }

    /// A recording, a second long, in which a tenth of a vCPU's time goes into what a rule answers for.
    fn recorded(of: Covered) -> AdviceInput {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        input.note_event_kinds(EventKinds { switches: true, ..EventKinds::default() });
        let (code, subject, part) = match of {
            Covered::Reason(list, number) => (ExitCode::new(list, number), None, TimePart::Kernel),
            Covered::Subject(CureLookup::Other(kind, key)) => {
                let form = PortAccessForm::Unknown;
                let of = Subject { kind, write: false, form, size: 0, key, value: 0 };
                (ExitCode::new(CodeList::S390, 0x83), Some(of), TimePart::Kernel)
            }
            Covered::Halts => (ExitCode::new(CodeList::Vmx, 12), None, TimePart::Halted),
            Covered::Steal => (ExitCode::new(CodeList::Vmx, 1), None, TimePart::Steal),
            Covered::ForcedOut | Covered::Subject(CureLookup::Named(_)) => panic!("{of:?} has a test of its own"),
        };
        for number in 1..=100 {
            let left = exit(vcpu(0), number * 10_000_000, code);
            input.absorb(&Exit { subject, parts: spent(part, 1_000_000), guest: Nanos(9_000_000), ..left });
            let call = match (of, code.list) {
                (Covered::Subject(CureLookup::Other(_, 0x9c)), _) => Some(YieldCall::Diag9c),
                (Covered::Subject(_), _) => Some(YieldCall::Diag44),
                (Covered::Reason(..), CodeList::Svm) => Some(YieldCall::PauseFilter),
                (Covered::Reason(..), _) => Some(YieldCall::Pause),
                _ => None,
            };
            if let Some(call) = call {
                input.absorb_yield(&yielded(left.at, call));
            }
        }
        end(&mut input, &[vcpu(0)], 1_000_000_000);
        input
    }

    #[test]
    fn what_a_rule_answers_for_is_answered_wherever_it_is_recorded() {
        for (row, of) in RULES.iter().flat_map(|row| row.answers.iter().map(move |of| (row.id, *of))) {
            if of == Covered::ForcedOut {
                // Of powerpc's core runs: the tests of `gangs`.
                continue;
            }
            let input = recorded(of);
            for arch in ["x86_64", "aarch64", "s390x"] {
                let host = RecordedHost { arch: arch.to_string(), ..RecordedHost::default() };
                let judgement = crate::judge(&input, &Trials::new(&input, &host), &host, &|_, _| Vec::new());
                let said: Vec<&RuleAnswer> =
                    judgement.said(vcpu(0).vm).filter(|row| *row.0 == of).map(|row| row.1).collect();
                assert!(!said.is_empty(), "{row} says nothing of {of:?} on {arch}");
            }
        }
    }

    #[test]
    fn ids_are_given_once_and_each_rule_says_what_it_judges() {
        let mut ids: Vec<&str> = RULES.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
        assert!(RULES.iter().all(|row| !row.judges.is_empty() && !row.advises.is_empty()));
    }
}
