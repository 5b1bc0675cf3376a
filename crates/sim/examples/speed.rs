//! How many events a second: a preemptive scheduler with 64 vCPUs on 16 CPUs, and 10,000 vCPUs on 1,000 CPUs.

use exitscope_scenario::{Host, Op, Scenario, Span, Vm};
use exitscope_sim::{Limits, Unseen, run};
use exitscope_units::Picos;
use std::time::Instant;

fn main() {
    for (cpus, vcpus, millis) in [(16, 64, 2_000), (1_000, 10_000, 50)] {
        let program = vec![Op::Repeat(
            None,
            vec![
                Op::Compute(Span::Exponential(Picos::from_nanos(20_000))),
                Op::Hypercall(1),
                Op::Count,
                Op::Pick(vec![(9, vec![]), (1, vec![Op::Sleep(Span::Exponential(Picos::from_nanos(50_000)))])]),
            ],
        )];
        let mut scenario = Scenario::new("speed", Host::new(cpus));
        let mut vm = Vm::new("guest", 4).running(program);
        vm.copies = vcpus / 4;
        scenario.warmup = Picos::from_nanos(1_000);
        scenario.duration = Picos::from_nanos(millis * 1_000_000);
        scenario.vms.push(vm);
        let start = Instant::now();
        let (outcome, _) = run(&scenario, Unseen, Limits::default()).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{cpus} CPUs, {vcpus} vCPUs, {millis} ms: {} events in {seconds:.2} s, {:.1} million/s",
            outcome.events,
            outcome.events as f64 / seconds / 1e6
        );
    }
}
