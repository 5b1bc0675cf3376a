//! Facts do not depend on the order or the number of pieces in which rows come.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

fn any_exit() -> impl Strategy<Value = Exit> {
    let whose = (1u32..3, prop_oneof![Just(u32::MAX), 0u32..3]);
    let times = (0u64..1 << 34, 0u64..1 << 20, 0u64..1 << 20, 0u64..1 << 20, 0u64..1 << 10);
    (whose, times, 0u64..5, prop::option::of(0u64..4), any::<bool>(), any::<bool>()).prop_map(
        |((vm, vcpu), (at, kernel, user, idle, waiting), code, key, write, timed)| Exit {
            at: Moment::from_nanos(at),
            who: VcpuIdentity { vm: VmId(vm), vcpu: VcpuId(vcpu), tid: Tid(vm * 10 + vcpu % 5) },
            cpu: PcpuId(code as u32 % 2),
            code: ExitCode::new(CodeList::Vmx, code),
            rip: 0,
            info: exitscope_model::ExitInfo::default(),
            handler: if write { Handler::Userspace(2) } else { Handler::Kernel },
            subject: key.map(|key| Subject {
                kind: SubjectKind::Port,
                write,
                form: if at % 2 == 0 { PortAccessForm::NonString } else { PortAccessForm::String },
                size: 1,
                key,
                value: at,
            }),
            injected: key.map(|key| key as u32),
            guest: Nanos(kernel / 2),
            parts: spent(TimePart::Kernel, kernel)
                .with(TimePart::User, Nanos(user))
                .with(TimePart::Halted, Nanos(idle))
                .with(TimePart::Steal, Nanos(waiting)),
            phases: ExitPhases::default(),
            timed,
            is_halt: false,
            events: 2,
        },
    )
}

fn spent(part: TimePart, nanos: u64) -> ExitParts {
    ExitParts::ZERO.with(part, Nanos(nanos))
}

fn wanted() -> FactsOptions {
    FactsOptions {
        by: vec![Dimension::Vcpu, Dimension::Port, Dimension::Time(None)],
        slowest: 4,
        selection: Selection::default(),
    }
}

fn facts(rows: &[Exit]) -> Facts {
    let mut facts = Facts::new(&wanted());
    facts.begin(Moment::default());
    for row in rows {
        facts.absorb(row);
    }
    facts.end(Moment::default(), Moment::default(), &FxHashMap::default());
    facts
}

