//! Which exits, halts, yields and stretches of a recording count under a selection, and where they count.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vm: u32, vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 10 + vcpu) }
}

const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);

/// An exit of so many nanoseconds in the kernel, after 100 ns in the guest.
fn exit(who: VcpuIdentity, begin: u64, code: ExitCode, kernel: u64) -> Exit {
    Exit {
        at: at(begin),
        who,
        cpu: PcpuId(2),
        code,
        guest: Nanos(100),
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)),
        is_halt: code.is_halt(),
        ..plain()
    }
}

fn facts_of(by: &[Dimension], selection: Selection, exits: &[Exit]) -> Facts {
    let mut facts = Facts::new(&FactsOptions { by: by.to_vec(), slowest: 3, selection });
    facts.begin(at(1_000));
    exits.iter().for_each(|exit| _ = facts.absorb(exit));
    facts
}

fn ended(mut facts: Facts) -> Facts {
    facts.end(at(1_000), at(9_000), &FxHashMap::default());
    facts
}

/// Of two VMs with two vCPUs each: an IO of 200 ns and a HLT of 50 ns, one after the other.
fn two_vms() -> Vec<Exit> {
    let mut exits = Vec::new();
    for (vm, vcpu) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let begin = 1_000 + u64::from(vm * 2 + vcpu) * 1_000;
        exits.push(exit(who(vm, vcpu), begin, IO, 200));
        exits.push(exit(who(vm, vcpu), begin + 400, HLT, 50));
    }
    exits
}

#[test]
fn a_selection_is_all_that_each_of_its_parts_holds() {
    let after = |nanos| Some(MomentSpec::After(Nanos(nanos)));
    let select = |vms: &[u32], vcpus: &[u32], reasons: &[&str], longer_than: Option<u64>, from, to| {
        let mut selection = Selection::default();
        selection.vms = vms.iter().copied().map(VmId).collect();
        selection.vcpus = vcpus.iter().copied().map(VcpuId).collect();
        selection.reasons = reasons.iter().map(|reason| reason.to_string()).collect();
        (selection.longer_than, selection.from, selection.to) = (longer_than.map(Nanos), from, to);
        selection
    };
    let there = Some(MomentSpec::At(at(3_400)));
    for (what, selection, count, cost, divisions, duration) in [
        ("all", select(&[], &[], &[], None, None, None), 8, 1_000, 4, 8_000),
        ("a VM", select(&[2], &[], &[], None, None, None), 4, 500, 2, 8_000),
        ("a vCPU of each VM", select(&[], &[1], &[], None, None, None), 4, 500, 2, 8_000),
        ("one vCPU", select(&[1], &[1], &[], None, None, None), 2, 250, 1, 8_000),
        ("a reason, in any case", select(&[], &[], &["hlt"], None, None, None), 4, 200, 4, 8_000),
        ("a reason that is not there", select(&[], &[], &["CPUID"], None, None, None), 0, 0, 4, 8_000),
        ("longer than", select(&[], &[], &[], Some(50), None, None), 4, 800, 4, 8_000),
        ("no longer than", select(&[], &[], &[], Some(49), None, None), 8, 1_000, 4, 8_000),
        ("a reason, and longer", select(&[], &[], &["HLT"], Some(60), None, None), 0, 0, 4, 8_000),
        // vCPU 1:0 exits at 3,000 and 3,400; what divides is cut there.
        ("from then on", select(&[], &[], &[], None, there, None), 7, 800, 4, 5_600),
        ("from a moment after the first event on", select(&[], &[], &[], None, after(2_401), None), 6, 750, 4, 5_599),
        ("until then", select(&[], &[], &[], None, None, there), 2, 250, 1, 2_400),
        ("until before", select(&[], &[], &[], None, None, after(2_399)), 1, 200, 1, 2_399),
    ] {
        let facts = ended(facts_of(&[Dimension::Reason], selection, &two_vms()));
        let found = (facts.all.count, facts.all.cost().0, facts.divisions.len(), facts.duration.0);
        assert_eq!(found, (count, cost, divisions, duration), "{what}");
    }
}

