//! Guests on this machine's real KVM: their counts are known, and what goes wrong with them ends in an error that says so.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use common::machine;
use exitscope_lab::abi::{self, ProgramStep, bell, op};
use exitscope_lab::bench::{Bench, Job, Spec};
use exitscope_lab::exit_account::LabExitReason;
use exitscope_lab::run_loop::{Setup, VcpuRun, parkers, serve, serve_into};
use exitscope_lab::{
    IoAddress, KvmExit, LabError, LabMachine, LabVm, Payload, PrivilegeRing, VmConfig, Watch, next_exit, sampled, step,
};
use exitscope_policy::Policies;
use exitscope_policy::exit_path::{DeviceLock, RegisterSync};
use exitscope_scenario::findings::Instruction;
use exitscope_skips::or_skip;
use std::time::{Duration, Instant};

const PORT: ProgramStep = ProgramStep { op: op::PORT_IN, a: 1, b: 0x10, c: 0 };

/// Runs programs, one a vCPU, with nobody but parkers to serve them.
fn programs(
    machine: &LabMachine,
    ring: PrivilegeRing,
    programs: &[&[ProgramStep]],
) -> (Payload, Result<Vec<u64>, LabError>) {
    let config = VmConfig { irqchip: false, ..VmConfig::new(programs.len() as u32, ring) };
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, config).unwrap();
    let mut payload = Payload::new(&vm, machine, &Policies::default(), 0);
    for (vcpu, program) in programs.iter().enumerate() {
        payload.load(vcpu as u32, program, 1).unwrap();
    }
    let parkers = parkers(config.vcpus);
    let setup = Setup::new(machine, &parkers);
    let ports = Watch::new(Duration::from_secs(10))
        .run(&mut vcpus, |vcpu, watch| Ok(serve(vcpu, &setup, watch)?.account.count(LabExitReason::PortIn)));
    (payload, ports)
}

#[test]
fn prime_numbers_of_accesses_come_out_exactly() {
    let machine = or_skip!(machine());
    let out = ProgramStep { op: op::PORT_OUT, a: 2, b: 0x20, c: 7 };
    let load = ProgramStep { op: op::MMIO_READ, a: 4, b: 0xfeb0_0000, c: 0 };
    let store = ProgramStep { op: op::MMIO_WRITE, a: 8, b: 0xfeb0_0008, c: u64::MAX };
    let again = |count, step| [ProgramStep { b: count, ..self::step(op::REPEAT) }, step, self::step(op::AGAIN)];
    let steps = [again(23, PORT), again(17, out), again(13, load), again(11, store)].concat();
    let spec = Spec::new(machine.ring(), step(op::NOTHING));
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, spec.config).unwrap();
    let mut payload = Payload::new(&vm, &machine, &Policies::default(), 0);
    payload.load(0, &steps, 1).unwrap();
    let mut seen = Vec::new();
    let watch = Watch::new(Duration::from_secs(10));
    loop {
        let exit = next_exit(&mut vcpus[0], &watch).unwrap();
        vcpus[0].answer(5);
        match exit {
            KvmExit::Bell { bell: bell::DONE, .. } => break,
            exit => seen.push(exit),
        }
    }
    let count = |exit: KvmExit| seen.iter().filter(|seen| **seen == exit).count();
    assert_eq!(count(KvmExit::PortIn { port: 0x10, size: 1 }), 23);
    assert_eq!(count(KvmExit::PortOut { port: 0x20, size: 2, value: 7 }), 17);
    assert_eq!(count(KvmExit::MmioRead { address: 0xfeb0_0000, size: 4 }), 13);
    assert_eq!(count(KvmExit::MmioWrite { address: 0xfeb0_0008, size: 8, value: u64::MAX }), 11);
    assert_eq!(seen.len(), 23 + 17 + 13 + 11);
    let done = payload.page(0).done.0;
    assert_eq!(
        [op::PORT_IN, op::PORT_OUT, op::MMIO_READ, op::MMIO_WRITE].map(|op| done[op as usize]),
        [23, 17, 13, 11]
    );
}

