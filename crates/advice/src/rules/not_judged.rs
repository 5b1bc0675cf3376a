//! What a rule cannot judge, because a recording does not have what it needs.
//!
//! ```text
//! Gap of a rule ─► is it so of this recording? ─► what is not judged, why, and what to record ─► Judgement
//! ```

use super::RuleInput;
use crate::evidence::input::total;
use crate::judgement::{Judgement, NotJudged};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_model::TimePart;
use exitscope_units::Nanos;

/// Something that is not judged of a recording that lacks something.
pub(crate) struct Gap {
    /// What is not judged.
    pub what: &'static str,
    pub lacks: Lacks,
    /// What the recording does not have, if this is so.
    pub missing: fn(&RuleInput<'_>) -> Option<&'static str>,
}

/// What a recording lacks for a judgement.
#[derive(Clone, Copy)]
pub(crate) enum Lacks {
    /// Events.
    Events(&'static [Missed]),
    /// Nothing but length, or a machine in another state.
    AnotherRecording,
    /// What no recording of such a machine has.
    Nothing,
    /// What these other tools show.
    Tools(&'static str),
}

impl Lacks {
    /// The command that records it, if there is one; or why there is none.
    fn command(self, how: &HowToRecord) -> Result<Option<&'static str>, &'static str> {
        match self {
            Lacks::Events(missed) => how.command(missed).map(Some),
            Lacks::AnotherRecording => Ok(Some(how.again())),
            Lacks::Nothing => Ok(None),
            Lacks::Tools(commands) => Ok(Some(commands)),
        }
    }
}

/// Of any recording.
pub(crate) const OF_ALL: &[Gap] = &[
    Gap {
        what: Judgement::ANYTHING,
        lacks: Lacks::Events(&[Missed::Exits]),
        missing: |of| (of.selected.facts.all.count == 0).then_some("the recording has no exit of a guest"),
    },
    Gap {
        what: Judgement::COST,
        lacks: Lacks::Events(&[Missed::Entries]),
        missing: |of| (of.selected.facts.all.timed == 0).then_some("the recording has no entries into the guest"),
    },
    Gap {
        what: "what vCPUs of one VM do to each other",
        lacks: Lacks::AnotherRecording,
        missing: |of| {
            let several = of.selected.vms.keys().any(|vm| of.selected.is_several(*vm));
            several.then_some(
                "the recording does not show which of several VMs a vCPU belongs to: a vCPU's number \
                    occurs more than once",
            )
        },
    },
];

/// The same, of what no rule looks at.
pub(crate) const OF_NO_RULE: &[Gap] = &[
    Gap {
        what: "whether this moment is usual",
        lacks: Lacks::AnotherRecording,
        missing: |of| {
            (of.selected.facts.duration < SHORT)
                .then_some("the recording is shorter than a second, so the advice is about that moment")
        },
    },
    Gap {
        what: "what user space does in its part of exits",
        lacks: Lacks::Tools(IN_USER_SPACE),
        missing: in_user_space,
    },
];

/// What user space does is spoken of from one part in so many of the vCPUs' time on.
const OF_TIME: u64 = 20;

/// What tells: QEMU's vCPUs take its big lock for most of their exits (`bql_lock` of accel/kvm/kvm-all.c).
const IN_USER_SPACE: &str = "`perf trace -s -p PID` (the VMM's system calls), `perf record -g -e syscalls:sys_enter_futex -p PID -- sleep 10` \
    (where it waits for its locks) and `perf record -g -p PID -- sleep 10` (where it computes)";

/// Recordings shorter than this say little about what usually happens.
const SHORT: Nanos = Nanos(1_000_000_000);

fn in_user_space(of: &RuleInput<'_>) -> Option<&'static str> {
    let input = of.selected;
    let user = total(input.facts.divisions.values().map(|of| of.parts.get(TimePart::User).0));
    let wall = total(input.vms.values().map(|time| time.wall));
    let weighs = !of.host.xen && user > 0 && user.saturating_mul(OF_TIME) >= wall;
    weighs.then_some("only how long it took is recorded")
}

/// Notes what is not judged; where nothing is, that alone.
pub(crate) fn note(of: &RuleInput<'_>, gaps: impl Iterator<Item = &'static Gap>, judgement: &mut Judgement) {
    let how = of.host.how(&of.selected.facts);
    for gap in gaps {
        let Some(missing) = (gap.missing)(of) else { continue };
        let (record, missing) = match gap.lacks.command(&how) {
            Ok(command) => (command, missing.into()),
            Err(why) => (None, format!("{missing}; {why}").into()),
        };
        judgement.not_judged.push(NotJudged { what: gap.what, missing, record });
        if gap.what == Judgement::ANYTHING {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::input::{AdviceInput, RecordedHost};
    use crate::evidence::trials::Trials;
    use crate::rules::all_gaps;
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{CodeList, Exit, ExitCode, TraceInfo};
    use exitscope_units::Moment;

    fn note_all(input: &AdviceInput, host: &RecordedHost, judgement: &mut Judgement) {
        let trials = Trials::new(input, host);
        let of = RuleInput { whole: input, selected: input, trials: &trials, host, simulate: &|_, _| Vec::new() };
        note(&of, all_gaps(), judgement);
    }

    #[test]
    fn nobody_is_told_to_record_what_was_recorded_and_never_came() {
        for (recorded, says) in [(false, "most of those exits have no"), (true, "were enabled, but never fired")] {
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            let of = exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 30));
            input.absorb(&Exit { parts: spent(TimePart::Kernel, 1_000), ..of });
            end(&mut input, &[vcpu(0)], 1_000_000);
            let mut info = TraceInfo { format: "perf.data".into(), ..TraceInfo::default() };
            info.names.intern(if recorded { "kvm:kvm_pio" } else { "kvm:kvm_exit" });
            let how_recorded = HowToRecord::of(&info);
            let (host, mut judgement) =
                (RecordedHost { how_recorded, ..RecordedHost::default() }, Judgement::default());
            note_all(&input, &host, &mut judgement);
            let row = judgement.not_judged.iter().find(|row| row.what.starts_with("which ports")).unwrap();
            assert!(row.missing.contains(says) && row.record.is_none() == recorded, "{row:?}");
        }
    }

    #[test]
    fn what_user_space_does_is_not_judged_where_it_takes_a_twentieth_of_the_time() {
        const SECOND: u64 = 1_000_000_000;
        for (user, xen, said) in
            [(SECOND / 20, false, true), (SECOND / 20 - 1, false, false), (SECOND / 2, true, false)]
        {
            let mut input = AdviceInput::new(&Selection::default());
            input.begin(Moment::from_nanos(0));
            let of = exit(vcpu(0), 0, ExitCode::new(CodeList::Vmx, 30));
            input.absorb(&Exit { parts: spent(TimePart::User, user), ..of });
            end(&mut input, &[vcpu(0)], SECOND);
            let (host, mut judgement) = (RecordedHost { xen, ..RecordedHost::default() }, Judgement::default());
            note_all(&input, &host, &mut judgement);
            let row = judgement.not_judged.iter().find(|row| row.what.contains("user space does"));
            assert_eq!(row.and_then(|row| row.record), said.then_some(IN_USER_SPACE), "{user} {xen}");
        }
    }
}