#[test]
fn an_exit_that_is_cut_by_a_window_divides_in_proportion_and_counts_where_it_began() {
    // From 900 in the guest until 1,000, in the kernel until 1,400, and in the guest again.
    let exits = [exit(who(1, 0), 1_000, IO, 400), exit(who(1, 0), 1_500, IO, 100)];
    for (from, to, guest, kernel, of_exits, counted) in [
        (0, 9_000, 200, 500, 2, 2),
        (950, 9_000, 150, 500, 2, 2),
        (1_000, 9_000, 100, 500, 2, 2),
        (1_100, 9_000, 100, 400, 2, 1),
        (1_400, 9_000, 100, 100, 1, 1),
        (0, 1_550, 200, 450, 2, 2),
        (0, 1_200, 100, 200, 1, 1),
        (0, 980, 80, 0, 0, 0),
    ] {
        let mut selection = Selection::default();
        (selection.from, selection.to) = (Some(MomentSpec::At(at(from))), Some(MomentSpec::At(at(to))));
        let facts = ended(facts_of(&[], selection, &exits));
        let division = facts.divisions.get(&who(1, 0)).copied().unwrap_or_default();
        let found = (division.part(TimePart::Guest).0, division.part(TimePart::Kernel).0, facts.all.count);
        assert_eq!(found, (guest, kernel, counted), "{from} to {to}");
        assert_eq!((division.span().0, division.cost().0), (guest + kernel, kernel), "{from} to {to}");
        assert!(division.exits <= of_exits, "{from} to {to}: {division:?}");
    }
}

#[test]
fn what_is_of_no_exit_is_cut_by_the_window_as_well() {
    let mut selection = Selection::default();
    selection.vms = vec![VmId(1)];
    (selection.from, selection.to) = (Some(MomentSpec::At(at(2_000))), Some(MomentSpec::At(at(3_000))));
    let mut facts = facts_of(&[], selection, &[]);
    let stretch = |vm, from, unknown, steal| CpuInterval {
        who: who(vm, 0),
        from: at(from),
        parts: AllParts::ZERO.with(TimePart::Unknown, Nanos(unknown)).with(TimePart::Steal, Nanos(steal)),
    };
    // All of it; the last 400 of 1,000; half of it; nothing; of another VM.
    let stretches = [(1, 2_100, 30, 70), (1, 1_400, 500, 500), (1, 2_900, 150, 50), (1, 3_500, 9, 9), (2, 2_100, 5, 5)];
    stretches.iter().for_each(|&(vm, from, unknown, steal)| facts.absorb_stretch(&stretch(vm, from, unknown, steal)));
    let halt = |vm, begin| Halt {
        who: who(vm, 0),
        begin: at(begin),
        asleep: None,
        woken: None,
        vcpu_wakeup: Some(VcpuWakeup { length: Nanos(10), waited: false, valid: true, may_poll: true }),
        change: None,
        kicked: false,
        ipi: None,
        end: at(begin + 10),
        entered: Some(at(begin + 12)),
    };
    let held =
        [(1, 1_999), (1, 2_000), (1, 3_000), (1, 3_001), (2, 2_500)].map(|(vm, at)| facts.absorb_halt(&halt(vm, at)));
    assert_eq!(held, [false, true, true, false, false]);
    let of = |vm, begin| Yield {
        who: who(vm, 0),
        at: at(begin),
        call: YieldCall::Pause,
        target: None,
        target_state: TargetState::Unknown,
        found: None,
        guest: Nanos(1),
        again: false,
        was_out: false,
        window: None,
        recipient: YieldRecipient::Unknown,
        waited: Nanos::ZERO,
        entered: None,
    };
    let held =
        [(1, 1_999), (1, 2_000), (1, 3_000), (1, 3_001), (2, 2_500)].map(|(vm, at)| facts.absorb_yield(&of(vm, at)));
    assert_eq!(held, [false, true, true, false, false]);
    let lost = |vm, begin| Preemption {
        who: who(vm, 0),
        at: at(begin),
        ran: None,
        yields: 0,
        first: None,
        by: None,
        yielded: false,
    };
    let held = [(1, 1_999), (1, 2_000), (1, 3_001), (2, 2_500)].map(|(vm, at)| facts.absorb_preemption(&lost(vm, at)));
    assert_eq!(held, [false, true, false, false]);
    for (vm, begin) in [(1, 1_999), (1, 2_500), (2, 2_500), (1, 3_001)] {
        facts.absorb_ple_update(&PleUpdate { who: who(vm, 0), at: at(begin), new: begin as u32, old: 7 });
    }
    // 100 of the first, 200 of the second, all of the third; one that only touches the window.
    for (from, to, waiting) in [(1_000, 2_100, 1), (2_800, 4_000, 2), (2_200, 2_300, 3), (1_000, 2_000, 4)] {
        facts.absorb_queue_stay(&RunQueueInterval { from: at(from), to: at(to), waiting });
    }
    let facts = ended(facts);
    let parts = facts.divisions[&who(1, 0)].parts;
    assert_eq!(
        parts,
        AllParts::ZERO.with(TimePart::Unknown, Nanos(30 + 200 + 75)).with(TimePart::Steal, Nanos(70 + 200 + 25))
    );
    assert_eq!(facts.divisions.len(), 1);
    assert_eq!(facts.halts.all().halts(), 2);
    assert_eq!((facts.yields.all(|_| true).count, facts.yields.preempted[&who(1, 0)].count()), (2, 1));
    let windows = BTreeMap::from([(VmId(1), PleCell { grown: 1, shrunk: 0, least: 7, most: 2_500 })]);
    assert_eq!(facts.yields.windows, windows);
    let queue = &facts.yields.queue;
    assert_eq!((queue.time, queue.most), ([0, 100, 200, 100, 0, 0, 0, 0, 0], 3));
    let buckets = [(at(2_000), Bucket { count: 400, cost: 100 + 400 + 300 })];
    assert_eq!(queue.timeline.buckets(), (1_000, buckets.to_vec()));
}

