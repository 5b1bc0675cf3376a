//! For how long APICv and AVIC were inhibited, and which exits for the local APIC there were meanwhile.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

const MSR_WRITE: ExitCode = ExitCode::new(CodeList::Vmx, 32);
const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vm: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(0), tid: Tid(vm * 10) }
}

/// An exit of 5 ns.
fn exit(vm: u32, begin: u64, code: ExitCode, subject: Option<(SubjectKind, u64)>) -> Exit {
    let about = |(kind, key)| Subject { kind, write: true, form: PortAccessForm::NonString, size: 4, key, value: 0 };
    let parts = ExitParts::ZERO.with(TimePart::Kernel, Nanos(5));
    Exit { at: at(begin), who: who(vm), cpu: PcpuId(0), code, subject: subject.map(about), parts, ..plain() }
}

fn eoi(vm: u32, begin: u64) -> Exit {
    exit(vm, begin, MSR_WRITE, Some((SubjectKind::Msr, 0x80b)))
}

fn change(vm: u32, nanos: u64, reason: u8, set: bool, inhibits: u64) -> ApicvChangeEvent {
    ApicvChangeEvent { who: who(vm), at: at(nanos), change: ApicvChange { reason, set, inhibits } }
}

/// Facts of batches: exits, and the changes that come after them, as a recording is read.
fn facts(selection: Selection, batches: &[(&[Exit], &[ApicvChangeEvent])]) -> Facts {
    let mut facts = Facts::new(&FactsOptions { by: Vec::new(), slowest: 0, selection });
    facts.begin(at(0));
    for (exits, changes) in batches {
        exits.iter().for_each(|exit| _ = facts.absorb(exit));
        facts.note_event_kinds(EventKinds::default());
        changes.iter().for_each(|of| facts.absorb_apicv_change(of));
    }
    facts.end(at(0), at(1_000), &FxHashMap::default());
    facts
}

fn times(of: &VmApicv) -> [u64; 3] {
    [ApicvState::Unknown, ApicvState::Inhibited, ApicvState::Allowed].map(|state| of.time(state))
}

fn counts(of: &VmApicv, kind: ApicExitKind) -> [u64; 3] {
    [ApicvState::Unknown, ApicvState::Inhibited, ApicvState::Allowed].map(|state| of.exits(kind, state).count)
}

#[test]
fn exits_are_of_the_state_in_which_they_begin_in_whichever_batch_the_change_comes() {
    let exits: Vec<Exit> = (0..=10).map(|n| eoi(1, n * 100)).collect();
    let changes = [change(1, 250, 8, true, 0x100), change(1, 650, 8, false, 0)];
    let one = facts(Selection::default(), &[(&exits, &changes)]);
    let many = facts(
        Selection::default(),
        &[(&exits[..3], &changes[..1]), (&exits[3..6], &[]), (&exits[6..], &changes[1..]), (&[], &[])],
    );
    for facts in [&one, &many] {
        let vm = &facts.interrupts.vms[&VmId(1)];
        assert_eq!(counts(vm, ApicExitKind::Eoi), [3, 4, 4]);
        assert_eq!(times(vm), [250, 400, 350], "the VM is seen from 0 to 1000");
        assert_eq!(vm.exits(ApicExitKind::Eoi, ApicvState::Inhibited), ApicExits { count: 4, timed: 4, cost: 20 });
        let reason = vm.reasons[&8];
        assert_eq!((reason.in_force, reason.sets, reason.from_begin, reason.at_end), (400, 1, false, false));
        assert_eq!(reason.first_set, Some((at(250), who(1))));
        assert_eq!(vm.events, 2);
    }
    // A long exit comes after a change that it is before.
    let late =
        facts(Selection::default(), &[(&exits[3..4], &changes), (&[], &[]), (&exits[..1], &[]), (&exits[10..], &[])]);
    assert_eq!(counts(&late.interrupts.vms[&VmId(1)], ApicExitKind::Eoi), [1, 1, 1]);
}

#[test]
fn the_first_event_tells_what_else_was_in_force_before_and_not_whether_its_own_reason_was() {
    let exits = [eoi(1, 0), eoi(1, 400), eoi(1, 1_000)];
    for (what, first, expected, from_begin) in [
        ("set beside another", change(1, 200, 8, true, 0x300), [0, 1_000, 0], true),
        ("cleared, another stays", change(1, 200, 8, false, 0x200), [0, 1_000, 0], true),
        ("set alone", change(1, 200, 9, true, 0x200), [200, 800, 0], false),
        ("cleared, none stays", change(1, 200, 9, false, 0), [200, 0, 800], false),
    ] {
        let facts = facts(Selection::default(), &[(&exits, &[first])]);
        let vm = &facts.interrupts.vms[&VmId(1)];
        assert_eq!(times(vm), expected, "{what}");
        assert_eq!(vm.reasons.get(&9).map(|of| of.from_begin), vm.reasons.get(&9).map(|_| from_begin), "{what}");
        assert_eq!(vm.reasons.contains_key(&9), expected[1] > 0, "{what}");
    }
    // What clears something that was not set changes nothing.
    let requests = [change(1, 200, 9, true, 0x200), change(1, 300, 5, false, 0x200), change(1, 400, 9, true, 0x200)];
    let facts = facts(Selection::default(), &[(&exits, &requests)]);
    let vm = &facts.interrupts.vms[&VmId(1)];
    assert_eq!((vm.events, vm.reasons.len(), vm.reasons[&9].sets, vm.reasons[&9].in_force), (3, 1, 1, 800));
    assert!(vm.reasons[&9].at_end);
}

