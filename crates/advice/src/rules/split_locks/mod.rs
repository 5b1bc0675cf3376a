//! The rule about split locks: a guest that locks memory across two cache lines holds up every CPU of the host.
//!
//! ```text
//! #AC, 10 ms and more each ─► the host traps split locks, and has the vCPU sleep
//! BUS_LOCK ─────────────────► the VMM asked for an exit after each bus lock
//! #AC, shorter ─────────────► a split lock, or the guest's own alignment checks
//! ```

mod wording;

use super::device_rules::FEWEST;
use crate::cause::{Covered, CureLookup, NamedExits, RuleAnswer, is_about, is_for};
use crate::evidence::input::AdviceInput;
use crate::judgement::{CitedValue, Gain, GainMethod, GainOf, Judgement, MIN_COST_SHARE, Rule, Topic, share};
use exitscope_analysis::{ExitCause, ExitStats};
use exitscope_model::{CodeList, SubjectKind};
use exitscope_units::{Nanos, VmId};

/// A program of the guest's that locks within one cache line.
pub(crate) const SPLIT_LOCKS: Rule = Rule::new("split_locks");

/// What it looks at.
pub(crate) const NAMES: &[NamedExits] = &[NamedExits {
    name: NAME,
    exits: "EXCEPTION_NMI with #AC, AC excp, BUS_LOCK, buslock; KVM_EXIT_X86_BUS_LOCK, where there is no kvm_exit",
    has: |of| is_trap(of) || is_bus_lock(of),
}];

const NAME: &str = "split locks";

/// `split_lock_warn` of arch/x86/kernel/cpu/intel.c (in later kernels bus_lock.c) sleeps so long at each, by
/// `sysctl kernel.split_lock_mitigate`, before it lets the lock through.
const SLEEP: Nanos = Nanos(10_000_000);

/// #AC: `handle_exception_nmi` of arch/x86/kvm/vmx/vmx.c asks `handle_guest_split_lock`, and `ac_interception` of
/// arch/x86/kvm/svm/svm.c hands each back to the guest.
fn is_trap(cause: &ExitCause) -> bool {
    const AC: u64 = 17;
    (is_for(cause, CodeList::Vmx, &[0]) && is_about(cause, SubjectKind::Exception, &[AC]))
        || is_for(cause, CodeList::Svm, &[0x51])
}

/// `handle_bus_lock_vmexit` of arch/x86/kvm/vmx/vmx.c, `bus_lock_exit` of arch/x86/kvm/svm/svm.c; both end in KVM_EXIT_X86_BUS_LOCK, of
/// which KVM traces nothing more where `kvm_exit` was not recorded.
fn is_bus_lock(cause: &ExitCause) -> bool {
    is_for(cause, CodeList::Vmx, &[74])
        || is_for(cause, CodeList::Svm, &[0xa5])
        || is_for(cause, CodeList::KvmExit, &[33])
}

/// What most of a VM's exits of this kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The host traps split locks, and the vCPU sleeps at each.
    Slowed,
    /// The VMM asked for an exit after each bus lock.
    BusLocks,
    /// A split lock that the host traps, or the guest's own alignment check.
    Either,
}

impl Told {
    fn of(traps: &ExitStats, bus_locks: &ExitStats) -> Told {
        match traps.quantile(5_000) {
            _ if bus_locks.count > traps.count => Told::BusLocks,
            Some(median) if median >= SLEEP => Told::Slowed,
            _ => Told::Either,
        }
    }
}

pub(crate) fn judge(input: &AdviceInput, judgement: &mut Judgement) {
    for &vm in input.vms.keys() {
        let [mut traps, mut bus_locks] = [ExitStats::default(), ExitStats::default()];
        for (cause, stats) in input.causes(vm) {
            match () {
                () if is_trap(cause) => traps.merge(stats),
                () if is_bus_lock(cause) => bus_locks.merge(stats),
                () => {}
            }
        }
        let told = Told::of(&traps, &bus_locks);
        let mut all = traps;
        all.merge(&bus_locks);
        if all.count > 0 {
            let said = answer(input, vm, told, &all, judgement);
            judgement.say(Some(vm), Covered::Subject(CureLookup::Named(NAME)), said);
        }
    }
}

