//! The machine against what can be worked out by hand.

mod common;

use common::{compute, forever, us};
use exitscope_policy::exit_path::DeviceLock;
use exitscope_policy::port_path::DeviceModel;
use exitscope_scenario::outcome::SimOutcome;
use exitscope_scenario::{
    Arch, Arrival, Channel, CostOrigin, Doorbell, ExitSpread, HostSpec, HostThread, Load, Op, Program, Scenario,
    SpinWait, TimeDistribution, VmSpec,
};
use exitscope_sim::{Limits, SimError, Unseen, run};
use exitscope_units::Picos;

/// A scenario without ticks, of one VM.
fn scenario(cores: u32, vm: VmSpec) -> Scenario {
    let mut scenario = Scenario::new("test", HostSpec::new(cores));
    scenario.costs.tick_period.time = Picos::ZERO;
    scenario.warmup = us(10_000);
    scenario.duration = us(100_000);
    scenario.vms.push(vm);
    scenario
}

fn outcome(scenario: &Scenario) -> SimOutcome {
    run(scenario, Unseen, Limits::default()).unwrap().0
}

fn exits(outcome: &SimOutcome, name: &str) -> u64 {
    outcome.vms[0].exits.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
}

#[test]
fn a_vcpu_alone_computes_all_the_time() {
    let outcome = outcome(&scenario(1, VmSpec::new("a", 1).running(forever(vec![compute(10), Op::Count]))));
    assert_eq!(outcome.vms[0].work.count, 10_000);
    assert_eq!(outcome.vms[0].time.guest.0, 100_000_000);
    assert_eq!(outcome.vms[0].exits, []);
}

#[test]
fn an_exit_costs_the_sum_of_its_phases() {
    let scenario = scenario(1, VmSpec::new("a", 1).running(forever(vec![compute(1), Op::Cpuid, Op::Count])));
    let c = &scenario.costs;
    // Exit, handler, looks for timers, signals and requests, entry.
    let cost = c.exit.time.0 + c.accounting.time.0 + c.cpuid.time.0 + 3 * c.look.time.0 + c.entry.time.0;
    let expected = us(100_000).0 / (us(1).0 + cost);
    let outcome = outcome(&scenario);
    assert!(outcome.vms[0].work.count.abs_diff(expected) <= 1, "{} {expected}", outcome.vms[0].work.count);
    assert!(exits(&outcome, "CPUID").abs_diff(expected) <= 1);
}

#[test]
fn two_vcpus_share_one_cpu_and_weights_count() {
    let mut light = VmSpec::new("light", 1).running(forever(vec![compute(10), Op::Count]));
    light.weight = 512;
    let mut scenario = scenario(1, VmSpec::new("heavy", 1).running(forever(vec![compute(10), Op::Count])));
    scenario.vms.push(light);
    scenario.duration = us(1_000_000);
    let outcome = outcome(&scenario);
    let (heavy, light) = (outcome.vms[0].work.count as f64, outcome.vms[1].work.count as f64);
    assert!((heavy / light - 2.0).abs() < 0.05, "{heavy} {light}");
    assert!(heavy + light > 99_000.0, "switching took {} of 100,000", 100_000.0 - heavy - light);
}

#[test]
fn a_device_model_in_a_task_of_its_own_costs_more_than_one_in_the_vcpus_thread() {
    let program = forever(vec![Op::Port { port: 0x1f0, size: 1, write: false, string: false }, Op::Count]);
    let inline = scenario(2, VmSpec::new("a", 1).running(program));
    let mut scheduled = inline.clone();
    scheduled.vms[0].policies.port_path.device_model = DeviceModel::Scheduled;
    let mut emulated = scheduled.clone();
    emulated.vms[0].policies.port_path.quick_path = false;
    let counts = [&inline, &scheduled, &emulated].map(|scenario| outcome(scenario).vms[0].work.count);
    assert!(counts[0] > counts[1] && counts[1] > counts[2], "{counts:?}");
    // An IN is emulated twice without the quick path.
    let emulations = outcome(&emulated).emulations;
    assert!(emulations.abs_diff(2 * counts[2]) <= 2, "{emulations} {counts:?}");
}