#[test]
fn every_interrupt_that_a_vcpu_sends_itself_is_served() {
    use abi::self_ipi::{ENABLED, HLT, REGISTER, TASK_PRIORITY};
    let machine = or_skip!(machine());
    let executed = |kind: Instruction| machine.executed.rows().into_iter().find(|row| row.0 == kind).unwrap().1;
    for how in [0, REGISTER, TASK_PRIORITY, TASK_PRIORITY | HLT, ENABLED, REGISTER | HLT] {
        let ipi = ProgramStep { a: how, ..step(op::SELF_IPI) };
        let before = [Instruction::Msr, Instruction::Halt].map(executed);
        let spec = Spec::new(PrivilegeRing::Zero, ipi);
        let turn = Bench::new(&machine, spec).unwrap().turn(&machine, 31, false, false).unwrap();
        let after = [Instruction::Msr, Instruction::Halt].map(executed);
        assert_eq!(turn.samples.len(), 31, "{how}");
        // Each is sent by an MSR and ended by another. A back end that emulates ring 0 may deliver one twice.
        let msrs = after[0] - before[0];
        assert!(if machine.emulates_ring_0 { msrs >= 62 } else { msrs == 62 }, "{how}: {msrs}");
        // One that came before the HLT, which no processor lets in there, ends none.
        let halts = after[1] - before[1];
        let expected = if how & HLT != 0 { 31 } else { 0 };
        assert!(if machine.emulates_ring_0 { halts <= expected } else { halts == expected }, "{how}: {halts}");
    }
}

#[test]
fn instructions_of_ring_0_are_executed_and_leave_registers_as_they_were() {
    use abi::privileged::{READ_CR8, TOGGLE_CR0_WP, TOGGLE_CR4_PGE, WBINVD, WRITE_CR8, WRITE_DR7};
    let machine = or_skip!(machine());
    let all = [READ_CR8, WRITE_CR8, TOGGLE_CR0_WP, TOGGLE_CR4_PGE, WRITE_DR7, WBINVD];
    let steps: Vec<ProgramStep> = all.map(|a| ProgramStep { a, ..step(op::PRIVILEGED) }).into();
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, VmConfig::new(1, PrivilegeRing::Zero)).unwrap();
    let mut payload = Payload::new(&vm, &machine, &Policies::default(), 0);
    payload.load(0, &steps, 1).unwrap();
    let control = |vcpu: &mut exitscope_lab::LabVcpu| {
        let sregs = vcpu.fd().get_sregs().unwrap();
        (sregs.cr0, sregs.cr4, sregs.cr8)
    };
    let before = control(&mut vcpus[0]);
    let parkers = parkers(1);
    let setup = Setup::new(&machine, &parkers);
    Watch::new(Duration::from_secs(10)).run(&mut vcpus, |vcpu, watch| serve(vcpu, &setup, watch)).unwrap();
    assert_eq!(payload.page(0).done.0[op::PRIVILEGED as usize], all.len() as u64);
    assert_eq!(control(&mut vcpus[0]), before);
    // One that there is none of ends the guest.
    let unknown = ProgramStep { a: 99, ..step(op::PRIVILEGED) };
    let (_, ran) = programs(&machine, PrivilegeRing::Zero, &[&[unknown]]);
    assert!(matches!(ran, Err(LabError::Crash(_))), "{ran:?}");
}

