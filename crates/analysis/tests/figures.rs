//! Figures of groups of exits, whole: cells, ways, accesses, and what facts hold beside them.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_policy::guest_halt_poll::PollControl;
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

const HLT: ExitCode = ExitCode::new(CodeList::Svm, 0x78);
const IO: ExitCode = ExitCode::new(CodeList::Svm, 0x7b);
const CPUID: ExitCode = ExitCode::new(CodeList::Svm, 0x72);

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vm: u32, vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 10 + vcpu) }
}

/// An exit of so many nanoseconds in the kernel, for a CPU of which it waits, and halted.
fn exit(kernel: u64, steal: u64, halted: u64) -> Exit {
    let parts = ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)).with(TimePart::Steal, Nanos(steal));
    Exit { code: IO, parts: parts.with(TimePart::Halted, Nanos(halted)), ..plain() }
}

#[test]
fn a_cell_sums_counts_and_knows_the_shortest_and_the_longest() {
    let outside = Exit { handler: Handler::Userspace(2), ..exit(70, 0, 30) };
    let cut = Exit { timed: false, handler: Handler::Userspace(2), ..exit(9_999, 0, 0) };
    let mut cell = ExitStats::default();
    assert_eq!((cell.mean(), cell.quantile(5_000)), (None, None));
    [exit(40, 7, 0), outside, cut, exit(0, 0, 0), exit(20, 0, 0)].iter().for_each(|exit| cell.absorb(exit));
    assert_eq!((cell.count, cell.timed, cell.user_count), (5, 4, 2));
    assert_eq!((cell.total(), cell.cost(), cell.part(TimePart::Halted)), (Nanos(167), Nanos(130), Nanos(30)));
    // The shortest is the shortest that took any time.
    assert_eq!((cell.min, cell.max, cell.mean()), (Some(20), 100, Some(Nanos(41))));
    assert_eq!([2_500, 5_000, 7_500, 10_000].map(|of| cell.quantile(of).unwrap().0), [0, 20, 47, 100]);
    let mut more = ExitStats::default();
    [exit(300, 0, 0), exit(15, 0, 0)].iter().for_each(|exit| more.absorb(exit));
    for (left, right) in [(&cell, &more), (&more, &cell), (&cell, &ExitStats::default())] {
        let mut both = left.clone();
        both.merge(right);
        let is_more = right.count > 0;
        let expected = if is_more { (7, 6, 2, Some(15), 300) } else { (5, 4, 2, Some(20), 100) };
        assert_eq!((both.count, both.timed, both.user_count, both.min, both.max), expected);
        assert_eq!((both.cost().0, both.durations.total()), if is_more { (445, 6) } else { (130, 4) });
    }
    // Of more exits than are known one by one, quantiles lie between the shortest and the longest.
    let mut alike = ExitStats::default();
    (0..100).for_each(|_| alike.absorb(&exit(1_050, 0, 0)));
    assert_eq!([10, 5_000, 10_000].map(|of| alike.quantile(of).unwrap().0), [1_050; 3]);
}

#[test]
fn further_keys_than_are_kept_are_counted_together() {
    let mut keyed: StatsByKey<u32> = StatsByKey::default();
    let exits = MAX_KEYS as u32 + 3;
    (0..exits).for_each(|key| keyed.absorb(key * 7, &exit(5, 0, 0)));
    keyed.absorb(7, &exit(11, 0, 0));
    let seen = |keyed: &StatsByKey<u32>| {
        let of = |key: u32| keyed.get(&key).map(|cell| (cell.count, cell.cost().0));
        let last = MAX_KEYS as u32 * 7;
        (
            keyed.cells().len(),
            keyed.cells()[2].0,
            of(7),
            of(last - 7),
            of(last),
            keyed.other.count,
            keyed.other.cost().0,
        )
    };
    assert_eq!(seen(&keyed), (MAX_KEYS, 14, Some((2, 16)), Some((1, 5)), None, 3, 15));
    let mut twice = keyed.clone();
    twice.merge(&keyed);
    assert_eq!(seen(&twice), (MAX_KEYS, 14, Some((4, 32)), Some((2, 10)), None, 6, 30));
    let mut small: StatsByKey<u32> = StatsByKey::default();
    small.absorb(1, &exit(5, 0, 0));
    keyed.merge(&small);
    assert_eq!((keyed.get(&1), keyed.other.count), (None, 4));
}