#[test]
fn one_core_of_four_threads_runs_gangs_and_a_thread_alone_is_never_ganged() {
    let mut vm = VmSpec::new("a", 4).running_on(0, forever(vec![compute(100), Op::Hypercall(1), Op::Count]));
    vm.policies.vcore.smt_mode = 4;
    let mut alone = scenario(1, vm);
    alone.host.ganged = true;
    alone.host.threads = 4;
    alone.host.smt_speed = vec![1_000, 600, 450, 400];
    alone.policies.vcore.threads_per_core = 4;
    let busy = {
        let mut busy = alone.clone();
        busy.vms[0].programs.push((vec![1, 2], forever(vec![compute(30), Op::Count])));
        busy
    };
    let (alone, busy) = (outcome(&alone), outcome(&busy));
    assert_eq!((alone.vms[0].gang_exits, alone.vms[0].gang_exits_by_script), (0, 0));
    assert!(exits(&alone, "hypercall") > 900);
    assert_eq!(busy.vms[0].gang_exits, exits(&busy, "hypercall"));
    assert!(busy.vms[0].gang_exits > 300);
}

fn ping_pong(guest_poll: bool, host_poll: u64) -> Scenario {
    let mut ping = VmSpec::new("ping", 1).running(forever(vec![
        Op::Start,
        Op::Send(0),
        Op::AwaitReply,
        Op::Stop,
        compute(2),
        Op::Count,
    ]));
    let mut pong = VmSpec::new("pong", 1).running(forever(vec![Op::Receive(0), compute(2), Op::Reply]));
    for vm in [&mut ping, &mut pong] {
        vm.cpuidle_haltpoll = guest_poll;
        vm.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(host_poll);
    }
    let mut scenario = scenario(2, ping);
    scenario.vms.push(pong);
    scenario.channels.push(Channel::new("wire"));
    scenario
}

#[test]
fn polling_in_the_guest_beats_polling_in_the_host_beats_none() {
    let latency = |scenario: &Scenario| outcome(scenario).vms[0].work.latency.quantile(5_000).unwrap();
    let (none, host, guest) =
        (latency(&ping_pong(false, 0)), latency(&ping_pong(false, 200_000)), latency(&ping_pong(true, 0)));
    assert!(guest < host && host < none, "none {none} host {host} guest {guest} ns");
    let (host, guest) = (outcome(&ping_pong(false, 200_000)), outcome(&ping_pong(true, 0)));
    assert!(host.host_polls.paid * 10 > host.host_polls.tried * 9, "{:?}", host.host_polls);
    assert!(guest.guest_polls.paid * 10 > guest.guest_polls.tried * 9, "{:?}", guest.guest_polls);
    assert_eq!(exits(&guest, "halt"), 0);
}

/// Two vCPUs of a VM wake each other, after each of `gaps` us in turn.
fn woken_by_siblings(guest_poll: bool, gaps: &[u64]) -> Scenario {
    let turns = |other| gaps.iter().flat_map(move |gap| [Op::Ipi(other), Op::AwaitIpi, compute(*gap), Op::Count]);
    // The second one waits first, and wakes the first at the end.
    let waits: Vec<Op> = turns(0).skip(1).chain([Op::Ipi(0)]).collect();
    let mut vm = VmSpec::new("a", 2).running_on(0, forever(turns(1).collect())).running_on(1, forever(waits));
    vm.cpuidle_haltpoll = guest_poll;
    scenario(2, vm)
}

#[test]
fn a_wake_up_of_a_vcpu_that_polls_needs_no_interrupt_and_each_is_counted() {
    let polls = outcome(&woken_by_siblings(true, &[20]));
    assert_eq!((exits(&polls, "IPI"), exits(&polls, "halt")), (0, 0), "{polls:?}");
    assert!(polls.ipis_spared.abs_diff(polls.vms[0].work.count) <= 2, "{polls:?}");
    // Nobody polls for a millisecond, or at all.
    for run in [outcome(&woken_by_siblings(true, &[1_000])), outcome(&woken_by_siblings(false, &[20]))] {
        assert_eq!(run.ipis_spared, 0);
        assert!(exits(&run, "IPI").abs_diff(run.vms[0].work.count) <= 2, "{run:?}");
    }
}