#[test]
fn every_door_is_gone_through_as_often_as_the_guest_asks() {
    let machine = or_skip!(machine());
    let place = IoAddress::Port(0x10);
    let out = ProgramStep { op: op::PORT_OUT, a: 1, b: 0x10, c: 3 };
    let base = Spec::new(machine.ring(), out);
    let turn = |spec: Spec| Bench::new(&machine, spec).unwrap().turn(&machine, 503, false, true).unwrap();

    let inline = turn(Spec { devices: vec![(place, place)], ..base.clone() });
    assert_eq!((inline.account.count(LabExitReason::PortOut), inline.samples.len()), (503, 503));
    for registers in [RegisterSync::Page, RegisterSync::Needed, RegisterSync::All] {
        let spec = Spec { devices: vec![(place, place)], registers: Some(registers), ..base.clone() };
        assert_eq!(turn(spec).account.count(LabExitReason::PortOut), 503, "{registers:?}");
    }
    let thread = turn(Spec { devices: vec![(place, place)], thread: true, ..base.clone() });
    assert_eq!(thread.account.count(LabExitReason::PortOut), 503);
    assert!(thread.to_thread.is_some_and(|ticks| ticks > 0.0));
    let eventfd = turn(Spec { ioeventfds: vec![(place, 1)], ..base.clone() });
    assert_eq!((eventfd.account.count(LabExitReason::PortOut), eventfd.signals), (0, 503));
    // What finds the ring full comes out instead.
    let coalesced = turn(Spec { coalesced: vec![place], ..base.clone() });
    assert_eq!(coalesced.account.count(LabExitReason::PortOut) + coalesced.coalesced, 503);
    assert!(coalesced.coalesced > 400, "{}", coalesced.coalesced);
    for lock in [DeviceLock::Big, DeviceLock::Split] {
        let config = VmConfig::new(3, machine.ring());
        let job = Job::Step(out, 1);
        let devices = (0..3).map(|at| (IoAddress::Port(0x10 + at), IoAddress::Port(0x10 + at))).collect();
        let spec = Spec { job, config, devices, lock: Some(lock), ..base.clone() };
        assert_eq!(turn(spec).account.count(LabExitReason::PortOut), 3 * 503, "{lock:?}");
    }
}

#[test]
fn what_guests_executed_is_counted_in_all() {
    let machine = or_skip!(machine());
    let ring = machine.ring();
    let hypercall = ProgramStep { b: 100, ..step(op::HYPERCALL) };
    let load = ProgramStep { op: op::MMIO_READ, a: 4, b: 0xfeb0_0000, c: 0 };
    let ping_pong = |ring, irqchip| Spec {
        job: Job::PingPong,
        config: VmConfig { irqchip, ..VmConfig::new(2, ring) },
        ..Spec::new(ring, step(op::NOTHING))
    };
    // Each runs twice, 53 and 48 times; whatever ends a program is a doorbell, which is a port's.
    for (spec, expected) in [
        (Spec::new(ring, hypercall), [101, 0, 0, 2, 0, 0, 0]),
        (Spec::new(ring, step(op::CPUID)), [0, 101, 0, 2, 0, 0, 0]),
        (Spec::new(PrivilegeRing::Zero, ProgramStep { b: 0x277, ..step(op::RDMSR) }), [0, 0, 101, 2, 0, 0, 0]),
        (Spec::new(PrivilegeRing::Zero, step(op::INTERRUPT)), [0, 0, 2 * 101, 2, 0, 0, 0]),
        (Spec::new(ring, PORT), [0, 0, 0, 101 + 2, 0, 0, 0]),
        (Spec::new(ring, load), [0, 0, 0, 2, 101, 0, 0]),
        (Spec::new(ring, ProgramStep { b: abi::ARENA, c: 4096, ..step(op::TOUCH) }), [0, 0, 0, 2, 0, 0, 101]),
    ] {
        let before = machine.executed.rows();
        let mut bench = Bench::new(&machine, spec).unwrap();
        bench.turn(&machine, 53, false, false).unwrap();
        bench.turn(&machine, 48, false, false).unwrap();
        drop(bench);
        let counts = machine.executed.rows().into_iter().zip(before).map(|((kind, now), (_, then))| (kind, now - then));
        let expected: Vec<_> = Instruction::ALL.into_iter().zip(expected).collect();
        let mut counts: Vec<_> = counts.collect();
        // An emulated processor may deliver an interrupt twice.
        if expected[2].1 == 2 * 101 && machine.emulates_ring_0 {
            assert!(counts[2].1 >= 2 * 101, "{counts:?}");
            counts[2] = expected[2];
        }
        assert_eq!(counts, expected);
    }
    // Who waits halts and is woken: by doorbells, or with HLT and an interrupt, whose end is an MSR's write too.
    for (ring, irqchip) in [(PrivilegeRing::Three, false), (PrivilegeRing::Zero, true)] {
        let before = machine.executed.rows();
        let mut bench = Bench::new(&machine, ping_pong(ring, irqchip)).unwrap();
        let turn = bench.turn(&machine, 53, false, false).unwrap();
        let pages = [0, 1].map(|vcpu| bench.payload().page(vcpu));
        drop(bench);
        let count = |kind: Instruction| machine.executed.rows()[kind as usize].1 - before[kind as usize].1;
        let sum = |of: fn(&abi::VcpuPage) -> u64| pages.iter().map(of).sum::<u64>();
        let (halts, wakes) = (sum(|page| page.halts), sum(|page| page.wakes_sent));
        let bells = turn.account.count(LabExitReason::Halt) + turn.account.count(LabExitReason::Wake);
        assert_eq!(count(Instruction::Port), bells + 2);
        match irqchip {
            false => assert_eq!((bells, count(Instruction::Halt)), (halts + wakes, 0)),
            true => {
                assert_eq!((bells, count(Instruction::Halt)), (0, halts));
                assert!(count(Instruction::Msr) >= wakes, "{wakes}");
            }
        }
    }
}