/// The exits that a recording of a thread's events comes to.
fn assembled(events: &[(u64, EventKind)]) -> Vec<Exit> {
    let event = |&(nanos, kind): &(u64, EventKind)| {
        let (vm, vcpu, cpu) = (VmId(1), VcpuId::UNKNOWN, PcpuId(0));
        Event { at: at(nanos), tid: Tid(10), vm, vcpu, cpu, name: NameId::NONE, kind }
    };
    let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
    assembler.push(&events.iter().map(event).collect::<Vec<_>>(), &mut rows, &mut ledger);
    assembler.finish(&mut rows, &mut ledger);
    rows
}

#[test]
fn the_cost_of_exits_divides_into_steps_by_reason_and_by_whether_they_left_the_kernel() {
    let left = |code| EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 };
    let detail =
        Subject { kind: SubjectKind::Port, write: true, form: PortAccessForm::Unknown, size: 1, key: 0x3f8, value: 7 };
    let (port, user) = (EventKind::Detail(detail), EventKind::UserspaceExit { reason: 2, errno: 0 });
    let exits = assembled(&[
        // Reaching 30, handling 70, leaving 50 and 100, in user space 370 with two calls, entering 100.
        (1_000, left(IO)),
        (1_010, EventKind::Emulate),
        (1_030, port),
        (1_100, EventKind::Fpu { load: false }),
        (1_150, user),
        (1_250, EventKind::SyscallExit),
        (1_300, EventKind::Syscall { registers: true }),
        (1_340, EventKind::SyscallExit),
        (1_400, EventKind::Syscall { registers: false }),
        (1_520, EventKind::SyscallExit),
        (1_620, EventKind::RunEnter),
        (1_650, EventKind::Fpu { load: true }),
        (1_720, EventKind::Enter),
        // The kernel serves it: reaching 40, handling 60.
        (3_000, left(IO)),
        (3_040, port),
        (3_100, EventKind::Enter),
        // Nothing marks a step.
        (4_000, left(CPUID)),
        (4_030, EventKind::Enter),
        // Handling 20, leaving 30, in user space 350, entering 100.
        (5_000, left(IO)),
        (5_020, EventKind::Fpu { load: false }),
        (5_050, user),
        (5_400, EventKind::Fpu { load: true }),
        (5_500, EventKind::Enter),
        // Nobody knows when it ended.
        (6_000, left(IO)),
        (6_040, port),
    ]);
    let mut ways = PhasesByReason::default();
    exits.iter().for_each(|exit| ways.absorb(PhaseKey::of(exit), exit));
    let seen = |cell: &PhaseStats| {
        let calls = [cell.calls, cell.in_calls, cell.register_calls, cell.in_register_calls];
        let counts = (cell.stats.count, cell.stats.timed, cell.stats.cost().0);
        (counts, ExitPhase::ALL.map(|step| cell.time(step).0), PhaseBoundary::ALL.map(|mark| cell.marked(mark)), calls)
    };
    let key = |code, outside| PhaseKey { code, outside };
    // Steps as they come. Marks: reached, left, handed over (which is not counted), returned, called again, emulated.
    let outside = ((2, 2, 720 + 500), [30, 90, 180, 720, 0, 200], [1, 2, 0, 1, 2, 1], [2, 160, 1, 40]);
    let inside = ((2, 1, 100), [40, 60, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0; 4]);
    let unmarked = ((1, 1, 30), [0, 30, 0, 0, 0, 0], [0; 6], [0; 4]);
    let cells: BTreeMap<_, _> = ways.cells().into_iter().map(|(key, cell)| (key, seen(cell))).collect();
    let expected = [(key(CPUID, false), unmarked), (key(IO, false), inside), (key(IO, true), outside)];
    assert_eq!(cells, BTreeMap::from(expected));
    assert_eq!(seen(&ways.all(true)), outside);
    assert_eq!(seen(&ways.all(false)), ((3, 2, 130), [40, 90, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0; 4]));
    let mut twice = ways.clone();
    twice.merge(&ways);
    let doubled = ((4, 4, 2_440), [60, 180, 360, 1_440, 0, 400], [2, 4, 0, 2, 4, 2], [4, 320, 2, 80]);
    assert_eq!(seen(&twice.all(true)), doubled);
}