/// Everything of the facts that can be seen, as text.
fn seen(facts: &Facts) -> String {
    format!(
        "{:?}\n{:?} {:?} {}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        facts.all,
        facts.by.cells(),
        facts.by.width(),
        facts.by.elsewhere,
        facts
            .details()
            .into_iter()
            .map(|row| (row.0, row.1.into_owned()))
            .collect::<std::collections::BTreeMap<_, _>>(),
        facts.injected,
        facts.divisions,
        facts.slowest.list(),
        facts.timeline.buckets(),
        facts.accesses.cells(),
        facts.phases.cells(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn facts_merge_in_any_order_and_grouping_to_the_same(
        rows in prop::collection::vec(any_exit(), 0..60), cuts in (0usize..60, 0usize..60), turned in any::<bool>(),
    ) {
        let whole = facts(&rows);
        let (low, high) = (cuts.0.min(cuts.1).min(rows.len()), cuts.0.max(cuts.1).min(rows.len()));
        let pieces = [facts(&rows[..low]), facts(&rows[low..high]), facts(&rows[high..])];
        let mut merged = match turned {
            false => {
                let mut left = pieces[0].clone();
                left.merge(&pieces[1]);
                left.merge(&pieces[2]);
                left
            }
            true => {
                let mut right = pieces[2].clone();
                right.merge(&pieces[1]);
                let mut all = Facts::new(&wanted());
                all.merge(&right);
                all.merge(&pieces[0]);
                all
            }
        };
        prop_assert_eq!(seen(&merged), seen(&whole));
        merged.merge(&Facts::new(&wanted()));
        prop_assert_eq!(seen(&merged), seen(&whole), "nothing adds nothing");
    }

    #[test]
    fn groups_hold_every_exit_once(rows in prop::collection::vec(any_exit(), 0..60)) {
        let facts = facts(&rows);
        let grouped: u64 = facts.by.cells().iter().map(|row| row.1.count).sum();
        prop_assert_eq!(grouped + facts.by.elsewhere, rows.len() as u64);
        prop_assert_eq!(facts.all.count, rows.len() as u64);
        prop_assert_eq!(facts.timeline.buckets().1.iter().map(|row| row.1.count).sum::<u64>(), rows.len() as u64);
        prop_assert!(facts.timeline.buckets().1.len() <= 100);
        let cost: u64 = rows.iter().filter(|row| row.timed).map(|row| row.cost().0).sum();
        prop_assert_eq!(facts.all.cost(), Nanos(cost));
        prop_assert_eq!(facts.divisions.values().map(|division| division.cost().0).sum::<u64>(), cost);
    }
}

fn recording(seed: u64, exits: u64, length: u64) -> Diff {
    recording_beside(seed, exits, length, &[])
}

/// The same, of which other recordings hold these stretches.
fn recording_beside(seed: u64, exits: u64, length: u64, held: &[(Moment, Moment)]) -> Diff {
    let mut diff = Diff::default();
    for n in 0..exits {
        let kernel = length + (n * 7_919 + seed) % 97 * length / 100;
        let exit = Exit {
            at: Moment::from_nanos(n * 10_000),
            code: ExitCode::new(CodeList::Vmx, n % 2),
            parts: spent(TimePart::Kernel, if n % 2 == 0 { kernel } else { 900 + n % 89 }),
            ..plain()
        };
        diff.absorb(&exit);
    }
    diff.end(Moment::default(), Moment::from_nanos(exits * 10_000), held, &[]);
    diff
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let one = recording(1, 5_000, 2_000);
    for row in one.against(&one, 9_900) {
        for change in row.changes {
            assert_eq!(change.verdict(), ChangeVerdict::Unclear, "{:?} {change:?}", row.reason);
        }
    }
}

#[test]
fn rates_are_over_time_that_no_other_recording_holds() {
    let moment = Moment::from_nanos;
    let whole = recording(1, 5_000, 2_000);
    // 50 ms, of which others hold 10 and 15.
    let held = [(moment(5_000_000), moment(15_000_000)), (moment(30_000_000), moment(45_000_000))];
    let rows = recording_beside(1, 5_000, 2_000, &held).against(&whole, 9_900);
    let rate = rows[0].changes.iter().find(|change| change.measure == DiffMeasure::Rate).unwrap();
    // Exits a second; blocks are whole nanoseconds.
    let per_second = |rate: Option<u64>| rate.unwrap().div_ceil(1_000);
    assert_eq!((per_second(rate.before), per_second(rate.after)), (100_000, 200_000));
}

#[test]
fn a_reason_that_became_slower_is_told_from_one_that_did_not() {
    let (before, after) = (recording(1, 5_000, 2_000), recording(2, 5_000, 2_500));
    let rows = after.against(&before, 9_900);
    let verdict = |number, measure| {
        let code = Some(ExitCode::new(CodeList::Vmx, number).name());
        let row = rows.iter().find(|row| row.reason == code).unwrap();
        row.changes.iter().find(|change| change.measure == measure).unwrap().verdict()
    };
    for measure in [DiffMeasure::Mean, DiffMeasure::P50, DiffMeasure::P99, DiffMeasure::Cost] {
        assert_eq!(verdict(0, measure), ChangeVerdict::More, "{measure:?}");
    }
    for measure in DiffMeasure::ALL {
        assert_eq!(verdict(1, measure), ChangeVerdict::Unclear, "{measure:?}");
    }
    assert_eq!(rows[0].reason, None, "all together come first");
}

#[test]
fn how_long_vcpus_idle_is_no_part_of_all_together() {
    // 12 is HLT, 30 an access to a port.
    let with_halts = |length: u64| {
        let mut diff = Diff::default();
        for n in 0..4_000 {
            let (number, kernel, idle) = if n % 4 == 0 { (12, 0, length) } else { (30, 2_000 + n * 7_919 % 97, 0) };
            diff.absorb(&Exit {
                at: Moment::from_nanos(n * 10_000),
                code: ExitCode::new(CodeList::Vmx, number),
                parts: spent(TimePart::Kernel, kernel).with(TimePart::Halted, Nanos(idle)),
                ..plain()
            });
        }
        diff.end(Moment::default(), Moment::from_nanos(4_000 * 10_000), &[], &[]);
        diff
    };
    let (before, after) = (with_halts(1_000), with_halts(900_000));
    let rows = after.against(&before, 9_900);
    assert_eq!((rows[0].without.as_slice(), rows[0].counts), (&["HLT".to_string()][..], (3_000, 3_000)));
    for change in &rows[0].changes {
        assert_eq!(change.verdict(), ChangeVerdict::Unclear, "{change:?}");
    }
    assert_eq!(after.lengths(&rows[0]).total(), 3_000);
    let halts = rows.iter().find(|row| row.reason.as_deref() == Some("HLT")).unwrap();
    assert_eq!((halts.counts, halts.changes[2].verdict()), ((1_000, 1_000), ChangeVerdict::More));
    assert_eq!(after.lengths(halts).total(), 1_000);
    // Where there is nothing else, all is what there is.
    let mut idle = Diff::default();
    idle.absorb(&Exit { code: ExitCode::new(CodeList::Vmx, 12), parts: spent(TimePart::Halted, 5), ..plain() });
    idle.end(Moment::default(), Moment::from_nanos(10), &[], &[]);
    assert_eq!((&idle.against(&idle, 9_900)[0].without[..], idle.against(&idle, 9_900)[0].counts), (&[][..], (1, 1)));
}

#[test]
fn too_little_gives_no_verdict() {
    let (before, after) = (recording(1, 6, 2_000), recording(1, 6, 90_000));
    let rows = after.against(&before, 9_900);
    assert!(
        rows.iter()
            .flat_map(|row| &row.changes)
            .filter(|change| change.measure == DiffMeasure::P99)
            .all(|change| change.verdict() == ChangeVerdict::TooFew)
    );
}

fn any_halt() -> impl Strategy<Value = Halt> {
    let times = (0u64..1 << 34, 0u64..1 << 18, 0u64..1 << 18, 0u64..1 << 10);
    let change = prop::option::of((any::<bool>(), 0u32..1 << 18, 0u32..1 << 18));
    (0u32..3, times, any::<bool>(), any::<bool>(), change, any::<bool>()).prop_map(
        |(vcpu, (at, length, woken, rest), waited, told, change, seen)| {
            let moment = |nanos: u64| Moment::from_nanos(nanos);
            Halt {
                who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(vcpu), tid: Tid(10 + vcpu) },
                begin: moment(at),
                asleep: (waited && seen).then_some(moment(at)),
                woken: (waited && seen).then_some(moment(at + woken.min(length))),
                vcpu_wakeup: told.then_some(VcpuWakeup { length: Nanos(length), waited, valid: true, may_poll: true }),
                change: change.map(|(grow, new, old)| PollChange { grow, new, old }),
                kicked: woken % 3 == 0,
                ipi: None,
                end: moment(at + length),
                entered: seen.then_some(moment(at + length + rest)),
            }
        },
    )
}

/// A core run: its VM, and who left for which trap, ceded or not.
type CoreRun = (u32, Vec<(u32, u64, bool)>);

fn any_run() -> impl Strategy<Value = CoreRun> {
    let trap = prop_oneof![Just(0u64), Just(0xc00), Just(0xe80), Just(0x980)];
    (1u32..3, prop::collection::vec((0u32..6, trap, any::<bool>()), 0..6))
}

/// What one recording says without what came before.
fn known(cell: GangStats) -> GangStats {
    GangStats { lost_at_most: 0, ..cell }
}

proptest! {
    #[test]
    fn ganged_exits_merge_in_any_order(runs in prop::collection::vec(any_run(), 0..40), cut in 0usize..40) {
        let of = |runs: &[CoreRun]| {
            let mut gangs = GangFacts::default();
            for (number, (vm, left)) in runs.iter().enumerate() {
                let event = |vcpu, kind| Event {
                    at: Moment::from_nanos(number as u64),
                    tid: Tid(100 + vm),
                    vm: VmId(*vm),
                    vcpu: VcpuId(vcpu),
                    cpu: PcpuId(0),
                    name: NameId::NONE,
                    kind,
                };
                let first = left.first().map_or(0, |left| left.0);
                let runnable = left.len() as u32;
                gangs.absorb(&event(first, EventKind::RunCore { exit: false, runnable }), |_| true);
                for &(vcpu, trap, idle) in left {
                    let code = ExitCode::new(CodeList::PpcTrap, trap);
                    gangs.absorb(&event(vcpu, EventKind::Exit { code, idle, words: SubjectWord::NONE, rip: 0 }), |_| true);
                }
                gangs.absorb(&event(first, EventKind::RunCore { exit: true, runnable }), |_| true);
            }
            gangs.end();
            gangs
        };
        let whole = of(&runs);
        let (left, right) = runs.split_at(cut.min(runs.len()));
        let mut merged = of(right);
        merged.merge(&of(left));
        // Who is forced out at the end of a recording is not seen to be back in another one.
        let at_most = |gangs: &GangFacts| gangs.vms().values().map(|cell| cell.lost_at_most).sum::<u64>();
        prop_assert!(at_most(&merged) <= at_most(&whole));
        let vms = |gangs: &GangFacts| gangs.vms().into_iter().map(|(vm, cell)| (vm, known(cell))).collect::<Vec<_>>();
        let vcores = |gangs: &GangFacts| {
            let known = |vcore: VcoreGangs| VcoreGangs { stats: known(vcore.stats), ..vcore };
            gangs.vcores(None).into_iter().map(known).collect::<Vec<_>>()
        };
        prop_assert_eq!(vms(&merged), vms(&whole));
        prop_assert_eq!(vcores(&merged), vcores(&whole));
        prop_assert_eq!(merged.causes(), whole.causes());
        prop_assert_eq!(merged.script.ganged(), whole.script.ganged());
        for cell in whole.vms().values() {
            prop_assert!(cell.two_active <= cell.runs && cell.timer + cell.ganged <= cell.two_active);
        }
    }

    #[test]
    fn halts_merge_in_any_order(halts in prop::collection::vec(any_halt(), 0..60)) {
        let of = |vcpus: &[u32]| {
            let mut facts = Halts::default();
            halts.iter().filter(|halt| vcpus.contains(&halt.who.vcpu.0)).for_each(|halt| facts.absorb(halt));
            facts
        };
        let whole = of(&[0, 1, 2]);
        let mut merged = of(&[2]);
        merged.merge(&of(&[0, 1]));
        prop_assert_eq!(&merged.vcpus, &whole.vcpus);
        let shown = |halts: &Halts| {
            let seen = halts.settings.get(&VmId(1));
            seen.map(|seen| (seen.changes, seen.bounds(), seen.params(&RecordedHaltPolling::of(&TraceInfo::default()))))
        };
        prop_assert_eq!(shown(&merged), shown(&whole));
        let all = whole.all();
        let counted: u64 = all.buckets().iter().map(|gap| gap.caught + gap.slept).sum();
        prop_assert_eq!(counted, all.halts());
    }
}

#[test]
fn run_states_are_stays_within_the_window() {
    use RunState::{Blocked, Offline, Runnable, Running};
    let who = VcpuIdentity { vm: VmId(6), vcpu: VcpuId(0), tid: Tid(0) };
    let change = |at: u64, from: RunState, to: RunState| Event {
        vm: who.vm,
        vcpu: who.vcpu,
        ..Event::nameless(Moment::from_nanos(at), PcpuId(1), EventKind::RunState { from, to })
    };
    let events = [
        change(100, Runnable, Running),
        change(150, Running, Running),
        change(200, Running, Runnable),
        change(230, Runnable, Running),
        change(300, Running, Blocked),
        change(1_000, Blocked, Runnable),
        change(1_010, Runnable, Running),
        // Nobody saw it leave.
        change(1_500, Offline, Runnable),
        Event::lost(Moment::from_nanos(1_700), PcpuId(0), 1),
        change(1_800, Runnable, Running),
    ];
    let times = |window: (u64, u64)| {
        let mut states = RunStates::default();
        let window = (Moment::from_nanos(window.0), Moment::from_nanos(window.1));
        events.iter().for_each(|event| states.absorb(event, window));
        states.end();
        *states.times().next().unwrap().1
    };
    let all = times((0, u64::MAX));
    let of = |times: StayStats| (times.count, times.total);
    assert_eq!(of(all.states[Running as usize]), (2, 170));
    assert_eq!(of(all.states[Runnable as usize]), (3, 30 + 10 + 200));
    assert_eq!((of(all.preempted), of(all.woken())), ((1, 30), (2, 210)));
    assert_eq!(of(all.states[Blocked as usize]), (1, 700));
    assert_eq!(of(all.lost), (2, 490 + 100));
    let part = times((250, 400));
    assert_eq!((of(part.states[Running as usize]), of(part.states[Blocked as usize])), ((1, 50), (1, 100)));
    assert_eq!((of(part.states[Runnable as usize]), of(part.lost)), ((0, 0), (0, 0)));
}

/// An exit for a port, served in the kernel or outside.
fn access(write: bool, string: bool, outside: bool, cost: u64, answered: u64) -> Exit {
    let form = if string { PortAccessForm::String } else { PortAccessForm::NonString };
    let mut exit = Exit {
        at: Moment::from_nanos(0),
        who: VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(1) },
        cpu: PcpuId(0),
        code: ExitCode::new(CodeList::Vmx, 30),
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        handler: if outside { Handler::Userspace(2) } else { Handler::Kernel },
        subject: Some(Subject { kind: SubjectKind::Port, write, form, size: 1, key: 0x80, value: cost }),
        injected: None,
        guest: Nanos(0),
        parts: spent(TimePart::Kernel, cost),
        phases: ExitPhases::default(),
        timed: true,
        is_halt: false,
        events: 2,
    };
    exit.phases.handed = Nanos(cost / 10);
    exit.phases.answered = Nanos(answered);
    exit
}