#[test]
fn halts_and_wake_ups_are_never_lost() {
    let machine = or_skip!(machine());
    for (irqchip, halts_in_kernel, ring) in
        [(false, false, PrivilegeRing::Three), (true, true, PrivilegeRing::Three), (true, false, machine.ring())]
    {
        let config = VmConfig { irqchip, ..VmConfig::new(2, ring) };
        let spec = Spec { job: Job::PingPong, config, halts_in_kernel, ..Spec::new(ring, step(op::NOTHING)) };
        let mut bench = Bench::new(&machine, spec).unwrap();
        let turn = bench.turn(&machine, 307, false, false).unwrap();
        assert_eq!(turn.samples.len(), 307, "{irqchip} {halts_in_kernel}");
        for vcpu in 0..2 {
            let page = bench.payload().page(vcpu);
            assert_eq!(page.done.0[op::RECEIVE as usize], 307);
            assert_eq!(page.wakes_sent + page.wakes_saved, 307);
        }
    }
}

#[test]
fn guests_that_go_astray_are_reported_and_gone() {
    let machine = or_skip!(machine());
    let wild = ProgramStep { op: op::MMIO_WRITE, a: 4, b: 1 << 40, c: 0 };
    let unknown = step(99);
    let open_loop = step(op::AGAIN);
    for (what, steps, expected) in [
        ("a wild pointer", &[wild][..], "cr2 0x10000000000"),
        ("a null pointer", &[ProgramStep { b: 8, ..wild }], "cr2 0x8"),
        ("an unknown step", &[unknown], "gave up (1)"),
        ("the end of a loop that never began", &[open_loop], "gave up (2)"),
        ("a privileged instruction", &[step(op::RDMSR)], "vCPU 0"),
    ] {
        let error = programs(&machine, PrivilegeRing::Three, &[steps]).1.unwrap_err().to_string();
        assert!(error.starts_with("the guest crashed") && error.contains(expected), "{what}: {error}");
    }
}

#[test]
fn guests_that_never_end_are_stopped_in_time() {
    let machine = or_skip!(machine());
    let endless = [step(op::REPEAT), ProgramStep { b: 1_000, ..step(op::COMPUTE) }, step(op::AGAIN)];
    let exits = [step(op::REPEAT), PORT, step(op::AGAIN)];
    let halted = [step(op::HALT)];
    let config = VmConfig::new(3, PrivilegeRing::Three);
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, config).unwrap();
    let mut payload = Payload::new(&vm, &machine, &Policies::default(), 0);
    for (vcpu, program) in [&endless[..], &exits, &halted].into_iter().enumerate() {
        payload.load(vcpu as u32, program, 1).unwrap();
    }
    let parkers = parkers(3);
    let setup = Setup::new(&machine, &parkers);
    let limit = Duration::from_millis(200);
    let began = Instant::now();
    let ended = Watch::new(limit).run(&mut vcpus, |vcpu, watch| serve(vcpu, &setup, watch));
    assert!(matches!(ended, Err(LabError::TimeOut(found)) if found == limit), "{ended:?}");
    assert!(began.elapsed() >= limit);
    // The same vCPUs run again, from the beginning.
    payload.reset();
    for vcpu in &mut vcpus {
        payload.load(vcpu.index(), &sampled(5, PORT), 1).unwrap();
        vm.restart(vcpu).unwrap();
    }
    let served = Watch::new(Duration::from_secs(10)).run(&mut vcpus, |vcpu, watch| serve(vcpu, &setup, watch)).unwrap();
    assert!(served.iter().all(|served| served.account.count(LabExitReason::PortIn) == 5));
}