/// An access, by somebody outside the kernel or not, handed over and answered after so long.
fn access(
    kind: SubjectKind,
    write: bool,
    form: PortAccessForm,
    (key, value): (u64, u64),
    (handed, answered): (u64, u64),
) -> Exit {
    let outside = handed > 0;
    let mut exit = Exit {
        subject: Some(Subject { kind, write, form, size: 4, key, value }),
        handler: if outside { Handler::Userspace(2) } else { Handler::Kernel },
        ..exit(100 + value, 0, 0)
    };
    (exit.phases.handed, exit.phases.answered) = (Nanos(handed), Nanos(answered));
    exit
}

#[test]
fn accesses_know_their_places_values_and_when_they_were_served() {
    use SubjectKind::{Mmio, Port};
    let first = access(Mmio, true, PortAccessForm::NonString, (0xfee0_00b0, 50), (30, 70));
    let second = access(Mmio, true, PortAccessForm::Unknown, (0xfee0_0300, 7), (20, 0));
    let strings = [access(Mmio, true, PortAccessForm::String, (0xfee0_0020, 9_000), (40, 90)); 2];
    let cut = Exit { timed: false, ..access(Mmio, true, PortAccessForm::NonString, (0xfee0_0310, 60), (25, 75)) };
    let read = access(Mmio, false, PortAccessForm::NonString, (0xfee0_0044, 5), (10, 60));
    let mut accesses = Accesses::default();
    [first, second, strings[0], cut, read, strings[1]]
        .iter()
        .for_each(|exit| accesses.absorb(AccessKey::of(exit).unwrap(), exit));
    let lengths = |of: &DurationStats| (of.count, of.sum);
    let seen = |cell: &AccessStats| {
        (cell.stats.count, cell.plain, cell.addresses, cell.written, lengths(&cell.handed), lengths(&cell.answered))
    };
    let key = |write, string| {
        let at = SubjectKey { kind: Mmio, key: 0xfee0_0000, write };
        AccessKey { at, outside: true, string }
    };
    let written = (3, 2, Some((0xfee0_00b0, 0xfee0_0310)), Some((7, 60)), (2, 50), (1, 70));
    assert_eq!(seen(accesses.get(&key(true, false)).unwrap()), written);
    // What is in memory is not known, and what was read was not written.
    let of_strings = (2, 0, Some((0xfee0_0020, 0xfee0_0020)), None, (2, 80), (2, 180));
    assert_eq!(seen(accesses.get(&key(true, true)).unwrap()), of_strings);
    assert_eq!(
        seen(accesses.get(&key(false, false)).unwrap()),
        (1, 1, Some((0xfee0_0044, 0xfee0_0044)), None, (1, 10), (1, 60))
    );
    let mut both = accesses.clone();
    let mut more = Accesses::default();
    let further = access(Mmio, true, PortAccessForm::NonString, (0xfee0_0008, 90), (15, 35));
    more.absorb(AccessKey::of(&further).unwrap(), &further);
    both.merge(&more);
    let merged = (4, 3, Some((0xfee0_0008, 0xfee0_0310)), Some((7, 90)), (3, 65), (2, 105));
    assert_eq!(seen(both.get(&key(true, false)).unwrap()), merged);
    // Neither an MSR nor nothing is an access.
    let msr = access(SubjectKind::Msr, true, PortAccessForm::NonString, (0x6e0, 5), (0, 0));
    assert_eq!([AccessKey::of(&msr), AccessKey::of(&plain())], [None, None]);
    assert!(
        AccessKey::of(&access(Port, true, PortAccessForm::NonString, (0x80, 5), (0, 0)))
            .is_some_and(|key| !key.outside)
    );
}