#[test]
fn vcpus_whose_number_is_found_out_late_are_named_everywhere() {
    let unknown = VcpuIdentity { vcpu: VcpuId::UNKNOWN, ..who(1, 0) };
    let mut facts = facts_of(
        &[Dimension::Vm, Dimension::Vcpu],
        Selection::default(),
        &[exit(unknown, 1_100, IO, 300), exit(who(1, 0), 2_000, IO, 200), exit(unknown, 3_000, HLT, 10)],
    );
    let of = Halt {
        who: unknown,
        begin: at(3_000),
        asleep: None,
        woken: None,
        vcpu_wakeup: None,
        change: None,
        kicked: true,
        ipi: None,
        end: at(3_010),
        entered: None,
    };
    facts.absorb_halt(&of);
    facts.absorb_preemption(&Preemption {
        who: unknown,
        at: at(3_100),
        ran: Some(at(3_300)),
        yields: 1,
        first: Some(at(3_200)),
        by: None,
        yielded: false,
    });
    facts.end(at(1_000), at(9_000), &FxHashMap::from_iter([(Tid(10), VcpuId(0))]));
    assert_eq!(facts.divisions.keys().collect::<Vec<_>>(), [&who(1, 0)]);
    assert_eq!(facts.divisions[&who(1, 0)].exits, 3);
    assert_eq!(
        facts.slowest.list().iter().map(|exit| (exit.who, exit.cost().0)).collect::<Vec<_>>(),
        [(who(1, 0), 300), (who(1, 0), 200), (who(1, 0), 10)]
    );
    assert_eq!(facts.halts.vcpus.keys().collect::<Vec<_>>(), [&who(1, 0)]);
    assert_eq!(facts.halts.vcpus[&who(1, 0)].kicked, 1);
    assert_eq!(facts.yields.preempted.keys().collect::<Vec<_>>(), [&who(1, 0)]);
    assert_eq!(facts.yields.longest()[0].who, who(1, 0));
    let rows: Vec<_> = facts.by.cells().into_iter().map(|(key, cell)| (key.to_vec(), cell.count)).collect();
    assert_eq!(rows, [(vec![DimensionValue::Vm(VmId(1)), DimensionValue::Vcpu(VcpuId(0))], 3)]);
}

