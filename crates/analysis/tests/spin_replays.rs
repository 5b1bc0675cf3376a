//! Waits that end in yields, replayed with whole outcomes that are worked out by hand: all lengths are given, none is typical.

use exitscope_analysis::replay::{MACHINE, SpinModel, SpinOutcome, SpinReplay, SpinSurvey, TypicalSpin};
use exitscope_model::{Preemption, RunnableSiblings, TargetState, VcpuIdentity, Yield, YieldCall, YieldRecipient};
use exitscope_policy::yielding::{DiagnoseSupport, Generation, Params};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

use YieldCall::{Confer, Diag9c, Diag44, Pause, PauseFilter};

/// A cycle, or a look, takes 2 ns, a yield 3 us; who was preempted runs 70 us after the first yield for it, or after 900 us.
const TYPICAL: TypicalSpin = TypicalSpin { unit: 2_000, cost: 3_000_000, blocked: 70_000_000, unhelped: 900_000_000 };

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn who(vcpu: u32) -> VcpuIdentity {
    VcpuIdentity { vm: VmId(1), vcpu: VcpuId(vcpu), tid: Tid(10 + vcpu) }
}

/// A yield after so long in the guest that lasts 2,900 ns, of which 400 without a CPU; nobody waits, and nobody gets the CPU.
fn one(call: YieldCall, guest: u64, again: bool) -> Yield {
    Yield {
        who: who(0),
        at: at(5_000),
        call,
        target: None,
        target_state: TargetState::Unknown,
        found: Some(RunnableSiblings { preempted: 0, woken: 3 }),
        guest: Nanos(guest),
        again,
        was_out: false,
        window: None,
        recipient: YieldRecipient::Nobody,
        waited: Nanos(400),
        entered: Some(at(7_900)),
    }
}

/// The same, when a sibling had lost its CPU.
fn helpful(of: Yield) -> Yield {
    Yield { found: Some(RunnableSiblings { preempted: 2, woken: 0 }), ..of }
}

/// Four yields of one wait, each after 1 us: when the vCPU has waited 1, 5, 9 and 13 us of its own time. It ends after 16.
fn four(call: YieldCall) -> [Yield; 4] {
    [one(call, 5_000, false), one(call, 1_000, true), one(call, 1_000, true), one(call, 1_000, true)]
}

/// Windows of so many cycles that never grow.
fn window(ple_window: u32) -> SpinModel {
    SpinModel::Vmx(Params { ple_window, ple_window_grow: 0, ..Params::default() })
}

fn code(spin_generation: Generation, spin_retry: u32, machine: DiagnoseSupport) -> SpinModel {
    SpinModel::Code(Params { spin_generation, spin_retry, ..Params::default() }, machine)
}

/// How many waits there were, what was recorded, and what each configuration makes of it.
fn replayed(
    in_force: SpinModel,
    yields: &[Yield],
    configurations: &[SpinModel],
) -> (u64, SpinOutcome, Vec<SpinOutcome>) {
    let mut replay = SpinReplay::new(yields[0].call, in_force, TYPICAL, configurations);
    yields.iter().for_each(|of| replay.absorb(of));
    replay.finish();
    (replay.waits, replay.recorded, replay.outcomes().copied().collect())
}

/// Yields, those in vain and those not made; time won at least and at most, in nanoseconds.
fn outcome(yields: u64, in_vain: u64, not_made: u64, least: i64, most: i64) -> SpinOutcome {
    SpinOutcome { yields, in_vain, not_made, cost: yields * 3_000, least, most }
}