#[test]
fn a_window_begins_in_the_state_that_earlier_events_left_and_each_vm_has_its_own() {
    let exits: Vec<Exit> = (0..=10).flat_map(|n| [eoi(1, n * 100), eoi(2, n * 100)]).collect();
    let mut changes = vec![change(1, 100, 8, true, 0x100), change(1, 900, 8, false, 0)];
    let mut selection = Selection::default();
    (selection.from, selection.to) = (Some(MomentSpec::At(at(500))), Some(MomentSpec::At(at(800))));
    let windowed = facts(selection, &[(&exits, &changes)]);
    let vm = &windowed.interrupts.vms[&VmId(1)];
    assert_eq!((times(vm), counts(vm, ApicExitKind::Eoi)), ([0, 300, 0], [0, 4, 0]));
    let reason = vm.reasons[&8];
    assert_eq!((vm.events, reason.sets, reason.first_set, reason.from_begin, reason.at_end), (0, 0, None, true, true));
    let other = &windowed.interrupts.vms[&VmId(2)];
    assert_eq!((times(other), counts(other, ApicExitKind::Eoi), other.events), ([300, 0, 0], [4, 0, 0], 0));
    // Both together; recordings that have ended are added.
    changes.push(change(2, 950, 9, true, 0x200));
    let mut both = facts(Selection::default(), &[(&exits, &changes)]);
    both.merge(&both.clone());
    let times = [VmId(1), VmId(2)].map(|vm| times(&both.interrupts.vms[&vm]));
    assert_eq!(times, [[200, 1_600, 200], [1_900, 100, 0]]);
}

#[test]
fn an_exit_is_for_the_register_that_it_names_and_not_for_the_timer_or_a_nested_guest() {
    use ApicExitKind::*;
    let svm = |number| ExitCode::new(CodeList::Svm, number);
    let vmx = |number| ExitCode::new(CodeList::Vmx, number);
    for (code, subject, expected) in [
        (MSR_WRITE, Some((SubjectKind::Msr, 0x80b)), Some(Eoi)),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x808)), Some(TaskPriority)),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x830)), Some(Ipi)),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x80d)), Some(OtherRegister)),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x838)), None),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x6e0)), None),
        (MSR_WRITE, Some((SubjectKind::Msr, 0x900)), None),
        (MSR_WRITE, None, None),
        (svm(0x7c), Some((SubjectKind::Msr, 0x80b)), Some(Eoi)),
        (svm(0x400), Some((SubjectKind::Mmio, 0xfee0_00b0)), Some(Eoi)),
        (svm(0x400), Some((SubjectKind::Mmio, 0xfec0_00b0)), None),
        (vmx(44), Some((SubjectKind::Apic, 0x80)), Some(TaskPriority)),
        (vmx(44), Some((SubjectKind::Apic, 0x380)), None),
        (vmx(56), None, Some(OtherRegister)),
        (vmx(45), None, Some(Eoi)),
        (vmx(43), None, Some(TaskPriority)),
        (vmx(28), Some((SubjectKind::ControlRegister, 8)), Some(TaskPriority)),
        (vmx(28), Some((SubjectKind::ControlRegister, 3)), None),
        (svm(0x18), None, Some(TaskPriority)),
        (svm(0x401), None, Some(Ipi)),
        (svm(0x64), None, Some(InterruptWindow)),
        (vmx(7), None, Some(InterruptWindow)),
        (vmx(1), None, Some(HostInterrupt)),
        (svm(0x60), None, Some(HostInterrupt)),
        (vmx(1).of_nested(), None, None),
        (HLT, None, None),
        (ExitCode::new(CodeList::S390, 7), None, None),
    ] {
        let facts = facts(Selection::default(), &[(&[exit(1, 10, code, subject)], &[])]);
        let vm = facts.interrupts.vms.get(&VmId(1));
        let found: Vec<ApicExitKind> = ApicExitKind::ALL
            .into_iter()
            .filter(|kind| vm.is_some_and(|vm| counts(vm, *kind).iter().sum::<u64>() > 0))
            .collect();
        assert_eq!(found, Vec::from_iter(expected), "{} {subject:?}", code.name());
        let is_unnamed = code == MSR_WRITE && subject.is_none();
        assert_eq!(facts.interrupts.unnamed_msrs, u64::from(is_unnamed), "{}", code.name());
    }
}
