//! Facts about yields, and their replay, where the right answer is known.

use exitscope_analysis::replay::{MACHINE, SpinModel, SpinOutcome, SpinReplay, SpinSurvey};
use exitscope_analysis::{Timeline, YieldFacts};
use exitscope_model::{
    PleUpdate, Preemption, RunQueueInterval, RunnableSiblings, TargetState, VcpuIdentity, Yield, YieldCall,
    YieldRecipient,
};
use exitscope_policy::yielding::{DiagnoseSupport, Generation, Params};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use proptest::prelude::*;

const CALLS: [YieldCall; 4] = [YieldCall::Pause, YieldCall::Diag9c, YieldCall::Confer, YieldCall::KickCpu];
const PLACES: [TargetState; 5] =
    [TargetState::Running, TargetState::Preempted, TargetState::Runnable, TargetState::Halted, TargetState::Unknown];
const GAVE: [YieldRecipient; 5] = [
    YieldRecipient::Target,
    YieldRecipient::Sibling,
    YieldRecipient::Other,
    YieldRecipient::Nobody,
    YieldRecipient::Unknown,
];

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(1), vcpu: VcpuId(vcpu), tid: Tid(10 + vcpu) }
}

/// What somebody said: a yield, a preemption, a stay of the run queue, a window.
type Said = (u32, u64, u64, (usize, usize, usize), u32);

fn absorb(facts: &mut YieldFacts, &(vcpu, begin, length, (call, place, gave), waiting): &Said) {
    let named = waiting % 2 == 0;
    facts.absorb(&Yield {
        who: who(vcpu),
        at: at(begin),
        call: CALLS[call],
        target: named.then_some(VcpuId(waiting)),
        target_state: PLACES[place],
        found: named.then_some(RunnableSiblings { preempted: waiting % 3, woken: waiting % 5 }),
        guest: Nanos(length / 2),
        again: waiting % 3 == 1,
        was_out: false,
        window: None,
        recipient: GAVE[gave],
        waited: Nanos(length / 4),
        entered: (waiting % 7 > 0).then_some(at(begin + length)),
    });
    facts.absorb_preemption(&Preemption {
        who: who(vcpu),
        at: at(begin),
        ran: named.then_some(at(begin + length)),
        yields: waiting,
        first: (waiting > 0).then_some(at(begin + length / 3)),
        by: None,
        yielded: false,
    });
    facts.absorb_stay(&RunQueueInterval { from: at(begin), to: at(begin + length), waiting });
    facts.absorb_window(&PleUpdate { who: who(vcpu), at: at(begin), new: waiting * 9, old: length as u32 });
}

fn any_said() -> impl Strategy<Value = Said> {
    (0u32..3, 0u64..1 << 34, 0u64..1 << 20, (0..CALLS.len(), 0..5usize, 0..5usize), 0u32..12)
}

proptest! {
    #[test]
    fn yields_merge_in_any_order(said in prop::collection::vec(any_said(), 0..60), cut in 0usize..60) {
        let of = |said: &[Said]| {
            let mut facts = YieldFacts::default();
            said.iter().for_each(|said| absorb(&mut facts, said));
            facts
        };
        let whole = of(&said);
        let (left, right) = said.split_at(cut.min(said.len()));
        let mut merged = of(right);
        merged.merge(&of(left));
        prop_assert_eq!(&merged.vcpus, &whole.vcpus);
        prop_assert_eq!(&merged.targets, &whole.targets);
        prop_assert_eq!(&merged.preempted, &whole.preempted);
        prop_assert_eq!(merged.longest(), whole.longest());
        prop_assert_eq!(&merged.windows, &whole.windows);
        prop_assert_eq!((merged.queue.time, merged.queue.waited), (whole.queue.time, whole.queue.waited));
        prop_assert_eq!(merged.queue.timeline.buckets(), whole.queue.timeline.buckets());
        let all = whole.all(|_| true);
        prop_assert_eq!(all.count, said.len() as u64);
        prop_assert_eq!(all.gave.iter().sum::<u64>(), all.count);
        prop_assert!(all.known() <= all.count);
        let lasted: u64 = said.iter().map(|said| said.2).sum();
        prop_assert_eq!(whole.queue.span(), lasted);
    }

    #[test]
    fn what_is_spread_over_a_timeline_is_all_there(
        stretches in prop::collection::vec((0u64..1 << 36, 0u64..1 << 30, 0u64..20), 0..40)
    ) {
        let mut timeline = Timeline::of_at_most(56);
        stretches.iter().for_each(|&(from, length, weight)| timeline.spread(at(from), at(from + length), weight));
        let mut backwards = Timeline::of_at_most(56);
        stretches.iter().rev().for_each(|&(from, length, weight)| backwards.spread(at(from), at(from + length), weight));
        prop_assert_eq!(timeline.buckets(), backwards.buckets());
        let (width, buckets) = timeline.buckets();
        let sum = |of: fn(&exitscope_analysis::Bucket) -> u64| buckets.iter().map(|row| of(&row.1)).sum::<u64>();
        prop_assert_eq!(sum(|bucket| bucket.count), stretches.iter().map(|row| row.1).sum::<u64>());
        prop_assert_eq!(sum(|bucket| bucket.cost), stretches.iter().map(|row| row.1 * row.2).sum::<u64>());
        // One stretch after the other fills a bucket at most once.
        let once = stretches.len() as u64;
        prop_assert!(buckets.len() <= 56 && buckets.iter().all(|row| row.1.count <= width * once.max(1)));
    }
}

