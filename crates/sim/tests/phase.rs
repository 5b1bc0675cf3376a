//! Equal phases of CPUs decide no answer: a little work on one of them, which shifts its slices, changes gains little.

mod common;

use common::{compute, forever, us};
use exitscope_policy::yielding::DiagnoseSupport;
use exitscope_scenario::{Arch, HostSpec, HostThread, Op, Scenario, SpinWait, TimeDistribution, VmSpec};
use exitscope_sim::{Limits, Unseen, run};
use exitscope_units::{Nanos, Picos};

/// VMs of four vCPUs on four CPUs, a vCPU of each on every CPU, and on the first one a thread that takes `noise` thousandths of it.
fn on_four_cpus(vm: VmSpec, noise: u64, seed: u64) -> Scenario {
    let mut host = HostSpec::new(4);
    if matches!(vm.spin, SpinWait::Diagnose(_)) {
        (host.arch, host.posted_interrupts) = (Arch::S390, false);
    }
    let mut scenario = Scenario::new("test", host);
    scenario.seed = seed;
    scenario.costs.tick_period.time = Picos::ZERO;
    scenario.warmup = us(50_000);
    scenario.duration = us(1_000_000);
    scenario.vms.push(VmSpec { pinned: true, cpus: vec![0, 1, 2, 3], ..vm });
    if noise > 0 {
        scenario.threads.push(HostThread {
            name: "noise".to_string(),
            copies: 1,
            cpus: vec![0],
            pinned: true,
            program: forever(vec![compute(noise), Op::Sleep(TimeDistribution::Fixed(us(1_000 - noise)))]),
        });
    }
    scenario
}

/// Two VMs whose vCPUs take turns on the CPUs, and each a lock.
fn locking() -> VmSpec {
    let steps = vec![Op::Lock(0), compute(5), Op::Unlock(0), compute(25), Op::Count];
    let mut vm = VmSpec { copies: 2, ..VmSpec::new("a", 4) }.running(forever(steps));
    vm.locks.push("l".to_string());
    vm
}

/// Pairs of vCPUs that wake each other.
fn waking() -> VmSpec {
    let pairs = (0..4).fold(VmSpec::new("a", 4), |vm, own| {
        let wakes = [vec![Op::Ipi(own ^ 1), Op::AwaitIpi], vec![Op::AwaitIpi, Op::Ipi(own ^ 1)]];
        let steps = [&wakes[own as usize % 2][..], &[compute(20), Op::Count]].concat();
        vm.running_on(own, forever(steps))
    });
    changed(pairs, |vm| vm.policies.host_halt_poll.halt_poll_ns = Nanos(0))
}

fn changed(mut vm: VmSpec, change: impl Fn(&mut VmSpec)) -> VmSpec {
    change(&mut vm);
    vm
}

fn names_targets(vm: &mut VmSpec, diag9c: bool) {
    vm.spin = SpinWait::Diagnose(DiagnoseSupport { diag44: false, diag9c, sense_running: diag9c, lpar: false });
}

/// What the second one does more than the first, in per cent, by the noise in thousandths.
fn gains(before: &VmSpec, after: &VmSpec, seed: u64) -> [f64; 4] {
    [0, 1, 10, 130].map(|noise| {
        let work = |vm: &VmSpec| {
            let outcome = run(&on_four_cpus(vm.clone(), noise, seed), Unseen, Limits::default()).unwrap().0;
            outcome.vms[0].work.count as f64
        };
        (work(after) / work(before) - 1.0) * 100.0
    })
}

fn agree(gains: [f64; 4]) -> bool {
    let (least, most) =
        gains.iter().fold((f64::MAX, f64::MIN), |(least, most), gain| (least.min(*gain), most.max(*gain)));
    most - least <= 5.0
}

#[test]
fn a_thousandth_of_noise_on_one_cpu_does_not_change_what_a_mechanism_wins() {
    let no_ple = changed(locking(), |vm| vm.policies.yielding.ple_gap = 0);
    let [spins, named] = [false, true].map(|diag9c| changed(locking(), |vm| names_targets(vm, diag9c)));
    let polled = changed(waking(), |vm| vm.policies.host_halt_poll.halt_poll_ns = Nanos(200_000));
    for (what, before, after) in
        [("PLE", &no_ple, &locking()), ("directed yield", &spins, &named), ("halt polling", &waking(), &polled)]
    {
        for seed in 1..=2 {
            let gains = gains(before, after, seed);
            assert!(agree(gains), "{what}, seed {seed}: {gains:.1?} % with a noise of 0, 0.1, 1 and 13 %");
        }
    }
}
