//! What could not be judged, because the recording does not have the events for it.

use super::input::{AdviceInput, RecordedHost, total};
use super::judgement::{Judgement, NotJudged};
use super::polling::unknown_host;
use super::trials::Trials;
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_model::{CodeList, TimePart};
use exitscope_units::Nanos;

/// Why halts of powerpc are not put together with wake-ups.
const BY_RUNNER: &str = "on powerpc halts are virtual cores', and no thread's sleep is taken for one";

/// What a recording lacks for a judgement.
#[derive(Clone, Copy)]
enum Lacks {
    /// Events.
    Events(&'static [Missed]),
    /// One that is longer, or made otherwise.
    AnotherRecording,
    /// What no recording of such a machine has.
    Nothing,
}

impl Lacks {
    /// The command that records it, if there is one; or why there is none.
    fn command(self, how: &HowToRecord) -> Result<Option<&'static str>, &'static str> {
        match self {
            Lacks::Events(missed) => how.command(missed).map(Some),
            Lacks::AnotherRecording => Ok(Some(how.again())),
            Lacks::Nothing => Ok(None),
        }
    }
}

/// What user space does is spoken of from one part in so many of the vCPUs' time on.
const OF_TIME: u64 = 20;

/// What tells: QEMU's vCPUs take its big lock for most of their exits (`bql_lock` of accel/kvm/kvm-all.c).
const IN_USER_SPACE: &str = "`perf trace -s -p PID` (the VMM's system calls), `perf record -g -e syscalls:sys_enter_futex -p PID -- sleep 10` \
    (where it waits for its locks) and `perf record -g -p PID -- sleep 10` (where it computes)";

/// Recordings shorter than this say little about what usually happens.
const SHORT: Nanos = Nanos(1_000_000_000);

/// Exits whose trace should say what they were about: port, MSR, CPUID leaf.
pub(super) const ABOUT: &[(CodeList, u64)] = &[
    (CodeList::Vmx, 10),
    (CodeList::Vmx, 30),
    (CodeList::Vmx, 31),
    (CodeList::Vmx, 32),
    // RDMSR and WRMSRNS with the MSR's number in the instruction.
    (CodeList::Vmx, 84),
    (CodeList::Vmx, 85),
    (CodeList::Svm, 0x72),
    (CodeList::Svm, 0x7b),
    (CodeList::Svm, 0x7c),
    // KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_X86_RDMSR and KVM_EXIT_X86_WRMSR, where no kvm_exit is.
    (CodeList::KvmExit, 2),
    (CodeList::KvmExit, 6),
    (CodeList::KvmExit, 29),
    (CodeList::KvmExit, 30),
];

/// Exits at which a nested guest is entered: VMLAUNCH, VMRESUME, VMRUN.
const ENTRIES: &[(CodeList, u64)] = &[(CodeList::Vmx, 20), (CodeList::Vmx, 24), (CodeList::Svm, 0x80)];

/// What is missing of halts' polls.
const HOST_POLLS: &str = "host halt polling";
const PAYS: &str = "whether polling pays";
const GUEST_POLLS: &str = "the guest's polling";
const OTHER_POLLS: &str = "what other halt polling would win";

/// Why no rule about polls says more of halts, if the recording lacks something for it.
pub(super) fn of_halts(judgement: &Judgement) -> Option<String> {
    let is_of_halts = |of: &&NotJudged| [HOST_POLLS, PAYS, GUEST_POLLS, OTHER_POLLS].contains(&of.what);
    judgement.not_judged.iter().find(is_of_halts).map(|of| format!("{}: {}", of.what, of.missing))
}

pub(super) fn judge(input: &AdviceInput, trials: &Trials, host: &RecordedHost, judgement: &mut Judgement) {
    let how = host.how_recorded.with(&input.facts).on(&host.arch, host.xen);
    let halts = input.facts.halts.all();
    let mut missing = |when: bool, lacks: Lacks, what: &'static str, missing: &'static str| {
        if when {
            let (record, missing) = match lacks.command(&how) {
                Ok(command) => (command, missing.into()),
                Err(why) => (None, format!("{missing}; {why}").into()),
            };
            judgement.not_judged.push(NotJudged { what, missing, record });
        }
    };
    let exits = &input.facts.all;
    missing(
        exits.count == 0,
        Lacks::Events(&[Missed::Exits]),
        Judgement::ANYTHING,
        "there is no exit of a guest in it",
    );
    if exits.count == 0 {
        return;
    }
    missing(
        exits.timed == 0,
        Lacks::Events(&[Missed::Entries]),
        Judgement::COST,
        "there are no entries into the guest in it",
    );
    missing(
        input.vms.keys().any(|vm| input.is_several(*vm)),
        Lacks::AnotherRecording,
        "what vCPUs of one VM do to each other",
        "it does not say which of several VMs a vCPU is of: a vCPU's number occurs more than once",
    );
    let about: u64 = input.vms.keys().map(|vm| input.of_reasons(*vm, ABOUT).count).sum();
    let said: u64 = input.vms.keys().flat_map(|vm| input.subjects_of(*vm)).map(|(_, about)| about.stats.count).sum();
    missing(
        about > 2 * said,
        Lacks::Events(&[Missed::Subjects]),
        "which ports, MSRs and CPUID leaves guests ask for",
        "there is no kvm_pio, kvm_msr or kvm_cpuid with most of those exits",
    );
    let enters = input.vms.keys().any(|vm| input.of_reasons(*vm, ENTRIES).count > 0);
    let causes = || input.vms.keys().flat_map(|vm| input.causes(*vm));
    missing(
        enters && !causes().any(|(cause, _)| cause.code.nested),
        Lacks::Events(&[Missed::Nested]),
        "which exits are of a nested guest (L2), and which of the guest itself (L1)",
        "there is no kvm_nested_vmexit in it",
    );
    missing(
        !input.facts.event_kinds.handlers && !host.arch.starts_with("ppc"),
        Lacks::Events(&[Missed::UserExits]),
        "which exits go on beyond the kernel",
        if host.xen { "there are no run states in it" } else { "there is no kvm_userspace_exit in it" },
    );
    missing(
        !input.facts.event_kinds.switches,
        Lacks::Events(&[Missed::Scheduler]),
        "overcommit, and lock holders that were preempted",
        if host.xen { "there are no run states in it" } else { "there is no sched_switch in it" },
    );
    let halting = halts.halts() > 0 && !host.xen;
    let no_ends = "there is no kvm_vcpu_wakeup in it";
    missing(halting && !halts.has_wakeups(), Lacks::Events(&[Missed::HaltEnds]), HOST_POLLS, no_ends);
    let (lacks, why) = match input.facts.event_kinds.by_runner {
        true => (Lacks::Nothing, BY_RUNNER),
        false => {
            (Lacks::Events(&[Missed::Scheduler]), "there is no sched_wakeup in it that says when vCPUs were woken")
        }
    };
    missing(halting && halts.has_wakeups() && !halts.is_exact(), lacks, PAYS, why);
    let unknown = unknown_host(input, trials, host);
    missing(unknown.is_some(), Lacks::AnotherRecording, HOST_POLLS, unknown.unwrap_or_default());
    missing(
        halting && input.facts.halts.guest_polls,
        Lacks::AnotherRecording,
        GUEST_POLLS,
        "the guest polled: gaps that its polls ended left no trace; set guest_halt_poll_ns=0 in it meanwhile",
    );
    let runs = input.facts.gangs.vms();
    let forced: u64 = runs.values().map(|stats| stats.forced).sum();
    let lost: u64 = runs.values().map(|stats| stats.lost.count).sum();
    missing(
        forced > 0 && lost == 0,
        Lacks::Events(&[Missed::Entries]),
        "what ganged exits cost",
        "there is no kvm_guest_enter in it after forced exits",
    );
    let untried = trials.untried;
    let of_page = Lacks::AnotherRecording;
    missing(untried.halts, of_page, OTHER_POLLS, "there were more halts than are kept to try it on");
    missing(
        untried.yields,
        of_page,
        "what other windows of PAUSE loops, or none, would win",
        "there were more yields than are kept to try them on",
    );
    missing(
        untried.core_runs,
        of_page,
        "what narrower virtual cores would win",
        "no core runs are kept to try them on, only what they came to",
    );
    missing(
        input.facts.duration < SHORT,
        Lacks::AnotherRecording,
        "what usually happens",
        "it is shorter than a second, so that the advice is about that moment",
    );
    let user = total(input.facts.divisions.values().map(|of| of.parts.get(TimePart::User).0));
    let wall = total(input.vms.values().map(|time| time.wall));
    if !host.xen && user > 0 && user.saturating_mul(OF_TIME) >= wall {
        let (what, missing) = ("what user space does in its part of exits", "only how long it took is recorded");
        judgement.not_judged.push(NotJudged { what, missing: missing.into(), record: Some(IN_USER_SPACE) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{Exit, ExitCode, TraceInfo};
    use exitscope_units::Moment;

    #[test]
    fn nobody_is_told_to_record_what_was_recorded_and_never_came() {
        for (recorded, says) in [(false, "with most of those exits"), (true, "was recorded, and did not come")] {
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
            judge(&input, &Trials::new(&input, &host), &host, &mut judgement);
            let row = judgement.not_judged.iter().find(|row| row.what.starts_with("which ports")).unwrap();
            assert!(row.missing.ends_with(says) && row.record.is_none() == recorded, "{row:?}");
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
            judge(&input, &Trials::new(&input, &host), &host, &mut judgement);
            let row = judgement.not_judged.iter().find(|row| row.what.contains("user space does"));
            assert_eq!(row.and_then(|row| row.record), said.then_some(IN_USER_SPACE), "{user} {xen}");
        }
    }
}