/// A look takes 5 ns, so a round of 1001 looks (spin_retry 1000, X'44') 5005 ns; a yield takes 1 us in the kernel.
const ROUND: u64 = 5_005;
const COST: u64 = 1_000;

/// Yields one after the other, each after a round; at which of them a sibling was preempted, and what the last one gave.
fn wait(call: YieldCall, rounds: &[u64], could_help: impl Fn(usize) -> bool, gave: YieldRecipient) -> Vec<Yield> {
    let mut now = 1_000_000;
    let one = |(number, &guest): (usize, &u64)| {
        now += guest + COST;
        let gave = if number + 1 == rounds.len() { gave } else { YieldRecipient::Nobody };
        Yield {
            who: who(0),
            at: at(now - COST),
            call,
            target: None,
            target_state: TargetState::Unknown,
            found: Some(RunnableSiblings { preempted: u32::from(could_help(number)), woken: 0 }),
            guest: Nanos(guest),
            again: number > 0,
            was_out: number == 0,
            window: None,
            recipient: gave,
            waited: Nanos::ZERO,
            entered: Some(at(now)),
        }
    };
    rounds.iter().enumerate().map(one).collect()
}

/// A vCPU that is preempted runs after 4 ms if nobody yields, after 1 ms from the first yield.
fn preemptions() -> [Preemption; 2] {
    let one = |first| Preemption {
        who: who(1),
        at: at(0),
        ran: Some(at(4_000_000)),
        yields: 0,
        first,
        by: None,
        yielded: false,
    };
    [one(None), one(Some(at(3_000_000)))]
}

fn replayed(yields: &[Yield], configurations: &[SpinModel]) -> (SpinOutcome, Vec<SpinOutcome>) {
    let mut survey = SpinSurvey::default();
    yields.iter().for_each(|of| survey.absorb(of));
    preemptions().iter().for_each(|of| survey.absorb_preemption(of));
    let call = survey.main_call().unwrap();
    let in_force = survey.in_force(call);
    let typical = survey.typical(&in_force).unwrap();
    let mut replay = SpinReplay::new(call, in_force, typical, configurations);
    yields.iter().for_each(|of| replay.absorb(of));
    replay.finish();
    (replay.recorded, replay.outcomes().copied().collect())
}

fn code(spin_generation: Generation, spin_retry: u32, machine: DiagnoseSupport) -> SpinModel {
    SpinModel::Code(Params { spin_generation, spin_retry, ..Params::default() }, machine)
}

fn windows(ple_window: u32) -> SpinModel {
    SpinModel::Vmx(Params { ple_window, ..Params::default() })
}

/// Within the 1/32 to which percentiles are known.
fn about(seen: i64, expected: i64) -> bool {
    (seen - expected).abs() <= expected.abs() / 16 + 1_000
}

#[test]
fn stays_of_the_run_queue_that_exceed_all_time_count_as_much_as_fits() {
    let mut facts = YieldFacts::default();
    for _ in 0..2 {
        for waiting in [0, 1, 20] {
            facts.absorb_stay(&RunQueueInterval { from: at(1), to: at(u64::MAX), waiting });
        }
    }
    let again = facts.clone();
    facts.merge(&again);
    assert_eq!((facts.queue.time[0], facts.queue.waited, facts.queue.span()), (u64::MAX, u64::MAX, u64::MAX));
}

#[test]
fn the_lock_code_in_force_yields_as_it_did() {
    let yields = wait(YieldCall::Diag44, &[ROUND; 20], |_| false, YieldRecipient::Nobody);
    let (recorded, outcomes) = replayed(&yields, &[code(Generation::L1b, 1_000, MACHINE)]);
    assert_eq!((recorded.yields, recorded.in_vain, recorded.cost), (20, 20, 20 * COST));
    assert!((19..=20).contains(&outcomes[0].yields), "{outcomes:?}");
    assert!(about(outcomes[0].most, 0) && about(outcomes[0].least, 0));
}

#[test]
fn where_nobody_is_preempted_to_say_nothing_wins_the_yields_time_and_sensing_makes_none() {
    let yields = wait(YieldCall::Diag9c, &[ROUND + 5; 20], |_| false, YieldRecipient::Nobody);
    let sensing = DiagnoseSupport { sense_running: true, lpar: true, ..MACHINE };
    let configurations =
        [SpinModel::Never, code(Generation::Classic, 1_000, sensing), code(Generation::L2, 100, MACHINE)];
    let (recorded, outcomes) = replayed(&yields, &configurations);
    assert_eq!(recorded.in_vain, 20);
    for quiet in &outcomes[..2] {
        assert_eq!((quiet.yields, quiet.least), (0, quiet.most));
        assert!(about(quiet.most, 20 * COST as i64), "{quiet:?}");
    }
    assert!(outcomes[1].not_made >= 19, "asked each time whether the owner runs");
    assert!(outcomes[2].yields > 60 && outcomes[2].most < -40_000, "{outcomes:?}");
}