#[test]
fn accesses_are_told_apart_by_who_served_them_and_compared_with_those_of_the_kernel() {
    let rows = [
        access(true, false, true, 100, 90),
        access(true, false, true, 300, 0),
        access(true, true, true, 500, 450),
        access(true, false, false, 20, 90),
        access(false, false, true, 60, 50),
    ];
    let facts = facts(&rows);
    let cells = facts.accesses.cells();
    let found: Vec<_> =
        cells.iter().map(|(key, cell)| (key.at.write, key.outside, key.string, cell.stats.count)).collect();
    let expected = [(false, true, false, 1), (true, false, false, 1), (true, true, false, 2), (true, true, true, 1)];
    assert_eq!(found, expected);
    let writes = cells[2].1;
    assert_eq!((writes.written, writes.addresses, writes.plain), (Some((100, 300)), Some((0x80, 0x80)), 2));
    // What nothing says is no length, and what the kernel serves is not answered by others.
    assert_eq!((writes.answered.count, writes.handed.count, cells[1].1.answered.count), (1, 2, 0));
    assert_eq!(facts.accesses.typical().in_kernel(SubjectKind::Port, true), Some(Nanos(20)));
    assert_eq!(
        facts.accesses.typical().in_kernel(SubjectKind::Port, false),
        Some(Nanos(20)),
        "there is no read to compare with"
    );
    assert_eq!(facts.accesses.typical().in_kernel(SubjectKind::Mmio, true), None);
    assert_eq!(writes.saving(Nanos(20)), Nanos(400 - 2 * 20));
    assert_eq!(writes.saving(Nanos(10_000)), Nanos(0), "no way that costs more is a saving");
    assert_eq!(facts.accesses.typical().emulation, Some(Nanos(50 - 10)));
    // By what they are about, all of one port and direction are one again.
    let details: Vec<_> = facts.details().iter().map(|(key, cell)| (key.write, cell.count)).collect();
    assert_eq!(details, [(true, 4), (false, 1)]);
}