#[test]
fn who_yields_less_often_in_vain_wins_the_time_of_the_yields() {
    let windows = [500, 1_000, 8_000, 8_001].map(window);
    let (waits, recorded, outcomes) = replayed(window(500), &four(Pause), &windows);
    // 2,500 ns each in the kernel.
    let expected = SpinOutcome { yields: 4, in_vain: 4, cost: 10_000, ..SpinOutcome::default() };
    assert_eq!((waits, recorded), (1, expected));
    // After 1, 5, 9 and 13 us; after 2, 7 and 12; once after 16 us, when the wait ends; never.
    let expected = [
        outcome(4, 4, 0, 0, 0),
        outcome(3, 3, 0, 3_000, 3_000),
        outcome(1, 1, 0, 9_000, 9_000),
        outcome(0, 0, 0, 12_000, 12_000),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_yield_is_in_vain_where_the_recorded_one_that_came_next_found_nobody() {
    let [first, second, third, fourth] = four(Pause);
    let (_, recorded, outcomes) =
        replayed(window(500), &[first, second, helpful(third), fourth], &[500, 1_000].map(window));
    assert_eq!((recorded.yields, recorded.in_vain), (4, 3));
    // Of those after 2, 7 and 12 us only the second comes before the one after 9 us and after that after 5.
    assert_eq!(outcomes, [outcome(4, 3, 0, 0, 0), outcome(3, 2, 0, 3_000, 3_000)]);
}

#[test]
fn what_helped_helps_again_sooner_or_later_and_who_never_yields_waits_until_a_cpu_is_free() {
    let [first, second, third, fourth] = four(Pause);
    let last = Yield { recipient: YieldRecipient::Sibling, ..helpful(fourth) };
    let windows = [500, 1_000, 3_000, 458_000, 458_001].map(window);
    let configurations = [&windows[..], &[SpinModel::Never]].concat();
    let (waits, recorded, outcomes) = replayed(window(500), &[first, helpful(second), third, last], &configurations);
    assert_eq!((waits, recorded.yields, recorded.in_vain), (1, 4, 2));
    let expected = [
        outcome(4, 2, 0, 0, 0),
        // After 2, 7 and 12 us: a microsecond sooner, and a yield less.
        outcome(3, 1, 0, 3_000, 4_000),
        // After 6 and 15 us: two microseconds later, and two yields less.
        outcome(2, 1, 0, 4_000, 4_000),
        // When it would have gone on without: 900 us after the 16.
        outcome(1, 0, 0, 9_000 - 903_000, 9_000 - 903_000),
        outcome(0, 0, 0, 12_000 - 900_000, 12_000),
        outcome(0, 0, 0, 12_000 - 900_000, 12_000),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn lock_code_that_names_the_holder_ends_a_wait_at_the_first_yield_that_could() {
    let [first, second, third, fourth] = four(Diag44);
    let yields = [first, helpful(second), helpful(third), fourth];
    // Of 499 looks before the first call and 500 before each other.
    let in_force = code(Generation::L1b, 499, MACHINE);
    let directed = [499, 1_499, 2_999, 4_999].map(|looks| code(Generation::L2, looks, MACHINE));
    let (waits, recorded, outcomes) = replayed(in_force, &yields, &[&[in_force], &directed[..]].concat());
    assert_eq!((waits, recorded.yields, recorded.in_vain), (1, 4, 2));
    let expected = [
        // After 0.998, 4.998, 8.998 and 12.998 us: no yield that names nobody helps where none did.
        outcome(4, 2, 0, 0, 0),
        // The second, 2 ns sooner than the recorded one: at most who was preempted runs 70 us sooner as well.
        outcome(2, 1, 0, 6_000, 6_000 + 70_000 + 2),
        // After 2.998 us.
        outcome(1, 0, 0, 9_000, 9_000 + 70_000 + 2_002),
        // After 5.998 us, later than the first that could have helped.
        outcome(1, 0, 0, 9_000, 9_000 + 70_000),
        // After 9.998 us, when nobody is preempted any more.
        outcome(1, 1, 0, 9_000, 9_000),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn lock_code_that_senses_yields_only_to_who_does_not_run() {
    let [first, second, third, fourth] = four(Diag44);
    let yields = [first, helpful(second), helpful(third), fourth];
    let sensing = DiagnoseSupport { sense_running: true, lpar: true, ..MACHINE };
    let classic = code(Generation::Classic, 498, sensing);
    let (_, _, outcomes) = replayed(code(Generation::L1b, 499, MACHINE), &yields, &[classic]);
    // At once and after 1 us the owner runs; after 2 us it does not, 3 us sooner than the recorded yield.
    assert_eq!(outcomes, [outcome(1, 0, 2, 9_000, 9_000 + 70_000 + 3_000)]);
}

#[test]
fn who_does_not_name_the_holder_any_more_may_help_somebody_else() {
    let [first, second, third, fourth] = four(Diag9c);
    let last = Yield { recipient: YieldRecipient::Target, target_state: TargetState::Preempted, found: None, ..fourth };
    let configurations = [Generation::L1b, Generation::L2].map(|generation| code(generation, 499, MACHINE));
    let (_, recorded, outcomes) = replayed(configurations[1], &[first, second, third, last], &configurations);
    assert_eq!((recorded.yields, recorded.in_vain), (4, 3));
    // 2 ns sooner.
    assert_eq!(outcomes, [outcome(4, 3, 0, -900_000, 2), outcome(4, 3, 0, 0, 2)]);
}

#[test]
fn windows_grow_with_each_yield_and_shrink_where_the_vcpu_had_been_switched_out() {
    let grows = |ple_window| SpinModel::Vmx(Params { ple_window, ..Params::default() });
    let out = |of: Yield| Yield { was_out: true, ..of };
    // Windows of 500, 1,000, 500 again, and 1,000: after 1, 6, 10 and 15 us, until 18. Then another wait: after 0.7 us.
    let yields = [
        one(Pause, 5_000, false),
        one(Pause, 2_000, true),
        out(one(Pause, 1_000, true)),
        one(Pause, 2_000, true),
        out(one(Pause, 700, false)),
    ];
    let (waits, _, outcomes) = replayed(grows(500), &yields, &[grows(500), grows(300)]);
    assert_eq!(waits, 2);
    // With 300: after 0.6, 4.8, 8.4, 12.6 and 18 us; then after 0.6 us.
    assert_eq!(outcomes, [outcome(5, 5, 0, 0, 0), outcome(6, 6, 0, -3_000, -3_000)]);
}

#[test]
fn a_wait_goes_on_while_the_next_yield_comes_within_two_rounds() {
    for (what, second, waits) in [
        ("a round later", one(Pause, 1_000, true), 1),
        ("two rounds later", one(Pause, 2_000, true), 1),
        ("later than that", one(Pause, 2_001, true), 2),
        ("after another exit", one(Pause, 1_000, false), 2),
        ("of another vCPU", Yield { who: who(1), ..one(Pause, 1_000, true) }, 2),
        ("of another call, which is not replayed", one(PauseFilter, 1_000, true), 1),
        ("of another call, which no knob moves", one(Confer, 1_000, true), 1),
    ] {
        assert_eq!(replayed(window(500), &[one(Pause, 5_000, false), second], &[]).0, waits, "{what}");
    }
    // One that helped ends it.
    for (what, first, waits) in [
        (
            "it gave a sibling the CPU",
            Yield { recipient: YieldRecipient::Sibling, ..helpful(one(Pause, 5_000, false)) },
            2,
        ),
        (
            "it gave the one that was named the CPU",
            Yield { recipient: YieldRecipient::Target, ..helpful(one(Pause, 5_000, false)) },
            2,
        ),
        (
            "it gave somebody else the CPU",
            Yield { recipient: YieldRecipient::Other, ..helpful(one(Pause, 5_000, false)) },
            1,
        ),
        ("the sibling had its CPU", Yield { recipient: YieldRecipient::Sibling, ..one(Pause, 5_000, false) }, 1),
        (
            "the one that was named had its CPU",
            Yield {
                recipient: YieldRecipient::Target,
                target_state: TargetState::Running,
                ..helpful(one(Pause, 5_000, false))
            },
            1,
        ),
    ] {
        assert_eq!(replayed(window(500), &[first, one(Pause, 1_000, true)], &[]).0, waits, "{what}");
    }
    // Lock code has two calls.
    let both = [one(Diag44, 5_000, false), one(Diag9c, 1_000, true), one(Pause, 1_000, true)];
    let (waits, recorded, _) = replayed(code(Generation::L1b, 499, MACHINE), &both, &[]);
    assert_eq!((waits, recorded.yields), (1, 2));
}

#[test]
fn nobody_yields_where_loops_are_not_looked_for() {
    let vmx = |ple_gap| SpinModel::Vmx(Params { ple_gap, ple_window: 500, ple_window_grow: 0, ..Params::default() });
    let svm = |pause_filter_count, pause_filter_thresh| {
        SpinModel::Svm(Params {
            pause_filter_count,
            pause_filter_thresh,
            pause_filter_count_grow: 0,
            ..Params::default()
        })
    };
    let configurations = [vmx(0), vmx(7), svm(0, 7), svm(500, 0), svm(500, 7)];
    let (_, _, outcomes) = replayed(window(500), &four(Pause), &configurations);
    assert_eq!(outcomes.iter().map(|of| of.yields).collect::<Vec<_>>(), [0, 4, 0, 0, 4]);
}

#[test]
fn a_wait_of_more_yields_than_are_kept_is_cut() {
    const MOST: usize = 1 << 16;
    let many = |count: usize| {
        let mut yields = vec![one(Pause, 1_000, true); count];
        yields[0].again = false;
        replayed(window(500), &yields, &[window(1)])
    };
    let (waits, recorded, outcomes) = many(MOST);
    // A yield every 3,002 ns instead of 4,000 would be more than are replayed.
    assert_eq!((waits, recorded.yields, outcomes[0].yields), (1, MOST as u64, MOST as u64));
    assert_eq!(many(MOST + 1).0, 2);
}

fn survey(yields: &[Yield], preemptions: &[Preemption]) -> SpinSurvey {
    let mut survey = SpinSurvey::default();
    yields.iter().for_each(|of| survey.absorb(of));
    preemptions.iter().for_each(|of| survey.absorb_preemption(of));
    survey
}

fn lost(begin: u64, first: Option<u64>, ran: Option<u64>) -> Preemption {
    Preemption {
        who: who(1),
        at: at(begin),
        ran: ran.map(at),
        yields: 1,
        first: first.map(at),
        by: None,
        yielded: false,
    }
}

#[test]
fn lengths_are_typical_where_they_are_the_shortest_the_median_or_the_mean() {
    // Rounds of 1,001 looks at 5 ns; a longer one holds something else as well.
    let rounds = [one(Diag44, 90, false), one(Diag44, 5_005, true), one(Diag44, 9_000, true)];
    let lasting = Yield { entered: Some(at(9_900)), ..one(Diag44, 7_000, true) };
    let yields = [&rounds[..], &[lasting, Yield { found: None, ..lasting }]].concat();
    // Blocked for 300 and 500 ns; for 4,000 and 9,000 where nobody yields. One is not seen to run again.
    let preemptions = [
        lost(100, Some(200), Some(500)),
        lost(100, Some(400), Some(900)),
        lost(100, None, Some(4_100)),
        lost(100, None, Some(9_100)),
        lost(100, None, None),
    ];
    let survey_of = survey(&yields, &preemptions);
    let in_force = survey_of.in_force(Diag44);
    assert_eq!(in_force, code(Generation::L1b, 1_000, MACHINE));
    let expected = TypicalSpin { unit: 5_000, cost: 2_500_000, blocked: 400_000, unhelped: 6_500_000 };
    assert_eq!(survey_of.typical(&in_force), Some(expected));
    assert_eq!((survey_of.known, survey_of.calls.get(&Diag44)), (4, Some(&5)));
    // Where nothing says how long one waits for whom nobody yields, it is as long as one for whom somebody does.
    let survey_of = survey(&yields, &preemptions[..2]);
    assert_eq!(survey_of.typical(&in_force).map(|of| (of.blocked, of.unhelped)), Some((400_000, 400_000)));
    // A yield costs 100 ns at least; today's lock code calls after 1,002 looks.
    let cheap = Yield { entered: None, ..one(Diag9c, 5_010, true) };
    let survey_of = survey(&[cheap], &[]);
    let in_force = survey_of.in_force(Diag9c);
    assert_eq!(in_force, SpinModel::Code(Params::default(), MACHINE));
    let expected = TypicalSpin { unit: 5_000, cost: 100_000, blocked: 0, unhelped: 0 };
    assert_eq!(survey_of.typical(&in_force), Some(expected));
    // Without a round, or of one that takes no time, there is nothing typical.
    assert_eq!(survey(&[one(Diag9c, 5_010, false)], &[]).typical(&in_force), None);
    assert_eq!(survey(&[one(Diag9c, 0, true)], &[]).typical(&in_force), None);
}

#[test]
fn windows_stay_as_they_are_where_the_time_between_yields_does() {
    for (call, guests, is_static) in [
        (Pause, &[8_200, 8_300][..], true),
        (Pause, &[8_200, 16_400], true),
        (Pause, &[8_200, 16_401], false),
        (PauseFilter, &[6_000, 6_100], true),
        (PauseFilter, &[6_000, 13_000], false),
        (Pause, &[], false),
        (Diag44, &[5_005, 5_005], false),
    ] {
        let mut yields = vec![one(call, 4_100, false)];
        yields.extend(guests.iter().map(|&guest| one(call, guest, true)));
        let survey_of = survey(&yields, &[]);
        assert_eq!(survey_of.is_static(), is_static, "{call:?} {guests:?}");
        let grow = if is_static { 1 } else { 2 };
        let in_force = survey_of.in_force(call);
        match call {
            Pause => assert_eq!(in_force, SpinModel::Vmx(Params { ple_window_grow: grow, ..Params::default() })),
            PauseFilter => {
                assert_eq!(in_force, SpinModel::Svm(Params { pause_filter_count_grow: grow, ..Params::default() }))
            }
            _ => assert_eq!(in_force, code(Generation::L1b, 1_000, MACHINE)),
        }
        let unit = match (call, is_static, guests) {
            // The shortest by 4,096 cycles, or 3,000 PAUSEs.
            (Pause, true, _) => Some(2_001),
            (PauseFilter, true, _) => Some(2_000),
            // Windows that grow are of 8,192 and 16,384 cycles by then, or of 6,000 and 12,000 PAUSEs.
            (Pause, false, &[_, _]) => Some(1_000),
            (PauseFilter, false, _) => Some(1_000),
            (Pause, false, _) => None,
            _ => Some(5_000),
        };
        assert_eq!(survey_of.typical(&in_force).map(|of| of.unit), unit, "{call:?} {guests:?}");
    }
}

#[test]
fn a_window_that_was_traced_is_the_one_in_force() {
    let traced = |call, guest, again, window| Yield { window: Some(window), ..one(call, guest, again) };
    let yields =
        |call| [traced(call, 100, false, 9_000), traced(call, 21_000, true, 7_000), traced(call, 30_000, true, 8_000)];
    for (call, in_force) in [
        (Pause, SpinModel::Vmx(Params { ple_window: 7_000, ..Params::default() })),
        (PauseFilter, SpinModel::Svm(Params { pause_filter_count: 7_000, ..Params::default() })),
    ] {
        let survey_of = survey(&yields(call), &[]);
        assert_eq!((survey_of.least_window, survey_of.is_static()), (Some(7_000), false));
        assert_eq!(survey_of.in_force(call), in_force);
        // 3 ns and 3.75 ns a cycle or PAUSE.
        assert_eq!(survey_of.typical(&in_force).map(|of| of.unit), Some(3_000));
    }
}

#[test]
fn the_call_that_most_yields_are_by_is_one_that_a_knob_moves() {
    let of = |calls: &[(YieldCall, usize)]| {
        let yields: Vec<Yield> =
            calls.iter().flat_map(|&(call, count)| std::iter::repeat_n(one(call, 1_000, true), count)).collect();
        survey(&yields, &[]).main_call()
    };
    assert_eq!(of(&[(Confer, 5), (Pause, 3), (Diag44, 2)]), Some(Pause));
    assert_eq!(of(&[(Confer, 5), (Pause, 3), (Diag9c, 4)]), Some(Diag9c));
    assert_eq!(of(&[(PauseFilter, 1), (YieldCall::SchedYield, 9)]), Some(PauseFilter));
    assert_eq!(of(&[(Diag44, 2), (Diag9c, 1)]), Some(Diag44));
    assert_eq!(of(&[(Confer, 5), (YieldCall::KickCpu, 3)]), None);
}