#[test]
fn naming_the_holder_ends_a_wait_that_an_undirected_yield_did_not() {
    let yields = wait(YieldCall::Diag44, &[ROUND; 20], |_| true, YieldRecipient::Other);
    let (_, outcomes) =
        replayed(&yields, &[code(Generation::L2, 1_000, MACHINE), code(Generation::L1b, 1_000, MACHINE)]);
    assert_eq!((outcomes[0].yields, outcomes[0].in_vain), (1, 0));
    // The 19 yields that are not made; at most also what vCPUs wait after the first yield.
    assert!(about(outcomes[0].least, 19_000) && about(outcomes[0].most, 1_019_000), "{outcomes:?}");
    assert!(outcomes[1].yields >= 19 && about(outcomes[1].most, 0), "{outcomes:?}");
}

#[test]
fn who_yields_later_than_what_helped_loses_the_difference_and_who_never_does_loses_more() {
    let yields = wait(YieldCall::Diag9c, &[ROUND + 5; 3], |number| number == 2, YieldRecipient::Sibling);
    let later = code(Generation::L2, 10_000, MACHINE);
    let (_, outcomes) = replayed(&yields, &[later, SpinModel::Never]);
    let (then, now) = (3 * (ROUND as i64 + 5) + 2 * COST as i64, 10_001 * 5);
    assert!(about(outcomes[0].least, then - now + 2_000), "{outcomes:?}");
    assert_eq!((outcomes[0].yields, outcomes[0].least), (1, outcomes[0].most));
    assert!(about(outcomes[1].least, -4_000_000 + 3_000) && about(outcomes[1].most, 3_000), "{outcomes:?}");
}

#[test]
fn windows_of_pause_loops_grow_as_kvm_makes_them() {
    // At 1 ns a cycle: 4096, 8192, 16384 and 32768.
    let rounds = [4_096, 8_192, 16_384, 32_768];
    let yields = wait(YieldCall::Pause, &rounds, |_| false, YieldRecipient::Nobody);
    let (recorded, outcomes) = replayed(&yields, &[windows(4_096), windows(131_072), windows(1_024)]);
    assert_eq!(recorded.yields, 4);
    // 61,440 ns of spinning and four yields of 1 us in all.
    assert_eq!(outcomes.iter().map(|of| of.yields).collect::<Vec<_>>(), [4, 0, 5]);
    // Traced, the base is known: at 8192 the same times are half as many.
    let traced = |window| {
        let yields: Vec<Yield> =
            yields.iter().zip(0..).map(|(of, number)| Yield { window: Some(8_192 << number), ..*of }).collect();
        replayed(&yields, &[windows(window)]).1[0].yields
    };
    assert_eq!((traced(8_192), traced(4_096), traced(1 << 20)), (4, 4, 0));
}

#[test]
fn there_is_nothing_to_replay_without_two_yields_in_a_row_or_by_calls_that_no_knob_moves() {
    let mut survey = SpinSurvey::default();
    wait(YieldCall::Confer, &[ROUND; 3], |_| true, YieldRecipient::Sibling).iter().for_each(|of| survey.absorb(of));
    assert_eq!(survey.main_call(), None);
    wait(YieldCall::Pause, &[ROUND], |_| true, YieldRecipient::Sibling).iter().for_each(|of| survey.absorb(of));
    assert_eq!(survey.main_call(), Some(YieldCall::Pause));
    assert_eq!(survey.typical(&survey.in_force(YieldCall::Pause)), None);
}

#[test]
fn yields_to_further_vcpus_than_are_kept_are_counted_together() {
    let one = Yield {
        target: Some(VcpuId(0)),
        ..wait(YieldCall::SchedYield, &[ROUND], |_| false, YieldRecipient::Nobody)[0]
    };
    let mut facts = YieldFacts::default();
    let most = exitscope_analysis::MAX_KEYS as u32;
    (0..most).for_each(|vcpu| facts.absorb(&Yield { target: Some(VcpuId(vcpu)), ..one }));
    assert_eq!((facts.targets.len(), facts.other_targets), (most as usize, 0));
    [most, most + 1, 7, most].iter().for_each(|&vcpu| facts.absorb(&Yield { target: Some(VcpuId(vcpu)), ..one }));
    assert_eq!((facts.targets.len(), facts.other_targets), (most as usize, 3));
    let of = |vcpu| facts.targets[&(VmId(1), VcpuId(vcpu), YieldCall::SchedYield)][TargetState::Unknown as usize];
    assert_eq!([of(7), of(8)], [2, 1]);
    let mut twice = facts.clone();
    twice.merge(&facts);
    assert_eq!(twice.other_targets, 6);
}