#[test]
fn a_poll_in_the_guest_ends_by_the_clock_also_where_the_vcpu_has_no_cpu() {
    let polled = |neighbour: u64| {
        // Three short sleeps, after which the governor polls for 200 us; then all polls are in vain.
        let sleep = |micros| [Op::Sleep(TimeDistribution::Fixed(us(micros))), Op::Count];
        let mut vm = VmSpec::new("a", 1)
            .running(vec![Op::Repeat(Some(3), sleep(190).to_vec()), Op::Repeat(None, sleep(3_000).to_vec())]);
        vm.cpuidle_haltpoll = true;
        for (name, value) in [("guest_halt_poll_grow_start", 200_000), ("guest_halt_poll_allow_shrink", 0)] {
            vm.policies.set(name, value).unwrap();
        }
        let mut scenario = scenario(1, vm);
        scenario.costs.tick_period.time = Picos::ZERO;
        if neighbour > 0 {
            // It has run less whenever it wakes up, and takes the CPU at once.
            scenario.host.scheduler.wakeup_granularity = Picos::ZERO;
            let mut vm = VmSpec { weight: 100_000, ..VmSpec::new("neighbour", 1) }
                .running(forever(vec![compute(neighbour), Op::Sleep(TimeDistribution::Fixed(us(50)))]));
            vm.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(0);
            scenario.vms.push(vm);
        }
        let run = outcome(&scenario);
        assert!(run.guest_polls.tried > 20, "{:?}", run.guest_polls);
        run.vms[0].time.guest_polling.0 / run.guest_polls.tried
    };
    let (alone, beside) = (polled(0), polled(150));
    assert!((195_000..=205_000).contains(&alone), "{alone}");
    assert!(beside < alone / 2, "of 200 us by the clock it has the CPU for about a quarter: {beside}");
}

#[test]
fn each_tunable_of_the_governor_changes_what_it_decides() {
    let run = |set: &[(&str, u64)]| {
        // Gaps that make the limit grow, and one that makes it shrink.
        let mut scenario = woken_by_siblings(true, &[30, 120, 80, 500, 500]);
        set.iter().for_each(|(name, value)| scenario.vms[0].policies.set(name, *value).unwrap());
        let run = outcome(&scenario);
        (run.guest_polls.tried, run.guest_polls.paid, run.vms[0].time.guest_polling)
    };
    for (name, value) in [
        ("guest_halt_poll_ns", 60_000),
        ("guest_halt_poll_grow", 1),
        ("guest_halt_poll_grow_start", 190_000),
        ("guest_halt_poll_shrink", 1),
        ("guest_halt_poll_allow_shrink", 0),
    ] {
        assert_ne!(run(&[(name, value)]), run(&[]), "{name}={value}");
    }
}

#[test]
fn host_polling_is_cpu_time_and_not_halted() {
    let [none, polled] = [0, 200_000].map(|poll| outcome(&ping_pong(false, poll)));
    for run in [&none, &polled] {
        let parts = run.vms.iter().map(|vm| vm.time).map(|t| t.cpu().0 + t.halted.0 + t.steal.0 + t.blocked.0);
        assert!(parts.sum::<u64>().abs_diff(2 * 100_000_000) <= 16, "the parts are the whole: {run:?}");
        assert_eq!(run.vms[0].time.guest_polling.0, 0);
    }
    let share = |of: fn(&SimOutcome) -> u64, run: &SimOutcome| of(run) as f64 / 100e6;
    let polling = |run: &SimOutcome| share(|run| run.vms[0].time.polling.0, run);
    let halted = |run: &SimOutcome| share(|run| run.vms[0].time.halted.0, run);
    assert_eq!(polling(&none), 0.0);
    assert!(halted(&none) > 0.4 && none.busy_cpus < 1.2, "{} {}", halted(&none), none.busy_cpus);
    assert!(polling(&polled) > 0.3 && halted(&polled) < 0.01, "{} {}", polling(&polled), halted(&polled));
    assert!(polled.busy_cpus > 1.98, "both CPUs are busy all the time: {}", polled.busy_cpus);
    let figure = |scenario: &Scenario, name: &str| {
        let metrics = outcome(scenario).metrics(scenario);
        metrics.into_iter().find(|metric| metric.name == name).unwrap().value
    };
    let [none, polled] = [0, 200_000].map(|poll| ping_pong(false, poll));
    assert!(figure(&polled, "throughput") > figure(&none, "throughput"));
    assert!(figure(&polled, "throughput_per_cpu") < figure(&none, "throughput_per_cpu"), "the poll is not free");
    assert!(figure(&polled, "ping.cpu") > 0.99 && figure(&none, "ping.cpu") < 0.6);
}

