//! The guests of the reduced scheduler on exitscope's whole machine: with exits, costs, ticks and queues for each CPU.
//! An event is what the machine counts: one thing taken from its queue.

use crate::Lines;
use exitscope_scenario::{HostSpec, Op, Scenario, TimeDistribution, VmSpec};
use exitscope_sim::{Limits, Unseen, run};
use exitscope_units::Picos;
use std::sync::atomic::{AtomicU64, Ordering};

fn scenario(cpus: u32, vcpus: u32, millis: u64, seed: u64) -> Scenario {
    let sleep = vec![Op::Sleep(TimeDistribution::Exponential(Picos::from_nanos(50_000)))];
    let program = vec![Op::Repeat(
        None,
        vec![
            Op::Compute(TimeDistribution::Exponential(Picos::from_nanos(20_000))),
            Op::Hypercall(1),
            Op::Count,
            Op::Pick(vec![(9, vec![]), (1, sleep)]),
        ],
    )];
    let mut vm = VmSpec::new("guest", 4).running(program);
    vm.copies = vcpus / 4;
    let mut scenario = Scenario::new("speed", HostSpec::new(cpus));
    scenario.seed = seed;
    scenario.warmup = Picos::from_nanos(1_000);
    scenario.duration = Picos::from_nanos(millis * 1_000_000);
    scenario.vms.push(vm);
    scenario
}

fn events(scenario: &Scenario) -> u64 {
    run(scenario, Unseen, Limits::default()).expect("a run without a fault").0.events
}

pub fn one(cpus: u32, vcpus: u32, millis: u64) -> Lines {
    vec![("events", events(&scenario(cpus, vcpus, millis, 1)) as f64)]
}

/// As a sweep does it: every thread takes the next run, with a seed of its own.
pub fn sweep(runs: u64, threads: usize) -> Lines {
    let (next, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= runs {
                        break;
                    }
                    sum.fetch_add(events(&scenario(16, 64, 200, seed)), Ordering::Relaxed);
                }
            });
        }
    });
    vec![("events", sum.into_inner() as f64)]
}