fn answer(input: &AdviceInput, vm: VmId, told: Told, all: &ExitStats, judgement: &mut Judgement) -> RuleAnswer {
    let Some(words) = wording::cure(told) else { return RuleAnswer::NotJudged(wording::EITHER.into()) };
    let wall = input.vms.get(&vm).map_or(0, |time| time.wall);
    let cost = all.cost().0;
    if all.timed < FEWEST || cost.saturating_mul(MIN_COST_SHARE) < wall {
        return RuleAnswer::Small(wording::SMALL);
    }
    let mut note = |what: &str, figure| judgement.cite(Some(vm), Topic::Devices, what, figure);
    let facts = [
        note("exits a second for split locks", CitedValue::Rate(input.rate(Some(vm), all.count))),
        note("time of those exits, as a share of the vCPUs' time: split locks", share(cost, wall)),
        note("median length of an exit for a split lock", CitedValue::Time(all.quantile(5_000).unwrap_or_default())),
    ];
    let gain = Gain {
        of: GainOf::Exits,
        headline: input.per_second(Some(vm), cost),
        low: Nanos::ZERO,
        high: input.per_second(Some(vm), cost),
        may_wait: !input.facts.event_kinds.switches,
        how: GainMethod::Counted(wording::RANGE),
    };
    RuleAnswer::Advice(judgement.advise(facts[0], &facts[1..], words.of(SPLIT_LOCKS, Some(vm), gain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_exits::{end, exit, spent, vcpu};
    use exitscope_analysis::Selection;
    use exitscope_model::{Exit, ExitCode, PortAccessForm, Subject, TimePart};
    use exitscope_units::Moment;

    const MS: u64 = 1_000_000;
    const AC: ExitCode = ExitCode::new(CodeList::Vmx, 0);
    const BUS_LOCK: ExitCode = ExitCode::new(CodeList::Vmx, 74);

    /// A vCPU that for a second makes so many exits for each of these reasons, so long each; #AC's vector is 17.
    fn judged(exits: &[(ExitCode, u64, u64)]) -> Judgement {
        let mut input = AdviceInput::new(&Selection::default());
        input.begin(Moment::from_nanos(0));
        for &(code, count, long) in exits {
            let subject = (code == AC).then_some(Subject {
                kind: SubjectKind::Exception,
                write: false,
                form: PortAccessForm::Unknown,
                size: 0,
                key: 17,
                value: 0,
            });
            for number in 1..=count {
                let left = exit(vcpu(0), number * (1_000 * MS / count), code);
                let guest = Nanos((1_000 * MS / count).saturating_sub(long));
                input.absorb(&Exit { subject, parts: spent(TimePart::Kernel, long), guest, ..left });
            }
        }
        end(&mut input, &[vcpu(0)], 1_000 * MS);
        let mut judgement = Judgement::default();
        judge(&input, &mut judgement);
        judgement.rank();
        judgement
    }

    fn said(judgement: &Judgement) -> &RuleAnswer {
        let [(Covered::Subject(CureLookup::Named(NAME)), said)] = judgement.said(vcpu(0).vm).collect::<Vec<_>>()[..]
        else {
            panic!("{judgement:#?}")
        };
        said
    }

    #[test]
    fn a_vcpu_that_the_host_has_sleep_at_each_lock_is_told_so() {
        let judgement = judged(&[(AC, 50, 11 * MS)]);
        let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
        assert!(advice.plan().change.contains("sleeps for 10 ms"), "{}", advice.plan().change);
        assert!(format!("{:?}", advice.plan().settings).contains("kernel.split_lock_mitigate"));
        assert_eq!((advice.plan().gain.low, advice.plan().gain.high), (Nanos::ZERO, Nanos(550 * MS)));
        let figures: Vec<CitedValue> = judgement.facts().iter().map(|fact| fact.figure).collect();
        assert_eq!(figures[..2], [CitedValue::Rate(50.0), CitedValue::Share(0.55)]);
    }

    #[test]
    fn exits_for_bus_locks_are_the_vmms_own_limit() {
        // KVM_EXIT_X86_BUS_LOCK is all that is recorded of one without `kvm_exit`.
        for bus_lock in [BUS_LOCK, ExitCode::new(CodeList::KvmExit, 33)] {
            let judgement = judged(&[(bus_lock, 2_000, MS / 50)]);
            let [advice] = judgement.advice() else { panic!("{judgement:#?}") };
            assert!(format!("{:?}", advice.plan().settings).contains("bus-lock-ratelimit"));
            assert!(!advice.plan().change.contains("sleeps"));
            assert!(matches!(said(&judgement), RuleAnswer::Advice(_)));
        }
    }

    #[test]
    fn short_alignment_faults_may_be_the_guests_own() {
        for short in [vec![(AC, 2_000, MS / 50)], vec![(AC, 40, 10 * MS - 1_000_000)]] {
            let judgement = judged(&short);
            assert_eq!((judgement.advice().len(), judgement.facts().len()), (0, 0));
            assert!(matches!(said(&judgement), RuleAnswer::NotJudged(why) if why.contains("alignment")), "{short:?}");
        }
    }

    #[test]
    fn few_or_cheap_ones_are_worth_no_advice_and_none_no_word() {
        for little in [vec![(AC, 29, 11 * MS)], vec![(BUS_LOCK, 2_000, 4_000)]] {
            let judgement = judged(&little);
            assert_eq!(judgement.advice().len(), 0, "{little:?}");
            assert_eq!(*said(&judgement), RuleAnswer::Small(wording::SMALL), "{little:?}");
        }
        assert_eq!(judged(&[(ExitCode::new(CodeList::Vmx, 12), 2_000, MS / 50)]).said(vcpu(0).vm).count(), 0);
    }
}