#[test]
fn in_a_virtual_core_one_thread_polls_and_the_others_sleep() {
    let mut vm = VmSpec::new("a", 4).running(forever(vec![Op::Sleep(TimeDistribution::Fixed(us(50))), Op::Count]));
    vm.policies.vcore.smt_mode = 4;
    vm.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(200_000);
    let mut scenario = scenario(1, vm);
    (scenario.host.arch, scenario.host.ganged, scenario.host.threads) = (Arch::Powerpc, true, 4);
    scenario.host.smt_speed = vec![1_000, 600, 450, 400];
    scenario.policies.vcore.threads_per_core = 4;
    let run = outcome(&scenario);
    let polling = run.vms[0].time.polling.0;
    assert!((30_000_000..=100_000_000).contains(&polling), "of the one CPU: {polling}");
    assert!(run.vms[0].time.halted.0 > 3 * polling - polling / 10, "{:?}", run.vms[0].time);
}

#[test]
fn a_poll_ends_when_another_task_is_runnable_on_its_cpu() {
    // A vCPU sleeps and is polled for all that time, if it may; a thread of the host wants the same CPU now and then.
    let with = |poll: u64| {
        let mut vm = VmSpec::new("a", 1).running(forever(vec![Op::Sleep(TimeDistribution::Fixed(us(700))), Op::Count]));
        vm.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(poll);
        vm.policies.host_halt_poll.halt_poll_ns_grow_start = exitscope_units::Nanos(poll);
        let mut scenario = scenario(1, vm);
        scenario.threads.push(HostThread {
            name: "native".to_string(),
            copies: 1,
            cpus: Vec::new(),
            pinned: false,
            program: forever(vec![
                Op::Sleep(TimeDistribution::Fixed(us(130))),
                Op::Start,
                compute(20),
                Op::Stop,
                Op::Count,
            ]),
        });
        outcome(&scenario)
    };
    let (none, polled) = (with(0), with(1_000_000));
    assert!(polled.host_polls.tried > 50 && polled.vms[0].time.polling.0 > 5_000_000, "{:?}", polled.vms[0].time);
    let (without, beside) = (none.threads[0].count, polled.threads[0].count);
    assert!(beside * 100 > without * 98, "the thread does not wait for the poll: {beside} of {without}");
}

#[test]
fn a_poll_ends_when_a_tick_moves_a_waiting_task_to_its_cpu() {
    // Three threads begin on CPU 1, while a vCPU is polled for on CPU 0: the threads between them keep them apart.
    let mut vm = VmSpec::new("a", 1)
        .running(vec![Op::Sleep(TimeDistribution::Fixed(us(50))), Op::Sleep(TimeDistribution::Fixed(us(90_000)))]);
    vm.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(100_000_000);
    vm.policies.host_halt_poll.halt_poll_ns_grow_start = exitscope_units::Nanos(100_000_000);
    let mut scenario = scenario(2, vm);
    scenario.costs.tick_period.time = us(1_000);
    scenario.warmup = Picos::ZERO;
    // Only ticks move waiting tasks.
    scenario.host.scheduler.steal = false;
    for works in [true, false, true, false, true] {
        let work = vec![Op::Sleep(TimeDistribution::Fixed(us(3_000))), Op::Start, compute(20_000), Op::Stop, Op::Count];
        scenario.threads.push(HostThread {
            name: "native".to_string(),
            copies: 1,
            cpus: Vec::new(),
            pinned: false,
            program: if works { work } else { Vec::new() },
        });
    }
    let run = outcome(&scenario);
    assert!(run.host_polls.tried > 0, "{:?}", run.host_polls);
    let took: Vec<f64> = run.threads.iter().filter_map(|work| work.latency.mean()).collect();
    assert!(took.len() == 3 && took.iter().all(|ns| *ns < 36e6), "60 ms of work on two CPUs: {took:?}");
}

#[test]
fn clients_outside_are_answered_and_their_latency_is_seen() {
    let mut scenario =
        scenario(2, VmSpec::new("server", 1).running(forever(vec![Op::Receive(0), compute(5), Op::Reply, Op::Count])));
    scenario.channels.push(Channel {
        latency: TimeDistribution::Fixed(us(20)),
        doorbell: Doorbell::Eventfd,
        thread: us(2),
        ..Channel::new("net")
    });
    scenario.loads.push(Load { channel: 0, arrival: Arrival::Closed { clients: 1, think: TimeDistribution::ZERO } });
    let outcome = outcome(&scenario);
    let latency = outcome.loads[0].quantile(5_000).unwrap();
    assert!((49_000..70_000).contains(&latency), "{latency}");
    assert!(outcome.vms[0].work.count.abs_diff(outcome.loads[0].total()) <= 2);
}