#[test]
fn a_ring_that_is_full_and_data_in_memory_go_outside() {
    use exitscope_analysis::replay::{InKernelHandling, PortReplay};
    use exitscope_policy::port_path::{CoalescedRing, Params};
    let kernels = access(true, false, false, 20, 0);
    let facts = facts(&[kernels]);
    let run = |served, params: Params, rows: &[Exit]| {
        let mut replay = PortReplay::new(params, served, false, &facts.accesses.typical(), None);
        rows.iter().for_each(|row| replay.absorb(row));
        replay.outcome
    };
    let now = PortReplay::recorded(false);
    let writes = vec![access(true, false, true, 100, 0); CoalescedRing::ENTRIES as usize];
    let coalesced = run(InKernelHandling::Coalesced, now, &writes);
    assert_eq!((coalesced.outside, coalesced.time), (1, 100 + 20 * (u64::from(CoalescedRing::ENTRIES) - 1)));
    // Another exit to user space empties the ring.
    let mut other = access(true, false, true, 100, 0);
    other.subject = None;
    let half = writes.len() / 2;
    let emptied = [&writes[..half], &[other], &writes[half..]].concat();
    assert_eq!(run(InKernelHandling::Coalesced, now, &emptied).outside, 0);
    let rows = [access(true, true, true, 500, 0), access(false, false, true, 60, 0), kernels];
    assert_eq!(run(InKernelHandling::Ioeventfd, now, &rows).outside, 2, "neither a string nor a read");
    let devices = run(InKernelHandling::Devices, now, &rows);
    assert_eq!((devices.outside, devices.time, devices.emulations), (0, 60, 1));
    // Without the quick path all are emulated, a read that goes outside twice, and nobody knows what that costs here.
    let emulated = run(InKernelHandling::Nothing, Params { quick_path: false, ..now }, &rows);
    assert_eq!((emulated.emulations, emulated.unknown, emulated.time), (1 + 2 + 1, 2, 500));
}