#[test]
fn what_the_kernel_serves_typically_takes_is_the_median_of_the_same_kind_and_direction() {
    use SubjectKind::{Mmio, Port};
    let mut accesses = Accesses::default();
    // They take 100 ns more than their value.
    let within = [(Port, true, 1), (Port, true, 20), (Port, true, 900), (Mmio, false, 7), (Mmio, true, 4)];
    let within =
        within.map(|(kind, write, value)| access(kind, write, PortAccessForm::NonString, (0x80, value), (0, 0)));
    // Strings are handed over 600 ns later where they are written, and nothing plain is read.
    let outside = [
        (true, PortAccessForm::NonString, 200),
        (true, PortAccessForm::String, 800),
        (false, PortAccessForm::String, 9_000),
    ];
    let outside = outside.map(|(write, form, handed)| access(Port, write, form, (0x80, 5), (handed, 0)));
    within.iter().chain(&outside).for_each(|exit| accesses.absorb(AccessKey::of(exit).unwrap(), exit));
    let typical = accesses.typical();
    let of = [(Port, true), (Port, false), (Mmio, true), (Mmio, false)];
    assert_eq!(of.map(|(kind, write)| typical.in_kernel(kind, write).unwrap().0), [120, 120, 104, 107]);
    assert_eq!(typical.emulation, Some(Nanos(600)));
    assert_eq!(Accesses::default().typical().emulation, None);
}

#[test]
fn subjects_with_different_numbers_kinds_or_directions_have_different_hashes() {
    use SubjectKind::{Cpuid, Hypercall, Mmio, Msr, Port};
    let mut hashes = BTreeSet::new();
    for kind in [Port, Mmio, Msr, Hypercall, Cpuid] {
        for key in [0x10, 0x11, 0x3f8, 0xfee0_0000] {
            hashes.extend([true, false].map(|write| FxBuildHasher.hash_one(SubjectKey { kind, key, write })));
        }
    }
    assert_eq!(hashes.len(), 5 * 4 * 2);
}

fn facts(selection: Selection) -> Facts {
    let mut facts = Facts::new(&FactsOptions { by: vec![Dimension::Cpu], slowest: 0, selection });
    facts.begin(at(1_000));
    facts
}

/// From 2,000 to 6,000, of these VMs.
fn within(vms: &[u32]) -> Selection {
    let mut selection = Selection::default();
    selection.vms = vms.iter().copied().map(VmId).collect();
    (selection.from, selection.to) = (Some(MomentSpec::At(at(2_000))), Some(MomentSpec::At(at(6_000))));
    selection
}

#[test]
fn a_guest_that_switches_the_hosts_polling_off_polls_itself() {
    const CONTROL: u64 = PollControl::MSR as u64;
    let of = |kind, write, key, value| Subject { kind, write, form: PortAccessForm::NonString, size: 8, key, value };
    for (what, details, polls) in [
        ("off", &[of(SubjectKind::Msr, true, CONTROL, 0)][..], true),
        ("off, with bits that say nothing", &[of(SubjectKind::Msr, true, CONTROL, 6)], true),
        ("on", &[of(SubjectKind::Msr, true, CONTROL, 1)], false),
        ("on, with another bit", &[of(SubjectKind::Msr, true, CONTROL, 3)], false),
        ("read", &[of(SubjectKind::Msr, false, CONTROL, 0)], false),
        ("another MSR", &[of(SubjectKind::Msr, true, CONTROL + 1, 0)], false),
        ("no MSR", &[of(SubjectKind::Hypercall, true, CONTROL, 0)], false),
        ("off, and on later", &[of(SubjectKind::Msr, true, CONTROL, 0), of(SubjectKind::Msr, true, CONTROL, 1)], true),
        ("on, and off later", &[of(SubjectKind::Msr, true, CONTROL, 1), of(SubjectKind::Msr, true, CONTROL, 0)], true),
    ] {
        let mut facts = facts(Selection::default());
        for detail in details {
            facts.absorb(&Exit { subject: Some(*detail), ..exit(5, 0, 0) });
        }
        assert_eq!(facts.halts.guest_polls, polls, "{what}");
        let (mut left, mut right) = (facts.halts.clone(), Halts::default());
        left.merge(&Halts::default());
        right.merge(&facts.halts);
        assert_eq!([left.guest_polls, right.guest_polls], [polls; 2], "{what}");
    }
}