#[test]
fn an_exit_that_the_end_cuts_off_is_told() {
    let machine = or_skip!(machine());
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, VmConfig::new(2, PrivilegeRing::Three)).unwrap();
    let mut payload = Payload::new(&vm, &machine, &Policies::default(), 0);
    payload.load(0, &[PORT, step(op::HALT)], 1).unwrap();
    let parkers = parkers(2);
    let setup = Setup::new(&machine, &parkers);
    let ended = Watch::new(Duration::from_secs(20)).run(&mut vcpus, |vcpu, watch| {
        let mut served = VcpuRun::default();
        if vcpu.index() == 0 {
            assert!(matches!(serve_into(vcpu, &setup, watch, &mut served), Err(LabError::Stopped)));
            return Ok(served);
        }
        // The guest counts its halt right before it comes out with it.
        while payload.page(0).halts == 0 && !watch.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(200));
        watch.stop();
        Ok(served)
    });
    let served = &ended.unwrap()[0];
    assert_eq!((served.account.count(LabExitReason::PortIn), served.account.count(LabExitReason::Halt)), (1, 0));
    assert_eq!(served.cut_off, Some(LabExitReason::Halt));
}

#[test]
fn one_vcpu_that_fails_ends_the_others() {
    let machine = or_skip!(machine());
    let endless = [step(op::REPEAT), ProgramStep { b: 1_000, ..step(op::COMPUTE) }, step(op::AGAIN)];
    let (_, ended) = programs(&machine, PrivilegeRing::Three, &[&endless, &[step(99)], &[step(op::HALT)]]);
    assert!(matches!(ended, Err(LabError::Crash(_))), "{ended:?}");
}

#[test]
fn locks_keep_others_out_and_knobs_reach_the_guest() {
    let machine = or_skip!(machine());
    let body = [
        ProgramStep { b: 401, ..step(op::REPEAT) },
        ProgramStep { a: 3, ..step(op::LOCK) },
        ProgramStep { b: 2_000, ..step(op::COMPUTE) },
        ProgramStep { a: 3, ..step(op::UNLOCK) },
        step(op::AGAIN),
    ];
    for (spin_retry, generation) in [(0, "L2"), (1_000, "classic")] {
        let config = VmConfig::new(2, PrivilegeRing::Three);
        let (vm, mut vcpus) = LabVm::new(&machine.kvm, config).unwrap();
        let mut policies = Policies::default();
        policies.set("spin_retry", spin_retry).unwrap();
        let knob = exitscope_policy::knob("spin_generation").unwrap();
        policies.set("spin_generation", knob.parse(generation).unwrap()).unwrap();
        let flags = abi::machine::DIAG9C;
        let mut payload = Payload::new(&vm, &machine, &policies, flags);
        (0..2).for_each(|vcpu| payload.load(vcpu, &body, 1).unwrap());
        let parkers = parkers(2);
        let setup = Setup::new(&machine, &parkers);
        let watch = Watch::new(Duration::from_secs(20));
        let served = watch.run(&mut vcpus, |vcpu, watch| serve(vcpu, &setup, watch)).unwrap();
        let pages = [payload.page(0), payload.page(1)];
        for (page, served) in pages.iter().zip(&served) {
            assert_eq!((page.done.0[op::LOCK as usize], page.passes), (401, 401 * 2_000));
            // Every call that the guest counts is an exit that the run loop counts.
            assert_eq!(page.yields_to, served.account.count(LabExitReason::YieldTo));
        }
        if spin_retry == 0 {
            let contended: u64 = pages.iter().map(|page| page.contended).sum();
            let yields: u64 = pages.iter().map(|page| page.yields_to).sum();
            assert!(contended == 0 || yields > 0, "{contended} {yields}");
        }
    }
}