#[test]
fn of_equally_slow_exits_the_earliest_is_kept_then_that_of_the_lowest_vcpu() {
    let with_steal = |nanos| ExitParts::ZERO.with(TimePart::Steal, Nanos(nanos)).with(TimePart::Halted, Nanos(9_999));
    let exits = [
        exit(who(2, 0), 2_000, IO, 100),
        exit(who(1, 1), 2_000, IO, 100),
        exit(who(1, 0), 2_000, IO, 100),
        exit(who(1, 0), 1_500, IO, 100),
        exit(who(1, 0), 8_000, IO, 99),
        Exit { parts: with_steal(101), ..exit(who(3, 0), 7_000, HLT, 0) },
        // Waiting for nothing, or not known how long.
        Exit { parts: with_steal(0), ..exit(who(3, 0), 7_000, HLT, 0) },
        Exit { timed: false, ..exit(who(3, 0), 7_000, IO, 5_000) },
    ];
    let found = |exits: &mut dyn Iterator<Item = &Exit>| {
        let mut slowest = Slowest::keeping(4);
        exits.for_each(|exit| slowest.absorb(exit));
        slowest.list()
    };
    let expected = [exits[5], exits[3], exits[2], exits[1]];
    assert_eq!(found(&mut exits.iter()), expected);
    assert_eq!(found(&mut exits.iter().rev()), expected);
    let (mut left, mut right) = (Slowest::keeping(4), Slowest::keeping(4));
    exits[..4].iter().for_each(|exit| left.absorb(exit));
    exits[4..].iter().for_each(|exit| right.absorb(exit));
    right.merge(&left);
    assert_eq!(right.list(), expected);
}

#[test]
fn what_exits_were_about_is_listed_by_cost_and_memory_by_its_page() {
    let about = |kind, key, write, kernel, handler| {
        let detail = Subject { kind, write, form: PortAccessForm::NonString, size: 4, key, value: 1 };
        Exit { subject: Some(detail), handler, ..exit(who(1, 0), 2_000, IO, kernel) }
    };
    use SubjectKind::{Cpuid, Mmio, Msr, Port};
    let exits = [
        about(Mmio, 0xfee0_00b0, true, 50, Handler::Kernel),
        about(Mmio, 0xfee0_0ff0, true, 60, Handler::Userspace(6)),
        about(Mmio, 0xfee0_1000, true, 7, Handler::Kernel),
        about(Msr, 0x6e0, true, 40, Handler::Kernel),
        about(Msr, 0x6e1, false, 40, Handler::Kernel),
        about(Msr, 0x6e1, true, 20, Handler::Kernel),
        about(Msr, 0x6e1, true, 20, Handler::Kernel),
        about(Port, 0x80, false, 300, Handler::Userspace(2)),
        about(Cpuid, 1, false, 1, Handler::Kernel),
    ];
    let facts = ended(facts_of(&[], Selection::default(), &exits));
    let key = |kind, key, write| SubjectKey { kind, key, write };
    let found: Vec<_> =
        facts.details().into_iter().map(|(key, cell)| (key, cell.count, cell.user_count, cell.cost().0)).collect();
    assert_eq!(
        found,
        [
            (key(Port, 0x80, false), 1, 1, 300),
            (key(Mmio, 0xfee0_0000, true), 2, 1, 110),
            // Equally costly: the more exits, then by key.
            (key(Msr, 0x6e1, true), 2, 0, 40),
            (key(Msr, 0x6e0, true), 1, 0, 40),
            (key(Msr, 0x6e1, false), 1, 0, 40),
            (key(Mmio, 0xfee0_1000, true), 1, 0, 7),
            (key(Cpuid, 1, false), 1, 0, 1),
        ]
    );
}

#[test]
fn signs_are_counted_by_vm_within_what_is_looked_at() {
    let signed = |vm, nanos, sign| KvmActivityEvent { who: who(vm, 0), at: at(nanos), activity: sign };
    let signs = [
        signed(1, 3_000, KvmActivity::NARROW),
        signed(1, 4_000, KvmActivity::NARROW),
        signed(1, 9_000, KvmActivity::NARROW),
        signed(2, 4_000, KvmActivity::ApicvInhibited(2)),
        signed(3, 4_000, KvmActivity::Aged),
    ];
    let mut selection = Selection::default();
    selection.vms = vec![VmId(1), VmId(2)];
    selection.to = Some(MomentSpec::At(at(8_000)));
    let mut facts = facts_of(&[], selection, &[]);
    signs.iter().for_each(|of| facts.absorb_kvm_activity(of));
    let expected =
        BTreeMap::from([((VmId(1), KvmActivity::NARROW), 2), ((VmId(2), KvmActivity::ApicvInhibited(2)), 1)]);
    assert_eq!(facts.kvm_activity, expected);
    let mut twice = facts.clone();
    twice.merge(&facts);
    assert_eq!(twice.kvm_activity, expected.into_iter().map(|(of, count)| (of, count * 2)).collect());
}