#[test]
fn idle_exits_are_cut_where_they_have_no_end_and_user_spaces_where_it_halts() {
    const KVM_EXIT_HLT: ExitCode = ExitCode::new(CodeList::KvmExit, 5);
    const KVM_EXIT_MMIO: ExitCode = ExitCode::new(CodeList::KvmExit, 6);
    let of =
        |code, is_halt, timed, nanos| Exit { code, is_halt, timed, at: at(nanos), who: who(1, 0), ..exit(5, 0, 0) };
    for (what, exit, cut, in_user_space) in [
        ("a halt", of(HLT, true, true, 3_000), 0, 0),
        ("a halt without an end", of(HLT, true, false, 3_000), 1, 0),
        ("a HLT that asked for none", of(HLT, false, false, 3_000), 0, 0),
        ("another exit that asked for one", of(IO, true, false, 3_000), 0, 0),
        ("another exit", of(IO, false, false, 3_000), 0, 0),
        ("a halt of user space", of(KVM_EXIT_HLT, true, true, 3_000), 0, 1),
        ("one without an end", of(KVM_EXIT_HLT, true, false, 3_000), 0, 1),
        ("another exit to user space", of(KVM_EXIT_MMIO, false, true, 3_000), 0, 0),
        ("a halt before what is looked at", of(HLT, true, false, 1_999), 0, 0),
        ("a halt after it", of(HLT, true, false, 6_001), 0, 0),
        ("a halt at its begin", of(HLT, true, false, 2_000), 1, 0),
        ("a halt at its end", of(HLT, true, false, 6_000), 1, 0),
        ("of another VM", Exit { who: who(2, 0), ..of(HLT, true, false, 3_000) }, 0, 0),
    ] {
        let mut facts = facts(within(&[1]));
        facts.absorb(&exit);
        let all = facts.halts.all();
        assert_eq!((all.cut, all.in_user_space), (cut, in_user_space), "{what}");
    }
}

#[test]
fn an_exit_is_counted_by_its_vcpu_and_by_its_kind_where_it_is_selected() {
    let mut selection = within(&[1]);
    selection.longer_than = Some(Nanos(50));
    let mut facts = facts(selection);
    let mut counted = |vm, vcpu, code, nanos, kernel| {
        let exit = Exit { who: who(vm, vcpu), code, at: at(nanos), ..exit(kernel, 0, 0) };
        facts.absorb(&exit).map(|counted| (counted.vcpu, counted.kind))
    };
    assert_eq!(counted(1, 3, IO, 2_000, 70), Some((0, Some(0))));
    assert_eq!(counted(2, 3, IO, 2_100, 70), None);
    assert_eq!(counted(1, 0, IO, 2_200, 70), Some((1, Some(0))));
    assert_eq!(counted(1, 3, CPUID, 2_300, 70), Some((0, Some(1))));
    // Too short, too early and too late: only where its vCPU's time went counts.
    assert_eq!(counted(1, 2, CPUID, 2_400, 50), Some((2, None)));
    assert_eq!(counted(1, 0, CPUID, 1_999, 70), Some((1, None)));
    assert_eq!(counted(1, 0, CPUID, 6_001, 70), Some((1, None)));
    assert_eq!(counted(1, 0, CPUID, 6_000, 70), Some((1, Some(1))));
    facts.end(at(1_000), at(9_000), &FxHashMap::default());
    assert_eq!((facts.all.count, facts.by.cells().len(), facts.by.cells()[0].1.count), (4, 1, 4));
    let exits: Vec<u64> = facts.divisions.values().map(|division| division.exits).collect();
    // vCPUs 0, 2 and 3: those that are within, however short.
    assert_eq!(exits, [2, 1, 2]);
}