/// Threads with one vCPU's number are of several VMs; with one process's, only if they were there at the same time.
#[test]
fn threads_of_one_number_are_of_several_vms() {
    const MS: u64 = 1_000_000;
    let least = |vm: VmId, threads: &[(u32, u32, u64, u64)]| {
        let exit = |&(tid, vcpu, from, to): &(u32, u32, u64, u64)| Exit {
            at: Moment::from_nanos(to * MS),
            who: VcpuIdentity { vm, vcpu: VcpuId(vcpu), tid: Tid(tid) },
            guest: Nanos((to - from) * MS),
            ..plain()
        };
        let mut rows: Vec<Exit> = threads.iter().map(exit).collect();
        rows.sort_by_key(|exit| exit.at);
        let mut facts = Facts::new(&wanted());
        facts.begin(Moment::default());
        rows.iter().for_each(|exit| {
            facts.absorb(exit);
        });
        facts.end(Moment::default(), Moment::from_nanos(100 * MS), &FxHashMap::default());
        facts.vms_within(vm)
    };
    let named = VmId(7);
    assert_eq!(least(named, &[(1, 0, 0, 100), (2, 1, 0, 100)]), 1);
    assert_eq!(least(named, &[(1, 0, 0, 50), (2, 0, 50, 100)]), 1, "another thread took over");
    assert_eq!(least(named, &[(1, 0, 0, 60), (2, 0, 50, 100)]), 2);
    assert_eq!(least(named, &[(1, 0, 0, 100), (2, 0, 0, 100), (3, 0, 0, 100)]), 3);
    assert_eq!(least(VmId::UNKNOWN, &[(1, 0, 0, 50), (2, 0, 50, 100)]), 2, "nothing says that they are of one process");
    assert_eq!(least(VmId::UNKNOWN, &[(1, u32::MAX, 0, 100), (2, u32::MAX, 0, 100)]), 1, "their numbers are not known");
}