#[test]
fn lock_holders_that_lose_their_cpu_make_others_spin_and_yielding_helps() {
    let program = forever(vec![Op::Lock(0), compute(20), Op::Unlock(0), compute(20), Op::Count]);
    let mut vm = VmSpec::new("a", 4).running(program);
    vm.locks.push("l".to_string());
    let mut helped = scenario(2, vm);
    helped.host.scheduler.time_slice = us(1_000);
    let mut unhelped = helped.clone();
    // A window so long that the processor never notices.
    unhelped.vms[0].policies.yielding.ple_window = u32::MAX;
    let (helped, unhelped) = (outcome(&helped), outcome(&unhelped));
    assert!(helped.yields.directed > 100, "{:?}", helped.yields);
    assert!(helped.vms[0].time.spinning < unhelped.vms[0].time.spinning);
    assert!(helped.vms[0].work.count > unhelped.vms[0].work.count);
}

#[test]
fn a_thread_of_the_host_makes_no_exits() {
    let mut scenario = scenario(1, VmSpec::new("idle", 1));
    scenario.threads.push(HostThread {
        name: "native".to_string(),
        copies: 1,
        cpus: Vec::new(),
        pinned: false,
        program: forever(vec![compute(10), Op::Sleep(TimeDistribution::Fixed(us(10))), Op::Count]),
    });
    let outcome = outcome(&scenario);
    assert!(outcome.threads[0].count > 3_000, "{}", outcome.threads[0].count);
    assert_eq!(outcome.vms[0].exits, []);
}

