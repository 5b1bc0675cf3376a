//! Ganged exits: who joins a run, whose runs overlap, who shares a core.

use exitscope_analysis::Gangs;
use exitscope_model::{CodeList, Event, ExitCode, Kind, NameId, SubjectWord};
use exitscope_policy::vcore::H_DOORBELL;
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeSet;

/// An event of a runner's thread, about a vCPU of a VM.
fn event(at: u64, (vm, tid, cpu): (u32, u32, u32), vcpu: u32, kind: Kind) -> Event {
    Event {
        at: Moment::from_nanos(at),
        tid: Tid(tid),
        vm: VmId(vm),
        vcpu: VcpuId(vcpu),
        cpu: PcpuId(cpu),
        name: NameId::NONE,
        kind,
    }
}

fn exit(trap: u64, idle: bool) -> Kind {
    Kind::Exit { code: ExitCode::new(CodeList::PpcTrap, trap), idle, words: SubjectWord::NONE, rip: 0 }
}

fn run_core(exit: bool, runnable: u32) -> Kind {
    Kind::RunCore { exit, runnable }
}

fn gangs(events: &[Event]) -> Gangs {
    let mut gangs = Gangs::default();
    events.iter().for_each(|event| gangs.absorb(event, |_| true));
    gangs.end();
    gangs
}

const SYSCALL: u64 = 0xc00;
const FORCED: u64 = H_DOORBELL as u64;

#[test]
fn a_vcpu_that_joins_a_run_under_way_belongs_to_it() {
    let runner = (5, 7, 0);
    let late = (5, 9, 3);
    let gangs = gangs(&[
        event(1, runner, 0, run_core(false, 2)),
        // It enters by its own thread, on another CPU, after the run began.
        event(5, late, 2, Kind::Enter),
        event(10, runner, 0, exit(SYSCALL, false)),
        event(10, runner, 1, exit(FORCED, false)),
        event(10, runner, 2, exit(FORCED, false)),
        event(11, runner, 0, run_core(true, 3)),
        event(30, late, 2, Kind::Enter),
    ]);
    let [vcore] = &gangs.vcores(None)[..] else { panic!("{:?}", gangs.vcores(None)) };
    assert_eq!(vcore.vcpus, [VcpuId(0), VcpuId(1), VcpuId(2)]);
    let cell = &vcore.cell;
    assert_eq!((cell.runs, cell.joined, cell.ganged, cell.forced), (1, 1, 1, 2));
    // One of the two that were forced out is back, 20 ns later.
    assert_eq!((cell.lost.count, cell.lost.sum, gangs.unpaired), (1, 20, 0));
}

#[test]
fn runs_of_several_cores_overlap_and_vcpus_of_several_vms_have_the_same_numbers() {
    let (a, b) = ((5, 7, 0), (6, 8, 4));
    let gangs = gangs(&[
        event(1, a, 0, run_core(false, 2)),
        event(2, b, 0, run_core(false, 2)),
        event(10, b, 0, exit(FORCED, false)),
        event(10, a, 0, exit(SYSCALL, false)),
        event(10, b, 1, exit(SYSCALL, false)),
        event(10, a, 1, exit(FORCED, false)),
        event(11, a, 0, run_core(true, 2)),
        event(12, b, 0, run_core(true, 2)),
        // The one of VM 6 that was forced out, not the one of VM 5 with the same number.
        event(20, b, 0, Kind::Enter),
    ]);
    let vms = gangs.vms();
    assert_eq!((vms[&VmId(5)].ganged, vms[&VmId(5)].forced, vms[&VmId(5)].lost.count), (1, 1, 0));
    assert_eq!((vms[&VmId(6)].ganged, vms[&VmId(6)].forced, vms[&VmId(6)].lost.sum), (1, 1, 10));
    let causes: Vec<_> = gangs.causes().into_iter().map(|row| row.0).collect();
    assert_eq!(causes, [(VmId(5), VcpuId(0), 0xc00), (VmId(6), VcpuId(1), 0xc00)]);
    assert_eq!(gangs.vcores(None).len(), 2);
}

#[test]
fn vms_that_share_a_core_in_turn_are_told_apart() {
    let turn = |at, vm: u32, trap| {
        let runner = (vm, vm, 0);
        [
            event(at, runner, 0, run_core(false, 2)),
            event(at + 5, runner, 0, exit(SYSCALL, false)),
            event(at + 5, runner, 1, exit(trap, false)),
            event(at + 6, runner, 0, run_core(true, 2)),
        ]
    };
    let gangs = gangs(&[turn(0, 5, FORCED), turn(10, 6, SYSCALL), turn(20, 5, FORCED)].concat());
    let vcores = gangs.vcores(None);
    let rows: Vec<_> = vcores.iter().map(|row| (row.vm.0, row.cell.runs, row.cell.forced)).collect();
    assert_eq!(rows, [(5, 2, 2), (6, 1, 0)]);
    assert!(vcores.iter().all(|row| row.cell.cpus == BTreeSet::from([PcpuId(0)])));
}

#[test]
fn threads_that_all_leave_for_the_shared_timer_or_never_entered_force_nobody() {
    let runner = (5, 7, 0);
    let gangs = gangs(&[
        event(1, runner, 0, run_core(false, 3)),
        event(10, runner, 0, exit(0x980, false)),
        event(10, runner, 1, exit(0x980, false)),
        event(10, runner, 2, exit(0x980, true)),
        event(11, runner, 0, run_core(true, 3)),
        event(21, runner, 0, run_core(false, 2)),
        event(30, runner, 0, exit(SYSCALL, false)),
        event(30, runner, 1, exit(0, false)),
        event(31, runner, 0, run_core(true, 2)),
        // One whose beginning was before the recording.
        event(40, (5, 10, 0), 0, run_core(true, 2)),
    ]);
    let cell = &gangs.vms()[&VmId(5)];
    assert_eq!((cell.runs, cell.two_active, cell.timer, cell.ganged, cell.forced), (2, 2, 1, 0, 0));
    assert_eq!((cell.too_late, gangs.unpaired), (1, 1));
}