#[test]
fn a_nested_guests_things_are_not_the_guests() {
    let about = |code: ExitCode, kind| {
        let detail = Subject { kind, write: true, form: PortAccessForm::NonString, size: 4, key: 0x6e0, value: 1 };
        Exit { subject: Some(detail), ..exit(who(1, 0), 2_000, code, 50) }
    };
    let exits = [
        about(IO, SubjectKind::Msr),
        about(IO.of_nested(), SubjectKind::Msr),
        about(IO.of_nested(), SubjectKind::Port),
    ];
    let facts = ended(facts_of(&[Dimension::Msr], Selection::default(), &exits));
    assert_eq!(
        facts.details().iter().map(|(key, cell)| (key.kind, cell.count)).collect::<Vec<_>>(),
        [(SubjectKind::Msr, 1)]
    );
    assert_eq!(facts.accesses.cells().len(), 0);
    assert_eq!((facts.by.elsewhere, facts.all.count), (2, 3));
    let causes: Vec<_> = facts.causes.cells().iter().map(|(cause, cell)| (cause.code.nested, cell.count)).collect();
    assert_eq!(causes, [(false, 1), (true, 1), (true, 1)]);
}

#[test]
fn injected_interrupts_are_counted_by_vector_whatever_its_number() {
    let injected = |vector| Exit { injected: Some(vector), ..exit(who(1, 0), 2_000, IO, 1) };
    let exits =
        [injected(0xec), injected(0), injected(0xec), injected(255), injected(256), injected(0x1000), injected(256)];
    let facts = ended(facts_of(&[], Selection::default(), &exits));
    let expected = BTreeMap::from([(0, 1), (0xec, 2), (255, 1), (256, 2), (0x1000, 1)]);
    assert_eq!(facts.injected, expected);
    let mut twice = facts.clone();
    twice.merge(&facts);
    assert_eq!(twice.injected, expected.into_iter().map(|(vector, count)| (vector, count * 2)).collect());
    assert_eq!((twice.duration, twice.all.count, twice.slowest.list().len()), (Nanos(16_000), 14, 3));
}

#[test]
fn exits_without_halts_are_those_of_reasons_that_halt_no_longer_than_they_cost() {
    let halted = |code, halted, kernel| Exit {
        parts: ExitParts::ZERO.with(TimePart::Halted, Nanos(halted)).with(TimePart::Kernel, Nanos(kernel)),
        ..exit(who(1, 0), 2_000, code, 0)
    };
    let facts = ended(facts_of(
        &[Dimension::Reason],
        Selection::default(),
        &[halted(HLT, 900, 20), halted(IO, 30, 30), halted(IO, 0, 5)],
    ));
    let (rest, halts) = facts.without_halts();
    assert_eq!((rest.count, rest.total(), halts), (2, Nanos(65), vec!["HLT".to_string()]));
    assert_eq!(rest.part(TimePart::Halted), Nanos(30));
    // Where there is nothing else, nothing is left out.
    let facts = ended(facts_of(&[Dimension::Reason], Selection::default(), &[halted(HLT, 900, 20)]));
    let (rest, halts) = facts.without_halts();
    assert_eq!((rest.count, halts), (1, vec![]));
}

#[test]
fn an_idle_exit_that_is_cut_off_counts_as_one() {
    let cut = Exit { timed: false, ..exit(who(1, 0), 2_000, HLT, 0) };
    let facts = ended(facts_of(
        &[],
        Selection::default(),
        &[cut, cut, exit(who(1, 0), 3_000, HLT, 4), Exit { timed: false, ..exit(who(1, 0), 4_000, IO, 0) }],
    ));
    assert_eq!((facts.halts.all().cut, facts.all.timed, facts.all.count), (2, 1, 4));
}