#[test]
fn deadlocks_and_standstills_are_named() {
    let mut vm = VmSpec::new("a", 2)
        .running_on(0, vec![Op::Lock(0), compute(10), Op::Lock(1)])
        .running_on(1, vec![Op::Lock(1), compute(10), Op::Lock(0)]);
    vm.locks = vec!["left".to_string(), "right".to_string()];
    let locks = run(&scenario(2, vm), Unseen, Limits::default()).unwrap_err();
    let SimError::Deadlock { who, .. } = &locks else { panic!("{locks}") };
    assert!(who.contains("vCPU 1 of a spins for lock left, held by vCPU 0 of a"), "{who}");

    let mut waits = scenario(1, VmSpec::new("a", 1).running(vec![Op::Receive(0)]));
    waits.channels.push(Channel::new("silence"));
    let waits = run(&waits, Unseen, Limits::default()).unwrap_err();
    assert!(waits.to_string().contains("vCPU 0 of a waits for a message from channel silence"), "{waits}");

    let round = run(&scenario(1, VmSpec::new("a", 1).running(forever(vec![Op::Count]))), Unseen, Limits::default());
    assert!(matches!(round, Err(SimError::NoProgress { .. })), "{round:?}");

    let mut keeps = VmSpec::new("a", 1).running(vec![Op::Lock(0), compute(1)]);
    keeps.locks.push("l".to_string());
    let keeps = run(&scenario(1, keeps), Unseen, Limits::default());
    assert!(matches!(keeps, Err(SimError::EndsWithLock { .. })), "{keeps:?}");
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_one_does_not() {
    let program = forever(vec![
        Op::Compute(TimeDistribution::Exponential(us(30))),
        Op::Lock(0),
        compute(5),
        Op::Unlock(0),
        Op::Count,
    ]);
    let mut vm = VmSpec::new("a", 6).running(program);
    vm.locks.push("l".to_string());
    let scenario = scenario(3, vm);
    let (first, second) = (outcome(&scenario), outcome(&scenario));
    assert_eq!(first, second);
    let other = Scenario { seed: 2, ..scenario };
    assert_ne!(first, outcome(&other));
}

#[test]
fn a_tick_in_the_handler_that_ends_a_halt_does_not_lose_the_wake_up() {
    let mut scenario = ping_pong(false, 300_000);
    // So many ticks that one falls into every step sooner or later.
    scenario.costs.tick_period.time = Picos::from_nanos(17_001);
    scenario.duration = us(1_000_000);
    let outcome = outcome(&scenario);
    assert!(outcome.vms[0].work.count > 10_000, "{}", outcome.vms[0].work.count);
}

#[test]
fn a_cpu_does_not_idle_while_a_task_that_may_run_there_waits() {
    let mut scenario = scenario(4, VmSpec::new("free", 2).running(forever(vec![compute(100), Op::Count])));
    scenario.costs.tick_period.time = us(1_000);
    // They take the CPU on which one of the vCPUs began.
    scenario.threads.push(HostThread {
        name: "pinned".to_string(),
        copies: 2,
        cpus: vec![1],
        pinned: false,
        program: forever(vec![compute(100), Op::Count]),
    });
    scenario.duration = us(200_000);
    let outcome = outcome(&scenario);
    assert!(outcome.vms[0].work.count > 3_850, "{}", outcome.vms[0].work.count);
}

#[test]
fn threads_of_a_core_run_as_fast_as_their_number_lets_them_and_more_than_have_speeds_do_not_run() {
    let work = |vcpus: u32, speeds: &[u32]| {
        let mut scenario = scenario(1, VmSpec::new("a", vcpus).running(forever(vec![compute(10), Op::Count])));
        scenario.host.threads = 8;
        scenario.host.smt_speed = speeds.to_vec();
        run(&scenario, Unseen, Limits::default()).map(|(outcome, _)| outcome.vms[0].work.count)
    };
    let speeds = [1_000, 725, 580, 471];
    for (busy, speed) in (1..).zip(speeds) {
        let (expected, done) = (u64::from(busy * speed) * 10, work(busy, &speeds).unwrap());
        assert!(done.abs_diff(expected) < expected / 50, "{busy} threads at {speed}: {done}");
    }
    for busy in [5, 8, 9] {
        assert_eq!(work(busy, &speeds), Err(SimError::TooFewSpeeds { busy: busy.min(8), speeds: 4 }));
    }
}

/// One core of two hardware threads, each at 62 % beside the other.
fn one_core_of_two(vm: VmSpec) -> Scenario {
    let mut scenario = scenario(1, vm);
    scenario.host.threads = 2;
    scenario.host.smt_speed = vec![1_000, 620];
    scenario
}

#[test]
fn threads_of_a_core_slow_each_other_in_the_hypervisor_and_in_user_space_as_in_the_guest() {
    let port = Op::Port { port: 0x80, size: 1, write: true, string: false };
    for step in [compute(10), Op::Hypercall(1), Op::Cpuid, port] {
        let work = |vcpus| {
            let vm = VmSpec::new("a", vcpus).running(forever(vec![step.clone(), Op::Count]));
            outcome(&one_core_of_two(vm)).vms[0].work.count as f64
        };
        let gain = work(2) / work(1);
        assert!((gain - 1.24).abs() < 0.005, "{step:?}: two threads do {gain} times the work of one");
    }
}

#[test]
fn work_in_the_hypervisor_is_slowed_for_as_long_as_the_sibling_is_busy() {
    let with = |sibling: Program| {
        let vm = VmSpec::new("a", 1).running(forever(vec![Op::Hypercall(1), Op::Count]));
        let mut scenario = one_core_of_two(vm);
        let mut sibling = VmSpec::new("sibling", 1).running(sibling);
        sibling.policies.host_halt_poll.halt_poll_ns = exitscope_units::Nanos(0);
        scenario.vms.push(sibling);
        // Far longer than an exit, and no multiple of it.
        scenario.costs.exit.time = us(7);
        let run = outcome(&scenario);
        (run.vms[0].work.count as f64, run.vms[1].time.cpu().0 as f64 / 100e6)
    };
    let (alone, idle) = with(Vec::new());
    assert_eq!(idle, 0.0);
    let (beside, busy) = with(forever(vec![compute(13), Op::Sleep(TimeDistribution::Fixed(us(90)))]));
    assert!((0.2..0.8).contains(&busy), "{busy}");
    let expected = 1.0 - 0.38 * busy;
    assert!(
        (beside / alone - expected).abs() < 0.03,
        "{} of {expected} beside one that is busy {busy}",
        beside / alone
    );
}

#[test]
fn exits_alone_are_progress_and_events_that_cost_nothing_are_not() {
    let loops = scenario(1, VmSpec::new("a", 1).running(forever(vec![Op::Hypercall(1), Op::Count])));
    let long = Scenario { duration: us(3_000_000), ..loops.clone() };
    assert!(outcome(&long).vms[0].work.count > 1_000_000);
    let mut free = loops;
    for (name, _) in exitscope_scenario::CostModel::ROWS {
        free.costs.get_mut(name).unwrap().time = Picos::ZERO;
    }
    let stands = run(&free, Unseen, Limits::default());
    assert!(matches!(stands, Err(SimError::StandsStill { .. })), "{stands:?}");
}

#[test]
fn without_a_gap_the_processor_notices_no_spinning() {
    let mut vm = VmSpec::new("a", 4).running(forever(vec![Op::Lock(0), compute(20), Op::Unlock(0), Op::Count]));
    vm.locks.push("l".to_string());
    let mut noticed = scenario(2, vm);
    let exits_of = |scenario: &Scenario| exits(&outcome(scenario), "PAUSE loop");
    assert!(exits_of(&noticed) > 0);
    noticed.vms[0].policies.yielding.ple_gap = 0;
    assert_eq!(exits_of(&noticed), 0);
}

/// vCPUs that do nothing but accesses that user space serves, under one lock.
fn under_one_lock(vcpus: u32, cpus: u32) -> SimOutcome {
    let access = Op::Port { port: 0x80, size: 1, write: true, string: false };
    let mut vm = VmSpec::new("a", vcpus).running(forever(vec![access, Op::Count]));
    vm.policies.exit_path.device_lock = DeviceLock::Big;
    outcome(&scenario(cpus, vm))
}

#[test]
fn a_second_vcpu_under_one_lock_adds_what_is_done_outside_it_and_no_more() {
    let [one, two, three] = [1, 2, 3].map(|vcpus| under_one_lock(vcpus, vcpus).vms[0].work.count);
    assert!(two > one, "{one} {two}");
    // With the lock always held, a turn is what is done under it and the hand-over.
    let costs = Scenario::new("test", HostSpec::new(1)).costs;
    let turn = costs.user_lock.time.0 + costs.device.time.0 + costs.lock_transfer.time.0;
    assert!(three.abs_diff(us(100_000).0 / turn) < three / 50, "{three} {turn}");
}

#[test]
fn with_exits_that_are_spread_one_lock_costs_more_the_more_vcpus_share_it() {
    let access = Op::Port { port: 0x80, size: 1, write: true, string: false };
    // How long each access and its computing take, and which part of the accesses finds the lock held.
    let under = |vcpus: u32, spread: Option<[u32; 2]>| {
        let program = forever(vec![compute(20), access.clone(), Op::Count]);
        let mut vm = VmSpec::new("a", vcpus).running(program);
        vm.policies.exit_path.device_lock = DeviceLock::Big;
        let mut scenario = scenario(vcpus, vm);
        scenario.costs.exit_spread =
            spread.map(|[p5, p95]| ExitSpread { p5, p95, origin: CostOrigin::Assumed, source: "test".to_string() });
        let outcome = outcome(&scenario);
        let accesses = outcome.vms[0].work.count as f64;
        (f64::from(vcpus) * 100_000_000.0 / accesses, outcome.big_lock_waits as f64 / accesses)
    };
    let constant = [1, 2, 4, 8].map(|vcpus| under(vcpus, None));
    let least = constant[0].0;
    assert!(constant.iter().all(|(ns, waits)| (ns / least - 1.0).abs() < 0.01 && *waits < 0.01), "{constant:?}");
    let spread = [1, 2, 4, 8].map(|vcpus| under(vcpus, Some([800, 2_000])));
    assert!(spread[0].0 > least, "more exits are much longer than much shorter: {spread:?}");
    assert!(spread.is_sorted_by(|less, more| less.0 < more.0 && less.1 < more.1), "{spread:?}");
    assert!(spread[3].1 > 0.1, "{spread:?}");
    assert_eq!(under(8, Some([1_000, 1_000])), constant[3]);
}

#[test]
fn a_delay_is_as_long_at_every_exit_however_those_are_spread() {
    let access = Op::Port { port: 0x80, size: 1, write: true, string: false };
    let exits = |delay: u64| {
        let mut scenario = scenario(1, VmSpec::new("a", 1).running(forever(vec![access.clone(), Op::Count])));
        scenario.costs.delay.time = us(delay);
        let source = "test".to_string();
        scenario.costs.exit_spread = Some(ExitSpread { p5: 500, p95: 4_000, origin: CostOrigin::Assumed, source });
        100_000.0 / outcome(&scenario).vms[0].work.count as f64
    };
    let [without, with] = [exits(0), exits(100)];
    assert!((with - without - 100.0).abs() < 1.0, "{without} us, with a delay of 100 us {with} us");
}

#[test]
fn whoever_sleeps_for_the_lock_gets_it_in_the_end() {
    let run = under_one_lock(6, 2);
    assert!(run.big_lock_waits > 0);
    assert!(run.vms[0].work.count > 0);
}

#[test]
fn setting_a_timer_is_an_exit_where_the_timer_is_an_msr() {
    let sleeper = || VmSpec::new("a", 1).running(forever(vec![Op::Sleep(TimeDistribution::Fixed(us(100))), Op::Count]));
    for (arch, expected) in [(Arch::Vmx, true), (Arch::Svm, true), (Arch::S390, false), (Arch::Powerpc, false)] {
        let mut scenario = scenario(1, sleeper());
        scenario.host.arch = arch;
        let outcome = outcome(&scenario);
        let (count, set) = (outcome.vms[0].work.count, exits(&outcome, "timer set"));
        assert!(count > 500, "{arch:?}: {count}");
        assert!(if expected { set.abs_diff(count) <= 1 } else { set == 0 }, "{arch:?}: {set} of {count}");
    }
}

#[test]
fn a_powerpc_guest_confers_to_a_holder_that_lost_its_cpu_and_to_no_other() {
    let contended = |cpus, spin| {
        let steps = vec![Op::Lock(0), compute(50), Op::Unlock(0), compute(50), Op::Count];
        let mut vm = VmSpec::new("a", 4).running(forever(steps));
        vm.locks = vec!["l".to_string()];
        vm.spin = spin;
        let mut scenario = scenario(cpus, vm);
        scenario.host.arch = Arch::Powerpc;
        outcome(&scenario)
    };
    let alone = contended(4, SpinWait::Confer);
    assert_eq!(exits(&alone, "H_CONFER"), 0);
    let crowded = contended(2, SpinWait::Confer);
    let calls = exits(&crowded, "H_CONFER");
    assert!(calls > 0 && exits(&crowded, "PAUSE loop") == 0, "{calls}");
    assert!(crowded.yields.directed > 0);
}

#[test]
fn messages_that_nobody_receives_end_a_run_with_a_word() {
    let vm = VmSpec::new("a", 1).running(forever(vec![compute(1), Op::Send(0)]));
    let mut scenario = scenario(1, vm);
    scenario.channels.push(Channel::new("lost"));
    let limits = Limits { messages: 1_000, ..Limits::default() };
    let error = run(&scenario, Unseen, limits).unwrap_err();
    assert!(matches!(&error, SimError::Flooded { channel, waiting: 1_001, .. } if channel == "lost"), "{error}");
    assert!(error.to_string().ends_with("no program receives from it"), "{error}");
}

#[test]
fn a_core_that_may_split_for_one_run_takes_preempted_virtual_cores_in_where_they_fit() {
    // Two virtual cores of `width` threads on one core of eight, which all run at full speed.
    let work = |width: u32, modes: u32, one_vm: bool, vms: u32| {
        let mut vm = VmSpec::new("a", width * 2 / vms).running(forever(vec![compute(10), Op::Count]));
        vm.copies = vms;
        vm.policies.vcore.smt_mode = width;
        let mut scenario = scenario(1, vm);
        (scenario.host.arch, scenario.host.threads, scenario.host.ganged) = (Arch::Powerpc, 8, true);
        scenario.host.smt_speed = vec![1_000; 8];
        scenario.policies.vcore.dynamic_mt_modes = modes;
        scenario.policies.vcore.one_vm_per_core = one_vm;
        outcome(&scenario).vms[0].work.count
    };
    let turns = work(4, 0, false, 2);
    let at_once = |work: u64| work > turns * 19 / 10;
    assert!(at_once(work(4, 6, false, 2)) && at_once(work(4, 2, false, 2)));
    // Split into four, there is no room for four threads each.
    assert!(!at_once(work(4, 4, false, 2)));
    assert!(!at_once(work(4, 6, true, 2)));
    assert!(at_once(work(4, 6, true, 1)));
    assert_eq!(work(8, 6, false, 2), work(8, 0, false, 2));
}