#[test]
fn time_that_an_earlier_recording_holds_does_not_count_again() {
    for (from, to, duration) in [
        (0, 1_500, 4_000),
        (0, 2_700, 3_300),
        (2_500, 2_800, 3_700),
        (5_900, 9_000, 3_900),
        (0, 9_000, 0),
        (6_000, 9_000, 4_000),
    ] {
        let mut facts = facts(within(&[]));
        facts.end(at(1_000), at(8_000), &FxHashMap::default());
        facts.leave_out(at(from), at(to));
        assert_eq!(facts.duration, Nanos(duration), "{from} to {to}");
    }
}

#[test]
fn core_runs_and_run_states_are_those_of_the_vms_and_moments_that_are_looked_at() {
    let event = |nanos, vm, vcpu, kind| Event {
        at: at(nanos),
        tid: Tid(vm),
        vm: VmId(vm),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(0),
        name: NameId::NONE,
        kind,
    };
    let left = |trap: u64| {
        let code = ExitCode::new(CodeList::PpcTrap, trap);
        EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 }
    };
    let run = |begin, vm| {
        [
            event(begin, vm, 0, EventKind::RunCore { exit: false, runnable: 2 }),
            event(begin + 10, vm, 0, left(0xc00)),
            event(begin + 10, vm, 1, left(u64::from(H_DOORBELL))),
            event(begin + 20, vm, 0, EventKind::RunCore { exit: true, runnable: 2 }),
        ]
    };
    let ran = |nanos, vm, from, to| event(nanos, vm, 3, EventKind::RunState { from, to });
    let runs = |vms: &[u32]| {
        let mut facts = facts(within(vms));
        [run(1_000, 1), run(3_000, 1), run(4_000, 2), run(7_000, 1)]
            .iter()
            .flatten()
            .for_each(|event| facts.absorb_runner_event(event));
        for vm in [1, 2] {
            facts.absorb_sched_event(&ran(2_500, vm, RunState::Blocked, RunState::Running));
            facts.absorb_sched_event(&ran(2_570, vm, RunState::Running, RunState::Blocked));
        }
        facts.end(at(1_000), at(9_000), &FxHashMap::default());
        let gangs: Vec<_> = facts.gangs.vms().into_iter().map(|(vm, cell)| (vm.0, cell.runs)).collect();
        let states = facts.run_states.times().map(|(who, times)| (who.vm.0, times.states[0].total));
        (gangs, states.collect::<Vec<_>>(), facts.gangs.unpaired, facts.gangs.guest_exits)
    };
    assert_eq!(runs(&[]), (vec![(1, 1), (2, 1)], vec![(1, 70), (2, 70)], 0, 4));
    assert_eq!(runs(&[2]), (vec![(2, 1)], vec![(2, 70)], 0, 4));
    assert_eq!(runs(&[1, 5]), (vec![(1, 1)], vec![(1, 70)], 0, 4));
}

#[test]
fn facts_of_two_recordings_are_the_sum_of_both() {
    let of = |vm: u32, kernel: u64| {
        let mut facts = facts(Selection::default());
        facts.note_event_kinds(EventKinds { handlers: vm == 2, ..EventKinds::default() });
        facts.absorb(&Exit { who: who(vm, 0), at: at(3_000), injected: Some(5), ..exit(kernel, 0, 0) });
        let lost =
            Preemption { who: who(vm, 0), at: at(3_000), ran: None, yields: 0, first: None, by: None, yielded: false };
        facts.absorb_preemption(&lost);
        facts.end(at(1_000), at(1_000 + kernel), &FxHashMap::default());
        facts
    };
    let mut both = of(1, 70);
    assert!(!both.event_kinds.handlers);
    both.merge(&of(2, 300));
    assert_eq!(
        (both.duration, both.all.count, both.all.cost(), both.event_kinds.handlers),
        (Nanos(370), 2, Nanos(370), true)
    );
    assert_eq!((both.divisions.len(), both.injected.get(&5), both.yields.preempted.len()), (2, Some(&2), 2));
    assert_eq!((both.timeline.buckets().1[0].1.count, both.by.cells()[0].1.count), (2, 2));
    assert_eq!(both.causes.cells().iter().map(|row| row.1.count).collect::<Vec<_>>(), [2]);
}
